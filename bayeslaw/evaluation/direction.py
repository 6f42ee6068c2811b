"""Directions in which forecasts leave their runs: compute, N, D, PTPP or steps, in which distances are counted in e-folds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.core.flops import FLOPS
from bayeslaw.data.columns import did_you_mean
from bayeslaw.data.measured import cell_faults
from bayeslaw.data.table import Runs

DIRECTIONS = ("compute", "N", "D", "ptpp", "step")
IN_WORDS = {"ptpp": "PTPP", "step": "steps"}
FROM_ZERO = ("compute", "D", "step")  # directions in which a run begins at 0, where base checkpoints lie
GROUP_WIDTH = 0.1  # e-folds within which values count as one: sizes of models in a group of equal compute differ by such amounts
LEAST_VALUES = 3  # in a direction: two to fit and one to forecast


def direction(runs: Runs, by: str) -> pd.Series:
    """Return the value of each row in a direction, a Series (n,) by row; 0 where a run begins, otherwise positive.

    Compute is the column `flops`, as logged, or 6 N D. Base checkpoints (D = 0) have none, whatever their pre-training took.
    """
    if by not in DIRECTIONS:
        given = shortened(repr(by))
        hint = (
            " Parameters vary by a column with --pool (options={'by': …})." if "=" in str(by) else did_you_mean(str(by), DIRECTIONS)
        )
        raise BayeslawError(f"A backtest goes along {', '.join(DIRECTIONS)}, not along {given}.{hint}", code="unknown-direction")
    frame, known = runs.frame, [str(c) for c in runs.frame]
    product = by == "compute" and "flops" not in frame
    needed = ["N", "D"] if product else ["flops"] if by == "compute" else [by]
    others = " or ".join(name for name in DIRECTIONS[1:] if name != by and name in frame)
    advice = f"add {'N and D, or flops' if product else by}" + (f", or go along {others} (--by, by=)" if others else "")
    faults = []
    for name in needed:
        if name not in frame:
            other = ", or a column flops" if product else ""
            problem = f"a backtest along {by} needs the column {name}{other}; there are {', '.join(known)}"
            faults.append(Fault(None, name, "", problem, did_you_mean(name, known).strip() or advice, "missing-column"))
        elif not holds_numbers(frame[name]):
            faults.append(Fault(None, name, "", f"column {name} holds no numbers", "give numbers", "column-without-numbers"))
        else:
            faults += _cell_faults(frame, name, by)
    if faults:
        raise TableError(faults, runs.name)
    values = FLOPS * frame["N"].astype(float) * frame["D"].astype(float) if product else frame[needed[0]].astype(float)
    if by == "compute" and "D" in frame:
        values = values.mask(frame["D"] == 0, 0.0)
    return values.rename(by)


def _cell_faults(frame: pd.DataFrame, column: str, by: str) -> list[Fault]:
    """Return the faults of cells that have no place along a direction."""
    cells = frame[column].astype(float)
    empty, suggestion = cells.isna() | np.isinf(cells), "fill it in or remove the row"
    faults = [*cell_faults(frame, column, empty, f"{column} is missing or not finite", suggestion, "missing-value")]
    low = (cells < 0) | ((cells == 0) & (column not in (*FROM_ZERO, "flops")))
    problem, suggestion = f"{column} {{value}} is not positive", f"a backtest along {by} counts e-folds: correct or remove the row"
    return [*faults, *cell_faults(frame, column, low & ~empty, problem, suggestion, "not-positive")]


def group_ends(values: Array) -> list[float]:
    """Return the largest value of each group of positive values within `GROUP_WIDTH` e-folds of the smallest of them, ascending."""
    ends = list[float]()
    start = 0.0
    for value in np.unique(values).tolist():
        if value > start * math.exp(GROUP_WIDTH):
            start = value
            ends.append(value)
        elif ends:
            ends[-1] = value
    return ends
