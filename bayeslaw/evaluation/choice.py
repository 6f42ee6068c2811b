"""Weights of laws for forecasts at given targets: by forecasts of held-out rows that lie as far outside the fitted ones.

`direction_of_targets` finds the direction in which targets leave the runs, and how far. Laws then forecast rows beyond several
cuts along it (`evaluation.backtest`), and `weights` minimises the error of the weighted forecasts, shrunk towards equal weights:

    n log CRPS(w) - PRIOR mean(log w)

CRPS(w) is that of the weighted predictive distributions, relative to the losses and averaged over the held-out rows. Rows about as
far beyond their cut as the targets beyond the runs count most (`nearness`), and n is the number of independent hold-outs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import softmax

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import Fault, TableError
from bayeslaw.core.text import significant
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import base_rows, check, complete
from bayeslaw.evaluation.direction import DIRECTIONS, IN_WORDS, LEAST_VALUES, direction, group_ends
from bayeslaw.evaluation.scores import mean_distance
from bayeslaw.forecasting.forecast import Forecast
from bayeslaw.forecasting.grid import Settings, read_settings
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.outcome import LOSS, Outcome

CUTS = 5
# Hold-outs that equal weights count as: of equally good laws, the best at two or three gets less than .92 in 99% of cases.
PRIOR = 1.0
OFFSET, WIDTH = 0.3, 0.7  # of `nearness`: a row half or twice as far beyond its cut as a far target counts about .6
KEPT = 200  # quantiles of each forecast that are kept
ROUNDING = 1e-9  # e-folds by which logarithms of equal values may differ


# --- targets ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TargetDirection:
    """Where targets lie, seen from the runs.

    Attributes
    ----------
    by : str
        The direction in which they leave the runs; empty where all lie inside, or leave them only where no backtest goes.
    reach : array
        Distances (e-folds) beyond the runs of the targets that leave them in this direction.
    count : int
        Number of all targets.
    elsewhere : tuple of str
        Other covariates in which targets lie outside the runs, with distances, such as 'r by 0.2'.
    flops : bool
        Whether runs and targets both have logged FLOPs, which compute is then measured by.
    known : bool
        Whether there are later rows of the runs among the targets; held-out rows are then forecast as such too.
    """

    by: str
    reach: Array
    count: int
    elsewhere: tuple[str, ...]
    flops: bool
    known: bool

    @property
    def text(self) -> str:
        """The direction and the distances in words, and what hold-outs along it say nothing about."""
        also = ", ".join(self.elsewhere)
        if not self.by:
            where = f"leave the runs only in {also}, where no backtest goes" if also else "lie inside the runs"
            return f"All targets {where}: laws are judged by leaving one run out after the other, which judges interpolation."
        far = f"{self.reach.size} of {self.count} targets lie beyond the runs, up to {significant(self.reach.max(), 2)} e-folds"
        rest = f" Targets leave the runs also in {also}: hold-outs say nothing about that." if also else ""
        return f"{far} of {IN_WORDS.get(self.by, self.by)}: laws are judged by forecasts beyond cuts along it.{rest}"

    def along(self, runs: Runs) -> pd.Series:
        """Return the value of each row of a table in the direction, as `direction`."""
        return _along(runs, self.by, flops=self.flops)


def _along(runs: Runs, by: str, *, flops: bool) -> pd.Series:
    """Return the value of each row in a direction; with `flops` compute is as logged, else 6 N D."""
    return direction(runs if flops else replace(runs, frame=runs.frame.drop(columns="flops", errors="ignore")), by)


def targets_of(at: Settings, laws: Sequence[Law]) -> Runs:
    """Return the table of targets, checked for every law.

    Parameters
    ----------
    at : Runs, DataFrame, path or mapping
        A table of settings, or values of the covariates of all laws as for `bayeslaw.grid`.
    laws : sequence of Law
    """
    targets = read_settings(laws, at)
    faults = [fault for law in laws for fault in check(targets, law, purpose="forecast")]
    at_base = {law.name: base_rows(targets.frame, law) for law in laws}
    infinite = ", ".join(name for name, rows in at_base.items() if rows.any())
    what = ("D", "0", f"D = 0 is the base checkpoint, which {infinite} can't describe", "ask for D > 0", "infinite-at-base")
    faults += [Fault(int(row), *what) for row in targets.frame.index[np.any([*at_base.values()], axis=0)]]
    if faults:
        first = {(fault.row, fault.column, fault.code): fault for fault in reversed(faults)}  # several laws find the same
        raise TableError([*reversed(first.values())], targets.name)
    return targets


def direction_of_targets(runs: Runs, targets: Runs, laws: Sequence[Law]) -> TargetDirection:
    """Find the direction in which targets leave the runs, and how far.

    It is compute if N times D exceeds that of all runs, else N or D, or where the laws have PTPP or steps and more e-folds of them
    are asked for, these. Directions of which the runs have fewer than three values, as two stages of pre-training, are passed over
    where there is another, since no backtest goes along them.

    Parameters
    ----------
    runs, targets, laws
        `runs` are the rows that every law describes.
    """
    axes = {name: covariate for law in laws for name, covariate in law.axes.items()}
    flops, named = (all(column in table.frame for table in (runs, targets)) for column in ("flops", "run"))
    known = named and bool(targets.frame["run"].dropna().isin(runs.frame["run"]).any())
    distances = {name: _distances(runs, targets, name, axes[name], laws) for name in axes}
    beyond = {name: above for name, (above, _) in distances.items() if name in DIRECTIONS and axes[name].logarithmic}
    if {"N", "D"} <= axes.keys():
        with np.errstate(divide="ignore"):
            reached = np.log(_along(runs, "compute", flops=flops).max())
            compute = np.log(_along(targets, "compute", flops=flops).to_numpy()) - reached
        if compute.max() > ROUNDING:
            beyond = {name: above for name, above in beyond.items() if name not in ("N", "D")} | {"compute": compute}
    outward = sorted((name for name in beyond if beyond[name].max() > ROUNDING), key=lambda name: -beyond[name].max())
    possible = [name for name in outward if len(group_ends(_along(runs, name, flops=flops).to_numpy())) >= LEAST_VALUES]
    by = next(iter([*possible, *outward]), "")
    reach = beyond[by][beyond[by] > ROUNDING] if by else np.zeros(0)
    covered = ("N", "D") if by == "compute" else (by,)
    elsewhere = []
    for name, (above, below) in distances.items():
        if (far := np.maximum(below, 0 if name in covered else above).max()) > ROUNDING:
            elsewhere.append(f"{name} by {significant(far, 2)}{' e-folds' * axes[name].logarithmic}")
    return TargetDirection(by, reach, len(targets.frame), tuple(elsewhere), flops, known)


def _distances(runs: Runs, targets: Runs, name: str, covariate: Covariate, laws: Sequence[Law]) -> tuple[Array, Array]:
    """Return how far targets lie above and below the runs in a covariate, arrays (n,), in e-folds or in its unit."""
    law = next(law for law in laws if name in law.covariates)
    seen, asked = (complete(table.frame, law)[name].to_numpy(dtype=np.float64) for table in (runs, targets))
    if covariate.logarithmic:  # no target lies below runs at 0
        seen, asked = (np.log(np.maximum(values, 1e-300)) for values in (seen, asked))
    return asked - np.nanmax(seen), np.nanmin(seen) - asked


# --- held-out rows ---------------------------------------------------------------------------------------------------


def quantiles_of(predicted: Forecast, frame: pd.DataFrame) -> pd.DataFrame:
    """Return evenly spaced quantiles of what a forecast says of a table's losses, with its spread among the attributes.

    Parameters
    ----------
    predicted, frame : Forecast and DataFrame
        A forecast of the rows of a table.

    Returns
    -------
    DataFrame (n, 2 KEPT)
        Under `reported` quantiles of the spread to report, and under `exact` of that without the error of the law.
    """
    at = (np.arange(KEPT) + 0.5) / KEPT
    both = {"reported": predicted, "exact": replace(predicted, beyond=())}
    quantiles = {name: pd.DataFrame(np.quantile(each.predictive, at, axis=0).T, frame.index) for name, each in both.items()}
    table = pd.concat(quantiles, axis="columns")
    table.attrs["spread"] = predicted.spread
    return table


def nearness(reach: Array, asked: Array) -> Array:
    """Return how much held-out rows (n,) count by their distance beyond the cut, 1 for those most like the targets.

    It is a normal kernel in log(distance + OFFSET), averaged over targets; those beyond the farthest row count as being there.
    """
    at = np.log(np.minimum(asked, reach.max()) + OFFSET)
    near = np.exp(-0.5 * ((np.log(reach + OFFSET)[:, None] - at) / WIDTH) ** 2).mean(axis=1)
    return np.asarray(near / near.max())


def groups_of(values: Array) -> Index:
    """Return the group of each value (n,) in a direction: values that a backtest does not cut between."""
    return np.searchsorted(group_ends(values), values).astype(np.int64)


def hold_outs(rows: pd.DataFrame) -> float:
    """Return the number of independent hold-outs among forecasts, the rows of a table with cut, group, run and near.

    Forecasts from one cut err together, those of one group of values err together, and so do those of one run. So we count each
    cut once, each group once and each run once, by its nearest forecast, and take the least of the three sums.
    """
    return min(float(rows.groupby(name)["near"].max().sum()) for name in ("cut", "group", "run"))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Forecasts of held-out rows by every law.

    Attributes
    ----------
    rows : DataFrame
        One row for each forecast: cut, row, run, group, reach, loss (or another outcome) and near, see `nearness`.
    quantiles : mapping of law to array (n, KEPT)
    outcome : Outcome
    exact : mapping of law to array (n, KEPT)
        As `quantiles`, without the errors of the laws.
    """

    rows: pd.DataFrame
    quantiles: Mapping[str, Array]
    outcome: Outcome = LOSS
    exact: Mapping[str, Array] = field(default_factory=dict)

    @cached_property
    def crps(self) -> tuple[Array, Array]:
        """The terms of the CRPS, as `crps_terms`."""
        loss = self.rows[self.outcome.name].to_numpy(dtype=np.float64)
        return crps_terms(loss, list(self.quantiles.values()), None if self.outcome.relative else np.ones_like(loss))

    @property
    def counts(self) -> Array:
        """Weight (n,) of each forecast: its nearness, shared by the forecasts of one group from one cut; they add up to 1."""
        near = self.rows["near"] / self.rows.groupby(["cut", "group"])["row"].transform("size")
        return np.asarray(near / near.sum())

    @property
    def relative(self) -> pd.DataFrame:
        """CRPS of every forecast, over a positive outcome such as a loss: rows (n,), a column for each law."""
        linear, quadratic = self.crps
        own: Array = linear - np.diagonal(quadratic, axis1=1, axis2=2).T / 2
        return pd.DataFrame(own.T, columns=list(self.quantiles), index=self.rows.index)

    @property
    def errors(self) -> pd.DataFrame:
        """Mean CRPS of each law (rows), as `relative`, by how much it exceeds the least, and the standard error of this excess.

        The standard error is that of a weighted mean over runs, whose forecasts err together.
        """
        relative, counts = self.relative, self.counts
        error = pd.Series(counts @ relative.to_numpy(), relative.columns)
        excess = relative.sub(relative[error.idxmin()], axis=0)
        apart = excess.sub(error - error.min()).mul(counts, axis=0).groupby(self.rows["run"]).sum()
        dse = np.sqrt((apart**2).sum() * len(apart) / (len(apart) - 1)) if len(apart) > 1 else np.nan
        return pd.DataFrame({"crps": error, "crps_diff": error - error.min(), "dse": dse})

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the laws, by `shrunk_weights`."""
        linear, quadratic = self.crps
        shrunk = shrunk_weights(linear @ self.counts, quadratic.transpose(1, 2, 0) @ self.counts, hold_outs(self.rows))
        return dict(zip(self.quantiles, shrunk.tolist(), strict=True))

    def stacked(self, weights: Mapping[str, float], *, in_part: bool = False) -> Array:
        """Return some 1,000 draws (draws, n) of the weighted forecasts.

        With `in_part` what the laws differ by at a row is a part of their errors. Forecasts of a stack of such laws take what they
        differ by an e-fold beyond the runs instead (`forecasting.stack.rest_of_errors`).
        """
        parts, rest = [], self._rest(weights)[:, None] if in_part else None
        for name, weight in weights.items():
            count = round(1000 * weight)
            some = ((np.arange(count) + 0.5) / count * KEPT).astype(np.int64)
            whole = self.quantiles[name][:, some]
            if rest is not None:
                exact = self.exact[name][:, some]
                whole = exact + rest * (whole - exact)
            parts.append(whole)
        return np.hstack(parts).T

    def _rest(self, weights: Mapping[str, float]) -> Array:
        """Return the share (n,) of the laws' errors that remains when what they differ by at each row is taken from it."""
        share = [*weights.values()]
        scaled = self.outcome.to_scale
        medians = scaled(np.array([np.median(self.exact[name], axis=1) for name in weights]))
        differ = np.average((medians - np.average(medians, axis=0, weights=share)) ** 2, axis=0, weights=share)
        added = [scaled(self.quantiles[name]).var(axis=1) - scaled(self.exact[name]).var(axis=1) for name in weights]
        size = np.maximum(np.average(added, axis=0, weights=share), 1e-12)
        return np.asarray(np.sqrt(np.maximum(0.0, 1 - differ / size)))


def crps_terms(loss: Array, forecasts: Sequence[Array], unit: Array | None = None) -> tuple[Array, Array]:
    """Return terms of the relative CRPS of weighted forecasts, which is w'a - w'Bw/2.

    Parameters
    ----------
    loss : array (n,)
    forecasts : sequence of K arrays (n, S)
        Draws or evenly spaced quantiles.
    unit : array (n,), optional
        What errors are relative to, by default the losses themselves.

    Returns
    -------
    array (K, n), array (n, K, K)
        Mean distances of a law's draws to the loss, and of draws of two laws to each other, over the loss.
    """
    unit = loss if unit is None else unit
    drawn = [draws / unit[:, None] for draws in forecasts]
    linear = np.array([np.abs(draws - (loss / unit)[:, None]).mean(axis=1) for draws in drawn])
    own = [mean_distance(draws.T) for draws in drawn]
    quadratic = np.empty((loss.size, len(drawn), len(drawn)))
    for i, first in enumerate(drawn):
        for j, second in enumerate(drawn[: i + 1]):
            # Draws of two laws together have the mean distance (own_i + own_j + 2 B_ij) / 4.
            both = own[i] if i == j else 2 * mean_distance(np.hstack([first, second]).T) - (own[i] + own[j]) / 2
            quadratic[:, i, j] = quadratic[:, j, i] = both
    return linear, quadratic


def shrunk_weights(linear: Array, quadratic: Array, count: float) -> Array:
    """Return the weights (K,) that minimise count log(w'a - w'Bw/2) - PRIOR mean(log w); see the module.

    Parameters
    ----------
    linear, quadratic : array (K,), array (K, K)
        Means of `crps_terms` over the held-out rows.
    count : float
        Number of independent hold-outs.
    """

    def objective(x: Array) -> float:
        weights = softmax(x)
        error = linear @ weights - weights @ quadratic @ weights / 2
        return float(count * np.log(max(error, 1e-300)) - PRIOR * np.log(weights).mean())

    size = linear.size
    starts = [np.zeros(size), *(2.0 * np.eye(size))]  # the error is convex in w, its logarithm need not be
    best = min((minimize(objective, start, method="BFGS") for start in starts), key=lambda optimum: optimum.fun)
    return np.asarray(softmax(best.x))


def floor_note(weights: Mapping[str, float], laws: Mapping[str, Law], errors: Mapping[str, float], reach: float) -> str:
    """Say that a law without a floor has most of the weight beyond the runs, and why; '' if none has.

    Parameters
    ----------
    weights, laws, errors : by name
        `errors` are mean relative CRPS of held-out rows.
    reach : float
        The largest distance of these beyond a cut.
    """
    without = [name for name in weights if not laws[name].floors]
    share = sum(weights[name] for name in without)
    if share <= 0.5:
        return ""
    others = [name for name in weights if name not in without]
    best = min(others, key=errors.__getitem__, default="")
    why = f"{best}, the best law with one, has {errors[best]:.2%}" if best else "no law with one could be judged"
    shown = ", ".join(f"{name} ({errors[name]:.2%})" for name in without)
    return (
        f"{shown} has {share:.0%} of the weight and no floor: far beyond the runs its loss falls below any entropy of text. "
        f"It has the weight since its relative CRPS at held-out rows is low ({why}), and these lie at most "
        f"{significant(reach, 2)} e-folds beyond a cut; farther out, use a law with a floor."
    )
