"""Formulas as data: one text gives values in NumPy or PyTensor, LaTeX, MathML and JavaScript, and can't run code.

A formula is parsed by Python's own parser, and only numbers, names, arithmetic and the functions in `FUNCTIONS` are allowed in its
syntax tree. It is never passed to `eval`.
"""

from __future__ import annotations

import ast
import functools
import itertools
import keyword
import operator
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, TypeGuard

import numpy as np

from bayeslaw.core.errors import BayeslawError, nearest, shortened

MAX_LENGTH = 2_000
MAX_DEPTH = 60

FUNCTIONS: dict[str, int] = {
    "exp": 1, "expm1": 1, "log": 1, "log1p": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "minimum": 2, "maximum": 2, "select": 3,
    "total": 1,
}  # fmt: skip
"""Functions that a formula may call, and the number of their arguments. select(c, a, b) is a where c > 1/2, else b; total(a) is the
sum of a over the nodes of the series in it: over the columns fall_1, fall_2, ... where a names fall."""

NUMPY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "tanh": np.tanh,
    "sigmoid": lambda x: np.exp(-np.logaddexp(0, -x)), "minimum": np.minimum, "maximum": np.maximum,
    "select": lambda c, a, b: np.where(np.asarray(c) > 0.5, a, b),
}  # fmt: skip


def pytensor_functions() -> dict[str, Any]:
    """The functions of a formula (and softplus) in PyTensor."""
    import pytensor.tensor as pt

    names = ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "sigmoid", "softplus", "minimum", "maximum")
    return {name: getattr(pt, name) for name in names} | {"select": lambda c, a, b: pt.switch(pt.gt(c, 0.5), a, b)}


def _power(base: Any, exponent: Any) -> Any:
    """A power. Where a small array is raised to many exponents its logarithm is taken once: exponentials are quicker."""
    arrays = isinstance(base, np.ndarray) and isinstance(exponent, np.ndarray)
    if arrays and base.size < np.broadcast(base, exponent).size and ((base > 0) & (base < np.inf)).all():
        return np.exp(exponent * np.log(base))
    return base**exponent


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: _power,
}


class FormulaError(BayeslawError):
    """A formula that can't be used."""


def on_one_line(text: object) -> str:
    """Return a formula, which may have several lines with comments in a card, as one line; what is no text is refused."""
    if not isinstance(text, str) or not text.strip():
        raise FormulaError(f"A formula is a non-empty text, not {shortened(repr(text))}.", code="not-a-text")
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"A formula of {len(text)} characters is longer than the {MAX_LENGTH} allowed.", code="too-long")
    lines = re.split(r"[\r\n]+", text.strip())  # a comment ends with its line
    return lines[0] if len(lines) == 1 else " ".join(filter(None, (line.partition("#")[0].strip() for line in lines)))


@dataclass(frozen=True)
class Expression:
    """One checked arithmetic expression, text and syntax tree; `Expression.parse` makes it."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: object) -> Expression:
        """Parse a formula; a text that is not arithmetic over names, numbers and `FUNCTIONS` raises FormulaError."""
        text = on_one_line(text)
        try:
            tree = ast.parse(text, mode="eval").body
            _check(tree, text, 0)
        except FormulaError:
            raise
        except (SyntaxError, UnicodeError) as error:
            problem = error.msg if isinstance(error, SyntaxError) else error
            words = [word for word in re.findall(r"\w+", text) if keyword.iskeyword(word)]
            hint = f" {words[0]!r} is a word of Python and can't be a name: write {words[0][:3]}_, for example." if words else ""
            raise FormulaError(f"{text!r} is not a formula: {problem}.{hint}", code="not-a-formula") from None
        except (RecursionError, MemoryError):
            raise FormulaError(f"{text!r} is not a formula: it is nested too deeply.", code="nested-too-deeply") from None
        return cls(text, tree)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the parameters, covariates and let-expressions that it uses."""
        called = {id(n.func) for n in ast.walk(self.tree) if isinstance(n, ast.Call)}
        return frozenset(n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name) and id(n) not in called)

    @cached_property
    def totals(self) -> tuple[Expression, ...]:
        """The argument of each total(...)."""
        return tuple(Expression(ast.unparse(call.args[0]), call.args[0]) for call in ast.walk(self.tree) if _is_total(call))

    @cached_property
    def outside_totals(self) -> frozenset[str]:
        """Names that stand outside total(...)."""
        return self.names.intersection(_outside_totals(self.tree))

    @cached_property
    def terms(self) -> tuple[tuple[int, Expression], ...]:
        """Additive terms with their signs: (+1, a), (-1, b) for a - b."""
        return tuple((sign, Expression(ast.unparse(node), node)) for sign, node in _terms(self.tree, 1))

    def evaluate(self, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] = NUMPY) -> Any:
        """Return the value for floats, arrays or PyTensor variables; impossible operations give inf or nan without a warning."""
        with np.errstate(all="ignore"):
            return _evaluate(self.tree, values, functions)

    def latex(self, symbols: Mapping[str, str] | None = None) -> str:
        """Return the expression in LaTeX; names have the symbol in `symbols`, or else `default_symbol`."""
        named = symbols or {}
        return _written(self.tree, _LATEX, lambda name: named.get(name, default_symbol(name)))[0]

    def mathml(self, name: str = "", series: Collection[str] = ()) -> str:
        """Return the expression as a `<math>` element, with symbols made from the names as `default_symbol` makes them.

        A name that the expression defines is written on the left of an equals sign, and the formula is displayed as a block.
        Series are written with the index k, because `total` sums over their nodes.
        """
        formula = _written(self.tree, _MATHML, lambda n: _mathml_symbol(n, series))[0]
        if not name:
            return f"<math>{formula}</math>"
        return f'<math display="block">{_mathml_symbol(name, series)}<mo>=</mo>{formula}</math>'

    def javascript(self, series: Mapping[str, Sequence[str]] | None = None) -> str:
        """Return the expression in JavaScript, whose names are those of `javascript_name`; `laws.javascript` has the functions.

        `series` are the columns of each series, node by node, over which `total` sums.
        """
        return _javascript(self.tree, series or {}, {})


def names_behind(let: Mapping[str, Expression]) -> dict[str, frozenset[str]]:
    """Return the names that each let-expression uses, by itself or through expressions before it."""
    behind: dict[str, frozenset[str]] = {}
    for name, expression in let.items():
        behind[name] = expression.names.union(*(behind[other] for other in expression.names & behind.keys()))
    return behind


def _check(node: ast.AST, text: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FormulaError(f"{text!r} is nested more than {MAX_DEPTH} deep.", code="nested-too-deeply")
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if not isinstance(node.func, ast.Name) or name not in FUNCTIONS:
            hint = nearest(name, FUNCTIONS) if len(name) > 2 else f" A product with {name} is written {name}*(…)."
            message = f"{name!r} can't be called in a formula; the functions are {', '.join(FUNCTIONS)}.{hint}"
            raise FormulaError(message, code="unknown-function")
        if node.keywords or len(node.args) != FUNCTIONS[name]:
            message = f"{name} takes {FUNCTIONS[name]} argument(s): {ast.unparse(node)!r} has others."
            raise FormulaError(message, code="wrong-arguments")
        if name == "total" and any(_is_total(inner) for inner in ast.walk(node.args[0])):
            raise FormulaError(f"{ast.unparse(node)!r} has a total within a total.", code="nested-total")
        children: list[ast.AST] = list(node.args)
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        children = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        children = [node.operand]
    elif isinstance(node, ast.Name):
        if node.id.startswith("_"):
            raise FormulaError(f"{node.id!r} in {text!r}: a name can't begin with an underscore.", code="underscore")
        children = []
    elif isinstance(node, ast.Constant) and is_finite(node.value):
        children = []
    else:
        known = f"names, numbers, + - * / ** and {', '.join(FUNCTIONS)}"
        hint = ""
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool)):
            hint = f" Nothing can be named {node.value}."
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            hint = " A power is written a**b."
        elif isinstance(node, (ast.Compare, ast.IfExp, ast.BoolOp)):
            hint = " For cases there is select(c, a, b), which is a where the covariate c is 1 and b where it is 0."
        raise FormulaError(f"{ast.unparse(node)!r} is not allowed in a formula; use {known}.{hint}", code="not-allowed")
    for child in children:
        _check(child, text, depth + 1)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_sum(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """Whether a node of a syntax tree adds or subtracts."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub))


def _is_total(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "total"


def _outside_totals(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif not _is_total(node):
        yield from itertools.chain.from_iterable(map(_outside_totals, ast.iter_child_nodes(node)))


def _terms(node: ast.expr, sign: int) -> list[tuple[int, ast.expr]]:
    if is_sum(node):
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
    raise FormulaError(f"{ast.dump(node)} was not checked.", code="unchecked-formula")


def column_of(series: str, node: int) -> str:
    """Return the column of a node (from 1) of a series."""
    return f"{series}_{node}"


def _total(argument: ast.expr, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Return the sum of an expression over the nodes of its series: of the names that have columns and no value."""
    series = sorted(n for n in Expression("", argument).names if n not in values and column_of(n, 1) in values)
    number = next(k for k in itertools.count() if not series or any(column_of(n, k + 1) not in values for n in series))
    if not number:
        raise FormulaError(f"{ast.unparse(argument)!r} has no series to be summed over.", code="total-without-series")
    nodes = [{n: values[column_of(n, k)] for n in series} for k in range(1, number + 1)]
    if "total" in functions:
        return functions["total"](
            lambda scope: _evaluate(argument, scope, functions), Expression("", argument).names, values, nodes
        )
    return functools.reduce(operator.add, (_evaluate(argument, {**values, **node}, functions) for node in nodes))


# --- LaTeX and MathML -------------------------------------------------------------------------------------------------

GREEK = (
    "alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "",
    "pi", "rho", "", "sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega",
)  # fmt: skip
"""LaTeX names of the small Greek letters in the order of their code points."""
_LETTERS = {form: chr(0x3B1 + i) for i, name in enumerate(GREEK) if name for form in (name, name.removeprefix("var"))}
_HEADS = {"lam": "lambda", "eps": "varepsilon", "ptpp": "PTPP", "atpp": "ATPP"}  # how the first part of a name is written
_SUM, _PRODUCT, _POWER, _ATOM = range(4)  # precedence

_LATEX = {
    "group": r"\left({}\right)", "u-": "-{}", "+": "{} + {}", "-": "{} - {}", "*": r"{} \, {}", "/": r"\frac{{{}}}{{{}}}",
    "**": "{}^{{{}}}", "in exponent /": "{}/{}", "exp": "e^{{{}}}", "sqrt": r"\sqrt{{{}}}", "total": r"\sum_k {}",
    "10**": "10^{{{}}}",
    "e": r"{} \cdot 10^{{{}}}", "number": "{}", "call": r"{}\left({}\right)", ",": ", ", "function": r"\mathrm{{{}}}",
    "minimum": r"\min", "maximum": r"\max", "log": r"\log", "tanh": r"\tanh", "sigmoid": r"\sigma",
    "select": r"\begin{{cases}} {1} & {0} = 1 \\ {2} & \text{{otherwise}} \end{{cases}}",
}  # fmt: skip
"""How each operation and function is written in LaTeX."""

_MATHML = {
    "group": "<mrow><mo>(</mo>{}<mo>)</mo></mrow>", "u-": "<mo>−</mo>{}", "+": "{}<mo>+</mo>{}", "-": "{}<mo>−</mo>{}",
    "*": '{}<mo rspace="0.17em">\u2062</mo>{}',  # the invisible times
    "/": "<mfrac><mrow>{}</mrow><mrow>{}</mrow></mfrac>", "**": "<msup><mrow>{}</mrow><mrow>{}</mrow></msup>",
    "in exponent /": '{}<mo lspace="0" rspace="0">/</mo>{}', "exp": "<msup><mi>e</mi><mrow>{}</mrow></msup>",
    "sqrt": "<msqrt>{}</msqrt>",
    "total": "<munder><mo>∑</mo><mi>k</mi></munder>{}", "10**": "<msup><mn>10</mn><mn>{}</mn></msup>",
    "e": "<mn>{}</mn><mo>⋅</mo><msup><mn>10</mn><mn>{}</mn></msup>", "number": "<mn>{}</mn>",
    "call": "{}<mrow><mo>(</mo>{}<mo>)</mo></mrow>", ",": "<mo>,</mo>", "function": "<mi>{}</mi>",
    "minimum": "<mi>min</mi>", "maximum": "<mi>max</mi>", "sigmoid": "<mi>σ</mi>",
    "select": '<mrow><mo>{{</mo><mtable columnalign="left"><mtr><mtd>{1}</mtd><mtd>{0}<mo>=</mo><mn>1</mn></mtd></mtr>'
    "<mtr><mtd>{2}</mtd><mtd><mtext>otherwise</mtext></mtd></mtr></mtable></mrow>",
}  # fmt: skip
"""The same in MathML."""


def latex_text(text: str) -> str:
    """Escape a text for LaTeX; characters that LaTeX has no letter for become formulas or [U+code point]."""
    special = {
        "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
        ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$",
        "±": r"$\pm$", "−": "$-$", "…": r"\dots{}", "–": "--", "—": "---", "’": "'", "µ": r"$\mu$", "→": r"$\to$", "\n": " ",
    }  # fmt: skip
    special |= {chr(0x3B1 + i): rf"$\{name}$" for i, name in enumerate(GREEK) if name}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c if _is_plain(c) else rf"[U+{ord(c):04X}]") for c in text)


def _is_plain(character: str) -> bool:
    return character < "\u0250" and (character.isprintable() or character == "\xa0")


_COMMANDS = frozenset(
    {
        *filter(None, GREEK), "epsilon", "phi", "vartheta", "varrho", "varsigma", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi",
        "Sigma", "Upsilon", "Phi", "Psi", "Omega", "mathrm", "mathbf", "mathit", "mathsf", "mathcal", "mathbb", "text", "hat",
        "bar", "tilde", "dot", "vec", "prime", "ell", "infty", "star", "ast", "dagger", "cdot", "times", "min", "max", "log", "exp",
    }
)  # fmt: skip
_IN_SYMBOL = re.compile(r"\\(?:[a-zA-Z]+|[,;! ])|[a-zA-Z0-9 _^{}'*+\-/=<>|().,:;!]")
MOST_IN_SYMBOL = 80


def symbol_fault(text: str) -> str:
    """Return why a text from a card can't be a symbol in LaTeX, or '' where it can.

    LaTeX reads and writes files and runs programs, so only letters, digits, scripts, balanced braces and the commands that symbols
    are written with are allowed.
    """
    if not text or len(text) > MOST_IN_SYMBOL:
        return f"it has {len(text)} characters instead of 1 to {MOST_IN_SYMBOL}"
    depth = position = 0
    while position < len(text):
        match = _IN_SYMBOL.match(text, position)
        part = match.group() if match else text[position]
        if match is None or (part[0] == "\\" and part[1:].isalpha() and part[1:] not in _COMMANDS):
            return f"{part} is not allowed in it"
        depth += (part == "{") - (part == "}")
        if depth < 0:
            break
        position += len(part)
    if re.search(r"[_^]\s*(?:[_^}]|$)", text):  # also ^^5c, which is a backslash to TeX
        return "a _ or ^ has nothing to raise or lower"
    return "its braces are not balanced" if depth else ""


def _head_and_subscript(name: str) -> tuple[str, str]:
    """Split beta_eff into beta and eff, and L0 into L and 0."""
    head, _, tail = name.partition("_")
    if numbered := re.fullmatch(r"([a-zA-Z]+)(\d+)", head):
        head, tail = numbered[1], f"{numbered[2]} {tail}".strip()
    return _HEADS.get(head, head), tail.replace("_", " ")


def default_symbol(name: str) -> str:
    """Return the LaTeX symbol of a name: Greek letters by name, what follows an underscore and digits as a subscript."""
    head, tail = _head_and_subscript(name)
    head = f"\\{head}" if head in _LETTERS else _upright(head)
    return f"{head}_{{{_upright(tail)}}}" if tail else head


def _upright(text: str) -> str:
    """Return a part of a symbol in LaTeX: one letter, upright letters, or text where it has letters that formulas have not."""
    if not text.isascii():
        return latex_text(text).strip("$") if text in _LETTERS.values() else rf"\text{{{latex_text(text)}}}"
    return text if len(text) == 1 else rf"\mathrm{{{text}}}"


def _mathml_symbol(name: str, series: Collection[str]) -> str:
    """Return the MathML symbol of a name, by the rules of `default_symbol`; a series has the index k."""
    head, tail = _head_and_subscript(name)
    symbol = f"<mi>{escape(_LETTERS.get(head, head))}</mi>"
    index = f"<mi>{escape(tail)}</mi>" * bool(tail) + "<mi>k</mi>" * (name in series)
    return f"<msub>{symbol}<mrow>{index}</mrow></msub>" if index else symbol


def _written(node: ast.AST, forms: Mapping[str, str], symbol: Callable[[str], str]) -> tuple[str, int]:
    """Return a node as text, and its precedence."""

    def wrapped(child: ast.AST, least: int) -> str:
        text, precedence = _written(child, forms, symbol)
        return text if precedence >= least else forms["group"].format(text)

    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            short = f"{value:g}"  # six digits, where the number has no more
            mantissa, _, exponent = (short if float(short) == value else repr(float(value)).removesuffix(".0")).partition("e")
            if not exponent:
                return forms["number"].format(mantissa), _ATOM
            power = int(exponent)
            return forms["10**"].format(power) if mantissa == "1" else forms["e"].format(mantissa, power), _PRODUCT
        case ast.Name(id=name):
            return symbol(name), _ATOM
        case ast.UnaryOp(op=op, operand=operand):
            text = wrapped(operand, _PRODUCT)
            return forms["u-"].format(text) if isinstance(op, ast.USub) else text, _SUM
        case ast.Call(func=ast.Name(id="total"), args=[argument]):
            return forms["total"].format(wrapped(argument, _PRODUCT)), _PRODUCT
        case ast.Call(func=ast.Name(id=("exp" | "sqrt" | "select") as name), args=args):
            precedence = {"exp": _POWER, "sqrt": _ATOM, "select": _PRODUCT}[name]
            return forms[name].format(*(wrapped(a, _SUM) for a in args)), precedence
        case ast.Call(func=ast.Name(id=name), args=args):
            head = forms.get(name, forms["function"].format(name))
            return forms["call"].format(head, forms[","].join(wrapped(a, _SUM) for a in args)), _ATOM
        case ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=left), op=(ast.Mult() | ast.Div()) as op, right=right):
            return _written(ast.UnaryOp(ast.USub(), ast.BinOp(left, op, right)), forms, symbol)  # (-a)*b is written -ab
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.BinOp(left=over, op=ast.Div(), right=under)) if _short(over, under):
            exponent = forms["in exponent /"].format(wrapped(over, _SUM), wrapped(under, _ATOM))
            return forms["**"].format(wrapped(base, _ATOM), exponent), _POWER
        case ast.BinOp(left=left, op=op, right=right):
            sign, precedence, least_left, least_right = _OPERATORS[type(op)]
            return forms[sign].format(wrapped(left, least_left), wrapped(right, least_right)), precedence
    raise FormulaError(f"{ast.dump(node)} was not checked.", code="unchecked-formula")


def _short(*nodes: ast.expr) -> bool:
    """Whether all are numbers or names, whose fraction can't be read in an exponent unless it is written a/b."""
    return all(isinstance(node, ast.Constant | ast.Name) for node in nodes)


_OPERATORS: dict[type[ast.operator], tuple[str, int, int, int]] = {
    ast.Add: ("+", _SUM, _SUM, _SUM),
    ast.Sub: ("-", _SUM, _SUM, _PRODUCT),
    ast.Mult: ("*", _PRODUCT, _PRODUCT, _PRODUCT),
    ast.Div: ("/", _POWER, _SUM, _SUM),
    ast.Pow: ("**", _POWER, _ATOM, _SUM),
}
"""The sign of each operator, its precedence, and the least precedence of operands that need no parentheses."""


# --- JavaScript -------------------------------------------------------------------------------------------------------

_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def javascript_name(name: str) -> str:
    """Return the name of a variable in JavaScript: `_N` for N, which is no word of the language and no name of a function."""
    return "_" + "".join(c if c.isascii() else f"${ord(c):x}" for c in name)


def _javascript(node: ast.AST, series: Mapping[str, Sequence[str]], names: Mapping[str, str]) -> str:
    """Return a node in JavaScript, in parentheses; names in `names` stand for others."""

    def written(child: ast.AST) -> str:
        return _javascript(child, series, names)

    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            return repr(float(value))
        case ast.Name(id=name):
            return javascript_name(names.get(name, name))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return f"power({written(left)}, {written(right)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({written(left)} {_SIGNS[type(op)]} {written(right)})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"(-{written(operand)})" if isinstance(op, ast.USub) else written(operand)
        case ast.Call(func=ast.Name(id="total"), args=[argument]):
            own = {name: series[name] for name in sorted(Expression("", argument).names) if name in series}
            if not own:
                raise FormulaError(f"{ast.unparse(argument)!r} has no series to be summed over.", code="total-without-series")
            nodes = [dict(zip(own, columns, strict=True)) for columns in zip(*own.values(), strict=False)]
            return f"({' + '.join(_javascript(argument, series, {**names, **node}) for node in nodes)})"
        case ast.Call(func=ast.Name(id=name), args=args):
            return f"{name}({', '.join(map(written, args))})"
    raise FormulaError(f"{ast.dump(node)} was not checked.", code="unchecked-formula")
