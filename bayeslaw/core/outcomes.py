"""Many items, one outcome each: what every executor gives, and what is done with an item wherever it runs."""

from __future__ import annotations

import pickle
import traceback as tracebacks
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
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
