"""Fits of the laws of the dynamics with fixed draws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import trace
from bayeslaw.schedules.schedule import constant, cosine, wsd
from tests.fixed import fixed_fit
from tests.oracles import Array

SOURCE = {"L0": 3.0, "A": 0.5, "alpha": 0.5, "C1": 0.28, "C2": 0.26, "B": 0.26, "E": 100.0, "beta": 0.3}
TARGET = {"L0": 2.9, "A": 0.5, "alpha": 0.5, "C1": 0.28, "C2": 0.30, "B": -0.5, "E": 100.0, "beta": 0.3}
SPREAD = {"L0": 0.003, "A": 0.05, "alpha": 0.05, "C1": 0.1, "C2": 0.1, "B": 0.08, "E": 0.3, "beta": 0.15}  # relative
NOISE = {"sigma_point": 0.002, "sigma_run": 0.001}


@cache
def curves(every: int = 500) -> pd.DataFrame:
    """Return settings along two pre-trainings and three adaptations of each, all with the same loss."""
    parts = []
    for name, first in (("constant", constant(8000, 2e-4, warmup=200)), ("wsd", wsd(8000, 2e-4, warmup=200))):
        table, end = trace(first, np.arange(every, 8001, every))
        parts.append(table.assign(run=name))
        for other, second in (
            ("low", constant(4000, 5e-5)),
            ("cosine", cosine(4000, 4e-4, warmup=100)),
            ("high", constant(4000, 1e-3, warmup=50)),
        ):
            table, _ = trace(second, np.arange(0, 4001, every), end, phase="adapt")
            parts.append(table.assign(run=f"{name}-{other}"))
    return pd.concat(parts, ignore_index=True).assign(loss=3.0)


def spread_draws(values: Mapping[str, float], size: int = 2000, seed: int = 0, scale: float = 1.0) -> dict[str, Array]:
    """Return independent draws (size,) around parameter values."""
    rng = np.random.default_rng(seed)
    draws = {k: v * np.exp(scale * SPREAD[k] * rng.standard_normal(size)) for k, v in values.items()}
    return draws | {k: np.full(size, v) for k, v in NOISE.items()}


@cache
def fits(size: int = 1200, scale: float = 1.0) -> tuple[Fit, Fit]:
    """Return fits of the source's and the target's losses."""
    return dynamics_fit(SOURCE, size=size, scale=scale), dynamics_fit(TARGET, size=size, seed=1, scale=scale)


def dynamics_fit(values: Mapping[str, float], *, size: int = 2000, seed: int = 0, scale: float = 1.0, **options: Any) -> Fit:
    """Return a fit of eq. 4 with draws around some values; `unit` is that of its losses."""
    draws, table = spread_draws(values, size, seed, scale), curves().assign(unit=options.pop("unit", "nats/token"))
    return fixed_fit(load_law("cpt-dynamics"), table, draws, noise="normal", **options)
