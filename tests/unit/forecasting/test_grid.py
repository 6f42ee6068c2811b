"""Grids of settings: all combinations of values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.design.candidates import grid_of_runs, read_candidates
from bayeslaw.forecasting.grid import MOST_SETTINGS, grid
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import with_by, with_levels
from tests.errors import fails
from tests.fixed import apart_fit, typical_fit


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
    pd.testing.assert_frame_equal(table, grid("chinchilla", {"N": 1e9, "D": [1e9, 1e10]}))
    assert grid(law, {"N": 1e9, "D": "1e10:1e8:3"})["D"].tolist() == pytest.approx([1e10, 1e9, 1e8])


def test_values_may_be_gone_through_once_or_have_no_order() -> None:
    """An iterator was refused, and the error showed its address in memory."""
    table = grid("chinchilla", {"N": 1e9, "D": [1e9, 1e10]})
    given: list[Any] = [iter([1e9, 1e10]), (10.0**k for k in (9, 10)), {1e10, 1e9}, {1e9: 0, 1e10: 1}.keys()]
    for values in given:
        pd.testing.assert_frame_equal(grid("chinchilla", {"N": 1e9, "D": values}), table)
    assert len(grid("chinchilla", {"N": ["1B", "2B"], "D": 1e10})) == 2
    endless: Any = itertools.count(1e9)
    with fails("too-many-settings"):
        grid("chinchilla", {"N": 1e9, "D": endless})


def test_a_row_of_a_table_is_a_mapping_of_settings() -> None:
    row: Any = pd.DataFrame({"N": [1e9], "D": [1e10]}).iloc[0]
    pd.testing.assert_frame_equal(grid("chinchilla", row), grid("chinchilla", {"N": 1e9, "D": 1e10}))
    fit = typical_fit("chinchilla")
    pd.testing.assert_frame_equal(fit.forecast(row).summary(), fit.forecast({"N": 1e9, "D": 1e10}).summary())
    with fails("not-a-table", "Series"):
        fit.forecast(row.reset_index(drop=True))


def test_adaptation_tokens_per_parameter_stand_for_D() -> None:
    table = grid(load_law("chinchilla"), {"N": "1e8,1e9", "atpp": "1:100:3"})
    np.testing.assert_allclose(table["D"], np.outer([1e8, 1e9], [1, 10, 100]).ravel())


def test_units_and_usual_names_of_covariates() -> None:
    law = load_law("chinchilla")
    table = grid(law, {"params": "410M,1.1B", "tokens": "300M:30B:3"})
    assert table["N"].unique().tolist() == [4.1e8, 1.1e9]
    assert table["D"].unique().tolist() == pytest.approx([3e8, 3e9, 3e10])
    pd.testing.assert_frame_equal(grid(law, {"params_b": "0.41,1.1", "tokens_m": "300:30000:3"}), table)
    assert grid(law, {"params_b": [0.5], "D": "1t"}).to_numpy().tolist() == [[5e8, 1e12]]
    assert grid(load_law("ptpp-floor"), {"N": "1B", "atpp": 20, "replay_pct": "10,25", "ptpp": 15})["r"].tolist() == [0.1, 0.25]
    with fails("given-twice", "N"):
        grid(law, {"params": "1B", "N": "2B", "D": "1e9"})
    with fails("not-a-number", "r='10%,25%'", "Write 0.1 for 10%."):
        grid(load_law("replay-source"), {"r": "10%,25%"})
    with fails("not-a-number", "params_b='big'"):
        grid(law, {"params_b": "big", "D": "1e9"})


def test_sequences_may_have_texts_and_values_may_have_a_unit_of_their_own() -> None:
    law = load_law("chinchilla")
    written: list[tuple[str, Any]] = [
        ("N", ["410M", "1.1B"]), ("params_b", ["410M", 1.1]), ("params_b", "410M,1.1"), ("params_m", (410, "1.1B")),
    ]  # fmt: skip
    for name, sizes in written:
        assert grid(law, {name: sizes, "D": 1e9})["N"].tolist() == [4.1e8, 1.1e9]
    assert grid(law, {"params_b": "410M:41:3", "D": 1e9})["N"].tolist() == pytest.approx([4.1e8, 4.1e9, 4.1e10])
    refused: list[Any] = [["big"], [None], True, {"N": 1}]
    for wrong in refused:
        with fails("not-a-number", f"params_b={wrong!r}"):
            grid(law, {"params_b": wrong, "D": 1e9})


def test_blanks_around_names_in_a_list_do_not_matter() -> None:
    table = grid(apart_fit(size=40), {"x": 0, "domain": "web , code", "lab": "a, b_1"})
    assert table[["domain", "lab"]].to_numpy().tolist() == [["web", "a"], ["web", "b_1"], ["code", "a"], ["code", "b_1"]]


@pytest.mark.slow
def test_groups_of_noise_are_settings_given_as_text() -> None:
    fit = apart_fit()
    table = grid(fit, {"x": "0,1", "domain": "web", "lab": "a,b_1"})
    expected = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0], "domain": "web", "lab": ["a", "b_1"] * 2})
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    result = fit.forecast(table).summary()
    width = result["run_eti90_ub"] - result["run_eti90_lb"]
    assert width[result["lab"] == "b_1"].min() > 10 * width[result["lab"] == "a"].max()  # sd 5% and .2%
    with fails("unknown-covariate", "'labs'", "x, domain, lab"):
        grid(fit, {"x": 0.0, "domain": "web", "labs": "a"})


def test_runs_of_a_grid_are_named_by_their_group() -> None:
    result = grid_of_runs(apart_fit(), {"x": "0", "domain": "web", "lab": "a,b_1"})
    assert result["run"].tolist() == ["x 0, domain web, lab a", "x 0, domain web, lab b_1"]


def test_runs_of_a_grid_may_be_asked_for_under_other_usual_names() -> None:
    result = grid_of_runs(load_law("chinchilla"), {"params_M": "410", "tokens": "10B,20B"})
    assert result.to_dict("list") == {"N": [4.1e8] * 2, "D": [1e10, 2e10], "run": ["N 4.1e+08"] * 2}


def test_tokens_alone_are_one_run_logged_at_each() -> None:
    fit = typical_fit("fine-tuning")
    candidates = grid_of_runs(fit, {"D": "1e8,1e9"})
    assert candidates["run"].tolist() == ["new run", "new run"]
    priced = candidates.assign(cost=1.0)
    assert list(read_candidates([(fit.law, fit.observed)], priced, "cost").names) == ["new run"]


NOT_NUMBERS = ["", "big", "1,", "1,,2", "1:2", "1e8:1e9:2:3", "1e8:1e9:2.5", "nan", "1e8:inf:3", "1e8-1e9"]


@pytest.mark.parametrize("value", [*NOT_NUMBERS, [], ["big"], [np.nan], [[1e8, 1e9], [1e8, 1e9]], None])
def test_grid_refuses_values_that_are_no_numbers(value: str) -> None:
    with fails("not-a-number", f"N={value!r}"):
        grid(load_law("chinchilla"), {"N": value, "D": 1e9})


@pytest.mark.parametrize(
    ("settings", "code", "named"),
    [
        ({"N": "1e9"}, "missing-covariate", "D, r, ptpp"),
        ({"atpp": "20"}, "missing-covariate", "N, D, r, ptpp"),
        ({"replays": "0.1"}, "unknown-covariate", "'replays'"),
        ({"unique_tokens": "1B"}, "unknown-covariate", "'unique_tokens'"),
        ({"C": "1e22"}, "unknown-covariate", "`bayeslaw allocate` (fit.allocate)"),
        ({"D": "1e9", "atpp": "20"}, "d-and-atpp", "D"),
        ({"D": "1e8:1e9:0"}, "wrong-count", "D='1e8:1e9:0'"),
        ({"D": "1e8:1e9:1000001"}, "wrong-count", f"{MOST_SETTINGS:,}"),
        ({"D": "0:1e9:3"}, "range-from-zero", "D='0:1e9:3'"),
        ({"atpp": "20:-1:3"}, "range-from-zero", "atpp='20:-1:3'"),
        ({"N": "1e8:1e9:4000", "D": "1e8:1e9:300"}, "too-many-settings", "1,200,000"),
    ],
)
def test_grids_that_are_refused(settings: dict[str, str], code: str, named: str) -> None:
    with fails(code, named):
        grid(load_law("ptpp-floor"), settings)


def test_the_size_of_a_model_whose_loss_is_asked_for_leads_to_a_chain() -> None:
    with fails("unknown-covariate", "has no covariate 'N'", "`bayeslaw chain` (bayeslaw.chain)"):
        grid(load_law("task-sigmoid"), {"N": "7e9", "D": "1e11"})


def test_one_base_loss_is_not_that_of_several_checkpoints() -> None:
    fit = typical_fit("from-base-source", size=400)
    at: dict[str, str | float] = {"D": 1e9, "r": "0.1,0.2", "base_loss": 2.0}
    assert len(grid(fit, {"N": 1e8, "ptpp": 62, **at})) == 2
    with fails("several-base-losses", "4 checkpoints", "a column base_loss"):
        grid(fit, {"N": "1e8,2e8", "ptpp": "62,124", **at})


def test_a_missing_column_of_groups_is_asked_for_by_its_values() -> None:
    levels = {"domain": ("cardio", "onco")}
    law = with_levels(with_by(load_law("fine-tuning"), {"E": "domain"}), levels)
    with fails("missing-covariate", "give domain too, by --set domain=cardio (in Python", "domain is one of cardio, onco."):
        grid(law, {"D": "20B"})
