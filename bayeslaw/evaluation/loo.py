"""Log predictive densities of left-out runs: of held-out ones, and of each fitted run without it.

Whole runs are left out, not points: points of a run share its run effect, so a law that follows run effects would look good point
by point.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logsumexp

from bayeslaw.core.arrays import Array, Index
from bayeslaw.data.observations import Observations, run_codes
from bayeslaw.data.table import Runs
from bayeslaw.posterior.fit import Fit, require_draws, require_fits, require_single_fit

FEWEST = 25  # draws of which the largest weights are the five that a Pareto tail takes


@dataclass(frozen=True, eq=False)
class Loo:
    """Log predictive densities of the runs of a fit, each left out by importance weights.

    Attributes
    ----------
    table : DataFrame
        One row per run: rows, elpd (log density of its log losses given all other runs), pareto_k, refitted.
    good_k, p : float
        Largest Pareto k at which the weights are reliable (.7, or less where there are few draws); effective number of parameters.
    log_weights : array (R, S)
        Logarithms of the smoothed importance weights of the draws for each run.

    Examples
    --------
    >>> bool(bayeslaw.evaluation.leave_one_run_out(bayeslaw.load_fit("fit.nc")).se > 0)
    True
    """

    table: pd.DataFrame
    good_k: float
    p: float
    log_weights: Array

    @property
    def elpd(self) -> float:
        """Expected log predictive density, summed over runs."""
        return float(self.table["elpd"].sum())

    @property
    def se(self) -> float:
        """Standard error of `elpd`, from the scatter between runs; nan for one run."""
        return math.sqrt(len(self.table) * self.table["elpd"].var(ddof=0)) if len(self.table) > 1 else math.nan

    @property
    def unreliable(self) -> list[str]:
        """Runs with unreliable weights that no refit has left out."""
        return [str(run) for run in self.table.index[(self.table["pareto_k"] > self.good_k) & ~self.table["refitted"]]]

    def only(self, runs: Collection[str]) -> Loo:
        """Return a copy with some of the runs; `p` stays that of all."""
        kept = self.table.index.isin(list(runs))
        return replace(self, table=self.table[kept], log_weights=self.log_weights[kept])

    def refitted(self, run: str, elpd: float) -> Loo:
        """Return a copy with the density `elpd` that a refit without the run gives it."""
        table = self.table.copy()
        table.loc[run, "elpd"], table.loc[run, "refitted"] = elpd, True
        return replace(self, table=table)

    def resampled(self, run: str) -> Index:
        """Return indices (S,) of draws resampled by their weights: draws of the posterior without the run."""
        weights = np.exp(self.log_weights[self.table.index.get_loc(run)])
        ends = np.cumsum(weights / weights.sum())
        return np.minimum(np.searchsorted(ends, (np.arange(ends.size) + 0.5) / ends.size), ends.size - 1).astype(np.int64)


def leave_one_run_out(fit: Fit) -> Loo:
    """Leave each run of a fit out in turn, by Pareto-smoothed importance sampling (Vehtari et al. 2017, 2024).

    Runs in `unreliable` need a refit without them, which `bayeslaw.compare` makes.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    Loo
        A row for each run: its expected log predictive density and the k of the Pareto tail.

    Raises
    ------
    FitError
        If it is not the fit of one law, as a stack is not, or has fewer than 25 draws.

    Examples
    --------
    >>> list(bayeslaw.evaluation.leave_one_run_out(bayeslaw.load_fit("fit.nc")).table)
    ['rows', 'elpd', 'pareto_k', 'refitted']
    """
    import arviz_stats as az

    require_fits(fit)
    require_draws(require_single_fit(fit, "Leaving runs out"), "Leaving runs out", FEWEST)
    likelihood = fit.log_likelihood()
    tree = xr.DataTree.from_dict(
        {"posterior": fit.tree["posterior"].to_dataset(), "log_likelihood": xr.Dataset({fit.law.outcome.observed: likelihood})}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about large k, which are in the table
        result = az.loo(tree, pointwise=True)
    table = pd.DataFrame(
        {
            "rows": np.bincount(fit.observed.run),
            "elpd": np.asarray(result.elpd_i.values, dtype=np.float64),
            "pareto_k": np.asarray(result.pareto_k.values, dtype=np.float64),
            "refitted": False,
        },
        index=pd.Index(fit.observed.run_names, name="run"),
    )
    log_weights = result.log_weights.transpose("run", "chain", "draw").values.reshape(len(table), -1)
    return Loo(table, float(result.good_k), float(result.p), log_weights)


def split_run(runs: Runs, run: str) -> tuple[Runs, Runs]:
    """Return the other runs, and the run with this name."""
    code, names = run_codes(runs.frame)
    own = code == names.index(run)
    return replace(runs, frame=runs.frame[~own]), replace(runs, frame=runs.frame[own])


def held_out_density(fit: Fit, fitted: Runs, held: Runs) -> pd.Series:
    """Return the log predictive density of each held-out run: the joint density of its log losses, averaged over draws.

    Parameters
    ----------
    fit : Fit
    fitted, held : Runs
        Rows that it was fitted to, and held-out ones. As in forecasts, the density of later rows of a fitted run is given that run.
    """
    frame, seen = held.frame, set(run_codes(fitted.frame)[1])
    if frame.index.isin(fitted.frame.index).any():  # of another table, whose rows are counted from 1 too
        frame = frame.set_axis(frame.index + int(fitted.frame.index.max()), axis=0)
    alone = _observed(fit, fitted)
    known = alone.find(frame, fit.law)[0] >= 0
    if "run" in frame:  # another run with the name of a fitted one
        other = [f"{run} (held out)" if run in seen else run for run in frame["run"]]
        frame = frame.assign(run=np.where(known, frame["run"], np.array(other, dtype=object)))
    code, names = run_codes(frame)
    before = _densities_of_runs(fit, alone) if known.any() else {}
    # With checkpoint effects, a run's density is conditional on all other runs, so other held-out runs must not be among them.
    batches = [frame[code == i] for i in range(len(names))] if fit.noise.checkpoint_effect else [frame]
    densities: dict[str, float] = {}
    for batch in batches:
        values = _densities_of_runs(fit, _observed(fit, replace(fitted, frame=pd.concat([fitted.frame, batch]))))
        for name in dict.fromkeys(run_codes(batch)[1]):
            density = values[name] - before.get(name, 0.0)
            densities[name] = float(logsumexp(density) - math.log(density.size))
    return pd.Series(densities, name=fit.name).rename_axis("run")


def _observed(fit: Fit, runs: Runs) -> Observations:
    """Return rows as the fit takes them: draws of `drift` are in lengths of its typical run, whatever the lengths of others."""
    observed = Observations.of(fit.law, runs, fit.observed.group_column or None, fit.observed.clock_column)
    return replace(observed, span=fit.observed.span)


def _densities_of_runs(fit: Fit, observed: Observations) -> dict[str, Array]:
    """The log density of each run given each draw, arrays (S,), by the run's name."""
    likelihood = replace(fit, observed=observed).log_likelihood()
    return dict(zip(map(str, likelihood["run"].values), likelihood.values.reshape(-1, likelihood.sizes["run"]).T, strict=True))
