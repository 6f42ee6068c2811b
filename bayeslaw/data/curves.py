"""Tables of training curves: losses at any step of runs, under logged learning rates, in one phase or two.

`read_curves` gives every loss the covariates of the laws of the dynamics (`bayeslaw.schedules.areas.trace`): areas under its run's
schedule up to its step, continued from the run that it goes on from. `curve_checks` finds the faults of a table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened, whole_number
from bayeslaw.core.own_table import owns
from bayeslaw.core.text import listed
from bayeslaw.data.curve_checks import Curve, checked, loss_columns
from bayeslaw.data.files import numbered
from bayeslaw.data.table import Runs, read_table
from bayeslaw.schedules.areas import OPEN, POWER, Phase, Point, trace
from bayeslaw.schedules.changes import MOST_NODES
from bayeslaw.schedules.changes import nodes as all_changes
from bayeslaw.schedules.schedule import MEMORY, Schedule, joined, logged

DERIVED = ("lr_peak", *(f"{area}{part}" for area in ("S1", "S2", "S2w") for part in ("_pt", "_cpt", "")))
# Columns that say how areas were computed: the areas that depend on each, the number below which it lies, and the code of the error
# where one table has several values.
ABOUT_AREAS = {
    "memory": ("S2", 1.0, "several-memories"), "power": ("S2w", np.inf, "several-powers"),
    "reference_batch": ("S1", np.inf, "several-batches"),
}  # fmt: skip
WIDE_GAP = 0.1  # we report gaps between logged steps in which the rate changes by more than this share of the peak


@owns("frame")
@dataclass(frozen=True, eq=False)
class Curves:
    """Losses along training runs, with the covariates of the laws of the dynamics.

    Attributes
    ----------
    frame : DataFrame
        One row a loss: `run`, `phase`, `parent`, `parent_step`, `step`, `loss` (nats/token), `domain` where there are several, the
        table's other columns, and those of `bayeslaw.schedules.areas.trace`: lr, lr_peak, S1_pt, S2_pt, S2w_pt, S1_cpt, S2_cpt,
        S2w_cpt, S1, S2, S2w. Rows at step 0 of a new training have S1 = 0; areas of an unknown pre-training are nan. It is a copy:
        to change it does not change the curves.
    memory, power : float
        lambda and epsilon of the areas.
    reference_batch : float
        Tokens of a batch whose steps count 1 in the areas, where these count tokens; 0 where every step counts 1.
    notes : tuple of str
        Renamed columns, and what the areas assume: warm-ups, batches, rates between logged steps.

    Examples
    --------
    >>> curves = bayeslaw.data.read_curves("curves.csv")
    >>> curves.domains
    ('source', 'target')
    >>> curves.at(curves.run_names[0]).last.rate >= 0
    True
    """

    frame: pd.DataFrame
    name: str
    memory: float
    power: float
    notes: tuple[str, ...]
    reference_batch: float
    _curves: Mapping[str, Curve] = field(repr=False)
    _schedules: Mapping[str, Schedule] = field(repr=False)
    _starts: Mapping[str, Point | None] = field(repr=False)

    @property
    def run_names(self) -> tuple[str, ...]:
        """Names of the runs, in the table's order."""
        return tuple(self._curves)

    @property
    def domains(self) -> tuple[str, ...]:
        """Validation domains, in the table's order; none where the table names none."""
        return tuple(map(str, self.frame["domain"].unique())) if "domain" in self.frame else ()

    def runs(self, domain: str | None = None, phase: Phase | None = None, nodes: int = 0) -> Runs:
        """Return losses as a table to which a law can be fitted.

        Parameters
        ----------
        domain, phase : str and {'pretrain', 'adapt'}, optional
            Only losses of this domain, or of this phase.
        nodes : int
            Add the columns of this many nodes of the rate's changes; see `bayeslaw.schedules.changes.nodes`.
        """
        frame = self.frame
        if domain is not None:
            if domain not in self.domains:
                known = f"it has {', '.join(self.domains)}" if self.domains else "it names no domains"
                message = f"{self.name} has no domain {domain!r}; {known}.{nearest(domain, self.domains)}"
                raise BayeslawError(message, code="unknown-domain")
            frame = frame[frame["domain"] == domain]
        if phase is not None:
            if phase not in set(frame["phase"]):
                known = ", ".join(frame["phase"].unique())
                raise BayeslawError(f"{self.name} has no losses of phase {phase!r}; it has {known}.", code="unknown-phase")
            frame = frame[frame["phase"] == phase]
        return Runs(self._with_nodes(frame, nodes) if nodes else frame, self.name, self.notes)

    def logged(self, run: str, domain: str | None = None) -> pd.DataFrame:
        """Return the rows of a run's losses, of one domain or all."""
        self.curve(run)
        frame = self.runs(domain).frame
        if (rows := frame[frame["run"] == run]).empty:
            raise BayeslawError(f"{run} has no logged loss" + (f" of {domain}." if domain else "."), code="no-loss")
        return rows

    def curve(self, run: str) -> Curve:
        """Return a run's phase, the run and step that it goes on from, and the weight of its steps."""
        if run not in [*self._curves]:
            raise BayeslawError(f"{self.name} has no run {run!r}.{nearest(run, self._curves)}", code="unknown-run")
        return self._curves[run]

    def schedule(self, run: str) -> Schedule:
        """Return the rates of a run's own steps."""
        self.curve(run)
        return self._schedules[run]

    def start(self, run: str) -> Point | None:
        """Return the state of the training before a run's first step, as `bayeslaw.schedules.areas.trace` takes it; None if new."""
        self.curve(run)
        return self._starts[run]

    def at(self, run: str, step: int | None = None) -> Point:
        """Return the state of the training after a run's own step; after its last by default."""
        curve, schedule = self.curve(run), self.schedule(run)
        step = len(schedule) if step is None else step
        step = whole_number("step", step, 0)
        if step > len(schedule):
            raise BayeslawError(f"{run} has {len(schedule)} steps; there is no step {step}.", code="unknown-step")
        start = self._starts[run]
        if step > 0:
            return _state(curve, schedule, step, start, self.memory, self.power)
        if start is None:
            message = f"{run} is a new training, which has no state before its first step: give a step from 1."
            raise BayeslawError(message, code="no-state-at-step-0")
        return start

    def phases(self, run: str) -> list[tuple[Phase, Schedule]]:
        """Return a run's phases from the first known step on: those of the runs that it goes on from, up to there, and its own."""
        return [(curve.phase, schedule) for curve, schedule in self._line(run)]

    def weights(self, run: str) -> list[float]:
        """Return the weight of a step in each of a run's `phases`: 1, or where areas count tokens that of its batch."""
        return [curve.weight for curve, _ in self._line(run)]

    def _line(self, run: str) -> list[tuple[Curve, Schedule]]:
        """Return the runs that a run goes on from, with their rates up to there, and itself, the first first."""
        curve = self.curve(run)
        line = [(curve, self.schedule(run))]
        while curve.parent is not None:
            schedule, step = self._schedules[curve.parent], curve.parent_step
            curve = self._curves[curve.parent]
            line.append((curve, Schedule(schedule.rates[:step], schedule.name)))
        return line[::-1]

    def _with_nodes(self, frame: pd.DataFrame, number: int) -> pd.DataFrame:
        whole_number("nodes", number, 4, MOST_NODES)
        parts = []
        for run, rows in frame.groupby("run", sort=False):
            schedules = [schedule for _, schedule in self.phases(str(run))]
            before = joined(*schedules[:-1]) if len(schedules) > 1 else None
            changes = all_changes(schedules[-1], rows["step"].to_numpy(dtype=np.int64), before, number=number)
            parts.append(changes.set_index(rows.index))
        return frame.join(pd.concat(parts))


def read_curves(
    source: str | Path | pd.DataFrame,
    *,
    memory: float = MEMORY,
    power: float = POWER,
    warmup: int | Mapping[str, int] = 0,
    per: str = "step",
    tokens_per_step: float | None = None,
    steps: str | None = None,
    run: str = "run",
    losses: Collection[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Curves:
    """Read a table of training curves and compute the areas under their schedules.

    Parameters
    ----------
    source : path or DataFrame
        As in `read_runs`. Columns: `run`; `step`, from 0 before a run's first step; `lr`, the learning rate of that step, which may
        be empty at step 0, between steps that have one, and up to one such step after the last, whose rate is taken; losses in
        nats/token as `loss`, with `domain` for several, or as one column for each domain, such as source_loss and target_loss,
        empty where there was no evaluation. Optional: `phase` (pretrain or adapt; by default adapt for runs with a parent),
        `parent`, the run that this one goes on from, and `parent_step`, its step (by default its last); `batch`, tokens of a step.
        A table without `run` is one run.
    memory, power : float
        lambda of the annealing area, and epsilon of the LR-weighted annealing area S2w.
    warmup : int or mapping
        Steps of a linear warm-up from 0 before the first logged step: of all new trainings whose log begins after step 1, or of
        runs by name. Without it, the rates before that step are assumed to equal the first logged one.
    per : {'step', 'token'}
        Whether every step counts the same in the areas, or in proportion to its batch. Wang et al. (2025, app. F) fit phases of
        different batches per step.
    tokens_per_step : float, optional
        The batch whose steps count 1, for per='token'; by default that of the table's first run.
    steps : {'own', 'continued'}, optional
        Whether steps of a run with a parent count from its own start, or go on from the step of its parent, as those of a trainer
        that resumes a checkpoint do; then `parent_step` counts so too. By default they are its own, and tables in which they seem
        to go on are refused.
    run : str
        The column that names the runs.
    losses : collection of str, optional
        The columns of losses, one for each domain; `train_loss` counts only if it is named here.
    columns : mapping, optional
        Our name to the table's column, as in `read_runs`.

    Raises
    ------
    BayeslawError
        If the table can't be read or an argument can't be used; TableError with every fault of the table.

    Examples
    --------
    >>> curves = bayeslaw.data.read_curves("curves.csv")
    >>> {"S1", "S2", "lr_peak"} <= set(curves.runs("target").frame)
    True
    """
    if per not in ("step", "token"):
        raise BayeslawError(f"per is {per!r}; areas count per 'step' or per 'token'.", code="unknown-option")
    if not isinstance(run, str):
        raise BayeslawError(f"run is the name of the column that names the runs, not {run!r}.", code="not-a-text")
    if steps not in ("own", "continued", None):
        raise BayeslawError(f"steps is {steps!r}; steps of a run are its 'own' or 'continued'.", code="unknown-option")
    table = read_table(source, "curves", names=[run], columns=columns)
    frame, notes = _with_runs(table, run)
    if steps == "continued":
        frame = _with_own_steps(frame, table.name)
    frame, assumed = _with_last_rates(frame)
    notes += assumed
    columns = loss_columns(frame, table.name, losses)
    curves = checked(frame, columns, table.unread, table.name, warmup, steps)
    reference = 0.0
    if per == "token":
        curves, reference = _weighted(curves, str(frame["run"].dropna().iloc[0]), tokens_per_step, table.name)
    elif tokens_per_step is not None:
        message = "tokens_per_step is the batch whose steps count 1: give it with per='token'."
        raise BayeslawError(message, code="option-without-use")
    else:
        notes += _uneven_batches(curves)
    long = _long(frame, columns)
    areas, schedules, starts, assumed = _areas(curves, long, memory, power)
    notes += assumed
    by_order = {str(n): curves[str(n)] for n in frame["run"].dropna().unique()}
    about = {"memory": memory, "power": power, "reference_batch": reference}
    whole = _arranged(long, areas, curves).assign(**about)
    return Curves(
        frame=whole, name=table.name, memory=memory, power=power, notes=tuple(notes), reference_batch=reference, _curves=by_order,
        _schedules=schedules, _starts=starts,
    )  # fmt: skip


def _with_runs(table: Runs, run: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with its column `run`, and notes of the renamed columns."""
    frame, notes = table.frame, [f"read: {c}" for c in table.conversions]
    problems = dict.fromkeys(DERIVED, "column {} is computed from lr")
    problems |= dict.fromkeys(ABOUT_AREAS, "column {} is written here: it says how areas are computed")
    if written := [c for c in problems if c in frame]:
        suggestion = "give the curves without it, or rename it"
        faults = [Fault(None, c, "", problems[c].format(c), suggestion, "derived-column") for c in written]
        raise TableError(faults, table.name)
    if run != "run":
        if run not in frame:
            message = f"{table.name} has no column {run!r} to name its runs.{nearest(run, map(str, frame))}"
            raise BayeslawError(message, code="missing-column")
        return frame.assign(run=frame[run]), [*notes, f"read: run = {run}"]
    if "run" not in frame:
        return frame.assign(run="run"), [*notes, "the table names no runs and is read as one run"]
    return frame, notes


def _with_own_steps(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the table with steps, and steps of parents, that count from each run's own start and not from its ancestors'."""
    numbers = [holds_numbers(frame[c]) for c in ("step", "parent_step") if c in frame]
    if "parent" not in frame or "step" not in frame or not all(numbers):
        return frame  # what is wrong with it is found later
    of_runs = frame.groupby("run", sort=False)
    parents, last = of_runs["parent"].first().dropna(), of_runs["step"].max()
    begins = parents.map(last)
    if "parent_step" in frame:
        begins = of_runs["parent_step"].first()[parents.index].fillna(begins)
    before = frame["run"].map(begins)
    if (early := frame["step"] < before).any():
        row = int(frame.index[early][0])
        step, run = f"{float(frame['step'][row]):g}", shortened(repr(str(frame["run"][row])))
        problem = f"run {run} has step {step}, before step {float(before[row]):g} of its parent"
        fault = Fault(row, "step", step, problem, "give the step from which it goes on as parent_step", "before-parent")
        raise TableError([fault], name)
    given = frame["parent_step"] if "parent_step" in frame else pd.Series(np.nan, index=frame.index)
    own = before - frame["run"].map(parents.map(begins)).fillna(0.0)
    return frame.assign(step=frame["step"] - before.fillna(0.0), parent_step=own.fillna(given))


def _with_last_rates(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with each run's last rate also at the steps after it that are no further on than a step is logged.

    Programs evaluate once more after the last step, such as llm.c at step 19,560 of 19,560, and log no rate then.
    """
    if not all(c in frame and holds_numbers(frame[c]) for c in ("step", "lr")):
        return frame, []  # what is wrong with it is found later
    rates, notes = frame["lr"].copy(), list[str]()
    for run, rows in frame.groupby("run", sort=False):
        rated = rows[rows["lr"].notna()].drop_duplicates("step").sort_values("step")
        last, spacing = rated["step"].max(), rated["step"].diff().median()  # nan for fewer than two rates
        late = rows[(rows["step"] > last) & (rows["step"] <= last + spacing)]
        if len(late):
            rates[late.index] = rate = rated["lr"].iloc[-1]
            end = late["step"].max()
            notes.append(f"{run}: no rate is logged after step {last:g}; that step's, {rate:g}, is taken up to step {end:g}")
    return frame.assign(lr=rates), notes


def _long(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return one row for each loss."""
    if list(columns.values()) == [""]:
        return frame[frame["loss"].notna()]
    parts = [frame.drop(columns=list(columns)).assign(domain=domain, loss=frame[c]) for c, domain in columns.items()]
    long = pd.concat(parts).astype({"domain": object})
    return long[long["loss"].notna()].reset_index(drop=True)


def _areas(
    curves: Mapping[str, Curve], long: pd.DataFrame, memory: float, power: float
) -> tuple[pd.DataFrame, dict[str, Schedule], dict[str, Point | None], list[str]]:
    """Return the areas at each loss, the schedule and the start of each run, and notes of what these assume."""
    of_runs = {str(name): rows for name, rows in long.groupby("run", sort=False)}
    schedules, starts, parts, notes = dict[str, Schedule](), dict[str, Point | None](), list[pd.DataFrame](), list[str]()
    for name, curve in curves.items():  # parents come first
        start = None if curve.phase == "pretrain" else OPEN
        if curve.parent is not None:
            parent = curves[curve.parent]
            start = _state(parent, schedules[parent.run], curve.parent_step, starts[parent.run], memory, power)
        schedules[name], assumed = _schedule(curve, curves, start)
        starts[name] = start
        rows = of_runs.get(name, long[:0])
        at = rows["step"].to_numpy().astype(np.int64)
        areas, _ = trace(schedules[name], at, start, phase=curve.phase, memory=memory, power=power, weight=curve.weight)
        parts.append(areas.drop(columns="step").set_index(rows.index))
        notes += assumed
    if unknown := [c.run for c in curves.values() if c.parent is None and c.phase == "adapt"]:
        shown = listed(unknown, 3)
        notes.append(
            f"adaptations of unknown pre-training ({shown}): S1_pt and S2_pt are empty, and its last rate is assumed to be 0"
        )
    return pd.concat(parts).reindex(long.index), schedules, starts, notes


def _schedule(curve: Curve, curves: Mapping[str, Curve], start: Point | None) -> tuple[Schedule, list[str]]:
    """Return the rates of every step of a run from the logged ones, and notes of what this assumes."""
    steps, rates, notes = curve.logged_steps, curve.logged_rates, list[str]()
    first = int(steps[0])
    parent = None if curve.parent is None else curves[curve.parent]
    if first > 1 and curve.warmup:
        notes.append(f"{curve.run}: a warm-up of {curve.warmup} steps from 0 is assumed before its first logged step, {first}")
    elif first > 1 and parent is not None and parent.phase == curve.phase and start is not None:
        steps, rates = np.append(0, steps), np.append(start.last.rate, rates)  # the phase goes on from a known rate
    elif first > 1:
        notes.append(
            f"{curve.run}: rates before its first logged step, {first}, are assumed to equal that step's, {rates[0]:g}; if they "
            "rose from 0, say over how many steps (--warmup, warmup=)"
        )
    if rates.max() == 1:
        notes.append(
            f"{curve.run}: its highest rate is 1; if rates are shares of the highest, give that, such as --column lr=COLUMN:3e-4 "
            "(columns={'lr': 'COLUMN:3e-4'})"
        )
    gaps, change = np.diff(steps), np.abs(np.diff(rates))
    wide = np.flatnonzero((gaps > 1) & (change > WIDE_GAP * rates.max()))
    if wide.size:
        i = int(wide[change[wide].argmax()])
        more = f", and in {wide.size - 1} more gaps" if wide.size > 1 else ""
        notes.append(
            f"{curve.run}: rates between logged steps are straight lines, such as from {rates[i]:g} at step {steps[i]:g} to "
            f"{rates[i + 1]:g} at step {steps[i + 1]:g}{more}"
        )
    if parent is not None and parent.parent is None and parent.phase == "pretrain":
        peak = int(parent.logged_steps[parent.logged_rates.argmax()])
        if curve.parent_step < peak:
            notes.append(
                f"{curve.run}: it goes on from step {curve.parent_step} of {parent.run}, whose highest rate comes at step {peak}; "
                "the rest of the rise counts as negative annealing"
            )
    return logged(steps, rates, warmup=curve.warmup, name=curve.run), notes


def _state(curve: Curve, schedule: Schedule, step: int, start: Point | None, memory: float, power: float) -> Point:
    """Return the state of a training after one of a run's steps; later steps do not matter."""
    cut = Schedule(schedule.rates[:step], schedule.name)
    return trace(cut, np.array([step]), start, phase=curve.phase, memory=memory, power=power, weight=curve.weight)[1]


def _weighted(curves: Mapping[str, Curve], first: str, reference: float | None, name: str) -> tuple[dict[str, Curve], float]:
    """Return curves whose steps count in proportion to their batches, and the batch whose steps count 1: by default the first."""
    if without := [c.run for c in curves.values() if not np.isfinite(c.batch)]:
        message = f"{name}: areas per token need a column batch (tokens of a step) for every run; {without[0]} has none."
        raise BayeslawError(message, code="missing-batch")
    unit = curves[first].batch if reference is None else reference
    if not 0 < unit < np.inf:
        raise BayeslawError(f"tokens_per_step is {unit:g}; it must be positive.", code="not-positive")
    return {n: replace(c, weight=c.batch / unit) for n, c in curves.items()}, float(unit)


def _uneven_batches(curves: Mapping[str, Curve]) -> list[str]:
    """Note that batches differ between runs although every step counts the same."""
    sizes = {c.run: c.batch for c in curves.values() if np.isfinite(c.batch)}
    if len(set(sizes.values())) < 2:
        return []
    low, high = min(sizes, key=lambda n: sizes[n]), max(sizes, key=lambda n: sizes[n])
    example = f"{low} has steps of {sizes[low]:g} tokens and {high} of {sizes[high]:g}"
    return [f"batches differ ({example}) and every step counts the same; --per token (per='token') weighs steps by their tokens"]


def _arranged(long: pd.DataFrame, areas: pd.DataFrame, curves: Mapping[str, Curve]) -> pd.DataFrame:
    """Return losses and areas as one table, what says which loss it is first."""
    first = ["run", "phase", "parent", "parent_step", "step", *(["domain"] if "domain" in long else []), "loss"]
    rest = [c for c in long if c not in (*first, *areas)]
    own = pd.DataFrame({c: long["run"].map({n: getattr(k, c) for n, k in curves.items()}) for c in ("phase", "parent")})
    after = long["run"].map({n: k.parent_step for n, k in curves.items() if k.parent is not None}).astype(np.float64)
    return numbered(pd.concat([long.assign(**own, parent_step=after)[[*first, *rest]], areas], axis=1))
