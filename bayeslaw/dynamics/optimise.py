"""What is minimised over recipes, and where: the weighted change of two losses, and the ranges of what is chosen.

Which recipe serves two domains best: least weighted change of the losses, over peak rate, potential, replay and steps.

    minimise over recipes x   mean or CVaR over draws of   w dL_source(x) + (1 - w) dL_target(x)       (Wang et al. 2025, eq. 5)

dL is the change from the checkpoint of the recipe as it was given, before the adaptation, so that recipes which differ in their
pre-training are held against one loss. All recipes are judged by the same draws: their differences are then far surer than either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import qmc

from bayeslaw.core import intervals
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, nearest, whole_number
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.recipe import CHOICES, Recipe, losses
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Posterior, check_pairing
from bayeslaw.posterior.diagnostics import Check, marked, passed_over

LOGARITHMIC = ("peak", "steps")
LIMITS = {"peak": (1e-12, 1.0), "steps": (1.0, 1e9), "potential": (0.0, 1.0), "r": (0.0, 1.0)}
GRID = {1: 65, 2: 256, 3: 512, 4: 1024}  # recipes looked at first, by the number of choices


def check_weight(weight: float) -> None:
    """Refuse a weight of the source that leaves the target none, or more than all."""
    if not 0 <= weight <= 1:
        raise BayeslawError(f"The weight of the source is {weight:g}; it lies between 0 and 1, the target has the rest.")


@dataclass(frozen=True)
class Objective:
    """What is minimised.

    Attributes
    ----------
    weight : float
        w, of the source; the target has 1 - w.
    tail : float or None
        None for the mean; else the share of worst draws whose mean is taken, as CVaR.
    """

    weight: float
    tail: float | None = None

    def __post_init__(self) -> None:
        check_weight(self.weight)
        if self.tail is not None and not 0 < self.tail < 1:
            raise BayeslawError(f"The tail of CVaR is {self.tail:g}; it is the share of worst draws, such as 0.1.")

    def combine(self, source: Array, target: Array) -> Array:
        """Weighted changes, draw by draw."""
        return self.weight * source + (1 - self.weight) * target

    def __call__(self, changes: Array) -> Array:
        """Mean or CVaR over the draws, the last axis."""
        if self.tail is None:
            return np.asarray(changes.mean(axis=-1))
        worst = max(round(self.tail * changes.shape[-1]), 1)
        return np.asarray(np.partition(changes, changes.shape[-1] - worst, axis=-1)[..., -worst:].mean(axis=-1))

    @property
    def text(self) -> str:
        what = "mean" if self.tail is None else f"CVaR of the worst {self.tail:.0%} of draws"
        return f"{what} of {self.weight:g} dL_source + {1 - self.weight:g} dL_target"


@dataclass(frozen=True)
class Space:
    """Ranges of what is chosen.

    Attributes
    ----------
    ranges : mapping of choice to (float, float)
    """

    ranges: Mapping[str, tuple[float, float]]

    def __post_init__(self) -> None:
        if not self.ranges:
            raise BayeslawError(f"Say what is to be chosen, and where: {', '.join(CHOICES)}, such as peak=1e-4:1e-3.")
        for name, (low, high) in self.ranges.items():
            if name not in CHOICES:
                raise BayeslawError(f"{name!r} can't be chosen; {', '.join(CHOICES)} can.{nearest(name, CHOICES)}")
            least, most = LIMITS[name]
            if not (least <= low < high <= most):
                raise BayeslawError(f"{name}={low:g}:{high:g}: give a rising range within {least:g} and {most:g}.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.ranges)

    @property
    def size(self) -> int:
        return len(self.ranges)

    def choices(self, at: Array) -> dict[str, float]:
        """What a point of the unit cube (k,) chooses."""
        made = {}
        for (name, (low, high)), share in zip(self.ranges.items(), at.tolist(), strict=True):
            if name in LOGARITHMIC:
                made[name] = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
            else:
                made[name] = low + share * (high - low)
            if name == "steps":
                made[name] = float(round(made[name]))
        return made

    def points(self, seed: int) -> Array:
        """Points (G, k) that fill the unit cube: even ones along a line, Sobol's else, and the corners."""
        count = GRID[self.size]
        if self.size == 1:
            return np.linspace(0, 1, count)[:, None]
        corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * self.size), axis=-1).reshape(-1, self.size)
        return np.concatenate([corners, qmc.Sobol(self.size, seed=seed).random(count)])


def unit(space: Space, choice: Mapping[str, float]) -> Array:
    """The point (k,) of the unit cube that chooses so."""
    made = []
    for name, (low, high) in space.ranges.items():
        ends = (math.log(low), math.log(high)) if name in LOGARITHMIC else (low, high)
        value = math.log(choice[name]) if name in LOGARITHMIC else choice[name]
        made.append((value - ends[0]) / (ends[1] - ends[0]))
    return np.array(made)


EDGE = 1e-3  # of a range: an optimum nearer to an end lies on it
DRAWS = 1_000  # by which recipes are searched; the one chosen is judged by all


@dataclass(frozen=True)
class Landscape:
    """Changes of both losses over recipes, for common draws.

    Attributes
    ----------
    recipe : Recipe
        As given; its checkpoint is what changes are counted from.
    source, target : Fit or Stack
    space : Space
    at : array (G, k)
        Recipes looked at, in the unit cube of the space.
    dsource, dtarget : arrays (G, S)
        Changes of the losses.
    draws : int array (S,)
        Which of the draws these are.
    """

    recipe: Recipe
    source: Posterior
    target: Posterior
    space: Space
    at: Array
    dsource: Array
    dtarget: Array
    draws: Index

    def table(self, at: Array) -> pd.DataFrame:
        """Settings at the ends of recipes (G, k), one row each."""
        rows = [self.recipe.varied(**self.space.choices(one)).rows() for one in at]
        return pd.concat(rows, ignore_index=True).assign(run=[f"recipe {i}" for i in range(len(at))])

    def changes(self, at: Array, draws: Index | None = None) -> tuple[Array, Array]:
        """Changes (G, S) of source and target at the ends of recipes, by these draws unless told."""
        chosen = self.draws if draws is None else draws
        table = self.table(at)
        source, target = (losses(p, table, chosen) - b[:, chosen] for p, b in zip(self.both, self.bases, strict=True))
        return source, target

    @property
    def both(self) -> tuple[Posterior, Posterior]:
        return self.source, self.target

    @cached_property
    def bases(self) -> tuple[Array, Array]:
        """Losses (1, S) of the recipe's checkpoint by all draws: of source and target."""
        base = self.recipe.rows([0])
        return losses(self.source, base), losses(self.target, base)

    def best(self, objective: Objective) -> Array:
        """The best recipe (k,): the best of those looked at, then followed downhill within the ranges."""
        values = objective(objective.combine(self.dsource, self.dtarget))
        start = self.at[int(values.argmin())]

        def value(at: Array) -> float:
            return float(objective(objective.combine(*self.changes(np.clip(at, 0, 1)[None, :])))[0])

        found = minimize(
            value,
            start,
            method="Nelder-Mead",
            bounds=[(0.0, 1.0)] * self.space.size,
            options={"xatol": 1e-4, "fatol": 1e-9, "maxfev": 60 * self.space.size, "initial_simplex": self._simplex(start)},
        )
        best: Array = np.clip(found.x, 0, 1) if found.fun < values.min() else start
        return best

    def _simplex(self, start: Array) -> Array:
        """A first simplex as wide as the recipes looked at lie apart, inside the cube."""
        width = 1.5 * len(self.at) ** (-1 / self.space.size)
        steps = np.where(start + width <= 1, width, -width)
        return np.concatenate([start[None, :], start[None, :] + np.diag(steps)])

    def central(self) -> int:
        """The draw that lies nearest to the mean losses of both domains over all recipes: one set of parameters, no uncertainty."""
        both = np.concatenate([self.dsource, self.dtarget])
        spread = both.std(axis=1, keepdims=True)
        return int((((both - both.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-12)) ** 2).sum(axis=0).argmin())


@dataclass(frozen=True)
class Balance:
    """The best recipe for two domains, and what it costs not to know the law.

    Attributes
    ----------
    landscape : Landscape
    objective : Objective
    choice : dict of str to float
    plug_in : dict of str to float
        What would be chosen by the central draw alone, without uncertainty.
    changes : tuple of arrays (S,)
        Changes of source and target at the choice, by all draws.
    value, plug_in_value : float
        The objective at the choice and at the plug-in, by all draws.
    own : array (S', k)
        Each searched draw's own best recipe, in the unit cube, of those looked at.
    regret, plug_in_regret : float
        Mean over draws of what the choice, and the plug-in, lose to each draw's own best recipe.
    checks : tuple of Check
        Of the forecasts at the choice.
    notes : tuple of str
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

    @property
    def failed(self) -> bool:
        """Whether checks of a fit or of its forecast at the choice failed, and the choice was forced."""
        return not all(fit.passed for fit in self.landscape.both) or any(c.required and not c.passed for c in self.checks)

    @property
    def recipe(self) -> Recipe:
        """The recipe chosen."""
        return self.landscape.recipe.varied(**self.choice)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """The choices, changes of both losses (in their unit) and their weighted sum: value or median, equal-tailed interval.

        The interval of a choice says where the best of it may lie, by each draw's own best recipe; that of a loss what the
        recipe chosen would bring. `checks` says 'passed' or 'FAILED (forced)'.
        """
        own = pd.DataFrame([self.landscape.space.choices(one) for one in self.own])
        source, target = self.landscape.changes(unit(self.landscape.space, self.plug_in)[None, :], np.arange(self.changes[0].size))
        changes = {
            "source_change": (self.changes[0], source[0]),
            "target_change": (self.changes[1], target[0]),
            "weighted_change": (self.objective.combine(*self.changes), self.objective.combine(source, target)[0]),
        }
        table = intervals.rows({name: own[name] for name in self.choice} | {k: v for k, (v, _) in changes.items()}, ci_prob)
        beside = {name: (value, self.plug_in[name]) for name, value in self.choice.items()}
        beside |= {name: (np.median(v), np.median(other)) for name, (v, other) in changes.items()}
        values = pd.DataFrame(beside, index=["value", "plug_in"]).T
        return values.join(table.drop(columns="median")).rename_axis("quantity").assign(checks=marked(self.failed))

    @property
    def text(self) -> str:
        chosen = ", ".join(f"{k} = {v:.4g}" for k, v in self.choice.items())
        other = ", ".join(f"{k} = {v:.4g}" for k, v in self.plug_in.items())
        rises = float((self.changes[0] > 0).mean())
        found = f"{chosen} ({self.value:+.4f} {self.landscape.source.unit})"
        lines = [
            f"best by the {self.objective.text}: {found}{passed_over(self.failed)}",
            f"without uncertainty: {other} ({self.plug_in_value:+.4f}); knowing the law would gain {self.regret:.2g} over the "
            f"choice, {self.plug_in_regret:.2g} over that",
            f"the source loss ends above its base with probability {rises:.0%}, the target loss below its base with "
            f"{float((self.changes[1] < 0).mean()):.0%}",
        ]
        return "\n".join([*lines, *self.notes])


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
    """Choose peak rate, potential, replay or steps for the least weighted change of two losses.

    Parameters
    ----------
    source, target : Fit or Stack
        Fits of the two domains' losses; their draws are paired by number.
    recipe : Recipe
        What is not chosen stays as it says.
    ranges : mapping of choice to (float, float)
        See `recipes.CHOICES`; the best is looked for within.
    weight : float
        Of the source's change; the target's has the rest.
    tail : float, optional
        Minimise CVaR, the mean over this share of worst draws, instead of the mean.
    seed : int
        Of the recipes looked at.
    force : bool
        Go on in spite of failed checks.

    Raises
    ------
    FitError
        If checks of a fit or of its forecast at the choice failed.
    BayeslawError
        If a range or weight can't be used, or draws can't be paired.
    """
    return balance_curve(source, target, recipe, ranges, weights=[weight], tail=tail, seed=seed, force=force)[0]


def balance_curve(
    source: Posterior,
    target: Posterior,
    recipe: Recipe,
    ranges: Mapping[str, tuple[float, float]],
    *,
    weights: Sequence[float],
    tail: float | None = None,
    seed: int = 0,
    force: bool = False,
) -> list[Balance]:
    """The best recipe for each of several weights of the source, as in fig. 8 of Wang et al. 2025; see `balance`."""
    whole_number("seed", seed, 0)
    if not weights:
        raise BayeslawError("Give at least one weight of the source.")
    objectives = [Objective(float(w), tail) for w in weights]
    made = look(source, target, recipe, Space(dict(ranges)), seed, force=force)
    return [_choose(made, objective, seed, force=force) for objective in objectives]


def look(source: Posterior, target: Posterior, recipe: Recipe, space: Space, seed: int, *, force: bool = False) -> Landscape:
    """Changes of both losses over recipes that fill the ranges."""
    size = pairable(source, target, force=force)
    _check_use(space, recipe, source, target)
    draws = np.unique(np.linspace(0, size - 1, min(DRAWS, size)).astype(np.int64))
    at = space.points(seed)
    empty = np.empty((0, draws.size))
    made = Landscape(recipe, source, target, space, at, empty, empty, draws)
    dsource, dtarget = made.changes(at)
    return Landscape(recipe, source, target, space, at, dsource, dtarget, draws)


def pairable(*posteriors: Posterior, force: bool = False) -> int:
    """How many draws the posteriors have, which must be the same in all of them, as must be the unit of their losses.

    Failed checks are refused unless forced.
    """
    for fit in posteriors:
        if not fit.passed and not force:
            raise FitError(f"The checks of {fit.name} failed ({fit.failures}): nothing is said by it. Sample longer, or force it.")
    unit, *more = dict.fromkeys(posterior.unit for posterior in posteriors)
    if more:
        raise BayeslawError(f"Losses in {', '.join([unit, *more])} can't be added: `bayeslaw convert` brings them to one unit.")
    sizes = [sum(chosen.size for _, chosen in fit.shares) for fit in posteriors]
    check_pairing(
        posteriors, sizes,
        f"The draws of the fits can't be paired ({', '.join(f'{n:,}' for n in sizes)}): fit all with as many draws and chains.",
    )  # fmt: skip
    return sizes[0]


def _check_use(space: Space, recipe: Recipe, *posteriors: Posterior) -> None:
    if "r" in space.ranges and not any("r" in p.measured for p in posteriors):
        raise BayeslawError(
            "No law here has a replay share r: it can't be chosen. Fit laws that have it, such as cpt-dynamics-replay-*."
        )
    recipe.varied(**space.choices(np.full(space.size, 0.5)))


def _choose(made: Landscape, objective: Objective, seed: int, *, force: bool) -> Balance:
    at = made.best(objective)
    choice = made.space.choices(at)
    central = made.central()
    single = objective.combine(made.dsource[:, [central]], made.dtarget[:, [central]])
    alone = Landscape(
        made.recipe, made.source, made.target, made.space, made.at, made.dsource[:, [central]], made.dtarget[:, [central]],
        made.draws[[central]],
    )  # fmt: skip
    plug_in = made.space.choices(alone.best(Objective(objective.weight)) if single.size else at)
    every = np.arange(made.bases[0].shape[1])
    pair = np.stack([unit(made.space, choice), unit(made.space, plug_in)])
    source, target = made.changes(pair, every)
    combined = objective.combine(source, target)
    grid = objective.combine(made.dsource, made.dtarget)
    own = grid.argmin(axis=0)
    least = np.minimum(grid.min(axis=0), combined[:, made.draws].min(axis=0))
    regret, other = (float((combined[i, made.draws] - least).mean()) for i in (0, 1))
    found, notes = _judged(made, pair[0], seed, force=force)
    return Balance(
        made, objective, choice, plug_in, (source[0], target[0]), float(objective(combined[0])), float(objective(combined[1])),
        made.at[own], regret, other, found, (*_edges(made.space, choice), *notes),
    )  # fmt: skip


def _edges(space: Space, choice: Mapping[str, float]) -> list[str]:
    """What is to be said of an optimum at the end of a range."""
    said = []
    for name, share in zip(space.names, unit(space, choice).tolist(), strict=True):
        if min(share, 1 - share) < EDGE:
            end = space.ranges[name][share > 0.5]
            said.append(f"{name} = {end:.4g} is the end of its range: the best may lie beyond")
    return said


def _judged(made: Landscape, at: Array, seed: int, *, force: bool) -> tuple[tuple[Check, ...], list[str]]:
    """Checks of the forecasts at a recipe, and how far it lies outside the runs; refused where one failed."""
    checks, said = list[Check](), list[str]()
    for fit in made.both:
        one = forecast(fit, Runs(made.table(at[None, :]), "the recipe"), seed=seed, force=force)
        checks += one.checks
        where = one.summary()["extrapolation"].iloc[0]
        if where != "inside":
            said.append(f"{fit.name}: {where}")
    return tuple(checks), list(dict.fromkeys(said))
