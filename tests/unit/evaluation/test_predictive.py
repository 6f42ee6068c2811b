"""Fitted losses among predictions of new runs, with and without their run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bayeslaw.evaluation.loo import leave_one_run_out
from bayeslaw.evaluation.predictive import predictive_check
from bayeslaw.posterior.fit import Fit
from tests.fixed import line, line_fit, stand_in_fit, typical_fit


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return line_fit(size=4000, point=0.05, run=0.05, checkpoint=None)


def expected_pit(fit: Fit, weights: np.ndarray) -> np.ndarray:
    """The weighted mean over draws of the probability that a new run's loss is smaller, array (n,)."""
    sd = np.hypot(fit.draws["sigma_point"], fit.draws["sigma_run"])[:, None]
    return np.asarray((weights.T * norm.cdf(fit.residual / sd)).sum(axis=0))


@pytest.mark.slow
def test_a_notebook_shows_a_check_in_two_lines(fitted: Fit) -> None:
    assert repr(predictive_check(fitted)).startswith("<PredictiveCheck of")
    assert len(repr(predictive_check(fitted))) < 200


def test_a_loss_has_its_rank_among_predictions_of_a_new_run(fitted: Fit) -> None:
    rows = predictive_check(fitted).rows
    size, n = fitted.residual.shape
    np.testing.assert_allclose(rows["pit"], expected_pit(fitted, np.full((n, size), 1 / size)), atol=0.03)
    sd = np.sqrt(np.hypot(0.05, 0.05) ** 2 + (fitted.residual.std(axis=0)) ** 2)
    width = np.log(rows["eti90_ub"] / rows["eti90_lb"])
    np.testing.assert_allclose(width, 2 * norm.ppf(0.95) * sd, rtol=0.08)
    assert rows["row"].tolist() == sorted(fitted.observed.rows)


@pytest.mark.slow
def test_without_its_run_a_loss_has_the_rank_by_the_weights_of_that_run(fitted: Fit) -> None:
    log_weights = leave_one_run_out(fitted).log_weights
    weights = np.exp(log_weights - np.logaddexp.reduce(log_weights, axis=1)[:, None])[fitted.observed.run]
    rows = predictive_check(fitted).rows
    expected = expected_pit(fitted, weights)
    np.testing.assert_allclose(rows["loo_pit"], expected, atol=0.05)
    assert np.abs(rows["loo_pit"] - rows["pit"]).max() > 0.002


@pytest.mark.slow
def test_notes_say_what_was_left_out_and_where_weights_are_not_reliable(fitted: Fit) -> None:
    check = predictive_check(fitted)
    assert check.notes[0] == "12 losses of 4 runs; each run was left out as a whole, since its rows may err together"
    check.rows.loc[check.rows["run"] == "r2", "pareto_k"] = 2.0
    assert [note for note in check.notes if "1 of 4 runs" in note and note.endswith(": r2")]


def test_one_run_is_not_runs() -> None:
    fit = stand_in_fit(line(), pd.DataFrame({"x": np.linspace(-1, 1, 8), "run": "a", "loss": 2.7}), draws=100)
    assert predictive_check(fit).notes[0].startswith("8 losses of 1 run; ")
    assert "to 8 losses of 1 run:" in repr(fit)


@pytest.mark.slow
def test_large_tables_are_predicted_from_some_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayeslaw.evaluation.predictive.MOST", 12 * 1000)
    check = predictive_check(line_fit(size=4000))
    assert check.draws == 1000
    assert check.rows["loo_pit"].between(0, 1).all()


@pytest.mark.slow
def test_the_result_names_its_fit_and_runs() -> None:
    fit = typical_fit("chinchilla")
    check = predictive_check(fit)
    assert (check.name, check.unit, check.failed, check.runs) == ("chinchilla", "nats/token", False, 8)
    assert set(check.rows["run"]) == set(fit.observed.run_names)
