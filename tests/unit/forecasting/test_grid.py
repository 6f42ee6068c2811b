"""Settings as combinations of values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.design.candidates import grid_of_runs
from bayeslaw.forecasting.grid import MOST_SETTINGS, grid
from bayeslaw.laws.card import load_law
from tests.fixed import apart_fit


def test_grid_is_every_combination_of_lists_and_ranges() -> None:
    law = load_law("ptpp-floor")
    table = grid(law, {"N": "1e8,8.1e9", "D": "1e9:1e12:4", "r": "0.1:0.5:3", "ptpp": "15:240:5"})
    assert list(table) == ["N", "D", "r", "ptpp"]
    assert len(table) == len(table.drop_duplicates()) == 2 * 4 * 3 * 5
    assert table["N"].unique().tolist() == [1e8, 8.1e9]
    np.testing.assert_allclose(table["D"].unique(), [1e9, 1e10, 1e11, 1e12])
    np.testing.assert_allclose(table["r"].unique(), [0.1, 0.3, 0.5])
    np.testing.assert_allclose(table["ptpp"].unique(), [15, 30, 60, 120, 240])


def test_grid_takes_numbers_and_sequences() -> None:
    law = load_law("chinchilla")
    table = grid(law, {"N": 1e9, "D": [1e9, 1e10]})
    pd.testing.assert_frame_equal(table, pd.DataFrame({"N": [1e9, 1e9], "D": [1e9, 1e10]}))
    pd.testing.assert_frame_equal(table, grid(law, {"N": "1e9", "D": np.array([1e9, 1e10]).tolist()}))
    pd.testing.assert_frame_equal(grid(law, {"N": "1e9", "D": "5e9:5e9:1"}), pd.DataFrame({"N": [1e9], "D": [5e9]}))
    assert grid(law, {"N": 1e9, "D": "1e10:1e8:3"})["D"].tolist() == pytest.approx([1e10, 1e9, 1e8])


def test_adaptation_tokens_per_parameter_stand_for_D() -> None:
    table = grid(load_law("chinchilla"), {"N": "1e8,1e9", "atpp": "1:100:3"})
    np.testing.assert_allclose(table["D"], np.outer([1e8, 1e9], [1, 10, 100]).ravel())


def test_groups_of_noise_are_settings_told_as_text() -> None:
    fit = apart_fit()
    table = grid(fit, {"x": "0,1", "domain": "web", "lab": "a,b_1"})
    expected = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0], "domain": "web", "lab": ["a", "b_1"] * 2})
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    made = fit.forecast(table).summary()
    width = made["run_eti90_hi"] - made["run_eti90_lo"]
    assert width[made["lab"] == "b_1"].min() > 10 * width[made["lab"] == "a"].max()  # sd 5% and .2%
    with pytest.raises(BayeslawError, match="line has no covariate 'labs'; it has x, domain, lab"):
        grid(fit, {"x": 0.0, "domain": "web", "labs": "a"})


def test_runs_of_a_grid_are_named_by_their_group() -> None:
    made = grid_of_runs(apart_fit(), {"x": "0", "domain": "web", "lab": "a,b_1"})
    assert made["run"].tolist() == ["x 0, domain web, lab a", "x 0, domain web, lab b_1"]


NONSENSE = [
    "",
    "big",
    "1,",
    "1,,2",
    "1:2",
    "1e8:1e9:2:3",
    "1e8:1e9:two",
    "1e8:1e9:2.5",
    "nan",
    "inf",
    "1e8:inf:3",
    "nan:1e9:3",
    "1e8-1e9",
]


@pytest.mark.parametrize("value", [*NONSENSE, [], ["big"], [np.nan], [[1e8, 1e9], [1e8, 1e9]], None])
def test_grid_refuses_nonsense(value: str) -> None:
    with pytest.raises(BayeslawError) as caught:
        grid(load_law("chinchilla"), {"N": value, "D": 1e9})
    assert str(caught.value) == f"N={value!r} is not a number, a list such as 0.1,0.25 or a range such as 1e9:2e11:20."


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"N": "1e9"}, "ptpp-floor needs N, D, r, ptpp; give D, r, ptpp too."),
        ({}, "ptpp-floor needs N, D, r, ptpp; give N, D, r, ptpp too."),
        ({"replay": "0.1"}, "ptpp-floor has no covariate 'replay'; it has N, D, r, ptpp."),
        ({"D": "1e9", "atpp": "20"}, "Give either D or atpp: D is atpp x N."),
        ({"atpp": "20"}, "ptpp-floor needs N, D, r, ptpp; give N, D, r, ptpp too."),
        ({"D": "1e8:1e9:0"}, "D='1e8:1e9:0' asks for 0 values; give 1 to 1,000,000."),
        ({"D": "1e8:1e9:-2"}, "D='1e8:1e9:-2' asks for -2 values; give 1 to 1,000,000."),
        ({"D": "1e8:1e9:1000001"}, "D='1e8:1e9:1000001' asks for 1000001 values; give 1 to 1,000,000."),
        ({"D": "0:1e9:3"}, "D='0:1e9:3': a range of D begins above 0."),
        ({"atpp": "20:-1:3"}, "atpp='20:-1:3': a range of atpp begins above 0."),
        ({"N": "1e8:1e9:4000", "D": "1e8:1e9:300"}, "These are 1,200,000 settings; at most 1,000,000 are forecast at once."),
    ],
)
def test_grid_says_what_is_wrong(settings: dict[str, str], text: str) -> None:
    assert MOST_SETTINGS == 1_000_000
    with pytest.raises(BayeslawError) as caught:
        grid(load_law("ptpp-floor"), settings)
    assert str(caught.value) == text
