"""Fits whose draws are given, not sampled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import pandas as pd
import xarray as xr

import bayeslaw
from bayeslaw.data.observations import Observations, clock_column
from bayeslaw.data.table import Runs, Source, read_runs
from bayeslaw.engine.density import Density
from bayeslaw.inference.sample import Sample, SamplerSettings
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.noise.noise import DRIFT, Noise
from bayeslaw.posterior.diagnostics import Check, table_of
from bayeslaw.posterior.fit import Fit, tree_of
from bayeslaw.posterior.storage import FORMAT, PLAIN, contents_digest, data_digest, draws_digest
from tests.oracles import OWN, TYPICAL, Array, jacobian, typical
from tests.oracles import table as oracle_table

LINE = """
name   = "line"
title  = "Log loss that is linear in its parameters"
source = "a test"
loss   = "exp(a + b*x + c*x*x)"
[covariates]
x = { unit = "units", support = [-10, 10] }
[parameters.a]
meaning = "level"
prior = { dist = "Normal", mu = 1.0, sigma = 0.3 }
[parameters.b]
meaning = "slope"
prior = { dist = "Normal", mu = 0.0, sigma = 0.3 }
[parameters.c]
meaning = "bend"
prior = { dist = "Normal", mu = 0.0, sigma = 0.3 }
"""


def line() -> Law:
    """A law of which everything is known when its parameters are normal and those of its noise fixed."""
    return parse_card(LINE)


def apart_fit(*, size: int = 4000, labs: tuple[str, str] = ("a", "b_1"), passed: bool = True) -> Fit:
    """`line` with a level a for each of two domains and noise for each of two labs: a run of 3 rows for each of the four."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        [
            {"x": x, "domain": domain, "lab": lab, "run": f"{domain}, {lab}", "loss": float(np.exp(level + 0.1 * x))}
            for domain, level in (("web", 1.0), ("code", 0.5))
            for lab in labs
            for x in (-1.0, 0.0, 1.0)
        ]
    )
    values = {"a": 0.7, "a_spread": 0.3, "a_web": 1.0, "a_code": 0.5, "b": 0.1, "c": 0.0}
    draws = {name: value + 0.001 * rng.standard_normal(size) for name, value in values.items()}
    fixed = {f"sigma_point[{labs[0]}]": 0.002, f"sigma_point[{labs[1]}]": 0.05}
    fixed |= {f"sigma_run[{lab}]": 0.001 for lab in labs}
    draws |= {name: np.full(size, value) for name, value in fixed.items()}
    return fixed_fit(line(), table, draws, noise="normal", noise_by="lab", by={"a": "domain"}, passed=passed)


def fixed_fit(
    law: Law,
    table: pd.DataFrame,
    draws: Mapping[str, Array],
    *,
    noise: str = "auto",
    noise_by: str | None = None,
    by: Mapping[str, str] | None = None,
    passed: bool = True,
    run_effect: Array | None = None,
) -> Fit:
    """A fit of a table whose posterior draws (S,) are given, and those of run effects (R, S) where they are parameters."""
    runs, card = read_runs(table), law.card
    law = with_by(law, by or {})
    law = with_levels(law, levels_of(law, runs.frame))
    observed = Observations.of(law, runs, noise_by, clock_column(runs.frame, law) if noise == DRIFT else "")
    chosen = Noise.choose(noise, observed)
    by_chain: dict[str, Any] = {name: np.asarray(draws[name]).reshape(4, -1) for name in (*law.parameters, *chosen.parameters)}
    if run_effect is not None:
        by_chain["run_effect"] = np.asarray(run_effect).T.reshape(4, -1, observed.runs)
    size = next(iter(by_chain.values())).shape[1]
    stats = xr.Dataset(coords={"chain": np.arange(4), "draw": np.arange(size)})
    settings = {"draws": size, "tune": 100, "chains": 4, "target_accept": 0.975, "bins": None}
    info: dict[str, Any] = {
        "card": card,
        "priors": {k: p.prior.table for k, p in law.parameters.items()},
        "noise_by": noise_by,
        "by": dict(by or {}),
        "levels": law.levels,
        "data": "old.csv",
        "sources": [asdict(Source("old.csv", len(table), seed=3))],
        "conversions": [],
        "settings": settings,
        "seed": 3,
    }
    informed = pd.DataFrame({"prior_overlap": dict.fromkeys((*law.parameters, *chosen.parameters), 0.1)})
    checks = (
        Check("r_hat", passed, "largest R-hat 1.4", "sampling", pd.DataFrame()),
        Check("informed", True, "the data inform every parameter", "note", informed),
    )
    tree = tree_of(by_chain, stats, observed)
    info |= {"data_sha256": data_digest(tree), "draws_sha256": draws_digest(tree), "versions": {}, "interrupted": False}
    info |= {  # a file of the fit needs these too
        "bayeslaw_format": FORMAT,
        "law_sha256": law.sha256,
        "noise": chosen.table,
        "unit": observed.unit,
        "at": observed.at,
        "clock": {"column": observed.clock_column, "span": observed.span},
        "base": observed.base.to_dict(orient="list"),
        "checks": table_of(checks),
    }
    tree.attrs = {k: v if k in PLAIN else json.dumps(v, default=str) for k, v in info.items()}
    tree.attrs["contents_sha256"] = info["contents_sha256"] = contents_digest(tree)
    return Fit(tree, law, chosen, observed, checks, info)


def line_fit(
    *,
    size: int = 4000,
    noise: str = "normal",
    point: float = 0.01,
    run: float = 0.01,
    names: Sequence[str] = ("r0", "r1", "r2", "r3"),
    checkpoint: str | None = "checkpoint",
    **options: Any,
) -> Fit:
    """`line` fitted to 4 runs of 3 rows, two for each checkpoint if there are any: parameters jointly normal, noise fixed."""
    rng, x = np.random.default_rng(0), np.tile([-1.0, 0.0, 1.0], 4)
    code = np.repeat(np.arange(4), 3)
    table = pd.DataFrame(
        {"x": x, "loss": np.exp(1 + 0.1 * x), "run": [names[int(i)] for i in code], "checkpoint": [f"k{i // 2}" for i in code]}
    )
    if checkpoint is None:
        del table["checkpoint"]
    table["step"] = np.tile([0.0, 100.0, 400.0], 4)
    root = np.array([[0.02, 0.0, 0.0], [0.01, 0.02, 0.0], [-0.01, 0.01, 0.01]])
    values = np.array([1.0, 0.1, 0.02]) + rng.standard_normal((size, 3)) @ root.T
    fixed = {"sigma_point": point, "sigma_run": run, "sigma_checkpoint": 0.02, "run_excess": 0.01, "dof": 5.0, "drift": 0.5}
    draws = dict(zip("abc", values.T, strict=True)) | {name: np.full(size, value) for name, value in fixed.items()}
    return fixed_fit(line(), table, draws, noise=noise, **options)


def typical_fit(name: str, *, runs: int = 8, size: int = 1200, passed: bool = True) -> Fit:
    """A fit of a law of the package to `runs` runs, with draws within some 1% of its typical values."""
    law, rng = load_law(name), np.random.default_rng(0)
    values = {**typical(law), "sigma_point": 0.005, "sigma_run": 0.004}
    draws = {key: value * np.exp(0.01 * rng.standard_normal(size)) for key, value in values.items()}
    return fixed_fit(law, oracle_table(law, runs=runs), draws, noise="normal", passed=passed)


def measured(fit: Fit, se: float, size: int, *, seed: int = 1) -> pd.DataFrame:
    """New runs of one row each that a `line_fit` with normal noise draws itself, measured with a known error (nats)."""
    rng = np.random.default_rng(seed)
    x, draw = rng.uniform(-1, 1, size), rng.integers(0, fit.draws["a"].size, size)
    latent = fit.draws["a"][draw] + fit.draws["b"][draw] * x + fit.draws["c"][draw] * x**2
    noise = np.hypot(fit.draws["sigma_point"], fit.draws["sigma_run"])[draw] * rng.standard_normal(size)
    loss = np.exp(latent + noise) + se * rng.standard_normal(size)
    return pd.DataFrame({"x": x, "loss": loss, "loss_se": se, "run": [f"n{i}" for i in range(size)]})


STAND_IN = {
    "sigma_point": 0.005, "sigma_run": 0.004, "sigma_checkpoint": 0.003, "run_excess": 0.003, "dof": 8.0, "drift": 0.5,
    "discrepancy": 0.005, "a": 1.0, "b": 0.1, "c": 0.02,
}  # fmt: skip
"""Parameters of the noise and of `line` around which `stand_in` draws."""


def stand_in(density: Density, settings: SamplerSettings) -> Sample:
    """Draws in place of the sampler's: normal in log parameters around typical values, as precise as the losses allow.

    The covariance is that of the linearised law under point noise, with a standard deviation of 5% where the losses leave it open.
    """
    draws, chains, rng = settings.draws, settings.chains, np.random.default_rng(settings.seed)
    law, observed = density.law, density.observed
    values = TYPICAL | OWN.get(law.name, {}) | (STAND_IN if law.name == "line" else {})
    center = {k: values.get(p.around[0] if p.around else k, 0.1) for k, p in law.parameters.items()}
    names = list(center)

    def log_loss(x: Array) -> Array:
        moved = {k: np.array([center[k] * np.exp(s)]) for k, s in zip(names, x, strict=True)}
        return np.asarray(np.log(law.predict(moved, observed.covariates)[0]))

    slopes = jacobian(log_loss, np.zeros(len(names)), 1e-5) / STAND_IN["sigma_point"]
    root = np.linalg.cholesky(np.linalg.inv(slopes.T @ slopes + np.eye(len(names)) / 0.05**2))
    scatter = np.exp(rng.standard_normal((chains, draws, len(names))) @ root.T)
    sampled = {k: center[k] * scatter[..., i] for i, k in enumerate(names)}
    for name in density.noise.parameters:
        sampled[name] = STAND_IN[name.partition("[")[0]] * np.exp(0.1 * rng.standard_normal((chains, draws)))
    if density.noise.explicit_effects:
        sampled["run_effect"] = sampled["sigma_run"][..., None] * rng.standard_normal((chains, draws, observed.runs))
    dims, shape = ("chain", "draw"), (chains, draws)
    stats = {"diverging": (dims, np.zeros(shape, dtype=bool)), "energy": (dims, rng.standard_normal(shape))}
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    return Sample(sampled, xr.Dataset(stats, coords=coords), stats["energy"][1], None, False)


@contextmanager
def without_sampling() -> Iterator[None]:
    """`bayeslaw.fit` takes draws of `stand_in` in this block: fits have all but a posterior's numbers."""
    with patch.object(import_module("bayeslaw.inference.sample"), "sample", stand_in):
        yield


def stand_in_fit(law: Law | str, table: pd.DataFrame | Runs, **options: Any) -> Fit:
    """A fit of a table with draws of `stand_in`."""
    with without_sampling():
        return bayeslaw.fit(law, table, **{"chains": 2, "seed": 1, "progress": False, **options})


def loaded_fit(path: str | Path) -> Fit:
    """The fit in a file, which is not one of a stack."""
    fit = bayeslaw.load_fit(path)
    assert isinstance(fit, Fit)
    return fit


def edit(path: Path, **attributes: Any) -> None:
    """Change attributes of the file of a fit or a stack."""
    with h5py.File(path, "r+") as file:
        for name, value in attributes.items():
            file.attrs[name] = value
