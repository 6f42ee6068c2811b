"""How well losses of large models on unseen mixtures are forecast, and which mixture is recommended: SlimPajama, 7 domains.

    BAYESLAW_SHARED_DATA=… python benchmarks/mixtures.py [--draws 1000] [--keep FOLDER] > benchmarks/results/mixtures.md

The runs are of six sizes (122M to 2.7B) and 61 mixtures of seven domains. The law `mixture-scaling` is fitted to the losses of each
domain at 122M and 310M, without the mixtures that 1.2B and 2.7B were trained on. Losses of these are forecast, and the mixture of
least mean loss over the domains is chosen among them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import SHARED, banner, markdown_table

import bayeslaw

DOMAINS = ("arxiv", "book", "c4", "github", "commoncrawl", "stackexchange", "wikipedia")
SMALL, LARGE = 3.2e8, 1e9
EARLY = 0.39  # share of a run's tokens before which checkpoints are left out
DOUBLED = 0.995  # checkpoints after this share but before the last repeat it

HEAD = """{banner}

Rows: checkpoints from 40% of a run's tokens on, of models up to 310M on {fitted} mixtures ({rows} rows a domain, one fit each). The
large models are of {held} other mixtures. Chosen on which rows: the form, and that early checkpoints are left out, on the fitted
rows alone (`mixture_forms.md`). Errors at 1.2B and 2.7B of an earlier form, whose terms add, had been
seen before: 2.9% in the mean, too high nearly everywhere. `bayeslaw`'s usual error of laws beyond their runs was learnt from eight
sources (`ladders.md`), of which these runs are one. {draws} draws a chain.

Columns: mean error of forecasts (`extrapolated` median), signed and absolute; how many losses lie in the 90% intervals
`extrapolated` and `run`; mean width of the first, relative to the loss.
"""


def runs(early: float = EARLY) -> pd.DataFrame:
    """Return the checkpoints that are used, with shares, the mixture's number, and a name for each run."""
    table = pd.read_csv(SHARED / "mixtures_slimpajama.csv").rename(columns={f"weight_{d}": d for d in DOMAINS})
    number = table.groupby([table[d].round(5) for d in DOMAINS], sort=False).ngroup()
    table = table.assign(mixture=number, run=[f"mixture {m}, {n / 1e6:.0f}M" for m, n in zip(number, table["N"], strict=True)])
    last = table.groupby("run")["D"].transform("max")
    kept = (table["D"] > early * last) & ((table["D"] < DOUBLED * last) | (table["D"] == last))
    return table[kept].assign(end=table["D"] == last).reset_index(drop=True)


def of_domain(table: pd.DataFrame, domain: str) -> pd.DataFrame:
    rows = table.assign(loss=table[f"{domain}_loss"])
    return rows[[*DOMAINS, "N", "D", "run", "end", "loss"]].dropna().reset_index(drop=True)


def scored(fit: bayeslaw.Fit, held: pd.DataFrame) -> pd.DataFrame:
    """Return the error of each forecast and whether intervals hold it."""
    forecasts, loss = fit.forecast(held.drop(columns=["loss", "end"]), force=True).summary(), held["loss"]
    inside = {s: (loss >= forecasts[f"{s}_eti90_lb"]) & (loss <= forecasts[f"{s}_eti90_ub"]) for s in ("extrapolated", "run")}
    width = (forecasts["extrapolated_eti90_ub"] - forecasts["extrapolated_eti90_lb"]) / loss
    return held[["N", "end"]].assign(error=forecasts["extrapolated_median"] / loss - 1, width=width, **inside)


def summary(what: str, rows: pd.DataFrame, **more: Any) -> dict[str, Any]:
    return {
        "losses of": what, "losses": len(rows), "signed": f"{100 * rows['error'].mean():+.1f}%",
        "error": f"{100 * rows['error'].abs().mean():.1f}%", "extrapolated holds": f"{100 * rows['extrapolated'].mean():.0f}%",
        "run holds": f"{100 * rows['run'].mean():.0f}%", "width": f"{100 * rows['width'].mean():.0f}%", **more,
    }  # fmt: skip


def recommended(fits: dict[str, bayeslaw.Fit], table: pd.DataFrame, n: float) -> dict[str, Any]:
    """Return how the mixture that `mix` chooses among those measured at a size compares with the best measured one."""
    ends = table[(table["N"] == n) & table["end"]].reset_index(drop=True)
    mean = ends[[f"{d}_loss" for d in DOMAINS]].mean(axis=1).to_numpy()
    found = bayeslaw.mix(fits, at={"N": n, "D": float(ends["D"].max())}, among=ends[list(DOMAINS)], force=True)
    chosen = int(np.abs(ends[list(DOMAINS)].to_numpy() - [found.attainable[d] for d in DOMAINS]).sum(axis=1).argmin())
    first = found.table.set_index("mixture").loc["recommended"]
    return {
        "size": f"{n / 1e9:.2f}B", "mixtures": len(ends), "measured loss": f"{mean[chosen]:.4f}",
        "of the best": f"{mean.min():.4f}", "excess": f"{100 * (mean[chosen] / mean.min() - 1):.2f}%",
        "rank": int((mean < mean[chosen]).sum()) + 1, "worst over best": f"{100 * (mean.max() / mean.min() - 1):.1f}%",
        "probability that it is best": f"{first['best_prob']:.2f}",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="folder for the fits")
    draws, keep = (given := parser.parse_args()).draws, given.keep
    table = runs()
    large, held = table["N"] > LARGE, table.loc[table["N"] > LARGE, "mixture"].unique()
    fitted = table[(table["N"] < SMALL) & ~table["mixture"].isin(held)]
    law = bayeslaw.load_law("mixture-scaling", shares=DOMAINS)
    fits, scores, lines = {}, {}, []
    for domain in DOMAINS:
        begun, rows = time.perf_counter(), of_domain(fitted, domain).drop(columns="end")
        fits[domain] = bayeslaw.fit(law, rows, draws=draws, seed=1, progress=False)
        seconds = time.perf_counter() - begun
        scores[domain] = scored(fits[domain], of_domain(table[large], domain))
        about = f"{len(rows)} rows, {seconds:.0f} s, {'passed' if fits[domain].passed else 'FAILED'}"
        lines.append(summary(domain, scores[domain], fit=about))
        print(lines[-1], file=sys.stderr, flush=True)
        if keep:
            fits[domain].save(keep / f"{domain}.nc")
    every = pd.concat(scores.values())
    for n, group in every.groupby("N"):
        lines.append(summary(f"all, {float(n) / 1e9:.2f}B", group, fit=""))  # type: ignore[arg-type]
        lines.append(summary(f"all, {float(n) / 1e9:.2f}B, ends of runs", group[group["end"]], fit=""))  # type: ignore[arg-type]
    lines.append(summary("all", every, fit=""))
    print("# Mixtures of seven domains: larger models and unseen mixtures, from small ones\n")
    print(HEAD.format(banner=banner("mixtures"), fitted=fitted["mixture"].nunique(), held=held.size, rows=len(fitted), draws=draws))
    print(markdown_table(lines))
    print("\nThe mixture recommended among the measured ones, by mean loss over the seven domains at the ends of runs:\n")
    print(markdown_table([recommended(fits, table, float(n)) for n in sorted(table.loc[large, "N"].unique())]))


if __name__ == "__main__":
    main()
