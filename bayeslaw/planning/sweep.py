"""The exact sweep: in each draw, along the tokens, where promises hold; and the fewest tokens at which enough draws hold together.

Positions x are logarithms of tokens. In each draw a promise holds on a union of intervals of x, found from the signs of its margin
on a grid and narrowed to the root. With all intervals of all draws at hand the smallest x with

    #{draws : all promises hold at x} >= ceil(confidence S)

is the start of one of them: sort starts l and ends h, count i starts up to l_i less the ends before it. No derivative of a
probability is needed, which a sample does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

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
