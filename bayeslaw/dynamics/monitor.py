"""Forecasts of a running training run: its loss at the end, whether it reaches a target, and what more tokens would gain.

The fit may be to other runs: its draws are then weighted by the run's losses so far (`condition`). The run effect is known from the
curve so far and is carried on: at the last logged step the forecast starts from the run's own deviation from the law, and further
ahead it forgets that deviation (noise `normal-drift`). The forecast is of the loss of the run; single evaluations scatter about it
by sigma_point. The law errs too: by shares of the changes that it forecasts (`change_errors`), and outside the fitted runs by its
learnt error, if it has one.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index, evenly
from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.intervals import columns, quantiles
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import counted, short_lines
from bayeslaw.core.units import NATS
from bayeslaw.data.curve_checks import Curve
from bayeslaw.data.curves import Curves
from bayeslaw.data.table import Runs
from bayeslaw.data.tokenizers import check_tokenizer
from bayeslaw.data.validate import mixed_domains
from bayeslaw.dynamics import change_errors
from bayeslaw.dynamics.condition import ALARM, BAND, ENDLESS, Conditioned, Scales, condition, left_band
from bayeslaw.dynamics.memory import require_same_areas
from bayeslaw.forecasting.forecast import forecast, forecast_selections
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.forecasting.stack import require_losses
from bayeslaw.laws.law import Law
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import checks_label, failure_suffix
from bayeslaw.posterior.fit import Fit, require_single_fit
from bayeslaw.schedules.areas import FORWARD, trace
from bayeslaw.schedules.changes import nodes, number_of_nodes
from bayeslaw.schedules.schedule import Schedule, joined, require_schedule

MOST_DRAWS = 2_000  # of the fit that are used at most
POINTS = 100  # steps ahead that are forecast
MOST_ROWS = 1_000  # rows of a run that are used at most, so that an update takes no longer than a second or so
Discrepancy = Literal["learned", "none"]
SAME_RESPONSE = 1e-6  # losses whose logarithms differ by less are one loss
LEAST_SAME, NEARLY_ALL = 3, 0.9  # losses that two runs share, and their share of those at common steps, where both are one run
SAME_STEP = 0.005  # relative difference of areas of one step, of which a schedule and rounded rates in a log differ by less
LEAST_EFFECT = 1e-9  # of a run, so that one without an effect needs no formulas of its own
SAME_RATE = 0.02  # share of the peak: larger differences between a schedule's rates and those logged are noted
SAME_LOSS = 0.02  # larger relative differences between the last loss and the law are noted


@dataclass(frozen=True, eq=False)
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
    stated : DataFrame
        The rows that the fit was not fitted to: step, loss, and `pit`, the probability of a lower loss that was stated before each.
    pareto_k, power, reliable : float, float, bool
        Shape of the largest weights of the draws, the power to which the losses count (less than 1 where too few draws are near
        them), and whether both are such that the weighted draws can be relied on.
    seed : int
        As in `watch`, also of the noise of the last evaluation in `final`.

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
    failed: bool
    unit: str
    stated: pd.DataFrame
    pareto_k: float
    power: float
    reliable: bool
    seed: int

    def __repr__(self) -> str:
        return short_lines(f"<Watch of {self.summary().splitlines()[0]}>")

    @property
    def final(self) -> Array:
        """Draws (S,) of the loss that the run will log at the last step: its own, and the noise of one evaluation."""
        # The seed comes last: NumPy takes [a, b, 0] for [a, b], so that the seed 0 gives the numbers that were given without one.
        noise = np.random.default_rng([self.step, Stream.LAST, self.seed]).standard_normal(self.point.size)
        return np.asarray(self.loss[:, -1] * np.exp(self.point * noise))

    @property
    def left(self) -> int | None:
        """The step by which the run has left its band, or None; false alarms: 1 run of 20 at most (`condition.left_band`)."""
        row = left_band(self.stated["pit"].to_numpy())
        return None if row is None else int(self.stated["step"].iloc[row - 1])

    @property
    def reached(self) -> Array:
        """Probability (n,) that the run's loss is at the target or below from now on, at or before each step ahead."""
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
        logged, kind = quantiles(self.final, ci_prob), f"{ci_prob * 100:g}% equal-tailed"
        lines = [
            f"{self.run}, step {self.step:,} of {self.steps[-1]:,}: loss at the end {end:.4f} ({low:.4f} to {high:.4f}, "
            f"{kind}){failure_suffix(self.failed)}",
            f"the last loss that will be logged: {logged[1]:.4f} to {logged[2]:.4f} ({kind}), with the noise of one evaluation",
            f"still to gain: {gain[0]:.4f} ({gain[1]:.4f} to {gain[2]:.4f}, {kind}) {self.unit}; the loss falls with probability "
            f"{(self.gain > 0).mean():.0%}",
        ]
        if self.target is not None:
            lines.append(f"target {self.target:g} reached by step {self.steps[-1]:,} with probability {self.reached[-1]:.0%}")
        return "\n".join([*lines, *self.warnings, *self.notes])

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the run or the forecast, and what to do, in words."""
        lines = []
        if (left := self.left) is not None:
            pit = self.stated["pit"].to_numpy()[self.stated["step"] <= left][-10:]
            lines.append(
                f"LEFT ITS BAND by step {left:,}: {int((np.abs(pit - 0.5) > BAND / 2).sum())} of the last {pit.size} losses up to "
                f"there lie outside the {BAND:.0%} intervals stated before they came. Of runs that follow the law exactly "
                f"at most {ALARM:.0%} do so by chance; measured runs follow none exactly, and healthy ones do so more often. "
                "Look at data, learning rate and hardware since then; the forecast assumes that law and schedule hold"
            )
        if not self.reliable:
            counted_at = f": they count at {100 * self.power:.2g}% of their weight"
            shape = f" (Pareto k {self.pareto_k:.2f})" if self.power == 1 else counted_at
            lines.append(
                f"the run's losses say more than weights of the fit's draws can take in{shape}; do not rely on these intervals. "
                "Fit the law again with this run among the runs, as --refit does (refit='wait' of a Follower)"
            )
        return lines


def watch(
    fit: Fit,
    curves: Curves,
    run: str,
    schedule: Schedule,
    *,
    domain: str | None = None,
    target: float | None = None,
    seed: int = 0,
    discrepancy: Discrepancy = "learned",
    force: bool = False,
    check: bool = True,
) -> Watch:
    """Forecast the rest of a run from its curve so far.

    Parameters
    ----------
    fit : Fit
        Fit of a law of training dynamics to curves, with or without rows of this run. Draws are weighted by the rows that it was
        not fitted to, which needs normal noise without checkpoint effects, such as `normal-drift`.
    curves, run : Curves, str
        Curves with the running run, and its name.
    schedule : Schedule
        The learning rates of its whole phase, those so far and those planned.
    domain, target : str and float, optional
        The domain of the fitted losses if the curves have several; the loss to be reached, in the unit of the fit.
    discrepancy : {'learned', 'none'}
        Whether the forecast counts what laws err by (`change_errors`), or takes the law for exact.
    check : bool
        Whether the checks of the fit and of the forecast are made. `Follower` makes them once for all updates of a run.
    seed, force : int, bool
        Seed of the run effect ahead, of the law's errors and of the noise of the last evaluation; whether to go on in spite of
        failed checks.

    Raises
    ------
    BayeslawError
        If there is no such run ('unknown-run'), nothing of the schedule lies ahead ('nothing-ahead'), a law of all changes of the
        rate does not know those of earlier phases ('no-earlier-rates'), draws can't be weighted
        under the fit's noise ('not-weighted'), areas have another memory or power than the fit's, or count steps otherwise
        ('other-memory', 'other-power', 'other-batch'), the law is not one of training dynamics ('no-areas'), or checks failed
        ('failed-checks').

    Examples
    --------
    >>> curves = bayeslaw.data.read_curves("running.csv", warmup=100)
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> watch = bayeslaw.dynamics.watch(bayeslaw.load_fit("annealing.nc"), curves, "now", schedule)
    >>> watch.steps[[0, -1]].tolist()
    [2000, 4000]
    """
    check_arguments(fit, schedule, seed, discrepancy, target)
    require_same_areas([fit], curves)
    logged = _logged(fit, curves, run, domain)
    last = int(logged["step"].max())
    steps = _steps_ahead(schedule, run, last)
    rows, notes = _usable(fit, logged)
    if rows.empty:
        notes.append("NO LOSS OF THE RUN IS USED: this is what the law says of the schedule alone, whatever the run has logged")
    ahead = settings_ahead(fit, curves, run, schedule, steps)
    forced = not fit.passed
    if check or forced:
        forced = forecast(fit, Runs(ahead, run), seed=seed, force=force).forced
    learned = discrepancy == "learned"
    # At the same steps with the rate as it is now: laws err by shares of the difference.
    with_rate_kept = settings_ahead(fit, curves, run, kept(schedule, last), steps) if learned else ahead[:0]
    fitted_as, shared = _name_in(fit, run, rows)
    new = ~_fitted(fit, fitted_as, rows)
    if shared:
        notes.append(shared)
    elif new.all() and run in fit.observed.run_names and len(rows):
        notes.append(f"the fit has another run of the name {run}, with other losses: this one is taken for a new run")
    path = _path(fit, fitted_as, (rows, ahead, with_rate_kept), seed, learned=learned)
    known = _conditioned(fit, path, rows, new, seed)
    loss = path.ahead[known.chosen] * np.exp(known.effect)
    if learned:
        rng = _generator(fit, seed, Stream.CHANGE_ERROR)
        loss *= _errors_of_changes(path.ahead[known.chosen], path.rate_kept[known.chosen], rng)
    ahead = ahead.assign(extrapolation=path.extrapolation)
    notes += _reached_before(rows, target)
    notes += _notes(schedule, curves.curve(run), float(np.median(known.effect[:, 0])), ahead)
    stated = pd.DataFrame({"step": rows["step"].to_numpy(np.int64)[new], "loss": rows["loss"].to_numpy()[new], "pit": known.pit})
    return Watch(
        run=run, step=last, steps=steps, loss=loss, point=path.point[known.chosen], target=target, settings=ahead,
        notes=tuple(notes), failed=forced, unit=path.unit, stated=stated, pareto_k=known.pareto_k, power=known.power,
        reliable=known.reliable, seed=seed,
    )  # fmt: skip


def _steps_ahead(schedule: Schedule, run: str, last: int) -> NDArray[np.int64]:
    """Return steps from the last logged one to the end of a schedule; one that has nothing ahead is refused."""
    if len(schedule) <= last:
        raise BayeslawError(
            f"The schedule ends at step {len(schedule):,}, but {run} is at step {last:,}: give the schedule to its end.",
            code="nothing-ahead",
        )
    return np.unique(np.linspace(last, len(schedule), POINTS).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class _Path:
    """What the law says of a run: at its k rows, at the n steps ahead, and at these if the rate stayed as it is.

    Attributes
    ----------
    settings : DataFrame
        Of the rows, then of the steps ahead, then of these with the rate kept.
    past, ahead, rate_kept : arrays (S, k), (S, n) and (S, n)
        Expected losses; the last has no column where the law is taken for exact.
    point : array (S,)
        Relative standard deviation of single evaluations.
    some, member : int array (S,), MemberDraws
        Numbers of the fit's draws, and these with what they say of the run's effect.
    extrapolation : list of str
        How far each step ahead lies outside the runs.
    """

    settings: pd.DataFrame
    past: Array
    ahead: Array
    rate_kept: Array
    point: Array
    some: Index
    member: MemberDraws
    extrapolation: list[str]
    unit: str


def _path(fit: Fit, run: str, parts: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame], seed: int, *, learned: bool) -> _Path:
    """Forecast a run at its rows, at the steps ahead and at these with the rate kept, whose settings are the parts."""
    rows, ahead, with_rate_kept = parts
    settings = pd.concat([rows[[c for c in ahead if c in rows]], ahead, with_rate_kept], ignore_index=True).assign(run=run)
    some = some_draws(fit)
    prediction = forecast_selections(fit.name, [(fit, some)], Runs(settings, run), seed=seed, learned=learned)
    # One posterior for the whole path: draws of that with an error have nothing to do with those of that without.
    whole = prediction.with_errors if prediction.is_outside.any() else prediction
    ends = [len(rows), len(rows) + len(ahead)]
    used = whole.members[0].fit
    past, law, rate_kept = np.split(whole.expected(slice(None)).T, ends, axis=1)
    return _Path(
        settings=settings, past=past, ahead=law, rate_kept=rate_kept,
        point=used.noise.scales(used.draws, "sigma_point")[fit.observed.groups_of(settings)[0]][some],
        some=some, member=whole.members[0], extrapolation=prediction.extrapolation[slice(*ends)], unit=prediction.unit,
    )  # fmt: skip


def check_arguments(fit: Fit, schedule: Schedule, seed: int, discrepancy: str, target: float | None) -> None:
    """Refuse arguments of `watch` that can be judged before there is a log.

    Parameters
    ----------
    fit, schedule, seed, discrepancy, target
        As for `watch`.
    """
    _require_areas(fit)
    require_schedule(schedule)
    seed = whole_number("seed", seed, 0)
    if discrepancy not in get_args(Discrepancy):
        raise BayeslawError(f"discrepancy is {discrepancy!r}; it must be learned or none.", code="unknown-option")
    if target is not None and not (isinstance(target, Real) and 0 < target < np.inf):
        raise BayeslawError(f"The target is a loss in {fit.unit} above 0, not {target!r}.", code="bad-target")


def _conditioned(fit: Fit, path: _Path, rows: pd.DataFrame, new: NDArray[np.bool_], seed: int) -> Conditioned:
    """Return the draws as the run's rows weight them, of which `new` ones are not fitted, and its effect at the steps ahead."""
    count, end = len(rows), len(rows) + path.ahead.shape[1]
    scales = _scales(fit.noise, path.member.fit, path.settings, path.some)
    if scales is not None:
        time = fit.observed.time_of(path.settings) if fit.noise.drift else path.settings["step"].to_numpy(np.float64)
        residual = np.log(rows["loss"].to_numpy(np.float64)) - np.log(path.past)
        errors = (rows["loss_se"] / rows["loss"]).fillna(0.0).to_numpy(np.float64) if "loss_se" in rows else np.zeros(count)
        rng = _generator(fit, seed, Stream.AHEAD)
        return condition(residual, time[:count], new, scales, time[count:end], rng, errors**2)
    if new.any():
        raise BayeslawError(
            f"{rows['run'].iloc[0]} has losses that the fit was not fitted to, and draws can't be weighted by them under its noise "
            f"({fit.noise.text}): fit with noise normal-drift, or with these losses.",
            code="not-weighted",
        )
    effect = path.member.learnt.at(np.arange(count, end)).T
    return Conditioned(np.arange(len(effect)), effect, np.empty(0), 1.0, -np.inf, 0.0)


def _errors_of_changes(law: Array, same_rate: Array, rng: np.random.Generator) -> Array:
    """Return factors (S, n) of the law's losses ahead, for errors that are shares of the changes it forecasts (`change_errors`)."""
    of_rate, course = np.log(law / same_rate), np.log(same_rate / same_rate[:, :1])
    return np.asarray(np.exp(change_errors.LEARNT.draw(of_rate, course, rng)))


def _reached_before(rows: pd.DataFrame, target: float | None) -> list[str]:
    """Return a note where the run logged a loss at the target or below already."""
    if target is None or not (rows["loss"] <= target).any():
        return []
    first = rows[rows["loss"] <= target].iloc[0]
    return [
        f"the run logged {first['loss']:.4f} at step {first['step']:,.0f}, at the target or below: its probability is that of "
        "being there from now on"
    ]


def _generator(fit: Fit, seed: int, kind: Stream) -> np.random.Generator:
    return np.random.default_rng([int(fit.info["seed"]), seed, kind])


def kept(schedule: Schedule, step: int) -> Schedule:
    """Return a schedule whose rate stays as it is at a step, and before the first step as it is there."""
    rates = schedule.rates.copy()
    rates[step:] = rates[max(step, 1) - 1]
    return replace(schedule, rates=rates)


def some_draws(fit: Fit) -> Index:
    """Return numbers of at most `MOST_DRAWS` draws, evenly spaced over the chains."""
    return evenly(fit.size, MOST_DRAWS)


def rows_for(fit: Fit, curves: Curves, run: str, schedule: Schedule, domain: str | None = None) -> Runs:
    """Return the rows of a run that a fit was not fitted to, as a table to fit it again with.

    Parameters
    ----------
    fit, curves, run, schedule, domain
        As for `watch`.
    """
    rows, _ = _usable(fit, _logged(fit, curves, run, domain))
    fitted_as, _ = _name_in(fit, run, rows)
    rows = rows[~_fitted(fit, fitted_as, rows)].assign(run=fitted_as)
    ahead = settings_ahead(fit, curves, run, schedule, np.array([len(schedule)]))
    wanted = [c for c in (*map(str, ahead), "loss", "loss_se") if c in rows]
    unit = {} if fit.unit == NATS else {"unit": fit.unit}
    return Runs(rows[wanted].assign(**unit).set_axis(pd.RangeIndex(1, len(rows) + 1, name="row")), run)


def _logged(fit: Fit, curves: Curves, run: str, domain: str | None) -> pd.DataFrame:
    """Return the rows of a run's losses, with nodes of the rate's changes if the law has them."""
    curves.logged(run, domain)  # which refuses a run without losses
    number = number_of_nodes(fit.measured)
    if number and curves.start(run) is not None and curves.curve(run).parent is None:
        raise BayeslawError(
            f"{fit.law.name} sums over all changes of the learning rate, and of what came before {run} only the areas are known. "
            "Give the curves of both phases in Python (read_curves, with the run's parent, and watch), or a fit of a law of areas "
            "alone, such as annealing.",
            code="no-earlier-rates",
        )
    frame = curves.runs(domain, nodes=number).frame
    rows = frame[frame["run"] == run]
    require_one_domain(rows, run, fit.law)
    check_tokenizer(fit.token_length, rows, fit.law, curves.name)
    return rows


def require_one_domain(rows: pd.DataFrame, run: str, law: Law) -> None:
    """Refuse losses of several domains, which are not one curve unless the law's parameters vary by them.

    Parameters
    ----------
    rows, run, law : DataFrame, str and Law
        The rows of a run, its name, and the law that is to describe them.
    """
    if mixed_domains(rows, law):
        domains = sorted(map(str, rows["domain"].dropna().unique()))
        problem = f"{run} has losses of {len(domains)} domains ({', '.join(domains)})"
        raise BayeslawError(
            f"{problem}: name the one to follow (domain=…, --domain {shlex.quote(domains[0])}).", code="several-domains"
        )


def _usable(fit: Fit, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a run that a fit can be conditioned on, in the order of their steps, and notes of those left out."""
    rows, notes = rows.sort_values("step", kind="stable"), list[str]()
    early = _before_fitted(fit, rows)
    if early.any():
        number, last = int(early.sum()), rows.loc[early, "step"].max()
        lie = "lies" if number == 1 else "lie"
        notes.append(f"{counted(number, 'loss')} up to step {last:,.0f} {lie} before the fit's first: not used")
    rows = rows[~early]
    if len(rows) > MOST_ROWS:
        # All of the last: neighbours that are forecast without one another miss together, and would count as two misses.
        late, before = MOST_ROWS // 2, len(rows) - MOST_ROWS // 2
        notes.append(f"{MOST_ROWS:,} of {len(rows):,} losses are used: the last {late:,}, and evenly spaced ones before these")
        rows = rows.iloc[np.append(evenly(before, MOST_ROWS - late), np.arange(before, len(rows)))]
    return rows, notes


def _before_fitted(fit: Fit, rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Mark the rows of a run that come before all that a fit was fitted to, of the run's phase where the law has its area.

    The total area can't tell in an adaptation: any row of it has more area than the runs that followed a shorter pre-training.
    """
    area, fitted = _areas(fit.law, rows), _areas(fit.law, fit.observed.covariates)
    before_first_step = (rows["S1"] == 0).to_numpy()
    if "S1_cpt" in fit.law.covariates and (rows["phase"] == "adapt").all():
        own = fit.observed.covariates["S1_cpt"]
        if (own > 0).any():
            area, fitted = rows["S1_cpt"].to_numpy(np.float64), own[own > 0]
            # The base loss counts where the fit has base losses or pre-trainings.
            area = np.where((area == 0) & (own == 0).any(), fitted.min(), area)
    return np.asarray((area < fitted.min() * (1 - 1e-9)) | before_first_step)


def settings_ahead(fit: Fit, curves: Curves, run: str, schedule: Schedule, at: NDArray[np.int64]) -> pd.DataFrame:
    """Return the covariates of a run at some steps of its schedule; other columns are those of its last row.

    Parameters
    ----------
    fit, curves, run, schedule
        As for `watch`.
    at : int array (n,)
        Steps of the schedule.
    """
    curve = curves.curve(run)
    areas, _ = trace(
        schedule, at, curves.start(run), phase=curve.phase, memory=curves.memory, power=curves.power, weight=curve.weight
    )
    if number := number_of_nodes(fit.measured):
        earlier = [before for _, before in curves.phases(run)[:-1]]
        areas = areas.join(nodes(schedule, at, joined(*earlier) if earlier else None, number=number))
    # The law or its noise may need other columns, such as N and r.
    row, wanted = curves.frame[curves.frame["run"] == run].iloc[-1], (*fit.law.measured, *fit.law.levels, fit.observed.group_column)
    others = {c: row[c] for c in wanted if c in row.index and c not in areas}
    return areas.dropna(axis=1, how="all").assign(run=run, **others)


def _require_areas(fit: Fit) -> None:
    """Refuse a fit that can't forecast the rest of a curve: of another outcome than losses, or of a law without a learning rate."""
    require_losses([fit], "the rest of a curve of losses")
    require_single_fit(fit, "A run under way")
    if not _area_names(fit.law):
        raise BayeslawError(
            f"{fit.law.name} has no area under the learning rate (S1 or S1_cpt), so it can't follow a schedule: give a fit of a "
            "law of training dynamics, such as annealing or cpt-dynamics. With this law, add the run's rows to the fit (`bayeslaw "
            "update`) and forecast its last row under the same name of the run (`bayeslaw forecast --at`; in Python update and "
            "forecast).",
            code="no-areas",
        )


def _area_names(law: Law) -> list[str]:
    return [name for name in FORWARD if name in law.covariates]


def _areas(law: Law, columns: Mapping[str, Any] | pd.DataFrame) -> Array:
    """Return the area under the rate up to each row (n,), of the phases whose areas the law has as covariates."""
    return np.sum([np.asarray(columns[name], dtype=np.float64) for name in _area_names(law)], axis=0)


def _fitted(fit: Fit, run: str, rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Mark the rows of a run that a fit was fitted to: those up to the last whose step and loss are of the run's in the fit.

    Single losses of two runs may agree by chance. Where fewer than half of the losses at common steps are the same, the fit's run
    is another one of that name.
    """
    if run not in fit.observed.run_names:
        return np.zeros(len(rows), dtype=bool)
    at, same = _common(fit, run, rows)
    last = int(np.flatnonzero(same).max(initial=-1))
    if 2 * same.sum() < at[: last + 1].sum():
        last = -1
    return np.asarray(np.arange(len(rows)) <= last)


def _common(fit: Fit, run: str, rows: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the rows at whose steps a fit has a loss of a run of its own, and those of which it is the same loss."""
    own = fit.observed.run == fit.observed.run_names.index(run)
    response, area = np.log(rows["loss"].to_numpy(np.float64)), _areas(fit.law, rows)
    at = np.isclose(area[:, None], _areas(fit.law, fit.observed.covariates)[own], rtol=SAME_STEP, atol=0.0)
    same = at & np.isclose(response[:, None], fit.observed.response[own], rtol=0.0, atol=SAME_RESPONSE)
    return at.any(axis=1), same.any(axis=1)


def _name_in(fit: Fit, run: str, rows: pd.DataFrame) -> tuple[str, str | None]:
    """Return the name of a run in a fit, and a note on losses that a fitted run of another name has too.

    The name is its own, or that of the run with the same losses at nearly all common steps. Where the last of these differ, it left
    that run.
    """
    if rows.empty or _fitted(fit, run, rows).any():
        return run, None
    order = np.argsort(fit.observed.response)
    response, fitted = np.log(rows["loss"].to_numpy(np.float64)), fit.observed.response[order]
    low, high = (np.searchsorted(fitted, response + side) for side in (-SAME_RESPONSE, SAME_RESPONSE))
    like = np.bincount(fit.observed.run[order[low[low < high]]], minlength=1)
    name = fit.observed.run_names[int(like.argmax())]
    at, same = _common(fit, name, rows)
    shared = np.flatnonzero(same[at]) + 1
    if shared.size < LEAST_SAME or shared.size < NEARLY_ALL * shared[-1]:
        return run, None
    if at.sum() - shared[-1] < LEAST_SAME:
        return name, f"the fit has losses of this run under the name {name}: they count once"
    step = int(rows["step"].to_numpy()[same].max())
    return run, f"up to step {step:,} the fit has these losses as those of {name}, which this run left there: they count twice"


def _scales(noise: Noise, fit: Fit, settings: pd.DataFrame, some: Index) -> Scales | None:
    """Return the scales of a run's noise by draws of a fit, or None for a noise under which draws can't be weighted."""
    if isinstance(noise, PointNoise) or noise.student or noise.counts or noise.skew or noise.checkpoint_effect:
        return None
    group = fit.observed.groups_of(settings)[0]
    point, run = (noise.scales(fit.draws, name)[group][some] for name in ("sigma_point", "sigma_run"))
    length = fit.draws["drift"][some] if noise.drift else np.full(point.size, ENDLESS)
    return Scales(point, np.maximum(run, LEAST_EFFECT), length)


def _notes(schedule: Schedule, logged: Curve, deviation: float, settings: pd.DataFrame) -> list[str]:
    """Return notes on rates that differ from those logged, a run that deviates from the law, and extrapolation."""
    notes = list[str]()
    known = logged.logged_steps[(logged.logged_steps >= 1) & (logged.logged_steps <= len(schedule))].astype(np.int64)
    rates = logged.logged_rates[np.isin(logged.logged_steps, known)]
    # Programs differ in whether they log the rate of a step before or after it.
    near = np.stack([schedule.rates[np.clip(known + shift, 0, len(schedule) - 1)] for shift in (-2, -1, 0)])
    difference = np.abs(near - rates).min(axis=0, initial=np.inf)
    if known.size and difference.max() >= SAME_RATE * max(rates.max(), schedule.peak):
        i = int(difference.argmax())
        notes.append(
            f"the schedule's rate at step {known[i]:,} is {near[1, i]:.3g}, the logged one {rates[i]:.3g}: areas are computed from "
            "the schedule"
        )
    if abs(deviation) > SAME_LOSS:
        notes.append(f"the run now deviates by {deviation:+.1%} from the law, more than a run effect: the law may not hold for it")
    if not (settings["extrapolation"] == "inside").all():
        notes.append("the end of the schedule lies " + settings["extrapolation"].iloc[-1])
    return notes
