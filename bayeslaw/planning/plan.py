"""The answer to a plan's question: tokens and replay at every level, and how often they keep their promises.

What is to be said of a plan: where it lies, what limits it, and whether its losses can be trusted there.

Plans that keep their promise: tokens and replay of an adaptation, chosen so that promises hold with a stated probability.

    least tokens such that  P(source loss <= base + delta  and  target loss <= tau) >= confidence   (Goffinet et al. 2025, 4)

over posterior draws, jointly; or the other ways round: best target loss or least forgetting under a budget, least replay at given
tokens. Half of the draws is searched, the other half says how often the plan keeps its promises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, whole_number
from bayeslaw.core.flops import Stages
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.forecast import forecast, outside
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.base_loss import Base, bases_of
from bayeslaw.planning.domain_loss import Side, check_settings, check_sides, members, with_next_run
from bayeslaw.planning.problem import (
    OBJECTIVES,
    SPREADS,
    Prices,
    Question,
    box_of,
    budget,
    check_confidence,
    check_posteriors,
    check_question,
    check_reachable,
    forgetting_limits,
    identical,
    logged,
    named,
    positive,
    price_of,
    promises_of,
    sides_of,
    without,
)
from bayeslaw.planning.search import Found, Middle, Search, point
from bayeslaw.posterior.diagnostics import Reach, extrapolation, marked, passed_over
from bayeslaw.posterior.fit import Fit

if TYPE_CHECKING:
    from bayeslaw.design.anchors import Anchors

BLOCK = 50  # neighbouring draws that are searched, or held out, together


@dataclass(frozen=True)
class Choice:
    """Tokens and replay, and how often they keep the promises.

    Attributes
    ----------
    tokens, replay, atpp, flops, cost : float
        nan where there is no N or no price.
    confidence : float
        Promised; nan where none was.
    searched : float
        Share of the searched draws that keep every promise.
    held_out, error : float
        Probability of keeping every promise by the held-out draws, and its Monte Carlo error.
    alone : dict of str to float
        Probability of keeping each promise, whatever becomes of the others.
    value : float
        What was to be least, where that is a loss (in its fit's unit) or forgetting (relative).
    """

    tokens: float
    replay: float
    atpp: float
    flops: float
    cost: float
    confidence: float
    searched: float
    held_out: float
    error: float
    alone: Mapping[str, float]
    value: float = math.nan

    @property
    def binding(self) -> str:
        """The promise that is broken most often."""
        return min(self.alone, key=lambda name: self.alone[name]) if self.alone else ""


@dataclass(frozen=True)
class Plan:
    """The answer to a plan's question.

    Attributes
    ----------
    best : Choice or None
        At the confidence asked for; None where no tokens and replay reach it.
    attainable : Choice or None
        Where most draws keep every promise, where the confidence asked for is not reached.
    frontier : DataFrame
        One row per level: confidence, plan ('feasible' or 'infeasible'), tokens, atpp, r, flops, cost, value, searched, held_out,
        held_out_se, binding, and `checks`, 'passed' or 'FAILED (forced)'.
    deterministic : Choice or None
        The plan that knows no uncertainty, and how often it keeps the promises.
    deterministic_by : str
        What that goes by: 'median losses' or 'point fits'.
    losses : DataFrame
        Losses and forgetting at `best` (else at `attainable`): median, eti90_lo, eti90_hi, checks.
    margins : dict of str to array (S,)
        There, in each draw, by how much (relative) each loss stays under its limit by the laws alone: without the noise of the
        next run and without a stated discrepancy. What `anchors` aims at: which runs would make the promises surer.
    promises : tuple of str
    notes : tuple of str
        What was found and what to beware of.
    base : dict of str to Base
    several : float
        Share of the draws in which promises hold on more than one interval of tokens at the replay of the plan.
    question : Question
        What was asked, read and checked.
    draws, held : int arrays
        Which draws were searched and held out.
    confidence : float
    on : {'latent', 'run'}
    forced : bool
        Whether it was made in spite of failed checks.
    """

    best: Choice | None
    attainable: Choice | None
    frontier: pd.DataFrame
    deterministic: Choice | None
    deterministic_by: str
    losses: pd.DataFrame
    margins: Mapping[str, Array]
    promises: tuple[str, ...]
    notes: tuple[str, ...]
    base: Mapping[str, Base]
    several: float
    question: Question
    draws: Index
    held: Index
    confidence: float
    on: str
    forced: bool = False

    def __repr__(self) -> str:
        return f"<Plan for {'; '.join(self.lines()[:2])}>"

    @property
    def shown(self) -> Choice | None:
        """The plan, or where most draws keep every promise."""
        return self.best or self.attainable

    @property
    def landscapes(self) -> tuple[str, ...]:
        """What its pictures can show under the probability: 'forgetting', 'target-loss'."""
        return (*(["forgetting"] if self.question.bases else []), *(["target-loss"] if self.question.target is not None else []))

    def lines(self) -> list[str]:
        """The answer in words."""
        spread = "the laws' expected losses" if self.on == "latent" else "the losses that the next run logs"
        model = ", ".join(f"{k} = {v:g}" for k, v in self.question.settings.items())
        head = f"{model + ': ' if model else ''}{'; '.join(self.promises) or 'nothing else promised'}; on {spread}"
        lines = [head + passed_over(self.forced)]
        if self.best is not None:
            one = self.best
            kept = f"promised {one.confidence:g}, kept in {one.held_out:.3f} ± {one.error:.3f} of the held-out draws"
            lines.append(f"plan: {_described(one, self.question)}; {kept}")
        else:
            lines.append(f"infeasible at confidence {self.confidence:g}")
            if self.attainable is not None:
                one = self.attainable
                lines.append(f"most that can be promised: {one.held_out:.3f} ± {one.error:.3f} at {_described(one)}")
        if self.deterministic is not None:
            one = self.deterministic
            kept = f"keeps the promises with probability {one.held_out:.3f} ± {one.error:.3f}"
            lines.append(f"without uncertainty (by {self.deterministic_by}): {_described(one, self.question)}; {kept}")
        else:
            lines.append(f"without uncertainty (by {self.deterministic_by}): infeasible")
        return lines

    def anchors(self, candidates: Runs | pd.DataFrame | str | Path, *, budget: float, **options: Any) -> Anchors:
        """The runs to buy that lower the variance of the promises' margins most; see `bayeslaw.anchors`.

        Parameters
        ----------
        candidates : Runs, DataFrame or path
            Runs that could be bought; each logs a loss of every domain.
        budget : float
        **options
            Other arguments of `bayeslaw.anchors`.

        Raises
        ------
        BayeslawError
            If there is no place at which margins could be worked out: no draw keeps every promise anywhere.
        """
        from bayeslaw.design.anchors import anchors

        if not self.margins:
            raise BayeslawError("No draw keeps every promise anywhere, so there are no margins that runs could tell. Promise less.")
        posteriors: list[Any] = []
        for side in self.question.sides:
            if not any(side.posterior is p for p in posteriors):
                posteriors.append(side.posterior)
        return anchors(posteriors, candidates, dict(self.margins), budget=budget, **options)

    def probability(self, tokens: Array, replay: Array) -> Array:
        """Probability of keeping every promise, array (replay, tokens), by all draws."""
        every = np.sort(np.concatenate([self.draws, self.held]))
        return np.asarray(self.question.search.counts(every, np.log(tokens), replay) / every.size)


def _described(one: Choice, question: Question | None = None) -> str:
    """A choice in a line."""
    parts = [f"ATPP {one.atpp:.4g}"] if math.isfinite(one.atpp) else []
    parts += [f"{one.tokens:.4g} tokens", f"replay {one.replay:.1%}"]
    parts += [f"{one.flops:.3g} FLOPs"] if math.isfinite(one.flops) else []
    parts += [f"cost {one.cost:.4g}"] if math.isfinite(one.cost) else []
    if question is not None and math.isfinite(one.value):
        aimed = question.target if question.minimise == "target-loss" else None
        parts.append(f"target loss {one.value:.4g} {aimed.unit}" if aimed else f"source loss {one.value:+.2%} of its base")
    return ", ".join(parts)


def split(size: int) -> tuple[Index, Index]:
    """Draws to be searched and to be held out: blocks of neighbours in turn, so that both have draws of every chain."""
    draws = np.arange(size)
    first = (draws // BLOCK) % 2 == 0
    return draws[first], draws[~first]


def held_out(kept: NDArray[np.bool_]) -> tuple[float, float]:
    """A probability from held-out draws, and its Monte Carlo error: by the spread of blocks or, if larger, of independent draws."""
    share = float(kept.mean())
    smooth = (kept.sum() + 1) / (kept.size + 2)
    error = math.sqrt(smooth * (1 - smooth) / kept.size)
    blocks = [block.mean() for block in np.array_split(kept, max(2, kept.size // BLOCK))]
    return share, max(error, float(np.std(blocks, ddof=1)) / math.sqrt(len(blocks)))


FAILED = "FAILED its checks"
EDGE = 1e-3  # of the box, within which a plan lies on its edge


def infeasible(question: Question, most: Any, confidence: float) -> list[str]:
    """Why no plan keeps the promises with the confidence asked for."""
    if most is None:
        return ["no draw keeps every promise anywhere in the box"]
    alone = ", ".join(f"{name} {share:.0%}" for name, share in most.alone.items())
    box, top = question.search.box, math.log(most.tokens) + EDGE
    said = (
        f"no plan in the box keeps every promise with probability {confidence:g}: at most {most.searched:.3f} of the searched "
        f"draws do, at {_place(question, most)}; {most.held_out:.3f} ± {most.error:.3f} of the held-out ones"
    )
    limit = (
        f"; the {'budget' if box.most(most.replay) < box.high else 'upper limit of tokens'} binds"
        if top >= min(box.high, box.most(most.replay))
        else ""
    )
    return [said, f"binding: {most.binding} (probability of keeping each promise there, alone: {alone}){limit}"]


def _place(question: Question, choice: Any) -> str:
    tokens = f"ATPP {choice.atpp:.3g}" if math.isfinite(choice.atpp) else f"D = {choice.tokens:.3g}"
    return f"{tokens}, r = {choice.replay:.3g}"


def edges(question: Question, choice: Any) -> list[str]:
    """Warn of a plan on the edge of where was looked, or beyond the tokens and replay shares that were logged."""
    box, x, notes = question.search.box, math.log(choice.tokens), []
    top = min(box.high, box.most(choice.replay))
    width = EDGE * (box.high - box.low)
    if box.high > box.low:
        if x >= top - max(width, 1e-9):
            notes.append(
                "the plan uses the whole budget"
                if top < box.high
                else f"the plan lies on the upper edge of the box ({choice.tokens:.3g} tokens): look farther"
            )
        elif x <= box.low + width:
            notes.append(f"the plan lies on the lower edge of the box ({choice.tokens:.3g} tokens): look lower")
    low, high = box.replay
    if high > low and min(choice.replay - low, high - choice.replay) <= EDGE * (high - low):
        notes.append(f"the plan lies on the edge of the replay shares looked at (r = {choice.replay:.3g} of {low:g} to {high:g})")
    _, most, per_parameter = logged([s.posterior for s in question.sides])
    unit, name = (question.n, "ATPP") if per_parameter else (1.0, "D")
    if choice.tokens / unit > most * (1 + 1e-9):
        notes.append(f"the plan's {name} {choice.tokens / unit:.3g} lies beyond the {most:.3g} that were logged")
    return notes


def _at(side: Side, choice: Any) -> pd.DataFrame:
    return pd.DataFrame([dict(side.settings) | {"D": choice.tokens, "r": choice.replay}])


def diagnosed(question: Question, choice: Any, force: bool) -> list[str]:
    """Check the draws of every loss at the plan, and say how far outside the runs it lies.

    Raises
    ------
    FitError
        If R-hat or effective sample sizes of a loss there fail, unless forced.
    """
    notes = []
    for side in question.sides:
        if isinstance(side.posterior, PointFit):
            continue
        made = forecast(side.posterior, _at(side, choice), force=True)
        failed = "; ".join(c.text for c in made.checks if c.required and not c.passed)
        if failed and not force:
            raise FitError(
                f"The checks of the loss of {side.name} at the plan ({_place(question, choice)}) failed: {failed}. "
                "Sample longer, or force it and have the plan marked."
            )
        notes += [f"loss of {side.name} {FAILED} at the plan: {failed}"] if failed else []
        notes += [f"{side.name}: {text}" for text in _outside(side, choice)]
    return notes


def _outside(side: Side, choice: Any) -> list[str]:
    """How far outside the runs of each fit the plan lies, besides in D, of which the plan's tokens are spoken already."""
    said = []
    for fit, _ in members(side.posterior):
        if not isinstance(fit, Fit):
            continue
        frame = complete(_at(side, choice), fit.law)
        distance = outside(fit, {k: frame[k].to_numpy(dtype=np.float64) for k in fit.law.covariates})
        reach = {k: Reach.of(c, fit.observed.covariates[k]) for k, c in fit.law.axes.items()}
        text, check = extrapolation(distance, reach)
        said += (
            [f"the plan lies {text[0]} the runs" if text[0] == "inside" else f"the plan lies {text[0]}"] if not check.passed else []
        )
    return list(dict.fromkeys(said))


LEVELS = (0.5, 0.8, 0.9, 0.95)
COLUMNS = (
    "confidence", "plan", "tokens", "atpp", "r", "flops", "cost", "value", "searched", "held_out", "held_out_se", "binding",
)  # fmt: skip
Spread = Literal["latent", "run"]


def plan(
    source: Posterior | Mapping[str, Posterior] | None,
    target: Posterior | None,
    settings: Mapping[str, Any],
    *,
    on: Spread | None = None,
    confidence: float = 0.9,
    max_forgetting: str | float | Mapping[str, str | float] | None = None,
    max_loss: float | None = None,
    max_tokens: float | None = None,
    max_flops: float | None = None,
    max_cost: float | None = None,
    minimise: str = "tokens",
    prices: Mapping[str, float] | None = None,
    stages: Stages | None = None,
    replay: str | float | Sequence[float] | None = None,
    atpp: str | float | Sequence[float] | None = None,
    tokens: str | float | Sequence[float] | None = None,
    base_loss: str | float | Mapping[str, str | float] | None = None,
    source_levels: Mapping[str, str] | Mapping[str, Mapping[str, str]] | None = None,
    target_levels: Mapping[str, str] | None = None,
    levels: Sequence[float] = LEVELS,
    points: tuple[PointFit | Mapping[str, PointFit] | None, PointFit | None] | None = None,
    discrepancy: float | None = None,
    seed: int = 0,
    force: bool = False,
) -> Plan:
    """Choose tokens and replay of an adaptation so that promises hold together with a probability.

    Parameters
    ----------
    source : Fit, Stack, mapping of name to these, or None
        Posteriors of the source losses; one fit of both domains may be given as source and target.
    target : Fit, Stack or None
    settings : mapping
        The model: N and whatever else the laws need (ptpp).
    on : {'latent', 'run'}
        Whether promises are on the laws' expected losses or on the losses that the next run will log; it has to be said.
    confidence : float
        Probability with which all promises are to hold together.
    max_forgetting : text, float or mapping of source to these, optional
        Largest rise of the source loss over its base: '2%' of it, or in the unit of its fit.
    max_loss : float, optional
        Largest target loss, in the unit of its fit.
    max_tokens, max_flops, max_cost : float, optional
        Budgets.
    minimise : {'tokens', 'flops', 'cost', 'replay', 'target-loss', 'source-loss'}
        What is to be least. A loss is least in the sense that the loss promised with the confidence is; 'replay' is for tokens that
        are fixed.
    prices : mapping, optional
        Money for a 'flop', a 'new-token' and a 'replayed-token'.
    stages : text or sequence of Stage, optional
        Stages of the adaptation in which parts of the model are frozen, '0.4:0.034,0.6:0.5' (share of the tokens, trainable share
        of the parameters); FLOPs are counted by them instead of by 6 N D. See `bayeslaw.core.flops`.
    replay, atpp, tokens : range, optional
        Where to look: '0.1:0.6', (0.1, 0.6), [0.1, 0.25] for these alone, or one number. Unless stated: all replay shares, and
        tokens from a tenth of the fewest to ten times the most that were logged.
    base_loss : text, float or mapping of source to these, optional
        '2.873+-0.01', 'measured' or 'law'; see `bayeslaw.planning.domain_loss.base_loss`.
    source_levels, target_levels : mapping, optional
        Values of columns by which parameters vary, for one fit of several domains; 'source' and 'target' of a column that has
        these are taken unless told.
    levels : sequence of float
        Confidences of the frontier.
    points : pair of PointFit, optional
        Point fits of source and target that the deterministic plan goes by, instead of median losses.
    discrepancy : float, optional
        Relative sd that you state for the laws' errors at the plan.
    seed : int
        Of the noise of the next run and of errors of base losses.
    force : bool
        Plan in spite of failed checks.

    Returns
    -------
    Plan

    Raises
    ------
    BayeslawError
        If something asked for can't be used; the text names it and its value.
    FitError
        If checks of a fit, or of its losses at the plan, failed; or losses are not finite somewhere in the box.
    """
    if on is None:
        raise BayeslawError(
            "Say what is promised: the laws' expected losses (on 'latent') or the losses that the next run logs (on 'run')."
        )
    if on not in SPREADS:
        raise BayeslawError(f"Promises are on {' or '.join(SPREADS)}, not {on!r}.")
    if minimise not in OBJECTIVES:
        raise BayeslawError(f"{minimise!r} can't be minimised; choose one of {', '.join(OBJECTIVES)}.")
    whole_number("seed", seed, 0)
    fits = named(source)
    posteriors = identical([*fits.values(), *([target] if target is not None else [])])
    if not posteriors:
        raise BayeslawError("A plan needs a fit of the target's losses, of the source's, or of both.")
    check_posteriors(posteriors, force)
    model, price = check_settings(settings, posteriors), Prices.of(prices or {}, stages)
    n, loss, limits = model.get("N", math.nan), positive("max-loss", max_loss), forgetting_limits(max_forgetting, fits)
    check_question(minimise, fits, target, limits, loss, price, n)
    box = box_of(posteriors, n, replay, atpp, tokens, budget(n, price, max_tokens, max_flops, max_cost))
    if minimise == "replay" and (box.x is None or box.x.size != 1):
        raise BayeslawError("The least replay is looked for at given tokens: fix them (--tokens 1e10 or --atpp 8).")
    sources = dict(zip(fits, posteriors, strict=False))
    sides = sides_of(sources, posteriors[-1] if target is not None else None, model, box, source_levels, target_levels)
    check_sides(sides)
    sides = with_next_run(sides, seed, discrepancy, run=on == "run")
    draws, held = split(sides[0].size)
    for level in (confidence, *levels):
        check_confidence(level, draws.size)
    own, aim = tuple(sides[: len(fits)]), sides[-1] if target is not None else None
    bases = bases_of([s for s in own if s.name in limits or minimise == "source-loss"], base_loss, seed)
    search = Search(promises_of(own, aim, limits, bases, loss), box, price_of(minimise, price, n))
    question = Question(own, aim, bases, limits, loss, search, minimise, n, price, model)
    check_reachable(question, draws, confidence)
    return _Answering(question, draws, held, on, points, force).plan(confidence, levels)


@dataclass(frozen=True)
class _Answering:
    """A question, and which draws are searched and held out for it."""

    question: Question
    draws: Index
    held: Index
    on: str
    points: tuple[Any, Any] | None
    force: bool

    def plan(self, confidence: float, levels: Sequence[float]) -> Plan:
        """Search at every level, re-score, and say what is to be said."""
        question, asked = self.question, sorted({*levels, confidence})
        needed = [math.ceil(level * self.draws.size - 1e-9) for level in asked]
        found = self.search(question, self.draws, needed)
        chosen = {level: self.choice(one, level) for level, one in zip(asked, found, strict=True)}
        best, attainable = chosen[confidence], None
        notes = [base.text for base in question.bases.values()]
        if best is None:
            attainable = self.choice(question.search.surest(self.draws), math.nan)
            notes += infeasible(question, attainable, confidence)
        certain, by = self.deterministic()
        shown = best or attainable
        several = 0.0
        if shown is not None:
            notes += edges(question, shown) + diagnosed(question, shown, self.force)
            x = question.search.box.tokens()
            if question.search.promises and x.size > 1 and question.search.box.x is None:
                several = float(question.search.joint(self.draws, x, shown.replay).several.mean())
            if several:
                where = f"on several intervals of tokens at r = {shown.replay:.3g}"
                notes.append(f"in {several:.1%} of the draws promises hold {where}; all of them count")
        passed = all(getattr(s.posterior, "passed", True) for s in question.sides) and not any(FAILED in note for note in notes)
        return Plan(
            best=best, attainable=attainable, frontier=self.frontier(chosen).assign(checks=marked(not passed)),
            deterministic=certain, deterministic_by=by, losses=self.losses(shown).assign(checks=marked(not passed)),
            margins=self.margins(shown), promises=question.texts, notes=tuple(notes),
            base=question.bases, several=several, question=question, draws=self.draws, held=self.held, confidence=confidence,
            on=self.on, forced=not passed,
        )  # fmt: skip

    @staticmethod
    def search(question: Question, draws: Index, needed: Sequence[int]) -> list[Found | None]:
        """What is least at each number of draws needed."""
        if question.minimise == "replay":
            return question.search.least_replay(draws, needed)
        if question.value is not None:
            return question.search.lowest(draws, needed, question.value)
        return question.search.fewest(draws, needed)

    def choice(self, found: Found | None, confidence: float) -> Choice | None:
        """A plan that was found, re-scored on the held-out draws."""
        if found is None:
            return None
        question, r, tokens = self.question, found.r, math.exp(found.x)
        names, kept = [p.name for p in question.search.promises], question.search.kept(self.held, found.x, r)
        value = math.nan
        if question.value is not None and math.isfinite(confidence):
            names.append(question.minimise)
            kept = np.vstack([kept, point(question.value, self.held, found.x, r) <= found.value])
            value = math.exp(found.value) if question.minimise == "target-loss" else math.expm1(found.value)
        share, error = held_out(kept.all(axis=0))
        price = question.prices.token(r, question.n)
        return Choice(
            tokens=tokens, replay=r, atpp=tokens / question.n, flops=question.prices.compute * question.n * tokens,
            cost=tokens * price if price else math.nan, confidence=confidence, searched=found.count / self.draws.size,
            held_out=share, error=error,
            alone={name: float(k.mean()) for name, k in zip(names, kept, strict=True)}, value=value,
        )  # fmt: skip

    def deterministic(self) -> tuple[Choice | None, str]:
        """The plan without uncertainty: by point fits where they are given, else by the median over draws of every loss."""
        question = self.question
        if self.points is not None:
            plain, by = self.by_points(), "point fits"
        else:
            middle = tuple(Middle(p, self.draws) for p in question.search.promises)
            plain, by = replace(question, search=replace(question.search, promises=middle)), "median losses"
        one = np.zeros(1, dtype=np.int64)
        if plain.value is not None and self.points is None:
            found = plain.search.lowest(one, [1], Middle(plain.value, self.draws))[0]
        else:
            found = self.search(plain, one, [1])[0]
        return self.choice(found, math.nan), by

    def by_points(self) -> Question:
        """The question asked of point fits."""
        question = self.question
        sources, target = self.points or (None, None)
        given = named(sources)
        if set(given) != {s.name for s in question.sources} or (target is None) != (question.target is None):
            raise BayeslawError("Point fits are given for the same domains as posteriors: (source, target).")
        box = question.search.box
        levels = {s.name: {k: v for k, v in s.settings.items() if isinstance(v, str)} for s in question.sides}
        sides = sides_of(given, target, question.settings, box, {k: levels[k] for k in given} or None, levels.get("target"))
        medians = {name: f"{float(np.exp(np.median(base.log))):.12g}" for name, base in question.bases.items()}
        stated = {name: "law" if question.bases[name].kind == "law" else value for name, value in medians.items()}
        return without(question, sides, bases_of([s for s in sides if s.name in stated], stated, 0))

    def frontier(self, chosen: Mapping[float, Choice | None]) -> pd.DataFrame:
        """One row per level."""
        rows = []
        for level, one in chosen.items():
            row: dict[str, Any] = {"confidence": level, "plan": "feasible" if one else "infeasible"}
            if one is not None:
                row |= {"tokens": one.tokens, "atpp": one.atpp, "r": one.replay, "flops": one.flops, "cost": one.cost}
                row |= {"value": one.value, "searched": one.searched, "held_out": one.held_out, "held_out_se": one.error}
                row |= {"binding": one.binding}
            rows.append(row)
        table = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
        return table.drop(columns=[c for c in ("atpp", "flops", "cost", "value") if table[c].isna().all()])

    def losses(self, shown: Choice | None) -> pd.DataFrame:
        """Losses and forgetting at the plan, by all draws."""
        if shown is None:
            return pd.DataFrame()
        question, every, x = self.question, np.arange(self.question.size), math.log(shown.tokens)
        draws = {}
        if question.target is not None:
            draws[f"target loss ({question.target.unit})"] = np.exp(point(question.target, every, x, shown.replay))
        for side in question.sources:
            log = point(side, every, x, shown.replay)
            draws[f"loss of {side.name} ({side.unit})"] = np.exp(log)
            if side.name in question.bases:
                draws[f"forgetting of {side.name} (relative)"] = np.expm1(log - question.bases[side.name].log)
        if question.minimise == "replay" and question.search.box.r is None:
            draws["replay that suffices, draw by draw"] = question.search.along_replay(every).low.min(axis=0)
        quantiles = {name: np.quantile(v, [0.5, 0.05, 0.95], method="nearest") for name, v in draws.items()}
        return pd.DataFrame(quantiles, index=["median", "eti90_lo", "eti90_hi"]).T.rename_axis("quantity")

    def margins(self, shown: Choice | None) -> dict[str, Array]:
        """By how much (relative) each loss stays under its limit at the plan, draws in their order.

        By the laws alone: without the noise of the next run and of the base checkpoint, of which no other run tells, and without a
        stated discrepancy. Errors of a measured or stated base loss stay in.
        """
        if shown is None:
            return {}
        question, every, x = self.question, np.arange(self.question.size), math.log(shown.tokens)
        bases = {
            s.name: replace(base, log=base.log - s.shift_base) if base.kind == "law" else base
            for s in question.sources
            if (base := question.bases.get(s.name)) is not None
        }
        own = [replace(s, shift=np.zeros(s.size), shift_base=np.zeros(s.size)) for s in question.sides]
        target = own[-1] if question.target is not None else None
        alone = promises_of(own[: len(question.sources)], target, question.forgettings, bases, question.loss)
        return {promise.name: point(promise, every, x, shown.replay) for promise in alone}
