"""Cells of tables as numbers, and columns of unknown meaning as they are given: no two of their values become one number."""

from __future__ import annotations

import math
import numbers
import re
from decimal import Decimal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import holds_numbers

EMPTY = {"", "nan", "na", "null", "none"}  # cells that stand for no value
PADDED = re.compile(r"[+-]?0\d+")  # as 007, which is a name
EXACT, LARGEST = 2**53, 2**63 - 1  # whole numbers up to which floats have all, and up to which integers go
TRAILING = re.compile(r"[+-]?\d*\.\d+0")  # as 1.10, which is no 1.1 where it names a version


def numbers_in(cells: pd.Series) -> pd.Series:
    """Return cells as floats, nan where a cell holds no number; whole numbers too large for a float are infinite."""
    if holds_numbers(cells):
        return cells.astype(np.float64)
    given = cells.tolist()
    of_text = {text: _number(text) for text in {cell for cell in given if type(cell) is str}}  # many rows repeat them
    values = [of_text[cell] if type(cell) is str else _number(cell) for cell in given]
    return pd.Series(values, index=cells.index, dtype=np.float64)


def _number(cell: object) -> float:
    if isinstance(cell, np.ndarray) and cell.ndim == 0 and holds_numbers(cell):  # as some programs log a loss
        cell = cell.item()
    if not isinstance(cell, (str, numbers.Real, Decimal)) or (isinstance(cell, str) and "_" in cell):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf
    except (ValueError, TypeError):
        return math.nan


def empty(cells: pd.Series) -> pd.Series:
    """Return whether each cell stands for no value."""
    if not cells.size:
        return pd.Series(dtype=bool)
    return cells.isna() | cells.astype(str).str.strip().str.lower().isin(EMPTY)


def spelt_numbers(cells: pd.Series) -> pd.Series | None:
    """Return the numbers that a column holds, as floats, also where they are texts or truth values; None if it holds others too."""
    values = numbers_in(cells)
    return values if empty(cells[values.isna()]).all() else None


def as_given(cells: pd.Series, *, typed: bool) -> pd.Series:
    """Return a column of unknown meaning: as numbers where that loses nothing, otherwise as it is.

    Identifiers, versions and codes look like numbers: 1.1 and 1.10, 007, 12e4567. A law that has the column as a covariate makes
    numbers of it (`bayeslaw.data.validate.complete`), and so do conditions that compare it with numbers.

    Parameters
    ----------
    cells : Series
    typed : bool
        Whether it comes from memory, where texts are texts because their owner wants them so; files have no types.
    """
    if isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "biu":
        return cells
    if holds_numbers(cells):
        return cells.astype(np.float64)
    values = numbers_in(cells)
    missing = np.isnan(values.to_numpy())
    gaps = bool(missing.any())
    if gaps and not empty(cells[missing]).all():
        return cells
    given = cells[~missing].tolist() if gaps else cells.tolist()
    if given and all(isinstance(cell, (bool, np.bool_)) for cell in given):
        return _with_gaps(cells, missing)
    try:
        number_of = {str(cell).strip(): value for cell, value in zip(given, values.to_numpy()[~missing].tolist(), strict=True)}
        whole = {text: int(text) for text in number_of if text.lstrip("+-").isdigit()}
    except ValueError:  # of thousands of digits, which Python refuses
        return _with_gaps(cells, missing)
    all_whole = len(whole) == len(number_of) > 0
    padded = any(PADDED.fullmatch(text) for text in whole)
    trailing = typed and any(type(cell) is str and TRAILING.fullmatch(cell.strip()) for cell in given)
    if padded or trailing or any(abs(number) > (LARGEST if all_whole and not gaps else EXACT) for number in whole.values()):
        return _with_gaps(cells, missing)
    exact = number_of | whole
    if any(math.isinf(value) and re.search(r"\d", text) for text, value in exact.items()):
        return _with_gaps(cells, missing)
    if len({*exact.values()}) < len({text.removesuffix(".0") for text in exact}):  # two texts of one number
        return _with_gaps(cells, missing)
    if all_whole and not gaps:
        return pd.Series([whole[str(cell).strip()] for cell in given], index=cells.index, dtype=np.int64)
    return values


def _with_gaps(cells: pd.Series, missing: NDArray[np.bool_]) -> pd.Series:
    """Return a column as it is, but for cells that stand for no value, which are missing."""
    return cells if np.array_equal(cells.isna(), missing) else cells.astype(object).mask(missing, None)
