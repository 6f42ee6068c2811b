"""Running the command line in a test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str
    codes: frozenset[str] = frozenset()  # of the error that ended it, and of its faults


Command = Callable[..., Done]


def refused(done: Done, *fragments: str) -> None:
    """Exit status 2, the words on standard error, and no traceback."""
    assert done.status == 2, done
    assert done.err.startswith("Error: "), done.err
    assert "Traceback" not in done.err
    for fragment in fragments:
        assert fragment in done.err, done.err


def rejected(done: Done, code: str, *named: object) -> None:
    """Exit status 2 by an error of this code that names these values on standard error, and no traceback."""
    refused(done, *map(str, named))
    assert code in done.codes, done


def snapshot(folder: Path) -> dict[str, str]:
    """Digest of every file below a folder."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """The block leaves every file below a folder as it is, and makes none."""
    before = snapshot(folder)
    yield
    assert snapshot(folder) == before


def load_from(known: Mapping[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands run in a folder in which fits of these names can be loaded, although it has no files of them."""
    monkeypatch.setattr("bayeslaw.load_fit", lambda path: known[Path(path).name])
    monkeypatch.chdir(folder)
