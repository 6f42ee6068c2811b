"""Many items, one outcome each: what every executor gives, and what is done with an item wherever it runs.

Where many fits run: in this process, in processes of this machine, or on a Dask cluster. Nothing else knows which.

    with executor("processes:2") as run:
        outcomes = run.map(function, items)

An item's value depends on nothing but the item, so results are the same wherever and by however many workers they are made.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
import traceback as tracebacks
import uuid
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from typing import Any, Self

import cloudpickle
from threadpoolctl import threadpool_limits

from bayeslaw.core.errors import BayeslawError


@dataclass(frozen=True)
class Outcome[T]:
    """What became of one item.

    Attributes
    ----------
    index : int
        Its place among the items.
    value : T or None
        What the function returned.
    error : str
        Why there is no value, naming the item; empty where there is one.
    traceback : str
        Where the function failed, for those who look after it.
    """

    index: int
    value: T | None = None
    error: str = ""
    traceback: str = ""

    @classmethod
    def failed(cls, index: int, what: str, error: str, traceback: str = "") -> Outcome[T]:
        """The outcome of an item without a value; `what` is what an item is called: 'fit 3: …'."""
        return cls(index, None, f"{what} {index + 1}: {error}", traceback)


def values_of[T](outcomes: Iterable[Outcome[T]]) -> list[T]:
    """The values of outcomes, in their order.

    Raises
    ------
    BayeslawError
        If any item failed; the text names the first, the notes hold all tracebacks.
    """
    outcomes = list(outcomes)
    failed = [o for o in outcomes if o.error]
    if failed:
        error = BayeslawError(failed[0].error + (f" ({len(failed)} of {len(outcomes)} failed.)" if len(failed) > 1 else ""))
        for outcome in failed:
            error.add_note(outcome.traceback or outcome.error)
        raise error
    return [o.value for o in outcomes]  # type: ignore[misc]  # without an error there is a value


class Executor(ABC):
    """Runs a function on many items; as a context manager it ends its workers.

    Attributes
    ----------
    cores : int or None
        How many cores an item may use; None for all there are.
    """

    cores: int | None = 1

    @abstractmethod
    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Outcome[T]]:
        """Give outcomes as they come, in any order, to be kept or written one by one; one stream at a time."""

    def map[I, T](
        self, function: Callable[[I], T], items: Iterable[I], *, what: str = "item", progress: bool = False
    ) -> list[Outcome[T]]:
        """Outcomes in the order of the items; an item that fails costs none of the others.

        Parameters
        ----------
        function : callable
            Takes one item. Function, items and values travel by cloudpickle where they have to travel.
        items : iterable
        what : str
            What progress and errors call an item.
        progress : bool
            Show a progress bar over all items on standard error.

        Returns
        -------
        list of Outcome
            Ctrl-C gives up what is not done and raises KeyboardInterrupt.
        """
        items = list(items)
        with closing(self.stream(function, items, what=what)) as outcomes:
            return sorted(_shown(outcomes, len(items), what) if progress else outcomes, key=lambda o: o.index)

    def close(self) -> None:  # noqa: B027  # in-process there are none
        """End the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def words(error: BaseException) -> tuple[str, str]:
    """An error as text with its traceback: exceptions of other packages don't all survive a journey."""
    text = str(error) if isinstance(error, BayeslawError) else f"{type(error).__name__}: {error}"
    return text, "".join(tracebacks.format_exception(error))


def answer(payload: bytes) -> bytes:
    """What a worker answers to a function and its item: (value, error, traceback)."""
    try:
        function, item = pickle.loads(payload)  # noqa: S301  # from the process that this one works for
        with threadpool_limits(1):  # there are as many workers as cores
            return bytes(cloudpickle.dumps((function(item), "", "")))
    except (Exception, SystemExit) as error:
        return pickle.dumps((None, *words(error)))


def understood(index: int, what: str, answered: bytes) -> Outcome[Any]:
    """The outcome that a worker's answer tells of."""
    try:
        value, error, traceback = pickle.loads(answered)  # noqa: S301  # from our own worker
    except Exception as fault:
        return Outcome.failed(index, what, *words(fault))
    return Outcome.failed(index, what, error, traceback) if error else Outcome(index, value)


def _shown[T](outcomes: Iterable[Outcome[T]], total: int, what: str) -> Iterator[Outcome[T]]:
    """The same outcomes under a progress bar over all of them."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    count = TextColumn("{task.completed:.0f}/{task.total:.0f} {task.description}s{task.fields[failures]}")
    with Progress(BarColumn(), count, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task, failed = bar.add_task(what, total=total, failures=""), 0
        for outcome in outcomes:
            failed += bool(outcome.error)
            bar.update(task, advance=1, failures=f", {failed} failed" if failed else "")
            yield outcome


DEATHS = 2  # of worker processes at one item, before it is given up
STARTS = 3  # of worker processes that fail one after the other, before no more are started
UNBORN = (
    f"{STARTS} worker processes ended while they were starting. In a script, many fits must be called under "
    "`if __name__ == '__main__':`, because each worker reads the script."
)
PATIENCE = 30.0  # seconds to wait for a Dask scheduler to answer, at first and when it is lost
LONELY = 300.0  # seconds to wait for Dask workers where there are none: some clusters start them on demand
NOBODY = "has had no workers for some minutes; start them with `dask worker {}`."


def executor(where: str | Executor = "in-process") -> Executor:
    """The executor that a text names.

    Parameters
    ----------
    where : str
        'in-process'; 'processes' for one worker a core or 'processes:4' for four; the address of a Dask scheduler,
        'tcp://10.0.0.1:8786', with or without 'dask:' before it. An executor is given back as it is.

    Raises
    ------
    BayeslawError
        If the text names none, Dask is not installed, or no scheduler answers at the address.
    """
    if isinstance(where, Executor):
        return where
    kind, colon, rest = str(where).strip().partition(":")
    if kind == "in-process" and not colon:
        return InProcess()
    if kind == "processes" and not colon:
        return Processes(available_cores())
    if kind == "processes" and rest.isdecimal() and int(rest) > 0:
        return Processes(int(rest))
    if "://" in rest and kind == "dask":
        return Dask(rest)
    if rest.startswith("//") and len(rest) > 2 and kind not in ("http", "https"):
        return Dask(f"{kind}:{rest}")
    raise BayeslawError(
        f"{str(where)!r} is no executor; write in-process, processes, processes:4 "
        "or the address of a Dask scheduler such as tcp://10.0.0.1:8786."
    )


@contextmanager
def opened(where: str | Executor) -> Iterator[Executor]:
    """An executor for the time of a `with` statement; one that was given is left open to its owner."""
    found = executor(where)
    try:
        yield found
    finally:
        if found is not where:
            found.close()


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InProcess(Executor):
    """One item after the other, each with all cores."""

    cores = None

    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Outcome[T]]:
        for index, item in enumerate(items):
            try:
                outcome = Outcome(index, function(item))
            except (Exception, SystemExit) as error:
                outcome = Outcome.failed(index, what, *words(error))
            yield outcome


# --- processes of this machine ---------------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    """A worker process: answers until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    try:
        connection.send_bytes(b"ready")
        while True:
            connection.send_bytes(answer(connection.recv_bytes()))
    except (EOFError, OSError):
        return


@dataclass(eq=False)
class _Worker:
    """A process, its pipe, and the item it works on."""

    process: BaseProcess
    connection: Any
    ready: bool = False
    item: int | None = None

    @classmethod
    def start(cls) -> _Worker:
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads can stand still for ever
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # or the end of the process would not end the pipe
        return cls(process, ours)


class Processes(Executor):
    """Worker processes of this machine, started when needed and kept until closed.

    Each has a pipe of its own: when one dies, it is known at which item, and the others work on. The pool of
    `concurrent.futures` ends all its workers with the first that is lost.
    """

    def __init__(self, count: int) -> None:
        self.count, self.cores = count, max(1, available_cores() // count)
        self._workers: list[_Worker] = []
        self._streaming, self._stillborn = False, 0

    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Outcome[T]]:
        if self._streaming:
            raise BayeslawError("This executor is still at work on other items; open another one.")
        waiting, deaths, left = deque(range(len(items))), Counter[int](), len(items)
        self._streaming, self._stillborn = True, 0
        try:
            while left:
                while len(self._workers) < min(self.count, left) and self._stillborn < STARTS:
                    self._workers.append(_Worker.start())
                if not self._workers:
                    if left == len(items):
                        raise BayeslawError(UNBORN)
                    yield from (Outcome.failed(i, what, UNBORN) for i in waiting)
                    return
                for worker in [w for w in self._workers if w.ready and w.item is None][: len(waiting)]:
                    if unsent := self._give(worker, function, items, waiting, what):
                        left -= 1
                        yield unsent
                for item, answered in self._answers():
                    deaths[item] += answered is None
                    if answered is None and deaths[item] < DEATHS:
                        waiting.appendleft(item)
                        continue
                    left -= 1
                    lost = f"its worker process died each of the {DEATHS} times it was tried; was there memory enough?"
                    yield Outcome.failed(item, what, lost) if answered is None else understood(item, what, answered)
        finally:
            self._streaming = False
            for worker in [w for w in self._workers if w.item is not None]:
                self._dismiss(worker)

    def _give(
        self, worker: _Worker, function: object, items: Sequence[object], waiting: deque[int], what: str
    ) -> Outcome[Any] | None:
        """Send a worker the next item; what can't be sent has failed."""
        item = waiting.popleft()
        try:
            payload = cloudpickle.dumps((function, items[item]))
        except Exception as error:
            return Outcome.failed(item, what, *words(error))
        try:
            worker.connection.send_bytes(payload)
            worker.item = item
        except OSError:  # it died while it had nothing to do
            self._dismiss(worker)
            waiting.appendleft(item)
        return None

    def _answers(self) -> Iterator[tuple[int, bytes | None]]:
        """Wait for workers; give items with their answers, None for those whose workers died."""
        heard = {w.connection: w for w in self._workers if w.item is not None or not w.ready}
        for connection in wait(list(heard)) if heard else []:
            worker, answered = heard[connection], None
            item = worker.item
            try:
                answered = worker.connection.recv_bytes()
                worker.ready, worker.item, self._stillborn = True, None, 0
            except (EOFError, OSError):
                self._dismiss(worker)
                self._stillborn += not worker.ready
            if item is not None:
                yield item, answered

    def _dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.join()
        worker.connection.close()

    def close(self) -> None:
        for worker in list(self._workers):
            self._dismiss(worker)


# --- Dask ------------------------------------------------------------------------------------------------------------


class Dask(Executor):
    """Workers of a Dask cluster, which must have the same version of bayeslaw; a lost one's item goes to another.

    There are never more items out than the workers have threads: the scheduler blames a death on everything that waits at
    the worker, and gives up what it blames for several ('allowed-failures' in its configuration).
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise BayeslawError(f'For the executor {address} install Dask: pip install "bayeslaw[dask]".') from None
        try:
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BayeslawError(f"No Dask scheduler answers at {address}: {error}") from None
        self.address = address

    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Outcome[T]]:
        waiting, out, done = deque(range(len(items))), dict[Any, int](), SimpleQueue[Any]()
        alone: float | None = None
        try:
            while waiting or out:
                threads = self._threads()
                alone = None if threads else alone or time.monotonic()
                lost = self._client.status == "closed"
                if lost or (alone and time.monotonic() - alone > LONELY):
                    nobody = f"The Dask scheduler at {self.address} " + ("is gone." if lost else NOBODY.format(self.address))
                    yield from (Outcome.failed(i, what, nobody) for i in sorted([*out.values(), *waiting]))
                    return
                while waiting and len(out) < max(threads, self._client.status == "running"):
                    item = waiting.popleft()
                    try:
                        payload = cloudpickle.dumps((function, items[item]))
                    except Exception as error:
                        yield Outcome.failed(item, what, *words(error))
                        continue
                    future = self._client.submit(answer, payload, key=f"bayeslaw-{uuid.uuid4()}")
                    out[future] = item
                    future.add_done_callback(done.put)
                with suppress(Empty):
                    future = done.get(timeout=1)
                    yield self._outcome(future, out.pop(future), what)
        finally:
            with suppress(Exception):  # the scheduler may be gone
                self._client.cancel(list(out))

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except Exception:  # the scheduler is gone, or comes back; what it raises depends on how far it got
            return 0

    def _outcome(self, future: Any, item: int, what: str) -> Outcome[Any]:
        from distributed import KilledWorker

        try:
            return understood(item, what, future.result())
        except KilledWorker:
            return Outcome.failed(item, what, "its Dask worker died each time it was tried; was there memory enough?")
        except Exception as error:  # a worker without bayeslaw, or a scheduler that is gone
            return Outcome.failed(item, what, *words(error))

    def close(self) -> None:
        self._client.close()
