"""The page of a report: one HTML file from plain values and pictures, which asks the network for nothing and runs nothing."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from bayeslaw.core.text import compact

MOST_ROWS = 200  # of a table on the page; JSON has all
MATHML = "http://www.w3.org/1998/Math/MathML"
# What a formula may consist of. Cards hold symbols in LaTeX, and LaTeX can say links and raw text: anything else is shown as text.
_TAGS = {
    "math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msup", "msub", "msubsup", "munder", "mover",
    "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded",
}  # fmt: skip
_ATTRIBUTES = {"mathvariant", "fence", "stretchy", "form", "width", "display", "columnalign", "displaystyle", "scriptlevel"}
_INTERVAL = re.compile(r"^(?P<head>.*?)_?(?P<kind>eti|hdi)(?P<prob>[\d.]+)_lo$")
_KINDS = {"eti": "equal-tailed interval", "hdi": "highest-density interval"}


def page(facts: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """The page.

    Parameters
    ----------
    facts : mapping
        `Report.facts`, as JSON knows them.
    pictures : mapping of name to bytes
        SVG files.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bayeslaw.reporting"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"shown": shown, "cells": cells, "math": mathml}
    images = {name: "data:image/svg+xml;base64," + base64.b64encode(data).decode() for name, data in pictures.items()}
    return environment.get_template("report.html").render(facts=facts, images=images, most=MOST_ROWS)


def shown(value: object) -> str:
    """A value as the page writes it: numbers to four significant figures, '-' for what is no number."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return compact(float(value)) if isinstance(value, (int, float)) else str(value)


def header(column: str) -> str:
    """A column's name in words: run_eti90_lo is the run's 90% equal-tailed interval."""
    if found := _INTERVAL.match(column):
        return f"{found['head'].replace('_', ' ')} {found['prob']}% {_KINDS[found['kind']]}".strip()
    return column.replace("_", " ")


def cells(table: Mapping[str, Any]) -> dict[str, Any]:
    """The shown part of a table: heads, and rows of (text, whether it is a number), the two ends of an interval in one cell."""
    place = {name: i for i, name in enumerate(table["columns"])}
    names = [n for n in table["shown"] if not (n.endswith("_hi") and f"{n[:-2]}lo" in place)]
    rows = []
    for row in table["rows"][:MOST_ROWS]:
        line = []
        for name in names:
            value, other = row[place[name]], place.get(f"{name[:-2]}hi") if name.endswith("_lo") else None
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            text = shown(value) if other is None else f"[{shown(value)}, {shown(row[other])}]"
            line.append((text, number or value is None))
        rows.append(line)
    return {"heads": [header(name) for name in names], "rows": rows, "left": max(0, len(table["rows"]) - MOST_ROWS)}


def mathml(latex: str, text: str, block: bool = False) -> Any:
    """A formula as MathML, or as readable text where its LaTeX says more than a formula may."""
    from markupsafe import Markup

    found = _mathml(latex, block)
    if found is None:
        return Markup("<code>{}</code>").format(text)
    found.set("aria-label", text)
    return Markup(ElementTree.tostring(found, encoding="unicode"))  # noqa: S704  (built from known tags)


def _mathml(latex: str, block: bool) -> ElementTree.Element | None:
    from latex2mathml.converter import convert
    from latex2mathml.exceptions import (
        DenominatorNotFoundError,
        DoubleSubscriptsError,
        DoubleSuperscriptsError,
        ExtraLeftOrMissingRightError,
        LimitsMustFollowMathOperatorError,
        MissingEndError,
        MissingSuperScriptOrSubscriptError,
        NoAvailableTokensError,
        NumeratorNotFoundError,
    )

    faults = (
        DenominatorNotFoundError, DoubleSubscriptsError, DoubleSuperscriptsError, ExtraLeftOrMissingRightError, IndexError,
        LimitsMustFollowMathOperatorError, MissingEndError, MissingSuperScriptOrSubscriptError, NoAvailableTokensError,
        NumeratorNotFoundError, KeyError, ValueError, RecursionError, ElementTree.ParseError,
    )  # fmt: skip
    try:
        tree = ElementTree.fromstring(convert(latex))  # noqa: S314  (no DTD inside an element)
        made = _rebuilt(tree)
    except faults:
        return None
    for node in made.iter():
        node.attrib.pop("upright", None)
    if block:
        made.set("displaystyle", "true")
    return made


def _rebuilt(node: ElementTree.Element) -> ElementTree.Element:
    """The same formula from known tags and attributes only; upright letters in a row become one word."""
    tag = node.tag.removeprefix(f"{{{MATHML}}}")
    if tag not in _TAGS or not node.attrib.keys() <= _ATTRIBUTES or "\\" in (node.text or ""):
        raise ValueError(tag)
    made = ElementTree.Element(tag, dict(node.attrib))
    made.text = node.text
    for child in node:
        one = _rebuilt(child)
        last = made[-1] if len(made) else None
        if last is not None and last.get("upright") and one.get("upright") and tag == "mrow":
            last.text = f"{last.text}{one.text}"
        else:
            made.append(one)
    if tag == "mi" and made.get("mathvariant") == "normal":
        made.set("upright", "yes")
    if tag == "mrow":
        for child in made:
            if child.get("upright") and len(child.text or "") > 1:  # words are upright anyway
                child.attrib.pop("mathvariant", None)
    return made
