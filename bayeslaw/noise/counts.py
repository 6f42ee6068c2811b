"""Shares of counted items, such as accuracies: items answered one by one with a share that itself varies.

    share_i ~ Beta(p_i phi, (1 - p_i) phi),   k_i ~ Binomial(items_i, share_i),   phi = 1/(s^2 + 1e-6),   y_i = k_i / items_i

p is the expected share and s the spread: shares have the standard deviation sqrt(p (1 - p) / (1 + phi)), nearly s sqrt(p (1 - p)).
Integrated over the share, k is beta-binomial. The density is also that of shares with partial credit, whose k are no whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betaln, expit, logit, logsumexp

from bayeslaw.core.arrays import Array, Index, sums_by
from bayeslaw.noise.operation import DensityWithGradient

NODES = 32  # of the quadrature over a run's effect
STEPS = 12  # of Newton's method to its middle
SHORT = 1e-3  # of a run effect's scale: the step of a derivative
# Of spreads: those below .1% can't be told apart, and logarithms of the gamma function at huge phi differ by rounding alone.
LEAST_SQUARE = 1e-6
KEPT = 256  # places for what rows of the same spread and number of items share
LEAST_SHARE = 1e-9  # expected shares are kept so far from 0 and 1, where a density has no gradient


def shape(expected: Any, spread: Any) -> tuple[Any, Any, Any]:
    """Return both numbers of the beta distribution of shares and their sum phi, for arrays or PyTensor variables."""
    p, phi = expected.clip(LEAST_SHARE, 1 - LEAST_SHARE), 1 / (spread**2 + LEAST_SQUARE)
    return p * phi, (1 - p) * phi, phi


def log_probability(share: Array, expected: Array, items: Array, spread: Array) -> Array:
    """Return the log probability (S, n) of shares, without the binomial coefficient.

    Parameters
    ----------
    share, items : arrays (n,)
    expected, spread : arrays (S, n)
    """
    a, b, _ = shape(expected, spread)
    k = share * items
    return np.asarray(betaln(k + a, items - k + b) - betaln(a, b))


def of_runs(
    share: Array, expected: Array, items: Array, spread: Array, run: Index, tau: Array | None,
    shifted: Callable[[Array], Array] | None = None,
) -> Array:  # fmt: skip
    """Return the log probability (S, R) of each run's shares, integrated over its effect.

    Parameters
    ----------
    share, expected, items, spread
        As for `log_probability`.
    run : int array (n,)
        Codes of the rows' runs, ascending.
    tau : array (S, R), optional
        Scales of run effects, in logits, or in the unit of what `shifted` adds them to; None where there are none.
    shifted : callable, optional
        Expected shares (S, n) given run effects (S, n), where these are not added to the logit.
    """
    if tau is None:
        return sums_by(log_probability(share, expected, items, spread), run)
    middle = logit(np.clip(expected, LEAST_SHARE, 1 - LEAST_SHARE))

    def at(effect: Array) -> Array:
        rows = effect[:, run]
        return np.asarray(expit(middle + rows)) if shifted is None else np.clip(shifted(rows), LEAST_SHARE, 1 - LEAST_SHARE)

    # Around the run's most likely effect, were a share's variance p (1 - p) (spread^2 + 1/items) all that is known of it. A step of
    # Newton's method far from the maximum may be too long and is cut.
    within, precision, least = 1 / (spread**2 + 1 / items), 1 / np.maximum(tau, 1e-12) ** 2, np.maximum(tau, 1e-12)
    centre = np.zeros_like(tau)
    for _ in range(STEPS):
        p = at(centre)
        slope = p * (1 - p) if shifted is None else (at(centre + SHORT * least) - p) / (SHORT * least[:, run])
        scale = within / np.maximum(p * (1 - p), LEAST_SHARE)
        weight = sums_by(slope**2 * scale, run) + precision
        step = (sums_by((share - p) * slope * scale, run) - precision * centre) / weight
        centre = centre + np.clip(step, -least if shifted else -1.0, least if shifted else 1.0)
    width = 1.5 / np.sqrt(weight)
    total = []
    for node, mass in zip(*np.polynomial.hermite_e.hermegauss(NODES), strict=True):
        effect = centre + width * node
        prior = -0.5 * (effect**2 * precision) + 0.5 * np.log(precision) + np.log(width * mass) + 0.5 * node**2
        prior = prior - 0.5 * math.log(2 * math.pi)
        total.append(sums_by(log_probability(share, at(effect), items, spread), run) + prior)
    return np.asarray(logsumexp(total, axis=0))


def sample(expected: Array, items: float, spread: Array, rng: np.random.Generator) -> Array:
    """Draw shares (S,) of a number of items.

    Parameters
    ----------
    expected, spread : arrays (S,)
    items : float
        Settings may have any number, such as a mean over tasks: the shares are of the nearest whole number, 1 at least.
    rng : Generator
    """
    (a, b, _), whole = shape(expected, spread), max(1, round(items))
    return np.asarray(rng.binomial(whole, rng.beta(a, b)) / whole)


def filled(eta: Array, spread: Array, share: Array, items: Array, logp: Array, d_eta: Array, d_spread: Array) -> None:
    """Write the log probability of shares and its derivatives; plain Python, to be compiled.

    Parameters
    ----------
    eta, spread, share, items : arrays (n,)
        Logits of the expected shares, their spreads, and the measured shares of so many items.
    logp, d_eta, d_spread
        Arrays for the results: (1,) and two of (n,).

    Notes
    -----
    With log Gamma and its derivative psi by Stirling's series above 8, reached by x Gamma(x) = Gamma(x + 1). Those of n + phi and
    phi are kept for rows of the same spread and number of items, as all models have on one task.
    """
    total = 0.0
    values, slopes = np.empty(6), np.empty(6)
    points = np.empty(6)
    kept = np.full((KEPT, 4), -1.0)  # spread, items, and what depends on them alone
    for i in range(eta.size):
        p = 1 / (1 + math.exp(-eta[i]))
        inside = LEAST_SHARE < p < 1 - LEAST_SHARE
        p = min(max(p, LEAST_SHARE), 1 - LEAST_SHARE)
        phi = 1 / (spread[i] * spread[i] + LEAST_SQUARE)
        n, k = items[i], share[i] * items[i]
        a, b = p * phi, (1 - p) * phi
        points[0], points[1], points[2], points[3], points[4], points[5] = k + a, n - k + b, a, b, n + phi, phi
        place = int(1e7 * min(spread[i], 100.0) + n) % KEPT if spread[i] >= 0 else 0
        known = kept[place, 0] == spread[i] and kept[place, 1] == n
        for j in range(4 if known else 6):
            x, less, product = points[j], 0.0, 1.0
            while x < 8.0:
                less += 1 / x
                product *= x
                x += 1.0
            r = 1 / x
            q, log_x = r * r, math.log(x)
            series = r * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188)))))
            values[j] = (x - 0.5) * log_x - x + 0.9189385332046727 + series
            if product > 1.0 or product < 1.0:  # a logarithm takes as long as all the rest
                values[j] -= math.log(product)
            digamma = log_x - 0.5 * r - q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132)))))
            slopes[j] = digamma - less
        if not known:
            kept[place, 0], kept[place, 1] = spread[i], n
            kept[place, 2], kept[place, 3] = values[5] - values[4], slopes[5] - slopes[4]
        total += values[0] + values[1] - values[2] - values[3] + kept[place, 2]
        d_a, d_b = slopes[0] - slopes[2], slopes[1] - slopes[3]
        d_eta[i] = (d_a - d_b) * phi * p * (1 - p) if inside else 0.0
        d_phi = d_a * p + d_b * (1 - p) + kept[place, 3]
        d_spread[i] = -2 * d_phi * phi * phi * spread[i]
    logp[0] = total


class BetaBinomial(DensityWithGradient):
    """`filled` for a graph: the log probability, then its derivatives by eta and spread."""

    compiled_from = staticmethod(filled)
    slopes = (0, 1)
    as_long_as = (None, 0, 0)
