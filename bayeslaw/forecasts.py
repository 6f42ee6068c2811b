"""Losses at settings nobody has run, with named spreads.

- `latent`: the law's expected loss, uncertain only through its parameters.
- `run`: the loss that the next run would log: latent loss, times the luck of a new run, times point noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayeslaw.errors import BayeslawError, Fault, FitError, TableError, whole_number
from bayeslaw.fitting import Fit, check_probability, interval_names
from bayeslaw.laws import Law
from bayeslaw.observations import run_codes
from bayeslaw.runs import Runs, base_rows, check, complete, read_runs

SPREADS = ("latent", "run")
MOST_SETTINGS = 100_000  # of a grid: more would need more memory than most machines have


@dataclass(frozen=True)
class Forecast:
    """Posterior draws of the loss at settings.

    Attributes
    ----------
    draws : Dataset
        Variables `latent` and `run`, dimensions (sample, row), in nats/token.
    settings : DataFrame
        The settings asked for.
    outside : DataFrame
        For each covariate, how far the setting lies outside the runs: in e-folds where it spans decades, else in its unit.
    law : str
    forced : bool
        Made in spite of failed checks.
    """

    draws: xr.Dataset
    settings: pd.DataFrame
    outside: pd.DataFrame
    law: str
    forced: bool = False

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row per setting.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        DataFrame
            The settings; latent_median and run_median with `<spread>_eti<prob>_lo` and `_hi` in nats/token; `outside_<covariate>`;
            and `checks`, which says 'passed' or 'FAILED (forced)'.
        """
        check_probability(ci_prob)
        table = self.settings.copy()
        tails = [0.5, 0.5 - ci_prob / 2, 0.5 + ci_prob / 2]
        for spread in SPREADS:
            median, low, high = np.quantile(self.draws[spread].values, tails, axis=0)
            names = interval_names("eti", ci_prob)
            table[f"{spread}_median"] = median
            table[f"{spread}_{names[0]}"], table[f"{spread}_{names[1]}"] = low, high
        for name in self.outside:
            table[f"outside_{name}"] = self.outside[name].to_numpy()
        return table.assign(checks="FAILED (forced)" if self.forced else "passed")


def grid(law: Law, settings: Mapping[str, str | float | Sequence[float]]) -> pd.DataFrame:
    """All combinations of values of the law's covariates.

    Parameters
    ----------
    settings : mapping
        For each covariate a number, a sequence, or a text: '8.1e9', '0.1,0.25' or '1e9:2e11:20' (20 values from 1e9 to 2e11,
        evenly in the logarithm for covariates that span decades). `atpp` may stand for D = atpp x N.

    Raises
    ------
    BayeslawError
        If a covariate is missing, unknown or given twice over, a value is not a finite number, or there are more than
        `MOST_SETTINGS` combinations.
    """
    known = (*law.covariates, "atpp")
    for name in settings:
        if name not in known:
            raise BayeslawError(f"{law.name} has no covariate {name!r}; it has {', '.join(law.covariates)}.")
    if {"D", "atpp"} <= settings.keys() and "atpp" not in law.covariates:
        raise BayeslawError("Give either D or atpp: D is atpp x N.")
    values = {name: _values(law, name, value) for name, value in settings.items()}
    if (count := math.prod(map(len, values.values()))) > MOST_SETTINGS:
        raise BayeslawError(f"These are {count:,} settings; at most {MOST_SETTINGS:,} are forecast at once.")
    frame = pd.DataFrame(list(itertools.product(*values.values())), columns=list(values))
    if "atpp" in frame and "D" not in frame and "N" in frame:
        frame["D"] = frame["atpp"] * frame["N"]
    missing = [name for name in law.covariates if name not in frame]
    if missing:
        raise BayeslawError(f"{law.name} needs {', '.join(law.covariates)}; give {', '.join(missing)} too.")
    return frame


def _values(law: Law, name: str, value: str | float | Sequence[float]) -> list[float]:
    try:
        if isinstance(value, str) and ":" in value:
            return _range(law, name, value)
        parts = value.split(",") if isinstance(value, str) else np.atleast_1d(np.asarray(value, dtype=float))
        values = [float(part) for part in parts]
        if not values or not np.isfinite(values).all():
            raise ValueError
    except (ValueError, TypeError) as error:
        if isinstance(error, BayeslawError):
            raise
        raise BayeslawError(f"{name}={value!r} is not a number, a list such as 0.1,0.25 or a range such as 1e9:2e11:20.") from None
    return values


def _range(law: Law, name: str, text: str) -> list[float]:
    first, last, count = text.split(":")
    low, high, number = float(first), float(last), int(count)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError
    if not 1 <= number <= MOST_SETTINGS:
        raise BayeslawError(f"{name}={text!r} asks for {number} values; give 1 to {MOST_SETTINGS:,}.")
    if name != "atpp" and not law.covariates[name].logarithmic:
        return [float(v) for v in np.linspace(low, high, number)]
    if min(low, high) <= 0:
        raise BayeslawError(f"{name}={text!r}: a range of {name} begins above 0.")
    return [float(v) for v in np.geomspace(low, high, number)]


def forecast(fit: Fit, at: pd.DataFrame | Runs | str | Path, *, seed: int = 0, force: bool = False) -> Forecast:
    """Forecast the loss at settings.

    Parameters
    ----------
    fit : Fit
    at : DataFrame, Runs or path
        Settings, one row each, with the law's covariates; rows of one `run` share that run's luck.
    seed : int
        Of the noise of new runs; the same seed gives the same draws.
    force : bool
        Forecast in spite of failed checks, and mark every row.

    Raises
    ------
    FitError
        If a required check of the fit failed, or draws are not finite at a setting.
    TableError
        If a setting lacks a covariate or lies outside its support.
    """
    whole_number("seed", seed, 0)
    if not fit.passed and not force:
        failed = "; ".join(c.text for c in fit.checks if c.required and not c.passed)
        raise FitError(
            f"The fit's checks failed ({failed}): its intervals can't be trusted. "
            "Sample longer, or force it and have every row marked."
        )
    runs = at if isinstance(at, Runs) else read_runs(at)
    faults = check(runs, fit.law, to_fit=False)
    base = base_rows(runs.frame, fit.law)
    faults += [
        Fault(int(row), "D", "0", f"D = 0 is the base checkpoint, where {fit.law.name} is infinite", "ask for D > 0")
        for row in runs.frame.index[base]
    ]
    if faults:
        raise TableError(faults, runs.name)
    frame = complete(runs.frame, fit.law)
    draws, covariates = fit.draws, {c: frame[c].to_numpy(dtype=np.float64) for c in fit.law.covariates}
    latent = fit.law.predict(draws, covariates)
    if not np.isfinite(latent).all() or (latent <= 0).any():
        bad = int(runs.frame.index[~(np.isfinite(latent) & (latent > 0)).all(axis=0)][0])
        raise FitError(f"{fit.law.name} has no finite positive loss for some draws at row {bad} of the settings.")
    rng = np.random.default_rng([int(fit.info["seed"]), seed])
    noise = fit.noise.sample(draws, run_codes(runs.frame)[0], rng)
    dims, coords = ("sample", "row"), {"row": runs.frame.index.to_numpy()}
    data = xr.Dataset(
        {"latent": (dims, latent), "run": (dims, latent * np.exp(noise))}, coords=coords, attrs={"units": "nats/token"}
    )
    settings = runs.frame[[c for c in runs.frame if c not in ("loss", "loss_se")]].reset_index(drop=True)
    return Forecast(data, settings, outside(fit, covariates), fit.law.name, forced=not fit.passed)


def outside(fit: Fit, covariates: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """How far settings lie outside the runs of a fit, per covariate: 0 within."""
    table = {}
    for name, values in covariates.items():
        seen = fit.observed.covariates[name]
        low = float(seen.min())
        if fit.law.covariates[name].logarithmic:
            # Runs that begin at D = 0 leave nothing outside below their first logged D.
            low = -math.inf if low <= 0 else math.log(low)
            seen, values = np.log(seen[seen > 0]), np.log(np.maximum(values, 1e-300))
        table[name] = np.maximum(np.maximum(values - seen.max(), low - values), 0.0)
    return pd.DataFrame(table)
