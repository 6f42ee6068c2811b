"""The pictures of a report, with their captions and descriptions."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import evenly
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted
from bayeslaw.evaluation.predictive import PredictiveCheck, predictive_check
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.inference.refit import rows_of
from bayeslaw.laws.outcome import Outcome
from bayeslaw.plots.fit import PRIOR_DRAWS, plot_pair, plot_parameters, plot_prior_posterior, shown_draws
from bayeslaw.plots.forecast import forecast_axis, main_axis, plot_forecast
from bayeslaw.plots.predictive import plot_loo_pit, plot_predictive
from bayeslaw.plots.style import HEIGHT, OF_FILES, WIDTH, make_space, show_dollars
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.parameters import correlated_pairs
from bayeslaw.reporting.facts import INTERVAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FANS = 5  # number of curves in the picture of a fit against its data
REACH = 4.0  # these curves end at this multiple of the largest logged value
POINTS = 40  # number of settings along each curve
DENSITIES = 16  # number of parameters whose prior and posterior densities are drawn
PAIRS = 6  # number of pairs of parameters that are drawn


@dataclass(frozen=True)
class Picture:
    """One picture of a report, with the text below it and a description for readers who can't see it."""

    caption: str
    alt: str
    size: tuple[float, float]  # inches
    draw: Callable[[Figure], object]

    @cached_property
    def figure(self) -> Figure:
        """The figure; it is drawn and laid out once for all kinds of files."""
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        with rc_context(OF_FILES):
            figure = Figure(figsize=self.size, dpi=300, layout="constrained")
            self.draw(figure)
            show_dollars(figure)
            make_space(figure)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            return figure

    def bytes(self, kind: str) -> bytes:
        """Return the picture as an 'svg' or 'pdf' file, the same bytes every time."""
        from matplotlib import rc_context

        out = io.BytesIO()
        about: dict[str, Any] = dict.fromkeys(("Date", "Creator") if kind == "svg" else ("CreationDate", "Producer"))
        about |= {"Creator": "bayeslaw"} if kind == "pdf" else {}  # by which `save_latex` knows its own files
        figure = self.figure
        with rc_context(OF_FILES | {"svg.hashsalt": "bayeslaw"}):
            figure.savefig(out, format=kind, dpi=150, metadata=about)
        return out.getvalue()


def fit_pictures(fit: Fit, label: str, number: int, ci_prob: float, force: bool) -> tuple[dict[str, Picture], str]:
    """Return the pictures of a fit by name, and why those against its data are missing.

    Parameters
    ----------
    fit, label, number
        The fit, its name and its place in the report, from 1.
    ci_prob, force
        As in `report`.
    """
    named = _Named(label, f"{ci_prob * 100:g}%", "" if fit.passed else " Sampling of this fit FAILED.")
    notes, pictures = list[str](), dict[str, Picture]()
    fan = data_fan(fit, force)
    if isinstance(fan, str):
        notes.append(f"There is no picture of {label} against its data: {fan}")
    else:
        pictures["data"] = _data_picture(named, *fan, ci_prob)
    try:
        pictures["predictions"] = _predictions_picture(named, predictive_check(fit))
    except BayeslawError as error:
        notes.append(f"There are no posterior predictive pictures of {label}: {error}")
    pictures |= {"parameters": _parameters_picture(fit, named, ci_prob), "priors": _priors_picture(fit, named)}
    if len(pairs := correlated_pairs(fit, PAIRS)):
        pictures["pairs"] = _pairs_picture(fit, named, pairs)
    return {f"fit{number}-{name}": picture for name, picture in pictures.items()}, " ".join(notes)


class _Named(NamedTuple):
    """What captions of a fit's pictures say: its name, the probability of intervals, and whether sampling failed."""

    label: str
    percent: str
    mark: str


def _data_picture(named: _Named, curves: Forecast, others: int, ci_prob: float) -> Picture:
    """Return the picture of curves through the data, of which `others` more settings are not drawn."""
    (label, percent, mark), outcome, x = named, curves.outcome, forecast_axis(curves)
    few = f" Curves of {counted(others, 'other setting')} are not drawn." if others else ""
    return Picture(
        f"{label} against its own data: median, {percent} {INTERVAL} of the next run, fitted {outcome.plural} as points."
        f"{few}{mark}",
        f"{outcome.heading} against {x} under {label}, a curve with its interval for each of some runs, beside the "
        f"{outcome.plural} that they logged.",
        (WIDTH, HEIGHT), lambda f: plot_forecast(curves, f.subplots(), ci_prob=ci_prob, x=x),
    )  # fmt: skip


def _predictions_picture(named: _Named, check: PredictiveCheck) -> Picture:
    """Return the picture of posterior predictive intervals and LOO-PIT."""
    (label, _, mark), outcome = named, check.outcome

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1)
        plot_predictive(check, above)
        plot_loo_pit(check, below)

    return Picture(
        f"Fitted {outcome.plural} of {label} within posterior predictive intervals of new runs, and LOO-PIT: the cumulative "
        f"share of each {outcome.name}'s rank among predictions from the other runs.{mark}",
        f"Above, deviations of fitted {outcome.plural} from predicted medians with bars of {label}. Below, a line that stays "
        "in the grey band where predictions of left-out runs are calibrated.",
        (WIDTH, 2 * HEIGHT), draw,
    )  # fmt: skip


def _parameters_picture(fit: Fit, named: _Named, ci_prob: float) -> Picture:
    """Return the picture of all parameters within their priors."""
    label, percent, mark = named
    return Picture(
        f"Parameters of {label} within their priors: median and {percent} {INTERVAL}; grey: that of the prior.{mark}",
        f"One row for each parameter of {label}, with its posterior interval on the scale of the prior. The table has the numbers.",
        (WIDTH, 1.1 + 0.34 * len(fit.draws)), lambda f: plot_parameters(fit, f.subplots(), ci_prob=ci_prob),
    )  # fmt: skip


def _priors_picture(fit: Fit, named: _Named) -> Picture:
    """Return the picture of prior and posterior densities of the first parameters."""
    (label, _, mark), names, count = named, list(fit.draws)[:DENSITIES], len(fit.draws)
    rest = "" if count <= DENSITIES else f" These are the first {DENSITIES} of {count} parameters."
    prior = fit.prior_draws(PRIOR_DRAWS)

    def draw(figure: Figure) -> None:
        for ax, name in zip(_grid(figure, len(names), 3), names, strict=True):
            plot_prior_posterior(fit, name, ax, prior=prior)

    return Picture(
        f"Densities of the parameters of {label}, each scaled to its peak: prior dashed, posterior filled.{rest}{mark}",
        f"Small panels, one for each parameter of {label}: prior density as a dashed line, posterior density filled.",
        (WIDTH, 0.3 + 1.65 * -(-len(names) // 3)), draw,
    )  # fmt: skip


def _pairs_picture(fit: Fit, named: _Named, pairs: pd.DataFrame) -> Picture:
    """Return the picture of the most strongly correlated pairs of parameters."""
    label, _, mark = named

    def draw(figure: Figure) -> None:
        for ax, pair in zip(_grid(figure, len(pairs), 2), pairs.itertuples(), strict=True):
            plot_pair(fit, str(pair.one), str(pair.other), ax)

    return Picture(
        f"Posterior draws of the {len(pairs)} most strongly correlated pairs of the {len(fit.draws)} parameters of {label}, "
        f"{shown_draws(fit)}; diamonds: medians.{mark}",
        f"Scatter plots of the pairs of parameters of {label} with the strongest rank correlation, as in the table.",
        (WIDTH, 0.3 + 2.3 * -(-len(pairs) // 2)), draw,
    )  # fmt: skip


def _grid(figure: Figure, count: int, columns: int) -> list[Axes]:
    """Return axes for this number of panels; the rest of the last row stays empty."""
    axes = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return list(axes[:count])


def _setting(group: pd.DataFrame, columns: Sequence[str], outcome: Outcome) -> dict[str, Any]:
    """Return what is the same along a curve, and of outcomes that are shares of items a usual number of these."""
    setting = dict(group[list(columns)].iloc[0])
    return setting | ({outcome.items: float(np.round(group[outcome.items].median()))} if outcome.items else {})


def data_fan(fit: Fit, force: bool = False) -> tuple[Forecast, int] | str:
    """Return forecasts along some of a fit's runs and beyond, and the number of other settings; or why curves can't show them."""
    rows, axes, outcome = rows_of(fit).frame, fit.law.axes, fit.law.outcome
    if fit.law.series or not axes:
        return f"its {outcome.plural} depend on whole schedules."
    facts = {*outcome.facts}
    if not facts or len({*axes} - facts) > 1:  # accuracies along a loss alone have a curve for each task
        for column in fit.law.levels:
            rows = rows[rows[column] == rows[column].mode().iloc[0]]
    x = main_axis({name: rows[name].nunique() for name in axes})
    others = [name for name in axes if name != x] + ([outcome.chance] if isinstance(outcome.chance, str) else [])
    texts = list(fit.law.levels)
    if fit.observed.group_names and fit.observed.group_column not in (*axes, *texts):
        texts.append(fit.observed.group_column)
    columns = [*others, *texts]
    groups = [group for _, group in rows.groupby(columns, dropna=False)] if columns else [rows]
    groups = [group for group in groups if group[x].nunique() >= 3 and group[others].notna().all(axis=None)]
    if not groups:
        return f"at no setting there are three {outcome.plural} along {x}."
    chosen = [groups[i] for i in evenly(len(groups), FANS)]
    values = pd.concat(chosen)[x]
    start, end = float(values[values > 0].min()), float(values.max())
    along = np.geomspace(start, REACH * end, POINTS) if axes[x].logarithmic else np.linspace(float(values.min()), end, POINTS)
    settings = pd.concat(
        [pd.DataFrame({x: along}).assign(**_setting(group, columns, outcome)) for group in chosen], ignore_index=True
    )
    try:
        return forecast(fit, settings, force=force), len(groups) - len(chosen)
    except BayeslawError as error:
        return str(error)
