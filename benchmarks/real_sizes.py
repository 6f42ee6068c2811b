"""Forecasts of models of usual sizes far beyond the fitted stages, on simulated truths with several exponents of pre-training.

    python benchmarks/real_sizes.py          # prints the table kept in benchmarks/results/real_sizes.md

Losses are simulated from the `transfer-` laws, from `from-base-source`, and from OTHER, a truth of a form that no law of the target
has: tokens of the pre-training count as a share of new ones, so that a longer one lowers the loss for good. Models have 2.4e8 to
2.8e9 parameters, stages of 15 and 31 tokens per parameter, three replay shares and ten D, with run effects of .2 to 2% and points
that scatter by .26%. To each table the law itself, if it is packaged, and the recommended laws are fitted at the defaults, and
forecast the loss at 8.1e9 parameters, a stage of 279 and 20 adaptation tokens per parameter. Base losses, which `from-base-source`
has as a covariate, are those of `transfer-source`.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from cpt import LAWS, shown, together
from tables import ROOT, banner, markdown_table

sys.path.insert(0, os.fspath(ROOT))
import bayeslaw
from tests.twins import TRUTHS, settings, simulate

ETAS, TABLES, SHARES = (0.15, 0.28, 0.5), 20, [0.1, 0.25, 0.5]
FITTED = {
    "transfer-target": (("transfer-target",), LAWS["target"][0]),
    "transfer-source": (("transfer-source",), LAWS["source"][0], ("from-base-source", "plateau-source")),
    "from-base-source": (LAWS["source"][0],),
    "effective-target": (("transfer-target",), LAWS["target"][0]),
}
"""Laws and stacks that are fitted to tables of a law."""
OTHER = ROOT / "benchmarks/effective-target.toml"
SHARED = {"E": 1.05, "A": 330.0, "alpha": 0.33, "c": 0.85, "s": 0.06, "q": 0.98}
"""Its parameters but for the exponent of the data, which is eta, and the scale of their term, by which it is `GAIN` at `TOKENS`."""
GAIN, TOKENS = 0.5, 2e10
BASES = "transfer-source"
"""The law whose losses at D = 0 are the base losses."""
SIZES, STAGES, TARGET = (2.4e8, 5e8, 1.2e9, 2.8e9), (15, 31), {"N": 8.1e9, "D": 20 * 8.1e9, "ptpp": 279.0}


def work(task: tuple[str, float, int]) -> list[dict[str, Any]]:
    """Whether the true loss lies in 90% intervals of the laws fitted, for each replay share, and how wide they are."""
    name, eta, seed = task
    if name == OTHER.stem:
        law, truth = bayeslaw.load_law(OTHER), SHARED | {"beta": eta, "B": GAIN * TOKENS**eta}
    else:
        law, truth = bayeslaw.load_law(name), TRUTHS[name] | {"eta": eta}
    of_base = truth if name == BASES else TRUTHS[BASES]
    effect = np.random.default_rng([seed, int(100 * eta)]).uniform(0.002, 0.02)

    def with_base(at: pd.DataFrame) -> pd.DataFrame:
        return at.assign(base_loss=true_loss(bayeslaw.load_law(BASES), of_base, at.assign(D=0.0)))

    design = with_base(settings(law, STAGES, SIZES).query("D > 0"))
    table = simulate(law, truth, design, seed, effect).assign(base_loss=design["base_loss"].to_numpy())
    at = with_base(pd.DataFrame({**TARGET, "r": SHARES}))
    names = dict.fromkeys(n for laws in FITTED[name] for n in laws)
    fits = {n: bayeslaw.fit(n, table, seed=seed, progress=False, cores=1) for n in names}
    rows, loss = [], true_loss(law, truth, at)
    for laws in FITTED[name]:
        posterior = together({n: fits[n] for n in laws})
        exact = posterior.forecast(at, discrepancy="none", force=True).draws["latent"].values
        about = {"truth": name, "law": shown(laws), "eta": eta, "passed": posterior.passed}
        for kind, draws in {"latent": exact, "default": posterior.forecast(at, force=True).predictive}.items():
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            about |= {f"held {kind}": (low <= loss) & (loss <= high), f"width {kind}": np.mean((high - low) / loss)}
        rows.append(about | {"error": np.abs(np.median(exact, axis=0) / loss - 1).mean()})
    return rows


def true_loss(law: bayeslaw.Law, truth: dict[str, float], at: pd.DataFrame) -> Any:
    """The law's loss (rows,) at some settings."""
    return law.predict({k: np.array([v]) for k, v in truth.items()}, {k: at[k].to_numpy() for k in law.covariates})[0]


def main() -> None:
    tasks = list(product(FITTED, ETAS, range(TABLES)))
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, tasks) for row in part])
    print(f"# Models of usual sizes, simulated\n\n{banner('real_sizes')}\n")
    print("90% intervals at 8.1e9 parameters and 279 pre-training tokens per parameter: `latent` ones, which take the laws for")
    print("exact, and those that a forecast has there by default (for single laws `extrapolated`). The `transfer-` laws' prior of")
    print("eta has the median .33 and the 95% interval .22 to .49.\n")
    body = []
    for (truth, name, eta), part in rows.groupby(["truth", "law", "eta"], sort=False):
        cells = {}
        for kind in ("latent", "default"):
            held = np.stack(list(part[f"held {kind}"])).sum(axis=0)
            shares = ", ".join(f"{r:g}" for r in SHARES)
            cells[f"{kind}: held at r = {shares}, of {len(part)}"] = ", ".join(map(str, held))
            cells[f"{kind}: mean width"] = f"{100 * part[f'width {kind}'].mean():.1f}%"
        body.append({
            "truth": str(truth), "fitted": str(name), "true eta": f"{eta:g}",
            "sampling passed": f"{part['passed'].sum()} of {len(part)}", **cells,
            "mean error": f"{100 * part['error'].mean():.1f}%",
        })  # fmt: skip
    print(markdown_table(body))


if __name__ == "__main__":
    main()
