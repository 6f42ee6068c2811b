"""How far pooled values and run effects are counted in units of their spread, by how much the data tell about each.

A value around a typical one, typical + spread z, may be sampled as z, as itself, or as x in between, where it is typical +
spread^m (x - (1 - m) typical) (Papaspiliopoulos, Roberts and Sköld 2003; Gorinova, Moore and Hoffman 2020). With m near 1 a
value that the data tell well is tied to the spread; with m near 0 one that they don't makes a funnel. The best power is about
the share of the prior's variance that the data leave, which curvature shows at the mode with spreads held at their prior
medians: a mode over the spreads as well would lie where they vanish. The power is 1 where a spread may be near 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.engine.density import Density
from bayeslaw.engine.transport import RidgeMap, curvature, find_mode, root_of_inverse

MANY = 100  # coordinates; a ridge map samples some tens of tasks' values and run effects well
CLEAR = 8.0  # times by which the scatter of values exceeds what is not known of each
LEAST = 0.1  # eigenvalue of a curvature below which a direction counts as flat


def needs_centring(density: Density) -> bool:
    """Whether there are so many pooled values and run effects that a ridge map from the mode over all of them fails."""
    return density.size > MANY and (bool(density.coordinates.apart) or density.noise.counts)


def centred(density: Density) -> tuple[Density, RidgeMap]:
    """Return the density with powers chosen by what the data tell, and an affine map to its coordinates from the same mode."""
    spreads, logp = _spreads(density), density.function()
    mode = find_mode(_holding(logp, spreads), density.start(), density.law.outcome)
    free = np.setdiff1d(np.arange(density.size), spreads)
    left = np.diag(_covariance(curvature(logp, mode)[np.ix_(free, free)]))
    share = np.ones(density.size)
    share[free] = np.clip(left, 0.0, 1.0)
    place = {name: i for i, name in enumerate(density.names)}
    law, apart = density.law, density.coordinates.apart
    places = {name: np.array([place[member] for member in law.members[name]]) for name in apart}
    powers = {name: share[own] if _apart(mode[own], share[own]) else np.ones(own.size) for name, own in places.items()}
    runs = slice(len(density.names), None)
    run_power = float(share[runs].mean()) if density.noise.explicit_effects and _apart(mode[runs], share[runs]) else 1.0
    coordinates = replace(density.coordinates, apart=powers)
    new = Density.of(law, density.observed, density.noise, coordinates=coordinates, run_power=run_power)
    x = mode.copy()
    for name, power in powers.items():
        around = law.parameters[law.members[name][0]].around
        assert around is not None
        own = places[name]
        typical, log_spread = mode[place[around[0]]], mode[place[around[1]]]
        x[own] = (1 - power) * typical + np.exp((1 - power) * log_spread) * mode[own]
    if density.noise.explicit_effects:
        x[runs] *= np.exp((1 - run_power) * mode[place["sigma_run"]])
    none = np.empty(0)
    scale = root_of_inverse(curvature(new.function(), x))
    return new, RidgeMap(x, scale, none.astype(np.int64), none, np.empty((4, 0, 0)))


def _apart(z: Array, share: Array) -> bool:
    """Whether values, in spreads, are so far apart for what is known of each that their spread can't be near 0.

    Where it can, any power below 1 leaves a funnel.
    """
    return float(z.var()) > CLEAR * float(share.mean())


def _spreads(density: Density) -> Array:
    """The places of coordinates that are logarithms of spreads."""
    around = (density.law.parameters[density.law.members[name][0]].around for name in density.coordinates.apart)
    names = {pair[1] for pair in around if pair is not None} | ({"sigma_run"} if density.noise.run_effect else set())
    return np.array([i for i, name in enumerate(density.names) if name in names], dtype=np.int64)


def _holding(logp: Callable[[Array], tuple[float, Array]], held: Array) -> Callable[[Array], tuple[float, Array]]:
    """A log density whose gradient by some coordinates is 0, so that a search leaves them where they are."""

    def function(x: Array) -> tuple[float, Array]:
        value, gradient = logp(x)
        gradient = gradient.copy()
        gradient[held] = 0.0
        return value, gradient

    return function


def _covariance(hessian: Array) -> Array:
    """Inverse of a curvature; flat and negative directions count as wide ones."""
    values, vectors = np.linalg.eigh(hessian)
    return np.asarray((vectors / np.maximum(np.abs(values), LEAST)) @ vectors.T)
