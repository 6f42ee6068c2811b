"""How far settings of a forecast lie outside the runs of a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.laws.law import Law
from bayeslaw.noise.walk import directions
from bayeslaw.posterior.fit import Fit

# Least distance of a setting that is outside, in e-folds or as a share of the largest value of the runs: values are rounded, as
# is a loss typed with five digits, and areas of a schedule computed from another log.
OUTSIDE = 1e-4
SIZES = ("N", "D", "ptpp")  # covariates whose product grows with compute


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


def beyond_product(fit: Fit, covariates: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Return which settings (n,) exceed all runs in the product of size and tokens, which is compute, or of size and stage.

    They lie outside the runs though each covariate may lie inside: no run has been as large in both.
    """
    if not factors(fit.law):
        return np.zeros(np.size(next(iter(covariates.values()))), dtype=bool)
    reached, asked = (log_product(fit.law, at) for at in (fit.observed.covariates, covariates))
    return np.asarray(asked > reached.max() + OUTSIDE)


def factors(law: Law) -> list[str]:
    """Return the covariates of that product, N and D or N and ptpp; empty for a law without two.

    Others, such as a learning rate or the bits of weights, are no factors: a run with less of them is not smaller.
    """
    names = [name for name in directions(law) if name in SIZES]
    return names if len(names) > 1 else []


def log_product(law: Law, covariates: Mapping[str, Array]) -> Array:
    """Return the logarithm (n,) of that product; D = 0 counts as one token."""
    names = factors(law)
    return np.asarray(np.sum([np.log(np.maximum(covariates[a], law.covariates[a].support[0] or 1.0)) for a in names], axis=0))
