"""Affine maps matched to draws of a density, and to its gradients.

The curvature at a mode says little of hundreds of values. Here a normal is matched to gradients at its own draws, or at draws of
the density: their covariances C and G, for a normal density with covariance S, obey S G S = C, for as few draws as there are
coordinates. The update is that of batch and match (Cai, Modi, Pillaud-Vivien, Margossian, Gower, Blei and Saul 2024), a closed
form in which the last normal counts as well.

Of few coordinates, draws alone tell mean and covariance. They replace a map that turns out to be far from the density.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.engine.density import Density
from bayeslaw.engine.transport import RidgeMap, affine

BATCHES, BATCH = 20, 300  # of the normal's own draws; as many gradients take some seconds
FIRST, FALL = 20.0, 1.5  # weight of the first batch against the last normal, so that a far mode is reached, and how it falls
FINAL = 200.0  # of draws of the density
LONGEST = 3.0  # gradients longer than so many median ones are cut: first maps reach where a law breaks down
# Range of the log ratio of density and map, over draws of the density, above which the map is replaced. Below it maps of mode and
# curvature, or of a ridge, took fewer gradients than those of mean and covariance, or needed sampling twice less often.
FAR_OFF = 200.0
ENOUGH = 20  # different draws a coordinate, as of chains that move, without which no map is replaced


def matched(density: Density, ridge_map: RidgeMap, seed: int) -> RidgeMap:
    """The affine map near another one whose normal has, at its own draws, nearly the gradients of the density.

    Parameters
    ----------
    density, ridge_map
    seed : int
        Seed of the normal's draws.
    """
    rng = np.random.default_rng(seed)
    for i in range(BATCHES):
        z = rng.standard_normal((BATCH, density.size))
        values, gradients = density.function(ridge_map.arrays).many(z)
        finite = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
        if finite.sum() < BATCH // 2:
            break
        z, gradients = z[finite], gradients[finite]
        length = np.linalg.norm(gradients, axis=1, keepdims=True)
        gradients *= np.minimum(1.0, LONGEST * np.median(length) / np.maximum(length, 1e-300))
        ridge_map = _moved(ridge_map, *update(z, gradients, FIRST / (i + 1) ** FALL))
    return ridge_map


def replaced_if_far(density: Density, ridge_map: RidgeMap, z: Array) -> tuple[RidgeMap, Array]:
    """Return the map and draws or, if it is far from the density, the affine map of their mean and covariance and what they become.

    Parameters
    ----------
    density, ridge_map : Density, RidgeMap
        The map without tail transforms.
    z : array (S, k)
        Draws of the density in the coordinates of that map.
    """
    if np.unique(z[:, 0]).size < ENOUGH * density.size:
        return ridge_map, z
    low, high = np.quantile(density.function(ridge_map.arrays).many(z)[0] + 0.5 * (z**2).sum(axis=1), [0.05, 0.95])
    if high - low <= FAR_OFF:
        return ridge_map, z
    x = ridge_map.x(z)
    centre, scale = x.mean(axis=0), np.linalg.cholesky(np.cov(x.T))
    return affine(centre, scale), np.linalg.solve(scale, (x - centre).T).T


def rematched(density: Density, ridge_map: RidgeMap, z: Array) -> tuple[RidgeMap, Array]:
    """Return the affine map matched to draws of the density, and what they become.

    Parameters
    ----------
    density, ridge_map : Density, RidgeMap
        As mapped so far.
    z : array (S, k)
        Draws in the coordinates of that map.
    """
    values, gradients = density.function(ridge_map.arrays).many(z)
    finite = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
    centre, covariance = update(z[finite], gradients[finite], FINAL)
    return _moved(ridge_map, centre, covariance), np.linalg.solve(np.linalg.cholesky(covariance), (z - centre).T).T


def update(z: Array, gradients: Array, weight: float) -> tuple[Array, Array]:
    """Mean and covariance of the normal, near the standard normal, that has the gradients of a density at points.

    Parameters
    ----------
    z, gradients : arrays (S, k)
        Points, and gradients of the log density there.
    weight : float
        Weight of the points against the standard normal.

    Notes
    -----
    With means z and g, covariances C and G of points and gradients, the covariance is the solution of S U S + S = V for
    U = weight G + weight/(1 + weight) g g' and V = 1 + weight C + weight/(1 + weight) z z' (Cai et al. 2024).
    """
    part, middle, slope = weight / (1 + weight), z.mean(axis=0), gradients.mean(axis=0)
    u = weight * np.cov(gradients.T, bias=True) + part * np.outer(slope, slope)
    v = np.eye(z.shape[1]) + weight * np.cov(z.T, bias=True) + part * np.outer(middle, middle)
    values, vectors = np.linalg.eigh(v)
    root = (vectors * np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ u @ root)
    covariance = root @ (vectors * (2 / (1 + np.sqrt(1 + 4 * np.maximum(values, 0.0))))) @ vectors.T @ root
    covariance = 0.5 * (covariance + covariance.T)
    return part * (covariance @ slope + middle), covariance


def _moved(ridge_map: RidgeMap, centre: Array, covariance: Array) -> RidgeMap:
    """An affine map followed by the normal with this mean and covariance of its z."""
    scale = np.tril(ridge_map.scale)
    return replace(ridge_map, centre=ridge_map.centre + scale @ centre, scale=scale @ np.linalg.cholesky(covariance))
