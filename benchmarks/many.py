"""Throughput of 200 chinchilla fits in one process, in two, and on a Dask cluster of two workers, with identical results.

python benchmarks/many.py        # prints the table kept in benchmarks/results/many.md

A law is fitted to a simulated table, 200 truths are drawn from that posterior, a table is simulated from each, and each is fitted
at the defaults: a parametric bootstrap, as in calibration.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable

import numpy as np
import pandas as pd
from distributed import LocalCluster
from tables import PACKAGES, banner

import bayeslaw

TRUTH = {"E": 1.69, "A": 406.4, "alpha": 0.34, "B": 410.7, "beta": 0.28}  # the card's published numbers
SIGMA = {"sigma_run": 0.003, "sigma_point": 0.003}
FitRecord = tuple[str, bool, int, float]


def settings() -> pd.DataFrame:
    """240 rows: 48 runs of 6 sizes and 8 budgets of 5 to 100 tokens a parameter, each logged 5 times."""
    grid = [
        {"N": n, "D": a * n * part, "run": f"{n:g}-{a:g}"}
        for n in np.geomspace(7e7, 3e9, 6)
        for a in np.geomspace(5, 100, 8)
        for part in (0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    return pd.DataFrame(grid)


def simulated(law: bayeslaw.Law, truth: dict[str, float], seed: int) -> pd.DataFrame:
    """A table from one truth, parameters and noise."""
    frame, rng = settings(), np.random.default_rng(np.random.SeedSequence(0, spawn_key=(seed,)))
    code, names = pd.factorize(frame["run"])
    expected = law.predict({k: np.array([truth[k]]) for k in law.parameters}, {c: frame[c].to_numpy() for c in ("N", "D")})[0]
    noise = truth["sigma_run"] * rng.standard_normal(len(names))[code] + truth["sigma_point"] * rng.standard_normal(len(frame))
    return frame.assign(loss=expected * np.exp(noise))


def bootstrapped(law: bayeslaw.Law, count: int) -> list[bayeslaw.inference.Task]:
    """Fits to tables simulated from draws of the posterior of one table."""
    draws = bayeslaw.fit(law, simulated(law, TRUTH | SIGMA, 0), progress=False).draws
    which = np.random.default_rng(0).choice(len(draws["E"]), count, replace=False)
    tables = [simulated(law, {k: float(v[i]) for k, v in draws.items()}, seed) for seed, i in enumerate(which, start=1)]
    return [bayeslaw.inference.Task(law, table, {"seed": seed}) for seed, table in enumerate(tables, start=1)]


def kept(fit: bayeslaw.Fit) -> FitRecord:
    """The digest of a fit's draws, whether its checks passed, its process, and the processor time of that process at its end."""
    return str(fit.info["draws_sha256"]), fit.passed, os.getpid(), time.process_time()


def timed(name: str, tasks: list[bayeslaw.inference.Task], where: str) -> tuple[dict[str, object], list[FitRecord]]:
    """One row of the table, and the fits; the time includes the start of processes but not that of a cluster."""
    start = time.perf_counter()
    fits = bayeslaw.core.values_of(bayeslaw.fit_many(tasks, executor=where, then=kept))
    seconds = time.perf_counter() - start
    row = {"executor": name, "fits": len(fits), "seconds": round(seconds), "fits_per_minute": round(60 * len(fits) / seconds)}
    row |= {"processor_seconds_per_fit": round(processor_seconds(fits), 2), "passed": sum(m[1] for m in fits)}
    return row, fits


def processor_seconds(fits: list[FitRecord]) -> float:
    """Processor seconds per fit without the start of the process and its first fit; they hardly depend on other load."""
    by_process = pd.DataFrame(fits, columns=["draws", "passed", "process", "at"]).groupby("process")["at"]
    return float((by_process.max() - by_process.min()).sum() / (by_process.size() - 1).sum())


def identical(lists: Iterable[list[FitRecord]]) -> bool:
    """Whether all lists agree up to the length of the shortest."""
    return all(len({draws for draws, *_ in same}) == 1 for same in zip(*lists, strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time many fits through each executor.")
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--in-process", type=int, default=30, help="number of them in one process")
    options = parser.parse_args()
    tasks = bootstrapped(bayeslaw.load_law("chinchilla"), options.fits)
    done = [
        timed("in-process", tasks[: options.in_process], "in-process"),
        timed("processes:2", tasks, "processes:2"),
    ]
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        done.append(timed("dask, 2 workers", tasks, cluster.scheduler_address))
    print("# 200 chinchilla fits, 240 rows each, defaults\n")
    print(f"{banner('many', (*PACKAGES, 'distributed'))}\n\n```")
    print(pd.DataFrame([row for row, _ in done]).to_string(index=False))
    print(f"\nidentical draws to the bit: {'yes' if identical(fits for _, fits in done) else 'NO'}\n```")


if __name__ == "__main__":
    main()
