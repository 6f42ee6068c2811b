"""A picture of two recipes along compute: the probability that the second is better, and how much compute it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import interval_names
from bayeslaw.planning.recipe_paths import REACH
from bayeslaw.planning.versus import SURE, Versus
from bayeslaw.plots.several import Drawing, check_axes, finish_all, free_places
from bayeslaw.plots.style import COLOURS, axes_of, draw_band, expect, failure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

OUTSIDE = "beyond runs of A or B"
Shown = Literal["probability", "multiplier"]


def plot_versus(versus: Versus, ax: Axes | None = None, *, of: Shown = "multiplier", ci_prob: float = 0.9, label: str = "") -> Axes:
    """Draw over compute the probability that recipe B is better, or how many times A's compute it needs for A's loss.

    Parameters
    ----------
    versus : Versus
    ax : as in `plot_forecast`
    of : {'probability', 'multiplier'}
        The multiplier has its median, and bands of half and of `ci_prob` of the draws.
    ci_prob : float
    label : str
        What the legend calls this comparison, where several are drawn on the same axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit, other = bayeslaw.load_fit("fit.nc"), bayeslaw.load_fit("fit.nc")
    >>> result = bayeslaw.planning.versus(fit, other, compute="1e19:1e21:5")
    >>> bayeslaw.plots.plot_versus(result, Figure().subplots()).get_xscale()
    'log'
    """
    expect(versus, Versus, "bayeslaw.planning.versus(a, b)")
    if of not in get_args(Shown):
        raise BayeslawError(f"A picture of two recipes shows {' or '.join(get_args(Shown))}, not {of!r}.", code="unknown-option")
    ax = axes_of(ax)
    check_axes(ax, shown := ("compute of A, C = 6ND (FLOPs)", "probability" if of == "probability" else "times A's compute"))
    a, b = versus.names
    order = np.argsort(versus.compute, kind="stable")
    x, marker = versus.compute[order], "o" if len(order) < 8 else ""
    colour = COLOURS[free_places(ax, 1, 0 if of == "probability" else 1)[0]]
    style: dict[str, Any] = {"color": colour, "lw": 2, "marker": marker, "ms": 4}
    entries: list[tuple[Artist, str]] = []
    ends = [float(np.log(r.largest)) for r in versus.recipes]
    start = max(float(np.exp(min(ends))), float(x.min()))
    outside = versus.beyond.max() > 0 and x.max() > np.exp(min(ends))
    if outside and start < x.max():
        entries.append((ax.axvspan(start, x.max(), color="0.93", lw=0, zorder=0), OUTSIDE))
    ax.set_xscale("log")
    losses = "losses of next runs" if versus.on == "run" else "expected losses"
    if of == "probability":
        (line,) = ax.plot(x, versus.b_better[order], **style)
        ax.axhline(0.5, color="0.4", lw=0.8, ls="--")
        entries.append((ax.axhspan(1 - SURE, SURE, color=COLOURS[4], alpha=0.15, lw=0), "the runs do not decide"))
        ax.set_ylim(-0.02, 1.02)
        name, words, title = f"{b} is better than {a}", "", f"P({b} has the lower loss), by {losses}"
    else:
        for prob, alpha in ((ci_prob, 0.2), (0.5, 0.35)):
            table = versus.summary(prob)
            low, high = (
                np.clip(table[f"multiplier_{end}"].to_numpy()[order], 1 / REACH, REACH) for end in interval_names("ci", prob)
            )
            band = draw_band(ax, x, low, high, color=colour, alpha=alpha)
            entries.append((band, f"{prob * 100:g}% band, one-sided where open"))
        middle = np.clip(table["multiplier_median"].to_numpy()[order], 1 / REACH, REACH)
        (line,) = ax.plot(x, middle, **style)
        entries.append((ax.axhline(1.0, color="0.4", lw=0.8, ls="--"), "as much as A"))
        ax.set_yscale("log")
        name, words, title = f"{b} (B) against {a} (A)", "median", f"compute that {b} (B) needs for the loss of {a} (A)"
    clipped = of == "multiplier" and bool((np.isinf(versus.multiplier) | (versus.multiplier == 0)).any())
    notes = [f"more than {REACH:,.0f} times, or less than one {REACH:,.0f}th, is drawn at the edge"] if clipped else []
    notes += [OUTSIDE] if outside and start == x.max() else []  # ground at a single value has no width
    error = ", with the laws' errors" if versus.spread == "extrapolated" else ""
    title = f"{title}{error}{failure(versus.failed)}"
    return finish_all(ax, Drawing(label, name, "", ((line, words),), tuple(entries), tuple(notes), title, shown))
