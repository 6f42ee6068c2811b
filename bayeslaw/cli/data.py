"""Commands of public losses: `bayeslaw data …`. `cli` registers them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Public losses, downloaded from where they are published.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def data() -> None:
    """Public losses, downloaded from where they are published."""


@app.command("list")
def list_() -> None:
    """List the public sets: what they are, whose, and under which licence."""
    from bayeslaw.data.datasets import datasets

    for one in datasets().values():
        typer.echo(f"{one.name}\n  {one.title}\n  {one.citation}\n  licence: {one.licence}; {one.source}")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A public set, see `bayeslaw data list`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write its tables into.")] = Path(),
) -> None:
    """Download a public set, check it against its checksums, and write its tables."""
    from bayeslaw.data.datasets import dataset, fetch_dataset

    one = dataset(name)
    made = fetch_dataset(name, output)
    typer.echo(f"{one.title}\ncite: {one.citation}\nlicence: {one.licence}\nsource: {one.source}")
    for note in made.notes:
        typer.echo(f"note: {note}")
    for path, rows in zip(made.paths, made.rows, strict=True):
        typer.echo(f"{rows:,} rows written to {path}")


def register(parent: typer.Typer) -> None:
    """Add the commands to the command line."""
    parent.add_typer(app, name="data")
