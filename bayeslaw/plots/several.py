"""Several forecasts on one axes: each has colours of its own, and legend, notes and title say what is of which.

A drawing is kept with the first of its curves, so that nothing is known of one whose curve was removed, or of cleared axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayeslaw.core.errors import BayeslawError
from bayeslaw.plots.style import COLOURS, finish, legend_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

DRAWING = "_bayeslaw_drawing"  # attribute of the first curve of a drawing
HIDDEN = "_nolegend_"  # label of what has no entry in a legend


@dataclass(frozen=True)
class Drawing:
    """One forecast on axes.

    Attributes
    ----------
    label, law : str
        What the user calls it (may be empty), and its law.
    setting : str
        The setting that its curves share, in words; may be empty.
    curves, entries : tuples of (line or band, text)
        Its curves with the settings by which they differ, '' for a single one, and what else has an entry in the legend.
    notes, title : tuple of str, str
        What stands below the picture, and above it after the name of the law.
    axes : tuple of str
        What the horizontal and the vertical axis show.
    """

    label: str
    law: str
    setting: str
    curves: tuple[tuple[Line2D, str], ...]
    entries: tuple[tuple[Artist, str], ...]
    notes: tuple[str, ...]
    title: str
    axes: tuple[str, str]

    @property
    def texts(self) -> list[str]:
        """The texts of its entries."""
        return [text for _, text in self.entries]


def drawings_on(ax: Axes) -> list[Drawing]:
    """Return the forecasts on axes, in the order in which they were drawn."""
    return [drawing for line in ax.lines if isinstance(drawing := getattr(line, DRAWING, None), Drawing)]


def check_axes(ax: Axes, axes: tuple[str, str]) -> None:
    """Refuse axes that have a forecast over another covariate, or of another outcome or unit.

    Parameters
    ----------
    ax, axes : Axes, tuple of str
        What the two axes of the next drawing show.
    """
    for drawing in drawings_on(ax):
        if drawing.axes != axes:
            there, new = (f"{y} over {x}" for x, y in (drawing.axes, axes))
            problem = f"These axes have a forecast of {there}, and this one is of {new}: draw it on other axes."
            raise BayeslawError(problem, code="other-axes")


def free_places(ax: Axes, count: int, first: int = 0) -> list[int]:
    """Return the numbers, in `COLOURS` and `MARKERS`, of so many curves: first those that no line of the axes has.

    Parameters
    ----------
    ax, count : Axes, int
    first : int
        The number that a single drawing has.
    """
    from matplotlib.colors import to_hex

    used = {to_hex(line.get_color()).upper() for line in ax.lines if line.get_linestyle() != "None"}
    order = [first, *(i for i in range(len(COLOURS)) if i != first)]
    return sorted(order, key=lambda i: COLOURS[i].upper() in used)[:count]


def name_all(ax: Axes, drawing: Drawing) -> tuple[str, list[str]]:
    """Add a drawing to those on axes and name what is in the legend after them; return the title and the notes of all.

    Parameters
    ----------
    ax, drawing : Axes, Drawing
    """
    drawings = [*drawings_on(ax), drawing]
    setattr(drawing.curves[0][0], DRAWING, drawing)
    names, alone, listed = _names(drawings), len(drawings) == 1, set[str]()
    for name, drawn in zip(names, drawings, strict=True):
        for line, words in drawn.curves:
            named = "" if words and alone and not drawing.label else name
            line.set_label(", ".join(filter(None, [named, words])))
        for entry, text in drawn.entries:
            shown = text if all(text in other.texts for other in drawings) else f"{name}: {text}"
            entry.set_label(HIDDEN if shown in listed else shown)
            listed.add(shown)
    notes = [note for note in drawing.notes if all(note in other.notes for other in drawings)]
    for name, drawn in zip(names, drawings, strict=True):
        known = f"at {drawn.setting}" if name.endswith(f", {drawn.setting}") else ""
        notes += [f"{name}: {note}" for note in drawn.notes if note not in notes and note != known]
    return _title(names, drawings), notes


def finish_all(ax: Axes, drawing: Drawing) -> Axes:
    """Add a drawing to those on axes and finish the picture, under their different titles, which need no names before them."""
    notes = name_all(ax, drawing)[1]
    titles = dict.fromkeys(drawn.title for drawn in drawings_on(ax))
    return finish(ax, *drawing.axes, "\n".join(titles), notes)


def _names(drawings: Sequence[Drawing]) -> list[str]:
    """Return different names of drawings: their labels, or laws, with their settings where laws are the same."""
    names = [legend_text(drawing.label or drawing.law) for drawing in drawings]
    names = [
        f"{name}, {drawing.setting}" if names.count(name) > 1 and drawing.setting and not drawing.label else name
        for name, drawing in zip(names, drawings, strict=True)
    ]
    return numbered(names)


def numbered(names: Sequence[str]) -> list[str]:
    """Return names with a number after those that stand among them already."""
    return [f"{name} ({names[: i + 1].count(name)})" if name in names[:i] else name for i, name in enumerate(names)]


def _title(names: Sequence[str], drawings: Sequence[Drawing]) -> str:
    if len({drawing.title for drawing in drawings}) == 1:
        return f"{', '.join(dict.fromkeys(drawing.law for drawing in drawings))}{drawings[0].title}"
    return "\n".join(f"{name}{drawing.title}" for name, drawing in zip(names, drawings, strict=True))
