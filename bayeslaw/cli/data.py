"""Commands on public losses: data list, data fetch and the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer


def list_() -> Answer:
    """List the public data sets with their contents, authors and licences."""
    from bayeslaw.data.datasets import datasets

    answer = Answer()
    for dataset in datasets().values():
        answer.say(dataset.name, f"  {dataset.title}", f"  {dataset.citation}", f"  licence: {dataset.licence}; {dataset.source}")
    return answer


def fetch(
    name: Annotated[str, Argument(help="A public data set; see `bayeslaw data list`.")],
    output: Annotated[Path, Option("-o", "--output", help="The folder to write its tables into.")] = Path(),
) -> Answer:
    """Download a public data set, check it against its checksums, and write its tables."""
    from bayeslaw.data.datasets import dataset

    answer, described = Answer(), dataset(name)
    fetched = bayeslaw.fetch_dataset(name, output)
    answer.say(described.title, f"cite: {described.citation}", f"licence: {described.licence}", f"source: {described.source}")
    answer.say(*(f"note: {note}" for note in fetched.notes))
    answer.say(*(f"{rows:,} rows written to {path}" for path, rows in zip(fetched.paths, fetched.rows, strict=True)))
    return answer


def demo(
    output: Annotated[Path, Option("-o", "--output", help="The folder for the picture and the tables.")] = Path("demo-output"),
    tables: Annotated[bool, Option("--tables", help="Only write the measured losses, on which to try other commands.")] = False,
    quiet: options.Quiet = False,
) -> Answer:
    """Fit five laws to measured losses of small models and forecast pre-trainings longer than the fitted ones."""
    from bayeslaw.cli.demo import run, write_tables

    if not tables:
        return run(output, progress=not quiet)
    answer = Answer()
    answer.say(*(f"written to {path}" for path in write_tables(output).values()))
    return answer
