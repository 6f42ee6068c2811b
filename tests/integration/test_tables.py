"""The heads of the tables in benchmarks/results, and the list of the older ones, benchmarks/tables.py."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tables

RESULTS = tables.ROOT / "benchmarks" / "results"


def test_every_table_names_its_commit_and_what_it_measures() -> None:
    about = tomllib.loads((tables.ROOT / "benchmarks" / "tables.toml").read_text())
    assert all(about.pop("same").values())
    for path in RESULTS.glob("*.md"):
        assert path.stem in about
        assert tables.COMMIT.search(path.read_text()), path.stem
    for name, entry in about.items():
        assert bool(entry.get("because")) == bool(entry.get("through")), name
        for pattern in entry["measures"]:
            assert list(tables.ROOT.glob(pattern)), f"{name}: {pattern}"


def commit(root: Path, path: str, text: str, subject: str) -> str:
    """Write a file, commit it and return the commit."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", subject]):
        subprocess.run(["git", "-C", root, *arguments], check=True)
    head = tables.git(root, "rev-parse", "--short", "HEAD")
    assert head is not None
    return head


def test_a_table_older_than_what_it_measures_is_listed(tmp_path: Path) -> None:
    first = commit(tmp_path, "package/engine.py", "1", "The engine")
    about = '[speed]\nmeasures = ["package"]\n'
    commit(tmp_path, "benchmarks/tables.toml", about, "What tables measure")
    commit(tmp_path, "benchmarks/results/speed.md", f"# Speed\n\n`python`, commit {first} + changes, 2026-11-23\n", "A table")
    commit(tmp_path, "docs/page.md", "a page", "Nothing that is measured")
    assert tables.older(tmp_path) == []
    change = commit(tmp_path, "package/engine.py", "2", "A faster engine")
    (found,) = tables.older(tmp_path)
    assert (found.table, found.commit, found.because) == ("speed", first, "")
    assert found.change.startswith(change)
    assert found.change.endswith("A faster engine")

    reason = about + f'through = "{change}"\nbecause = "Draws are the same."\n'
    commit(tmp_path, "benchmarks/tables.toml", reason, "Why it holds")
    assert [t.because for t in tables.older(tmp_path)] == ["Draws are the same."]
    other = commit(tmp_path, "package/engine.py", "3", "An engine with other draws")  # of which the reason says nothing
    assert [t.because for t in tables.older(tmp_path)] == [""]
    words = f'[same]\n{other} = "Words."\n\n'
    commit(tmp_path, "benchmarks/tables.toml", words + reason, "A change that moves no number")
    assert [t.because for t in tables.older(tmp_path)] == ["Draws are the same."]
    commit(tmp_path, "benchmarks/tables.toml", words.replace(other, f'"{change}..{other}"') + reason, "One of several")
    assert [t.because for t in tables.older(tmp_path)] == ["Draws are the same."]
    commit(tmp_path, "benchmarks/tables.toml", words.replace(other, f'"{first}..{change}"') + reason, "Others")
    assert [t.because for t in tables.older(tmp_path)] == [""]
    both = f'[same]\n{other} = "Words."\n{change} = "Words."\n\n'
    commit(tmp_path, "benchmarks/tables.toml", both + about, "Two such changes")
    assert tables.older(tmp_path) == []


@pytest.mark.parametrize("head", ["`python`, 2026-11-23", "`python`, commit 0123456, 2026-11-23"])
def test_a_table_without_a_known_commit_is_listed(tmp_path: Path, head: str) -> None:
    commit(tmp_path, "package/engine.py", "1", "The engine")
    commit(tmp_path, "benchmarks/tables.toml", '[speed]\nmeasures = ["package"]\n', "What tables measure")
    commit(tmp_path, "benchmarks/results/speed.md", head, "A table")
    assert [t.table for t in tables.older(tmp_path)] == ["speed"]


def test_the_head_of_a_table_has_command_commit_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["calibrate.py", "--stored", "chinchilla, normal"])
    head = tables.banner("calibrate")
    assert head.startswith("`python benchmarks/calibrate.py --stored 'chinchilla, normal'`, commit ")
    for part in (" GiB", " cores", "pymc "):
        assert part in head
