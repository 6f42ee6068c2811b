"""Whole training curves: losses at any step of runs, under logged learning rates, in one phase or two.

Every loss gets the covariates of the laws of the dynamics (`phases.trace`): areas under its run's schedule so far, continued from
the run that it goes on from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, whole_number
from bayeslaw.data.curvechecks import ALIASES, MADE, TEXT, Curve, LossColumns, checked, loss_columns
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.schedules.areas import OPEN, POWER, Phase, Point, trace
from bayeslaw.schedules.changes import nodes as all_changes
from bayeslaw.schedules.schedule import MEMORY, Schedule, joined, logged

WIDE_GAP = 0.1  # change of the rate between two logged steps, as share of the peak, from which on it is told


@dataclass(frozen=True)
class Curves:
    """Losses along training runs, with the covariates of the laws of the dynamics.

    Attributes
    ----------
    frame : DataFrame
        One row a loss: `run`, `phase`, `parent`, `parent_step`, `step`, `loss` (nats/token), `domain` where there are several, what
        else the table has, and the columns of `phases.trace`: lr, lr_peak, S1_pt, S2_pt, S2w_pt, S1_cpt, S2_cpt, S2w_cpt, S1, S2,
        S2w. Rows of a new training's step 0 have S1 = 0; areas of an unknown pre-training are nan.
    name : str
        Where it came from.
    memory, power : float
        Those of the areas.
    remarks : tuple of str
        What was renamed, and what the areas take for granted: warm-ups, batches, rates between logged steps.
    """

    frame: pd.DataFrame
    name: str
    memory: float
    power: float
    remarks: tuple[str, ...] = ()
    _curves: Mapping[str, Curve] = field(default_factory=dict, repr=False)
    _schedules: Mapping[str, Schedule] = field(default_factory=dict, repr=False)
    _starts: Mapping[str, Point | None] = field(default_factory=dict, repr=False)

    @property
    def runs_names(self) -> tuple[str, ...]:
        """Names of the runs, in the table's order."""
        return tuple(self._curves)

    @property
    def domains(self) -> tuple[str, ...]:
        """Validation domains, in the table's order; none where the table names none."""
        return tuple(map(str, self.frame["domain"].unique())) if "domain" in self.frame else ()

    def runs(self, domain: str | None = None, phase: Phase | None = None, nodes: int = 0) -> Runs:
        """The losses of one domain, or of one phase, as a table to fit a law to; with so many nodes of the changes of the rate."""
        frame = self.frame
        if domain is not None:
            if domain not in self.domains:
                known = f"it has {', '.join(self.domains)}" if self.domains else "it names no domains"
                raise BayeslawError(f"{self.name} has no domain {domain!r}; {known}.{nearest(domain, self.domains)}")
            frame = frame[frame["domain"] == domain]
        if phase is not None:
            if phase not in set(frame["phase"]):
                raise BayeslawError(f"{self.name} has no losses of phase {phase!r}; it has {', '.join(frame['phase'].unique())}.")
            frame = frame[frame["phase"] == phase]
        return Runs(self._with_nodes(frame, nodes) if nodes else frame, self.name, self.remarks)

    def logged(self, run: str, domain: str | None = None) -> pd.DataFrame:
        """Rows of a run's losses, of one domain or all."""
        self.curve(run)
        frame = self.runs(domain).frame
        if (rows := frame[frame["run"] == run]).empty:
            raise BayeslawError(f"{run} has no logged loss" + (f" of {domain}." if domain else "."))
        return rows

    def _with_nodes(self, frame: pd.DataFrame, number: int) -> pd.DataFrame:
        parts = []
        for run, rows in frame.groupby("run", sort=False):
            phases = [schedule for _, schedule in self.whole(str(run))]
            before = joined(*phases[:-1]) if len(phases) > 1 else None
            made = all_changes(phases[-1], rows["step"].to_numpy(dtype=np.int64), before, number=number)
            parts.append(made.set_index(rows.index))
        return frame.join(pd.concat(parts))

    def curve(self, run: str) -> Curve:
        """What a run is: its phase, the run and step that it goes on from, the weight of its steps."""
        if run not in self._curves:
            raise BayeslawError(f"{self.name} has no run {run!r}.{nearest(run, self._curves)}")
        return self._curves[run]

    def schedule(self, run: str) -> Schedule:
        """Rates of a run's own steps."""
        self.curve(run)
        return self._schedules[run]

    def start(self, run: str) -> Point | None:
        """Where a training stands before a run's first step; None for a new one, as `phases.trace` takes it."""
        self.curve(run)
        return self._starts[run]

    def at(self, run: str, step: int | None = None) -> Point:
        """Where a run stands after a step of its own; after its last unless told."""
        curve, schedule = self.curve(run), self.schedule(run)
        step = len(schedule) if step is None else step
        whole_number("step", step, 0)
        if step > len(schedule):
            raise BayeslawError(f"{run} has {len(schedule)} steps; there is no step {step}.")
        if step == 0:
            if (start := self._starts[run]) is None:
                raise BayeslawError(f"{run} is a new training: at its step 0 it stands nowhere yet.")
            return start
        return _stand(curve, schedule, step, self._starts[run], self.memory, self.power)

    def whole(self, run: str) -> list[tuple[Phase, Schedule]]:
        """The run's phases from the first known step on: those of the runs that it goes on from, up to there, and its own."""
        curve = self.curve(run)
        found: list[tuple[Phase, Schedule]] = [(curve.phase, self.schedule(run))]
        while curve.parent is not None:
            schedule, step = self._schedules[curve.parent], curve.parent_step
            curve = self._curves[curve.parent]
            found.append((curve.phase, _cut(schedule, step)))
        return found[::-1]


def _cut(schedule: Schedule, step: int) -> Schedule:
    return schedule if step == len(schedule) else Schedule(schedule.rates[:step], schedule.name)


def _stand(curve: Curve, schedule: Schedule, step: int, start: Point | None, memory: float, power: float) -> Point:
    """Where a run stands after one of its steps: what comes later plays no part."""
    cut, last = _cut(schedule, step), np.array([step])
    return trace(cut, last, start, phase=curve.phase, memory=memory, power=power, weight=curve.weight)[1]


def read_curves(
    source: str | Path | pd.DataFrame,
    *,
    memory: float = MEMORY,
    power: float = POWER,
    warmup: int | Mapping[str, int] = 0,
    per: str = "step",
    tokens_per_step: float | None = None,
    run: str = "run",
    losses: Collection[str] | None = None,
) -> Curves:
    """Read a table of training curves and work out the areas under their schedules.

    Parameters
    ----------
    source : path or DataFrame
        As for `read_runs`. Columns: `run`; `step`, the run's own, from 0 (before its first step); `lr`, the learning rate of that
        step (may be empty at step 0); losses in nats/token as `loss`, with `domain` for several, or as one column for each domain,
        such as source_loss and target_loss, empty where there was no evaluation. Optional: `phase` (pretrain or adapt; adapt for
        runs with a parent unless told), `parent`, the run that this one goes on from, and `parent_step`, its step (its last
        unless told); `batch`, tokens of a step. A table without `run` is one run.
    memory : float
        lambda of the annealing area.
    power : float
        epsilon of the LR-weighted annealing area S2w.
    warmup : int or mapping
        Steps of a linear warm-up from 0 before the first logged step: of all trainings that are new and whose log begins later
        than at step 1; or for runs by name. Else the rates before are taken to be the first logged one.
    per : {'step', 'token'}
        What areas count: every step the same, or in proportion to its batch. Wang et al. (2025, app. F) fit phases of different
        batches per step.
    tokens_per_step : float, optional
        The batch whose steps count 1, for per='token'; that of the table's first run unless told.
    run : str
        The column that names the runs, if it is another.
    losses : collection of str, optional
        The columns of losses, one for each domain; `train_loss` counts only if it is named here.

    Raises
    ------
    TableError
        With every fault of the table.
    BayeslawError
        If the table can't be read or an argument can't be used.
    """
    if per not in ("step", "token"):
        raise BayeslawError(f"per is {per!r}; areas count per 'step' or per 'token'.")
    table = read_runs(source, strict=False, aliases=ALIASES, text=[*TEXT, run])
    frame, remarks = _with_runs(table, run)
    columns = loss_columns(frame, table.name, losses)
    curves = checked(frame, columns, table.unread, table.name, warmup)
    if per == "token":
        curves = _weighted(curves, str(frame["run"].dropna().iloc[0]), tokens_per_step, table.name)
    elif tokens_per_step is not None:
        raise BayeslawError("tokens_per_step is the batch whose steps count 1, for per='token'.")
    else:
        remarks += _unlike_batches(curves)
    long = _long(frame, columns)
    schedules: dict[str, Schedule] = {}
    starts: dict[str, Point | None] = {}
    parts = []
    for name, curve in curves.items():  # parents come first
        if curve.parent is None:
            start = None if curve.phase == "pretrain" else OPEN
        else:
            parent = curves[curve.parent]
            start = _stand(parent, schedules[parent.run], curve.parent_step, starts[parent.run], memory, power)
        schedule, said = _schedule(curve, curves, start)
        schedules[name], starts[name] = schedule, start
        rows = long[long["run"] == name]
        steps = rows["step"].to_numpy().astype(np.int64)
        made, _ = trace(schedule, steps, start, phase=curve.phase, memory=memory, power=power, weight=curve.weight)
        parts.append(made.drop(columns="step").set_index(rows.index))
        remarks += said
    areas = pd.concat(parts).reindex(long.index)
    first = ["run", "phase", "parent", "parent_step", "step", *(["domain"] if "domain" in long else []), "loss"]
    rest = [c for c in long if c not in (*first, *areas)]
    own = pd.DataFrame({c: long["run"].map({n: getattr(k, c) for n, k in curves.items()}) for c in ("phase", "parent")})
    asked = long["run"].map({n: k.parent_step for n, k in curves.items() if k.parent is not None}).astype(np.float64)
    whole = pd.concat([long.assign(**own, parent_step=asked)[[*first, *rest]], areas], axis=1)
    whole.index = pd.RangeIndex(1, len(whole) + 1, name="row")
    remarks += _open(curves)
    order = [str(n) for n in frame["run"].dropna().unique()]
    by_order = {n: curves[n] for n in order}
    return Curves(whole, table.name, memory, power, tuple(remarks), by_order, schedules, starts)


def _with_runs(table: Runs, run: str) -> tuple[pd.DataFrame, list[str]]:
    """The table with its column `run`, and what was renamed."""
    frame, said = table.frame, [f"read: {c}" for c in table.conversions]
    if taken := [c for c in MADE if c in frame]:
        mend = "give the curves without it, or rename it"
        raise TableError([Fault(None, c, "", f"column {c} is worked out from lr", mend) for c in taken], table.name)
    if run != "run":
        if run not in frame:
            raise BayeslawError(f"{table.name} has no column {run!r} to name its runs.{nearest(run, map(str, frame))}")
        return frame.assign(run=frame[run]), [*said, f"read: run = {run}"]
    if "run" not in frame:
        return frame.assign(run="run"), [*said, "the table names no runs and is taken for one"]
    return frame, said


def _schedule(curve: Curve, curves: Mapping[str, Curve], start: Point | None) -> tuple[Schedule, list[str]]:
    """Rates of every step of a run from those logged, and what was taken for granted."""
    steps, rates, said = curve.logged_steps, curve.logged_rates, list[str]()
    first = int(steps[0])
    same = curve.parent is not None and curves[curve.parent].phase == curve.phase
    if same and start is not None and first > 1 and not curve.warmup:
        steps, rates = np.append(0, steps), np.append(start.last.rate, rates)  # the phase goes on from a known rate
    elif first > 1 and curve.warmup:
        said.append(f"{curve.run}: a warm-up of {curve.warmup} steps from 0 is assumed before its first logged step, {first}")
    elif first > 1:
        said.append(f"{curve.run}: rates before its first logged step, {first}, are taken to be {rates[0]:g} as there; see warmup")
    gaps, change = np.diff(steps), np.abs(np.diff(rates))
    wide = np.flatnonzero((gaps > 1) & (change > WIDE_GAP * rates.max()))
    if wide.size:
        i = int(wide[change[wide].argmax()])
        more = f", and in {wide.size - 1} more gaps" if wide.size > 1 else ""
        said.append(
            f"{curve.run}: rates between logged steps are straight lines, such as from {rates[i]:g} at step {steps[i]:g} to "
            f"{rates[i + 1]:g} at step {steps[i + 1]:g}{more}"
        )
    if curve.parent is not None and (parent := curves[curve.parent]).parent is None and parent.phase == "pretrain":
        peak = int(parent.logged_steps[parent.logged_rates.argmax()])
        if curve.parent_step < peak:
            said.append(
                f"{curve.run}: it goes on from step {curve.parent_step} of {parent.run}, whose highest rate comes at step {peak}; "
                "what is left of the rise counts as annealing backwards"
            )
    return logged(steps, rates, warmup=curve.warmup, name=curve.run), said


def _weighted(curves: Mapping[str, Curve], first: str, reference: float | None, name: str) -> dict[str, Curve]:
    """Curves whose steps count in proportion to their batches, those of the first run 1 unless told otherwise."""
    if without := [c.run for c in curves.values() if not np.isfinite(c.batch)]:
        raise BayeslawError(f"{name}: areas per token need a column batch (tokens of a step) for every run; {without[0]} has none.")
    unit = curves[first].batch if reference is None else reference
    if not (np.isfinite(unit) and unit > 0):
        raise BayeslawError(f"tokens_per_step is {unit:g}; it must be positive.")
    return {n: c.with_weight(c.batch / unit) for n, c in curves.items()}


def _unlike_batches(curves: Mapping[str, Curve]) -> list[str]:
    """Which batches differ between runs, where areas count every step the same."""
    sizes = {c.run: c.batch for c in curves.values() if np.isfinite(c.batch)}
    if len(set(sizes.values())) < 2:
        return []
    pairs = [(c, curves[c.parent]) for c in curves.values() if c.parent is not None and c.batch != curves[c.parent].batch]
    if pairs:
        one, parent = pairs[0]
        what = f"{one.run} has steps of {one.batch:g} tokens and goes on from {parent.run} with {parent.batch:g}"
    else:
        low, high = min(sizes, key=lambda n: sizes[n]), max(sizes, key=lambda n: sizes[n])
        what = f"{low} has steps of {sizes[low]:g} tokens and {high} of {sizes[high]:g}"
    return [f"batches differ ({what}) and every step counts the same; per='token' weighs steps by their tokens"]


def _open(curves: Mapping[str, Curve]) -> list[str]:
    found = [c.run for c in curves.values() if c.parent is None and c.phase == "adapt"]
    if not found:
        return []
    shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
    return [f"adaptations of unknown pre-training ({shown}): S1_pt and S2_pt are empty, and its last rate is taken to be 0"]


def _long(frame: pd.DataFrame, columns: LossColumns) -> pd.DataFrame:
    """One row for each loss."""
    if columns.domains is None:
        return frame[frame["loss"].notna()]
    parts = [frame.drop(columns=list(columns.names)).assign(domain=d, loss=frame[c]) for d, c in columns.domains.items()]
    long = pd.concat(parts).astype({"domain": object})
    return long[long["loss"].notna()].reset_index(drop=True)
