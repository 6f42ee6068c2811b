"""Tables as text: for a terminal, for a paper, and onto disk without ever leaving half a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.intervals import interval_names
from bayeslaw.core.units import NATS
from bayeslaw.laws.formula import latex_text
from bayeslaw.noise.noise import MEANING, kind
from bayeslaw.posterior.fit import Fit


def significant(value: float, digits: int = 4) -> str:
    """A number to a few significant figures, without an exponent where that is readable."""
    if not np.isfinite(value):
        return "-" if np.isnan(value) else str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding: 0.99996 is 1.000
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def plain(table: pd.DataFrame) -> str:
    """A table for a terminal, numbers to four significant figures."""

    def shown_as(value: object) -> str:
        if isinstance(value, (bool, np.bool_)):
            return "yes" if value else "no"
        return significant(float(value)) if isinstance(value, (int, float, np.number)) else str(value)

    shown = table.map(shown_as)
    return shown.to_string(index=not isinstance(table.index, pd.RangeIndex))


def with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the two ends of each interval in one column: run_eti90 [2.41, 2.53]. For a terminal's width."""
    columns = {}
    for name, values in table.items():
        if str(name).endswith("_lo"):
            high = table[str(name).removesuffix("_lo") + "_hi"]
            both = [f"[{significant(a)}, {significant(b)}]" for a, b in zip(values, high, strict=True)]
            columns[str(name).removesuffix("_lo")] = pd.Series(both, index=table.index)
        elif not str(name).endswith("_hi"):
            columns[str(name)] = values
    return pd.DataFrame(columns)


def described(fit: Fit, name: str) -> tuple[str, str]:
    """What a parameter of law or noise means, and its LaTeX symbol; both name the group where each group has its own."""
    if name in fit.law.parameters:
        return fit.law.parameters[name].meaning, fit.law.parameters[name].latex
    meaning, symbol = MEANING[kind(name)]
    if name == kind(name):
        return meaning, symbol
    group = name.partition("[")[2].removesuffix("]")
    return f"{meaning}: {fit.observed.group_column} {group}", rf"{symbol}^{{(\text{{{latex_text(group)}}})}}"


def parameter_unit(fit: Fit, name: str) -> str:
    """The unit of a parameter of law or noise: a card's is for losses in nats/token."""
    own = fit.law.parameters.get(name)
    return own.unit.replace(NATS, fit.observed.unit) if own else ""


def parameters_latex(fit: Fit, ci_prob: float = 0.9) -> str:
    """Parameters with their interval as a LaTeX table, two significant figures of the interval's half width.

    Where checks of the fit failed every interval has a mark, which the last line explains.
    """
    low, high = interval_names("eti", ci_prob)
    rows, mark = [], "" if fit.passed else r"^{\dagger}"
    for name, row in fit.summary(ci_prob).iterrows():
        meaning, symbol = described(fit, str(name))
        width = (row[high] - row[low]) / 2
        decimals = max(0, 1 - int(np.floor(np.log10(width)))) if width > 0 else 4
        median, lower, upper = (f"{row[c]:.{decimals}f}" for c in ("median", low, high))
        rows.append(rf"${symbol}$ & {latex_text(meaning)} & ${median}$ & $[{lower}, {upper}]{mark}$ \\")
    lines = [
        r"\begin{tabular}{llrr}",
        r"\hline",
        rf" & & median & {ci_prob * 100:g}\% equal-tailed interval \\",
        r"\hline",
        *rows,
        r"\hline",
        *([] if fit.passed else [r"\multicolumn{4}{l}{$^{\dagger}$ Checks of this fit FAILED: not to be trusted.} \\"]),
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def compact(value: float, digits: int = 4) -> str:
    """A number as `significant` writes it, but very large and very small ones as 8.1e9 and 0.25 as it is."""
    mantissa, sign, exponent = significant(value, digits).partition("e")
    if sign:
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    short = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return short if float(short) == value else mantissa


def check_target(path: Path, what: str, *endings: str) -> None:
    """Refuse a path that `what` can't be written to, before any work is done for it."""
    if path.suffix.lower() not in endings:
        raise BayeslawError(f"{what} is written to a file ending in {' or '.join(endings)}, not {path.name}.")
    if not path.parent.is_dir():
        raise BayeslawError(f"There is no folder {path.parent} to write {path.name} into.")
    if path.is_dir():
        raise BayeslawError(f"{path} is a folder, not a file to write {what.lower()} to.")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` write to a temporary name beside `path`, then rename: an older file stays whole until then."""
    if not path.parent.is_dir():
        raise BayeslawError(f"There is no folder {path.parent} to write {path.name} into.")
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        raise BayeslawError(f"{path} can't be written: {error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
