"""Commands on data mixtures: mix, and long, which makes one column of the losses of several domains."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted, number

PAIRS = "NAME=NUMBER, such as web=0.5,code=0.5"


def mix(
    fits: Annotated[
        list[str],
        Argument(help="A fit of a law of a mixture, or several, one for each domain: web=web.nc code=code.nc, or web.nc code.nc."),
    ],
    weights: Annotated[
        list[str] | None, Option(help="Weights of the domains' losses: web=.5,code=.5; equal by default. Repeatable.")
    ] = None,
    at: Annotated[list[str] | None, Option(help="Values of the laws' other covariates: N=1e9,D=2e10. Repeatable.")] = None,
    limit: Annotated[list[str] | None, Option(help="The largest loss of a domain: 'code<=1.8'. Repeatable.")] = None,
    confidence: Annotated[float, Option(help="Probability with which all limits hold together.")] = 0.9,
    on: Annotated[
        Literal["latent", "run"],
        Option(help="Limits apply to the laws' expected losses (latent) or to the losses that the next run logs (run)."),
    ] = "latent",
    today: Annotated[list[str] | None, Option(help="The mixture in use, for comparison: web=.8,code=.2. Repeatable.")] = None,
    bounds: Annotated[
        list[str] | None,
        Option(help="Least and largest shares: web=0:0.9,code=0.1:0.5; by default those of the fitted mixtures. Repeatable."),
    ] = None,
    among: Annotated[Path | None, Option(help="Choose among the mixtures of this table instead, one in each row.")] = None,
    tail: Annotated[float | None, Option(help="Minimise the mean over this share of the worst draws, such as 0.1.")] = None,
    discrepancy: options.LearntErrors = "learned",
    output: options.TableFile = None,
    plot: options.Picture = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Find the mixture of least weighted loss within limits, the probability that it is best, and the regret of today's mixture."""
    named = options.named_files(fits, "Two fits are called {name}: name them, such as web=a.nc code=b.nc.")
    options.check_outputs("The mixtures compared", output, plot, [*named.values(), among])
    loaded = {name: bayeslaw.load_fit(path) for name, path in named.items()}
    first = next(iter(loaded.values()))
    mixed = bayeslaw.mix(
        first if len(loaded) == 1 and first.levels else loaded,  # a fit by itself has its domains in a column
        _numbers("--weights", weights), at=_numbers("--at", at), limits=_limits(limit), confidence=confidence, on=on,
        today=_numbers("--today", today), bounds=_bounds(bounds), among=among, tail=tail, discrepancy=discrepancy, seed=seed,
        force=force,
    )  # fmt: skip
    answer = Answer()
    answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_mix(mixed, ax))
    answer.say(*mixed.lines(), "")
    answer.show("losses", mixed.losses, joined=True)
    answer.say("", "mixtures compared")
    shown = mixed.table if output is not None else mixed.table.sort_values("loss_mean")
    answer.save_table("mixtures", shown, output, counted(len(shown), "mixture"), joined=True)
    answer.results |= {"best": mixed.best, "attainable": mixed.attainable, "gain": mixed.gain}
    answer.note(mixed.notes)
    answer.warn_of({named[name]: fit for name, fit in loaded.items()})
    return answer


def long(
    table: Annotated[Path, Argument(help="A table with a column of losses for each domain.")],
    losses: Annotated[
        str, Option(help="The columns of losses: web_loss,code_loss, or with names for the domains: web=web_loss,code=val_code.")
    ],
    output: options.NewTable,
    by: Annotated[str, Option(help="The name of the new column that holds the domain.")] = "domain",
) -> Answer:
    """Turn columns of losses, one for each domain, into one column, with a row for each run and domain."""
    from bayeslaw.core.files import write_text
    from bayeslaw.data.table import as_in_file

    options.check_outputs("A table of runs", output, inputs=[table])
    given = [text.strip() for text in losses.split(",") if text.strip()]
    pairs = options.pairs_of("--losses", given, "DOMAIN=COLUMN") if "=" in losses else given
    long_table = bayeslaw.data.to_long(table, pairs, by=by)
    columns = [*pairs.values()] if isinstance(pairs, dict) else pairs
    wide = as_in_file(table)[0]
    notes = [f"read: {text}" for text in bayeslaw.read_runs(wide.drop(columns=columns)).conversions]
    if "run" in long_table:
        notes.append("runs are named anew, run and domain together, since the effect of a run differs by domain")
    write_text(output, long_table.to_csv(index=False))
    answer = Answer()
    domains = list(dict.fromkeys(long_table[by]))
    answer.results |= {"rows": len(long_table), "domains": domains}
    answer.say(f"{len(long_table)} rows of {len(domains)} domains ({', '.join(domains)}) written to {output}")
    if empty := len(wide) * len(pairs) - len(long_table):
        answer.say(f"{empty} cells without a loss gave no row")
    answer.note(notes)
    return answer


def _numbers(option: str, texts: list[str] | None) -> dict[str, float] | None:
    if not texts:
        return None
    pairs = options.pairs_of(option, ",".join(texts).split(","), PAIRS)
    return {name: options.number_of(f"{option} {name}=", value) for name, value in pairs.items()}


def _limits(texts: list[str] | None) -> dict[str, float] | None:
    limits: dict[str, float] = {}
    for text in ",".join(texts or []).split(",") if texts else []:
        match = re.fullmatch(r"\s*(.+?)\s*<=?\s*([^<=]+?)\s*", text)
        if match is None:
            raise BayeslawError(f"--limit {text!r} is not of the form 'code<=1.8'.", code="not-a-limit")
        if match[1] in limits:
            raise BayeslawError(f"--limit gives {match[1]} twice.", code="given-twice")
        limits[match[1]] = options.number_of(f"A limit is a loss, such as --limit {match[1]}<=1.8: ", match[2])
    return limits or None


def _bounds(texts: list[str] | None) -> dict[str, tuple[float, float]] | None:
    if not texts:
        return None
    bounds = {}
    pairs = options.pairs_of("--bounds", ",".join(texts).split(","), "SHARE=LEAST:LARGEST, such as code=0.1:0.5")
    for name, value in pairs.items():
        low, sign, high = value.partition(":")
        try:
            bounds[name] = (number(low), number(high if sign else low))
        except ValueError:
            raise BayeslawError(f"--bounds {name}={value} is not of the form LEAST:LARGEST.", code="not-a-number") from None
    return bounds
