"""Checks of what a fit was made from: what its runs can't tell about the law, and points that are not as independent as assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.data.observations import Observations
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.prior import Support
from bayeslaw.posterior.diagnostics import Check

FEW = 3  # values of a covariate that may be too few for the terms it is in
SLOPE_ROWS = 1000
NULL = 1e-9  # singular value, of the largest, of a direction that no loss tells; found: below 4e-13, or above 3e-6
ALARM = 0.01  # share of independent tables that are called correlated
AVERAGED = 50  # draws over which the law's log loss is averaged for residuals
WIDTH = 1.1  # widths that are wrong by less are not worth a warning


# --- what the runs can't tell ---------------------------------------------------------------------------------------


def unidentifiable(law: Law, values: Mapping[str, float], covariates: Mapping[str, NDArray[np.float64]]) -> frozenset[str]:
    """Parameters that can change together, near the given values, without changing the loss at any setting.

    They are those with a part in the null space of the losses' derivatives. Two of three parameters that only act together
    are enough to be told apart from the rest: all three are named.

    Parameters
    ----------
    values : mapping of parameter to float
    covariates : mapping of covariate to array (n,)
    """
    names = list(law.parameters)
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    slopes = []
    for name in names:
        step = 1e-3 * _scale(law.parameters[name].prior.support, values[name])
        moved = {k: np.full(4, v) for k, v in values.items()}
        moved[name] = moved[name] + steps * step
        slopes.append(np.array([1.0, -8.0, 8.0, -1.0]) @ law.predict(moved, covariates))
    matrix = np.stack(slopes, axis=1)
    matrix = matrix[np.isfinite(matrix).all(axis=1)]
    if not matrix.size:
        return frozenset()
    size = np.linalg.norm(matrix, axis=0)
    matrix = matrix / np.where(size > 0, size, 1.0)
    _, singular, directions = np.linalg.svd(matrix, full_matrices=matrix.shape[0] < matrix.shape[1])
    told = int((singular > NULL * singular.max()).sum())
    part = np.sqrt((directions[told:] ** 2).sum(axis=0))
    return frozenset(name for name, p in zip(names, part, strict=True) if p > 0.01)


def _scale(support: Support, value: float) -> float:
    """How far a parameter may be moved at all: to the end of its support."""
    return {"positive": abs(value), "unit": min(value, 1 - value), "real": max(abs(value), 1e-3)}[support] or 1e-3


def _more(covariate: Covariate, seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of a covariate that runs might have had besides."""
    low, high = covariate.support
    if not covariate.logarithmic:
        return low + (high - low) * np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    positive = seen[seen > 0]
    middle = float(np.exp(np.log(positive).mean())) if positive.size else 1.0
    return np.clip(middle * np.exp(np.linspace(-2, 2, 5)), max(low, 1e-300), high)


def lack_check(law: Law, observed: Observations, values: Mapping[str, float]) -> Check:
    """Which covariates have so few values in the runs that parameters of the law can't be told, and which parameters.

    A parameter is named if it can be traded for others without changing the loss at any setting of the runs, but could not if
    the runs had more values of that one covariate. Covariates with one value are always named.

    Parameters
    ----------
    values : mapping of parameter to float
        Where derivatives are taken, such as posterior medians.
    """
    settings = pd.DataFrame(dict(observed.covariates)).drop_duplicates()
    count = {name: int(settings[name].nunique()) for name in law.axes}
    few = [name for name in law.axes if count[name] <= FEW]
    if len(settings) > SLOPE_ROWS:  # some at random, and one for each value of what has few
        ends = [settings.drop_duplicates(name) for name in few]
        settings = pd.concat([settings.sample(SLOPE_ROWS, random_state=0), *ends]).drop_duplicates()
    lost = unidentifiable(law, values, _columns(law, settings)) if few else frozenset()
    found, table, left = [], {}, lost
    for name in few:
        more = [settings.assign(**{name: v}) for v in _more(law.covariates[name], observed.covariates[name])]
        named = lost - unidentifiable(law, values, _columns(law, pd.concat([settings, *more]))) if lost else lost
        left -= named
        parameters = ", ".join(p for p in law.parameters if p in named)
        table[name] = {"values": count[name], "parameters": parameters}
        shown = ", ".join(f"{v:g}" for v in np.unique(observed.covariates[name]))
        if count[name] == 1:
            what = f"{parameters} can't be learnt" if parameters else "the runs can't show how it matters"
            found.append(f"{name} has one value ({shown}): {what}, and forecasts at another rest on priors alone")
        elif parameters:
            what = f"{parameters} can't be told apart, and forecasts at others lean on priors"
            found.append(f"{name} has {count[name]} values ({shown}): {what}")
    if found and left:
        found.append(f"{', '.join(p for p in law.parameters if p in left)} can't be told either")
    text = "; ".join(found) or f"the runs have enough different values of {', '.join(law.axes)} to tell all parameters apart"
    frame = pd.DataFrame(table, index=["values", "parameters"]).T if table else pd.DataFrame({"values": [], "parameters": []})
    return Check("values", not found, text, False, frame)


def _columns(law: Law, settings: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    return {name: settings[name].to_numpy(dtype=np.float64) for name in law.covariates}


# --- points in common luck ------------------------------------------------------------------------------------------


def independence_check(law: Law, observed: Observations, draws: Mapping[str, NDArray[np.float64]]) -> Check | None:
    """Whether residuals of a fit without a run effect are alike within runs; None where there is nothing to compare.

    In a table without runs, those rows may be of one run that share all covariates but D.

    Parameters
    ----------
    draws : mapping of parameter to array (chains, draws)
    """
    group, others = observed.run, [name for name in law.covariates if name != "D"]
    sharing, suggestion = "of one run", "fit noise with a run effect"
    unnamed = observed.run_names == tuple(f"row {row}" for row in observed.rows)
    if unnamed and others:
        columns = np.stack([observed.covariates[name] for name in others])
        group = np.unique(columns, axis=1, return_inverse=True)[1].ravel()
        sharing, suggestion = f"at one {', '.join(others)}", "name the runs in a column `run`, for noise with a run effect"
    return correlation_check(residuals(law, observed, draws), group, len(law.parameters), sharing, suggestion)


def checkpoint_correlation_check(law: Law, observed: Observations, draws: Mapping[str, NDArray[np.float64]]) -> Check | None:
    """Whether mean residuals of runs that share a checkpoint are alike, under noise that gives each run a luck of its own.

    None where no runs share a checkpoint, or too few to tell.

    Parameters
    ----------
    draws : mapping of parameter to array (chains, draws)
    """
    if not observed.branched:
        return None
    means = np.bincount(observed.run, residuals(law, observed, draws)) / np.bincount(observed.run)
    return correlation_check(
        means,
        observed.checkpoint,
        len(law.parameters),
        "of one checkpoint",
        "noise normal-checkpoint",
        "intra_class_correlation",
        ("runs", "a checkpoint"),
    )


def residuals(law: Law, observed: Observations, draws: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Log losses less the posterior mean of the law's, (n,): of some draws, one at a time, for large tables."""
    some = {name: draws[name].ravel()[:: max(1, draws[name].size // AVERAGED)] for name in law.parameters}
    count = next(iter(some.values())).size
    total = np.zeros_like(observed.log_loss)
    for i in range(count):
        total += np.log(law.predict({name: values[i : i + 1] for name, values in some.items()}, observed.covariates)[0])
    return observed.log_loss - total / count


def intra_class_correlation(residual: NDArray[np.float64], group: NDArray[np.int64], fitted: int) -> tuple[float, float, float]:
    """Whether residuals of a group are alike: one-way analysis of variance of their normal scores.

    Ranks are turned into normal scores first (van der Waerden), so heavy tails don't matter. The statistic is F = between /
    within mean square, against Fisher's distribution with G - 1 and n - G - p degrees of freedom. What the p fitted parameters
    take is counted as taken within groups, wherever it was: among independent residuals F is as large or smaller, so false
    alarms are as many as stated or fewer.

    Parameters
    ----------
    residual : array (n,)
    group : int array (n,)
        Codes 0 … G-1.
    fitted : int
        Number of fitted parameters p.

    Returns
    -------
    correlation : float
        Intra-class correlation, between -1 and 1; not a number where there is one group or too few values in them.
    p : float
        Chance of as large an F among independent residuals.
    widening : float
        By how much the standard error of what a group has in common exceeds the one claimed when its values are taken as
        independent: sqrt(1 + (k - 1) correlation) with k the size of the group of a typical value.
    """
    from scipy.special import ndtri
    from scipy.stats import f, rankdata

    n, count = residual.size, np.bincount(group).astype(np.float64)
    groups = count.size
    left = n - groups - fitted
    if groups < 2 or left < 1:
        return math.nan, 1.0, 1.0
    scores = ndtri((rankdata(residual) - 0.375) / (n + 0.25))
    means = np.bincount(group, scores) / count
    between = float((count * (means - scores.mean()) ** 2).sum()) / (groups - 1)
    within = float(((scores - means[group]) ** 2).sum()) / left
    typical = float((count**2).sum()) / n
    effective = (n - typical) / (groups - 1)
    correlation = (between - within) / (between + (effective - 1) * within) if between + within > 0 else 0.0
    p = float(f.sf(between / within, groups - 1, left)) if within > 0 else 0.0
    return correlation, p, math.sqrt(max(1 + (typical - 1) * correlation, 0.0))


def correlation_check(
    residual: NDArray[np.float64],
    group: NDArray[np.int64],
    fitted: int,
    sharing: str,
    suggestion: str,
    name: str = "independence",
    of: tuple[str, str] = ("points", "a run"),
) -> Check | None:
    """Whether residuals that a fit took as independent are alike within groups; None where there is nothing to compare.

    Parameters
    ----------
    residual : array (n,)
        Log loss minus the law's, by posterior means.
    group : int array (n,)
        Codes of the rows' groups.
    fitted : int
        Number of the law's parameters.
    sharing, suggestion : str
        What rows of a group share, such as 'of one run', and what to do where they are alike.
    name : str
        Of the check.
    of : (str, str)
        What the residuals are of, and whose luck they may share.
    """
    correlation, p, widening = intra_class_correlation(residual, group, fitted)
    if math.isnan(correlation):
        return None
    passed = p >= ALARM or widening < WIDTH
    text = f"residuals of {of[0]} {sharing} correlate by {correlation:.2f} (p = {p:.1g})"
    if passed:
        text += ", as independent ones may" if p >= ALARM else ", too little to matter"
    else:
        text += (
            f", and this noise takes them as independent: intervals may be {widening:.1f} times too narrow. "
            f"Either they share the luck of {of[1]} ({suggestion}) or the law misses something between them"
        )
    numbers = pd.DataFrame({"correlation": [correlation], "p": [p], "widening": [widening]})
    return Check(name, passed, text, False, numbers)
