"""A fit as ArviZ and PyMC take it: draws of the PyMC model's variables, densities, predictive draws and data, by groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import numpy as np
import xarray as xr

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, nearest, shown, whole_number
from bayeslaw.core.streams import Stream
from bayeslaw.laws.law import Law
from bayeslaw.noise.model import pools
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import GROUPS, Fit, Group, Per, values_of
from bayeslaw.posterior.sensitivity import log_priors

SAMPLE = ("chain", "draw")
Variables = dict[str, tuple[tuple[str, ...], Array]]
"""Names of variables, with the names of their dimensions after those of draws and their values (S, …)."""


def datatree(fit: Fit, groups: Iterable[Group], per: Per, seed: int) -> xr.DataTree:
    """Return the groups of a fit.

    Parameters
    ----------
    fit, groups, per, seed
        As in `Fit.to_datatree`.
    """
    if not isinstance(groups, Iterable):
        problem = f"groups are names such as ['posterior', 'log_likelihood'], not {shown(groups)}; there are {', '.join(GROUPS)}."
        raise BayeslawError(problem, code="not-a-list")
    chosen = (groups,) if isinstance(groups, str) else tuple(groups)
    for name in chosen:
        if name not in GROUPS:
            message = f"There is no group {name!r}; groups are {', '.join(GROUPS)}.{nearest(str(name), GROUPS)}"
            raise BayeslawError(message, code="unknown-group")
    if per not in get_args(Per):
        raise BayeslawError(f"per is {per!r}; log likelihoods are per 'run' or per 'row'.", code="unknown-unit")
    seed = whole_number("seed", seed, 0)
    tree_groups = {
        "posterior": lambda: _posterior(fit),
        "log_likelihood": lambda: _log_likelihood(fit, per),
        "log_prior": lambda: _log_prior(fit),
        "prior": lambda: _prior(fit, seed),
        "posterior_predictive": lambda: _replicated(fit, seed),
    }
    tree: dict[str, xr.Dataset] = {}
    for name in GROUPS:
        if name in chosen:
            group = tree_groups[name]() if name in tree_groups else fit.tree[name].to_dataset().copy(deep=True)
            # `az.plot_trace` and others know the chains by their numbers.
            tree[name] = group.assign_coords({dim: np.arange(group.sizes[dim]) for dim in SAMPLE if dim in group.dims})
    return xr.DataTree.from_dict(tree)


def variables(law: Law, noise: Noise, draws: Mapping[str, Array], at: Mapping[str, float]) -> Variables:
    """Return the free variables of the PyMC model, and those of the law's and noise's parameters that are computed from them.

    Parameters
    ----------
    law, noise : Law and Noise
    draws : mapping of parameter to array (S,)
    at : mapping of covariate to float
        The runs' reference point, where priors with `on` are stated.
    """
    levels, of_model = law.stated_at(draws, at), Variables()
    pool_of = {pool.members[0]: pool for pool in pools(law)}
    for name, parameter in law.parameters.items():
        if parameter.around is None:
            of_model |= {f"{name}_level": ((), levels[name])} if name in levels else {}
            of_model[name] = ((), draws[name])
        elif (pool := pool_of.get(name)) is not None:
            for of_pool, values in {pool.free: levels if pool.on else draws, pool.name: draws}.items():
                of_model[of_pool] = ((pool.dim,), np.stack([values[member] for member in pool.members], axis=-1))
    for name in noise.parameters:
        of_model[noise.free(name)] = ((), draws[name] - noise.least(name))
        of_model[name] = ((), draws[name])
    return of_model


def _dataset(fit: Fit, variables: Variables, shape: tuple[int, int]) -> xr.Dataset:
    """Return variables of joined draws (S, …) by chains and draws, copies that users may change."""
    coords: dict[str, Any] = {pool.dim: list(pool.values) for pool in pools(fit.law)}
    coords |= {"run": list(fit.observed.run_names), "row": fit.observed.rows}
    used = {dim for dims, _ in variables.values() for dim in dims}
    arrays = {k: ((*SAMPLE, *dims), values.reshape(*shape, *values.shape[1:]).copy()) for k, (dims, values) in variables.items()}
    return xr.Dataset(arrays, coords={dim: names for dim, names in coords.items() if dim in used})


def _effects(fit: Fit) -> dict[str, Array]:
    """Run effects (S, R) in units of sigma_run, where they are parameters."""
    if not fit.noise.explicit_effects:
        return {}
    stored = values_of(fit.tree, "posterior", "run_effect").reshape(-1, fit.observed.runs)
    return {"run_effect": stored / fit.noise.scales(fit.draws, "sigma_run")[fit.noise.groups_of(fit.observed)].T}


def _posterior(fit: Fit) -> xr.Dataset:
    of_model = variables(fit.law, fit.noise, fit.draws, fit.observed.at)
    of_model |= {name: (("run",), values) for name, values in _effects(fit).items()}
    return _dataset(fit, of_model, fit.shape)


def _prior(fit: Fit, seed: int) -> xr.Dataset:
    return _dataset(fit, variables(fit.law, fit.noise, fit.prior_draws(fit.size, seed), fit.observed.at), (1, fit.size))


def _log_prior(fit: Fit) -> xr.Dataset:
    """Log densities of the free variables' priors at the posterior's draws."""
    of_law, of_noise = log_priors(fit.law, fit.noise, fit.draws, fit.observed.at)
    densities: Variables = {}
    for name, values in of_law.items():
        densities[f"{name}_level" if fit.law.parameters[name].prior.on else name] = ((), values)
    densities |= {fit.noise.free(name): ((), values) for name, values in of_noise.items()}
    return _dataset(fit, densities, fit.shape)


def _log_likelihood(fit: Fit, per: Per) -> xr.Dataset:
    if per == "run":
        return xr.Dataset({fit.law.outcome.observed: fit.log_likelihood()})
    shifted = fit.at_effects(fit.observed, fit.draws)
    values = fit.noise.row_log_likelihood(fit.residual, fit.observed, fit.draws | _effects(fit), shifted=shifted)
    return _dataset(fit, {fit.law.outcome.observed: (("row",), values)}, fit.shape)


def _replicated(fit: Fit, seed: int) -> xr.Dataset:
    """Responses at the fitted settings, drawn as the PyMC model draws them."""
    observed, draws, noise, outcome = fit.observed, fit.draws, fit.noise, fit.law.outcome
    mean = outcome.to_scale(fit.law.predict(draws, observed.covariates))
    row, seeds = np.arange(observed.run.size), (seed, Stream.REPLICATED)
    effects, run = _effects(fit), observed.run
    if effects:  # they are parameters, so the fitted runs keep theirs
        scale = noise.scales(draws, "sigma_run")[noise.groups_of(observed)].T
        of_rows, run = (scale * effects["run_effect"])[:, run], np.full(run.size, -1)
        mean = outcome.to_scale(fit.at_effects(observed, draws)(of_rows)) if noise.shifts else mean + of_rows
    drawn = noise.sample(
        draws,
        run,
        row,
        seeds,
        checkpoint=observed.checkpoint[observed.run],
        group=noise.row_groups(observed),
        time=observed.time if noise.drift else None,
        known=observed.se if observed.se.size else None,
    )
    values = mean + drawn.T
    if noise.counts:
        values = noise.count(outcome.from_scale(values).T, observed.items, draws, row, seeds, noise.row_groups(observed)).T
    return _dataset(fit, {outcome.observed: (("row",), values)}, fit.shape)
