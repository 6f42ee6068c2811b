"""Medians and equal-tailed intervals of draws against NumPy, and the names of their columns."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslaw.core.intervals import columns, quantiles, rows
from tests.errors import fails


def test_columns_name_kind_and_probability(rng: np.random.Generator) -> None:
    draws = rng.standard_normal((101, 3))
    table = columns(draws, 0.8, "gain")
    assert list(table) == ["gain_median", "gain_eti80_lb", "gain_eti80_ub"]
    whole = np.sort(draws, axis=0)
    np.testing.assert_allclose(list(table.values()), [whole[50], whole[10], whole[90]], rtol=1e-12)


def test_draws_in_rows_may_be_infinite() -> None:
    draws = {"steps": np.array([1.0, 2.0, 3.0, np.inf, np.inf]), "loss": np.arange(5.0)}
    table = rows(draws, 0.5, method="nearest")
    assert table.index.name == "quantity"
    assert table.T.to_dict("list") == {"steps": [3.0, 2.0, np.inf], "loss": [2.0, 1.0, 3.0]}
    assert list(table) == ["median", "eti50_lb", "eti50_ub"]


@pytest.mark.parametrize("prob", [0.0, 1.0, 90.0, float("nan")])
def test_probabilities_outside_0_to_1_are_refused(prob: float) -> None:
    with fails("not-a-probability", f"{prob:g}"):
        quantiles(np.arange(5.0), prob)
