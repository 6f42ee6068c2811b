"""Run the operations of a tape forwards (values) and backwards (derivatives); see `tape`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayeslaw.engine.build import Reals, Wholes, inner, reals
from bayeslaw.engine.functions import exps, logs, product, total

ADD, SUB, MUL, DIV, POW, NEG, EXP, EXPM1, LOG, LOG1P, SQRT, TANH, SIGMOID, SOFTPLUS, MIN, MAX, SELECT, SUM, GATHER = range(19)

FEW = 16  # values below which vectorised loops are not worth a call


@inner
def combine(op: int, x: Reals, y: Reals, out: Reals) -> None:
    """Sum, difference, product or quotient of arrays, of which one may be a single number, in vectorised loops."""
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
            many, single = (x, second) if x.size == n else (y, first)
            for i in range(n):
                out[i] = many[i] * single
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
    """Derivative at x of a function of one number that has this value; logarithm and exponential have loops of their own."""
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


def forward(code: Wholes, memory: Reals) -> None:
    """Run every operation; the results are written into `memory`."""
    base: Any = np.int64(memory.ctypes.data)
    for line in range(code.shape[0]):
        op, at, n = code[line, 0], code[line, 1], code[line, 2]
        a, sa, b, sb = code[line, 3], code[line, 4], code[line, 5], code[line, 6]
        c, sc = code[line, 7], code[line, 8]
        out, x, y = reals(base + 8 * at, n), reals(base + 8 * a, n if sa else 1), reals(base + 8 * b, n if sb else 1)
        if op <= DIV and n < FEW:
            for i in range(n):
                left, right = x[i * sa], y[i * sb]
                out[i] = left + right if op == ADD else left - right if op == SUB else left * right if op == MUL else left / right
        elif op <= DIV:
            combine(op, x, y, out)
        elif op == EXP and n >= FEW:
            exps(x, out)
        elif op == EXP:
            for i in range(n):
                out[i] = math.exp(x[i])
        elif op == LOG and n >= FEW:
            logs(x, out)
        elif op == MAX and n >= FEW and not sb:
            floor = y[0]
            for i in range(n):
                out[i] = floor if x[i] < floor else x[i]  # nan stays nan
        elif op <= SELECT:  # missing arguments of an operation are arbitrary numbers
            for i in range(n):
                out[i] = pointwise(op, memory[a + i * sa], memory[b + i * sb], memory[c + i * sc])
        elif op == GATHER:
            for i in range(n):
                out[i] = memory[a + int(y[i])]
        else:
            result = 0.0
            for i in range(n):
                result += memory[a + i]
            memory[at] = result


@inner
def pass_on(out: Reals, pull: Reals, sign: float, factor: Reals) -> None:
    """Add derivatives times `sign` and a factor to those of an argument, elementwise or all to a single number.

    The factor has a number for each derivative, a single number, or none (then it is 1).
    """
    times = sign * factor[0] if factor.size == 1 else sign
    if out.size == pull.size and factor.size == pull.size:
        for i in range(pull.size):
            out[i] += sign * pull[i] * factor[i]
    elif out.size == pull.size:
        for i in range(pull.size):
            out[i] += times * pull[i]
    elif factor.size == pull.size:
        out[0] += sign * product(pull, factor)
    else:
        out[0] += times * total(pull)


def backward(code: Wholes, memory: Reals, slope: Reals) -> None:
    """Propagate derivatives from results to arguments.

    Parameters
    ----------
    code, memory, slope
        Operations and values of `forward`; the derivatives of the outputs first, and all of them at the end.
    """
    values: Any = np.int64(memory.ctypes.data)
    slopes: Any = np.int64(slope.ctypes.data)
    none = memory[:0]
    for line in range(code.shape[0] - 1, -1, -1):
        op, at, n = code[line, 0], code[line, 1], code[line, 2]
        a, sa, b, sb = code[line, 3], code[line, 4], code[line, 5], code[line, 6]
        c, sc, varies = code[line, 7], code[line, 8], code[line, 9]
        first, second = n if sa else 1, n if sb else 1
        pull, out = reals(slopes + 8 * at, n), reals(values + 8 * at, n)
        x, d_x = reals(values + 8 * a, first), reals(slopes + 8 * a, first)
        y, d_y = reals(values + 8 * b, second), reals(slopes + 8 * b, second)
        if op <= DIV and n < FEW:
            for i in range(n):
                g, left, right = pull[i], i * sa, i * sb
                if op == MUL:
                    d_x[left] += g * y[right]
                    d_y[right] += g * x[left]
                elif op == DIV:
                    g /= y[right]
                    d_x[left] += g
                    d_y[right] -= g * out[i]
                else:
                    d_x[left] += g
                    d_y[right] += g if op == ADD else -g
        elif op == DIV and sb:
            for i in range(n):
                pull[i] /= y[i]  # no longer needed: it becomes the derivative of the numerator
                d_y[i] -= pull[i] * out[i]
            if varies & 1:
                pass_on(d_x, pull, 1.0, none)
        elif op <= DIV:
            if op == DIV:
                for i in range(n):
                    pull[i] /= y[0]
            for side in range(2):
                if varies >> side & 1:
                    factor = (x if side else y) if op == MUL else out if op == DIV and side else none
                    pass_on(d_y if side else d_x, pull, -1.0 if side and op in (SUB, DIV) else 1.0, factor)
        elif op == EXP:
            for i in range(n):
                d_x[i] += pull[i] * out[i]
        elif op == LOG:
            for i in range(n):
                d_x[i] += pull[i] / x[i]
        elif op == POW:
            for i in range(n):
                base, power = memory[a + i * sa], memory[b + i * sb]
                slope[a + i * sa] += pull[i] * power * base ** (power - 1)
                if base > 0:
                    slope[b + i * sb] += pull[i] * out[i] * math.log(base)
        elif op <= SOFTPLUS:
            for i in range(n):
                d_x[i] += pull[i] * rise(op, x[i], out[i])
        elif op == MAX and not (varies & 2 or sb) and n >= FEW:
            for i in range(n):
                d_x[i] += 0.0 if x[i] < y[0] else pull[i]
        elif op <= SELECT:
            for i in range(n):
                value = memory[a + i * sa]
                first_at, other = (b + i * sb, c + i * sc) if op == SELECT else (a + i * sa, b + i * sb)
                holds = value > 0.5 if op == SELECT else (value < memory[other]) == (op == MIN)
                slope[first_at if holds else other] += pull[i]
        elif op == GATHER and sc:
            begin = 0
            for k in range(sc):
                end = int(memory[c + 2 * k])
                slope[a + int(memory[c + 2 * k + 1])] += total(reals(slopes + 8 * (at + begin), end - begin))
                begin = end
        elif op == GATHER:
            for i in range(n):
                slope[a + int(y[i])] += pull[i]
        else:
            for i in range(n):
                slope[a + i] += slope[at]
