"""Which checkpoint of a menu to adapt: a plan for each, compared by what its whole life costs.

Served tokens cost the same in all plans of one checkpoint, but each takes 2 N FLOPs, so that a smaller checkpoint that is adapted
for longer may cost less over its whole life. Each checkpoint has the plan of `bayeslaw.plan`, whose constraints hold with the
stated probability; the best is the one with the least mean cost, or with the lowest loss that can be guaranteed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, nearest
from bayeslaw.core.text import compact, short_lines
from bayeslaw.forecasting.stack import Posterior, laws_of
from bayeslaw.planning.arguments import setting
from bayeslaw.planning.confidence import probability_best
from bayeslaw.planning.life_costs import UNITS
from bayeslaw.planning.plan import Plan, PlanPoint, plan
from bayeslaw.planning.prices import WholeLifeCost
from bayeslaw.planning.problem import by_name
from bayeslaw.planning.search import values_at, values_on_grid

COMPARED = (*UNITS, "target-loss", "source-loss")
COLUMNS = (
    "N", "plan", "tokens", "atpp", "r", "flops", "served_flops", "hours", "cost", "value", "held_out", "held_out_se", "active",
    "probability_best", "checks",
)  # fmt: skip
WITHOUT_PLAN = {"budget-too-small": "over budget", "unreachable-loss": "infeasible"}  # a checkpoint's faults, and its row's `plan`


@dataclass(frozen=True, eq=False)
class PlanMenu:
    """A plan for each checkpoint of a menu, and which of them is the best.

    Attributes
    ----------
    models : tuple of dict
        The checkpoints: N and whatever else the laws need.
    plans : tuple of Plan or None
        None where serving alone takes more than the budget, or no draw reaches the limit of the loss with any tokens.
    minimise : str
        By what they are compared: 'flops', 'hours', 'cost', 'target-loss' or 'source-loss'.
    table : DataFrame
        One row per checkpoint: its settings, its plan with whole-life costs, and probability_best, the share of draws in which it
        is the best of the menu, each checkpoint at the replay of its plan with the fewest tokens that satisfy that draw's
        constraints (for a loss, at its plan). The noise of a next run is the same for all of them and cancels. The shares add up
        to less than 1 where some draws have no plan at all.
    number : int or None
        Number of the best checkpoint; None where no plan is feasible.
    deterministic : int or None
        Number of the checkpoint that the deterministic (plug-in) plans would choose.

    Examples
    --------
    >>> fit, models = bayeslaw.load_fit("target.nc"), [{"N": n, "ptpp": 31} for n in (5e8, 1e9)]
    >>> menu = bayeslaw.planning.plan_menu(None, fit, models, on="latent", minimise="target-loss", max_flops=1e20, served=1e9)
    >>> len(menu.table)
    2
    """

    models: tuple[Mapping[str, float], ...]
    plans: tuple[Plan | None, ...]
    minimise: str
    table: pd.DataFrame
    number: int | None
    deterministic: int | None

    @property
    def best(self) -> Plan | None:
        """The plan of the best checkpoint."""
        return None if self.number is None else self.plans[self.number]

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all plans, each with the size that it is about."""
        pairs = [(m, p) for m, p in zip(self.models, self.plans, strict=True) if p is not None]
        return tuple(f"N = {compact(m['N'])}: {note}" for m, p in pairs for note in p.notes)

    def lines(self) -> list[str]:
        """The answer in words."""
        first = next(plan for plan in self.plans if plan is not None)
        limits = "; ".join(first.constraints) or "no other constraint"
        loss = f"lowest {self.minimise.replace('-', ' ')}"
        by = f"least mean {UNITS[self.minimise]} of the whole life" if self.minimise in UNITS else loss
        lines = [f"{len(self.models)} checkpoints, {by}: {limits}"]
        if self.number is None or self.best is None or self.best.best is None:
            lines.append(f"infeasible at confidence {first.confidence:g} with every checkpoint")
        else:
            share = float(self.table["probability_best"].iloc[self.number])
            point = self.best.best
            lines.append(
                f"adapt N = {compact(self.models[self.number]['N'])}: {point.text(self.best.problem)}; confidence "
                f"{point.confidence:g}, constraints hold in {point.probability} of the held-out draws; the best checkpoint in "
                f"{share:.0%} of the draws"
            )
        if self.deterministic is None:
            return [*lines, "deterministic (plug-in) plans: infeasible"]
        chosen = self.plans[self.deterministic]
        assert chosen is not None
        assert chosen.deterministic is not None
        return [
            *lines,
            f"deterministic (plug-in) plans would adapt N = {compact(self.models[self.deterministic]['N'])}: "
            f"{chosen.deterministic.text(chosen.problem)}; constraints hold with probability {chosen.deterministic.probability}",
        ]

    def __repr__(self) -> str:
        return short_lines(f"<PlanMenu of {'; '.join(self.lines()[:2])}>")

    def _repr_html_(self) -> str:
        """Show the answer and the checkpoints in a notebook."""
        head, *lines = self.lines()
        table = self.table.drop(columns=["served_flops", "checks"], errors="ignore")
        return html.fragment(
            "Menu of plans", head, *map(html.paragraph, lines), html.grid(table, caption="Checkpoints"), html.notes(self.notes)
        )


def plan_menu(
    source: Posterior | Mapping[str, Posterior] | None,
    target: Posterior | None,
    models: Sequence[Mapping[str, Any]],
    *,
    minimise: str | None = None,
    base_loss: Any = None,
    **options: Any,
) -> PlanMenu:
    """Choose which checkpoint to adapt, with how many tokens and how much replay, by what its whole life costs.

    Parameters
    ----------
    source, target
        As in `bayeslaw.plan`.
    models : sequence of mappings
        The checkpoints: N, and whatever else the laws need (ptpp).
    minimise : {'flops', 'hours', 'cost', 'target-loss', 'source-loss'}, optional
        The mean cost of the whole life, by which checkpoints are compared, or the loss that can be guaranteed. 'cost' where there
        are prices, else 'flops'.
    base_loss : text, float, mapping or list of these, optional
        As in `bayeslaw.plan`; a list has one for each checkpoint.
    **options
        Of `bayeslaw.plan`: `on`, limits, budgets, `served`, `prices`, `device`, `confidence`.

    Raises
    ------
    BayeslawError
        If an argument can't be used, or no checkpoint of the menu fits into the budget.
    FitError
        As `bayeslaw.plan` does.

    Examples
    --------
    >>> fit, models = bayeslaw.load_fit("target.nc"), [{"N": n, "ptpp": 31} for n in (5e8, 1e9)]
    >>> menu = bayeslaw.planning.plan_menu(None, fit, models, on="latent", minimise="target-loss", max_flops=1e20, served=1e9)
    >>> menu.best.problem.n in (5e8, 1e9)
    True
    """
    compared = minimise or ("cost" if options.get("prices") else "flops")
    if compared not in COMPARED:
        raise BayeslawError(
            f"Checkpoints can't be compared by {compared!r}; choose one of {', '.join(COMPARED)}.{nearest(compared, COMPARED)}",
            code="unknown-objective",
        )
    models = _models(models)
    bases = list(base_loss) if isinstance(base_loss, list) else [base_loss] * len(models)
    if len(bases) != len(models):
        raise BayeslawError(f"base_loss has {len(bases)} values for {len(models)} checkpoints.", code="values-of-menu")
    attempts = list[Plan | BayeslawError]()
    for model, base in zip(models, bases, strict=True):
        try:
            attempts.append(plan(source, target, model, minimise=compared, base_loss=base, **options))
        except BayeslawError as error:
            kind = FitError if isinstance(error, FitError) else BayeslawError
            named = kind(f"N = {compact(float(model['N']))}: {error}", code=error.code)
            if error.code not in WITHOUT_PLAN:
                raise named from None
            attempts.append(named)
    _check_compared(models, [*by_name(source).values(), *([] if target is None else [target])])  # which `plan` has looked at
    faults = [attempt for attempt in attempts if isinstance(attempt, BayeslawError)]
    if len(faults) == len(models):
        _refuse(models, faults)
    plans = [attempt if isinstance(attempt, Plan) else None for attempt in attempts]
    each = zip(models, attempts, probability_best(_values_by_draw(plans, compared)).tolist(), strict=True)
    rows = [dict(model) | _row(attempt) | {"probability_best": share} for model, attempt, share in each]
    others = list(dict.fromkeys(name for model in models for name in model if name not in COLUMNS))
    table = pd.DataFrame(rows).reindex(columns=[COLUMNS[0], *others, *COLUMNS[1:]])
    table = table.drop(columns=[c for c in ("served_flops", "hours", "cost", "value") if table[c].isna().all()])
    best = _least([_value(own, own.best, compared) if own is not None else math.inf for own in plans])
    plug_in = _least([_value(own, own.deterministic, compared) if own is not None else math.inf for own in plans])
    return PlanMenu(tuple(models), tuple(plans), compared, table, best, plug_in)


def _models(given: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The checkpoints of a menu with numbers as settings; fewer than two different ones are refused, and those without N."""
    sound = isinstance(given, (list, tuple)) and all(isinstance(model, Mapping) and "N" in model for model in given)
    models = [{name: setting(name, value) for name, value in model.items()} for model in given] if sound else []
    if len(models) < 2 or any(model in models[:i] for i, model in enumerate(models)):
        example = "--sizes 1e9,3e9, in Python [{'N': 1e9}, {'N': 3e9}]"
        raise BayeslawError(f"A menu has two or more checkpoints that differ, each with its N ({example}).", code="no-menu")
    return models


def _check_compared(models: Sequence[Mapping[str, float]], posteriors: Sequence[Posterior]) -> None:
    """Refuse checkpoints that differ in nothing that a law knows: all would have one plan."""
    differing = [name for name in models[0] if len({model.get(name) for model in models}) > 1]
    for posterior in posteriors:
        for law in laws_of([posterior]):
            if not {*differing} & {*law.covariates}:
                raise BayeslawError(
                    f"The checkpoints differ in {' and '.join(differing)}, which {law.name} does not know: it would give all of "
                    "them one loss. Fit a law with N, such as transfer-target or from-base-source, to runs of several sizes.",
                    code="law-without-covariate",
                )


def _refuse(models: Sequence[Mapping[str, float]], faults: Sequence[BayeslawError]) -> NoReturn:
    """Say why none has a plan: the largest, if even that reaches no loss so low, else the smallest, which costs least to serve."""
    sizes = [model["N"] for model in models]
    smallest, largest = (faults[int(of(sizes))] for of in (np.argmin, np.argmax))
    fault = largest if largest.code == "unreachable-loss" else smallest
    raise BayeslawError(f"No checkpoint of the menu has a plan. {fault}", code=fault.code)


def _row(attempt: Plan | BayeslawError) -> dict[str, Any]:
    """The columns of a plan at the confidence asked for, or of why there is none."""
    if isinstance(attempt, BayeslawError):
        return {"plan": WITHOUT_PLAN[attempt.code], "checks": ""}
    frontier = attempt.frontier[attempt.frontier["confidence"] == attempt.confidence].iloc[0]
    return {str(k): v for k, v in frontier.items() if k != "confidence"}


def _least(values: Sequence[float]) -> int | None:
    """The number of the least value; None where all are infinite."""
    best = int(np.argmin(values))
    return best if math.isfinite(values[best]) else None


def _value(own: Plan, point: PlanPoint | None, compared: str) -> float:
    """What a plan is compared by; inf without a plan. The deterministic plan's loss is a median."""
    if point is None:
        return math.inf
    if compared in UNITS:
        return float(getattr(point, compared))
    if math.isfinite(point.value):
        return point.value
    assert own.problem.objective is not None
    return float(np.exp(np.median(values_at(own.problem.objective, own.draws, math.log(point.tokens), point.replay))))


def _values_by_draw(plans: Sequence[Plan | None], compared: str) -> Array:
    """What each plan is compared by in each draw, array (plans, S); inf where the draw has no plan."""
    values = []
    size = next(own.problem.size for own in plans if own is not None)
    for own in plans:
        if own is None or own.shown is None:
            values.append(np.full(size, np.inf))
            continue
        every, r, problem = np.arange(size), own.shown.replay, own.problem
        if compared not in UNITS:
            assert problem.objective is not None
            values.append(values_at(problem.objective, every, math.log(own.shown.tokens), r))
            continue
        least = _fewest(own, every, r)
        spent = WholeLifeCost(problem.prices, compared, problem.n).values(every, np.where(np.isfinite(least), least, 0.0), r, 0)
        values.append(np.where(np.isfinite(least), spent, np.inf))
    return np.array(values)


def _fewest(own: Plan, every: Index, r: float) -> Array:
    """Log of the fewest tokens with which each draw satisfies the constraints at a replay share; inf where there are none."""
    search, x = own.problem.search, own.problem.box.log_tokens()
    if own.problem.box.listed_x is None:
        return np.asarray(search.intervals(every, x, np.array([r]))[0].low.min(axis=0))
    good = np.array([margin[0] >= 0 for margin in values_on_grid(search.margins, every, x, np.array([r]))]).all(axis=0)
    good &= x <= own.problem.box.budget(r)
    return np.where(good.any(axis=1), x[good.argmax(axis=1)], np.inf)
