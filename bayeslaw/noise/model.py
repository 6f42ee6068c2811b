"""The generative model of a law as an ordinary `pm.Model`, to read, draw from, change or sample by hand.

`bayeslaw.fit` samples this log density in coordinates of its own (`bayeslaw.engine`): the formula and the density of normal noise
are the same code, and a test shows that the two densities are equal up to a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.observations import Observations, clock_column
from bayeslaw.data.table import Table, read_runs
from bayeslaw.laws.card import load_law
from bayeslaw.laws.formula import pytensor_functions
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_levels
from bayeslaw.noise import counts
from bayeslaw.noise import noise as noises
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.density import Rows, data_of, log_density
from bayeslaw.noise.noise import Noise

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class Pool:
    """The values of one parameter for all values of a column, which are one variable of the PyMC model.

    Attributes
    ----------
    typical, dim : str
        The parameter around which they vary, and the name of their dimension: the column's, unless that is taken.
    members, values : tuple of str
        Names of the law's parameters, and the values of the column, in the same order.
    on : bool
        Priors are on the values of their terms at the runs' reference point.
    """

    typical: str
    dim: str
    members: tuple[str, ...]
    values: tuple[str, ...]
    on: bool

    @property
    def free(self) -> str:
        """Name of the free variable."""
        return f"{self.typical}_level_by_{self.dim}" if self.on else self.name

    @property
    def name(self) -> str:
        """Name of the parameters' values together."""
        return f"{self.typical}_by_{self.dim}"


def pools(law: Law) -> list[Pool]:
    """Return the parameters of a law that are pooled by a column, one pool for each typical value."""
    within: dict[str, dict[str, tuple[str, str]]] = {}
    for name, parameter in law.parameters.items():
        if parameter.around is not None and parameter.within is not None:
            within.setdefault(parameter.around[0], {})[name] = parameter.within
    taken, pooled = {"row", "run", "chain", "draw", *law.covariates, *law.parameters}, []
    for typical, members in within.items():
        column = next(iter(members.values()))[0]
        dim = f"{column}_value" if column in taken else column
        on = law.parameters[typical].prior.on is not None
        pooled.append(Pool(typical, dim, tuple(members), tuple(value for _, value in members.values()), on))
    return pooled


def pymc_model(
    law: Law | str | Path,
    runs: Table | Observations,
    noise: str | Noise = "auto",
    noise_by: str | None = None,
) -> pm.Model:
    """Build the PyMC model of a law on logged losses.

    Parameters
    ----------
    law : Law, name or path of a card
        Parameters that vary by a column get a typical value, a spread and a value for each value of the column. With
        observations, the law is the one that `pooling.with_levels` returns.
    runs : Runs, DataFrame, path or Observations
    noise, noise_by : str
        As for `bayeslaw.fit`, or with the observations of a fit its noise. 'normal-drift' has a covariance of all rows, n x n: for
        some thousand rows at most.

    Returns
    -------
    pymc.Model
        Free variables are the law's parameters (``A_level`` where the prior is on the term's value at the runs' reference point,
        with ``A`` a deterministic) and those of the noise (``dof_above_2`` with ``dof``). The response is observed, sorted by run:
        ``log_loss``, or what `Outcome.observed` calls it. The values of a parameter that varies by a column are one variable with
        that column as its dimension (``E_by_domain``).

    Examples
    --------
    >>> model = bayeslaw.pymc_model(bayeslaw.load_law("chinchilla"), bayeslaw.read_runs("runs.csv"))
    >>> [variable.name for variable in model.free_RVs][:3]
    ['E', 'A_level', 'alpha']
    """
    import pymc as pm

    law, observed, noise = _arguments(law, runs, noise, noise_by)
    pooled = pools(law)
    coords = {"row": observed.rows, "run": np.array(observed.run_names)} | {pool.dim: list(pool.values) for pool in pooled}
    with pm.Model(coords=coords) as model:
        covariates = {name: pm.Data(name, observed.covariates[name], dims="row") for name in law.measured}
        _add_losses(law, observed, noise, covariates, *_add_parameters(law, observed, pooled))
    return model


def _arguments(
    law: Law | str | Path, runs: Table | Observations, noise: str | Noise, noise_by: str | None
) -> tuple[Law, Observations, Noise]:
    """Read the arguments of `pymc_model`, of which a table of runs may need a law with levels of its own."""
    law = load_law(law)
    if isinstance(runs, Observations):
        if noise_by is not None:
            message = f"Observations have their groups of noise already: give the table of runs with noise_by={noise_by!r}."
            raise BayeslawError(message, code="noise-by-of-observations")
        return law, runs, noise if isinstance(noise, Noise) else Noise.choose(noise, runs)
    if isinstance(noise, Noise):
        message = "The noise of a fit goes with the rows it was fitted to: give pymc_model(fit.law, fit.observed, fit.noise)."
        raise BayeslawError(message, code="noise-without-observations")
    runs = read_runs(runs)
    law = with_levels(law, levels_of(law, runs.frame))
    noise = noises.resolved(noise, law, runs)
    observed = Observations.of(law, runs, noise_by, clock_column(runs.frame, law) if noise == noises.DRIFT else "")
    return law, observed, Noise.choose(noise, observed)


def _add_parameters(law: Law, observed: Observations, pooled: list[Pool]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Add the parameters of a law, and return their values, and the vectors of those that have a value for each level."""
    import pymc as pm
    import pytensor.tensor as pt

    values: dict[str, Any] = {}
    of_levels: dict[str, Any] = {}
    for name, parameter in law.parameters.items():
        if parameter.around is None:
            values[name] = parameter.prior.pymc(f"{name}_level" if parameter.prior.on else name)
            if parameter.of and name == law.members[parameter.of][-1]:  # values that are not pooled
                of_levels[parameter.of] = pt.stack([values[member] for member in law.members[parameter.of]])
        elif parameter.of not in of_levels:
            pool = next(pool for pool in pooled if pool.typical == parameter.of)
            of_levels[parameter.of] = _around(pool, parameter.prior.support, *(values[k] for k in parameter.around))
    relative = {k for k, p in law.in_formula.items() if p.prior.on}
    ones, of_ones = ({k: 1.0 if k in relative else v for k, v in d.items()} for d in (values, of_levels))
    units, units_of_levels = law.units(ones, of_ones, observed.at, pytensor_functions())
    values |= {name: pm.Deterministic(name, values[name] / unit) for name, unit in units.items()}
    for pool in pooled:
        if pool.on:
            value = of_levels[pool.typical] / units_of_levels[pool.typical]
            of_levels[pool.typical] = pm.Deterministic(pool.name, value, dims=pool.dim)
    return values, of_levels


def _add_losses(
    law: Law,
    observed: Observations,
    noise: Noise,
    covariates: dict[str, Any],
    values: Mapping[str, Any],
    of_levels: Mapping[str, Any],
) -> None:
    """Add the scales of the noise, the law's outcome at each row, and the observed ones.

    Parameters
    ----------
    law, observed, noise
    covariates : mapping of name to vector (n,)
    values, of_levels
        Of the law's parameters; see `_add_parameters`.
    """
    import pymc as pm
    import pytensor.tensor as pt

    functions, scales = pytensor_functions(), _add_scales(noise)
    point, run = (_by_row(noise, observed, scales, name) for name in noises.GROUPED)
    effect = run * pm.Normal("run_effect", 0, 1, dims="run")[observed.run] if noise.explicit_effects else 0.0
    if noise.shifts:
        covariates = covariates | {noise.shifts: covariates[noise.shifts] + effect}
    at_rows = {name: value[law.level_codes(law.column_of[name], observed.covariates)] for name, value in of_levels.items()}
    value = law.formula_at({**values, **at_rows, **covariates}, functions)
    expected = pm.Deterministic(law.outcome.name, value + pt.zeros(observed.response.size), dims="row")
    mean, variance = law.outcome.to_scale(expected, functions), point**2 + observed.known
    of_rows: dict[str, Any] = {"observed": observed.response, "dims": "row"}
    if isinstance(noise, PointNoise):
        _own_noise(mean, scales, observed, noise)
    elif noise.counts:
        _counts(mean if noise.shifts else mean + effect, point, observed)
    elif noise.student:
        pm.StudentT(law.outcome.observed, nu=scales["dof"], mu=mean + effect, sigma=pt.sqrt(variance), **of_rows)
    elif noise.drift:
        same = observed.run[:, None] == observed.run[None, :]
        steps = np.abs(observed.time[:, None] - observed.time[None, :])
        effects = run[:, None] ** 2 * same * pt.exp(-np.where(same, steps, 0.0) / scales["drift"])
        pm.MvNormal(law.outcome.observed, mean, cov=effects + pt.diag(variance), **of_rows)
    elif noise.run_effect or noise.checkpoint_effect or noise.skew:
        _normal_with_effects(mean, scales, observed, noise)
    else:  # densities of single rows, which `pm.compute_log_likelihood` returns
        pm.Normal(law.outcome.observed, mean, pt.sqrt(variance), **of_rows)


def _add_scales(noise: Noise) -> dict[str, Any]:
    """Add the parameters of the noise."""
    import pymc as pm

    scales: dict[str, Any] = {}
    for name in noise.parameters:
        above, least = noise.prior(name).pymc(noise.free(name)), noise.least(name)
        scales[name] = pm.Deterministic(name, least + above) if least else above
    return scales


def _counts(eta: Any, spread: Any, observed: Observations) -> None:
    """Add shares of counted items with logits eta of their expectations."""
    import pymc as pm
    import pytensor.tensor as pt

    items = pt.as_tensor(observed.items)

    def logp(value: Any, eta: Any, spread: Any) -> Any:
        (a, b, phi), k = counts.shape(pt.sigmoid(eta), spread), value * items
        above = pt.gammaln(k + a) + pt.gammaln(items - k + b) - pt.gammaln(items + phi)
        return above - pt.gammaln(a) - pt.gammaln(b) + pt.gammaln(phi)

    def dist(eta: Any, spread: Any, size: Any) -> Any:
        a, b, _ = counts.shape(pt.sigmoid(eta), spread)
        return pm.BetaBinomial.dist(n=pt.round(items).astype("int64"), alpha=a, beta=b, size=size) / items

    pm.CustomDist(observed.outcome.observed, eta, spread, logp=logp, dist=dist, observed=observed.response, dims="row")


def _own_noise(mean: Any, scales: Mapping[str, Any], observed: Observations, noise: PointNoise) -> None:
    """Add point noise with a log density given by a function."""
    import pymc as pm
    import pytensor.tensor as pt

    known = pt.as_tensor(observed.known) if observed.se.size else None

    def logp(value: Any, mean: Any, *parameters: Any) -> Any:
        return noise.of_points(value - mean, known, dict(zip(noise.parameters, parameters, strict=True)))

    values = [scales[n] for n in noise.parameters]
    pm.CustomDist(observed.outcome.observed, mean, *values, logp=logp, observed=observed.response, dims="row")


def _by_row(noise: Noise, observed: Observations, scales: Mapping[str, Any], name: str) -> Any:
    """A scale of noise for every row, a vector (…, n); zeros where the noise has no such parameter."""
    import pytensor.tensor as pt

    of_groups = [scales[n] for n in noise.parameters if noises.kind(n) == name]
    rows = noise.row_groups(observed) if len(of_groups) > 1 else np.zeros(observed.run.size, dtype=np.int64)
    return pt.stack(of_groups, axis=-1)[..., rows] if of_groups else pt.zeros(rows.size)


def _around(pool: Pool, support: str, typical: Any, spread: Any) -> Any:
    """Values that vary around a typical one, by their logarithm, their logit or themselves."""
    import pymc as pm
    import pytensor.tensor as pt

    match support:
        case "positive":
            return pm.LogNormal(pool.free, pt.log(typical), spread, dims=pool.dim)
        case "unit":
            # PyMC gives LogitNormal no transform of its own accord.
            transform = pm.distributions.transforms.logodds
            middle = pt.log(typical) - pt.log1p(-typical)
            return pm.LogitNormal(pool.free, middle, spread, default_transform=transform, dims=pool.dim)
        case _:
            return pm.Normal(pool.free, typical, spread, dims=pool.dim)


def _normal_with_effects(mean: Any, scales: Mapping[str, Any], observed: Observations, noise: Noise) -> None:
    """Add normal noise with effects integrated out (see `density`) as one observed variable that can also be drawn from."""
    import pymc as pm
    import pytensor.tensor as pt

    rows = {name: pt.as_tensor(values) for name, values in data_of(noise, observed).items()}
    names = noise.parameters

    def logp(value: Any, mean: Any, *parameters: Any) -> Any:
        return log_density(noise, Rows(**{**rows, "response": value}), mean, dict(zip(names, parameters, strict=True)))

    def dist(mean: Any, *parameters: Any) -> Any:
        of, shape = dict(zip(names, parameters[:-1], strict=True)), mean.shape[:-1]
        point, run = (_by_row(noise, observed, of, name) for name in noises.GROUPED)
        draw = run * pm.Normal.dist(0, 1, shape=(*shape, observed.runs))[..., observed.run]
        if noise.checkpoint_effect:
            effects = pm.Normal.dist(0, 1, shape=(*shape, len(observed.checkpoint_names)))
            draw += of["sigma_checkpoint"][..., None] * effects[..., observed.checkpoint[observed.run]]
        if noise.skew:
            draw += of["run_excess"][..., None] * pm.Exponential.dist(lam=1, shape=(*shape, observed.runs))[..., observed.run]
        sigma = pt.sqrt(point**2 + observed.known)
        return mean + draw + pm.Normal.dist(0, 1, shape=mean.shape) * sigma

    values, signature = [scales[n] for n in names], f"(n){',()' * len(names)}->(n)"
    of_model = {"logp": logp, "dist": dist, "signature": signature, "observed": observed.response, "dims": "row"}
    pm.CustomDist(observed.outcome.observed, mean, *values, **of_model)
