"""The base checkpoint's loss, from which forgetting is counted.

Published laws have a term in D that is infinite at D = 0, so that the base loss is never read off them: it is measured (rows with
D = 0 of the same model), follows from a law that is finite there, or is stated; which of them is always said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayeslaw.errors import BayeslawError
from bayeslaw.fits import Fit
from bayeslaw.point import PointFit
from bayeslaw.sides import PLANNED, Side, members
from bayeslaw.sweep import Array
from bayeslaw.tablechecks import complete

SAME = 1e-6  # relative difference under which a base checkpoint is of the planned model


@dataclass(frozen=True)
class Base:
    """The base checkpoint's loss.

    Attributes
    ----------
    log : array (S,)
        Its logarithm in each draw, in the order in which the first posterior's draws are paired.
    kind : {'measured', 'law', 'stated'}
    text : str
        What it is and where it is from.
    """

    log: Array
    kind: Literal["measured", "law", "stated"]
    text: str


def base_loss(side: Side, given: str | float | None, seed: int) -> Base:
    """The base checkpoint's loss, measured, by the law, or stated.

    Parameters
    ----------
    given : text, float or None
        A loss in nats, '2.873' or, with its standard error, '2.873+-0.01'; 'measured' or 'law'; None takes what is measured
        of this very model and else a law that is finite at D = 0.
    seed : int
        Of the errors of measured and stated losses.
    """
    where = ", ".join(f"{k} = {v:g}" if isinstance(v, float) else f"{k} = {v}" for k, v in side.settings.items())
    rng = np.random.default_rng((seed, PLANNED, 1))
    normal = rng.standard_normal(side.size)
    text = "" if given is None else str(given).strip()
    if text not in ("", "measured", "law"):
        value, error = _stated(text)
        shown = f"{value:g}" + (f" ± {error:g}" if error else "")
        return Base(math.log(value) + error / value * normal, "stated", f"base loss of {side.name} {shown} nats, as stated")
    if text != "law":
        rows, noise = _measured(side)
        if len(rows):
            logs = np.log(rows["loss"].to_numpy(dtype=np.float64))
            point = (noise[np.arange(side.size) % noise.size]) ** 2 if noise.size else np.zeros(side.size)
            if "loss_se" in rows:
                point = np.full(side.size, float(np.mean((rows["loss_se"] / rows["loss"]) ** 2)))
            if logs.size > 1:
                point = np.maximum(point, logs.var(ddof=1))
            errors = np.sqrt(point / logs.size)
            mean = float(np.exp(logs.mean()))
            shown = f"base loss of {side.name} {mean:.4g} ± {mean * float(np.median(errors)):.2g} nats, measured at D = 0 ({where})"
            return Base(logs.mean() + errors * normal, "measured", shown)
        if text == "measured" or not side.finite_at_base:
            why = f", and {side.posterior_name} is infinite at D = 0" if not side.finite_at_base else ""
            raise BayeslawError(
                f"The base loss of {side.name} is not known: no row with D = 0 is of this model ({where}){why}. "
                f"State it: --base-loss 2.31, or with its standard error --base-loss 2.31+-0.01.{_others(side)}"
            )
    if not side.finite_at_base:
        raise BayeslawError(
            f"{side.posterior_name} is infinite at D = 0, so the base loss of {side.name} can't be the law's: state it."
        )
    log = side.base(np.arange(side.size))
    middle = float(np.exp(np.median(log)))
    shown = f"base loss of {side.name} {middle:.4g} nats, by {side.posterior_name} at D = 0, draw by draw ({where})"
    return Base(log, "law", shown)


def _stated(text: str) -> tuple[float, float]:
    value, _, error = text.replace("±", "+-").partition("+-")
    try:
        numbers = float(value), float(error or 0.0)
    except ValueError:
        raise BayeslawError(
            f"A base loss is a loss in nats, 2.873 or 2.873+-0.01, or `measured` or `law`; {text!r} is none."
        ) from None
    if not (0 < numbers[0] <= 15 and 0 <= numbers[1] < 0.5 * numbers[0]):
        raise BayeslawError(
            f"A base loss lies above 0 and at 15 nats/token at most, and its error is far smaller; {text!r} is not so."
        )
    return numbers


def _base_rows(side: Side) -> tuple[pd.DataFrame, Fit | PointFit]:
    """All base rows that a fit knows of: those kept out of it, and those in it."""
    fit = members(side.posterior)[0][0]
    frame = fit.observed.base
    if "D" in fit.observed.covariates and (inside := fit.observed.covariates["D"] == 0).any():
        columns = {k: v[inside] for k, v in fit.observed.covariates.items()}
        frame = pd.DataFrame(columns).assign(loss=fit.observed.loss[inside])
        if fit.observed.se.size:
            frame["loss_se"] = fit.observed.se[inside] * frame["loss"]
    return frame, fit


def _measured(side: Side) -> tuple[pd.DataFrame, Array]:
    """Base rows of the planned model, and draws of the relative noise of a logged loss."""
    frame, fit = _base_rows(side)
    part = side.parts[0]
    if not len(frame) or "loss" not in frame:
        return frame.head(0), np.empty(0)
    marks = complete(frame, part.law)
    same = np.ones(len(frame), dtype=bool)
    for name, value in part.constants.items():
        if name not in marks:
            return frame.head(0), np.empty(0)
        same &= np.isclose(marks[name].to_numpy(dtype=np.float64), value, rtol=SAME, atol=0.0)
    noise = fit.noise.scales(fit.draws, "sigma_point")[0] if isinstance(fit, Fit) else np.empty(0)
    return frame[same], noise


def _others(side: Side) -> str:
    """Of which models there are base rows."""
    frame, _ = _base_rows(side)
    names = [k for k, v in side.settings.items() if k in frame and isinstance(v, float)]
    if not len(frame) or not names:
        return ""
    known = frame[names].drop_duplicates()
    shown = "; ".join(", ".join(f"{k} = {v:g}" for k, v in row.items()) for row in known.head(4).to_dict("records"))
    return f" There are rows with D = 0 at {shown}{', …' if len(known) > 4 else ''}."


def bases_of(sources: Sequence[Side], given: Any, seed: int) -> dict[str, Base]:
    """The base losses of the sources."""
    stated = dict(given) if isinstance(given, Mapping) else dict.fromkeys((s.name for s in sources), given)
    for name in stated:
        if name not in {s.name for s in sources}:
            raise BayeslawError(f"base-loss names {name!r}; the sources are {', '.join(s.name for s in sources)}.")
    return {s.name: base_loss(s, stated.get(s.name), seed + i) for i, s in enumerate(sources)}
