"""Forecasts of many settings: 4,000 draws of Form 3 at 100,000 different settings, quantiles of both spreads.

python benchmarks/throughput.py          # prints the table kept in benchmarks/results/throughput.md
"""

from __future__ import annotations

import resource
import time

import numpy as np
import pandas as pd
from sampling import table
from tables import banner, markdown_table

import bayeslaw


def main() -> None:
    law = bayeslaw.load_law("ptpp-gate-floor")
    fit = bayeslaw.fit(law, bayeslaw.read_runs(table(law, 0)), progress=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rng, rows = np.random.default_rng(0), []
    for n in (1_000, 100_000):
        low, high = np.log([1e8, 1e8, 0.05, 15]), np.log([1e11, 1e13, 0.5, 279])
        at = pd.DataFrame(np.exp(rng.uniform(low, high, (n, 4))), columns=list(law.covariates))
        start = time.perf_counter()
        summary = fit.forecast(at).summary()
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append({"settings": f"{len(summary):,}", "s": f"{seconds:.1f}", "peak memory, MiB": f"{peak:.0f}"})
    print("# Forecasts of many settings\n\n" + banner("throughput") + "\n")
    print(f"4,000 draws; the whole process, the fit included, had used {before:.0f} MiB before.\n")
    print(markdown_table(rows))


if __name__ == "__main__":
    main()
