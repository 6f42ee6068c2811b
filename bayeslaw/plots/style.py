"""What all pictures share: colours, markers, the mark of failed checks, and figures written to files."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import beta

from bayeslaw.core.arrays import Array, one_number
from bayeslaw.core.errors import BayeslawError, kind_of
from bayeslaw.core.files import as_path, check_target, write_whole
from bayeslaw.core.text import counted
from bayeslaw.laws.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec
    from matplotlib.text import Text

# Okabe and Ito's colours, which colour-blind readers can tell apart; lines also differ by marker or by dashes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MOST_LINES = len(COLOURS)
COLORMAP = "cividis"  # readable for the colour-blind and in grey
PICTURES = (".png", ".pdf", ".svg")
SMALL, MEDIUM = 8, 9  # points: of ticks, legends and texts in a picture, and of its labels and titles
WIDTH, HEIGHT = 5.6, 3.6  # inches of a panel: at a width of 400 pixels, as on a phone, the smallest text is 8 pixels high
LEAST_HEIGHT = 2.2  # of a panel of a narrower picture
LEAST_AXES = 1.5  # of the axes themselves
LEAST_WIDTH, MOST_WIDTH = 2.0, 40.0  # inches: a narrower one breaks each title into words, a wider one is given in mm
DPI = 220
UPRIGHT = (20, 40)  # least and most letters in a line of a vertical label
LETTERS = 15.0  # of the small size that an inch holds
MARGIN = 0.7  # inches beside the axes for ticks and label
NARROW = 30.0  # ratio of the ends of a logarithmic axis below which it is numbered at 1, 2 and 5
PLAIN = (1e-2, 1e4)  # numbers of ticks in this range have no power of ten
DECADE = 10.0  # ratio of the ends of what is drawn from which on an axis is logarithmic
HATCHED: dict[str, Any] = {"ec": "0.82", "hatch": "//", "lw": 0}  # ground outside the runs
COMPUTE = "compute"  # 6 N D, as an axis of settings that have both
BAR = 5.0  # points, the width of a bar in place of a band
LEAST = "_bayeslaw_least"  # attribute of axes that `keep_readable` was asked for: the inches that they need at least
# Settings of matplotlib in whatever a user's file of them has: names and percentages are no TeX, a picture has the width that is
# asked for, and publishers refuse Type 3 fonts.
OF_FILES: Any = {"text.usetex": False, "savefig.bbox": None, "pdf.fonttype": 42}
UNDER = 36  # points from the axes down to the legend: ticks, their numbers, and one line of label


def expect(given: object, kind: type, made_by: str) -> None:
    """Refuse another object than the one that a picture draws, such as a fit in place of its forecast.

    Parameters
    ----------
    given, kind
    made_by : str
        What makes an object of this kind.
    """
    if not isinstance(given, kind):
        name = type(given).__name__
        article = "an" if name[0] in "AEIOU" else "a"
        message = f"This picture draws what {made_by} returns ({kind.__name__}), not {article} {name}."
        raise BayeslawError(message, code="wrong-object")


def axes_of(ax: Axes | None) -> Axes:
    """Return the axes to draw on: the given ones, or those of a new figure of pyplot, which a notebook shows."""
    if ax is None:
        return new_panels(1)[0]
    if not hasattr(ax, "set_xlabel"):
        problem = f"ax is the axes to draw on, such as the second of what plt.subplots() returns, not {kind_of(ax)}."
        raise BayeslawError(problem, code="not-axes")
    return ax


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
    ax, number : matplotlib Axes, int
    what : str
        What a line is of, such as 'setting'.
    """
    if (hidden := number - MOST_LINES) > 0:
        more = counted(hidden, f"more {what}") if what else f"{hidden} more"
        ax.plot([], [], " ", label=f"… and {more} not shown")


def keep_within(ax: Axes, outcome: Outcome, *, horizontal: bool = False) -> None:
    """Let an axis show no value that an outcome can't have.

    Parameters
    ----------
    ax, outcome : matplotlib Axes, Outcome
    horizontal : bool
        Whether the horizontal axis has the outcome, not the vertical one.
    """
    (low, high), (start, end) = outcome.bounds, ax.get_xlim() if horizontal else ax.get_ylim()
    for line in ax.lines:
        if outcome.kind == "count" and line.get_marker() not in ("", "None", None):  # shares of 0 and 1 are whole marks
            line.set_clip_on(False)
            line.set_in_layout(False)  # the layout would count the place of lines without points
    if start < low or end > high:
        (ax.set_xlim if horizontal else ax.set_ylim)(max(start, low), min(end, high))


ERRORS = "thin bars: known errors ({}), one standard error"  # note on what `draw_errors` draws; the column stands in it
SHARES = "90% intervals of the share"


def share_interval(share: ArrayLike, size: ArrayLike) -> tuple[Array, Array]:
    """Return the ends of Jeffreys' 90% interval of a probability, from observed shares of some numbers of independent cases.

    Parameters
    ----------
    share, size : arrays that broadcast
    """
    share, size = np.asarray(share, dtype=np.float64), np.asarray(size, dtype=np.float64)
    held = share * size + 0.5
    low, high = (beta.ppf(p, held, size - held + 1) for p in (0.05, 0.95))
    return np.where(share <= 0, 0.0, low), np.where(share >= 1, 1.0, high)


def fit_scale(ax: Axes, values: Array) -> None:
    """Make the horizontal axis logarithmic if the values along it (n,) are positive and span a decade."""
    if values.min() > 0 and values.max() >= DECADE * values.min():
        ax.set_xscale("log")


def draw_band(
    ax: Axes, x: ArrayLike, low: ArrayLike, high: ArrayLike, *, color: str, alpha: float, label: str | None = None
) -> Artist:
    """Draw an interval along the horizontal axis: a band, or a bar where all of it lies at one value and a band has no width.

    Parameters
    ----------
    ax : Axes
    x, low, high : arrays (n,)
    color, alpha, label
        As of `Axes.fill_between`.
    """
    if np.unique(np.asarray(x)).size == 1:
        # Lines: of `vlines` at a single value matplotlib makes a logarithmic axis without width.
        bars = ax.plot(np.tile(x, (2, 1)), np.stack([low, high]), color=color, alpha=alpha, lw=BAR, solid_capstyle="butt")
        bars[0].set_label(label or "_nolegend_")
        return bars[0]
    return ax.fill_between(x, low, high, color=color, alpha=alpha, lw=0, label=label)


def draw_errors(ax: Axes, x: ArrayLike, y: ArrayLike, error: ArrayLike, color: str) -> bool:
    """Draw one known standard error on either side of measured values; return whether any of them has one.

    Parameters
    ----------
    ax : Axes
    x, y, error : arrays (n,)
        Errors that are missing or 0 are not drawn.
    color : str
    """
    at, values, known = (np.asarray(given, dtype=np.float64) for given in (x, y, error))
    some = np.isfinite(known) & (known > 0)
    ends = np.stack([values - known, values + known, np.full(values.shape, np.nan)], axis=1)[some]  # nan: no line to the next
    ax.plot(np.repeat(at[some], 3), ends.ravel(), color=color, lw=0.9, zorder=2.4)
    return bool(some.any())


def mark_missed(ax: Axes, x: Array, y: Array, **at: Any) -> None:
    """Draw crosses over measured values that their intervals do not hold.

    Parameters
    ----------
    ax : Axes
    x, y : arrays (n,)
    **at
        Further arguments of `Axes.plot`, such as a transform.
    """
    ax.plot(x, y, ls="", marker="x", ms=8, color="black", mew=1.5, zorder=5, **at)


def count_measured(ax: Axes, ci_prob: float, held: int, missed: int) -> None:
    """Say in the legend how many measured values lie in the intervals of a probability, and how many do not.

    Parameters
    ----------
    ax : Axes
    ci_prob : float
        Probability of the intervals.
    held, missed : int
        How many values lie inside and outside.
    """
    hollow: dict[str, Any] = {"ls": "", "marker": "o", "ms": 5.5, "mfc": "white", "mec": "0.3", "mew": 1.3}
    if held or missed:
        ax.plot([], [], label=f"measured, inside the {ci_prob * 100:g}% interval: {held}", **hollow)
    if missed:
        ax.plot([], [], ls="", marker="x", ms=7, color="black", mew=1.5, label=f"measured, outside: {missed}")


def legend_text(name: object) -> str:
    """Return a name for an entry of a legend; matplotlib would leave out one that begins with an underscore."""
    text = str(name)
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


def short_number(value: float | str) -> str:
    """Return a number for a legend, such as 13.8k, 8.1B or 0.25; a text is returned as it is."""
    if isinstance(value, str):
        return value
    value = float(f"{value:.3g}")
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def finish(ax: Axes, x: str, y: str, title: str, notes: Sequence[str] = ()) -> Axes:
    """Label the axes, set the title, and put a legend and notes below, where they cover nothing.

    Parameters
    ----------
    ax : matplotlib Axes
        A figure without a layout gets matplotlib's constrained layout, which makes space for what stands below the axes.
    x, y, title : str
        Lines of the title that are too long for the picture are broken.
    notes : sequence of str
        What the picture leaves out, and how it is to be read: sentences below the legend's entries.
    """
    lay_out(ax)
    ax.set_xlabel(wrapped(ax, x, MEDIUM), fontsize=MEDIUM)
    ax.set_ylabel(_broken(y, _upright(ax)), fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL, which="both")
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_fontsize(SMALL)
        space_ticks(axis)
    ax.set_title(wrapped(ax, title, MEDIUM, balanced=True), fontsize=MEDIUM)
    put_legend(ax, notes)
    show_dollars(ax)
    keep_readable(ax)
    return ax


def keep_readable(ax: Axes, least: float = LEAST_AXES) -> None:
    """Make a figure higher where titles, labels and legends would leave its axes less than `least` inches.

    In a small figure of the caller's they would leave nothing: constrained layout gives texts their space first, and what is left
    to all rows of axes in equal parts.
    """
    setattr(ax, LEAST, least)
    figure, place = _figure(ax), ax.get_subplotspec()
    if place is None or ax.get_figure(root=False) is not figure:
        return
    heights, texts = [LEAST_AXES], dict.fromkeys(range(place.get_gridspec().nrows), 0.0)
    for other in figure.axes:
        where = other.get_subplotspec()
        if where is not None and where.get_gridspec() is place.get_gridspec():
            heights.append(getattr(other, LEAST, LEAST_AXES) / len(where.rowspan))
            texts[where.rowspan.stop - 1] = max(texts[where.rowspan.stop - 1], _height_of_texts(other))
    figure.set_figheight(max(figure.get_figheight(), len(texts) * max(heights) + sum(texts.values())))


def _height_of_texts(ax: Axes) -> float:
    """Return the inches that title, ticks, horizontal label and legend take above and below axes."""
    lines = sum(text.count("\n") + bool(text) for text in (ax.get_title(), ax.get_xlabel()))
    legend = ax.get_legend()
    below = 0.0 if legend is None else legend.get_window_extent().height / _figure(ax).dpi
    return below + (lines * MEDIUM + UNDER) * 1.2 / 72


def put_legend(ax: Axes, notes: Sequence[str] = (), handles: Sequence[Any] | None = None) -> None:
    """Put a legend of what has a label, and notes, below the axes; nothing where there is neither.

    Parameters
    ----------
    ax, notes : as in `finish`
    handles : sequence of artists, optional
        In place of those that have a label.
    """
    from matplotlib.transforms import ScaledTranslation

    shown = list(ax.get_legend_handles_labels()[0] if handles is None else handles)
    if not shown and not notes:
        return
    labels = [str(handle.get_label()) for handle in shown]
    figure = lay_out(ax)
    lines = max(1, ax.get_xlabel().count("\n") + bool(ax.get_xlabel()))
    below = ax.transAxes + ScaledTranslation(0, -(UNDER + (lines - 1) * MEDIUM * 1.2) / 72, figure.dpi_scale_trans)
    most = _letters(ax, SMALL)
    options: dict[str, Any] = {
        "loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": below, "borderaxespad": 0.0, "fontsize": SMALL,
        "frameon": False, "columnspacing": 1.2, "handletextpad": 0.6,
        "ncols": _columns(labels, most),
    }  # fmt: skip
    if notes:
        text = "\n".join(wrapped(ax, note, SMALL) for note in notes)
        options |= {"title": text, "title_fontsize": SMALL, "alignment": "left"}
    ax.legend(shown, [_broken(label, most - 7) for label in labels], **options)


def _columns(labels: Sequence[str], most: float) -> int:
    """In how many columns labels, from the top down, fit into a width of so many letters: each is as wide as its longest label."""

    def width(count: int) -> int:
        return sum(6 + max(map(len, column)) for column in np.array_split(labels, count) if len(column))

    return max((count for count in range(2, 5) if width(count) <= most), default=1)


def lay_out(ax: Axes) -> Figure:
    """Give the figure of axes matplotlib's constrained layout if it has no layout, so that no label is cut off; return it."""
    figure = _figure(ax)
    if figure.get_layout_engine() is None and ax.get_subplotspec() is not None:
        figure.set_layout_engine("constrained")
    return figure


def space_ticks(axis: Axis) -> None:
    """Number a logarithmic axis of less than a decade and a half at 1, 2 and 5: matplotlib's numbers would run into each other."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log" and high < NARROW * low and axis.isDefault_majloc:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda value, _: _tick(value))
        axis.set_minor_formatter(NullFormatter())


def _tick(value: float) -> str:
    """Return the number of a tick: 0.5, 20, or 2 × 10^9 as matplotlib writes it."""
    if PLAIN[0] <= value < PLAIN[1]:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    factor = f"{value / 10.0**power:.3g}"
    return rf"$\mathdefault{{{'' if factor == '1' else factor + r' \times '}10^{{{power}}}}}$"


def wrapped(ax: Axes, text: str, size: float, *, balanced: bool = False) -> str:
    """Return a text with lines that fit into the width of a picture, at a size of letters in points.

    Parameters
    ----------
    ax, text, size : matplotlib Axes, str, float
    balanced : bool
        Whether the parts of a broken line are about equally long, as in a title.
    """
    return "\n".join(_broken(line, _letters(ax, size), balanced) for line in text.split("\n"))


def _broken(line: str, most: float, balanced: bool = False) -> str:
    parts = textwrap.wrap(line, max(12, int(most)), break_long_words=False, break_on_hyphens=False)
    if balanced and len(parts) > 1:
        parts = textwrap.wrap(line, min(int(most), len(line) // len(parts) + 8), break_long_words=False, break_on_hyphens=False)
    return "\n".join(parts)


def _upright(ax: Axes) -> int:
    """How many letters of a vertical label fit beside axes."""
    part = ax.get_figure(root=False)
    assert part is not None
    height = part.bbox.height / _figure(ax).dpi / _panels(ax)[0] - MARGIN
    return int(np.clip(height * LETTERS * SMALL / MEDIUM, *UPRIGHT))


def _letters(ax: Axes, size: float) -> float:
    """How many letters of a size fit beside the margin of one column of the figure."""
    return max(12.0, (panel_width(ax) - MARGIN) * LETTERS * SMALL / size)


def panel_width(ax: Axes) -> float:
    """Return the inches of a column of the figure in which axes stand, with their labels."""
    return _figure(ax).get_figwidth() / _panels(ax)[1]


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _panels(ax: Axes) -> tuple[float, float]:
    """How many panels as high and as wide as these axes stand below and beside each other in their figure."""
    place = ax.get_subplotspec()
    if place is None:
        return 1, 1
    grid = place.get_gridspec()
    return grid.nrows / len(place.rowspan), grid.ncols / len(place.colspan)


def make_space(figure: Figure, grid: GridSpec | None = None) -> None:
    """Make a figure, and its parts below each other in a grid, higher by their titles and legends: axes keep their size.

    They grow where they are lower than their rows of text need.

    Parameters
    ----------
    figure, grid : Figure and GridSpec, optional
        The grid has one subfigure with one panel in each row.
    """
    parts: dict[Any, float] = {}
    for ax in figure.axes:
        legend, place, part = ax.get_legend(), ax.get_subplotspec(), ax.get_figure(root=False)
        below = legend is not None and legend.get_window_extent().y1 <= ax.get_window_extent().y0
        extra = legend.get_window_extent().height if legend is not None and below else 0.0
        extra += ax.title.get_window_extent().height if ax.get_title() else 0.0
        rows = _panels(ax)[0] if grid is None else grid.nrows
        extra += max(0.0, getattr(ax, LEAST, 0.0) + UNDER * 1.2 / 72 - figure.get_figheight() / rows) * figure.dpi
        row = (part, 0 if place is None else place.rowspan.start)
        parts[row] = max(parts.get(row, 0.0), extra / figure.dpi)
    height = figure.get_figheight()
    figure.set_figheight(height + sum(parts.values()))
    if grid is not None:
        grid.set_height_ratios([height / grid.nrows + extra for extra in parts.values()])


def show_dollars(of: Figure | Axes) -> None:
    """Let names with dollar signs be drawn as they are: matplotlib would read them as formulas, and fail where they are none.

    Of axes those in title, labels, ticks and legend: other texts may be the caller's own, and formulas.
    """
    from matplotlib.figure import Figure

    parts = [of] if isinstance(of, Figure) else [of.title, of.xaxis, of.yaxis, *filter(None, [of.get_legend()])]
    for text in (text for part in parts for text in _texts_of(part)):
        if "$" in text.get_text() and r"\mathdefault" not in text.get_text():  # numbers on an axis
            text.set_parse_math(False)


def _texts_of(part: Artist) -> Iterator[Text]:
    """Return all texts of a part of a picture but for those at minor ticks, which are numbers, and which it takes long to make."""
    from matplotlib import axis, text

    if isinstance(part, text.Text):
        yield part
    below = (part.label, part.offsetText, *part.get_major_ticks()) if isinstance(part, axis.Axis) else part.get_children()
    for child in below:
        yield from _texts_of(child)


def save_figure(path: str | Path, draw: Callable[[Axes], object], *, width: float = WIDTH, height: float | None = None) -> None:
    """Draw a picture and write it as .png, .pdf or .svg; its title, legend and notes make it as much higher as they need.

    Letters keep their size of 8 and 9 points at every width.

    Parameters
    ----------
    path : str or Path
    draw : callable
        Takes axes and draws on them.
    width, height : float, optional
        In inches: of the picture, such as 3.3 for a column of a paper in two columns, and of its axes with their labels.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> bayeslaw.plots.save_figure("parameters.pdf", lambda ax: bayeslaw.plots.plot_parameters(fit, ax), width=3.3)
    """
    if not callable(draw):
        example = "lambda ax: bayeslaw.plots.plot_parameters(fit, ax)"
        problem = f"draw is a function of the axes, such as {example}, not {kind_of(draw)}."
        own = " A figure of your own is written by its method savefig." if hasattr(draw, "savefig") else ""
        raise BayeslawError(f"{problem}{own}", code="not-a-function")
    save_panels(as_path(path, "A picture"), [draw], height, width)


def _checked_height(height: float | None, width: float) -> float:
    """Return the height of a panel in inches, by default that for its width; sizes at which no text can be read are refused."""
    for name, size in (("width", width), ("height", height)):
        if size is not None:
            one_number(f"The {name} of a picture", size, "3.3")
    if not LEAST_WIDTH <= width <= MOST_WIDTH:
        given = f"{width:g} in: give inches, such as 3.3 for a column of a paper in two columns"
        raise BayeslawError(
            f"The width of a picture is {LEAST_WIDTH:g} to {MOST_WIDTH:g} in, not {given}.", code="width-of-a-picture"
        )
    if height is None:
        return min(HEIGHT, max(LEAST_HEIGHT, HEIGHT * width / WIDTH))
    if not 0 < height <= MOST_WIDTH:
        problem = f"The height of a picture is above 0 and at most {MOST_WIDTH:g} in, not {height:g} in."
        raise BayeslawError(problem, code="height-of-a-picture")
    return height


def save_panels(path: Path, panels: Sequence[Callable[[Axes], object]], height: float | None = None, width: float = WIDTH) -> None:
    """Draw panels below each other into a new figure and write it as .png, .pdf or .svg.

    Side by side their texts would be too small to read where a page is narrow.

    Parameters
    ----------
    path, panels : Path and sequence of functions
        Each draws on the axes of its panel.
    height, width : float
        Size of a panel with its ticks and horizontal label, in inches.
    """
    height = _checked_height(height, width)

    def draw_all(figure: Figure) -> GridSpec:
        # Each in a part of its own: the long labels of one panel take no width from the others.
        grid = figure.add_gridspec(len(panels), 1)
        for row, draw_panel in enumerate(panels):
            draw_panel(figure.add_subfigure(grid[row, 0]).subplots())
        return grid

    _save(path, (width, (height + 0.4) * len(panels)), draw_all)


def save_stack(path: Path, panels: int, draw: Callable[[Sequence[Axes]], object]) -> None:
    """Draw a number of panels below each other, with a common horizontal axis, into a new figure and write it as in `save_figure`.

    Parameters
    ----------
    path, panels : Path, int
    draw : callable
        Takes the axes of the panels, from the top down.
    """

    def draw_all(figure: Figure) -> None:
        draw(list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]))

    _save(path, (WIDTH, 1.0 + 1.7 * panels), draw_all)


def _save(path: Path, size: tuple[float, float], draw: Callable[[Figure], GridSpec | None]) -> None:
    """Write a new figure of `size` inches. pyplot is not used, so that no window opens and no global figure changes."""
    check_target(path, "A picture", *PICTURES)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(OF_FILES):
        figure = Figure(figsize=size, layout="constrained")
        grid = draw(figure)
        figure.set_size_inches(size)  # `make_space` adds what titles and legends need
        show_dollars(figure)
        make_space(figure, grid)

    def write(temporary: Path) -> None:
        with warnings.catch_warnings(), rc_context(OF_FILES):
            warnings.filterwarnings("error", message="constrained_layout not applied")
            try:
                figure.savefig(temporary, dpi=DPI)
            except UserWarning:
                problem = f"The texts of this picture leave no space for its axes at a width of {size[0]:g} in: make it wider"
                raise BayeslawError(f"{problem} (--width, width=).", code="width-of-a-picture") from None

    write_whole(path, write)
