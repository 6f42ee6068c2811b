"""Laws in JavaScript as text; tests/integration/test_explore.py runs them in a browser."""

from __future__ import annotations

import re

import pytest

from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.formula import FUNCTIONS, Expression, FormulaError, javascript_name
from bayeslaw.laws.javascript import FUNCTIONS as DEFINED
from bayeslaw.laws.javascript import law_function
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import with_by, with_levels
from tests.fixed import LINE


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a + b*c", "(_a + (_b * _c))"),
        ("-a**2", "(-power(_a, 2.0))"),
        ("(-a)**b**c", "power((-_a), power(_b, _c))"),
        ("a - (b - c)", "(_a - (_b - _c))"),
        ("+a/1e-5", "(_a / 1e-05)"),
        ("select(a, minimum(b, 1), sigmoid(c))", "select(_a, minimum(_b, 1.0), sigmoid(_c))"),
    ],
)
def test_a_formula(formula: str, expected: str) -> None:
    assert Expression.parse(formula).javascript() == expected


def test_a_total_is_written_out() -> None:
    series = {"fall": ["fall_1", "fall_2"], "since": ["since_1", "since_2"]}
    expected = "((_fall_1 * power(_since_1, _b)) + (_fall_2 * power(_since_2, _b)))"
    assert Expression.parse("total(fall*since**b)").javascript(series) == expected
    with pytest.raises(FormulaError) as caught:
        Expression.parse("total(a)").javascript(series)
    assert caught.value.code == "total-without-series"


def test_names_are_no_words_of_the_language_and_stay_different() -> None:
    names = ["constructor", "class", "exp", "P", "S", "x", "out", "α", "a", "β1"]
    written = [javascript_name(name) for name in names]
    assert len({*written}) == len(names)
    assert all(re.fullmatch(r"_[\w$]+", name) and name.isascii() for name in written)


def test_every_function_of_formulas_is_defined() -> None:
    """`total` is written out."""
    assert [name for name in FUNCTIONS if name != "total" and not re.search(rf"\b{name}\b", DEFINED)] == []


def test_a_law_uses_each_name_after_it_is_defined(law: Law) -> None:
    text, known = law_function(law), set("PSxs") | {"out", "from", "to", "level", *re.findall(r"\w+", DEFINED)}
    for line in text.splitlines():
        defined = re.match(r"\s*const (\S+) = (.*);$", line)
        used = defined[2] if defined else line if line.strip().startswith("out[s]") else ""
        assert set(re.findall(r"[A-Za-z_$][\w$]*", re.sub(r"\d[\d.]*e[-+]?\d+", "0", used))) <= known, line
        if defined:
            known.add(defined[1])


def test_what_is_the_same_for_all_draws_is_computed_once() -> None:
    before, _, after = law_function(load_law("ptpp-gate")).partition("for (let s")
    assert "_share = " in before
    assert "_gate = " in after
    assert "_share = " not in after


def test_a_parameter_by_a_column_has_the_row_of_its_level() -> None:
    law = with_levels(with_by(parse_card(LINE), {"a": "domain"}), {"domain": ("web", "code")})
    text = law_function(law)
    names, marks = list(law.parameters), [list(law.covariates).index(name) for name in law.indicators]
    assert f"const row_a = [{names.index('a_web')}, {names.index('a_code')}][level(x, {marks})];" in text
    assert "const _a = P[row_a * S + s];" in text
