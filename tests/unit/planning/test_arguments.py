"""Numbers as decisions take them: lists and ranges, with and without suffixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayeslaw.forecasting.stack import Stack
from bayeslaw.planning.arguments import read_once, read_range, read_values
from tests.errors import fails
from tests.posteriors import ZHENG, law_named, posterior, scattered


def test_copies_of_a_fit_or_a_stack_are_one_object() -> None:
    """Else the laws of the second stack would take turns, and draws of one law would meet those of another."""
    values = {name: ZHENG[name] for name in law_named("chinchilla").parameters}
    first, second = (posterior("chinchilla", scattered(values, 40, seed)) for seed in (1, 2))
    stack, other = (Stack({"a": first, "b": second}, {"a": w, "b": 1 - w}) for w in (0.5, 0.75))
    for own in (first, stack):
        again = read_once([own, replace(own), second])
        assert again[0] is again[1] is own
        assert again[2] is second
    assert read_once([stack, other])[1] is other  # the same fits by other weights


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("1T", [1e12]),
        ("10B, 1.1M", [1e10, 1.1e6]),
        ("1e19,1e20", [1e19, 1e20]),
        ("1B:100B:3", [1e9, 1e10, 1e11]),
        (2e9, [2e9]),
        ([3e9, 1e9], [3e9, 1e9]),
    ],
)
def test_values_are_read_with_their_suffixes(given: Any, values: list[float]) -> None:
    np.testing.assert_allclose(read_values(given), values, rtol=1e-15)


@pytest.mark.parametrize("given", ["1X", "", "1B,", "0", "-1B", "1B:2B", "1B:2B:x", "1_0", [], [[1.0], [2.0, 3.0]], [np.nan]])
def test_values_that_are_no_numbers_are_refused(given: Any) -> None:
    with fails("unreadable-compute", repr(given)):
        read_values(given)


@pytest.mark.parametrize(
    ("given", "low", "high", "listed"),
    [("3B,1B", 1e9, 3e9, [1e9, 3e9]), ("1B:1T", 1e9, 1e12, None), ((1, 20), 1.0, 20.0, None), ([5, 2], 2.0, 5.0, [2.0, 5.0])],
)
def test_ranges_are_read_with_their_suffixes(given: Any, low: float, high: float, listed: list[float] | None) -> None:
    first, last, values = read_range("sizes", given)
    assert (first, last, None if values is None else values.tolist()) == (low, high, listed)


@pytest.mark.parametrize("given", ["1X", "", "2:1", "1:nan", "1,nan,2", [], "1:2:3"])
def test_ranges_that_are_no_numbers_are_refused(given: Any) -> None:
    with fails("unreadable-range", "sizes", repr(given)):
        read_range("sizes", given)
