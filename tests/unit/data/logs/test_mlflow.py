"""Stores of MLflow: folders of files, and databases."""

from __future__ import annotations

import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from bayeslaw.data.logs.api import import_runs
from bayeslaw.data.logs.growing import GrowingLog
from tests.errors import fails, faults
from tests.logs import cells, noted
from tests.stores import Store, filed, in_a_database, in_files

STORES = pytest.mark.parametrize("store", [in_files, in_a_database])
PARAMS = {"n_params": "40000000", "tokens_per_step": "64", "learning_rate": "0.5", "tokens": "1e9", "optimizer": "adamw"}


@STORES
def test_runs_of_a_store_have_their_parameters(tmp_path: Path, store: Store) -> None:
    metrics = {"loss": [(3.0, 100)], "eval/loss": [(3.5, 100), (3.25, 200)], "learning_rate": [(0.5, 100), (0.25, 200)]}
    path = store(tmp_path, [("ladder", "big", "active", metrics, PARAMS), ("ladder", "old", "deleted", metrics, PARAMS)])
    imported = import_runs(path)
    assert cells(imported, "run", "step", "loss", "lr", "N", "D") == [
        ["big", 100, 3.5, 0.5, 4e7, 6400], ["big", 200, 3.25, 0.25, 4e7, 12800],
    ]  # fmt: skip
    assert noted(imported, "1 run deleted or without metrics left out")
    assert noted(imported, "2 settings of the run not used", "params.tokens", "params.optimizer")
    assert cells(import_runs(path, columns={"ptpp": "params.tokens_per_step"}, tokens_per_step=8), "ptpp", "D")[0] == [64, 800]


def test_the_memory_for_a_run_grows_with_its_entries(tmp_path: Path) -> None:
    path = in_files(tmp_path, [("ladder", "long", "active", {"val_loss": [(3.5, step) for step in range(2000)]}, {})])
    tracemalloc.start()
    try:
        imported = import_runs(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(imported.runs) == 2000
    assert peak < 3e7  # bytes; a row for each pair of a time and a step takes several times as much


@STORES
def test_a_single_loss_with_planned_tokens(tmp_path: Path, store: Store) -> None:
    path = store(tmp_path, [("ladder", "big", "active", {"val_loss": [(3.5, 0)]}, {"N": "4e7", "tokens": "1e9", "r": "0.25"})])
    assert cells(import_runs(path), "loss", "N", "D", "r") == [[3.5, 4e7, 1e9, 0.25]]


@STORES
def test_runs_of_one_name_and_of_several_experiments_stay_apart(tmp_path: Path, store: Store) -> None:
    runs = [("a", "big", 3.5), ("a", "big", 3.25), ("a", "small", 4.0), ("b", "big", 3.0)]
    path = store(tmp_path, [(e, name, "active", {"val_loss": [(loss, 9)]}, {}) for e, name, loss in runs])
    assert sorted(cells(import_runs(path), "run", "loss")) == [
        ["a/big (00000000)", 3.5], ["a/big (10000000)", 3.25], ["a/small", 4.0], ["b/big", 3.0],
    ]  # fmt: skip


@STORES
def test_losses_that_are_not_finite_and_of_training(tmp_path: Path, store: Store) -> None:
    metrics = {"eval_loss": [(3.5, 1), (float("nan"), 2), (float("inf"), 3)]}
    path = store(tmp_path, [("a", "big", "active", metrics, {})])
    with faults(("diverged", 2, "loss"), ("diverged", 3, "loss")):
        import_runs(path)
    assert cells(import_runs(path, nan="drop"), "step", "loss") == [[1, 3.5]]


@STORES
def test_a_loss_without_a_split_is_one_of_training(tmp_path: Path, store: Store) -> None:
    path = store(tmp_path, [("a", "big", "active", {"loss": [(3.5, 1)], "eval/web/loss": [(3.25, 1)]}, {})])
    assert cells(import_runs(path), "domain", "loss") == [["web", 3.25]]
    assert cells(import_runs(path, losses="loss"), "loss") == [[3.5]]
    path = store(tmp_path / "training", [("a", "big", "active", {"loss": [(3.5, 1)]}, {})])
    with fails("no-loss", "--loss loss"):
        import_runs(path)


def test_parts_of_a_store_and_what_is_none(tmp_path: Path) -> None:
    path = in_files(
        tmp_path, [("a", "'7'", "active", {"val_loss": [(3.5, 9)]}, {}), ("b", "big", "active", {"val_loss": [(3.0, 9)]}, {})]
    )
    assert cells(import_runs(path / "b"), "run") == [["big"]]
    assert cells(import_runs(path / "a" / "0".ljust(32, "0"), kind="mlflow"), "run", "loss") == [["7", 3.5]]
    filed(path / "b" / "1".ljust(32, "0") / "metrics" / "val_loss", "1 three 9\n")
    with fails("unreadable-line", "line 1", "'1 three 9'"):
        import_runs(path)
    with closing(sqlite3.connect(tmp_path / "other.db")) as store:
        store.execute("CREATE TABLE trials (number INTEGER)")
        store.commit()
    with fails("no-store", "other.db", "no such table"):
        import_runs(tmp_path / "other.db")
    with fails("no-rows", "without a run that logs metrics"):
        import_runs(in_files(tmp_path / "empty", [("a", "big", "deleted", {"val_loss": [(3.0, 9)]}, {})]))
    with fails("no-logs", "no runs of MLflow"):
        import_runs(tmp_path, kind="mlflow")


@pytest.mark.parametrize("sign", ["three", None])
def test_a_database_with_cells_that_are_no_numbers_is_refused(tmp_path: Path, sign: str | None) -> None:
    path = in_a_database(tmp_path, [("a", "big", "active", {"val_loss": [(3.5, 9)]}, {})])
    with closing(sqlite3.connect(path)) as store:
        store.execute("UPDATE metrics SET value = ?", (sign,))
        store.commit()
    with fails("no-store", "mlflow.db"):
        import_runs(path)
    path.write_bytes(path.read_bytes()[:5000])
    with fails("no-store", "mlflow.db"):
        import_runs(path)


def test_a_store_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = in_files(tmp_path, [("a", "big", "active", {"val_loss": [(3.5, 9)]}, {"N": "1e7"})])
    (path / "a" / "0".ljust(32, "0") / "params" / "N").write_bytes(b"\xff\xfe1")
    with fails("unreadable-store", "utf-8"):
        import_runs(path)


def test_the_binary_file_of_weights_and_biases_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "run-1.wandb").write_bytes(b":W&B\xbe\xef")
    with fails("not-an-export", "export its history"):
        import_runs(tmp_path / "run-1.wandb")


def test_a_store_that_grows(tmp_path: Path) -> None:
    path = in_files(tmp_path, [("a", "big", "active", {"val_loss": [(3.5, 9)]}, {})])
    growing = GrowingLog(path)
    read = growing.read()
    assert read is not None
    assert cells(read, "step", "loss") == [[9, 3.5]]
    file = path / "a" / "0".ljust(32, "0") / "metrics" / "val_loss"
    for more, losses in (("1700000000009 3.25", [[9, 3.5]]), (" 18\n", [[9, 3.5], [18, 3.25]])):  # a line that is being written
        file.write_text(file.read_text() + more)
        read = growing.read()
        assert read is not None
        assert cells(read, "step", "loss") == losses
    path = in_a_database(tmp_path, [("a", "big", "active", {"val_loss": [(3.5, 9)]}, {})])
    growing = GrowingLog(path)
    read = growing.read()
    assert read is not None
    assert cells(read, "step", "loss") == [[9, 3.5]]
