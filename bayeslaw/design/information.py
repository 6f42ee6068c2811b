"""The information of a run that has not been made: covariances of posterior draws of its losses and of the targets.

Draws of log losses X_c at the rows of candidate c and of the targets T, centred and divided by sqrt(S - 1), give the covariances
X_cᵀX_c and X_cᵀT. With normal noise of covariance R_c the losses of c lower the covariance P (the best linear unbiased estimate
from an ensemble, which needs no parameters, derivatives or shape of the posterior):

    P_after = (P^-1 + B R_c^-1 Bᵀ)^-1,   gain(c) = tr W (TᵀPT - TᵀP_after T) = tr W Gᵀ (BᵀPB + R_c)^-1 G,   G = BᵀPT,

where B is X_c in an orthonormal basis of the draws, and P is the identity before any run. The basis spans the targets and some
hundred probe rows: losses at all settings are smooth functions of a few parameters, so a few dozen directions are enough. Variance
of a row outside the basis counts as noise of that row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.design.candidates import Candidates
from bayeslaw.forecasting.forecast import Forecast
from bayeslaw.posterior.diagnostics import spread_rows
from bayeslaw.posterior.fit import LEAST_DRAWS

PROBES = 150  # rows among the candidates whose draws span the basis
KEPT = 1e-3  # smallest singular value kept, in units of the point noise
AT_ONCE = 1024  # runs in one batch of gains
BLOCK = 64  # rows in one batch of draws


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Draws of candidates and targets in an orthonormal basis, candidates divided by their noise.

    Attributes
    ----------
    curves : tuple of arrays (R_k, k, p)
        R_c^(-1/2) Bᵀ of the runs with k rows each, one array for each k.
    members : tuple of int arrays (R_k,)
        Codes of the runs in each array.
    outside : array (q,)
        Variance of each target outside the basis.
    """

    curves: tuple[Array, ...]
    members: tuple[NDArray[np.int64], ...]
    targets: Array
    outside: Array

    @property
    def rank(self) -> int:
        """Number p of directions in the basis."""
        return len(self.targets)

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """The array that each run is in, and its index there, int array (R, 2)."""
        place = np.empty((sum(map(len, self.members)), 2), dtype=np.int64)
        for group, member in enumerate(self.members):
            place[member, 0], place[member, 1] = group, np.arange(member.size)
        return place

    def curve(self, run: int) -> Array:
        """R_c^(-1/2) Bᵀ of a run, array (k, p)."""
        group, i = self._place[run].tolist()
        return np.asarray(self.curves[group][i])

    def covariance(self, bought: Sequence[int]) -> Array:
        """P (p, p) once runs have been bought; one may be bought several times."""
        information = np.eye(self.rank)
        for run in bought:
            information += self.curve(run).T @ self.curve(run)
        root = solve_triangular(np.linalg.cholesky(information), np.eye(self.rank), lower=True)
        return np.asarray(root.T @ root)

    def after(self, covariance: Array, run: int) -> Array:
        """P (p, p) once one more run has been bought."""
        curve = self.curve(run)
        half = curve @ covariance
        root = np.linalg.cholesky(half @ curve.T + np.eye(len(curve)))
        moved = solve_triangular(root, half, lower=True)
        return np.asarray(covariance - moved.T @ moved)

    def variances(self, covariance: Array) -> Array:
        """Variances of the targets, array (q,)."""
        return np.asarray((self.targets * (covariance @ self.targets)).sum(axis=0) + self.outside)

    def gains(self, covariance: Array, weights: Array, only: NDArray[np.int64] | None = None) -> Array:
        """By how much each run, or `only` some, would lower the weighted sum of the targets' variances, array (R,); else nan."""
        gains = np.full(len(self._place), np.nan)
        wanted = covariance @ (self.targets * np.sqrt(weights))
        for group, member in enumerate(self.members):
            take = np.arange(member.size) if only is None else self._place[only[self._place[only, 0] == group], 1]
            for at in range(0, take.size, AT_ONCE):
                some = self.curves[group][take[at : at + AT_ONCE]]
                root = np.linalg.cholesky((some @ covariance) @ some.transpose(0, 2, 1) + np.eye(some.shape[1]))
                gains[member[take[at : at + AT_ONCE]]] = (np.linalg.solve(root, some @ wanted) ** 2).sum(axis=(1, 2))
        return gains


def build(
    forecasts: Sequence[Forecast],
    candidates: Candidates,
    targets: Array,
    entropy: tuple[int, ...],
    parameters: Mapping[str, Array],
) -> tuple[Ensemble, dict[str, Array]]:
    """Return the ensemble under one or several fits, and the parameters' draws in its basis in units of their sd.

    Parameters
    ----------
    forecasts : sequence of Forecast
        One for each fit, at the candidates' rows; their draws are paired.
    targets : array (S, q)
        Draws of the targets.
    entropy : tuple of int
        Seeds of the checkpoint effects.
    parameters : mapping of name to array (S,)
        Draws of parameters that runs may inform.
    """
    if (draws := len(targets)) < LEAST_DRAWS:
        problem = f"Choosing runs takes at least {LEAST_DRAWS} draws; the fit has {draws}. Fit with more draws."
        raise BayeslawError(problem, code="too-few-draws")
    if not np.isfinite(targets).all():
        raise FitError("Some draws of the targets are not finite; give targets with finite draws.", code="non-finite-draws")
    wanted = _centred(targets)
    sources = [Source(each, candidates, (*entropy, i)) for i, each in enumerate(forecasts)]
    floor = KEPT * float(np.sqrt(min(source.point.min() for source in sources)))
    probes = _probes(forecasts[0], candidates)
    basis = _basis(wanted, np.hstack([source.draws(probes) for source in sources]), floor)
    coordinates = np.stack([_project(source, basis, candidates.run.size) for source in sources])  # (fits, rows, p + 1)
    projected = basis.T @ wanted
    outside = np.maximum((wanted**2).sum(axis=0) - (projected**2).sum(axis=0), 0.0)
    lengths = np.diff(candidates.starts)
    members = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    curves = list[Array]()
    for member in members:
        rows = candidates.starts[member][:, None] + np.arange(lengths[member[0]])
        each = [_whitened(c[rows], s.point[rows], s.run_covariances(rows)) for c, s in zip(coordinates, sources, strict=True)]
        curves.append(np.concatenate(each, axis=1))
    centred = {name: _centred(values[:, None])[:, 0] for name, values in parameters.items()}
    scaled = {name: basis.T @ (values / np.linalg.norm(values)) for name, values in centred.items() if values.any()}
    return Ensemble(tuple(curves), tuple(members), projected, outside), scaled


def _centred(draws: Array) -> Array:
    """Draws (S, n), centred and scaled so that their products are covariances."""
    return np.asarray((draws - draws.mean(axis=0)) / np.sqrt(len(draws) - 1))


def _basis(wanted: Array, curves: Array, floor: float) -> Array:
    """Orthonormal directions (S, p) of targets (S, q) and curves (S, n), without those whose singular value is below the floor.

    Targets may be in any unit, so each is scaled to the size of the largest curve.
    """
    sizes = np.linalg.norm(wanted, axis=0)
    scaled = wanted[:, sizes > 0] / sizes[sizes > 0] * np.linalg.norm(curves, axis=0).max()
    left, singular, _ = np.linalg.svd(np.hstack([scaled, curves]), full_matrices=False)
    return np.ascontiguousarray(left[:, singular > max(floor, 1e-12 * singular[0])])


def _whitened(coordinates: Array, point: Array, run: Array) -> Array:
    """Curves (R, k, p) divided by their noise: point variances (R, k) and covariances of run effects (R, k, k).

    The last column of the coordinates (R, k, p + 1) is the variance outside the basis and counts as point noise.
    """
    curves, outside = coordinates[..., :-1], coordinates[..., -1]
    noise = np.eye(point.shape[1]) * (point + outside)[:, None, :] + run
    return np.asarray(np.linalg.solve(np.linalg.cholesky(noise), curves))


def _probes(forecast: Forecast, candidates: Candidates) -> NDArray[np.int64]:
    """Rows whose draws span the basis: spread over the candidates' settings, and one of each checkpoint if it has an effect."""
    columns = []
    for part in forecast.members:
        for name, covariate in (n for n in part.fit.law.covariates.items() if not n[1].series):
            values = part.covariates[name]
            columns.append(np.log(np.maximum(values, 1e-300 if values.min() > 0 else 1.0)) if covariate.logarithmic else values)
    spread = spread_rows(columns, PROBES)
    if not any(part.fit.noise.checkpoint_effect for part in forecast.members):
        return spread
    return np.union1d(spread, candidates.starts[np.unique(candidates.checkpoint, return_index=True)[1]])


@dataclass(frozen=True, eq=False)
class Source:
    """Draws of candidates' log losses under one fit or stack, and their noise."""

    forecast: Forecast
    candidates: Candidates
    entropy: tuple[int, ...]

    @cached_property
    def checkpoint_effects(self) -> Array | None:
        """Draws (C, S) of the effect of each checkpoint, given its runs if it is in the fit; None without such effects."""
        if not any(part.fit.noise.checkpoint_effect for part in self.forecast.members):
            return None
        parts, first = [], np.unique(self.candidates.checkpoint[self.candidates.run], return_index=True)[1]
        for number, part in enumerate(self.forecast.members):
            rng, scale = np.random.default_rng((*self.entropy, number)), part.fit.noise.scales(part.values, "sigma_checkpoint")[0]
            known = part.learnt.checkpoint[first].tolist()
            parts.append(
                [part.learnt.of_checkpoint(code) if code >= 0 else scale * rng.standard_normal(part.size) for code in known]
            )
        return np.concatenate(parts, axis=1)

    def draws(self, rows: NDArray[np.int64]) -> Array:
        """Centred draws (S, n) of rows."""
        logs = np.log(self.forecast.expected(rows))
        if self.checkpoint_effects is not None:
            logs = logs + self.checkpoint_effects[self.candidates.checkpoint[self.candidates.run[rows]]]
        return _centred(logs.T)

    @cached_property
    def point(self) -> Array:
        """Variances of point noise (n,), means over the draws."""
        point = np.zeros(self.candidates.run.size)
        for part in self.forecast.members:
            point += part.fit.noise.variances(part.values)[0][part.group] * part.size / self.forecast.size
        if (error := self.forecast.outcome.error) in self.candidates.rows:
            expected = np.median(self.forecast.expected(slice(None)), axis=1)
            point += (self.candidates.rows[error].to_numpy(dtype=np.float64) / expected) ** 2
        return point

    def run_covariances(self, rows: NDArray[np.int64]) -> Array:
        """Covariances (R, k, k) of the run effects at the rows (R, k) of runs, means over the draws."""
        covariances = np.zeros((*rows.shape, rows.shape[1]))
        for part in self.forecast.members:
            variance = part.fit.noise.variances(part.values)[1][part.group[rows[:, 0]]] * part.size / self.forecast.size
            time = part.time[rows] if part.time.size else np.zeros(rows.shape)
            covariances += variance[:, None, None] * part.fit.noise.effect_correlation(part.values, time)
        return covariances


def _project(source: Source, basis: Array, rows: int) -> Array:
    """Coordinates of every row's draws and, in the last column, their variance outside the basis, array (n, p + 1)."""
    coordinates = np.empty((rows, basis.shape[1] + 1))

    def block(at: int) -> None:
        some = np.arange(at, min(at + BLOCK, rows))
        draws = source.draws(some)
        coordinates[some, :-1] = draws.T @ basis
        coordinates[some, -1] = np.maximum((draws**2).sum(axis=0) - (coordinates[some, :-1] ** 2).sum(axis=1), 0.0)

    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(block, at) for at in range(0, rows, BLOCK)]:
            future.result()
    return coordinates
