"""Formulas as data: one text gives NumPy, PyTensor and LaTeX, and can't run code.

A formula is parsed by Python's own parser, and every node of the result is checked against a short list: numbers, names,
arithmetic, comparisons where asked for, and the functions in `FUNCTIONS`. Nothing is ever handed to `eval`.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from bayeslaw.core.errors import BayeslawError, nearest, shortened

MAX_LENGTH = 2_000
MAX_DEPTH = 60

FUNCTIONS: dict[str, int] = {
    "exp": 1, "expm1": 1, "log": 1, "log1p": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "minimum": 2, "maximum": 2, "select": 3,
    "total": 1,
}  # fmt: skip
"""Functions a formula may call and the number of their arguments; select(c, a, b) is a where c > 1/2, else b, and total(a) the sum
of a over the nodes of the series in it: of the columns fall_1, fall_2, ... where a names fall."""

NUMPY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "tanh": np.tanh,
    "sigmoid": lambda x: np.exp(-np.logaddexp(0, -x)), "minimum": np.minimum, "maximum": np.maximum,
    "select": lambda c, a, b: np.where(np.asarray(c) > 0.5, a, b),
}  # fmt: skip

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}


class FormulaError(BayeslawError):
    """A formula that can't be used."""


@dataclass(frozen=True)
class Expression:
    """One checked arithmetic expression.

    Parameters
    ----------
    text : str
        Python arithmetic over names, numbers and `FUNCTIONS`.
    tree : ast.expr
        The checked syntax tree; use `Expression.parse`.
    """

    text: str
    tree: ast.expr = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Parse and check a formula.

        Raises
        ------
        FormulaError
            If the text is not arithmetic over names, numbers and the listed functions.
        """
        if not isinstance(text, str) or not text.strip():
            raise FormulaError(f"A formula is a non-empty text, not {shortened(repr(text))}.")
        if len(text) > MAX_LENGTH:
            raise FormulaError(f"A formula of {len(text)} characters is longer than the {MAX_LENGTH} allowed.")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            _check(tree, text, 0)
        except FormulaError:
            raise
        except (SyntaxError, UnicodeError) as error:
            raise FormulaError(f"{text!r} is not a formula: {error.msg if isinstance(error, SyntaxError) else error}.") from None
        except (RecursionError, MemoryError):
            raise FormulaError(f"{text!r} is not a formula: it is nested too deeply.") from None
        return cls(text.strip(), tree)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the parameters, covariates and let-expressions it uses."""
        called = {id(n.func) for n in ast.walk(self.tree) if isinstance(n, ast.Call)}
        return frozenset(n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name) and id(n) not in called)

    @cached_property
    def totals(self) -> tuple[Expression, ...]:
        """What stands within each total(...)."""
        return tuple(Expression(ast.unparse(call.args[0]), call.args[0]) for call in ast.walk(self.tree) if _is_total(call))

    @cached_property
    def outside_totals(self) -> frozenset[str]:
        """Names that stand outside total(...)."""
        return frozenset(_outside_totals(self.tree))

    @cached_property
    def terms(self) -> tuple[tuple[int, Expression], ...]:
        """Additive terms with their signs: (+1, a), (-1, b) for a - b."""
        return tuple((sign, Expression(ast.unparse(node), node)) for sign, node in _terms(self.tree, 1))

    def evaluate(self, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] = NUMPY) -> Any:
        """Value of the expression, for anything that knows arithmetic (floats, arrays, PyTensor variables).

        Impossible operations give inf or nan, as in NumPy, without a warning.
        """
        with np.errstate(all="ignore"):
            return _evaluate(self.tree, values, functions)

    def latex(self, symbols: Mapping[str, str] | None = None) -> str:
        """LaTeX, with `symbols` for names whose symbol `default_symbol` would get wrong."""
        return _latex(self.tree, symbols or {})[0]


def _check(node: ast.AST, text: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FormulaError(f"{text!r} is nested more than {MAX_DEPTH} deep.")
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if not isinstance(node.func, ast.Name) or name not in FUNCTIONS:
            hint = nearest(name, FUNCTIONS)
            raise FormulaError(f"{name!r} can't be called in a formula; the functions are {', '.join(FUNCTIONS)}.{hint}")
        if node.keywords or len(node.args) != FUNCTIONS[name]:
            raise FormulaError(f"{name} takes {FUNCTIONS[name]} argument(s): {ast.unparse(node)!r} does not give that.")
        if name == "total" and any(_is_total(inner) for inner in ast.walk(node.args[0])):
            raise FormulaError(f"{ast.unparse(node)!r} has a total within a total.")
        children: list[ast.AST] = list(node.args)
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        children = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        children = [node.operand]
    elif isinstance(node, ast.Name):
        if node.id.startswith("_"):
            raise FormulaError(f"{node.id!r} in {text!r}: a name can't begin with an underscore.")
        children = []
    elif isinstance(node, ast.Constant) and _is_finite(node.value):
        children = []
    else:
        raise FormulaError(
            f"{ast.unparse(node)!r} is not allowed in a formula; use names, numbers, + - * / ** and {', '.join(FUNCTIONS)}."
        )
    for child in children:
        _check(child, text, depth + 1)


def _is_total(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "total"


def _outside_totals(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif not _is_total(node):
        for child in node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node):
            yield from _outside_totals(child)


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _terms(node: ast.expr, sign: int) -> list[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        right = sign if isinstance(node.op, ast.Add) else -sign
        return _terms(node.left, sign) + _terms(node.right, right)
    if isinstance(node, ast.UnaryOp):
        return _terms(node.operand, -sign if isinstance(node.op, ast.USub) else sign)
    return [(sign, node)]


def _evaluate(node: ast.AST, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            return np.float64(value)
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, values, functions), _evaluate(right, values, functions))
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate(operand, values, functions)
            return -value if isinstance(op, ast.USub) else value
        case ast.Call(func=ast.Name(id="total"), args=[argument]):
            return _total(argument, values, functions)
        case ast.Call(func=ast.Name(id=name), args=args):
            return functions[name](*(_evaluate(a, values, functions) for a in args))
    raise FormulaError(f"{ast.dump(node)} was not checked.")


def column_of(series: str, node: int) -> str:
    """The column of a node (from 1) of a series."""
    return f"{series}_{node}"


def _total(argument: ast.expr, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Sum of an expression over the nodes of the series that it names: those names that have columns and no value."""
    series = sorted(n for n in Expression("", argument).names if n not in values and column_of(n, 1) in values)
    number = next(k for k in itertools.count() if not series or any(column_of(n, k + 1) not in values for n in series))
    if not number:
        raise FormulaError(f"{ast.unparse(argument)!r} has no series to be summed over.")
    nodes = [{n: values[column_of(n, k)] for n in series} for k in range(1, number + 1)]
    return functools.reduce(operator.add, (_evaluate(argument, {**values, **node}, functions) for node in nodes))


# --- LaTeX ----------------------------------------------------------------------------------------------------------

_GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "pi",
    "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
}  # fmt: skip
_OTHER = {"lam": r"\lambda", "eps": r"\varepsilon", "ptpp": r"\mathrm{PTPP}", "atpp": r"\mathrm{ATPP}"}
_SUM, _PRODUCT, _POWER, _ATOM = range(4)


GREEK = (
    "alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "",
    "pi", "rho", "", "sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega",
)  # fmt: skip
"""LaTeX names of the small Greek letters in the order of their code points."""


def latex_text(text: str) -> str:
    """A text in LaTeX: its special characters as themselves, signs that LaTeX has no letter for as formulas."""
    special = {
        "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
        ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$",
        "±": r"$\pm$", "−": "$-$", "…": r"\dots{}", "–": "--", "—": "---", "’": "'", "µ": r"$\mu$", "→": r"$\to$", "\n": " ",
    }  # fmt: skip
    special |= {chr(0x3B1 + i): rf"$\{name}$" for i, name in enumerate(GREEK) if name}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c if c < "\u0250" else rf"[U+{ord(c):04X}]") for c in text)


def default_symbol(name: str) -> str:
    """LaTeX symbol of a name: greek letters by name, the part after an underscore as a subscript."""
    head, _, tail = name.partition("_")
    head = _OTHER.get(head, "\\" + head if head in _GREEK else head if len(head) == 1 else rf"\mathrm{{{head}}}")
    if not tail:
        return head
    return f"{head}_{{{tail if len(tail) == 1 else rf'\mathrm{{{tail.replace("_", " ")}}}'}}}"


def _number(value: float) -> str:
    text = f"{value:g}"
    found = re.fullmatch(r"(-?[\d.]+)e([+-])0*(\d+)", text)
    if not found:
        return text
    mantissa, sign, exponent = found.groups()
    power = f"10^{{{'-' * (sign == '-')}{exponent}}}"
    return power if mantissa == "1" else rf"{mantissa} \cdot {power}"


def _latex(node: ast.AST, symbols: Mapping[str, str]) -> tuple[str, int]:
    """LaTeX of a node and how tightly it binds."""

    def wrapped(child: ast.AST, least: int) -> str:
        text, binding = _latex(child, symbols)
        return text if binding >= least else rf"\left({text}\right)"

    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            text = _number(float(value))
            return text, _PRODUCT if "^" in text else _ATOM
        case ast.Name(id=name):
            return symbols.get(name, default_symbol(name)), _ATOM
        case ast.UnaryOp(op=op, operand=operand):
            return ("-" if isinstance(op, ast.USub) else "") + wrapped(operand, _PRODUCT), _SUM
        case ast.Call(func=ast.Name(id="exp"), args=[arg]):
            return f"e^{{{wrapped(arg, _SUM)}}}", _POWER
        case ast.Call(func=ast.Name(id="sqrt"), args=[arg]):
            return rf"\sqrt{{{wrapped(arg, _SUM)}}}", _ATOM
        case ast.Call(func=ast.Name(id="total"), args=[argument]):
            return rf"\sum_k {wrapped(argument, _PRODUCT)}", _PRODUCT
        case ast.Call(func=ast.Name(id="select"), args=[condition, one, other]):
            rows = rf"{wrapped(one, _SUM)} & {wrapped(condition, _SUM)} = 1 \\ {wrapped(other, _SUM)} & \text{{otherwise}}"
            return rf"\begin{{cases}} {rows} \end{{cases}}", _PRODUCT
        case ast.Call(func=ast.Name(id=name), args=args):
            known = {"minimum": r"\min", "maximum": r"\max", "log": r"\log", "tanh": r"\tanh", "sigmoid": r"\sigma"}
            head = known.get(name, rf"\mathrm{{{name}}}")
            return rf"{head}\left({', '.join(wrapped(a, _SUM) for a in args)}\right)", _ATOM
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{wrapped(left, _SUM)} + {wrapped(right, _SUM)}", _SUM
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return f"{wrapped(left, _SUM)} - {wrapped(right, _PRODUCT)}", _SUM
        case ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=left), op=(ast.Mult() | ast.Div()) as op, right=right):
            return _latex(ast.UnaryOp(ast.USub(), ast.BinOp(left, op, right)), symbols)  # (-a)*b is written -ab
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return rf"{wrapped(left, _PRODUCT)} \, {wrapped(right, _PRODUCT)}", _PRODUCT
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return rf"\frac{{{wrapped(left, _SUM)}}}{{{wrapped(right, _SUM)}}}", _POWER
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return f"{wrapped(left, _ATOM)}^{{{wrapped(right, _SUM)}}}", _POWER
    raise FormulaError(f"{ast.dump(node)} was not checked.")
