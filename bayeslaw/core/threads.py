"""Linear algebra in one thread, for products of small matrices that several threads would only slow down."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit the linear algebra of NumPy and SciPy to one thread in a block."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of this process, looked for once: that takes milliseconds, as long as many a forecast."""
    import scipy.linalg  # noqa: F401  # it has a library of its own

    return ThreadpoolController()
