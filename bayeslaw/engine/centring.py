"""How far pooled values and run effects are counted in units of their spread, by how well the data identify each.

A value around a typical one, typical + spread z, may be sampled as z, as itself, or as x in between, where it is typical +
spread^m (x - (1 - m) typical) (Papaspiliopoulos, Roberts and Sköld 2003; Gorinova, Moore and Hoffman 2020). With m near 1 a
value that the data identify well is tied to the spread; with m near 0 one that they don't identify makes a funnel. The best power
is the share of the prior's variance that the data leave, s^2/(s^2 + spread^2) for a value that the data alone identify to a
standard error s. Here the spread is the smallest that is likely, so that powers are near 1 where it may be near 0. Standard errors
come from the curvature at the mode with spreads held at their prior medians, since a mode over the spreads as well would lie where
they vanish, and with typical values held: of few values these are hardly known, however well the data identify each value.

Run effects are counted along the eigenvectors of their covariance there, each with a power of its own: effects that follow the
loss are hardly identified by the data, others well, and each run has a part in both. Their prior is the same in every orthogonal
basis.

Pooled values of losses are sampled as themselves. Where they may all be one, the density grows without bound as their spread goes
to 0, and narrows like a funnel. There all values but the first are counted from it in units of the spread, and a ridge map follows
the spread (`tied_where_equal`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.engine.density import Density, RunEffects
from bayeslaw.engine.transport import SPIKE, RidgeMap, affine, best_map, curvature, find_mode, map_from, root_of_inverse
from bayeslaw.laws.prior import Prior

MANY_COORDINATES = 100  # coordinates above which the curvature at a mode says little and no ridge path is followed
NEARLY: dict[str, Any] = {
    "maxfun": 3_000,
    "ftol": 1e-9,
}  # of the search for the mode, from where curvature and draws of a first run go on
SPAN = 6.0  # e-folds of spreads on either side of the prior median among which the likely one is sought
UNLIKELY = 0.1  # quantile of the spread that powers count with
TELLING = 0.95  # share of a spread's variance left by the data above which a value tells nothing about the spread


def needs_centring(density: Density) -> bool:
    """Whether values of shares of counted items are pooled, or those of runs are so many that a ridge map from their mode fails."""
    return density.noise.counts and (bool(density.coordinates.powers) or density.size > MANY_COORDINATES)


def needs_matching(density: Density) -> bool:
    """Whether these values are so many that the curvature at the mode says little of them; see `matching`."""
    return density.noise.counts and density.size > MANY_COORDINATES


def centred(density: Density) -> tuple[Density, RidgeMap]:
    """Return the density with powers chosen by what the data identify, and a map to its coordinates from the same mode.

    Unless there are more than `MANY_COORDINATES`, the map may follow a spread, of pooled values or run effects, which few of them
    hardly identify.
    """
    (typical_values, spreads), logp = _of_pools(density), density.function()
    mode = find_mode(_holding(logp, spreads), density.start(), density.law.outcome, **NEARLY)
    free = np.setdiff1d(np.arange(density.size), [*spreads, *typical_values])
    root, covariance = root_of_inverse(curvature(logp, mode)[np.ix_(free, free)]), np.eye(density.size)
    covariance[np.ix_(free, free)] = root @ root.T
    share = np.diag(covariance)
    x, of_values = mode.copy(), dict[str, Array]()
    for name in density.coordinates.powers:
        of_values[name] = _move_pool(x, name, density, share)
    effects = density.run_effects
    if density.noise.explicit_effects:
        own, of_spread = np.arange(len(density.names), density.size), density.names.index("sigma_run")
        informed, turn = np.linalg.eigh(covariance[np.ix_(own, own)])
        held, prior = float(np.exp(mode[of_spread])), density.noise.prior("sigma_run")
        spread, powers = likely_spread(turn.T @ mode[own], informed, held, prior, typical=0.0)
        effects = RunEffects(turn, powers)
        x[own] = (turn.T @ mode[own]) * held / spread**powers
        x[of_spread] = np.log(spread)
    coordinates = replace(density.coordinates, powers=of_values)
    new = Density.of(density.law, density.observed, density.noise, coordinates=coordinates, run_effects=effects)
    logp = new.function()
    hessian = curvature(logp, x)
    plain = affine(x, root_of_inverse(hessian))
    if needs_matching(new):
        return new, plain
    return new, best_map(logp, plain, (map_from(logp, x, hessian, spread) for spread in spreads))


def tied_where_equal(density: Density) -> Density:
    """Return the density with pooled values tied to the first of their pool where a mode has a spread next to 0."""
    pools = {name: pair for name, pair in density.law.pools.items() if name not in density.coordinates.powers}
    if not pools:
        return density
    mode = find_mode(density.function(), density.start(), density.law.outcome, **NEARLY)
    equal = [name for name, (_, spread) in pools.items() if mode[density.names.index(spread)] < math.log(SPIKE)]
    if not equal:
        return density
    coordinates = density.coordinates.tying(equal)
    return Density.of(density.law, density.observed, density.noise, coordinates=coordinates, run_effects=density.run_effects)


def _move_pool(x: Array, name: str, density: Density, share: Array) -> Array:
    """Return powers for a pool's values and move the mode, in place, to the likely spread and the coordinates of these powers.

    Parameters
    ----------
    x : array (k,)
        The mode in the coordinates of the density, where powers are 1.
    name : str
        The name in the formula.
    density
    share : array (k,)
        The shares of the spread's variance that the data leave.
    """
    law, place = density.law, {name: i for i, name in enumerate(density.names)}
    own, (of_typical, of_spread) = [place[member] for member in law.members[name]], (place[of] for of in law.pools[name])
    median, scale = density.coordinates.typical[name]
    held, typical = math.exp(x[of_spread]), median + scale * x[of_typical]
    spread, power = likely_spread(x[own], share[own], held, law.parameters[law.pools[name][1]].prior)
    x[own] = (1 - power) * typical + spread**-power * held * x[own]
    x[of_spread] = math.log(spread)
    mean, precision = density.coordinates.typical_given(name, power, x[own], x[of_spread], np.sum)
    x[of_typical] = (typical - mean) * math.sqrt(precision)
    return power


def likely_spread(z: Array, share: Array, held: float, prior: Prior, typical: float | None = None) -> tuple[float, Array]:
    """Return the likely spread of values, and the power for each, from their mode with the spread held.

    Parameters
    ----------
    z, share : arrays (n,)
        Values at the mode, in spreads from the typical one, and the shares of the spread's variance that the data leave.
    held : float
        The spread there.
    prior : Prior
        Prior of the spread.
    typical : float, optional
        The typical value, where it is known.

    Notes
    -----
    The data alone tell a value to s^2 = held^2 share/(1 - share), around held z/(1 - share). The spread's posterior is that of
    normal values with these errors around the typical one, known or not; values that the data hardly tell are left out.
    """
    share = np.clip(share, 1e-9, 1 - 1e-6)
    value, variance = held * z / (1 - share), held**2 * share / (1 - share)
    own, error = (a[share < TELLING] for a in (value, variance))
    log_spread = np.log(held) + np.linspace(-SPAN, SPAN, 200)
    logp = np.zeros(log_spread.size)
    for i, t in enumerate(np.exp(log_spread) if own.size else ()):
        weight = 1 / (error + t**2)
        off = own - ((weight @ own) / weight.sum() if typical is None else typical)
        unknown = 0.0 if typical is not None else 0.5 * np.log(weight.sum())
        logp[i] = 0.5 * np.log(weight).sum() - unknown - 0.5 * weight @ off**2
    logp += prior.scipy.logpdf(np.exp(log_spread)) + log_spread
    below = np.cumsum(np.exp(logp - logp.max()))
    least, median = np.exp(np.interp([UNLIKELY, 0.5], below / below[-1], log_spread))
    return float(median), variance / (variance + least**2)


def _of_pools(density: Density) -> tuple[list[int], list[int]]:
    """The places of coordinates of typical values, and of those that are logarithms of spreads, of run effects too."""
    pairs = [density.law.pools[name] for name in density.coordinates.powers]
    typical, spreads = ([density.names.index(pair[i]) for pair in pairs] for i in (0, 1))
    return typical, [*spreads, *([density.names.index("sigma_run")] if density.noise.run_effect else [])]


def _holding(logp: Callable[[Array], tuple[float, Array]], held: list[int]) -> Callable[[Array], tuple[float, Array]]:
    """A log density whose gradient by some coordinates is 0, so that a search leaves them where they are."""

    def function(x: Array) -> tuple[float, Array]:
        value, gradient = logp(x)
        gradient = gradient.copy()
        gradient[held] = 0.0
        return value, gradient

    return function
