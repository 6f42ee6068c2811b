"""What one fit brings to a forecast: some of its draws at the settings, their noise, and how far outside its runs these lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import FitError
from bayeslaw.data.observations import Nesting
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.discrepancy import Discrepancy
from bayeslaw.posterior.diagnostics import Check, forecast_checks, spread_rows
from bayeslaw.posterior.fit import Fit

DISCREPANCY = 10  # kind of random numbers of the discrepancy, beside those of the noise


@dataclass(frozen=True)
class Part:
    """The draws of a forecast that come from one fit.

    Attributes
    ----------
    fit : Fit
    values : mapping of parameter to array (S,)
        Those of the fit's draws that are taken.
    covariates : mapping of covariate to array (n,)
        The settings as the law takes them.
    run, checkpoint, group : int arrays (n,)
        Which rows share a run or a checkpoint and its luck, and which of the fit's groups they belong to.
    entropy : tuple of int
        Seeds of the noise of new runs and of the discrepancy.
    time : array (n,)
        How far along its run each row is, in typical runs' lengths; empty unless the fit's noise drifts.
    known : array (n,), optional
        Known errors of log losses, which the noise counts in.
    """

    fit: Fit
    values: Mapping[str, NDArray[np.float64]]
    covariates: Mapping[str, NDArray[np.float64]]
    run: NDArray[np.int64]
    checkpoint: NDArray[np.int64]
    group: NDArray[np.int64]
    entropy: tuple[int, ...]
    time: NDArray[np.float64]
    known: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, fit: Fit, chosen: NDArray[np.int64], runs: Runs, entropy: tuple[int, ...]) -> Part:
        """The chosen draws of a fit at the settings of a table."""
        frame = complete(runs.frame, fit.law)
        covariates = {c: frame[c].to_numpy(dtype=np.float64) for c in fit.law.covariates}
        values, nested = {name: draws[chosen] for name, draws in fit.draws.items()}, Nesting.of(runs.frame, fit.law)
        group, time = fit.observed.groups_of(runs.frame), fit.observed.time_of(runs.frame)
        return cls(fit, values, covariates, nested.run, nested.checkpoint, group, entropy, time)

    @property
    def size(self) -> int:
        return next(iter(self.values.values())).size

    @cached_property
    def discrepancy(self) -> Discrepancy:
        return Discrepancy(self.fit.law, self.size, (*self.entropy, DISCREPANCY))

    def losses(self, block: slice, rows: NDArray[Any], sds: Sequence[float]) -> NDArray[np.float64]:
        """Losses (spread, rows, draws) of a block of settings: latent, run, and run with a discrepancy of each stated sd."""
        latent = self.latent(block, rows, self.values)
        noisy = latent * np.exp(self.noise(np.arange(rows.size)[block]))
        error = self.discrepancy.at({name: column[block] for name, column in self.covariates.items()}) if sds else 0.0
        return np.stack([latent, noisy, *(noisy * np.exp(sd * error) for sd in sds)])

    def noise(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Noise (rows, draws) of new runs at some settings, by their numbers: what is added to log loss."""
        run, checkpoint, group = self.run[rows], self.checkpoint[rows], self.group[rows]
        time, known = self.time[rows] if self.time.size else None, None if self.known is None else self.known[rows]
        sample = self.fit.noise.sample
        return sample(self.values, run, rows, self.entropy, checkpoint=checkpoint, group=group, time=time, known=known)

    def expected(self, block: slice | NDArray[np.int64], rows: NDArray[Any], sd: float = 0.0) -> NDArray[np.float64]:
        """The law's losses (rows, draws) at some settings, with a discrepancy where one is stated."""
        latent = self.latent(block, rows, self.values)
        if not sd:
            return latent
        error = self.discrepancy.at({name: column[block] for name, column in self.covariates.items()})
        return latent * np.exp(sd * error)

    def latent(
        self, block: slice | NDArray[np.int64], rows: NDArray[Any], values: Mapping[str, NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """The law's losses (rows, draws) at some settings."""
        law = self.fit.law
        scope: dict[str, Any] = {name: values[name][None, :] for name in law.parameters}
        scope |= {name: column[block, None] for name, column in self.covariates.items()}
        with np.errstate(all="ignore"):
            loss = np.asarray(law.evaluate(scope))
        latent = np.broadcast_to(loss, (rows[block].size, next(iter(values.values())).size))
        good = (np.isfinite(latent) & (latent > 0)).all(axis=1)
        if not good.all():
            raise FitError(f"{law.name} has no finite positive loss for some draws at row {rows[block][~good][0]} of the settings.")
        return latent

    def checks(self, rows: NDArray[Any]) -> list[Check]:
        """Checks of the latent loss by all of the fit's draws, at some settings if there are many."""
        columns = []
        for name, covariate in self.fit.law.axes.items():
            values = self.covariates[name]
            if covariate.logarithmic:
                positive = values[values > 0]
                least = float(positive.min()) / math.e if positive.size else 1.0  # D = 0 lies an e-fold below the rest
                values = np.log(np.maximum(values, least))
            columns.append(values)
        some, by_chain = spread_rows(columns), self.fit.by_chain
        chains = next(iter(by_chain.values())).shape
        latent = self.latent(some, rows, {name: values.ravel() for name, values in by_chain.items()})
        by_draw = np.moveaxis(latent.reshape(some.size, *chains), 0, -1)
        return forecast_checks(by_draw, rows[some].tolist(), rows.size)


def outside(fit: Fit, covariates: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """How far settings lie outside the runs of a fit, per covariate: 0 within."""
    table = {}
    for name in fit.law.axes:
        values, seen = covariates[name], fit.observed.covariates[name]
        low = float(seen.min())
        if fit.law.covariates[name].logarithmic:
            # Runs that begin at D = 0 leave nothing outside below their first logged D.
            low = -math.inf if low <= 0 else math.log(low)
            values = np.log(np.maximum(values, 1e-300))
            if fit.law.covariates[name].context:  # a phase that hasn't begun has had no learning rate
                values = np.where(np.isneginf(low) | (covariates[name] > 0), values, low)
            seen = np.log(seen[seen > 0])
        table[name] = np.maximum(np.maximum(values - seen.max(), low - values), 0.0)
    return pd.DataFrame(table)
