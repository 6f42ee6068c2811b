"""Reading law cards: every error names the line of the fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import CardError
from bayeslaw.data.columns import TEXT
from bayeslaw.laws.card import law_names, load_law, parse_card
from bayeslaw.laws.names import RESERVED
from bayeslaw.noise.noise import PRIORS
from tests.cards import POSITIVE, card
from tests.errors import fails
from tests.fixed import line_fit

CARD = """\
name = "own"
title = "A law of one's own"
source = "here"
loss = "E + part + K*r"
note = "two  lines\\nof text"

[let]
part = "A/scale"
scale = "N**alpha"

[covariates]
N = { unit = "parameters", support = [1e4, 1e13] }
r = { unit = "share", support = [0, 1], at_least = 2 }

[parameters.E]
meaning = "floor"
unit = "nats/token"
prior = { dist = "LogNormal", mu = 0.3, sigma = 0.5 }

[parameters.A]
meaning = "scale"
prior = { dist = "LogNormal", mu = 0, sigma = 1, on = "A/scale" }

[parameters.alpha]
meaning = "exponent"
latex = "a"
prior = { dist = "Beta", alpha = 2, beta = 4 }

[parameters.K]
meaning = "slope"
prior = { dist = "Normal", mu = 0, sigma = 1 }

[published."Someone 2020"]
E = 1.5
alpha = 1
"""


def changed(old: str, new: str) -> str:
    assert old in CARD
    return CARD.replace(old, new)


FAULTS: dict[str, list[tuple[int | None, str]]] = {
    "unknown-name": [
        (8, changed("A/scale", "A/scael").replace('on = "A/scael"', 'on = "A/scale"')),
        (4, changed("+ K*r", "+ K*replay")),
        (22, changed('on = "A/scale"', 'on = "A/scal"')),
        (13, changed("at_least = 2", 'log = true, share_of = "M"')),
        (13, changed("at_least = 2", 'log = true, share_of = "r"')),
    ],
    "cycle": [(8, changed("N**alpha", "N**alpha + part")), (9, changed("N**alpha", "N**alpha + scale"))],
    "missing-prior": [(29, changed('prior = { dist = "Normal", mu = 0, sigma = 1 }\n', ""))],
    "unknown-distribution": [(31, changed('"Normal"', '"Norml"'))],
    "wrong-prior-arguments": [(31, changed('"Normal", mu = 0, sigma = 1', '"Normal", mu = 0'))],
    "unknown-function": [
        (22, changed('on = "A/scale"', 'on = "A/open(scale)"')),
        (4, changed("E + part + K*r", "__import__('os').system('true')")),
    ],
    "unused-name": [
        (29, changed(" + K*r", " + r")),
        (13, changed(" + K*r", " + K")),
        (10, changed('scale = "N**alpha"', 'scale = "N**alpha"\nidle = "N"')),
    ],
    "name-used-twice": [(29, changed("[parameters.K]", "[parameters.r]").replace("K*r", "r"))],
    "invalid-name": [
        (29, changed("[parameters.K]", "[parameters.exp]").replace("K*r", "exp*r")),
        (29, changed("[parameters.K]", '[parameters."K-1"]')),
        (29, changed("[parameters.K]", '[parameters."\u00b5"]').replace("K*r", "\u00b5*r")),  # the micro sign, \u03bc in formulas
    ],
    "on-not-proportional": [
        (22, changed('on = "A/scale"', 'on = "A/scale + 1"')),
        (22, changed('on = "A/scale"', 'on = "-A/scale"')),
    ],
    "on-of-other-term": [(22, changed('on = "A/scale"', f'on = "A/{other}"')) for other in ("N**K", "(scale*(1 + r))")],
    "on-uses-on": [(31, changed('"Normal", mu = 0, sigma = 1', '"HalfNormal", sigma = 1, on = "K*A"'))],
    "invalid-support": [
        *((12, changed("[1e4, 1e13]", support)) for support in ("[1e13, 1e4]", "[1e4]", "[nan, 1e13]", '["1", "2"]')),
        (12, changed(", support = [1e4, 1e13]", "")),
    ],
    "share-without-logarithm": [(13, changed("at_least = 2", 'at_least = 2, share_of = "N"'))],
    "not-a-whole-number": [(13, changed("at_least = 2", "at_least = 0"))],
    "not-a-table": [
        (12, changed('{ unit = "parameters", support = [1e4, 1e13] }', "3")),
        (30, changed("[parameters.K]", "[parameters]\nK = 3\n[parameters.M]").replace("K*r", "K*r*M")),
        (3, 'name = "own"\nloss = "E"\nlet = 3'),
    ],
    "unknown-key": [
        (12, changed('unit = "parameters"', 'units = "parameters"')),
        (26, changed('latex = "a"', 'symbol = "a"')),
        (2, changed('title = "', 'titel = "')),
    ],
    "not-a-text": [
        (12, changed('unit = "parameters", ', "")),
        (13, changed("at_least = 2", "at_least = 2, share_of = 3")),
        (24, changed('meaning = "exponent"\n', "")),
        (None, changed('loss = "E + part + K*r"\n', "")),
        (4, changed('"E + part + K*r"', '""')),
        (9, changed('"N**alpha"', "3")),
    ],
    "not-numbers": [(33, changed("E = 1.5", 'E = "1.5"'))],
    "unknown-domain": [(4, changed('source = "here"', 'source = "here"\ndomain = "web"'))],
    "unknown-noise": [(4, changed('source = "here"', 'source = "here"\nnoise = "student"'))],
    "not-positive": [(4, changed('source = "here"', 'source = "here"\nhuber_delta = -1'))],
    "not-in-range": [(4, changed('source = "here"', f'source = "here"\ncorner_error = {c}')) for c in ("-11", "nan", "true")],
    "not-of-sizes-and-tokens": [(4, changed('source = "here"', 'source = "here"\ncorner_error = -1'))],
    "huge-number": [
        (None, changed("[1e4, 1e13]", f"[1, 1{'0' * 400}]")),
        (None, changed("E = 1.5", f"E = 1{'0' * 400}")),
    ],
    "invalid-prior-number": [(18, changed("mu = 0.3", f"mu = 1{'0' * 400}"))],
    "not-toml": [(None, changed("[let]", "[let"))],
}  # fmt: skip


def test_all_faults_of_a_card_are_named_at_once() -> None:
    card = changed('"Normal", mu = 0, sigma = 1', '"Norml", mu = 0, sigma = 1').replace("[1e4, 1e13]", "[1e13, 1e4]")
    card = card.replace('title = "A law of one\'s own"', 'title = ""').replace("E = 1.5", 'E = "1.5"')
    with pytest.raises(CardError) as caught:
        parse_card(card, "own.toml")
    found = caught.value.faults
    assert [fault.code for fault in found] == ["invalid-support", "unknown-distribution", "not-numbers", "not-a-text"]
    assert caught.value.code == "invalid-support"
    assert str(caught.value).splitlines()[0] == "own.toml has 4 faults:"
    assert [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]] == [
        "line 12",
        "line 31",
        "line 33",
        "line 2",
    ]


def test_faults_of_names_and_of_priors_stand_together() -> None:
    unknown = changed("A/scale", "A/scael").replace('on = "A/scael"', 'on = "A/scale"').replace("+ K*r", "+ K*replay")
    assert codes_in(unknown) == ["unknown-name", "unknown-name"]
    priors = (
        changed('on = "A/scale"', 'on = "A/scale + 1"')
        .replace('"Normal", mu = 0', '"HalfNormal"')
        .replace("sigma = 1 }", 'sigma = 1, on = "K*A" }')
    )
    assert codes_in(priors) == ["on-not-proportional", "on-uses-on"]
    idle = changed(" + K*r", "").replace('scale = "N**alpha"', 'scale = "N**alpha"\nidle = "N"')
    assert codes_in(idle) == ["unused-name"] * 3


def test_a_faulty_prior_hides_no_unknown_name() -> None:
    faulty = changed('"Normal", mu = 0, sigma = 1', '"Norml", mu = 0, sigma = 1')
    assert codes_in(faulty) == ["unknown-distribution"]
    unknown = faulty.replace("+ K*r", "+ Q*K*r").replace('scale = "N**alpha"', 'scale = "M**alpha"')
    assert codes_in(unknown) == ["unknown-distribution", "unknown-name", "unknown-name"]
    assert codes_in(unknown.replace("[parameters.K]", '[parameters."K-1"]'))[1:] == []  # which the formula can't name


def codes_in(card: str) -> list[str]:
    """Codes of the faults of a card."""
    with pytest.raises(CardError) as caught:
        parse_card(card)
    return [fault.code for fault in caught.value.faults]


TUNED = changed("+ K*r", "+ K*log(r/best)**2").replace('scale = "N**alpha"', 'scale = "N**alpha"\nbest = "alpha*N**(-0.3)"')


def test_a_card_names_its_tuned_covariates() -> None:
    law = parse_card(TUNED + '\n[tuning]\nr = "best"\n')
    assert law.tuning == {"r": "best"}
    assert parse_card(TUNED).tuning == {}


@pytest.mark.parametrize(
    ("table", "code", "value"),
    [
        ('R = "best"', "unknown-name", "Did you mean 'r'?"),
        ('r = "bets"', "unknown-name", "Did you mean 'best'?"),
        ("r = 3", "not-a-text", "3"),
        ('r = "best"\nN = "scale"', "tuned-by-tuned", "N"),
    ],
)
def test_faults_of_tuning(table: str, code: str, value: str) -> None:
    with fails(code, "line 39: " if "N =" not in table else "line ", value, kind=CardError):
        parse_card(f"{TUNED}\n[tuning]\n{table}\n")


@pytest.mark.parametrize(("code", "line", "card"), [(code, *fault) for code, faults in FAULTS.items() for fault in faults])
def test_faults_of_cards_are_named_with_their_lines(code: str, line: int | None, card: str) -> None:
    with fails(code, f"line {line}: " if line else "card", kind=CardError):
        parse_card(card)


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(CardError) as caught:
        parse_card(changed('"A/scale"', '"A/scael"'))
    assert str(caught.value) == (
        "card, line 8: unknown name 'scael' in 'part'; known are part, scale, N, r, E, A, alpha, K. Did you mean 'scale'?"
    )


def test_a_card_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(CARD, encoding="utf-8")
    law = load_law(path)
    assert (law.name, law.title, law.source, law.note) == ("own", "A law of one's own", "here", "two lines of text")
    assert list(law.let) == ["scale", "part"]
    assert law.card == CARD
    assert law.published == {"Someone 2020": {"E": 1.5, "alpha": 1.0}}
    assert law.covariates["r"].at_least == 2
    assert law.parameters["alpha"].latex == "a"
    formula, parts = law.latex().split(r" \quad\text{where}\quad ")
    assert formula == r"L = E + \mathrm{part} + K \, r"
    assert parts == r"\mathrm{scale} = N^{a},\quad \mathrm{part} = \frac{A}{\mathrm{scale}}"
    draws = {"E": [1.0, 2.0], "A": [3.0, 1.0], "alpha": [0.5, 0.25], "K": [-1.0, 1.0]}
    losses = law.predict(draws, {"N": [1e4, 1e8, 1e12], "r": [0.0, 0.5, 1.0]})
    np.testing.assert_allclose(losses, [[1.03, 0.5003, 3e-6], [2.1, 2.51, 3.001]])
    assert load_law(str(path)) == law


def test_a_formula_without_covariates_has_a_loss_for_every_row() -> None:
    law = parse_card(CARD)
    constant = replace(law, formula=parse_card(changed("E + part + K*r", "E + K*r + 0*part")).formula)
    assert constant.predict({"E": [1.0], "A": [1.0], "alpha": [0.5], "K": [0.0]}, {"N": [1e4, 1e5], "r": [0, 1]}).shape == (1, 2)


def test_amplitudes_are_parameters_to_which_terms_are_proportional() -> None:
    law = parse_card(CARD)
    assert law.floors == ("E",)
    assert {name: term.text for name, term in law.amplitudes.items()} == {"A": "part", "K": "K * r"}  # K has either sign
    law = parse_card(changed("E + part + K*r", "E - part + K*r").replace('"Normal", mu = 0,', '"HalfNormal",'))
    assert {name: term.text for name, term in law.amplitudes.items()} == {"A": "-(part)", "K": "K * r"}


def test_a_floor_is_a_parameter_that_is_a_term_by_itself() -> None:
    assert parse_card(changed("E + part", "E**2 + part")).floors == ()


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    binary, folder = tmp_path / "binary.toml", tmp_path / "folder.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    folder.mkdir()
    for path in (tmp_path / "none.toml", binary, folder):
        with fails("unreadable-card", path, kind=CardError):
            load_law(path)


def test_an_unknown_law_is_refused_with_the_nearest_name() -> None:
    with fails("unknown-law", "'chinchila'", "Did you mean 'chinchilla'?", *law_names(), kind=CardError):
        load_law("chinchila")
    several: tuple[Any, ...] = ("plateau-target,transfer-target", ["plateau-target", "transfer-target"])
    for both in several:
        with fails("several-laws", "not 2 (plateau-target, transfer-target)", "fit_stack", kind=CardError):
            load_law(both)
    with fails("not-a-law", "not by a list", kind=CardError):  # "not 1"
        load_law(cast("Any", ["chinchilla"]))
    with fails("not-a-law", "not by a Fit", "fit.law", kind=CardError):
        load_law(cast("Any", line_fit()))
    with fails("unknown-law", "'../models/chinchilla'"):
        load_law("../models/chinchilla")


def test_a_file_in_the_working_folder_does_not_stand_for_a_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file called like a law, such as an output without an ending, was read as its card."""
    (tmp_path / "chinchilla").write_text("N,D\n1,2\n")
    monkeypatch.chdir(tmp_path)
    assert load_law("chinchilla").name == "chinchilla"
    for path in ("./chinchilla", Path("chinchilla")):
        with fails("not-toml", kind=CardError):
            load_law(path)


def test_errors_name_the_path_of_the_card(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(changed("K*r", "K*q"), encoding="utf-8")
    with fails("unknown-name", f"{path}, line 4: ", "'q'"):
        load_law(path)


def test_priors_that_differ_in_the_seventh_digit_have_digests_of_their_own() -> None:
    law = parse_card(CARD)
    assert len({law.with_priors({"E": f"LogNormal(0.3, {sigma})"}).sha256 for sigma in (0.5, 0.50000001, 0.50000002)}) == 3


def test_names_of_the_noise_and_of_stored_columns_are_reserved() -> None:
    assert set(PRIORS) <= RESERVED
    assert {"run_effect", "run_code", "row", "chain", "draw"} <= RESERVED
    assert {*TEXT["runs"]} <= RESERVED  # a covariate `unit` was refused as an unknown unit of losses


@pytest.mark.parametrize(("term", "least", "at", "value"), [("A*log(N/1e7)", 1e4, 1e5, "-4.61"), ("A*N", 0, 0.0, "0")])
def test_a_prior_on_a_term_needs_runs_at_which_the_term_is_positive(term: str, least: float, at: float, value: str) -> None:
    law = parse_card(card(f"E + {term}", {"N": (least, 1e13)}, E=POSITIVE, A=f'{POSITIVE}, on = "{term}"'))
    with fails("on-not-positive", "A", repr(term), f"is {value} at"):
        law.sample_prior(3, {"N": at}, np.random.default_rng(0))
    assert (law.sample_prior(3, {"N": 1e9}, np.random.default_rng(0))["A"] > 0).all()


def test_a_prior_on_a_term_may_have_a_covariate_below_zero() -> None:
    law = parse_card(card("E + A*exp(w)", {"w": (-10, -0.5)}, E=POSITIVE, A=f'{POSITIVE}, on = "A*exp(w)"'))
    draws = law.sample_prior(3, {"w": -2.0}, np.random.default_rng(0)), law.sample_prior(3, {"w": 0.0}, np.random.default_rng(0))
    np.testing.assert_allclose(draws[0]["A"] * np.exp(-2.0), draws[1]["A"])


def test_a_prediction_without_a_covariate_names_it() -> None:
    with fails("missing-covariate", "chinchilla needs N, D", "give D too"):
        load_law("chinchilla").predict({}, {"N": 1e9})


def test_predictions_take_numbers_and_refuse_what_is_none_in_words() -> None:
    law = load_law("chinchilla")
    draws: dict[str, Any] = {"E": 1.7, "A": 400.0, "alpha": 0.34, "B": 410.0, "beta": 0.28}
    at: dict[str, Any] = {"N": [1e9, 2e9], "D": 2e10}
    assert law.predict(draws, at).shape == (1, 2)
    several = law.predict(draws | {"E": pd.Series([1.7, 1.8], index=[7, 3])}, at | {"N": pd.Series(at["N"], index=[5, 2])})
    np.testing.assert_allclose(several - several[:1], [[0.0, 0.0], [0.1, 0.1]], atol=1e-12)
    for wrong, code, *named in (
        ({"D": [1e9, 2e9, 3e9]}, "unequal-lengths", "2 of N, 3 of D"),
        ({"N": "1B"}, "not-numbers", "N must be", "'1B'"),
        ({"N": ["1e9"]}, "not-numbers", "['1e9']"),
        ({"N": None}, "not-numbers", "None"),
        ({"N": [[1e9], [1e9, 2e9]]}, "not-numbers", "N must be"),
    ):
        with fails(code, *named):
            law.predict(draws, at | wrong)
    with fails("unequal-lengths", "2 of E, 3 of A"):
        law.predict(draws | {"E": [1.7, 1.8], "A": [1.0, 2.0, 3.0]}, at)
