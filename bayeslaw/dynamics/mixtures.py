"""A third domain: its loss as a combination of the losses of the two domains of a recipe (Wang et al. 2025, eq. 6).

The weights of the combination are fitted to losses that were measured at the same steps of the same runs (card `combination`).
Draws of the weights are then combined with draws of the two losses wherever these are forecast.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, holds_numbers
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.intervals import columns
from bayeslaw.core.units import unit_of
from bayeslaw.data.table import Runs
from bayeslaw.dynamics.optimise import combinable
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.planning.arguments import check_passed
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit, require_fits, require_single_fit

COVARIATES = ("L_source", "L_target")
KEYS = ("run", "step", "D", "r", "N", "ptpp", "phase", "parent", "checkpoint", "seed")


def combine(runs: Runs | pd.DataFrame, of: str | int, source: str | int, target: str | int) -> Runs:
    """Return the losses of a third domain with those of source and target as covariates, as the law `combination` takes them.

    Losses are matched by run and step. The unit and the known errors `loss_se` of the third domain are kept. Those of the other two
    domains are dropped, which `conversions` reports.

    Parameters
    ----------
    runs : Runs or DataFrame
        Losses with a column `domain`.
    of, source, target : str or int
        The domain to be described, and the two that describe it.

    Raises
    ------
    BayeslawError
        If a domain is missing ('unknown-domain'), has two losses at a step of a run ('duplicate-loss'), or no step of a run has
        losses of all three ('no-shared-steps'); a TableError if losses of the three domains are in several units.

    Examples
    --------
    >>> losses = pd.DataFrame({"run": "a", "step": [100] * 3, "domain": ["web", "code", "forum"], "loss": [3.0, 2.0, 2.7]})
    >>> bayeslaw.dynamics.combine(losses, "forum", "web", "code").frame[["loss", "L_source", "L_target"]].values.tolist()
    [[2.7, 3.0, 2.0]]
    """
    if not isinstance(runs, (Runs, pd.DataFrame)):
        raise BayeslawError(f"Losses of domains are Runs or a DataFrame, not the type {type(runs).__name__}.", code="not-a-table")
    if not isinstance(runs, Runs):  # not read as tables of runs are, since other domains may have losses in other units
        runs = Runs(runs.set_axis(pd.RangeIndex(1, len(runs) + 1, name="row"), axis=0), "the table")
    of, source, target = map(str, (of, source, target))  # domains may be numbers
    frame, names, domains = runs.frame, runs.name, (of, source, target)
    _check_domains(frame, names, domains)
    of_row = frame["domain"].astype(str)
    unit = {"unit": unit_of(frame[of_row.isin(domains)], names)} if "unit" in frame else {}
    by_domain = {domain: _losses(frame[of_row == domain], names, domain) for domain in domains}
    covariates = [by_domain[domain]["loss"].rename(name) for domain, name in zip((source, target), COVARIATES, strict=True)]
    table = pd.concat([by_domain[of], *covariates], axis=1, join="inner").reset_index()
    if not len(table):
        raise BayeslawError(
            f"{names}: no step of a run has losses of {', '.join(domains)}. Evaluate all three at the same steps.",
            code="no-shared-steps",
        )
    table.index = pd.RangeIndex(1, len(table) + 1, name="row")
    unmatched = sum(map(len, by_domain.values())) - 3 * len(table)
    notes = [f"{unmatched} losses have no partner at their step and are left out"] if unmatched else []
    if "loss_se" in frame and any((by_domain[domain]["loss_se"] > 0).any() for domain in (source, target)):
        notes.append(f"losses of {source} and {target} are taken as exact: their loss_se is left out")
    return Runs(table.assign(domain=of, **unit), names, (*runs.conversions, *notes))


def _check_domains(frame: pd.DataFrame, names: str, domains: tuple[str, str, str]) -> None:
    """Refuse a table without losses, domains or what tells rows apart, and domains that it does not have or that are the same."""
    if "domain" not in frame:
        raise BayeslawError(f"{names} has no column domain: add the domain of each loss.", code="missing-columns")
    known = [str(d) for d in frame["domain"].dropna().unique()]
    for domain in domains:
        if domain not in known:
            raise BayeslawError(
                f"{names} has no domain {domain!r}; it has {', '.join(known[:8])}.{nearest(domain, known)}", code="unknown-domain"
            )
    if len(set(domains)) < 3:
        raise BayeslawError(f"Give three different domains, not {', '.join(domains)}.", code="same-domain")
    if "loss" not in frame or not holds_numbers(frame["loss"]):
        raise BayeslawError(f"{names} has no column loss with numbers: name it loss, and give numbers.", code="missing-columns")
    if not any(c in frame for c in KEYS):
        raise BayeslawError(f"{names} has neither run nor step: add them to match losses of a model.", code="missing-columns")


def _losses(frame: pd.DataFrame, names: str, domain: str) -> pd.DataFrame:
    """Return the losses of a domain, and their known errors, by what tells rows apart; two at one place are refused."""
    keys, rows = [c for c in KEYS if c in frame], frame[frame["loss"].notna()]
    if (duplicated := rows.duplicated(keys)).any():
        row = rows.index[duplicated][0]
        place = ", ".join(f"{c} = {rows.at[row, c]!s}" for c in keys)
        raise BayeslawError(f"{names}, row {row}: {domain} has a second loss at {place}. Keep one.", code="duplicate-loss")
    return rows.set_index(keys)[[c for c in ("loss", "loss_se") if c in frame]]


def combination_draws(
    weights: Fit, source: Posterior, target: Posterior, at: pd.DataFrame | Runs, *, seed: int = 0, force: bool = False
) -> Array:
    """Return draws (S, n) of the expected loss of a third domain at settings of the other two.

    Draws of the two losses are paired by number. If there are fewer draws of the weights, they are paired with evenly spaced draws
    of the losses, which come from all chains and from all laws of a stack.

    Parameters
    ----------
    weights : Fit
        Fit of the law `combination`.
    source, target : Fit or Stack
        Fits of the losses of the two domains, with as many draws each; at most one is a stack.
    at : DataFrame or Runs
        Settings for the laws of both domains.
    seed, force : int, bool
        Seed of the pairing; whether to go on in spite of failed checks.

    Raises
    ------
    BayeslawError
        If `weights` is a fit of another law ('not-a-combination'), losses are in several units ('several-units'), draws can't be
        paired ('unpaired-draws'), or checks failed ('failed-checks').

    Examples
    --------
    >>> source, target = bayeslaw.load_fit("dynamics_source.nc"), bayeslaw.load_fit("dynamics_target.nc")
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=8000,peak=2e-4,warmup=200", "cosine:steps=2000,peak=2e-4")
    >>> weights = bayeslaw.load_fit("combination.nc")
    >>> bayeslaw.dynamics.combination_draws(weights, source, target, recipe.rows([500, 1000, 2000])).shape
    (1200, 3)
    """
    require_fits(weights)
    if set(require_single_fit(weights, "A combination of losses").law.measured) != set(COVARIATES):
        message = f"{weights.law.name} does not combine two losses: give a fit of the law combination."
        raise BayeslawError(message, code="not-a-combination")
    check_passed(weights, force)
    (source, target), draws = combinable(source, target, force=force)
    if source.unit != weights.unit:
        message = f"{weights.name} has losses in {weights.unit}, source and target in {source.unit}: convert them with "
        raise BayeslawError(message + "`bayeslaw convert` and fit again.", code="several-units")
    runs = at if isinstance(at, Runs) else Runs(at, "the settings")
    forecasts = (forecast(p, runs, discrepancy="none", seed=seed, force=force) for p in (source, target))
    source_loss, target_loss = (result.expected(slice(None)).T for result in forecasts)
    size = min(draws, weights.size)
    chosen = np.random.default_rng(seed).permutation(weights.size)[:size]
    even = np.linspace(0, draws - 1, size).round().astype(np.int64)
    return LawDraws(weights.law, weights.draws).outcome(
        {"L_source": source_loss[even], "L_target": target_loss[even]}, chosen, axes=1
    )


def combination_table(draws: Array, at: pd.DataFrame, ci_prob: float = 0.9, *, failed: bool = False) -> pd.DataFrame:
    """Return the step, the median and the equal-tailed interval of draws of the third domain's loss.

    Parameters
    ----------
    draws, at : array (S, n), DataFrame
        Draws of `combination_draws`, and their settings with a column step.
    ci_prob, failed : float, bool
        Whether failed checks were forced, which the column `checks` then says.
    """
    return at[["step"]].reset_index(drop=True).assign(**columns(draws, ci_prob, "latent"), checks=checks_label(failed))
