"""Fits of a line, and candidate runs, for tests of choices."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.laws.card import parse_card
from bayeslaw.posterior.fit import Fit
from tests.fixed import LINE, fixed_fit, line
from tests.oracles import Array

X = np.linspace(-1.0, 1.0, 6)
TARGETS = pd.DataFrame({"x": [4.0, 6.0]})


def curvature(x: ArrayLike) -> Array:
    """What the parameters of the line are multiplied by at settings (n,), an array (3, n)."""
    x = np.asarray(x, dtype=np.float64)
    return np.stack([np.ones_like(x), x, x**2])


def drawn(sizes: dict[str, float], seed: int = 0, **noise: float) -> Fit:
    """A fit of the line whose parameters are normal draws of given sd."""
    rng = np.random.default_rng(seed)
    draws = {name: rng.normal(0, sd, 2000) for name, sd in sizes.items()} | {"a": rng.normal(1, sizes["a"], 2000)}
    table = pd.DataFrame(
        {"x": np.repeat(X, 2), "loss": np.exp(1 + 0.01 * rng.standard_normal(12)), "run": np.repeat(list("pqrstu"), 2)}
    )
    table["x"] += np.tile([0.0, 0.1], 6)
    return fixed_fit(line(), table, draws | {name: np.full(2000, sd) for name, sd in noise.items()}, noise="normal")


def logarithmic(seed: int) -> Fit:
    """A fit of a law that is linear in log x, with small errors within its runs."""
    law = parse_card(LINE.replace("b*x + c*x*x", "b*log(x) + c*log(x)*log(x)").replace("[-10, 10]", "[1, 1e9]"))
    rng = np.random.default_rng(seed)
    draws = {name: rng.normal(mean, sd, 2000) for name, mean, sd in (("a", 1, 0.01), ("b", 0, 0.01), ("c", 0, 0.001))}
    noise = {"sigma_point": np.full(2000, 0.002), "sigma_run": np.full(2000, 0.001)}
    table = pd.DataFrame(
        {"x": np.geomspace(1e3, 1e6, 8), "loss": np.exp(1 + rng.normal(0, 0.01, 8)), "run": np.repeat(list("pqrs"), 2)}
    )
    return fixed_fit(law, table, draws | noise, noise="normal")


def pool(count: int, seed: int = 0, points: int = 3) -> pd.DataFrame:
    """Candidates of several points each, at random settings."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"run": np.repeat([f"c{i}" for i in range(count)], points)})
    frame["x"] = rng.uniform(-3, 3, len(frame))
    frame["cost"] = np.repeat(np.exp(rng.uniform(0, 2, count)), points)
    return frame
