"""Losses at settings nobody has run, with named spreads.

- `latent`: the law's expected loss, uncertain only through its parameters.
- `run`: the loss that the next run would log: latent loss, times the luck of a new run, times point noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayeslaw.checks import Check, Reach, extrapolation, forecast_checks, spread_rows
from bayeslaw.errors import BayeslawError, Fault, FitError, TableError, whole_number
from bayeslaw.fitting import Fit, check_probability, interval_names
from bayeslaw.laws import Law
from bayeslaw.observations import Nesting
from bayeslaw.runs import Runs, base_rows, check, complete, read_runs

SPREADS = ("latent", "run")
MOST_SETTINGS = 1_000_000  # of a grid
MOST_DRAWS = 250_000_000  # numbers that draws may take: 2 GB
BLOCK = 32  # rows worked out at once: small enough for what 4,000 draws of them need to stay in a core's cache


@dataclass(frozen=True)
class Forecast:
    """Posterior forecasts of the loss at settings, worked out a block of rows at a time when asked for.

    Attributes
    ----------
    fit : Fit
    settings : DataFrame
        The settings asked for.
    outside : DataFrame
        For each covariate, how far the setting lies outside the runs: in e-folds where it spans decades, else in its unit.
    covariates : mapping of covariate to array (n,)
    run : int array (n,)
        Which rows share a run and its luck.
    rows : array (n,)
        The rows' numbers in the table they came from.
    seed : int
        Of the noise of new runs.
    checkpoint, group : int arrays (n,)
        Which rows share a checkpoint and its luck, and which of the fit's groups they belong to.
    """

    fit: Fit
    settings: pd.DataFrame
    outside: pd.DataFrame
    covariates: Mapping[str, NDArray[np.float64]]
    run: NDArray[np.int64]
    rows: NDArray[Any]
    seed: int
    checkpoint: NDArray[np.int64]
    group: NDArray[np.int64]

    @property
    def law(self) -> str:
        return self.fit.law.name

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """R-hat and effective sample sizes of the latent loss, and how far outside the runs the settings lie.

        Of more than `checks.FORECAST_ROWS` settings the draws are looked at in as many: the extremes of each covariate and
        others spread between them.
        """
        columns = []
        for name, values in self.covariates.items():
            if self.fit.law.covariates[name].logarithmic:
                positive = values[values > 0]
                least = float(positive.min()) / math.e if positive.size else 1.0  # D = 0 lies an e-fold below the rest
                values = np.log(np.maximum(values, least))
            columns.append(values)
        some = spread_rows(columns)
        chains = next(iter(self.fit.by_chain.values())).shape
        latent = np.moveaxis(self._latent(some).reshape(some.size, *chains), 0, -1)
        return (*forecast_checks(latent, self.rows[some].tolist(), self.rows.size), self._extrapolation[1])

    @cached_property
    def _extrapolation(self) -> tuple[list[str], Check]:
        seen = self.fit.observed.covariates
        reach = {name: Reach.of(self.fit.law.covariates[name], seen[name]) for name in map(str, self.outside)}
        return extrapolation(self.outside, reach)

    @property
    def forced(self) -> bool:
        """Whether it was made in spite of failed checks, of the fit or of the forecast itself."""
        return not self.fit.passed or not all(c.passed for c in self.checks if c.required)

    @cached_property
    def draws(self) -> xr.Dataset:
        """Draws of the loss: variables `latent` and `run`, dimensions (sample, row), in nats/token.

        Raises
        ------
        BayeslawError
            If they would take more than `MOST_DRAWS` numbers; `summary` has no such limit.
        """
        size = self._size
        if len(SPREADS) * size * self.rows.size > MOST_DRAWS:
            raise BayeslawError(
                f"{size:,} draws at {self.rows.size:,} settings are more than memory should hold at once (at most "
                f"{MOST_DRAWS // len(SPREADS) // size:,} settings). Ask for the summary, or forecast the settings in parts."
            )
        whole = np.empty((len(SPREADS), self.rows.size, size))

        def keep(block: slice, losses: NDArray[np.float64]) -> None:
            whole[:, block] = losses

        self._blocks(keep)
        data = {spread: (("sample", "row"), np.ascontiguousarray(whole[i].T)) for i, spread in enumerate(SPREADS)}
        return xr.Dataset(data, coords={"row": self.rows}, attrs={"units": "nats/token"})

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row per setting, from bounded memory however many there are.

        Parameters
        ----------
        ci_prob : float
            Probability of the equal-tailed intervals.

        Returns
        -------
        DataFrame
            The settings; latent_median and run_median with `<spread>_eti<prob>_lo` and `_hi` in nats/token; `outside_<covariate>`;
            `extrapolation`, which says 'inside', 'outside: …' or 'FAR outside: …' with covariates and distances; and `checks`,
            which says 'passed' or 'FAILED (forced)'.
        """
        check_probability(ci_prob)
        tails = [0.5, 0.5 - ci_prob / 2, 0.5 + ci_prob / 2]
        quantiles = np.empty((len(SPREADS), 3, self.rows.size))

        def keep(block: slice, losses: NDArray[np.float64]) -> None:
            quantiles[:, :, block] = np.moveaxis(np.quantile(losses, tails, axis=-1), 0, 1)

        self._blocks(keep)
        table = self.settings.copy()
        for spread, values in zip(SPREADS, quantiles, strict=True):
            for name, column in zip(("median", *interval_names("eti", ci_prob)), values, strict=True):
                table[f"{spread}_{name}"] = column
        for covariate in self.outside:
            table[f"outside_{covariate}"] = self.outside[covariate].to_numpy()
        return table.assign(extrapolation=self._extrapolation[0], checks="FAILED (forced)" if self.forced else "passed")

    @cached_property
    def _parameters(self) -> dict[str, NDArray[np.float64]]:
        return self.fit.draws

    @property
    def _size(self) -> int:
        return next(iter(self._parameters.values())).size

    def _blocks(self, use: Callable[[slice, NDArray[np.float64]], None]) -> None:
        """Hand the draws of every block of rows, (spread, rows, draws), to a function; blocks are worked out by several threads."""
        with ThreadPoolExecutor() as pool:
            done = [pool.submit(self._block, slice(at, at + BLOCK), use) for at in range(0, self.rows.size, BLOCK)]
            for one in done:
                one.result()

    def _latent(self, block: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """Draws of the latent loss at some rows, (rows, draws)."""
        law, values = self.fit.law, self._parameters
        scope: dict[str, Any] = {name: values[name][None, :] for name in law.parameters}
        scope |= {name: column[block, None] for name, column in self.covariates.items()}
        with np.errstate(all="ignore"):
            latent = np.broadcast_to(law.evaluate(scope), (self.rows[block].size, self._size))
        good = (np.isfinite(latent) & (latent > 0)).all(axis=1)
        if not good.all():
            raise FitError(
                f"{law.name} has no finite positive loss for some draws at row {self.rows[block][~good][0]} of the settings."
            )
        return latent

    def _block(self, block: slice, use: Callable[[slice, NDArray[np.float64]], None]) -> None:
        latent, entropy = self._latent(block), (int(self.fit.info["seed"]), self.seed)
        rows = np.arange(self.rows.size)[block]
        belongs = {"checkpoint": self.checkpoint[block], "group": self.group[block]}
        noise = self.fit.noise.sample(self._parameters, self.run[block], rows, entropy, **belongs)
        use(block, np.stack([latent, latent * np.exp(noise)]))


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
    wanted = (*law.measured, *law.levels)
    for name in settings:
        if name not in (*wanted, "atpp"):
            raise BayeslawError(f"{law.name} has no covariate {name!r}; it has {', '.join(wanted)}.")
    if {"D", "atpp"} <= settings.keys() and "atpp" not in law.covariates:
        raise BayeslawError("Give either D or atpp: D is atpp x N.")
    values = {name: _texts(value) if name in law.levels else _values(law, name, value) for name, value in settings.items()}
    if (count := math.prod(map(len, values.values()))) > MOST_SETTINGS:
        raise BayeslawError(f"These are {count:,} settings; at most {MOST_SETTINGS:,} are forecast at once.")
    frame = pd.DataFrame(list(itertools.product(*values.values())), columns=list(values))
    if "atpp" in frame and "D" not in frame and "N" in frame:
        frame["D"] = frame["atpp"] * frame["N"]
    missing = [name for name in wanted if name not in frame]
    if missing:
        raise BayeslawError(f"{law.name} needs {', '.join(wanted)}; give {', '.join(missing)} too.")
    return frame


def _texts(value: str | float | Sequence[Any]) -> list[Any]:
    return value.split(",") if isinstance(value, str) else list(np.atleast_1d(np.asarray(value, dtype=object)))


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
        If a required check of the fit or of the forecast itself failed, or if the loss is not finite at a setting, which may
        show only when draws or summary are asked for.
    TableError
        If a setting lacks a covariate or lies outside its support.
    """
    whole_number("seed", seed, 0)
    if not fit.passed and not force:
        raise FitError(
            f"The fit's checks failed ({fit.failures}): its intervals can't be trusted. "
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
    covariates = {c: frame[c].to_numpy(dtype=np.float64) for c in fit.law.covariates}
    settings = runs.frame[[c for c in runs.frame if c not in ("loss", "loss_se")]].reset_index(drop=True)
    nested, rows = Nesting.of(runs.frame, fit.law), runs.frame.index.to_numpy()
    belongs = nested.run, rows, seed, nested.checkpoint, fit.observed.groups_of(runs.frame)
    made = Forecast(fit, settings, outside(fit, covariates), covariates, *belongs)
    if not force and (failed := "; ".join(c.text for c in made.checks if c.required and not c.passed)):
        raise FitError(
            f"The checks of this forecast failed ({failed}): its intervals can't be trusted. "
            "Sample longer, or force it and have every row marked."
        )
    return made


def outside(fit: Fit, covariates: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """How far settings lie outside the runs of a fit, per covariate: 0 within."""
    table = {}
    for name in fit.law.measured:
        values, seen = covariates[name], fit.observed.covariates[name]
        low = float(seen.min())
        if fit.law.covariates[name].logarithmic:
            # Runs that begin at D = 0 leave nothing outside below their first logged D.
            low = -math.inf if low <= 0 else math.log(low)
            seen, values = np.log(seen[seen > 0]), np.log(np.maximum(values, 1e-300))
        table[name] = np.maximum(np.maximum(values - seen.max(), low - values), 0.0)
    return pd.DataFrame(table)
