"""What a map to standard normals has missed, found in draws: skewed elements, and elements that move others far out.

A noise that may be nil or an exponent that may be has a long tail to one side: each element is bent by a sinh-arcsinh
transformation of its own (Jones and Pewsey 2009),

    y_i = m_i + s_i sinh((arcsinh(z_i) + e_i) / d_i).

Where a ridge bends across its spine, such as that of a gate's lambda over what it multiplies, the middle of one element lies
where it should as long as another is near its own, and leaves it in proportion far out: elements are hinged to earlier ones,

    y_j += b (z_i - 2 tanh(z_i / 2)),   i < j,

which changes no volume.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

NORMAL = 20.0  # draws that the belief in no skewness and normal tails is worth
SURE = 4.0  # standard errors from nil at which a hinge is believed in
FARTHEST = 6.0  # an element's middle is never taken for farther out than this


def bending(z: NDArray[np.float64], slopes: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bends, rows m, s, e and d for each element, and hinges, rows i, j and b, of which draws z (S, k) are to be made.

    `slopes` are the gradients of the log density of z there, (S, k).
    """
    bends = np.array([sinh_arcsinh(column) for column in z.T]).reshape(-1, 4)
    plain, slopes = unbent(bends, z, slopes)
    hinges = found_hinges(plain, slopes)
    moved = np.zeros_like(z)
    for one, other, by in hinges:
        moved[:, int(other)] += by * hinge(plain[:, int(one)])
    for j in np.flatnonzero(moved.any(axis=0)):
        bends[j] = sinh_arcsinh(z[:, j] - moved[:, j])
    return bends, hinges


def hinge(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is left at zero and turned by one slope far out on either side."""
    return np.asarray(z - 2 * np.tanh(0.5 * z))


def unbent(
    bends: NDArray[np.float64], y: NDArray[np.float64], slopes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Elements z (S, k) of which the bends make y (S, k), and the gradients of their log density, given those of y's."""
    m, s, e, d = bends.T
    a = np.arcsinh((y - m) / s)
    z = np.sinh(d * a - e)
    root = np.sqrt(1 + z * z)
    return z, slopes * s * np.cosh(a) / (d * root) + np.tanh(a) / (d * root) - z / root**2


def found_hinges(z: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows i, j, b, by i, that bring draws z (S, k) with gradients `slopes` of their log density nearest to standard normals.

    Where all are standard normal, z plus the gradient is nil for every draw. A hinge of slope b takes b hinge(z_i) from z_j and
    adds b hinge'(z_i) times the gradient by z_j to that by z_i: the sum of squares over both elements, Fisher's divergence, is a
    parabola in b. The clearest pair is taken first, as long as its slope is SURE standard errors from nil.
    """
    z, slopes = z.copy(), slopes.copy()
    far, turn = hinge(z), np.tanh(0.5 * z) ** 2  # of the plain elements, whatever moves later
    k = z.shape[1]
    found, later = np.zeros((k, k)), np.triu(np.ones((k, k), dtype=bool), 1)
    while True:
        off = np.clip(z + slopes, -FARTHEST, FARTHEST)
        weight = far.T**2 @ np.ones_like(z) + turn.T**2 @ slopes**2
        by = (far.T @ off - (turn * off).T @ slopes) / weight
        sure = np.zeros((k, k))
        for i in range(k):
            lever = far[:, i, None] ** 2 + (turn[:, i, None] * slopes) ** 2
            score = far[:, i, None] * off - (turn * off)[:, i, None] * slopes - by[i] * lever
            sure[i] = np.abs(by[i]) * weight[i] / np.sqrt((score**2).sum(axis=0) + 1e-300)
        sure = np.where(later & (found == 0), sure, 0.0)
        i, j = divmod(int(sure.argmax()), k)
        if sure[i, j] < SURE:
            one, other = np.nonzero(found)
            return np.column_stack([one, other, found[one, other]]).astype(np.float64)
        found[i, j] = by[i, j]
        z[:, j] -= by[i, j] * far[:, i]
        slopes[:, i] += by[i, j] * turn[:, i] * slopes[:, j]


def sinh_arcsinh(y: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """m, s, e and d for which the transformed standard normal, m + s sinh((arcsinh(z) + e) / d), is likeliest given draws y.

    Skewness e and log tail weight log d have normal priors worth NORMAL draws, so that few draws bend little.
    """
    low, middle, high = np.quantile(y, [0.16, 0.5, 0.84])

    def cost(p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        s, e, d = math.exp(p[1]), p[2], math.exp(p[3])
        w = (y - p[0]) / s
        a, root = np.arcsinh(w), np.sqrt(1 + w * w)
        q = d * a - e
        u, rise = np.sinh(q), np.cosh(q)
        pull = u * rise - np.tanh(q)  # of the cost by q
        value = (0.5 * u * u - np.log(rise) + np.log(root)).mean() + p[1] - p[3]
        d_w = pull * d / root + w / (root * root)
        slope = [-d_w.mean() / s, 1 - (d_w * w).mean(), -pull.mean(), (pull * d * a).mean() - 1]
        belief = NORMAL / y.size
        return value + belief * (p[2] ** 2 + p[3] ** 2), np.array(slope) + 2 * belief * np.array([0, 0, p[2], p[3]])

    start = np.array([middle, math.log(max((high - low) / 2, 1e-3)), 0.0, 0.0])
    found = minimize(cost, start, jac=True, method="BFGS").x
    return float(found[0]), math.exp(found[1]), float(found[2]), math.exp(found[3])
