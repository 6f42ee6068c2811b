"""Averages of forecasts over rows, such as an average accuracy over tasks, with the errors that the rows share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.intervals import columns
from bayeslaw.core.text import counted, short_lines

COUNT = "rows"
NAMED = 4  # values that an error lists


@dataclass(frozen=True)
class Averages:
    """Averages over the values of a column, one for each setting of the others.

    Attributes
    ----------
    over : str
        The column, such as task.
    settings : DataFrame (g rows)
        The other columns, and `rows`, how many values each average is over.
    draws : array (S, g)
        Draws of the averages: those of the rows are averaged draw by draw, so that errors which rows share don't average out.
    members : array (g, n)
        The weight of each row of the forecast in each average.
    """

    over: str
    settings: pd.DataFrame
    draws: Array
    members: Array

    def __repr__(self) -> str:
        return short_lines(f"<Averages over {self.over} at {counted(len(self.settings), 'setting')}: {len(self.draws):,} draws>")

    def measured(self, values: Array) -> Array:
        """Return averages (g,) of what was measured in the rows (n,), nan where a row of an average has no value."""
        unknown = self.members @ np.isnan(values) > 0
        return np.where(unknown, np.nan, self.members @ np.nan_to_num(values))

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return the settings with medians and the ends of equal-tailed intervals of probability `ci_prob`."""
        return self.settings.assign(**columns(self.draws, ci_prob))


def average(settings: pd.DataFrame, draws: Array, over: str, facts: Sequence[str] = ()) -> Averages:
    """Average draws over the rows that differ in one column.

    Parameters
    ----------
    settings : DataFrame (n rows)
    draws : array (S, n)
    over : str
        The column to average over. Every setting of the others must have the same values of it, each once.
    facts : sequence of str
        Columns that differ with it, such as the number of items of a task, and don't tell settings apart.
    """
    keys, code = averaged(settings, over, facts)
    if settings[over].isna().any():
        raise BayeslawError(f"Averages over {over} need a value of it in every row: some are empty.", code="missing-value")
    values = settings[over].astype(str)
    every = list(dict.fromkeys(values))
    for group in range(int(code.max()) + 1):
        mine = values[code == group]
        if len(mine) == len(every) and mine.nunique() == len(every):
            continue
        first = settings[keys].iloc[int(np.flatnonzero(code == group)[0])] if keys else pd.Series(dtype=object)
        where = ", ".join(f"{name} = {value}" for name, value in first.items())
        missing, twice = [value for value in every if value not in set(mine)], list(mine[mine.duplicated()])
        problem = f"lacks {_listed(missing)}" if missing else f"has {_listed(twice)} twice"
        raise BayeslawError(
            f"The setting {where} {problem}: averages over {over} are compared only where each is over the same {len(every)} "
            "values, each once.",
            code="unequal-averages",
        )
    members = (code[None] == np.arange(int(code.max()) + 1)[:, None]) / len(every)
    heads = settings[keys].iloc[[int(np.flatnonzero(code == group)[0]) for group in range(len(members))]].reset_index(drop=True)
    return Averages(over, heads.assign(**{COUNT: len(every)}), draws @ members.T, members)


def averaged(settings: pd.DataFrame, over: str, facts: Sequence[str] = ()) -> tuple[list[str], Index]:
    """Return the columns that tell averages apart, and the number of each row's average (n,).

    Parameters
    ----------
    settings, over, facts
        As in `average`.
    """
    if over not in settings:
        message = f"There is no column {over!r} to average over; there are {', '.join(map(str, settings))}."
        raise BayeslawError(f"{message}{nearest(over, map(str, settings))}", code="unknown-column")
    keys = [str(c) for c in settings if c != over and c not in facts]
    groups = settings.groupby(keys, sort=False, dropna=False).ngroup().to_numpy() if keys else np.zeros(len(settings))
    return keys, groups.astype(np.int64)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values[:NAMED]) + (f" and {len(values) - NAMED} more" if len(values) > NAMED else "")
