"""Runs left out: importance weights against plain ones, held-out densities against SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayeslaw.core.errors import FitError
from bayeslaw.data.table import read_runs
from bayeslaw.evaluation.loo import Loo, held_out_density, leave_one_run_out, split_run
from bayeslaw.laws.card import load_law
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import line_fit, typical_fit
from tests.oracles import Array

RUNS = read_runs(oracles.table(load_law("chinchilla"), runs=8))


def run_density(fit: Fit, rows: pd.DataFrame) -> Array:
    """Log density of the rows of one run, one value per draw, from the whole covariance matrix."""
    draws, k = {name: values[:, None] for name, values in fit.draws.items()}, len(rows)
    mean = np.log(oracles.chinchilla(draws, {c: rows[c].to_numpy() for c in ("N", "D")}))
    residual = np.log(rows["loss"].to_numpy()) - mean
    covariance = draws["sigma_point"][..., None] ** 2 * np.eye(k) + draws["sigma_run"][..., None] ** 2
    squared = (residual * np.linalg.solve(covariance, residual[..., None])[..., 0]).sum(axis=1)
    return np.asarray(-0.5 * (squared + np.linalg.slogdet(covariance)[1] + k * np.log(2 * np.pi)))


@pytest.mark.slow
def test_runs_left_out_are_those_of_plain_weights(sound_fit: Fit) -> None:
    """Where k is small, smoothing changes little: the harmonic mean of the run's density over the draws."""
    loo = leave_one_run_out(sound_fit)
    table = loo.table
    assert table.index.tolist() == list(sound_fit.observed.run_names)
    assert table["rows"].tolist() == [5] * 8
    assert loo.good_k == pytest.approx(0.7)
    calm = table.index[table["pareto_k"] < 0.5]
    assert len(calm) >= 2
    for run in calm:
        density = run_density(sound_fit, split_run(RUNS, run)[1].frame)
        expected = -(logsumexp(-density) - np.log(density.size))
        assert table["elpd"][run] == pytest.approx(expected, abs=0.1)
    assert loo.elpd == pytest.approx(table["elpd"].sum())
    assert loo.se == pytest.approx(np.sqrt(8) * table["elpd"].std(ddof=0))
    assert 0 < loo.p < 40
    assert loo.unreliable == table.index[table["pareto_k"] > 0.7].tolist()


def test_a_fit_with_a_few_draws_has_no_weights() -> None:
    """ArviZ refused it in words of its own."""
    with fails("too-few-draws", "at least 25", "has 20", kind=FitError):
        leave_one_run_out(line_fit(size=20))
    assert len(leave_one_run_out(line_fit(size=28)).table) == 4


def test_runs_with_unreliable_weights_are_listed_until_they_are_refitted() -> None:
    table = pd.DataFrame({"rows": 5, "elpd": [-1.0, -3.0], "pareto_k": [0.5, 0.9], "refitted": False}, index=["a", "b"])
    loo = Loo(table, 0.7, 1.0, np.zeros((2, 100)))
    assert loo.unreliable == ["b"]
    refitted = loo.refitted("b", -12.0)
    assert refitted.unreliable == []
    assert refitted.table["refitted"].tolist() == [False, True]
    assert (loo.elpd, refitted.elpd) == (-4.0, -13.0)
    assert not loo.table["refitted"].any()


def test_draws_are_resampled_in_proportion_to_their_weights() -> None:
    log_weights = np.log(np.array([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]))
    table = pd.DataFrame({"rows": 1, "elpd": 0.0, "pareto_k": 0.1, "refitted": False}, index=["a", "b"])
    loo = Loo(table, 0.7, 1.0, np.repeat(log_weights, 25, axis=1) + 7)
    counts = np.bincount(loo.resampled("a") // 25, minlength=4)
    np.testing.assert_allclose(counts, [10, 20, 30, 40], atol=1)
    np.testing.assert_array_equal(loo.resampled("b"), np.arange(100))


def test_densities_of_held_out_runs(small_fit: Fit) -> None:
    """Mean over the draws of the joint density of a run's losses."""
    held = read_runs(oracles.table(load_law("chinchilla"), seed=8, runs=3).assign(run=np.repeat(["x", "y", "z"], 5)))
    densities = held_out_density(small_fit, RUNS, held)
    assert densities.index.tolist() == ["x", "y", "z"]
    for run, value in densities.items():
        density = run_density(small_fit, held.frame[held.frame["run"] == run])
        assert value == pytest.approx(logsumexp(density) - np.log(density.size), rel=1e-9)


def test_later_rows_of_a_fitted_run_are_given_that_run(small_fit: Fit) -> None:
    fitted, rest = RUNS.where("D < 5e9"), RUNS.where("D >= 5e9 and run in ['run 0', 'run 1']")
    densities = held_out_density(small_fit, fitted, rest)
    assert densities.index.tolist() == ["run 0", "run 1"]
    before, whole = (run_density(small_fit, runs.where("run == 'run 1'").frame) for runs in (fitted, RUNS))
    assert densities["run 1"] == pytest.approx(logsumexp(whole - before) - np.log(whole.size), rel=1e-9)


def test_another_model_with_the_name_of_a_fitted_run_is_a_run_of_its_own(small_fit: Fit) -> None:
    other = replace(RUNS, frame=RUNS.where("run == 'run 1'").frame.assign(N=7e8))
    densities = held_out_density(small_fit, RUNS.where("D < 5e9"), other)
    assert densities.index.tolist() == ["run 1 (held out)"]
    density = run_density(small_fit, other.frame)
    assert densities.iloc[0] == pytest.approx(logsumexp(density) - np.log(density.size), rel=1e-9)


def test_rows_without_runs_are_runs_of_their_own(small_fit: Fit) -> None:
    """Under Student-t noise, row by row."""
    tree = small_fit.tree.copy()
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = posterior.assign(dof=posterior["E"] * 0 + 4.0)
    fit = replace(small_fit, tree=tree, noise=Noise(student=True, run_effect=False))
    table = replace(RUNS, frame=RUNS.frame.drop(columns="run"))
    fitted, held = (replace(table, frame=part) for part in (table.frame.iloc[:30], table.frame.iloc[30:33]))
    densities = held_out_density(fit, fitted, held)
    assert densities.index.tolist() == ["row 31", "row 32", "row 33"]
    draws = {name: values[:, None] for name, values in fit.draws.items()}
    mean = np.log(oracles.chinchilla(draws, {c: held.frame[c].to_numpy() for c in ("N", "D")}))
    density = stats.t.logpdf(np.log(held.frame["loss"].to_numpy()), 4.0, mean, draws["sigma_point"])
    np.testing.assert_allclose(densities, logsumexp(density, axis=0) - np.log(len(density)), rtol=1e-9)


def test_a_table_is_split_at_a_run() -> None:
    others, own = split_run(RUNS, "run 3")
    assert own.frame["run"].tolist() == ["run 3"] * 5
    assert len(others) == 35
    assert pd.concat([others.frame, own.frame]).sort_index().equals(RUNS.frame)


def test_the_density_of_any_run_of_a_law_with_a_base_loss() -> None:
    """Also of the first, whose rows then stand after those of the others."""
    fit = typical_fit("from-base-source", size=400)
    runs = read_runs(oracles.table(fit.law, runs=8))
    first, last = (held_out_density(fit, *split_run(runs, f"run {i}")) for i in (0, 7))
    assert np.isfinite([*first, *last]).all()
