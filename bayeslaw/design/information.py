"""What a run that nobody has made would tell: posterior draws of its losses beside draws of what one wants to know.

A draw's log losses X_c at the rows of candidate c and its targets T, centred and divided by sqrt(S - 1), are covariances: X_cᵀX_c,
X_cᵀT. With normal noise of covariance R_c the losses of c leave of the covariance P of anything a share that no parameters,
derivatives or shape of the posterior enter (the best linear unbiased estimate from an ensemble):

    P_after = (P^-1 + B R_c^-1 Bᵀ)^-1,   gain(c) = tr W (TᵀPT - TᵀP_after T) = tr W Gᵀ (BᵀPB + R_c)^-1 G,   G = BᵀPT,

B being X_c, and P the identity, in an orthonormal basis of the curves. The basis is that of the targets and of some hundred probe
rows: losses of all settings are smooth functions of a few parameters, so that a few dozen directions span them. What a row has
outside the basis is counted as noise of that row.
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
from bayeslaw.inference.refit import LEAST_DRAWS
from bayeslaw.posterior.diagnostics import spread_rows

PROBES = 150  # rows among the candidates whose curves make the basis
KEPT = 1e-3  # singular values kept, in units of the point noise
AT_ONCE = 1024  # runs whose gains are worked out at once
BLOCK = 64  # rows whose draws are made at once


@dataclass(frozen=True)
class Ensemble:
    """Draws of candidates and targets in an orthonormal basis, candidates divided by their noise.

    Attributes
    ----------
    curves : tuple of arrays (R_k, k, p)
        R_c^(-1/2) Bᵀ of the runs with k rows each, for each k that there is.
    members : tuple of int arrays (R_k,)
        Which runs these are.
    targets : array (p, q)
    lost : array (q,)
        Variance of each target that lies outside the basis.
    """

    curves: tuple[Array, ...]
    members: tuple[NDArray[np.int64], ...]
    targets: Array
    lost: Array

    @property
    def size(self) -> int:
        """Number of runs."""
        return sum(len(member) for member in self.members)

    @property
    def rank(self) -> int:
        return len(self.targets)

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """In which group, and where in it, each run is, int array (R, 2)."""
        place = np.empty((self.size, 2), dtype=np.int64)
        for group, member in enumerate(self.members):
            place[member, 0], place[member, 1] = group, np.arange(member.size)
        return place

    def curve(self, run: int) -> Array:
        """R_c^(-1/2) Bᵀ of a run, array (k, p)."""
        group, i = self._place[run].tolist()
        curve: Array = self.curves[group][i]
        return curve

    def covariance(self, bought: Sequence[int]) -> Array:
        """P, array (p, p), when runs have been bought; one may be bought several times."""
        information = np.eye(self.rank)
        for run in bought:
            information += self.curve(run).T @ self.curve(run)
        root = solve_triangular(np.linalg.cholesky(information), np.eye(self.rank), lower=True)
        covariance: Array = root.T @ root
        return covariance

    def after(self, covariance: Array, run: int) -> Array:
        """P once a run has been bought too."""
        curve = self.curve(run)
        half = curve @ covariance
        root = np.linalg.cholesky(half @ curve.T + np.eye(len(curve)))
        moved = solve_triangular(root, half, lower=True)
        left: Array = covariance - moved.T @ moved
        return left

    def variances(self, covariance: Array) -> Array:
        """Variances of the targets, array (q,)."""
        variances: Array = (self.targets * (covariance @ self.targets)).sum(axis=0) + self.lost
        return variances

    def gains(self, covariance: Array, weights: Array, only: NDArray[np.int64] | None = None) -> Array:
        """By how much each run would lower the weighted sum of the targets' variances, array (R,); nan where not asked for."""
        gains = np.full(self.size, np.nan)
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
    others: Mapping[str, Array],
) -> tuple[Ensemble, dict[str, Array]]:
    """The ensemble of candidates and targets under one or several fits, each of which sees a loss of every row.

    Parameters
    ----------
    forecasts : sequence of Forecast
        One for each fit, at the candidates' rows; their draws are paired.
    targets : array (S, q)
    entropy : tuple of int
        Seeds of the checkpoints' luck.
    others : mapping of name to array (S,)
        Draws of anything else that purchases may tell.

    Returns
    -------
    Ensemble, and the others' draws in units of their sd as its basis has them, arrays (p,)
    """
    draws = targets.shape[0]
    if draws < LEAST_DRAWS:
        raise BayeslawError(f"Choosing runs takes at least {LEAST_DRAWS} draws; the fit has {draws}. Fit with more draws.")
    if not np.isfinite(targets).all():
        raise FitError("Some draws of the targets are not finite: they can't be aimed at.")
    wanted = _centred(targets)
    sources = [Source(made, candidates, (*entropy, i)) for i, made in enumerate(forecasts)]
    floor = KEPT * float(np.sqrt(min(source.point.min() for source in sources)))
    probes = _probes(forecasts[0], candidates)
    basis = _basis(wanted, np.hstack([source.draws(probes) for source in sources]), floor)
    kept = np.stack([_project(source, basis, candidates.run.size) for source in sources])  # (fits, rows, p + 1)
    projected = basis.T @ wanted
    lost = np.maximum((wanted**2).sum(axis=0) - (projected**2).sum(axis=0), 0.0)
    starts, curves, members = candidates.starts, [], []
    lengths = np.diff(starts)
    for length in np.unique(lengths):
        member = np.flatnonzero(lengths == length)
        rows = starts[member][:, None] + np.arange(length)
        curves.append(
            np.concatenate(
                [_whitened(k[rows], s.point[rows], s.luck_of_runs(rows)) for k, s in zip(kept, sources, strict=True)], axis=1
            )
        )
        members.append(member)
    seen = {name: _centred(values[:, None])[:, 0] for name, values in others.items()}
    told = {name: basis.T @ (values / np.linalg.norm(values)) for name, values in seen.items() if values.any()}
    return Ensemble(tuple(curves), tuple(members), projected, lost), told


def _centred(draws: Array) -> Array:
    """Draws (S, n) whose products are covariances."""
    centred: Array = (draws - draws.mean(axis=0)) / np.sqrt(len(draws) - 1)
    return centred


def _basis(wanted: Array, curves: Array, floor: float) -> Array:
    """Orthonormal directions (S, p) of targets (S, q) and curves (S, n), but for those of curves under a floor in all of them.

    Targets are in any unit, so that they count as large as the largest curve.
    """
    sizes = np.linalg.norm(wanted, axis=0)
    scaled = wanted[:, sizes > 0] / sizes[sizes > 0] * np.linalg.norm(curves, axis=0).max()
    left, singular, _ = np.linalg.svd(np.hstack([scaled, curves]), full_matrices=False)
    return np.ascontiguousarray(left[:, singular > max(floor, 1e-12 * singular[0])])


def _whitened(kept: Array, point: Array, luck: Array) -> Array:
    """Curves (R, k, p) divided by their noise, of variances (R, k) and of runs' luck, with covariances (R, k, k).

    The last column of `kept` lies outside the basis and counts as point noise.
    """
    curves, outside = kept[..., :-1], kept[..., -1]
    noise = np.eye(point.shape[1]) * (point + outside)[:, None, :] + luck
    whitened: Array = np.linalg.solve(np.linalg.cholesky(noise), curves)
    return whitened


def _probes(forecast: Forecast, candidates: Candidates) -> NDArray[np.int64]:
    """Rows whose curves make the basis: spread over the candidates' settings, and one of each checkpoint that has luck."""
    columns = []
    for part in forecast.parts:
        for name, covariate in (n for n in part.fit.law.covariates.items() if not n[1].series):
            values = part.covariates[name]
            columns.append(np.log(np.maximum(values, 1e-300 if values.min() > 0 else 1.0)) if covariate.logarithmic else values)
    spread = spread_rows(columns, PROBES)
    if not any(part.fit.noise.checkpoint_effect for part in forecast.parts):
        return spread
    return np.union1d(spread, candidates.starts[np.unique(candidates.checkpoint, return_index=True)[1]])


class Source:
    """Draws of candidates' log losses under one fit or stack, and their noise."""

    def __init__(self, forecast: Forecast, candidates: Candidates, entropy: tuple[int, ...]) -> None:
        self.forecast, self.candidates, self.entropy = forecast, candidates, entropy

    @cached_property
    def luck(self) -> Array | None:
        """Draws of the luck of each checkpoint, array (C, S): of those in the fit what their runs say; none where there is none."""
        if not any(part.fit.noise.checkpoint_effect for part in self.forecast.parts):
            return None
        parts, names = [], self.candidates.checkpoints or self.candidates.names  # else each run has one of its own
        for number, part in enumerate(self.forecast.parts):
            rng = np.random.default_rng((*self.entropy, number))
            observed = part.fit.observed
            residual = observed.log_loss - np.log(part.fit.law.predict(part.values, observed.covariates))
            parts.append(part.fit.noise.sample_checkpoint_effects(residual, observed, part.values, names, rng))
        return np.concatenate(parts, axis=1)

    def draws(self, rows: NDArray[np.int64]) -> Array:
        """Centred draws (S, n) of rows."""
        logs = np.log(self.forecast.expected(rows))
        if self.luck is not None:
            logs = logs + self.luck[self.candidates.checkpoint[self.candidates.run[rows]]]
        return _centred(logs.T)

    @cached_property
    def point(self) -> Array:
        """Variances of point noise (n,), means over the draws."""
        point = np.zeros(self.candidates.run.size)
        for part in self.forecast.parts:
            point += part.fit.noise.variances(part.values)[0][part.group] * part.size / self.forecast.size
        if "loss_se" in self.candidates.rows:
            loss = np.median(self.forecast.expected(slice(None)), axis=1)
            point += (self.candidates.rows["loss_se"].to_numpy(dtype=np.float64) / loss) ** 2
        return point

    def luck_of_runs(self, rows: NDArray[np.int64]) -> Array:
        """Covariances (R, k, k) that the luck of runs gives their rows (R, k), means over the draws."""
        luck = np.zeros((*rows.shape, rows.shape[1]))
        for part in self.forecast.parts:
            variance = part.fit.noise.variances(part.values)[1][part.group[rows[:, 0]]] * part.size / self.forecast.size
            time = part.time[rows] if part.time.size else np.zeros(rows.shape)
            luck += variance[:, None, None] * part.fit.noise.effect_correlation(part.values, time)
        return luck


def _project(source: Source, basis: Array, rows: int) -> Array:
    """Coordinates of the draws of every row and, last, their variance outside the basis, array (n, p + 1)."""
    made = np.empty((rows, basis.shape[1] + 1))

    def block(at: int) -> None:
        some = np.arange(at, min(at + BLOCK, rows))
        draws = source.draws(some)
        made[some, :-1] = draws.T @ basis
        made[some, -1] = np.maximum((draws**2).sum(axis=0) - (made[some, :-1] ** 2).sum(axis=1), 0.0)

    with ThreadPoolExecutor() as pool:
        for one in [pool.submit(block, at) for at in range(0, rows, BLOCK)]:
            one.result()
    return made
