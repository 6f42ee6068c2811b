"""Maps matched to the gradients of a density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from bayeslaw.core.arrays import Array
from bayeslaw.engine.maps import Map
from bayeslaw.engine.matching import ENOUGH, matched, rematched, replaced_if_far, update
from bayeslaw.engine.transport import RidgeMap, affine

SIZE = 12


@dataclass(frozen=True)
class NormalDensity:
    """A normal density as `Density` is used by a match, -inf where the first coordinate is beyond a wall."""

    mean: Array
    precision: Array
    wall: float = np.inf

    @property
    def size(self) -> int:
        return self.mean.size

    def function(self, arrays: Map) -> Mapped:
        return Mapped(self, arrays[0], np.tril(arrays[1]))


@dataclass(frozen=True)
class Mapped:
    density: NormalDensity
    centre: Array
    scale: Array

    def many(self, z: Array) -> tuple[Array, Array]:
        mean, precision = self.density.mean, self.density.precision
        x = self.centre + z @ self.scale.T
        value = -0.5 * np.einsum("si,ij,sj->s", x - mean, precision, x - mean)
        beyond = x[:, 0] > self.density.wall
        return np.where(beyond, -np.inf, value), np.where(beyond[:, None], np.nan, (mean - x) @ precision @ self.scale)


@pytest.fixture
def normal() -> NormalDensity:
    """Standard deviations from 0.3 to 3, correlated."""
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0]
    return NormalDensity(rng.standard_normal(SIZE), (turn / np.geomspace(0.3, 3, SIZE) ** 2) @ turn.T)


def assert_standard(density: NormalDensity, ridge_map: RidgeMap, within: float) -> None:
    """The density's covariance and mean are those of the map's normal, in its own units."""
    scale = np.tril(ridge_map.scale)
    np.testing.assert_allclose(scale.T @ density.precision @ scale, np.eye(SIZE), atol=within)
    np.testing.assert_allclose(np.linalg.solve(scale, ridge_map.centre - density.mean), 0, atol=within)


def test_gradients_of_a_normal_give_it_from_few_points(normal: NormalDensity) -> None:
    """A covariance of as few draws would be off by half."""
    points = np.random.default_rng(2).standard_normal((2 * SIZE, SIZE))
    centre, covariance = update(points, -(points - normal.mean) @ normal.precision, 1e8)
    np.testing.assert_allclose(covariance @ normal.precision, np.eye(SIZE), atol=1e-3)
    np.testing.assert_allclose(centre, normal.mean, atol=1e-3)


def test_the_last_normal_counts_as_much_as_the_weight_says(normal: NormalDensity) -> None:
    """In one dimension S G S weight + S = 1 + C weight, which has a solution on paper."""
    points = np.array([[-1.0], [1.0]])
    centre, covariance = update(points, -points / 4, 2.0)  # a variance of 4, so C = 1 and G = 1/16
    assert covariance.item() == pytest.approx((-1 + np.sqrt(1 + 4 * 3 / 8)) / (2 / 8))
    assert centre.item() == 0
    centre, covariance = update(points, -points / 4, 1e-9)
    assert covariance.item() == pytest.approx(1)


@pytest.mark.parametrize("wall", [np.inf, 4.0])
def test_a_bad_map_is_matched_to_the_density(normal: NormalDensity, wall: float) -> None:
    density: Any = NormalDensity(normal.mean, normal.precision, wall)
    found = matched(density, affine(np.full(SIZE, 2.0), np.eye(SIZE)), 3)
    assert_standard(density, found, 0.1)
    np.testing.assert_array_equal(found.centre, matched(density, affine(np.full(SIZE, 2.0), np.eye(SIZE)), 3).centre)


def test_a_map_stays_where_the_density_is_nowhere_finite(normal: NormalDensity) -> None:
    density: Any = NormalDensity(normal.mean, normal.precision, -np.inf)
    before = affine(np.zeros(SIZE), np.eye(SIZE))
    assert matched(density, before, 3) is before


def test_draws_become_standard_normal(normal: NormalDensity) -> None:
    rng = np.random.default_rng(4)
    root = np.linalg.cholesky(np.linalg.inv(normal.precision))
    before: Any = affine(normal.mean + 1, np.eye(SIZE))
    z = normal.mean + rng.standard_normal((3 * SIZE, SIZE)) @ root.T - before.centre
    density: Any = normal
    after, standard = rematched(density, before, z)
    assert_standard(normal, after, 0.1)  # the map before counts a little
    np.testing.assert_allclose(after.x(standard), before.x(z), rtol=1e-8)


@pytest.mark.parametrize(("wrong", "replaced"), [(0.1, True), (0.9, False)])
def test_a_map_far_from_the_draws_is_replaced_by_their_moments(normal: NormalDensity, wrong: float, replaced: bool) -> None:
    """At a tenth of the right width, squared z of the draws are hundreds."""
    root = np.linalg.cholesky(np.linalg.inv(normal.precision))
    draws = normal.mean + np.random.default_rng(5).standard_normal((4000, SIZE)) @ root.T
    before, density = affine(normal.mean, wrong * root), cast("Any", normal)
    z = np.linalg.solve(before.scale, (draws - before.centre).T).T
    after, standard = replaced_if_far(density, before, z)
    assert (after is not before) == replaced
    np.testing.assert_allclose(after.x(standard), draws, rtol=1e-8)
    if replaced:
        assert_standard(normal, after, 0.1)  # of 4,000 draws covariances have an sd of .02
        still = np.repeat(z[:4], 1000, axis=0)  # four chains that stand still have no covariance
        assert replaced_if_far(density, before, still)[0] is before
        assert replaced_if_far(density, before, z[: ENOUGH * SIZE - 1])[0] is before
