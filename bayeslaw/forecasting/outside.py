"""How far settings of a forecast lie outside the runs of a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.noise.walk import least, log_product, powers
from bayeslaw.posterior.diagnostics import NEAR, Reach
from bayeslaw.posterior.fit import Fit

# Least distance of a setting that is outside, in e-folds or as a share of the largest value of the runs: values are rounded, as
# is a loss typed with five digits, and areas of a schedule computed from another log.
OUTSIDE = 1e-4
# The same of covariates that the law does not contain, such as the highest rate so far: runs of one schedule whose logs begin at
# different steps differ in it by some tenths of a percent.
OUTSIDE_CONTEXT = 0.01


def outside(fit: Fit, covariates: Mapping[str, Array], runs: Mapping[str, Array] | None = None) -> pd.DataFrame:
    """Return how far settings lie outside the runs of a fit, a column for each covariate; 0 within, and by rounding (`OUTSIDE`).

    Parameters
    ----------
    fit : Fit
    covariates, runs : mapping of covariate to array (n,) and (m,)
        Settings, and fitted rows that count as the runs: by default all.
    """
    table, runs = {}, fit.observed.covariates if runs is None else runs
    for name in fit.law.axes:
        covariate, values, seen = fit.law.covariates[name], covariates[name], runs[name]
        low, high = ends_of_runs(fit.law, name, seen)
        rounding = rounding_of(covariate)
        if covariate.logarithmic:
            values = np.log(np.maximum(values, 1e-300))
            if covariate.context:  # in a phase that has not begun, learning-rate areas are 0
                values = np.where(np.isneginf(low) | (covariates[name] > 0), values, low)
        else:
            rounding *= float(np.abs(seen).max())
        distance = np.maximum(values - high, low - values)
        table[name] = np.where(distance > rounding, distance, 0.0)
    return pd.DataFrame(table)


def rounding_of(covariate: Covariate) -> float:
    """Return the least distance at which values of a covariate lie outside the runs."""
    return OUTSIDE_CONTEXT if covariate.context else OUTSIDE


def ends_of_runs(law: Law, name: str, seen: Array) -> tuple[float, float]:
    """Return the least and the largest value of a covariate of the runs, of its logarithm where it spans decades.

    Where runs begin at 0, as at D = 0, the least logarithm is -inf, since no setting lies below them. Where all are 0, as an area
    of a phase that no run has reached, the largest is that of `walk.least`.

    Parameters
    ----------
    law, name
        The law, and the covariate.
    seen : array (n,)
        Its values at the runs.
    """
    if not law.covariates[name].logarithmic:
        return float(seen.min()), float(seen.max())
    low = math.log(seen.min()) if seen.min() > 0 else -math.inf
    return low, math.log(max(seen.max(), least(law, name)) if low == -math.inf else seen.max())


def beyond_together(
    fit: Fit, covariates: Mapping[str, Array], runs: Mapping[str, Array] | None = None
) -> dict[str, NDArray[np.bool_]]:
    """Return which settings (n,) lie outside the runs in several covariates together, for each of `powers`.

    They lie outside though each covariate may lie inside: no run has been as large in both, or has had so many or so few tokens
    per parameter.

    Parameters
    ----------
    fit, covariates, runs
        As for `outside`.
    """
    return {name: distance > 0 for name, (distance, _) in outside_together(fit, covariates, runs).items()}


def outside_together(
    fit: Fit, covariates: Mapping[str, Array], runs: Mapping[str, Array] | None = None
) -> dict[str, tuple[Array, Reach]]:
    """Return how far settings (n,) lie outside the runs in each of `powers`, in e-folds, and the range of the runs in it.

    Parameters
    ----------
    fit, covariates, runs
        As for `outside`.
    """
    distances = {}
    for name, of in powers(fit.law).items():
        reached, asked = (log_product(fit.law, of, at) for at in (fit.observed.covariates if runs is None else runs, covariates))
        below = min(of.values()) < 0  # a product may be small, as a run of few tokens is
        distances[name] = leaves(asked, reached, below=below), Reach(float(np.ptp(reached)), NEAR[0], logarithmic=True)
    return distances


def leaves(asked: Array, reached: Array, *, below: bool) -> Array:
    """Return by how much logarithms (n,) lie above those that runs have reached, or below them where that counts; 0 by rounding.

    Parameters
    ----------
    asked, reached : arrays (n,) and (m,)
    below : bool
        Whether values below those of all runs lie outside too.
    """
    distance = np.maximum(asked - reached.max(), reached.min() - asked if below else 0.0)
    return np.where(distance > OUTSIDE, distance, 0.0)


def size_and_tokens_outside(runs: Array, asked: Array) -> NDArray[np.bool_]:
    """Return which places (n,) lie outside runs in N, in D, in compute, or in tokens per parameter.

    Unlike `outside` and `beyond_together` it knows no other covariates, which decisions about N and D don't have.

    Parameters
    ----------
    runs, asked : arrays (m, 2) and (n, 2)
        N and D, which are positive: base checkpoints are no runs here.
    """
    (n, d), (runs_n, runs_d) = np.log(asked).T, np.log(runs).T
    within = ((n, runs_n), (d, runs_d), (d - n, runs_d - runs_n))
    away = [leaves(n + d, runs_n + runs_d, below=False), *(leaves(*pair, below=True) for pair in within)]
    return np.asarray(np.any(away, axis=0))


def sizes_and_tokens(fit: Fit | PointFit) -> Array:
    """Return N and D (m, 2) of the fitted rows, each pair once, without base checkpoints."""
    rows = np.stack([fit.observed.covariates[c] for c in ("N", "D")], axis=1)
    return np.unique(rows[(rows > 0).all(axis=1)], axis=0)
