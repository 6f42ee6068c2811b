"""When an adaptation regains the loss that it first raises: turning length and critical point (Wang et al. 2025, section 4.4).

The weighted loss w L_source + (1 - w) L_target of a recipe is computed for several lengths T of the adaptation, each with its own
schedule.

- Turning length: the smallest T, after the loss has risen, at which it is back at its base (the loss before the adaptation).
- Limit: the loss that an endless adaptation tends to. If the limit lies above the base, the base is never regained.
- Critical point: the length of the pre-training whose base loss equals the limit. The base loss of a longer pre-training is never
  regained.
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
from bayeslaw.core.text import short_lines
from bayeslaw.data.schedule_text import logged_files, parse_schedule, phases_of
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.memory import memory_of, power_of
from bayeslaw.dynamics.optimise import check_weight, combinable
from bayeslaw.dynamics.recipe import Recipe, losses, require_recipe
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.planning.search import intervals_of
from bayeslaw.posterior.diagnostics import checks_label, failure_suffix
from bayeslaw.posterior.fit import require_fits
from bayeslaw.schedules.areas import Point
from bayeslaw.schedules.schedule import MOST_STEPS

LENGTHS = 81  # evaluated lengths of the adaptation, evenly spaced in their logarithm
CRITICAL = 41  # evaluated lengths of the pre-training
ENDLESS = 1e100  # forward area: at the end of its support, 1e6, a seventh of the shift is left where its exponent is .12
MOST = 3_000_000  # steps of the longest of them, if the recipe's own is not longer


@dataclass(frozen=True, eq=False)
class TurningPoint:
    """A weighted loss over the length of the adaptation, for each draw.

    Attributes
    ----------
    steps, loss : int array (n,), array (S, n)
        Evaluated lengths of the adaptation, and the weighted loss at the end of each.
    base, limit : arrays (S,)
        Weighted loss before the adaptation, and the limit that it tends to.
    length : array (S,)
        Turning length in steps: 0 where the loss never rises, inf where the base is not regained within `steps`.
    critical : array (S,) or None
        Steps of pre-training at the critical point: inf where the base is regained after any pre-training, 0 where it never is;
        None for a finished pre-training, a point or one of logged rates, whose length is fixed. Several phases of a planned one
        are longer and shorter together.
    weight, failed : float, bool
        Weight of the source; whether checks of a fit or forecast failed and were forced.
    outside : bool array (n,)
        Whether each length ends outside the range of the fitted runs.

    Examples
    --------
    >>> source = bayeslaw.load_fit("dynamics_source.nc")
    >>> recipe = bayeslaw.dynamics.Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")
    >>> turning_point = bayeslaw.dynamics.turning_point(source, recipe, longest=20_000)
    >>> list(turning_point.summary().index)
    ['base_loss', 'limit_loss', 'turning_steps', 'critical_steps']
    """

    steps: NDArray[np.int64]
    loss: Array
    base: Array
    limit: Array
    length: Array
    critical: Array | None
    weight: float
    outside: NDArray[np.bool_]
    failed: bool
    unit: str

    def __repr__(self) -> str:
        return short_lines(f"<TurningPoint: {self.text.splitlines()[0]}>")

    @property
    def rises(self) -> float:
        """Probability that the loss rises above its base at some of the lengths."""
        return float((self.length > 0).mean())

    @property
    def within(self) -> float:
        """Probability that the base is regained within the evaluated lengths, or that the loss never rises."""
        return float(np.isfinite(self.length).mean())

    @property
    def ever(self) -> float:
        """Probability that the base is regained at any length, or that the loss never rises."""
        return float((np.isfinite(self.length) | (self.limit <= self.base)).mean())

    @property
    def fitted(self) -> tuple[int, int] | None:
        """The shortest and the longest length within the range of the fitted runs, or None if all lengths lie outside."""
        inside = self.steps[~self.outside]
        return (int(inside[0]), int(inside[-1])) if inside.size else None

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return the median and equal-tailed interval of base, limit, turning length and critical point; inf means never."""
        shown = {"base_loss": self.base, "limit_loss": self.limit, "turning_steps": self.length}
        if self.critical is not None:
            shown["critical_steps"] = self.critical
        return intervals.rows(shown, ci_prob, method="nearest").assign(checks=checks_label(self.failed))

    def curve(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return the median and interval of the weighted loss at each length, and the probability that the base is regained."""
        loss = intervals.columns(self.loss, ci_prob, "latent")
        back = (self.loss <= self.base[:, None]).mean(axis=0)
        return pd.DataFrame(
            {"steps": self.steps, "outside": self.outside, **loss, "regained": back, "checks": checks_label(self.failed)}
        )

    @property
    def text(self) -> str:
        """Probabilities, the lengths covered by the fitted runs, and the critical point, in words."""
        name = "the source loss" if self.weight == 1 else f"{self.weight:g} L_source + {1 - self.weight:g} L_target"
        lines = [
            f"{name} rises above its base with probability {self.rises:.0%}; it is back at its base within {self.steps[-1]:,} "
            f"steps with probability {self.within:.0%}, at any length with probability {self.ever:.0%}{failure_suffix(self.failed)}"
        ]
        if self.outside.any():
            covered = "none of these lengths" if self.fitted is None else f"{self.fitted[0]:,} to {self.fitted[1]:,} steps"
            lines.append(f"the fitted runs cover {covered}; losses at other lengths are extrapolated")
        if self.critical is not None:
            median = float(np.quantile(self.critical, 0.5, method="nearest"))
            words = {0.0: "none, the base is never regained", math.inf: "beyond all evaluated lengths"}
            lines.append(f"critical point of the pre-training (median): {words.get(median, f'{median:,.0f} steps')}")
        return "\n".join(lines)


def turning_point(
    source: Posterior,
    recipe: Recipe,
    *,
    target: Posterior | None = None,
    weight: float = 1.0,
    longest: int = 1_000_000,
    force: bool = False,
) -> TurningPoint:
    """Compute the weighted loss over the length of the adaptation, and the length at which it regains its base.

    Parameters
    ----------
    source, target : Fit or Stack
        Fits of the losses on the domains of pre-training and adaptation; the target is needed if `weight` is below 1.
    recipe : Recipe
        The steps of its adaptation are varied; its warm-up and everything else stay.
    weight : float
        Weight of the source loss, in [0, 1]; the target has the rest.
    longest, force : int, bool
        Longest adaptation in steps; whether to go on in spite of failed checks.

    Raises
    ------
    BayeslawError
        If the target is missing ('no-target'), draws or losses of the two fits can't be combined, or checks of a fit or of its
        forecasts failed ('failed-checks').

    Examples
    --------
    >>> source = bayeslaw.load_fit("dynamics_source.nc")
    >>> recipe = bayeslaw.dynamics.Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")
    >>> turning_point = bayeslaw.dynamics.turning_point(source, recipe, longest=20_000)
    >>> 0 <= turning_point.within <= turning_point.ever <= 1
    True
    """
    require_fits(source, *([] if target is None else [target]))
    require_recipe(recipe, [source] if target is None else [source, target])
    check_weight(weight)
    if target is None and weight < 1:
        raise BayeslawError(f"The target loss has weight {1 - weight:g}: give a fit of the target losses.", code="no-target")
    given = [(w, p) for w, p in ((weight, source), (1 - weight, target)) if w > 0 and p is not None]
    posteriors, _ = combinable(*(p for _, p in given), force=force)
    memory_of(posteriors, recipe.memory)
    power_of(posteriors, recipe.power)
    terms = [(w, p) for (w, _), p in zip(given, posteriors, strict=True)]
    steps = _lengths(recipe, longest)
    table = _ends(recipe, steps)
    predictions = [forecast(posterior, Runs(table, "the recipe"), discrepancy="none", force=force) for _, posterior in terms]
    failed = any(prediction.forced for prediction in predictions)
    outside = np.any([(prediction.outside.to_numpy() > 0).any(axis=1) for prediction in predictions], axis=0)
    loss, base = (_weighted(terms, rows).T for rows in (table, recipe.rows([0])))
    limit = _weighted(terms, _limit_setting(table.tail(1), terms)).T
    finished = isinstance(recipe.start, Point) or logged_files(recipe.start)
    critical = None if finished else _critical(recipe, terms, int(steps[-1]))
    length = _turning_lengths(steps, base - loss)
    return TurningPoint(
        steps=steps, loss=loss, base=base[:, 0], limit=limit[:, 0], length=length, critical=critical, weight=weight,
        outside=outside, failed=failed, unit=posteriors[0].unit,
    )  # fmt: skip


def _lengths(recipe: Recipe, longest: int) -> NDArray[np.int64]:
    """Return lengths of the adaptation beyond its warm-up, evenly spaced in their logarithm."""
    longest = whole_number("longest", longest, 10, MOST_STEPS)
    least = _shortest(recipe.adapt)
    if least >= longest:
        raise BayeslawError(
            f"With this warm-up an adaptation has at least {least:,} steps, but `longest` is {longest:,}.", code="longest-too-short"
        )
    return np.unique(np.geomspace(least, longest, LENGTHS).round().astype(np.int64))


def _option(text: str, name: str) -> float:
    """Return the largest value of an option in the text of a schedule, or 0 where it is absent."""
    values = re.findall(rf"[:,]\s*{name}\s*=\s*([0-9._]+(?:[eE][+-]?[0-9]+)?)", text)
    return max((float(value) for value in values), default=0.0)


def _shortest(text: str) -> int:
    """Return the fewest steps that contain the warm-up and the decay of a schedule, and 10 more."""
    decay = _option(text, "decay") or (0.2 if "wsd" in text else 0.0)
    return math.ceil(_option(text, "warmup") / max(1 - decay, 1e-3)) + 10


def _ends(recipe: Recipe, steps: NDArray[np.int64]) -> pd.DataFrame:
    """Return the settings at the ends of adaptations of several lengths."""
    if recipe.adapt.startswith("constant") and len(phases_of(recipe.adapt)) == 1:
        return recipe.varied(steps=float(steps[-1])).rows(steps)
    rows = [recipe.varied(steps=float(n)).rows() for n in steps.tolist()]
    return pd.concat(rows, ignore_index=True).assign(run=[f"{n} steps" for n in steps.tolist()])


def _weighted(terms: list[tuple[float, Posterior]], table: pd.DataFrame) -> Array:
    """Return weighted losses (n, S)."""
    return np.sum([w * losses(posterior, table) for w, posterior in terms], axis=0)


def _limit_setting(row: pd.DataFrame, terms: list[tuple[float, Posterior]]) -> pd.DataFrame:
    """Return the setting that an endless adaptation tends to: an endless forward area, the annealing of the longest adaptation."""
    if not any("S1_cpt" in p.measured for _, p in terms):
        message = "No law here has the forward area S1_cpt, so the loss has no limit: fit a cpt-dynamics law."
        raise BayeslawError(message, code="no-adaptation-area")
    return row.assign(**{c: ENDLESS for c in ("S1_cpt", "S1") if c in row})


def _turning_lengths(steps: NDArray[np.int64], margin: Array) -> Array:
    """Return the lengths (S,) at which margins (S, n), linear in log steps, stop being negative: 0 if they never are, else inf."""
    below = margin < 0
    first = np.where(below.any(axis=1), below.argmax(axis=1), steps.size)
    after = ~below & (np.arange(steps.size)[None, :] > first[:, None])
    back = np.where(after.any(axis=1), after.argmax(axis=1), steps.size)
    length = np.where(first == steps.size, 0.0, np.inf)
    rows = np.flatnonzero(back < steps.size)
    at = back[rows]
    before, behind = margin[rows, at - 1], margin[rows, at]
    x = np.log(steps.astype(np.float64))
    length[rows] = np.exp(x[at - 1] + (x[at] - x[at - 1]) * before / (before - behind))
    return length


def _critical(recipe: Recipe, terms: list[tuple[float, Posterior]], longest: int) -> Array:
    """Return the longest pre-training (S,) whose base is regained, of those up to a hundred times as long as the recipe's."""
    assert isinstance(recipe.start, str)
    phases = phases_of(recipe.start)
    lengths = [len(parse_schedule(phase)) for phase in phases]
    whole = sum(lengths)
    least = max(math.ceil(_shortest(phase) * whole / length) for phase, length in zip(phases, lengths, strict=True))
    given = max(whole, least + 1)
    shortest, most = max(least, given / 1000), max(min(100 * given, MOST), given)
    counts = np.unique(np.geomspace(shortest, most, CRITICAL).round().astype(np.int64))
    recipes = [recipe.with_pretraining(n) for n in counts.tolist()]
    far = [_limit_setting(longer.varied(steps=float(min(longest, 100_000))).rows(), terms) for longer in recipes]
    base, limit = (pd.concat(rows, ignore_index=True) for rows in ([longer.rows([0]) for longer in recipes], far))
    margin = (_weighted(terms, base) - _weighted(terms, limit)).T
    regained = intervals_of(np.log(counts.astype(np.float64)), margin)
    end = np.where(np.isfinite(regained.low), regained.high, -np.inf).max(axis=0)
    length = np.where(np.isfinite(end), np.exp(end), 0.0)
    return np.where(end >= np.log(counts[-1]), np.inf, length)
