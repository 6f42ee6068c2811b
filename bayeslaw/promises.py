"""Promises about losses, and the search for tokens and replay at which enough draws keep all of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bayeslaw.sweep import Array, Index, Spans, spans

REPLAYS, TOKENS = 33, 40  # points of the first grid: replay shares, log tokens
ROUNDS = ((0.5, 12), (0.15, 12), (0.05, 12))  # of refinement: half-width of the window of log tokens, points in it
FINE = 9  # log tokens in the window of a loss that is to be least


class Quantity(Protocol):
    """Something that depends on draw, log tokens and replay share."""

    def grid(self, draws: Index, x: Array, r: float) -> Array:
        """Values (s, n) of some draws at log tokens (n,)."""

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        """Values (k,) of draws (k,) at log tokens (k,)."""


@dataclass(frozen=True)
class Promise:
    """A loss that is to stay at or under a limit.

    Attributes
    ----------
    name : str
    loss : Quantity
        Log loss.
    limit : array (S,)
        Log of the largest loss that keeps the promise, in each draw.
    """

    name: str
    loss: Quantity
    limit: Array

    def grid(self, draws: Index, x: Array, r: float) -> Array:
        return self.limit[draws, None] - self.loss.grid(draws, x, r)

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        return self.limit[draws] - self.loss.at(draws, x, r)


@dataclass(frozen=True)
class Middle:
    """The median over draws of a quantity, as if it were one draw: what a plan without uncertainty goes by."""

    of: Quantity
    draws: Index

    def grid(self, draws: Index, x: Array, r: float) -> Array:
        return np.median(self.of.grid(self.draws, x, r), axis=0)[None]

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        return np.array(
            [np.median(self.of.grid(self.draws, x[i : i + 1], float(s))) for i, s in enumerate(np.broadcast_to(r, x.shape))]
        )


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

    def tokens(self, r: float, around: float | None = None, half: float = 0.0, points: int = TOKENS) -> Array:
        """Log tokens to look at for a replay share: all over the box, or in a window."""
        top = min(self.high, self.most(r))
        if self.x is not None:
            return self.x[self.x <= top]
        low = self.low if around is None else max(self.low, around - half)
        high = top if around is None else min(top, around + half)
        return np.linspace(low, high, points) if low < high else np.array([low] if low == high else [])

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

    def near(self, r: float, step: float) -> list[float]:
        """Replay shares around one."""
        if not step:
            return [r]
        return sorted({min(max(r + step * k / 3, self.replay[0]), self.replay[1]) for k in (-2, -1, 0, 1, 2)})


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

    def joint(self, draws: Index, x: Array, r: float, exact: bool = False) -> Spans:
        """Where along the tokens every promise holds in each draw."""
        everywhere = np.full((1, draws.size), x[0] if x.size else np.inf), np.full((1, draws.size), x[-1] if x.size else -np.inf)
        whole = Spans(*everywhere)
        for promise in self.promises if x.size else ():
            at = (lambda i, places, p=promise: p.at(draws[i], places, r)) if exact else None
            whole = whole & spans(x, promise.grid(draws, x, r), at)
        return whole

    def counts(self, draws: Index, x: Array, r: float) -> Index:
        """How many draws keep every promise, (n,)."""
        good = np.ones((draws.size, x.size), dtype=bool)
        for promise in self.promises:
            good &= promise.grid(draws, x, r) >= 0
        return good.sum(axis=0)

    def kept(self, draws: Index, x: float, r: float) -> NDArray[np.bool_]:
        """Whether each promise holds in each draw, (promises, s)."""
        return np.stack([p.grid(draws, np.array([x]), r)[:, 0] >= 0 for p in self.promises])

    def fewest(self, draws: Index, needed: Sequence[int]) -> list[Found | None]:
        """The cheapest plan that so many draws keep, for each number needed; None where there is none."""
        if self.box.x is not None:
            return self._listed(draws, needed)
        replays = self.box.replays
        tops = _each(lambda r: self.joint(draws, self.box.tokens(r), r).least(needed), replays)
        cost = np.array(tops) + np.array([self.price(r) for r in replays])[:, None]
        found: list[Found | None] = []
        for level, k in enumerate(needed):
            best = int(cost[:, level].argmin())
            if not np.isfinite(cost[best, level]):
                found.append(None)
                continue
            near = [i for i in range(len(replays)) if self.box.step == 0 and cost[i, level] <= cost[best, level] + 0.01]
            starts = [(float(tops[i][level]), float(replays[i])) for i in (near or [best])]
            ends = [self._exact(draws, k, r) for _, r in (self._closer(draws, k, *start) for start in starts)]
            whole = [end for end in ends if end is not None]
            found.append(min(whole, key=lambda f: f.value) if whole else None)
        return found

    def _closer(self, draws: Index, k: int, x: float, r: float) -> tuple[float, float]:
        """Follow the cheapest plan by smaller and smaller steps of the replay share."""
        step = self.box.step
        for half, points in ROUNDS if step else ():
            near = self.box.near(r, step)

            def least(one: float, x: float = x, half: float = half, points: int = points) -> float:
                return float(self.joint(draws, self.box.tokens(one, x, half, points), one).least([k])[0])

            tops = np.array(_each(least, near))
            cost = tops + np.array([self.price(one) for one in near])
            best = int(cost.argmin())
            if np.isfinite(cost[best]):
                x, r = float(tops[best]), near[best]
            step /= 3
        return x, r

    def _exact(self, draws: Index, k: int, r: float) -> Found | None:
        joint = self.joint(draws, self.box.tokens(r), r, exact=True)
        x = float(joint.least([k])[0])
        return Found(x, r, x + self.price(r), joint.holding(x)) if np.isfinite(x) else None

    def _listed(self, draws: Index, needed: Sequence[int]) -> list[Found | None]:
        """The cheapest of the listed tokens."""
        replays = self.box.replays
        counts = _each(lambda r: self.counts(draws, self.box.tokens(r), r), replays)
        found: list[Found | None] = []
        for k in needed:
            some = []
            for r, count in zip(replays, counts, strict=True):
                x = self.box.tokens(r)
                some += [
                    Found(float(x[i]), float(r), float(x[i]) + self.price(r), int(count[i])) for i in np.flatnonzero(count >= k)[:1]
                ]
            found.append(min(some, key=lambda f: f.value) if some else None)
        return found

    def along_replay(self, draws: Index) -> Spans:
        """Where along the replay share every promise holds in each draw, at the one number of tokens of the box."""
        assert self.box.x is not None
        x, r = self.box.x[:1], self.box.replays
        whole = Spans(np.full((1, draws.size), r[0]), np.full((1, draws.size), r[-1]))
        for promise in self.promises:
            margins = np.hstack(_each(lambda one, p=promise: p.grid(draws, x, float(one)), r))
            at = None if self.box.r is not None else lambda i, s, p=promise: p.at(draws[i], np.full(i.size, x[0]), s)
            whole = whole & spans(r, margins, at)
        return whole

    def least_replay(self, draws: Index, needed: Sequence[int]) -> list[Found | None]:
        """The least replay share that so many draws keep every promise with, for each number needed."""
        assert self.box.x is not None
        x, found = float(self.box.x[0]), list[Found | None]()
        joint = self.along_replay(draws) if self.box.r is None else None
        for k in needed:
            if joint is not None:
                shares = joint.least([k])
            else:
                shares = np.array([r for r in self.box.replays if self.counts(draws, self.box.x, float(r))[0] >= k] or [np.inf])
            r = float(shares[0])
            count = int(self.counts(draws, self.box.x, r)[0]) if np.isfinite(r) else 0
            found.append(Found(x, r, r, count) if np.isfinite(r) else None)
        return found

    def surest(self, draws: Index) -> Found | None:
        """Where most draws keep every promise; None where no draw keeps them anywhere."""
        replays = self.box.replays

        def most(r: float, x: Array, exact: bool = False) -> tuple[float, int]:
            if self.box.x is not None:
                counts = self.counts(draws, x, r)
                return (float(x[counts.argmax()]), int(counts.max())) if counts.size else (np.nan, 0)
            return self.joint(draws, x, r, exact).most()

        tops = _each(lambda r: most(r, self.box.tokens(r)), replays)
        best = max(range(len(tops)), key=lambda i: tops[i][1])
        (x, count), r, step = tops[best], float(replays[best]), self.box.step
        if not count:
            return None
        for half, points in ROUNDS if step and self.box.x is None else ():
            near = self.box.near(r, step)
            tops = _each(lambda one, x=x, half=half, points=points: most(one, self.box.tokens(one, x, half, points)), near)
            best = max(range(len(tops)), key=lambda i: tops[i][1])
            (x, count), r, step = tops[best], near[best], step / 3
        x, count = most(r, self.box.tokens(r), exact=True)
        return Found(x, r, x + self.price(r), count)

    def lowest(self, draws: Index, needed: Sequence[int], value: Quantity) -> list[Found | None]:
        """The plan at which the value that so many draws stay under, while they keep every promise, is least."""

        def levels(r: float, x: Array) -> Array:
            """Values (needed, n)."""
            values = value.grid(draws, x, r)
            for promise in self.promises:
                values = np.where(promise.grid(draws, x, r) >= 0, values, np.inf)
            order = [k - 1 for k in needed]
            return np.partition(values, order, axis=0)[order]

        replays = self.box.replays
        grids = [self.box.tokens(r) for r in replays]
        tables = _each(lambda i: levels(float(replays[i]), grids[i]), range(len(replays)))
        found: list[Found | None] = []
        for level, k in enumerate(needed):
            lows = [t[level].min(initial=np.inf) for t in tables]
            i = int(np.argmin(lows))
            if not np.isfinite(lows[i]):
                found.append(None)
                continue
            x, r, best = float(grids[i][tables[i][level].argmin()]), float(replays[i]), float(lows[i])
            half, step = float(np.diff(grids[i]).max(initial=0.0)), self.box.step
            for _ in range(4 if self.box.x is None else 0):
                for one in self.box.near(r, step):
                    window = np.union1d(self.box.tokens(one, x, half, FINE), [min(x, self.box.most(one), self.box.high)])
                    row = levels(one, window)[level]
                    if row.min() < best:
                        best, x, r = float(row.min()), float(window[row.argmin()]), one
                half, step = half / 3, step / 3
            count = int((self.kept(draws, x, r).all(axis=0)).sum()) if self.promises else draws.size
            found.append(Found(x, r, best, max(count, k) if not self.promises else count))
        return found


def _each[I, T](work: Callable[[I], T], items: Sequence[I] | Array | range) -> list[T]:
    """Results for all items, worked out by several threads."""
    with threadpool_limits(1, "blas"), ThreadPoolExecutor() as pool:
        return list(pool.map(work, items))
