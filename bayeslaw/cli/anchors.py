"""The command `anchors`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslaw.core.errors import BayeslawError


def anchors(
    fits: Annotated[
        list[str], typer.Argument(help="A fit or stack, or several (such as source and target) that every run logs a loss for.")
    ],
    targets: Annotated[Path, typer.Option(help="Settings whose loss is wanted, with an optional column weight.")],
    budget: Annotated[float, typer.Option(help="In the unit of the costs.")],
    candidates: Annotated[Path | None, typer.Option(help="Runs that could be bought, one evaluation a row.")] = None,
    candidates_grid: Annotated[
        list[str] | None,
        typer.Option(help="All combinations instead: N=241e6,517e6 r=.1,.25 ptpp=279 atpp=4,10,30; one run for all D or atpp."),
    ] = None,
    cost: Annotated[str, typer.Option(help="Column with each run's price; flops is 6 N D.")] = "flops",
    checkpoint_cost: Annotated[
        str | None, typer.Option(help="Column with the price of training a checkpoint; flops is 6 N^2 ptpp; 0 if all exist.")
    ] = None,
    stages: Annotated[
        str | None, typer.Option(help="Stages with frozen parts, TOKENS:TRAINABLE,…: 0.4:0.034,0.6:0.5; counts FLOPs by them.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds in which the budget is spent; `bayeslaw update` between them.")] = 1,
    replicates: Annotated[int, typer.Option(help="How often each candidate may be bought.")] = 1,
    discrepancy: Annotated[str | None, typer.Option(help="Relative sd, such as 1%, that you state for the law's error.")] = None,
    explain: Annotated[str | None, typer.Option(help="Say what one candidate would tell.")] = None,
    nested: Annotated[int | None, typer.Option(help="Check the picks by nested Monte Carlo with so many simulations.")] = None,
    refits: Annotated[int | None, typer.Option(help="Check the picks by so many refits to simulated losses.")] = None,
    executor: Annotated[str, typer.Option(help="Where refits run: in-process, processes or a Dask scheduler.")] = "in-process",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the picks (.csv).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to write a picture (.png, .pdf or .svg) of width against cost.")] = None,
    ci: Annotated[float, typer.Option("--ci", help="Probability of the equal-tailed intervals.")] = 0.9,
    seed: Annotated[int, typer.Option(help="Of the random designs beside.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Go on in spite of failed checks.")] = False,
) -> None:
    """Choose the runs that make the loss at the targets most certain for a budget."""
    from bayeslaw.cli.io import check_files, figure_first, pairs_of, put, show_table
    from bayeslaw.core.files import write_text
    from bayeslaw.core.text import plain
    from bayeslaw.data.table import read_runs
    from bayeslaw.design.anchors import anchors as make_anchors
    from bayeslaw.design.candidates import grid_of_runs
    from bayeslaw.design.preposterior import by_nesting, by_refits
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.inference.refit import require_single_fit
    from bayeslaw.plots.design import plot_anchors

    # After --candidates-grid a shell hands over NAME=VALUES one by one; those after the first arrive as arguments.
    grid = [*(candidates_grid or []), *(text for text in fits if candidates_grid and "=" in text and not Path(text).exists())]
    paths = [Path(text) for text in fits if text not in grid]
    if explain is not None and (output is not None or plot is not None):
        raise BayeslawError("--explain tells of one candidate and writes nothing: leave out -o and --plot.")
    check_files("A list of picks", output, plot, [*paths, targets, candidates], of="the picks")
    loaded = [load_fit(path) for path in paths]
    if (candidates is None) == (not grid):
        raise BayeslawError("Give the candidates either by --candidates CANDS.csv or by --candidates-grid NAME=VALUES.")
    if not loaded:
        raise BayeslawError("Give a fit written by `bayeslaw fit`.")
    if candidates is not None:
        pool = read_runs(candidates)
    else:
        texts = pairs_of("--candidates-grid", [part for text in grid for part in text.split()], "NAME=VALUES, such as r=.1,.25")
        pool = read_runs(grid_of_runs(loaded[0], texts))
    aim = read_runs(targets)
    made = make_anchors(
        loaded, pool, aim, budget=budget, cost=cost, checkpoint_cost=checkpoint_cost, stages=stages, rounds=rounds,
        replicates=replicates, discrepancy=discrepancy, ci_prob=ci, seed=seed, force=force,
    )  # fmt: skip
    if explain is not None:
        told = made.explain(explain)
        show_table("explained", told.to_frame("value"), plain(told.to_frame("")))
        return
    show_table("picks", made.picks, plain(made.picks) + "\n")
    put("curve", made.curve)
    typer.echo(made.text)
    if nested is not None or refits is not None:
        one = require_single_fit(loaded[0] if len(loaded) == 1 else loaded, "A look ahead")
        if nested is not None:
            typer.echo("\nshares of the targets' variance that are left, predicted and by nested Monte Carlo")
            show_table("nested", by_nesting(one, made, aim, outer=nested, seed=seed, force=force))
        if refits is not None:
            typer.echo(f"\nvariance left by {refits} refits to simulated losses, beside the predicted share")
            show_table("refits", by_refits(one, made, aim, outer=refits, executor=executor, seed=seed, force=force))
    with figure_first(plot, lambda ax: plot_anchors(made, ax)):
        if output is not None:
            write_text(output, made.picks.to_csv())
            typer.echo(f"{len(made.picks)} picks written to {output}")
