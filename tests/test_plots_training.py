"""Pictures of the dynamics: what their words say of units, intervals and checks."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayeslaw.balancing import balance
from bayeslaw.errors import BayeslawError
from bayeslaw.plots_dynamics import plot_schedules
from bayeslaw.plots_training import plot_optimum, plot_surface, plot_transfer, plot_turning
from bayeslaw.recipes import Recipe
from bayeslaw.schedules import constant
from bayeslaw.turning_points import turning
from tests.dynamics import SOURCE, TARGET, dynamics_fit

RECIPE = Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


def test_losses_have_the_unit_of_the_fit(ax: Axes) -> None:
    fit = dynamics_fit(SOURCE, size=400, unit="bits/byte")
    assert plot_transfer(RECIPE, fit, ax).get_ylabel() == "loss (bits/byte)"
    assert plot_surface(RECIPE, fit, ax).get_ylabel() == "loss (bits/byte)"
    panels = plot_schedules(list(Figure().subplots(4)), {"one": constant(10, 1e-3)}, unit="bits/byte")
    assert panels[-1].get_ylabel() == "loss (bits/byte)"


def test_pictures_of_failed_fits_are_marked(ax: Axes) -> None:
    sound, failed = (dynamics_fit(SOURCE, size=1200, passed=passed) for passed in (True, False))
    for draw in (plot_transfer, plot_surface):
        assert draw(RECIPE, failed, ax).get_title().endswith(" — CHECKS FAILED")
        assert "FAILED" not in draw(RECIPE, sound, ax).get_title()
    target, ranges = dynamics_fit(TARGET, size=1200, seed=1), {"peak": (5e-5, 4e-4)}
    for source, end in ((failed, " — CHECKS FAILED"), (sound, "target loss")):
        found = [balance(source, target, RECIPE, ranges, weight=0.5, force=True)]
        assert plot_optimum(found, "peak", Figure().subplots()).get_title().endswith(end)


def test_turning_has_the_unit_of_its_fits(ax: Axes) -> None:
    source = dynamics_fit(SOURCE, size=1200, unit="bits/byte")
    made = turning(source, RECIPE)
    assert made.unit == "bits/byte"
    assert plot_turning(made, ax).get_ylabel() == "source loss (bits/byte)"
    with pytest.raises(BayeslawError, match="Losses in bits/byte, nats/token can't be added: `bayeslaw convert`"):
        turning(source, RECIPE, target=dynamics_fit(TARGET, size=1200), weight=0.5)
