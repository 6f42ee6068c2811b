"""How well intervals hold at tokens per parameter that no run has had, within the runs in size, tokens and compute.

    BAYESLAW_SHARED_DATA=… python benchmarks/ratios.py > benchmarks/results/ratios.md

`chinchilla` is fitted to the rows of a ladder without its upper or lower third of D / N, and forecasts those left out whose N, D
and N x D lie within the fitted rows'. Nothing is chosen by it but that such settings lie outside the runs
(docs/decisions/forecasting.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from ladders import FEWEST, LAW, percent, runs_of, tables
from tables import banner, markdown_table

import bayeslaw

SETS = 3  # of a source
FEWEST_HELD = 3
THIRDS = {"upper": 2 / 3, "lower": 1 / 3}
SPREADS = ("run", "extrapolated")


class Split(NamedTuple):
    """Rows of a ladder to fit, and rows to forecast."""

    source: str
    third: str
    fitted: pd.DataFrame
    held: pd.DataFrame


def splits() -> Iterator[Split]:
    """Both thirds of the first sets of every source that leave enough rows within the others."""
    found = dict[str, int]()
    for source, _, table in tables():
        rows, some = runs_of(source, table), list[Split]()
        ratio, compute = rows["D"] / rows["N"], rows["N"] * rows["D"]
        for third, share in THIRDS.items():
            kept = ratio <= ratio.quantile(share) if third == "upper" else ratio >= ratio.quantile(share)
            fitted = rows[kept]
            within = ~kept & (compute <= compute[kept].max())
            for name in ("N", "D"):
                within &= rows[name].between(fitted[name].min(), fitted[name].max())
            if len(fitted) >= FEWEST and within.sum() >= FEWEST_HELD:
                some.append(Split(source, third, fitted, rows[within]))
        if some and found.get(source, 0) < SETS:
            found[source] = found.get(source, 0) + 1
            yield from some


def work(split: Split) -> dict[str, Any]:
    """Coverage, width and error of the next run's intervals with and without the learnt error."""
    fit = bayeslaw.fit(LAW, split.fitted, progress=False, cores=1)
    told = fit.forecast(split.held.drop(columns=["loss", "run"]), force=True).summary()
    loss = split.held["loss"].to_numpy()
    row: dict[str, Any] = {"source": split.source, "third": split.third, "held": len(loss), "passed": fit.passed}
    for spread in SPREADS:
        low, high = (told[f"{spread}_eti90_{end}"].to_numpy() for end in ("lb", "ub"))
        row[f"{spread} in 90%"] = np.mean((low <= loss) & (loss <= high))
        row[f"{spread} width"] = np.mean((high - low) / loss)
        row[f"{spread} error"] = np.mean(np.abs(told[f"{spread}_median"].to_numpy() / loss - 1))
    return row


HEAD = """# Tokens per parameter that no run has had

{banner}

`{law}` fitted to ladders without the upper or lower third of D / N (at most {sets} sets of a source), and forecasts of the
losses left out whose N, D and compute lie within the fitted ones: losses in 90% intervals of the next run by the law taken for
exact (`run`) and with its error (`extrapolated`), their width, and the mean error of their medians. No split of this table chose
the size or the form of that error, but the sources are those of `ladders.md`. Fits whose sampling failed: {failed} of {fits}.
"""


def main() -> None:
    every = list(splits())
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame(pool.map(work, every))
    columns = [f"{spread} {what}" for spread in SPREADS for what in ("in 90%", "width", "error")]
    body = []
    for source, of in rows.groupby("source"):
        means = of[columns].mean()
        body.append({"source": source, "splits": len(of), "losses": of["held"].sum(), **means})
    table = pd.DataFrame(body)
    whole = {"source": "mean of the sources", "splits": len(rows), "losses": rows["held"].sum(), **table[columns].mean()}
    shown = [
        {k: percent(v, 0 if k.endswith("in 90%") else 1) if k in columns else str(v) for k, v in row.items()}
        for row in (*body, whole)
    ]
    failed = int((~rows["passed"]).sum())
    print(HEAD.format(banner=banner("ratios"), law=LAW, sets=SETS, failed=failed, fits=len(rows)))
    print(markdown_table(shown))


if __name__ == "__main__":
    main()
