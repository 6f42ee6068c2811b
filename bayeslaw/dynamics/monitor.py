"""A run that is under way: where its curve will end, whether it reaches a target in time, and what more tokens would gain.

The run's own luck is known from its curve so far and is carried on: at its last logged step the loss lies where it lies, and the
farther ahead, the more the luck forgets (noise `normal-drift`). What is forecast is the run's loss; a single evaluation scatters
about it by sigma_point besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.intervals import columns, quantiles
from bayeslaw.core.units import NATS
from bayeslaw.data.curves import Curves
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.recipe import drop_unknown
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.posterior.diagnostics import checks_label, failure_suffix
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import trace
from bayeslaw.schedules.schedule import Schedule

POINTS = 200  # steps ahead that are looked at
WATCHED = 71  # kind of random numbers: the luck ahead
SAME = 0.02  # of the peak: how far a schedule's rates may lie from those logged before it is said
HISTORY = 0.02  # relative: how far the last loss may lie from the law's before it is said


@dataclass(frozen=True)
class Watch:
    """A run's loss ahead, draw by draw.

    Attributes
    ----------
    run : str
    step : int
        The last one logged.
    steps : int array (n,)
        Steps ahead, from the last logged one to the end of the schedule.
    loss : array (S, n)
        The run's loss, its own luck carried on.
    point : array (S,)
        Relative scatter of single evaluations.
    target : float or None
    settings : DataFrame
        Covariates at the steps, and `extrapolation`.
    notes : tuple of str
    failed : bool
    unit : str
        What the losses are in.
    """

    run: str
    step: int
    steps: NDArray[np.int64]
    loss: Array
    point: Array
    target: float | None
    settings: pd.DataFrame
    notes: tuple[str, ...]
    failed: bool = False
    unit: str = NATS

    @property
    def reached(self) -> Array:
        """Probability (n,) that the run's loss has been at the target or below by each step."""
        if self.target is None:
            raise BayeslawError("No target was given: there is nothing to be reached.")
        return np.asarray((np.minimum.accumulate(self.loss, axis=1) <= self.target).mean(axis=0))

    def by(self, step: int) -> float:
        """Probability that the target has been reached by a step."""
        i = int(np.searchsorted(self.steps, step, side="right")) - 1
        if i < 0 or step > self.steps[-1]:
            raise BayeslawError(f"Step {step:,} is not ahead: the forecast goes from {self.steps[0]:,} to {self.steps[-1]:,}.")
        return float(self.reached[i])

    def probability_of_gain(self, more: float, step: int | None = None) -> float:
        """Probability that the loss will be lower by more than some amount, in `unit`, at a step (the last) than now."""
        return float((self.gain(step) > more).mean())

    def gain(self, step: int | None = None) -> Array:
        """Draws (S,) of how much lower the loss will be at a step (the last) than now, in `unit`."""
        at = self.steps[-1] if step is None else step
        if not self.steps[0] <= at <= self.steps[-1]:
            raise BayeslawError(f"Step {at:,} is not ahead: the forecast goes from {self.steps[0]:,} to {self.steps[-1]:,}.")
        return np.asarray(self.loss[:, 0] - self.loss[:, int(np.abs(self.steps - at).argmin())])

    def table(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Steps ahead: median and equal-tailed interval of the run's loss, of its gain, and the probability of the target."""
        loss, gain = columns(self.loss, ci_prob, "run"), columns(self.loss[:, :1] - self.loss, ci_prob, "gain")
        made = pd.DataFrame({"step": self.steps, **loss, **gain})
        if self.target is not None:
            made["reached"] = self.reached
        return made.assign(extrapolation=self.settings["extrapolation"].to_numpy(), checks=checks_label(self.failed))

    def summary(self, ci_prob: float = 0.9) -> str:
        """What there is to decide by, in words."""
        middle, low, high = quantiles(self.loss[:, -1], ci_prob)
        gain = self.gain()
        g = quantiles(gain, ci_prob)
        name = f"{ci_prob * 100:g}% equal-tailed"
        lines = [
            f"{self.run}, step {self.step:,} of {self.steps[-1]:,}: loss at the end {middle:.4f} ({low:.4f} to {high:.4f}, {name})"
            + failure_suffix(self.failed),
            f"still to gain: {g[0]:.4f} ({g[1]:.4f} to {g[2]:.4f}) {self.unit}; it falls with probability {(gain > 0).mean():.0%}",
        ]
        if self.target is not None:
            lines.append(f"target {self.target:g} reached by step {self.steps[-1]:,} with probability {self.reached[-1]:.0%}")
        return "\n".join([*lines, *self.notes])


def watch(
    fit: Fit,
    curves: Curves,
    run: str,
    schedule: Schedule,
    *,
    domain: str | None = None,
    target: float | None = None,
    steps: Sequence[int] | None = None,
    seed: int = 0,
    force: bool = False,
) -> Watch:
    """Forecast the rest of a run from its curve so far.

    Parameters
    ----------
    fit : Fit
        Of a law of the dynamics, to curves of which this run is one, with noise that has a run effect.
    curves : Curves
        The curves that were fitted.
    run : str
        The run under way.
    schedule : Schedule
        The rates of its whole phase: those it has had, and those planned.
    domain : str, optional
        Whose losses the fit is of, if the curves have several.
    target : float, optional
        Loss to be reached, in the unit of the fit.
    steps : sequence of int, optional
        Steps ahead to look at; 200 from the last logged one to the end unless given.
    seed : int
        Of the luck ahead.
    force : bool
        Go on in spite of failed checks.

    Raises
    ------
    BayeslawError
        If the run is not among those fitted, or the schedule ends before its last logged step or has had other rates so far.
    FitError
        If checks of the fit or of the forecast failed.
    """
    whole_number("seed", seed, 0)
    if target is not None and not (np.isfinite(target) and target > 0):
        raise BayeslawError(f"The target is a loss in {fit.unit}, above 0; {target:g} is none.")
    curve, start = curves.curve(run), curves.start(run)
    if run not in fit.observed.run_names:
        raise BayeslawError(f"{run!r} is not among the runs of the fit: fit the law to its curve so far, with or without others.")
    logged = curves.logged(run, domain)
    last, done = int(logged["step"].max()), curves.schedule(run)
    if len(schedule) <= last:
        raise BayeslawError(f"The schedule ends at step {len(schedule):,}, and {run} is at step {last:,}: nothing lies ahead.")
    notes = _same(schedule, done, last)
    at = (
        np.unique(np.linspace(last, len(schedule), POINTS).round().astype(np.int64))
        if steps is None
        else _ahead(steps, last, schedule)
    )
    made, _ = trace(schedule, at, start, phase=curve.phase, memory=curves.memory, power=curves.power, weight=curve.weight)
    table = drop_unknown(made).assign(run=run, **_others(fit, curves, run, made))
    ahead = forecast(fit, Runs(table, run), seed=seed, force=force)
    latent = ahead.expected(slice(None)).T
    rng = np.random.default_rng((int(fit.info["seed"]), seed, WATCHED))
    luck = fit.noise.sample_later_effects(fit.residual, fit.observed, fit.draws, run, at.astype(np.float64), rng)
    off = float(np.median(luck[:, 0]))
    if abs(off) > HISTORY:
        notes.append(f"the run lies {off:+.1%} off the law now: more than luck, the law may not hold for it")
    settings = table.assign(extrapolation=ahead.summary()["extrapolation"].to_numpy())
    if not (settings["extrapolation"] == "inside").all():
        notes.append("ahead lies " + settings["extrapolation"].iloc[-1])
    group = fit.noise.groups_of(fit.observed)[fit.observed.run_names.index(run)]
    point = fit.noise.scales(fit.draws, "sigma_point")[group]
    return Watch(run, last, at, latent * np.exp(luck), point, target, settings, tuple(notes), ahead.forced, ahead.unit)


def _others(fit: Fit, curves: Curves, run: str, made: pd.DataFrame) -> dict[str, Any]:
    """What else the law or its noise goes by, such as N and r, as the run last had it."""
    last = curves.frame[curves.frame["run"] == run].iloc[-1]
    wanted = (*fit.law.measured, *fit.law.levels, fit.observed.group_column)
    return {c: last[c] for c in wanted if c in last.index and c not in made}


def _same(schedule: Schedule, done: Schedule, last: int) -> list[str]:
    """What is to be said of a schedule whose rates so far are not those logged."""
    count = min(last, len(done))
    off = np.abs(schedule.rates[:count] - done.rates[:count]) / done.peak
    if not count or off.max() < SAME:
        return []
    i = int(off.argmax())
    return [
        f"the schedule's rate at step {i + 1:,} is {schedule.rates[i]:.3g}, the one logged {done.rates[i]:.3g}: areas are those of "
        "the schedule given"
    ]


def _ahead(steps: Sequence[int], last: int, schedule: Schedule) -> NDArray[np.int64]:
    at = np.unique(np.concatenate([[last], np.asarray(steps, dtype=np.int64)]))
    if at[0] < last or at[-1] > len(schedule):
        raise BayeslawError(f"Steps ahead lie between {last:,} and the schedule's last, {len(schedule):,}.")
    return at
