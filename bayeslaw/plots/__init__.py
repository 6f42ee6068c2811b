"""Pictures, one a function. Each draws on matplotlib axes, by default those of a new figure, and returns them; `save_figure` writes
one to a file.

`ci_prob` is the probability of the equal-tailed intervals and bands.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
