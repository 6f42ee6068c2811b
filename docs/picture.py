"""Draw the picture of the README: forecasts of Chinchilla's larger runs from its smaller ones, by `curve_fit` and by a posterior.

    python docs/picture.py            # downloads the losses and writes docs/_static/chinchilla.png

Both fit Chinchilla's law to the log losses of runs below `CUT` FLOPs and state a 90% interval for the loss of each larger run:
`scipy.optimize.curve_fit` by the usual linear propagation of its covariance and the residuals' variance, bayeslaw by its headline.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import optimize, stats

import bayeslaw
from bayeslaw.plots.style import COLOURS

CUT, PROB = 3e20, 0.9
TARGET = Path(__file__).parent / "_static" / "chinchilla.png"
START = (np.log(1.7), np.log(400.0), np.log(400.0), 0.34, 0.28)  # of the law as published
Intervals = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def law(at: NDArray[np.float64], e: float, a: float, b: float, alpha: float, beta: float) -> NDArray[np.float64]:
    """Log loss of Chinchilla's law at N and D, by the logarithms of E, A and B."""
    terms = [np.full(at.shape[1], e), a - alpha * np.log(at[0]), b - beta * np.log(at[1])]
    return np.asarray(np.logaddexp.reduce(terms))


def by_curve_fit(fitted: pd.DataFrame, held: pd.DataFrame) -> Intervals:
    """Forecasts of `scipy.optimize.curve_fit` and the ends of their intervals."""
    seen, asked = (frame[["N", "D"]].to_numpy(np.float64).T for frame in (fitted, held))
    log_loss = np.log(fitted["loss"].to_numpy(np.float64))
    best, covariance = optimize.curve_fit(law, seen, log_loss, p0=START, maxfev=20_000)
    freedom = log_loss.size - best.size
    variance = ((log_loss - law(seen, *best)) ** 2).sum() / freedom
    steps = 1e-6 * np.eye(best.size)
    slopes = np.stack([(law(asked, *(best + s)) - law(asked, *(best - s))) / 2e-6 for s in steps], axis=1)
    half = stats.t.ppf(0.5 + PROB / 2, freedom) * np.sqrt(variance + np.einsum("ij,jk,ik->i", slopes, covariance, slopes))
    middle = law(asked, *best)
    return np.exp(middle), np.exp(middle - half), np.exp(middle + half)


def by_posterior(fitted: bayeslaw.Runs, held: bayeslaw.Runs) -> Intervals:
    """Medians of bayeslaw's forecasts and the ends of their headline intervals."""
    table = bayeslaw.fit("chinchilla", fitted, seed=1, progress=False).forecast(held).summary(ci_prob=PROB)
    (headline,) = set(table["headline"])
    names = ("median", f"eti{100 * PROB:g}_lb", f"eti{100 * PROB:g}_ub")
    middle, low, high = (table[f"{headline}_{name}"].to_numpy(np.float64) for name in names)
    return middle, low, high


def draw(ax: Axes, held: pd.DataFrame, intervals: Intervals, name: str) -> None:
    """Draw the measured losses relative to their forecasts, with the interval that was stated for each."""
    middle, low, high = intervals
    loss, compute = (held[column].to_numpy(np.float64) for column in ("loss", "C"))
    inside = (low <= loss) & (loss <= high)
    print(f"{name}: {inside.sum()} of {inside.size} losses lie in their {100 * PROB:g}% intervals ({100 * inside.mean():.0f}%)")
    ax.axhline(0, color="0.6", lw=0.8)
    for chosen, colour, marker, what in ((inside, COLOURS[0], "o", "inside"), (~inside, COLOURS[1], "X", "outside")):
        ends = (100 * (end[chosen] / middle[chosen] - 1) for end in (low, high))
        ax.vlines(compute[chosen], *ends, color=colour, lw=2.5, alpha=0.3)
        label = f"{chosen.sum()} {what} their 90% interval"
        ax.plot(compute[chosen], 100 * (loss / middle - 1)[chosen], marker, color=colour, ms=5, mec="white", mew=0.4, label=label)
    ax.set(xscale="log", ylim=(-7.5, 7.5))
    ax.set_title(f"{name}: {100 * inside.mean():.0f}% held", fontsize=13, fontweight="bold")
    ax.set_xlabel("training compute (FLOPs)", fontsize=11)
    ax.yaxis.set_major_formatter("{x:+.0f}%")
    ax.tick_params(labelsize=10.5)
    ax.legend(fontsize=10.5, frameon=False, loc="upper left")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = sys.argv[1] if len(sys.argv) > 1 else str(bayeslaw.fetch_dataset("chinchilla", folder).paths[0])
        runs = bayeslaw.read_runs(table).where("not excluded_by_epoch")
    fitted, held = runs.where(f"C < {CUT}"), runs.where(f"C >= {CUT}")
    figure = Figure(figsize=(8, 3.7), layout="constrained")
    axes: Any = figure.subplots(1, 2, sharey=True)
    draw(axes[0], held.frame, by_curve_fit(fitted.frame, held.frame), "curve_fit")
    draw(axes[1], held.frame, by_posterior(fitted, held), "bayeslaw")
    axes[0].set_ylabel("measured loss against forecast", fontsize=11)
    title = f"Chinchilla's {len(held)} runs above {CUT:.0e} FLOPs, forecast from its {len(fitted)} smaller ones"
    figure.suptitle(title.replace("e+", "e"), fontsize=12)
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=160)
    print(f"written to {TARGET.name}")


if __name__ == "__main__":
    main()
