"""Which runs to buy: chosen designs compared with random ones and the paper's; every design is bought and the law refitted.

    python benchmarks/anchors.py               # makes missing records, prints the tables of benchmarks/results/anchors.md
    python benchmarks/anchors.py --truths 2    # a trial

Truths of Form 3 (ptpp-gate-floor) are drawn from its prior at the reference point of the pilot runs (the paper's 4 sizes x PTPP
{15, 31} x 3 replay shares x 8 points); noise is .15% per run and .26% per point. The target is the loss at 8.1e9 parameters and
PTPP 279. B0 is the price of the paper's design: whole curves of the smallest size at PTPP 279 for six replay shares; at 5 x B0 it
has five seeds of each. Checkpoints exist, as in the paper. Every design is bought (its losses are simulated under the truth) and
the law is refitted by `bayeslaw.fit`, once more and longer if a check fails. A truth whose pilot fit fails its checks even then has
no designs, since `anchors` refuses such a fit, and is counted; any other truth counts, whatever its fits do. Truths are drawn from
the law itself, so designs take it for exact (`discrepancy="none"`); designs that count the error that laws have on real runs, as by
default, are bought and judged beside them. Candidates are runs of
the four sizes at PTPP 62, 124 and 279 with six replay shares, ending at 1, 5 or 20 tokens per parameter. Each record is stored as
soon as it is made (benchmarks/.anchors), under a digest of the code and the card, so a stopped run can be continued.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr
from stored import Store, digest
from tables import ROOT, banner, markdown_table
from truths import failing

import bayeslaw
from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.observations import Observations, run_codes
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import check
from bayeslaw.design.anchors import Anchors, anchors
from bayeslaw.design.preposterior import nested
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit

Array = NDArray[np.float64]

LAW = "ptpp-gate-floor"
STORE = Path(__file__).parent / ".anchors"
LATER = {"cli", "dynamics", "evaluation", "planning", "plots", "reporting"}  # packages that no record depends on
SIZES = (241e6, 517e6, 1.4e9, 8.1e9)  # of Goffinet et al. 2025
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
BUDGETS = (1, 5)
RANDOM = 3  # random designs refitted for each truth and budget
NOISE = {"run": 0.0015, "point": 0.0026}
RESAMPLES = 20_000


def curves(sizes: Sequence[float], stages: Sequence[float], shares: Sequence[float], ends: Sequence[float]) -> pd.DataFrame:
    """Runs of eight evaluations each, from 0.5 tokens per parameter (or a quarter of the end) to the end."""
    rows = [
        {"run": f"{n:g}-p{p:g}-r{r:g}-a{end:g}", "N": n, "ptpp": p, "r": r, "D": a * n}
        for n in sizes for p in stages for r in shares for end in ends for a in np.geomspace(min(0.5, end / 4), end, 8)
    ]  # fmt: skip
    return pd.DataFrame(rows)


PILOT = curves(SIZES, (15.0, 31.0), (0.1, 0.25, 0.5), (20.0,))
POOL = curves(SIZES, (62.0, 124.0, 279.0), SHARES, (1.0, 5.0, 20.0))
PAPER = curves(SIZES[:1], (279.0,), SHARES, (20.0,))
TARGETS = pd.DataFrame([{"N": 8.1e9, "ptpp": 279.0, "r": r, "D": a * 8.1e9} for r in (0.1, 0.25, 0.5) for a in (5.0, 20.0)])
B0 = float((6 * PAPER["N"] * PAPER["D"]).groupby(PAPER["run"]).max().sum())


class World:
    """A truth that logs any run, each with a run effect of its own."""

    def __init__(self, law: Law, number: int) -> None:
        self.law, self.number = law, number
        rng = np.random.default_rng([zlib.crc32(b"anchors"), number])
        observed = Observations.of(law, Runs(PILOT.assign(loss=1.0), law.name))
        for refused in range(200):
            self.values = law.sample_prior(1, observed.at, rng)
            self.pilot = self.log(PILOT, "pilot")
            if not check(Runs(self.pilot), law):
                self.refused = refused
                return
        raise BayeslawError("none of 200 truths gave acceptable pilot losses")

    def latent(self, frame: pd.DataFrame) -> Array:
        loss: Array = self.law.predict(self.values, {c: frame[c].to_numpy(dtype=np.float64) for c in self.law.covariates})[0]
        return loss

    def log(self, frame: pd.DataFrame, what: str) -> pd.DataFrame:
        """Return the table with simulated losses."""
        rng = np.random.default_rng([zlib.crc32(what.encode()), self.number])
        run, names = run_codes(frame)
        added = NOISE["run"] * rng.standard_normal(len(names))[run] + NOISE["point"] * rng.standard_normal(len(frame))
        return frame.assign(loss=self.latent(frame) * np.exp(added))


def fitted(law: Law, table: pd.DataFrame, seed: int) -> Fit:
    """A fit at the defaults; if a check fails, a second one with twice the draws and tuning and acceptance .99 replaces it."""
    runs = bayeslaw.read_runs(table)
    fit = bayeslaw.fit(law, runs, seed=seed, progress=False, cores=1)
    if fit.passed:
        return fit
    return bayeslaw.fit(law, runs, seed=seed + 1, draws=2000, tune=1000, target_accept=0.99, progress=False, cores=1)


def known(fit: Fit, truth: Array) -> dict[str, Any]:
    """Variance of log loss, interval width, error and coverage at the targets under a fit, means over the targets."""
    draws = fit.forecast(TARGETS, discrepancy="none", force=True).expected(slice(None))
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=1)
    return {
        "variance": float(np.log(draws).var(axis=1, ddof=1).mean()), "width": float((high - low).mean()),
        "error": float(np.abs(middle / truth - 1).mean()), "covered": float(((low <= truth) & (truth <= high)).mean()),
        "failed": failing(fit),
    }  # fmt: skip


def designs(fit: Fit, times: int, seed: int) -> tuple[Anchors, dict[str, pd.DataFrame]]:
    """The designs bought for a budget: chosen, by default, the paper's, and random ones; replicates have seeds of their own."""
    asked: dict[str, Any] = {"budget": times * B0, "checkpoint_cost": "0", "replicates": times, "seed": seed, "force": True}
    choice = anchors(fit, POOL, TARGETS, discrepancy="none", **asked)
    paper = pd.concat([PAPER.assign(run=PAPER["run"] + f"#{i}") for i in range(times)], ignore_index=True)
    bought = {"chosen": choice.rows(), "default": anchors(fit, POOL, TARGETS, **asked).rows(), "paper": paper}
    bought |= {f"random {i}": choice.rows(picks) for i, picks in enumerate(choice.random_designs(RANDOM))}
    return choice, bought


def work(number: int) -> dict[str, Any]:
    """Buy and fit all designs under one truth, and return a record of plain numbers."""
    law, begun = bayeslaw.load_law(LAW), time.perf_counter()
    world = World(law, number)
    truth = world.latent(TARGETS)
    record: dict[str, Any] = {"number": number, "refused": world.refused}
    pilot = fitted(law, world.pilot, number)
    record["pilot"] = known(pilot, truth)
    for times in BUDGETS if pilot.passed else ():
        choice, bought = designs(pilot, times, number)
        whole = choice.market.value(np.eye(choice.market.ensemble.rank))
        predicted = choice.market.value(choice.market.ensemble.covariance(choice.bought)) / whole
        results: dict[str, Any] = {"predicted": predicted * record["pilot"]["variance"]}
        results["picks"] = [choice.candidates.names[run] for run in choice.bought]
        for name, frame in bought.items():
            table = pd.concat([world.pilot, world.log(frame, f"{times} {name}")], ignore_index=True)
            fit = fitted(law, table, number)
            results[name] = known(fit, truth) | {"spent": spent(frame) / B0, "runs": int(frame["run"].nunique())}
        record[str(times)] = results
    return record | {"seconds": round(time.perf_counter() - begun, 1)}


def spent(frame: pd.DataFrame) -> float:
    """FLOPs of the runs of a design."""
    return float((6 * frame["N"] * frame["D"]).groupby(frame["run"]).max().sum())


def ratios(records: Sequence[dict[str, Any]], times: int) -> list[dict[str, Any]]:
    """Variance under the chosen design over that under others: geometric mean over the truths with an equal-tailed interval."""
    rng, rows = np.random.default_rng(0), []
    results = [r[str(times)] for r in records]
    chosen = np.log([f["chosen"]["variance"] for f in results])
    others = {
        "random": np.mean([[np.log(f[f"random {i}"]["variance"]) for i in range(RANDOM)] for f in results], axis=1),
        "the paper's": np.log([f["paper"]["variance"] for f in results]),
        "chosen with the law's error": np.log([f["default"]["variance"] for f in results]),
        "predicted": np.log([f["predicted"] for f in results]),
        "the pilot's": np.log([r["pilot"]["variance"] for r in records]),
    }
    paper = others["the paper's"] - others["random"]
    named = {f"chosen / {name}": chosen - other for name, other in others.items() if name != "predicted"}
    named |= {"paper's / random": paper, "predicted / realised": others["predicted"] - chosen}
    limits = {
        "chosen / random": {1: "upper end ≤ .90", 5: "upper end ≤ .80"},
        "chosen / the paper's": {1: "upper end ≤ .95", 5: "upper end ≤ .80"},
        "predicted / realised": {1: "ratio in .85 to 1.3", 5: "ratio in .85 to 1.3"},
    }  # fmt: skip
    for name, logs in named.items():
        means = logs[rng.integers(0, logs.size, (RESAMPLES, logs.size))].mean(axis=1)
        row = {"budget": f"{times} x B0", "variance": name, "ratio": f"{np.exp(logs.mean()):.3f}"}
        row["80% bootstrap interval"] = f"{np.exp(np.quantile(means, 0.1)):.3f} to {np.exp(np.quantile(means, 0.9)):.3f}"
        rows.append(row | {"wanted": limits.get(name, {}).get(times, "")})
    return rows


def accuracy(records: Sequence[dict[str, Any]], times: int) -> list[dict[str, Any]]:
    """Width, error and coverage of each design."""
    rows = []
    of_random = [f"random {i}" for i in range(RANDOM)]
    designs_of = {"chosen": ["chosen"], "chosen with the law's error": ["default"], "paper": ["paper"], "random": of_random}
    for name, keys in designs_of.items():
        results = [r[str(times)][k] for r in records for k in keys]
        rows.append({
            "budget": f"{times} x B0", "design": name, "spent / B0": f"{np.mean([f['spent'] for f in results]):.2f}",
            "most spent / B0": f"{np.max([f['spent'] for f in results]):.3f}",
            "runs": f"{np.mean([f['runs'] for f in results]):.1f}",
            "latent eti90 width, nats": f"{np.mean([f['width'] for f in results]):.4f}",
            "error": f"{np.mean([f['error'] for f in results]):.2%}",
            "truth in latent eti90": f"{np.mean([f['covered'] for f in results]):.0%}",
            "fits with failed checks": f"{sum(bool(f['failed']) for f in results)} of {len(results)}",
        })  # fmt: skip
    return rows


def speed(fit: Fit) -> list[dict[str, Any]]:
    """Seconds and memory for a choice among 1,000 and 10,000 candidates with 4,000 draws."""
    rows = []
    for count in (1_000, 10_000):
        rng = np.random.default_rng(0)
        frame = pd.concat([
            curves((float(n),), (float(p),), (float(r),), (float(a),)).assign(run=f"c{i}")
            for i, (n, p, r, a) in enumerate(zip(
                np.exp(rng.uniform(np.log(1e8), np.log(2e9), count)), rng.choice([62.0, 124.0, 279.0], count),
                rng.uniform(0.05, 0.5, count), rng.uniform(2, 20, count), strict=True))
        ])  # fmt: skip
        begun = time.perf_counter()
        choice = anchors(fit, frame, TARGETS, budget=5 * B0, checkpoint_cost="0", discrepancy="none")
        row = {
            "candidates": f"{count:,}",
            "rows": f"{len(frame):,}",
            "draws": f"{len(choice.targets.draws):,}",
            "picks": len(choice.bought),
        }
        row |= {"seconds": f"{time.perf_counter() - begun:.1f}", "spent / budget": f"{choice.spent / (5 * B0):.4f}"}
        rows.append(row | {"peak MiB of the process": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"})
    return rows


def agreement(number: int, count: int = 60) -> dict[str, Any]:
    """Gains of single runs as predicted, compared with nested Monte Carlo over the posterior of one truth's pilot runs."""
    fit = bayeslaw.fit(LAW, bayeslaw.read_runs(World(bayeslaw.load_law(LAW), number).pilot), seed=number, progress=False)
    choice = anchors(fit, POOL, TARGETS, budget=B0, checkpoint_cost="0", discrepancy="none", force=True)
    some = np.random.default_rng(number).choice(choice.candidates.size, count, replace=False)
    ensemble, whole = choice.market.ensemble, np.eye(choice.market.ensemble.rank)
    gains = ensemble.gains(whole, choice.market.weights)[some] / choice.market.value(whole)
    design = {choice.candidates.names[run]: choice.rows([run]) for run in some.tolist()}
    table = nested(fit, design, TARGETS, outer=200, seed=number, force=True)
    left = table["ratio"].to_numpy()
    return {
        "truth": number, "single runs": count, "Spearman of gains": f"{spearmanr(gains, 1 - left).statistic:.3f}",
        "variance left, nested / predicted": f"{np.exp(np.log(left / (1 - gains)).mean()):.3f}",
        "effective draws, median": f"{table['effective_median'].median():.0f}",
    }  # fmt: skip


def records_of(count: int) -> list[dict[str, Any]]:
    """Records of the first truths; missing ones are made, and stored under a digest of the code, the card and this file."""
    kept = Store(STORE / f"{digest(Path(__file__), ROOT / f'models/{LAW}.toml', without=LATER)}.jsonl")
    missing = [number for number in range(count) if number not in kept.known]
    with bayeslaw.core.executor("processes") as run, closing(run.stream(work, missing, what="truth")) as outcomes:
        for outcome in outcomes:
            if outcome.value is None:
                raise SystemExit(f"truth {missing[outcome.index]}: {outcome.error}")
            kept.add(outcome.value)
            print(f"truth {outcome.value['number']}: {outcome.value['seconds']} s", file=sys.stderr, flush=True)
    return kept.first(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truths", type=int, default=24)
    records = records_of(parser.parse_args().truths)
    print(f"# Runs bought for a budget, on truths of {LAW}\n\n{banner('anchors')}\n")
    planned = [r for r in records if not r["pilot"]["failed"]]
    refused = f"the pilot fits of {len(records) - len(planned)} fail their checks, and these truths have no designs"
    print(f"{len(records)} truths; {refused}; B0 = {B0:.3g} FLOPs; {POOL['run'].nunique()} candidates.")
    print("The head of the script describes the experiment.\n")
    print("## Posterior variance at the targets after refits\n\nGeometric means over truths.\n")
    print(markdown_table([row for times in BUDGETS for row in ratios(planned, times)]) + "\n")
    print("## Widths, errors, coverage\n")
    print(markdown_table([row for times in BUDGETS for row in accuracy(planned, times)]) + "\n")
    print("## Gains of single runs beside nested Monte Carlo\n")
    print(markdown_table([agreement(number) for number in range(3)]) + "\n")
    fit = bayeslaw.fit(LAW, World(bayeslaw.load_law(LAW), 0).pilot, progress=False)
    print("## Speed\n\nOne process, its fit included in the peak.\n")
    print(markdown_table(speed(fit)))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
