"""The command versus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted

MOST_ROWS = 12  # of a table that a terminal shows; more go to --output
SETTING = "NAME=VALUE, such as r=0.25 or domain=web"


def versus(
    fits: Annotated[list[Path], Argument(help="The fits of recipes A and B; or one fit, with --levels or --set-a and --set-b.")],
    at: Annotated[Path | None, Option(help="A table of settings, with N and D, at which both are compared.")] = None,
    column: options.Columns = None,
    set_: options.Ranges = None,
    compute: Annotated[
        str | None, Option(help="Compare along compute, each with its best N and D: 1e21, or 1e19:1e23:20 for 20 values.")
    ] = None,
    tokens_per_parameter: Annotated[float | None, Option(help="With --compute: use this D / N in place of the best.")] = None,
    levels: Annotated[
        str | None,
        Option(help="With one fit: two values, A,B, of the column by which its parameters differ, such as c4,redpajama."),
    ] = None,
    set_a: Annotated[list[str] | None, Option("--set-a", help=f"A setting of A alone: {SETTING}. Repeatable.")] = None,
    set_b: Annotated[list[str] | None, Option("--set-b", help="A setting of B alone. Repeatable.")] = None,
    names: Annotated[str | None, Option(help="What to call the recipes: C4,RedPajama.")] = None,
    on: Annotated[
        Literal["latent", "run"],
        Option(help="Compare the laws' expected losses (latent), or the losses that one next run of each logs (run)."),
    ] = "latent",
    shared_error: Annotated[
        float, Option(help="Correlation, 0 to 1, of the errors of the two laws beyond their runs; 0 makes the widest intervals.")
    ] = 0.0,
    discrepancy: options.LearntErrors = "learned",
    candidates: Annotated[
        Path | None, Option(help="A table of runs that could be bought to decide; see `bayeslaw anchors`.")
    ] = None,
    budget: options.BudgetOfRuns = None,
    ci: options.Ci = 0.9,
    output: options.TableFile = None,
    plot: options.Picture = None,
    width: options.PictureWidth = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Compare two recipes: the probability that each is better, what the wrong choice may cost, and where they cross."""
    from bayeslaw.core.files import names_of
    from bayeslaw.planning.arguments import read_once

    options.check_outputs("A comparison", output, plot, [*fits, at, candidates], width=width)
    if not 1 <= len(fits) <= 2:
        raise BayeslawError(f"Give two fits, or one with --levels; {len(fits)} were given.", code="number-of-fits")
    options.check_once(fits)
    options.check_candidates(candidates, budget)
    settings = options.pairs_of("--set", set_, "NAME=VALUE, such as N=7e9")
    loaded = [bayeslaw.load_fit(path) for path in fits]
    if len(loaded) == 2 and len({id(fit) for fit in read_once(loaded)}) == 1:
        raise BayeslawError(
            f"{fits[0]} and {fits[1]} hold the same fit, which has nothing to compare: give it once, with --levels or with --set-a "
            "and --set-b, or the fit of another recipe.",
            code="given-twice",
        )
    asked: Any = settings if compute is None and settings else None
    (of_settings,) = options.columns_of_each(column, at)
    if at is not None:
        asked = bayeslaw.read_runs(at, columns=of_settings)
    compared = bayeslaw.planning.versus(
        loaded[0], loaded[1] if len(loaded) == 2 else None, asked, compute=compute,
        tokens_per_parameter=tokens_per_parameter, levels=_two("--levels", levels),
        settings=settings if at is not None or compute is not None else None,
        settings_a=options.pairs_of("--set-a", set_a, SETTING), settings_b=options.pairs_of("--set-b", set_b, SETTING),
        names=_two("--names", names) or (tuple(files) if len(set(files := names_of(fits))) == 2 else None), on=on,
        shared_error=shared_error, discrepancy=discrepancy, seed=seed, force=force,
    )  # fmt: skip
    answer, table = Answer(), compared.summary(ci)
    answer.save_picture(
        plot,
        *(lambda ax, of=of: bayeslaw.plots.plot_versus(compared, ax, of=of, ci_prob=ci) for of in ("probability", "multiplier")),
        width=width,
    )
    answer.say(*compared.lines(ci), "")
    if output is None and len(table) > MOST_ROWS:
        answer.results["comparison"] = table
        answer.say(f"{len(table)} rows; --output or --json has the table")
    else:
        answer.save_table("comparison", table, output, counted(len(table), "comparison"), joined=True)
    answer.results |= {"names": {"A": compared.names[0], "B": compared.names[1]}, "crossing": compared.crossings_table(ci)}
    answer.note(compared.notes)
    if candidates is not None and budget is not None:
        for name, chosen in compared.anchors(candidates, budget=budget, seed=seed, force=force).items():
            answer.say("", f"runs of {name} that would make the difference in the last row surer")
            answer.show(f"picks of {name}", chosen.picks)
            answer.say("", chosen.text)
    answer.warn_of(dict(zip(fits, loaded, strict=True)))
    return answer


def _two(option: str, text: str | None) -> tuple[str, ...] | None:
    """Return the two parts of an option."""
    if text is None:
        return None
    parts = tuple(part.strip() for part in text.split(","))
    if len(parts) != 2 or not all(parts):
        raise BayeslawError(f"{option} {text!r} is not of the form A,B.", code="not-two-names")
    return parts
