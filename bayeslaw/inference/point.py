"""Point fits as in the papers: Huber loss on log residuals, many starts, positive parameters; and their bootstrap.

    minimise  sum_i Huber_delta(log L(x_i) - log loss_i)        (Hoffmann et al. 2022, Goffinet et al. 2025)

Every parameter with a prior on positive numbers is kept positive. Beyond that, priors only serve to draw the starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, whole_number
from bayeslaw.core.executors import Executor, opened, values_of
from bayeslaw.core.progress import console_for
from bayeslaw.core.text import compact, exact, short_lines
from bayeslaw.core.threads import one_blas_thread
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.tokenizers import token_length
from bayeslaw.engine.huber import NO_LOSS, HuberLoss, Objective
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_in, levels_of, with_levels
from bayeslaw.posterior.draws import check_values
from bayeslaw.posterior.fit import OfOneLaw

MOST_STARTS, MOST_RESAMPLES = 1_000_000, 1_000_000
BATCH = 8  # resamples sent to a worker at a time, since one takes some tens of milliseconds


@dataclass(frozen=True, eq=False)
class PointFit(OfOneLaw):
    """Parameters at the smallest Huber loss.

    Attributes
    ----------
    law, parameters, observed
    objective, delta : float
        Sum of Huber losses of the log residuals, and where the Huber loss turns from square to linear.
    starts : DataFrame
        Objective reached from each start, best first.
    best : array (k,)
        The coordinates of the parameters.
    token_length : dict
        Bytes or characters of a token of the fitted losses, by the column that says so; empty where none does.

    Examples
    --------
    >>> point = bayeslaw.point_fit("chinchilla", "runs.csv", starts=2)
    >>> sorted(point.parameters), point.draws["E"].shape
    (['A', 'B', 'E', 'alpha', 'beta'], (1,))
    """

    law: Law
    parameters: Mapping[str, float]
    objective: float
    delta: float
    starts: pd.DataFrame
    observed: Observations
    best: Array
    token_length: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {compact(value, 3)}" for name, value in self.parameters.items())
        return short_lines(f"<PointFit of {self.law.name} to {self.observed.response.size:,} {self.law.outcome.plural}: {values}>")

    @property
    def passed(self) -> bool:
        """True: nothing was sampled, so no check of the sampling can fail."""
        return True

    @property
    def selections(self) -> tuple[tuple[PointFit, Index], ...]:
        """This fit with the number of its one draw, as selections of a posterior."""
        return ((self, np.arange(1)),)

    @property
    def draws(self) -> dict[str, Array]:
        """The parameters as one draw, arrays (1,), as forecasts and scores take them."""
        return {name: np.array([value]) for name, value in self.parameters.items()}

    def predict(self, covariates: Mapping[str, Any] | pd.DataFrame | pd.Series) -> Array:
        """Expected outcome, in `unit`, at settings: a table, a row of one, or a mapping of numbers or arrays (n,).

        They have every covariate. A column by which parameters differ is given like one, with values that fitted rows have.
        Settings where the law has no finite loss, such as N = 0, are refused (FitError).
        """
        law, given = self.law, dict(covariates) if isinstance(covariates, (Mapping, pd.DataFrame, pd.Series)) else {}
        for column in {*law.levels} & {*given}:
            given |= _marks(law, column, given[column])
        if missing := dict.fromkeys(law.indicators.get(c, (c,))[0] for c in law.covariates if c not in given):
            problem = f"{law.name} predicts losses at settings, a table or a mapping with {', '.join((*law.measured, *law.levels))}"
            raise BayeslawError(f"{problem}; {', '.join(missing)} is missing.", code="missing-column")
        with np.errstate(all="ignore"):
            value = np.asarray(law.predict(self.draws, given)[0])
        check_values(value, law, {name: given[name] for name in law.covariates})
        return value

    def bootstrap(
        self, size: int = 200, *, by: str = "run", seed: int = 0, executor: str | Executor = "in-process", progress: bool = False
    ) -> dict[str, Array]:
        """Refit the parameters to resampled data; returns arrays (size,).

        Parameters
        ----------
        size, seed : int
            Number of resamples. The same seed gives the same numbers on any executor; a larger size only adds to them.
        by : {'run', 'row'}
            Resample whole runs, which keeps the effects that their points share, or single rows. Where parameters vary by a column,
            runs or rows are replaced by others with the same of its values, so that each resample has all of these.
        executor, progress
            As for `bayeslaw.fit_many`.

        Raises
        ------
        BayeslawError
            'nothing-to-resample' if all rows are of one run, or each run is the only one of its value of the column.
        """
        if by not in ("run", "row"):
            raise BayeslawError(f"bootstrap resamples by 'run' or 'row', not {by!r}.", code="unknown-resampling")
        size = whole_number("size", size, 1, MOST_RESAMPLES)
        seed = whole_number("seed", seed, 0)
        if all(of.size == 1 for of in _strata(self, _groups(self, by))):
            alone = f"each is the only one of its {' and '.join(self.law.levels)}" if self.law.levels else "there is one"
            problem = f"A bootstrap by {by} draws among several {by}s, and {alone}: every resample would be the fit itself."
            advice = " Resample by 'row', or leave the bootstrap out." if by == "run" else ""
            raise BayeslawError(problem + advice, code="nothing-to-resample")
        work = partial(_refitted, point=self, by=by, seed=seed)
        with opened(executor) as run:
            batches = [range(i, min(i + BATCH, size)) for i in range(0, size, BATCH)]
            refits = values_of(run.map(work, batches, what="batch of resample", progress=progress))
        return HuberLoss.of(self.law, self.observed).parameters(np.concatenate(refits))


def point_fit(
    law: Law | str,
    runs: Runs | pd.DataFrame | str,
    *,
    delta: float | None = None,
    starts: int = 100,
    seed: int = 0,
    progress: bool = False,
) -> PointFit:
    """Fit a law by least Huber loss on log residuals, from many starts by L-BFGS-B.

    Parameters
    ----------
    law : Law, name or path of a card
        Parameters that vary by a column get a value for each of its values, not pooled.
    runs : Runs, DataFrame or path
        All rows have the same weight: a column `loss_se` is not used.
    delta : float, optional
        Where the Huber loss turns linear, in log loss; the card's `huber_delta` unless given.
    starts, seed : int
        Number of starts, drawn around the priors; the same seed gives the same starts.
    progress : bool
        Show a progress bar on standard error.

    Examples
    --------
    >>> point = bayeslaw.point_fit("chinchilla", "runs.csv", starts=2)
    >>> point.predict({"N": np.array([1e9, 1e9]), "D": np.array([1e10, 1e11])}).shape
    (2,)
    """
    from rich.progress import track

    law = load_law(law)
    delta = law.huber_delta if delta is None else delta
    if not (isinstance(delta, Real) and delta > 0 and math.isfinite(delta)):
        raise BayeslawError(f"delta must be positive and finite, not {delta!r}.", code="bad-delta")
    starts = whole_number("starts", starts, 1, MOST_STARTS)
    seed = whole_number("seed", seed, 0)
    runs = read_runs(runs)
    law = with_levels(law, levels_of(law, runs.frame), pooled=False)
    observed = Observations.of(law, runs)
    huber = HuberLoss.of(law, observed)
    loss = huber.objective(delta, np.ones(observed.response.size))
    rng, console = np.random.default_rng(seed), console_for(progress)
    shown: dict[str, Any] = {"console": console, "transient": True, "disable": console is None}
    with one_blas_thread():
        ends = [descend(loss, huber.start(rng)) for _ in track(range(starts), "point fit", **shown)]
        ends.sort(key=lambda end: end[0])
        value, best = descend(loss, ends[0][1])
    if not value < NO_LOSS:
        text = "No start of the point fit reached a finite loss; are the losses and the covariates on the law's scale?"
        raise FitError(law.outcome.renamed(text), code="no-finite-loss")
    parameters = {name: float(v[0]) for name, v in huber.parameters(best[None, :]).items()}
    table = pd.DataFrame({"objective": [e[0] for e in ends]})
    return PointFit(
        law=law, parameters=parameters, objective=value, delta=delta, starts=table, observed=observed, best=best,
        token_length=token_length(runs.frame, law),
    )  # fmt: skip


def _marks(law: Law, column: str, values: Any) -> dict[str, Array]:
    """Return the indicators (n,) of a column by which parameters differ from its values, one or n."""
    given, known = pd.Series(np.atleast_1d(np.asarray(values, dtype=object))), law.levels[column]
    cells = levels_in(given, known).to_numpy()
    if unknown := [exact(value) for value, cell in zip(given, cells, strict=True) if cell not in known]:
        raise BayeslawError(f"{column} {unknown[0]!r} is not among {', '.join(known)}, which were fitted.", code="unknown-level")
    return {name: (cells == value).astype(np.float64) for name, (of, value) in law.indicators.items() if of == column}


def _refitted(numbers: range, point: PointFit, by: str, seed: int) -> Array:
    """Coordinates (numbers, parameters) of refits of numbered resamples, each with random numbers of its own."""
    huber, group, best = HuberLoss.of(point.law, point.observed), _groups(point, by), point.best
    strata, refits = _strata(point, group), np.empty((len(numbers), best.size))
    with one_blas_thread():
        for i, number in enumerate(numbers):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
            drawn = np.concatenate([of[rng.integers(of.size, size=of.size)] for of in strata])
            times = np.bincount(drawn, minlength=int(group.max()) + 1)
            loss = huber.objective(point.delta, times[group].astype(np.float64))
            starts = [best, *(best + 0.3 * rng.standard_normal((2, best.size)))]
            refits[i] = min((descend(loss, s) for s in starts), key=lambda end: end[0])[1]
    return refits


def _groups(point: PointFit, by: str) -> Index:
    """Return the code of the run of each row, or of the row."""
    return point.observed.run if by == "run" else np.arange(point.observed.run.size)


def _strata(point: PointFit, group: Index) -> list[Index]:
    """Return the groups of rows (runs, or rows) that have the same values of the columns by which parameters vary, set by set.

    Without any run of a value, a resample would say nothing of its parameters: they would stay at the random start.
    """
    count = int(group.max()) + 1
    marks = [np.bincount(group, point.observed.covariates[name], count) > 0 for name in point.law.indicators]
    code = np.unique(np.stack(marks), axis=1, return_inverse=True)[1].ravel() if marks else np.zeros(count, dtype=np.int64)
    return [np.flatnonzero(code == i) for i in range(int(code.max()) + 1)]


def descend(loss: Objective, start: Array) -> tuple[float, Array]:
    """Minimise by L-BFGS-B, restarted where it stops until that no longer helps: kinks of the Huber loss stall it.

    Callers limit BLAS to one thread. L-BFGS-B solves tiny systems, and threads that waited for each other on a busy computer made
    it 40 times slower.
    """
    value, x = math.inf, start
    options = {"maxiter": 2_000, "maxfun": 4_000, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-12}
    for _ in range(20):
        result = minimize(loss, x, jac=True, method="L-BFGS-B", options=options)
        gain = value - float(result.fun)
        if gain > 0:
            value, x = float(result.fun), np.asarray(result.x)
        if not gain > 1e-9 * abs(value):
            break
    return value, x
