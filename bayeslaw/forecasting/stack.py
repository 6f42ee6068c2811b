"""Stacks: weighted fits of several laws, whose forecasts include the uncertainty about the law."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import Bounds, LinearConstraint, minimize

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, Index, evenly
from bayeslaw.core.errors import BayeslawError, FitError, kind_of
from bayeslaw.core.files import as_path
from bayeslaw.core.methods import PublicFunction
from bayeslaw.core.text import short_lines
from bayeslaw.data.tokenizers import differ
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.outcome import Outcome
from bayeslaw.noise.walk import directions
from bayeslaw.posterior.diagnostics import Check, Verdicts, model_label, sampling_label
from bayeslaw.posterior.fit import Fit, require_fits, require_single_fit
from bayeslaw.posterior.storage import read_tree, restore, write_tree

FORMAT = 1
TURNS = 6  # that the laws of a second stack take, and for every further one times as many
LEAST = 1e-3  # smallest weight: a smaller one would be a few draws of some thousand, which changes no interval
DIFFER = "what the stack's laws differ by"
COMPARED = 100  # settings beyond the runs, and draws, at which the laws of a stack are compared
NOT_OPTIMAL = 0.01  # largest gain in mean log score per unit of moved weight at which the optimiser counts as converged


@dataclass(frozen=True, eq=False)
class Stack(Verdicts):
    """Fits of several laws to the same losses, by the names that a comparison gave them, with weights that add up to 1.

    `bayeslaw.compare` and `bayeslaw.fit_stack` make it; it forecasts, is scored, planned with, updated and saved like a fit.

    Attributes
    ----------
    members, weights : mapping of name to Fit and float
    turns : int
        In how many turns its laws give their draws; see `paired`.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> stack = bayeslaw.Stack({"first": fit, "second": fit}, {"first": 0.75, "second": 0.25})
    >>> stack.name, len(stack.forecast(pd.DataFrame({"N": [1e9], "D": [2e10]})).members)
    ('stack of first, second', 2)
    """

    members: Mapping[str, Fit]
    weights: Mapping[str, float]
    turns: int = 1

    forecast, score, anchors, update = PublicFunction(), PublicFunction(), PublicFunction(), PublicFunction()
    allocate, transfer, tuning, report = PublicFunction(), PublicFunction(), PublicFunction(), PublicFunction()

    def __repr__(self) -> str:
        return short_lines(f"<Stack of {', '.join(f'{name} ({weight:.3g})' for name, weight in self.weights.items())}>")

    def _repr_html_(self) -> str:
        """Show the formulas, the weights and the verdicts in a notebook."""
        laws = {fit.law.name: fit.law for fit in self.members.values()}
        concerns = [str(check) for fit in self.members.values() for check in fit.concerns]
        table = self.table.reset_index()[["fit", "law", "weight", "checks", "model", "rows", "runs", "noise"]]
        return html.fragment(
            "Stack", f"of {len(self.members)} fits, {self.outcome.in_unit(self.unit)}",
            *(html.formulas(law.mathml, name) for name, law in laws.items()), html.verdicts(*self.verdicts), html.grid(table),
            html.notes(concerns),
        )  # fmt: skip

    def __post_init__(self) -> None:
        if not (isinstance(self.members, Mapping) and isinstance(self.weights, Mapping)):
            kinds = f"{kind_of(self.members)} and {kind_of(self.weights)}"
            example = "{'first': fit, 'second': other} and {'first': 0.5, 'second': 0.5}"
            raise BayeslawError(f"A stack has fits and weights by name, such as {example}, not {kinds}.", code="missing-weights")
        for part in ("members", "weights"):  # names may be given as numbers
            object.__setattr__(self, part, {str(name): of for name, of in getattr(self, part).items()})
        if not self.members or list(self.members) != list(self.weights):
            raise BayeslawError("A stack needs a weight for each of its fits, and at least one fit.", code="missing-weights")
        read_weights([*self.weights.values()])
        for fit in self.members.values():
            require_single_fit(fit, "A stack")
        require_one_outcome([fit.law for fit in self.members.values()])
        _require_one_kind_of_losses(self.members)

    @classmethod
    def of(cls, members: Mapping[str, Fit], weights: Mapping[str, float]) -> Stack:
        """Return the stack of the fits with positive weights, in descending order of weight."""
        kept = {name: w for name, w in sorted(weights.items(), key=lambda item: -item[1]) if w > 0}
        return cls({name: members[name] for name in kept}, kept)

    @property
    def name(self) -> str:
        """Name in forecasts and scores."""
        return "stack of " + ", ".join(self.members)

    @property
    def outcome(self) -> Outcome:
        """What its laws predict."""
        return next(iter(self.members.values())).law.outcome

    @property
    def unit(self) -> str:
        """Unit of the losses, or other outcomes, that all its laws were fitted to."""
        return next(iter(self.members.values())).unit

    @property
    def covariates(self) -> Mapping[str, Covariate]:
        """Quantities that the losses of its laws depend on; of one name, the first law's."""
        return _first_of_each_name(fit.covariates for fit in self.members.values())

    @property
    def measured(self) -> Mapping[str, Covariate]:
        """The covariates that are quantities; see `Law.measured`."""
        return _first_of_each_name(fit.measured for fit in self.members.values())

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """Values of each column by which parameters of its laws vary."""
        return {column: values for fit in self.members.values() for column, values in fit.levels.items()}

    @property
    def checks(self) -> tuple[Check, ...]:
        """Checks of every fit."""
        return tuple(replace(c, text=f"{name}: {c.text}") for name, fit in self.members.items() for c in fit.checks)

    @property
    def selections(self) -> tuple[tuple[Fit, Index], ...]:
        """Pairs of a fit and the indices of the draws that make a forecast: evenly spaced ones, as many as the weights say.

        There are as many in all as the fit with fewest draws has, and each count is within one of its share. With several turns,
        every fit gives a part of its draws in each.
        """
        ends = np.round(np.cumsum(list(self.weights.values())) * self.size).astype(np.int64)
        counts = np.diff(ends, prepend=0)
        fits = [(fit, int(n)) for fit, n in zip(self.members.values(), counts, strict=True) if n]
        even = [((np.arange(n) + 0.5) * fit.size / n).astype(np.int64) for fit, n in fits]
        parts = zip(*(np.array_split(chosen, self.turns) for chosen in even), strict=True)
        return tuple((fit, part) for turn in parts for (fit, _), part in zip(fits, turn, strict=True) if part.size)

    @property
    def size(self) -> int:
        """Number of draws that make a forecast: as many as the fit with fewest draws has."""
        return min(fit.size for fit in self.members.values())

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return the parameters of every fit with equal-tailed credible intervals, rows (law, parameter); see `Fit.summary`."""
        return pd.concat({name: fit.summary(ci_prob) for name, fit in self.members.items()}, names=["law"])

    @property
    def table(self) -> pd.DataFrame:
        """Table with one row per fit: law, noise, weight, the numbers of rows and runs, and the verdicts on sampling and model."""
        rows = [
            (
                fit.law.name, fit.noise.text, self.weights[name], fit.observed.response.size, fit.observed.runs,
                sampling_label(fit.checks), model_label(fit.checks),
            )
            for name, fit in self.members.items()
        ]  # fmt: skip
        columns = ["law", "noise", "weight", "rows", "runs", "checks", "model"]
        return pd.DataFrame(rows, pd.Index(list(self.members), name="fit"), columns)

    def save(self, path: str | Path) -> None:
        """Write the stack as one NetCDF file with a group for each fit; a killed write leaves an older file intact."""
        tree = xr.DataTree(children={f"fit{i}": fit.tree for i, fit in enumerate(self.members.values())})
        tree.attrs = {"bayeslaw_stack": FORMAT, "weights": json.dumps(dict(self.weights))}
        write_tree(tree, as_path(path, "A stack"))


def read_weights(weights: Sequence[float] | Array) -> Array:
    """Return the weights of a stack as an array; refuse those that are no numbers, are not positive or do not add up to 1."""
    try:
        numbers = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if not (np.isfinite(numbers).all() and (numbers > 0).all() and abs(numbers.sum() - 1) < 1e-9):
        problem = f"Weights of a stack are positive, one for each law in the order of the laws, and add up to 1, not {weights!r}"
        raise BayeslawError(f"{problem}.", code="wrong-weights")
    return numbers


def _first_of_each_name(groups: Iterable[Mapping[str, Covariate]]) -> dict[str, Covariate]:
    first: dict[str, Covariate] = {}
    for group in groups:
        first |= {name: c for name, c in group.items() if name not in first}
    return first


def stacking(densities: pd.DataFrame) -> pd.DataFrame:
    """Return the weights that maximise the summed log density of left-out runs under the mixture (Yao et al. 2018, eq. 4).

    `densities` are the log predictive densities of each left-out run (rows) under each fit (columns), all finite. The table has one
    row per fit, best first: elpd with its standard error se, elpd_diff to the best fit with its standard error dse, and weight;
    of one run standard errors are nan.
    These are the columns of `arviz_stats.compare`. Weights below `LEAST` are 0.
    """
    count = len(densities)
    shifted = densities.sub(densities.max(axis=1), axis=0)  # densities of whole runs overflow; weights do not change by a shift
    order = shifted.sum().sort_values(ascending=False).index
    relative = np.ascontiguousarray(shifted[order])
    likelihood = np.exp(relative)

    def negative_log_score(weights: Array) -> float:
        return -float(np.log(likelihood @ weights).sum())

    def gradient(weights: Array) -> Array:
        return np.asarray(-(likelihood / (likelihood @ weights)[:, None]).sum(axis=0))

    size = len(order)
    with np.errstate(all="ignore"):
        optimum = minimize(
            negative_log_score, np.full(size, 1 / size), jac=gradient, method="SLSQP",
            bounds=Bounds(np.zeros(size), np.ones(size)), constraints=LinearConstraint(np.ones(size), 1.0, 1.0),
        )  # fmt: skip
        weights = np.maximum(optimum.x, 0.0)
        gain = -gradient(weights).min() / count - 1
    if not gain <= NOT_OPTIMAL:
        raise FitError(
            f"No stacking weights were found for {', '.join(map(str, densities.columns))}: the search stopped before its end.",
            code="no-weights",
        )
    weights[weights < LEAST] = 0.0
    difference = np.ascontiguousarray((relative - relative[:, :1]).T)
    known = 1.0 if count > 1 else np.nan
    return pd.DataFrame(
        {
            "elpd": densities[order].sum(),
            "se": known * np.sqrt(count * densities[order].var(ddof=0)),
            "elpd_diff": difference.sum(axis=1),
            "dse": known * np.sqrt(count * difference.var(axis=1)),
            "weight": weights / weights.sum(),
        }
    )


type Posterior = Fit | Stack
"""What forecasts, plans and scores are made with."""


def fits_of(posterior: Posterior) -> Mapping[str, Fit]:
    """Return the fits of a stack by their names, or the fit alone."""
    return posterior.members if isinstance(posterior, Stack) else {posterior.name: posterior}


def laws_of(posteriors: Iterable[Posterior | PointFit]) -> list[Law]:
    """Return the laws of fits, and of all fits of stacks, as often as each gives draws."""
    return [fit.law for posterior in posteriors for fit, _ in posterior.selections]


def by_label(fits: Mapping[str, Posterior] | Posterior) -> dict[str, Posterior]:
    """Return fits and stacks by their labels; one given by itself is called by its name."""
    if isinstance(fits, (list, tuple)):
        problem = f"Give several fits by name, such as {{'first': fit, 'second': other}}, not as {kind_of(fits)}."
        raise BayeslawError(problem, code="not-a-fit")
    named = fits if isinstance(fits, Mapping) else {getattr(fits, "name", ""): fits}
    require_fits(*named.values())
    return {str(name): fit for name, fit in named.items()}


def paired[P](posteriors: Iterable[P]) -> list[P]:
    """Return posteriors whose draws may be paired by their numbers.

    A stack gives all draws of one law before those of the next. If two did, draws of one law would be paired only with those of
    one law of the other: the second stack's laws take turns, so that draws of all laws meet. Copies of one stack stay copies.
    """
    posteriors = list(posteriors)
    stacks = {id(p): p for p in posteriors if isinstance(p, Stack)}
    taking_turns = {key: replace(stack, turns=TURNS**i) if i else stack for i, (key, stack) in enumerate(stacks.items())}
    return [taking_turns.get(id(p), p) for p in posteriors]


def with_error(fit: Fit, selections: Sequence[tuple[Fit, Index]]) -> Fit | None:
    """Return the fit with the error of its law for a forecast by some fits, or None where it has none.

    The error of a law that learnt none from its runs is one of a usual size, beyond the runs. Where all of several laws are such,
    what they differ by is a part of it, and the rest is added (`rest_of_errors`).
    """
    away = fit.extrapolation
    if away is None or away.discrepancy is None:
        return None
    if not (shares := rest_of_errors(selections)):
        return away
    return replace(away, discrepancy=replace(away.discrepancy, walk=replace(away.discrepancy.walk, shares=shares)))


def with_errors(selections: Sequence[tuple[Fit, Index]]) -> tuple[tuple[Fit, Index], ...]:
    """Return each fit with the error of its law, where it has one (`with_error`), and its draws."""
    return tuple((with_error(fit, selections) or fit, draws) for fit, draws in selections)


def rest_of_errors(selections: Sequence[tuple[Fit, Index]]) -> dict[str, float]:
    """Return along each axis the share of the usual error that remains when what several laws differ by is taken from it.

    The laws are compared an e-fold beyond the largest runs along the axis, at the other settings of the fitted rows. With a usual
    size s there, and a standard deviation d of the laws' mean log losses, the share is sqrt(1 - d^2/s^2), or 0. Empty for one law
    and for laws that have learnt an error or have none, whose errors stay as they are; and for laws with other axes, or with
    covariates that change along an axis, such as a base loss, since they can't be compared at a setting that nobody has measured.
    """
    if len({fit.law.name for fit, _ in selections}) == 1:
        return {}
    chosen: dict[int, tuple[Fit, list[Index]]] = {}
    for fit, draws in selections:
        chosen.setdefault(id(fit), (fit, []))[1].append(draws)
    fits = [fit for fit, _ in chosen.values()]
    errors = [away.discrepancy for fit in fits if (away := fit.extrapolation) is not None and away.discrepancy is not None]
    if not errors or not all(error.walk.exact for error in errors):
        return {}
    law, along, usual = fits[0].law, directions(fits[0].law), errors[0].walk.usual
    rows = max((fit.observed.covariates for fit in fits), key=len)
    for fit in fits:
        free = {*along, "D", "r", *fit.law.shares, *fit.law.indicators}
        if directions(fit.law) != along or not {*fit.law.covariates} <= free & {*rows}:
            return {}
    count = np.array([sum(draws.size for draws in parts) for _, parts in chosen.values()])
    shares = dict[str, float]()
    for axis in along:
        at, means = _beyond_along(law, rows, axis), list[Array]()
        for fit, parts in chosen.values():
            some = np.concatenate(parts)
            values = fit.law.predict(fit.draws_of(some[evenly(some.size, COMPARED)]), {c: at[c] for c in fit.law.covariates})
            with np.errstate(all="ignore"):
                means.append(fit.law.outcome.to_scale(values).mean(axis=0))
        known = np.array(means)[:, np.isfinite(means).all(axis=0)]
        variance = np.average((known - np.average(known, axis=0, weights=count)) ** 2, axis=0, weights=count)
        differ = variance.mean() if variance.size else 0.0
        shares[axis] = math.sqrt(max(0.0, 1 - differ / usual[axis] ** 2))
    return shares


def _beyond_along(law: Law, rows: Mapping[str, Array], axis: str) -> dict[str, Array]:
    """Return settings an e-fold beyond the largest rows along an axis; tokens of an adaptation grow with the size."""
    along = directions(law)
    begun = np.flatnonzero(rows["D"] > 0) if "D" in rows else np.arange(next(iter(rows.values())).size)
    some = begun[evenly(begun.size, COMPARED)]
    at = {name: values[some] for name, values in rows.items()}
    for name in sorted(along, key=lambda name: len(law.factors(name))):
        _, *shares = law.factors(name)  # of it that a token uses
        largest = math.prod((rows[share] for share in shares), start=rows[name]).max() * (math.e if name == axis else 1.0)
        largest = largest / math.prod(float(at[share][0]) for share in shares)
        at[name] = np.full(some.size, min(largest, law.covariates[name].support[1]))
    if "D" in at and "D" not in along and "N" in along:
        at["D"] = np.minimum(at["D"] / rows["N"][some] * at["N"], law.covariates["D"].support[1])
    return at


def errors_in_words(posterior: Posterior, ci_prob: float = 0.9) -> dict[str, str]:
    """Return by name what error of its law a fit, or each of a stack, has learnt, or why none, as `Fit.learnt`."""
    in_part = f"beyond them {DIFFER} is a part of the error that laws have on other ladders, and the rest is added"
    beyond = in_part if rest_of_errors(posterior.selections) else ""
    return {name: fit.learnt(ci_prob, beyond) for name, fit in fits_of(posterior).items()}


def require_one_outcome(laws: Iterable[Law]) -> None:
    """Refuse laws that predict different things: they can't be compared or stacked."""
    outcomes = {law.outcome.quantity: law for law in laws}
    if len(outcomes) > 1:
        shown = ", ".join(f"{law.name} predicts {law.outcome.name} (kind {law.outcome.kind})" for law in outcomes.values())
        message = f"Laws of different outcomes can't be compared or stacked: {shown}. Give laws of one outcome, unit and kind."
        raise BayeslawError(message, code="different-outcomes")


def _require_one_kind_of_losses(members: Mapping[str, Fit]) -> None:
    """Refuse fits of losses that can't be averaged: in different units, per token of different tokenizers, or of both domains."""
    (name, first), *others = members.items()
    for other, fit in others:
        if fit.unit != first.unit:
            problem = f"{name} has losses in {first.unit} and {other} in {fit.unit}: convert one table and fit it again"
            raise BayeslawError(f"A stack averages losses of one unit. {problem} (bayeslaw convert).", code="different-units")
        if apart := differ(first.token_length, fit.token_length, first.unit):
            problem = f"Those of {name} and {other} are not ({apart[0]}): bring both to one by {apart[1]}"
            raise BayeslawError(f"A stack averages losses per token of one tokenizer. {problem}.", code="different-tokenizers")
        for own, its in ((m.law.one_domain for m in (first, fit)), (m.info.get("domain", "") for m in (first, fit))):
            if own and its and own != its:
                problem = f"those of {name} are of domain {own} and those of {other} of {its}"
                raise BayeslawError(f"A stack averages forecasts of the same losses, and {problem}.", code="laws-of-two-domains")


def require_losses(posteriors: Iterable[Posterior | PointFit], decision: str, *, positive: bool = False) -> None:
    """Refuse fits of other outcomes than losses for a decision that is about losses.

    Parameters
    ----------
    posteriors : iterable of Fit, Stack or PointFit
    decision : str
        What needs losses, such as 'an allocation of compute'.
    positive : bool
        Whether it can use any positive outcome.
    """
    for posterior in posteriors:
        require_fits(posterior, points=True)
        outcome = posterior.outcome
        if outcome.is_loss or (positive and outcome.relative):
            continue
        needed = "losses, or of another outcome of kind positive" if positive else "losses"
        raise BayeslawError(
            f"{posterior.name} predicts {outcome.plural} (an outcome of kind {outcome.kind}), and {decision} needs a fit of "
            f"{needed}: give one of a law without [outcome].",
            code="not-a-loss",
        )


def check_pairing(sizes: Iterable[int], unpaired: str) -> None:
    """Refuse posteriors with different numbers of draws (`sizes`), whose draws can't be paired, with the message `unpaired`."""
    if len(set(sizes)) > 1:
        raise BayeslawError(unpaired, code="unpaired-draws")


def load_fit(path: str | Path) -> Posterior:
    """Read a fit or a stack from the file that its method `save` wrote.

    Parameters
    ----------
    path : str or Path
        The NetCDF file.

    Returns
    -------
    Fit or Stack

    Raises
    ------
    FitError
        If the file is missing or damaged, holds neither, or was changed after it was written.

    Examples
    --------
    >>> bayeslaw.load_fit("fit.nc").name
    'chinchilla'
    """
    path = as_path(path, "A fit")
    tree = read_tree(path)
    if "bayeslaw_stack" not in tree.attrs:
        return restore(tree, path.name)
    if (stored := tree.attrs["bayeslaw_stack"]) != FORMAT:
        raise FitError(f"{path.name} is not a bayeslaw stack of format {FORMAT} (found {stored}).", code="other-format")
    try:
        weights = {str(name): float(w) for name, w in json.loads(tree.attrs["weights"]).items()}
        groups = [tree.children[f"fit{i}"].copy() for i in range(len(weights))]
        members = {name: restore(group, path.name) for name, group in zip(weights, groups, strict=True)}
        return Stack(members, weights)
    except FitError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FitError(f"{path.name} is damaged: {error}", code="damaged-file") from None
