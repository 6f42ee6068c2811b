"""Sensitivity of a posterior to its priors by power-scaling (Kallioinen et al. 2024, Statistics and Computing 34, 57).

The law's priors, the noise's priors and the likelihood are each raised to a power near one by weights on the draws, without a new
fit. The sensitivity is the distance that a marginal moves (cumulative Jensen-Shannon) per doubling of the power.

Priors of law and noise are scaled separately: the prior of run effects is narrow on purpose, and scaled together with it nearly
every quantity would get a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import row_ranges
from bayeslaw.core.text import counted
from bayeslaw.laws.law import Law
from bayeslaw.laws.outcome import Outcome
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import Check

CONFLICT, WEAK = "possible prior-data conflict", "weak likelihood"
POWERS = (0.99, 1.01)  # to which a density is raised, as in ArviZ
SENSITIVE = 0.05  # the paper's threshold: a marginal moves as much as a normal one whose mean is moved by about `MOVED` sd
MOVED = 0.3


def forecast_sensitivity_check(sensitivity: pd.DataFrame, settings: int, outcome: Outcome) -> Check:
    """Check that the priors of the law don't decide a forecast.

    Parameters
    ----------
    sensitivity : DataFrame
        `power_scaling` of the latent loss at some settings, by their rows' numbers.
    settings : int
        Number of settings of the whole forecast.
    outcome : Outcome
    """
    decided = sensitivity[sensitivity["says"].isin([CONFLICT, WEAK])]
    some = "" if len(sensitivity) == settings else " that bracket all"
    text = f"the runs and not the priors decide the latent {outcome.name} at {counted(len(sensitivity), 'setting')}{some}"
    if len(decided):
        largest = sensitivity["prior_sensitivity"].max()
        moves = "moves it farther than these draws can show"
        if np.isfinite(largest):
            moves = f"moves it by up to some {MOVED * largest / SENSITIVE:.1f} sd"
            moves += f" (sensitivity {largest:.3g}, less than {SENSITIVE:g} wanted)"
        text = (
            f"the priors have a say in the latent {outcome.name} at {len(decided)} of {len(sensitivity)} settings{some} "
            f"({row_ranges(decided.index)}): doubling their weight {moves}"
        )
    advice = "Buy runs nearer to these settings, or make sure of the priors"
    return Check("priors", not len(decided), text, "model", sensitivity, advice)


def log_priors(
    law: Law, noise: Noise, draws: Mapping[str, Array], at: Mapping[str, float]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return log densities (S,) of the priors of the law's parameters, and of those of the noise, at draws.

    Run effects and pooled values are left out: the data inform their distribution, so it is part of the model, not a prior.

    Parameters
    ----------
    law, noise
    draws : mapping of parameter to array (S,)
    at : mapping of covariate to float
        The runs' reference point, where priors with `on` are stated.
    """
    levels = law.stated_at(draws, at)
    stated = {name: p.prior for name, p in law.parameters.items() if p.around is None}
    of_law = {name: np.asarray(prior.scipy.logpdf(levels.get(name, draws[name]))) for name, prior in stated.items()}
    above = {name: draws[name] - noise.least(name) for name in noise.parameters}
    return of_law, {name: np.asarray(noise.prior(name).scipy.logpdf(values)) for name, values in above.items()}


def power_scaling(quantities: Mapping[str, Array], prior: Array, noise_prior: Array, likelihood: Array) -> pd.DataFrame:
    """Return the sensitivity of quantities to the priors of the law, those of the noise, and the likelihood.

    Parameters
    ----------
    quantities : mapping of name to array (chains, draws)
    prior, noise_prior, likelihood : arrays (chains, draws) of their log densities at the draws, up to constants

    Returns
    -------
    DataFrame
        One row for each quantity: prior_sensitivity, noise_prior_sensitivity, likelihood_sensitivity and `says`:
        'possible prior-data conflict' where both the law's priors and the likelihood reach `SENSITIVE`, 'weak likelihood' where
        only the law's priors do, 'prior of the noise' where only the noise's priors do, else ''.
    """
    stacked = np.stack(list(quantities.values()))
    table = pd.DataFrame(index=pd.Index(list(quantities), name="quantity"))
    movable = np.ptp(stacked, axis=(1, 2)) > 0  # a quantity that is the same in all draws moves with nothing
    for column, log_density in {"prior": prior, "noise_prior": noise_prior, "likelihood": likelihood}.items():
        moved: Array | float = 0.0
        if np.ptp(log_density) > 1e-9 and movable.any():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # on the tails of weights of draws that hardly differ in density
                try:
                    moved = _moved(stacked[movable], log_density)
                except ValueError:  # of ArviZ, where a few draws far out have all the weight: no sensitivity is larger
                    moved = np.inf
        table[f"{column}_sensitivity"] = 0.0
        table.loc[movable, f"{column}_sensitivity"] = moved
    by_prior, by_noise, by_data = (table[column] >= SENSITIVE for column in table)
    words = [(by_prior & by_data, CONFLICT), (by_prior, WEAK), (by_noise, "prior of the noise")]
    return table.assign(says=np.select([where for where, _ in words], [word for _, word in words], ""))


def _moved(quantities: Array, log_density: Array) -> Array:
    """Return the sensitivity (m,) of quantities (m, chains, draws) to a density, as `arviz_stats.psense` computes it.

    Its functions of arrays are called, since labels of draws that are then summed over take half of its time.
    """
    from arviz_stats.base import array_stats  # slow to import

    weights = [np.exp(array_stats.power_scale_lw(log_density, alpha=alpha, axis=(-2, -1))) for alpha in POWERS]
    low, high = (np.broadcast_to(w / w.sum(), quantities.shape) for w in weights)
    return np.asarray(array_stats.power_scale_sense(quantities, low, high, *POWERS))
