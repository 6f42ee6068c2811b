"""Checks of a fit's data: parameters that the runs can't identify, and residuals that are correlated within runs or checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.data.observations import Observations
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.prior import Prior
from bayeslaw.posterior.diagnostics import Check

FEW = 3  # number of values of a covariate that may be too few for the terms it is in
SLOPE_ROWS = 1000  # settings at which derivatives are taken
NULL = 1e-9  # singular value of a null direction relative to the largest; measured ones lie below 4e-13 or above 3e-6
ALARM = 0.01  # share of independent tables that are reported as correlated
WEAK = 0.05  # below it, correlated residuals are weak evidence, and no reassurance
AVERAGED = 50  # draws over which the law's log loss is averaged for residuals
CURVE = 3  # rows in which D rises, on average, from which on they are curves; in rows of any order it rises in two
WIDTH = 1.1  # intervals that are too narrow by a smaller factor are not worth a warning


# --- parameters that the runs can't identify ------------------------------------------------------------------------


def unidentifiable(law: Law, values: Mapping[str, float], covariates: Mapping[str, Array]) -> frozenset[str]:
    """Return the parameters that can change together, near the given values, without changing the loss at any setting.

    They are the parameters with a component in the null space of the losses' derivatives. If three parameters act only through
    two combinations of them, all three are returned.

    Parameters
    ----------
    law : Law
    values : mapping of parameter to float
    covariates : mapping of covariate to array (n,)
    """
    names = list(law.parameters)
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    slopes = []
    for name in names:
        step = 1e-3 * _scale(law.parameters[name].prior, values[name])
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
    rank = int((singular > NULL * singular.max()).sum())
    components = np.sqrt((directions[rank:] ** 2).sum(axis=0))
    return frozenset(name for name, size in zip(names, components, strict=True) if size > 0.01)


def _scale(prior: Prior, value: float) -> float:
    """Return the scale of a parameter's step: the distance to the end of its support."""
    low, high = prior.bounds
    return (max(abs(value), 1e-3) if prior.support == "real" else min(value - low, high - value)) or 1e-3


def _further_values(covariate: Covariate, seen: Array) -> Array:
    """Return values of a covariate that runs might have had too."""
    low, high = covariate.support
    if not covariate.logarithmic:
        return low + (high - low) * np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    positive = seen[seen > 0]
    middle = float(np.exp(np.log(positive).mean())) if positive.size else 1.0
    return np.clip(middle * np.exp(np.linspace(-2, 2, 5)), max(low, 1e-300), high)


def lack_check(law: Law, observed: Observations, values: Mapping[str, float]) -> Check:
    """Check that every covariate has enough values in the runs to identify the law's parameters.

    A parameter is named for a covariate if it can change together with others without changing the loss at any setting of the
    runs, but could not if the runs had more values of that one covariate. Covariates with one value are always named.

    Parameters
    ----------
    law : Law
    observed : Observations
    values : mapping of parameter to float
        Where derivatives are taken, such as posterior medians.
    """
    settings = pd.DataFrame(dict(observed.covariates)).drop_duplicates()
    count = {name: int(settings[name].nunique()) for name in law.axes}
    few = [name for name in law.axes if count[name] <= FEW and not law.covariates[name].context]
    if len(settings) > SLOPE_ROWS:  # some at random, and one for each value of the covariates with few values
        ends = [settings.drop_duplicates(name) for name in few]
        settings = pd.concat([settings.sample(SLOPE_ROWS, random_state=0), *ends]).drop_duplicates()

    def lost_at(settings: pd.DataFrame) -> frozenset[str]:
        return unidentifiable(law, values, law.arrays(settings))

    lost = lost_at(settings) if few or len(settings) < len(law.parameters) else frozenset()
    problems, table, left = [], {}, lost
    for name in few:
        more = [settings.assign(**{name: v}) for v in _further_values(law.covariates[name], observed.covariates[name])]
        named = lost - lost_at(pd.concat([settings, *more])) if lost else lost
        left -= named
        parameters, are = ", ".join(p for p in law.parameters if p in named), "is" if len(named) == 1 else "are"
        table[name] = {"values": count[name], "parameters": parameters}
        shown = ", ".join(f"{v:g}" for v in np.unique(observed.covariates[name]))
        if count[name] == 1:
            effect = f"{parameters} can't be learnt" if parameters else "the runs can't show how it matters"
            problems.append(f"{name} has one value ({shown}): {effect}, and forecasts at other values rest on priors alone")
        elif parameters:
            effect = f"{parameters} {are} not identifiable, and forecasts at other values depend on priors"
            problems.append(f"{name} has {count[name]} values ({shown}): {effect}")
    if len(settings) < len(law.parameters):
        those = "1 setting is" if len(settings) == 1 else f"{len(settings)} settings are"
        problems.append(f"{those} too few for {len(law.parameters)} parameters: the rest is the priors'")
    elif problems and left:
        others = [p for p in law.parameters if p in left]
        problems.append(f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} not identifiable either")
    text = "; ".join(problems) or f"the runs have enough values of {', '.join(law.axes)} to identify all parameters"
    frame = pd.DataFrame(table, index=["values", "parameters"]).T
    return Check("values", not problems, text, "model", frame, "Add runs at other values")


# --- correlated residuals -------------------------------------------------------------------------------------------


def independence_check(law: Law, observed: Observations, draws: Mapping[str, Array]) -> Check | None:
    """Check whether residuals of a fit without a run effect are correlated within runs; None where no two rows share a run.

    In a table that names no runs, rows that share all covariates but D count as one run as long as D rises from row to row, as it
    does along a curve; where it seldom does, all of them count as one.

    Parameters
    ----------
    law : Law
    observed : Observations
    draws : mapping of parameter to array (chains, draws)
    """
    group, sharing, suggestion = observed.run, "of one run", "fit noise with a run effect"
    if observed.run_names == tuple(f"row {row}" for row in observed.rows):
        group, sharing = _likely_runs(observed, [name for name in law.covariates if name != "D"])
        suggestion = "name the runs in a column `run`, for noise with a run effect"
    return correlation_check(residuals(law, observed, draws), group, len(law.parameters), sharing, suggestion)


def _likely_runs(observed: Observations, others: Sequence[str]) -> tuple[Index, str]:
    """Return for each row the code of the run that it is likely of, by its other covariates than D and its place, and in words."""
    columns = np.stack([observed.covariates[name] for name in others] or [np.zeros(observed.rows.size)])
    group = np.unique(columns, axis=1, return_inverse=True)[1].ravel()
    sharing = f"at one {', '.join(others)}" if others else "without a run"
    if "D" in observed.covariates:
        order, curve = np.lexsort((observed.rows, group)), np.empty_like(group)
        falls = np.diff(observed.covariates["D"][order], prepend=np.inf) <= 0
        curve[order] = np.cumsum(falls | (np.diff(group[order], prepend=-1) != 0)) - 1
        if group.size >= CURVE * (int(curve.max()) + 1):
            return curve, f"{sharing} whose D rises from row to row"
    return group, sharing


def checkpoint_correlation_check(law: Law, observed: Observations, draws: Mapping[str, Array]) -> Check | None:
    """Check whether mean residuals of runs that share a checkpoint are correlated; None where too few share one.

    It is for noise with independent run effects.

    Parameters
    ----------
    law, observed, draws
        As in `independence_check`.
    """
    if not observed.branched:
        return None
    means = np.bincount(observed.run, residuals(law, observed, draws)) / np.bincount(observed.run)
    texts = ("of one checkpoint", "noise normal-checkpoint", "intra_class_correlation", ("runs", "checkpoint"))
    return correlation_check(means, observed.checkpoint, len(law.parameters), *texts)


def residuals(law: Law, observed: Observations, draws: Mapping[str, Array]) -> Array:
    """Return responses (log losses) less the posterior mean of the law's (n,), by some draws, one at a time to save memory.

    Parameters
    ----------
    law, observed, draws
        As in `independence_check`.
    """
    some = {name: draws[name].ravel()[:: max(1, draws[name].size // AVERAGED)] for name in law.parameters}
    count = next(iter(some.values())).size
    total = np.zeros_like(observed.response)
    for i in range(count):
        predicted = law.predict({name: values[i : i + 1] for name, values in some.items()}, observed.covariates)[0]
        total += law.outcome.residual(observed.response, predicted)
    return total / count


def intra_class_correlation(residual: Array, group: Index, fitted: int) -> tuple[float, float, float]:
    """Estimate the correlation of residuals within groups: a one-way analysis of variance of their normal scores.

    Ranks are turned into normal scores first (van der Waerden), so heavy tails don't matter. The statistic is F = between /
    within mean square, against Fisher's distribution with G - 1 and n - G - p degrees of freedom. All degrees of freedom of
    the p fitted parameters are counted as taken within groups. Among independent residuals F is then as large or smaller, so
    the rate of false alarms is at most the stated one.

    Parameters
    ----------
    residual : array (n,)
    group : int array (n,) of codes 0 … G-1
    fitted : int
        Number of fitted parameters p.

    Returns
    -------
    correlation, p, widening : float
        Intra-class correlation, nan where there is one group or too few values in them; probability of an F at least as large
        among independent residuals; and factor by which the standard error of a group's mean exceeds that of independent values:
        sqrt(1 + (k - 1) correlation) with k the size of the group of a typical value.
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
    residual: Array,
    group: Index,
    fitted: int,
    sharing: str,
    suggestion: str,
    name: str = "independence",
    nouns: tuple[str, str] = ("points", "run"),
) -> Check | None:
    """Check whether residuals that the noise takes as independent are correlated within groups; None where groups are too few.

    Parameters
    ----------
    residual, group, fitted
        As in `intra_class_correlation`.
    sharing, suggestion : str
        What rows of a group share, such as 'of one run', and what to do where they are correlated.
    name : str
        Name of the check.
    nouns : (str, str)
        What has the residuals, and what has the effect that they may share.
    """
    correlation, p, widening = intra_class_correlation(residual, group, fitted)
    if math.isnan(correlation):
        return None
    if p >= WEAK:
        verdict = f"as those of independent {nouns[0]} may"
    elif p >= ALARM and widening >= WIDTH:
        verdict = f"which is weak evidence either way: they may share a {nouns[1]} effect ({suggestion}), or be independent"
    elif widening < WIDTH:
        verdict = "too little to matter"
    else:
        verdict = (
            f"and this noise takes them as independent: intervals may be {widening:.1f} times too narrow. "
            f"Either they share a {nouns[1]} effect ({suggestion}) or the law has an error between them"
        )
    text = f"residuals of {nouns[0]} {sharing} correlate by {correlation:.2f} (p = {p:.1g}), {verdict}"
    numbers = pd.DataFrame({"correlation": [correlation], "p": [p], "widening": [widening]})
    return Check(name, p >= ALARM or widening < WIDTH, text, "model", numbers)
