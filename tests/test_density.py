"""The log density: finite where the fit begins, with a true gradient, and whitened without changing it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from scipy import stats

from bayeslaw import tape as tapes
from bayeslaw.bending import bending, found_hinges, hinge, sinh_arcsinh, unbent
from bayeslaw.cards import load_law, parse_card
from bayeslaw.coordinates import Coordinates
from bayeslaw.density import Density, Function, log_prior
from bayeslaw.errors import FitError
from bayeslaw.laws import Law
from bayeslaw.noise import PRIORS, Noise
from bayeslaw.observations import Observations
from bayeslaw.priors import Prior
from bayeslaw.whitening import _increasing, _next, _Section, _walk, curvature, find_mode, root_of_inverse, whiten
from tests import oracles
from tests.test_statistical import TRUTHS, settings, simulate

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
    """Rows with what a noise is about."""
    plain = noise in ("normal", "normal-drift", "normal-no-run", "student", "student-no-run")
    rows = oracles.observations(law) if plain else oracles.kindred(law, known=noise != "normal-groups")
    return oracles.timed(rows) if "drift" in noise else rows


@pytest.fixture(params=NOISES)
def density(law: Law, request: pytest.FixtureRequest) -> Density:
    return Density.of(law, rows_for(law, request.param), NOISES[request.param])


def shapes(density: Density) -> range:
    """The coordinates that may serve as spine."""
    return range(len(density.law.shapes))


def assert_true_gradient(function: oracles.LogDensity, x: oracles.Array, step: float = 1e-4) -> None:
    value, gradient = function(x)
    assert np.isfinite(value)
    expected = oracles.central(lambda v: function(v)[0], x, step)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_gradient_where_the_fit_begins(density: Density, rng: np.random.Generator) -> None:
    start = density.start()
    assert start.size == density.size == len(density.names) + (density.observed.runs if density.noise.explicit_effects else 0)
    assert_true_gradient(density.function(), start)
    assert_true_gradient(density.function(), start + 0.1 * rng.standard_normal(start.size))


def test_many_points_at_once_are_points_one_by_one(density: Density, rng: np.random.Generator) -> None:
    function, points = density.function(), density.start() + 0.1 * rng.standard_normal((5, density.size))
    values, gradients = function.many(np.asfortranarray(points))
    for point, value, gradient in zip(points, values, gradients, strict=True):
        one, slope = function(point)
        assert one == value
        np.testing.assert_array_equal(slope, gradient)
    with pytest.raises(ValueError, match=f"points of {density.size} coordinates"):
        function.many(points[:, :-1])


def test_a_fit_begins_among_losses_of_which_a_few_are_far_above_the_others() -> None:
    """Terms as wide as the losses spread would leave the floor below zero."""
    law = load_law("ptpp-floor")
    table = oracles.table(law)
    table["loss"] = np.where(table.index % 5 == 0, 14.4, 0.7 + 1e-3 * table.index)
    density = Density.of(law, oracles.observed(law, table), NOISES["normal"])
    value, gradient = density.function()(density.start())
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_gradient_through_the_whitening(law: Law, rng: np.random.Generator) -> None:
    density = Density.of(law, oracles.observations(law), NOISES["normal"])
    whitening = whiten(density, shapes(density))
    function = whitening.function(density)
    for _ in range(3):
        # A short step: the gradient of the log determinant jumps a little at the knots of a spine.
        assert_true_gradient(function, rng.standard_normal(density.size), 1e-5)


@pytest.mark.parametrize("refined", [False, True])
def test_a_bent_ridge_is_followed_by_a_true_density(refined: bool, rng: np.random.Generator) -> None:
    """With a spine, refined or not, the whitened log density is that of x plus the log determinant of the map."""
    density = Density.of(load_law("ptpp-gate"), oracles.observations(load_law("ptpp-gate")), NOISES["normal"])
    whitening = whiten(density, shapes(density))
    assert whitening.spine is not None
    assert density.names[whitening.spine] not in ("E", "A", "B", "C")
    if refined:
        whitening = whitening.refined(density, rng.gamma(2.0, 0.3, (200, density.size)) - 0.6, density.size - 1)
        whitening = replace(whitening, hinges=np.array([[0, 2, 0.5], [0, 5, -0.8], [3, 5, 0.4]]))
    plain, bent = density.function(), whitening.function(density)
    for _ in range(3):
        z = rng.standard_normal(density.size)
        determinant = np.linalg.slogdet(oracles.jacobian(lambda v: whitening.x(v[None])[0], z, 1e-4))[1]
        assert bent(z)[0] == pytest.approx(plain(whitening.x(z[None])[0])[0] + determinant, abs=1e-6)
        assert_true_gradient(bent, z)


def test_widths_are_held_beyond_the_ends_of_a_ridge() -> None:
    """Else they make walls there at which chains diverge. The spine goes on rising, and a step on moves all others alike."""
    density = Density.of(load_law("ptpp-gate"), oracles.observations(load_law("ptpp-gate")), NOISES["normal"])
    whitening = whiten(density, shapes(density))
    assert whitening.spine is not None
    for end, sign in ((whitening.knots[1], -1.0), (whitening.knots[-2], 1.0)):
        beyond, z = end + sign * np.arange(4.0), np.zeros((4, density.size))
        away = z + 0.7
        z[:, 0] = away[:, 0] = beyond
        x = whitening.x(z)
        assert np.all(np.diff(sign * x[:, whitening.spine]) > 0)
        np.testing.assert_allclose(np.diff(x, 2, axis=0), 0, atol=1e-9)
        others = np.delete(whitening.x(away) - x, whitening.spine, axis=1)
        np.testing.assert_allclose(others, others[:1].repeat(4, axis=0), rtol=1e-9, atol=1e-12)


def test_hinges_are_found_by_gradients(rng: np.random.Generator) -> None:
    """Element 2 leaves its middle where element 0 is far out; the rest are standard normals."""
    z = rng.standard_normal((1200, 4))
    y = z.copy()
    y[:, 2] -= 1.2 * hinge(z[:, 0])
    slopes = -z  # by y: of element 2 that of the normal about its middle, and element 0 feels it too
    slopes[:, 0] -= 1.2 * np.tanh(0.5 * z[:, 0]) ** 2 * z[:, 2]
    rows = found_hinges(y, slopes)
    np.testing.assert_allclose(rows, [[0, 2, -1.2]], atol=1e-6)
    assert found_hinges(z, -z).shape == (0, 3)
    assert found_hinges(z, 0.3 * rng.standard_normal(z.shape) - z).shape == (0, 3)
    np.testing.assert_allclose(unbent(np.array([[0.3, 2.0, 0.0, 1.0]]), 0.3 + 2 * z[:, :1], -z[:, :1] / 2), (z[:, :1], -z[:, :1]))
    bends, hinges = bending(y, slopes)
    np.testing.assert_allclose(hinges, [[0, 2, -1.2]], atol=0.2)  # a part is taken for a long tail
    m, s, e, d = bends[2]  # what is left of element 2 is a standard normal
    assert (m, e) == (pytest.approx(0, abs=0.15), pytest.approx(0, abs=0.15))
    assert (s, d) == (pytest.approx(1, abs=0.15), pytest.approx(1, abs=0.15))


def test_the_straight_map_is_affine(rng: np.random.Generator) -> None:
    density = Density.of(load_law("chinchilla"), oracles.observations(load_law("chinchilla")), NOISES["normal"])
    whitening = whiten(density, [])
    assert whitening.spine is None
    z = rng.standard_normal((4, density.size))
    np.testing.assert_allclose(whitening.x(z), whitening.centre + z @ whitening.scale.T, rtol=1e-12)
    assert whitening.function(density)(z[0])[0] == pytest.approx(density.function()(whitening.x(z)[0])[0], abs=1e-9)


def test_the_mode_is_flat_and_curved_as_the_map_says() -> None:
    density = Density.of(load_law("chinchilla"), oracles.observations(load_law("chinchilla")), NOISES["normal"])
    logp = density.function()
    mode = find_mode(logp, density.start())
    hessian = curvature(logp, mode)
    root = root_of_inverse(hessian)
    assert np.allclose(root, np.tril(root))
    assert np.all(np.diag(root) > 0)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(hessian), rtol=1e-6, atol=1e-12)
    assert np.abs(root.T @ logp(mode)[1]).max() < 0.02


class Banana:
    """x_1 is normal around x_0^2 with the standard deviation exp(-x_0) / 5, x_0 standard normal: mode and curvature move."""

    size = 2

    def many(self, x: oracles.Array) -> tuple[oracles.Array, oracles.Array]:
        weight = 25 * np.exp(2 * x[:, 0])
        off = x[:, 1] - x[:, 0] ** 2
        value = -0.5 * x[:, 0] ** 2 - 0.5 * weight * off**2 + x[:, 0]
        return value, np.stack([-x[:, 0] - weight * off**2 + 2 * x[:, 0] * weight * off + 1, -weight * off], axis=1)

    def __call__(self, x: oracles.Array) -> tuple[float, oracles.Array]:
        values, gradients = self.many(x[None])
        return float(values[0]), gradients[0]


@pytest.mark.parametrize("at", [0.1, 1.0, -2.0])
def test_the_others_mode_and_curvature_are_found_along_the_spine(at: float) -> None:
    """Whether those of the last section are still good, as near by, or not at all."""
    banana, start = cast("Function", Banana()), np.array([0.0, 0.0])
    here = _Section(start, curvature(banana, start), banana(start)[0], np.array([1]), 0)
    found = _next(banana, here, at, np.array([1]), 0)
    assert found is not None
    width = np.exp(-at) / 5
    assert found.others[0] == pytest.approx(at**2, abs=2e-3 * width)
    assert found.root[0, 0] == pytest.approx(width, rel=1e-4)
    assert found.level == pytest.approx(-0.5 * at**2 - np.log(5), abs=1e-4)


def test_a_ridge_that_ends_at_a_fold_is_no_spine() -> None:
    """The other's mode vanishes where x_0 passes 1, two thirds of its standard deviation out."""

    class Fold:
        size = 2

        def many(self, x: oracles.Array) -> tuple[oracles.Array, oracles.Array]:
            a, b = x.T
            value = -0.5 * (a / 1.5) ** 2 + b * (1 - a) - b**3 / 3
            return value, np.stack([-a / 2.25 - b, 1 - a - b**2], axis=1)

        def __call__(self, x: oracles.Array) -> tuple[float, oracles.Array]:
            values, gradients = self.many(x[None])
            return float(values[0]), gradients[0]

    fold = cast("Function", Fold())
    start, rest = np.array([-1.0, np.sqrt(2.0)]), np.array([1])
    section = _Section(start, curvature(fold, start), fold(start)[0], rest, 0)
    assert _walk(fold, section, 0.3, rest, 0) == []
    assert len(_walk(fold, section, -0.3, rest, 0)) > 5


def test_flat_directions_are_taken_as_wide_ones() -> None:
    root = root_of_inverse(np.diag([4.0, 0.0, -1e-9]))
    np.testing.assert_allclose(np.abs(root @ root.T), np.diag([0.25, 10.0, 10.0]), atol=1e-12)


def test_a_density_without_value_is_refused() -> None:
    def nowhere(x: oracles.Array) -> tuple[float, oracles.Array]:
        return float("nan"), np.full(x.size, np.nan)

    with pytest.raises(FitError, match="The log density is not finite where the fit begins"):
        find_mode(nowhere, np.zeros(3))


PRIOR_CASES = [
    Prior("LogNormal", {"mu": 0.3, "sigma": 0.5}),
    Prior("HalfNormal", {"sigma": 0.7}),
    Prior("Gamma", {"alpha": 2.0, "beta": 0.1}),
    Prior("Normal", {"mu": -0.2, "sigma": 0.4}),
    Prior("StudentT", {"nu": 4.0, "mu": 0.1, "sigma": 0.3}),
    Prior("Beta", {"alpha": 2.0, "beta": 3.0}),
]


@pytest.mark.parametrize("prior", PRIOR_CASES, ids=lambda p: p.dist)
def test_log_prior_is_scipys_with_the_jacobian(prior: Prior) -> None:
    x = np.linspace(-2, 2, 9)
    value = {"positive": np.exp(x), "unit": 1 / (1 + np.exp(-x)), "real": x}[prior.support]
    jacobian = {"positive": x, "unit": -np.logaddexp(0, x) - np.logaddexp(0, -x), "real": 0 * x}[prior.support]
    difference = log_prior(prior, x, tapes.FUNCTIONS) - (prior.scipy.logpdf(value) + jacobian)
    np.testing.assert_allclose(difference, difference[0], atol=1e-10)


def test_coordinates_are_undone_by_the_parameters(law: Law, rng: np.random.Generator) -> None:
    """The floor's coordinate is the mean loss over the settings and an amplitude's the (log) spread of its term there."""
    observed = oracles.observations(law)
    coordinates = Coordinates.of(law, observed)
    density = Density.of(law, observed, NOISES["normal"])
    x = density.start() + 0.1 * rng.standard_normal((50, density.size))
    draws = density.draws(x)
    values = {k: v[:, None] for k, v in draws.items() if k in law.parameters}
    values |= {k: v[None, :] for k, v in coordinates.settings.items()}
    losses = oracles.LAWS[law.name](values, values)
    scope = law.with_let(values)
    terms = {n: np.broadcast_to(t.evaluate(scope), losses.shape) for n, t in law.amplitudes.items()}
    if law.floors:
        # What is in proportion to no parameter, such as A/N_eff**alpha of repeated epochs, is no part of that mean.
        total = np.sum(list(terms.values()), axis=0)
        if len(terms) == len(law.loss.terms) - 1:
            np.testing.assert_allclose(draws[next(iter(law.floors))][:, None] + total, losses, rtol=1e-10)
        floor = next(iter(law.floors))
        gap = x[:, density.names.index(floor)] - total.mean(axis=1)
        np.testing.assert_allclose(draws[floor], coordinates.bend * np.logaddexp(0, gap / coordinates.bend), rtol=1e-9)
    for name in sorted(coordinates.by_spread):
        spread, own = terms[name].std(axis=1), x[:, density.names.index(name)]
        real = law.parameters[name].prior.support == "real"
        np.testing.assert_allclose(spread if real else np.log(spread), np.abs(own) if real else own, rtol=1e-8, atol=1e-8)
    for name in density.noise.parameters:
        np.testing.assert_allclose(draws[name], np.exp(x[:, density.names.index(name)]), rtol=1e-12)


def test_run_effects_are_in_units_of_their_spread(rng: np.random.Generator) -> None:
    law = load_law("chinchilla")
    density = Density.of(law, oracles.observations(law), NOISES["student"])
    x = density.start() + 0.1 * rng.standard_normal((5, density.size))
    draws = density.draws(x)
    np.testing.assert_allclose(draws["run_effect"], draws["sigma_run"][:, None] * x[:, len(density.names) :], rtol=1e-12)


def test_a_law_of_another_shape() -> None:
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
        total += stats.multivariate_normal(mean, covariance).logpdf(observed.log_loss)
        differences.append(density.function()(x)[0] - total)
    np.testing.assert_allclose(differences, differences[0], atol=1e-5)


@pytest.mark.parametrize("bent", [False, True])
def test_the_maps_own_density_is_known_without_inverting_it(bent: bool, rng: np.random.Generator) -> None:
    density = Density.of(load_law("ptpp-gate"), oracles.observations(load_law("ptpp-gate")), NOISES["normal"])
    whitening = whiten(density, shapes(density) if bent else [])
    assert (whitening.spine is not None) == bent
    z = rng.standard_normal((40, density.size))
    np.testing.assert_allclose(whitening.log_normal_of(z), whitening.log_normal(whitening.x(z)), atol=1e-6)


def test_a_spine_goes_on_rising_beyond_its_knots() -> None:
    """A flat end would send all of a tail to one place, and no inversion could tell its points apart."""
    t, x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.array([0.0, 0.9, 1.0, 1.1, 5.0])
    curve = _increasing(t, x)
    np.testing.assert_allclose(curve(t), x)
    fine = np.linspace(-2, 2, 400)
    assert (np.diff(curve(fine)) > 0).all()
    assert curve(t[[0, -1]], 1) == pytest.approx(np.maximum(curve(t[[0, -1]], 1), [0.45, 1.95]))


def test_a_spine_has_no_kink_where_it_needs_none() -> None:
    """At a kink of the spine's slope the density's gradient would jump, and the sampler take half its steps."""
    t = np.array([-3.0, -1.5, -0.5, 0.4, 1.7, 3.0])
    curve = _increasing(t, np.exp(0.4 * t))
    before, after = (curve(t[1:-1] + step, 2) for step in (-1e-9, 1e-9))
    np.testing.assert_allclose(before, after, atol=1e-6)
    assert (curve(np.linspace(-3, 3, 200), 1) > 0).all()


@pytest.mark.parametrize("seed", [20, 22])
def test_the_gates_ridge_is_followed_where_it_turns(seed: int) -> None:
    """Two stages leave (lam, zeta) on a hyperbola that only zeta's spine follows whole; others miss the turn at zeta = 0."""
    law = load_law("ptpp-gate")
    table = simulate(law, TRUTHS["ptpp-gate"], settings(law), seed=seed)
    density = Density.of(law, oracles.observed(law, table), NOISES["normal"])
    whitening = whiten(density, shapes(density))
    assert whitening.spine is not None
    assert density.names[whitening.spine] == "zeta"
    assert whitening.x(np.array([[-3.0, *np.zeros(density.size - 1)]]))[0, density.names.index("zeta")] < 0.15


@pytest.mark.parametrize(("skew", "tail"), [(0.0, 1.0), (-0.6, 0.8), (0.4, 1.2)])
def test_skewed_draws_are_made_normal(skew: float, tail: float, rng: np.random.Generator) -> None:
    """The likeliest transformation of many draws is the one they were made with, and of few a mild one."""
    z = rng.standard_normal(40_000)
    y = 0.3 + 2.0 * np.sinh((np.arcsinh(z) + skew) / tail)
    np.testing.assert_allclose(sinh_arcsinh(y), (0.3, 2.0, skew, tail), atol=0.06)
    assert abs(sinh_arcsinh(y[:10])[2]) <= 0.5
