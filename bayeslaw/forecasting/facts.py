"""What was asked of a model, numbers of items and chance, where the fitted rows say it and the settings leave it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.text import exact, listed
from bayeslaw.data.table import Runs
from bayeslaw.posterior.fit import Fit

if TYPE_CHECKING:
    from pandas.core.groupby import DataFrameGroupBy


def with_facts(fit: Fit, runs: Runs) -> Runs:
    """Return settings with the columns of `Outcome.facts` that they lack, as all fitted rows of the same task have them.

    Tasks are the values of the columns by which the law's parameters differ; without such columns all rows are of one. The column
    of a fact in which fitted rows of an asked task differ stays missing, and so do all where the settings name no task.

    Parameters
    ----------
    fit : Fit
    runs : Runs
        Settings, unchecked.
    """
    missing = [name for name in fit.law.outcome.facts if name not in runs.frame]
    columns = list(fit.law.levels)
    if not missing or not {*columns} <= {*runs.frame}:
        return runs
    grouped = _by_task(fit, missing)
    of_task = grouped.first().where(grouped.max() == grouped.min())
    asked = [runs.frame[column].map(exact, na_action="ignore") for column in columns]
    rows = pd.MultiIndex.from_arrays(asked) if asked else pd.Index(np.zeros(len(runs.frame)))
    of_rows = of_task.reindex(rows)  # tasks that the fit does not know have none, and are refused by name
    known = [name for name in missing if of_rows[name].notna().all()]
    return replace(runs, frame=runs.frame.assign(**{name: of_rows[name].to_numpy() for name in known}))


def of_several_values(fit: Fit, name: str) -> str:
    """Say for which tasks the fitted rows differ in a fact of the outcome, such as 'arc has 0.25 to 0.3'; '' if for none."""
    if name not in fit.law.outcome.facts:
        return ""
    values = _by_task(fit, [name])[name]
    ends = pd.DataFrame({"low": values.min(), "high": values.max()}).query("low < high")
    of = [", ".join(map(str, task)) if isinstance(task, tuple) else str(task) for task in ends.index]
    each = zip(of, ends["low"], ends["high"], strict=True)
    return listed([f"{f'{task} has' if fit.law.levels else 'they have'} {low:g} to {high:g}" for task, low, high in each], 3)


def _by_task(fit: Fit, names: Sequence[str]) -> DataFrameGroupBy[Any, Any]:
    """Return facts of the fitted rows, by the values of the columns by which the law's parameters differ."""
    seen = pd.DataFrame({name: fit.observed.covariates[name] for name in names})
    of = [np.array(values)[fit.law.level_codes(column, fit.observed.covariates)] for column, values in fit.law.levels.items()]
    return seen.groupby(pd.MultiIndex.from_arrays(of) if of else pd.Index(np.zeros(len(seen))), sort=False)
