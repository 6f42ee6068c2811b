"""How kernels are compiled: once per machine, again when any of their files changes, and called by each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Wholes = NDArray[np.int64]
COMPILED = ("build", "compiled", "functions", "likelihoods", "maps", "ops")  # the files whose functions Numba compiles


def version_of(folder: Path) -> str:
    """Digest of the source of all compiled files in a folder."""
    return hashlib.sha256(b"".join((folder / f"{name}.py").read_bytes() for name in COMPILED)).hexdigest()


VERSION = version_of(Path(__file__).parent)


def versioned[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """The same function for Numba's cache, which knows it to be stale when the file of any kernel has changed.

    Numba looks at a function's own file alone, and would keep the old code of what it calls in another. What a function closes
    over it looks at too: here the version of all kernels, which the function itself does not use.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_freevars=("version",))
    return FunctionType(code, function.__globals__, closure=(CellType(VERSION),))


def jit[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel once per machine, free of Python's lock while it runs; division by zero gives inf or nan."""
    made: Callable[P, R] = njit(nogil=True, cache=True, error_model="numpy")(versioned(function))
    return made


ANY_ORDER = {"reassoc", "contract", "nsz"}
_INNER: Any = {"nogil": True, "cache": True, "error_model": "numpy", "no_cpython_wrapper": True}


def inner[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `jit`, for what only kernels call: what Python would need to call it takes as long to compile as a small function."""
    made: Callable[P, R] = njit(**_INNER)(versioned(function))
    return made


def summing[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `inner`, for sums whose order is of no matter: several numbers are then added at a time."""
    made: Callable[P, R] = njit(**_INNER, fastmath=ANY_ORDER)(versioned(function))
    return made


def with_deep_stack[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with a megabyte of Python's own stack free below it.

    Python takes that stack from the system in pieces of 16 KiB, and a call at the end of a piece maps and unmaps the next one
    each time: a compiler that recurses there paid 600,000 such maps, a fifth of its time. A piece is at least twice as large as
    the frame that asks for it, so that a frame said to be large leaves as much again for all that it calls.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=140_000)
    return call


@with_deep_stack
def compiled(kind: Any, function: Callable[..., Any], **options: Any) -> Any:
    """A function compiled for callers that have its address, once per machine."""
    return cfunc(kind, cache=True, error_model="numpy", **options)(versioned(function))


def calling(kind: Any) -> Any:
    """What calls a function of a signature by its address: then it's compiled once, not again as part of every caller."""

    def call(typing: Any, address: Any, given: Any) -> Any:
        if tuple(given) != kind.args:
            raise TypeError(f"a function that takes {kind.args} was given {tuple(given)}")

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value, parts = context.get_value_type, [context.get_value_type(a) for a in kind.args]
            place = builder.inttoptr(arguments[0], ir.FunctionType(value(kind.return_type), parts).as_pointer())
            unpacked: Any = cgutils.unpack_tuple
            return builder.call(place, unpacked(builder, arguments[1]))

        return kind.return_type(types.int64, given), code

    return intrinsic(call)


def _to_place(typing: Any, address: Any) -> Any:
    """The pointer with a given address, inside compiled code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), code


place: Any = intrinsic(_to_place)


@inner
def reals(address: int, size: int) -> Reals:
    """So many floats from an address on; their owner has to outlive them.

    A slice of an array would count references, which for some hundred numbers takes longer than arithmetic. Call it with no number
    written out: Numba would compile it once more for that number alone.
    """
    return carray(place(address), size, np.float64)


@inner
def wholes(address: int, size: int) -> Wholes:
    """As `reals`, whole numbers."""
    return carray(place(address), size, np.int64)
