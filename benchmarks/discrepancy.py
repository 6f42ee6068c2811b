"""The learnt discrepancy where the truth is known.

    python benchmarks/discrepancy.py        # prints the report kept in benchmarks/results/discrepancy.md

Exact laws: truths, runs and targets are those of the calibration (truths.py). Laws with an error: the same, with an error drawn
from the model, the scale from its prior and what lies beyond the runs from `noise.walk.BEYOND`.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tables import banner, markdown_table
from truths import Truth, fitted, truth

import bayeslaw
from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.table import Runs
from bayeslaw.noise.noise import PRIORS
from bayeslaw.noise.walk import Walk

EXACT = ("chinchilla", "kaplan", "parallel-scaling", "annealing")
WITH_ERROR = ("chinchilla",)
TRUTHS, ERRORS = 16, 40
SPREADS = ("run", "extrapolated")


class Job(NamedTuple):
    law: str
    number: int
    error: bool


def with_error(law: bayeslaw.Law, drawn: Truth, number: int) -> Truth | None:
    """The truth with an error of the law; None if a loss of it would be refused."""
    seen, asked = ({c: frame[c].to_numpy(dtype=np.float64) for c in law.covariates} for frame in (drawn.runs.frame, drawn.targets))
    walk, rng = Walk.of(law, seen), np.random.default_rng([number, 1])
    assert walk is not None
    scale = PRIORS["discrepancy"].sample(1, rng)
    coefficients = scale * rng.standard_normal((1, walk.squares.size))
    whole = walk.complete(coefficients, scale, (number, 2))
    runs = drawn.runs.frame.assign(loss=drawn.runs.frame["loss"] * np.exp(walk.components(seen) @ coefficients[0]))
    targets = drawn.targets.assign(loss=drawn.targets["loss"] * np.exp(walk.features(asked) @ whole[:, 0]))
    return None if runs["loss"].max() > 15 else replace(drawn, runs=Runs(runs, drawn.runs.name), targets=targets)


def work(job: Job) -> list[dict[str, Any]]:
    """Coverage and widths of both spreads at the first target of a truth, which lies outside the runs."""
    law = bayeslaw.load_law(job.law)
    try:
        drawn: Truth | None = truth(law, job.number)
        drawn = with_error(law, drawn, job.number) if job.error and drawn is not None else drawn
        if drawn is None:
            return [{"law": job.law, "error": job.error, "failed": "a loss above 15 nats/token, which tables refuse"}]
        fit, _ = fitted(law, drawn.runs, {"discrepancy": "learned"}, job.number)
        draws = fit.forecast(drawn.targets.drop(columns="loss"), seed=1, force=True).draws
    except BayeslawError as error:
        return [{"law": job.law, "error": job.error, "failed": str(error)}]
    loss, rows = float(drawn.targets["loss"].iloc[0]), []
    for spread in SPREADS:
        low, quarter, middle, upper, high = np.quantile(draws[spread].values[:, 0], [0.05, 0.25, 0.5, 0.75, 0.95])
        inside = {"50%": quarter <= loss <= upper, "90%": low <= loss <= high}
        noise = float(np.median(fit.draws["sigma_point"]))
        rows.append(
            {"law": job.law, "error": job.error, "spread": spread, **inside, "width": (high - low) / middle, "noise": noise}
        )
    return rows


def of_truths(rows: pd.DataFrame, error: bool) -> str:
    """A table of coverage and of how much wider the extrapolated interval is."""
    body, some = [], rows[rows["error"] == error]
    for law in EXACT:
        own = some[some["law"] == law]
        if not len(own):
            continue
        by: Any = {spread: own[own["spread"] == spread].reset_index(drop=True) for spread in SPREADS}
        ratio = by["extrapolated"]["width"] / by["run"]["width"]
        quiet = by["run"]["noise"] < by["run"]["noise"].median()
        cells = {f"{s} in {p}": f"{by[s][p].mean():.0%}" for s in SPREADS for p in ("50%", "90%")}
        widths = {"all": ratio.median(), "less noise": ratio[quiet].median(), "more noise": ratio[~quiet].median()}
        body.append({"law": law, "truths": str(len(ratio)), **cells} | {f"width ratio, {k}": f"{v:.2f}" for k, v in widths.items()})
    return markdown_table(body)


def main() -> None:
    jobs = [Job(law, number, False) for law in EXACT for number in range(TRUTHS)]
    jobs += [Job(law, number, True) for law in WITH_ERROR for number in range(ERRORS)]
    found = list[dict[str, Any]]()
    with ProcessPoolExecutor(2) as pool:
        for i, part in enumerate(pool.map(work, jobs)):
            found += part
            print(f"\r{i + 1} of {len(jobs)} truths", end="", file=sys.stderr)
    rows = pd.DataFrame(found)
    failed = rows["failed"].dropna() if "failed" in rows else pd.Series(dtype=object)
    rows = rows.drop(columns="failed", errors="ignore").dropna()
    print(f"# The learnt discrepancy\n\n{banner('discrepancy')}\n\nNo fit or no forecast: {len(failed)} of {len(jobs)} truths.\n")
    print(
        "## Laws that are exact\n\nThe ratio is that of the widths of 90% intervals, `extrapolated` over `run`: its median over all"
    )
    print("truths, and over those with less and with more noise than their median.\n\n" + of_truths(rows, error=False) + "\n")
    print("## Laws with an error drawn from the model\n\n" + of_truths(rows, error=True))


if __name__ == "__main__":
    main()
