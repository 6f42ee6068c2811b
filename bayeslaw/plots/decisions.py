"""Pictures of decisions: the feasible region of a plan, menus of checkpoints, the cost of confidence, tuning, runs to buy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.html import header
from bayeslaw.core.intervals import quantiles
from bayeslaw.data.validate import complete
from bayeslaw.design.anchors import Anchors
from bayeslaw.planning.life_costs import UNITS
from bayeslaw.planning.menu import PlanMenu
from bayeslaw.planning.plan import Plan, PlanPoint
from bayeslaw.planning.prices import WholeLifeCost
from bayeslaw.planning.search import values_at, values_on_grid
from bayeslaw.planning.tuning import Tuning, best_values
from bayeslaw.plots.allocation import MENU, THINNED
from bayeslaw.plots.style import (
    COLORMAP,
    COLOURS,
    HATCHED,
    SMALL,
    axes_of,
    expect,
    failure,
    finish,
    has_failed,
    short_number,
)
from bayeslaw.posterior.draws import JoinedDraws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AWAY, POINTS = 8.0, 81  # factor beyond the interval of the best value in which costs are drawn, and at how many values
GRID = (61, 81)  # replay shares, log tokens


def plot_plan(plan: Plan, ax: Axes | None = None, *, of: str = "", levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95)) -> Axes:
    """Draw the probability that all constraints hold over replay share and tokens, as contours (Goffinet et al. 2025, fig. 2).

    The star marks the plan, or the most probable point where no plan is feasible. The diamond marks the deterministic plan. The
    ground is hatched where replay share or tokens leave the range of the runs of a fit.

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
    expect(plan, Plan, "bayeslaw.plan(source, target, settings)")
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
    some = plan.draws[:: max(1, plan.draws.size // THINNED)]
    ax = axes_of(ax)
    if of:
        from matplotlib.ticker import MaxNLocator

        table, label = _landscape(plan, of, some, x, r)
        bottom, top = np.quantile(table, [0.03, 0.97])  # the barrier at r = 0 would use up all colours
        steps = MaxNLocator(14).tick_values(bottom, top if top > bottom else bottom + 1e-6)
        shade = ax.contourf(100 * r, across, table.T, levels=steps, cmap=COLORMAP, alpha=0.85, extend="both")
        bar = ax.figure.colorbar(shade, ax=ax, pad=0.02)
        bar.set_label(label, fontsize=SMALL)
        bar.ax.tick_params(labelsize=SMALL)
    chance = plan.probability(np.exp(x), r)
    ink = "white" if of else COLOURS[0]
    if not of:
        ax.contourf(100 * r, across, chance.T, levels=np.linspace(0, 1, 11), cmap="Greys", alpha=0.5)
    drawn = [level for level in sorted(levels) if chance.min() < level < chance.max()]
    if drawn:
        styles = ["dotted", "dashdot", "dashed", "solid"]
        styles = [styles[i % len(styles)] for i in range(-len(drawn), 0)]
        ax.contour(100 * r, across, chance.T, levels=drawn, colors=ink, linewidths=1.6, linestyles=styles)
        for level, style in zip(drawn, styles, strict=True):  # labels on lines so close would lie on each other
            ax.plot([], [], color="0.3" if of else ink, lw=1.6, ls=style, label=f"probability {level:.0%}")
    hatched = _hatch_outside(plan, ax, 100 * r[[0, -1]], across[[0, -1]], unit)
    _marks(plan, ax, unit)
    ax.set_yscale("log")
    y = "adaptation tokens per parameter" if math.isfinite(problem.n) else "adaptation tokens"
    colours = {"": "", "forgetting": ", colours: median forgetting", "target-loss": ", colours: median target loss"}[of]
    title = f"probability that all constraints hold ({plan.on}){colours}{failure(plan.forced)}"
    notes = [f"colours: from {some.size:,} of {plan.draws.size:,} draws"] if of and some.size < plan.draws.size else []
    notes += ["hatched: outside the runs"] if hatched else []
    return finish(ax, "replay share (%)", y, title, notes)


def _landscape(plan: Plan, of: str, some: Index, x: Array, r: Array) -> tuple[Array, str]:
    """Return medians (R, n) of the target loss, or of forgetting in percent, by some draws, and their label."""
    problem = plan.problem
    if of == "target-loss" and problem.target is not None:
        label = f"target loss ({problem.target.unit}), median"
        return np.exp(np.median(values_on_grid([problem.target], some, x, r)[0], axis=1)), label
    name, base = next(iter(problem.base_losses.items()))
    source = next(s for s in problem.sources if s.name == name)
    rise = values_on_grid([source], some, x, r)[0] - base.log[some][None, :, None]
    return 100 * np.expm1(np.median(rise, axis=1)), f"forgetting of {name} (% of base loss), median"


def _hatch_outside(plan: Plan, ax: Axes, replay: Array, tokens: Array, unit: float) -> bool:
    """Hatch where a window, whose ends (2,) are given, leaves the runs of a fit; return whether it does."""
    runs = [fit.observed.covariates for loss in plan.problem.losses for fit, _ in loss.posterior.selections]
    hatched = False
    for name, scale, (start, end), span in (("r", 100.0, replay, ax.axvspan), ("D", 1 / unit, tokens, ax.axhspan)):
        seen = [scale * of[name] for of in runs if name in of]
        low, high = (max(v.min() for v in seen), min(v.max() for v in seen)) if seen else (start, end)
        for a, b in ((start, min(low, end)), (max(high, start), end)):
            if a < b:
                span(a, b, fc="none", zorder=1.5, **HATCHED)
                hatched = True
    return hatched


def _marks(plan: Plan, ax: Axes, unit: float) -> None:
    """Mark the plan and the deterministic plan, with the probabilities of both."""
    style: dict[str, Any] = {"mec": "white", "ls": "", "zorder": 5, "clip_on": False}  # a plan may lie on the edge
    if (best := plan.shown) is not None:
        label = f"plan at {plan.confidence:.0%}" if plan.best is not None else f"most probable point: kept with {best.held_out:.0%}"
        ax.plot(100 * best.replay, best.tokens / unit, marker="*", ms=16, color=COLOURS[1], label=label, **style)
    if (fixed := plan.deterministic) is not None:
        label = f"deterministic plan: kept with {fixed.held_out:.0%}"
        ax.plot(100 * fixed.replay, fixed.tokens / unit, marker="D", ms=7, color=COLOURS[3], label=label, **style)


def plot_menu(menu: PlanMenu, ax: Axes | None = None) -> Axes:
    """Draw the whole-life costs of the plan of each checkpoint of a menu, training and serving, or the loss it guarantees.

    Above each stands the probability that it is the best. Bars of uncertain costs have 90% equal-tailed intervals.

    Parameters
    ----------
    menu : PlanMenu
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit, models = bayeslaw.load_fit("target.nc"), [{"N": n, "ptpp": 31} for n in (5e8, 1e9)]
    >>> menu = bayeslaw.planning.plan_menu(None, fit, models, on="latent", minimise="target-loss", max_flops=1e20, served=1e9)
    >>> bayeslaw.plots.plot_menu(menu, Figure().subplots()).get_xlabel()
    'checkpoint'
    """
    expect(menu, PlanMenu, "bayeslaw.planning.plan_menu(source, target, …)")
    ax = axes_of(ax)
    in_costs = menu.minimise in UNITS
    notes = [] if in_costs else ["marks: the loss that is stayed under with this confidence while the constraints hold"]
    for i, (own, share) in enumerate(zip(menu.plans, menu.table["probability_best"], strict=True)):
        if own is None or own.best is None:
            place: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": SMALL}
            ax.text(i, 0.02, menu.table["plan"].iloc[i], transform=ax.get_xaxis_transform(), **place)
            continue
        top = own.best.value
        if in_costs:
            top = _life_bar(ax, i, own, own.best, menu.minimise, first=not ax.patches)
        else:
            ax.plot(i, top, marker="o", ms=7, color=COLOURS[0], ls="")
        ax.annotate(f"best {share:.0%}", (i, top), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=SMALL)
        if in_costs and not own.problem.prices.certain(menu.minimise):
            notes = ["lines: 90% equal-tailed intervals of the cost"]
    differing = [name for name in menu.models[0] if len({model[name] for model in menu.models}) > 1]
    ax.set_xticks(range(len(menu.models)), ["\n".join(_named(model, differing)) for model in menu.models])
    ax.set_xlim(-0.6, len(menu.models) - 0.4)
    ax.margins(y=0.12)
    first = next(own for own in menu.plans if own is not None)
    unit = first.problem.losses[-1].unit if menu.minimise == "target-loss" else "relative rise"
    y = f"{UNITS[menu.minimise]} of the whole life" if in_costs else f"{menu.minimise.replace('-', ' ')} ({unit})"
    title = f"plans of each checkpoint at confidence {first.confidence:.0%}"
    notes.append(MENU)
    return finish(ax, "checkpoint", y, title + failure(any(own is not None and own.forced for own in menu.plans)), notes)


def _named(model: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Say by which values a checkpoint differs from others."""
    return [f"{name} = {short_number(float(model[name]))}" for name in names]


def _life_bar(ax: Axes, place: int, own: Plan, point: PlanPoint, unit: str, *, first: bool) -> float:
    """Draw training and serving of a plan above each other, with the interval of the whole; return where it ends."""
    prices, n = own.problem.prices, own.problem.n
    serving = float(np.mean(prices.serving(unit, n)))
    total = float(getattr(point, unit))
    for bottom, height, colour, name in (
        (0.0, serving, COLOURS[5], "serving"),
        (serving, total - serving, COLOURS[0], "adaptation"),
    ):
        ax.bar(place, height, bottom=bottom, width=0.6, color=colour, label=name if first else None)
    if prices.certain(unit):
        return total
    every = np.arange(own.problem.size)
    draws = np.exp(values_at(WholeLifeCost(prices, unit, n), every, math.log(point.tokens), point.replay))
    _, low, high = quantiles(draws, 0.9)
    ax.vlines(place, low, high, color="black", lw=1.2)
    return max(total, float(high))


def plot_tuning(tuning: Tuning, ax: Axes | None = None, *, of: str = "", row: int = 0, ci_prob: float = 0.9) -> Axes:
    """Draw what a tuned covariate away from its best value costs, with the others at theirs, and where the best value lies.

    Parameters
    ----------
    tuning : Tuning
        With settings.
    ax : as in `plot_forecast`
    of : str
        The covariate, by default the first that is tuned.
    row : int
        The setting, by its place.
    ci_prob : float
        Probability of the bands.

    Raises
    ------
    BayeslawError
        If there are no settings, or the covariate is not tuned.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> tuned = bayeslaw.tuning(bayeslaw.load_fit("lr.nc"), {"N": 1e9, "D": 2e10})
    >>> bayeslaw.plots.plot_tuning(tuned, Figure().subplots(), of="batch").get_xscale()
    'log'
    """
    expect(tuning, Tuning, "fit.tuning(settings)")
    of = of or next(iter(tuning.optimum))
    if of not in tuning.optimum:
        known = ", ".join(tuning.optimum)
        raise BayeslawError(f"{of!r} is not tuned by {tuning.name}; tuned are {known}.", code="unknown-covariate")
    if not -len(tuning.settings) <= row < len(tuning.settings):
        message = f"There is no setting {row} among {len(tuning.settings)}: ask for the best values at settings."
        raise BayeslawError(message, code="nothing-to-draw")
    setting, best = tuning.settings.iloc[[row]], tuning.optimum[of][:, row]
    middle, low, high = quantiles(best, ci_prob)
    across, costs = np.geomspace(low / AWAY, high * AWAY, POINTS), []
    for law, here, _ in JoinedDraws(tuning.laws).parts():
        whole = complete(setting.assign(**dict.fromkeys(tuning.optimum, 1.0)), law.law)
        of_law, least = best_values(law, whole)
        moved = across[None, :] * of_law[of] / best[here][:, None]  # the best value lies around the law's
        costs.append(100 * (law.outcome({**law.law.arrays(whole), **of_law, of: moved}, axes=1) / least - 1))
    cost = np.concatenate(costs)
    ax = axes_of(ax)
    centre, lower, upper = quantiles(cost, ci_prob, axis=0)
    ax.fill_between(across, lower, upper, color=COLOURS[0], alpha=0.25, lw=0, label=f"{100 * ci_prob:g}% equal-tailed interval")
    ax.plot(across, centre, color=COLOURS[0], label="median")
    ax.axvspan(low, high, color=COLOURS[1], alpha=0.2, lw=0, label=f"best {of}, {100 * ci_prob:g}% equal-tailed interval")
    ax.axvline(middle, color=COLOURS[1], lw=1.2)
    ax.set_xscale("log")
    ax.set_ylim(0, max(1.0, 1.2 * float(centre.max())))
    where = ", ".join(f"{name} = {short_number(value)}" for name, value in setting.iloc[0].items() if not isinstance(value, str))
    unit = tuning.laws[0].law.covariates[of].unit
    return finish(ax, f"{of} ({unit})", "loss above the least (%)", f"{where}{failure(tuning.failed)}")


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
    ax = axes_of(ax)
    ax.plot(100 * plans["confidence"], plans["tokens"], color=COLOURS[0], marker="o", lw=1.6, ms=5, label="feasible")
    for _, row in plans.iterrows():
        place: dict[str, Any] = {"xytext": (4, -10), "textcoords": "offset points", "fontsize": SMALL}
        ax.annotate(f"replay {float(row['r']):.0%}", (100 * float(row["confidence"]), float(row["tokens"])), **place)
    infeasible = 100 * frontier["confidence"][~feasible]
    if len(infeasible):
        cross: dict[str, Any] = {"ls": "", "marker": "x", "color": COLOURS[1], "transform": ax.get_xaxis_transform()}
        ax.plot(infeasible, np.full(len(infeasible), 0.03), label="infeasible", **cross)
    if len(plans) and plans["tokens"].max() > 5 * plans["tokens"].min():
        ax.set_yscale("log")
    ax.margins(x=0.2, y=0.15)
    title = "tokens needed for each confidence" + failure(has_failed(frontier))
    return finish(ax, "confidence that all constraints hold (%)", "adaptation tokens", title)


def plot_anchors(anchors: Anchors, ax: Axes | None = None) -> Axes:
    """Draw the predicted interval width against the budget spent, for the chosen runs, runs of the smallest size and random runs.

    Parameters
    ----------
    anchors : Anchors
        What `bayeslaw.anchors` chose.
    ax : Axes, optional
        Where it is drawn, by default a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> candidates = pd.DataFrame({"N": [1e8, 3e8, 1e9], "D": 1e10, "run": ["a", "b", "c"]})
    >>> choice = bayeslaw.anchors(fit, candidates, pd.DataFrame({"N": [1e10], "D": [1e11]}), budget=1e20)
    >>> bayeslaw.plots.plot_anchors(choice, Figure().subplots()).get_xlabel()
    'spent (FLOPs)'
    """
    expect(anchors, Anchors, "fit.anchors(candidates, targets, budget=…)")
    curve, name, random = anchors.curve, anchors.width_name, []
    spent = np.linspace(0, anchors.market.budget, 200)
    for _, path in curve[curve["design"] == "random"].groupby("number"):
        at = np.searchsorted(path["spent"].to_numpy(), spent * (1 + 1e-9), side="right") - 1
        random.append(path[name].to_numpy()[at])
    ax = axes_of(ax)
    if random:
        low, middle, high = np.quantile(np.array(random), [0.05, 0.5, 0.95], axis=0)
        ax.fill_between(spent, low, high, color=COLOURS[6], alpha=0.12, lw=0, label="random designs, 90% of them")
        ax.plot(spent, middle, color=COLOURS[6], lw=1, ls=":", label="random designs, median")
    for i, design, style, label in ((1, "smallest size", "--", "smallest size only"), (0, "chosen", "-", "chosen")):
        path = curve[curve["design"] == design]
        x, y = [*path["spent"], anchors.market.budget], [*path[name], path[name].iloc[-1]]
        ax.step(x, y, where="post", color=COLOURS[i], ls=style, lw=1.6, label=label)
    picks = anchors.picks
    ax.plot(picks["spent"], picks[name], ls="", marker="o", ms=4, color=COLOURS[0], clip_on=False, zorder=3)
    ax.margins(y=0.15)
    if anchors.stop is not None:
        end = float(picks["spent"].iloc[anchors.stop - 1]) if anchors.stop else 0.0
        ax.axvline(end, color=COLOURS[2], lw=1)
        left = end > 0.7 * anchors.market.budget  # of the line, where there is no space on the right
        top = y[-1] < y[0] / 2  # there the curves leave space, which is below them where they fall little
        place: dict[str, Any] = {"ha": "right" if left else "left", "va": "top" if top else "bottom", "fontsize": SMALL}
        offset = (-3 if left else 3, -4 if top else 4)
        text = "not worth the price\nbeyond this line"
        ax.annotate(text, (end, top), xycoords=("data", "axes fraction"), xytext=offset, textcoords="offset points", **place)
    ax.set_xlim(0, anchors.market.budget)
    unit = f" ({anchors.targets.unit})" if anchors.targets.unit else ""
    kind = anchors.targets.kind.replace("discrepancy", "discrepancy of ")
    width = f"predicted width of the {anchors.ci_prob * 100:g}% equal-tailed interval, {kind}{unit}"
    return _finish_anchors(ax, f"spent ({anchors.candidates.unit})", width, picks)


def _finish_anchors(ax: Axes, x: str, y: str, picks: pd.DataFrame) -> Axes:
    """Label the axes of a picture of chosen runs; from 0 upwards."""
    finish(ax, x, y, "predicted gain from the next runs" + failure(has_failed(picks)))
    ax.set_ylim(0, 1.05 * ax.dataLim.y1)  # the default margin is of what the widths differ by, and cuts the first mark
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
    if picks.empty:
        raise BayeslawError("The table of chosen runs has no rows: there is nothing to draw.", code="nothing-to-draw")
    ax = axes_of(ax)
    ax.step(picks["spent"], picks[name], where="post", color=COLOURS[0], lw=1.6)
    worth = picks["worth"].astype(bool) if "worth" in picks else pd.Series(True, index=picks.index)
    for some, face, label in ((worth, COLOURS[0], "worth its price"), (~worth, "white", "not worth its price")):
        if some.any():
            ax.plot(picks["spent"][some], picks[name][some], ls="", marker="o", ms=6, mfc=face, mec=COLOURS[0], label=label)
    return _finish_anchors(ax, "spent (unit of the budget)", f"predicted {header(name)}", picks)
