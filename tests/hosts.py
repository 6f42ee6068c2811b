"""A local server in place of the one that publishes losses, so that tests need no network."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bayeslaw.data import datasets

ALL = datasets.datasets()

CHINCHILLA = "x,y,color,Model Size,Training FLOP,hex_color,loss\n" + "".join(
    f"1,2,#f,1e8,{6e17 * (i + 1)},#f,{loss}\n" for i, loss in enumerate((9, 2, 8, 7, 3, 6, 5))
)


class Quiet(BaseHTTPRequestHandler):
    """A server that does not log requests."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Files(Quiet, SimpleHTTPRequestHandler):
    """A server of the files in a folder."""


@contextmanager
def hosting(handler: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a handler of requests answer in place of the host of the public losses."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setattr(datasets, "HOST", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve a folder in place of the host of the public losses, with an empty cache; yields the folder."""
    root = folder / "host"
    root.mkdir()
    monkeypatch.setenv("BAYESLAW_CACHE", str(folder / "cache"))
    with hosting(partial(Files, directory=str(root)), monkeypatch):
        yield root


def publish(monkeypatch: pytest.MonkeyPatch, root: Path, name: str, files: dict[str, bytes], losses: str = "") -> None:
    """Publish files as those of a set, with their checksums, or with that of the losses in them."""
    sums = {path: "" if losses else hashlib.sha256(data).hexdigest() for path, data in files.items()}
    published = replace(ALL[name], files=sums, losses=losses)
    for path, data in files.items():
        target = root / published.repository / published.commit / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    monkeypatch.setattr(datasets, "datasets", lambda: {name: published})
