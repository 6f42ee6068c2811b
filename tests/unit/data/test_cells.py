"""Columns of unknown meaning stay as they are given, and are numbers where a law needs these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law, parse_card
from tests.fixed import LINE


def test_a_text_among_the_numbers_of_an_unknown_column_is_a_fault_for_laws_of_it_alone() -> None:
    table = pd.DataFrame({"N": [1e8, 2e8, 3e8], "D": 1e9, "loss": [3.0, 2.9, 2.8], "commit": ["1", "2", "abc1234"]})
    runs = read_runs(table)
    assert runs.frame["commit"].tolist() == ["1", "2", "abc1234"]
    assert check(runs, load_law("chinchilla"), purpose="forecast") == []
    of_commit = parse_card(LINE.replace("[covariates]\nx", "[covariates]\ncommit").replace("b*x + c*x*x", "b*commit + c*commit"))
    (fault,) = [fault for fault in check(runs, of_commit, purpose="forecast") if fault.column == "commit"]
    assert (fault.code, fault.row, fault.problem) == ("not-a-number", 3, "commit 'abc1234' is not a number")
    assert fault.suggestion == "correct the cell or remove the row"


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("66K", "write numbers without letters: 66000 for 66K"),
        ("43/4000", "write the quotient as a number: 0.25 for 1/4"),
        ("large", "lr-batch needs them there"),
    ],
)
def test_a_column_of_texts_in_place_of_numbers_is_shown_with_the_first(text: str, way: str) -> None:
    table = pd.DataFrame({"N": [1e8, 2e8, 3e8], "D": 1e10, "lr": [1e-3, 2e-3, 3e-3], "loss": [3.0, 2.9, 2.8], "batch": text})
    fault = next(fault for fault in check(read_runs(table), load_law("lr-batch")) if fault.column == "batch")
    assert (fault.problem, fault.suggestion) == (f"column batch holds no numbers but texts such as '{text}'", way)


GIVEN: dict[str, list[Any]] = {
    "version": ["1.1", "1.2", "1.10"], "code": ["007", "7", "8"], "exponent": ["1e3", "1000", "5"], "commit": ["12e4567", "8", "9"],
    "wandb_id": [9007199254740993, 9007199254740992, 1], "long_id": ["90071992547409931234", "1", "2"], "flag": [True, False, True],
    "seed": [1, 2, 3],
}  # fmt: skip


@pytest.mark.parametrize("dtype", [None, "category", object])
def test_columns_of_unknown_meaning_stay_as_given(dtype: Any) -> None:
    frame = pd.DataFrame({"N": 1e9, "loss": [3.0, 2.5, 2.4]} | {c: pd.Series(v, dtype=dtype) for c, v in GIVEN.items()})
    read = read_runs(frame)
    assert {column: read.frame[column].tolist() for column in GIVEN} == GIVEN
    again = read_runs(read.frame)
    assert {column: again.frame[column].tolist() for column in GIVEN} == GIVEN
    assert read.frame["seed"].dtype == np.int64


def test_files_give_columns_of_unknown_meaning_as_tables_in_memory_do(tmp_path: Path) -> None:
    texts = pd.DataFrame({"N": 1e9, "loss": [3.0, 2.5, 2.4]} | GIVEN)
    texts.to_csv(tmp_path / "runs.csv", index=False)
    texts.to_parquet(tmp_path / "runs.parquet")
    texts.to_json(tmp_path / "runs.jsonl", orient="records", lines=True)
    of_flags = {"flag": ["True", "False", "True"]}  # which are texts in a CSV file
    for name, given in {"runs.csv": GIVEN | of_flags, "runs.parquet": GIVEN, "runs.jsonl": GIVEN}.items():
        read = read_runs(tmp_path / name).frame
        assert {column: read[column].tolist() for column in GIVEN} == given


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["0.50", "0.25", "1"], [0.5, 0.25, 1.0]), (["1", "1.0", "2.5"], [1.0, 1.0, 2.5]), (["1", "", "3"], [1.0, np.nan, 3.0]),
        (["1e9", "2.5e9", "3"], [1e9, 2.5e9, 3.0]), (["-1", "0", "+2"], [-1, 0, 2]),
    ],
)  # fmt: skip
def test_numbers_in_a_file_are_numbers_where_that_loses_nothing(cells: list[str], numbers: list[float], tmp_path: Path) -> None:
    pd.DataFrame({"N": 1e9, "loss": [3.0, 2.5, 2.4], "width": cells}).to_csv(tmp_path / "runs.csv", index=False)
    np.testing.assert_array_equal(read_runs(tmp_path / "runs.csv").frame["width"], numbers)


def test_a_law_makes_numbers_of_its_covariates() -> None:
    table = pd.DataFrame({"x": ["0.10", "0.1", "1"], "loss": ["3", "2.5", "2.4"], "run": ["a", "b", "c"]})
    runs, law = read_runs(table), parse_card(LINE)
    assert runs.frame["x"].tolist() == ["0.10", "0.1", "1"]
    assert check(runs, law, purpose="forecast") == []
    assert Observations.of(law, runs).covariates["x"].tolist() == [0.1, 0.1, 1.0]
    flags = read_runs(table.assign(x=[True, False, True]))
    assert Observations.of(law, flags).covariates["x"].tolist() == [1.0, 0.0, 1.0]
