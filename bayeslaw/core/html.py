"""Tables as plain values and as cells of a page, and the short pages that notebooks show in place of an object."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import shortened
from bayeslaw.core.text import compact

ROWS, COLUMNS = 12, 12  # of a table in a notebook; the rest is counted
TEXT = 400  # characters of a note in a notebook
CELL, WIDE = 100, 40  # characters of a cell, and of one whose text goes over several lines
NOTES = 6
_INTERVAL = re.compile(r"^(?P<head>.*?)_?(?P<kind>eti|hdi)(?P<prob>[\d.]+)_(?P<end>lb|width)$")
_SCORE = re.compile(r"^(?P<score>cover|width)_(?P<kind>eti|hdi)(?P<prob>[\d.]+)$")
_WORDS = {
    "elpd": "log predictive density", "se": "standard error", "elpd_diff": "difference from the best",
    "dse": "standard error of the difference", "p_loo": "effective number of parameters", "k_max": "largest Pareto k",
    "runs_unsure": "runs not reliably left out", "held_out": "probability on held-out draws",
    "held_out_se": "Monte Carlo error of the probability", "searched": "probability on the draws of the search", "flops": "FLOPs",
    "r_hat": "R-hat", "e_folds": "e-folds", "ess_bulk": "bulk effective sample size", "ess_tail": "tail effective sample size",
}  # fmt: skip
_SCORES = {"cover": "share inside", "width": "mean width of"}
_KINDS = {"eti": "equal-tailed interval", "hdi": "highest-density interval"}
# Colours are the notebook's own, light or dark: rules and frames are a grey that shows on both.
_RULE = "border-bottom:1px solid rgba(128,128,128,.35)"
_ALARM = "border-left:4px solid #d55e00;padding-left:.6em"


# --- tables of pages -------------------------------------------------------------------------------------------------


def table(caption: str, frame: pd.DataFrame, hidden: Sequence[str] = ()) -> dict[str, Any]:
    """Return a table as plain values: rows are lists in the order of `columns`, with None for missing and infinite numbers.

    Parameters
    ----------
    caption, frame, hidden
        The names of all columns are under `columns`. A page leaves out those in `hidden`; the others are under `shown`.
    """
    columns = [str(c) for c in frame]
    rows = [[plain_value(v) for v in row] for row in frame.itertuples(index=False, name=None)]
    return {"caption": caption, "columns": columns, "shown": [c for c in columns if c not in hidden], "rows": rows}


def plain_value(value: object) -> object:
    """Return a cell in a type that JSON has; numbers that are not finite become None."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return None if value is None or value is pd.NA else str(value)


def shown(value: object) -> str:
    """Return a value as a page shows it: numbers to four significant figures, '-' for missing numbers."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return compact(float(value)) if isinstance(value, (int, float)) else str(value)


def header(column: str, table: Container[str] = ()) -> str:
    """Return the name of a column in words: 'run 90% equal-tailed interval' for run_eti90_lb.

    In tables of scores `held_out` names the rows that were held out; in those of plans, with `searched`, it is a probability. Where
    a row is a score and a column a fit, columns are called as the fits are.
    """
    if "score" in table and "meaning" in table:
        return column
    if column == "held_out" and "searched" not in table:
        return "rows held out"
    if interval := _INTERVAL.match(column):
        name = f"{interval['head'].replace('_', ' ')} {interval['prob']}% {_KINDS[interval['kind']]}".strip()
        return f"width of the {name}" if interval["end"] == "width" else name
    if score := _SCORE.match(column):
        return f"{_SCORES[score['score']]} {score['prob']}% {_KINDS[score['kind']]}s"
    return _WORDS.get(column, column.replace("_", " "))


def cells(table: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return the heads of a table and its first rows of (text, whether a number), with both ends of an interval in one cell."""
    place = {name: i for i, name in enumerate(table["columns"])}
    names = [n for n in table["shown"] if not (n.endswith("_ub") and f"{n[:-2]}lb" in place)]
    rows = []
    for row in table["rows"][:most]:
        line = []
        for name in names:
            value, other = row[place[name]], place.get(f"{name[:-2]}ub") if name.endswith("_lb") else None
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            text = shown(value) if other is None else f"[{shown(value)}, {shown(row[other])}]"
            line.append((text, number or value is None))
        rows.append(line)
    return {"heads": [header(name, place) for name in names], "rows": rows, "left": max(0, len(table["rows"]) - most)}


# --- notebooks -------------------------------------------------------------------------------------------------------


def fragment(title: str, about: str, *parts: str) -> str:
    """Return what a notebook shows in place of an object: a title in bold, what it is about, and parts that functions below make.

    It inherits fonts and colours, loads nothing and runs nothing.
    """
    head = f"<div><strong>{_text(title)}</strong> {_text(about)}</div>"
    return f'<div style="max-width:100%;line-height:1.45">\n{head}\n' + "\n".join(filter(None, parts)) + "\n</div>"


def formulas(elements: Iterable[str], label: str = "") -> str:
    """Return formulas, `<math>` elements that a law wrote, one below the other."""
    words = [f"{_text(label)}:" if label else "", "where"]
    lines = [
        f'<div style="display:flex;align-items:center;gap:.6em">{words[i] if i < len(words) else ""}{element}</div>'
        for i, element in enumerate(elements)
    ]
    return f'<div style="overflow-x:auto;padding:.5em 0">{"".join(lines)}</div>'


def paragraph(text: str) -> str:
    """Return a text as a paragraph."""
    return f'<p style="margin:.4em 0">{_text(text)}</p>' if text else ""


def alarm(text: str) -> str:
    """Return a warning that is not to be overlooked."""
    return f'<p style="margin:.4em 0;{_ALARM}"><strong>✗ {_text(text)}</strong></p>'


def verdicts(sampling: str, model: str, of: str = "") -> str:
    """Return the verdicts on sampling and model as paragraphs.

    Parameters
    ----------
    sampling, model, of : str
        The two verdicts of a fit, and its name where there are several.
    """
    name = f"{of}: sampling" if of else "Sampling"
    if sampling.startswith("FAILED"):
        return alarm(f"{name} {sampling}") + paragraph(f"Model: {model}")
    return paragraph(f"{name}: ✓ {sampling}; model: {model}.")


def notes(texts: Iterable[str]) -> str:
    """Return notes, each once; of many, how many were left out."""
    unique = list(dict.fromkeys(texts))
    left = [f"… and {len(unique) - NOTES} more notes"] if len(unique) > NOTES else []
    begun = [text if text.startswith(("note: ", "concern: ")) else f"note: {text}" for text in unique[:NOTES]]
    return "".join(map(paragraph, [*begun, *left]))


def grid(frame: pd.DataFrame, total: int | None = None, caption: str = "") -> str:
    """Return the first rows and columns of a table, with a count of what was left out.

    Parameters
    ----------
    frame, total
        The table, or its first rows, and the number of rows in all.
    caption
        A line above it.
    """
    content = cells(table("", frame), ROWS)
    left, extra = max(total or 0, len(frame)) - len(content["rows"]), content["heads"][COLUMNS:]
    first = content["rows"][0] if content["rows"] else [("", False)] * len(content["heads"])
    heads = "".join(_cell("th", head, number) for head, (_, number) in zip(content["heads"][:COLUMNS], first, strict=False))
    lines = [f'<tr style="{_RULE}">{"".join(_cell("td", *cell) for cell in row[:COLUMNS])}</tr>' for row in content["rows"]]
    counts = [f"{left:,} more rows"] * (left > 0) + [f"{len(extra)} more columns: {', '.join(extra)}"] * bool(extra)
    body = (
        f'<table cellpadding="4" style="border-collapse:collapse;margin:0"><tr style="{_RULE}">{heads}</tr>{"".join(lines)}</table>'
    )
    rest = paragraph(f"… {' and '.join(counts)}") if counts else ""
    return paragraph(caption) + f'<div style="overflow-x:auto;margin:.4em 0">{body}</div>' + rest


def _text(text: str) -> str:
    cut = text if len(text) <= TEXT else text[:TEXT].rpartition(" ")[0] + " …"
    return escape(cut)


def _cell(kind: str, text: str, number: bool) -> str:
    text = shortened(text, CELL)
    space = "min-width:16em" if len(text) > WIDE else "white-space:nowrap"
    return f'<{kind} style="text-align:{"right" if number else "left"};{space}">{escape(text)}</{kind}>'
