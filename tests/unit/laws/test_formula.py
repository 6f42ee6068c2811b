"""Formulas: what may stand in one, what is refused, and its value, terms and LaTeX."""

from __future__ import annotations

import contextlib
import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bayeslaw.engine.tape import FUNCTIONS as TAPE
from bayeslaw.inference.model import pytensor_functions
from bayeslaw.laws.formula import MAX_DEPTH, Expression, FormulaError, default_symbol
from bayeslaw.laws.law import Law

ALLOWED = "is not allowed in a formula; use names, numbers, + - * / ** and exp,"
CALLS = "can't be called in a formula; the functions are exp, expm1,"
REFUSED = {
    "__import__('os')": f"'__import__' {CALLS}",
    "__import__('os').system('true')": f"\"__import__('os').system\" {CALLS}",
    "open(x)": f"'open' {CALLS}",
    "eval(a)": f"'eval' {CALLS}",
    "sigmod(a)": "maximum, select, total. Did you mean 'sigmoid'?",
    "exp(a)(b)": f"'exp(a)' {CALLS}",
    "(lambda: 1)()": f"'lambda: 1' {CALLS}",
    "a.real": f"'a.real' {ALLOWED}",
    "(1).__class__": f"'1 .__class__' {ALLOWED}",
    "lambda: 1": f"'lambda: 1' {ALLOWED}",
    "[x for x in y]": f"'[x for x in y]' {ALLOWED}",
    "{x for x in y}": f"'{{x for x in y}}' {ALLOWED}",
    "f'{x}'": f"\"f'{{x}}'\" {ALLOWED}",
    "a[0]": f"'a[0]' {ALLOWED}",
    "a < b": f"'a < b' {ALLOWED}",
    "a == b": f"'a == b' {ALLOWED}",
    "a and b": f"'a and b' {ALLOWED}",
    "not a": f"'not a' {ALLOWED}",
    "~a": f"'~a' {ALLOWED}",
    "True": f"'True' {ALLOWED}",
    "None": f"'None' {ALLOWED}",
    "...": f"'...' {ALLOWED}",
    "'text'": f"\"'text'\" {ALLOWED}",
    "b'text'": f"\"b'text'\" {ALLOWED}",
    "1j": f"'1j' {ALLOWED}",
    "1e999": ALLOWED,
    f"1{'0' * 400}": ALLOWED,
    "a if b else c": f"'a if b else c' {ALLOWED}",
    "a // b": f"'a // b' {ALLOWED}",
    "a % b": f"'a % b' {ALLOWED}",
    "a @ b": f"'a @ b' {ALLOWED}",
    "a, b": f"'(a, b)' {ALLOWED}",
    "{}": f"'{{}}' {ALLOWED}",
    "exp(*a)": f"'*a' {ALLOWED}",
    "await a": f"'await a' {ALLOWED}",
    "exp(a, b)": "exp takes 1 argument(s): 'exp(a, b)' does not give that.",
    "exp(x=a)": "exp takes 1 argument(s): 'exp(x=a)' does not give that.",
    "minimum(a)": "minimum takes 2 argument(s): 'minimum(a)' does not give that.",
    "_a": "'_a' in '_a': a name can't begin with an underscore.",
    "a := 1": "'a := 1' is not a formula: invalid syntax.",
    "a = 1": "'a = 1' is not a formula:",
    "import os": "'import os' is not a formula: invalid syntax.",
    "a; b": "'a; b' is not a formula: invalid syntax.",
    "a +": "'a +' is not a formula: invalid syntax.",
    "a b": "'a b' is not a formula: invalid syntax.",
    "\0": r"'\x00' is not a formula: source code string cannot contain null bytes.",
    "\ud800": r"'\ud800' is not a formula: 'utf-8' codec can't encode character",
    "": "A formula is a non-empty text, not ''.",
    "  ": "A formula is a non-empty text, not '  '.",
    "a" * 2001: "A formula of 2001 characters is longer than the 2000 allowed.",
    "-" * 61 + "a": "is nested more than 60 deep.",
    "-" * 1900 + "a": "is nested more than 60 deep.",
    "+".join("a" * 62): "is nested more than 60 deep.",
    "exp(" * 61 + "a" + ")" * 61: "is nested more than 60 deep.",
    "(" * 300 + "a" + ")" * 300: "is not a formula: too many nested parentheses.",
    "a" + ".b" * 900: " a formula",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda t: ascii(t)[1:30])
def test_refuses(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Expression.parse(text)
    assert REFUSED[text] in str(caught.value)


@pytest.mark.parametrize("given", [None, 5, b"a", ["a"]])
def test_refuses_what_is_no_text(given: Any) -> None:
    with pytest.raises(FormulaError, match="A formula is a non-empty text, not "):
        Expression.parse(given)


def test_the_deepest_and_longest_formula() -> None:
    assert Expression.parse("-" * MAX_DEPTH + "a").evaluate({"a": 2.0}) == 2.0
    assert Expression.parse("a" * 2000).names == {"a" * 2000}


def test_names_leave_functions_out() -> None:
    assert Expression.parse("exp(a)*b + minimum(c, 2)/a - exp1").names == {"a", "b", "c", "exp1"}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a", [(1, "a")]),
        ("-a", [(-1, "a")]),
        ("a + b*c - d", [(1, "a"), (1, "b * c"), (-1, "d")]),
        ("a - (b - c)", [(1, "a"), (-1, "b"), (1, "c")]),
        ("-(a + b) - -c", [(-1, "a"), (-1, "b"), (1, "c")]),
        ("+a + (b + exp(c - d))", [(1, "a"), (1, "b"), (1, "exp(c - d)")]),
        ("(a + b)*c", [(1, "(a + b) * c")]),
    ],
)
def test_terms_with_their_signs(text: str, terms: list[tuple[int, str]]) -> None:
    expression = Expression.parse(text)
    assert [(sign, term.text) for sign, term in expression.terms] == terms
    values = dict(zip("abcd", (1.3, 0.7, 2.1, 0.4), strict=True))
    total = sum(sign * term.evaluate(values) for sign, term in expression.terms)
    assert expression.evaluate(values) == pytest.approx(total)


def test_equal_texts_are_equal_formulas() -> None:
    assert Expression.parse("a + b") == Expression.parse(" a + b ") != Expression.parse("b + a")


def _grow(child: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} {} {}".format, child, st.sampled_from(["+", "-", "*", "/", "**"]), child),
        st.builds("-{}".format, child),
        st.builds("({})".format, child),
        st.builds("sqrt({})".format, child),
        st.builds("{}({}, {})".format, st.sampled_from(["minimum", "maximum"]), child, child),
    )


LEAVES = st.one_of(st.sampled_from("abc"), st.floats(0, 1e6).map(repr))
EXACT: dict[str, Any] = {"sqrt": math.sqrt, "minimum": min, "maximum": max}


@given(st.recursive(LEAVES, _grow, max_leaves=12), st.lists(st.floats(0.1, 10), min_size=3, max_size=3))
def test_evaluates_as_python_does(text: str, numbers: list[float]) -> None:
    """Arithmetic of any shape gives Python's own result to the last bit, and so does the tape's."""
    values = dict(zip("abc", numbers, strict=True))
    try:
        expected = eval(text, {"__builtins__": {}}, EXACT | values)
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):  # impossible, or complex on the way
        assume(False)
    assume(isinstance(expected, float))
    expression = Expression.parse(text)
    assert float(expression.evaluate(values)) == expected
    assert float(expression.evaluate(values, TAPE)) == expected
    assert expression.latex()
    ElementTree.fromstring(expression.mathml())


@given(st.text(max_size=40))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    with contextlib.suppress(FormulaError):
        assert Expression.parse(text).names is not None


def test_impossible_operations_give_inf_or_nan_in_silence() -> None:
    for text, expected in (
        ("1/0", math.inf),
        ("10**400", math.inf),
        ("(-8)**0.5", math.nan),
        ("log(0)", -math.inf),
        ("1/(a - 1)", math.inf),
    ):
        np.testing.assert_equal(float(Expression.parse(text).evaluate({"a": 1.0})), expected)


def test_arrays_and_pytensor_agree() -> None:
    import pytensor.tensor as pt

    text = (
        "exp(-a) + expm1(b)*log(a) - log1p(b)/sqrt(a) + tanh(b)**2 + sigmoid(a) + minimum(a, b) + maximum(a, 1.5) + select(b, a, 3)"
    )
    expression = Expression.parse(text)
    a, b = np.array([0.5, 1.0, 2.5]), np.array([[0.2], [0.9]])
    value = expression.evaluate({"a": a, "b": b})
    assert value.shape == (2, 3)
    graph = expression.evaluate({"a": pt.as_tensor_variable(a), "b": pt.as_tensor_variable(b)}, pytensor_functions())
    np.testing.assert_allclose(graph.eval(mode="FAST_COMPILE"), value, rtol=1e-12)
    np.testing.assert_allclose(value[1, 2], np.exp(-2.5) + np.expm1(0.9) * np.log(2.5) - np.log1p(0.9) / np.sqrt(2.5)
                               + np.tanh(0.9) ** 2 + 1 / (1 + np.exp(-2.5)) + 0.9 + 2.5 + 2.5)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("E + A/N**alpha", r"E + \frac{A}{N^{\alpha}}"),
        ("-(a + b)*c", r"-\left(a + b\right) \, c"),
        ("a - (b + c)", r"a - \left(b + c\right)"),
        ("a - b + c", "a - b + c"),
        ("(a*b)**2", r"\left(a \, b\right)^{2}"),
        ("a**b**c", "a^{b^{c}}"),
        ("(a**b)**c", r"\left(a^{b}\right)^{c}"),
        ("exp(-a*b)", r"e^{-a \, b}"),
        ("exp(a)**2", r"\left(e^{a}\right)^{2}"),
        ("sqrt(a + b)", r"\sqrt{a + b}"),
        ("log(a)*maximum(b, 1e-9)", r"\log\left(a\right) \, \max\left(b, 10^{-9}\right)"),
        ("2.5e6*a + 0.25", r"2.5 \cdot 10^{6} \, a + 0.25"),
        ("1e6**a", r"\left(10^{6}\right)^{a}"),
        ("log1p(x)", r"\mathrm{log1p}\left(x\right)"),
        ("select(c, a, b)", r"\begin{cases} a & c = 1 \\ b & \text{otherwise} \end{cases}"),
    ],
)
def test_latex(text: str, latex: str) -> None:
    assert Expression.parse(text).latex() == latex


def test_latex_with_symbols_of_ones_own() -> None:
    assert Expression.parse("a*lam").latex({"a": "a'"}) == r"a' \, \lambda"


@pytest.mark.parametrize(
    ("text", "mathml"),
    [
        ("E", "<mi>E</mi>"),
        ("beta_eff", "<msub><mi>β</mi><mrow><mi>eff</mi></mrow></msub>"),
        ("L0 - 1e-9", "<msub><mi>L</mi><mrow><mi>0</mi></mrow></msub><mo>−</mo><msup><mn>10</mn><mn>-9</mn></msup>"),
        ("(a + b)/c", "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mrow><mi>c</mi></mrow></mfrac>"),
        ("log1p(x)", "<mi>log1p</mi><mrow><mo>(</mo><mi>x</mi><mo>)</mo></mrow>"),
    ],
)
def test_mathml(text: str, mathml: str) -> None:
    assert Expression.parse(text).mathml() == f"<math>{mathml}</math>"


def test_every_law_is_written_in_known_mathml_elements(law: Law) -> None:
    for element in law.mathml:
        tags = {node.tag for node in ElementTree.fromstring(element).iter()}
        assert tags <= {
            "math",
            "mrow",
            "mi",
            "mo",
            "mn",
            "mtext",
            "mfrac",
            "msqrt",
            "msup",
            "msub",
            "munder",
            "mtable",
            "mtr",
            "mtd",
        }
    assert len(law.mathml) == 1 + len(law.let)


@pytest.mark.parametrize(
    ("name", "symbol"),
    [("N", "N"), ("alpha", r"\alpha"), ("lam", r"\lambda"), ("ptpp", r"\mathrm{PTPP}"), ("share", r"\mathrm{share}"),
     ("beta_eff", r"\beta_{\mathrm{eff}}"), ("x_1", "x_{1}"), ("L0", "L_{0}"), ("beta_of_D", r"\beta_{\mathrm{of D}}")],
)  # fmt: skip
def test_symbols(name: str, symbol: str) -> None:
    assert default_symbol(name) == symbol
