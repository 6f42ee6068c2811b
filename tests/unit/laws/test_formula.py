"""Formulas: texts that are refused, and the value, terms, LaTeX and MathML of the others."""

from __future__ import annotations

import contextlib
import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bayeslaw.engine.graph import FUNCTIONS as GRAPH
from bayeslaw.laws.formula import MAX_DEPTH, Expression, FormulaError, default_symbol, pytensor_functions
from bayeslaw.laws.law import Law
from tests.errors import fails

REFUSED = {
    "unknown-function": [
        "__import__('os')", "__import__('os').system('true')", "open(x)", "eval(a)", "exp(a)(b)", "(lambda: 1)()", "sigmod(a)",
    ],
    "not-allowed": [
        "a.real", "(1).__class__", "lambda: 1", "[x for x in y]", "f'{x}'", "a < b", "a and b", "not a", "~a", "True",
        "a[0]", "None", "...", "'text'", "1e999", f"1{'0' * 400}", "a if b else c", "a // b", "a % b", "a, b", "{}", "exp(*a)",
    ],
    "wrong-arguments": ["exp(a, b)", "exp(x=a)", "minimum(a)"],
    "nested-total": ["total(a*total(b))"],
    "underscore": ["_a"],
    "not-a-formula": ["a := 1", "a = 1", "import os", "a; b", "a +", "\0", "\ud800"],
    "not-a-text": ["", "  "],
    "too-long": ["a" * 2001],
    "nested-too-deeply": ["-" * 61 + "a", "-" * 1900 + "a", "+".join("a" * 62), "exp(" * 61 + "a" + ")" * 61],
}  # fmt: skip


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in REFUSED.items() for text in texts], ids=ascii)
def test_formulas_that_are_refused(code: str, text: str) -> None:
    with fails(code, kind=FormulaError):
        Expression.parse(text)


def test_the_refusal_of_a_function_names_those_that_there_are() -> None:
    with pytest.raises(FormulaError) as caught:
        Expression.parse("sigmod(a)")
    assert str(caught.value) == (
        "'sigmod' can't be called in a formula; the functions are exp, expm1, log, log1p, sqrt, tanh, sigmoid, minimum, maximum, "
        "select, total. Did you mean 'sigmoid'?"
    )


def test_a_formula_may_have_several_lines() -> None:
    assert Expression.parse("\n  a\r\n  + b/N\n").text == "a + b/N"
    assert Expression.parse("# all\n a  # the floor\n\n + b/N # ))").text == "a + b/N"  # the comment was of all that followed


@pytest.mark.parametrize("text", ["(" * 300 + "a" + ")" * 300, "a" + ".b" * 900])
def test_formulas_that_python_cannot_parse_are_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        Expression.parse(text)


@pytest.mark.parametrize("given", [None, 5, b"a", ["a"]])
def test_values_that_are_no_texts_are_refused(given: Any) -> None:
    with fails("not-a-text"):
        Expression.parse(given)


def test_a_formula_may_be_60_deep_and_2000_long() -> None:
    assert Expression.parse("-" * MAX_DEPTH + "a").evaluate({"a": 2.0}) == 2.0
    assert Expression.parse("a" * 2000).names == {"a" * 2000}


def test_names_of_functions_are_not_among_the_names() -> None:
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
def test_terms_have_signs(text: str, terms: list[tuple[int, str]]) -> None:
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


@pytest.mark.slow
@given(st.recursive(LEAVES, _grow, max_leaves=12), st.lists(st.floats(0.1, 10), min_size=3, max_size=3))
def test_evaluates_as_python_does(text: str, numbers: list[float]) -> None:
    """Arithmetic of any shape gives Python's own result to the last bit, and so do the functions of graphs."""
    values = dict(zip("abc", numbers, strict=True))
    try:
        expected = eval(text, {"__builtins__": {}}, EXACT | values)
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):  # impossible, or complex on the way
        assume(False)
    assume(isinstance(expected, float))
    expression = Expression.parse(text)
    assert float(expression.evaluate(values)) == expected
    assert float(expression.evaluate(values, GRAPH)) == expected
    assert expression.latex()
    ElementTree.fromstring(expression.mathml())


@given(st.text(max_size=40))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    with contextlib.suppress(FormulaError):
        assert Expression.parse(text).names is not None


def test_impossible_operations_give_inf_or_nan_without_a_warning() -> None:
    for text, expected in (
        ("1/0", math.inf),
        ("10**400", math.inf),
        ("(-8)**0.5", math.nan),
        ("log(0)", -math.inf),
        ("1/(a - 1)", math.inf),
    ):
        np.testing.assert_equal(float(Expression.parse(text).evaluate({"a": 1.0})), expected)


@pytest.mark.parametrize("base", [[1e-9, 0.3, 1.0, 7e12], [0.0, 2.0], [-2.0, 2.0], [np.inf, 2.0]])
def test_powers_of_arrays_are_those_of_single_numbers(base: list[float]) -> None:
    """In whichever of the two orders draws and settings lie."""
    power, exponents = Expression.parse("a**b"), np.array([-0.4, 0.0, 1.0, 3.0, 0.27])
    with np.errstate(all="ignore"):
        expected = np.array([[np.float64(a) ** b for a in base] for b in exponents])
    np.testing.assert_allclose(power.evaluate({"a": np.array(base), "b": exponents[:, None]}), expected, rtol=1e-13)
    np.testing.assert_allclose(power.evaluate({"a": np.array(base)[:, None], "b": exponents}), expected.T, rtol=1e-13)


@pytest.mark.slow
def test_arrays_and_pytensor_give_the_same_values() -> None:
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
        ("a**(1/beta) + a**(-1/b)", r"a^{1/\beta} + a^{-\frac{1}{b}}"),
        ("exp(-a*b)", r"e^{-a \, b}"),
        ("exp(a)**2", r"\left(e^{a}\right)^{2}"),
        ("sqrt(a + b)", r"\sqrt{a + b}"),
        ("log(a)*maximum(b, 1e-9)", r"\log\left(a\right) \, \max\left(b, 10^{-9}\right)"),
        ("2.5e6*a + 0.25", r"2.5 \cdot 10^{6} \, a + 0.25"),
        ("1048576*a + 0.33333333", r"1048576 \, a + 0.33333333"),  # six digits were shown
        ("1.2345678e-7*a", r"1.2345678 \cdot 10^{-7} \, a"),
        ("1e6**a", r"\left(10^{6}\right)^{a}"),
        ("log1p(x)", r"\mathrm{log1p}\left(x\right)"),
        ("select(c, a, b)", r"\begin{cases} a & c = 1 \\ b & \text{otherwise} \end{cases}"),
    ],
)
def test_a_formula_in_latex(text: str, latex: str) -> None:
    assert Expression.parse(text).latex() == latex


def test_latex_uses_given_symbols() -> None:
    assert Expression.parse("a*lam").latex({"a": "a'"}) == r"a' \, \lambda"


@pytest.mark.parametrize(
    ("text", "mathml"),
    [
        ("E", "<mi>E</mi>"),
        ("beta_eff", "<msub><mi>β</mi><mrow><mi>eff</mi></mrow></msub>"),
        ("L0 - 1e-9", "<msub><mi>L</mi><mrow><mi>0</mi></mrow></msub><mo>−</mo><msup><mn>10</mn><mn>-9</mn></msup>"),
        ("(a + b)/c", "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mrow><mi>c</mi></mrow></mfrac>"),
        ("x**(1/2)", '<msup><mrow><mi>x</mi></mrow><mrow><mn>1</mn><mo lspace="0" rspace="0">/</mo><mn>2</mn></mrow></msup>'),
        ("log1p(x)", "<mi>log1p</mi><mrow><mo>(</mo><mi>x</mi><mo>)</mo></mrow>"),
    ],
)
def test_a_formula_in_mathml(text: str, mathml: str) -> None:
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
     ("beta_eff", r"\beta_{\mathrm{eff}}"), ("x_1", "x_{1}"), ("L0", "L_{0}"), ("beta_of_D", r"\beta_{\mathrm{of D}}"),
     ("\u03b1", r"\alpha"), ("A_\u03b2", r"A_{\beta}"), ("\u00c9tat", "\\text{\u00c9tat}")],
)  # fmt: skip
def test_symbols_follow_from_names(name: str, symbol: str) -> None:
    assert default_symbol(name) == symbol


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("gelu(E)", "unknown-function", "exp, expm1, log, log1p, sqrt, tanh, sigmoid"),
        ("2*E(1 + A)", "unknown-function", "E*(…)"),
        ("log(N, D)", "wrong-arguments", "log takes 1"),
        ("sigmoid()", "wrong-arguments", "sigmoid takes 1"),
        ("E + A^B", "not-allowed", "a**b"),
        ("E < 1", "not-allowed", "select(c, a, b)"),
        ("A if N else B", "not-allowed", "select(c, a, b)"),
        ("E and A", "not-allowed", "select(c, a, b)"),
        ("E + A/N**lambda", "not-a-formula", "'lambda' is a word of Python"),
        ("E + None", "not-allowed", "Nothing can be named None"),
    ],
)
def test_what_a_formula_cannot_have_is_refused_with_what_it_can(text: str, code: str, named: str) -> None:
    with fails(code, named):
        Expression.parse(text)
