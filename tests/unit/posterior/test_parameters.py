"""Units of parameters: those of the losses that were fitted, or on which another outcome depends."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from bayeslaw.evaluation.prediction import register
from bayeslaw.laws.card import load_law
from bayeslaw.plots.forecast import plot_forecast
from bayeslaw.posterior.parameters import parameter_unit
from bayeslaw.reporting.report import report
from tests import oracles
from tests.fixed import stand_in_fit, typical_fit


@pytest.mark.parametrize(
    ("law", "unit", "expected"),
    [
        ("chinchilla", "nats/token", {"E": "nats/token"}),
        ("chinchilla", "bits/byte", {"E": "bits/byte"}),
        ("task-sigmoid", "nats/token", {"L0": "nats/token", "k": "1/nats"}),  # L0 was in shares of questions
        ("task-sigmoid", "bits/byte", {"L0": "bits/byte", "k": "1/bits"}),
    ],
)
def test_units_of_parameters_are_those_of_the_losses(law: str, unit: str, expected: dict[str, str]) -> None:
    fit = stand_in_fit(law, oracles.table(load_law(law)).assign(unit=unit), draws=60, discrepancy="none")
    assert {name: parameter_unit(fit, name) for name in expected} == expected


def test_a_loss_that_is_a_covariate_has_its_unit_in_predictions_reports_and_pictures() -> None:
    """They said nats/token of a fit to losses in bits/byte."""
    table = oracles.table(load_law("task-sigmoid")).assign(unit="bits/byte")
    fit = stand_in_fit("task-sigmoid", table, draws=600, discrepancy="none")
    settings = table.drop(columns=["accuracy", "run"]).head(2)
    prediction = register(fit, settings, force=True)
    assert prediction.content["units"]["loss"] == "bits/byte"
    ranges = report(fit, force=True).facts["fits"][0]["data"]["ranges"]
    assert ["loss", "bits/byte"] in [row[:2] for row in ranges["rows"]]
    axes = plot_forecast(fit.forecast(settings, force=True), Figure().subplots(), x="loss")
    assert "bits/byte" in axes.get_xlabel()


def test_units_of_a_law_of_an_outcome_without_losses_are_those_of_its_card() -> None:
    assert parameter_unit(typical_fit("vocabulary"), "E") == "nats/token"
