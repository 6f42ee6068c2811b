"""LaTeX files of a report: tables with values to two significant figures of their uncertainty, the methods text, and a document."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from bayeslaw.core.html import header, shown
from bayeslaw.core.intervals import interval_names
from bayeslaw.laws.formula import latex_text
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.parameters import describe_parameter, parameter_unit
from bayeslaw.reporting.html import MOST_ROWS

LONG, WIDTH = 50, "7cm"  # a column whose texts have more characters than LONG has this width
LARGE, SMALL = 1e5, 1e-3  # values outside this range are written with a power of ten
OWN = "% Written by bayeslaw, which replaces this file when the report is made again; delete this line to keep the file.\n"
FAILED = r"$^{\dagger}$ Sampling of this fit FAILED: not to be trusted."


def uncertain(value: float, low: float, high: float) -> str:
    """Return a value with the distances to the ends of its interval, to two significant figures of the smaller, as a formula.

    Parameters
    ----------
    value, low, high : float
        The median and the ends of its interval.
    """
    power = math.floor(math.log10(abs(value))) if value and not SMALL <= abs(value) < LARGE else 0
    value, low, high = (v / 10.0**power for v in (value, low, high))
    up, down = high - value, value - low
    decimals = _decimals(up, down)
    middle, more, less = (f"{round(v, decimals):.{max(decimals, 0)}f}" for v in (value, up, down))
    text = rf"{middle}^{{+{more}}}_{{-{less}}}"
    return rf"${text}$" if not power else rf"$({text}) \times 10^{{{power}}}$"


def _decimals(up: float, down: float) -> int:
    """Return the decimals of two significant figures of the smaller distance to an end of an interval."""
    sizes = [v for v in (up, down) if v > 0]
    return 1 - int(f"{min(sizes):.1e}".partition("e")[2]) if sizes else 4


def cell(value: object) -> str:
    """Return a cell in LaTeX: numbers to four significant figures, texts with their special characters escaped."""
    text = shown(value)
    if value is None or isinstance(value, (bool, str)):
        return latex_text(text)
    mantissa, sign, power = text.partition("e")
    return rf"${mantissa} \times 10^{{{power}}}$" if sign else f"${text}$"


def tabular(table: Mapping[str, Any], hidden: tuple[str, ...] = (), symbols: bool = False) -> str:
    """Return a table in LaTeX, with a median and its interval in one column, to two significant figures of the interval.

    Parameters
    ----------
    table, hidden
        A result of `facts.table`, and columns to leave out besides those that the page leaves out.
    symbols : bool
        Whether the column `latex` has the symbol for the first column.
    """
    frame = pd.DataFrame(table["rows"], columns=table["columns"], dtype=object)
    names = [name for name in table["shown"] if name not in hidden]
    highs = {name: f"{name[:-2]}ub" for name in names if name.endswith("_lb") and f"{name[:-2]}ub" in frame}
    # run_eti90_lb belongs to run_median, eti90_lb to median; an interval without a median has a column of its own.
    medians = {low: re.sub(r"eti[\d.]+_lb$", "median", low) for low in highs}
    medians = {low: name for low, name in medians.items() if name != low and name in frame}
    verdicts = frame[[name for name in frame if name in ("checks", "forecast_checks")]]
    failed = any(str(text).startswith("FAILED") for text in verdicts.to_numpy().flat)
    mark = r"$^{\dagger}$" if failed else ""

    def interval(low: float | None, high: float | None, median: float | None = None) -> str:
        if low is not None and high is not None and median is not None:
            return uncertain(median, low, high) + mark
        return f"[{cell(low)}, {cell(high)}]{mark}"

    heads, columns, align = [], [], ""
    for name in names:
        if name in highs.values() or name in medians.values():
            continue
        values = list(frame[name][:MOST_ROWS])
        if name in highs:
            ends = [values, frame[highs[name]], *([frame[medians[name]]] if name in medians else [])]
            columns.append([interval(*row) for row in zip(*ends, strict=False)])
        else:
            columns.append(
                [f"${v}$" for v in frame["latex"][:MOST_ROWS]] if symbols and name == names[0] else [cell(v) for v in values]
            )
        heads.append(latex_text((f"{header(medians[name])}, " if name in medians else "") + header(name, frame.columns)))
        long = any(isinstance(v, str) and len(v) > LONG for v in values)
        align += f"p{{{WIDTH}}}" if long else "r" if any(isinstance(v, (int, float)) for v in values) else "l"
    notes = [f"{len(frame) - MOST_ROWS} more rows are in the JSON file."] if len(frame) > MOST_ROWS else []
    return _tabular(heads, columns, align, [*notes, *([FAILED] if failed else [])])


def _tabular(heads: list[str], columns: list[list[str]], align: str, notes: list[str]) -> str:
    """Return columns of LaTeX cells as a tabular environment, with notes below the last rule."""
    frame = pd.DataFrame(dict(enumerate(columns))).set_axis(heads, axis=1)
    text = frame.style.hide(axis="index").to_latex(column_format=align, hrules=True)
    last = "".join(rf"\multicolumn{{{len(heads)}}}{{l}}{{{note}}} \\" + "\n" for note in notes)
    return text.replace(r"\end{tabular}", last + r"\end{tabular}")


def parameters_latex(fit: Fit, ci_prob: float = 0.9) -> str:
    """Return parameters with their units and intervals as a LaTeX table, with digits as in `uncertain`.

    By those of the half width the lower end of a skewed interval, such as [64, 2400], would be rounded to 100.

    If checks of the fit failed, every interval has a mark, which a note explains. The table needs the package booktabs.
    """
    low, high = interval_names("eti", ci_prob)
    rows, mark = list[tuple[str, ...]](), "" if fit.passed else r"^{\dagger}"
    for name, row in fit.summary(ci_prob).iterrows():
        meaning, symbol = describe_parameter(fit, str(name))
        decimals = _decimals(row[high] - row["median"], row["median"] - row[low])
        median, lower, upper = (f"{round(row[c], decimals):.{max(decimals, 0)}f}" for c in ("median", low, high))
        unit = latex_text(parameter_unit(fit, str(name)))
        rows.append((f"${symbol}$", latex_text(meaning), unit, f"${median}$", f"$[{lower}, {upper}]{mark}$"))
    columns = [list(texts) for texts in zip(*rows, strict=True)]
    heads = ["parameter", "meaning", "unit", "median", rf"{ci_prob * 100:g}\% equal-tailed interval"]
    return _tabular(heads, columns, "lllrr", [] if fit.passed else [FAILED]).rstrip()


def files(facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Return tables and texts by file name, and report.tex, which shows them and the pictures."""
    tables: dict[str, tuple[str, str]] = {}  # caption and text by name
    for number, fit in enumerate(facts["fits"], 1):
        of, parameters = f" of {fit['label']}", fit["parameters"]
        hidden = ("checks", *(c for c in parameters["columns"] if c.startswith("prior_")))
        caption = f"{parameters['caption']} ({fit['label']}): medians and {facts['interval']}s"
        tables[f"fit{number}-data"] = (fit["data"]["ranges"]["caption"] + of, tabular(fit["data"]["ranges"]))
        tables[f"fit{number}-checks"] = (fit["checks"]["caption"] + of, tabular(fit["checks"]))
        with_units = {**parameters, "shown": [parameters["shown"][0], "unit", *parameters["shown"][1:]]}  # the page hides them
        tables[f"fit{number}-parameters"] = (caption, tabular(with_units, hidden, symbols=True))
    for number, forecast in enumerate(facts["forecasts"], 1):
        if forecast["table"]:
            tables[f"forecast{number}-table"] = (forecast["table"]["caption"], tabular(forecast["table"], ("checks",)))
    for number, table in enumerate(facts["comparison"]["tables"], 1):
        tables[f"comparison{number}-table"] = (table["caption"], tabular(_in_words(table)))
    for name in ("anchors", "plan"):
        if facts[name]:
            tables[f"{name}-table"] = (facts[name]["table"]["caption"], tabular(facts[name]["table"]))
    texts = {f"{name}.tex": text for name, (_, text) in tables.items()}
    texts["methods.tex"] = "\n\n".join(fit["methods"]["latex"] for fit in facts["fits"]) + "\n"
    texts["report.tex"] = _document(facts, {name: caption for name, (caption, _) in tables.items()})
    return {name: (OWN + text).encode() for name, text in texts.items()}


def is_own(data: bytes) -> bool:
    """Whether a file of LaTeX, or a picture as PDF, was written by a report."""
    return data.startswith(OWN.encode()[:20]) or b"/Creator (bayeslaw)" in data


def _in_words(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a table of scores that shows their meanings first, in place of their names; others as they are."""
    if not {"score", "meaning"} <= {*table["shown"]}:
        return table
    return {**table, "shown": ["meaning", *(name for name in table["shown"] if name not in ("score", "meaning"))]}


def _document(facts: Mapping[str, Any], captions: Mapping[str, str]) -> str:
    """Return a document with every table and picture, to be compiled as it is or taken apart."""
    lines = [
        r"\documentclass{article}", r"\usepackage[utf8]{inputenc}", r"\usepackage[T1]{fontenc}",
        r"\usepackage{amsmath,amssymb,booktabs,textcomp,graphicx}", r"\usepackage[margin=2cm]{geometry}",
        r"\setlength{\parindent}{0pt}",
        r"\newcommand{\fitted}[1]{\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{#1}}",
        r"\begin{document}", rf"\section*{{{latex_text(facts['title'])}}}", r"\input{methods.tex}",
    ]  # fmt: skip
    for name, caption in captions.items():
        lines.append(rf"\par\bigskip \textbf{{{latex_text(caption)}}}\\[1ex] \fitted{{\input{{{name}.tex}}}}" + "\n")
    for name, figure in facts["figures"].items():
        lines.append(rf"\par\bigskip \includegraphics[width=.9\linewidth]{{{name}.pdf}}\\ {latex_text(figure['caption'])}" + "\n")
    return "\n".join([*lines, r"\end{document}"]) + "\n"
