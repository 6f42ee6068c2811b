"""The page of a report: one HTML file that loads nothing from the network and runs no scripts."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from bayeslaw.core.html import cells, shown
from bayeslaw.core.text import counted

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MOST_ROWS = 200  # largest number of rows that a table has on the page; JSON has all rows


def coded(text: str) -> Markup:
    """Return a text, escaped, in which what stands between backticks is code."""
    from markupsafe import Markup

    parts = re.split("`([^`]+)`", text)  # every other one stood between backticks; joined to markup the others are escaped
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def environment() -> Environment:
    """Return what makes pages from the templates of this package; what templates are given is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("bayeslaw.reporting"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"shown": shown, "cells": partial(cells, most=MOST_ROWS), "counted": counted, "coded": coded}
    return templates


def text_of(name: str) -> str:
    """Return the text of a style or a script beside the templates."""
    return (files("bayeslaw.reporting") / "templates" / name).read_text(encoding="utf-8")


def page(
    facts: Mapping[str, Any], pictures: Mapping[str, bytes], template: str = "report.html", rest: str = "the report's JSON"
) -> str:
    """Return the page of the facts of a report and its pictures, SVG files by name.

    Parameters
    ----------
    facts, pictures
    template, rest : str
        The page's template, and where all rows of a long table are.
    """
    images = {name: "data:image/svg+xml;base64," + base64.b64encode(data).decode() for name, data in pictures.items()}
    return environment().get_template(template).render(facts=facts, images=images, most=MOST_ROWS, rest=rest)
