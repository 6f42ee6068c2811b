"""Commands for papers: report, cite."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd


def report(
    fits: Annotated[list[Path], Argument(help="Fits written by `bayeslaw fit` or stacks written by `bayeslaw compare`.")],
    output: Annotated[Path, Option("-o", "--output", help="The file to write the page to (.html).")],
    forecast: options.SettingsFile = None,
    measured: Annotated[
        Path | None, Option(help="Losses whose forecasts are scored; rows that a fit has seen are left out.")
    ] = None,
    where: options.MeasuredWhere = None,
    column: options.Columns = None,
    compare: Annotated[list[Path] | None, Option(help="A stack (.nc) or scores (.csv) of `bayeslaw compare`. Repeatable.")] = None,
    anchors: Annotated[Path | None, Option(help="Picks that `bayeslaw anchors -o` wrote (.csv).")] = None,
    plan: Annotated[Path | None, Option(help="A frontier that `bayeslaw plan -o` wrote (.csv).")] = None,
    latex: Annotated[Path | None, Option(help="Write tables (.tex) and pictures (.pdf) for a paper into this folder.")] = None,
    json_: Annotated[Path | None, Option("--json", help="Write every number of the report to this file (.json).")] = None,
    ci: options.Ci = 0.9,
    discrepancy: options.Discrepancy = None,
    seed: options.Seed = 0,
    in_sample: options.InSample = False,
    force: options.Force = False,
) -> Answer:
    """Report fits on one page: data, law, priors, checks, parameters, forecasts, comparison, and the commands used."""
    from bayeslaw.reporting.report import labels_of

    inputs = [*fits, *(compare or []), forecast, measured, anchors, plan]
    options.check_outputs("A report", output, inputs=inputs, ending=".html")
    options.check_outputs("A JSON file", json_, inputs=inputs, ending=".json")
    if latex is not None and (not latex.parent.is_dir() or (latex.exists() and not latex.is_dir())):
        reason = "it is a file" if latex.exists() else f"there is no {latex.parent}"
        raise BayeslawError(f"The folder {latex} can't be made: {reason}.", code="no-folder")
    for paths in (fits, compare or []):
        options.check_once(paths)
    loaded = [bayeslaw.load_fit(path) for path in fits]
    if latex is not None and not force and (failed := [(p, fit) for p, fit in zip(fits, loaded, strict=True) if not fit.passed]):
        raise BayeslawError(
            f"Sampling failed for {', '.join(p.name for p, _ in failed)}: no tables for a paper are written. "
            f"{'; '.join(dict.fromkeys(fit.remedy for _, fit in failed))}; or --force them and have every interval marked.",
            code="failed-checks",
        )
    labels, answer = labels_of(fits, loaded), Answer()
    of_settings, of_measured = options.columns_of_each(column, forecast, measured)
    stacks, scores = _comparisons(compare or [])
    contents = bayeslaw.report(
        dict(zip(labels, loaded, strict=True)), files=dict(zip(labels, _names(fits), strict=True)),
        at=bayeslaw.read_runs(forecast, columns=of_settings) if forecast else None,
        measured=options.measured_runs(measured, of_measured, where),
        stacks=stacks, scores=scores, picks=_csv(anchors, "picks") if anchors else None,
        frontier=_csv(plan, "a plan's frontier") if plan else None, ci_prob=ci, discrepancy=discrepancy, seed=seed, force=force,
        in_sample=in_sample, command=shlex.join(["bayeslaw", *sys.argv[1:]]),
    )  # fmt: skip
    if latex is not None:
        answer.say(f"{len(contents.save_latex(latex))} files written to {latex}")
    if json_ is not None:
        contents.save(json_)
        answer.say(f"numbers written to {json_}")
    contents.save(output)
    for label, fit in zip(labels, loaded, strict=True):
        answer.say(f"{label}: sampling {fit.verdicts[0]}; model: {fit.verdicts[1]}")
    answer.say(f"report written to {output}")
    return answer


def cite(
    what: Annotated[list[str], Argument(help="Fits (.nc), stacks (.nc), or names or cards of laws.")],
    output: Annotated[Path | None, Option("-o", "--output", help="Write the entries to this file (.bib).")] = None,
) -> Answer:
    """Print BibTeX for everything that made a fit: law, noise, sampler, PyMC, ArviZ and bayeslaw."""
    from bayeslaw.core.files import write_text

    options.check_outputs("A bibliography", output, inputs=[Path(given) for given in what], ending=".bib")
    answer, entries = Answer(), bayeslaw.cite(*what)
    answer.results["bibtex"] = entries
    if output is None:
        answer.verbatim(entries.rstrip("\n"))
    else:
        write_text(output, entries)
        answer.say(f"{entries.count(chr(10) + '@')} entries written to {output}")
    return answer


def _names(paths: list[Path]) -> list[str]:
    """Return the names of files, or their paths where several files have the same name."""
    names = [path.name for path in paths]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]


def _comparisons(paths: list[Path]) -> tuple[dict[str, bayeslaw.Stack], dict[str, pd.DataFrame]]:
    """Return the stacks and the tables of scores that `bayeslaw compare` wrote, by name."""
    stacks: dict[str, bayeslaw.Stack] = {}
    scores: dict[str, pd.DataFrame] = {}
    for name, path in zip(_names(paths), paths, strict=True):
        if path.suffix.lower() == ".nc":
            stack = bayeslaw.load_fit(path)
            if not isinstance(stack, bayeslaw.Stack):
                raise BayeslawError(f"{path.name} is one fit and no comparison: give it as a fit.", code="not-a-stack")
            stacks[name] = stack
        else:
            scores[name] = _csv(path, "scores")
            if missing := [c for c in ("law", "fit", "crps") if c not in scores[name]]:
                raise BayeslawError(
                    f"{path.name} has no column {missing[0]}: write scores by `bayeslaw compare --csv > SCORES.csv`.",
                    code="missing-column",
                )
    return stacks, scores


def _csv(path: Path, content: str) -> pd.DataFrame:
    """Return a table that another command wrote."""
    import pandas as pd

    if not path.is_file():
        raise BayeslawError(f"There is no file {path} with {content}.", code="no-such-file")
    try:
        frame = pd.read_csv(path)
    except (ValueError, OSError) as error:
        raise BayeslawError(f"{path.name} can't be read as {content}: {error}.", code="unreadable-file") from None
    if frame.empty:
        raise BayeslawError(f"{path.name} has no rows with {content}.", code="no-rows")
    return frame
