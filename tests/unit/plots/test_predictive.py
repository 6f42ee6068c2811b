"""Pictures of fitted losses among predictions of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from bayeslaw.evaluation.predictive import PredictiveCheck
from bayeslaw.laws.outcome import Outcome
from bayeslaw.plots.predictive import SHOWN, plot_loo_pit, plot_predictive
from tests.legends import note


def check_of(size: int, runs: int) -> PredictiveCheck:
    median = np.linspace(2.0, 3.0, size)
    rows = pd.DataFrame(
        {
            "row": np.arange(size), "run": [f"r{i % runs}" for i in range(size)], "loss": 1.01 * median, "median": median,
            "eti50_lb": 0.99 * median, "eti50_ub": 1.02 * median, "eti90_lb": 0.97 * median, "eti90_ub": 1.04 * median,
            "pit": 0.5, "loo_pit": (np.arange(size) + 0.5) / size, "pareto_k": 0.1,
        }
    )  # fmt: skip
    rows.loc[0, "loss"] = 1.1 * median[0]
    return PredictiveCheck("a law", "nats/token", rows, 0.7, 1000, False)


def test_losses_are_drawn_by_their_deviation_and_crossed_outside(ax: Axes) -> None:
    assert plot_predictive(check_of(6, 3), ax) is ax
    inside, outside = (line for line in ax.lines if line.get_marker() in ("o", "X"))
    np.testing.assert_allclose(np.asarray(inside.get_ydata(), dtype=float), 1.0)
    np.testing.assert_allclose(np.asarray(outside.get_ydata(), dtype=float), 10.0)
    assert [line.get_label() for line in (inside, outside)] == ["inside the 90% interval: 5", "outside: 1"]
    assert "not drawn" not in note(ax)


def test_losses_that_are_not_drawn_are_counted(ax: Axes) -> None:
    plot_predictive(check_of(SHOWN + 50, 5), ax)
    assert sum(np.size(line.get_xdata()) for line in ax.lines if line.get_marker() in ("o", "X")) == SHOWN
    assert f"50 of {SHOWN + 50} losses lie between these and are not drawn" in note(ax)


def test_evenly_spread_ranks_lie_on_the_line_of_a_calibrated_fit(ax: Axes) -> None:
    assert plot_loo_pit(check_of(200, 20), ax) is ax
    line = next(line for line in ax.lines if line.get_linestyle() == "-")
    assert np.abs(np.asarray(line.get_ydata(), dtype=float)).max() <= 0.5 + 1e-9  # half of a loss's share
    (band,) = ax.collections
    edges = np.asarray(band.get_paths()[0].vertices)
    assert 15 < edges[:, 1].max() < 35  # Kolmogorov's 90% limit of 20 values is 26%
    assert note(ax).startswith("200 losses of 20 runs; each run was left out as a whole")


def test_the_line_of_a_calibrated_fit_stays_in_the_band_as_often_as_stated(ax: Axes) -> None:
    """The band is the same for all losses of 20 runs, so one picture has that of all; bands for 85% and 95% hold 84% and 95%."""
    pits, check = np.random.default_rng(0).uniform(size=(20_000, 20)), check_of(20, 20)
    plot_loo_pit(replace(check, rows=check.rows.assign(loo_pit=pits[0])), ax)
    (band,) = ax.collections
    path = np.asarray(band.get_paths()[0].vertices)
    x = np.unique(path[:, 0])
    low, high = (np.array([end(path[path[:, 0] == at, 1]) for at in x]) for end in (np.min, np.max))
    lines = np.stack([100 * (pits <= at / 100).mean(axis=1) - at for at in x], axis=1)
    drawn = next(np.asarray(line.get_xydata(), dtype=float) for line in ax.lines if line.get_linestyle() == "-")
    np.testing.assert_allclose(drawn, np.stack([x, lines[0]], axis=1), atol=1e-9)
    held = ((lines >= low - 1e-9) & (lines <= high + 1e-9)).all(axis=1)
    assert held.mean() == pytest.approx(0.9, abs=0.02)  # the band itself comes from 1,000 simulated lines


def test_the_band_counts_fewer_runs_where_a_few_have_most_of_the_losses(ax: Axes) -> None:
    """Six runs of 30 losses and ten of two are as many as 7 runs: 200^2 / 5,440."""
    check = check_of(200, 20)
    names = np.repeat([f"r{i}" for i in range(16)], [30] * 6 + [2] * 10)
    plot_loo_pit(replace(check, rows=check.rows.assign(run=names)), ax)
    (band,) = ax.collections
    assert band.get_label() == "90% band for 7 independent runs"


def test_few_runs_have_no_band_and_failures_are_marked(ax: Axes) -> None:
    plot_loo_pit(replace(check_of(9, 3), failed=True), ax)
    assert not ax.collections
    assert "fewer than 5 runs: no band" in note(ax)
    assert ax.get_title().endswith("CHECKS FAILED")


def test_deviations_of_other_outcomes_are_in_their_unit(ax: Axes) -> None:
    rows = pd.DataFrame(
        {"row": [1, 2], "run": ["a", "b"], "accuracy": [0.0, 0.5], "median": [0.02, 0.4], "eti50_lb": [0.01, 0.3],
         "eti50_ub": [0.05, 0.45], "eti90_lb": [0.0, 0.2], "eti90_ub": [0.1, 0.6]}
    )  # fmt: skip
    plot_predictive(PredictiveCheck("a", "", rows, 0.7, 100, False, Outcome("accuracy", "", "count", (0.0, 1.0))), ax)
    (inside,) = [line for line in ax.lines if str(line.get_label()).startswith("inside")]
    np.testing.assert_allclose(np.asarray(inside.get_ydata()), [-0.02, 0.1])
    assert ax.get_ylabel() == "accuracy minus the median"
    assert ax.get_xlabel() == "predicted median accuracy"
    assert ax.get_xlim()[0] >= 0
    assert ax.get_xscale() == "linear"
