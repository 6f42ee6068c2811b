"""A fit conditioned on a run that it was not fitted to: importance weights of its draws, and the run's effect from there on.

    weight(draw) ~ p(rows of the run | draw),   log p = sum_i log Normal(e_i; m_i, v_i)

e_i is the log loss of a row minus the law's, and m_i and v_i are the filter's mean and variance of it given the rows before
(`noise.ou`; an effect that stays the same is one of endless correlation length). The weights are smoothed by a generalised Pareto
distribution (Vehtari et al. 2024). Its shape k says whether the draws can stand for the posterior with the run: above `good_k`
they can't.

The filter also has what was predicted of each row before it came: the mixture over the draws, as weighted by the earlier rows, of
Normal(m_i, v_i). `left_band` judges the probabilities that these give the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayeslaw.core.arrays import Array, Index
from bayeslaw.noise import ou

ENDLESS = 1e12  # correlation length of an effect that stays the same
LEAST, HALVINGS = 100, 12  # effective draws that weights leave, and steps of the search for a power of the likelihood that does
ALARM = 0.05  # probability of a false alarm in the whole of a run
BAND = 0.9  # of the intervals outside of which rows count
RATES = (0.3, 0.6, 0.9)  # shares of rows outside the band that are compared with those of a run that keeps to it


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales of a run's noise by draw, arrays (S,): of points, of the run effect, and its correlation length."""

    point: Array
    run: Array
    length: Array


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Draws of the posterior with the run.

    Attributes
    ----------
    chosen : int array (S,)
        Numbers of the fit's draws, resampled by their weights.
    effect : array (S, m)
        The run's effect at the moments asked for.
    pit : array (k,)
        The probability that each new row would have a lower loss, as predicted when the row before it was known.
    power : float
        Power of the likelihood: 1, or less where the run's rows are so unlikely under the fit that too few draws would be left.
    pareto_k, good_k : float
        Shape of the largest weights' distribution, and above which shape they are unreliable; -inf without new rows.
    """

    chosen: Index
    effect: Array
    pit: Array
    power: float
    pareto_k: float
    good_k: float

    @property
    def reliable(self) -> bool:
        """Whether the resampled draws can stand for the posterior with the run."""
        return self.power == 1 and self.pareto_k <= self.good_k


def condition(
    residual: Array,
    time: Array,
    new: NDArray[np.bool_],
    scales: Scales,
    at: Array,
    rng: np.random.Generator,
    known: Array | float = 0.0,
) -> Conditioned:
    """Condition the draws of a fit on a run.

    Parameters
    ----------
    residual, time : arrays (S, k) and (k,)
        Log losses of the run's rows minus the law's, and the rows' clock, ascending, in the unit of `scales.length`.
    new : bool array (k,)
        Rows that the draws don't know yet; those that they know come first.
    scales : Scales
    at : array (m,)
        Moments on the clock at which the effect is asked for.
    rng : Generator
        Generator of the effect.
    known : array (k,)
        Known variances of the rows, beside those of points.
    """
    size, known = scales.point.size, np.broadcast_to(known, time.shape)
    good = min(1 - 1 / math.log10(size), 0.7)
    point, run = scales.point**2, scales.run**2
    added, variance = ou.innovations(residual, point[:, None] + known, time, run, scales.length)
    chosen, pit, k, share = np.arange(size), np.empty(0), -math.inf, 1.0
    if new.any():
        added, variance = added[:, new], variance[:, new]
        likelihood = np.cumsum(-0.5 * (np.log(2 * math.pi * variance) + added**2), axis=1)
        shares = tempered(likelihood)
        earlier = np.hstack([np.zeros((size, 1)), (shares * likelihood)[:, :-1]])
        weights = np.exp(earlier - earlier.max(axis=0))
        pit = (weights * ndtr(added)).sum(axis=0) / weights.sum(axis=0)
        chosen, k = smoothed(shares[-1] * likelihood[:, -1])
        share = float(shares[-1])
    effect = ou.sample_effect(residual[chosen], point[chosen], known, time, run[chosen], scales.length[chosen], at, rng)
    return Conditioned(chosen, effect.T, np.asarray(pit), share, k, good)


def tempered(likelihood: Array) -> Array:
    """Return the powers (k,) of likelihoods (S, k) that leave `LEAST` draws effective: 1, or less where one is too sharp."""
    low, high = np.zeros(likelihood.shape[1]), np.ones(likelihood.shape[1])
    log_ratio = likelihood - likelihood.max(axis=0)

    def effective(power: Array, some: NDArray[np.bool_]) -> Array:
        weights = np.exp(power[some] * log_ratio[:, some])
        return np.asarray(weights.sum(axis=0) ** 2 / (weights**2).sum(axis=0))

    sharp = effective(high, high > 0) < LEAST
    for _ in range(HALVINGS if sharp.any() else 0):
        middle = (low + high) / 2
        enough = effective(middle, sharp) >= LEAST
        low[sharp], high[sharp] = np.where(enough, middle[sharp], low[sharp]), np.where(enough, high[sharp], middle[sharp])
    return np.where(sharp, low, 1.0)


def smoothed(log_weights: Array) -> tuple[Index, float]:
    """Return draws resampled by Pareto-smoothed weights, int array (S,), and the Pareto shape k.

    Where the weights have no tail to smooth, because hardly a draw has any, they stay as they are and k is inf.
    """
    from arviz_stats.base import array_stats

    try:
        log_smooth, k = array_stats.psislw(-log_weights)
    except ValueError:  # all values of the tail are the same
        log_smooth, k = log_weights, math.nan
    if math.isnan(k):
        log_smooth, k = log_weights, math.inf
    ends = np.cumsum(np.exp(log_smooth - log_smooth.max()))
    size = ends.size
    chosen = np.searchsorted(ends / ends[-1], (np.arange(size) + 0.5) / size)
    return np.minimum(chosen, size - 1).astype(np.int64), float(k)


def left_band(pit: Sequence[float] | Array) -> int | None:
    """Return the number of rows after which a run has left its band, or None.

    The band of a row is the interval of probability `BAND` stated before the row came. As long as the model holds, rows lie outside
    with probability 1 - BAND, independently. The evidence against this is the likelihood ratio of a share of rows outside in
    `RATES` from some row on, averaged over these shares and over the rows from which it may hold (`_share`). Its expectation is 1
    whenever one looks, so by Ville's inequality it reaches 1 / `ALARM` in at most this share of the runs that keep to their band,
    however long they are.

    Parameters
    ----------
    pit : array (k,)
        As in `Conditioned`, in the order in which the rows came.
    """
    outside = np.abs(np.asarray(pit) - 0.5) > BAND / 2
    expected = 1 - BAND
    ratios = {True: [rate / expected for rate in RATES], False: [(1 - rate) / (1 - expected) for rate in RATES]}
    running, left = [0.0] * len(RATES), 1.0  # numbers of Python: arrays of three take eight times as long
    for i, out in enumerate(outside.tolist(), start=1):
        start = _share(i)
        left -= start
        running = [(evidence + start) * ratio for evidence, ratio in zip(running, ratios[out], strict=True)]
        if sum(running) / len(running) + left >= 1 / ALARM:
            return i
    return None


def _share(i: int) -> float:
    """The prior probability that a run leaves its band from row i on; they add up to 1."""
    return 1 / math.log2(i + 1) - 1 / math.log2(i + 2)
