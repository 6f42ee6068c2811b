"""What purchases are to make known: losses at settings, or draws of anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logit

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.forecasting.discrepancy import spread_name
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.posterior.fit import Fit


@dataclass(frozen=True)
class Aim:
    """What is to be known: draws of quantities, their weights, and how wide their intervals are now.

    Attributes
    ----------
    draws : array (S, q)
        Log losses of targets, or whatever was given, such as the margins of a plan.
    names : tuple of str
    weights : array (q,)
        Of their variances; they add up to 1.
    widths : array (q,)
        Of the equal-tailed intervals now, in `unit`.
    kind : str
        What the intervals are of: latent, latent with a discrepancy, or what was given.
    unit : str
    forced : bool
        Whether failed checks were passed over.
    """

    draws: Array
    names: tuple[str, ...]
    weights: Array
    widths: Array
    kind: str
    unit: str
    forced: bool


def aim_of(
    members: Sequence[Posterior],
    targets: Runs | pd.DataFrame | str | Path | Mapping[str, ArrayLike],
    sd: float | None,
    ci_prob: float,
    seed: int,
    force: bool,
) -> Aim:
    """What is to be known, from settings or draws.

    Parameters
    ----------
    members : sequence of Fit or Stack
    targets : table or mapping
        Settings with an optional column `weight`, or draws (S,) of quantities by name.
    sd : float or None
        Stated discrepancy, relative.
    ci_prob : float
    seed : int
    force : bool

    Raises
    ------
    BayeslawError
        If there are no targets, a weight can't be used, or checks of a fit or of its forecasts at the targets failed.
    """
    tails = [0.5 - ci_prob / 2, 0.5 + ci_prob / 2]
    if isinstance(targets, Mapping):
        if not targets:
            raise BayeslawError("There are no targets.")
        if not force and (failures := "; ".join(m.failures for m in members if not m.passed)):
            raise FitError(f"The fit's checks failed ({failures}): what its draws say of runs can't be trusted.")
        draws = np.stack([np.asarray(values, dtype=np.float64).reshape(-1) for values in targets.values()], axis=1)
        widths = np.diff(np.quantile(draws, tails, axis=0), axis=0)[0]
        forced = not all(m.passed for m in members)
        return Aim(draws, tuple(targets), np.full(len(targets), 1 / len(targets)), widths, "target", "", forced)
    runs = targets if isinstance(targets, Runs) else read_runs(targets)
    weights = np.ones(len(runs))
    if "weight" in runs.frame:
        weights = pd.to_numeric(runs.frame["weight"], errors="coerce").to_numpy(dtype=np.float64)
        if (bad := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))).size or not weights.sum() > 0:
            row = runs.frame.index[bad[0] if bad.size else 0]
            raise BayeslawError(f"{runs.name}: weight is missing or negative, or all are 0 (row {row}).")
    # Each with a seed of its own: the errors of two laws are not one.
    made = [forecast(member, runs, discrepancy=sd, seed=seed + i, force=force) for i, member in enumerate(members)]
    losses = np.hstack([one.expected(slice(None)).T for one in made])
    domains = [f"{one.law}: " if len(made) > 1 else "" for one in made]
    names = [head + ", ".join(f"{c} = {v:.4g}" for c, v in row.items()) for head, one in zip(domains, made, strict=True)
             for _, row in one.settings[[str(c) for c in one.outside]].iterrows()]  # fmt: skip
    kind = "latent" if sd is None else spread_name(sd)
    widths = np.diff(np.quantile(losses, tails, axis=0), axis=0)[0]
    weights = np.tile(weights, len(made))
    unit, forced = " and ".join(dict.fromkeys(one.unit for one in made)), any(one.forced for one in made)
    return Aim(np.log(losses), tuple(names), weights / weights.sum(), widths, kind, unit, forced)


def parameters_of(members: Sequence[Posterior]) -> dict[str, Array]:
    """Draws (S,) of the laws' parameters where they are nearest to normal: logarithms of positives, logits of shares."""
    found: dict[str, Array] = {}
    for member in members:
        if not isinstance(member, Fit):
            continue  # the draws of a stack have the parameters of one law each
        for name, parameter in member.law.parameters.items():
            values, support = member.draws[name], parameter.prior.support
            label = f"{member.name}.{name}" if len(members) > 1 else name
            found[label] = np.log(values) if support == "positive" else logit(values) if support == "unit" else values
    return found
