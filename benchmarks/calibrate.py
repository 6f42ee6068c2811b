"""Simulation-based calibration of every card and every noise: uniformity of ranks, and coverage of forecasts at an unseen stage.

    python benchmarks/calibrate.py             # makes missing fits, writes benchmarks/results/calibration.md and figures
    python benchmarks/calibrate.py --fits 5 --results /tmp/trial d-cpt "chinchilla, student"    # these cases only
    python benchmarks/calibrate.py --stored    # makes no fits, writes the report of all stored ones

Truths, runs, fits and ranks are in benchmarks/truths.py, tests in benchmarks/uniformity.py. Each record is stored as soon as it is
made (benchmarks/.calibration) under a digest of the package's code, the card, the design and the settings, so a stopped run can be
continued and records of other code are not mixed in. Ctrl-C stops it.

simuk (0.3) samples a PyMC or Bambi model or a NumPyro kernel itself, by `pymc.sample` or `MCMC`. This script tests the draws of
`bayeslaw.fit`, so it computes the ranks itself; ArviZ tests and plots them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import stored
from tables import banner, markdown_table
from truths import NONE, Item, work
from uniformity import (
    BAND,
    LEVELS,
    SMALLEST_P,
    band,
    binom_within,
    checks_table,
    coverage_table,
    covered,
    others_table,
    pits,
    positions,
    ranks_table,
    summary,
)

import bayeslaw
from bayeslaw.core.errors import whole_number
from bayeslaw.core.files import write_text
from bayeslaw.noise.noise import CHOICES, COUNTED

HERE = Path(__file__).parent
STORE, RESULTS = HERE / ".calibration", HERE / "results"
PICTURED = ("chinchilla", "cpt-joint", "ptpp-gate-floor", "transfer-target")
LATER = {"cli", "design", "dynamics", "evaluation", "planning", "plots", "reporting"}  # packages that no forecast depends on
ARVIZ: dict[str, Any] = {
    "backend": "matplotlib",
    "visuals": {"xlabel": False},
    "figure_kwargs": {"figsize": (8.8, 6.6), "layout": "constrained"},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in bayeslaw.law_names()},
    **{f"chinchilla, {noise}": ("chinchilla", {"noise": noise}) for noise in CHOICES if noise != "auto"},
    "chinchilla, noise by corpus": ("chinchilla", {"noise_by": "corpus"}),
    "chinchilla, E by corpus": ("chinchilla", {"by": {"E": "corpus"}}),
    "chinchilla, E and B by corpus": ("chinchilla", {"by": {"E": "corpus", "B": "corpus"}}),
    "cpt-dynamics, normal-drift": ("cpt-dynamics", {"noise": "normal-drift"}),
    **{f"task-sigmoid, {noise}": ("task-sigmoid", {"noise": noise}) for noise in COUNTED},
    "task-sigmoid, L0 by task": ("task-sigmoid", {"by": {"L0": "task"}}),
    "task-sigmoid, L0 and k of 40 tasks": ("task-sigmoid", {"by": {"L0": "task", "k": "task"}}),
    "ptpp-floor, normal-checkpoint": ("ptpp-floor", {"noise": "normal-checkpoint"}),
}
"""What is calibrated: a law, and arguments of `bayeslaw.fit` that differ from its defaults."""
Records = dict[str, list[dict[str, Any]]]
TITLE = """# Calibration: truths drawn from each card's own prior, fitted at the defaults

{banner}

A case is a law with its automatic noise, or with the noise or the pooled parameters that it names (`CASES` in the script). The head
of `benchmarks/truths.py` describes the runs, the targets, and why tables are refused. No truth is left out: one without a fit has
the lowest rank for every parameter, and without a fit or a forecast it counts as not covered. A forecast is that of a new run.

{findings}

Not in this table: noises that are functions of a user's own; known errors (`loss_se`){left}.

## Fits and their checks

If a required check fails, the fit is made once more with four times the draws, twice the tuning and a target acceptance of .99, as
a user would do; the second fit counts, whether or not its checks pass. The rule was set before any rank was seen. `no fit`: the law
could not be fitted at all; reasons are below the table."""
RANKS = """## Ranks

Ranks of the truth among 100 draws, spaced evenly within the four chains. The test is ArviZ's `pot_c` on ranks jittered within their
step; p belongs to the least uniform parameter of law and noise, with Holm's adjustment for the number of parameters of the case.
Pictures: `calibration-ranks-<law>.png`."""
COVERAGE = """## Coverage at an unseen stage

Forecast of one new run (spread `run`) at the largest size and, if the law has stages, at PTPP 279, both unseen: share of truths in
the equal-tailed {levels}% intervals in percent, with the {band:g}% binomial band in brackets. Intervals that are too narrow cover
less (under), and those that are too wide more (over). The last row is that of all truths together. The width is that of the 90%
interval over its median. Picture: `calibration-coverage.png`."""


def digest(law: bayeslaw.Law, options: Mapping[str, Any]) -> str:
    """Digest of everything that a record depends on: code, card, priors, design, settings."""
    trainings = HERE.parent / "tests/curves.py"  # the schedules of truths.py
    return stored.digest(HERE / "truths.py", trainings, without=LATER, settings=[law.sha256, dict(options)])


def store(name: str, folder: Path, options: Mapping[str, Any] = NONE) -> stored.Store:
    """The records of one of `CASES`, with options of every fit."""
    law, own = CASES[name]
    whole = {**own, **options}
    return stored.Store(folder / f"{law}-{digest(bayeslaw.load_law(law), whole)}.jsonl")


def calibrate(
    counts: Mapping[str, int],
    *,
    folder: Path,
    where: str = "processes",
    options: Mapping[str, Any] = NONE,
    say: Callable[[str], object] = lambda text: None,
) -> Records:
    """Make the missing records of the first truths of cases.

    Parameters
    ----------
    counts : mapping of str to int
        Number of truths of each of `CASES`.
    folder : Path
        Folder of the records.
    where : str
        An executor; see `bayeslaw.core.executor`.
    options : mapping
        Arguments of every `bayeslaw.fit`, besides those of its case.
    say : callable
        Called with progress messages.

    Raises
    ------
    BayeslawError
        If a fit was lost for a reason outside bayeslaw (memory, a killed worker); all others have been made and stored.
    """
    stores = {name: store(name, folder, options) for name in counts}
    missing = [(k, i) for k, n in counts.items() for i in range(n) if i not in stores[k].known]
    items = [Item(bayeslaw.load_law(CASES[k][0]), i, {**CASES[k][1], **options}) for k, i in missing]
    say(f"{sum(counts.values()) - len(missing)} fits are there, {len(missing)} will be made")
    lost = []
    with bayeslaw.core.executor(where) as run, closing(run.stream(work, items, what="fit")) as outcomes:
        for done, outcome in enumerate(outcomes, start=1):
            name, _ = missing[outcome.index]
            if outcome.value is None:
                lost.append(f"{name}, {outcome.error}")
                say(lost[-1])
                continue
            stores[name].add(outcome.value)
            if done % 20 == 0 or done == len(missing):
                say(f"{done} of {len(missing)}: {name} has {len(stores[name].known)}")
    if lost:
        raise bayeslaw.BayeslawError(f"{len(lost)} fits were lost, the first: {lost[0]}. Start again to make them.")
    return {name: own.first(counts[name]) for name, own in stores.items()}


def usable(records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the records has a fit."""
    return any("ranks" in r for r in records)


def report(records: Records) -> str:
    """The tables in Markdown; cases without a fit are listed."""
    left = "".join(f"; {name}" for name in CASES if not records.get(name))
    without = [f"{name} ({len(own)} truths without a fit)" for name, own in records.items() if own and not usable(own)]
    records = {name: own for name, own in records.items() if usable(own)}
    if not records:
        raise bayeslaw.BayeslawError("There are no fits to report on.")
    rows = [summary(name, own) for name, own in records.items()]
    levels = ", ".join(f"{100 * level:g}" for level in LEVELS)
    parts = [
        TITLE.format(banner=banner("calibrate"), findings=findings(rows), left=left),
        markdown_table(checks_table(rows)),
        *[f"No fit of truth {r['number']} of {name}: {r['error']}" for name, own in records.items() for r in own if "error" in r],
        *([f"Without a fit: {', '.join(without)}."] if without else []),
        RANKS,
        markdown_table(ranks_table(rows)),
        COVERAGE.format(levels=levels, band=100 * BAND),
        markdown_table(coverage_table(rows)),
        "The same stage at a seen size, and a new run within the fitted ones, for the same truths:",
        markdown_table(others_table(records)),
    ]
    return "\n\n".join(parts)


def findings(rows: Sequence[Mapping[str, Any]]) -> str:
    """Which cases are not calibrated, and how many of them chance alone would show."""
    uneven = [f"{r['case']} ({r['worst']}, p {r['p']:.4f})" for r in rows if not r["uniform"]]
    missed = [f"{r['case']} ({', '.join(r['outside'])})" for r in rows if r["outside"]]
    chance = sum(1 - binom_within(r["truths"], level) for r in rows for level in LEVELS)
    outside, levels = sum(len(r["outside"]) for r in rows), len(rows) * len(LEVELS)
    return (
        f"Ranks of {len(uneven)} of {len(rows)} cases are not uniform (p at most {SMALLEST_P:g}; "
        f"{len(rows) * SMALLEST_P:.1f} would be by chance): {'; '.join(uneven) or 'none'}. {outside} of {levels} coverages lie "
        f"outside their bands ({chance:.1f} would by chance): {'; '.join(missed) or 'none'}."
    )


def figures(records: Records, folder: Path) -> None:
    """Coverage of all cases in one figure, and the ranks of each of `PICTURED` in one figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    save(coverage_figure(records), folder / "calibration-coverage.png")
    for name in PICTURED:
        if name in records:
            save(ranks_figure(name, records[name]), folder / f"calibration-ranks-{name}.png")


def coverage_figure(records: Records) -> Any:
    """Observed coverage minus nominal coverage against nominal coverage with the binomial band, one panel per case."""
    import matplotlib.pyplot as plt

    columns = min(6, len(records))
    lines = -(-len(records) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(2.2 * columns, 1.9 * lines), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    grid = np.linspace(0.02, 0.98, 49)
    for ax, (name, own) in zip(axes.flat, records.items(), strict=False):
        pit = pits(own, 0)
        low, high = np.array([band(pit.size, level) for level in grid]).T / pit.size
        ax.fill_between(grid, low - grid, high - grid, color="0.85", linewidth=0)
        ax.axhline(0, color="0.5", linewidth=0.6)
        ax.plot(grid, [covered(pit, level) / pit.size - level for level in grid], color="C0", linewidth=1)
        ax.set_title(f"{name}\n{pit.size} truths", fontsize=8)
        ax.tick_params(labelsize=7)
    for ax in list(axes.flat)[len(records) :]:
        ax.set_axis_off()
    figure.supxlabel("probability of the interval", fontsize=8)
    figure.supylabel("coverage minus probability", fontsize=8)
    return figure


def ranks_figure(name: str, records: Iterable[Mapping[str, Any]]) -> Any:
    """ArviZ's picture of the ranks' distribution function minus the uniform one, one panel per parameter."""
    import arviz_plots
    import xarray as xr

    values = {k: ("sample", v) for k, v in positions(list(records)).items()}
    tree = xr.DataTree.from_dict({"prior_sbc": xr.Dataset(values)})
    plot = arviz_plots.plot_ecdf_pit(tree, sample_dims=["sample"], method="pot_c", **ARVIZ)
    figure = plot.viz["figure"].item()
    figure.suptitle(f"{name}: distribution of ranks minus the uniform one")
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure under a temporary name first."""
    import matplotlib.pyplot as plt

    temporary = path.with_name(f".{path.stem}.{os.getpid()}.png")
    figure.savefig(temporary, dpi=150, metadata={"Software": ""})
    temporary.replace(path)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulation-based calibration of the cards.")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="case", help="; ".join(CASES))
    parser.add_argument("--fits", type=int, default=100, help="truths of each case")
    parser.add_argument("--stored", action="store_true", help="make no fits, report the stored ones")
    parser.add_argument("--executor", default="processes")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    whole_number("--fits", given.fits, 1)
    if unknown := [name for name in given.cases if name not in CASES]:
        raise bayeslaw.BayeslawError(f"There is no case {unknown[0]!r}. Cases are: {'; '.join(CASES)}.", code="unknown-case")
    counts = dict.fromkeys(given.cases, given.fits)
    if given.stored:
        records = {name: store(name, STORE).all() for name in counts}
    else:
        records = calibrate(counts, folder=STORE, where=given.executor, say=lambda text: print(text, file=sys.stderr, flush=True))
    given.results.mkdir(parents=True, exist_ok=True)
    figures({k: v for k, v in records.items() if usable(v)}, given.results)
    write_text(given.results / "calibration.md", report(records) + "\n")
    print(given.results / "calibration.md")


if __name__ == "__main__":
    try:
        main()
    except bayeslaw.BayeslawError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit("Stopped. Finished fits are stored, and the same command continues from there.") from None
