"""The answer of a command, and the one place that prints it: as text, as one JSON object or as comma-separated values.

A command returns an `Answer` and prints nothing itself. Progress bars and progress lines go to standard error while it works.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslaw.core.errors import BayeslawError, TableError, grouped, shortened

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from bayeslaw.data.table import Runs
    from bayeslaw.forecasting.stack import Posterior
    from bayeslaw.posterior.diagnostics import Check

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object: every table in full precision, and the text.")]


@dataclass
class Answer:
    """The texts, tables and values that a command returns, in the order in which a terminal shows them."""

    # Texts for a terminal, each with whether it is a table: JSON has the other texts under `text`.
    parts: list[tuple[str, bool]] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)  # tables and values by name, for JSON
    last: list[str] = field(default_factory=list)  # lines that come after all others
    csv: str = ""  # if not empty, this alone goes to standard output, and all texts go to standard error
    error: BayeslawError | None = None  # the error that ends the command after the answer is printed
    updates: Iterable[Answer] = ()  # in place of all above: answers that are printed one by one, as they come

    def say(self, *lines: str) -> None:
        """Add lines of text."""
        self.parts += [(line, False) for line in lines]

    def read(self, table: Runs) -> None:
        """Say which columns of a table were renamed or rescaled when it was read."""
        self.say(*(f"read: {conversion}" for conversion in table.conversions))

    def verbatim(self, text: str) -> None:
        """Add text for other programs, whose lines no terminal may break."""
        self.parts.append((text, True))

    def note(self, notes: Iterable[str]) -> None:
        """Add notes to the results, and to the text what they say, each text once."""
        from bayeslaw.core.text import once

        self.results["notes"] = list(dict.fromkeys(notes))
        self.say(*(f"note: {note}" for note in once(self.results["notes"])))

    def show(self, name: str, table: pd.DataFrame, text: str = "", *, joined: bool = False) -> None:
        """Add a table; a terminal shows `text` or four significant figures, with each interval in one column if `joined`."""
        from bayeslaw.core.text import plain, with_intervals

        self.results[name] = table
        self.parts.append((text or plain(with_intervals(table) if joined else table), True))

    def save_table(
        self, name: str, table: pd.DataFrame, path: Path | None, content: str, text: str = "", *, joined: bool = False
    ) -> None:
        """Write a table to a file and add a line that says so, or `show` the table if there is no path."""
        from bayeslaw.core.files import write_text

        if path is None:
            self.show(name, table, text, joined=joined)
        else:
            write_text(path, table.to_csv(index=False))
            self.say(f"{content} written to {path}")

    def save_picture(
        self, path: Path | None, *panels: Callable[[Axes], object], height: float | None = None, width: float | None = None
    ) -> None:
        """Write a picture if there is a path, with panels of a height and width in inches below each other.

        Call it before any table is written: a picture that fails then leaves no table.
        """
        from bayeslaw.plots.style import WIDTH, save_panels

        if path is not None:
            save_panels(path, panels, height, WIDTH if width is None else width)
            self.last.append(f"picture written to {path}")

    def judge(self, checks: Sequence[Check]) -> None:
        """Add every check to the results, and the verdicts on sampling and model to results and text."""
        from bayeslaw.posterior.diagnostics import model_label, model_verdict, sampling_label, sampling_verdict

        names = ("name", "subject", "passed", "text", "advice")
        rows = [{name: getattr(check, name) for name in names} for check in checks]
        self.results |= {"checks": rows, "sampling": sampling_label(checks), "model": model_label(checks)}
        self.say(f"Sampling: {sampling_verdict(checks)}", f"Model: {model_verdict(checks)}")

    def warn_of(self, fits: Mapping[Path, Posterior]) -> None:
        """Name the concerns about the models of fits on which a decision rests, each fit by its file."""
        from bayeslaw.posterior.diagnostics import model_verdict

        self.results["models"] = {str(path): fit.verdicts[1] for path, fit in fits.items()}
        for path, fit in fits.items():
            if fit.concerns:
                self.say(
                    f"Model of {path}: {model_verdict(fit.checks)}. `bayeslaw show {shlex.quote(str(path))}` says more of them."
                )

    def print(self) -> None:
        """Print the answer as text, or as comma-separated values with the text on standard error.

        On a terminal lines of text end between words; in a file or a pipe a sentence is one line, to be searched for.
        """
        from bayeslaw.core.text import terminal_width, wrapped

        if self.csv:
            typer.echo(self.csv, nl=False)
        width = terminal_width()
        for text, is_table in (*self.parts, *((line, False) for line in self.last)):
            typer.echo(text if is_table or width is None else wrapped(text, width), err=bool(self.csv))

    def print_json(self) -> None:
        """Print the answer as one JSON object."""
        from bayeslaw import __version__

        texts = [*(text for text, is_table in self.parts if not is_table), *self.last]
        lines = [line.rstrip() for text in texts for line in text.splitlines() if line.strip()]
        error = {"error": str(self.error), "code": self.error.code} if self.error else {}
        content = {"bayeslaw": __version__, **error, "text": lines, "results": json_result(self.results)}
        typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))


def every_fault(error: TableError) -> Answer:
    """Return an answer that lists all faults of a table, or raise the error if its message has them all."""
    if len(error.faults) <= error.SHOWN:
        raise error
    summary = f"{error.table} has {len(error.faults)} faults (rows are counted from 1 below the header)."
    return Answer(
        [(line, False) for line in grouped(error.faults)],
        {"faults": [asdict(fault) for fault in error.faults]},
        error=BayeslawError(summary, code=error.code),
    )


def answering(command: Callable[..., Answer]) -> Callable[..., None]:
    """Return a function for typer that runs a command, has the option `--json`, and prints the answer.

    A parameter of the command whose type is a dataclass, such as `options.Beginning`, stands for an option for each of its fields:
    typer knows no groups of options that several commands share. The command `report` has an option `--json` of its own and
    keeps it.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {p.name: p.annotation for p in signature.parameters.values() if is_dataclass(p.annotation)}
    parameters = list[inspect.Parameter]()
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        parameters += [parameter] if group is None else inspect.signature(group, eval_str=True).parameters.values()
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    if "json_" not in signature.parameters:
        parameters.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json))

    @functools.wraps(command)
    def run(*, as_json: bool = False, **given: Any) -> None:
        if as_json and (given.get("csv") or given.get("latex")):
            raise BayeslawError("--json can't be combined with --csv or --latex: choose one of them.", code="two-output-formats")
        for name, group in groups.items():
            given[name] = group(**{part.name: given.pop(part.name) for part in fields(group)})
        for answer in _answers(functools.partial(command, **given)):
            if as_json:
                answer.print_json()
            else:
                answer.print()
            if answer.error is not None:
                raise answer.error

    run.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _answers(command: Callable[[], Answer]) -> Iterator[Answer]:
    """Yield the answer of a command, or the updates that it has in place of one; an error is the last answer."""
    try:
        answer = command()
        if not answer.updates:
            yield answer
        yield from answer.updates
    except BayeslawError as error:
        yield Answer(error=error)
    except OSError as error:  # a name that is too long, a folder that may not be read, a full disk
        of = "" if error.filename is None else f"{shortened(error.filename, 200)}: "
        yield Answer(error=BayeslawError(f"{of}{error.strerror or error}.", code="system-error"))
    except MemoryError as error:
        yield Answer(error=BayeslawError(f"There is not enough memory: {error}.", code="out-of-memory"))


def json_result(value: object) -> Any:
    """Return a result as JSON has it: NaN becomes null, infinite numbers become the texts Infinity and -Infinity."""
    import numpy as np
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        names = ["name" if name is None else str(name) for name in value.index.names]
        rows = value if isinstance(value.index, pd.RangeIndex) else value.reset_index(names=names)
        return [{str(k): json_result(v) for k, v in row.items()} for row in rows.to_dict("records")]
    if is_dataclass(value) and not isinstance(value, type):
        return json_result({part.name: getattr(value, part.name) for part in fields(value)})
    if isinstance(value, Mapping):
        return {str(k): json_result(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_result(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
