"""Directions of backtests, comparisons and record: values by hand, cells and columns that have no place, groups of sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.table import Runs, read_runs
from bayeslaw.evaluation.direction import direction, group_ends
from tests.errors import fails, faults


def along(by: str, **columns: Any) -> list[float]:
    return list(direction(read_runs(pd.DataFrame(columns)), by))


def test_compute_is_six_times_parameters_and_tokens() -> None:
    assert along("compute", N=[10**12, 2], D=[10**15, 0]) == [6e27, 0.0]  # beyond 64 bits
    table = Runs(pd.DataFrame({"N": [10**12], "D": [10**15]}, index=[1]))  # whole numbers, as a frame of the user's may hold
    assert direction(table, "compute").tolist() == [6e27]


def test_logged_flops_come_before_those_by_size_and_tokens() -> None:
    assert along("compute", N=[1e8, 1e8], D=[1e9, 2e9], flops=[7e17, 1.3e18]) == [7e17, 1.3e18]
    assert along("compute", flops=[1.0, 2.0]) == [1.0, 2.0]
    # At D = 0 a log may have the FLOPs of the pre-training, which are none of the adaptation's.
    assert along("compute", D=[0, 2e9], flops=[9e20, 1.3e18]) == [0.0, 1.3e18]


@pytest.mark.parametrize("by", ["N", "D", "ptpp", "step"])
def test_other_directions_are_columns(by: str) -> None:
    assert along(by, **{by: [3.0, 1.0]}) == [3.0, 1.0]


def test_base_checkpoints_lie_at_zero_but_no_model_and_no_pre_training_does() -> None:
    assert along("D", D=[0, 1]) == along("step", step=[0, 1]) == [0.0, 1.0]
    for by in ("N", "ptpp"):
        with faults(("not-positive", 1, by)):
            along(by, **{by: [0, 1]})


def test_rows_without_a_place_along_a_direction_are_listed() -> None:
    with faults(("not-positive", 2, "D"), ("missing-value", 3, "D"), ("missing-value", 1, "N")):
        along("compute", N=[np.nan, 1, 1], D=[1, -1, np.inf])
    with faults(("missing-value", 2, "flops")):
        along("compute", N=[1, 1], D=[1, 1], flops=[1, np.nan])


def test_directions_that_a_table_does_not_have() -> None:
    with faults(("missing-column", None, "D")) as found:
        along("compute", N=[1.0], tokens_seen=[2.0])
    assert "flops" in found[0].problem
    with faults(("missing-column", None, "step")) as found:
        along("step", steps=[1.0])
    assert found[0].suggestion == "Did you mean 'steps'?"
    with faults(("column-without-numbers", None, "step")):
        along("step", step=["early", "late"])
    for by, hint in (("Compute", "compute, N, D, ptpp, step"), ("E=domain", "--pool"), ("size", "not along 'size'")):
        with fails("unknown-direction", hint):
            direction(read_runs(pd.DataFrame({"N": [1.0]})), by)


def test_nearly_equal_values_are_one_group() -> None:
    e = math.e**0.1
    assert group_ends(np.array([1.0, 1.0, 1.05, 0.999 * e, 1.02 * e, 4.0])) == [0.999 * e, 1.02 * e, 4.0]
    assert group_ends(np.array([4.0, 1.0, 1.05])) == [1.05, 4.0]
    assert group_ends(np.array([])) == []
    dense = group_ends(np.exp(np.linspace(0, 1, 1001)))  # groups begin .1 e-folds apart, and a little more
    assert len(dense) == 10
    assert dense[-1] == math.e
