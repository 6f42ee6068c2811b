"""How good forecasts are: scores on measured losses, left-out runs, and laws beside each other."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
