"""Training under a learning-rate schedule: recipes, turning points, runs under way, and out-of-domain losses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
