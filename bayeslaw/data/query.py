"""Conditions on rows, such as ``ptpp <= 31 and domain == 'target'``; they are parsed and checked, never evaluated as code."""

from __future__ import annotations

import ast
import keyword
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import holds_numbers, scaled
from bayeslaw.core.errors import BayeslawError, shown
from bayeslaw.core.text import label_text, listed, number
from bayeslaw.data.cells import spelt_numbers
from bayeslaw.data.columns import did_you_mean, of_unknown_meaning, resolve

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_COMPUTE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_FLAGS = {"true": True, "false": False}
LAST = "last"
"""What conditions call the last row of each run."""
LAST_ROWS = f"--where {LAST} (runs.where('{LAST}'))"  # how messages say so
_WORDS = {"and", "or", "not", "in", "is", "if", "else", "None", "True", "False"}  # of conditions, so never columns in them
_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_HELP = (
    "write column names, numbers, 'texts', True, False, + - * /, == != < <= > >= in, and or not, "
    "for example: D / N >= 2 and domain == 'target'; last is the last row of each run"
)


class _MalformedError(Exception):
    """A condition that can't be read: what is wrong, to which `where` adds how to write it."""

    def __init__(self, problem: str, code: str) -> None:
        super().__init__(problem)
        self.problem, self.code = problem, code


def where(frame: pd.DataFrame, text: str, originals: Mapping[str, pd.Series] | None = None) -> pd.DataFrame:
    """Return the rows of a table for which a condition holds; one that holds for no row is refused.

    Parameters
    ----------
    frame, text : DataFrame and str
    originals : mapping of str to Series, optional
        Further columns that the condition may name, with rows of the same numbers.
    """
    if not isinstance(text, str):
        way = "."
        if isinstance(text, (pd.Series, np.ndarray, list)):
            way = ": bayeslaw.read_runs(runs.frame[mask]) reads the rows of a mask."
        raise BayeslawError(f"A condition is a text such as 'ptpp <= 31', not {shown(text)}{way}", code="not-a-text")
    if not text.strip():
        message = f"The condition {text!r} is empty: is a variable of the shell not set? Leave it out to keep all rows."
        raise BayeslawError(message, code="empty-condition")
    others = {name: cells.reindex(frame.index) for name, cells in (originals or {}).items() if name not in frame}
    known = frame.assign(**others) if others else frame
    try:
        tree = _parsed(text.strip(), list(map(str, known)))
        mask = _mask(tree, known, text)
    except _MalformedError as error:
        raise BayeslawError(f"{error.problem}; {_way(text, known)}.", code=error.code) from None
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, BayeslawError):
            raise
        raise BayeslawError(f"{text!r} is not a condition; {_way(text, known)}.", code="not-a-condition") from None
    if not mask.any():
        message = f"No row meets {text!r}; the table has {len(frame)} rows. {_columns(tree, known)}"
        raise BayeslawError(message.strip(), code="no-row-meets")
    return frame[mask]


def last_rows(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Return, as `last`, which rows are the last with a loss of their run, in each of its domains; nothing if none can be told.

    The last is that of most tokens D or, in tables without D, of most steps. A row with a loss and without a run is a run of its
    own, and a run without any D keeps its rows, whose fault that is.

    Parameters
    ----------
    frame : DataFrame
        As of `Runs`.
    """
    order = next((c for c in ("D", "step") if c in frame and holds_numbers(frame[c])), None)
    if order is None or "run" not in frame:
        return {}
    measured = frame["loss"].notna() if "loss" in frame else pd.Series(True, index=frame.index)
    reached = frame[order].where(measured)
    of_run = [frame[c] for c in ("run", "domain") if c in frame]
    most = reached.groupby(of_run, dropna=False).transform("max")
    return {LAST: (reached == most) | (measured & (most.isna() | frame["run"].isna()))}


def _parsed(text: str, columns: list[str]) -> ast.expr:
    """Return a condition as a tree in which a column such as val/loss or config.N is one name, where it is written exactly so."""
    odd = sorted((c for c in columns if re.search(r"[^\W\d]", c) and not _is_name(c) and not _is_number(c)), key=len, reverse=True)
    held: dict[str, str] = {}

    def hold(match: re.Match[str]) -> str:
        if match["column"] is None:  # a text in quotes
            return match[0]
        return held.setdefault(match["column"], f"_column_{len(held)}_")

    if odd:
        names = "|".join(map(re.escape, odd))
        text = re.sub(rf"""{_QUOTED}|(?<![\w.])(?P<column>{names})(?!\w)""", hold, text)
    tree = ast.parse(text, mode="eval").body
    # Python reads names in the normal form NFKC, which those of columns need not be in.
    back = {_nfkc(column): column for column in sorted(columns, key=_is_name)} | {short: column for column, short in held.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = back.get(node.id, node.id)
    return tree


def asks_for_last(condition: str) -> bool:
    """Whether a condition names the last rows of runs, outside of texts in quotes.

    Examples
    --------
    >>> asks_for_last("last and N < 2e9"), asks_for_last("run != 'last'")
    (True, False)
    """
    return bool(re.search(rf"(?<![\w./]){LAST}(?![\w./])", re.sub(_QUOTED, "", condition)))


def _nfkc(column: str) -> str:
    return unicodedata.normalize("NFKC", column)


def _is_name(column: str) -> bool:
    return column.isidentifier() and column == _nfkc(column) and (column in _WORDS or not keyword.iskeyword(column))


def _is_number(column: str) -> bool:
    """Whether a name, such as 1e9 of a table with a column for each size, would be read as a number."""
    try:
        float(column)
    except ValueError:
        return False
    return True


def _mask(node: ast.AST, frame: pd.DataFrame, text: str) -> NDArray[np.bool_]:
    match node:
        case ast.BoolOp(op=op, values=parts):
            masks = [_mask(part, frame, text) for part in parts]
            return np.all(masks, axis=0) if isinstance(op, ast.And) else np.any(masks, axis=0)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return ~_mask(part, frame, text)
        case ast.Compare(left=first, ops=ops, comparators=rights):
            values = [_value(v, frame, text) for v in (first, *rights)]
            chain = zip(values, ops, values[1:], strict=False)
            return np.all([_compare(left, op, right, text, len(frame)) for left, op, right in chain], axis=0)
        case ast.Name() if isinstance(column := _value(node, frame, text), pd.Series) and (flags := _flags(column)).notna().any():
            return np.asarray(flags == True, dtype=bool)  # noqa: E712 (missing values are not true)
    raise _MalformedError(f"{ast.unparse(node)!r} in {text!r} is not a comparison", "not-a-comparison")


def _compare(left: Any, op: ast.cmpop, right: Any, text: str, rows: int) -> NDArray[np.bool_]:
    try:
        left, right = _as_numbers(left, right), _as_numbers(right, left)
        if isinstance(op, (ast.In, ast.NotIn, ast.Eq, ast.NotEq)):
            left, right = _as_names(left, right), _as_names(right, left)
            _check_kinds(left, right, text)
            if not text.isascii():
                left, right = _composed(left), _composed(right)
        if isinstance(op, (ast.In, ast.NotIn)):
            options = right if isinstance(right, list) else [right]
            if isinstance(left, list) or any(isinstance(option, (list, pd.Series)) for option in options):
                raise TypeError
            member = (left if isinstance(left, pd.Series) else pd.Series([left])).isin(options).to_numpy(dtype=bool)
            return np.broadcast_to(member if isinstance(op, ast.In) else ~member, rows)
        if isinstance(left, list) or isinstance(right, list):
            raise TypeError
        if isinstance(left, bool) or isinstance(right, bool):
            left, right = (_flags(side) if isinstance(side, pd.Series) else side for side in (left, right))
        return np.broadcast_to(np.asarray(_COMPARE[type(op)](left, right), dtype=bool), rows)
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        if isinstance(error, BayeslawError):
            raise
        raise _MalformedError(f"{text!r} compares values that can't be compared", "not-comparable") from None


def _as_numbers(value: Any, other: Any) -> Any:
    """Return a column of texts or truth values that are numbers as numbers, where it is compared with numbers."""
    others = other if isinstance(other, list) else [other]
    texts = isinstance(value, pd.Series) and not holds_numbers(value)
    return _in_floats(value) if texts and all(map(_is_numeric, others)) else value


def _is_numeric(side: Any) -> bool:
    return holds_numbers(side) if isinstance(side, pd.Series) else type(side) in (int, float)


def _check_kinds(left: Any, right: Any, text: str) -> None:
    """Refuse columns of numbers beside texts: they differ in every row, so that != would keep all and say nothing."""
    sides = [left, *right] if isinstance(right, list) else [left, right]
    columns = [side for side in sides if isinstance(side, pd.Series)]
    texts = [side for side in sides if isinstance(side, str) or (isinstance(side, pd.Series) and _holds_texts(side))]
    if texts and any(column.dtype.kind in "fiub" for column in columns):
        quoted = (f"the text {side!r}: write numbers without quotes" for side in texts if isinstance(side, str))
        what = next(quoted, "a column of texts, which has none")
        raise BayeslawError(f"{text!r} compares a column of numbers with {what}.", code="not-comparable")


def _holds_texts(column: pd.Series) -> bool:
    return column.dtype.kind == "O" and bool(column.map(lambda cell: isinstance(cell, str)).any())


def _as_names(value: Any, other: Any) -> Any:
    """Return numbers as names where they are compared with a column of texts: runs are named by text, '3' by 3."""
    if not (isinstance(other, pd.Series) and _holds_texts(other)):
        return value
    if isinstance(value, list):
        return [_as_names(part, other) for part in value]
    return label_text(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _composed(value: Any) -> Any:
    """Return texts whose letters, such as é, are one character each: systems and programs write some of them as two."""
    if isinstance(value, list):
        return [_composed(part) for part in value]
    if isinstance(value, pd.Series):
        return value.map(_composed) if _holds_texts(value) else value
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def _value(node: ast.AST, frame: pd.DataFrame, text: str) -> Any:
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float, str)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return _compute(0, ast.Sub(), _value(part, frame, text), text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTE:
            return _compute(_value(left, frame, text), op, _value(right, frame, text), text)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part, frame, text) for part in parts]
        case ast.Name(id=name):
            if name in frame:
                return frame[name]
            ours, factor = resolve(name) or ("", 1.0)
            if len(name) > 1 and ours in frame:  # another name of a column, as it may stand in the file, in its unit
                return frame[ours] if factor == 1 else pd.Series(scaled(frame[ours], 1 / factor), frame.index)
            if name in _FLAGS:
                return _FLAGS[name]
            if name == LAST:
                message = f"{text!r} asks for the last row of each run, and the table has no column run, or neither D nor step."
                raise BayeslawError(message, code="unknown-column")
            known = [str(c) for c in frame]
            cell = _unquoted(re.sub(_QUOTED, "", text), frame)
            hint = f" Write {cell!r} in quotes." if cell else _in_quotes(name, frame) or did_you_mean(name, known)
            message = f"No column {name!r} for {text!r}; there are {', '.join(known)}.{hint}"
            raise BayeslawError(message, code="unknown-column")
    raise _MalformedError(f"{ast.unparse(node)!r} is not allowed in {text!r}", "not-allowed")


def _way(text: str, frame: pd.DataFrame) -> str:
    """Return how to write a condition that can't be read: by the first habit of pandas or a shell that it shows, or in general."""
    bare = re.sub(_QUOTED, "", text)
    if cell := _unquoted(bare, frame):
        return f"write {cell!r} in quotes"
    if amount := re.search(r"(?<![\w.])\d+(\.\d+)?[kMBT]\b", bare):
        return f"write {number(amount[0]):g} for {amount[0]}"
    signs = {sign: word for sign, word in {"&": "and", "|": "or", "~": "not"}.items() if sign in bare}
    if signs:
        return f"write {listed([f"'{word}' for {sign}" for sign, word in signs.items()])}, for example: N >= 1e8 and D < 1e10"
    if re.search(r"(?<![<>=!])=(?!=)", bare):
        return "write == for ="
    return _HELP


def _unquoted(bare: str, frame: pd.DataFrame) -> str:
    """Return a text of the table that a condition names without quotes and that is no name, such as run-01; '' if there is none."""
    columns = (frame[c] for c in frame if not holds_numbers(frame[c]))
    cells = {cell for column in columns for cell in column if isinstance(cell, str) and not cell.isidentifier()}
    named = (cell for cell in cells if re.search(rf"(?<![\w.]){re.escape(cell)}(?![\w.])", bare) and re.search(r"[^\W\d]", cell))
    return max(named, key=len, default="")


def _in_quotes(name: str, frame: pd.DataFrame) -> str:
    """Return how a text in a column is written in a condition, where a name without quotes is one; '' where it is none."""
    texts = [str(c) for c in frame if not holds_numbers(frame[c])]
    column = next((c for c in texts if any(isinstance(cell, str) and cell == name for cell in frame[c])), "")
    return f" {name!r} is a text in the column {column}: write it in quotes, as in {column} == {name!r}." if column else ""


def _compute(left: Any, op: ast.operator, right: Any, text: str) -> Any:
    """Return a sum, difference, product or quotient of numbers or columns of numbers."""
    left, right = _in_floats(left), _in_floats(right)
    for side in (left, right):
        if isinstance(side, (str, bool, list)) or (isinstance(side, pd.Series) and not holds_numbers(side)):
            raise _MalformedError(f"{text!r} computes with values that are not numbers", "not-comparable")
    try:
        return _COMPUTE[type(op)](left, right)
    except (ArithmeticError, TypeError, ValueError):
        raise BayeslawError(f"{text!r} has no value: a number in it is too large, or 0 divides.", code="not-comparable") from None


def _in_floats(value: Any) -> Any:
    """Return a column of numbers as floats, since products of whole numbers may be too large; names and all else stay."""
    if not isinstance(value, pd.Series):
        return value
    by_name = value.name is not None and not of_unknown_meaning(str(value.name)) and not holds_numbers(value)
    return value if by_name or (numbers := spelt_numbers(value)) is None else numbers


def _flags(column: pd.Series) -> pd.Series:
    """Return a column of True and False, which tables write in several ways; numbers stay, and other values are None."""
    if column.dtype.kind in "fiub":
        return column if column.dtype.kind == "b" else column.astype(object).where(column.isin([0, 1]), None)
    return column.map(lambda value: _FLAGS.get(str(value).strip().lower())).astype(object)


def _columns(tree: ast.AST, frame: pd.DataFrame) -> str:
    """Describe the values of the named columns, for a condition that holds for no row."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in frame}
    values = {name: frame[name].dropna().map(str).unique().tolist() for name in sorted(names)}
    return " ".join(f"{name} is one of {listed(texts)}." for name, texts in values.items())
