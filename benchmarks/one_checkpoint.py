"""Adaptations of one checkpoint, forecast beyond the tokens that were logged: the laws that know neither size nor pre-training.

    BAYESLAW_SHARED_DATA=… python benchmarks/one_checkpoint.py > benchmarks/results/one_checkpoint.md

`replay-source` and `replay-target` are fitted at their defaults to the adaptations of every second checkpoint of each sweep, up to
the shares CUTS of its tokens, and forecast the later rows; `forgetting` and `fine-tuning` to those with the least replay
alone. Adaptations of Pythia-70M to Python, a real model, stand beside them where the public table is present.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import pandas as pd
from cpt import scores, toys
from intervals import pile, python
from tables import SHARED, banner, markdown_table, percent

import bayeslaw

CUTS = (0.25, 0.5)
ONE_MIXTURE = {"source": "forgetting", "target": "fine-tuning"}
LEAST = 3  # replay shares of a checkpoint
LEAST_ROWS = 5  # fitted

HEAD = """# Adaptations of one checkpoint, beyond the logged tokens

{banner}

`replay-source` and `replay-target`, fitted to the adaptations of one checkpoint with three replay shares or more, up to a quarter
or half of their tokens (1.4 and .7 e-folds), and forecasts of the later rows; `forgetting` and `fine-tuning`, the laws of one
mixture for source and target, fitted to the adaptation with the least replay alone. Columns: checkpoints; fits whose checks passed;
the longest fit in processor seconds; mean error and bias of the median; 50% and 90% intervals with the law taken for exact (`run`)
and as a forecast reports them (with the error that laws have beyond their runs), and the mean width of the latter. Forms and
priors were chosen by point fits and samples of these tables, held-out rows included; the form of `fine-tuning` is published.
"""


class Case(NamedTuple):
    """Adaptations of one checkpoint: a sweep, the law that is fitted, and rows with run, D, r and loss."""

    sweep: str
    law: str
    rows: pd.DataFrame


def cases() -> Iterator[Case]:
    """Every second checkpoint of the sweeps of small models, and Pythia."""
    for sweep, _, table in toys():
        for domain, own in table[table["D"] > 0].groupby("domain"):
            several = [rows for _, rows in own.groupby("checkpoint") if rows["r"].nunique() >= LEAST]
            for rows in several[::2]:
                yield from of_laws(sweep, str(domain), rows[["run", "D", "r", "loss"]])
    if SHARED.is_dir():
        for domain, table in (("source", pile()), ("target", python())):
            yield from of_laws("Pythia-70M", domain, table[table["D"] > 0])


def of_laws(sweep: str, domain: str, rows: pd.DataFrame) -> Iterator[Case]:
    """The law of several replay shares with all rows, and that of one mixture with the least share."""
    yield Case(sweep, f"replay-{domain}", rows)
    yield Case(sweep, ONE_MIXTURE[domain], rows[rows["r"] == rows["r"].min()])


def work(case: Case) -> list[dict[str, Any]]:
    """Scores of the forecasts from each part of the tokens."""
    found = list[dict[str, Any]]()
    for cut in CUTS:
        early = case.rows["D"] <= cut * case.rows["D"].max()
        began = time.process_time()
        if early.sum() < LEAST_ROWS:
            continue
        fit = bayeslaw.fit(case.law, case.rows[early], progress=False, cores=1)
        seconds = time.process_time() - began
        held = case.rows[~early]
        forecast, loss = fit.forecast(held.drop(columns="loss"), force=True), held["loss"].to_numpy()
        exact = fit.forecast(held.drop(columns="loss"), discrepancy="none", force=True)
        reported = scores(loss, forecast.with_errors.predictive) | {
            f"{k}, exact": v for k, v in scores(loss, exact.predictive).items()
        }
        about = {"sweep": case.sweep, "law": case.law, "fitted up to": percent(cut)}
        found.append(about | reported | {"passed": fit.passed, "seconds": seconds})
    return found


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        every = list(cases())
        rows = pd.DataFrame([row for part in pool.map(work, every) for row in part])
    print(HEAD.format(banner=banner("one_checkpoint")))
    body = list[dict[str, Any]]()
    for (law, cut, sweep), part in rows.groupby(["law", "fitted up to", "sweep"], sort=False):
        mean = part.mean(numeric_only=True)
        body.append({
            "law": law, "fitted up to": cut, "sweep": sweep, "checkpoints": len(part), "passed": int(part["passed"].sum()),
            "longest": f"{part['seconds'].max():.1f} s", "error": percent(mean["error"], 2), "bias": percent(mean["bias"], 2),
            "in 50%, exact": percent(mean["50%, exact"]), "in 90%, exact": percent(mean["90%, exact"]),
            "in 50%": percent(mean["50%"]), "in 90%": percent(mean["90%"]), "width": percent(mean["width"], 1),
        })  # fmt: skip
    print(markdown_table(sorted(body, key=lambda row: (row["law"], row["fitted up to"]))))
    shares = []
    for law, part in rows.groupby("law"):
        reported, exact = (percent(float(part[name].mean())) for name in ("90%", "90%, exact"))
        shares.append(f"{reported} by `{law!s}` ({exact} with the law taken for exact)")
    asked = len(CUTS) * len(every)
    print(f"\n{asked - len(rows)} of {asked} tables have fewer than {LEAST_ROWS} early rows, and are left out.")
    print(f"{int(rows['passed'].sum())} of {len(rows)} fits passed. 90% intervals contain, in the mean of all tables and of")
    print(f"the later losses, {', '.join(shares)}.")


if __name__ == "__main__":
    main()
