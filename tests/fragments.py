"""Reading what a notebook shows in place of an object."""

from __future__ import annotations

import re
from html.parser import HTMLParser

TAGS = {"div", "strong", "p", "table", "tr", "th", "td"}
MATH = re.compile(r"math|m[a-z]+")  # elements of MathML


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS or ("math" in (*self.open, tag) and MATH.fullmatch(tag)), tag
        for name, value in attributes:
            if "math" not in (*self.open, tag):
                assert name == "style" or (tag, name) == ("table", "cellpadding"), (tag, name)
            assert not name.startswith("on")
            assert "url(" not in (value or "")
            # The notebook's own colours: only greys that show on light and dark, and that of the warning's rule.
            assert not re.search(r"background|(?<!-)color:", value or ""), value
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data)


def outline(fragment: str) -> str:
    """The texts of a fragment, one a line. Fails where tags do not match, load or run something, or set colours."""
    reader = _Reader()
    reader.feed(fragment)
    reader.close()
    assert reader.open == []
    return "\n".join(text.strip() for text in reader.texts)
