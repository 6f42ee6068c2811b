"""Sampling at the defaults on every case of benchmarks/cpt.py, for several seeds: which checks pass, and how long a fit takes.

    BAYESLAW_SHARED_DATA=… python benchmarks/cpt_sampling.py        # prints the table kept in benchmarks/results/cpt_sampling.md
    BAYESLAW_SHARED_DATA=… python benchmarks/cpt_sampling.py from-base-source            # fits of this law, or of several, alone

Fits are made one after the other in one process that has compiled their law before, on one core. Those that take more than `LONG`
seconds of it are made again on as many cores as the defaults take, which changes times but no draws. Each record is stored as soon
as it is made (benchmarks/.cpt_sampling) under a digest of code, card and tables, so a stopped run continues.
"""

from __future__ import annotations

import json
import math
import sys
import time
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from cpt import LAWS, Case, cases
from stored import Store, digest
from tables import ROOT, SHARED, banner, markdown_table

import bayeslaw
from bayeslaw.core.executors import available_cores
from bayeslaw.posterior.diagnostics import ESS, R_HAT

STORE = Path(__file__).parent / ".cpt_sampling"
SEEDS = range(5)
LONG, LIMIT = 10.0, 15.0  # seconds: above which a fit is timed on all cores too, and which none may exceed


@cache
def store_of(law: str) -> Store:
    """The records of a law, by case, seed and cores: of this code, its card and tables."""
    data = sorted((ROOT / "data").glob("*/runs*.csv"))
    key = digest(ROOT / f"models/{law}.toml", *data, Path(__file__).parent / "cpt.py", SHARED / "delphi_midtraining.csv")
    return Store(STORE / f"{law}-{key}.jsonl", itemgetter("case", "seed", "cores"))


def titled(names: list[str]) -> list[tuple[Case, str]]:
    """Every case with each law of its domain, or with those of these names."""
    every = [(case, law) for case in cases() for law in sorted({law for laws in LAWS[case.domain] for law in laws})]
    return [(case, law) for case, law in every if law in names or not names]


def record(case: Case, law: str, seed: int, cores: int | None) -> dict[str, Any]:
    """What the checks say of a fit at the defaults, its worst statistics and its time."""
    start, used = time.perf_counter(), time.process_time()
    fit = bayeslaw.fit(law, case.seen, seed=seed, progress=False, cores=cores)
    times = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used}
    repeated, summary = [check.text for check in fit.checks if check.name == "repeated"], fit.summary()
    stats, sizes = fit.tree["sample_stats"], summary[["ess_bulk", "ess_tail"]].min(axis=1)
    return {
        "case": f"{case.title}: {law}", "seed": seed, "cores": cores, "rows": len(case.seen), **times, "passed": fit.passed,
        "failures": fit.failures, "repeated": "".join(repeated), "r_hat": float(summary["r_hat"].max()), "ess": float(sizes.min()),
        "worst": str(sizes.idxmin()), "divergent": int(stats["diverging"].sum()), "gradients": float(stats["n_steps"].mean()),
    }  # fmt: skip


COMPILED = set[str]()  # laws that this process has fitted


def recorded(case: Case, law: str, seed: int, cores: int | None) -> dict[str, Any]:
    """The record of a fit, which is made if there is none, in a process that has compiled its law before."""
    store, key = store_of(law), (f"{case.title}: {law}", seed, cores)
    if key not in store.known:
        if law not in COMPILED:
            bayeslaw.fit(law, case.seen, draws=50, tune=50, progress=False, cores=1)
            COMPILED.add(law)
        store.add(record(case, law, seed, cores))
        print(json.dumps(store.known[key]), file=sys.stderr, flush=True)
    return store.known[key]


def summary(rows: pd.DataFrame) -> str:
    """How many fits pass, how many were sampled again, and how many take long."""
    core, wall, cores = rows["cpu"], rows["all cores"].dropna(), available_cores()
    above = [f"{(core > limit).sum()} take more than {limit:g} s" for limit in (LONG, LIMIT)]
    text = f"""\
{len(rows)} fits of {rows["case"].nunique()} cases at the defaults, {len(SEEDS)} seeds each: {rows["passed"].sum()} pass all checks
of the sampling (R-hat at most {R_HAT}, effective sample sizes at least {ESS}); {(rows["repeated"] != "").sum()} were sampled again.
{" and ".join(above)} of a core, the longest {core.max():.1f} s. Compiling is not counted, and seconds of a core are
processor time, longer while other work runs on the machine."""
    if wall.empty:
        return text
    share = rows["cpu of all cores"].sum() / wall.sum() / cores
    return f"""{text}
Fits above {LONG:g} s were timed on the {cores} cores of the defaults too: {(wall > LIMIT).sum()} take more than {LIMIT:g} s
by the clock, the longest {wall.max():.1f} s, and had {share:.0%} of these cores' time."""


def by_case(rows: pd.DataFrame) -> str:
    """The table of cases."""
    body = []
    for title, part in rows.groupby("case", sort=False):
        worst, slow = part.sort_values("ess").iloc[0], part["all cores"].dropna()
        causes = part.loc[part["repeated"] != "", "repeated"].str.split("failed ").str[-1].value_counts()
        body.append({
            "case": str(title), "rows": str(part["rows"].iloc[0]), "passed": f"{part['passed'].sum()} of {len(part)}",
            "sampled again, since one before failed": "; ".join(f"{count}: {names}" for names, count in causes.items()),
            "slowest, s of a core": f"{part['cpu'].max():.1f}",
            "median, s of a core": f"{part['cpu'].median():.1f}",
            f"slowest on all cores, s, if above {LONG:g}": f"{slow.max():.1f}" if len(slow) else "",
            "largest R-hat": f"{part['r_hat'].max():.3f}", "smallest ESS": f"{worst['ess']:.0f} ({worst['worst']})",
            "most divergent": str(part["divergent"].max()), "gradients a draw": f"{part['gradients'].mean():.0f}",
        })  # fmt: skip
    return markdown_table(body)


def main() -> None:
    every = [(case, law, seed) for case, law in titled(sys.argv[1:]) for seed in SEEDS]
    records = [recorded(case, law, seed, 1) for case, law, seed in every]
    slow = [asked for asked, found in zip(every, records, strict=True) if found["cpu"] > LONG]
    again = {(f"{case.title}: {law}", seed): recorded(case, law, seed, None) for case, law, seed in slow}
    rows = pd.DataFrame(records)
    for name, column in (("seconds", "all cores"), ("cpu", "cpu of all cores")):
        rows[column] = [again.get(key, {}).get(name, math.nan) for key in zip(rows["case"], rows["seed"], strict=True)]
    print(f"# Sampling of the laws of continual pre-training\n\n{banner('cpt_sampling')}\n\n{summary(rows)}\n\n{by_case(rows)}")
    lines = [f"- {row['case']}, seed {row['seed']}: {row['failures']}" for _, row in rows[~rows["passed"]].iterrows()]
    print("\n## Checks that failed\n\n" + ("\n".join(lines) or "None."))


if __name__ == "__main__":
    main()
