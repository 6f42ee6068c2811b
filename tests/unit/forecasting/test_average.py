"""Averages over rows against loops over groups."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd

from bayeslaw.forecasting.average import average
from tests.errors import fails


def test_averages_are_means_over_the_rows_that_agree_in_all_other_columns(rng: np.random.Generator) -> None:
    rows = pd.DataFrame({"N": [1e9, 2e9, 2e9, 1e9], "items": [10, 20, 10, 20], "task": ["a", "b", "a", "b"]})
    draws = rng.standard_normal((5, 4))
    averages = average(rows, draws, "task", ("items",))
    assert averages.settings.to_dict("list") == {"N": [1e9, 2e9], "rows": [2, 2]}
    own = average(rows.assign(rows=7), draws, "task", ("items",)).settings
    assert own[["rows", "forecast_rows"]].to_numpy().tolist() == [[7, 2], [7, 2]]
    np.testing.assert_allclose(averages.draws, np.stack([draws[:, [0, 3]].mean(axis=1), draws[:, [1, 2]].mean(axis=1)], axis=1))
    np.testing.assert_array_equal(averages.measured(np.array([1.0, np.nan, 2.0, 4.0])), [2.5, np.nan])
    np.testing.assert_allclose(average(rows[["task"]][:2], draws[:, :2], "task").draws[:, 0], draws[:, :2].mean(axis=1))


def test_averages_over_unequal_values_are_refused() -> None:
    rows = pd.DataFrame({"N": [1.0, 1.0, 2.0, 2.0], "task": ["a", "b", "a", "a"]})
    with fails("unequal-averages", "N = 2.0", "lacks b", "the same 2"):
        average(rows, np.zeros((3, 4)), "task")
    with fails("unequal-averages", "N = 2.0", "has a twice"):
        average(pd.concat([rows[:3], rows[1:2].assign(N=2.0), rows[3:]]), np.zeros((3, 5)), "task")


def test_memory_grows_with_the_rows_and_not_with_their_square() -> None:
    count = 4_000
    rows = pd.DataFrame({"N": np.repeat(np.arange(count), 2), "task": ["a", "b"] * count})
    tracemalloc.start()
    average(rows, np.ones((2, 2 * count)), "task")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # an array of averages times rows takes 256 MB
