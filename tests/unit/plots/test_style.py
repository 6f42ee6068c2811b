"""Figures in files, numbers in legends, and the mark of failed checks."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayeslaw.core.errors import BayeslawError
from bayeslaw.plots.style import (
    finish,
    has_failed,
    make_space,
    note_hidden,
    save_figure,
    save_panels,
    save_stack,
    share_interval,
    short_number,
)
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


def test_a_drawing_that_fails_leaves_the_older_picture(tmp_path: Path) -> None:
    path = tmp_path / "fan.png"
    path.write_bytes(b"older")

    def draw(ax: Axes) -> None:
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        save_figure(path, draw)
    assert path.read_bytes() == b"older"
    assert len(list(tmp_path.iterdir())) == 1


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
