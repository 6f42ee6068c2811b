"""Luck that changes along a run: a stationary Ornstein-Uhlenbeck process, filtered, drawn and continued.

    u(t) ~ Normal(0, sigma_run),   corr(u(t), u(t')) = exp(-|t - t'| / length)

It is Markov: what earlier points of a run say of its later luck is all in mean and variance of the luck at the last of them.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array

FINE = 2**18  # moments of a path in a typical run's length: the least memory that the prior expects is a thousand of them
SOME = 64  # draws over which correlations are averaged


def filtered(residual: Array, point: Array, known: Array, time: Array, luck: Array, length: Array) -> tuple[Array, Array, Array]:
    """The points of one run, one after the other, by a Kalman filter.

    Parameters
    ----------
    residual : array (S, k)
        Log loss minus the law's, in the order of the clock.
    point, luck : arrays (S,)
        Variances of points and of the run's luck.
    known : array (k,)
        Known variances of points.
    time : array (k,)
        Their clock, in the unit of `length`.
    length : array (S,)
        Infinite for luck that stays.

    Returns
    -------
    arrays (S,)
        Log density of all points; mean and variance of the luck at the last of them, given all.
    """
    mean, left, logp = np.zeros_like(luck), luck, np.zeros_like(luck)
    for i, step in enumerate(np.diff(time, prepend=time[:1]).tolist()):
        mean, left = stepped(mean, left, luck, step, length)
        own = point + known[i]
        whole, error = left + own, residual[:, i] - mean
        gain = left / whole
        logp -= 0.5 * (np.log(2 * math.pi * whole) + error**2 / whole)
        mean, left = mean + gain * error, gain * own
    return logp, mean, left


def stepped(mean: Array, left: Array, luck: Array, step: float, length: Array) -> tuple[Array, Array]:
    """Mean and variance of the luck a step later than they are known."""
    kept, gained = np.exp(-step / length), -np.expm1(-2 * step / length)
    return kept * mean, kept**2 * left + gained * luck


def later(mean: Array, left: Array, luck: Array, steps: Array, length: Array, rng: np.random.Generator) -> Array:
    """Draws of the luck, (S, m), after steps (m,) from where its mean and variance (S,) are known; paths, whatever their order."""
    made, before, moment = np.empty((mean.size, steps.size)), 0.0, mean + np.sqrt(left) * rng.standard_normal(mean.size)
    for i in np.argsort(steps, kind="stable").tolist():
        middle, variance = stepped(moment, np.zeros_like(moment), luck, float(steps[i]) - before, length)
        moment = middle + np.sqrt(variance) * rng.standard_normal(mean.size)
        made[:, i], before = moment, float(steps[i])
    return made


class Paths:
    """Draws of runs' luck, of variance 1, along a clock that begins at 0.

    Every moment of a grid has random numbers of its own and is drawn given coarser ones (Levy's construction): 0, the unit and its
    doubles one after the other, and then middles of what lies between. The luck at a moment therefore does not depend on which
    others are asked for, and is exact but for moments being rounded to the grid.
    """

    def __init__(self, length: Array) -> None:
        self.length = length
        self._kept: dict[int, Array] = {}

    def at(self, time: Array, entropy: tuple[int, ...]) -> Array:
        """Of the run that the seeds stand for, at moments (k,) in the unit of `length` (S,): array (k, S)."""
        made, known = np.empty((time.size, self.length.size)), dict[int, Array]()
        for i in np.argsort(time, kind="stable").tolist():
            moment = round(float(time[i]) * FINE)
            known = self._way(moment, known, entropy)
            made[i] = known[moment]
        return made

    def _way(self, to: int, known: dict[int, Array], entropy: tuple[int, ...]) -> dict[int, Array]:
        """The moments on the way to one, and the luck there; later moments need no others of those known."""
        way: dict[int, Array] = {}

        def put(moment: int, left: int | None = None, right: int | None = None) -> None:
            if moment in known:
                way[moment] = known[moment]
                return
            way[moment] = np.random.default_rng((*entropy, moment)).standard_normal(self.length.size)
            if left is not None:
                rho = self._rho(moment - left)
                whole = 1.0 if right is None else 1 + rho**2
                sides = way[left] if right is None else way[left] + way[right]
                way[moment] = rho / whole * sides + np.sqrt((1 - rho) * (1 + rho) / whole) * way[moment]

        put(0)
        put(FINE, 0)
        left, right = 0, FINE
        while right < to:
            left, right = right, 2 * right
            put(right, left)
        while to not in way:
            middle = (left + right) // 2
            put(middle, left, right)
            left, right = (left, middle) if to <= middle else (middle, right)
        return way

    def _rho(self, step: int) -> Array:
        if step not in self._kept:
            self._kept[step] = np.exp(-step / FINE / self.length)
        return self._kept[step]


def correlation(time: Array, length: Array, weight: Array) -> Array:
    """Correlations (…, k, k) between a run's luck at moments (…, k): averages over some draws (S,), with weights."""
    some = np.arange(0, length.size, max(1, length.size // SOME))
    distance = np.abs(time[..., :, None] - time[..., None, :])
    total: Array = np.zeros_like(distance)
    for i in some.tolist():
        total += weight[i] * np.exp(-distance / length[i])
    return total / weight[some].sum()
