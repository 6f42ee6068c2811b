"""How far settings of a forecast lie outside the runs of a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.laws.law import Law
from bayeslaw.noise.walk import directions, least
from bayeslaw.posterior.fit import Fit

# Least distance of a setting that is outside, in e-folds or as a share of the largest value of the runs: values are rounded, as
# is a loss typed with five digits, and areas of a schedule computed from another log.
OUTSIDE = 1e-4
SIZES = ("N", "D", "ptpp")  # covariates that are large or small together


def outside(fit: Fit, covariates: Mapping[str, Array]) -> pd.DataFrame:
    """Return how far settings lie outside the runs of a fit, a column for each covariate; 0 within, and by rounding (`OUTSIDE`)."""
    table = {}
    for name in fit.law.axes:
        values, seen = covariates[name], fit.observed.covariates[name]
        low = float(seen.min())
        if fit.law.covariates[name].logarithmic:
            # Where runs begin at D = 0, no setting lies below them.
            low = -math.inf if low <= 0 else math.log(low)
            values = np.log(np.maximum(values, 1e-300))
            if fit.law.covariates[name].context:  # in a phase that has not begun, learning-rate areas are 0
                values = np.where(np.isneginf(low) | (covariates[name] > 0), values, low)
            seen = np.log(seen[seen > 0])
        distance = np.maximum(values - seen.max(), low - values)
        rounding = OUTSIDE * (1.0 if fit.law.covariates[name].logarithmic else float(np.abs(seen).max()))
        table[name] = np.where(distance > rounding, distance, 0.0)
    return pd.DataFrame(table)


def beyond_together(fit: Fit, covariates: Mapping[str, Array]) -> dict[str, NDArray[np.bool_]]:
    """Return which settings (n,) lie outside the runs in several covariates together, for each of `powers`.

    They lie outside though each covariate may lie inside: no run has been as large in both, or has had so many or so few tokens
    per parameter.
    """
    beyond = {}
    for name, of in powers(fit.law).items():
        reached, asked = (log_together(fit.law, of, at) for at in (fit.observed.covariates, covariates))
        beyond[name] = leaves(asked, reached, below=min(of.values()) < 0)  # a product may be small, as a run of few tokens is
    return beyond


def leaves(asked: Array, reached: Array, *, below: bool) -> NDArray[np.bool_]:
    """Return which logarithms (n,) lie above those that runs have reached, or below them where that counts, by more than rounding.

    Parameters
    ----------
    asked, reached : arrays (n,) and (m,)
    below : bool
        Whether values below those of all runs lie outside too.
    """
    away = np.asarray(asked > reached.max() + OUTSIDE)
    return away | (asked < reached.min() - OUTSIDE) if below else away


def powers(law: Law) -> dict[str, dict[str, int]]:
    """Return the powers of covariates in compute, N x D, and in tokens per parameter, D / N, or in N x ptpp, by these names.

    Others, such as a learning rate or the bits of weights, have no part: a run with less of them is not smaller. A law with ptpp
    has no error along the tokens of an adaptation.
    """
    names = [name for name in directions(law) if name in SIZES]
    if len(names) < 2:
        return {}
    product = {" x ".join(names): dict.fromkeys(names, 1)}
    return product | ({"D / N": {"D": 1, "N": -1}} if {*names} == {"N", "D"} else {})


def log_together(law: Law, of: Mapping[str, int], covariates: Mapping[str, Array]) -> Array:
    """Return the logarithm (n,) of a product of powers; D = 0 counts as one token.

    Parameters
    ----------
    law, of, covariates
        The law, the power of each factor, as `powers` has them, and arrays (n,).
    """
    return np.asarray(np.sum([power * np.log(np.maximum(covariates[a], least(law, a))) for a, power in of.items()], axis=0))
