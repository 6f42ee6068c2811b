"""What was asked of a model, numbers of items and chance, where the fitted rows say it and the settings leave it out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from bayeslaw.core.text import exact
from bayeslaw.data.table import Runs
from bayeslaw.posterior.fit import Fit


def with_facts(fit: Fit, runs: Runs) -> Runs:
    """Return settings with the columns of `Outcome.facts` that they lack, as all fitted rows of the same task have them.

    Tasks are the values of the columns by which the law's parameters differ; without such columns all rows are of one. Where fitted
    rows of a task differ in a fact, or the settings name no task, the column stays missing.

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
    seen = pd.DataFrame({name: fit.observed.covariates[name] for name in missing})
    fitted = [np.array(fit.law.levels[column])[fit.law.level_codes(column, fit.observed.covariates)] for column in columns]
    task = pd.MultiIndex.from_arrays(fitted) if fitted else pd.Index(np.zeros(len(seen)))
    grouped = seen.groupby(task, sort=False)
    if (grouped.max() != grouped.min()).to_numpy().any():
        return runs
    of_task, asked = grouped.first(), [runs.frame[column].map(exact, na_action="ignore") for column in columns]
    rows = pd.MultiIndex.from_arrays(asked) if asked else pd.Index(np.zeros(len(runs.frame)))
    facts_of_rows = of_task.reindex(rows)
    if facts_of_rows.isna().to_numpy().any():  # tasks that the fit does not know, which are refused by name
        return runs
    return replace(runs, frame=runs.frame.assign(**{name: facts_of_rows[name].to_numpy() for name in missing}))
