"""Numbers and tables as text for a terminal."""

from __future__ import annotations

import numpy as np
import pandas as pd

WIDTH = 120  # of a table on a terminal
SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}  # of numbers such as 410M, in either case


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


def compact(value: float, digits: int = 4) -> str:
    """Return a number as `significant` writes it, without zeros that carry no information: 8.1e9, 0.25."""
    mantissa, sign, exponent = significant(value, digits).partition("e")
    if sign:
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    short = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return short if float(short) == value else mantissa


def plain(table: pd.DataFrame) -> str:
    """Return a table as text, with numbers to four significant figures; one wider than `WIDTH` goes on below itself."""

    def shown(value: object) -> str:
        if isinstance(value, (bool, np.bool_)):
            return "yes" if value else "no"
        return significant(float(value)) if isinstance(value, (int, float, np.number)) else str(value)

    texts, index = table.map(shown), not isinstance(table.index, pd.RangeIndex)
    whole = texts.to_string(index=index)
    if len(whole.partition("\n")[0]) <= WIDTH:
        return whole
    return "\n".join(line.removesuffix("\\").rstrip() for line in texts.to_string(index=index, line_width=WIDTH).splitlines())


def with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the two ends of each interval in one column, to save width: run_eti90 [2.41, 2.53]."""
    columns = {}
    for name, values in table.items():
        if str(name).endswith("_lb"):
            high = table[str(name).removesuffix("_lb") + "_ub"]
            both = [f"[{significant(a)}, {significant(b)}]" for a, b in zip(values, high, strict=True)]
            columns[str(name).removesuffix("_lb")] = pd.Series(both, index=table.index)
        elif not str(name).endswith("_ub"):
            columns[str(name)] = values
    return pd.DataFrame(columns)
