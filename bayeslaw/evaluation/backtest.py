"""Backtests by rolling origin: a law is fitted to the rows up to a cut and forecasts those beyond it, at several cuts.

How well it did so at some distance beyond a cut is what to expect of its forecasts as far beyond all of the runs. Distances are
counted in e-folds of one direction: one e-fold is 2.7 times as much compute, N, D, PTPP or as many steps.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, evenly
from bayeslaw.core.errors import BayeslawError, as_mapping, row_ranges, whole_number
from bayeslaw.core.executors import Executor, Result, values_of
from bayeslaw.core.text import counted, exact, significant
from bayeslaw.core.threads import one_blas_thread
from bayeslaw.data.notes import WHOLE_RUN, flops_note
from bayeslaw.data.observations import Observations, run_codes
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.validate import base_rows, check, from_scratch, mixed_domains, without_repeats
from bayeslaw.evaluation.direction import GROUP_WIDTH, IN_WORDS, LEAST_VALUES, direction, group_ends
from bayeslaw.evaluation.reach import ABSOLUTE, BINS, SCORES, between, bin_name, by_reach, inside, scores_of, transforms_by_reach
from bayeslaw.evaluation.scores import forecast_cells, point_scores
from bayeslaw.forecasting.discrepancy import read_choice
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.stack import Posterior, Stack, fits_of
from bayeslaw.forecasting.together import laws_of_stack
from bayeslaw.inference.batch import Task, fit_many
from bayeslaw.laws.card import load_laws
from bayeslaw.laws.law import Law, shares_of_parameters
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.noise.noise import resolved
from bayeslaw.posterior.diagnostics import checks_label, concerns, model_label, sampling_verdict
from bayeslaw.posterior.effects import KNOWN_RUN, Reading, check_reading
from bayeslaw.posterior.fit import Fit

MOST_CUTS = 100
MOST_ROWS = 2_000  # rows scored beyond one cut
NEAR = (0.5, 1.5)  # e-folds that count as about one
NARROW = 0.05  # probability of as few losses inside, were the intervals right, below which they are called too narrow
UNSCORED, UNFITTED = "FAILED (not scored)", "not scored"
VARY = "let parameters vary by it (--pool E=domain, or options={'by': {'E': 'domain'}})"


@dataclass(frozen=True, eq=False)
class Backtest:
    """The result of `bayeslaw.backtest`.

    Attributes
    ----------
    law, by : str
        Name of the law or stack, and the direction.
    rows : DataFrame
        One row for each forecast of a row beyond a cut: cut, row (its number in the table), run, the row's value in the direction,
        reach (e-folds beyond the cut), `as` ('known run' where rows of its run were fitted), spread (to report at the row, such as
        'run'), loss, median, the ends of equal-tailed intervals (eti50_lb, eti50_ub, eti80_lb, …, eti90_ub), crps, pit (share of
        the draws below the loss), checks and model.
    cuts : DataFrame
        One row for each cut: its value in the direction, the rows and runs up to it, which were fitted, the rows beyond it, those
        scored, checks ('passed', 'FAILED (not scored)', 'FAILED (forced)', 'not scored') and model.
    notes : tuple of str
        Failed checks with what to do, and which rows were not scored.
    outcome : Outcome
        What the law predicts; that of `rows` stands in its column.

    Examples
    --------
    >>> result = bayeslaw.backtest("runs.csv", "chinchilla", cuts=1, progress=False)
    >>> result.cuts["checks"].tolist(), result.rows["eti90_lb"].size == result.cuts["scored"].item()
    (['passed'], True)
    """

    law: str
    by: str
    rows: pd.DataFrame
    cuts: pd.DataFrame
    notes: tuple[str, ...]
    outcome: Outcome = LOSS

    def __repr__(self) -> str:
        forecasts, cuts = counted(len(self.rows), "forecast"), counted(len(self.cuts), "cut")
        return f"<Backtest of {self.law} along {self.by}: {forecasts} beyond {cuts}>"

    def _repr_html_(self) -> str:
        """Show the conclusion, and the scores by distance, in a notebook."""
        return html.fragment(
            f"Backtest of {self.law} along {self.by}", "", html.paragraph(self.text),
            html.grid(self.reach, caption="Forecasts by their distance beyond the cut"), html.grid(self.cuts, caption="Cuts"),
            html.notes(self.notes),
        )  # fmt: skip

    @property
    def spread(self) -> str:
        """The spreads compared with the losses, such as 'run' or 'run or extrapolated'; empty where nothing was scored."""
        return " or ".join(sorted(set(self.rows["spread"]), reverse=True))

    @property
    def reach(self) -> pd.DataFrame:
        """Scores by reach: one row for each range of e-folds with forecasts in it, and one for all.

        Columns: e_folds, forecasts, rows, runs and cuts (how many different ones), mae_rel and bias_rel (mean relative error of the
        median, absolute and signed), cover_eti50, cover_eti80, cover_eti90, width_rel_eti90 (mean width over the loss), crps
        and checks.
        """
        table = [{"e_folds": name} | scores_of(rows, self.outcome) for name, rows in by_reach(self.rows).items()]
        return pd.DataFrame(table, columns=["e_folds", *(SCORES if self.outcome.relative else ABSOLUTE)])

    @property
    def transforms(self) -> dict[str, Array]:
        """Probability integral transforms of the losses by reach, as `bayeslaw.plots.plot_coverage` draws them."""
        return transforms_by_reach(self.rows)

    @property
    def text(self) -> str:
        """What to expect of forecasts about one e-fold beyond the runs, or as near to that as was scored."""
        if not len(self.rows):
            return f"Nothing could be scored beyond {counted(len(self.cuts), 'cut')}: the notes say why, and what to do."
        failed, forced = (self.cuts["checks"].isin(labels) for labels in ((UNSCORED, UNFITTED), (checks_label(True),)))
        place, rows = _nearest_to_one(self.rows)
        sentences = [f"At {place} of {IN_WORDS.get(self.by, self.by)} beyond these runs, {_experience(rows, self.outcome)}."]
        if failed.any():
            sentences.append(f"{failed.sum()} of {counted(len(self.cuts), 'cut')} could not be scored; the notes say why.")
        if forced.any():
            sentences.append(f"Sampling FAILED (forced) at {forced.sum()} of {counted(len(self.cuts), 'cut')}.")
        return " ".join([*sentences, *(_advice(rows, self.outcome) or _farther(self.rows, self.outcome))])


def backtest(
    runs: Table,
    law: Law | str | Path | Sequence[Law | str | Path],
    *,
    by: str = "compute",
    cuts: int = 5,
    noise: str | Callable[..., Any] = "auto",
    discrepancy: float | str | None = None,
    as_: Reading = "known",
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    executor: str | Executor = "in-process",
    force: bool = False,
    progress: bool = True,
) -> Backtest:
    """Fit a law or a stack to the rows up to a cut and score its forecasts of those beyond it, at several cuts in one direction.

    Values of the direction within .1 e-folds of each other are on one side of each cut. Cuts come after the middle of
    the different values and later; before the first are at least two of them and twice as many rows as the law has parameters.

    Parameters
    ----------
    runs : Runs, DataFrame or path
    law : Law, name or path of a card, or a sequence of them
        Several make a stack with equal weights, as by `bayeslaw.fit_stack`, of rows that each of them describes.
    by : {'compute', 'N', 'D', 'ptpp', 'step'}
        The direction: a column of the table. Compute is the column `flops`, or 6 N D in a table without one.
    cuts : int
        How many; fewer are made where there are fewer different values, which a note says.
    noise : text or function
        As for `bayeslaw.fit`.
    discrepancy : float or text, optional
        By default, 'learned', rows outside the fitted runs are scored by `extrapolated`; 'none' scores `run` everywhere, and .01 or
        '1%' the spread with a stated discrepancy of this size. See `bayeslaw.forecast`.
    as_ : {'known', 'new-run', 'new-checkpoint'}
        As what rows beyond a cut are forecast whose run or checkpoint has rows up to it; see `bayeslaw.forecast`.
    seed : int
        Seed of the fits and of the noise of forecasts. The same seed gives the same numbers on every executor.
    options : mapping
        Other arguments of `bayeslaw.fit` for every fit: noise_by, by, priors, draws, tune, chains, target_accept, bins.
    executor : str or Executor
        Where fits and forecasts are made; see `bayeslaw.core.executor`.
    force : bool
        Score also cuts where checks of the sampling failed, and mark them. Otherwise they are named and not scored.
    progress : bool
        Show a progress bar over all fits on standard error.

    Raises
    ------
    TableError, BayeslawError
        If the table has faults for the law, there is no such direction, rows lack a positive value of it, or no cut leaves enough
        rows to fit the law and others to forecast; or if no fit could be made.

    Examples
    --------
    >>> result = bayeslaw.backtest("runs.csv", "chinchilla", by="D", cuts=2, progress=False)
    >>> result
    <Backtest of chinchilla along D: ... forecasts beyond 2 cuts>
    >>> result.reach["e_folds"].iloc[-1], result.spread
    ('all', 'extrapolated')
    """
    cuts = whole_number("cuts", cuts, 1, MOST_CUTS)
    seed = whole_number("seed", seed, 0)
    check_reading(as_)
    _, learned = read_choice(discrepancy)
    given = check_options(options)
    laws = laws_of_stack(law) if isinstance(law, Sequence) and not isinstance(law, str) else load_laws(law)
    if not learned:  # fits need not learn what no forecast uses
        given["discrepancy"] = "none"
    table, notes = _usable(read_runs(runs), laws, given)
    along = direction(table, by)
    if by == "compute" and "flops" not in table.frame:
        notes += [
            f"Compute is 6 N D with all N parameters, and a token uses the share `{share}` of them: add a column flops."
            for share in shares_of_parameters(laws)
        ]
    if by == "compute" and (far := next((note for law in laws if (note := flops_note(table.frame, law))), "")):
        notes.append(f"{far}. {WHOLE_RUN}.")
    values = cuts_along(table, [pooled_law(law, table, given) for law in laws], by, along, cuts)
    if len(values) < cuts:
        notes.append(
            f"{counted(len(values), 'cut')} instead of {cuts}: {by} has no more values with enough rows below and some above."
        )
    parts = [rows_up_to(table, cut, by, along) for cut in values]
    notes += [note for law in laws if (note := _seldom(law, noise, table, parts))]
    tasks = [Task(law, part, given | {"seed": seed, "noise": noise}) for part in parts for law in laws]
    asked = {"discrepancy": discrepancy, "as_": as_, "seed": seed}
    then = partial(forecasts_beyond, table=table, along=along, by=by, asked=asked, force=force)
    if len(laws) == 1:
        outcomes = fit_many(tasks, executor=executor, then=then, progress=progress)
    else:
        fits = fit_many(tasks, executor=executor, progress=progress)
        outcomes = [_stacked(i, fits[i * len(laws) : (i + 1) * len(laws)], then) for i in range(len(parts))]
    if all(outcome.error for outcome in outcomes):
        values_of(outcomes)
    name = laws[0].name if len(laws) == 1 else "stack of " + ", ".join(law.name for law in laws)
    return _result(name, laws[0].outcome, by, along, parts, outcomes, notes)


def check_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of the fits; those that are arguments of their own, which would count in their place, are refused."""
    given = as_mapping(options, "{'draws': 2000}", "Options")
    if own := [name for name in ("noise", "seed") if name in given]:
        raise BayeslawError(f"{own[0]} is an argument of its own: give {own[0]}=…, not among the options.", code="own-argument")
    return given


def _seldom(law: Law, noise: str | Callable[..., Any], table: Runs, parts: Sequence[Runs]) -> str:
    """Say below which cut runs are logged too seldom for the noise that a card names; '' where all fits have it, or none."""
    seldom = [part.name for part in parts if resolved(noise, law, part) == "auto" != resolved(noise, law, table)]
    if not seldom:
        return ""
    return (
        f"In {seldom[-1]}, and up to earlier cuts, too few runs are logged often enough for noise {law.noise}, which the card of "
        f"{law.name} names: fits to them have the usual noise, and later ones that of the card."
    )


def _stacked(index: int, fits: Sequence[Result[Fit]], then: Callable[[Stack], Beyond]) -> Result[Beyond]:
    """Return the forecasts beyond a cut by the stack of the fits up to it, with equal weights, or why one of them was not made."""
    if failed := [outcome for outcome in fits if outcome.error]:
        return Result(index, None, failed[0].error, failed[0].traceback)
    members = {fit.law.name: fit for fit in values_of(fits)}
    stack = Stack(members, dict.fromkeys(members, 1 / len(members)))
    try:
        return Result(index, then(stack))
    except BayeslawError as error:
        return Result.failed(index, "cut", str(error))


# --- cuts ---------------------------------------------------------------------------------------------------------


def places(groups: int, first: int, count: int) -> list[int]:
    """Return after which of some groups of values to cut, counted from 0: from the middle, or from `first`, to the last but one.

    Parameters
    ----------
    groups, first, count : int
        Number of groups, the first after which there is enough to fit, and how many cuts to make at most.
    """
    start = max(first, groups // 2 - 1)
    return sorted({start + (groups - 1 - start) * k // count for k in range(count)})


def cuts_along(runs: Runs, laws: Sequence[Law], by: str, along: pd.Series, count: int) -> list[float]:
    """Return values of a direction at which to cut, ascending; the rows at a cut and below are fitted.

    Parameters
    ----------
    runs, laws : Runs and sequence of Law
        The laws have the parameters that they are fitted with; below each cut there are enough rows for all of them.
    by, along, count : str, Series (n,), int
        As in `backtest` and `direction`.
    """
    ends = group_ends(along[along > 0].to_numpy())
    if len(ends) < LEAST_VALUES:
        shown = ", ".join(f"{value:.3g}" for value in ends) or "none"
        raise BayeslawError(
            f"{runs.name}: {by} has {counted(len(ends), 'value')} farther apart than {GROUP_WIDTH:.0%} ({shown}), and a backtest "
            "needs at least 3: two to fit and one to forecast. Go along another direction, or add runs.",
            code="too-few-values",
        )

    def lacking(cut: float) -> str:
        return next((problem for law in laws if (problem := lacking_for(law, runs.frame[along <= cut]))), "")

    def lacking_for(law: Law, rows: pd.DataFrame) -> str:
        if len(rows) < (needed := 2 * len(law.parameters)):
            return f"there are {counted(len(rows), 'row')}, and a fit of {law.name} takes {needed}, twice its parameters"
        if alone := [column for column in law.levels if rows[column].nunique() < 2]:
            return f"parameters differ by {alone[0]}, which has one value there"
        return "; ".join(fault.problem for fault in check(replace(runs, frame=rows, duplicates="keep"), law))

    first = next((i for i in range(1, len(ends) - 1) if not lacking(ends[i])), None)
    if first is None:
        raise BayeslawError(
            f"{runs.name}: below its largest values of {by}, up to {ends[-2]:.3g}, there is too little to fit: "
            f"{lacking(ends[-2])}. Add runs, go along another direction, or take a law with fewer parameters.",
            code="too-few-rows",
        )
    return [ends[i] for i in places(len(ends), first, count)]


def rows_up_to(runs: Runs, cut: float, by: str, along: pd.Series) -> Runs:
    """Return the rows of a table up to a cut.

    Parameters
    ----------
    runs, cut, by, along : Runs, float, str, Series (n,)
        As in `cuts_along`.
    """
    return replace(runs, frame=runs.frame[along <= cut], name=f"{runs.name} up to {by} {cut:.3g}")


def _usable(runs: Runs, laws: Sequence[Law], options: Mapping[str, Any]) -> tuple[Runs, list[str]]:
    """Check a whole table for some laws; return the rows that are fitted and forecast, and notes on the others."""
    pooled = [pooled_law(law, runs, options) for law in laws]
    for law in pooled:
        if mixed := mixed_domains(runs.frame, law, VARY):
            raise BayeslawError(f"{runs.name}: {mixed}.", code="mixed-domains")
        Observations.of(law, runs, options.get("noise_by"))
    runs, notes = without_repeats(runs, pooled)
    for law in pooled:
        if (base := base_rows(runs.frame, law)).any():
            rows = row_ranges(base.index[base]) if from_scratch(law) else counted(int(base.sum()), "base-checkpoint row")
            notes.append(f"Left out: {rows} (D = 0), which {law.name} can't describe.")
            runs = replace(runs, frame=runs.frame[~base])
    return runs, notes


def pooled_law(law: Law, runs: Runs, options: Mapping[str, Any]) -> Law:
    """Return the law with the parameters that it is fitted with, one for each value of a column that they vary by.

    Parameters
    ----------
    law, runs, options
        As for `bayeslaw.fit`, with the column of each parameter that varies in `options['by']`.
    """
    law = with_by(law, options.get("by") or {})
    return with_levels(law, levels_of(law, runs.frame))


# --- forecasts beyond a cut ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Beyond:
    """The forecasts of one fit, and what its checks say; where those failed and were not forced there are no forecasts."""

    checks: str
    model: str
    verdict: str
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)
    left_out: Mapping[str, int] = field(default_factory=dict)
    concerns: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every check of the sampling passed, of the fit and at the rows beyond."""
        return self.verdict == "passed"


type Kept = Callable[[Forecast, pd.DataFrame], pd.DataFrame]


def forecasts_beyond(
    fit: Posterior, *, table: Runs, along: pd.Series, by: str, asked: Mapping[str, Any], force: bool, kept: Kept | None = None
) -> Beyond:
    """Forecast the rows of a table beyond those that a fit has seen.

    Parameters
    ----------
    fit, table : Fit or Stack, and Runs
        The fit is to the rows of the table up to some value of the direction.
    along, by : Series (n,) by row and str
        As `direction` returns it for the rows of the table and the fit, and its name.
    asked, force
        Arguments of `bayeslaw.forecast`; whether forecasts are made although checks failed.
    kept : callable, optional
        What to keep of a forecast of a table; by default `Backtest.rows`.
    """
    if not (fit.passed or force):
        return Beyond(UNSCORED, model_label(fit.checks), sampling_verdict(fit.checks))
    fitted = np.concatenate([member.observed.rows for member in fits_of(fit).values()])
    cut = float(along.loc[pd.Index(fitted)].max())
    held, left_out = _held(fit, replace(table, frame=table.frame[along.loc[table.frame.index] > cut], duplicates="keep"))
    with one_blas_thread():  # as workers have it: sums by several threads have other last digits
        predicted = forecast(fit, held, force=True, **asked)
        checks = [*fit.checks, *predicted.checks]
        verdict = sampling_verdict(checks)
        if predicted.forced and not force:
            return Beyond(UNSCORED, model_label(checks), verdict)
        value = along.loc[held.frame.index].rename(by)
        rows = kept(predicted, held.frame) if kept else _scored(predicted, held.frame, cut, value)
    names = () if predicted.forced else tuple(dict.fromkeys(check.name for check in concerns(checks)))
    return Beyond(checks_label(predicted.forced), predicted.model_label, verdict, rows, left_out, names)


def _scored(predicted: Forecast, frame: pd.DataFrame, cut: float, value: pd.Series) -> pd.DataFrame:
    """Return the forecasts of a table's rows beside their losses, as in `Backtest.rows`."""
    outcome, draws, (code, names) = predicted.outcome, predicted.predictive, run_codes(frame)
    loss = frame[outcome.name].to_numpy(dtype=np.float64)
    cells: dict[str, Any] = {"cut": cut, "row": frame.index, "run": np.array(names, dtype=object)[code]}
    cells |= {str(value.name): value.to_numpy(), "reach": np.log(value.to_numpy()) - math.log(cut), "as": predicted.readings}
    cells |= {"spread": predicted.headlines, outcome.name: loss}
    cells |= forecast_cells(loss, draws)
    return pd.DataFrame(cells).assign(checks=checks_label(predicted.forced), model=predicted.model_label)


def _held(posterior: Posterior, runs: Runs) -> tuple[Runs, dict[str, int]]:
    """Return the rows beyond a cut that can be scored, at most `MOST_ROWS`, and the numbers of the others by the reason."""
    frame, reasons = runs.frame, defaultdict[str, NDArray[np.bool_]](lambda: np.zeros(len(runs), dtype=bool))
    for fit in fits_of(posterior).values():
        observed = fit.observed
        for name, levels in fit.law.levels.items():
            reasons[f"have a {name} that no fitted row has"] |= ~frame[name].map(exact, na_action="ignore").isin(levels).to_numpy()
        if observed.group_names:
            unknown = ~frame[observed.group_column].astype(str).isin(observed.group_names)
            reasons[f"have a {observed.group_column} that no fitted row has"] |= unknown.to_numpy()
        reasons[f"have the covariates and the {fit.law.outcome.name} of fitted rows"] |= observed.has(fit.law, frame)
    left = np.any([*reasons.values()], axis=0)
    counts = {reason: int(mask.sum()) for reason, mask in reasons.items() if mask.any()}
    if left.all():
        why = " or ".join(counts)
        raise BayeslawError(f"{runs.name}: all {len(frame)} rows beyond the cut {why}.", code="nothing-held-out")
    frame = frame[~left]
    if len(frame) > MOST_ROWS:
        counts[f"lie between the {MOST_ROWS:,} that are, evenly spaced in the table"] = len(frame) - MOST_ROWS
        frame = frame.iloc[evenly(len(frame), MOST_ROWS)]
    return replace(runs, frame=frame), counts


# --- results ---------------------------------------------------------------------------------------------------------


def _result(
    name: str,
    predicted: Outcome,
    by: str,
    along: pd.Series,
    parts: Sequence[Runs],
    outcomes: Sequence[Result[Beyond]],
    notes: Sequence[str],
) -> Backtest:
    """Put the forecasts of all cuts together, and say what is not among them."""
    table, rows, notes = list[dict[str, object]](), list[pd.DataFrame](), list(notes)
    for part, outcome in zip(parts, outcomes, strict=True):
        cut = float(along.loc[part.frame.index].max())
        done = outcome.value or Beyond(UNFITTED, "", outcome.error)
        counts = {"rows": len(part), "runs": len(run_codes(part.frame)[1]), "beyond": int((along > cut).sum())}
        table.append({"cut": cut} | counts | {"scored": len(done.rows), "checks": done.checks, "model": done.model})
        where = f"{by} {cut:.3g}"
        if done.checks == UNFITTED:
            notes.append(f"{where}: not scored. {done.verdict}")
        elif done.verdict != "passed":
            scored = "is scored (forced)" if len(done.rows) else "is in no table"
            notes.append(f"{where}: sampling {done.verdict} What lies beyond this cut {scored}.")
        notes += [f"{where}: {count:,} of {counts['beyond']:,} rows beyond it {why}." for why, count in done.left_out.items()]
        rows += [done.rows] if len(done.rows) else []
    named = Counter(name for outcome in outcomes if outcome.value for name in outcome.value.concerns)
    if named:
        of_cuts = ", ".join(f"{name} ({count} of {counted(len(table), 'cut')})" for name, count in named.items())
        notes.append(f"Concerns about the models: {of_cuts}.")
    empty = pd.DataFrame(columns=["cut", "row", "run", "reach", "spread", predicted.name])
    forecasts = pd.concat(rows, ignore_index=True) if rows else empty
    known = int((forecasts["as"] == KNOWN_RUN).sum()) if rows else 0
    if known:
        notes.append(
            f"{known} of {len(forecasts)} forecasts are of later rows of fitted runs, with the effects learnt from these ('known "
            "run'); --as new-run (as_='new-run') forecasts them as other runs."
        )
    return Backtest(name, by, forecasts, pd.DataFrame(table), tuple(notes), predicted)


def _nearest_to_one(rows: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return the forecasts about one e-fold beyond a cut, or those of the first range with any, and the distance in words."""
    about = {"about one e-fold": NEAR} | {f"{bin_name(*ends)} e-folds": ends for ends in BINS}
    parts = ((place, between(rows, *ends)) for place, ends in about.items())
    return next((place, part) for place, part in parts if len(part))


def _experience(rows: pd.DataFrame, outcome: Outcome) -> str:
    """Say how many outcomes the 90% intervals of some forecasts held, and by how much the medians were off."""
    scores, held = scores_of(rows, outcome), int(inside(rows, 0.9, outcome).sum())
    what = f"{held} of {counted(len(rows), outcome.name)}"
    if scores["forecasts"] != scores["rows"]:
        what = f"the {outcome.name} in {held} of {len(rows)} forecasts (of {scores['rows']} rows, from {scores['cuts']} cuts)"
    error = outcome.in_words(scores["mae_rel" if outcome.relative else "mae"])
    return f"your 90% intervals would have held {what}; errors there were {error} on average"


def _too_narrow(rows: pd.DataFrame, outcome: Outcome) -> bool:
    """Whether 90% intervals hold fewer outcomes than right ones would, counting each run once."""
    by_run = inside(rows, 0.9, outcome).groupby(rows["run"]).mean()
    return bool(binom.cdf(round(float(by_run.sum())), len(by_run), 0.9) < NARROW)


def _farther(rows: pd.DataFrame, outcome: Outcome) -> list[str]:
    """Say where the 90% intervals of forecasts more than an e-fold beyond a cut are too narrow, of three runs at least."""
    for low, high in BINS:
        part = between(rows, low, high)
        if low >= 1 and part["run"].nunique() > 2 and _too_narrow(part, outcome):
            held = int(inside(part, 0.9, outcome).sum())
            return [f"At {bin_name(low, high)} e-folds they would have held {held} of {len(part)}, where they are too narrow."]
    return []


def _advice(rows: pd.DataFrame, outcome: Outcome) -> list[str]:
    """Say what to do if the 90% intervals of some forecasts are too narrow, counting each run once: its rows err together."""
    runs = rows["run"].nunique()
    if runs < 3:
        return [f"They are of {'one run' if runs == 1 else 'two runs'}: too few to judge by."]
    if not _too_narrow(rows, outcome):
        return []
    if not outcome.relative:
        return ["Such intervals are too narrow: forecast less far, or compare other laws."]
    error = point_scores(rows[outcome.name].to_numpy(), rows["median"].to_numpy(), outcome)["mae_rel"]
    size = significant(100 * error, 1)
    return [f"Such intervals are too narrow: state a discrepancy of some {size}%, and see by a backtest whether it is enough."]
