"""Where progress bars are shown: on a terminal or in a notebook, since a file would get blank lines."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console_for(wanted: bool) -> Console | None:
    """Return the console of standard error for a progress bar, or None where none is wanted or nobody would see it.

    In a notebook rich shows bars by ipywidgets; without it, it shows a warning in place of each change.
    """
    if not wanted:
        return None
    from rich.console import Console

    console = Console(stderr=True)
    seen = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    return console if seen else None
