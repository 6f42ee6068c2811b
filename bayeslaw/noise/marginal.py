"""Log densities of runs with their effects integrated out, draw by draw, for `noise.Noise`.

Arrays of rows are (S, n) and those of runs (S, R); `run` (n,) are the rows' codes of runs, ascending.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array, Index, sums_by

# Of the quadrature over a run's effect under Student-t noise: nodes, steps to the mode, and how much wider it is than weights say.
NODES, ROUNDS, WIDER = 48, 30, 1.2


def parabolas(residual: Array, run: Index, variance: Array, tau: Array) -> tuple[Array, Array, Array]:
    """The log density of each run's points under a common shift w is logp + b w - a w^2 / 2; returns logp, a and b (S, R).

    Parameters
    ----------
    residual, run, variance, tau
        Log loss minus the law's (S, n), runs of rows, variances of the rows' own noise (S, n), scales of run effects (S, R).
    """
    t = tau**2
    weight, total = sums_by(1 / variance, run), sums_by(residual / variance, run)
    s = 1 + t * weight
    logs = sums_by(np.log(variance) + residual**2 / variance + math.log(2 * math.pi), run)
    return -0.5 * (logs + np.log(s) - t * total**2 / s), weight / s, total / s


def normal_shift(parabola: tuple[Array, Array], omega: Array) -> Array:
    """Log of the mean of exp(b w - a w^2 / 2), a parabola (a, b), over w ~ Normal(0, sqrt(omega))."""
    a, b = parabola
    z = 1 + omega * a
    return 0.5 * (omega * b**2 / z - np.log(z))


def exponential_shift(parabola: tuple[Array, Array], scale: Array) -> Array:
    """As `normal_shift`, over exponential w of mean `scale`."""
    a, b = parabola
    from scipy.special import log_ndtr

    x = (b - 1 / scale) / np.sqrt(a)
    return 0.5 * np.log(2 * math.pi / a) - np.log(scale) + 0.5 * x**2 + np.asarray(log_ndtr(x))


def student(residual: Array, run: Index, variance: Array, dof: Array, tau: Array | None) -> Array:
    """Log density (S, R) of each run's points under Student-t noise.

    The integral over a run's effect is a sum over quadrature nodes around its posterior mode, which is found from the median on by
    giving each point its weight under Student-t noise: an outlier pulls the mean under normal noise far off.

    Parameters
    ----------
    residual, run, variance, dof, tau
        As for `parabolas`; `dof` (S,) are degrees of freedom, and tau is None where there are no run effects.
    """
    from scipy.stats import norm, t

    def logp(shift: Array | float) -> Array:
        rows: Array = t.logpdf(residual - shift, dof[:, None], 0, np.sqrt(variance))
        return sums_by(rows, run)

    if tau is None:
        return logp(0.0)
    tau = np.maximum(tau, 1e-12)
    centre = np.stack([np.median(rows, axis=1) for rows in np.split(residual, np.flatnonzero(np.diff(run)) + 1, axis=1)], axis=1)
    for _ in range(ROUNDS):
        shares = (dof[:, None] + 1) / (dof[:, None] * variance + (residual - centre[:, run]) ** 2)
        precision = 1 / tau**2 + sums_by(shares, run)
        centre = sums_by(residual * shares, run) / precision
    width = WIDER / np.sqrt(precision)
    total = np.full_like(tau, -np.inf)
    for node, weight in zip(*np.polynomial.hermite_e.hermegauss(NODES), strict=True):
        effect = centre + width * node
        prior = norm.logpdf(effect, 0, tau) + np.log(weight * width) + 0.5 * node**2
        total = np.logaddexp(total, logp(effect[:, run]) + prior)
    return total
