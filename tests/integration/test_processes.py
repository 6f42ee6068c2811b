"""Executors in this process and in processes of this machine: outcomes, failures, and worker processes that die."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bayeslaw.core.executors import Executor, InProcess, Processes, available_cores, executor, opened, values_of
from tests import items
from tests.errors import fails


@pytest.fixture(scope="module")
def two() -> Iterator[Executor]:
    with executor("processes:2") as run:
        yield run


@pytest.fixture(params=["in-process", "processes"])
def run(request: pytest.FixtureRequest) -> Executor:
    return executor() if request.param == "in-process" else request.getfixturevalue("two")


def test_outcomes_come_in_the_order_of_the_items(run: Executor) -> None:
    outcomes = run.map(items.square, range(20))
    assert [(o.index, o.value) for o in outcomes] == [(i, i * i) for i in range(20)]
    assert run.map(items.square, []) == []


def test_an_item_that_fails_costs_none_of_the_others(run: Executor) -> None:
    outcomes = run.map(items.fault, range(5), what="fit")
    assert items.values_or_errors(outcomes) == [10, 11, "fit 3: two is too many.", "fit 4: KeyError: 3", 14]
    assert "return {0: 10, 1: 11, 4: 14}[x]" in outcomes[3].traceback
    with fails("items-failed", "fit 3", "2 of 5"):
        values_of(outcomes)


def test_functions_without_a_module_are_run_too(run: Executor) -> None:
    add = 3
    assert values_of(run.map(lambda x: x + add, range(4))) == [3, 4, 5, 6]


def test_items_and_values_that_cannot_be_pickled_have_failed(two: Executor) -> None:
    errors = items.values_or_errors(two.map(items.generator, [1, 2]))
    assert errors == [f"item {i}: TypeError: cannot pickle 'generator' object" for i in (1, 2)]
    mixed: list[Any] = [3, (i for i in [1])]
    assert items.values_or_errors(two.map(items.square, mixed)) == [9, errors[1]]


def test_progress_is_not_shown_on_standard_output(two: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    two.map(items.fault, [1, 2], progress=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("deaths", [1, 99])
def test_an_item_that_kills_its_worker_costs_only_itself(two: Executor, deaths: int, tmp_path: Path) -> None:
    """It is tried once more; the item that the other worker worked on may be run again."""
    work = items.Deadly(tmp_path, at=3, deaths=deaths)
    outcomes = two.map(work, range(12))
    assert [o.value for o in outcomes if not o.error] == [i * i for i in range(12) if deaths == 1 or i != 3]
    assert [o.index for o in outcomes if o.error] == [3] * (deaths > 1)
    assert work.tries("3") == 2
    assert work.tries() <= 11 + 2 + 1


def test_a_worker_that_died_while_idle_is_replaced(two: Executor) -> None:
    pids = set(values_of(two.map(items.slow_pid, range(6))))
    os.kill(killed := pids.pop(), signal.SIGKILL)
    assert killed not in values_of(two.map(items.slow_pid, range(6)))


class WorkersDieBetween(list[int]):
    """Items at the second of which the workers are killed while the first is at work."""

    pids: frozenset[int] = frozenset()

    def __getitem__(self, index: Any) -> Any:
        if index == 1 and self.pids:
            for pid in self.pids:
                os.kill(pid, signal.SIGKILL)
            self.pids = frozenset()
            time.sleep(1)  # until the pool knows
        return super().__getitem__(index)


def test_workers_that_die_between_two_items_cost_neither(two: Executor) -> None:
    squares = WorkersDieBetween(range(4))
    squares.pids = frozenset(values_of(two.map(items.slow_pid, range(6))))
    outcomes = sorted(two.stream(items.slow_square, squares), key=lambda o: o.index)
    assert values_of(outcomes) == [0, 1, 4, 9]


def test_a_stream_left_early_ends_its_work(two: Executor) -> None:
    stream = two.stream(items.square, range(50))
    assert next(stream).value is not None
    with fails("executor-busy"):
        two.map(items.square, [1])
    stream.close()
    assert values_of(two.map(items.square, [5])) == [25]


def test_texts_name_executors(two: Executor) -> None:
    assert type(executor()) is type(executor("in-process")) is InProcess
    pools = [executor("processes"), executor(" processes:3 ")]
    assert [pool.count for pool in pools if isinstance(pool, Processes)] == [available_cores(), 3]
    assert executor(two) is two
    with opened(two) as same:
        assert same is two
    assert values_of(two.map(items.square, [2])) == [4]
