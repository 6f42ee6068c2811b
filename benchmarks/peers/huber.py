"""What papers do: Huber loss on log residuals, L-BFGS-B from many starts, then 1,000 bootstraps of the rows from the best end.

Gradients by JAX. No posterior: the bootstrap's estimates are handed back as one chain of draws, for their spread alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from common import report, task
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

STARTS, BOOTSTRAPS = 500, 1_000
FORM3 = ("E", "A", "alpha", "B", "beta", "nu", "C", "gamma", "F", "eta", "lam", "zeta")
CHINCHILLA = ("E", "A", "alpha", "B", "beta")
DELTA = {"form3": 0.02, "chinchilla": 1e-3}
# Ranges of the starts, in logs of the parameters (all are positive).
RANGES = {"E": (-1, 1), "A": (0, 10), "B": (0, 10), "C": (-6, 0), "F": (-3, 2), "lam": (-3, 0), "zeta": (-3, 0)}
EXPONENT = (-3, 0)


def form3(x: Any, d: dict[str, Any]) -> Any:
    """Log loss from the logs of the parameters; lam is kept below one by the bounds."""
    E, A, alpha, B, beta, nu, C, gamma, F, eta, lam, zeta = jnp.exp(x)
    gate = d["ptpp"] ** zeta / (1 + d["ptpp"] ** zeta)
    data_term = B * d["r"] ** nu / d["D"] ** (beta * (1 - lam * gate))
    return jnp.log(E + A / d["N"] ** alpha + data_term + C / (d["r"] + 1e-5) ** gamma + F / d["ptpp"] ** eta)


def chinchilla(x: Any, d: dict[str, Any]) -> Any:
    """Log loss from the logs of the parameters."""
    E, A, alpha, B, beta = jnp.exp(x)
    return jnp.log(E + A / d["N"] ** alpha + B / d["D"] ** beta)


def objective(log_loss: Callable[..., Any], d: dict[str, Any], delta: float) -> Any:
    """The mean Huber loss of log residuals with weights of the rows, compiled with its gradient."""

    def huber(x: Any, weights: Any) -> Any:
        error = jnp.abs(log_loss(x, d) - d["log_loss"])
        return jnp.mean(weights * jnp.where(error < delta, 0.5 * error**2, delta * (error - 0.5 * delta))) / delta**2

    return jax.jit(jax.value_and_grad(huber))


if __name__ == "__main__":
    this = task()
    jax.config.update("jax_enable_x64", True)
    threadpool_limits(1, "blas")  # L-BFGS-B's matrices are tiny: threads only get in each other's way
    names, law = {"form3": (FORM3, form3), "chinchilla": (CHINCHILLA, chinchilla)}[this.problem]
    loss = objective(law, this.rows, DELTA[this.problem])
    ranges = np.array([RANGES.get(name, EXPONENT) for name in names], dtype=float)
    bounds = [(None, 0.0 if name == "lam" else None) for name in names]
    n, rng = len(this.rows["log_loss"]), np.random.default_rng(this.options["seed"])
    evaluations = 0

    def descend(start: Any, weights: Any) -> Any:
        global evaluations

        def value_and_gradient(x: Any) -> tuple[float, Any]:
            value, gradient = loss(x, weights)
            return float(value), np.asarray(gradient)

        found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds)
        evaluations += found.nfev
        return found

    begin = time.perf_counter()
    loss(ranges.mean(axis=1), np.ones(n))
    compiled = time.perf_counter()
    starts = rng.uniform(*ranges.T, size=(this.options.get("starts", STARTS), len(names)))
    best = min((descend(start, np.ones(n)) for start in starts), key=lambda end: float(end.fun))
    resamples = [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(this.options.get("bootstraps", BOOTSTRAPS))]
    ends = np.array([descend(best.x, weights.astype(float)).x for weights in resamples])
    done = time.perf_counter()
    draws = {name: np.exp(ends[None, :, i]) for i, name in enumerate(names)}
    report(this, draws, compile_seconds=compiled - begin, sampling_seconds=done - compiled, steps=evaluations)
