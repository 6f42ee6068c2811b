"""Pictures of decisions; those of plans and allocations are tested with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.design.anchors import Anchors, anchors
from bayeslaw.plots.decisions import plot_anchors, plot_confidence, plot_picks
from tests.errors import fails
from tests.purchases import TARGETS, drawn, pool


def test_tokens_are_drawn_for_each_confidence() -> None:
    plans = pd.DataFrame(
        {"confidence": [0.5, 0.9], "plan": ["feasible", "infeasible"], "tokens": [1e9, np.nan], "r": [0.25, np.nan]}
    )
    ax = Figure().subplots()
    assert plot_confidence(plans, ax) is ax
    assert [text.get_text() for text in ax.texts] == ["replay 25%"]
    assert {line.get_label(): np.asarray(line.get_xdata()).tolist() for line in ax.lines} == {
        "feasible": [50.0],
        "infeasible": [90.0],
    }
    assert "FAILED" not in ax.get_title()
    assert plot_confidence(plans.assign(checks="FAILED (forced)"), ax).get_title().endswith("\nCHECKS FAILED")
    with fails("missing-columns", "tokens, r"):
        plot_confidence(plans[["confidence"]], ax)


@pytest.mark.slow
def test_a_forced_choice_of_runs_is_marked() -> None:
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)
    choice = anchors(fit, pool(6), TARGETS, budget=10.0, cost="cost")
    assert plot_anchors(choice, Figure().subplots()).get_title() == "predicted gain from the next runs"
    forced = replace(choice, targets=replace(choice.targets, forced=True))
    assert plot_anchors(forced, Figure().subplots()).get_title().endswith("\nCHECKS FAILED")


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "side"), [(1, "left"), (4, "right")])
def test_the_note_of_the_last_worthwhile_purchase_lies_beside_the_curves(
    stop: int, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)
    monkeypatch.setattr(Anchors, "stop", stop)
    ax = plot_anchors(anchors(fit, pool(6), TARGETS, budget=10.0, cost="cost"), Figure().subplots())
    (note,) = ax.texts
    ax.figure.canvas.draw()
    lowest = ax.transData.inverted().transform(note.get_window_extent())[0, 1]
    widths = next(np.asarray(line.get_ydata()) for line in ax.lines if line.get_label() == "chosen")
    assert widths[-1] < widths[0] / 2
    assert lowest > widths[stop]
    assert note.get_horizontalalignment() == side


def test_runs_that_are_not_worth_their_price_have_hollow_marks() -> None:
    picks = pd.DataFrame({"spent": [1.0, 3.0], "latent_eti90_width": [0.3, 0.2], "worth": [True, False]})
    ax = Figure().subplots()
    assert plot_picks(picks, ax) is ax
    marks = {line.get_markerfacecolor(): np.asarray(line.get_xdata()).tolist() for line in ax.lines if line.get_marker() == "o"}
    assert list(marks.values()) == [[1.0], [3.0]]
    assert list(marks)[1] == "white"
    assert ax.get_ylabel().replace("\n", " ") == "predicted width of the latent 90% equal-tailed interval"
    assert plot_picks(picks.assign(checks="FAILED (forced)"), ax).get_title().endswith("\nCHECKS FAILED")
    with fails("missing-columns", "spent", "_width"):
        plot_picks(picks[["spent"]], ax)
    with fails("nothing-to-draw"):
        plot_picks(picks.iloc[:0], ax)
