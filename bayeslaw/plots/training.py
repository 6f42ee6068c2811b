"""Pictures of the dynamics: transfer curves, slices of the loss surface, best recipes, turning points, runs under way.

They take axes, return them, and save nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import check_probability, quantiles
from bayeslaw.dynamics.monitor import Watch
from bayeslaw.dynamics.optimise import Balance
from bayeslaw.dynamics.recipe import Recipe, losses
from bayeslaw.dynamics.turning_points import TurningPoint
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.plots.style import COLOURS, DASHES, MARKERS, failure
from bayeslaw.schedules.areas import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 160
LABELS = {
    "peak": "highest learning rate of the adaptation",
    "steps": "steps of the adaptation",
    "potential": "loss potential (last rate of pre-training / its highest)",
    "r": "replay share",
}


def _band(ax: Axes, x: object, draws: ArrayLike, colour: str, label: str, style: str = "solid", ci_prob: float = 0.9) -> None:
    """A median with its equal-tailed interval; draws (n, S)."""
    middle, low, high = quantiles(draws, ci_prob, axis=-1)
    ax.plot(np.asarray(x), middle, color=colour, lw=1.8, ls=style, label=label)
    ax.fill_between(np.asarray(x), low, high, color=colour, alpha=0.2, lw=0)


def _steps(recipe: Recipe) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, len(recipe.schedule), POINTS).round().astype(np.int64))


def plot_transfer(
    recipe: Recipe, posterior: Posterior, ax: Axes, *, logged: pd.DataFrame | None = None, ci_prob: float = 0.9
) -> Axes:
    """The loss of an adaptation between the two hidden pre-training curves (Wang et al. 2025, fig. 1), each with its band.

    Parameters
    ----------
    recipe : Recipe
    posterior : Fit or Stack
    ax : matplotlib Axes
    logged : DataFrame, optional
        Measured losses to draw beside: columns step and loss.
    ci_prob : float
    """
    check_probability(ci_prob)
    steps = _steps(recipe)
    after = steps[1:] if recipe.point.pretrain is not None else steps
    if recipe.point.pretrain is not None and recipe.point.adapt is None:
        _band(
            ax,
            after,
            losses(posterior, recipe.without_shift(after)),
            COLOURS[0],
            "hidden: pre-training data goes on",
            "dashed",
            ci_prob,
        )
    if not isinstance(recipe.start, Point):
        _band(
            ax,
            after,
            losses(posterior, recipe.from_scratch(after)),
            COLOURS[1],
            "hidden: adaptation data from scratch",
            "dashdot",
            ci_prob,
        )
    _band(ax, steps, losses(posterior, recipe.rows(steps)), COLOURS[2], "adaptation", "solid", ci_prob)
    if logged is not None:
        ax.plot(logged["step"], logged["loss"], ls="", marker=MARKERS[0], ms=3, color="black", label="logged")
    ax.set_xlabel("steps of the adaptation")
    ax.set_ylabel(f"loss ({posterior.unit})")
    failed = failure(not posterior.passed)
    ax.set_title(f"{posterior.name}: median and {ci_prob * 100:g}% equal-tailed band{failed}", fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def plot_surface(
    recipe: Recipe, posterior: Posterior, ax: Axes, *, slices: Sequence[float] = (0.0, 0.5, 1.0), ci_prob: float = 0.9
) -> Axes:
    """Slices of the loss surface: loss over the adaptation's forward area at several annealing areas (Wang et al. 2025, fig. 4).

    Parameters
    ----------
    recipe : Recipe
    posterior : Fit or Stack
    ax : matplotlib Axes
    slices : sequence of float
        Annealing areas, as shares of the recipe's own at its end; the path of the recipe lies across them.
    ci_prob : float
    """
    check_probability(ci_prob)
    steps = _steps(recipe)
    path = recipe.rows(steps)
    if not {"S1_cpt", "S2_cpt"} <= set(posterior.measured):
        raise BayeslawError(f"{posterior.name} has no areas of an adaptation (S1_cpt, S2_cpt): there is no surface to slice.")
    end = float(path["S2_cpt"].iloc[-1])
    for i, share in enumerate(slices):
        at = path.assign(S2_cpt=share * end)
        if "S2_pt" in at:
            at = at.assign(S2=at["S2_pt"] + at["S2_cpt"])
        _band(
            ax,
            path["S1_cpt"],
            losses(posterior, at),
            COLOURS[i % len(COLOURS)],
            f"S2_cpt = {share * end:.3g}",
            DASHES[i % len(COLOURS)],
            ci_prob,
        )
    middle = np.median(losses(posterior, path), axis=1)
    ax.plot(path["S1_cpt"], middle, color="black", lw=1.2, marker="o", markevery=20, ms=3, label="path of the recipe")
    ax.set_xlabel("forward area of the adaptation S1_cpt (learning rate x steps)")
    ax.set_ylabel(f"loss ({posterior.unit})")
    failed = failure(not posterior.passed)
    ax.set_title(f"{posterior.name}: slices, median and {ci_prob * 100:g}% equal-tailed band{failed}", fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def plot_optimum(balances: Sequence[Balance], name: str, ax: Axes, *, ci_prob: float = 0.9) -> Axes:
    """The best value of a choice over the weight of the source (Wang et al. 2025, fig. 8): chosen, plug-in, where each draw has it.

    Parameters
    ----------
    balances : sequence of Balance
        As `balance.curve` gives them.
    name : str
        The choice: peak, steps, potential or r.
    ax : matplotlib Axes
    ci_prob : float
    """
    check_probability(ci_prob)
    if not balances or name not in balances[0].choice:
        known = ", ".join(balances[0].choice) if balances else "none"
        raise BayeslawError(f"{name!r} was not chosen; {known} was.")
    order = sorted(balances, key=lambda b: b.objective.weight)
    weights = np.array([b.objective.weight for b in order])
    k = list(order[0].choice).index(name)
    own = np.array([[b.landscape.space.choices(one)[name] for one in b.own] for b in order])
    _, low, high = quantiles(own, ci_prob, axis=1)
    ax.fill_between(
        weights, low, high, color=COLOURS[0], alpha=0.2, lw=0, label=f"best of single draws, {ci_prob * 100:g}% equal-tailed"
    )
    ax.plot(weights, [b.choice[name] for b in order], color=COLOURS[0], marker=MARKERS[0], ms=4, label="chosen")
    ax.plot(
        weights,
        [b.plug_in[name] for b in order],
        color=COLOURS[1],
        ls="dashed",
        marker=MARKERS[1],
        ms=4,
        label="without uncertainty",
    )
    if name in ("peak", "steps"):
        ax.set_yscale("log")
    bottom, top = list(order[0].landscape.space.ranges.values())[k]
    for edge in (bottom, top):
        ax.axhline(edge, color="0.6", lw=0.8, ls="dotted")
    ax.set_xlabel("weight of the source loss")
    ax.set_ylabel(LABELS[name])
    ax.set_title(f"least weighted change of source and target loss{failure(any(b.failed for b in balances))}", fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def plot_turning_point(turning: TurningPoint, ax: Axes, *, ci_prob: float = 0.9) -> Axes:
    """The loss over the length of the adaptation, with its base and limit (Wang et al. 2025, fig. 7c)."""
    check_probability(ci_prob)
    _band(ax, turning.steps, turning.loss.T, COLOURS[0], "loss at the end", "solid", ci_prob)
    ends = turning.steps[[0, -1]]
    _band(ax, ends, np.tile(turning.base, (2, 1)), COLOURS[1], "base, before the adaptation", "dashed", ci_prob)
    _band(ax, ends, np.tile(turning.limit, (2, 1)), COLOURS[2], "limit", "dotted", ci_prob)
    ax.set_xscale("log")
    if turning.outside.any():
        low, high = turning.known or (ends[1], ends[1])
        for start, end in ((ends[0], low), (high, ends[1])):
            if start < end:
                ax.axvspan(start, end, color="0.92", zorder=0)
        ax.plot([], [], color="0.88", lw=6, label="outside the runs fitted")
    ax.set_xlabel("length of the adaptation (steps)")
    what = "source loss" if turning.weight == 1 else f"{turning.weight:g} source + {1 - turning.weight:g} target loss"
    ax.set_ylabel(f"{what} ({turning.unit})")
    chance = f"base regained with probability {turning.within:.0%} within, {turning.ever:.0%} ever"
    bands = f"medians and {ci_prob * 100:g}% equal-tailed bands"
    ax.set_title(f"{chance}\n{bands}{failure(turning.failed)}", fontsize=9)
    ax.legend(fontsize=7, framealpha=0.9, edgecolor="none")  # bands reach under it
    return ax


def plot_watch(watch: Watch, ax: Axes, *, logged: pd.DataFrame | None = None, ci_prob: float = 0.9) -> Axes:
    """A run under way: what it has logged, and its loss ahead with a band and a few paths."""
    check_probability(ci_prob)
    if logged is not None:
        ax.plot(logged["step"], logged["loss"], ls="", marker=MARKERS[0], ms=3, color="black", label="logged")
    _band(ax, watch.steps, watch.loss.T, COLOURS[0], f"ahead, {ci_prob * 100:g}% equal-tailed", "solid", ci_prob)
    for i in range(0, len(watch.loss), max(len(watch.loss) // 5, 1)):
        ax.plot(watch.steps, watch.loss[i], color=COLOURS[0], lw=0.5, alpha=0.6)
    if watch.target is not None:
        said = f"target, reached by the end with probability {watch.reached[-1]:.0%}"
        ax.axhline(watch.target, color=COLOURS[1], ls="dashed", label=said)
    ax.axvline(watch.step, color="0.6", lw=0.8)
    ax.set_xlabel("step")
    ax.set_ylabel(f"loss ({watch.unit})")
    ax.set_title(watch.run + failure(watch.failed), fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax
