"""Commands of training dynamics: `bayeslaw dynamics …`. `cli` registers them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayeslaw.cli.io import check_files, pairs_of, picture_first, put
from bayeslaw.core.errors import BayeslawError, TableError

if TYPE_CHECKING:
    from bayeslaw.data.curves import Curves

app = typer.Typer(
    help="Losses at every step, under any learning-rate schedule, in pre-training and adaptation.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

CurvesPath = Annotated[Path, typer.Argument(help="Training curves: run, step, lr, losses; phase, parent, parent_step, batch.")]
Memory = Annotated[float, typer.Option(help="lambda of the annealing area S2.")]
Power = Annotated[float, typer.Option(help="epsilon of the LR-weighted annealing area S2w.")]
Warmup = Annotated[
    list[str] | None, typer.Option(help="Steps of warm-up before the logs begin: 2160, or RUN=2160; repeat for several runs.")
]
Per = Annotated[str, typer.Option(help="What areas count: step, or token where batches differ (column batch).")]
TokensPerStep = Annotated[float | None, typer.Option(help="The batch whose steps count 1, with --per token.")]
RunColumn = Annotated[str, typer.Option("--run", help="The column that names the runs.")]
Losses = Annotated[list[str] | None, typer.Option(help="A column of losses, such as source_loss; repeat for each.")]
Where = Annotated[str | None, typer.Option(help="Write only rows that meet a condition, e.g. \"S1 > 0 and phase == 'adapt'\".")]
Domain = Annotated[str | None, typer.Option(help="Write the losses of one domain only.")]


def read(
    path: Path,
    *,
    memory: float,
    power: float,
    warmup: list[str] | None = None,
    per: str = "step",
    tokens_per_step: float | None = None,
    run: str = "run",
    losses: list[str] | None = None,
) -> Curves:
    """Training curves from a file; what is taken for granted is said, and every fault is."""
    from bayeslaw.data.curves import read_curves

    try:
        curves = read_curves(
            path,
            memory=memory,
            power=power,
            warmup=warmups(warmup),
            per=per,
            tokens_per_step=tokens_per_step,
            run=run,
            losses=losses,
        )
    except TableError as error:
        if len(error.faults) <= error.SHOWN:
            raise
        for fault in error.faults:
            typer.echo(str(fault))
        raise BayeslawError(f"{path.name} has {len(error.faults)} faults (rows are counted from 1 below the header).") from None
    put("remarks", list(curves.remarks))
    for remark in curves.remarks:
        typer.echo(f"note: {remark}")
    return curves


def warmups(texts: list[str] | None) -> int | dict[str, int]:
    """Steps of warm-up: one number for all runs, or RUN=STEPS for each."""
    if not texts:
        return 0
    if len(texts) == 1 and "=" not in texts[0]:
        return _steps(texts[0])
    return {name: _steps(value) for name, value in pairs_of("--warmup", texts, "RUN=STEPS, or give one number").items()}


def _steps(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BayeslawError(f"--warmup {text!r} is not a number of steps.") from None


@app.callback()
def dynamics() -> None:
    """Losses at every step, under any learning-rate schedule, in pre-training and adaptation."""


@app.command("areas")
def areas_of(
    curves: CurvesPath,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the table that `bayeslaw fit` reads (.csv).")],
    memory: Memory = 0.999,
    power: Power = 0.1,
    warmup: Warmup = None,
    per: Per = "step",
    tokens_per_step: TokensPerStep = None,
    run: RunColumn = "run",
    losses: Losses = None,
    domain: Domain = None,
    where: Where = None,
    nodes: Annotated[int, typer.Option(help="Changes of the rate besides, in so many nodes: 24 for the law multi-power.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Where to write a picture of rates and areas (.png, .pdf or .svg).")] = None,
) -> None:
    """Work out the areas under the learning rates of training curves: one row a loss, ready for `bayeslaw fit`."""
    from bayeslaw.core.files import write_text
    from bayeslaw.plots.schedules import plot_schedules
    from bayeslaw.plots.style import save_stack

    check_files("A table of runs", output, plot, [curves], of="the areas")
    options = {"warmup": warmup, "losses": losses}
    made = read(curves, memory=memory, power=power, per=per, tokens_per_step=tokens_per_step, run=run, **options)
    table = made.runs(domain, nodes=nodes).where(where)
    if count := int((begun := table.frame["S1"] == 0).sum()):  # nan where a pre-training is unknown
        table = replace(table, frame=table.frame[~begun])
        typer.echo(f"{count} losses before the first step of a training are left out: no law of these areas describes them")
    names = table.frame["run"].unique()
    domains = table.frame["domain"].nunique() if "domain" in table.frame else 1
    of = f" of {domains} domains" if domains > 1 else ""
    put("losses", len(table))
    put("runs", len(names))

    def save(path: Path) -> None:
        save_stack(path, 3, lambda axes: plot_schedules(axes, {n: made.whole(n) for n in names}, memory=memory))

    with picture_first(plot, save):
        write_text(output, table.frame.to_csv(index=False))
        typer.echo(f"{len(table)} losses{of} from {len(names)} runs written to {output}")


def register(parent: typer.Typer) -> None:
    """Add the commands to the command line."""
    from bayeslaw.cli import recipes as cli_recipes

    cli_recipes.register(app)
    parent.add_typer(app, name="dynamics")
