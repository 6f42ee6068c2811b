"""Pictures of training dynamics: transfer curves, slices of the loss surface, best recipes, turning points, running runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayeslaw.core.arrays import evenly, numbers
from bayeslaw.core.errors import BayeslawError, kind_of
from bayeslaw.core.intervals import check_probability, interval_names, quantiles
from bayeslaw.core.text import counted
from bayeslaw.dynamics.monitor import Watch
from bayeslaw.dynamics.optimise import Balance
from bayeslaw.dynamics.recipe import Recipe, losses
from bayeslaw.dynamics.turning_points import TurningPoint
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.plots.several import Drawing, check_axes, drawings_on, finish_all, free_places, name_all
from bayeslaw.plots.style import COLOURS, DASHES, ERRORS, MARKERS, axes_of, draw_band, draw_errors, expect, failure, finish
from bayeslaw.schedules.areas import Point

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

RECIPE = "bayeslaw.dynamics.Recipe(start, schedule)"
POINTS = 160
BEGUN = 0.1  # share of a run's steps whose losses need not be in the picture of the rest
LOGGED: dict[str, Any] = {"ls": "", "marker": MARKERS[0], "ms": 3, "color": "black", "label": "logged"}
LABELS = {
    "peak": "highest learning rate of the adaptation",
    "steps": "steps of the adaptation",
    "potential": "loss potential (last rate of pre-training / its highest)",
    "r": "replay share",
}


def _band(ax: Axes, x: ArrayLike, draws: ArrayLike, i: int, label: str, ci_prob: float) -> Line2D:
    """Draw a median with its equal-tailed interval in the i-th colour and dashes; draws (n, S). Return the median's line."""
    middle, low, high = quantiles(draws, ci_prob, axis=-1)
    (line,) = ax.plot(
        np.asarray(x), middle, color=COLOURS[i], lw=1.8, ls=DASHES[i], marker="o" if np.size(x) == 1 else "", ms=4, label=label
    )
    draw_band(ax, x, low, high, color=COLOURS[i], alpha=0.2)
    return line


def _draw_logged(ax: Axes, logged: pd.DataFrame, colour: str = "black") -> tuple[Line2D, list[str]]:
    """Draw measured losses as points with known errors; return the points and notes. A table without steps or losses is refused."""
    if not isinstance(logged, pd.DataFrame):
        raise BayeslawError(
            f"Logged losses are a DataFrame with columns step and loss, not {kind_of(logged)}.", code="wrong-object"
        )
    if missing := [c for c in ("step", "loss") if c not in logged]:
        raise BayeslawError(f"The logged losses have no column {missing[0]}: give step and loss.", code="missing-columns")
    (points,) = ax.plot(logged["step"], logged["loss"], **LOGGED | {"color": colour})
    known = "loss_se" in logged and draw_errors(ax, logged["step"], logged["loss"], logged["loss_se"], colour)
    return points, [ERRORS.format("loss_se")] if known else []


def _steps(recipe: Recipe) -> NDArray[np.int64]:
    """Return evenly spaced steps of the adaptation, 0 being before its first."""
    return evenly(len(recipe.schedule) + 1, POINTS)


def plot_course(forecast: Forecast, ax: Axes | None = None, *, ci_prob: float = 0.9, label: str = "") -> Axes:
    """Draw the forecast of a training over its steps: the median, and the interval to report at each step (`Forecast.headlines`).

    Parameters
    ----------
    forecast : Forecast
        At steps of one training, as `Recipe.pretraining` gives them.
    ax, ci_prob, label : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=4000,peak=2e-4,warmup=200", "constant:steps=1,peak=2e-4")
    >>> forecast = bayeslaw.load_fit("annealing.nc").forecast(recipe.pretraining([1000, 2000, 4000]))
    >>> bayeslaw.plots.plot_course(forecast, Figure().subplots()).get_xlabel()
    'step'
    """
    expect(forecast, Forecast, "fit.forecast(recipe.pretraining(steps))")
    if "step" not in forecast.settings:
        message = "This picture is over the steps of a training, and the settings have no column step: see Recipe.pretraining."
        raise BayeslawError(message, code="missing-column")
    table, names = forecast.summary(ci_prob).sort_values("step", kind="stable"), ("median", *interval_names("eti", ci_prob))
    middle, low, high = ([table[f"{kind}_{name}"].iloc[row] for row, kind in enumerate(table["headline"])] for name in names)
    ax, steps = axes_of(ax), table["step"]
    check_axes(ax, shown := ("step", f"loss ({forecast.unit})"))
    place = free_places(ax, 1)[0]
    (line,) = ax.plot(steps, middle, color=COLOURS[place], lw=1.8, ls=DASHES[place], marker="o" if len(steps) == 1 else "", ms=4)
    kinds = " or ".join(dict.fromkeys(table["headline"]))
    band = draw_band(ax, steps, low, high, color=COLOURS[place], alpha=0.2)
    entries: list[tuple[Artist, str]] = [(band, f"{ci_prob * 100:g}% equal-tailed interval ({kinds})")]
    if (outside := table["extrapolation"] != "inside").any():
        across = ax.get_xaxis_transform()
        # From the step before to the step after: a single step outside has no width.
        near = outside | outside.shift(1, fill_value=False) | outside.shift(-1, fill_value=False)
        ground = ax.fill_between(steps, 0, 1, where=near, transform=across, color="0.92", lw=0, zorder=0)
        entries.append((ground, "outside the fitted runs"))
    curves = ((line, "median"),)
    title, notes = name_all(ax, Drawing(label, forecast.law, "", curves, tuple(entries), (), failure(forecast.forced), shown))
    return finish(ax, *shown, title, notes)


def plot_transfer(
    recipe: Recipe, posterior: Posterior, ax: Axes | None = None, *, logged: pd.DataFrame | None = None, ci_prob: float = 0.9
) -> Axes:
    """Draw the loss of an adaptation between the two hidden pre-training curves, with bands (Wang et al. 2025, fig. 1).

    Bands are of the law's curves; the wider one around the adaptation is the interval to report for a run (`Forecast.headlines`).

    Parameters
    ----------
    recipe : Recipe
    posterior : Fit or Stack
        Fit of the losses of one domain.
    ax, ci_prob : as in `plot_forecast`
    logged : DataFrame, optional
        Measured losses, drawn as points: columns step and loss, and optionally loss_se, their known errors.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=8000,peak=2e-4,warmup=200", "cosine:steps=2000,peak=2e-4")
    >>> bayeslaw.plots.plot_transfer(recipe, bayeslaw.load_fit("dynamics_source.nc"), Figure().subplots()).get_ylabel()
    'loss (nats/token)'
    """
    expect(recipe, Recipe, RECIPE)
    check_probability(ci_prob)
    steps = _steps(recipe)
    after = steps[1:] if recipe.point.pretrain is not None else steps
    ax = axes_of(ax)
    if recipe.point.pretrain is not None and recipe.point.adapt is None:
        _band(ax, after, losses(posterior, recipe.without_shift(after)), 1, "hidden: pre-training data continued", ci_prob)
    if not isinstance(recipe.start, Point):
        _band(ax, after, losses(posterior, recipe.from_scratch(after)), 2, "hidden: adaptation data from scratch", ci_prob)
    _band(ax, steps, losses(posterior, recipe.rows(steps)), 0, "adaptation", ci_prob)
    of_run = forecast(posterior, recipe.rows(steps), force=True)
    low, high = quantiles(of_run.predictive, ci_prob, axis=0)[1:]
    ax.fill_between(steps, low, high, color=COLOURS[0], alpha=0.12, lw=0, label=f"adaptation, of a run ({of_run.spread})")
    notes = [] if logged is None else _draw_logged(ax, logged)[1]
    title = (
        f"{posterior.name}: median and {ci_prob * 100:g}% equal-tailed bands, of curves (latent) unless named otherwise"
        f"{failure(not posterior.passed)}"
    )
    return finish(ax, "steps of the adaptation", f"loss ({posterior.unit})", title, notes)


def plot_surface(
    recipe: Recipe,
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    slices: float | Sequence[float] = (0.0, 0.5, 1.0),
    ci_prob: float = 0.9,
) -> Axes:
    """Draw slices of the loss surface: the loss over forward area at several annealing areas (Wang et al. 2025, fig. 4).

    Parameters
    ----------
    recipe : Recipe
        Its own path across the slices is drawn in black.
    posterior : Fit or Stack
        Fit of a law with the areas of an adaptation; another is refused ('no-adaptation-area').
    ax, ci_prob : as in `plot_forecast`
    slices : float or sequence of float
        Annealing areas, as shares of the annealing area at the end of the recipe.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=8000,peak=2e-4,warmup=200", "cosine:steps=2000,peak=2e-4")
    >>> len(bayeslaw.plots.plot_surface(recipe, bayeslaw.load_fit("dynamics_source.nc"), Figure().subplots()).lines)
    4
    """
    expect(recipe, Recipe, RECIPE)
    check_probability(ci_prob)
    path = recipe.rows(_steps(recipe))
    if not {"S1_cpt", "S2_cpt"} <= set(posterior.measured):
        message = f"{posterior.name} has no areas of an adaptation (S1_cpt, S2_cpt) and so no surface: fit a cpt-dynamics law."
        raise BayeslawError(message, code="no-adaptation-area")
    end = float(path["S2_cpt"].iloc[-1])
    ax = axes_of(ax)
    for i, share in enumerate(numbers("slices", slices, "[0, 0.5, 1]").tolist()):
        at = path.assign(S2_cpt=share * end)
        if "S2_pt" in at:
            at = at.assign(S2=at["S2_pt"] + at["S2_cpt"])
        _band(ax, path["S1_cpt"], losses(posterior, at), i % len(COLOURS), f"S2_cpt = {share * end:.3g}", ci_prob)
    median = np.median(losses(posterior, path), axis=1)
    ax.plot(path["S1_cpt"], median, color="black", lw=1.2, marker="o", markevery=20, ms=3, label="path of the recipe")
    band = f"{ci_prob * 100:g}% equal-tailed band (latent)"
    title = f"{posterior.name}: slices, median and {band}{failure(not posterior.passed)}"
    x = "forward area of the adaptation S1_cpt (learning rate × steps)"
    return finish(ax, x, f"loss ({posterior.unit})", title)


def plot_optimum(balances: Balance | Sequence[Balance], name: str, ax: Axes | None = None, *, ci_prob: float = 0.9) -> Axes:
    """Draw the best value of a choice over the weight of the source, and its distribution over draws (Wang et al. 2025, fig. 8).

    Parameters
    ----------
    balances : Balance or sequence of Balance
        Best recipes for one weight or several.
    name : str
        The choice: peak, steps, potential or r; an error ('unknown-choice') if the recipes were not chosen by it.
    ax, ci_prob : as in `plot_forecast`
        The band is that of each draw's own best value.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> source, target = bayeslaw.load_fit("dynamics_source.nc"), bayeslaw.load_fit("dynamics_target.nc")
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=8000,peak=2e-4,warmup=200", "cosine:steps=2000,peak=2e-4")
    >>> best = [bayeslaw.dynamics.balance(source, target, recipe, {"peak": (1e-5, 1e-3)}, weight=w) for w in (0.2, 0.8)]
    >>> bayeslaw.plots.plot_optimum(best, "peak", Figure().subplots()).get_ylabel()
    'highest learning rate of the adaptation'
    """
    check_probability(ci_prob)
    balances = [balances] if isinstance(balances, Balance) else balances
    for balance in balances:
        expect(balance, Balance, "bayeslaw.dynamics.balance(source, target, recipe, ranges)")
    if not balances or name not in balances[0].choice:
        known = ", ".join(balances[0].choice) if balances else "nothing"
        raise BayeslawError(f"These recipes were not chosen by {name!r}; they were chosen by {known}.", code="unknown-choice")
    order = sorted(balances, key=lambda b: b.objective.weight)
    weights, space = np.array([b.objective.weight for b in order]), order[0].landscape.space
    own = np.array([[b.landscape.space.choices(point)[name] for point in b.own] for b in order])
    _, low, high = quantiles(own, ci_prob, axis=1)
    label = f"best of single draws, {ci_prob * 100:g}% equal-tailed interval"
    ax = axes_of(ax)
    draw_band(ax, weights, low, high, color=COLOURS[0], alpha=0.2, label=label)
    lines = {"best": [b.choice[name] for b in order], "plug-in, without uncertainty": [b.plug_in[name] for b in order]}
    for i, (label, values) in enumerate(lines.items()):
        ax.plot(weights, values, color=COLOURS[i], ls=DASHES[i], marker=MARKERS[i], ms=4, label=label)
    if name in ("peak", "steps"):
        ax.set_yscale("log")
    for edge in space.ranges[name]:
        ax.axhline(edge, color="0.6", lw=0.8, ls="dotted")
    title = f"least weighted change of source and target loss{failure(any(b.failed for b in balances))}"
    return finish(ax, "weight of the source loss", LABELS[name], title)


def plot_turning_point(turning_point: TurningPoint, ax: Axes | None = None, *, ci_prob: float = 0.9) -> Axes:
    """Draw the loss over the length of the adaptation, with its base and limit (Wang et al. 2025, fig. 7c).

    Lengths outside the range of the fitted runs are shaded.

    Parameters
    ----------
    turning_point : TurningPoint
    ax, ci_prob : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> source = bayeslaw.load_fit("dynamics_source.nc")
    >>> recipe = bayeslaw.dynamics.Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")
    >>> turning_point = bayeslaw.dynamics.turning_point(source, recipe, longest=20_000)
    >>> bayeslaw.plots.plot_turning_point(turning_point, Figure().subplots()).get_ylabel()
    'source loss (nats/token)'
    """
    expect(turning_point, TurningPoint, "bayeslaw.dynamics.turning_point(…)")
    check_probability(ci_prob)
    steps, weight = turning_point.steps, turning_point.weight
    ax = axes_of(ax)
    _band(ax, steps, turning_point.loss.T, 0, "loss at the end", ci_prob)
    ends = steps[[0, -1]]
    _band(ax, ends, np.tile(turning_point.base, (2, 1)), 1, "base, before the adaptation", ci_prob)
    _band(ax, ends, np.tile(turning_point.limit, (2, 1)), 2, "limit", ci_prob)
    ax.set_xscale("log")
    if turning_point.outside.any():
        low, high = turning_point.fitted or (ends[1], ends[1])
        for start, end in ((ends[0], low), (high, ends[1])):
            if start < end:
                ax.axvspan(start, end, color="0.92", zorder=0)
        ax.plot([], [], color="0.88", lw=6, label="outside the fitted runs")
    loss = "source loss" if weight == 1 else f"{weight:g} source + {1 - weight:g} target loss"
    title = f"base regained with probability {turning_point.within:.0%} by {steps[-1]:,} steps, {turning_point.ever:.0%} at any "
    title += f"length\nmedians and {ci_prob * 100:g}% equal-tailed bands{failure(turning_point.failed)}"
    return finish(ax, "length of the adaptation (steps)", f"{loss} ({turning_point.unit})", title)


def plot_watch(
    watch: Watch, ax: Axes | None = None, *, logged: pd.DataFrame | None = None, ci_prob: float = 0.9, label: str = ""
) -> Axes:
    """Draw the logged losses of a running run and the forecast of its remaining steps, with a band and a few paths.

    Parameters
    ----------
    watch : Watch
    ax, logged, ci_prob : as in `plot_transfer`
    label : str
        What the legend calls the run, by default its name, where several are drawn on the same axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> curves = bayeslaw.data.read_curves("running.csv", warmup=100)
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=4000,peak=2e-4,warmup=100")
    >>> watch = bayeslaw.dynamics.watch(bayeslaw.load_fit("annealing.nc"), curves, "now", schedule)
    >>> bayeslaw.plots.plot_watch(watch, Figure().subplots(), logged=curves.logged("now")).get_title()
    'now'
    """
    expect(watch, Watch, "bayeslaw.dynamics.watch(…)")
    check_probability(ci_prob)
    ax, shown = axes_of(ax), ("step", f"loss ({watch.unit})")
    check_axes(ax, shown)
    alone, place, entries = not drawings_on(ax), free_places(ax, 1)[0], list[tuple[Any, str]]()
    colour, notes = COLOURS[place], list[str]()
    if logged is not None:
        points, notes = _draw_logged(ax, logged, "black" if alone else colour)
        entries.append((points, "logged"))
    line = _band(ax, watch.steps, watch.loss.T, place, "", ci_prob)
    paths = ax.plot(watch.steps, watch.loss[:: max(len(watch.loss) // 5, 1)].T, color=colour, lw=0.5, alpha=0.6)
    entries.append((paths[0], "single draws"))
    if watch.target is not None:
        words = f"target, reached by the end with probability {watch.reached[-1]:.0%}"
        entries.append((ax.axhline(watch.target, color=COLOURS[1] if alone else colour, ls="dashed"), words))
    entries.append((ax.axvline(watch.step, color="0.6", lw=0.8), f"last logged step, {watch.step:,}"))
    if alone and logged is not None:
        notes += _without_the_beginning(ax, watch, logged)
    elif not ax.get_autoscaley_on():  # the beginning of another run was left out
        (low, high), own = ax.get_ylim(), np.quantile(watch.loss, [0.005, 0.995], axis=0)
        ax.set_ylim(min(low, float(own.min())), max(high, float(own.max())))
        above = 0 if logged is None else int((logged["loss"] > ax.get_ylim()[1]).sum())
        notes += [f"{counted(above, 'loss')} above the picture"] if above else []
    curves = ((line, f"forecast: median, {ci_prob * 100:g}% equal-tailed interval"),)
    drawing = Drawing(label, watch.run, "", curves, tuple(entries), tuple(notes), watch.run + failure(watch.failed), shown)
    return finish_all(ax, drawing)


def _without_the_beginning(ax: Axes, watch: Watch, logged: pd.DataFrame) -> list[str]:
    """Leave the steep beginning of a run out of the picture if the forecast would get few pixels beside it; return a note."""
    later = logged.loc[logged["step"] >= BEGUN * watch.steps[-1], "loss"]
    if later.empty:
        return []
    shown = np.concatenate([later, *np.quantile(watch.loss, [0.005, 0.995], axis=0), [watch.target or later.iloc[-1]]])
    margin = 0.05 * np.ptp(shown)
    above = int((logged["loss"] > shown.max() + margin).sum())
    if not above:
        return []
    ax.set_ylim(shown.min() - margin, shown.max() + margin)
    return [f"{above} losses of the first {BEGUN:.0%} of the steps lie above the picture"]
