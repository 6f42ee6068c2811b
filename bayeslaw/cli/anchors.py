"""The command anchors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError, whole_number

if TYPE_CHECKING:
    from bayeslaw.data.table import Runs
    from bayeslaw.forecasting.stack import Posterior


def anchors(
    fits: Annotated[
        list[str], Argument(help="A fit or stack, or several (source and target) if every run logs the losses of each.")
    ],
    targets: Annotated[Path, Option(help="A table of the settings whose loss you want to know, with an optional column weight.")],
    budget: Annotated[
        float, Option(parser=options.amount, metavar="NUMBER", help="What the runs may cost together, in the unit of the costs.")
    ],
    candidates: Annotated[Path | None, Option(help="A table of runs that could be bought, one evaluation in each row.")] = None,
    candidates_grid: Annotated[
        list[str] | None,
        Option(
            help="All combinations of values, such as N=241e6,517e6 r=.1,.25 atpp=4,10. Those of D or atpp are points of "
            "one run, which is paid for up to the largest; give shorter runs by --candidates, with names in its column run."
        ),
    ] = None,
    column: options.Columns = None,
    cost: Annotated[str, Option(help="The column with each run's price; flops means 6 N D.")] = "flops",
    checkpoint_cost: Annotated[
        str | None, Option(help="The column with the price of a checkpoint; flops means 6 N^2 ptpp; 0 if all exist.")
    ] = None,
    stages: options.Stages = None,
    rounds: Annotated[int, Option(help="Number of rounds in which the budget is spent, with `bayeslaw update` between them.")] = 1,
    replicates: Annotated[int, Option(help="How often each candidate may be bought.")] = 1,
    discrepancy: options.Discrepancy = None,
    explain: Annotated[str | None, Option(help="Only show what this candidate would contribute.")] = None,
    nested: Annotated[int | None, Option(help="Check the picks by nested Monte Carlo with this many simulations.")] = None,
    output: Annotated[Path | None, Option("-o", "--output", help="Write the picks to this file (.csv).")] = None,
    plot: options.Picture = None,
    ci: options.Ci = 0.9,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Choose the runs that, for a budget, make the loss at the targets most certain."""
    from bayeslaw.core.files import write_text
    from bayeslaw.core.text import counted, plain
    from bayeslaw.design.preposterior import validate
    from bayeslaw.posterior.fit import require_single_fit

    # After --candidates-grid a shell hands over NAME=VALUES one by one; those after the first arrive as arguments.
    grid = [*(candidates_grid or []), *(text for text in fits if candidates_grid and "=" in text and not Path(text).exists())]
    paths = [Path(text) for text in fits if text not in grid]
    if explain is not None and (output is not None or plot is not None or nested is not None):
        raise BayeslawError(
            "--explain only shows one candidate: leave out --output, --plot and --nested.", code="explain-writes-nothing"
        )
    options.check_once(paths)  # else each run would count as if it logged two losses
    if nested is not None:
        nested = whole_number("--nested", nested, 2)
    options.check_outputs("A list of picks", output, plot, [*paths, targets, candidates])
    loaded = [bayeslaw.load_fit(path) for path in paths]
    if (candidates is None) == (not grid):
        raise BayeslawError(
            "Give the candidates either by --candidates CANDS.csv or by --candidates-grid NAME=VALUES.", code="candidates-not-clear"
        )
    if not loaded:
        raise BayeslawError("Give a fit written by `bayeslaw fit`.", code="no-fit")
    of_candidates, of_targets = options.columns_of_each(column, candidates, targets)
    pool = _pool(loaded[0], candidates, of_candidates, grid)
    settings, answer = bayeslaw.read_runs(targets, columns=of_targets), Answer()
    chosen = bayeslaw.anchors(
        loaded, pool, settings, budget=budget, cost=cost, checkpoint_cost=checkpoint_cost, stages=stages, rounds=rounds,
        replicates=replicates, discrepancy=discrepancy, ci_prob=ci, seed=seed, force=force,
    )  # fmt: skip
    if explain is not None:
        values = chosen.explain(explain)
        answer.show("explained", values.to_frame("value"), plain(values.to_frame("")))
        return answer
    answer.show("picks", chosen.picks)
    answer.results["curve"] = chosen.curve
    answer.say("", chosen.text)
    if nested is not None:
        fit = require_single_fit(loaded[0] if len(loaded) == 1 else loaded, "A check by nested Monte Carlo")
        answer.say("", "shares of the targets' variance that are left, predicted and by nested Monte Carlo")
        answer.show("nested", validate(fit, chosen, settings, outer=nested, seed=seed, force=force))
    answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_anchors(chosen, ax))
    if output is not None:
        write_text(output, chosen.picks.to_csv())
        answer.say(f"{counted(len(chosen.picks), 'pick')} written to {output}")
    answer.warn_of(dict(zip(paths, loaded, strict=True)))
    return answer


def _pool(fit: Posterior, candidates: Path | None, columns: dict[str, str], grid: list[str]) -> Runs:
    """Return the runs that could be bought: those of a table, or all combinations of values."""
    if candidates is not None:
        return bayeslaw.read_runs(candidates, columns=columns)
    pairs = [part for text in grid for part in text.split()]
    values = options.pairs_of("--candidates-grid", pairs, "NAME=VALUES, such as r=.1,.25")
    return replace(bayeslaw.read_runs(bayeslaw.design.grid_of_runs(fit, values)), name="the candidates of --candidates-grid")
