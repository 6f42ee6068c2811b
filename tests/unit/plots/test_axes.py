"""Every plot function makes its own figure where no axes are given."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest

import bayeslaw
from bayeslaw import plots
from bayeslaw.schedules.schedule import constant
from tests.errors import fails
from tests.fixed import line_fit

DRAWING = sorted(name for name in dir(plots) if name.startswith("plot_"))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("name", DRAWING)
def test_axes_are_optional_and_come_after_what_is_drawn(name: str) -> None:
    parameters = list(inspect.signature(getattr(plots, name)).parameters.values())
    given = next(p for p in parameters if p.name in ("ax", "axes"))
    assert given.default is None
    before = parameters[: parameters.index(given)]
    assert before
    assert all(p.default is inspect.Parameter.empty for p in before)
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[parameters.index(given) + 1 :])


def test_a_figure_is_made_where_no_axes_are_given_and_none_where_they_are() -> None:
    fit = line_fit()
    before = plt.get_fignums()
    ax = bayeslaw.plots.plot_parameters(fit)
    assert ax.lines
    assert plt.gcf() is ax.figure
    assert len(plt.get_fignums()) == len(before) + 1
    assert plots.plot_pair(fit, "a", "c", ax) is ax
    assert len(plt.get_fignums()) == len(before) + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.plot_prior_posterior(line_fit(), "a"),
        lambda: plots.plot_coverage({"a": np.linspace(0.01, 0.99, 30)}),
        lambda: plots.plot_transforms({"a": np.linspace(0.01, 0.99, 30)}),
        lambda: plots.plot_forecast(line_fit().forecast(bayeslaw.grid(line_fit(), {"x": "0:1:4"}))),
    ],
)
def test_pictures_are_drawn_on_figures_of_their_own(draw: object) -> None:
    assert callable(draw)
    assert draw().has_data()


def test_schedules_have_three_panels_by_default_and_four_with_losses() -> None:
    assert len(plots.plot_schedules({"one": constant(10, 1e-3)})) == 3


def test_what_can_not_be_drawn_leaves_no_empty_figure() -> None:
    before = plt.get_fignums()
    with pytest.raises(bayeslaw.BayeslawError):
        plots.plot_schedules({})
    with pytest.raises(bayeslaw.BayeslawError):
        plots.plot_pair(line_fit(), "a", "no such parameter")
    assert plt.get_fignums() == before


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("plot_record", "evaluation.record("), ("plot_forecast", "fit.forecast(settings)"),
        ("plot_predictive", "bayeslaw.evaluation.predictive_check(fit)"),
        ("plot_loo_pit", "bayeslaw.evaluation.predictive_check(fit)"), ("plot_anchors", "fit.anchors("),
        ("plot_scores", "bayeslaw.compare("), ("plot_chain", "bayeslaw.chain("), ("plot_coverage", "mapping"),
        ("plot_transforms", "mapping"), ("plot_backtest", "bayeslaw.backtest("), ("plot_reach_coverage", "bayeslaw.backtest("),
        ("plot_comparison", "bayeslaw.compare("), ("plot_plan", "bayeslaw.plan("), ("plot_frontier", "fit.allocate("),
        ("plot_isoflops", "fit.allocate("), ("plot_savings", "fit.transfer("), ("plot_whole_life", "planning.whole_life("),
        ("plot_menu", "planning.plan_menu("), ("plot_tuning", "fit.tuning("), ("plot_mix", "bayeslaw.mix("),
        ("plot_versus", "planning.versus("), ("plot_turning_point", "dynamics.turning_point("), ("plot_watch", "dynamics.watch("),
    ],
)  # fmt: skip
def test_a_fit_in_place_of_what_is_drawn_is_refused_with_what_makes_it(name: str, wanted: str) -> None:
    with fails("wrong-object", wanted, "not a Fit"):
        getattr(plots, name)(line_fit())
    assert not plt.get_fignums()
