"""Pictures of schedules: learning rates, their areas, and losses, in panels below each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import interval_names
from bayeslaw.core.units import NATS
from bayeslaw.plots.style import (
    COLOURS,
    DASHES,
    MARKERS,
    MEDIUM,
    MOST_LINES,
    SMALL,
    axes_of,
    draw_band,
    legend_text,
    new_panels,
    note_hidden,
    put_legend,
    show_dollars,
)
from bayeslaw.schedules.areas import Phase
from bayeslaw.schedules.schedule import MEMORY, Schedule, State, areas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = ("learning rate", "forward area S1\n(rate × steps)", "annealing area S2\n(rate × steps)", "loss")
POINTS = 3_000  # of a line

Phases = Schedule | Sequence[tuple[Phase, Schedule]]


def plot_schedules(
    schedules: Mapping[str, Phases],
    axes: Axes | Sequence[Axes] | None = None,
    *,
    memory: float = MEMORY,
    predicted: pd.DataFrame | None = None,
    measured: pd.DataFrame | None = None,
    spread: str = "run",
    ci_prob: float = 0.9,
    unit: str = NATS,
    weights: Mapping[str, Sequence[float]] | None = None,
) -> Sequence[Axes]:
    """Draw learning rates, areas S1 and S2, and losses in panels below each other, with one line for each schedule.

    Parameters
    ----------
    schedules : mapping
        By name: a schedule, or consecutive phases as `Curves.phases` returns them. A thin vertical line marks a change of phase.
    axes : Axes or sequence of up to four, optional
        Panels for rates, S1, S2 and losses, in this order, which share their horizontal axis; all four if losses are given. By
        default those of a new figure of pyplot.
    memory : float
        lambda, the decay of momentum in S2.
    predicted : DataFrame, optional
        Columns `run` (a name of `schedules`), `step` (counted over all phases), and `latent_median` and the interval of `spread`
        as in the summary of a forecast.
    measured : DataFrame, optional
        Columns `run`, `step` (counted over all phases) and `loss`, drawn as points.
    spread, ci_prob : str, float
        Kind and probability of the interval that is drawn as a band: 'run', or 'extrapolated' where the headline of the forecast
        is; others that `predicted` lacks are refused ('missing-columns').
    unit : str
        Unit of the losses.
    weights : mapping of name to sequence of float, optional
        The weight of a step of each phase in the areas, as `Curves.weights` returns them; by default 1.

    Raises
    ------
    BayeslawError
        If there is no schedule ('nothing-to-draw'), one is given in another form ('wrong-object'), a table lacks a column
        ('missing-columns'), or the number of panels does not fit ('wrong-number-of-axes').

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from bayeslaw.schedules.schedule import cosine
    >>> panels = bayeslaw.plots.plot_schedules({"cosine": cosine(1000, 2e-4, warmup=100)}, Figure().subplots(3))
    >>> panels[0].get_ylabel()
    'learning rate'
    """
    _check_given(schedules, predicted, measured, weights)
    least = len(LABELS) if predicted is not None or measured is not None else 1
    if axes is None:
        axes = new_panels(max(least, len(LABELS) - 1))
    panels = [axes_of(ax) for ax in (axes if isinstance(axes, (Sequence, np.ndarray)) else [axes])]
    if not least <= len(panels) <= len(LABELS):
        raise BayeslawError(f"A picture of these schedules has {least} to 4 axes, not {len(panels)}.", code="wrong-number-of-axes")
    for i, (name, phases) in enumerate(list(schedules.items())[:MOST_LINES]):
        whole: Sequence[tuple[Phase, Schedule]] = [("pretrain", phases)] if isinstance(phases, Schedule) else phases
        lines = _rates_and_areas(whole, memory, np.ones(len(whole)) if weights is None else weights[name])
        shown = np.unique(np.linspace(0, lines[0].size - 1, POINTS).astype(np.int64))
        ends = np.cumsum([len(schedule) for _, schedule in whole]).tolist()
        changes = [end for end, (phase, _), (after, _) in zip(ends, whole, whole[1:], strict=False) if phase != after]
        for ax, line in zip(panels, lines, strict=False):
            ax.plot(shown + 1, line[shown], color=COLOURS[i], ls=DASHES[i], lw=1.4, label=legend_text(name))
            for end in changes:
                ax.axvline(end, color=COLOURS[i], lw=0.6, alpha=0.6)
        if len(panels) == len(LABELS):
            _losses(panels[-1], name, i, predicted, measured, (spread, ci_prob))
    note_hidden(panels[0], len(schedules))
    weighted = weights is not None and any(weight != 1 for name in schedules for weight in weights[name])
    for ax, label in zip(panels, LABELS, strict=False):
        label = label.replace("steps", "weighted steps") if weighted else label
        ax.set_ylabel(f"{label} ({unit})" if label == LABELS[-1] else label, fontsize=SMALL)
        ax.tick_params(labelsize=SMALL)
        for axis in (ax.xaxis, ax.yaxis):
            axis.get_offset_text().set_fontsize(SMALL)
    panels[-1].set_xlabel("step", fontsize=MEDIUM)
    put_legend(panels[-1], handles=panels[0].get_legend_handles_labels()[0])
    show_dollars(panels[-1])
    return panels


def _check_given(schedules: object, predicted: pd.DataFrame | None, measured: pd.DataFrame | None, weights: object) -> None:
    """Refuse schedules without names or as texts, and tables that don't say which losses are of which schedule."""
    if not isinstance(schedules, Mapping) or any(isinstance(given, str) for given in schedules.values()):
        problem = "Give schedules by their names: {'cosine': bayeslaw.data.parse_schedule('cosine:steps=1000,peak=2e-4')}."
        raise BayeslawError(problem, code="wrong-object")
    if not schedules:
        raise BayeslawError("Give at least one schedule to draw.", code="nothing-to-draw")
    if weights is not None and not (isinstance(weights, Mapping) and {*schedules} <= {*weights}):
        raise BayeslawError("Weights are a mapping with each schedule's name to those of its phases.", code="wrong-object")
    tables = (("predicted", predicted, ("run", "step")), ("measured", measured, ("run", "step", "loss")))
    for which, table, needed in tables:
        if table is not None and (missing := [c for c in needed if c not in table]):
            problem = f"The {which} losses have no column {missing[0]}: give {', '.join(needed)}, with the schedules' names as run."
            raise BayeslawError(problem, code="missing-columns")


def _rates_and_areas(phases: Sequence[tuple[Phase, Schedule]], memory: float, weights: Iterable[float]) -> list[Array]:
    """Return rates, S1 and S2 after each step of consecutive phases."""
    parts, before = [], None if phases[0][0] == "pretrain" else State(0.0)
    for (_, schedule), weight in zip(phases, weights, strict=True):
        phase_areas = areas(schedule, before, memory=memory, weight=float(weight))
        parts.append((schedule.rates, phase_areas.S1, phase_areas.S2))
        before = phase_areas.end
    return [np.concatenate(line) for line in zip(*parts, strict=True)]


def _losses(
    ax: Axes, name: str, i: int, predicted: pd.DataFrame | None, measured: pd.DataFrame | None, band: tuple[str, float]
) -> None:
    """Draw the predicted losses of a schedule with their band, and its measured losses as points."""
    if predicted is not None:
        rows = predicted[predicted["run"] == name].sort_values("step")
        low, high = (f"{band[0]}_{end}" for end in interval_names("eti", band[1]))
        if missing := [c for c in ("latent_median", low, high) if c not in rows]:
            problem = f"The predicted losses have no column {missing[0]}"
            raise BayeslawError(f"{problem}: take the summary of a forecast that has it (spread, ci_prob).", code="missing-columns")
        ax.plot(rows["step"], rows["latent_median"], color=COLOURS[i], ls=DASHES[i], lw=1.4)
        draw_band(ax, rows["step"], rows[low], rows[high], color=COLOURS[i], alpha=0.18)
        ax.set_title(f"latent median, {band[1] * 100:g}% equal-tailed interval ({band[0]})", fontsize=MEDIUM)
    if measured is not None:
        points = measured[measured["run"] == name]
        ax.plot(points["step"], points["loss"], ls="", marker=MARKERS[i], ms=3, mfc="white", mec=COLOURS[i], mew=0.8)
