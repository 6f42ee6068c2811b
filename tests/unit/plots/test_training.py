"""Pictures of the dynamics: what their words say of units, intervals and checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bayeslaw.core.errors import BayeslawError
from bayeslaw.dynamics.optimise import balance
from bayeslaw.dynamics.recipe import Recipe
from bayeslaw.dynamics.turning_points import TurningPoint, turning_point
from bayeslaw.plots.schedules import plot_schedules
from bayeslaw.plots.training import plot_optimum, plot_surface, plot_transfer, plot_turning_point
from bayeslaw.schedules.schedule import constant
from tests.dynamics import SOURCE, TARGET, dynamics_fit

RECIPE = Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


@pytest.fixture(scope="module")
def turned() -> TurningPoint:
    return turning_point(dynamics_fit(SOURCE, size=1200), RECIPE, longest=20_000)


def test_losses_have_the_unit_of_the_fit(ax: Axes) -> None:
    fit = dynamics_fit(SOURCE, size=400, unit="bits/byte")
    assert plot_transfer(RECIPE, fit, ax).get_ylabel() == "loss (bits/byte)"
    assert plot_surface(RECIPE, fit, ax).get_ylabel() == "loss (bits/byte)"
    panels = plot_schedules(list(Figure().subplots(4)), {"one": constant(10, 1e-3)}, unit="bits/byte")
    assert panels[-1].get_ylabel() == "loss (bits/byte)"


def test_pictures_of_failed_fits_are_marked(ax: Axes) -> None:
    sound, failed = (dynamics_fit(SOURCE, size=1200, passed=passed) for passed in (True, False))
    for draw in (plot_transfer, plot_surface):
        assert draw(RECIPE, failed, ax).get_title().endswith("\nCHECKS FAILED")
        assert "FAILED" not in draw(RECIPE, sound, ax).get_title()
    target, ranges = dynamics_fit(TARGET, size=1200, seed=1), {"peak": (5e-5, 4e-4)}
    for source, end in ((failed, "\nCHECKS FAILED"), (sound, "target loss")):
        found = [balance(source, target, RECIPE, ranges, weight=0.5, force=True)]
        assert plot_optimum(found, "peak", Figure().subplots()).get_title().endswith(end)


@pytest.mark.parametrize(
    ("outside", "spans", "words"),
    [
        ("steps < 300", [("first", "low")], "tell of {low:,} steps and more; of fewer the law alone speaks"),
        ("steps > 5000", [("high", "last")], "tell of up to {high:,} steps; beyond the law alone speaks"),
        ("(steps < 300) | (steps > 5000)", [("first", "low"), ("high", "last")],
         "tell of {low:,} to {high:,} steps; elsewhere the law alone speaks"),
        ("steps > 0", [("first", "last")], "tell of none of these lengths: the law alone speaks"),
        ("steps < 0", [], ""),
    ],
)  # fmt: skip
def test_the_lengths_outside_the_runs_are_shaded_and_told(
    turned: TurningPoint, ax: Axes, outside: str, spans: list[tuple[str, str]], words: str
) -> None:
    mask = np.asarray(pd.DataFrame({"steps": turned.steps}).eval(outside))
    inside = turned.steps[~mask] if not mask.all() else turned.steps
    at = {"first": turned.steps[0], "last": turned.steps[-1], "low": inside[0], "high": inside[-1]}
    made = replace(turned, outside=mask)
    plot_turning_point(made, ax)
    found = [(p.get_x(), p.get_x() + p.get_width()) for p in ax.patches if isinstance(p, Rectangle)]
    assert found == [(at[start], at[end]) for start, end in spans]
    legend = ax.get_legend()
    assert legend is not None
    assert ("outside the runs fitted" in [t.get_text() for t in legend.get_texts()]) == bool(spans)
    assert ("the runs that were fitted " + words.format(**at) in made.text.splitlines()) == bool(words)
    assert ("law alone" in made.text) == bool(words)


def test_turning_names_its_bands(turned: TurningPoint, ax: Axes) -> None:
    assert plot_turning_point(turned, ax, ci_prob=0.8).get_title().splitlines()[-1] == "medians and 80% equal-tailed bands"


def test_turning_has_the_unit_of_its_fits(ax: Axes) -> None:
    source = dynamics_fit(SOURCE, size=1200, unit="bits/byte")
    made = turning_point(source, RECIPE)
    assert made.unit == "bits/byte"
    assert plot_turning_point(made, ax).get_ylabel() == "source loss (bits/byte)"
    with pytest.raises(BayeslawError, match="Losses in bits/byte, nats/token can't be added: `bayeslaw convert`"):
        turning_point(source, RECIPE, target=dynamics_fit(TARGET, size=1200), weight=0.5)
