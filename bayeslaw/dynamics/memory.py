"""The memory of the annealing area, chosen by forecasts of left-out runs.

The area S2 of the laws of annealing forgets a change of the rate by the factor lambda at every step (`schedules.schedule`). The
papers fix lambda = .999 for trainings of tens of thousands of steps: a fall of the rate is felt over the next thousand steps.
Shorter or smaller trainings may feel it much sooner, and a law with the wrong memory mistakes how far a fall of the rate at the
end of a run brings its loss down. lambda is in the covariates, not in the law, so it is chosen by point fits that leave out runs
in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.curves import read_curves
from bayeslaw.inference.point import PointFit, point_fit
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law

MEMORIES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998)
FOLDS, STARTS = 8, 6  # parts in which runs are left out, at most; starts of each point fit


def compare_memories(
    source: Any,
    law: Law | str,
    *,
    domain: str | None = None,
    where: str | None = None,
    memories: Sequence[float] = MEMORIES,
    **reading: Any,
) -> pd.DataFrame:
    """Compare memories of the annealing area by how well a law forecasts runs that it was not fitted to.

    Parameters
    ----------
    source : path or DataFrame
        Training curves, as for `read_curves`, of at least two runs. Of a family, the runs are those with losses.
    law : Law, name or path of a card
        A law of S2, such as `annealing` or `cpt-dynamics`.
    domain, where : str, optional
        The domain of the losses if the table has several; rows that are used, as in `bayeslaw fit --where`.
    memories : sequence of float
    **reading
        As for `read_curves`, without `memory`.

    Returns
    -------
    DataFrame
        A row for each memory: `memory`; `steps`, 1 / (1 - memory), over which a change of the rate is felt; `left_out`, the root
        mean square over runs of the relative errors of their losses by point fits without them; `fitted`, the same of a point fit
        to all runs. The first row is the best by `left_out`.

    Raises
    ------
    BayeslawError
        If the law has no annealing area ('no-annealing-area') or there is one run ('too-few-runs').

    Examples
    --------
    >>> table = bayeslaw.dynamics.compare_memories("curves.csv", "cpt-dynamics", domain="target", memories=[0.99, 0.999])
    >>> list(table.columns), len(table)
    (['memory', 'steps', 'left_out', 'fitted'], 2)
    """
    law = load_law(law) if isinstance(law, str) else law
    if not any(name.startswith("S2") for name in law.covariates):
        raise BayeslawError(
            f"{law.name} has no annealing area S2, whose memory could be chosen: give a law that has one, such as annealing.",
            code="no-annealing-area",
        )
    return (
        pd.DataFrame([_errors(source, law, domain, where, memory, reading) for memory in memories])
        .sort_values("left_out", kind="stable")
        .reset_index(drop=True)
    )


def _errors(
    source: Any, law: Law, domain: str | None, where: str | None, memory: float, reading: dict[str, Any]
) -> dict[str, float]:
    """Return the row of one memory."""
    frame = read_curves(source, memory=memory, **reading).runs(domain).where(where).frame
    left_out = left_out_squares(frame, law)
    fitted = _squares(point_fit(law, begun(frame), starts=STARTS), begun(frame))
    return {
        "memory": memory, "steps": 1 / (1 - memory), "left_out": float(np.sqrt(left_out.mean())),
        "fitted": float(np.sqrt(fitted.mean())),
    }  # fmt: skip


def left_out_squares(frame: pd.DataFrame, law: Law) -> pd.Series[float]:
    """Return, for each run of a table of curves, the mean square of its relative errors by a point fit without it.

    Runs are left out together with others where there are more than `FOLDS`.
    """
    frame = begun(frame)
    runs = frame["run"].unique()
    if runs.size < 2:
        raise BayeslawError(
            f"Memories are compared by runs that are left out in turn: there is {runs.size} with losses.", code="too-few-runs"
        )
    number = frame["run"].map(dict(zip(runs, np.arange(runs.size) % FOLDS, strict=True))).to_numpy()
    parts = [
        _squares(point_fit(law, frame[number != out], starts=STARTS), frame[number == out]) for out in range(min(FOLDS, runs.size))
    ]
    return pd.concat(parts)


def begun(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows after the first step of a training: no law of these areas describes those before."""
    return frame[~(frame["S1"] == 0)]


def _squares(fit: PointFit, frame: pd.DataFrame) -> pd.Series[float]:
    """Return each run's mean square of its log losses less the law's."""
    settings = {name: frame[name].to_numpy(np.float64) for name in fit.law.covariates}
    error: Array = np.log(frame["loss"].to_numpy(np.float64)) - np.log(fit.predict(settings))
    return pd.Series(error**2).groupby(frame["run"].to_numpy(), sort=False).mean()
