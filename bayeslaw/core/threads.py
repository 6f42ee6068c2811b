"""Linear algebra in one thread, for products of small matrices that several threads would only slow down."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneThread:
    """A limit that holds from the first thread of Python that enters a block to the last that leaves one.

    How many threads linear algebra has is a setting of the process. If each block restored what was there when it began, the end
    of one would take the limit from others that go on, whose sums then have other last digits, or leave it there for good.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, dict[Any, int]()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = {library: library.num_threads for library in _libraries()}
                for library in self._before:
                    _set(library, 1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for library, threads in self._before.items():
                    _set(library, threads)


_BLAS = _OneThread()


def one_blas_thread() -> _OneThread:
    """Limit the linear algebra of NumPy and SciPy to one thread in a block, for all threads of Python that are in one."""
    return _BLAS


def _set(library: Any, threads: int) -> None:
    """Set the number of threads; of threadpoolctl 3.8 only one thread of Python can, and the calls of others do nothing."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


@cache
def _libraries() -> tuple[Any, ...]:
    """The libraries of this process, looked for once: that takes milliseconds, as long as many a forecast."""
    import scipy.linalg  # noqa: F401  # it has a library of its own

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
