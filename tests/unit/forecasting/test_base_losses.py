"""Settings that leave out a base loss which the rows of the fit have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.design.candidates import grid_of_runs, read_candidates
from bayeslaw.forecasting.base_losses import base_loss_check, with_known_base_losses
from bayeslaw.laws.pooling import with_by, with_levels
from tests import oracles
from tests.errors import fails
from tests.fixed import stand_in_fit
from tests.posteriors import START, starting
from tests.values import present

AT: dict[str, Any] = START | {"D": [1e7, 1e8], "r": 0.25}
UNKNOWN = START | {"ptpp": 31.5}


def test_grids_and_tables_get_the_losses_of_the_checkpoints() -> None:
    fit = starting(2.98, 3.02)
    assert bayeslaw.grid(fit, AT)["base_loss"].tolist() == pytest.approx([3.0, 3.0])
    table = pd.DataFrame([{**START, "D": 1e7, "r": 0.25}])
    assert fit.forecast(table, force=True).settings["base_loss"].tolist() == pytest.approx([3.0])
    runs = grid_of_runs(fit, {name: str(value).strip("[]") for name, value in AT.items()})
    candidates = read_candidates([(fit.law, fit.observed)], runs.drop(columns="base_loss"))
    assert candidates.rows["base_loss"].tolist() == pytest.approx([3.0, 3.0])


def test_base_losses_in_another_unit_are_refused() -> None:
    fit, row = starting(2.7), {**START, "D": 1e7, "r": 0.25}
    with fails("another-unit", "bits/token", "nats/token", "bayeslaw convert"):
        fit.forecast(pd.DataFrame([row | {"base_loss": 2.7 / np.log(2), "unit": "bits/token"}]), force=True)
    for known in ({"unit": "bits/token"}, {"base_loss": 2.7, "unit": "nats/token"}):
        settings = fit.forecast(pd.DataFrame([row | known]), force=True).settings
        assert settings["base_loss"].tolist() == pytest.approx([2.7])


def test_rows_at_no_tokens_count_before_the_column_of_others() -> None:
    table = oracles.table(starting().law)
    first = table[(table["N"] == START["N"]) & (table["ptpp"] == START["ptpp"])]
    assert bayeslaw.grid(starting(), AT)["base_loss"].tolist() == pytest.approx([first["base_loss"].mean()] * 2)
    assert bayeslaw.grid(starting(2.7), AT)["base_loss"].tolist() == [2.7, 2.7]


def test_a_given_base_loss_stays() -> None:
    assert bayeslaw.grid(starting(2.7), AT | {"base_loss": 2.6})["base_loss"].tolist() == [2.6, 2.6]


def test_a_law_by_itself_knows_no_checkpoint() -> None:
    with fails("missing-covariate", "base_loss"):
        bayeslaw.grid(starting(2.7).law, AT)


def test_unknown_checkpoints_are_named() -> None:
    with fails("unknown-base-loss", "ptpp = 31.5", "base_loss=2.31 among the settings"):
        bayeslaw.grid(starting(2.7), AT | UNKNOWN)
    fit = starting(2.7)
    table = pd.DataFrame([UNKNOWN | {"N": 1e7 * 2**i} for i in range(5)] + [START])
    with fails("unknown-base-loss", "N = 4e+07", "and 2 more"):
        with_known_base_losses(fit.name, [fit.observed], table)


def test_a_checkpoint_whose_size_is_written_with_fewer_digits_is_named() -> None:
    fit = starting(2.7)
    with fails("unknown-base-loss", "write N = 10000000, ptpp = 15 if that checkpoint"):
        bayeslaw.grid(fit, AT | {"N": 1.014e7})
    with pytest.raises(bayeslaw.BayeslawError, match=r"ptpp = 21\.5") as error:
        bayeslaw.grid(fit, AT | {"ptpp": 21.5})
    assert "write N" not in str(error.value)


def test_checkpoints_of_one_model_with_other_losses_are_told_apart_by_name() -> None:
    fit = starting(2.5, 3.0)
    with fails("several-base-losses", "2.5 to 3", "N = 1e+07"):
        bayeslaw.grid(fit, AT)
    with fails("several-base-losses", "give ptpp too, or give the base_loss"):
        bayeslaw.grid(fit, {name: value for name, value in AT.items() if name != "ptpp"})
    named = pd.DataFrame([START | {"checkpoint": name} for name in ("base 1", "base 0")])
    assert with_known_base_losses(fit.name, [fit.observed], named)["base_loss"].tolist() == [3.0, 2.5]
    with fails("unknown-base-loss", "checkpoint = another"):  # of the same size and stage
        with_known_base_losses(fit.name, [fit.observed], named.assign(checkpoint="another"))


def test_empty_cells_are_filled_and_those_of_unknown_checkpoints_stay() -> None:
    fit = starting(2.7)
    table = pd.DataFrame([START | {"base_loss": 2.6}, START | {"base_loss": np.nan}, UNKNOWN | {"base_loss": np.nan}])
    assert with_known_base_losses(fit.name, [fit.observed], table)["base_loss"].tolist() == pytest.approx(
        [2.6, 2.7, np.nan], nan_ok=True
    )


def test_later_rows_of_a_checkpoint_are_scored_and_fitted_without_repeating_its_loss() -> None:
    fit = starting(2.7)
    later = pd.DataFrame([START | {"run": "new", "D": 3e6, "r": 0.25, "loss": 2.9}])
    given = later.assign(base_loss=2.7)
    pd.testing.assert_frame_equal(fit.score(later), fit.score(given))
    with fails("unknown-base-loss", "ptpp = 31.5"):
        fit.score(later.assign(ptpp=31.5))
    with fails("unknown-base-loss", "ptpp = 31.5"):
        bayeslaw.update(fit, later.assign(ptpp=31.5), progress=False)


TWO = pd.DataFrame(
    {
        "run": ["a", "a-1", "a-1", "b", "b-1"],
        "N": [1e7, 1e7, 1e7, 1e9, 1e9],
        "ptpp": [15.0, 15.0, 15.0, 31.0, 31.0],
        "D": [0.0, 1e7, 2e7, 0.0, 1e9],
        "r": [np.nan, 0.1, 0.1, np.nan, 0.1],
        "loss": [3.0, 3.1, 3.1, 2.5, 2.6],
    }
)
"""Two checkpoints, of which the larger was also trained longer."""


@pytest.mark.parametrize(
    ("n", "ptpp", "loss", "words"),
    [
        (1e7, 15.0, 3.3, "lies above 3, that of this model among the runs"),
        (1e8, 31.0, 3.3, "lies above 3, that of N = 1e+07, ptpp = 15, which has no larger N or ptpp"),
        (1e10, 62.0, 3.3, "lies above 2.5, that of N = 1e+09, ptpp = 31, which has no larger N or ptpp"),
        (1e6, 15.0, 2.3, "lies below 3, that of N = 1e+07, ptpp = 15, which has no smaller N or ptpp"),
        (1e7, 15.0, 3.1, None),
        (1e8, 31.0, 2.8, None),
        (1e10, 5.0, 3.3, None),  # larger than all, and trained for fewer tokens a parameter
    ],
)
def test_a_base_loss_that_contradicts_those_of_the_runs_is_a_concern(n: float, ptpp: float, loss: float, words: str | None) -> None:
    observed = Observations.of(bayeslaw.load_law("from-base-source"), bayeslaw.read_runs(TWO))
    check = base_loss_check(observed, {"N": np.array([n, n]), "ptpp": np.array([ptpp, ptpp]), "base_loss": np.array([loss, loss])})
    if words is None:
        assert check is None
    else:
        assert check is not None
        assert check.subject == "model"
        assert f"base_loss {loss:.4g} of N = {n:.4g}, ptpp = {ptpp:g} {words}" == check.text


def test_several_contradicting_base_losses_are_counted() -> None:
    observed = Observations.of(bayeslaw.load_law("from-base-source"), bayeslaw.read_runs(TWO))
    at = {"N": np.array([1e8, 1e8, 1e10]), "ptpp": np.array([31.0, 31.0, 62.0]), "base_loss": np.array([2.8, 3.3, 3.4])}
    check = present(base_loss_check(observed, at))
    assert check.text.endswith(", and 1 more like it")
    assert check.table["base_loss"].tolist() == [3.3, 3.4]


def test_base_losses_at_very_many_settings_are_looked_at_at_once() -> None:
    """One by one, 100,000 settings would take a minute and more."""
    observed = Observations.of(bayeslaw.load_law("from-base-source"), bayeslaw.read_runs(TWO))
    at = {"N": np.full(100_000, 1e8), "ptpp": np.full(100_000, 31.0), "base_loss": np.linspace(2.8, 2.9, 100_000)}
    assert base_loss_check(observed, at) is None


def test_forecasts_have_the_concern() -> None:
    at = START | {"D": 1e7, "r": 0.25}
    fit = starting(2.98, 3.02)
    assert "base_loss" in [check.name for check in fit.forecast(at | {"base_loss": 9.0}, force=True).checks]


def test_base_losses_of_several_domains_are_not_compared() -> None:
    """Those of code lie far below those of web, whichever model is larger."""
    web = oracles.table(starting().law, runs=8, checkpoints=8).assign(domain="web")
    both = pd.concat([web, web.assign(domain="code", run="c " + web["run"], **{c: web[c] / 2 for c in ("loss", "base_loss")})])
    law = with_levels(with_by(starting().law, {"J": "domain"}), {"domain": ("code", "web")})
    fit = stand_in_fit(law, both, draws=400)
    at = web.tail(1).assign(N=2 * web["N"].max(), run="new").drop(columns="loss")
    assert "base_loss" not in [check.name for check in fit.forecast(at, force=True).checks]
