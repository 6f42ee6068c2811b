"""Targets of a choice of runs: losses at settings, or draws of any other quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.core.intervals import quantiles
from bayeslaw.core.text import settings_text
from bayeslaw.data.columns import resolve
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.forecasting.discrepancy import spread_name
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.grid import Settings, as_settings, joint_grid
from bayeslaw.forecasting.stack import Posterior, laws_of
from bayeslaw.posterior.diagnostics import distrusted
from bayeslaw.posterior.fit import Fit


@dataclass(frozen=True, eq=False)
class Targets:
    """The quantities whose variance runs shall lower."""

    draws: Array  # log losses at settings, or the quantities that were given, such as the margins of a plan, (S, q)
    names: tuple[str, ...]
    weights: Array  # weights of their variances, which add up to 1, (q,)
    widths: Array  # widths of their equal-tailed intervals now, in `unit`, (q,)
    kind: str  # 'latent', 'extrapolated' with learnt errors of laws, 'discrepancy' with its sd, or 'target' for given quantities
    unit: str
    forced: bool  # whether failed checks were ignored


def targets_of(
    members: Sequence[Posterior],
    targets: Settings,
    discrepancy: float | str | None,
    ci_prob: float,
    seed: int,
    force: bool,
) -> Targets:
    """Return targets from a table of settings or from draws.

    Parameters
    ----------
    members, targets, discrepancy, ci_prob, force
        As in `bayeslaw.anchors`.
    seed : int
        Seed of the discrepancy; member i gets seed + i, so that the errors of two laws are independent.
    """
    targets = as_settings(targets)
    if isinstance(targets, Mapping) and not targets:
        raise BayeslawError("There are no targets.", code="no-targets")
    laws = laws_of(members)
    known = {"atpp", *(name for law in laws for name in (*law.measured, *law.levels))}
    if (
        isinstance(targets, Mapping)
        and any(name in known or resolve(name) for name in targets)
        and any(isinstance(v, str) or np.size(v) != members[0].size for v in targets.values())  # else they are draws
    ):
        targets = joint_grid(laws, targets)
    if isinstance(targets, Mapping):
        if not force and (failed := [m for m in members if not m.passed]):
            raise distrusted(f"Sampling of {failed[0].name}", failed[0].checks)
        draws = np.stack([_draws(name, values, members[0]) for name, values in targets.items()], axis=1)
        widths = np.diff(quantiles(draws, ci_prob, axis=0)[1:], axis=0)[0]
        forced = not all(m.passed for m in members)
        return Targets(draws, tuple(targets), np.full(len(targets), 1 / len(targets)), widths, "target", "", forced)
    runs = read_runs(targets)
    weights = _weights(runs)
    forecasts = [forecast(member, runs, discrepancy=discrepancy, seed=seed + i, force=force) for i, member in enumerate(members)]
    forced = any(f.forced for f in forecasts)  # a forecast with errors alone has fewer checks
    kind = "extrapolated" if any(f.beyond and f.is_outside.any() for f in forecasts) else "latent"
    kind = kind if (sd := forecasts[0].discrepancy) is None else spread_name(sd)
    forecasts = [f.with_errors if kind == "extrapolated" else f for f in forecasts]
    losses = np.hstack([f.expected(slice(None)).T for f in forecasts])
    names = [
        (f"{f.law}: " if len(forecasts) > 1 else "") + settings_text(row.to_dict(), 4)
        for f in forecasts
        for _, row in f.settings[[str(c) for c in f.outside]].astype(np.float64).iterrows()
    ]
    widths = np.diff(quantiles(losses, ci_prob, axis=0)[1:], axis=0)[0]
    weights = np.tile(weights, len(forecasts))
    unit = " and ".join(dict.fromkeys(f.unit for f in forecasts))
    return Targets(np.log(losses), tuple(names), weights / weights.sum(), widths, kind, unit, forced)


def _draws(name: str, values: ArrayLike, posterior: Posterior) -> Array:
    """Draws (S,) of a quantity, one for each draw of the posterior."""
    what = f"The target {name!r} is neither a covariate nor draws of a quantity"
    try:
        draws = np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise BayeslawError(f"{what}: {shortened(repr(values))} holds no numbers.", code="not-numbers") from None
    if draws.size != posterior.size:
        problem = f"{posterior.name} has {posterior.size} draws, and {name!r} {draws.size}; they can't be paired"
        raise BayeslawError(f"{what}: {problem}.", code="unpaired-draws")
    return draws


def _weights(runs: Runs) -> Array:
    if "weight" not in runs.frame:
        return np.ones(len(runs))
    weights = pd.to_numeric(runs.frame["weight"], errors="coerce").to_numpy(dtype=np.float64)
    if (bad := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))).size:
        row, value = int(runs.frame.index[bad[0]]), f"{weights[bad[0]]:g}"
        problem = f"weight {value} is missing or negative"
        raise TableError([Fault(row, "weight", value, problem, "give each target's weight", "bad-weight")], runs.name)
    if not weights.sum() > 0:
        raise BayeslawError(f"{runs.name}: all weights are 0; give at least one target a weight.", code="no-weights")
    return weights


def parameters_of(members: Sequence[Posterior], learned: bool) -> dict[str, Array]:
    """Draws (S,) of the laws' parameters on scales where they are nearest to normal: logs of positives, logits of shares
    and of what has bounds.

    With `learned` they are the draws of the posterior in which laws have errors, where these are learnt.
    """
    scaled: dict[str, Array] = {}
    for fit in members:
        if not isinstance(fit, Fit):
            continue  # draws of a stack come from several laws with different parameters
        member = (fit.extrapolation or fit) if learned else fit
        for name, parameter in member.law.parameters.items():
            label = f"{member.name}.{name}" if len(members) > 1 else name
            scaled[label] = parameter.prior.unconstrained(member.draws[name])
    return scaled
