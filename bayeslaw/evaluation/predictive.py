"""How the losses of a fit lie in what the fit predicts for them: as new runs, and by the posterior without their run.

Whole runs are left out, not rows: rows of a run err together, so a row is nearly known from its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import shortened, whole_number
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.core.text import counted, listed, short_lines
from bayeslaw.evaluation.loo import leave_one_run_out, split_run
from bayeslaw.evaluation.scores import transforms
from bayeslaw.forecasting.forecast import forecast_selections
from bayeslaw.inference.refit import rows_of
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.posterior.fit import Fit

PROBS = (0.5, 0.9)
MOST = 8_000_000  # predicted losses, of all draws and rows: beyond that every second draw is used, or every third, …
FEWEST = 400  # draws that are used in any case
NAMED = 3  # runs that a note names


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """The result of `bayeslaw.evaluation.predictive_check`.

    Attributes
    ----------
    name, unit, outcome : str, str, Outcome
        Name of the fit, and unit and kind of what it predicts.
    rows : DataFrame
        One row for each fitted loss, in the order of the table: row (its number there), run, loss, median and the ends of the
        equal-tailed intervals of a new run's loss (eti50_lb, eti50_ub, eti90_lb, eti90_ub); pit, the share of the predicted
        losses below it; loo_pit, the same without its run; and pareto_k of the weights that leave this run out.
    good_k : float
        Largest Pareto k at which the weights are reliable.
    draws : int
        How many posterior draws were used.
    failed : bool
        Whether checks of the sampling failed.

    Examples
    --------
    >>> check = bayeslaw.evaluation.predictive_check(bayeslaw.load_fit("fit.nc"))
    >>> check.runs, bool(check.rows["loo_pit"].between(0, 1).all())
    (12, True)
    """

    name: str
    unit: str
    rows: pd.DataFrame
    good_k: float
    draws: int
    failed: bool
    outcome: Outcome = LOSS

    def __repr__(self) -> str:
        return short_lines(f"<PredictiveCheck of {self.name}: {self.notes[0]}>")

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self.rows["run"].nunique())

    @property
    def notes(self) -> list[str]:
        """What was left out, and for which runs the weights are not reliable."""
        far = self.rows.loc[self.rows["pareto_k"] > self.good_k, "run"].unique()
        several = len(self.rows) > self.runs
        left = "each run was left out as a whole, since its rows may err together" if several else "each run is one row"
        notes = [f"{counted(len(self.rows), self.outcome.name)} of {counted(self.runs, 'run')}; {left}"]
        if len(far):
            names = listed([shortened(str(name), 20) for name in far], NAMED)
            notes.append(
                f"the weights of {len(far)} of {self.runs} runs are not reliable (Pareto k above {self.good_k:.2f}): {names}"
            )
        return notes


def predictive_check(fit: Fit, *, seed: int = 0) -> PredictiveCheck:
    """Compare each fitted loss with what the fit predicts for a new run at its setting, with its run and without it.

    Transforms without the run are by Pareto-smoothed importance weights, `arviz_stats.loo_pit` (Vehtari et al. 2017, 2024). Where
    runs share checkpoint effects, these are as learnt from the other runs. Of large tables some draws are used, at least 400.

    Parameters
    ----------
    fit : Fit
    seed : int
        Seed of the noise of new runs.

    Raises
    ------
    FitError
        If it is not the fit of one law, as a stack is not, or the law has no finite loss at a row for some draw.

    Examples
    --------
    >>> check = bayeslaw.evaluation.predictive_check(bayeslaw.load_fit("fit.nc"))
    >>> check.rows.columns[:4].tolist()
    ['row', 'run', 'loss', 'median']
    """
    seed = whole_number("seed", seed, 0)
    loo, observed = leave_one_run_out(fit), fit.observed
    size = loo.log_weights.shape[1]
    chosen: Index = np.arange(0, size, max(1, min(size // FEWEST, size * observed.response.size // MOST)))
    table = rows_of(fit)
    table = replace(table, frame=table.frame.loc[observed.rows])  # without base checkpoints
    ends = [end for prob in PROBS for end in interval_names("eti", prob)]
    parts = []
    for place, name in enumerate(observed.run_names):
        _, own = split_run(table, name)
        loss = own.frame[fit.law.outcome.name].to_numpy(dtype=np.float64)
        draws = forecast_selections(fit.name, ((fit, chosen),), own, seed=seed, left_out=name).predictive
        cells = {"row": own.frame.index, "run": name, fit.law.outcome.name: loss, "median": np.median(draws, axis=0)}
        cells |= dict(zip(ends, [end for prob in PROBS for end in quantiles(draws, prob, axis=0)[1:]], strict=True))
        cells["pit"] = transforms(loss, draws)
        cells["pareto_k"] = k = float(loo.table["pareto_k"].iloc[place])
        cells["loo_pit"] = _loo_pit(loss, draws, loo.log_weights[place, chosen], k)
        parts.append(pd.DataFrame(cells))
    rows = pd.concat(parts).sort_values("row").reset_index(drop=True)
    return PredictiveCheck(fit.name, fit.unit, rows, loo.good_k, int(chosen.size), not fit.passed, fit.law.outcome)


def _loo_pit(loss: Array, draws: Array, log_weights: Array, pareto_k: float) -> Array:
    """Return the weighted share of draws (S, n) below each loss (n,), by ArviZ."""
    import arviz_stats as az  # slow to import

    dims = ("chain", "draw", "row")
    log_weights = log_weights - np.logaddexp.reduce(log_weights)
    weights = np.repeat(log_weights[None, :, None], loss.size, axis=2)
    data = {
        "posterior": xr.Dataset({"weight": (dims[:2], log_weights[None])}),
        "posterior_predictive": xr.Dataset({"loss": (dims, draws[None])}),
        "observed_data": xr.Dataset({"loss": (dims[2:], loss)}),
        "log_likelihood": xr.Dataset({"loss": (dims, weights)}),
    }
    transformed = az.loo_pit(
        xr.DataTree.from_dict(data),
        var_names="loss",
        log_weights=xr.Dataset({"loss": (dims, weights)}),
        pareto_k=xr.Dataset({"loss": (dims[2:], np.full(loss.size, pareto_k))}),
    )
    return np.asarray(transformed["loss"].values, dtype=np.float64)
