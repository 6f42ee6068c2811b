"""Whether a choice of runs will tell what it promises: its predictions beside looks ahead by the posterior itself."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.outcomes import Executor
from bayeslaw.data.table import Runs
from bayeslaw.design.anchors import Anchors
from bayeslaw.design.lookahead import nested, refits
from bayeslaw.posterior.fit import Fit


def by_nesting(fit: Fit, made: Anchors, targets: Runs, *, outer: int = 200, seed: int = 0, force: bool = False) -> pd.DataFrame:
    """Shares of the targets' variance that purchases leave: as predicted, and by importance-weighted nested Monte Carlo.

    Parameters
    ----------
    fit : Fit
        The one that the runs were chosen for.
    made : Anchors
    targets : Runs
        Settings; those of the choice.
    outer : int
        Draws that simulate the runs' losses.

    Returns
    -------
    DataFrame
        One row for each purchase, after it: run, predicted and nested share, nested_mcse (Monte Carlo error), effective_median
        (effective draws, the median over simulations) and `says` where these are too few to be trusted.
    """
    _check(made)
    shares = (1 - made.picks["gain"].cumsum()).to_list()
    design = {str(i + 1): made.rows(made.bought[: i + 1]) for i in range(len(made.bought))}
    weights = list(made.aim.weights)
    found = nested(fit, design, targets, weights=weights, outer=outer, seed=seed, force=force)
    return pd.DataFrame({
        "run": [made.candidates.names[run] for run in made.bought], "predicted": shares,
        "nested": found["ratio"].to_numpy(), "nested_mcse": (found["expected_variance_mcse"] / found["prior_variance"]).to_numpy(),
        "effective_median": found["effective_median"].to_numpy(), "says": found["says"].to_numpy(),
    }, index=pd.RangeIndex(1, len(shares) + 1, name="order"))  # fmt: skip


def by_refits(
    fit: Fit,
    made: Anchors,
    targets: Runs,
    *,
    outer: int = 20,
    executor: str | Executor = "in-process",
    seed: int = 0,
    progress: bool = True,
    force: bool = False,
) -> pd.DataFrame:
    """The share of each target's variance that all purchases leave: as predicted, and by refits with simulated losses.

    Returns
    -------
    DataFrame
        One row for each target and one, `all targets`: what `lookahead.Refits.summary` says, and the predicted share.
    """
    _check(made)
    weights = list(made.aim.weights)
    found = refits(
        fit, made.rows(), targets, weights=weights, outer=outer, executor=executor, seed=seed, progress=progress, force=force
    )
    ensemble = made.market.ensemble
    now, then = (ensemble.variances(p) for p in (np.eye(ensemble.rank), ensemble.covariance(made.bought)))
    return found.summary.assign(predicted=[*(then / now), float(then @ made.aim.weights / (now @ made.aim.weights))])


def _check(made: Anchors) -> None:
    """Refuse a choice whose predictions are of something that a look ahead does not simulate."""
    if made.aim.kind != "latent":
        raise BayeslawError("A look ahead is of the law's losses at settings, without a discrepancy; this choice aims at others.")
