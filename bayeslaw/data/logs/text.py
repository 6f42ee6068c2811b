"""Text tables of logs: exports of Weights & Biases, one column for each run, or any table with names that can be told."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.data.logs.columns import (
    LOGGER_STEPS,
    SPREADS,
    TIMES,
    covariate_of,
    domain_of,
    is_metric,
    is_other_loss,
    key,
    step_column,
)
from bayeslaw.data.logs.log import Log, counted

DELIMITERS = (",", "\t", ";")
HISTORY = {"_runtime", "_timestamp"}  # beside _step: columns of an export of one run's history
RUNS_TABLE = {"name", "state"}  # columns of an export of the table of runs


def read_text(
    path: Path, kind: str | None, delimiter: str | None = None, told: Collection[str] = (), called: str | None = None
) -> Log:
    """Read a text table as the kind given, or as what its header shows it to be; `called` is its name, where not the file's.

    Where it is told what columns mean, it is a table; a chart is one only if a column of a run is among them.

    Raises
    ------
    BayeslawError
        If it can't be read or may be of several kinds.
    """
    called = called or path.name
    frame, remarks = table(path, called, delimiter)
    as_table = told and not (is_chart([str(c) for c in frame]) and not any(_of_run(c) for c in told))
    found = kind or ("table" if as_table else recognised(frame, called))
    match found:
        case "wandb":
            made = _wandb(frame, called, path.stem)
        case "wide":
            made = _wide(frame, called)
        case _:
            made = Log(called, "table", frame, path.stem)
    return Log(made.name, made.kind, made.frame, made.run, made.step, made.losses, made.bare_loss, (*remarks, *made.remarks))


def table(path: Path, called: str, delimiter: str | None = None) -> tuple[pd.DataFrame, list[str]]:
    """The cells of a text table, None where one is empty, and what was put right on the way.

    Raises
    ------
    TableError, BayeslawError
        If it is no text, rows have more or fewer cells than the header, or two columns of one name differ.
    """
    text = decoded(path, called)
    head = text.splitlines()[0] if text.strip() else ""
    if not head.strip():
        raise BayeslawError(f"{called} has no header in its first line, or is empty.")
    mark = delimiter or max(DELIMITERS, key=head.count)
    try:
        lines = [line for line in csv.reader(io.StringIO(text), delimiter=mark, skipinitialspace=True, strict=True) if any(line)]
    except csv.Error as error:
        raise BayeslawError(f"{called} can't be read as a table: {error}.") from None
    header = [cell.strip() for cell in lines[0]]
    rows = [line[: len(header)] if not any(line[len(header) :]) else line for line in lines[1:]]
    suggestion = "is the file cut off, or does a comma stand inside a number that isn't quoted?"
    faults = [
        Fault(
            i,
            header[0],
            "",
            f"the row has {len(row)} cells and the header {len(header)} ({shortened(mark.join(row), 30)})",
            suggestion,
        )
        for i, row in enumerate(rows, 1)
        if len(row) != len(header)
    ]
    if faults:
        raise TableError(faults, called)
    if not rows:
        raise BayeslawError(f"{called} has a header and no rows.")
    cells = np.array(rows, dtype=object).reshape(len(rows), len(header))
    cells[cells == ""] = None
    keep, remarks = _once(header, cells, called)
    frame = pd.DataFrame(cells[:, keep], columns=[header[i] for i in keep], dtype=object)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    return frame, remarks


def decoded(path: Path, called: str) -> str:
    """A file's text, whatever mark of byte order it begins with."""
    raw = path.read_bytes()
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise BayeslawError(f"{called} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8.") from None
    if "\0" in text:
        raise BayeslawError(f"{called} holds NUL bytes and is no text: save it as UTF-8.")
    return text


def _once(header: list[str], cells: np.ndarray, name: str) -> tuple[list[int], list[str]]:
    """Columns to keep: two of one name are one if all their cells are equal; a column without a name is left out."""
    keep, remarks, first = list[int](), list[str](), dict[str, int]()
    for i, column in enumerate(header):
        if not column:
            remarks.append(f"{name}: column {i + 1}, without a name, is left out")
        elif (other := first.setdefault(column, i)) == i:
            keep.append(i)
        elif (cells[:, i] == cells[:, other]).all():
            remarks.append(f"{name}: column {column!r} is there twice with the same cells and is read once")
        else:
            row = int(np.flatnonzero(cells[:, i] != cells[:, other])[0])
            raise BayeslawError(
                f"{name} has two columns {column!r} that differ, first in row {row + 1} ({cells[row, other]} and {cells[row, i]}): "
                "are two runs of one name in it? Give each a name of its own."
            )
    return keep, remarks


def recognised(frame: pd.DataFrame, name: str) -> str:
    """Which kind of text table this is, by its columns.

    Raises
    ------
    BayeslawError
        If they may be runs or domains, or nothing tells.
    """
    columns, keys = [str(c) for c in frame], {key(str(c)) for c in frame}
    rest = [c for c in columns if c != step_column(columns) and not TIMES.match(key(c))]
    if (rest and all(_of_run(c) for c in rest)) or is_chart(columns):
        return "wandb"
    if (keys & set(LOGGER_STEPS) and keys & HISTORY) or keys >= RUNS_TABLE:
        return "wandb"
    losses = [c for c in columns if domain_of(c) is not None or key(c) == "loss"]
    if losses or any((covariate_of(c) or ("",))[0] == "run" for c in columns):
        return "table"
    unknown = [c for c in rest if not is_metric(c)]
    if step_column(columns) is None or not unknown or any(is_other_loss(c) for c in rest):
        raise BayeslawError(
            f"{name}: no column is a validation loss by its name ({', '.join(map(repr, columns[:8]))}). Name it by --loss "
            "COLUMN or in a mapping file, or say what the file is by --from."
        )
    if len(unknown) < len(rest) or any(c.lower().endswith("loss") for c in unknown):
        raise BayeslawError(
            f"{name}: columns {', '.join(map(repr, unknown[:4]))} may be runs (--from wide) or losses of several domains "
            "(--from table)."
        )
    return "wide"


_RUN_METRIC = re.compile(r"^(?P<run>.+) - (?P<metric>\S.*)$")


def _of_run(column: str) -> tuple[str, str] | None:
    """Run and metric of a column such as 'big - eval/loss__MIN'."""
    found = _RUN_METRIC.match(column)
    if not found:
        return None
    metric = SPREADS.sub("", found["metric"])
    return (found["run"], found["metric"]) if is_metric(metric) or "/" in metric or "_" in metric else None


def is_chart(columns: list[str]) -> bool:
    """Whether columns are losses of runs, 'big - eval/loss', whatever the x axis; beside a column of runs they are domains."""
    metrics = [pair[1] for c in columns if (pair := _of_run(c))]
    losses = any(domain_of(m) is not None or key(m) == "loss" for m in (SPREADS.sub("", metric) for metric in metrics))
    return losses and not any((covariate_of(c) or ("",))[0] == "run" for c in columns)


def _wandb(frame: pd.DataFrame, called: str, stem: str) -> Log:
    """An export of a chart (a column for each run and metric), of one run's history, or of the table of runs."""
    columns = [str(c) for c in frame]
    pairs = {c: pair for c in columns if (pair := _of_run(c))}
    if not pairs:
        if {key(c) for c in columns} >= RUNS_TABLE:
            return _runs_table(frame, called)
        return Log(called, "wandb", frame, stem)
    step = _axis([c for c in columns if c not in pairs], called)
    remarks, parts, spreads = list[str](), list[pd.DataFrame](), {c: p for c, p in pairs.items() if SPREADS.search(p[1])}
    if other := [c for c in columns if c not in pairs and c != step]:
        shown = ", ".join(map(repr, other[:6])) + (", …" if len(other) > 6 else "")
        remarks.append(f"{called}: {counted(len(other), 'column')} of no run (no 'RUN - METRIC') left out ({shown})")
    by_run: dict[str, dict[str, str]] = {}
    spelled: dict[str, str] = {}
    for column, (run, metric) in pairs.items():
        if column in spreads:
            continue
        own, name = by_run.setdefault(run, {}), spelled.setdefault(key(metric), metric)
        if name in own.values():
            both = [column, *(c for c, m in own.items() if m == name)]
            raise BayeslawError(
                f"{called}: columns {both[1]!r} and {both[0]!r} are of one run and differ by case alone: remove one."
            )
        own[column] = name
    if binned := [c for c in spreads if not _same_as_value(frame, c)]:
        remarks.append(
            f"{called}: {binned[0]!r} and {len(binned) - 1} more differ from the values: these are means over steps or over a "
            "group of runs; export without grouping and smoothing"
        )
    for run, metrics in by_run.items():
        part = frame[[step, *metrics]].rename(columns=metrics)
        some = part[list(metrics.values())].notna().any(axis=1)
        parts.append(part[some].assign(run=run))
    if not parts:
        raise BayeslawError(f"{called} has columns of minima and maxima and none of values.")
    return Log(called, "wandb", _stacked(parts), "", step, remarks=tuple(remarks))


def _stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Parts one below the other; what one of them lacks is empty."""
    columns = list(dict.fromkeys(c for part in parts for c in part))
    whole = pd.concat([part.reindex(columns=columns).astype(object) for part in parts])
    return whole.astype(object).where(whole.notna(), None)


def _axis(columns: list[str], name: str) -> str:
    """The column of steps of a chart."""
    if (step := step_column(columns)) is not None:
        return step
    time = [c for c in columns if TIMES.match(key(c))]
    what = f"its rows go by {time[0]}" if time else f"no column counts steps ({', '.join(map(repr, columns)) or 'none is left'})"
    raise BayeslawError(f"{name}: {what}. Export it with Step on the x axis.")


def _same_as_value(frame: pd.DataFrame, column: str) -> bool:
    value = SPREADS.sub("", column)
    if value not in frame or not re.search(r"__(min|max)$", column, re.IGNORECASE):
        return False
    return bool((frame[column].fillna("") == frame[value].fillna("")).all())


def _runs_table(frame: pd.DataFrame, called: str) -> Log:
    """The table of runs, a row each, with what they were configured with and their last losses."""
    state = next(c for c in frame if key(str(c)) == "state")
    name = next(c for c in frame if key(str(c)) == "name")
    unfinished = frame[state].map(lambda s: str(s).lower() != "finished")
    remarks = []
    if unfinished.any():
        shown = ", ".join(f"{run} ({how})" for run, how in frame.loc[unfinished, [name, state]].head(3).itertuples(index=False))
        remarks.append(f"{called}: {counted(int(unfinished.sum()), 'run')} did not finish and their last losses are taken: {shown}")
    made = frame.rename(columns={name: "run"}) if "run" not in frame else frame
    return Log(called, "wandb", made, "", remarks=tuple(remarks))


def _wide(frame: pd.DataFrame, called: str) -> Log:
    """One column of losses for each run."""
    columns = [str(c) for c in frame]
    step = _axis(columns, called)
    runs = [c for c in columns if c != step and not TIMES.match(key(c))]
    if not runs:
        raise BayeslawError(f"{called} has no column beside {step!r}: a wide table has one for each run.")
    parts = [frame[[step, run]].set_axis([step, "loss"], axis=1)[frame[run].notna()].assign(run=run) for run in runs]
    empty = [run for run, part in zip(runs, parts, strict=True) if not len(part)]
    remarks = [
        f"{called}: columns {', '.join(map(repr, runs[:5]))}{', …' if len(runs) > 5 else ''} are {counted(len(runs), 'run')}"
    ]
    if empty:
        remarks.append(f"{called}: {counted(len(empty), 'column')} without a loss left out ({', '.join(empty[:3])})")
    return Log(called, "wide", _stacked(parts), "", step, {"loss": None}, remarks=tuple(remarks))
