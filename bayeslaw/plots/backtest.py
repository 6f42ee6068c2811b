"""The picture of a backtest: errors and intervals by how far beyond the fitted rows a forecast was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import interval_names
from bayeslaw.core.text import significant
from bayeslaw.evaluation.backtest import BINS, IN_WORDS, Backtest, bin_name, counted, inside
from bayeslaw.plots.style import COLOURS, failure, finish, has_failed, new_axes

if TYPE_CHECKING:
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
    rows = backtest.rows
    if not len(rows):
        raise BayeslawError("Nothing was scored in this backtest: there is nothing to draw.", code="nothing-to-draw")
    median, loss, reach = (rows[name].to_numpy(dtype=np.float64) for name in ("median", "loss", "reach"))
    low, high = (rows[end].to_numpy(dtype=np.float64) for end in interval_names("eti", CI))
    held = inside(rows, CI).to_numpy()
    ax = ax or new_axes()
    ax.axhline(0, color="0.6", lw=0.8, zorder=0)
    ax.vlines(reach, 100 * (low / median - 1), 100 * (high / median - 1), color="0.75", lw=1.2, zorder=1)
    for mask, colour, mark, where in ((held, COLOURS[0], "o", "inside"), (~held, COLOURS[1], "X", "outside")):
        label = f"{where} the {CI * 100:g}% equal-tailed interval: {mask.sum()}"
        error = 100 * (loss[mask] / median[mask] - 1)
        ax.plot(reach[mask], error, ls="", marker=mark, ms=4, mec="white", mew=0.3, color=colour, label=label)
    bottom, top = ax.get_ylim()
    ax.set(xlim=(0, 1.05 * reach.max()), ylim=(bottom - 0.12 * (top - bottom), top + 0.05 * (top - bottom)))  # room for texts
    errors = backtest.reach.set_index("e_folds")["mae_rel"]
    for start, end in BINS:
        if (name := bin_name(start, end)) in errors:
            ax.axvline(start, color="0.85", lw=0.8, zorder=0)
            middle = (start + min(end, float(reach.max()))) / 2
            text = f"{significant(100 * float(errors[name]), 2)}%"
            ax.text(middle, 0.99, text, transform=ax.get_xaxis_transform(), fontsize=7, ha="center", va="top")
    x = f"e-folds of {IN_WORDS.get(backtest.by, backtest.by)} beyond the cut"
    cuts = counted(rows["cut"].nunique(), "cut")
    title = f"{backtest.law}: losses beyond {cuts} and their forecasts ({backtest.spread});\nabove: mean error by distance"
    return finish(ax, x, "loss minus the forecast's median (%)", title + failure(has_failed(rows)), loc="lower left")
