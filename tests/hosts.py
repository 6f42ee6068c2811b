"""A local server in place of the one that publishes losses, so that tests need no network."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bayeslaw.data import datasets

ALL = datasets.datasets()

CHINCHILLA = "x,y,color,Model Size,Training FLOP,hex_color,loss\n" + "".join(
    f"1,2,#f,1e8,{6e17 * (i + 1)},#f,{loss}\n" for i, loss in enumerate((9, 2, 8, 7, 3, 6, 5))
)


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that does not log requests."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve a folder in place of the host of the public losses, with an empty cache; yields the folder."""
    root = folder / "host"
    root.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setattr(datasets, "HOST", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("BAYESLAW_CACHE", str(folder / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield root
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def publish(monkeypatch: pytest.MonkeyPatch, root: Path, name: str, files: dict[str, bytes]) -> None:
    """Publish files, with their checksums, as those of a set."""
    published = replace(ALL[name], files={path: hashlib.sha256(data).hexdigest() for path, data in files.items()})
    for path, data in files.items():
        target = root / published.repository / published.commit / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    monkeypatch.setattr(datasets, "datasets", lambda: {name: published})
