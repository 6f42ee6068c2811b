"""Writers of MLflow's stores, as folders of files and as databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import numpy as np

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
