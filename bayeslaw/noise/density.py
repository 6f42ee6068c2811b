"""The log density of outcomes under each noise, in PyTensor; see `noise`.

The same graph is what is sampled and what the PyMC model holds. PyTensor derives its gradient, but for those of
`filter`, `lowrank` and `counts`, which are written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.data.observations import Observations
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.noise import Noise, kind


@dataclass(frozen=True)
class Rows:
    """Data of the rows as PyTensor vectors, sorted by run.

    Attributes
    ----------
    response, count, run : (n,), (n,) and int (n,)
        A row is the mean of `count` points at one setting, of the run with this code.
    points, scatter : (R,)
        Of each run: the number of its points, and their sum of squares around the means of their rows.
    known : (n,), optional
        Known variances of rows.
    group, checkpoint : int (R,), optional
        Codes of each run's group and checkpoint; for shares of counted items the groups of rows, (n,).
    no_checkpoint : (C,), optional
        Zeros, one for each checkpoint.
    time, starts : (n,) and int (R + 1,), optional
        Clock of the rows and first row of each run, for an OU run effect.
    features, multiple, lost : (k n,), (n,) and (n,), optional
        Features of the rows for a learnt discrepancy, multiples of their variances, and half of what their likelihood's exponent
        is short of 1 (`walk.Walk`).
    squares, matrix, transposed : (k,), (k n,) and (n k,), optional
        Where rows have noise of one scale: by the matrix the errors of the rows become those of k directions. If rows are
        independent, there are no `features`, and the learnt discrepancy has variances of their own in these (`_by_directions`). If
        they share run effects, the directions are within runs, and `features` those of the runs' sums and of these (`_by_runs`).
    summed, place : (R + k,) and int (k,), optional
        How many points each run's sum has, followed by 0 for each direction within runs; and the places of these.
    items : (n,), optional
        Of how many items each response is a share.
    """

    response: Any
    count: Any
    run: Any
    points: Any
    scatter: Any
    known: Any = None
    group: Any = None
    checkpoint: Any = None
    no_checkpoint: Any = None
    time: Any = None
    starts: Any = None
    features: Any = None
    multiple: Any = None
    lost: Any = None
    squares: Any = None
    matrix: Any = None
    transposed: Any = None
    summed: Any = None
    place: Any = None
    items: Any = None


def data_of(noise: Noise, observed: Observations, count: Array | None = None, scatter: Array | None = None) -> dict[str, Any]:
    """The arrays of `Rows` that a noise needs.

    Parameters
    ----------
    noise, observed
    count, scatter : arrays (n,) and (R,), optional
        As in `Rows`; every row is one point unless given.
    """
    count = np.ones(observed.run.size) if count is None else count
    data: dict[str, Any] = {"response": observed.response, "count": count, "run": observed.run}
    data["points"] = np.bincount(observed.run, count, observed.runs)
    data["scatter"] = np.zeros(observed.runs) if scatter is None else scatter
    if observed.se.size:
        data["known"] = observed.known
    if noise.groups:
        data["group"] = noise.row_groups(observed) if noise.counts else noise.groups_of(observed)
    if noise.checkpoint_effect:
        data |= {"checkpoint": observed.checkpoint, "no_checkpoint": np.zeros(len(observed.checkpoint_names))}
    if noise.counts:
        data["items"] = observed.items
    if noise.drift:
        data |= {"time": observed.time, "starts": observed.starts}
    if noise.walk is not None:
        features, multiple = noise.walk.components(observed.covariates), noise.walk.multiple
        data["multiple"] = multiple
        data |= _data_of_walk(noise, observed, features, multiple)
        if noise.walk.information < 1:
            data["lost"] = np.full(observed.run.size, 0.5 * (1 - noise.walk.information))
    return data


def _data_of_walk(noise: Noise, observed: Observations, features: Array, multiple: Array) -> dict[str, Any]:
    """The arrays of `Rows` for a learnt discrepancy with these features (n, k), in the shortest of three ways."""
    of_one_scale = not (noise.checkpoint_effect or noise.groups or observed.se.size)
    if of_one_scale and not noise.run_effect:
        directions, sizes, _ = np.linalg.svd(features / np.sqrt(multiple)[:, None], full_matrices=False)
        matrix = directions.T / np.sqrt(multiple)
        return {"squares": sizes**2, "matrix": matrix.ravel(), "transposed": matrix.T.ravel()}
    if of_one_scale and (multiple == 1).all() and observed.runs + features.shape[1] < observed.run.size:
        points = np.bincount(observed.run)[:, None]
        mean = np.add.reduceat(features, observed.starts[:-1]) / points
        directions, sizes, combinations = np.linalg.svd(features - mean[observed.run], full_matrices=False)
        reduced = np.vstack([np.sqrt(points) * mean, sizes[:, None] * combinations])
        rows, summed = np.arange(len(reduced) + 1), np.append(points.ravel().astype(np.float64), np.zeros(sizes.size))
        turned = {"squares": sizes**2, "matrix": directions.T.ravel(), "transposed": directions.ravel(), "summed": summed}
        of_rows = {"place": rows[observed.runs : -1], "starts": rows, "checkpoint": rows[:-1]}
        return {**turned, **of_rows, "features": reduced.T.ravel()}
    return {"features": features.T.ravel(), "starts": observed.starts, "checkpoint": observed.checkpoint}


def log_density(noise: Noise, rows: Rows, mean: Any, parameters: Mapping[str, Any], effects: Any = None) -> Any:
    """Log density of the rows' responses given the law's and the noise's parameters.

    Parameters
    ----------
    noise, rows
    mean : vector (n,)
        The law's values on the scale of the noise.
    parameters : mapping of name to scalar
    effects : vector (R,), optional
        Run effects in units of their scale, where they are parameters (Student-t noise, counts).
    """
    import pytensor.tensor as pt

    if isinstance(noise, PointNoise):
        return pt.sum(noise.of_points(rows.response - mean, rows.known, parameters))
    if noise.drift:
        return _ornstein_uhlenbeck(noise, rows, mean, parameters)
    point, run = (_by_run(noise, rows, parameters, name) for name in ("sigma_point", "sigma_run"))
    if noise.counts:
        return _counts(rows, mean, point, run, effects)
    if noise.student:
        return _student(rows, mean, point, run, parameters["dof"], effects)
    if noise.walk is not None:
        return _with_discrepancy(rows, mean, point, run, parameters)
    return _normal(noise, rows, mean, point, run, parameters)


def _by_run(noise: Noise, rows: Rows, parameters: Mapping[str, Any], name: str) -> Any:
    """A scale of noise: a vector (R,) where groups of runs differ in it, else one number; None where the noise has none."""
    import pytensor.tensor as pt

    names = [n for n in noise.parameters if kind(n) == name]
    if not names:
        return None
    return pt.stack([parameters[n] for n in names])[rows.group] if len(names) > 1 else parameters[names[0]]


def _of_rows(rows: Rows, by_run: Any) -> Any:
    return by_run[rows.run] if by_run.ndim else by_run


def _totals(zeros: Any, code: Any, values: Any) -> Any:
    """Sums of values over the rows of each run, or over the runs of each checkpoint."""
    import pytensor.tensor as pt

    return pt.inc_subtensor(zeros[code], values)


def _normal(noise: Noise, rows: Rows, mean: Any, point: Any, run: Any, parameters: Mapping[str, Any]) -> Any:
    """Normal noise with all effects integrated out."""
    import pytensor.tensor as pt

    error, zeros, variance = rows.response - mean, pt.zeros_like(rows.points), point**2
    if rows.known is None:
        weight, total = rows.points / variance, _totals(zeros, rows.run, rows.count * error) / variance
        squares = rows.scatter + _totals(zeros, rows.run, rows.count * error**2)
        logp = -0.5 * pt.sum(rows.points * pt.log(2 * math.pi * variance) + squares / variance)
    else:
        whole = _of_rows(rows, variance) + rows.known
        weight, total = _totals(zeros, rows.run, 1 / whole), _totals(zeros, rows.run, error / whole)
        logp = -0.5 * pt.sum(pt.log(2 * math.pi * whole) + error**2 / whole)
    spread = run**2 if run is not None else 0.0
    shrunk = 1 + spread * weight
    logp += 0.5 * pt.sum(spread * total**2 / shrunk - pt.log(shrunk))
    a, b = weight / shrunk, total / shrunk  # a common shift w of a run's points changes logp by b w - a w^2 / 2
    if noise.checkpoint_effect:
        omega = parameters["sigma_checkpoint"] ** 2
        whole_a, whole_b = (_totals(rows.no_checkpoint, rows.checkpoint, v) for v in (a, b))
        shrunk = 1 + omega * whole_a
        logp += 0.5 * pt.sum(omega * whole_b**2 / shrunk - pt.log(shrunk))
    if noise.skew:
        excess = parameters["run_excess"]
        logp += pt.sum(0.5 * pt.log(2 * math.pi / a) - pt.log(excess) + _log_mills((b - 1 / excess) / pt.sqrt(a)))
    return logp


def _log_mills(x: Any) -> Any:
    """x^2/2 + log Phi(x) without overflow."""
    import pytensor.tensor as pt

    low, high = pt.minimum(x, 0.0), pt.maximum(x, 0.0)
    left = pt.log(0.5 * pt.erfcx(-low / math.sqrt(2)))
    return pt.switch(pt.lt(x, 0.0), left, 0.5 * high**2 + pt.log1p(-0.5 * pt.erfc(high / math.sqrt(2))))


def _ornstein_uhlenbeck(noise: Noise, rows: Rows, mean: Any, parameters: Mapping[str, Any]) -> Any:
    """Normal noise with OU run effects, integrated out by a Kalman filter."""
    import pytensor.tensor as pt

    from bayeslaw.noise.filter import KalmanFilter

    variance, spread = (_of_rows(rows, _by_run(noise, rows, parameters, n) ** 2) for n in ("sigma_point", "sigma_run"))
    variance = pt.second(mean, variance) if rows.known is None else variance + rows.known
    return KalmanFilter().density(
        rows.response - mean, variance, pt.second(mean, spread), rows.time, rows.starts, parameters["drift"]
    )


def _with_discrepancy(rows: Rows, mean: Any, point: Any, run: Any, parameters: Mapping[str, Any]) -> Any:
    """Normal noise with all effects and a learnt discrepancy integrated out.

    A normal density to a power below 1 is one of a larger variance, which `multiple` has, times the standard deviation to what the
    power is short of 1.
    """
    import pytensor.tensor as pt

    from bayeslaw.noise.lowrank import LowRank

    variance, scale, error = _of_rows(rows, point**2), parameters["discrepancy"] ** 2, rows.response - mean
    if rows.features is None:
        logp = _by_directions(rows, error, variance, scale)
    elif rows.matrix is not None:
        logp = _by_runs(rows, error, variance, run**2, scale)
    else:
        variance = variance if rows.known is None else variance + rows.known
        spread = pt.second(rows.points, run**2) if run is not None else pt.zeros_like(rows.points)
        omega = parameters["sigma_checkpoint"] ** 2 if "sigma_checkpoint" in parameters else pt.zeros_like(scale)
        multiplied, shared = variance * rows.multiple, (rows.features, rows.starts, rows.checkpoint)
        logp = LowRank().density(error, multiplied, spread, omega, scale, *shared)
    return logp if rows.lost is None else logp + pt.sum(rows.lost * pt.log(variance))


def _by_directions(rows: Rows, error: Any, variance: Any, scale: Any) -> Any:
    """Log density of errors of rows with independent noise of one variance and a learnt discrepancy, integrated out.

    With features F = U S V' of rows divided by the root of `multiple`, errors along U have the variances `variance` + `scale` S^2,
    and what is left of the errors has `variance`.
    """
    import pytensor.tensor as pt

    from bayeslaw.noise.operation import Product

    along: Any = Product()(rows.matrix, rows.transposed, error, rows.squares)
    multiplied, larger = variance * rows.multiple, variance + scale * rows.squares
    logp = pt.sum(pt.log(2 * math.pi * multiplied) + error**2 / multiplied)
    return -0.5 * (logp + pt.sum(pt.log(larger / variance) + along**2 * (1 / larger - 1 / variance)))


def _by_runs(rows: Rows, error: Any, variance: Any, spread: Any, scale: Any) -> Any:
    """Log density of errors of rows with noise of one variance, run effects and a learnt discrepancy, integrated out.

    The rows are turned into the sum of each run over the root of its points n, of variance `variance` + n `spread`, into the
    directions within runs along which features differ, and into the rest, which has no features.
    """
    import pytensor.tensor as pt

    from bayeslaw.noise.lowrank import LowRank
    from bayeslaw.noise.operation import Product

    within: Any = Product()(rows.matrix, rows.transposed, error, rows.squares)
    nothing, none = pt.zeros_like(rows.summed), pt.zeros_like(scale)
    sums = _totals(nothing, rows.run, error) / pt.sqrt(pt.maximum(rows.summed, 1.0))
    turned, variances = sums + _totals(nothing, rows.place, within), variance + rows.summed * spread
    logp = LowRank().density(turned, variances, nothing, none, scale, rows.features, rows.starts, rows.checkpoint)
    left, rest = pt.sum(rows.points) - pt.sum(nothing + 1.0), pt.sum(error**2) - pt.sum(turned**2)
    return logp - 0.5 * (left * pt.log(2 * math.pi * variance) + rest / variance)


def _counts(rows: Rows, mean: Any, point: Any, run: Any, effects: Any) -> Any:
    """Shares of counted items, with run effects as parameters and without their own density."""
    import pytensor.tensor as pt

    from bayeslaw.noise.counts import BetaBinomial

    eta = mean if effects is None else mean + (run * effects)[rows.run]
    return BetaBinomial().density(eta, point if point.ndim else pt.second(mean, point), rows.response, rows.items)


def _student(rows: Rows, mean: Any, point: Any, run: Any, dof: Any, effects: Any) -> Any:
    """Student-t noise, with run effects as parameters and without their own density."""
    import pytensor.tensor as pt

    error, scale = rows.response - mean, _of_rows(rows, point)
    if effects is not None:
        error -= (run * effects)[rows.run]
    if rows.known is not None:
        scale = pt.sqrt(scale**2 + rows.known)
    front = pt.gammaln((dof + 1) / 2) - pt.gammaln(dof / 2) - 0.5 * pt.log(math.pi * dof)
    tails = 0.5 * (dof + 1) * pt.log1p((error / scale) ** 2 / dof)
    return front * pt.sum(rows.points) - pt.sum(pt.log(scale) + tails)
