"""How far the best values of tuned covariates at one setting lie from those of the law.

Fitted rows that agree within 1% in all covariates but the tuned ones are a grid, such as the runs of one N and D at several
learning rates and batch sizes, whose D are whole numbers of batches. The best values of a grid are found as the shifts d by which
the law fits its losses best, at a level of its own,

    log loss = level + log law(x exp(-d)) + noise   at tuned covariates x,

with noise that is shared by runs as the fit says, and as large as the grid's own residuals. The shifts of a covariate's best
values then follow a line in the logarithms of the settings, such as N and D, as the law's best values do, and scatter around it:

    d = a + b log(setting / middle of the grids) + tau z + error,   z ~ Normal(0, 1), error as known from the grid
    a ~ Normal(0, 1), b ~ Normal(0, .3), tau ~ HalfNormal(.5), in e-folds

The best values at a new setting are the law's times exp(a + b log(...) + tau z). With a law whose level is wrong along N or D, best
values of the law make up for that, and those of the grids, each with its own level, do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.streams import Stream
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.walk import logarithms
from bayeslaw.posterior.fit import Fit

FEWEST_ROWS, FEWEST_GRIDS = 3, 3  # by how many rows a grid must exceed its unknowns, and how many such grids there must be
GRID_TOLERANCE = 0.01  # relative difference within which settings count as those of one grid
WIDEST = 2.0  # sd of the prior of a shift, in e-folds: more than runs of one grid are apart
EXACT = 1e-9  # least variance of a grid's residuals, as a multiple of that of the noise: smaller ones count as this
ITERATIONS, STEP = 5, 0.01  # Gauss-Newton steps, and e-folds over which slopes are taken
LEVEL, SLOPE, SCATTER = 1.0, 0.3, 0.5  # sds of the priors of a, b and tau
SCATTERS = np.append(0.0, np.geomspace(0.01, 3.0, 120))  # values of tau whose probabilities are computed


@dataclass(frozen=True, eq=False)
class Line:
    """The posterior of how best values of a tuned covariate lie off the law's, for each of `SCATTERS`.

    Attributes
    ----------
    probability : array (t,)
    mean : array (t, 1 + a)
        Mean of the level, and of the slopes along the logarithms of the settings.
    factor : array (t, 1 + a, 1 + a)
        Cholesky factors of their covariances.
    """

    probability: Array
    mean: Array
    factor: Array

    @classmethod
    def through(cls, shifts: Array, errors: Array, design: Array) -> Line:
        """The posterior by shifts (g,) known with standard errors at settings (g, 1 + a), whose first column is 1."""
        prior = np.diag(np.append(LEVEL, np.full(design.shape[1] - 1, SLOPE)) ** -2.0)
        variance = SCATTERS[:, None] ** 2 + errors**2
        weighted = design.T / variance[:, None]
        precision = weighted @ design + prior
        mean = np.linalg.solve(precision, (weighted @ shifts)[..., None])[..., 0]
        # The density of the shifts with level and slopes integrated out, up to a constant.
        square = (shifts**2 / variance).sum(axis=1) - np.einsum("ti,tij,tj->t", mean, precision, mean)
        log = -0.5 * (np.log(variance).sum(axis=1) + np.linalg.slogdet(precision)[1] + square + (SCATTERS / SCATTER) ** 2)
        probability = np.exp(log - log.max()) * np.gradient(SCATTERS)
        return cls(probability / probability.sum(), mean, np.linalg.cholesky(np.linalg.inv(precision)))

    @property
    def scatter(self) -> float:
        """The median of tau."""
        return float(SCATTERS[np.searchsorted(np.cumsum(self.probability), 0.5)])

    def drawn(self, design: Array, draws: int, rng: np.random.Generator) -> Array:
        """Draw shifts (draws, n) at settings (n, 1 + a)."""
        size = rng.choice(SCATTERS.size, draws, p=self.probability)
        line = self.mean[size] + np.einsum("sij,sj->si", self.factor[size], rng.standard_normal((draws, design.shape[1])))
        return np.asarray(line @ design.T + SCATTERS[size, None] * rng.standard_normal((draws, len(design))))


@dataclass(frozen=True, eq=False)
class TuningDistance:
    """How best values lie off the law's, by tuned covariate, in e-folds.

    Attributes
    ----------
    lines : mapping of covariate to Line
    middle : array (a,)
        Mean logarithms of the grids' settings along the axes of the law's sizes (`noise.walk.directions`).
    grids : int
        The number of grids that tell.
    """

    lines: Mapping[str, Line]
    middle: Array
    grids: int

    @classmethod
    def of(cls, fit: Fit) -> TuningDistance | None:
        """The distance of a law with tuned covariates by its grids; None with few of them, or a noise of one's own."""
        if isinstance(fit.noise, PointNoise):
            return None
        if len(grids := _grids(fit)) < FEWEST_GRIDS:
            return None
        median = {name: np.array([np.median(values)]) for name, values in fit.draws.items() if values.ndim == 1}
        shifts, errors = (np.array(of_grids) for of_grids in zip(*(_shift_of(fit, rows, median) for rows in grids), strict=True))
        first = [{name: values[rows[:1]] for name, values in fit.observed.covariates.items()} for rows in grids]
        sizes = np.array([logarithms(fit.law, row)[0] for row in first])
        middle = np.mean(sizes, axis=0)
        design = _design(sizes, middle)
        lines = {name: Line.through(shifts[:, i], errors[:, i], design) for i, name in enumerate(fit.law.tuning)}
        return cls(lines, middle, len(grids))

    @staticmethod
    def without(fit: Fit) -> str:
        """Say why a law's best values have no distance from those of its grids; '' where the noise is the reason."""
        differ = f"{_fewest_rows(fit)} rows that differ in {' and '.join(fit.law.tuning)} alone"
        few = f"fewer than {FEWEST_GRIDS} fitted grids have {differ}"
        return (
            "" if isinstance(fit.noise, PointNoise) else f"{few}: how far best values lie off the law's is not in their intervals"
        )

    def __str__(self) -> str:
        factors = ", ".join(f"{np.exp(line.scatter):.2g} in {name}" for name, line in self.lines.items())
        moved = f"best values of the {self.grids} fitted grids, each by itself, move these from the law's"
        return f"{moved}; single grids scatter by a factor of {factors}"

    def drawn(self, name: str, sizes: Array, draws: int, entropy: tuple[int, ...]) -> Array:
        """Draw factors (draws, n) between best values of a tuned covariate and the law's, at logarithms of sizes (n, a)."""
        rng = np.random.default_rng((*entropy, Stream.TUNING_DISTANCE, sorted(self.lines).index(name)))
        return np.asarray(np.exp(self.lines[name].drawn(_design(sizes, self.middle), draws, rng)))


def _design(sizes: Array, middle: Array) -> Array:
    """Return the columns (n, 1 + a) of level and slopes at logarithms of sizes."""
    return np.column_stack([np.ones(len(sizes)), sizes - middle])


def _fewest_rows(fit: Fit) -> int:
    """How many rows a grid must have: more than its unknowns, a level and a shift of each tuned covariate."""
    return 1 + len(fit.law.tuning) + FEWEST_ROWS


def _grids(fit: Fit) -> list[Index]:
    """Return the fitted rows of each grid that has enough of them."""
    settings = [fit.observed.covariates[name] for name in fit.law.covariates if name not in fit.law.tuning]
    code = _grid_codes(settings)
    grids = (np.flatnonzero(code == number) for number in range(int(code.max()) + 1))
    return [rows for rows in grids if rows.size >= _fewest_rows(fit)]


def _shift_of(fit: Fit, grid: Index, median: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return the shifts (c,) by which a law at its median parameters fits the rows of a grid best, and their standard errors."""
    rows = {name: values[grid] for name, values in fit.observed.covariates.items()}

    def law_at(shift: Array) -> Array:
        moved = {name: rows[name] * np.exp(-d) for name, d in zip(fit.law.tuning, shift, strict=True)}
        return np.asarray(fit.law.outcome.to_scale(fit.law.predict(median, {**rows, **moved})[0]))

    return _fitted_shift(fit.observed.response[grid], law_at, np.linalg.inv(_covariance(fit, grid)), len(fit.law.tuning))


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


def _grid_codes(settings: Sequence[Array]) -> Index:
    """Return numbers (n,) of the grids of these settings (n,): within `GRID_TOLERANCE` of the smallest value of their grid."""
    codes = []
    for values in settings:
        smallest = list[float]()
        for value in map(float, np.unique(values)):
            if not smallest or value - smallest[-1] > GRID_TOLERANCE * abs(smallest[-1]):
                smallest.append(value)
        codes.append(np.searchsorted(smallest, values, side="right"))
    return np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _fitted_shift(response: Array, law_at: Callable[[Array], Array], precision: Array, count: int) -> tuple[Array, Array]:
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
