"""Errors that say what was given, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral


class BayeslawError(ValueError):
    """Something given to bayeslaw can't be used; the message says what, what was expected and what to do.

    Attributes
    ----------
    code : str
        What went wrong, for programs: words joined by hyphens, such as 'unknown-parameter'. Messages may be reworded, codes stay.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class CardError(BayeslawError):
    """A law card can't be used."""


class FitError(BayeslawError):
    """A fit can't be made, read or used."""


class StoppedError(FitError):
    """Ctrl-C ended a fit before it had anything to keep."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong in a table.

    Attributes
    ----------
    row : int or None
        Data row, counted from 1 below the header; None for a fault of the whole column or table.
    column : str
    value : str
        As it was given.
    problem, suggestion : str
        What is wrong and what probably puts it right (may be empty).
    code : str
        What is wrong, for programs; see `BayeslawError`.
    """

    row: int | None
    column: str
    value: str
    problem: str
    suggestion: str = ""
    code: str = ""

    def __str__(self) -> str:
        where = f"column {self.column}" if self.row is None else f"row {self.row}, column {self.column}"
        if self.problem.endswith("?"):
            suggestion = f" {self.suggestion[:1].upper()}{self.suggestion[1:]}" if self.suggestion else ""
        else:
            suggestion = f": {self.suggestion}" if self.suggestion else ""
        return f"{self.problem}{suggestion} ({where})"


class TableError(BayeslawError):
    """A table of runs can't be used; `faults` lists every reason."""

    SHOWN = 20

    def __init__(self, faults: Iterable[Fault], table: str = "the table") -> None:
        self.faults = list(faults)
        count = len(self.faults)
        lines = [f"{table} has {count} fault{'s' * (count != 1)} (rows are counted from 1 below the header):"]
        lines += [f"  {fault}" for fault in self.faults[: self.SHOWN]]
        if count > self.SHOWN:
            lines.append(f"  … and {count - self.SHOWN} more; `bayeslaw check` lists them all")
        super().__init__("\n".join(lines), code="faulty-table")


def shortened(text: object, most: int = 60) -> str:
    """A text as it may stand in an error: what is longer than a line loses its middle."""
    shown = str(text)
    return shown if len(shown) <= most else f"{shown[: most - 12]} … {shown[-8:]}"


def whole_number(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        raise BayeslawError(f"{name} must be a whole number of at least {least}, not {value}.", code="not-a-whole-number")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean X?' for the closest known name, or '' where none is close."""
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
