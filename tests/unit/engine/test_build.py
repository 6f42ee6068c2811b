"""Compiled functions are kept on disk, and compiled again when the source of any of them has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from numba.core import config

from bayeslaw.engine import build


def twice(x: float) -> float:
    return 2 * x


def misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often `twice` had to be compiled, where compiled functions are kept in a folder."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    compiled = build.jit(twice)
    assert compiled(1.5) == 3.0
    return int(sum(compiled.stats.cache_misses.values()))  # type: ignore[attr-defined]


def test_a_function_is_compiled_again_when_another_compiled_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert misses(tmp_path, monkeypatch) == 1
    assert misses(tmp_path, monkeypatch) == 0
    monkeypatch.setattr(build, "VERSION", "of other sources")
    assert misses(tmp_path, monkeypatch) == 1
    assert misses(tmp_path, monkeypatch) == 0


def test_the_version_covers_every_file_with_compiled_code(tmp_path: Path) -> None:
    folder = Path(build.__file__).parent
    marks = ("from numba", "from bayeslaw.engine.build import")
    compiled_code = [f for f in folder.glob("*.py") if any(mark in f.read_text(encoding="utf-8") for mark in marks)]
    assert {f.name for f in compiled_code} == {f"{name}.py" for name in build.COMPILED}
    for file in compiled_code:
        shutil.copytree(folder, tmp_path / file.stem)
        assert build.version_of(tmp_path / file.stem) == build.VERSION
        with (tmp_path / file.stem / file.name).open("a", encoding="utf-8") as changed:
            changed.write("# changed")
        assert build.version_of(tmp_path / file.stem) != build.VERSION
