"""Choices, sums and means of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.arrays import common_shape, evenly, mean_of_largest, numbers, one_number
from tests.errors import fails


def test_even_choices_have_both_ends_and_no_number_twice() -> None:
    for size in range(1, 60):
        for most in (2, 5, 12, 100):
            chosen = evenly(size, most)
            assert (chosen[0], chosen[-1], chosen.size) == (0, size - 1, min(size, most))
            assert np.ptp(np.diff(chosen)) <= 1 if chosen.size > 1 else True
    assert evenly(0, 5).size == 0


def test_the_largest_are_as_many_as_the_share_says() -> None:
    values = np.arange(100.0)
    for count in range(1, 100):  # 7 of 100 are .07, which times 100 is more than 7
        assert mean_of_largest(values, count / 100) == values[-count:].mean()
    assert mean_of_largest(values, 1e-4) == 99.0
    np.testing.assert_array_equal(mean_of_largest(np.stack([values, -values]), 0.015), [98.5, -0.5])


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (3, [3]), (np.float32(0.5), [0.5]), ([1, 2.5], [1, 2.5]), ((1,), [1]), (np.arange(2), [0, 1]), ([], []), ([10**20], [1e20]),
        (pd.Series([1.0, 2.0], index=[7, 3]), [1, 2]), (pd.array([1, 2], dtype="Int64"), [1, 2]), (np.nan, [np.nan]),
    ],
)  # fmt: skip
def test_numbers_are_taken_as_users_have_them(given: Any, values: list[float]) -> None:
    np.testing.assert_array_equal(numbers("x", given, "1"), np.array(values, dtype=float))


@pytest.mark.parametrize("given", ["1", ["1"], None, [None], True, [[1], [1, 2]], {"a": 1}, {1}])
def test_what_is_no_number_is_refused(given: Any) -> None:
    with fails("not-numbers", "x must be", "such as 1e9"):
        numbers("x", given, "1e9")
    with fails("not-a-number", "x must be", "such as 1e9"):
        one_number("x", given, "1e9")


def test_one_number_may_have_to_be_finite() -> None:
    assert np.isnan(one_number("x", np.nan, "1", finite=False))
    assert one_number("x", np.int64(3), "1") == 3.0
    with fails("not-a-number", "x must be a finite number, such as 1, not nan."):
        one_number("x", np.nan, "1")


def test_arrays_of_unequal_lengths_are_named() -> None:
    assert common_shape({"N": np.ones(2), "D": np.ones(1)}) == (2,)
    with fails("unequal-lengths", "2 of N, 3 of D"):
        common_shape({"N": np.ones(2), "D": np.ones(3)})
