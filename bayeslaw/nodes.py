"""All changes of the learning rate up to a step, put together into a few nodes, for laws that sum over them.

The Multi-Power Law (Luo et al. 2025, arXiv 2503.12811) has

    sum_{k<=t} (eta_{k-1} - eta_k) g(eta_k, S_k(t)),     g = 1 - (1 + C eta_k^-gamma S_k(t))^-beta,     S_k(t) = sum_{i=k}^t eta_i,

for every step t, with parameters inside the sum. g rises with the number of steps since a change and then levels off, so changes
are put together in bins that grow geometrically back from t, by their number: the latest stand alone. A node is a bin's whole fall,
with the geometric means of rate and of S over it: most bins lie where g is nearly a power or a logarithm of both. Rises of the rate
have bins of their own.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.errors import BayeslawError, whole_number
from bayeslaw.schedules import Schedule

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

NODES = 24
LEAST = 1e-4  # of the peak: a rate of 0 has no power, and what follows a change to it has long been felt anyway


def nodes(schedule: Schedule, at: Numbers, before: Schedule | None = None, *, number: int = NODES) -> pd.DataFrame:
    """The changes of the rate up to some steps as nodes: columns fall_1 … fall_K, rate_1 … rate_K, since_1 … since_K.

    Parameters
    ----------
    schedule : Schedule
        Rates of a phase.
    at : int array (n,)
        Steps of the phase, from 0 (before its first) to its last.
    before : Schedule, optional
        Everything that went before. The warm-up of the first phase is no change, as in `schedules.areas`: only what follows the
        first highest rate counts.
    number : int
        K, the number of nodes.

    Returns
    -------
    DataFrame
        One row for each step. Where there are no more changes than nodes every change has one, and the sum is exact; nodes left
        over have a fall of 0. Rates below 1e-4 of the peak are written as that, since g has a negative power of them.

    Notes
    -----
    With 24 nodes and parameters fitted to losses of a 100M model (A .60, alpha .453, B 438, C 2.13, beta .598, gamma .655) sums
    differ from the exact ones by at most 4e-5 nats under cosine, linear, WSD and multi-step schedules of up to 10^5 steps that
    end at a tenth of the peak or at 0, and by 3e-4 nats shortly after a rate is raised again.
    """
    whole_number("number", number, 4)
    if at.size and (at.min() < 0 or at.max() > len(schedule)):
        wrong = at.min() if at.min() < 0 else at.max()
        raise BayeslawError(f"{schedule.name} has steps 0 to {len(schedule)}; step {wrong} is asked for.")
    rates = schedule.rates if before is None else np.concatenate([before.rates, schedule.rates])
    steps = at + (0 if before is None else len(before))
    falls = -np.diff(rates, prepend=rates[0])
    first = schedule if before is None else before
    falls[: int(first.rates.argmax()) + 1] = 0.0
    area = np.append(0.0, np.cumsum(rates))
    lowest = LEAST * float(rates.max())
    felt = np.maximum(rates, lowest)
    down, up = (np.flatnonzero(change > 0) for change in (falls, -falls))
    many = [np.searchsorted(which, steps) for which in (down, up)]  # step t has the index t - 1
    rising = np.minimum(many[1], np.maximum(number // 3, number - many[0]))
    parts = []
    for which, count, bins in ((down, many[0], number - rising), (up, many[1], rising)):
        moments = (1.0, np.log(felt[which]), area[which], area[which] ** 2)
        sums = [np.append(0.0, np.cumsum(np.abs(falls[which]) * v)) for v in moments]
        ends = count[:, None] - _back(count, bins, number)
        parts.append([np.diff(-total[ends], axis=1) for total in sums])
    # Falls fill the nodes from the front, rises from behind.
    (fall, *means), (rise, *others) = parts[0], [part[:, ::-1] for part in parts[1]]
    empty = (size := fall + rise) <= 0
    log_rate, gone, squared = ((one + other) / np.where(empty, 1.0, size) for one, other in zip(means, others, strict=True))
    rate = np.where(empty, rates.max(), np.exp(log_rate))
    since = np.where(empty, 0.0, np.maximum(area[steps, None] - gone, 0.0))
    spread = np.where(empty, 0.0, np.maximum(squared - gone**2, 0.0))
    since = since**2 / np.sqrt(np.maximum(since**2 + spread, 1e-300))  # of a log-normal S with these moments
    columns = {"fall": fall - rise, "rate": rate, "since": since}
    return pd.DataFrame({f"{name}_{k + 1}": values[:, k] for name, values in columns.items() for k in range(number)})


def _back(count: Numbers, bins: Numbers, number: int) -> Numbers:
    """Ends of bins as numbers of changes back from the last, (n, number + 1): single ones first, then growing geometrically."""
    ends = np.zeros((count.size, number + 1), dtype=np.int64)
    for k in range(number):
        last = ends[:, k]
        left = np.maximum(bins - k, 1)
        grown = np.ceil(last * (count / np.maximum(last, 1)) ** (1 / left) - 1e-9).astype(np.int64)
        ends[:, k + 1] = np.where(k < bins, np.minimum(np.maximum(last + 1, grown), count), last)
    return ends
