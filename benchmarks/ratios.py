"""How well intervals hold in corners that the runs leave out: at tokens per parameter or compute that no run has had.

    BAYESLAW_SHARED_DATA=… python benchmarks/ratios.py > benchmarks/results/ratios.md

`chinchilla` is fitted to the rows of a ladder without its upper or lower third of D / N, and forecasts those left out whose N, D
and N x D lie within the fitted rows'; and to the lower two thirds of N x D, and forecasts those left out whose N and D lie within.
Nothing is chosen by it but that such settings lie outside the runs (docs/decisions/forecasting.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from ladders import FEWEST, LAW, runs_of, tables
from tables import banner, markdown_table, percent

import bayeslaw

SETS = 3  # of a source
FEWEST_HELD = 3
CORNERS = {"D / N": ("upper D / N", "lower D / N"), "N x D": ("upper N x D",)}
SPREADS = ("run", "extrapolated", "usual")


class Split(NamedTuple):
    """Rows of a ladder to fit, and rows to forecast."""

    source: str
    left_out: str
    fitted: pd.DataFrame
    held: pd.DataFrame


def splits() -> Iterator[Split]:
    """Every corner of the first sets of every source that leave enough rows within the others."""
    found = dict[str, int]()
    for source, _, table in tables():
        rows, some = runs_of(source, table), list[Split]()
        ratio, compute = rows["D"] / rows["N"], rows["N"] * rows["D"]
        kept_by = {
            "upper D / N": ratio <= ratio.quantile(2 / 3), "lower D / N": ratio >= ratio.quantile(1 / 3),
            "upper N x D": compute <= compute.quantile(2 / 3),
        }  # fmt: skip
        for left_out, kept in kept_by.items():
            fitted = rows[kept]
            within = ~kept if left_out == "upper N x D" else ~kept & (compute <= compute[kept].max())
            for name in ("N", "D"):
                within &= rows[name].between(fitted[name].min(), fitted[name].max())
            if len(fitted) >= FEWEST and within.sum() >= FEWEST_HELD:
                some.append(Split(source, left_out, fitted, rows[within]))
        if some and found.get(source, 0) < SETS:
            found[source] = found.get(source, 0) + 1
            yield from some


def work(split: Split) -> dict[str, Any]:
    """Coverage, width and error of the next run's intervals, without an error of the law, with a learnt and with a usual one."""
    fit = bayeslaw.fit(LAW, split.fitted, progress=False, cores=1)
    with patch("bayeslaw.inference.fit.why_not", lambda *_: "the error is usual"):
        usual = bayeslaw.fit(LAW, split.fitted, progress=False, cores=1)
    at, loss = split.held.drop(columns=["loss", "run"]), split.held["loss"].to_numpy()
    own, of_usual = (posterior.forecast(at, force=True).summary() for posterior in (fit, usual))
    summaries = {"run": own, "extrapolated": own, "usual": of_usual}
    row: dict[str, Any] = {"source": split.source, "left out": split.left_out, "held": len(loss), "passed": fit.passed}
    for name in SPREADS:
        spread = "run" if name == "run" else "extrapolated"
        low, high = (summaries[name][f"{spread}_eti90_{end}"].to_numpy() for end in ("lb", "ub"))
        row[f"{name} in 90%"] = np.mean((low <= loss) & (loss <= high))
        row[f"{name} width"] = np.mean((high - low) / loss)
        row[f"{name} error"] = np.mean(np.abs(summaries[name][f"{spread}_median"].to_numpy() / loss - 1))
    return row


HEAD = """# Corners that the runs leave out

{banner}

`{law}` fitted to ladders without the upper or lower third of D / N, and to the lower two thirds of N x D (at most {sets} sets of a
source), and forecasts of the losses left out whose N and D, for D / N also N x D, lie within the fitted ones: losses in 90%
intervals of the next run, their width, and the mean error of their medians. `run` is of the law taken for exact, `extrapolated`
with its error: learnt, as the package has it for these tables, or the usual one, as it has it where it learns none (pooled laws,
more than 5,000 rows). No split of this table chose the size or the form of that error, but the sources are those of `ladders.md`.
Fits whose sampling failed: {failed} of {fits}.
"""


def table(rows: pd.DataFrame) -> str:
    """Means over the splits of every source, and over the sources."""
    columns = [f"{name} {what}" for name in SPREADS for what in ("in 90%", "width", "error")]
    body = [
        {"source": source, "splits": len(of), "losses": of["held"].sum(), **of[columns].mean()}
        for source, of in rows.groupby("source")
    ]
    whole = {"source": "mean of the sources", "splits": len(rows), "losses": rows["held"].sum()}
    body.append(whole | dict(pd.DataFrame(body)[columns].mean()))
    return markdown_table([
        {k: percent(v, 0 if k.endswith("in 90%") else 1) if k in columns else str(v) for k, v in row.items()} for row in body
    ])  # fmt: skip


def main() -> None:
    every = list(splits())
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame(pool.map(work, every))
    failed = int((~rows["passed"]).sum())
    print(HEAD.format(banner=banner("ratios"), law=LAW, sets=SETS, failed=failed, fits=len(rows)))
    for corner, left_out in CORNERS.items():
        print(f"## {corner} beyond the runs\n\n{table(rows[rows['left out'].isin(left_out)])}\n")


if __name__ == "__main__":
    main()
