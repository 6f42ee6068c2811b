"""Averages of forecasts over rows, such as an average accuracy over tasks, with the errors that the rows share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index, sums_by
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.intervals import columns
from bayeslaw.core.text import counted, short_lines
from bayeslaw.forecasting.results import result_column

NAMED = 4  # values that an error lists


@dataclass(frozen=True, eq=False)
class Averages:
    """Averages over the values of a column, one for each setting of the others.

    Attributes
    ----------
    over : str
        The column, such as task.
    settings : DataFrame (g rows)
        The other columns, and `rows` (`forecast_rows` beside a column of that name), how many values each average is over.
    draws : array (S, g)
        Draws of the averages: those of the rows are averaged draw by draw, so that errors which rows share don't average out.
    code : int array (n,)
        The number of the average that each row of the forecast belongs to.
    """

    over: str
    settings: pd.DataFrame
    draws: Array
    code: Index

    def __repr__(self) -> str:
        where = f"{self.over} at {counted(len(self.settings), 'setting')}"
        return short_lines(f"<Averages over {where}: {counted(len(self.draws), 'draw')}>")

    def measured(self, values: Array) -> Array:
        """Return averages (g,) of what was measured in the rows (n,), nan where a row of an average has no value."""
        return _means(values, self.code)

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
    values, heads = settings[over].astype(str), settings[keys].iloc[np.unique(code, return_index=True)[1]]
    every, of_group = list(dict.fromkeys(values)), values.groupby(code)
    odd = np.flatnonzero((of_group.size() != len(every)) | (of_group.nunique() != len(every)))
    if odd.size:
        where = ", ".join(f"{name} = {value}" for name, value in heads.iloc[odd[0]].items())
        mine = values[code == odd[0]]
        missing, twice = [value for value in every if value not in set(mine)], list(mine[mine.duplicated()])
        problem = f"lacks {_listed(missing)}" if missing else f"has {_listed(twice)} twice"
        raise BayeslawError(
            f"The setting {where} {problem}: averages over {over} are compared only where each is over the same {len(every)} "
            "values, each once.",
            code="unequal-averages",
        )
    return Averages(
        over, heads.reset_index(drop=True).assign(**{result_column(heads, "rows"): len(every)}), _means(draws, code), code
    )


def _means(values: Array, code: Index) -> Array:
    """Return means (…, g) over the rows of one code of values (…, n)."""
    order = np.argsort(code, kind="stable")
    return sums_by(values[..., order], code[order]) / np.bincount(code)


def averaged(settings: pd.DataFrame, over: str, facts: Sequence[str] = ()) -> tuple[list[str], Index]:
    """Return the columns that tell averages apart, and the number of each row's average (n,).

    Parameters
    ----------
    settings, over, facts
        As in `average`.
    """
    if over not in [*settings]:
        message = f"There is no column {over!r} to average over; there are {', '.join(map(str, settings))}."
        raise BayeslawError(f"{message}{nearest(str(over), map(str, settings))}", code="unknown-column")
    keys = [str(c) for c in settings if c != over and c not in facts]
    return keys, setting_codes(settings, keys)


def setting_codes(settings: pd.DataFrame, columns: list[str]) -> Index:
    """Return the number of each row's setting (n,), among the different ones in some columns, in order of appearance."""
    if not columns:
        return np.zeros(len(settings), dtype=np.int64)
    return settings.groupby(columns, sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values[:NAMED]) + (f" and {len(values) - NAMED} more" if len(values) > NAMED else "")
