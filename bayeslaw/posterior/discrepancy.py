"""The error of a law as learnt from its runs: functions of the settings, one for each draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.noise.walk import Walk, directions, log_product

REACH, SPACING = 16.0, 0.25  # e-folds from the smallest of the runs, and between places at which errors along a covariate are known


@dataclass(frozen=True, eq=False)
class ErrorsOver:
    """Errors of a law along a covariate: linear in its logarithm between places (k,), with values (S, k) there."""

    places: Array
    values: Array

    def at(self, draws: Index, x: Array, *, shared: bool) -> Array:
        """Return the errors of draws (s,) at logs `x`: (s,), each at its own, or (s, n) if all draws share places (n,)."""
        right = np.clip(np.searchsorted(self.places, x), 1, self.places.size - 1)
        share = np.clip((x - self.places[right - 1]) / (self.places[right] - self.places[right - 1]), 0.0, 1.0)
        rows = draws[:, None] if shared else draws
        return np.asarray((1 - share) * self.values[rows, right - 1] + share * self.values[rows, right])


@dataclass(frozen=True, eq=False)
class LearntDiscrepancy:
    """Draws of the error of a law.

    Attributes
    ----------
    walk : Walk
    coefficients : array (S, k)
        Coefficients of the combinations learnt from the runs.
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
        return DrawnErrors.of_walk(self.walk, self.coefficients[chosen], self.scale[chosen], entropy)


@dataclass(frozen=True, eq=False)
class DrawnErrors:
    """Errors of a law as functions of the settings, one for each of some draws.

    Attributes
    ----------
    walk : Walk
    coefficients : array (features, s)
    sizes : array (s,)
        Those of `Walk.mean_sizes`.
    """

    walk: Walk
    coefficients: Array
    sizes: Array

    @classmethod
    def of_walk(cls, walk: Walk, learnt: Array, scale: Array, entropy: Sequence[int]) -> DrawnErrors:
        """Draw errors: of coefficients (s, k) learnt from the runs and scales (s,), as in `Walk.complete`."""
        return cls(walk, walk.complete(learnt, scale, entropy), walk.mean_sizes(scale, entropy))

    def at(self, covariates: Mapping[str, Any]) -> Array:
        """Return errors (n, s) at settings (n,), which are added to the log loss."""
        features = self.walk.features(covariates)
        used = features.any(axis=0)  # few settings lie beyond every knot
        return np.asarray(features[:, used] @ self.coefficients[used] + np.outer(self.walk.mean(covariates), self.sizes))

    def of(self, draws: Index | slice) -> DrawnErrors:
        """Return the errors of some of the draws (s,)."""
        return replace(self, coefficients=self.coefficients[:, draws], sizes=self.sizes[draws])

    def over(self, name: str, others: Mapping[str, Any], ends: tuple[float, float] | None = None) -> ErrorsOver:
        """Return errors along one covariate at one setting of the others, between two logs.

        Parameters
        ----------
        name : str
        others : mapping of covariate to float
        ends : pair of float, optional
            By default from the smallest of the runs on, `REACH` e-folds. Needed for a covariate along which the law has no error
            of its own (`directions`).
        """
        law, places = self.walk.law, np.array(ends)
        if name in directions(law):
            axis = directions(law).index(name)
            used = float(log_product(law, dict.fromkeys(law.factors(name)[1:], 1), others))  # the share of it, where that counts
            low, high = ends or (self.walk.smallest[axis] - used, self.walk.smallest[axis] - used + REACH)
            # Between knots the walk is linear, but for its corners.
            knots = self.walk.axes[axis].table[0] + self.walk.largest[axis] - used
            inside = knots[(knots > low) & (knots < high)]
            places = np.union1d(inside, np.linspace(low, high, 1 + math.ceil((high - low) / SPACING)))
        at = {k: np.full(places.size, v) for k, v in others.items()} | {name: np.exp(places)}
        return ErrorsOver(places, self.at(at).T)

    def along(self, covariates: Mapping[str, Any]) -> Array:
        """Return errors (s,) at settings (s,), each by its own draw."""
        own = np.einsum("sk,ks->s", self.walk.features(covariates), self.coefficients)
        return np.asarray(own + self.walk.mean(covariates) * self.sizes)
