"""The law as an expert writes it in PyMC: terms by their level at a reference point, run effects integrated out, nutpie.

Parameters named by small letters (a, b, c, f) are the terms' values at the middle of the data; covariates are logs
centred there. The prior is that of the direct version.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from common import task
from pymc_direct import sample


def form3(d: dict[str, Any], at: dict[str, float]) -> pm.Model:
    """PTPP-gated law with floor; normal noise, run effects integrated out."""
    eps = 1e-5
    lnN, lnD, lnr, lnp = (np.log(d[k]) - np.log(at[k]) for k in ("N", "D", "r", "ptpp"))
    lnr_eps = np.log(d["r"] + eps) - np.log(at["r"] + eps)
    with pm.Model() as model:
        E = pm.LogNormal("E", 0.3, 0.5)
        alpha = pm.LogNormal("alpha", -1.05, 0.4)
        beta = pm.LogNormal("beta", -0.8, 0.5)
        nu = pm.LogNormal("nu", -1.2, 0.8)
        gamma = pm.LogNormal("gamma", -1.2, 0.6)
        eta = pm.LogNormal("eta", -1.05, 0.5)
        lam = pm.Beta("lam", 2, 2)
        zeta = pm.Normal("zeta", 0.5, 0.5)
        a = pm.LogNormal("a", -0.9, 1.0)
        b = pm.LogNormal("b", -0.9, 1.0)
        c = pm.LogNormal("c", -2.3, 1.0)
        f = pm.LogNormal("f", -2.3, 1.0)

        beta_eff = beta * (1 - lam * pm.math.sigmoid(zeta * np.log(d["ptpp"])))
        beta_at = beta * (1 - lam * pm.math.sigmoid(zeta * np.log(at["ptpp"])))
        lnD_at = np.log(at["D"])
        data_term = b * pt.exp(nu * lnr - beta_eff * (lnD + lnD_at) + beta_at * lnD_at)
        loss = E + a * pt.exp(-alpha * lnN) + data_term + c * pt.exp(-gamma * lnr_eps) + f * pt.exp(-eta * lnp)

        pm.Deterministic("A", a * at["N"] ** alpha)
        pm.Deterministic("B", b * at["r"] ** -nu * at["D"] ** beta_at)
        pm.Deterministic("C", c * (at["r"] + eps) ** gamma)
        pm.Deterministic("F", f * at["ptpp"] ** eta)
        sigma_point = pm.LogNormal("sigma_point", np.log(0.005), 1.5)
        sigma_run = pm.HalfNormal("sigma_run", 0.003)
        pm.Potential("log_loss", log_likelihood(d["log_loss"] - pt.log(loss), d["run"], sigma_point, sigma_run))
    return model


def log_likelihood(residual: Any, run: Any, sigma_point: Any, sigma_run: Any) -> Any:
    """Normal residuals with covariance sigma_point^2 I + sigma_run^2 11' within each run; rows are sorted by run."""
    count = np.bincount(run)
    member = (run == np.arange(count.size)[:, None]).astype(float)
    total = member @ residual
    v, t = sigma_point**2, sigma_run**2
    w = v + count * t
    squares = (residual**2).sum() / v - (t * total**2 / (v * w)).sum()
    return -0.5 * (squares + ((count - 1) * pt.log(v) + pt.log(w)).sum())


def chinchilla(d: dict[str, Any], at: dict[str, float]) -> pm.Model:
    """Chinchilla's law; Student-t noise, no runs."""
    lnN, lnD = (np.log(d[k]) - np.log(at[k]) for k in ("N", "D"))
    with pm.Model() as model:
        E = pm.LogNormal("E", 0.3, 0.5)
        alpha = pm.LogNormal("alpha", -1.05, 0.4)
        beta = pm.LogNormal("beta", -0.8, 0.5)
        a = pm.LogNormal("a", -0.9, 1.0)
        b = pm.LogNormal("b", -0.9, 1.0)
        loss = E + a * pt.exp(-alpha * lnN) + b * pt.exp(-beta * lnD)
        pm.Deterministic("A", a * at["N"] ** alpha)
        pm.Deterministic("B", b * at["D"] ** beta)
        sigma_point = pm.LogNormal("sigma_point", np.log(0.005), 1.5)
        dof = pm.Deterministic("dof", 2 + pm.Gamma("dof_above_2", 2, 0.1))
        pm.StudentT("log_loss", nu=dof, mu=pt.log(loss), sigma=sigma_point, observed=d["log_loss"])
    return model


if __name__ == "__main__":
    this = task()
    sample(this, {"form3": form3, "chinchilla": chinchilla}[this.problem](this.rows, this.at), nuts_sampler="nutpie")
