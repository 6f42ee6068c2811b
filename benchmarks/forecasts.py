"""The experiment of Goffinet et al. 2025 on measured losses: fits at PTPP 15 and 31 forecast 62, 124 and 279.

    python benchmarks/forecasts.py           # prints the report kept in benchmarks/results/forecasts.md

Every law is fitted by point (least Huber loss) and by posterior, on all rows that it describes and, if it is one of the published
forms, on settled rows alone (ATPP >= 2), which suits it better. The later stages are held out at all sizes, and in a second
experiment also the two largest sizes. The oracle is D-CPT fitted to the held-out rows of each stage themselves.

Columns: mean relative error of settled rows (of the median of the `run` spread for a posterior); share of them in the equal-tailed
50% and 90% intervals; mean width of the latter in nats; error of the settled rows at PTPP 279; error of early rows (0 < ATPP < 2);
error of base checkpoints (D = 0), for which only some laws have a value.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.inference.point import PointFit, point_fit
from bayeslaw.posterior.fit import Fit

DATA = Path(__file__).parent.parent / "data" / "tinycpt"
PUBLISHED = ("d-cpt", "ptpp-gate", "ptpp-floor", "ptpp-gate-floor")
OURS = {"source": "transfer-source", "target": "transfer-target"}
SETTLED = 2.0  # tokens per parameter
STARTS = 40


class Split(NamedTuple):
    title: str
    seen: str
    held: str


def splits(sizes: list[float]) -> dict[str, Split]:
    """Unseen stages at all sizes, and unseen stages at the two largest sizes, which are held out too."""
    two = sizes[-2]
    return {
        "stages": Split("unseen stages", "ptpp <= 31", "ptpp > 31"),
        "sizes": Split("unseen stages and sizes", f"ptpp <= 31 and N < {two:g}", f"ptpp > 31 and N >= {two:g}"),
    }


class Job(NamedTuple):
    table: str
    domain: str
    split: Split
    law: str
    rows: str  # which rows the law is fitted to: all or settled


def regimes(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Held-out rows by how far the adaptation has come."""
    atpp = frame["D"] / frame["N"]
    return {
        "settled": frame[atpp >= SETTLED],
        "early": frame[(atpp > 0) & (atpp < SETTLED)],
        "base": frame[atpp == 0],
        "at 279": frame[(atpp >= SETTLED) & (frame["ptpp"] == 279)],
    }


def scored(fit: Fit | PointFit, held: pd.DataFrame, in_sample: bool = False) -> dict[str, float]:
    """Error and, for a posterior, coverage and width in each regime; nan if the law has no value there."""
    found: dict[str, float] = {}
    for name, frame in regimes(held).items():
        if not len(frame) or (name == "base" and fit.law.covariates["D"].support[0] > 0):
            continue
        scores = bayeslaw.score(fit, Runs(frame, name), discrepancy="none", force=True, in_sample=in_sample).iloc[0]
        found[f"{name} error"] = scores["mae_rel"]
        if isinstance(fit, Fit):
            found |= {f"{name} {column}": scores[column] for column in ("cover_eti50", "cover_eti90", "width_eti90")}
    return found


def seed_0(table: str, domain: str) -> Runs:
    """The runs of one domain with seed 0 and replay shares of .05 to .5, and their base checkpoints."""
    return read_runs(DATA / table, f"domain == '{domain}' and seed == 0 and (D == 0 or (r > 0 and r < 1))")


def work(job: Job) -> list[dict[str, Any]]:
    """Both fits of one law, scored."""
    runs = seed_0(job.table, job.domain)
    seen, held = runs.where(job.split.seen), runs.where(job.split.held)
    if job.rows == "settled":
        seen = Runs(seen.frame[seen.frame["D"] >= SETTLED * seen.frame["N"]], seen.name)
    head = {"law": job.law, "fitted to": job.rows}
    if job.law == "oracle":
        parts = [regimes(frame)["settled"] for _, frame in held.frame.groupby("ptpp")]
        fits = [point_fit("d-cpt", Runs(part, "oracle"), starts=STARTS) for part in parts]
        errors = [scored(fit, part, in_sample=True)["settled error"] for fit, part in zip(fits, parts, strict=True)]
        share = np.array([len(part) for part in parts])
        last = {"at 279 error": errors[-1]} if parts[-1]["ptpp"].iloc[0] == 279 else {}
        return [head | {"fit": "point", "settled error": float(np.average(errors, weights=share)), **last}]
    posterior = bayeslaw.fit(job.law, seen, progress=False)
    notes = [c.name for c in posterior.checks if not c.passed]
    rows = [head | {"fit": "posterior"} | scored(posterior, held.frame) | {"checks": ", ".join(notes) or "none"}]
    rows.append(head | {"fit": "point"} | scored(point_fit(job.law, seen, starts=STARTS), held.frame))
    print(f"{job.table} {job.domain} {job.split.title}: {job.law} on {job.rows} rows done", file=sys.stderr, flush=True)
    return rows


def jobs(table: str, domain: str, split: Split) -> list[Job]:
    published = [Job(table, domain, split, law, rows) for law in PUBLISHED for rows in ("settled", "all")]
    return [Job(table, domain, split, OURS[domain], "all"), *published, Job(table, domain, split, "oracle", "settled")]


COLUMNS = {
    "law": "law",
    "fitted to": "fitted to",
    "fit": "fit",
    "settled error": "error",
    "settled cover_eti50": "in 50%",
    "settled cover_eti90": "in 90%",
    "settled width_eti90": "90% width",
    "at 279 error": "error at 279",
    "early error": "early error",
    "early cover_eti90": "early in 90%",
    "base error": "base error",
    "checks": "checks failed",
}


def percent(value: Any, digits: int) -> str:
    return "" if pd.isna(value) else f"{100 * value:.{digits}f}%" if value < 10 else "> 1000%"


def markdown(rows: list[dict[str, Any]]) -> str:
    """The scores as a Markdown table, errors and coverages in percent, widths in nats."""
    frame = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    for column in COLUMNS:
        if "error" in column or "cover" in column:
            frame[column] = [percent(v, 2 if "error" in column else 0) for v in frame[column]]
        elif "width" in column:
            frame[column] = frame[column].map(lambda v: "" if pd.isna(v) else f"{v:.3f}")
    return markdown_table(
        [{str(k): v for k, v in row.items()} for row in frame.fillna("").rename(columns=COLUMNS).to_dict("records")]
    )


def main() -> None:
    print("# Forecasts of measured losses: unseen stages and sizes\n\n" + banner("forecasts") + "\n")
    print((__doc__ or "").split("\n\n", 2)[2])
    with ProcessPoolExecutor(2) as pool:
        for table in ("runs.csv", "runs-docs.csv"):
            sizes = sorted(pd.read_csv(DATA / table)["N"].unique())
            for domain in ("target", "source"):
                for key, split in splits(sizes).items():
                    if key == "stages" or len(sizes) >= 5:
                        rows = [row for part in pool.map(work, jobs(table, domain, split)) for row in part]
                        print(f"## {table}, {domain} domain, {split.title}\n\nfitted: {split.seen}; held out: {split.held}\n")
                        print(markdown(rows) + "\n", flush=True)


if __name__ == "__main__":
    main()
