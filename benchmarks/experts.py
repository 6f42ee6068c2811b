"""How well `sparse-experts` forecasts mixtures of experts that are larger than any run of the fit, on public losses.

    python benchmarks/experts.py > benchmarks/results/experts.md        # downloads the losses, or takes them from the cache

The runs of each router, dense ones among them, are fitted without the largest size, or the two largest, and these are forecast: by
the last loss of every run, and by every fourth logged one from 60,000 steps on. Losses are those on the authors' own validation
set. No number, prior or law was chosen on this set; that its sizes are counted by active parameters was decided when intervals by
all parameters were seen to fail on it (docs/decisions/noise.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import pandas as pd
from tables import banner, markdown_table, percent

import bayeslaw

LAW = "sparse-experts"
ROUTERS = ("S-Base", "Hash", "RL-R")
FROM, EVERY = 60_000, 40_000  # steps
LAST = 248_000
HELD = {"the largest size": ("1.3B",), "the two largest": ("1.3B", "370M")}


class Case(NamedTuple):
    """Losses of the runs of a router to fit, and those to forecast."""

    router: str
    losses: str
    left_out: str
    fitted: pd.DataFrame
    held: pd.DataFrame


def losses() -> pd.DataFrame:
    """The authors' validation losses of the runs of their main experiment: one expert for a token, in every other layer."""
    with tempfile.TemporaryDirectory() as folder:
        table = pd.read_csv(bayeslaw.fetch_dataset("routed-experts", folder).paths[0])
    main = (table["used_experts"] == 1) & (table["flop_increase"] == 1) & (table["routing_frequency"] == 0.5)
    return table[main & (table["val_set"] == "validation")]


def cases() -> Iterator[Case]:
    table = losses()
    for router in ROUTERS:
        runs = table[table["router"].isin([router, "Dense"])]
        last = runs[runs["step"] >= LAST].drop_duplicates("run", keep="last")
        some = runs[((runs["step"] >= FROM) & (runs["step"] % EVERY == 0)) | (runs["step"] > LAST)]
        for name, rows in (("last", last), (f"from {FROM:,} steps", some)):
            for left_out, sizes in HELD.items():
                held = rows["size"].isin(sizes)
                columns = ["run", "N", "active", "D", "loss"]
                yield Case(router, name, left_out, rows.loc[~held, columns], rows.loc[held, columns])


def work(case: Case) -> dict[str, Any]:
    """Scores of the spread that a forecast reports, and of the law taken for exact."""
    fit = bayeslaw.fit(LAW, case.fitted, progress=False, cores=1)
    own, exact = (bayeslaw.score(fit, case.held, discrepancy=given, force=True).iloc[0] for given in (None, "none"))
    middle = float(case.held["loss"].mean())
    return {
        "router": case.router, "losses": case.losses, "left out": case.left_out, "rows fitted": len(case.fitted),
        "forecast": len(case.held), "checks": "passed" if fit.passed else "FAILED", "error": percent(own["mae_rel"], 2),
        "bias": percent(own["bias_rel"], 2), "in 50%": percent(own["cover_eti50"]), "in 80%": percent(own["cover_eti80"]),
        "in 90%": percent(own["cover_eti90"]), "width": percent(own["width_eti90"] / middle, 1),
        "error, law taken for exact": percent(exact["mae_rel"], 2), "in 90% then": percent(exact["cover_eti90"]),
        "width then": percent(exact["width_eti90"] / middle, 1),
    }  # fmt: skip


def main() -> None:
    print(f"# Mixtures of experts beyond the runs\n\n{banner('experts')}\n")
    print((__doc__ or "").split("\n\n", 2)[2])
    with ProcessPoolExecutor() as processes:
        print(markdown_table(list(processes.map(work, cases()))))


if __name__ == "__main__":
    main()
