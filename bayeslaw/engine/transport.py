"""Ridge transport: maps from independent standard normals to the coordinates of a density.

The plain map is affine: the mode plus a square root of the inverse curvature. A weakly informed part of a law, such as the
gate of a PTPP law, leaves a ridge that curves by more than its width. The map then follows a ridge path along one coordinate: for
each value of it the mode c and a root L of the inverse curvature of all others are found,

    x_ridge = s(z_0),    x_others = c(z_0) + L(z_0) z_rest,

with cubic splines for c, the lower triangular L and the increasing s, chosen so that z_0 is nearly standard normal (by
Laplace's approximation of the ridge coordinate's marginal density). The Jacobian is s' det L. The divergence between the map's
normal and the density, in both directions, determines the ridge coordinate, if any.

A noise scale that may be 0, or an exponent that may be large, has a long tail on one side, which the draws of a short first run
show. Each element is then transformed by a sinh-arcsinh function of its own (Jones and Pewsey 2009),

    y_i = m_i + s_i sinh((arcsinh(z_i) + e_i) / d_i).

Any such map leaves the posterior unchanged; a good one makes it quick to sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline, PchipInterpolator
from scipy.optimize import minimize
from scipy.stats import norm

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import FitError
from bayeslaw.engine.compiled import Function
from bayeslaw.engine.density import Density
from bayeslaw.engine.maps import Map, below, layout
from bayeslaw.laws.outcome import LOSS, Outcome

DIFFERENCE = 1e-4  # of coordinates, over which the gradient is differenced for the curvature
LEAST_CURVATURE = 0.1  # of a direction: flatter ones have the width of this one
TRIALS = 400  # draws by which a map is judged
SPIKE = 1e-4  # noise at a mode, on its scale, that a law has which goes through all its rows, and no measured losses have
GOOD = 1.0  # range of the log ratio (see _spread) below which no ridge path is sought
DROP = 9.0  # log density below the maximum at which a ridge path ends
STEP = 0.3  # first step along the ridge path, in standard deviations of its coordinate at the mode
BEYOND = 50.0  # standard deviations for which the map goes on beyond the ends of the path, farther than any chain comes
MOST = 120  # steps in each direction, including rejected ones
CLIMB = 5 * MOST  # steps to the top of the path where it begins below it
FAR = 30.0  # least log ratio that counts in the divergence between a map and the density
BETWEEN = 20  # points from one section of a ridge path to the next, over which its marginal density is summed
VANISHED = -1e6  # log density that stands for zero density
CLOSE = 1e-6  # twice the log density by which a section's others may lie below their mode
SHRINKING = 0.2  # share of the last such distance below which a step needs no new curvature
TURN = 0.5  # how far, in their own standard deviations, the others may leave the straight line in one step
STARTS, ROUGH = 16, 3_000  # starts at random from which other modes are sought, and most evaluations from each
BETTER = 3.0  # log of by how much another mode must weigh more
NORMAL = 20.0  # weight, in draws, of the prior of no skewness and normal tails


@dataclass(frozen=True, eq=False)
class RidgeMap:
    """The map from z to the coordinates x.

    Attributes
    ----------
    centre, scale : arrays (k,) and (k, k)
        Centre and scale of the affine map; not used where there is a ridge path.
    order : int array (k,)
        The coordinate that each element of z belongs to, the ridge coordinate first; empty where there is no ridge path.
    knots : array (m,)
        Values of z_0 at the knots of the splines, the outermost far beyond the ends of the path; see `_extended`.
    pieces : array (4, m - 1, p)
        Cubic coefficients, highest power first, of s, c, log diagonal of L and the rest of L, as in `maps.Layout`.
    tails : array (b, 4)
        Location, scale, skewness and tail of the sinh-arcsinh transforms of the first b elements of z; none unless refined.
    """

    centre: Array
    scale: Array
    order: Index
    knots: Array
    pieces: Array
    tails: Array = field(default_factory=lambda: np.empty((0, 4)))

    @property
    def arrays(self) -> Map:
        """The arrays for compiled code, contiguous."""
        a = np.ascontiguousarray
        return Map(a(self.centre), a(self.scale), a(self.order), a(self.knots), a(self.pieces), a(self.tails))

    @property
    def ridge(self) -> int | None:
        """The ridge coordinate, if there is a ridge path."""
        return int(self.order[0]) if self.order.size else None

    def x(self, z: Array) -> Array:
        """Coordinates of draws z, arrays (S, k)."""
        y, (m, s, e, d) = z.copy(), self.tails.T
        y[:, : m.size] = m + s * np.sinh((np.arcsinh(z[:, : m.size]) + e) / d)
        if self.order.size == 0:
            return self.centre + y @ np.tril(self.scale).T
        value, n = self._splines(y[:, 0]), self.order.size - 1
        x, at = np.empty_like(y), layout(n)
        x[:, self.order[0]] = value[:, 0]
        for i in range(n):
            row = below(at, i)
            left = (value[:, row : row + i] * y[:, 1 : 1 + i]).sum(axis=1)
            x[:, self.order[1 + i]] = value[:, at.modes + i] + np.exp(value[:, at.widths + i]) * y[:, 1 + i] + left
        return x

    def _places(self, t: Array) -> tuple[Index, Array, Array]:
        """The piece (S,) of the splines in which t lies, how far inside it, and how far beyond the knots."""
        inside = np.clip(t, self.knots[0], self.knots[-1])
        j = np.clip(np.searchsorted(self.knots, inside) - 1, 0, self.knots.size - 2)
        return j, inside - self.knots[j], t - inside

    def _splines(self, t: Array, some: int | slice = slice(None)) -> Array:
        """Values of all or some splines at t, array (S, p) or (S,); linear beyond the knots, as in `maps.splines`."""
        j, h, off = self._places(t)
        value, (far,) = self.pieces[0, j, some], np.nonzero(off)  # in place, since points times splines are many numbers
        h = h if value.ndim == 1 else h[:, None]
        value *= h
        for piece in self.pieces[1:3]:
            value += piece[j, some]
            value *= h
        value += self.pieces[3, j, some]
        if far.size:
            value[far] += (self._slopes(t[far], some).T * off[far]).T
        return value

    def _slopes(self, t: Array, some: int | slice = slice(None)) -> Array:
        """Slopes of the same."""
        j, h, _ = self._places(t)
        c = self.pieces[:, j, some]
        h = h if c.ndim == 2 else h[:, None]
        return np.asarray((3 * c[0] * h + 2 * c[1]) * h + c[2])

    def refined(self, z: Array, count: int) -> RidgeMap:
        """The map with tail transforms of the first `count` elements, fitted to draws z (S, k)."""
        return replace(self, tails=np.array([sinh_arcsinh(column) for column in z[:, :count].T]).reshape(-1, 4))

    def log_normal(self, x: Array) -> Array:
        """Log density, up to a constant, of the map's normal without tail transforms at coordinates x (S, k): array (S,)."""
        if self.order.size == 0:
            z = np.linalg.solve(self.scale, (x - self.centre).T)
            return np.asarray(-0.5 * (z**2).sum(axis=0) - np.log(np.abs(np.diag(self.scale))).sum())
        t = self._inverse(x[:, self.order[0]])
        value, n = self._splines(t), self.order.size - 1
        total, z, at = -0.5 * t**2 - np.log(self._slopes(t, 0)), np.empty((len(x), n)), layout(n)
        for i in range(n):
            row = below(at, i)
            rest = x[:, self.order[1 + i]] - value[:, at.modes + i] - (value[:, row : row + i] * z[:, :i]).sum(axis=1)
            z[:, i] = rest * np.exp(-value[:, at.widths + i])
            total -= 0.5 * z[:, i] ** 2 + value[:, at.widths + i]
        return np.asarray(total)

    def _inverse(self, x: Array) -> Array:
        """Arguments at which the ridge coordinate has the values x (S,), by Newton's method safeguarded by bisection."""
        values = self._splines(self.knots, 0)
        ends = np.concatenate([[self.knots[0] - 2 * BEYOND], self.knots, [self.knots[-1] + 2 * BEYOND]])
        after = np.searchsorted(values, x)
        low, high, t = ends[after], ends[after + 1], np.interp(x, values, self.knots)
        for _ in range(12):
            value, slope = self._splines(t, 0), self._slopes(t, 0)
            low, high = np.where(value < x, t, low), np.where(value < x, high, t)
            t = t - (value - x) / slope
            t = np.where((t >= low) & (t <= high), t, 0.5 * (low + high))
        return np.asarray(t)

    def log_normal_of(self, z: Array) -> Array:
        """`log_normal` at the coordinates of z (S, k), from z itself."""
        if self.order.size == 0:
            return np.asarray(-0.5 * (z**2).sum(axis=1) - np.log(np.abs(np.diag(self.scale))).sum())
        t, at = z[:, 0], layout(self.order.size - 1)
        scales = self._splines(t, slice(at.widths, at.rest))
        return np.asarray(-0.5 * (z**2).sum(axis=1) - np.log(self._slopes(t, 0)) - scales.sum(axis=1))


def find_mode(
    logp: Callable[[Array], tuple[float, Array]], start: Array, outcome: Outcome = LOSS, *,
    maxfun: int = 20_000, ftol: float = 1e-13,
) -> Array:  # fmt: skip
    """Mode of a log density by L-BFGS from a start.

    Parameters
    ----------
    logp : callable
        Value and gradient.
    start : array (k,)
    outcome : Outcome
        Which errors name.
    maxfun, ftol
        Options of L-BFGS: most evaluations, and the relative change of the density at which it stops.
    """

    def down(x: Array) -> tuple[float, Array]:
        value, gradient = logp(x)
        good = math.isfinite(value) and bool(np.all(np.isfinite(gradient)))
        return (-value, -gradient) if good else (1e12, np.zeros_like(x))

    options = {"maxiter": 5_000, "maxfun": maxfun, "maxcor": 30, "ftol": ftol}
    result = minimize(down, start, jac=True, method="L-BFGS-B", options=options)
    if not math.isfinite(result.fun) or result.fun >= 1e12:
        problem = "The log density is not finite where the fit begins; are the losses and the covariates on the law's scale?"
        raise FitError(outcome.renamed(problem), code="not-finite-at-start")
    return np.asarray(result.x)


def exactly_fitted(density: Density) -> bool:
    """Whether rows are so few that the law may go through all of them, whatever their losses are."""
    return "sigma_point" in density.names and density.observed.response.size <= len(density.law.parameters) + 1


def at_spike(density: Density, mode: Array) -> bool:
    """Whether the points' noise is next to 0 at a mode, without mass around it.

    Where a law goes through all its n rows the density grows like sigma^-n as the points' noise goes to 0: the parameters have as
    little room there.
    """
    return exactly_fitted(density) and bool(mode[density.names.index("sigma_point")] < math.log(SPIKE))


class WithoutSpike:
    """The log density plus n times the logarithm of the points' noise: that of the room which n rows leave the parameters."""

    def __init__(self, density: Density) -> None:
        self.logp, self.place = density.function(), density.names.index("sigma_point")
        self.power = min(density.observed.response.size, len(density.law.parameters))

    def __call__(self, x: Array) -> tuple[float, Array]:
        values, gradients = self.many(x[None])
        return float(values[0]), gradients[0]

    def many(self, x: Array) -> tuple[Array, Array]:
        """Return values (S,) and gradients (S, k) at coordinates (S, k)."""
        values, gradients = self.logp.many(x)
        gradients = gradients.copy()
        gradients[:, self.place] += self.power
        return values + self.power * x[:, self.place], gradients


def find_best_mode(density: Density, logp: Function | WithoutSpike) -> tuple[Array, Array]:
    """The mode with most of the density's mass by Laplace's approximation, and the curvature there.

    It is that of `Density.start` unless another start leads to one that weighs much more. A law that misses its runs may fit them
    in several ways, and no chain goes from one to another.
    """
    outcome, rng = density.law.outcome, np.random.default_rng(0)
    mode = find_mode(logp, density.start(), outcome)
    hessian = curvature(logp, mode)
    value = logp(mode)[0]
    mass = value - _log_height(hessian)
    for _ in range(STARTS):
        try:
            other = find_mode(logp, density.start(rng), outcome, maxfun=ROUGH, ftol=1e-9)
        except FitError:
            continue
        if logp(other)[0] < value + BETTER:  # lower modes are wider, though seldom by so much that they weigh more
            continue
        other = find_mode(logp, other, outcome)
        curved = curvature(logp, other)
        if (own := logp(other)[0] - _log_height(curved)) > mass + BETTER:
            mode, hessian, value, mass = other, curved, logp(other)[0], own
    return mode, hessian


def _log_height(hessian: Array) -> float:
    """Log density of the normal with this curvature at its mode, up to a constant; flat directions count as wide ones."""
    return float(-np.log(np.diag(root_of_inverse(hessian))).sum())


def curvature(logp: Function | WithoutSpike, x: Array) -> Array:
    """Negative Hessian of a log density, by central differences of its gradient."""
    move = DIFFERENCE * np.eye(x.size)
    slopes = logp.many(np.concatenate([x - move, x + move]))[1]
    hessian: Array = (slopes[: x.size] - slopes[x.size :]) / (2 * DIFFERENCE)
    return 0.5 * (hessian + hessian.T)


def root_of_inverse(hessian: Array) -> Array:
    """Lower Cholesky factor of the inverse of a curvature; flat and negative directions count as wide ones."""
    values, vectors = np.linalg.eigh(hessian)
    root = vectors / np.sqrt(np.maximum(np.abs(values), LEAST_CURVATURE))
    factor = np.linalg.qr(root.T, mode="r").T
    return np.asarray(factor * np.sign(np.diag(factor)))


def find_ridge_map(density: Density, candidates: Sequence[int]) -> RidgeMap:
    """The map by mode and curvature or, where that is better, along one of the candidate coordinates.

    Where the mode is in a spike, as of a law that goes through all its rows, it is that without the spike, and the scale that goes
    to 0 there is a candidate: the posterior of other parameters narrows, like a funnel.
    """
    logp = density.function()
    mode, hessian = find_best_mode(density, logp)
    if at_spike(density, mode):
        without = WithoutSpike(density)
        mode, hessian = find_best_mode(density, without)
        candidates = list(dict.fromkeys([*candidates, without.place]))
    return best_map(logp, affine(mode, root_of_inverse(hessian)), (map_along(logp, mode, hessian, ridge) for ridge in candidates))


def best_map(logp: Function, plain: RidgeMap, curved: Iterable[RidgeMap | None]) -> RidgeMap:
    """The affine map where it is good, or else the best of it and of maps along ridge paths, which are only made then.

    Parameters
    ----------
    logp, plain, curved
        The density, and maps to its coordinates; None where a path is rejected.
    """
    draws = np.random.default_rng(0).standard_normal((TRIALS, plain.centre.size))
    if _spread(logp, plain, draws) < GOOD:
        return plain
    return _extended(_best(logp, [plain, *(m for m in curved if m is not None)], draws))


def affine(centre: Array, scale: Array) -> RidgeMap:
    """The map without a ridge path, from its centre (k,) and lower triangular scale (k, k)."""
    none = np.empty(0)
    return RidgeMap(centre, scale, none.astype(np.int64), none, np.empty((4, 0, 0)))


def _bounded(log_density: Array) -> Array:
    """Log densities with nan and very small values replaced by `VANISHED`."""
    return np.maximum(np.nan_to_num(log_density, nan=VANISHED, posinf=VANISHED), VANISHED)


def _spread(logp: Function, ridge_map: RidgeMap, z: Array) -> float:
    """5% to 95% range of the log ratio of density and map over the map's own draws z (S, k); 0 for a perfect map."""
    ratio = _bounded(logp.many(ridge_map.x(z))[0]) - ridge_map.log_normal_of(z)
    low, high = np.quantile(ratio, [0.05, 0.95])
    return float(high - low)


def _best(logp: Function, maps: list[RidgeMap], z: Array) -> RidgeMap:
    """The map with the least divergence in both directions between its normal and the density.

    From the map to the density the divergence is a mean over the map's draws. From the density to the map it is a mean over the
    draws of all maps weighted to the density, which penalises a map that leaves out a part of the ridge.
    """
    points = np.concatenate([m.x(z) for m in maps])
    values = _bounded(logp.many(points)[0])
    normals = _bounded(np.array([m.log_normal(points) for m in maps]))
    own = np.arange(points.shape[0]).reshape(len(maps), -1)
    for m, row, i in zip(maps, normals, own, strict=True):
        row[i] = m.log_normal_of(z)  # known without inverting the map
    mixture = np.logaddexp.reduce(normals, axis=0) - math.log(len(maps))
    weights = np.exp(values - mixture - (values - mixture).max())
    weights = np.minimum(weights, weights.mean() * math.sqrt(weights.size))
    weights /= weights.sum()
    ratios = np.array([values[i] - normals[j, i] for j, i in enumerate(own)])
    # Bounded below: a draw in a hundred where the density vanishes must not outweigh all others.
    outward = np.maximum(ratios - np.median(ratios, axis=1).max(), -FAR).mean(axis=1)
    inward = np.maximum(normals - mixture, -FAR) @ weights
    return maps[int(np.argmax(outward + inward))]


def map_along(logp: Function, mode: Array, hessian: Array, ridge: int) -> RidgeMap | None:
    """The map along one coordinate, or None where its ridge path is rejected.

    Parameters
    ----------
    logp, mode, hessian, ridge
        The density, its mode and curvature there, and the coordinate.
    """
    spread = float(np.linalg.norm(root_of_inverse(hessian)[ridge]))
    middle = Section(mode, hessian, logp(mode)[0], ridge)
    before = middle.walk(logp, -STEP * spread)
    after = before and middle.walk(logp, STEP * spread)
    if not after:
        return None
    sections = [*reversed(before), middle, *after]
    if (t := _normal_scores(sections)) is None and (t := _normal_scores(sections := _around_top(sections))) is None:
        return None
    left = np.tril_indices(mode.size - 1, -1)
    table = np.array(
        [np.concatenate([[s.at], s.others, np.log(np.diag(s.root)), s.root[left]]) for s in sections]
    )  # as in `Layout`
    pieces = CubicSpline(t, table, bc_type="natural").c
    pieces[:, :, 0] = increasing(t, table[:, 0]).c
    order = np.concatenate([[ridge], middle.rest]).astype(np.int64)
    return RidgeMap(mode, root_of_inverse(hessian), order, t, np.ascontiguousarray(pieces))


def map_from(logp: Function, x: Array, hessian: Array, ridge: int) -> RidgeMap | None:
    """The map along one coordinate from any point of it: the others are first brought to their mode there.

    Parameters
    ----------
    logp, x, hessian, ridge
        The density, a point, the curvature there, and the coordinate.
    """
    section = Section(x, hessian, logp(x)[0], ridge).next_section(logp, float(x[ridge]))
    if section is None:
        return None
    mode = np.insert(section.others, ridge, section.at)
    return map_along(logp, mode, curvature(logp, mode), ridge)


def _around_top(sections: list[Section]) -> list[Section]:
    """The sections of a path around its highest level, to the first on each side that lies DROP lower, if any does.

    A path may begin far below its top, as the mode of the joint density need not be where most of its mass is: the sections there
    would all have the same normal quantile.
    """
    levels = np.array([s.level for s in sections])
    top = int(levels.argmax())
    low = np.flatnonzero(levels < levels[top] - DROP)
    return sections[max(low[low < top], default=0) : min(low[low > top], default=len(sections) - 1) + 1]


def _extended(ridge_map: RidgeMap) -> RidgeMap:
    """The map with constant widths beyond the ends of its path, while the ridge coordinate and the modes go on linearly.

    Widths that go on linearly make walls there, at which chains diverge.
    """
    for end in (0, -1) if ridge_map.order.size else ():
        at, knot = layout(ridge_map.order.size - 1), ridge_map.knots[[end]]
        value, slope = ridge_map._splines(knot), ridge_map._slopes(knot)
        slope[:, at.widths :] = 0.0
        piece, far = np.zeros((4, 1, value.shape[1])), ridge_map.knots[end] + math.copysign(BEYOND, ridge_map.knots[end])
        piece[2], piece[3] = slope, value if end else value - BEYOND * slope
        joined = (ridge_map.pieces, piece) if end else (piece, ridge_map.pieces)
        knots = np.insert(ridge_map.knots, ridge_map.knots.size if end else 0, far)
        ridge_map = replace(ridge_map, knots=knots, pieces=np.ascontiguousarray(np.concatenate(joined, axis=1)))
    return ridge_map


def increasing(t: Array, x: Array) -> CubicSpline | CubicHermiteSpline:
    """An increasing cubic through the points whose slope at the ends, where it goes on linearly, is well above 0.

    It is a natural spline where that increases everywhere, and else a monotone one, whose slope has a kink at every point. At a
    kink the density's gradient jumps, which halved the sampler's step size.
    """
    smooth, secants = CubicSpline(t, x, bc_type="natural"), np.diff(x) / np.diff(t)
    if np.all(smooth(np.linspace(t[:-1], t[1:], 20), 1) > 0.5 * secants):
        return smooth
    slopes = PchipInterpolator(t, x).derivative()(t)
    slopes[0], slopes[-1] = max(slopes[0], 0.5 * secants[0]), max(slopes[-1], 0.5 * secants[-1])
    return CubicHermiteSpline(t, x, slopes)


def _turn(sections: list[Section], ahead: Section) -> float:
    """Change of the ridge in the step to `ahead`, as a share of the largest allowed one."""
    here = sections[-1]
    off = np.linalg.solve(here.root, ahead.others - here.straight(ahead.at))
    growth = np.abs(np.log(np.diag(ahead.root) / np.diag(here.root)))
    return float(max(np.abs(off).max() / TURN, growth.max() / 0.5, abs(ahead.level - here.level) / 1.5))


def _normal_scores(sections: list[Section]) -> Array | None:
    """Standard normal quantiles at which the marginal of these levels puts the sections; None where two have nearly the same."""
    at, level = (np.array(values) for values in ([s.at for s in sections], [s.level for s in sections]))
    curve = CubicSpline(at, level)
    fine = np.concatenate([*(np.linspace(a, b, BETWEEN, endpoint=False) for a, b in pairwise(at)), at[-1:]])
    density = np.exp(curve(fine) - level.max())
    mass = np.concatenate([[0.0], np.cumsum(np.diff(fine) * (density[1:] + density[:-1]) / 2)])
    slopes = np.abs(curve(at[[0, -1]], 1))
    tails = density[[0, -1]] / np.maximum(slopes, 1.0 / (at[-1] - at[0]))
    total = mass[-1] + tails.sum()
    scores: Array = norm.ppf(np.clip((tails[0] + mass[::BETWEEN]) / total, 1e-12, 1 - 1e-12))
    return scores if np.all(np.diff(scores) > 1e-3) else None


class Section:
    """Mode and curvature of the other coordinates at one value of the ridge coordinate."""

    def __init__(self, x: Array, hessian: Array, value: float, ridge: int) -> None:
        self.ridge = ridge
        self.rest = rest = np.delete(np.arange(x.size), ridge)
        self.at = float(x[ridge])
        self.others: Array = x[rest]
        self.root = root_of_inverse(hessian[np.ix_(rest, rest)])
        self.tangent: Array = -self.root @ (self.root.T @ hessian[rest, ridge])
        self.level = value + float(np.log(np.diag(self.root)).sum())

    def straight(self, at: float) -> Array:
        """The others' mode at another value of the ridge coordinate if the ridge were straight."""
        return self.others + (at - self.at) * self.tangent

    def walk(self, logp: Function, step: float) -> list[Section]:
        """Sections of a ridge path until the density has dropped by DROP; steps shrink where the path curves.

        We reject a path whose conditional mode vanishes earlier, as at a fold, by returning no section: a map along it would not
        reach the region beyond, and would have walls there at which chains diverge or stay.
        """
        sections, top = [self], self.level
        smallest, steps, climbed = abs(step) / 1_000, 0, 0
        while steps < MOST and climbed < CLIMB:
            here, steps = sections[-1], steps + 1
            ahead = here.next_section(logp, here.at + step)
            if ahead is None or _turn(sections, ahead) > 1:
                step *= 0.5
                if abs(step) < smallest:
                    break
                continue
            sections.append(ahead)
            if ahead.level > top:
                top, steps, climbed = ahead.level, steps - 1, climbed + 1
            if ahead.level < top - DROP:
                return sections[1:]
            if _turn(sections[:-1], ahead) < 0.4:
                step *= 1.4
        return []

    def next_section(self, logp: Function, at: float) -> Section | None:
        """Move the ridge coordinate to `at` and find the others' mode there by Newton steps from the tangent."""
        rest, ridge = self.rest, self.ridge
        x = np.empty(rest.size + 1)
        x[ridge], x[rest] = at, self.straight(at)
        value, gradient = logp(x)
        if not math.isfinite(value):
            x[rest] = self.others
            value, gradient = logp(x)
        # The curvature of the last section is used while its steps shrink fast: a new curvature costs as much as ten of them.
        root, hessian, last = self.root, None, math.inf
        for _ in range(50):
            with np.errstate(over="ignore", invalid="ignore"):  # in the narrow end of a funnel; a path that leads there ends
                direction = root @ (root.T @ gradient[rest])
                decrement = float(direction @ gradient[rest])
            if not math.isfinite(decrement):
                return None
            if hessian is not None and decrement < CLOSE:
                return Section(x, hessian, value, ridge)
            if hessian is None and (decrement < 0.1 * CLOSE or decrement > SHRINKING * last):
                hessian, last = curvature(logp, x), math.inf
                if not np.isfinite(hessian).all():  # next to where the density ends, as of a steep sigmoid
                    return None
                root = root_of_inverse(hessian[np.ix_(rest, rest)])
                continue
            for size in 0.4 ** np.arange(12):
                trial = x.copy()
                trial[rest] += size * direction
                trial_value, trial_gradient = logp(trial)
                if math.isfinite(trial_value) and trial_value > value + 0.1 * size * decrement:
                    x, value, gradient = trial, trial_value, trial_gradient
                    hessian, last = None, decrement if size == 1 else 0.0
                    break
            else:
                if hessian is not None:
                    return Section(x, hessian, value, ridge)
                last = 0.0
        return None


def sinh_arcsinh(y: Array) -> tuple[float, float, float, float]:
    """m, s, e and d for which the transformed standard normal, m + s sinh((arcsinh(z) + e) / d), is likeliest given draws y.

    Skewness e and log tail weight log d have normal priors worth NORMAL draws, so that few draws transform little.
    """
    low, middle, high = np.quantile(y, [0.16, 0.5, 0.84])

    def cost(p: Array) -> tuple[float, Array]:
        s, e, d = math.exp(p[1]), p[2], math.exp(p[3])
        w = (y - p[0]) / s
        a, root = np.arcsinh(w), np.sqrt(1 + w * w)
        q = d * a - e
        u, rise = np.sinh(q), np.cosh(q)
        pull = u * rise - np.tanh(q)  # of the cost by q
        value = (0.5 * u * u - np.log(rise) + np.log(root)).mean() + p[1] - p[3]
        d_w = pull * d / root + w / (root * root)
        slope = [-d_w.mean() / s, 1 - (d_w * w).mean(), -pull.mean(), (pull * d * a).mean() - 1]
        belief = NORMAL / y.size
        return value + belief * (p[2] ** 2 + p[3] ** 2), np.array(slope) + 2 * belief * np.array([0, 0, p[2], p[3]])

    start = np.array([middle, math.log(max((high - low) / 2, 1e-3)), 0.0, 0.0])
    m, log_s, e, log_d = minimize(cost, start, jac=True, method="BFGS").x
    return float(m), math.exp(log_s), float(e), math.exp(log_d)
