"""A fit made again with the runs that came back, and whether they came as it had foretold.

Before anything is refitted each new run is held against its posterior predictive distribution: draws of the parameters, of the
run's luck and of its points' noise. Two numbers of a run are compared with those of runs that the fit draws itself:

- level: the mean error of its log losses. A law that is wrong at a new setting shows here.
- curve: the squared length of its errors e in units of what was predicted, eᵀ C⁻¹ e, C being the predictive covariance of
  its points. A wrong shape, or points that scatter more or less evenly than they should, show here.

All new runs together make one more level (the mean of their mean errors) and one more curve (their mean errors). Each draw of the
parameters makes all the new runs, so that what the law's uncertainty does to all of them counts once. The largest measured number
is compared with the largest of each such draw: however many runs there are, a false alarm is as rare as stated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.data.observations import run_codes
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import base_rows
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.fit import fit as make_fit
from bayeslaw.inference.refit import join_runs, refit_task, require_draws, require_single_fit
from bayeslaw.posterior.diagnostics import marked
from bayeslaw.posterior.fit import Fit

ALARM = 0.01  # chance of a false alarm over all new runs together
MOST_POINTS = 500  # of a run that are held against the prediction
TOGETHER = "all new runs"
CI = 0.9
WRONG = "The law or the noise is wrong there: compare others, or state a discrepancy, such as 1%, for what you forecast."


@dataclass(frozen=True)
class Update:
    """A fit with the runs that came back.

    Attributes
    ----------
    fit : Fit
        To the old rows and the new ones.
    surprise : DataFrame
        How the new runs lie to what the old fit foretold; see `surprise`.
    within : bool
        Whether all of it is within what was predicted.
    text : str
        The same in words.
    widths : DataFrame or None
        Intervals at the targets before and after; see `widths`. None without targets, or where checks of the new fit failed.
    """

    fit: Fit
    surprise: pd.DataFrame
    within: bool
    text: str
    widths: pd.DataFrame | None


def update(
    fit: Posterior,
    new_runs: Runs | pd.DataFrame | str | Path,
    *,
    targets: Runs | pd.DataFrame | str | Path | None = None,
    seed: int | None = None,
    progress: bool = True,
    cores: int | None = None,
    force: bool = False,
) -> Update:
    """Fit a law again to a fit's rows and the runs that came back, and say whether they surprise.

    Law, priors, noise, what varies and the sampler's settings are the fit's. The reference point, at which priors with `on` are
    stated, is that of all rows and moves with the new ones, as in any fit to them.

    Parameters
    ----------
    fit : Fit
        Not changed. A stack is refused.
    new_runs : Runs, DataFrame or path
        Rows of a run that the fit knows by its name join that run; rows that it has already are refused.
    targets : Runs, DataFrame or path, optional
        Settings at which the interval of the latent loss is shown before and after.
    seed : int, optional
        The fit's unless given.
    progress, cores
        As for `bayeslaw.fit`.
    force : bool
        Go on in spite of failed checks of the old fit, and mark every row.

    Raises
    ------
    FitError
        For a stack, or if a required check of the old fit failed, or it has fewer than 400 draws.
    TableError, BayeslawError
        With the faults of the new rows, counted as in their table.
    """
    fit = require_single_fit(fit, "An update")
    new = new_runs if isinstance(new_runs, Runs) else read_runs(new_runs)
    task = refit_task(fit, join_runs(fit, new), seed)
    asked = None if targets is None else targets if isinstance(targets, Runs) else read_runs(targets)
    before = None if asked is None else forecast(fit, asked, force=force)
    found = surprise(fit, new, force=force)
    made = make_fit(task.law, task.runs, **task.options, progress=progress, cores=cores)
    within = bool((found["p_adjusted"] >= ALARM).all())
    text, table = _verdict(found, "" if within else _far(fit, new)), None
    if asked is not None and before is not None:
        try:
            table = widths(before, forecast(made, asked, force=force))
        except FitError as error:
            text += f" No intervals before and after: {error}"
    return Update(made, found, within, text, table)


def widths(before: Forecast, after: Forecast) -> pd.DataFrame:
    """What new runs brought at some settings.

    Returns
    -------
    DataFrame
        The settings; `before_latent_eti90_lo`, `_hi` and `after_latent_eti90_lo`, `_hi` in nats/token; the widths of these
        intervals in percent of the loss, `before_eti90_percent` and `after_eti90_percent`; their `ratio`; and `checks`, which
        says 'passed' or 'FAILED (forced)'.
    """
    table = before.settings.copy()
    ends = interval_names("eti", CI)
    for name, one in (("before", before), ("after", after)):
        summary = one.summary(CI)
        for end in ends:
            table[f"{name}_latent_{end}"] = summary[f"latent_{end}"]
    for name in ("before", "after"):
        low, high = (table[f"{name}_latent_{end}"] for end in ends)
        table[f"{name}_eti90_percent"] = 100 * np.log(high / low)
    ratio = table["after_eti90_percent"] / table["before_eti90_percent"]
    return table.assign(ratio=ratio, checks=marked(before.forced or after.forced))


def surprise(fit: Fit, new: Runs, *, seed: int = 0, force: bool = False) -> pd.DataFrame:
    """Hold new runs against what a fit foretells of them.

    Rows of a run that the fit knows count as a run of their own, with new luck, as in forecasts. Base checkpoints (D = 0) that
    the law can't describe are no part of it. Of a run with more than 500 rows as many are compared, evenly spaced.

    Parameters
    ----------
    fit : Fit
    new : Runs
        With losses; known errors (`loss_se`) are added to the fit's noise.
    seed : int
        Of the simulated runs.
    force : bool
        In spite of failed checks of the fit; every row is marked.

    Returns
    -------
    DataFrame
        One row per run and, where there are several, one for all together: rows, compared, continues (the fit knows the
        run), loss (geometric mean, nats/token), predicted_median, predicted_eti90_lo, predicted_eti90_hi and inside_eti90 of
        that mean, error_percent and error_sd (in predictive standard deviations), p_level and p_curve (chances of errors as
        large in a run that the fit draws itself, both ways for the level), p_adjusted (chance that any number of any
        new run is as far out as the farther of the two), and checks.

    Raises
    ------
    FitError, TableError, BayeslawError
        As `bayeslaw.forecast`; or if every row is a base checkpoint or there are fewer than 400 draws.
    """
    require_draws(fit, "To tell a surprise")
    new = _compared(fit, new)
    frame = new.frame[new.frame["compared"]]
    made = forecast(fit, replace(new, frame=frame), seed=seed, force=force)
    code, names = run_codes(frame)
    units = _simulated(made, frame, code)
    table = pd.DataFrame([unit.row for unit in units])
    counts = new.frame.groupby(run_codes(new.frame)[0])["compared"].agg(["size", "sum"]).to_numpy()
    about = {
        "run": [*names, TOGETHER],
        "rows": [*counts[:, 0], len(new.frame)],
        "compared": [*counts[:, 1], len(frame)],
        "continues": [*(name in fit.observed.run_names for name in names), False],
    }
    largest = np.max([unit.farthest for unit in units], axis=0)
    adjusted = [float((largest >= unit.farthest[0]).mean()) for unit in units]
    table = pd.DataFrame(about).head(len(units)).join(table)
    return table.assign(p_adjusted=adjusted, checks=marked(made.forced))


def _simulated(made: Forecast, frame: pd.DataFrame, code: NDArray[np.int64]) -> list[_Errors]:
    """Errors of each run and, where there are several, of all together, beside those of runs that the posterior draws."""
    part, size = replace(made.parts[0], known=made.known), int(code.max()) + 1
    noise, values = part.fit.noise, part.values
    measured = np.log(frame["loss"].to_numpy(dtype=np.float64))
    scales = {name: (noise.scales(values, name) ** 2).mean(axis=1)[part.group] for name in ("sigma_point", "sigma_run")}
    checkpoint, slack = (float((values[n] ** 2).mean()) if n in values else 0.0 for n in ("sigma_checkpoint", "run_excess"))
    point, luck = scales["sigma_point"] + made.known**2, scales["sigma_run"] + slack
    units, kin = [], []
    for own in (np.flatnonzero(code == run) for run in range(size)):
        latent = np.log(part.latent(own))
        simulated = latent + part.noise(own)
        kin.append(luck[own[0]] * noise.effect_correlation(values, part.time[own] if part.time.size else np.zeros(own.size)))
        units.append(_Errors.of(simulated, measured[own], latent, point[own], kin[-1] + checkpoint))
    if size == 1:
        return units
    first = np.unique(code, return_index=True)[1]
    # variance of a run's mean, but for its checkpoint's luck
    alone = np.bincount(code, point) / np.bincount(code) ** 2 + np.array([own.mean() for own in kin])
    shared = (part.checkpoint[first][:, None] == part.checkpoint[first]) * checkpoint
    mean, actual, latent = (np.stack([getattr(unit, name) for unit in units]) for name in ("mean", "measured", "latent"))
    return [*units, _Errors.of(mean, actual, latent, alone, shared)]


def _compared(fit: Fit, new: Runs) -> Runs:
    """The rows that the law describes, with a column that says which are compared."""
    frame = new.frame[~base_rows(new.frame, fit.law)]
    if not len(frame):
        raise BayeslawError(f"{new.name}: every row is a base checkpoint (D = 0), of which {fit.law.name} foretells nothing.")
    code = run_codes(frame)[0]
    chosen = np.zeros(len(frame), dtype=bool)
    for own in (np.flatnonzero(code == run) for run in range(int(code.max()) + 1)):
        chosen[own[np.unique(np.linspace(0, own.size - 1, min(own.size, MOST_POINTS)).round().astype(np.int64))]] = True
    return replace(new, frame=frame.assign(compared=chosen))


@dataclass(frozen=True)
class _Errors:
    """Errors of a run, measured and of simulated runs.

    Attributes
    ----------
    mean, latent : arrays (S,)
        Mean log loss of simulated runs, and without noise.
    measured : float
        Mean log loss of the run.
    level, curve : arrays (S + 1,)
        Mean error and squared length of the errors in units of what was predicted: measured, and simulated.
    """

    mean: Array
    latent: Array
    measured: float
    level: Array
    curve: Array

    @classmethod
    def of(cls, simulated: Array, measured: Array, latent: Array, point: Array, shared: Array | float) -> _Errors:
        """Of log losses simulated (k, S), measured (k,) and latent (k, S), with the noise's own and shared variances."""
        covariance = np.atleast_2d(np.cov(latent)) + np.diag(point) + shared
        errors = np.column_stack([measured, simulated]) - simulated.mean(axis=1, keepdims=True)
        units = solve_triangular(np.linalg.cholesky(covariance), errors, lower=True)
        return cls(simulated.mean(axis=0), latent.mean(axis=0), float(measured.mean()), errors.mean(axis=0), (units**2).sum(axis=0))

    @property
    def farthest(self) -> Array:
        """How far out each is in its level or its curve, in standard deviations, array (S + 1,).

        The cube root of a sum of squares is nearly normal (Wilson and Hilferty 1931).
        """
        level, curve = np.abs(self.level), np.cbrt(self.curve)
        return np.maximum(level / self.level.std(), (curve - curve.mean()) / curve.std())

    @property
    def row(self) -> dict[str, float | bool]:
        middle, low, high = np.exp(quantiles(self.mean, CI))
        loss = float(np.exp(self.measured))
        ends = interval_names("predicted_eti", CI)
        return {
            "loss": loss,
            "predicted_median": middle,
            ends[0]: low,
            ends[1]: high,
            "inside_eti90": bool(low <= loss <= high),
            "error_percent": 100 * (loss / middle - 1),
            "error_sd": self.level[0] / self.level[1:].std(),
            "p_level": float((np.abs(self.level) >= abs(self.level[0])).mean()),
            "p_curve": float((self.curve >= self.curve[0]).mean()),
        }


def _far(fit: Fit, new: Runs) -> str:
    """What forecasts say of settings far outside a fit's runs; empty where there are none."""
    logged = replace(new, frame=new.frame[~base_rows(new.frame, fit.law)])
    said = next(check for check in forecast(fit, logged, force=True).checks if check.name == "extrapolation")
    return "" if said.passed else said.text


def _verdict(found: pd.DataFrame, far: str) -> str:
    worst = found.sort_values("error_sd", key=abs, ascending=False).sort_values("p_adjusted", kind="stable").iloc[0]
    count = int((found["run"] != TOGETHER).sum())
    name = TOGETHER if worst["run"] == TOGETHER else f"run {worst['run']!r}"
    of = f" over {count} runs" if count > 1 else ""
    chance = f"p = {worst['p_adjusted']:.2g}{of}, at least {ALARM:g} wanted"
    if worst["p_adjusted"] >= ALARM:
        return f"The new runs are within what was predicted; the farthest out: {name} ({chance})."
    if worst["p_level"] <= worst["p_curve"]:
        side = "above" if worst["error_sd"] > 0 else "below"
        verb = "lie" if name == TOGETHER else "lies"
        how = f"{name} {verb} {abs(worst['error_percent']):.2g}% {side} it, {abs(worst['error_sd']):.2g} predictive sd"
    else:
        how = f"the losses of {name} have another shape or scatter"
    return f"The new runs are OUTSIDE what was predicted: {how} ({chance}). {WRONG}" + (f" {far}." if far else "")
