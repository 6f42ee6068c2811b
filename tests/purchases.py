"""Fits of a line and runs that could be bought, for tests of choices."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayeslaw.fits import Fit
from tests.fixed import fixed_fit, line

X = np.linspace(-1.0, 1.0, 6)
TARGETS = pd.DataFrame({"x": [4.0, 6.0]})


def drawn(sizes: dict[str, float], seed: int = 0, **noise: float) -> Fit:
    """A fit of the line whose parameters are normal draws of given sd."""
    rng = np.random.default_rng(seed)
    draws = {name: rng.normal(0, sd, 2000) for name, sd in sizes.items()} | {"a": rng.normal(1, sizes["a"], 2000)}
    table = pd.DataFrame(
        {"x": np.repeat(X, 2), "loss": np.exp(1 + 0.01 * rng.standard_normal(12)), "run": np.repeat(list("pqrstu"), 2)}
    )
    table["x"] += np.tile([0.0, 0.1], 6)
    return fixed_fit(line(), table, draws | {name: np.full(2000, sd) for name, sd in noise.items()}, noise="normal")


def pool(count: int, seed: int = 0, points: int = 3) -> pd.DataFrame:
    """Candidates of several points each, somewhere within reach."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"run": np.repeat([f"c{i}" for i in range(count)], points)})
    frame["x"] = rng.uniform(-3, 3, len(frame))
    frame["cost"] = np.repeat(np.exp(rng.uniform(0, 2, count)), points)
    return frame
