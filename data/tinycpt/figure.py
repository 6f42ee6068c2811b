"""Draw every curve of the sweeps' tables: one panel for each domain and size, colour for PTPP, line style for replay.

python data/tinycpt/figure.py            # writes runs.png, runs-docs.png and curves.png beside the tables
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from sweeps import TINYCPT, TINYCPT2, TINYCPT3

STYLES = {0.0: (0, (1, 3)), 0.05: ":", 0.1: "-.", 0.2: "--", 0.25: "--", 0.5: "-", 1.0: (0, (8, 2))}
BASE_AT = 0.3  # tokens per parameter: where a logarithmic axis shows D = 0


def panel(ax: Axes, rows: pd.DataFrame, colours: dict[float, tuple[float, ...]]) -> None:
    """All runs of one size and domain; thin lines are further seeds, diamonds the base checkpoints."""
    for _, run in rows[rows["D"] > 0].groupby("run"):
        line, first = run.sort_values("D"), run.iloc[0]
        colour, style = colours[float(first["ptpp"])], STYLES[float(first["r"])]
        ax.plot(line["D"] / line["N"], line["loss"], color=colour, ls=style, lw=1.1 if first["seed"] == 0 else 0.4)
    base = rows[rows["D"] == 0]
    ax.scatter(np.full(len(base), BASE_AT), base["loss"], c=[colours[p] for p in base["ptpp"]], marker="D", s=14, zorder=3)
    ax.set_xscale("log")
    ax.set_xticks([BASE_AT, 1, 10], ["base", "1", "10"])
    ax.minorticks_off()


def draw(table: pd.DataFrame, labels: dict[str, str], path: Path) -> None:
    """Draw one row of panels for each domain, and each kind of checkpoint where the table has two."""
    sizes, stages = sorted(table["N"].unique()), sorted(table["ptpp"].unique())
    colours = dict(zip(stages, plt.get_cmap("viridis")(np.linspace(0, 0.9, len(stages))), strict=True))
    kinds = sorted(table["anneal"].unique()) if "anneal" in table else [""]
    rows, columns = 2 * len(kinds), len(sizes)
    figure, axes = plt.subplots(rows, columns, figsize=(2.7 * columns, 3 * rows), sharex=True, sharey="row", layout="constrained")
    for row, (kind, domain) in zip(axes, [(k, d) for k in kinds for d in ("target", "source")], strict=True):
        of_kind = table[table["anneal"] == kind] if kind else table
        for ax, size in zip(row, sizes, strict=True):
            panel(ax, of_kind[(of_kind["domain"] == domain) & (of_kind["N"] == size)], colours)
            ax.set_title(f"N = {size:,.0f}", fontsize=9)
        row[0].set_ylabel(f"{labels[domain]}{f', {kind} checkpoint' if kind else ''}\nloss (nats/byte)")
    figure.supxlabel("adaptation tokens per parameter", fontsize=10)
    handles = [Line2D([], [], color=colours[p], label=f"PTPP {p:g}") for p in stages]
    handles += [Line2D([], [], color="0.3", ls=STYLES[r], label=f"replay {r:g}") for r in sorted(table["r"].dropna().unique())]
    figure.legend(handles=handles, loc="outside right center", fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curves(table: pd.DataFrame, path: Path) -> None:
    """Rates and validation losses of curves.csv: pre-training, then adaptation from the end of each schedule."""
    colours = {"constant": "tab:blue", "cosine": "tab:orange", "wsd": "tab:green"}
    styles = {"constant": "-", "kept": ":", "rewarmed-cosine": "--", "wsd": "-."}
    figure, axes = plt.subplots(2, 3, figsize=(13, 6.5), layout="constrained")
    panels = {("pretrain", "lr"): axes[0, 0], ("pretrain", "source_loss"): axes[1, 0], ("adapt", "lr"): axes[0, 1]}
    panels |= {("adapt", "target_loss"): axes[1, 1], ("adapt", "source_loss"): axes[1, 2]}
    for name, run in table.groupby("run", sort=False):
        phase, schedule, r = run.iloc[0][["phase", "schedule", "r"]]
        origin = schedule if phase == "pretrain" else str(name).split("-")[0]
        style = "-" if phase == "pretrain" else styles[schedule]
        for (which, column), ax in panels.items():
            rows = run.dropna(subset=[column])
            if which == phase and (phase == "pretrain" or (r == 0 and run["ptpp"].iloc[0] == 31)):
                ax.plot(rows["step"], rows[column], color=colours[origin], ls=style, lw=1.2)
    titles = ("pre-training on Python", "adaptation to C++ headers, r = 0")
    labels = {"lr": "learning rate", "source_loss": "source loss (nats/byte)", "target_loss": "target loss (nats/byte)"}
    for (which, column), ax in panels.items():
        ax.set_xlabel("step")
        ax.set_ylabel(labels[column])
        ax.set_title(titles[which == "adapt"], fontsize=9)
    handles = [Line2D([], [], color=c, label=f"pre-trained {n}") for n, c in colours.items()]
    handles += [Line2D([], [], color="0.3", ls=s, label=f"adapted {n}") for n, s in styles.items()]
    axes[0, 2].legend(handles=handles, loc="center", fontsize=9, frameon=False)
    axes[0, 2].axis("off")
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    here = TINYCPT.folder
    draw_curves(pd.read_csv(here / "curves.csv"), here / "curves.png")
    for folder, name, source, target in (
        (here, "runs", "Python source", "C++ headers"),
        (here, "runs-docs", "Python source", "English documentation"),
        (TINYCPT2.folder, "runs", "C and C++ source", "English manuals"),
        (TINYCPT3.folder, "runs", "Rust source", "Python source"),
    ):
        draw(pd.read_csv(folder / f"{name}.csv"), {"source": source, "target": target}, folder / f"{name}.png")
