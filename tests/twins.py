"""Simulated tables ("twins") of every card: truths, settings and losses with known noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from bayeslaw.laws.law import Law
from tests.curves import curves
from tests.oracles import Array, measured

POINT, RUN = 0.0026, 0.0015  # noise of the simulated tables

FORM_3 = {"E": 1.05, "A": 60.0, "alpha": 0.23, "B": 14.0, "beta": 0.21, "nu": 0.12, "C": 0.03, "gamma": 0.45}
FORM_3 |= {"F": 1.2, "eta": 0.55, "lam": 0.35, "zeta": 0.4}
# Twins of the paper's target and source at its noise (its oracle misses by .2%): gate and floor both matter.
FRENCH = FORM_3 | {"B": 40.0, "beta": 0.35, "F": 3.0, "eta": 0.5, "lam": 0.5, "zeta": 0.3}
SOURCE = FORM_3 | {"E": 1.3, "A": 90.0, "B": 30.0, "beta": 0.3, "F": 2.0, "eta": 0.4, "lam": 0.5, "zeta": 0.3}
TRUTHS = {
    "chinchilla": {"E": 1.82, "A": 482.0, "alpha": 0.348, "B": 2085.0, "beta": 0.366},
    "chinchilla-nd": {"E": 1.6, "A": 480.0, "alpha": 0.35, "B": 300.0, "beta": 0.28, "C": 3e11, "gamma": 0.3, "delta": 1.1},
    "kaplan": {"A": 11.2, "alpha": 0.076, "B": 23.19, "beta": 0.103},
    "repeated-epochs": {"E": 1.87, "A": 521.0, "alpha": 0.353, "B": 1488.0, "beta": 0.353, "R_D": 15.4, "R_N": 5.31},
    "parallel-scaling": {"E": 1.2886, "A": 42.489, "alpha": 0.19628, "k": 0.3344},
    "cpt-joint": {"E": 1.55, "A": 420.0, "alpha": 0.4, "B": 719.5, "beta": 0.3, "B_cpt": 433.3, "beta_cpt": 0.2, "gamma": 0.08},
    "d-cpt": {k: FORM_3[k] for k in ("E", "A", "alpha", "B", "beta", "nu", "C", "gamma")},
    "ptpp-floor": {k: FORM_3[k] for k in ("E", "A", "alpha", "B", "beta", "nu", "C", "gamma", "F", "eta")},
    "ptpp-gate": {k: FORM_3[k] for k in ("E", "A", "alpha", "B", "beta", "nu", "C", "gamma", "lam", "zeta")},
    "ptpp-gate-floor": FORM_3,
}
TRANSFER = {"E": 1.05, "A": 60.0, "alpha": 0.23, "F": 3.0, "delta": 0.05, "eta": 0.33}
TRUTHS["transfer-target"] = TRANSFER | {"tau": 4e9, "kappa": 0.5, "G": 0.9, "c": 0.25, "h": 1e8, "q": 0.3}
TRUTHS["replay-target"] = {"E": 1.0, "F": 0.3, "tau": 5e9, "kappa": 0.5, "G": 1.0, "c": 0.3, "h": 2e8, "q": 0.4}
TRUTHS["replay-source"] = {"E": 1.5, "F": 0.3, "T": 5e9, "eta": 0.33, "S": 0.2, "c": 0.25, "h": 1e8, "k": 1.0}
TRUTHS["forgetting"] = {"E": 1.8, "S": 0.2, "h": 4e8, "G": 0.08, "T": 2e10}
TRUTHS["fine-tuning"] = {"E": 1.0, "G": 1.2, "h": 5e8, "q": 0.4}
ANNEALING = {"L0": 2.6, "A": 0.5, "alpha": 0.5}
SHIFT = {"C1": 0.5, "C2": 0.4, "B": 0.3, "E": 40.0, "beta": 0.4}
TRUTHS["combination"] = {"k": 1.05, "q": 0.6}
TRUTHS["annealing"] = ANNEALING | {"C": 0.5}
TRUTHS["annealing-lr-weighted"] = ANNEALING | {"C": 1.0}
TRUTHS["annealing-power"] = ANNEALING | {"C": 0.5, "zeta": 1.1}
TRUTHS["multi-power"] = ANNEALING | {"B": 450.0, "C": 2.0, "beta": 0.6, "gamma": 0.6}
TRUTHS["cpt-dynamics"] = ANNEALING | SHIFT
TRUTHS["cpt-dynamics-lr-weighted"] = ANNEALING | SHIFT | {"C1": 1.0, "C2": 0.8}
TRUTHS["cpt-dynamics-power"] = ANNEALING | SHIFT | {"B": -0.8, "zeta1": 1.1, "zeta2": 0.9}
TRUTHS["cpt-dynamics-size"] = ANNEALING | SHIFT | {"L0": 1.5, "C1": 0.1, "C2": 0.1, "gamma1": 0.08, "gamma2": 0.08}
TRUTHS["cpt-dynamics-size"] |= {"F": 100.0, "gamma3": 0.25}
TRUTHS["cpt-dynamics-replay-source"] = ANNEALING | SHIFT | {"a1": 0.1, "a2": 3.0}
TRUTHS["cpt-dynamics-replay-target"] = ANNEALING | SHIFT | {"a1": 0.1, "a2": 1.5, "B": 0.2}
TRUTHS["cpt-dynamics-open"] = ANNEALING | {k: v for k, v in SHIFT.items() if k != "C1"} | {"S1_pt": 8.0, "B": -0.8}
TRUTHS["transfer-source"] = TRANSFER | {"S": 0.5, "c": 3.0, "h": 4e8, "q": 0.5, "J": 0.05}
PLATEAU = {"E": 1.3, "U": 5.0, "A": 480.0, "alpha": 0.4, "B": 320.0, "beta": 0.35}
FORGETTING = {"S": 0.06, "c": 0.25, "h": 1000.0, "k": 2.0, "J": 0.05}
TRUTHS["plateau-source"] = PLATEAU | FORGETTING
TRUTHS["plateau-target"] = PLATEAU | {"tau": 4e9, "kappa": 0.5, "G": 0.9, "c": 0.25, "s": 0.025, "q": 0.3}
TRUTHS["from-base-source"] = FORGETTING | {"U": 6.0, "eta": 0.2, "S": 0.4, "nu": 0.13, "c": 1.0, "h": 1e4}
TRUTHS["reuse-saturation"] = {"E": 1.05, "A": 0.9, "alpha1": 0.15, "alpha2": 0.22, "alpha3": 0.01, "B": 60.0, "beta": 0.25}
TRUTHS["midtraining"] = {"E": 1.05, "A": 300.0, "alpha": 0.35, "B": 120.0, "beta": 0.256, "G": 12.0, "gamma": 0.137}
TRUTHS["observational-skill"] = {"low": 0.1, "b": 0.3, "w1": 1.2, "w2": 0.5, "w3": -0.3}
TRUTHS["task-direct"] = {"A": 300.0, "alpha": 0.35, "B": 500.0, "beta": 0.3}
TRUTHS["task-exp"] = {"eps": 0.85, "k": 1.6, "gamma": 0.7}
TRUTHS["task-loss"] = {"E": 0.6, "A": 60.0, "alpha": 0.3, "B": 90.0, "beta": 0.28}
TRUTHS["task-sigmoid"] = {"L0": 2.6, "k": 2.5, "top": 0.9}
TRUTHS["farseer"] = {"E": 1.7, "e": 0.12, "gamma": 0.17, "B": 300.0, "g": 0.1, "beta": 0.1, "alpha": 0.32, "h": 0.12, "delta": 0.15}
TRUTHS["lr-batch"] = TRUTHS["chinchilla"] | {"c": 1.79, "eta": 0.713, "xi": 0.307, "b": 0.58, "nu": 0.571}
TRUTHS["lr-batch"] |= {"kappa": 0.5, "U": 0.03, "s": 0.5, "W": 0.02}
TRUTHS["overtraining"] = {"E": 1.84, "a": 212.0, "b": 367.0, "eta": 0.136}
TRUTHS["precision"] = {"E": 2.0, "A": 900.0, "alpha": 0.36, "B": 2100.0, "beta": 0.37}
TRUTHS["precision"] |= {"gamma_w": 2.67, "gamma_a": 2.2, "gamma_kv": 1.0}
TRUTHS["granular-experts"] = {"E": 0.8, "A": 18.1, "alpha": 0.115, "F": 2.1, "gamma": 0.58, "B": 30.8, "beta": 0.147}
TRUTHS["sparse-experts"] = {"E": 0.94, "A": 900.0, "alpha": 0.4, "B": 2100.0, "beta": 0.37, "F": 0.46, "lam": 0.17}
TRUTHS["sparse-experts"] |= {"G": 17.26, "delta": 0.16, "gamma": 0.16}
TRUTHS["vocabulary"] = {"E": -5.5, "A1": 1.83, "alpha1": 0.45, "A2": 0.4, "alpha2": 0.5, "B": 2.1, "beta": 0.46}
OF_SHARES = {"u_web": 0.3, "u_code": -2.0, "u_books": 1.5}
TRUTHS["data-mixing"] = {"c": 2.2, "k": 0.5, "t_web": -0.5, "t_code": 0.8, "t_books": -1.5}
TRUTHS["mixture-power"] = OF_SHARES | {"c": 2.2, "k": 0.6, "alpha": 0.25}
TRUTHS["bimix"] = OF_SHARES | {"C": 2.5, "alpha": 0.1, "B": 300.0, "beta": 0.3}
TRUTHS["mixture-scaling"] = TRUTHS["chinchilla"] | OF_SHARES | {"p": 1.6, "gamma": 0.1}
TRUTHS["injection"] = {"A": 2.0, "alpha": 0.4, "beta": 0.3, "B": 300.0}


def settings(
    law: Law, stages: tuple[float, ...] = (15, 31), sizes: tuple[float, ...] = (241e6, 517e6, 1.4e9, 8.1e9)
) -> pd.DataFrame:
    """4 N x stages x 3 r x 10 D, one run for each curve; other covariates of a law in place of r and ptpp.

    Laws that are finite there get the base checkpoints (D = 0) too. Laws of the dynamics get 8 trainings under several schedules,
    30 rows each, in both phases; those of an open model the second phase only.
    """
    if "lr_peak" in law.covariates:
        frame = curves(8, 30, changes=bool(law.series))
        frame = frame if "S1_pt" not in law.parameters else frame[frame["S1_cpt"] > 0]
        return frame[[*law.covariates, "run"]].reset_index(drop=True)
    if TASKS & set(law.covariates):
        return tasks(law)
    if law.shares:
        return mixtures(law, sizes)
    rows = []
    base = "D" in law.covariates and law.covariates["D"].support[0] == 0
    for n in sizes:
        for stage in stages:
            if base:
                rows.append({"N": n, "D": 0.0, "r": -1.0, "ptpp": stage, "cpt": 0.0})
            for r in (0.1, 0.25, 0.5):
                for atpp in np.geomspace(0.5, 20, 10):
                    own = {"cpt": float(stage == stages[-1]), "U": 0.4 * r * stage * n, "P": 20 * r}
                    own |= {"base_loss": 1.5 + 90 / n**0.23 + 3 / stage**0.4}
                    own |= {"L_source": 2.5 + 0.01 * atpp / r, "L_target": 3.0 - 0.3 * np.log(atpp + 1) * (1 - r)}
                    rows.append({"N": n, "D": atpp * n, "r": r, "ptpp": stage, **own, **recipe(len(rows))})
    frame = pd.DataFrame(rows)
    runs = frame[["N", "r", "ptpp"]].astype(str).agg("-".join, axis=1)
    frame["r"] = frame["r"].where(frame["r"] > 0, 0.25)  # of no consequence at D = 0
    return frame[list(law.covariates)].assign(run=runs)


def recipe(row: int) -> dict[str, float]:
    """How the model of a row was built and trained: covariates that turn at paces of their own."""
    return {
        "lr": 2e-4 * 2.0 ** (row % 5),
        "batch": 6e4 * 2.0 ** (row % 7),
        "bits_w": (3.0, 4.0, 6.0, 16.0)[row % 4],
        "bits_a": (16.0, 4.0, 6.0)[row % 3],
        "bits_kv": (2.0, 3.0, 16.0, 4.0, 16.0)[row % 5],
        "G": 2.0 ** (row % 7),
        "active": 0.5 ** (row % 7),
        "Nv": 2e6 * 3.0 ** (row % 7),
    }


def mixtures(law: Law, sizes: tuple[float, ...]) -> pd.DataFrame:
    """12 mixtures x 4 N, one run each, logged at 5 D; laws without N and D see runs that end at equal settings."""
    shares = np.random.default_rng(0).dirichlet(np.ones(len(law.shares)), 12)
    rows = [
        {"N": n, "D": atpp * n, **dict(zip(law.shares, mixture, strict=True)), "run": f"{n:g}-{i}"}
        for n in sizes
        for i, mixture in enumerate(shares)
        for atpp in np.geomspace(2, 40, 5)
    ]
    return pd.DataFrame(rows)[[*law.covariates, "run"]]


TASKS = {"items", "loss"}


def tasks(law: Law) -> pd.DataFrame:
    """20 models, each evaluated at five checkpoints on 2000 questions with four answers."""
    run = np.repeat(np.arange(20), 5)
    place, rng = np.tile(np.linspace(0, 1, 5), 20), np.random.default_rng(0)
    size = np.geomspace(1e8, 1e10, 20)[run]
    columns = {
        "N": size,
        "D": size * np.array([5.0, 20.0, 80.0])[run % 3] * 10 ** (place - 1),
        "loss": 3.8 - 0.09 * run - 0.4 * place,
        "chance": np.full(run.size, 0.25),
        "items": np.full(run.size, 2000.0),
        **{f"S{i}": rng.standard_normal(20)[run] + 0.2 * place for i in (1, 2, 3)},
    }
    return pd.DataFrame({name: columns[name] for name in law.covariates}).assign(run=[f"model {i}" for i in run])


def without_noise(law: Law, truth: Mapping[str, float], at: pd.DataFrame | Mapping[str, Array]) -> Array:
    """The law's outcomes (n,) under a truth, which may have more values than the law's parameters, at settings (n,)."""
    draws = {name: np.array([truth[name]]) for name in law.parameters}
    return np.asarray(law.predict(draws, {name: np.asarray(at[name]) for name in law.covariates})[0])


def noise(law: Law) -> dict[str, float]:
    """The noise of simulated tables: relative to a loss, or of an accuracy in logits."""
    if law.outcome.kind in ("positive", "real"):
        return {"sigma_point": POINT, "sigma_run": RUN}
    return {"sigma_point": 0.03, "sigma_run": 0.06}


def simulate(law: Law, truth: dict[str, float], frame: pd.DataFrame, seed: int, sigma_run: float | None = None) -> pd.DataFrame:
    """The frame with losses, or other outcomes, of a truth, an effect for each run and noise for each point."""
    rng, scales = np.random.default_rng(seed), noise(law)
    expected = without_noise(law, truth, frame)
    code, names = pd.factorize(frame["run"])
    added = (scales["sigma_run"] if sigma_run is None else sigma_run) * rng.standard_normal(len(names))[code]
    if law.outcome.kind != "count":
        added = added + scales["sigma_point"] * rng.standard_normal(len(frame))
    return frame.assign(
        **{law.outcome.name: measured(law, expected, {str(c): frame[c] for c in frame}, added, rng, scales["sigma_point"])}
    )
