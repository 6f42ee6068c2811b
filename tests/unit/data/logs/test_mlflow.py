"""Stores of MLflow: folders of files, and databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from bayeslaw.data.logs.api import import_runs
from tests.errors import fails, faults
from tests.logs import cells, noted

Stored = tuple[str, str, str, dict[str, list[tuple[float, int]]], dict[str, str]]  # experiment, name, stage, metrics, parameters
Store = Callable[[Path, Iterable[Stored]], Path]


def filed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def in_files(folder: Path, runs: Iterable[Stored]) -> Path:
    """Write runs as `mlflow` does to a folder mlruns: a value's line is milliseconds, value and step."""
    for at, (experiment, name, stage, metrics, params) in enumerate(runs):
        filed(folder / "mlruns" / experiment / "meta.yaml", f"experiment_id: '7'\nname: {experiment}\n")
        run = folder / "mlruns" / experiment / f"{at:x}".ljust(32, "0")
        filed(run / "meta.yaml", f"lifecycle_stage: {stage}\nrun_name: {name}\nstatus: 3\n")
        for metric, values in metrics.items():
            lines = [f"{1_700_000_000_000 + i} {value} {step}\n" for i, (value, step) in enumerate(values)]
            filed(run / "metrics" / metric, "".join(lines))
        for param, text in params.items():
            filed(run / "params" / param, text)
    filed(folder / "mlruns" / ".trash" / "old" / "metrics" / "eval_loss", "1 2.0 3\n")
    filed(folder / "mlruns" / ".trash" / "old" / "meta.yaml", "run_name: old\n")
    return folder / "mlruns"


def in_a_database(folder: Path, runs: Iterable[Stored]) -> Path:
    """Write runs into the tables of MLflow that hold them: NaN is marked, infinity is the largest number."""
    folder.mkdir(exist_ok=True)
    path = folder / "mlflow.db"
    with closing(sqlite3.connect(path)) as store:
        store.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER, name TEXT);"
            "CREATE TABLE runs (run_uuid TEXT, name TEXT, experiment_id INTEGER, lifecycle_stage TEXT, start_time BIGINT);"
            "CREATE TABLE metrics (run_uuid TEXT, key TEXT, value FLOAT, timestamp BIGINT, step BIGINT, is_nan BOOLEAN);"
            "CREATE TABLE params (run_uuid TEXT, key TEXT, value TEXT); CREATE TABLE tags (run_uuid TEXT, key TEXT, value TEXT);"
        )
        known = dict[str, int]()
        for at, (experiment, name, stage, metrics, params) in enumerate(runs):
            run, number = f"{at:x}".ljust(32, "0"), known.setdefault(experiment, len(known))
            store.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", (run, "" if at % 2 else name, number, stage, at))
            store.execute("INSERT INTO tags VALUES (?, 'mlflow.runName', ?)", (run, name))
            for metric, values in metrics.items():
                for i, (value, step) in enumerate(values):
                    held = 0.0 if np.isnan(value) else min(value, 1.7976931348623157e308)
                    store.execute(
                        "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", (run, metric, held, i, step, bool(np.isnan(value)))
                    )
            for param, text in params.items():
                store.execute("INSERT INTO params VALUES (?, ?, ?)", (run, param, text))
        store.executemany("INSERT INTO experiments VALUES (?, ?)", [(number, name) for name, number in known.items()])
        store.commit()
    return path


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
