"""The size and tokens of a model by the costs of its whole life, with a stated probability (Sardana et al. 2024).

Training takes 6 N D FLOPs and serving S tokens 2 N S. With L the loss, C the whole-life cost and c the confidence, the answer is

    least E[C(N, D)]  such that  P(L(N, D) <= tau) >= c,           where a loss tau is the target, or
    least l           such that  P(L(N, D) <= l  and  C(N, D) <= budget) >= c.

Probabilities and means are over the draws of the posterior and of uncertain amounts. At a given N the draws' losses are swept along
D as in `bayeslaw.planning.search`; N is searched on a grid that is refined around its best point, or is one of a menu. One half of
the draws is searched and the other half estimates the probability. Beside it stands the optimum of each draw by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, as_mapping, nearest, whole_number
from bayeslaw.core.intervals import columns
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import compact, short_lines
from bayeslaw.forecasting.outside import size_and_tokens_outside, sizes_and_tokens
from bayeslaw.forecasting.stack import Posterior, laws_of, require_losses, with_errors
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.arguments import Range, Spread, check_choice, check_passed, logged, outside_note, read_range, read_values
from bayeslaw.planning.confidence import LEVELS, confidences, halves, probability_best
from bayeslaw.planning.life_costs import UNITS, Amount, LifeCosts
from bayeslaw.planning.life_search import LifeChoice, LifeSearch, Losses
from bayeslaw.planning.search import ROUNDING
from bayeslaw.planning.stages import check_size_is_free, stage_notes, stages
from bayeslaw.posterior.diagnostics import checks_label, failure_suffix
from bayeslaw.posterior.discrepancy import DrawnErrors
from bayeslaw.posterior.fit import Fit

# The law's error is that at the choice itself, so that each new choice changes the error by which it was made.
TURNS = 50  # most choices of tokens at one size
TOKENS_TOLERANCE = 1e-3  # e-folds between two choices of tokens below which they count as the same
ROUNDS, CHEAPER = 6, 0.01  # most choices of a size, and the share of the costs that another size must save to be taken
COLUMNS = (
    "given", "confidence", "plan", "N", "D", "tokens_per_parameter", "loss", "flops", "hours", "cost", "serving", "searched",
    "held_out", "held_out_se",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class WholeLife:
    """Sizes and tokens by whole-life costs, one answer for each budget or target loss.

    Attributes
    ----------
    given : array (n,)
        Budgets, or target losses.
    unit : str
        'flops', 'hours' or 'cost': that of the budgets, or of the cost that is minimised.
    budgeted : bool
        Whether budgets were given, and not target losses.
    best, deterministic : tuple of LifeChoice or None
        The choice at the confidence asked for, and the deterministic (plug-in) one by median losses and median amounts with the
        probability that it keeps what was asked; None where there is none.
    training_only : tuple of LifeChoice or None
        With target losses: the choice by the costs of training alone, and what its whole life costs.
    frontier : DataFrame
        One row for each given value and confidence.
    menu : DataFrame
        With a menu of sizes: a row for each given value and size, with the probability that it is the best.
    N, D, loss, cost : arrays (S, n)
        The optimum of each draw by itself, with its cost in `unit`; inf in draws that reach a target loss at no size.
    costs : LifeCosts
    confidence, on, sizes, notes, name, failed, loss_unit
        As asked; the sizes of the menu (m,) or None; the law's name; whether checks failed; the unit of losses.
    searches : tuple of LifeSearch
        For pictures: losses, costs, and choices at other sizes, for each given value.
    beyond : tuple of bool
        For each given value, whether its losses have the law's error beyond the runs: where a choice leaves them.

    Examples
    --------
    >>> life = bayeslaw.planning.whole_life(bayeslaw.load_fit("fit.nc"), compute=1e21, served=1e11)
    >>> life.summary()["N_median"].size
    1
    """

    given: Array
    unit: str
    budgeted: bool
    best: tuple[LifeChoice | None, ...]
    deterministic: tuple[LifeChoice | None, ...]
    training_only: tuple[LifeChoice | None, ...]
    frontier: pd.DataFrame
    menu: pd.DataFrame
    N: Array
    D: Array
    loss: Array
    cost: Array
    costs: LifeCosts
    confidence: float
    on: str
    sizes: Array | None
    notes: tuple[str, ...]
    name: str
    failed: bool
    loss_unit: str
    searches: tuple[LifeSearch, ...]
    beyond: tuple[bool, ...]

    @property
    def extrapolated(self) -> bool:
        """Whether losses of a given value have the law's error beyond the runs."""
        return any(self.beyond)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row for each given value: medians and intervals of the draws' own best N, D, tokens_per_parameter, loss and cost.

        Draws that reach a target loss at no size count as infinite; the ratio of tokens to parameters is of the others.
        """
        reached = np.isfinite(self.N)
        ratio = [(d[k] / n[k] if k.any() else np.array([np.inf])) for n, d, k in zip(self.N.T, self.D.T, reached.T, strict=True)]
        shown: dict[str, Iterable[Array]] = {
            "N": self.N.T,
            "D": self.D.T,
            "tokens_per_parameter": ratio,
            "loss": self.loss.T,
            self.unit: self.cost.T,
        }
        table = pd.DataFrame({"budget" if self.budgeted else "target_loss": self.given})
        for name, draws in shown.items():
            table = table.join(pd.DataFrame([columns(of_one, ci_prob, name, method="nearest") for of_one in draws]))
        return table.assign(checks=checks_label(self.failed))

    def lines(self, number: int = 0) -> list[str]:
        """The answer for one of the given values, in words."""
        unit, value = UNITS[self.unit], float(self.given[number])
        spread = "the law's expected losses" if self.on == "latent" else "the losses that the next run logs"
        if self.beyond[number]:
            spread += ", with the law's error beyond the runs"
        asked = (
            f"least loss for {compact(value)} {unit}"
            if self.budgeted
            else f"least {unit} for a loss of at most {value:g} {self.loss_unit}"
        )
        served = self.costs.served
        amount = compact(float(served[0])) if np.ptp(served) == 0 else f"{compact(float(served.mean()))} (mean)"
        lines = [f"{asked}; {amount} served tokens; on {spread}" + failure_suffix(self.failed)]
        best, plug_in, alone = self.best[number], self.deterministic[number], self.training_only[number]
        keeps = "the budget and a loss of at most {:.4g} hold" if self.budgeted else "the loss holds"
        if best is None:
            lines.append(f"infeasible at confidence {self.confidence:g}")
        else:
            lines.append(
                f"plan: {best.text()}; confidence {self.confidence:g}, {keeps.format(best.loss)} in {best.probability} of the "
                "held-out draws"
            )
        shown = "infeasible"
        if plug_in is not None:
            shown = f"{plug_in.text()}; {keeps.format(plug_in.loss)} with probability {plug_in.probability}"
        lines.append(f"deterministic (plug-in) plan, by median losses and amounts: {shown}")
        if alone is not None and best is not None and self.costs.serves:
            more = alone.costs[self.unit] / best.costs[self.unit] - 1
            lines.append(
                f"by the costs of training alone: {alone.place}, whose whole life takes {more:.1%} more {unit} than the plan's"
            )
        return lines

    def __repr__(self) -> str:
        return short_lines(f"<WholeLife for {'; '.join(self.lines()[:2])}>")

    def _repr_html_(self) -> str:
        """Show the first answer, the menu and the frontier in a notebook."""
        head, *lines = self.lines()
        frontier = self.frontier[["given", "confidence", "plan", "N", "D", "loss", self.unit, "held_out", "held_out_se"]]
        return html.fragment(
            "Whole life", head, *map(html.paragraph, lines),
            html.grid(self.menu, caption="Sizes of the menu") if len(self.menu) else "",
            html.grid(frontier, caption="Plans for each confidence"), html.notes(self.notes),
        )  # fmt: skip


def whole_life(
    fit: Posterior,
    *,
    served: Amount = 0.0,
    compute: str | float | Sequence[float] | None = None,
    hours: str | float | Sequence[float] | None = None,
    cost: str | float | Sequence[float] | None = None,
    max_loss: str | float | Sequence[float] | None = None,
    minimise: str | None = None,
    sizes: Range = None,
    confidence: float = 0.9,
    levels: float | Sequence[float] = LEVELS,
    prices: Mapping[str, Amount] | None = None,
    device: Mapping[str, Amount] | None = None,
    stage: str | None = None,
    settings: Mapping[str, Any] | None = None,
    on: Spread = "latent",
    discrepancy: Literal["learned", "none"] = "learned",
    seed: int = 0,
    force: bool = False,
) -> WholeLife:
    """Choose the size and tokens of a model by the costs of training and serving it, with a stated probability.

    Exactly one of `compute`, `hours`, `cost` (budgets of the whole life) and `max_loss` (whose cost is minimised) is given; each
    may be several values. An amount is a number or, if it is uncertain, an array of draws (S,), a prior ('LogNormal(28, 0.5)'), or
    an interval such as '1e12:4e12:90%' (log-normal).

    Parameters
    ----------
    fit : Fit or Stack
        Fit of a law of N and D.
    served : amount
        Tokens that the model will read and write for its users.
    compute, hours, cost : number, sequence or text, optional
        Budgets in FLOPs, in hours of one device, in money; '1e22:1e24:5' for 5 values evenly in the logarithm.
    max_loss : number, sequence or text, optional
        Target losses, in the unit of the fit.
    minimise : {'flops', 'hours', 'cost'}, optional
        Which mean cost is least where a loss is the target; 'cost' where there are prices, else 'flops'.
    sizes : sequence or text, optional
        A menu of sizes ('1e9,3e9,7e9' or a list), or a range that is searched ('1e9:7e10'). By default, the law's support.
    confidence : float
        Probability with which the loss, and the budget, are kept.
    levels : float or sequence of float
        Further confidences of the frontier.
    prices : mapping, optional
        Money for a 'flop' and an 'hour' of training, and a 'served-flop' and a 'served-hour', the same unless given: amounts.
    device : mapping, optional
        The 'peak' (FLOP/s) and 'utilisation' of the device that trains, and 'served-peak' and 'served-utilisation': amounts.
    stage, settings, force
        As in `bayeslaw.allocate`.
    on : {'latent', 'run'}
        Whether the loss is the law's expected one, or the one that the next run will log.
    discrepancy : {'learned', 'none'}
        Whether the law has the error that it was learnt to have beyond the runs.
    seed : int
        Seed of uncertain amounts, errors of the law and noise of the next run.

    Raises
    ------
    BayeslawError
        If an argument can't be used, no budget allows a size, or no draw reaches a target loss.
    FitError
        If checks of the fit failed, unless forced.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> life = bayeslaw.planning.whole_life(fit, max_loss=2.4, served=1e12, sizes=[1e9, 3e9, 1e10])
    >>> bool(life.menu["probability_best"].sum() > 0.999)
    True
    """
    unit, values, budgeted = _asked(compute, hours, cost, max_loss, minimise, prices)
    if isinstance(fit, PointFit):
        raise BayeslawError("Whole-life costs with a confidence need a posterior, not a point fit.", code="not-a-posterior")
    require_losses([fit], "a choice of sizes")
    laws = laws_of([fit])
    check_size_is_free(laws, "A whole life")
    check_passed(fit, force)
    seed = whole_number("seed", seed, 0)
    check_choice("on", on, "unknown-spread")
    check_choice("discrepancy", discrepancy, "unknown-discrepancy")
    settings = as_mapping(settings, "{'ptpp': 279}")
    of_stage = stage_notes(laws, stage, settings)
    losses = _losses(fit, stage, settings, on, seed)
    erring = _losses(fit, stage, settings, on, seed, learned=True) if discrepancy == "learned" else losses
    searched, held_out = halves(losses.size)
    every = confidences(confidence, levels, searched.size)
    costs = LifeCosts.of(losses.size, served=served, prices=prices, device=device, seed=seed)
    costs.require(unit)
    span, menu = _sizes(sizes, losses)
    answers = [
        _answer(fit, LifeSearch(losses, costs, value, unit, budgeted, span, menu, searched, held_out), erring, every, confidence)
        for value in values.tolist()
    ]
    searches, beyond = tuple(a.search for a in answers), tuple(a.beyond for a in answers)
    best = tuple(a.chosen[every.index(confidence)] for a in answers)
    n, d, loss, total = (np.stack(of_each, axis=1) for of_each in zip(*(s.each_draw() for s in searches), strict=True))
    label = checks_label(not fit.passed)
    return WholeLife(
        given=values, unit=unit, budgeted=budgeted, best=best,
        deterministic=tuple(search.deterministic for search in searches),
        training_only=tuple(None if budgeted else search.training_only(confidence) for search in searches),
        frontier=_frontier(values, every, [a.chosen for a in answers], costs).assign(checks=label),
        menu=pd.DataFrame() if menu is None else pd.concat([a.menu for a in answers], ignore_index=True).assign(checks=label),
        N=n, D=d, loss=loss, cost=total, costs=costs, confidence=confidence, on=on, sizes=menu,
        notes=(*of_stage, *_notes(fit, best, searches, beyond, confidence), *_unreached(searches, loss)),
        name=fit.name, failed=not fit.passed, loss_unit=fit.unit, searches=searches, beyond=beyond,
    )  # fmt: skip


def _asked(compute: Any, hours: Any, cost: Any, max_loss: Any, minimise: str | None, prices: Any) -> tuple[str, Array, bool]:
    """The unit of costs, the given values (n,), and whether they are budgets."""
    given = {k: v for k, v in {"compute": compute, "hours": hours, "cost": cost, "max_loss": max_loss}.items() if v is not None}
    if len(given) != 1:
        what = f"{' and '.join(given)} were given" if given else "none was given"
        raise BayeslawError(
            f"Exactly one of compute, hours, cost (budgets) and max_loss (a target) is needed: {what}.", code="one-limit-needed"
        )
    name, value = next(iter(given.items()))
    if name == "max_loss":
        unit = minimise or ("cost" if prices else "flops")
        if unit not in UNITS:
            raise BayeslawError(
                f"{unit!r} can't be minimised; choose one of {', '.join(UNITS)}.{nearest(unit, UNITS)}", code="unknown-objective"
            )
        return unit, read_values(value, "max_loss", "losses"), False
    unit = {"compute": "flops"}.get(name, name)
    if minimise is not None:
        raise BayeslawError("A budget is spent on the least loss: minimise belongs to max_loss.", code="minimise-with-budget")
    return unit, read_values(value, name, UNITS[unit]), True


def _losses(fit: Posterior, stage: str | None, settings: Mapping[str, Any], on: str, seed: int, *, learned: bool = False) -> Losses:
    """The losses of a posterior over N and D; with `learned`, of laws with the errors beyond the runs that they learnt."""
    shifts, errors = [], list[DrawnErrors | None]()
    selections = with_errors(fit.selections) if learned else fit.selections
    for number, (used, chosen) in enumerate(selections):
        entropy, learnt = (seed, Stream.PLANNED, number), used.discrepancy if learned else None
        errors.append(None if learnt is None else learnt.drawn(chosen, (*entropy, Stream.NEXT_RUN_ERROR)))
        shifts.append(_next_run(used, chosen, settings, entropy) if on == "run" else np.zeros(chosen.size))
    return Losses(tuple(stages(selections, settings, stage)), np.concatenate(shifts), tuple(errors))


class _Answer(NamedTuple):
    """What is found for one budget or target loss."""

    search: LifeSearch
    chosen: list[LifeChoice | None]  # for each confidence
    beyond: bool  # whether a choice leaves the runs, so that losses are those of laws that err
    menu: pd.DataFrame  # its rows of the menu


def _answer(fit: Posterior, search: LifeSearch, erring: Losses, levels: Sequence[float], confidence: float) -> _Answer:
    """Return the answer by laws taken for exact or, where a choice leaves the runs, by laws that err (`erring`)."""
    chosen, menu = search.frontier(levels), search.menu
    at_sizes = [] if menu is None else search.at_sizes(menu, confidence)
    beyond = any(error is not None for error in erring.errors) and _leaves(fit, [search.deterministic, *chosen, *at_sizes])
    if beyond:
        plain, plug_in = replace(search, losses=erring), search.deterministic
        search, chosen = _erring(plain, plug_in, levels, confidence)
        at_sizes = [] if menu is None else search.at_sizes(menu, confidence)
        if not search.budgeted:
            at_sizes = [None if choice is None else _at_itself(plain, choice)[1] for choice in at_sizes]
    return _Answer(search, chosen, beyond, _menu(search, at_sizes, confidence))


def _leaves(fit: Posterior, chosen: Iterable[LifeChoice | None]) -> bool:
    """Whether a choice lies outside the runs in size, tokens, compute or tokens per parameter."""
    places = np.array([(choice.N, choice.D) for choice in chosen if choice is not None]).reshape(-1, 2)
    return any(bool(size_and_tokens_outside(sizes_and_tokens(own), places).any()) for own, _ in fit.selections)


def _erring(
    search: LifeSearch, plug_in: LifeChoice | None, levels: Sequence[float], confidence: float
) -> tuple[LifeSearch, list[LifeChoice | None]]:
    """The search with the law's error at one place, which all places that are compared share, and the choice for each confidence.

    An error that grows with the distance from the runs would make the least loss that can be guaranteed that of the place which
    leaves the runs least, and not that of the best size. Within a budget the place is the deterministic choice, since others lie
    near it. To reach a loss surely takes a choice farther out, where the law errs more, so that the place is the choice itself.
    """
    if plug_in is None:
        return search, search.frontier(levels)
    there = search.erring_at(plug_in)
    chosen = there.frontier(levels)
    if search.budgeted:
        return there, chosen
    reached = [(there, None) if choice is None else _reaching(search, choice) for choice in chosen]
    at_plan, plan = reached[levels.index(confidence)]
    return there if plan is None else at_plan, [choice for _, choice in reached]


def _reaching(search: LifeSearch, choice: LifeChoice) -> tuple[LifeSearch, LifeChoice | None]:
    """The choice that reaches a loss with the law's error at itself, and the search with that.

    Two sizes may each be the cheaper one with the error at the other. Then it is the cheapest of those that were tried.
    """
    unit, there, tried = search.unit, search, list[tuple[LifeSearch, LifeChoice]]()
    for _ in range(ROUNDS):
        there, held = _at_itself(search, choice)
        moved = there.frontier([choice.confidence])[0]
        if held is not None:
            if moved is not None and moved.costs[unit] > (1 - CHEAPER) * held.costs[unit]:
                return there, moved
            tried.append((there, held))
        if moved is None:
            break
        choice = moved
    return min(tried, key=lambda pair: pair[1].costs[unit]) if tried else (there, None)


def _at_itself(search: LifeSearch, choice: LifeChoice) -> tuple[LifeSearch, LifeChoice | None]:
    """The choice at the same size whose tokens reach the loss with the law's error at these tokens, and the search with that."""
    before = choice
    for _ in range(TURNS):
        there, moved = _with_error_there(search, choice)
        if moved is None or abs(math.log(moved.D / choice.D)) < TOKENS_TOLERANCE:
            return there, moved
        before, choice = choice, moved
    return _between(search, before, choice)


def _with_error_there(search: LifeSearch, choice: LifeChoice) -> tuple[LifeSearch, LifeChoice | None]:
    """The choice at the same size with the law's error at a choice, and the search with that."""
    there = search.erring_at(choice)
    return there, there.at_sizes(np.array([choice.N]), choice.confidence)[0]


def _between(search: LifeSearch, first: LifeChoice, second: LifeChoice) -> tuple[LifeSearch, LifeChoice | None]:
    """The choice between two at one size that lead to each other; none where more tokens only lead farther out."""

    def enough(choice: LifeChoice) -> bool:
        """Whether the tokens reach the loss with the law's error at them."""
        needed = _with_error_there(search, choice)[1]
        return needed is not None and needed.D <= choice.D

    low, high = sorted((first, second), key=lambda choice: choice.D)
    if enough(low) or not enough(high):
        return search.erring_at(high), None
    while math.log(high.D / low.D) > TOKENS_TOLERANCE:
        middle = replace(low, D=math.sqrt(low.D * high.D))
        low, high = (low, middle) if enough(middle) else (middle, high)
    there = search.erring_at(high)
    return there, there.scored((math.nan, high.N, high.D), high.confidence)


def _next_run(fit: Fit, chosen: Index, settings: Mapping[str, Any], entropy: tuple[int, ...]) -> Array:
    """Effects and noise (S,) of a new run, relative."""
    group = fit.observed.groups_of(pd.DataFrame(dict(settings), index=[0]))
    zero = np.zeros(1, dtype=np.int64)
    return np.asarray(fit.noise.sample(fit.draws_of(chosen), zero, zero + 2, entropy, group=group)[0])


def _sizes(given: Range, losses: Losses) -> tuple[tuple[float, float], Array | None]:
    """The range of log N, and the sizes of a menu (m,)."""
    support = losses.support[0]
    if given is None:
        return support, None
    low, high, listed = read_range("sizes", given)
    if low <= 0 or not support[0] - ROUNDING <= math.log(low) <= math.log(high) <= support[1] + ROUNDING:
        least, most = (math.exp(end) for end in support)
        wrong = low if low <= 0 or math.log(low) < support[0] else high
        hint = f": did you mean {wrong:g}B?" if 0 < wrong < 1e4 else ""
        raise BayeslawError(
            f"A size of {wrong:g} parameters lies outside those of the law, {least:.3g} to {most:.3g}{hint or '.'}",
            code="size-out-of-range",
        )
    return (math.log(low), math.log(high)), None if listed is None else np.unique(listed)


def _menu(search: LifeSearch, choices: Sequence[LifeChoice | None], confidence: float) -> pd.DataFrame:
    """One row for each size of a menu: its choice at the confidence, its draws' own values, and how often it is the best."""
    if search.menu is None:
        return pd.DataFrame()
    own = search.own(search.menu, 1)[1].T
    rows = [
        _row(search.value, confidence, choice) | {"N": n, "probability_best": share}
        for n, choice, share in zip(search.menu.tolist(), choices, probability_best(own).tolist(), strict=True)
    ]
    spread = columns(np.exp(own).T, 0.9, "own_loss" if search.budgeted else f"own_{search.unit}", method="nearest")
    table = pd.DataFrame(rows).reindex(columns=[*COLUMNS, "probability_best"]).assign(**spread)
    return table.drop(columns=[c for c in UNITS if c not in search.costs.rates])


def _row(value: float, confidence: float, choice: LifeChoice | None) -> dict[str, Any]:
    """A row of a table of choices."""
    row: dict[str, Any] = {"given": value, "confidence": confidence, "plan": "infeasible" if choice is None else "feasible"}
    if choice is None:
        return row
    ratio = choice.D / choice.N
    return (
        row
        | {k: v for k, v in vars(choice).items() if k not in ("costs", "confidence", "unit")}
        | {"tokens_per_parameter": ratio}
        | dict(choice.costs)
    )


def _frontier(
    values: Array, levels: Sequence[float], chosen: Sequence[Sequence[LifeChoice | None]], costs: LifeCosts
) -> pd.DataFrame:
    """One row for each value and confidence."""
    pairs = zip(values.tolist(), chosen, strict=True)
    rows = [_row(value, level, choice) for value, row in pairs for level, choice in zip(levels, row, strict=True)]
    table = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    return table.drop(columns=[c for c in UNITS if c not in costs.rates])


def _notes(
    fit: Posterior, best: Sequence[LifeChoice | None], searches: Sequence[LifeSearch], beyond: Sequence[bool], confidence: float
) -> tuple[str, ...]:
    """Notes of places at limits, of sizes and tokens outside the runs, and of uncertain amounts."""
    search, each = searches[0], zip(best, searches, beyond, strict=True)
    notes = [_infeasible_note(own, erring, confidence) for choice, own, erring in each if choice is None]
    shown = [choice for choice in best if choice is not None]
    for name in ("N", "D"):
        notes += outside_note(f"the plan's {name}", [getattr(choice, name) for choice in shown], logged(fit.selections, name))
    if search.menu is None and any(min(abs(math.log(c.N) - end) for end in search.span) < 1e-6 for c in shown):
        notes.append("the plan's N lies at a limit of the sizes allowed")
    if any(beyond):
        notes.append(
            f"losses have the law's error at the {'deterministic plan' if search.budgeted else 'plan'} (extrapolated); "
            "sizes are compared by the law"
        )
    if not all(search.costs.certain(unit) for unit in search.costs.rates):
        notes.append(
            "costs are means over the uncertain amounts"
            + ("; the budget holds in the draws that are counted" if search.budgeted else "")
        )
    return tuple(notes)


def _infeasible_note(search: LifeSearch, beyond: bool, confidence: float) -> str:
    """Why no size keeps what was asked; `beyond` is whether losses have the law's error."""
    share, n = search.attainable()
    if share >= confidence and beyond and not search.budgeted:
        text = "is reached at no size: farther beyond the runs the law's error grows by more than the loss falls"
        return f"at confidence {confidence:g} the loss {search.value:g} {text}"
    reached = f"the loss {search.value:g} is reached, with however many tokens,"
    kept = "the budget pays for a model" if search.budgeted else reached
    fewer = f", but in fewer than {confidence:g} of the searched ones" if share >= confidence else ""
    return f"{kept} in at most {share:.3f} of the held-out draws, at N = {compact(n)}{fewer}"


def _unreached(searches: Sequence[LifeSearch], loss: Array) -> tuple[str, ...]:
    """A note of draws that reach a target loss at no size; loss (S, n) is that of their own best."""
    if searches[0].budgeted:
        return ()
    shares = [float((loss[:, i] > search.value * (1 + 1e-6)).mean()) for i, search in enumerate(searches)]
    return tuple(
        f"{share:.1%} of the draws reach the loss {search.value:g} at no size; their own N, D and costs count as infinite"
        for share, search in zip(shares, searches, strict=True)
        if share > 0
    )
