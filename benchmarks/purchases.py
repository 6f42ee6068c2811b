"""Runs bought on tinycpt: from PTPP {15, 31} to the largest size at PTPP 279, on measured losses.

    python benchmarks/purchases.py    # prints the table kept in benchmarks/results/purchases.md

transfer-target is fitted to PTPP {15, 31} of data/tinycpt/runs.csv, target domain. The target is the loss of the largest size at
PTPP 279, settled rows (from 2 tokens per parameter on). The candidates are all other measured runs at PTPP 62, 124 and 279 (any
seed), priced by the FLOPs of the adaptation; checkpoints exist. The paper's design is the smallest size at PTPP 279, one run per
replay share, and its price is B0. At 5 x B0 it has the other seeds of these runs and then the smallest size at the other stages.
Random designs are candidates in random order within the budget. Measured losses of bought runs are looked up; every design is
fitted and scored.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import banner, markdown_table
from truths import failing

import bayeslaw
from bayeslaw.design.anchors import anchors

LAW = "transfer-target"
DATA = Path(__file__).parents[1] / "data" / "tinycpt" / "runs.csv"
BUDGETS = (1, 5)
RANDOM = 50
SETTLED = 2.0  # tokens per parameter


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Fitted rows, candidates, and target rows with their losses."""
    rows = bayeslaw.read_runs(DATA, "domain == 'target'").frame
    largest, late = rows["N"] == rows["N"].max(), rows["ptpp"] > 31
    wanted = rows[largest & (rows["ptpp"] == 279) & (rows["D"] >= SETTLED * rows["N"])]
    pool = rows[late & ~(largest & (rows["ptpp"] == 279)) & (rows["D"] > 0)]
    return rows[~late], pool.drop(columns="flops"), wanted


def price(frame: pd.DataFrame) -> float:
    return float((6 * frame["N"] * frame["D"]).groupby(frame["run"]).max().sum())


def papers(pool: pd.DataFrame) -> list[str]:
    """The runs of the smallest size: PTPP 279 and seed 0 first, then its other seeds, then other stages."""
    small = pool[pool["N"] == pool["N"].min()].drop_duplicates("run")
    order = small.assign(stage=-small["ptpp"]).sort_values(["stage", "seed", "r"], kind="stable")
    return [str(run) for run in order["run"]]


def designs() -> tuple[float, dict[tuple[int, str], list[str]], dict[int, tuple[float, float]]]:
    """B0, the runs of every design, and the interval widths before and as predicted after the chosen one."""
    seen, pool, wanted = tables()
    fit = bayeslaw.fit(LAW, bayeslaw.read_runs(seen), progress=False)
    cost = {str(run): price(group) for run, group in pool.groupby("run")}
    paper = papers(pool)
    budget, designs_by_name, predicted = (
        sum(cost[run] for run in paper[:4]),
        dict[tuple[int, str], list[str]](),
        dict[int, tuple[float, float]](),
    )
    for times in BUDGETS:
        choice = anchors(fit, pool, wanted.drop(columns="flops"), budget=times * budget, checkpoint_cost="0", force=True)
        designs_by_name[times, "chosen"] = [choice.candidates.names[run] for run in choice.bought]
        designs_by_name[times, "paper's"] = paper[
            : int(np.searchsorted(np.cumsum([cost[run] for run in paper]), times * budget * (1 + 1e-9)))
        ]
        for i, picks in enumerate(choice.random_designs(RANDOM)):
            designs_by_name[times, f"random {i}"] = [choice.candidates.names[run] for run in picks]
        predicted[times] = (choice.width([]), choice.width(choice.bought))
    designs_by_name[0, "nothing"] = []
    return budget, designs_by_name, predicted


def work(runs: list[str]) -> dict[str, Any]:
    """Buy, fit and score one design."""
    seen, pool, wanted = tables()
    bought = pool[pool["run"].isin(runs)]
    fit = bayeslaw.fit(LAW, bayeslaw.read_runs(pd.concat([seen, bought], ignore_index=True)), progress=False, cores=1)
    predicted, loss = fit.forecast(wanted, discrepancy="none", force=True), wanted["loss"].to_numpy(dtype=np.float64)
    latent, run = predicted.draws["latent"].to_numpy(), predicted.draws["run"].to_numpy()
    low, middle, high = np.quantile(run, [0.05, 0.5, 0.95], axis=0)
    ends = np.quantile(latent, [0.05, 0.95], axis=0)
    return {
        "runs": len(runs), "spent": price(bought) if runs else 0.0, "variance": float(np.log(latent).var(axis=0, ddof=1).mean()),
        "latent": float((ends[1] - ends[0]).mean()), "width": float((high - low).mean()),
        "covered": float(((low <= loss) & (loss <= high)).mean()), "error": float(np.abs(middle / loss - 1).mean()),
        "failed": failing(fit),
    }  # fmt: skip


def row(name: str, scores: list[dict[str, Any]], budget: float) -> dict[str, str]:
    """One line of the table: medians over designs, with the middle 90% in brackets if there are many."""

    def shown(key: str, form: str, scale: float = 1.0) -> str:
        values = np.array([f[key] for f in scores]) / scale
        if len(scores) == 1:
            return format(values[0], form)
        return f"{np.median(values):{form}} ({np.quantile(values, 0.05):{form}} to {np.quantile(values, 0.95):{form}})"

    failed = sum(bool(f["failed"]) for f in scores)
    return {
        "design": name, "runs": shown("runs", ".0f"), "spent / B0": shown("spent", ".2f", budget),
        "variance of log loss, 1e-6": shown("variance", ".1f", 1e-6), "latent eti90 width, nats": shown("latent", ".4f"),
        "run eti90 width, nats": shown("width", ".4f"), "measured losses in run eti90": shown("covered", ".0%"),
        "error": shown("error", ".2%"), "checks failed": f"{failed} of {len(scores)}",
    }  # fmt: skip


def main() -> None:
    budget, bought, predicted = designs()
    with ProcessPoolExecutor(2) as pool:
        scored = dict(zip(bought, pool.map(work, bought.values()), strict=True))
    print(f"# Runs bought on tinycpt, measured losses\n\n{banner('purchases')}\n")
    print(f"B0 = {budget:.3g} FLOPs; see the head of the script. Random designs: median (middle 90%) of {RANDOM}.\n")
    print(markdown_table([row("nothing bought", [scored[0, "nothing"]], budget)]) + "\n")
    for times in BUDGETS:
        rows = [row(name, [scored[times, name]], budget) for name in ("chosen", "paper's")]
        random = [scored[times, f"random {i}"] for i in range(RANDOM)]
        chosen = scored[times, "chosen"]["variance"]
        beaten = np.mean([chosen < f["variance"] for f in random])
        print(f"## {times} x B0\n")
        print(markdown_table([*rows, row("random", random, budget)]) + "\n")
        ratio = chosen / np.exp(np.mean(np.log([f["variance"] for f in random])))
        other = chosen / scored[times, "paper's"]["variance"]
        print(
            f"Variance of the chosen design over that of the paper's {other:.2f}, over that of random ones (geometric mean) "
            f"{ratio:.2f}; it is below {beaten:.0%} of the random ones. Latent width predicted {predicted[times][1]:.4f}, now "
            f"{scored[times, 'chosen']['latent']:.4f} nats. Chosen: {', '.join(bought[times, 'chosen'])}.\n"
        )


if __name__ == "__main__":
    main()
