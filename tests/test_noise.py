"""Noise: densities against SciPy, draws against their moments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from bayeslaw.errors import BayeslawError
from bayeslaw.kernels import digamma, normal_density, student_density
from bayeslaw.noise import CHOICES, MEANING, PRIORS, Noise
from tests.oracles import Array, central

RUN = np.array([0, 0, 0, 1, 2, 2])
STARTS = np.array([0, 3, 4, 6])
SINGLE = np.ones(6), np.zeros(3)  # every row one point
SAME = RUN[:, None] == RUN[None, :]
SIGMA, TAU, DOF = 0.02, 0.05, 3.5


@pytest.fixture
def residual(rng: np.random.Generator) -> Array:
    return 0.05 * rng.standard_normal(RUN.size)


@pytest.mark.parametrize("x", [1e-3, 0.1, 0.5, 1.0, 2.7, 6.0, 40.0, 1e4])
def test_digamma(x: float) -> None:
    assert digamma(x) == pytest.approx(float(special.digamma(x)), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("tau", [TAU, 0.0])
def test_normal_density_is_that_of_the_block_covariance(residual: Array, tau: float) -> None:
    y, mu = residual + 1, np.linspace(0.99, 1.01, RUN.size)

    def oracle(mean: Array, v: float, t: float) -> float:
        return float(stats.multivariate_normal(mean, v * np.eye(RUN.size) + t * SAME).logpdf(y))

    d_mu = np.zeros(RUN.size)
    logp, d_v, d_t = normal_density(y, mu, STARTS, *SINGLE, SIGMA**2, tau**2, d_mu)
    assert logp == pytest.approx(oracle(mu, SIGMA**2, tau**2), rel=1e-12)
    step = 1e-3 * SIGMA**2
    assert d_v == pytest.approx(central(lambda v: oracle(mu, v[0], tau**2), np.array([SIGMA**2]), step)[0], rel=1e-7)
    assert d_t == pytest.approx(central(lambda v: oracle(mu, SIGMA**2, v[0]), np.array([tau**2]), step)[0], rel=1e-6)
    np.testing.assert_allclose(d_mu, central(lambda m: oracle(m, SIGMA**2, tau**2), mu, 1e-4), rtol=1e-7)


@pytest.mark.parametrize("tau", [TAU, 0.0])
def test_student_density_is_scipys(residual: Array, tau: float, rng: np.random.Generator) -> None:
    y, mu, effects = residual + 1, np.linspace(0.99, 1.01, RUN.size), rng.standard_normal(3)

    def oracle(mean: Array, sigma: float, dof: float, spread: float, z: Array) -> float:
        return float(stats.t(dof, mean + spread * z[RUN], sigma).logpdf(y).sum())

    d_mu, d_effects = np.zeros(RUN.size), np.zeros(3)
    logp, d_sigma, d_dof, d_tau = student_density(y, mu, STARTS, SIGMA, DOF, tau, effects, d_mu, d_effects)
    assert logp == pytest.approx(oracle(mu, SIGMA, DOF, tau, effects), rel=1e-12)
    args = np.array([SIGMA, DOF, tau])
    slopes = central(lambda v: oracle(mu, v[0], v[1], v[2], effects), args, 1e-5)
    assert (d_sigma, d_dof) == pytest.approx((slopes[0], slopes[1]), rel=1e-6)
    np.testing.assert_allclose(d_mu, central(lambda m: oracle(m, SIGMA, DOF, tau, effects), mu, 1e-5), rtol=1e-7)
    np.testing.assert_allclose(d_effects, central(lambda z: oracle(mu, SIGMA, DOF, tau, z), effects, 1e-4), rtol=1e-7, atol=1e-9)
    assert d_tau == pytest.approx(slopes[2] if tau else 0.0, rel=1e-6)


def test_derivatives_are_added_to_what_is_there(residual: Array) -> None:
    one, two = np.zeros(RUN.size), np.ones(RUN.size)
    for d_mu in (one, two):
        normal_density(residual, np.zeros(RUN.size), STARTS, *SINGLE, SIGMA**2, TAU**2, d_mu)
    np.testing.assert_allclose(two, one + 1)


def noise_draws(size: int) -> dict[str, Array]:
    return {"sigma_point": np.full(size, SIGMA), "sigma_run": np.full(size, TAU), "dof": np.full(size, DOF)}


@pytest.mark.parametrize("run_effect", [True, False])
def test_log_likelihood_of_runs_is_that_of_the_block_covariance(run_effect: bool, rng: np.random.Generator) -> None:
    draws = {"sigma_point": np.array([0.01, 0.03]), "sigma_run": np.array([0.02, 0.005])}
    residuals = 0.02 * rng.standard_normal((2, RUN.size))
    values = Noise(student=False, run_effect=run_effect).log_likelihood(residuals, RUN, draws)
    for s in range(2):
        for j in range(3):
            mine = residuals[s, j == RUN]
            shared = draws["sigma_run"][s] ** 2 if run_effect else 0.0
            covariance = draws["sigma_point"][s] ** 2 * np.eye(mine.size) + shared
            expected = stats.multivariate_normal(np.zeros(mine.size), covariance).logpdf(mine)
            assert values[s, j] == pytest.approx(expected, rel=1e-10)


def test_student_log_likelihood_is_summed_over_each_run(rng: np.random.Generator) -> None:
    residuals = 0.02 * rng.standard_normal((2, RUN.size))
    values = Noise(student=True, run_effect=True).log_likelihood(residuals, RUN, noise_draws(2))
    rows = stats.t(DOF, 0, SIGMA).logpdf(residuals)
    np.testing.assert_allclose(values, np.stack([rows[:, j == RUN].sum(axis=1) for j in range(3)], axis=1))


@pytest.mark.parametrize("student", [False, True])
@pytest.mark.parametrize("run_effect", [False, True])
def test_drawn_noise_has_its_moments(student: bool, run_effect: bool) -> None:
    size, dof = 40_000, 30.0
    drawn = Noise(student, run_effect).sample(noise_draws(size) | {"dof": np.full(size, dof)}, RUN, np.arange(RUN.size), (1, 2))
    assert drawn.shape == (RUN.size, size)
    point = SIGMA**2 * (dof / (dof - 2) if student else 1.0)
    expected = point * np.eye(RUN.size) + (TAU**2 if run_effect else 0.0) * SAME
    # standard error of a covariance: about the largest variance times sqrt(2 / size); 5 of them
    tolerance = 5 * expected.max() * math.sqrt(2 / size)
    np.testing.assert_allclose(np.cov(drawn), expected, atol=tolerance)
    np.testing.assert_allclose(drawn.mean(axis=1), 0, atol=5 * math.sqrt(expected.max() / size))


def test_drawn_noise_follows_each_draw_of_the_parameters() -> None:
    draws = {"sigma_point": np.array([1e-9, 1.0]), "sigma_run": np.array([1e-9, 1e-9])}
    drawn = Noise(student=False, run_effect=True).sample(draws, np.zeros(1000, dtype=np.int64), np.arange(1000), (0,))
    assert drawn[:, 0].std() < 1e-8
    assert drawn[:, 1].std() == pytest.approx(1.0, rel=0.1)


CHOSEN = {
    "auto": (Noise(False, True), Noise(True, False)),
    "normal": (Noise(False, True), Noise(False, False)),
    "student": (Noise(True, True), Noise(True, False)),
    "normal-no-run": (Noise(False, False), Noise(False, False)),
    "student-no-run": (Noise(True, False), Noise(True, False)),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_choices(choice: str) -> None:
    with_runs, without = CHOSEN[choice]
    assert Noise.choose(choice, RUN) == with_runs
    assert Noise.choose(choice, np.arange(5)) == without


def test_unknown_noise() -> None:
    with pytest.raises(BayeslawError) as caught:
        Noise.choose("gauss", RUN)
    assert str(caught.value) == "No noise 'gauss'; choose one of auto, normal, student, normal-no-run, student-no-run."


def test_parameters_and_words() -> None:
    assert Noise(False, True).parameters == ("sigma_point", "sigma_run")
    assert Noise(True, True).parameters == ("sigma_point", "sigma_run", "dof")
    assert Noise(True, False).parameters == ("sigma_point", "dof")
    assert [n.explicit_effects for n in (Noise(True, True), Noise(True, False), Noise(False, True))] == [True, False, False]
    assert Noise(True, False).text == "Student-t point noise without a run effect"
    assert Noise(False, True).text == "normal point noise with a run effect"
    assert set(MEANING) == set(PRIORS)


def test_priors_of_the_noise_cover_what_is_measured() -> None:
    """Points wobble by 0.1% to 2%; seeds move whole runs of tinycpt's smallest models by 0.3% to 0.5%, larger ones by less."""
    low, high = PRIORS["sigma_point"].scipy.ppf([0.025, 0.975])
    assert low < 0.0015
    assert 0.02 < high < 0.15
    low, high = PRIORS["sigma_run"].scipy.ppf([0.025, 0.975])
    assert low < 0.0005
    assert 0.005 < high < 0.01
