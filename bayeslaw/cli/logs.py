"""The commands `import` and `convert`. `cli` registers them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslaw.cli.io import pairs_of
from bayeslaw.core.errors import BayeslawError, TableError

Sources = Annotated[
    list[Path], typer.Argument(help="Exports and logs, or folders with event files or with trainer_state.json; files of one table.")
]
Constants = Annotated[
    list[str] | None,
    typer.Option("--set", help="What all runs have in common: N=410e6, ptpp=20, tokens_per_step=524288; repeat for each."),
]


def import_(
    sources: Sources,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the table of runs (.csv).")],
    kind: Annotated[
        str | None, typer.Option("--from", help="wandb, tensorboard, trainer, jsonl, wide or table; found out unless given.")
    ] = None,
    map_: Annotated[
        Path | None,
        typer.Option("--map", help="What names can't tell: columns, units, values of each run (.toml); see docs/howto/losses.md."),
    ] = None,
    loss: Annotated[
        list[str] | None, typer.Option(help="A column of validation losses, or COLUMN=DOMAIN; repeat for each. Found by name else.")
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="Keep the losses of this domain; repeat for several.")] = None,
    set_: Constants = None,
    resumed: Annotated[
        str | None, typer.Option(help="Where a run logs a step twice, with different losses: the last log holds, or the first.")
    ] = None,
    nan: Annotated[str | None, typer.Option(help="drop leaves out evaluations that logged NaN; they are refused else.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="What the losses are in, such as bits/byte or perplexity; nats/token else.")
    ] = None,
    curves: Annotated[
        bool, typer.Option("--curves", help="Keep rows with a learning rate and no loss, for `bayeslaw dynamics areas`.")
    ] = False,
) -> None:
    """Read losses from Weights & Biases, TensorBoard, Hugging Face's Trainer, JSON lines or tables into one table of runs."""
    from bayeslaw.core.files import check_target, write_text
    from bayeslaw.data.logs.api import import_runs
    from bayeslaw.data.logs.log import counted

    check_target(output, "A table of runs", ".csv")
    for source in sources:
        if source.exists() and source.resolve() == output.resolve():
            raise BayeslawError(f"{output.name} is what you import: write the table of runs to another file.")
    options: dict[str, Any] = {
        "losses": _losses(loss),
        "domains": domain,
        "resumed": resumed,
        "nan": nan,
        "curves": curves,
        "loss_unit": unit,
    }
    try:
        made = import_runs(sources, kind=kind, map=map_, **options, **_constants(set_))
    except TableError as error:
        if len(error.faults) <= error.SHOWN:
            raise
        for fault in error.faults:
            typer.echo(str(fault))
        raise BayeslawError(f"There are {len(error.faults)} faults (rows are counted from 1 below the header).") from None
    frame = made.runs.frame
    write_text(output, frame.to_csv(index=False))
    for remark in made.remarks:
        typer.echo(f"note: {remark}")
    domains = f" of {frame['domain'].nunique()} domains" if "domain" in frame and frame["domain"].nunique() > 1 else ""
    rates = int(frame["loss"].isna().sum())
    more = f" and {counted(rates, 'learning rate')}" if rates else ""
    losses, runs = counted(len(frame) - rates, "loss", "losses"), counted(frame["run"].nunique(), "run")
    typer.echo(f"{losses}{domains}{more} from {runs} written to {output}")


def _losses(texts: list[str] | None) -> dict[str, str | None] | None:
    """Columns of losses and their domains."""
    if not texts:
        return None
    made: dict[str, str | None] = {}
    for text in texts:
        column, mark, name = text.rpartition("=")
        column, name = (column.strip(), name.strip()) if mark else (text.strip(), "")
        if not column or (mark and not name):
            raise BayeslawError(f"--loss {text!r} is not of the form COLUMN or COLUMN=DOMAIN.")
        if column in made:
            raise BayeslawError(f"--loss gives {column!r} twice.")
        made[column] = name or None
    return made


def _constants(texts: list[str] | None) -> dict[str, Any]:
    from bayeslaw.data.logs.mapping import constants

    return constants(pairs_of("--set", texts or [], "NAME=VALUE, such as tokens_per_step=524288"), "--set")


def convert(
    runs: Annotated[Path, typer.Argument(help="A table of runs; a column unit names what its losses are in, nats/token else.")],
    to: Annotated[
        str, typer.Option(help="nats/token, bits/token, nats/byte, bits/byte, nats/character, bits/character, perplexity.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the table (.csv).")],
    bytes_per_token: Annotated[
        str | None, typer.Option(help="Bytes of the validation text over its tokens: a number, or a column.")
    ] = None,
    characters_per_token: Annotated[str | None, typer.Option(help="Characters over tokens: a number, or a column.")] = None,
    reference: Annotated[
        float | None, typer.Option(help="Bytes per token of the one tokenizer in whose tokens losses per token are wanted.")
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", help="What the losses are in, if the table has no column unit.")] = None,
) -> None:
    """Bring losses to another unit, so that those of several tokenizers can be compared."""
    from bayeslaw.core.files import check_target, write_text
    from bayeslaw.core.units import converted, unit
    from bayeslaw.data.table import read_runs

    check_target(output, "A table of runs", ".csv")
    if output.resolve() == runs.resolve():
        raise BayeslawError(f"{output.name} is what you convert: write the table to another file.")
    table = read_runs(runs)
    frame = table.frame
    if from_ is not None:
        if "unit" in frame and table.unit != unit(from_):
            raise BayeslawError(f"{runs.name} says that its losses are in {table.unit}, and --from {from_}.")
        frame = frame.assign(unit=unit(from_))
    made = converted(
        frame, to, bytes_per_token=bytes_per_token, characters_per_token=characters_per_token, reference=reference, name=runs.name
    )
    write_text(output, made.to_csv(index=False))
    typer.echo(f"{len(made):,} losses from {table.unit if from_ is None else unit(from_)} to {unit(to)} written to {output}")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("import")(import_)
    app.command()(convert)
