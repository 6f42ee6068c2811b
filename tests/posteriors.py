"""Fits with draws that are given, not sampled, for tests of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.planning.plan import Plan, PlanPoint
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.fixed import fixed_fit
from tests.values import present

SCATTER = 0.02
# Published forms with losses near those of Goffinet et al. 2025: 1.8 nats of French at 8.9 tokens per parameter.
SOURCE = {"E": 1.3, "A": 60.0, "alpha": 0.3, "B": 3.0, "beta": 0.2, "nu": 0.1, "C": 0.11, "gamma": 0.25, "F": 0.5, "eta": 0.4}
TARGET = {
    "E": 1.2, "A": 60.0, "alpha": 0.3, "B": 150.0, "beta": 0.3, "nu": 0.35, "C": 0.01, "gamma": 0.2, "F": 0.4, "eta": 0.4,
    "lam": 0.3, "zeta": 0.5,
}  # fmt: skip
law_named = cache(load_law)  # reading a card checks it, which takes longer than anything else here
ZHENG = dict(law_named("cpt-joint").published["Zheng et al. 2024, table 2"])
# The plan of Goffinet et al. 2025: at 8.9 tokens per parameter and 34% replay the source loss is 2% over its base loss BASE, and
# the target loss is LIMIT.
MODEL = {"N": 8.1e9, "ptpp": 279.0}
PLACE = {k: np.array([v]) for k, v in (MODEL | {"D": 8.9 * 8.1e9, "r": 0.34}).items()}
BASE = float(oracles.ptpp_floor(SOURCE, PLACE)[0]) / 1.02
LIMIT = float(oracles.ptpp_gate_floor(TARGET, PLACE)[0])
START = {"N": 1e7, "ptpp": 15.0}  # the first run of `oracles.table`, whose base loss is 3


def scattered(values: Mapping[str, float], size: int, seed: int, scatter: float = SCATTER) -> dict[str, NDArray[np.float64]]:
    """Independent log-normal draws around values."""
    rng = np.random.default_rng(seed)
    return {k: v * np.exp(scatter * rng.standard_normal(size)) for k, v in values.items()}


def source_fit(size: int) -> Fit:
    return posterior("ptpp-floor", scattered(SOURCE, size, 1, 0.006), seed=1)


def target_fit(size: int) -> Fit:
    return posterior("ptpp-gate-floor", scattered(TARGET, size, 2, 0.006), seed=2)


def best_of(plan: Plan) -> PlanPoint:
    """The tokens and replay of a plan that is feasible."""
    return present(plan.best)


def posterior(
    law: Law | str,
    draws: Mapping[str, Any],
    *,
    frame: pd.DataFrame | None = None,
    by: Mapping[str, str] | None = None,
    seed: int = 0,
    sigma: tuple[float, float] = (0.003, 0.002),
    sigma_checkpoint: float = 0.0,
    checks: tuple[Any, ...] = (),
) -> Fit:
    """A fit with these draws, arrays (S,), of the parameters of a law, and normal noise with effects of runs.

    Checkpoints have effects where their scale is given.
    """
    law = law_named(law) if isinstance(law, str) else law
    size = np.size(next(iter(draws.values())))
    scales = {"sigma_point": sigma[0], "sigma_run": sigma[1], "sigma_checkpoint": sigma_checkpoint}
    whole = dict(draws) | {name: np.full(size, scale) for name, scale in scales.items()}
    noise = "normal-checkpoint" if sigma_checkpoint else "normal"
    fit = fixed_fit(law, oracles.table(law) if frame is None else frame, whole, noise=noise, by=by)
    return replace(fit, checks=checks, info={**fit.info, "seed": seed})


def repeated(name: str, values: Mapping[str, float], size: int = 8) -> Fit:
    """A fit all of whose draws are the same."""
    return posterior(name, {k: np.full(size, v) for k, v in values.items()})


def starting(*losses: float, size: int = 2000) -> Fit:
    """A fit of from-base-source whose table has rows with D = 0 of checkpoints base 0, base 1, … of the model `START`."""
    law = law_named("from-base-source")
    names = [f"base {i}" for i in range(len(losses))]
    rows = {"run": names, "checkpoint": names, "D": 0.0, "r": np.nan, "loss": losses, "base_loss": losses}
    table = pd.concat([oracles.table(law), pd.DataFrame(rows | START)], ignore_index=True)
    return posterior(law, scattered(oracles.typical(law), size, 1, 0.004), frame=table, seed=1)


def learning(fit: Fit) -> Fit:
    """The fit as one that was asked to learn the law's error, and learnt none inside its runs."""
    return replace(fit, info={**fit.info, "discrepancy": {"asked": "learned", "learned": False, "reason": "…"}})
