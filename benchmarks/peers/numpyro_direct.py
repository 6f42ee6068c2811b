"""The law as one would write it in NumPyro from the paper: A, B, C, F themselves, run effects as parameters (non-centred).

Double precision, one virtual device for each chain, otherwise NumPyro's defaults.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from common import Task, report, task
from numpyro.infer import MCMC, NUTS


def form3(d: dict[str, Any], at: dict[str, float]) -> None:
    """PTPP-gated law with floor; normal noise, an effect for each run."""
    eps = 1e-5
    E = numpyro.sample("E", dist.LogNormal(0.3, 0.5))
    alpha = numpyro.sample("alpha", dist.LogNormal(-1.05, 0.4))
    beta = numpyro.sample("beta", dist.LogNormal(-0.8, 0.5))
    nu = numpyro.sample("nu", dist.LogNormal(-1.2, 0.8))
    gamma = numpyro.sample("gamma", dist.LogNormal(-1.2, 0.6))
    eta = numpyro.sample("eta", dist.LogNormal(-1.05, 0.5))
    lam = numpyro.sample("lam", dist.Beta(2, 2))
    zeta = numpyro.sample("zeta", dist.Normal(0.5, 0.5))

    def beta_eff(ptpp: Any) -> Any:
        return beta * (1 - lam * ptpp**zeta / (1 + ptpp**zeta))

    A = numpyro.sample("A", dist.LogNormal(-0.9 + alpha * np.log(at["N"]), 1.0))
    B = numpyro.sample("B", dist.LogNormal(-0.9 - nu * np.log(at["r"]) + beta_eff(at["ptpp"]) * np.log(at["D"]), 1.0))
    C = numpyro.sample("C", dist.LogNormal(-2.3 + gamma * np.log(at["r"] + eps), 1.0))
    F = numpyro.sample("F", dist.LogNormal(-2.3 + eta * np.log(at["ptpp"]), 1.0))
    N, D, r, ptpp = d["N"], d["D"], d["r"], d["ptpp"]
    loss = E + A / N**alpha + B * r**nu / D ** beta_eff(ptpp) + C / (r + eps) ** gamma + F / ptpp**eta

    sigma_point = numpyro.sample("sigma_point", dist.LogNormal(np.log(0.005), 1.5))
    sigma_run = numpyro.sample("sigma_run", dist.HalfNormal(0.003))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([int(d["run"].max()) + 1]))
    numpyro.sample("log_loss", dist.Normal(jnp.log(loss) + sigma_run * z[d["run"]], sigma_point), obs=d["log_loss"])


def chinchilla(d: dict[str, Any], at: dict[str, float]) -> None:
    """Chinchilla's law; Student-t noise, no runs."""
    E = numpyro.sample("E", dist.LogNormal(0.3, 0.5))
    alpha = numpyro.sample("alpha", dist.LogNormal(-1.05, 0.4))
    beta = numpyro.sample("beta", dist.LogNormal(-0.8, 0.5))
    A = numpyro.sample("A", dist.LogNormal(-0.9 + alpha * np.log(at["N"]), 1.0))
    B = numpyro.sample("B", dist.LogNormal(-0.9 + beta * np.log(at["D"]), 1.0))
    loss = E + A / d["N"] ** alpha + B / d["D"] ** beta
    sigma_point = numpyro.sample("sigma_point", dist.LogNormal(np.log(0.005), 1.5))
    dof = numpyro.deterministic("dof", 2 + numpyro.sample("dof_above_2", dist.Gamma(2, 0.1)))
    numpyro.sample("log_loss", dist.StudentT(dof, jnp.log(loss), sigma_point), obs=d["log_loss"])


def sample(t: Task, model: Any, **settings: Any) -> None:
    """Run four chains and report; JAX tells how much of the time it traced and compiled."""
    compiling: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in ("/jax/core/compile/backend_compile_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration"):
            compiling.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    o, start = t.options, time.perf_counter()
    chains = MCMC(
        NUTS(model, **settings),
        num_warmup=o["tune"],
        num_samples=o["draws"],
        num_chains=o["chains"],
        chain_method="parallel",
        progress_bar=False,
    )
    chains.run(jax.random.key(o["seed"]), t.rows, t.at, extra_fields=("num_steps", "potential_energy", "diverging"))
    draws = {name: np.asarray(value) for name, value in chains.get_samples(group_by_chain=True).items()}
    extra = {name: np.asarray(value) for name, value in chains.get_extra_fields(group_by_chain=True).items()}
    whole = time.perf_counter() - start
    report(
        t,
        {name: value for name, value in draws.items() if value.ndim == 2},
        compile_seconds=sum(compiling),
        sampling_seconds=whole - sum(compiling),
        log_density=-extra["potential_energy"],
        steps=extra["num_steps"],
        diverging=extra["diverging"],
    )


def set_up() -> Task:
    """As a user of two or more CPU cores starts: double precision and a device for each chain."""
    this = task()
    numpyro.enable_x64()
    numpyro.set_host_device_count(this.options["chains"])
    return this


if __name__ == "__main__":
    this = set_up()
    sample(this, {"form3": form3, "chinchilla": chinchilla}[this.problem])
