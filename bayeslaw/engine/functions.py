"""Functions of compiled code: exponentials and logarithms of arrays, sums, digamma, Mills' ratio."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types

from bayeslaw.engine.build import Reals, converted, inner, jit, summing

# The bits of a float as an integer, and the float with the bits of an integer.
_bits: Any = converted(types.int64, lambda builder, x: builder.bitcast(x, ir.IntType(64)))
_float: Any = converted(types.float64, lambda builder, bits: builder.bitcast(bits, ir.DoubleType()))

ROUND = 1.5 * 2.0**52  # adding it rounds to an integer, which is then in the lowest bits
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
SERIES = tuple(1 / math.factorial(k) for k in range(14))
ODD = tuple(1 / (2 * k + 1) for k in range(12))


@inner
def exps(x: Reals, out: Reals) -> None:
    """Exponentials to one unit in the last place; the loop has no call, so the compiler vectorises it."""
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
def logs(x: Reals, out: Reals) -> None:
    """Logarithms to two units in the last place; -inf for numbers that are not positive."""
    beyond = 0
    for i in range(x.size):
        v = x[i]
        # x = 2**e f with f between sqrt(1/2) and sqrt(2); e is in the lowest bits of a large number
        offset = _bits(v) - (0x3FE6A09E667F3BCD - (1 << 62))  # positive, so that shifting its bits is division
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
def total(x: Reals) -> float:
    result = 0.0
    for i in range(x.size):
        result += x[i]
    return result


@summing
def product(x: Reals, y: Reals) -> float:
    result = 0.0
    for i in range(x.size):
        result += x[i] * y[i]
    return result


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
    """x^2/2 + log Phi(x) without overflow: by a continued fraction of Mills' ratio where Phi is small."""
    if x > -5.0:
        return 0.5 * x * x + math.log(0.5 * math.erfc(-x * math.sqrt(0.5)))
    fraction = -x
    for k in range(40, 0, -1):
        fraction = -x + k / fraction
    return -math.log(fraction) - 0.5 * math.log(2 * math.pi)
