"""Scored forecasts by how far they reach beyond the fitted runs: errors, coverage, and how many independent runs they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.intervals import interval_names
from bayeslaw.core.text import counted
from bayeslaw.evaluation.scores import COVERED, point_scores
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.posterior.diagnostics import checks_label

BINS = ((0.0, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, math.inf))  # e-folds beyond a cut, the upper end included
WITHIN = "up to the largest run"  # by compute, or whatever reach counts; other covariates may lie outside
LEGEND = """\
e_folds                  distance beyond the cut; one e-fold is 2.7 times as much
forecasts, rows          forecasts that are scored, and the rows that they are of: several cuts may forecast one row
mae_rel, bias_rel        mean relative error, and with its sign: above 0 where forecasts are too high
mae, bias                mean error, and with its sign: above 0 where forecasts are too high, in the unit of the loss
cover_eti90              share of losses inside the 90% interval, which should be 0.9
width_rel_eti90          mean width of the 90% interval, relative to the loss
width_eti90              mean width of the 90% interval, in the unit of the loss
crps                     error of the whole predictive distribution, in the unit of the loss; smaller is better"""
SCORES = (
    "forecasts", "rows", "runs", "cuts", "mae_rel", "bias_rel", *(f"cover_eti{100 * prob:g}" for prob in COVERED),
    "width_rel_eti90", "crps", "checks",
)  # fmt: skip
# Where errors are not relative to the outcome.
ABSOLUTE = tuple({"mae_rel": "mae", "bias_rel": "bias", "width_rel_eti90": "width_eti90"}.get(name, name) for name in SCORES)


def by_reach(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the forecasts up to the largest fitted run and in each range of reach, where there are any, and all of them.

    Parameters
    ----------
    rows : DataFrame
        As `Backtest.rows`, none of which is up to the largest fitted run.
    """
    parts = {WITHIN: rows[rows["reach"] <= 0]} | {bin_name(low, high): between(rows, low, high) for low, high in BINS}
    return {name: part for name, part in (parts | {"all": rows}).items() if len(part)}


def between(rows: pd.DataFrame, low: float, high: float) -> pd.DataFrame:
    """Return the forecasts that reach farther than the lower end of a range, and no farther than its upper end.

    Parameters
    ----------
    rows, low, high : DataFrame, float, float
        Rows of `Backtest.rows`, and the ends in e-folds.
    """
    return rows[(rows["reach"] > low) & (rows["reach"] <= high)]


def transforms_by_reach(rows: pd.DataFrame) -> dict[str, Array]:
    """Return probability integral transforms by reach; the names say how many runs each part has."""
    parts = {name if name in (WITHIN, "all") else f"{name} e-folds": part for name, part in by_reach(rows).items()}
    return {f"{name}: {counted(part['run'].nunique(), 'run')}": part["pit"].to_numpy() for name, part in parts.items()}


def bin_name(low: float, high: float) -> str:
    """Return a range of reach in words."""
    return f"{low:g} to {high:g}" if math.isfinite(high) else f"over {low:g}"


def inside(rows: pd.DataFrame, prob: float, outcome: Outcome = LOSS) -> pd.Series:
    """Mark the forecasts whose equal-tailed interval of this probability holds the outcome.

    Parameters
    ----------
    rows : DataFrame
        Rows of `Backtest.rows`.
    prob, outcome : float, Outcome
    """
    low, high = (rows[end] for end in interval_names("eti", prob))
    return (rows[outcome.name] >= low) & (rows[outcome.name] <= high)


def independent_runs(rows: pd.DataFrame) -> int:
    """Return of how many independent runs the share of some forecasts in their intervals is, as their rows err together.

    It is (sum n)^2 / sum n^2 of the runs' numbers n of forecasts, rounded down (Kish's effective number): all runs if these are
    equal, and fewer if a few runs have most of the forecasts.

    Parameters
    ----------
    rows : DataFrame
        Rows of `Backtest.rows`, at least one.
    """
    count = rows["run"].value_counts().to_numpy()
    return int(count.sum() ** 2 // (count**2).sum())


def scores_of(rows: pd.DataFrame, outcome: Outcome = LOSS) -> dict[str, Any]:
    """Return the counts and scores of some rows of `Backtest.rows`, as in `Backtest.reach`."""
    loss, median = (rows[name].to_numpy(dtype=np.float64) for name in (outcome.name, "median"))
    points, unit = point_scores(loss, median, outcome), loss if outcome.relative else np.ones_like(loss)
    low, high = (rows[end].to_numpy(dtype=np.float64) for end in interval_names("eti", 0.9))
    return {
        "forecasts": len(rows), "rows": rows["row"].nunique(), "runs": rows["run"].nunique(), "cuts": rows["cut"].nunique(),
        **{name: points[name] for name in (("mae_rel", "bias_rel") if outcome.relative else ("mae", "bias"))},
        **{f"cover_eti{100 * prob:g}": float(inside(rows, prob, outcome).mean()) for prob in COVERED},
        "width_rel_eti90" if outcome.relative else "width_eti90": float(((high - low) / unit).mean()),
        "crps": float(rows["crps"].mean()),
        "checks": checks_label(bool((rows["checks"] == checks_label(True)).any())),
    }  # fmt: skip
