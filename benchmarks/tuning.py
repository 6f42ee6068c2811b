"""Best learning rates and batch sizes from the public grids of Li et al. 2025 (Step Law): exponents, and the largest size held out.

    BAYESLAW_SHARED_DATA=… python benchmarks/tuning.py        # prints the table kept in benchmarks/results/tuning.md

The 17 grids (five sizes; `lr_batch_dense.csv`) have up to 12 rates and 10 batch sizes each. Rows of one grid and batch size are a
run, since their smoothed training losses end on the same data; rows of one D and batch size are of one `checkpoint`, because
sizes that have both end on the same data too. Which rows are fitted is chosen by forecasts of the 537M models from
the smaller ones, before the largest size is looked at.
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pandas as pd
from tables import SHARED, banner, markdown_table

import bayeslaw
from bayeslaw.posterior.fit import Fit

SEQUENCE = 2048  # tokens
WITHIN, NOISE = 0.02, "normal-checkpoint"
THRESHOLDS = (0.01, 0.02, 0.03, 0.05)
NEAR = 0.01  # rows over which choices are judged: those within 1% of the least loss of their grid
SECOND = 5e8  # parameters: the second largest size has more
NUMBERS = bayeslaw.load_law("lr-batch").published["Li et al. 2025, best rate and batch (tokens), bootstrap 95% intervals"]
PUBLISHED = {name: (NUMBERS[name], NUMBERS[f"{name}_lo"], NUMBERS[f"{name}_hi"]) for name in ("eta", "xi", "nu")}
NAMES = {"eta": "rate in N (fall)", "xi": "rate in D", "nu": "batch in D", "kappa": "rate in batch"}
COLUMNS = ["N", "D", "lr", "batch", "run", "checkpoint"]


def grids() -> pd.DataFrame:
    """All rows, with runs, checkpoints and `excess`, the share by which a loss exceeds the least of its N and D."""
    table = pd.read_csv(SHARED / "lr_batch_dense.csv")
    end = table["D"].astype(str) + "-" + table["bs"].astype(str)
    least = table.groupby(["N", "D"])["loss"].transform("min")
    return table.assign(
        batch=SEQUENCE * table["bs"], checkpoint=end, run=table["N"].astype(str) + "-" + end, excess=table["loss"] / least - 1
    )


def fitted(table: pd.DataFrame, noise: str = NOISE) -> Fit:
    """A fit of the law to rows, and of the law with an error along N and D."""
    return bayeslaw.fit("lr-batch", table[[*COLUMNS, "loss"]], noise=noise, seed=1, progress=False, cores=1)


def with_error(fit: Fit) -> Fit:
    """The posterior of the law with an error."""
    assert fit.extrapolation is not None
    return fit.extrapolation


def choices(table: pd.DataFrame) -> str:
    """Errors of forecasts of the 537M models from the smaller ones, by the rows that are fitted and the noise."""
    small, second = table[table["N"] < SECOND], table[(table["N"] > SECOND) & (table["N"] < table["N"].max())]
    judged = second[second["excess"] < NEAR].reset_index(drop=True)
    measured, rows = judged["loss"].to_numpy(), []
    for within, noise in ((WITHIN, "normal-no-run"), *((w, "normal") for w in THRESHOLDS)):
        own = small[small["excess"] < within]
        fit = fitted(own, noise)
        draws = fit.forecast(judged[COLUMNS], force=True, discrepancy="none").draws
        error = np.log(measured / np.median(draws["latent"], axis=0))
        low, high = np.quantile(draws["run"], [0.05, 0.95], axis=0)
        rows.append(
            {
                "rows within": f"{within:.0%}", "effects": "of runs" if noise == "normal" else "none", "fitted": len(own),
                "sampling": "passed" if fit.passed else "FAILED", "error": f"{np.abs(error).mean():.2%}",
                "in 90%": f"{((measured >= low) & (measured <= high)).mean():.0%}",
                "fall of the rate in N": f"{np.median(fit.draws['eta']):.2f}", "rate in D": f"{np.median(fit.draws['xi']):.2f}",
            }
        )  # fmt: skip
    return markdown_table(rows)


def exponents(fits: dict[str, Fit]) -> str:
    """Medians and 90% intervals of the exponents, beside the published bootstrap intervals."""
    rows = []
    for name, words in NAMES.items():
        row = {"exponent": words}
        if name in PUBLISHED:
            middle, low, high = PUBLISHED[name]
            row["published"] = f"{middle:g} [{low:g}, {high:g}]"
        else:
            row["published"] = "—"
        for title, fit in fits.items():
            low, middle, high = np.quantile(fit.draws[name], [0.05, 0.5, 0.95])
            inside = (
                "" if name not in PUBLISHED else ", inside" if PUBLISHED[name][1] <= middle <= PUBLISHED[name][2] else ", outside"
            )
            row[title] = f"{middle:.3f} [{low:.3f}, {high:.3f}]{inside}"
        rows.append(row)
    return markdown_table(rows)


def largest(fit: Fit, table: pd.DataFrame) -> str:
    """The grids of the largest size, by a fit to the smaller ones: loss at the best cell, least loss, and recommendation."""
    rows = []
    grids_of_largest = table[table["N"] == table["N"].max()].groupby("D")
    for (d, grid), law in product(grids_of_largest, ("with an error", "taken for exact")):
        discrepancy = "learned" if law == "with an error" else "none"
        own = grid[grid["excess"] < WITHIN].reset_index(drop=True)
        predicted = fit.forecast(own[COLUMNS], force=True, discrepancy=discrepancy)
        best = int(own["loss"].argmin())
        latent = np.median(predicted.expected(slice(best, best + 1)))
        least = predicted.predictive.min(axis=1)
        low, middle, high = np.quantile(least, [0.05, 0.5, 0.95])
        at = {"N": float(grid["N"].iloc[0]), "D": float(d)}
        tuned = fit.tuning(at, discrepancy=discrepancy).summary().iloc[0]
        apart = np.hypot(np.log(grid["lr"] / tuned["lr_median"]), np.log(grid["batch"] / tuned["batch_median"]))
        near = grid.loc[apart.idxmin()]
        measured = own["loss"].iloc[best]
        rows.append(
            {
                "D": f"{d:.3g}", "law": law,
                "best cell": f"lr {own['lr'].iloc[best]:.2g}, {own['bs'].iloc[best]} sequences, {measured:.4f}",
                "expected loss there": f"{latent:.4f} ({latent / measured - 1:+.2%})",
                "least of the grid's losses": f"{middle:.4f} ({middle / measured - 1:+.2%}) [{low:.3f}, {high:.3f}]",
                "recommended lr": f"{tuned['lr_median']:.2g} [{tuned['lr_eti90_lb']:.2g}, {tuned['lr_eti90_ub']:.2g}]",
                "recommended sequences": f"{tuned['batch_median'] / SEQUENCE:.0f} "
                f"[{tuned['batch_eti90_lb'] / SEQUENCE:.0f}, {tuned['batch_eti90_ub'] / SEQUENCE:.0f}]",
                "nearest cell": f"lr {near['lr']:.2g}, {near['bs']:.0f} sequences, {near['excess']:+.2%}",
            }
        )  # fmt: skip
    return markdown_table(rows)


def corrections(fit: Fit, table: pd.DataFrame) -> str:
    """The spread of losses within a grid, as measured and corrected to the optimum, of rows that were fitted and that were not."""
    rows = []
    for low, high in ((0.0, WITHIN), (WITHIN, 0.05), (0.05, 0.1)):
        own = table[(table["excess"] >= low) & (table["excess"] < high)].reset_index(drop=True)
        tuned = fit.tuning(runs=own[[*COLUMNS, "loss"]])
        losses, at = (own["loss"], tuned.corrected()["loss"]), np.median(np.median(tuned.excess, axis=0))
        least = own["loss"] / (1 + own["excess"])  # of the grid
        cells = [np.log(v / least).mean() for v in losses]
        spread = [np.log(v).groupby(own["run"]).transform(lambda x: x - x.mean()).std() for v in losses]
        rows.append(
            {
                "rows": f"{low:.0%} to {high:.0%} above the least", "number": len(own), "undertuned, median": f"{at:.2%}",
                "mean above the least, measured": f"{cells[0]:.2%}", "corrected": f"{cells[1]:.2%}",
                "spread over rates, measured": f"{spread[0]:.2%}", "corrected ": f"{spread[1]:.2%}",
            }
        )  # fmt: skip
    return markdown_table(rows)


def main() -> None:
    begun, table = time.time(), grids()
    near = table[table["excess"] < WITHIN]
    smaller = near[near["N"] < near["N"].max()]
    fits = {
        "all sizes": fitted(near),
        "all but the largest": fitted(smaller),
        "all sizes, effects of runs only": fitted(near, "normal"),
    }
    states = ", ".join(f"{name}: sampling {'passed' if fit.passed else 'FAILED'}" for name, fit in fits.items())
    print("# Learning rates and batch sizes\n")
    print(f"{banner('tuning')}\n")
    print(f"{__doc__.split(chr(10) * 2)[2].strip()}\n")
    print("## Which rows and which noise: 537M models forecast from smaller ones\n")
    print("Errors are mean absolute relative errors of new runs, over the rows within 1% of the least loss of their grid.\n")
    print(f"{choices(table)}\n")
    spread = {k: np.median(fits["all but the largest"].draws[k]) for k in ("sigma_run", "sigma_checkpoint")}
    shared, own = (f"{spread[k]:.2%}" for k in ("sigma_checkpoint", "sigma_run"))
    print(
        f"Rows within {WITHIN:.0%} were chosen. Where sizes share D and batch size, as at D = 5e10, the fit of all but the largest"
    )
    print(f"finds effects of {shared} that they share and {own} that they don't, so both are in the noise below.\n")
    print("## Exponents\n")
    print("Medians and 90% equal-tailed intervals; published ones are of 95%, by bootstrap. `inside`: they hold our median.")
    print(f"{states[0].upper()}{states[1:]}.")
    print("With an error: the posterior of the law with a learnt error along N and D, which `tuning` uses.\n")
    smaller_too = ("all sizes", "all but the largest")
    print(f"{exponents({**fits, **{f'{name}, with an error': with_error(fits[name]) for name in smaller_too}})}\n")
    print("## The largest size, held out\n")
    print(
        "The expected loss is the law's at the best cell. The best cell is the least of some fifty losses that differ by effects of"
    )
    print("batches too, so the next column forecasts that least: the least of the same cells' losses, draw by draw. The cells are")
    print(f"those within {WITHIN:.0%} of the least, which the measured losses tell.\n")
    print(f"{largest(fits['all but the largest'], table)}\n")
    print("## Losses corrected to the optimum\n")
    print("By the fit of all sizes. Rows beyond 2% were not fitted. Spreads are over rates within one run (grid and batch size).\n")
    print(f"{corrections(fits['all sizes'], table)}\n")
    print(f"{time.time() - begun:.0f} s.")


if __name__ == "__main__":
    main()
