"""What is to be said of a plan: where it lies, what limits it, and whether its losses can be trusted there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import FitError
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.parts import outside
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.domain_loss import Side, members
from bayeslaw.planning.problem import Question, logged
from bayeslaw.posterior.diagnostics import Reach, extrapolation
from bayeslaw.posterior.fit import Fit

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
