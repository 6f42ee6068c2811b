"""How functions are compiled: once per computer and again when any of their files changes."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from types import CellType, FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.core import config as numba_config
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError

Reals = NDArray[np.float64]
Wholes = NDArray[np.int64]
# What Numba raises where kept code was cut short or overwritten, as by a computer that lost power; the command line took the first
# for Ctrl-D.
DAMAGED = (EOFError, UnpicklingError)
SOURCES = ("engine", "laws", "noise")  # the packages on which compiled code depends


def version_of(package: Path) -> str:
    """Digest of the source on which compiled code depends, and of the version of PyTensor, which derives gradients."""
    files = sorted(file for folder in SOURCES for file in (package / folder).glob("*.py"))
    return hashlib.sha256(b"".join([version("pytensor").encode(), *(file.read_bytes() for file in files)])).hexdigest()


VERSION = version_of(Path(__file__).parents[1])

_SETTINGS: Any = numba_config
COMPILED_FOR = "".join([
    get_host_cpu_name(), get_host_cpu_features().flatten(),  # computers of several kinds may share a folder
    *map(repr, (_SETTINGS.OPT, _SETTINGS.SLP_VECTORIZE, _SETTINGS.BOUNDSCHECK, _SETTINGS.DEBUGINFO_DEFAULT)),  # not in Numba's keys
])  # fmt: skip
if _SETTINGS.DISABLE_JIT:
    problem = "bayeslaw compiles its models with Numba, which the environment variable NUMBA_DISABLE_JIT switches off"
    raise BayeslawError(f"{problem}: unset it.", code="no-compiler")


def versioned[**P, R](function: Callable[P, R], key: str = "", **names: Any) -> Callable[P, R]:
    """The same function with the version of all sources and a key in its closure, which makes Numba's cache depend on them.

    Numba checks a function's own file only, and would keep old code of functions that it calls in other files. It also checks the
    values that a function closes over, but not the global `names` that are given to it here.

    Version, key, processor and settings are in its name too, by which Numba names files. It writes first which file has what, and
    then this file: of two processes that keep two laws under one name at the same time, one could be left with the code of the
    other.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_freevars=("version",))
    named = FunctionType(code, {**function.__globals__, **names}, closure=(CellType(VERSION + key),))
    named.__qualname__ = f"{function.__qualname__}_{hashlib.sha256((VERSION + key + COMPILED_FOR).encode()).hexdigest()[:16]}"
    return named


_INNER: Any = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True}


def inner[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only compiled code calls, once per computer; division by zero gives inf or nan."""
    code = versioned(function)
    compiled: Any = kept_on_disk(lambda cache: njit(**_INNER, cache=cache)(code), code)
    load, save = compiled._cache.load_overload, compiled._cache.save_overload

    def load_if_whole(*of: Any) -> Any:  # it is loaded, or compiled and saved, when it is first called
        try:
            return load(*of)
        except DAMAGED:
            with suppress(OSError):
                compiled._cache.flush()
            return None

    def save_if_possible(*of: Any) -> None:
        try:
            save(*of)
        except (OSError, *DAMAGED) as error:
            _warn_not_kept(error)

    compiled._cache.load_overload, compiled._cache.save_overload = load_if_whole, save_if_possible
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _vectorising_loops(whether: bool) -> Iterator[None]:
    """Compile with or without vector instructions in loops, while no other thread compiles: the setting is that of the process."""
    config: Any = numba_config
    with global_compiler_lock:
        before, config.LOOP_VECTORIZE = config.LOOP_VECTORIZE, int(whether)
        try:
            yield
        finally:
            config.LOOP_VECTORIZE = before


@cache
def _by_itself(function: Callable[..., None]) -> Any:
    return inner(function)


def compiled_by_itself(function: Callable[..., None], signature: Any) -> Any:
    """Compile a function that compiled code of many laws calls, once per computer; returns Numba's result.

    Unlike theirs its loops are vectorised.
    """
    with _vectorising_loops(True):
        return _by_itself(function).get_compile_result(signature)


def kept_on_disk(make: Callable[[bool], Any], code: Callable[..., Any]) -> Any:
    """What `make` compiles of `code`, kept on disk (True) where that is possible, and else in memory only (False)."""
    try:
        try:
            return make(True)
        except DAMAGED:
            FunctionCache(code).flush()
            return make(True)
    except (OSError, RuntimeError) as error:  # no folder that can be written to, or a full disk
        if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
            raise
        _warn_not_kept(error)
        return make(False)


def _warn_not_kept(error: Exception) -> None:
    _warn_once(error.strerror or str(error) if isinstance(error, OSError) else "no folder for it can be written to")


@cache
def _warn_once(why: str) -> None:
    """Warn once for all functions; Python forgets what it has shown whenever filters of warnings change."""
    text = f"Compiled code can't be kept on disk, so each process compiles it anew: {why}. Name a folder in NUMBA_CACHE_DIR."
    warnings.warn(text, stacklevel=2)


def with_deep_stack[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with a megabyte of Python's own stack free below it.

    Python takes that stack from the system in chunks of 16 KiB, and a call at the end of a chunk maps and unmaps the next one
    each time: a compiler that recurses there paid 600,000 such maps, a fifth of its time. A chunk is at least twice as large as
    the frame that asks for it, so a frame that claims to be large leaves as much again for its calls.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=140_000)
    return call


@with_deep_stack
def compiled(kind: Any, function: Callable[..., Any], key: str = "", kept: bool = True, **names: Any) -> Any:
    """Compile a function for callers by address.

    Parameters
    ----------
    kind, function
        Numba's signature, and a function of Python.
    key, names
        See `versioned`.
    kept : bool
        Keep it on disk, so that it is compiled once per computer.

    Notes
    -----
    Loops are not vectorised: that takes half of the time to compile a law and makes a gradient of a million points 10% faster.
    """
    with _vectorising_loops(False):
        code = versioned(function, key, **names)

        def make(cache: bool) -> Any:
            return cfunc(kind, cache=cache, error_model="numpy")(code)

        return kept_on_disk(make, code) if kept else make(False)


def calling(kind: Any) -> Any:
    """A call by address of any function of a signature, which is then compiled once and not as part of every caller."""

    def call(typing: Any, address: Any, given: Any) -> Any:
        if tuple(given) != kind.args:
            raise TypeError(f"a function that takes {kind.args} was given {tuple(given)}")

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value, arguments_of = context.get_value_type, [context.get_value_type(a) for a in kind.args]
            pointer = builder.inttoptr(arguments[0], ir.FunctionType(value(kind.return_type), arguments_of).as_pointer())
            unpacked: Any = cgutils.unpack_tuple
            return builder.call(pointer, unpacked(builder, arguments[1]))

        return kind.return_type(types.int64, given), code

    return intrinsic(call)


def _to_pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), code


pointer: Any = intrinsic(_to_pointer)


@inner
def reals(address: int, size: int) -> Reals:
    """An array of `size` floats from an address on; their owner must outlive it.

    A slice of an array would count references, which for some hundred numbers takes longer than arithmetic. Do not call it with a
    literal number: Numba would compile it again for that number.
    """
    return carray(pointer(address), size, np.float64)


@inner
def wholes(address: int, size: int) -> Wholes:
    """As `reals`, for integers."""
    return carray(pointer(address), size, np.int64)
