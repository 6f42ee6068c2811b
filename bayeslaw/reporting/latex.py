"""LaTeX files of a report: tables with values to two significant figures of their uncertainty, the methods text, and a document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslaw.core.intervals import interval_names
from bayeslaw.laws.formula import latex_text
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.parameters import describe_parameter
from bayeslaw.reporting.html import MOST_ROWS, header, shown

LONG, WIDTH = 50, "7cm"  # characters of a text from which on its column has this width
LARGE, SMALL = 1e5, 1e-3  # from which on a power of ten is taken out
FAILED = r"\multicolumn{%d}{l}{$^{\dagger}$ Checks FAILED: not to be trusted.} \\"


def uncertain(value: float, low: float, high: float) -> str:
    """A value with what its interval reaches up and down, to two significant figures of the smaller, as a LaTeX formula."""
    power = math.floor(math.log10(abs(value))) if value and not SMALL <= abs(value) < LARGE else 0
    value, low, high = (v / 10.0**power for v in (value, low, high))
    up, down = high - value, value - low
    sizes = [v for v in (up, down) if v > 0]
    decimals = 1 - int(f"{min(sizes):.1e}".partition("e")[2]) if sizes else 4
    middle, more, less = (f"{round(v, decimals):.{max(decimals, 0)}f}" for v in (value, up, down))
    text = rf"{middle}^{{+{more}}}_{{-{less}}}"
    return rf"${text}$" if not power else rf"$({text}) \times 10^{{{power}}}$"


def cell(value: object) -> str:
    """A cell in LaTeX: numbers to four significant figures, texts with special characters as themselves."""
    text = shown(value)
    if value is None or isinstance(value, (bool, str)):
        return latex_text(text)
    mantissa, sign, power = text.partition("e")
    return rf"${mantissa} \times 10^{{{power}}}$" if sign else f"${text}$"


def tabular(table: Mapping[str, Any], hidden: tuple[str, ...] = (), symbols: bool = False) -> str:
    """A table in LaTeX: a median and the interval of the same kind beside it are one column, value ± to two significant figures.

    Parameters
    ----------
    hidden : tuple of str
        Columns to leave out besides those that the page leaves out.
    symbols : bool
        Whether the column `latex` has the symbol for the first column.
    """
    place = {name: i for i, name in enumerate(table["columns"])}
    names = [n for n in table["shown"] if n not in hidden]
    pairs = {n: n[:-2] + "hi" for n in names if n.endswith("_lo") and n[:-2] + "hi" in place}
    # run_eti90_lo belongs to run_median, eti90_lo to median; an interval without a median stands by itself.
    middles = {low: low[: low.rindex("eti")] + "median" for low in pairs if "eti" in low}
    middles = {low: name for low, name in middles.items() if name in place}
    columns = [n for n in names if n not in pairs.values() and n not in middles.values()]
    failed = "checks" in place and any(str(row[place["checks"]]).startswith("FAILED") for row in table["rows"])
    mark = r"$^{\dagger}$" if failed else ""

    def text(row: list[Any], name: str) -> str:
        if name in pairs:
            low, high = row[place[name]], row[place[pairs[name]]]
            middle = row[place[middles[name]]] if name in middles else None
            if low is not None and high is not None and middle is not None:
                return uncertain(middle, low, high) + mark
            return f"[{cell(low)}, {cell(high)}]{mark}"
        if symbols and name == columns[0]:
            return f"${row[place['latex']]}$"
        return cell(row[place[name]])

    heads = [latex_text((f"{header(middles[n])}, " if n in middles else "") + header(n)) for n in columns]
    align = []
    for name in columns:
        values = [row[place[name]] for row in table["rows"]]
        long = any(isinstance(v, str) and len(v) > LONG for v in values)
        align.append(f"p{{{WIDTH}}}" if long else "r" if any(isinstance(v, (int, float)) for v in values) else "l")
    lines = [
        rf"\begin{{tabular}}{{{''.join(align)}}}",
        r"\hline",
        " & ".join(heads) + r" \\",
        r"\hline",
    ]
    lines += [" & ".join(text(row, n) for n in columns) + r" \\" for row in table["rows"][:MOST_ROWS]]
    if (left := len(table["rows"]) - MOST_ROWS) > 0:
        lines.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{{left} more rows in the JSON file}} \\")
    lines += [r"\hline", *([FAILED % len(columns)] if failed else []), r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def files(facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Tables and texts by file name, and report.tex, which shows them and the pictures."""
    made: dict[str, str] = {}
    shows: list[tuple[str, str]] = []

    def add(name: str, caption: str, text: str) -> None:
        made[f"{name}.tex"] = text
        shows.append((name, caption))

    for number, fit in enumerate(facts["fits"], 1):
        of = f" of {fit['label']}"
        add(f"fit{number}-data", fit["data"]["ranges"]["caption"] + of, tabular(fit["data"]["ranges"]))
        add(f"fit{number}-checks", fit["checks"]["caption"] + of, tabular(fit["checks"]))
        hidden = ("checks", *(c for c in fit["parameters"]["columns"] if c.startswith("prior_")))
        said = f"{fit['parameters']['caption']}{of}: medians and {facts['interval']}s"
        add(f"fit{number}-parameters", said, tabular(fit["parameters"], hidden, symbols=True))
    for number, one in enumerate(facts["forecasts"], 1):
        if one["table"]:
            add(f"forecast{number}-table", one["table"]["caption"], tabular(one["table"], ("checks",)))
    for number, one in enumerate(facts["comparison"]["tables"], 1):
        add(f"comparison{number}-table", one["caption"], tabular(one))
    for name in ("anchors", "plan"):
        if facts[name]:
            add(f"{name}-table", facts[name]["table"]["caption"], tabular(facts[name]["table"]))
    made["methods.tex"] = "\n\n".join(fit["methods"]["latex"] for fit in facts["fits"]) + "\n"
    made["report.tex"] = _document(facts, shows)
    return {name: text.encode() for name, text in made.items()}


def _document(facts: Mapping[str, Any], shows: list[tuple[str, str]]) -> str:
    """A document that inputs every table and picture, to be compiled as it is or taken apart."""
    lines = [
        r"\documentclass{article}", r"\usepackage[utf8]{inputenc}", r"\usepackage[T1]{fontenc}",
        r"\usepackage{amsmath,amssymb,textcomp,graphicx}", r"\usepackage[margin=2cm]{geometry}", r"\setlength{\parindent}{0pt}",
        r"\newcommand{\fitted}[1]{\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{#1}}",
        r"\begin{document}", rf"\section*{{{latex_text(facts['title'])}}}", r"\input{methods.tex}",
    ]  # fmt: skip
    lines += [rf"\par\bigskip \textbf{{{latex_text(said)}}}\\[1ex] \fitted{{\input{{{name}.tex}}}}" + "\n" for name, said in shows]
    for name, one in facts["figures"].items():
        lines.append(rf"\par\bigskip \includegraphics[width=.9\linewidth]{{{name}.pdf}}\\ {latex_text(one['caption'])}" + "\n")
    return "\n".join([*lines, r"\end{document}"]) + "\n"


def parameters_latex(fit: Fit, ci_prob: float = 0.9) -> str:
    """Parameters with their interval as a LaTeX table, two significant figures of the interval's half width.

    Where checks of the fit failed every interval has a mark, which the last line explains.
    """
    low, high = interval_names("eti", ci_prob)
    rows, mark = [], "" if fit.passed else r"^{\dagger}"
    for name, row in fit.summary(ci_prob).iterrows():
        meaning, symbol = describe_parameter(fit, str(name))
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
