"""What sampling Form 3 costs: gradient, whitening, draws, and the compilation that the tape avoids.

python benchmarks/sampling.py        # prints the table kept in benchmarks/results/sampling.md
"""

from __future__ import annotations

import os
import platform
import time
from datetime import date
from importlib.metadata import version

import numpy as np
import pandas as pd

import bayeslaw
from bayeslaw.density import Density
from bayeslaw.noise import Noise
from bayeslaw.observations import Observations

TRUTH = {"E": 1.05, "A": 60.0, "alpha": 0.23, "B": 14.0, "beta": 0.21, "nu": 0.12, "C": 0.03, "gamma": 0.45}
TRUTH |= {"F": 1.2, "eta": 0.55, "lam": 0.35, "zeta": 0.4}


def table(law: bayeslaw.Law, seed: int) -> pd.DataFrame:
    """240 rows: 4 N x PTPP {15, 31} x 3 r x 10 D, 0.15% noise a run and 0.26% a point."""
    grid = [
        {"N": n, "D": a * n, "r": r, "ptpp": p, "run": f"{n:g}-{p}-{r}"}
        for n in (241e6, 517e6, 1.4e9, 8.1e9)
        for p in (15, 31)
        for r in (0.1, 0.25, 0.5)
        for a in np.geomspace(0.5, 20, 10)
    ]
    frame = pd.DataFrame(grid)
    rng = np.random.default_rng(seed)
    code, names = pd.factorize(frame["run"])
    expected = law.predict({k: np.array([v]) for k, v in TRUTH.items()}, {c: frame[c].to_numpy() for c in law.covariates})[0]
    noise = 0.0015 * rng.standard_normal(len(names))[code] + 0.0026 * rng.standard_normal(len(frame))
    return frame.assign(loss=expected * np.exp(noise))


def gradient_time(law: bayeslaw.Law, runs: bayeslaw.Runs) -> float:
    """Seconds for one value and gradient, the least of five means over 2,000."""
    observed = Observations.of(law, runs)
    density = Density.of(law, observed, Noise.choose("auto", observed.run))
    logp, x = density.function(), density.start()
    logp(x)
    means = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(2_000):
            logp(x)
        means.append((time.perf_counter() - start) / 2_000)
    return min(means)


def compile_time(law: bayeslaw.Law, runs: bayeslaw.Runs) -> float:
    """Seconds nutpie takes to compile the readable PyMC model of the same fit."""
    import nutpie

    model = bayeslaw.pymc_model(law, runs)
    start = time.perf_counter()
    nutpie.compile_pymc_model(model)
    return time.perf_counter() - start


def main() -> None:
    law = bayeslaw.load_law("ptpp-gate-floor")
    rows = []
    for seed in range(5):
        runs = bayeslaw.read_runs(table(law, seed))
        start = time.perf_counter()
        fit = bayeslaw.fit(law, runs, progress=False, seed=seed)
        seconds = time.perf_counter() - start
        stats, summary = fit.tree["sample_stats"], fit.summary()
        rows.append(
            {
                "table": seed,
                "spine": fit.info["spine"],
                "fit_seconds": round(seconds, 1),
                "gradients_per_draw": round(float(stats["n_steps"].mean()), 1),
                "divergent": int(stats["diverging"].sum()),
                "worst_ess_bulk_of_4000": round(float(summary["ess_bulk"].min())),
                "worst_ess_tail_of_4000": round(float(summary["ess_tail"].min())),
                "largest_r_hat": round(float(summary["r_hat"].max()), 4),
            }
        )
    runs = bayeslaw.read_runs(table(law, 0))
    versions = ", ".join(f"{p} {version(p)}" for p in ("bayeslaw", "nutpie", "numba", "pymc"))
    print("# Sampling Form 3, 240 rows, defaults\n")
    print(
        f"`python benchmarks/sampling.py`, {date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}\n"
    )
    print(pd.DataFrame(rows).to_string(index=False))
    print(f"\none value and gradient: {gradient_time(law, runs) * 1e6:.0f} microseconds")
    print(f"compiling the PyMC model of the same fit for nutpie, which a fit does not do: {compile_time(law, runs):.0f} s")


if __name__ == "__main__":
    main()
