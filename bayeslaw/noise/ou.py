"""Run effects that change along a run: a stationary Ornstein-Uhlenbeck (OU) process, filtered and drawn.

    u(t) ~ Normal(0, sigma_run),   corr(u(t), u(t')) = exp(-|t - t'| / length)

The process is Markov: the mean and variance of the effect at the last of some points hold all that they tell about later effects.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.core.arrays import Array

FINE = 2**18  # moments of a path in a typical run's length: a thousand of them in the shortest length that the prior expects


def kalman_filter(residual: Array, point: Array, known: Array, time: Array, effect: Array, length: Array) -> Array:
    """Log density (S,) of all points of a run.

    Parameters
    ----------
    residual, known, time
        Log loss minus the law's (S, k) in the order of the clock, known variances (k,), and the clock (k,) in the unit of `length`.
    point, effect, length : arrays (S,)
        Variances of points and of the run's effect, and its correlation length.
    """
    added, variance = innovations(residual, point[:, None] + known, time, effect, length)
    return np.asarray(-0.5 * (np.log(2 * math.pi * variance) + added**2).sum(axis=1))


def innovations(residual: Array, point: Array, time: Array, effect: Array, length: Array) -> tuple[Array, Array]:
    """What each point of a run adds to those before it.

    Parameters
    ----------
    residual, point : arrays (S, k)
        Log loss minus the law's in the order of the clock, and variances of the points.
    time, effect, length
        As in `kalman_filter`.

    Returns
    -------
    arrays (S, k)
        Innovations in standard deviations, independent of each other under the model; and their variances.
    """
    mean, left = np.zeros_like(effect), effect
    added, variance = np.empty_like(residual), np.empty_like(residual)
    for i, step in enumerate(np.diff(time, prepend=time[:1]).tolist()):
        mean, left = _propagate(mean, left, effect, step, length)
        whole, error = left + point[:, i], residual[:, i] - mean
        added[:, i], variance[:, i] = error / np.sqrt(whole), whole
        mean, left = mean + left / whole * error, left * point[:, i] / whole
    return added, variance


def _propagate(mean: Array, left: Array, effect: Array, step: float, length: Array) -> tuple[Array, Array]:
    """Mean and variance of the effect a step later; `left` is its variance now and `effect` its stationary variance."""
    kept, gained = np.exp(-step / length), -np.expm1(-2 * step / length)
    return kept * mean, kept**2 * left + gained * effect


def sample_effect(
    residual: Array, point: Array, known: Array, time: Array, effect: Array, length: Array, at: Array, rng: np.random.Generator
) -> Array:
    """Draw a run's effect at some moments given its points, array (m, S): filtered forwards, then drawn backwards.

    Parameters
    ----------
    residual, point, known, time, effect, length
        As in `kalman_filter`.
    at : array (m,)
        Moments in the unit of `length`, in any order.
    rng : Generator
    """
    moments, count, first = np.concatenate([time, at]), time.size, float(at.min())
    mean, left, before, kept = np.zeros_like(effect), effect, float(moments.min()), list[tuple[int, float, Array, Array]]()
    for i in np.argsort(moments, kind="stable").tolist():
        step, before = float(moments[i]) - before, float(moments[i])
        mean, left = _propagate(mean, left, effect, step, length)
        if i < count:
            gain = left / (left + point + known[i])
            mean, left = mean + gain * (residual[:, i] - mean), (1 - gain) * left
        if before >= first:
            kept.append((i, before, mean, left))
    drawn, after = np.empty((at.size, effect.size)), before
    value: Array | None = None
    for i, moment, middle, variance in reversed(kept):
        mean, left = middle, variance
        if value is not None:
            ahead, whole = _propagate(mean, left, effect, after - moment, length)
            back = np.exp(-(after - moment) / length) * left / whole
            middle, variance = mean + back * (value - ahead), np.maximum(left - back**2 * whole, 0.0)
        value, after = middle + np.sqrt(variance) * rng.standard_normal(effect.size), moment
        if i >= count:
            drawn[i - count] = value
    return drawn


class Paths:
    """Draws of run effects of variance 1 along a clock that begins at 0.

    Every moment of a grid has random numbers of its own and is drawn given coarser moments (Levy's construction): first 0, the unit
    and its doubles, then midpoints. The effect at a moment therefore does not depend on the other moments asked for. It is exact
    but for the rounding of moments to the grid.
    """

    def __init__(self, length: Array) -> None:
        self.length = length
        self._decays: dict[int, Array] = {}

    def at(self, time: Array, entropy: tuple[int, ...]) -> Array:
        """Effects (k, S) of the run that the seeds stand for, at moments (k,) in the unit of `length` (S,)."""
        values, known = np.empty((time.size, self.length.size)), dict[int, Array]()
        for i in np.argsort(time, kind="stable").tolist():
            moment = round(float(time[i]) * FINE)
            known = self._bisect(moment, known, entropy)
            values[i] = known[moment]
        return values

    def _bisect(self, to: int, known: dict[int, Array], entropy: tuple[int, ...]) -> dict[int, Array]:
        """The effects at a moment and at the coarser moments that lead to it; later moments need no others of the known ones."""
        values: dict[int, Array] = {}

        def put(moment: int, left: int | None = None, right: int | None = None) -> None:
            if moment in known:
                values[moment] = known[moment]
                return
            values[moment] = np.random.default_rng((*entropy, moment)).standard_normal(self.length.size)
            if left is not None:
                rho = self._decay(moment - left)
                whole = 1.0 if right is None else 1 + rho**2
                ends = values[left] if right is None else values[left] + values[right]
                values[moment] = rho / whole * ends + np.sqrt((1 - rho) * (1 + rho) / whole) * values[moment]

        put(0)
        put(FINE, 0)
        left, right = 0, FINE
        while right < to:
            left, right = right, 2 * right
            put(right, left)
        while to not in values:
            middle = (left + right) // 2
            put(middle, left, right)
            left, right = (left, middle) if to <= middle else (middle, right)
        return values

    def _decay(self, step: int) -> Array:
        if step not in self._decays:
            self._decays[step] = np.exp(-step / FINE / self.length)
        return self._decays[step]
