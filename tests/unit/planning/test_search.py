"""The sweep along the tokens against brute force, on margins with any number of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.planning.search import Box, Intervals, Search, behind, intervals_of, narrowed
from tests.values import present


def waves(size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2, size), rng.uniform(0, 6, size), rng.uniform(-0.8, 0.8, size)


def margin(wave: tuple[np.ndarray, ...], draws: np.ndarray, x: np.ndarray) -> np.ndarray:
    speed, phase, level = (v[draws] for v in wave)
    return np.asarray(np.sin(speed * x + phase) - level)


@settings(max_examples=12)
@given(st.integers(1, 30), st.integers(0, 10_000))
def test_intervals_and_the_least_x_are_those_of_brute_force(size: int, seed: int) -> None:
    wave, grid, fine = waves(size, seed), np.linspace(0, 8, 161), np.linspace(0, 8, 4001)
    every = np.arange(size)
    intervals = intervals_of(grid, margin(wave, every[:, None], grid[None]), lambda d, x: margin(wave, d, x))
    good = margin(wave, every[:, None], fine[None]) >= 0
    inside = ((intervals.low[:, :, None] <= fine) & (fine <= intervals.high[:, :, None])).any(axis=0)
    # A wave can dip between two points of the grid. All other draws agree up to the error of the ends.
    flips = (np.diff(good, axis=1) != 0).sum(axis=1)
    seen = (np.diff(margin(wave, every[:, None], grid[None]) >= 0, axis=1) != 0).sum(axis=1)
    whole = flips == seen
    assert (inside[whole] != good[whole]).sum() <= flips.sum()
    if whole.all():
        counts = good.sum(axis=0)
        for k in range(1, size + 1):
            x = float(intervals.least([k])[0])
            if np.isfinite(x):
                assert intervals.holding(x) >= k
                reached = fine[counts >= k]
                assert not reached.size or x <= reached[0] + 1e-6
            else:
                assert counts.max() <= k


def test_ends_lie_where_the_condition_holds() -> None:
    wave, grid = waves(200, 3), np.linspace(0, 8, 81)
    every = np.arange(200)
    intervals = intervals_of(grid, margin(wave, every[:, None], grid[None]), lambda d, x: margin(wave, d, x))
    some = intervals.low <= intervals.high
    draws = np.broadcast_to(every, some.shape)[some]
    assert (margin(wave, draws, intervals.low[some]) >= 0).all()
    assert (margin(wave, draws, intervals.high[some]) >= 0).all()
    inner = intervals.low[some] > 0
    assert (margin(wave, draws[inner], intervals.low[some][inner] - 1e-7) < 0).all()


def test_intersections_hold_where_both_conditions_do() -> None:
    first = Intervals(np.array([[0.0, 1.0], [5.0, np.inf]]), np.array([[2.0, 3.0], [7.0, -np.inf]]))
    second = Intervals(np.array([[1.0, 4.0]]), np.array([[6.0, 9.0]]))
    both = first & second
    some = both.low[:, 0] <= both.high[:, 0]
    assert sorted(zip(both.low[some, 0], both.high[some, 0], strict=True)) == [(1.0, 2.0), (5.0, 6.0)]
    assert (both.low[:, 1] > both.high[:, 1]).all()
    assert both.several.tolist() == [True, False]


def test_the_place_where_most_draws_hold_together() -> None:
    intervals = Intervals(np.array([[0.0, 1.0, 2.0, np.inf]]), np.array([[1.0, 3.0, 4.0, -np.inf]]))
    assert intervals.most() == (1.0, 2)
    assert intervals.least([1, 2, 3]).tolist() == [0.0, 1.0, np.inf]
    empty = Intervals(np.array([[np.inf]]), np.array([[-np.inf]]))
    assert empty.most()[1] == 0
    assert empty.least([1]).tolist() == [np.inf]


@pytest.mark.parametrize("root", [0.2, 0.5, 0.999])
def test_a_root_is_narrowed_from_either_side(root: float) -> None:
    for inside, outside in ((0.0, 1.0), (1.0, 0.0)):
        sign = 1.0 if inside < outside else -1.0

        def value(i: np.ndarray, x: np.ndarray, sign: float = sign) -> np.ndarray:
            return sign * (root - x) ** 3

        end = narrowed(value, np.array([inside]), np.array([outside]))[0]
        assert value(np.zeros(1), np.array([end]))[0] >= 0
        assert end == pytest.approx(root, abs=1e-5)


# --- replay shares between those of the first grid ------------------------------------------------------------------------


class Near:
    """A margin that is positive within a width, which differs by draw, around one replay share."""

    def __init__(self, share: float, widths: np.ndarray) -> None:
        self.share, self.widths = share, widths

    def values(self, draws: np.ndarray, x: np.ndarray, r: float | np.ndarray, axes: int) -> np.ndarray:
        return np.asarray(behind(self.widths[draws], axes) - np.abs(np.asarray(r) - self.share) + 0 * x)


class Falling:
    def values(self, draws: np.ndarray, x: np.ndarray, r: float | np.ndarray, axes: int) -> np.ndarray:
        return np.asarray(behind(np.asarray(draws / 1e3), axes) - x + 0 * np.asarray(r))


def test_a_plan_between_the_shares_of_the_first_grid_is_found() -> None:
    box = Box(0.0, 5.0, (0.0, 1.0), None, None, lambda _: np.inf)
    share, draws = float(box.replays[15:17].mean()), np.arange(100)
    apart = float(np.diff(box.replays[15:17]).item())
    search = Search((Near(share, np.linspace(0.05, 0.6, 100) * apart),), box, lambda _: 0.0)
    at_most = int((search.counts(draws, box.log_tokens(), box.replays)).max())
    assert at_most < 50
    cheapest, impossible = search.cheapest(draws, [90, 101])
    assert abs(present(cheapest).r - share) < 0.11 * apart  # where the eleventh narrowest margin ends
    assert present(cheapest).count >= 90
    assert impossible is None
    lowest = present(search.lowest(draws, [90], Falling())[0])
    assert lowest.x == pytest.approx(5.0)
    assert lowest.count >= 90
