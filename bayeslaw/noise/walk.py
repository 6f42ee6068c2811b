"""The learnt error of a law: fractional Brownian motion in the logarithms of sizes, tokens and stages, 0 at the largest runs.

    log loss = log law(x) + W(x) + noise,   W ~ discrepancy x GP(0, k),   k = sum_a k_a + INTERACTION x sum_{a<b} k_a k_b,
    k_a(x, x') = (|t|^2H + |t'|^2H - |t - t'|^2H) / 2,   t = log(x_a / largest x_a of the runs),   H = ROUGHNESS

Fractional Brownian motion is a random walk with correlated steps (H = 1/2 is Brownian motion), hence the name walk. For outcomes
of kind real W is added to the outcome itself, and sizes that are relative for a loss are shares of its `scale`.

No law is exact. A law that is only fitted takes its misfit to small runs for knowledge about large ones. Since W is 0 at the
largest runs and grows away from them, small runs count less, and beyond the runs the error of a forecast grows with the distance.
W is linear in normal coefficients, which are integrated out while sampling (`density`, `lowrank`) and drawn afterwards.

Where no error is learnt, W begins where the runs end: beyond them along an axis, or along a corner that they leave out, such as
large sizes with many tokens (`Corner`).

Laws that add a term of N and one of D forecast too high where both are large and no run has as much N x D, the more so the more
they err on the runs. Their cards state by how much in the mean (`corner_error`, in units of `discrepancy`), and that is added to W.

Values of W are interpolated between knots along every axis. In the kernel's Cholesky factor knots inside the runs come first, so
that those beyond need not be known when the law is fitted: beyond the runs the walk goes on with coefficients of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.laws.law import Law
from bayeslaw.laws.outcome import LOSS
from bayeslaw.schedules.areas import NO_AREA

if TYPE_CHECKING:
    from bayeslaw.data.observations import Observations
    from bayeslaw.noise.noise import Noise

ROUGHNESS = 0.85  # H: .5 is Brownian motion, and 1 a straight line
INTERACTION = 0.5  # of two axes: that a law errs along N differently at every D
BEYOND = (-4.90, 0.95)
"""Mean and sd of the log of what is added to `discrepancy` where no run shows how wrong the law is, learnt by `make ladders`
with the uncertainty of both."""
CONTINUED = frozenset({"ptpp", "r", "cpt", "S1_pt"})
"""Covariates of laws of continual pre-training. Their errors jump from checkpoint to checkpoint, and a walk that follows the jumps
is far too rough between the sizes and stages of the runs: for these laws it begins where the runs end."""
WEIGHTS = {"N": 1.25, "ptpp": 0.75}
"""By which `BEYOND` is multiplied along axes of such laws: they err more at unseen sizes than at unseen stages (`make cpt`)."""
OF_LOGITS, OF_LOSS = 0.11, 1.35
"""Median errors of logits an e-fold beyond the runs, in place of that of `BEYOND`, of outcomes between bounds such as accuracies:
along sizes and tokens, and along a loss by which they are forecast (`benchmarks/accuracy_errors.py`)."""
MOST = 0.01  # an e-fold: larger errors count as this where the mean error in corners is a multiple of them
KNOTS, SPACING = 6, 1.0  # most intervals between knots inside the runs, and the least e-folds of one
OUTWARD = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # e-folds beyond the runs, above and below, at which there are knots
COMPONENTS = 12  # most coefficients learnt from the runs: more explain less than 1% of the walk
BLOCK = 200_000  # numbers of an array of draws, rows and features at once: as many as a core's own cache holds
ROW_NOISE = 0.25  # variance of a row's noise, in that of the walk an e-fold away, assumed where `BEYOND` is conditioned on the runs
SIZES = ("N", "D", "ptpp")  # covariates that are large or small together
UNIQUE = "U"  # tokens without repetitions, of which a run sees D


def directions(law: Law) -> tuple[str, ...]:
    """Return the covariates in whose logarithms a law's error varies: those of its formula that span decades, except D with ptpp.

    In laws with ptpp, D is the number of tokens of an adaptation, and the points of its curve share the law's error at a size and
    a stage. In laws without, D is the budget, in which forecasts leave the range of the runs. Covariates that have a best value,
    such as a learning rate, are left out: an error along them would be taken for the loss around the best value. A loss by which
    accuracies are forecast is one too, though it spans no decades.
    """
    without = {*law.tuning, *(["D"] if "ptpp" in law.covariates else [])}
    of_loss = () if law.outcome.unbounded else (LOSS.name,)
    return tuple(
        name for name, c in law.axes.items() if (c.logarithmic or name in of_loss) and not c.context and name not in without
    )


def weight(law: Law, axis: str) -> float:
    """Return by which the size beyond the runs is multiplied along an axis of a law that counts as exact inside them."""
    if axis == LOSS.name:
        return OF_LOSS / OF_LOGITS
    return WEIGHTS.get(axis, 1.0) if CONTINUED & {*law.covariates} else 1.0


def least(law: Law, axis: str) -> float:
    """Return the value of a covariate as which smaller ones count in logarithms: for 0 one token, or less than a step's area."""
    return law.covariates[axis].support[0] or (1.0 if axis == "D" else NO_AREA)


def logarithms(law: Law, covariates: Mapping[str, Any]) -> Array:
    """Return logarithms (n, axes) of the sizes along `directions`, of N x active where a token uses that share of N.

    With N alone, a small model of many experts would be as large as a large dense one. 0 counts as `least`.
    """
    columns = [log_product(law, dict.fromkeys(law.factors(axis), 1), covariates) for axis in directions(law)]
    return np.stack(np.broadcast_arrays(*columns), axis=-1).reshape(-1, len(columns))


def log_product(law: Law, of: Mapping[str, int], covariates: Mapping[str, Any]) -> Array:
    """Return the logarithm (n,) of a product of powers of covariates.

    Parameters
    ----------
    law : Law
    of : mapping of covariate to int
        The powers, such as those of `powers`.
    covariates : mapping of covariate to array (n,)
        The settings; 0 counts as `least`.
    """
    return np.asarray(sum(power * np.log(np.maximum(covariates[name], least(law, name))) for name, power in of.items()))


def powers_of_axes(law: Law) -> list[dict[str, int]]:
    """Return the powers of `directions` in compute, N x D, in tokens per parameter, D / N, or in N x ptpp, and in epochs, D / U.

    Others, such as a learning rate or the bits of weights, have no part: a run with less of them is not smaller. A law with ptpp
    has no error along the tokens of an adaptation.
    """
    along = directions(law)
    names = [name for name in along if name in SIZES]
    per_parameter = [{"D": 1, "N": -1}] if {*names} == {"N", "D"} else []
    epochs = [{"D": 1, UNIQUE: -1}] if {"D", UNIQUE} <= {*along} else []
    return [*([dict.fromkeys(names, 1)] if len(names) > 1 else []), *per_parameter, *epochs]


def product_name(factors: Iterable[str]) -> str:
    """Return the name of a product, such as N x D."""
    return " x ".join(factors)


def powers(law: Law) -> dict[str, dict[str, int]]:
    """Return the powers of covariates in products in which runs may be large or small, by names such as N x D, or N x active."""
    products = [{axis: 1} for axis in directions(law) if len(law.factors(axis)) > 1]
    named = {}
    for of in (*products, *powers_of_axes(law)):
        factors = {name: power for axis, power in of.items() for name in law.factors(axis)}
        above, below = (product_name(name for name, power in factors.items() if power == sign) for sign in (1, -1))
        named[f"{above} / ({below})" if " x " in below else f"{above} / {below}" if below else above] = factors
    return named


@dataclass(frozen=True, eq=False)
class Corner:
    """A corner of the box around the runs that they leave out, such as large sizes with many tokens.

    Attributes
    ----------
    signs : array (axes,)
        Signs of the logarithms of covariates in the combination that is large there, 0 for others.
    most : float
        The largest value of the runs, in e-folds from that of their largest covariates.
    mean : float
        The mean error of the law an e-fold beyond the runs, in units of `discrepancy`.
    """

    signs: Array
    most: float
    mean: float = 0.0

    @classmethod
    def all_of(cls, law: Law, x: Array) -> tuple[Corner, ...]:
        """The corners of runs at `x` (n, axes), e-folds from the largest: of each of `powers_of_axes`, and of its inverse."""
        corners = list[Corner]()
        for of in powers_of_axes(law):
            signs = np.array([float(of.get(name, 0)) for name in directions(law)])
            ends = (signs, -signs) if min(of.values()) < 0 else (signs,)  # a product may be small, as a run of few tokens is
            mean = law.corner_error if of == {"N": 1, "D": 1} else 0.0
            corners += [cls(way, float((x @ way).max()), mean) for way in ends]
        return tuple(corners)

    def feature(self, x: Array) -> Array:
        """Return the feature (n,) at places `x` (n, axes) of the box, by their e-folds beyond the runs."""
        return np.asarray(np.maximum(x @ self.signs - self.most, 0.0) ** ROUGHNESS)

    def weight(self, sizes: Array) -> float:
        """Return the size of the error here, an e-fold beyond the runs, given that along each axis (axes,).

        It is the least with which axes can share the way, min sum_a (size_a way_a^H)^2 where the ways add up to one: half each if
        sizes are equal. So runs at other places don't make an error larger than it was beyond an axis.
        """
        sizes, power = sizes[self.signs != 0], 1 / (2 * ROUGHNESS - 1)
        return float(np.sum(sizes ** (-2 * power)) ** (-0.5 / power)) if sizes.all() else 0.0


@dataclass(frozen=True, eq=False)
class Axis:
    """Knots of W along one axis, in e-folds from the largest of the runs: those inside the runs, then those beyond."""

    inside: Array
    beyond: Array

    @classmethod
    def of(cls, smallest: float) -> Axis:
        """The axis of runs that begin at `smallest` <= 0."""
        count = min(KNOTS, math.ceil(-smallest / SPACING))
        out = np.array(OUTWARD)
        return cls(np.linspace(smallest, 0.0, count, endpoint=False)[::-1], np.concatenate([out, smallest - out]))

    @property
    def pinned(self) -> float:
        """The sd, an e-fold beyond the largest of the runs, of a walk of scale 1 that is 0 at all knots inside: 1 or less."""
        return float(np.linalg.norm(self.features(np.ones(1))[0, self.inside.size :]))

    @property
    def table(self) -> tuple[Array, Array]:
        """The places of the knots and the pin, ascending, (knots + 1,), and the features there (knots + 1, knots)."""
        knots = np.concatenate([self.inside, self.beyond])
        size = np.abs(knots) ** (2 * ROUGHNESS)
        apart = np.abs(knots[:, None] - knots[None]) ** (2 * ROUGHNESS)
        factor = np.linalg.cholesky((size[:, None] + size[None] - apart) / 2)
        order = np.argsort(np.append(knots, 0.0))
        return np.append(knots, 0.0)[order], np.vstack([factor, np.zeros(knots.size)])[order]  # 0 at the pin

    def features(self, at: Array) -> Array:
        """Return features (n, knots) at `at` (n,): times standard normal numbers they are values of a walk of scale 1."""
        places, values = self.table
        right = np.clip(np.searchsorted(places, at), 1, places.size - 1)
        share = np.clip((at - places[right - 1]) / (places[right] - places[right - 1]), 0.0, 1.0)[:, None]
        return np.asarray((1 - share) * values[right - 1] + share * values[right])


@dataclass(frozen=True, eq=False)
class Walk:
    """The error W of a law as a linear function of normal coefficients, of which some combinations are learnt from the runs.

    Attributes
    ----------
    law : Law
    largest, smallest : arrays (axes,)
        Log covariates of the runs.
    loadings : array (K, k)
        Orthonormal combinations of the K coefficients inside the runs, the ones with the largest values at the runs first.
    squares : array (k,)
        Sum of squares over the runs of each combination's features.
    multiple : array (n,)
        By which the variance of each row, known errors included, is multiplied: larger than 1 for outliers.
    information : float
        The power of the likelihood while sampling, of which `multiple` has a part: below 1 where outliers were found, whose weights
        are estimated from the same losses.
    beyond : tuple of float
        As `BEYOND`.
    exact : bool
        Whether the law counts as exact inside the runs, since no error was learnt there; beyond them the walk goes on from 0.
    shares : mapping of covariate to float
        Shares of the size beyond the runs along each axis: less than 1 where the law is one of several, whose differences are a
        part of their errors.
    corners : tuple of Corner
        Corners of the box around the runs. A law that counts as exact inside them has an error there too.
    """

    law: Law = field(repr=False)
    largest: Array = field(repr=False)
    smallest: Array = field(repr=False)
    loadings: Array = field(repr=False)
    squares: Array = field(repr=False)
    multiple: Array = field(repr=False)
    information: float = 1.0
    beyond: tuple[float, float] = BEYOND
    exact: bool = False
    shares: Mapping[str, float] = field(default_factory=dict)
    corners: tuple[Corner, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, law: Law, covariates: Mapping[str, Array]) -> Walk | None:
        """The walk for runs with these covariates (n,); None for a law without axes, or runs that do not differ along any."""
        if not directions(law):
            return None
        x = logarithms(law, covariates)
        largest, nothing = x.max(axis=0), np.empty(0)
        walk = cls(law, largest, x.min(axis=0), nothing, nothing, np.ones(len(x)))
        inside = walk.features(covariates)[:, walk.inside]
        if not inside.any():
            return None
        _, sizes, combinations = np.linalg.svd(inside, full_matrices=False)
        keep = min(COMPONENTS, int((sizes > 1e-6 * sizes[0]).sum()))
        corners = Corner.all_of(law, x - largest)
        return cls(law, largest, walk.smallest, combinations[:keep].T, sizes[:keep] ** 2, walk.multiple, corners=corners)

    @property
    def axes(self) -> list[Axis]:
        """The knots along every axis."""
        return [Axis.of(float(least - most)) for least, most in zip(self.smallest, self.largest, strict=True)]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which features are of knots inside the runs, boolean array."""
        own = [np.arange(a.inside.size + a.beyond.size) < a.inside.size for a in self.axes]
        return np.append(_with_products(own), np.zeros(len(self._used_corners), dtype=bool))

    @property
    def weights(self) -> Array:
        """By which the size beyond the runs is multiplied for each feature, where the law counts as exact inside them."""
        size = np.array([weight(self.law, name) * self.shares.get(name, 1.0) for name in directions(self.law)])
        own = [np.full(a.inside.size + a.beyond.size, of_axis) for of_axis, a in zip(size, self.axes, strict=True)]
        an_e_fold = size * [axis.pinned for axis in self.axes]
        return np.append(_with_products(own), [corner.weight(an_e_fold) for corner in self._used_corners])

    @property
    def usual(self) -> dict[str, float]:
        """The sd of the error an e-fold beyond the runs along each axis, where the law counts as exact inside them."""
        size = self._unit * math.exp(self.beyond[0] + self.beyond[1] ** 2)
        return {name: size * weight(self.law, name) * a.pinned for name, a in zip(directions(self.law), self.axes, strict=True)}

    def sizes_beyond(self, count: int, rng: np.random.Generator) -> Array:
        """Draw sizes (count,) of the error that is added where no run shows how wrong the law is; see `beyond`."""
        return np.asarray(self._unit * np.exp(self.beyond[0] + self.beyond[1] * rng.standard_normal(count)))

    @property
    def _unit(self) -> float:
        """Of sizes of errors on the scale of the noise, in those of logarithms of losses."""
        outcome = self.law.outcome
        return outcome.scale if outcome.unbounded else OF_LOGITS / math.exp(BEYOND[0])

    @property
    def _used_corners(self) -> tuple[Corner, ...]:
        return self.corners if self.exact else ()

    def features(self, covariates: Mapping[str, Any]) -> Array:
        """Return features (n, coefficients) at settings (n,): of axes, of pairs of these, and of corners if the law is exact."""
        x = logarithms(self.law, covariates) - self.largest
        own = [axis.features(x[:, i]) for i, axis in enumerate(self.axes)]
        both = [(a[:, :, None] * b[:, None, :]).reshape(len(x), -1) for a, b in combinations(own, 2)]
        corners = [corner.feature(self._in_box(x))[:, None] for corner in self._used_corners]
        return np.hstack([*own, *(math.sqrt(INTERACTION) * p for p in both), *corners])

    def mean(self, covariates: Mapping[str, Any]) -> Array:
        """Return the mean of the error (n,) at settings (n,), in units of `mean_sizes`: 0 but in corners."""
        box = self._in_box(logarithms(self.law, covariates) - self.largest)
        return np.asarray(sum((corner.mean * corner.feature(box) for corner in self.corners), np.zeros(len(box))))

    def mean_sizes(self, scale: Array, entropy: Sequence[int]) -> Array:
        """Return draws (S,) of the size of the error of which the mean is a multiple: of scales (S,), as `complete` has it."""
        size = self.sizes_beyond(scale.size, np.random.default_rng(entropy)) if self.exact else scale
        return np.minimum(size, MOST)

    def _in_box(self, x: Array) -> Array:
        """Places (n, axes) in the box around the runs: what lies beyond an axis is counted along that."""
        return np.clip(x, self.smallest - self.largest, 0.0)

    def components(self, covariates: Mapping[str, Any]) -> Array:
        """Return features (n, k) of the combinations that are learnt from the runs."""
        return np.asarray(self.features(covariates)[:, self.inside] @ self.loadings)

    def complete(self, coefficients: Array, scale: Array, entropy: Sequence[int]) -> Array:
        """Return draws of all coefficients, those that are not learnt from the runs from their prior.

        Parameters
        ----------
        coefficients : array (S, k)
            Coefficients of the combinations learnt from the runs, times the scale.
        scale : array (S,)
            `discrepancy`.
        entropy : sequence of int
            Seeds.

        Returns
        -------
        array (all features, S)
        """
        rng, inside = np.random.default_rng(entropy), self.inside
        extra = self.sizes_beyond(scale.size, rng)
        if self.exact:
            return np.asarray(extra * rng.standard_normal((inside.size, scale.size)) * (self.weights * ~inside)[:, None])
        whole = np.hypot(scale, extra) * rng.standard_normal((inside.size, scale.size))
        own = whole[inside]
        own -= self.loadings @ (self.loadings.T @ own)
        left = extra / np.sqrt(1 + self.squares[:, None] / ROW_NOISE) * rng.standard_normal((self.squares.size, scale.size))
        whole[inside] = own + self.loadings @ (coefficients.T + left)
        return np.asarray(whole)


def _with_products(of_axes: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the values of the features of each axis, and their products for those of each pair of axes."""
    return np.concatenate([*of_axes, *(np.outer(a, b).ravel() for a, b in combinations(of_axes, 2))])


def coefficients(
    noise: Noise, observed: Observations, residual: Array, draws: Mapping[str, Array], rng: np.random.Generator
) -> Array:
    """Draw the coefficients of the combinations learnt from the runs, times the discrepancy's scale, given the losses.

    Parameters
    ----------
    noise : Noise with a walk
    observed : Observations
    residual : array (S, n)
        Log loss minus the law's.
    draws : mapping of noise parameter to array (S,)
    rng : Generator

    Returns
    -------
    array (S, k)
    """
    walk = noise.walk
    assert walk is not None
    features, drawn = walk.components(observed.covariates), []
    variance, run = (noise.scales(draws, name)[noise.groups_of(observed)].T for name in ("sigma_point", "sigma_run"))
    omega, first = draws.get("sigma_checkpoint"), np.flatnonzero(np.diff(observed.checkpoint, prepend=-1))
    size = max(1, BLOCK // features.size)
    for at in range(0, len(residual), size):
        some = slice(at, at + size)
        precision = 1 / ((variance[some][:, observed.run] ** 2 + observed.known) * walk.multiple)
        both = np.concatenate([np.broadcast_to(features, (len(precision), *features.shape)), residual[some][..., None]], axis=2)
        weighted = precision[..., None] * both
        of_run, weight = (_sums(v, observed.starts[:-1]) for v in (weighted, precision[..., None]))
        shrunk = 1 + run[some][..., None] ** 2 * weight
        taken = run[some][..., None] ** 2 / shrunk * of_run
        if omega is not None:
            of_checkpoint, mass = (_sums(v / shrunk, first) for v in (of_run, weight))
            share = omega[some][:, None, None] ** 2 / (1 + omega[some][:, None, None] ** 2 * mass)
            taken += (share * of_checkpoint)[:, observed.checkpoint] / shrunk
        whole = features.T @ (weighted - precision[..., None] * taken[:, observed.run])  # F' R^-1 of features and residual
        s = draws["discrepancy"][some][:, None]
        factor = np.linalg.cholesky(np.eye(features.shape[1]) + s[..., None] ** 2 * whole[..., :-1])
        normal = rng.standard_normal((len(precision), features.shape[1]))
        half = np.linalg.solve(factor, (s * whole[..., -1])[..., None])[..., 0]
        drawn.append(s * np.linalg.solve(np.moveaxis(factor, 1, 2), (half + normal)[..., None])[..., 0])
    return np.concatenate(drawn)


def _sums(values: Array, first: Index) -> Array:
    """Return sums of values (S, n, k) over groups of neighbouring rows, of which the first ones are given."""
    return values if first.size == values.shape[1] else np.add.reduceat(values, first, axis=1)
