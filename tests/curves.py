"""Trainings in two phases under several schedules, as rows of the covariates of the laws of the dynamics."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.schedules import schedule as schedules
from bayeslaw.schedules.areas import trace
from bayeslaw.schedules.changes import nodes
from bayeslaw.schedules.schedule import Schedule
from tests.values import present

REPLAY = (0.0, 0.2, 0.5, 0.8)


def before(number: int, steps: int, peak: float) -> Schedule:
    """Return the pre-training of a run, whose schedule and length depend on the run's number."""
    steps, warmup = round(steps * (1 + 0.15 * (number % 4))), steps // 50
    match number % 4:
        case 0:
            return schedules.wsd(steps, peak, warmup=warmup)
        case 1:
            return schedules.constant(steps, peak, warmup=warmup)
        case 2:
            return schedules.cosine(steps, peak, warmup=warmup)
        case _:
            return schedules.multistep(steps, peak, warmup=warmup)


def after(number: int, steps: int, peak: float, last: float) -> Schedule:
    """Return the adaptation of a run that starts from the last rate of its pre-training."""
    steps, warmup = round(steps * (1 + 0.2 * (number % 3))), max(steps // 20, 1)
    high = peak * (0.4, 0.8, 0.6)[number % 3]
    match (number + number // 3) % 3:
        case 0:
            return schedules.constant(steps, max(last, high), warmup=warmup, start=min(last, high))
        case 1:
            return schedules.cosine(steps, max(last, high), warmup=warmup, start=min(last, high))
        case _:
            return schedules.linear(steps, last)


def curves(runs: int = 6, points: int = 5, *, peak: float = 3e-4, steps: int = 8_000, changes: bool = True) -> pd.DataFrame:
    """Return rows of some runs, two fifths of their points in pre-training, the others in adaptation, with nodes if `changes`."""
    return _curves(runs, points, peak, steps, changes).copy()


@lru_cache
def _curves(runs: int, points: int, peak: float, steps: int, changes: bool) -> pd.DataFrame:
    tables = []
    for number in range(runs):
        high = peak * (1.0, 0.7, 1.3)[(number + number // 2) % 3]
        first = before(number, steps, high)
        early, end = trace(first, at := _spread(len(first), 2 * points // 5 or 1))
        second = after(number, steps // 2, high, present(end.pretrain).rate)
        late, _ = trace(second, then := _spread(len(second), points - len(early)), end, phase="adapt")
        table = pd.concat([early, late], ignore_index=True)
        if changes:
            of_phases = [nodes(first, at), nodes(second, then, first)]
            table = pd.concat([table, pd.concat(of_phases, ignore_index=True)], axis=1)
        table["step"] = [*at, *(len(first) + then)]
        table["r"], table["N"] = REPLAY[(number + number // 4) % 4], (5e7, 2e8, 1e9)[(number + number // 3) % 3]
        tables.append(table.assign(run=f"run {number}"))
    return pd.concat(tables, ignore_index=True)


def _spread(steps: int, points: int) -> NDArray[np.int64]:
    """Return steps of a phase, denser at its beginning; the last is its end."""
    return np.round(np.geomspace(steps / 20, steps, points)).astype(np.int64)
