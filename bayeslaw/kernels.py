"""The compiled kernels, all in one file.

Numba keeps compiled functions on disk and knows them to be stale by their own file alone, not by the files of the functions
they call: kernels that call each other therefore stand together, so that no change can leave an old number behind.
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
]
"""Of a density: code, memory, slope, inputs, outputs, flags, y, starts, count, scatter, squared errors, family and group."""

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


def inlined[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `jit`, but compiled as part of the one kernel that calls it, where a function of its own would be compiled twice."""
    compiled: Callable[P, R] = njit(nogil=True, cache=True, error_model="numpy", inline="always")(function)
    return compiled


def summing[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """As `jit`, for sums whose order is of no matter: several numbers are then added at a time."""
    flags = {"reassoc", "contract", "nsz"}
    compiled: Callable[P, R] = njit(nogil=True, cache=True, error_model="numpy", fastmath=flags)(function)
    return compiled


MANY = 512  # numbers in a block of `exps` and `logs`
FEW = 48  # numbers for which those are not worth a call
ROUND = 1.5 * 2.0**52  # adding it rounds to a whole number, which then stands in the lowest bits
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
SERIES = tuple(1 / math.factorial(k) for k in range(14))
ODD = tuple(1 / (2 * k + 1) for k in range(12))


@jit
def exps(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Exponentials to one unit in the last place, several at a time: the loops have no call, so they are vectorised."""
    shifted = np.empty(MANY)
    bits = shifted.view(np.int64)
    for begin in range(0, x.size, MANY):
        m = min(MANY, x.size - begin)
        v, y = x[begin : begin + m], out[begin : begin + m]
        for i in range(m):
            inside = min(max(v[i], -708.0), 709.0)
            shifted[i] = inside / math.log(2.0) + ROUND
            k = shifted[i] - ROUND
            r = (inside - k * LN2_HIGH) - k * LN2_LOW
            p = SERIES[13]
            for power in (12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0):
                p = p * r + SERIES[power]
            y[i] = p
        for i in range(m):
            bits[i] = (bits[i] << 52) + (1023 << 52)
        beyond = 0
        for i in range(m):
            y[i] *= shifted[i]
            beyond += not -708.0 <= v[i] <= 709.0
        if beyond:
            for i in range(m):
                if not -708.0 <= v[i] <= 709.0:
                    y[i] = math.exp(v[i])


@jit
def logs(x: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Logarithms to two units in the last place, several at a time; -inf for what is not positive."""
    scaled = np.empty(MANY)
    bits = scaled.view(np.int64)
    exponent = np.empty(MANY)
    whole = exponent.view(np.int64)
    for begin in range(0, x.size, MANY):
        m = min(MANY, x.size - begin)
        v, y = x[begin : begin + m], out[begin : begin + m]
        for i in range(m):
            scaled[i] = v[i]
        beyond = 0
        for i in range(m):
            # x = 2**e f with f between sqrt(1/2) and sqrt(2); e is left as the lowest bits of a large number
            offset = bits[i] - (0x3FE6A09E667F3BCD - (1 << 62))  # positive, so that its bits may be moved as they are
            bits[i] = (offset & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD
            whole[i] = (offset >> 52) + (0x4338000000000000 - (1 << 10))
        for i in range(m):
            e, f = exponent[i] - ROUND, scaled[i]
            s = (f - 1.0) / (f + 1.0)
            q = s * s
            p = ODD[11]
            for k in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1):
                p = p * q + ODD[k]
            beyond += not 2.3e-308 <= v[i] <= 1.7e308
            y[i] = e * LN2_HIGH + (2 * s + (2 * s * q * p + e * LN2_LOW))
        if beyond:
            for i in range(m):
                if not 2.3e-308 <= v[i] <= 1.7e308:
                    y[i] = -math.inf if v[i] <= 0 else math.log(v[i])


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


@jit
def combine(op: int, x: NDArray[np.float64], y: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Sum, difference, product or quotient of arrays of which one may be a single number: loops that are vectorised."""
    n, first, second = out.size, x[0], y[0]
    if op == ADD:
        if x.size == n and y.size == n:
            for i in range(n):
                out[i] = x[i] + y[i]
        elif x.size == n:
            for i in range(n):
                out[i] = x[i] + second
        else:
            for i in range(n):
                out[i] = first + y[i]
    elif op == SUB:
        if x.size == n and y.size == n:
            for i in range(n):
                out[i] = x[i] - y[i]
        elif x.size == n:
            for i in range(n):
                out[i] = x[i] - second
        else:
            for i in range(n):
                out[i] = first - y[i]
    elif op == MUL:
        if x.size == n and y.size == n:
            for i in range(n):
                out[i] = x[i] * y[i]
        elif x.size == n:
            for i in range(n):
                out[i] = x[i] * second
        else:
            for i in range(n):
                out[i] = first * y[i]
    elif op == DIV:
        if x.size == n and y.size == n:
            for i in range(n):
                out[i] = x[i] / y[i]
        elif x.size == n:
            for i in range(n):
                out[i] = x[i] / second
        else:
            for i in range(n):
                out[i] = first / y[i]


@jit
def forward(code: NDArray[np.int64], memory: NDArray[np.float64]) -> None:
    """Run every operation, leaving the results in `memory`."""
    for line in range(code.shape[0]):
        op, out, n = code[line, 0], code[line, 1], code[line, 2]
        a, sa, b, sb = code[line, 3], code[line, 4], code[line, 5], code[line, 6]
        c, sc = code[line, 7], code[line, 8]
        if op <= DIV and n == 1:
            x, y = memory[a], memory[b]
            memory[out] = x + y if op == ADD else x - y if op == SUB else x * y if op == MUL else x / y
        elif op <= DIV:
            left, right = memory[a : a + (n if sa else 1)], memory[b : b + (n if sb else 1)]
            combine(op, left, right, memory[out : out + n])
        elif op == POW:
            for i in range(n):
                memory[out + i] = memory[a + i * sa] ** memory[b + i * sb]
        elif op == NEG:
            for i in range(n):
                memory[out + i] = -memory[a + i]
        elif op == EXP:
            if n < FEW:
                for i in range(n):
                    memory[out + i] = math.exp(memory[a + i])
            else:
                exps(memory[a : a + n], memory[out : out + n])
        elif op == EXPM1:
            for i in range(n):
                memory[out + i] = math.expm1(memory[a + i])
        elif op == LOG:
            if n < FEW:
                for i in range(n):
                    memory[out + i] = math.log(memory[a + i]) if memory[a + i] > 0 else -math.inf
            else:
                logs(memory[a : a + n], memory[out : out + n])
        elif op == LOG1P:
            for i in range(n):
                memory[out + i] = math.log1p(memory[a + i])
        elif op == SQRT:
            for i in range(n):
                memory[out + i] = math.sqrt(memory[a + i])
        elif op == TANH:
            for i in range(n):
                memory[out + i] = math.tanh(memory[a + i])
        elif op == SIGMOID:
            for i in range(n):
                memory[out + i] = 1 / (1 + math.exp(-memory[a + i]))
        elif op == SOFTPLUS:
            for i in range(n):
                x = memory[a + i]
                memory[out + i] = max(x, 0.0) + math.log1p(math.exp(-abs(x)))
        elif op == MIN:
            for i in range(n):
                memory[out + i] = min(memory[a + i * sa], memory[b + i * sb])
        elif op == MAX:
            for i in range(n):
                memory[out + i] = max(memory[a + i * sa], memory[b + i * sb])
        elif op == SELECT:
            for i in range(n):
                memory[out + i] = memory[b + i * sb] if memory[a + i * sa] > 0.5 else memory[c + i * sc]
        elif op == GATHER:
            for i in range(n):
                memory[out + i] = memory[a + int(memory[b + i])]
        else:
            total = 0.0
            for i in range(n):
                total += memory[a + i]
            memory[out] = total


@jit
def backward(code: NDArray[np.int64], memory: NDArray[np.float64], slope: NDArray[np.float64]) -> None:
    """Carry derivatives from results to arguments; `slope` comes in with those of the outputs and leaves complete."""
    for line in range(code.shape[0] - 1, -1, -1):
        op, out, n = code[line, 0], code[line, 1], code[line, 2]
        a, sa, b, sb = code[line, 3], code[line, 4], code[line, 5], code[line, 6]
        c, sc = code[line, 7], code[line, 8]
        if op <= DIV and n == 1:
            g = slope[out]
            if op == MUL:
                slope[a] += g * memory[b]
                slope[b] += g * memory[a]
            elif op == DIV:
                slope[a] += g / memory[b]
                slope[b] -= g / memory[b] * memory[out]
            else:
                slope[a] += g
                slope[b] += g if op == ADD else -g
        elif op in (ADD, SUB):
            sign = 1.0 if op == ADD else -1.0
            pull = slope[out : out + n]
            if sa == 1:
                left = slope[a : a + n]
                for i in range(n):
                    left[i] += pull[i]
            else:
                slope[a] += total(pull)
            if sb == 1:
                right = slope[b : b + n]
                for i in range(n):
                    right[i] += sign * pull[i]
            else:
                slope[b] += sign * total(pull)
        elif op == MUL:
            pull = slope[out : out + n]
            if sa == 1:
                left = slope[a : a + n]
                for i in range(n):
                    left[i] += pull[i] * memory[b + i * sb]
            else:
                slope[a] += product(pull, memory[b : b + n]) if sb == 1 else memory[b] * total(pull)
            if sb == 1:
                right = slope[b : b + n]
                for i in range(n):
                    right[i] += pull[i] * memory[a + i * sa]
            else:
                slope[b] += product(pull, memory[a : a + n]) if sa == 1 else memory[a] * total(pull)
        elif op == DIV:
            pull = slope[out : out + n]  # of no further use: it becomes that of the numerator
            if sb == 1:
                below = memory[b : b + n]
                for i in range(n):
                    pull[i] /= below[i]
            else:
                for i in range(n):
                    pull[i] /= memory[b]
            if sa == 1:
                left = slope[a : a + n]
                for i in range(n):
                    left[i] += pull[i]
            else:
                slope[a] += total(pull)
            if sb == 1:
                right = slope[b : b + n]
                for i in range(n):
                    right[i] -= pull[i] * memory[out + i]
            else:
                slope[b] -= product(pull, memory[out : out + n])
        elif op == POW:
            for i in range(n):
                base, power = memory[a + i * sa], memory[b + i * sb]
                slope[a + i * sa] += slope[out + i] * power * base ** (power - 1)
                if base > 0:
                    slope[b + i * sb] += slope[out + i] * memory[out + i] * math.log(base)
        elif op == NEG:
            for i in range(n):
                slope[a + i] -= slope[out + i]
        elif op == EXP:
            for i in range(n):
                slope[a + i] += slope[out + i] * memory[out + i]
        elif op == EXPM1:
            for i in range(n):
                slope[a + i] += slope[out + i] * (memory[out + i] + 1)
        elif op == LOG:
            for i in range(n):
                slope[a + i] += slope[out + i] / memory[a + i]
        elif op == LOG1P:
            for i in range(n):
                slope[a + i] += slope[out + i] / (1 + memory[a + i])
        elif op == SQRT:
            for i in range(n):
                slope[a + i] += slope[out + i] / (2 * memory[out + i])
        elif op == TANH:
            for i in range(n):
                slope[a + i] += slope[out + i] * (1 - memory[out + i] ** 2)
        elif op == SIGMOID:
            for i in range(n):
                slope[a + i] += slope[out + i] * memory[out + i] * (1 - memory[out + i])
        elif op == SOFTPLUS:
            for i in range(n):
                slope[a + i] += slope[out + i] / (1 + math.exp(-memory[a + i]))
        elif op in (MIN, MAX):
            for i in range(n):
                if (memory[a + i * sa] < memory[b + i * sb]) == (op == MIN):
                    slope[a + i * sa] += slope[out + i]
                else:
                    slope[b + i * sb] += slope[out + i]
        elif op == SELECT:
            for i in range(n):
                if memory[a + i * sa] > 0.5:
                    slope[b + i * sb] += slope[out + i]
                else:
                    slope[c + i * sc] += slope[out + i]
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


@summing
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


@jit
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


@inlined
def evaluate(state: State, x: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
    """Log density at the coordinates x; its gradient goes into `gradient`."""
    code, memory, slope, inputs, outputs, flags, y, starts, count, scatter, squared, family, group = state
    student, run_effect, checkpoint_effect, skew, groups = flags[0], flags[1], flags[2], flags[3], flags[4]
    k = inputs.size
    for i in range(k):
        memory[inputs[i]] = x[i]
    forward(code, memory)
    slope[:] = 0.0
    prior, first, at = outputs[0], outputs[1], 2
    logp = memory[prior]
    slope[prior] = 1.0
    mu, d_mu = memory[first : first + y.size], slope[first : first + y.size]
    sigma, tau, d_sigma, d_tau = np.zeros(groups), np.zeros(groups), np.zeros(groups), np.zeros(groups)
    for g in range(groups):
        sigma[g] = memory[outputs[at + g]]
        if run_effect:
            tau[g] = memory[outputs[at + groups + g]]
    at += groups * (1 + run_effect)
    gradient[:] = 0.0
    if student:
        effects, d_effects = x[k:], gradient[k:]
        part, d_dof = student_density(
            y, mu, starts, squared, group, sigma, memory[outputs[at]], tau, effects, d_mu, d_effects, d_sigma, d_tau
        )
        slope[outputs[at]] += d_dof
        for j in range(effects.size):
            part -= 0.5 * effects[j] * effects[j]
            d_effects[j] -= effects[j]
    else:
        luck = memory[outputs[at]] if checkpoint_effect else 0.0
        slack = memory[outputs[at + checkpoint_effect]] if skew else 0.0
        v, t = np.empty(groups), np.empty(groups)
        for g in range(groups):
            v[g], t[g] = sigma[g] * sigma[g], tau[g] * tau[g]
        part, d_omega, d_slack = normal_density(
            y, mu, starts, count, scatter, squared, family, group, v, t, luck * luck, slack, d_mu, d_sigma, d_tau
        )
        for g in range(groups):
            d_sigma[g] *= 2 * sigma[g]
            d_tau[g] *= 2 * tau[g]
        if checkpoint_effect:
            slope[outputs[at]] += 2 * luck * d_omega
        if skew:
            slope[outputs[at + checkpoint_effect]] += d_slack
    for g in range(groups):
        slope[outputs[2 + g]] += d_sigma[g]
        if run_effect:
            slope[outputs[2 + groups + g]] += d_tau[g]
    backward(code, memory, slope)
    for i in range(k):
        gradient[i] = slope[inputs[i]]
    return float(logp + part)


@jit
def splines(
    knots: NDArray[np.float64], pieces: NDArray[np.float64], t: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Values and slopes of all splines at t, and the second derivative of the first; straight lines beyond the knots."""
    inside = min(max(t, knots[0]), knots[-1])
    j, above = 0, knots.size - 1  # searchsorted takes a second to compile
    while above - j > 1:
        middle = (j + above) // 2
        if knots[middle] < inside:
            j = middle
        else:
            above = middle
    h = inside - knots[j]
    c = pieces[:, j]
    value = ((c[0] * h + c[1]) * h + c[2]) * h + c[3]
    slope = (3 * c[0] * h + 2 * c[1]) * h + c[2]
    bend = 6 * c[0, 0] * h + 2 * c[1, 0] if t == inside else 0.0
    return value + slope * (t - inside), slope, bend


@jit
def ridge(way: Map, y: NDArray[np.float64], x: NDArray[np.float64]) -> None:
    """Write the coordinates of y into x, along the spine if there is one."""
    centre, scale, order, knots, pieces, _ = way
    if centre.size == 0:
        for i in range(y.size):
            x[i] = y[i]
        return
    if order.size == 0:
        for i in range(y.size):
            total = centre[i]
            for j in range(i + 1):
                total += scale[i, j] * y[j]
            x[i] = total
        return
    value, _, _ = splines(knots, pieces, y[0])
    n = y.size - 1
    x[order[0]] = value[0]
    at = 1 + 2 * n
    for i in range(n):
        total = value[1 + i] + math.exp(value[1 + n + i]) * y[1 + i]
        for j in range(i):
            total += value[at + j] * y[1 + j]
        at += i
        x[order[1 + i]] = total


@jit
def bent(bends: NDArray[np.float64], z: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    """Write y_i = m_i + s_i sinh((arcsinh(z_i) + e_i) / d_i) into y, for rows m, s, e, d of `bends`; y = z for the others."""
    for i in range(z.size):  # not y[:] = z: the text of its error takes seconds to compile
        y[i] = z[i]
    for i in range(bends.shape[0]):
        m, s, e, d = bends[i, 0], bends[i, 1], bends[i, 2], bends[i, 3]
        y[i] = m + s * math.sinh((math.asinh(z[i]) + e) / d)


@jit
def spine_log_normal(way: Map, x: NDArray[np.float64]) -> float:
    """Log density of the normal of a map with a spine at x: y_0 by bisection, the others by forward substitution."""
    _, _, order, knots, pieces, _ = way
    low, high = knots[0] - 50.0, knots[-1] + 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        value, _, _ = splines(knots, pieces, middle)
        if value[0] < x[order[0]]:
            low = middle
        else:
            high = middle
    value, slope, _ = splines(knots, pieces, low)
    n = x.size - 1
    total: float = -0.5 * low * low - math.log(slope[0])
    z, at = np.empty(n), 1 + 2 * n
    for i in range(n):
        rest = x[order[1 + i]] - value[1 + i]
        for j in range(i):
            rest -= value[at + j] * z[j]
        at += i
        z[i] = rest * math.exp(-value[1 + n + i])
        total -= 0.5 * z[i] * z[i] + value[1 + n + i]
    return total


@inlined
def ridge_density(state: State, way: Map, y: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
    """Log density of y, Jacobian of `ridge` included; its gradient goes into `gradient`."""
    centre, scale, order, knots, pieces, _ = way
    x, d_x = np.empty_like(y), np.empty_like(y)
    ridge(way, y, x)
    logp = evaluate(state, x, d_x)
    if centre.size == 0:
        for i in range(y.size):
            gradient[i] = d_x[i]
        return logp
    if order.size == 0:
        for j in range(y.size):
            gradient[j] = 0.0
            for i in range(j, y.size):
                gradient[j] += d_x[i] * scale[i, j]
        return logp
    value, slope, turn = splines(knots, pieces, y[0])
    n = y.size - 1
    logp += math.log(slope[0])
    d_t, at = d_x[order[0]] * slope[0] + turn / slope[0], 1 + 2 * n
    gradient[1:] = 0.0
    for i in range(n):
        g, diagonal = d_x[order[1 + i]], math.exp(value[1 + n + i])
        logp += value[1 + n + i]
        gradient[1 + i] += g * diagonal
        d_t += slope[1 + n + i] + g * (slope[1 + i] + slope[1 + n + i] * diagonal * y[1 + i])
        for j in range(i):
            gradient[1 + j] += g * value[at + j]
            d_t += g * slope[at + j] * y[1 + j]
        at += i
    gradient[0] = d_t
    return logp


@inlined
def whitened(state: State, way: Map, z: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
    """Log density of z, Jacobian included; its gradient goes into `gradient`."""
    bends, y = way[5], np.empty_like(z)
    bent(bends, z, y)
    logp = ridge_density(state, way, y, gradient)
    for i in range(bends.shape[0]):
        s, e, d = bends[i, 1], bends[i, 2], bends[i, 3]
        root = math.sqrt(1 + z[i] * z[i])
        a = (math.asinh(z[i]) + e) / d
        slope = s * math.cosh(a) / (d * root)
        logp += math.log(slope)
        gradient[i] = gradient[i] * slope + math.tanh(a) / (d * root) - z[i] / (root * root)
    return logp


@jit
def huber_sum(
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
    forward(code, memory)
    slope[:] = 0.0
    total = 0.0
    for i in range(y.size):
        e = memory[first + i] - y[i]
        if abs(e) <= delta:
            total += weights[i] * 0.5 * e * e
            slope[first + i] += weights[i] * e
        else:
            total += weights[i] * delta * (abs(e) - 0.5 * delta)
            slope[first + i] += weights[i] * delta * np.sign(e)
    backward(code, memory, slope)
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

ARRAYS = 20  # that a density needs; see `described`


def described(state: State, way: Map, busy: NDArray[np.int64]) -> NDArray[np.int64]:
    """Addresses and sizes of the arrays of a density, by which compiled code outside Python finds them.

    `memory` and `slope` of the state have a row for each thread that may call at a time, and `busy` a zero for each. All arrays
    must be contiguous and outlive the description.
    """
    whole = (*state, *way, busy)
    if len(whole) != ARRAYS or not all(a.flags.c_contiguous for a in whole):
        raise ValueError("the density's arrays must be contiguous and complete")
    return np.array([(a.ctypes.data, a.size) for a in whole], dtype=np.int64).ravel()


def _logp(dim: Any, z_: Any, gradient_: Any, value_: Any, description_: Any) -> int:
    d = carray(_pointer(description_), (ARRAYS, 2), np.int64)
    busy, threads = d[19, 0], d[19, 1]
    mine = 0
    while not _swap(busy + 8 * mine, 0, 1):
        mine = (mine + 1) % threads
    code = carray(_pointer(d[0, 0]), (d[0, 1] // 10, 10), np.int64)
    memory = carray(_pointer(d[1, 0]), (threads, d[1, 1] // threads), np.float64)[mine]
    slope = carray(_pointer(d[2, 0]), (threads, d[2, 1] // threads), np.float64)[mine]
    inputs, outputs = carray(_pointer(d[3, 0]), d[3, 1], np.int64), carray(_pointer(d[4, 0]), d[4, 1], np.int64)
    flags = carray(_pointer(d[5, 0]), d[5, 1], np.int64)
    y, starts = carray(_pointer(d[6, 0]), d[6, 1], np.float64), carray(_pointer(d[7, 0]), d[7, 1], np.int64)
    count, scatter = carray(_pointer(d[8, 0]), d[8, 1], np.float64), carray(_pointer(d[9, 0]), d[9, 1], np.float64)
    squared, family = carray(_pointer(d[10, 0]), d[10, 1], np.float64), carray(_pointer(d[11, 0]), d[11, 1], np.int64)
    group = carray(_pointer(d[12, 0]), d[12, 1], np.int64)
    n, between = d[13, 1], max(d[16, 1] - 1, 0)
    centre, scale = carray(_pointer(d[13, 0]), n, np.float64), carray(_pointer(d[14, 0]), (n, n), np.float64)
    order, knots = carray(_pointer(d[15, 0]), d[15, 1], np.int64), carray(_pointer(d[16, 0]), d[16, 1], np.float64)
    pieces = carray(_pointer(d[17, 0]), (4, between, d[17, 1] // max(4 * between, 1)), np.float64)
    bends = carray(_pointer(d[18, 0]), (d[18, 1] // 4, 4), np.float64)
    z, gradient = carray(z_, dim, np.float64), carray(gradient_, dim, np.float64)
    state = (code, memory, slope, inputs, outputs, flags, y, starts, count, scatter, squared, family, group)
    value = whitened(state, (centre, scale, order, knots, pieces, bends), z, gradient)
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


@cache
@roomy
def callbacks() -> tuple[Any, Any]:
    """The log density and the storing of a draw as C functions, so that chains need neither Python nor its lock."""
    pointer_to: Any = types.CPointer
    double, pointer = pointer_to(types.double), types.uintp
    logp = cfunc(types.int64(types.uint64, double, double, double, pointer), cache=True, error_model="numpy")(_logp)
    store = cfunc(types.int64(types.uint64, types.uint64, double, double, pointer), cache=True, error_model="numpy")(_copy)
    return logp, store


@cache
def logp_by_address() -> Callable[[int, int, int, int, int], int]:
    """The log density for Python: dimension, addresses of z, gradient and value, and of a description; returns 0 where finite."""
    integer, address = ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(integer, ctypes.c_uint64, address, address, address, address)(callbacks()[0].address)
