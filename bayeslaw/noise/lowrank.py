"""The density of rows with run and checkpoint effects and a learnt discrepancy integrated out, and its gradient; see `walk`.

Without the discrepancy the covariance is R = diag(variance) + spread within runs + omega within checkpoints, whose inverse is
known. With features F, Sigma = R + scale F F'; with A = F' R^-1 F and M = 1 + scale A, Woodbury's identity gives
Sigma^-1 = R^-1 - scale R^-1 F M^-1 F' R^-1 and |Sigma| = |R| |M|. Derivatives by an entry v of the covariance are
(alpha' dSigma/dv alpha - tr(Sigma^-1 dSigma/dv)) / 2 with alpha = Sigma^-1 error.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.noise.operation import DensityWithGradient, part_of_compiled


def integrated(
    error: Array, variance: Array, spread: Array, omega: Array, scale: Array, features: Array, starts: Index, checkpoint: Index,
    logp: Array, d_error: Array, d_variance: Array, d_spread: Array, d_omega: Array, d_scale: Array,
) -> None:  # fmt: skip
    """Write the log density of normal rows, and its derivatives; plain Python, to be compiled.

    Parameters
    ----------
    error, variance : arrays (n,)
        Log loss minus the law's, and variance of the row's own noise.
    spread : array (R,)
        Variances of run effects.
    omega, scale : arrays (1,)
        Variance of checkpoint effects, and square of the discrepancy's scale.
    features : array (n k,)
        Features of each row, one row after the other.
    starts, checkpoint : int arrays (R + 1,) and (R,)
        First row of each run and n; codes of the runs' checkpoints, ascending from 0.
    logp, d_error, d_variance, d_spread, d_omega, d_scale
        Arrays for the results: (1,), two of (n,), (R,), (1,) and (1,).
    """
    n, runs = error.size, spread.size
    k = features.size // n
    weight, mass, g = np.zeros(runs), np.zeros(checkpoint[runs - 1] + 1), np.empty((n, k + 1))
    total = without_discrepancy(error, variance, spread, omega[0], features, starts, checkpoint, weight, mass, g)
    gram, whole = np.zeros((k, k)), np.zeros(k)
    for i in range(n):
        total += error[i] * g[i, k]
        for a in range(k):
            f = features[i * k + a]
            whole[a] += f * g[i, k]
            for b in range(a + 1):
                gram[a, b] += f * g[i, b]
    inverse, w = np.zeros((k, k)), np.zeros(k)
    logp[0] = -0.5 * with_discrepancy(total, gram, whole, scale[0], inverse, w, d_scale)
    write_slopes(
        variance, spread, omega[0], scale[0], starts, checkpoint, weight, mass, g, inverse, w, d_error, d_variance, d_spread,
        d_omega,
    )  # fmt: skip


@part_of_compiled
def without_discrepancy(
    error: Array, variance: Array, spread: Array, omega: float, features: Array, starts: Index, checkpoint: Index,
    weight: Array, mass: Array, g: Array,
) -> float:  # fmt: skip
    """Return n log 2 pi + log |R|, and write what the density without the discrepancy needs.

    Parameters
    ----------
    error, variance, spread, omega, features, starts, checkpoint
        As for `integrated`.
    weight, mass : arrays (R,) and (C,), written
        The precisions of each run's rows, and those of each checkpoint's runs.
    g : array (n, k + 1), written
        R^-1 of the features and, in the last column, of the error.
    """
    n, k = error.size, g.shape[1] - 1
    of_run, of_checkpoint = np.zeros((spread.size, k + 1)), np.zeros((mass.size, k + 1))  # features and error times precisions
    total = n * math.log(2 * math.pi)
    for j in range(spread.size):
        for i in range(starts[j], starts[j + 1]):
            p = 1 / variance[i]
            weight[j] += p
            total -= math.log(p)
            of_run[j, k] += p * error[i]
            for a in range(k):
                of_run[j, a] += p * features[i * k + a]
        shrunk = 1 + spread[j] * weight[j]
        total += math.log(shrunk)
        c = checkpoint[j]
        mass[c] += weight[j] / shrunk
        for a in range(k + 1):
            of_checkpoint[c, a] += of_run[j, a] / shrunk
    for c in range(mass.size):
        total += math.log(1 + omega * mass[c])
    for j in range(spread.size):
        c, shrunk = checkpoint[j], 1 + spread[j] * weight[j]
        from_run, from_checkpoint = spread[j] / shrunk, omega / (1 + omega * mass[c]) / shrunk
        for i in range(starts[j], starts[j + 1]):
            p = 1 / variance[i]
            for a in range(k + 1):
                x = features[i * k + a] if a < k else error[i]
                g[i, a] = p * (x - from_run * of_run[j, a] - from_checkpoint * of_checkpoint[c, a])
    return total


@part_of_compiled
def with_discrepancy(total: float, gram: Array, whole: Array, scale: float, inverse: Array, w: Array, d_scale: Array) -> float:
    """Return -2 times the log density, and write what its derivatives need.

    Parameters
    ----------
    total : float
        -2 times the log density without the discrepancy.
    gram, whole : arrays (k, k) and (k,)
        A = F' R^-1 F and F' R^-1 error.
    scale : float
        Square of the discrepancy's scale.
    inverse, w : arrays (k, k) and (k,), written
        The inverse of M's Cholesky factor, and M^-1 F' R^-1 error.
    d_scale : array (1,), written
        The derivative by the scale.
    """
    k = w.size
    factor = np.zeros((k, k))
    for a in range(k):
        for b in range(a + 1):
            x = scale * gram[a, b] + (1.0 if a == b else 0.0)
            for d in range(b):
                x -= factor[a, d] * factor[b, d]
            factor[a, b] = math.sqrt(x) if a == b else x / factor[b, b]
        total += 2 * math.log(factor[a, a])
    for b in range(k):
        inverse[b, b] = 1 / factor[b, b]
        for a in range(b + 1, k):
            x = 0.0
            for d in range(b, a):
                x -= factor[a, d] * inverse[d, b]
            inverse[a, b] = x / factor[a, a]
    half, trace = np.zeros(k), 0.0  # M^-1 = inverse' inverse
    for a in range(k):
        for b in range(a + 1):
            half[a] += inverse[a, b] * whole[b]
            trace += inverse[a, b] * inverse[a, b]
        total -= scale * half[a] * half[a]
    squares, diagonal = 0.0, 0.0
    for b in range(k):
        for a in range(b, k):
            w[b] += inverse[a, b] * half[a]
        squares += w[b] * w[b]
        diagonal += gram[b, b]
    # tr(A M^-1) = (k - tr M^-1) / scale; for a scale of 0 it is tr A.
    d_scale[0] = 0.5 * (squares - ((k - trace) / scale if scale > 1e-14 else diagonal))
    return total


@part_of_compiled
def write_slopes(
    variance: Array, spread: Array, omega: float, scale: float, starts: Index, checkpoint: Index, weight: Array, mass: Array,
    g: Array, inverse: Array, w: Array, d_error: Array, d_variance: Array, d_spread: Array, d_omega: Array,
) -> None:  # fmt: skip
    """Write the derivatives by errors, variances and effects.

    Parameters
    ----------
    variance, spread, omega, scale, starts, checkpoint
        As for `integrated`.
    weight, mass, g, inverse, w
        As the two functions above have written them.
    d_error, d_variance, d_spread, d_omega : arrays (n,), (n,), (R,), (1,), written
    """
    runs, k = spread.size, w.size
    d_omega[0] = 0.0
    alphas = 0.0
    in_checkpoint, in_run = np.zeros(k), np.zeros(k)
    for j in range(runs):
        c, shrunk = checkpoint[j], 1 + spread[j] * weight[j]
        from_run, from_checkpoint = spread[j] / shrunk, omega / (1 + omega * mass[c])
        in_run[:] = 0.0
        own = 0.0
        for i in range(starts[j], starts[j + 1]):
            p, alpha = 1 / variance[i], g[i, k]
            for a in range(k):
                alpha -= scale * g[i, a] * w[a]
                in_run[a] += g[i, a]
            d_error[i] = -alpha
            own += alpha
            precision = p * (1 - p * (from_run + from_checkpoint / (shrunk * shrunk)))
            d_variance[i] = 0.5 * (alpha * alpha - precision + scale * square_of_product(inverse, g[i]))
        for a in range(k):
            in_checkpoint[a] += in_run[a]
        x = weight[j] / shrunk
        d_spread[j] = 0.5 * (own * own - x * (1 - from_checkpoint * x) + scale * square_of_product(inverse, in_run))
        alphas += own
        if j + 1 == runs or checkpoint[j + 1] != c:
            explained = square_of_product(inverse, in_checkpoint)
            d_omega[0] += 0.5 * (alphas * alphas - mass[c] / (1 + omega * mass[c]) + scale * explained)
            in_checkpoint[:] = 0.0
            alphas = 0.0


@part_of_compiled
def square_of_product(lower: Array, x: Array) -> float:
    """Return the squared length of a lower triangular matrix (k, k) times the first k numbers of x."""
    total = 0.0
    for a in range(len(lower)):
        product = 0.0
        for b in range(a + 1):
            product += lower[a, b] * x[b]
        total += product * product
    return total


class LowRank(DensityWithGradient):
    """`integrated` for a graph: the log density, then its derivatives by error, variance, spread, omega and scale."""

    compiled_from = staticmethod(integrated)
    slopes = (0, 1, 2, 3, 4)
    as_long_as = (None, 0, 0, 2, None, None)
