"""Print the standard deviations of the losses of a sweep's runs.csv between seeds, in percent: the table of its README.md.

python data/tinycpt/noise.py             # or: … noise.py tinycpt2
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
from sweeps import SWEEPS


def spread(deviations: pd.DataFrame, freedom: float = 1.0) -> str:
    """Return the standard deviation, in percent, of deviations from the mean over seeds (settings, seeds).

    `freedom` is the share of the degrees of freedom that is left.
    """
    degrees = deviations.size * (1 - 1 / deviations.shape[1]) * freedom
    return f"{100 * np.sqrt((deviations.to_numpy() ** 2).sum() / degrees):.2f}"


def main() -> None:
    table = pd.read_csv(SWEEPS[sys.argv[1] if len(sys.argv) > 1 else "tinycpt"].folder / "runs.csv").fillna({"r": -1.0})
    keys = [key for key in ("N", "anneal", "domain") if key in table]
    columns = (
        "single loss",
        "of which single points",
        "mean of a run",
        "mean of a checkpoint's runs",
        "base checkpoint",
    )
    print(f"| {' | '.join((*keys, *columns))} |\n|" + "---|" * (len(keys) + len(columns)))
    for _, rows in table.groupby(keys):
        size, *names = rows.iloc[0][keys].astype(str)
        losses = rows.pivot_table(index=["ptpp", "r", "step"], columns="seed", values="loss").dropna().map(math.log)
        if losses.shape[1] < 2:
            continue
        off = losses.sub(losses.mean(axis=1), axis=0)
        base = off[off.index.get_level_values("r") < 0]
        single = off[off.index.get_level_values("r") >= 0]
        run = single.groupby(["ptpp", "r"]).mean()
        points = single - single.groupby(["ptpp", "r"]).transform("mean")
        steps = len(single) / len(run)
        cells = [spread(single), spread(points, 1 - 1 / steps), spread(run), spread(run.groupby("ptpp").mean()), spread(base)]
        print(f"| {' | '.join((f'{int(size):,}', *names, *cells))} |")


if __name__ == "__main__":
    main()
