"""Writing logs as training programs do, and looking at what an import read from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from bayeslaw.data.curves import Curves
from bayeslaw.data.logs.api import Imported


def written(folder: Path, text: str, name: str = "log.csv", encoding: str = "utf-8") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text, encoding=encoding)
    return path


def lines(folder: Path, *entries: dict[str, Any], name: str = "log.jsonl") -> Path:
    """Write JSON lines and return their path."""
    return written(folder, "\n".join(map(json.dumps, entries)), name)


def cells(imported: Imported, *columns: str) -> list[list[Any]]:
    """Return some columns of the imported table by row, None where a cell is empty."""
    frame = imported.runs.frame[list(columns)]
    return [[None if pd.isna(v) else v for v in row] for row in frame.to_numpy(dtype=object).tolist()]


def noted(made: Imported | Curves, *values: object) -> bool:
    """Whether one note of an import, or of curves that were read, names all these values."""
    return any(all(str(value) in note for value in values) for note in made.notes)


def state(folder: Path, steps: range, shift: float = 0.0) -> Path:
    """Write a trainer_state.json with losses of two domains at some steps."""
    history: list[dict[str, Any]] = []
    for s in steps:
        history += [
            {"epoch": s / 100, "grad_norm": 1.0, "learning_rate": 1e-4 / s, "loss": 3.5, "step": s},
            {"epoch": s / 100, "eval_web_loss": 3 - s / 64 + shift, "eval_runtime": 1.5, "step": s},
            {"epoch": s / 100, "eval_code_loss": 2 - s / 64 + shift, "eval_runtime": 1.5, "step": s},
        ]
    folder.mkdir(parents=True)
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"global_step": steps[-1], "log_history": history, "best_metric": None}), encoding="utf-8")
    return path
