"""The log density: finite where the fit begins, with a true gradient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bayeslaw.data.observations import Observations
from bayeslaw.engine.density import Density, log_prior
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.noise import PRIORS, Noise
from bayeslaw.noise.walk import Walk
from tests import oracles, outcomes
from tests.cards import POSITIVE, REAL, card
from tests.values import present

NOISES = {
    "normal": Noise(student=False, run_effect=True),
    "normal-checkpoint": Noise(student=False, run_effect=True, checkpoint_effect=True),
    "normal-groups": Noise(student=False, run_effect=True, groups=("a", "b")),
    "skew": Noise(student=False, run_effect=True, skew=True),
    "normal-drift": Noise(student=False, run_effect=True, drift=True),
    "normal-drift-groups": Noise(student=False, run_effect=True, groups=("a", "b"), drift=True),
    "normal-no-run": Noise(student=False, run_effect=False),
    "student": Noise(student=True, run_effect=True),
    "student-groups": Noise(student=True, run_effect=True, groups=("a", "b")),
    "student-no-run": Noise(student=True, run_effect=False),
}


def rows_for(law: Law, noise: str) -> Observations:
    """Rows that have the columns a noise needs."""
    plain = noise in ("normal", "normal-drift", "normal-no-run", "student", "student-no-run")
    rows = oracles.observations(law) if plain else oracles.with_groups(law, known=noise != "normal-groups")
    return oracles.timed(rows) if "drift" in noise else rows


# Every noise with one law, the quickest to compile; tests/integration/test_model.py has every law.
EVERY_NOISE = [pytest.param("chinchilla", noise, marks=[pytest.mark.slow] if noise != "normal" else []) for noise in NOISES]
CASES = [("annealing", "normal"), *EVERY_NOISE]


def density_of(name: str, noise: str) -> Density:
    law = load_law(name)
    return Density.of(law, rows_for(law, noise), NOISES[noise])


def shapes(density: Density) -> range:
    """The candidates for the ridge coordinate."""
    return range(len(density.law.shapes))


def assert_true_gradient(function: oracles.LogDensity, x: oracles.Array, step: float = 1e-4) -> None:
    value, gradient = function(x)
    assert np.isfinite(value)
    expected = oracles.central(lambda v: function(v)[0], x, step)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("name", "noise"), CASES)
def test_the_gradient_is_true_where_the_fit_begins(name: str, noise: str, rng: np.random.Generator) -> None:
    density = density_of(name, noise)
    start = density.start()
    assert start.size == density.size == len(density.names) + (density.observed.runs if density.noise.explicit_effects else 0)
    assert_true_gradient(density.function(), start + 0.1 * rng.standard_normal(start.size))


@pytest.mark.slow
def test_a_learnt_error_without_run_effects_is_that_with_effects_that_vanish(rng: np.random.Generator) -> None:
    """The two ways to integrate the error out: by directions of its own, and by Woodbury's identity."""
    law = load_law("chinchilla")
    rows = oracles.observations(law)
    walk = replace(present(Walk.of(law, rows.covariates)), multiple=1 + rng.random(rows.run.size), information=0.8)
    alone, with_runs = (Density.of(law, rows, Noise(False, run_effect, walk=walk)) for run_effect in (False, True))
    points = alone.start() + 0.1 * rng.standard_normal((6, alone.size))
    for point in points:
        assert_true_gradient(alone.function(), point)
    vanishing = np.insert(points, with_runs.names.index("sigma_run"), -25.0, axis=1)
    both = [density.function().many(x)[0] for density, x in ((alone, points), (with_runs, vanishing))]
    np.testing.assert_allclose(np.diff(both[0]), np.diff(both[1]), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "student"])
def test_many_points_at_once_have_the_values_of_single_points(noise: str, rng: np.random.Generator) -> None:
    density = density_of("chinchilla", noise)
    function, points = density.function(), density.start() + 0.1 * rng.standard_normal((5, density.size))
    values, gradients = function.many(np.asfortranarray(points))
    for point, value, gradient in zip(points, values, gradients, strict=True):
        single, slope = function(point)
        assert single == value
        np.testing.assert_array_equal(slope, gradient)
    with pytest.raises(ValueError, match=f"points of {density.size} coordinates"):
        function.many(points[:, :-1])


@pytest.mark.slow
def test_a_fit_begins_at_a_finite_density_where_a_few_losses_are_far_above_the_others() -> None:
    """Terms as wide as the losses spread would leave the floor below zero."""
    law = load_law("ptpp-floor")
    table = oracles.table(law)
    table["loss"] = np.where(table.index % 5 == 0, 14.4, 0.7 + 1e-3 * table.index)
    density = Density.of(law, oracles.observed(law, table), NOISES["normal"])
    value, gradient = density.function()(density.start())
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


PRIOR_CASES = [
    Prior("LogNormal", {"mu": 0.3, "sigma": 0.5}),
    Prior("HalfNormal", {"sigma": 0.7}),
    Prior("Gamma", {"alpha": 2.0, "beta": 0.1}),
    Prior("Normal", {"mu": -0.2, "sigma": 0.4}),
    Prior("StudentT", {"nu": 4.0, "mu": 0.1, "sigma": 0.3}),
    Prior("Beta", {"alpha": 2.0, "beta": 3.0}),
    Prior("Uniform", {"lower": -1.0, "upper": 3.0}),
    Prior("TruncatedNormal", {"mu": 1.7, "sigma": 0.4, "lower": 1.0, "upper": 2.5}),
]


@pytest.mark.parametrize("prior", PRIOR_CASES, ids=lambda p: p.dist)
def test_log_prior_is_scipys_with_the_jacobian(prior: Prior) -> None:
    x = np.linspace(-2, 2, 9)
    share, (low, high) = 1 / (1 + np.exp(-x)), prior.bounds if prior.support == "bounded" else (0.0, 1.0)
    of_share = -np.logaddexp(0, x) - np.logaddexp(0, -x)
    value = {"positive": np.exp(x), "unit": share, "bounded": low + (high - low) * share, "real": x}[prior.support]
    jacobian = {"positive": x, "unit": of_share, "bounded": of_share, "real": 0 * x}[prior.support]
    difference = log_prior(prior, x) - (prior.scipy.logpdf(value) + jacobian)
    np.testing.assert_allclose(difference, difference[0], atol=1e-10)


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter() -> None:
    """Shuffled rows give the same reference point and log density."""
    law = load_law("ptpp-gate-floor")
    table = oracles.table(law, runs=24)
    values = []
    for rows in (table, table.sample(frac=1.0, random_state=3)):
        density = Density.of(law, oracles.observed(law, rows), NOISES["normal"])
        values.append(density.function()(density.start())[0])
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.slow
def test_run_effects_are_in_units_of_their_spread(rng: np.random.Generator) -> None:
    law = load_law("chinchilla")
    density = Density.of(law, oracles.observations(law), NOISES["student"])
    x = density.start() + 0.1 * rng.standard_normal((5, density.size))
    draws = density.draws(x)
    np.testing.assert_allclose(draws["run_effect"], draws["sigma_run"][:, None] * x[:, len(density.names) :], rtol=1e-12)


@pytest.mark.slow
def test_a_law_of_an_unusual_shape_has_a_true_gradient() -> None:
    """A floor that may be negative, a term in [let], one that is subtracted and constant over the runs, one of either sign."""
    card = """
name = "own"
title = "a law"
source = "here"
loss = "E + fall - K*exp(-D) + S*log(N)"
[let]
fall = "A/N**alpha"
[covariates]
N = { unit = "parameters", support = [1e4, 1e13] }
D = { unit = "steps", support = [0, 10] }
[parameters.E]
meaning = "floor"
prior = { dist = "Normal", mu = 2, sigma = 1 }
[parameters.A]
meaning = "scale"
prior = { dist = "LogNormal", mu = 0, sigma = 1, on = "A/N**alpha" }
[parameters.alpha]
meaning = "exponent"
prior = { dist = "HalfNormal", sigma = 0.5 }
[parameters.K]
meaning = "scale"
prior = { dist = "HalfNormal", sigma = 1 }
[parameters.S]
meaning = "slope"
prior = { dist = "Normal", mu = 0, sigma = 0.01 }
"""
    law = parse_card(card)
    columns = {"N": np.geomspace(1e6, 1e9, 8), "D": np.full(8, 1.0), "loss": np.linspace(3.5, 2.5, 8)}
    observed = oracles.observed(law, columns)
    density = Density.of(law, observed, NOISES["normal-no-run"])
    assert list(law.amplitudes) == ["A", "K", "S"]
    assert density.coordinates.by_spread == {"A", "S"}
    assert density.coordinates.by_mean == {"K"}
    assert_true_gradient(density.function(), density.start())


@pytest.mark.slow
def test_a_term_that_an_exponent_of_either_sign_makes_constant_is_scaled_by_its_mean() -> None:
    """Its spread over the runs is 0 where the exponent is, which no chain could pass."""
    loss, of = "E + A*(N/1e9)**p + B*(1 + k*log(N))", {"N": (1e4, 1e13)}
    law = parse_card(card(loss, of, E=POSITIVE, A=POSITIVE, p=REAL, B=POSITIVE, k=REAL))
    columns = {"N": np.geomspace(1e7, 1e10, 8), "loss": np.linspace(3.5, 2.5, 8)}
    density = Density.of(law, oracles.observed(law, columns), NOISES["normal-no-run"])
    assert not density.coordinates.by_spread
    assert density.coordinates.by_mean == {"A"}  # the mean of B's term may be 0, so B is a coordinate itself
    assert_true_gradient(density.function(), density.start() + 0.1)


@pytest.mark.slow
def test_a_floor_under_a_product_is_a_coordinate_itself() -> None:
    """No term of the loss has a scale of its own, so that nothing says how far the floor lies below the losses."""
    loss, of = "E + (A/N**alpha + B/D**beta)*(1 + G*N/1e9)", {"N": (1e4, 1e13), "D": (1, 1e15)}
    law = parse_card(card(loss, of, **dict.fromkeys(("E", "A", "alpha", "B", "beta", "G"), POSITIVE)))
    columns = {"N": np.geomspace(1e6, 1e9, 8), "D": np.geomspace(1e8, 1e9, 8), "loss": np.linspace(3.5, 2.5, 8)}
    density = Density.of(law, oracles.observed(law, columns), NOISES["normal-no-run"])
    assert law.floor == "E"
    assert not density.coordinates.scaled
    assert_true_gradient(density.function(), density.start())
    assert density.draws(np.zeros((1, density.size)))["E"].shape == (1,)


@pytest.mark.slow
def test_laws_that_differ_in_the_bounds_of_their_outcome_alone_have_densities_of_their_own() -> None:
    """The second must not be the function that was compiled, and kept on disk, for the first."""
    table, values = outcomes.table("bounded"), list[float]()
    for bounds in ("[0, 100]", "[0, 150]"):
        law = parse_card(outcomes.card("bounded").replace("[0, 100]", bounds))
        density = Density.of(law, oracles.observed(law, table), NOISES["normal-no-run"])
        x = density.start()
        draws = density.draws(x[None])
        mean = law.outcome.to_scale(law.predict({name: draws[name] for name in law.parameters}, density.observed.covariates)[0])
        likelihood = stats.norm(mean, draws["sigma_point"]).logpdf(density.observed.response).sum()
        values.append(density.function()(x)[0] - likelihood)
    assert values[0] == pytest.approx(values[1], abs=1e-6)  # the priors, which the laws share, up to a constant


def test_density_is_likelihood_times_prior_up_to_a_constant(rng: np.random.Generator) -> None:
    """For chinchilla, against SciPy alone: E and A come from x by the documented change, its Jacobian by differences."""
    law = load_law("chinchilla")
    observed = oracles.observations(law)
    density = Density.of(law, observed, NOISES["normal"])
    differences = []
    for _ in range(4):
        x = density.start() + 0.1 * rng.standard_normal(density.size)
        draws = {k: float(v[0]) for k, v in density.draws(x[None]).items()}

        def unconstrained(v: oracles.Array) -> oracles.Array:
            d = density.draws(v[None])
            return np.log([d[n][0] for n in density.names])

        jacobian = np.linalg.slogdet(oracles.jacobian(unconstrained, x, 1e-4))[1]
        at = observed.at
        level = {"A": draws["A"] * at["N"] ** -draws["alpha"], "B": draws["B"] * at["D"] ** -draws["beta"]}
        total = jacobian
        for name in density.names:
            prior = law.parameters[name].prior if name in law.parameters else PRIORS[name]
            total += prior.scipy.logpdf(level.get(name, draws[name])) + np.log(level.get(name, draws[name]))
        # levels are proportional to A and B at given exponents, so the Jacobian of their logs is that of log A and log B
        mean = np.log(oracles.chinchilla(draws, observed.covariates))
        same = observed.run[:, None] == observed.run[None, :]
        covariance = draws["sigma_point"] ** 2 * np.eye(mean.size) + draws["sigma_run"] ** 2 * same
        total += stats.multivariate_normal(mean, covariance).logpdf(observed.response)
        differences.append(density.function()(x)[0] - total)
    np.testing.assert_allclose(differences, differences[0], atol=1e-5)
