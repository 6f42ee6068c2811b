"""Covariates of laws of training dynamics for a training in two phases, pre-training and adaptation.

Each phase has its own areas: S1_pt and S2_pt stay constant during adaptation, S1_cpt and S2_cpt are 0 before it. The momentum of
the annealing is carried over the boundary, so that the change of the rate there, from the last one of pre-training to the first
of adaptation, counts in S2_cpt like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.errors import BayeslawError, shown
from bayeslaw.schedules.schedule import MEMORY, Schedule, State, areas, require_schedule

Phase = Literal["pretrain", "adapt"]
PHASES: tuple[Phase, ...] = get_args(Phase)
POWER = 0.1  # epsilon of the LR-weighted area; Wang et al. try 0.1 and 0.2
FORWARD = ("S1", "S1_pt", "S1_cpt")
"""Names of forward areas: of a whole training, of its pre-training, of its adaptation."""
NO_AREA = 1e-9  # as which a forward area of 0 counts where logarithms are taken: less than that of any step


@dataclass(frozen=True)
class Point:
    """The state of a training between two steps.

    Attributes
    ----------
    pretrain, adapt : State or None
        Areas of pre-training, None for an open model whose pre-training is unknown, and of adaptation, None before it has begun.
    weighted : (float, float)
        LR-weighted annealing areas of the two phases.
    peak : float
        Highest rate of the phase so far.

    Examples
    --------
    >>> bayeslaw.schedules.Point(None) == bayeslaw.schedules.OPEN
    True
    """

    pretrain: State | None
    adapt: State | None = None
    weighted: tuple[float, float] = (0.0, 0.0)
    peak: float = 0.0

    @property
    def last(self) -> State:
        """The state from which the next step continues; for an open model we assume a last rate of 0 (Wang et al., section 6)."""
        return self.adapt or self.pretrain or State(0.0)


OPEN = Point(None)


def require_start(start: object) -> None:
    """Refuse a state before a phase that is no `Point`."""
    if start is not None and not isinstance(start, Point):
        wanted = (
            "what bayeslaw.schedules.trace returns beside its table, Curves.at a point of a logged run, or OPEN if it is unknown"
        )
        raise BayeslawError(f"The state of a training is {wanted}, not {shown(start)}.", code="not-a-point")


def trace(
    schedule: Schedule,
    at: ArrayLike,
    start: Point | None = None,
    *,
    phase: Phase = "pretrain",
    memory: float = MEMORY,
    power: float = POWER,
    weight: float = 1.0,
) -> tuple[pd.DataFrame, Point]:
    """Return the covariates of a training after some steps of a phase, and its state after the last step of the phase.

    Parameters
    ----------
    schedule, at : Schedule, int array (n,)
        Rates of the phase's steps, and steps of the phase from 0 (before its first) to its last.
    start : Point, optional
        The state before; none for a new training, `OPEN` for the adaptation of a model whose pre-training is unknown.
    phase : {'pretrain', 'adapt'}
    memory, power, weight : float
        As in `schedule.areas`; power is that of the weighted areas.

    Returns
    -------
    DataFrame
        Columns step, lr (nan at step 0 of a new training), lr_peak, S1_pt, S2_pt, S2w_pt, S1_cpt, S2_cpt, S2w_cpt and their
        sums S1, S2, S2w; those of an unknown pre-training are nan.
    Point

    Examples
    --------
    >>> table, end = bayeslaw.schedules.trace(bayeslaw.schedules.cosine(100, 1e-3), np.array([50, 100]))
    >>> table.shape
    (2, 12)
    """
    require_schedule(schedule)
    require_start(start)
    at = schedule.steps_at(at)
    if phase not in PHASES:
        raise BayeslawError(f"phase is {phase!r}; it must be {' or '.join(PHASES)}.", code="unknown-phase")
    if phase == "adapt" and start is None:
        raise BayeslawError("An adaptation needs the state after its pre-training, or OPEN if unknown.", code="missing-pretraining")
    if phase == "pretrain" and start is not None and (start.adapt is not None or start.pretrain is None):
        raise BayeslawError("A pre-training can't continue after an adaptation.", code="pretraining-after-adaptation")
    here = start or Point(None)
    new = phase == "adapt" and here.adapt is None
    before = replace(here.last, S1=0.0, S2=0.0) if new else (None if start is None else here.last)
    plain = areas(schedule, before, memory=memory, weight=weight)
    w0 = 0.0 if new else here.weighted[phase == "adapt"]
    lr_weighted = areas(schedule, None if before is None else replace(before, S2=w0), memory=memory, power=power, weight=weight)
    first = (before.S1, before.S2) if before else (0.0, 0.0)
    own = [np.append(f, values)[at] for f, values in zip((*first, w0), (plain.S1, plain.S2, lr_weighted.S2), strict=True)]
    highest = np.maximum.accumulate(np.append(0.0 if new else here.peak, schedule.rates))
    rates = np.append(here.last.rate if start is not None else np.nan, schedule.rates)
    if phase == "adapt":
        pt = here.pretrain
        pairs = [np.full(at.size, v) for v in ((pt.S1, pt.S2, here.weighted[0]) if pt else (np.nan,) * 3)], own
    else:
        pairs = own, [np.zeros(at.size)] * 3
    columns = {"step": at, "lr": rates[at], "lr_peak": highest[at]}
    for name, pt_area, cpt_area in zip(("S1", "S2", "S2w"), *pairs, strict=True):
        columns |= {f"{name}_pt": pt_area, f"{name}_cpt": cpt_area, name: pt_area + cpt_area}
    table = pd.DataFrame(columns)
    last, peak = float(lr_weighted.S2[-1]), float(highest[-1])
    if phase == "adapt":
        return table, Point(here.pretrain, plain.end, (here.weighted[0], last), peak)
    return table, Point(plain.end, None, (last, 0.0), peak)
