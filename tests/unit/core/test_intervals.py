"""Medians and equal-tailed intervals of draws against NumPy, and the names of their columns."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslaw.core.intervals import columns, open_quantiles, quantiles, rows
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


@pytest.mark.parametrize(("zeros", "infinite"), [(0, 0), (0, 30), (30, 0), (8, 8), (0, 3), (0, 95), (30, 60), (12, 12)])
def test_an_open_interval_has_its_probability_unless_one_value_has_more(zeros: int, infinite: int) -> None:
    finite = np.linspace(0.5, 2.0, 101 - zeros - infinite)
    draws = np.concatenate([np.zeros(zeros), finite, np.full(infinite, np.inf)])[:, None]
    middle, low, high = open_quantiles(draws, 0.8)[:, 0]
    assert middle == np.sort(draws[:, 0])[50]
    if zeros <= 10 and infinite <= 10:
        assert (low, high) == (np.sort(draws[:, 0])[10], np.sort(draws[:, 0])[90])
    elif zeros <= 10:
        assert (low, high) == (np.sort(draws[:, 0])[20], np.inf)
    elif infinite <= 10:
        assert (low, high) == (0.0, np.sort(draws[:, 0])[80])
    else:
        assert (low, high) == (0.0, np.inf)
    inside = ((draws >= low) & (draws <= high)).mean()
    assert inside == pytest.approx(0.8, abs=0.011) or max(zeros, infinite) > 80 or min(zeros, infinite) > 10


@pytest.mark.parametrize("prob", [0.0, 1.0, 90.0, float("nan")])
def test_probabilities_outside_0_to_1_are_refused(prob: float) -> None:
    with fails("not-a-probability", f"{prob:g}"):
        quantiles(np.arange(5.0), prob)
