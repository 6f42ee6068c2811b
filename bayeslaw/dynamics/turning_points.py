"""When does an adaptation win back what it first loses: turning length and critical point (Wang et al. 2025, section 4.4).

The weighted loss w L_source + (1 - w) L_target of a recipe is followed over its length T, each length with a schedule of its own.

- Turning length: the fewest steps T, after the loss has risen, at which it is back at its base.
- Limit: what the loss tends to as adaptation goes on for ever. If that lies above the base, the base is never regained.
- Critical point: the length of pre-training whose base loss is just that limit. A longer pre-training is never regained.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core import intervals
from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.units import NATS
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.optimise import check_weight, pairable
from bayeslaw.dynamics.recipe import Recipe, losses
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.planning.search import spans
from bayeslaw.posterior.diagnostics import marked, passed_over
from bayeslaw.schedules.areas import Point

LENGTHS = 81  # lengths looked at, evenly in their logarithm
LONGEST = 1_000_000  # steps, unless told
CRITICAL = 41  # lengths of pre-training looked at
MOST = 3_000_000  # steps of the longest of them, if the recipe's own is not longer


@dataclass(frozen=True)
class TurningPoint:
    """How a weighted loss goes with the length of the adaptation, draw by draw.

    Attributes
    ----------
    steps : int array (n,)
        Lengths looked at.
    loss : array (S, n)
        Weighted loss at the end of each.
    base, limit : arrays (S,)
        Before the adaptation, and what it tends to.
    length : array (S,)
        Turning length in steps: 0 where the loss never rises, inf where it is not back within `steps`.
    critical : array (S,) or None
        Steps of pre-training at the critical point: inf where any pre-training can be regained, 0 where none can; None where
        the pre-training is done and its length can't be varied.
    weight : float
        Of the source.
    outside : bool array (n,)
        Which lengths end outside the runs that were fitted.
    failed : bool
        Whether checks of a fit or forecast failed.
    unit : str
        What the losses are in.
    """

    steps: NDArray[np.int64]
    loss: Array
    base: Array
    limit: Array
    length: Array
    critical: Array | None
    weight: float
    outside: NDArray[np.bool_]
    failed: bool = False
    unit: str = NATS

    @property
    def rises(self) -> float:
        """Probability that the loss rises above its base at some length."""
        return float((self.length > 0).mean())

    @property
    def within(self) -> float:
        """Probability that the base is regained within the lengths looked at, or never left."""
        return float(np.isfinite(self.length).mean())

    @property
    def ever(self) -> float:
        """Probability that the base is ever regained, or never left."""
        return float((np.isfinite(self.length) | (self.limit <= self.base)).mean())

    @property
    def known(self) -> tuple[int, int] | None:
        """The shortest and the longest length within the runs that were fitted; none where all lie outside."""
        inside = self.steps[~self.outside]
        return (int(inside[0]), int(inside[-1])) if inside.size else None

    @property
    def _told(self) -> str:
        """Of which lengths the runs tell, where it is not all."""
        if self.known is None:
            return "none of these lengths: the law alone speaks"
        low, high = self.known
        if not self.outside[0]:
            return f"up to {high:,} steps; beyond the law alone speaks"
        if not self.outside[-1]:
            return f"{low:,} steps and more; of fewer the law alone speaks"
        return f"{low:,} to {high:,} steps; elsewhere the law alone speaks"

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Median and equal-tailed interval of base, limit, turning length and critical point; inf where it is never reached."""
        shown = {"base_loss": self.base, "limit_loss": self.limit, "turning_steps": self.length}
        if self.critical is not None:
            shown["critical_steps"] = self.critical
        return intervals.rows(shown, ci_prob, method="nearest").assign(checks=marked(self.failed))

    def curve(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """The weighted loss over the length: median and equal-tailed interval, and the probability that it is at most the base."""
        loss = intervals.columns(self.loss, ci_prob, "latent")
        back = (self.loss <= self.base[:, None]).mean(axis=0)
        return pd.DataFrame({"steps": self.steps, "outside": self.outside, **loss, "regained": back, "checks": marked(self.failed)})

    @property
    def text(self) -> str:
        what = "source loss" if self.weight == 1 else f"{self.weight:g} L_source + {1 - self.weight:g} L_target"
        lines = [
            f"{what}: rises above its base with probability {self.rises:.0%}; at most its base again within "
            f"{self.steps[-1]:,} steps with {self.within:.0%}, ever with {self.ever:.0%}{passed_over(self.failed)}"
        ]
        if self.outside.any():
            lines.append(f"the runs that were fitted tell of {self._told}")
        if self.critical is not None:
            shown = np.quantile(self.critical, 0.5, method="nearest")
            known = (
                f"{shown:,.0f} steps"
                if 0 < shown < np.inf
                else "nowhere: none can be regained"
                if not shown
                else "beyond all lengths"
            )
            lines.append(f"critical point of the pre-training (median): {known}")
        return "\n".join(lines)


def turning_point(
    source: Posterior,
    recipe: Recipe,
    *,
    target: Posterior | None = None,
    weight: float = 1.0,
    longest: int = LONGEST,
    force: bool = False,
) -> TurningPoint:
    """Follow a weighted loss over the length of the adaptation.

    Parameters
    ----------
    source : Fit or Stack
    recipe : Recipe
        Its adaptation's `steps` are varied; warm-up and all else stay.
    target : Fit or Stack, optional
        Where `weight` is below 1.
    weight : float
        Of the source; the target has the rest.
    longest : int
        Longest adaptation looked at, steps.
    force : bool
        Go on in spite of failed checks.

    Raises
    ------
    FitError
        If checks of a fit, or of its forecasts along the lengths, failed.
    BayeslawError
        If the weight needs a target, draws can't be paired, or losses of two units would be added.
    """
    check_weight(weight)
    if target is None and weight < 1:
        raise BayeslawError(f"A weight of {weight:g} leaves {1 - weight:g} to the target: give a fit of its losses.")
    sides: list[tuple[float, Posterior]] = [(weight, source)] if weight > 0 else []
    if target is not None and weight < 1:
        sides.append((1 - weight, target))
    pairable(*(p for _, p in sides), force=force)
    steps = lengths(recipe, longest)
    table = _ends(recipe, steps)
    failed, outside = False, np.zeros(steps.size, dtype=bool)
    for _, posterior in sides:
        made = forecast(posterior, Runs(table, "the recipe"), force=force)
        failed = failed or made.forced
        outside |= (made.outside.to_numpy() > 1e-9).any(axis=1)
    loss, base = (_weighted(sides, rows).T for rows in (table, recipe.rows([0])))
    limit = _weighted(sides, for_ever(table.tail(1), sides)).T
    critical = None if isinstance(recipe.start, Point) else _critical(recipe, sides, int(steps[-1]))
    back, unit = _returns(steps, base - loss), source.unit
    return TurningPoint(steps, loss, base[:, 0], limit[:, 0], back, critical, weight, outside, failed, unit)


def lengths(recipe: Recipe, longest: int) -> NDArray[np.int64]:
    """Lengths of the adaptation to look at, evenly in their logarithm, beyond its warm-up."""
    whole_number("longest", longest, 10)
    least = shortest(recipe.adapt)
    if least >= longest:
        raise BayeslawError(f"Warm-up and first steps take {least:,}; the longest adaptation looked at is {longest:,}.")
    return np.unique(np.geomspace(least, longest, LENGTHS).round().astype(np.int64))


def option(text: str, name: str) -> float:
    """The largest number that a schedule's text gives to an option; 0 where it gives none."""
    return max((float(found) for found in re.findall(rf"(?<=[:,]){name}=([0-9.eE+-]+)", text)), default=0.0)


def shortest(text: str) -> int:
    """Steps that a schedule's warm-up and decay leave room for, and some more."""
    decay = option(text, "decay") or (0.2 if "wsd" in text else 0.0)
    return math.ceil(option(text, "warmup") / max(1 - decay, 1e-3)) + 10


def _ends(recipe: Recipe, steps: NDArray[np.int64]) -> pd.DataFrame:
    """Settings at the ends of adaptations of several lengths."""
    if recipe.adapt.startswith("constant") and "+" not in recipe.adapt:
        return recipe.varied(steps=float(steps[-1])).rows(steps)
    rows = [recipe.varied(steps=float(n)).rows() for n in steps.tolist()]
    return pd.concat(rows, ignore_index=True).assign(run=[f"{n} steps" for n in steps.tolist()])


def _weighted(sides: list[tuple[float, Posterior]], table: pd.DataFrame) -> Array:
    """Weighted losses (n, S)."""
    return np.sum([w * losses(posterior, table) for w, posterior in sides], axis=0)


def for_ever(row: pd.DataFrame, sides: list[tuple[float, Posterior]]) -> pd.DataFrame:
    """The setting that an adaptation tends to: forward area without end, the annealing as in the longest."""
    support = [p.measured["S1_cpt"].support[1] for _, p in sides if "S1_cpt" in p.measured]
    if not support:
        raise BayeslawError("No law here has a forward area of the adaptation, S1_cpt: its loss has no limit in the steps.")
    far = min(support)
    return row.assign(S1_cpt=far, **({"S1": far} if "S1" in row else {}))


def _returns(steps: NDArray[np.int64], margin: Array) -> Array:
    """Where a margin (S, n), having been negative, is so no more; 0 where it never is, inf where it stays so."""
    below = margin < 0
    first = np.where(below.any(axis=1), below.argmax(axis=1), steps.size)
    after = ~below & (np.arange(steps.size)[None, :] > first[:, None])
    back = np.where(after.any(axis=1), after.argmax(axis=1), steps.size)
    length = np.where(first == steps.size, 0.0, np.inf)
    rows = np.flatnonzero(back < steps.size)
    at = back[rows]
    one, other = margin[rows, at - 1], margin[rows, at]
    x = np.log(steps.astype(np.float64))
    length[rows] = np.exp(x[at - 1] + (x[at] - x[at - 1]) * one / (one - other))
    return length


def _critical(recipe: Recipe, sides: list[tuple[float, Posterior]], longest: int) -> Array:
    """The longest pre-training (S,) from which the base can be regained, of those up to a hundred times the recipe's."""
    assert isinstance(recipe.start, str)
    least = shortest(recipe.start)
    given = max(option(recipe.start, "steps"), least + 1)
    counts = np.unique(
        np.geomspace(max(least, given / 1000), max(min(100 * given, MOST), given), CRITICAL).round().astype(np.int64)
    )
    bases, limits = [], []
    for n in counts.tolist():
        one = recipe.with_pretraining(n)
        bases.append(one.rows([0]))
        limits.append(for_ever(one.varied(steps=float(min(longest, 100_000))).rows(), sides))
    table = [pd.concat(rows, ignore_index=True) for rows in (bases, limits)]
    margin = (_weighted(sides, table[0]) - _weighted(sides, table[1])).T
    found = spans(np.log(counts.astype(np.float64)), margin)
    end = np.where(np.isfinite(found.low), found.high, -np.inf).max(axis=0)
    length = np.where(np.isfinite(end), np.exp(end), 0.0)
    return np.where(end >= np.log(counts[-1]), np.inf, length)
