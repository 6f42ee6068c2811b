"""Laws of continual pre-training on every measured sweep: unseen stages, unseen sizes, and both.

    BAYESLAW_SHARED_DATA=… python benchmarks/cpt.py        # prints the report kept in benchmarks/results/cpt.md

The laws of LAWS are fitted at their defaults to each sweep's stages up to 31 tokens per parameter, to all but its two largest
sizes (the largest, if there are three), or to both, and forecast settled rows (two adaptation tokens per parameter on) of the rest.
Delphi has seven bases, of which size and stage grow together; the two largest are forecast. `noise.walk.WEIGHTS`, by which the size
of errors beyond the runs is multiplied along sizes and stages, is chosen among `CANDIDATES` on all sweeps but the one that is
scored, all in turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from tables import ROOT, banner, markdown_table

import bayeslaw
from bayeslaw.evaluation.scores import crps
from bayeslaw.noise import walk as walks

SHARED = Path(os.environ.get("BAYESLAW_SHARED_DATA", ROOT / "../shared/data"))
CANDIDATES = {(n, p): {"N": n, "ptpp": p} for n in (0.0, 0.5, 1.0, 2.0, 3.0) for p in (0.0, 0.5, 1.0, 2.0)}
SETTLED, LATEST = 2.0, 31
LAWS = {"source": ("transfer-source", "plateau-source"), "target": ("transfer-target",)}
COLUMNS = ["run", "checkpoint", "N", "D", "r", "ptpp", "loss"]


class Case(NamedTuple):
    """Rows to fit and rows to forecast, of one table and domain of a sweep."""

    sweep: str
    name: str
    split: str
    law: str
    seen: pd.DataFrame
    held: pd.DataFrame

    @property
    def title(self) -> str:
        return f"{self.name}, {self.split}: {self.law}"


def toys() -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Sweep, name and rows of every table of small models, seed 0."""
    for sweep in ("tinycpt", "tinycpt2"):
        for path in sorted((ROOT / "data" / sweep).glob("runs*.csv")):
            rows = pd.read_csv(path)
            rows = rows[(rows["seed"] == 0) & (rows["D"] > 0) & (rows["r"] < 1) & ((rows["r"] > 0) | (sweep != "tinycpt"))]
            kinds = rows["anneal"] if "anneal" in rows else rows["shift"]
            for kind in sorted(kinds.unique()):
                yield sweep, f"{sweep} {kind}", rows[kinds == kind]


def cases() -> Iterator[Case]:
    """Every table, domain and split."""
    for sweep, name, table in toys():
        for domain, rows in table.groupby("domain"):
            sizes = np.sort(rows["N"].unique())
            large = rows["N"] >= sizes[-2 if len(sizes) > 3 else -1]
            late = rows["ptpp"] > LATEST
            splits = {"stages": (~late, late), "sizes": (~large, large), "both": (~late & ~large, late & large)}
            for split, (seen, held) in splits.items():
                settled = rows[held & (rows["D"] >= SETTLED * rows["N"])]
                for law in LAWS[str(domain)] if len(settled) else ():  # the largest sizes may have fewer stages
                    yield Case(sweep, f"{name} {domain}", split, law, rows.loc[seen, COLUMNS], settled[COLUMNS])
    if (path := SHARED / "delphi_midtraining.csv").exists():
        rows = pd.read_csv(path)
        rows = rows[(rows["val_set"] == "clean_seen") & (rows["D"] > 0) & rows["final"]]
        rows = rows.assign(run=rows["run_name"], checkpoint=rows["base"].map("{:g}".format))
        for split, some in {"all budgets": rows, "1B tokens": rows[rows["kind"] == "tok1b"]}.items():
            low = some["base"] < 1e20
            yield Case("delphi", "delphi target", split, "transfer-target", some.loc[low, COLUMNS], some.loc[~low, COLUMNS])


def scores(loss: Any, draws: Any) -> dict[str, float]:
    """Error and bias of the median, coverage, width, CRPS and interval score of 90%, relative to the loss.

    The interval score (Gneiting and Raftery 2007) is the width, plus 20 times by how much a loss lies outside.
    """
    low, quarter, middle, upper, high = np.quantile(draws, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    missed = np.maximum(low - loss, 0) + np.maximum(loss - high, 0)
    return {
        "error": float(np.mean(np.abs(middle / loss - 1))), "bias": float(np.mean(middle / loss - 1)),
        "50%": float(np.mean((quarter <= loss) & (loss <= upper))), "90%": float(np.mean((low <= loss) & (loss <= high))),
        "width": float(np.mean((high - low) / loss)), "crps": float(np.mean(crps(loss, draws) / loss)),
        "score": float(np.mean((high - low + 20 * missed) / loss)),
    }  # fmt: skip


def work(case: Case) -> list[dict[str, Any]]:
    """Scores of the law taken for exact and with every candidate's error beyond the runs."""
    fit = bayeslaw.fit(case.law, case.seen, progress=False, cores=1)
    head = {"sweep": case.sweep, "case": case.title, "law": case.law, "passed": fit.passed, "fitted": len(case.seen)}
    loss, rows, some = case.held["loss"].to_numpy(), [], case.held.drop(columns="loss")

    def scored_by(discrepancy: str) -> dict[str, float]:
        return scores(loss, fit.forecast(some, discrepancy=discrepancy, force=True).predictive)

    rows.append(head | {"spread": "run"} | scored_by("none"))
    for key, weights in CANDIDATES.items():
        with patch.object(walks, "WEIGHTS", weights):
            rows.append(head | {"spread": str(key)} | scored_by("learned"))
    return rows


def best(rows: pd.DataFrame) -> str:
    """The candidate with the best interval scores: mean log over the cases of a sweep, and over sweeps."""
    of = rows[rows["spread"] != "run"]
    by_sweep = of.assign(score=np.log(of["score"])).groupby(["spread", "sweep"])["score"].mean().groupby(level=0).mean()
    return str(by_sweep.idxmin())


def choices(rows: pd.DataFrame, spread: str) -> str:
    """For each sweep the law of the source that forecasts the other sweeps' sources better."""
    some = rows[rows["law"].isin(LAWS["source"]) & (rows["spread"] == spread)]
    score = some.assign(crps=np.log(some["crps"])).pivot_table(index="sweep", columns="law", values="crps")
    return "; ".join(f"for {sweep} {score.drop(index=sweep).mean().idxmin()}" for sweep in score.index)


def percent(value: float, digits: int = 0) -> str:
    return f"{100 * value:.{digits}f}%"


def main() -> None:
    every = list(cases())
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, every) for row in part])
    sweeps = list(dict.fromkeys(rows["sweep"]))
    without = {sweep: best(rows[rows["sweep"] != sweep]) for sweep in sweeps}
    package = tuple(walks.WEIGHTS[name] for name in ("N", "ptpp"))
    print(f"# Continual pre-training on every measured sweep\n\n{banner('cpt')}\n")
    print(f"Weights of sizes and stages: {package} in the package, set for coverage. The best interval scores have")
    print(
        f"{best(rows)}, and without the sweep that is scored " + "; ".join(f"{s} {chosen}" for s, chosen in without.items()) + ".\n"
    )
    print(
        "The `transfer-` laws were chosen on tinycpt's headers, with their held-out stages in view, `plateau-source` on all tables"
    )
    print(
        "of both sweeps, held-out rows included. Of these two, the one with the lower mean log CRPS on the other sweep's sources:"
    )
    print(choices(rows, str(package)) + ".\n")
    body = []
    for title, part in rows.groupby("case", sort=False):
        of: Any = part.set_index("spread")
        run, ours, left = (of.loc[key] for key in ("run", str(package), without[str(of["sweep"].iloc[0])]))
        body.append({
            "case": str(title), "rows fitted": str(run["fitted"]), "checks": "passed" if run["passed"] else "FAILED",
            "error": percent(run["error"], 2), "bias": percent(run["bias"], 2),
            **{f"run in {p}": percent(run[p]) for p in ("50%", "90%")},
            **{f"extrapolated in {p}": percent(ours[p]) for p in ("50%", "90%")},
            "weights learnt without it, in 90%": percent(left["90%"]),
            "width of run": percent(run["width"], 1), "of extrapolated": percent(ours["width"], 1),
            "CRPS of run": percent(run["crps"], 2), "CRPS of extrapolated": percent(ours["crps"], 2),
        })  # fmt: skip
    print(markdown_table(body))


if __name__ == "__main__":
    main()
