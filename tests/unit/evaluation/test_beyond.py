"""Comparisons of laws by forecasts beyond cuts: what their tables say of laws without a fit, and of spreads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.evaluation.backtest import Beyond
from bayeslaw.evaluation.beyond import _beyond_scores
from bayeslaw.laws.card import load_law
from bayeslaw.laws.outcome import LOSS
from tests import oracles
from tests.fixed import without_sampling

LABS = {"a": 1.0, "b": 1.1, "c": 1.2}


def test_a_law_that_was_not_fitted_has_not_failed_and_was_not_forced() -> None:
    few = oracles.table(load_law("chinchilla")).sort_values("D").head(18)  # farseer takes 18 rows below a cut
    options = {"draws": 100, "chains": 2, "discrepancy": "none"}
    with without_sampling():
        result = bayeslaw.compare(
            few, ["chinchilla", "farseer"], at={"N": 1e11, "D": 1e13}, seed=1, options=options, force=True, progress=False
        )
    assert result.weights["checks"].to_dict() == {"chinchilla": "FAILED (forced)", "farseer": "not scored"}
    assert any(note.startswith("farseer is not judged and has no weight. ") for note in result.notes)


@pytest.mark.slow
def test_rows_beyond_a_cut_that_no_law_can_forecast_are_noted() -> None:
    """They were left out without a word."""
    table = oracles.table(load_law("chinchilla"))
    a, b, c = (table.assign(lab=lab, run=table["run"] + lab, loss=more * table["loss"]) for lab, more in LABS.items())
    rows = pd.concat([a, b, c[c["D"] > 1e10]], ignore_index=True)
    options = {"draws": 100, "chains": 2, "discrepancy": "none", "by": {"E": "lab"}}
    at = pd.DataFrame({"N": [1e9], "D": 1e12, "lab": "a"})
    with without_sampling():
        result = bayeslaw.compare(rows, ["chinchilla", "chinchilla-nd"], at=at, options=options, force=True, progress=False)
    (note,) = (note for note in result.notes if note.startswith("Not scored beyond "))  # of both laws, and of the cut below c
    cut = float(note.split()[4].removesuffix(":"))
    beyond = rows[6 * rows["N"] * rows["D"] > 1.01 * cut]
    count = int((beyond["lab"] == "c").sum())
    assert count > 0
    assert note.endswith(f": {count} of {len(beyond)} rows, which have a lab that no fitted row has.")


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("run", "extrapolated", "run or extrapolated"),
        ("extrapolated", "run or extrapolated", "run or extrapolated"),
        ("run", "run", "run"),
    ],
)
def test_a_stack_has_each_spread_of_its_laws_once(first: str, second: str, both: str) -> None:
    forecasts = []
    for spread in (first, second):
        rows = pd.DataFrame({"reported": [2.0, 2.1]})
        rows.attrs["spread"] = spread
        forecasts.append(Beyond("passed", "no concerns", "passed", rows))
    draws = 2 + 0.1 * np.random.default_rng(0).standard_normal((50, 2))
    assert _beyond_scores(np.array([2.0, 2.1]), draws, forecasts, LOSS)["spread"].item() == both
