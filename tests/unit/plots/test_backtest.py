"""The picture of a backtest against its forecasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy.stats import beta

from bayeslaw.laws.outcome import Outcome
from bayeslaw.plots.backtest import plot_backtest, plot_reach_coverage
from bayeslaw.plots.fit import plot_coverage
from bayeslaw.plots.style import COLOURS
from tests.errors import fails
from tests.unit.evaluation.test_backtest import forecasts, result

ROWS = forecasts([0.2, 0.4, 1.5], [2.0, 2.06, 1.8])


def test_losses_lie_where_their_forecasts_left_them(ax: Axes) -> None:
    assert plot_backtest(result(ROWS), ax) is ax
    held, missed = (next(line for line in ax.get_lines() if line.get_color() == colour) for colour in COLOURS[:2])
    for line, reach, error in ((held, [0.2, 0.4], [0, 3]), (missed, [1.5], [-10])):
        np.testing.assert_allclose(np.asarray(line.get_xdata(), dtype=np.float64), reach)
        np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=np.float64), error, atol=1e-9)
    assert [held.get_label(), missed.get_label()] == [
        "inside the 90% equal-tailed interval: 2", "outside the 90% equal-tailed interval: 1",
    ]  # fmt: skip
    (intervals,) = (c for c in ax.collections if isinstance(c, LineCollection))
    for segment, reach in zip(intervals.get_segments(), ROWS["reach"], strict=True):
        np.testing.assert_allclose(segment, [[reach, -5], [reach, 5]])  # 1.9 and 2.1 of 2
    assert ax.get_xlabel() == "e-folds of compute beyond the cut"
    assert ax.get_title() == "chinchilla: losses beyond 1 cut and their forecasts (run);\nabove: mean error by distance"


def test_each_range_of_distances_has_its_mean_error(ax: Axes) -> None:
    plot_backtest(result(ROWS), ax)
    assert [text.get_text() for text in ax.texts] == ["1.5%", "11%"]  # of 0 and .06 / 2.06; of .2 / 1.8
    assert [text.get_position()[0] for text in ax.texts] == pytest.approx([0.25, 1.25])  # to the last distance


def test_failed_checks_are_marked(ax: Axes) -> None:
    assert plot_backtest(result(ROWS.assign(checks="FAILED (forced)")), ax).get_title().endswith("CHECKS FAILED")


def test_coverage_is_drawn_by_distance(ax: Axes) -> None:
    made = result(ROWS.assign(pit=[0.5, 0.9, 0.01]))
    plot_coverage(made.transforms, ax, runs=3)
    assert [line.get_label() for line in ax.get_lines()][1:] == ["0 to 0.5 e-folds: 2 runs", "1 to 2 e-folds: 1 run", "all: 3 runs"]


def test_nothing_is_not_drawn(ax: Axes) -> None:
    for draw in (plot_backtest, plot_reach_coverage):
        with fails("nothing-to-draw"):
            draw(result(ROWS[:0]), ax)


def test_coverage_is_drawn_by_distance_with_intervals_by_run(ax: Axes) -> None:
    made = result(ROWS)
    assert plot_reach_coverage(made, ax) is ax
    for i, name in enumerate(("cover_eti50", "cover_eti80", "cover_eti90")):
        line = ax.containers[i].lines[0]  # type: ignore[attr-defined]
        expected = made.reach.set_index("e_folds")[name].drop("all")
        np.testing.assert_allclose(line.get_ydata(), 100 * expected)
    assert [text.get_text() for text in ax.texts] == ["2", "1"]
    segments = ax.containers[2].lines[2][0].get_segments()  # type: ignore[attr-defined]
    np.testing.assert_allclose([y for _, y in segments[0]], [100 * beta.ppf(0.05, 2.5, 0.5), 100])
    np.testing.assert_allclose([y for _, y in segments[1]], [0, 100 * beta.ppf(0.95, 0.5, 1.5)])


def test_errors_of_other_outcomes_are_in_their_unit(ax: Axes) -> None:
    made = result(ROWS)
    rows = made.rows.rename(columns={"loss": "accuracy"})
    accuracies = replace(made, rows=rows, outcome=Outcome("accuracy", "share", "bounded", (0.0, 10.0)))
    plot_backtest(accuracies, ax)
    assert ax.get_ylabel().replace("\n", " ") == "accuracy minus the forecast's median (share)"
    drawn = np.concatenate([np.asarray(line.get_ydata()) for line in ax.lines if "interval" in str(line.get_label())])
    np.testing.assert_allclose(np.sort(drawn), np.sort(rows["accuracy"] - rows["median"]))
    assert not any("%" in text.get_text() for text in ax.texts)
    assert "accuracies" in plot_reach_coverage(accuracies, Figure().subplots()).get_ylabel()
