"""Types of arrays that several packages name, and a choice, sums and a mean that they share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def holds_numbers(values: Any) -> bool:
    """Whether an array or a column holds numbers, which truth values are not."""
    return values.dtype.kind in "fiu"


def sums_by(values: Array, code: Index) -> Array:
    """Return sums over the rows of one code along the last axis, array (..., R), such as those of a run.

    Parameters
    ----------
    values : array (..., n)
    code : int array (n,)
        0 to R - 1, ascending, each at least once.
    """
    return np.asarray(np.add.reduceat(values, np.flatnonzero(np.diff(code, prepend=-1)), axis=-1))


def evenly(size: int, most: int) -> Index:
    """Return at most `most` evenly spaced numbers of 0 to size - 1, from the first to the last; all if there are no more."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64))


def mean_of_largest(values: Array, share: float) -> Array:
    """Return the mean of the largest values along the last axis, the conditional value at risk (CVaR).

    Parameters
    ----------
    values : array (..., S)
    share : float
        How many of the S values count, between 0 and 1; one at least.
    """
    size = values.shape[-1]
    count = max(1, math.ceil(share * size * (1 - 1e-9)))  # .07 of 100 draws are 7.000000000000001
    return np.asarray(np.partition(values, size - count, axis=-1)[..., size - count :].mean(axis=-1))
