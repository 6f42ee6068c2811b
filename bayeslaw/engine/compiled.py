"""The compiled log density under a map, for NUTS and point fits.

A density and the map to its coordinates are compiled apart and call each other by address. If Numba links a function into its
caller, the optimiser treats it differently: draws then differed in their last digits between the process that compiled and later
ones.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from bayeslaw.engine.build import calling, compiled, pointer, reals, wholes
from bayeslaw.engine.graph import Graph
from bayeslaw.engine.lowering import Lowering, function_of
from bayeslaw.engine.maps import IDENTITY, Map, ridge, ridge_slopes, splines, stretch_tails, tail_slopes

_GRAPH = types.float64(*[types.int64] * 4)
_call_graph = calling(_GRAPH)
_graphs: dict[str, Any] = {}  # compiled in this process


def _evaluate(x: int, results: int, table: int, scratch: int) -> Any:
    return graph(x, results, table, scratch)  # type: ignore[name-defined]  # noqa: F821 - given when it is compiled


Outputs = tuple[list[Any], Any, list[Any]] | None
"""What a function writes on a graph: its coordinates, its value, and an array behind the coordinates or none; None unless built."""


@dataclass(frozen=True)
class Program:
    """A graph with the data it takes, compiled when it is first needed: a value, and its gradient by the coordinates.

    Attributes
    ----------
    key : str
        What the compiled function depends on.
    lower : callable
        Builds the graph.
    numbers, arrays
        Of `graph.Graph`.
    kept : bool
        Whether the compiled function is kept on disk.
    """

    key: str
    lower: Callable[[], Lowering]
    numbers: Mapping[str, float]
    arrays: Mapping[str, Any]
    kept: bool = True

    @classmethod
    def of(
        cls,
        write: Callable[[Graph], Outputs],
        columns: Mapping[str, Any],
        form: str,
        indicators: Mapping[str, tuple[str, str]] | None = None,
        *,
        kept: bool = True,
    ) -> Program:
        """What a function writes on a graph.

        Parameters
        ----------
        write : callable
        columns, indicators
            Of `graph.Graph`.
        form : str
            All that the graph depends on besides the data that it asks for.
        kept : bool
            Whether the compiled function is kept on disk.
        """
        data = Graph(columns, indicators or {}, build=False)
        write(data)
        key = hashlib.sha256("\n".join([form, "numbers", *data.numbers, "arrays", *data.arrays]).encode()).hexdigest()

        def lower() -> Lowering:
            from pytensor.configdefaults import config

            with config.change_flags(traceback__limit=0):  # a note of the lines of Python that wrote each term took a third of this
                return derived()

        def derived() -> Lowering:
            import pytensor.tensor as pt
            from pytensor.gradient import grad
            from pytensor.graph.replace import clone_replace

            graph = Graph(columns, indicators or {}, build=True)
            written = write(graph)
            assert written is not None
            x, value, behind = written
            slopes: Any = grad(value, [*x, *behind], disconnected_inputs="ignore")
            outputs: Any = [value, *slopes]
            numbers = pt.dvector("numbers")
            given = {graph.variables[name]: numbers[i] for i, name in enumerate(graph.numbers)}
            outputs = clone_replace(outputs, given) if given else outputs
            arrays = [graph.variables[name] for name in graph.arrays]
            return Lowering(x, [*arrays, numbers], outputs, following=graph.following)

        return cls(key, lower, data.numbers, data.arrays, kept)

    @property
    def graph(self) -> Any:
        """The C function (see `lowering.function_of`), from the process or from the disk where it is there."""
        if self.key not in _graphs:
            graph = compiled(_GRAPH, _evaluate, self.key, self.kept, graph=function_of(self.lower))
            _graphs.setdefault(self.key, graph)  # what another thread has compiled meanwhile is in use by its address
        return _graphs[self.key]

    def function(self, size: int, ridge_map: Map = IDENTITY, threads: int = 1, **given: Any) -> Function:
        """The function of `size` coordinates, under a map, for a number of threads; `given` replaces data."""
        numbers = np.array([given.get(name, value) for name, value in self.numbers.items()], dtype=np.float64)
        arrays = tuple(np.ascontiguousarray(given.get(name, values)) for name, values in self.arrays.items())
        return Function(size, self.graph, (*arrays, numbers), ridge_map, threads)


class State(NamedTuple):
    """The arrays, all contiguous, by whose addresses and sizes a function is described to compiled code.

    They are the graph's table, its address and where its memory begins, the arrays of a map, a zero for each thread that is not
    busy, and a row of memory for each thread.
    """

    table: Any
    run: Any
    centre: Any
    scale: Any
    order: Any
    knots: Any
    pieces: Any
    tails: Any
    busy: Any
    memory: Any


ROWS = len(State._fields)  # of a description: an address and a size for each array
AT = State(*range(ROWS))


class Function:
    """A value and gradient of a compiled graph, called from Python or, by its description, from a sampler without Python.

    The description has the addresses and sizes of arrays, which live as long as the function.

    Parameters
    ----------
    size : int
        Number of coordinates.
    graph
        The C function of a `Program`.
    arrays : sequence of arrays of float64 or int64
        The data, in the order in which the graph takes them.
    ridge_map, threads : Map and int
        The map to the coordinates, and how many calls may run at a time.
    """

    def __init__(self, size: int, graph: Any, arrays: tuple[Any, ...], ridge_map: Map = IDENTITY, threads: int = 1) -> None:
        table = np.array([(a.ctypes.data, a.size) for a in arrays], dtype=np.int64)
        point = np.zeros(size)  # read before the function returns, unless the optimiser moves that past the return
        needed = int(graph.ctypes(point.ctypes.data, 0, table.ctypes.data, 0))
        splines_of = 2 * (ridge_map.pieces.shape[2] if ridge_map.order.size else 0)
        memory = np.empty((threads, 6 * size + splines_of + needed))
        run = np.array([graph.address, 6 * size + splines_of], dtype=np.int64)
        state = State(table, run, **ridge_map._asdict(), busy=np.zeros(threads, dtype=np.int64), memory=memory)
        self.size, self.arrays = size, (*arrays, *state)
        self.description = np.array([(a.ctypes.data, a.size) for a in state], dtype=np.int64).ravel()

    def __call__(self, z: Any) -> tuple[float, Any]:
        values, gradients = self.many(z[None])
        return float(values[0]), gradients[0]

    def many(self, z: Any) -> tuple[Any, Any]:
        """Values (S,) and gradients (S, size) at points z (S, size), with little overhead of Python."""
        z, k = np.ascontiguousarray(z, dtype=np.float64), self.size
        if z.ndim != 2 or z.shape[1] != k:
            raise ValueError(f"the density takes points of {k} coordinates, not an array {z.shape}")
        values, gradients, logp = np.empty(len(z)), np.empty_like(z), logp_by_address()
        point, gradient, value, description = (a.ctypes.data for a in (z, gradients, values, self.description))
        for i in range(len(z)):
            logp(k, point + 8 * k * i, gradient + 8 * k * i, value + 8 * i, description)
        return values, gradients


def _to_swap(typing: Any, address: Any, old: Any, new: Any) -> Any:
    """Atomically replace `old` by `new` at an address; returns whether the number there was `old`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.extract_value(builder.cmpxchg(number, arguments[1], arguments[2], "acq_rel", "monotonic"), 1)

    return types.boolean(types.intp, types.int64, types.int64), code


_swap: Any = intrinsic(_to_swap)


def _logp(dim_: Any, z_: Any, gradient_: Any, value_: Any, description_: Any) -> int:
    d = carray(pointer(description_), (ROWS, 2), np.int64)
    busy, threads = d[AT.busy, 0], d[AT.busy, 1]
    mine = 0
    while not _swap(busy + 8 * mine, 0, 1):
        mine = (mine + 1) % threads
    run, order = wholes(d[AT.run, 0], d[AT.run, 1]), wholes(d[AT.order, 0], d[AT.order, 1])
    centre, scale = reals(d[AT.centre, 0], d[AT.centre, 1]), reals(d[AT.scale, 0], d[AT.scale, 1])
    knots, pieces = reals(d[AT.knots, 0], d[AT.knots, 1]), reals(d[AT.pieces, 0], d[AT.pieces, 1])
    tails = reals(d[AT.tails, 0], d[AT.tails, 1])
    dim: Any = np.int64(dim_)
    tailed = tails.size // 4
    z, gradient = carray(z_, dim_, np.float64), carray(gradient_, dim_, np.float64)
    memory = d[AT.memory, 0] + 8 * (d[AT.memory, 1] // threads * mine)
    y, x, d_x = reals(memory, dim), reals(memory + 8 * dim, dim), reals(memory + 16 * dim, dim)
    stretch, rise = reals(memory + 24 * dim, tailed), reals(memory + 32 * dim, tailed)
    widths = reals(memory + 40 * dim, dim)
    turn, number = 0.0, pieces.size // (4 * (knots.size - 1)) if order.size else dim - dim
    along, slope = reals(memory + 48 * dim, number), reals(memory + 48 * dim + 8 * number, number)
    stretch_tails(tails, z, stretch, rise, y)
    if order.size:
        turn = splines(knots, pieces, y[0], along, slope)
    ridge(centre, scale, order, along, widths, y, x)
    value = _call_graph(run[0], (memory + 8 * dim, memory + 16 * dim, d[AT.table, 0], memory + 8 * run[1]))
    value += ridge_slopes(scale, order, along, widths, slope, turn, y, d_x, gradient)
    value += tail_slopes(stretch, rise, gradient)
    _swap(busy + 8 * mine, 1, 0)
    carray(value_, 1, np.float64)[0] = value
    for i in range(dim):
        if not math.isfinite(gradient[i]):
            return 3
    return 0 if math.isfinite(value) else 4


def _copy(dim: Any, size: Any, z_: Any, out_: Any, description_: Any) -> int:
    z, out = carray(z_, dim, np.float64), carray(out_, size, np.float64)
    for i in range(size):
        out[i] = z[i]
    return 0


@cache
def callbacks() -> tuple[Any, Any]:
    """The log density and the storing of a draw as C functions, so that chains run without Python and its lock."""
    pointer_to: Any = types.CPointer
    double, address = pointer_to(types.double), types.uintp
    logp = compiled(types.int64(types.uint64, double, double, double, address), _logp)
    return logp, compiled(types.int64(types.uint64, types.uint64, double, double, address), _copy)


@cache
def logp_by_address() -> Callable[[int, int, int, int, int], int]:
    """The log density for Python: takes the dimension and addresses of z, gradient, value and description; returns 0 if finite."""
    integer, address = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(integer, ctypes.c_uint64, address, address, address, address)(callbacks()[0].address)
