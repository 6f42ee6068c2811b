"""Types of arrays that several packages name, and a mean that they share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def mean_of_largest(values: Array, share: float) -> Array:
    """Return the mean of the largest values along the last axis, the conditional value at risk (CVaR).

    Parameters
    ----------
    values : array (..., S)
    share : float
        How many of the S values count, between 0 and 1; one at least.
    """
    size = values.shape[-1]
    count = max(1, math.ceil(share * size))
    return np.asarray(np.partition(values, size - count, axis=-1)[..., size - count :].mean(axis=-1))
