"""The compiled density: what sampling, point fits and tests call of the kernels.

`forward`, `backward`, the densities of noise and `evaluate` are plain functions: `machine` compiles each by itself, and they
call each other by address. Where Numba links what is called into the caller it is optimised twice, and optimised otherwise: draws
then depended in their last digits on whether the machine had compiled before.
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

from bayeslaw.engine.build import ANY_ORDER, Reals, Wholes, calling, compiled, jit, place, reals, wholes
from bayeslaw.engine.likelihoods import drift_density, normal_density, student_density
from bayeslaw.engine.maps import bent, bent_slopes, ridge, ridge_slopes, splines
from bayeslaw.engine.ops import backward, forward

State = tuple[Wholes, Reals, Reals, Wholes, Wholes, Wholes, Reals, Wholes, Reals, Reals, Reals, Wholes, Wholes, Wholes]
"""Of a density: code, memory, slope, inputs, outputs, flags, y, starts, count, scatter, squared errors, family, group and
addresses of its machines."""

Map = tuple[Reals, Reals, Wholes, Reals, Reals, Reals]
"""Centre, scale, order, knots, pieces and bends of a `whitening.RidgeMap`."""

STRAIGHT: Map = (
    np.empty(0),
    np.empty((0, 0)),
    np.empty(0, np.int64),
    np.empty(0),
    np.empty((4, 0, 0)),
    np.empty((0, 4)),
)
"""The map that leaves coordinates as they are."""


def _array(kind: Any, dimensions: int = 1) -> Any:
    return types.Array(kind, dimensions, "C")


_REALS, _WHOLES, _CODE = _array(types.float64), _array(types.int64), _array(types.int64, 2)
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
    functions: Wholes,
    code: Wholes,
    memory: Reals,
    slope: Reals,
    inputs: Wholes,
    first: int,
    y: Reals,
    weights: Reals,
    delta: float,
    x: Reals,
    gradient: Reals,
) -> float:
    """Weighted sum of Huber losses of log L - y at the coordinates x; its gradient goes into `gradient`."""
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
    """Whether the number at an address was `old` and is now `new`: in one step, whatever other threads do."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.extract_value(builder.cmpxchg(place, arguments[1], arguments[2], "acq_rel", "monotonic"), 1)

    return types.boolean(types.intp, types.int64, types.int64), code


_swap: Any = intrinsic(_to_swap)

ARRAYS = 22  # that a density needs; see `described`


def workspace_size(dimension: int, arrays: Map, groups: int) -> int:
    """How many floats a thread needs besides the tape's, for a map and for groups of noise."""
    return 6 * dimension + 2 * (arrays[4].shape[2] if arrays[2].size else 0) + 4 * groups


def describe(state: State, arrays: Map, busy: Wholes, scratch: Reals) -> Wholes:
    """Addresses and sizes of the arrays of a density, by which compiled code outside Python finds them.

    `memory` and `slope` of the state have a row for each thread that may call at a time, `busy` a zero for each, and `scratch` so
    many times `workspace`. All arrays must be contiguous and outlive the description.
    """
    whole = (*state, *arrays, busy, scratch)
    if len(whole) != ARRAYS or not all(a.flags.c_contiguous for a in whole):
        raise ValueError("the density's arrays must be contiguous and complete")
    return np.array([(a.ctypes.data, a.size) for a in whole], dtype=np.int64).ravel()


def evaluate(description: int, mine: int, x: Reals, gradient: Reals) -> float:
    """Log density at the coordinates x, worked out in the workspace of a thread; its gradient goes into `gradient`."""
    d = carray(place(description), (ARRAYS, 2), np.int64)
    code, size = carray(place(d[0, 0]), (d[0, 1] // 10, 10), np.int64), d[1, 1] // d[20, 1]
    memory, slope = reals(d[1, 0] + 8 * mine * size, size), reals(d[2, 0] + 8 * mine * size, size)
    inputs, outputs, flags, functions = (
        wholes(d[3, 0], d[3, 1]),
        wholes(d[4, 0], d[4, 1]),
        wholes(d[5, 0], d[5, 1]),
        wholes(d[13, 0], d[13, 1]),
    )
    y, count, scatter, squared = (
        reals(d[6, 0], d[6, 1]),
        reals(d[8, 0], d[8, 1]),
        reals(d[9, 0], d[9, 1]),
        reals(d[10, 0], d[10, 1]),
    )
    starts, family, group = wholes(d[7, 0], d[7, 1]), wholes(d[11, 0], d[11, 1]), wholes(d[12, 0], d[12, 1])
    # With drifting run effects `skew` and `slack` stand for having a length and for it; see `drift_density`.
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
    workspace = d[21, 0] + 8 * (d[21, 1] // d[20, 1] * (mine + 1) - 4 * groups)
    sigma, tau = reals(workspace, groups), reals(workspace + 8 * groups, groups)
    d_sigma, d_tau = reals(workspace + 16 * groups, groups), reals(workspace + 24 * groups, groups)
    for g in range(groups):
        sigma[g] = memory[outputs[2 + g]]
        tau[g] = memory[outputs[2 + groups + g]] if run_effect else 0.0
        d_sigma[g], d_tau[g] = 0.0, 0.0
    if student:
        effects, d_effects = x[k:], gradient[k:]
        part, d_dof = _call_student(
            functions[2],
            (y, mu, starts, squared, group, sigma, memory[outputs[at]], tau, effects, d_mu, d_effects, d_sigma, d_tau),
        )
        slope[outputs[at]] += d_dof
        for j in range(effects.size):
            part -= 0.5 * effects[j] * effects[j]
            d_effects[j] -= effects[j]
    else:
        luck = memory[outputs[at]] if checkpoint_effect else 0.0
        slack = memory[outputs[at + checkpoint_effect]] if skew else 0.0
        for g in range(groups):
            sigma[g] *= sigma[g]
            tau[g] *= tau[g]
        part, d_omega, d_slack = _call_normal(
            functions[2],
            (
                *(y, mu, starts, count, scatter, squared, family, group),
                *(sigma, tau, luck * luck, slack, d_mu, d_sigma, d_tau),
            ),
        )
        for g in range(groups):
            d_sigma[g] *= 2 * memory[outputs[2 + g]]
            if run_effect:
                d_tau[g] *= 2 * memory[outputs[2 + groups + g]]
        if checkpoint_effect:
            slope[outputs[at]] += 2 * luck * d_omega
        if skew:
            slope[outputs[at + checkpoint_effect]] += d_slack
    for g in range(groups):
        slope[outputs[2 + g]] += d_sigma[g]
        if run_effect:
            slope[outputs[2 + groups + g]] += d_tau[g]
    _call_backward(functions[1], (code, memory, slope))
    for i in range(k):
        gradient[i] = slope[inputs[i]]
    return float(memory[outputs[0]] + part)


def _logp(dim_: Any, z_: Any, gradient_: Any, value_: Any, description_: Any) -> int:
    d = carray(place(description_), (ARRAYS, 2), np.int64)
    busy, threads = d[20, 0], d[20, 1]
    mine = 0
    while not _swap(busy + 8 * mine, 0, 1):
        mine = (mine + 1) % threads
    centre, scale, order = reals(d[14, 0], d[14, 1]), reals(d[15, 0], d[15, 1]), wholes(d[16, 0], d[16, 1])
    knots, pieces = reals(d[17, 0], d[17, 1]), reals(d[18, 0], d[18, 1])
    bends = reals(d[19, 0], d[19, 1])
    dim: Any = np.int64(dim_)
    bent_ones = bends.size // 4
    z, gradient = carray(z_, dim_, np.float64), carray(gradient_, dim_, np.float64)
    workspace = d[21, 0] + 8 * (d[21, 1] // threads * mine)
    y, x, d_x = reals(workspace, dim), reals(workspace + 8 * dim, dim), reals(workspace + 16 * dim, dim)
    stretch, rise, widths = (
        reals(workspace + 24 * dim, bent_ones),
        reals(workspace + 32 * dim, bent_ones),
        reals(workspace + 40 * dim, dim),
    )
    turn, number = 0.0, pieces.size // (4 * (knots.size - 1)) if order.size else dim - dim
    along, slope = reals(workspace + 48 * dim, number), reals(workspace + 48 * dim + 8 * number, number)
    bent(bends, z, stretch, rise, y)
    if order.size:
        turn = splines(knots, pieces, y[0], along, slope)
    ridge(centre, scale, order, along, widths, y, x)
    value = _call_evaluate(wholes(d[13, 0], d[13, 1])[3], (description_, mine, x, d_x))
    value += ridge_slopes(scale, order, along, widths, slope, turn, y, d_x, gradient)
    value += bent_slopes(stretch, rise, gradient)
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
    """What runs a tape, 'forward' or 'backward', the likelihood with 'normal', 'drift' or 'student' noise, or `evaluate`."""
    match name:
        case "forward":
            return compiled(_FORWARD, forward)
        case "backward":
            return compiled(_BACKWARD, backward)
        case "normal":
            return compiled(_NORMAL, normal_density, fastmath=ANY_ORDER)
        case "drift":
            return compiled(_NORMAL, drift_density, fastmath=ANY_ORDER)
        case "student":
            return compiled(_STUDENT, student_density)
        case "evaluate":
            return compiled(_EVALUATE, evaluate)
        case _:
            raise ValueError(f"there is no machine {name!r}")


def addresses(*names: str) -> Wholes:
    """Addresses of machines; what is not asked for is not compiled."""
    return np.array([compiled_function(name).address for name in names], dtype=np.int64)


@cache
def callbacks() -> tuple[Any, Any]:
    """The log density and the storing of a draw as C functions, so that chains need neither Python nor its lock."""
    pointer_to: Any = types.CPointer
    double, pointer = pointer_to(types.double), types.uintp
    logp = compiled(types.int64(types.uint64, double, double, double, pointer), _logp)
    return logp, compiled(types.int64(types.uint64, types.uint64, double, double, pointer), _copy)


@cache
def logp_by_address() -> Callable[[int, int, int, int, int], int]:
    """The log density for Python: dimension, addresses of z, gradient and value, and of a description; returns 0 where finite."""
    integer, address = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(integer, ctypes.c_uint64, address, address, address, address)(callbacks()[0].address)
