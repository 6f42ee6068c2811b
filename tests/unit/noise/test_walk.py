"""The learnt error of a law: its kernel, its density against the dense covariance, and what is drawn of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.compile.maker import function
from pytensor.compile.mode import Mode
from pytensor.gradient import grad
from scipy import stats

from bayeslaw.data.observations import Observations
from bayeslaw.laws.card import load_law
from bayeslaw.noise.density import Rows, data_of, log_density
from bayeslaw.noise.lowrank import integrated
from bayeslaw.noise.noise import Noise
from bayeslaw.noise.walk import BEYOND, INTERACTION, OF_LOGITS, OF_LOSS, ROUGHNESS, ROW_NOISE, Axis, Walk, coefficients, powers
from bayeslaw.posterior.discrepancy import DrawnErrors
from tests.oracles import Array, central, nested
from tests.values import present

LAW = load_law("chinchilla")
RUN, CHECKPOINT = np.repeat(np.arange(5), [3, 2, 4, 1, 3]), np.array([0, 0, 1, 2, 2])
SE: Array = 0.004 * np.asarray(np.arange(RUN.size) % 3, dtype=np.float64)
PARAMETERS = {"sigma_point": 0.01, "sigma_run": 0.02, "sigma_checkpoint": 0.015, "discrepancy": 0.03}


def seen(se: Array | None = None) -> Observations:
    """Five runs of three checkpoints, which differ in N and D."""
    rng = np.random.default_rng(1)
    covariates = {"N": 1e8 * np.exp(RUN + 0.3 * rng.standard_normal(RUN.size)), "D": 1e9 * np.exp(4 * rng.random(RUN.size))}
    rows = nested(RUN, CHECKPOINT, se=se)
    return replace(rows, covariates=covariates, response=1 + 0.05 * rng.standard_normal(RUN.size))


def walk_of(observed: Observations) -> Walk:
    """The walk of chinchilla for some rows, with every third an outlier."""
    walk = present(Walk.of(LAW, observed.covariates))
    return replace(walk, multiple=np.where(np.arange(RUN.size) % 3 == 1, 4.0, 1.0))


def dense(observed: Observations, walk: Walk, point: float, run: float, checkpoint: float) -> Array:
    """Covariance of all rows without the law's error."""
    known = observed.se**2 if observed.se.size else 0.0
    whole: Array = np.diag((point**2 + known) * walk.multiple)
    whole += run**2 * (RUN[:, None] == RUN) + checkpoint**2 * (CHECKPOINT[RUN][:, None] == CHECKPOINT[RUN])
    return whole


# --- the process ------------------------------------------------------------------------------------------------------


def kernel(s: Array, t: Array) -> Array:
    """Of fractional Brownian motion, at e-folds (n, 1) from the pin."""
    power = 2 * ROUGHNESS
    return np.asarray((np.abs(s) ** power + np.abs(t.T) ** power - np.abs(s - t.T) ** power) / 2)


def test_features_give_the_kernel_at_knots_and_nearly_so_between_them() -> None:
    axis = Axis.of(-5.3)
    knots = np.concatenate([axis.inside, axis.beyond])
    features = axis.features(knots)
    np.testing.assert_allclose(features @ features.T, kernel(knots[:, None], knots[:, None]), atol=1e-9 * np.abs(knots).max())
    between = np.concatenate(
        [np.linspace(a, b, 9) for a, b in pairwise([-5.3, *np.sort(axis.inside)[1:], 0.0, 0.5, 1.0, 2.0, 4.0])]
    )
    features = axis.features(between)
    sd = np.sqrt(np.maximum((features**2).sum(axis=1), 0))
    exact = np.abs(between) ** ROUGHNESS
    assert (sd <= exact + 1e-9).all()  # values between knots are means of those at knots
    assert (np.abs(sd - exact) < 0.1).all()  # in units of the sd an e-fold from the pin
    assert not axis.features(np.zeros(1)).any()


def test_an_axis_along_which_runs_do_not_differ_has_knots_beyond_them_only() -> None:
    axis = Axis.of(0.0)
    assert axis.inside.size == 0
    np.testing.assert_allclose((axis.features(np.array([1.0, -1.0])) ** 2).sum(axis=1), 1.0)


def test_two_axes_add_their_kernels_and_share_of_the_product() -> None:
    observed = seen()
    walk = walk_of(observed)
    n, d = (np.exp(most + axis.inside[::2][:2]) for axis, most in zip(walk.axes, walk.largest, strict=True))
    at = {"N": np.repeat(n, 2), "D": np.tile(d, 2)}
    features = walk.features(at)
    x = np.log(np.stack([at["N"], at["D"]], axis=1)) - walk.largest
    of_n, of_d = (kernel(x[:, [i]], x[:, [i]]) for i in (0, 1))
    np.testing.assert_allclose(features @ features.T, of_n + of_d + INTERACTION * of_n * of_d, rtol=1e-9, atol=1e-12)
    pin = dict(zip(("N", "D"), np.exp(walk.largest)[:, None], strict=True))
    np.testing.assert_allclose(walk.features(pin), 0, atol=1e-12)


def test_combinations_hold_nearly_all_of_the_walk_at_the_runs() -> None:
    observed = seen()
    walk = walk_of(observed)
    inside = walk.features(observed.covariates)[:, walk.inside]
    np.testing.assert_allclose(walk.loadings.T @ walk.loadings, np.eye(walk.squares.size), atol=1e-12)
    components = walk.components(observed.covariates)
    np.testing.assert_allclose((components**2).sum(axis=0), walk.squares)
    assert (components**2).sum() > 0.99 * (inside**2).sum()


@pytest.mark.slow
def test_where_none_is_learnt_the_error_begins_beyond_the_runs() -> None:
    """It is 0 between the smallest and largest values, 1.25 times as large along N as along other axes, .75 times along stages."""
    law, size, extra = load_law("transfer-target"), 20_000, 0.01
    seen = {"N": np.array([1e7, 1e9]), "ptpp": np.array([10.0, 100.0]), "D": np.array([1e9, 1e9]), "r": np.array([0.1, 0.1])}
    made = present(Walk.of(law, seen))
    walk = replace(made, exact=True, beyond=(float(np.log(extra)), 0.0))
    drawn = walk.complete(np.zeros((size, 0)), np.zeros(size), (1, 2))
    at = {"N": np.array([2e7, 1e9, 1e9 * math.e, 1e9]), "ptpp": np.array([20.0, 100.0, 100.0, 100.0 * math.e])}
    sds = (walk.features(at) @ drawn).std(axis=1)
    np.testing.assert_array_equal(sds[:2], 0)
    assert (sds[2:] < 1.02 * extra * np.array([1.25, 0.75])).all()  # of a walk pinned at more than one value, sds are smaller
    assert (sds[2:] > 0.7 * extra * np.array([1.25, 0.75])).all()
    np.testing.assert_allclose([*walk.usual.values()], sds[2:], rtol=0.02)  # 4 Monte Carlo errors of an sd, .5%
    spread = replace(walk, beyond=(float(np.log(extra)), 0.3))
    drawn = spread.complete(np.zeros((size, 0)), np.zeros(size), (1, 2))
    np.testing.assert_allclose([*spread.usual.values()], (walk.features(at) @ drawn).std(axis=1)[2:], rtol=0.026)  # 4 of .65%


def test_logits_of_accuracies_err_along_a_loss_and_along_sizes_by_what_accuracies_teach() -> None:
    loss = present(Walk.of(load_law("task-sigmoid"), {"loss": np.array([2.5, 3.0, 4.0])}))
    sizes = {"N": np.array([1e8, 1e9, 1e8]), "D": np.array([1e9, 1e10, 1e10])}
    of_size, of_law = present(Walk.of(load_law("task-direct"), sizes)), present(Walk.of(LAW, sizes))
    an_e_fold = math.exp(BEYOND[1] ** 2) * loss.axes[0].pinned
    assert loss.usual == {"loss": pytest.approx(OF_LOSS * an_e_fold)}
    assert of_size.usual == {name: pytest.approx(size * OF_LOGITS / math.exp(BEYOND[0])) for name, size in of_law.usual.items()}
    nothing = np.zeros((4000, loss.squares.size))
    errors = DrawnErrors.of_walk(replace(loss, exact=True), nothing, np.zeros(4000), (3,)).at(
        {"loss": np.array([2.6, 2.5, 2.5 * math.exp(-0.5)])}
    )
    assert np.abs(errors[:2]).max() < 1e-12  # inside the runs the law counts as exact
    assert np.quantile(np.abs(errors[2]), 0.5) > 0.1


@pytest.mark.parametrize(
    ("law", "runs", "at", "way"),
    [
        ("chinchilla", [(0, 4), (2, 2), (4, 0)], [(3, 3), (4, 2), (4, 4)], [2, 2, 4]),  # more compute than any run
        ("chinchilla", [(0, 0), (2, 2), (4, 4)], [(1, 4), (4, 1)], [3, 3]),  # more tokens per parameter, and fewer
        ("transfer-target", [(0, 4), (4, 0)], [(3, 3), (4, 4)], [2, 4]),  # large sizes at stages of small ones
        ("chinchilla", [(0, 4), (4, 0), (2, 2)], [(1, 1), (2, 2), (0, 4)], [0, 0, 0]),  # barely trained models are none of those
        ("chinchilla", [(0, 0), (0, 4), (4, 0), (4, 4)], [(3, 3), (1, 4), (4, 4)], [0, 0, 0]),  # no corner is left out
    ],
)
def test_where_none_is_learnt_the_law_errs_in_corners_that_the_runs_leave_out(
    law: str, runs: list[tuple[float, float]], at: list[tuple[float, float]], way: list[float]
) -> None:
    """As if the way beyond the runs, e-folds of a product or ratio, were shared by two axes so that the error is least."""
    size, extra = 40_000, 0.01
    second, weights = ("ptpp", (1.25, 0.75)) if law == "transfer-target" else ("D", (1.0, 1.0))
    places = (1e6 * np.exp(np.array(of, dtype=np.float64)) for of in (runs, at, [(5, 2)]))
    seen, asked, beyond = ({"N": of[:, 0], second: of[:, 1]} for of in places)
    made = Walk.of(load_law(law), seen)
    assert made is not None
    walk = replace(made, exact=True, beyond=(float(np.log(extra)), 0.0))
    drawn = walk.complete(np.zeros((size, 0)), np.zeros(size), (1, 2))
    apart = Axis.of(-4.0).features(np.ones(1))[0, Axis.of(-4.0).inside.size :]  # an e-fold beyond, given 0 inside
    first = np.linspace(0, 1, 1001)
    least = np.linalg.norm(apart) * np.hypot(weights[0] * first**ROUGHNESS, weights[1] * (1 - first) ** ROUGHNESS).min()
    expected = extra * least * np.array(way) ** ROUGHNESS
    np.testing.assert_allclose((walk.features(asked) @ drawn).std(axis=1), expected, rtol=0.02, atol=1e-9)
    without = replace(walk, corners=())
    features = [each.features(beyond) * (each.weights * ~each.inside) for each in (walk, without)]
    assert (features[0] ** 2).sum() >= (features[1] ** 2).sum() > 0  # what lies beyond an axis is counted as before
    np.testing.assert_array_equal(features[0][:, : features[1].shape[1]], features[1])
    ends = [walk.features({"N": 1e6 * np.exp([first]), second: 1e6 * np.exp([3.0])}) for first in (-2.0, 0.0)]
    np.testing.assert_array_equal(
        ends[0][:, without.inside.size :], ends[1][:, without.inside.size :]
    )  # in a corner too, not twice


@pytest.mark.parametrize("exact", [True, False])
def test_where_sizes_and_tokens_are_large_together_the_mean_error_is_that_of_the_card(exact: bool) -> None:
    runs, asked, past = ([(0, 4), (2, 2), (4, 0)], [(0, 4), (4, 0), (3, 3), (4, 2), (4, 4)], [(9, 1), (9, 3), (5, 5)])
    seen, at, beyond = ({"N": 1e6 * np.exp(of[:, 0]), "D": 1e6 * np.exp(of[:, 1])} for of in map(np.array, (runs, asked, past)))
    mean = LAW.corner_error
    walk = replace(present(Walk.of(LAW, seen)), exact=exact)
    assert mean < 0
    np.testing.assert_allclose(walk.mean(at), mean * np.array([0, 0, 2, 2, 4]) ** ROUGHNESS)
    np.testing.assert_allclose(walk.mean(beyond), mean * np.array([1, 3, 4]) ** ROUGHNESS)  # what lies beyond an axis has none
    without = Walk.of(replace(LAW, corner_error=0.0), seen)
    size = 5
    learnt = np.random.default_rng(0).standard_normal((size, 0 if exact else walk.squares.size))
    scale, both = np.array([0.001, 0.003, 0.01, 0.02, 0.1]), (walk, replace(present(without), exact=exact))
    errors, others = (DrawnErrors.of_walk(each, learnt, scale, (1, 2)) for each in both)
    sizes = walk.sizes_beyond(size, np.random.default_rng((1, 2))) if exact else scale
    assert errors.sizes.tolist() == np.minimum(sizes, 0.01).tolist()
    np.testing.assert_allclose(errors.at(at) - others.at(at), np.outer(walk.mean(at), errors.sizes), atol=1e-12)
    np.testing.assert_allclose(errors.along(at) - others.along(at), walk.mean(at) * errors.sizes, atol=1e-12)
    np.testing.assert_allclose(errors.of(np.array([1, 3])).at(at), errors.at(at)[:, [1, 3]])


def test_sizes_tokens_and_stages_are_large_or_small_together() -> None:
    """Ratios of tokens and sizes only where tokens are a budget; other covariates, and one alone, have no part."""
    product, ratio = {"N x D": {"N": 1, "D": 1}}, {"D / N": {"D": 1, "N": -1}}
    expected = {"chinchilla": product | ratio, "lr-batch": product | ratio, "transfer-target": {"N x ptpp": {"N": 1, "ptpp": 1}}}
    expected |= {"parallel-scaling": {}, "bimix": {}, "repeated-epochs": product | ratio | {"D / U": {"D": 1, "U": -1}}}
    assert {name: powers(load_law(name)) for name in expected} == expected
    sparse = {"N x active": {"N": 1, "active": 1}, "N x active x D": {"N": 1, "active": 1, "D": 1}}
    assert powers(load_law("sparse-experts")) == sparse | {"D / (N x active)": {"D": 1, "N": -1, "active": -1}}


def test_the_size_of_a_mixture_of_experts_is_what_a_token_uses_of_it() -> None:
    """A dense model larger than what tokens used of any run lies beyond, though runs of many experts have more parameters."""
    law = load_law("sparse-experts")
    seen = {
        "N": np.array([1e8, 1e9, 1e9, 3e10]),
        "active": np.array([1.0, 1.0, 0.1, 0.03]),
        "D": np.array([1e10, 2e10, 2e10, 4e10]),
    }
    walk = present(Walk.of(law, seen))
    at = {"N": np.array([1e9, 1e10, 4e9, 4e9]), "active": np.array([1.0, 0.1, 1.0, 0.25]), "D": np.full(4, 4e10)}
    own = walk.axes[0].features(np.log(at["N"] * at["active"] / 1e9))
    np.testing.assert_allclose(walk.features(at)[:, : own.shape[1]], own, atol=1e-12)
    assert (np.abs(own).max(axis=1) > 0.1).tolist() == [False, False, True, False]
    drawn = DrawnErrors(walk, np.random.default_rng(1).standard_normal((walk.inside.size, 3)), np.zeros(3))
    sizes = np.exp(np.linspace(np.log(2e8), np.log(9e10), 50))
    errors = drawn.over("N", {"active": 0.1, "D": 4e10}, (float(np.log(1e8)), float(np.log(1e11))))
    expected = drawn.at({"N": sizes, "active": np.full(50, 0.1), "D": np.full(50, 4e10)}).T
    np.testing.assert_allclose(errors.at(np.arange(3), np.log(sizes), shared=True), expected, atol=1e-9)


def test_areas_below_one_are_apart_and_what_is_no_part_of_a_law_is_no_direction() -> None:
    """Rates x steps of small trainings are below 1, where tokens begin; the highest rate is no part of the law."""
    law = load_law("cpt-dynamics")
    seen = {name: np.full(4, 0.5) for name in law.covariates} | {"S1_cpt": np.array([0.0, 0.05, 0.1, 0.2])}
    walk = replace(present(Walk.of(law, seen)), exact=True)
    assert [*walk.usual] == ["S1_pt", "S1_cpt"]
    at = {name: np.full(3, 0.5) for name in law.covariates}
    areas, rates = (
        at | {"S1_cpt": 0.2 * np.exp([-1.0, 1.0, 2.0])},
        at | {"S1_cpt": np.full(3, 0.2), "lr_peak": 0.5 * np.exp([0, 1, 2])},
    )
    sds = [np.linalg.norm(walk.features(of) * walk.weights * ~walk.inside, axis=1) for of in (areas, rates)]
    knots, beyond = np.linspace(np.log(1e-9 / 0.2), 0, 6, endpoint=False)[:, None], np.array([[1.0], [2.0]])  # an area of 0 is 1e-9
    given = kernel(beyond, beyond) - kernel(beyond, knots) @ np.linalg.solve(kernel(knots, knots), kernel(knots, beyond))
    np.testing.assert_allclose(sds[0], [0.0, *np.sqrt(np.diag(given))], rtol=1e-6)
    np.testing.assert_array_equal(sds[1], 0)


def test_there_is_no_walk_for_runs_of_one_setting_or_a_law_without_scales() -> None:
    assert Walk.of(LAW, {"N": np.full(3, 1e8), "D": np.full(3, 1e9)}) is None
    joint = load_law("cpt-joint")
    flat = replace(joint, covariates={"cpt": joint.covariates["cpt"]})
    assert Walk.of(flat, {"cpt": np.array([0.0, 1.0])}) is None


# --- the density ------------------------------------------------------------------------------------------------------


def is_that_of(
    oracle: Callable[[Array], float], noise: Noise, observed: Observations, given: Mapping[str, float], mean: Array
) -> None:
    """The density at these parameters and means, and its gradient, are those of a function of both in one array."""
    parameters, mu = {name: pt.dscalar(name) for name in given}, pt.dvector("mean")
    data = Rows(**{name: pt.as_tensor(values) for name, values in data_of(noise, observed).items()})
    logp = log_density(noise, data, mu, parameters)
    slopes: Any = grad(logp, [*parameters.values(), mu])
    evaluate: Any = function([*parameters.values(), mu], [logp, *slopes], mode=Mode(linker="py", optimizer="None"))
    value, *gradient = evaluate(*given.values(), mean)
    x = np.array([*given.values(), *mean])
    assert float(value) == pytest.approx(oracle(x), rel=1e-10)
    whole = np.concatenate([np.atleast_1d(slope) for slope in gradient])
    np.testing.assert_allclose(whole, central(oracle, x, 1e-5), rtol=1e-5, atol=1e-5 * np.abs(whole).max())


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("run_effect", "checkpoint_effect"), [(False, False), (True, False), (True, True)])
def test_the_density_and_its_gradient_are_those_of_the_dense_covariance(
    run_effect: bool, checkpoint_effect: bool, known: bool
) -> None:
    observed = seen(SE if known else None)
    walk = walk_of(observed)
    noise = Noise(False, run_effect, checkpoint_effect, walk=walk)
    given = {name: PARAMETERS[name] for name in noise.parameters}
    mean, features = np.linspace(0.99, 1.01, RUN.size), walk.components(observed.covariates)

    def oracle(x: Array) -> float:
        value = dict(zip(given, x, strict=False))
        effects = (value.get("sigma_run", 0.0), value.get("sigma_checkpoint", 0.0))
        whole = dense(observed, walk, value["sigma_point"], *effects) + value["discrepancy"] ** 2 * features @ features.T
        return float(stats.multivariate_normal(x[len(given) :], whole).logpdf(observed.response))

    is_that_of(oracle, noise, observed, given, mean)


def test_the_density_of_many_points_a_run_is_that_of_their_sums_and_of_directions_within_runs() -> None:
    run = np.repeat(np.arange(5), [12, 9, 20, 1, 14])
    rng = np.random.default_rng(2)
    covariates = {"N": 1e8 * np.exp(np.arange(5.0))[run], "D": 1e9 * np.exp(4 * rng.random(run.size))}
    rows = nested(run, np.arange(5))
    observed = replace(rows, covariates=covariates, response=1 + 0.05 * rng.standard_normal(run.size))
    walk = present(Walk.of(LAW, covariates))
    noise, features = Noise(False, True, walk=walk), walk.components(covariates)
    given, mean = {name: PARAMETERS[name] for name in noise.parameters}, np.linspace(0.99, 1.01, run.size)

    def oracle(x: Array) -> float:
        value = dict(zip(given, x, strict=False))
        whole = np.diag(np.full(run.size, value["sigma_point"] ** 2)) + value["sigma_run"] ** 2 * (run[:, None] == run)
        whole += value["discrepancy"] ** 2 * features @ features.T
        return float(stats.multivariate_normal(x[len(given) :], whole).logpdf(observed.response))

    assert data_of(noise, observed)["starts"].size - 1 == 5 + walk.squares.size  # runs, and directions
    is_that_of(oracle, noise, observed, given, mean)


@pytest.mark.parametrize("known", [True, False])
def test_a_likelihood_whose_weights_were_found_counts_to_a_power(known: bool) -> None:
    """Without an error of the law, its logarithm changes by that much of what it would with known weights."""
    observed, mu, sigma = seen(SE if known else None), pt.dvector("mean"), pt.dscalar("sigma")
    walk, power = walk_of(observed), 0.7

    def at(walk: Walk) -> Array:
        noise = Noise(False, False, walk=walk)
        data = Rows(**{name: pt.as_tensor(values) for name, values in data_of(noise, observed).items()})
        logp = log_density(noise, data, mu, {"sigma_point": sigma, "discrepancy": pt.as_tensor(1e-9)})
        evaluate: Any = function([sigma, mu], logp, mode=Mode(linker="py", optimizer="None"))
        places = [(0.01, 1.0), (0.01, 1.02), (0.03, 0.99)]
        return np.diff([float(evaluate(s, np.full(RUN.size, m))) for s, m in places])

    powered = replace(walk, multiple=walk.multiple / power, information=power)
    np.testing.assert_allclose(at(powered), power * at(walk), rtol=1e-6)


def test_a_discrepancy_that_vanishes_leaves_the_noise_and_has_a_slope() -> None:
    """The slope by the square of the scale at 0 is that of a small scale."""
    observed = seen()
    walk = walk_of(observed)
    features, error = walk.components(observed.covariates), observed.response - 1

    def at(scale: float) -> tuple[float, float]:
        sizes = (1, RUN.size, RUN.size, 5, 1, 1)
        logp, *slopes = (np.empty(size) for size in sizes)
        noise = (np.full(RUN.size, 1e-4), np.full(5, 4e-4), np.array([1e-4]))
        integrated(error, *noise, np.array([scale]), features.T.ravel(), observed.starts, CHECKPOINT, logp, *slopes)
        return float(logp[0]), float(slopes[-1][0])

    plain = np.diag(np.full(RUN.size, 1e-4)) + 4e-4 * (RUN[:, None] == RUN) + 1e-4 * (CHECKPOINT[RUN][:, None] == CHECKPOINT[RUN])
    assert at(0.0)[0] == pytest.approx(float(stats.multivariate_normal(cov=plain).logpdf(error)))
    assert at(0.0)[1] == pytest.approx((at(1e-9)[0] - at(0.0)[0]) / 1e-9, rel=1e-3)
    for small in (1e-8, 1e-6):  # of errors of .01% and .1%
        slope = (at(1.01 * small)[0] - at(0.99 * small)[0]) / (0.02 * small)
        assert at(small)[1] == pytest.approx(slope, rel=1e-3)


# --- draws ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_coefficients_are_conditionally_normal() -> None:
    size, observed = 40_000, seen(SE)
    walk = walk_of(observed)
    noise = Noise(False, True, True, walk=walk)
    draws = {name: np.full(size, value) for name, value in PARAMETERS.items()}
    error = observed.response - 1
    drawn = coefficients(noise, observed, np.tile(error, (size, 1)), draws, np.random.default_rng(0))
    features, s2 = walk.components(observed.covariates), PARAMETERS["discrepancy"] ** 2
    inverse = np.linalg.inv(dense(observed, walk, *(PARAMETERS[n] for n in ("sigma_point", "sigma_run", "sigma_checkpoint"))))
    covariance = np.linalg.inv(np.eye(walk.squares.size) / s2 + features.T @ inverse @ features)
    mean, variance = covariance @ features.T @ inverse @ error, np.diag(covariance)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / size)).all()
    errors = 5 * np.sqrt((np.outer(variance, variance) + covariance**2) / size)
    assert (np.abs(np.cov(drawn.T) - covariance) < errors).all()


@pytest.mark.slow
def test_what_is_not_learnt_from_runs_comes_from_the_prior() -> None:
    """Inside and beyond the runs the drawn errors have the walk's covariance, given that of the coefficients."""
    size, scale, extra = 20_000, 0.01, 0.02
    walk = replace(walk_of(seen()), beyond=(float(np.log(extra)), 0.0))
    own = scale * np.random.default_rng(0).standard_normal((size, walk.squares.size))
    drawn = walk.complete(own, np.full(size, scale), (1, 2))
    at = {
        "N": np.exp(walk.largest[0] + np.array([-2.0, -1.0, 1.0, 3.0])),
        "D": np.exp(walk.largest[1] + np.array([-1.0, 0.7, 0.0, 2.0])),
    }
    values, features = walk.features(at) @ drawn, walk.features(at)
    inside, beyond = features[:, walk.inside], features[:, ~walk.inside]
    whole, components = scale**2 + extra**2, inside @ walk.loadings
    covariance = whole * (inside @ inside.T - components @ components.T + beyond @ beyond.T)
    covariance += (components * (scale**2 + extra**2 / (1 + walk.squares / ROW_NOISE))) @ components.T
    assert (np.abs(values.mean(axis=1)) < 5 * np.sqrt(np.diag(covariance) / size)).all()
    errors = 5 * np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / size)
    assert (np.abs(np.cov(values) - covariance) < errors).all()
