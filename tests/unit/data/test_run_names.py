"""Columns that name the runs of a table though they are not called so: taken where rows can be of one run, or named in a note."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.run_names import unnamed_runs_note
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law

LAW = load_law("chinchilla")
SIZES = np.repeat([7e7, 1.6e8, 4.1e8], 4)
TABLE = pd.DataFrame({"N": SIZES, "D": SIZES * np.tile([2, 5, 10, 20], 3), "loss": np.linspace(4, 3, 12)})
NAMES = np.repeat(["a", "b", "c"], 4)


@pytest.mark.parametrize("column", ["Name", " name", "experiment", "EXPERIMENT"])
def test_a_column_of_names_is_that_of_runs_and_reported(column: str) -> None:
    runs = read_runs(TABLE.assign(**{column: NAMES}))
    assert runs.frame["run"].tolist() == [*NAMES]
    assert runs.conversions[-1] == f"run = {column.strip()}"
    assert len(runs.where(f"{column.strip()} == 'b' and run == 'b'")) == 4
    assert unnamed_runs_note(runs.frame, LAW) == ""
    assert read_runs(TABLE.assign(**{column: range(12)})).frame["run"].tolist() == [*map(str, range(12))]


@pytest.mark.parametrize(
    "changed",
    [
        {"Name": "sweep"},  # of all sizes
        {"Name": NAMES, "D": 1e9},  # of several runs of one size
        {"Name": NAMES, "D": np.tile([1e9, 1e9, 2e9, 2e9], 3), "lr": np.tile([1e-3, 2e-3], 6)},
        {"Name": NAMES, "run": range(12)},
        {"Name": np.tile(["web", "code", "books"], 4)},
        {"Name": [[1], [2], [3]] * 4},
    ],
)
def test_names_of_something_else_are_left_alone(changed: dict[str, Any]) -> None:
    runs = read_runs(TABLE.assign(**changed))
    assert "Name" in runs.frame
    assert "Name" in read_runs(TABLE.drop(columns="loss").assign(**changed)).frame
    assert unnamed_runs_note(runs.frame, LAW) == ""


def test_repeated_rows_and_a_resumption_do_not_hide_names() -> None:
    table = TABLE.assign(Name=NAMES)
    again = table.tail(2).assign(loss=3.1)
    assert "run" in read_runs(pd.concat([table, table.tail(3), again])).frame
    (fault,) = check(read_runs(pd.concat([table, table.tail(3)])), LAW)
    assert fault.code == "repeated-rows"


def test_the_user_chooses_what_names_runs() -> None:
    table = TABLE.assign(Name=NAMES, other=range(12))
    assert "run" in read_runs(table.drop(columns="N")).frame
    assert read_runs(table, columns={"run": "other"}).frame["run"].nunique() == 12
    assert "run" not in read_runs(table, columns={"domain": "Name"}).frame


def test_another_column_that_may_name_runs_is_noted() -> None:
    note = unnamed_runs_note(read_runs(TABLE.assign(**{"my model": NAMES}, set="c4", day=[*"abcdefghijkl"])).frame, LAW)
    assert note == (
        "no column names runs, so each of 12 rows counts as a run of its own; column my model may name them: if so, add "
        "--column 'run=my model' (in Python columns={'run': 'my model'})"
    )
    for other in (np.tile([*"ab"], 6), "c4", [*"aabcdefghijk"], [*range(12)]):  # of several sizes, one, of one row mostly, numbers
        assert unnamed_runs_note(TABLE.assign(other=other), LAW) == ""
