"""The search for tokens and a replay share at which enough draws satisfy every constraint together.

A constraint is a loss with an upper limit. Its margin is the log limit less the log loss, and a draw satisfies it where the margin
is not negative. Along x, the log of the tokens, each draw satisfies all constraints on a union of intervals. Signs of the margins
on a grid bracket the ends of these intervals, and a root finder narrows them. The smallest x with

    #{draws : all constraints hold at x} >= ceil(confidence S)

is then the start of one of the intervals: after sorting the starts l and the ends h, the number of draws that hold at l_i is the
number of starts up to l_i less the number of ends before it. No derivative of a probability is needed, which a sample does not
have. The replay share is searched on a grid that is refined around its best point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.threads import one_blas_thread

REPLAYS, TOKENS = 33, 40  # points of the first grid: replay shares, log tokens
ROUNDS = ((0.5, 12), (0.15, 12), (0.05, 12))  # of refinement: half-width of the window of log tokens, points in it
LOSS_POINTS, LOSS_ROUNDS = 9, 4  # points of a window and rounds of refinement where a loss is minimised
TIE = 0.01  # of the log of the price: listed replay shares within it of the cheapest are all solved exactly
TIGHT = 1e-9  # of log tokens, to which the ends of intervals are narrowed
ROUNDING = 1e-12  # of log tokens, by which a plan may exceed a budget
CACHED = 150_000  # values computed at once, so that they stay in a core's cache


class Quantity(Protocol):
    """A quantity that depends on the draw, the log tokens and the replay share."""

    def values(self, draws: Index, x: Array, r: float | Array, axes: int) -> Array:
        """Values of draws (s,) at log tokens x and replay shares r.

        With `axes=0` each draw has its own place: x is (s,), r is (s,) or a number, and values are (s,). With `axes=2` all draws
        share a grid: x is (n,), r is (R, 1), and values are (s, R, n).
        """


@dataclass(frozen=True, eq=False)
class Constraint:
    """A loss with an upper limit; as a quantity, its margin: log limit less log loss."""

    name: str
    loss: Quantity
    limit: Array  # log of the largest loss allowed in each draw, (S,)

    def values(self, draws: Index, x: Array, r: float | Array, axes: int) -> Array:
        return np.asarray(behind(self.limit[draws], axes) - self.loss.values(draws, x, r, axes))


@dataclass(frozen=True, eq=False)
class MedianOverDraws:
    """The median of a quantity over draws, as a quantity of a single draw: the deterministic plan goes by it."""

    quantity: Quantity
    draws: Index

    def values(self, draws: Index, x: Array, r: float | Array, axes: int) -> Array:
        if axes == 0:
            places = zip(x, np.broadcast_to(r, x.shape), strict=True)
            return np.array([np.median(values_at(self.quantity, self.draws, float(a), float(b))) for a, b in places])
        values = values_on_grid([self.quantity], self.draws, x, np.ravel(r))[0]  # (R, S, n)
        return np.median(np.ascontiguousarray(values.transpose(0, 2, 1)), axis=2)[None]


def behind(values: Array, axes: int) -> Array:
    """Values of draws (s,) with further axes of length 1, so that they broadcast as `Quantity.values` has its axes."""
    return values[(slice(None), *[None] * axes)]


def values_at(quantity: Quantity, draws: Index, x: float, r: float) -> Array:
    """Values (s,) of draws at one place.

    Parameters
    ----------
    quantity, draws, x, r
        As in `Quantity`, x and r each a number.
    """
    return quantity.values(draws, np.array([x]), np.array([[r]]), 2)[:, 0, 0]


def values_on_grid(quantities: Sequence[Quantity], draws: Index, x: Array, r: Array) -> list[Array]:
    """Values (R, s, n) of each quantity, computed by several threads in blocks of draws.

    Parameters
    ----------
    quantities, draws, x, r
        As in `Quantity`, with x (n,) and r (R,).
    """
    tables = [np.empty((r.size, draws.size, x.size)) for _ in quantities]
    size = max(1, CACHED // (r.size * x.size))

    def fill(start: int) -> None:
        block = slice(start, start + size)
        for quantity, table in zip(quantities, tables, strict=True):
            table[:, block] = quantity.values(draws[block], x, r[:, None], 2).transpose(1, 0, 2)

    _in_threads(fill, range(0, draws.size, size))
    return tables


def _in_threads[T](work: Callable[[int], T], items: range) -> list[T]:
    if len(items) == 1:
        return [work(items[0])]
    with one_blas_thread(), ThreadPoolExecutor() as pool:
        return list(pool.map(work, items))


@dataclass(frozen=True, eq=False)
class Box:
    """The tokens and replay shares that a plan may have."""

    low: float  # log tokens
    high: float
    replay: tuple[float, float]  # smallest and largest share
    listed_x: Array | None  # the only log tokens and replay shares allowed, where not all between the ends are
    listed_r: Array | None
    budget: Callable[[float], float]  # log of the most tokens that the budgets allow at a replay share

    def log_tokens(self, around: float | None = None, half: float = 0.0, points: int = TOKENS) -> Array:
        """Log tokens of a grid, all over the box or within half a width around a place."""
        if self.listed_x is not None:
            return self.listed_x
        low = self.low if around is None else max(self.low, around - half)
        high = self.high if around is None else min(self.high, around + half)
        return np.linspace(low, high, points) if low < high else np.array([low])

    @property
    def replays(self) -> Array:
        """Replay shares of the first grid, denser at the ends, where replay matters most."""
        low, high = self.replay
        if self.listed_r is not None:
            return self.listed_r
        if low == high:
            return np.array([low])
        return low + (high - low) * 0.5 * (1 - np.cos(np.linspace(0, np.pi, REPLAYS)))

    @property
    def step(self) -> float:
        """Widest distance between replay shares of the first grid; 0 where replay is fixed or listed."""
        return 0.0 if self.listed_r is not None or self.replay[0] == self.replay[1] else float(np.diff(self.replays).max())

    def near(self, r: float, step: float) -> Array:
        """Five replay shares up to two thirds of a step from r, within the box; r alone where the step is 0."""
        if not step:
            return np.array([r])
        return np.unique(np.clip(r + step * np.array([-2, -1, 0, 1, 2]) / 3, *self.replay))


@dataclass(frozen=True)
class Optimum:
    """Where a search ended: log tokens, replay share, the minimised value, and how many searched draws satisfy every constraint."""

    x: float
    r: float
    value: float
    count: int


@dataclass(frozen=True, eq=False)
class Search:
    """The searches of a plan: for the cheapest tokens, the least replay, the lowest loss, or the highest probability."""

    margins: tuple[Quantity, ...]  # a draw satisfies a constraint where its margin is not negative
    box: Box
    log_price: Callable[[float], float]  # log of the price of a token at a replay share, in the unit of the objective

    def cheapest(self, draws: Index, needed: Sequence[int]) -> list[Optimum | None]:
        """For each number of draws needed, the cheapest tokens at which as many satisfy every constraint; None where none are."""
        if self.box.listed_x is not None:
            return self._cheapest_listed(draws, needed)
        replays = self.box.replays
        least = np.array([intervals.least(needed) for intervals in self.intervals(draws, self.box.log_tokens(), replays)])
        prices = least + self._log_prices(replays)[:, None]
        between = self._between(draws, prices.min(axis=0))
        optima: list[Optimum | None] = []
        for k, x, price in zip(needed, least.T, prices.T, strict=True):
            near = [int(price.argmin())] if self.box.step else np.flatnonzero(price <= price.min() + TIE)
            starts = [(float(x[i]), float(replays[i])) for i in near if np.isfinite(price[i])]
            if not starts and between is not None and between.count >= k:
                starts = [(between.x, between.r)]
            exact = (self._exact(draws, k, self._refined_replay(draws, k, *start)) for start in starts)
            optima.append(min((optimum for optimum in exact if optimum is not None), key=lambda o: o.value, default=None))
        return optima

    def _between(self, draws: Index, least: Array) -> Optimum | None:
        """Where most draws satisfy every constraint, to start from if the first grid of replay shares has no plan.

        `least` has the least value on the grid for each number of draws needed, inf where it has no plan. The place is None where
        the grid has all plans, and where replay shares are fixed or listed, so that there are no others.
        """
        return self.most_probable(draws) if self.box.step and not np.isfinite(least).all() else None

    def _refined_replay(self, draws: Index, k: int, x: float, r: float) -> float:
        """The replay share of the cheapest plan, followed from log tokens and a share by smaller and smaller steps."""
        step = self.box.step
        for half, points in ROUNDS if step else ():
            near = self.box.near(r, step)
            least = np.array([i.least([k])[0] for i in self.intervals(draws, self.box.log_tokens(x, half, points), near)])
            price = least + self._log_prices(near)
            best = int(price.argmin())
            if np.isfinite(price[best]):
                x, r = float(least[best]), float(near[best])
            step /= 3
        return r

    def _exact(self, draws: Index, k: int, r: float) -> Optimum | None:
        """The cheapest plan at one replay share, with ends of intervals at the roots."""
        intervals = self.intervals(draws, self.box.log_tokens(), np.array([r]), exact=True)[0]
        x = float(intervals.least([k])[0])
        return Optimum(x, r, x + self.log_price(r), intervals.holding(x)) if np.isfinite(x) else None

    def _cheapest_listed(self, draws: Index, needed: Sequence[int]) -> list[Optimum | None]:
        replays, x = self.box.replays, self.box.log_tokens()
        counts = self.counts(draws, x, replays)
        price = x[None, :] + self._log_prices(replays)[:, None]
        optima: list[Optimum | None] = []
        for k in needed:
            allowed = np.where(counts >= k, price, np.inf)
            i, j = divmod(int(allowed.argmin()), x.size)
            optimum = Optimum(float(x[j]), float(replays[i]), float(price[i, j]), int(counts[i, j]))
            optima.append(optimum if np.isfinite(allowed[i, j]) else None)
        return optima

    def least_replay(self, draws: Index, needed: Sequence[int]) -> list[Optimum | None]:
        """For each number of draws needed, the least replay share with which as many satisfy every constraint, at fixed tokens."""
        assert self.box.listed_x is not None
        x = float(self.box.listed_x[0])
        if self.box.listed_r is None:
            shares = self.along_replay(draws).least(needed)
        else:
            counts = self.counts(draws, self.box.listed_x, self.box.listed_r)[:, 0]
            shares = np.array([min(self.box.listed_r[counts >= k], default=np.inf) for k in needed])
        optima: list[Optimum | None] = []
        for r in map(float, shares):
            count = int(self.counts(draws, self.box.listed_x, np.array([r]))[0, 0]) if np.isfinite(r) else 0
            optima.append(Optimum(x, r, r, count) if np.isfinite(r) else None)
        return optima

    def along_replay(self, draws: Index) -> Intervals:
        """Intervals of the replay share on which each draw satisfies every constraint within the budgets, at fixed tokens."""
        assert self.box.listed_x is not None
        x, r = self.box.listed_x[:1], self.box.replays
        whole = Intervals(np.full((1, draws.size), r[0]), np.full((1, draws.size), r[-1]))
        for margin, values in zip(self.margins, values_on_grid(self.margins, draws, x, r), strict=True):

            def at(d: Index, shares: Array, margin: Quantity = margin) -> Array:
                return margin.values(draws[d], np.full(d.size, x[0]), shares, 0)

            whole = whole & intervals_of(r, values[:, :, 0].T, at)

        def budget(_: Index, shares: Array) -> Array:
            return np.minimum(self._budget_left(x, shares)[:, 0], 1.0)  # finite without a budget too, as a root finder needs

        return whole & intervals_of(r, budget(np.zeros(1, np.int64), r)[None], budget)

    def lowest(self, draws: Index, needed: Sequence[int], value: Quantity) -> list[Optimum | None]:
        """For each number of draws needed, the plan with the lowest value that as many stay under, satisfying every constraint."""
        x, replays = self._with_budgets(self.box.log_tokens()), self.box.replays
        grid = self._levels(draws, x, replays, needed, value)
        between = self._between(draws, grid.min(axis=(1, 2)))
        optima: list[Optimum | None] = []
        for k, levels in zip(needed, grid, strict=True):
            places, shares = x, replays
            if not np.isfinite(levels.min()) and between is not None and between.count >= k:
                places, shares = np.sort(np.append(x, between.x)), np.array([between.r])
                levels = self._levels(draws, places, shares, [k], value)[0]
            i, j = divmod(int(levels.argmin()), places.size)
            best = Optimum(float(places[j]), float(shares[i]), float(levels[i, j]), k)
            gap = float(np.diff(x).max(initial=0.0))
            optima.append(self._refined_loss(draws, k, value, best, gap) if np.isfinite(best.value) else None)
        return optima

    def _refined_loss(self, draws: Index, k: int, value: Quantity, best: Optimum, half: float) -> Optimum:
        """The plan with the lowest value, followed from a place in smaller and smaller windows, at first `half` as wide."""
        step = self.box.step
        for _ in range(LOSS_ROUNDS if self.box.listed_x is None else 0):
            near, window = self.box.near(best.r, step), self._with_budgets(self.box.log_tokens(best.x, half, LOSS_POINTS))
            levels = self._levels(draws, window, near, [k], value)[0]
            i, j = divmod(int(levels.argmin()), window.size)
            if levels[i, j] <= best.value:
                best = Optimum(float(window[j]), float(near[i]), float(levels[i, j]), k)
            half, step = half / 3, step / 3
        kept = self.satisfied(draws, best.x, best.r).all(axis=0) & (values_at(value, draws, best.x, best.r) <= best.value)
        return replace(best, count=int(kept.sum()))

    def _levels(self, draws: Index, x: Array, r: Array, needed: Sequence[int], value: Quantity) -> Array:
        """The value (needed, R, n) that so many draws stay under while they satisfy every constraint; inf where fewer do."""
        values, *margins = values_on_grid([value, *self.margins], draws, x, r)
        for margin in margins:
            values[margin < 0] = np.inf
        order = [k - 1 for k in needed]
        levels = np.partition(np.ascontiguousarray(values.transpose(0, 2, 1)), order, axis=2)[:, :, order].transpose(2, 0, 1)
        return np.where(self._budget_left(x, r) < 0, np.inf, levels)

    def most_probable(self, draws: Index) -> Optimum | None:
        """Where most draws satisfy every constraint; None where no draw does anywhere."""
        best = self._most(draws, self.box.log_tokens(), self.box.replays)
        if not best.count:
            return None
        step = self.box.step
        for half, points in ROUNDS if step else ():
            best = self._most(draws, self.box.log_tokens(best.x, half, points), self.box.near(best.r, step))
            step /= 3
        return self._most(draws, self.box.log_tokens(), np.array([best.r]), exact=True)

    def _most(self, draws: Index, x: Array, r: Array, exact: bool = False) -> Optimum:
        """Where most draws satisfy every constraint, if only at replay shares r and at log tokens from the first to the last of x.

        Tokens that are listed are looked at themselves. The number of draws is 0 where none does.
        """
        if self.box.listed_x is not None:
            counts = self.counts(draws, x, r)
            i, j = divmod(int(counts.argmax()), x.size)
            place, count = float(x[j]), int(counts[i, j])
        else:
            tops = [intervals.most() for intervals in self.intervals(draws, x, r, exact)]
            i = int(np.argmax([count for _, count in tops]))
            place, count = tops[i]
        return Optimum(place, float(r[i]), place + self.log_price(float(r[i])), count)

    def intervals(self, draws: Index, x: Array, r: Array, exact: bool = False) -> list[Intervals]:
        """At each replay share, the intervals of log tokens on which each draw satisfies every constraint within the budget.

        Their ends are narrowed to the roots if `exact`, else interpolated between points of the grid x.
        """
        tables = values_on_grid(self.margins, draws, x, r)

        def at_share(i: int) -> Intervals:
            share, size = float(r[i]), (1, draws.size)
            top = min(float(x[-1]), self.box.budget(share))
            whole = Intervals(np.full(size, x[0] if top >= x[0] else np.inf), np.full(size, top if top >= x[0] else -np.inf))
            for margin, table in zip(self.margins, tables, strict=True):
                at = (lambda d, places, m=margin: m.values(draws[d], places, share, 0)) if exact else None
                whole = whole & intervals_of(x, table[i], at)
            return whole

        return _in_threads(at_share, range(r.size))

    def counts(self, draws: Index, x: Array, r: Array) -> Index:
        """How many draws satisfy every constraint at each place, (R, n); 0 beyond the budget."""
        good = np.ones((r.size, draws.size, x.size), dtype=bool)
        for margin in values_on_grid(self.margins, draws, x, r):
            good &= margin >= 0
        return np.where(self._budget_left(x, r) >= 0, good.sum(axis=1), 0)

    def satisfied(self, draws: Index, x: float, r: float) -> NDArray[np.bool_]:
        """Whether each constraint holds in each draw, (constraints, s)."""
        return np.array([values_at(m, draws, x, r) >= 0 for m in self.margins]).reshape(len(self.margins), draws.size)

    def _log_prices(self, r: Array) -> Array:
        return np.array([self.log_price(float(share)) for share in r])

    def _budget_left(self, x: Array, r: Array) -> Array:
        """Log of the most tokens that the budget allows less log tokens, (R, n); not negative where a plan may lie."""
        tops = np.array([self.box.budget(float(share)) for share in r])
        return tops[:, None] - x[None, :] + ROUNDING

    def _with_budgets(self, x: Array) -> Array:
        """Log tokens and, in their range, the most that the budgets allow at the ends of the replay shares."""
        tops = [self.box.budget(float(r)) for r in (self.box.replays[0], self.box.replays[-1])]
        return x if self.box.listed_x is not None else np.union1d(x, [t for t in tops if x[0] <= t <= x[-1]])


@dataclass(frozen=True, eq=False)
class Intervals:
    """For each draw, the closed intervals on which a condition holds: starts and ends (M, S).

    Where a draw has fewer than M intervals, the rest start at inf and end at -inf.
    """

    low: Array
    high: Array

    @property
    def several(self) -> NDArray[np.bool_]:
        """Which draws have more than one interval, (S,)."""
        return (self.low <= self.high).sum(axis=0) > 1

    def __and__(self, other: Intervals) -> Intervals:
        """Where both conditions hold."""
        size = self.low.shape[1]
        low = np.maximum(self.low[:, None], other.low[None]).reshape(-1, size)
        high = np.minimum(self.high[:, None], other.high[None]).reshape(-1, size)
        some = low <= high
        used = some.any(axis=1)
        used[0] |= not used.any()
        return Intervals(np.where(some, low, np.inf)[used], np.where(some, high, -np.inf)[used])

    def counts(self) -> tuple[Array, Index]:
        """Starts of intervals, ascending, and how many draws hold at each; between two starts the number only falls."""
        some = self.low <= self.high
        low, high = np.sort(self.low[some]), np.sort(self.high[some])
        return low, np.arange(1, low.size + 1) - np.searchsorted(high, low, side="left")

    def least(self, needed: Sequence[int]) -> Array:
        """Smallest x at which at least so many draws hold, for each number needed; inf where there is none."""
        low, count = self.counts()
        if not low.size:
            return np.full(len(needed), np.inf)
        first = np.searchsorted(np.maximum.accumulate(count), np.asarray(needed), side="left")
        return np.where(first < low.size, low[np.minimum(first, low.size - 1)], np.inf)

    def most(self) -> tuple[float, int]:
        """The smallest x at which most draws hold, and how many; nan and 0 where none does anywhere."""
        low, count = self.counts()
        return (float(low[count.argmax()]), int(count.max())) if low.size else (np.nan, 0)

    def holding(self, x: float) -> int:
        """How many draws hold at x."""
        return int(((self.low <= x) & (x <= self.high)).any(axis=0).sum())


def intervals_of(x: Array, margins: Array, at: Callable[[Index, Array], Array] | None = None) -> Intervals:
    """The intervals on which margins are not negative.

    Parameters
    ----------
    x : array (n,)
        Ascending positions.
    margins : array (S, n)
    at : callable, optional
        Margins (k,) of draws (k,) at positions (k,). With it, ends are narrowed to `TIGHT` and lie where the margin is not
        negative; without it, they are interpolated.
    """

    def crossing(draw: Index, inside: Index, outside: Index) -> Array:
        """Where margins of draws become negative between a grid point inside and one outside."""
        if at is None:
            good, bad = margins[draw, inside], margins[draw, outside]
            return x[inside] + (x[outside] - x[inside]) * good / (good - bad)
        return narrowed(lambda i, places: at(draw[i], places), x[inside], x[outside])

    good = margins >= 0
    start, end = good.copy(), good.copy()
    start[:, 1:] &= ~good[:, :-1]
    end[:, :-1] &= ~good[:, 1:]
    (draw, j), (_, k) = np.nonzero(start), np.nonzero(end)  # both in the order of draws: the i-th start and end belong together
    low, high = x[j], x[k]
    inner, outer = j > 0, k < x.size - 1
    low[inner] = crossing(draw[inner], j[inner], j[inner] - 1)
    high[outer] = crossing(draw[outer], k[outer], k[outer] + 1)
    count = start.sum(axis=1)
    rank = np.arange(draw.size) - np.repeat(np.cumsum(count) - count, count)
    lows, highs = np.full((2, max(int(count.max(initial=0)), 1), len(margins)), np.inf)
    lows[rank, draw], highs[...] = low, -np.inf
    highs[rank, draw] = high
    return Intervals(lows, highs)


def narrowed(margin: Callable[[Index, Array], Array], inside: Array, outside: Array) -> Array:
    """The last positions from `inside` towards `outside` where margins are not negative, to `TIGHT`.

    Parameters
    ----------
    margin : callable
        Margins (m,) of the brackets with numbers (m,) at positions (m,).
    inside, outside : arrays (k,)
        Ends of brackets: the margin is at least 0 at `inside` and negative at `outside`.
    """
    from scipy.optimize import elementwise

    if not inside.size:
        return np.empty(0)
    root = elementwise.find_root(
        lambda places, which: margin(which.astype(np.int64), places),
        (inside, outside),
        args=(np.arange(inside.size, dtype=np.float64),),
        tolerances={"xatol": TIGHT, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0},
    )
    ends, values = root.bracket, root.f_bracket
    return np.asarray(np.where(root.f_x == 0, root.x, np.where(values[0] >= 0, ends[0], ends[1])))
