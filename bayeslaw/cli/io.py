"""What a command is given: NAME=VALUE texts, numbers, files to be written.

What a command answers: text and tables on a terminal, or all of it as one JSON object (`--json`).

Commands print with `typer.echo`; tables and single results they hand to `show_table` and `put`. Under `--json` what would have been
printed becomes `text`, line by line, and tables stand in full precision under `results`: a command that only prints answers too.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from bayeslaw.posterior.diagnostics import Check


def pairs_of(option: str, texts: list[str], form: str) -> dict[str, str]:
    """Read NAME=VALUE texts of an option; a name given twice is refused."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, value = (part.strip() for part in text.partition("=")[::2])
        if not name or not value:
            raise BayeslawError(f"{option} {text!r} is not of the form {form}.")
        if name in pairs:
            raise BayeslawError(f"{option} gives {name} twice: {pairs[name]!r} and {value!r}.")
        pairs[name] = value
    return pairs


def a_number(said: str, text: str) -> float:
    """Read a number, `said` being what stands before it in the command."""
    try:
        return float(text)
    except ValueError:
        raise BayeslawError(f"{said}{text!r} is not a number.") from None


def check_files(
    what: str, output: Path | None, plot: Path | None, given: Iterable[Path | None] = (), of: str = "the table"
) -> None:
    """Refuse a table or picture that can't be written, and a table that is one of the files given, before any work is done."""
    from bayeslaw.core.files import check_target
    from bayeslaw.plots.style import PICTURES

    if output is not None:
        check_target(output, what, ".csv")
        if output.resolve() in [path.resolve() for path in given if path is not None]:
            raise BayeslawError(f"{output.name} is what you give: write {of} to another file.")
    if plot is not None:
        check_target(plot, "A picture", *PICTURES)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object: every table in full precision, and the text.")]
_results: ContextVar[dict[str, Any] | None] = ContextVar("results", default=None)


def put(name: str, value: object) -> None:
    """Keep a result for `--json`; on a terminal nothing is shown.

    Parameters
    ----------
    name : str
        Its key under `results`.
    value : DataFrame, mapping, list, text, number or None
        A table becomes a list with one object a row.
    """
    if (results := _results.get()) is not None:
        results[name] = plain_value(value)


def show_table(name: str, table: pd.DataFrame, text: str | None = None) -> None:
    """Show a table on the terminal, as `text` where that is given, or keep it for `--json`."""
    if _results.get() is not None:
        put(name, table)
        return
    from bayeslaw.core.text import plain

    typer.echo(plain(table) if text is None else text)


def save_or_show(name: str, table: pd.DataFrame, output: Path | None, said: str, *, joined: bool = False) -> None:
    """Write a table and say so, or show it where there is no file for it, with its intervals `joined` into one column or not."""
    from bayeslaw.core.files import write_text
    from bayeslaw.core.text import plain, with_intervals

    if output is None:
        show_table(name, table, plain(with_intervals(table)) if joined else None)
        return
    write_text(output, table.to_csv(index=False))
    typer.echo(f"{said} written to {output}")


@contextlib.contextmanager
def picture_first(path: Path | None, save: Callable[[Path], object]) -> Iterator[None]:
    """Write a picture, if one is wanted, before what is within, and say so after it: one that can't be drawn leaves no table."""
    if path is not None:
        save(path)
    yield
    if path is not None:
        typer.echo(f"picture written to {path}")


def figure_first(path: Path | None, draw: Callable[[Axes], object]) -> contextlib.AbstractContextManager[None]:
    """`picture_first` of one pair of axes."""
    from bayeslaw.plots.style import save_figure

    return picture_first(path, lambda target: save_figure(target, draw))


def put_checks(checks: Iterable[Check], passed: bool) -> None:
    """Keep the verdict and every check behind it for `--json`."""
    rows = [{"name": one.name, "passed": one.passed, "decides": one.required, "text": one.text} for one in checks]
    put("checks", rows)
    put("verdict", "passed" if passed else "FAILED")


def plain_value(value: object) -> Any:
    """A result as JSON has it: numbers that are none become null, infinite ones the texts Infinity and -Infinity."""
    import numpy as np
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        names = ["name" if name is None else str(name) for name in value.index.names]
        rows = value if isinstance(value.index, pd.RangeIndex) else value.reset_index(names=names)
        return [{str(k): plain_value(v) for k, v in row.items()} for row in rows.to_dict("records")]
    if is_dataclass(value) and not isinstance(value, type):
        return plain_value({one.name: getattr(value, one.name) for one in fields(value)})
    if isinstance(value, Mapping):
        return {str(k): plain_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def with_json(app: typer.Typer) -> None:
    """Give every command of an application, and of those within it, the option `--json`."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _answering(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_json(group.typer_instance)


def _answering(command: Callable[..., None]) -> Callable[..., None]:
    """The command with `--json`; one that has it already is left as it is."""
    signature = inspect.signature(command, eval_str=True)
    if "json_" in signature.parameters:
        return command

    @functools.wraps(command)
    def answering(*, json_: bool, **given: Any) -> None:
        if not json_:
            command(**given)
            return
        if given.get("csv") or given.get("latex"):
            raise BayeslawError("--json is an output of its own: give it without --csv and --latex.")
        results: dict[str, Any] = {}
        error, printed, token = None, io.StringIO(), _results.set(results)
        try:
            with contextlib.redirect_stdout(printed):
                command(**given)
        except BayeslawError as raised:
            error = raised
        finally:
            _results.reset(token)
        from bayeslaw import __version__

        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        told = {"error": str(error)} if error else {}
        answer = {"bayeslaw": __version__, **told, "text": [line for line in lines if line], "results": results}
        typer.echo(json.dumps(answer, ensure_ascii=False, allow_nan=False))
        if error:
            raise error

    option = inspect.Parameter("json_", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    answering.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    answering.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()} | {"json_": Json}
    return answering
