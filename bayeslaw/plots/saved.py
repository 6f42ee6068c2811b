"""Pictures of decisions from the tables that commands write: what picks tell for their money, what a plan's confidence costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.plots.forecast import COLOURS, failure, told_failed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax.set_title("what the next runs would tell" + failure(told_failed(picks)), fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def plot_levels(frontier: pd.DataFrame, ax: Axes) -> Axes:
    """Tokens that a plan needs for each confidence, with the replay share beside; confidences that can't be reached are crosses."""
    if missing := [c for c in ("confidence", "tokens", "r") if c not in frontier]:
        raise BayeslawError(f"A plan's frontier lacks {', '.join(missing)}; write it by `bayeslaw plan -o`.")
    can = np.isfinite(frontier["tokens"].to_numpy(dtype=np.float64))
    if "plan" in frontier:
        can &= (frontier["plan"] == "feasible").to_numpy()
    some = frontier[can].sort_values("confidence")
    ax.plot(100 * some["confidence"], some["tokens"], color=COLOURS[0], marker="o", lw=1.6, ms=5, label="feasible")
    for _, row in some.iterrows():
        place: dict[str, Any] = {"xytext": (4, -10), "textcoords": "offset points", "fontsize": 7}
        ax.annotate(f"replay {float(row['r']):.0%}", (100 * float(row["confidence"]), float(row["tokens"])), **place)
    lost = 100 * frontier["confidence"][~can]
    if len(lost):
        ax.plot(
            lost,
            np.full(len(lost), 0.03),
            ls="",
            marker="x",
            color=COLOURS[1],
            transform=ax.get_xaxis_transform(),
            label="infeasible",
        )
    if len(some) and some["tokens"].max() > 5 * some["tokens"].min():
        ax.set_yscale("log")
    ax.margins(x=0.12, y=0.15)
    ax.set_xlabel("confidence that all promises hold (%)")
    ax.set_ylabel("adaptation tokens")
    ax.set_title("what each confidence costs" + failure(told_failed(frontier)), fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax
