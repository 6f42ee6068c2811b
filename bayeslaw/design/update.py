"""An update: new runs are compared with the predictions of a fit or a stack, and its laws are fitted again to all rows.

Each new run is compared with its posterior predictive distribution (draws of parameters, run effects and point noise) by two
statistics:

- level: the mean error of its log losses, which is large if the law is wrong at a new setting;
- curve: the Mahalanobis distance eᵀ C⁻¹ e of its errors e, where C is the predictive covariance of its points, which is large if
  the law has the wrong shape or points scatter more than they should.

All new runs together give one more level (the mean of their mean errors) and one more curve (their mean errors). Each posterior
draw simulates all new runs, so that errors which the law's parameters cause in all of them count once. The largest measured
statistic, in standard deviations, is compared with the largest of each simulation, so the rate of false alarms does not grow with
the number of runs.

A stack predicts with draws of its laws in proportion to their weights, so its predictive covariance has what the laws differ by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from bayeslaw.core.arrays import Array, Index, evenly
from bayeslaw.core.errors import BayeslawError, Fault, FitError, TableError
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.core.text import short_lines
from bayeslaw.data.measured import cell_faults
from bayeslaw.data.notes import domain_note
from bayeslaw.data.observations import run_codes
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.validate import base_rows
from bayeslaw.forecasting.base_losses import with_known_base_losses
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.grid import Settings, read_settings
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.forecasting.stack import Posterior, Stack, fits_of
from bayeslaw.inference.fit import fit as make_fit
from bayeslaw.inference.refit import join_runs, refit_task
from bayeslaw.laws.outcome import Outcome
from bayeslaw.noise.noise import resolved
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.fit import require_draws, require_fits

ALARM = 0.01  # probability of a false alarm over all new runs together
MOST_POINTS = 500  # points of a run that are compared at most
TOGETHER = "all new runs"
CI = 0.9
WRONG = "The law or the noise is wrong there: compare others, or state a discrepancy{} for your forecasts."


@dataclass(frozen=True, eq=False)
class Update[P: Posterior]:
    """A fit or a stack for old and new runs, and how well the old one predicted the new runs.

    Attributes
    ----------
    fit : Fit or Stack
        As the one that was updated.
    predictions : DataFrame
        The new runs beside the old fit's predictions; see `compare_with_predictions`.
    as_predicted : bool
        Whether every p_adjusted is at least .01; `text` is the verdict in words.
    widths : DataFrame or None
        Intervals at the targets before and after; see `compare_widths`. None without targets, or if checks of the new fit failed.

    Those of a stack are of its laws together.

    Examples
    --------
    >>> updated = bayeslaw.update(bayeslaw.load_fit("fit.nc"), "new.csv", progress=False)
    >>> updated.as_predicted, updated.predictions["run"].tolist()[0]
    (True, 'new')
    """

    fit: P
    predictions: pd.DataFrame
    as_predicted: bool
    text: str
    widths: pd.DataFrame | None

    def __repr__(self) -> str:
        return short_lines(f"<Update of {self.fit.name}: {self.text}>")


def update[P: Posterior](
    fit: P,
    new_runs: Table,
    *,
    targets: Settings | None = None,
    seed: int | None = None,
    progress: bool = True,
    cores: int | None = None,
    force: bool = False,
) -> Update[P]:
    """Compare new runs with a fit's predictions, and fit its law again to the fit's rows and the new ones.

    Law, priors, noise, pooling and the sampler's settings are the fit's. The reference point, at which priors with `on` are
    stated, is that of all rows, so the new ones move it. Every law of a stack is fitted again and keeps its weight, also where
    `compare` learnt it from the old runs: comparing the laws with all runs weighs them anew.

    Parameters
    ----------
    fit : Fit or Stack
    new_runs : Runs, DataFrame or path
        With the covariates of each law of a stack; a `base_loss` that the fit's rows have may be left out. Rows of a run that the
        fit knows by its name join that run; rows that are in the fit already are refused.
    targets : Runs, DataFrame, path or mapping, optional
        Settings at which intervals of the loss are shown before and after; of a mapping all combinations, as for `bayeslaw.grid`.
    seed : int, optional
        Seed of the new fit, or of each new fit of a stack; as before unless given.
    progress, cores
        As for `bayeslaw.fit`.
    force : bool
        Go on although checks of the old fit failed, and mark every row.

    Raises
    ------
    FitError, TableError, BayeslawError
        For a fit whose required checks failed or with fewer than 400 draws, or new rows with faults.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> fit = bayeslaw.update(fit, "new.csv", targets="at.csv", progress=False).fit
    """
    require_fits(fit)
    new = read_runs(new_runs)
    new = replace(new, frame=with_known_base_losses(fit.name, [member.observed for member in fits_of(fit).values()], new.frame))
    joined = {name: join_runs(member, new) for name, member in fits_of(fit).items()}
    tasks = {name: refit_task(member, joined[name], seed) for name, member in fits_of(fit).items()}
    settings = None if targets is None else read_settings([fit], targets)
    before = None if settings is None else forecast(fit, settings, force=force)
    predictions = compare_with_predictions(fit, new, force=force)
    fits = {name: make_fit(task.law, task.runs, **task.options, progress=progress, cores=cores) for name, task in tasks.items()}
    refit = cast("P", replace(fit, members=fits) if isinstance(fit, Stack) else fits[fit.name])
    as_predicted = bool((predictions["p_adjusted"] >= ALARM).all())
    domains = [str(note) for member in fits_of(fit).values() if (note := domain_note(new, member.law)).text]
    domain = " ".join(f"{note[0].upper()}{note[1:]}" for note in domains)
    text, widths = _verdict(predictions, "" if as_predicted else _extrapolation(fit, new), fit, domain), None
    if settings is not None and before is not None:
        try:
            widths = compare_widths(before, forecast(refit, settings, force=force))
        except FitError as error:
            text += f" There are no intervals before and after: {error}"
    if isinstance(fit, Stack):
        shown = ", ".join(f"{name} {weight:.3g}" for name, weight in fit.weights.items())
        text += f" The stack keeps its weights ({shown}); `bayeslaw compare` with all runs learns new ones."
    for name, new_fit in fits.items():
        if resolved("auto", new_fit.law, joined[name]) != "auto" and not new_fit.noise.drift:
            text += (
                f" {name} keeps its noise ({new_fit.noise.text}); to all rows at once `bayeslaw fit` would fit it with noise "
                f"{new_fit.law.noise}, which its card names for runs that are logged often."
            )
    return Update(refit, predictions, as_predicted, text, widths)


def compare_widths(before: Forecast, after: Forecast) -> pd.DataFrame:
    """Compare intervals at some settings before and after an update.

    Columns: the settings; `before_latent_eti90_lb`, `_ub` and `after_latent_eti90_lb`, `_ub` in `fit.unit`, or intervals of the
    spread `extrapolated` where both fits have learnt the error of the law and settings lie outside the runs of the first; the
    widths of these intervals in percent of the loss, `before_eti90_percent` and `after_eti90_percent`, or of outcomes that are not
    positive in their unit, `before_eti90_width` and `after_eti90_width`; their `ratio`; and `checks` ('passed' or 'FAILED
    (forced)').
    """
    table, ends, relative = before.settings.copy(), interval_names("eti", CI), before.outcome.relative
    width = "eti90_percent" if relative else "eti90_width"
    spread = "extrapolated" if before.beyond and after.beyond and before.is_outside.any() else "latent"
    for name, predicted in (("before", before), ("after", after)):
        summary = predicted.summary(CI)
        low, high = (summary[f"{spread}_{end}"] for end in ends)
        table[f"{name}_{spread}_{ends[0]}"], table[f"{name}_{spread}_{ends[1]}"] = low, high
        table[f"{name}_{width}"] = 100 * np.log(high / low) if relative else high - low
    ratio = table[f"after_{width}"] / table[f"before_{width}"]
    return table.assign(ratio=ratio, checks=checks_label(before.forced or after.forced))


def compare_with_predictions(fit: Posterior, new: Runs, *, seed: int = 0, force: bool = False) -> pd.DataFrame:
    """Compare new runs with runs simulated from a fit or a stack.

    Rows of a run or checkpoint that the fit knows have the effect learnt from it, as in forecasts. If rows lie outside the runs of
    the fit, simulated runs have the error of the law that it has learnt. Base checkpoints (D = 0) that the law, or a law of the
    stack, can't describe are left out. Of a run with more than 500 rows, 500 evenly spaced rows are compared.

    Parameters
    ----------
    new : Runs
        With losses; known errors (`loss_se`) are added to the fit's noise.
    seed, force
        Seed of the simulated runs; whether to go on although checks of the fit failed, and mark every row.

    Returns
    -------
    DataFrame
        One row per run and, if there are several, one for all together: run, rows, compared (rows), continues (if the fit knows
        the run), loss (geometric mean, in the unit of the fit; or the mean of another outcome on the scale of its noise),
        predicted_median, predicted_eti90_lb, predicted_eti90_ub and inside_eti90 of that mean, error_percent (how far the loss lies
        above the median, below 0 where the forecast was too high; or error, in the unit of an outcome that is not positive) and
        error_sd (in predictive standard deviations), p_level and p_curve (probabilities of errors as large in a simulated run,
        two-sided for the level), p_adjusted (probability that any statistic of any simulated run is as far out as the farther of
        the two), and checks.

    Raises
    ------
    FitError, TableError, BayeslawError
        As `bayeslaw.forecast`; or if every row is a base checkpoint or there are fewer than 400 draws.

    Examples
    --------
    >>> new = pd.DataFrame({"N": [1e9], "D": [1e10], "loss": [2.4], "run": ["new"]})
    >>> bayeslaw.design.compare_with_predictions(bayeslaw.load_fit("fit.nc"), bayeslaw.read_runs(new))["run"].tolist()
    ['new']
    """
    require_fits(fit)
    for member in fits_of(fit).values():
        require_draws(member, "A comparison with predictions")
    new = _compared(fit, _with_outcomes(fit, read_runs(new)))
    frame = new.frame[new.frame["compared"]]
    predicted = forecast(fit, replace(new, frame=frame), seed=seed, force=force)
    forced = predicted.forced
    predicted = predicted.with_errors if predicted.is_outside.any() else replace(predicted, beyond=())
    code, names = run_codes(frame)
    errors = _errors(predicted, frame, code)
    counts = new.frame.groupby(run_codes(new.frame)[0])["compared"].agg(["size", "sum"]).to_numpy()
    known = {name for member in fits_of(fit).values() for name in member.observed.run_names}
    columns = {
        "run": [*names, TOGETHER], "rows": [*counts[:, 0], len(new.frame)], "compared": [*counts[:, 1], len(frame)],
        "continues": [*(name in known for name in names), False],
    }  # fmt: skip
    largest = np.max([each.farthest for each in errors], axis=0)
    adjusted = [float((largest >= each.farthest[0]).mean()) for each in errors]
    table = pd.DataFrame(columns).head(len(errors)).join(pd.DataFrame([each.row for each in errors]))
    return table.assign(p_adjusted=adjusted, checks=checks_label(forced))


def _errors(predicted: Forecast, frame: pd.DataFrame, code: NDArray[np.int64]) -> list[_Errors]:
    """Measured and simulated errors of each run and, if there are several, of all runs together."""
    noises = [_Noise.of(replace(member, known=predicted.known)) for member in predicted.members]
    shares = [noise.member.size / predicted.size for noise in noises]

    def mean(values: Iterable[Array]) -> Array:
        return np.asarray(np.average(list(values), axis=0, weights=shares))

    outcome = predicted.outcome
    measured = outcome.response(frame[outcome.name].to_numpy(dtype=np.float64))
    point = mean(noise.point for noise in noises)
    errors, run_variance = list[_Errors](), list[float]()
    for own in (np.flatnonzero(code == run) for run in range(int(code.max()) + 1)):
        of_run = mean(noise.of_run(own) for noise in noises)
        shared = of_run + mean(noise.of_checkpoint(own) for noise in noises)
        values = [(noise.member, noise.member.latent(own)) for noise in noises]
        if outcome.kind == "count":  # shares stay as they are: those of items may be 0 or 1
            simulated = np.concatenate([member.noisy(value, own) for member, value in values], axis=1)
            latent = np.concatenate([value for _, value in values], axis=1)
            point[own], shared = (simulated - latent).var(axis=1), np.zeros_like(shared)
        else:
            logged = [(member, outcome.to_scale(value)) for member, value in values]
            simulated = np.concatenate([value + member.noise(own) for member, value in logged], axis=1)
            latent = np.concatenate([value + member.learnt.at(own) for member, value in logged], axis=1)
        errors.append(_Errors.of(simulated, measured[own], latent, point[own], shared, outcome))
        run_variance.append(float(of_run.mean()))
    if len(errors) == 1:
        return errors
    first = np.unique(code, return_index=True)[1]
    own_variance = np.bincount(code, point) / np.bincount(code) ** 2 + run_variance  # of a run's mean without its checkpoint effect
    shared = mean(noise.of_checkpoint(first) for noise in noises)
    middle, actual, latent = (np.stack([getattr(each, name) for each in errors]) for name in ("mean", "measured", "latent"))
    return [*errors, _Errors.of(middle, actual, latent, own_variance, shared, outcome)]


@dataclass(frozen=True, eq=False)
class _Noise:
    """Variances of the noise that a fit adds to new log losses (n,), as means over its draws."""

    member: MemberDraws
    point: Array  # (n,)
    run: Array  # (n,)
    checkpoint: float

    @classmethod
    def of(cls, member: MemberDraws) -> _Noise:
        values, known = member.values, 0.0 if member.known is None else member.known
        point, run = (
            (member.fit.noise.scales(values, name) ** 2).mean(axis=1)[member.group] for name in ("sigma_point", "sigma_run")
        )
        checkpoint, excess = (float((values[n] ** 2).mean()) if n in values else 0.0 for n in ("sigma_checkpoint", "run_excess"))
        return cls(member, point + known**2, run + excess, checkpoint)

    def of_run(self, own: Index) -> Array:
        """Covariance (k, k) of the effect of a new run at its rows; 0 if the effect of the run is known."""
        time = self.member.time[own] if self.member.time.size else np.zeros(own.size)
        correlation = self.member.fit.noise.effect_correlation(self.member.values, time)
        return np.asarray((self.member.run[own[0]] >= 0) * self.run[own[0]] * correlation)

    def of_checkpoint(self, rows: Index) -> Array:
        """Covariance (k, k) of the effects of new checkpoints at rows."""
        new = self.member.checkpoint[rows]
        return np.asarray(((new[:, None] == new) & (new >= 0)) * self.checkpoint)


def _with_outcomes(fit: Posterior, new: Runs) -> Runs:
    """Return new runs; those without measured outcomes are refused."""
    name = next(iter(fits_of(fit).values())).law.outcome.name
    if name not in new.frame:
        faults = [Fault(None, name, "", f"column {name} is missing", "give that of the new runs", "missing-column")]
    else:
        missing, way = f"{name} is missing", "fill it in or remove the row"
        faults = list(cell_faults(new.frame, name, new.frame[name].isna(), missing, way, "missing-value"))
    if faults:
        raise TableError(faults, new.name)
    return new


def _described(fit: Posterior, new: Runs) -> Runs:
    """The rows that every law describes."""
    frame = new.frame
    for member in fits_of(fit).values():
        frame = frame[~base_rows(frame, member.law)]
    return replace(new, frame=frame)


def _compared(fit: Posterior, new: Runs) -> Runs:
    """The rows that every law describes, with a boolean column `compared`."""
    frame = _described(fit, new).frame
    if not len(frame):
        problem = f"every row is a base checkpoint (D = 0), which {fit.name} does not predict. Give rows with D > 0."
        raise BayeslawError(f"{new.name}: {problem}", code="only-base-checkpoints")
    code = run_codes(frame)[0]
    chosen = np.zeros(len(frame), dtype=bool)
    for own in (np.flatnonzero(code == run) for run in range(int(code.max()) + 1)):
        chosen[own[evenly(own.size, MOST_POINTS)]] = True
    return replace(new, frame=frame.assign(compared=chosen))


@dataclass(frozen=True, eq=False)
class _Errors:
    """Errors of a measured run (first) and of S simulated runs."""

    mean: Array  # mean log loss of the simulated runs (S,), with noise
    latent: Array  # and without
    measured: float  # mean log loss of the run
    level: Array  # mean errors (S + 1,)
    curve: Array  # Mahalanobis distances of the errors (S + 1,)
    outcome: Outcome

    @classmethod
    def of(cls, simulated: Array, measured: Array, latent: Array, point: Array, shared: Array | float, outcome: Outcome) -> _Errors:
        """Return errors from responses, such as log losses.

        Parameters
        ----------
        simulated, measured, latent : arrays (k, S), (k,), (k, S)
        point, shared : arrays (k,), (k, k)
            Variances of the noise of points, and covariances of effects.
        outcome : Outcome
        """
        covariance = np.atleast_2d(np.cov(latent)) + np.diag(point) + shared
        errors = np.column_stack([measured, simulated]) - simulated.mean(axis=1, keepdims=True)
        white = solve_triangular(np.linalg.cholesky(covariance), errors, lower=True)
        means = simulated.mean(axis=0), latent.mean(axis=0), float(measured.mean()), errors.mean(axis=0)
        return cls(*means, (white**2).sum(axis=0), outcome)

    @property
    def farthest(self) -> Array:
        """The larger of level and curve of each run in standard deviations, array (S + 1,).

        The cube root of a sum of squares is nearly normal (Wilson and Hilferty 1931).
        """
        level, curve = np.abs(self.level), np.cbrt(self.curve)
        return np.maximum(level / self.level.std(), (curve - curve.mean()) / curve.std())

    @property
    def row(self) -> dict[str, float | bool]:
        outcome = self.outcome
        median, low, high = outcome.from_response(np.array(quantiles(self.mean, CI)))
        value = float(outcome.from_response(self.measured))
        error = {"error_percent" if outcome.relative else "error": outcome.deviation(value, median)}
        ends = interval_names("predicted_eti", CI)
        held = bool(low <= value <= high)
        return {
            outcome.name: value, "predicted_median": median, ends[0]: low, ends[1]: high, "inside_eti90": held, **error,
            "error_sd": self.level[0] / self.level[1:].std(),
            "p_level": float((np.abs(self.level) >= abs(self.level[0])).mean()),
            "p_curve": float((self.curve >= self.curve[0]).mean()),
        }  # fmt: skip


def _extrapolation(fit: Posterior, new: Runs) -> str:
    """The forecast's text on settings far outside a fit's runs; empty if there are none."""
    predicted = forecast(fit, _described(fit, new), force=True)
    check = next(check for check in predicted.checks if check.name == "extrapolation")
    return "" if check.passed else check.text


def _verdict(predictions: pd.DataFrame, extrapolation: str, fit: Posterior, domain: str) -> str:
    outcome = next(iter(fits_of(fit).values())).law.outcome
    worst = predictions.sort_values("error_sd", key=abs, ascending=False).sort_values("p_adjusted", kind="stable").iloc[0]
    count, name = int((predictions["run"] != TOGETHER).sum()), TOGETHER if worst["run"] == TOGETHER else f"run {worst['run']!r}"
    of = f" over {count} runs" if count > 1 else ""
    p = f"p = {worst['p_adjusted']:.2g}{of}; below {ALARM:g} is an alarm"
    if worst["p_adjusted"] >= ALARM:
        return f"The new runs agree with the predictions; the farthest out is {name} ({p}). {domain}".rstrip()
    if worst["p_level"] <= worst["p_curve"]:
        side = "above" if worst["error_sd"] > 0 else "below"
        verb = "lie" if name == TOGETHER else "lies"
        off = f"{abs(worst['error_percent']):.2g}%" if outcome.relative else f"{abs(worst['error']):.2g}"
        how = f"{name} {verb} {off} {side} them, {abs(worst['error_sd']):.2g} predictive sd"
    else:
        how = f"the {outcome.plural} of {name} have another shape or scatter"
    wrong = domain or WRONG.format(", such as 1%," if outcome.relative else "")
    return f"The new runs are OUTSIDE the predictions: {how} ({p}). {wrong}" + (f" {extrapolation}." if extrapolation else "")
