"""Pictures of training dynamics: units, intervals, shaded lengths and marks of failed checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from bayeslaw.dynamics.optimise import balance
from bayeslaw.dynamics.recipe import Recipe
from bayeslaw.dynamics.turning_points import TurningPoint, turning_point
from bayeslaw.plots.style import BAR
from bayeslaw.plots.training import plot_course, plot_optimum, plot_surface, plot_transfer, plot_turning_point
from tests.dynamics import SOURCE, dynamics_fit
from tests.dynamics import fits as both
from tests.errors import fails
from tests.fixed import line_fit, typical_fit
from tests.legends import labels

RECIPE = Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")
DONE = Recipe(RECIPE.point, RECIPE.adapt)


@pytest.fixture(scope="module")
def turned() -> TurningPoint:
    return turning_point(dynamics_fit(SOURCE, size=1200), DONE, longest=20_000)


@pytest.mark.slow
def test_losses_have_the_unit_of_the_fit(turned: TurningPoint, ax: Axes) -> None:
    fit = dynamics_fit(SOURCE, size=1200, unit="bits/byte")
    assert "FAILED" not in plot_transfer(RECIPE, fit, ax).get_title()
    *_, of_curve, of_run = (band.get_paths()[0].get_extents().height for band in ax.collections)
    assert of_run > of_curve
    assert ax.collections[-1].get_label() == "adaptation, of a run (run)"
    assert ax.get_ylabel() == "loss (bits/byte)"
    assert plot_surface(RECIPE, fit, ax).get_ylabel() == "loss (bits/byte)"
    assert plot_turning_point(replace(turned, unit="bits/byte"), ax).get_ylabel() == "source loss (bits/byte)"


@pytest.mark.slow
def test_slices_of_a_surface_lie_at_the_asked_areas(ax: Axes) -> None:
    plot_surface(RECIPE, dynamics_fit(SOURCE, size=1200), ax, slices=[0.25])
    end = RECIPE.rows([len(RECIPE.schedule)])["S2_cpt"].item()
    assert [line.get_label() for line in ax.lines] == [f"S2_cpt = {end / 4:.3g}", "path of the recipe"]


def test_a_fit_in_place_of_a_recipe_or_a_balance_is_refused() -> None:
    fit = line_fit()
    for draw in (plot_transfer, plot_surface):
        with fails("wrong-object", "dynamics.Recipe(", "not a Fit"):
            draw(fit, fit)  # type: ignore[arg-type]
    with fails("wrong-object", "dynamics.balance(", "not a Fit"):
        plot_optimum([fit], "peak")  # type: ignore[list-item]


def test_a_course_is_of_a_forecast_over_steps(ax: Axes) -> None:
    with fails("wrong-object", "recipe.pretraining(steps)", "not a Fit"):
        plot_course(line_fit(), ax)  # type: ignore[arg-type]
    with fails("missing-column", "step", "Recipe.pretraining"):
        plot_course(line_fit().forecast({"x": 0.5}), ax)


@pytest.mark.slow
def test_the_course_of_a_pretraining_has_the_intervals_to_report(ax: Axes) -> None:
    steps = np.array([500, 1000, 2000])
    forecast = dynamics_fit(SOURCE, size=1200).forecast(RECIPE.pretraining(steps))
    table = forecast.summary(0.8)
    plot_course(forecast, ax, ci_prob=0.8)
    assert ax.lines[0].get_ydata() == pytest.approx([table[f"{kind}_median"][row] for row, kind in table["headline"].items()])
    band = np.asarray(ax.collections[0].get_paths()[0].vertices)
    for row, kind in table["headline"].items():
        edges = band[band[:, 0] == table["step"][row], 1]
        assert [edges.min(), edges.max()] == pytest.approx([table[f"{kind}_eti80_{end}"][row] for end in ("lb", "ub")])
    labels = [str(handle.get_label()) for handle in ax.collections]
    assert labels[0] == f"80% equal-tailed interval ({' or '.join(dict.fromkeys(table['headline']))})"
    assert ("outside the fitted runs" in labels) == (table["extrapolation"] != "inside").any()


@pytest.mark.slow
def test_a_course_of_one_step_has_a_bar_and_steps_in_any_order_give_one_line(ax: Axes) -> None:
    recipe, fit = Recipe("wsd:steps=4000,peak=2e-4,warmup=200", "constant:steps=1,peak=2e-4"), typical_fit("annealing")
    plot_course(fit.forecast(recipe.pretraining([1000])), ax)
    (bar,) = (line for line in ax.lines if line.get_linewidth() == BAR)
    assert np.ptp(np.asarray(bar.get_ydata())) > 0
    assert ax.lines[0].get_marker() == "o"
    ax.clear()
    plot_course(fit.forecast(recipe.pretraining([4000, 1000, 2000])), ax)
    assert np.asarray(ax.lines[0].get_xdata()).tolist() == [1000, 2000, 4000]


def test_two_courses_on_one_axes_can_be_told_apart(ax: Axes) -> None:
    forecast = dynamics_fit(SOURCE, size=1200).forecast(RECIPE.pretraining(np.array([500, 1000, 2000])))
    plot_course(forecast, ax)
    assert labels(ax)[0] == "median"
    plot_course(forecast, ax, label="new")
    assert labels(ax)[0].endswith(", median")
    assert "new, median" in labels(ax)
    assert len({*labels(ax)}) == len(labels(ax))
    assert len({str(line.get_color()) for line in ax.lines}) == 2


@pytest.mark.slow
def test_pictures_of_failed_fits_are_marked(ax: Axes) -> None:
    failed = dynamics_fit(SOURCE, size=1200, passed=False)
    for draw in (plot_transfer, plot_surface):
        assert draw(RECIPE, failed, ax).get_title().endswith("\nCHECKS FAILED")


@pytest.mark.parametrize(
    ("outside", "spans", "covered"),
    [
        ("steps > 5000", [("high", "last")], "{low:,} to {high:,} steps"),
        ("(steps < 300) | (steps > 5000)", [("first", "low"), ("high", "last")], "{low:,} to {high:,} steps"),
        ("steps > 0", [("first", "last")], "none of these lengths"),
        ("steps < 0", [], ""),
    ],
)
def test_lengths_outside_the_runs_are_shaded_and_named(
    turned: TurningPoint, ax: Axes, outside: str, spans: list[tuple[str, str]], covered: str
) -> None:
    mask = np.asarray(pd.DataFrame({"steps": turned.steps}).eval(outside))
    inside = turned.steps[~mask] if not mask.all() else turned.steps
    at = {"first": turned.steps[0], "last": turned.steps[-1], "low": inside[0], "high": inside[-1]}
    marked = replace(turned, outside=mask)
    plot_turning_point(marked, ax)
    shaded = [(p.get_x(), p.get_x() + p.get_width()) for p in ax.patches if isinstance(p, Rectangle)]
    assert shaded == [(at[start], at[end]) for start, end in spans]
    assert ("outside the fitted runs" in labels(ax)) == bool(spans)
    assert (f"the fitted runs cover {covered.format(**at)};" in marked.text) == bool(spans)


def test_the_title_of_a_turning_point_has_the_probability_of_its_bands(turned: TurningPoint, ax: Axes) -> None:
    assert plot_turning_point(turned, ax, ci_prob=0.8).get_title().splitlines()[-1] == "medians and 80% equal-tailed bands"


def test_choices_that_were_not_made_are_refused(ax: Axes) -> None:
    with fails("unknown-choice", "'peak'"):
        plot_optimum([], "peak", ax)
    with fails("no-adaptation-area", "S1_cpt"):
        plot_surface(RECIPE, typical_fit("annealing"), ax)
    with fails("not-numbers", "slices"):
        plot_surface(RECIPE, dynamics_fit(SOURCE, size=1200), ax, slices="all")  # type: ignore[arg-type]


def test_one_balance_and_one_slice_are_drawn(ax: Axes) -> None:
    source, target = both(size=1200)
    best = balance(source, target, RECIPE, {"peak": (1e-4, 2e-4)}, weight=0.5)
    assert len([line for line in plot_optimum(best, "peak", ax).lines if line.get_marker() in ("o", "s")]) == 2
    ax.clear()
    assert len(plot_surface(RECIPE, source, ax, slices=0.5).lines) == 2
