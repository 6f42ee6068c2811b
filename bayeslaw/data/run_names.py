"""Columns that may name the runs of a table, by what stands beside their names: a run has one model and goes on from row to row."""

from __future__ import annotations

import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.text import listed
from bayeslaw.data.columns import NAMES_OF_RUNS, has_meaning, key
from bayeslaw.data.starter import option
from bayeslaw.laws.law import Law

CONSTANT = ("N", "P", "r", "ptpp")  # of a run
MOMENTS = ("D", "step")  # at which rows of a run are logged


def column_of_runs(frame: pd.DataFrame) -> str:
    """Return the column called as many name their runs, such as Name, where it can name those of this table; '' where none does.

    What such a column means isn't certain: sweeps and data sets have names too.
    """
    if "run" in frame:
        return ""
    by_key = {key(str(column)): str(column) for column in frame}
    named = (by_key[name] for name in NAMES_OF_RUNS if name in by_key)
    return next((c for c in named if _holds_names(frame[c]) and (frame[c].is_unique or _names_runs(frame, c))), "")


def unnamed_runs_note(frame: pd.DataFrame, law: Law) -> str:
    """Say that rows count as runs of their own where a column that is not used may name the runs; '' otherwise."""
    if "run" in frame:
        return ""
    free = [str(c) for c in frame if c not in law.levels and (not has_meaning(str(c)) or key(str(c)) in NAMES_OF_RUNS)]
    candidates = [c for c in free if not holds_numbers(frame[c]) and _holds_names(frame[c]) and _names_runs(frame, c)]
    if not candidates:
        return ""
    which = f"column {candidates[0]} may name them" if len(candidates) == 1 else f"columns {listed(candidates, 3)} may name them"
    way = f"{option('run', candidates[0])} (in Python columns={{'run': {candidates[0]!r}}})"
    return f"no column names runs, so each of {len(frame):,} rows counts as a run of its own; {which}: if so, add {way}"


def _holds_names(cells: pd.Series) -> bool:
    """Whether the cells of a column are texts or numbers, and not lists, say."""
    return holds_numbers(cells) or all(isinstance(cell, str) for cell in cells.dropna())


def _names_runs(frame: pd.DataFrame, column: str) -> bool:
    """Whether most names in a column are of several rows, and these rows of one model at different moments."""
    rows = frame[frame[column].notna()]
    if not 2 <= rows[column].nunique() < len(rows) or 2 * (rows[column].value_counts() > 1).sum() <= rows[column].nunique():
        return False
    constant = [c for c in CONSTANT if c in rows and holds_numbers(rows[c])]
    moments = [c for c in MOMENTS if c in rows and holds_numbers(rows[c])]
    of_names = rows.groupby(column)[constant]
    if not moments or (of_names.min() < of_names.max()).any(axis=None):
        return False
    place = [column, *moments, *(c for c in ["domain"] if c in rows)]
    measured = rows[[*place, "loss"]].drop_duplicates() if "loss" in rows else rows  # some losses may be there twice
    again = measured.duplicated(place).sum()  # as after a resumption; runs of a sweep share most moments
    return bool(2 * again < len(measured) - measured[column].nunique())
