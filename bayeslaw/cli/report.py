"""The command `report`."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslaw.cli.answer import Answer
from bayeslaw.cli.fits import FAILED
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd

    from bayeslaw.forecasting.stack import Posterior, Stack


def report(
    fits: Annotated[list[Path], typer.Argument(help="Fits written by `bayeslaw fit` or stacks written by `bayeslaw compare`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page (.html).")],
    forecast: Annotated[Path | None, typer.Option(help="A table of settings to forecast.")] = None,
    measured: Annotated[Path | None, typer.Option(help="Losses that the fits have not seen; forecasts of them are scored.")] = None,
    compare: Annotated[
        list[Path] | None, typer.Option(help="A stack (.nc) or scores (.csv) of `bayeslaw compare`; repeat for several.")
    ] = None,
    anchors: Annotated[Path | None, typer.Option(help="Picks that `bayeslaw anchors -o` wrote (.csv).")] = None,
    plan: Annotated[Path | None, typer.Option(help="A frontier that `bayeslaw plan -o` wrote (.csv).")] = None,
    latex: Annotated[Path | None, typer.Option(help="A folder for tables (.tex) and pictures (.pdf) of a paper.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Where to write every number of the report (.json).")] = None,
    ci: Annotated[float, typer.Option("--ci", help="Probability of the equal-tailed intervals.")] = 0.9,
    discrepancy: Annotated[str | None, typer.Option(help="Relative sd, such as 1%, that you state for the laws' errors.")] = None,
    seed: Annotated[int, typer.Option(help="Of the noise of new runs.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Show intervals in spite of failed checks, marked.")] = False,
) -> Answer:
    """Report fits on one page: data, law, priors, checks, parameters, forecasts, comparison, and how they were made."""
    from bayeslaw.core.files import check_target, write_text, write_whole
    from bayeslaw.core.intervals import check_probability
    from bayeslaw.data.table import read_runs
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.reporting.report import labels_of
    from bayeslaw.reporting.report import report as make_report

    check_probability(ci)
    given = [*fits, *(compare or []), *(path for path in (forecast, measured, anchors, plan) if path is not None)]
    for path, what, ending in ((output, "A report", ".html"), (json_, "The numbers of a report", ".json")):
        if path is not None:
            check_target(path, what, ending)
            if any(path.resolve() == one.resolve() for one in given):
                raise BayeslawError(f"{path.name} is what you give: write the report to another file.")
    if latex is not None and (not latex.parent.is_dir() or (latex.exists() and not latex.is_dir())):
        raise BayeslawError(
            f"The folder {latex} can't be made: {'it is a file' if latex.exists() else f'there is no {latex.parent}'}."
        )
    if len({path.resolve() for path in fits}) < len(fits):
        raise BayeslawError("A fit is given twice; each is reported once.")
    seen: set[Path] = set()
    for path in compare or []:
        if path.resolve() in seen:
            raise BayeslawError(f"{path} is given twice to compare by; each is shown once.")
        seen.add(path.resolve())
    loaded: list[Posterior] = [load_fit(path) for path in fits]
    if latex is not None and not force and (failed := [p.name for p, one in zip(fits, loaded, strict=True) if not one.passed]):
        raise BayeslawError(
            f"The checks of {', '.join(failed)} failed: no tables for a paper. Sample longer, or --force them and have every "
            "interval marked."
        )
    labels = labels_of(fits, loaded)
    stacks, scores = _compared(compare or [])
    made = make_report(
        dict(zip(labels, loaded, strict=True)), files=dict(zip(labels, _names(fits), strict=True)),
        at=None if forecast is None else read_runs(forecast), measured=None if measured is None else read_runs(measured),
        stacks=stacks, scores=scores, picks=_csv(anchors, "picks"), frontier=_csv(plan, "a plan's frontier"), ci_prob=ci,
        discrepancy=discrepancy, seed=seed, force=force, command=shlex.join(["bayeslaw", *sys.argv[1:]]),
    )  # fmt: skip
    page, numbers, answer = made.html, made.json, Answer()
    parts = made.latex if latex is not None else {}
    if latex is not None:
        try:
            latex.mkdir(exist_ok=True)
        except OSError as error:
            raise BayeslawError(f"The folder {latex} can't be made: {error}.") from None
        for name, data in parts.items():
            write_whole(latex / name, partial(_write, data))
        answer.say(f"{len(parts)} files written to {latex}")
    if json_ is not None:
        write_text(json_, numbers)
        answer.say(f"numbers written to {json_}")
    write_text(output, page)
    for label, one in zip(labels, loaded, strict=True):
        answer.say(f"{label}: {'passed' if one.passed else FAILED}")
    answer.say(f"report written to {output}")
    return answer


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _names(paths: list[Path]) -> list[str]:
    """What files are called: by their names, by their paths where a name is that of several."""
    names = [path.name for path in paths]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]


def _compared(paths: list[Path]) -> tuple[dict[str, Stack], dict[str, pd.DataFrame]]:
    """What `bayeslaw compare` wrote: stacks, and tables of scores."""
    from bayeslaw.forecasting.stack import Stack, load_fit

    stacks: dict[str, Stack] = {}
    scores: dict[str, pd.DataFrame] = {}
    for name, path in zip(_names(paths), paths, strict=True):
        if path.suffix.lower() == ".nc":
            found = load_fit(path)
            if not isinstance(found, Stack):
                raise BayeslawError(f"{path.name} is one fit and no comparison: give it as a fit.")
            stacks[name] = found
        else:
            frame: Any = _csv(path, "scores")
            if missing := [c for c in ("law", "fit", "crps") if c not in frame]:
                raise BayeslawError(
                    f"{path.name} has no column {missing[0]}: write scores by `bayeslaw compare --csv > SCORES.csv`."
                )
            scores[name] = frame
    return stacks, scores


def _csv(path: Path | None, what: str) -> pd.DataFrame | None:
    """A table that another command wrote."""
    import pandas as pd

    if path is None:
        return None
    if not path.is_file():
        raise BayeslawError(f"There is no file {path} with {what}.")
    try:
        frame = pd.read_csv(path)
    except (ValueError, OSError) as error:
        raise BayeslawError(f"{path.name} can't be read as {what}: {error}.") from None
    if frame.empty:
        raise BayeslawError(f"{path.name} has no rows: {what} were wanted.")
    return frame
