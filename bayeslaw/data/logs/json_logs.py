"""Logs in JSON: one object a line, or the `trainer_state.json` of Hugging Face's Trainer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.data.logs.cells import Marks, numbers
from bayeslaw.data.logs.log import Log, counted
from bayeslaw.data.logs.text import decoded
from bayeslaw.data.table import json_object

CHECKPOINT = re.compile(r"^checkpoint-\d+$")


def read_json(path: Path, kind: str | None, called: str | None = None) -> Log:
    """Read a file of JSON as the kind given, or as what it holds; `called` is its name, where not the file's.

    Raises
    ------
    BayeslawError, TableError
        If it is neither, with every line that can't be read.
    """
    name = called or path.name
    text = decoded(path, name).strip()
    if not text:
        raise BayeslawError(f"{name} is empty.")
    whole = _whole(text)
    state = isinstance(whole, dict) and isinstance(whole.get("log_history"), list)
    if kind == "trainer" and not state:
        raise BayeslawError(f"{name} is no trainer_state.json: it has no list log_history.")
    if state and kind in (None, "trainer"):
        assert isinstance(whole, dict)
        return _trainer(whole, path, called)
    if isinstance(whole, list):
        return Log(name, "jsonl", _frame(whole, name), path.stem)
    return Log(name, "jsonl", _frame(_lines(text, name), name), path.stem)


def _whole(text: str) -> Any:
    """The one value that the text is, None where it is several lines of them."""
    try:
        return json.loads(text, object_pairs_hook=json_object)
    except (ValueError, RecursionError):
        return None


def _lines(text: str, name: str) -> list[Any]:
    rows, faults = [], []
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line, object_pairs_hook=json_object))
        except (ValueError, RecursionError) as error:
            cut = " (the last line: was the run stopped while it wrote?)" if number == len(lines) else ""
            faults.append(
                Fault(number, "", shortened(line, 40), f"the line can't be read as JSON: {error}{cut}", "remove it or mend it")
            )
    if faults:
        raise TableError(faults, name)
    return rows


def _frame(rows: list[Any], name: str) -> pd.DataFrame:
    """Objects as rows; an object within an object has its name before its own, eval/loss."""
    if faults := [
        Fault(i, "", shortened(row, 40), "this is no object such as {\"step\": 100, \"eval_loss\": 2.9}", "remove it")
        for i, row in enumerate(rows, 1)
        if not isinstance(row, dict)
    ]:  # fmt: skip
        raise TableError(faults, name)
    flat = [_flat(row) for row in rows]
    if faults := [
        Fault(i, ascii(key), ascii(value), f"{key!a}: {value!a} holds half a character (a lone surrogate)", "mend it")
        for i, row in enumerate(flat, 1)
        for key, value in row.items()
        if not _is_text(f"{key}{value}")
    ]:
        raise TableError(faults, name)
    columns = list(dict.fromkeys(key for row in flat for key in row))
    if not flat or not columns:
        raise BayeslawError(f"{name} logs nothing.")
    made = pd.DataFrame({c: pd.Series([row.get(c) for row in flat], dtype=object) for c in columns})
    made.index = pd.RangeIndex(1, len(made) + 1, name="row")
    return made


def _is_text(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in row.items():
        made |= _flat(value, f"{before}{key}/") if isinstance(value, dict) else {f"{before}{key}": value}
    return made


def _trainer(state: dict[str, Any], path: Path, called: str | None) -> Log:
    """The history of a Trainer: entries of training, with a learning rate, and of evaluation, with eval_loss."""
    folder = path.absolute().parent
    run = place(path).name
    name = called or f"{folder.name}/{path.name}"
    history = [row for row in state["log_history"] if not (isinstance(row, dict) and "train_runtime" in row)]
    remarks = []
    if left := len(state["log_history"]) - len(history):
        remarks.append(f"{name}: {counted(left, 'closing entry', 'closing entries')} (train_runtime) left out")
    if not history:
        raise BayeslawError(f"{name} has an empty log_history.")
    return Log(name, "trainer", _frame(history, name), run, bare_loss=False, remarks=tuple(remarks))


def place(path: Path) -> Path:
    """The folder of the run that a trainer_state.json is of."""
    folder = path.absolute().parent
    return folder.parent if CHECKPOINT.match(folder.name) else folder


def last_step(log: Log) -> float:
    """The last step of a history, by which those of one run are put in order."""
    steps = numbers(log.frame.get("step", pd.Series(dtype=float)), "step", Marks(".", ","))[0]
    return float(steps.max()) if steps.notna().any() else -1.0
