"""Logs in JSON: one object a line, or the `trainer_state.json` of Hugging Face's Trainer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.core.text import counted
from bayeslaw.data.columns import our_name
from bayeslaw.data.files import json_object, numbered
from bayeslaw.data.logs.cells import flattened, numbers
from bayeslaw.data.logs.log import Log
from bayeslaw.data.logs.text import decoded

HALF = re.compile("[\ud800-\udfff]")  # lone surrogates: JSON can hold them, and no encoding can
CHECKPOINT = re.compile(r"^checkpoint-\d+$")


def read_json(path: Path, name: str, kind: str | None) -> Log:
    """Read a file of JSON; every line that can't be read is a fault.

    Parameters
    ----------
    path, name, kind
        The file, its name in messages, and whether it is of kind 'trainer' or 'jsonl'; by default its contents decide.
    """
    text = decoded(path, name).strip()
    if not text:
        raise BayeslawError(f"{name} is empty.", code="empty-file")
    try:
        whole = json.loads(text, object_pairs_hook=json_object)
    except (ValueError, RecursionError):
        whole = None  # several lines of values
    if isinstance(whole, dict) and isinstance(whole.get("log_history"), list):
        if kind in (None, "trainer"):
            return _trainer(whole, path, name)
    elif kind == "trainer":
        raise BayeslawError(f"{name} is no trainer_state.json: it has no list log_history.", code="not-a-trainer-state")
    rows = whole if isinstance(whole, list) else _of_runs(whole) if isinstance(whole, dict) else _lines(text, name)
    return Log(name, "jsonl", _frame(rows, name), path.stem)


def _of_runs(whole: dict[str, Any]) -> list[Any]:
    """Return a row for each run of an object that has an object with its own N for each, or else the object as one row."""
    sized = [isinstance(of, dict) and "N" in {our_name(c, "logs") for c in of} for of in whole.values()]
    if len(whole) < 2 or not all(sized):
        return [whole]
    named = any(our_name(c, "logs") == "run" for of in whole.values() for c in of)
    return [of if named else {"run": run} | of for run, of in whole.items()]


def is_json(text: str) -> bool:
    """Whether a text, or its first line, is JSON."""
    text = text.strip()
    for part in (text.partition("\n")[0], text) if text[:1] in ("{", "[") else ():
        try:
            json.loads(part)
        except (ValueError, RecursionError):
            continue
        return True
    return False


def _lines(text: str, name: str) -> list[Any]:
    rows, faults = [], []
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line, object_pairs_hook=json_object))
        except (ValueError, RecursionError) as error:
            cut = " (the last line: was the run stopped while it wrote?)" if number == len(lines) else ""
            problem = f"the line can't be read as JSON: {error}{cut}"
            faults.append(Fault(number, "", shortened(line, 40), problem, "correct or remove it", "unreadable-line"))
    if faults:
        raise TableError(faults, name)
    return rows


def _frame(rows: list[Any], name: str) -> pd.DataFrame:
    """Return objects as rows; keys of an object within an object follow its name, as in eval/loss."""
    problem = 'this is not an object such as {"step": 100, "eval_loss": 2.9}'
    wrong = [(i, row) for i, row in enumerate(rows, 1) if not isinstance(row, dict)]
    faults = [Fault(i, "", shortened(row, 40), problem, "remove it", "not-an-object") for i, row in wrong]
    flat = [] if faults else [flattened(row, "/") for row in rows]
    for i, row in enumerate(flat, 1):
        for key, value in row.items():
            if HALF.search(f"{key}{value}"):
                problem = f"{key!a}: {value!a} holds half a character (a lone surrogate)"
                faults.append(Fault(i, ascii(key), ascii(value), problem, "correct it", "half-a-character"))
    if faults:
        raise TableError(faults, name)
    if not (columns := list(dict.fromkeys(key for row in flat for key in row))):
        raise BayeslawError(f"{name} logs nothing.", code="no-rows")
    return numbered(pd.DataFrame({c: pd.Series([row.get(c) for row in flat], dtype=object) for c in columns}))


def _trainer(state: dict[str, Any], path: Path, name: str) -> Log:
    """Read the history of a Trainer: entries of training, with a learning rate, and of evaluation, with eval_loss."""
    history = [row for row in state["log_history"] if not (isinstance(row, dict) and "train_runtime" in row)]
    notes = []
    if left := len(state["log_history"]) - len(history):
        notes.append(f"{name}: {counted(left, 'closing entry')} (train_runtime) left out")
    if not history:
        raise BayeslawError(f"{name} has an empty log_history.", code="no-rows")
    return Log(name, "trainer", _frame(history, name), run_folder(path).name, bare_loss=False, notes=tuple(notes))


def run_folder(path: Path) -> Path:
    """Return the folder of the run to which a trainer_state.json belongs."""
    folder = path.absolute().parent
    return folder.parent if CHECKPOINT.match(folder.name) else folder


def last_step(log: Log) -> float:
    """Return the last step of a history, by which the histories of one run are ordered."""
    steps = numbers(log.frame.get("step", pd.Series(dtype=float)), "step", ".", ",")[0]
    return float(steps.max()) if steps.notna().any() else -1.0
