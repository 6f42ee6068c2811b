"""The compiled kernels, all in one file.

Numba keeps compiled functions on disk and knows them to be stale by their own file alone, not by the files of the functions
they call: kernels that call each other therefore stand together, so that no change can leave an old number behind.

`forward`, `backward`, the densities of noise and `evaluate` are plain functions here: `machine` compiles each by itself, and they
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
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

ADD, SUB, MUL, DIV, POW, NEG, EXP, EXPM1, LOG, LOG1P, SQRT, TANH, SIGMOID, SOFTPLUS, MIN, MAX, SELECT, SUM, GATHER = range(19)


State = tuple[
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
]
"""Of a density: code, memory, slope, inputs, outputs, flags, y, starts, count, scatter, squared errors, family, group and
addresses of its machines."""

Map = tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.float64],
]
"""Centre, scale, order, knots, pieces and bends of a `whitening.Whitening`."""

STRAIGHT: Map = (
    np.empty(0),
    np.empty((0, 0)),
    np.empty(0, np.int64),
    np.empty(0),
    np.empty((4, 0, 0)),
    np.empty((0, 4)),
)
"""The map that leaves coordinates as they are."""


def jit[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel once per machine, free of Python's lock while it runs; division by zero gives inf or nan."""
    compiled: Callable[P, R] = njit(nogil=True, cache=True, error_model="numpy")(function)
    return compiled


ANY_ORDER = {"reassoc", "contract", "nsz"}
_INNER: Any = {"nogil": True, "cache": True, "error_model": "numpy", "no_cpython_wrapper": True}


def inner[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `jit`, for what only kernels call: what Python would need to call it takes as long to compile as a small function."""
    compiled: Callable[P, R] = njit(**_INNER)(function)
    return compiled


def summing[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `inner`, for sums whose order is of no matter: several numbers are then added at a time."""
    compiled: Callable[P, R] = njit(**_INNER, fastmath=ANY_ORDER)(function)
    return compiled


def _to_bits(typing: Any, x: Any) -> Any:
    """The bits of a float as a whole number."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


def _to_float(typing: Any, bits: Any) -> Any:
    """The float of which a whole number has the bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


_bits: Any = intrinsic(_to_bits)
_float: Any = intrinsic(_to_float)

FEW = 48  # numbers for which vectorised loops are not worth a call
ROUND = 1.5 * 2.0**52  # adding it rounds to a whole number, which then stands in the lowest bits
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
SERIES = tuple(1 / math.factorial(k) for k in range(14))
ODD = tuple(1 / (2 * k + 1) for k in range(12))


@inner
def exps(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Exponentials to one unit in the last place, several at a time: the loop has no call, so it is vectorised."""
    beyond = 0
    for i in range(x.size):
        v = x[i]
        inside = min(max(v, -708.0), 709.0)
        shifted = inside / math.log(2.0) + ROUND
        k = shifted - ROUND
        r = (inside - k * LN2_HIGH) - k * LN2_LOW
        p = SERIES[13]
        for power in (12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0):
            p = p * r + SERIES[power]
        out[i] = p * _float((_bits(shifted) << 52) + (1023 << 52))
        beyond += not -708.0 <= v <= 709.0
    if beyond:
        for i in range(x.size):
            if not -708.0 <= x[i] <= 709.0:
                out[i] = math.exp(x[i])


@inner
def logs(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Logarithms to two units in the last place, several at a time; -inf for what is not positive."""
    beyond = 0
    for i in range(x.size):
        v = x[i]
        # x = 2**e f with f between sqrt(1/2) and sqrt(2); e is left as the lowest bits of a large number
        offset = _bits(v) - (0x3FE6A09E667F3BCD - (1 << 62))  # positive, so that its bits may be moved as they are
        f = _float((offset & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
        e = _float((offset >> 52) + (0x4338000000000000 - (1 << 10))) - ROUND
        s = (f - 1.0) / (f + 1.0)
        q = s * s
        p = ODD[11]
        for k in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1):
            p = p * q + ODD[k]
        out[i] = e * LN2_HIGH + (2 * s + (2 * s * q * p + e * LN2_LOW))
        beyond += not 2.3e-308 <= v <= 1.7e308
    if beyond:
        for i in range(x.size):
            if not 2.3e-308 <= x[i] <= 1.7e308:
                out[i] = -math.inf if x[i] <= 0 else math.log(x[i])


@summing
def total(x: NDArray[np.float64]) -> float:
    result = 0.0
    for i in range(x.size):
        result += x[i]
    return result


@summing
def product(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    result = 0.0
    for i in range(x.size):
        result += x[i] * y[i]
    return result


@inner
def combine(op: int, x: NDArray[np.float64], y: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Sum, difference, product or quotient of arrays of which one may be a single number: loops that are vectorised."""
    n, first, second = out.size, x[0], y[0]
    if op <= SUB:
        sign = 1.0 if op == ADD else -1.0
        if x.size == n and y.size == n:
            for i in range(n):
                out[i] = x[i] + sign * y[i]
        elif x.size == n:
            for i in range(n):
                out[i] = x[i] + sign * second
        else:
            for i in range(n):
                out[i] = first + sign * y[i]
    elif op == MUL:
        if x.size == n and y.size == n:
            for i in range(n):
                out[i] = x[i] * y[i]
        else:
            many, one = (x, second) if x.size == n else (y, first)
            for i in range(n):
                out[i] = many[i] * one
    elif x.size == n and y.size == n:
        for i in range(n):
            out[i] = x[i] / y[i]
    elif x.size == n:
        for i in range(n):
            out[i] = x[i] / second
    else:
        for i in range(n):
            out[i] = first / y[i]


@inner
def pointwise(op: int, x: float, y: float, z: float) -> float:
    """A function of up to three numbers."""
    if op == EXP:
        return math.exp(x)
    if op == LOG:
        return math.log(x) if x > 0 else -math.inf
    if op == NEG:
        return -x
    if op == EXPM1:
        return math.expm1(x)
    if op == LOG1P:
        return math.log1p(x)
    if op == SQRT:
        return math.sqrt(x)
    if op == TANH:
        return math.tanh(x)
    if op == SIGMOID:
        return 1 / (1 + math.exp(-x))
    if op == SOFTPLUS:
        return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
    if op == POW:
        return math.pow(x, y)
    if op == MIN:
        return min(x, y)
    if op == MAX:
        return max(x, y)
    return y if x > 0.5 else z


@inner
def rise(op: int, x: float, value: float) -> float:
    """Derivative of a function of one number at x, where it has a value; logarithm and exponential have loops of their own."""
    if op == NEG:
        return -1.0
    if op == EXPM1:
        return value + 1
    if op == LOG1P:
        return 1 / (1 + x)
    if op == SQRT:
        return 1 / (2 * value)
    if op == TANH:
        return 1 - value * value
    if op == SIGMOID:
        return value * (1 - value)
    return 1 / (1 + math.exp(-x))


def forward(code: NDArray[np.int64], memory: NDArray[np.float64]) -> None:
    """Run every operation, leaving the results in `memory`."""
    for line in range(code.shape[0]):
        op, out, n = code[line, 0], code[line, 1], code[line, 2]
        a, sa, b, sb = code[line, 3], code[line, 4], code[line, 5], code[line, 6]
        c, sc = code[line, 7], code[line, 8]
        if op <= DIV and n < FEW:
            for i in range(n):
                x, y = memory[a + i * sa], memory[b + i * sb]
                memory[out + i] = x + y if op == ADD else x - y if op == SUB else x * y if op == MUL else x / y
        elif op <= DIV:
            left, right = memory[a : a + (n if sa else 1)], memory[b : b + (n if sb else 1)]
            combine(op, left, right, memory[out : out + n])
        elif op == EXP and n >= FEW:
            exps(memory[a : a + n], memory[out : out + n])
        elif op == EXP:
            for i in range(n):
                memory[out + i] = math.exp(memory[a + i])
        elif op == LOG and n >= FEW:
            logs(memory[a : a + n], memory[out : out + n])
        elif op <= SELECT:  # an argument that an operation doesn't have is some number
            for i in range(n):
                memory[out + i] = pointwise(op, memory[a + i * sa], memory[b + i * sb], memory[c + i * sc])
        elif op == GATHER:
            for i in range(n):
                memory[out + i] = memory[a + int(memory[b + i])]
        else:
            result = 0.0
            for i in range(n):
                result += memory[a + i]
            memory[out] = result


@inner
def pass_on(slope: NDArray[np.float64], at: int, stride: int, pull: NDArray[np.float64], sign: float) -> None:
    """Add derivatives, times 1 or -1, to those of an argument: one for each, or all to one number."""
    if stride == 1:
        own = slope[at : at + pull.size]
        for i in range(pull.size):
            own[i] += sign * pull[i]
    else:
        slope[at] += sign * total(pull)


@inner
def pass_on_times(
    slope: NDArray[np.float64], at: int, stride: int, pull: NDArray[np.float64], sign: float, factor: NDArray[np.float64]
) -> None:
    """As `pass_on`, of derivatives times a factor: one for each, or one for all."""
    if stride == 1:
        own = slope[at : at + pull.size]
        if factor.size == pull.size:
            for i in range(pull.size):
                own[i] += sign * pull[i] * factor[i]
        else:
            for i in range(pull.size):
                own[i] += sign * pull[i] * factor[0]
    elif factor.size == pull.size:
        slope[at] += sign * product(pull, factor)
    else:
        slope[at] += sign * factor[0] * total(pull)


def backward(code: NDArray[np.int64], memory: NDArray[np.float64], slope: NDArray[np.float64]) -> None:
    """Carry derivatives from results to arguments; `slope` comes in with those of the outputs and leaves complete."""
    for line in range(code.shape[0] - 1, -1, -1):
        op, out, n = code[line, 0], code[line, 1], code[line, 2]
        a, sa, b, sb = code[line, 3], code[line, 4], code[line, 5], code[line, 6]
        c, sc = code[line, 7], code[line, 8]
        if op <= DIV and n < FEW:
            for i in range(n):
                g, left, right = slope[out + i], a + i * sa, b + i * sb
                if op == MUL:
                    slope[left] += g * memory[right]
                    slope[right] += g * memory[left]
                elif op == DIV:
                    g /= memory[right]
                    slope[left] += g
                    slope[right] -= g * memory[out + i]
                else:
                    slope[left] += g
                    slope[right] += g if op == ADD else -g
        elif op <= DIV:
            pull = slope[out : out + n]  # of no further use: for a quotient it becomes that of the numerator
            below = memory[b : b + (n if sb else 1)]
            if op == MUL:
                pass_on_times(slope, a, sa, pull, 1.0, below)
                pass_on_times(slope, b, sb, pull, 1.0, memory[a : a + (n if sa else 1)])
            else:
                if op == DIV:
                    for i in range(n):
                        pull[i] /= below[i * sb]
                pass_on(slope, a, sa, pull, 1.0)
                if op == DIV:
                    pass_on_times(slope, b, sb, pull, -1.0, memory[out : out + n])
                else:
                    pass_on(slope, b, sb, pull, 1.0 if op == ADD else -1.0)
        elif op == EXP:
            for i in range(n):
                slope[a + i] += slope[out + i] * memory[out + i]
        elif op == LOG:
            for i in range(n):
                slope[a + i] += slope[out + i] / memory[a + i]
        elif op == POW:
            for i in range(n):
                base, power = memory[a + i * sa], memory[b + i * sb]
                slope[a + i * sa] += slope[out + i] * power * base ** (power - 1)
                if base > 0:
                    slope[b + i * sb] += slope[out + i] * memory[out + i] * math.log(base)
        elif op <= SOFTPLUS:
            for i in range(n):
                slope[a + i] += slope[out + i] * rise(op, memory[a + i], memory[out + i])
        elif op <= SELECT:
            for i in range(n):
                x = memory[a + i * sa]
                first, second = (b + i * sb, c + i * sc) if op == SELECT else (a + i * sa, b + i * sb)
                holds = x > 0.5 if op == SELECT else (x < memory[second]) == (op == MIN)
                slope[first if holds else second] += slope[out + i]
        elif op == GATHER:
            for i in range(n):
                slope[a + int(memory[b + i])] += slope[out + i]
        else:
            for i in range(n):
                slope[a + i] += slope[out]


@jit
def digamma(x: float) -> float:
    """Derivative of the log gamma function for x > 0: recurrence to x >= 6, then the asymptotic series."""
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    return total + math.log(x) - 0.5 / x - f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f / 132))))


@jit
def log_mills(x: float) -> float:
    """x^2/2 + log Phi(x), without what overflows: by a continued fraction of Mills' ratio where Phi is small."""
    if x > -5.0:
        return 0.5 * x * x + math.log(0.5 * math.erfc(-x * math.sqrt(0.5)))
    fraction = -x
    for k in range(40, 0, -1):
        fraction = -x + k / fraction
    return -math.log(fraction) - 0.5 * math.log(2 * math.pi)


def normal_density(
    y: NDArray[np.float64],
    mu: NDArray[np.float64],
    starts: NDArray[np.int64],
    count: NDArray[np.float64],
    scatter: NDArray[np.float64],
    squared: NDArray[np.float64],
    family: NDArray[np.int64],
    group: NDArray[np.int64],
    v: NDArray[np.float64],
    t: NDArray[np.float64],
    omega: float,
    slack: float,
    d_mu: NDArray[np.float64],
    d_v: NDArray[np.float64],
    d_t: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Log density of rows sorted by checkpoint and run, all effects integrated out; see `noise`.

    v and t are variances of points and run effects for every group, omega that of checkpoint effects, slack the mean excess of a
    run; t, omega and slack may be 0 for none. A row is the mean of `count` points; `scatter` is each run's sum of squares of points
    around the means of their rows; `squared` are known variances of rows of one point each, or empty. `family` tells with which run
    each checkpoint begins. Returns the log density and its derivatives by omega and slack; adds the others to the last arguments.
    """
    logp, d_omega, d_slack = 0.0, 0.0, 0.0
    widest = 1
    for c in range(family.size - 1):
        widest = max(widest, family[c + 1] - family[c])
    weights, totals = np.empty(widest), np.empty(widest)
    plain = squared.size == 0
    for c in range(family.size - 1):
        first = family[c]
        whole_a, whole_b = 0.0, 0.0
        for j in range(first, family[c + 1]):
            variance, spread = v[group[j]], t[group[j]]
            inverse = 1 / variance
            k, weight, total, squares, logs = 0.0, 0.0, 0.0, scatter[j] * inverse, 0.0
            if plain:
                for i in range(starts[j], starts[j + 1]):
                    e = y[i] - mu[i]
                    k += count[i]
                    total += count[i] * e
                    squares += count[i] * e * e * inverse
                weight, total, logs = k * inverse, total * inverse, k * math.log(variance)
            else:
                for i in range(starts[j], starts[j + 1]):
                    e, p = y[i] - mu[i], 1 / (variance + squared[i])
                    k += 1.0
                    weight += p
                    total += p * e
                    squares += p * e * e
                    logs -= math.log(p)
            s = 1 + spread * weight
            logp -= 0.5 * (logs + math.log(s) + squares - spread * total * total / s + k * math.log(2 * math.pi))
            whole_a += weight / s
            whole_b += total / s
            weights[j - first], totals[j - first] = weight, total
        z = 1 + omega * whole_a
        logp += 0.5 * (omega * whole_b * whole_b / z - math.log(z))
        d_omega += 0.5 * (whole_b * whole_b / (z * z) - whole_a / z)
        pull_a, pull_b = -0.5 * omega * (1 / z + omega * whole_b * whole_b / (z * z)), omega * whole_b / z
        for j in range(first, family[c + 1]):
            variance, spread = v[group[j]], t[group[j]]
            inverse = 1 / variance
            weight, total = weights[j - first], totals[j - first]
            s = 1 + spread * weight
            if slack > 0:
                a = weight / s
                root = math.sqrt(a)
                x = (total / s - 1 / slack) / root
                h = log_mills(x)
                rise = x + math.exp(-h) / math.sqrt(2 * math.pi)
                logp += 0.5 * math.log(2 * math.pi / a) - math.log(slack) + h
                d_slack += rise / (root * slack * slack) - 1 / slack
                pull_a, pull_b = -0.5 * (1 + rise * x) / a, rise / root
            ratio = total / s
            d_weight = pull_a / (s * s) - pull_b * ratio * spread / s - 0.5 * spread / s - 0.5 * (spread * ratio) ** 2
            d_total = pull_b / s + spread * ratio
            d_t[group[j]] -= (pull_a * weight / s + pull_b * ratio + 0.5) * weight / s - 0.5 * ratio * ratio
            d_variance = 0.5 * scatter[j] * inverse * inverse
            if plain:
                d_p, k = 0.0, 0.0
                for i in range(starts[j], starts[j + 1]):
                    e = y[i] - mu[i]
                    k += count[i]
                    d_p += count[i] * (d_total - 0.5 * e) * e
                    d_mu[i] += count[i] * (e - d_total) * inverse
                d_variance -= (d_p + k * d_weight) * inverse * inverse + 0.5 * k * inverse
            else:
                for i in range(starts[j], starts[j + 1]):
                    e, p = y[i] - mu[i], 1 / (variance + squared[i])
                    d_mu[i] += (e - d_total) * p
                    d_variance -= (d_weight + (d_total - 0.5 * e) * e) * p * p + 0.5 * p
            d_v[group[j]] += d_variance
    return logp, d_omega, d_slack


def drift_density(
    y: NDArray[np.float64],
    mu: NDArray[np.float64],
    starts: NDArray[np.int64],
    clock: NDArray[np.float64],
    scatter: NDArray[np.float64],
    squared: NDArray[np.float64],
    family: NDArray[np.int64],
    group: NDArray[np.int64],
    v: NDArray[np.float64],
    t: NDArray[np.float64],
    omega: float,
    length: float,
    d_mu: NDArray[np.float64],
    d_v: NDArray[np.float64],
    d_t: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Log density of rows sorted by run and clock whose run effects drift, by a Kalman filter; see `noise`.

    It is called as `normal_density` is, so that `evaluate` needs no way of its own to it: `clock` stands where counts do and
    `length`, in the clock's unit, where the mean excess does; scatter, family and omega are of no use. v and t are variances of
    points and of run effects for every group, `squared` known variances of the rows, or empty. Returns the log density, 0, and the
    derivative by length; adds the others to the last arguments.

    With m and P the mean and variance of the effect u given the rows before, S = P + v and K = P / S, a row adds K (e - m) to the
    mean and leaves the variance K v; to the next row u decays by rho = exp(-step / length) and gains the variance (1 - rho^2) t.
    """
    n = y.size
    rho, error, gain, whole, inverse = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(1, n):
        inverse[i] = min(max((clock[i - 1] - clock[i]) / length, -700.0), 0.0)
    inverse[0] = 0.0
    exps(inverse, rho)
    for j in range(starts.size - 1):
        rho[starts[j]] = 0.0  # a run begins with what is true of any moment: mean 0 and variance t
    known = squared.size > 0
    squares = 0.0
    for j in range(starts.size - 1):
        variance, spread = v[group[j]], t[group[j]]
        mean, left = 0.0, 0.0
        for i in range(starts[j], starts[j + 1]):
            own = variance + squared[i] if known else variance
            before = rho[i] * rho[i] * left + (1 - rho[i]) * (1 + rho[i]) * spread
            mean *= rho[i]
            e, s = y[i] - mu[i] - mean, before + own
            p = 1 / s
            k = before * p
            squares += e * e * p
            mean += k * e
            left = k * own
            error[i], gain[i], whole[i], inverse[i] = e, k, s, p
    d_length = 0.0
    for j in range(starts.size - 1):
        variance, spread = v[group[j]], t[group[j]]
        pull_mean, pull_left, d_variance, d_spread = 0.0, 0.0, 0.0, 0.0
        for i in range(starts[j + 1] - 1, starts[j] - 1, -1):
            e, k, p, r = error[i], gain[i], inverse[i], rho[i]
            z = e * p
            d_whole = 0.5 * (z * z - p)
            d_error = pull_mean * k - z
            d_before = d_whole + pull_mean * z * (1 - k) + pull_left * (1 - k) * (1 - k)
            d_variance += d_whole - pull_mean * k * z + pull_left * k * k
            d_mean = pull_mean - d_error
            d_mu[i] -= d_error
            d_spread += (1 - r) * (1 + r) * d_before
            pull_mean, pull_left = r * d_mean, r * r * d_before
            if i > starts[j]:
                own = variance + squared[i - 1] if known else variance
                mean = y[i - 1] - mu[i - 1] - error[i - 1] * (1 - gain[i - 1])
                d_rho = mean * d_mean + 2 * r * (gain[i - 1] * own - spread) * d_before
                d_length += d_rho * r * (clock[i] - clock[i - 1])
        d_v[group[j]] += d_variance
        d_t[group[j]] += d_spread
    logs(whole, inverse)
    return -0.5 * (squares + total(inverse) + n * math.log(2 * math.pi)), 0.0, d_length / (length * length)


def student_density(
    y: NDArray[np.float64],
    mu: NDArray[np.float64],
    starts: NDArray[np.int64],
    squared: NDArray[np.float64],
    group: NDArray[np.int64],
    sigma: NDArray[np.float64],
    dof: float,
    tau: NDArray[np.float64],
    effects: NDArray[np.float64],
    d_mu: NDArray[np.float64],
    d_effects: NDArray[np.float64],
    d_sigma: NDArray[np.float64],
    d_tau: NDArray[np.float64],
) -> tuple[float, float]:
    """Log density of rows sorted by run with Student-t point noise and run effects tau * effects (none if there are no effects).

    sigma and tau are those of every group; `squared` are known variances of the rows, or empty. Returns the log density, without
    the effects' own prior, and its derivative by dof; adds the others to the last arguments.
    """
    front = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    d_front = 0.5 * (digamma((dof + 1) / 2) - digamma(dof / 2) - 1 / dof)
    logp, d_dof = y.size * front, y.size * d_front
    explicit = effects.size > 0
    for j in range(starts.size - 1):
        g = group[j]
        shift = tau[g] * effects[j] if explicit else 0.0
        for i in range(starts[j], starts[j + 1]):
            scale = sigma[g] if squared.size == 0 else math.sqrt(sigma[g] * sigma[g] + squared[i])
            z = (y[i] - mu[i] - shift) / scale
            tail = math.log1p(z * z / dof)
            pull = (dof + 1) * z / (dof + z * z)
            logp -= math.log(scale) + 0.5 * (dof + 1) * tail
            d_mu[i] += pull / scale
            d_sigma[g] += (pull * z - 1) * sigma[g] / (scale * scale)
            d_dof += 0.5 * (pull * z / dof - tail)
            if explicit:
                d_effects[j] += pull * tau[g] / scale
                d_tau[g] += pull * effects[j] / scale
    return logp, d_dof


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


def _calling(kind: Any) -> Any:
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


_call_forward, _call_backward = _calling(_FORWARD), _calling(_BACKWARD)
_call_normal, _call_student, _call_evaluate = _calling(_NORMAL), _calling(_STUDENT), _calling(_EVALUATE)


@inner
def splines(
    knots: NDArray[np.float64],
    pieces: NDArray[np.float64],
    t: float,
    value: NDArray[np.float64],
    slope: NDArray[np.float64],
) -> float:
    """Write values and slopes of all splines at t; return the second derivative of the first. Straight lines beyond the knots."""
    inside = min(max(t, knots[0]), knots[knots.size - 1])
    j, above = 0, knots.size - 1  # searchsorted takes a second to compile
    while above - j > 1:
        middle = (j + above) // 2
        if knots[middle] < inside:
            j = middle
        else:
            above = middle
    h, step = inside - knots[j], pieces.size // 4
    number = step // (knots.size - 1)
    at = j * number
    for i in range(number):
        cubic, square, straight = pieces[at + i], pieces[at + step + i], pieces[at + 2 * step + i]
        slope[i] = (3 * cubic * h + 2 * square) * h + straight
        value[i] = ((cubic * h + square) * h + straight) * h + pieces[at + 3 * step + i] + slope[i] * (t - inside)
    return float(6 * pieces[at] * h + 2 * pieces[at + step]) if t == inside else 0.0


@inner
def ridge(
    centre: NDArray[np.float64],
    scale: NDArray[np.float64],
    order: NDArray[np.int64],
    along: NDArray[np.float64],
    y: NDArray[np.float64],
    x: NDArray[np.float64],
) -> None:
    """Write the coordinates of y into x, along the spine if there is one; `along` are values of the splines at y[0]."""
    n = y.size - 1
    if order.size:
        x[order[0]] = along[0]
        at = 1 + 2 * n
        for i in range(n):
            total = along[1 + i] + math.exp(along[1 + n + i]) * y[1 + i]
            for j in range(i):
                total += along[at + j] * y[1 + j]
            at += i
            x[order[1 + i]] = total
    else:
        for i in range(y.size):
            total = centre[i] if centre.size else y[i]
            if centre.size:
                for j in range(i + 1):
                    total += scale[i * y.size + j] * y[j]
            x[i] = total


@inner
def ridge_slopes(
    scale: NDArray[np.float64],
    order: NDArray[np.int64],
    along: NDArray[np.float64],
    slope: NDArray[np.float64],
    turn: float,
    y: NDArray[np.float64],
    d_x: NDArray[np.float64],
    gradient: NDArray[np.float64],
) -> float:
    """Log of the Jacobian of `ridge`, a constant left out; the gradient of all by y, given that of the density by x."""
    n, logp = y.size - 1, 0.0
    if order.size:
        d_t, at = d_x[order[0]] * slope[0] + turn / slope[0], 1 + 2 * n
        logp = math.log(slope[0])
        for i in range(n):
            g, diagonal = d_x[order[1 + i]], math.exp(along[1 + n + i])
            logp += along[1 + n + i]
            gradient[1 + i] = g * diagonal
            d_t += slope[1 + n + i] + g * (slope[1 + i] + slope[1 + n + i] * diagonal * y[1 + i])
            for j in range(i):
                gradient[1 + j] += g * along[at + j]
                d_t += g * slope[at + j] * y[1 + j]
            at += i
        gradient[0] = d_t
    else:
        for j in range(y.size):
            total = 0.0 if scale.size else d_x[j]
            if scale.size:
                for i in range(j, y.size):
                    total += d_x[i] * scale[i * y.size + j]
            gradient[j] = total
    return logp


@inner
def bent(bends: NDArray[np.float64], z: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    """Write y_i = m_i + s_i sinh((arcsinh(z_i) + e_i) / d_i) into y, for rows m, s, e, d of `bends`; y = z for the others."""
    for i in range(z.size):
        y[i] = z[i]
    for i in range(bends.size // 4):
        m, s, e, d = bends[4 * i], bends[4 * i + 1], bends[4 * i + 2], bends[4 * i + 3]
        y[i] = m + s * math.sinh((math.asinh(z[i]) + e) / d)


@inner
def bent_slopes(bends: NDArray[np.float64], z: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
    """Log of the Jacobian of `bent`; the gradient by y becomes that of all by z."""
    logp = 0.0
    for i in range(bends.size // 4):
        s, e, d = bends[4 * i + 1], bends[4 * i + 2], bends[4 * i + 3]
        root = math.sqrt(1 + z[i] * z[i])
        a = (math.asinh(z[i]) + e) / d
        slope = s * math.cosh(a) / (d * root)
        logp += math.log(slope)
        gradient[i] = gradient[i] * slope + math.tanh(a) / (d * root) - z[i] / (root * root)
    return logp


@jit
def huber_sum(
    machines: NDArray[np.int64],
    code: NDArray[np.int64],
    memory: NDArray[np.float64],
    slope: NDArray[np.float64],
    inputs: NDArray[np.int64],
    first: int,
    y: NDArray[np.float64],
    weights: NDArray[np.float64],
    delta: float,
    x: NDArray[np.float64],
    gradient: NDArray[np.float64],
) -> float:
    """Weighted sum of Huber losses of log L - y at the coordinates x; its gradient goes into `gradient`."""
    for i in range(inputs.size):
        memory[inputs[i]] = x[i]
    _call_forward(machines[0], (code, memory))
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
    _call_backward(machines[1], (code, memory, slope))
    for i in range(inputs.size):
        gradient[i] = slope[inputs[i]]
    return total


def _to_pointer(typing: Any, address: Any) -> Any:
    """The pointer with a given address, inside compiled code."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), code


def _to_swap(typing: Any, address: Any, old: Any, new: Any) -> Any:
    """Whether the number at an address was `old` and is now `new`: in one step, whatever other threads do."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.extract_value(builder.cmpxchg(place, arguments[1], arguments[2], "acq_rel", "monotonic"), 1)

    return types.boolean(types.intp, types.int64, types.int64), code


_pointer: Any = intrinsic(_to_pointer)
_swap: Any = intrinsic(_to_swap)

ARRAYS = 21  # that a density needs; see `described`


def described(state: State, way: Map, busy: NDArray[np.int64]) -> NDArray[np.int64]:
    """Addresses and sizes of the arrays of a density, by which compiled code outside Python finds them.

    `memory` and `slope` of the state have a row for each thread that may call at a time, and `busy` a zero for each. All arrays
    must be contiguous and outlive the description.
    """
    whole = (*state, *way, busy)
    if len(whole) != ARRAYS or not all(a.flags.c_contiguous for a in whole):
        raise ValueError("the density's arrays must be contiguous and complete")
    return np.array([(a.ctypes.data, a.size) for a in whole], dtype=np.int64).ravel()


@inner
def reals(d: NDArray[np.int64], row: int) -> NDArray[np.float64]:
    """The array of floats in a row of a description."""
    return carray(_pointer(d[row, 0]), d[row, 1], np.float64)


@inner
def wholes(d: NDArray[np.int64], row: int) -> NDArray[np.int64]:
    """The array of whole numbers in a row of a description."""
    return carray(_pointer(d[row, 0]), d[row, 1], np.int64)


def evaluate(description: int, mine: int, x: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
    """Log density at the coordinates x, worked out in the workspace of a thread; its gradient goes into `gradient`."""
    d = carray(_pointer(description), (ARRAYS, 2), np.int64)
    code, size = carray(_pointer(d[0, 0]), (d[0, 1] // 10, 10), np.int64), d[1, 1] // d[20, 1]
    memory, slope = reals(d, 1)[mine * size : (mine + 1) * size], reals(d, 2)[mine * size : (mine + 1) * size]
    inputs, outputs, flags, machines = wholes(d, 3), wholes(d, 4), wholes(d, 5), wholes(d, 13)
    y, starts, squared, group = reals(d, 6), wholes(d, 7), reals(d, 10), wholes(d, 12)
    # With drifting run effects `skew` and `slack` stand for having a length and for it; see `drift_density`.
    student, run_effect, checkpoint_effect, skew, groups = flags[0], flags[1], flags[2], flags[3], flags[4]
    k = inputs.size
    for i in range(k):
        memory[inputs[i]] = x[i]
    _call_forward(machines[0], (code, memory))
    for i in range(size):
        slope[i] = 0.0
    for i in range(x.size):
        gradient[i] = 0.0
    first, at = outputs[1], 2 + groups * (1 + run_effect)
    slope[outputs[0]] = 1.0
    mu, d_mu = memory[first : first + y.size], slope[first : first + y.size]
    sigma, tau, d_sigma, d_tau = np.zeros(groups), np.zeros(groups), np.zeros(groups), np.zeros(groups)
    for g in range(groups):
        sigma[g] = memory[outputs[2 + g]]
        if run_effect:
            tau[g] = memory[outputs[2 + groups + g]]
    if student:
        effects, d_effects = x[k:], gradient[k:]
        part, d_dof = _call_student(
            machines[2],
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
            machines[2],
            (
                *(y, mu, starts, reals(d, 8), reals(d, 9), squared, wholes(d, 11), group),
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
    _call_backward(machines[1], (code, memory, slope))
    for i in range(k):
        gradient[i] = slope[inputs[i]]
    return float(memory[outputs[0]] + part)


def _logp(dim: Any, z_: Any, gradient_: Any, value_: Any, description_: Any) -> int:
    d = carray(_pointer(description_), (ARRAYS, 2), np.int64)
    busy, threads = d[20, 0], d[20, 1]
    mine = 0
    while not _swap(busy + 8 * mine, 0, 1):
        mine = (mine + 1) % threads
    scale, order, knots, pieces, bends = reals(d, 15), wholes(d, 16), reals(d, 17), reals(d, 18), reals(d, 19)
    z, gradient = carray(z_, dim, np.float64), carray(gradient_, dim, np.float64)
    y, x, d_x, turn = np.empty(dim), np.empty(dim), np.empty(dim), 0.0
    along, slope = np.empty(pieces.size), np.empty(pieces.size)
    bent(bends, z, y)
    if order.size:
        turn = splines(knots, pieces, y[0], along, slope)
    ridge(reals(d, 14), scale, order, along, y, x)
    value = _call_evaluate(wholes(d, 13)[3], (description_, mine, x, d_x))
    _swap(busy + 8 * mine, 1, 0)
    value += ridge_slopes(scale, order, along, slope, turn, y, d_x, gradient)
    value += bent_slopes(bends, z, gradient)
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


def roomy[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with a megabyte of Python's own stack free below it.

    Python takes that stack from the system in pieces of 16 KiB, and a call at the end of a piece maps and unmaps the next one
    each time: a compiler that recurses there paid 600,000 such maps, a fifth of its time. A piece is at least twice as large as
    the frame that asks for it, so that a frame said to be large leaves as much again for all that it calls.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=140_000)
    return call


@roomy
def _compiled(kind: Any, function: Callable[..., Any], **options: Any) -> Any:
    """A function compiled for callers that have its address, once per machine."""
    return cfunc(kind, cache=True, error_model="numpy", **options)(function)


@cache
def machine(name: str) -> Any:
    """What runs a tape, 'forward' or 'backward', the likelihood with 'normal', 'drift' or 'student' noise, or `evaluate`."""
    match name:
        case "forward":
            return _compiled(_FORWARD, forward)
        case "backward":
            return _compiled(_BACKWARD, backward)
        case "normal":
            return _compiled(_NORMAL, normal_density, fastmath=ANY_ORDER)
        case "drift":
            return _compiled(_NORMAL, drift_density, fastmath=ANY_ORDER)
        case "student":
            return _compiled(_STUDENT, student_density)
        case "evaluate":
            return _compiled(_EVALUATE, evaluate)
        case _:
            raise ValueError(f"there is no machine {name!r}")


def machines(*names: str) -> NDArray[np.int64]:
    """Addresses of machines; what is not asked for is not compiled."""
    return np.array([machine(name).address for name in names], dtype=np.int64)


@cache
def callbacks() -> tuple[Any, Any]:
    """The log density and the storing of a draw as C functions, so that chains need neither Python nor its lock."""
    pointer_to: Any = types.CPointer
    double, pointer = pointer_to(types.double), types.uintp
    logp = _compiled(types.int64(types.uint64, double, double, double, pointer), _logp)
    return logp, _compiled(types.int64(types.uint64, types.uint64, double, double, pointer), _copy)


@cache
def logp_by_address() -> Callable[[int, int, int, int, int], int]:
    """The log density for Python: dimension, addresses of z, gradient and value, and of a description; returns 0 where finite."""
    integer, address = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(integer, ctypes.c_uint64, address, address, address, address)(callbacks()[0].address)
