"""Cells of tables as numbers, the faults of those that are none, and columns of unknown meaning, which stay as they are given."""

from __future__ import annotations

import math
import numbers
import re
from decimal import Decimal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import Fault, shortened
from bayeslaw.data.columns import AMOUNTS

EMPTY = {"", "nan", "na", "null", "none"}  # cells that stand for no value
PADDED = re.compile(r"[+-]?0\d+")  # as 007, which is a name
EXACT, LARGEST = 2**53, 2**63 - 1  # whole numbers up to which floats have all, and up to which integers go
TRAILING = re.compile(r"[+-]?\d*\.\d+0")  # as 1.10, which is no 1.1 where it names a version
COMMAS = 'write decimal points, or let `bayeslaw import` read decimal commas (decimal = "," in a file of --map, map=)'
THOUSANDS = "remove the separators of thousands, or let `bayeslaw import` read them (thousands = … in a file of --map, map=)"
AMOUNT = "write a number, such as 1.3e9 or 1.3B, or remove the row"


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


def stray_cells(cells: pd.Series, values: pd.Series, *, known: bool) -> list[Fault]:
    """List the cells of a column that are no numbers; none where most of them are not, unless we know that they should be.

    Parameters
    ----------
    cells, values : Series
        The column, and its numbers, which are missing elsewhere.
    known : bool
        Whether we know the column.
    """
    bad = cells[values.isna()]
    bad = bad[~empty(bad)]
    if not known and len(bad) >= 0.5 * cells.notna().sum():
        return []
    faults, column = list[Fault](), str(cells.name)
    for row, cell in zip(bad.index, bad, strict=True):
        problem = f"{column} {shortened(repr(str(cell)))} is not a number"
        faults.append(Fault(int(row), column, str(cell), problem, _way(column, str(cell), known), "not-a-number"))
    return faults


def _way(column: str, value: str, known: bool) -> str:
    """Say what to do about a cell that should hold a number; columns that we do not know may be of no use."""
    if spelling := _spelling(value):
        return spelling
    if not known:
        return "correct the cell or, if the column has nothing to do with the losses, leave that out"
    return AMOUNT if "M" in AMOUNTS.get(column, "") else "correct the cell or remove the row"


def _spelling(value: str) -> str:
    """Say how to write a number that is spelt with a comma, separators of thousands or a percent sign; '' for other texts."""
    if re.fullmatch(r"\s*-?\d*,\d+\s*", value):
        return COMMAS
    if re.fullmatch(r"\s*\d{1,3}([ ,._]\d{3}){2,}\s*", value):
        return THOUSANDS
    if re.fullmatch(r"\s*-?[\d.]+\s*%\s*", value):
        return "write numbers without %, and shares between 0 and 1: 0.1 for 10%"
    if re.fullmatch(r"\s*[\d.]+\s*[kmbt]\s*", value, re.IGNORECASE):
        return "write numbers without letters: 66000 for 66K"
    if re.fullmatch(r"\s*[\d.]+\s*/\s*[\d.]+\s*", value):
        return "write the quotient as a number: 0.25 for 1/4"
    return ""


def without_numbers(cells: pd.Series, law: str) -> list[Fault]:
    """List the cells of a column that should be numbers for a law, or say that none of them is one.

    Parameters
    ----------
    cells : Series
    law : str
        Its name.
    """
    numbers = numbers_in(cells)
    if numbers.notna().any():
        return stray_cells(cells, numbers, known=True)
    problem, suggestion = f"column {cells.name} holds no numbers", f"{law} needs them there"
    given = cells[~empty(cells)].astype(str)
    if len(given):
        problem = f"{problem} but texts such as {shortened(repr(given.iloc[0]))}"
        suggestion = _spelling(given.iloc[0]) or suggestion
    return [Fault(None, str(cells.name), "", problem, suggestion, "column-without-numbers")]
