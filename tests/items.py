"""Functions that the tests of executors run on items; in a module of their own, so that workers import little."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.executors import Result

SLEEPING = """
import os, signal, sys, time
from bayeslaw.core.executors import executor

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores Ctrl-C

def sleep(x):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)

if __name__ == "__main__":
    with executor(sys.argv[1]) as run:
        run.map(sleep, range(4))
"""
UNGUARDED = """
from bayeslaw.core.executors import executor
print(executor("processes:1").map(abs, [-1])[0].value)
"""


def square(x: float) -> float:
    return x * x


def fault(x: int) -> int:
    """Raise an error of ours at 2 and another at 3."""
    if x == 2:
        raise BayeslawError("two is too many.")
    return {0: 10, 1: 11, 4: 14}[x]


def generator(x: int) -> object:
    return (i for i in range(x))


def slow_pid(_: int) -> int:
    time.sleep(0.1)
    return os.getpid()


def slow_square(x: int) -> int:
    time.sleep(1)
    return x * x


def values_or_errors(outcomes: list[Result[Any]]) -> list[Any]:
    return [o.error or o.value for o in outcomes]


def digest(fit: Any) -> str:
    return str(fit.info["draws_sha256"])


def fit_digest(task: Any) -> str:
    from bayeslaw.inference.fit import fit

    return digest(fit(task.law, task.runs, **task.options, progress=False, cores=1))


@dataclass(frozen=True)
class Deadly:
    """Squares, noting each try in a folder; kills its worker in the first `deaths` tries of the item `at`."""

    folder: Path
    at: int
    deaths: int

    def __call__(self, x: int) -> int:
        tries = len(list(self.folder.glob(f"{x}-*")))
        (self.folder / f"{x}-{tries}").touch()
        if x == self.at and tries < self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)
        return x * x

    def tries(self, x: str = "*") -> int:
        return len(list(self.folder.glob(f"{x}-*")))


@dataclass(frozen=True)
class Noted:
    """Does the work, noting each try in a folder."""

    folder: Path
    work: Callable[[Any], Any]

    def __call__(self, item: object) -> object:
        (self.folder / uuid.uuid4().hex).touch()
        return self.work(item)
