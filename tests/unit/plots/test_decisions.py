"""Pictures of decisions that are drawn from tables; those of plans and allocations are tested with them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bayeslaw.plots.decisions import plot_confidence
from tests.errors import fails


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
