"""Pictures of fits against their draws."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from scipy.stats import binom, norm, spearmanr

from bayeslaw.core.errors import FitError
from bayeslaw.evaluation.comparison import Comparison
from bayeslaw.forecasting.stack import Stack
from bayeslaw.plots.fit import (
    EDGE,
    plot_comparison,
    plot_coverage,
    plot_pair,
    plot_parameters,
    plot_prior_posterior,
    plot_scores,
    plot_transforms,
)
from bayeslaw.plots.style import finish, save_figure, share_interval
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.parameters import correlated_pairs
from tests.errors import fails
from tests.fixed import apart_fit, line_fit
from tests.legends import note, texts
from tests.oracles import Array
from tests.values import present


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return line_fit()


def across(line: Line2D) -> Array:
    return np.asarray(line.get_xdata(), dtype=np.float64)


def up(line: Line2D) -> Array:
    return np.asarray(line.get_ydata(), dtype=np.float64)


@pytest.mark.parametrize(("width", "between"), [(5.6, " "), (3.3, "\n")])
def test_axes_of_parameters_keep_width_between_names_and_numbers(fitted: Fit, width: float, between: str) -> None:
    figure = Figure(figsize=(width, 3.6))
    ax = plot_parameters(fitted, figure.subplots())
    figure.draw_without_rendering()
    assert ax.get_window_extent().width / figure.dpi > 0.25 * width
    assert texts(ax)[0].split("[")[0].endswith(between)


@pytest.mark.parametrize("width", [3.3, 5.6])
def test_rows_of_many_parameters_do_not_run_into_each_other(width: float, tmp_path: Path) -> None:
    """A pooled fit has dozens of rows, on axes that were as high as for five: of the caller's, beside others, and in a file."""
    fit, drawn, own = apart_fit(size=400, labs=("lab one", "50% & b_1")), list[Axes](), Figure(figsize=(width, 4.0))
    above, below = own.subplots(2, 1)
    finish(above, "x", "y", "a title", ["a note of several words that needs some lines"] * 8)
    plot_parameters(fit, below)
    save_figure(tmp_path / "parameters.pdf", lambda ax: drawn.append(plot_parameters(fit, ax)), width=width, height=0.5)
    for ax in (below, *drawn):
        present(ax.get_figure(root=True)).draw_without_rendering()
        for column in (ax.get_yticklabels(), ax.texts):
            boxes = [text.get_window_extent() for text in column]
            assert all(upper.y0 >= lower.y1 - 2 for upper, lower in pairwise(boxes))


def test_parameters_that_differ_by_a_column_have_its_values_in_pictures(ax: Axes) -> None:
    plot_parameters(apart_fit(size=400), ax)
    assert [t.get_text() for t in ax.get_yticklabels()][:5] == ["a", "a_spread", "a[web]", "a[code]", "b"]


def test_pictures_of_parameters_refuse_a_stack(fitted: Fit) -> None:
    stack: Any = Stack({"one": fitted}, {"one": 1.0})
    for draw in (plot_parameters, lambda given: plot_pair(given, "a", "c"), lambda given: plot_prior_posterior(given, "a")):
        with fails("not-a-single-fit", "not a stack", kind=FitError):
            draw(stack)


def test_parameters_are_drawn_at_their_positions_in_the_prior(fitted: Fit, ax: Axes) -> None:
    assert plot_parameters(fitted, ax, ci_prob=0.8) is ax
    low, middle, high = np.quantile(fitted.draws["b"], [0.1, 0.5, 0.9])
    line = next(line for line in ax.lines if up(line).tolist() == [1, 1])
    # The prior of b is Normal(0, .3), of which 20,000 draws are taken.
    np.testing.assert_allclose(across(line), np.array([low, high]) / 0.3, atol=0.03)
    assert texts(ax)[1] == f"{middle:.3g} [{low:.3g}, {high:.3g}]"
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c", "sigma_point", "sigma_run"]
    band = next(p for p in ax.patches if isinstance(p, Rectangle))
    assert (band.get_x(), band.get_width()) == pytest.approx((norm.ppf(0.1), 2 * norm.ppf(0.9)))
    assert ax.get_title() == "line: median and 80% equal-tailed interval;\nband: 80% interval of the prior"


def test_parameters_far_out_in_their_prior_have_an_arrow_at_the_edge(ax: Axes) -> None:
    plot_parameters(line_fit(point=9.0), ax)
    arrows = [line for line in ax.lines if line.get_marker() == ">"]
    assert [(across(a)[0], up(a)[0]) for a in arrows] == [(EDGE, 3), (EDGE, 3)]


def test_failed_checks_are_marked(ax: Axes) -> None:
    assert plot_parameters(line_fit(passed=False), ax).get_title().endswith("CHECKS FAILED")


def test_weak_pairs_are_the_strongest_rank_correlations(fitted: Fit) -> None:
    table, draws = correlated_pairs(fitted, most=2), fitted.draws
    whole = {(x, y): spearmanr(draws[x], draws[y]).statistic for x, y in (("a", "b"), ("a", "c"), ("b", "c"))}
    best = sorted(whole, key=lambda pair: -abs(whole[pair]))[:2]
    assert [(row.one, row.other) for row in table.itertuples()] == best  # fixed noise parameters have no correlation
    np.testing.assert_allclose(table["rank_correlation"], [whole[pair] for pair in best], atol=1e-12)


def test_a_pair_shows_its_draws_and_medians(fitted: Fit, ax: Axes) -> None:
    assert plot_pair(fitted, "a", "c", ax) is ax
    cloud, middle = ax.lines
    assert set(across(cloud).tolist()) <= set(fitted.draws["a"].tolist())
    assert (across(middle)[0], up(middle)[0]) == (np.median(fitted.draws["a"]), np.median(fitted.draws["c"]))
    expected = spearmanr(fitted.draws["a"], fitted.draws["c"]).statistic
    assert ax.get_title() == f"rank correlation {expected:+.3f}"
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("a", "c", "linear")


def test_unknown_parameters_are_refused(fitted: Fit, ax: Axes) -> None:
    with fails("unknown-parameter", "'sigma'", "line", "'sigma_"):
        plot_pair(fitted, "a", "sigma", ax)


def test_prior_and_posterior_densities_peak_at_their_modes(fitted: Fit, ax: Axes) -> None:
    assert plot_prior_posterior(fitted, "a", ax) is ax
    prior, posterior = ax.lines
    for line, centre, width in ((prior, 1.0, 0.3), (posterior, 1.0, 0.02)):
        x, y = across(line), up(line)
        assert y.max() == pytest.approx(1.0)
        assert x[y.argmax()] == pytest.approx(centre, abs=0.4 * width)
        half = x[y >= 0.5]
        assert half[-1] - half[0] == pytest.approx(2.355 * width, rel=0.25)
    assert prior.get_linestyle() == "--"


def test_positive_parameters_that_span_decades_have_logarithmic_axes(fitted: Fit, ax: Axes) -> None:
    assert plot_prior_posterior(fitted, "sigma_point", ax).get_xscale() == "log"


def test_labels_of_many_decades_stay_apart_in_a_small_panel(fitted: Fit) -> None:
    figure = Figure(figsize=(2.4, 1.8))
    panel = figure.subplots()
    wide = {"sigma_point": np.exp(np.random.default_rng(0).normal(14, 6, 1000))}
    plot_prior_posterior(fitted, "sigma_point", panel, prior=wide)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    low, high = panel.get_xlim()
    boxes = [
        label.get_window_extent()
        for label, at in zip(panel.get_xticklabels(), panel.get_xticks(), strict=True)
        if low <= at <= high
    ]
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_coverage_is_the_share_of_losses_in_central_intervals(rng: np.random.Generator, ax: Axes) -> None:
    pit = rng.uniform(size=300)
    assert plot_coverage({"one": pit}, ax, runs=20) is ax
    line = next(line for line in ax.lines if line.get_label() == "one")
    x, y = across(line), up(line)
    inside = ((pit > 0.05) & (pit < 0.95)).mean()
    assert y[np.isclose(x, 90)] == pytest.approx(100 * inside)
    corners = np.asarray(ax.collections[0].get_paths()[0].vertices)
    assert corners[np.isclose(corners[:, 0], 50)][:, 1] == pytest.approx([100 * binom.ppf(p, 20, 0.5) / 20 for p in (0.05, 0.95)])


def test_transforms_are_drawn_as_a_histogram(ax: Axes) -> None:
    assert plot_transforms({"one": np.array([0.05, 0.15, 0.16, 0.99])}, ax) is ax
    steps = next(p for p in ax.patches if isinstance(p, StepPatch))
    assert steps.get_data()[0].tolist() == [25, 50, 0, 0, 0, 0, 0, 0, 0, 25]
    plot_transforms({"one": np.array([0.05, 0.15, 0.16, 0.99])}, ax, bins=2)
    assert [p for p in ax.patches if isinstance(p, StepPatch)][-1].get_data()[0].tolist() == [75, 25]


def test_transforms_may_be_lists_and_have_at_least_one_bin(ax: Axes) -> None:
    plot_coverage({"one": [0.05, 0.5]}, ax)
    plot_transforms({"one": [0.05, 0.5]}, ax)
    with fails("not-a-whole-number", "bins", 0):
        plot_transforms({"one": [0.05, 0.5]}, ax, bins=0)


@pytest.mark.parametrize("draw", [plot_coverage, plot_transforms])
def test_calibration_of_nothing_is_refused(draw: object, ax: Axes) -> None:
    for nothing in ({}, {"one": np.empty(0)}):
        with fails("no-losses"):
            draw(nothing, ax)  # type: ignore[operator]


def test_laws_are_drawn_by_their_distance_to_the_best(ax: Axes) -> None:
    table = pd.DataFrame(
        {"elpd_diff": [0.0, -6.5, np.nan], "dse": [0.0, 2.0, np.nan], "weight": [0.7, 0.3, np.nan]}, index=["a", "b", "c"]
    )
    assert plot_comparison(table, ax) is ax
    assert np.asarray(ax.containers[0].lines[0].get_xdata()).tolist() == [0.0, -6.5]  # type: ignore[attr-defined]
    assert texts(ax) == ["weight 0.70", "weight 0.30"]
    with fails("nothing-to-draw"):
        plot_comparison(table.loc[["c"]], ax)
    for lacking in (table.drop(columns="elpd_diff"), pd.DataFrame({"crps_rel": [0.01], "weight": [1.0]}, index=["a"])):
        with fails("missing-columns", "elpd_diff"):
            plot_comparison(lacking, ax)


def comparison(**runs: list[float]) -> Comparison:
    scores = pd.DataFrame(
        {
            "held_out": "each run", "law": ["a", "b", "stack"], "noise": ["auto", "auto", ""], "fit": ["posterior"] * 2 + ["stack"],
            "checks": ["passed", "FAILED (not scored)", "passed"], "crps": [0.01, np.nan, 0.02],
            "cover_eti90": [0.9, np.nan, 0.5],
        }
    )  # fmt: skip
    weights = pd.DataFrame(
        {"crps_rel": [0.01, 0.03], "crps_diff": [0.0, 0.02], "dse": [0.0, 0.01], "weight": [0.6, 0.4]}, index=list(runs)
    )
    index = pd.MultiIndex.from_product([[1.0], ["r1", "r2"]], names=["cut", "run"])
    return Comparison(scores, weights, pd.DataFrame(runs, index=index), (), Stack.of({"a": line_fit(size=400)}, {"a": 1.0}), "N")


def test_laws_judged_beyond_cuts_are_drawn_by_their_weights_table(ax: Axes) -> None:
    plot_comparison(comparison(a=[0.01, 0.01], b=[0.02, 0.04]), ax)
    container = ax.containers[0]
    np.testing.assert_allclose(container.lines[0].get_xdata(), [0, -2])  # type: ignore[attr-defined]
    ((x0, _), (x1, _)) = container.lines[2][0].get_segments()[1]  # type: ignore[attr-defined]
    np.testing.assert_allclose([x0, x1], [-3, -1])


def test_scores_of_laws_are_drawn_and_missing_ones_counted(ax: Axes) -> None:
    made = comparison(a=[0.01, 0.01], b=[0.02, 0.04])
    plot_scores(made, ax)
    (points,) = (line for line in ax.lines if line.get_marker() == "o")
    assert across(points).tolist() == [90, 50]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "stack"]
    (bars,) = ax.collections
    assert isinstance(bars, LineCollection)
    low, high = share_interval([0.9, 0.5], 2)
    np.testing.assert_allclose([s[:, 0] for s in bars.get_segments()], 100 * np.transpose([low, high]))
    assert "1 of 3 rows have no such score" in note(ax)
    with fails("unknown-column", "'crp'"):
        plot_scores(made, ax, of="crp")


def test_scores_are_named_with_their_units(ax: Axes) -> None:
    made = comparison(a=[0.01, 0.01], b=[0.02, 0.04])
    made = replace(made, scores=made.scores.assign(bias_rel=[-0.01, np.nan, 0.02], width_eti90=0.3, slope=1.0))
    names = {of: plot_scores(made, ax, of=of).get_xlabel() for of in ("crps", "bias_rel", "width_eti90", "slope")}
    assert names["crps"] == "CRPS (nats/token); less is better"
    assert names["bias_rel"] == "mean relative error with its sign (%); 0 is best"
    assert names["width_eti90"] == "mean width of 90% equal-tailed intervals (nats/token)"
    assert names["slope"] == "slope"


def test_bars_of_coverage_count_fewer_runs_where_a_few_have_most_of_the_rows(ax: Axes) -> None:
    rows = pd.DataFrame({"held_out": "each run", "run": np.repeat([*"abcdefgh"], [20] * 3 + [1] * 5)})
    plot_scores(replace(comparison(a=[0.01, 0.01], b=[0.02, 0.04]), rows=rows), ax)
    (bars,) = ax.collections
    assert isinstance(bars, LineCollection)
    low, high = share_interval([0.9, 0.5], 3)  # 65^2 / 1,205 runs
    np.testing.assert_allclose([s[:, 0] for s in bars.get_segments()], 100 * np.transpose([low, high]))


def test_missing_transforms_and_tables_without_weights_are_refused(ax: Axes) -> None:
    for draw in (plot_coverage, plot_transforms):
        for wrong in ([np.nan, 0.5], [3.0, 0.5], np.full((2, 3), 0.5)):
            with fails("not-a-probability", "a fit"):
                draw({"a fit": wrong}, ax)
        with fails("not-numbers", "a fit"):
            draw({"a fit": ["x"]}, ax)
    with fails("missing-columns", "weight"):
        plot_comparison(pd.DataFrame({"elpd_diff": [0.0], "dse": [0.0]}, index=["a law"]), ax)


def test_a_parameter_that_does_not_vary_has_no_rank_correlation(ax: Axes) -> None:
    assert plot_pair(line_fit(), "a", "sigma_point", ax).get_title() == "no rank correlation: sigma_point the same in all draws"
