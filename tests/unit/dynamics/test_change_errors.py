"""What laws err by, against the distribution that is stated."""

from __future__ import annotations

import numpy as np

from bayeslaw.dynamics.change_errors import ChangeErrors


def test_errors_are_shares_of_the_changes_one_path_a_draw(rng: np.random.Generator) -> None:
    size = 40_000
    rate, course = np.tile([0.0, 0.1, 0.2], (size, 1)), np.tile([0.0, 0.0, 1.0], (size, 1))
    errors = ChangeErrors(0.4, 0.5, 0.02, 0.3).draw(rate, course, rng)
    np.testing.assert_array_equal(errors[:, 0], 0.0)
    # Normal numbers with a log-normal sd: second moment median^2 exp(2 spread^2), fourth 3 median^4 exp(8 spread^2).
    second, fourth = 0.4**2 * np.exp(2 * 0.5**2), 3 * 0.4**4 * np.exp(8 * 0.5**2)
    scatter = np.sqrt((fourth - second**2) / size)
    assert abs(np.mean((errors[:, 1] / 0.1) ** 2) - second) < 5 * scatter
    of_course = errors[:, 2] - 2 * errors[:, 1]
    assert abs(np.median(np.abs(of_course)) / (0.6745 * 0.02) - 1) < 0.05
    assert abs(np.corrcoef(of_course, errors[:, 1])[0, 1]) < 0.02
