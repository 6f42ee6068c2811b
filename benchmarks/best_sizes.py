"""The best N at a compute, as `allocate` states it, against what public ladders measured there.

    BAYESLAW_SHARED_DATA=… python benchmarks/best_sizes.py        # prints the report kept in benchmarks/results/best_sizes.md

The compute of each ladder is halved from the largest on. At each, a parabola in log N through the log losses of the runs near it
has the measured best N, with its standard error. `chinchilla` is fitted to the runs up to a part of the largest compute, and
`allocate` states its best N at every measured one.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from ladders import FEWEST, LAW, runs_of, tables
from scipy.stats import linregress
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.core.intervals import interval_names
from bayeslaw.evaluation.scores import crps

NEAR = 0.35  # e-folds of compute on each side of a budget: half of a halving
ASIDE = 1.6  # e-folds of N on each side of the best one that its parabola spans
SPAN = 0.7  # least e-folds of N that they span
ROUNDS = 4  # of choosing these rows
KNOWN = 0.25  # largest standard error of a measured log N that is used
PARTS = (1, 3, 10, 30, 100)  # the largest compute over that of the fitted runs
PROBABILITIES = (0.5, 0.8, 0.9)
REACHES = {"inside": (-99.0, 0.01), "up to 1": (0.01, 1.0), "1 to 2": (1.0, 2.0), "over 2": (2.0, 99.0)}
EXACT, ERRING, STATED = "law taken for exact", "learnt error", "as stated"

LOW, HIGH = interval_names("eti", 0.9)

HEAD = """A ladder counts where runs near one compute have sizes on both sides of the best: their parabola has its least loss among
them, at a log N that is known to a standard error of {known:g}. {cases} comparisons at {measured} measured best N of
{ladders} ladders. Shares are means over the comparisons of a source, then over sources. An interval holds a measured best N
if it does so with the standard error of the measurement added. `reach` is in e-folds of compute beyond the fitted runs;
`inside`, all runs of the ladder were fitted. `error` is the mean distance in log N of the stated median from the measured
best; `cost` is by how much the loss at the stated N exceeds the least, on the parabola. Fits whose checks failed: {failed}
of {fits}.

`as stated` is the default of `allocate`: beyond the runs, of the law with its learnt error; inside, half of the draws of
that, and half of the law taken for exact. The learnt error's own size was learnt from losses of the same sources."""

CHOICE = """## Which share of draws has the error inside the runs

The half was chosen on these rows. CRPS is that of log N. The share chosen among none, half and all by the CRPS of the other
sources is {chosen}; 90% intervals of the left-out sources then hold {held:.0%}."""

EXPONENTS = """## Exponents

N_opt = k C^a: `measured` by least squares through the measured best N (with its standard error), the others at the same compute by
a fit to all runs of the ladder, with 90% intervals.
"""


@dataclass(frozen=True)
class Minimum:
    """The measured best N at a compute: log N with its standard error, and half the second derivative of the log loss there."""

    compute: float
    log_n: float
    se: float
    curvature: float


def minimum(rows: pd.DataFrame, compute: float) -> Minimum | None:
    """The least point of a parabola in log N through the log losses near a compute; None where it isn't known."""
    away = np.log(6 * rows["N"] * rows["D"] / compute).to_numpy()
    near = np.abs(away) < NEAR
    log_n, loss, away = np.log(rows["N"].to_numpy())[near], np.log(rows["loss"].to_numpy())[near], away[near]
    chosen = np.ones(log_n.size, dtype=bool)
    for _ in range(ROUNDS):
        centre = log_n[chosen].mean() if chosen.any() else 0.0
        steps = log_n[chosen] - centre
        design = [np.ones(steps.size), steps, steps**2]
        if steps.size and np.ptp(away[chosen]) > 0.05:  # losses at one compute need no slope over it
            design.append(away[chosen])
        x = np.column_stack(design)
        if len(x) <= x.shape[1]:
            return None
        b = np.linalg.lstsq(x, loss[chosen], rcond=None)[0]
        if b[2] <= 0:
            return None
        best = centre - b[1] / b[2] / 2
        again = np.abs(log_n - best) < ASIDE
        if (again == chosen).all():
            break
        chosen = again
    else:  # the rows never settle, and x is not of those chosen last
        return None
    residual = loss[chosen] - x @ b
    slope = np.zeros(b.size)
    slope[1:3] = -1 / (2 * b[2]), b[1] / (2 * b[2] ** 2)
    covariance = residual @ residual / (len(x) - x.shape[1]) * np.linalg.pinv(x.T @ x)
    se = float(np.sqrt(slope @ covariance @ slope))
    low, high = log_n[chosen].min(), log_n[chosen].max()
    known = low < best < high and high - low >= SPAN and se <= KNOWN
    return Minimum(compute, float(best), se, float(b[2])) if known else None


def minima(rows: pd.DataFrame) -> list[Minimum]:
    """The measured best N of a ladder, from the largest compute downwards."""
    compute = 6 * rows["N"] * rows["D"]
    halvings = int(np.log2(compute.max() / compute.min())) + 1
    return [found for k in range(halvings) if (found := minimum(rows, float(compute.max()) / 2**k))]


def stated(fit: bayeslaw.Fit, compute: Sequence[float]) -> dict[str, bayeslaw.planning.Allocation]:
    """The best N by the law taken for exact, by the law with its learnt error, and as `allocate` states it."""
    away = fit.extrapolation
    assert away is not None
    return {
        EXACT: bayeslaw.allocate(fit, compute, discrepancy="none", force=True),
        ERRING: bayeslaw.allocate(away, compute, discrepancy="none", force=True),
        STATED: bayeslaw.allocate(fit, compute, force=True),
    }


def compared(fit: bayeslaw.Fit, measured: Sequence[Minimum], largest: float) -> list[dict[str, Any]]:
    """Rows that compare what `allocate` states at some measured best N with these."""
    rows = []
    for spread, allocation in stated(fit, [m.compute for m in measured]).items():
        for m, draws in zip(measured, np.log(allocation.N).T, strict=True):
            error = float(np.median(draws)) - m.log_n
            cost = float(np.expm1(m.curvature * error**2))
            row: dict[str, Any] = {"spread": spread, "reach": np.log(m.compute / largest), "error": abs(error), "cost": cost}
            row["width"] = float(np.exp(np.ptp(np.quantile(draws, [0.05, 0.95]))))
            noisy = draws + np.random.default_rng(0).normal(0.0, m.se, draws.size)
            row["crps"] = float(crps(np.array([m.log_n]), noisy[:, None])[0])
            off = abs(float((noisy < m.log_n).mean()) - 0.5)
            rows.append(row | {f"in {p:.0%}": off < p / 2 for p in PROBABILITIES})
    return rows


def work(task: tuple[str, str, pd.DataFrame, int]) -> list[dict[str, Any]]:
    """Fit a ladder up to a part of its compute, and compare at the measured best N beyond; at all of them if it is whole."""
    source, name, rows, part = task
    compute, measured = 6 * rows["N"] * rows["D"], minima(rows)
    fitted = compute <= compute.max() / part * 1.01  # budgets are met within rounding
    largest = float(compute[fitted].max()) if fitted.any() else 0.0
    beyond = [m for m in measured if m.compute > largest * 1.2] if part > 1 else measured
    if not beyond or fitted.sum() < FEWEST:
        return []
    fit = bayeslaw.fit(LAW, rows[fitted], progress=False, cores=1)
    found = compared(fit, beyond, largest)
    about = {"source": source, "ladder": name, "part": part, "passed": fit.passed}
    if part == 1 and len(beyond) > 2:
        about |= exponents(fit, beyond)
    return [about | row for row in found]


def exponents(fit: bayeslaw.Fit, measured: Sequence[Minimum]) -> dict[str, str]:
    """Exponents of the best N: as measured, and by the law with either spread."""
    line = linregress([np.log(m.compute) for m in measured], [m.log_n for m in measured])
    shown = {"measured": f"{line.slope:.3f} ({line.stderr:.3f})"}
    for spread, allocation in stated(fit, [m.compute for m in measured]).items():
        row = allocation.powers().loc["N_exponent"]
        shown[spread] = f"{row['median']:.3f} [{row[LOW]:.3f}, {row[HIGH]:.3f}]"
    return shown


def means_of(rows: pd.DataFrame) -> dict[str, str]:
    """What a table shows of some comparisons: means over each source's, then over the sources."""
    shares = [f"in {p:.0%}" for p in PROBABILITIES]
    means = rows.groupby("source")[[*shares, "error", "width", "cost"]].mean().mean()
    shown = {name: f"{means[name]:.0%}" for name in shares} | {"error": f"{means['error']:.2f}"}
    return {"n": str(len(rows))} | shown | {"90% interval, high / low": f"{means['width']:.2f}", "cost": f"{means['cost']:.2%}"}


def by_reach(rows: pd.DataFrame) -> str:
    """All comparisons by their distance from the fitted runs."""
    body = []
    for reach, (low, high) in REACHES.items():
        for spread in (EXACT, STATED):
            some = rows[(rows["spread"] == spread) & (rows["reach"] > low) & (rows["reach"] <= high)]
            body.append({"reach": reach, "spread": spread, "sources": str(some["source"].nunique())} | means_of(some))
    return markdown_table(body)


def choice(inside: pd.DataFrame) -> str:
    """The CRPS and the shares in 90% intervals by source and spread, and what would be chosen by the other sources."""
    crpss, held = (inside.pivot_table(name, "source", "spread") for name in ("crps", "in 90%"))
    chosen = {source: str(crpss.drop(source).mean().idxmin()) for source in crpss.index}
    left = np.mean([held.loc[source, spread] for source, spread in chosen.items()])
    shares = {EXACT: "none", STATED: "half", ERRING: "all"}
    counts = pd.Series(chosen).map(shares).value_counts()
    text = CHOICE.format(chosen=", ".join(f"{name} for {n}" for name, n in counts.items()), held=left)
    rows = [
        {"source": source}
        | {f"CRPS, {share}": f"{crpss.loc[source, spread]:.3f}" for spread, share in shares.items()}
        | {f"in 90%, {share}": f"{held.loc[source, spread]:.0%}" for spread, share in shares.items()}
        for source in crpss.index
    ]
    means = {"source": "mean"} | {f"CRPS, {share}": f"{crpss[spread].mean():.3f}" for spread, share in shares.items()}
    means |= {f"in 90%, {share}": f"{held[spread].mean():.0%}" for spread, share in shares.items()}
    return f"{text}\n\n{markdown_table([*rows, means])}\n"


def main() -> None:
    tasks = [(s, n, runs_of(s, t), part) for s, n, t in tables() for part in PARTS if minima(runs_of(s, t))]
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, tasks) for row in part])
    rows["where"] = np.where(rows["reach"] > REACHES["inside"][1], "beyond", "inside")
    fits = rows.drop_duplicates(["source", "ladder", "part"])
    measured = {(s, n): len(minima(t)) for s, n, t, _ in tasks}
    about = {"measured": sum(measured.values()), "ladders": len(measured), "cases": int((rows["spread"] == STATED).sum())}
    print(f"# The best N at a compute, against what public ladders measured\n\n{banner('best_sizes')}\n")
    print(HEAD.format(known=KNOWN, failed=int((~fits["passed"].astype(bool)).sum()), fits=len(fits), **about))
    print(f"\n{by_reach(rows)}\n\nBy source, as stated:\n")
    groups = rows[rows["spread"] == STATED].groupby(["source", "where"])
    print(markdown_table([{"source": str(source), "runs": str(where)} | means_of(own) for (source, where), own in groups]))
    print(f"\n{choice(rows[rows['where'] == 'inside'])}\n{EXPONENTS}")
    known = fits.dropna(subset="measured").astype(str)
    print(markdown_table([{k: row[k] for k in ("source", "ladder", "measured", EXACT, STATED)} for _, row in known.iterrows()]))


if __name__ == "__main__":
    main()
