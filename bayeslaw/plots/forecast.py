"""The picture of a forecast: medians and bands over one covariate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import interval_names
from bayeslaw.forecasting.forecast import OUTSIDE, Forecast
from bayeslaw.laws.pooling import level
from bayeslaw.plots.style import COLOURS, MARKERS, MOST_LINES, failure, finish, new_axes, note_hidden, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELLED = 0.12  # least share of the width at which hatched ground is labelled


def forecast_axis(forecast: Forecast) -> str:
    """Return the covariate for the horizontal axis: D where it varies, otherwise the one with the most values."""
    counts = {str(c): forecast.settings[c].unique().size for c in forecast.outside}
    return "D" if counts.get("D", 0) > 2 else max(counts, key=lambda c: counts[c])


def text_names(forecast: Forecast) -> dict[str, Callable[[object], str]]:
    """Return the text columns by which parameters or noise of the fits differ, with functions from values to the fits' names."""
    fits = [part.fit for part in forecast.members]
    names: dict[str, Callable[[object], str]] = {column: level for fit in fits for column in fit.law.levels}
    for fit in fits:
        if fit.observed.group_names:
            names.setdefault(fit.observed.group_column, str)
    return {column: name for column, name in names.items() if column not in forecast.outside}


def text_columns(forecast: Forecast, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of `text_names` that are in a table, as text."""
    return pd.DataFrame({column: frame[column].map(name) for column, name in text_names(forecast).items()}, index=frame.index)


def plot_forecast(
    forecast: Forecast,
    ax: Axes | None = None,
    *,
    ci_prob: float = 0.9,
    measured: pd.DataFrame | None = None,
    x: str | None = None,
    unit: str = "",
) -> Axes:
    """Draw the median loss over one covariate and the interval of the next run, in one colour for each other setting.

    At each setting they are those of the spread to report (`Forecast.headlines`): the interval of `run` about the latent median, or
    median and interval of `extrapolated` outside the runs; where a discrepancy was stated, its interval. The ground is hatched
    where the covariate leaves the range of the runs. A line is dashed where its settings lie outside the runs in another covariate.

    Parameters
    ----------
    forecast : Forecast
    ax : matplotlib Axes, optional
        By default those of a new figure of pyplot, which a notebook shows.
    ci_prob : float
        Probability of the equal-tailed interval.
    measured : DataFrame, optional
        Measured losses, drawn as points: columns `loss`, the covariates of the settings, and the text columns by which parameters
        or noise of the fit differ; 'missing-columns' otherwise.
    x, unit : str, optional
        Covariate on the horizontal axis (by default that of `forecast_axis`; 'unknown-covariate' for others) and its unit.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> forecast = fit.forecast(bayeslaw.grid(fit, {"N": [1e8, 1e9], "D": "1e8:1e11:20"}))
    >>> bayeslaw.plots.plot_forecast(forecast, Figure().subplots(), unit="tokens").get_xlabel()
    'D (tokens)'
    """
    x = x or forecast_axis(forecast)
    if x not in forecast.outside:
        known = ", ".join(map(str, forecast.outside))
        raise BayeslawError(f"{x!r} is not a covariate of {forecast.law}, which has {known}.", code="unknown-covariate")
    table = forecast.summary(ci_prob)
    texts = text_columns(forecast, table)
    table = _headline(forecast, table.assign(**texts), ci_prob)
    covariates = [c for c in forecast.outside if c != x and table[c].unique().size > 1]
    others = [*covariates, *texts]
    groups: list[tuple[Any, pd.DataFrame]] = list(table.groupby(others, sort=True)) if others else [((), table)]
    if measured is not None:
        if missing := [c for c in (x, *others, "loss") if c not in measured]:
            lacking = ", ".join(map(str, missing))
            raise BayeslawError(f"The measured losses have no column {lacking}: add it to the table.", code="missing-columns")
        measured = measured.assign(**text_columns(forecast, measured))
    ax = ax or new_axes()
    for i, (key, group) in enumerate(groups[:MOST_LINES]):
        setting = dict(zip(others, key, strict=True))
        label = ", ".join(f"{c} = {short_number(v)}" for c, v in setting.items()) or forecast.law
        _draw_setting(ax, i, group.sort_values(x), x, label)
        if measured is not None:
            same = [measured[c] == v if c in texts else np.isclose(measured[c], v) for c, v in setting.items()]
            points = measured[np.all(same, axis=0)] if same else measured
            ax.plot(points[x], points["loss"], ls="", marker=MARKERS[i], ms=4, mfc="white", mec=COLOURS[i], mew=1.2)
    note_hidden(ax, len(groups), "settings ")
    if table[x].min() > 0 and table[x].max() > 20 * table[x].min():
        ax.set_xscale("log")
    _shade_outside(forecast, ax, x)
    if any(_elsewhere(group, x) for _, group in groups[:MOST_LINES]):
        ax.text(0.01, 0.01, "dashed: outside the runs in another covariate", transform=ax.transAxes, fontsize=7, va="bottom")
    extrapolated = "extrapolated" in forecast.headlines
    title = f"{forecast.law}: {'' if extrapolated else 'latent '}median, {ci_prob * 100:g}% equal-tailed interval of the next run"
    title += f", discrepancy {forecast.discrepancy * 100:g}%" if forecast.discrepancy is not None else ""
    finish(ax, f"{x} ({unit})" if unit else x, f"loss ({forecast.unit})", title + failure(forecast.forced))
    if extrapolated and (legend := ax.get_legend()):
        inside = "run inside the runs, extrapolated outside" if "run" in forecast.headlines else "extrapolated"
        legend.set_title(f"interval: {inside}")
        legend.get_title().set_fontsize(7)
    return ax


def _headline(forecast: Forecast, table: pd.DataFrame, ci_prob: float) -> pd.DataFrame:
    """Return the table with the median and the ends of the interval to report in columns `_median`, `_low` and `_high`."""
    spreads, rows = forecast.headlines, np.arange(len(table))
    ends = [[f"{spread}_{end}" for spread in spreads] for end in interval_names("eti", ci_prob)]
    medians = ["extrapolated_median" if spread == "extrapolated" else "latent_median" for spread in spreads]
    chosen = {
        name: table[list(dict.fromkeys(columns))].to_numpy()[rows, pd.factorize(np.array(columns, dtype=object))[0]]
        for name, columns in zip(("_median", "_low", "_high"), (medians, *ends), strict=True)
    }
    return table.assign(**chosen)


def _draw_setting(ax: Axes, i: int, rows: pd.DataFrame, x: str, label: str) -> None:
    """Draw the i-th line with its band, from the columns of `_headline`."""
    low, high = rows["_low"], rows["_high"]
    style: dict[str, Any] = {"ls": "--" if _elsewhere(rows, x) else "-", "marker": MARKERS[i] if len(rows) < 3 else None}
    ax.plot(rows[x], rows["_median"], color=COLOURS[i], lw=1.5, label=label, **style)
    ax.fill_between(rows[x], low, high, color=COLOURS[i], alpha=0.18, lw=0)
    if len(rows) == 1:  # a band of one point has no width
        ax.vlines(rows[x], low, high, color=COLOURS[i], alpha=0.4, lw=3)


def _elsewhere(group: pd.DataFrame, x: str) -> bool:
    """Return whether all settings of a line lie outside the runs in a covariate other than `x`."""
    others = [str(c) for c in group if str(c).startswith("outside_") and c != f"outside_{x}"]
    return bool(len(others) and (group[others] > OUTSIDE).any(axis=1).all())


def _shade_outside(forecast: Forecast, ax: Axes, x: str) -> None:
    """Hatch the ground where a covariate leaves the range of the runs of any law of the forecast."""
    given = forecast.settings[x].to_numpy(dtype=np.float64)
    beyond = forecast.outside[x].to_numpy(dtype=np.float64) > OUTSIDE
    seen = [part.fit.observed.covariates[x] for part in forecast.members if x in part.fit.observed.covariates]
    low, high = max(float(v.min()) for v in seen), min(float(v.max()) for v in seen)
    for start, end, side in ((float(given.min()), low, given < low), (high, float(given.max()), given > high)):
        if (beyond & side).any():
            ax.axvspan(start, end, fc="0.95", ec="0.82", hatch="//", lw=0, zorder=0)
            middle = math.sqrt(start * end) if ax.get_xscale() == "log" else (start + end) / 2
            if _share_of_width(ax, start, end) > LABELLED:
                ax.text(middle, 0.985, "outside the runs", transform=ax.get_xaxis_transform(), fontsize=7, ha="center", va="top")


def _share_of_width(ax: Axes, start: float, end: float) -> float:
    """Return the share of the width of an axes that lies between two values on its horizontal axis."""
    left, right = (float(ax.transScale.transform((value, 1.0))[0]) for value in (start, end))
    low, high = (float(ax.transScale.transform((value, 1.0))[0]) for value in ax.get_xlim())
    return (right - left) / (high - low)
