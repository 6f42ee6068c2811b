"""A third domain: its loss as a combination of the two that a law of the dynamics describes (Wang et al. 2025, eq. 6).

The weights are fitted to losses measured at the same steps of the same runs (card `combination`); draws of them then go with draws
of the two losses wherever these are forecast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bayeslaw.core import intervals
from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, FitError, nearest
from bayeslaw.core.units import unit_of
from bayeslaw.data.table import Runs
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Posterior, check_pairing
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit

WITH = ("L_source", "L_target")
KEYS = ("run", "step", "D", "r", "N", "ptpp", "phase", "parent", "checkpoint", "seed")


def combine(runs: Runs | pd.DataFrame, of: str, source: str, target: str) -> Runs:
    """Losses of one domain beside those of two others at the same steps of the same runs, as the law `combination` takes them.

    Their unit and the known errors of the domain described, columns `unit` and `loss_se`, stay with them. Errors of the other two,
    which become covariates, are left out; the conversions say so.

    Parameters
    ----------
    runs : Runs or DataFrame
        Losses with a column `domain`.
    of, source, target : str
        The domain to be described, and the two that describe it.

    Raises
    ------
    BayeslawError
        If a domain is missing, has two losses at one step of a run, or no step has all three.
    TableError
        If losses of the three are in several units.
    """
    made = runs if isinstance(runs, Runs) else Runs(runs, "the table")
    frame = made.frame
    if "domain" not in frame:
        raise BayeslawError(f"{made.name} has no column domain: it does not say which losses are of which domain.")
    known = [str(d) for d in frame["domain"].dropna().unique()]
    for name in (of, source, target):
        if name not in known:
            raise BayeslawError(f"{made.name} has no domain {name!r}; it has {', '.join(known[:8])}.{nearest(name, known)}")
    if len({of, source, target}) < 3:
        raise BayeslawError(f"Give three domains: {of!r} can't be described by itself.")
    keys = [c for c in KEYS if c in frame]
    if not keys:
        raise BayeslawError(f"{made.name} has neither run nor step: losses of one model can't be told to belong together.")
    told = {"unit": unit_of(frame[frame["domain"].isin([of, source, target])], made.name)} if "unit" in frame else {}
    parts = {}
    for name in (of, source, target):
        part = frame[frame["domain"] == name]
        if (twice := part.duplicated(keys)).any():
            row = part.index[twice][0]
            shown = ", ".join(f"{c} = {part.at[row, c]!s}" for c in keys)
            raise BayeslawError(f"{made.name}, row {row}: {name} has a second loss at {shown}.")
        parts[name] = part.set_index(keys)[[c for c in ("loss", "loss_se") if c in frame]]
    two = [parts[name]["loss"].rename(column) for name, column in zip((source, target), WITH, strict=True)]
    table = pd.concat([parts[of], *two], axis=1, join="inner").reset_index()
    if not len(table):
        raise BayeslawError(f"{made.name}: no step of a run has losses of {of}, {source} and {target}.")
    table.index = pd.RangeIndex(1, len(table) + 1, name="row")
    lost = sum(len(p) for p in parts.values()) - 3 * len(table)
    said = [f"{lost} losses have no partner at their step and are left out"] if lost else []
    if "loss_se" in frame and any((parts[name]["loss_se"] > 0).any() for name in (source, target)):
        said.append(f"losses of {source} and {target} are taken as exact: their loss_se is left out")
    return Runs(table.assign(domain=of, **told), made.name, (*made.conversions, *said))


def combination_draws(
    weights: Fit, source: Posterior, target: Posterior, at: pd.DataFrame | Runs, *, seed: int = 0, force: bool = False
) -> Array:
    """Draws (S, n) of the third domain's expected loss at settings of the other two.

    Draws of the two losses are taken together by their numbers. Where the weights have fewer, they go with evenly spaced ones,
    which are of all laws of a stack and of all chains.

    Parameters
    ----------
    weights : Fit
        Of the law `combination`.
    source, target : Fit or Stack
        Fits of the two domains' losses, with as many draws each; one stack at most.
    at : DataFrame or Runs
        Settings as both laws take them.
    seed : int
        By which draws of the weights are paired with those of the losses.

    Raises
    ------
    FitError
        If checks of a fit or forecast failed.
    BayeslawError
        If `weights` is a fit of another law, losses are in several units, or draws of the two can't be paired.
    """
    if set(weights.law.measured) != set(WITH):
        raise BayeslawError(
            f"{weights.law.name} is no combination of two losses: its covariates are {', '.join(weights.law.measured)}."
        )
    if not (weights.passed or force):
        raise FitError(
            f"The checks of {weights.name} failed ({weights.failures}): nothing is said by it. Sample longer, or force it."
        )
    own, others = weights.unit, {source.unit, target.unit}
    if others != {own}:
        raise BayeslawError(
            f"{weights.name} is fitted to losses in {own}, those that it combines are in {' and '.join(sorted(others))}: bring all "
            "to one unit by `bayeslaw convert` and fit them again."
        )
    runs = at if isinstance(at, Runs) else Runs(at, "the settings")
    sizes = [sum(chosen.size for _, chosen in one.selections) for one in (source, target)]
    check_pairing(
        (source, target), sizes,
        f"The draws of the two losses are unpaired: {sizes[0]:,} and {sizes[1]:,}. Fit both with the same number of draws.",
        " Combine a stack and a fit.",
    )  # fmt: skip
    both = [forecast(p, runs, seed=seed, force=force).expected(slice(None)).T for p in (source, target)]
    known = next(iter(weights.draws.values())).size
    size = min(sizes[0], known)
    chosen = np.random.default_rng(seed).permutation(known)[:size]
    even = np.linspace(0, sizes[0] - 1, size).round().astype(np.int64)
    return LawDraws(weights.law, weights.draws).loss({"L_source": both[0][even], "L_target": both[1][even]}, chosen, axes=1)


def combination_table(
    draws: Array, at: pd.DataFrame, ci_prob: float = 0.9, columns: Sequence[str] = ("step",), *, failed: bool = False
) -> pd.DataFrame:
    """Median and equal-tailed interval of draws (S, n), beside columns of their settings; `failed` marks what was forced."""
    table = at[[c for c in columns if c in at]].reset_index(drop=True)
    return table.assign(**intervals.columns(draws, ci_prob, "latent"), checks=checks_label(failed))
