"""What a law predicts: scales and bounds of outcomes, their words, and cards with faults in [outcome]."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayeslaw.core.errors import CardError
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.outcome import LOSS, Outcome
from tests.errors import fails
from tests.outcomes import NAMES, PLURALS, SECTIONS, card, law

VALUES = {
    "count": [0.001, 0.25, 0.999], "bounded": [0.1, 25.0, 50.0, 99.9], "real": [-30.0, 0.0, 1e3], "positive": [1e-3, 1.0, 40.0],
}  # fmt: skip
KINDS = sorted(VALUES)


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_has_an_inverse_and_a_slope(kind: str) -> None:
    outcome, values = law(kind).outcome, np.array(VALUES[kind])
    np.testing.assert_allclose(outcome.from_scale(outcome.to_scale(values)), values, rtol=1e-12, atol=1e-12)
    step = 1e-6 * np.maximum(np.abs(values), 1e-3)
    numeric = (outcome.to_scale(values + step) - outcome.to_scale(values - step)) / (2 * step)
    np.testing.assert_allclose(outcome.slope(values), numeric, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_from_the_scale_lies_within_the_bounds(kind: str) -> None:
    outcome = law(kind).outcome
    low, high = outcome.bounds
    values = outcome.from_scale(np.array([-700.0, -40.0, 0.0, 40.0, 700.0]))
    assert (values >= low).all()
    assert (values <= high).all()
    assert not outcome.possible(np.array([low, high, math.nan, math.inf])).any()
    assert outcome.possible(np.array(VALUES[kind])).all()


def test_responses_of_counts_are_the_shares_and_of_others_are_on_the_scale() -> None:
    count, bounded = law("count").outcome, law("bounded").outcome
    assert count.response(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert count.from_response(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert bounded.response(50.0) == pytest.approx(0.0)
    assert bounded.from_response(np.array(0.0)) == pytest.approx(50.0)
    assert count.residual(0.4, 0.25) == pytest.approx(0.15)
    assert bounded.residual(0.0, 75.0) == pytest.approx(-math.log(3))


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_have_words(kind: str) -> None:
    outcome = law(kind).outcome
    assert (outcome.name, outcome.plural) == (NAMES[kind], PLURALS[kind])
    assert outcome.renamed("a loss of losses") == f"a {outcome.name} of {outcome.plural}"
    assert Outcome("excess_loss", kind="real").renamed("a loss of losses") == "a excess_loss of excess_losses"
    assert outcome.error == f"{outcome.name}_se"
    assert outcome.relative == (kind == "positive")
    assert not outcome.is_loss
    assert "loss" not in outcome.described


def test_deviations_are_in_percent_where_they_are_relative() -> None:
    count = law("count").outcome
    assert count.deviation(0.5, 0.4) == pytest.approx(0.1)
    assert LOSS.deviation(2.2, 2.0) == pytest.approx(10)
    assert count.of_deviation("off", "points") == "off (points)"
    assert count.of_deviation("off", "") == "off"
    assert LOSS.of_deviation("off", "nats/token") == "off (%)"
    assert (count.in_words(0.02345), LOSS.in_words(0.02345)) == ("0.023", "2.3%")
    assert Outcome("MMLU_accuracy").heading == "MMLU_accuracy"
    assert LOSS.heading == "Loss"
    assert law("count").outcome.described == "share of questions, 0 to 1: shares of items; chance: 0.25"


# --- cards with faults -----------------------------------------------------------------------------------------------

COUNT = card("count")
FAULTS = {
    "no kind": (COUNT.replace('kind = "count"\n', ""), "unknown-kind"),
    "unknown kind": (COUNT.replace('"count"\n', '"share"\n'), "unknown-kind"),
    "a kind that is a number": (COUNT.replace('kind = "count"', "kind = 3"), "unknown-kind"),
    "bounds of a count": (COUNT.replace("chance = 0.25", "bounds = [0, 1]"), "invalid-bounds"),
    "no items": (COUNT.replace('items = "items"\n', ""), "invalid-items"),
    "items of a number": (COUNT.replace('items = "items"\n', "items = 100\n"), "invalid-items"),
    "items that are no covariate": (COUNT.replace('items = "items"', 'items = "itms"'), "unknown-name"),
    "items that are a parameter": (COUNT.replace('items = "items"', 'items = "k"'), "unknown-name"),
    "items in the formula": (COUNT.replace("0.25 + 0.7", "0.25 * items + 0.7").replace(", context = true", ""), "items-in-formula"),
    "items that are no context": (COUNT.replace(", context = true", ""), "items-in-formula"),
    "chance above 1": (COUNT.replace("chance = 0.25", "chance = 25"), "invalid-chance"),
    "chance below 0": (COUNT.replace("chance = 0.25", "chance = -0.1"), "invalid-chance"),
    "chance that is no number": (COUNT.replace("chance = 0.25", "chance = nan"), "invalid-chance"),
    "chance that is a flag": (COUNT.replace("chance = 0.25", "chance = true"), "invalid-chance"),
    "chance of an unknown covariate": (COUNT.replace("chance = 0.25", 'chance = "guess"'), "unknown-name"),
    "the name loss": (COUNT.replace('"accuracy"', '"loss"'), "invalid-name"),
    "no name": (COUNT.replace('name = "accuracy"\n', ""), "not-a-text"),
    "a name with a blank": (COUNT.replace('"accuracy"', '"my accuracy"'), "invalid-name"),
    "a reserved name": (COUNT.replace('"accuracy"', '"run"'), "invalid-name"),
    "the name of a column of results": (COUNT.replace('"accuracy"', '"error"'), "invalid-name"),
    "a covariate of the outcome's name": (COUNT.replace("N = {", "accuracy = {").replace("6*N*D", "6*accuracy*D"), "invalid-name"),
    "a parameter of the errors' name": (COUNT.replace("parameters.c]", "parameters.accuracy_se]"), "invalid-name"),
    "an unknown key": (COUNT.replace("chance =", "guess ="), "unknown-key"),
    "no table": (COUNT.replace("[outcome]\n", "[outcome.accuracy]\n"), "unknown-key"),
    "a formula without an outcome": (COUNT.replace(SECTIONS["count"], "").replace("[outcome]\n", ""), "formula-and-outcome"),
    "a loss with an outcome": (COUNT.replace("formula =", "loss ="), "formula-and-outcome"),
    "both": (COUNT.replace("formula =", 'loss = "N"\nformula ='), "formula-and-outcome"),
    "no bounds": (card("bounded").replace("bounds = [0, 100]\n", ""), "invalid-bounds"),
    "bounds the wrong way": (card("bounded").replace("[0, 100]", "[100, 0]"), "invalid-bounds"),
    "bounds without an end": (card("bounded").replace("[0, 100]", "[0, inf]"), "invalid-bounds"),
    "one bound": (card("bounded").replace("[0, 100]", "[100]"), "invalid-bounds"),
    "items of a bounded outcome": (card("bounded").replace("chance = 25", 'items = "N"'), "invalid-items"),
    "a scale of a bounded outcome": (card("bounded").replace("chance = 25", "scale = 2"), "not-positive"),
    "a scale of 0": (card("real").replace("scale = 10", "scale = 0"), "not-positive"),
    "bounds of a real outcome": (card("real").replace("scale = 10", "bounds = [0, 1]"), "invalid-bounds"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_outcome_is_refused(fault: str) -> None:
    text, code = FAULTS[fault]
    with fails(code, kind=CardError):
        parse_card(text)


def test_an_outcome_that_is_no_table_is_refused() -> None:
    text = COUNT.partition("[outcome]")[0] + "outcome = 3\n[covariates]" + COUNT.partition("[covariates]")[2]
    with fails("not-a-table", "outcome", kind=CardError):
        parse_card(text)


def test_errors_name_the_line_of_the_fault() -> None:
    number = COUNT.splitlines().index("chance = 0.25") + 1
    with fails("invalid-chance", f"line {number}", kind=CardError):
        parse_card(COUNT.replace("chance = 0.25", "chance = 25"))
