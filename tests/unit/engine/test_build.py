"""Compiled functions are kept on disk, and compiled again when what they depend on has changed."""

from __future__ import annotations

import runpy
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from numba import types
from numba.core import caching, config

from bayeslaw.engine import build
from bayeslaw.engine.compiled import Function
from tests.errors import fails


@pytest.fixture(autouse=True)
def no_warnings_yet() -> None:
    build._warn_once.cache_clear()


def twice(x: float) -> float:
    return 2 * x


def misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often `twice` had to be compiled, where compiled functions are kept in a folder."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    compiled = build.inner(twice)
    assert compiled.overloads == {}  # type: ignore[attr-defined]
    compiled.compile("float64(float64)")  # type: ignore[attr-defined]
    return int(sum(compiled.stats.cache_misses.values()))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_function_is_compiled_again_when_another_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert misses(tmp_path, monkeypatch) == 1
    assert misses(tmp_path, monkeypatch) == 0
    monkeypatch.setattr(build, "VERSION", "of other sources")
    assert misses(tmp_path, monkeypatch) == 1
    assert misses(tmp_path, monkeypatch) == 0


@pytest.mark.parametrize("error", [RuntimeError("cannot cache function 'f': no locator available"), OSError(28, "No space left")])
def test_code_that_can_not_be_kept_on_disk_is_compiled_in_memory_and_says_so(error: Exception) -> None:
    def make(cache: bool) -> str:
        if cache:
            raise error
        return "compiled"

    with pytest.warns(UserWarning, match="can't be kept on disk, so each process compiles it anew"):
        assert build.kept_on_disk(make, twice) == "compiled"


def test_code_that_can_not_be_kept_is_warned_of_once() -> None:
    """A fit on a read-only file system had eleven warnings, one for each function."""

    def make(cache: bool, name: str) -> str:
        if cache:
            raise RuntimeError(f"cannot cache function {name!r}: no locator available for file '/{name}.py'")
        return name

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert [build.kept_on_disk(partial(make, name=name), twice) for name in ("f", "g")] == ["f", "g"]
    assert [str(warning.message).partition(": ")[2] for warning in shown] == [
        "no folder for it can be written to. Name a folder in NUMBA_CACHE_DIR."
    ]


@pytest.mark.slow
def test_a_disk_that_is_full_when_a_function_is_first_called_costs_only_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    with pytest.warns(UserWarning, match="can't be kept on disk, .* No space left"):
        assert misses(tmp_path, monkeypatch) == 1


def scaled(x: float) -> float:
    return factor * x  # type: ignore[name-defined,no-any-return]  # noqa: F821 - given when it is compiled


def scaling(key: str, factor: float) -> Any:
    return build.compiled(types.float64(types.float64), scaled, key, factor=factor).ctypes


@pytest.mark.slow
def test_functions_of_two_keys_are_kept_in_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba writes the list of its files before the files: of two laws kept at once, one could be left with the other's code."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    save, others = caching.IndexDataCacheFile._save_data, [("b", 3.0)]

    def save_later(self: Any, name: str, data: object) -> None:
        if others:
            for path in tmp_path.rglob("*.nbi"):  # the other process had looked before this one wrote its list
                path.unlink()
            assert scaling(*others.pop())(1.0) == 3.0
        save(self, name, data)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", save_later)
    assert scaling("a", 2.0)(1.0) == 2.0
    assert scaling("b", 3.0)(1.0) == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("left", [b"", b"\x00\x00"])
def test_kept_code_that_is_damaged_is_compiled_anew(
    ending: str, left: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fit ended in an EOFError, which the command line took for Ctrl-D and called aborted."""
    for attempt in range(2):
        assert misses(tmp_path, monkeypatch) == 1
        assert scaling("a", 2.0)(1.0) == 2.0
        assert misses(tmp_path, monkeypatch) == 0
        if not attempt:
            for path in tmp_path.rglob(f"*{ending}"):
                path.write_bytes(left)


def test_graphs_are_written_in_packages_whose_change_compiles_them_again_alone() -> None:
    """A function that writes a graph elsewhere would go on as it was compiled before it was changed."""
    package = Path(build.__file__).parents[1]
    writers = {file for file in package.rglob("*.py") if "Program.of(" in file.read_text(encoding="utf-8")}
    assert writers
    assert {file.relative_to(package).parts[0] for file in writers} <= {*build.SOURCES}


def test_other_errors_of_the_compiler_are_not_hidden() -> None:
    def make(cache: bool) -> str:
        raise RuntimeError(f"of LLVM, {cache}")

    with pytest.raises(RuntimeError, match="of LLVM, True"):
        build.kept_on_disk(make, twice)


@pytest.mark.slow
def test_the_version_covers_every_source_that_a_density_depends_on(tmp_path: Path) -> None:
    package = Path(build.__file__).parents[1]
    for name in ("engine/lowering.py", "engine/maps.py", "engine/coordinates.py", "noise/density.py", "laws/formula.py"):
        copy = tmp_path / name.replace("/", "-")
        for folder in build.SOURCES:
            shutil.copytree(package / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        assert build.version_of(copy) == build.VERSION
        with (copy / name).open("a", encoding="utf-8") as changed:
            changed.write("# changed")
        assert build.version_of(copy) != build.VERSION


def test_threads_that_compile_wait_for_each_other() -> None:
    """Whether loops have vector instructions is a setting of the process, which another thread changed while this one compiled."""
    settings: Any = config
    before, inside, end = settings.LOOP_VECTORIZE, Event(), Event()

    def compile_long() -> None:
        with build._vectorising_loops(False):
            inside.set()
            assert end.wait(10)

    def compile_other() -> int:
        with build._vectorising_loops(True):
            return int(settings.LOOP_VECTORIZE)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(compile_long)
        assert inside.wait(10)
        second = pool.submit(compile_other)
        assert not wait([second], timeout=0.1).done
        assert settings.LOOP_VECTORIZE == 0
        end.set()
    first.result()
    assert second.result() == 1
    assert before == settings.LOOP_VECTORIZE


@pytest.mark.parametrize(("setting", "value"), [("OPT", 0), ("BOUNDSCHECK", 1)])
def test_code_compiled_under_other_settings_of_numba_is_kept_apart(
    setting: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NUMBA_OPT=0 once would leave slow code, whose results have other last digits, for all later processes."""
    monkeypatch.setattr(config, setting, value)
    other = runpy.run_path(str(build.__file__))["versioned"](twice)
    assert other.__qualname__ != build.versioned(twice).__qualname__


def test_a_switched_off_compiler_is_an_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with fails("no-compiler", "NUMBA_DISABLE_JIT"):
        runpy.run_path(str(build.__file__))


def test_a_graph_is_asked_for_its_memory_with_addresses_that_can_be_read() -> None:
    """Only the optimiser of LLVM moves its reading of the point past the return; NUMBA_OPT=0 ended in a segmentation fault."""
    points = list[int]()

    def needed(point: int, *_: int) -> float:
        points.append(point)
        return 0.0

    Function(2, SimpleNamespace(ctypes=needed, address=0), ())
    assert all(points)
