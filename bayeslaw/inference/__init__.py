"""Fits: the PyMC model, sampling, point fits, and many fits at a time."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
