"""Draws weighted by a run's losses, compared with normal distributions that are conditioned in closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import multivariate_normal, norm

from bayeslaw.dynamics.condition import ALARM, LEAST, Scales, condition, left_band, smoothed, tempered
from tests.oracles import Array
from tests.values import present

POINT, RUN, LENGTH = 0.01, 0.02, 0.5
TIME = np.array([0.1, 0.2, 0.35, 0.4])
AHEAD = np.array([0.4, 1.0])
LOGGED = np.array([0.03, 0.01, 0.025, 0.02])


def kernel(a: Array, b: Array) -> Array:
    return np.asarray(RUN**2 * np.exp(-np.abs(a[:, None] - b[None]) / LENGTH))


def scales(size: int) -> Scales:
    return Scales(np.full(size, POINT), np.full(size, RUN), np.full(size, LENGTH))


def levels(size: int = 20_000, spread: float = 0.02) -> Array:
    """Draws of a law whose log loss is one level."""
    return spread * np.random.default_rng(0).standard_normal(size)


@pytest.mark.slow
@pytest.mark.parametrize("errors", [np.zeros(4), np.array([0.0, 0.04, 0.01, 0.03])], ids=["exact losses", "known errors"])
def test_level_effect_and_what_was_stated_are_those_of_the_joint_normal_distribution(errors: Array) -> None:
    """Known errors of losses add to the noise of points; what was stated of a loss is its distribution given the earlier ones."""
    level, new = levels(), np.ones(TIME.size, dtype=bool)
    known = condition(LOGGED - level[:, None], TIME, new, scales(level.size), AHEAD, np.random.default_rng(1), errors**2)
    whole = kernel(TIME, TIME) + np.diag(POINT**2 + errors**2) + 0.02**2
    mean = 0.02**2 * np.linalg.solve(whole, LOGGED).sum()
    sd = math.sqrt(0.02**2 - 0.02**4 * np.linalg.inv(whole).sum())
    assert known.reliable
    assert level[known.chosen].mean() == pytest.approx(mean, abs=0.05 * sd)
    assert level[known.chosen].std() == pytest.approx(sd, rel=0.05)
    total = level[known.chosen, None] + known.effect  # the run's own log loss
    cross = kernel(AHEAD, TIME) + 0.02**2
    np.testing.assert_allclose(total.mean(axis=0), cross @ np.linalg.solve(whole, LOGGED), atol=6e-4)
    covariance = kernel(AHEAD, AHEAD) + 0.02**2 - cross @ np.linalg.solve(whole, cross.T)
    np.testing.assert_allclose(np.cov(total.T), covariance, rtol=0.08)
    for i in range(TIME.size):
        earlier = np.linalg.solve(whole[:i, :i], whole[:i, i]) if i else np.empty(0)
        mean, variance = earlier @ LOGGED[:i], whole[i, i] - earlier @ whole[:i, i]
        assert known.pit[i] == pytest.approx(norm.cdf(LOGGED[i], mean, math.sqrt(variance)), abs=0.01)


@pytest.mark.slow
def test_effects_are_by_the_scales_of_each_chosen_draw() -> None:
    size, errors = 8_000, np.array([0.0, 0.02, 0.01, 0.0])
    rng, level = np.random.default_rng(2), levels(8_000)
    point, run, length = (rng.choice(values, size) for values in ([0.005, 0.03], [0.01, 0.05], [0.2, 2.0]))
    all_new = np.ones(TIME.size, dtype=bool)
    found = condition(LOGGED - level[:, None], TIME, all_new, Scales(point, run, length), AHEAD, rng, errors**2)
    z = []
    for draw, effect in zip(found.chosen, found.effect, strict=True):
        near = run[draw] ** 2 * np.exp(-np.abs(TIME[:, None] - TIME) / length[draw]) + np.diag(point[draw] ** 2 + errors**2)
        ahead = run[draw] ** 2 * np.exp(-np.abs(TIME - AHEAD[1]) / length[draw])
        gain = np.linalg.solve(near, ahead)
        z.append((effect[1] - gain @ (LOGGED - level[draw])) / math.sqrt(run[draw] ** 2 - gain @ ahead))
    assert abs(np.mean(z)) < 4 / math.sqrt(size)
    assert np.var(z) == pytest.approx(1, abs=4 * math.sqrt(2 / size))
    assert (found.good_k, found.power) == (0.7, 1.0)
    few = condition(LOGGED - level[:200, None], TIME, all_new, scales(200), AHEAD, rng)
    assert few.good_k == pytest.approx(1 - 1 / math.log10(200))
    assert not replace(found, pareto_k=0.0, power=0.9).reliable
    assert not replace(found, pareto_k=0.71).reliable


def test_draws_weigh_by_the_density_of_the_run_under_their_own_scales() -> None:
    size, residual = 4_000, np.array([0.01, -0.012, 0.008, -0.009])
    point = np.random.default_rng(3).permutation(np.repeat([0.01, 0.02], size // 2))
    by_draw = Scales(point, np.full(size, RUN), np.full(size, LENGTH))
    found = condition(np.tile(residual, (size, 1)), TIME, np.ones(4, dtype=bool), by_draw, AHEAD, np.random.default_rng(1))
    narrow, wide = (multivariate_normal.pdf(residual, cov=kernel(TIME, TIME) + sd**2 * np.eye(4)) for sd in (0.01, 0.02))
    assert (point[found.chosen] == 0.01).mean() == pytest.approx(narrow / (narrow + wide), abs=0.02)  # 2.5 of its sd
    assert abs(narrow / (narrow + wide) - 0.5) > 0.1


@pytest.mark.slow
def test_rows_that_the_draws_know_do_not_weigh_them_again_and_still_tell_the_effect() -> None:
    level = levels(2_000)
    none = condition(LOGGED - level[:, None], TIME, np.zeros(4, dtype=bool), scales(2_000), AHEAD, np.random.default_rng(1))
    assert none.chosen.tolist() == list(range(2_000))
    assert none.pit.size == 0
    last = condition(
        LOGGED - level[:, None], TIME, np.array([False, False, False, True]), scales(2_000), AHEAD, np.random.default_rng(1)
    )
    covariance = kernel(TIME, TIME) + POINT**2 * np.eye(4)
    weights = np.array(
        [
            multivariate_normal.logpdf(LOGGED - v, cov=covariance)
            - multivariate_normal.logpdf(LOGGED[:3] - v, cov=covariance[:3, :3])
            for v in level
        ]
    )
    weights = np.exp(weights - weights.max())
    assert level[last.chosen].mean() == pytest.approx((weights * level).sum() / weights.sum(), abs=5e-4)


def test_a_run_far_from_the_fit_weighs_by_the_power_of_its_likelihood_that_leaves_draws_enough() -> None:
    level, logged, covariance = levels(2_000), np.array([0.3, 0.27, 0.24, 0.24]), kernel(TIME, TIME) + POINT**2 * np.eye(TIME.size)
    found = condition(logged - level[:, None], TIME, np.ones(4, dtype=bool), scales(2_000), AHEAD, np.random.default_rng(1))
    weights, power = np.ones(level.size), 1.0
    for i in range(TIME.size):
        given = np.linalg.solve(covariance[:i, :i], covariance[:i, i]) if i else np.empty(0)
        mean, variance = level + (logged[:i] - level[:, None]) @ given, covariance[i, i] - given @ covariance[:i, i]
        stated = (weights * norm.cdf(logged[i], mean, math.sqrt(variance))).sum() / weights.sum()
        assert found.pit[i] == pytest.approx(stated, abs=1e-3)
        rows = slice(0, i + 1)
        log = multivariate_normal.logpdf(logged[rows] - level[:, None], cov=covariance[rows, rows])

        def weighted(power: float, log: Array = log) -> Array:
            return np.asarray(np.exp(power * (log - log.max())))

        power = brentq(lambda p: weighted(p).sum() ** 2 / (weighted(p) ** 2).sum() - LEAST, 0, 1)
        weights = weighted(power)
    assert found.power == pytest.approx(power, abs=2**-12)
    assert level[found.chosen].mean() == pytest.approx((weights * level).sum() / weights.sum(), abs=0.1 * level.std())
    assert not found.reliable


def test_weights_without_a_tail_to_smooth_stay_and_are_not_reliable() -> None:
    chosen, k = smoothed(np.r_[np.full(1999, -800.0), 0.0])
    assert k == np.inf
    assert set(chosen) == {1999}


def test_powers_leave_draws_effective() -> None:
    likelihood = np.random.default_rng(0).standard_normal((1_000, 3)) * np.array([0.1, 10.0, 1000.0])
    power = tempered(likelihood)
    assert power[0] == 1.0
    weights = np.exp(power * (likelihood - likelihood.max(axis=0)))
    effective = weights.sum(axis=0) ** 2 / (weights**2).sum(axis=0)
    assert np.all(effective >= 0.99 * LEAST)
    assert effective[1] == pytest.approx(LEAST, rel=0.1)


@pytest.mark.slow
def test_few_runs_that_keep_to_their_band_are_said_to_leave_it() -> None:
    rng = np.random.default_rng(0)
    alarms = np.mean([left_band(rng.uniform(size=200)) is not None for _ in range(2_000)])
    assert 0.01 < alarms < ALARM  # which bounds it for runs of any length


def test_a_run_leaves_its_band_when_the_evidence_for_any_later_share_outside_is_twenty_to_one() -> None:
    """Summed over the rows from which it may hold, and averaged over three shares."""

    def brute_force(pit: Array) -> int | None:
        outside = np.where((pit < 0.05) | (pit > 0.95), 1, 0)
        weights = [1 / math.log2(i + 1) - 1 / math.log2(i + 2) for i in range(1, pit.size + 1)]
        for n in range(1, pit.size + 1):
            total = 1 - sum(weights[:n])
            for start in range(n):
                out, rows = outside[start:n].sum(), n - start
                ratios = [(rate / 0.1) ** out * ((1 - rate) / 0.9) ** (rows - out) for rate in (0.3, 0.6, 0.9)]
                total += weights[start] * np.mean(ratios)
            if total >= 20:
                return n
        return None

    rng = np.random.default_rng(4)
    for spread in (0.05, 0.3, 0.6, 0.9):
        pit = np.append(rng.uniform(0.06, 0.94, 5), np.where(rng.uniform(size=20) < spread, 0.96, rng.uniform(0.06, 0.94, 20)))
        assert left_band(pit) == left_band(1 - pit) == brute_force(pit)


def test_a_run_that_leaves_its_band_is_found_within_a_few_losses() -> None:
    within = np.full(100, 0.4)
    assert left_band(within) is None
    assert left_band(np.append(within, 0.999)) is None  # one outlier is no departure
    gone = present(left_band(np.append(within, np.full(10, 0.99))))
    assert 104 <= gone <= 107
    assert left_band([]) is None
