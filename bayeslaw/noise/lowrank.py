"""The density of rows with run and checkpoint effects and a learnt discrepancy integrated out, and its gradient; see `walk`.

Where the rows' noise has one scale, `density` has a shorter way without effects, and with run effects it gives few rows for all.

Without the discrepancy the covariance is R = diag(variance) + spread within runs + omega within checkpoints, whose inverse is
known. With features F, Sigma = R + scale F F'; with A = F' R^-1 F and M = 1 + scale A, Woodbury's identity gives
Sigma^-1 = R^-1 - scale R^-1 F M^-1 F' R^-1 and |Sigma| = |R| |M|. Derivatives by an entry v of the covariance are
(alpha' dSigma/dv alpha - tr(Sigma^-1 dSigma/dv)) / 2 with alpha = Sigma^-1 error.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.noise.operation import DensityWithGradient, part_of_compiled, sums_of_compiled


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
    features : array (k n,)
        The first feature of all rows, then the second, and so on: loops over rows are compiled to vector instructions.
    starts, checkpoint : int arrays (R + 1,) and (R,)
        First row of each run and n; codes of the runs' checkpoints, ascending from 0.
    logp, d_error, d_variance, d_spread, d_omega, d_scale
        Arrays for the results: (1,), two of (n,), (R,), (1,) and (1,).
    """
    n, runs = error.size, spread.size
    k = features.size // n
    weight, mass, g = np.zeros(runs), np.zeros(checkpoint[runs - 1] + 1), np.empty((k + 1, n))
    precision, table = 1 / variance, features.reshape((k, n))
    total = without_discrepancy(error, precision, spread, omega[0], table, starts, checkpoint, weight, mass, g)
    gram, whole = np.zeros((k, k)), np.zeros(k)
    write_products(table, g, gram, whole)
    for i in range(n):
        total += error[i] * g[k, i]
    inverse, w = np.zeros((k, k)), np.zeros(k)
    logp[0] = -0.5 * with_discrepancy(total, gram, whole, scale[0], inverse, w, d_scale)
    write_slopes(
        precision, spread, omega[0], scale[0], starts, checkpoint, weight, mass, g, inverse, w, d_error, d_variance, d_spread,
        d_omega,
    )  # fmt: skip


@sums_of_compiled
def write_products(features: Array, g: Array, gram: Array, whole: Array) -> None:
    """Write products of the features.

    Parameters
    ----------
    features, g
        As for `without_discrepancy`.
    gram, whole : arrays (k, k) and (k,), written
        The lower half of A = F' R^-1 F, and F' R^-1 error.
    """
    k, n = len(gram), g.shape[1]
    for a in range(k):
        for b in range(a + 1):
            total = 0.0
            for i in range(n):
                total += features[a, i] * g[b, i]
            gram[a, b] = total
        total = 0.0
        for i in range(n):
            total += features[a, i] * g[k, i]
        whole[a] = total


@part_of_compiled
def without_discrepancy(
    error: Array, precision: Array, spread: Array, omega: float, features: Array, starts: Index, checkpoint: Index,
    weight: Array, mass: Array, g: Array,
) -> float:  # fmt: skip
    """Return n log 2 pi + log |R|, and write what the density without the discrepancy needs.

    Parameters
    ----------
    error, spread, omega, starts, checkpoint
        As for `integrated`.
    precision, features : arrays (n,) and (k, n)
        One over each row's variance, and its features.
    weight, mass : arrays (R,) and (C,), written
        The precisions of each run's rows, and those of each checkpoint's runs.
    g : array (k + 1, n), written
        R^-1 of the features and, in the last row, of the error.
    """
    n, runs, last = error.size, spread.size, len(g) - 1
    total = n * math.log(2 * math.pi)
    of_run, of_checkpoint = np.zeros((runs, last + 1)), np.zeros((mass.size, last + 1))
    for j in range(runs):
        for i in range(starts[j], starts[j + 1]):
            p = precision[i]
            total -= math.log(p)
            weight[j] += p
            of_run[j, last] += p * error[i]
            for a in range(last):
                of_run[j, a] += p * features[a, i]
        c, shrunk = checkpoint[j], 1 + spread[j] * weight[j]
        total += math.log(shrunk)
        mass[c] += weight[j] / shrunk
        for a in range(last + 1):
            of_run[j, a] /= shrunk
            of_checkpoint[c, a] += of_run[j, a]
    for c in range(mass.size):
        total += math.log(1 + omega * mass[c])
    for j in range(runs):
        c, shrunk = checkpoint[j], 1 + spread[j] * weight[j]
        from_checkpoint = omega / (1 + omega * mass[c]) / shrunk
        for a in range(last + 1):
            of_run[j, a] = spread[j] * of_run[j, a] + from_checkpoint * of_checkpoint[c, a]  # what all its rows lose
        for i in range(starts[j], starts[j + 1]):
            p = precision[i]
            g[last, i] = p * (error[i] - of_run[j, last])
            for a in range(last):
                g[a, i] = p * (features[a, i] - of_run[j, a])
    return total


@part_of_compiled
def with_discrepancy(total: float, gram: Array, whole: Array, scale: float, inverse: Array, w: Array, d_scale: Array) -> float:
    """Return -2 times the log density, and write what its derivatives need.

    Parameters
    ----------
    total : float
        -2 times the log density without the discrepancy.
    gram, whole : arrays (k, k) and (k,)
        As `write_products` has written them.
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
    precision: Array, spread: Array, omega: float, scale: float, starts: Index, checkpoint: Index, weight: Array, mass: Array,
    g: Array, inverse: Array, w: Array, d_error: Array, d_variance: Array, d_spread: Array, d_omega: Array,
) -> None:  # fmt: skip
    """Write the derivatives by errors, variances and effects.

    Parameters
    ----------
    precision, spread, omega, scale, starts, checkpoint
        As for the functions above.
    weight, mass, g, inverse, w
        As the two functions above have written them.
    d_error, d_variance, d_spread, d_omega : arrays (n,), (n,), (R,), (1,), written
    """
    n, runs, k = precision.size, spread.size, w.size
    for i in range(n):
        d_error[i] = -g[k, i]
    for a in range(k):
        for i in range(n):
            d_error[i] += scale * w[a] * g[a, i]
    in_run, in_checkpoint = np.zeros((k + 1, runs)), np.zeros((k + 1, mass.size))  # sums of g, and of the errors' slopes
    for j in range(runs):
        for i in range(starts[j], starts[j + 1]):
            in_run[k, j] += d_error[i]
            for a in range(k):
                in_run[a, j] += g[a, i]
        for a in range(k + 1):
            in_checkpoint[a, checkpoint[j]] += in_run[a, j]
    squares_of_products(inverse, g, d_variance)
    squares_of_products(inverse, in_run, d_spread)
    of_checkpoint = np.empty(mass.size)
    squares_of_products(inverse, in_checkpoint, of_checkpoint)
    for j in range(runs):
        shrunk, own = 1 + spread[j] * weight[j], in_run[k, j]
        from_run, x = spread[j] / shrunk, weight[j] / shrunk
        from_checkpoint = omega / (1 + omega * mass[checkpoint[j]])
        for i in range(starts[j], starts[j + 1]):
            p = precision[i]
            own_precision = p * (1 - p * (from_run + from_checkpoint / (shrunk * shrunk)))
            d_variance[i] = 0.5 * (d_error[i] * d_error[i] - own_precision + scale * d_variance[i])
        d_spread[j] = 0.5 * (own * own - x * (1 - from_checkpoint * x) + scale * d_spread[j])
    d_omega[0] = 0.0
    for c in range(mass.size):
        own = in_checkpoint[k, c]
        d_omega[0] += 0.5 * (own * own - mass[c] / (1 + omega * mass[c]) + scale * of_checkpoint[c])


@part_of_compiled
def squares_of_products(lower: Array, x: Array, squares: Array) -> None:
    """Write the squared lengths of a matrix times vectors.

    Parameters
    ----------
    lower : array (k, k)
        Lower triangular.
    x : array (k or more, m)
        The vectors, in columns; rows after the first k don't count.
    squares : array (m,), written
    """
    squares[:] = 0.0
    product = np.empty(squares.size)
    for a in range(len(lower)):
        product[:] = 0.0
        for b in range(a + 1):
            for i in range(squares.size):
                product[i] += lower[a, b] * x[b, i]
        for i in range(squares.size):
            squares[i] += product[i] * product[i]


class LowRank(DensityWithGradient):
    """`integrated` for a graph: the log density, then its derivatives by error, variance, spread, omega and scale."""

    compiled_from = staticmethod(integrated)
    slopes = (0, 1, 2, 3, 4)
    as_long_as = (None, 0, 0, 2, None, None)
