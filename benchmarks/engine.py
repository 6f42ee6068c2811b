"""The engine of one checkout beside that of another: whole processes, further fits, gradients, one after the other.

    python benchmarks/engine.py BEFORE [PART ...]    # BEFORE: a checkout of another commit; prints benchmarks/results/engine.md

Both use the packages of the interpreter that runs this, and folders of their own for compiled code, which are empty at first. Each
row is measured with both builds before the next begins. The row of the million points needs 4 GB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from tables import ROOT, banner, git, markdown_table

BEGIN = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [ROOT, ROOT + "/benchmarks"]
import numpy as np, pandas as pd
start = time.perf_counter()
"""
WHOLE = """
import bayeslaw
fit = bayeslaw.fit(LAW, TABLE, progress=False)
result = {"worst bulk ESS": float(fit.summary()["ess_bulk"].min())}
"""
FURTHER = """
import bayeslaw
from sampling import table
law = bayeslaw.load_law("ptpp-gate-floor")
bayeslaw.fit(law, bayeslaw.read_runs(table(law, 0)), progress=False)
rows = []
for seed in range(20):
    runs = bayeslaw.read_runs(table(law, seed))
    start = time.perf_counter()
    fit = bayeslaw.fit(law, runs, progress=False, seed=seed)
    rows.append((time.perf_counter() - start, fit.summary()["ess_bulk"].min(), fit.tree["sample_stats"]["diverging"].values.sum()))
seconds, ess, divergent = map(list, zip(*rows))
result = {"median s": float(np.median(seconds)), "worst s": max(seconds), "worst bulk ESS": float(min(ess))}
result |= {"most divergent of 4,000": int(max(divergent)), "tables with more than 1": int(sum(d > 1 for d in divergent))}
"""
SECOND = """
import bayeslaw
from bayeslaw.engine.density import Density
from bayeslaw.engine.transport import find_ridge_map
from bayeslaw.data.observations import Observations
from bayeslaw.noise.noise import Noise
from sampling import simulate, settings, TRUTHS
bayeslaw.fit("chinchilla", TABLE, progress=False)
result = {}
for name in ("transfer-target", "cpt-joint"):
    law = bayeslaw.load_law(name)
    runs = bayeslaw.read_runs(simulate(law, TRUTHS[name], settings(law), 1))
    start = time.perf_counter()
    observed = Observations.of(law, runs)
    density = Density.of(law, observed, Noise.choose("auto", observed))
    find_ridge_map(density, range(len(law.shapes)))
    result[name + ", s"] = time.perf_counter() - start
"""
MANY_FITS = """
import bayeslaw
from many import bootstrapped
tasks = bootstrapped(bayeslaw.load_law("chinchilla"), 200)
start = time.perf_counter()
bayeslaw.fit_many(tasks, executor="processes:2")
result = {"s": time.perf_counter() - start}
"""
DYNAMICS = """
import bayeslaw
from peers import dynamics_table
from bayeslaw.posterior.diagnostics import diagnostics
runs = bayeslaw.read_runs(dynamics_table(bayeslaw.load_law("cpt-dynamics"), 0))
bayeslaw.fit("cpt-dynamics", runs, progress=False)
start = time.perf_counter()
fit = bayeslaw.fit("cpt-dynamics", runs, progress=False, seed=1)
seconds = time.perf_counter() - start
summary = fit.summary()
ess = float(summary[["ess_bulk", "ess_tail"]].min().min())
result = {"rows": len(runs.frame), "fit s": seconds, "worst ESS/s": ess / seconds}
"""
MILLION = """
import bigdata, bayeslaw
law = bayeslaw.load_law("ptpp-gate-floor")
result = {}
for kind, frame in {"curves": bigdata.curves(law), "scattered": bigdata.scattered(law)}.items():
    row = bigdata.row(kind, law, bigdata.observations(law, frame))
    result |= {kind + ", over fused C": float(row["over fused"]), "peak MiB": float(row["peak MiB"])}
"""
PARTS: dict[str, tuple[str, str, int]] = {  # what it is called, its code, and how often it runs
    "form3-cold": ("Form 3, whole process, nothing compiled", WHOLE, 2),
    "form3-new": ("Form 3, whole process, compiled code on disk", WHOLE, 3),
    "form3-further": ("Form 3, 20 further tables in one process", FURTHER, 1),
    "chinchilla-new": ("chinchilla, whole process, compiled code on disk", WHOLE, 3),
    "second-law": ("a second law in a warm process, never compiled before, until sampling", SECOND, 1),
    "many": ("200 fits of chinchilla, two processes", MANY_FITS, 1),
    "dynamics": ("law of the dynamics, 5,000 points, second fit", DYNAMICS, 1),
    "million": ("a gradient of a million points", MILLION, 1),
}


def run(checkout: Path, code: str, cache: Path, given: Mapping[str, str]) -> tuple[float, dict[str, float]]:
    """Run code in a process of a checkout; returns its seconds in all, and its results."""
    head = BEGIN.replace("ROOT", repr(str(checkout)))
    for name, value in given.items():
        code = code.replace(name, repr(value))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(checkout)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", head + code + "\nprint('\\n' + json.dumps(result))"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=checkout,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return time.perf_counter() - start, json.loads(done.stdout.splitlines()[-1])


def tables(folder: Path) -> dict[str, str]:
    """Files of one table of Form 3 and one of chinchilla."""
    from sampling import TRUTHS, settings, simulate

    import bayeslaw

    paths = {}
    for name in ("ptpp-gate-floor", "chinchilla"):
        law = bayeslaw.load_law(name)
        paths[name] = str(folder / f"{name}.csv")
        simulate(law, TRUTHS[name], settings(law), 1).to_csv(paths[name], index=False)
    return paths


def measured(part: str, checkouts: Mapping[str, Path], folder: Path, paths: Mapping[str, str]) -> list[dict[str, str]]:
    """Rows of the table for one part: each quantity with both builds."""
    title, code, times = PARTS[part]
    law = "chinchilla" if part in ("chinchilla-new", "second-law") else "ptpp-gate-floor"
    given = {"LAW": law, "TABLE": paths[law]}
    results: dict[str, list[dict[str, float]]] = {build: [] for build in checkouts}
    for i in range(times + (part in ("form3-new", "chinchilla-new"))):
        for build, checkout in checkouts.items():
            cache = folder / f"{build}-{part}-{i if part == 'form3-cold' else 0}"
            seconds, result = run(checkout, code, cache, given)
            if part in ("form3-new", "chinchilla-new") and i == 0:
                continue  # which compiled
            results[build].append(({"whole process, s": seconds} if code is WHOLE else {}) | result)
    rows = []
    for quantity in next(iter(results.values()))[0]:
        row = {"what": title, "quantity": quantity}
        for build, runs in results.items():
            row[build] = f"{median(r[quantity] for r in runs):.4g}"
        rows.append(row)
    return rows


def main() -> None:
    before, *parts = sys.argv[1:]
    checkouts = {"before": Path(before).resolve(), "now": ROOT.resolve()}
    commits = {build: git(path, "rev-parse", "--short", "HEAD") or "unknown" for build, path in checkouts.items()}
    rows: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        paths = tables(Path(name))
        for part in parts or PARTS:
            rows += measured(part, checkouts, Path(name), paths)
            print(rows[-1], file=sys.stderr, flush=True)
    builds = ", ".join(f"{build}: {commit}" for build, commit in commits.items())
    about = (__doc__ or "").split("\n\n", 2)[2]
    print(f"# The engine before and now\n\n{banner('engine')}, {builds}\n\n{about}\n{markdown_table(rows)}")


if __name__ == "__main__":
    main()
