"""Power-scaling: log priors against SciPy, and sensitivities of posteriors with known answers."""

from __future__ import annotations

import arviz_stats as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from bayeslaw.laws.card import load_law
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.sensitivity import CONFLICT, SENSITIVE, forecast_sensitivity_check, log_priors, power_scaling
from tests import oracles
from tests.fixed import typical_fit


def test_log_priors_are_of_the_expressions_that_priors_are_on(rng: np.random.Generator) -> None:
    law, noise = load_law("chinchilla"), Noise(student=True, run_effect=True)
    at = oracles.observations(law).at
    x = {k: v * np.exp(0.1 * rng.standard_normal(5)) for k, v in oracles.typical(law).items()}
    x |= {"sigma_point": np.full(5, 0.004), "sigma_run": np.full(5, 0.002), "dof": 2 + rng.gamma(2, 5, 5)}
    expected = stats.lognorm(0.5, scale=np.exp(0.3)).logpdf(x["E"])
    expected += stats.lognorm(1.0, scale=np.exp(-0.9)).logpdf(x["A"] / at["N"] ** x["alpha"])
    expected += stats.lognorm(1.0, scale=np.exp(-0.9)).logpdf(x["B"] / at["D"] ** x["beta"])
    expected += stats.lognorm(0.4, scale=np.exp(-1.05)).logpdf(x["alpha"]) + stats.lognorm(0.5, scale=np.exp(-0.8)).logpdf(
        x["beta"]
    )
    of_noise = stats.lognorm(1.5, scale=0.005).logpdf(x["sigma_point"]) + stats.halfnorm(scale=0.003).logpdf(x["sigma_run"])
    of_noise += stats.gamma(2, scale=10).logpdf(x["dof"] - 2)
    totals = [np.sum(list(by_name.values()), axis=0) for by_name in log_priors(law, noise, x, at)]
    np.testing.assert_allclose(totals, [expected, of_noise], rtol=1e-10)


@pytest.mark.slow
def test_sensitivities_of_a_normal_mean(rng: np.random.Generator) -> None:
    """Normal data with known variance, where the effect of doubling the prior or the likelihood is known."""
    likelihood_sd, rows = 1.0, {}
    for name, prior_mean, prior_sd in (("vague", 0.0, 100.0), ("conflict", 4.0, 1.0), ("all prior", 0.0, 0.02)):
        precision = prior_sd**-2 + likelihood_sd**-2
        mean = (prior_mean / prior_sd**2 + 0.5 / likelihood_sd**2) / precision
        theta = mean + rng.standard_normal((4, 2000)) / np.sqrt(precision)
        prior = stats.norm(prior_mean, prior_sd).logpdf(theta)
        likelihood, none = stats.norm(0.5, likelihood_sd).logpdf(theta), 1e-9 * theta
        rows[name] = power_scaling({"theta": theta}, prior, none, likelihood).loc["theta"]
        rows[f"{name}, noise"] = power_scaling({"theta": theta}, none, prior, likelihood).loc["theta"]
    assert {name: row["says"] for name, row in rows.items()} == {
        "vague": "", "conflict": "possible prior-data conflict", "all prior": "weak likelihood",
        "vague, noise": "", "conflict, noise": "prior of the noise", "all prior, noise": "prior of the noise",
    }  # fmt: skip
    assert rows["vague"]["prior_sensitivity"] < 0.01 < SENSITIVE < rows["vague"]["likelihood_sensitivity"]


def test_sensitivities_are_arvizs_to_the_last_digit(rng: np.random.Generator) -> None:
    theta, other, log_density = rng.standard_normal((3, 4, 250)) * np.array([1.0, 0.1, 3.0])[:, None, None]
    posterior = xr.Dataset({name: (("chain", "draw"), values) for name, values in {"theta": theta, "other": other}.items()})
    tree = xr.DataTree.from_dict({"posterior": posterior, "log_prior": xr.Dataset({"all": (("chain", "draw"), log_density)})})
    expected = az.psense(tree, group="prior")
    found = power_scaling({"theta": theta, "other": other}, log_density, theta, other)["prior_sensitivity"]
    assert found.tolist() == [float(expected["theta"]), float(expected["other"])]
    assert power_scaling({"theta": theta}, theta, log_density, other)["noise_prior_sensitivity"]["theta"] == found["theta"]


@pytest.mark.slow
def test_what_is_the_same_in_all_draws_moves_with_nothing(rng: np.random.Generator) -> None:
    quantities, densities = {"a": np.full((4, 300), 0.25), "b": rng.standard_normal((4, 300))}, rng.standard_normal((3, 4, 300))
    both = power_scaling(quantities, *densities)
    assert list(both.loc["a"]) == [0.0, 0.0, 0.0, ""]
    assert list(both.loc["b"]) == list(power_scaling({"b": quantities["b"]}, *densities).loc["b"])


def test_the_threshold_is_a_shift_of_three_tenths_of_an_sd(rng: np.random.Generator) -> None:
    """A prior whose doubling moves a standard normal by .3."""
    theta = rng.standard_normal((4, 4000))
    still = rng.standard_normal((4, 4000))
    table = power_scaling({"theta": theta, "still": still}, 0.3 / np.log(2) * theta, 1e-9 * theta, -0.5 * theta**2)
    assert table["prior_sensitivity"]["theta"] == pytest.approx(SENSITIVE, rel=0.3)
    assert table["prior_sensitivity"]["still"] < 0.02


def test_a_forecast_that_priors_barely_decide_is_not_said_to_move_by_less_than_it_moves() -> None:
    """At 0.0512 it moves by 0.307 sd, which is printed as 0.3 like the threshold, so the threshold is that of the sensitivity."""
    table = pd.DataFrame({"prior_sensitivity": [0.0512], "says": [CONFLICT]}, index=[1])
    check = forecast_sensitivity_check(table, 1, load_law("chinchilla").outcome)
    assert "moves it by up to some 0.3 sd (sensitivity 0.0512, less than 0.05 wanted)" in check.text


def test_a_forecast_at_the_mercy_of_a_few_draws_is_not_said_to_move_by_inf_sd(rng: np.random.Generator) -> None:
    density, other = np.zeros((4, 100)), rng.standard_normal((4, 100))
    density[0, 0] = 1e6
    table = power_scaling({"1": other}, density, other, other)
    assert np.isinf(table["prior_sensitivity"].item())
    text = forecast_sensitivity_check(table, 1, load_law("chinchilla").outcome).text
    assert text.endswith("(row 1): doubling their weight moves it farther than these draws can show")


@pytest.mark.slow
def test_the_end_of_the_runs_of_a_mixture_is_a_mixture() -> None:
    fit = typical_fit("bimix")
    label = str(fit.sensitivity().index[-1])
    at = dict(part.split(" = ") for part in label.removeprefix("loss at ").split(", "))
    assert sum(float(at[share]) for share in fit.law.shares) == pytest.approx(1.0, abs=0.005)


def test_sensitivity_of_a_fit(sound_fit: Fit) -> None:
    """It uses the log densities of the fit; the loss at the far end of its runs comes last."""
    table = sound_fit.sensitivity()
    assert list(table) == ["prior_sensitivity", "noise_prior_sensitivity", "likelihood_sensitivity", "says"]
    seen = sound_fit.observed.covariates
    end = f"loss at N = {seen['N'].max():.3g}, D = {seen['D'].max():.3g}"
    assert list(table.index) == [*sound_fit.by_chain, end]
    loss = oracles.chinchilla(sound_fit.by_chain, {k: np.array(v.max()) for k, v in seen.items()})
    by_name = log_priors(sound_fit.law, sound_fit.noise, sound_fit.draws, sound_fit.observed.at)
    prior, of_noise = (np.sum(list(densities.values()), axis=0) for densities in by_name)
    likelihood = sound_fit.log_likelihood().sum("run").values
    expected = power_scaling({end: loss}, prior.reshape(loss.shape), of_noise.reshape(loss.shape), likelihood)
    for column in ("prior_sensitivity", "noise_prior_sensitivity", "likelihood_sensitivity"):
        assert table[column][end] == pytest.approx(expected[column][end], rel=1e-6)
    assert table["likelihood_sensitivity"][end] > table["prior_sensitivity"][end]
