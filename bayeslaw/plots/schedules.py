"""Pictures of schedules: rates, their areas and losses under each other. They take axes, return them, and save nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import interval_names
from bayeslaw.core.units import NATS
from bayeslaw.plots.style import COLOURS, DASHES, MARKERS, MOST_LINES, note_hidden
from bayeslaw.schedules.areas import Phase
from bayeslaw.schedules.schedule import MEMORY, Areas, Schedule, State, areas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = ("learning rate", "forward area S1\n(rate × steps)", "annealing area S2\n(rate × steps)", "loss")
POINTS = 3_000  # of a line

Phases = Schedule | Sequence[tuple[Phase, Schedule]]


def plot_schedules(
    axes: Axes | Sequence[Axes],
    schedules: Mapping[str, Phases],
    *,
    memory: float = MEMORY,
    predicted: pd.DataFrame | None = None,
    measured: pd.DataFrame | None = None,
    spread: str = "run",
    ci_prob: float = 0.9,
    unit: str = NATS,
) -> Sequence[Axes]:
    """Learning rates, areas S1 and S2, and losses under each other, a line for each schedule.

    Parameters
    ----------
    axes : Axes or sequence of up to four
        Rates, S1, S2, losses, in this order and as many as are given; they should share x.
    schedules : mapping
        By name: a schedule, or phases one after another as `Curves.whole` gives them. Where a phase changes there is a thin line.
    memory : float
        lambda of S2.
    predicted : DataFrame, optional
        Columns `run` (a name of `schedules`), `step` (counted over all phases) and, as in a forecast's summary, `latent_median`
        and the interval of `spread`.
    measured : DataFrame, optional
        Columns `run`, `step` (over all phases) and `loss`: points.
    spread : str
        Which interval is the band.
    ci_prob : float
    unit : str
        What the losses are in.
    """
    panels = list(axes) if isinstance(axes, (Sequence, np.ndarray)) else [axes]
    if not schedules or not 1 <= len(panels) <= len(LABELS):
        raise BayeslawError(f"A picture of schedules has 1 to {len(LABELS)} axes and at least one schedule.")
    if (predicted is not None or measured is not None) and len(panels) < len(LABELS):
        raise BayeslawError(f"Losses are drawn on the last of {len(LABELS)} axes; there are {len(panels)}.")
    for i, (name, phases) in enumerate(list(schedules.items())[:MOST_LINES]):
        whole: Sequence[tuple[Phase, Schedule]] = [("pretrain", phases)] if isinstance(phases, Schedule) else phases
        parts, before = list[Areas](), None if whole[0][0] == "pretrain" else State(0.0)
        for _, schedule in whole:
            parts.append(areas(schedule, before, memory=memory))
            before = parts[-1].end
        lines = [
            np.concatenate([s.rates for _, s in whole]),
            *(np.concatenate([getattr(p, a) for p in parts]) for a in ("S1", "S2")),
        ]
        shown = np.unique(np.linspace(0, lines[0].size - 1, POINTS).astype(np.int64))
        for ax, line in zip(panels, lines, strict=False):
            ax.plot(shown + 1, line[shown], color=COLOURS[i], ls=DASHES[i], lw=1.4, label=name)
            for boundary in _boundaries(whole):
                ax.axvline(boundary, color=COLOURS[i], lw=0.6, alpha=0.6)
        if len(panels) == len(LABELS):
            _losses(panels[-1], name, i, predicted, measured, (spread, ci_prob))
    note_hidden(panels[0], len(schedules))
    for ax, label in zip(panels, LABELS, strict=False):
        ax.set_ylabel(f"{label} ({unit})" if label == LABELS[-1] else label)
    panels[-1].set_xlabel("step")
    panels[0].legend(fontsize=7, frameon=False)
    return panels


def _boundaries(whole: Sequence[tuple[Phase, Schedule]]) -> list[int]:
    """Steps after which the phase is another."""
    ends = np.cumsum([len(schedule) for _, schedule in whole])
    return [int(end) for end, (one, _), (other, _) in zip(ends, whole, whole[1:], strict=False) if one != other]


def _losses(
    ax: Axes, name: str, i: int, predicted: pd.DataFrame | None, measured: pd.DataFrame | None, band: tuple[str, float]
) -> None:
    """Predicted losses of a schedule with their band, and measured ones as points."""
    if predicted is not None:
        rows = predicted[predicted["run"] == name].sort_values("step")
        low, high = (f"{band[0]}_{end}" for end in interval_names("eti", band[1]))
        ax.plot(rows["step"], rows["latent_median"], color=COLOURS[i], ls=DASHES[i], lw=1.4)
        ax.fill_between(rows["step"], rows[low], rows[high], color=COLOURS[i], alpha=0.18, lw=0)
        ax.set_title(f"latent median, {band[1] * 100:g}% equal-tailed interval ({band[0]})", fontsize=8)
    if measured is not None:
        points = measured[measured["run"] == name]
        ax.plot(points["step"], points["loss"], ls="", marker=MARKERS[i], ms=3, mfc="white", mec=COLOURS[i], mew=0.8)
