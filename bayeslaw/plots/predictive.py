"""Pictures of fitted losses against what the fit predicts for them: posterior predictive intervals, and LOO-PIT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslaw.core.arrays import evenly
from bayeslaw.core.intervals import interval_names
from bayeslaw.evaluation.predictive import PredictiveCheck
from bayeslaw.evaluation.reach import independent_runs, inside
from bayeslaw.plots.style import COLOURS, axes_of, expect, failure, finish, keep_within

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MADE_BY = "bayeslaw.evaluation.predictive_check(fit)"
SHOWN = 300  # losses that are drawn
BAND = 0.9  # probability of the band of calibrated fits
SIMULATED = 1_000  # curves from which the band comes
FEWEST = 5  # independent runs for which there is a band


def plot_predictive(check: PredictiveCheck, ax: Axes | None = None) -> Axes:
    """Draw how far each fitted loss lies from the median that the fit predicts for a new run, within the predicted intervals.

    Thick bars are 50% intervals, thin ones 90%. Losses inside the 90% interval are round, those outside it are crosses.

    Parameters
    ----------
    check : PredictiveCheck
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> check = bayeslaw.evaluation.predictive_check(bayeslaw.load_fit("fit.nc"))
    >>> bayeslaw.plots.plot_predictive(check, Figure().subplots()).get_xlabel()
    'predicted median loss (nats/token)'
    """
    expect(check, PredictiveCheck, MADE_BY)
    rows = check.rows.sort_values("median")
    total = len(rows)
    held = int(inside(rows, 0.9, check.outcome).sum())
    rows = rows.iloc[evenly(total, SHOWN)]
    outcome = check.outcome
    median, measured = (rows[name].to_numpy(dtype=np.float64) for name in ("median", outcome.name))
    ax = axes_of(ax)
    ax.axhline(0, color="0.6", lw=0.8, zorder=0)
    for prob, grey, width in ((0.9, "0.8", 1.0), (0.5, "0.65", 2.2)):
        low, high = (outcome.deviation(rows[end].to_numpy(dtype=np.float64), median) for end in interval_names("eti", prob))
        ax.vlines(median, low, high, color=grey, lw=width, zorder=1)
    within = inside(rows, 0.9, outcome).to_numpy()
    for mask, colour, mark, label in (
        (within, COLOURS[0], "o", f"inside the 90% interval: {held}"),
        (~within, COLOURS[1], "X", f"outside: {total - held}"),
    ):
        style: dict[str, Any] = {"ls": "", "marker": mark, "ms": 4.5, "mec": "white", "mew": 0.4}
        ax.plot(median[mask], outcome.deviation(measured[mask], median[mask]), color=colour, label=label, **style)
    if outcome.relative and median.max() > 3 * median.min():
        ax.set_xscale("log")
    keep_within(ax, outcome, horizontal=True)
    notes = [f"bars: 50% and 90% equal-tailed intervals of a new run's {outcome.name}"]
    if len(rows) < total:
        notes.append(f"{total - len(rows):,} of {total:,} {outcome.plural} lie between these and are not drawn")
    title = f"{check.name}: fitted {outcome.plural} and posterior predictive intervals" + failure(check.failed)
    y = outcome.of_deviation(f"{outcome.name} minus the median", check.unit)
    return finish(ax, f"predicted median {outcome.labelled(check.unit)}", y, title, notes)


def plot_loo_pit(check: PredictiveCheck, ax: Axes | None = None) -> Axes:
    """Draw the cumulative share of LOO-PIT minus that of a calibrated fit: losses predicted from the other runs.

    The line stays in the grey band, with a probability of 90%, if the fit is calibrated and the losses count as some independent
    runs (Säilynoja et al. 2022; by ArviZ): as all of them where each has as many losses, as fewer where a few runs have most of the
    losses (`independent_runs`). Both are drawn at multiples of the share of one run, for which the band is. A slope up in the
    middle means too wide intervals, slopes up at both ends too narrow ones, and a line below 0 that predicted losses are too low.

    Parameters
    ----------
    check : PredictiveCheck
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> check = bayeslaw.evaluation.predictive_check(bayeslaw.load_fit("fit.nc"))
    >>> bayeslaw.plots.plot_loo_pit(check, Figure().subplots()).get_ylabel()
    'share of losses minus expected (%)'
    """
    expect(check, PredictiveCheck, MADE_BY)
    pit, runs = np.sort(check.rows["loo_pit"].to_numpy(dtype=np.float64)), independent_runs(check.rows)
    name, plural = check.outcome.name, check.outcome.plural
    ax = axes_of(ax)
    ax.axhline(0, color="0.5", lw=0.9, ls=":")
    if runs >= FEWEST:
        from arviz_stats.ecdf_utils import ecdf_pit

        at, _, low, high = ecdf_pit(np.linspace(0, 1, runs), BAND, SIMULATED, rng=np.random.default_rng(0))
        label = f"{BAND:.0%} band for {runs} independent runs"
        ax.fill_between(100 * at, 100 * (low - at), 100 * (high - at), color="0.87", lw=0, label=label, zorder=0)
        x, y = at, np.concatenate([[0], np.searchsorted(pit, at[1:], side="right") / pit.size])
    else:
        share = np.arange(1, pit.size + 1) / pit.size
        x, y = np.concatenate([[0], np.repeat(pit, 2), [1]]), np.concatenate([[0], [0], np.repeat(share, 2)])
    ax.plot(100 * x, 100 * (y - x), color=COLOURS[0], lw=1.5, label=f"{plural} without their run (LOO-PIT)")
    ax.set_xlim(0, 100)
    title = f"{check.name}: calibration on left-out runs (LOO-PIT)" + failure(check.failed)
    notes = list(check.notes) if runs >= FEWEST else [*check.notes, f"{plural} that count as fewer than {FEWEST} runs: no band"]
    x_label, y_label = f"share of the prediction below the {name} (%)", f"share of {plural} minus expected (%)"
    return finish(ax, x_label, y_label, title, notes)
