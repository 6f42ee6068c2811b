"""Pictures of decisions: feasible region and plan, efficient frontiers, savings. They take axes, return them, and save nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import interval_names
from bayeslaw.planning.allocation import Allocation
from bayeslaw.planning.plan import Plan
from bayeslaw.planning.search import tables
from bayeslaw.planning.transfer import Transfer
from bayeslaw.plots.style import COLORMAP, COLOURS, MARKERS, failure, has_failed, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = (0.5, 0.8, 0.9, 0.95)
GRID = (61, 81)  # replay shares, log tokens
CONTOURS = 400  # draws whose median makes a landscape


def plot_plan(plan: Plan, ax: Axes, *, of: str = "", levels: Sequence[float] = LEVELS) -> Axes:
    """Probability contours of keeping every promise over replay and tokens, above a landscape of the median loss or forgetting.

    As Goffinet et al. 2025, fig. 2, with the probability instead of one line. The star is the plan (or where most can be
    promised), the diamond the plan that knows no uncertainty.

    Parameters
    ----------
    plan : Plan
    ax : matplotlib Axes
    of : {'', 'forgetting', 'target-loss'}
        What lies beneath; nothing for ''.
    levels : sequence of float
        Probabilities of the contours.
    """
    question, box = plan.question, plan.question.search.box
    if of and of not in plan.landscapes:
        raise BayeslawError(f"This plan has no landscape {of!r}; it has {', '.join(plan.landscapes)}.")
    if box.low >= box.high or box.replay[0] >= box.replay[1]:
        raise BayeslawError("There is nothing to draw: tokens or replay of the plan are fixed.")
    low, high = _window(plan)
    x, r = np.linspace(low, high, GRID[1]), np.linspace(*box.replay, GRID[0])
    unit = question.n if math.isfinite(question.n) else 1.0
    across = np.exp(x) / unit
    if of:
        from matplotlib.ticker import MaxNLocator

        table, label = _landscape(plan, of, x, r)
        bottom, top = np.quantile(table, [0.03, 0.97])  # the barrier at r = 0 would take all colours
        steps = MaxNLocator(14).tick_values(bottom, top if top > bottom else bottom + 1e-6)
        shade = ax.contourf(100 * r, across, table.T, levels=steps, cmap=COLORMAP, alpha=0.85, extend="both")
        bar = ax.figure.colorbar(shade, ax=ax, pad=0.02)
        bar.set_label(label, fontsize=8)
        bar.ax.tick_params(labelsize=7)
    chance = plan.probability(np.exp(x), r)
    ink = "white" if of else COLOURS[0]
    if not of:
        ax.contourf(100 * r, across, chance.T, levels=np.linspace(0, 1, 11), cmap="Greys", alpha=0.5)
    drawn = [level for level in sorted(levels) if chance.min() < level < chance.max()]
    if drawn:
        styles = ["dotted", "dashdot", "dashed", "solid"]
        lines = ax.contour(100 * r, across, chance.T, levels=drawn, colors=ink, linewidths=1.6, linestyles=styles[-len(drawn) :])
        ax.clabel(lines, fmt=lambda v: f"{v:.0%}", fontsize=7)
    _marks(plan, ax, unit)
    ax.set_yscale("log")
    ax.set_xlabel("replay share (%)")
    ax.set_ylabel("adaptation tokens per parameter" if math.isfinite(question.n) else "adaptation tokens")
    what = {"": "", "forgetting": ", above median forgetting", "target-loss": ", above the median target loss"}[of]
    ax.set_title(f"probability of keeping every promise ({plan.on}){what}{failure(plan.forced)}", fontsize=9)
    if ax.get_legend_handles_labels()[0]:  # none where nothing is feasible
        # Few tokens, nearly all of them replayed: no promise about the target is kept there, and no contour runs through.
        ax.legend(fontsize=7, loc="lower right", framealpha=0.9)
    return ax


def _window(plan: Plan) -> tuple[float, float]:
    """Log tokens to draw: around the plans, within the box."""
    box = plan.question.search.box
    places = [math.log(c.tokens) for c in (plan.shown, plan.deterministic) if c is not None]
    if not places:
        return box.low, box.high
    return max(box.low, min(places) - 2.5), min(box.high, max(places) + 2.0)


def _landscape(plan: Plan, of: str, x: Any, r: Any) -> tuple[Any, str]:
    """Medians (R, n) of target loss or forgetting in percent, and what to call them."""
    question = plan.question
    some = plan.draws[:: max(1, plan.draws.size // CONTOURS)]
    if of == "target-loss" and question.target is not None:
        label = f"target loss ({question.target.unit}), median"
        return np.exp(np.median(tables([question.target], some, x, r)[0], axis=1)), label
    names = list(question.bases)
    side = next(s for s in question.sources if s.name == names[0])
    rise = tables([side], some, x, r)[0] - question.bases[names[0]].log[some][None, :, None]
    return 100 * np.expm1(np.median(rise, axis=1)), f"forgetting of {names[0]} (% of base loss), median"


def _marks(plan: Plan, ax: Axes, unit: float) -> None:
    if (one := plan.shown) is not None:
        said = f"plan at {plan.confidence:.0%}" if plan.best is not None else f"most that can be promised: {one.held_out:.0%}"
        ax.plot(100 * one.replay, one.tokens / unit, marker="*", ms=16, color=COLOURS[1], mec="white", ls="", label=said, zorder=5)
    if (one := plan.deterministic) is not None:
        said = f"without uncertainty: keeps {one.held_out:.0%}"
        ax.plot(100 * one.replay, one.tokens / unit, marker="D", ms=7, color=COLOURS[3], mec="white", ls="", label=said, zorder=5)


def plot_frontier(allocations: Sequence[Allocation], ax: Axes, *, ci_prob: float = 0.9, contours: int = 9) -> Axes:
    """Efficient frontiers, the best N over compute with bands, on iso-loss contours of the first (Zheng et al. 2024, fig. 5)."""
    if not allocations or allocations[0].compute.size < 2:
        raise BayeslawError("A frontier is drawn over at least two values of compute (--compute 1e19:1e24:30).")
    first = allocations[0]
    sizes = np.array([np.quantile(a.N, [0.02, 0.98]) for a in allocations])
    n = np.geomspace(float(sizes.min()) / 4, float(sizes.max()) * 4, 60)
    flops = np.geomspace(first.compute.min(), first.compute.max(), 60)
    d = flops[None, :] / (FLOPS * n[:, None])
    loss = np.concatenate(
        [s.loss(n.repeat(60)[None, :], d.ravel()[None, :], slice(None, None, max(1, s.size // CONTOURS))) for s in first.stages]
    )
    middle = np.median(loss, axis=0).reshape(d.shape)
    low, high = (float(v) for v in np.quantile(middle, [0.02, 0.9]))
    levels = np.unique(np.round(np.geomspace(low, high, contours), 3))
    lines = ax.contour(flops, n, middle, levels=levels, cmap=COLORMAP, linewidths=0.9)
    ax.clabel(lines, fmt="%.3g", fontsize=6)
    for i, one in enumerate(allocations):
        table = one.summary(ci_prob)
        label = one.stage or one.name
        ends = interval_names("N_eti", ci_prob)
        style: dict[str, Any] = {"color": COLOURS[i], "lw": 2, "marker": MARKERS[i], "ms": 3, "markevery": 4}
        ax.plot(table["compute"], table["N_median"], label=f"best N, {label}", **style)
        ax.fill_between(table["compute"], table[ends[0]], table[ends[1]], color=COLOURS[i], alpha=0.22, lw=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("compute C = 6ND (FLOPs)")
    ax.set_ylabel("parameters N")
    failed = failure(any(a.failed for a in allocations))
    of = f"contours of the median loss ({first.stage or first.name})"
    ax.set_title(f"efficient frontier, {ci_prob * 100:g}% equal-tailed bands, on {of}{failed}", fontsize=9)
    ax.legend(fontsize=7, loc="upper left")
    return ax


def plot_savings(transfer: Transfer, ax: Axes, *, of: str = "saved", ci_prob: float = 0.9) -> Axes:
    """FLOPs saved, or transferred data, over tokens of continual pre-training, with bands (Zheng et al. 2024, fig. 2)."""
    if of not in ("saved", "transferred"):
        raise BayeslawError(f"A picture of savings shows 'saved' or 'transferred', not {of!r}.")
    table, (low, high) = transfer.summary(ci_prob), interval_names(f"{of}_eti", ci_prob)
    scale = 100.0 if of == "saved" else 1.0
    for i, n in enumerate(sorted(table["N"].unique())):
        if i >= len(COLOURS):
            ax.plot([], [], " ", label="… and more sizes not shown")
            break
        one = table[table["N"] == n].sort_values("D")
        style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 3, "lw": 1.5}
        ax.plot(one["D"], scale * one[f"{of}_median"], label=f"N = {short_number(float(n))}", **style)
        ax.fill_between(one["D"], scale * one[low], scale * one[high], color=COLOURS[i], alpha=0.18, lw=0)
    ax.axhline(0, color="0.5", lw=0.8)
    ax.set_xscale("log")
    ax.set_xlabel("tokens of continual pre-training")
    ax.set_ylabel("FLOPs saved at equal loss (%)" if of == "saved" else "effectively transferred data (tokens)")
    ax.set_title(f"median and {ci_prob * 100:g}% equal-tailed interval{failure(transfer.failed)}", fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def plot_confidence(frontier: pd.DataFrame, ax: Axes) -> Axes:
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
    ax.set_title("what each confidence costs" + failure(has_failed(frontier)), fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax
