"""Tables of runs and training curves: reading, checking and converting them, and the logs they come from."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
