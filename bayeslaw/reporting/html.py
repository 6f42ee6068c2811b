"""The page of a report: one HTML file that loads nothing from the network and runs no scripts."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from bayeslaw.core.text import compact

MOST_ROWS = 200  # largest number of rows that a table has on the page; JSON has all rows
_INTERVAL = re.compile(r"^(?P<head>.*?)_?(?P<kind>eti|hdi)(?P<prob>[\d.]+)_lb$")
_KINDS = {"eti": "equal-tailed interval", "hdi": "highest-density interval"}


def page(facts: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """Return the page of the facts of a report and its pictures, SVG files by name."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bayeslaw.reporting"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"shown": shown, "cells": cells}
    images = {name: "data:image/svg+xml;base64," + base64.b64encode(data).decode() for name, data in pictures.items()}
    return environment.get_template("report.html").render(facts=facts, images=images, most=MOST_ROWS)


def shown(value: object) -> str:
    """Return a value as the page shows it: numbers to four significant figures, '-' for missing numbers."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return compact(float(value)) if isinstance(value, (int, float)) else str(value)


def header(column: str) -> str:
    """Return the name of a column in words: 'run 90% equal-tailed interval' for run_eti90_lb."""
    if found := _INTERVAL.match(column):
        return f"{found['head'].replace('_', ' ')} {found['prob']}% {_KINDS[found['kind']]}".strip()
    return column.replace("_", " ")


def cells(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the heads of a table and its rows of (text, whether it is a number), with both ends of an interval in one cell."""
    place = {name: i for i, name in enumerate(table["columns"])}
    names = [n for n in table["shown"] if not (n.endswith("_ub") and f"{n[:-2]}lb" in place)]
    rows = []
    for row in table["rows"][:MOST_ROWS]:
        line = []
        for name in names:
            value, other = row[place[name]], place.get(f"{name[:-2]}ub") if name.endswith("_lb") else None
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            text = shown(value) if other is None else f"[{shown(value)}, {shown(row[other])}]"
            line.append((text, number or value is None))
        rows.append(line)
    return {"heads": [header(name) for name in names], "rows": rows, "left": max(0, len(table["rows"]) - MOST_ROWS)}
