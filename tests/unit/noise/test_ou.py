"""Noise that drifts along a run: densities, draws and continuations against the normal distribution of all its rows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.observations import Observations, clock_column, planned
from bayeslaw.data.table import Runs
from bayeslaw.design.information import Source
from bayeslaw.design.preposterior import nested as look_ahead
from bayeslaw.design.update import surprise
from bayeslaw.engine.build import jit
from bayeslaw.engine.likelihoods import drift_density as plain_drift_density
from bayeslaw.evaluation.loo import held_out_density
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.inference.fit import fit
from bayeslaw.inference.refit import join_runs, refit_task, rows_of
from bayeslaw.laws.card import load_law
from bayeslaw.noise import ou as drift
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit, restore
from tests import oracles
from tests.commands import Command, refused
from tests.fixed import line, line_fit
from tests.oracles import Array, central, drifting, nested, timed

drift_density = jit(plain_drift_density)
RUN, GROUP, NAMES = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3]), np.array([0, 0, 1, 1]), ("pile", "code")
SE = 0.01 * np.array([0.0, 1.0, 2.0, 0.5, 1.5, 0.2, 1.0, 3.0, 0.7])
NONE = np.empty(0)
DRIFT = Noise(False, True, drift=True)


def rows(se: Array = NONE) -> Observations:
    """Rows of 4 runs at uneven steps, of which some are 0."""
    return timed(nested(RUN, group=GROUP, names=NAMES, se=se))


@pytest.mark.parametrize("se", [NONE, SE])
def test_density_is_that_of_the_dense_covariance(se: Array, rng: np.random.Generator) -> None:
    seen, y = rows(se), 1 + 0.05 * rng.standard_normal(RUN.size)
    x = np.array([*np.linspace(0.99, 1.01, RUN.size), 4e-4, 6e-4, 25e-4, 17e-4, 0.4])

    def oracle(x: Array) -> float:
        covariance = drifting(seen, x[9:11], x[11:13], x[13] * seen.span)
        return float(stats.multivariate_normal(x[:9], covariance).logpdf(y))

    d_mu, d_v, d_t = np.zeros(RUN.size), np.zeros(2), np.zeros(2)
    arguments: Any = y, x[:9], seen.starts, seen.time, NONE, se**2, NONE.astype(np.int64), GROUP, x[9:11], x[11:13], 0.0, x[13]
    arguments += d_mu, d_v, d_t
    logp, _, d_length = drift_density(*arguments)
    assert logp == pytest.approx(oracle(x), rel=1e-12)
    np.testing.assert_allclose([*d_mu, *d_v, *d_t, d_length], central(oracle, x, 1e-6), rtol=1e-6)


def test_a_long_memory_is_a_run_effect_and_a_short_one_is_point_noise(rng: np.random.Generator) -> None:
    seen, y = rows(), 0.05 * rng.standard_normal(RUN.size)
    v, t = np.array([4e-4, 6e-4]), np.array([25e-4, 17e-4])
    alone = np.arange(seen.clock.size)  # no two rows at one moment
    for length, same in ((1e12, RUN[:, None] == RUN), (1e-12, np.eye(RUN.size))):
        covariance = np.diag(v[GROUP][RUN]) + t[GROUP][RUN][:, None] * same
        mu, d_mu, d_v, d_t = np.zeros(RUN.size), np.zeros(RUN.size), np.zeros(2), np.zeros(2)
        arguments: Any = y, mu, seen.starts, alone / 9, NONE, NONE, NONE.astype(np.int64), GROUP, v, t, 0.0, length
        arguments += d_mu, d_v, d_t
        logp = drift_density(*arguments)[0]
        assert logp == pytest.approx(float(stats.multivariate_normal(np.zeros(9), covariance).logpdf(y)), rel=1e-9)


def drawn(seen: Observations) -> tuple[dict[str, Array], list[Array]]:
    """Two draws of the parameters, and the covariance of all rows under each."""
    draws = {"sigma_point[pile]": [0.01, 0.03], "sigma_point[code]": [0.02, 0.02], "drift": [0.2, 1.5]}
    draws |= {"sigma_run[pile]": [0.02, 0.005], "sigma_run[code]": [0.01, 0.01]}
    by = {name: np.array([draws[f"{name}[{group}]"] for group in NAMES]) ** 2 for name in ("sigma_point", "sigma_run")}
    whole = [drifting(seen, by["sigma_point"][:, s], by["sigma_run"][:, s], draws["drift"][s] * seen.span) for s in (0, 1)]
    return {name: np.array(values) for name, values in draws.items()}, whole


def test_log_likelihood_of_each_run(rng: np.random.Generator) -> None:
    seen, residual = rows(SE), 0.02 * rng.standard_normal((2, RUN.size))
    draws, whole = drawn(seen)
    values = replace(DRIFT, groups=NAMES).log_likelihood(residual, seen, draws)
    for s in range(2):
        for j in range(4):
            own = np.flatnonzero(j == RUN)
            expected = stats.multivariate_normal(np.zeros(own.size), whole[s][np.ix_(own, own)]).logpdf(residual[s, own])
            assert values[s, j] == pytest.approx(float(expected), rel=1e-10)


def given(covariance: Array, told: int, values: Array) -> tuple[Array, Array]:
    """Mean and covariance of the last of some normal numbers, given the values of the first."""
    gain = np.linalg.solve(covariance[:told, :told], covariance[:told, told:]).T
    return gain @ values, covariance[told:, told:] - gain @ covariance[:told, told:]


@pytest.mark.parametrize("drifts", [True, False])
def test_a_run_goes_on_as_the_conditional_normal_says(drifts: bool, rng: np.random.Generator) -> None:
    """Of a run's luck at its last row and later, in an order that is not that of the clock."""
    seen, size, later = rows(SE), 40_000, np.array([700.0, 283.0, 300.0])
    noise = replace(DRIFT, groups=NAMES, drift=drifts)
    residual = 0.02 * rng.standard_normal(RUN.size)
    values = {"sigma_point[pile]": 0.01, "sigma_point[code]": 0.02, "sigma_run[pile]": 0.02, "sigma_run[code]": 0.015, "drift": 0.4}
    draws = {name: np.full(size, value) for name, value in values.items()}
    own = np.flatnonzero(RUN == 3)
    moments = np.concatenate([seen.clock[own], seen.clock[own[-1:]], later])
    distance = np.abs(moments[:, None] - moments[None, :])
    covariance = 0.015**2 * (np.exp(-distance / (0.4 * seen.span)) if drifts else np.ones_like(distance))
    covariance[:3, :3] += np.diag(0.02**2 + SE[own] ** 2)
    mean, expected = given(covariance, 3, residual[own])
    repeated = np.broadcast_to(residual, (size, RUN.size))
    luck = noise.luck(repeated, seen, draws, "run 3")
    assert (luck[0][0], luck[1][0]) == pytest.approx((mean[0], expected[0, 0]), rel=1e-9)
    made = noise.sample_later_effects(repeated, seen, draws, "run 3", later, rng)
    assert made.shape == (size, 3)
    error = 5 * 0.015 / math.sqrt(size)
    np.testing.assert_allclose(made.mean(axis=0), mean[1:], atol=error)
    np.testing.assert_allclose(np.cov(made.T), expected[1:, 1:], atol=error * 0.03)


def test_what_cannot_be_continued(rng: np.random.Generator) -> None:
    seen, draws = rows(), drawn(rows())[0]
    noise, residual = replace(DRIFT, groups=NAMES), np.zeros((2, RUN.size))
    with pytest.raises(BayeslawError, match=r"Run 'run 3' was last logged at step = 100; ask for later values\."):
        noise.sample_later_effects(residual, seen, draws, "run 3", np.array([99.0]), rng)
    with pytest.raises(BayeslawError, match=r"The fit has no run 'run 9'\."):
        noise.sample_later_effects(residual, seen, draws, "run 9", np.array([200.0]), rng)
    with pytest.raises(BayeslawError, match="with normal noise only; this is Student-t"):
        Noise(True, True).sample_later_effects(residual, seen, draws, "run 3", np.array([200.0]), rng)


# --- draws ------------------------------------------------------------------------------------------------------------

TIME = np.array([0.0, 0.1, 0.1, 0.73, 2.5, 40.0])


def test_paths_have_their_variance_and_correlations() -> None:
    size = 40_000
    for length in (0.05, 0.3, 20.0):
        paths = drift.Paths(np.full(size, length)).at(TIME, (1, 2))
        expected = np.exp(-np.abs(TIME[:, None] - TIME[None, :]) / length)
        np.testing.assert_allclose(np.cov(paths), expected, atol=5 * math.sqrt(2 / size))
        np.testing.assert_allclose(paths.mean(axis=1), 0.0, atol=5 / math.sqrt(size))
        np.testing.assert_array_equal(paths[1], paths[2])


def test_a_path_does_not_depend_on_what_is_asked_of_it() -> None:
    paths = drift.Paths(np.array([0.05, 0.3, 20.0]))
    whole = paths.at(TIME, (3,))
    for some in ([4], [3, 1], [5, 0]):
        np.testing.assert_array_equal(paths.at(TIME[some], (3,)), whole[some])


def test_drawn_noise_is_that_of_the_covariance() -> None:
    seen, size = rows(), 40_000
    draws = {name: np.repeat(values[:1], size) for name, values in drawn(seen)[0].items()}
    noise = replace(DRIFT, groups=NAMES)
    numbers = np.arange(RUN.size)
    made = noise.sample(draws, RUN, numbers, (1, 2), group=GROUP[RUN], time=seen.time)
    expected = drawn(seen)[1][0]
    np.testing.assert_allclose(np.cov(made), expected, atol=5 * expected.max() * math.sqrt(2 / size))
    alone = noise.sample(draws, RUN[7:8], numbers[7:8], (1, 2), group=GROUP[RUN][7:8], time=seen.time[7:8])
    np.testing.assert_array_equal(alone[0], made[7])


def test_correlations_are_means_over_draws() -> None:
    draws = {"sigma_run": np.array([0.01, 0.02]), "sigma_point": np.ones(2), "drift": np.array([0.1, 1.0])}
    found = DRIFT.effect_correlation(draws, np.array([[0.0, 0.5], [1.0, 3.0]]))
    expected = [(math.exp(-d / 0.1) + 4 * math.exp(-d)) / 5 for d in (0.5, 2.0)]
    np.testing.assert_allclose(found, [[[1.0, e], [e, 1.0]] for e in expected])
    np.testing.assert_array_equal(replace(DRIFT, drift=False).effect_correlation(draws, np.zeros((3, 2))), np.ones((3, 2, 2)))


# --- the clock --------------------------------------------------------------------------------------------------------


def curves(**columns: Any) -> pd.DataFrame:
    """Two runs whose rows are not in the order of their steps."""
    table = {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "loss": [3.0, 2.9, 2.8, 2.7, 2.6, 2.5], "run": list("baabab")}
    return pd.DataFrame(table | {"step": [30.0, 20.0, 5.0, 10.0, 45.0, 20.0]} | columns)


def test_rows_are_in_the_order_of_the_clock() -> None:
    runs = oracles.runs(curves())
    seen = Observations.of(line(), runs, clock=clock_column(runs.frame))
    assert seen.run_names == ("b", "a")
    assert (seen.clock_column, seen.span) == ("step", 30.0)
    np.testing.assert_array_equal(seen.clock, [10.0, 20.0, 30.0, 5.0, 20.0, 45.0 - 0.0])
    np.testing.assert_array_equal(seen.covariates["x"], [3.0, 5.0, 0.0, 2.0, 1.0, 4.0])
    np.testing.assert_array_equal(seen.rows, [4, 6, 1, 3, 2, 5])
    again, order = planned(line(), runs, seen)
    np.testing.assert_array_equal(again.clock, seen.clock)
    np.testing.assert_array_equal(order + 1, seen.rows)


def test_without_step_the_clock_is_the_tokens() -> None:
    assert clock_column(curves(D=1e9)) == "step"
    assert clock_column(curves(D=1e9).drop(columns="step")) == "D"
    assert clock_column(curves(D=1e9, step="late")) == "D"
    with pytest.raises(BayeslawError, match=r"the table needs a column `step` \(or D\)"):
        clock_column(curves().drop(columns="step"))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"step": [np.nan, 20.0, 5.0, np.nan, 45.0, np.nan]}, "drifts along step, which is empty in all rows of run 'b'"),
        ({"step": [30.0, 20.0, 5.0, np.nan, 45.0, 20.0]}, "drifts along step, which is empty at row 4"),
        ({"step": [30.0, 20.0, -5.0, 3.0, 45.0, 20.0]}, "drifts along step, which is -5, which can't be at row 3"),
        ({"run": list("abcdef")}, "No run has rows at two values of step"),
    ],
)
def test_clocks_that_cannot_be_used(columns: dict[str, Any], problem: str) -> None:
    with pytest.raises(BayeslawError, match=problem):
        fit(line(), curves(**columns), noise="normal-drift")


def test_points_that_drift_are_not_put_into_bins() -> None:
    with pytest.raises(BayeslawError, match="Noise normal-drift can't be put into bins: how neighbouring points"):
        fit(line(), curves(), noise="normal-drift", bins=0.1)


def test_observations_without_a_clock_are_refused() -> None:
    with pytest.raises(BayeslawError, match="takes observations with a clock"):
        Noise.choose("normal-drift", nested(RUN))


# --- what is done with a fit ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drifting_fit() -> Fit:
    return line_fit(noise="normal-drift", size=1000)


AT = pd.DataFrame({"x": [0.0, 0.5, 1.0], "run": "new", "step": [100.0, 500.0, 120.0]})


def test_forecasts_of_a_run_drift_along_it(drifting_fit: Fit) -> None:
    large = replace(drifting_fit, tree=line_fit(noise="normal-drift", size=40_000).tree)
    made = forecast(large, AT, force=True).draws
    errors = np.log(made["run"].values / made["latent"].values)
    decay = np.exp(-np.abs(AT["step"].to_numpy()[:, None] - AT["step"].to_numpy()) / (0.5 * 400.0))
    np.testing.assert_allclose(np.cov(errors.T), 1e-4 * (np.eye(3) + decay), atol=5e-4 * math.sqrt(2 / 40_000))
    alone = forecast(large, AT.iloc[:1], force=True).draws["run"].values
    np.testing.assert_array_equal(alone, made["run"].values[:, :1])


def test_settings_without_a_clock(drifting_fit: Fit) -> None:
    """Rows of one run need it; rows that share no run have the same noise at any moment."""
    with pytest.raises(BayeslawError, match="drifts along step: rows that share a run need that column"):
        forecast(drifting_fit, AT.drop(columns="step"), force=True)
    made = forecast(drifting_fit, AT.drop(columns=["step", "run"]), force=True).draws
    assert np.log(made["run"] / made["latent"]).std().item() == pytest.approx(0.01 * math.sqrt(2), rel=0.05)


def test_a_fit_that_was_sampled_saved_and_read() -> None:
    made = fit(line(), curves(), noise="normal-drift", draws=50, tune=50, chains=2, progress=False)
    assert {"sigma_point", "sigma_run", "drift"} <= set(made.draws)
    assert made.noise.text == "normal point noise with a run effect that drifts along the run"
    read = restore(made.tree, "fit.nc")
    np.testing.assert_array_equal(read.observed.time, made.observed.time)
    assert (read.observed.clock_column, read.observed.span, read.noise) == ("step", 30.0, made.noise)
    np.testing.assert_array_equal(read.log_likelihood().values, made.log_likelihood().values)


def test_the_command_line_takes_it(tmp_path: Path, command: Command) -> None:
    table, made = oracles.table(load_law("chinchilla"), runs=3), tmp_path / "fit.nc"
    table.to_csv(tmp_path / "runs.csv", index=False)
    done = command("fit", "chinchilla", tmp_path / "runs.csv", "-o", made, "--noise", "normal-drift", "--draws", 50, "--tune", 50)
    assert done.status == 0
    assert "with a run effect that drifts along the run" in done.out
    assert command("show", made, "--force").status == 0
    oracles.table(load_law("parallel-scaling")).to_csv(tmp_path / "timeless.csv", index=False)
    done = command("fit", "parallel-scaling", tmp_path / "timeless.csv", "-o", made, "--noise", "normal-drift")
    refused(done, "the table needs a column `step` (or D) that tells how far along its run each row was logged")


def test_a_fit_made_again_has_the_same_rows(drifting_fit: Fit) -> None:
    task = refit_task(drifting_fit, rows_of(drifting_fit))
    assert isinstance(task.runs, Runs)
    assert task.options["noise"] == "normal-drift"
    seen = Observations.of(drifting_fit.law, task.runs, clock=clock_column(task.runs.frame))
    np.testing.assert_array_equal(seen.clock, drifting_fit.observed.clock)
    np.testing.assert_array_equal(seen.run, drifting_fit.observed.run)


def test_new_rows_join_along_the_clock(drifting_fit: Fit) -> None:
    new = pd.DataFrame({"x": [2.0, 0.0], "loss": [3.2, 2.7], "run": ["r1", "fresh"], "checkpoint": "k0", "step": [200.0, 0.0]})
    both = join_runs(drifting_fit, oracles.runs(new))
    seen = Observations.of(drifting_fit.law, both, clock="step")
    np.testing.assert_array_equal(seen.clock[seen.run == seen.run_names.index("r1")], [0.0, 100.0, 200.0, 400.0])
    found = surprise(drifting_fit, oracles.runs(new), force=True)
    assert np.isfinite(found[["p_level", "p_curve"]].to_numpy()).all()
    with pytest.raises(BayeslawError, match="drifts along step: rows that share a run need that column"):
        join_runs(drifting_fit, oracles.runs(new.drop(columns="step")))
    with pytest.raises(BayeslawError, match="drifts along step, which is empty at row 2"):
        join_runs(drifting_fit, oracles.runs(new.assign(step=[200.0, np.nan])))


def test_a_fit_that_goes_by_tokens_is_made_again_by_tokens(drifting_fit: Fit) -> None:
    by_tokens = replace(drifting_fit, observed=replace(drifting_fit.observed, clock_column="D"))
    new = pd.DataFrame({"x": [2.0], "loss": [3.2], "run": ["r1"], "checkpoint": ["k0"], "D": [800.0], "step": [2.0]})
    runs = refit_task(by_tokens, join_runs(by_tokens, oracles.runs(new))).runs
    assert isinstance(runs, Runs)
    frame = runs.frame
    assert clock_column(frame) == "D"
    assert frame["D"].notna().all()


def test_held_out_runs_keep_the_fits_unit_of_time(drifting_fit: Fit) -> None:
    """Draws of `drift` are shares of the fit's typical run; a longer held-out run must not stretch them."""
    fitted, law = rows_of(drifting_fit), drifting_fit.law
    one = pd.DataFrame({"x": [0.0, 1.0], "loss": [2.7, 3.0], "step": [0.0, 1000.0]})
    held = pd.concat([one.assign(run=f"long {i}") for i in range(5)]).set_axis(range(100, 110))
    found = held_out_density(drifting_fit, fitted, replace(oracles.runs(held), frame=held))
    draws = drifting_fit.draws
    residual = np.log(one["loss"].to_numpy()) - np.log(law.predict(draws, {"x": one["x"].to_numpy()}))
    decay = math.exp(-1000.0 / 200.0)
    covariance = 1e-4 * np.array([[2.0, decay], [decay, 2.0]])
    densities = stats.multivariate_normal(np.zeros(2), covariance).pdf(residual)
    np.testing.assert_allclose(found, math.log(densities.mean()), rtol=1e-9)


def test_a_look_ahead_knows_what_rows_of_a_run_have_in_common(drifting_fit: Fit) -> None:
    """Rows at one moment of a run share its luck and tell less than rows far apart."""
    design = pd.DataFrame({"x": np.tile([-1.0, 0.0, 1.0, 2.0], 2), "run": "new"})
    close, apart = design.assign(step=0.0), design.assign(step=np.arange(8) * 4000.0)
    targets = pd.DataFrame({"x": [1.0]})
    found = look_ahead(drifting_fit, {"close": close, "apart": apart}, targets, outer=40, force=True)
    assert found["expected_variance"][1] < 0.9 * found["expected_variance"][0]


def test_candidates_are_worth_what_drifting_runs_tell(drifting_fit: Fit) -> None:
    made = forecast(drifting_fit, AT, force=True)
    source = Source(made, None, ())  # type: ignore[arg-type]
    decay = np.exp(-np.abs(np.subtract.outer(AT["step"].to_numpy(), AT["step"].to_numpy())) / 200.0)
    np.testing.assert_allclose(source.luck_of_runs(np.array([[0, 1, 2]])), [1e-4 * decay], rtol=1e-12)
