"""The picture of a chain: above, what the first fit forecasts; below, the outcome that the second makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.transforms import offset_copy

from bayeslaw.core.arrays import Array, Index, holds_numbers
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import quantiles
from bayeslaw.forecasting.chain import Chain
from bayeslaw.laws.outcome import Outcome
from bayeslaw.plots.style import (
    COLOURS,
    COMPUTE,
    LETTERS,
    MARGIN,
    MARKERS,
    MOST_LINES,
    axes_of,
    count_measured,
    expect,
    failure,
    finish,
    fit_scale,
    keep_within,
    mark_missed,
    new_panels,
    note_hidden,
    panel_width,
    short_number,
)
from bayeslaw.posterior.parameters import in_unit_of_losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes

APART = 9.0  # points between lines at one setting
WIDE = 0.4  # half the width of the line of chance at a place of its own
CHANCE: dict[str, Any] = {"color": "0.35", "lw": 0.9, "ls": (0, (2, 2)), "zorder": 1}


def plot_chain(
    chain: Chain, axes: Sequence[Axes] | None = None, *, ci_prob: float = 0.9, x: str | None = None, mean: str | None = None,
    measured: pd.DataFrame | None = None,
) -> list[Axes]:  # fmt: skip
    """Draw both parts of a chain over one axis, each with the equal-tailed interval of the next run.

    At one setting of the first fit for several tasks these stand beside each other, each with its own chance.

    Parameters
    ----------
    chain : Chain
    axes : two matplotlib Axes, optional
        By default those of a new figure of pyplot, which a notebook shows.
    ci_prob : float
        Probability of the intervals.
    x : str, optional
        Column of the settings on the horizontal axis, or 'compute' for 6 N D, which is the default where both N and D vary.
    mean : str, optional
        Column, such as task, over which the second outcome is averaged; otherwise each of its values is a line.
    measured : DataFrame, optional
        Measured outcomes of either fit at the settings, in their order: hollow points, with a cross outside the interval.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> loss, accuracy = bayeslaw.load_fit("fit.nc"), bayeslaw.load_fit("accuracy.nc")
    >>> chain = bayeslaw.chain(loss, accuracy, {"N": 1e9, "D": "1e9:1e11:9", "chance": 0.25, "items": 1000})
    >>> [ax.get_ylabel() for ax in bayeslaw.plots.plot_chain(chain, Figure(figsize=(6, 6)).subplots(2, 1))]
    ['loss (nats/token)', 'accuracy (share of questions)']
    """
    expect(chain, Chain, "bayeslaw.chain(first, second, settings)")
    axes = new_panels(2) if axes is None else [axes_of(ax) for ax in (axes if isinstance(axes, (Sequence, np.ndarray)) else [axes])]
    if len(axes) != 2:
        raise BayeslawError(
            f"A picture of a chain has 2 axes, not {len(axes)}: Figure().subplots(2, 1).", code="wrong-number-of-axes"
        )
    for ax, draw in zip(axes, chain_panels(chain, ci_prob=ci_prob, x=x, mean=mean, measured=measured), strict=True):
        draw(ax)
    return axes


def chain_panels(
    chain: Chain, *, ci_prob: float, x: str | None = None, mean: str | None, measured: pd.DataFrame | None
) -> tuple[Callable[[Axes], object], Callable[[Axes], object]]:
    """Return functions that draw the two panels of `plot_chain`.

    Parameters
    ----------
    chain, ci_prob, x, mean, measured
        As in `plot_chain`.
    """
    settings, heads = chain.settings, chain.first.settings
    x = x or _axis(chain)
    axes = [str(c) for c in heads if holds_numbers(heads[c])]  # both panels have them
    axes += [COMPUTE] if {"N", "D"} <= {*axes} else []
    if x not in axes:
        problem = f"{x!r} is no column of the settings along which both panels can be drawn; these are {', '.join(axes)}."
        raise BayeslawError(problem, code="unknown-covariate")
    first, second = chain.first.outcome, chain.second.outcome
    lines, draws, own = settings, chain.predictive, _measured(measured, second, len(settings))
    if mean is not None:
        averages = chain.mean(mean)
        lines, draws = averages.settings, averages.draws
        own = None if own is None else averages.measured(own)
    place = pd.Series(np.arange(len(settings))).groupby(chain.place).first().to_numpy()
    link = _measured(measured, first, len(settings))
    title = f"{chain.first.law}, then {chain.second.law}: median, {100 * ci_prob:g}% equal-tailed interval of the next run"

    texts = [str(name) for name in lines if not holds_numbers(lines[name]) and name != "run"]
    beside = min(len(lines[texts].drop_duplicates()), MOST_LINES) if texts and len(heads) == 1 else 1
    setting = ", ".join(f"{name} = {short_number(heads[name].iloc[0])}" for name in map(str, chain.first.outside))
    names = (setting, ", ".join(texts)) if beside > 1 else (_name(chain, x), _name(chain, x))

    def above(ax: Axes) -> None:
        _draw(ax, heads, chain.first.predictive, x, ci_prob, None if link is None else link[place], first, [], beside=beside)
        finish(ax, names[0], first.labelled(chain.first.unit), title + failure(chain.forced))

    def below(ax: Axes) -> None:
        _draw(ax, lines, draws, x, ci_prob, own, second, texts, _chance(chain, mean), beside)
        label = second.labelled(chain.second.unit)
        finish(ax, names[1], f"{label}, mean over {mean}" if mean else label, "")

    return above, below


def _axis(chain: Chain) -> str:
    """Return the column for the horizontal axis: compute where size and tokens vary, else what varies most."""
    settings = chain.first.settings
    counts = {str(c): settings[c].nunique() for c in chain.first.outside}
    if counts.get("N", 0) > 1 and counts.get("D", 0) > 1:
        return COMPUTE
    return max(counts, key=counts.__getitem__)


def _name(chain: Chain, x: str) -> str:
    """Return the name of the horizontal axis with its unit."""
    known = {k: in_unit_of_losses(part.fit, c.unit) for part in chain.first.members for k, c in part.fit.covariates.items()}
    return "compute (FLOPs, 6 N D)" if x == COMPUTE else chain.first.outcome.of_unit(x, known.get(x, ""))


def _along(settings: pd.DataFrame, x: str) -> Array:
    along = FLOPS * settings["N"] * settings["D"] if x == COMPUTE else settings[x]
    return along.to_numpy(dtype=np.float64)


def _measured(measured: pd.DataFrame | None, outcome: Outcome, count: int) -> Array | None:
    """Return measured outcomes (n,), or None where there are none."""
    if measured is None or outcome.name not in measured:
        return None
    if len(measured) != count:
        problem = f"The measured outcomes have {len(measured)} rows and the settings {count}: give them in the same order."
        raise BayeslawError(problem, code="other-rows")
    if not holds_numbers(measured[outcome.name]):
        raise BayeslawError(f"The measured outcomes have a column {outcome.name} that holds no numbers.", code="not-numbers")
    return measured[outcome.name].to_numpy(dtype=np.float64)


def _draw(
    ax: Axes, settings: pd.DataFrame, draws: Array, x: str, ci_prob: float, measured: Array | None, outcome: Outcome,
    texts: Sequence[str], chance: Array | None = None, beside: int = 1,
) -> None:  # fmt: skip
    """Draw medians and intervals (S, n) along an axis, a line for each combination of texts, and measured outcomes.

    With several places beside each other the axis has no numbers: each combination has a place.
    """
    along, (median, low, high) = _along(settings, x), quantiles(draws, ci_prob, axis=0)
    lines = _lines(settings, x, texts)
    every = ("", np.arange(len(settings)))
    groups: list[tuple[Any, Any]] = list(settings.groupby(lines, sort=False).indices.items()) if lines else [every]
    if beside > 1:
        along = _places(ax, len(settings), dict(groups), beside)
    held, missed, apart = 0, 0, APART if len(groups) > 1 and np.unique(along).size == 1 else 0.0
    for i, (key, members) in enumerate(groups[:MOST_LINES]):
        # Side by side at the only setting, where intervals would hide each other.
        shift = apart * (i - (min(len(groups), MOST_LINES) - 1) / 2)
        at: dict[str, Any] = {"transform": offset_copy(ax.transData, ax.get_figure(root=True), shift, 0, "points")} if shift else {}
        rows = members[np.argsort(along[members], kind="stable")]
        values = key if isinstance(key, tuple) else (key,)
        label = ", ".join(f"{n} = {short_number(v)}" for n, v in zip(lines, values, strict=True)) if lines else ""
        scattered = len(rows) == 1 or np.unique(along[rows]).size < len(rows) or (x == COMPUTE and "N" not in lines)
        style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 4, "label": label or None}
        if scattered:  # runs of different shapes share no curve
            off = np.stack([median[rows] - low[rows], high[rows] - median[rows]])
            ax.errorbar(along[rows], median[rows], np.maximum(off, 0), ls="", lw=1.2, **style, **at)
        else:
            ax.plot(along[rows], median[rows], lw=1.4, mec="white", markevery=[0, -1], **style)
            ax.fill_between(along[rows], low[rows], high[rows], color=COLOURS[i], alpha=0.18, lw=0)
        if measured is not None:
            known = rows[np.isfinite(measured[rows])]
            inside = (measured[known] >= low[known]) & (measured[known] <= high[known])
            hollow: dict[str, Any] = {"ls": "", "marker": MARKERS[i], "ms": 5.5, "mfc": "white", "mec": COLOURS[i], "zorder": 4}
            ax.plot(along[known], measured[known], **hollow, **at)
            out = known[~inside]
            mark_missed(ax, along[out], measured[out], **at)
            held, missed = held + int(inside.sum()), missed + int((~inside).sum())
    if apart:  # what is drawn with an offset doesn't count for the limits
        ends = [low, high, *([measured[np.isfinite(measured)]] if measured is not None else [])]
        ax.update_datalim([(along[0], float(y)) for y in np.concatenate(ends)])
        ax.autoscale_view()
    note_hidden(ax, len(groups))
    if measured is not None:
        count_measured(ax, ci_prob, held, missed)
    if beside == 1:
        fit_scale(ax, along)
    if chance is not None:
        _draw_chance(ax, chance, along if beside > 1 else None)
    keep_within(ax, outcome)


def _places(ax: Axes, count: int, groups: Mapping[Any, Index], beside: int) -> Array:
    """Return the places (n,) of rows on an axis without numbers, by their group, and name the groups if the names fit."""
    places = np.full(count, (beside - 1) / 2)  # of a single group in the middle
    ax.set_xlim(-0.6, beside - 0.4)
    ax.set_xticks([])
    if len(groups) > 1:
        for i, members in enumerate(groups.values()):
            places[members] = i
        names = [", ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in [*groups][:beside]]
        if beside * (2 + max(map(len, names))) <= (panel_width(ax) - MARGIN) * LETTERS:  # the legend has them all
            ax.set_xticks(range(beside), names)
    return places


def _lines(settings: pd.DataFrame, x: str, texts: Sequence[str]) -> list[str]:
    """Return the columns whose values have a line each: texts and, where they form curves, sizes."""
    curves = "N" in settings and x != "N" and settings.groupby(["N", *texts]).size().min() > 1
    return [*texts, *(["N"] if curves and len(settings["N"].unique()) > 1 else [])]


def _draw_chance(ax: Axes, chance: Array, places: Array | None) -> None:
    """Draw what guessing scores; `chance` has it for every row, which has a place of its own or shares the axis."""
    levels = np.unique(chance)
    if places is None or levels.size == 1:
        for level in levels:
            ax.axhline(float(level), **CHANCE)
    else:
        ax.hlines(chance, places - WIDE, places + WIDE, **CHANCE)
    ax.plot([], [], label=f"chance, {short_number(float(levels[0]))}" if levels.size == 1 else "chance", **CHANCE)


def _chance(chain: Chain, mean: str | None) -> Array | None:
    """Return what guessing scores at each row, or on average; None where the card does not say."""
    chance = chain.second.outcome.chance
    if chance is None:
        return None
    values = np.full(1, float(chance)) if not isinstance(chance, str) else chain.settings[chance].to_numpy(dtype=np.float64)
    return np.array([values.mean()]) if mean is not None else values
