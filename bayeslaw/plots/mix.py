"""A picture of a mixture that was chosen: its shares beside today's, and how well the best shares are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayeslaw.planning.mix import Mix
from bayeslaw.plots.style import COLOURS, axes_of, expect, failure, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, MARK = 0.55, 40  # of a bar, in shares; of a point


def plot_mix(mixed: Mix, ax: Axes | None = None) -> Axes:
    """Draw the recommended shares as bars with the interval of single draws' best shares, today's, and the range considered.

    Parameters
    ----------
    mixed : Mix
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> mixed = bayeslaw.mix(bayeslaw.load_fit("mixtures.nc"), at={"N": 1e9, "D": 2e10})
    >>> bayeslaw.plots.plot_mix(mixed, Figure().subplots()).get_xlabel()
    'share of the mixture (%)'
    """
    expect(mixed, Mix, "bayeslaw.mix(fit, …)")
    ax = axes_of(ax)
    rows, shown = np.arange(len(mixed.shares)), np.array([mixed.attainable[s] for s in mixed.shares])
    low, high = 100 * np.quantile(mixed.optima[list(mixed.shares)], [0.05, 0.95], axis=0)
    label = "recommended" if mixed.best is not None else "most draws meet the limits"
    ax.barh(rows, 100 * shown, WIDTH, color=COLOURS[1], alpha=0.6, label=label)
    ax.hlines(rows, low, high, color=COLOURS[0], lw=2, label="best of single draws, 90% equal-tailed interval")
    if mixed.today is not None:
        ax.scatter([100 * mixed.today[s] for s in mixed.shares], rows, MARK, marker="D", color=COLOURS[2], zorder=3, label="today")
    ends = 100 * np.array([mixed.bounds[s] for s in mixed.shares])
    start, end = (np.tile(rows + side * WIDTH / 2, 2) for side in (-1, 1))
    ax.vlines(ends.T.ravel(), start, end, color="0.4", lw=0.8, ls=":", label="range considered")
    ax.set_yticks(rows, list(mixed.shares))
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    weighed = ", ".join(f"{w:.2g} {name}" for name, w in mixed.weights.items())
    title = f"mixture of least loss, weights {weighed}" if len(mixed.weights) > 1 else "mixture of least loss"
    return finish(ax, "share of the mixture (%)", "", title + failure(mixed.forced))
