"""Forecasts of a running training run: its loss at the end, whether it reaches a target, and what more tokens would gain.

The run effect is known from the curve so far and is carried on: at the last logged step the forecast starts from the run's own
deviation from the law, and further ahead it forgets that deviation (noise `normal-drift`). The forecast is of the loss of the run;
single evaluations scatter about it by sigma_point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.intervals import columns, quantiles
from bayeslaw.core.units import NATS
from bayeslaw.data.curves import Curves
from bayeslaw.data.table import Runs
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import require_losses
from bayeslaw.posterior.diagnostics import checks_label, failure_suffix
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import trace
from bayeslaw.schedules.schedule import Schedule

POINTS = 200  # steps ahead that are forecast
SAME_RATE = 0.02  # share of the peak: larger differences between a schedule's rates and those logged are noted
SAME_LOSS = 0.02  # larger relative differences between the last loss and the law are noted


@dataclass(frozen=True)
class Watch:
    """The forecast of a running run, for each draw.

    Attributes
    ----------
    step, steps : int, int array (n,)
        The last logged step, and steps from there to the end of the schedule.
    loss : array (S, n)
        The run's loss in `unit`, with its own run effect; `target` is the loss to be reached.
    point : array (S,)
        Relative standard deviation of single evaluations.
    settings : DataFrame
        Covariates at the steps, and `extrapolation`.
    failed : bool
        Whether checks of the fit or forecast failed and were forced.

    Examples
    --------
    >>> curves = bayeslaw.data.read_curves("running.csv", warmup=100)
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> watch = bayeslaw.dynamics.watch(bayeslaw.load_fit("annealing.nc"), curves, "now", schedule, target=3.8)
    >>> watch.reached.shape == watch.steps.shape
    True
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
            raise BayeslawError("No target was given: call `watch` with a target loss.", code="no-target")
        return np.asarray((np.minimum.accumulate(self.loss, axis=1) <= self.target).mean(axis=0))

    @property
    def gain(self) -> Array:
        """Draws (S,) of how much lower the loss will be at the last step than now, in `unit`."""
        return self.loss[:, 0] - self.loss[:, -1]

    def table(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return, for each step ahead, the median and interval of the run's loss and of its gain, and the probability `reached`."""
        loss, gain = columns(self.loss, ci_prob, "run"), columns(self.loss[:, :1] - self.loss, ci_prob, "gain")
        table = pd.DataFrame({"step": self.steps, **loss, **gain})
        if self.target is not None:
            table["reached"] = self.reached
        return table.assign(extrapolation=self.settings["extrapolation"].to_numpy(), checks=checks_label(self.failed))

    def summary(self, ci_prob: float = 0.9) -> str:
        """Return the loss at the end, the gain, the probability of the target, and the notes, in words."""
        (end, low, high), gain = quantiles(self.loss[:, -1], ci_prob), quantiles(self.gain, ci_prob)
        lines = [
            f"{self.run}, step {self.step:,} of {self.steps[-1]:,}: loss at the end {end:.4f} ({low:.4f} to {high:.4f}, "
            f"{ci_prob * 100:g}% equal-tailed){failure_suffix(self.failed)}",
            f"still to gain: {gain[0]:.4f} ({gain[1]:.4f} to {gain[2]:.4f}) {self.unit}; the loss falls with probability "
            f"{(self.gain > 0).mean():.0%}",
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
    seed: int = 0,
    force: bool = False,
) -> Watch:
    """Forecast the rest of a run from its curve so far.

    Parameters
    ----------
    fit : Fit
        Fit of a law of training dynamics to curves that include this run, with noise that has a run effect.
    curves, run : Curves, str
        The fitted curves, and the running run among them.
    schedule : Schedule
        The learning rates of its whole phase, those so far and those planned.
    domain, target : str and float, optional
        The domain of the fitted losses if the curves have several; the loss to be reached, in the unit of the fit.
    seed, force : int, bool
        Seed of the run effect ahead; whether to go on in spite of failed checks.

    Raises
    ------
    BayeslawError
        If the run was not fitted ('unknown-run'), nothing of the schedule lies ahead ('nothing-ahead'), or checks failed
        ('failed-checks').

    Examples
    --------
    >>> curves = bayeslaw.data.read_curves("running.csv", warmup=100)
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> watch = bayeslaw.dynamics.watch(bayeslaw.load_fit("annealing.nc"), curves, "now", schedule)
    >>> watch.steps[[0, -1]].tolist()
    [2000, 4000]
    """
    require_losses([fit], "the rest of a curve of losses")
    whole_number("seed", seed, 0)
    if target is not None and not (np.isfinite(target) and target > 0):
        raise BayeslawError(f"The target is a loss in {fit.unit} above 0, not {target:g}.", code="bad-target")
    curve, start = curves.curve(run), curves.start(run)
    if run not in fit.observed.run_names:
        raise BayeslawError(
            f"{run!r} is not among the runs of the fit: fit the law to its curve so far, with or without other runs.",
            code="unknown-run",
        )
    last = int(curves.logged(run, domain)["step"].max())
    if len(schedule) <= last:
        raise BayeslawError(
            f"The schedule ends at step {len(schedule):,}, but {run} is at step {last:,}: give the schedule to its end.",
            code="nothing-ahead",
        )
    steps = np.unique(np.linspace(last, len(schedule), POINTS).round().astype(np.int64))
    areas, _ = trace(schedule, steps, start, phase=curve.phase, memory=curves.memory, power=curves.power, weight=curve.weight)
    # The law or its noise may need other columns, such as N and r, which are those of the run's last row.
    row, wanted = curves.frame[curves.frame["run"] == run].iloc[-1], (*fit.law.measured, *fit.law.levels, fit.observed.group_column)
    others = {c: row[c] for c in wanted if c in row.index and c not in areas}
    settings = areas.dropna(axis=1, how="all").assign(run=run, **others)
    prediction = forecast(fit, Runs(settings, run), discrepancy="none", seed=seed, force=force)
    effect = prediction.members[0].learnt.at(np.arange(steps.size)).T
    loss = prediction.expected(slice(None)).T * np.exp(effect)
    settings = settings.assign(extrapolation=prediction.summary()["extrapolation"].to_numpy())
    notes = _notes(schedule, curves.schedule(run), last, float(np.median(effect[:, 0])), settings)
    group = fit.noise.groups_of(fit.observed)[fit.observed.run_names.index(run)]
    point = fit.noise.scales(fit.draws, "sigma_point")[group]
    return Watch(run, last, steps, loss, point, target, settings, tuple(notes), prediction.forced, prediction.unit)


def _notes(schedule: Schedule, logged: Schedule, last: int, deviation: float, settings: pd.DataFrame) -> list[str]:
    """Return notes on rates that differ from those logged, a run that deviates from the law, and extrapolation."""
    notes, count = list[str](), min(last, len(logged))
    difference = np.abs(schedule.rates[:count] - logged.rates[:count]) / logged.peak
    if count and difference.max() >= SAME_RATE:
        i = int(difference.argmax())
        notes.append(
            f"the schedule's rate at step {i + 1:,} is {schedule.rates[i]:.3g}, the logged one {logged.rates[i]:.3g}: areas are "
            "computed from the schedule"
        )
    if abs(deviation) > SAME_LOSS:
        notes.append(f"the run now deviates by {deviation:+.1%} from the law, more than a run effect: the law may not hold for it")
    if not (settings["extrapolation"] == "inside").all():
        notes.append("the end of the schedule lies " + settings["extrapolation"].iloc[-1])
    return notes
