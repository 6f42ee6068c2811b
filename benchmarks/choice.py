"""Laws chosen for the upper third of compute by the lower rows alone, on public ladders: CRPS of each law and of the stack.

    BAYESLAW_SHARED_DATA=… python benchmarks/choice.py [SETS]     # prints the table kept in benchmarks/results/choice.md

SETS is how many sets of each source are taken, in alphabetical order; 1 by default, 0 for all. Public losses are read from the
folder named by BAYESLAW_SHARED_DATA (by default ../shared/data). Every law is fitted to the rows up to the 2/3 quantile of compute,
and `bayeslaw.compare(at=…)` chooses for the settings of the others, whose losses it does not see. CRPS is over the mean loss.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pandas as pd
from tables import SHARED, banner, markdown_table

import bayeslaw
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.executors import Executor
from bayeslaw.evaluation.comparison import Comparison

LAWS = ("chinchilla", "chinchilla-nd", "kaplan")
UPPER = 2 / 3  # quantile of compute above which rows are held back


def ladders(sets: int) -> list[tuple[str, str, pd.DataFrame]]:
    """Source, set and rows of some sets of each source; a row without a run is a run of its own."""
    table = pd.read_csv(SHARED / "ladders.csv").astype({"N": float, "D": float})
    alone = pd.Series([f"row {i}" for i in range(len(table))], index=table.index)
    table["run"] = table["run"].astype(object).where(table["run"].notna(), alone)
    taken = []
    for source, rows in table.groupby("source"):
        for name in sorted(rows["set"].unique())[: sets or None]:
            own = rows.loc[rows["set"] == name, ["run", "N", "D", "loss"]]
            taken.append((str(source), str(name), own.reset_index(drop=True)))
    return taken


def errors(comparison: Comparison, lower: pd.DataFrame, upper: pd.DataFrame) -> dict[str, float]:
    """CRPS over the mean loss at the upper rows, of each law fitted to the lower ones and of the stack."""
    own = comparison.stack.members
    of: dict[str, Any] = {law: own[law] if law in own else bayeslaw.fit(law, lower, progress=False) for law in LAWS}
    of["stack"] = comparison.stack
    return {name: bayeslaw.score(fit, upper, force=True)["crps"].item() / upper["loss"].mean() for name, fit in of.items()}


def judged(source: str, name: str, rows: pd.DataFrame, place: Executor) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Errors on one ladder, the row of the table, and notes of the comparison that name a law."""
    compute, start = rows["N"] * rows["D"], time.perf_counter()
    low = compute <= compute.quantile(UPPER)
    lower, upper = (rows[side].reset_index(drop=True) for side in (low, ~low))
    comparison = bayeslaw.compare(lower, LAWS, at=upper.drop(columns="loss"), executor=place, progress=False)
    found = errors(comparison, lower, upper)
    found["chosen"] = found[str(comparison.weights.index[0])]
    weights = {law: "left out" if np.isnan(w) else f"{w:.2f}" for law, w in comparison.weights["weight"].items()}
    reach = np.log(compute.max() / compute[low].max())
    row = {"source": source, "set": name, "rows": f"{len(lower)} + {len(upper)}", "e-folds": f"{reach:.1f}"}
    row |= {law: f"{found[law]:.2%}" for law in (*LAWS, "stack", "chosen")}
    row |= {"stack / best": f"{found['stack'] / min(found[law] for law in LAWS):.2f}"}
    row |= {"stack / chinchilla": f"{found['stack'] / found['chinchilla']:.2f}"}
    row |= {"weights": ", ".join(f"{law} {weights[law]}" for law in LAWS)}
    row |= {"hold-outs": f"{comparison.weights['hold_outs'].max():.1f}", "s": f"{time.perf_counter() - start:.0f}"}
    return found, row, [f"{source}, {name}: {note}" for note in comparison.notes if any(law in note for law in LAWS)]


def main() -> None:
    rows, found, notes, refused = [], list[dict[str, Any]](), list[str](), list[str]()
    with bayeslaw.core.executor("processes:2") as place:
        for source, name, table in ladders(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
            try:
                error, row, of_laws = judged(source, name, table, place)
            except BayeslawError as problem:
                refused.append(f"{source}, {name}: {problem}")
                continue
            found.append({"source": source} | error)
            rows.append(row)
            notes += of_laws
            print(row, file=sys.stderr, flush=True)
    mean = pd.DataFrame(found).groupby("source").mean()
    best = str(mean[list(LAWS)].mean().idxmin())
    print("# Laws chosen for forecasts beyond the runs\n\n" + banner("choice") + "\n")
    print(f"CRPS at the upper third of compute, relative to the mean loss.\n\n{markdown_table(rows)}\n")
    print("Means over sources: " + ", ".join(f"{name} {value:.2%}" for name, value in mean.mean().items()) + ".\n")
    for name in ("stack", "chosen"):
        over = mean[name] / mean["chinchilla"]
        print(
            f"- {name}: {mean[name].mean() / mean[best].mean():.2f} times the CRPS of {best}, the best single law; at most "
            f"{over.max():.2f} times that of chinchilla (on {over.idxmax()}); {over.median():.2f} in the median source."
        )
    print("\nNotes of the comparisons:\n\n" + "\n".join(f"- {note}" for note in [*refused, *notes]))


if __name__ == "__main__":
    main()
