"""The best values of tuned covariates, such as learning rate and batch size, and what runs lose that were not tuned.

A card names the covariates that have an optimum, and the expression of [let] that is their best value (`Law.tuning`). Draw by draw

    undertuned by x = L(run) / L(the same run at the optimum) - 1,

from the law's expected losses. Draws are of the posterior in which the law has an error along sizes and tokens, where one was
learnt: a law that errs along these would else make up for it by its best values. Ladders that were not tuned alike can be compared,
or fitted by a law without learning rates, once their losses are divided by 1 + x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, TableError, as_mapping, row_ranges, whole_number
from bayeslaw.core.intervals import columns
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import short_lines
from bayeslaw.data.files import numbered
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.validate import Purpose, check, complete
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import Posterior, require_losses, with_errors
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.laws.outcome import Outcome
from bayeslaw.noise.walk import logarithms
from bayeslaw.planning.arguments import check_choice, check_passed, outside_note
from bayeslaw.planning.tuning_distance import TuningDistance
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.draws import JoinedDraws, LawDraws, check_values
from bayeslaw.posterior.fit import Fit

FOR_FITS = ("too-few-values", "too-few-rows", "mixed-domains")  # codes of faults that matter to fits alone
FEW = 3  # values of a covariate: how best values change with it is not known from fewer
UNEXPLAINED = 0.1  # share of a loss above the law's at the row's own values from which on it is none of a converged run
BELOW = 1e-9  # share by which a row's loss must lie below that at the declared optimum for a note that this is not the least


@dataclass(frozen=True, eq=False)
class Tuning:
    """The best values of tuned covariates at settings, and how far runs are from theirs, draw by draw.

    Attributes
    ----------
    settings : DataFrame
        The covariates that are not tuned, one row each; empty unless settings were asked for.
    optimum : dict of covariate to array (S, m)
        The best values there: the law's, moved and scattered as those of the fitted grids are (`tuning_distance`), unless the law
        was taken for exact.
    loss : array (S, m)
        Expected losses with them.
    runs : Runs or None
        The runs that were given.
    best : dict of covariate to array (S, n)
        The law's best values for each of their rows, which its expected losses go with.
    excess : array (S, n)
        What each row's expected loss is above that at its best values, as a share: "undertuned by x".
    laws : tuple of LawDraws
        The laws at their draws, for pictures.
    notes : tuple of str
    name, unit : str
        Name of the posterior, and unit of the losses.
    failed : bool
        Whether checks of the fit failed.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("lr.nc")
    >>> tuned = bayeslaw.tuning(fit, {"N": 1e9, "D": 2e10}, "lr.csv")
    >>> list(tuned.optimum), len(tuned.corrected()) == len(tuned.runs)
    (['lr', 'batch'], True)
    """

    settings: pd.DataFrame
    optimum: Mapping[str, Array]
    loss: Array
    runs: Runs | None
    best: Mapping[str, Array]
    excess: Array
    laws: tuple[LawDraws, ...]
    notes: tuple[str, ...]
    name: str
    unit: str
    failed: bool

    def __repr__(self) -> str:
        of = f" and {len(self.runs):,} rows of runs" if self.runs is not None else ""
        return short_lines(f"<Tuning of {', '.join(self.optimum)} by {self.name}: {len(self.settings):,} settings{of}>")

    def _repr_html_(self) -> str:
        """Show the best values and the runs that lose most in a notebook."""
        grids = [html.grid(self.summary(), caption="Best values")] if len(self.settings) else []
        if self.runs is not None:
            rows = self.undertuned().sort_values("undertuned_median", ascending=False)
            grids.append(html.grid(rows.head(html.ROWS), len(rows), caption="Runs that lose most by their tuning"))
        failed = html.alarm("Sampling FAILED (forced): do not trust these intervals.") if self.failed else ""
        return html.fragment(f"Tuning by {self.name}", ", ".join(self.optimum), failed, *grids, html.notes(self.notes))

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row for each setting: medians and equal-tailed intervals of the best values and of their loss, and `checks`."""
        table = self.settings
        for name, draws in {**self.optimum, "loss": self.loss}.items():
            table = table.assign(**columns(draws, ci_prob, name))
        return table.assign(checks=checks_label(self.failed))

    def undertuned(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row for each row of the runs, by its number: settings and loss, by what share it is undertuned, and `checks`.

        `lr_times_best_median` and its interval say how many times the best value a row's value is, for each tuned covariate.
        """
        runs = self._runs()
        kept = [c for c in ("run", *self.settings.columns, *self.best, self.outcome.name) if c in runs.frame]
        table = runs.frame[kept].rename_axis("row")
        table = table.assign(**columns(self.excess, ci_prob, "undertuned"))
        for name, best in self.best.items():
            table = table.assign(**columns(table[name].to_numpy(dtype=np.float64) / best, ci_prob, f"{name}_times_best"))
        return table.assign(checks=checks_label(self.failed))

    def corrected(self) -> pd.DataFrame:
        """The table of the runs with losses as they would be at the optimum, and with standard errors, as `fit` takes it.

        Returns
        -------
        DataFrame
            All columns of the runs. `loss` is the measured loss times the mean of 1/(1 + x), x the share by which its row is
            undertuned; `loss_se` has the standard deviation of that product and, where it was known, the error of the measured
            loss; `loss_as_run` is the measured loss. The columns of another outcome have its name. Errors of the corrections are
            shared by rows, since they come from the same parameters of the law; `loss_se` takes them for independent. A point fit
            knows no errors and adds none.

        Raises
        ------
        BayeslawError
            If no runs were given ('no-runs'), or their losses were corrected before ('corrected-twice').
        """
        runs, ratio, outcome = self._runs(), 1 / (1 + self.excess), self.outcome
        frame, as_run = runs.frame.reset_index(drop=True), f"{outcome.name}_as_run"
        if as_run in frame:
            message = f"The {outcome.plural} of {runs.name} were corrected before: it has the measured ones in {as_run}."
            raise BayeslawError(f"{message} Correct the table of the runs as they were.", code="corrected-twice")
        measured, mean = frame[outcome.name].to_numpy(dtype=np.float64), ratio.mean(axis=0)
        known = frame[outcome.error].fillna(0.0).to_numpy(dtype=np.float64) if outcome.error in frame else np.zeros(len(frame))
        se = np.hypot(measured * ratio.std(axis=0), known * mean)
        return frame.assign(**{outcome.name: measured * mean, as_run: measured}, **({outcome.error: se} if se.any() else {}))

    @property
    def outcome(self) -> Outcome:
        """What the law predicts; the columns of tables with measured outcomes have its name, `loss` for losses."""
        return self.laws[0].law.outcome

    def _runs(self) -> Runs:
        if self.runs is None:
            raise BayeslawError("No runs were given: tuning(fit, runs=…), or --runs RUNS.csv.", code="no-runs")
        return self.runs


def tuning(
    fit: Posterior | PointFit,
    settings: Mapping[str, Any] | None = None,
    runs: Table | None = None,
    *,
    discrepancy: str = "learned",
    seed: int = 0,
    force: bool = False,
) -> Tuning:
    """Find the best values of tuned covariates with their uncertainty, and what runs lose that do not have them.

    Parameters
    ----------
    fit : Fit, Stack or PointFit
        Fit of laws whose cards have a table [tuning], such as `lr-batch`.
    settings : mapping, optional
        The covariates that are not tuned, such as N and D, at which the best values are wanted; texts such as '1e9:1e11:5' as in
        `bayeslaw.grid`.
    runs : Runs, DataFrame or path, optional
        Runs with all covariates of the law, whose excess over the optimum is wanted.
    discrepancy : {'learned', 'none'}
        By default best values and losses are those of laws with the errors that fits have learnt; with 'none' laws are exact.
    seed : int
        Seed of the errors of losses beyond the runs, and of how far the best values of single grids lie from the law's.
    force : bool
        Whether to go on in spite of failed checks; rows are then marked.

    Raises
    ------
    BayeslawError
        If the law has no tuned covariates ('law-without-tuning'), if neither settings nor runs are given ('nothing-asked'), or if a
        setting is one of a tuned covariate ('tuned-setting').
    TableError
        If the runs can't be used.
    FitError
        If checks of the fit failed, unless forced, or losses are not finite.

    Examples
    --------
    >>> tuned = bayeslaw.tuning(bayeslaw.load_fit("lr.nc"), {"N": 1e9, "D": "1e10:1e11:3"})
    >>> tuned.summary()["lr_median"].shape
    (3,)
    """
    require_losses([fit], "the best learning rate", positive=True)
    check_choice("discrepancy", discrepancy, "unknown-discrepancy")
    seed = whole_number("seed", seed, 0)
    check_passed(fit, force)
    exact = discrepancy == "none"
    members = _members(fit, exact=exact)
    laws = tuple(member.law for member in members)
    tuned = _tuned([law.law for law in laws])
    settings = as_mapping(settings)
    if not settings and runs is None:
        raise BayeslawError(
            "Say where: settings such as N and D (--set N=1e9, {'N': 1e9}), or runs (--runs RUNS.csv, runs=).", code="nothing-asked"
        )
    table = _table(fit, settings, tuned)
    given = None if runs is None else read_runs(runs)
    optimum, loss = _at_settings(members, table, seed)
    best, excess, expected = _at_runs(laws, given)
    observed = [own.observed.covariates for own, _ in fit.selections]
    seen = {c: np.concatenate([o[c] for o in observed if c in o]) for c in laws[0].law.axes}
    notes = [*_notes(table, optimum, excess, seen, given), *_unexplained(given, laws[0].law.outcome, expected)]
    if len(table):
        notes += [*_few_values(table, {c: v for c, v in seen.items() if c not in tuned}), *_distance_notes(members, exact=exact)]
    return Tuning(
        settings=table.drop(columns=list(tuned)), optimum=optimum, loss=loss, runs=given, best=best, excess=excess, laws=laws,
        notes=tuple(notes), name=fit.name, unit=fit.unit, failed=not fit.passed,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Member:
    """A fit that gives draws, its law at these, and how far best values lie from the law's, None where the law counts as exact."""

    fit: Fit | PointFit
    chosen: Index
    law: LawDraws
    distance: TuningDistance | None

    def errors(self, table: pd.DataFrame, entropy: tuple[int, ...]) -> Array | float:
        """Return errors of the law at settings, (S, n); 0 where it has none."""
        if isinstance(self.fit, PointFit) or self.fit.discrepancy is None:
            return 0.0
        drawn = self.fit.discrepancy.drawn(self.chosen, (int(self.fit.info["seed"]), *entropy, Stream.ERROR))
        return drawn.at(self._covariates(table)).T

    def factors(self, name: str, table: pd.DataFrame, entropy: tuple[int, ...]) -> Array | float:
        """Return factors (S, n) by which best values of a covariate differ from the law's at settings."""
        if self.distance is None:
            return 1.0
        return self.distance.drawn(name, logarithms(self.law.law, self._covariates(table)), self.law.size, entropy)

    def _covariates(self, table: pd.DataFrame) -> dict[str, Array]:
        return self.law.law.arrays(complete(table, self.law.law))


def _members(fit: Posterior | PointFit, *, exact: bool) -> list[_Member]:
    """Return the fits that give draws; unless laws count as exact, those with the errors that they have learnt."""
    selections: Sequence[tuple[Fit | PointFit, Index]] = fit.selections
    if not isinstance(fit, PointFit) and not exact:
        selections = with_errors(fit.selections)
    members = list[_Member]()
    for own, chosen in selections:
        distance = TuningDistance.of(own) if isinstance(own, Fit) and own.asked_for_errors and not exact else None
        members.append(_Member(own, chosen, LawDraws(own.law, own.draws_of(chosen)), distance))
    return members


def _at_settings(members: Sequence[_Member], table: pd.DataFrame, seed: int) -> tuple[dict[str, Array], Array]:
    """The best values of each tuned covariate at settings, arrays (S, n), and the expected loss (S, n) with them."""
    optima: dict[str, list[Array]] = {name: [] for name in members[0].law.law.tuning}
    losses = list[Array]()
    for i, member in enumerate(members if len(table) else ()):
        best, loss = best_values(member.law, _checked(Runs(numbered(table), "the table of settings"), member.law.law, "forecast"))
        losses.append(loss * np.exp(member.errors(table, (seed, i))))
        for name, values in best.items():
            optima[name].append(values * member.factors(name, table, (seed, i)))
    laws = [member.law for member in members]
    return {name: _joined(laws, parts) for name, parts in optima.items()}, _joined(laws, losses)


def _at_runs(laws: Sequence[LawDraws], runs: Runs | None) -> tuple[dict[str, Array], Array, Array]:
    """The best values of each tuned covariate at the rows of runs, the excess of losses over those there, and expected losses."""
    parts = [] if runs is None else [_undertuned(law, _checked(runs, law.law)) for law in laws]
    optima = {name: _joined(laws, [best[name] for best, *_ in parts]) for name in laws[0].law.tuning}
    return optima, _joined(laws, [excess for _, excess, _ in parts]), _joined(laws, [loss for *_, loss in parts])


def _undertuned(law: LawDraws, table: pd.DataFrame) -> tuple[dict[str, Array], Array, Array]:
    """The best values at the rows of a table by one law, by what share their losses exceed those there, and the losses, (S, n)."""
    best, least = best_values(law, table)
    loss = law.outcome(law.law.arrays(complete(table, law.law)), axes=1)
    check_values(loss, law.law, {c: table[c].to_numpy() for c in law.law.axes})
    return best, np.asarray(loss / least - 1), np.broadcast_to(loss, least.shape)


def _joined(laws: Sequence[LawDraws], parts: Sequence[Array]) -> Array:
    """What the laws have in their draws, as one array (S, n); (S, 0) where nothing was asked."""
    return np.concatenate(parts) if parts else np.empty((JoinedDraws(laws).size, 0))


def _tuned(laws: Sequence[Law]) -> tuple[str, ...]:
    """The covariates that have an optimum in all laws."""
    for law in laws:
        if not law.tuning:
            message = f'The card of {law.name} names no tuned covariates: give it a table [tuning], such as lr = "lr_opt".'
            raise BayeslawError(message, code="law-without-tuning")
        if {*law.tuning} != {*laws[0].tuning}:
            shown = f"{laws[0].name} {', '.join(laws[0].tuning)}; {law.name} {', '.join(law.tuning)}"
            raise BayeslawError(f"The laws tune different covariates: {shown}.", code="different-tuning")
    return tuple(laws[0].tuning)


def _table(posterior: Posterior | PointFit, settings: Mapping[str, Any], tuned: Sequence[str]) -> pd.DataFrame:
    """The settings, one row each, with a place for the tuned covariates; empty where there are none."""
    if wrong := [name for name in settings if name in tuned]:
        raise BayeslawError(f"{wrong[0]} is what is tuned here, so it can't be set; leave it out.", code="tuned-setting")
    support = {name: posterior.measured[name].support for name in tuned}
    places = {name: float(np.sqrt(max(low, 1e-12) * high)) for name, (low, high) in support.items()}
    if not settings:
        return pd.DataFrame(columns=[*posterior.measured])
    return grid(posterior.law if isinstance(posterior, PointFit) else posterior, {**settings, **places})


def _checked(runs: Runs, law: Law, purpose: Purpose = "fit") -> pd.DataFrame:
    """The table of runs, or of settings, with the faults that it has for a law raised."""
    # Runs at one rate or batch, or a few, can be compared with the optimum, though no law be fitted to them.
    if faults := [fault for fault in check(runs, law, purpose=purpose) if fault.code not in FOR_FITS]:
        raise TableError(faults, runs.name)
    return runs.frame


def best_values(law: LawDraws, table: pd.DataFrame) -> tuple[dict[str, Array], Array]:
    """Return the best values of tuned covariates at the rows of a table, arrays (S, n), and the expected loss with them, (S, n)."""
    given = law.law.arrays(complete(table, law.law))
    scope, shape = law.scope(given, axes=1), (law.size, len(table))
    best = {name: np.broadcast_to(np.asarray(scope[let], dtype=np.float64), shape) for name, let in law.law.tuning.items()}
    loss = np.broadcast_to(law.outcome({**given, **best}, axes=1), shape)
    check_values(loss, law.law, {c: table[c].to_numpy() for c in law.law.axes if c not in best})
    return best, loss


def _unexplained(runs: Runs | None, outcome: Outcome, expected: Array) -> list[str]:
    """A note on rows whose losses lie far above what the law expects at their values, where no correction helps."""
    if runs is None:
        return []
    above = runs.frame[outcome.name] / np.median(expected, axis=0) - 1
    if not (far := above > UNEXPLAINED).any():
        return []
    return [
        f"{row_ranges(runs.frame.index[far])} of {runs.name}: {outcome.plural} lie over {UNEXPLAINED:.0%} above what the law "
        "expects at their values, which is no lack of tuning: leave them out if they diverged (--where, runs.where)"
    ]


def _few_values(table: pd.DataFrame, seen: Mapping[str, Array]) -> list[str]:
    """Notes on settings beyond fitted runs that have few values of a covariate."""
    notes = list[str]()
    for name, values in seen.items():
        different = np.unique(values)
        if name not in table or not 0 < different.size < FEW:
            continue
        asked = table[name].to_numpy(dtype=np.float64)
        if (asked < different[0]).any() or (asked > different[-1]).any():
            count = "one value" if different.size == 1 else f"{different.size} values"
            notes.append(
                f"the fitted runs have {count} of {name}: they hardly tell how best values change with it, and intervals beyond "
                "them are too narrow"
            )
    return notes


def _distance_notes(members: Sequence[_Member], *, exact: bool) -> list[str]:
    """Say how far the best values of grids lie off the laws', or why that is not in the intervals."""
    if known := [str(member.distance) for member in members if member.distance is not None]:
        return known
    erring = [] if exact else [m.fit for m in members if isinstance(m.fit, Fit) and m.fit.asked_for_errors]
    return [why for fit in erring[:1] if (why := TuningDistance.without(fit))]


def _notes(
    table: pd.DataFrame, optimum: Mapping[str, Array], excess: Array, seen: Mapping[str, Array], runs: Runs | None
) -> list[str]:
    """Notes on settings and optima outside the fitted runs, and on runs that the law has below their optimum."""
    notes = list[str]()
    places: list[tuple[str, str, ArrayLike]] = [(c, c, table[c]) for c in seen if c in table and c not in optimum]
    places += [(c, f"the best {c}", np.median(values, axis=0)) for c, values in optimum.items()]
    if runs is not None:
        places += [(c, f"{c} of {runs.name}", runs.frame[c]) for c in seen]
    for name, what, values in places:
        if seen[name].min() > 0 and np.isfinite(seen[name].max()):
            notes += outside_note(what, values, seen[name], "the fitted runs")
    if excess.size and (below := float((excess < -BELOW).mean())) > 0:
        notes.append(f"in {below:.1%} of draws and rows the law's loss at the declared optimum is not the least: look at [tuning]")
    if excess.size and (worst := float(np.median(excess, axis=0).max())) > 0.1:
        notes.append(f"the most undertuned row loses {worst:.0%}: so far from the optimum its correction is an extrapolation")
    return notes
