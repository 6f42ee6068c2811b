"""Comparison of laws and noises on held-out runs, and the stack with the best predictions of them.

Laws are judged beyond cuts in the direction of stated targets (`evaluation.choice`), on rows held out by a condition or a column,
or by leaving one run out after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, FitError, row_ranges, whole_number
from bayeslaw.core.executors import Executor, Outcome, opened, values_of
from bayeslaw.core.text import significant
from bayeslaw.data.columns import did_you_mean
from bayeslaw.data.observations import Observations, run_codes
from bayeslaw.data.query import where
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import base_rows, repeats
from bayeslaw.evaluation.backtest import IN_WORDS, Beyond, counted, cuts_along, forecasts_beyond, pooled_law
from bayeslaw.evaluation.choice import (
    CUTS,
    PRIOR,
    HeldOut,
    Question,
    Settings,
    floor_note,
    groups_of,
    hold_outs,
    nearness,
    quantiles_of,
    question,
    targets_of,
)
from bayeslaw.evaluation.loo import Loo, held_out_density, leave_one_run_out, split_run
from bayeslaw.evaluation.scores import draw_scores, point_scores, score
from bayeslaw.forecasting.forecast import forecast_selections
from bayeslaw.forecasting.stack import Stack, stacking
from bayeslaw.inference.batch import TUNE, Task, fit_many
from bayeslaw.inference.point import MOST_RESAMPLES, MOST_STARTS, PointFit, point_fit
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.noise.noise import CHOICES
from bayeslaw.posterior.diagnostics import model_label, sampling_verdict
from bayeslaw.posterior.fit import Fit

HEAD = ("held_out", "law", "noise", "fit", "checks", "model", "spread", "rows")
LEFT_OUT = ["base_rows_left_out", "seen_rows_left_out", "sample"]  # held-out parts have neither, by `_unseen`
DIAGNOSTIC = (
    "Leaving out one {by} after the other is a diagnostic: it shows the errors of the laws between the values of the table, not at "
    "values outside them. It corrects no interval."
)
SCORED_TWICE = "The stack's weights were fitted to the rows that it is scored on here: its scores are too good."
HELD_OUT = (
    "The stack is of fits that have not seen the {rows} rows held out by {name!r}, so its forecasts do not use "
    "them. To use all rows, fit the laws to them, or compare by leaving runs out."
)
MORE_TUNING = 4  # by which tuning is multiplied where sampling failed
TWICE = f" This was its second time, with {MORE_TUNING} times as many tuning draws."
NO_POINTS = "Point fits are scored where rows are held out (holdout, by), not where runs are left out by importance weights."
BEYOND = (
    "The stack is of fits to all rows. Its weights are by the held-out rows, and shrunk towards equal weights, which count as "
    "{prior:g} hold-out more."
)


@dataclass(frozen=True)
class Comparison:
    """The result of `bayeslaw.compare`: tables, the notes that they need, and the stack of the weighted fits.

    Attributes
    ----------
    scores : DataFrame
        One row for each fit and held-out part: held_out, law, noise, fit ('posterior', 'point', 'stack'), checks, model, spread,
        rows, and the scores of `bayeslaw.score`; empty for fits whose checks failed, unless forced.
    weights : DataFrame
        One row for each law and noise, best first: law, noise, checks, model, runs, elpd (log predictive density of the left-out
        runs, summed, larger is better) with its standard error se, elpd_diff to the best with its standard error dse, and the
        stacking weight; where single runs are left out also p_loo, k_max and refits. Of forecasts beyond cuts: law, noise, checks,
        model, forecasts, hold_outs (how many independent ones these count as), crps_rel (CRPS over the loss) and weight.
    runs : DataFrame
        Log predictive density of every left-out run (rows) under every law and noise (columns); beyond cuts the mean CRPS over the
        loss for every cut and run.
    by : str
        The direction of the cuts, such as 'compute'; empty where laws were not judged by forecasts beyond cuts.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> loo = bayeslaw.evaluation.leave_one_run_out(fit).table
    >>> stack = bayeslaw.Stack({"chinchilla": fit}, {"chinchilla": 1.0})
    >>> bayeslaw.evaluation.Comparison(fit.score("runs.csv", in_sample=True), stack.table, loo, (), stack).stack.weights
    {'chinchilla': 1.0}
    """

    scores: pd.DataFrame
    weights: pd.DataFrame
    runs: pd.DataFrame
    notes: tuple[str, ...]
    stack: Stack
    by: str = ""


class _Candidate(NamedTuple):
    """A law with a noise, under a unique name."""

    name: str
    law: Law
    noise: str


class _Fold(NamedTuple):
    """Rows to fit and rows to score."""

    name: str
    seen: Runs
    held: Runs


def _itself(fit: Fit) -> Fit:
    return fit


@dataclass(frozen=True)
class _Work:
    """The problem of a comparison, with the scores and notes collected so far."""

    table: Runs
    candidates: tuple[_Candidate, ...]
    options: Mapping[str, Any]
    seed: int
    force: bool
    place: Executor
    progress: bool
    notes: list[str] = field(default_factory=list)
    scores: list[pd.DataFrame] = field(default_factory=list)

    def outcomes(self, pairs: Sequence[tuple[_Candidate, Runs]], **others: object) -> list[Outcome[Fit]]:
        return self.outcomes_of(pairs, _itself, **others)

    def outcomes_of[T: (Fit, Beyond)](
        self, pairs: Sequence[tuple[_Candidate, Runs]], then: Callable[[Fit], T], **others: object
    ) -> list[Outcome[T]]:
        """Return what `then` makes of each fit; where sampling failed and is not forced, of a second one with more tuning."""
        options: dict[str, Any] = {**self.options, "seed": self.seed, **others}
        tasks = [Task(c.law, rows, {**options, "noise": c.noise}) for c, rows in pairs]
        outcomes = fit_many(tasks, executor=self.place, then=then, progress=self.progress)
        unsound = [outcome.index for outcome in outcomes if outcome.value is not None and not outcome.value.passed]
        failed = [] if self.force else unsound
        tune = MORE_TUNING * options.get("tune", TUNE)
        again = [replace(tasks[i], options={**tasks[i].options, "tune": tune}) for i in failed]
        repeated = fit_many(again, executor=self.place, then=then, progress=self.progress) if again else []
        for i, outcome in zip(failed, repeated, strict=True):
            if outcome.value is not None:
                outcomes[i] = outcome
        return outcomes

    def fits(self, tables: Sequence[Runs]) -> list[dict[str, Fit]]:
        """Return the fits to each table, by the candidates' names."""
        pairs = [(c, rows) for rows in tables for c in self.candidates]
        outcomes = self.outcomes(pairs)
        if failed := [f"{c.name} to {rows.name}: {o.error}" for (c, rows), o in zip(pairs, outcomes, strict=True) if o.error]:
            raise FitError("Not every fit could be made. " + " ".join(failed), code="failed-fits")
        fits = iter(values_of(outcomes))
        return [{c.name: next(fits) for c in self.candidates} for _ in tables]

    @property
    def twice(self) -> str:
        """What to add to a note that sampling failed."""
        return "" if self.force else TWICE

    def usable(self, *fits: Fit) -> bool:
        return self.force or all(fit.passed for fit in fits)

    def note_failures(self, name: str, *fits: Fit) -> None:
        """Say in a note which checks of sampling failed in a candidate's fits, and what to do."""
        if failed := [fit for fit in fits if not fit.passed]:
            some = "" if len(fits) == 1 else f", {len(failed)} of {len(fits)} fits"
            self.notes.append(f"{name}{some}: sampling {sampling_verdict([c for fit in failed for c in fit.checks])}{self.twice}")

    def add(self, held_out: str, law: str, noise: str, fit: str, checks: str, make: Callable[[], pd.DataFrame] | None) -> None:
        """Add a row of scores; it stays empty where scoring fails, with the reason in a note."""
        scores = pd.DataFrame([{}])
        if make is not None:
            try:
                scores = make()
            except FitError as error:
                self.notes.append(f"{law} ({fit}), {held_out}: not scored. {error}")
        head = {"held_out": held_out, "law": law, "noise": noise, "fit": fit, "checks": checks}
        scores = scores.assign(model=scores.get("model", ""))
        self.scores.append(scores.assign(**head).drop(columns=LEFT_OUT, errors="ignore"))


def compare(
    runs: Runs | pd.DataFrame | str | Path,
    laws: Iterable[Law | str | Path],
    *,
    noise: Iterable[str] = ("auto",),
    holdout: str | None = None,
    by: str | None = None,
    loo: bool = False,
    at: Settings | None = None,
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
    between the runs. A fit whose sampling failed is made again with four times as many tuning draws, unless it is forced.

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
    bootstrap : int
        Resamples of whole runs for the intervals of the point fits; 0 for none.
    starts : int
        Starts of each point fit. Point fits are scored with `holdout` and `by`.
    seed : int
        Seed of fits, point fits and the noise of forecasts.
    options : mapping
        Other arguments of `bayeslaw.fit` for every fit: draws, tune, chains, target_accept, bins.
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
    FitError
        If a fit can't be made, or every fit failed its checks and `force` is False.

    Examples
    --------
    >>> bayeslaw.compare("runs.csv", ["chinchilla"], holdout="N > 1e8", by="run")
    Traceback (most recent call last):
    bayeslaw.core.errors.BayeslawError: Give only one of holdout, by, loo and at.
    """
    whole_number("bootstrap", bootstrap, 0, MOST_RESAMPLES)
    whole_number("starts", starts, 1, MOST_STARTS)
    whole_number("seed", seed, 0)
    cards = [law if isinstance(law, Law) else load_law(law) for law in laws]
    if (holdout is not None) + (by is not None) + loo + (at is not None) > 1:
        raise BayeslawError("Give only one of holdout, by, loo and at.", code="several-holdouts")
    candidates, whole = _candidates(cards, list(noise)), runs if isinstance(runs, Runs) else read_runs(runs)
    asked = None if at is None else _asked(whole, cards, targets_of(at, cards))
    beyond = asked is not None and bool(asked.by)
    table, undescribed, notes = _undescribed(whole, cards, holdout is None and by is None and not beyond)
    notes = [*([asked.text] if asked else []), *notes]
    folds = _folds(table, undescribed, holdout, by)
    for law in cards:
        Observations.of(law, table)
    folds = [_unseen(fold, cards, notes) for fold in folds]
    with opened(executor) as place:
        work = _Work(table, candidates, options or {}, seed, force, place, progress, notes)
        if asked is not None and beyond:
            return _beyond(work, asked, undescribed)
        if not folds:
            return _left_out_singly(work)
        return _held_out(work, folds, by, partial(_pointed, starts=starts, bootstrap=bootstrap, seed=seed))


# --- candidates and folds --------------------------------------------------------------------------------------------


def _undescribed(runs: Runs, laws: Sequence[Law], singly: bool) -> tuple[Runs, NDArray[np.bool_], list[str]]:
    """Find the base checkpoints that some law can't describe: the others are fitted to them, and nobody is scored on them.

    Parameters
    ----------
    runs, laws
        The table, and the laws to compare.
    singly : bool
        Whether runs are left out one by one. Then base rows of runs with other rows are left out for all laws, since the densities
        of a run under two laws are comparable only if they are of the same rows.

    Returns
    -------
    Runs, bool array (n,), list of str
        The rows to fit, which of them some law can't describe, and notes.
    """
    base = {law.name: base_rows(runs.frame, law).to_numpy() for law in laws}
    without = np.any([*base.values()], axis=0) if base else np.zeros(len(runs), dtype=bool)
    if not without.any() or without.all():  # where all are base rows, fitting refuses the table
        return runs, np.zeros(len(runs), dtype=bool), []
    cannot = [name for name, rows in base.items() if rows.any()]
    can = [name for name in base if name not in cannot]
    rows = f"{without.sum()} base-checkpoint rows (D = 0)"
    if not can:
        return runs, without, [f"{rows} are left out for every law, since {', '.join(cannot)} can't describe them."]
    notes = [
        f"{rows} are fitted by {', '.join(can)} alone, since {', '.join(cannot)} can't describe them; scores and weights are of "
        "the rows that every law describes."
    ]
    if singly:
        code = run_codes(runs.frame)[0]
        mixed = without & np.isin(code, code[~without])
        if mixed.any():
            notes.append(f"{mixed.sum()} of these rows belong to runs that have others, and are left out for every law.")
        runs, without = replace(runs, frame=runs.frame[~mixed]), without[~mixed]
    return runs, without, notes


def _candidates(laws: Sequence[Law], noises: Sequence[str]) -> tuple[_Candidate, ...]:
    for what, names in (("law", [law.name for law in laws]), ("noise", noises)):
        if not names:
            raise BayeslawError(f"Give at least one {what} to compare.", code=f"no-{what}")
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise BayeslawError(f"The {what} {twice[0]} is given twice; each is compared once.", code="given-twice")
    if unknown := [n for n in noises if n not in CHOICES]:
        raise BayeslawError(f"No noise {unknown[0]!r}; choose one of {', '.join(CHOICES)}.", code="unknown-noise")
    return tuple(_Candidate(f"{law.name} {n}" if len(noises) > 1 else law.name, law, n) for law in laws for n in noises)


def _asked(runs: Runs, laws: Sequence[Law], targets: Runs) -> Question:
    """Find where targets lie, seen from the rows that every law describes; the table is checked for the laws first."""
    for law in laws:
        Observations.of(law, runs)
    base = np.any([base_rows(runs.frame, law) for law in laws], axis=0)
    return question(replace(runs, frame=runs.frame[~base]), targets, laws)


def _folds(table: Runs, undescribed: NDArray[np.bool_], holdout: str | None, by: str | None) -> list[_Fold]:
    """Return the folds to hold out, of rows that every law describes; none where no rows are named."""
    if holdout is not None:
        fold = _fold(table, holdout, table.frame.index.isin(where(table.frame, holdout).index), undescribed)
        return [fold._replace(seen=replace(fold.seen, sources=table.where(f"not ({holdout})").sources))]
    if by is None:
        return []
    if by not in table.frame:
        known = [str(c) for c in table.frame]
        advice = f"there are {', '.join(known)}.{did_you_mean(by, known)}"
        raise BayeslawError(f"No column {by!r} to hold out by; {advice}", code="unknown-column")
    column = table.frame.loc[~undescribed, by]
    if column.isna().any():
        row = column.index[column.isna()][0]
        raise BayeslawError(f"Column {by} is empty at row {row}: give every row a value to hold out by.", code="empty-cell")
    values = sorted(column.unique())
    if len(values) < 2:
        raise BayeslawError(f"Column {by} has one value ({values[0]}); to hold out each in turn takes two.", code="one-value")
    named = [f"{by} = {v:g}" if isinstance(v, float) else f"{by} = {v}" for v in values]
    return [_fold(table, name, (table.frame[by] == v).to_numpy(), undescribed) for name, v in zip(named, values, strict=True)]


def _fold(table: Runs, name: str, held: NDArray[np.bool_], undescribed: NDArray[np.bool_]) -> _Fold:
    if held.all():
        raise BayeslawError(f"{name!r} holds out every row of {table.name}; some must be left to fit.", code="nothing-to-fit")
    if not (held & ~undescribed).any():
        problem = "holds out base checkpoints (D = 0) alone, which not every law can describe"
        raise BayeslawError(f"{name!r} {problem}.", code="only-base-checkpoints")
    seen = replace(table, frame=table.frame[~held], name=f"{table.name} without {name}")
    return _Fold(name, seen, replace(table, frame=table.frame[held & ~undescribed]))


def _unseen(fold: _Fold, laws: Sequence[Law], notes: list[str]) -> _Fold:
    """Return a fold without the held-out rows whose covariates and loss are also among the rows to fit, and note them."""
    seen = np.any([Observations.of(law, fold.seen).has(law, fold.held.frame) for law in laws], axis=0)
    if seen.all():
        problem = f"every row that {fold.name!r} holds out is also among the rows to fit, with the same covariates and loss"
        raise BayeslawError(f"{fold.held.name}: {problem}. Remove the repeated rows.", code="nothing-held-out")
    if not seen.any():
        return fold
    rows = row_ranges(fold.held.frame.index[seen])
    notes.append(f"{fold.name}: {rows} are not scored, since the rows to fit have the same covariates and loss.")
    return fold._replace(held=replace(fold.held, frame=fold.held.frame[~seen]))


# --- rows held out ---------------------------------------------------------------------------------------------------


type _Pointed = tuple[PointFit, dict[str, Array] | None]


def _held_out(work: _Work, folds: Sequence[_Fold], by: str | None, pointed: Callable[[tuple[Law, Runs]], _Pointed]) -> Comparison:
    """Compare on rows held out once, or on each value of a column in turn."""
    by_fold = work.fits([*(fold.seen for fold in folds), *([work.table] if by else [])])
    whole = by_fold.pop() if by else by_fold[0]
    laws = list({c.law.name: c.law for c in work.candidates}.values())
    pairs = [(law, fold.seen) for fold in folds for law in laws]
    points = iter(values_of(work.place.map(pointed, pairs, what="point fit", progress=work.progress)))
    for fold, fits in zip(folds, by_fold, strict=True):
        for c in work.candidates:
            fit = fits[c.name]
            make = partial(score, fit, fold.held, seed=work.seed, force=True) if work.usable(fit) else None
            work.add(fold.name, c.law.name, c.noise, "posterior", _mark(fit.passed, work.force), make)
        for law in laws:
            point, resampled = next(points)
            work.add(fold.name, law.name, "", "point", "", partial(score, point, fold.held, bootstrap=resampled))
    made = {c.name: [*([whole[c.name]] if by else []), *(fits[c.name] for fits in by_fold)] for c in work.candidates}
    for name, fits_of in made.items():
        work.note_failures(name, *fits_of)
    usable = [name for name, fits_of in made.items() if work.usable(*fits_of)]
    densities = {
        name: pd.concat(
            {fold.name: held_out_density(fits[name], fold.seen, fold.held) for fold, fits in zip(folds, by_fold, strict=True)},
            names=["held_out"],
        )
        for name in usable
    }
    weights, table = _weighed(work, densities, made)
    for fold, fits in zip(folds, by_fold, strict=True):
        stack = Stack.of(fits, weights)
        make = partial(score, stack, fold.held, seed=work.seed, force=True)
        work.add(fold.name, "stack", "", "stack", _mark(stack.passed, work.force), make)
    work.notes.append(SCORED_TWICE)
    if not by:
        work.notes.append(HELD_OUT.format(rows=len(folds[0].held), name=folds[0].name))
    if by:
        work.notes.append(DIAGNOSTIC.format(by=by))
    return _comparison(work, table, densities, Stack.of(whole, weights))


def _pointed(pair: tuple[Law, Runs], *, starts: int, bootstrap: int, seed: int) -> _Pointed:
    """Return a point fit and, if `bootstrap` is not 0, its bootstrap by run."""
    fit = point_fit(*pair, starts=starts, seed=seed)
    return fit, fit.bootstrap(bootstrap, seed=seed) if bootstrap else None


# --- runs left out one by one ----------------------------------------------------------------------------------------


def _left_out_singly(work: _Work) -> Comparison:
    """Compare by leaving one run out after the other."""
    (fits,) = work.fits([work.table])
    for name, fit in fits.items():
        work.note_failures(name, fit)
    common = set.intersection(*({*fit.observed.run_names} for fit in fits.values()))
    loos = {name: leave_one_run_out(fit).only(common) for name, fit in fits.items() if work.usable(fit)}
    refits = _refits(work, loos)
    for (name, run), refit in refits.items():
        others, left = split_run(work.table, run)
        loos[name] = loos[name].refitted(run, float(held_out_density(refit, others, left).iloc[0]))
    for c in work.candidates:
        fit, loo = fits[c.name], loos.get(c.name)
        own = {run: refit for (name, run), refit in refits.items() if name == c.name}
        make = partial(_loo_scores, work, fit, loo, own) if loo else None
        work.add("each run", c.law.name, c.noise, "posterior", _mark(fit.passed, work.force), make)
    densities = {name: loo.table["elpd"] for name, loo in loos.items()}
    weights, table = _weighed(work, dict(densities), {name: [fit] for name, fit in fits.items()})
    more = {
        name: {"p_loo": loo.p, "k_max": float(loo.table["pareto_k"].max()), "refits": int(loo.table["refitted"].sum())}
        for name, loo in loos.items()
    }
    work.notes.append(NO_POINTS)
    return _comparison(work, table.join(pd.DataFrame(more).T), densities, Stack.of(fits, weights))


def _refits(work: _Work, loos: Mapping[str, Loo]) -> dict[tuple[str, str], Fit]:
    """Return the fits without the runs for which importance weights are unreliable."""
    pairs = [(c, run) for c in work.candidates if c.name in loos for run in loos[c.name].unreliable]
    # Runs are left out of the posterior of the law alone, as importance weights leave out the others.
    outcomes = work.outcomes([(c, split_run(work.table, run)[0]) for c, run in pairs], discrepancy="none") if pairs else []
    refits = {(c.name, run): o.value for (c, run), o in zip(pairs, outcomes, strict=True) if o.value is not None}
    for (c, run), outcome in zip(pairs, outcomes, strict=True):
        if outcome.error:
            k = float(loos[c.name].table["pareto_k"][run])
            note = f"{c.name} can't be refitted without {run} (Pareto k {k:.2f}), so its density is unreliable. {outcome.error}"
            work.notes.append(note)
    work.note_failures("refits without a run", *refits.values())
    return refits


def _loo_scores(work: _Work, fit: Fit, loo: Loo, refits: Mapping[str, Fit]) -> pd.DataFrame:
    """Return the scores of forecasts of every run by the posterior without it."""
    losses, draws = [], []
    for run in map(str, loo.table.index):
        _, left = split_run(work.table, run)
        selections = refits[run].selections if run in refits else ((fit, loo.resampled(run)),)
        losses.append(left.frame["loss"].to_numpy(dtype=np.float64))
        # The fit has seen the run: effects that it learnt from the run's own losses would make the forecast one in sample.
        draws.append(forecast_selections(fit.name, selections, left, seed=work.seed, left_out=run).predictive)
    loss, whole = np.concatenate(losses), np.concatenate(draws, axis=1)
    return pd.DataFrame(
        [{"spread": "run", "rows": loss.size} | point_scores(loss, np.median(whole, axis=0)) | draw_scores(loss, whole)]
    )


# --- forecasts beyond cuts -------------------------------------------------------------------------------------------


def _beyond(work: _Work, asked: Question, undescribed: NDArray[np.bool_]) -> Comparison:
    """Compare by forecasts beyond cuts in the direction of the targets; the stack is of fits to all rows."""
    along, common = asked.along(work.table), _scorable(work, undescribed)
    candidates, cuts = _cuts(work, asked.by, along, common)
    parts = [replace(work.table, frame=work.table.frame[along <= cut]) for cut in cuts]
    named = [replace(part, name=f"{part.name} up to {asked.by} {cut:.3g}") for part, cut in zip(parts, cuts, strict=True)]
    how = {"seed": work.seed, "as_": "known" if asked.known else "new-run"}
    then = partial(forecasts_beyond, table=common, along=along, by=asked.by, asked=how, force=work.force, kept=quantiles_of)
    outcomes = work.outcomes_of([(c, part) for part in named for c in candidates], then)
    if all(outcome.error for outcome in outcomes):
        values_of(outcomes)
    tried = dict(zip(((cut, c.name) for cut in cuts for c in candidates), outcomes, strict=True))
    fits = _whole_fits(work, candidates)
    judged, cuts = _judged(work, asked.by, cuts, [c.name for c in candidates if c.name in fits], tried)
    found = {key: outcome.value.rows for key, outcome in tried.items() if outcome.value is not None}
    held = _held_forecasts(work, asked, along, common, cuts, {name: [found[cut, name] for cut in cuts] for name in judged})
    weights, table = _weighed_beyond(work, asked, held, fits)
    _score_beyond(work, asked.by, held, tried, weights)
    work.notes.extend([BEYOND.format(prior=PRIOR), SCORED_TWICE])
    rows = held.rows.assign(held_out=held.rows["cut"].map(partial(_beyond_name, asked.by)))
    runs = held.relative.groupby([rows["held_out"], rows["run"]], sort=False).mean()
    comparison = _comparison(work, table, {str(name): runs[name] for name in runs}, Stack.of(fits, weights))
    return replace(comparison, by=asked.by)


def _beyond_name(by: str, cut: float) -> str:
    return f"{by} > {cut:.3g}"


def _scorable(work: _Work, undescribed: NDArray[np.bool_]) -> Runs:
    """Return the rows that every law describes, each once where the table drops repeated ones."""
    frame = work.table.frame[~undescribed]
    if work.table.duplicates == "drop":
        frame = frame.drop(index=sorted({row for c in work.candidates for row in repeats(frame, c.law).index}))
    return replace(work.table, frame=frame)


def _cuts(work: _Work, by: str, along: pd.Series, common: Runs) -> tuple[list[_Candidate], list[float]]:
    """Return the laws that can be fitted below cuts, and the cuts below which all of them can; the others are noted."""
    possible, refused = dict[str, list[float]](), dict[str, BayeslawError]()
    for law in {c.law.name: c.law for c in work.candidates}.values():
        try:
            possible[law.name] = cuts_along(common, pooled_law(law, common, work.options), by, along.loc[common.frame.index], CUTS)
        except BayeslawError as error:
            refused[law.name] = error
    if not possible:
        raise next(iter(refused.values()))
    work.notes.extend(f"{name} is not judged and has no weight. {error}" for name, error in refused.items())
    return [c for c in work.candidates if c.law.name in possible], max(possible.values())


def _whole_fits(work: _Work, candidates: Sequence[_Candidate]) -> dict[str, Fit]:
    """Return the usable fits to all rows, each law's own, by name; the others are noted."""
    fits = dict[str, Fit]()
    for c, outcome in zip(candidates, work.outcomes([(c, work.table) for c in candidates]), strict=True):
        if outcome.value is None:
            work.notes.append(f"{c.name} has no weight. {outcome.error}")
            continue
        work.note_failures(c.name, outcome.value)
        if work.usable(outcome.value):
            fits[c.name] = outcome.value
    return fits


def _judged(
    work: _Work, by: str, cuts: Sequence[float], names: Sequence[str], tried: Mapping[tuple[float, str], Outcome[Beyond]]
) -> tuple[list[str], list[float]]:
    """Return the laws to weigh and the cuts at which each of them could be scored.

    All are weighed by the same cuts. Where that would leave fewer than half of them, the law with most failures is left out.
    """
    failed = {name: {cut for cut in cuts if not (v := tried[cut, name].value) or not len(v.rows)} for name in names}
    for name, at in failed.items():
        for cut in cuts:
            outcome = tried[cut, name]
            if outcome.value is None or not outcome.value.passed:
                why = outcome.error if outcome.value is None else f"sampling {outcome.value.verdict}{work.twice}"
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


def _held_forecasts(
    work: _Work, asked: Question, along: pd.Series, common: Runs, cuts: Sequence[float], found: Mapping[str, Sequence[pd.DataFrame]]
) -> HeldOut:
    """Put together the forecasts of rows that every law could forecast."""
    frame = common.frame
    code, names = run_codes(frame)
    run = pd.Series(np.array(names, dtype=object)[code], index=frame.index)
    group = pd.Series(groups_of(along.loc[frame.index].to_numpy()), index=frame.index)
    tables, quantiles, other = list[pd.DataFrame](), {name: list[Array]() for name in found}, 0
    for number, cut in enumerate(cuts):
        indices = [tables_of[number].index for tables_of in found.values()]
        rows = indices[0][np.all([indices[0].isin(index) for index in indices], axis=0)]
        other += len(set[Any]().union(*indices)) - len(rows)
        reach = np.log(along.loc[rows].to_numpy()) - np.log(cut)
        columns = {"cut": cut, "row": rows, "run": run[rows].to_numpy(), "group": group[rows].to_numpy(), "reach": reach}
        tables.append(pd.DataFrame(columns | {"loss": frame.loc[rows, "loss"].to_numpy(dtype=np.float64)}))
        for name, tables_of in found.items():
            quantiles[name].append(tables_of[number].loc[rows].to_numpy())
    if other:
        work.notes.append(f"{other} forecasts by some laws alone are not scored, since not every law could forecast these rows.")
    whole = pd.concat(tables, ignore_index=True)
    if whole.empty:
        raise BayeslawError(
            f"{common.name}: there is no row beyond the cuts that every law could forecast.", code="nothing-held-out"
        )
    whole["near"] = nearness(whole["reach"].to_numpy(), asked.reach)
    return HeldOut(whole, {name: np.concatenate(parts) for name, parts in quantiles.items()})


def _weighed_beyond(work: _Work, asked: Question, held: HeldOut, fits: Mapping[str, Fit]) -> tuple[dict[str, float], pd.DataFrame]:
    """Return weights and their table; laws that were not judged have none."""
    weights, errors = held.weights, dict(zip(held.quantiles, (held.counts @ held.relative.to_numpy()).tolist(), strict=True))
    count, reach = hold_outs(held.rows), float(held.rows["reach"].max())
    where = f"up to {significant(reach, 2)} e-folds of {IN_WORDS.get(asked.by, asked.by)} beyond"
    forecasts, rows_held, cuts = len(held.rows), held.rows["row"].nunique(), held.rows["cut"].nunique()
    work.notes.append(
        f"{counted(forecasts, 'forecast')} of {counted(rows_held, 'row')} {where} {counted(cuts, 'cut')} count as "
        f"{significant(count, 2)} independent hold-outs."
    )
    laws = {c.name: c.law for c in work.candidates}
    if note := floor_note(weights, laws, errors, reach):
        work.notes.append(note)
    rows = {}
    for c in work.candidates:
        row: dict[str, Any] = {"law": c.law.name, "noise": c.noise, "checks": _mark(False, work.force), "model": ""}
        if c.name in fits:
            row |= {"checks": _mark(fits[c.name].passed, work.force), "model": model_label(fits[c.name].checks)}
        if c.name in weights:
            row |= {"forecasts": len(held.rows), "hold_outs": count, "crps_rel": errors[c.name], "weight": weights[c.name]}
        rows[c.name] = row
    table = pd.DataFrame(rows.values(), pd.Index(list(rows), name="name"))
    return weights, table.sort_values("weight", ascending=False, kind="stable")


def _score_beyond(
    work: _Work, by: str, held: HeldOut, tried: Mapping[tuple[float, str], Outcome[Beyond]], weights: Mapping[str, float]
) -> None:
    """Add the scores of each law and of the stack beyond each cut."""
    stacked, named = held.stacked(weights), {c.name: c for c in work.candidates}
    for cut in map(float, held.rows["cut"].unique()):
        at, name_of = np.flatnonzero(held.rows["cut"] == cut), _beyond_name(by, cut)
        loss = held.rows["loss"].to_numpy(dtype=np.float64)[at]
        done = {name: value for name in held.quantiles if (value := tried[cut, name].value) is not None}
        for name, value in done.items():
            c, make = named[name], partial(_beyond_scores, loss, held.quantiles[name].T[:, at], [value])
            work.add(name_of, c.law.name, c.noise, "posterior", _mark(value.passed, work.force), make)
        make = partial(_beyond_scores, loss, stacked[:, at], [*done.values()])
        work.add(name_of, "stack", "", "stack", _mark(all(value.passed for value in done.values()), work.force), make)


def _beyond_scores(loss: Array, draws: Array, forecasts: Sequence[Beyond]) -> pd.DataFrame:
    """Return the scores of draws (S, n) of losses (n,), and what applies to the forecasts that they are from."""
    model = max((forecast.model for forecast in forecasts), key=("no concerns", "concerns", "not assessed").index)
    spread = " or ".join(sorted({forecast.rows.attrs["spread"] for forecast in forecasts}))
    scores = {"model": model, "spread": spread, "rows": loss.size}
    return pd.DataFrame([scores | point_scores(loss, np.median(draws, axis=0)) | draw_scores(loss, draws)])


# --- weights ---------------------------------------------------------------------------------------------------------


def _weighed(
    work: _Work, densities: dict[str, pd.Series], made: Mapping[str, Sequence[Fit]]
) -> tuple[dict[str, float], pd.DataFrame]:
    """Return weights and their table; fits without finite densities and failed fits get no weight."""
    for name in [str(name) for name, values in densities.items() if not np.isfinite(values).all()]:
        work.notes.append(f"{name} has no weight: its losses are not finite for some draws at some left-out runs.")
        del densities[name]
    if not densities:
        raise FitError(f"None of {', '.join(made)} can be weighed. {' '.join(work.notes)} Or force it.", code="failed-checks")
    weighed = stacking(pd.DataFrame(densities))
    rows = {}
    for c in work.candidates:
        sampling = _mark(all(fit.passed for fit in made[c.name]), work.force)
        model = model_label([check for fit in made[c.name] for check in fit.checks])
        rows[c.name] = {"law": c.law.name, "noise": c.noise, "checks": sampling, "model": model}
    order = [*weighed.index, *(name for name in rows if name not in weighed.index)]
    table = pd.DataFrame(rows).T.assign(runs=len(next(iter(densities.values())))).join(weighed).loc[order]
    return {str(name): float(w) for name, w in weighed["weight"].items()}, table.rename_axis("name")


def _mark(passed: bool, forced: bool) -> str:
    return "passed" if passed else "FAILED (forced)" if forced else "FAILED (not scored)"


def _comparison(work: _Work, weights: pd.DataFrame, densities: Mapping[str, pd.Series], stack: Stack) -> Comparison:
    scores = pd.concat(work.scores, ignore_index=True)
    scores = scores[[*(c for c in HEAD if c in scores), *(c for c in scores if c not in HEAD)]]
    return Comparison(scores, weights, pd.DataFrame(densities), tuple(work.notes), stack)
