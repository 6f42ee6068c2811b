"""Groups that no fitted row has: their parameters are drawn around the typical value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayeslaw.core.errors import TableError
from bayeslaw.data.table import read_runs
from bayeslaw.evaluation.scores import score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.inference.refit import join_runs
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.new_groups import new_groups, new_groups_check, new_pairs_check, with_new_groups
from tests import oracles
from tests.domains import BY, two_domains
from tests.errors import fails, faults
from tests.fixed import fixed_fit
from tests.posteriors import posterior
from tests.values import present

SIZE = 20_000
AT = {"N": 1e9, "D": 1e10}
_DOMAIN = pd.DataFrame({"domain": ["math"]})


@pytest.fixture(scope="module")
def pooled() -> Fit:
    """Fixed draws of chinchilla with a floor and an exponent by domain: typical values 1.5 and .3, spreads .2 and .1."""
    values: dict[str, Any] = {"E": 1.5, "E_spread": 0.2, "alpha": 0.3, "alpha_spread": 0.1, "A": 40.0, "B": 90.0, "beta": 0.28}
    values |= {"E_web": 1.6, "E_code__py_": 0.8, "alpha_web": 0.3, "alpha_code__py_": 0.28}
    return posterior("chinchilla", {name: np.full(SIZE, value) for name, value in values.items()}, frame=two_domains(), by=BY)


def test_a_new_group_is_drawn_around_the_typical_value(pooled: Fit) -> None:
    fit = with_new_groups(pooled, pd.DataFrame({"domain": ["math", "web"]}), seed=3)
    assert new_groups(fit) == ["domain = math"]
    assert new_groups(pooled) == []
    for name, typical, spread in (("E_math", 1.5, 0.2), ("alpha_math", 0.3, 0.1)):
        z = (np.log(fit.draws[name]) - np.log(typical)) / spread
        assert stats.kstest(z, "norm").pvalue > 0.001
    assert abs(np.corrcoef(np.log(fit.draws["E_math"]), np.log(fit.draws["alpha_math"]))[0, 1]) < 0.03
    np.testing.assert_array_equal(fit.draws["E_web"], pooled.draws["E_web"])
    again = with_new_groups(pooled, pd.DataFrame({"domain": ["law", "math"]}), seed=3)
    np.testing.assert_array_equal(again.draws["E_math"], fit.draws["E_math"])
    assert not np.array_equal(with_new_groups(pooled, pd.DataFrame({"domain": ["math"]}), 4).draws["E_math"], fit.draws["E_math"])


def test_values_that_are_not_pooled_are_drawn_from_their_prior(tmp_path: Path) -> None:
    card = tmp_path / "own.toml"
    card.write_text(load_law("chinchilla").card.replace("[parameters.beta]", "[parameters.beta]\npooled = false"), "utf-8")
    values: dict[str, Any] = {"E": 1.5, "A": 40.0, "alpha": 0.3, "B": 90.0, "beta_web": 0.28, "beta_code__py_": 0.3}
    drawn = {name: np.full(SIZE, value) for name, value in values.items()}
    fit = with_new_groups(posterior(str(card), drawn, frame=two_domains(), by={"beta": "domain"}), _DOMAIN, seed=3)
    note = present(new_groups_check(fit))
    assert "so beta is drawn from the prior, without pooling" in note.text
    assert "typical" not in note.text
    assert stats.kstest(fit.draws["beta_math"], fit.law.parameters["beta_math"].prior.scipy.cdf).pvalue > 0.001


def test_without_new_groups_it_is_the_same_fit(pooled: Fit) -> None:
    assert with_new_groups(pooled, pd.DataFrame({"domain": ["web"]}), 0) is pooled


@pytest.mark.slow
def test_forecasts_of_new_groups_are_asked_for_and_say_so(pooled: Fit) -> None:
    settings = pd.DataFrame([AT | {"domain": d} for d in ("web", "math")])
    with faults(("unknown-level", 2, "domain")):
        forecast(pooled, settings)
    made = forecast(pooled, settings, as_="new-group", force=True)
    note = next(check for check in made.checks if check.name == "new_groups")
    assert note.subject == "note"
    assert "domain = math" in note.text
    known, new = np.log(made.draws["latent"].values).T
    covariates = {k: np.array([v]) for k, v in AT.items()}
    fit = with_new_groups(pooled, settings, 0)
    values = {k: fit.draws[f"{k}_math" if k in BY else k][:, None] for k in ("E", "A", "alpha", "B", "beta")}
    np.testing.assert_allclose(new, np.log(oracles.LAWS["chinchilla"](values, covariates)[:, 0]), rtol=1e-10)
    assert known.std() < 1e-12 < 0.05 < new.std()


@pytest.mark.slow
def test_a_group_that_was_left_out_is_scored_as_a_new_one(pooled: Fit) -> None:
    """As where a paper leaves out one corpus after the other; it could be forecast, and not scored."""
    runs = pd.DataFrame({"run": ["a", "b"], "N": [1e9, 2e9], "D": [1e10, 3e10], "domain": "math", "loss": [2.4, 2.1]})
    with fails("unknown-level", "score it as a new one with --as new-group (as_='new-group')", kind=TableError):
        score(pooled, runs, force=True)
    with fails("unknown-level", "fit the old and the new rows in one table", kind=TableError):
        join_runs(pooled, read_runs(runs))
    table = score(pooled, runs, as_="new-group", force=True)
    draws = forecast(pooled, runs.drop(columns="loss"), as_="new-group", force=True).predictive
    assert table["rows"].item() == 2
    assert table["mae_rel"].item() == pytest.approx(np.abs(np.median(draws, axis=0) / runs["loss"] - 1).mean())


def test_a_task_that_the_fit_does_not_know_is_the_only_fault() -> None:
    """Chance and the number of questions come from the fit with the task: they are not missing columns of the user's table."""
    losses = pd.Series([2.2, 2.6, 3.0, 3.4] * 2)
    table = pd.DataFrame({"loss": losses, "chance": 0.25, "items": 500, "task": ["arc"] * 4 + ["quiz"] * 4})
    table["accuracy"] = (0.25 + 0.6 / (1 + np.exp(3 * (losses - 2.8)))).round(3)
    values = {
        "L0": 2.8,
        "L0_spread": 0.1,
        "L0_arc": 2.8,
        "L0_quiz": 2.9,
        "k": 3.0,
        "top": 0.85,
        "sigma_point": 0.1,
        "sigma_run": 0.1,
    }
    draws = {name: np.full(400, value) for name, value in values.items()}
    fit = fixed_fit(load_law("task-sigmoid"), table, draws, by={"L0": "task"})
    with faults(("unknown-level", 1, "task")):
        forecast(fit, pd.DataFrame({"loss": [2.0], "task": ["ARC"]}))


def test_names_that_can_not_be_told_apart_are_refused(pooled: Fit) -> None:
    with fails("similar-groups"):
        with_new_groups(pooled, pd.DataFrame({"domain": ["code [py]"]}), 0)


def test_a_note_of_new_groups_counts_its_parameters(pooled: Fit) -> None:
    both = present(new_groups_check(with_new_groups(pooled, _DOMAIN, seed=3)))
    assert (
        both.text
        == "domain = math: no fitted row is of it, so E, alpha are drawn around typical values with the spread of the groups"
    )


@pytest.mark.slow
def test_values_of_two_columns_that_no_row_has_together_are_a_note() -> None:
    """Code was never tokenised by b, so what b changes there is what it changes on the web."""
    rows = two_domains().assign(tokenizer=lambda t: np.where((t["domain"] == "web") & (t["N"] > 1e8), "b", "a"))
    values: dict[str, Any] = {"E": 1.5, "E_spread": 0.2, "A": 40.0, "A_spread": 0.2, "alpha": 0.3, "B": 90.0, "beta": 0.28}
    values |= {"E_web": 1.6, "E_code__py_": 0.8, "A_a": 40.0, "A_b": 42.0}
    fit = posterior("chinchilla", {k: np.full(400, v) for k, v in values.items()}, frame=rows, by={"E": "domain", "A": "tokenizer"})
    settings = pd.DataFrame([AT | {"domain": d, "tokenizer": k} for d in ("web", "code (py)") for k in "ab"])
    note = next(check for check in forecast(fit, settings, force=True).checks if check.name == "new_pairs")
    assert note.text.startswith("domain = code (py) with tokenizer = b: fitted rows have each of these values and no row has both")
    covariates = {name: fit.observed.covariates[name] for name in fit.law.indicators}
    assert new_pairs_check(fit, covariates) is None
