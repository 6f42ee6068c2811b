"""Scores of forecasts on held-out losses: those of Goffinet et al. 2025, and scores of predictive distributions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from bayeslaw.core.arrays import Array, holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError, as_mapping
from bayeslaw.core.intervals import columns, quantiles
from bayeslaw.core.text import counted, significant
from bayeslaw.core.units import check_unit
from bayeslaw.data.columns import parted
from bayeslaw.data.notes import domain_note
from bayeslaw.data.observations import run_codes
from bayeslaw.data.starter import option
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.tokenizers import check_loss_unit, check_tokenizer
from bayeslaw.data.validate import base_rows, check, complete, other_domain, without_repeats
from bayeslaw.forecasting.average import average
from bayeslaw.forecasting.base_losses import with_known_base_losses
from bayeslaw.forecasting.facts import with_facts
from bayeslaw.forecasting.forecast import forecast, seen_as
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.posterior.diagnostics import Check, checks_label
from bayeslaw.posterior.draws import check_values
from bayeslaw.posterior.effects import Reading
from bayeslaw.posterior.fit import Fit, require_fits

DELTA = 0.02  # of the Huber score, as Goffinet et al. define it
CLIP = 1e-3  # smallest loss that the clipped relative error divides by, nats
COVERAGE = (0.5, 0.8, 0.9, 0.95)
COVERED = (0.5, 0.8, 0.9)  # probabilities of the intervals that are kept of each forecast
HEADLINES = ("mae_rel", "bias_rel", "cover_eti90", "width_eti90", "crps")  # the scores to report first
ABSOLUTE = ("mae", "bias", *HEADLINES[2:])  # the same of outcomes that are not positive
LEGEND = """\
mae_rel, mape_clip        mean relative error; lower is better
mae, rmse                 mean error, and root mean square error, in the unit of the outcome; lower is better
bias                      mean error with its sign: above 0 where predictions are too high
bias_rel                  mean relative error with its sign: above 0 where predictions are too high
rmse_log, huber_log       error of the log loss: root mean square, and with weight off outliers; lower is better
intercept, slope          of the log loss on its prediction; 0 and 1 if small and large losses are predicted equally well
cover_eti90, width_eti90  share of losses inside the 90% interval, which should be 0.9, and its mean width
crps, log_score           error of the whole predictive distribution; lower is better
pit_ks_p                  p-value that losses are spread over their distributions as they should be, for independent points"""

MEANINGS = {
    "fit": "kind of fit", "spread": "interval that is scored", "rows": "rows scored", "base_rows_left_out": "base rows left out",
    "seen_rows_left_out": "rows left out because the fit has seen them", "sample": "whether the rows are held out",
    "checks": "checks of the sampling", "model": "verdict on the model", "huber_log": "Huber error of logarithms",
    "rmse_log": "root mean square error of logarithms", "mae_rel": "mean relative error",
    "bias_rel": "mean relative error with its sign, above 0 where predictions are too high",
    "mape_clip": f"mean relative error, values below {CLIP:g} counted as {CLIP:g}",
    "intercept": "intercept of logarithms on their predictions (0 is best)",
    "slope": "slope of logarithms on their predictions (1 is best)",
    "crps": "CRPS: error of the forecast, in the outcome's unit",
    "log_score": "negative log density", "pit_ks_p": "p-value that probability integral transforms are uniform",
    "mae": "mean error, in the outcome's unit", "bias": "mean error with its sign, above 0 where predictions are too high",
    "rmse": "root mean square error, in the outcome's unit",
}  # fmt: skip
"""What the columns of a table of scores have, in words for a paper; those of intervals have names that say so."""


def huber(residual: Array) -> Array:
    """Huber loss of residuals: r^2/2 up to `DELTA`, then DELTA (|r| - DELTA/2)."""
    size = np.abs(residual)
    return np.where(size <= DELTA, 0.5 * residual**2, DELTA * (size - 0.5 * DELTA))


def point_scores(loss: Array, predicted: Array, outcome: Outcome = LOSS) -> dict[str, float]:
    """Return scores of predicted outcomes, arrays (n,), of losses as Goffinet et al. 2025 define them (appendix A).

    Of positive outcomes they are huber_log (delta .02), rmse_log, mae_rel, mape_clip, and the intercept and slope of log loss on
    log prediction; and bias_rel, the mean relative error with its sign, above 0 where predictions are too high.
    Of others they are mae, bias and rmse, in the outcome's unit.

    Parameters
    ----------
    loss, predicted : arrays (n,)
    outcome : Outcome
    """
    if not outcome.relative:
        off = predicted - loss
        return {"mae": float(np.abs(off).mean()), "bias": float(off.mean()), "rmse": float(np.sqrt((off**2).mean()))}
    x, y = np.log(predicted), np.log(loss)
    residual = x - y
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y / spread) if loss.size > 1 and spread > 0 else float("nan")
    return {
        "huber_log": float(huber(residual).mean()),
        "rmse_log": float(np.sqrt((residual**2).mean())),
        "mae_rel": float((np.abs(predicted - loss) / loss).mean()),
        "bias_rel": float(((predicted - loss) / loss).mean()),
        "mape_clip": float((np.abs(predicted - loss) / np.maximum(loss, CLIP)).mean()),
        "intercept": float(y.mean() - slope * x.mean()),
        "slope": slope,
    }


def draw_scores(loss: Array, draws: Array, outcome: Outcome = LOSS) -> dict[str, float]:
    """Return scores of predictive draws (S, n) of losses or other outcomes (n,).

    cover_eti50 … cover_eti95: share of outcomes in the equal-tailed interval; width_eti90: mean width in the outcome's unit; crps:
    mean continuous ranked probability score in that unit; log_score: mean negative log density of the log loss, or of another
    outcome itself, by a kernel estimate; pit_ks_p: p-value of a Kolmogorov-Smirnov test that the probability integral transforms
    are uniform, which assumes independent points.

    Parameters
    ----------
    loss, draws : arrays (n,) and (S, n)
    outcome : Outcome
    """
    from scipy.stats import kstest

    ends = {prob: np.quantile(draws, [0.5 - prob / 2, 0.5 + prob / 2], axis=0) for prob in COVERAGE}
    scores = {f"cover_eti{prob * 100:g}": float(((loss >= low) & (loss <= high)).mean()) for prob, (low, high) in ends.items()}
    scores["width_eti90"] = float((ends[0.9][1] - ends[0.9][0]).mean())
    scores["crps"] = float(crps(loss, draws).mean())
    density = _log_density(np.log(loss), np.log(draws)) if outcome.relative else _log_density(loss, draws)
    scores["log_score"] = -float(np.mean(np.maximum(density, -1e3)))
    scores["pit_ks_p"] = float(kstest(transforms(loss, draws), "uniform").pvalue)
    return scores


def crps(loss: Array, draws: Array) -> Array:
    """Return the continuous ranked probability score (n,) of draws (S, n): E|X - loss| - E|X - X'| / 2.

    See Gneiting and Raftery 2007.
    """
    return np.asarray(np.abs(draws - loss).mean(axis=0) - mean_distance(draws) / 2)


def mean_distance(draws: Array) -> Array:
    """Return E|X - X'| (n,) of draws (S, n), which sorted draws give in O(S log S)."""
    size = len(draws)
    rank = (2 * np.arange(size) - size + 1.0) / size**2
    return np.asarray(2 * (rank @ np.sort(draws, axis=0)))


def _log_density(at: Array, draws: Array) -> Array:
    """Return the log kernel density (n,) of draws (S, n) at values (n,), with the bandwidth of Scott's rule."""
    size = len(draws)
    width = np.maximum(draws.std(axis=0, ddof=1), 1e-9) * size**-0.2
    total = logsumexp(-0.5 * ((at - draws) / width) ** 2, axis=0)
    return np.asarray(total - np.log(size * width) - 0.5 * math.log(2 * math.pi))


def transforms(loss: Array, draws: Array) -> Array:
    """Return the probability integral transforms (n,) of losses (n,): the share of the predictive draws (S, n) below each.

    Draws equal to the outcome, as shares of counted items may be, count half. Where the loss or a draw is nan, it is nan.
    """
    below = (draws < loss).mean(axis=0) + 0.5 * (draws == loss).mean(axis=0)
    return np.where(np.isnan(loss) | np.isnan(draws).any(axis=0), math.nan, below)


def forecast_cells(loss: Array, draws: Array) -> dict[str, Array]:
    """Return the columns that say of forecasts, draws (S, n), what they were and how they did at outcomes (n,).

    They are `median`, the ends of the intervals of the probabilities `COVERED`, `crps` and `pit`.
    """
    cells = dict[str, Array]()
    for prob in COVERED:
        cells |= columns(draws, prob)
    return cells | {"crps": crps(loss, draws), "pit": transforms(loss, draws)}


def score(
    fit: Posterior | PointFit,
    runs: Runs | pd.DataFrame | str,
    *,
    discrepancy: float | str | None = None,
    bootstrap: Mapping[str, Array] | None = None,
    as_: Reading | Literal["new-group"] = "known",
    seed: int = 0,
    force: bool = False,
    in_sample: bool = False,
    mean: str | None = None,
) -> pd.DataFrame:
    """Score a fit on measured losses that it was not fitted to.

    Parameters
    ----------
    fit : Fit, Stack or PointFit
        A posterior is scored by the spread to report (by the median where one number is needed), `run` inside the runs and
        `extrapolated` outside; a point fit by its prediction.
    runs : Runs, DataFrame or path
        Held-out rows. Rows of the fit (the same covariates and loss, whatever their run is called) and base checkpoints (D = 0)
        that the law can't describe are left out and counted. Rows that repeat others exactly are refused, or left out or
        kept as `duplicates` of `read_runs` says. Known errors of the losses (`loss_se`) are added to the predicted noise.
    discrepancy : float or text, optional
        'none' scores `run` outside the runs too; .01 or '1%' scores the spread with a stated discrepancy of this size.
    bootstrap : mapping of parameter to array (S,), optional
        Resamples of a point fit, from `PointFit.bootstrap`: their predictions are scored as draws too. They have no noise.
    as_ : {'known', 'new-run', 'new-checkpoint', 'new-group'}
        As what rows of fitted runs and checkpoints are forecast; see `bayeslaw.forecast`.
    seed : int
        Seed of the noise of new runs.
    force : bool
        Score a posterior although its checks failed.
    in_sample : bool
        Score rows of the fit too. Such scores tell how well the law describes its runs, not how well it forecasts.
    mean : str, optional
        Score averages over the values of this column, such as task, in place of single rows; see `Forecast.mean`.

    Returns
    -------
    DataFrame
        One row: law, fit, spread, rows, base_rows_left_out, seen_rows_left_out, `sample`, which is 'held-out' or says how many rows
        are 'in-sample', `checks` ('passed' or 'FAILED (forced)') and `model` for a posterior, then `point_scores` and, where
        there are draws, `draw_scores`.

    Raises
    ------
    BayeslawError
        If every row is one of the fit's and `in_sample` is False.

    Examples
    --------
    >>> table = bayeslaw.score(bayeslaw.load_fit("fit.nc"), "new.csv")
    >>> bool(table["cover_eti90"].between(0, 1).all()), table["spread"].item(), table["sample"].item()
    (True, 'run or extrapolated', 'held-out')
    >>> bayeslaw.score(bayeslaw.load_fit("fit.nc"), "runs.csv", in_sample=True)["sample"].item()
    'in-sample (60 of 60 rows)'
    """
    return scored(
        fit, runs, discrepancy=discrepancy, bootstrap=bootstrap, as_=as_, seed=seed, force=force, in_sample=in_sample, mean=mean
    ).table  # fmt: skip


class Scored(NamedTuple):
    """Scores of a fit on measured losses, and its forecasts of the runs that these are of.

    Attributes
    ----------
    table : DataFrame
        One row, as `score` returns it.
    runs : DataFrame
        One row for each run: run, rows, `inside` (how many of its losses lie in their 90% interval), error (mean relative error of
        its losses, with its sign), and of its last loss: loss, predicted (median), eti90_lb and eti90_ub. The worst error comes
        first. Averages of no named run are numbered in the order of their first rows. Empty for a point fit.
    notes : tuple of str
        Which rows were left out because they repeat others, and that losses are of another domain by their names.
    checks : tuple of Check
        Checks of the forecasts of these rows by a posterior, whose own are in `Fit.checks`.
    """

    table: pd.DataFrame
    runs: pd.DataFrame
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()


def scored(
    fit: Posterior | PointFit,
    runs: Runs | pd.DataFrame | str,
    *,
    discrepancy: float | str | None = None,
    bootstrap: Mapping[str, Array] | None = None,
    as_: Reading | Literal["new-group"] = "known",
    seed: int = 0,
    force: bool = False,
    in_sample: bool = False,
    mean: str | None = None,
) -> Scored:
    """Score a fit as `score` does, and return its forecasts run by run too.

    Parameters
    ----------
    fit, runs, discrepancy, bootstrap, as_, seed, force, in_sample, mean
        As those of `score`.

    Examples
    --------
    >>> from bayeslaw.evaluation.scores import scored
    >>> runs = scored(bayeslaw.load_fit("fit.nc"), "new.csv").runs
    >>> bool((runs["inside"] <= runs["rows"]).all())
    True
    """
    require_fits(fit, points=True)
    runs = read_runs(runs)
    members = [member for member, _ in fit.selections]
    if isinstance(fit, PointFit):
        if discrepancy not in (None, "none"):
            raise BayeslawError("A point fit has no spread to add a discrepancy to.", code="point-fit")
        if mean is not None:
            raise BayeslawError("Averages are scored by posteriors, whose errors rows share.", code="point-fit")
    else:
        if bootstrap is not None:
            raise BayeslawError("Only point fits are scored with a bootstrap: posteriors have own draws.", code="not-a-point-fit")
        members = [member for member, _ in seen_as(as_, fit.selections, runs.frame, seed)[0]]
    bootstrap = None if bootstrap is None else as_mapping(bootstrap, "fit.bootstrap(200)", "Resamples")
    rows = held_rows(members, runs, in_sample)
    counts = counts_of(len(rows.runs), rows.base, rows.seen, in_sample)
    if isinstance(fit, PointFit):
        return Scored(pd.DataFrame([_point_score(fit, rows.runs, counts, bootstrap)]), pd.DataFrame(), rows.notes)
    predicted = forecast(fit, rows.runs, discrepancy=discrepancy, as_=as_, seed=seed, force=force)
    predicted = predicted if mean is None else predicted.averaged_over(mean)
    head = {"law": predicted.law, "fit": "posterior", "spread": predicted.spread, **counts}
    head |= {"checks": checks_label(predicted.forced), "model": predicted.model_label}
    result = scored_draws(rows.runs.frame, predicted.predictive, head, fit.outcome, predicted.settings, mean)
    return result._replace(notes=rows.notes, checks=tuple(predicted.checks))


def counts_of(rows: int, base: int, seen: int, in_sample: bool) -> dict[str, object]:
    """Return what a table of scores says of its rows.

    Parameters
    ----------
    rows, base, seen : int
        How many are scored, how many base checkpoints are left out, and how many rows the fits had.
    in_sample : bool
        Whether these are scored too.
    """
    sample = f"in-sample ({seen} of {rows} rows)" if in_sample and seen else "held-out"
    return {"rows": rows, "base_rows_left_out": base, "seen_rows_left_out": 0 if in_sample else seen, "sample": sample}


def scored_draws(
    frame: pd.DataFrame, draws: Array, head: Mapping[str, object], outcome: Outcome, settings: pd.DataFrame, mean: str | None
) -> Scored:
    """Score predictive draws of measured outcomes, wherever the draws come from.

    Parameters
    ----------
    frame : DataFrame (n rows)
        Measured outcomes with their settings.
    draws : array (S, n)
    head : mapping
        What the table says before the scores; `rows` becomes the number of averages where averages are scored.
    outcome, settings, mean
        What was measured, the settings of the forecast (n rows), and the column over which outcomes are averaged, if they are.
    """
    loss = frame[outcome.name].to_numpy(dtype=np.float64)
    if mean is not None:
        averages = average(settings, draws, mean, outcome.facts)
        draws, loss = averages.draws, averages.measured(loss)
        frame = averages.settings.assign(**{outcome.name: loss})
        if "run" not in frame:
            frame = frame.assign(run=[f"average {number}" for number in range(1, len(frame) + 1)])
        head = {**head, "rows": len(frame)}
    scores = {**head, **point_scores(loss, np.median(draws, axis=0), outcome), **draw_scores(loss, draws, outcome)}
    return Scored(pd.DataFrame([scores]), by_run(frame, draws, outcome))


def by_run(frame: pd.DataFrame, draws: Array, outcome: Outcome = LOSS) -> pd.DataFrame:
    """Return the forecasts of measured outcomes run by run, as `Scored.runs` has them.

    Parameters
    ----------
    frame : DataFrame (n rows)
        Losses; without a column `run` each row is a run, named by its number. The last loss of a run is the one of the largest `D`,
        where there is no `D` of the largest `step`, and otherwise the last in the table.
    draws : array (S, n)
        Predictive draws of the losses.
    outcome : Outcome
        Errors are relative to positive ones, and in the unit of others.
    """
    median, low, high = quantiles(draws, 0.9, axis=0)
    name, (code, names) = outcome.name, run_codes(frame)
    loss = frame[name].to_numpy(dtype=np.float64)
    clock = next((c for c in ("D", "step") if c in frame and holds_numbers(frame[c]) and frame[c].notna().all()), None)
    rows = pd.DataFrame(
        {"run": np.array(names)[code], "at": 0.0 if clock is None else frame[clock].to_numpy(dtype=np.float64),
         "inside": (loss >= low) & (loss <= high), "error": median / loss - 1 if outcome.relative else median - loss,
         name: loss, "predicted": median, "eti90_lb": low, "eti90_ub": high}
    )  # fmt: skip
    named = rows.sort_values("at", kind="stable").groupby("run", sort=False)
    table = pd.DataFrame({"rows": named.size(), "inside": named["inside"].sum(), "error": named["error"].mean()})
    table = table.join(named[[name, "predicted", "eti90_lb", "eti90_ub"]].last())
    return table.sort_values("error", key=np.abs, ascending=False, kind="stable").reset_index()


@dataclass(frozen=True, eq=False)
class HeldRows:
    """The rows of a table that are scored, how many base checkpoints and rows of the fits it has, and notes on it."""

    runs: Runs
    base: int
    seen: int
    notes: tuple[str, ...]


def _as_fitted(fault: Fault, members: Sequence[Fit | PointFit], frame: pd.DataFrame) -> Fault:
    """Return a fault of a missing column that names the column from which a fit has it, where the table has that one too.

    One of a value that no fitted row has, of a column by which parameters differ, says how it is scored.
    """
    if fault.code == "unknown-level" and all(isinstance(m, Fit) and m.observed.group_column != fault.column for m in members):
        way = "score it as a new one with --as new-group (as_='new-group')"
        return replace(fault, suggestion=f"{fault.suggestion}; {way}")
    sources = [source for member in members if isinstance(member, Fit) for source in member.sources]
    for text in (source.columns.get(fault.column, "") for source in sources if fault.code == "missing-column"):
        if (column := parted(fault.column, text)[0]) in frame:
            way = f"{option(fault.column, text)} (in Python read_runs(…, columns={{{fault.column!r}: {text!r}}}))"
            return replace(fault, suggestion=f"the fit has it from {column}, which is in this table too: {way}")
    return fault


def held_rows(members: Sequence[Fit | PointFit], runs: Runs, in_sample: bool = False) -> HeldRows:
    """Return the rows that can be scored: all but base checkpoints that one of the laws can't describe, and rows of the fits.

    They have the base losses, numbers of items and chances that the table leaves out and the fits know.

    Parameters
    ----------
    members : sequence of Fit or PointFit
    runs : Runs
    in_sample : bool
        Keep the rows of the fits.
    """
    laws = [member.law for member in members]
    for member in members:
        if member.law.outcome.is_loss:
            check_unit(member.observed.unit, runs.frame, runs.name)
    runs = replace(runs, frame=with_known_base_losses(laws[0].name, [member.observed for member in members], runs.frame))
    for member in members:
        runs = runs if isinstance(member, PointFit) else with_facts(member, runs)
    runs, notes = without_repeats(runs, laws)
    notes += [str(note) for law in laws if (note := domain_note(runs, law)).text]
    if faults := list(dict.fromkeys(fault for law in laws for fault in check(runs, law, purpose="score"))):
        raise TableError([_as_fitted(fault, members, runs.frame) for fault in faults], runs.name)
    for member in members:
        fitted = "" if isinstance(member, PointFit) else str(member.info.get("domain", ""))
        if other := other_domain(runs.frame, member.law, fitted):
            raise BayeslawError(f"{runs.name}: {other}.", code="other-domain")
        if not isinstance(member, PointFit):
            check_loss_unit(member.info.get("loss_unit", ""), runs.frame, member.law, runs.name)
        check_tokenizer(member.token_length, runs.frame, member.law, runs.name)
    base = np.any([base_rows(runs.frame, law) for law in laws], axis=0)
    frame, outcome = runs.frame[~base], laws[0].outcome
    seen = np.any([member.observed.has(member.law, frame) for member in members], axis=0)
    if seen.all() and not in_sample:
        raise nothing_held_out(runs.name, len(frame), bool(base.any()), outcome)
    held = replace(runs, frame=frame if in_sample else frame[~seen], duplicates="keep")
    return HeldRows(held, int(base.sum()), int(seen.sum()), tuple(dict.fromkeys(notes)))


def nothing_held_out(name: str, rows: int, base: bool, outcome: Outcome) -> BayeslawError:
    """Return the error that refuses to score a table of which fits had every row.

    Parameters
    ----------
    name : str
        Name of the table.
    rows, base : int, bool
        How many rows it has that laws describe, and whether it has base checkpoints besides.
    outcome : Outcome
    """
    which = f"{counted(rows, 'row')}{' that are no base checkpoints' if base else ''}"
    return BayeslawError(
        f"{name}: there is nothing to score, since the fit was made with all {which}. Give {outcome.plural} that it has not seen, "
        "which show how well it forecasts, or score these as in-sample (--in-sample, in_sample=True).",
        code="nothing-held-out",
    )


def headlines(scores: pd.DataFrame, unit: str, outcome: Outcome = LOSS) -> dict[str, str]:
    """Return the five scores to report first in words, each with its unit and which values are good.

    Parameters
    ----------
    scores : DataFrame
        One row of `score`, of a posterior.
    unit, outcome : str, Outcome
        Unit and kind of the losses, or of what the fit predicts in place of them.
    """
    (row,) = scores.to_dict("records")
    inside, rows, of = round(row["cover_eti90"] * row["rows"]), row["rows"], f" {unit}" if unit else ""
    if outcome.relative:
        error, bias = f"{100 * row['mae_rel']:.2g}% (mean relative error", f"{100 * row['bias_rel']:+.2g}% (the same"
    else:
        error, bias = f"{significant(row['mae'], 3)}{of} (mean error", f"{row['bias']:+.2g}{of} (the same"
    return {
        "error": f"{error}; lower is better)",
        "bias": f"{bias} with its sign: + where too high; want 0)",
        "coverage": f"{inside} of {rows} {outcome.plural} in their 90% intervals, {100 * row['cover_eti90']:.3g}% (want 90%)",
        "width": f"{significant(row['width_eti90'], 3)}{of} (mean of the 90% intervals; narrower is better)",
        "CRPS": f"{significant(row['crps'], 3)}{of} (error of the whole distribution; lower is better)",
    }


def legend(names: Collection[str], outcome: Outcome = LOSS, text: str = LEGEND) -> str:
    """Return the lines of a legend that explain some scores of an outcome.

    Parameters
    ----------
    names : collection of str
    outcome : Outcome
    text : str
        Lines with names of scores, two blanks and what they are.
    """
    lines = (line for line in text.splitlines() if not {*line.partition("  ")[0].split(", ")}.isdisjoint(names))
    return outcome.renamed("\n".join(lines))


def sample_note(scores: pd.DataFrame, name: str) -> str:
    """Say which rows of a table that a fit has seen were left out or scored; '' where it has seen none.

    Parameters
    ----------
    scores : DataFrame
        One row of `score`.
    name : str
        Name of the table.
    """
    (row,) = scores.to_dict("records")
    if left := row["seen_rows_left_out"]:
        are, them = ("is", "it") if left == 1 else ("are", "them")
        return f"{counted(left, 'row')} of {name} {are} in the fit and not scored (--in-sample, in_sample=True, scores {them} too)."
    if row["sample"] == "held-out":
        return ""
    return f"IN-SAMPLE: {row['sample']} are those of the fit, so these scores do not say how well it forecasts."


def _point_score(
    fit: PointFit, held: Runs, counts: Mapping[str, object], bootstrap: Mapping[str, Array] | None
) -> dict[str, object]:
    """Return the scores of a point fit, and of the draws of its resamples where these are given."""
    loss, outcome = held.frame[fit.outcome.name].to_numpy(dtype=np.float64), fit.outcome
    settings = fit.law.arrays(complete(held.frame, fit.law))
    draws = fit.draws if bootstrap is None else bootstrap
    predicted, spread = fit.law.predict(fit.draws, settings)[0], fit.law.predict(draws, settings)
    for values, what in ((predicted[None], "The point fit"), (spread, "A bootstrap resample")):
        check_values(values, fit.law, {f"row of {held.name}": held.frame.index}, name=f"{what} of {fit.law.name}")
    kind = "" if bootstrap is None else "bootstrap"
    scores = {"law": fit.law.name, "fit": "point", "spread": kind, **counts, **point_scores(loss, predicted, outcome)}
    return scores if bootstrap is None else scores | draw_scores(loss, spread, outcome)
