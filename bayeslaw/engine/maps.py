"""Compiled maps from nearly normal coordinates to those of a density, with their Jacobians; see `transport`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayeslaw.engine.build import Reals, Wholes, inner


class Map(NamedTuple):
    """The arrays of a `transport.RidgeMap`, contiguous, as compiled code takes them."""

    centre: Reals
    scale: Reals
    order: Wholes
    knots: Reals
    pieces: Reals
    tails: Reals


IDENTITY = Map(np.empty(0), np.empty((0, 0)), np.empty(0, np.int64), np.empty(0), np.empty((4, 0, 0)), np.empty((0, 4)))


class Layout(NamedTuple):
    """Where the splines of a ridge path begin that give the modes of the n others, the log diagonal of L and the rest of L.

    The first of all is the ridge coordinate's. The rest of L lies row by row; see `below`.
    """

    modes: int
    widths: int
    rest: int


def layout(n: int) -> Layout:
    """The layout for n coordinates besides that of the ridge."""
    return Layout(1, 1 + n, 1 + 2 * n)


def below(splines_at: Layout, row: int) -> int:
    """Where the elements of a row of L left of its diagonal begin."""
    return splines_at.rest + row * (row - 1) // 2


_layout, _below = inner(layout), inner(below)


@inner
def splines(knots: Reals, pieces: Reals, t: float, value: Reals, slope: Reals) -> float:
    """Write values and slopes of all splines at t, linear beyond the knots; return the second derivative of the first."""
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
def triangle(scale: Reals, y: Reals, x: Reals) -> None:
    """Add the product of a lower triangular matrix with y to x, four rows at a time: their sums do not wait for each other."""
    size = y.size
    whole = size - size % 4
    for i in range(0, whole, 4):
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        at = i * size
        for j in range(i + 1):
            a += scale[at + j] * y[j]
            b += scale[at + size + j] * y[j]
            c += scale[at + 2 * size + j] * y[j]
            d += scale[at + 3 * size + j] * y[j]
        b += scale[at + size + i + 1] * y[i + 1]
        for j in range(i + 1, i + 3):
            c += scale[at + 2 * size + j] * y[j]
        for j in range(i + 1, i + 4):
            d += scale[at + 3 * size + j] * y[j]
        x[i], x[i + 1], x[i + 2], x[i + 3] = a, b, c, d
    for i in range(whole, size):
        for j in range(i + 1):
            x[i] += scale[i * size + j] * y[j]


@inner
def ridge(centre: Reals, scale: Reals, order: Wholes, along: Reals, widths: Reals, y: Reals, x: Reals) -> None:
    """Write the coordinates of y into x, along the ridge path if there is one; `along` holds the splines' values at y[0].

    The exponentials of the log diagonal are written into `widths`.
    """
    n = y.size - 1
    if order.size:
        x[order[0]], at = along[0], _layout(n)
        for i in range(n):
            widths[i] = math.exp(along[at.widths + i])
            total, row = along[at.modes + i] + widths[i] * y[1 + i], _below(at, i)
            for j in range(i):
                total += along[row + j] * y[1 + j]
            x[order[1 + i]] = total
    else:
        for i in range(y.size):
            x[i] = centre[i] if centre.size else y[i]
        if centre.size:
            triangle(scale, y, x)


@inner
def ridge_slopes(
    scale: Reals, order: Wholes, along: Reals, widths: Reals, slope: Reals, turn: float, y: Reals, d_x: Reals, gradient: Reals
) -> float:
    """Return the log Jacobian of `ridge` up to a constant, and write the gradient of all by y, given that of the density by x."""
    n, logp = y.size - 1, 0.0
    if order.size:
        d_t, at = d_x[order[0]] * slope[0] + turn / slope[0], _layout(n)
        logp = math.log(slope[0])
        for i in range(n):
            g, diagonal, row = d_x[order[1 + i]], widths[i], _below(at, i)
            logp += along[at.widths + i]
            gradient[1 + i] = g * diagonal
            d_t += slope[at.widths + i] + g * (slope[at.modes + i] + slope[at.widths + i] * diagonal * y[1 + i])
            for j in range(i):
                gradient[1 + j] += g * along[row + j]
                d_t += g * slope[row + j] * y[1 + j]
        gradient[0] = d_t
    else:
        for j in range(y.size):
            gradient[j] = 0.0 if scale.size else d_x[j]
        if scale.size:
            for i in range(y.size):  # by rows, as they lie in memory
                for j in range(i + 1):
                    gradient[j] += d_x[i] * scale[i * y.size + j]
    return logp


@inner
def stretch_tails(tails: Reals, z: Reals, slope: Reals, rise: Reals, y: Reals) -> None:
    """Write y_i = m_i + s_i sinh((arcsinh(z_i) + e_i) / d_i) into y, for rows m, s, e, d of `tails`; y = z for the others.

    The slopes dy_i / dz_i are written into `slope`, the derivatives of their logarithms into `rise`.
    """
    for i in range(z.size):
        y[i] = z[i]
    for i in range(tails.size // 4):
        m, s, e, d = tails[4 * i], tails[4 * i + 1], tails[4 * i + 2], tails[4 * i + 3]
        root = math.sqrt(1 + z[i] * z[i])
        up = 0.5 * math.exp((math.copysign(math.log(abs(z[i]) + root), z[i]) + e) / d)  # half of sinh's larger part
        down = 0.25 / up
        y[i] = m + s * (up - down)
        slope[i] = s * (up + down) / (d * root)
        rise[i] = (up - down) / ((up + down) * d * root) - z[i] / (root * root)


@inner
def tail_slopes(slope: Reals, rise: Reals, gradient: Reals) -> float:
    """Return the log Jacobian of `stretch_tails` from the slopes it wrote; the gradient by y becomes that of all by z."""
    logp, grown = 0.0, 1.0
    for i in range(slope.size):
        grown *= slope[i]
        if not 1e-100 < grown < 1e100:  # one logarithm for all, unless their product would overflow
            logp += math.log(grown)
            grown = 1.0
        gradient[i] = gradient[i] * slope[i] + rise[i]
    return logp + math.log(grown)
