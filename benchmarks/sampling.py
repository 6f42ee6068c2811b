"""The cost of sampling: 20 tables of Form 3, the twin of every card, one gradient, and compilation by PyTensor itself.

python benchmarks/sampling.py        # prints the table kept in benchmarks/results/sampling.md
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.engine.density import Density
from bayeslaw.noise.noise import Noise

sys.path.insert(0, str(Path(__file__).parents[1]))  # the twins are those of the tests
from tests.twins import TRUTHS, settings, simulate

__all__ = ["TRUTHS", "settings", "simulate", "table"]


def table(law: bayeslaw.Law, seed: int) -> pd.DataFrame:
    """240 rows of Form 3: 4 N x PTPP {15, 31} x 3 r x 10 D, 0.15% noise per run and 0.26% per point."""
    return simulate(law, TRUTHS["ptpp-gate-floor"], settings(law), seed)


def gradient_time(law: bayeslaw.Law, runs: bayeslaw.Runs) -> float:
    """Seconds for one value and gradient, the least of five means over 2,000."""
    observed = Observations.of(law, runs)
    density = Density.of(law, observed, Noise.choose("auto", observed))
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
    """Seconds in which nutpie compiles the PyMC model of the same fit."""
    import nutpie

    model = bayeslaw.pymc_model(law, runs)
    start = time.perf_counter()
    nutpie.compile_pymc_model(model)
    return time.perf_counter() - start


def row(law: bayeslaw.Law, frame: pd.DataFrame, seed: int, **named: Any) -> dict[str, Any]:
    """A fit of one table at the defaults."""
    runs = bayeslaw.read_runs(frame)
    start = time.perf_counter()
    fit = bayeslaw.fit(law, runs, progress=False, seed=seed)
    seconds = time.perf_counter() - start
    stats, summary = fit.tree["sample_stats"], fit.summary()
    return named | {
        "ridge": fit.info["ridge"],
        "fit, s": round(seconds, 1),
        "gradients per draw": round(float(stats["n_steps"].mean()), 1),
        "divergent": int(stats["diverging"].sum()),
        "worst bulk ESS": round(float(summary["ess_bulk"].min())),
        "worst tail ESS": round(float(summary["ess_tail"].min())),
        "of": summary["ess_bulk"].idxmin(),
        "largest R-hat": round(float(summary["r_hat"].max()), 4),
    }


def main() -> None:
    print("# The cost of sampling\n\n" + banner("sampling") + "\n")
    print("4 chains of 500 + 1,000 draws, the defaults; ESS of the 4,000 draws kept. Where a law mixes slowly these are every")
    print("second of 8,000, and gradients per draw count both.\n")
    print("## Form 3, 240 rows, 20 simulated tables\n")
    law = bayeslaw.load_law("ptpp-gate-floor")
    rows = [row(law, table(law, seed), seed, table=seed) for seed in range(20)]
    print(markdown_table(rows) + "\n")
    clean, good = sum(r["divergent"] == 0 for r in rows), sum(r["worst bulk ESS"] >= 1_600 for r in rows)
    print(f"No divergence on {clean} of 20 tables; worst bulk ESS at least 1,600 on {good} of 20.\n")
    print("## The twin of every card\n\nTruths and settings of tests/twins.py.\n")
    twins = []
    for name, truth in TRUTHS.items():
        card = bayeslaw.load_law(name)
        twins += [row(card, simulate(card, truth, settings(card), seed), seed, card=name, table=seed) for seed in range(2)]
    print(markdown_table(twins) + "\n")
    runs = bayeslaw.read_runs(table(law, 0))
    print(f"One value and gradient of Form 3, 240 rows: {gradient_time(law, runs) * 1e6:.0f} microseconds.")
    print(f"Compiling the PyMC model of the same fit for nutpie, which a fit does not do: {compile_time(law, runs):.0f} s.")


if __name__ == "__main__":
    main()
