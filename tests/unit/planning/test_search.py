"""The sweep along the tokens against brute force, on margins with any number of intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.planning.search import Box, Constraint, Intervals, Search, behind, intervals_of, narrowed
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


# --- searches with solutions by hand ---------------------------------------------------------------------------------------


class Plane:
    """The quantity rise x + slope r, the same for all draws."""

    def __init__(self, rise: float, slope: float) -> None:
        self.rise, self.slope = rise, slope

    def values(self, draws: np.ndarray, x: np.ndarray, r: float | np.ndarray, axes: int) -> np.ndarray:
        return np.asarray(behind(np.zeros(draws.size), axes) + self.rise * x + self.slope * np.asarray(r))


LEVELS = np.random.default_rng(5).permutation(np.linspace(0.5, 3.5, 60))
DRAWS = np.arange(60)[::-2]  # every other draw, the last first
SORTED = np.sort(LEVELS[DRAWS])
# Draws satisfy it from x = LEVELS - r on.
ENOUGH = Constraint("enough", Plane(-1.0, -1.0), -LEVELS)


def box(budget: float = np.inf, x: np.ndarray | None = None, r: np.ndarray | None = None) -> Box:
    return Box(0.0, 5.0, (0.0, 0.4), x, r, lambda _: budget)


@pytest.mark.parametrize(("price", "share"), [(0.5, 0.4), (2.0, 0.0)])
def test_the_cheapest_tokens_are_by_the_price_of_replay(price: float, share: float) -> None:
    search = Search((ENOUGH,), box(), lambda r: price * r)
    for k, found in zip((1, 20, 30), search.cheapest(DRAWS, [1, 20, 30]), strict=True):
        optimum = present(found)
        assert (optimum.r, optimum.x) == pytest.approx((share, SORTED[k - 1] - share), abs=1e-6)
        assert optimum.value == pytest.approx(optimum.x + price * share)
        assert optimum.count == k


def test_listed_tokens_and_shares_are_all_compared() -> None:
    x, r = np.array([*SORTED[[4, 9, 14, 19]], 4.0]), np.array([0.0, 0.3])
    search = Search((ENOUGH,), box(budget=SORTED[19], x=x, r=r), lambda r: 2 * r)
    for k, found in zip((5, 6, 20, 21), search.cheapest(DRAWS, [5, 6, 20, 21]), strict=True):
        held = [(a + 2 * b, a, b) for a in x for b in r if (a + b >= SORTED).sum() >= k and a <= SORTED[19]]
        optimum = present(found)
        assert (optimum.value, optimum.x, optimum.r) == min(held)
        assert optimum.count == (optimum.x + optimum.r >= SORTED).sum()
    assert search.cheapest(DRAWS, [30]) == [None]
    shares = Search((ENOUGH,), box(r=np.array([0.0, 0.2, 0.4])), lambda r: 0.5 * r).cheapest(DRAWS, [10])
    assert (present(shares[0]).r, present(shares[0]).x) == pytest.approx((0.4, SORTED[9] - 0.4))  # listed shares, any tokens


def test_no_plan_exceeds_the_budget() -> None:
    search = Search((ENOUGH,), box(budget=SORTED[9] - 0.4 + 1e-3), lambda r: 0.5 * r)
    within, beyond = search.cheapest(DRAWS, [10, 11])
    assert present(within).x == pytest.approx(SORTED[9] - 0.4, abs=1e-6)
    assert beyond is None
    assert present(search.most_probable(DRAWS)).count == 10
    nothing = Search((ENOUGH,), box(budget=-1.0), lambda r: 0.0)
    assert nothing.cheapest(DRAWS, [1]) == [None]
    assert nothing.most_probable(DRAWS) is None


@pytest.mark.parametrize("budget", [np.inf, 1.7])
def test_the_lowest_loss_is_where_the_last_needed_draw_or_the_budget_ends(budget: float) -> None:
    """Draws allow tokens up to their level, and replay costs loss."""
    limited = Constraint("limited", Plane(1.0, 0.0), LEVELS)
    search = Search((limited,), box(budget=budget), lambda _: 0.0)
    found = search.lowest(DRAWS, [10, 25], Plane(-1.0, 0.3))
    for k, optimum in zip((10, 25), map(present, found), strict=True):
        end = min(np.sort(LEVELS[DRAWS])[-k], budget)
        assert (optimum.x, optimum.r) == pytest.approx((end, 0.0), abs=5e-3)
        assert optimum.x <= end + 1e-9
        assert end < budget or optimum.x == pytest.approx(budget, abs=1e-9)
        assert optimum.value == pytest.approx(-optimum.x)
        assert optimum.count == (LEVELS[DRAWS] >= optimum.x).sum() >= k


def test_a_loss_that_rises_is_lowest_at_the_fewest_tokens() -> None:
    found = present(Search((), box(), lambda _: 0.0).lowest(DRAWS, [10], Plane(1.0, -0.3))[0])
    assert (found.x, found.r, found.value) == (0.0, 0.4, -0.12)


def test_the_least_replay_at_fixed_tokens() -> None:
    x = np.array([2.0])
    needs = [SORTED[SORTED <= 2.0].size, SORTED[SORTED <= 2.4].size, SORTED[SORTED <= 2.4].size + 1]
    first, last, none = Search((ENOUGH,), box(x=x), lambda _: 0.0).least_replay(DRAWS, needs)
    assert (present(first).r, present(first).count) == (0.0, needs[0])
    assert present(last).r == pytest.approx(SORTED[needs[1] - 1] - 2.0, abs=1e-6)
    assert none is None
    listed = np.array([0.0, 0.1, 0.35, 0.4])
    needs.append(SORTED[SORTED <= 2.1].size)
    found = Search((ENOUGH,), box(x=x, r=listed), lambda _: 0.0).least_replay(DRAWS, needs)
    expected = [next((r for r in listed if (2.0 + r >= SORTED).sum() >= k), None) for k in needs]
    assert [None if o is None else o.r for o in found] == expected
    falling = replace(box(x=x), budget=lambda r: 2.0 + r - 0.2)  # replayed tokens are cheap
    assert present(Search((ENOUGH,), falling, lambda _: 0.0).least_replay(DRAWS, [1])[0]).r == pytest.approx(0.2, abs=1e-6)
