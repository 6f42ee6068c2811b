"""What a comparison is, and what every way of comparing laws shares: their fits, scores and notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayeslaw.core import html
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.core.executors import Executor, Result, values_of
from bayeslaw.core.text import counted, short_lines
from bayeslaw.data.table import Runs
from bayeslaw.evaluation.backtest import UNSCORED, Beyond
from bayeslaw.forecasting.stack import Stack
from bayeslaw.inference.batch import Task, fit_many
from bayeslaw.laws.law import Law
from bayeslaw.posterior.diagnostics import checks_label, sampling_verdict
from bayeslaw.posterior.fit import Fit

HEAD = ("held_out", "law", "noise", "fit", "checks", "model", "spread", "rows")
LEFT_OUT = ["base_rows_left_out", "seen_rows_left_out", "sample"]  # held-out parts have neither, by `_unseen`
NARROW = 0.05  # by which a stack's 90% intervals hold less than they should before a note says so
SCORED_TWICE = "The stack's weights were fitted to the rows that it is scored on here: its scores are too good."


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `bayeslaw.compare`: tables, the notes that they need, and the stack of the weighted fits.

    Attributes
    ----------
    scores : DataFrame
        One row for each fit and held-out part: held_out, law, noise, fit ('posterior', 'point', 'stack'), checks, model, spread,
        rows, and the scores of `bayeslaw.score`; empty for fits whose checks failed, unless forced. Checks are 'passed', 'FAILED
        (not scored)' or 'FAILED (forced)', and in `weights` also 'not scored' for laws that could not be fitted.
    weights : DataFrame
        One row for each law and noise, best first: law, noise, checks, model, runs, elpd (log predictive density of the left-out
        runs, summed, larger is better) with its standard error se, elpd_diff to the best with its standard error dse, and the
        stacking weight; where single runs are left out also p_loo, k_max and refits. Of forecasts beyond cuts: law, noise, checks,
        model, forecasts, hold_outs (how many independent ones these count as), crps_rel (CRPS over the loss; of outcomes that are
        not positive crps), crps_diff (by how much it exceeds the least) with its standard error dse, and weight.
    runs : DataFrame
        Log predictive density of every left-out run (rows) under every law and noise (columns); beyond cuts the mean CRPS over the
        loss for every cut and run.
    by : str
        The direction of the cuts, such as 'compute'; empty where laws were not judged by forecasts beyond cuts.
    rows : DataFrame
        One row for each forecast that was scored: its part (held_out) and its run.

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
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __repr__(self) -> str:
        ranked = ", ".join(f"{name} ({weight:.3g})" for name, weight in self.weights["weight"].items())
        return short_lines(f"<Comparison of {counted(len(self.weights), 'fit')}, by weight in the stack: {ranked}>")

    def _repr_html_(self) -> str:
        """Show the weights, the checks of each fit and the notes in a notebook."""
        beyond = f", by forecasts beyond cuts along {self.by}" if self.by else ""
        table = self.weights.rename_axis("fit").reset_index()
        first = [c for c in ("fit", "weight", "checks", "model") if c in table]
        table = table[[*first, *(c for c in table if c not in first)]]
        about = f"of {counted(len(self.weights), 'fit')}{beyond}, best first"
        return html.fragment("Comparison", about, html.grid(table), html.notes(self.notes))


class Candidate(NamedTuple):
    """A law with a noise, under a unique name."""

    name: str
    law: Law
    noise: str


@dataclass(frozen=True, eq=False)
class Work:
    """What a comparison is of and how fits are made, with the scores and notes collected so far."""

    table: Runs  # the rows to fit
    common: Runs  # those of them that every law describes, which are scored
    candidates: tuple[Candidate, ...]
    options: Mapping[str, Any]
    seed: int
    force: bool
    place: Executor
    progress: bool
    notes: list[str]
    scores: list[pd.DataFrame] = field(default_factory=list)

    def outcomes(self, pairs: Sequence[tuple[Candidate, Runs]], **others: object) -> list[Result[Fit]]:
        """Return the fit of each candidate to each table; `others` are further options."""
        return fit_many(self._tasks(pairs, others), executor=self.place, progress=self.progress)

    def outcomes_of(self, pairs: Sequence[tuple[Candidate, Runs]], then: Callable[[Fit], Beyond]) -> list[Result[Beyond]]:
        """Return what `then` makes of each fit."""
        return fit_many(self._tasks(pairs, {}), executor=self.place, then=then, progress=self.progress)

    def _tasks(self, pairs: Sequence[tuple[Candidate, Runs]], others: Mapping[str, object]) -> list[Task]:
        return [Task(c.law, rows, {**self.options, "seed": self.seed, **others, "noise": c.noise}) for c, rows in pairs]

    def fits(self, tables: Sequence[Runs]) -> list[dict[str, Fit]]:
        """Return the fits to each table, by the candidates' names."""
        pairs = [(c, rows) for rows in tables for c in self.candidates]
        outcomes = self.outcomes(pairs)
        if failed := [f"{c.name} to {rows.name}: {o.error}" for (c, rows), o in zip(pairs, outcomes, strict=True) if o.error]:
            raise FitError("Not every fit could be made. " + " ".join(failed), code="failed-fits")
        fits = iter(values_of(outcomes))
        return [{c.name: next(fits) for c in self.candidates} for _ in tables]

    def usable(self, *fits: Fit) -> bool:
        """Whether fits are scored and weighed: those that passed their checks, or all where that is forced."""
        return self.force or all(fit.passed for fit in fits)

    def note_failures(self, name: str, *fits: Fit) -> None:
        """Say in a note which checks of sampling failed in a candidate's fits, and what to do."""
        if failed := [fit for fit in fits if not fit.passed]:
            some = "" if len(fits) == 1 else f", {len(failed)} of {len(fits)} fits"
            self.notes.append(f"{name}{some}: sampling {sampling_verdict([c for fit in failed for c in fit.checks])}")

    def add(self, held_out: str, law: str, noise: str, fit: str, checks: str, make: Callable[[], pd.DataFrame] | None) -> None:
        """Add a row of scores; it stays empty where scoring fails, with the reason in a note."""
        scores = pd.DataFrame([{}])
        if make is not None:
            try:
                scores = make()
            except BayeslawError as error:  # whatever it is: all fits have been made by now
                self.notes.append(f"{law} ({fit}), {held_out}: not scored. {error}")
        head = {"held_out": held_out, "law": law, "noise": noise, "fit": fit, "checks": checks}
        scores = scores.assign(model=scores.get("model", ""))
        self.scores.append(scores.assign(**head).drop(columns=LEFT_OUT, errors="ignore"))


def mark(passed: bool, forced: bool) -> str:
    """Return the text of the column `checks` of a comparison."""
    return checks_label(not passed) if passed or forced else UNSCORED


def comparison_of(
    work: Work, weights: pd.DataFrame, densities: Mapping[str, pd.Series], stack: Stack, rows: pd.DataFrame, by: str = ""
) -> Comparison:
    """Return the result of a comparison.

    Parameters
    ----------
    work : Work
        With the scores and notes collected.
    weights : DataFrame
    densities : mapping of name to Series
        As `Comparison.runs` has them.
    stack : Stack
    rows, by
        As in `Comparison`.
    """
    scores = pd.concat(work.scores, ignore_index=True)
    scores = scores[[*(c for c in HEAD if c in scores), *(c for c in scores if c not in HEAD)]]
    return Comparison(scores, weights, pd.DataFrame(densities), (*work.notes, *_narrow_stack(scores)), stack, by, rows)


def _narrow_stack(scores: pd.DataFrame) -> list[str]:
    """Return a note if the stack's intervals hold too little, and clearly less than those of every law by itself."""
    if "cover_eti90" not in scores:
        return []
    scored = scores[scores["cover_eti90"].notna()]
    counts = scored.assign(held=scored["cover_eti90"] * scored["rows"]).groupby(["fit", "law", "noise"])[["held", "rows"]].sum()
    least_of = (counts["held"] / counts["rows"]).groupby("fit").min()  # over laws and noises, each on all that was left out
    of_stack, least = (float(least_of.get(fit, np.nan)) for fit in ("stack", "posterior"))
    if not (of_stack < 0.9 - NARROW and of_stack < least - NARROW):
        return []
    return [
        f"The stack's 90% intervals hold {of_stack:.0%} of what was left out, those of its laws by themselves {least:.0%} or more: "
        "nothing in it allows for what all of its laws miss. State a discrepancy with its forecasts, or take one law."
    ]
