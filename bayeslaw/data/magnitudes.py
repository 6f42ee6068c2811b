"""Numbers of parameters and tokens that are too small: the units that they may be in, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index, holds_numbers
from bayeslaw.core.errors import Fault

LEAST_PER_PARAMETER, LEAST_TRAINING = 0.02, 1e6  # tokens of the longest run of a table
LEAST_USUAL = 1e4  # parameters and tokens: of columns with smaller middles all may be in millions or billions
# Of the largest model of a table and its longest training: fewer and more than anyone would train, nearly.
PARAMETERS, TOKENS, TOKENS_PER_PARAMETER = (1e6, 2e12), (LEAST_TRAINING, 1e14), (0.5, 1e5)
UNITS = {"millions": 1e6, "billions": 1e9}
LOGARITHMS = (6.0, 31.0)  # of a million to base 10, and of 10^13 to base e
LEAST_STEPS = 100  # from which on whole numbers may be steps
# Factors by which N or D of single runs seems out. The limits were chosen on public tables: no sound run of these is named, and
# most of those that were put out by 1,000 are (tests/integration/test_real_data.py).
FACTORS = (1e3, 1e6, 1e9)
APART = 30.0  # factor by which sizes of such runs lie from all others
ODD, MOST_ODD, LEAST_RUNS = 0.1, 20, 5  # share and number of such runs, at most, and number of all runs, at least
BESIDE = 3  # runs nearest in the other size, with whose losses theirs are compared
HIGHER, LOWER = 1.1, 1.03  # factors by which a loss may be higher where a size seems too small, and lower where it seems too large
ROOM = 1.5  # factor by which a corrected size may lie outside the others
UNIT_OF_ALL = ", or its unit: --column {name}=COLUMN:M or :B (columns={{'{name}': 'COLUMN:M'}})"
OF_STEPS = "; of steps its factor is the tokens of a step: --column D=COLUMN:524288 (columns={'D': 'COLUMN:524288'})"
OF_EXAMPLES = "; a column of examples keeps its name, such as --column {name}=n_examples (columns={{'{name}': 'n_examples'}})"
UNIT_OF_SETTING = ", or its unit with it: --set {name}=7B (in Python {{'{name}': '7B'}})"


def ask_unit(units: Sequence[str], *, steps: bool = False, values: pd.Series | None = None) -> str:
    """Ask for the unit of numbers that are too small.

    Parameters
    ----------
    units : sequence of str
        Those that they may be in.
    steps : bool
        Whether to ask if they count steps.
    values : Series, optional
        The numbers: whether they are logarithms is asked of those that all may be.
    """
    asked = [*([f"is it in {' or in '.join(units)}"] if units else []), *(["does it count steps"] if steps else [])]
    low, high = (0.0, 0.0) if values is None else (values.min(), values.max())
    if LOGARITHMS[0] <= low < high <= LOGARITHMS[1] and high < 2 * low:
        asked.append("is it a logarithm")
    return f": {', or '.join(asked)}?" if asked else ""


def unit_faults(frame: pd.DataFrame, names: Iterable[str]) -> list[Fault]:
    """Return faults of columns N and D that are so small that they are in another unit, where no law has them as covariates.

    Parameters
    ----------
    frame, names : DataFrame, names of columns
    """
    faults = []
    for name in names:
        largest = float(frame[name].max())
        if 0 < largest < LEAST_USUAL:
            asked = ask_unit(units_within(largest, *(PARAMETERS if name == "N" else TOKENS)))
            way = f"give the number of {'parameters' if name == 'N' else 'tokens'}{UNIT_OF_ALL.format(name=name)}"
            faults.append(Fault(None, name, "", f"{name} is at most {largest:g} in all rows{asked}", way, "unit-of-size"))
    return faults


def units_within(largest: float, least: float, most: float) -> list[str]:
    """Return the units in which the largest number of a column would be neither too small nor too large.

    Parameters
    ----------
    largest, least, most : float
        The largest number as it stands, and the smallest and the largest that anyone would have.
    """
    return [unit for unit, factor in UNITS.items() if least <= largest * factor <= most]


def units_of_tokens(frame: pd.DataFrame, tokens: pd.Series) -> list[str]:
    """Return the units that tokens may be in; where the sizes of the models are known, these tell which."""
    units = units_within(tokens.max(), *TOKENS)
    if "N" not in frame or not holds_numbers(frame["N"]) or not frame["N"].min() > LEAST_USUAL:
        return units
    fitting = units_within((tokens / frame["N"]).max(), *TOKENS_PER_PARAMETER)
    return [unit for unit in units if unit in fitting] or units


def may_be_steps(tokens: pd.Series) -> bool:
    """Whether tokens may be the steps of an optimiser: whole numbers, and not all small."""
    return bool((tokens == tokens.round()).all() and tokens.max() >= LEAST_STEPS)


def out_of_line(size: Array, beside: Array, loss: Array, sign: int) -> tuple[Index, Index, float]:
    """Return the few runs whose size seems out by one of `FACTORS`, outermost first, the other runs, and the factor.

    A size that is far below all others, and among them after multiplication by a factor, may be right: then its loss is much higher
    than those of runs beside it.

    Parameters
    ----------
    size, beside, loss : arrays (n,)
        Sizes or tokens of runs, what runs beside each other have nearly the same of, and losses.
    sign : int
        1 for sizes that are too small, and -1 for those that are too large.
    """
    order = np.argsort(sign * size, kind="stable")
    few = max(1, min(MOST_ODD, int(ODD * size.size))) + 1 if size.size >= LEAST_RUNS else 0
    gaps = np.flatnonzero(sign * np.diff(np.log(size[order[:few]])) > math.log(APART))
    odd, others = np.split(order, [1 + int(gaps[-1]) if gaps.size else 0])
    low, high, out_by = size[others].min(initial=np.inf) / ROOM, size[others].max(initial=0.0) * ROOM, dict[int, float]()
    for i in odd.tolist():
        near = loss[others[np.argsort(np.abs(np.log(beside[others] / beside[i])), kind="stable")[:BESIDE]]]
        factor = next((f for f in FACTORS if low <= size[i] * f**sign <= high), 0.0)
        if factor and (loss[i] <= HIGHER * near.max() if sign > 0 else loss[i] >= near.min() / LOWER):
            out_by[i] = factor
    return np.array([*out_by], dtype=np.int64), others, next(iter(out_by.values()), 0.0)
