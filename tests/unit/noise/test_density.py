"""The log density of each noise, and its gradient, against SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.compile.maker import function
from pytensor.compile.mode import Mode
from pytensor.gradient import grad
from scipy import integrate, stats

from bayeslaw.data.observations import Observations
from bayeslaw.noise.density import Rows, data_of, log_density
from bayeslaw.noise.noise import Noise
from tests.oracles import Array, central, drifting, nested, timed

PLAIN = Mode(linker="py", optimizer="None")
RUN = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3])
CHECKPOINT, GROUP, NAMES = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), ("pile", "code")
SE = 0.01 * np.array([0.0, 1.0, 2.0, 0.5, 1.5, 0.2, 1.0, 3.0, 0.7])
NONE = np.empty(0)
SCALES = {"sigma_point[pile]": 0.02, "sigma_point[code]": 0.03, "sigma_run[pile]": 0.05, "sigma_run[code]": 0.035}
OTHERS = {"sigma_checkpoint": 0.03, "run_excess": 0.04, "dof": 3.5, "drift": 0.4}
MEAN = np.linspace(0.99, 1.01, RUN.size)


def rows(rng: np.random.Generator, se: Array = NONE) -> Observations:
    seen = timed(nested(RUN, CHECKPOINT, GROUP, NAMES, se))
    return replace(seen, response=1 + 0.05 * rng.standard_normal(RUN.size))


def of(noise: Noise) -> dict[str, float]:
    return {name: (SCALES | OTHERS)[name] for name in noise.parameters}


Evaluate = Callable[..., tuple[float, Array]]


def compiled(noise: Noise, seen: Observations, **rest: Any) -> Evaluate:
    """The density, and its gradient by the noise's parameters, the means and the explicit effects, as a function of these."""
    parameters = {name: pt.dscalar(name) for name in noise.parameters}
    mu, z = pt.dvector("mean"), pt.dvector("effects")
    data = Rows(**{name: pt.as_tensor(values) for name, values in data_of(noise, seen, **rest).items()})
    logp = log_density(noise, data, mu, parameters, z if noise.explicit_effects else None)
    by = [*parameters.values(), mu, *([z] if noise.explicit_effects else [])]
    slopes_by: Any = grad(logp, by)
    made: Any = function([*parameters.values(), mu, z], [logp, *slopes_by], mode=PLAIN, on_unused_input="ignore")

    def evaluate(given: Mapping[str, float], mean: Array = MEAN, effects: Array = NONE) -> tuple[float, Array]:
        value, *slopes = made(*given.values(), mean, effects)
        return float(value), np.concatenate([np.atleast_1d(s) for s in slopes])

    return evaluate


def evaluated(
    noise: Noise, seen: Observations, given: Mapping[str, float], mean: Array = MEAN, effects: Array = NONE, **rest: Any
) -> tuple[float, Array]:
    return compiled(noise, seen, **rest)(given, mean, effects)


def covariance(given: Mapping[str, float], se: Array = NONE) -> Array:
    """Of all rows under normal noise of two groups."""
    point, run = (
        np.array([given.get(f"{name}[{g}]", 0.0) for g in NAMES])[GROUP][RUN] ** 2 for name in ("sigma_point", "sigma_run")
    )
    same, related = RUN[:, None] == RUN, CHECKPOINT[RUN][:, None] == CHECKPOINT[RUN]
    whole: Array = np.diag(point + (se**2 if se.size else 0.0)) + run[:, None] * same
    whole += given.get("sigma_checkpoint", 0.0) ** 2 * related
    return whole


@pytest.mark.parametrize("se", [NONE, SE])
@pytest.mark.parametrize("checkpoint_effect", [True, False])
@pytest.mark.parametrize("run_effect", [True, False])
def test_normal_noise_is_that_of_the_block_covariance(
    run_effect: bool, checkpoint_effect: bool, se: Array, rng: np.random.Generator
) -> None:
    noise, seen = Noise(False, run_effect, checkpoint_effect, groups=NAMES), rows(rng, se)
    given = of(noise)

    def oracle(x: Array) -> float:
        whole = covariance(dict(zip(given, x, strict=False)), se)
        return float(stats.multivariate_normal(x[len(given) :], whole).logpdf(seen.response))

    value, gradient = evaluated(noise, seen, given)
    x = np.array([*given.values(), *MEAN])
    assert value == pytest.approx(oracle(x), rel=1e-12)
    np.testing.assert_allclose(gradient, central(oracle, x, 1e-5), rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.slow
def test_rows_of_several_points_are_those_points(rng: np.random.Generator) -> None:
    """The count of a row's points, their mean and their scatter are sufficient."""
    noise, seen = Noise(False, True), rows(rng)
    first = np.array([0, 3, 4, 6])  # one row for each run
    means = np.array([seen.response[j == RUN].mean() for j in range(4)])
    scatter = np.array([((seen.response[j == RUN] - means[j]) ** 2).sum() for j in range(4)])
    fewer = replace(seen, response=means, run=RUN[first], rows=seen.rows[first], covariates={})
    given = {"sigma_point": 0.02, "sigma_run": 0.05}
    whole, _ = evaluated(noise, seen, given, np.full(9, 1.0))
    assert evaluated(noise, fewer, given, np.full(4, 1.0), count=np.bincount(RUN) * 1.0, scatter=scatter)[0] == pytest.approx(whole)


@pytest.mark.slow
@pytest.mark.parametrize("se", [NONE, SE])
@pytest.mark.parametrize("run_effect", [True, False])
def test_one_sided_run_effects_are_integrated_out(run_effect: bool, se: Array, rng: np.random.Generator) -> None:
    noise, seen = Noise(False, run_effect, skew=True, groups=NAMES), rows(rng, se)
    given, blocks = of(noise), covariance(of(Noise(False, run_effect, groups=NAMES)), se)
    total, excess = 0.0, given["run_excess"]
    for j in range(4):
        own = np.flatnonzero(j == RUN)
        block, error = stats.multivariate_normal(np.zeros(own.size), blocks[np.ix_(own, own)]), (seen.response - MEAN)[own]
        part = integrate.quad(lambda s, e=error, b=block: b.pdf(e - s) * math.exp(-s / excess) / excess, 0, 1, epsabs=0, limit=200)
        total += math.log(part[0])
    evaluate = compiled(noise, seen)
    value, gradient = evaluate(given)
    assert value == pytest.approx(total, rel=1e-7)
    slopes = central(
        lambda x: evaluate(dict(zip(given, x[: len(given)], strict=True)), x[len(given) :])[0],
        np.array([*given.values(), *MEAN]),
        1e-5,
    )
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())


@pytest.mark.slow
@pytest.mark.parametrize("error", [-0.4, -0.05, 0.0, 0.05, 0.4])
def test_one_sided_effects_far_from_the_law_are_exact(error: float) -> None:
    """Of one point: the density of a normal plus an exponential variable, far out on both sides."""
    noise, seen = Noise(False, False, skew=True), nested(np.array([0]))
    given = {"sigma_point": 0.005, "run_excess": 0.01}
    value, _ = evaluated(noise, replace(seen, response=np.array([error])), given, np.zeros(1))
    assert value == pytest.approx(float(stats.exponnorm(2.0, 0, 0.005).logpdf(error)), rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("se", [NONE, SE])
@pytest.mark.parametrize("explicit", [True, False])
def test_student_noise_is_scipys(explicit: bool, se: Array, rng: np.random.Generator) -> None:
    noise, seen, effects = Noise(True, explicit, groups=NAMES), rows(rng, se), rng.standard_normal(4) if explicit else NONE
    given = of(noise)

    def oracle(x: Array) -> float:
        of_x, (mean, z) = dict(zip(given, x, strict=False)), (x[len(given) : len(given) + 9], x[len(given) + 9 :])
        point, run = (np.array([of_x.get(f"{n}[{g}]", 0.0) for g in NAMES])[GROUP] for n in ("sigma_point", "sigma_run"))
        scale = np.sqrt(point[RUN] ** 2 + (se**2 if se.size else 0.0))
        shift = (run * z)[RUN] if explicit else 0.0
        return float(stats.t(of_x["dof"], mean + shift, scale).logpdf(seen.response).sum())

    value, gradient = evaluated(noise, seen, given, effects=effects)
    x = np.array([*given.values(), *MEAN, *effects])
    assert value == pytest.approx(oracle(x), rel=1e-12)
    np.testing.assert_allclose(gradient, central(oracle, x, 1e-5), rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("se", [NONE, SE])
def test_ou_run_effects_are_those_of_the_dense_covariance(se: Array, rng: np.random.Generator) -> None:
    noise, seen = Noise(False, True, groups=NAMES, drift=True), rows(rng, se)
    given = of(noise)

    def oracle(x: Array) -> float:
        whole = drifting(seen, x[:2] ** 2, x[2:4] ** 2, x[4] * seen.span)
        return float(stats.multivariate_normal(x[5:], whole).logpdf(seen.response))

    value, gradient = evaluated(noise, seen, given)
    x = np.array([*given.values(), *MEAN])
    assert value == pytest.approx(oracle(x), rel=1e-12)
    np.testing.assert_allclose(gradient, central(oracle, x, 1e-6), rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


def test_a_long_correlation_length_is_a_run_effect_and_a_short_one_point_noise(rng: np.random.Generator) -> None:
    noise, seen = Noise(False, True, groups=NAMES, drift=True), rows(rng)
    seen = replace(seen, clock=np.arange(9.0))  # no two rows at one moment
    point, run = (np.array([SCALES[f"{n}[{g}]"] for g in NAMES])[GROUP][RUN] ** 2 for n in ("sigma_point", "sigma_run"))
    for length, same in ((1e12, RUN[:, None] == RUN), (1e-12, np.eye(RUN.size))):
        whole = np.diag(point) + run[:, None] * same
        value, _ = evaluated(noise, seen, of(noise) | {"drift": length})
        assert value == pytest.approx(float(stats.multivariate_normal(MEAN, whole).logpdf(seen.response)), rel=1e-9)
