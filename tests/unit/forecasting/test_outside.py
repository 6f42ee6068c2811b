"""How far settings lie outside the runs, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.outside import beyond_together, outside, outside_together, size_and_tokens_outside, sizes_and_tokens
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.oracles import Array
from tests.posteriors import law_named, posterior

CORNERS = np.array([[1e8, 1e10], [1e9, 1e9]])  # D / N from 1 to 100, N x D up to 1e18


def fitted(name: str, frame: pd.DataFrame) -> Fit:
    law = law_named(name)
    return posterior(law, {k: np.full(8, v) for k, v in oracles.typical(law).items()}, frame=frame)


def of_corners() -> Fit:
    rows = np.repeat(CORNERS, 3, axis=0)
    return fitted("chinchilla", pd.DataFrame({"N": rows[:, 0], "D": rows[:, 1], "loss": 3.0, "run": [f"r{i}" for i in range(6)]}))


def asked(*pairs: tuple[float, float]) -> dict[str, Array]:
    n, d = np.array(pairs).T
    return {"N": n, "D": d}


def test_distances_are_e_folds_above_and_below_but_for_rounding() -> None:
    at = asked((1e9 * np.e, 1e10), (1e8 / np.e**2, 1e9), (1e9 * (1 + 5e-5), 1e9 * (1 - 5e-5)), (1e9 * (1 + 2e-4), 1e10))
    table = outside(of_corners(), at)
    np.testing.assert_allclose(table["N"], [1, 2, 0, np.log1p(2e-4)], rtol=1e-9)
    assert table["D"].tolist() == [0, 0, 0, 0]


def test_the_highest_rate_is_outside_from_a_percent_on() -> None:
    """It is not part of the law, and logs that begin at different steps of one schedule have it rounded."""
    frame = oracles.table(law_named("cpt-dynamics")).assign(lr_peak=2e-4)
    at = {name: np.repeat(frame[name].iloc[0], 3) for name in law_named("cpt-dynamics").axes}
    table = outside(fitted("cpt-dynamics", frame), at | {"lr_peak": 2e-4 * np.exp([0.0033, -0.0033, 0.02])})
    np.testing.assert_allclose(table["lr_peak"], [0, 0, 0.02], rtol=1e-9)


def test_a_dense_model_larger_than_what_tokens_used_of_any_run_lies_outside() -> None:
    """Though runs with many experts have more parameters in all."""
    frame = pd.DataFrame({"N": [1e8, 1e9, 1e9, 3e10], "active": [1.0, 1.0, 0.1, 0.03], "D": 1e10 * np.array([1.0, 2.0, 2.0, 4.0])})
    fit = fitted("sparse-experts", pd.concat([frame, frame]).assign(loss=3.0, run=[f"r{i}" for i in range(8)]))
    settings = pd.DataFrame({"N": [4e9, 1e10, 4e9], "active": [1.0, 0.05, 1.0], "D": [2e10, 2e10, 5e10]})
    first, second, third = forecast(fit, settings, force=True).extrapolation
    assert first.startswith("FAR outside: N x active by 1.4 e-folds")
    assert second == "inside"
    assert third == "FAR outside: D by 0.22 e-folds, N x active by 1.4 e-folds"


def test_runs_that_have_not_begun_a_phase_have_settings_beyond_them_there() -> None:
    frame = oracles.table(law_named("cpt-dynamics"))
    fit = fitted("cpt-dynamics", frame.assign(S1_cpt=0.0))
    at = {name: np.array([0.0, frame[name].max()]) if name == "S1_cpt" else frame[name].to_numpy()[:2] for name in fit.law.axes}
    assert (outside(fit, at)["S1_cpt"] > 0).tolist() == [False, True]
    settings = frame[frame["S1_cpt"] > 0].iloc[:2].drop(columns=["loss", "run"])
    made = forecast(fit, settings, force=True)
    assert all("S1_cpt by" in text for text in made.extrapolation)
    assert "the runs have one value" in made.checks[-1].text


def test_products_lie_outside_above_alone_and_ratios_on_both_sides() -> None:
    at = asked((1e9, 1e10), (1e8, 1e9), (3e8, 3e9), (1e9, 5e8), (1e8, 3e10))
    away = {name: distance for name, (distance, _) in outside_together(of_corners(), at).items()}
    product, ratio = (next(value for name, value in away.items() if sign in name) for sign in ("x", "/"))
    np.testing.assert_allclose(product, [np.log(10), 0, 0, 0, np.log(3)], rtol=1e-9)
    np.testing.assert_allclose(ratio, [0, 0, 0, np.log(2), np.log(3)], rtol=1e-9)
    assert np.any([*beyond_together(of_corners(), at).values()], axis=0).tolist() == [True, False, False, True, True]
    reach = [of_runs for _, of_runs in outside_together(of_corners(), at).values()]
    assert sorted(round(each.span, 9) for each in reach) == [0.0, round(float(np.log(100)), 9)]


def test_a_forecast_is_outside_where_sizes_and_tokens_together_are() -> None:
    at = asked((1e9, 1e10), (1e8, 1e9), (1e9, 5e8))
    found = forecast(of_corners(), pd.DataFrame(at), force=True)
    assert found.is_outside.tolist() == [True, False, True]
    assert found.outside.to_numpy()[:2].max() == 0


def test_decisions_of_size_and_tokens_leave_the_runs_in_each_of_four_ways() -> None:
    places = {
        (3e8, 3e9): False, (1e8, 1e9): False, (1e9, 1e10): True, (5e7, 1e9): True, (2e9, 3e9): True, (2e8, 2e10): True,
        (9e8, 8.9e8): True, (1e8 * (1 + 3e-5), 1e10 * (1 + 3e-5)): False, (1.1e8, 1e10): True,
    }  # fmt: skip
    found = size_and_tokens_outside(CORNERS, np.array([*places]))
    assert dict(zip(places, found.tolist(), strict=True)) == places


def test_base_checkpoints_are_no_runs_of_a_decision() -> None:
    law = law_named("transfer-source")
    table = oracles.table(law)
    base = table.iloc[[0]].assign(D=0.0, r=np.nan, run="base")
    pairs = sizes_and_tokens(fitted("transfer-source", pd.concat([table, base], ignore_index=True)))
    np.testing.assert_array_equal(pairs, np.unique(table[["N", "D"]].to_numpy(), axis=0))


def test_areas_are_outside_by_their_own_size_and_rates_of_phases_that_have_not_begun_are_not() -> None:
    frame = pd.DataFrame({"S1": [0.5, 1.0, 2.0, 0.5, 1.0, 2.0], "S2": [0.0, 0.001, 0.003] * 2, "lr_peak": 2e-4, "loss": 3.0})
    fit = fitted("annealing", frame.assign(run=list("aaabbb")))
    at = {"S1": np.ones(4), "S2": np.array([0.003 + 1e-7, 0.00305, -0.001, 0.002]), "lr_peak": np.array([2e-4, 2e-4, 2e-4, 0.0])}
    table = outside(fit, at)
    np.testing.assert_allclose(table["S2"], [0, 0.00005, 0.001, 0], rtol=1e-9)
    assert (table[["S1", "lr_peak"]] == 0).all(axis=None)
