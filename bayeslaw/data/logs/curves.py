"""The losses of one run's log as curves, under the schedule that the run follows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.text import counted, listed
from bayeslaw.data.curve_checks import Curve
from bayeslaw.data.curves import Curves
from bayeslaw.data.files import numbered
from bayeslaw.data.table import Runs
from bayeslaw.schedules.areas import POWER, Phase, Point, trace
from bayeslaw.schedules.schedule import MEMORY, Schedule


def log_curves(
    log: Runs,
    schedule: Schedule,
    start: Point | None = None,
    *,
    run: str | None = None,
    phase: Phase = "pretrain",
    memory: float = MEMORY,
    power: float = POWER,
) -> Curves:
    """Return the losses of one run's log as curves, under the schedule that it follows.

    Losses before its first step and after its last are left out, which `Curves.notes` says.

    Parameters
    ----------
    log : Runs
        With `run`, `step` and `loss`, as `import_runs` returns it; learning rates need not be logged.
    schedule : Schedule
        The rates of the whole phase.
    start : Point, optional
        The state of the training before the phase; none for a new training.
    run : str, optional
        The run of the log, if it has several.
    phase, memory, power
        As for `bayeslaw.schedules.areas.trace`.

    Raises
    ------
    BayeslawError
        If the log has several runs and `run` names none of them, has no steps, no loss after step 0, or none within the schedule.
    """
    frame = log.frame
    if "step" not in frame:
        problem = f"{log.name} has no column of steps, by which losses are placed on the schedule"
        raise BayeslawError(
            f"{problem}: name it, such as --column step=COLUMN (columns={{'step': 'COLUMN'}}).", code="missing-column"
        )
    names = list(map(str, frame["run"].unique()))
    if run is None and len(names) > 1:
        raise BayeslawError(f"{log.name} has {len(names)} runs ({listed(names)}): name one (run=…, --run).", code="several-runs")
    name = names[0] if run is None else run
    if name not in names:
        raise BayeslawError(f"{log.name} has no run {name!r}.{nearest(name, names)}", code="unknown-run")
    own = frame[frame["run"] == name].sort_values("step", kind="stable")
    rows = own[own["loss"].notna() & (own["step"] > 0)]
    if rows.empty:
        raise BayeslawError(f"{name} has no logged loss after step 0.", code="no-loss")
    if (first := int(rows["step"].min())) > len(schedule):
        message = f"The first loss of {name} is of step {first:,}, and the schedule ends at step {len(schedule):,}"
        raise BayeslawError(f"{message}: give the schedule that the run follows.", code="nothing-ahead")
    late, early = int((rows["step"] > len(schedule)).sum()), int((own["loss"].notna() & (own["step"] <= 0)).sum())
    rows, notes = rows[rows["step"] <= len(schedule)], list(log.conversions)
    for count, where in ((early, "before the first step"), (late, f"after step {len(schedule):,}, where the schedule ends,")):
        notes += [f"{counted(count, 'loss')} of {name} {where} {'is' if count == 1 else 'are'} left out"] if count else []
    steps = rows["step"].to_numpy(np.int64)
    areas, _ = trace(schedule, steps, start, phase=phase, memory=memory, power=power)
    rates = own[own["lr"].notna() & (own["step"] > 0)].drop_duplicates("step") if "lr" in own else own[:0].assign(lr=0.0)
    if rates.empty:
        rates = pd.DataFrame({"step": rows["step"], "lr": areas["lr"].to_numpy()})
    curve = Curve(name, phase, rates["step"].to_numpy(np.float64), rates["lr"].to_numpy(np.float64))
    of_run = rows.drop(columns=[c for c in areas if c in rows and c != "step"])
    whole = of_run.assign(**{str(c): areas[c].to_numpy() for c in areas if c != "step"}, phase=phase)
    return Curves(
        frame=numbered(whole), name=log.name, memory=memory, power=power, notes=tuple(notes), reference_batch=0.0,
        _curves={name: curve}, _schedules={name: schedule}, _starts={name: start},
    )  # fmt: skip
