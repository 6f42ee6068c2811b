"""Conditions on rows, such as ``ptpp <= 31 and domain == 'target'``; they are parsed and checked, never evaluated as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, nearest

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_HELP = "write column names, numbers, 'texts', == != < <= > >= in, and or not, for example: ptpp <= 31 and domain == 'target'"


def where(frame: pd.DataFrame, text: str) -> pd.DataFrame:
    """Return the rows of a table for which a condition holds; one that holds for no row is refused."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        mask = _mask(tree, frame, text)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, BayeslawError):
            raise
        raise BayeslawError(f"{text!r} is not a condition; {_HELP}.", code="not-a-condition") from None
    if not mask.any():
        message = f"No row meets {text!r}; the table has {len(frame)} rows. {_columns(tree, frame)}"
        raise BayeslawError(message.strip(), code="no-row-meets")
    return frame[mask]


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
    raise BayeslawError(f"{ast.unparse(node)!r} in {text!r} is not a comparison; {_HELP}.", code="not-a-comparison")


def _compare(left: Any, op: ast.cmpop, right: Any, text: str, rows: int) -> NDArray[np.bool_]:
    try:
        if isinstance(op, (ast.In, ast.NotIn)):
            options = right if isinstance(right, list) else [right]
            if isinstance(left, list) or any(isinstance(option, (list, pd.Series)) for option in options):
                raise TypeError
            member = (left if isinstance(left, pd.Series) else pd.Series([left])).isin(options).to_numpy(dtype=bool)
            return np.broadcast_to(member if isinstance(op, ast.In) else ~member, rows)
        if isinstance(left, list) or isinstance(right, list):
            raise TypeError
        return np.broadcast_to(np.asarray(_COMPARE[type(op)](left, right), dtype=bool), rows)
    except (TypeError, KeyError, ValueError, OverflowError):
        raise BayeslawError(f"{text!r} compares values that can't be compared; {_HELP}.", code="not-comparable") from None


def _value(node: ast.AST, frame: pd.DataFrame, text: str) -> Any:
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float, str)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if isinstance(value, (int, float)):
            return -value
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part, frame, text) for part in parts]
        case ast.Name(id=name):
            if name not in frame:
                known = [str(c) for c in frame]
                message = f"No column {name!r} for {text!r}; there are {', '.join(known)}.{nearest(name, known)}"
                raise BayeslawError(message, code="unknown-column")
            return frame[name]
    raise BayeslawError(f"{ast.unparse(node)!r} is not allowed in {text!r}; {_HELP}.", code="not-allowed")


def _columns(tree: ast.AST, frame: pd.DataFrame) -> str:
    """Describe the values of the named columns, for a condition that holds for no row."""
    values = {n.id: frame[n.id].dropna().unique() for n in ast.walk(tree) if isinstance(n, ast.Name)}
    shown = {name: ", ".join(map(str, v[:6])) + (", …" if len(v) > 6 else "") for name, v in values.items()}
    return " ".join(f"{name} is one of {texts}." for name, texts in shown.items())
