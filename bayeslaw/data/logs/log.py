"""Logs as they stand in files: rows as read, under the names they have there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Log:
    """What one file logs.

    Attributes
    ----------
    name : str
        Of the file.
    kind : str
        One of `imports_map.KINDS`.
    frame : DataFrame
        Cells as read, one row an entry, in the order in which they were logged; None is an empty cell, and so is nan in a column of
        floats. The index is the entry's number in the file, from 1.
    run : str
        Name of its run if no column names any.
    step : str or None
        The column of steps where the kind of file tells.
    losses : mapping or None
        Columns of losses and their domains where the kind of file tells.
    bare_loss : bool
        Whether a column `loss` is a validation loss.
    remarks : tuple of str
        What was left out or put together when it was read.
    """

    name: str
    kind: str
    frame: pd.DataFrame
    run: str = ""
    step: str | None = None
    losses: Mapping[str, str | None] | None = None
    bare_loss: bool = True
    remarks: tuple[str, ...] = field(default=())


def counted(number: int, what: str, plural: str | None = None) -> str:
    """'1 row', '3 rows'."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"
