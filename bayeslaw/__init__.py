"""Scaling laws as PyMC generative models: from a table of logged losses to a forecast with credible intervals.

The stub file beside this one lists the public names; each is imported when it is first used, so that `import bayeslaw` is quick.
More lies in the packages `bayeslaw.data`, `.schedules`, `.inference`, `.evaluation`, `.design`, `.planning`, `.dynamics` and
`.plots`.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
