"""What to keep in mind about a plan (`planning.plan`): why there is none, its place in the box, and checks of the losses there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Index
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.outside import outside
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.noise.walk import directions
from bayeslaw.planning.domain_loss import DomainLoss
from bayeslaw.planning.problem import PlanProblem, logged_tokens
from bayeslaw.planning.search import Optimum, Search, values_at
from bayeslaw.posterior.diagnostics import Reach, distrusted, extrapolation, failed_text
from bayeslaw.posterior.fit import Fit

if TYPE_CHECKING:
    from bayeslaw.planning.plan import PlanPoint

LIMITS = "--tokens or --atpp, tokens= or atpp="
EDGE = 1e-3  # of the box, within which a plan lies on its edge


def infeasible_notes(problem: PlanProblem, most: PlanPoint | None, confidence: float, draws: Index) -> list[str]:
    """Why no plan satisfies the constraints with the confidence asked for.

    Parameters
    ----------
    problem, most, confidence, draws : PlanProblem, PlanPoint or None, float, int array (s,)
        `most` is where most of the searched draws satisfy every constraint, None where no draw does anywhere.
    """
    if most is None:
        return _no_draw_notes(problem, confidence, draws)
    each = ", ".join(f"{name} {share:.0%}" for name, share in most.by_constraint.items())
    limit = _limit(problem, math.log(most.tokens), most.replay)
    return [
        f"no plan of {_searched(problem)} tokens satisfies every constraint with probability {confidence:g}: at most "
        f"{most.searched:.3f} of the searched draws do, at {most.place}; {most.probability} of the held-out ones",
        f"active constraint: {most.active} (probability of satisfying each constraint there: {each}){limit}",
    ]


def _no_draw_notes(problem: PlanProblem, confidence: float, draws: Index) -> list[str]:
    """Which constraints are out of reach and what is nearest to them; or where each is satisfied, if never in one place."""
    alone, reached, notes = Search((), problem.box, problem.log_price), list[str](), list[str]()
    for constraint in problem.constraints:
        (nearest,) = alone.lowest(draws, [(draws.size + 1) // 2], constraint.loss)
        if nearest is None:  # the budget allows none of the listed tokens
            continue
        share = float((values_at(constraint, draws, nearest.x, nearest.r) >= 0).mean())
        unit = f" {constraint.loss.unit}" if isinstance(constraint.loss, DomainLoss) else ""
        if share >= confidence:
            reached.append(f"{constraint.name} {share:.0%} at {_at(problem, nearest)}")
            continue
        limit = math.exp(float(np.median(constraint.limit[draws])))
        notes.append(
            f"active constraint: {constraint.name}, which is out of reach by itself: the limit is {limit:.4g}{unit}, and the "
            f"lowest median of the searched settings is {math.exp(nearest.value):.4g}, at {_at(problem, nearest)}"
        )
    if reached and not notes:
        places = "; ".join(reached)
        notes = [f"each constraint is satisfied somewhere, but not all in one place (probability of satisfying each: {places})"]
    return [f"no draw satisfies every constraint with {_searched(problem)} tokens, which were searched", *notes]


def _at(problem: PlanProblem, place: Optimum) -> str:
    """A place in words, with the limit of the search that it lies at."""
    return f"{math.exp(place.x):.3g} tokens, r = {place.r:.3g}{_limit(problem, place.x, place.r)}"


def _limit(problem: PlanProblem, x: float, r: float) -> str:
    """The limit of the search that log tokens lie at, and how to move it, as the end of a sentence; empty inside the box."""
    high, budget = problem.box.high, problem.box.budget(r)
    if x + EDGE < min(high, budget):
        return ""
    return (
        ", and the budget allows no more tokens" if budget < high else f", and no more tokens were searched: allow more ({LIMITS})"
    )


def mixture_note(problem: PlanProblem) -> list[str]:
    """Return a note that the plan keeps the mixture of the runs, where no law has a replay share."""
    laws = [member.law for loss in problem.losses for member in loss.member_draws]
    if any("r" in law.covariates for law in laws):
        return []
    names = " and ".join(dict.fromkeys(law.name for law in laws))
    return [f"the plan keeps the mixture of the runs: a replay share is unknown to {names}, and r = 0 stands for any"]


def frontier_note(problem: PlanProblem, without: Sequence[float]) -> list[str]:
    """Return a note of the tokens that were searched where some confidences of the frontier have no plan."""
    at = ", ".join(f"{confidence:g}" for confidence in without)
    tokens = f"there is no plan of {_searched(problem)} tokens at confidence {at}"
    return [f"{tokens}: limits ({LIMITS}) and budgets say which are searched"] if without else []


def _searched(problem: PlanProblem) -> str:
    """The fewest and the most tokens that were searched."""
    x = problem.box.log_tokens()
    low, high = math.exp(x[0]), math.exp(min(x[-1], max(x[0], *(problem.box.budget(r) for r in problem.box.replay))))
    return f"{low:.3g}" if high <= low else f"{low:.3g} to {high:.3g}"


def edge_notes(problem: PlanProblem, shown: PlanPoint) -> list[str]:
    """Warnings of a plan on the edge of the box, or beyond the logged tokens."""
    box, x, notes = problem.box, math.log(shown.tokens), []
    top = min(box.high, box.budget(shown.replay))
    width = EDGE * (box.high - box.low)
    if box.high > box.low:
        if x >= top - max(width, 1e-9):
            upper = f"the plan lies on the upper edge of the box ({shown.tokens:.3g} tokens): allow more ({LIMITS})"
            notes.append("the plan uses the whole budget" if top < box.high else upper)
        elif x <= box.low + width:
            fewest = f"the plan lies on the lower edge of the box ({shown.tokens:.3g} tokens): "
            aim = (
                "no constraint needs more: give a largest target loss (--max-loss, max_loss=), or minimise it within a budget "
                "(--minimise target-loss --max-tokens, minimise='target-loss', max_tokens=)"
            )
            asked = math.isfinite(problem.max_loss) or problem.objective is not None
            notes.append(fewest + (f"allow fewer ({LIMITS})" if asked else aim))
    low, high = box.replay
    if high > low and min(shown.replay - low, high - shown.replay) <= EDGE * (high - low):
        notes.append(f"the plan lies on the edge of the replay shares allowed (r = {shown.replay:.3g} of {low:g} to {high:g})")
    _, most, per_parameter = logged_tokens([loss.posterior for loss in problem.losses])
    unit, name = (problem.n, "ATPP") if per_parameter else (1.0, "D")
    if shown.tokens / unit > most * (1 + 1e-9):
        notes.append(f"the plan's {name} {shown.tokens / unit:.3g} lies beyond the {most:.3g} that were logged")
    return notes


def several_intervals_note(problem: PlanProblem, draws: Index, r: float) -> list[str]:
    """Return a note of the draws in which constraints hold on several intervals of tokens at a replay share, if there are some.

    Parameters
    ----------
    problem, draws, r : PlanProblem, int array (s,), float
        The draws are those that were searched.
    """
    x = problem.box.log_tokens()
    if not problem.constraints or x.size == 1 or problem.box.listed_x is not None:
        return []
    share = float(problem.search.intervals(draws, x, np.array([r]))[0].several.mean())
    where = f"on several intervals of tokens at r = {r:.3g}"
    return [f"in {share:.1%} of the draws the constraints hold {where}; all of them count"] if share else []


def checked_loss(loss: DomainLoss, shown: PlanPoint, force: bool, *, stated: bool) -> tuple[list[str], list[str]]:
    """Failures of the checks of a loss at the plan, and warnings of its base loss and of covariates far outside its runs.

    Parameters
    ----------
    loss, shown : DomainLoss, PlanPoint
        The plan, or the place that is shown where there is none.
    force : bool
        Whether failures are returned; else they are refused.
    stated : bool
        Whether an error of the law that the user stated is counted there.
    """
    if isinstance(loss.posterior, PointFit):
        return [], []
    frame = pd.DataFrame([dict(loss.settings) | {"D": shown.tokens, "r": shown.replay}])
    checks = forecast(loss.posterior, frame, discrepancy="none", force=True).checks
    failed = failed_text(checks)
    if failed and not force:
        raise distrusted(f"Sampling of the loss of {loss.name} at the plan ({shown.place})", checks)
    warnings = [f"{check.text}. {check.advice}" for check in checks if check.name == "base_loss"]
    for fit in (fit for fit, _ in loss.posterior.selections if isinstance(fit, Fit)):
        distance, reach = outside(fit, fit.law.arrays(complete(frame, fit.law))), Reach.by_axis(fit.law, fit.observed)
        (where,), check = extrapolation(distance, reach)
        if not check.passed:
            counted = {"D"} if any(loss.errors) and "D" in directions(fit.law) else set[str]()
            far = [name for name in ("D", "r") if name in distance and distance[name].item() > reach[name].far]
            uncounted = [] if stated else [name for name in far if name not in counted]
            warnings.append(f"{loss.name}: the plan lies {where}{_uncounted(fit.law, uncounted)}")
    failures = [f"loss of {loss.name} FAILED its checks at the plan: {failed}"] if failed else []
    return failures, list(dict.fromkeys(warnings))


def _uncounted(law: Law, beyond: Sequence[str]) -> str:
    """Say that a plan far beyond the runs in tokens or replay has no error of the law there."""
    if not beyond:
        return ""
    text = f", where the law counts as exact along {' and '.join(beyond)}: if it errs, the probabilities are too high. "
    if "D" not in directions(law):
        return text + "State an error (--discrepancy 2%, discrepancy='2%'), or keep tokens and replay within the runs"
    return text + "Keep tokens and replay within the runs, or log longer ones"
