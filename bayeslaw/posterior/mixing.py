"""R-hat and effective sample sizes of many quantities at once, equal to those of ArviZ to the last digit.

ArviZ goes through the quantities one by one and ranks the draws of each for R-hat and again for the bulk effective sample size.
Here they are ranked once, and what can be is computed for all quantities together, in a third of the time. Both statistics are
those of Vehtari et al. (2021), Rank-normalization, folding, and localization: https://doi.org/10.1214/20-BA1221.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ndtri

from bayeslaw.core.arrays import Array, Index

STATISTICS = ("r_hat", "ess_bulk", "ess_tail")
TAILS = (0.05, 0.95)  # ends of the 90% interval; ArviZ's own default is 11 and 89%
LEAST_DRAWS = 4  # of a chain
STILL = 1e-15  # largest range of draws that never moved
BLOM = 3 / 8  # offset of ranks in Blom's normal scores
BLOCK = 2**21  # numbers in memory at a time, which bounds how many quantities are computed together


def mixing(values: Array, names: Collection[str] = STATISTICS) -> dict[str, Array]:
    """Return R-hat and effective sample sizes, arrays (m,), of quantities with draws (m, chains, draws).

    They are nan for draws that are too few (less than four, or for R-hat one chain) or of which one is not a number.

    Parameters
    ----------
    values : array (m, chains, draws)
    names : collection of str
        Which of 'r_hat', 'ess_bulk' and 'ess_tail'.
    """
    m, chains, draws = values.shape
    found = {name: np.full(m, np.nan) for name in names}
    usable = np.flatnonzero(~np.isnan(values).any(axis=(1, 2))) if draws >= LEAST_DRAWS else np.empty(0, np.int64)
    step = max(1, BLOCK // max(chains * draws, 1))
    for rows in (usable[start : start + step] for start in range(0, usable.size, step)):
        of_rows = _mixing(values[rows], names)
        for name, numbers in of_rows.items():
            found[name][rows] = numbers
    return found


def _mixing(values: Array, names: Collection[str]) -> dict[str, Array]:
    """The same of a few quantities with enough draws, all of them numbers."""
    m, chains, _ = values.shape
    found, halves = dict[str, Array](), _halves(values)
    if {"r_hat", "ess_bulk"} & {*names}:
        flat = halves.reshape(m, -1)
        order = np.argsort(flat, axis=1)
        ordered = np.take_along_axis(flat, order, axis=1)
        scores = _normal_scores(ordered, order).reshape(halves.shape)
    if "r_hat" in names and chains > 1:
        found["r_hat"] = np.fmax(_r_hat(scores), _r_hat(_normal_scores(*_folded(ordered, order)).reshape(halves.shape)))
    if "ess_bulk" in names:
        found["ess_bulk"] = _effective_sizes(scores)
    if "ess_tail" in names:
        ends = np.quantile(values.reshape(m, -1), TAILS, axis=1)
        below = (np.where(values <= end[:, None, None], 1.0, 0.0) for end in ends)
        found["ess_tail"] = np.minimum(*(_effective_sizes(_halves(indicators)) for indicators in below))
    return found


def _halves(values: Array) -> Array:
    """Every chain as two of half its length, array (m, 2 chains, draws // 2), without the middle one of an odd number of draws."""
    half = values.shape[-1] // 2
    return np.concatenate([values[..., :half], values[..., -half:]], axis=1)


def _folded(ordered: Array, order: Index) -> tuple[Array, Index]:
    """Distances (m, n) of ordered draws from their median in ascending order, and the places of these draws; changes `order`.

    Below the median and above it they are in order already, and a stable sort merges the two.
    """
    middle = ordered.shape[1] // 2  # of an even number
    distances = np.abs(ordered - (ordered[:, [middle - 1]] + ordered[:, [middle]]) / 2)
    for values in (distances, order):
        values[:, :middle] = values[:, middle - 1 :: -1]
    merged = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, merged, axis=1), np.take_along_axis(order, merged, axis=1)


def _normal_scores(ordered: Array, order: Index) -> Array:
    """Normal scores (m, n) of the ranks of ordered draws, averaged among equal ones, put where the draws were."""
    m, n = ordered.shape
    begins = np.ones((m, n), dtype=bool)  # whether a value differs from the one before it
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    ends = np.broadcast_to(2 * np.arange(n), (m, n))  # sums of the first and the last place, from 0, of draws with the same value
    if not begins.all():
        first = np.flatnonzero(begins)
        count = np.diff(first, append=m * n)
        several = count > 1
        ends = ends.copy()
        ends[~begins | np.roll(~begins, -1)] = np.repeat((2 * (first % n) + count - 1)[several], count[several])
    of_ends = ndtri((0.5 * (np.arange(2 * n - 1) + 2) - BLOM) / (n - 2 * BLOM + 1))
    scores = np.empty((m, n))
    np.put_along_axis(scores, order, of_ends[ends], axis=1)
    return scores


def _r_hat(chains: Array) -> Array:
    """R-hat (m,) of chains (m, c, n)."""
    n = chains.shape[-1]
    between = n * chains.mean(axis=-1).var(axis=-1, ddof=1)
    within = chains.var(axis=-1, ddof=1).mean(axis=-1)
    return np.asarray(np.sqrt((between / within + n - 1) / n))


def _effective_sizes(chains: Array) -> Array:
    """Effective sample sizes (m,) of chains (m, c, n) by Geyer's initial monotone sequence; all draws count where none moved."""
    _, c, n = chains.shape
    sizes = np.full(len(chains), float(c * n))
    moved = np.flatnonzero(~(np.ptp(chains, axis=(1, 2)) < STILL))
    chains = chains[moved]
    means = chains.mean(axis=-1)
    # Lag by lag the mean over chains is of adjacent numbers, which NumPy adds in the order in which ArviZ does.
    of_lags = np.ascontiguousarray(np.swapaxes(_autocovariances(chains - means[..., None]), 1, 2)).mean(axis=-1)
    within = of_lags[:, 0] * n / (n - 1.0)
    total = within * (n - 1.0) / n
    if c > 1:
        total = total + means.var(axis=-1, ddof=1)
    rho = 1.0 - (within[:, None] - of_lags) / total[:, None]
    rho[:, 0] = 1.0
    for i, row in zip(moved, rho, strict=True):
        sizes[i] = c * n / max(_correlation_time(row), 1 / np.log10(c * n))
    return sizes


def _autocovariances(centred: Array) -> Array:
    """Autocovariances (m, c, n) at every lag of chains whose means are 0."""
    n = centred.shape[-1]
    padded = next_fast_len(2 * n, real=False)
    spectrum = np.fft.rfft(centred, n=padded)
    spectrum *= np.conjugate(spectrum)
    return np.asarray(np.fft.irfft(spectrum, n=padded)[..., :n] / n)


def _correlation_time(rho: Array) -> float:
    """Sum of the correlations of lags -n to n, given those of 0 to n - 1.

    Sums of a pair of lags, an even one and the next, are positive and fall. So pairs are added up to the first whose sum is not
    positive, and a pair whose sum exceeds an earlier one's counts as much as that.
    """
    if np.isnan(rho[1]):
        return np.nan
    pairs = rho[: max(2, 2 * ((rho.size - 1) // 2))].reshape(-1, 2)
    sums = pairs.sum(axis=1)
    stops = ~(sums > 0)
    last = int(stops.argmax()) if stops.any() else len(sums) - 1
    least = np.minimum.accumulate(sums[:last])
    used = np.where(sums[:last, None] > least[:, None], least[:, None] / 2, pairs[:last])
    beyond = pairs[last, 0] if last == 0 or pairs[last, 0] > 0 or sums[last] >= 0 else 0.0
    return float(-1.0 + 2.0 * used.sum(axis=None) + beyond)
