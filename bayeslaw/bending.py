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
    plain = unbent(bends, z)
    hinges = found_hinges(plain, z + slopes)
    moved = np.zeros_like(z)
    for one, other, by in hinges:
        moved[:, int(other)] += by * hinge(plain[:, int(one)])
    for j in np.flatnonzero(moved.any(axis=0)):
        bends[j] = sinh_arcsinh(z[:, j] - moved[:, j])
    return bends, hinges


def hinge(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is left at zero and turned by one slope far out on either side."""
    return np.asarray(z - 2 * np.tanh(0.5 * z))


def unbent(bends: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Elements z (S, b) of which the bends make y (S, b)."""
    m, s, e, d = bends.T
    return np.asarray(np.sinh(d * np.arcsinh((y - m) / s) - e))


def found_hinges(z: NDArray[np.float64], middle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows i, j, b, by i: far out in z_i the middle of element j is somewhere else.

    `middle` is z plus the gradient of the log density: nil where all are normal, and where they are normal but for their middles
    it is those, draw by draw and without the draw's own noise. It is regressed on each z_i and its hinge, the clearest pair
    first, as long as the hinge is SURE standard errors from nil.
    """
    _size, k = z.shape
    rest, found = np.clip(middle, -FARTHEST, FARTHEST), np.zeros((k, k))
    designs = np.stack([np.ones_like(z), z, hinge(z)], axis=2).transpose(1, 0, 2)  # (k, S, 3)
    inverses = np.linalg.pinv(designs.transpose(0, 2, 1) @ designs)
    later = np.triu(np.ones((k, k), dtype=bool), 1)
    while True:
        by = inverses @ (designs.transpose(0, 2, 1) @ rest)  # (k, 3, k)
        error = np.sqrt(((rest - designs @ by) ** 2).mean(axis=1) * inverses[:, 2, 2, None])
        sure = np.where(later & (found == 0) & (error > 0), np.abs(by[:, 2]) / np.maximum(error, 1e-300), 0.0)
        i, j = np.unravel_index(int(sure.argmax()), sure.shape)
        if sure[i, j] < SURE:
            one, other = np.nonzero(found)
            return np.column_stack([one, other, found[one, other]]).astype(np.float64)
        found[i, j] = by[i, 2, j]
        rest[:, j] -= designs[i] @ by[i, :, j]


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
