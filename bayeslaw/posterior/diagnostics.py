"""Checks of a fit's draws and of a forecast that end in a verdict."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import arviz_stats as az
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayeslaw.laws.law import Covariate

R_HAT, ESS, BFMI, DIVERGENT = 1.01, 400, 0.3, 0.001
OUT_THERE = "Runs can't tell how wrong the law may be there: state a discrepancy, such as 1%"
OVERLAP = 0.75
BINNED = 0.25  # of the standard error of a bin's mean
TAILS = (0.05, 0.95)  # ends of the 90% interval; ArviZ's own default is 11 and 89%
FORECAST_ROWS = 64  # settings of a forecast at which draws are checked, 4 ms each
# Outside the data an error of a law grows like a polynomial in the covariate. One of second order that is 1 at most over a
# span (Chebyshev's, on which no slope or level of the law is left to blame) is 7 half a span outside it, 17 a whole span
# outside: misfits of .15 to .3%, the luck of a run, which nobody notices inside, are 1 to 2% there.
FAR = 0.5
NEAR = (
    0.1,
    0.05,
)  # never far, whatever the span: e-folds, or the share of its support where a covariate is not logarithmic nor signed
SEED_SPREAD = 0.01  # twice the largest spread of whole runs between seeds measured on tinycpt (.3 to .5%)


@dataclass(frozen=True)
class Check:
    """One check: whether it passed, the numbers behind it, and a sentence that says so.

    Attributes
    ----------
    name : str
    passed : bool
    text : str
    required : bool
        Whether a failure refuses headline intervals; the others inform.
    table : DataFrame
    """

    name: str
    passed: bool
    text: str
    required: bool
    table: pd.DataFrame

    def __str__(self) -> str:
        return f"{'passed' if self.passed else 'FAILED' if self.required else 'note'}: {self.text}"


def checks_label(failed: bool) -> str:
    """What the column `checks` of a table says: 'passed', or 'FAILED (forced)' where failed checks were passed over."""
    return "FAILED (forced)" if failed else "passed"


def failure_suffix(failed: bool) -> str:
    """What a line in words ends in where failed checks were passed over."""
    return f" — CHECKS {checks_label(True)}" if failed else ""


def diagnostics[K: Hashable](draws: Mapping[K, NDArray[np.float64]]) -> pd.DataFrame:
    """R-hat and effective sample sizes of quantities with draws (chains, draws), one row each."""
    names = list(draws)
    data = xr.DataArray(np.stack([draws[name] for name in names], axis=-1), dims=("chain", "draw", "quantity"))
    with np.errstate(all="ignore"):  # draws that never moved have none
        columns = {
            "r_hat": az.rhat(data, method="rank"),
            "ess_bulk": az.ess(data, method="bulk"),
            "ess_tail": az.ess(data, method="tail", prob=TAILS),
        }
    return pd.DataFrame({k: np.asarray(v, dtype=np.float64) for k, v in columns.items()}, index=pd.Index(names))


def _mixing_checks(table: pd.DataFrame, chains: int, draws: int, prefix: str, of: str) -> list[Check]:
    """R-hat and effective sample sizes of `diagnostics`, judged by their worst row; `of` names what they are of."""
    name = (lambda row: f"row {row}") if prefix else str
    worst = table["r_hat"].fillna(np.inf).idxmax()
    passed = chains > 1 and bool((table["r_hat"] <= R_HAT).all())
    text = (
        f"largest R-hat {of}{table['r_hat'].max():.3f} ({name(worst)}), at most {R_HAT} wanted"
        if chains > 1
        else "one chain only: R-hat needs two"
    )
    checks = [Check(f"{prefix}r_hat", passed, text, True, table[["r_hat"]])]
    for column, kind in (("ess_bulk", "bulk"), ("ess_tail", "tail")):
        sizes = table[column].fillna(0.0)  # of draws that never moved
        worst, least = sizes.idxmin(), sizes.min()
        text = (
            f"smallest {kind} effective sample size {of}{least:.0f} of {chains * draws} draws ({name(worst)}), "
            f"at least {ESS} wanted"
        )
        checks.append(Check(f"{prefix}{column}", bool(least >= ESS), text, True, table[[column]]))
    return checks


def sampler_checks(draws: Mapping[str, NDArray[np.float64]], stats: xr.Dataset) -> list[Check]:
    """R-hat, effective sample sizes, divergences and energy of the draws."""
    chains, count = next(iter(draws.values())).shape
    checks = _mixing_checks(diagnostics(draws), chains, count, "", "")
    diverging = int(stats["diverging"].sum())
    text = f"{diverging} divergent transitions of {chains * count}, at most {DIVERGENT:.1%} wanted"
    numbers = pd.DataFrame({"divergent": [diverging], "draws": [chains * count]})
    checks.append(Check("divergences", diverging <= DIVERGENT * chains * count, text, True, numbers))
    if "energy" in stats:
        energy = stats["energy"].values
        with np.errstate(all="ignore"):
            bfmi = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)
        text = f"smallest E-BFMI {bfmi.min():.2f}, at least {BFMI} wanted"
        checks.append(Check("e_bfmi", bool(bfmi.min() >= BFMI), text, True, pd.DataFrame({"e_bfmi": bfmi})))
    return checks


def overlap(prior: NDArray[np.float64], posterior: NDArray[np.float64]) -> float:
    """Common area of two marginals from their draws, 1 where they are the same, by shares in 30 bins of equal pooled mass."""
    edges = np.quantile(np.concatenate([prior, posterior]), np.linspace(0, 1, 31)[1:-1])
    shares = [np.bincount(np.searchsorted(edges, v), minlength=30) / v.size for v in (prior, posterior)]
    return float(np.minimum(*shares).sum())


def information_check(prior: Mapping[str, NDArray[np.float64]], posterior: Mapping[str, NDArray[np.float64]]) -> Check:
    """Which parameters the data hardly moved from their priors."""
    table = pd.DataFrame({"prior_overlap": {name: overlap(prior[name], posterior[name].ravel()) for name in prior}})
    idle = [str(n) for n in table.index[table["prior_overlap"] > OVERLAP]]
    text = f"{', '.join(idle)}: not informed by these data" if idle else "the data inform every parameter"
    return Check("informed", not idle, text, False, table)


def run_effect_check(sigma_run: NDArray[np.float64]) -> Check:
    """Whether the runs (of the worst group) differ by more than luck can explain: then the law misses something between them."""
    median = float(max(np.median(group) for group in sigma_run))
    text = f"runs lie {median:.1%} around the law beyond point noise; seeds explain at most {SEED_SPREAD:.0%}"
    if median > SEED_SPREAD:
        text += ": the law misses something between runs, and its intervals are not to be relied on outside them"
    return Check("run_effect", median <= SEED_SPREAD, text, False, pd.DataFrame({"sigma_run": [median]}))


def bins_check(count: NDArray[np.float64], width: float, shift: float, sigma_point: NDArray[np.float64]) -> Check:
    """Whether putting points into bins moves expected log losses by little beside the error of a bin's mean."""
    error = min(float(np.median(group)) for group in sigma_point) / math.sqrt(float(count.max()))
    text = (
        f"{int(count.sum()):,} points in {count.size:,} bins of {width:g} e-folds: expected losses move by at most {shift:.1e} "
        f"relative, at most {BINNED:.0%} of a bin's own error {error:.1e} wanted"
    )
    return Check("bins", shift <= BINNED * error, text, True, pd.DataFrame({"shift": [shift], "error": [error]}))


def spread_rows(columns: Sequence[NDArray[np.float64]], most: int = FORECAST_ROWS) -> NDArray[np.int64]:
    """Choose rows that bracket a table: the extremes of each column, then always the row farthest from those chosen.

    Parameters
    ----------
    columns : sequence of arrays (n,)
        Finite values in units in which distances count, such as logarithms; each is scaled by its range.
    most : int

    Returns
    -------
    int array (at most `most`,)
        Ascending; all rows where there are no more. Rows equal to a chosen one are left out of a larger table.
    """
    n = columns[0].size
    return np.arange(n) if n <= most else np.sort(spread_order(columns, most))


def spread_order(columns: Sequence[NDArray[np.float64]], most: int) -> NDArray[np.int64]:
    """The rows of `spread_rows` in the order in which they are chosen; rows equal to a chosen one never are."""
    points = np.stack([(c - c.min()) / (np.ptp(c) or 1.0) for c in columns])
    chosen: list[int] = []
    nearest = np.full(columns[0].size, np.inf)

    def choose(row: int) -> None:
        chosen.append(row)
        np.minimum(nearest, ((points - points[:, [row]]) ** 2).sum(axis=0), out=nearest)

    for column in points:
        for row in (int(column.argmin()), int(column.argmax())):
            if len(chosen) < most and nearest[row] > 0:
                choose(row)
    while len(chosen) < most and nearest.max() > 0:
        choose(int(nearest.argmax()))
    return np.array(chosen, dtype=np.int64)


def forecast_checks(latent: NDArray[np.float64], rows: Sequence[Hashable], settings: int) -> list[Check]:
    """R-hat and effective sample sizes of the latent loss itself, which can mix worse than every parameter.

    Parameters
    ----------
    latent : array (chains, draws, m)
    rows : sequence (m,)
        Names of the settings looked at.
    settings : int
        How many there are in all.
    """
    table = diagnostics({row: latent[..., i] for i, row in enumerate(rows)})
    some = "" if len(rows) == settings else f" at {len(rows)} of {settings:,} settings, extremes and others spread between them"
    chains, draws, _ = latent.shape
    return _mixing_checks(table, chains, draws, "forecast_", f"of the latent loss{some}: ")


@dataclass(frozen=True)
class Reach:
    """How far the runs go in one covariate.

    Attributes
    ----------
    span : float
        Distance between the smallest and the largest value: in e-folds where it is logarithmic, else in its unit.
    near : float
        A distance that is never far, in the same unit.
    logarithmic : bool
    """

    span: float
    near: float
    logarithmic: bool

    @classmethod
    def of(cls, covariate: Covariate, seen: NDArray[np.float64]) -> Reach:
        """The reach of runs with these values of a covariate; D = 0 apart."""
        low, high = covariate.support
        if covariate.logarithmic:
            seen = np.log(seen[seen > 0])
        near = NEAR[0] if covariate.logarithmic else NEAR[1] * (high - low) * (low >= 0)
        return cls(float(np.ptp(seen)), near, covariate.logarithmic)

    @property
    def far(self) -> float:
        """Distance outside the runs from which on a setting is far."""
        return max(FAR * self.span, self.near)

    def __call__(self, distance: float) -> str:
        return f"{distance:.2g}{' e-folds' if self.logarithmic else ''}"


def extrapolation(outside: pd.DataFrame, reach: Mapping[str, Reach], stated: bool = False) -> tuple[list[str], Check]:
    """Say of each setting whether it lies outside the runs, in which covariates and how far.

    Parameters
    ----------
    outside : DataFrame
        Distances outside the runs, a column for each covariate; 0 within.
    reach : mapping of covariate to Reach
    stated : bool
        Whether a discrepancy has been stated.

    Returns
    -------
    list of str
        For each row 'inside', 'outside: N by 0.3 e-folds' or 'FAR outside: ptpp by 2.2 e-folds'.
    Check
        Passed where no row is far; not required, since to forecast outside the runs is what laws are for.
    """
    parts: list[list[str]] = [[] for _ in range(len(outside))]
    far = np.zeros(len(outside), dtype=bool)
    found, table = [], {}
    for name, one in reach.items():
        distance = outside[name].to_numpy(dtype=np.float64)
        off = np.flatnonzero(distance > 1e-9)  # logarithms of equal values differ by rounding
        for i, text in zip(off.tolist(), map(one, distance[off].tolist()), strict=True):
            parts[i].append(f"{name} by {text}")
        beyond = distance > max(one.far, 1e-9)
        far |= beyond
        largest = float(distance.max(initial=0.0))
        table[name] = {"span": one.span, "far": one.far, "outside": largest, "rows_far": float(beyond.sum())}
        if beyond.any():
            span = f"the runs span {one(one.span)}" if one.span > 0 else "the runs have one value: priors alone say how it matters"
            found.append(f"{name} up to {one(largest)} ({span})")
    said = [f"{'FAR ' * bool(f)}outside: {', '.join(p)}" if p else "inside" for f, p in zip(far, parts, strict=True)]
    if found:
        text = f"{int(far.sum()):,} of {far.size:,} settings lie far outside the runs: {'; '.join(found)}. " + (
            "How wrong the law may be there is as you stated" if stated else OUT_THERE
        )
    elif any(parts):
        text = f"no setting lies farther outside the runs than {FAR:g} times their span"
    else:
        text = "every setting lies within the range of the runs in each covariate"
    return said, Check("extrapolation", not found, text, False, pd.DataFrame(table).T)


def table_of(checks: list[Check] | tuple[Check, ...]) -> list[dict[str, Any]]:
    """Checks as plain records, to be stored with a fit."""
    return [
        {"name": c.name, "passed": c.passed, "required": c.required, "text": c.text, "table": c.table.to_dict()} for c in checks
    ]
