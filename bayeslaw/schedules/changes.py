"""Summarise all changes of the learning rate up to a step by a few nodes, for laws that sum over the changes.

The Multi-Power Law (Luo et al. 2025, arXiv 2503.12811) has

    sum_{k<=t} (eta_{k-1} - eta_k) g(eta_k, S_k(t)),     g = 1 - (1 + C eta_k^-gamma S_k(t))^-beta,     S_k(t) = sum_{i=k}^t eta_i,

for every step t, with parameters inside the sum. g rises with the number of steps since a change and then levels off, so changes
are collected in bins whose number of changes grows geometrically back from t; the latest changes have a bin each. A node has the
total fall of its bin, and means of rate and S for which powers and logarithms are nearly exact: g is nearly a power or a logarithm
in all but the latest bins. The first warm-up and later rises have their own bins.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Index
from bayeslaw.core.errors import whole_number
from bayeslaw.schedules.schedule import Schedule

NODES, MOST_NODES = 24, 10_000
LEAST = 1e-4  # of the peak: lower rates are written as this, since 0 has no negative power


def number_of_nodes(names: Iterable[str]) -> int:
    """Return the number of nodes among the covariates of these names."""
    return sum(name.startswith("fall_") for name in names)


def nodes(schedule: Schedule, at: ArrayLike, before: Schedule | None = None, *, number: int = NODES) -> pd.DataFrame:
    """Return the nodes of the changes up to some steps: columns fall_1 … fall_K, rate_1 … rate_K, since_1 … since_K.

    The rise from 0 to the first highest rate counts as changes, as in Luo et al., whose L0 is therefore lower by about B times the
    peak.

    Parameters
    ----------
    schedule, at : Schedule, int array (n,)
        Rates of a phase, and steps of the phase from 0 (before its first) to its last.
    before, number : Schedule, int
        Rates of all earlier phases, if there are any, and K, the number of nodes.

    Returns
    -------
    DataFrame
        One row for each step. If there are no more changes than nodes, each change has a node, the sum is exact, and the other
        nodes have a fall of 0. Rates below 1e-4 of the peak are written as that, since g has a negative power of them.

    Notes
    -----
    With 24 nodes and parameters fitted to losses of a 100M model (A .60, alpha .453, B 438, C 2.13, beta .598, gamma .655) sums
    differ from the exact ones by at most 9e-5 nats under cosine, linear, WSD, multi-step and stepped schedules of up to 10^5
    steps that end at a tenth of the peak or at 0, by 1.5e-4 after a rate is raised again, and by 2e-4 right after the warm-up.
    """
    number = whole_number("number", number, 4, MOST_NODES)
    at = schedule.steps_at(at)
    rates = schedule.rates if before is None else np.concatenate([before.rates, schedule.rates])
    steps = at + (0 if before is None else len(before))
    falls, area = -np.diff(rates, prepend=0.0), np.append(0.0, np.cumsum(rates))
    risen = int((schedule if before is None else before).rates.argmax()) + 1
    lowest = LEAST * float(rates.max())
    roots = np.sqrt(np.maximum(rates, lowest))
    first, later = np.arange(rates.size) < risen, np.arange(rates.size) >= risen
    groups = [np.flatnonzero(change & phase) for change, phase in ((falls != 0, first), (falls < 0, later), (falls > 0, later))]
    counts = np.stack([np.searchsorted(group, steps) for group in groups])  # step t has the index t - 1
    shares = np.zeros_like(counts)
    for i, most in enumerate((number // 4, number // 4, number)):  # falls have the nodes that warm-up and rises leave
        left = number - shares.sum(axis=0)
        shares[i] = np.minimum(counts[i], np.maximum(most, left - counts[i + 1 :].sum(axis=0)).clip(max=left))
    # falls and their sizes; root of rate, area before and its square, each times the sizes
    sums = np.zeros((5, steps.size, number))
    for group, count, share, begun in zip(groups, counts, shares, np.cumsum(shares, axis=0) - shares, strict=True):
        size = np.abs(falls[group])
        moments = [falls[group], size, *(size * v for v in (roots[group], area[group], area[group] ** 2))]
        ends = count[:, None] - _back(count, share, number)
        for k in range(int(share.max(initial=0))):
            row = np.flatnonzero(k < share)
            for total, moment in zip(sums, moments, strict=True):
                running = np.append(0.0, np.cumsum(moment))
                total[row, (begun + k)[row]] = running[ends[row, k]] - running[ends[row, k + 1]]
    fall, size, *means = sums
    empty = size <= 0
    root, gone, squared = (mean / np.where(empty, 1.0, size) for mean in means)
    rate = np.where(empty, rates.max(), root**2)
    since = np.where(empty, 0.0, np.maximum(area[steps, None] - gone, 0.0))
    spread = np.where(empty, 0.0, np.maximum(squared - gone**2, 0.0))
    since = since**2 / np.sqrt(np.maximum(since**2 + spread, 1e-300))  # of a log-normal S with these moments
    columns = {"fall": fall, "rate": rate, "since": since}
    return pd.DataFrame({f"{name}_{k + 1}": values[:, k] for name, values in columns.items() for k in range(number)})


def _back(count: Index, bins: Index, number: int) -> Index:
    """Return ends of bins as numbers of changes back from the last, array (n, number + 1): single changes, then growing bins."""
    ends = np.zeros((count.size, number + 1), dtype=np.int64)
    for k in range(number):
        last = ends[:, k]
        left = np.maximum(bins - k, 1)
        grown = np.ceil(last * (count / np.maximum(last, 1)) ** (1 / left) - 1e-9).astype(np.int64)
        grown = np.where(bins - k == 1, count, np.maximum(last + 1, grown))
        ends[:, k + 1] = np.where(k < bins, np.minimum(grown, count), last)
    return ends
