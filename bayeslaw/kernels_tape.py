"""The two machines that run a tape, forwards and backwards; see `tape`."""

from __future__ import annotations

import math

from bayeslaw.kernels_build import Reals, Wholes, inner
from bayeslaw.kernels_math import exps, logs, product, total

ADD, SUB, MUL, DIV, POW, NEG, EXP, EXPM1, LOG, LOG1P, SQRT, TANH, SIGMOID, SOFTPLUS, MIN, MAX, SELECT, SUM, GATHER = range(19)

FEW = 48  # numbers for which vectorised loops are not worth a call


@inner
def combine(op: int, x: Reals, y: Reals, out: Reals) -> None:
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


def forward(code: Wholes, memory: Reals) -> None:
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
def pass_on(slope: Reals, at: int, stride: int, pull: Reals, sign: float) -> None:
    """Add derivatives, times 1 or -1, to those of an argument: one for each, or all to one number."""
    if stride == 1:
        own = slope[at : at + pull.size]
        for i in range(pull.size):
            own[i] += sign * pull[i]
    else:
        slope[at] += sign * total(pull)


@inner
def pass_on_times(slope: Reals, at: int, stride: int, pull: Reals, sign: float, factor: Reals) -> None:
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


def backward(code: Wholes, memory: Reals, slope: Reals) -> None:
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
