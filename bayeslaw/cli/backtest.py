"""The command backtest: how well a law forecast rows beyond those that it was fitted to, at several cuts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.text import counted


def backtest(
    runs: options.RunsPath,
    law: Annotated[
        str,
        Option(
            help="The law: one that comes with bayeslaw, or the path of a card. Several, separated by commas, make a stack with "
            "equal weights."
        ),
    ],
    by: Annotated[
        str, Option(help="The direction of the cuts: compute (the column flops, or 6 N D), N, D, ptpp or step.")
    ] = "compute",
    cuts: Annotated[int, Option(help="Number of cuts; fewer where there are fewer different values.")] = 5,
    column: options.Columns = None,
    where: options.Where = None,
    duplicates: options.Duplicates = "refuse",
    output: Annotated[Path | None, Option("-o", "--output", help="Write the table of all forecasts to this file (.csv).")] = None,
    plot: options.Picture = None,
    prior: options.Priors = None,
    shares: options.Shares = None,
    noise: options.NoiseName = "auto",
    noise_by: options.NoiseBy = None,
    pool: options.Pooled = None,
    discrepancy: options.Discrepancy = None,
    as_: options.As = "known",
    draws: options.Draws = 1000,
    tune: options.Tune = 500,
    chains: options.Chains = 4,
    seed: options.Seed = 0,
    bins: options.Bins = None,
    executor: options.Executor = "in-process",
    csv: options.Csv = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> Answer:
    """At several cuts, fit laws to the runs up to the cut and score their forecasts beyond it: error and coverage by distance."""
    from bayeslaw.evaluation.reach import LEGEND, independent_runs
    from bayeslaw.evaluation.scores import legend

    options.check_outputs("A table of forecasts", output, plot, [runs])
    settings = {
        "priors": options.pairs_of("--prior", prior, "NAME=LogNormal(0.5,0.2)"), "noise_by": noise_by,
        "by": options.pairs_of("--pool", pool, "PARAMETER=COLUMN, such as E=domain"),
        "draws": draws, "tune": tune, "chains": chains, "bins": bins,
    }  # fmt: skip
    read = partial(bayeslaw.read_runs, runs, where, columns=options.columns_of(column), duplicates=duplicates)
    laws, table = options.laws_and_table([law], read, shares)
    result = bayeslaw.backtest(
        table, laws[0] if len(laws) == 1 else laws, by=by, cuts=cuts, noise=noise, discrepancy=discrepancy, as_=as_, seed=seed,
        options=settings, executor=executor, force=force, progress=not quiet,
    )  # fmt: skip

    answer = Answer()
    answer.read(table)
    if len(result.rows):
        draw, draw_reach = (partial(of, result) for of in (bayeslaw.plots.plot_backtest, bayeslaw.plots.plot_reach_coverage))
        counted_runs = independent_runs(result.rows)
        draw_coverage = partial(bayeslaw.plots.plot_coverage, result.transforms, runs=counted_runs, outcome=result.outcome)
        answer.save_picture(plot, draw, draw_reach, draw_coverage)
    elif plot is not None:
        answer.last.append("no picture, since nothing was scored")
    if csv:
        answer.csv = result.reach.to_csv(index=False)
    else:
        answer.say(f"{result.law}, fitted to the rows up to each cut along {result.by}, and the rows beyond it")
        answer.show("cuts", result.cuts)
        answer.say("")
        if len(result.rows):
            answer.say(f"forecasts ({result.spread}) by their distance beyond the cut")
            answer.show("reach", result.reach)
            answer.say("", legend([*result.reach], result.outcome, LEGEND), "")
    answer.say(result.text)
    answer.note(result.notes)
    if output is None:
        answer.results["forecasts"] = result.rows
    else:
        answer.save_table("forecasts", result.rows, output, counted(len(result.rows), "forecast"))
    return answer
