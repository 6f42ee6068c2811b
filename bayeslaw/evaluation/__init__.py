"""Evaluation of forecasts: scores on held-out losses, leaving runs out, and the comparison of laws."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
