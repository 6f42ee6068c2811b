"""How much a posterior owes to its priors: power-scaling (Kallioinen et al. 2024, Statistics and Computing 34, 57).

The prior, then the likelihood, is raised to a power near one, by weights on the draws instead of another fit; the sensitivity is
the distance that a marginal moves (cumulative Jensen-Shannon), per doubling of the power.
"""

from __future__ import annotations

from collections.abc import Mapping

import arviz_stats as az
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayeslaw import noise as noises
from bayeslaw.laws import Law
from bayeslaw.noise import Noise

SENSITIVE = 0.05  # of the paper: a marginal moves as a normal one does whose mean is moved by about .3 sd


def log_prior(law: Law, noise: Noise, draws: Mapping[str, NDArray[np.float64]], at: Mapping[str, float]) -> NDArray[np.float64]:
    """Log density of the priors of law and noise at draws, arrays (S,), each prior on what it is stated on.

    Effects of runs and values that vary around a typical one are left out: their distribution is part of the model that the data
    speak about, not of what was believed.

    Parameters
    ----------
    at : mapping of covariate to float
        The runs' reference point, where priors with `on` are stated.
    """
    ones = {k: np.ones_like(draws[k]) if p.prior.on else draws[k] for k, p in law.parameters.items()}
    units = law.term_units(ones, at)
    total: NDArray[np.float64] = np.zeros_like(next(iter(draws.values())))
    levels = {name: draws[name] * units.get(name, 1.0) for name in law.parameters}
    for name, parameter in law.parameters.items():
        if parameter.around is None:
            total = total + parameter.prior.scipy.logpdf(levels[name])
    for name in noise.parameters:
        total = total + noises.prior(name).scipy.logpdf(draws[name] - noises.LEAST.get(name, 0.0))
    return total


def power_scaling(
    quantities: Mapping[str, NDArray[np.float64]], prior: NDArray[np.float64], likelihood: NDArray[np.float64]
) -> pd.DataFrame:
    """Sensitivity of quantities to prior and likelihood.

    Parameters
    ----------
    quantities : mapping of name to array (chains, draws)
    prior, likelihood : arrays (chains, draws)
        Their log densities at the draws, up to constants.

    Returns
    -------
    DataFrame
        One row for each quantity: prior_sensitivity, likelihood_sensitivity and `says`: 'possible prior-data conflict' where
        both reach `SENSITIVE`, 'weak likelihood' where the prior's alone does, else nothing.
    """
    dims = ("chain", "draw")
    names = list(quantities)
    stacked = np.stack([quantities[name] for name in names], axis=-1)
    groups = {
        "posterior": xr.Dataset({"quantity": ((*dims, "name"), stacked)}, coords={"name": names}),
        "log_prior": xr.Dataset({"all": (dims, prior)}),
        "log_likelihood": xr.Dataset({"all": (dims, likelihood)}),
    }
    tree = xr.DataTree.from_dict(groups)
    found = {group: az.psense(tree, group=group)["quantity"].values for group in ("prior", "likelihood")}
    table = pd.DataFrame({f"{k}_sensitivity": v for k, v in found.items()}, index=pd.Index(names, name="quantity"))
    by_prior, by_data = (table[f"{k}_sensitivity"] >= SENSITIVE for k in found)
    words = np.where(by_data, "possible prior-data conflict", "weak likelihood")
    return table.assign(says=np.where(by_prior, words, ""))
