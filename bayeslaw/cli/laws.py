"""Commands about laws and tables before any fit: laws, check. `cli` registers them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslaw.cli.io import put
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    from bayeslaw.laws.law import Law

RunsPath = Annotated[Path, typer.Argument(help="Logged losses: .csv, .tsv, .parquet or .jsonl, one evaluation a row.")]
Where = Annotated[str | None, typer.Option(help="Use only rows that meet a condition, e.g. \"ptpp <= 31 and domain == 'target'\".")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(laws)
    app.command()(check)


def laws(name: Annotated[str | None, typer.Argument(help="Show one law: formula, parameters, priors, source.")] = None) -> None:
    """List the laws, one line each, or show one whole."""
    from bayeslaw.laws.card import law_names, load_law

    if name is None:
        width = max(map(len, law_names()))
        titles = {known: load_law(known).title for known in law_names()}
        put("laws", [{"name": known, "title": title} for known, title in titles.items()])
        for known, title in titles.items():
            typer.echo(f"{known:<{width}}  {title}")
        return
    law = load_law(name)
    put("law", described(law))
    typer.echo(f"{law.name}: {law.title}\nsource: {law.source}\n\nloss = {law.loss.text}")
    for key, expression in law.let.items():
        typer.echo(f"  {key} = {expression.text}")
    typer.echo("\ncovariates")
    for covariate in law.covariates.values():
        low, high = covariate.support
        columns = law.series.get(covariate.series, ())
        if covariate.name not in columns[1:]:
            of = f" (columns {columns[0]} to {columns[-1]})" if columns else " (not in the loss)" if covariate.context else ""
            typer.echo(f"  {covariate.series or covariate.name:<10} {covariate.unit}, {low:g} to {high:g}{of}")
    typer.echo("\nparameters")
    for parameter in law.parameters.values():
        unit = f" ({parameter.unit})" if parameter.unit else ""
        typer.echo(f"  {parameter.name:<10} {parameter.meaning}{unit}\n  {'':<10} prior {parameter.prior}")
    for title, numbers in law.published.items():
        typer.echo(f"\npublished: {title}\n  " + ", ".join(f"{k} {v:g}" for k, v in numbers.items()))
    if law.note:
        typer.echo(f"\nnote: {law.note}")


def check(
    runs: RunsPath,
    law: Annotated[str, typer.Option(help="The law to check the table for.")],
    where: Where = None,
) -> None:
    """List every fault of a table, with row, column, value and likely suggestion."""
    from bayeslaw.data.table import read_runs
    from bayeslaw.data.validate import base_rows, mixed_domains
    from bayeslaw.data.validate import check as check_runs
    from bayeslaw.laws.card import load_law
    from bayeslaw.laws.pooling import levels_of, varied

    card, table = load_law(law), read_runs(runs, where, strict=False)
    card = varied(card, levels_of(card, table.frame))
    for conversion in table.conversions:
        typer.echo(f"read: {conversion}")
    faults = check_runs(table, card)
    put("faults", [asdict(fault) for fault in faults])
    for fault in faults:
        typer.echo(str(fault))
    if faults:
        raise BayeslawError(f"{runs.name} has {len(faults)} fault{'s' * (len(faults) != 1)} for {card.name}.")
    base = int(base_rows(table.frame, card).sum())
    aside = f"; {base} base-checkpoint rows (D = 0) are kept out of the fit" if base else ""
    put("rows", len(table))
    put("base_rows", base)
    typer.echo(f"{runs.name}: {len(table)} rows are sound for {card.name}{aside}.")
    if mixed := mixed_domains(table.frame, card):
        typer.echo(f"To fit it: {mixed}.")


def described(law: Law) -> dict[str, Any]:
    """A law as JSON has it: formula, covariates, parameters with meaning, unit and prior, the source's numbers."""
    return {
        "name": law.name,
        "title": law.title,
        "source": law.source,
        "loss": law.loss.text,
        "let": {key: expression.text for key, expression in law.let.items()},
        "latex": law.latex(),
        "covariates": {c.name: {"unit": c.unit, "support": c.support, "at_least": c.at_least} for c in law.covariates.values()},
        "parameters": {
            p.name: {"meaning": p.meaning, "unit": p.unit, "prior": str(p.prior), "latex": p.latex} for p in law.parameters.values()
        },
        "published": {title: dict(numbers) for title, numbers in law.published.items()},
        "note": law.note,
    }
