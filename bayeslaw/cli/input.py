"""What a command is given: NAME=VALUE texts, numbers, files to be written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bayeslaw.core.errors import BayeslawError


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
    from bayeslaw.core.tables import check_target
    from bayeslaw.plots.forecast import PICTURES

    if output is not None:
        check_target(output, what, ".csv")
        if output.resolve() in [path.resolve() for path in given if path is not None]:
            raise BayeslawError(f"{output.name} is what you give: write {of} to another file.")
    if plot is not None:
        check_target(plot, "A picture", *PICTURES)
