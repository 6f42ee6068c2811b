"""How far whole runs lie from a law of training dynamics, where no error of the law is learnt along covariates.

Such a law errs by schedules: all losses of a run lie off together, by more than seeds explain, and the posterior, for which a run
is many losses, knows the parameters too well. A new run is therefore forecast as far off as the fitted runs are,

    log loss = log law + effects and noise of a new run + d t,   d^2 = mean over runs of the mean of e_i e_(i+1),

where e are the residuals of a run in the order of its training, of which neighbours share what is no noise, and t is Student-t
with as many degrees of freedom as there are runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.streams import Stream
from bayeslaw.noise.custom import PointNoise
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import FORWARD

FEWEST = 3  # runs: fewer say little of how far others lie from the law
AVERAGED = 400  # draws of which residuals are means


@dataclass(frozen=True)
class RunDistance:
    """The distance of runs from a law: a relative size, and the number of runs that show it."""

    size: float
    runs: int

    def __str__(self) -> str:
        return f"{self.size:.1%} (rms of {self.runs} runs, point noise left out)"

    @classmethod
    def of(cls, fit: Fit) -> RunDistance | None:
        """The distance of a fit's runs, or None where forecasts have none.

        That is so for laws without an area under the learning rate, where an error was learnt along covariates or not asked for,
        for noises without run effects, and for fewer than `FEWEST` runs.
        """
        law, observed, noise = fit.law, fit.observed, fit.noise
        areas = [observed.covariates[name] for name in FORWARD if name in law.covariates]
        without = fit.asked_for_errors and not fit.info["discrepancy"].get("learned")
        if not areas or not without or isinstance(noise, PointNoise) or not (noise.run_effect and law.outcome.relative):
            return None
        some = np.linspace(0, fit.size - 1, min(AVERAGED, fit.size)).astype(np.int64)
        residual, step = fit.residual_of(observed, some).mean(axis=0), np.sum(areas, axis=0)
        ordered = [residual[own][np.argsort(step[own], kind="stable")] for own in observed.slices]
        shared = [float(np.mean(e[1:] * e[:-1])) for e in ordered if e.size > 1]
        return None if len(shared) < FEWEST else cls(math.sqrt(max(0.0, float(np.mean(shared)))), len(shared))

    def drawn(self, run: Index, draws: int, entropy: tuple[int, ...]) -> Array:
        """Draw what is added to log losses of new runs with codes (n,), array (n, draws); 0 where a code is below 0."""
        spread = np.random.default_rng((*entropy, Stream.RUN_DISTANCE)).chisquare(self.runs, draws) / self.runs
        added = np.zeros((run.size, draws))
        for code in np.unique(run[run >= 0]).tolist():
            normal = np.random.default_rng((*entropy, Stream.RUN_DISTANCE, code)).standard_normal(draws)
            added[run == code] = self.size * normal / np.sqrt(spread)
        return added
