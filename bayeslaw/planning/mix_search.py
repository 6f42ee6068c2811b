"""The search for the mixture of least weighted loss: over the simplex of shares within bounds, by draws of the domains' losses.

First points spread over the simplex are tried, then points around the best ones in shrinking steps. With limits, a mixture that
misses them by less comes before one of lower loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import qmc

from bayeslaw.core.arrays import Array, mean_of_largest
from bayeslaw.core.intervals import quantiles
from bayeslaw.core.streams import Stream
from bayeslaw.posterior.draws import JoinedDraws, LawDraws, check_values

RECOMMENDED, ATTAINABLE, TODAY = "recommended", "attainable", "today"
SPREAD, KEPT = 1024, 8  # points of the simplex that are tried first, and how many the search goes on from
ROUNDS, PROPOSALS = 40, 96  # rounds of steps around the best points, and steps in each
WIDEST, NARROWEST = 0.15, 5e-4  # sizes of the steps in the first and in the last round, in shares
MOVED = 5  # shares that a step moves on average, where there are more
PER_SHARE = 4  # rounds for each share, where that is more than `ROUNDS` in all
TRIED = 48  # points that each draw tries in a round, where its own optimum is found
SEARCHED = 500  # draws that the search takes the mean over, or 100 in the tail
BLOCK = 4_000_000  # losses computed at once


@dataclass(frozen=True, eq=False)
class Domain:
    """The loss of one domain as a function of the shares, draw by draw; `factors` multiply the laws' losses."""

    name: str
    members: tuple[LawDraws, ...]
    factors: Array
    unit: str
    extrapolated: bool = False

    def losses(self, shares: Mapping[str, Array], draws: NDArray[np.int64]) -> Array:
        """Losses (s, m) at mixtures, arrays (m,) by share, or (s, m) with mixtures of each draw's own."""
        values = []
        for member, _, at, value in JoinedDraws(self.members).outcomes(shares, draws, axes=1):
            shown = {name: np.broadcast_to(v, value.shape) for name, v in at.items()}
            check_values(value, member.law, shown, name=f"{member.law.name} ({self.name})")
            values.append(value)
        return np.asarray(np.concatenate(values) * self.factors[draws][:, None])


@dataclass(frozen=True, eq=False)
class Search:
    """What is minimised over mixtures (m, k)."""

    domains: Sequence[Domain]
    weights: Array
    limits: Mapping[str, float]
    confidence: float
    tail: float | None
    shares: tuple[str, ...]
    seed: int

    @property
    def size(self) -> int:
        return int(self.domains[0].factors.size)

    def values(self, mixtures: Array, draws: NDArray[np.int64]) -> tuple[Array, NDArray[np.bool_]]:
        """Weighted losses (s, m), and in which draws all limits hold, at mixtures (m, k) or (s, m, k)."""
        columns = {name: np.ascontiguousarray(mixtures[..., i]) for i, name in enumerate(self.shares)}
        total, holds = np.zeros((draws.size, mixtures.shape[-2])), np.ones((draws.size, mixtures.shape[-2]), dtype=bool)
        for domain, weight in zip(self.domains, self.weights, strict=True):
            loss = domain.losses(columns, draws)
            total += weight * loss
            if domain.name in self.limits:
                holds &= loss <= self.limits[domain.name]
        return total, holds

    def scores(self, mixtures: Array, draws: NDArray[np.int64]) -> Array:
        """Scores (2, m) by which mixtures are sorted: by how much the limits are missed, then the loss that is minimised."""
        scores = np.empty((2, len(mixtures)))
        step = max(1, BLOCK // draws.size)
        for start in range(0, len(mixtures), step):
            some = slice(start, start + step)
            total, holds = self.values(mixtures[some], draws)
            missed = np.maximum(self.confidence - holds.mean(axis=0), 0.0) if self.limits else np.zeros(total.shape[1])
            scores[:, some] = missed, self.objective(total)
        return scores

    def objective(self, total: Array) -> Array:
        """The mean of weighted losses (s, m) over draws, or over the worst."""
        return np.asarray(total.mean(axis=0)) if self.tail is None else mean_of_largest(total.T, self.tail)

    @property
    def some(self) -> NDArray[np.int64]:
        """The draws that a search takes: all with limits, whose probability must hold for all, else some."""
        if self.limits:
            return np.arange(self.size)
        count = SEARCHED if self.tail is None else max(SEARCHED, math.ceil(100 / self.tail))
        return np.unique(np.linspace(0, self.size - 1, min(count, self.size)).astype(np.int64))

    def choose(self, mixtures: Array, draws: NDArray[np.int64]) -> tuple[Array, bool]:
        """The best of some mixtures by some draws, and whether it meets the limits."""
        missed, loss = self.scores(mixtures, draws)
        best = int(np.lexsort((loss, missed))[0])
        return mixtures[best], bool(missed[best] == 0)

    def least(
        self, box: tuple[Array, Array], known: Array, draws: NDArray[np.int64], every: NDArray[np.int64]
    ) -> tuple[Array, bool]:
        """The best mixture within bounds, and whether it meets the limits.

        `draws` decide while the search goes on, and `every`, which may be more, among the few points that are left at its end.
        `known` are mixtures (m, k) to start from.
        """
        rng, k = np.random.default_rng([self.seed, Stream.NEW_RUN]), len(self.shares)
        uniform = qmc.Sobol(k, seed=rng).random(SPREAD)
        # Exponential numbers divided by their sum are spread evenly over the simplex; corners and edges are tried too.
        spread = -np.log(np.clip(uniform, 1e-12, 1 - 1e-12))
        edges = spread ** np.array([1.0, 3.0])[np.arange(len(spread)) % 2][:, None]
        points = within(np.vstack([edges / edges.sum(axis=1, keepdims=True), np.eye(k), known]), *box)
        scores = self.scores(points, draws)
        best = np.lexsort((scores[1], scores[0]))[:KEPT]
        points, scores = points[best], scores[:, best]
        for step in _sizes(k):
            around = np.repeat(points, PROPOSALS // len(points), axis=0)
            moved = within(around + step * _directions(rng, around.shape), *box)
            tried = self.scores(moved, draws)
            points, scores = np.vstack([points, moved]), np.hstack([scores, tried])
            best = np.lexsort((scores[1], scores[0]))[:KEPT]
            points, scores = points[best], scores[:, best]
        return self.choose(points, every)

    def each(self, box: tuple[Array, Array], known: Array, draws: NDArray[np.int64]) -> tuple[Array, Array]:
        """The best mixture (s, k) within bounds of each of some draws, and its weighted loss (s,)."""
        rng, k = np.random.default_rng([self.seed, Stream.NEW_RUN, 1]), len(self.shares)
        best, loss = self.choose_each(within(np.vstack([known, np.eye(k)]), *box), draws)
        for step in _sizes(k):
            moved = best[:, None] + step * _directions(rng, (draws.size, TRIED, k))
            points = within(moved.reshape(-1, k), *box).reshape(moved.shape)
            best, loss = self.choose_each(np.concatenate([best[:, None], points], axis=1), draws)
        return best, loss

    def choose_each(self, mixtures: Array, draws: NDArray[np.int64]) -> tuple[Array, Array]:
        """The best (s, k) of some mixtures, (m, k) or (s, m, k), by each draw, and its weighted loss (s,)."""
        total, holds = self.values(mixtures, draws)
        kept = np.where(holds | ~holds.any(axis=1, keepdims=True), total, np.inf)
        first, rows = kept.argmin(axis=1), np.arange(draws.size)
        return (mixtures[first] if mixtures.ndim == 2 else mixtures[rows, first]), total[rows, first]

    def compare(self, mixtures: Mapping[str, Array]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The table of mixtures, and draws of their weighted losses."""
        points = np.stack(list(mixtures.values()))
        blocks = [
            self.values(points[i : i + 1 + BLOCK // self.size], np.arange(self.size))
            for i in range(0, len(points), 1 + BLOCK // self.size)
        ]
        total, holds = np.hstack([t for t, _ in blocks]), np.hstack([h for _, h in blocks])
        chance = holds.mean(axis=0)
        feasible = chance >= self.confidence if self.limits else np.ones(len(points), dtype=bool)
        best = np.bincount(np.where(feasible, total, np.inf).argmin(axis=1), minlength=len(points)) / len(total)
        middle, low, high = quantiles(total, 0.9, axis=0)
        table = pd.DataFrame({"mixture": list(mixtures), **{s: points[:, i] for i, s in enumerate(self.shares)}})
        table = table.assign(
            loss_mean=total.mean(axis=0), loss_median=middle, loss_eti90_lb=low, loss_eti90_ub=high,
            best_prob=best if feasible.any() else np.nan, regret=np.nan, limits_prob=chance, feasible=feasible,
        )  # fmt: skip
        return table, pd.DataFrame(total, columns=list(mixtures))

    def by_domain(self, mixtures: Mapping[str, Array]) -> pd.DataFrame:
        """Losses of every domain at the recommended or attainable mixture and today's."""
        rows = []
        for name in (n for n in (RECOMMENDED, ATTAINABLE, TODAY) if n in mixtures):
            columns = {s: mixtures[name][i : i + 1] for i, s in enumerate(self.shares)}
            for domain, weight in zip(self.domains, self.weights, strict=True):
                loss = domain.losses(columns, np.arange(self.size))[:, 0]
                middle, low, high = quantiles(loss, 0.9)
                limit = self.limits.get(domain.name, math.nan)
                ends = {"loss_median": middle, "loss_eti90_lb": low, "loss_eti90_ub": high}
                held = float((loss <= limit).mean()) if domain.name in self.limits else math.nan
                rows.append({"mixture": name, "domain": domain.name, "weight": weight, **ends, "limit": limit, "limit_prob": held})
        table = pd.DataFrame(rows)
        return table if self.limits else table.drop(columns=["limit", "limit_prob"])


def _sizes(shares: int) -> Array:
    """Sizes of the steps (rounds,), in shares: of more shares there are more rounds."""
    return np.geomspace(WIDEST, NARROWEST, max(ROUNDS, PER_SHARE * shares))


def _directions(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random directions (…, k). Of many shares, most are 0 in the best mixture, and a step in all of them would leave that."""
    normal, shares = rng.standard_normal(shape), shape[-1]
    return normal if shares <= MOVED else normal * (rng.random(shape) < MOVED / shares)


def within(points: Array, low: Array, high: Array) -> Array:
    """The nearest mixtures within bounds: each point is shifted by one number and cut off, so that it sums to one.

    Parameters
    ----------
    points : array (m, k)
    low, high : arrays (k,)
    """
    k, ends = points.shape[1], np.hstack([points - high, points - low])
    order = ends.argsort(axis=1)  # the sum of shares falls with the shift, in straight lines between these ends
    ends = np.take_along_axis(ends, order, axis=1)
    slopes = np.where(order < k, -1.0, 1.0).cumsum(axis=1)
    sums = high.sum() + np.hstack([np.zeros((len(points), 1)), (slopes[:, :-1] * np.diff(ends, axis=1)).cumsum(axis=1)])
    last = np.clip((sums > 1).sum(axis=1, keepdims=True) - 1, 0, 2 * k - 2)
    end, excess, slope = (np.take_along_axis(values, last, axis=1) for values in (ends, sums - 1, slopes))
    shift = end - np.divide(excess, slope, out=np.zeros_like(excess), where=slope < 0)
    return np.asarray(np.clip(points - shift, low, high))
