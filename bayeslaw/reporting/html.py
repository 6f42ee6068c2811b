"""The page of a report: one HTML file that loads nothing from the network and runs no scripts."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any

from bayeslaw.core.html import cells, shown

MOST_ROWS = 200  # largest number of rows that a table has on the page; JSON has all rows


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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bayeslaw.reporting"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"shown": shown, "cells": partial(cells, most=MOST_ROWS)}
    images = {name: "data:image/svg+xml;base64," + base64.b64encode(data).decode() for name, data in pictures.items()}
    return environment.get_template(template).render(facts=facts, images=images, most=MOST_ROWS, rest=rest)
