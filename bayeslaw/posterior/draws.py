"""The one place where a law's loss is evaluated at draws of its parameters, and where the losses are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import FitError
from bayeslaw.laws.law import Law


@dataclass(frozen=True)
class LawDraws:
    """Draws of a law's parameters, at which its loss is evaluated.

    Attributes
    ----------
    law : Law
    draws : mapping of parameter to array (S,)
        Parameters of the noise may be among them; they are ignored.
    constants : mapping of covariate to float
        Covariates that are the same in every evaluation.
    """

    law: Law
    draws: Mapping[str, Array]
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of draws S."""
        return next(iter(self.draws.values())).size

    def scope(self, covariates: Mapping[str, ArrayLike], draws: Index | slice = slice(None), axes: int = 0) -> dict[str, Any]:
        """Values of all names in the law's formula: parameters, covariates and `let` expressions.

        Parameters
        ----------
        covariates : mapping of covariate to array
            Names that the law does not have are ignored.
        draws : int array (s,) or slice
            The draws to take, by default all.
        axes : int
            How many axes follow that of the draws: parameters have the shape (s, 1, …, 1) with so many ones.
        """
        own = (slice(None), *[None] * axes)
        scope: dict[str, Any] = {name: self.draws[name][draws][own] for name in self.law.parameters}
        scope |= self.constants
        scope |= {k: np.asarray(v, dtype=np.float64) for k, v in covariates.items() if k in self.law.covariates}
        with np.errstate(all="ignore"):
            return self.law.with_let(scope)

    def loss(self, covariates: Mapping[str, ArrayLike], draws: Index | slice = slice(None), axes: int = 0) -> Array:
        """Expected losses, which may be infinite or no number: `check_losses` refuses those.

        Parameters
        ----------
        covariates, draws, axes
            As in `scope`. NumPy broadcasts covariates against parameters (s, 1, …, 1): with `axes=0`, covariates (n, 1) give losses
            (n, s); with `axes=1`, covariates (n,) give losses (s, n).

        Returns
        -------
        array
            Loss in the unit of the fit, in the common shape of parameters and covariates.
        """
        with np.errstate(all="ignore"):
            loss = np.asarray(self.law.loss.evaluate(self.scope(covariates, draws, axes)), dtype=np.float64)
        size = next(iter(self.draws.values()))[draws].size
        return np.broadcast_to(loss, np.broadcast_shapes((size, *[1] * axes), *map(np.shape, covariates.values())))


def check_losses(losses: Array, name: str, settings: Mapping[str, ArrayLike], advice: str = "") -> None:
    """Refuse losses that are not finite and positive, with the share of them and the first setting where one is found.

    Parameters
    ----------
    losses : array
        Losses, not their logarithms.
    name : str
        Of the law or posterior that they come from.
    settings : mapping of name to array
        Where the losses were evaluated, in shapes that broadcast to that of `losses`.
    advice : str
        What to do about it.

    Raises
    ------
    FitError
        With code 'no-finite-loss'.
    """
    good = np.isfinite(losses) & (losses > 0)
    if good.all():
        return
    first = np.unravel_index(int(np.argmin(good)), good.shape)
    shown = {k: np.broadcast_to(np.asarray(v), good.shape)[first] for k, v in settings.items()}
    where = ", ".join(f"{k} = {v:.4g}" if isinstance(v, float) else f"{k} = {v}" for k, v in shown.items())
    raise FitError(
        f"{name} has no finite positive loss for {1 - good.mean():.1%} of its draws and settings, for example at {where}."
        f"{' ' if advice else ''}{advice}",
        code="no-finite-loss",
    )
