"""Log densities of runs with their luck integrated out, draw by draw: what `noise.Noise` says of each run.

Arrays of rows are (S, n) and those of runs (S, R); `member` (n, R) is 1 where a row is of a run and 0 elsewhere.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array

NODES = 48  # of the quadrature over a run's effect under Student-t noise


def parabolas(residual: Array, member: Array, variance: Array, tau: Array) -> tuple[Array, Array, Array]:
    """Log density of each run's points under a shift w of all of them, logp + b w - a w^2 / 2: logp, a and b (S, R).

    Parameters
    ----------
    residual, variance : arrays (S, n)
        Log loss minus the law's, and the variances of the rows' own noise.
    member : array (n, R)
    tau : array (S, R)
        Scale of each run's luck.
    """
    t = tau**2
    weight, total = (1 / variance) @ member, (residual / variance) @ member
    s = 1 + t * weight
    logs = (np.log(variance) + residual**2 / variance + math.log(2 * math.pi)) @ member
    return -0.5 * (logs + np.log(s) - t * total**2 / s), weight / s, total / s


def shared(a: Array, b: Array, omega: Array) -> Array:
    """Log of the mean of exp(b w - a w^2 / 2) over w ~ Normal(0, sqrt(omega))."""
    z = 1 + omega * a
    return 0.5 * (omega * b**2 / z - np.log(z))


def upward(a: Array, b: Array, slack: Array) -> Array:
    """Log of the mean of exp(b w - a w^2 / 2) over exponential w of mean `slack`."""
    from scipy.special import log_ndtr

    x = (b - 1 / slack) / np.sqrt(a)
    return 0.5 * np.log(2 * math.pi / a) - np.log(slack) + 0.5 * x**2 + np.asarray(log_ndtr(x))


def student(residual: Array, member: Array, variance: Array, dof: Array, tau: Array | None) -> Array:
    """Log density of each run's points, whose noise is Student-t; arguments as for `parabolas`, dof (S,), no tau for no luck.

    The integral over a run's effect is a sum over nodes, around where normal noise would have it.
    """
    from scipy.stats import norm, t

    def logp(shift: Array | float) -> Array:
        rows: Array = t.logpdf(residual - shift, dof[:, None], 0, np.sqrt(variance))
        return rows @ member

    if tau is None:
        return logp(0.0)
    tau = np.maximum(tau, 1e-12)
    width = 1 / np.sqrt(1 / tau**2 + (1 / variance) @ member)
    centre = width**2 * ((residual / variance) @ member)
    total = np.full_like(tau, -np.inf)
    for node, weight in zip(*np.polynomial.hermite_e.hermegauss(NODES), strict=True):
        effect = centre + width * node
        prior = norm.logpdf(effect, 0, tau) + np.log(weight * width) + 0.5 * node**2
        total = np.logaddexp(total, logp(effect @ member.T) + prior)
    return total
