"""How the numerical kernels are compiled: once per machine, kept on disk, free of Python's lock while they run."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit


def jit[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel with Numba; division by zero gives inf or nan as in NumPy."""
    compiled: Callable[P, R] = njit(nogil=True, cache=True, error_model="numpy")(function)
    return compiled
