"""Pictures of fits: parameters in their priors, pairs that hang together, calibration, laws beside each other.

They take an axes, return it, and save nothing.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import binom, gaussian_kde, rankdata

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.intervals import check_probability, quantiles
from bayeslaw.core.text import compact, significant
from bayeslaw.plots.style import COLOURS, DASHES, MARKERS, MOST_LINES, failure, note_hidden
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.parameters import parameter_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PRIOR_DRAWS = 20_000
EDGE = 4.0  # sd of the prior beyond which positions are drawn at the edge: so far out there are no prior draws
SHOWN = 1_500  # draws of a scatter
PANEL = 26  # characters that the label of a small panel has room for
DECADES = 3.0  # ratio of quantiles from which on a positive parameter has a logarithmic axis


def symbol(fit: Fit, name: str, wrapped: bool = False) -> str:
    """A parameter as it is called in tables, with its unit where it has one; wrapped for an axis of a small panel."""
    unit = parameter_unit(fit, name)
    if not (wrapped and len(name + unit) > 20):
        return f"{name} ({unit})" if unit else name
    return "\n".join([name, *textwrap.wrap(f"({unit})", PANEL)])


def plot_parameters(fit: Fit, ax: Axes, *, ci_prob: float = 0.9, seed: int = 0) -> Axes:
    """Forest: where in its prior each parameter lies, median and interval, with the numbers beside.

    Parameters have different units, so that the axis is the prior: a value stands at the standard normal's quantile of the prior's
    distribution function there. The shaded band is the prior's own interval; a posterior that fills it was not informed.

    Parameters
    ----------
    fit : Fit
    ax : matplotlib Axes
    ci_prob : float
        Probability of the equal-tailed intervals.
    seed : int
        Of the prior draws.
    """
    check_probability(ci_prob)
    prior, draws = fit.prior_draws(PRIOR_DRAWS, seed), fit.draws
    names = [name for name in draws if name in prior]
    reach = float(ndtri(0.5 + ci_prob / 2))
    ax.axvspan(-reach, reach, color="0.88", lw=0, zorder=0)
    ax.axvline(0, color="0.6", lw=0.8, zorder=0)
    for row, name in enumerate(names):
        middle, low, high = quantiles(draws[name], ci_prob)
        at = [_position(prior[name], v) for v in (low, middle, high)]
        colour, mark = (COLOURS[0], "o") if name in fit.law.parameters else (COLOURS[1], "s")
        ax.plot([at[0], at[2]], [row, row], color=colour, lw=2.2, solid_capstyle="butt")
        ax.plot(at[1], row, marker=mark, ms=5, color=colour, mec="white")
        beyond = [(x, "<" if x < 0 else ">") for x in (at[0], at[2]) if abs(x) >= EDGE]
        for x, arrow in beyond:
            ax.plot(x, row, marker=arrow, ms=5, color=colour)
        said = f"{significant(middle, 3)} [{significant(low, 3)}, {significant(high, 3)}]"
        ax.text(1.01, row, said, transform=ax.get_yaxis_transform(), fontsize=7, va="center")
    ax.set_yticks(range(len(names)), [symbol(fit, name) for name in names], fontsize=8)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(-EDGE - 0.2, EDGE + 0.2)
    ax.set_xlabel("position in the prior (sd of a standard normal)")
    percent = f"{ci_prob * 100:g}%"
    failed = failure(not fit.passed)
    ax.set_title(f"{fit.name}: median and {percent} equal-tailed interval;\nband: the prior's {percent}{failed}", fontsize=9)
    return ax


def _position(prior: Array, value: float) -> float:
    """Where a value stands among prior draws: the standard normal's quantile of its rank, within `EDGE`."""
    ordered = np.sort(prior)
    share = float(np.interp(value, ordered, (np.arange(ordered.size) + 0.5) / ordered.size, left=0.0, right=1.0))
    return float(np.clip(ndtri(share), -EDGE, EDGE))


def plot_pair(fit: Fit, ax: Axes, one: str, other: str) -> Axes:
    """Posterior draws of two parameters against each other, positive ones that vary much on a logarithmic axis."""
    x, y = (_draws_of(fit, name) for name in (one, other))
    some = slice(None, None, max(1, x.size // SHOWN))
    ax.plot(x[some], y[some], ls="", marker=".", ms=2.5, mew=0, alpha=0.5, color=COLOURS[0], rasterized=True)
    ax.plot(np.median(x), np.median(y), ls="", marker="D", ms=5, color=COLOURS[1], mec="white")
    for values, scale, label, name in ((x, ax.set_xscale, ax.set_xlabel, one), (y, ax.set_yscale, ax.set_ylabel, other)):
        if _wide(values):
            scale("log")
        label(symbol(fit, name, wrapped=True), fontsize=8)
    _few_ticks(ax)
    rank = float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])
    ax.set_title(f"rank correlation {rank:+.3f}{failure(not fit.passed)}", fontsize=8)
    return ax


def _draws_of(fit: Fit, name: str) -> Array:
    draws = fit.draws
    if name not in draws:
        raise BayeslawError(f"{name!r} is no parameter of {fit.name}.{nearest(name, draws)}")
    return draws[name]


def _wide(*samples: Array) -> bool:
    """Whether draws are positive and go over so much that a logarithmic axis shows them better."""
    lows, highs = zip(*(np.quantile(v, [0.02, 0.98]) for v in samples), strict=True)
    return bool(min(v.min() for v in samples) > 0 and max(highs) > DECADES * min(lows))


def _few_ticks(ax: Axes) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    ax.tick_params(labelsize=7)
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        if axis.get_scale() != "log":
            axis.set_major_locator(MaxNLocator(4))
        elif high < 30 * low:  # less than a decade and a half: 1, 2, 5
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(lambda value, _: f"{value:.3g}")
        else:
            axis.set_major_locator(LogLocator(numticks=5))
            axis.set_major_formatter(lambda value, _: compact(value))
            axis.set_minor_formatter(NullFormatter())


def plot_prior_posterior(fit: Fit, ax: Axes, name: str, *, prior: Mapping[str, Array] | None = None, seed: int = 0) -> Axes:
    """Density of a parameter before (dashed) and after (filled) the losses were seen, each scaled to its peak.

    `prior` are draws of `Fit.prior_draws`, made with `seed` where they are not given.
    """
    after = _draws_of(fit, name)
    before = (prior or fit.prior_draws(PRIOR_DRAWS, seed)).get(name)
    if before is None:
        raise BayeslawError(f"{name} of {fit.name} has no prior of its own.")
    logarithmic = _wide(before, after)
    x, y = (np.log(v) if logarithmic else v for v in (before, after))
    low, high = np.quantile(x, [0.01, 0.99])
    low, high = min(low, float(np.quantile(y, 0.001))), max(high, float(np.quantile(y, 0.999)))
    grid = np.linspace(low, high, 120)
    shown = np.exp(grid) if logarithmic else grid
    styles: tuple[dict[str, Any], dict[str, Any]] = ({"color": "0.35", "ls": "--", "lw": 1.2}, {"color": COLOURS[0], "lw": 1.6})
    for values, style in zip((x, y), styles, strict=True):
        if np.ptp(values) > 0:
            inside = values[(values > low - (high - low)) & (values < high + (high - low))]
            density = gaussian_kde(inside[:: max(1, inside.size // 1000)])(grid)
            ax.plot(shown, density / density.max(), **style)
            if values is y:
                ax.fill_between(shown, density / density.max(), color=COLOURS[0], alpha=0.25, lw=0)
    if logarithmic:
        ax.set_xscale("log")
    ax.set_xlabel(symbol(fit, name, wrapped=True), fontsize=8)
    _few_ticks(ax)
    ax.set_ylim(0, 1.08)
    ax.set_yticks([])
    return ax


def plot_coverage(transforms: Mapping[str, Array], ax: Axes, *, runs: int | None = None) -> Axes:
    """How often equal-tailed intervals of each probability hold their loss, against that probability; the diagonal is right.

    Parameters
    ----------
    transforms : mapping of name to array (n,)
        Probability integral transforms of scored losses under each fit; see `bayeslaw.evaluation.scores.transforms`.
    ax : matplotlib Axes
    runs : int, optional
        Number of runs the losses are from. The grey band is where 90% of the shares would be if intervals were right and each run
        counted once, since points of a run share its luck; without it each loss counts.
    """
    _some(transforms)
    nominal = np.linspace(0, 1, 101)
    size = runs or next(iter(transforms.values())).size
    low, high = binom.ppf([[0.05], [0.95]], size, nominal[None]) / size
    ax.fill_between(100 * nominal, 100 * low, 100 * high, color="0.88", lw=0, label=f"90% range, {size} independent", zorder=0)
    ax.plot([0, 100], [0, 100], color="0.4", lw=0.9, ls=":")
    for i, (name, pit) in enumerate(list(transforms.items())[:MOST_LINES]):
        share = (np.abs(pit[:, None] - 0.5) <= nominal[None] / 2 + 1e-12).mean(axis=0)
        ax.plot(
            100 * nominal, 100 * share, color=COLOURS[i], lw=1.6, marker=MARKERS[i], ms=4, markevery=(5 + 2 * i, 20), label=name
        )
    note_hidden(ax, len(transforms))
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    ax.set_xlabel("probability of the equal-tailed interval (%)")
    ax.set_ylabel("losses inside it (%)")
    ax.set_title("coverage of forecasts", fontsize=9)
    ax.legend(fontsize=7, frameon=False, loc="upper left")
    return ax


def plot_transforms(transforms: Mapping[str, Array], ax: Axes, *, bins: int = 10) -> Axes:
    """Where in its forecast each loss fell, as steps of shares; level where forecasts are right, a hump where they are too wide."""
    _some(transforms)
    edges = np.linspace(0, 1, bins + 1)
    ax.axhline(100 / bins, color="0.4", lw=0.9, ls=":")
    for i, (name, pit) in enumerate(list(transforms.items())[:MOST_LINES]):
        share = np.histogram(pit, edges)[0] / pit.size
        style: dict[str, Any] = {"color": COLOURS[i], "ls": DASHES[i], "lw": 1.6, "label": name}
        ax.stairs(100 * share, 100 * edges, baseline=None, **style)
    note_hidden(ax, len(transforms))
    ax.set_xlim(0, 100)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("share of the forecast below the loss (%)")
    ax.set_ylabel("losses (%)")
    ax.set_title("probability integral transforms", fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def _some(transforms: Mapping[str, Array]) -> None:
    if not transforms or any(pit.size == 0 for pit in transforms.values()):
        raise BayeslawError("There are no scored losses to draw the calibration of.")


def plot_comparison(weights: pd.DataFrame, ax: Axes) -> Axes:
    """Laws beside each other: by how much each foretells left-out runs worse than the best, with standard errors and weights.

    Parameters
    ----------
    weights : DataFrame
        Of a comparison: elpd_diff, dse and weight by name; see `bayeslaw.compare`.
    ax : matplotlib Axes
    """
    table = weights.dropna(subset=["elpd_diff"])
    if table.empty:
        raise BayeslawError("There is no law with a density to compare.")
    behind = -np.abs(table["elpd_diff"].to_numpy(dtype=np.float64))
    error, rows = table["dse"].fillna(0.0).to_numpy(dtype=np.float64), np.arange(len(table))
    ax.axvline(0, color="0.6", lw=0.8)
    ax.errorbar(behind, rows, xerr=error, fmt="o", ms=5, color=COLOURS[0], capsize=3, lw=1.4)
    for row, weight in zip(rows.tolist(), table["weight"].fillna(0.0), strict=True):
        ax.text(1.01, row, f"weight {float(weight):.2f}", transform=ax.get_yaxis_transform(), fontsize=7, va="center")
    ax.set_yticks(rows, [str(name) for name in table.index], fontsize=8)
    ax.set_ylim(len(table) - 0.5, -0.5)
    if math.isclose(ax.get_xlim()[0], 0, abs_tol=1e-12):
        ax.set_xlim(left=-1.0)
    ax.set_xlabel("log predictive density of left-out runs, less the best law's (nats; bars: one standard error)", fontsize=8)
    ax.set_title("laws on runs they were not fitted to; right is better", fontsize=9)
    return ax
