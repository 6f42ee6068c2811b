"""Errors that say what was given, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any


class BayeslawError(ValueError):
    """An input can't be used; the message says what was given, what was expected and what to do.

    Attributes
    ----------
    code : str
        Names the cause for programs: words joined by hyphens. Messages may be reworded, codes stay.

    Examples
    --------
    >>> try:
    ...     bayeslaw.core.stage_flops(0, 1e9)
    ... except bayeslaw.BayeslawError as error:
    ...     print(error.code)
    not-positive
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class CardError(BayeslawError):
    """A law card can't be used.

    Attributes
    ----------
    faults : tuple of BayeslawError
        All faults of the card, each with its code, in the order in which they were found; the error has the code of the first.

    Examples
    --------
    >>> try:
    ...     bayeslaw.load_law("chinchila")
    ... except bayeslaw.core.CardError as error:
    ...     print(error.code)
    unknown-law
    """

    def __init__(self, message: str, *, code: str = "", faults: Sequence[BayeslawError] = ()) -> None:
        super().__init__(message, code=code)
        self.faults = tuple(faults)


class FitError(BayeslawError):
    """A fit can't be made, read or used.

    Examples
    --------
    >>> issubclass(bayeslaw.core.FitError, bayeslaw.BayeslawError)
    True
    """


class StoppedError(FitError):
    """Ctrl-C ended a fit before it had any draws to keep."""


@dataclass(frozen=True)
class Fault:
    """One fault of a table.

    Attributes
    ----------
    row : int or None
        Data row, counted from 1 below the header; None for a fault of the whole column or table.
    column, value : str
    problem, suggestion, code : str
        What is wrong, what probably puts it right (may be empty), and the code for programs, as in `BayeslawError`.

    Examples
    --------
    >>> print(bayeslaw.core.Fault(3, "loss", "-1", "loss -1 is not positive", "remove the row"))
    loss -1 is not positive: remove the row (row 3, column loss)
    """

    row: int | None
    column: str
    value: str
    problem: str
    suggestion: str = ""
    code: str = ""

    def __str__(self) -> str:
        where = ", ".join([f"row {self.row}"] * (self.row is not None) + [f"column {self.column}"] * (self.column != ""))
        asks, suggestion = self.problem.endswith("?"), self.suggestion
        after = f" {suggestion[:1].upper()}{suggestion[1:]}" if asks and suggestion else f": {suggestion}" if suggestion else ""
        return f"{self.problem}{after}" + (f" ({where})" if where else "")


class TableError(BayeslawError):
    """A table of runs can't be used; `faults` lists every reason.

    Its code is 'faulty-table', or that of its only fault where this is of the table as a whole, such as 'mixed-domains'.

    Examples
    --------
    >>> try:
    ...     bayeslaw.read_runs(pd.DataFrame({"loss": [0.9, 2.4], "unit": ["bits/byte", "nats/token"]}))
    ... except bayeslaw.TableError as error:
    ...     [fault.row for fault in error.faults]
    [2]
    """

    SHOWN = 3  # lines of faults, so that the message has five at most

    def __init__(self, faults: Iterable[Fault], table: str = "the table") -> None:
        self.faults, self.table = list(faults), table
        count, shown = len(self.faults), grouped(self.faults, 1)
        shown = shown if len(shown) == 1 else grouped(self.faults, 2)
        if len(shown) == 1:
            lines = [f"{table}: {shown[0]}"]
            lines += ["  (rows are counted from 1 below the header)"] * any(fault.row for fault in self.faults)
        else:
            lines = [f"{table} has {count} faults (rows are counted from 1 below the header):"]
            lines += [f"  {line}" for line in shown[: self.SHOWN]]
        if len(shown) > self.SHOWN:
            lines.append(f"  … and {len(shown) - self.SHOWN} more; the error's `faults` lists them all")
        whole = count == 1 and self.faults[0].row is None and not self.faults[0].column
        super().__init__("\n".join(lines), code=self.faults[0].code if whole else "faulty-table")


def by_row(faults: Iterable[Fault], unread: Iterable[Fault]) -> list[Fault]:
    """Return the faults of a table in the order of rows, those of whole columns first.

    Parameters
    ----------
    faults, unread : iterables of Fault
        The second are of cells that could not be read: such a cell has no other fault.
    """
    by_cell = {(fault.row, fault.column): fault for fault in unread}
    every = [*by_cell.values(), *(fault for fault in faults if (fault.row, fault.column) not in by_cell)]
    return sorted(every, key=lambda fault: (fault.row is not None, fault.row or 0))


def grouped(faults: Sequence[Fault], most: int = 5) -> list[str]:
    """Return a line for each fault; of more than `most` with one cause in one column, the first and the rows of the others.

    Missing columns with one suggestion for all are one line.
    """
    alike: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        alone = fault.suggestion if fault.code == "missing-column" else str(fault)
        alike.setdefault((fault.column, fault.code) if fault.row is not None else ("", alone), []).append(fault)
    lines = list[str]()
    for group in alike.values():
        if group[0].code == "missing-column":
            names = list(dict.fromkeys(f.column for f in group))
            problem = f"columns {', '.join(names)} are missing" if len(names) > 1 else group[0].problem
            lines.append(f"{problem}: {group[0].suggestion}")
        elif len(group) <= most:
            lines += map(str, group)
        else:
            others = row_ranges(fault.row for fault in group[1:] if fault.row is not None)
            lines.append(f"{group[0]}, and {len(group) - 1} like it: {others}")
    return lines


def shortened(text: object, most: int = 60) -> str:
    """Return a text for an error message: a text of more than `most` characters loses its middle."""
    shown = str(text)
    return shown if len(shown) <= most else f"{shown[: most - 12]} … {shown[-8:]}"


def shown(value: object) -> str:
    """Return what was given for an error message: a table or a column of one by its type, all else as Python writes it."""
    return kind_of(value) if type(value).__name__ in ("DataFrame", "Series") else shortened(repr(value))


def kind_of(value: object) -> str:
    """Return the type of what was given with its article, for an error message.

    Examples
    --------
    >>> kind_of(3), kind_of("x")
    ('an int', 'a str')
    """
    kind = type(value).__name__
    return f"{'an' if kind.lower().startswith((*'aeiou', 'nd')) else 'a'} {kind}"


def row_ranges(rows: Iterable[int]) -> str:
    """Return numbers of rows as text, each once, neighbours in one range: 'rows 1–40, 52, 60–63'; of many, the first six."""
    parts: list[list[int]] = []
    for row in sorted(set(map(int, rows))):
        if parts and row == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], row]
        else:
            parts.append([row])
    shown = ", ".join("–".join(map(str, part)) for part in parts[:6]) + (", …" if len(parts) > 6 else "")
    return f"row{'s' * (shown != str(parts[0][0]))} {shown}"


MOST = 2**63 - 1  # largest whole number that arrays hold


def whole_number(name: str, value: object, least: int, most: int = MOST) -> int:
    """Return a whole number from `least` to `most`, also one from an array without dimensions.

    Other values are refused, truth values too: `bootstrap=True` would be one resample.

    Parameters
    ----------
    name, value, least, most : str, object, int, int
        The error calls the value by its name.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # arrays of NumPy and others
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        given = repr(value) if isinstance(value, str) else value
        raise BayeslawError(f"{name} must be a whole number of at least {least}, not {given}.", code="not-a-whole-number")
    if int(value) > most:
        given = shortened(value) if int(value) < 10**1000 else "a number of more than 1,000 digits"  # Python refuses to write more
        raise BayeslawError(f"{name} must be a whole number of at most {most:,}, not {given}.", code="too-large-a-number")
    return int(value)


CROSSED = "{'N': 1e9, 'D': '1e9:1e11:3'}, whose values are crossed"


def as_mapping(given: Any, example: str = CROSSED, what: str = "Settings") -> dict[str, Any]:
    """Return a mapping whose keys are texts, an empty one for None; tables and lists are refused.

    Parameters
    ----------
    given : mapping or None
    example, what : str
        A mapping, and what is given by it, for the error.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BayeslawError(f"{what} are a mapping, such as {example}, not {shown(given)}.", code="not-a-mapping")
    if wrong := [key for key in given if not isinstance(key, str)]:
        raise BayeslawError(f"{what} are a mapping by name, such as {example}; {wrong[0]!r} is no text.", code="not-a-mapping")
    return dict(given)


def nearest(name: object, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return ' Did you mean X?' for the closest known name, or ''.

    Parameters
    ----------
    name, known, cutoff
        What was given, the known names, and the least similarity of the two (0 to 1).
    """
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=cutoff)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
