"""Choices, sums and means of arrays."""

from __future__ import annotations

import numpy as np

from bayeslaw.core.arrays import evenly, mean_of_largest


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
