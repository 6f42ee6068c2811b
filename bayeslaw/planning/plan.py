"""Plans: tokens and a replay share of an adaptation that satisfy constraints with a stated probability.

    least tokens such that  P(source loss <= base + delta  and  target loss <= tau) >= confidence   (Goffinet et al. 2025, 4)

The probability is over posterior draws, jointly for all constraints. FLOPs, money, replay, the target loss or forgetting can be
minimised in place of tokens. One half of the draws is searched; the other half, which the search has not seen, estimates the
probability with which the plan satisfies its constraints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core import html, intervals
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, shortened, whole_number
from bayeslaw.core.flops import Stages
from bayeslaw.core.text import settings_text, short_lines
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.data.table import Table
from bayeslaw.design.anchors import Anchors, anchors
from bayeslaw.forecasting.discrepancy import read_choice
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.arguments import CHOICES, Spread, check_paired, positive
from bayeslaw.planning.base_loss import BaseLoss, base_losses, start_of, starting_at_base
from bayeslaw.planning.confidence import LEVELS, confidences, enough, halves, in_words, share_with_error
from bayeslaw.planning.life_costs import UNITS, Amount
from bayeslaw.planning.next_run import with_next_run
from bayeslaw.planning.plan_notes import (
    checked_loss,
    edge_notes,
    frontier_note,
    infeasible_notes,
    mixture_note,
    several_intervals_note,
)
from bayeslaw.planning.prices import Prices, WholeLifeCost, read_budgets
from bayeslaw.planning.problem import (
    PlanProblem,
    box_of,
    by_name,
    check_domains,
    check_objective,
    check_settings,
    checked_posteriors,
    domain_losses,
    forgetting_limits,
)
from bayeslaw.planning.search import MedianOverDraws, Optimum, Quantity, Search, values_at
from bayeslaw.posterior.diagnostics import checks_label, failure_suffix

COLUMNS = (
    "confidence", "plan", "tokens", "atpp", "r", "flops", "served_flops", "hours", "cost", "value", "searched", "held_out",
    "held_out_se", "active",
)  # fmt: skip
ONE_DRAW = np.zeros(1, dtype=np.int64)
type PointFits = tuple[PointFit | Mapping[str, PointFit] | None, PointFit | None]


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
    max_hours: float | None = None,
    max_cost: float | None = None,
    minimise: str = "tokens",
    served: Amount = 0.0,
    prices: Mapping[str, Amount] | None = None,
    device: Mapping[str, Amount] | None = None,
    stages: Stages | None = None,
    replay: str | float | Sequence[float] | None = None,
    atpp: str | float | Sequence[float] | None = None,
    tokens: str | float | Sequence[float] | None = None,
    base_loss: str | float | Mapping[str, str | float] | None = None,
    source_levels: Mapping[str, str] | Mapping[str, Mapping[str, str]] | None = None,
    target_levels: Mapping[str, str] | None = None,
    levels: float | Sequence[float] = LEVELS,
    points: PointFits | None = None,
    discrepancy: float | str | None = None,
    seed: int = 0,
    force: bool = False,
) -> Plan:
    """Choose tokens and replay of an adaptation so that constraints hold together with a stated probability.

    Parameters
    ----------
    source, target : Fit, Stack or None
        Posteriors of the losses; several sources are a mapping by name, and one fit of both domains may be given as both.
    settings : mapping
        The model: N and whatever else the laws need (ptpp).
    on : {'latent', 'run'}
        Whether the constraints are on the laws' expected losses or on the losses that the next run will log; required.
    confidence : float
        Probability with which all constraints are to hold together.
    max_forgetting : text, float or mapping of source to these, optional
        Largest rise of the source loss over its base: '2%' of it, or in the unit of its fit. The number 0.02 is not 2%, but 0.02
        nats/token for a fit to such losses.
    max_loss : float, optional
        Largest target loss, in the unit of its fit.
    max_tokens, max_flops, max_hours, max_cost : float, optional
        Budgets: of tokens, and of the whole life, which is the adaptation and the serving of `served` tokens. One of something
        uncertain is a constraint, which holds together with the others.
    minimise : {'tokens', 'flops', 'hours', 'cost', 'replay', 'target-loss', 'source-loss'}
        For a loss, the value that the loss stays under with the confidence is minimised; 'replay' needs fixed tokens. Uncertain
        costs are minimised in the mean.
    served : amount
        Tokens that the adapted model will read and write for its users. They cost the same in all plans of one checkpoint, but
        not of checkpoints of several sizes: see `bayeslaw.planning.plan_menu`. Amounts are those of `bayeslaw.planning.whole_life`.
    prices : mapping, optional
        Money for a 'flop', an 'hour', a 'served-flop', a 'served-hour', a 'new-token' and a 'replayed-token': amounts.
    device : mapping, optional
        What turns FLOPs into hours, as in `bayeslaw.planning.whole_life`.
    stages : text or sequence of Stage, optional
        Stages in which parts of the model are frozen, by which FLOPs are counted: '0.4:0.034,0.6:0.5' (share of the tokens,
        trainable share of the parameters). See `bayeslaw.core.flops`.
    replay, atpp, tokens : range, optional
        What is searched: '0.1:0.6', (0.1, 0.6), [0.1, 0.25] for these alone, or one number. Unless given: all replay shares, and
        tokens from a tenth of the fewest to ten times the most that were logged.
    base_loss : text, float or mapping of source to these, optional
        As in `bayeslaw.planning.base_loss.base_loss`: '2.873+-0.01', 'measured' or 'law'.
    source_levels, target_levels : mapping, optional
        Values of columns by which parameters are pooled, for one fit of several domains; by default 'source' and 'target' of a
        column that has these.
    levels : float or sequence of float
        Confidences of the frontier.
    points : pair of PointFit, optional
        Point fits of source and target that the deterministic plan goes by, instead of median losses. One of them is None where
        that domain has no fit, and several sources are a mapping by name.
    discrepancy : float or text, optional
        By default, 'learned', losses outside the runs in size or stage have the error of the law, as the forecasts that are called
        extrapolated; 'none' leaves it out. Or a relative sd that you state for the laws' errors at the plan, .01 or '1%'.
    seed : int
        Seed of the noise of the next run and of errors of base losses.
    force : bool
        Plan in spite of failed checks.

    Raises
    ------
    BayeslawError
        If an argument can't be used; the message names it and its value.
    FitError
        If checks of a fit, or of its losses at the plan, failed; or losses are not finite somewhere in the box.

    Examples
    --------
    >>> source, target = bayeslaw.load_fit("source.nc"), bayeslaw.load_fit("target.nc")
    >>> model = {"N": 1e9, "ptpp": 31}
    >>> plan = bayeslaw.plan(source, target, model, on="latent", minimise="target-loss", max_tokens=1e10)
    >>> set(plan.frontier["plan"])
    {'feasible'}
    """
    if on not in CHOICES["on"]:
        raise BayeslawError(
            "Say what the constraints are on: the losses that the next run logs (--on run, on='run') or the laws' expected losses "
            f"(--on latent, on='latent'){f', not {on!r}' if on is not None else ''}.",
            code="unknown-spread",
        )
    seed = whole_number("seed", seed, 0)
    check_points(points)
    fits = by_name(source)
    posteriors = checked_posteriors([*fits.values(), *([target] if target is not None else [])], force)
    check_domains(bool(fits), target is not None, base_loss, source_levels, target_levels)
    sources = dict(zip(fits, posteriors, strict=False))
    target = posteriors[-1] if target is not None else None
    model = check_settings(settings, posteriors)
    n = model.get("N", math.nan)
    costs = Prices.of(prices, stages, size=posteriors[0].size, served=served, device=device, seed=seed)
    forgetting, most_loss = forgetting_limits(max_forgetting, sources), positive("max-loss", max_loss)
    check_objective(minimise, bool(fits), target is not None, bool(forgetting), math.isfinite(most_loss), costs, n)
    budgets = read_budgets(costs, n, {"flops": max_flops, "hours": max_hours, "cost": max_cost})
    box = box_of(posteriors, n, replay=replay, atpp=atpp, tokens=tokens, budget=costs.log_budget(n, max_tokens, budgets))
    if minimise == "replay" and (box.listed_x is None or box.listed_x.size != 1):
        raise BayeslawError(
            "To minimise replay, fix the tokens (--tokens 1e10 or --atpp 8, tokens=1e10 or atpp=8).", code="tokens-not-fixed"
        )
    starts = {name: start_of(name, posterior, model, base_loss) for name, posterior in sources.items()}
    losses = domain_losses(sources, target, model, box, source_levels, target_levels, starts)
    check_paired({loss.name: loss.size for loss in losses}, "A plan")
    sd, learned = read_choice(discrepancy)
    losses = with_next_run(losses, seed, sd, run=on == "run", learned=learned)
    own = losses[: len(sources)]
    bases = base_losses(
        [loss for loss in own if loss.name in forgetting or minimise == "source-loss"], base_loss, seed, model.get(BASE_LOSS)
    )
    problem = PlanProblem(
        sources=tuple(starting_at_base(own, bases)),
        target=losses[-1] if target is not None else None,
        base_losses=bases, forgetting=forgetting, max_loss=most_loss, box=box, minimise=minimise, prices=costs, settings=model,
        budgets=costs.uncertain_budgets(n, budgets),
    )  # fmt: skip
    solver = _Solver(problem, *halves(problem.size))
    every = confidences(confidence, levels, solver.draws.size)
    problem.check_reachable(solver.draws, confidence)
    return solver.plan(confidence, every, on=on, points=points, force=force, stated=bool(sd))


@dataclass(frozen=True, eq=False)
class Plan:
    """The tokens and replay that a plan chose, and the probability with which they satisfy the constraints.

    Attributes
    ----------
    best, attainable : PlanPoint or None
        The plan at the confidence asked for; where there is none, the place where most draws satisfy every constraint.
    frontier : DataFrame
        One row per confidence: plan ('feasible' or 'infeasible'), tokens, atpp, r, mean costs of the whole life (flops, of which
        served_flops, hours, cost), value, searched, held_out, held_out_se, active, checks ('passed' or 'FAILED (forced)').
    deterministic, deterministic_by : PlanPoint or None, str
        The deterministic (plug-in) plan, by 'median losses' or 'point fits', and how often it satisfies the constraints.
    losses : DataFrame
        Losses and forgetting at `best` (else at `attainable`): median, eti90_lb, eti90_ub, checks.
    margins : dict of str to array (S,)
        By how much (relative) each loss there stays under its limit in each draw, by the laws alone: without the noise of the
        next run and without errors of the laws, stated or learnt. `anchors` chooses runs that lower the variance of these.
    notes : tuple of str
        Base losses, the active constraint and warnings.
    problem : PlanProblem
    draws, held_out : int arrays
        Which draws were searched and held out.
    confidence, on, forced
        As in `plan`; `forced` tells whether checks failed.

    Examples
    --------
    >>> model, target = {"N": 1e9, "ptpp": 31}, bayeslaw.load_fit("target.nc")
    >>> plan = bayeslaw.plan(None, target, model, on="latent", minimise="target-loss", max_tokens=1e10)
    >>> plan.best.tokens < 1.001e10
    True
    """

    best: PlanPoint | None
    attainable: PlanPoint | None
    frontier: pd.DataFrame
    deterministic: PlanPoint | None
    deterministic_by: str
    losses: pd.DataFrame
    margins: Mapping[str, Array]
    notes: tuple[str, ...]
    problem: PlanProblem
    draws: Index
    held_out: Index
    confidence: float
    on: str
    forced: bool

    def __repr__(self) -> str:
        return short_lines(f"<Plan for {'; '.join(self.lines()[:2])}>")

    def _repr_html_(self) -> str:
        """Show the plan, its losses and the frontier in a notebook, with the verdicts on its fits."""
        head, *lines = self.lines()
        fits = {loss.name: loss.posterior for loss in self.problem.losses if not isinstance(loss.posterior, PointFit)}
        losses = self.losses.drop(columns="checks").reset_index()
        frontier = self.frontier[["confidence", "plan", "tokens", "r", "held_out", "held_out_se", "active"]]
        return html.fragment(
            "Plan", head, *map(html.paragraph, lines), *(html.verdicts(*fit.verdicts, name) for name, fit in fits.items()),
            html.grid(losses, caption="Losses at this place") if len(losses) else "",
            html.grid(frontier, caption="Plans for each confidence"), html.notes(self.notes),
        )  # fmt: skip

    @property
    def constraints(self) -> tuple[str, ...]:
        """The constraints in words."""
        return self.problem.texts

    @property
    def base_losses(self) -> Mapping[str, BaseLoss]:
        """The base loss of each source with a limit of forgetting."""
        return self.problem.base_losses

    @property
    def shown(self) -> PlanPoint | None:
        """The plan or, where there is none, the place where most draws satisfy every constraint."""
        return self.best or self.attainable

    @property
    def landscapes(self) -> tuple[str, ...]:
        """What pictures can show beneath the probability: 'forgetting', 'target-loss'."""
        return (*(["forgetting"] if self.base_losses else []), *(["target-loss"] if self.problem.target is not None else []))

    def lines(self) -> list[str]:
        """The plan in words."""
        spread = "the laws' expected losses" if self.on == "latent" else "the losses that the next run logs"
        if any(loss.extrapolated for loss in self.problem.losses):
            spread += ", with the laws' errors outside the runs (extrapolated)"
        model = settings_text(self.problem.settings)
        head = f"{model + ': ' if model else ''}{'; '.join(self.constraints) or 'no other constraint'}; on {spread}"
        lines = [head + failure_suffix(self.forced)]
        if self.best is not None:
            lines.append(
                f"plan: {self.best.text(self.problem)}; confidence {self.best.confidence:g}, "
                f"constraints hold in {self.best.probability} of the held-out draws"
            )
        else:
            lines.append(f"infeasible at confidence {self.confidence:g}")
        if self.attainable is not None:
            lines.append(f"highest attainable confidence: {self.attainable.probability} at {self.attainable.text()}")
        plug_in = "infeasible"
        if (point := self.deterministic) is not None:
            plug_in = f"{point.text(self.problem)}; constraints hold with probability {point.probability}"
        return [*lines, f"deterministic (plug-in) plan, by {self.deterministic_by}: {plug_in}"]

    def anchors(self, candidates: Table, *, budget: float, **options: Any) -> Anchors:
        """The runs to buy that lower the variance of the constraints' margins most.

        Parameters
        ----------
        candidates, budget, **options
            As in `bayeslaw.anchors`; each candidate logs a loss of every domain.
        """
        if not self.problem.loss_constraints:
            problem = "The plan limits no loss, so there are no margins that runs could inform: give max_loss or max_forgetting."
            raise BayeslawError(problem, code="no-margins")
        if not self.margins:
            raise BayeslawError(
                "No draw satisfies every constraint anywhere, so there are no margins that runs could inform. Loosen the limits.",
                code="no-margins",
            )
        posteriors = {id(p): p for loss in self.problem.losses if not isinstance(p := loss.posterior, PointFit)}
        return anchors(list(posteriors.values()), candidates, dict(self.margins), budget=budget, **options)

    def probability(self, tokens: Array, replay: Array) -> Array:
        """Probability of satisfying every constraint, array (replay, tokens), by all draws."""
        draws = np.arange(self.problem.size)
        return np.asarray(self.problem.search.counts(draws, np.log(tokens), replay) / draws.size)


@dataclass(frozen=True)
class PlanPoint:
    """Tokens and replay, and the probability with which they satisfy the constraints; nan stands for what is not known."""

    tokens: float
    replay: float
    atpp: float
    flops: float  # mean of the whole life, as are hours and cost
    served_flops: float  # those of them that serving takes; nan where nothing is served
    hours: float
    cost: float
    confidence: float  # that it was searched for
    searched: float  # share of the searched draws that satisfy every constraint
    held_out: float  # share of the held-out draws, with its Monte Carlo error
    held_out_se: float
    by_constraint: Mapping[str, float]  # share of the held-out draws that satisfy each constraint by itself
    value: float  # the minimised loss, in its fit's unit, or forgetting (relative)

    @property
    def active(self) -> str:
        """The active constraint: the one that fewest draws satisfy."""
        return min(self.by_constraint, key=lambda name: self.by_constraint[name]) if self.by_constraint else ""

    @property
    def probability(self) -> str:
        """The probability of satisfying every constraint, with its error, in words."""
        return in_words(self.held_out, self.held_out_se)

    @property
    def place(self) -> str:
        """Tokens and replay in short."""
        tokens = f"ATPP {self.atpp:.3g}" if math.isfinite(self.atpp) else f"D = {self.tokens:.3g}"
        return f"{tokens}, r = {self.replay:.3g}"

    def text(self, problem: PlanProblem | None = None) -> str:
        """Tokens, replay and their cost in words; with the problem, the minimised loss too."""
        parts = [f"ATPP {self.atpp:.4g}"] if math.isfinite(self.atpp) else []
        parts += [f"{self.tokens:.4g} tokens", f"replay {self.replay:.1%}"]
        serving = f" ({self.served_flops / self.flops:.0%} for serving)" if math.isfinite(self.served_flops) else ""
        parts += [f"{self.flops:.3g} FLOPs{serving}"] if math.isfinite(self.flops) else []
        parts += [f"{self.hours:.4g} device hours"] if math.isfinite(self.hours) else []
        parts += [f"cost {self.cost:.4g}"] if math.isfinite(self.cost) else []
        if problem is not None and math.isfinite(self.value):
            target = problem.target if problem.minimise == "target-loss" else None
            parts.append(
                f"target loss {self.value:.4g} {target.unit}" if target else f"source loss {self.value:+.2%} over its base"
            )
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class _Solver:
    """Searches one half of the draws for what a problem minimises, and scores places by the other half."""

    problem: PlanProblem
    draws: Index
    held_out: Index

    def plan(
        self, confidence: float, levels: Sequence[float], *, on: str, points: PointFits | None, force: bool, stated: bool
    ) -> Plan:
        """The plan at the confidence, which is one of the levels, the frontier, and the deterministic plan beside it.

        `stated` is whether losses have an error of the law that the user stated.
        """
        problem = self.problem
        optima = self.optima(problem.search, self.draws, [enough(level, self.draws.size) for level in levels], problem.objective)
        points_at = {level: self.scored(optimum, level) for level, optimum in zip(levels, optima, strict=True)}
        best = points_at[confidence]
        attainable = self.scored(problem.search.most_probable(self.draws), math.nan) if best is None else None
        shown = best or attainable
        notes = [*(base.text for base in problem.base_losses.values()), *mixture_note(problem)]
        notes += (
            infeasible_notes(problem, attainable, confidence, self.draws)
            if best is None
            else frontier_note(problem, [level for level, point in points_at.items() if point is None])
        )
        failed = not all(loss.posterior.passed for loss in problem.losses)
        if shown is not None:
            notes += edge_notes(problem, shown)
            for loss in problem.losses:
                failures, warnings = checked_loss(loss, shown, force, stated=stated)
                notes, failed = [*notes, *failures, *warnings], failed or bool(failures)
            notes += several_intervals_note(problem, self.draws, shown.replay)
        checks = checks_label(failed)
        return Plan(
            best=best, attainable=attainable, frontier=_frontier(points_at).assign(checks=checks),
            deterministic=self.deterministic(points),
            deterministic_by="median losses" if points is None else "point fits",
            losses=_losses(problem, shown).assign(checks=checks), margins=_margins(problem, shown), notes=tuple(notes),
            problem=problem, draws=self.draws, held_out=self.held_out, confidence=confidence, on=on, forced=failed,
        )  # fmt: skip

    def optima(self, search: Search, draws: Index, needed: Sequence[int], objective: Quantity | None) -> Sequence[Optimum | None]:
        """For each number of draws needed, what the problem minimises."""
        if self.problem.minimise == "replay":
            return search.least_replay(draws, needed)
        if objective is not None:
            return search.lowest(draws, needed, objective)
        return search.cheapest(draws, needed)

    def scored(self, optimum: Optimum | None, confidence: float) -> PlanPoint | None:
        """The place at which a search ended, with probabilities by the held-out draws."""
        if optimum is None:
            return None
        problem, r, tokens, value = self.problem, optimum.r, math.exp(optimum.x), math.nan
        names = [constraint.name for constraint in problem.constraints]
        satisfied = problem.search.satisfied(self.held_out, optimum.x, r)
        if problem.objective is not None and math.isfinite(confidence):
            names.append(problem.minimise)
            satisfied = np.vstack([satisfied, values_at(problem.objective, self.held_out, optimum.x, r) <= optimum.value])
            value = math.exp(optimum.value) if problem.minimise == "target-loss" else math.expm1(optimum.value)
        share, error = share_with_error(satisfied.all(axis=0), problem.of_fit[self.held_out])
        flops, hours, cost = (problem.prices.mean(unit, problem.n, tokens, r) for unit in UNITS)
        served = float(np.mean(problem.prices.serving("flops", problem.n))) if problem.prices.life.serves else math.nan
        return PlanPoint(
            tokens=tokens, replay=r, atpp=tokens / problem.n, flops=flops, served_flops=served, hours=hours, cost=cost,
            confidence=confidence, searched=optimum.count / self.draws.size,
            held_out=share, held_out_se=error,
            by_constraint={name: float(holds.mean()) for name, holds in zip(names, satisfied, strict=True)}, value=value,
        )  # fmt: skip

    def deterministic(self, points: PointFits | None) -> PlanPoint | None:
        """The plan by point fits where they are given, else by the median over draws of every loss."""
        problem = self.problem
        if points is not None:
            plug_in = _by_point_fits(problem, *points)
            optima = self.optima(plug_in.search, ONE_DRAW, [1], plug_in.objective)
        else:
            medians = tuple(MedianOverDraws(constraint, self.draws) for constraint in problem.constraints)
            objective = None if problem.objective is None else MedianOverDraws(problem.objective, self.draws)
            optima = self.optima(Search(medians, problem.box, problem.log_price), ONE_DRAW, [1], objective)
        point = self.scored(optima[0], math.nan)
        if point is None:
            return None
        satisfied = problem.search.satisfied(self.draws, math.log(point.tokens), point.replay).all(axis=0)
        return replace(point, searched=float(satisfied.mean()))  # the search counted its single draw alone


def check_points(points: Any) -> None:
    """Refuse what is no pair of point fits for source and target, of which one may be None: posteriors have many draws."""
    if points is None:
        return
    is_pair = isinstance(points, (tuple, list)) and len(points) == 2
    if is_pair and all(isinstance(fit, PointFit) for of_domain in points for fit in by_name(of_domain).values()):
        return
    given = f"({', '.join(type(fit).__name__ for fit in points)})" if is_pair else shortened(repr(points))
    problem = f"points is a pair (source, target) of what bayeslaw.point_fit returns, such as (None, point), not {given}"
    raise BayeslawError(f"{problem}.", code="not-a-pair-of-point-fits")


def _by_point_fits(problem: PlanProblem, sources: PointFit | Mapping[str, PointFit] | None, target: PointFit | None) -> PlanProblem:
    """The same problem with losses by point fits."""
    fits = by_name(sources)
    if fits.keys() != {s.name for s in problem.sources} or (target is None) != (problem.target is None):
        raise BayeslawError(
            "Give point fits of the same domains as posteriors, as a pair (source, target).", code="point-fits-of-other-domains"
        )
    levels = {s.name: {k: v for k, v in s.settings.items() if isinstance(v, str)} for s in problem.losses}
    own = {s.name: fits[s.name] for s in problem.sources}
    starts = {s.name: {k: v for k, v in s.settings.items() if k == BASE_LOSS} for s in problem.sources}
    losses = domain_losses(own, target, problem.settings, problem.box, levels, levels.get("target"), starts)
    stated = {
        name: "law" if base.kind == "law" else f"{float(np.exp(np.median(base.log))):.12g}"
        for name, base in problem.base_losses.items()
    }
    budgets = tuple(
        replace(budget, loss=replace(budget.loss, prices=problem.prices.median()), limit=budget.limit[:1])
        for budget in problem.budgets
        if isinstance(budget.loss, WholeLifeCost)
    )
    bases = base_losses([s for s in losses if s.name in stated], stated, 0)
    return replace(problem.with_losses(starting_at_base(losses, bases), bases), budgets=budgets)


def _frontier(points: Mapping[float, PlanPoint | None]) -> pd.DataFrame:
    """One row per confidence."""
    rows = []
    for level, point in points.items():
        values = vars(point) | {"r": point.replay, "active": point.active} if point is not None else {}
        rows.append(values | {"confidence": level, "plan": "feasible" if point is not None else "infeasible"})
    table = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    return table.drop(columns=[c for c in ("atpp", "flops", "served_flops", "hours", "cost", "value") if table[c].isna().all()])


def _losses(problem: PlanProblem, shown: PlanPoint | None) -> pd.DataFrame:
    """Losses and forgetting at the plan, by all draws."""
    if shown is None:
        return pd.DataFrame()
    every, x = np.arange(problem.size), math.log(shown.tokens)
    draws = {}
    if problem.target is not None:
        draws[f"target loss ({problem.target.unit})"] = np.exp(values_at(problem.target, every, x, shown.replay))
    for source in problem.sources:
        log = values_at(source, every, x, shown.replay)
        draws[f"loss of {source.name} ({source.unit})"] = np.exp(log)
        if source.name in problem.base_losses:
            draws[f"forgetting of {source.name} (relative)"] = np.expm1(log - problem.base_losses[source.name].log)
    for unit, name in UNITS.items():
        if unit in problem.prices.life.rates and not problem.prices.certain(unit):
            spent = WholeLifeCost(problem.prices, unit, problem.n)
            draws[f"whole life ({name})"] = np.exp(values_at(spent, every, x, shown.replay))
    if problem.minimise == "replay" and problem.box.listed_r is None:
        draws["replay that suffices, draw by draw"] = problem.search.along_replay(every).low.min(axis=0)
    return intervals.rows(draws, 0.9, method="nearest")


def _margins(problem: PlanProblem, shown: PlanPoint | None) -> dict[str, Array]:
    """The margins of a plan; errors of measured and stated base losses stay in."""
    if shown is None:
        return {}
    by_source, every, x = dict(problem.base_losses), np.arange(problem.size), math.log(shown.tokens)
    for source in problem.sources:
        if (base := by_source.get(source.name)) is not None and base.kind == "law":
            by_source[source.name] = replace(base, log=source.by_laws_alone().at_base(every))
    by_law = problem.with_losses([loss.by_laws_alone() for loss in problem.losses], by_source)
    return {constraint.name: values_at(constraint, every, x, shown.replay) for constraint in by_law.loss_constraints}
