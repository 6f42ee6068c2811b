"""Losses of two domains whose floor and model-size exponent differ."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests import oracles

BY = {"E": "domain", "alpha": "domain"}
LEVELS = {"domain": ("web", "code (py)")}
VALUES = {"E": (1.6, 0.8), "A": (40.0, 40.0), "alpha": (0.3, 0.28), "B": (90.0, 90.0), "beta": (0.28, 0.28)}


def two_domains(seed: int = 0, noise: float = 0.003) -> pd.DataFrame:
    """Chinchilla's law with a floor and an exponent for each domain, 5 N x 8 D each, noise on single points."""
    parts = []
    for i, domain in enumerate(LEVELS["domain"]):
        frame = pd.DataFrame([{"N": n, "D": d} for n in np.geomspace(1e7, 1e9, 5) for d in np.geomspace(1e8, 1e10, 8)])
        loss = oracles.chinchilla({k: v[i] for k, v in VALUES.items()}, dict(frame))
        parts.append(frame.assign(domain=domain, loss=loss * np.exp(noise * np.random.default_rng([seed, i]).standard_normal(40))))
    return pd.concat(parts, ignore_index=True)
