"""Reading law cards: every fault ends in a text with the line and what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bayeslaw.core.errors import CardError
from bayeslaw.laws.card import RESERVED, load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.noise.noise import PRIORS

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


FAULTS = {
    "unknown name": (
        changed("A/scale", "A/scael", ).replace('on = "A/scael"', 'on = "A/scale"'),
        "card, line 8: unknown name 'scael' in 'part'; known are part, scale, N, r, E, A, alpha, K. Did you mean 'scale'?",
    ),
    "unknown name in loss": (
        changed("+ K*r", "+ K*replay"),
        "card, line 4: unknown name 'replay' in 'loss'; known are part, scale, N, r, E, A, alpha, K.",
    ),
    "cycle": (changed("N**alpha", "N**alpha + part"), "card, line 8: [let] goes in a circle: part -> scale -> part."),
    "cycle of one": (changed("N**alpha", "N**alpha + scale"), "card, line 9: [let] goes in a circle: scale -> scale."),
    "missing prior": (
        changed('prior = { dist = "Normal", mu = 0, sigma = 1 }\n', ""),
        'card, line 29: parameter K has no prior; give one such as { dist = "LogNormal", mu = 0, sigma = 1 }.',
    ),
    "unknown prior": (
        changed('"Normal"', '"Norml"'),
        "card, line 31: the prior of K: No prior distribution 'Norml'; known are LogNormal, HalfNormal, Gamma, Normal, StudentT,"
        " Beta. Did you mean 'Normal'?",
    ),
    "prior without numbers": (
        changed('"Normal", mu = 0, sigma = 1', '"Normal", mu = 0'),
        "card, line 31: the prior of K: Normal takes mu, sigma, not mu.",
    ),
    "formula in a prior": (
        changed('on = "A/scale"', 'on = "A/open(scale)"'),
        "card, line 22: the prior of A: 'open' can't be called in a formula; the functions are exp,",
    ),
    "code": (
        changed("E + part + K*r", "__import__('os').system('true')"),
        "card, line 4: \"__import__('os').system\" can't be called in a formula; the functions are exp,",
    ),
    "unused parameter": (changed(" + K*r", " + r"), "card, line 29: 'K' is not used by the formula."),
    "unused covariate": (changed(" + K*r", " + K"), "card, line 13: 'r' is not used by the formula."),
    "unused let": (
        changed('scale = "N**alpha"', 'scale = "N**alpha"\nidle = "N"'),
        "card, line 10: 'idle' is not used by the formula.",
    ),
    "two meanings": (
        changed("[parameters.K]", "[parameters.r]").replace("K*r", "r"),
        "card, line 29: 'r' stands both under [covariates] and under [parameters].",
    ),
    "reserved name": (
        changed("[parameters.K]", "[parameters.exp]").replace("K*r", "exp*r"),
        "card, line 29: 'exp' can't be a name: use letters, digits and _, and none of chain, checkpoint, dof, domain, draw,",
    ),
    "no identifier": (
        changed("[parameters.K]", '[parameters."K-1"]'),
        "card, line 29: 'K-1' can't be a name: use letters, digits and _, and none of",
    ),
    "on not proportional": (
        changed('on = "A/scale"', 'on = "A/scale + 1"'),
        "card, line 22: `on` of A must be positive and proportional to A; 'A/scale + 1' is not.",
    ),
    "on negative": (
        changed('on = "A/scale"', 'on = "-A/scale"'),
        "card, line 22: `on` of A must be positive and proportional to A; '-A/scale' is not.",
    ),
    "on unknown": (
        changed('on = "A/scale"', 'on = "A/scal"'),
        "card, line 22: unknown name 'scal' in `on` of A. Did you mean 'scale'?",
    ),
    "on another with on": (
        changed('"Normal", mu = 0, sigma = 1', '"HalfNormal", sigma = 1, on = "K*A"'),
        "card, line 31: `on` of K uses A, whose own prior has an `on`; only one of them can.",
    ),
    "support backwards": (
        changed("[1e4, 1e13]", "[1e13, 1e4]"),
        "card, line 12: the support of N must be [smallest, largest], not [10000000000000.0, 10000.0].",
    ),
    "support of one": (changed("[1e4, 1e13]", "[1e4]"), "card, line 12: the support of N must be [smallest, largest], not [1"),
    "support nan": (changed("[1e4, 1e13]", "[nan, 1e13]"), "card, line 12: the support of N must be [smallest, largest], not [n"),
    "support of texts": (changed("[1e4, 1e13]", '["1", "2"]'), "card, line 12: the support of N must be [smallest, largest], not"),
    "no support": (changed(", support = [1e4, 1e13]", ""), "card, line 12: the support of N must be [smallest, largest], not []."),
    "no unit": (changed('unit = "parameters", ', ""), "card, line 12: the unit of N must be a text, not None."),
    "at_least": (changed("at_least = 2", "at_least = 0"), "card, line 13: at_least of r must be a whole number from 1, not 0."),
    "covariate no table": (
        changed('{ unit = "parameters", support = [1e4, 1e13] }', "3"),
        "card, line 12: covariate N must be a table with unit and support.",
    ),
    "covariate key": (
        changed('unit = "parameters"', 'units = "parameters"'),
        "card, line 12: covariate N has no units; it has unit, support, at_least, context, log, nodes.",
    ),
    "parameter key": (
        changed('latex = "a"', 'symbol = "a"'),
        "card, line 26: parameter alpha has no symbol; it has meaning, unit, latex, prior, by.",
    ),
    "parameter no table": (
        changed("[parameters.K]", "[parameters]\nK = 3\n[parameters.M]").replace("K*r", "K*r*M"),
        "card, line 30: parameter K must be a table with meaning and prior.",
    ),
    "no meaning": (changed('meaning = "exponent"\n', ""), "card, line 24: `meaning` must be a non-empty text, not None."),
    "unknown key": (
        changed('title = "', 'titel = "'),
        "card, line 2: a card has no 'titel'; it has covariates, huber_delta, let, loss, name, note, parameters, published,"
        " source, title. Did you mean 'title'?",
    ),
    "no loss": (changed('loss = "E + part + K*r"\n', ""), "card: `loss` must be a non-empty text, not None."),
    "empty loss": (changed('"E + part + K*r"', '""'), "card, line 4: `loss` must be a non-empty text, not ''."),
    "let number": (changed('"N**alpha"', "3"), "card, line 9: A formula is a non-empty text, not 3."),
    "section no table": ('name = "own"\nloss = "E"\nlet = 3', "card, line 3: `let` must be a table."),
    "published text": (
        changed("E = 1.5", 'E = "1.5"'),
        "card, line 33: [published.'Someone 2020'] must be a table of numbers.",
    ),
    "huber_delta": (
        changed('source = "here"', 'source = "here"\nhuber_delta = -1'),
        "card, line 4: `huber_delta` must be a positive number",
    ),
    "huge number": (changed("[1e4, 1e13]", f"[1, 1{'0' * 400}]"), "card: a number in it is too large."),
    "huge prior": (changed("mu = 0.3", f"mu = 1{'0' * 400}"), "card, line 18: the prior of E: mu = 1000000"),
    "huge published": (changed("E = 1.5", f"E = 1{'0' * 400}"), "card: a number in it is too large."),
    "not TOML": (changed("[let]", "[let"), "card is not a TOML file: Expected ']' at the end of a table declaration"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_cards(fault: str) -> None:
    card, text = FAULTS[fault]
    with pytest.raises(CardError) as caught:
        parse_card(card)
    assert str(caught.value).startswith(text)


def test_a_card_of_ones_own(tmp_path: Path) -> None:
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


def test_losses_that_use_no_covariate_have_a_row_each() -> None:
    """A formula without a covariate in it gives every draw and row a value all the same."""
    law = parse_card(CARD)
    constant = Law(**{**vars(law), "loss": parse_card(changed("E + part + K*r", "E + K*r + 0*part")).loss})
    assert constant.predict({"E": [1.0], "A": [1.0], "alpha": [0.5], "K": [0.0]}, {"N": [1e4, 1e5], "r": [0, 1]}).shape == (1, 2)


def test_terms_are_told_by_what_they_are_proportional_to() -> None:
    law = parse_card(CARD)
    assert law.floors == {"E": None}
    assert {name: term.text for name, term in law.amplitudes.items()} == {"A": "part", "K": "K * r"}  # K has either sign
    law = parse_card(changed("E + part + K*r", "E - part + K*r").replace('"Normal", mu = 0,', '"HalfNormal",'))
    assert {name: term.text for name, term in law.amplitudes.items()} == {"A": "-(part)", "K": "K * r"}


def test_a_law_without_a_floor() -> None:
    assert parse_card(changed("E + part", "E**2 + part")).floors == {}


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CardError) as caught:
        load_law(tmp_path / "none.toml")
    assert str(caught.value).startswith(f"The card {tmp_path / 'none.toml'} can't be read: [Errno 2]")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CardError, match="can't be read: 'utf-8' codec can't decode"):
        load_law(path)


def test_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "card.toml"
    folder.mkdir()
    with pytest.raises(CardError, match="can't be read"):
        load_law(folder)


def test_an_unknown_law() -> None:
    with pytest.raises(CardError) as caught:
        load_law("chinchila")
    assert str(caught.value) == (
        "No law 'chinchila'. Known are annealing, annealing-lr-weighted, annealing-power, chinchilla, chinchilla-nd, combination,"
        " cpt-dynamics, cpt-dynamics-lr-weighted, cpt-dynamics-open, cpt-dynamics-power, cpt-dynamics-replay-source,"
        " cpt-dynamics-replay-target, cpt-dynamics-size, cpt-joint, d-cpt, kaplan, multi-power, parallel-scaling, ptpp-floor,"
        " ptpp-gate, ptpp-gate-floor, repeated-epochs, replay-source, replay-target, transfer-source,"
        " transfer-target; a card of your own goes by its path."
        " Did you mean 'chinchilla'?"
    )
    with pytest.raises(CardError, match=r"No law '\.\./models/chinchilla'"):
        load_law("../models/chinchilla")


def test_the_path_stands_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(changed("K*r", "K*q"), encoding="utf-8")
    with pytest.raises(CardError) as caught:
        load_law(path)
    assert str(caught.value).startswith(f"{path}, line 4: unknown name 'q' in 'loss'")


def test_names_of_the_noise_and_of_stored_columns_are_taken() -> None:
    assert set(PRIORS) <= RESERVED
    assert {"run_effect", "log_loss", "run_code", "row", "chain", "draw"} <= RESERVED
