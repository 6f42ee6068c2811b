"""The picture of a choice of runs, and what marks one that was forced."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from bayeslaw.design.anchors import anchors
from bayeslaw.plots.design import plot_anchors
from tests.purchases import TARGETS, drawn, pool


def test_a_forced_choice_is_marked() -> None:
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)
    made = anchors(fit, pool(6), TARGETS, budget=10.0, cost="cost")
    assert plot_anchors(made, Figure().subplots()).get_title() == "What the next runs would tell"
    forced = replace(made)
    forced.__dict__["picks"] = made.picks.assign(checks="FAILED (forced)")
    assert plot_anchors(forced, Figure().subplots()).get_title() == "What the next runs would tell\nCHECKS FAILED"
