"""Pictures: thin functions over the tables of the other modules. They take an axes, return it, and save nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.errors import BayeslawError
from bayeslaw.fits import interval_names
from bayeslaw.forecasts import Forecast
from bayeslaw.tables import check_target, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by colour-blind readers; lines also differ by marker.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
MOST_LINES = len(COLOURS)
PICTURES = (".png", ".pdf", ".svg")


def forecast_axis(forecast: Forecast) -> str:
    """The covariate for the horizontal axis: D where it varies, else the one with most values."""
    counts = {str(c): forecast.settings[c].unique().size for c in forecast.outside}
    return "D" if counts.get("D", 0) > 2 else max(counts, key=lambda c: counts[c])


def plot_forecast(
    forecast: Forecast,
    ax: Axes,
    *,
    ci_prob: float = 0.9,
    measured: pd.DataFrame | None = None,
    x: str | None = None,
    unit: str = "",
) -> Axes:
    """Fans of the forecast over one covariate: line latent median, band the next run's interval, a colour for each other setting.

    The interval is that of `run`, or of the stated discrepancy.

    Parameters
    ----------
    forecast : Forecast
    ax : matplotlib Axes
    ci_prob : float
    measured : DataFrame, optional
        Logged losses to show as points, with the covariates of the settings and `loss`.
    x : str, optional
        Covariate on the horizontal axis.
    unit : str
        Its unit, for the axis label.

    Returns
    -------
    Axes
    """
    x = x or forecast_axis(forecast)
    if x not in forecast.outside:
        raise BayeslawError(f"{x!r} is no covariate of {forecast.law}; those are {', '.join(map(str, forecast.outside))}.")
    table = forecast.summary(ci_prob)
    others = [c for c in forecast.outside if c != x and table[c].unique().size > 1]
    groups: list[tuple[tuple[Any, ...], pd.DataFrame]] = [((), table)]
    if others:
        groups = [(tuple(np.atleast_1d(key)), group) for key, group in table.groupby(others, sort=True)]
    if measured is not None and (missing := [c for c in (x, *others, "loss") if c not in measured]):
        raise BayeslawError(f"The measured losses lack {', '.join(map(str, missing))}.")
    low, high = (f"{forecast.spread}_{end}" for end in interval_names("eti", ci_prob))
    for i, (key, group) in enumerate(groups[:MOST_LINES]):
        group = group.sort_values(x)
        label = ", ".join(f"{c} = {_short(float(v))}" for c, v in zip(others, key, strict=True)) or forecast.law
        colour = COLOURS[i]
        ax.plot(group[x], group["latent_median"], color=colour, lw=1.5, label=label, marker=MARKERS[i] if len(group) < 3 else None)
        ax.fill_between(group[x], group[low], group[high], color=colour, alpha=0.18, lw=0)
        if len(group) == 1:  # a band of one point has no width
            ax.vlines(group[x], group[low], group[high], color=colour, alpha=0.4, lw=3)
        if measured is not None:
            same = (
                np.all([np.isclose(measured[c], v) for c, v in zip(others, key, strict=True)], axis=0)
                if others
                else np.full(len(measured), True)
            )
            points = measured[same]
            ax.plot(points[x], points["loss"], ls="", marker=MARKERS[i], ms=4, mfc="white", mec=colour, mew=1.2)
    if len(groups) > MOST_LINES:
        ax.plot([], [], " ", label=f"… and {len(groups) - MOST_LINES} more settings not shown")
    if table[x].min() > 0 and table[x].max() > 20 * table[x].min():
        ax.set_xscale("log")
    ax.set_xlabel(f"{x} ({unit})" if unit else x)
    ax.set_ylabel(f"loss ({forecast.unit})")
    title = f"{forecast.law}: latent median, {ci_prob * 100:g}% equal-tailed interval of the next run"
    title += f", discrepancy {forecast.discrepancy * 100:g}%" if forecast.discrepancy is not None else ""
    ax.set_title(title + (" — CHECKS FAILED" if forecast.forced else ""), fontsize=9)
    ax.legend(fontsize=7, frameon=False)
    return ax


def _short(value: float) -> str:
    """A number for a legend: 13.8k, 8.1B, 0.25."""
    value = float(f"{value:.3g}")
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def save_figure(path: Path, draw: Callable[[Axes], object]) -> None:
    """Draw into a figure of its own and write it as .png, .pdf or .svg."""
    check_target(path, "A picture", *PICTURES)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    draw(figure.subplots())
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=150))
