"""The generative model of a law as an ordinary `pm.Model`, to read, draw from, change or sample by hand.

`bayeslaw.fit` samples the same log density in coordinates of its own (`bayeslaw.engine`); a test shows that the two are equal up
to a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslaw.data.observations import Observations, clock_column
from bayeslaw.data.table import Runs
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_levels
from bayeslaw.noise import noise as noises
from bayeslaw.noise.noise import Noise

if TYPE_CHECKING:
    import pymc as pm


def pytensor_functions() -> dict[str, Any]:
    """The functions of a formula in PyTensor."""
    import pytensor.tensor as pt

    names = ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "sigmoid", "minimum", "maximum")
    return {name: getattr(pt, name) for name in names} | {"select": lambda c, a, b: pt.switch(pt.gt(c, 0.5), a, b)}


def pymc_model(law: Law, runs: Runs | Observations, noise: str = "auto", noise_by: str | None = None) -> pm.Model:
    """Build the PyMC model of a law on logged losses.

    Parameters
    ----------
    law : Law
        Parameters that vary by a column get a typical value, a spread and a value for each value of the column. With
        observations, the law is the one that `pooling.with_levels` returns.
    runs : Runs or Observations
    noise, noise_by : str
        As for `bayeslaw.fit`. 'normal-drift' has a covariance of all rows, n x n: for some thousand rows at most.

    Returns
    -------
    pymc.Model
        Free variables are the law's parameters (``A_level`` where the prior is on the term's value at the runs' reference point,
        with ``A`` a deterministic) and those of the noise (``dof_above_2`` with ``dof``); ``log_loss`` is observed, sorted by run.

    Examples
    --------
    >>> model = bayeslaw.pymc_model(bayeslaw.load_law("chinchilla"), bayeslaw.read_runs("runs.csv"))
    >>> [variable.name for variable in model.free_RVs][:3]
    ['E', 'A_level', 'alpha']
    """
    import pymc as pm
    import pytensor.tensor as pt

    if isinstance(runs, Observations):
        observed = runs
    else:
        law = with_levels(law, levels_of(law, runs.frame))
        observed = Observations.of(law, runs, noise_by, clock_column(runs.frame) if noise == noises.DRIFT else "")
    chosen, functions = Noise.choose(noise, observed), pytensor_functions()
    with pm.Model(coords={"row": observed.rows, "run": np.array(observed.run_names)}) as model:
        covariates = {name: pm.Data(name, column, dims="row") for name, column in observed.covariates.items()}
        values: dict[str, Any] = {}
        for name, parameter in law.parameters.items():
            named = f"{name}_level" if parameter.prior.on else name
            if parameter.around is None:
                values[name] = parameter.prior.pymc(named)
            else:
                typical, spread = (values[k] for k in parameter.around)
                values[name] = _around(named, parameter.prior.support, typical, spread)
        ones = {k: 1.0 if law.parameters[k].prior.on else v for k, v in values.items()}
        for name, unit in law.term_units(ones, observed.at, functions).items():
            values[name] = pm.Deterministic(name, values[name] / unit)
        expected = pm.Deterministic(
            "loss", law.evaluate({**values, **covariates}, functions) + pt.zeros(observed.log_loss.size), dims="row"
        )
        scales: dict[str, Any] = {}
        for name in chosen.parameters:
            least = noises.LEAST.get(noises.kind(name))
            above = noises.prior(name).pymc(name if least is None else f"{name}_above_{least:g}")
            scales[name] = above if least is None else pm.Deterministic(name, least + above)
        zero = pt.zeros(max(len(chosen.groups), 1))
        of_kind = {name: [scales[n] for n in chosen.parameters if noises.kind(n) == name] for name in noises.GROUPED}
        by_group = {name: pt.stack(values) if values else zero for name, values in of_kind.items()}
        group = chosen.groups_of(observed)
        mean, point, run = pt.log(expected), by_group["sigma_point"][group], by_group["sigma_run"][group]
        if chosen.student:
            if chosen.run_effect:
                effect = pm.Normal("run_effect", 0, 1, dims="run")
                mean = mean + (run * effect)[observed.run]
            sigma = pt.sqrt(point[observed.run] ** 2 + (observed.se**2 if observed.se.size else 0.0))
            pm.StudentT("log_loss", nu=scales["dof"], mu=mean, sigma=sigma, observed=observed.log_loss, dims="row")
        elif chosen.drift:
            same = observed.run[:, None] == observed.run[None, :]
            steps = np.abs(observed.time[:, None] - observed.time[None, :])
            effects = run[observed.run][:, None] ** 2 * same * pt.exp(-np.where(same, steps, 0.0) / scales["drift"])
            variance = point[observed.run] ** 2 + (observed.se**2 if observed.se.size else 0.0)
            pm.MvNormal("log_loss", mean, cov=effects + pt.diag(variance), observed=observed.log_loss, dims="row")
        else:
            checkpoint, excess = (scales.get(name, pt.constant(0.0)) for name in ("sigma_checkpoint", "run_excess"))
            _normal_with_effects((mean, point, run, checkpoint, excess), observed, chosen)
    return model


def _around(name: str, support: str, typical: Any, spread: Any) -> Any:
    """A value that varies around a typical one, by its logarithm, its logit or itself."""
    import pymc as pm
    import pytensor.tensor as pt

    match support:
        case "positive":
            return pm.LogNormal(name, pt.log(typical), spread)
        case "unit":
            # PyMC gives LogitNormal no transform of its own accord.
            transform = pm.distributions.transforms.logodds
            return pm.LogitNormal(name, pt.log(typical) - pt.log1p(-typical), spread, default_transform=transform)
        case _:
            return pm.Normal(name, typical, spread)


def _normal_with_effects(arguments: tuple[Any, ...], observed: Observations, noise: Noise) -> None:
    """Add normal noise with effects integrated out (see `noise`) as one observed variable that can also be drawn from."""
    import pymc as pm
    import pytensor.tensor as pt

    code, size = observed.run, observed.runs
    family = observed.checkpoint if noise.checkpoint_effect else np.arange(size)
    families, known = int(family.max()) + 1, observed.se**2 if observed.se.size else np.zeros(code.size)

    def logp(value: Any, mean: Any, point: Any, run: Any, checkpoint: Any, excess: Any) -> Any:
        def totals(values: Any, code: Any, size: int) -> Any:
            return pt.inc_subtensor(pt.zeros(size)[code], values)

        error, variance = value - mean, point[code] ** 2 + known
        weight, total = totals(1 / variance, code, size), totals(error / variance, code, size)
        s = 1 + run**2 * weight
        a, b = weight / s, total / s
        parts = pt.log(variance) + error**2 / variance + np.log(2 * np.pi)
        result = -0.5 * (pt.sum(parts) + pt.sum(pt.log(s) - run**2 * total**2 / s))
        if noise.skew:
            x = (b - 1 / excess) / pt.sqrt(a)
            phi = pm.logcdf(pm.Normal.dist(0, 1), x)
            return result + pt.sum(0.5 * pt.log(2 * np.pi / a) - pt.log(excess) + 0.5 * x**2 + phi)
        z = 1 + checkpoint**2 * totals(a, family, families)
        return result + 0.5 * pt.sum(checkpoint**2 * totals(b, family, families) ** 2 / z - pt.log(z))

    def dist(mean: Any, point: Any, run: Any, checkpoint: Any, excess: Any, _: Any) -> Any:
        shape = mean.shape[:-1]
        shared = pm.Normal.dist(0, 1, shape=(*shape, families)) * checkpoint[..., None]
        one_sided = pm.Exponential.dist(lam=1, shape=(*shape, size)) * excess[..., None]
        shift = pm.Normal.dist(0, 1, shape=(*shape, size)) * run + shared[..., family] + one_sided
        sigma = pt.sqrt(point[..., code] ** 2 + known)
        return mean + shift[..., code] + pm.Normal.dist(0, 1, shape=mean.shape) * sigma

    signature = "(n),(m),(m),(),()->(n)"
    pm.CustomDist("log_loss", *arguments, logp=logp, dist=dist, signature=signature, observed=observed.log_loss, dims="row")
