"""Whole numbers as users give them."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslaw.core.errors import row_ranges, whole_number
from tests.errors import fails


@pytest.mark.parametrize("given", [500, np.int64(500), np.array(500), np.array(500, dtype="u2")])
def test_a_whole_number_may_be_that_of_an_array_without_dimensions(given: object) -> None:
    """`fit(..., tune=np.array(500))` failed with 'a whole number of at least 50, not 500'."""
    value = whole_number("tune", given, 50)
    assert (value, type(value)) == (500, int)


@pytest.mark.parametrize("given", [np.array([500]), np.array(500.5), np.array(40), "500", 500.0, None])
def test_other_values_are_refused_and_shown(given: object) -> None:
    with fails("not-a-whole-number", "tune", "at least 50"):
        whole_number("tune", given, 50)


@pytest.mark.parametrize("given", [True, False, np.True_, np.array(True)])
def test_a_truth_value_is_no_number(given: object) -> None:
    """`compare(…, bootstrap=True)` made one resample, and `backtest(…, cuts=True)` one cut."""
    with fails("not-a-whole-number", "bootstrap", given):
        whole_number("bootstrap", given, 0)


def test_a_row_is_listed_once() -> None:
    assert row_ranges([3, 1, 2, 2, 9]) == "rows 1–3, 9"
