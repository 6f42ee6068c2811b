"""Faults of the machine: a parent that is killed, full disks, folders that go away, standard output that nobody reads."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayeslaw.posterior.fit import Fit
from tests import items
from tests.commands import Command, refused, rejected, unchanged
from tests.fixed import line_fit, loaded_fit

IDLE = """
import os, time
from bayeslaw.core.executors import executor
from tests.items import slow_pid

if __name__ == "__main__":
    run = executor("processes:2")
    for outcome in run.map(slow_pid, range(8)):
        print(outcome.value, flush=True)
    time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("script", "lines"), [(items.SLEEPING, 2), (IDLE, 8)], ids=["at work", "idle"])
def test_workers_of_a_killed_parent_end_within_five_seconds(script: str, lines: int, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    command, pipe = [sys.executable, str(tmp_path / "script.py"), "processes:2"], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        pids = {int(process.stdout.readline()) for _ in range(lines)}
        os.kill(process.pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [pid for pid in pids if is_running(pid)] == []


def bayeslaw(*words: str, out: Any = subprocess.PIPE, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options.pop("flags", ()), "-m", "bayeslaw", *words]
    return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=60, **options)


@pytest.mark.parametrize("words", [("show", "fit.nc", "--json"), ("--help",)])
def test_a_full_standard_output_is_one_line_on_standard_error(words: tuple[str, ...], here: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = bayeslaw(*words, out=full)
    assert (done.returncode, done.stderr) == (2, "Error: Standard output can't be written: No space left on device.\n")


def test_a_closed_standard_output_loses_no_file(here: Path) -> None:
    command = f'"{sys.executable}" -m bayeslaw forecast fit.nc --set x=1 -o new.csv >&-'
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len((here / "new.csv").read_text(encoding="utf-8").splitlines()) == 2


def test_without_docstrings_there_is_one_line(here: Path) -> None:
    done = bayeslaw("show", "fit.nc", flags=["-OO"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: ArviZ needs its docstrings: run without -OO (PYTHONOPTIMIZE=2).\n"


@pytest.mark.parametrize(("name", "value"), [("OMP_NUM_THREADS", "4,2"), ("NUMBA_NUM_THREADS", "0"), ("HOME", "")])
def test_an_environment_in_which_packages_can_not_be_imported_is_one_line(
    name: str, value: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTensor and Numba end with a traceback, as where a container has no entry for its user."""

    def imported(_: object = None) -> None:
        raise RuntimeError("as of PyTensor.")

    monkeypatch.setattr("bayeslaw.load_fit", imported)
    monkeypatch.setenv(name, value)
    if name == "HOME":
        monkeypatch.setattr(Path, "home", imported)
    refused(command("show", "fit.nc"), "RuntimeError: as of PyTensor.", name, value)


@pytest.mark.parametrize("delay", [0.3, 0.9])
def test_ctrl_c_while_packages_are_imported_has_no_traceback(delay: float, here: Path) -> None:
    command, pipe = [sys.executable, "-c", INTERRUPTIBLE, "show", "fit.nc"], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        time.sleep(delay - 0.3)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGINT, 130)
    assert "Traceback" not in error


def test_ctrl_c_while_commands_are_put_together_has_no_traceback(here: Path) -> None:
    script = f"import typer.main\n{INTERRUPTED_AT_ONCE}\n{INTERRUPTIBLE}"
    command = [sys.executable, "-c", script, "show", "fit.nc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "started\n", "")


INTERRUPTED_AT_ONCE = """
def interrupted(_):
    signal.raise_signal(signal.SIGINT)

typer.main.get_command = interrupted
"""
INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent in the background may have turned off
from bayeslaw.__main__ import main

class FirstImport:
    def find_spec(self, *_):
        sys.meta_path.remove(self)
        print("started", flush=True)  # in main, however slow the machine is

sys.meta_path.insert(0, FirstImport())
main()
"""


# --- a fit that can't be written after it was sampled -----------------------------------------------------------------


def quick(monkeypatch: pytest.MonkeyPatch, before_saving: Callable[[], None]) -> None:
    """Let `bayeslaw fit` return a fit at once, after something has happened to the disk."""

    def fit(*_: object, **__: object) -> Fit:
        before_saving()
        return line_fit()

    monkeypatch.setattr("bayeslaw.fit", fit)


FIT = ("fit", "line.toml", "line.csv", "-q", "-o")


@pytest.mark.parametrize("fault", ["folder removed", "folder replaced by a file", "disk full"])
def test_draws_that_cannot_be_written_are_kept_elsewhere(
    fault: str, command: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("out", "temporary"):
        (here / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(here / "temporary"))

    def happen() -> None:
        if fault == "disk full":
            real = Path.write_bytes
            full = OSError(errno.ENOSPC, "No space left on device")
            monkeypatch.setattr(
                Path, "write_bytes", lambda path, data: fail(full) if path.parent.name == "out" else real(path, data)
            )
        else:
            (here / "out").rmdir()
            if fault == "folder replaced by a file":
                (here / "out").touch()

    quick(monkeypatch, happen)
    done = command(*FIT, "out/new.nc")
    (kept,) = (here / "temporary").iterdir()
    rejected(done, "kept-elsewhere", kept)
    assert len(done.err.splitlines()) == 1
    assert loaded_fit(kept).law.name == "line"
    assert not (here / "out").is_dir() or not list((here / "out").iterdir())


def test_draws_that_can_be_written_nowhere_are_lost_in_one_line(
    command: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(here / "temporary"))
    quick(monkeypatch, (here / "out").rmdir)
    (here / "out").mkdir()
    done = command(*FIT, "out/new.nc")
    rejected(done, "draws-lost", "out", "temporary")
    assert len(done.err.splitlines()) == 1


def fail(error: OSError) -> None:
    raise error


def test_a_limit_on_the_size_of_files_keeps_the_older_fit_and_leaves_no_other(here: Path) -> None:
    """A real process: HDF5 crashed there, and left a file that had been begun."""
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); import tempfile, sys, bayeslaw\n"
        "from tests.fixed import line_fit\n"
        "bayeslaw.fit = lambda *_, **__: line_fit()\n"
        "tempfile.tempdir = '.'\n"
        f"sys.argv = ['bayeslaw', *{FIT!r}, 'older.nc']\n"
        "from bayeslaw.__main__ import main\n"
        "main()\n"
    )
    with unchanged(here):
        done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
