"""Hosts of public losses that send something else: other bytes, other places, other names, nothing at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bayeslaw.data import datasets
from tests.commands import Command, rejected, unchanged
from tests.hosts import ALL, CHINCHILLA, Quiet, hosting

FILE = "data/svg_extracted_data.csv"
GOOD = CHINCHILLA.encode()


@contextmanager
def host(status: int, body: bytes, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A host that gives one answer to all; yields the paths that it was asked for."""
    asked: list[str] = []

    class Answer(Quiet):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    with hosting(Answer, monkeypatch):
        yield asked


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, an empty cache, and a set of one file with the checksum of the sound table."""
    source = replace(ALL["chinchilla"], files={FILE: hashlib.sha256(GOOD).hexdigest()})
    monkeypatch.setattr(datasets, "datasets", lambda: {"chinchilla": source})
    monkeypatch.setenv("BAYESLAW_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chinchilla.csv").write_text("an older table", encoding="utf-8")
    return tmp_path


ANSWERS: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "another table": (200, GOOD + b"1,2,#f,1e8,1e18,#f,1\n", {}),
    "one byte changed": (200, GOOD.replace(b"1e8", b"2e8", 1), {}),
    "nothing": (200, b"", {}),
    "a page": (200, b"<html>log in</html>", {"Content-Type": "text/html"}),
    "half of it": (200, GOOD[: len(GOOD) // 2], {}),
    "a zip whose names lead elsewhere": (200, b"PK\x03\x04" + bytes(26) + b"../../hacked", {"Content-Type": "application/zip"}),
    "what claims to be gzip": (200, GOOD, {"Content-Encoding": "gzip"}),
    "less than it promised": (200, GOOD, {"Content-Length": str(len(GOOD) + 100)}),
    "another name": (200, b"x", {"Content-Disposition": "attachment; filename=../../hacked"}),
    "a circle of redirects": (302, b"", {"Location": f"/{FILE}"}),
    "a redirect to a file": (302, b"", {"Location": "file:///etc/passwd"}),
    "a redirect to nobody": (302, b"", {"Location": "http://127.0.0.1:9/"}),
    "a redirect to nowhere": (302, b"", {"Location": "http://[/"}),
    "not found": (404, b"no", {}),
    "forbidden": (403, b"no", {}),
    "too many requests": (429, b"no", {}),
    "an error of its own": (500, b"no", {}),
    "an odd status": (299, b"x", {}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_host_sends_instead_is_refused_and_not_kept(
    name: str, published: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unchanged(published):
        with host(*ANSWERS[name], monkeypatch) as asked:
            done = command("data", "fetch", "chinchilla")
        assert asked
        assert done.status == 2
        assert done.err.startswith("Error: chinchilla: ")
        assert len(done.err.splitlines()) == 1


def test_a_cached_file_that_was_changed_is_downloaded_again(
    published: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (published / "chinchilla.csv").unlink()
    with host(200, GOOD, {}, monkeypatch) as asked:
        assert command("data", "fetch", "chinchilla").status == 0
        (kept,) = (path for path in (published / "cache").rglob("*") if path.is_file())
        kept.write_bytes(GOOD.replace(b"1e8", b"9e8"))
        assert command("data", "fetch", "chinchilla").status == 0
    assert len(asked) == 2
    assert kept.read_bytes() == GOOD


def test_a_cache_that_is_a_file_is_refused(published: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (published / "cache").write_text("", encoding="utf-8")
    with host(200, GOOD, {}, monkeypatch):
        rejected(command("data", "fetch", "chinchilla"), "unwritable-cache")


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "/", "chinchilla/../x", "CHINCHILLA", "\u202e"])
def test_a_name_of_no_set_is_refused(name: str, published: Path, command: Command) -> None:
    rejected(command("data", "fetch", name), "unknown-dataset")
