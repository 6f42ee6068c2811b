"""Checks of a fit that end in a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

R_HAT, ESS, BFMI, DIVERGENT = 1.01, 400, 0.3, 0.001
OVERLAP = 0.75
BINNED = 0.25  # of the standard error of a bin's mean
LUCK = 0.01  # twice the largest spread of whole runs between seeds measured on tinycpt (.3 to .5%)


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


def diagnostics(draws: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """R-hat and effective sample sizes of quantities with draws (chains, draws), one row each."""
    data = xr.Dataset({name: (("chain", "draw"), values) for name, values in draws.items()})
    with np.errstate(all="ignore"):  # draws that never moved have none
        columns = {
            "r_hat": az.rhat(data, method="rank"),
            "ess_bulk": az.ess(data, method="bulk"),
            "ess_tail": az.ess(data, method="tail"),
        }
    return pd.DataFrame({k: {name: float(v[name]) for name in draws} for k, v in columns.items()})


def sampler_checks(draws: Mapping[str, NDArray[np.float64]], stats: xr.Dataset) -> list[Check]:
    """R-hat, effective sample sizes, divergences and energy of the draws."""
    table = diagnostics(draws)
    chains, count = next(iter(draws.values())).shape
    checks = []
    worst = table["r_hat"].fillna(np.inf).idxmax()
    passed = chains > 1 and bool((table["r_hat"] <= R_HAT).all())
    text = (
        f"largest R-hat {table['r_hat'].max():.3f} ({worst}), at most {R_HAT} wanted"
        if chains > 1
        else "one chain only: R-hat needs two"
    )
    checks.append(Check("r_hat", passed, text, True, table[["r_hat"]]))
    for column, kind in (("ess_bulk", "bulk"), ("ess_tail", "tail")):
        sizes = table[column].fillna(0.0)  # of draws that never moved
        worst, least = sizes.idxmin(), sizes.min()
        text = f"smallest {kind} effective sample size {least:.0f} of {chains * count} draws ({worst}), at least {ESS} wanted"
        checks.append(Check(column, bool(least >= ESS), text, True, table[[column]]))
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


def luck_check(sigma_run: NDArray[np.float64]) -> Check:
    """Whether the runs (of the worst group) differ by more than luck can explain: then the law misses something between them."""
    median = float(max(np.median(group) for group in sigma_run))
    text = f"runs lie {median:.1%} around the law beyond point noise; seeds explain at most {LUCK:.0%}"
    if median > LUCK:
        text += ": the law misses something between runs, and its intervals are not to be relied on outside them"
    return Check("run_luck", median <= LUCK, text, False, pd.DataFrame({"sigma_run": [median]}))


def bins_check(count: NDArray[np.float64], width: float, shift: float, sigma_point: NDArray[np.float64]) -> Check:
    """Whether putting points into bins moves expected log losses by little beside the error of a bin's mean."""
    error = min(float(np.median(group)) for group in sigma_point) / math.sqrt(float(count.max()))
    text = (
        f"{int(count.sum()):,} points in {count.size:,} bins of {width:g} e-folds: expected losses move by at most {shift:.1e} "
        f"relative, at most {BINNED:.0%} of a bin's own error {error:.1e} wanted"
    )
    return Check("bins", shift <= BINNED * error, text, True, pd.DataFrame({"shift": [shift], "error": [error]}))


def table_of(checks: list[Check] | tuple[Check, ...]) -> list[dict[str, Any]]:
    """Checks as plain records, to be stored with a fit."""
    return [
        {"name": c.name, "passed": c.passed, "required": c.required, "text": c.text, "table": c.table.to_dict()} for c in checks
    ]
