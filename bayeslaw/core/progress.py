"""Where progress bars are shown: on a terminal or in a notebook, since a file would get blank lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console_for(wanted: bool) -> Console | None:
    """Return the console of standard error for a progress bar, or None where none is wanted or nobody would see it."""
    if not wanted:
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
