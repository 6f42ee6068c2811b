"""Records of benchmarks that take hours: each is on the disk as soon as it is made, so that a stopped run continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Hashable
from operator import itemgetter
from pathlib import Path
from typing import Any

import bayeslaw
from bayeslaw.core.files import write_text

Record = dict[str, Any]


def digest(*files: Path, without: Collection[str] = (), settings: object = None) -> str:
    """Digest of what records depend on, so that those of other code are not mixed in.

    Parameters
    ----------
    *files : Path
        Cards, designs and data besides the package's code.
    without : collection of str
        Packages of bayeslaw that the records do not depend on.
    settings
        Anything that JSON has.
    """
    whole = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    package = Path(bayeslaw.__file__).parent
    code = sorted(path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in without)
    for path in (*code, *files):
        whole.update(path.name.encode() + (path.read_bytes() if path.exists() else b""))
    return whole.hexdigest()[:16]


class Store:
    """Records of a file by their numbers, one in each line.

    A line that a killed process left unfinished is dropped, and its record is made again.

    Parameters
    ----------
    path : Path
    key : callable, optional
        From a record to what stands for it, in place of its number.
    """

    def __init__(self, path: Path, key: Callable[[Record], Hashable] = itemgetter("number")) -> None:
        self.path, self.key = path, key
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            write_text(path, whole)
        self.known: dict[Any, Record] = {key(record): record for record in map(json.loads, whole.splitlines())}

    def add(self, record: Record) -> None:
        """Keep a record."""
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.known[self.key(record)] = record

    def all(self) -> list[Record]:
        """Every record in the order of the numbers."""
        return [self.known[number] for number in sorted(self.known)]

    def first(self, count: int) -> list[Record]:
        """Records of the numbers 0 to count - 1 in order, as far as there are any."""
        return [self.known[number] for number in range(count) if number in self.known]
