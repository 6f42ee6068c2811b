"""Running the command line in a test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


Command = Callable[..., Done]


def refused(done: Done, *fragments: str) -> None:
    """Exit status 2, the words on standard error, and no traceback."""
    assert done.status == 2, done
    assert done.err.startswith("Error: "), done.err
    assert "Traceback" not in done.err
    for fragment in fragments:
        assert fragment in done.err, done.err


def snapshot(folder: Path) -> dict[str, str]:
    """Digest of every file below a folder."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}
