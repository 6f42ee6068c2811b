"""Choices, sums and means of arrays."""

from __future__ import annotations

import numpy as np

from bayeslaw.core.arrays import evenly


def test_even_choices_have_both_ends_and_no_number_twice() -> None:
    for size in range(1, 60):
        for most in (2, 5, 12, 100):
            chosen = evenly(size, most)
            assert (chosen[0], chosen[-1], chosen.size) == (0, size - 1, min(size, most))
            assert np.ptp(np.diff(chosen)) <= 1 if chosen.size > 1 else True
    assert evenly(0, 5).size == 0
