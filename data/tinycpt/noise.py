"""Print the standard deviations of the losses of runs.csv between seeds, in percent: the table of README.md.

python data/tinycpt/noise.py
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent


def spread(deviations: pd.DataFrame, freedom: float = 1.0) -> str:
    """Return the standard deviation, in percent, of deviations from the mean over seeds (settings, seeds).

    `freedom` is the share of the degrees of freedom that is left.
    """
    degrees = deviations.size * (1 - 1 / deviations.shape[1]) * freedom
    return f"{100 * np.sqrt((deviations.to_numpy() ** 2).sum() / degrees):.2f}"


def main() -> None:
    table = pd.read_csv(HERE / "runs.csv")
    table = table[table["r"].isna() | table["r"].between(0.05, 0.5)].fillna({"r": -1.0})
    columns = (
        "single loss",
        "of which single points",
        "mean of a run",
        "mean of a checkpoint's runs",
        "base checkpoint",
    )
    print(f"| N | domain | {' | '.join(columns)} |\n|" + "---|" * (2 + len(columns)))
    for (size, domain), rows in table.groupby(["N", "domain"]):
        if rows["seed"].nunique() < 2:
            continue
        losses = rows.pivot_table(index=["ptpp", "r", "step"], columns="seed", values="loss").map(math.log)
        off = losses.sub(losses.mean(axis=1), axis=0)
        base = off[off.index.get_level_values("r") < 0]
        single = off[off.index.get_level_values("r") > 0]
        run = single.groupby(["ptpp", "r"]).mean()
        points = single - single.groupby(["ptpp", "r"]).transform("mean")
        steps = len(single) / len(run)
        cells = [spread(single), spread(points, 1 - 1 / steps), spread(run), spread(run.groupby("ptpp").mean()), spread(base)]
        print(f"| {size:,} | {domain} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
