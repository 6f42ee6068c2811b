"""Tables of runs: names and units on the way in, files of every kind, and one fault a test."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError, Fault, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import ALIASES, Runs, data_sha256, read_runs
from bayeslaw.data.validate import check, complete
from bayeslaw.laws.card import card_folder, load_law
from bayeslaw.laws.law import Law
from tests import oracles

HEAD = "(rows are counted from 1 below the header):"


@pytest.fixture
def gate() -> Law:
    return load_law("ptpp-gate")


@pytest.fixture
def table(gate: Law) -> pd.DataFrame:
    return oracles.table(gate)


def test_aliases_and_units() -> None:
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


@pytest.mark.parametrize(("ours", "alias"), [(ours, alias) for ours, aliases in ALIASES.items() for alias in (ours, *aliases)])
def test_every_alias(ours: str, alias: str) -> None:
    frame = read_runs(pd.DataFrame({alias: [2.0], "other": [1.0]})).frame
    assert list(frame) == [ours, "other"]
    if ours not in ("run", "domain"):
        assert frame[ours].item() == 2.0 * ALIASES[ours].get(alias, 1)


def test_tokens_from_tokens_per_parameter() -> None:
    runs = read_runs(pd.DataFrame({"N": [1e6, 2e6], "atpp": [10, 20], "loss": [3, 2.5]}))
    assert runs.frame["D"].tolist() == [1e7, 4e7]
    assert runs.conversions == ("D = atpp x N",)
    assert read_runs(pd.DataFrame({"N": [1e6], "atpp": [10], "D": [5]})).frame["D"].tolist() == [5.0]


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


def test_a_table_in_memory_is_left_alone(table: pd.DataFrame) -> None:
    before = table.copy()
    runs = read_runs(table, "ptpp == 15")
    assert len(runs) == 10
    pd.testing.assert_frame_equal(table, before)


def test_a_named_index_becomes_a_column() -> None:
    frame = pd.DataFrame({"run": ["a", "b"], "loss": [3.0, 2.5]}).set_index("run")
    assert read_runs(frame).frame["run"].tolist() == ["a", "b"]
    again = read_runs(read_runs(frame).frame)
    assert list(again.frame) == ["run", "loss"]


def test_numbers_of_every_kind() -> None:
    cells = [1, 2.5, "3", " 4e0 ", np.float32(5), np.int64(6), Decimal("7"), "inf", 10**400, "nan", "NA", None]
    values = read_runs(pd.DataFrame({"loss": pd.Series(cells, dtype=object)})).frame["loss"]
    assert values.tolist()[:9] == [1, 2.5, 3, 4, 5, 6, 7, np.inf, np.inf]
    assert values[9:].isna().all()


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


UNREADABLE: dict[str, tuple[str, str | bytes, str]] = {
    "unknown ending": (
        "runs.xlsx", "N", "runs.xlsx: a table of runs ends in .csv, .tsv, .parquet, .jsonl, .json; .xlsx is not one.",
    ),
    "no ending": ("runs", "N", "runs: a table of runs ends in .csv, .tsv, .parquet, .jsonl, .json; no ending is not one."),
    "empty": ("runs.csv", "", "runs.csv can't be read as a .csv table: No columns to parse from file."),
    "header only": ("runs.csv", "N,D,loss\n", "runs.csv has no rows."),
    "no objects": ("runs.jsonl", "", "runs.jsonl has no rows."),
    "parquet": ("runs.parquet", "PAR1 but no more", "runs.parquet can't be read as a .parquet table: "),
    "not utf-8": ("runs.csv", b"N,loss\n\xff,3\n", "runs.csv can't be read as a .csv table: 'utf-8' codec can't decode byte 0xff"),
    "not JSON": ("runs.jsonl", '{"N": 1,', "runs.jsonl can't be read as a .jsonl table: Expecting property name"),
    "JSON numbers": (
        "runs.jsonl",
        "1\n2",
        'runs.jsonl can\'t be read as a .jsonl table: each line must be an object such as {"N": 1e9, "loss": 2.5}.',
    ),
    "deep JSON": ("runs.json", "[" * 100_000, "runs.json can't be read as a .json table: "),
    "one long row": ("runs.csv", "N,D\n1,2\n1,2,3\n", "runs.csv can't be read as a .csv table: Error tokenizing data."),
    "long rows": (
        "runs.csv",
        "N,loss\n1,2,\n1,2,\n",
        "runs.csv can't be read as a .csv table: its rows have more cells than its header has names (commas inside numbers?).",
    ),
    "two columns of one name": (
        "runs.csv",
        "N,loss,loss\n1,2,3\n",
        f"runs.csv has 1 fault {HEAD}\n  columns 'loss' and 'loss.1' both mean loss: keep one (column loss.1)",
    ),
    "two columns of one meaning": (
        "runs.csv",
        "N,tokens_b,D\n1,2,3\n",
        f"runs.csv has 1 fault {HEAD}\n  columns 'tokens_b' and 'D' both mean D: keep one (column D)",
    ),
    "text in a number cell": (
        "runs.csv",
        "N,loss\n1e6,3\n1e6,3.1x\n1e6,1_0\n",
        f"runs.csv has 2 faults {HEAD}\n  loss '3.1x' is not a number: remove the row or mend the cell (row 2, column loss)\n"
        "  loss '1_0' is not a number: remove the row or mend the cell (row 3, column loss)",
    ),
    "text in a scaled cell": (
        "runs.csv",
        "params_b,loss\n1,3\nbig,3\n",
        f"runs.csv has 1 fault {HEAD}\n  N 'big' is not a number: remove the row or mend the cell (row 2, column N)",
    ),
    "text in a column of numbers": (
        "runs.csv",
        "lr,loss\n1,3\n2,3\nx,3\n",
        f"runs.csv has 1 fault {HEAD}\n  lr 'x' is not a number: remove the row or mend the cell (row 3, column lr)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_tables_that_cant_be_read(case: str, tmp_path: Path) -> None:
    name, content, text = UNREADABLE[case]
    with pytest.raises(BayeslawError) as caught:
        read_runs(write(tmp_path, name, content))
    assert str(caught.value).startswith(text)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BayeslawError) as caught:
        read_runs(tmp_path / "none.csv")
    assert str(caught.value) == f"There is no file {tmp_path / 'none.csv'}."


def test_two_columns_of_one_name_in_memory() -> None:
    with pytest.raises(TableError, match="columns 'params_b' and 'params_b' both mean N: keep one"):
        read_runs(pd.DataFrame([[1.0, 2.0]], columns=["params_b", "params_b"]))


def test_an_empty_table() -> None:
    with pytest.raises(BayeslawError, match=r"the table has no rows\."):
        read_runs(pd.DataFrame({"N": [], "loss": []}))


# --- tables that a law can't use ------------------------------------------------------------------------------------


def faults(table: pd.DataFrame, law: Law, **options: bool) -> list[str]:
    return [str(fault) for fault in check(read_runs(table), law, **options)]


def put(table: pd.DataFrame, row: int, column: str, value: float) -> pd.DataFrame:
    """The table with one cell changed; rows are counted from 1."""
    changed = table.copy()
    changed.loc[row - 1, column] = value
    return changed


def test_a_sound_table_has_no_fault(law: Law) -> None:
    assert faults(oracles.table(law), law) == []


CELLS = {
    "loss 0": ("loss", 0.0, "loss 0 is not positive: losses are in nats/token (row 4, column loss)"),
    "loss below 0": ("loss", -2.0, "loss -2 is not positive: losses are in nats/token (row 4, column loss)"),
    "loss nan": ("loss", np.nan, "loss is missing or not a number: remove the row (row 4, column loss)"),
    "loss inf": ("loss", np.inf, "loss inf is infinite: the run diverged: remove the row (row 4, column loss)"),
    "perplexity": ("loss", 34.5, "loss 34.5 is above 15 nats/token: is it a perplexity? Take its logarithm (row 4, column loss)"),
    "N in billions": (
        "N", 1.3, "N 1.3 is outside [10000, 1e+13]: is it in billions? Give the number of parameters (row 4, column N)",
    ),
    "N too large": ("N", 1e15, "N 1e+15 is outside [10000, 1e+13]: give the number of parameters (row 4, column N)"),
    "N 0": ("N", 0.0, "N 0 is outside [10000, 1e+13]: N must be positive (row 4, column N)"),
    "N nan": ("N", np.nan, "N is missing: fill it in or remove the row (row 4, column N)"),
    "N inf": ("N", np.inf, "N inf is outside [10000, 1e+13]: give the number of parameters (row 4, column N)"),
    "D in billions": ("D", 2.5, "D 2.5 is outside [100, 1e+15]: is it in billions? Give the number of tokens (row 4, column D)"),
    "D below 0": ("D", -1.0, "D -1 is outside [100, 1e+15]: D must be positive (row 4, column D)"),
    "percent": ("r", 34.0, "r 34 is outside [0, 1]: is it a percentage? Divide by 100 (row 4, column r)"),
    "r below 0": ("r", -0.1, "r -0.1 is outside [0, 1]: a share lies between 0 and 1 (row 4, column r)"),
    "ptpp": (
        "ptpp", 0.01, "ptpp 0.01 is outside [0.1, 100000]: unit: pre-training tokens per parameter (row 4, column ptpp)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CELLS)
def test_impossible_cells(case: str, table: pd.DataFrame, gate: Law) -> None:
    column, value, text = CELLS[case]
    assert faults(put(table, 4, column, value), gate) == [text]
    with pytest.raises(TableError) as caught:
        Observations.of(gate, read_runs(put(table, 4, column, value)))
    assert str(caught.value) == f"the table has 1 fault {HEAD}\n  {text}"
    assert [f.row for f in caught.value.faults] == [4]


def test_a_missing_column(table: pd.DataFrame, gate: Law) -> None:
    assert faults(table.rename(columns={"ptpp": "pttp"}), gate) == [
        "column ptpp is missing: ptpp-gate needs loss, N, D, r, ptpp; there are N, D, r, pttp, run, loss. Did you mean 'pttp'?"
        " (column ptpp)"
    ]


def test_settings_to_forecast_need_no_loss(table: pd.DataFrame, gate: Law) -> None:
    settings = table[["N", "D", "r", "ptpp"]].head(2)
    assert faults(settings, gate, to_fit=False) == []
    assert faults(put(settings, 1, "r", 2.0), gate, to_fit=False) == [
        "r 2 is outside [0, 1]: is it a percentage? Divide by 100 (row 1, column r)"
    ]


def test_one_pretraining_stage_for_a_law_of_several(table: pd.DataFrame, gate: Law) -> None:
    assert faults(table.assign(ptpp=31.0), gate) == [
        "ptpp has 1 value(s) (31) and ptpp-gate needs at least 2 different ones: log runs at another, or fit a law without it"
        " (column ptpp)"
    ]


def test_a_column_without_numbers(table: pd.DataFrame, gate: Law) -> None:
    runs = Runs(read_runs(table).frame.assign(r="a lot"))
    assert [str(f) for f in check(runs, gate)] == ["column r holds no numbers: ptpp-gate needs them there (column r)"]


def test_faults_of_the_table_come_before_those_of_rows(table: pd.DataFrame, gate: Law) -> None:
    broken = put(put(table.drop(columns="D"), 3, "loss", -1.0), 2, "N", np.nan)
    rows = [f.row for f in check(read_runs(broken), gate)]
    assert rows == [None, 2, 3]


def test_rows_are_those_of_the_file_after_a_filter(table: pd.DataFrame, gate: Law, tmp_path: Path) -> None:
    put(table, 7, "loss", np.nan).to_csv(tmp_path / "runs.csv", index=False)
    (fault,) = check(read_runs(tmp_path / "runs.csv", "ptpp >= 31"), gate)
    assert fault == Fault(7, "loss", "nan", "loss is missing or not a number", "remove the row")


def test_many_faults_are_counted_and_not_all_shown(gate: Law) -> None:
    table = oracles.table(gate).assign(loss=-1.0)
    with pytest.raises(TableError) as caught:
        Observations.of(gate, read_runs(table))
    lines = str(caught.value).splitlines()
    assert lines[0] == f"the table has 30 faults {HEAD}"
    assert len(lines) == 22
    assert lines[-1] == "  … and 10 more; `bayeslaw check` lists them all"


def test_only_base_checkpoints(table: pd.DataFrame, gate: Law) -> None:
    assert faults(table.assign(D=0.0), gate) == [
        "every row is a base checkpoint (D = 0): add rows logged during adaptation (column D)"
    ]


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


def test_check_lists_cells_without_numbers_with_all_other_faults(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("N,D,loss\n1e8,1e9,oops\n0.1,1e9,2.9\n1e8,1e9,40\n")
    found = [str(f) for f in check(read_runs(path, strict=False), load_law("chinchilla"))]
    assert len(found) == 3
    assert found[0].startswith("loss 'oops' is not a number: ")
    assert found[1].startswith("N 0.1 is outside [10000, 1e+13]: is it in billions?")
    assert found[2].startswith("loss 40 is above 15 nats/token: is it a perplexity?")


@pytest.mark.parametrize("name", ["transfer-source", "transfer-target"])
def test_an_empty_r_at_a_base_checkpoint_is_no_fault(name: str) -> None:
    """Nothing is replayed at D = 0; the law does not look at r there, and the cell gets the other rows' median."""
    law = load_law(name)
    table = oracles.table(law)
    base = table.iloc[[0]].assign(D=0.0, r=np.nan, run="base")
    runs = oracles.runs(pd.concat([table, base], ignore_index=True))
    assert check(runs, law) == []
    assert complete(runs.frame, law)["r"].iloc[-1] == table["r"].median()
    assert runs.frame["r"].isna().iloc[-1]  # the table itself keeps its empty cell
    elsewhere = runs.frame.assign(D=runs.frame["D"].where(runs.frame["D"] > 0, 1e9))
    assert [f.column for f in check(oracles.runs(elsewhere), law)] == ["r"]


def test_a_law_that_looks_at_r_at_d_0_wants_it_filled_in(tmp_path: Path) -> None:
    text = (card_folder() / "transfer-source.toml").read_text().replace("minimum(D, 1)", "minimum(D + r, 1)")
    card = tmp_path / "nosy.toml"
    card.write_text(text.replace('name   = "transfer-source"', 'name   = "nosy"'))
    law = load_law(card)
    assert law.idle_at_base == frozenset()
    assert load_law("transfer-source").idle_at_base == {"r"}
    assert load_law("d-cpt").idle_at_base == frozenset()
    table = oracles.table(load_law("transfer-source"))
    base = table.iloc[[0]].assign(D=0.0, r=np.nan, run="base")
    faults = check(oracles.runs(pd.concat([table, base], ignore_index=True)), law)
    assert [f.problem for f in faults] == ["r is missing"]


def test_losses_of_two_domains_are_not_fitted_as_one(gate: Law, table: pd.DataFrame) -> None:
    both = pd.concat([table.assign(domain="source"), table.assign(domain="target")])
    assert check(oracles.runs(both), gate) == []
    with pytest.raises(BayeslawError, match=r"2 domains \(source, target\) and ptpp-gate describes one; choose with --where"):
        oracles.observed(gate, both)
    assert oracles.observed(gate, both[both["domain"] == "source"]).runs > 0
