"""Numbers and tables as text for a terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

REPR = 80  # of the lines in which Python shows an object
WIDTH = 120  # of a table in a file or a pipe, where nobody can see how wide it may be
NARROWEST = 40  # a terminal that says that it is narrower is taken for this wide
FEW = 4  # rows that are printed vertically where they are too wide: more rows are easier to compare in a table
SIDE_BY_SIDE = 24  # a text is broken to this many characters, and to no fewer, to make room for others beside it
KEYS = 3  # most columns that are repeated in each part of a folded table to tell its rows apart
SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}  # of numbers such as 410M, in either case


def short_lines(text: str) -> str:
    """Return a text for `repr` in lines of at most 80 characters, of which the second and later ones are indented."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return textwrap.fill(printable, REPR, subsequent_indent="  ", break_on_hyphens=False)


def terminal_width() -> int | None:
    """Return the columns of COLUMNS or of the terminal; None where standard output is a file or a pipe and COLUMNS is not set."""
    columns = shutil.get_terminal_size((0, 0)).columns
    return max(columns, NARROWEST) if columns else None


def number(text: str) -> float:
    """Return the number that a text writes, such as '8.1e9', '410M' or '1.4B'; a ValueError if it writes none.

    Examples
    --------
    >>> from bayeslaw.core.text import number
    >>> [number(text) for text in ("8.1e9", "410M", "1.4B")]
    [8100000000.0, 410000000.0, 1400000000.0]
    """
    stripped = text.strip()
    factor = SUFFIXES.get(stripped[-1:].lower(), 1.0)
    plain = stripped if factor == 1 else stripped[:-1]
    if "_" in plain:
        raise ValueError(f"{text!r} has an underscore")
    return float(f"{float(plain) * factor:.15g}") if factor != 1 else float(plain)  # 1.1M is 1100000, not 1100000.0000000001


def percent_hint(given: object) -> str:
    """Return ' Write 0.25 for 25%.' where a text that should be a share has percentages, or ''."""
    match = re.search(r"([0-9.]*[0-9])\s*%", given) if isinstance(given, str) else None
    return f" Write {float(match[1]) / 100:g} for {match[1]}%." if match and match[1].count(".") < 2 else ""


def significant(value: float, digits: int = 4) -> str:
    """Return a number to a few significant figures, without an exponent where that is readable."""
    if not np.isfinite(value):
        return "-" if np.isnan(value) else str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding: 0.99996 is 1.000
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def plural(noun: str) -> str:
    """Return the plural of a noun: rows, losses, accuracies, delays."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as '1 row', '3 rows' or '2 losses'."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return names separated by commas, with … after the first `most`."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def settings_text(settings: Mapping[Any, object], digits: int = 6) -> str:
    """Return settings as text, 'N = 1e+09, domain = web', numbers to some significant figures.

    Parameters
    ----------
    settings, digits : mapping of str to number or text, int
    """
    pairs = [(name, f"{v:.{digits}g}" if isinstance(v, (int, float)) else str(v)) for name, v in settings.items()]
    return ", ".join(f"{name} = {shown}" for name, shown in pairs)


def label_text(value: object) -> str:
    """Return the name that a cell gives to a run, domain or checkpoint: 7 also where pandas made it 7.0, beside an empty cell."""
    whole = isinstance(value, Real) and not isinstance(value, Integral) and float(value).is_integer()
    return str(int(float(value))) if isinstance(value, Real) and whole else str(value)


def exact(value: object) -> str:
    """Return a value as text, numbers as briefly as tells them apart: 1e+07, 20240101.

    Parameters
    ----------
    value : object
        A whole number gives the same text as the float that equals it.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    short = f"{float(value):g}"
    if float(short) == value or value != value:
        return short
    return str(int(value)) if isinstance(value, Integral) else f"{float(value):.17g}"


def write_as_share(value: float) -> str:
    """Return ': write 0.9 for 90%' where a number that should lie between 0 and 1 is a percentage, or ''."""
    return f": write {value / 100:g} for {value:g}%" if 1 < value < 100 else ""


def percent(share: float) -> str:
    """Return a share above 0 as text in percent, with 'fewer than 0.1%' in place of 0.0%."""
    return f"{share:.1%}" if share >= 0.001 else "fewer than 0.1%"


def compact(value: float, digits: int = 4) -> str:
    """Return a number as `significant` writes it, without zeros that carry no information: 8.1e9, 0.25."""
    mantissa, sign, exponent = significant(value, digits).partition("e")
    if sign:
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    short = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return short if float(short) == value else mantissa


def wrapped(text: str, width: int) -> str:
    """Return text with each line broken between words to a width, and its rest indented by two spaces more.

    A line in two columns, as `name  its meaning`, goes on below the second.
    """

    def broken(line: str) -> str:
        margin = len(line) - len(line.lstrip())
        _, gap, rest = line.lstrip().partition("  ")
        second = len(line) - len(rest.lstrip()) if gap else 0
        indent = second if 0 < second <= width // 2 else min(margin, width // 2) + 2
        return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False)

    return "\n".join(line if len(line) <= width else broken(line) for line in text.split("\n"))


def plain(table: pd.DataFrame, width: int | None = None) -> str:
    """Return a table as text of at most some width, with numbers to four significant figures.

    Where it is too wide, up to `FEW` rows are printed vertically, a field a line, side by side as far as they fit. Of more rows the
    values that all of them share are printed once below the table, and its last columns below that, with the columns that tell
    the rows apart. No line is wider than the width, unless a single name or number is.

    Parameters
    ----------
    table : DataFrame
        With its most important columns first. An index that is no plain numbering is the first column.
    width : int, optional
        By default that of the terminal, or `WIDTH` where there is none.

    Examples
    --------
    >>> print(plain(pd.DataFrame({"N": [1e9, 8.1e9], "loss": [2.34567, 2.1]})))
        N   loss
      1e9  2.346
    8.1e9  2.100
    """
    width = width or terminal_width() or WIDTH
    columns = _columns(table)
    if _wide(whole := _joined(columns)) <= width:
        return "\n".join(whole)
    if len(table) <= FEW:
        return "\n\n".join(_vertical(columns, width))
    return "\n".join(_folded(columns, width))


type _Column = list[str]  # the texts of a column, all of one length; its name is the first


def _columns(table: pd.DataFrame) -> list[_Column]:
    """Return the columns of a table, numbers flush right and texts flush left."""
    if not isinstance(table.index, pd.RangeIndex):
        table = table.reset_index(names=["" if name is None else str(name) for name in table.index.names], allow_duplicates=True)
    columns = []
    for place, name in enumerate(table):
        values = list(table.iloc[:, place])
        numbers = [v for v in values if isinstance(v, (int, float, np.number)) and not isinstance(v, (bool, np.bool_))]
        # Where no figure is lost, as in settings, numbers have no zeros that carry no information.
        exact = all(float(compact(float(v))) == v for v in numbers if np.isfinite(v))
        texts = [_shown(v, exact=exact) for v in values]
        longest = max(map(len, (str(name), *texts)), default=0)
        right = bool(numbers) or not any(isinstance(v, str) for v in values)
        columns.append([text.rjust(longest) if right else text.ljust(longest) for text in (str(name), *texts)])
    return columns


def _shown(value: object, *, exact: bool) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, float, np.number)):
        return (compact if exact and np.isfinite(value) else significant)(float(value))
    return "-" if value is None or value is pd.NA or value is pd.NaT else " ".join(str(value).split("\n"))


def _wide(lines: Sequence[str]) -> int:
    return max(map(len, lines), default=0)


def _vertical(columns: Sequence[_Column], width: int) -> list[str]:
    """Return blocks of lines, one field a line, each with as many rows side by side as fit; long texts are broken between words."""
    names = [column[0].strip() for column in columns]
    label, rows = max(map(len, names)), [list(row) for row in zip(*(column[1:] for column in columns), strict=True)]
    most = max((width - label) // len(rows) - 2, SIDE_BY_SIDE)
    cells = [[textwrap.wrap(text.strip(), most, break_on_hyphens=False) or [""] for text in row] for row in rows]
    widths = [_wide([line for cell in row for line in cell]) for row in cells]
    texts, begin = [], 0
    while begin < len(rows):
        end = begin + 1
        while end < len(rows) and label + sum(2 + w for w in widths[begin : end + 1]) <= width:
            end += 1
        lines = []
        for field, name in enumerate(names):
            beside = [_filled(row[field], w) for row, w in zip(cells[begin:end], widths[begin:end], strict=True)]
            lines += _joined([_filled([name], label), *beside])
        texts.append("\n".join(lines))
        begin = end
    return texts


def _joined(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of columns of text side by side; short columns end with empty cells."""
    blank = [" " * _wide(column) for column in columns]
    height = max(map(len, columns), default=0)
    padded = [[*column, *[empty] * (height - len(column))] for column, empty in zip(columns, blank, strict=True)]
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


def _filled(lines: Sequence[str], width: int) -> list[str]:
    return [line.ljust(width) for line in lines]


def _folded(columns: Sequence[_Column], width: int) -> list[str]:
    """Return the lines of a table with its first columns, and below it what all rows share and the columns that did not fit."""
    same = [f"{column[0].strip()} {column[1].strip()}" for column in columns if len(set(column[1:])) == 1]
    below = [wrapped(f"in all rows: {', '.join(same)}", width)] if same else []
    columns = [column for column in columns if len(set(column[1:])) > 1]
    keys = _keys(columns, width)
    rest = [column for column in columns if not any(column is key for key in keys)]
    lines: list[str] = []
    while rest or not lines:
        fit = list(keys)
        while rest and _wide(_joined([*fit, rest[0]])) <= width:
            fit.append(rest.pop(0))
        if lines:
            lines.append("")
        if len(fit) > len(keys) or not rest:
            lines += _joined(fit)
        else:
            lines += _in_lines(keys, rest.pop(0), width)
        if below:
            lines, below = [*lines, *below], []
    return lines


def _keys(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Return the first columns that tell all rows apart, or the numbers of the rows where few columns don't."""
    rows = len(columns[0]) - 1 if columns else 0
    for count in range(1, min(KEYS, len(columns)) + 1):
        some = list(columns[:count])
        if len(set(_joined(some)[1:])) == rows and _wide(_joined(some)) <= width // 2:
            return some
    numbers = [str(row) for row in range(1, rows + 1)]
    return [[text.rjust(max(3, len(str(rows)))) for text in ("row", *numbers)]]


def _in_lines(keys: Sequence[_Column], column: _Column, width: int) -> list[str]:
    """Return the long texts of a column, each broken between words beside what tells its row apart."""
    heads = _joined(keys)
    first = _wide(heads)
    most = max(width - first - 2, SIDE_BY_SIDE)
    lines = []
    for head, text in zip(heads, column, strict=True):
        lines += _joined([[head.ljust(first)], textwrap.wrap(text.strip(), most, break_on_hyphens=False) or [""]])
    return lines


def once(notes: Iterable[str]) -> list[str]:
    """Return notes without repetitions; `a: text` and `b: text`, which differ in whom they are about, become `a, b: text`.

    Examples
    --------
    >>> once(["first: too few draws", "second: too few draws", "the same", "the same"])
    ['first, second: too few draws', 'the same']
    """
    about: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        name, colon, text = note.partition(": ")
        about.setdefault(text if colon else note, []).append(name if colon else "")
    return [f"{', '.join(filter(None, names))}: {text}" if any(names) else text for text, names in about.items()]


def with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the two ends of each interval in one column, to save width: run_eti90 [2.41, 2.53].

    Ends stay apart where the table has a column of the name that theirs would have.
    """
    columns, names = {}, {*map(str, table)}
    for column, values in table.items():
        name, _, end = str(column).rpartition("_")
        if name in names or not {f"{name}_lb", f"{name}_ub"} <= names:
            columns[str(column)] = values
        elif end == "lb":
            both = [f"[{significant(a)}, {significant(b)}]" for a, b in zip(values, table[f"{name}_ub"], strict=True)]
            columns[name] = pd.Series(both, index=table.index)
        elif end != "ub":
            columns[str(column)] = values
    return pd.DataFrame(columns)
