"""Tables of several domains as one column of losses."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bayeslaw.core.errors import TableError
from bayeslaw.data.long import to_long
from bayeslaw.data.table import read_runs
from tests.commands import Command, rejected
from tests.errors import fails, faults

WIDE = pd.DataFrame({"run": ["a", "b"], "N": [1e8, 2e8], "web_loss": [3.1, None], "code_loss": [1.4, 1.3]})


def test_a_cell_without_a_loss_gives_no_row_and_is_counted(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = to_long(WIDE, ["web_loss", "code_loss"])
    assert made[["run", "domain", "loss"]].to_numpy().tolist() == [
        ["a web", "web", 3.1],
        ["a code", "code", 1.4],
        ["b code", "code", 1.3],
    ]
    monkeypatch.chdir(tmp_path)
    WIDE.to_csv("wide.csv", index=False)
    done = command("long", "wide.csv", "--losses", "web_loss,code_loss", "-o", "long.csv")
    assert "3 rows of 2 domains" in done.out
    assert "1 cells without a loss gave no row" in done.out
    assert "note: runs are named anew" in done.out
    WIDE.assign(params_b=[1, 2]).drop(columns="N").to_csv("billions.csv", index=False)
    assert (
        "note: read: N = params_b x 1e+09"
        in command("long", "billions.csv", "--losses", "web_loss,code_loss", "-o", "long.csv").out
    )
    rejected(command("long", "wide.csv", "--losses", "web_loss,code_loss", "--by", "loss", "-o", "x.csv"), "name-used-twice")


def test_names_that_are_taken_are_refused() -> None:
    with fails("name-used-twice", "'loss'"):
        to_long(WIDE, ["web_loss", "code_loss"], by="loss")
    with fails("name-used-twice", "drop or rename it"):
        to_long(WIDE.assign(loss=2.0), ["web_loss", "code_loss"])
    with fails("name-used-twice", "a column 'val_loss', which is read as loss, already: drop or rename it"):
        to_long(WIDE.assign(val_loss=2.0), ["web_loss", "code_loss"])
    renamed = WIDE.assign(params_b=1.0).drop(columns="N")
    for table in (renamed, read_runs(renamed)):
        with fails("name-used-twice", "'params_b'"):  # which is N when it is read
            to_long(table, ["web_loss", "code_loss"], by="params_b")
    with fails("name-used-twice", "another name"):
        to_long(WIDE.assign(domain="web"), ["web_loss", "code_loss"])


def test_faults_name_the_file(tmp_path: Path) -> None:
    WIDE.assign(N=["1e8", "1e8x"]).to_csv(tmp_path / "wide.csv", index=False)
    with fails("faulty-table", "wide.csv", "'1e8x'", "row 2", kind=TableError):
        to_long(tmp_path / "wide.csv", ["web_loss", "code_loss"])


def test_a_known_error_is_not_that_of_the_other_domains() -> None:
    wide = pd.DataFrame({"run": ["a", "b"], "N": 1e8, "val_loss": [3.0, 2.8], "code_loss": [2.0, 1.8], "loss_se": [0.01, 0.02]})
    for table in (wide, read_runs(wide.rename(columns={"val_loss": "val"}))):
        losses = {"val": "val_loss" if table is wide else "val", "code": "code_loss"}
        if table is not wide:
            with fails("ambiguous-error", "val, code_loss", "loss_se"):
                to_long(table, losses)
            continue
        long_table = to_long(table, losses)
        assert long_table.groupby("domain")["loss_se"].agg(list).to_dict() == {"code": [0.0, 0.0], "val": [0.01, 0.02]}


def test_a_base_loss_is_not_that_of_the_other_domains() -> None:
    columns = {"run": "a", "N": 1e8, "ptpp": 20.0, "D": [0.0, 1e9], "val_loss": [3.0, 2.8], "code_loss": [2.0, 1.8]}
    wide = pd.DataFrame(columns)
    adapted = to_long(read_runs(wide).where("D > 0"), ["val_loss", "code_loss"])
    assert adapted.set_index("domain")["base_loss"].dropna().to_dict() == {"val": 3.0}
    whole = read_runs(to_long(read_runs(wide), ["val_loss", "code_loss"])).frame
    assert whole.groupby("domain")["base_loss"].unique().map(list).to_dict() == {"code": [2.0], "val": [3.0]}
    with fails("ambiguous-base-loss", "web_loss, code_loss"):
        to_long(WIDE.assign(base_loss=3.0), ["web_loss", "code_loss"])


def test_losses_that_are_no_numbers_are_refused_by_the_name_of_their_column() -> None:
    wide = pd.DataFrame({"run": list("abc"), "web_loss": [3.1, 3.0, 2.9], "code_loss": ["1.4", "x", "1.2"]})
    with faults(("not-a-number", 2, "code_loss")) as listed:
        to_long(wide, ["web_loss", "code_loss"])
    assert listed[0].problem == "code_loss 'x' is not a number"
    with faults(("column-without-numbers", None, "code_loss")):
        to_long(wide.assign(code_loss=["1,4", "1,3", "1,2"]), ["web_loss", "code_loss"])


def test_columns_whose_names_stand_for_a_loss_are_taken_as_they_are_named() -> None:
    wide = pd.DataFrame({"run": [1], "N": [1e8], "val_loss": [3.1], "test_loss": [1.4]})
    rows = [["1 web", "web", 3.1], ["1 2", "2", 1.4]]
    assert to_long(wide, {"web": "val_loss", 2: "test_loss"})[["run", "domain", "loss"]].to_numpy().tolist() == rows  # type: ignore[dict-item]
    read = read_runs(wide.rename(columns={"test_loss": "code"}))
    assert to_long(read, {"web": "val_loss", "2": "code"})[["run", "domain", "loss"]].to_numpy().tolist() == rows
