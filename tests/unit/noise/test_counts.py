"""Shares of counted items: density, gradient, integral over run effects and draws, against SciPy, PyTensor and brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.compile.maker import function
from pytensor.compile.mode import Mode
from pytensor.gradient import grad
from scipy import stats
from scipy.special import expit, gammaln, logit

from bayeslaw.noise import counts
from tests.oracles import Array, central

PLAIN = Mode(linker="py", optimizer="None")
ITEMS = np.array([1.0, 10.0, 100.0, 500.0, 3000.0, 20_000.0, 500.0, 500.0])
SHARES = np.array([1.0, 0.3, 0.25, 0.9, 0.004, 0.5, 0.0, 1.0])
EXPECTED = np.array([0.6, 0.25, 0.3, 0.85, 0.01, 0.48, 0.02, 0.99])


@pytest.mark.parametrize("spread", [0.003, 0.03, 0.3])
def test_the_log_probability_is_scipys_less_the_binomial_coefficient(spread: float) -> None:
    phi, k = 1 / (spread**2 + 1e-6), np.round(SHARES * ITEMS)
    coefficient = gammaln(ITEMS + 1) - gammaln(k + 1) - gammaln(ITEMS - k + 1)
    expected = stats.betabinom(ITEMS, EXPECTED * phi, (1 - EXPECTED) * phi).logpmf(k) - coefficient
    got = counts.log_probability(SHARES, EXPECTED[None], ITEMS, np.array([[spread]]))
    np.testing.assert_allclose(got, expected[None], rtol=1e-7, atol=1e-6)  # differences of log Gamma at 1e5 lose some digits


def test_without_a_spread_it_is_binomial() -> None:
    got = counts.log_probability(SHARES, EXPECTED[None], ITEMS, np.array([[1e-4]]))[0]
    few = ITEMS <= 500
    expected = SHARES * ITEMS * np.log(EXPECTED) + (1 - SHARES) * ITEMS * np.log1p(-EXPECTED)
    np.testing.assert_allclose(got[few], expected[few], rtol=1e-3)


def compiled(eta: Array, spread: Array) -> tuple[float, Array, Array]:
    logp, d_eta, d_spread = np.empty(1), np.empty(eta.size), np.empty(eta.size)
    counts.filled(eta, spread, SHARES, ITEMS, logp, d_eta, d_spread)
    return float(logp[0]), d_eta, d_spread


def test_rows_of_several_spreads_do_not_take_each_others_sums() -> None:
    """What rows share is kept by spread and items: rows of 400 different pairs, each twice, have the densities they have alone."""
    rng = np.random.default_rng(3)
    order = rng.permutation(np.repeat(np.arange(400), 2))
    spread, items = rng.uniform(0.001, 0.5, 400)[order], rng.integers(10, 4000, 400).astype(np.float64)[order]
    expected, share = rng.uniform(0.1, 0.9, order.size), np.round(rng.uniform(0, 1, order.size) * items) / items
    logp, slopes = np.empty(1), np.empty((2, order.size))
    counts.filled(logit(expected), spread, share, items, logp, *slopes)
    assert logp[0] == pytest.approx(counts.log_probability(share, expected[None], items, spread[None]).sum(), rel=1e-9)
    for i in range(0, order.size, 97):
        one, alone = slice(i, i + 1), np.empty((3, 1))
        counts.filled(logit(expected[one]), spread[one], share[one], items[one], *alone)
        np.testing.assert_allclose(slopes[:, i], alone[1:, 0], rtol=1e-12)


@pytest.mark.parametrize("spread", [0.003, 0.03, 0.3, 2.0])
def test_what_is_compiled_has_the_log_probability_and_its_gradient(spread: float) -> None:
    eta, spreads = logit(EXPECTED), np.full(EXPECTED.size, spread)
    value, d_eta, d_spread = compiled(eta, spreads)
    rows = counts.log_probability(SHARES, EXPECTED[None], ITEMS, np.array([[spread]]))
    assert value == pytest.approx(rows.sum(), rel=1e-7)
    slopes = central(lambda x: compiled(x, spreads)[0], eta, 1e-4)
    np.testing.assert_allclose(d_eta, slopes, rtol=1e-5, atol=1e-5 * np.abs(slopes).max())
    slopes = np.exp(-np.log(spreads)) * central(lambda x: compiled(eta, np.exp(x))[0], np.log(spreads), 1e-4)
    np.testing.assert_allclose(d_spread, slopes, rtol=1e-5, atol=1e-5 * np.abs(slopes).max())


def test_what_is_compiled_is_the_graph_of_log_gamma() -> None:
    eta, spread = pt.dvector("eta"), pt.dvector("spread")
    p, phi, k = pt.sigmoid(eta), 1 / (spread**2 + 1e-6), SHARES * ITEMS
    a, b = p * phi, (1 - p) * phi
    terms = (
        pt.gammaln(k + a) + pt.gammaln(ITEMS - k + b) - pt.gammaln(ITEMS + phi) - pt.gammaln(a) - pt.gammaln(b) + pt.gammaln(phi)
    )
    logp = pt.sum(terms)
    slopes_by: Any = grad(logp, [eta, spread])
    graph: Any = function([eta, spread], [logp, *slopes_by], mode=PLAIN)
    at = logit(EXPECTED), np.linspace(0.02, 0.4, EXPECTED.size)
    of_graph: list[Array] = graph(*at)
    for got, expected in zip(compiled(*at), of_graph, strict=True):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-7, atol=1e-7)


def test_the_gradient_is_zero_where_an_expectation_is_kept_from_its_bound() -> None:
    eta = logit(EXPECTED)
    eta[[0, 1]] = 40.0, -40.0
    value, d_eta, _ = compiled(eta, np.full(eta.size, 0.1))
    assert np.isfinite(value)
    assert d_eta[:2].tolist() == [0.0, 0.0]


def brute_force(share: Array, expected: Array, items: Array, spread: float, tau: float) -> float:
    """Integral over a run's effect by the trapezoidal rule on a fine grid."""
    effect = np.linspace(-12 * tau, 12 * tau, 8_001)  # four of its steps or more to the narrowest sd
    shifted = expit(logit(expected)[None, :] + effect[:, None])
    log = counts.log_probability(share, shifted, items, np.array([[spread]])).sum(axis=1) + stats.norm(0, tau).logpdf(effect)
    return float(log.max() + np.log(np.exp(log - log.max()).sum() * (effect[1] - effect[0])))


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("items", [20.0, 500.0, 5000.0])
def test_the_integral_over_run_effects_is_that_of_brute_force(tau: float, items: float, rng: np.random.Generator) -> None:
    """Runs of one, two and five rows, with effects of up to three of their scales, answer easy and hard questions."""
    run = np.repeat([0, 1, 2], [1, 2, 5])
    for middle in (0.03, 0.3, 0.96):
        expected = expit(logit(middle) + 0.3 * rng.standard_normal(run.size))
        for times in (-3.0, 0.5, 3.0):
            for spread in (0.005, 0.05, 0.2):
                answered = rng.binomial(int(items), expit(logit(expected) + times * tau)) / items
                everywhere = np.full(run.size, items)
                scale, shared = np.array([[spread]]), np.full((1, 3), tau)
                got = counts.of_runs(answered, expected[None], everywhere, scale, run, shared)[0]
                wanted = [brute_force(answered[run == r], expected[run == r], everywhere[run == r], spread, tau) for r in range(3)]
                np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-3)


def test_runs_without_effects_are_sums_of_rows() -> None:
    rows = counts.log_probability(SHARES, EXPECTED[None], ITEMS, np.array([[0.1]]))
    got = counts.of_runs(SHARES, EXPECTED[None], ITEMS, np.array([[0.1]]), np.repeat([0, 1], 4), None)
    np.testing.assert_allclose(got, [[rows[0, :4].sum(), rows[0, 4:].sum()]])


@pytest.mark.parametrize(("p", "items", "spread"), [(0.25, 500, 0.05), (0.9, 2000, 0.3), (0.02, 50, 0.003)])
def test_draws_have_the_mean_and_the_variance_of_the_beta_binomial(
    p: float, items: int, spread: float, rng: np.random.Generator
) -> None:
    size = 40_000
    drawn = counts.sample(np.full(size, p), items, np.full(size, spread), rng)
    phi = 1 / (spread**2 + 1e-6)
    variance = p * (1 - p) * (1 / items + (1 - 1 / items) / (1 + phi))
    assert abs(drawn.mean() - p) < 4 * np.sqrt(variance / size)
    fourth = np.mean((drawn - p) ** 4)
    assert abs(drawn.var() - variance) < 4 * np.sqrt((fourth - variance**2) / size)
    assert np.allclose(drawn * items, np.round(drawn * items))


@pytest.mark.parametrize("items", [999.6, 2.6, 0.4])
def test_shares_of_a_number_of_items_that_is_not_whole_are_not_above_1(items: float, rng: np.random.Generator) -> None:
    """They were counts of the nearest whole number over the number itself."""
    drawn = counts.sample(np.full(100, 1 - 1e-9), items, np.full(100, 0.01), rng)
    np.testing.assert_array_equal(drawn, 1.0)
