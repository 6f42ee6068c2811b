"""The density of rows with run and checkpoint effects and a learnt discrepancy integrated out, and its gradient; see `walk`."""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.noise.operation import DensityWithGradient


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

    Notes
    -----
    Without the discrepancy the covariance is R = diag(variance) + spread within runs + omega within checkpoints, whose inverse is
    known. With features F, Sigma = R + scale F F'; with A = F' R^-1 F and M = 1 + scale A, Woodbury's identity gives
    Sigma^-1 = R^-1 - scale R^-1 F M^-1 F' R^-1 and |Sigma| = |R| |M|. Derivatives by an entry v of the covariance are
    (alpha' dSigma/dv alpha - tr(Sigma^-1 dSigma/dv)) / 2 with alpha = Sigma^-1 error.
    """
    n, runs = error.size, spread.size
    k, last = features.size // n, checkpoint[runs - 1] + 1
    s2 = scale[0]
    weight, of_run = np.zeros(runs), np.zeros((runs, k + 1))  # sums over runs of precisions, and of features and error with these
    of_checkpoint, mass = np.zeros((last, k + 1)), np.zeros(last)
    total = n * math.log(2 * math.pi)
    for j in range(runs):
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
    for c in range(last):
        total += math.log(1 + omega[0] * mass[c])
    g = np.empty((n, k + 1))  # R^-1 of features, and of the error
    gram, whole = np.zeros((k, k)), np.zeros(k)
    for j in range(runs):
        c, shrunk = checkpoint[j], 1 + spread[j] * weight[j]
        from_run, from_checkpoint = spread[j] / shrunk, omega[0] / (1 + omega[0] * mass[c]) / shrunk
        for i in range(starts[j], starts[j + 1]):
            p = 1 / variance[i]
            for a in range(k + 1):
                x = features[i * k + a] if a < k else error[i]
                g[i, a] = p * (x - from_run * of_run[j, a] - from_checkpoint * of_checkpoint[c, a])
            total += error[i] * g[i, k]
            for a in range(k):
                f = features[i * k + a]
                whole[a] += f * g[i, k]
                for b in range(a + 1):
                    gram[a, b] += f * g[i, b]
    # Cholesky factor of M, its inverse, and M^-1.
    factor, inverse = np.zeros((k, k)), np.zeros((k, k))
    for a in range(k):
        for b in range(a + 1):
            x = s2 * gram[a, b] + (1.0 if a == b else 0.0)
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
    # With v = F' R^-1 error: w = M^-1 v, where M^-1 = inverse' inverse.
    half, w = np.zeros(k), np.zeros(k)
    trace = 0.0
    for a in range(k):
        for b in range(a + 1):
            half[a] += inverse[a, b] * whole[b]
            trace += inverse[a, b] * inverse[a, b]
        total -= s2 * half[a] * half[a]
    squares = 0.0
    for b in range(k):
        for a in range(b, k):
            w[b] += inverse[a, b] * half[a]
        squares += w[b] * w[b]
    logp[0] = -0.5 * total
    # tr(A M^-1) = (k - tr M^-1) / scale; for a scale of 0 it is tr A.
    diagonal = 0.0
    for a in range(k):
        diagonal += gram[a, a]
    d_scale[0] = 0.5 * (squares - ((k - trace) / s2 if s2 > 1e-14 else diagonal))
    d_omega[0] = 0.0
    alphas = 0.0
    in_checkpoint, in_run, rotated = np.zeros(k), np.zeros(k), np.zeros(k)
    for j in range(runs):
        c, shrunk = checkpoint[j], 1 + spread[j] * weight[j]
        from_run, from_checkpoint = spread[j] / shrunk, omega[0] / (1 + omega[0] * mass[c])
        in_run[:] = 0.0
        own = 0.0
        for i in range(starts[j], starts[j + 1]):
            p, alpha, explained = 1 / variance[i], g[i, k], 0.0
            for a in range(k):
                alpha -= s2 * g[i, a] * w[a]
                in_run[a] += g[i, a]
                x = 0.0
                for b in range(a + 1):
                    x += inverse[a, b] * g[i, b]
                explained += x * x
            d_error[i] = -alpha
            own += alpha
            precision = p * (1 - p * (from_run + from_checkpoint / (shrunk * shrunk)))
            d_variance[i] = 0.5 * (alpha * alpha - precision + s2 * explained)
        explained = 0.0
        for a in range(k):
            in_checkpoint[a] += in_run[a]
            x = 0.0
            for b in range(a + 1):
                x += inverse[a, b] * in_run[b]
            explained += x * x
        x = weight[j] / shrunk
        d_spread[j] = 0.5 * (own * own - x * (1 - from_checkpoint * x) + s2 * explained)
        alphas += own
        if j + 1 == runs or checkpoint[j + 1] != c:
            explained = 0.0
            for a in range(k):
                rotated[a] = 0.0
                for b in range(a + 1):
                    rotated[a] += inverse[a, b] * in_checkpoint[b]
                explained += rotated[a] * rotated[a]
            d_omega[0] += 0.5 * (alphas * alphas - mass[c] / (1 + omega[0] * mass[c]) + s2 * explained)
            in_checkpoint[:] = 0.0
            alphas = 0.0


class LowRank(DensityWithGradient):
    """`integrated` for a graph: the log density, then its derivatives by error, variance, spread, omega and scale."""

    compiled_from = staticmethod(integrated)
    slopes = (0, 1, 2, 3, 4)
    as_long_as = (None, 0, 0, 2, None, None)
