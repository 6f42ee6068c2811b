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

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.units import in_nats
from bayeslaw.data.validate import LOSS_SUPPORT, complete
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.domain_loss import PLANNED, Side, members
from bayeslaw.posterior.fit import Fit

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
        A loss in the unit of the source's fit, '2.873' or, with its standard error, '2.873+-0.01'; 'measured' or 'law'; None
        takes what is measured of this very model and else a law that is finite at D = 0.
    seed : int
        Of the errors of measured and stated losses.
    """
    where = ", ".join(f"{k} = {v:g}" if isinstance(v, float) else f"{k} = {v}" for k, v in side.settings.items())
    rng = np.random.default_rng((seed, PLANNED, 1))
    normal = rng.standard_normal(side.size)
    text = "" if given is None else str(given).strip()
    if text not in ("", "measured", "law"):
        value, error = _stated(text, side.unit)
        shown = f"{value:g}" + (f" ± {error:g}" if error else "")
        return Base(math.log(value) + error / value * normal, "stated", f"base loss of {side.name} {shown} {side.unit}, as stated")
    if text != "law":
        logs, variances = _measured(side)
        if logs.size:
            point = variances.mean(axis=0)[np.arange(side.size) % variances.shape[1]]
            if logs.size > 1:
                point = np.maximum(point, logs.var(ddof=1))
            errors = np.sqrt(point / logs.size)
            mean = float(np.exp(logs.mean()))
            shown = f"{mean:.4g} ± {mean * float(np.median(errors)):.2g} {side.unit}, measured at D = 0 ({where})"
            return Base(logs.mean() + errors * normal, "measured", f"base loss of {side.name} {shown}")
        if text == "measured" or not side.finite_at_base:
            why = f", and {side.posterior_name} is infinite at D = 0" if not side.finite_at_base else ""
            raise BayeslawError(
                f"The base loss of {side.name} is not known: no row with D = 0 is of this model ({where}){why}. "
                f"State it, with its standard error if that is known (--base-loss 2.31+-0.01).{_others(side)}"
            )
    if not side.finite_at_base:
        raise BayeslawError(
            f"{side.posterior_name} is infinite at D = 0, so the base loss of {side.name} can't be the law's: state it."
        )
    log = side.base(np.arange(side.size))
    middle = float(np.exp(np.median(log)))
    shown = f"base loss of {side.name} {middle:.4g} {side.unit}, by {side.posterior_name} at D = 0, draw by draw ({where})"
    return Base(log, "law", shown)


def _stated(text: str, unit: str) -> tuple[float, float]:
    value, _, error = text.replace("±", "+-").partition("+-")
    try:
        numbers = float(value), float(error or 0.0)
    except ValueError:
        raise BayeslawError(
            f"A base loss is a loss in {unit}, 2.873 or 2.873+-0.01, or `measured` or `law`; {text!r} is none."
        ) from None
    most = LOSS_SUPPORT[1] / in_nats(unit)
    if not (0 < numbers[0] <= most and 0 <= numbers[1] < 0.5 * numbers[0]):
        raise BayeslawError(
            f"A base loss lies above 0 and at {most:.3g} {unit} at most, and its error is far smaller; {text!r} is not so."
        )
    return numbers


def _base_rows(side: Side) -> tuple[pd.DataFrame, pd.DataFrame, Fit | PointFit]:
    """All base rows that a fit knows of, those kept out of it or those in it; the checkpoint and the group of noise of each.

    Groups are by number, -1 where it isn't known. Without a column that tells checkpoints apart, a model has one.
    """
    fit = members(side.posterior)[0][0]
    seen, frame = fit.observed, fit.observed.base
    if "D" in seen.covariates and (inside := seen.covariates["D"] == 0).any():
        columns = {k: v[inside] for k, v in seen.covariates.items()}
        frame = pd.DataFrame(columns).assign(loss=seen.loss[inside])
        if seen.se.size:
            frame["loss_se"] = seen.se[inside] * frame["loss"]
        run = seen.run[inside]
        return frame, pd.DataFrame({"checkpoint": seen.checkpoint[run], "group": seen.group[run]}), fit
    told = next((c for c in ("checkpoint", "seed") if c in frame), None)
    column, names = seen.group_column, pd.Index(seen.group_names)
    group = names.get_indexer(pd.Index(frame[column].astype(str))) if column in frame else np.full(len(frame), -1)
    return frame, pd.DataFrame({"checkpoint": frame[told] if told else 0, "group": group}, index=frame.index), fit


def _measured(side: Side) -> tuple[Array, Array]:
    """Log losses (n,) of the planned model's base checkpoints, and draws (n, s) of the variances of their errors.

    Copies of one evaluation, which every run of a branch may log, count once. Known errors are added to the noise of a logged
    loss; where it differs by group and a row's isn't known, to the largest.
    """
    frame, of, fit = _base_rows(side)
    part = side.parts[0]
    none = np.empty(0), np.empty((0, 1))
    if not len(frame) or "loss" not in frame:
        return none
    marks = complete(frame, part.law)
    same = np.ones(len(frame), dtype=bool)
    for name, value in part.constants.items():
        if name not in marks:
            return none
        same &= np.isclose(marks[name].to_numpy(dtype=np.float64), value, rtol=SAME, atol=0.0)
    same[same] = ~of[same].assign(loss=frame["loss"][same]).duplicated(["checkpoint", "loss"]).to_numpy()
    rows, group = frame[same], of["group"][same].to_numpy()
    loss = rows["loss"].to_numpy(dtype=np.float64)
    variances = np.zeros((loss.size, 1))
    if isinstance(fit, Fit):
        scales = fit.noise.scales(fit.draws, "sigma_point")
        largest = int(np.median(scales, axis=1).argmax())
        variances = scales[np.where(group < 0, largest, group) if fit.noise.groups else np.zeros_like(group)] ** 2
    if "loss_se" in rows:
        variances = variances + ((rows["loss_se"].to_numpy(dtype=np.float64) / loss) ** 2)[:, None]
    return np.log(loss), variances


def _others(side: Side) -> str:
    """Of which models there are base rows."""
    frame = _base_rows(side)[0]
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
