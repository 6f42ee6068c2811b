"""The picture of schedules, compared with their areas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.data.curves import read_curves
from bayeslaw.plots.schedules import plot_schedules
from bayeslaw.schedules.schedule import constant
from tests.errors import fails
from tests.legends import labels
from tests.unit.data.test_curves import family
from tests.values import present


@pytest.mark.slow
def test_rates_areas_and_losses_are_drawn_for_each_schedule() -> None:
    curves = read_curves(family())
    axes = list(Figure().subplots(4, 1, sharex=True))
    predicted = pd.DataFrame({"run": "adapt", "step": [60, 90], "latent_median": [3.0, 2.5]})
    predicted = predicted.assign(run_eti90_lb=[2.9, 2.4], run_eti90_ub=[3.1, 2.6])
    measured = pd.DataFrame({"run": "adapt", "step": [75], "loss": [2.7]})
    whole: dict[str, Any] = {"adapt": curves.phases("adapt"), "open": curves.phases("open"), "own": curves.schedule("early")}
    plot_schedules(whole, axes, predicted=predicted, measured=measured)
    end = curves.at("adapt")
    assert axes[2].lines[0].get_ydata()[-1] == pytest.approx(present(end.pretrain).S2 + present(end.adapt).S2)
    assert axes[1].lines[0].get_ydata()[-1] == pytest.approx(present(end.pretrain).S1 + present(end.adapt).S1)
    drawn = [line for line in axes[0].lines if len(np.asarray(line.get_xdata())) > 2]
    assert len({(line.get_linestyle(), line.get_color()) for line in drawn}) == 3
    assert [ax.get_ylabel().split("\n")[0] for ax in axes] == [
        "learning rate",
        "forward area S1",
        "annealing area S2",
        "loss (nats/token)",
    ]
    assert axes[3].get_title() == "latent median, 90% equal-tailed interval (run)"
    wider = predicted.assign(extrapolated_eti90_lb=2.0, extrapolated_eti90_ub=4.0)
    drawn_wide = plot_schedules(whole, Figure().subplots(4), predicted=wider, spread="extrapolated")[3]
    assert drawn_wide.get_title() == "latent median, 90% equal-tailed interval (extrapolated)"
    assert drawn_wide.collections[0].get_paths()[0].get_extents().intervaly.tolist() == [2.0, 4.0]
    with fails("missing-columns", "extrapolated_eti90_lb", "spread"):
        plot_schedules(whole, Figure().subplots(4), predicted=predicted, spread="extrapolated")
    assert len(plot_schedules({"one": constant(10, 1e-3)}, Figure().subplots())) == 1
    with fails("wrong-number-of-axes", 1, 4):
        plot_schedules({"one": constant(10, 1e-3)}, Figure().subplots(), measured=measured)
    with fails("nothing-to-draw"):
        plot_schedules({}, Figure().subplots())
    for given in (constant(10, 1e-3), {"one": "constant:steps=10,peak=1e-3"}):
        with fails("wrong-object", "parse_schedule"):
            plot_schedules(given, Figure().subplots())  # type: ignore[arg-type]
    with fails("missing-columns", "predicted", "run"):
        plot_schedules(whole, Figure().subplots(4), predicted=predicted.drop(columns="run"))
    with fails("missing-columns", "measured", "loss"):
        plot_schedules(whole, Figure().subplots(4), measured=measured.drop(columns="loss"))
    many = plot_schedules({str(i): constant(10, 1e-3) for i in range(9)}, Figure().subplots())
    assert labels(many[0])[-1] == "… and 2 more not shown"


def test_areas_of_curves_that_count_tokens_are_those_of_their_table() -> None:
    table = family().assign(batch=1000.0)
    table.loc[table["run"].isin(["adapt", "early", "open"]), "batch"] = 4000.0
    curves = read_curves(table, per="token", tokens_per_step=2000)
    assert curves.weights("adapt") == [0.5, 0.5, 2.0]
    names = ("adapt", "early")
    phases, weights = {n: curves.phases(n) for n in names}, {n: curves.weights(n) for n in names}
    axes = plot_schedules(phases, Figure().subplots(3), weights=weights)
    for name in names:
        end = curves.at(name)
        for ax, area in ((axes[1], "S1"), (axes[2], "S2")):
            total = getattr(present(end.pretrain), area) + getattr(present(end.adapt), area)
            line = next(line for line in ax.lines if line.get_label() == name)
            assert np.asarray(line.get_ydata())[-1] == pytest.approx(total), (name, area)
    assert axes[1].get_ylabel() == "forward area S1\n(rate × weighted steps)"


def test_weights_of_other_schedules_and_what_is_no_axes_are_refused() -> None:
    with fails("wrong-object", "each schedule's name"):
        plot_schedules({"a": constant(100, 1e-3)}, weights={"b": [1.0]})
    with fails("not-axes", "an int"):
        plot_schedules({"a": constant(100, 1e-3)}, [1, 2, 3])  # type: ignore[list-item]
