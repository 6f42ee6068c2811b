"""The picture of a backtest: errors and intervals by how far beyond the fitted rows a forecast was."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import interval_names
from bayeslaw.core.text import counted
from bayeslaw.evaluation.backtest import Backtest
from bayeslaw.evaluation.direction import IN_WORDS
from bayeslaw.evaluation.on_record import Calibration
from bayeslaw.evaluation.reach import BINS, between, bin_name, independent_runs, inside
from bayeslaw.evaluation.scores import COVERED
from bayeslaw.laws.outcome import Outcome
from bayeslaw.plots.style import (
    COLOURS,
    DASHES,
    MARKERS,
    SHARES,
    SMALL,
    axes_of,
    expect,
    failure,
    finish,
    has_failed,
    share_interval,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

CI = 0.9


def plot_backtest(backtest: Backtest, ax: Axes | None = None) -> Axes:
    """Draw how far each loss beyond a cut lies from the median of its forecast, within the 90% interval of that, by reach.

    Losses inside their interval are round, those outside it are crosses. Above each range of reach stands its mean error.

    Parameters
    ----------
    backtest : Backtest
        'nothing-to-draw' where nothing was scored.
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> result = bayeslaw.backtest("runs.csv", "chinchilla", cuts=1, progress=False)
    >>> bayeslaw.plots.plot_backtest(result, Figure().subplots()).get_xlabel()
    'e-folds of compute beyond the cut'
    """
    rows, outcome = _scored(backtest), backtest.outcome
    median, measured, reach = (rows[name].to_numpy(dtype=np.float64) for name in ("median", outcome.name, "reach"))
    low, high = (rows[end].to_numpy(dtype=np.float64) for end in interval_names("eti", CI))
    held = inside(rows, CI, outcome).to_numpy()
    ax = axes_of(ax)
    ax.axhline(0, color="0.6", lw=0.8, zorder=0)
    ax.vlines(reach, outcome.deviation(low, median), outcome.deviation(high, median), color="0.75", lw=1.2, zorder=1)
    for mask, colour, mark, where in ((held, COLOURS[0], "o", "inside"), (~held, COLOURS[1], "X", "outside")):
        label = f"{where} the {CI * 100:g}% equal-tailed interval: {mask.sum()}"
        error = outcome.deviation(measured[mask], median[mask])
        ax.plot(reach[mask], error, ls="", marker=mark, ms=4, mec="white", mew=0.3, color=colour, label=label)
    bottom, top = ax.get_ylim()
    ax.set(xlim=(0, 1.05 * reach.max()), ylim=(bottom - 0.12 * (top - bottom), top + 0.05 * (top - bottom)))  # room for texts
    errors = backtest.reach.set_index("e_folds")["mae_rel" if outcome.relative else "mae"]
    for start, end in BINS:
        if (name := bin_name(start, end)) in errors:
            ax.axvline(start, color="0.85", lw=0.8, zorder=0)
            middle = (start + min(end, float(reach.max()))) / 2
            text = outcome.in_words(float(errors[name]))
            ax.text(middle, 0.99, text, transform=ax.get_xaxis_transform(), fontsize=SMALL, ha="center", va="top")
    cuts = counted(rows["cut"].nunique(), "cut")
    title = (
        f"{backtest.law}: {outcome.plural} beyond {cuts} and their forecasts ({backtest.spread});\nabove: mean error by distance"
    )
    y = outcome.of_deviation(f"{outcome.name} minus the forecast's median", outcome.unit)
    return finish(ax, _beyond(backtest.by, "the cut"), y, title + failure(has_failed(rows)))


def _scored(backtest: Backtest) -> pd.DataFrame:
    """Return the rows that a backtest scored; one without any is refused."""
    expect(backtest, Backtest, "bayeslaw.backtest(runs, law)")
    if backtest.rows.empty:
        raise BayeslawError("Nothing was scored in this backtest: there is nothing to draw.", code="nothing-to-draw")
    return backtest.rows


def _beyond(by: str, what: str) -> str:
    """Return the label of an axis of distances beyond what was fitted, in a direction; '' is several of them."""
    return f"e-folds{f' of {IN_WORDS.get(by, by)}' * bool(by)} beyond {what}"


def plot_reach_coverage(backtest: Backtest, ax: Axes | None = None) -> Axes:
    """Draw the share of losses inside the 50, 80 and 90% intervals of their forecasts, by how far beyond the cut these were.

    Each range of reach is one point in the middle of its forecasts' distances. Its bar is an interval of the share in which runs
    count and not rows, because the rows of a run err together. Dotted lines are the shares that the intervals should hold.

    Parameters
    ----------
    backtest : Backtest
        'nothing-to-draw' where nothing was scored.
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> result = bayeslaw.backtest("runs.csv", "chinchilla", cuts=1, progress=False)
    >>> bayeslaw.plots.plot_reach_coverage(result, Figure().subplots()).get_ylabel()
    'losses inside the interval (%)'
    """
    rows = _scored(backtest)
    title = f"{backtest.law}: coverage by distance ({backtest.spread})"
    return _coverage(axes_of(ax), rows, backtest.outcome, _beyond(backtest.by, "the cut"), title)


def plot_record(calibration: Calibration, ax: Axes | None = None) -> Axes:
    """Draw the share of outcomes inside the 50, 80 and 90% intervals of registered forecasts, by how far beyond the runs.

    It is `plot_reach_coverage` of a record; forecasts inside the fitted runs are left of 0.

    Parameters
    ----------
    calibration : Calibration
        One of `bayeslaw.evaluation.record(...).calibrations`.
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> written = bayeslaw.evaluation.register(bayeslaw.load_fit("fit.nc"), "new.csv").save("next.json")
    >>> bayeslaw.evaluation.settle("next.json", "new.csv").save("next.settled.json")
    >>> (calibration,) = bayeslaw.evaluation.record(".").calibrations
    >>> bayeslaw.plots.plot_record(calibration, Figure().subplots()).get_title()
    'registered forecasts: coverage by distance'
    """
    expect(calibration, Calibration, "bayeslaw.evaluation.record(folder).calibrations")
    x = _beyond(calibration.by, "the fitted runs")
    return _coverage(axes_of(ax), calibration.rows, calibration.outcome, x, "registered forecasts: coverage by distance")


def _coverage(ax: Axes, rows: pd.DataFrame, outcome: Outcome, x: str, title: str) -> Axes:
    """Draw coverage by reach into axes."""
    bins = ((-math.inf, 0.0), *BINS)
    parts = [(part, ends) for ends in bins if len(part := between(rows, *ends))]
    middle = np.array([part["reach"].mean() for part, _ in parts])
    independent = np.array([independent_runs(part) for part, _ in parts])
    far, near = 1.05 * max(float(rows["reach"].max()), 0.1), 1.2 * min(float(middle.min()), 0.0)
    for i, prob in enumerate(COVERED):
        share = np.array([inside(part, prob, outcome).mean() for part, _ in parts])
        low, high = share_interval(share, independent)
        at = middle + (i - 1) * 0.012 * far
        bars = [100 * (share - low), 100 * (high - share)]
        style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 5, "mec": "white", "lw": 1.4, "ls": DASHES[i]}
        ax.errorbar(at, 100 * share, yerr=bars, elinewidth=1.2, capsize=2, label=f"{prob:.0%} intervals", **style)
        ax.axhline(100 * prob, color=COLOURS[i], lw=0.9, ls=":")
    for (part, (start, _)), place in zip(parts, middle.tolist(), strict=True):
        ax.axvline(max(start, near), color="0.85", lw=0.8, zorder=0)
        ax.text(place, -9, f"{part['run'].nunique()}", fontsize=SMALL, ha="center", va="center")
    ax.set(xlim=(near, far), ylim=(-16, 104))
    ax.set_yticks(range(0, 101, 20))
    notes = [f"bars: {SHARES} where runs count, not rows; dotted: as it should be; below: runs"]
    return finish(ax, x, f"{outcome.plural} inside the interval (%)", title + failure(has_failed(rows)), notes)
