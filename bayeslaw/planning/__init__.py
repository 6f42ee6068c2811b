"""Decisions about tokens and replay: plans that keep limits with a probability, allocation, transfer, tuning, recipes compared."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
