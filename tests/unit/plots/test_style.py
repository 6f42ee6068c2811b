"""Figures in files, numbers in legends, and the mark of failed checks."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayeslaw.core.errors import BayeslawError
from bayeslaw.plots.fit import plot_coverage
from bayeslaw.plots.schedules import plot_schedules
from bayeslaw.plots.style import (
    DPI,
    finish,
    has_failed,
    make_space,
    note_hidden,
    save_figure,
    save_panels,
    save_stack,
    share_interval,
    short_number,
    space_ticks,
)
from bayeslaw.reporting.figures import Picture
from bayeslaw.schedules.schedule import constant
from tests.errors import fails
from tests.values import present


def draw_line(ax: Axes) -> None:
    ax.plot([1, 2], [3, 4])


@pytest.mark.parametrize("name", ["a.gif", "a.csv", "a"])
def test_a_figure_is_not_drawn_for_a_file_of_another_kind(tmp_path: Path, name: str) -> None:
    drawn: list[Axes] = []
    with pytest.raises(BayeslawError) as caught:
        save_figure(tmp_path / name, drawn.append)
    assert ".png or .pdf or .svg" in str(caught.value)
    assert not drawn
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_figures_are_written_without_pyplot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pyplot was used")

    before, backend = plt.get_fignums(), plt.get_backend()
    for name in ("figure", "subplots", "gcf", "gca", "show", "switch_backend", "savefig"):
        monkeypatch.setattr(plt, name, refuse)
    save_figure(tmp_path / "one.PNG", draw_line)
    save_panels(tmp_path / "two.pdf", [draw_line, draw_line])
    save_stack(tmp_path / "three.svg", 3, lambda axes: draw_line(axes[2]))
    assert (tmp_path / "one.PNG").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "two.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "three.svg").read_text(encoding="utf-8")
    assert plt.get_fignums() == before
    assert plt.get_backend() == backend


def test_letters_in_a_pdf_are_of_a_font_that_publishers_take(tmp_path: Path) -> None:
    save_figure(tmp_path / "a.pdf", lambda ax: ax.set_title("Größe"))
    written = (tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in written
    assert b"/Type3" not in written


def test_a_drawing_that_fails_leaves_the_older_picture(tmp_path: Path) -> None:
    path = tmp_path / "fan.png"
    path.write_bytes(b"older")

    def draw(ax: Axes) -> None:
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        save_figure(path, draw)
    assert path.read_bytes() == b"older"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_picture_whose_texts_leave_no_space_is_refused(tmp_path: Path) -> None:
    with fails("width-of-a-picture", "2.1 in", "width="):
        save_figure(tmp_path / "narrow.png", lambda ax: ax.set_yticks([0.0], ["a long name of a parameter " * 2]), width=2.1)
    assert list(tmp_path.iterdir()) == []


def test_a_figure_in_the_place_of_a_function_is_written_by_its_own_method(tmp_path: Path) -> None:
    with fails("not-a-function", "bayeslaw.plots.plot_parameters", "not a Figure", "savefig"):
        save_figure(tmp_path / "f.pdf", Figure())  # type: ignore[arg-type]


def test_legends_have_short_numbers() -> None:
    numbers: list[float | str] = [13_800, 999.9e6, 1.5e12, 0.25, "web"]
    assert [short_number(n) for n in numbers] == ["13.8k", "1B", "1.5T", "0.25", "web"]


def test_a_legend_says_how_many_lines_are_not_drawn() -> None:
    ax = Figure().subplots()
    note_hidden(ax, 7)
    assert not ax.lines
    for number, what in ((9, "setting"), (8, "setting"), (9, "")):
        note_hidden(ax, number, what)
    shown = [line.get_label() for line in ax.lines]
    assert shown == ["… and 2 more settings not shown", "… and 1 more setting not shown", "… and 2 more not shown"]


@pytest.mark.parametrize("name", [r"$\foo$", "cost $5 or $10", "_mine"])
def test_names_stand_in_legends_on_axes_of_the_callers_as_they_are(name: str) -> None:
    figure = Figure()
    own = (ax := figure.subplots()).text(50, 50, r"$\alpha$")
    plot_coverage({name: np.linspace(0.01, 0.99, 20)}, ax)
    assert own.get_parse_math()
    (text,) = (text for text in present(ax.get_legend()).get_texts() if name in text.get_text())
    assert not ("$" in name and text.get_parse_math())
    figure.draw_without_rendering()
    (ax,) = plot_schedules({name: constant(10, 1e-3)}, Figure().subplots())
    assert name in present(ax.get_legend()).get_texts()[0].get_text()


def test_failed_checks_are_read_from_a_table() -> None:
    table = pd.DataFrame({"checks": ["passed", "FAILED (forced)"]})
    assert [has_failed(table), has_failed(table[:1]), has_failed(table[[]])] == [True, False, False]


@pytest.mark.slow
def test_a_legend_stands_below_the_axes_and_takes_nothing_from_them() -> None:
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    ax = figure.subplots()
    for i in range(6):
        ax.plot([1, 2], [i, i], label=f"a line with a rather long label {i}")
    finish(
        ax, "x", "y", "a title that is far too long for a picture of this width, and therefore broken into two lines", ["a note"]
    )
    make_space(figure)
    figure.draw_without_rendering()
    legend = present(ax.get_legend())
    box, inside = legend.get_window_extent(), ax.get_window_extent()
    assert 0 <= box.y0 < box.y1 < ax.xaxis.label.get_window_extent().y0
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert ax.title.get_window_extent().x0 > 0
    assert "\n" in ax.get_title()
    assert inside.height / figure.dpi > 2.5
    assert legend.get_title().get_text() == "a note"


def test_intervals_of_shares_contain_them() -> None:
    low, high = share_interval([0.0, 0.5, 1.0], 10)
    assert (low[0], high[2]) == (0.0, 1.0)
    assert (low[1] + high[1]) / 2 == pytest.approx(0.5)
    assert high[0] == pytest.approx(1 - low[2])
    assert 0.0 < high[0] < 0.25


@pytest.mark.parametrize(
    ("low", "high", "numbers"), [(6e9, 7e10, [1e10, 2e10, 5e10]), (0.4, 3.0, [0.5, 1, 2]), (2e-4, 9e-4, [2e-4, 5e-4])]
)
def test_a_short_logarithmic_axis_has_numbers_that_stand_apart(low: float, high: float, numbers: list[float]) -> None:
    figure = Figure()
    ax = figure.subplots()
    ax.set(xscale="log", xlim=(low, high))
    space_ticks(ax.xaxis)
    figure.draw_without_rendering()
    inside = [tick for tick in ax.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    assert [tick.get_loc() for tick in inside] == pytest.approx(numbers)
    assert all(tick.label1.get_text() for tick in inside)
    assert not any(tick.label1.get_text() for tick in ax.xaxis.get_minor_ticks())


def test_a_longer_logarithmic_axis_has_powers_of_ten() -> None:
    ax = Figure().subplots()
    ax.set(xscale="log", xlim=(1e3, 1e6))
    before = ax.xaxis.get_major_locator()
    space_ticks(ax.xaxis)
    assert ax.xaxis.get_major_locator() is before


@pytest.mark.parametrize(
    ("size", "code"), [({"width": 0.5, "height": 2.0}, "width-of-a-picture"), ({"height": -1.0}, "height-of-a-picture")]
)
def test_sizes_in_which_nothing_can_be_read_are_refused(size: dict[str, float], code: str, tmp_path: Path) -> None:
    with fails(code):
        save_figure(tmp_path / "a.png", lambda ax: None, **size)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("width", [3.3, 5.6])
def test_letters_keep_their_size_and_stay_inside_at_every_width(width: float, tmp_path: Path) -> None:
    axes: list[Axes] = []

    def draw(ax: Axes) -> None:
        axes.append(ax)
        ax.plot([1, 2], [3, 4], label="a line with a rather long label")
        across = "forward area of the adaptation S1_cpt (learning rate × steps)"
        finish(ax, across, "share of the losses minus what is expected (%)", "a title of some length for a narrow picture")

    save_figure(str(tmp_path / "a.png"), draw, width=width)
    (ax,) = axes
    figure = ax.get_figure(root=True)
    assert figure is not None
    assert figure.get_figwidth() == width
    figure.draw_without_rendering()
    legend = ax.get_legend()
    assert legend is not None
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label, *legend.get_texts()):
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert 0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert text.get_fontproperties().get_size_in_points() >= 8
    assert ax.get_window_extent().height / figure.dpi > 1.3


@pytest.mark.parametrize(("size", "panels"), [((3.3, 2.5), 1), ((7.0, 3.0), 2), ((9.0, 8.0), 1)])
def test_texts_leave_axes_of_the_callers_their_space(size: tuple[float, float], panels: int) -> None:
    figure = Figure(figsize=size)
    for ax in np.ravel(figure.subplots(1, panels)):
        for i in range(4):
            ax.plot([1, 2], [i, i], label=f"a curve with the rather long name {i}")
        finish(ax, "x", "y", "a title of some length for a narrow picture, in words", ["a note that needs several lines here"] * 3)
    figure.draw_without_rendering()
    assert all(ax.get_window_extent().height / figure.dpi > 1.2 for ax in figure.axes)
    assert figure.get_figwidth() == size[0]
    assert (figure.get_figheight() == size[1]) == (size[1] > 4)


@pytest.mark.slow
def test_a_picture_without_a_legend_is_laid_out_too() -> None:
    figure = Figure(figsize=(3.3, 2.6))
    ax = figure.subplots()
    ax.set_yticks([0, 1], ["a rather long name of a parameter", "b"])
    finish(ax, "x", "", "title")
    figure.draw_without_rendering()
    assert ax.get_yticklabels()[0].get_window_extent().x0 >= 0


@pytest.mark.slow
def test_short_labels_stand_beside_longer_ones() -> None:
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    ax = figure.subplots()
    for i in range(4):
        ax.plot([1, 2], [i, i], label=f"N = {i}B")
    for i in range(3):
        ax.plot([1, 2], [i, i], label=f"fitted, nearest at N = 1.0{i}B: 12")
    finish(ax, "x", "y", "")
    make_space(figure)
    figure.draw_without_rendering()
    legend = ax.get_legend()
    assert legend is not None
    boxes = [text.get_window_extent() for text in legend.get_texts()]
    assert boxes[4].x0 > boxes[0].x1  # beside, not below
    assert 0 <= legend.get_window_extent().x0 < legend.get_window_extent().x1 <= figure.bbox.x1


def test_pictures_are_drawn_without_tex_and_at_their_width_whatever_a_users_settings_are(tmp_path: Path) -> None:
    """With `text.usetex` in a user's matplotlibrc, percent signs began comments; without LaTeX it was a traceback."""
    with plt.rc_context({"text.usetex": True, "savefig.bbox": "tight"}):
        save_figure(tmp_path / "of.png", lambda ax: ax.set_xlabel("90% of web_text"), width=3.0)
        picture = Picture("", "", (3.0, 2.0), lambda figure: figure.subplots().set_xlabel("90% of web_text"))
        assert b"web_text" in picture.bytes("svg")
    assert plt.imread(tmp_path / "of.png").shape[1] == round(3.0 * DPI)
