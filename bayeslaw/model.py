"""The generative model of a law as an ordinary `pm.Model`, to read, draw, change or sample by hand.

`bayeslaw.fit` samples the same log density in coordinates of its own (`density`, `whitening`); a test shows the two equal
up to a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslaw import noise as noises
from bayeslaw.laws import Law
from bayeslaw.noise import Noise
from bayeslaw.observations import Observations
from bayeslaw.runs import Runs

if TYPE_CHECKING:
    import pymc as pm


def pytensor_functions() -> dict[str, Any]:
    """The functions of a formula in PyTensor."""
    import pytensor.tensor as pt

    names = ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "sigmoid", "minimum", "maximum")
    return {name: getattr(pt, name) for name in names} | {"select": lambda c, a, b: pt.switch(pt.gt(c, 0.5), a, b)}


def pymc_model(law: Law, runs: Runs | Observations, noise: str = "auto") -> pm.Model:
    """Build the PyMC model of a law on logged losses.

    Parameters
    ----------
    law : Law
    runs : Runs or Observations
    noise : str
        One of `noise.CHOICES`.

    Returns
    -------
    pymc.Model
        Free variables are the law's parameters (``A_level`` where the prior is on the term's value at the runs' reference
        point, with ``A`` a deterministic) and those of the noise (``dof_above_2`` with
        ``dof``); ``log_loss`` is observed, rows sorted by run.
    """
    import pymc as pm
    import pytensor.tensor as pt

    observed = runs if isinstance(runs, Observations) else Observations.of(law, runs)
    chosen, functions = Noise.choose(noise, observed.run), pytensor_functions()
    with pm.Model(coords={"row": observed.rows, "run": np.array(observed.run_names)}) as model:
        covariates = {name: pm.Data(name, column, dims="row") for name, column in observed.covariates.items()}
        values: dict[str, Any] = {}
        for name, parameter in law.parameters.items():
            values[name] = parameter.prior.pymc(f"{name}_level" if parameter.prior.on else name)
        ones = {k: 1.0 if law.parameters[k].prior.on else v for k, v in values.items()}
        for name, unit in law.term_units(ones, observed.at, functions).items():
            values[name] = pm.Deterministic(name, values[name] / unit)
        expected = pm.Deterministic(
            "loss", law.evaluate({**values, **covariates}, functions) + pt.zeros(observed.log_loss.size), dims="row"
        )
        scales = {}
        for name in chosen.parameters:
            least = noises.LEAST.get(name)
            above = noises.PRIORS[name].pymc(name if least is None else f"{name}_above_{least:g}")
            scales[name] = above if least is None else pm.Deterministic(name, least + above)
        mean = pt.log(expected)
        if chosen.student:
            if chosen.run_effect:
                effect = pm.Normal("run_effect", 0, 1, dims="run")
                mean = mean + scales["sigma_run"] * effect[observed.run]
            pm.StudentT("log_loss", nu=scales["dof"], mu=mean, sigma=scales["sigma_point"], observed=observed.log_loss, dims="row")
        elif chosen.run_effect:
            _normal_with_run_effect(mean, scales["sigma_point"], scales["sigma_run"], observed)
        else:
            pm.Normal("log_loss", mean, scales["sigma_point"], observed=observed.log_loss, dims="row")
    return model


def _normal_with_run_effect(mean: Any, point: Any, run: Any, observed: Observations) -> None:
    """Normal noise with run effects integrated out, as one observed variable that can also be drawn from."""
    import pymc as pm
    import pytensor.tensor as pt

    code, count = observed.run, np.diff(observed.starts).astype(np.float64)

    def logp(value: Any, mean: Any, point: Any, run: Any) -> Any:
        error = value - mean
        total = pt.inc_subtensor(pt.zeros(count.size)[code], error)
        v, t = point**2, run**2
        w = v + count * t
        squares = pt.sum(error**2) / v - pt.sum(t * total**2 / (v * w))
        return -0.5 * (squares + pt.sum((count - 1) * pt.log(v) + pt.log(w)) + value.shape[0] * np.log(2 * np.pi))

    def dist(mean: Any, point: Any, run: Any, _: Any) -> Any:
        effects = pm.Normal.dist(0, run[..., None], shape=(*mean.shape[:-1], count.size))
        return mean + effects[..., code] + pm.Normal.dist(0, point[..., None], shape=mean.shape)

    pm.CustomDist(
        "log_loss", mean, point, run, logp=logp, dist=dist, signature="(n),(),()->(n)", observed=observed.log_loss, dims="row"
    )
