"""The map from normal draws to a density's coordinates: a true density, along a ridge path, with tails as draws have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import FitError
from bayeslaw.data.observations import Observations
from bayeslaw.engine.centring import tied_where_equal
from bayeslaw.engine.compiled import Function
from bayeslaw.engine.density import Density
from bayeslaw.engine.transport import (
    DROP,
    RidgeMap,
    Section,
    WithoutSpike,
    at_spike,
    curvature,
    find_best_mode,
    find_mode,
    find_ridge_map,
    increasing,
    map_along,
    root_of_inverse,
    sinh_arcsinh,
)
from bayeslaw.inference.sample import ridge_candidates
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from tests import oracles
from tests.errors import fails
from tests.twins import TRUTHS, settings, simulate
from tests.unit.engine.test_density import NOISES, assert_true_gradient, shapes
from tests.values import present

DATA = Path(__file__).parents[3] / "data"


def test_the_mode_of_as_few_rows_as_a_law_goes_through_is_not_at_their_noise_of_0() -> None:
    """The density grows like sigma^-n there, though the parameters have as little room."""
    law = load_law("chinchilla")
    few = pd.DataFrame({"N": [1e8, 2e8, 4e8], "D": [2e9, 8e9, 8e9], "loss": [3.655, 3.111, 2.924]})
    density = Density.of(law, Observations.of(law, bayeslaw.read_runs(few)), NOISES["normal-no-run"])
    logp, noise = density.function(), density.names.index("sigma_point")
    assert np.exp(find_mode(logp, density.start())[noise]) < 1e-5
    ridge_map = find_ridge_map(density, [])
    assert np.exp(ridge_map.x(np.zeros((1, density.size)))[0, noise]) == pytest.approx(0.005, rel=0.3)  # the prior's median
    assert ridge_map.ridge == noise
    assert at_spike(density, find_mode(logp, density.start()))
    assert not at_spike(density, ridge_map.x(np.zeros((1, density.size)))[0])
    without = WithoutSpike(density)
    x = density.start()
    assert_true_gradient(without, x)
    assert without(x)[0] - logp(x)[0] == pytest.approx(3 * x[noise])


def pooled(by: dict[str, str], sets: int = 6) -> Density:
    """Chinchilla on equal sets of runs, with some parameters by set."""
    law = load_law("chinchilla")
    rows = oracles.table(law, runs=2).drop(columns="run")
    runs = bayeslaw.read_runs(pd.concat([rows.assign(name=f"set {i}") for i in range(sets)], ignore_index=True))
    law = with_by(law, by)
    law = with_levels(law, levels_of(law, runs.frame))
    return Density.of(law, Observations.of(law, runs), NOISES["normal-no-run"])


def test_equal_pooled_values_are_tied_and_the_map_follows_their_spread() -> None:
    """Chains began where the density of values as themselves grows like spread^-n, and stayed: the R-hat of six sets was 2.5."""
    plain = pooled({"E": "name"})
    spread = plain.names.index("E_spread")
    mode = find_mode(plain.function(), plain.start())
    assert np.exp(mode[spread]) < 1e-5
    tied = tied_where_equal(plain)
    assert list(tied.coordinates.tied) == ["E"]
    ridge_map = find_ridge_map(tied, ridge_candidates(tied))
    assert ridge_map.ridge == spread
    z = np.random.default_rng(0).standard_normal((400, tied.size))
    itself = find_ridge_map(plain, ridge_candidates(plain))
    far, near = (
        np.ptp(np.quantile(d.function().many(m.x(z))[0] - m.log_normal_of(z), [0.1, 0.9]))
        for d, m in ((plain, itself), (tied, ridge_map))
    )
    assert near < 0.2 * far
    values = tied.draws(ridge_map.x(z))
    low, high = np.quantile(values["E_spread"], [0.05, 0.95])
    assert low < 5e-4 < high < 0.05
    floors = np.array([values[name] for name in tied.law.members["E"]])
    np.testing.assert_allclose(floors.std(axis=0)[values["E_spread"] < low], 0, atol=1e-3)


def test_floors_that_differ_are_not_tied() -> None:
    law = with_by(load_law("chinchilla"), {"E": "name"})
    rows = oracles.table(load_law("chinchilla"), runs=2).drop(columns="run")
    sets = [rows.assign(name=f"set {i}", loss=rows["loss"] * (1 + 0.1 * i)) for i in range(4)]
    runs = bayeslaw.read_runs(pd.concat(sets, ignore_index=True))
    law = with_levels(law, levels_of(law, runs.frame))
    density = Density.of(law, Observations.of(law, runs), NOISES["normal-no-run"])
    assert tied_where_equal(density) is density


@pytest.mark.parametrize("names", [("E",), ("A",), ("alpha",), ("E", "A", "alpha")])
def test_tied_values_are_another_view_of_the_same_density(names: tuple[str, ...]) -> None:
    plain = pooled(dict.fromkeys(("E", "A", "alpha"), "name"), sets=3)
    tied = Density.of(plain.law, plain.observed, plain.noise, coordinates=plain.coordinates.tying(names))
    rng = np.random.default_rng(1)

    def parameters(density: Density, x: Array) -> Array:
        """Logarithms of the law's parameters, and the coordinates of the noise."""
        draws = density.draws(x[None])
        own = [np.log(draws[name].item()) for name in density.law.parameters]
        return np.array([*own, *(x[density.names.index(name)] for name in density.noise.parameters)])

    def jacobian(density: Density, x: Array) -> Array:
        moves = 1e-5 * np.eye(x.size)
        return np.array([(parameters(density, x + m) - parameters(density, x - m)) / 2e-5 for m in moves]).T

    differences = []
    for _ in range(3):
        x = plain.start() + 0.1 * rng.standard_normal(plain.size)
        x[[plain.names.index(f"{name}_spread") for name in ("E", "A", "alpha")]] = -1.0
        target, y = parameters(plain, x), tied.start()
        for _ in range(30):  # Newton's method
            step = np.linalg.solve(jacobian(tied, y), target - parameters(tied, y))
            y += step / max(1.0, np.abs(step).max())
            if np.abs(step).max() < 1e-10:
                break
        np.testing.assert_allclose(parameters(tied, y), target, rtol=1e-9, atol=1e-9)
        views = ((plain, x), (tied, y))
        one, two = (d.function()(at)[0] - np.linalg.slogdet(jacobian(d, at))[1] for d, at in views)
        differences.append(two - one)
        assert_true_gradient(tied.function(), y)
    np.testing.assert_allclose(differences, differences[0], atol=1e-5)


def density_of(name: str) -> Density:
    return Density.of(load_law(name), oracles.observations(load_law(name)), NOISES["normal"])


@pytest.fixture(scope="module")
def gate() -> tuple[Density, RidgeMap]:
    """A density whose map follows a ridge path."""
    density = density_of("ptpp-gate")
    ridge_map = find_ridge_map(density, shapes(density))
    assert ridge_map.ridge is not None
    return density, ridge_map


@pytest.fixture(scope="module")
def affine() -> tuple[Density, RidgeMap]:
    """A density and a map without a ridge path."""
    density = density_of("chinchilla")
    ridge_map = find_ridge_map(density, [])
    assert ridge_map.ridge is None
    return density, ridge_map


@pytest.mark.slow
@pytest.mark.parametrize("refined", [False, True])
def test_the_density_along_a_ridge_path_has_the_jacobian_of_the_map(
    refined: bool, gate: tuple[Density, RidgeMap], rng: np.random.Generator
) -> None:
    """Refined or not, the mapped log density is that of x plus the log determinant of the map."""
    density, ridge_map = gate
    assert density.names[ridge_map.ridge or 0] not in ("E", "A", "B", "C")
    if refined:
        ridge_map = ridge_map.refined(rng.gamma(2.0, 0.3, (200, density.size)) - 0.6, density.size - 1)
    plain, mapped = density.function(), density.function(ridge_map.arrays)
    for _ in range(3):
        z = rng.standard_normal(density.size)
        determinant = np.linalg.slogdet(oracles.jacobian(lambda v: ridge_map.x(v[None])[0], z, 1e-4))[1]
        assert mapped(z)[0] == pytest.approx(plain(ridge_map.x(z[None])[0])[0] + determinant, abs=1e-6)
        assert_true_gradient(mapped, z)


def test_widths_are_constant_beyond_the_ends_of_a_ridge_path(gate: tuple[Density, RidgeMap]) -> None:
    """Else they make walls there at which chains diverge. The ridge coordinate goes on rising, and all others move equally."""
    density, ridge_map = gate
    assert ridge_map.ridge is not None
    for end, sign in ((ridge_map.knots[1], -1.0), (ridge_map.knots[-2], 1.0)):
        beyond, z = end + sign * np.arange(4.0), np.zeros((4, density.size))
        away = z + 0.7
        z[:, 0] = away[:, 0] = beyond
        x = ridge_map.x(z)
        assert np.all(np.diff(sign * x[:, ridge_map.ridge]) > 0)
        np.testing.assert_allclose(np.diff(x, 2, axis=0), 0, atol=1e-9)
        others = np.delete(ridge_map.x(away) - x, ridge_map.ridge, axis=1)
        np.testing.assert_allclose(others, others[:1].repeat(4, axis=0), rtol=1e-9, atol=1e-12)


def test_the_map_without_a_ridge_path_is_affine(affine: tuple[Density, RidgeMap], rng: np.random.Generator) -> None:
    density, ridge_map = affine
    z = rng.standard_normal((4, density.size))
    np.testing.assert_allclose(ridge_map.x(z), ridge_map.centre + z @ ridge_map.scale.T, rtol=1e-12)
    assert density.function(ridge_map.arrays)(z[0])[0] == pytest.approx(density.function()(ridge_map.x(z)[0])[0], abs=1e-9)
    assert_true_gradient(density.function(ridge_map.arrays), z[1], 1e-5)


@pytest.mark.slow
def test_the_map_has_the_curvature_of_the_mode() -> None:
    density = density_of("chinchilla")
    logp = density.function()
    mode = find_mode(logp, density.start())
    hessian = curvature(logp, mode)
    root = root_of_inverse(hessian)
    assert np.allclose(root, np.tril(root))
    assert np.all(np.diag(root) > 0)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(hessian), rtol=1e-6, atol=1e-12)
    assert np.abs(root.T @ logp(mode)[1]).max() < 0.02


class Formula(Function):
    """A log density of two coordinates given by a formula, without compiled code."""

    def __init__(self) -> None:
        self.size = 2


class Banana(Formula):
    """x_1 is normal around x_0^2 with the standard deviation exp(-x_0) / 5, x_0 standard normal: mode and curvature move."""

    def many(self, x: oracles.Array) -> tuple[oracles.Array, oracles.Array]:
        weight = 25 * np.exp(2 * x[:, 0])
        off = x[:, 1] - x[:, 0] ** 2
        value = -0.5 * x[:, 0] ** 2 - 0.5 * weight * off**2 + x[:, 0]
        return value, np.stack([-x[:, 0] - weight * off**2 + 2 * x[:, 0] * weight * off + 1, -weight * off], axis=1)


class Fold(Formula):
    """The mode of x_1, sqrt(1 - x_0), vanishes where x_0 passes 1, two thirds of a standard deviation from its middle."""

    def many(self, x: oracles.Array) -> tuple[oracles.Array, oracles.Array]:
        a, b = x.T
        value = -0.5 * (a / 1.5) ** 2 + b * (1 - a) - b**3 / 3
        return value, np.stack([-a / 2.25 - b, 1 - a - b**2], axis=1)


class Cliff(Banana):
    """No density from x_0 = .50005 on, half a step of `curvature` beyond a section at .5."""

    def many(self, x: oracles.Array) -> tuple[oracles.Array, oracles.Array]:
        value, gradient = super().many(x)
        beyond = x[:, 0] > 0.50005
        return np.where(beyond, -np.inf, value), np.where(beyond[:, None], np.nan, gradient)


@pytest.mark.parametrize("at", [0.1, 1.0, -2.0])
def test_the_others_mode_and_curvature_are_found_along_the_ridge(at: float) -> None:
    """From sections that are near, at some distance, and far."""
    banana, start = Banana(), np.array([0.0, 0.0])
    here = Section(start, curvature(banana, start), banana(start)[0], 0)
    section = present(here.next_section(banana, at))
    width = np.exp(-at) / 5
    assert section.others[0] == pytest.approx(at**2, abs=2e-3 * width)
    assert section.root[0, 0] == pytest.approx(width, rel=1e-4)
    assert section.level == pytest.approx(-0.5 * at**2 - np.log(5), abs=1e-4)


def test_a_ridge_path_ends_next_to_where_the_density_does() -> None:
    cliff, start = Cliff(), np.array([0.0, 0.0])
    here = Section(start, curvature(cliff, start), cliff(start)[0], 0)
    assert here.next_section(cliff, 0.4) is not None
    assert here.next_section(cliff, 0.5) is None


@pytest.mark.slow
def test_a_ridge_path_that_ends_at_a_fold_is_rejected() -> None:
    fold, start = Fold(), np.array([-1.0, np.sqrt(2.0)])
    middle = Section(start, curvature(fold, start), fold(start)[0], 0)
    assert middle.walk(fold, 0.3) == []
    away = middle.walk(fold, -0.3)
    assert max(section.level for section in [middle, *away]) - away[-1].level > DROP
    assert map_along(fold, start, curvature(fold, start), 0) is None


def test_flat_directions_count_as_wide_ones() -> None:
    root = root_of_inverse(np.diag([4.0, 0.0, -1e-9]))
    np.testing.assert_allclose(np.abs(root @ root.T), np.diag([0.25, 10.0, 10.0]), atol=1e-12)


def test_a_density_without_value_is_refused() -> None:
    def nowhere(x: oracles.Array) -> tuple[float, oracles.Array]:
        return float("nan"), np.full(x.size, np.nan)

    with fails("not-finite-at-start", kind=FitError):
        find_mode(nowhere, np.zeros(3))


@pytest.mark.parametrize("name", ["affine", "gate"])
def test_the_maps_own_density_is_known_without_inverting_it(
    name: str, request: pytest.FixtureRequest, rng: np.random.Generator
) -> None:
    density, ridge_map = request.getfixturevalue(name)
    z = rng.standard_normal((40, density.size))
    np.testing.assert_allclose(ridge_map.log_normal_of(z), ridge_map.log_normal(ridge_map.x(z)), atol=1e-6)


def test_a_ridge_coordinate_goes_on_rising_beyond_its_knots() -> None:
    """A flat end would send all of a tail to one place, and no inversion could tell its points apart."""
    t, x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.array([0.0, 0.9, 1.0, 1.1, 5.0])
    curve = increasing(t, x)
    np.testing.assert_allclose(curve(t), x)
    fine = np.linspace(-2, 2, 400)
    assert (np.diff(curve(fine)) > 0).all()
    assert curve(t[[0, -1]], 1) == pytest.approx(np.maximum(curve(t[[0, -1]], 1), [0.45, 1.95]))


def test_a_ridge_coordinate_has_no_needless_kink() -> None:
    """At a kink of its slope the density's gradient would jump, which would halve the sampler's step size."""
    t = np.array([-3.0, -1.5, -0.5, 0.4, 1.7, 3.0])
    curve = increasing(t, np.exp(0.4 * t))
    before, after = (curve(t[1:-1] + step, 2) for step in (-1e-9, 1e-9))
    np.testing.assert_allclose(before, after, atol=1e-6)
    assert (curve(np.linspace(-3, 3, 200), 1) > 0).all()


@pytest.mark.slow
def test_the_gates_ridge_is_followed_where_it_turns() -> None:
    """Two stages leave (lam, zeta) on a hyperbola that only the path along zeta follows whole; others miss the turn at zeta = 0."""
    law = load_law("ptpp-gate")
    table = simulate(law, TRUTHS["ptpp-gate"], settings(law), seed=20)
    density = Density.of(law, oracles.observed(law, table), NOISES["normal"])
    ridge_map = find_ridge_map(density, shapes(density))
    assert ridge_map.ridge is not None
    assert density.names[ridge_map.ridge] == "zeta"
    assert ridge_map.x(np.array([[-3.0, *np.zeros(density.size - 1)]]))[0, density.names.index("zeta")] < 0.15


@pytest.mark.parametrize(("skew", "tail"), [(0.0, 1.0), (-0.6, 0.8), (0.4, 1.2)])
def test_skewed_draws_are_made_normal(skew: float, tail: float, rng: np.random.Generator) -> None:
    """The likeliest transformation of many draws is the one they were made with, and of few a mild one."""
    z = rng.standard_normal(40_000)
    y = 0.3 + 2.0 * np.sinh((np.arcsinh(z) + skew) / tail)
    np.testing.assert_allclose(sinh_arcsinh(y), (0.3, 2.0, skew, tail), atol=0.06)
    assert abs(sinh_arcsinh(y[:10])[2]) <= 0.5


class TwoModes:
    """Normals of weight `left` around -5 and 1 - `left` around 5, and starts as a density has them: the first on the left."""

    law, names = load_law("chinchilla"), ("x",)

    def __init__(self, left: float) -> None:
        self.logs = np.log([left, 1 - left])

    def start(self, rng: np.random.Generator | None = None) -> oracles.Array:
        return np.array([-4.0]) if rng is None else rng.uniform(-8, 8, 1)

    def __call__(self, x: oracles.Array) -> tuple[float, oracles.Array]:
        parts = self.logs - 0.5 * (x[0] - np.array([-5.0, 5.0])) ** 2
        weights = np.exp(parts - np.logaddexp.reduce(parts))
        return float(np.logaddexp.reduce(parts)), -(weights @ (x[0] - np.array([[-5.0], [5.0]])))

    def many(self, x: oracles.Array) -> tuple[oracles.Array, oracles.Array]:
        values, slopes = zip(*(self(row) for row in x), strict=True)
        return np.array(values), np.array(slopes)


@pytest.mark.parametrize(("left", "at"), [(0.3, -5.0), (0.01, 5.0)])
def test_the_mode_is_another_only_where_that_has_most_of_the_mass(left: float, at: float) -> None:
    both: Any = TwoModes(left)
    mode, hessian = find_best_mode(both, both)
    assert mode == pytest.approx([at], abs=1e-3)
    assert hessian == pytest.approx(1.0, rel=1e-3)


def test_a_law_that_misses_its_runs_begins_at_the_better_of_its_fits() -> None:
    """New tokens that close the gap and those that wash out the pre-training change places on these runs."""
    runs = bayeslaw.read_runs(
        DATA / "tinycpt3" / "runs.csv", "seed == 0 and domain == 'target' and anneal == 'annealed' and ptpp <= 40"
    )
    law = load_law("plateau-target")
    density = Density.of(law, Observations.of(law, runs), NOISES["normal"])
    logp = density.function()
    alone = find_mode(logp, density.start(), law.outcome)
    assert logp(find_best_mode(density, logp)[0])[0] > logp(alone)[0] + 100
