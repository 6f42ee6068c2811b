"""Comparison of laws by their forecasts of rows beyond cuts, in the direction of stated targets (`choice`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.core.executors import Result, values_of
from bayeslaw.core.text import counted, significant
from bayeslaw.data.observations import run_codes
from bayeslaw.evaluation.backtest import UNFITTED, Beyond, cuts_along, forecasts_beyond, pooled_law, rows_up_to
from bayeslaw.evaluation.choice import (
    PRIOR,
    HeldOut,
    TargetDirection,
    floor_note,
    groups_of,
    hold_outs,
    nearness,
    quantiles_of,
)
from bayeslaw.evaluation.comparison import SCORED_TWICE, Candidate, Comparison, Work, comparison_of, mark
from bayeslaw.evaluation.direction import IN_WORDS
from bayeslaw.evaluation.scores import draw_scores, point_scores
from bayeslaw.forecasting.stack import Stack, rest_of_errors
from bayeslaw.laws.outcome import Outcome
from bayeslaw.posterior.diagnostics import model_label
from bayeslaw.posterior.fit import Fit

BEYOND = (
    "The stack is of fits to all rows. Its weights are by the held-out rows, and shrunk towards equal weights, which count as "
    "{prior:g} hold-out more."
)


def compare_beyond(work: Work, targets: TargetDirection, count: int) -> Comparison:
    """Compare by forecasts beyond cuts in the direction of the targets; the stack is of fits to all rows.

    Parameters
    ----------
    work : Work
    targets : TargetDirection
        Where the targets lie.
    count : int
        How many cuts; there are fewer where there are fewer different values.
    """
    by, along = targets.by, targets.along(work.table)
    candidates, cuts = _cuts(work, by, along, count)
    parts = [rows_up_to(work.table, cut, by, along) for cut in cuts]
    asked = {"seed": work.seed, "as_": "known" if targets.known else "new-run"}
    then = partial(forecasts_beyond, table=work.common, along=along, by=by, asked=asked, force=work.force, kept=quantiles_of)
    outcomes = work.outcomes_of([(c, part) for part in parts for c in candidates], then)
    if all(outcome.error for outcome in outcomes):
        values_of(outcomes)
    tried = dict(zip(((cut, c.name) for cut in cuts for c in candidates), outcomes, strict=True))
    whole = _whole_fits(work, candidates)
    fits = {name: fit for name, fit in whole.items() if work.usable(fit)}
    judged, cuts = _judged(work, by, cuts, [c.name for c in candidates if c.name in fits], tried)
    forecasts = {cut: {name: value for name in judged if (value := tried[cut, name].value) is not None} for cut in cuts}
    work.notes.extend(_left_out(by, along.loc[work.common.frame.index], forecasts))
    held = _held_forecasts(work, targets, along, {cut: {k: v.rows for k, v in by_law.items()} for cut, by_law in forecasts.items()})
    weights, table = _weighed_beyond(work, by, held, whole)
    stack = Stack.of(fits, weights)
    _score_beyond(work, by, held, tried, weights, in_part=bool(rest_of_errors(stack.selections)))
    work.notes.extend([BEYOND.format(prior=PRIOR), SCORED_TWICE])
    rows = held.rows.assign(held_out=held.rows["cut"].map(partial(_beyond_name, by)))
    runs = held.relative.groupby([rows["held_out"], rows["run"]], sort=False).mean()
    return comparison_of(work, table, {str(name): runs[name] for name in runs}, stack, rows[["held_out", "run"]], by)


def _beyond_name(by: str, cut: float) -> str:
    return f"{by} > {cut:.3g}"


def _cuts(work: Work, by: str, along: pd.Series, count: int) -> tuple[list[Candidate], list[float]]:
    """Return the laws that can be fitted below cuts, and the cuts below which all of them can; the others are noted."""
    possible, refused = dict[str, list[float]](), dict[str, BayeslawError]()
    for law in {c.law.name: c.law for c in work.candidates}.values():
        try:
            pooled = pooled_law(law, work.common, work.options)
            possible[law.name] = cuts_along(work.common, [pooled], by, along.loc[work.common.frame.index], count)
        except BayeslawError as error:
            refused[law.name] = error
    if not possible:
        raise next(iter(refused.values()))
    work.notes.extend(f"{name} is not judged and has no weight. {error}" for name, error in refused.items())
    return [c for c in work.candidates if c.law.name in possible], max(possible.values())


def _whole_fits(work: Work, candidates: Sequence[Candidate]) -> dict[str, Fit]:
    """Return the fits to all rows by name of the law; those that failed and those that could not be made are noted."""
    fits = dict[str, Fit]()
    for c, outcome in zip(candidates, work.outcomes([(c, work.table) for c in candidates]), strict=True):
        if outcome.value is None:
            work.notes.append(f"{c.name} has no weight. {outcome.error}")
            continue
        work.note_failures(c.name, outcome.value)
        fits[c.name] = outcome.value
    return fits


def _judged(
    work: Work, by: str, cuts: Sequence[float], names: Sequence[str], tried: Mapping[tuple[float, str], Result[Beyond]]
) -> tuple[list[str], list[float]]:
    """Return the laws to weigh and the cuts at which each of them could be scored.

    All are weighed by the same cuts. Where that would leave fewer than half of them, the law with most failures is left out.
    """
    failed = {name: {cut for cut in cuts if not (v := tried[cut, name].value) or not len(v.rows)} for name in names}
    for name, at in failed.items():
        for cut in cuts:
            outcome = tried[cut, name]
            if outcome.value is None or not outcome.value.passed:
                why = outcome.error if outcome.value is None else f"sampling {outcome.value.verdict}"
                work.notes.append(f"{name}, {by} up to {cut:.3g}: {'not scored. ' * (cut in at)}{why}")
    kept = list(names)
    while kept and 2 * len(set[float]().union(*(failed[name] for name in kept))) > len(cuts):
        kept.remove(max(kept, key=lambda name: len(failed[name])))
    if not kept:
        raise FitError(f"No law can be weighed. {' '.join(work.notes)} Or force it.", code="failed-checks")
    if out := [name for name in names if name not in kept]:
        some = "has no weight, since it" if len(out) == 1 else "have no weight, since they"
        work.notes.append(f"{', '.join(out)} {some} could not be scored beyond enough of the {counted(len(cuts), 'cut')}.")
    return kept, [cut for cut in cuts if not any(cut in failed[name] for name in kept)]


def _left_out(by: str, along: pd.Series, forecasts: Mapping[float, Mapping[str, Beyond]]) -> list[str]:
    """Say how many rows beyond each cut laws did not forecast, and why; what is so for several laws once."""
    notes = [
        f"Not scored beyond {by} {cut:.3g}: {count:,} of {(along > cut).sum():,} rows, which {why}."
        for cut, by_law in forecasts.items()
        for beyond in by_law.values()
        for why, count in beyond.left_out.items()
    ]
    return [*dict.fromkeys(notes)]


def _held_forecasts(
    work: Work, targets: TargetDirection, along: pd.Series, forecasts: Mapping[float, Mapping[str, pd.DataFrame]]
) -> HeldOut:
    """Put together the forecasts beyond each cut, by name of the law, of rows that every law could forecast."""
    frame, outcome = work.common.frame, work.candidates[0].law.outcome
    by_cut = {cut: pd.concat(by_law, axis="columns", join="inner") for cut, by_law in forecasts.items()}
    every = {cut: set[Any]().union(*(table.index for table in by_law.values())) for cut, by_law in forecasts.items()}
    if other := sum(len(every[cut]) - len(table) for cut, table in by_cut.items()):
        alone = f"{counted(other, 'forecast')} by some laws alone {'is' if other == 1 else 'are'} not scored"
        work.notes.append(f"{alone}, since not every law could forecast the same rows.")
    whole = pd.concat(by_cut)
    if whole.empty:
        raise BayeslawError(
            f"{work.common.name}: there is no row beyond the cuts that every law could forecast.", code="nothing-held-out"
        )
    cut, row = (whole.index.get_level_values(level) for level in (0, 1))
    code, names = run_codes(frame)
    of_row = pd.DataFrame(
        {"run": np.array(names, dtype=object)[code], "group": groups_of(along.loc[frame.index].to_numpy())}, frame.index
    )
    rows = pd.DataFrame({"cut": cut, "row": row}).join(of_row, on="row")
    rows["reach"] = np.log(along.loc[row].to_numpy()) - np.log(cut.to_numpy())
    rows[outcome.name] = frame.loc[row, outcome.name].to_numpy(dtype=np.float64)
    rows["near"] = nearness(rows["reach"].to_numpy(), targets.reach)
    laws = next(iter(forecasts.values()))
    reported, exact = ({name: whole[name][which].to_numpy() for name in laws} for which in ("reported", "exact"))
    return HeldOut(rows, reported, outcome, exact)


def _weighed_beyond(work: Work, by: str, held: HeldOut, fits: Mapping[str, Fit]) -> tuple[dict[str, float], pd.DataFrame]:
    """Return weights and their table, from forecasts of held-out rows and the fits to all rows; laws not judged have none."""
    weights, errors = held.weights, held.errors
    count, reach = hold_outs(held.rows), float(held.rows["reach"].max())
    where = f"up to {significant(reach, 2)} e-folds of {IN_WORDS.get(by, by)} beyond"
    forecasts, rows_held, cuts = len(held.rows), held.rows["row"].nunique(), held.rows["cut"].nunique()
    work.notes.append(
        f"{counted(forecasts, 'forecast')} of {counted(rows_held, 'row')} {where} {counted(cuts, 'cut')} count as "
        f"{significant(count, 2)} independent hold-outs."
    )
    laws = {c.name: c.law for c in work.candidates}
    mean = {str(name): error for name, error in errors["crps"].items()}
    if held.outcome.is_loss and (note := floor_note(weights, laws, mean, reach)):
        work.notes.append(note)
    rows, error = {}, "crps_rel" if held.outcome.relative else "crps"
    for c in work.candidates:
        row: dict[str, Any] = {"law": c.law.name, "noise": c.noise, "checks": UNFITTED, "model": ""}
        if c.name in fits:
            row |= {"checks": mark(fits[c.name].passed, work.force), "model": model_label(fits[c.name].checks)}
        if c.name in weights:
            scores = errors.loc[c.name].rename({"crps": error})
            row |= {"forecasts": len(held.rows), "hold_outs": count, **scores, "weight": weights[c.name]}
        rows[c.name] = row
    table = pd.DataFrame(rows.values(), pd.Index(list(rows), name="name"))
    return weights, table.sort_values("weight", ascending=False, kind="stable")


def _score_beyond(
    work: Work,
    by: str,
    held: HeldOut,
    tried: Mapping[tuple[float, str], Result[Beyond]],
    weights: Mapping[str, float],
    *,
    in_part: bool,
) -> None:
    """Add the scores of each law and of the stack beyond each cut; `in_part` if what laws differ by is a part of their errors."""
    stacked, named = held.stacked(weights, in_part=in_part), {c.name: c for c in work.candidates}
    for cut in map(float, held.rows["cut"].unique()):
        at, name_of = np.flatnonzero(held.rows["cut"] == cut), _beyond_name(by, cut)
        loss = held.rows[held.outcome.name].to_numpy(dtype=np.float64)[at]
        done = {name: value for name in held.quantiles if (value := tried[cut, name].value) is not None}
        for name, value in done.items():
            c, make = named[name], partial(_beyond_scores, loss, held.quantiles[name].T[:, at], [value], held.outcome)
            work.add(name_of, c.law.name, c.noise, "posterior", mark(value.passed, work.force), make)
        make = partial(_beyond_scores, loss, stacked[:, at], [*done.values()], held.outcome)
        work.add(name_of, "stack", "", "stack", mark(all(value.passed for value in done.values()), work.force), make)


def _beyond_scores(loss: Array, draws: Array, forecasts: Sequence[Beyond], outcome: Outcome) -> pd.DataFrame:
    """Return the scores of draws (S, n) of outcomes (n,), and what applies to the forecasts that they are from."""
    model = max((forecast.model for forecast in forecasts), key=("no concerns", "concerns", "not assessed").index)
    spreads = {spread for forecast in forecasts for spread in forecast.rows.attrs["spread"].split(" or ")}
    scores = {"model": model, "spread": " or ".join(sorted(spreads, reverse=True)), "rows": loss.size}
    return pd.DataFrame([scores | point_scores(loss, np.median(draws, axis=0), outcome) | draw_scores(loss, draws, outcome)])
