"""Pictures of what the priors of a card allow, before any loss is seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, TableError, kind_of, nearest, whole_number
from bayeslaw.core.intervals import tails
from bayeslaw.core.text import counted
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import base_rows, check, complete
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_levels
from bayeslaw.plots.style import BAR, COLOURS, axes_of, draw_band, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = 20  # draws that are shown as lines
OUTER, INNER = 0.9, 0.5  # probabilities of the bands
NEAR = 0.05  # e-folds between places along a logarithmic axis
ROOM = 1.5  # the axis reaches so many times beyond what is measured and the inner band


def prior_outcomes(law: Law, frame: pd.DataFrame, draws: int = 1000, seed: int = 0) -> Array:
    """Return the outcomes (draws, n) that draws of the priors give at the n settings of a table; priors with `on` are those there.

    Parameters
    ----------
    law : Law
        With its levels, if parameters differ by a column.
    frame, draws, seed
        As in `plot_prior`.
    """
    draws = whole_number("draws", draws, 1)
    if missing := [c for c in law.measured if c not in frame]:
        raise BayeslawError(f"The settings lack the covariate {missing[0]} of {law.name}.", code="missing-column")
    table = complete(frame, law)
    with np.errstate(all="ignore"):
        return law.predict(law.sample_prior(draws, law.reference(table), np.random.default_rng(seed)), law.arrays(table))


def plot_prior(
    law: Law | str | Path, at: Runs | pd.DataFrame, ax: Axes | None = None, *, x: str = "", draws: int = 1000, seed: int = 0
) -> Axes:
    """Draw the outcomes that the priors of a law allow at settings, as bands, and the measured outcomes where there are any.

    Priors with `on` are stated at the middle of the settings, as they are in a fit to them.

    Parameters
    ----------
    law : Law, name or path of a card
    at : Runs or DataFrame
        Settings: runs, whose outcomes are drawn as points if they have any, or a grid of `bayeslaw.grid`.
    ax : as in `plot_forecast`
    x : str
        The covariate along the axis, by default the one that has most different values.
    draws, seed : int
        How many draws of the prior, and their seed.

    Raises
    ------
    BayeslawError
        If settings are none ('nothing-to-draw', 'wrong-object') or lack a covariate ('missing-column'), or `x` is none
        ('unknown-covariate').

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> law = bayeslaw.load_law("chinchilla")
    >>> at = bayeslaw.grid(law, {"N": 1e9, "D": "1e9:1e12:30"})
    >>> bayeslaw.plots.plot_prior(law, at, Figure().subplots()).get_xlabel()
    'D (training tokens)'
    """
    if not isinstance(at, (Runs, pd.DataFrame)):
        message = f"Settings are Runs or a DataFrame, not {kind_of(at)}: bayeslaw.grid(law, values) makes one."
        raise BayeslawError(message, code="wrong-object")
    if (at.frame if isinstance(at, Runs) else at).empty:
        raise BayeslawError("There are no settings at which to draw the priors.", code="nothing-to-draw")
    runs, law = read_runs(at), load_law(law)
    frame = runs.frame
    law = with_levels(law, levels_of(law, frame))
    if faults := check(runs, law, purpose="forecast"):
        raise TableError(faults, runs.name)
    base = base_rows(frame, law)
    frame, notes = frame[~base], [f"{counted(int(base.sum()), 'base checkpoint')} (D = 0) left out"] if base.any() else []
    if frame.empty:
        raise BayeslawError(
            f"All settings are base checkpoints (D = 0), which {law.name} does not describe.", code="nothing-to-draw"
        )
    outcomes = prior_outcomes(law, frame, draws, seed)
    axes = [name for name in law.axes if not law.axes[name].context] or [*law.measured]
    if x and x not in axes:
        raise BayeslawError(f"{law.name} has no covariate {x!r} to draw along.{nearest(x, axes)}", code="unknown-covariate")
    along = x or max(axes, key=lambda name: frame[name].nunique())
    axis = frame[along].to_numpy(dtype=np.float64)
    logarithmic = law.covariates[along].logarithmic and axis.min() > 0
    # Runs at nearly the same value, such as rates that were rounded, are one place.
    near = np.round(np.log(axis) / NEAR) * NEAR if logarithmic else axis
    _, first, where = np.unique(near, return_index=True, return_inverse=True)
    place = axis[first]
    bands = {}
    for prob in (OUTER, INNER):
        quantiles = [np.nanquantile(outcomes[:, where == i], tails(prob)) for i in range(place.size)]
        bands[prob] = np.array(quantiles).T
    ax, curve = axes_of(ax), 1 < place.size == axis.size  # settings that differ in other covariates lie on no curve
    for prob, (_, low, high) in bands.items():
        shade = 0.15 if prob == OUTER else 0.3
        text: dict[str, Any] = {"color": COLOURS[0], "alpha": shade, "label": f"{prob:.0%} equal-tailed interval"}
        if curve or place.size == 1:
            draw_band(ax, place, low, high, **text)
        else:
            ax.vlines(place, low, high, lw=BAR, **text)
    ax.plot(place, bands[OUTER][0], ls="-" if curve else "", marker="" if curve else "_", color=COLOURS[0], label="median")
    if curve:
        lines = ax.plot(place, outcomes[:LINES, np.argsort(axis)].T, color=COLOURS[0], lw=0.4)
        lines[0].set_label(counted(len(lines), "draw"))
    name, seen = law.outcome.name, bands[INNER].ravel()
    if name in frame:
        measured = frame[name].to_numpy(dtype=np.float64)
        ax.plot(axis, measured, ls="", marker="o", ms=3, color="black", label="measured", zorder=3)
        seen = np.append(seen, measured)
    bottom, top = float(np.nanmin(seen)), float(np.nanmax(seen))
    least, most = law.outcome.bounds
    margin = (ROOM - 1) * (top - bottom)
    ax.set_ylim(max(least, bottom - margin), min(most, top + margin))
    if logarithmic:
        ax.set_xscale("log")
    label = law.outcome.labelled(law.outcome.unit).replace("_", " ")
    return finish(ax, f"{along} ({law.covariates[along].unit})", label, f"what the priors of {law.name} allow", notes)
