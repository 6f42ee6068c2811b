"""Tables of runs: names and units of columns, and files of every kind."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import TableError
from bayeslaw.data.logs.api import import_runs
from bayeslaw.data.table import Runs, data_sha256, read_runs
from bayeslaw.data.validate import Purpose, check
from tests.errors import fails, faults


def test_runs_share_their_table_with_nobody() -> None:
    table = pd.DataFrame({"N": [1e8, 1e9], "loss": [3.0, 2.5]}, index=pd.Index([1, 2], name="row"))
    for runs in (read_runs(table), Runs(table)):
        before = runs.frame
        for changed in (table, runs.frame, runs.where("N > 0").frame):
            changed.loc[:, "loss"] *= 2.0
            changed["N"] = 1.0
        pd.testing.assert_frame_equal(runs.frame, before)
        assert Runs(runs.frame).frame["loss"].tolist() == before["loss"].tolist()
        with pytest.warns(Warning, match="copy of a DataFrame"):  # pandas says of itself that nothing is changed
            runs.frame["loss"] = 0.0
        pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(runs)).frame, before)
    with fails("not-a-table", "the type list"):
        Runs([1.0])  # type: ignore[arg-type]


def test_a_table_of_another_kind_gets_what_makes_one_of_pandas_of_it() -> None:
    rows = [{"N": 1e7, "D": 1e9, "loss": 3.0}]
    of_polars = type("DataFrame", (), {"__module__": "polars.dataframe.frame", "to_pandas": lambda self: pd.DataFrame(rows)})()
    ways = {
        "the type polars.DataFrame: give what its method to_pandas() returns.": of_polars,
        "the type list: a list of rows becomes one by pandas.DataFrame(": rows,
        "the type dict: a dictionary of columns becomes one by pandas.DataFrame(": rows[0],
        "the type ndarray: an array becomes one by pandas.DataFrame(array, columns=": np.ones((2, 3)),
        "the type list: bayeslaw.import_runs reads several logs": ["a.csv", "b.csv"],
    }
    for way, table in ways.items():
        with fails("not-a-table", way):
            read_runs(table)


def test_columns_get_our_names_and_units() -> None:
    runs = read_runs(
        pd.DataFrame(
            {
                "Params_B": [0.5, 1.25],
                " tokens_b": ["2", "3.5"],
                "replay_pct": [10, 25],
                "PTPP": [15, 31],
                "eval/loss": [3.0, 2.5],
                "Run ID": [7, 8],
                "Val Set": ["target", "source"],
                "Note": ["a", "b"],
            }
        )
    )
    expected = pd.DataFrame(
        {
            "N": [5e8, 1.25e9],
            "D": [2e9, 3.5e9],
            "r": [0.1, 0.25],
            "ptpp": [15.0, 31.0],
            "loss": [3.0, 2.5],
            "run": ["7", "8"],
            "domain": ["target", "source"],
            "Note": ["a", "b"],
        },
        index=pd.RangeIndex(1, 3, name="row"),
    )
    pd.testing.assert_frame_equal(runs.frame, expected, check_dtype=False)
    assert runs.conversions == (
        "N = Params_B x 1e+09", "D =  tokens_b x 1e+09", "r = replay_pct x 0.01", "ptpp = PTPP", "loss = eval/loss",
        "run = Run ID", "domain = Val Set",
    )  # fmt: skip


def test_tokens_are_computed_from_tokens_per_parameter() -> None:
    runs = read_runs(pd.DataFrame({"N": [1e6, 2e6], "atpp": [10, 20], "loss": [3, 2.5]}))
    assert runs.frame["D"].tolist() == [1e7, 4e7]
    assert runs.conversions == ("D = atpp x N",)
    assert read_runs(pd.DataFrame({"N": [1e6], "atpp": [10], "D": [5]})).frame["D"].tolist() == [5.0]


def test_ptpp_is_computed_from_tokens_of_the_pre_training() -> None:
    runs = read_runs(pd.DataFrame({"N": [1e6, 2e6], "pretrain_tokens_b": [0.015, 0.062]}))
    assert runs.frame["ptpp"].tolist() == pytest.approx([15.0, 31.0])
    assert runs.conversions == ("pretrain_tokens = pretrain_tokens_b x 1e+09", "ptpp = pretrain_tokens / N")
    assert read_runs(pd.DataFrame({"N": [1e6], "pretrain_tokens": [2e7], "ptpp": [15]})).frame["ptpp"].tolist() == [15.0]


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    ".csv": lambda f, p: f.to_csv(p, index=False),
    ".CSV": lambda f, p: f.to_csv(p, index=False),
    ".tsv": lambda f, p: f.to_csv(p, sep="\t", index=False),
    ".parquet": lambda f, p: f.to_parquet(p),
    ".jsonl": lambda f, p: p.write_text("\n".join(row.to_json(double_precision=15) for _, row in f.iterrows())),
    ".json": lambda f, p: f.to_json(p, orient="records", double_precision=15),
}


@pytest.mark.parametrize("ending", WRITERS)
def test_files_are_read_as_they_were_written(ending: str, tmp_path: Path, table: pd.DataFrame) -> None:
    table = table.round(12).assign(run=[f"00{i}" for i in range(len(table))], note="a, b\u2028c")
    path = tmp_path / f"runs{ending}"
    WRITERS[ending](table, path)
    runs = read_runs(path)
    assert runs.name == f"runs{ending}"
    pd.testing.assert_frame_equal(
        runs.frame, table.set_axis(pd.RangeIndex(1, len(table) + 1, name="row"), axis=0), check_dtype=False, rtol=1e-14
    )


def test_a_table_in_memory_stays_unchanged(table: pd.DataFrame) -> None:
    before = table.copy()
    runs = read_runs(table, "ptpp == 15")
    assert len(runs) == 10
    pd.testing.assert_frame_equal(table, before)


def test_runs_that_were_read_are_returned_as_they_are(table: pd.DataFrame) -> None:
    runs = read_runs(table, duplicates="keep")
    assert read_runs(runs) is runs
    some = read_runs(runs, f"N > {table['N'].min()}")
    assert some.duplicates == "keep"
    assert 0 < len(some) < len(runs)
    options: list[dict[str, Any]] = [{"columns": {"N": "N"}}, {"strict": False}, {"duplicates": "drop"}]
    for given in options:
        with fails("already-read", runs.name):
            read_runs(runs, **given)


def test_rows_have_numbers_of_their_own(table: pd.DataFrame) -> None:
    for frame in (pd.concat([table, table]), table.set_axis([f"row {i}" for i in range(len(table))], axis=0)):
        with fails("bad-index", "read_runs"):
            Runs(frame)
        assert read_runs(frame).frame.index.tolist() == [*range(1, len(frame) + 1)]


def test_columns_in_levels_are_refused() -> None:
    """As pandas makes them where it pivots: their names as texts would be columns that nobody knows."""
    levels = pd.MultiIndex.from_product([["mean"], ["N", "loss"]])
    with fails("levels-of-columns", "2 levels", "('mean', 'N')", "droplevel"):
        read_runs(pd.DataFrame([[1e9, 2.5]], columns=levels))


def test_texts_in_an_index_without_a_name_are_not_left_out_in_silence() -> None:
    frame = pd.DataFrame({"N": 1e9, "loss": [3.0, 2.5]}, index=["run a", "run b"])
    assert read_runs(frame).conversions == ("the index ('run a', …) is left out, since it has no name such as run",)
    assert read_runs(frame.rename_axis("run")).conversions == read_runs(frame.reset_index(drop=True)).conversions == ()


@pytest.mark.parametrize(
    ("cell", "way"),
    [
        ("1,300,000,000", "separators of thousands"), ("1_300_000_000", "separators of thousands"),
        ("1.300.000.000", "separators of thousands"), ("1,3", "decimal commas"), ("1.3 billion", "1.3e9 or 1.3B"),
    ],
)  # fmt: skip
def test_a_size_that_is_no_number_is_refused_with_how_to_write_it(cell: str, way: str) -> None:
    with fails("not-a-number", cell, way):
        read_runs(pd.DataFrame({"N": [cell, 1e9], "loss": [3.0, 2.5]}))


def test_a_named_index_becomes_a_column() -> None:
    frame = pd.DataFrame({"run": ["a", "b"], "loss": [3.0, 2.5]}).set_index("run")
    assert read_runs(frame).frame["run"].tolist() == ["a", "b"]
    again = read_runs(read_runs(frame).frame)
    assert list(again.frame) == ["run", "loss"]


def test_numbers_of_every_type_are_read() -> None:
    cells = [1, 2.5, "3", " 4e0 ", np.float32(5), np.int64(6), Decimal("7"), "inf", 10**400, "nan", "NA", None]
    values = read_runs(pd.DataFrame({"loss": pd.Series(cells, dtype=object)})).frame["loss"]
    assert values.tolist()[:9] == [1, 2.5, 3, 4, 5, 6, 7, np.inf, np.inf]
    assert values[9:].isna().all()


def test_arrays_without_an_axis_are_numbers() -> None:
    """As a training program logs a loss that it does not bring into a float first."""
    losses = pd.Series([np.array(3.638385156455692), np.array(3.5, dtype=np.float32), None], dtype=object)
    read = read_runs(pd.DataFrame({"N": [1e8, np.array(2e8), 3e8], "loss": losses, "own": losses})).frame
    for column in ("loss", "own"):
        np.testing.assert_array_equal(read[column], [3.638385156455692, 3.5, np.nan])
    assert read["N"].tolist() == [1e8, 2e8, 3e8]
    with faults(("not-a-number", 1, "loss"), ("not-a-number", 2, "loss")):
        read_runs(pd.DataFrame({"loss": pd.Series([np.array([3.0]), np.array(True)], dtype=object)}))


def test_an_empty_text_is_an_empty_cell_in_memory_as_in_a_file() -> None:
    frame = pd.DataFrame({"N": ["1e8", " ", "2e8"], "loss": [3.0, 2.9, 2.8], "loss_se": ["", "0.1", "0.2"]})
    read = read_runs(frame).frame
    np.testing.assert_array_equal(read["N"], [1e8, np.nan, 2e8])
    np.testing.assert_array_equal(read["loss_se"], [np.nan, 0.1, 0.2])


def test_columns_of_text_stay_text() -> None:
    frame = read_runs(
        pd.DataFrame({"loss": [3.0], "host": ["a1"], "date": [pd.Timestamp("2026-01-01")], "config": [{"lr": 1}]})
    ).frame
    assert frame["host"].item() == "a1"
    assert frame["date"].item() == pd.Timestamp("2026-01-01")
    assert frame["config"].item() == {"lr": 1}


# --- tables that can't be read --------------------------------------------------------------------------------------


def write(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["r", "replay_pct"])
def test_a_percent_sign_is_the_unit_of_a_replay_share_whatever_that_of_its_column_is(name: str) -> None:
    read = read_runs(pd.DataFrame({"N": 1e8, "D": [1e9, 2e9, 3e9], name: ["0%", "10 %", "2.5%"], "loss": [3.1, 3.0, 2.9]}))
    assert read.frame["r"].tolist() == [0, 0.1, 0.025]
    assert read.where(f"{name} > {0.05 if name == 'r' else 5}").frame["r"].tolist() == [0.1]


def test_a_percent_sign_in_a_column_of_other_numbers_is_refused() -> None:
    table = pd.DataFrame({"N": 1e8, "D": [1e9, 2e9], "ptpp": ["20%", "30"], "loss": [3.1, 3.0]})
    (fault,) = read_runs(table, strict=False).unread
    assert (fault.code, fault.row, fault.column) == ("not-a-number", 1, "ptpp")


def test_a_workbook_is_to_be_saved_as_csv(tmp_path: Path) -> None:
    with fails("unknown-ending", "not in .xlsx", "Save the sheet as CSV", "pandas.read_excel"):
        read_runs(write(tmp_path, "runs.xlsx", b"PK"))


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("runs.csv.gz", "Unpack it, or read it by pandas.read_csv"), ("runs.jsonl.zst", "pandas.read_json with lines=True"),
        ("runs.pkl", "pandas.read_pickle"), ("runs.feather", "pandas.read_feather"), ("logs.zip", "Unpack it"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_text_is_to_be_read_by_pandas(tmp_path: Path, name: str, way: str) -> None:
    """The advice was import_runs, which then said that the file is not UTF-8 text."""
    path = write(tmp_path, name, b"\x1f\x8b\x08\x00\xff\x80")
    with fails("unknown-ending", name, way):
        read_runs(path)
    with fails("not-utf-8", name, way):
        import_runs(path)


UNREADABLE: dict[str, tuple[str, str | bytes, str]] = {
    "unknown ending": ("runs.xlsx", "N", "unknown-ending"),
    "no ending": ("runs", "N", "unknown-ending"),
    "empty": ("runs.csv", "", "unreadable-table"),
    "header only": ("runs.csv", "N,D,loss\n", "no-rows"),
    "no objects": ("runs.jsonl", "", "no-rows"),
    "parquet": ("runs.parquet", "PAR1 but no more", "unreadable-table"),
    "not utf-8": ("runs.csv", b"N,loss\n\xff,3\n", "unreadable-table"),
    "not JSON": ("runs.jsonl", '{"N": 1,', "unreadable-table"),
    "JSON numbers": ("runs.jsonl", "1\n2", "unreadable-table"),
    "deep JSON": ("runs.json", "[" * 100_000, "unreadable-table"),
    "a key twice": ("runs.jsonl", '{"N": 1e8, "loss": 3.5, "loss": 35}', "unreadable-table"),
    "5,000 digits": ("runs.jsonl", f'{{"N": 1{"0" * 5000}, "loss": 3.5}}', "unreadable-table"),
    "true as a loss in JSON": ("runs.jsonl", '{"N": 1e8, "loss": true}', "not-a-number"),
    "a list in a cell": ("runs.jsonl", '{"N": [1e9], "loss": 3.5}', "not-a-number"),
    "an object of columns": ("runs.json", '{"N": [1e8, 2e8], "loss": [3.5, 3.4]}', "unreadable-table"),
    "an object of rows": ("runs.json", '{"0": {"N": 1e8, "loss": 3.5}}', "unreadable-table"),
    "one long row": ("runs.csv", "N,D\n1,2\n1,2,3\n", "unreadable-table"),
    "long rows": ("runs.csv", "N,loss\n1,2,\n1,2,\n", "unreadable-table"),
    "two columns of one name": ("runs.csv", "N,loss,loss\n1,2,3\n", "two-columns-of-one-meaning"),
    "two columns of one meaning": ("runs.csv", "N,tokens_b,D\n1,2,3\n", "two-columns-of-one-meaning"),
    "text in a scaled cell": ("runs.csv", "params_b,loss\n1,3\nbig,3\n", "not-a-number"),
    "text in a column of numbers": ("runs.csv", "lr,loss\n1,3\n2,3\nx,3\n", "not-a-number"),
}


def test_parquet_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"N": [1e8], "loss": [3.0]}).to_parquet(tmp_path / "runs.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    with fails("missing-package", "runs.parquet is written as Parquet: pip install 'bayeslaw[parquet]'"):
        read_runs(tmp_path / "runs.parquet")


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_table_is_refused(case: str, tmp_path: Path) -> None:
    name, content, code = UNREADABLE[case]
    with fails(code, name):
        read_runs(write(tmp_path, name, content))


@pytest.mark.parametrize("name", ["runs.csv", "runs.tsv", "runs.jsonl"])
def test_a_text_that_is_not_utf_8_is_told_to_be_saved_so(name: str, tmp_path: Path) -> None:
    separator = "\t" if name == "runs.tsv" else ","
    text = '{"run": "modèle", "loss": 3}' if name == "runs.jsonl" else f"run{separator}loss\nmodèle{separator}3\n"
    with fails("unreadable-table", f"{name} is not UTF-8 text", ": save it as UTF-8."):
        read_runs(write(tmp_path, name, text.encode("latin-1")))


def test_the_message_lists_every_cell_without_a_number(tmp_path: Path) -> None:
    with pytest.raises(TableError) as caught:
        read_runs(write(tmp_path, "runs.csv", "N,loss\n1e6,3\n1e6,3.1x\n1e6,1_0\n"))
    assert str(caught.value) == (
        "runs.csv: loss '3.1x' is not a number: correct the cell or remove the row (row 2, column loss), and 1 like it: row 3\n"
        "  (rows are counted from 1 below the header)"
    )


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with fails("no-such-file", tmp_path / "none.csv"):
        read_runs(tmp_path / "none.csv")


def test_two_columns_of_one_name_in_memory_are_refused() -> None:
    """No option chooses one of them: it has to be renamed."""
    table = pd.DataFrame([[1e8, 3.0, 3.1]], columns=["N", "loss", "loss"])
    for columns in ({}, {"loss": "loss"}):
        with faults(("two-columns-of-one-meaning", None, "loss")) as found:
            read_runs(table, columns=columns)
        assert (found[0].problem, found[0].suggestion) == ("two columns are called 'loss'", "rename one, or leave it out")


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    with fails("no-rows"):
        read_runs(pd.DataFrame({"N": [], "loss": []}))
    empty = Runs(pd.DataFrame({"N": [1e8], "D": [1e9], "loss": [3.0]}).head(0), "runs.csv")
    for purpose in get_args(Purpose):
        assert [str(f) for f in check(empty, "chinchilla", purpose=purpose)] == [
            "runs.csv has no rows: give a row for each loss or setting"
        ]
    (tmp_path / "empty.csv").touch()
    with fails("unreadable-table", "empty.csv is empty"):
        read_runs(tmp_path / "empty.csv")


def test_other_separators_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("run;N;D;loss\na;1e8;1e9;3.1\n", encoding="utf-8")
    with fails("unreadable-table", "runs.csv", "semicolons", "commas"):
        read_runs(tmp_path / "runs.csv")
    (tmp_path / "runs.csv").write_text("run;N;loss\na;1e8;3,1\nb;1,5e8;3,1\n", encoding="utf-8")
    with fails("unreadable-table", "semicolons"):
        read_runs(tmp_path / "runs.csv")
    (tmp_path / "runs.tsv").write_text("run,N,D,loss\na,1e8,1e9,3.1\n", encoding="utf-8")
    with fails("unreadable-table", "runs.tsv", "commas", "tabs"):
        read_runs(tmp_path / "runs.tsv")
    (tmp_path / "tabs.csv").write_text("run\tN\tD\tloss\na\t1e8\t1e9\t3.1\n", encoding="utf-8")
    with fails(
        "unreadable-table", "tabs.csv", "tabs", "`bayeslaw import` (in Python bayeslaw.import_runs) reads a table with losses"
    ):
        read_runs(tmp_path / "tabs.csv")
    assert import_runs(tmp_path / "tabs.csv").runs.frame["D"].tolist() == [1e9]  # without a mapping, as it says
    (tmp_path / "comma.csv").write_text("run;N;D;loss\na;1e8;1e9;3,1\n", encoding="utf-8")
    with fails("unreadable-table", "comma.csv", "in a table of settings write commas, and points in decimals", 'decimal = ","'):
        read_runs(tmp_path / "comma.csv")
    assert import_runs(tmp_path / "comma.csv", map={"decimal": ","}).runs.frame["loss"].tolist() == [3.1]


def test_digest_follows_values_order_and_names() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0], "t": ["x", "y"]})
    digests = {
        data_sha256(frame, ["a", "t"]),
        data_sha256(frame, ["b", "t"]),
        data_sha256(frame.iloc[::-1], ["a", "t"]),
        data_sha256(frame.assign(t=["x", "z"]), ["a", "t"]),
        data_sha256(frame.assign(a=[1.0, 2.0 + 1e-15]), ["a", "t"]),
    }
    assert len(digests) == 5
    assert data_sha256(frame.astype({"a": int}), ["a"]) == data_sha256(frame, ["a"])
