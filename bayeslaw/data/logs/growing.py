"""A log that a training program is writing: read again whenever it has changed, without the line that is not whole yet."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bayeslaw.core.errors import BayeslawError, TableError
from bayeslaw.core.files import files_below, own_path
from bayeslaw.data.logs.api import Imported, import_runs
from bayeslaw.data.logs.mlflow import is_store
from bayeslaw.data.logs.tensorboard import is_event_file

# Seconds without a change after which a file's faults are real and its last line is whole, unless it is half a line of JSON: what
# has not been written yet is then in the program's buffer.
SETTLED = 10.0
COARSE = 2.0  # seconds to which the coarsest file systems round times
NOT_YET = {"no-header", "no-rows", "no-loss", "missing-column", "empty-file"}  # the first evaluation may take as long as it likes
NOT_FINITE = {"diverged", "failed-evaluation"}
Stamp = tuple[tuple[str, int, int], ...]


class GrowingLog:
    """A log and what of it has been read.

    Parameters
    ----------
    path : path
        A file or folder that `import_runs` reads; it need not exist yet.
    **options
        Those of `import_runs`. Of a run that was resumed, the later log counts unless `resumed` says otherwise.

    Attributes
    ----------
    problem : str
        Why nothing was read, where `read` returned None for another reason than that nothing has changed.
    diverged : bool
        Whether the last losses are not finite. Such losses are left out.

    Examples
    --------
    >>> log = bayeslaw.data.logs.growing.GrowingLog("history.jsonl")
    >>> log.read() is None, log.problem
    (True, 'history.jsonl is not there yet')
    """

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path, self.options = own_path(path), {"resumed": "last"} | options
        self.problem, self.diverged = "", False
        self._stamp: Stamp | None = None
        self._seen: Stamp = ()  # the files at the last look
        self._looked, self._changed = -math.inf, 0.0  # times, in seconds, of the last look and of the last change, by our clock
        self._whole = False  # whether the last look took the file as it is
        self._torn = False  # whether the file ends within a record of JSON
        self._waits = False  # whether that, or that there is no loss yet, is why nothing was read

    def read(self, *, settled: bool = False) -> Imported | None:
        """Return the log's losses if it has changed, or None.

        Parameters
        ----------
        settled : bool
            Take the file as it is, but for half a line of JSON at its end.

        Raises
        ------
        BayeslawError
            If the log can't be read although it has not changed for `SETTLED` seconds, or is `settled`. A log without a loss is
            waited for.
        """
        stamp = self._look()
        if not stamp:
            empty = self.path.is_dir()
            self._stamp, self.problem = None, f"{self.path} {'has no files' if empty else 'is not there'} yet"
            if settled:
                problem = f"The folder {self.path} has no files." if empty else f"There is no file or folder {self.path}."
                raise BayeslawError(problem, code="no-such-file")
            return None
        quiet = self._age(stamp) >= SETTLED or settled
        if stamp == self._stamp and (self._whole or not quiet) and not (settled and self._waits):
            return None
        try:
            imported = self._read(quiet)
        except (BayeslawError, OSError) as error:  # a folder may be changed while it is read
            self._waits = self._torn or (isinstance(error, BayeslawError) and error.code in NOT_YET)
            if quiet and (settled or not self._waits):
                raise
            why = "it ends within a record" if self._torn else f"{error}"
            self.problem, imported = f"{self.path} can't be read yet: {why}", None
        self._stamp, self._whole = stamp, quiet
        self.problem = self.problem if imported is None else ""
        return imported and replace(imported, runs=replace(imported.runs, name=self.path.name))

    def _age(self, stamp: Stamp) -> float:
        """Return the seconds since the log has changed, by our own clock where that of its files is another, as on a server."""
        now, written = time.time(), max(at for *_, at in stamp) / 1e9
        if stamp != self._seen:
            self._seen, self._changed = stamp, written if self._looked - COARSE <= written <= now else now
        self._looked = now
        return now - self._changed

    def _look(self) -> Stamp:
        """What tells whether the log has changed: its files with their sizes and times; empty where there are none."""
        try:
            files = files_below(self.path) if self.path.is_dir() else [self.path]
            return tuple((str(p), (info := p.stat()).st_size, info.st_mtime_ns) for p in files)
        except OSError:
            return ()

    def _read(self, quiet: bool) -> Imported:
        self._torn = False
        if self.path.is_dir() or is_event_file(self.path) or is_store(self.path) or self.path.suffix.lower() == ".parquet":
            return self._imported(self.path)
        data = self.path.read_bytes()
        whole = whole_lines(data)
        self._torn = whole != data and data.lstrip()[:1] in (b"{", b"[")
        if whole == data or (quiet and not self._torn):
            return self._imported(self.path)
        with TemporaryDirectory() as folder:
            copy = Path(folder, self.path.name)
            copy.write_bytes(whole)
            return self._imported(copy)

    def _imported(self, path: Path) -> Imported:
        try:
            self.diverged = False
            return import_runs(path, curves=True, **self.options)
        except TableError as error:
            codes = {fault.code for fault in error.faults}
            if self.options.get("nan") == "drop" or not codes <= NOT_FINITE:
                raise
            self.diverged = "diverged" in codes
            return import_runs(path, curves=True, **self.options | {"nan": "drop"})


def whole_lines(data: bytes) -> bytes:
    """Return a text without its last line if that has no end yet and is not whole JSON; a whole JSON document stays as it is."""
    lines, newline, last = data.rpartition(b"\n")
    if not last.strip():
        return data
    for text in (data, last) if data.lstrip()[:1] in (b"{", b"[") else ():
        try:
            json.loads(text)
        except ValueError:
            continue
        return data
    return lines + newline
