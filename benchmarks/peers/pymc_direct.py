"""The law as one would write it in PyMC from the paper: A, B, C, F themselves, run effects as parameters (non-centred).

Sampled by `pm.sample` with its defaults: nutpie where it is installed, PyMC's own NUTS where it is not.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from common import Task, report, task


def form3(d: dict[str, Any], at: dict[str, float]) -> pm.Model:
    """PTPP-gated law with floor; normal noise, an effect for each run."""
    eps = 1e-5
    with pm.Model() as model:
        E = pm.LogNormal("E", 0.3, 0.5)
        alpha = pm.LogNormal("alpha", -1.05, 0.4)
        beta = pm.LogNormal("beta", -0.8, 0.5)
        nu = pm.LogNormal("nu", -1.2, 0.8)
        gamma = pm.LogNormal("gamma", -1.2, 0.6)
        eta = pm.LogNormal("eta", -1.05, 0.5)
        lam = pm.Beta("lam", 2, 2)
        zeta = pm.Normal("zeta", 0.5, 0.5)

        def beta_eff(ptpp: Any) -> Any:
            return beta * (1 - lam * ptpp**zeta / (1 + ptpp**zeta))

        A = pm.LogNormal("A", -0.9 + alpha * np.log(at["N"]), 1.0)
        B = pm.LogNormal("B", -0.9 - nu * np.log(at["r"]) + beta_eff(at["ptpp"]) * np.log(at["D"]), 1.0)
        C = pm.LogNormal("C", -2.3 + gamma * np.log(at["r"] + eps), 1.0)
        F = pm.LogNormal("F", -2.3 + eta * np.log(at["ptpp"]), 1.0)
        N, D, r, ptpp = d["N"], d["D"], d["r"], d["ptpp"]
        loss = E + A / N**alpha + B * r**nu / D ** beta_eff(ptpp) + C / (r + eps) ** gamma + F / ptpp**eta

        sigma_point = pm.LogNormal("sigma_point", np.log(0.005), 1.5)
        sigma_run = pm.HalfNormal("sigma_run", 0.003)
        z = pm.Normal("z", 0, 1, shape=int(d["run"].max()) + 1)
        pm.Normal("log_loss", pt.log(loss) + sigma_run * z[d["run"]], sigma_point, observed=d["log_loss"])
    return model


def chinchilla(d: dict[str, Any], at: dict[str, float]) -> pm.Model:
    """Chinchilla's law; Student-t noise, no runs."""
    with pm.Model() as model:
        E = pm.LogNormal("E", 0.3, 0.5)
        alpha = pm.LogNormal("alpha", -1.05, 0.4)
        beta = pm.LogNormal("beta", -0.8, 0.5)
        A = pm.LogNormal("A", -0.9 + alpha * np.log(at["N"]), 1.0)
        B = pm.LogNormal("B", -0.9 + beta * np.log(at["D"]), 1.0)
        loss = E + A / d["N"] ** alpha + B / d["D"] ** beta
        sigma_point = pm.LogNormal("sigma_point", np.log(0.005), 1.5)
        dof = pm.Deterministic("dof", 2 + pm.Gamma("dof_above_2", 2, 0.1))
        pm.StudentT("log_loss", nu=dof, mu=pt.log(loss), sigma=sigma_point, observed=d["log_loss"])
    return model


def dynamics(d: dict[str, Any], at: dict[str, float]) -> pm.Model:
    """Losses at any step of two phases (Wang et al. 2025, eq. 4); normal noise, an effect for each run."""
    S1 = d["S1_pt"] + d["S1_cpt"]
    with pm.Model() as model:
        L0 = pm.LogNormal("L0", 0.7, 0.5)
        alpha = pm.LogNormal("alpha", -0.7, 0.4)
        A = pm.LogNormal("A", -1.3 + alpha * np.log(at["S1_pt"] + at["S1_cpt"]), 1.0)
        C1 = pm.LogNormal("C1", -2.5 - np.log(1000 * at["lr_peak"]), 1.0)
        C2 = pm.LogNormal("C2", -2.5 - np.log(1000 * at["lr_peak"]), 1.0)
        B = pm.Normal("B", 0, 0.7)
        E = pm.LogNormal("E", -4.6 - np.log(at["lr_peak"]), 1.5)
        beta = pm.LogNormal("beta", -1.0, 0.7)
        shift = B * (1 - (1 + E * d["S1_cpt"]) ** -beta)
        loss = L0 + A * S1**-alpha - C1 * d["S2_pt"] - C2 * d["S2_cpt"] + shift

        sigma_point = pm.LogNormal("sigma_point", np.log(0.005), 1.5)
        sigma_run = pm.HalfNormal("sigma_run", 0.003)
        z = pm.Normal("z", 0, 1, shape=int(d["run"].max()) + 1)
        pm.Normal("log_loss", pt.log(loss) + sigma_run * z[d["run"]], sigma_point, observed=d["log_loss"])
    return model


MODELS = {"form3": form3, "chinchilla": chinchilla, "dynamics": dynamics}


def sample(t: Task, model: pm.Model, **settings: Any) -> None:
    """Sample with `pm.sample` and report; it compiles inside, and tells the seconds of sampling."""
    o, start = t.options, time.perf_counter()
    with model:
        tree = pm.sample(
            tune=o["tune"],
            draws=o["draws"],
            chains=o["chains"],
            cores=2,
            random_seed=o["seed"],
            progressbar=False,
            discard_tuned_samples=False,
            compute_convergence_checks=False,
            **settings,
        )
    whole = time.perf_counter() - start
    posterior, stats, tuning = tree["posterior"], tree["sample_stats"], tree["warmup_sample_stats"]
    sampling = float(posterior.attrs["sampling_time"])
    names = [name for name, value in posterior.data_vars.items() if value.ndim == 2]
    report(
        t,
        {str(name): posterior[name].values for name in names},
        compile_seconds=whole - sampling,
        sampling_seconds=sampling,
        log_density=stats["lp" if "lp" in stats else "logp"].values,
        steps=stats["n_steps"].values,
        tuning_steps=tuning["n_steps"].values,
        diverging=stats["diverging"].values,
    )


if __name__ == "__main__":
    this = task()
    sampler = {"nuts_sampler": this.options["sampler"]} if "sampler" in this.options else {}
    sample(this, MODELS[this.problem](this.rows, this.at), **sampler)
