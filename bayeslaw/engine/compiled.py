"""The compiled log density, for sampling and point fits.

`forward`, `backward`, the densities of noise and `_evaluate` are plain functions: `compiled_function` compiles each by itself, and
they call each other by address. If Numba links a function into its caller, the optimiser treats it differently: draws then differed
in their last digits between the process that compiled and later ones.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from bayeslaw.engine.build import ANY_ORDER, Reals, Wholes, calling, compiled, jit, pointer, reals, wholes
from bayeslaw.engine.likelihoods import normal_density, ou_density, student_density
from bayeslaw.engine.maps import ridge, ridge_slopes, splines, stretch_tails, tail_slopes
from bayeslaw.engine.ops import backward, forward

State = tuple[Wholes, Reals, Reals, Wholes, Wholes, Wholes, Reals, Wholes, Reals, Reals, Reals, Wholes, Wholes, Wholes]
"""Of a density: code, memory, slope, inputs, outputs, flags, y, starts, count, scatter, squared errors, family, group and
addresses of its compiled functions."""

Map = tuple[Reals, Reals, Wholes, Reals, Reals, Reals]
"""Centre, scale, order, knots, pieces and tails of a `transport.RidgeMap`."""

IDENTITY: Map = (np.empty(0), np.empty((0, 0)), np.empty(0, np.int64), np.empty(0), np.empty((4, 0, 0)), np.empty((0, 4)))

_REALS, _WHOLES, _CODE = (types.Array(kind, axes, "C") for kind, axes in ((types.float64, 1), (types.int64, 1), (types.int64, 2)))
_FORWARD = types.void(_CODE, _REALS)
_BACKWARD = types.void(_CODE, _REALS, _REALS)
_ROWS = (_REALS, _REALS, _WHOLES)
_tuple: Any = types.Tuple
_NORMAL = _tuple([types.float64] * 3)(
    *_ROWS, *[_REALS] * 3, *[_WHOLES] * 2, *[_REALS] * 2, types.float64, types.float64, *[_REALS] * 3
)
_EVALUATE = types.float64(types.uintp, types.int64, _REALS, _REALS)
_STUDENT = _tuple([types.float64] * 2)(*_ROWS, _REALS, _WHOLES, _REALS, types.float64, *[_REALS] * 6)


_call_forward, _call_backward = calling(_FORWARD), calling(_BACKWARD)
_call_normal, _call_student, _call_evaluate = calling(_NORMAL), calling(_STUDENT), calling(_EVALUATE)


@jit
def huber_sum(
    functions: Wholes, code: Wholes, memory: Reals, slope: Reals, inputs: Wholes, first: int,
    y: Reals, weights: Reals, delta: float, x: Reals, gradient: Reals,
) -> float:  # fmt: skip
    """Weighted sum of Huber losses of log L - y at the coordinates x; writes its gradient into `gradient`."""
    for i in range(inputs.size):
        memory[inputs[i]] = x[i]
    _call_forward(functions[0], (code, memory))
    for i in range(slope.size):
        slope[i] = 0.0
    total = 0.0
    for i in range(y.size):
        e = memory[first + i] - y[i]
        if abs(e) <= delta:
            total += weights[i] * 0.5 * e * e
            slope[first + i] += weights[i] * e
        else:
            total += weights[i] * delta * (abs(e) - 0.5 * delta)
            slope[first + i] += weights[i] * delta * np.sign(e)
    _call_backward(functions[1], (code, memory, slope))
    for i in range(inputs.size):
        gradient[i] = slope[inputs[i]]
    return total


def _to_swap(typing: Any, address: Any, old: Any, new: Any) -> Any:
    """Atomically replace `old` by `new` at an address; returns whether the number there was `old`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.extract_value(builder.cmpxchg(number, arguments[1], arguments[2], "acq_rel", "monotonic"), 1)

    return types.boolean(types.intp, types.int64, types.int64), code


_swap: Any = intrinsic(_to_swap)

ARRAYS = 22  # number of arrays of a density; see `describe`


def workspace(dimension: int, arrays: Map, groups: int, threads: int) -> Reals:
    """The numbers that threads need besides the tape's.

    Parameters
    ----------
    dimension, arrays, groups, threads
        Number of coordinates, the map to them, and the numbers of groups of noise and of threads.
    """
    return np.empty(threads * (6 * dimension + 2 * (arrays[4].shape[2] if arrays[2].size else 0) + 4 * groups))


def describe(arrays: tuple[Any, ...]) -> Wholes:
    """Addresses and sizes of the arrays of a density, for compiled code outside Python: `State`, `Map`, busy, workspace.

    `memory` and `slope` of the state have a row for each concurrent thread, and `busy` has a zero for each. All arrays must be
    contiguous and outlive the description.
    """
    if len(arrays) != ARRAYS or not all(a.flags.c_contiguous for a in arrays):
        raise ValueError("the density's arrays must be contiguous and complete")
    return np.array([(a.ctypes.data, a.size) for a in arrays], dtype=np.int64).ravel()


def _evaluate(description: int, mine: int, x: Reals, gradient: Reals) -> float:
    """Log density at the coordinates x, computed in the workspace of a thread; writes its gradient into `gradient`."""
    d = carray(pointer(description), (ARRAYS, 2), np.int64)
    code, size = carray(pointer(d[0, 0]), (d[0, 1] // 10, 10), np.int64), d[1, 1] // d[20, 1]
    memory, slope = reals(d[1, 0] + 8 * mine * size, size), reals(d[2, 0] + 8 * mine * size, size)
    inputs, outputs, flags = wholes(d[3, 0], d[3, 1]), wholes(d[4, 0], d[4, 1]), wholes(d[5, 0], d[5, 1])
    y, count, functions = reals(d[6, 0], d[6, 1]), reals(d[8, 0], d[8, 1]), wholes(d[13, 0], d[13, 1])
    scatter, squared = reals(d[9, 0], d[9, 1]), reals(d[10, 0], d[10, 1])
    starts, family, group = wholes(d[7, 0], d[7, 1]), wholes(d[11, 0], d[11, 1]), wholes(d[12, 0], d[12, 1])
    # With an OU run effect, `skew` and `excess` are whether there is a correlation length, and the length; see `ou_density`.
    student, run_effect, checkpoint_effect, skew, groups = flags[0], flags[1], flags[2], flags[3], flags[4]
    k = inputs.size
    for i in range(k):
        memory[inputs[i]] = x[i]
    _call_forward(functions[0], (code, memory))
    for i in range(flags[5]):
        slope[i] = 0.0
    for i in range(x.size):
        gradient[i] = 0.0
    first, at = outputs[1], 2 + groups * (1 + run_effect)
    slope[outputs[0]] = 1.0
    mu, d_mu = memory[first : first + y.size], slope[first : first + y.size]
    scratch = d[21, 0] + 8 * (d[21, 1] // d[20, 1] * (mine + 1) - 4 * groups)
    sigma, tau = reals(scratch, groups), reals(scratch + 8 * groups, groups)
    d_sigma, d_tau = reals(scratch + 16 * groups, groups), reals(scratch + 24 * groups, groups)
    for g in range(groups):
        sigma[g] = memory[outputs[2 + g]]
        tau[g] = memory[outputs[2 + groups + g]] if run_effect else 0.0
        d_sigma[g], d_tau[g] = 0.0, 0.0
    if student:
        effects, d_effects = x[k:], gradient[k:]
        dof = memory[outputs[at]]
        rows = (y, mu, starts, squared, group)
        part, d_dof = _call_student(functions[2], (*rows, sigma, dof, tau, effects, d_mu, d_effects, d_sigma, d_tau))
        slope[outputs[at]] += d_dof
        for j in range(effects.size):
            part -= 0.5 * effects[j] * effects[j]
            d_effects[j] -= effects[j]
    else:
        spread = memory[outputs[at]] if checkpoint_effect else 0.0
        excess = memory[outputs[at + checkpoint_effect]] if skew else 0.0
        for g in range(groups):
            sigma[g] *= sigma[g]
            tau[g] *= tau[g]
        given = (y, mu, starts, count, scatter, squared, family, group)
        arguments = (*given, sigma, tau, spread * spread, excess, d_mu, d_sigma, d_tau)
        part, d_omega, d_excess = _call_normal(functions[2], arguments)
        for g in range(groups):
            d_sigma[g] *= 2 * memory[outputs[2 + g]]
            if run_effect:
                d_tau[g] *= 2 * memory[outputs[2 + groups + g]]
        if checkpoint_effect:
            slope[outputs[at]] += 2 * spread * d_omega
        if skew:
            slope[outputs[at + checkpoint_effect]] += d_excess
    for g in range(groups):
        slope[outputs[2 + g]] += d_sigma[g]
        if run_effect:
            slope[outputs[2 + groups + g]] += d_tau[g]
    _call_backward(functions[1], (code, memory, slope))
    for i in range(k):
        gradient[i] = slope[inputs[i]]
    return float(memory[outputs[0]] + part)


def _logp(dim_: Any, z_: Any, gradient_: Any, value_: Any, description_: Any) -> int:
    d = carray(pointer(description_), (ARRAYS, 2), np.int64)
    busy, threads = d[20, 0], d[20, 1]
    mine = 0
    while not _swap(busy + 8 * mine, 0, 1):
        mine = (mine + 1) % threads
    centre, scale, order = reals(d[14, 0], d[14, 1]), reals(d[15, 0], d[15, 1]), wholes(d[16, 0], d[16, 1])
    knots, pieces = reals(d[17, 0], d[17, 1]), reals(d[18, 0], d[18, 1])
    tails = reals(d[19, 0], d[19, 1])
    dim: Any = np.int64(dim_)
    tailed = tails.size // 4
    z, gradient = carray(z_, dim_, np.float64), carray(gradient_, dim_, np.float64)
    scratch = d[21, 0] + 8 * (d[21, 1] // threads * mine)
    y, x, d_x = reals(scratch, dim), reals(scratch + 8 * dim, dim), reals(scratch + 16 * dim, dim)
    stretch, rise = reals(scratch + 24 * dim, tailed), reals(scratch + 32 * dim, tailed)
    widths = reals(scratch + 40 * dim, dim)
    turn, number = 0.0, pieces.size // (4 * (knots.size - 1)) if order.size else dim - dim
    along, slope = reals(scratch + 48 * dim, number), reals(scratch + 48 * dim + 8 * number, number)
    stretch_tails(tails, z, stretch, rise, y)
    if order.size:
        turn = splines(knots, pieces, y[0], along, slope)
    ridge(centre, scale, order, along, widths, y, x)
    value = _call_evaluate(wholes(d[13, 0], d[13, 1])[3], (description_, mine, x, d_x))
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
def compiled_function(name: str) -> Any:
    """A function that runs a tape, a likelihood by its noise, or `evaluate`; compiled when it is first asked for."""
    functions: dict[str, tuple[Any, Callable[..., Any]]] = {
        "forward": (_FORWARD, forward),
        "backward": (_BACKWARD, backward),
        "normal": (_NORMAL, normal_density),
        "ou": (_NORMAL, ou_density),
        "student": (_STUDENT, student_density),
        "evaluate": (_EVALUATE, _evaluate),
    }
    options: dict[str, Any] = {"fastmath": ANY_ORDER} if name in ("normal", "ou") else {}
    return compiled(*functions[name], **options)


def addresses(*names: str) -> Wholes:
    """Addresses of compiled functions; others are not compiled."""
    return np.array([compiled_function(name).address for name in names], dtype=np.int64)


@cache
def callbacks() -> tuple[Any, Any]:
    """The log density and the storing of a draw as C functions, so that chains run without Python and its lock."""
    pointer_to: Any = types.CPointer
    double, pointer = pointer_to(types.double), types.uintp
    logp = compiled(types.int64(types.uint64, double, double, double, pointer), _logp)
    return logp, compiled(types.int64(types.uint64, types.uint64, double, double, pointer), _copy)


@cache
def logp_by_address() -> Callable[[int, int, int, int, int], int]:
    """The log density for Python: takes the dimension and addresses of z, gradient, value and description; returns 0 if finite."""
    integer, address = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(integer, ctypes.c_uint64, address, address, address, address)(callbacks()[0].address)
