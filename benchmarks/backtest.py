"""Time of a backtest of 100 runs with five cuts, in one process and in two.

python benchmarks/backtest.py        # prints the table kept in benchmarks/results/backtest.md
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from tables import banner, markdown_table

import bayeslaw

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.twins import TRUTHS, simulate


def ladder(points: int) -> pd.DataFrame:
    """100 runs of 10^8 to 3·10^9 parameters and 5 to 80 tokens a parameter, each logged at some points."""
    rng = np.random.default_rng(0)
    sizes, atpp = np.exp(rng.uniform(np.log([1e8, 5]), np.log([3e9, 80]), (100, 2))).T
    rows = [
        {"N": n, "D": n * a * part / points, "run": f"r{i}"}
        for i, (n, a) in enumerate(zip(sizes, atpp, strict=True))
        for part in range(1, points + 1)
    ]
    return simulate(bayeslaw.load_law("chinchilla"), TRUTHS["chinchilla"], pd.DataFrame(rows), 1)


def main() -> None:
    rows, texts = [], []
    for points in (1, 10):
        table, results = ladder(points), []
        for where in ("in-process", "processes:2"):
            with bayeslaw.core.executor(where) as place:
                seconds = []
                for _ in range(2):
                    start = time.perf_counter()
                    results.append(bayeslaw.backtest(table, "chinchilla", executor=place, progress=False))
                    seconds.append(time.perf_counter() - start)
            scored = len(results[-1].rows)
            sizes = {"rows": f"{len(table):,}", "executor": where, "cuts": str(len(results[-1].cuts)), "forecasts": f"{scored:,}"}
            rows.append(sizes | {"first, s": f"{seconds[0]:.1f}", "warm, s": f"{seconds[1]:.1f}"})
        same = all(result.rows.equals(results[0].rows) for result in results)
        texts.append(f"{len(table)} rows: the same numbers to the bit in all four: {'yes' if same else 'NO'}. {results[0].text}")
    print("# A backtest of 100 runs\n\n" + banner("backtest") + "\n")
    print(f"`first` starts the processes and reads compiled functions from the disk.\n\n{markdown_table(rows)}\n")
    print("\n".join(texts))


if __name__ == "__main__":
    main()
