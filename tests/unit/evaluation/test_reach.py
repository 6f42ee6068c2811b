"""Scored forecasts by reach, by hand: those at ends, on outcomes that may be negative, and how many independent runs they are."""

from __future__ import annotations

import pandas as pd
import pytest

from bayeslaw.evaluation.reach import by_reach, independent_runs, inside, scores_of
from bayeslaw.laws.outcome import Outcome

ROWS = pd.DataFrame(
    {"cut": 1.0, "row": [1, 2, 3], "run": list("abc"), "crps": 0.1, "checks": "passed", "median": [-1.0, 0.0, 3.0]}
    | {f"eti{prob}_{end}": sign * prob / 100 for prob in (50, 80, 90) for end, sign in (("lb", -1), ("ub", 1))}
)


def test_the_largest_run_is_no_extrapolation() -> None:
    rows = pd.DataFrame({"reach": [-0.3, 0.0, 0.01, 0.5]})
    assert {name: len(part) for name, part in by_reach(rows).items()} == {"up to the largest run": 2, "0 to 0.5": 2, "all": 4}


def test_outcomes_at_the_ends_of_an_interval_are_inside() -> None:
    """Shares of few items are often equal to quantiles of their draws."""
    rows = ROWS.assign(loss=[-0.9, 0.9, 0.91])
    assert inside(rows, 0.9).tolist() == [True, True, False]


def test_errors_and_widths_of_outcomes_that_may_be_negative_are_in_their_unit() -> None:
    scores = scores_of(ROWS.assign(gain=[-0.5, 0.5, 2.0]), Outcome("gain", "points", "real"))
    assert (scores["mae"], scores["bias"]) == (pytest.approx(2 / 3), pytest.approx(0.0))  # errors of -.5, -.5 and 1
    assert scores["width_eti90"] == pytest.approx(1.8)
    assert not any(name.endswith("_rel") or "_rel_" in name for name in scores)


def test_runs_with_most_of_the_forecasts_are_fewer_independent_ones() -> None:
    for counts, runs in (([1], 1), ([5], 1), ([3, 3, 3, 3], 4), ([4, 1, 1], 2), ([10, *[1] * 10], 3)):  # 400 / 110 are 3.6
        rows = pd.DataFrame({"run": [f"r{i}" for i, count in enumerate(counts) for _ in range(count)]})
        assert independent_runs(rows) == runs
