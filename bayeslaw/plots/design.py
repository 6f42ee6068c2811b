"""Picture of a choice of runs: what is known against what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.design.anchors import Anchors
from bayeslaw.plots.style import COLOURS, failure, has_failed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_anchors(made: Anchors, ax: Axes) -> Axes:
    """Predicted width of the interval against money: chosen runs, runs of the smallest size, and a band of random designs.

    Parameters
    ----------
    made : Anchors
    ax : matplotlib Axes

    Returns
    -------
    Axes
    """
    curve, name = made.curve, made.width_name
    spent = np.linspace(0, made.market.budget, 200)
    random = []
    for _, path in curve[curve["design"] == "random"].groupby("number"):
        at = np.searchsorted(path["spent"].to_numpy(), spent * (1 + 1e-9), side="right") - 1
        random.append(path[name].to_numpy()[at])
    if random:
        low, middle, high = np.quantile(np.array(random), [0.05, 0.5, 0.95], axis=0)
        ax.fill_between(spent, low, high, color=COLOURS[6], alpha=0.12, lw=0, label="random designs, 90% of them")
        ax.plot(spent, middle, color=COLOURS[6], lw=1, ls=":", label="random designs, median")
    for design, colour, style, label in (
        ("smallest size", COLOURS[1], "--", "smallest size only"),
        ("chosen", COLOURS[0], "-", "chosen"),
    ):
        path = curve[curve["design"] == design]
        x, y = [*path["spent"], made.market.budget], [*path[name], path[name].iloc[-1]]
        ax.step(x, y, where="post", color=colour, ls=style, lw=1.6, label=label)
    picks = made.picks
    ax.plot(picks["spent"], picks[name], ls="", marker="o", ms=4, color=COLOURS[0])
    if made.stop is not None:
        end = float(picks["spent"].iloc[made.stop - 1]) if made.stop else 0.0
        ax.axvline(end, color=COLOURS[2], lw=1)
        place: dict[str, Any] = {"xytext": (3, -4), "textcoords": "offset points", "va": "top", "fontsize": 7}
        ax.annotate("not worth it\nfrom here", (end, ax.get_ylim()[1]), **place)
    ax.set_xlim(0, made.market.budget)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"spent ({made.candidates.unit})")
    unit = f" ({made.aim.unit})" if made.aim.unit else ""
    ax.set_ylabel(f"predicted width of the {made.ci_prob * 100:g}%\nequal-tailed interval, {made.aim.kind}{unit}", fontsize=8)
    ax.set_title("What the next runs would tell" + failure(has_failed(picks)), fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def width_column(picks: pd.DataFrame) -> str:
    """The column of a list of picks with the predicted widths of an interval, such as latent_eti90_width."""
    found = [str(c) for c in picks if str(c).endswith("_width")]
    if len(found) != 1 or "spent" not in picks:
        raise BayeslawError("A list of picks has a column spent and one that ends in _width; write it by `bayeslaw anchors -o`.")
    return found[0]


def plot_picks(picks: pd.DataFrame, ax: Axes) -> Axes:
    """Predicted width of the interval after each purchase, against what is spent; hollow marks are not worth it."""
    name = width_column(picks)
    ax.step(picks["spent"], picks[name], where="post", color=COLOURS[0], lw=1.6)
    worth = picks["worth"].astype(bool) if "worth" in picks else pd.Series(True, index=picks.index)
    for some, face, label in ((worth, COLOURS[0], "worth its price"), (~worth, "white", "not worth its price")):
        if some.any():
            ax.plot(picks["spent"][some], picks[name][some], ls="", marker="o", ms=6, mfc=face, mec=COLOURS[0], label=label)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("spent (unit of the budget)")
    ax.set_ylabel(f"predicted {name.removesuffix('_width').replace('_eti', ' interval, equal-tailed, ')}%, width", fontsize=8)
    ax.set_title("what the next runs would tell" + failure(has_failed(picks)), fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax
