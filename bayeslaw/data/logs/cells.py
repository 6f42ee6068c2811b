"""Cells of logs as numbers: separators of thousands, decimal commas, missing cells and values that are not finite."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import Fault, shortened

COUNTS = ("step", "N", "D", "U", "P", "batch", "parent_step", "flops", "seed")  # whole numbers: "1,234" can only be 1234
NOT_FINITE = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "diverged"}
PAIRS = re.compile(r"^\[[\[(]([^\s\[\](),]+, ?[^\s\[\](),]+)[\])]")  # the beginning of a list of pairs
MISSING = {"", "na", "n/a", "null", "none", "-", "undefined"}


def numbers(
    cells: pd.Series, ours: str, decimal: str | None = None, thousands: str | None = None
) -> tuple[pd.Series, list[Fault], int]:
    """Return cells as numbers, faults of those that hold none or two, and how many have separators of thousands.

    Parameters
    ----------
    cells : Series
        Texts, numbers and None as read; in a column of floats nan is missing. Numbers are nan where a cell is missing, infinite
        where it is not finite.
    ours : str
        Our name of the column: NaN is a loss that is not finite, and a missing value in any other column.
    decimal, thousands : str, optional
        The decimal sign and the separator of thousands; by default the usual ones, and then a cell must be unambiguous.
    """
    if holds_numbers(cells):
        return cells.astype(np.float64).replace(-np.inf, np.inf), [], 0
    if cells.dtype.kind == "b":
        booleans = [_no_number(int(row), ours, str(cell)) for row, cell in zip(cells.index, cells, strict=True)]
        return pd.Series(np.nan, index=cells.index), booleans, 0
    known = bool(decimal or thousands)
    decimal = decimal or ("," if thousands == "." else ".")
    thousands = thousands or ("." if decimal == "," else ",")
    pattern = re.compile(rf"^[+-]?[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+(?:{re.escape(decimal)}\d+)?$")
    texts = [_text(cell, ours == "loss") for cell in cells]  # a Series would make nan of None
    grouped = [isinstance(t, str) and bool(pattern.match(t)) for t in texts]
    cut = [str(t) for t, g in zip(texts, grouped, strict=True) if g]
    # one reading only, of the whole column: a cell has two separators, or one and a decimal sign
    certain = known or ours in COUNTS or any(text.count(thousands) > 1 or decimal in text for text in cut)
    values, faults = np.full(len(cells), np.nan), list[Fault]()
    for i, (row, text) in enumerate(zip(cells.index, texts, strict=True)):
        if text is None:
            continue
        if not isinstance(text, str):
            values[i] = text if math.isfinite(text) else np.inf
            continue
        value = _value(text, decimal, thousands, grouped[i])
        if value is None:
            faults.append(_no_number(int(row), ours, text))
        elif grouped[i] and not certain:
            problem = f"{ours} {text!r} may be {float(text.replace(thousands, '.')):g} or {value:g}"
            suggestion = f'write decimal = "{thousands}" or thousands = "{thousands}" in a mapping file'
            faults.append(Fault(int(row), ours, text, problem, suggestion, "ambiguous-number"))
        else:
            values[i] = value
    return pd.Series(values, index=cells.index), faults, sum(grouped)


def ambiguous_steps(cells: pd.Series) -> list[Fault]:
    """Return a fault of a column of steps where each may be a thousandth, such as 1.000, which is a thousand in some languages."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip().lower() not in MISSING]
    if not texts or not all(re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", text) for text in texts):
        return []
    problem = f"step {texts[0]!r} may be {float(texts[0]):g} or {float(texts[0]) * 1000:g}, and so may all others"
    suggestion = 'write decimal = "." or thousands = "." in a mapping file (--map, map=)'
    return [Fault(None, "step", texts[0], problem, suggestion, "ambiguous-number")]


def _text(cell: object, loss: bool) -> str | float | None:
    """Return a cell as a text without blanks around it, a number, or None; NaN is infinite in a loss and None elsewhere."""
    if cell is None or cell is pd.NA:
        return None
    if isinstance(cell, (bool, np.bool_)):
        return str(cell)
    if isinstance(cell, (int, float, np.number)):
        if cell != cell and not loss:
            return None
        try:
            return float(cell) if abs(float(cell)) < math.inf else math.inf
        except OverflowError:  # an integer of hundreds of digits
            return math.inf
    text = str(cell).replace("\u00a0", " ").replace("\u202f", " ").strip()
    if text.lower() in NOT_FINITE:
        return None if text.lower() == "nan" and not loss else math.inf
    return None if text.lower() in MISSING else text


def _value(text: str, decimal: str, thousands: str, grouped: bool) -> float | None:
    plain = text.replace(thousands, "") if grouped else text
    other = "," if decimal == "." else "."
    if other in plain or "_" in plain:
        return None
    try:
        value = float(plain.replace(decimal, "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else math.inf


def _no_number(row: int, ours: str, text: str) -> Fault:
    what, suggestion = "is not a number", "correct the cell, or leave it empty"
    if re.match(r"^[+-]?\d+,\d+(e[+-]?\d+)?$", text, re.IGNORECASE):
        suggestion = 'is it a decimal comma? Write decimal = "," in a mapping file'
    elif groups := re.match(r"^[+-]?\d{1,3}([. '])\d{3}(\1\d{3})+(,\d+)?$", text):  # 1.000.000
        suggestion = f'are these separators of thousands? Write thousands = "{groups[1]}" in a mapping file'
    elif re.match(r"^[\d.]+ ?[kMBT]$", text):
        suggestion = "write it out, such as 410e6"
    elif text.endswith("%"):
        suggestion = "write it as a share, such as 0.25"
    elif pair := PAIRS.match(text):
        step, value = map(str.strip, pair[1].split(","))
        what = "is a list of pairs, and not a number"
        suggestion = f'write a line for each pair, such as {{"step": {step}, "{ours}": {value}}}, or a row of a table'
    return Fault(row, ours, text, f"{ours} {shortened(repr(text))} {what}", suggestion, "not-a-number")


def flattened(row: Mapping[str, Any], joint: str, before: str = "") -> dict[str, Any]:
    """Return the values of an object by their names; values of an object within it have both names, such as eval/loss.

    Parameters
    ----------
    row, joint, before : mapping, str, str
        The object, what stands between two names, and what stands before them all.
    """
    flat = dict[str, Any]()
    for name, value in row.items():
        flat |= flattened(value, joint, f"{before}{name}{joint}") if isinstance(value, dict) else {f"{before}{name}": value}
    return flat
