"""Executors with real work: a Dask cluster, scripts, and fits and bootstraps that are the same on every executor."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask import config as dask_config
from distributed import Client, LocalCluster

from bayeslaw.core import executors
from bayeslaw.core.errors import CardError
from bayeslaw.core.executors import Dask, Executor, executor, values_of
from bayeslaw.inference import sample as sampling
from bayeslaw.inference.batch import Task, fit_many
from bayeslaw.inference.fit import fit
from bayeslaw.inference.point import BATCH, point_fit
from bayeslaw.laws.card import card_folder, load_law
from tests import items, oracles
from tests.errors import fails

pytestmark = pytest.mark.usefixtures("all_blas_threads")
QUICK: dict[str, Any] = {"draws": 100, "tune": 100, "chains": 2, "discrepancy": "none"}


def cluster(workers: int, *, processes: bool = False) -> LocalCluster:
    """A Dask cluster, within this process or with worker processes."""
    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    return LocalCluster(n_workers=workers, threads_per_worker=1, processes=processes, **options)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A Dask scheduler with two worker processes, which gives an item up after two deaths."""
    with dask_config.set({"distributed.scheduler.allowed-failures": 1}), cluster(2, processes=True) as whole:
        yield whole.scheduler_address


@pytest.fixture(scope="module")
def two() -> Iterator[Executor]:
    with executor("processes:2") as run:
        yield run


@pytest.fixture(scope="module")
def dask(address: str) -> Iterator[Executor]:
    with executor(f"dask:{address}") as run:
        yield run


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Executor:
    return executor() if request.param == "in-process" else request.getfixturevalue(request.param)


# --- Dask -------------------------------------------------------------------------------------------------------------


def test_dask_gives_each_item_its_outcome(dask: Executor) -> None:
    assert values_of(dask.map(items.square, range(20))) == [i * i for i in range(20)]
    outcomes = dask.map(items.fault, range(5), what="fit")
    assert items.values_or_errors(outcomes) == [10, 11, "fit 3: two is too many.", "fit 4: KeyError: 3", 14]
    errors = items.values_or_errors(dask.map(items.generator, [1]))
    assert errors == ["item 1: TypeError: cannot pickle 'generator' object"]
    mixed: list[Any] = [(i for i in [1]), 3]
    assert items.values_or_errors(dask.map(items.square, mixed)) == [*errors, 9]


def test_an_address_names_a_dask_executor(address: str) -> None:
    with executor(address) as run:
        assert isinstance(run, Dask)


@pytest.mark.parametrize("deaths", [1, 99])
def test_an_item_that_kills_its_dask_worker_costs_only_itself(dask: Executor, deaths: int, tmp_path: Path) -> None:
    work = items.Deadly(tmp_path, at=3, deaths=deaths)
    outcomes = dask.map(work, range(12))
    assert [o.value for o in outcomes if not o.error] == [i * i for i in range(12) if deaths == 1 or i != 3]
    assert [o.index for o in outcomes if o.error] == [3] * (deaths > 1)
    assert work.tries() - work.tries("3") <= 11 + 4  # Dask may have sent another item to the same worker


def test_items_fail_on_a_cluster_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "LONELY", 0.5)
    with cluster(0) as empty, executor(empty.scheduler_address) as run:
        outcomes = run.map(items.square, [1, 2])
    assert [o.index for o in outcomes] == [0, 1]
    assert "dask worker inproc://" in outcomes[1].error


def test_a_cluster_that_ends_costs_only_items_that_are_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 0.5)
    with cluster(1) as whole, executor(whole.scheduler_address) as run:
        stream = run.stream(items.square, range(1, 9))
        outcomes = [next(stream)]
        whole.close()
        outcomes += stream
    assert sorted(o.index for o in outcomes) == list(range(8))
    assert outcomes[0].value == 1
    assert outcomes[-1].error.endswith(" is gone.")


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:1", "dask:tpc://127.0.0.1:1"])
def test_an_address_without_a_scheduler_is_refused(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 0.5)
    with fails("no-scheduler", where.removeprefix("dask:")):
        executor(where)


# --- scripts ----------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_workers_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "sleeping.py"
    script.write_text(items.SLEEPING, encoding="utf-8")
    command, pipe = [sys.executable, str(script), "processes:2"], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stdout
        pids = [int(process.stdout.readline()) for _ in range(2)]
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert errors.count("Traceback") == 1
    assert errors.endswith("KeyboardInterrupt\n")
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(items.UNGUARDED, encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


# --- fits -------------------------------------------------------------------------------------------------------------


def tasks(count: int) -> list[Task]:
    law = load_law("chinchilla")
    return [Task(law, oracles.table(law, seed=i, runs=8), QUICK | {"seed": i}) for i in range(count)]


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return [items.fit_digest(task) for task in tasks(3)]


def test_draws_do_not_depend_on_the_cores(expected: list[str]) -> None:
    task = tasks(1)[0]
    assert items.digest(fit(task.law, task.runs, **task.options, progress=False, cores=2)) == expected[0]


@pytest.mark.parametrize("run", ["in-process", "two"], indirect=True)
def test_fits_are_the_same_on_every_executor(run: Executor, expected: list[str]) -> None:
    law = load_law("chinchilla")
    faulty = Task(law, oracles.table(law, runs=8).assign(loss=-1.0))
    outcomes = fit_many([*tasks(2), faulty], executor=run, then=items.digest, progress=False)
    assert [o.value for o in outcomes] == [*expected[:2], None]
    assert outcomes[2].error.startswith("fit 3: ")


def test_a_dask_worker_killed_while_it_fits_costs_no_fit(address: str, expected: list[str], tmp_path: Path) -> None:
    work = items.Noted(tmp_path, items.fit_digest)
    digests: dict[int, object] = {}
    with executor(address) as run, Client(address, set_as_default=False) as client:
        for outcome in run.stream(work, tasks(3)):
            digests[outcome.index] = outcome.value
            if len(digests) == 1:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert [digests[i] for i in range(3)] == expected
    assert len(list(tmp_path.iterdir())) in (3, 4)


def test_whole_fits_come_back_from_workers(two: Executor, tmp_path: Path, expected: list[str]) -> None:
    task = tasks(1)[0]
    table = tmp_path / "runs.csv"
    oracles.table(load_law("chinchilla"), runs=8).to_csv(table, index=False)
    fits = values_of(fit_many([task, Task(card_folder() / "chinchilla.toml", table, QUICK)], executor=two, progress=False))
    assert [items.digest(fit) for fit in fits] == [expected[0]] * 2
    fits[0].save(tmp_path / "fit.nc")


def test_tasks_with_faults_are_refused_before_any_fit() -> None:
    with pytest.raises(CardError, match="chinchila"):
        fit_many([Task("chinchilla", oracles.table(load_law("chinchilla"))), Task("chinchila", "runs.csv")])


@pytest.mark.filterwarnings("ignore:Found chain dimension to be longer than draw dimension")  # of nutpie's trace
@pytest.mark.parametrize(("tune", "run"), [(100, 2), (1_000_000, 1)], ids=["drawing", "tuning in the first run"])
def test_ctrl_c_ends_all_fits(tune: int, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single fit would keep its draws, and the next would begin."""
    wait, runs = sampling.wait_for_chains, itertools.count(1)

    def interrupted(sampler: Any) -> Any:
        if next(runs) == run:
            threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
        return wait(sampler)

    monkeypatch.setattr(sampling, "wait_for_chains", interrupted)
    task = Task("chinchilla", oracles.table(load_law("chinchilla"), runs=8), {"draws": 1_000_000, "tune": tune, "chains": 1})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_many([task, task], progress=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert next(runs) == run + 1


def test_bootstraps_are_the_same_on_every_executor(two: Executor) -> None:
    point = point_fit("chinchilla", oracles.table(load_law("chinchilla"), runs=8), starts=3)
    size = BATCH + 1
    here, there, more = point.bootstrap(size), point.bootstrap(size, executor=two), point.bootstrap(size + 1, executor=two)
    for name, numbers in here.items():
        assert numbers.shape == (size,)
        assert np.array_equal(there[name], numbers)
        assert np.array_equal(more[name][:size], numbers)
