"""Alternative ways to choose runs from a pool: at random, and by a law linearised at a point fit.

A linearised design describes the parameters by the covariance of their logarithms: that of the priors plus the information of the
bought runs, which is the law's derivatives at a point fit over the variance of its residuals. D-optimal runs shrink the volume of
that covariance most, V-optimal ones the summed variance of the log losses at the targets (Atkinson, Donev and Tobias 2007; with
priors, Chaloner and Verdinelli 1995). Both are chosen one by one by gain over price^kappa for kappa 0, 1/2 and 1; of the three
lists, the one that is best when the budget is spent is bought.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law

Array = NDArray[np.float64]
Criterion = Literal["D", "V"]
KAPPAS = (0.0, 0.5, 1.0)
BELIEVED, WEIGHT = 0.01, 2.0  # sd of log losses before any residual is seen, and how many residuals that belief counts for
STEP = 1e-5  # of numerical derivatives, in logarithms of parameters


def shuffled(candidates: pd.DataFrame, budget: float, rng: np.random.Generator) -> list[int]:
    """Positions of runs in random order; runs that the rest of the budget does not pay for are skipped."""
    prices, picks = candidates["cost"].to_numpy(dtype=np.float64), []
    for i in rng.permutation(len(candidates)):
        if prices[i] <= budget:
            picks.append(int(i))
            budget -= prices[i]
    return picks


@dataclass(frozen=True)
class Linear:
    """A law as a linear model of log losses in the logarithms of its positive parameters.

    Attributes
    ----------
    law : Law
    at : array (p,)
        Point at which derivatives are taken.
    covariance : array (p, p)
        Covariance of the parameters given priors and bought runs.
    variance : float
        Variance of a log loss about the law.
    """

    law: Law
    at: Array
    covariance: Array
    variance: float

    @classmethod
    def of(cls, point: PointFit, seed: int) -> Linear:
        """The law at a point fit; parameters are limited to 99.8% of their priors because some stop at 0 or go to infinity."""
        law = point.law
        drawn = law.sample_prior(4000, point.observed.at, np.random.default_rng(seed))
        prior = np.stack([_scaled(law, name, values) for name, values in drawn.items()])
        best = np.array([float(_scaled(law, name, np.array(max(v, 1e-300)))) for name, v in point.parameters.items()])
        at = np.clip(best, *np.quantile(prior, [0.001, 0.999], axis=1))
        residual = point.observed.response - np.log(point.predict(point.observed.covariates))
        freedom = max(residual.size - best.size, 0) + WEIGHT
        variance = float(residual @ residual + WEIGHT * BELIEVED**2) / freedom
        slopes = derivatives(law, at, point.observed.covariates)
        information = np.linalg.inv(np.cov(prior)) + slopes.T @ slopes / variance
        return cls(law, at, np.linalg.inv(information), variance)

    def choose(self, candidates: pd.DataFrame, targets: pd.DataFrame, budget: float, criterion: Criterion) -> list[int]:
        """Positions of the candidates to buy, in order."""
        return max((self._greedy(candidates, targets, budget, criterion, kappa) for kappa in KAPPAS), key=lambda found: found[0])[1]

    def _greedy(
        self, candidates: pd.DataFrame, targets: pd.DataFrame, budget: float, criterion: Criterion, kappa: float
    ) -> tuple[float, list[int]]:
        """The value of a greedy list once bought, and the list."""
        law = self.law
        rows, asked = (derivatives(law, self.at, covariates(law, frame)) for frame in (candidates, targets))
        prices = candidates["cost"].to_numpy(dtype=np.float64)
        left, covariance, picks = np.ones(prices.size, dtype=bool), self.covariance, list[int]()
        while (affordable := left & (prices <= budget)).any():
            along = covariance @ rows.T
            own = np.einsum("ij,ji->i", rows, along)
            gain = np.log1p(own / self.variance) if criterion == "D" else ((asked @ along) ** 2).sum(axis=0) / (self.variance + own)
            best = int(np.argmax(np.where(affordable, gain / prices**kappa, -np.inf)))
            covariance = covariance - np.outer(along[:, best], along[:, best]) / (self.variance + own[best])
            left[best] = False
            budget -= prices[best]
            picks.append(best)
        if criterion == "D":
            return -float(np.linalg.slogdet(covariance)[1]), picks
        return -float(np.einsum("ij,jk,ik->", asked, covariance, asked)), picks


def covariates(law: Law, frame: pd.DataFrame) -> dict[str, Array]:
    """A law's covariates from a table of settings."""
    return {name: frame[name].to_numpy(dtype=np.float64) for name in law.covariates}


def derivatives(law: Law, at: Array, settings: Mapping[str, Array]) -> Array:
    """Derivatives of the log loss of every row, array (n, p), at the scaled parameters `at`."""
    steps = STEP * np.eye(at.size)

    def log_loss(rows: Array) -> Array:
        values = {}
        for name, column in zip(law.parameters, rows.T, strict=True):
            values[name] = np.exp(column) if law.parameters[name].prior.support == "positive" else column
        return np.log(law.predict(values, settings))

    return ((log_loss(at + steps) - log_loss(at - steps)) / (2 * STEP)).T


def _scaled(law: Law, name: str, values: Array) -> Array:
    return np.log(values) if law.parameters[name].prior.support == "positive" else values
