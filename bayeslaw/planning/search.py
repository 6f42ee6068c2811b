"""The exact sweep: in each draw, along the tokens, where promises hold; and the fewest tokens at which enough draws hold together.

Positions x are logarithms of tokens. In each draw a promise holds on a union of intervals of x, found from the signs of its margin
on a grid and narrowed to the root. With all intervals of all draws at hand the smallest x with

    #{draws : all promises hold at x} >= ceil(confidence S)

is the start of one of them: sort starts l and ends h, count i starts up to l_i less the ends before it. No derivative of a
probability is needed, which a sample does not have.

Promises about losses, and the search for tokens and replay at which enough draws keep all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bayeslaw.core.arrays import Array, Index

TIGHT = 1e-9  # of log tokens, to which the ends of intervals are found


@dataclass(frozen=True)
class Spans:
    """For each of some draws, the closed intervals on which a condition holds.

    Attributes
    ----------
    low, high : arrays (M, S)
        Starts and ends; an interval that a draw does not have starts at inf and ends at -inf.
    """

    low: Array
    high: Array

    @property
    def several(self) -> NDArray[np.bool_]:
        """Which draws have more than one interval, (S,)."""
        return (self.low <= self.high).sum(axis=0) > 1

    def __and__(self, other: Spans) -> Spans:
        """Where both conditions hold."""
        size = self.low.shape[1]
        low = np.maximum(self.low[:, None], other.low[None]).reshape(-1, size)
        high = np.minimum(self.high[:, None], other.high[None]).reshape(-1, size)
        some = low <= high
        used = some.any(axis=1)
        if not used.any():
            used[0] = True
        return Spans(np.where(some, low, np.inf)[used], np.where(some, high, -np.inf)[used])

    def counts(self) -> tuple[Array, Index]:
        """The starts of intervals, ascending, and how many draws hold at each: between them the number only falls."""
        some = self.low <= self.high
        low, high = np.sort(self.low[some]), np.sort(self.high[some])
        return low, np.arange(1, low.size + 1) - np.searchsorted(high, low, side="left")

    def least(self, needed: Sequence[int]) -> Array:
        """Smallest x at which at least so many draws hold, for each number needed; inf where there is none."""
        low, count = self.counts()
        reached = np.maximum.accumulate(count) if count.size else count
        first = np.searchsorted(reached, np.asarray(needed), side="left")
        return (
            np.where(first < low.size, low[np.minimum(first, low.size - 1)], np.inf) if low.size else np.full(len(needed), np.inf)
        )

    def most(self) -> tuple[float, int]:
        """The smallest x at which most draws hold, and how many; nan and 0 where none does anywhere."""
        low, count = self.counts()
        return (float(low[count.argmax()]), int(count.max())) if low.size else (np.nan, 0)

    def holding(self, x: float) -> int:
        """How many draws hold at x."""
        return int(((self.low <= x) & (x <= self.high)).any(axis=0).sum())


def spans(x: Array, margins: Array, at: Callable[[Index, Array], Array] | None = None) -> Spans:
    """The intervals on which margins are not negative.

    Parameters
    ----------
    x : array (n,)
        Ascending positions.
    margins : array (S, n)
        At these positions in each draw.
    at : callable, optional
        Margin (k,) of draws (k,) at positions (k,): ends are narrowed to `TIGHT` and kept on the side where the condition holds.
        Without it ends are interpolated.
    """
    good = margins >= 0
    start, end = good.copy(), good.copy()
    start[:, 1:] &= ~good[:, :-1]
    end[:, :-1] &= ~good[:, 1:]
    (draw, j), (same, k) = np.nonzero(start), np.nonzero(end)  # both in the order of draws: the i-th start and end belong together
    assert np.array_equal(draw, same)
    low, high = x[j], x[k]
    inner, outer = j > 0, k < x.size - 1
    low[inner] = _crossing(x, margins, at, draw[inner], j[inner], j[inner] - 1)
    high[outer] = _crossing(x, margins, at, draw[outer], k[outer], k[outer] + 1)
    count = start.sum(axis=1)
    rank = np.arange(draw.size) - np.repeat(np.cumsum(count) - count, count)
    lows, highs = np.full((2, max(int(count.max(initial=0)), 1), len(margins)), np.inf)
    lows[rank, draw], highs[...] = low, -np.inf
    highs[rank, draw] = high
    return Spans(lows, highs)


def _crossing(
    x: Array, margins: Array, at: Callable[[Index, Array], Array] | None, draw: Index, inside: Index, outside: Index
) -> Array:
    """Where margins of draws become negative between a grid point inside and one outside."""
    good, bad = margins[draw, inside], margins[draw, outside]
    if at is None:
        return x[inside] + (x[outside] - x[inside]) * good / (good - bad)
    if not draw.size:
        return np.empty(0)
    return narrowed(lambda i, places: at(draw[i], places), x[inside], x[outside])


def narrowed(margin: Callable[[Index, Array], Array], inside: Array, outside: Array) -> Array:
    """The last positions from `inside` towards `outside` where margins are not negative, to `TIGHT`.

    Parameters
    ----------
    margin : callable
        Margins of the elements with some numbers at positions.
    inside, outside : arrays (k,)
        Positions where it is at least 0, and negative.
    """
    from scipy.optimize import elementwise

    found = elementwise.find_root(
        lambda places, which: margin(which.astype(np.int64), places),
        (inside, outside),
        args=(np.arange(inside.size, dtype=np.float64),),
        tolerances={"xatol": TIGHT, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0},
    )
    ends, values = found.bracket, found.f_bracket
    where: Array = np.where(found.f_x == 0, found.x, np.where(values[0] >= 0, ends[0], ends[1]))
    return where


REPLAYS, TOKENS = 33, 40  # points of the first grid: replay shares, log tokens
ROUNDS = ((0.5, 12), (0.15, 12), (0.05, 12))  # of refinement: half-width of the window of log tokens, points in it
FINE, FINER = 9, 4  # points a side, and rounds, of the refinement of a loss that is to be least
BLOCK = 150_000  # values worked out at once: they stay in a core's cache, and what only some axes enter is worked out once
ROUNDING = 1e-12  # of log tokens: what lies so little beyond a budget is on its edge
TIE = 0.01  # of the log of what is to be least, within which listed replay shares are all looked at closely


class Quantity(Protocol):
    """Something that depends on draw, log tokens and replay share."""

    def cube(self, draws: Index, x: Array, r: Array) -> Array:
        """Values (s, R, n) of draws (s,) at replay shares (R,) and log tokens (n,)."""

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        """Values (k,) of draws (k,) at log tokens (k,)."""


def point(quantity: Quantity, draws: Index, x: float, r: float) -> Array:
    """Values (s,) at one place."""
    return quantity.cube(draws, np.array([x]), np.array([r]))[:, 0, 0]


@dataclass(frozen=True)
class Promise:
    """A loss that is to stay at or under a limit: its margin is limit less log loss.

    Attributes
    ----------
    name : str
    loss : Side
        Log loss.
    limit : array (S,)
        Log of the largest loss that keeps the promise, in each draw.
    """

    name: str
    loss: Any
    limit: Array

    def cube(self, draws: Index, x: Array, r: Array) -> Array:
        margin: Array = self.limit[draws, None, None] - self.loss.cube(draws, x, r)
        return margin

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        margin: Array = self.limit[draws] - self.loss.at(draws, x, r)
        return margin


@dataclass(frozen=True)
class Middle:
    """The median over draws of a quantity, as if it were one draw: what a plan without uncertainty goes by."""

    of: Quantity
    draws: Index

    def cube(self, draws: Index, x: Array, r: Array) -> Array:
        whole = tables([self.of], self.draws, x, r)[0]  # (R, S, n)
        return np.median(np.ascontiguousarray(whole.transpose(0, 2, 1)), axis=2)[None]

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        shares = np.broadcast_to(r, x.shape)
        return np.array([np.median(point(self.of, self.draws, float(a), float(b))) for a, b in zip(x, shares, strict=True)])


@dataclass(frozen=True)
class Box:
    """Where a plan may lie.

    Attributes
    ----------
    low, high : float
        Log tokens.
    replay : (float, float)
        Smallest and largest replay share.
    x, r : array or None
        The only log tokens and replay shares allowed, where not all between the ends are.
    most : callable
        Replay share to the largest log tokens that the budgets allow.
    """

    low: float
    high: float
    replay: tuple[float, float]
    x: Array | None = None
    r: Array | None = None
    most: Callable[[float], float] = field(default=lambda r: np.inf)

    def tokens(self, around: float | None = None, half: float = 0.0, points: int = TOKENS) -> Array:
        """Log tokens to look at: all over the box, or in a window."""
        if self.x is not None:
            return self.x
        low = self.low if around is None else max(self.low, around - half)
        high = self.high if around is None else min(self.high, around + half)
        return np.linspace(low, high, points) if low < high else np.array([low])

    @property
    def replays(self) -> Array:
        """Replay shares of the first grid, denser at the ends, where replay matters most."""
        low, high = self.replay
        if self.r is not None:
            return self.r
        if low == high:
            return np.array([low])
        return low + (high - low) * 0.5 * (1 - np.cos(np.linspace(0, np.pi, REPLAYS)))

    @property
    def step(self) -> float:
        """Widest distance between replay shares of the first grid; 0 where there is nothing between them."""
        return 0.0 if self.r is not None or self.replay[0] == self.replay[1] else float(np.diff(self.replays).max())

    def near(self, r: float, step: float) -> Array:
        """Replay shares around one."""
        if not step:
            return np.array([r])
        return np.unique(np.clip(r + step * np.array([-2, -1, 0, 1, 2]) / 3, *self.replay))


@dataclass(frozen=True)
class Found:
    """A plan: log tokens, replay share, what was to be least, and how many of the searched draws keep every promise there."""

    x: float
    r: float
    value: float
    count: int


@dataclass(frozen=True)
class Search:
    """What is promised, where to look, and what a token costs at each replay share.

    Attributes
    ----------
    promises : tuple of Promise or Middle
    box : Box
    price : callable
        Replay share to the log of the price of a token, in whatever is to be least.
    """

    promises: tuple[Any, ...]
    box: Box
    price: Callable[[float], float] = field(default=lambda r: 0.0)

    def prices(self, r: Array) -> Array:
        return np.array([self.price(float(one)) for one in r])

    def left(self, x: Array, r: Array) -> Array:
        """What budgets leave, (R, n): log of the most tokens less log tokens, not negative where a plan may lie."""
        tops = np.array([self.box.most(float(one)) for one in r])
        return tops[:, None] - x[None, :] + ROUNDING

    def joint(self, draws: Index, x: Array, r: float, exact: bool = False) -> Spans:
        """Where along the tokens every promise holds in each draw, at one replay share."""
        return self.joints(draws, x, np.array([r]), exact)[0]

    def joints(self, draws: Index, x: Array, r: Array, exact: bool = False) -> list[Spans]:
        """Where along the tokens every promise holds in each draw, at each of some replay shares."""
        margins = tables(self.promises, draws, x, r)

        def one(i: int) -> Spans:
            share, size = float(r[i]), (1, draws.size)
            top = min(float(x[-1]), self.box.most(share))
            whole = Spans(np.full(size, x[0] if top >= x[0] else np.inf), np.full(size, top if top >= x[0] else -np.inf))
            for promise, margin in zip(self.promises, margins, strict=True):
                at = (lambda d, places, p=promise: p.at(draws[d], places, share)) if exact else None
                whole = whole & spans(x, margin[i], at)
            return whole

        return each(one, range(r.size))

    def counts(self, draws: Index, x: Array, r: Array) -> Index:
        """How many draws keep every promise, (R, n); none beyond the budget."""
        good = np.ones((r.size, draws.size, x.size), dtype=bool)
        for margin in tables(self.promises, draws, x, r):
            good &= margin >= 0
        return np.where(self.left(x, r) >= 0, good.sum(axis=1), 0)

    def kept(self, draws: Index, x: float, r: float) -> NDArray[np.bool_]:
        """Whether each promise holds in each draw, (promises, s)."""
        return np.array([point(p, draws, x, r) >= 0 for p in self.promises]).reshape(len(self.promises), draws.size)

    def fewest(self, draws: Index, needed: Sequence[int]) -> list[Found | None]:
        """The cheapest plan that so many draws keep, for each number needed; None where there is none."""
        if self.box.x is not None:
            return self._listed(draws, needed)
        replays, x = self.box.replays, self.box.tokens()
        tops = np.array([joint.least(needed) for joint in self.joints(draws, x, replays)])
        cost = tops + self.prices(replays)[:, None]
        found: list[Found | None] = []
        for level, k in enumerate(needed):
            best = int(cost[:, level].argmin())
            if not np.isfinite(cost[best, level]):
                found.append(None)
                continue
            near = [i for i in range(replays.size) if self.box.step == 0 and cost[i, level] <= cost[best, level] + TIE] or [best]
            shares = [self._closer(draws, k, float(tops[i, level]), float(replays[i])) for i in near]
            ends = [end for end in (self._exact(draws, k, r) for r in shares) if end is not None]
            found.append(min(ends, key=lambda f: f.value) if ends else None)
        return found

    def _closer(self, draws: Index, k: int, x: float, r: float) -> float:
        """Follow the cheapest plan by smaller and smaller steps of the replay share."""
        step = self.box.step
        for half, points in ROUNDS if step else ():
            near = self.box.near(r, step)
            tops = np.array([joint.least([k])[0] for joint in self.joints(draws, self.box.tokens(x, half, points), near)])
            cost = tops + self.prices(near)
            best = int(cost.argmin())
            if np.isfinite(cost[best]):
                x, r = float(tops[best]), float(near[best])
            step /= 3
        return r

    def _exact(self, draws: Index, k: int, r: float) -> Found | None:
        joint = self.joint(draws, self.box.tokens(), r, exact=True)
        x = float(joint.least([k])[0])
        return Found(x, r, x + self.price(r), joint.holding(x)) if np.isfinite(x) else None

    def _listed(self, draws: Index, needed: Sequence[int]) -> list[Found | None]:
        """The cheapest of the listed tokens."""
        replays, x = self.box.replays, self.box.tokens()
        counts = self.counts(draws, x, replays)
        cost = x[None, :] + self.prices(replays)[:, None]
        found: list[Found | None] = []
        for k in needed:
            some = np.where(counts >= k, cost, np.inf)
            i, j = np.unravel_index(int(some.argmin()), some.shape)
            good = np.isfinite(some[i, j])
            found.append(Found(float(x[j]), float(replays[i]), float(cost[i, j]), int(counts[i, j])) if good else None)
        return found

    def along_replay(self, draws: Index) -> Spans:
        """Where along the replay share budgets allow the one number of tokens of the box and each draw keeps every promise."""
        assert self.box.x is not None
        x, r = self.box.x[:1], self.box.replays
        whole = Spans(np.full((1, draws.size), r[0]), np.full((1, draws.size), r[-1]))
        for promise, margins in zip(self.promises, tables(self.promises, draws, x, r), strict=True):

            def at(d: Index, s: Array, promise: Promise = promise) -> Array:
                return promise.at(draws[d], np.full(d.size, x[0]), s)

            whole = whole & spans(r, margins[:, :, 0].T, at)

        def left(_: Index, shares: Array) -> Array:
            return np.minimum(self.left(x, shares)[:, 0], 1.0)  # finite where nothing limits, as roots need

        return whole & spans(r, left(np.zeros(1, np.int64), r)[None], left)

    def least_replay(self, draws: Index, needed: Sequence[int]) -> list[Found | None]:
        """The least replay share that so many draws keep every promise with, for each number needed."""
        assert self.box.x is not None
        x = float(self.box.x[0])
        if self.box.r is None:
            shares = self.along_replay(draws).least(needed)
        else:
            counts = self.counts(draws, self.box.x, self.box.r)[:, 0]
            shares = np.array([min(self.box.r[counts >= k], default=np.inf) for k in needed])
        places = [float(r) for r in shares]
        return [
            Found(x, r, r, int(self.counts(draws, self.box.x, np.array([r]))[0, 0])) if np.isfinite(r) else None for r in places
        ]

    def surest(self, draws: Index) -> Found | None:
        """Where most draws keep every promise; None where no draw keeps them anywhere."""
        listed = self.box.x is not None

        def best(x: Array, r: Array, exact: bool = False) -> tuple[float, int, float]:
            if listed:
                counts = self.counts(draws, x, r)
                i, j = np.unravel_index(int(counts.argmax()), counts.shape)
                return float(x[j]), int(counts[i, j]), float(r[i])
            tops = [joint.most() for joint in self.joints(draws, x, r, exact)]
            most = int(np.argmax([count for _, count in tops]))
            return *tops[most], float(r[most])

        x, count, r = best(self.box.tokens(), self.box.replays)
        if not count:
            return None
        step = self.box.step
        for half, points in ROUNDS if step else ():
            window = self.box.tokens(x, half, points)
            x, count, r = best(window, self.box.near(r, step))
            step /= 3
        x, count, r = best(self.box.tokens(), np.array([r]), exact=True)
        return Found(x, r, x + self.price(r), count)

    def lowest(self, draws: Index, needed: Sequence[int], value: Quantity) -> list[Found | None]:
        """The plan at which the value that so many draws stay under, while they keep every promise, is least."""
        replays, x = self.box.replays, self._within(self.box.tokens())
        whole = self._levels(draws, x, replays, needed, value)
        found: list[Found | None] = []
        for level, k in enumerate(needed):
            i, j = np.unravel_index(int(whole[level].argmin()), whole[level].shape)
            best, at, r = float(whole[level, i, j]), float(x[j]), float(replays[i])
            if not np.isfinite(best):
                found.append(None)
                continue
            half, step = float(np.diff(x).max(initial=0.0)), self.box.step
            for _ in range(FINER if self.box.x is None else 0):
                near = self.box.near(r, step)
                window = self._within(self.box.tokens(at, half, FINE))
                table = self._levels(draws, window, near, [k], value)[0]
                i, j = np.unravel_index(int(table.argmin()), table.shape)
                if table[i, j] <= best:
                    best, at, r = float(table[i, j]), float(window[j]), float(near[i])
                half, step = half / 3, step / 3
            kept = self.kept(draws, at, r).all(axis=0) & (point(value, draws, at, r) <= best)
            found.append(Found(at, r, best, int(kept.sum())))
        return found

    def _within(self, x: Array) -> Array:
        """Log tokens, and in their range the most that budgets allow at the ends of the replay shares."""
        tops = [self.box.most(float(r)) for r in (self.box.replays[0], self.box.replays[-1])]
        return x if self.box.x is not None else np.union1d(x, [t for t in tops if x[0] <= t <= x[-1]])

    def _levels(self, draws: Index, x: Array, r: Array, needed: Sequence[int], value: Quantity) -> Array:
        """The value that so many draws stay under while they keep every promise, (needed, R, n); inf where fewer keep them."""
        values, *margins = tables([value, *self.promises], draws, x, r)
        for margin in margins:
            values[margin < 0] = np.inf
        order = [k - 1 for k in needed]
        levels = np.partition(np.ascontiguousarray(values.transpose(0, 2, 1)), order, axis=2)[:, :, order].transpose(2, 0, 1)
        return np.where(self.left(x, r) < 0, np.inf, levels)


def tables(quantities: Sequence[Quantity], draws: Index, x: Array, r: Array) -> list[Array]:
    """Values of quantities, (R, s, n) each, worked out by several threads, some draws at a time."""
    if any(isinstance(q, Middle) for q in quantities):
        return [q.cube(draws, x, r).transpose(1, 0, 2) for q in quantities]
    whole = [np.empty((r.size, draws.size, x.size)) for _ in quantities]

    size = max(1, BLOCK // (r.size * x.size))

    def block(start: int) -> None:
        some = slice(start, start + size)
        for quantity, table in zip(quantities, whole, strict=True):
            table[:, some] = quantity.cube(draws[some], x, r).transpose(1, 0, 2)

    each(block, range(0, draws.size, size))
    return whole


def each[I, T](work: Callable[[I], T], items: Sequence[I] | range) -> list[T]:
    """Results for all items, worked out by several threads."""
    if len(items) == 1:
        return [work(item) for item in items]  # type: ignore[arg-type]  # a range is of numbers, as I then is
    with threadpool_limits(1, "blas"), ThreadPoolExecutor() as pool:
        return list(pool.map(work, items))
