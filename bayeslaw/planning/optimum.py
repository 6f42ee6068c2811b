"""The parameters and tokens of least loss at C = 6 N D, for every posterior draw.

Where a draw's law is E + A/N^alpha + B/(D^beta N^gamma) (Chinchilla with gamma = 0; Zheng et al. 2024, eqs. 2 and 5, with K = C/6):

    N_opt = G K^a,  D_opt = K^b / G,  G = (alpha A / ((beta - gamma) B))^(1/(alpha + beta - gamma)),
    a = beta / (alpha + beta - gamma),  b = (alpha - gamma) / (alpha + beta - gamma).

Values of the formula's additive terms show whether it is: each must be a product of powers of N and D. Any other law is minimised
numerically, along log N. An optimum at a limit of N or D is a corner; with beta <= gamma, the largest model allowed always is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.text import percent
from bayeslaw.planning.stages import support
from bayeslaw.posterior.draws import LawDraws

GRID, STEPS = 80, 45  # of the numeric search: points of log N, steps of the golden section
POWERS = ("N_coefficient", "N_exponent", "D_coefficient", "D_exponent")
GOLDEN = (math.sqrt(5) - 1) / 2
# Log N and log D at which the additive terms of a law are looked at.
PROBES = np.array([[20.0, 22.0], [21.0, 22.0], [20.0, 23.5], [23.0, 25.0], [18.5, 26.0]])
PRODUCT_TOLERANCE = 1e-8  # relative error within which a term is a product of powers


@dataclass(frozen=True, eq=False)
class ComputeOptima:
    """N, D and loss of least loss by each draw of a law at each compute, arrays (S, n).

    Attributes
    ----------
    corner : bool array (S, n)
        Whether the optimum is at a limit of N or D.
    exponents, method, notes
        As in `bayeslaw.planning.allocation.Allocation`.
    """

    N: Array
    D: Array
    loss: Array
    corner: NDArray[np.bool_]
    exponents: dict[str, Array]
    method: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, stage: LawDraws, k: Array, log_n: Array, corner: NDArray[np.bool_], exponents: dict[str, Array], method: str,
        notes: Sequence[str] = (),
    ) -> ComputeOptima:  # fmt: skip
        """The optima at N D = k (n,), from log N (S, n)."""
        n = np.exp(log_n)
        loss = stage.outcome({"N": n, "D": k / n}, axes=1)
        return cls(n, k / n, loss, corner, exponents, method, tuple(notes))


def corner_note(share: float) -> str:
    """Say in which share of draws and computes an optimum is at a limit of N or D."""
    return f"in {percent(share)} of draws and computes the optimum is a corner, at a limit of N or D"


def optimum(stage: LawDraws, compute: Array) -> ComputeOptima:
    """The N, D and loss (S, n) of least loss at each compute (n,), by the closed form where the law has one."""
    terms = powers_of(stage)
    return numeric(stage, compute) if terms is None else _closed(stage, compute, terms)


def powers_of(stage: LawDraws) -> dict[str, Array] | None:
    """E, A, alpha, B, beta, gamma of each draw, arrays (S,), where the law is E + A/N^alpha + B/(D^beta N^gamma); else None."""
    n, d = np.exp(PROBES).T[:, None, :]
    scope, powers = stage.scope({"N": n, "D": d}, axes=1), dict[str, Array]()
    floor = np.zeros(stage.size)
    for sign, term in stage.law.formula.terms:
        with np.errstate(all="ignore"):
            value = np.broadcast_to(sign * np.asarray(term.evaluate(scope), dtype=np.float64), (stage.size, len(PROBES)))
        if (value == 0).all():
            continue
        if np.allclose(value, value[:, :1], rtol=1e-12, atol=0.0):
            floor = floor + value[:, 0]
            continue
        if not (np.isfinite(value) & (value > 0)).all():
            return None
        log = np.log(value)
        steps = PROBES - PROBES[0]
        p, q = (log[:, 1] - log[:, 0]) / steps[1, 0], (log[:, 2] - log[:, 0]) / steps[2, 1]
        product = log[:, :1] + p[:, None] * steps[:, 0] + q[:, None] * steps[:, 1]
        if not np.allclose(np.expm1(log - product), 0.0, atol=PRODUCT_TOLERANCE):
            return None
        scale = np.exp(log[:, 0] - p * PROBES[0, 0] - q * PROBES[0, 1])
        in_d = not np.allclose(q, 0.0, atol=1e-10)
        term_powers = {"B": scale, "gamma": -p, "beta": -q} if in_d else {"A": scale, "alpha": -p}
        if powers.keys() & term_powers.keys():
            return None
        powers |= term_powers
    whole = {"A", "B"} <= powers.keys() and (powers["alpha"] > 0).all() and (powers["beta"] > 0).all()
    return powers | {"E": floor} if whole else None


def _closed(stage: LawDraws, compute: Array, terms: Mapping[str, Array]) -> ComputeOptima:
    """The optimum by the closed form, from the terms of `powers_of`."""
    k = compute / FLOPS
    low, high = _bounds(stage, k)
    alpha, beta, gamma = terms["alpha"], terms["beta"], terms["gamma"]
    inside = beta > gamma
    with np.errstate(all="ignore"):
        total = alpha + beta - gamma
        log_g = (np.log(alpha * terms["A"]) - np.log((beta - gamma) * terms["B"])) / total
        a, b = np.where(inside, beta / total, np.nan), np.where(inside, (alpha - gamma) / total, np.nan)
    log_n = np.where(inside[:, None], log_g[:, None] + a[:, None] * np.log(k), high)
    corner = ~inside[:, None] | (log_n <= low) | (log_n >= high)
    log_n = np.clip(log_n, low, high)
    notes = []
    if not inside.all():
        notes.append(
            f"in {1 - inside.mean():.1%} of the draws beta <= gamma: the loss falls with N at every compute, and the best model is "
            "the largest allowed; power laws of compute are of the other draws"
        )
    if (shrinking := float((inside & (alpha <= gamma)).mean())) > 0:
        notes.append(
            f"in {shrinking:.1%} of the draws alpha <= gamma: the best number of tokens falls as compute grows, towards its limit"
        )
    exponents = dict(zip(POWERS, (np.exp(log_g) * FLOPS**-a, a, np.exp(-log_g) * FLOPS**-b, b), strict=True))
    return ComputeOptima.of(stage, k, log_n, corner, exponents, "closed form", notes)


def numeric(stage: LawDraws, compute: Array) -> ComputeOptima:
    """Least loss along log N at each compute: a grid, then golden sections around its lowest point, of all draws at once."""
    k = compute / FLOPS
    low, high = _bounds(stage, k)
    log_n = np.empty((stage.size, k.size))
    corner = np.zeros_like(log_n, dtype=bool)
    for i in range(k.size):
        along = _loss_along(stage, float(k[i]), 0), _loss_along(stage, float(k[i]), 1)
        log_n[:, i] = least_along(*along, float(low[i]), float(high[i]), GRID)
        corner[:, i] = np.minimum(log_n[:, i] - low[i], high[i] - log_n[:, i]) < 1e-6
    return ComputeOptima.of(stage, k, log_n, corner, _slopes(compute, log_n), "numeric")


def _loss_along(stage: LawDraws, k: float, axes: int) -> Callable[[Array], Array]:
    """The losses at log N and N D = k, (S,) at one of each draw or with `axes=1` (S, m) at (m,); inf where a law has none."""

    def loss(x: Array) -> Array:
        values = stage.outcome({"N": np.exp(x), "D": k / np.exp(x)}, axes=axes)
        return np.where(np.isfinite(values), values, np.inf)

    return loss


def least_along(f: Callable[[Array], Array], on_grid: Callable[[Array], Array], low: float, high: float, points: int) -> Array:
    """Where a function is least for each of S draws: on a grid, then by golden sections around its lowest point.

    Parameters
    ----------
    f : callable
        Values (S,) at a place for each draw (S,).
    on_grid : callable
        Values (S, m) of the same function at places (m,).
    low, high, points : float, float, int
        The ends of the grid and the number of its points.
    """
    grid = np.linspace(low, high, points)
    best = on_grid(grid).argmin(axis=1)
    a, b = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, points - 1)]
    c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
    at_c, at_d = f(c), f(d)
    for _ in range(STEPS):
        left = at_c < at_d
        a, b = np.where(left, a, c), np.where(left, d, b)
        new = np.where(left, b - GOLDEN * (b - a), a + GOLDEN * (b - a))
        value = f(new)
        c, d = np.where(left, new, d), np.where(left, c, new)
        at_c, at_d = np.where(left, value, at_d), np.where(left, at_c, value)
    return np.asarray((a + b) / 2)


def _slopes(compute: Array, log_n: Array) -> dict[str, Array]:
    """Power laws through the range of compute, by least squares; nan for a single compute."""
    x = np.log(compute)
    if np.ptp(x) == 0:
        return {name: np.full(len(log_n), np.nan) for name in POWERS}
    centred = x - x.mean()
    a = log_n @ centred / (centred @ centred)
    log_k = log_n.mean(axis=1) - a * x.mean()
    return dict(zip(POWERS, (np.exp(log_k), a, np.exp(-math.log(FLOPS) - log_k), 1 - a), strict=True))


def _bounds(stage: LawDraws, k: Array) -> tuple[Array, Array]:
    """Smallest and largest log N (n,) that the supports of N and D allow at N D = k."""
    (low_n, high_n), (low_d, high_d) = support([stage.law])
    low = np.maximum(math.log(low_n), np.log(k) - math.log(high_d))
    high = np.minimum(math.log(high_n), np.log(k) - math.log(low_d))
    if (low >= high).any():
        flops = FLOPS * float(k[low >= high][0])
        raise BayeslawError(
            f"{flops:.3g} FLOPs leave no N and D in the supports of {stage.law.name}.", code="compute-out-of-support"
        )
    return low, high
