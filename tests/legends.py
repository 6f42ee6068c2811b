"""What stands in the legend of a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.values import present

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def labels(ax: Axes) -> list[str]:
    """The texts of its entries."""
    return [text.get_text() for text in present(ax.get_legend()).get_texts()]


def note(ax: Axes) -> str:
    """The notes below its entries, in one line."""
    return present(ax.get_legend()).get_title().get_text().replace("\n", " ")
