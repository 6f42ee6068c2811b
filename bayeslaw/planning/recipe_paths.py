"""Two recipes as draws of their losses along compute: where each spends it, and how much of it each needs for a loss.

A path gives N and D for every compute C = 6 N D: those of least loss by each draw, or a fixed number of tokens per parameter.
Losses have the errors that laws have beyond their runs. The errors of two recipes' laws are independent, or share a part:

    error of B = shared x (error of A's random numbers) + sqrt(1 - shared^2) x (error of its own random numbers),

each of the size that B's fit has learnt or that laws have on other ladders, so that the size of B's error does not depend on
`shared`. What is learnt from B's own runs stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.streams import Stream
from bayeslaw.forecasting.outside import beyond_together, outside
from bayeslaw.forecasting.stack import Posterior, with_errors
from bayeslaw.planning.optimum import optimum
from bayeslaw.planning.stages import stages, support
from bayeslaw.posterior.diagnostics import Reach, extrapolation
from bayeslaw.posterior.discrepancy import DrawnErrors
from bayeslaw.posterior.draws import JoinedDraws, LawDraws, check_values
from bayeslaw.posterior.fit import Fit

ERROR, NOISE = Stream.RECIPE_ERROR, Stream.RECIPE_NOISE  # of the first recipe; the second has the next number
REACH = 1_000.0  # by how many times more or less compute a recipe may need, as far as is searched
STEP = 0.1  # e-folds of compute between points of a path; between them logs of losses are linear, to 1e-4 of the compute


@dataclass(frozen=True, eq=False)
class Recipe:
    """A recipe's losses as functions of N and D, for every posterior draw.

    Attributes
    ----------
    name : str
    fits : tuple of (Fit, int array)
        The fits that give draws, and the indices of these.
    laws : tuple of LawDraws
        Their laws at the recipe's other settings.
    errors : tuple of DrawnErrors or None
        The laws' errors.
    runs : tuple of mappings of covariate to array (n,)
        The recipe's rows in each fit: where its parameters differ by a column, those with its value.
    settings : mapping
        Covariates other than N and D, and values of columns by which parameters or noise differ.
    """

    name: str
    fits: tuple[tuple[Fit, Index], ...]
    laws: tuple[LawDraws, ...]
    errors: tuple[DrawnErrors | None, ...]
    runs: tuple[Mapping[str, Array], ...]
    settings: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Number of draws S."""
        return JoinedDraws(self.laws).size

    @property
    def largest(self) -> float:
        """Compute of the largest fitted run, FLOPs."""
        return max(FLOPS * float((seen["N"] * seen["D"]).max()) for seen in self.runs)

    @property
    def outside(self) -> str:
        """Where settings other than N and D lie, seen from the runs, in the words of `diagnostics.extrapolation`."""
        distances, reach = dict[str, Any](), dict[str, Reach]()
        for (fit, _), law, seen in zip(self.fits, self.laws, self.runs, strict=True):
            at = {name: np.array([float(law.constants.get(name, values[0]))]) for name, values in seen.items()}
            own = outside(fit, at, seen).filter([*law.constants])
            distances |= dict(own)
            reach |= {name: Reach.of(fit.law.covariates[name], seen[name]) for name in map(str, own)}
        return extrapolation(pd.DataFrame(distances), reach)[0][0] if distances else "inside"

    def inside(self, n: Array, d: Array) -> NDArray[np.bool_]:
        """Return whether settings at N and D (m,) lie inside the recipe's runs in all fits."""
        away = np.zeros(n.size, dtype=bool)
        for (fit, _), law, seen in zip(self.fits, self.laws, self.runs, strict=True):
            at = {name: np.full(n.size, value) for name, value in law.constants.items()} | {"N": n, "D": d}
            away |= (outside(fit, at, seen) > 0).any(axis=1).to_numpy() | np.any([*beyond_together(fit, at, seen).values()], axis=0)
        return ~away

    def losses(self, n: Array, d: Array) -> Array:
        """Return the laws' losses (S, m), with their errors.

        Parameters
        ----------
        n, d : arrays (m,), or (S, m) with values for each draw
            The laws' errors are those at the medians over draws, as in a forecast.
        """
        middle = {"N": n if n.ndim == 1 else np.median(n, axis=0), "D": d if d.ndim == 1 else np.median(d, axis=0)}
        parts = list[Array]()
        for (law, _, at, value), error in zip(JoinedDraws(self.laws).outcomes({"N": n, "D": d}, axes=1), self.errors, strict=True):
            check_values(value, law.law, at, "Ask for settings nearer to the runs.", name=f"{law.law.name} ({self.name})")
            if error is not None:
                value = value * np.exp(error.at({**law.constants, **middle}).T)
            parts.append(value)
        return np.concatenate(parts)

    def noise(self, rows: int, seed: int, side: int) -> Array:
        """Return the noise (S, rows) that the log losses of new runs have, one run for each row."""
        run, parts = np.arange(rows), list[Array]()
        for number, (fit, chosen) in enumerate(self.fits):
            frame = pd.DataFrame(dict(self.settings), index=range(rows))
            group = fit.observed.groups_of(frame)
            time = np.zeros(rows) if fit.noise.drift else None
            parts.append(fit.noise.sample(fit.draws_of(chosen), run, run, (seed, NOISE + side, number), group=group, time=time).T)
        return np.concatenate(parts)


def recipe(
    name: str,
    posterior: Posterior,
    settings: Mapping[str, Any],
    *,
    learned: bool,
    seed: int,
    side: int,
    shared: float = 0.0,
) -> Recipe:
    """Return a recipe by a posterior at settings.

    Parameters
    ----------
    name, posterior, settings
        The last are covariates other than N and D, and values of columns by which parameters or noise differ.
    learned : bool
        Whether losses have the laws' errors beyond the runs.
    seed, side, shared : int, int, float
        Seed of the errors, and how much of them the second recipe (side 1) shares with the first.
    """
    fits = with_errors(posterior.selections) if learned else posterior.selections
    laws = stages(fits, settings)
    errors = tuple(drawn_errors(fit, chosen, seed, number, side, shared) for number, (fit, chosen) in enumerate(fits))
    return Recipe(name, fits, tuple(laws), errors, tuple(_runs_of(fit, settings) for fit, _ in fits), dict(settings))


def _runs_of(fit: Fit, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Return the covariates (n,) of the fitted rows that have a recipe's values of columns by which parameters differ."""
    law, seen = fit.law, fit.observed.covariates
    own = np.ones(fit.observed.run.size, dtype=bool)
    for column in law.levels:
        own &= np.array(law.levels[column])[law.level_codes(column, seen)] == settings[column]
    return {name: values[own] for name, values in seen.items()}


def drawn_errors(fit: Fit, chosen: Index, seed: int, number: int, side: int, shared: float = 0.0) -> DrawnErrors | None:
    """Return draws of a law's error that share a part with those of the first recipe; None where the law counts as exact.

    Parameters
    ----------
    fit, chosen : Fit, int array (s,)
        A fit and the numbers of its draws.
    seed, number, side, shared : int, int, int, float
        As in `recipe`; `number` is the place of the fit in its posterior.
    """
    if fit.discrepancy is None:
        return None
    walk, learnt, scale = fit.discrepancy.walk, fit.discrepancy.coefficients[chosen], fit.discrepancy.scale[chosen]
    own, first = (seed, ERROR + side, number), (seed, ERROR, number)
    whole = walk.complete(learnt, scale, own)
    if side and shared:
        nothing = np.zeros_like(learnt)
        alone, common = (walk.complete(nothing, scale, entropy) for entropy in (own, first))
        whole = whole + shared * common + (math.sqrt(1 - shared**2) - 1) * alone
    return DrawnErrors(walk, whole, walk.mean_sizes(scale, own))


def check_shared(a: Recipe, b: Recipe, shared: float) -> None:
    """Refuse a shared part of the laws' errors where the two recipes' runs differ too much for one.

    Parameters
    ----------
    a, b, shared : Recipe, Recipe, float
    """
    shapes = [[None if e is None else e.coefficients.shape for e in recipe.errors] for recipe in (a, b)]
    if shared and shapes[0] != shapes[1]:
        raise BayeslawError(
            f"The errors of {a.name} and {b.name} can't share a part: their laws have different axes, or their runs span different "
            "ranges. Leave the shared error at 0.",
            code="shared-error-of-different-runs",
        )


@dataclass(frozen=True, eq=False)
class ComputePath:
    """A recipe along compute.

    Attributes
    ----------
    log_c : array (m,)
        Logs of FLOPs, ascending.
    n : array (m,)
        Parameters; medians over draws where each draw has its own.
    loss : array (S, m)
    corner : float
        Share of draws and computes whose optimum is at a limit of N or D.
    """

    log_c: Array
    n: Array
    loss: Array
    corner: float = 0.0

    def at(self, log_c: Array) -> Index:
        """Return the numbers of those of its points that lie at logs of FLOPs."""
        return np.asarray(np.searchsorted(self.log_c, log_c))

    def needed(self, log_c: Array, target: Array) -> Array:
        """Return the log of the times (S, n) by which the compute `log_c` (n,) must be multiplied for losses of `target` (S, n).

        It is that of the least compute at which the loss is as low; inf where none within `REACH` times is enough, and -inf where
        even the least that is searched is.
        """
        logs, wanted, times = np.log(self.loss), np.log(target), np.empty_like(target)
        for i, start in enumerate(log_c):
            window = slice(*np.searchsorted(self.log_c, [start - math.log(REACH) - 1e-9, start + math.log(REACH) + 1e-9]))
            x, y, t = self.log_c[window], logs[:, window], wanted[:, i]
            enough = y <= t[:, None]
            first = enough.argmax(axis=1)
            before, rows = np.maximum(first - 1, 0), np.arange(len(y))
            high, low = y[rows, before], y[rows, first]
            with np.errstate(all="ignore"):
                share = np.where(high > low, (high - t) / (high - low), 0.0)
            place = x[before] + share * (x[first] - x[before]) - start
            times[:, i] = np.where(~enough.any(axis=1), np.inf, np.where(first == 0, -np.inf, place))
        return times


def points(log_c: Array, reach: float = REACH) -> Array:
    """Return logs of compute for a path: these values, and points `STEP` apart from `reach` times below them to as far above."""
    low, high = float(log_c.min()) - math.log(reach), float(log_c.max()) + math.log(reach)
    return np.unique(np.concatenate([np.linspace(low, high, 2 + int((high - low) / STEP)), log_c]))


def path(recipe: Recipe, log_c: Array, tokens_per_parameter: float | None = None) -> ComputePath:
    """Return a recipe's path at points of compute, as far as the supports of its laws allow.

    Parameters
    ----------
    recipe, log_c
    tokens_per_parameter : float, optional
        By default each draw has its N and D of least loss by its law.
    """
    low, high = _limits(recipe, tokens_per_parameter)
    inside = log_c[(log_c >= low) & (log_c <= high)]
    if not inside.size:
        raise BayeslawError(f"This compute leaves no N and D in the supports of {recipe.name}.", code="compute-out-of-support")
    flops, corner = np.exp(inside), 0.0
    if tokens_per_parameter is not None:
        n = np.sqrt(flops / FLOPS / tokens_per_parameter)
    else:
        optima = [optimum(law, flops) for law in recipe.laws]
        n = np.concatenate([o.N for o in optima])
        corner = float(np.mean([o.corner.mean() for o in optima]))
    loss = recipe.losses(n, flops / FLOPS / n)
    return ComputePath(inside, n if n.ndim == 1 else np.median(n, axis=0), loss, corner)


def _limits(recipe: Recipe, tokens_per_parameter: float | None) -> tuple[float, float]:
    """Return the least and largest log compute that the supports of N and D allow."""
    lows, highs = [], []
    for law in recipe.laws:
        (low_n, high_n), (low_d, high_d) = support([law.law])
        if tokens_per_parameter is None:
            least, most = low_n * low_d * 2, high_n * high_d / 2
        else:
            least = max(low_n**2 * tokens_per_parameter, low_d**2 / tokens_per_parameter)
            most = min(high_n**2 * tokens_per_parameter, high_d**2 / tokens_per_parameter)
        lows.append(math.log(FLOPS * least))
        highs.append(math.log(FLOPS * most))
    return max(lows), min(highs)
