"""Functions of ArviZ and PyMC take what a fit's `to_datatree` returns, from a fresh fit and from a file, and agree with ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayeslaw
from bayeslaw.evaluation.loo import leave_one_run_out
from bayeslaw.posterior.fit import values_of
from tests import oracles
from tests.domains import BY, two_domains
from tests.errors import fails

pytestmark = pytest.mark.statistical


def _stored(fit: bayeslaw.Fit, folder: Path) -> bayeslaw.Fit:
    fit.save(folder / "fit.nc")
    return bayeslaw.load_fit(folder / "fit.nc")  # type: ignore[return-value]


RUNS = 30  # of 5 rows, which share run effects: with fewer, leaving one out by importance weights is unreliable


@pytest.fixture(scope="module")
def fresh() -> bayeslaw.Fit:
    law = bayeslaw.load_law("chinchilla")
    return bayeslaw.fit(law, oracles.table(law, runs=RUNS), draws=1500, chains=2, seed=1, progress=False)


@pytest.fixture(scope="module", params=["fresh", "loaded"])
def fit(request: pytest.FixtureRequest, fresh: bayeslaw.Fit, tmp_path_factory: pytest.TempPathFactory) -> bayeslaw.Fit:
    return fresh if request.param == "fresh" else _stored(fresh, tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def tree(fit: bayeslaw.Fit) -> xr.DataTree:
    return fit.to_datatree()


@pytest.fixture(scope="module")
def by_row(fit: bayeslaw.Fit) -> xr.DataTree:
    return fit.to_datatree(per="row")


@pytest.fixture(scope="module")
def other() -> bayeslaw.Fit:
    """A fit of the same table without run effects."""
    law = bayeslaw.load_law("chinchilla")
    table = oracles.table(law, runs=RUNS)
    return bayeslaw.fit(law, table, noise="normal-no-run", seed=1, progress=False, discrepancy="none")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


PARAMETERS = ["E", "A_level", "alpha", "sigma_point"]
PLOTS: dict[str, Callable[[xr.DataTree], Any]] = {
    "plot_trace": lambda tree: az.plot_trace(tree, var_names=PARAMETERS),
    "plot_trace_dist": lambda tree: az.plot_trace_dist(tree, var_names=PARAMETERS),
    "plot_forest": lambda tree: az.plot_forest(tree, var_names=PARAMETERS),
    "plot_pair": lambda tree: az.plot_pair(tree, var_names=PARAMETERS),
    "plot_energy": az.plot_energy,
    "plot_ppc_dist": az.plot_ppc_dist,
    "plot_ppc_pit": az.plot_ppc_pit,
    "plot_prior_posterior": lambda tree: az.plot_prior_posterior(tree, var_names=PARAMETERS),
    "plot_khat": lambda tree: az.plot_khat(az.loo(tree, pointwise=True)),
}


@pytest.mark.parametrize("name", PLOTS)
def test_plots(name: str, tree: xr.DataTree) -> None:
    PLOTS[name](tree)
    assert plt.get_fignums()


def test_plot_loo_pit_by_row(by_row: xr.DataTree) -> None:
    az.plot_loo_pit(by_row)
    assert plt.get_fignums()


def test_summary_is_that_of_the_fit(fit: bayeslaw.Fit, tree: xr.DataTree) -> None:
    table = az.summary(tree, ci_prob=0.9, ci_kind="eti", round_to="none")
    own = fit.summary(ci_prob=0.9)
    assert {"E", "A", "A_level", "alpha", "sigma_run"} <= {*table.index}
    for column in ("mean", "sd", "eti90_lb", "eti90_ub", "ess_bulk", "r_hat"):
        of_ours, of_arviz = (t.loc[own.index, column].to_numpy(dtype=np.float64) for t in (own, table))
        np.testing.assert_allclose(of_arviz, of_ours, rtol=1e-6)


def test_loo_is_that_of_the_fit(fit: bayeslaw.Fit, tree: xr.DataTree) -> None:
    own, loo = leave_one_run_out(fit), az.loo(tree)
    assert loo.elpd == pytest.approx(own.elpd, abs=0.01)
    assert loo.p == pytest.approx(own.p, abs=0.01)


def test_compare_of_two_noises_ranks_by_our_loo(fit: bayeslaw.Fit, tree: xr.DataTree, other: bayeslaw.Fit) -> None:
    table = az.compare({"with effects": tree, "without": other.to_datatree()}, round_to=6)
    for name, of in {"with effects": fit, "without": other}.items():
        assert float(table.loc[name, "elpd"]) == pytest.approx(leave_one_run_out(of).elpd, abs=0.01)
    with other.model:  # without effects PyMC has the density of each row, and they are ours
        pymc = pm.compute_log_likelihood(other.to_datatree(["posterior", "observed_data"]), progressbar=False)
    ours = other.to_datatree(["log_likelihood"], per="row")
    of_pymc, of_ours = (np.asarray(t["log_likelihood"]["log_loss"]) for t in (pymc, ours))
    np.testing.assert_allclose(of_pymc, of_ours, rtol=1e-8)


def test_psense_summary_moves_with_the_priors_of_law_and_noise(fit: bayeslaw.Fit, tree: xr.DataTree) -> None:
    table = az.psense_summary(tree, var_names=PARAMETERS, round_to=6)
    assert np.isfinite(table[["prior", "likelihood"]].astype(float)).all(axis=None)
    own = fit.sensitivity()
    moves = [float(str(v)) for v in (table.loc["alpha", "likelihood"], own.loc["alpha", "likelihood_sensitivity"])]
    assert moves[0] == pytest.approx(moves[1], rel=0.2)


def test_pymc_finds_the_log_likelihood_of_the_fit(fit: bayeslaw.Fit) -> None:
    tree = fit.to_datatree(["posterior", "observed_data", "constant_data"])
    with fit.model:
        made = pm.compute_log_likelihood(tree, progressbar=False)
    total = fit.log_likelihood("earlier").sum("run")
    np.testing.assert_allclose(made["log_likelihood"]["log_loss"].values, total.values, rtol=1e-9)


def test_pymc_finds_the_log_prior_of_the_fit(fit: bayeslaw.Fit) -> None:
    tree = fit.to_datatree(["posterior", "log_prior"])
    own = tree["log_prior"].to_dataset().copy()
    with fit.model:
        made = pm.stats.compute_log_prior(fit.to_datatree(["posterior"]), progressbar=False)["log_prior"].to_dataset()
    assert [variable.name for variable in fit.model.free_RVs][:2] == ["E", "A_level"]
    assert {*made.data_vars} == {*own.data_vars}
    for name in own:
        np.testing.assert_allclose(np.asarray(made[name]), np.asarray(own[name]), rtol=1e-8, atol=1e-8)


def test_pymc_replicates_losses_with_our_spread(fit: bayeslaw.Fit, tree: xr.DataTree) -> None:
    with fit.model:
        made = pm.sample_posterior_predictive(fit.to_datatree(["posterior"]), random_seed=1, progressbar=False)
    pymc, own = (t["posterior_predictive"]["log_loss"] for t in (made, tree))
    assert pymc.dims == own.dims == ("chain", "draw", "row")
    sample = ("chain", "draw")
    # 3,000 draws of 150 rows in 30 runs: the mean sd has a Monte Carlo error below half a percent
    assert float(pymc.std(sample).mean()) == pytest.approx(float(own.std(sample).mean()), rel=0.02)
    np.testing.assert_allclose(pymc.mean(sample), own.mean(sample), atol=6 * float(own.std(sample).max()) / np.sqrt(3_000))


def test_the_models_graph(fit: bayeslaw.Fit) -> None:
    assert "A_level" in pm.model_to_graphviz(fit.model).source


def test_student_run_effects_are_variables_and_condition_what_is_replicated() -> None:
    law = bayeslaw.load_law("chinchilla")
    how: dict[str, Any] = {"draws": 1000, "chains": 2, "seed": 1, "progress": False, "discrepancy": "none"}
    fit = bayeslaw.fit(law, oracles.table(law, runs=8), noise="student", **how)
    tree = fit.to_datatree(per="row")
    assert tree["posterior"]["run_effect"].dims == ("chain", "draw", "run")
    np.testing.assert_allclose(tree["posterior"]["dof"] - tree["posterior"]["dof_above_2"], 2.0)
    given = fit.to_datatree(["posterior", "observed_data"])
    with fit.model:
        likelihood = pm.compute_log_likelihood(given, progressbar=False)["log_likelihood"]["log_loss"]
        made = pm.sample_posterior_predictive(given, random_seed=1, progressbar=False)["posterior_predictive"]["log_loss"]
    np.testing.assert_allclose(likelihood, tree["log_likelihood"]["log_loss"], rtol=1e-8)
    # A fit keeps effects as they are added to log losses; the model's are in units of sigma_run.
    effect = values_of(fit.tree, "posterior", "run_effect").reshape(-1, fit.observed.runs)[:, fit.observed.run]
    draws, mean = fit.draws, np.log(law.predict(fit.draws, fit.observed.covariates))
    density = stats.t.logpdf(fit.observed.response, draws["dof"][:, None], mean + effect, draws["sigma_point"][:, None])
    np.testing.assert_allclose(np.asarray(likelihood).reshape(density.shape), density, rtol=1e-6)
    own, sample = tree["posterior_predictive"]["log_loss"], ("chain", "draw")
    assert float(made.std(sample).mean()) == pytest.approx(float(own.std(sample).mean()), rel=0.02)
    np.testing.assert_allclose(made.mean(sample), own.mean(sample), atol=6 * float(own.std(sample).max()) / np.sqrt(2_000))


def test_pooled_values_have_the_columns_dimension(tmp_path: Path) -> None:
    table = two_domains()
    made = bayeslaw.fit("chinchilla", table, by=BY, draws=500, chains=2, seed=1, progress=False)
    fit = _stored(made, tmp_path)
    tree = fit.to_datatree()
    for group in ("posterior", "prior"):
        values = tree[group]["E_by_domain"]
        assert values.dims[-1] == "domain"
        assert list(map(str, np.asarray(values["domain"]))) == ["web", "code (py)"]
    np.testing.assert_array_equal(np.ravel(tree["posterior"]["E_by_domain"].sel(domain="web")), fit.draws["E_web"])
    assert [v.name for v in fit.model.free_RVs][:3] == ["E", "E_spread", "E_by_domain"]
    with fit.model:
        drawn = pm.sample_posterior_predictive(tree, random_seed=1, progressbar=False)["posterior_predictive"]["log_loss"]
    own, sample = fit.to_datatree(["posterior_predictive"])["posterior_predictive"]["log_loss"], ("chain", "draw")
    assert float(drawn.std(sample).mean()) == pytest.approx(float(own.std(sample).mean()), rel=0.02)
    assert "E_by_domain[web]" in az.summary(tree, round_to="none").index


def test_groups_are_made_where_they_are_asked_for(small_fit: bayeslaw.Fit) -> None:
    assert [*small_fit.to_datatree(["log_prior", "prior"]).children] == ["log_prior", "prior"]
    same = [small_fit.to_datatree(["prior", "posterior_predictive"], seed=3) for _ in range(2)]
    assert same[0].equals(same[1])
    with fails("unknown-group"):
        small_fit.to_datatree(["posteriors"])  # type: ignore[list-item]
    with fails("not-a-list", "3", "log_likelihood"):
        small_fit.to_datatree(groups=3)  # type: ignore[arg-type]
    with fails("unknown-unit"):
        small_fit.to_datatree(per="rows")  # type: ignore[arg-type]
