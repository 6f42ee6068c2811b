"""The command explore."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError


def explore(
    fits: Annotated[
        list[Path], Argument(help="One to three fits written by `bayeslaw fit` or stacks written by `bayeslaw compare`.")
    ],
    output: Annotated[Path, Option("-o", "--output", help="The file to write the page to (.html).")],
    names: Annotated[str | None, Option(help="What to call the fits: source,target.")] = None,
    draws: Annotated[int, Option(help="Number of draws of each fit that the page holds.")] = 400,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Write a page, usable without a network, in which you move settings and see outcomes with bands, plans and allocations."""
    from bayeslaw.reporting.report import labels_of

    options.check_outputs("A page", output, inputs=fits, ending=".html")
    options.check_once(fits)
    loaded = [bayeslaw.load_fit(path) for path in fits]
    labels = labels_of(fits, loaded) if names is None else [name.strip() for name in names.split(",")]
    if len(labels) != len(fits) or len({*labels}) < len(labels) or not all(labels):
        message = f"--names gives a name of its own to each of the {len(fits)} fits, separated by commas; {names!r} does not."
        raise BayeslawError(message, code="wrong-names")
    page = bayeslaw.explore(
        dict(zip(labels, loaded, strict=True)), draws=draws, seed=seed, force=force,
        command=shlex.join(["bayeslaw", *sys.argv[1:]]),
    )  # fmt: skip
    page.save(output)
    answer = Answer()
    for label, fit in zip(labels, loaded, strict=True):
        answer.say(f"{label}: sampling {fit.verdicts[0]}; model: {fit.verdicts[1]}")
    answer.say(f"page with {page.facts['draws']} draws of each fit written to {output}; open it in a browser")
    return answer
