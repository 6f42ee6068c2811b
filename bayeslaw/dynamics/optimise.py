"""The recipe that serves two domains best: peak rate, steps, loss potential or replay with the least weighted change of two losses.

    minimise over recipes x   mean or CVaR over draws of   w dL_source(x) + (1 - w) dL_target(x)       (Wang et al. 2025, eq. 5)

dL is the change of a loss from the checkpoint of the given recipe, before its adaptation, so recipes that differ in their
pre-training are compared with the same loss. All recipes are evaluated with the same draws, so the differences between recipes are
much less uncertain than their losses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import qmc

from bayeslaw.core import intervals
from bayeslaw.core.arrays import Array, Index, mean_of_largest
from bayeslaw.core.errors import BayeslawError, as_mapping, whole_number
from bayeslaw.core.text import settings_text, short_lines
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.memory import memory_of, power_of
from bayeslaw.dynamics.recipe import CHOICES, Recipe, check_choice, losses, require_recipe
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Posterior, check_pairing, paired, require_losses
from bayeslaw.planning.arguments import check_passed
from bayeslaw.posterior.diagnostics import Check, checks_label, failure_suffix

LOGARITHMIC = ("peak", "steps")
LIMITS = {"peak": (1e-12, 1.0), "steps": (1.0, 1e9), "potential": (0.0, 1.0), "r": (0.0, 1.0)}
GRID = {1: 65, 2: 256, 3: 512, 4: 1024}  # recipes that are evaluated first, by the number of choices
DRAWS = 1_000  # draws of the search; the best recipe is evaluated with all draws
EDGE = 1e-3  # share of a range: an optimum nearer to an end lies on it


def balance(
    source: Posterior,
    target: Posterior,
    recipe: Recipe,
    ranges: Mapping[str, tuple[float, float]],
    *,
    weight: float,
    tail: float | None = None,
    seed: int = 0,
    force: bool = False,
) -> Balance:
    """Choose peak rate, steps, loss potential or replay for the least weighted change of two losses.

    Parameters
    ----------
    source, target : Fit or Stack
        Fits of the losses of the two domains; their draws are paired by number.
    recipe : Recipe
        What is not chosen stays as in this recipe.
    ranges : mapping of choice to (float, float)
        Ranges of peak (learning rate), steps, potential or r (shares).
    weight : float
        Weight of the change of the source loss, in [0, 1]; the target has the rest.
    tail : float, optional
        Minimise CVaR, the mean over this share of the worst draws, instead of the mean over all.
    seed, force : int, bool
        Seed of the recipes that are evaluated first; whether to go on in spite of failed checks.

    Raises
    ------
    BayeslawError
        If a range or weight is out of bounds, draws or losses of the two fits can't be combined, or checks of a fit or of its
        forecast at the best recipe failed ('failed-checks').

    Examples
    --------
    >>> source, target = bayeslaw.load_fit("dynamics_source.nc"), bayeslaw.load_fit("dynamics_target.nc")
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=8000,peak=2e-4,warmup=200", "cosine:steps=2000,peak=2e-4")
    >>> best = bayeslaw.dynamics.balance(source, target, recipe, {"peak": (1e-5, 1e-3)}, weight=0.5)
    >>> 1e-5 <= best.choice["peak"] <= 1e-3
    True
    """
    return balance_curve(source, target, recipe, ranges, weights=[weight], tail=tail, seed=seed, force=force)[0]


def balance_curve(
    source: Posterior,
    target: Posterior,
    recipe: Recipe,
    ranges: Mapping[str, tuple[float, float]],
    *,
    weights: Sequence[float] | Array,
    tail: float | None = None,
    seed: int = 0,
    force: bool = False,
) -> list[Balance]:
    """Choose the best recipe for each of several weights of the source (Wang et al. 2025, fig. 8).

    Parameters
    ----------
    source, target, recipe, ranges, tail, seed, force : as in `balance`
    weights : sequence or array of float
    """
    seed = whole_number("seed", seed, 0)
    if len(weights) == 0:  # an array has no truth value
        raise BayeslawError("Give at least one weight of the source loss.", code="no-weights")
    objectives = [Objective(weight, tail) for weight in weights]
    landscape = _landscape(source, target, recipe, Space(as_mapping(ranges, "{'peak': (1e-4, 1e-3)}", "Ranges")), seed, force=force)
    return [_choose(landscape, objective, seed, force=force) for objective in objectives]


@dataclass(frozen=True, eq=False)
class Balance:
    """The best recipe for two domains, and the expected loss from not knowing the law exactly.

    Attributes
    ----------
    landscape, objective : Landscape, Objective
        The recipes that were evaluated, and the function that was minimised.
    choice, plug_in : mappings of str to float
        The choices of the best recipe, and of the best one for the central draw alone, which ignores uncertainty.
    changes : tuple of arrays (S,)
        Changes of the source and target losses at the best recipe, for all draws.
    value, plug_in_value : float
        The objective at the best and at the plug-in recipe, over all draws.
    own : array (S', k)
        The best of the evaluated recipes for each draw of the search, as points of the unit cube.
    regret, plug_in_regret : float
        Mean over draws of the difference between the best or plug-in recipe and each draw's own best recipe.
    checks : tuple of Check
        Checks of the forecasts at the best recipe.

    Examples
    --------
    >>> source, target = bayeslaw.load_fit("dynamics_source.nc"), bayeslaw.load_fit("dynamics_target.nc")
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=8000,peak=2e-4,warmup=200", "cosine:steps=2000,peak=2e-4")
    >>> best = bayeslaw.dynamics.balance(source, target, recipe, {"peak": (1e-5, 1e-3)}, weight=0.5)
    >>> list(best.summary().index)
    ['peak', 'source_change', 'target_change', 'weighted_change']
    """

    landscape: Landscape
    objective: Objective
    choice: Mapping[str, float]
    plug_in: Mapping[str, float]
    changes: tuple[Array, Array]
    value: float
    plug_in_value: float
    own: Array
    regret: float
    plug_in_regret: float
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return short_lines(f"<Balance: {self.text.splitlines()[0]}>")

    @property
    def failed(self) -> bool:
        """Whether checks of a fit, or of its forecast at the best recipe, failed and were forced."""
        return not all(fit.passed for fit in self.landscape.posteriors) or any(c.required and not c.passed for c in self.checks)

    @property
    def recipe(self) -> Recipe:
        """The best recipe."""
        return self.landscape.recipe.varied(**self.choice)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return the choices, the changes of both losses in their unit, and the weighted change: values or medians, and intervals.

        The interval of a choice is that of each draw's own best recipe; the interval of a change is that at the best recipe.
        """
        space = self.landscape.space
        own = pd.DataFrame([space.choices(point) for point in self.own])
        source, target = self.landscape.changes(space.point(self.plug_in)[None, :], np.arange(self.changes[0].size))
        changes = {
            "source_change": (self.changes[0], source[0]),
            "target_change": (self.changes[1], target[0]),
            "weighted_change": (self.objective.combine(*self.changes), self.objective.combine(source, target)[0]),
        }
        table = intervals.rows({name: own[name] for name in self.choice} | {k: v for k, (v, _) in changes.items()}, ci_prob)
        columns = {name: (value, self.plug_in[name]) for name, value in self.choice.items()}
        columns |= {name: (np.median(v), np.median(plug_in)) for name, (v, plug_in) in changes.items()}
        values = pd.DataFrame(columns, index=["value", "plug_in"]).T
        return values.join(table.drop(columns="median")).rename_axis("quantity").assign(checks=checks_label(self.failed))

    @property
    def text(self) -> str:
        """The best recipe, the plug-in recipe, probabilities of changes, and the notes, in words."""
        best, plug_in = (settings_text(choice, 4) for choice in (self.choice, self.plug_in))
        lines = [
            f"best recipe by the {self.objective.text}: {best} ({self.value:+.4f} {self.landscape.posteriors[0].unit})"
            + failure_suffix(self.failed),
            f"plug-in recipe, without uncertainty: {plug_in} ({self.plug_in_value:+.4f})",
            f"expected gain from knowing the law exactly: {self.regret:.2g} over the best recipe, {self.plug_in_regret:.2g} over "
            "the plug-in recipe",
            f"the source loss ends above its base with probability {(self.changes[0] > 0).mean():.0%}, the target loss below its "
            f"base with probability {(self.changes[1] < 0).mean():.0%}",
        ]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class Objective:
    """The function of two changes of losses that is minimised: the mean or, with a tail, CVaR over draws."""

    weight: float
    tail: float | None = None

    def __post_init__(self) -> None:
        check_weight(self.weight)
        if self.tail is not None and not (isinstance(self.tail, Real) and 0 < self.tail < 1):
            raise BayeslawError(f"The tail of CVaR is a share of draws between 0 and 1, not {self.tail!r}.", code="bad-tail")

    def combine(self, source: Array, target: Array) -> Array:
        """Return the weighted change for each draw."""
        return self.weight * source + (1 - self.weight) * target

    def __call__(self, changes: Array) -> Array:
        """Return the mean or CVaR over the draws, the last axis."""
        if self.tail is None:
            return np.asarray(changes.mean(axis=-1))
        return mean_of_largest(changes, self.tail)

    @property
    def text(self) -> str:
        """The objective in words."""
        statistic = "mean" if self.tail is None else f"CVaR of the worst {100 * self.tail:.4g}% of draws"
        return f"{statistic} of {self.weight:g} dL_source + {1 - self.weight:g} dL_target"


def check_weight(weight: float) -> None:
    """Refuse a weight of the source outside [0, 1]."""
    if not (isinstance(weight, Real) and 0 <= weight <= 1):
        raise BayeslawError(f"The weight of the source lies between 0 and 1, not at {weight!r}.", code="bad-weight")


@dataclass(frozen=True)
class Space:
    """Ranges of the choices, as a unit cube of k dimensions; peak and steps have a logarithmic scale."""

    ranges: Mapping[str, tuple[float, float]]

    def __post_init__(self) -> None:
        if not self.ranges:
            raise BayeslawError(f"Give a range of at least one of {', '.join(CHOICES)}, such as peak=1e-4:1e-3.", code="no-ranges")
        for name, ends in self.ranges.items():
            check_choice(name)
            least, most = LIMITS[name]
            numbers = isinstance(ends, tuple | list) and len(ends) == 2 and all(isinstance(end, Real) for end in ends)
            if not (numbers and least <= ends[0] < ends[1] <= most):
                shown = f"{ends[0]:g}:{ends[1]:g}" if numbers else repr(ends)
                raise BayeslawError(f"{name}={shown}: give a rising range in {least:g} to {most:g}.", code="bad-range")

    @property
    def size(self) -> int:
        """The number of dimensions k."""
        return len(self.ranges)

    def choices(self, point: Array) -> dict[str, float]:
        """Return the choices at a point (k,) of the unit cube."""
        values = {}
        for name, share in zip(self.ranges, point.tolist(), strict=True):
            low, high = self._ends(name)
            value = low + share * (high - low)
            values[name] = math.exp(value) if name in LOGARITHMIC else value
            if name == "steps":
                values[name] = float(round(values[name]))
        return values

    def _ends(self, name: str) -> tuple[float, float]:
        """Return the ends of a range on its scale."""
        low, high = self.ranges[name]
        return (math.log(low), math.log(high)) if name in LOGARITHMIC else (low, high)

    def point(self, choice: Mapping[str, float]) -> Array:
        """Return the point (k,) of the unit cube that has these choices."""
        shares = []
        for name in self.ranges:
            low, high = self._ends(name)
            value = math.log(choice[name]) if name in LOGARITHMIC else choice[name]
            shares.append((value - low) / (high - low))
        return np.array(shares)

    def points(self, seed: int) -> Array:
        """Return points (G, k) that fill the unit cube: evenly spaced for k = 1, otherwise the corners and a Sobol sequence."""
        count = GRID[self.size]
        if self.size == 1:
            return np.linspace(0, 1, count)[:, None]
        corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * self.size), axis=-1).reshape(-1, self.size)
        return np.concatenate([corners, qmc.Sobol(self.size, seed=seed).random(count)])


@dataclass(frozen=True, eq=False)
class Landscape:
    """Changes (G, S) of both losses from the checkpoint of `recipe`, at points (G, k) of the unit cube, for numbered draws (S,)."""

    recipe: Recipe
    posteriors: tuple[Posterior, Posterior]
    space: Space
    at: Array
    dsource: Array
    dtarget: Array
    draws: Index

    def table(self, points: Array) -> pd.DataFrame:
        """Return the settings at the ends of recipes (G, k), one row each."""
        rows = list[pd.DataFrame]()
        for point in points:
            choices = self.space.choices(point)
            try:
                rows.append(self.recipe.varied(**choices).rows())
            except BayeslawError as error:
                shown = settings_text(choices)
                raise BayeslawError(f"The ranges hold {shown}, which no recipe has: {error}", code=error.code) from None
        return pd.concat(rows, ignore_index=True).assign(run=[f"recipe {i}" for i in range(len(points))])

    def changes(self, points: Array, draws: Index | None = None) -> tuple[Array, Array]:
        """Return the changes (G, S) of source and target at the ends of recipes (G, k), by default for the draws of the search."""
        chosen = self.draws if draws is None else draws
        table = self.table(points)
        pairs = zip(self.posteriors, self.base_losses, strict=True)
        source, target = (losses(posterior, table, chosen) - base[:, chosen] for posterior, base in pairs)
        return source, target

    @cached_property
    def base_losses(self) -> list[Array]:
        """Losses (1, S) of source and target at the recipe's checkpoint, for all draws."""
        return [losses(posterior, self.recipe.rows([0])) for posterior in self.posteriors]

    def best(self, objective: Objective) -> Array:
        """Return the best recipe (k,): the best evaluated one, improved by Nelder-Mead within the ranges."""
        values = objective(objective.combine(self.dsource, self.dtarget))
        start = self.at[int(values.argmin())]

        def value(point: Array) -> float:
            return float(objective(objective.combine(*self.changes(np.clip(point, 0, 1)[None, :])))[0])

        # The first simplex lies inside the cube and is as wide as the distance between evaluated recipes.
        k = self.space.size
        width = 1.5 * len(self.at) ** (-1 / k)
        simplex = np.concatenate([start[None, :], start[None, :] + np.diag(np.where(start + width <= 1, width, -width))])
        options = {"xatol": 1e-4, "fatol": 1e-9, "maxfev": 60 * k, "initial_simplex": simplex}
        result = minimize(value, start, method="Nelder-Mead", bounds=[(0.0, 1.0)] * k, options=options)
        return np.asarray(np.clip(result.x, 0, 1) if result.fun < values.min() else start)

    def along(self, point: Array) -> Landscape:
        """Return the landscape with recipes along each choice as well, the others as at a point (k,).

        Few of the first recipes lie on the faces of the cube, where the best ones of draws often are.
        """
        lines = np.tile(point, (self.space.size, GRID[1], 1))
        for i, line in enumerate(lines):
            line[:, i] = np.linspace(0, 1, GRID[1])
        points = lines.reshape(-1, self.space.size)
        dsource, dtarget = self.changes(points)
        return replace(
            self,
            at=np.concatenate([self.at, points]),
            dsource=np.concatenate([self.dsource, dsource]),
            dtarget=np.concatenate([self.dtarget, dtarget]),
        )

    def central(self) -> Landscape:
        """Return the landscape of the central draw alone, whose losses lie nearest to the means over draws at all recipes."""
        both = np.concatenate([self.dsource, self.dtarget])
        spread = both.std(axis=1, keepdims=True)
        i = int((((both - both.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-12)) ** 2).sum(axis=0).argmin())
        return replace(self, dsource=self.dsource[:, [i]], dtarget=self.dtarget[:, [i]], draws=self.draws[[i]])


def combinable(*posteriors: Posterior, force: bool = False) -> tuple[list[Posterior], int]:
    """Return posteriors whose losses can be added draw by draw, and their number of draws; refuse others, and those that failed."""
    require_losses(posteriors, "a sum of losses of two domains")
    for posterior in posteriors:
        check_passed(posterior, force)
    units = list(dict.fromkeys(posterior.unit for posterior in posteriors))
    if len(units) > 1:
        raise BayeslawError(
            f"Losses in {', '.join(units)} can't be added: convert them to one unit with `bayeslaw convert` and fit again.",
            code="several-units",
        )
    sizes = [posterior.size for posterior in posteriors]
    check_pairing(
        sizes,
        f"The draws of the fits can't be paired ({', '.join(f'{n:,}' for n in sizes)}): fit all with as many draws and chains.",
    )  # fmt: skip
    return paired(posteriors), sizes[0]


def _landscape(source: Posterior, target: Posterior, recipe: Recipe, space: Space, seed: int, *, force: bool) -> Landscape:
    """Return the changes of both losses at recipes that fill the ranges."""
    (source, target), size = combinable(source, target, force=force)
    require_recipe(recipe, [source, target])
    memory_of([source, target], recipe.memory)
    power_of([source, target], recipe.power)
    if "r" in space.ranges and not any("r" in posterior.measured for posterior in (source, target)):
        raise BayeslawError(
            "No law here has a replay share r to choose: fit laws that have one, such as cpt-dynamics-replay-*.", code="no-replay"
        )
    recipe.varied(**space.choices(np.full(space.size, 0.5)))  # refuses choices that this recipe doesn't have
    draws = np.unique(np.linspace(0, size - 1, min(DRAWS, size)).astype(np.int64))
    points, empty = space.points(seed), np.empty((0, draws.size))
    landscape = Landscape(recipe, (source, target), space, points, empty, empty, draws)
    dsource, dtarget = landscape.changes(points)
    return replace(landscape, dsource=dsource, dtarget=dtarget)


def _choose(landscape: Landscape, objective: Objective, seed: int, *, force: bool) -> Balance:
    """Return the best recipe of a landscape, compared with the plug-in recipe and with each draw's own best."""
    space = landscape.space
    best = landscape.best(objective)
    choice, near = space.choices(best), landscape.along(best) if space.size > 1 else landscape
    plug_in = space.choices(landscape.central().best(Objective(objective.weight)))
    all_draws = np.arange(landscape.base_losses[0].shape[1])
    source, target = landscape.changes(np.stack([space.point(choice), space.point(plug_in)]), all_draws)
    combined = objective.combine(source, target)
    grid = objective.combine(near.dsource, near.dtarget)
    least = np.minimum(grid.min(axis=0), combined[:, landscape.draws].min(axis=0))
    regret, plug_in_regret = (float((row[landscape.draws] - least).mean()) for row in combined)
    edges = [
        f"{name} = {ends[share > 0.5]:.4g} is the end of its range: the best value may lie beyond it"
        for (name, ends), share in zip(space.ranges.items(), space.point(choice).tolist(), strict=True)
        if min(share, 1 - share) < EDGE
    ]
    checks, notes = _forecast_checks(landscape, space.point(choice), seed, force=force)
    return Balance(
        landscape=landscape, objective=objective, choice=choice, plug_in=plug_in, changes=(source[0], target[0]),
        value=float(objective(combined[0])), plug_in_value=float(objective(combined[1])), own=near.at[grid.argmin(axis=0)],
        regret=regret, plug_in_regret=plug_in_regret, checks=checks, notes=(*edges, *notes),
    )  # fmt: skip


def _forecast_checks(landscape: Landscape, point: Array, seed: int, *, force: bool) -> tuple[tuple[Check, ...], list[str]]:
    """Return the checks of the forecasts at a recipe, and notes on how far it lies outside the runs; refuse failed checks."""
    checks, notes = list[Check](), list[str]()
    for posterior in landscape.posteriors:
        at = Runs(landscape.table(point[None, :]), "the recipe")
        prediction = forecast(posterior, at, discrepancy="none", seed=seed, force=force)
        checks += prediction.checks
        extrapolation = prediction.summary()["extrapolation"].iloc[0]
        if extrapolation != "inside":
            notes.append(f"{posterior.name}: {extrapolation}")
    return tuple(checks), list(dict.fromkeys(notes))
