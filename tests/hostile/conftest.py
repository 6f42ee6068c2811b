"""A working folder with small files, and a command that must end with one message and change nothing in it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands import Command, Done, snapshot
from tests.fixed import LINE, line_fit

Refuse = Callable[..., Done]
LONGEST = 60.0  # seconds, on a busy machine too; a bad input that hangs takes longer


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A card, two tables, a fit, runs to buy and an older result; not to be changed."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "line.toml").write_text(LINE, encoding="utf-8")
    x, rng = np.linspace(-1, 1, 12), np.random.default_rng(0)
    pd.DataFrame({"x": x, "loss": np.exp(1 + 0.1 * x + 0.01 * rng.standard_normal(12))}).to_csv(folder / "line.csv", index=False)
    steps = {"x": x, "step": 2 ** (np.arange(12) // 2), "loss": np.exp(1 + 0.1 * x + 0.01 * rng.standard_normal(12))}
    pd.DataFrame(steps).to_csv(folder / "steps.csv", index=False)
    pd.DataFrame({"x": [0, 1], "run": ["a", "b"], "cost": [1, 1]}).to_csv(folder / "buy.csv", index=False)
    line_fit().save(folder / "fit.nc")
    for name in ("older.nc", "older.csv"):
        (folder / name).write_text("an older result", encoding="utf-8")
    return folder


@pytest.fixture
def here(small_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of `small_files`."""
    shutil.copytree(small_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refuse(command: Command, here: Path) -> Refuse:
    """Run a command that must end with status 2, within seconds, with one short message, and leave every file as it was."""

    def run(*words: object, code: str = "") -> Done:
        before, began = snapshot(here), time.monotonic()
        done = command(*words)
        assert time.monotonic() - began < LONGEST
        assert (done.status, done.out) == (2, ""), done
        assert sum(line.startswith("Error: ") for line in done.err.splitlines()) == 1, done
        assert "Traceback" not in done.err
        assert len(done.err.splitlines()) < 25
        assert max(map(len, done.err.splitlines())) <= 1_000
        assert not code or code in done.codes, done
        assert snapshot(here) == before
        return done

    return run
