"""The law as an expert writes it in NumPyro: terms by their level at a reference point, run effects integrated out.

Parameters named by small letters (a, b, c, f) are the terms' values at the middle of the data; covariates are logs
centred there. The prior is that of the direct version. Chains start at the prior's medians. `dense`: the metric is a
whole matrix instead of a diagonal.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import init_to_median
from numpyro_direct import sample, set_up


def form3(d: dict[str, Any], at: dict[str, float]) -> None:
    """PTPP-gated law with floor; normal noise, run effects integrated out."""
    eps = 1e-5
    lnN, lnD, lnr, lnp = (np.log(d[k]) - np.log(at[k]) for k in ("N", "D", "r", "ptpp"))
    lnr_eps = np.log(d["r"] + eps) - np.log(at["r"] + eps)
    E = numpyro.sample("E", dist.LogNormal(0.3, 0.5))
    alpha = numpyro.sample("alpha", dist.LogNormal(-1.05, 0.4))
    beta = numpyro.sample("beta", dist.LogNormal(-0.8, 0.5))
    nu = numpyro.sample("nu", dist.LogNormal(-1.2, 0.8))
    gamma = numpyro.sample("gamma", dist.LogNormal(-1.2, 0.6))
    eta = numpyro.sample("eta", dist.LogNormal(-1.05, 0.5))
    lam = numpyro.sample("lam", dist.Beta(2, 2))
    zeta = numpyro.sample("zeta", dist.Normal(0.5, 0.5))
    a = numpyro.sample("a", dist.LogNormal(-0.9, 1.0))
    b = numpyro.sample("b", dist.LogNormal(-0.9, 1.0))
    c = numpyro.sample("c", dist.LogNormal(-2.3, 1.0))
    f = numpyro.sample("f", dist.LogNormal(-2.3, 1.0))

    beta_eff = beta * (1 - lam * jax.nn.sigmoid(zeta * np.log(d["ptpp"])))
    beta_at = beta * (1 - lam * jax.nn.sigmoid(zeta * np.log(at["ptpp"])))
    lnD_at = np.log(at["D"])
    data_term = b * jnp.exp(nu * lnr - beta_eff * (lnD + lnD_at) + beta_at * lnD_at)
    loss = E + a * jnp.exp(-alpha * lnN) + data_term + c * jnp.exp(-gamma * lnr_eps) + f * jnp.exp(-eta * lnp)

    numpyro.deterministic("A", a * at["N"] ** alpha)
    numpyro.deterministic("B", b * at["r"] ** -nu * at["D"] ** beta_at)
    numpyro.deterministic("C", c * (at["r"] + eps) ** gamma)
    numpyro.deterministic("F", f * at["ptpp"] ** eta)
    sigma_point = numpyro.sample("sigma_point", dist.LogNormal(np.log(0.005), 1.5))
    sigma_run = numpyro.sample("sigma_run", dist.HalfNormal(0.003))
    numpyro.factor("log_loss", log_likelihood(d["log_loss"] - jnp.log(loss), d["run"], sigma_point, sigma_run))


def log_likelihood(residual: Any, run: Any, sigma_point: Any, sigma_run: Any) -> Any:
    """Normal residuals with covariance sigma_point^2 I + sigma_run^2 11' within each run; rows are sorted by run."""
    count = np.bincount(run)
    member = (run == np.arange(count.size)[:, None]).astype(float)
    total = member @ residual
    v, t = sigma_point**2, sigma_run**2
    w = v + count * t
    squares = (residual**2).sum() / v - (t * total**2 / (v * w)).sum()
    return -0.5 * (squares + ((count - 1) * jnp.log(v) + jnp.log(w)).sum())


def chinchilla(d: dict[str, Any], at: dict[str, float]) -> None:
    """Chinchilla's law; Student-t noise, no runs."""
    lnN, lnD = (np.log(d[k]) - np.log(at[k]) for k in ("N", "D"))
    E = numpyro.sample("E", dist.LogNormal(0.3, 0.5))
    alpha = numpyro.sample("alpha", dist.LogNormal(-1.05, 0.4))
    beta = numpyro.sample("beta", dist.LogNormal(-0.8, 0.5))
    a = numpyro.sample("a", dist.LogNormal(-0.9, 1.0))
    b = numpyro.sample("b", dist.LogNormal(-0.9, 1.0))
    loss = E + a * jnp.exp(-alpha * lnN) + b * jnp.exp(-beta * lnD)
    numpyro.deterministic("A", a * at["N"] ** alpha)
    numpyro.deterministic("B", b * at["D"] ** beta)
    sigma_point = numpyro.sample("sigma_point", dist.LogNormal(np.log(0.005), 1.5))
    dof = numpyro.deterministic("dof", 2 + numpyro.sample("dof_above_2", dist.Gamma(2, 0.1)))
    numpyro.sample("log_loss", dist.StudentT(dof, jnp.log(loss), sigma_point), obs=d["log_loss"])


if __name__ == "__main__":
    this = set_up()
    model = {"form3": form3, "chinchilla": chinchilla}[this.problem]
    sample(this, model, init_strategy=init_to_median, dense_mass=this.options.get("dense", False))
