"""Executors: the same outcomes by all of them, workers that die, and fits and bootstraps through them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from bayeslaw.core import executors
from bayeslaw.core.errors import BayeslawError, CardError
from bayeslaw.core.executors import Dask, Executor, InProcess, Outcome, Processes, executor, opened, values_of
from bayeslaw.inference import batch as many
from bayeslaw.inference import sample as sampling
from bayeslaw.inference.batch import Task, fit_many
from bayeslaw.inference.fit import fit
from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import card_folder, load_law
from bayeslaw.posterior.fit import Fit
from tests import items, oracles

QUICK: dict[str, Any] = {"draws": 100, "tune": 100, "chains": 2}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A Dask scheduler with two worker processes."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def one() -> Iterator[Executor]:
    with executor("processes:1") as run:
        yield run


@pytest.fixture(scope="module")
def two() -> Iterator[Executor]:
    with executor("processes:2") as run:
        yield run


@pytest.fixture(scope="module")
def dask(address: str) -> Iterator[Executor]:
    with executor(f"dask:{address}") as run:
        yield run


@pytest.fixture(params=["here", "one", "two", "dask"])
def run(request: pytest.FixtureRequest) -> Executor:
    """Every executor, one after the other."""
    return executor() if request.param == "here" else request.getfixturevalue(request.param)


def told(outcomes: list[Outcome[Any]]) -> list[Any]:
    return [o.error or o.value for o in outcomes]


# --- the same everywhere ----------------------------------------------------------------------------------------------


def test_outcomes_come_in_the_order_of_the_items(run: Executor) -> None:
    outcomes = run.map(items.square, range(20))
    assert [(o.index, o.value) for o in outcomes] == [(i, i * i) for i in range(20)]
    assert values_of(outcomes) == [i * i for i in range(20)]
    assert run.map(items.square, []) == []
    assert sorted(o.index for o in run.stream(items.square, [3.0, 4.0])) == [0, 1]


def test_an_item_that_fails_costs_none_of_the_others(run: Executor) -> None:
    outcomes = run.map(items.fault, range(5), what="fit")
    assert told(outcomes) == [10, 11, "fit 3: two is too many.", "fit 4: KeyError: 3", 14]
    assert "return {0: 10, 1: 11, 4: 14}[x]" in outcomes[3].traceback
    with pytest.raises(BayeslawError) as caught:
        values_of(outcomes)
    assert str(caught.value) == "fit 3: two is too many. (2 of 5 failed.)"
    assert len(caught.value.__notes__) == 2


def test_functions_without_a_module_travel_too(run: Executor) -> None:
    add = 3
    assert values_of(run.map(lambda x: x + add, range(4))) == [3, 4, 5, 6]


def test_progress_goes_to_standard_error(two: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(two.map(items.fault, [1, 2], progress=True)) == [11, "item 2: two is too many."]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["two", "dask"])
def test_what_cant_travel_has_failed(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    back = told(run.map(items.generator, [1, 2]))
    assert back == [f"item {i}: TypeError: cannot pickle 'generator' object" for i in (1, 2)]
    assert told(run.map(items.square, [3, iter([1]).__iter__, (i for i in [1])]))[::2] == [9, back[0].replace("1", "3")]


# --- workers that die -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two", "dask"])
@pytest.mark.parametrize("deaths", [1, 99])
def test_a_lost_worker_costs_its_own_item(name: str, deaths: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """One that dies is tried again; one that always kills its worker is given up; the others are done once."""
    run = request.getfixturevalue(name)
    work = items.Deadly(tmp_path, at=3, deaths=deaths)
    outcomes = run.map(work, range(12))
    errors = [o.error for o in outcomes if o.error]
    assert [o.value for o in outcomes if not o.error] == [i * i for i in range(12) if deaths == 1 or i != 3]
    if deaths == 1:
        assert not errors
        assert work.tries("3") == 2
    else:
        assert len(errors) == 1
        assert errors[0].startswith("item 4: its ")
        assert errors[0].endswith("was there memory enough?")
    assert work.tries() - work.tries("3") <= 11 + 4 * (name == "dask")  # Dask may have sent another item to the same worker


def test_a_worker_lost_while_it_had_nothing_to_do(two: Executor) -> None:
    pids = set(values_of(two.map(items.slow_pid, range(6))))
    os.kill(killed := pids.pop(), signal.SIGKILL)
    assert killed not in values_of(two.map(items.slow_pid, range(6)))


def test_a_stream_left_early_ends_its_work(two: Executor) -> None:
    stream = two.stream(items.square, range(50))
    assert next(stream).value is not None
    with pytest.raises(BayeslawError, match="still at work on other items"):
        two.map(items.square, [1])
    stream.close()
    assert values_of(two.map(items.square, [5])) == [25]


def test_ctrl_c_ends_workers(tmp_path: Path) -> None:
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


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(items.UNGUARDED, encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "under `if __name__ == '__main__':`, because each worker reads the script." in done.stderr.splitlines()[-1]


def cluster(workers: int) -> LocalCluster:
    """A Dask cluster within this process."""
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )


def test_a_cluster_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "LONELY", 0.5)
    with cluster(0) as empty, executor(empty.scheduler_address) as run:
        outcomes = run.map(items.square, [1, 2])
    assert [o.index for o in outcomes] == [0, 1]
    assert "has had no workers for some minutes; start them with `dask worker inproc://" in outcomes[1].error


def test_a_cluster_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done is kept; the rest is told to have failed."""
    monkeypatch.setattr(executors, "PATIENCE", 0.5)
    with cluster(1) as whole, executor(whole.scheduler_address) as run:
        stream = run.stream(items.square, range(1, 9))
        outcomes = [next(stream)]
        whole.close()
        outcomes += stream
    assert sorted(o.index for o in outcomes) == list(range(8))
    assert outcomes[0].value == 1
    assert outcomes[-1].error.endswith(" is gone.")


# --- which executor ---------------------------------------------------------------------------------------------------


def test_executors_by_name(address: str, two: Executor) -> None:
    assert type(executor()) is type(executor("in-process")) is InProcess
    found = executor("processes"), executor(" processes:3 ")
    assert [type(f) for f in found] == [Processes, Processes]
    assert [f.count for f in found if isinstance(f, Processes)] == [executors.available_cores(), 3]
    assert executor(two) is two
    with executor(address) as one, executor(f"dask:{address}") as other:
        assert isinstance(one, Dask)
        assert isinstance(other, Dask)
    with opened(two) as same:
        assert same is two
    assert values_of(two.map(items.square, [2])) == [4]


@pytest.mark.parametrize(
    "text",
    ["", "process", "processes:", "processes:0", "processes:two", "in-process:2", "dask", "dask:", "http://a", "tcp:1", "://"],
)
def test_texts_that_name_no_executor(text: str) -> None:
    with pytest.raises(BayeslawError) as caught:
        executor(text)
    assert str(caught.value) == (
        f"{text!r} is no executor; write in-process, processes, processes:4 or the address of a Dask scheduler "
        "such as tcp://10.0.0.1:8786."
    )


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BayeslawError) as caught:
        executor("tcp://10.0.0.1:8786")
    assert str(caught.value) == 'For the executor tcp://10.0.0.1:8786 install Dask: pip install "bayeslaw[dask]".'


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:1", "dask:tpc://127.0.0.1:1"])
def test_no_scheduler_there(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 0.5)
    with pytest.raises(BayeslawError, match=r"No Dask scheduler answers at t.*://127\.0\.0\.1:1: "):
        executor(where)


# --- fits -------------------------------------------------------------------------------------------------------------


def tasks(count: int) -> list[Task]:
    law = load_law("chinchilla")
    return [Task(law, oracles.table(law, seed=i, runs=8), QUICK | {"seed": i}) for i in range(count)]


def digest(made: Fit) -> str:
    return str(made.info["draws_sha256"])


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return [digest(fit(t.law, t.runs, **t.options, progress=False)) for t in tasks(8)]


def test_draws_do_not_depend_on_the_cores(expected: list[str]) -> None:
    task = tasks(1)[0]
    for cores in (1, 2, 7):
        assert digest(fit(task.law, task.runs, **task.options, progress=False, cores=cores)) == expected[0]
    with pytest.raises(BayeslawError, match=r"cores must be a whole number of at least 1, not 0\."):
        fit(task.law, task.runs, cores=0)


@pytest.mark.parametrize("run", ["here", "two", "dask"], indirect=True)
def test_fits_are_the_same_everywhere(run: Executor, expected: list[str]) -> None:
    law = load_law("chinchilla")
    faulty = Task(law, oracles.table(law, runs=8).assign(loss=-1.0))
    outcomes = fit_many([*tasks(2), faulty], executor=run, then=digest, progress=False)
    assert [o.value for o in outcomes] == [*expected[:2], None]
    assert outcomes[2].error.startswith("fit 3: the table has 40 faults")


def test_a_worker_killed_while_it_fits(address: str, expected: list[str], tmp_path: Path) -> None:
    """All fits come, with the numbers of this process; only the fit that was lost is made again."""
    work = items.Noted(tmp_path, partial(many._fitted, then=digest, cores=1))
    found: dict[int, object] = {}
    with executor(address) as run, Client(address, set_as_default=False) as client:
        for outcome in run.stream(work, tasks(8)):
            found[outcome.index] = outcome.value
            if len(found) == 2:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert [found[i] for i in range(8)] == expected
    assert len(list(tmp_path.iterdir())) in (8, 9)


def test_whole_fits_come_back(two: Executor, tmp_path: Path, expected: list[str]) -> None:
    task = tasks(1)[0]
    table = tmp_path / "runs.csv"
    oracles.table(load_law("chinchilla"), runs=8).to_csv(table, index=False)
    made = values_of(fit_many([task, Task(card_folder() / "chinchilla.toml", table, QUICK)], executor=two, progress=False))
    assert [digest(one) for one in made] == [expected[0]] * 2
    assert made[0].summary().equals(fit(task.law, task.runs, **QUICK, progress=False).summary())
    made[0].save(tmp_path / "fit.nc")


def test_tasks_that_cant_be() -> None:
    with pytest.raises(BayeslawError, match=r"A task has no option 'draw'; it has noise, .* Did you mean 'draws'\?"):
        Task("chinchilla", "runs.csv", {"draw": 3})
    with pytest.raises(CardError, match="No law 'chinchila'"):
        fit_many([Task("chinchila", "runs.csv")])
    with pytest.raises(BayeslawError, match="There is no file"):
        fit_many([Task("chinchilla", "no.csv")])


@pytest.mark.filterwarnings("ignore:Found chain dimension to be longer than draw dimension")  # of `inspect` below
@pytest.mark.parametrize("tune", [100, 1_000_000])
def test_ctrl_c_ends_all_fits(tune: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone would keep the draws made so far, and the next begin."""

    def wait(sampler: Any) -> None:
        while tune == 100 and ("posterior" not in (seen := sampler.inspect()) or seen["posterior"].sizes["draw"] < 20):
            time.sleep(0.02)
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "_wait", wait)
    task = Task("chinchilla", oracles.table(load_law("chinchilla"), runs=8), {"draws": 1_000_000, "tune": tune, "chains": 1})
    with pytest.raises(KeyboardInterrupt):
        fit_many([task, task], progress=True)


@pytest.mark.parametrize("run", ["two", "dask"], indirect=True)
def test_bootstraps_are_the_same_everywhere(run: Executor) -> None:
    made = point_fit("chinchilla", oracles.table(load_law("chinchilla"), runs=8), starts=3)
    here, there = made.bootstrap(20), made.bootstrap(20, executor=run)
    more = made.bootstrap(21, executor=run)
    for name, numbers in here.items():
        assert numbers.shape == (20,)
        assert np.array_equal(there[name], numbers)
        assert np.array_equal(more[name][:20], numbers)
