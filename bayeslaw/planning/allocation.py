"""How to spend compute: the parameters and tokens of least loss at C = 6 N D, for every posterior draw.

Where a draw's law is E + A/N^alpha + B/(D^beta N^gamma) (Chinchilla with gamma = 0; Zheng et al. 2024, eqs. 2 and 5, with K = C/6):

    N_opt = G K^a,  D_opt = K^b / G,  G = (alpha A / ((beta - gamma) B))^(1/(alpha + beta - gamma)),
    a = beta / (alpha + beta - gamma),  b = (alpha - gamma) / (alpha + beta - gamma).

Values of the formula's additive terms show whether it is: each must be a product of powers of N and D. Any other law is minimised
numerically, along log N. An optimum at a limit of N or D is a corner; with beta <= gamma, the largest model allowed always is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, nearest, whole_number
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import columns, interval_names, tails
from bayeslaw.core.text import percent
from bayeslaw.core.units import NATS
from bayeslaw.forecasting.member_draws import ERROR
from bayeslaw.forecasting.stack import Posterior, require_losses, with_error
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.planning.domain_loss import at_settings, check_passed, members, outside_note, setting
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit

GRID, STEPS = 80, 45  # of the numeric search: points of log N, steps of the golden section
POWERS = ("N_coefficient", "N_exponent", "D_coefficient", "D_exponent")
GOLDEN = (math.sqrt(5) - 1) / 2
PROBES = np.array([[20.0, 22.0], [21.0, 22.0], [20.0, 23.5], [23.0, 25.0], [18.5, 26.0]])  # log N and log D of the terms' values
SAME = 1e-8  # relative error within which a term is a product of powers
MOST = 2_000  # values of compute
SCRATCH = "scratch"


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
        `POWERS` of N_opt = k C^a, D_opt = k C^b: of the closed form, else over the range of compute asked for.
    method : str
        'closed form' or 'numeric', or both where laws of a stack differ.
    notes : tuple of str
    name, stage : str
        Of the law and the stage.
    stages : tuple of LawDraws
        The laws as functions of N and D, for contours.
    failed : bool
        Whether checks of the fit failed.
    extrapolated : bool
        Whether the losses have errors of laws that were learnt.
    runs : array (m, 2)
        N and D of the fitted rows, without base checkpoints.
    unit : str
        Of the losses.

    Examples
    --------
    >>> bayeslaw.allocate(bayeslaw.load_fit("fit.nc"), "1e19:1e21:3").powers().index.tolist()
    ['N_coefficient', 'N_exponent', 'D_coefficient', 'D_exponent']
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
    extrapolated: bool = False
    runs: Array = field(default_factory=lambda: np.empty((0, 2)))
    unit: str = NATS

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row per compute: medians and intervals of N, D, tokens_per_parameter and loss, and the share of draws in a corner."""
        table = pd.DataFrame({"compute": self.compute})
        shown = {"N": self.N, "D": self.D, "tokens_per_parameter": self.D / self.N, "loss": self.loss}
        for name, draws in shown.items():
            table = table.assign(**columns(draws, ci_prob, name))
        return table.assign(corner=self.corner.mean(axis=0), checks=checks_label(self.failed))

    def powers(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Coefficients and exponents of the power laws N_opt = k C^a and D_opt = k C^b: medians, intervals and `checks`."""
        names = ("median", *interval_names("eti", ci_prob))
        known = {name: v[np.isfinite(v)] for name, v in self.exponents.items()}  # a single compute shows no power
        ends = {name: np.quantile(v, tails(ci_prob)) if v.size else np.full(3, np.nan) for name, v in known.items()}
        rows = {name: dict(zip(names, values, strict=True)) for name, values in ends.items()}
        return pd.DataFrame(rows).T.rename_axis("quantity").assign(checks=checks_label(self.failed))


def allocate(
    fit: Posterior | PointFit,
    compute: str | float | Sequence[float],
    stage: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    discrepancy: Literal["learned", "none"] = "learned",
    seed: int = 0,
    force: bool = False,
) -> Allocation:
    """Find the parameters and tokens of least loss at C = 6 N D.

    If compute exceeds that of the runs, or the best N or D lies outside theirs, the law is that of the posterior in which it has
    an error (`Fit.extrapolation`), and the losses have that error. The optimum is the law's own.

    Parameters
    ----------
    fit : Fit, Stack or PointFit
    compute : number, sequence or text
        FLOPs; '1e19:1e24:30' for 30 values evenly in the logarithm.
    stage : str, optional
        Of a law that serves two stages: the 0/1 covariate that is 1, or 'scratch'.
    settings : mapping, optional
        Covariates other than N and D.
    discrepancy : {'learned', 'none'}
        'none' takes the law for exact.
    seed : int
        Of the errors beyond the runs.
    force : bool
        In spite of failed checks; rows are marked.

    Raises
    ------
    BayeslawError
        If compute, stage or settings can't be used, or leave no N and D in the supports of the law.
    FitError
        If checks of the fit failed, unless forced.

    Examples
    --------
    >>> allocation = bayeslaw.allocate(bayeslaw.load_fit("fit.nc"), "1e19:1e21:3")
    >>> allocation.method, allocation.N.shape[1]
    ('closed form', 3)
    """
    require_losses([fit], "an allocation of compute")
    check_passed(fit, force)
    if discrepancy not in ("learned", "none"):
        raise BayeslawError(
            f"The discrepancy of an allocation is learned or none, not {discrepancy!r}.", code="unknown-discrepancy"
        )
    whole_number("seed", seed, 0)
    flops = read_values(compute)
    fits: list[tuple[Fit | PointFit, Index]] = [*fit.selections]
    laws, optima = _optima(fit, fits, settings or {}, stage, flops)
    away = _beyond(fits, optima, flops) if discrepancy == "learned" else fits
    if any(other is not own for (other, _), (own, _) in zip(away, fits, strict=True)):
        fits = away
        laws, optima = _optima(fit, fits, settings or {}, stage, flops)
    n, d, loss, corner = (np.concatenate([o[k] for o in optima]) for k in ("N", "D", "loss", "corner"))
    parts = enumerate(zip(fits, laws, optima, strict=True))
    loss = loss * np.exp(np.concatenate([_errors(*own, law, o, (seed, number)) for number, (own, law, o) in parts]))
    exponents = {k: np.concatenate([o["exponents"][k] for o in optima]) for k in POWERS}
    methods = " and ".join(dict.fromkeys(o["method"] for o in optima))
    notes = [note for o in optima for note in o["notes"]]
    notes += stage_notes([law.law for law in laws], stage, settings or {})
    if not np.isfinite(loss).all():
        raise BayeslawError(
            f"{fit.name} has no finite loss at the optimum of some draws; ask for other values.", code="no-finite-loss"
        )
    if (share := float(corner.mean())) > 0:
        notes.append(f"in {percent(share)} of draws and computes the optimum is a corner, at a limit of N or D")
    for covariate, values in (("N", n), ("D", d)):
        logged = np.concatenate([own.observed.covariates[covariate] for own, _ in fits])
        notes += outside_note(f"the best {covariate}", np.median(values, axis=0), logged)
    extrapolated = any(isinstance(own, Fit) and own.discrepancy is not None for own, _ in fits)
    if extrapolated:
        notes.append(
            "since compute or the best N or D leaves the runs, N, D and losses of all compute are by the law with its error as "
            "learnt (extrapolated), which the optimum leaves out; compute inside the runs has narrower ones if asked for alone"
        )
    rows = np.concatenate([np.stack([own.observed.covariates[c] for c in ("N", "D")], axis=1) for own, _ in fits])
    rows = np.unique(rows[(rows > 0).all(axis=1)], axis=0)
    return Allocation(
        flops, n, d, loss, corner, exponents, methods, tuple(dict.fromkeys(notes)), fit.name, stage or "", tuple(laws),
        not fit.passed, extrapolated, rows, fit.unit,
    )  # fmt: skip


def _optima(
    posterior: Posterior | PointFit, fits: Sequence[tuple[Fit | PointFit, Index]], settings: Mapping[str, Any], stage: str | None,
    flops: Array,
) -> tuple[list[LawDraws], list[dict[str, Any]]]:  # fmt: skip
    """Return the laws of a posterior by draws of these fits, and their optima."""
    pairs = [(own, own.draws_of(chosen)) for own, chosen in fits]
    laws = stages(posterior, settings, stage, pairs)
    return laws, [optimum(law, flops) for law in laws]


def _beyond(
    fits: Sequence[tuple[Fit | PointFit, Index]], optima: Sequence[Mapping[str, Any]], flops: Array
) -> list[tuple[Fit | PointFit, Index]]:
    """The fits and their draws; with the error of the law where compute, or the best N or D, leaves the runs."""
    best = {name: np.median(np.concatenate([o[name] for o in optima]), axis=0) for name in ("N", "D")}
    chosen: list[tuple[Fit | PointFit, Index]] = []
    whole = [(fit, draws) for fit, draws in fits if isinstance(fit, Fit)]
    for fit, draws in fits:
        seen, away = fit.observed.covariates, with_error(fit, whole) if isinstance(fit, Fit) else None
        leaves = {"N", "D"} <= {*seen} and (
            flops.max() > FLOPS * (seen["N"] * seen["D"]).max()
            or any(outside_note(name, values, seen[name]) for name, values in best.items())
        )
        chosen.append((away if away is not None and leaves else fit, draws))
    return chosen


def _errors(fit: Fit | PointFit, chosen: Index, law: LawDraws, optimum: Mapping[str, Array], entropy: tuple[int, ...]) -> Array:
    """The law's errors (S, n) at the optimum of each draw; 0 where none are learnt."""
    if not isinstance(fit, Fit) or fit.discrepancy is None:
        return np.zeros_like(optimum["N"])
    drawn = fit.discrepancy.drawn(chosen, (*entropy, ERROR))
    columns = [{**law.constants, **{c: optimum[c][:, i] for c in ("N", "D")}} for i in range(optimum["N"].shape[1])]
    return np.stack([drawn.along(at) for at in columns], axis=1)


def read_values(given: str | float | Sequence[float], name: str = "compute", unit: str = "FLOPs") -> Array:
    """Values (n,) above 0 from a number, a list or a range.

    Parameters
    ----------
    given : number, sequence or text
        '1e19:1e24:30' for 30 values evenly in the logarithm; '1e19,1e20' for a list.
    name, unit : str
        What the values are of, for errors.
    """
    try:
        if isinstance(given, str) and ":" in given:
            low, high, count = given.split(":")
            if not 1 <= int(count) <= MOST:
                raise BayeslawError(f"{name} {given!r} asks for {count} values; give 1 to {MOST:,}.", code="too-many-values")
            values = np.geomspace(float(low), float(high), int(count))
        else:
            values = np.atleast_1d(np.asarray(given.split(",") if isinstance(given, str) else given, dtype=np.float64))
    except BayeslawError:
        raise
    except (ValueError, TypeError):
        values = np.empty(0)
    if not values.size or not (np.isfinite(values) & (values > 0)).all():
        raise BayeslawError(
            f"{name} {given!r} is not {unit} above 0, a list of them, or a range such as 1e19:1e24:30.", code=f"unreadable-{name}"
        )
    return values


def stage_notes(laws: Sequence[Law], stage: str | None, settings: Mapping[str, Any]) -> list[str]:
    """Say that losses are those of training from scratch, where a law has another stage and nothing chooses one; and that compute
    is that of D alone, where a law has tokens of a pre-training besides.

    Parameters
    ----------
    laws, stage, settings
        As in `allocate`, of every law that it uses.
    """
    if stage is None and (known := [name for law in laws for name in stage_names(law) if name not in settings]):
        return [f"for training from scratch ({known[0]} = 0); the other stage is {known[0]!r}"]
    if any("ptpp" in law.covariates for law in laws):
        return ["compute is that of the D tokens of the adaptation; pre-training each N on ptpp x N tokens is not counted"]
    return []


def stage_names(law: Law) -> list[str]:
    """Covariates that tell two stages apart: 0 or 1."""
    return [n for n, c in law.measured.items() if c.support == (0.0, 1.0) and c.at_least == 2 and n != "r"]


def stages(
    posterior: Posterior | PointFit,
    settings: Mapping[str, Any],
    stage: str | None = None,
    pairs: Sequence[tuple[Fit | PointFit, dict[str, Array]]] | None = None,
) -> list[LawDraws]:
    """The laws of a posterior at settings, as functions of N and D.

    Parameters
    ----------
    posterior, settings, stage
        As in `allocate`; settings may also be values of columns by which parameters are pooled.
    pairs : sequence of (fit, draws), optional
        Of `domain_loss.members`, which are taken unless others are given.
    """
    free, laws = ("N", "D"), []
    for fit, draws in members(posterior) if pairs is None else pairs:
        law = fit.law
        if missing := [c for c in free if c not in law.covariates]:
            raise BayeslawError(f"{law.name} has no {missing[0]}, so there is no split of compute.", code="law-without-covariate")
        known = {c for c in law.measured if c not in free} | set(law.levels)
        given: dict[str, Any] = dict.fromkeys(stage_names(law), 0.0)
        if stage not in (None, SCRATCH):
            if stage not in given:
                names = [*given, SCRATCH] if given else []
                shown = f"its stages are {', '.join(names)}" if names else "it has one only"
                raise BayeslawError(
                    f"{law.name} has no stage {stage!r}; {shown}.{nearest(str(stage), names)}", code="unknown-stage"
                )
            given[str(stage)] = 1.0
        for name, value in settings.items():
            if name not in known:
                raise BayeslawError(
                    f"{law.name} takes no {name!r} here; it takes {', '.join(sorted(known)) or 'nothing'}.{nearest(name, known)}",
                    code="unknown-setting",
                )
            given[name] = value if name in law.levels else setting(name, value)
            if (name == stage and given[name] != 1) or (stage == SCRATCH and name in stage_names(law) and given[name] == 1):
                problem = f"{name} = {given[name]:g} contradicts the stage {stage!r}: leave {name} out of the settings."
                raise BayeslawError(problem, code="contradicting-stage")
        laws.append(at_settings(law.name, law, draws, pd.DataFrame([given | {"N": 1e9, "D": 1e9}]), free))
    return laws


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
        if not np.allclose(np.expm1(log - product), 0.0, atol=SAME):
            return None
        scale = np.exp(log[:, 0] - p * PROBES[0, 0] - q * PROBES[0, 1])
        in_d = not np.allclose(q, 0.0, atol=1e-10)
        term_powers = {"B": scale, "gamma": -p, "beta": -q} if in_d else {"A": scale, "alpha": -p}
        if powers.keys() & term_powers.keys():
            return None
        powers |= term_powers
    whole = {"A", "B"} <= powers.keys() and (powers["alpha"] > 0).all() and (powers["beta"] > 0).all()
    return powers | {"E": floor} if whole else None


def _bounds(stage: LawDraws, k: Array) -> tuple[Array, Array]:
    """Smallest and largest log N (n,) that the supports of N and D allow at N D = k."""
    (low_n, high_n), (low_d, high_d) = (stage.law.covariates[c].support for c in ("N", "D"))
    low = np.maximum(math.log(low_n), np.log(k) - math.log(high_d))
    high = np.minimum(math.log(high_n), np.log(k) - math.log(max(low_d, 1.0)))
    if (low >= high).any():
        flops = FLOPS * float(k[low >= high][0])
        raise BayeslawError(
            f"{flops:.3g} FLOPs leave no N and D in the supports of {stage.law.name}.", code="compute-out-of-support"
        )
    return low, high


def optimum(stage: LawDraws, compute: Array) -> dict[str, Any]:
    """The N, D and loss (S, n) of least loss at each compute (n,), by the closed form where the law has one."""
    terms = powers_of(stage)
    return numeric(stage, compute) if terms is None else _closed(stage, compute, terms)


def _closed(stage: LawDraws, compute: Array, terms: Mapping[str, Array]) -> dict[str, Any]:
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
            "the largest allowed"
        )
    if (shrinking := float((inside & (alpha <= gamma)).mean())) > 0:
        notes.append(
            f"in {shrinking:.1%} of the draws alpha <= gamma: the best number of tokens falls as compute grows, towards its limit"
        )
    exponents = dict(zip(POWERS, (np.exp(log_g) * FLOPS**-a, a, np.exp(-log_g) * FLOPS**-b, b), strict=True))
    return _at(stage, k, log_n) | {"corner": corner, "exponents": exponents, "method": "closed form", "notes": notes}


def numeric(stage: LawDraws, compute: Array) -> dict[str, Any]:
    """Least loss along log N at each compute: a grid, then golden sections around its lowest point, of all draws at once."""
    k = compute / FLOPS
    low, high = _bounds(stage, k)
    log_n = np.empty((stage.size, k.size))
    corner = np.zeros_like(log_n, dtype=bool)
    for i in range(k.size):
        log_n[:, i] = least_along(_loss_along(stage, float(k[i])), float(low[i]), float(high[i]), stage.size, GRID)
        corner[:, i] = np.minimum(log_n[:, i] - low[i], high[i] - log_n[:, i]) < 1e-6
    return _at(stage, k, log_n) | {"corner": corner, "exponents": _slopes(compute, log_n), "method": "numeric", "notes": []}


def _at(stage: LawDraws, k: Array, log_n: Array) -> dict[str, Array]:
    """N, D and loss, arrays (S, n), at N D = k."""
    n = np.exp(log_n)
    return {"N": n, "D": k / n, "loss": stage.outcome({"N": n, "D": k / n}, axes=1)}


def _loss_along(stage: LawDraws, k: float) -> Callable[[Array], Array]:
    """The losses (S,) at log N (S,) and N D = k; inf where a law has none."""

    def loss(x: Array) -> Array:
        values = stage.outcome({"N": np.exp(x), "D": k / np.exp(x)})
        return np.where(np.isfinite(values), values, np.inf)

    return loss


def least_along(f: Callable[[Array], Array], low: float, high: float, size: int, points: int) -> Array:
    """Where a function is least for each of S draws: on a grid, then by golden sections around its lowest point.

    Parameters
    ----------
    f : callable
        Values (S,) at a place for each draw (S,).
    low, high, size, points : float, float, int, int
        The ends of the grid, the number of draws S, and that of the grid's points.
    """
    grid = np.linspace(low, high, points)
    best = np.argmin([f(np.full(size, x)) for x in grid.tolist()], axis=0)
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
