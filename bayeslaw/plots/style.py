"""What all pictures share: colours, markers, the mark of failed checks, and figures written to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayeslaw.core.files import check_target, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart; lines also differ by marker or by dashes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MOST_LINES = len(COLOURS)
COLORMAP = "cividis"  # readable for the colour-blind and in grey
PICTURES = (".png", ".pdf", ".svg")


def new_axes() -> Axes:
    """Return the axes of a new figure of pyplot, which a notebook shows."""
    return new_panels(1)[0]


def new_panels(number: int) -> list[Axes]:
    """Return the axes of so many panels below each other, with a common horizontal axis, in a new figure of pyplot."""
    import matplotlib.pyplot as plt

    size = (7.2, 4.8 if number == 1 else 1.2 + 2.0 * number)
    return list(plt.subplots(number, 1, sharex=True, squeeze=False, figsize=size, layout="constrained")[1][:, 0])


def failure(failed: bool) -> str:
    """Return the end of a title where failed checks were forced: a line of its own, which the edge of a picture can't cut off."""
    return "\nCHECKS FAILED" if failed else ""


def has_failed(table: pd.DataFrame) -> bool:
    """Return whether the column `checks` of a result table marks a failure."""
    return "checks" in table and bool(table["checks"].astype(str).str.startswith("FAILED").any())


def note_hidden(ax: Axes, number: int, what: str = "") -> None:
    """Say in the legend how many of `number` lines are beyond `MOST_LINES` and not drawn.

    Parameters
    ----------
    ax, number, what : matplotlib Axes, int, str
    """
    if number > MOST_LINES:
        ax.plot([], [], " ", label=f"… and {number - MOST_LINES} more {what}not shown")


def short_number(value: float | str) -> str:
    """Return a number for a legend, such as 13.8k, 8.1B or 0.25; a text is returned as it is."""
    if isinstance(value, str):
        return value
    value = float(f"{value:.3g}")
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def finish(ax: Axes, x: str, y: str, title: str, **legend: Any) -> Axes:
    """Label the axes, set the title, add a legend where anything has a label, and return the axes.

    Parameters
    ----------
    ax : matplotlib Axes
    x, y, title : str
    **legend
        Options of the legend that replace the usual ones.
    """
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title, fontsize=9)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(**{"fontsize": 7, "frameon": False} | legend)
    return ax


def show_dollars(figure: Figure) -> None:
    """Let names with dollar signs be drawn as they are: matplotlib would read them as formulas, and fail where they are none."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text) and "$" in text.get_text() and r"\mathdefault" not in text.get_text():  # numbers on an axis
            text.set_parse_math(False)


def save_figure(path: Path, draw: Callable[[Axes], object]) -> None:
    """Draw one panel into a new figure and write it as .png, .pdf or .svg."""
    _save(path, (7.2, 4.8), lambda figure: draw(figure.subplots()))


def save_panels(path: Path, panels: Sequence[Callable[[Axes], object]]) -> None:
    """Draw panels side by side into a new figure and write it as .png, .pdf or .svg."""

    def side_by_side(figure: Figure) -> None:
        for ax, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            draw(ax)

    _save(path, (6.4 * len(panels), 4.8), side_by_side)


def save_stack(path: Path, panels: int, draw: Callable[[Sequence[Axes]], object]) -> None:
    """Draw a number of panels below each other, with a common horizontal axis, into a new figure and write it as in `save_figure`.

    Parameters
    ----------
    path, panels : Path, int
    draw : callable
        Takes the axes of the panels, from the top down.
    """
    _save(path, (7.2, 1.2 + 2.0 * panels), lambda figure: draw(list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])))


def _save(path: Path, size: tuple[float, float], draw: Callable[[Figure], object]) -> None:
    """Write a new figure of `size` inches. pyplot is not used, so that no window opens and no global figure changes."""
    check_target(path, "A picture", *PICTURES)
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    show_dollars(figure)
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=150))
