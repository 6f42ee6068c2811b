"""Learning-rate schedules, and the areas under them that laws of training dynamics use."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
