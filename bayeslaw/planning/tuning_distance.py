"""How far the best values of tuned covariates at one setting lie from those of the law.

Fitted rows that agree in all covariates but the tuned ones are a grid, such as the runs of one N and D at several learning rates
and batch sizes. The best values of a grid are found as the shifts d by which the law fits its losses best, at a level of its own,

    log loss = level + log law(x exp(-d)) + noise   at tuned covariates x,

with noise that is shared by runs as the fit says, and as large as the grid's own residuals. The spread tau of true shifts over
grids is the most probable one given the shifts and their standard errors. The best values at a new setting are the law's times
exp(tau t), with t of a Student-t distribution with as many degrees of freedom as there are grids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.streams import Stream
from bayeslaw.noise.custom import PointNoise
from bayeslaw.posterior.fit import Fit

FEWEST_ROWS, FEWEST_GRIDS = 3, 3  # rows that a grid has more than unknowns, and grids
WIDEST = 2.0  # sd of the prior of a shift, in e-folds: more than runs of one grid are apart
EXACT = 1e-9  # variance of a grid's residuals, in that of the noise, as which smaller ones count
ITERATIONS, STEP = 5, 0.01  # Gauss-Newton steps, and e-folds over which slopes are taken
SPREADS = np.append(0.0, np.geomspace(0.01, 3.0, 120))  # values of tau that are compared


@dataclass(frozen=True)
class TuningDistance:
    """The spread of best values over grids, in e-folds, by tuned covariate, and the number of grids that show it."""

    spread: Mapping[str, float]
    grids: int

    @classmethod
    def of(cls, fit: Fit) -> TuningDistance | None:
        """The spread by the grids of a law with tuned covariates; None with fewer than `FEWEST_GRIDS`, or a noise of one's own."""
        if isinstance(fit.noise, PointNoise):
            return None
        law, observed, tuned = fit.law, fit.observed, tuple(fit.law.tuning)
        median = {name: np.array([np.median(values)]) for name, values in fit.draws.items() if values.ndim == 1}
        others = np.stack([observed.covariates[name] for name in law.covariates if name not in tuned], axis=1)
        _, code = np.unique(others, axis=0, return_inverse=True)
        shifts, errors = list[Array](), list[Array]()
        for grid in (np.flatnonzero(code == number) for number in range(int(code.max()) + 1)):
            if grid.size < 1 + len(tuned) + FEWEST_ROWS:
                continue
            rows = {name: values[grid] for name, values in observed.covariates.items()}

            def law_at(shift: Array, rows: Mapping[str, Array] = rows) -> Array:
                moved = {name: rows[name] * np.exp(-d) for name, d in zip(tuned, shift, strict=True)}
                return np.asarray(law.outcome.to_scale(law.predict(median, {**rows, **moved})[0]))

            shift, error = _shift(observed.response[grid], law_at, np.linalg.inv(_covariance(fit, grid)), len(tuned))
            shifts.append(shift)
            errors.append(error)
        if len(shifts) < FEWEST_GRIDS:
            return None
        spread = {name: _spread(*(np.array(values)[:, i] for values in (shifts, errors))) for i, name in enumerate(tuned)}
        return cls(spread, len(shifts))

    def __str__(self) -> str:
        factors = ", ".join(f"{name} by a factor of {np.exp(size):.2g}" for name, size in self.spread.items())
        return f"best values at a setting lie as far from the law's as those of the {self.grids} fitted grids: {factors}"

    def drawn(self, name: str, settings: int, draws: int, entropy: tuple[int, ...]) -> Array:
        """Draw how far the best values of a tuned covariate at settings lie from the law's, factors (draws, settings)."""
        rng = np.random.default_rng((*entropy, Stream.TUNING_DISTANCE, sorted(self.spread).index(name)))
        return np.asarray(np.exp(self.spread[name] * rng.standard_t(self.grids, (draws, settings))))


def _covariance(fit: Fit, rows: Index) -> Array:
    """Covariance of the noise of some fitted rows, which may share runs and checkpoints."""
    observed, noise = fit.observed, fit.noise
    run = observed.run[rows]
    checkpoint = observed.checkpoint[run]
    point, of_run = (of_group[noise.groups_of(observed)[run]] for of_group in noise.variances(fit.draws))
    whole = np.diag(point + observed.known[rows]) + of_run[:, None] * (run[:, None] == run)
    if noise.checkpoint_effect:
        whole += np.mean(fit.draws["sigma_checkpoint"] ** 2) * (checkpoint[:, None] == checkpoint)
    return np.asarray(whole)


def _shift(response: Array, law_at: Callable[[Array], Array], precision: Array, count: int) -> tuple[Array, Array]:
    """Return the shifts (c,) by which a law fits a grid's responses (n,) best, and their standard errors.

    `precision` (n, n) is the inverse of the noise's covariance.
    """
    shift, prior = np.zeros(count), np.diag(np.append(0.0, np.full(count, WIDEST**-2)))
    covariance = prior
    for _ in range(ITERATIONS):
        moves = STEP * np.eye(count)
        slopes = np.stack([(law_at(shift + move) - law_at(shift - move)) / (2 * STEP) for move in moves], axis=1)
        error = response - law_at(shift)
        design = np.column_stack([np.ones(error.size), slopes])
        least = np.linalg.pinv(design.T @ precision @ design) @ design.T @ precision @ error  # one batch alone tells no shift of it
        left = error - design @ least
        scale = max(float(left @ precision @ left) / (error.size - 1 - count), EXACT)
        covariance = np.linalg.inv(design.T @ precision @ design / scale + prior)
        pulled = design.T @ precision @ error / scale - prior @ np.append(0.0, shift)
        shift = np.clip(shift + (covariance @ pulled)[1:], -2 * WIDEST, 2 * WIDEST)
    return shift, np.sqrt(np.diag(covariance)[1:])


def _spread(shifts: Array, errors: Array) -> float:
    """Return the most probable spread of true shifts (g,) that are known with standard errors."""
    variance = SPREADS[:, None] ** 2 + errors**2
    return float(SPREADS[np.argmax(-0.5 * (np.log(variance) + shifts**2 / variance).sum(axis=1))])
