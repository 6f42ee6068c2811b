"""What a picture says: its texts, and what stands in its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.values import present

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def texts(ax: Axes) -> list[str]:
    """What is written beside the lines."""
    return [text.get_text() for text in ax.texts]


def labels(ax: Axes) -> list[str]:
    """The entries of the legend."""
    return [text.get_text() for text in present(ax.get_legend()).get_texts()]


def note(ax: Axes) -> str:
    """The notes below the entries of the legend, in one line."""
    return present(ax.get_legend()).get_title().get_text().replace("\n", " ")
