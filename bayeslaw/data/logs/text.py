"""Tables of logs: exports of Weights & Biases, tables with one column for each run, and tables with known column names."""

from __future__ import annotations

import ast
import codecs
import csv
import io
import re
import shlex
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.core.text import counted, listed
from bayeslaw.data.columns import key, our_name
from bayeslaw.data.files import AS_CSV, WORKBOOKS, by_pandas, numbered, read_parquet
from bayeslaw.data.logs.cells import flattened
from bayeslaw.data.logs.log import BY_KIND, SPREADS, TIMES, Log, domain_of, is_metric, is_other_loss, is_step, step_column

DELIMITERS = (",", "\t", ";")
PRINTED = {"", ".log", ".out", ".err", ".txt"}  # endings of files that programs print to
HISTORY = {"_runtime", "_timestamp"}  # beside _step: columns of an export of one run's history
RUNS_TABLE = {"name", "state"}  # columns of an export of the table of runs
SCALAR = {"wall_time", "step", "value"}  # columns of one metric of one run, as TensorBoard's page exports it
SCALAR_NAMES = ("tag", "key", "metric")  # columns with the name of a metric
_BINARY = re.compile(rb"[\x01-\x08\x0e-\x1f]")  # bytes of no text; 0 is one of UTF-16
_SCALAR_FILE = re.compile(r"^run-(?P<run>.*)-tag-(?P<tag>.+?)(?: ?\(\d+\))?$")
_OF_TRAINING = re.compile(r"^epochs?$|(?<![a-z])train(ing)?(?![a-z])")  # columns of metrics, and no names of runs
_RUN_METRIC = re.compile(r"^(?P<run>.+) - (?P<metric>\S.*)$")


def read_text(path: Path, name: str, kind: str | None, delimiter: str | None, given: Collection[str]) -> Log:
    """Read a table, of text or in Parquet; one that may be of several kinds is refused.

    Parameters
    ----------
    path, name : Path and str
    kind : {'wandb', 'wide', 'table'}, optional
        What it is; by default its header decides.
    delimiter : str, optional
        The sign between cells; by default the most frequent one of `DELIMITERS` in the header.
    given : collection of str
        Columns whose meaning the user gives. Such a file is a table, unless they are metrics of a chart's runs, or it is a chart of
        losses and no column of a run is among them.
    """
    frame, notes = _parquet(path, name) if path.suffix.lower() == ".parquet" else _table(path, name, delimiter)
    frame = _without_objects(frame)
    if scalars := _of_scalars(frame, path, name, given):
        return replace(scalars, notes=(*notes, *scalars.notes))
    columns = [str(c) for c in frame]
    of_runs = {*given} & {pair[1] for c in columns if (pair := _of_run(c))}  # of 'big - eval/ppl'
    as_table = given and not (_is_chart(columns) and not any(_of_run(c) for c in given))
    as_wandb = of_runs or {key(c) for c in columns} >= RUNS_TABLE
    match kind or ("wandb" if as_wandb else "table" if as_table else _kind(frame, name)):
        case "wandb":
            log = _wandb(frame, name, path.stem, given)
        case "wide":
            log = _wide(frame, name)
        case _:
            log = Log(name, "table", frame, path.stem)
    return replace(log, notes=(*notes, *log.notes))


def _table(path: Path, name: str, delimiter: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Return the cells of a text table, None where one is empty, and notes of columns left out."""
    text = decoded(path, name)
    head = text.splitlines()[0] if text.strip() else ""
    if not head.strip():
        raise BayeslawError(f"{name} has no header in its first line, or is empty.", code="no-header")
    mark = delimiter or max(DELIMITERS, key=head.count)
    try:
        lines = [line for line in csv.reader(io.StringIO(text), delimiter=mark, skipinitialspace=True, strict=True) if any(line)]
    except csv.Error as error:
        raise _no_table(path, name, f"{error}") from None
    if not lines:
        raise BayeslawError(f"{name} has empty cells only.", code="no-header")
    header = [cell.strip() for cell in lines[0]]
    rows = [line[: len(header)] if not any(line[len(header) :]) else line for line in lines[1:]]
    suggestion, faults = "is the file cut off, or does a comma stand inside a number that isn't quoted?", []
    for i, row in enumerate(rows, 1):
        if len(row) != len(header):
            problem = f"the row has {len(row)} cells and the header {len(header)} ({shortened(mark.join(row), 30)})"
            faults.append(Fault(i, header[0], "", problem, suggestion, "row-of-another-length"))
    if faults and path.suffix.lower() in PRINTED:
        raise _no_table(path, name, f"row {faults[0].row}: {faults[0].problem}")
    if faults:
        raise TableError(faults, name)
    if not rows:
        raise BayeslawError(f"{name} has a header and no rows.", code="no-rows")
    cells = np.array(rows, dtype=object).reshape(len(rows), len(header))
    cells[cells == ""] = None
    keep, notes = _unique_columns(header, cells, name)
    frame = pd.DataFrame(cells[:, keep], columns=[header[i] for i in keep], dtype=object)
    return numbered(frame), notes


def _parquet(path: Path, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the cells of a table in Parquet, such as that of a run's history, None where one is empty."""
    try:
        frame = read_parquet(path)
    except (ValueError, OSError) as error:
        raise BayeslawError(f"{name} can't be read as Parquet: {error}.", code="unreadable-table") from None
    if not len(frame) or not len(frame.columns):
        raise BayeslawError(f"{name} has no rows.", code="no-rows")
    frame = frame.rename(columns=str).astype(object)
    return numbered(frame.where(frame.notna(), None)), []


def _of_scalars(frame: pd.DataFrame, path: Path, name: str, given: Collection[str]) -> Log | None:
    """Read a table with one value of one metric in each row, as TensorBoard and MLflow export them; None for any other.

    TensorBoard's page exports one metric of one run, which the name of the file says alone: run-small-tag-eval_loss.csv.
    """
    by_key = {key(str(c)): c for c in frame}
    value, metric = by_key.get("value"), next((by_key[c] for c in SCALAR_NAMES if c in by_key), None)
    single = by_key.keys() == SCALAR
    if value is None or value in given or not (single or metric) or any(domain_of(str(c)) is not None for c in frame):
        return None
    of_file = _SCALAR_FILE.match(path.stem) if single else None
    if single and of_file is None:
        message = (
            f"{name} has the values of one metric, and its name isn't of the form run-RUN-tag-METRIC.csv, so it doesn't say which."
        )
        raise BayeslawError(
            f"{message} If they are validation losses, add --loss {shlex.quote(str(value))} (losses={value!r}).", code="no-loss"
        )
    names = pd.Series(of_file["tag"], frame.index, object) if of_file else frame[metric]
    every = [m for m in names.dropna().unique() if isinstance(m, str)]
    metrics = [m for m in every if of_file or is_metric(m) or m in given] or every
    other = [m for m in every if m not in metrics]
    columns = {m: frame[value].where(names == m, None) for m in metrics}
    rest = frame[[c for c in map(str, frame) if c not in (value, metric)]]
    wide = pd.concat([rest, pd.DataFrame(columns, index=frame.index, dtype=object)], axis=1)
    notes = (f"{name}: rows of other metrics are not used ({listed(other, 4)})",) if other else ()
    run = of_file["run"] if of_file else path.stem
    kept = wide[names.isin(metrics)]
    return Log(name, "table", kept, run, bare_loss=False, notes=notes, folder=path.absolute().parent / run)


def _without_objects(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with columns `config.N` and so on for a column `config` of objects.

    Weights & Biases' example of an export by its API writes configurations and summaries of runs as Python prints them.
    """
    objects = dict[str, list[dict[str, object]]]()
    for column in map(str, frame):
        cells = [cell for cell in frame[column] if cell is not None]
        if cells and all(isinstance(cell, dict) or str(cell).startswith("{") for cell in cells):
            try:
                objects[column] = [_object(cell) for cell in frame[column]]
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    for column, rows in objects.items():
        keys = dict.fromkeys(k for row in rows for k in row)
        parts = {f"{column}.{k}": pd.Series([row.get(k) for row in rows], frame.index, object) for k in keys}
        frame = pd.concat([frame.drop(columns=column), pd.DataFrame(parts, frame.index)], axis=1)
    return frame


def _object(cell: object) -> dict[str, object]:
    """Return the values of an object, or of its text, by their names."""
    if not isinstance(cell, dict):
        parsed = ast.literal_eval(re.sub(r"(?<=[:,\[ ])(-?(?:nan|inf))(?=[,}\]])", r"'\1'", "{}" if cell is None else str(cell)))
        if not isinstance(parsed, dict):
            raise ValueError("this is no object")
        cell = parsed
    return flattened(cell, ".")


def _no_table(path: Path, name: str, cause: str) -> BayeslawError:
    """Return the error of a file that is no table; in one that a program prints to, lines with losses may yet come."""
    message = f"{name} can't be read as a table: {cause}."
    if path.suffix.lower() not in PRINTED:
        return BayeslawError(message, code="unreadable-table")
    printed = "Nor has it a line that names a step and a loss, such as 'step 500: train loss 3.1, val loss 3.2'."
    return BayeslawError(f"{message} {printed}", code="no-rows")


def decoded(path: Path, name: str) -> str:
    """Return a file's text, with or without a byte-order mark."""
    raw = path.read_bytes()
    if path.suffix.lower() in WORKBOOKS and _BINARY.search(raw):
        raise BayeslawError(f"{name} is a workbook, and no text. {AS_CSV}", code="workbook")
    way = by_pandas(path) or "Save it as UTF-8."
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"{name} is not UTF-8 text ({error.reason} at byte {error.start}). {way}"
        raise BayeslawError(message, code="not-utf-8") from None
    if "\0" in text:
        raise BayeslawError(f"{name} holds NUL bytes and is not text. {way}", code="not-utf-8")
    return text


def _unique_columns(header: list[str], cells: np.ndarray, name: str) -> tuple[list[int], list[str]]:
    """Return the columns to keep: two of one name are one if all their cells are equal; a column without a name is left out."""
    keep, notes, first = list[int](), list[str](), dict[str, int]()
    for i, column in enumerate(header):
        if not column:
            notes.append(f"{name}: column {i + 1} has no name and is left out")
        elif (other := first.setdefault(column, i)) == i:
            keep.append(i)
        elif (cells[:, i] == cells[:, other]).all():
            notes.append(f"{name}: column {column!r} occurs twice with the same cells and is read once")
        else:
            row = int(np.flatnonzero(cells[:, i] != cells[:, other])[0])
            raise BayeslawError(
                f"{name} has two columns {column!r} that differ, first in row {row + 1} ({cells[row, other]} and {cells[row, i]}): "
                "if these are two runs of one name, give each its own name.",
                code="two-columns-of-one-name",
            )
    return keep, notes


def _kind(frame: pd.DataFrame, name: str) -> str:
    """Return which kind of text table this is, by its columns, or refuse it if several kinds are possible."""
    columns, keys = [str(c) for c in frame], {key(str(c)) for c in frame}
    step = step_column(columns)
    rest = _without_axes(columns, step)
    if (rest and all(_of_run(c) for c in rest)) or _is_chart(columns) or ("_step" in keys and keys & HISTORY) or keys >= RUNS_TABLE:
        return "wandb"
    if any(domain_of(c) is not None or key(c) == "loss" for c in columns) or _names_runs(columns):
        return "table"
    unknown = [c for c in rest if not is_metric(c)]
    if step is None or not unknown or any(is_other_loss(c) or _OF_TRAINING.search(key(c)) for c in rest):
        return "table"  # without a loss, which is said where the meanings of its columns are known
    if len(unknown) < len(rest) or any(c.lower().endswith("loss") for c in unknown):
        shown = ", ".join(map(repr, unknown[:4]))
        message = f"{name}: columns {shown} may be runs (kind wide) or losses of several domains (kind table): choose by {BY_KIND}."
        raise BayeslawError(message, code="runs-or-domains")
    return "wide"


def _without_axes(columns: list[str], step: str | None) -> list[str]:
    """Return the columns that count neither steps nor time."""
    return [c for c in columns if c != step and not TIMES.match(key(c))]


def _of_run(column: str) -> tuple[str, str] | None:
    """Return run and metric of a column such as 'big - eval/loss__MIN'."""
    match = _RUN_METRIC.match(column)
    if not match:
        return None
    metric = SPREADS.sub("", match["metric"])
    return (match["run"], match["metric"]) if is_metric(metric) or "/" in metric or "_" in metric else None


def _names_runs(columns: list[str]) -> bool:
    return "run" in {our_name(c, "logs") for c in columns}


def _is_chart(columns: list[str]) -> bool:
    """Whether columns are losses of runs, 'big - eval/loss', whatever the x axis; beside a column of runs they are domains."""
    metrics = [SPREADS.sub("", pair[1]) for c in columns if (pair := _of_run(c))]
    return any(domain_of(m) is not None or key(m) == "loss" for m in metrics) and not _names_runs(columns)


def _wandb(frame: pd.DataFrame, name: str, stem: str, given: Collection[str]) -> Log:
    """Read an export of a chart (a column for each run and metric), of one run's history, or of the table of runs."""
    columns = [str(c) for c in frame]
    pairs = {c: pair for c in columns if (pair := _of_run(c))}
    if not pairs:
        return _runs_table(frame, name) if {key(c) for c in columns} >= RUNS_TABLE else Log(name, "wandb", frame, stem)
    step = _axis([c for c in columns if c not in pairs], name, given)
    notes = list[str]()
    if other := [c for c in columns if c not in pairs and c != step]:
        shown = listed([*map(repr, other)])
        notes.append(f"{name}: {counted(len(other), 'column')} of no run (no 'RUN - METRIC') left out ({shown})")
    spreads = [c for c, (_, metric) in pairs.items() if SPREADS.search(metric)]
    if binned := [c for c in spreads if not _same_as_value(frame, c)]:
        notes.append(
            f"{name}: {binned[0]!r} and {len(binned) - 1} more differ from the values: these are means over steps or over a "
            "group of runs; export without grouping and smoothing"
        )
    by_run, spelled = dict[str, dict[str, str]](), dict[str, str]()
    for column, (run, metric) in ((c, pair) for c, pair in pairs.items() if c not in spreads):
        own, spelling = by_run.setdefault(run, {}), spelled.setdefault(key(metric), metric)
        if other := [c for c, m in own.items() if m == spelling]:
            message = f"{name}: columns {other[0]!r} and {column!r} are of one run and differ only by case: remove one."
            raise BayeslawError(message, code="two-columns-of-one-meaning")
        own[column] = spelling
    if not by_run:
        raise BayeslawError(f"{name} has columns of minima and maxima, but none of values.", code="no-loss")
    parts = []
    for run, metrics in by_run.items():
        part = frame[[step, *metrics]].rename(columns=metrics)
        parts.append(part[part[list(metrics.values())].notna().any(axis=1)].assign(run=run))
    return Log(name, "wandb", _stacked(parts), "", step if is_step(step) else None, notes=tuple(notes))


def _stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return parts one below the other, with empty cells in columns that a part lacks."""
    columns = list(dict.fromkeys(c for part in parts for c in part))
    whole = pd.concat([part.reindex(columns=columns).astype(object) for part in parts])
    return whole.astype(object).where(whole.notna(), None)


def _axis(columns: list[str], name: str, given: Collection[str] = ()) -> str:
    """Return the column of steps of a chart, or of tokens where those, or one that the user names, are its x axis."""
    others = [c for c in columns if c in given or our_name(c, "logs") == "D"]
    if (step := step_column(columns) or next(iter(others), None)) is not None:
        return step
    time = [c for c in columns if TIMES.match(key(c))]
    cause = f"its x axis is {time[0]}" if time else f"no column counts steps ({', '.join(map(repr, columns)) or 'none is left'})"
    raise BayeslawError(
        f"{name}: {cause}. Export it with Step on the x axis, or with tokens (--column D=COLUMN, columns={{'D': 'COLUMN'}}).",
        code="no-steps",
    )


def _same_as_value(frame: pd.DataFrame, column: str) -> bool:
    value = SPREADS.sub("", column)
    if value not in frame or not re.search(r"__(min|max)$", column, re.IGNORECASE):
        return False
    return bool((frame[column].fillna("") == frame[value].fillna("")).all())


def _runs_table(frame: pd.DataFrame, name: str) -> Log:
    """Read the table of runs: one row for each, with its configuration and its last losses."""
    state = next(c for c in frame if key(str(c)) == "state")
    run_name = next(c for c in frame if key(str(c)) == "name")
    unfinished = frame.loc[frame[state].map(lambda s: str(s).lower() != "finished"), [run_name, state]].drop_duplicates(run_name)
    notes = []
    if len(unfinished):
        shown = ", ".join(f"{run} ({how})" for run, how in unfinished.head(3).itertuples(index=False))
        whose = "its" if len(unfinished) == 1 else "their"
        notes.append(f"{name}: {counted(len(unfinished), 'run')} did not finish; {whose} last losses are used: {shown}")
    return Log(name, "wandb", frame, "", last_values=True, notes=tuple(notes))


def _wide(frame: pd.DataFrame, name: str) -> Log:
    """Read a table with one column of losses for each run."""
    columns = [str(c) for c in frame]
    step = _axis(columns, name)
    runs = _without_axes(columns, step)
    if not runs:
        raise BayeslawError(f"{name} has no column beside {step!r}: a wide table has one for each run.", code="no-loss")
    parts = [frame[[step, run]].set_axis([step, "loss"], axis=1)[frame[run].notna()].assign(run=run) for run in runs]
    notes = [f"{name}: columns {listed([*map(repr, runs)], 5)} are {counted(len(runs), 'run')}"]
    if empty := [run for run, part in zip(runs, parts, strict=True) if not len(part)]:
        notes.append(f"{name}: {counted(len(empty), 'column')} without a loss left out ({', '.join(empty[:3])})")
    return Log(name, "wide", _stacked(parts), "", step, {"loss": None}, notes=tuple(notes))
