"""The Kalman filter of OU run effects as an operation of PyTensor, with its gradient; see `ou`."""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.noise.operation import DensityWithGradient


def filtered(
    error: Array, variance: Array, spread: Array, time: Array, starts: Index, length: Array,
    logp: Array, d_error: Array, d_variance: Array, d_spread: Array, d_length: Array,
) -> None:  # fmt: skip
    """Write the log density of rows sorted by run and clock, and its derivatives; plain Python, to be compiled.

    Parameters
    ----------
    error, variance, spread, time : arrays (n,)
        Log loss minus the law's, variance of the row's own noise, stationary variance of the run effect, and clock.
    starts : int array (R + 1,)
        First row of each run, and n.
    length : array (1,)
        Correlation length, in the clock's unit.
    logp, d_error, d_variance, d_spread, d_length
        Arrays for the results: (1,), three of (n,), and (1,).

    Notes
    -----
    With m and P the mean and variance of the effect given the rows before, S = P + v and K = P / S, a row adds K (e - m) to the
    mean and leaves the variance K v; to the next row the effect decays by rho = exp(-step / length) and gains the variance
    (1 - rho^2) t.
    """
    n = error.size
    rho, off, gain, precision = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    total, slope = 0.0, 0.0
    for j in range(starts.size - 1):
        mean, left = 0.0, 0.0
        for i in range(starts[j], starts[j + 1]):
            # A run begins with the stationary distribution: mean 0 and variance t.
            r = math.exp(min(max((time[i - 1] - time[i]) / length[0], -700.0), 0.0)) if i > starts[j] else 0.0
            before = r * r * left + (1 - r) * (1 + r) * spread[i]
            mean *= r
            e, p = error[i] - mean, 1 / (before + variance[i])
            k = before * p
            total += e * e * p + math.log(2 * math.pi / p)
            mean += k * e
            left = k * variance[i]
            rho[i], off[i], gain[i], precision[i] = r, e, k, p
        pull_mean, pull_left = 0.0, 0.0
        for i in range(starts[j + 1] - 1, starts[j] - 1, -1):
            e, k, p, r = off[i], gain[i], precision[i], rho[i]
            z = e * p
            d_whole = 0.5 * (z * z - p)
            pull = pull_mean * k - z
            d_before = d_whole + pull_mean * z * (1 - k) + pull_left * (1 - k) * (1 - k)
            d_variance[i] = d_whole - pull_mean * k * z + pull_left * k * k
            d_error[i], d_spread[i] = pull, (1 - r) * (1 + r) * d_before
            d_mean = pull_mean - pull
            pull_mean, pull_left = r * d_mean, r * r * d_before
            if i > starts[j]:
                mean = error[i - 1] - off[i - 1] * (1 - gain[i - 1])
                d_rho = mean * d_mean + 2 * r * (gain[i - 1] * variance[i - 1] - spread[i]) * d_before
                slope += d_rho * r * (time[i] - time[i - 1])
    logp[0], d_length[0] = -0.5 * total, slope / (length[0] * length[0])


class KalmanFilter(DensityWithGradient):
    """`filtered` for a graph: the log density, then its derivatives by error, variance, spread and length."""

    compiled_from = staticmethod(filtered)
    slopes = (0, 1, 2, 5)
    as_long_as = (None, 0, 0, 0, None)
