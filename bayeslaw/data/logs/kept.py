"""Columns of logs that are kept as they are, such as an optimizer or a scheduler: one value for each run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened
from bayeslaw.core.text import counted, listed
from bayeslaw.data.columns import has_meaning, key
from bayeslaw.data.logs.log import Log
from bayeslaw.data.logs.mapping import COLUMNS, LogMap
from bayeslaw.data.query import LAST

Keep = str | Collection[str] | Mapping[str, str]
_FORM = "'config.optimizer', or {'optimizer': 'config.optimizer'}"


def with_kept(given: LogMap, keep: object) -> LogMap:
    """Return a mapping with the columns that the user keeps.

    Parameters
    ----------
    given : LogMap
    keep : str, collection of str or mapping
        Columns of the logs, or the columns by the names that they get.
    """
    named = keep if isinstance(keep, Mapping) else {text: text for text in ([keep] if isinstance(keep, str) else _texts(keep))}
    kept: dict[str, str] = {}
    for name, column in named.items():
        if not all(isinstance(text, str) and text.strip() for text in (name, column)):
            message = f"keep names columns of the logs, such as {_FORM}, not {shortened(repr(keep))}."
            raise BayeslawError(message, code="not-a-text")
        if has_meaning(name) or key(name) in (*COLUMNS, "loss", LAST):
            other = f"--keep NAME={column} (keep={{'NAME': {column!r}}})"
            message = (
                f"--keep {column} (keep=): a table of runs has a column {name!r} of its own: keep it under another name, {other}."
            )
            raise BayeslawError(message, code="known-name")
        if column in kept or column in {*given.columns, *given.losses}:
            problem = f"--keep {column} (keep=): the column is given two meanings"
            raise BayeslawError(f"{problem}: keep it once, or leave out what else names it.", code="two-meanings")
        kept[column] = name
    return replace(given, kept=kept)


def _texts(keep: object) -> Iterable[str]:
    if not isinstance(keep, Iterable):
        raise BayeslawError(f"keep names columns of the logs, such as {_FORM}, not {keep!r}.", code="not-a-text")
    return keep


def kept_values(logs: Sequence[Log], runs: Sequence[pd.Series], kept: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the value of each run by the name of each kept column; a run with two of them is refused.

    Parameters
    ----------
    logs : sequence of Log
    runs : sequence of Series
        The run of each entry of these.
    kept : mapping
        Column of the logs to its name in the table.
    """
    values: dict[str, dict[str, str]] = {name: {} for name in kept.values()}
    for column, name in kept.items():
        if not any(column in log.frame for log in logs):
            known = list(dict.fromkeys(str(c) for log in logs for c in (*log.frame, *log.settings)))
            message = f"No log has a column {column!r}, which --keep (keep=) names.{nearest(column, known)}"
            raise BayeslawError(message, code="missing-column")
        for log, of_log in zip(logs, runs, strict=True):
            for row, run, cell in zip(log.frame.index, of_log, log.frame.get(column, ()), strict=False):
                text = _text(cell)
                if text and isinstance(run, str) and (known_as := values[name].setdefault(run, text)) != text:
                    problem = f"run {shortened(repr(run))} has {known_as!r} before, and a kept column has one value for each run"
                    way = "do not keep it, or give runs that differ in it names of their own"
                    raise TableError([Fault(int(row), column, text, problem, way, "two-values-of-one-run")], log.name)
    return values


def _text(cell: object) -> str:
    """Return the value of a cell as text; '' for an empty one."""
    if cell is None or cell != cell:
        return ""
    return f"{cell:.0f}" if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def with_values(frame: pd.DataFrame, values: Mapping[str, Mapping[str, str]], rename: Mapping[str, str]) -> pd.DataFrame:
    """Add to a table of runs the kept values, by the names that runs have after they are renamed.

    Parameters
    ----------
    frame : DataFrame
    values : mapping
        Of each kept column by its name: the value of each run, by the run's name in the log.
    rename : mapping
        A run's name in the log to its new name.
    """
    columns = {name: {rename.get(run, run): text for run, text in of_runs.items()} for name, of_runs in values.items()}
    return frame.assign(**{name: frame["run"].map(of_runs) for name, of_runs in columns.items()})


def kept_notes(frame: pd.DataFrame, kept: Mapping[str, str]) -> list[str]:
    """Say which columns are kept, and which runs have no value of one."""
    notes = []
    for column, name in kept.items():
        without = list(dict.fromkeys(frame.loc[frame[name].isna(), "run"]))
        missing = f"; {counted(len(without), 'run')} without a value ({listed(without, 3)})" if without else ""
        notes.append(f"{column} is kept" + (f" as {name}" if name != column else "") + missing)
    return notes
