"""Run a function on many items: in this process, in processes of this machine, or on a Dask cluster.

    with executor("processes:2") as run:
        outcomes = run.map(function, items)

Each item has its own `Result`, and an item that fails costs none of the others. An item's value depends on nothing but the item,
so results are identical on every executor and with any number of workers.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback as tracebacks
import uuid
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Self

import cloudpickle
from threadpoolctl import threadpool_limits

from bayeslaw.core.errors import BayeslawError, kind_of
from bayeslaw.core.progress import console_for
from bayeslaw.core.threads import one_blas_thread

MOST_DEATHS = 2  # of worker processes at one item, before we give the item up
MOST_PROCESSES = 1_000
IDLE = 300.0  # seconds after which an idle worker process ends
WATCH = 0.5  # seconds between two looks of a worker process whether the process that it works for is there
PATIENCE = 30.0  # seconds to wait for a Dask scheduler to answer, at first and when it is lost
LONELY = 300.0  # seconds to wait for Dask workers where there are none: some clusters start them on demand
DIED = "its {} died each time it was tried; was there memory enough?"


@dataclass(frozen=True)
class Result[T]:
    """The value or the error of one item.

    Attributes
    ----------
    index : int
        The position of the item, from 0.
    value : T or None
        What the function returned.
    error, traceback : str
        Why there is no value, naming the item, and where the function failed; empty where there is a value.

    Examples
    --------
    >>> outcome = bayeslaw.core.executor().map(float, ["2.5"])[0]
    >>> outcome.index, outcome.value, outcome.error
    (0, 2.5, '')
    """

    index: int
    value: T | None
    error: str = ""
    traceback: str = ""

    @classmethod
    def failed(cls, index: int, what: str, error: str, traceback: str = "") -> Result[T]:
        """Return the outcome of an item without a value; the error begins with 'fit 3: ' where `what` is 'fit'."""
        return cls(index, None, f"{what} {index + 1}: {error}", traceback)


def values_of[T](outcomes: Iterable[Result[T]]) -> list[T]:
    """Return the values of outcomes, in their order; a failed item raises BayeslawError, whose notes hold all tracebacks.

    Examples
    --------
    >>> bayeslaw.core.values_of(bayeslaw.core.executor().map(abs, [-1, 2]))
    [1, 2]
    """
    outcomes = list(outcomes)
    failed = [o for o in outcomes if o.error]
    if failed:
        count = f" ({len(failed)} of {len(outcomes)} failed.)" if len(failed) > 1 else ""
        error = BayeslawError(failed[0].error + count, code="items-failed")
        for outcome in failed:
            error.add_note(outcome.traceback or outcome.error)
        raise error
    return [o.value for o in outcomes]  # type: ignore[misc]  # without an error there is a value


class Executor(ABC):
    """Runs a function on many items; as a context manager it ends its workers. An item may use `cores` cores, or all for None.

    Examples
    --------
    >>> with bayeslaw.core.executor("in-process") as run:
    ...     [outcome.value for outcome in run.map(len, ["a", "bc"])]
    [1, 2]
    """

    cores: int | None = 1

    @abstractmethod
    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Result[T]]:
        """Yield outcomes as they come, in any order; an executor runs one stream at a time. Arguments are as in `map`."""

    def map[I, T](
        self, function: Callable[[I], T], items: Iterable[I], *, what: str = "item", progress: bool = False
    ) -> list[Result[T]]:
        """Return the outcomes in the order of the items; an item that fails costs none of the others.

        Parameters
        ----------
        function : callable
            Takes one item. Functions, items and values travel to other processes by cloudpickle.
        what : str
            What an item is called by progress bar and errors.
        progress : bool
            Show a progress bar over all items on standard error. Ctrl-C gives up the items that are not done.
        """
        items = list(items)
        with closing(self.stream(function, items, what=what)) as outcomes:
            return sorted(_with_progress(outcomes, len(items), what) if progress else outcomes, key=lambda o: o.index)

    def close(self) -> None:  # noqa: B027  # in-process there are none
        """End the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _describe(error: BaseException) -> tuple[str, str]:
    """Return an error as text with its traceback: exceptions of other packages don't all survive pickling."""
    text = str(error) if isinstance(error, BayeslawError) else f"{type(error).__name__}: {error}"
    return text, "".join(tracebacks.format_exception(error))


def begin_worker(parent: int) -> None:
    """Prepare a worker process: Ctrl-C is for its parent, which then ends its workers, and a parent that was killed ends it too.

    Parameters
    ----------
    parent : int
        The id of the process that it works for.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:  # where there are orphans, they get another parent
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_payload(payload: bytes) -> bytes:
    """Run a pickled (function, item) in a worker and return the pickled (value, error, traceback)."""
    try:
        function, item = pickle.loads(payload)  # noqa: S301  # from the process that this one works for
        # There are as many workers as cores. Some are threads of one process, of which each needs the limit to its own end.
        with one_blas_thread(), threadpool_limits(1, "openmp"):
            return bytes(cloudpickle.dumps((function(item), "", "")))
    except (Exception, SystemExit) as error:
        return pickle.dumps((None, *_describe(error)))


def outcome_of(index: int, what: str, answer: bytes) -> Result[Any]:
    """Return the outcome that is in a worker's answer.

    Parameters
    ----------
    index, what : int, str
        The position of the item, and what an item is called.
    answer : bytes
        As `run_payload` returns it.
    """
    try:
        value, error, traceback = pickle.loads(answer)  # noqa: S301  # from our own worker
    except Exception as fault:
        return Result.failed(index, what, *_describe(fault))
    return Result.failed(index, what, error, traceback) if error else Result(index, value)


def _with_progress[T](outcomes: Iterable[Result[T]], total: int, what: str) -> Iterator[Result[T]]:
    """Yield the same outcomes under a progress bar."""
    if (console := console_for(wanted=True)) is None:
        yield from outcomes
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    count = TextColumn("{task.completed:.0f}/{task.total:.0f} {task.description}s{task.fields[failures]}")
    with Progress(BarColumn(), count, TimeRemainingColumn(), console=console, transient=True) as bar:
        task, failed = bar.add_task(what, total=total, failures=""), 0
        for outcome in outcomes:
            failed += bool(outcome.error)
            bar.update(task, advance=1, failures=f", {failed} failed" if failed else "")
            yield outcome


def executor(where: str | Executor = "in-process") -> Executor:
    """Return the executor that a text names.

    Parameters
    ----------
    where : str
        'in-process'; 'processes' for one worker a core or 'processes:4' for four; the address of a Dask scheduler,
        'tcp://10.0.0.1:8786', with or without 'dask:' before it. An executor is returned as it is.

    Examples
    --------
    >>> bayeslaw.core.executor("processes:2").cores is None
    False
    """
    if isinstance(where, Executor):
        return where
    if not isinstance(where, str):
        hint = "; of a cluster of Dask give its scheduler_address" if hasattr(where, "scheduler_address") else ""
        problem = f"An executor is named by a text, such as 'processes:4', not by {kind_of(where)}"
        raise BayeslawError(f"{problem}{hint}.", code="unknown-executor")
    text = where.strip()
    kind, _, rest = text.partition(":")
    if text == "in-process":
        return InProcess()
    if text == "processes":
        return Processes(available_cores())
    if kind == "processes" and rest.isdecimal() and len(rest) < 10 and int(rest) > 0:
        if int(rest) > MOST_PROCESSES:
            raise BayeslawError(f"At most {MOST_PROCESSES:,} processes can be started, not {rest}.", code="too-many-processes")
        return Processes(int(rest))
    if "://" in rest and kind == "dask":
        return Dask(rest)
    if rest.startswith("//") and len(rest) > 2 and kind not in ("http", "https"):
        return Dask(f"{kind}:{rest}")
    known = "write in-process, processes, processes:4 or the address of a Dask scheduler such as tcp://10.0.0.1:8786"
    raise BayeslawError(f"{text!r} is not an executor; {known}.", code="unknown-executor")


@contextmanager
def opened(where: str | Executor) -> Iterator[Executor]:
    """Open an executor for a `with` statement; an executor that was given stays open for its owner."""
    run = executor(where)
    try:
        yield run
    finally:
        if run is not where:
            run.close()


def available_cores() -> int:
    """Return how many cores this process may use: of a container with a limit these are fewer than the machine has."""
    from loky import cpu_count

    return int(cpu_count())


class InProcess(Executor):
    """Runs one item after the other, each with all cores."""

    cores = None

    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Result[T]]:
        for index, item in enumerate(items):
            try:
                outcome = Result(index, function(item))
            except (Exception, SystemExit) as error:
                outcome = Result.failed(index, what, *_describe(error))
            yield outcome


class Processes(Executor):
    """A loky pool of worker processes of this machine, started when needed and kept until closed.

    A loky pool ends with the first worker that dies. Items that were being worked on are then tried again, each alone in a new
    pool, so that an item that kills its worker costs only itself.
    """

    def __init__(self, count: int) -> None:
        self.count, self.cores = count, max(1, available_cores() // count)
        self._pool: Any = None
        self._streaming = False

    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Result[T]]:
        from loky import FIRST_COMPLETED, BrokenProcessPool, wait

        if self._streaming:
            raise BayeslawError("This executor is still at work on other items; open another one.", code="executor-busy")
        waiting, again, deaths = deque(range(len(items))), deque[int](), Counter[int]()
        running: dict[Any, tuple[int, Any]] = {}  # with its pool: one that broke may have been replaced for the next item already
        self._streaming = True
        try:
            while waiting or again or running:
                most = 1 if again or any(deaths[item] for item, _ in running.values()) else self.count
                while (queue := again or waiting) and len(running) < most:
                    item = queue.popleft()
                    try:
                        future = self._submit(cloudpickle.dumps((function, items[item])))
                        running[future] = item, self._pool
                    except Exception as error:
                        yield Result.failed(item, what, *_describe(error))
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    item, pool = running.pop(future)
                    try:
                        outcome = outcome_of(item, what, future.result())
                    except BrokenProcessPool:
                        if pool is self._pool:
                            self.close()
                        deaths[item] += 1
                        if deaths[item] < MOST_DEATHS:
                            again.append(item)
                            continue
                        outcome = Result.failed(item, what, DIED.format("worker process"))
                    yield outcome
        finally:
            self._streaming = False
            if running:
                self.close()

    def _submit(self, payload: bytes) -> Any:
        from loky import BrokenProcessPool, ProcessPoolExecutor

        while True:
            if self._pool is None:
                begin: dict[str, Any] = {"initializer": begin_worker, "initargs": (os.getpid(),)}
                self._pool = ProcessPoolExecutor(self.count, timeout=IDLE, **begin)
            try:
                return self._pool.submit(run_payload, payload)
            except BrokenProcessPool:  # a worker died while it had nothing to do
                self.close()

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(kill_workers=True)


class Dask(Executor):
    """Workers of a Dask cluster, which must have the same version of bayeslaw; a lost worker's item goes to another.

    There are never more items out than the workers have threads: the scheduler blames a death on everything that waits at
    the worker, and gives up what it blames for several ('allowed-failures' in its configuration).
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise BayeslawError(f'For the executor {address} install Dask: pip install "bayeslaw[dask]".', code="no-dask") from None
        try:
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BayeslawError(f"No Dask scheduler answers at {address}: {error}", code="no-scheduler") from None
        self.address = address

    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Result[T]]:
        waiting, running, done = deque(range(len(items))), dict[Any, int](), SimpleQueue[Any]()
        alone: float | None = None  # since when there have been no workers
        try:
            while waiting or running:
                threads = self._threads()
                alone = None if threads else alone or time.monotonic()
                lost = self._client.status == "closed"
                if lost or (alone and time.monotonic() - alone > LONELY):
                    lonely = f"has had no workers for some minutes; start them: `dask worker {self.address}`."
                    error = f"The Dask scheduler at {self.address} {'is gone.' if lost else lonely}"
                    yield from (Result.failed(i, what, error) for i in sorted([*running.values(), *waiting]))
                    return
                while waiting and len(running) < max(threads, self._client.status == "running"):
                    item = waiting.popleft()
                    try:
                        payload = cloudpickle.dumps((function, items[item]))
                    except Exception as error:
                        yield Result.failed(item, what, *_describe(error))
                        continue
                    future = self._client.submit(run_payload, payload, key=f"bayeslaw-{uuid.uuid4()}")
                    running[future] = item
                    future.add_done_callback(done.put)
                with suppress(Empty):
                    future = done.get(timeout=1)
                    yield self._outcome(future, running.pop(future), what)
        finally:
            with suppress(Exception):  # the scheduler may be gone
                self._client.cancel(list(running))

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except Exception:  # the scheduler is gone, or comes back; what it raises depends on how far it got
            return 0

    def _outcome(self, future: Any, item: int, what: str) -> Result[Any]:
        from distributed import KilledWorker

        try:
            return outcome_of(item, what, future.result())
        except KilledWorker:
            return Result.failed(item, what, DIED.format("Dask worker"))
        except Exception as error:  # a worker without bayeslaw, or a scheduler that is gone
            return Result.failed(item, what, *_describe(error))

    def close(self) -> None:
        self._client.close()
