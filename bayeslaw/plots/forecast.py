"""The picture of a forecast: medians and bands over one covariate, beside the fitted runs and outcomes measured since."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import evenly
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import interval_names
from bayeslaw.core.text import counted, exact
from bayeslaw.core.units import check_unit
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.tokenizers import check_loss_unit, check_tokenizer
from bayeslaw.data.validate import base_rows
from bayeslaw.forecasting.forecast import Forecast
from bayeslaw.inference.refit import rows_of
from bayeslaw.plots.several import Drawing, check_axes, free_places, name_all
from bayeslaw.plots.style import (
    COLOURS,
    COMPUTE,
    ERRORS,
    HATCHED,
    LETTERS,
    MARGIN,
    MARKERS,
    MOST_LINES,
    SMALL,
    axes_of,
    count_measured,
    draw_errors,
    expect,
    failure,
    finish,
    fit_scale,
    keep_within,
    mark_missed,
    note_hidden,
    panel_width,
    short_number,
)
from bayeslaw.posterior.parameters import in_unit_of_losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

NEAR = 0.05  # e-folds of N within which a measured model is one of a curve along which N changes
LABELLED = 0.25  # least share of the width at which hatched ground is labelled
SETTING_TOLERANCE = 1e-3  # relative difference of settings that count as one
ROUNDING = 1e-6  # relative difference of numbers of which one was written as text in between
MOST_POINTS = 1_000  # fitted losses that are drawn at each setting
OUTSIDE = "outside the runs"  # label of hatched ground
LEAST_REACH = 20.0  # fitted losses are drawn to this factor outside the curves, and as far outside as the curves are long


def forecast_axis(forecast: Forecast) -> str:
    """Return the covariate for the horizontal axis of a forecast: that of the fewest curves, and of several that of `main_axis`."""
    names, settings = [*map(str, forecast.outside)], forecast.settings
    curves = {name: len(settings[[c for c in names if c != name]].drop_duplicates()) for name in names}
    fewest = min(curves.values())
    return main_axis({name: settings[name].unique().size for name in names if curves[name] == fewest})


def _usual_axis(forecast: Forecast) -> str:
    """Return `forecast_axis`, or compute for a single setting of N and D, over which all losses of the runs can be shown."""
    single = len(forecast.settings[[*forecast.outside]].drop_duplicates()) == 1
    return COMPUTE if single and {"N", "D"} <= {*forecast.outside} else forecast_axis(forecast)


def main_axis(counts: Mapping[str, int]) -> str:
    """Return the covariate for a horizontal axis by numbers of values: D from three on, otherwise the one with the most."""
    return "D" if counts.get("D", 0) > 2 else max(counts, key=counts.__getitem__)


def text_names(forecast: Forecast) -> dict[str, Callable[[object], str]]:
    """Return the text columns by which parameters or noise of the fits differ, with functions from values to the fits' names."""
    fits = [part.fit for part in forecast.members]
    names: dict[str, Callable[[object], str]] = {column: exact for fit in fits for column in fit.law.levels}
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
    measured: Table | None = None,
    x: str | None = None,
    unit: str = "",
    fitted: bool = True,
    label: str = "",
) -> Axes:
    """Draw the median outcome over one covariate and the interval of the next run, in one colour for each other setting.

    At each setting they are those of the spread to report (`Forecast.headlines`): the interval of `run` about the latent median, or
    median and interval of `extrapolated` outside the runs; where a discrepancy was stated, its interval. The ground is hatched
    where the covariate leaves the range of the runs. A line is dashed where its settings lie outside the runs in another covariate.

    Known errors of losses (column `loss_se`) are thin bars of one standard error on either side. The intervals that judge measured
    losses here are without them; those of `score` have them.

    Small points are the fitted losses at the setting of a curve, in all covariates but the one on the axis. Where there are none,
    those at the nearest setting of the runs are grey. Measured losses are hollow, with a cross where the interval does not hold
    them; curves and bands go through the forecasts at their settings too, which judge them. Notes below the picture count what is
    not drawn. A thin dashed line is what guessing scores, where the law's card says so.

    A second forecast on the same axes has colours that none of their lines has; legend and notes then name each forecast.

    Parameters
    ----------
    forecast : Forecast
    ax : matplotlib Axes, optional
        By default those of a new figure of pyplot, which a notebook shows.
    ci_prob : float
        Probability of the equal-tailed interval.
    measured : Runs, DataFrame or path, optional
        Measured losses, which are read by `read_runs` and are in the unit of the fit ('another-unit' otherwise): columns `loss`
        (or the name of another outcome), the covariates that change along curves or by which they differ, and the text columns by
        which parameters or noise of the fit differ; 'missing-columns' otherwise.
    x, unit : str, optional
        Covariate on the horizontal axis (by default that of `forecast_axis`; 'unknown-covariate' for others) and its unit (by
        default that of the law's card). Where settings have N and D it may be 'compute', which is 6 N D: one curve for each N, or
        where N and D change together, one for all. It is the default for a single setting.
    fitted : bool
        Whether to draw the fitted losses.
    label : str
        What legend and notes call the forecast, by default the law, with the setting where several forecasts are of one law.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> forecast = fit.forecast(bayeslaw.grid(fit, {"N": [1e8, 1e9], "D": "1e8:1e11:20"}))
    >>> bayeslaw.plots.plot_forecast(forecast, Figure().subplots(), x="D").get_xlabel()
    'D (training tokens)'
    >>> bayeslaw.plots.plot_forecast(forecast, Figure().subplots(), x="compute").get_xlabel()
    'compute (FLOPs)'
    """
    expect(forecast, Forecast, "fit.forecast(settings)")
    curves = _Curves.of(forecast, x or _usual_axis(forecast), ci_prob)
    losses, without = (None, []) if measured is None else _measured_rows(curves, measured)
    curves = curves if losses is None else curves.through(losses, ci_prob)
    x, outcome, ax = curves.x, forecast.outcome, axes_of(ax)
    check_axes(ax, shown := (x, outcome.labelled(forecast.unit)))
    curves, before = replace(curves, places=free_places(ax, len(curves.drawn))), {*ax.lines}
    lines = [(_draw_curve(ax, curves, i), _words(curves.setting(i))) for i in range(len(curves.drawn))]
    note_hidden(ax, curves.count, "setting")
    grounds = _grounds_outside(forecast, x)
    points = [losses[x].to_numpy(dtype=np.float64)] if losses is not None else []
    if fitted and curves.table[x].min() == curves.table[x].max():
        points.append(fitted_rows(forecast, [x])[x].to_numpy(dtype=np.float64))
    fit_scale(ax, np.concatenate([curves.table[x].to_numpy(dtype=np.float64), *grounds, *(p[p > 0] for p in points)]))
    notes = _draw_fitted(ax, curves) if fitted else []
    if fitted and "N" in curves.along and x != "N":
        together = ", and those of a curve change together" if len(curves.table) > 1 else ""
        notes.append(f"fitted {outcome.plural} are of any N and D{together}")
    if losses is not None:
        notes = list(dict.fromkeys([*notes, *without, *_draw_measured(ax, curves, losses, ci_prob)]))
    _draw_chance(ax, curves)
    _shade_outside(ax, grounds)  # whose label has space or not on the axis as it is with all points
    keep_within(ax, outcome)
    if any(_elsewhere(curve, curves.along) for curve in curves.drawn):
        notes.append("dashed: outside the runs in another covariate")
    constant = [*(c for c in ("N", "D") if c in curves.along and c != x and curves.table[c].unique().size == 1), *curves.others]
    fixed = _words({c: curves.table[c].iloc[0] for c in constant if c not in curves.varying})
    notes = [*([f"at {fixed}"] if fixed else []), *notes]
    if "extrapolated" in forecast.headlines:
        inside = "run inside the runs, extrapolated outside" if "run" in forecast.headlines else "extrapolated"
        notes.insert(0, f"interval: {inside}")
    units = (in_unit_of_losses(part.fit, part.fit.covariates[x].unit) for part in forecast.members if x in part.fit.covariates)
    unit = unit or next(units, "FLOPs" if x not in forecast.outside else "")
    drawn = {line for line, _ in lines} | before
    entries = tuple((line, str(line.get_label())) for line in ax.lines if line not in drawn)
    entries = tuple((line, text) for line, text in entries if not text.startswith("_"))
    drawing = Drawing(label, forecast.law, fixed, tuple(lines), entries, tuple(notes), _title(forecast, ci_prob), shown)
    title, notes = name_all(ax, drawing)
    return finish(ax, outcome.of_unit(x, unit), shown[1], title, notes)


@dataclass(frozen=True, eq=False)
class _Curves:
    """The curves of a picture, over one covariate or compute."""

    forecast: Forecast
    x: str
    along: set[str]  # columns that change along a curve, x among them
    others: list[str]  # the other covariates, and text columns
    varying: list[str]  # those of them by which curves differ
    table: pd.DataFrame  # all settings, with the columns of `_headline`
    drawn: list[pd.DataFrame]  # the settings of each curve that is drawn, ascending in x
    count: int  # of all curves
    places: Sequence[int] = ()  # of the colours and marks of those drawn

    @classmethod
    def of(cls, forecast: Forecast, x: str, ci_prob: float) -> _Curves:
        covariates, along = [str(c) for c in forecast.outside], {x}
        by_compute = x == COMPUTE and {"N", "D"} <= {*covariates} and COMPUTE not in covariates
        if x not in covariates and not by_compute:
            known = ", ".join(covariates)
            raise BayeslawError(f"{x!r} is not a covariate of {forecast.law}, which has {known}.", code="unknown-covariate")
        table, texts = _summary(forecast, by_compute, ci_prob), [*text_names(forecast)]
        if by_compute:
            of_size = table.groupby(["N", *(c for c in covariates if c not in ("N", "D")), *texts])["D"].nunique()
            along = {x, "D"} if of_size.max() > 1 else {x, "N", "D"}
        others = [*(c for c in covariates if c not in along), *_asked(forecast, table, x), *texts]
        varying = [c for c in others if c in texts or table[c].unique().size > 1]
        # Numbers ascend, and names stay in the order in which they were asked for.
        keys = [pd.factorize(table[c])[0] if c in texts else table[c].to_numpy() for c in varying]
        curves = [curve for _, curve in table.groupby(keys, sort=True)] if varying else [table]
        drawn = [curves[i].sort_values(x) for i in evenly(len(curves), MOST_LINES)]
        return cls(forecast, x, along, others, varying, table, drawn, len(curves))

    def through(self, measured: pd.DataFrame, ci_prob: float) -> _Curves:
        """Return the curves with points at the settings of measured outcomes.

        Between settings of a coarse grid a straight line is no forecast, and outcomes would be judged wrongly by it.
        """
        between = [self._between(curve, measured) for curve in self.drawn]
        settings = pd.concat(between, ignore_index=True)
        if settings.empty:
            return self
        added = _summary(self.forecast.again(Runs(settings, "measured settings")), COMPUTE in self.along, ci_prob)
        of_curve = np.repeat(np.arange(len(between)), [len(some) for some in between])
        drawn = [pd.concat([curve, added[of_curve == i]]).sort_values(self.x) for i, curve in enumerate(self.drawn)]
        return replace(self, drawn=drawn)

    def setting(self, i: int) -> dict[str, Any]:
        """Return the values by which the i-th curve that is drawn differs from others."""
        return {name: self.drawn[i][name].iloc[0] for name in self.varying}

    def look(self, i: int) -> tuple[str, str]:
        """Return the colour and the mark of the i-th curve that is drawn."""
        return COLOURS[self.places[i]], MARKERS[self.places[i]]

    def _between(self, curve: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
        """Return the settings of measured outcomes between the points of a curve; none if the table lacks what changes along it."""
        given = {name for member in self.forecast.members for name in member.fit.law.measured if name in self.forecast.settings}
        changing = [name for name in given if (curve[name] != curve[name].iloc[0]).any()]
        if not {*changing} <= {*measured}:
            return self.forecast.settings.head(0)
        same = _same(measured, curve, [c for c in self.others if c in measured])
        rows = measured[same].dropna(subset=changing).drop_duplicates(self.x)
        at, along = rows[self.x].to_numpy(dtype=np.float64), curve[self.x].to_numpy(dtype=np.float64)
        new = (at > along.min()) & (at < along.max()) & ~_same_point(at, along).any(axis=1)
        nearest = np.abs(np.subtract.outer(at[new], along)).argmin(axis=1)
        settings: pd.DataFrame = self.forecast.settings.loc[curve.index[nearest]]
        return settings.assign(**{name: rows[name].to_numpy()[new] for name in changing})


def _same_point(at: NDArray[np.float64], along: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark which values (n,) on the horizontal axis are those of points of a curve (m,); bool array (n, m)."""
    return np.isclose(at[:, None], along, rtol=ROUNDING, atol=0.0)


def _summary(forecast: Forecast, by_compute: bool, ci_prob: float) -> pd.DataFrame:
    """Return the table of a forecast with text columns as the fits have them, the columns of `_headline` and, if so, compute."""
    table = forecast.summary(ci_prob)
    table = _headline(forecast, table.assign(**text_columns(forecast, table)), ci_prob)
    return _with_compute(table) if by_compute else table


def _measured_rows(curves: _Curves, measured: Table) -> tuple[pd.DataFrame, list[str]]:
    """Return measured outcomes with the columns that their place among the curves takes, and notes of those that have none."""
    forecast, runs = curves.forecast, read_runs(measured)
    for fit in (member.fit for member in forecast.members):
        if fit.law.outcome.is_loss:
            check_unit(fit.observed.unit, runs.frame, runs.name)
        check_loss_unit(fit.info.get("loss_unit", ""), runs.frame, fit.law, runs.name)
        check_tokenizer(fit.token_length, runs.frame, fit.law, runs.name)
    rows = runs.frame if curves.x in forecast.outside else _with_compute(runs.frame)
    needed = dict.fromkeys([curves.x, *sorted(curves.along), *curves.varying, forecast.outcome.name])
    if missing := [c for c in needed if c not in rows]:
        problem = f"The measured {forecast.outcome.plural} have no column {', '.join(missing)}: add it to the table."
        raise BayeslawError(problem, code="missing-columns")
    rows = rows.assign(**text_columns(forecast, rows))
    lacking = rows[[curves.x, forecast.outcome.name]].isna().any(axis=1)
    notes = []
    if lacking.any():
        what = f"{forecast.outcome.name} or no {curves.x}"
        notes.append(f"{int(lacking.sum())} of {len(rows)} rows of the measured {forecast.outcome.plural} have no {what}")
        rows = rows[~lacking]
    if "N" not in curves.along or curves.x == "N":
        return rows, notes
    on_curve = _on_curve(rows, curves.drawn)
    if away := int((~on_curve).sum()):
        notes.append(f"{away} of {len(rows)} measured {forecast.outcome.plural} are of another N at their compute and not drawn")
    return rows[on_curve], notes


def _title(forecast: Forecast, ci_prob: float) -> str:
    median = "median" if "extrapolated" in forecast.headlines else "latent median"
    stated = f", discrepancy {forecast.discrepancy * 100:g}%" if forecast.discrepancy is not None else ""
    interval = f"{ci_prob * 100:g}% equal-tailed interval of the next run"
    return f": {median}, {interval}{stated}{failure(forecast.forced)}"


def _with_compute(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a column of compute, if it has N and D."""
    if not {"N", "D"} <= {*table}:
        return table
    return table.assign(**{COMPUTE: FLOPS * table["N"].astype(float) * table["D"].astype(float)})


def _on_curve(rows: pd.DataFrame, drawn: Sequence[pd.DataFrame]) -> Any:
    """Mark the rows whose N is that of a curve along which N and D change together, at the rows' compute; bool array (n,)."""
    compute, size = (np.log(rows[name].to_numpy(dtype=np.float64)) for name in (COMPUTE, "N"))
    curves = [np.log(group[[COMPUTE, "N"]].to_numpy(dtype=np.float64)) for group in drawn]
    return np.any([np.abs(np.interp(compute, *curve.T) - size) < NEAR for curve in curves], axis=0)


def _asked(forecast: Forecast, table: pd.DataFrame, x: str) -> list[str]:
    """Return covariates that say what was asked of models, by which curves differ: chance, and items unless they vary along curves.

    They are no directions in which runs lie, so `Forecast.outside` has none of them.
    """
    outcome, columns = forecast.outcome, [str(c) for c in (x, *forecast.outside)]
    columns += [outcome.chance] if isinstance(outcome.chance, str) and outcome.chance != x else []
    known = [name for name in columns if name in table and name not in forecast.outside and name != x]
    if outcome.items in table and table.duplicated(list(dict.fromkeys(columns))).any():
        known.append(outcome.items)
    return known


def _draw_chance(ax: Axes, curves: _Curves) -> None:
    """Draw what guessing scores: one line where it is the same for all curves, otherwise one below each."""
    if (chance := curves.forecast.outcome.chance) is None:
        return
    style: dict[str, Any] = {"ls": (0, (4, 3)), "lw": 0.9, "zorder": 1.5}
    of_curves = [curve[chance].astype(float) for curve in curves.drawn] if isinstance(chance, str) else []
    constant = {float(v) for values in of_curves for v in values} if isinstance(chance, str) else {float(chance)}
    if len(constant) == 1:
        ax.axhline(constant.pop(), color="0.35", label="chance", **style)
        return
    for i, (curve, values) in enumerate(zip(curves.drawn, of_curves, strict=True)):
        ax.plot(curve[curves.x], values, color=curves.look(i)[0], **style)
    ax.plot([], [], color="0.35", label="chance", **style)


def _words(setting: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {short_number(value)}" for name, value in setting.items())


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


def _draw_curve(ax: Axes, curves: _Curves, i: int) -> Line2D:
    """Draw the i-th line with its band and return it; marks at its ends tell it from others without colour."""
    rows, (colour, marker) = curves.drawn[i], curves.look(i)
    x, low, high = rows[curves.x], rows["_low"], rows["_high"]
    style: dict[str, Any] = {"ls": "--" if _elsewhere(rows, curves.along) else "-", "marker": marker, "ms": 5, "mec": "white"}
    (line,) = ax.plot(x, rows["_median"], color=colour, lw=1.5, markevery=[0, -1], **style)
    ax.fill_between(x, low, high, color=colour, alpha=0.18, lw=0)
    if len(rows) == 1:  # a band of one point has no width
        ax.vlines(x, low, high, color=colour, alpha=0.4, lw=3)
    return line


# --- outcomes --------------------------------------------------------------------------------------------------------


def fitted_rows(forecast: Forecast, needed: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the forecast's fits, each once, of those fits that have all needed columns."""
    name, tables = forecast.outcome.name, list[pd.DataFrame]()
    for fit in (member.fit for member in forecast.members):
        frame = rows_of(fit).frame
        tables.append(frame[~base_rows(frame, fit.law)])  # base checkpoints that a law can't describe are kept, and not fitted
    tables = [_with_compute(table) if COMPUTE in needed else table for table in tables]
    whole = [table for table in tables if set(needed) <= set(table)]
    rows = pd.concat(whole) if whole else pd.DataFrame(columns=[*needed, name])
    rows = rows.assign(**text_columns(forecast, rows)) if len(rows) else rows
    key = rows[[*needed, name]]
    key = key.apply(lambda column: column.round(12) if pd.api.types.is_numeric_dtype(column) else column).reset_index()
    kept: pd.DataFrame = rows[~key.duplicated().to_numpy()]
    return kept


def _draw_fitted(ax: Axes, curves: _Curves) -> list[str]:
    """Draw the fitted outcomes at the settings of the curves, or at the nearest ones, and return notes of what is not drawn."""
    x, others, drawn, outcome = curves.x, curves.others, curves.drawn, curves.forecast.outcome
    rows = fitted_rows(curves.forecast, [x, *others])
    lowest, highest = _reach(ax, pd.concat(drawn)[x])
    within = ((rows[x] >= lowest) & (rows[x] <= highest)).to_numpy()
    left, thinned, known = np.ones(len(rows), dtype=bool), 0, False

    def points(chosen: NDArray[np.bool_], i: int, **style: Any) -> int:
        """Draw the chosen rows as the i-th curve's, and return how many there was space for."""
        nonlocal thinned, known
        at = np.flatnonzero(chosen & within)
        kept = at[evenly(len(at), MOST_POINTS)]
        left[chosen] = False
        thinned += int(chosen.sum()) - len(kept)
        look: dict[str, Any] = {"ls": "", "marker": curves.look(i)[1], "ms": 3, "mew": 0, "zorder": 2.5}
        ax.plot(rows[x].iloc[kept], rows[outcome.name].iloc[kept], **look | style)
        if outcome.error in rows:
            of = rows.iloc[kept]
            known |= draw_errors(ax, of[x], of[outcome.name], of[outcome.error], style["color"])
        return len(kept)

    shown, of_curves, near = 0, list[int](), dict[tuple[Any, ...], list[int]]()
    for i, curve in enumerate(drawn):
        same = _same(rows, curve, others)
        if same.any():
            count = points(same, i, color=curves.look(i)[0], alpha=0.75)
            shown, of_curves = shown + count, [*of_curves, *[i] * (count > 0)]
        elif (setting := _nearest(curves.forecast, rows, curve, others)) is not None:
            near.setdefault(setting, []).append(i)
    if shown:
        colour, mark = curves.look(of_curves[0]) if len(of_curves) == 1 else ("0.2", "o")
        ax.plot([], [], ls="", marker=mark, ms=3, mew=0, color=colour, alpha=0.75, label=f"fitted {outcome.plural}: {shown}")
    counts, marks = dict[str, int](), dict[str, set[str]]()
    for setting, numbers in near.items():
        nearest = pd.DataFrame([dict(zip(others, setting, strict=True))])
        if any(_same(nearest, curve, others).all() for curve in drawn):
            continue  # these rows stand at a curve of their own
        words = _words({c: nearest[c].iloc[0] for c in others if not all(_same(nearest, drawn[i], [c]).all() for i in numbers)})
        counts[words] = counts.get(words, 0) + points(_same(rows, nearest, others), numbers[0], color="0.45")
        marks.setdefault(words, set()).add(curves.look(numbers[0])[1])
    for words, count in counts.items():
        if count:
            marker = marks[words].pop() if len(marks[words]) == 1 else MARKERS[0]
            ax.plot([], [], ls="", marker=marker, ms=3, color="0.45", label=f"fitted, nearest at {words}: {count}")
    notes = [f"{int(left.sum())} of {len(rows)} fitted {outcome.plural} are of other settings and not drawn"] if left.any() else []
    if thinned:
        of, lie = (outcome.name, "lies") if thinned == 1 else (outcome.plural, "lie")
        notes.append(f"{thinned} fitted {of} of these settings {lie} far outside the curves, or between those drawn")
    return [*notes, ERRORS.format(outcome.error)] if known else notes


def _reach(ax: Axes, along: pd.Series) -> tuple[float, float]:
    """Return the least and the largest value at which fitted outcomes are drawn: all of them beside a single setting."""
    if ax.get_xscale() != "log":
        return -math.inf, math.inf
    low, high = float(along.min()), float(along.max())
    if high == low:
        return np.finfo(float).tiny, math.inf
    factor = max(high / low, LEAST_REACH)
    return low / factor, high * factor


def _same(rows: pd.DataFrame, group: pd.DataFrame, others: Sequence[str]) -> Any:
    """Mark the rows that have the setting of a curve, bool array (n,)."""
    at, same = group.iloc[0], np.ones(len(rows), dtype=bool)
    for name in others:
        if isinstance(at[name], str):
            same &= (rows[name] == at[name]).to_numpy()
        else:
            same &= np.isclose(rows[name].astype(float), at[name], rtol=SETTING_TOLERANCE, atol=1e-12)
    return same


def _nearest(forecast: Forecast, rows: pd.DataFrame, group: pd.DataFrame, others: Sequence[str]) -> tuple[Any, ...] | None:
    """Return the setting of fitted rows that is nearest to that of a curve, relative to the range of the runs; None without any."""
    at, axes = group.iloc[0], {k: c for member in forecast.members for k, c in member.fit.law.measured.items()}
    rows = rows[rows[[c for c in others if not isinstance(at[c], str)]].notna().all(axis=1)]
    distance = np.zeros(len(rows))
    for name in others:
        if isinstance(at[name], str):
            distance = np.where(rows[name] == at[name], distance, np.inf)
            continue
        values, target = rows[name].to_numpy(dtype=np.float64), float(at[name])
        if axes[name].logarithmic and target > 0 and (values > 0).all():
            values, target = np.log(values), math.log(target)
        width = float(np.ptp(values)) if values.size else 0.0
        distance = distance + ((values - target) / (width or 1.0)) ** 2
    if not np.isfinite(distance).any():
        return None
    return tuple(rows.iloc[int(distance.argmin())][list(others)])


def _draw_measured(ax: Axes, curves: _Curves, measured: pd.DataFrame, ci_prob: float) -> list[str]:
    """Draw measured outcomes at the settings of the curves, crossed out where their interval does not hold them; return notes."""
    outcome, others = curves.forecast.outcome, [c for c in curves.others if c in measured]
    left, held, missed, beyond, between = np.ones(len(measured), dtype=bool), 0, 0, 0, 0
    style: dict[str, Any] = {"ls": "", "ms": 5.5, "mfc": "white", "mew": 1.3, "zorder": 4}
    known = False
    for i, curve in enumerate(curves.drawn):
        same = _same(measured, curve, others)
        left &= ~same
        at, values = (measured[name].to_numpy(dtype=np.float64)[same] for name in (curves.x, outcome.name))
        along, low, high = (curve[name].to_numpy(dtype=np.float64) for name in (curves.x, "_low", "_high"))
        points = _same_point(at, along)
        judged, point = points.any(axis=1), points.argmax(axis=1)
        inside = (values >= low[point]) & (values <= high[point])
        if same.any():
            colour, marker = curves.look(i)
            ax.plot(at, values, marker=marker, mec=colour, **style)
            if outcome.error in measured:
                known |= draw_errors(ax, at, values, measured[outcome.error][same], colour)
        if (out := judged & ~inside).any():
            mark_missed(ax, at[out], values[out])
        within = (at > along.min()) & (at < along.max())
        held, missed = held + int((judged & inside).sum()), missed + int(out.sum())
        beyond, between = beyond + int((~judged & ~within).sum()), between + int((~judged & within).sum())
    count_measured(ax, ci_prob, held, missed)
    places = {"beyond the ends of the curves": beyond, "between settings, without all columns that change along a curve": between}
    notes = [f"{counted(n, f'measured {outcome.name}')} {place}: hollow, not counted" for place, n in places.items() if n]
    if left.any():
        notes.append(f"{int(left.sum())} of {len(measured)} measured {outcome.plural} are of other settings and not drawn")
    return [*notes, ERRORS.format(outcome.error)] if known else notes


# --- ground ----------------------------------------------------------------------------------------------------------


def _elsewhere(group: pd.DataFrame, along: Collection[str]) -> bool:
    """Return whether all settings of a line lie outside the runs in a covariate that does not change along it."""
    others = [str(c) for c in group if str(c).startswith("outside_") and str(c).removeprefix("outside_") not in along]
    return bool(len(others) and (group[others] > 0).any(axis=1).all())


def _grounds_outside(forecast: Forecast, x: str) -> list[tuple[float, float]]:
    """Return where settings leave the range of the runs of any law of the forecast: from the range's end to the farthest."""
    derived = x not in forecast.outside
    tables = [pd.DataFrame(part.fit.observed.covariates) for part in forecast.members]
    tables = [_with_compute(table) if derived else table for table in tables]
    seen = [table[x].to_numpy(dtype=np.float64) for table in tables if x in table]
    given = (_with_compute(forecast.settings) if derived else forecast.settings)[x].to_numpy(dtype=np.float64)
    low, high = max(float(v.min()) for v in seen), min(float(v.max()) for v in seen)
    beyond = np.ones(given.size, bool) if derived else forecast.outside[x].to_numpy(dtype=np.float64) > 0
    ends = ((float(given.min()), low, given < low), (high, float(given.max()), given > high))
    return [(start, end) for start, end, side in ends if (beyond & side).any()]


def _shade_outside(ax: Axes, grounds: Sequence[tuple[float, float]]) -> None:
    """Hatch the ground where settings leave the range of the runs."""
    for start, end in grounds:
        ax.axvspan(start, end, fc="0.95", zorder=0, **HATCHED)
        middle = math.sqrt(start * end) if ax.get_xscale() == "log" else (start + end) / 2
        known = any(text.get_text().replace("\n", " ") == OUTSIDE and start < text.get_position()[0] < end for text in ax.texts)
        share = _share_of_width(ax, start, end)
        if share > LABELLED and not known:
            fits = share * (panel_width(ax) - MARGIN) * LETTERS > len(OUTSIDE) - 2  # its letters are narrow
            place: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "top", "zorder": 6}
            ground = {"fc": "0.95", "ec": "none", "pad": 1.5}
            ax.text(middle, 0.985, OUTSIDE if fits else OUTSIDE.replace(" ", "\n", 1), fontsize=SMALL, bbox=ground, **place)


def _share_of_width(ax: Axes, start: float, end: float) -> float:
    """Return the share of the width of an axes that lies between two values on its horizontal axis."""
    left, right = (float(ax.transScale.transform((value, 1.0))[0]) for value in (start, end))
    low, high = (float(ax.transScale.transform((value, 1.0))[0]) for value in ax.get_xlim())
    return (right - left) / (high - low)
