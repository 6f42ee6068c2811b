"""Functions of one number that LLVM and the C library lack, in plain Python to be compiled."""

from __future__ import annotations

import math


def digamma(x: float) -> float:
    """Derivative of the log gamma function for x > 0: recurrence to x >= 6, then the asymptotic series."""
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    return total + math.log(x) - 0.5 / x - f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f / 132))))


def erfcx(x: float) -> float:
    """Scaled complementary error function, exp(x^2) erfc(x): by a continued fraction of Mills' ratio where erfc is small."""
    if x < 3.5:
        return math.exp(x * x) * math.erfc(x)
    start = x * math.sqrt(2.0)
    fraction = start
    for k in range(40, 0, -1):
        fraction = start + k / fraction
    return math.sqrt(2.0 / math.pi) / fraction


SPECIAL = {"Psi": digamma, "Erfcx": erfcx}
"""By the names of PyTensor's scalar operations."""
