"""Forecasts: latent losses against an oracle, the run spread against its variance, distances, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeslaw
from bayeslaw.core.errors import BayeslawError, FitError, TableError
from bayeslaw.forecasting import forecast as forecasts
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import FORECAST_ROWS
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails, faults
from tests.fixed import line_fit, stand_in_fit
from tests.oracles import LAWS, Array
from tests.posteriors import posterior

AT = pd.DataFrame({"N": [1e7, 1e9, 1e11], "D": [1e8, 2e10, 1e12]})


def columns(draws: dict[str, Array]) -> dict[str, Array]:
    """Draws (S,) as columns (S, 1), to go with settings (n,)."""
    return {name: values[:, None] for name, values in draws.items()}


# --- draws ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_latent_draws_are_the_laws_loss_at_each_draw(sound_fit: Fit, ptpp_fit: Fit) -> None:
    ptpp_at = AT.assign(r=[0.0, 0.3, 1.0], ptpp=[15, 31, 279])
    for fit, at in ((sound_fit, AT), (ptpp_fit, ptpp_at)):
        settings = {str(name): at[name].to_numpy(dtype=np.float64) for name in at}
        expected = LAWS[fit.law.name](columns(fit.draws), settings)
        latent = forecast(fit, at).draws["latent"]
        assert latent.dims == ("sample", "row")
        np.testing.assert_allclose(latent.values, expected, rtol=1e-11)


def log_noise(fit: Fit, at: pd.DataFrame) -> Array:
    """Log of the next run's loss over the latent loss, draws (S, n)."""
    draws = forecast(fit, at, discrepancy="none", seed=11).draws
    return np.asarray(np.log(draws["run"].values / draws["latent"].values))


def variance_is(values: Array, expected: float) -> bool:
    """Whether independent normal values have a variance, to five standard errors."""
    return bool(abs(values.var() / expected - 1) < 5 * np.sqrt(2 / values.size))


@pytest.mark.slow
def test_run_spread_has_the_variance_of_point_and_run_noise(sound_fit: Fit) -> None:
    point, run = (sound_fit.draws[name][:, None] for name in ("sigma_point", "sigma_run"))
    noise = log_noise(sound_fit, pd.concat([AT.iloc[[1]]] * 40))
    assert variance_is(noise / np.sqrt(point**2 + run**2), 1.0)
    assert abs((noise / np.sqrt(point**2 + run**2)).mean()) < 5 / np.sqrt(noise.size)
    # and over all draws together, whose scales differ, their mean variance
    v = point**2 + run**2
    tolerance = 5 * np.sqrt(2 * (v**2).mean() / v.mean() ** 2 / noise.size)
    assert noise.var() == pytest.approx(float(v.mean()), rel=float(tolerance))


@pytest.mark.slow
def test_rows_of_one_run_share_its_effect(sound_fit: Fit) -> None:
    """Their difference holds point noise only; rows of different runs differ by run noise too."""
    point, run = sound_fit.draws["sigma_point"], sound_fit.draws["sigma_run"]
    noise = log_noise(sound_fit, pd.concat([AT.iloc[[1]]] * 3).assign(run=["a", "b", "a"]))
    assert variance_is((noise[:, 0] - noise[:, 2]) / (np.sqrt(2) * point), 1.0)
    assert variance_is((noise[:, 0] - noise[:, 1]) / np.sqrt(2 * (point**2 + run**2)), 1.0)
    assert variance_is((noise[:, 0] + noise[:, 2]) / np.sqrt(2 * point**2 + 4 * run**2), 1.0)


@pytest.mark.slow
def test_without_a_run_effect_only_point_noise_is_added(sound_fit: Fit) -> None:
    noise = log_noise(replace(sound_fit, noise=Noise(student=False, run_effect=False)), pd.concat([AT] * 10).assign(run="a"))
    assert variance_is(noise / sound_fit.draws["sigma_point"][:, None], 1.0)


@pytest.mark.slow
def test_student_noise_is_added_as_such(sound_fit: Fit) -> None:
    """The quartiles of Student-t noise, to five standard errors of a share."""
    from scipy.stats import t

    tree = sound_fit.tree.copy()
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = posterior.assign(dof=posterior["E"] * 0 + 3.0)
    fit = replace(sound_fit, tree=tree, noise=Noise(student=True, run_effect=False))
    standard = log_noise(fit, pd.concat([AT] * 10)) / fit.draws["sigma_point"][:, None]
    for share in (0.01, 0.25, 0.75, 0.99):
        error = (standard < t.ppf(share, 3)).mean() - share
        assert abs(error) < 5 * np.sqrt(share * (1 - share) / standard.size)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws(sound_fit: Fit) -> None:
    one, same, other = (forecast(sound_fit, AT, seed=seed).draws for seed in (3, 3, 4))
    assert one.identical(same)
    assert one["latent"].identical(other["latent"])
    assert not np.isclose(one["run"], other["run"], rtol=1e-9).any()
    moved = replace(sound_fit, info={**sound_fit.info, "seed": 99})
    assert not np.isclose(one["run"], forecast(moved, AT, seed=3).draws["run"], rtol=1e-9).any()


@pytest.mark.parametrize("seed", [-1, 1.5])
def test_bad_seeds(sound_fit: Fit, seed: int) -> None:
    with fails("not-a-whole-number", "seed", seed):
        forecast(sound_fit, AT, seed=seed)


# --- summaries ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("prob", "name"), [(0.9, "eti90"), (0.5, "eti50"), (0.999, "eti99.9")])
def test_summary_has_medians_and_equal_tailed_intervals(sound_fit: Fit, prob: float, name: str) -> None:
    result = forecast(sound_fit, AT)
    table = result.summary(prob)
    spreads = [f"{s}_{c}" for s in ("latent", "run", "extrapolated") for c in ("median", f"{name}_lb", f"{name}_ub")]
    stated = [f"discrepancy{sd}%_{name}_{end}" for sd in ("0.5", "1") for end in ("lb", "ub")]
    last = ["headline", "as", "outside_N", "outside_D", "extrapolation", "checks", "model"]
    assert list(table) == ["N", "D", *spreads, *last]
    plain = forecast(sound_fit, AT, discrepancy="none").summary(prob)
    assert list(plain) == ["N", "D", *spreads[:6], *stated, *last]
    pd.testing.assert_frame_equal(plain[spreads[:6]], table[spreads[:6]])
    assert (table["headline"].tolist(), set(plain["headline"])) == (["run", "extrapolated", "extrapolated"], {"run"})
    for spread in ("latent", "run", "extrapolated"):
        draws = np.sort(result.draws[spread].values, axis=0)
        for column, share in (("median", 0.5), (f"{name}_lb", (1 - prob) / 2), (f"{name}_ub", (1 + prob) / 2)):
            np.testing.assert_allclose(table[f"{spread}_{column}"], np.quantile(draws, share, axis=0))
        inside = (draws >= table[f"{spread}_{name}_lb"].to_numpy()) & (draws <= table[f"{spread}_{name}_ub"].to_numpy())
        np.testing.assert_allclose(inside.mean(axis=0), prob, atol=1 / len(draws))
    if prob < 0.99:  # of 3,000 draws .1% are too few for the ends to compare
        width = {s: table[f"{s}_{name}_ub"] - table[f"{s}_{name}_lb"] for s in ("run", "latent")}
        assert (width["run"] > width["latent"]).all()
    assert (table["checks"] == "passed").all()


@pytest.mark.slow
def test_the_default_is_90_percent(sound_fit: Fit) -> None:
    result = sound_fit.forecast(AT)
    pd.testing.assert_frame_equal(result.summary(), result.summary(0.9))
    assert {"latent_eti90_lb", "latent_eti90_ub", "run_eti90_lb", "run_eti90_ub"} <= set(result.summary())


@pytest.mark.slow
@pytest.mark.parametrize("prob", [0.0, 1.0, -0.1, 90.0, float("nan")])
def test_probabilities_outside_0_to_1_are_refused(sound_fit: Fit, prob: float) -> None:
    with pytest.raises(BayeslawError, match=f"{prob:g}"):
        forecast(sound_fit, AT).summary(prob)


@pytest.mark.slow
def test_distances_outside_the_data(ptpp_fit: Fit) -> None:
    """E-folds where a covariate spans decades, shares for r, 0 inside."""
    seen = ptpp_fit.observed.covariates
    low, high = ({name: float(end(values)) for name, values in seen.items()} for end in (np.min, np.max))
    rows = [
        {name: np.sqrt(low[name] * high[name]) for name in seen},
        low,
        high,
        {"N": low["N"] / np.e, "D": high["D"] * np.e**2, "r": high["r"] + 0.15, "ptpp": high["ptpp"] * np.e**0.5},
        {"N": high["N"] * 2, "D": low["D"] / 10, "r": low["r"] - 0.08, "ptpp": low["ptpp"] / np.e},
    ]
    result = forecast(ptpp_fit, pd.DataFrame(rows))
    expected = pd.DataFrame(
        {"N": [0, 0, 0, 1, np.log(2)], "D": [0, 0, 0, 2, np.log(10)], "r": [0, 0, 0, 0.15, 0.08], "ptpp": [0, 0, 0, 0.5, 1]}
    )
    pd.testing.assert_frame_equal(result.outside, expected, check_dtype=False, atol=1e-12)
    np.testing.assert_array_equal(result.summary()["outside_r"], result.outside["r"])


@pytest.mark.slow
def test_base_checkpoints_among_the_runs_leave_nothing_outside_below() -> None:
    """Where D = 0 was fitted, D = 0 and the first tokens after it lie inside; an empty r is filled in at D = 0 alone."""
    law = load_law("transfer-source")
    table = oracles.table(law)
    base = table.iloc[[0]].assign(D=0.0, r=np.nan, run="base")
    result = stand_in_fit(law, pd.concat([table, base]), draws=100)
    at = pd.DataFrame({"N": 1e8, "D": [0.0, 0.0, 1.0, 2 * table["D"].max()], "r": [np.nan, 0.5, 0.5, 0.5], "ptpp": 31.0})
    there = result.forecast(at, force=True)
    np.testing.assert_allclose(there.outside["D"], [0, 0, 0, np.log(2)])
    latent = there.draws["latent"].values
    np.testing.assert_allclose(latent[:, 0], latent[:, 1], rtol=1e-12)
    with fails("missing-value", "r", kind=TableError):
        result.forecast(at.assign(D=1e9), force=True)


def line_table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": [0.0, 0.5, 1.0], "loss": [2.7, 2.8, 3.0], "run": ["u", "u", "v"]} | columns)


@pytest.mark.slow
def test_known_errors_are_added_only_for_comparison_with_measured_losses() -> None:
    """The error of a measured loss is no part of the next run's noise, but of a comparison with that loss."""
    fit, table = line_fit(), line_table(loss_se=[0.0, 0.1, 0.2])
    result, without = forecast(fit, table, discrepancy=0.01), forecast(fit, line_table(), discrepancy=0.01)
    np.testing.assert_array_equal(result.known, table["loss_se"] / table["loss"])
    xr.testing.assert_identical(result.draws, without.draws)
    pd.testing.assert_frame_equal(result.summary(), without.summary())
    np.testing.assert_array_equal(result.predictive[:, 0], without.predictive[:, 0])
    for row, known in enumerate(result.known):
        wider = forecast(line_fit(point=float(np.hypot(0.01, known))), line_table(), discrepancy=0.01)
        np.testing.assert_allclose(result.predictive[:, row], wider.predictive[:, row], rtol=1e-12)
    for nil in (forecast(fit, line_table(loss_se=0.0)), forecast(fit, table.drop(columns="loss"))):
        np.testing.assert_array_equal(nil.predictive, forecast(fit, line_table()).predictive)


def test_averages_are_of_next_runs_whose_rows_need_not_be_measured() -> None:
    fit, table = line_fit(size=400), line_table(loss=[2.7, np.nan, 3.0], loss_se=0.3, run="u")
    measured, without = (forecast(fit, at, force=True).mean("x") for at in (table, table[["x", "run"]]))
    np.testing.assert_array_equal(measured.draws, without.draws)


@pytest.mark.slow
@pytest.mark.parametrize("error", [-0.1, np.nan, 2.0])
def test_an_impossible_known_error_is_refused_where_it_is_used(error: float) -> None:
    result = forecast(line_fit(), line_table(loss_se=[0.0, error, 0.1]))
    assert len(result.summary()) == 3
    with pytest.raises(TableError, match="loss_se"):
        _ = result.predictive


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_forecast_of_a_row_does_not_depend_on_other_rows(sound_fit: Fit) -> None:
    """Rows are computed in blocks; neither their size nor the number of rows changes a number."""
    many = pd.concat([AT] * 30, ignore_index=True).assign(run=np.repeat(range(10), 9))
    whole, few = forecast(sound_fit, many), forecast(sound_fit, many.head(20))
    np.testing.assert_array_equal(whole.draws["run"].values[:, :20], few.draws["run"].values)
    with patch.object(forecasts, "BLOCK", 7):
        pd.testing.assert_frame_equal(whole.summary(), forecast(sound_fit, many).summary())


@pytest.mark.slow
def test_more_draws_than_memory_holds_are_refused_but_summarised(sound_fit: Fit) -> None:
    many = forecast(sound_fit, pd.concat([AT] * 2))
    with patch.object(forecasts, "MOST_DRAWS", 30_000), fails("too-many-draws", "3,000 draws", "at most 3 settings"):
        _ = many.draws
    assert len(many.summary()) == 6


@pytest.mark.slow
def test_settings_come_as_a_table_runs_or_a_file(sound_fit: Fit, tmp_path: Path) -> None:
    path = tmp_path / "at.csv"
    AT.assign(params_b=AT["N"] / 1e9, loss=2.0, domain="web").drop(columns="N").to_csv(path, index=False)
    result = [forecast(sound_fit, at) for at in (AT, bayeslaw.read_runs(AT), path, str(path))]
    for other in result[1:]:
        np.testing.assert_allclose(other.draws["run"], result[0].draws["run"], rtol=1e-12)
    assert list(result[2].settings) == ["D", "N", "domain"]  # a loss is not a setting


@pytest.mark.slow
def test_rows_keep_their_numbers_in_the_table(sound_fit: Fit) -> None:
    result = forecast(sound_fit, bayeslaw.read_runs(AT).where("N > 1e8"))
    assert result.draws["row"].values.tolist() == [2, 3]
    assert result.settings["N"].tolist() == [1e9, 1e11]


def test_every_faulty_setting_is_named(sound_fit: Fit, ptpp_fit: Fit) -> None:
    at = pd.DataFrame({"N": [1e9, 8.1, 1e9, 1e9], "D": [0.0, 1e9, np.nan, 1e16]})
    with faults(("infinite-at-base", 1, "D"), ("out-of-support", 2, "N"), ("missing-value", 3, "D"), ("out-of-support", 4, "D")):
        forecast(sound_fit, at)
    with faults(("missing-column", None, "ptpp")):
        forecast(ptpp_fit, AT.assign(r=0.3))
    with fails("no-rows"):
        forecast(sound_fit, AT.head(0))


@pytest.mark.slow
def test_one_stage_is_enough_for_a_forecast(ptpp_fit: Fit) -> None:
    assert len(forecast(ptpp_fit, AT.assign(r=0.3, ptpp=279)).summary()) == 3


def test_a_setting_where_the_law_is_infinite_is_refused(sound_fit: Fit) -> None:
    """A card whose support lets D = 0 in, though its formula is infinite there."""
    card = sound_fit.law.card.replace("support = [1e2, 1e15]", "support = [0, 1e15]")
    fit = replace(sound_fit, law=parse_card(card))
    with fails("no-finite-loss", "chinchilla", "row = 2", kind=FitError):
        forecast(fit, AT.assign(D=[1e9, 0, 1e9])).summary()


@pytest.mark.slow
def test_failed_checks_are_refused_unless_forced_and_then_marked(small_fit: Fit) -> None:
    assert not small_fit.passed
    failed = "; ".join(c.text for c in small_fit.checks if c.required and not c.passed)
    with fails("failed-checks", failed, kind=FitError):
        forecast(small_fit, AT)
    result = forecast(small_fit, AT, force=True)
    assert result.forced
    assert result.summary()["checks"].tolist() == ["FAILED (forced)"] * 3
    assert small_fit.forecast(AT, force=True).draws.identical(result.draws)


@pytest.mark.slow
def test_forcing_a_sound_fit_marks_nothing(sound_fit: Fit) -> None:
    assert (forecast(sound_fit, AT, force=True).summary()["checks"] == "passed").all()


# --- checks of the forecast itself ----------------------------------------------------------------------------------


def with_draws(fit: Fit, **draws: Array) -> Fit:
    """The fit with other draws of some parameters, (chains, draws)."""
    tree = fit.tree.copy()
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = posterior.assign({k: (("chain", "draw"), v) for k, v in draws.items()})
    return replace(fit, tree=tree)


@pytest.mark.slow
def test_a_forecast_is_checked_at_its_own_latent_loss(sound_fit: Fit) -> None:
    import arviz as az

    result = forecast(sound_fit, AT)
    assert [(c.name, c.passed, c.required) for c in result.checks[:3]] == [
        ("forecast_r_hat", True, True), ("forecast_ess_bulk", True, True), ("forecast_ess_tail", True, True),
    ]  # fmt: skip
    latent = result.draws["latent"].values.T.reshape(3, 2, 1500)
    for check, column, method in zip(result.checks, ("r_hat", "ess_bulk", "ess_tail"), ("rank", "bulk", "tail"), strict=False):
        if column == "r_hat":
            expected = [az.rhat(one, method=method) for one in latent]
        else:
            expected = [az.ess(one, method=method, prob=(0.05, 0.95) if method == "tail" else None) for one in latent]
        np.testing.assert_allclose(check.table[column], expected, rtol=1e-9)
        assert check.table.index.tolist() == [1, 2, 3]  # rows of the table


@pytest.mark.slow
def test_a_forecast_of_chains_that_differ_is_refused_though_the_fit_passed(sound_fit: Fit) -> None:
    """Every setting's latent loss depends on E, so chains that disagree about E fail here, whether or not the fit passed."""
    moved = sound_fit.by_chain["E"].copy()
    moved[0] *= 1.05
    fit = with_draws(sound_fit, E=moved)
    assert fit.passed
    with fails("failed-checks", "R-hat of the latent loss", "bulk effective sample size of the latent loss", kind=FitError):
        forecast(fit, AT)
    result = forecast(fit, AT, force=True)
    assert result.forced
    assert result.summary()["checks"].tolist() == ["FAILED (forced)"] * 3


@pytest.mark.slow
def test_a_setting_far_off_among_thousands_is_among_those_checked(sound_fit: Fit) -> None:
    """Chains that disagree on alpha alone differ most at small N: one such setting among 5,000 is enough."""
    rng = np.random.default_rng(0)
    many = pd.DataFrame({"N": rng.uniform(0.9e9, 1e9, 5000), "D": rng.uniform(1e9, 1e10, 5000)})
    many.loc[2345, "N"] = 1e5
    result = forecast(sound_fit, many, force=True)
    table = result.checks[0].table
    assert len(table) == FORECAST_ROWS
    assert {2346, int(many["D"].argmin()) + 1, int(many["D"].argmax()) + 1} <= set(table.index)


@pytest.mark.slow
def test_rows_say_whether_they_lie_outside_the_runs(ptpp_fit: Fit) -> None:
    """The runs span 2.9 e-folds of ptpp and .7 of r: half of that is far, here and in the check."""
    seen = ptpp_fit.observed.covariates
    inside = {name: float(values.mean()) for name, values in seen.items()}
    rows = [inside, inside | {"ptpp": 279 * np.e}, inside | {"ptpp": 279 * np.e**2, "r": 0.9}, inside | {"N": 1e9 * np.e**3}]
    result = forecast(ptpp_fit, pd.DataFrame(rows))
    assert result.summary()["extrapolation"].tolist() == [
        "inside", "outside: ptpp by 1 e-folds", "FAR outside: r by 0.1, ptpp by 2 e-folds", "FAR outside: N by 3 e-folds",
    ]  # fmt: skip
    check = result.checks[-1]
    assert (check.name, check.passed, check.required) == ("extrapolation", False, False)
    assert check.table["rows_far"].to_dict() == {"N": 1, "D": 0, "r": 0, "ptpp": 1}
    assert forecast(ptpp_fit, pd.DataFrame(rows[:2])).checks[-1].passed


@pytest.mark.slow
def test_a_mapping_is_a_grid_of_settings(sound_fit: Fit) -> None:
    settings: dict[str, Any] = {"N": [1e8, 1e9], "D": "1e9,1e10"}
    by_mapping, by_grid = (forecast(sound_fit, at).summary() for at in (settings, grid(sound_fit, settings)))
    assert len(by_mapping) == 4
    pd.testing.assert_frame_equal(by_mapping, by_grid)
    with fails("missing-covariate"):
        forecast(sound_fit, {"N": 1e8})


def test_averages_of_rows_inside_and_outside_are_of_draws_of_one_posterior() -> None:
    """Draws of `run` and `extrapolated` with one number have nothing in common, though the rows share the law's parameters."""
    law = load_law("chinchilla")
    fit = stand_in_fit(law, oracles.table(law), draws=400)
    n, d = (float(fit.observed.covariates[name].max()) for name in ("N", "D"))
    for more, headlines, spread in ((0.5, ["run", "run"], "run"), (4.0, ["run", "extrapolated"], "extrapolated")):
        result = forecast(fit, pd.DataFrame({"N": [n, n], "D": [d, more * d]}), force=True)
        assert result.headlines == headlines
        np.testing.assert_allclose(result.mean("D").draws[:, 0], result.draws[spread].to_numpy().mean(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("over", "values", "shared"),
    [
        ("task", ["a", "b", "c"], True),
        ("seed", [1, 2, 3], False),
        ("checkpoint", ["new", "newer", "newest"], False),
        ("run", ["one", "two", "three"], False),
    ],
)
def test_averages_are_over_points_of_one_run_unless_rows_are_of_several_models(over: str, values: list[Any], shared: bool) -> None:
    fit = line_fit(noise="normal-checkpoint", point=0.01, run=0.015)  # and effects of checkpoints of 2%
    result = forecast(fit, pd.DataFrame({"x": 0.5, over: values}), force=True)
    noise = np.log(result.mean(over).draws[:, 0] / result.draws["latent"].to_numpy().mean(axis=1))
    effects = 0.015**2 + 0.02**2
    expected = 0.01**2 / 3 + (effects if shared else effects / 3)
    assert noise.var() == pytest.approx(expected, rel=5 * np.sqrt(2 / noise.size))


@pytest.mark.slow
def test_what_is_extrapolated_is_a_run_under_the_posterior_with_an_error() -> None:
    law = load_law("chinchilla")
    fit = stand_in_fit(law, oracles.table(law), draws=400)
    result = forecast(fit, pd.DataFrame({"N": [1e9, 1e11], "D": [1e10, 1e12]}), force=True)
    np.testing.assert_allclose(result.draws["extrapolated"], result.with_errors.draws["run"], rtol=1e-12)
    spread = np.log(result.draws[["run", "extrapolated"]].to_array().to_numpy()).std(axis=1)
    assert spread[1, 1] > 1.2 * spread[0, 1]


def test_settings_of_a_fit_to_few_examples_are_no_tokens_in_another_unit() -> None:
    law = load_law("fine-tuning")
    values = {"E": 1.1, "G": 0.9, "h": 900.0, "q": 0.5}
    for least, few in ((200.0, True), (2e7, False)):
        frame = pd.DataFrame({"run": "a", "D": least * 2.0 ** np.arange(8), "loss": 2.0 - 0.1 * np.arange(8)})
        fit = posterior("fine-tuning", {name: np.full(200, value) for name, value in values.items()}, frame=frame)
        assert fit.law.name == law.name
        if few:
            assert np.isfinite(forecast(fit, {"D": 500}).summary()["latent_median"]).all()
        else:
            with faults(("tokens-too-few", None, "D")):
                forecast(fit, {"D": 500})
    law = load_law("replay-target")  # the D = 0 of base checkpoints is no count of examples
    rows = oracles.table(law)
    base = pd.DataFrame({"run": ["base"], "D": 0.0, "r": np.nan, "loss": 3.0})
    draws = {name: np.full(200, value) for name, value in oracles.typical(law).items()}
    with faults(("tokens-too-few", None, "D")):
        forecast(posterior(law, draws, frame=pd.concat([base, rows])), {"D": 500, "r": 0.2})
