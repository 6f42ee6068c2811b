"""How to spend compute: parameters and tokens of least loss at C = 6 N D, for every posterior draw.

Where a draw's law is E + A/N^alpha + B/(D^beta N^gamma) (Chinchilla with gamma = 0; Zheng et al. 2024, eqs. 2 and 5, with K = C/6):

    N_opt = G K^a,  D_opt = K^b / G,  G = (alpha A / ((beta - gamma) B))^(1/(alpha + beta - gamma)),
    a = beta / (alpha + beta - gamma),  b = (alpha - gamma) / (alpha + beta - gamma).

Whether it is, is seen in the values of the formula's additive terms: each must be a product of powers of N and D. Any other law is
minimised numerically, along log N. With beta <= gamma the loss falls with N at every compute: the optimum is a corner, the largest
model allowed; so it is where a numeric search ends at a limit of N or D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import columns, interval_names, tails
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.domain_loss import check_passed, stage_names, stages
from bayeslaw.posterior.diagnostics import marked
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit

GRID, STEPS = 80, 45  # of the numeric search: points of log N, steps of the golden section
GOLDEN = (math.sqrt(5) - 1) / 2
PROBES = np.array(
    [[20.0, 22.0], [21.0, 22.0], [20.0, 23.5], [23.0, 25.0], [18.5, 26.0]]
)  # log N, log D at which terms are looked at
SAME = 1e-8  # relative error at which a term is a product of powers
MOST = 2_000  # values of compute


@dataclass(frozen=True)
class Allocation:
    """Parameters and tokens of least loss, draw by draw.

    Attributes
    ----------
    compute : array (n,)
        FLOPs.
    N, D, loss : arrays (S, n)
    corner : bool array (S, n)
        Whether the optimum is at a limit of N or D.
    exponents : dict of str to array (S,)
        N_coefficient, N_exponent, D_coefficient, D_exponent of N_opt = k C^a, D_opt = k C^b: of the closed form, else over
        the range of compute asked for.
    method : str
        'closed form' or 'numeric', or both where laws of a stack differ.
    notes : tuple of str
    name, stage : str
        Of the law and the stage.
    stages : tuple of LawDraws
        The laws as functions of N and D, for contours.
    failed : bool
        Whether it was made in spite of failed checks.
    """

    compute: Array
    N: Array
    D: Array
    loss: Array
    corner: NDArray[np.bool_]
    exponents: Mapping[str, Array]
    method: str
    notes: tuple[str, ...]
    name: str
    stage: str
    stages: tuple[LawDraws, ...]
    failed: bool = False

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row per compute: medians and intervals of N, D, tokens_per_parameter and loss, and the share of draws in a corner."""
        table = pd.DataFrame({"compute": self.compute})
        shown = {"N": self.N, "D": self.D, "tokens_per_parameter": self.D / self.N, "loss": self.loss}
        for name, draws in shown.items():
            table = table.assign(**columns(draws, ci_prob, name))
        table = table.assign(corner=self.corner.mean(axis=0))
        return table.assign(checks=marked(self.failed))

    def powers(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Coefficients and exponents of the power laws N_opt = k C^a and D_opt = k C^b: medians, intervals and `checks`."""
        names = ("median", *interval_names("eti", ci_prob))
        rows = {name: dict(zip(names, np.nanquantile(v, tails(ci_prob)), strict=True)) for name, v in self.exponents.items()}
        return pd.DataFrame(rows).T.rename_axis("quantity").assign(checks=marked(self.failed))


def allocate(
    fit: Posterior | PointFit,
    compute: str | float | Sequence[float],
    stage: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Allocation:
    """Parameters and tokens of least loss at C = 6 N D.

    Parameters
    ----------
    fit : Fit, Stack or PointFit
    compute : number, sequence or text
        FLOPs; '1e19:1e24:30' for 30 values evenly in the logarithm.
    stage : str, optional
        Of a law that serves two: the 0/1 covariate that is 1, or 'scratch'.
    settings : mapping, optional
        Covariates other than N and D.
    force : bool
        In spite of failed checks; rows are marked.

    Raises
    ------
    BayeslawError, FitError
    """
    check_passed(fit, force)
    flops, parts = read_compute(compute), stages(fit, settings or {}, stage)
    found = [_optimum(part, flops) for part in parts]
    whole = {k: np.concatenate([f[k] for f in found]) for k in ("N", "D", "loss", "corner")}
    exponents = {k: np.concatenate([f["exponents"][k] for f in found]) for k in found[0]["exponents"]}
    methods = " and ".join(dict.fromkeys(f["method"] for f in found))
    notes = [note for f in found for note in f["notes"]]
    if stage is None and (known := [name for part in parts for name in stage_names(part.law)]):
        notes.append(f"for training from scratch ({known[0]} = 0); the other stage is {known[0]!r}")
    if not np.isfinite(whole["loss"]).all():
        raise BayeslawError(f"{_name(fit)} has no finite loss at the optimum of some draws; ask for other compute.")
    if (share := float(whole["corner"].mean())) > 0:
        notes.append(
            f"in {share:.1%} of draws and computes the optimum is a corner, at a limit of N or D: there is no best split inside"
        )
    notes += _beyond(fit, whole["N"], whole["D"])
    failed = isinstance(fit, PointFit) is False and not getattr(fit, "passed", True)
    return Allocation(
        flops, whole["N"], whole["D"], whole["loss"], whole["corner"], exponents, methods, tuple(dict.fromkeys(notes)), _name(fit),
        stage or "", tuple(parts), failed,
    )  # fmt: skip


def _name(fit: Posterior | PointFit) -> str:
    return fit.law.name if isinstance(fit, PointFit) else fit.name


def read_compute(given: str | float | Sequence[float]) -> Array:
    """FLOPs from a number, a list or a range."""
    try:
        if isinstance(given, str) and ":" in given:
            low, high, count = given.split(":")
            if not 1 <= int(count) <= MOST:
                raise BayeslawError(f"compute {given!r} asks for {count} values; give 1 to {MOST:,}.")
            values = np.geomspace(float(low), float(high), int(count))
        else:
            parts = given.split(",") if isinstance(given, str) else np.atleast_1d(np.asarray(given, dtype=float))
            values = np.array([float(part) for part in parts])
        if not values.size or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError
    except (ValueError, TypeError) as error:
        if isinstance(error, BayeslawError):
            raise
        raise BayeslawError(f"compute {given!r} is not FLOPs above 0, a list of them, or a range such as 1e19:1e24:30.") from None
    return values


def powers_of(stage: LawDraws) -> dict[str, Array] | None:
    """E, A, alpha, B, beta, gamma of each draw, arrays (S,), where the law is E + A/N^alpha + B/(D^beta N^gamma); else None."""
    n, d = np.exp(PROBES).T[:, None, :]
    scope, found = stage.scope({"N": n, "D": d}, axes=1), dict[str, Array]()
    floor = np.zeros(stage.size)
    for sign, term in stage.law.loss.terms:
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
        fitted = log[:, :1] + p[:, None] * steps[:, 0] + q[:, None] * steps[:, 1]
        if not np.allclose(np.expm1(log - fitted), 0.0, atol=SAME):
            return None
        scale = np.exp(log[:, 0] - p * PROBES[0, 0] - q * PROBES[0, 1])
        names = ("A", "alpha", None) if np.allclose(q, 0.0, atol=1e-10) else ("B", "gamma", "beta")
        if names[0] in found:
            return None
        found |= {names[0]: scale, names[1]: -p} | ({names[2]: -q} if names[2] else {})
    whole = {"A", "B"} <= found.keys() and (found["alpha"] > 0).all() and (found["beta"] > 0).all()
    return found | {"E": floor} if whole else None


def _bounds(stage: LawDraws, k: Array) -> tuple[Array, Array]:
    """Smallest and largest log N (n,) that the supports of N and D allow at N D = k."""
    (low_n, high_n), (low_d, high_d) = (stage.law.covariates[c].support for c in ("N", "D"))
    low = np.maximum(math.log(low_n), np.log(k) - math.log(high_d))
    high = np.minimum(math.log(high_n), np.log(k) - math.log(max(low_d, 1.0)))
    if (low >= high).any():
        at = FLOPS * float(k[low >= high][0])
        raise BayeslawError(f"{at:.3g} FLOPs leave no N and D in the supports of {stage.law.name}.")
    return low, high


def _optimum(stage: LawDraws, compute: Array) -> dict[str, Any]:
    terms = powers_of(stage)
    return numeric(stage, compute) if terms is None else closed(stage, compute, terms)


def closed(stage: LawDraws, compute: Array, terms: Mapping[str, Array]) -> dict[str, Any]:
    """The closed form."""
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
    n = np.exp(log_n)
    notes = []
    if not inside.all():
        notes.append(
            f"in {1 - inside.mean():.1%} of the draws beta <= gamma: the loss falls with N at every compute, and the best model is "
            "the largest allowed"
        )
    if (shrinking := float((inside & (alpha <= gamma)).mean())) > 0:
        notes.append(
            f"in {shrinking:.1%} of the draws alpha <= gamma: the best number of tokens falls as compute grows, towards its limit"
        )
    exponents = {
        "N_coefficient": np.exp(log_g) * FLOPS**-a, "N_exponent": a, "D_coefficient": np.exp(-log_g) * FLOPS**-b, "D_exponent": b,
    }  # fmt: skip
    return {
        "N": n,
        "D": k / n,
        "loss": stage.loss({"N": n, "D": k / n}, axes=1),
        "corner": corner,
        "exponents": exponents,
        "method": "closed form",
        "notes": notes,
    }


def numeric(stage: LawDraws, compute: Array) -> dict[str, Any]:
    """Least loss along log N at each compute: a grid, then golden sections around its lowest point, of all draws at once."""
    k = compute / FLOPS
    low, high = _bounds(stage, k)
    log_n = np.empty((stage.size, k.size))
    corner = np.zeros_like(log_n, dtype=bool)
    for i in range(k.size):

        def loss(x: Array, i: int = i) -> Array:
            found = stage.loss({"N": np.exp(x), "D": k[i] / np.exp(x)}, axes=1)
            return np.where(np.isfinite(found), found, np.inf)

        grid = np.linspace(low[i], high[i], GRID)
        best = loss(grid[None, :]).argmin(axis=1)
        a, b = grid[np.maximum(best - 1, 0)][:, None], grid[np.minimum(best + 1, GRID - 1)][:, None]
        c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
        at_c, at_d = loss(c), loss(d)
        for _ in range(STEPS):
            left = at_c < at_d
            a, b = np.where(left, a, c), np.where(left, d, b)
            new = np.where(left, b - GOLDEN * (b - a), a + GOLDEN * (b - a))
            value = loss(new)
            c, d, at_c, at_d = (
                np.where(left, new, d),
                np.where(left, c, new),
                np.where(left, value, at_d),
                np.where(left, at_c, value),
            )
        middle = (a + b)[:, 0] / 2
        corner[:, i] = np.minimum(middle - low[i], high[i] - middle) < 1e-6
        log_n[:, i] = middle
    n = np.exp(log_n)
    found = {"N": n, "D": k / n, "loss": stage.loss({"N": n, "D": k / n}, axes=1), "corner": corner}
    return found | {"exponents": _slopes(compute, log_n), "method": "numeric", "notes": []}


def _slopes(compute: Array, log_n: Array) -> dict[str, Array]:
    """Power laws through the range of compute, by least squares; nan for a single compute."""
    x, size = np.log(compute), len(log_n)
    if np.ptp(x) == 0:
        return {name: np.full(size, np.nan) for name in ("N_coefficient", "N_exponent", "D_coefficient", "D_exponent")}
    centred = x - x.mean()
    a = log_n @ centred / (centred @ centred)
    log_k = log_n.mean(axis=1) - a * x.mean()
    return {"N_coefficient": np.exp(log_k), "N_exponent": a, "D_coefficient": np.exp(-math.log(FLOPS) - log_k), "D_exponent": 1 - a}


def _beyond(fit: Posterior | PointFit, n: Array, d: Array) -> list[str]:
    """Say where the optimum leaves the runs."""
    if not isinstance(fit, (Fit, PointFit)):
        return []
    said = []
    for name, values in (("N", np.median(n, axis=0)), ("D", np.median(d, axis=0))):
        seen = fit.observed.covariates[name]
        seen = seen[seen > 0]
        far = max(math.log(values.max() / seen.max()), math.log(seen.min() / values.min()))
        if far > 0.1:
            said.append(f"the best {name} lies up to {far:.1f} e-folds outside the runs ({seen.min():.3g} to {seen.max():.3g})")
    return said
