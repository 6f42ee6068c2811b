"""Chains of two fits: the outcome of the first is a covariate of the second, such as a loss from which an accuracy follows.

Each draw of the second fit is forecast at a draw of what the first forecasts, noise and errors of its law included: both fits'
uncertainties, and all that runs scatter around both laws, are in one interval at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayeslaw.core import intervals
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, TableError, whole_number
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import counted, short_lines
from bayeslaw.core.units import CONVERT
from bayeslaw.data.measured import check_loss, check_outcome
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.tokenizers import LOSS, differ
from bayeslaw.forecasting.average import Averages, average, setting_codes
from bayeslaw.forecasting.facts import with_facts
from bayeslaw.forecasting.forecast import Forecast, forecast, forecast_selections, seen_as
from bayeslaw.forecasting.grid import Settings, as_settings, grid_of
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.forecasting.results import result_column
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.posterior.diagnostics import Check, checks_label, distrusted, failures, model_label
from bayeslaw.posterior.effects import Reading
from bayeslaw.posterior.fit import require_fits

INSIDE = "inside"


@dataclass(frozen=True, eq=False)
class Chain:
    """Forecasts of the second of two fits, whose covariate the first forecasts.

    Attributes
    ----------
    link : str
        The outcome of the first fit, a covariate of the second.
    first : Forecast
        Forecast of the first fit, at each different setting once.
    place : int array (n,)
        The row of `first` that each row of the chain is at.
    second : Forecast
        Forecast of the second fit at the median of the first, for checks and distances outside the runs.
    expected, carried : Forecast
        Forecasts of the second fit at draws of the first law's value, and of what a run logs by the first.

    Examples
    --------
    >>> loss, accuracy = bayeslaw.load_fit("fit.nc"), bayeslaw.load_fit("accuracy.nc")
    >>> chain = bayeslaw.chain(loss, accuracy, {"N": [1e9], "D": [2e10], "chance": 0.25, "items": 1000})
    >>> table = chain.summary()
    >>> bool((table["loss_eti90_lb"] < table["loss_median"]).all()), bool(table["run_median"].between(0, 1).all())
    (True, True)
    """

    link: str
    first: Forecast
    place: Index
    second: Forecast
    expected: Forecast
    carried: Forecast

    def __repr__(self) -> str:
        return short_lines(
            f"<Chain from {self.first.law} by {self.link} to {self.second.law} at {counted(self.place.size, 'setting')}>"
        )

    @property
    def settings(self) -> pd.DataFrame:
        """The settings (n rows), without the covariate that the first fit forecasts."""
        return self.second.settings.drop(columns=self.link)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Checks of both forecasts."""
        parts = ((self.first.law, self.first.checks), (self.second.law, self.second.checks))
        return tuple(replace(check, text=f"{law}: {check.text}") for law, checks in parts for check in checks)

    @property
    def forced(self) -> bool:
        """Whether it overrides failed checks of a fit or of a forecast."""
        return self.first.forced or self.second.forced

    @property
    def model_label(self) -> str:
        """'no concerns', 'concerns' or 'not assessed': the verdict on the models of both fits at these settings."""
        fits = [member.fit for part in (self.first, self.second) for member in part.members]
        return model_label([check for fit in fits for check in fit.checks] + list(self.checks))

    @cached_property
    def draws(self) -> xr.Dataset:
        """Draws (sample, row) of the outcome: `latent`, by both laws, and `run`, of the next run with learnt errors of the laws."""
        values = {"latent": self.expected.draws["latent"].values, "run": self.predictive}
        data = {name: (("sample", "row"), drawn) for name, drawn in values.items()}
        return xr.Dataset(data, coords={"row": self.carried.rows}, attrs={"units": self.second.unit})

    @property
    def predictive(self) -> Array:
        """Draws (S, n) to compare with measured outcomes."""
        return self.carried.predictive

    def mean(self, over: str) -> Averages:
        """Return averages over the values of a column such as task; see `Forecast.mean`."""
        return average(self.settings, self.predictive, over, self.second.outcome.facts)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return a table with one row per setting.

        Its columns are the settings; `<link>_median` with the ends of the equal-tailed interval of probability `ci_prob` of what
        a run logs by the first fit; latent_median and run_median of the second outcome with theirs, `<spread>_eti<prob>_lb` and
        `_ub`; `extrapolation`, how far outside the runs of either fit the setting lies; `checks` and `model` for both fits.
        What a run logs has the learnt errors of the laws outside their runs, which forecasts of one fit call extrapolated.
        """
        table = settings = self.settings
        parts = {self.link: self.first.predictive[:, self.place]} | {name: self.draws[name].values for name in ("latent", "run")}
        for name, drawn in parts.items():
            table = table.assign(**intervals.columns(drawn, ci_prob, name))
        results = {"extrapolation": self.extrapolation, "checks": checks_label(self.forced), "model": self.model_label}
        return table.assign(**{result_column(settings, name): result for name, result in results.items()})

    @property
    def extrapolation(self) -> list[str]:
        """How far outside the runs of either fit each setting lies, in words."""
        of_first = np.array(self.first.extrapolation, dtype=object)[self.place]
        return [
            " and ".join(f"{law} {text}" for law, text in ((self.first.law, a), (self.second.law, b)) if text != INSIDE) or INSIDE
            for a, b in zip(of_first, self.second.extrapolation, strict=True)
        ]


def chain(
    first: Posterior,
    second: Posterior,
    at: Settings,
    *,
    discrepancy: float | str | None = None,
    as_: Reading | Literal["new-group"] = "known",
    seed: int = 0,
    force: bool = False,
) -> Chain:
    """Forecast the outcome of a fit whose covariate another fit forecasts, such as an accuracy from a loss from N and D.

    Parameters
    ----------
    first, second : Fit or Stack
        The outcome of the first is a covariate of the second, under the same name and in the same unit.
    at : DataFrame, Runs, path, or mapping
        Settings with the covariates of both, but for the one that the first forecasts, which is not used where it is there; a
        mapping as for `bayeslaw.grid`. Rows of one `run`, or without runs of one setting of the first fit, are tasks of
        one model: they are at the same draws of it, and share the effect of a run of the second fit.
    discrepancy : float or text, optional
        Discrepancy of the first fit's law, as in `bayeslaw.forecast`.
    as_ : {'known', 'new-run', 'new-checkpoint', 'new-group'}
        As in `bayeslaw.forecast`, for both fits.
    seed : int
        Seed of the noise of both, and of which draws go together; the same seed gives the same draws.
    force : bool
        Forecast although checks failed, and mark every row.

    Raises
    ------
    BayeslawError
        If the second fit has no covariate that is the outcome of the first, or has it in another unit.

    Examples
    --------
    >>> loss, accuracy = bayeslaw.load_fit("fit.nc"), bayeslaw.load_fit("accuracy.nc")
    >>> chain = bayeslaw.chain(loss, accuracy, {"N": "1e9:8e9:3", "D": "1e11", "chance": 0.25, "items": 1000})
    >>> chain.draws["run"].shape[1]
    3
    """
    seed = whole_number("seed", seed, 0)
    link, runs = _link(first, second), _settings(first, second, at)
    columns = _columns_of(first, runs.frame)
    place = setting_codes(runs.frame, columns)
    of_first = replace(runs, frame=runs.frame[columns].iloc[np.unique(place, return_index=True)[1]])
    before = forecast(first, of_first, discrepancy=discrepancy, as_=as_, seed=seed, force=force)
    logged, expected = before.predictive, before.draws["latent"].values
    middle = np.median(logged, axis=0)[place]
    frame = runs.frame.assign(**{link: middle})
    selections, reading = seen_as(as_, second.selections, frame, seed)
    if not second.passed and not force:
        raise distrusted(f"Sampling of {second.name}", second.checks)
    after = forecast_selections(
        second.name, selections, replace(runs, frame=frame), None, seed, reading, failed=not second.passed, learned=True
    )
    if not force and failures(after.checks):
        raise distrusted("Sampling at the settings of this forecast", after.checks)
    after = after.with_runs(place)
    return Chain(
        link, before, place, after, _at_draws(after, link, expected, place, seed), _at_draws(after, link, logged, place, seed)
    )


def _link(first: Posterior, second: Posterior) -> str:
    """Return the outcome of the first fit, which must be a covariate of the second."""
    require_fits(first, second)
    link = first.outcome.name
    if link not in second.measured:
        known = ", ".join(name for name in second.measured if name not in second.outcome.facts)
        raise BayeslawError(
            f"{first.name} forecasts {link}, which is no covariate of {second.name} ({known}). Give first the fit of what the "
            "second depends on.",
            code="no-link",
        )
    for fit, _ in second.selections:
        of, unit = (fit.info.get("loss_unit") if link == LOSS else "") or second.measured[link].unit, first.unit
        if of and unit and of != unit:
            problem = f"{first.name} forecasts {link} in {unit}, and {second.name} takes it in {of}"
            way = f": bring both tables to one unit by {CONVERT}, and fit again" if link == LOSS else ""
            raise BayeslawError(f"{problem}{way}.", code="another-unit")
        for member, _ in first.selections:
            if other := differ(fit.token_length, member.token_length, unit):
                problem = f"{first.name} forecasts losses per token of another tokenizer than those of {second.name} ({other[0]})"
                raise BayeslawError(f"{problem}: bring both tables to one by {other[1]}, and fit again.", code="other-tokenizer")
    return link


def _settings(first: Posterior, second: Posterior, at: Settings) -> Runs:
    """Return the settings as a table, with facts of the second fit's tasks, and without what the first forecasts."""
    link, at = first.outcome.name, as_settings(at)
    if isinstance(at, Mapping):
        measured = {name: c for name, c in {**second.measured, **first.measured}.items() if name != link}
        observed = [fit.observed for posterior in (first, second) for fit, _ in posterior.selections]
        name = f"{first.name} with {second.name}"
        at = grid_of(name, measured, {**second.levels, **first.levels}, at, observed, second.outcome.facts)
    runs = read_runs(at)
    if (name := second.outcome.name) in runs.frame:
        given = runs.frame[runs.frame[name].notna()]
        if faults := check_loss(given) if second.outcome.is_loss else check_outcome(given, second.outcome):
            raise TableError(faults, runs.name)
    if link in runs.frame:
        runs = replace(runs, frame=runs.frame.drop(columns=link))  # a measured one must not stand in for the forecast
    for fit, _ in second.selections:
        runs = with_facts(fit, runs)
    return runs


def _columns_of(first: Posterior, frame: pd.DataFrame) -> list[str]:
    """Return the columns of settings that matter to the first fit."""
    names = {*first.measured, *first.levels, "run", "checkpoint", "seed", "domain"}
    for fit, _ in first.selections:
        names |= {fit.observed.group_column, fit.observed.clock_column}
    return [str(c) for c in frame if c in names]


def _at_draws(after: Forecast, link: str, values: Array, place: Index, seed: int) -> Forecast:
    """Return a forecast of the second fit with draws (S, m) of the first as its covariate, paired at random."""

    def paired(member: MemberDraws, number: int) -> MemberDraws:
        rng = np.random.default_rng((seed, Stream.PAIRED, number))
        turns = math.ceil(member.size / len(values))
        order = np.concatenate([rng.permutation(len(values)) for _ in range(turns)])[: member.size]
        return replace(member, covariates={**member.covariates, link: np.ascontiguousarray(values[order][:, place].T)})

    members, beyond = (tuple(paired(m, i) for i, m in enumerate(some)) for some in (after.members, after.beyond))
    return replace(after, members=members, beyond=beyond)
