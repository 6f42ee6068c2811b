"""Stores of MLflow: a folder `mlruns` with a folder for each run, or a database of SQLite. A run has metrics and parameters."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted
from bayeslaw.data.files import numbered
from bayeslaw.data.logs.log import Log, with_settings

_MAGIC = b"SQLite format 3\0"
_LARGEST = 1.7976931348623157e308  # an infinite value in the database
_RUNS = """
    SELECT r.run_uuid, coalesce(nullif(r.name, ''), t.value, ''), e.name, r.lifecycle_stage
    FROM runs r JOIN experiments e ON e.experiment_id = r.experiment_id
    LEFT JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'mlflow.runName'
    ORDER BY r.start_time
"""


@dataclass(frozen=True)
class _Run:
    """A run as it is stored: its metrics are rows of name, value, milliseconds and step."""

    id: str
    name: str
    experiment: str
    deleted: bool
    metrics: list[tuple[str, float, int, int]]
    params: dict[str, object]


def is_store(path: Path) -> bool:
    """Whether a path is a folder with runs, or one run, of MLflow, or a database of SQLite."""
    try:
        if path.is_dir():
            return next(_folders(path), None) is not None
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:  # which is said where the file is read
        return False


def read_store(path: Path, columns: Collection[str]) -> list[Log]:
    """Read all runs of a store that log something and aren't deleted.

    Parameters
    ----------
    path : Path
    columns : collection of str
        Columns whose meaning the user gives; those of parameters are called `params.NAME`.
    """
    try:
        stored = [_run(folder) for folder in _folders(path)] if path.is_dir() else _database(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BayeslawError(f"{path} can't be read as a store of MLflow: {error}.", code="unreadable-store") from None
    runs = [run for run in stored if run.metrics and not run.deleted]
    if not runs:
        raise BayeslawError(f"{path} is a store of MLflow without a run that logs metrics.", code="no-rows")
    several = len({run.experiment for run in runs}) > 1
    names = [f"{run.experiment}/{run.name}" if several else run.name for run in runs]
    counts = Counter(names)
    left, logs = len(stored) - len(runs), list[Log]()
    notes = (f"{path.name}: {counted(left, 'run')} deleted or without metrics left out",) if left else ()
    for run, name in zip(runs, names, strict=True):
        unique = name if counts[name] == 1 else f"{name} ({run.id[:8]})"
        log = Log(unique, "mlflow", _frame(run), unique, "step", bare_loss=False, notes=notes)
        logs.append(with_settings(log, {f"params.{key}": value for key, value in run.params.items()}, columns))
    return logs


def _frame(run: _Run) -> pd.DataFrame:
    """Return a row for all metrics that were logged at one time for one step, in the order of times."""
    long = pd.DataFrame(run.metrics, columns=["name", "value", "time", "step"]).sort_values(["time", "step"], kind="stable")
    long["again"] = long.groupby(["time", "step", "name"]).cumcount()
    wide = long.pivot_table("value", ["time", "step", "again"], "name", aggfunc="last")
    wide = wide.reset_index(["time", "again"], drop=True).reset_index().astype(np.float64)
    wide.columns.name = None
    return numbered(wide)


def _folders(path: Path) -> Iterator[Path]:
    """Yield the folders of runs in a folder that is one, has the runs of an experiment, or those of several."""
    for depth in ("", "*/", "*/*/"):
        for meta in sorted(path.glob(f"{depth}meta.yaml")):
            if (meta.parent / "metrics").is_dir() and ".trash" not in meta.parts:
                yield meta.parent


def _run(folder: Path) -> _Run:
    meta = (folder / "meta.yaml").read_text(encoding="utf-8")
    of_experiment = folder.parent / "meta.yaml"
    experiment = _entry(of_experiment.read_text(encoding="utf-8"), "name") if of_experiment.is_file() else ""
    tag = folder / "tags" / "mlflow.runName"
    name = _entry(meta, "run_name") or (tag.read_text(encoding="utf-8").strip() if tag.is_file() else "")
    metrics = [row for metric, file in _files(folder / "metrics") for row in _logged(file, metric)]
    params: dict[str, object] = {param: file.read_text(encoding="utf-8").strip() for param, file in _files(folder / "params")}
    return _Run(folder.name, name or folder.name, experiment, _entry(meta, "lifecycle_stage") == "deleted", metrics, params)


def _files(folder: Path) -> list[tuple[str, Path]]:
    """Return the names of metrics or parameters, which may contain slashes, with their files."""
    return [(p.relative_to(folder).as_posix(), p) for p in sorted(folder.rglob("*")) if p.is_file()]


def _logged(file: Path, metric: str) -> Iterator[tuple[str, float, int, int]]:
    """Yield the values of a metric from its file, whose lines are milliseconds, value and step; older ones lack the step.

    A last line without an end is being written.
    """
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1], 1):
        try:
            time, value, *rest = line.split()
            yield metric, _value(float(value)), int(time), int(rest[0]) if rest else 0
        except ValueError:
            message = f"{file}: line {number} is {line[:40]!r}; it must be a time in milliseconds, a value and a step."
            raise BayeslawError(message, code="unreadable-line") from None


def _entry(meta: str, key: str) -> str:
    """Return a text from the lines of a meta.yaml, which are simple pairs."""
    match = re.search(rf"^{key}: *(.*?) *$", meta, re.MULTILINE)
    return match[1].strip("'\"") if match else ""


def _value(value: float) -> float:
    """Return a value as entries hold it: infinite where it isn't finite."""
    return value if abs(value) < _LARGEST else np.inf


def _database(path: Path) -> list[_Run]:
    metrics, params = dict[str, list[tuple[str, float, int, int]]](), dict[str, dict[str, object]]()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            runs = store.execute(_RUNS).fetchall()
            for run, key, value, nan, *at in store.execute("SELECT run_uuid, key, value, is_nan, timestamp, step FROM metrics"):
                time, step = map(int, at)
                metrics.setdefault(run, []).append((str(key), np.inf if nan else _value(float(value)), time, step))
            for run, key, value in store.execute("SELECT run_uuid, key, value FROM params"):
                params.setdefault(run, {})[key] = value
    except (sqlite3.Error, TypeError, ValueError) as error:
        message = f"{path.name} is a database of SQLite, and can't be read as one of MLflow: {error}."
        raise BayeslawError(message, code="no-store") from None
    return [
        _Run(run, name or run, experiment, stage == "deleted", metrics.get(run, []), params.get(run, {}))
        for run, name, experiment, stage in runs
    ]
