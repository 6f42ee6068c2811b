"""Which runs to buy next, what they are expected to teach, and the refit once they are back."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
