"""Forecasts of models of usual sizes far beyond the fitted stages, on simulated truths with several exponents of pre-training.

    python benchmarks/real_sizes.py          # prints the table kept in benchmarks/results/real_sizes.md

Losses are simulated from the laws themselves, at 2.4e8 to 2.8e9 parameters, stages of 15 and 31 tokens per parameter, three replay
shares and ten D, with run effects of .2 to 2% and points that scatter by .26%. Each table is fitted at the defaults and forecasts
the loss at 8.1e9 parameters, a stage of 279 and 20 adaptation tokens per parameter.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from tables import ROOT, banner, markdown_table

sys.path.insert(0, os.fspath(ROOT))
import bayeslaw
from tests.twins import TRUTHS, settings, simulate

ETAS, TABLES, SHARES = (0.15, 0.28, 0.5), 20, [0.1, 0.25, 0.5]
SIZES, STAGES, TARGET = (2.4e8, 5e8, 1.2e9, 2.8e9), (15, 31), {"N": 8.1e9, "D": 20 * 8.1e9, "ptpp": 279.0}


def work(task: tuple[str, float, int]) -> dict[str, Any]:
    """Whether the true loss lies in 90% intervals, for each replay share, and how wide they are."""
    name, eta, seed = task
    law, truth = bayeslaw.load_law(name), TRUTHS[name] | {"eta": eta}
    design = settings(law, STAGES, SIZES)
    effect = np.random.default_rng([seed, int(100 * eta)]).uniform(0.002, 0.02)
    fit = bayeslaw.fit(law, simulate(law, truth, design[design["D"] > 0], seed, effect), seed=seed, progress=False, cores=1)
    at = pd.DataFrame({**TARGET, "r": SHARES})
    loss = law.predict({k: np.array([v]) for k, v in truth.items()}, {k: at[k].to_numpy() for k in law.covariates})[0]
    low, high = np.quantile(fit.forecast(at, discrepancy="none", force=True).draws["latent"].values, [0.05, 0.95], axis=0)
    return {"law": name, "eta": eta, "passed": fit.passed, "held": (low <= loss) & (loss <= high), "width": (high - low) / loss}


def main() -> None:
    tasks = list(product(("transfer-target", "transfer-source"), ETAS, range(TABLES)))
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame(list(pool.map(work, tasks)))
    print(f"# Models of usual sizes, simulated\n\n{banner('real_sizes')}\n")
    print("Latent 90% intervals at 8.1e9 parameters and 279 pre-training tokens per parameter; the prior of eta has the median .33")
    print("and the 95% interval .22 to .49.\n")
    body = []
    for (name, eta), part in rows.groupby(["law", "eta"], sort=False):
        held, width = np.stack(list(part["held"])), np.stack(list(part["width"]))
        body.append({
            "law": str(name), "true eta": f"{eta:g}", "sampling passed": f"{part['passed'].sum()} of {len(part)}",
            **{f"r = {r:g} held": f"{h} of {len(part)}" for r, h in zip(SHARES, held.sum(axis=0), strict=True)},
            "mean width": f"{100 * width.mean():.1f}%",
        })  # fmt: skip
    print(markdown_table(body))


if __name__ == "__main__":
    main()
