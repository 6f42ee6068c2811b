"""The search for the best runs under a budget: a greedy choice improved by exchanges; checkpoints are paid for once.

`choose` starts from several greedy choices, which divide gains by different powers of the price, improves them by exchanges and
orders the picks. A small pool is searched completely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.design.candidates import Candidates
from bayeslaw.design.information import Ensemble

EXPONENTS = (0.0, 0.5, 1.0)  # powers of the price by which a gain is divided
BUNDLES = 8  # checkpoints that must be trained and are considered for several runs at once
BUNDLE = 4  # most runs in a bundle of one checkpoint
PASSES = 4  # passes of exchanges over all picks
FEW = 12  # with at most this many picks every greedy choice is improved, else only the best
FEWEST = 15  # with at most this many candidates all designs are searched
SHORTLIST = 100  # runs that exchanges consider
LOOKED_AT = 128  # runs whose gains are updated at once
ROUNDING = 1 + 1e-9  # relative tolerance of a bill that equals the budget


@dataclass(frozen=True, eq=False)
class Market:
    """Candidates with the information of each, and the budget that they are bought from."""

    candidates: Candidates
    ensemble: Ensemble
    weights: Array  # of the targets' variances, (q,)
    budget: float
    replicates: int  # how often each run may be bought; every purchase has a run effect of its own

    def bill(self, picks: Sequence[int]) -> float:
        """The price of runs together, each checkpoint paid once."""
        return float(self.candidates.cost[list(picks)].sum() + self.candidates.trained(picks).sum())

    def prices(self, picks: Sequence[int]) -> Array:
        """The amount that each run would add to the bill, array (R,); inf if it exceeds the budget or can't be bought again."""
        at = self.candidates
        added = at.cost + at.unpaid(picks)[at.checkpoint]
        added[np.bincount(list(picks), minlength=at.size) >= self.replicates] = np.inf
        added[self.bill(picks) + added > self.budget * ROUNDING] = np.inf
        return added

    def value(self, covariance: Array) -> float:
        """The weighted sum of the targets' variances."""
        return float(self.ensemble.variances(covariance) @ self.weights)


def choose(market: Market, start: Sequence[int] = ()) -> list[int]:
    """Return the codes of runs to buy in order of purchase, those bought in any case (`start`) first.

    A run that is bought twice is listed twice.
    """
    kept = list(start)
    starts = [_fill(market, kept, exponent) for exponent in EXPONENTS]
    starts += [_fill(market, [*kept, run], 1.0) for run in _first_of_checkpoints(market, kept)]
    starts = [list(picks) for picks in dict.fromkeys(map(tuple, starts))]
    values = [market.value(market.ensemble.covariance(picks)) for picks in starts]
    if max(map(len, starts)) - len(kept) > FEW:  # else exchanges improve each of them, perhaps to another design
        at = int(np.argmin(values))
        starts, values = [starts[at]], [values[at]]
    improved = [_improve(market, picks, len(kept), value) for picks, value in zip(starts, values, strict=True)]
    best = min(improved, key=lambda picks: market.value(market.ensemble.covariance(picks)))
    if market.candidates.size <= FEWEST and market.replicates == 1:
        best = _search(market, kept, best)
    return _in_order(market, best, len(kept))


def _first_of_checkpoints(market: Market, kept: Sequence[int]) -> list[int]:
    """The affordable run of most gain of each checkpoint that must be trained, for the checkpoints whose best run gains most."""
    at = market.candidates
    gains = market.ensemble.gains(market.ensemble.covariance(kept), market.weights)
    gains[~np.isfinite(market.prices(kept))] = -np.inf
    unpaid = np.flatnonzero(at.unpaid(kept) > 0)
    best = [max(np.flatnonzero(at.checkpoint == checkpoint).tolist(), key=lambda run: gains[run]) for checkpoint in unpaid]
    return sorted((run for run in best if gains[run] > 0), key=lambda run: -gains[run])[:BUNDLES]


def _search(market: Market, kept: list[int], best: list[int]) -> list[int]:
    """The best of all designs, by branch and bound: a branch ends where all remaining runs together can't beat the best design."""
    ensemble, least = market.ensemble, market.value(market.ensemble.covariance(best))
    order = [run for run in np.argsort(-ensemble.gains(ensemble.covariance(kept), market.weights)).tolist() if run not in kept]
    last = np.cumsum([ensemble.curve(run).T @ ensemble.curve(run) for run in order[::-1]], axis=0)[::-1] if order else np.empty(0)

    def branch(at: int, picks: list[int], information: Array) -> None:
        nonlocal best, least
        value = market.value(np.linalg.inv(information))
        if value < least * (1 - 1e-9):
            best, least = picks, value
        if at == len(order) or market.value(np.linalg.inv(information + last[at])) >= least * (1 - 1e-9):
            return
        run = order[at]
        if np.isfinite(market.prices(picks)[run]):
            branch(at + 1, [*picks, run], information + ensemble.curve(run).T @ ensemble.curve(run))
        branch(at + 1, picks, information)

    branch(0, list(kept), np.linalg.inv(ensemble.covariance(kept)))
    return best


def _fill(market: Market, picks: Sequence[int], exponent: float, only: NDArray[np.int64] | None = None) -> list[int]:
    """Add runs to the picks in order of gain / price^exponent until the budget is spent."""
    picks, covariance = list(picks), market.ensemble.covariance(picks)
    gains = market.ensemble.gains(covariance, market.weights, only)
    while True:
        prices = market.prices(picks)
        run = _best(market, covariance, gains, np.where(np.isfinite(prices), prices**exponent, np.inf))
        if run is None:
            return picks
        chosen, most = [run], gains[run] / prices[run] ** exponent
        for bundle, rate in _bundles(market, picks, covariance, gains, prices, exponent):
            if rate > most * ROUNDING:
                chosen, most = bundle, rate
        for run in chosen:
            covariance = market.ensemble.after(covariance, run)
            picks.append(run)


def _best(market: Market, covariance: Array, gains: Array, scale: Array) -> int | None:
    """The run of most gain / scale, where the scale is inf for runs that can't be bought; None if no run has a gain.

    With rare exceptions the gain of a run falls as others are bought, so an earlier gain is an upper limit, and only runs whose
    limit beats the best need be evaluated again. `gains` holds these limits and is updated in place.
    """
    worth = np.nan_to_num(gains / scale, nan=-np.inf)
    order = np.argsort(-worth)
    best, most = None, 0.0
    for at in range(0, order.size, LOOKED_AT):
        some = order[at : at + LOOKED_AT]
        some = some[worth[some] > most]
        if not some.size:
            break
        gains[some] = market.ensemble.gains(covariance, market.weights, some)[some]
        now = gains[some] / scale[some]
        if now.max() > most:
            best, most = int(some[np.argmax(now)]), float(now.max())
    return best


def _bundles(
    market: Market, picks: Sequence[int], covariance: Array, gains: Array, prices: Array, exponent: float
) -> list[tuple[list[int], float]]:
    """Bundles of runs of one checkpoint that must be trained, each with its gain / price^exponent."""
    at, bundles = market.candidates, []
    unpaid = np.flatnonzero(at.unpaid(picks) > 0)
    if not unpaid.size:
        return []
    rate = np.where(np.isfinite(prices), np.nan_to_num(gains / at.cost**exponent, nan=-np.inf), -np.inf)
    best = np.full(at.price.size, -np.inf)
    np.maximum.at(best, at.checkpoint, rate)
    for checkpoint in unpaid[np.argsort(-best[unpaid])][:BUNDLES]:
        if best[checkpoint] == -np.inf:
            continue
        own = np.flatnonzero((at.checkpoint == checkpoint) & (rate > -np.inf))
        bundle, state, gain = list[int](), covariance, 0.0
        while len(bundle) < BUNDLE:
            added = market.prices([*picks, *bundle])[own]
            if not np.isfinite(added).any():
                break
            each = market.ensemble.gains(state, market.weights, own)[own]
            place = int(np.argmax(np.where(np.isfinite(added), each / added**exponent, -1.0)))
            run = int(own[place])
            state, gain, bundle = market.ensemble.after(state, run), gain + float(each[place]), [*bundle, run]
            if len(bundle) > 1:
                price = market.bill([*picks, *bundle]) - market.bill(picks)
                bundles.append((list(bundle), gain / price**exponent))
    return bundles


def _improve(market: Market, picks: list[int], kept: int, least: float) -> list[int]:
    """Exchange picks after the first `kept`, one by one or all of a checkpoint, for better ones until no exchange helps."""
    at = market.candidates
    for _ in range(PASSES):
        before, only, own = least, _shortlist(market, picks), picks[kept:]
        groups = [[run] for run in dict.fromkeys(own)]
        groups += [[r for r in own if at.checkpoint[r] == c] for c in np.unique(at.checkpoint[own]).tolist() if at.price[c] > 0]
        for out in groups:
            rest = list(picks)
            for run in out:
                if run in rest[kept:]:
                    del rest[kept + rest[kept:].index(run)]
            for exponent in (0.0, 1.0):
                tried = _fill(market, rest, exponent, only)
                value = market.value(market.ensemble.covariance(tried))
                if value < least * (1 - 1e-9):
                    picks, least = tried, value
        if least >= before * (1 - 1e-6):
            break
    return picks


def _shortlist(market: Market, picks: Sequence[int]) -> NDArray[np.int64]:
    """The runs that exchanges consider: the picks, and the runs of most gain for several powers of the price."""
    gains = market.ensemble.gains(market.ensemble.covariance(picks), market.weights)
    ranks = [np.argsort(-gains / market.candidates.cost**exponent)[:SHORTLIST] for exponent in EXPONENTS]
    return np.unique(np.concatenate([*ranks, np.array(picks, dtype=np.int64)]))


def _in_order(market: Market, picks: Sequence[int], kept: int) -> list[int]:
    """Sort picks by gain for their price given those before; the first `kept` picks stay where they are."""
    at, ordered, rest = market.candidates, list(picks[:kept]), list(picks[kept:])
    covariance = market.ensemble.covariance(ordered)
    while rest:
        some = np.unique(rest)
        gains = market.ensemble.gains(covariance, market.weights, some)[some]
        prices = at.cost[some] + at.unpaid(ordered)[at.checkpoint[some]]
        run = int(some[np.argmax(gains / prices)])
        rest.remove(run)
        ordered.append(run)
        covariance = market.ensemble.after(covariance, run)
    return ordered
