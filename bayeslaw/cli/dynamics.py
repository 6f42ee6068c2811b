"""The commands dynamics areas, which turns training curves into a table for `bayeslaw fit`, and dynamics memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer, every_fault
from bayeslaw.core.errors import TableError


def areas(
    curves: Annotated[
        Path, Argument(help="A table of training curves: run, step, lr, losses; optionally phase, parent, parent_step, batch.")
    ],
    output: options.NewTable,
    memory: Annotated[float, Option(help="The factor lambda of the annealing area S2; see `dynamics memory`.")] = 0.999,
    power: Annotated[float, Option(help="The exponent epsilon of the LR-weighted annealing area S2w.")] = 0.1,
    warmup: options.Warmup = None,
    per: Annotated[
        str, Option(help="Unit in which areas are counted: step, or token where batches differ (column batch).")
    ] = "step",
    tokens_per_step: Annotated[
        float | None,
        Option(parser=options.amount, metavar="NUMBER", help="With --per token: the tokens of a batch whose steps count as 1."),
    ] = None,
    steps: Annotated[
        str | None, Option(help="Steps of a run with a parent: own (from its start), or continued from its parent's.")
    ] = None,
    run: options.RunColumn = "run",
    losses: options.LossColumns = None,
    domain: Annotated[str | None, Option(help="Write only the losses of this domain.")] = None,
    column: options.Columns = None,
    where: options.Where = None,
    nodes: Annotated[
        int, Option(help="Also describe changes of the rate by this number of nodes: 24 for the law multi-power.")
    ] = 0,
    plot: options.Picture = None,
) -> Answer:
    """Compute the areas under the learning rates of training curves: one row for each loss, ready for `bayeslaw fit`."""
    from bayeslaw.core.files import write_text
    from bayeslaw.core.text import counted
    from bayeslaw.plots.style import save_stack

    options.check_outputs("A table of runs", output, plot, [curves])
    try:
        read = bayeslaw.data.read_curves(
            curves, memory=memory, power=power, warmup=options.warmups(warmup), per=per, tokens_per_step=tokens_per_step,
            steps=steps, run=run, losses=losses, columns=options.columns_of(column),
        )  # fmt: skip
    except TableError as error:
        return every_fault(error)
    answer = Answer()
    answer.note(read.notes)
    table = read.runs(domain, nodes=nodes).where(where)
    if count := int((begun := table.frame["S1"] == 0).sum()):  # S1 is nan where a pre-training is unknown
        table = replace(table, frame=table.frame[~begun])
        answer.say(f"{count} losses before the first step of a training are left out: no law of these areas describes them")
    names = table.frame["run"].unique()
    domains = table.frame["domain"].nunique() if "domain" in table.frame else 1
    of = f" of {domains} domains" if domains > 1 else ""
    answer.results |= {"losses": len(table), "runs": len(names)}
    if plot is not None:
        phases, weights = {n: read.phases(n) for n in names}, {n: read.weights(n) for n in names}
        save_stack(plot, 3, lambda axes: bayeslaw.plots.plot_schedules(phases, axes, memory=memory, weights=weights))
        answer.last.append(f"picture written to {plot}")
    write_text(output, table.frame.to_csv(index=False))
    answer.say(f"{counted(len(table), 'loss')}{of} from {counted(len(names), 'run')} written to {output}")
    return answer


def memory(
    curves: Annotated[Path, Argument(help="Training curves of several runs, as for `dynamics areas`.")],
    law: Annotated[str, Option(help="A law with an annealing area, such as annealing or cpt-dynamics: its name, or a card.")],
    warmup: options.Warmup = None,
    run: options.RunColumn = "run",
    losses: options.LossColumns = None,
    domain: Annotated[str | None, Option(help="The domain of the losses, if there are several.")] = None,
    column: options.Columns = None,
    where: options.Where = None,
    memories: Annotated[
        str | None, Option(help="Values to compare, such as 0.99,0.999; by default nine from 0.9 to 0.9998.")
    ] = None,
    output: options.TableFile = None,
) -> Answer:
    """Compare memories of the annealing area (--memory) by how well a law forecasts runs that are left out in turn."""
    from bayeslaw.dynamics.memory import MEMORIES, compare_memories

    options.check_outputs("A comparison of memories", output, None, [curves])
    values = MEMORIES if memories is None else [options.number_of("--memories ", part.strip()) for part in memories.split(",")]
    table = compare_memories(
        curves, law, domain=domain, where=where, memories=values, warmup=options.warmups(warmup), run=run, losses=losses,
        columns=options.columns_of(column),
    )  # fmt: skip
    best, answer = table.iloc[0], Answer()
    if table["left_out"].isna().any():
        how, error = "describes the runs best (the rate changes in one of them only, which can't be left out)", best["fitted"]
    else:
        how, error = "forecasts left-out runs best", best["left_out"]
    answer.say(f"--memory {best['memory']:g} {how}, with errors of {error:.2%} (root mean square): give it to `dynamics areas`")
    if best["memory"] in (min(values), max(values)) and len(values) > 1:
        answer.say("it lies at the end of the values that were compared: compare more (--memories)")
    answer.save_table("table", table, output, f"{len(table)} rows")
    return answer
