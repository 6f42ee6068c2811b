"""Pictures of decisions: the feasible region of a plan, the cost of confidence, efficient frontiers, savings, runs to buy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import interval_names
from bayeslaw.design.anchors import Anchors
from bayeslaw.planning.allocation import Allocation
from bayeslaw.planning.plan import Plan
from bayeslaw.planning.search import values_on_grid
from bayeslaw.planning.transfer import Transfer
from bayeslaw.plots.style import COLORMAP, COLOURS, MARKERS, failure, finish, has_failed, new_axes, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = (61, 81)  # replay shares, log tokens
THINNED = 400  # draws whose median is drawn as a landscape


def plot_plan(plan: Plan, ax: Axes | None = None, *, of: str = "", levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95)) -> Axes:
    """Draw the probability that all constraints hold over replay share and tokens, as contours (Goffinet et al. 2025, fig. 2).

    The star marks the plan, or the most probable point where no plan is feasible. The diamond marks the deterministic plan.

    Parameters
    ----------
    plan : Plan
    ax : as in `plot_forecast`
    of : {'', 'forgetting', 'target-loss'}
        Quantity whose median is coloured under the contours, refused if the plan doesn't have it ('unknown-landscape').
    levels : sequence of float
        Probabilities of the contours.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> model, target = {"N": 1e9, "ptpp": 31}, bayeslaw.load_fit("target.nc")
    >>> plan = bayeslaw.plan(None, target, model, on="latent", minimise="target-loss", max_tokens=1e10)
    >>> bayeslaw.plots.plot_plan(plan, Figure().subplots()).get_xlabel()
    'replay share (%)'
    """
    problem, box = plan.problem, plan.problem.box
    if of and of not in plan.landscapes:
        raise BayeslawError(f"This plan can't show {of!r}; it has {', '.join(plan.landscapes)}.", code="unknown-landscape")
    if box.low >= box.high or box.replay[0] >= box.replay[1]:
        raise BayeslawError("The plan's tokens or replay are fixed: plan over a range of both to draw it.", code="nothing-to-draw")
    # The window lies around the plans, within the ranges of the search.
    places = [math.log(c.tokens) for c in (plan.shown, plan.deterministic) if c is not None]
    low, high = (max(box.low, min(places) - 2.5), min(box.high, max(places) + 2.0)) if places else (box.low, box.high)
    x, r = np.linspace(low, high, GRID[1]), np.linspace(*box.replay, GRID[0])
    unit = problem.n if math.isfinite(problem.n) else 1.0
    across = np.exp(x) / unit
    ax = ax or new_axes()
    if of:
        from matplotlib.ticker import MaxNLocator

        table, label = _landscape(plan, of, x, r)
        bottom, top = np.quantile(table, [0.03, 0.97])  # the barrier at r = 0 would use up all colours
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
    y = "adaptation tokens per parameter" if math.isfinite(problem.n) else "adaptation tokens"
    colours = {"": "", "forgetting": ", colours: median forgetting", "target-loss": ", colours: median target loss"}[of]
    title = f"probability that all constraints hold ({plan.on}){colours}{failure(plan.forced)}"
    # With few tokens, nearly all of them replayed, no constraint on the target holds: no contour runs through this corner.
    return finish(ax, "replay share (%)", y, title, loc="lower right", framealpha=0.9, frameon=True)


def _landscape(plan: Plan, of: str, x: Any, r: Any) -> tuple[Any, str]:
    """Return medians (R, n) of the target loss, or of forgetting in percent, and their label."""
    problem = plan.problem
    some = plan.draws[:: max(1, plan.draws.size // THINNED)]
    if of == "target-loss" and problem.target is not None:
        label = f"target loss ({problem.target.unit}), median"
        return np.exp(np.median(values_on_grid([problem.target], some, x, r)[0], axis=1)), label
    names = list(problem.base_losses)
    side = next(s for s in problem.sources if s.name == names[0])
    rise = values_on_grid([side], some, x, r)[0] - problem.base_losses[names[0]].log[some][None, :, None]
    return 100 * np.expm1(np.median(rise, axis=1)), f"forgetting of {names[0]} (% of base loss), median"


def _marks(plan: Plan, ax: Axes, unit: float) -> None:
    """Mark the plan and the deterministic plan, with the probabilities of both."""
    style: dict[str, Any] = {"mec": "white", "ls": "", "zorder": 5}
    if (best := plan.shown) is not None:
        label = f"plan at {plan.confidence:.0%}" if plan.best is not None else f"most probable point: {best.held_out:.0%}"
        ax.plot(100 * best.replay, best.tokens / unit, marker="*", ms=16, color=COLOURS[1], label=label, **style)
    if (fixed := plan.deterministic) is not None:
        label = f"deterministic plan: {fixed.held_out:.0%}"
        ax.plot(100 * fixed.replay, fixed.tokens / unit, marker="D", ms=7, color=COLOURS[3], label=label, **style)


def plot_frontier(allocations: Sequence[Allocation], ax: Axes | None = None, *, ci_prob: float = 0.9, contours: int = 9) -> Axes:
    """Draw efficient frontiers, the best N over compute with bands, on loss contours of the first (Zheng et al. 2024, fig. 5).

    Parameters
    ----------
    allocations : sequence of Allocation
        Each over at least two values of compute.
    ax, ci_prob : as in `plot_forecast`
    contours : int
        Number of loss contours.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> allocation = bayeslaw.allocate(bayeslaw.load_fit("fit.nc"), np.geomspace(1e19, 1e22, 4))
    >>> bayeslaw.plots.plot_frontier([allocation], Figure().subplots()).get_ylabel()
    'parameters N'
    """
    if not allocations or allocations[0].compute.size < 2:
        raise BayeslawError("A frontier needs a range of compute: give one, such as --compute 1e19:1e24:30.", code="too-few-values")
    first = allocations[0]
    sizes = np.array([np.quantile(a.N, [0.02, 0.98]) for a in allocations])
    n = np.geomspace(float(sizes.min()) / 4, float(sizes.max()) * 4, 60)
    flops = np.geomspace(first.compute.min(), first.compute.max(), 60)
    d = flops[None, :] / (FLOPS * n[:, None])
    places = {"N": n.repeat(60), "D": d.ravel()}
    loss = np.concatenate([s.loss(places, slice(None, None, max(1, s.size // THINNED)), axes=1) for s in first.stages])
    middle = np.median(loss, axis=0).reshape(d.shape)
    low, high = (float(v) for v in np.quantile(middle, [0.02, 0.9]))
    levels = np.unique(np.round(np.geomspace(low, high, contours), 3))
    ax = ax or new_axes()
    lines = ax.contour(flops, n, middle, levels=levels, cmap=COLORMAP, linewidths=0.9)
    ax.clabel(lines, fmt="%.3g", fontsize=6)
    for i, allocation in enumerate(allocations):
        table = allocation.summary(ci_prob)
        lower, upper = (table[name] for name in interval_names("N_eti", ci_prob))
        style: dict[str, Any] = {"color": COLOURS[i], "lw": 2, "marker": MARKERS[i], "ms": 3, "markevery": 4}
        ax.plot(table["compute"], table["N_median"], label=f"best N, {allocation.stage or allocation.name}", **style)
        ax.fill_between(table["compute"], lower, upper, color=COLOURS[i], alpha=0.22, lw=0)
    ax.set(xscale="log", yscale="log")
    title = f"efficient frontier with {ci_prob * 100:g}% equal-tailed bands; contours: median loss ({first.stage or first.name})"
    title += failure(any(a.failed for a in allocations))
    return finish(ax, "compute C = 6ND (FLOPs)", "parameters N", title, loc="upper left", frameon=True)


def plot_savings(transfer: Transfer, ax: Axes | None = None, *, of: str = "saved", ci_prob: float = 0.9) -> Axes:
    """Draw FLOPs saved, or transferred data, over tokens of continual pre-training, with bands (Zheng et al. 2024, fig. 2).

    Parameters
    ----------
    transfer : Transfer
    ax, ci_prob : as in `plot_forecast`
    of : {'saved', 'transferred'}
        FLOPs saved at equal loss in percent, or effectively transferred data in tokens.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> transfer = bayeslaw.transfer(fit, {"N": 1e9, "D": "1e9:1e10:5"}, continued=fit)
    >>> bayeslaw.plots.plot_savings(transfer, Figure().subplots()).get_ylabel()
    'FLOPs saved at equal loss (%)'
    """
    if of not in ("saved", "transferred"):
        raise BayeslawError(f"A picture of savings shows 'saved' or 'transferred', not {of!r}.", code="unknown-option")
    table, (low, high) = transfer.summary(ci_prob), interval_names(f"{of}_eti", ci_prob)
    scale = 100.0 if of == "saved" else 1.0
    ax = ax or new_axes()
    for i, n in enumerate(sorted(table["N"].unique())):
        if i >= len(COLOURS):
            ax.plot([], [], " ", label="… and more sizes not shown")
            break
        rows = table[table["N"] == n].sort_values("D")
        style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 3, "lw": 1.5}
        ax.plot(rows["D"], scale * rows[f"{of}_median"], label=f"N = {short_number(float(n))}", **style)
        ax.fill_between(rows["D"], scale * rows[low], scale * rows[high], color=COLOURS[i], alpha=0.18, lw=0)
    ax.axhline(0, color="0.5", lw=0.8)
    ax.set_xscale("log")
    y = "FLOPs saved at equal loss (%)" if of == "saved" else "effectively transferred data (tokens)"
    title = f"median and {ci_prob * 100:g}% equal-tailed interval{failure(transfer.failed)}"
    return finish(ax, "tokens of continual pre-training", y, title)


def plot_confidence(frontier: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the tokens that a plan needs at each confidence, labelled with the replay share; crosses mark infeasible confidences.

    `frontier` is a table that `bayeslaw plan -o` wrote.
    """
    if missing := [c for c in ("confidence", "tokens", "r") if c not in frontier]:
        raise BayeslawError(
            f"The table of a plan has no column {', '.join(missing)}: write it with `bayeslaw plan -o`.", code="missing-columns"
        )
    feasible = np.isfinite(frontier["tokens"].to_numpy(dtype=np.float64))
    if "plan" in frontier:
        feasible &= (frontier["plan"] == "feasible").to_numpy()
    plans = frontier[feasible].sort_values("confidence")
    ax = ax or new_axes()
    ax.plot(100 * plans["confidence"], plans["tokens"], color=COLOURS[0], marker="o", lw=1.6, ms=5, label="feasible")
    for _, row in plans.iterrows():
        place: dict[str, Any] = {"xytext": (4, -10), "textcoords": "offset points", "fontsize": 7}
        ax.annotate(f"replay {float(row['r']):.0%}", (100 * float(row["confidence"]), float(row["tokens"])), **place)
    infeasible = 100 * frontier["confidence"][~feasible]
    if len(infeasible):
        cross: dict[str, Any] = {"ls": "", "marker": "x", "color": COLOURS[1], "transform": ax.get_xaxis_transform()}
        ax.plot(infeasible, np.full(len(infeasible), 0.03), label="infeasible", **cross)
    if len(plans) and plans["tokens"].max() > 5 * plans["tokens"].min():
        ax.set_yscale("log")
    ax.margins(x=0.12, y=0.15)
    title = "tokens needed for each confidence" + failure(has_failed(frontier))
    return finish(ax, "confidence that all constraints hold (%)", "adaptation tokens", title)


def plot_anchors(anchors: Anchors, ax: Axes | None = None) -> Axes:
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
    ax = ax or new_axes()
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
    return _finish_anchors(ax, f"spent ({anchors.candidates.unit})", width, picks)


def _finish_anchors(ax: Axes, x: str, y: str, picks: pd.DataFrame) -> Axes:
    """Label the axes of a picture of chosen runs; its vertical label is long and therefore smaller."""
    finish(ax, x, y, "predicted gain from the next runs" + failure(has_failed(picks)))
    ax.set_ylim(bottom=0)
    ax.yaxis.label.set_fontsize(8)
    return ax


def width_column(picks: pd.DataFrame) -> str:
    """Return the name of the column of predicted interval widths in a table of chosen runs, such as latent_eti90_width."""
    widths = [str(c) for c in picks if str(c).endswith("_width")]
    if len(widths) != 1 or "spent" not in picks:
        message = "This table lacks the column `spent` or a single one that ends in _width: write it with `bayeslaw anchors -o`."
        raise BayeslawError(message, code="missing-columns")
    return widths[0]


def plot_picks(picks: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the predicted interval width after each chosen run against the budget spent; hollow marks are not worth their price.

    `picks` is a table that `bayeslaw anchors -o` wrote.
    """
    name = width_column(picks)
    ax = ax or new_axes()
    ax.step(picks["spent"], picks[name], where="post", color=COLOURS[0], lw=1.6)
    worth = picks["worth"].astype(bool) if "worth" in picks else pd.Series(True, index=picks.index)
    for some, face, label in ((worth, COLOURS[0], "worth its price"), (~worth, "white", "not worth its price")):
        if some.any():
            ax.plot(picks["spent"][some], picks[name][some], ls="", marker="o", ms=6, mfc=face, mec=COLOURS[0], label=label)
    width = f"predicted {name.removesuffix('_width').replace('_eti', ' interval, equal-tailed, ')}%, width"
    return _finish_anchors(ax, "spent (unit of the budget)", width, picks)
