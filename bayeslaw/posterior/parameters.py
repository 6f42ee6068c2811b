"""Meaning, symbol and unit of a fit's parameters, units of its covariates, and the pairs with the strongest correlation."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from bayeslaw.core.units import NATS
from bayeslaw.laws.formula import default_symbol, latex_text
from bayeslaw.noise.noise import GROUPED, MEANING, kind, meaning
from bayeslaw.posterior.fit import Fit


def describe_parameter(fit: Fit, name: str) -> tuple[str, str]:
    """Return the meaning and LaTeX symbol of a parameter of law or noise, with its group where each group has its own."""
    if name in fit.law.parameters:
        return fit.law.parameters[name].meaning, fit.law.parameters[name].latex
    if kind(name) not in MEANING:
        return "parameter of the point noise", default_symbol(name)
    words, symbol = meaning(name, fit.law.outcome), MEANING[kind(name)][1]
    if name == kind(name):
        return words, symbol
    group = name.partition("[")[2].removesuffix("]")
    return f"{words}: {fit.observed.group_column} {group}", rf"{symbol}^{{(\text{{{latex_text(group)}}})}}"


def parameter_unit(fit: Fit, name: str) -> str:
    """Return the unit of a parameter of law or noise.

    Noise of positive outcomes is relative and that of bounded ones in logits; of others it has the outcome's unit. An effect of
    runs on a covariate has the covariate's.
    """
    if name in fit.law.parameters:
        return in_unit_of_losses(fit, fit.law.parameters[name].unit)
    if fit.noise.shifts and kind(name) == "sigma_run":
        return in_unit_of_losses(fit, fit.law.covariates[fit.noise.shifts].unit)
    if fit.law.outcome.kind == "real" and kind(name) in (*GROUPED, "sigma_checkpoint", "run_excess"):
        return fit.unit
    return ""


def in_unit_of_losses(fit: Fit, unit: str) -> str:
    """Return a card's unit, which is for losses in nats/token, for the losses of a fit, fitted or a covariate of its law."""
    losses = fit.unit if fit.law.outcome.is_loss else str(fit.info.get("loss_unit", "")) or NATS
    return re.sub(r"\bnats\b(?!/)", losses.partition("/")[0], unit.replace(NATS, losses))


def correlated_pairs(fit: Fit, most: int = 6) -> pd.DataFrame:
    """Return the `most` pairs of parameters (one, other) with the strongest rank_correlation (Spearman), strongest first."""
    draws = {name: values for name, values in fit.draws.items() if np.ptp(values) > 0}
    names = list(draws)
    if len(names) < 2:
        return pd.DataFrame({"one": [], "other": [], "rank_correlation": []})
    correlation = np.corrcoef(np.stack([rankdata(draws[name]) for name in names]))
    rows = [(names[j], names[i], float(correlation[i, j])) for i in range(len(names)) for j in range(i)]
    table = pd.DataFrame(rows, columns=["one", "other", "rank_correlation"])
    order = table["rank_correlation"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order[:most]].reset_index(drop=True)
