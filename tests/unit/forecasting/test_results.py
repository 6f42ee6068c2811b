"""Columns of results beside those of the settings."""

from __future__ import annotations

import pandas as pd
import pytest

from bayeslaw.forecasting.results import earlier_results
from tests.fixed import line_fit
from tests.outcomes import outcome_fit

OWN = pd.DataFrame({"x": [0.5, 1.0], "model": ["small", "big"], "checks": ["a", "b"], "as": "c", "headline": "d", "batch_lb": 5.0})


def test_settings_keep_their_columns() -> None:
    result = line_fit(size=400).forecast(OWN, force=True)
    table = result.summary()
    pd.testing.assert_frame_equal(table[[*OWN]], OWN)
    assert set(table["forecast_model"]) == {result.model_label}
    assert table["forecast_headline"].tolist() == result.headlines
    assert table["forecast_as"].tolist() == result.readings
    assert set(table["forecast_checks"]) == {"FAILED (forced)" if result.forced else "passed"}
    assert table.columns.is_unique
    assert "small" in result._repr_html_()


def test_own_columns_of_settings_stay_as_given() -> None:
    """A commit became infinite, and an identifier the one before it."""
    own = {"wandb_id": 9007199254740993, "commit": "12e4567", "flag": True, "seed": 1, "version": "1.10"}
    table = line_fit().forecast(pd.DataFrame([{"x": 0.5} | own])).summary()
    assert table[[*own]].iloc[0].to_dict() == own


@pytest.mark.parametrize("settings", [OWN, OWN[["x"]], OWN[["x", "model"]]], ids=["all", "none", "model"])
def test_a_table_of_forecasts_is_one_of_settings(settings: pd.DataFrame) -> None:
    """Its intervals of another probability would stand beside the new ones, and its verdicts for the user's columns."""
    fit = line_fit(size=400)
    table = fit.forecast(settings, discrepancy="1%", force=True).summary(0.9)
    again = fit.forecast(table, discrepancy="1%", force=True)
    pd.testing.assert_frame_equal(again.settings, settings)
    assert [*again.summary(0.8)] == [str(name).replace("eti90", "eti80") for name in table]
    parts = table[[*settings, "run_median", "run_eti90_lb", "run_eti90_ub"]]
    pd.testing.assert_frame_equal(fit.forecast(parts, force=True).settings, settings)


def test_a_table_of_a_chain_is_one_of_settings() -> None:
    settings = pd.DataFrame({"N": [1e9], "D": [1e10], "items": [100], "model": ["small"]})
    columns = ["loss_median", "loss_eti90_lb", "loss_eti90_ub", "latent_median", "extrapolation", "checks", "forecast_model"]
    table = settings.assign(**dict.fromkeys(columns, 1.0))
    assert earlier_results(table) == columns
    assert [*outcome_fit("count").forecast(table, force=True).settings] == [*settings]
