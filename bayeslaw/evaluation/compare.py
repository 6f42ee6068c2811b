"""Comparison of laws and noises on held-out runs, and the stack with the best predictions of them.

Laws are judged beyond cuts in the direction of stated targets (`evaluation.choice`), on rows held out by a condition or a column,
or by leaving one run out after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, FitError, row_ranges, whole_number
from bayeslaw.core.executors import Executor, opened, values_of
from bayeslaw.core.text import counted, exact
from bayeslaw.data.columns import did_you_mean
from bayeslaw.data.observations import Observations, run_codes
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.validate import base_rows, without_repeats
from bayeslaw.evaluation.backtest import MOST_CUTS, check_options, pooled_law
from bayeslaw.evaluation.beyond import compare_beyond
from bayeslaw.evaluation.choice import CUTS, TargetDirection, direction_of_targets, targets_of
from bayeslaw.evaluation.comparison import SCORED_TWICE, Candidate, Comparison, Work, comparison_of, mark
from bayeslaw.evaluation.loo import Loo, held_out_density, leave_one_run_out, split_run
from bayeslaw.evaluation.scores import draw_scores, point_scores, score
from bayeslaw.forecasting.forecast import forecast_selections
from bayeslaw.forecasting.grid import Settings
from bayeslaw.forecasting.stack import Stack, require_one_outcome, stacking
from bayeslaw.inference.point import MOST_RESAMPLES, MOST_STARTS, PointFit, point_fit
from bayeslaw.laws.card import load_laws
from bayeslaw.laws.law import Law
from bayeslaw.noise.noise import CHOICES, COUNTED, Noise, resolved
from bayeslaw.posterior.diagnostics import model_label
from bayeslaw.posterior.fit import Fit

DIAGNOSTIC = (
    "Leaving out one {by} after the other is a diagnostic: it shows the errors of the laws between the values of the table, not at "
    "values outside them. It corrects no interval."
)
HELD_OUT = (
    "The stack is of fits that have not seen the {rows} rows held out by {name!r}, so its forecasts do not use "
    "them. To use all rows, fit the laws to them, or compare by leaving runs out."
)
EXACT = (
    "Weights are by densities that take the laws for exact, and scores outside the runs have an error of the law: they may differ. "
    "Give the settings that you will forecast (--at, at=) for weights by such forecasts."
)
NO_POINTS = "Point fits are scored where rows are held out (holdout, by), not where runs are left out by importance weights."


class _Fold(NamedTuple):
    """Rows to fit and rows to score."""

    name: str
    seen: Runs
    held: Runs


def compare(
    runs: Table,
    laws: Iterable[Law | str | Path] | Law | str | Path,
    *,
    noise: Iterable[str] | str = ("auto",),
    holdout: str | None = None,
    by: str | None = None,
    loo: bool = False,
    at: Settings | None = None,
    cuts: int | None = None,
    bootstrap: int = 0,
    starts: int = 100,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    executor: str | Executor = "in-process",
    force: bool = False,
    progress: bool = True,
) -> Comparison:
    """Compare laws and noises on runs that they were not fitted to, and stack them.

    Every law is fitted to the rows that it describes, and all are scored and weighed on those that every law describes: some have
    no value at base checkpoints (D = 0). Without `at`, `holdout` and `by`, runs are left out one after the other, which judges laws
    between the runs.

    Parameters
    ----------
    runs : Runs, DataFrame or path
    laws : iterable of Law, name or path of a card
    noise : iterable of str
        Names of noises; every law is fitted with each.
    holdout : str, optional
        Rows that meet this condition are held out; the stack is of the fits to the others.
    by : str, optional
        The rows of each value of this column are held out in turn; the stack is of fits to all rows.
    loo : bool
        Leave one run out after the other, by importance weights, or by a refit where the weights are unreliable; the stack is of
        the fits to all rows.
    at : Runs, DataFrame, path or mapping, optional
        Settings to choose for, a table or values as for `bayeslaw.grid`. Laws are judged by forecasts of rows beyond several cuts
        in the direction in which these leave the runs; rows about as far beyond their cut count most. The stack is of fits to all
        rows. Where all settings lie inside the runs, one run is left out after the other.
    cuts : int, optional
        How many cuts, with `at`; by default 5. There are fewer where there are fewer different values.
    bootstrap : int
        Resamples of whole runs for the intervals of the point fits, with `holdout` and `by`; 0 for none.
    starts : int
        Starts of each point fit. Point fits are scored with `holdout` and `by`.
    seed : int
        Seed of fits, point fits and the noise of forecasts.
    options : mapping
        Other arguments of `bayeslaw.fit` for every fit: noise_by, by, priors, draws, tune, chains, target_accept, bins.
    executor : str or Executor
        Where fits are made; see `bayeslaw.core.executor`.
    force : bool
        Score and weigh also fits whose checks failed, and mark them.
    progress : bool

    Returns
    -------
    Comparison
        Weights maximise the log predictive density of left-out runs under the weighted laws (Yao et al. 2018). With `at`, they
        minimise the CRPS of held-out rows, and are shrunk towards equal weights where hold-outs are few.

    Raises
    ------
    TableError, BayeslawError
        If the table has faults for a law, or all rows of a group are held out by which parameters or the noise differ.
    FitError
        If a fit can't be made, or every fit failed its checks and `force` is False.

    Examples
    --------
    >>> bayeslaw.compare("runs.csv", ["chinchilla"], holdout="N > 1e8", by="run")
    Traceback (most recent call last):
    bayeslaw.core.errors.BayeslawError: Give only one of holdout, by, loo and at.
    """
    bootstrap = whole_number("bootstrap", bootstrap, 0, MOST_RESAMPLES)
    starts = whole_number("starts", starts, 1, MOST_STARTS)
    seed = whole_number("seed", seed, 0)
    options = check_options(options)
    noise = noise if isinstance(noise, Iterable) and not isinstance(noise, str) else [noise]
    cards = load_laws(laws)
    require_one_outcome(cards)
    if (holdout is not None) + (by is not None) + loo + (at is not None) > 1:
        raise BayeslawError("Give only one of holdout, by, loo and at.", code="several-holdouts")
    if cuts is not None and at is None:
        problem = "Cuts lie in the direction of settings: give these (--at, at=), or no number of cuts (--cuts, cuts=)."
        raise BayeslawError(problem, code="cuts-without-settings")
    cuts = CUTS if cuts is None else whole_number("cuts", cuts, 1, MOST_CUTS)
    if bootstrap and holdout is None and by is None:
        raise BayeslawError(
            "A bootstrap is of point fits, which are scored where rows are held out: give such rows (--holdout or --by, holdout= "
            "or by=), or no bootstrap (--bootstrap, bootstrap=).",
            code="no-point-fits",
        )
    whole, repeated = without_repeats(read_runs(runs), cards)
    candidates = _candidates(cards, list(noise))
    pooled = [pooled_law(law, whole, options) for law in cards]
    targets = None if at is None else _targets(whole, pooled, at)
    beyond = targets if targets is not None and targets.by else None
    table, common, notes = _described(whole, cards, singly=holdout is None and by is None and beyond is None)
    notes = [*([targets.text] if targets else []), *repeated, *notes, *_noises(candidates, table, options)]
    folds = _folds(table, common, holdout, by)
    for law in pooled:
        Observations.of(law, table)  # refuses what can't be fitted
    for fold in folds:
        _refuse_unknown_groups(fold, pooled, options)
    folds = [_unseen(fold, pooled, notes) for fold in folds]
    with opened(executor) as place:
        work = Work(
            table=table, common=common, candidates=candidates, options=options, seed=seed, force=force, place=place,
            progress=progress, notes=notes,
        )  # fmt: skip
        if beyond is not None:
            return compare_beyond(work, beyond, cuts)
        return _held_out(work, folds, by, starts, bootstrap) if folds else _left_out_singly(work)


# --- candidates and folds --------------------------------------------------------------------------------------------


def _described(runs: Runs, laws: Sequence[Law], *, singly: bool) -> tuple[Runs, Runs, list[str]]:
    """Return the rows to fit, those that every law describes, and notes.

    Some laws can't describe base checkpoints: the others are fitted to them, and nobody is scored on them. Where runs are left out
    one by one (`singly`), base rows of runs with other rows are left out for all laws, since the densities of a run under two laws
    are comparable only if they are of the same rows.
    """
    base = {law.name: base_rows(runs.frame, law).to_numpy() for law in laws}
    without = np.any([*base.values()], axis=0) if base else np.zeros(len(runs), dtype=bool)
    if not without.any() or without.all():  # where all are base rows, fitting refuses the table
        return runs, runs, []
    common = replace(runs, frame=runs.frame[~without])
    cannot = [name for name, rows in base.items() if rows.any()]
    can = [name for name in base if name not in cannot]
    rows = f"{counted(int(without.sum()), 'base-checkpoint row')} (D = 0) {'is' if without.sum() == 1 else 'are'}"
    if not can:
        return runs, common, [f"{rows} left out for every law, since {', '.join(cannot)} can't describe them."]
    notes = [
        f"{rows} fitted by {', '.join(can)} alone, since {', '.join(cannot)} can't describe them; scores and weights are of "
        "the rows that every law describes."
    ]
    if singly:
        code = run_codes(runs.frame)[0]
        mixed = without & np.isin(code, code[~without])
        if mixed.any():
            left_out = row_ranges(runs.frame.index[mixed])
            notes.append(f"Left out for every law: {left_out} of these, since their runs have rows at other D too.")
        runs = replace(runs, frame=runs.frame[~mixed])
    return runs, common, notes


def _candidates(laws: Sequence[Law], noises: Sequence[str]) -> tuple[Candidate, ...]:
    for what, names in (("law", [law.name for law in laws]), ("noise", noises)):
        if not names:
            raise BayeslawError(f"Give at least one {what} to compare.", code=f"no-{what}")
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise BayeslawError(f"The {what} {twice[0]} is given twice; each is compared once.", code="given-twice")
    known = ("auto", *COUNTED) if laws[0].outcome.kind == "count" else CHOICES
    if unknown := [n for n in noises if n not in known]:
        raise BayeslawError(f"No noise {unknown[0]!r}; choose one of {', '.join(known)}.", code="unknown-noise")
    return tuple(Candidate(f"{law.name} {n}" if len(noises) > 1 else law.name, law, n) for law in laws for n in noises)


def _noises(candidates: Sequence[Candidate], table: Runs, options: Mapping[str, Any]) -> list[str]:
    """Say which noise 'auto' is where a card names it; refuse it beside the noise that it is, which would have two votes."""
    notes = []
    for law in [c.law for c in candidates if c.noise == "auto"]:
        meant = resolved("auto", law, table)
        if meant == "auto":
            observed = Observations.of(pooled_law(law, table, options), table)
            meant = Noise.choose("auto", observed).choice(observed)
        else:
            notes.append(f"{law.name} is fitted with noise {meant}, which its card names for runs that are logged often.")
        if meant in {c.noise for c in candidates}:
            problem = f"For {law.name} and these runs the noise auto is {meant}, which is given too: each is compared once."
            raise BayeslawError(problem, code="given-twice")
    return notes


def _targets(runs: Runs, laws: Sequence[Law], at: Settings) -> TargetDirection:
    """Find where targets lie, seen from the rows that every law describes; the table is checked for the laws first."""
    targets = targets_of(at, laws)
    for law in laws:
        Observations.of(law, runs)
    base = np.any([base_rows(runs.frame, law) for law in laws], axis=0)
    return direction_of_targets(replace(runs, frame=runs.frame[~base]), targets, laws)


def _folds(table: Runs, common: Runs, holdout: str | None, by: str | None) -> list[_Fold]:
    """Return the folds to hold out, of rows that every law describes; none where no rows are named."""
    if holdout is not None:
        fold = _fold(table, common, holdout, table.where(holdout).frame.index)
        return [fold._replace(seen=replace(fold.seen, sources=table.where(f"not ({holdout})").sources))]
    if by is None:
        return []
    if by not in table.frame:
        known = [str(c) for c in table.frame]
        hint = " Parameters vary by a column with --pool (options={'by': …})." if "=" in str(by) else did_you_mean(by, known)
        advice = f"there are {', '.join(known)}.{hint}"
        raise BayeslawError(f"No column {by!r} to hold out by; {advice}", code="unknown-column")
    column = common.frame[by]
    if column.isna().any():
        row = column.index[column.isna()][0]
        raise BayeslawError(f"Column {by} is empty at row {row}: give every row a value to hold out by.", code="empty-cell")
    values = sorted(column.unique(), key=lambda value: (isinstance(value, str), value))
    if len(values) < 2:
        raise BayeslawError(f"Column {by} has one value ({values[0]}); to hold out each in turn takes two.", code="one-value")
    return [_fold(table, common, f"{by} = {exact(v)}", table.frame.index[table.frame[by] == v]) for v in values]


def _fold(table: Runs, common: Runs, name: str, rows: pd.Index) -> _Fold:
    held = table.frame.index.isin(rows)
    if held.all():
        raise BayeslawError(f"{name!r} holds out every row of {table.name}; some must be left to fit.", code="nothing-to-fit")
    scored = common.frame[common.frame.index.isin(rows)]
    if scored.empty:
        problem = "holds out base checkpoints (D = 0) alone, which not every law can describe"
        raise BayeslawError(f"{name!r} {problem}.", code="only-base-checkpoints")
    seen = replace(table, frame=table.frame[~held], name=f"{table.name} without {name}")
    return _Fold(name, seen, replace(table, frame=scored))


def _unseen(fold: _Fold, laws: Sequence[Law], notes: list[str]) -> _Fold:
    """Return a fold without the held-out rows whose covariates and loss are also among the rows to fit, and note them."""
    name = laws[0].outcome.name
    seen = np.any([Observations.of(law, fold.seen).has(law, fold.held.frame) for law in laws], axis=0)
    if seen.all():
        problem = f"every row that {fold.name!r} holds out is also among the rows to fit, with the same covariates and {name}"
        raise BayeslawError(f"{fold.held.name}: {problem}. Remove the repeated rows.", code="nothing-held-out")
    if not seen.any():
        return fold
    rows = row_ranges(fold.held.frame.index[seen])
    notes.append(f"{fold.name}: {rows} are not scored, since the rows to fit have the same covariates and {name}.")
    return fold._replace(held=replace(fold.held, frame=fold.held.frame[~seen]))


def _refuse_unknown_groups(fold: _Fold, laws: Sequence[Law], options: Mapping[str, Any]) -> None:
    """Refuse to hold out all rows of a group before fits are made that could not forecast it."""
    if alone := _groups_of_held_alone(fold.seen, fold.held, laws, options):
        raise BayeslawError(
            f"{fold.name!r} holds out every row of {alone}, so no fit to the others knows the parameters or the noise there, "
            "which differ by this column. Hold out other rows, or let nothing differ by it (--pool, --noise-by, "
            "options={'by': …, 'noise_by': …}).",
            code="unknown-group",
        )


def _groups_of_held_alone(seen: Runs, held: Runs, laws: Iterable[Law], options: Mapping[str, Any]) -> str:
    """Say which values, of a column by which parameters or the noise differ, held-out rows have and rows to fit have not."""
    columns = [*(column for law in laws for column in law.levels), options.get("noise_by")]
    for column in [c for c in columns if c in [*seen.frame]]:
        known, asked = ({*map(exact, table.frame[column])} for table in (seen, held))
        if asked - known:
            return f"{column} {', '.join(sorted(asked - known))}"
    return ""


# --- rows held out ---------------------------------------------------------------------------------------------------


def _held_out(work: Work, folds: Sequence[_Fold], by: str | None, starts: int, bootstrap: int) -> Comparison:
    """Compare on rows held out once, or on each value of a column in turn."""
    every = work.fits([*([work.table] if by else []), *(fold.seen for fold in folds)])
    whole, fitted = every[0], list(zip(folds, every[-len(folds) :], strict=True))
    laws = list({c.law.name: c.law for c in work.candidates}.values())
    pairs = [(pooled_law(law, fold.seen, work.options), fold.seen) for fold in folds for law in laws]
    pointed = partial(_pointed, starts=starts, bootstrap=bootstrap, seed=work.seed)
    points = iter(values_of(work.place.map(pointed, pairs, what="point fit", progress=work.progress)))
    for fold, fits in fitted:
        for c in work.candidates:
            fit = fits[c.name]
            make = partial(score, fit, fold.held, seed=work.seed, force=True) if work.usable(fit) else None
            work.add(fold.name, c.law.name, c.noise, "posterior", mark(fit.passed, work.force), make)
        for law in laws:
            point, resampled = next(points)
            work.add(fold.name, law.name, "", "point", "", partial(score, point, fold.held, bootstrap=resampled))
    candidate_fits = {c.name: [fits[c.name] for fits in every] for c in work.candidates}
    for name, fits_of in candidate_fits.items():
        work.note_failures(name, *fits_of)
    densities = {
        name: pd.concat(
            {fold.name: held_out_density(fits[name], fold.seen, fold.held) for fold, fits in fitted}, names=["held_out"]
        )
        for name, fits_of in candidate_fits.items()
        if work.usable(*fits_of)
    }
    weights, table = _weighed(work, densities, candidate_fits)
    for fold, fits in fitted:
        stack = Stack.of(fits, weights)
        make = partial(score, stack, fold.held, seed=work.seed, force=True)
        work.add(fold.name, "stack", "", "stack", mark(stack.passed, work.force), make)
    work.notes.append(SCORED_TWICE)
    if any("extrapolated" in str(spread) for table in work.scores if "spread" in table for spread in table["spread"]):
        work.notes.append(EXACT)
    first = folds[0]
    work.notes.append(DIAGNOSTIC.format(by=by) if by else HELD_OUT.format(rows=len(first.held), name=first.name))
    return comparison_of(work, table, densities, Stack.of(whole, weights), pd.concat(map(_rows, folds), ignore_index=True))


def _rows(fold: _Fold) -> pd.DataFrame:
    """Return the part and the run of each held-out row."""
    code, names = run_codes(fold.held.frame)
    return pd.DataFrame({"held_out": fold.name, "run": np.array(names)[code]})


def _pointed(pair: tuple[Law, Runs], *, starts: int, bootstrap: int, seed: int) -> tuple[PointFit, dict[str, Array] | None]:
    """Return a point fit and, if `bootstrap` is not 0, its bootstrap by run."""
    fit = point_fit(*pair, starts=starts, seed=seed)
    return fit, fit.bootstrap(bootstrap, seed=seed) if bootstrap else None


# --- runs left out one by one ----------------------------------------------------------------------------------------


def _left_out_singly(work: Work) -> Comparison:
    """Compare by leaving one run out after the other."""
    (fits,) = work.fits([work.table])
    for name, fit in fits.items():
        work.note_failures(name, fit)
    common = set.intersection(*({*fit.observed.run_names} for fit in fits.values()))
    loos = {name: leave_one_run_out(fit).only(common) for name, fit in fits.items() if work.usable(fit)}
    refits = _refits(work, fits, loos)
    for (name, run), refit in refits.items():
        others, left = split_run(work.table, run)
        loos[name] = loos[name].refitted(run, float(held_out_density(refit, others, left).iloc[0]))
    for c in work.candidates:
        fit, loo = fits[c.name], loos.get(c.name)
        own = {run: refit for (name, run), refit in refits.items() if name == c.name}
        make = partial(_loo_scores, work, fit, loo, own) if loo else None
        work.add("each run", c.law.name, c.noise, "posterior", mark(fit.passed, work.force), make)
    densities = {name: loo.table["elpd"] for name, loo in loos.items()}
    weights, table = _weighed(work, densities, {name: [fit] for name, fit in fits.items()})
    more = {
        name: {"p_loo": loo.p, "k_max": float(loo.table["pareto_k"].max()), "refits": int(loo.table["refitted"].sum())}
        for name, loo in loos.items()
    }
    work.notes.append(NO_POINTS)
    counts = next(iter(loos.values())).table["rows"]
    rows = pd.DataFrame({"held_out": "each run", "run": counts.index.repeat(counts)})
    return comparison_of(work, table.join(pd.DataFrame(more).T), densities, Stack.of(fits, weights), rows)


def _refits(work: Work, fits: Mapping[str, Fit], loos: Mapping[str, Loo]) -> dict[tuple[str, str], Fit]:
    """Return the fits without the runs for which importance weights are unreliable."""
    same = [c._replace(noise=fits[c.name].noise.choice(fits[c.name].observed)) for c in work.candidates]  # also of fewer runs
    pairs = []
    for candidate in [c for c in same if c.name in loos]:
        loo, law = loos[candidate.name], fits[candidate.name].law
        for run in loo.unreliable:
            others, left = split_run(work.table, run)
            if not len(others):
                work.notes.append(_unreliable(candidate.name, run, loo, "There is no other run."))
            elif alone := _groups_of_held_alone(others, left, [law], work.options):
                why = f"No other run is of {alone}, and parameters or the noise differ by it."
                work.notes.append(_unreliable(candidate.name, run, loo, why))
            else:
                pairs.append((candidate, run))
    # Runs are left out of the posterior of the law alone, as importance weights leave out the others.
    outcomes = work.outcomes([(c, split_run(work.table, run)[0]) for c, run in pairs], discrepancy="none") if pairs else []
    refits = {(c.name, run): o.value for (c, run), o in zip(pairs, outcomes, strict=True) if o.value is not None}
    for (c, run), outcome in zip(pairs, outcomes, strict=True):
        if outcome.error:
            work.notes.append(_unreliable(c.name, run, loos[c.name], outcome.error))
    work.note_failures("refits without a run", *refits.values())
    return refits


def _unreliable(name: str, run: str, loo: Loo, why: str) -> str:
    """Say that the density of a run is by weights alone, and why there is no refit."""
    k = float(loo.table["pareto_k"][run])
    return f"{name} can't be refitted without {run} (Pareto k {k:.2f}), so its density is unreliable. {why}"


def _loo_scores(work: Work, fit: Fit, loo: Loo, refits: Mapping[str, Fit]) -> pd.DataFrame:
    """Return the scores of forecasts of every run by the posterior without it."""
    losses, draws = [], []
    for run in map(str, loo.table.index):
        _, left = split_run(work.table, run)
        left = replace(left, frame=left.frame[~base_rows(left.frame, fit.law)])
        selections = refits[run].selections if run in refits else ((fit, loo.resampled(run)),)
        losses.append(left.frame[fit.law.outcome.name].to_numpy(dtype=np.float64))
        # The fit has seen the run: effects that it learnt from the run's own losses would make the forecast one in sample.
        draws.append(forecast_selections(fit.name, selections, left, seed=work.seed, left_out=run).predictive)
    loss, whole, outcome = np.concatenate(losses), np.concatenate(draws, axis=1), fit.law.outcome
    return pd.DataFrame(
        [
            {"spread": "run", "rows": loss.size, "model": model_label(fit.checks)}
            | point_scores(loss, np.median(whole, axis=0), outcome)
            | draw_scores(loss, whole, outcome)
        ]
    )


# --- weights ---------------------------------------------------------------------------------------------------------


def _weighed(
    work: Work, densities: Mapping[str, pd.Series], fits: Mapping[str, Sequence[Fit]]
) -> tuple[dict[str, float], pd.DataFrame]:
    """Return weights and their table; fits without finite densities and failed fits get no weight."""
    finite = {name: values for name, values in densities.items() if np.isfinite(values).all()}
    for name in [name for name in densities if name not in finite]:
        plural = fits[name][0].law.outcome.plural
        work.notes.append(f"{name} has no weight: its {plural} are not finite for some draws at some left-out runs.")
    if not finite:
        raise FitError(f"None of {', '.join(fits)} can be weighed. {' '.join(work.notes)} Or force it.", code="failed-checks")
    weighed = stacking(pd.DataFrame(finite))
    count = len(next(iter(finite.values())))
    if len(finite) > 1 and count == 1:
        work.notes.append("Only one run was left out: nothing tells how sure the order of the laws and their weights are.")
    rows = {}
    for c in work.candidates:
        sampling = mark(all(fit.passed for fit in fits[c.name]), work.force)
        model = model_label([check for fit in fits[c.name] for check in fit.checks])
        rows[c.name] = {"law": c.law.name, "noise": c.noise, "checks": sampling, "model": model}
    order = [*weighed.index, *(name for name in rows if name not in weighed.index)]
    table = pd.DataFrame(rows).T.assign(runs=count).join(weighed).loc[order]
    return {str(name): float(w) for name, w in weighed["weight"].items()}, table.rename_axis("name")
