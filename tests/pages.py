"""A report's page as a reader's program sees it, and tables that commands wrote for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import pandas as pd

HOSTILE = "<script>alert(1)</script>"
PICKS = pd.DataFrame(
    {"order": [1, 2], "run": ["a", HOSTILE], "cost": [3.5e18, 1.25e19], "spent": [3.5e18, 1.6e19],
     "latent_eti90_width": [0.031, 0.0242], "worth": [True, False]}
)  # fmt: skip
VOID = {"meta", "img", "br", "hr", "link", "input"}


@dataclass
class Page(HTMLParser):
    """The elements of a page, and its text outside styles and formulas."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def of(cls, html: str) -> Page:
        page = cls()
        page.feed(html)
        page.close()
        assert not page.open, page.open
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "math"} & set(self.open):
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.elements if name == tag]
