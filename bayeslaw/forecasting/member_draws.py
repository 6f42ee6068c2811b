"""Draws of one fit at the settings of a forecast: the law's outcome, the noise of runs, and errors of the law."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.streams import Stream
from bayeslaw.data.observations import Nesting
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.discrepancy import StatedDiscrepancy
from bayeslaw.laws.outcome import Outcome
from bayeslaw.posterior.diagnostics import Check, forecast_checks, spread_rows
from bayeslaw.posterior.discrepancy import DrawnErrors
from bayeslaw.posterior.draws import LawDraws, check_values
from bayeslaw.posterior.effects import LearntEffects, Reading
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.run_distance import RunDistance
from bayeslaw.posterior.sensitivity import forecast_sensitivity_check

# Settings at which the sensitivity of a forecast to the priors is computed, and fewest draws of a fit that it is computed from.
SENSED, FEWEST = 8, 200
MOST_LOGIT = 30.0  # shares nearer to 0 or 1 differ from these by less than 1e-13


@dataclass(frozen=True, eq=False)
class MemberDraws:
    """The draws of one fit at the settings of a forecast, with their noise.

    Attributes
    ----------
    values : mapping of parameter to array (S,)
        The selected draws.
    covariates : mapping of covariate to array (n,), or (n, S) with a value for each draw
        The settings as the law takes them.
    rows : array (n,) of the rows' numbers in the table of settings
    run, checkpoint, group : int arrays (n,)
        Codes of the new runs and new checkpoints whose effects rows share, -1 where these are the fit's own, and of its groups.
    entropy : tuple of int
        Seeds of the noise of new runs and of the discrepancy.
    time : array (n,)
        Position of each row along its run, in lengths of a typical run; empty unless the fit's noise has an OU run effect.
    learnt : LearntEffects
        Effects of runs and checkpoints of the fit.
    errors : DrawnErrors, optional
        Errors of the law, if they are learnt.
    known : array (n,), optional
        Known errors of log losses, which are added to the noise.
    distance : RunDistance, optional
        How far new runs lie from the law besides.
    """

    fit: Fit
    values: Mapping[str, Array]
    covariates: Mapping[str, Array]
    rows: NDArray[Any]
    run: Index
    checkpoint: Index
    group: Index
    entropy: tuple[int, ...]
    time: Array
    learnt: LearntEffects
    errors: DrawnErrors | None = None
    known: Array | None = None
    distance: RunDistance | None = None

    @classmethod
    def of(
        cls, fit: Fit, chosen: Index, runs: Runs, entropy: tuple[int, ...], reading: Reading = "known", left_out: str = ""
    ) -> MemberDraws:
        """Return the draws with indices `chosen` of a fit at the settings of a table."""
        covariates = fit.law.arrays(complete(runs.frame, fit.law))
        values, nested = fit.draws_of(chosen), Nesting.of(runs.frame, fit.law)
        group, time = fit.observed.groups_of(runs.frame), fit.observed.time_of(runs.frame)
        learnt = LearntEffects.of(fit, runs.frame, time, chosen, entropy, reading, left_out)
        run = np.where(learnt.run >= 0, -1, nested.run)
        checkpoint = np.where((learnt.run >= 0) | (learnt.checkpoint >= 0), -1, nested.checkpoint)
        rows = runs.frame.index.to_numpy()
        errors = None if fit.discrepancy is None else fit.discrepancy.drawn(chosen, (*entropy, Stream.ERROR))
        return cls(
            fit=fit, values=values, covariates=covariates, rows=rows, run=run, checkpoint=checkpoint, group=group, entropy=entropy,
            time=learnt.time, learnt=learnt, errors=errors,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """Number of draws S."""
        return next(iter(self.values.values())).size

    @cached_property
    def discrepancy(self) -> StatedDiscrepancy:
        """Draws of the discrepancy, with standard deviation 1."""
        return StatedDiscrepancy(self.fit.law, self.size, (*self.entropy, Stream.DISCREPANCY))

    def _discrepancy_at(self, block: slice | Index) -> Array:
        return self.discrepancy.at(self._middle(block))

    def _middle(self, block: slice | Index) -> dict[str, Array]:
        """Return the covariates (k,) of some settings, medians of those with a value for each draw."""
        at = {name: column[block] for name, column in self.covariates.items()}
        return {name: column if column.ndim == 1 else np.median(column, axis=1) for name, column in at.items()}

    def losses(self, block: slice, sds: Sequence[float]) -> Array:
        """Return losses (spread, rows, draws) of a block of settings: latent, run, and run with a discrepancy of each sd."""
        latent = self.latent(block)
        error = self._discrepancy_at(block) if sds else 0.0
        return np.stack([latent, *(self.noisy(latent, block, sd * error) for sd in (0.0, *sds))])

    def noisy(self, latent: Array, block: slice | Index, error: Array | float = 0.0) -> Array:
        """Return the outcomes (rows, draws) that runs would log, given the law's in a block of settings and errors of the law."""
        rows, outcome = np.arange(self.rows.size)[block], self.fit.law.outcome
        noise: Array | float = self.noise(rows) + error
        if outcome.kind == "positive":
            return np.asarray(latent * np.exp(noise))
        if self.fit.noise.shifts:
            latent, noise = self.latent(block, shift={self.fit.noise.shifts: self.noise(rows)}), error
        expected = outcome.from_scale(outcome.to_scale(latent) + noise)
        if outcome.kind != "count":
            return np.asarray(expected)
        items = self.covariates[outcome.items][block]
        return self.fit.noise.count(expected, items, self.values, rows, self.entropy, self.group[rows])

    def noise(self, rows: Index) -> Array:
        """Return what learnt effects and the noise of new runs add (rows, draws) on its scale, at settings by their numbers."""
        run, checkpoint, group = self.run[rows], self.checkpoint[rows], self.group[rows]
        time, known = self.time[rows] if self.time.size else None, None if self.known is None else self.known[rows]
        sample = self.fit.noise.sample
        new = sample(self.values, run, rows, self.entropy, checkpoint=checkpoint, group=group, time=time, known=known)
        if self.distance is not None:
            new += self.distance.drawn(run, self.size, self.entropy)
        return new + self.learnt.at(rows)

    def expected(self, block: slice | Index, sd: float = 0.0) -> Array:
        """Return the law's losses (rows, draws) at some settings, with a discrepancy of this sd."""
        outcome, latent = self.fit.law.outcome, self.latent(block)
        return np.asarray(outcome.from_scale(outcome.to_scale(latent) + sd * self._discrepancy_at(block))) if sd else latent

    def latent(
        self, block: slice | Index, values: Mapping[str, Array] | None = None, shift: Mapping[str, Array] | None = None
    ) -> Array:
        """Return the law's losses (rows, draws) at some settings, by these draws or, if `values` are given, by others.

        `shift` (rows, draws) is added to covariates. Where errors of the law are learnt, losses by these draws have them, and
        losses by all draws what the runs show of them.
        """
        law, values = self.fit.law, self.values if values is None else values
        at = {name: column[block] for name, column in self.covariates.items()}
        by_draw = {k: v[:, None] if v.ndim == 1 else v for k, v in at.items()}
        value = LawDraws(law, values).outcome(by_draw | {k: by_draw[k] + v for k, v in (shift or {}).items()})
        check_values(value, law, {"row": self.rows[block, None]}, parameters={name: values[name] for name in law.parameters})
        if self.errors is not None and self.fit.discrepancy is not None:
            at = self._middle(block)
            error = self.errors.at(at) if values is self.values else self.fit.discrepancy.learnt(at).T
            value = value * np.exp(error) if law.outcome.relative else add_error(law.outcome, value, error)
        return value

    def checks(self) -> list[Check]:
        """Return checks of the latent loss by all draws of the fit, at some settings if there are many."""
        columns = []
        for name, covariate in self.fit.law.axes.items():
            values = self.covariates[name]
            if covariate.logarithmic:
                positive = values[values > 0]
                least = float(positive.min()) / math.e if positive.size else 1.0  # D = 0 lies an e-fold below the rest
                values = np.log(np.maximum(values, least))
            columns.append(values)
        some = spread_rows(columns)
        by_draw = np.moveaxis(self.latent(some, self.fit.draws).reshape(some.size, *self.fit.shape), 0, -1)
        mixed = forecast_checks(by_draw, self.rows[some].tolist(), self.rows.size, self.fit.law.outcome)
        if self.fit.size < FEWEST or self.errors is not None:
            return mixed
        few = spread_rows([values[some] for values in columns], SENSED)
        sensitivity = self.fit.sensitivity_of({str(self.rows[some[i]]): by_draw[..., i] for i in few})
        return [*mixed, forecast_sensitivity_check(sensitivity, self.rows.size, self.fit.law.outcome)]


def add_error(outcome: Outcome, values: Array, error: Array) -> Array:
    """Return a law's values with an error, where logits of numbers next to a bound are finite.

    Parameters
    ----------
    outcome : Outcome
    values, error : arrays (n, S)
        The values, and what is added to them on the scale of the noise.
    """
    if outcome.unbounded:
        return np.asarray(outcome.from_scale(outcome.to_scale(values) + error))
    within = outcome.from_scale(np.array([-MOST_LOGIT, MOST_LOGIT]))
    return np.asarray(outcome.from_scale(np.clip(outcome.to_scale(np.clip(values, *within)) + error, -MOST_LOGIT, MOST_LOGIT)))
