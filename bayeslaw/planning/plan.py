"""Plans that keep their promise: tokens and replay of an adaptation, chosen so that promises hold with a stated probability.

    least tokens such that  P(source loss <= base + delta  and  target loss <= tau) >= confidence   (Goffinet et al. 2025, 4)

over posterior draws, jointly; or the other ways round: best target loss or least forgetting under a budget, least replay at given
tokens. Half of the draws is searched, the other half says how often the plan keeps its promises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.flops import Stages
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.base_loss import bases_of
from bayeslaw.planning.choices import Choice, Plan, held_out, split
from bayeslaw.planning.domain_loss import check_settings, check_sides, with_next_run
from bayeslaw.planning.limits import OBJECTIVES, SPREADS, Prices, check_confidence, positive
from bayeslaw.planning.problem import (
    Question,
    box_of,
    budget,
    check_posteriors,
    check_question,
    check_reachable,
    forgetting_limits,
    identical,
    named,
    price_of,
    promises_of,
    sides_of,
    without,
)
from bayeslaw.planning.remarks import FAILED, diagnosed, edges, infeasible
from bayeslaw.planning.search import Found, Middle, Search, point
from bayeslaw.planning.sweep import Array, Index
from bayeslaw.posterior.diagnostics import marked

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
