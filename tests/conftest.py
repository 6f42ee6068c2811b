"""Fixtures that several test files use."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from hypothesis import settings
from threadpoolctl import threadpool_limits
from typer.main import get_command

from bayeslaw.core.executors import available_cores
from bayeslaw.forecasting.stack import Stack
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import card_folder, law_names, load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, Done
from tests.errors import codes_of
from tests.kept import keeping

os.environ.pop("COLUMNS", None)  # what is printed is that of a pipe, whatever terminal the tests run in

settings.register_profile("same every time", derandomize=True, deadline=None, database=None)
settings.load_profile("same every time")


def pytest_collection_finish() -> None:
    """Leave what was imported out of garbage collections: they took an eighth of the unit tests' time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Linear algebra in one thread, here and in processes that tests start: there is a worker of the tests for each core.

    Threads of several workers wait for one another in loops, and take many times the processor time. Tests that compare processes
    or executors use `all_blas_threads`.
    """
    with threadpool_limits(1, "blas"), patch.dict(os.environ, OPENBLAS_NUM_THREADS="1"):
        yield


@pytest.fixture(scope="module")
def all_blas_threads() -> Iterator[None]:
    """Linear algebra in as many threads as a user has: sums by several threads have other last digits than those of workers."""
    with threadpool_limits(available_cores(), "blas"), patch.dict(os.environ):
        os.environ.pop("OPENBLAS_NUM_THREADS", None)
        yield


@pytest.fixture(params=law_names())
def law(request: pytest.FixtureRequest) -> Law:
    """Every law that comes with bayeslaw, one after the other."""
    return load_law(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture(scope="session")
def small_fit() -> Fit:
    """A quick fit of chinchilla to 40 rows: too short to pass its checks."""
    law = load_law("chinchilla")
    return fit(law, oracles.table(law, runs=8), draws=200, tune=200, chains=2, seed=1, progress=False)


def _sound(name: str, runs: int, folder: Path, *, draws: int, tune: int) -> Fit:
    law = load_law(name)
    with keeping(folder):
        made = fit(law, oracles.table(law, runs=runs), draws=draws, tune=tune, chains=2, seed=1, progress=False)
    assert made.passed, made.checks
    return made


@pytest.fixture(scope="session")
def sound_fit(kept_folder: Path) -> Fit:
    """A fit of chinchilla to 40 rows that passes its checks."""
    return _sound("chinchilla", 8, kept_folder, draws=1500, tune=300)


@pytest.fixture(scope="session")
def ptpp_fit(kept_folder: Path) -> Fit:
    """A fit of ptpp-floor to 60 rows that passes its checks."""
    return _sound("ptpp-floor", 12, kept_folder, draws=2000, tune=800)


@pytest.fixture(scope="module")
def stack(sound_fit: Fit, ptpp_fit: Fit) -> Stack:
    """A stack of both; of a module, since the unit tests have other fits of these names."""
    return Stack.of({"first": sound_fit, "second": ptpp_fit}, {"first": 0.3, "second": 0.7})


@pytest.fixture(scope="session")
def kept_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where draws are kept, one folder for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kept_draws"


@pytest.fixture(scope="module")
def kept_draws(kept_folder: Path) -> Iterator[None]:
    """Sample each density once with the same settings in all modules that use this, in whatever worker; see `tests.kept`."""
    with keeping(kept_folder):
        yield


@pytest.fixture(scope="module")
def kept_draws_of_workers(kept_folder: Path) -> Iterator[None]:
    """As `kept_draws`, and also where worker processes make the fits; not for modules that compare executors."""
    with keeping(kept_folder, workers=True):
        yield


@cache
def built(app: Any) -> Any:
    """The parser of the command line, made once: it took a third of the time of tests that run commands."""
    return get_command(app)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line in this process, as the console script does."""
    from bayeslaw.cli import main as cli  # slow to import

    monkeypatch.setattr("typer.main.get_command", built)

    def run(*args: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["bayeslaw", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err, frozenset(codes_of(ended.value.__context__)))

    return run


@pytest.fixture
def pictures_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take most of the time of a report; test_report.py draws them."""
    from bayeslaw.reporting.figures import Picture  # slow to import

    monkeypatch.setattr(Picture, "bytes", lambda _, kind: b"<svg/>" if kind == "svg" else b"%PDF")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory, sound_fit: Fit, small_fit: Fit) -> Path:
    """Tables, fits that passed and failed their checks, a card, corrupted and foreign files; not to be changed."""
    return write_files(tmp_path_factory.mktemp("files"), sound_fit, small_fit)


def write_files(folder: Path, sound_fit: Fit, small_fit: Fit) -> Path:
    """Write the files of the fixture `files` into a folder."""
    oracles.table(load_law("chinchilla"), runs=8).to_csv(folder / "runs.csv", index=False)
    oracles.table(load_law("chinchilla"), seed=8, runs=4).to_csv(folder / "held.csv", index=False)
    oracles.table(load_law("ptpp-floor"), runs=8).to_csv(folder / "ptpp.csv", index=False)
    sound_fit.save(folder / "fit.nc")
    small_fit.save(folder / "failed.nc")
    (folder / "damaged.nc").write_bytes((folder / "fit.nc").read_bytes()[:20_000])
    (folder / "text.nc").write_text("not a fit", encoding="utf-8")
    xr.Dataset({"x": ("t", [1.0, 2.0])}).to_netcdf(folder / "foreign.nc", engine="h5netcdf")
    shutil.copy(card_folder() / "chinchilla.toml", folder / "card.toml")
    for older in ("older.nc", "older.csv", "older.png"):
        (folder / older).write_bytes(b"an older result")
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Path) -> Path:
    """A working folder with a copy of `files`."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
