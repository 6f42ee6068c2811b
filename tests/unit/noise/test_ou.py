"""OU run effects: densities, draws and continuations against the normal distribution of all rows of a run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayeslaw.data.observations import Observations, clock_column, planned
from bayeslaw.data.table import Runs
from bayeslaw.design.information import Source
from bayeslaw.design.preposterior import nested as look_ahead
from bayeslaw.design.update import compare_with_predictions
from bayeslaw.evaluation.loo import held_out_density
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.inference.fit import fit
from bayeslaw.inference.refit import join_runs, refit_task, rows_of
from bayeslaw.laws.card import load_law
from bayeslaw.noise import ou
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import line, line_fit
from tests.oracles import Array, drifting, nested, timed

RUN, GROUP, NAMES = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3]), np.array([0, 0, 1, 1]), ("pile", "code")
SE = 0.01 * np.array([0.0, 1.0, 2.0, 0.5, 1.5, 0.2, 1.0, 3.0, 0.7])
NONE = np.empty(0)
DRIFT = Noise(False, True, drift=True)


def rows(se: Array = NONE) -> Observations:
    """Rows of 4 runs at uneven steps, of which some are 0."""
    return timed(nested(RUN, group=GROUP, names=NAMES, se=se))


def two_draws(seen: Observations) -> tuple[dict[str, Array], list[Array]]:
    """Two draws of the parameters, and the covariance of all rows under each."""
    draws = {"sigma_point[pile]": [0.01, 0.03], "sigma_point[code]": [0.02, 0.02], "drift": [0.2, 1.5]}
    draws |= {"sigma_run[pile]": [0.02, 0.005], "sigma_run[code]": [0.01, 0.01]}
    by = {name: np.array([draws[f"{name}[{group}]"] for group in NAMES]) ** 2 for name in ("sigma_point", "sigma_run")}
    whole = [drifting(seen, by["sigma_point"][:, s], by["sigma_run"][:, s], draws["drift"][s] * seen.span) for s in (0, 1)]
    return {name: np.array(values) for name, values in draws.items()}, whole


def test_log_likelihood_of_each_run(rng: np.random.Generator) -> None:
    seen, residual = rows(SE), 0.02 * rng.standard_normal((2, RUN.size))
    draws, whole = two_draws(seen)
    values = replace(DRIFT, groups=NAMES).log_likelihood(residual, seen, draws)
    for s in range(2):
        for j in range(4):
            own = np.flatnonzero(j == RUN)
            expected = stats.multivariate_normal(np.zeros(own.size), whole[s][np.ix_(own, own)]).logpdf(residual[s, own])
            assert values[s, j] == pytest.approx(float(expected), rel=1e-10)


def given(covariance: Array, known: int, values: Array) -> tuple[Array, Array]:
    """Mean and covariance of the last of some normal numbers, given the values of the first."""
    gain = np.linalg.solve(covariance[:known, :known], covariance[:known, known:]).T
    return gain @ values, covariance[known:, known:] - gain @ covariance[:known, known:]


def test_the_effect_of_a_run_is_conditionally_normal(rng: np.random.Generator) -> None:
    """Before, between, at and after its rows, in an order that is not that of the clock."""
    seen, size = rows(SE), 40_000
    noise = replace(DRIFT, groups=NAMES)
    residual = 0.02 * rng.standard_normal(RUN.size)
    values = {"sigma_point[pile]": 0.01, "sigma_point[code]": 0.02, "sigma_run[pile]": 0.02, "sigma_run[code]": 0.015, "drift": 0.4}
    draws = {name: np.full(size, value) for name, value in values.items()}
    own = np.flatnonzero(RUN == 3)
    logged = seen.clock[own]
    asked = np.array([2 * logged[2], 0.0, 0.5 * (logged[1] + logged[2]), logged[2], logged[2] + 17])
    moments = np.concatenate([logged, asked])
    covariance = 0.015**2 * np.exp(-np.abs(moments[:, None] - moments[None, :]) / (0.4 * seen.span))
    covariance[:3, :3] += np.diag(0.02**2 + SE[own] ** 2)
    mean, expected = given(covariance, 3, residual[own])
    drawn = noise.sample_path(np.broadcast_to(residual[own], (size, 3)), seen.select(np.array([3])), draws, asked / seen.span, rng)
    assert drawn.shape == (5, size)
    error = 5 * 0.015 / math.sqrt(size)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=error)
    np.testing.assert_allclose(np.cov(drawn), expected, atol=error * 0.03)


# --- draws ------------------------------------------------------------------------------------------------------------

TIME = np.array([0.0, 0.1, 0.1, 0.73, 2.5, 40.0])


@pytest.mark.slow
def test_paths_have_their_variance_and_correlations() -> None:
    size = 40_000
    for length in (0.05, 0.3, 20.0):
        paths = ou.Paths(np.full(size, length)).at(TIME, (1, 2))
        expected = np.exp(-np.abs(TIME[:, None] - TIME[None, :]) / length)
        np.testing.assert_allclose(np.cov(paths), expected, atol=5 * math.sqrt(2 / size))
        np.testing.assert_allclose(paths.mean(axis=1), 0.0, atol=5 / math.sqrt(size))
        np.testing.assert_array_equal(paths[1], paths[2])


def test_a_path_does_not_depend_on_the_moments_asked_for() -> None:
    paths = ou.Paths(np.array([0.05, 0.3, 20.0]))
    whole = paths.at(TIME, (3,))
    for some in ([4], [3, 1], [5, 0]):
        np.testing.assert_array_equal(paths.at(TIME[some], (3,)), whole[some])


def test_drawn_noise_has_the_dense_covariance() -> None:
    seen, size = rows(), 40_000
    draws = {name: np.repeat(values[:1], size) for name, values in two_draws(seen)[0].items()}
    noise = replace(DRIFT, groups=NAMES)
    numbers = np.arange(RUN.size)
    drawn = noise.sample(draws, RUN, numbers, (1, 2), group=GROUP[RUN], time=seen.time)
    expected = two_draws(seen)[1][0]
    np.testing.assert_allclose(np.cov(drawn), expected, atol=5 * expected.max() * math.sqrt(2 / size))
    alone = noise.sample(draws, RUN[7:8], numbers[7:8], (1, 2), group=GROUP[RUN][7:8], time=seen.time[7:8])
    np.testing.assert_array_equal(alone[0], drawn[7])


def test_correlations_are_means_over_draws() -> None:
    draws = {"sigma_run": np.array([0.01, 0.02]), "sigma_point": np.ones(2), "drift": np.array([0.1, 1.0])}
    correlation = DRIFT.effect_correlation(draws, np.array([[0.0, 0.5], [1.0, 3.0]]))
    expected = [(math.exp(-d / 0.1) + 4 * math.exp(-d)) / 5 for d in (0.5, 2.0)]
    np.testing.assert_allclose(correlation, [[[1.0, e], [e, 1.0]] for e in expected])
    np.testing.assert_array_equal(replace(DRIFT, drift=False).effect_correlation(draws, np.zeros((3, 2))), np.ones((3, 2, 2)))


# --- the clock --------------------------------------------------------------------------------------------------------


def curves(**columns: Any) -> pd.DataFrame:
    """Two runs whose rows are not in the order of their steps."""
    table = {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "loss": [3.0, 2.9, 2.8, 2.7, 2.6, 2.5], "run": list("baabab")}
    return pd.DataFrame(table | {"step": [30.0, 20.0, 5.0, 10.0, 45.0, 20.0]} | columns)


def test_rows_are_in_the_order_of_the_clock() -> None:
    runs = oracles.runs(curves())
    seen = Observations.of(line(), runs, clock=clock_column(runs.frame, line()))
    assert seen.run_names == ("b", "a")
    assert (seen.clock_column, seen.span) == ("step", 30.0)
    np.testing.assert_array_equal(seen.clock, [10.0, 20.0, 30.0, 5.0, 20.0, 45.0 - 0.0])
    np.testing.assert_array_equal(seen.covariates["x"], [3.0, 5.0, 0.0, 2.0, 1.0, 4.0])
    np.testing.assert_array_equal(seen.rows, [4, 6, 1, 3, 2, 5])
    again, order = planned(line(), runs, seen)
    np.testing.assert_array_equal(again.clock, seen.clock)
    np.testing.assert_array_equal(order + 1, seen.rows)


def test_without_step_the_clock_is_the_tokens() -> None:
    assert clock_column(curves(D=1e9), line()) == "step"
    assert clock_column(curves(D=1e9).drop(columns="step"), line()) == "D"
    assert clock_column(curves(D=1e9, step="late"), line()) == "D"
    with fails("missing-clock", "step"):
        clock_column(curves().drop(columns="step"), line())


def test_the_clock_of_a_law_of_tokens_is_the_tokens() -> None:
    """Settings of a forecast have them, and need no `step`."""
    assert clock_column(curves(D=1e9), load_law("chinchilla")) == "D"


@pytest.mark.parametrize(
    ("columns", "code", "named"),
    [
        ({"step": [np.nan, 20.0, 5.0, np.nan, 45.0, np.nan]}, "bad-clock", "run 'b'"),
        ({"step": [30.0, 20.0, 5.0, np.nan, 45.0, 20.0]}, "bad-clock", "row 4"),
        ({"step": [30.0, 20.0, -5.0, 3.0, 45.0, 20.0]}, "bad-clock", "row 3"),
        ({"run": list("abcdef")}, "no-repeated-runs", "step"),
    ],
    ids=["empty-in-a-run", "empty-at-a-row", "negative", "one-moment-a-run"],
)
def test_unusable_clocks_are_refused(columns: dict[str, Any], code: str, named: str) -> None:
    with fails(code, named):
        fit(line(), curves(**columns), noise="normal-drift")


def test_points_with_an_ou_run_effect_are_not_put_into_bins() -> None:
    with fails("bins-with-ou-effect"):
        fit(line(), curves(), noise="normal-drift", bins=0.1)


def test_observations_without_a_clock_are_refused() -> None:
    with fails("no-clock"):
        Noise.choose("normal-drift", nested(RUN))


# --- uses of a fit ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ou_fit() -> Fit:
    return line_fit(noise="normal-drift", size=1000)


AT = pd.DataFrame({"x": [0.0, 0.5, 1.0], "run": "new", "step": [100.0, 500.0, 120.0]})


@pytest.mark.slow
def test_forecasts_of_a_run_have_an_ou_effect(ou_fit: Fit) -> None:
    large = replace(ou_fit, tree=line_fit(noise="normal-drift", size=40_000).tree)
    drawn = forecast(large, AT, force=True).draws
    errors = np.log(drawn["run"].values / drawn["latent"].values)
    decay = np.exp(-np.abs(AT["step"].to_numpy()[:, None] - AT["step"].to_numpy()) / (0.5 * 400.0))
    np.testing.assert_allclose(np.cov(errors.T), 1e-4 * (np.eye(3) + decay), atol=5e-4 * math.sqrt(2 / 40_000))
    alone = forecast(large, AT.iloc[:1], force=True).draws["run"].values
    np.testing.assert_array_equal(alone, drawn["run"].values[:, :1])


def test_settings_without_a_clock(ou_fit: Fit) -> None:
    """Rows of one run need it; rows that share no run have the same noise at any moment."""
    with fails("missing-clock", "step"):
        forecast(ou_fit, AT.drop(columns="step"), force=True)
    drawn = forecast(ou_fit, AT.drop(columns=["step", "run"]), force=True).draws
    assert np.log(drawn["run"] / drawn["latent"]).std().item() == pytest.approx(0.01 * math.sqrt(2), rel=0.05)


def test_a_refit_has_the_same_rows(ou_fit: Fit) -> None:
    task = refit_task(ou_fit, rows_of(ou_fit))
    assert isinstance(task.runs, Runs)
    assert task.options["noise"] == "normal-drift"
    seen = Observations.of(ou_fit.law, task.runs, clock=clock_column(task.runs.frame, ou_fit.law))
    np.testing.assert_array_equal(seen.clock, ou_fit.observed.clock)
    np.testing.assert_array_equal(seen.run, ou_fit.observed.run)


@pytest.mark.slow
def test_new_rows_join_along_the_clock(ou_fit: Fit) -> None:
    new = pd.DataFrame({"x": [2.0, 0.0], "loss": [3.2, 2.7], "run": ["r1", "fresh"], "checkpoint": "k0", "step": [200.0, 0.0]})
    both = join_runs(ou_fit, oracles.runs(new))
    seen = Observations.of(ou_fit.law, both, clock="step")
    np.testing.assert_array_equal(seen.clock[seen.run == seen.run_names.index("r1")], [0.0, 100.0, 200.0, 400.0])
    result = compare_with_predictions(ou_fit, oracles.runs(new), force=True)
    assert np.isfinite(result[["p_level", "p_curve"]].to_numpy()).all()
    with fails("missing-clock", "step"):
        join_runs(ou_fit, oracles.runs(new.drop(columns="step")))
    with fails("bad-clock", "row 2"):
        join_runs(ou_fit, oracles.runs(new.assign(step=[200.0, np.nan])))


def test_a_fit_along_tokens_is_refitted_along_tokens(ou_fit: Fit) -> None:
    by_tokens = replace(ou_fit, observed=replace(ou_fit.observed, clock_column="D"))
    new = pd.DataFrame({"x": [2.0], "loss": [3.2], "run": ["r1"], "checkpoint": ["k0"], "D": [800.0], "step": [2.0]})
    runs = refit_task(by_tokens, join_runs(by_tokens, oracles.runs(new))).runs
    assert isinstance(runs, Runs)
    frame = runs.frame
    assert clock_column(frame, ou_fit.law) == "D"
    assert frame["D"].notna().all()


def test_held_out_runs_keep_the_fits_unit_of_time(ou_fit: Fit) -> None:
    """Draws of `drift` are shares of the fit's typical run; a longer held-out run must not stretch them."""
    fitted, law = rows_of(ou_fit), ou_fit.law
    one = pd.DataFrame({"x": [0.0, 1.0], "loss": [2.7, 3.0], "step": [0.0, 1000.0]})
    held = pd.concat([one.assign(run=f"long {i}") for i in range(5)]).set_axis(range(100, 110))
    density = held_out_density(ou_fit, fitted, replace(oracles.runs(held), frame=held))
    draws = ou_fit.draws
    residual = np.log(one["loss"].to_numpy()) - np.log(law.predict(draws, {"x": one["x"].to_numpy()}))
    decay = math.exp(-1000.0 / 200.0)
    covariance = 1e-4 * np.array([[2.0, decay], [decay, 2.0]])
    densities = stats.multivariate_normal(np.zeros(2), covariance).pdf(residual)
    np.testing.assert_allclose(density, math.log(densities.mean()), rtol=1e-9)


@pytest.mark.slow
def test_design_validation_knows_that_rows_of_a_run_share_an_effect(ou_fit: Fit) -> None:
    """Rows at one moment of a run share its effect and are worth less than rows far apart."""
    design = pd.DataFrame({"x": np.tile([-1.0, 0.0, 1.0, 2.0], 2), "run": "new"})
    close, apart = design.assign(step=0.0), design.assign(step=np.arange(8) * 4000.0)
    targets = pd.DataFrame({"x": [1.0]})
    table = look_ahead(ou_fit, {"close": close, "apart": apart}, targets, outer=40, force=True)
    assert table["expected_variance"][1] < 0.9 * table["expected_variance"][0]


def test_candidates_know_the_correlation_of_an_ou_effect(ou_fit: Fit) -> None:
    drawn = forecast(ou_fit, AT, force=True)
    source = Source(drawn, None, ())  # type: ignore[arg-type]
    decay = np.exp(-np.abs(np.subtract.outer(AT["step"].to_numpy(), AT["step"].to_numpy())) / 200.0)
    np.testing.assert_allclose(source.run_covariances(np.array([[0, 1, 2]])), [1e-4 * decay], rtol=1e-12)
