"""Pictures of compute: efficient frontiers, losses at equal compute, savings by continual pre-training, costs of whole lives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, evenly
from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.core.text import compact, counted
from bayeslaw.forecasting.outside import size_and_tokens_outside
from bayeslaw.planning.allocation import Allocation
from bayeslaw.planning.life import WholeLife
from bayeslaw.planning.life_costs import UNITS
from bayeslaw.planning.transfer import Transfer
from bayeslaw.plots.several import Drawing, check_axes, drawings_on, finish_all, free_places, numbered
from bayeslaw.plots.style import (
    COLOURS,
    MARKERS,
    MOST_LINES,
    SMALL,
    axes_of,
    draw_band,
    expect,
    failure,
    finish,
    note_hidden,
    short_number,
)
from bayeslaw.posterior.draws import JoinedDraws

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

CONTOURS = 9  # of the loss, below a frontier
AROUND = 12.0  # factor about the best N in which losses at equal compute are drawn
THINNED = 400  # draws whose median is drawn as a landscape
MENU = "best: the probability that it is the best of the menu"


def plot_frontier(
    allocations: Allocation | Sequence[Allocation], ax: Axes | None = None, *, ci_prob: float = 0.9, label: str = ""
) -> Axes:
    """Draw efficient frontiers, the best N over compute with bands, on loss contours of the first (Zheng et al. 2024, fig. 5).

    Small points are the fitted rows. The ground is hatched where N, D, compute or D / N leave their range. Contours, points and
    ground are of the first of all frontiers on the axes.

    Parameters
    ----------
    allocations : Allocation or sequence of Allocation
        Each over at least two values of compute ('too-few-values'), at most as many as there are colours ('too-many-lines').
    ax, ci_prob : as in `plot_forecast`
    label : str
        What the legend calls these frontiers, where others are drawn on the same axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> allocation = bayeslaw.allocate(bayeslaw.load_fit("fit.nc"), np.geomspace(1e19, 1e22, 4))
    >>> bayeslaw.plots.plot_frontier(allocation, Figure().subplots()).get_ylabel()
    'parameters N'
    """
    allocations = [allocations] if not isinstance(allocations, Sequence) or isinstance(allocations, str) else allocations
    for allocation in allocations:
        expect(allocation, Allocation, "fit.allocate(compute)")
    if not allocations or min(np.unique(a.compute).size for a in allocations) < 2:
        raise BayeslawError("A frontier needs a range of compute: give one, such as 1e19:1e24:30.", code="too-few-values")
    if len(allocations) > MOST_LINES:
        raise BayeslawError(f"{len(allocations)} frontiers are too many for one picture: give {MOST_LINES}.", code="too-many-lines")
    ax, shown = axes_of(ax), ("compute C = 6ND (FLOPs)", "parameters N")
    check_axes(ax, shown)
    alone = not drawings_on(ax)
    notes = _contours(allocations, ax) if alone else []
    curves: list[tuple[Line2D, str]] = []
    ends = list[tuple[pd.Series, pd.Series]]()
    names = numbered([allocation.label for allocation in allocations])
    for i, allocation, name in zip(free_places(ax, len(allocations)), allocations, names, strict=True):
        table = allocation.summary(ci_prob).sort_values("compute")
        lower, upper = (table[name] for name in interval_names("N_eti", ci_prob))
        style: dict[str, Any] = {"color": COLOURS[i], "lw": 2, "marker": MARKERS[i], "ms": 4, "markevery": 4, "mec": "white"}
        (line,) = ax.plot(table["compute"], table["N_median"], **style)
        ax.fill_between(table["compute"], lower, upper, color=COLOURS[i], alpha=0.3, lw=0)
        curves.append((line, f"best N, {name}"))
        ends.append((table["compute"], table["N_median"]))
    notes += _ground(allocations[0], ax) if alone else []
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    within = [(c.min() >= left) & (c.max() <= right) & (n.min() >= bottom) & (n.max() <= top) for c, n in ends]
    if cut := len(within) - sum(within):
        notes.append(f"{counted(cut, 'frontier')} {'goes' if cut == 1 else 'go'} on outside the picture")
    title = f"efficient frontier with {ci_prob * 100:g}% equal-tailed bands" + failure(any(a.failed for a in allocations))
    return finish_all(ax, Drawing(label, allocations[0].name, "", tuple(curves), (), tuple(notes), title, shown))


def _contours(allocations: Sequence[Allocation], ax: Axes) -> list[str]:
    """Draw the median losses of the first allocation as lines, by which the axes have their limits, and return notes on them."""
    first = allocations[0]
    sizes = np.array([np.quantile(a.N, [0.02, 0.98]) for a in allocations])
    n = np.geomspace(float(sizes.min()) / 4, float(sizes.max()) * 4, 120)
    flops = np.geomspace(first.compute.min(), first.compute.max(), 120)
    tokens = (flops[None, :] / (FLOPS * n[:, None])).ravel()
    middle = np.median(_losses(first, n.repeat(flops.size), tokens, thinned=True), axis=0)
    low, high = (float(v) for v in np.quantile(middle, [0.02, 0.9]))
    levels = np.unique(np.round(np.geomspace(low, high, CONTOURS), 3))
    lines = ax.contour(flops, n, middle.reshape(n.size, -1), levels=levels, colors="0.4", linewidths=0.9)
    # Labels stand on a path below the frontier, apart from each other, and on their lines: cut out, they take most of some lines.
    order = np.argsort(first.compute)
    best = np.exp(np.interp(np.log(flops), np.log(first.compute[order]), np.median(np.log(first.N), axis=0)[order]))
    along = np.median(_losses(first, best / 2.5, flops / (FLOPS * best / 2.5), thinned=True), axis=0)
    ax.set(xscale="log", yscale="log", xlim=(flops[0], flops[-1]), ylim=(n[0], n[-1]))
    kept = [level for level in levels if along.min() < level < along.max()]
    at = [int(np.abs(along - level).argmin()) for level in kept]
    places = [(float(flops[i]), float(best[i] / 2.5)) for i in at if 3 <= i < flops.size - 3]
    for text in ax.clabel(lines, fmt="%.3g", fontsize=SMALL, inline=False, manual=places):
        text.set(rotation=0, color="black", bbox={"fc": "white", "ec": "none", "pad": 1.0})
    return [f"lines: median loss ({first.unit}) of {first.label}, from {_thinned(first)}", *_erring("lines", first)]


def _losses(allocation: Allocation, n: Array, d: Array, *, thinned: bool = False) -> Array:
    """Return losses (S, m) at N and D (m,) by all or some draws, with the law's error where the allocation has it."""
    parts = []
    for law, errors in zip(allocation.stages, allocation.errors, strict=True):
        some = slice(None, None, _step(law.size) if thinned else 1)
        losses = law.outcome({"N": n, "D": d}, some, axes=1)
        parts.append(losses if errors is None else losses * np.exp(errors.of(some).at({**law.constants, "N": n, "D": d}).T))
    return np.concatenate(parts)


def _step(size: int) -> int:
    return max(1, size // THINNED)


def _thinned(allocation: Allocation) -> str:
    """Say how many draws contours take."""
    used, size = sum(-(-s.size // _step(s.size)) for s in allocation.stages), JoinedDraws(allocation.stages).size
    return f"{used:,} of {size:,} draws" if used < size else f"{size:,} draws"


def _erring(drawn: str, allocation: Allocation) -> list[str]:
    """Say that what is drawn has the law's error, where it has."""
    if all(errors is None for errors in allocation.errors):
        return []
    return [f"{drawn} have the law's error" + ("" if allocation.extrapolated else ", in half of the draws")]


def _ground(allocation: Allocation, ax: Axes) -> list[str]:
    """Draw the fitted rows over compute and N, and hatch the ground outside them; return notes of what is not drawn."""
    if not len(allocation.runs):
        return []
    own_n, own_d = allocation.runs.T
    own = FLOPS * own_n * own_d
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    flops, n = np.geomspace(left, right, 400), np.geomspace(bottom, top, 400)
    seen = _within(allocation, n.repeat(flops.size), np.tile(flops, n.size)).reshape(n.size, -1)
    if not seen.all():
        ax.contourf(flops, n, seen, levels=[-0.5, 0.5], colors=["0.95"], zorder=-2)
        ax.contourf(flops, n, seen, levels=[-0.5, 0.5], colors="none", hatches=["//"], zorder=-1).set(edgecolor="0.8", linewidth=0)
        ax.fill([left], [bottom], fc="0.95", ec="0.8", hatch="//", lw=0, label="outside the runs in N, D, compute or D / N")
    inside = (own >= left) & (own <= right) & (own_n >= bottom) & (own_n <= top)
    if inside.any():
        ax.plot(own[inside], own_n[inside], ls="", marker=".", ms=4, color="black", label=f"fitted settings: {inside.sum()}")
    return [] if inside.all() else [f"{(~inside).sum()} of {inside.size} fitted settings lie outside the picture"]


def plot_isoflops(allocation: Allocation, ax: Axes | None = None, *, ci_prob: float = 0.9, most: int = 5) -> Axes:
    """Draw the loss over N at some budgets of compute, with bands, and mark the best N of each (Hoffmann et al. 2022, fig. 3).

    The marks have the intervals of best N and of its loss. Lines are dashed where N, D, compute or D / N leave the range of the
    runs.

    Parameters
    ----------
    allocation : Allocation
    ax, ci_prob : as in `plot_forecast`
    most : int
        Number of budgets, up to the number of colours; they are evenly chosen from those of the allocation.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> allocation = bayeslaw.allocate(bayeslaw.load_fit("fit.nc"), "1e19:1e22:4")
    >>> bayeslaw.plots.plot_isoflops(allocation, Figure().subplots()).get_xlabel()
    'parameters N'
    """
    expect(allocation, Allocation, "fit.allocate(compute)")
    most = whole_number("most", most, 1)
    table = allocation.summary(ci_prob)
    count = len(table)
    chosen = evenly(count, min(most, MOST_LINES))
    ends = {
        name: [table[end].to_numpy(dtype=np.float64) for end in interval_names(f"{name}_eti", ci_prob)] for name in ("N", "loss")
    }
    ax = axes_of(ax)
    for i, place in enumerate(chosen.tolist()):
        flops, best, loss = (float(table[name].iloc[place]) for name in ("compute", "N_median", "loss_median"))
        n = np.geomspace(best / AROUND, best * AROUND, 81)
        middle, low, high = quantiles(_losses(allocation, n, flops / (FLOPS * n)), ci_prob, axis=0)
        seen = _within(allocation, n, np.full(n.size, flops))
        colour = COLOURS[i]
        ax.plot(n, middle, color=colour, lw=1.3, ls=(0, (3, 2)), zorder=2)
        ax.plot(n, np.where(seen, middle, np.nan), color=colour, lw=2, zorder=2)
        ax.fill_between(n, low, high, color=colour, alpha=0.2, lw=0)
        bars = [
            [[centre - pair[0][place]], [pair[1][place] - centre]] for centre, pair in ((best, ends["N"]), (loss, ends["loss"]))
        ]
        style: dict[str, Any] = {"marker": MARKERS[i], "ms": 6, "mec": "white", "color": colour, "ecolor": "black", "zorder": 4}
        label = f"{flops:.3g} FLOPs: best N {short_number(best)}"
        ax.errorbar([best], [loss], xerr=bars[0], yerr=bars[1], ls="", elinewidth=1, capsize=2, label=label, **style)
    ax.set_xscale("log")
    notes = [f"bands: {ci_prob * 100:g}% equal-tailed", *_erring("curves and marks", allocation)]
    if len(allocation.runs):
        notes.append("dashed: outside the runs in N, D, compute or D / N")
    if count > len(chosen):
        notes.append(f"{count - len(chosen)} of {count} budgets are not drawn")
    title = f"{allocation.label}: loss over N at equal compute, best N marked" + failure(allocation.failed)
    return finish(ax, "parameters N", f"loss ({allocation.unit})", title, notes)


def _within(allocation: Allocation, n: Array, flops: Array) -> NDArray[np.bool_]:
    """Mark the places (m,) that lie in the range of the runs; all where these are not known."""
    if not len(allocation.runs):
        return np.ones(n.size, dtype=bool)
    return ~size_and_tokens_outside(allocation.runs, np.column_stack([n, flops / (FLOPS * n)]))


def plot_savings(transfer: Transfer, ax: Axes | None = None, *, of: str = "saved", ci_prob: float = 0.9, label: str = "") -> Axes:
    """Draw FLOPs saved, or transferred data, over tokens of continual pre-training, with bands (Zheng et al. 2024, fig. 2).

    Parameters
    ----------
    transfer : Transfer
    ax, ci_prob : as in `plot_forecast`
    of : {'saved', 'transferred'}
        FLOPs saved at equal loss in percent, or effectively transferred data in tokens.
    label : str
        What the legend calls this transfer, where several are drawn on the same axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> transfer = bayeslaw.transfer(fit, {"N": 1e9, "D": "1e9:1e10:5"}, continued=fit)
    >>> bayeslaw.plots.plot_savings(transfer, Figure().subplots()).get_ylabel()
    'FLOPs saved at equal loss (%)'
    """
    expect(transfer, Transfer, "fit.transfer(settings)")
    if of not in ("saved", "transferred"):
        raise BayeslawError(f"A picture of savings shows 'saved' or 'transferred', not {of!r}.", code="unknown-option")
    table, (low, high) = transfer.summary(ci_prob), interval_names(f"{of}_eti", ci_prob)
    scale = 100.0 if of == "saved" else 1.0
    ax, x = axes_of(ax), "tokens of continual pre-training"
    y = "FLOPs saved at equal loss (%)" if of == "saved" else "effectively transferred data (tokens)"
    check_axes(ax, (x, y))
    sizes = sorted(table["N"].unique())[:MOST_LINES]
    curves: list[tuple[Line2D, str]] = []
    for i, n in zip(free_places(ax, len(sizes)), sizes, strict=True):
        rows = table[table["N"] == n].sort_values("D")
        style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 3, "lw": 1.5}
        (line,) = ax.plot(rows["D"], scale * rows[f"{of}_median"], **style)
        draw_band(ax, rows["D"], scale * rows[low], scale * rows[high], color=COLOURS[i], alpha=0.18)
        curves.append((line, f"N = {short_number(float(n))}"))
    note_hidden(ax, table["N"].nunique(), "size")
    ax.axhline(0, color="0.5", lw=0.8)
    ax.set_xscale("log")
    title = f"median and {ci_prob * 100:g}% equal-tailed interval{failure(transfer.failed)}"
    return finish_all(ax, Drawing(label, "transfer", "", tuple(curves), (), (), title, (x, y)))


def plot_whole_life(life: WholeLife, ax: Axes | None = None, *, ci_prob: float = 0.9) -> Axes:
    """Draw what each size takes over its whole life for a target loss, or the loss that it reaches within a budget.

    Lines are the choice at the confidence at each size, bands the draws by themselves. The star marks the plan, the diamond the
    deterministic plan, and the circle what the costs of training alone would choose. A menu has marks with bars instead, and the
    probability that each size is the best.

    Parameters
    ----------
    life : WholeLife
        Whole-life costs of up to as many budgets or target losses as there are colours; further ones are counted.
    ax, ci_prob : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> life = bayeslaw.planning.whole_life(bayeslaw.load_fit("fit.nc"), compute=1e21, served=1e11)
    >>> bayeslaw.plots.plot_whole_life(life, Figure().subplots()).get_xlabel()
    'parameters N'
    """
    expect(life, WholeLife, "bayeslaw.planning.whole_life(fit, …)")
    unit, values, unreached, open_ended = UNITS[life.unit], life.given.tolist(), 0, False
    ax = axes_of(ax)
    for i, (value, search) in enumerate(list(zip(values, life.searches, strict=True))[:MOST_LINES]):
        n = _shown_sizes(life, i)
        choices = search.at_sizes(n, life.confidence)
        line = np.array([math.nan if c is None else c.loss if life.budgeted else c.costs[life.unit] for c in choices])
        _, low, high = quantiles(np.exp(search.own(n, 1)[1]), ci_prob, axis=0, method="nearest")
        asked = f"{compact(value)} {unit}" if life.budgeted else f"loss {value:g}"
        if life.sizes is None:
            ax.plot(n, line, color=COLOURS[i], lw=2, label=f"{asked}, confidence {life.confidence:.0%}")
            endless = np.nan if life.budgeted else 1e6 * low  # beyond the picture
            ax.fill_between(n, low, np.where(np.isfinite(high), high, endless), color=COLOURS[i], alpha=0.2, lw=0)
        else:
            _menu_marks(life, ax, i, line, (low, high), f"{asked}, confidence {life.confidence:.0%}")
            unreached += int((~np.isfinite(low) & ~np.isfinite(line)).sum())
            open_ended |= bool((np.isfinite(low) & ~np.isfinite(high)).any())
        _life_marks(life, ax, i)
    note_hidden(ax, len(values))
    if life.sizes is None:
        ax.set_xscale("log")
    if not life.budgeted:
        ax.set_yscale("log")
        finite = [c.costs[life.unit] for c in (*life.best, *life.training_only) if c is not None]
        if life.sizes is None:  # sizes that barely reach the loss take any amount
            ax.set_ylim(top=max(finite, default=1.0) * 8, bottom=min(finite, default=1.0) / 4)
    served = life.costs.served
    amount = f"{compact(float(np.mean(served)))} served tokens" + ("" if np.ptp(served) == 0 else " in the mean")
    notes = [f"{'bars' if life.sizes is not None else 'bands'}: {ci_prob * 100:g}% equal-tailed, of the draws by themselves"]
    if life.sizes is not None:
        notes.append(MENU)
    if open_ended:
        notes.append("bars with an arrow have no end: some draws don't get there with this size")
    if unreached:
        notes.append(f"{counted(unreached, 'size')} not drawn, with which it can't be done")
    y = f"loss ({life.loss_unit})" if life.budgeted else f"{unit} of the whole life"
    title = f"{life.name}: {'loss within a whole-life budget' if life.budgeted else f'whole-life {unit} for a loss'}, {amount}"
    return finish(ax, "parameters N", y, title + failure(life.failed), notes)


def _shown_sizes(life: WholeLife, number: int) -> Array:
    """Return the sizes that a picture shows: those of the menu, or some around the marks."""
    if life.sizes is not None:
        return life.sizes
    marks = [c.N for c in (life.best[number], life.deterministic[number], life.training_only[number]) if c is not None]
    low, high = life.searches[number].span
    ends = (max(low, math.log(min(marks) / 5)), min(high, math.log(max(marks) * 5))) if marks else (low, high)
    return np.exp(np.linspace(*ends, 41))


def _menu_marks(life: WholeLife, ax: Axes, number: int, line: Array, ends: tuple[Array, Array], label: str) -> None:
    """Draw the sizes of a menu with intervals, and the probability that each is the best."""
    assert life.sizes is not None
    low, high = ends
    some = np.isfinite(low)
    cap = 10 * float(np.fmax(low[some].max(initial=0.0), np.nanmax(line, initial=0.0)))
    endless = some & ~np.isfinite(high)
    ax.vlines(life.sizes[some], low[some], np.where(endless, cap, high)[some], color=COLOURS[number], lw=6, alpha=0.25)
    if endless.any():
        ax.plot(life.sizes[endless], np.full(endless.sum(), cap), ls="", marker="^", ms=6, color=COLOURS[number], alpha=0.5)
    ax.plot(life.sizes, line, ls="", marker=MARKERS[number], ms=6, color=COLOURS[number], mec="white", label=label)
    shares = life.menu["probability_best"].to_numpy().reshape(life.given.size, -1)[number]
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top", "fontsize": SMALL}
    for n, bottom, share in zip(life.sizes[some].tolist(), low[some].tolist(), shares[some].tolist(), strict=True):
        ax.annotate(f"best {share:.0%}", (n, bottom), xytext=(0, -4), **style)
    ax.margins(x=0.1, y=0.15)
    ax.set_xscale("log")
    ax.set_xticks(life.sizes, [short_number(float(n)) for n in life.sizes], minor=False)
    ax.set_xticks([], minor=True)


def _life_marks(life: WholeLife, ax: Axes, number: int) -> None:
    """Mark the plan, the deterministic plan, and the choice by the costs of training alone."""
    style: dict[str, Any] = {"ls": "", "zorder": 5, "color": COLOURS[number]}
    marks = [(life.best[number], "*", 15, "plan"), (life.deterministic[number], "D", 6, "deterministic plan")]
    if life.costs.serves:
        marks.append((life.training_only[number], "o", 7, "by the costs of training alone"))
    for choice, marker, size, name in marks:
        if choice is not None:
            y = choice.loss if life.budgeted else choice.costs[life.unit]
            held = f": kept with {choice.held_out:.0%}" if name == "deterministic plan" else ""
            label = f"{name}, N = {short_number(choice.N)}{held}" if number == 0 else None
            face = {"mfc": "white", "mec": COLOURS[number], "mew": 1.5} if marker == "o" else {"mec": "white"}
            ax.plot(choice.N, y, marker=marker, ms=size, label=label, **style, **face)
