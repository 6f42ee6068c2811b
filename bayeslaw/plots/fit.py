"""Pictures of fits: parameters within their priors, correlated pairs, calibration, and the comparison of laws."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import binom, gaussian_kde, rankdata

from bayeslaw.core.arrays import Array, holds_numbers, numbers
from bayeslaw.core.errors import BayeslawError, kind_of, nearest, whole_number
from bayeslaw.core.html import header
from bayeslaw.core.intervals import check_probability, quantiles
from bayeslaw.core.text import compact, significant
from bayeslaw.evaluation.comparison import Comparison
from bayeslaw.evaluation.reach import independent_runs
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.plots.style import (
    COLOURS,
    DASHES,
    MARKERS,
    MOST_LINES,
    NARROW,
    SHARES,
    SMALL,
    WIDTH,
    axes_of,
    expect,
    failure,
    finish,
    has_failed,
    keep_readable,
    legend_text,
    note_hidden,
    panel_width,
    share_interval,
    space_ticks,
)
from bayeslaw.posterior.fit import Fit, require_single_fit
from bayeslaw.posterior.parameters import parameter_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRIOR_DRAWS = 20_000
EDGE = 4.0  # positions beyond so many sd of the prior are drawn at the edge: no prior draws lie there
SHOWN = 1_500  # draws of a scatter
PANEL, NARROW_PANEL = 26, 16  # characters that fit into the label of a small panel, and beside narrow axes
LINE = 0.14  # inches of a line of text beside a row
SCORES = {  # names on an axis, and which values are good
    "crps": ("CRPS", "; less is better"), "mae_rel": ("mean relative error", "; less is better"),
    "mae": ("mean error", "; less is better"), "rmse": ("root mean square error", "; less is better"),
    "bias_rel": ("mean relative error with its sign", "; 0 is best"), "bias": ("mean error with its sign", "; 0 is best"),
}  # fmt: skip
WIDE = 3.0  # least ratio of quantiles at which a positive parameter has a logarithmic axis


def _symbol(fit: Fit, name: str, wrapped: bool = False) -> str:
    """Return the name and unit of a parameter for an axis label, broken into lines if `wrapped` and too long for a small panel.

    Parameters that differ by a column have its value as the table has it: in their names it has lost its accents and signs.
    """
    unit, own = parameter_unit(fit, name), fit.law.parameters.get(name)
    if own is not None and own.within is not None:
        name = f"{own.of}[{own.within[1]}]"
    if not (wrapped and len(name + unit) > 20):
        return f"{name} ({unit})" if unit else name
    return "\n".join([name, *textwrap.wrap(f"({unit})", PANEL)])


def _halved(label: str, narrow: bool) -> str:
    """Return a label in two lines if it is long, or in more beside narrow axes."""
    most = NARROW_PANEL if narrow else max(PANEL, len(label) // 2 + 8)
    return "\n".join(textwrap.wrap(label, most, break_long_words=False))


def plot_parameters(fit: Fit, ax: Axes | None = None, *, ci_prob: float = 0.9, seed: int = 0) -> Axes:
    """Draw a forest plot: the median and interval of each parameter at their positions in its prior, with the numbers beside.

    Parameters have different units, so a value x is drawn at Phi^-1(F(x)), where F is the distribution function of the prior and
    Phi that of the standard normal. The shaded band is the interval of the prior. A posterior that fills it was not informed by
    the losses.

    Parameters
    ----------
    fit, seed : Fit, int
        The seed is that of the prior draws.
    ax, ci_prob : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> bayeslaw.plots.plot_parameters(bayeslaw.load_fit("fit.nc"), Figure().subplots()).get_yticklabels()[0].get_text()
    'E (nats/token)'
    """
    check_probability(ci_prob)
    prior, draws = require_single_fit(fit, "A picture of parameters").prior_draws(PRIOR_DRAWS, seed), fit.draws
    names = [name for name in draws if name in prior]
    reach = float(ndtri(0.5 + ci_prob / 2))
    ax = axes_of(ax)
    ax.axvspan(-reach, reach, color="0.88", lw=0, zorder=0)
    ax.axvline(0, color="0.6", lw=0.8, zorder=0)
    narrow = panel_width(ax) < WIDTH  # the axes would be a slit between their texts
    between = "\n" if narrow else " "
    labels = [_halved(_symbol(fit, name), narrow) for name in names]
    for row, name in enumerate(names):
        middle, low, high = quantiles(draws[name], ci_prob)
        at = [_position(prior[name], v) for v in (low, middle, high)]
        colour, mark = (COLOURS[0], "o") if name in fit.law.parameters else (COLOURS[1], "s")
        ax.plot([at[0], at[2]], [row, row], color=colour, lw=2.2, solid_capstyle="butt")
        ax.plot(at[1], row, marker=mark, ms=5, color=colour, mec="white")
        for x in (at[0], at[2]):
            if abs(x) >= EDGE:
                ax.plot(x, row, marker="<" if x < 0 else ">", ms=5, color=colour)
        numbers = f"{significant(middle, 3)}{between}[{significant(low, 3)}, {significant(high, 3)}]"
        ax.text(1.01, row, numbers, transform=ax.get_yaxis_transform(), fontsize=SMALL, va="center", linespacing=0.95)
    ax.set_yticks(range(len(names)), labels, fontsize=SMALL, linespacing=0.95)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(-EDGE - 0.2, EDGE + 0.2)
    ax.set_xticks([-3, 0, 3] if narrow else [-4, -2, 0, 2, 4])
    percent = f"{ci_prob * 100:g}%"
    title = f"{fit.name}: median and {percent} equal-tailed interval;\nband: {percent} interval of the prior"
    finish(ax, "position in the prior (standard deviations)", "", title + failure(not fit.passed))
    lines = [max(1 + narrow, label.count("\n") + 1) for label in labels]
    keep_readable(ax, len(names) * max(a + b for a, b in itertools.pairwise([*lines, 1])) / 2 * LINE)
    return ax


def _position(prior: Array, value: float) -> float:
    """Return the standard normal quantile of a value's rank among prior draws, at most `EDGE` from 0."""
    ordered = np.sort(prior)
    share = float(np.interp(value, ordered, (np.arange(ordered.size) + 0.5) / ordered.size, left=0.0, right=1.0))
    return float(np.clip(ndtri(share), -EDGE, EDGE))


def plot_pair(fit: Fit, first: str, second: str, ax: Axes | None = None) -> Axes:
    """Draw posterior draws of two parameters against each other; a positive parameter that varies widely has a logarithmic axis.

    Parameters
    ----------
    fit : Fit
    first, second : str
        Parameters of the law or of the noise on the two axes; others are refused ('unknown-parameter').
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> bayeslaw.plots.plot_pair(bayeslaw.load_fit("fit.nc"), "A", "alpha", Figure().subplots()).get_title().startswith("rank")
    True
    """
    x, y = (_draws_of(fit, name) for name in (first, second))
    thinned = slice(None, None, max(1, x.size // SHOWN))
    ax = axes_of(ax)
    ax.plot(x[thinned], y[thinned], ls="", marker=".", ms=2.5, mew=0, alpha=0.5, color=COLOURS[0], rasterized=True)
    ax.plot(np.median(x), np.median(y), ls="", marker="D", ms=5, color=COLOURS[1], mec="white")
    for values, scale, label, name in ((x, ax.set_xscale, ax.set_xlabel, first), (y, ax.set_yscale, ax.set_ylabel, second)):
        if _wide(values):
            scale("log")
        label(_symbol(fit, name, wrapped=True), fontsize=SMALL)
    _few_ticks(ax)
    if same := [name for name, values in ((first, x), (second, y)) if np.ptp(values) == 0]:
        title = f"no rank correlation: {' and '.join(dict.fromkeys(same))} the same in all draws"
    else:
        title = f"rank correlation {np.corrcoef(rankdata(x), rankdata(y))[0, 1]:+.3f}"
    ax.set_title(f"{title}{failure(not fit.passed)}", fontsize=SMALL)
    return ax


def shown_draws(fit: Fit) -> str:
    """Say how many of a fit's draws `plot_pair` shows."""
    size = fit.size
    shown = len(range(0, size, max(1, size // SHOWN)))
    return f"{shown:,} of {size:,} draws" if shown < size else f"all {size:,} draws"


def _draws_of(fit: Fit, name: str) -> Array:
    draws = require_single_fit(fit, "A picture of parameters").draws
    if name not in [*draws]:
        raise BayeslawError(f"{name!r} is not a parameter of {fit.name}.{nearest(name, draws)}", code="unknown-parameter")
    return draws[name]


def _wide(*samples: Array) -> bool:
    """Return whether draws are positive and span so wide a range that they need a logarithmic axis."""
    lows, highs = zip(*(np.quantile(v, [0.02, 0.98]) for v in samples), strict=True)
    return bool(min(v.min() for v in samples) > 0 and max(highs) > WIDE * min(lows))


def _few_ticks(ax: Axes) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    ax.tick_params(labelsize=SMALL)
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        if axis.get_scale() != "log":
            axis.set_major_locator(MaxNLocator(4))
        elif high < NARROW * low:
            space_ticks(axis)
        else:
            axis.set_major_locator(LogLocator(numticks=5))
            # Powers of ten; 1000000 would run into its neighbours.
            axis.set_major_formatter(lambda value, _: f"1e{round(math.log10(value))}" if value >= 1e5 else compact(value))
            axis.set_minor_formatter(NullFormatter())


def plot_prior_posterior(
    fit: Fit, name: str, ax: Axes | None = None, *, prior: Mapping[str, Array] | None = None, seed: int = 0
) -> Axes:
    """Draw the prior density (dashed) and the posterior density (filled) of a parameter, each scaled to its peak.

    Parameters
    ----------
    fit : Fit
    name : str
        A parameter of the law or of the noise ('unknown-parameter') that has a prior of its own ('no-prior').
    ax : as in `plot_forecast`
    prior : mapping of name to array (n,), optional
        Prior draws, as `Fit.prior_draws` returns them; by default new ones with `seed`.
    seed : int

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> bayeslaw.plots.plot_prior_posterior(bayeslaw.load_fit("fit.nc"), "alpha", Figure().subplots()).get_xlabel()
    'alpha'
    """
    posterior_draws = _draws_of(fit, name)
    prior_draws = (prior or fit.prior_draws(PRIOR_DRAWS, seed)).get(name)
    if prior_draws is None:
        raise BayeslawError(f"{name} of {fit.name} has no prior of its own: choose another parameter.", code="no-prior")
    logarithmic = _wide(prior_draws, posterior_draws)
    x, y = (np.log(v) if logarithmic else v for v in (prior_draws, posterior_draws))
    low, high = np.quantile(x, [0.01, 0.99])
    low, high = min(low, float(np.quantile(y, 0.001))), max(high, float(np.quantile(y, 0.999)))
    grid = np.linspace(low, high, 120)
    shown = np.exp(grid) if logarithmic else grid
    styles: tuple[dict[str, Any], dict[str, Any]] = ({"color": "0.35", "ls": "--", "lw": 1.2}, {"color": COLOURS[0], "lw": 1.6})
    ax = axes_of(ax)
    for values, style in zip((x, y), styles, strict=True):
        if np.ptp(values) > 0:
            inside = values[(values > low - (high - low)) & (values < high + (high - low))]
            density = gaussian_kde(inside[:: max(1, inside.size // 1000)])(grid)
            ax.plot(shown, density / density.max(), **style)
            if values is y:
                ax.fill_between(shown, density / density.max(), color=COLOURS[0], alpha=0.25, lw=0)
    if logarithmic:
        ax.set_xscale("log")
    ax.set_xlabel(_symbol(fit, name, wrapped=True), fontsize=SMALL)
    _few_ticks(ax)
    ax.set_ylim(0, 1.08)
    ax.set_yticks([])
    return ax


def plot_coverage(
    transforms: Mapping[str, ArrayLike], ax: Axes | None = None, *, runs: int | None = None, outcome: Outcome = LOSS
) -> Axes:
    """Draw the share of losses inside their equal-tailed intervals against the probability of the intervals.

    Calibrated forecasts follow the diagonal. The grey band holds 90% of the shares of calibrated forecasts.

    Parameters
    ----------
    transforms : mapping of name to array (n,)
        Probability integral transforms of scored losses under each fit; see `bayeslaw.evaluation.scores.transforms`.
    ax : as in `plot_forecast`
    runs : int, optional
        As how many independent runs the losses count (`bayeslaw.evaluation.reach.independent_runs`), because points of a
        run share its run effect. Without it the grey band counts each loss.
    outcome : Outcome
        What was scored.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> transforms = {"a fit": np.random.default_rng(0).uniform(size=50)}
    >>> bayeslaw.plots.plot_coverage(transforms, Figure().subplots(), runs=10).get_title()
    'coverage of forecasts'
    """
    transforms = _scored(transforms)
    nominal = np.linspace(0, 1, 101)
    size = runs or next(iter(transforms.values())).size
    low, high = binom.ppf([[0.05], [0.95]], size, nominal[None]) / size
    ax = axes_of(ax)
    ax.fill_between(100 * nominal, 100 * low, 100 * high, color="0.88", lw=0, label=f"90% range, {size} independent", zorder=0)
    ax.plot([0, 100], [0, 100], color="0.4", lw=0.9, ls=":")
    for i, (name, pit) in enumerate(list(transforms.items())[:MOST_LINES]):
        share = (np.abs(pit[:, None] - 0.5) <= nominal[None] / 2 + 1e-12).mean(axis=0)
        style: dict[str, Any] = {"color": COLOURS[i], "lw": 1.6, "marker": MARKERS[i], "ms": 4, "markevery": (5 + 2 * i, 20)}
        ax.plot(100 * nominal, 100 * share, label=legend_text(name), **style)
    note_hidden(ax, len(transforms))
    ax.set(xlim=(0, 100), ylim=(0, 100))
    x = "probability of the equal-tailed interval (%)"
    return finish(ax, x, f"{outcome.plural} inside it (%)", "coverage of forecasts")


def plot_transforms(
    transforms: Mapping[str, ArrayLike], ax: Axes | None = None, *, bins: int = 10, outcome: Outcome = LOSS
) -> Axes:
    """Draw a histogram of probability integral transforms: level for calibrated forecasts, with a hump for too wide ones.

    Parameters
    ----------
    transforms, ax, outcome : as in `plot_coverage`
    bins : int

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> transforms = {"a fit": np.random.default_rng(0).uniform(size=50)}
    >>> bayeslaw.plots.plot_transforms(transforms, Figure().subplots()).get_ylabel()
    'losses (%)'
    """
    transforms = _scored(transforms)
    bins = whole_number("bins", bins, 1)
    edges = np.linspace(0, 1, bins + 1)
    ax = axes_of(ax)
    ax.axhline(100 / bins, color="0.4", lw=0.9, ls=":")
    for i, (name, pit) in enumerate(list(transforms.items())[:MOST_LINES]):
        share = np.histogram(pit, edges)[0] / pit.size
        style: dict[str, Any] = {"color": COLOURS[i], "ls": DASHES[i], "lw": 1.6, "label": legend_text(name)}
        ax.stairs(100 * share, 100 * edges, baseline=None, **style)
    note_hidden(ax, len(transforms))
    ax.set_xlim(0, 100)
    ax.set_ylim(bottom=0)
    x = f"share of the forecast below the {outcome.name} (%)"
    return finish(ax, x, f"{outcome.plural} (%)", "probability integral transforms")


def _scored(transforms: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Return transforms as arrays; those of no losses are refused."""
    if not isinstance(transforms, Mapping):
        problem = f"Transforms are a mapping of each fit's name to an array, not {kind_of(transforms)}"
        way = "bayeslaw.evaluation.scores.transforms(losses, forecast.predictive) computes them"
        raise BayeslawError(f"{problem}; {way}.", code="wrong-object")
    arrays = {name: numbers(f"The transforms of {name}", pit, "[0.3, 0.8]") for name, pit in transforms.items()}
    for name, pit in arrays.items():
        if not ((pit >= 0) & (pit <= 1)).all() or pit.ndim > 1:
            problem = (
                f"The transforms of {name} are no array of probabilities: give one from 0 to 1 for each loss, and none is missing."
            )
            raise BayeslawError(problem, code="not-a-probability")
    if not arrays or any(pit.size == 0 for pit in arrays.values()):
        raise BayeslawError("There are no scored losses: give transforms of at least one loss for each fit.", code="no-losses")
    return arrays


def plot_comparison(comparison: Comparison | pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw by how much each law predicts left-out runs worse than the best law, with standard errors and weights.

    Laws that were chosen by forecasts beyond cuts are drawn by their relative CRPS, others by their log predictive density.

    Parameters
    ----------
    comparison : Comparison or DataFrame
        The result of `bayeslaw.compare`, or a table with columns elpd_diff, dse and weight, and laws as rows, as its `weights`.
        'nothing-to-draw' where no law was judged.
    ax : as in `plot_forecast`

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> weights = pd.DataFrame({"elpd_diff": [0, -6.5], "dse": [0, 2.0], "weight": [0.7, 0.3]}, index=["a law", "another"])
    >>> [label.get_text() for label in bayeslaw.plots.plot_comparison(weights, Figure().subplots()).get_yticklabels()]
    ['a law', 'another']
    """
    if not isinstance(comparison, pd.DataFrame):
        expect(comparison, Comparison, "bayeslaw.compare(runs, laws)")
    weights = comparison if isinstance(comparison, pd.DataFrame) else comparison.weights
    score = next((name for name in ("crps_rel", "crps") if name in weights), "")
    if isinstance(comparison, pd.DataFrame) and not {"elpd_diff", "dse", "weight"} <= {*comparison}:
        problem = "A table of weights has columns elpd_diff, dse and weight; of laws judged beyond cuts give the comparison itself."
        raise BayeslawError(problem, code="missing-columns")
    table = weights.dropna(subset=[score or "elpd_diff"])
    if table.empty:
        raise BayeslawError("No law of the comparison has a predictive density: there is nothing to draw.", code="nothing-to-draw")
    notes = ["bars: one standard error; further right is better"]
    behind = -np.abs(table["crps_diff" if score else "elpd_diff"].to_numpy(dtype=np.float64))
    error = table["dse"].fillna(0.0).to_numpy(dtype=np.float64)
    if score:
        assert not isinstance(comparison, pd.DataFrame)
        stack, title = comparison.stack, "laws compared on rows beyond cuts"
        percent, what = (100, "relative CRPS") if score == "crps_rel" else (1, "CRPS")
        behind, error = percent * behind, percent * error
        x = stack.outcome.of_deviation(f"{what} of the best law minus that of each", stack.unit)
    else:
        x, title = "log predictive density minus that of the best law (nats)", "laws compared on left-out runs"
    rows = np.arange(len(table))
    ax = axes_of(ax)
    ax.axvline(0, color="0.6", lw=0.8)
    ax.errorbar(behind, rows, xerr=error, fmt="o", ms=5, color=COLOURS[0], capsize=3, lw=1.4)
    for row, weight in zip(rows.tolist(), table["weight"].fillna(0.0), strict=True):
        ax.text(1.01, row, f"weight {float(weight):.2f}", transform=ax.get_yaxis_transform(), fontsize=SMALL, va="center")
    ax.set_yticks(rows, _broken(table.index), fontsize=SMALL)
    ax.set_ylim(len(table) - 0.5, -0.5)
    if math.isclose(ax.get_xlim()[0], 0, abs_tol=1e-12):
        ax.set_xlim(left=-1.0)
    if missing := [str(name) for name in weights.index if name not in table.index]:
        notes.append(f"{len(missing)} not judged, since sampling failed: {', '.join(missing)}")
    return finish(ax, x, "", title, notes)


def _broken(names: Iterable[object]) -> list[str]:
    """Return names of laws, broken before their noise: a long one would leave no space for the axes."""
    return ["\n".join(textwrap.wrap(str(name), 22, break_long_words=False)) for name in names]


def plot_scores(comparison: Comparison, ax: Axes | None = None, *, of: str = "cover_eti90") -> Axes:
    """Draw a score of every law and of their stack on the rows that were held out, one below the other.

    Parameters
    ----------
    comparison : Comparison
    ax : as in `plot_forecast`
    of : str
        A column of the scores, such as crps, mae_rel or cover_eti90; 'unknown-column' for others. Coverages have intervals of
        the share (`share_interval`), of losses that count as `bayeslaw.evaluation.reach.independent_runs` of the left-out ones.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> scores = fit.score("new.csv").assign(held_out="new.csv", noise="auto")
    >>> runs = pd.DataFrame({"chinchilla": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="run"))
    >>> stack = bayeslaw.Stack({"chinchilla": fit}, {"chinchilla": 1.0})
    >>> comparison = bayeslaw.evaluation.Comparison(scores, stack.table, runs, (), stack)
    >>> bayeslaw.plots.plot_scores(comparison, Figure().subplots()).get_xlabel()
    'losses inside the 90% interval (%)'
    """
    expect(comparison, Comparison, "bayeslaw.compare(runs, laws)")
    scores = comparison.scores
    if of not in scores or not holds_numbers(scores[of]):
        raise BayeslawError(f"{of!r} is not a score of this comparison.{nearest(of, map(str, scores))}", code="unknown-column")
    share = of.startswith("cover_eti")
    scored = scores.dropna(subset=[of])
    if scored.empty:
        raise BayeslawError("Nothing was scored in this comparison: there is nothing to draw.", code="nothing-to-draw")
    names = scored["law"] + np.where(scored["fit"] == "point", " (point fit)", "")
    names = names + np.where((scored["noise"] == "auto") | (scored["noise"] == ""), "", ", noise " + scored["noise"].astype(str))
    places = {name: i for i, name in enumerate(dict.fromkeys(names))}
    parts = list(dict.fromkeys(scored["held_out"]))
    ax = axes_of(ax)
    for i, part in enumerate(parts[:MOST_LINES]):
        own = (scored["held_out"] == part).to_numpy()
        values = scored.loc[own, of].to_numpy(dtype=np.float64) * (100 if share or of.endswith("_rel") else 1)
        at = np.array([places[name] for name in names[own]]) + (i - (min(len(parts), MOST_LINES) - 1) / 2) * 0.12
        style: dict[str, Any] = {"ls": "", "marker": MARKERS[i], "ms": 6, "color": COLOURS[i], "mec": "white", "zorder": 3}
        ax.plot(values, at, label=f"held out: {part}", **style)
        if share:
            low, high = share_interval(values / 100, _runs_of(comparison, part))
            ax.hlines(at, 100 * low, 100 * high, color=COLOURS[i], lw=1.4, alpha=0.7)
    notes = []
    if share:
        nominal = float(of.removeprefix("cover_eti"))
        ax.axvline(nominal, color="0.4", lw=1, ls=":")
        notes.append(f"dotted: {nominal:g}%, as it should be; bars: {SHARES} where left-out runs count, not rows")
    if len(parts) > MOST_LINES:
        notes.append(f"{len(parts) - MOST_LINES} held-out parts are not shown")
    if unscored := len(scores) - len(scored):
        notes.append(f"{unscored} of {len(scores)} rows have no such score (failed sampling, or a point fit)")
    ax.set_yticks(list(places.values()), _broken(places), fontsize=SMALL)
    ax.set_ylim(len(places) - 0.5, -0.5)
    x = _label_of(of, comparison.stack.outcome, comparison.stack.unit)
    return finish(ax, x, "", "scores of laws on rows that were held out" + failure(has_failed(scored)), notes)


def _label_of(score: str, outcome: Outcome, unit: str) -> str:
    """Return the name of a score with its unit, and which of its values are good where the name doesn't say so."""
    if score.startswith("cover_eti"):
        return f"{outcome.plural} inside the {score.removeprefix('cover_eti')}% interval (%)"
    name, best = SCORES.get(score, (header(score), ""))
    has_unit = score in ("crps", "mae", "bias", "rmse") or score.startswith("width_")
    return outcome.of_unit(name, "%" if score.endswith("_rel") else unit if has_unit else "") + best


def _runs_of(comparison: Comparison, part: str) -> int:
    """Return as how many independent runs the rows of a held-out part count; of a comparison without rows each run is one."""
    rows = comparison.rows if len(comparison.rows) else comparison.runs.reset_index()
    own = rows[rows["held_out"] == part] if "held_out" in rows else rows
    return independent_runs(own if len(own) else rows)
