"""The commands import and convert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer, every_fault
from bayeslaw.core.errors import BayeslawError, TableError


def import_(
    sources: Annotated[
        list[Path],
        Argument(help="Exports and logs, or folders with event files, MLflow's runs or trainer_state.json; all go into one table."),
    ],
    output: options.NewTable,
    kind: Annotated[
        str | None,
        Option(
            "--from",
            help=f"Kind of the logs: {options.LOG_KINDS}; by default it is recognised.",
        ),
    ] = None,
    map_: Annotated[
        Path | None,
        Option("--map", help="A mapping file (.toml) with columns, units and values of runs; see docs/howto/losses.md."),
    ] = None,
    column: options.Columns = None,
    loss: Annotated[
        list[str] | None, Option(help="A column of losses, as COLUMN or COLUMN=DOMAIN; by default found by its name. Repeatable.")
    ] = None,
    domain: Annotated[list[str] | None, Option(help="Keep only the losses of this domain. Repeatable.")] = None,
    keep: Annotated[
        list[str] | None,
        Option(
            help="A further column to keep as it is, of which a run has one value, as COLUMN or NAME=COLUMN: "
            "optimizer=config.optimizer. Repeatable."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", help="A value that all runs share, such as N=410e6 or tokens_per_step=524288. Repeatable."),
    ] = None,
    resumed: Annotated[str | None, Option(help="Which loss to keep where a run logs a step twice: last or first.")] = None,
    nan: Annotated[str | None, Option(help="drop leaves out evaluations that logged NaN; by default they are an error.")] = None,
    unit: Annotated[str | None, Option(help="Unit of the losses, such as bits/byte or perplexity; nats/token by default.")] = None,
    curves: Annotated[
        bool, Option("--curves", help="Also keep rows with a learning rate but no loss, for `dynamics areas`.")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print no notes.")] = False,
) -> Answer:
    """Read losses from Weights & Biases, TensorBoard, MLflow, Hugging Face, JSON, tables or printed lines into one table."""
    from bayeslaw.core.files import write_text
    from bayeslaw.core.text import counted
    from bayeslaw.data.logs.mapping import constants

    options.check_outputs("A table of runs", output, inputs=sources)
    shared = constants(options.pairs_of("--set", set_, "NAME=VALUE, such as tokens_per_step=524288"), "--set")
    chosen: dict[str, Any] = {"losses": _losses(loss), "domains": domain, "resumed": resumed, "nan": nan}
    chosen["columns"] = options.columns_of(column)
    chosen["keep"] = options.pairs_of("--keep", [text if "=" in text else f"{text}={text}" for text in keep or ()], "NAME=COLUMN")
    try:
        imported = bayeslaw.import_runs(sources, kind=kind, map=map_, curves=curves, loss_unit=unit, **chosen, **shared)
    except TableError as error:
        return every_fault(error)
    frame, answer = imported.runs.frame, Answer()
    write_text(output, frame.to_csv(index=False))
    if not quiet:
        answer.say(*(f"note: {note}" for note in imported.notes))
    domains = f" of {frame['domain'].nunique()} domains" if "domain" in frame and frame["domain"].nunique() > 1 else ""
    rates = int(frame["loss"].isna().sum())
    more = f" and {counted(rates, 'learning rate')}" if rates else ""
    losses, runs = counted(len(frame) - rates, "loss"), counted(frame["run"].nunique(), "run")
    answer.say(f"{losses}{domains}{more} from {runs} written to {output}")
    return answer


def _losses(texts: list[str] | None) -> dict[str, str | None] | None:
    """Return the domain of each column of losses."""
    if not texts:
        return None
    domains: dict[str, str | None] = {}
    for text in texts:
        column, sign, name = text.rpartition("=")
        column, name = (column.strip(), name.strip()) if sign else (text.strip(), "")
        if not column or (sign and not name):
            raise BayeslawError(f"--loss {text!r} is not of the form COLUMN or COLUMN=DOMAIN.", code="not-a-pair")
        if column in domains:
            raise BayeslawError(f"--loss gives {column!r} twice.", code="given-twice")
        domains[column] = name or None
    return domains


def convert(
    runs: Annotated[Path, Argument(help="A table of runs; its column unit names the unit of the losses, nats/token by default.")],
    to: Annotated[
        str,
        Option(help="The new unit: nats/token, bits/token, nats/byte, bits/byte, nats/character, bits/character or perplexity."),
    ],
    output: options.NewTable,
    column: options.Columns = None,
    bytes_per_token: Annotated[str | None, Option(help="Bytes of the validation text per token: a number, or a column.")] = None,
    characters_per_token: Annotated[
        str | None, Option(help="Characters of the validation text per token: a number, or a column.")
    ] = None,
    reference: Annotated[
        float | None, Option(help="Bytes per token of the one tokenizer to which all losses per token are converted.")
    ] = None,
    from_: Annotated[str | None, Option("--from", help="The unit of the losses, if the table has no column unit.")] = None,
) -> Answer:
    """Convert losses to another unit, so that those of several tokenizers can be compared."""
    from bayeslaw.core.files import write_text
    from bayeslaw.core.text import counted
    from bayeslaw.core.units import RATIOS, convert_table, unit

    options.check_outputs("A table of runs", output, inputs=[runs])
    table, answer = bayeslaw.read_runs(runs, columns=options.columns_of(column)), Answer()
    frame = table.frame
    if from_ is not None:
        if "unit" in frame and table.unit != unit(from_):
            raise BayeslawError(
                f"{runs.name} has losses in {table.unit}, which contradicts --from {from_}: leave out --from.", code="two-units"
            )
        frame = frame.assign(unit=unit(from_))
    new = convert_table(
        frame, to, bytes_per_token=bytes_per_token, characters_per_token=characters_per_token, reference=reference, name=runs.name
    )
    write_text(output, new.to_csv(index=False))
    before = table.unit if from_ is None else unit(from_)
    answer.say(f"{counted(len(new), 'loss')} from {before} to {unit(to)} written to {output}")
    ratio = next((c for c in (bytes_per_token, characters_per_token, *RATIOS.values()) if c in frame), None)
    if ratio is not None and frame[ratio].nunique() > 1:
        amounts = [name for name in ("D", "U", "pretrain_tokens", "atpp", "ptpp") if name in frame]
        if amounts:
            answer.say(f"note: still in tokens of each row's own tokenizer, by which its FLOPs are counted: {', '.join(amounts)}")
        if reference is not None and ratio == "bytes_per_token":
            answer.say(
                f"note: bytes_per_token is now that of the reference ({reference:g}); the ratios of the rows are in {runs.name}"
            )
    return answer
