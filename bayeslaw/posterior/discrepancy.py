"""The error of a law as learnt from its runs: functions of the settings, one for each draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.noise.walk import Walk


@dataclass(frozen=True)
class LearntDiscrepancy:
    """Draws of the error of a law.

    Attributes
    ----------
    walk : Walk
    coefficients : array (S, k)
        Of the combinations learnt from the runs.
    scale : array (S,)
        The error an e-fold from the largest runs, relative.
    """

    walk: Walk
    coefficients: Array
    scale: Array

    def learnt(self, covariates: Mapping[str, Any], chosen: Index | slice = slice(None)) -> Array:
        """Return the errors (s, n) at settings (n,) as far as they are learnt from the runs, by the draws with indices `chosen`."""
        return np.asarray(self.coefficients[chosen] @ self.walk.components(covariates).T)

    def drawn(self, chosen: Index, entropy: Sequence[int]) -> DrawnErrors:
        """Draw the error everywhere, by the draws with indices `chosen` (s,)."""
        return DrawnErrors(self.walk, self.walk.complete(self.coefficients[chosen], self.scale[chosen], entropy))


@dataclass(frozen=True)
class DrawnErrors:
    """Errors of a law as functions of the settings, one for each of some draws, with coefficients (features, s)."""

    walk: Walk
    coefficients: Array

    def of(self, draws: Index) -> DrawnErrors:
        """Return those of some of the draws."""
        return DrawnErrors(self.walk, self.coefficients[:, draws])

    def at(self, covariates: Mapping[str, Any]) -> Array:
        """Return errors (n, s) at settings (n,), which are added to the log loss."""
        features = self.walk.features(covariates)
        used = features.any(axis=0)  # few settings lie beyond every knot
        return np.asarray(features[:, used] @ self.coefficients[used])

    def along(self, covariates: Mapping[str, Any]) -> Array:
        """Return errors (s,) at settings (s,), each by its own draw."""
        return np.asarray(np.einsum("sk,ks->s", self.walk.features(covariates), self.coefficients))
