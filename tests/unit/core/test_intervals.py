"""Medians and equal-tailed intervals of draws, held against NumPy, and their columns' names."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import columns, quantiles, rows


def test_columns_name_kind_and_probability(rng: np.random.Generator) -> None:
    draws = rng.standard_normal((101, 3))
    made = columns(draws, 0.8, "gain")
    assert list(made) == ["gain_median", "gain_eti80_lo", "gain_eti80_hi"]
    whole = np.sort(draws, axis=0)
    np.testing.assert_allclose(list(made.values()), [whole[50], whole[10], whole[90]], rtol=1e-12)


def test_rows_of_draws_that_may_be_infinite() -> None:
    draws = {"steps": np.array([1.0, 2.0, 3.0, np.inf, np.inf]), "loss": np.arange(5.0)}
    made = rows(draws, 0.5, method="nearest")
    assert made.index.name == "quantity"
    assert made.T.to_dict("list") == {"steps": [3.0, 2.0, np.inf], "loss": [2.0, 1.0, 3.0]}
    assert list(made) == ["median", "eti50_lo", "eti50_hi"]


@pytest.mark.parametrize("prob", [0.0, 1.0, 90.0, float("nan")])
def test_probabilities_outside_0_to_1(prob: float) -> None:
    with pytest.raises(BayeslawError, match="The probability of an interval lies between 0 and 1"):
        quantiles(np.arange(5.0), prob)
