"""A noise given as a function: sampled, drawn from, scored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.tensor.special import logaddexp
from scipy import stats

import bayeslaw
from bayeslaw.engine.density import Density
from bayeslaw.laws.card import load_law
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.model import pymc_model
from bayeslaw.noise.noise import Noise
from tests import oracles
from tests.errors import fails
from tests.outcomes import outcome_fit

CONSTANT = 0.5 * np.log(2 * np.pi)
TRUTH = {"sigma_point": 0.003, "sigma_wide": 0.06, "share": 0.15}


def normal(error: Any, sigma: Any) -> Any:
    return -0.5 * (error / sigma) ** 2 - pt.log(sigma) - CONSTANT


def two_components(
    error: Any,
    sigma_point: Any = "LogNormal(-5.3, 1.5)",
    sigma_wide: Any = "HalfNormal(0.1)",
    share: Any = "Beta(1, 9)",
) -> Any:
    return logaddexp(pt.log1p(-share) + normal(error, sigma_point), pt.log(share) + normal(error, sigma_wide))


def with_known(error: Any, known: Any, sigma_point: Any = "LogNormal(-5.3, 1.5)") -> Any:
    return normal(error, pt.sqrt(sigma_point**2 + known))


def density(error: oracles.Array) -> oracles.Array:
    """Of the mixture at the truth, by SciPy."""
    narrow, wide = (stats.norm(0, TRUTH[n]).pdf(error) for n in ("sigma_point", "sigma_wide"))
    mixed: oracles.Array = (1 - TRUTH["share"]) * narrow + TRUTH["share"] * wide
    return mixed


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """240 losses of chinchilla, of which 15% are far off."""
    rng = np.random.default_rng(1)  # 30 wide errors with a standard deviation of .0595; seed 0 has one of .039
    at = {"E": 1.8, "A": 480.0, "alpha": 0.35, "B": 2080.0, "beta": 0.37}
    rows = pd.DataFrame({"N": np.exp(rng.uniform(16, 22, 240)), "D": np.exp(rng.uniform(20, 25, 240))})
    sigma = np.where(rng.uniform(size=240) < TRUTH["share"], TRUTH["sigma_wide"], TRUTH["sigma_point"])
    columns = {name: rows[name].to_numpy(np.float64) for name in ("N", "D")}
    return rows.assign(loss=oracles.chinchilla(at, columns) * np.exp(sigma * rng.standard_normal(240)))


@pytest.fixture(scope="module")
def fit(table: pd.DataFrame) -> bayeslaw.Fit:
    return bayeslaw.fit("chinchilla", table, noise=two_components, seed=1, progress=False)


@pytest.mark.statistical
def test_a_mixture_is_recovered_and_narrower_than_normal_noise(fit: bayeslaw.Fit, table: pd.DataFrame) -> None:
    assert fit.passed
    for name, value in (TRUTH | {"E": 1.8}).items():
        low, high = np.quantile(fit.draws[name], [0.005, 0.995])
        assert low < value < high, name
    plain = bayeslaw.fit("chinchilla", table, noise="normal-no-run", seed=1, progress=False, discrepancy="none")
    assert fit.draws["E"].std() < 0.5 * plain.draws["E"].std()
    compiled = fit.model.compile_logp(mode=Mode(linker="py", optimizer="None"))
    assert np.isfinite(compiled(fit.model.initial_point()))


@pytest.mark.statistical
def test_forecasts_of_runs_have_the_mixtures_spread(fit: bayeslaw.Fit) -> None:
    at = pd.DataFrame({"N": np.full(60, 1e8), "D": np.full(60, 1e10)})
    made = bayeslaw.forecast(fit, at)
    of_run = np.log(made.draws["run"].values) - np.log(made.draws["latent"].values)
    expected = np.mean((1 - fit.draws["share"]) * fit.draws["sigma_point"] ** 2 + fit.draws["share"] * fit.draws["sigma_wide"] ** 2)
    assert of_run.var() == pytest.approx(expected, rel=0.05)


@pytest.mark.statistical
def test_a_fit_with_a_noise_of_ones_own_is_not_written(fit: bayeslaw.Fit, tmp_path: Path) -> None:
    with fails("noise-is-code"):
        fit.save(tmp_path / "fit.nc")
    assert not list(tmp_path.iterdir())


def of_truth(size: int) -> dict[str, oracles.Array]:
    return {name: np.full(size, value) for name, value in TRUTH.items()}


def test_draws_log_likelihoods_and_variances_are_those_of_the_density() -> None:
    observed = oracles.nested(np.array([0, 0, 1]))
    noise = Noise.choose(two_components, observed)
    assert isinstance(noise, PointNoise)
    errors = np.array([[0.001, -0.1, 0.01]])
    expected = np.log(density(errors[0]))
    np.testing.assert_allclose(noise.log_likelihood(errors, observed, of_truth(1)), [[expected[:2].sum(), expected[2]]])
    variance = (1 - TRUTH["share"]) * TRUTH["sigma_point"] ** 2 + TRUTH["share"] * TRUTH["sigma_wide"] ** 2
    assert noise.variances(of_truth(3))[0] == pytest.approx(variance, rel=2e-3)
    code = np.arange(50)
    drawn = noise.sample(of_truth(400), code, code, (1, 2)).ravel()
    assert stats.kstest(drawn, lambda x: (1 - 0.15) * stats.norm.cdf(x, 0, 0.003) + 0.15 * stats.norm.cdf(x, 0, 0.06)).pvalue > 1e-3
    np.testing.assert_array_equal(noise.sample(of_truth(400), code[3:5], code[3:5], (1, 2)).ravel(), drawn[1200:2000])


def test_a_normal_density_is_tabulated_without_a_loop_of_python_for_each_number() -> None:
    """PyTensor's `second` gave parameters the shape of errors; it has no loop in C, and forecasts took four times as long."""
    noise = Noise.choose(with_known, oracles.nested(np.array([0, 1, 2])))
    assert isinstance(noise, PointNoise)
    compiled: Any = noise._compiled
    scalars = [node.op.scalar_op for node in compiled.maker.fgraph.toposort() if hasattr(node.op, "scalar_op")]
    assert scalars
    assert all(op.nfunc_spec for op in scalars)


def heavy(error: Any, sigma: Any = "LogNormal(-5, 1)", dof: Any = "LogNormal(0, 0.1)") -> Any:
    return -pt.log(sigma) - 0.5 * (dof + 1) * pt.log1p((error / sigma) ** 2 / dof)


def test_a_parameter_that_shares_its_name_with_one_of_another_noise_has_the_prior_that_is_stated() -> None:
    """The prior of the degrees of freedom of Student-t noise is of what they exceed 2 by, and that of a function's is not."""
    law = load_law("chinchilla")
    observed = oracles.observations(law)
    noise = Noise.choose(heavy, observed)
    density = Density.of(law, observed, noise)
    assert density.draws(np.zeros((1, density.size)))["dof"].item() == 1.0
    assert {"sigma", "dof"} <= {variable.name for variable in pymc_model(law, observed, noise).free_RVs}


def test_known_errors_reach_a_noise_that_takes_them() -> None:
    se = np.array([0.0, 0.02, 0.04])
    observed = oracles.nested(np.array([0, 1, 2]), se=se)
    with fails("noise-without-known-errors"):
        Noise.choose(two_components, observed)
    without = Noise.choose(two_components, oracles.nested(np.array([0, 1, 2])))
    draws = {name: np.full(4, float(np.median(without.prior(name).scipy.median()))) for name in without.parameters}
    assert without.sample(draws, np.arange(3), np.arange(3), (1,), known=np.zeros(3)).shape == (3, 4)
    with fails("noise-without-known-errors", "loss_se", "`known`"):  # of the rows that are scored
        without.sample(draws, np.arange(3), np.arange(3), (1,), known=se)
    with fails("noise-without-known-errors"):
        without.row_log_likelihood(np.full((1, 3), 0.01), observed, draws)
    noise = Noise.choose(with_known, observed)
    value = noise.log_likelihood(np.full((1, 3), 0.01), observed, {"sigma_point": np.array([0.005])})
    np.testing.assert_allclose(value[0], stats.norm(0, np.hypot(0.005, se)).logpdf(0.01))
    drawn = noise.sample({"sigma_point": np.full(2_000, 0.005)}, np.arange(3), np.arange(3), (1,), known=se)
    np.testing.assert_allclose(drawn.std(axis=1), np.hypot(0.005, se), rtol=0.08)


def test_a_parameter_that_the_law_has_too_is_refused(table: pd.DataFrame) -> None:
    with fails("name-used-twice"):
        bayeslaw.fit("chinchilla", table, noise=lambda error, alpha="HalfNormal(0.1)": normal(error, alpha), progress=False)


@pytest.mark.parametrize("noise", [lambda error: -(error**2), lambda error, sigma: -((error / sigma) ** 2)])
def test_a_function_without_priors_is_refused(noise: Any) -> None:
    with fails("noise-without-prior"):
        Noise.choose(noise, oracles.nested(np.array([0, 1, 2])))


@pytest.mark.parametrize("noise", [
    lambda error, s="LogNormal(0, 1)": -(error**2).sum() / s, lambda error, s="LogNormal(0, 1)": None, lambda: 0.0,
])  # fmt: skip
def test_a_function_that_is_no_density_of_points_is_refused(noise: Any) -> None:
    with fails("noise-without-prior" if not noise.__code__.co_argcount else "noise-without-density"):
        Noise.choose(noise, oracles.nested(np.array([0, 1, 2])))


def test_a_function_whose_arguments_can_not_be_used_is_refused_before_it_is_sampled() -> None:
    """Draws of `chain` ended in an error of xarray after the sampling, and functions in C in one of Python."""
    observed = oracles.nested(np.array([0, 1, 2]))
    with fails("name-used-twice", "'chain'"):
        Noise.choose(lambda error, chain="LogNormal(-5, 1)": normal(error, chain), observed)
    with fails("noise-without-prior", "max"):
        Noise.choose(max, observed)


def test_functions_that_can_not_be_compiled_are_named_with_those_that_can() -> None:
    law = load_law("chinchilla")
    observed = oracles.observations(law)

    def with_gamma(error: Any, sigma: Any = "LogNormal(-5, 1)") -> Any:
        return -pt.log(sigma) - (error / sigma) ** 2 - pt.gammainc(2.0, sigma)

    with fails("unknown-operation", "GammaInc", "pt.gammaln"):
        Density.of(law, observed, Noise.choose(with_gamma, observed)).function()


def test_rows_whose_noise_no_function_describes_are_refused() -> None:
    fit = outcome_fit("count")
    with fails("noise-of-counts", "beta-binomial"):
        Noise.choose(two_components, fit.observed)
    with fails("noise-by-of-a-function", "lab"):
        grouped = replace(oracles.nested(np.array([0, 1, 2])), group_names=("a", "b"), group_column="lab")
        Noise.choose(two_components, grouped)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 2000.0])
def test_errors_have_the_scale_of_the_outcome(scale: float) -> None:
    """They were drawn from sizes up to 3, whatever the unit of the outcome."""
    observed = oracles.nested(np.array([0, 1, 2]))
    observed = replace(observed, outcome=replace(observed.outcome, kind="real", scale=scale))
    noise = Noise.choose(with_scale, observed)
    drawn = noise.sample({"sigma_point": np.full(4000, 0.1 * scale)}, np.arange(3), np.arange(3), (1,))
    np.testing.assert_allclose(drawn.std(axis=1), 0.1 * scale, rtol=0.05)  # 4.5 standard errors of 4,000 draws
    for size in (10.0, 1e-8):
        with fails("noise-off-its-grid", "larger" if size > 1 else "smaller"):
            noise.sample({"sigma_point": np.full(10, size * scale)}, np.arange(3), np.arange(3), (1,))


def with_scale(error: Any, sigma_point: Any = "HalfNormal(1)") -> Any:
    return normal(error, sigma_point)


@pytest.mark.parametrize("noise", [
    lambda error, N="HalfNormal(0.1)": normal(error, N), lambda error, A_level="HalfNormal(0.1)": normal(error, A_level),
])  # fmt: skip
def test_a_name_that_the_law_has_too_is_refused(table: pd.DataFrame, noise: Any) -> None:
    with fails("name-used-twice", "chinchilla both have a name"):
        bayeslaw.fit("chinchilla", table, noise=noise, progress=False)
