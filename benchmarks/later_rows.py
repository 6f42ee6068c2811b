"""Forecasts of later rows of fitted runs, on every sweep of continual pre-training of small models.

    python benchmarks/later_rows.py        # prints the table kept in benchmarks/results/later_rows.md

The recommended laws are fitted to the two earliest stages of a sweep, up to EARLY adaptation tokens per parameter, with either
noise of cpt.NOISES, and forecast the later rows of the same runs: as of these runs, with their learnt effects, and as of new ones.
Columns: mean relative error, shares of the losses in the equal-tailed 50% and 90% intervals that a forecast reports, and the mean
width of the latter over the loss.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Any, get_args

import pandas as pd
from cpt import LAWS, NOISES, Case, cases, scores, shown, together
from tables import banner, markdown_table, percent

import bayeslaw
from bayeslaw.posterior.effects import Reading

EARLY = 5
READINGS = [reading for reading in get_args(Reading) if reading != "new-checkpoint"]


def work(case: Case) -> list[dict[str, Any]]:
    """Scores of the recommended laws with each noise, read in each way."""
    early = case.seen["D"] <= EARLY * case.seen["N"]
    seen, later, laws, body = case.seen[early], case.seen[~early], LAWS[case.domain][0], []
    for noise in NOISES:
        fit = together({name: bayeslaw.fit(name, seen, noise=noise, progress=False, cores=1) for name in laws})
        for reading in READINGS:
            draws = fit.forecast(later.drop(columns="loss"), as_=reading, force=True).predictive
            head = {"domain": case.domain, "law": shown(laws), "noise": noise, "as": reading}
            about = {"rows": case.name, **head, "later rows": str(len(later)), "sampling": "passed" if fit.passed else "FAILED"}
            body.append(about | scores(later["loss"].to_numpy(), draws))
    return body


def cells(row: Any) -> dict[str, str]:
    """The scores of a row of results as the tables have them."""
    return {
        "error": percent(row["error"], 2), "in 50%": percent(row["50%"]), "in 90%": percent(row["90%"]),
        "width": percent(row["width"], 1),
    }  # fmt: skip


def main() -> None:
    every = [case for case in cases() if case.split == "stages"]
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, every) for row in part])
    about, by = ["rows", "domain", "law", "noise", "as", "later rows", "sampling"], ["domain", "noise", "as"]
    means = rows.groupby(by, sort=False)[["error", "50%", "90%", "width"]].mean().reset_index()
    print(f"# Later rows of fitted runs\n\n{banner('later_rows')}\n")
    print(f"Fitted up to {EARLY} adaptation tokens per parameter, asked for the rest of the same runs. Nothing was chosen by")
    print("this table.\n")
    print(markdown_table([{**row[about], **cells(row)} for _, row in rows.iterrows()]))
    print(f"\nMeans over the {len(every) // 2} tables of a domain:\n")
    print(markdown_table([{**row[by], **cells(row)} for _, row in means.iterrows()]))


if __name__ == "__main__":
    main()
