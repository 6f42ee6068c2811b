"""Three laws written by hand in JAX for `benchmarks/references.py`, in coordinates of their own.

A term is sampled by its drop over the range of the data, the floor by the loss in the middle, and the gate's lam by its
contrast between the two ends of PTPP; exponents and noise are logs. `unpack` takes coordinates u to log parameters and to the
log Jacobian of the steps that are no shears. Priors on terms are on their value at the middle, as the cards state them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from numpy.typing import NDArray

Array = Any
Q = 0.025  # about the contrast of the gate in the table of form 3


class Model(NamedTuple):
    """Minus a log density of u, what u means (logs, the logit of lam, zeta, gamma of cpt-joint), and a random start.

    `inner` names what `parameters` gives besides: logs of the terms in the middle.
    """

    potential: Callable[[Array], Array]
    parameters: Callable[[Array], dict[str, Array]]
    start: Callable[[np.random.Generator], NDArray[np.float64]]
    inner: tuple[str, ...] = ("a", "b", "c", "f", "b_cpt")


def normal(x: Array, mu: float, sigma: float) -> Array:
    """Log density up to a constant."""
    return -0.5 * ((x - mu) / sigma) ** 2


def drop(exponent: Array, x: NDArray[np.float64]) -> Array:
    """Log of how much exp(-exponent x) falls from the least x to the largest."""
    low, high = x.min(), x.max()
    return -exponent * low + jnp.log(-jnp.expm1(-exponent * (high - low)))


def floor(log_middle: Array, others: Array) -> tuple[Array, Array]:
    """Log E from the log of the loss in the middle, where the other terms sum to `others`; and the log Jacobian."""
    e = jnp.exp(log_middle) - others
    log_e = jnp.where(e > 0, jnp.log(jnp.where(e > 0, e, 1.0)), -jnp.inf)
    return log_e, log_middle - log_e


def run_normal(residual: Array, run: NDArray[np.int64], log_point: Array, log_run: Array) -> Array:
    """Log likelihood of normal residuals with covariance point^2 I + run^2 11' within each run.

    Each run's mean and its scatter around the mean are independent: the mean has variance run^2 + point^2 / k, the scatter is
    point^2 times a chi-square of k - 1 degrees of freedom.
    """
    count = np.bincount(run).astype(float)
    mean = jax.ops.segment_sum(residual, run, count.size) / count
    scatter = jnp.sum((residual - mean[run]) ** 2)
    point2 = jnp.exp(2 * log_point)
    variance = jnp.exp(2 * log_run) + point2 / count
    of_means = -0.5 * jnp.sum(mean**2 / variance + jnp.log(variance))
    return of_means - 0.5 * scatter / point2 - (count.sum() - count.size) * log_point


def noise_prior(log_point: Array, log_run: Array) -> Array:
    """LogNormal(log .005, 1.5) and HalfNormal(.003), in logs."""
    return normal(log_point, np.log(0.005), 1.5) - 0.5 * (jnp.exp(log_run) / 0.003) ** 2 + log_run


def made(names: tuple[str, ...], middle: tuple[float, ...], log_density: Any, unpack: Any) -> Model:
    """A model from its density and the meaning of its coordinates, started around their prior's middle."""
    assert len(names) == len(middle)

    def potential(u: Array) -> Array:
        return -log_density(dict(zip(names, u, strict=True)))

    def parameters(u: Array) -> dict[str, Array]:
        return dict(unpack(dict(zip(names, u, strict=True)))[0])

    def start(rng: np.random.Generator) -> NDArray[np.float64]:
        for _ in range(1000):
            u = np.array(middle) + 0.1 * rng.standard_normal(len(middle))
            if np.isfinite(potential(jnp.asarray(u))):
                return u
        raise RuntimeError("no start with a finite density was found")

    return Model(potential, parameters, start)


def chinchilla(d: dict[str, Any], at: dict[str, float]) -> Model:
    """E + A/N^alpha + B/D^beta with Student-t noise, every row a run."""
    x_n, x_d = (np.log(d[k]) - np.log(at[k]) for k in ("N", "D"))
    names = ("middle", "drop_n", "alpha", "drop_d", "beta", "sigma_point", "dof_above_2")

    def unpack(u: dict[str, Array]) -> tuple[dict[str, Array], Array]:
        a = u["drop_n"] - drop(jnp.exp(u["alpha"]), x_n)
        b = u["drop_d"] - drop(jnp.exp(u["beta"]), x_d)
        e, jacobian = floor(u["middle"], jnp.exp(a) + jnp.exp(b))
        p = {"E": e, "A": a + jnp.exp(u["alpha"]) * np.log(at["N"]), "B": b + jnp.exp(u["beta"]) * np.log(at["D"])}
        return p | {k: u[k] for k in ("alpha", "beta", "sigma_point", "dof_above_2")} | {"a": a, "b": b}, jacobian

    def log_density(u: dict[str, Array]) -> Array:
        p, jacobian = unpack(u)
        loss = jnp.exp(p["E"]) + jnp.exp(p["a"] - jnp.exp(p["alpha"]) * x_n) + jnp.exp(p["b"] - jnp.exp(p["beta"]) * x_d)
        prior = normal(p["E"], 0.3, 0.5) + normal(p["a"], -0.9, 1.0) + normal(p["b"], -0.9, 1.0)
        prior += normal(p["alpha"], -1.05, 0.4) + normal(p["beta"], -0.8, 0.5) + normal(p["sigma_point"], np.log(0.005), 1.5)
        prior += 2 * p["dof_above_2"] - 0.1 * jnp.exp(p["dof_above_2"])
        dof = 2 + jnp.exp(p["dof_above_2"])
        z = (d["log_loss"] - jnp.log(loss)) * jnp.exp(-p["sigma_point"])
        one = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * jnp.log(dof) - p["sigma_point"]
        return prior + jacobian + z.size * one - 0.5 * (dof + 1) * jnp.sum(jnp.log1p(z**2 / dof))

    start = (float(np.mean(d["log_loss"])), -0.7, -1.05, -0.7, -1.05, -5.5, 2.5)
    return made(names, start, log_density, unpack)


def form3(d: dict[str, Any], at: dict[str, float]) -> Model:
    """Goffinet et al. 2025, form 3: E + A/N^alpha + B r^nu/D^beta_eff + C/(r + eps)^gamma + F/ptpp^eta; run effects."""
    eps = 1e-5
    x_n, x_d, x_p = (np.log(d[k]) - np.log(at[k]) for k in ("N", "D", "ptpp"))
    x_s = np.log((d["r"] + eps) / (at["r"] + eps))
    log_d, log_p = np.log(d["D"]), np.log(d["ptpp"])
    levels = ("middle", "drop_n", "alpha", "drop_d", "beta", "nu", "drop_r", "gamma", "drop_p", "eta")
    names = (*levels, "contrast", "zeta", "sigma_point", "sigma_run")

    def gate(zeta: Array, log_ptpp: Any) -> Array:
        return jax.nn.sigmoid(zeta * log_ptpp)

    def unpack(u: dict[str, Array]) -> tuple[dict[str, Array], Array]:
        zeta = 0.1 * jnp.sinh(u["zeta"])  # logarithmic where the gate has contrast, smooth through 0
        # Losses fix the contrast of the effective exponent, about Q of its value in the middle: lam is linear in the contrast
        # around Q, and goes to 1 where zeta is so small that no lam less than 1 has it. Any Q and widths give the same posterior.
        between = jnp.sqrt((gate(zeta, log_p.max()) - gate(zeta, log_p.min())) ** 2 + 0.005**2)
        room = 0.004 * jax.nn.softplus((between - Q * (1 - gate(zeta, np.log(at["ptpp"])))) / 0.004)
        lam = np.log(Q) - jnp.log(room) + between / room * u["contrast"]
        left = jnp.log1p(-jax.nn.sigmoid(lam) * gate(zeta, np.log(at["ptpp"])))
        at_middle = jnp.exp(u["beta"])  # the effective data exponent at the middle
        a = u["drop_n"] - drop(jnp.exp(u["alpha"]), x_n)
        b = u["drop_d"] - drop(at_middle, x_d)
        c = u["drop_r"] - drop(jnp.exp(u["gamma"]), x_s)
        f = u["drop_p"] - drop(jnp.exp(u["eta"]), x_p)
        e, jacobian = floor(u["middle"], sum(jnp.exp(v) for v in (a, b, c, f)))
        jacobian += jnp.log(jnp.cosh(u["zeta"])) + jnp.log(between / room)
        p = {"E": e, "lam": lam, "zeta": zeta, "beta": u["beta"] - left, "a": a, "b": b, "c": c, "f": f}
        p |= {k: u[k] for k in ("alpha", "nu", "gamma", "eta", "sigma_point", "sigma_run")}
        p["A"] = a + jnp.exp(p["alpha"]) * np.log(at["N"])
        p["B"] = b - jnp.exp(p["nu"]) * np.log(at["r"]) + at_middle * np.log(at["D"])
        p["C"] = c + jnp.exp(p["gamma"]) * np.log(at["r"] + eps)
        p["F"] = f + jnp.exp(p["eta"]) * np.log(at["ptpp"])
        return p, jacobian

    def log_density(u: dict[str, Array]) -> Array:
        p, jacobian = unpack(u)
        beta_eff = jnp.exp(p["beta"]) * (1 - jax.nn.sigmoid(p["lam"]) * gate(p["zeta"], log_p))
        loss = jnp.exp(p["E"]) + jnp.exp(p["a"] - jnp.exp(p["alpha"]) * x_n)
        loss += jnp.exp(p["B"] + jnp.exp(p["nu"]) * np.log(d["r"]) - beta_eff * log_d)
        loss += jnp.exp(p["c"] - jnp.exp(p["gamma"]) * x_s) + jnp.exp(p["f"] - jnp.exp(p["eta"]) * x_p)
        prior = normal(p["E"], 0.3, 0.5) + normal(p["alpha"], -1.05, 0.4) + normal(p["beta"], -0.8, 0.5)
        prior += normal(p["nu"], -1.2, 0.8) + normal(p["gamma"], -1.2, 0.6) + normal(p["eta"], -1.05, 0.5)
        prior += normal(p["a"], -0.9, 1.0) + normal(p["b"], -0.9, 1.0) + normal(p["c"], -2.3, 1.0) + normal(p["f"], -2.3, 1.0)
        prior += 2 * (jax.nn.log_sigmoid(p["lam"]) + jax.nn.log_sigmoid(-p["lam"])) + normal(p["zeta"], 0.5, 0.5)
        prior += noise_prior(p["sigma_point"], p["sigma_run"])
        residual = d["log_loss"] - jnp.log(loss)
        return prior + jacobian + run_normal(residual, d["run"], p["sigma_point"], p["sigma_run"])

    start = (float(np.mean(d["log_loss"])), -0.7, -1.3, -0.7, -1.3, -1.5, -2.5, -1.0, -2.5, -0.8, 0.0, 2.5, -5.5, -6.0)
    return made(names, start, log_density, unpack)


def cpt_joint(d: dict[str, Any], at: dict[str, float]) -> Model:
    """Zheng et al. 2024: E + A/N^alpha + B/D^beta from scratch, B'/(D^beta' N^gamma) after; normal noise, run effects."""
    x_n, x_d, cpt = np.log(d["N"] / at["N"]), np.log(d["D"] / at["D"]), np.asarray(d["cpt"])
    names = ("middle", "drop_n", "alpha", "drop_d", "beta", "drop_cpt", "beta_cpt", "gamma", "sigma_point", "sigma_run")

    def unpack(u: dict[str, Array]) -> tuple[dict[str, Array], Array]:
        a = u["drop_n"] - drop(jnp.exp(u["alpha"]), x_n)
        b = u["drop_d"] - drop(jnp.exp(u["beta"]), x_d)
        b_cpt = u["drop_cpt"] - drop(jnp.exp(u["beta_cpt"]), x_d)
        e, jacobian = floor(u["middle"], jnp.exp(a) + 0.5 * jnp.exp(b) + 0.5 * jnp.exp(b_cpt))
        p = {k: u[k] for k in ("alpha", "beta", "beta_cpt", "gamma", "sigma_point", "sigma_run")}
        p |= {"E": e, "A": a + jnp.exp(p["alpha"]) * np.log(at["N"]), "B": b + jnp.exp(p["beta"]) * np.log(at["D"])}
        p["B_cpt"] = b_cpt + jnp.exp(p["beta_cpt"]) * np.log(at["D"]) + p["gamma"] * np.log(at["N"])
        return p | {"a": a, "b": b, "b_cpt": b_cpt}, jacobian

    def log_density(u: dict[str, Array]) -> Array:
        p, jacobian = unpack(u)
        scratch = jnp.exp(p["b"] - jnp.exp(p["beta"]) * x_d)
        after = jnp.exp(p["b_cpt"] - jnp.exp(p["beta_cpt"]) * x_d - p["gamma"] * x_n)
        loss = jnp.exp(p["E"]) + jnp.exp(p["a"] - jnp.exp(p["alpha"]) * x_n) + (1 - cpt) * scratch + cpt * after
        prior = normal(p["E"], 0.3, 0.5) + normal(p["alpha"], -1.05, 0.4) + normal(p["gamma"], 0.05, 0.1)
        prior += normal(p["beta"], -0.8, 0.5) + normal(p["beta_cpt"], -0.8, 0.5)
        prior += normal(p["a"], -0.9, 1.0) + normal(p["b"], -0.9, 1.0) + normal(p["b_cpt"], -0.9, 1.0)
        prior += noise_prior(p["sigma_point"], p["sigma_run"])
        residual = d["log_loss"] - jnp.log(loss)
        return prior + jacobian + run_normal(residual, d["run"], p["sigma_point"], p["sigma_run"])

    start = (float(np.mean(d["log_loss"])), -0.7, -1.0, -0.7, -1.2, -0.7, -1.6, 0.05, -5.5, -6.0)
    return made(names, start, log_density, unpack)


MODELS = {"chinchilla": chinchilla, "form3": form3, "cpt-joint": cpt_joint}
"""By problem: rows and reference point to model."""
