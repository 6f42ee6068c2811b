"""The memory of the annealing area, chosen by forecasts of left-out runs.

The area S2 of the laws of annealing forgets a change of the rate by the factor lambda at every step (`schedules.schedule`). The
papers fix lambda = .999 for trainings of tens of thousands of steps: a fall of the rate is felt over the next thousand steps.
Shorter or smaller trainings may feel it much sooner, and a law with the wrong memory mistakes how far a fall of the rate at the
end of a run brings its loss down. lambda is in the covariates, not in the law, so it is chosen by point fits that leave out runs
in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, numbers, one_number
from bayeslaw.core.errors import BayeslawError, shown
from bayeslaw.data.curves import Curves, read_curves
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit, point_fit
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.schedules.areas import POWER
from bayeslaw.schedules.schedule import MEMORY

MEMORIES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998)
MEMORY_TOLERANCE = 1e-6  # relative difference of 1 - memory of two equal memories
FOLDS, STARTS = 8, 6  # parts in which runs are left out, at most; starts of each point fit


def compare_memories(
    source: Any,
    law: Law | str | Path,
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
        Training curves, as for `read_curves`. Of a family, the runs are those with losses.
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
        A row for each memory, the best first: `memory`; `steps`, 1 / (1 - memory), over which a change of the rate is felt;
        `left_out`, the root mean square over runs of the relative errors of their losses by point fits without them; `fitted`, the
        same of a point fit to all runs. The best has the least `left_out`. If the rate changes in one run only, nothing is left to
        tell of it when that run is left out: then `left_out` is NaN and the best has the least `fitted`.

    Raises
    ------
    BayeslawError
        If the law has no annealing area ('no-annealing-area'), or the rate changes in none of the runs ('same-rate').

    Examples
    --------
    >>> table = bayeslaw.dynamics.compare_memories("curves.csv", "cpt-dynamics", domain="target", memories=[0.99, 0.999])
    >>> list(table.columns), len(table)
    (['memory', 'steps', 'left_out', 'fitted'], 2)
    """
    law = load_law(law)
    memories = numbers("memories", memories, "[0.99, 0.999]").tolist()
    if not memories:
        raise BayeslawError("Give at least one memory to compare, such as .999.", code="no-memory")
    if not any(name.startswith("S2") for name in law.covariates):
        raise BayeslawError(
            f"{law.name} has no annealing area S2, whose memory could be chosen: give a law that has one, such as annealing.",
            code="no-annealing-area",
        )
    table = pd.DataFrame([_errors(source, law, domain, where, memory, reading) for memory in memories])
    by = "fitted" if table["left_out"].isna().any() else "left_out"
    return table.sort_values(by, kind="stable").reset_index(drop=True)


def memory_of(posteriors: Sequence[Posterior], given: float | None = None) -> float:
    """Return the memory of the areas that laws were fitted to: the given one, which must be theirs, or theirs, or else .999.

    Parameters
    ----------
    posteriors, given
        Fits of tables that don't say their memory fit any.
    """
    given = None if given is None else one_number("memory", given, "0.999")
    return _agreed(posteriors, "memory", given, MEMORY, MEMORY_TOLERANCE if given is None else MEMORY_TOLERANCE * (1 - given))


def power_of(posteriors: Sequence[Posterior], given: float | None = None) -> float:
    """Return the power of the LR-weighted areas that laws were fitted to: the given one, which must be theirs, or theirs, or .1.

    Parameters
    ----------
    posteriors, given
        Fits of tables that don't say their power fit any.
    """
    return _agreed(posteriors, "power", given, POWER, MEMORY_TOLERANCE)


def reference_batch_of(posteriors: Sequence[Posterior]) -> float | None:
    """Return the tokens of a batch whose steps count 1 in the areas that laws were fitted to, 0 where every step counts 1.

    Parameters
    ----------
    posteriors
        For fits of tables that don't say it, as those of older versions, the answer is None.
    """
    return _fitted(posteriors, "reference_batch")


def require_same_areas(posteriors: Sequence[Posterior], curves: Curves) -> None:
    """Refuse curves whose areas were not computed as those that laws were fitted to, and what are no curves."""
    if not isinstance(curves, Curves):
        raise BayeslawError(f"Curves are what bayeslaw.data.read_curves returns, not {shown(curves)}.", code="not-curves")
    memory_of(posteriors, curves.memory)
    power_of(posteriors, curves.power)
    require_batch(posteriors, curves.reference_batch)


def require_batch(posteriors: Sequence[Posterior], given: float) -> None:
    """Refuse areas in which steps count otherwise than in those that laws were fitted to.

    Parameters
    ----------
    posteriors, given
        As `reference_batch_of` returns it; fits of tables that don't say it fit any.
    """
    fitted = reference_batch_of(posteriors)
    if fitted is not None and fitted != given:
        count = [
            f"steps count by tokens, those of {value:,.0f} tokens 1" if value else "every step counts the same"
            for value in (fitted, given)
        ]
        raise BayeslawError(
            f"The law was fitted to areas in which {count[0]}, and in these {count[1]}: fit the law to areas that are computed in "
            "the same way (`bayeslaw dynamics areas --per step`), or in Python read the curves so (read_curves, per= and "
            "tokens_per_step=).",
            code="other-batch",
        )


def _agreed(posteriors: Sequence[Posterior], name: str, given: float | None, usual: float, tolerance: float) -> float:
    """Return the value of the fits; where they don't say it the given one, or else the usual. Another than theirs is refused."""
    fitted = _fitted(posteriors, name)
    if fitted is None:
        return usual if given is None else given
    if given is not None and abs(given - fitted) > tolerance:
        raise BayeslawError(
            f"The law was fitted to annealing areas of {name} {fitted:g}, and these have {given:g}: compute them with that {name}, "
            "or fit the law again.",
            code=f"other-{name}",
        )
    return fitted


def _fitted(posteriors: Sequence[Posterior], name: str) -> float | None:
    """Return the one value of what was said of the areas of fits, None if none says it."""
    fits = [fit for posterior in posteriors for fit, _ in posterior.selections]
    known = {float(fit.info[name]) for fit in fits if name in fit.info}
    if len(known) > 1:
        shown, word = " and ".join(f"{value:g}" for value in sorted(known)), name.replace("_", " ")
        message = f"The fits are to areas of {word} {shown}: fit both with one {word}."
        raise BayeslawError(message, code=f"other-{name.rpartition('_')[2]}")
    return next(iter(known), None)


def _errors(
    source: Any, law: Law, domain: str | None, where: str | None, memory: float, reading: dict[str, Any]
) -> dict[str, float]:
    """Return the row of one memory."""
    frame = begun(read_curves(source, memory=memory, **reading).runs(domain).where(where).frame)
    changed = _changed(frame, law)
    if not changed:
        raise BayeslawError(
            "The learning rate changes in none of the runs: they tell nothing of how long a change is felt.", code="same-rate"
        )
    left_out = left_out_squares(frame, law).mean() if len(changed) > 1 else np.nan
    return {
        "memory": memory, "steps": 1 / (1 - memory), "left_out": float(np.sqrt(left_out)),
        "fitted": float(np.sqrt(_squares(point_fit(law, frame, starts=STARTS), frame).mean())),
    }  # fmt: skip


def _changed(frame: pd.DataFrame, law: Law) -> set[str]:
    """Return the runs with an annealing area."""
    areas = frame[[name for name in law.covariates if name.startswith("S2")]].to_numpy(np.float64)
    return set(frame.loc[(areas != 0).any(axis=1), "run"])


def left_out_squares(frame: pd.DataFrame, law: Law) -> pd.Series[float]:
    """Return, for each run of a table of curves, the mean square of its relative errors by a point fit without it.

    Runs are left out together with others where there are more than `FOLDS`; not if no other run has an annealing area. Those that
    have it are dealt over the parts first: two of them in one part would leave nothing that tells of changes in the rest.
    """
    frame = begun(frame)
    changed = _changed(frame, law)
    runs = sorted(frame["run"].unique(), key=lambda run: run not in changed)
    parts = [frame["run"].isin(runs[out::FOLDS]) for out in range(min(FOLDS, len(runs)))]
    kept = [out for out in parts if changed - set(frame.loc[out, "run"])]
    return pd.concat([_squares(point_fit(law, frame[~out], starts=STARTS), frame[out]) for out in kept])


def begun(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows after the first step of a training: no law of these areas describes those before."""
    return frame[~(frame["S1"] == 0)]


def _squares(fit: PointFit, frame: pd.DataFrame) -> pd.Series[float]:
    """Return each run's mean square of its log losses less the law's."""
    settings = {name: frame[name].to_numpy(np.float64) for name in fit.law.covariates}
    error: Array = np.log(frame["loss"].to_numpy(np.float64)) - np.log(fit.predict(settings))
    return pd.Series(error**2).groupby(frame["run"].to_numpy(), sort=False).mean()
