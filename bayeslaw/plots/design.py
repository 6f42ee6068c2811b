"""Pictures of chosen runs: the predicted width of an interval against the budget spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.design.anchors import Anchors
from bayeslaw.plots.style import COLOURS, failure, finish, has_failed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_anchors(anchors: Anchors, ax: Axes) -> Axes:
    """Draw the predicted interval width against the budget spent, for the chosen runs, runs of the smallest size and random runs.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> candidates = pd.DataFrame({"N": [1e8, 3e8, 1e9], "D": 1e10, "run": ["a", "b", "c"]})
    >>> choice = bayeslaw.anchors(fit, candidates, pd.DataFrame({"N": [1e10], "D": [1e11]}), budget=1e20)
    >>> bayeslaw.plots.plot_anchors(choice, Figure().subplots()).get_xlabel()
    'spent (FLOPs)'
    """
    curve, name, random = anchors.curve, anchors.width_name, []
    spent = np.linspace(0, anchors.market.budget, 200)
    for _, path in curve[curve["design"] == "random"].groupby("number"):
        at = np.searchsorted(path["spent"].to_numpy(), spent * (1 + 1e-9), side="right") - 1
        random.append(path[name].to_numpy()[at])
    if random:
        low, middle, high = np.quantile(np.array(random), [0.05, 0.5, 0.95], axis=0)
        ax.fill_between(spent, low, high, color=COLOURS[6], alpha=0.12, lw=0, label="random designs, 90% of them")
        ax.plot(spent, middle, color=COLOURS[6], lw=1, ls=":", label="random designs, median")
    for i, design, style, label in ((1, "smallest size", "--", "smallest size only"), (0, "chosen", "-", "chosen")):
        path = curve[curve["design"] == design]
        x, y = [*path["spent"], anchors.market.budget], [*path[name], path[name].iloc[-1]]
        ax.step(x, y, where="post", color=COLOURS[i], ls=style, lw=1.6, label=label)
    picks = anchors.picks
    ax.plot(picks["spent"], picks[name], ls="", marker="o", ms=4, color=COLOURS[0])
    if anchors.stop is not None:
        end = float(picks["spent"].iloc[anchors.stop - 1]) if anchors.stop else 0.0
        ax.axvline(end, color=COLOURS[2], lw=1)
        place: dict[str, Any] = {"xytext": (3, -4), "textcoords": "offset points", "va": "top", "fontsize": 7}
        ax.annotate("not worth the price\nbeyond this line", (end, ax.get_ylim()[1]), **place)
    ax.set_xlim(0, anchors.market.budget)
    unit = f" ({anchors.targets.unit})" if anchors.targets.unit else ""
    width = f"predicted width of the {anchors.ci_prob * 100:g}%\nequal-tailed interval, {anchors.targets.kind}{unit}"
    return _finish(ax, f"spent ({anchors.candidates.unit})", width, picks)


def _finish(ax: Axes, x: str, y: str, picks: pd.DataFrame) -> Axes:
    """Label the axes of a picture of chosen runs; its vertical label is long and therefore smaller."""
    finish(ax, x, y, "predicted gain from the next runs" + failure(has_failed(picks)))
    ax.set_ylim(bottom=0)
    ax.yaxis.label.set_fontsize(8)
    return ax


def width_column(picks: pd.DataFrame) -> str:
    """Return the name of the column of predicted interval widths in a table of chosen runs, such as latent_eti90_width."""
    widths = [str(c) for c in picks if str(c).endswith("_width")]
    if len(widths) != 1 or "spent" not in picks:
        raise BayeslawError(
            "A table of chosen runs has a column `spent` and one column that ends in _width, and this one does not: "
            "write it with `bayeslaw anchors -o`.",
            code="missing-columns",
        )
    return widths[0]


def plot_picks(picks: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the predicted interval width after each chosen run against the budget spent; hollow marks are not worth their price.

    `picks` is a table that `bayeslaw anchors -o` wrote.
    """
    name = width_column(picks)
    ax.step(picks["spent"], picks[name], where="post", color=COLOURS[0], lw=1.6)
    worth = picks["worth"].astype(bool) if "worth" in picks else pd.Series(True, index=picks.index)
    for some, face, label in ((worth, COLOURS[0], "worth its price"), (~worth, "white", "not worth its price")):
        if some.any():
            ax.plot(picks["spent"][some], picks[name][some], ls="", marker="o", ms=6, mfc=face, mec=COLOURS[0], label=label)
    width = f"predicted {name.removesuffix('_width').replace('_eti', ' interval, equal-tailed, ')}%, width"
    return _finish(ax, "spent (unit of the budget)", width, picks)
