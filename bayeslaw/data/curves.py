"""What is wrong with a table of training curves, every fault at once; and the runs that it holds, parents first.

Whole training curves: losses at any step of runs, under logged learning rates, in one phase or two.

Every loss gets the covariates of the laws of the dynamics (`phases.trace`): areas under its run's schedule so far, continued from
the run that it goes on from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened, whole_number
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import check_loss
from bayeslaw.schedules.areas import OPEN, POWER, Phase, Point, trace
from bayeslaw.schedules.changes import nodes as all_changes
from bayeslaw.schedules.schedule import HIGHEST, MEMORY, MOST_STEPS, Schedule, joined, logged

# Columns of numbers that curves have besides those of runs, with their other names, and columns of names.
ALIASES: dict[str, dict[str, float]] = {
    "step": {"steps": 1, "global_step": 1, "train/global_step": 1, "iteration": 1, "iter": 1},
    "lr": {"learning_rate": 1, "train/learning_rate": 1, "train/lr": 1, "eta": 1},
    "batch": {"tokens_per_step": 1, "batch_tokens": 1, "batch_size_tokens": 1},
    "parent_step": {"branch_step": 1, "from_step": 1},
}
TEXT = ("phase", "parent")
MADE = ("lr_peak", *(f"{area}{part}" for area in ("S1", "S2", "S2w") for part in ("_pt", "_cpt", "")))
PHASES = ("pretrain", "adapt")
SAME = 1e-6  # relative: two rates logged for one step of a run are one


@dataclass(frozen=True)
class Curve:
    """One run of a table of curves.

    Attributes
    ----------
    run : str
    phase : {'pretrain', 'adapt'}
    logged_steps, logged_rates : arrays
        Steps with a learning rate, and these.
    parent : str or None
        The run that it goes on from.
    parent_step : int
        After which step of that.
    batch : float
        Tokens of a step; nan where not told.
    weight : float
        What a step counts in the areas.
    warmup : int
        Steps of a warm-up from 0 before the first logged one.
    """

    run: str
    phase: Phase
    logged_steps: NDArray[np.float64]
    logged_rates: NDArray[np.float64]
    parent: str | None = None
    parent_step: int = 0
    batch: float = np.nan
    weight: float = 1.0
    warmup: int = 0

    @property
    def last(self) -> int:
        """Its last logged step."""
        return int(self.logged_steps[-1])

    def with_weight(self, weight: float) -> Curve:
        """The same run with steps that count `weight`."""
        return replace(self, weight=weight)


@dataclass(frozen=True)
class LossColumns:
    """Where the losses stand: in a column `loss` (`domains` is None), or in one column for each domain."""

    names: tuple[str, ...]
    domains: Mapping[str, str] | None = None


def loss_columns(frame: pd.DataFrame, name: str, asked: Collection[str] | None) -> LossColumns:
    """Find the columns of losses, or take those asked for.

    Raises
    ------
    BayeslawError
        If there are none, `loss` stands beside others, or one asked for is missing.
    """
    given = [str(c) for c in frame]
    wide = [c for c in given if c.endswith("_loss") and c != "train_loss"]
    if asked is not None:
        if isinstance(asked, str) or not asked:
            raise BayeslawError(f"losses is {asked!r}; give a list of columns, such as ['source_loss'].")
        for column in asked:
            if column not in frame:
                raise BayeslawError(f"{name} has no column {column!r}.{nearest(column, given)}")
        wide = [] if list(asked) == ["loss"] else list(asked)
    elif "loss" in frame and wide:
        raise BayeslawError(f"{name} has a column loss and {', '.join(wide)}: say by losses which to take, such as ['loss'].")
    elif "loss" not in frame and not wide:
        hint = " train_loss is the noisy loss of single batches and counts only if asked for by losses=['train_loss']."
        raise BayeslawError(
            f"{name} has no losses: it needs a column loss, or one for each domain such as source_loss."
            + (hint if "train_loss" in frame else "")
        )
    if not wide:
        return LossColumns(("loss",))
    if "domain" in frame:
        raise BayeslawError(f"{name} has a column domain and losses of several in columns {', '.join(wide)}: keep one way to tell.")
    return LossColumns(tuple(wide), {c.removesuffix("_loss"): c for c in wide})


def checked(
    frame: pd.DataFrame, columns: LossColumns, unread: Iterable[Fault], name: str, warmup: int | Mapping[str, int]
) -> dict[str, Curve]:
    """The runs of a table, parents before those that go on from them.

    Raises
    ------
    TableError
        With every fault of the table.
    """
    sound, faults = check_rates(frame, columns, name)
    faults += _losses(frame, columns)
    curves, after, wrong = _runs(frame, sound)
    faults += wrong
    ordered, wrong = _family(frame, curves, after)
    faults += wrong
    refuse(faults, unread, name)
    return _warmed(ordered, warmup, name)


def check_rates(frame: pd.DataFrame, columns: LossColumns, name: str) -> tuple[pd.DataFrame, list[Fault]]:
    """The rows of a table with `run`, `step` and `lr` that have a run and a step, and what is wrong with these and with rates.

    Raises
    ------
    TableError
        If the columns aren't there or hold no numbers, which leaves nothing to look at.
    """
    given = [str(c) for c in frame]
    if missing := [c for c in ("step", "lr") if c not in frame]:
        suggestion = f"every row needs run, step and lr; there are {', '.join(given)}"
        raise TableError([Fault(None, c, "", f"column {c} is missing", f"{suggestion}.{nearest(c, given)}") for c in missing], name)
    if words := [c for c in ("step", "lr", "parent_step", "batch") if c in frame and frame[c].dtype.kind not in "fiu"]:
        raise TableError([Fault(None, c, "", f"column {c} holds no numbers", "they are needed there") for c in words], name)
    sound = frame[frame["run"].notna() & frame["step"].notna() & (frame["step"] >= 0)]
    sound = sound[sound["step"] == sound["step"].round()]
    again = list(_order(sound, columns))
    twice = {f.row for f in again}  # its rate is another's only because its step is
    return sound, [*_cells(frame), *again, *_rates(sound, twice)]


def refuse(faults: Iterable[Fault], unread: Iterable[Fault], name: str) -> None:
    """Raise the faults of a table, if any; of a cell that could not be read that is the only one."""
    read = {(f.row, f.column): f for f in unread}
    whole = [*read.values(), *(f for f in faults if (f.row, f.column) not in read)]
    if whole:
        raise TableError(sorted(whole, key=lambda f: (f.row is not None, f.row or 0)), name)


def _rows(frame: pd.DataFrame, column: str, bad: pd.Series, problem: str, suggestion: str) -> Iterable[Fault]:
    for row, number in zip(frame.index[bad], frame.loc[bad, column].to_numpy(np.float64), strict=True):
        value = "" if np.isnan(number) else f"{number:g}"
        yield Fault(int(row), column, value, problem.format(value=value), suggestion)


def _cells(frame: pd.DataFrame) -> Iterable[Fault]:
    """Cells that can't be what they should, each by itself."""
    for row in frame.index[frame["run"].isna()]:
        yield Fault(int(row), "run", "", "run is missing", "name the run, or remove the row")
    step, lr = frame["step"], frame["lr"]
    whole = "steps are whole numbers from 0, before a run's first step"
    yield from _rows(frame, "step", step.isna(), "step is missing", whole)
    yield from _rows(frame, "step", step < 0, "step {value} is negative", whole)
    yield from _rows(frame, "step", (step >= 0) & (step != step.round()), "step {value} is not a whole number", whole)
    yield from _rows(frame, "step", step > MOST_STEPS, "step {value} is more than a training has", "are these tokens, or times?")
    if "batch" in frame:
        yield from _rows(frame, "batch", frame["batch"] <= 0, "batch {value} is not positive", "give the tokens of a step")
    yield from _rows(frame, "lr", lr < 0, "lr {value} is negative", "give the learning rate of the step")
    suggestion = "give it as it is, such as 3e-4"
    yield from _rows(frame, "lr", lr > HIGHEST, "lr {value} is above 1: is it in units of 1e-4, or in percent?", suggestion)


def _losses(frame: pd.DataFrame, columns: LossColumns) -> Iterable[Fault]:
    """Impossible losses; a missing one is none, but there must be some."""
    told = False
    for column in columns.names:
        if frame[column].dtype.kind not in "fiu":
            yield Fault(None, column, "", f"column {column} holds no numbers", "losses are in nats/token")
            told = True
            continue
        some = frame.loc[frame[column].notna(), [column, *(["unit"] if "unit" in frame else [])]].rename(columns={column: "loss"})
        told |= bool(len(some))
        for fault in check_loss(some):
            yield replace(fault, column=column, problem=fault.problem.replace("loss", column, 1))
    if not told:
        names = ", ".join(columns.names)
        yield Fault(None, names, "", f"no row has a loss ({names})", "one may be missing, but not all")
    if columns.domains is None and "domain" in frame and frame["domain"].notna().any():
        for row in frame.index[frame["loss"].notna() & frame["domain"].isna()]:
            yield Fault(int(row), "domain", "", "domain is missing", "other losses name theirs")


def _order(frame: pd.DataFrame, columns: LossColumns) -> Iterable[Fault]:
    """Steps that don't increase along a run, or along one domain of it."""
    keys = [frame["run"]]
    if columns.domains is None and "domain" in frame:
        keys.append(frame["domain"].fillna(""))
    before = frame.groupby(keys, sort=False)["step"].shift()
    suggestion = "keep one row a step; of a resumed run keep one try, or give the resumed part a name, parent and parent_step"
    bad = frame["step"] <= before
    rows = frame[bad].assign(before=before[bad])
    for row, name, step, last in zip(rows.index, rows["run"], rows["step"], rows["before"], strict=True):
        how = "comes twice" if step == last else f"follows step {last:g}"
        problem = f"step {step:g} of run {shortened(repr(name))} {how}: was the run resumed?"
        yield Fault(int(row), "step", f"{step:g}", problem, suggestion)


def _rates(frame: pd.DataFrame, twice: set[int | None]) -> Iterable[Fault]:
    """Steps of a run without a rate, or with two."""
    group = frame.groupby(["run", "step"], sort=False)["lr"]
    low, high = group.transform("min"), group.transform("max")
    suggestion = "give the learning rate of every logged step (it may be empty at step 0 only)"
    yield from _rows(frame, "lr", low.isna() & (frame["step"] > 0), "lr is missing", suggestion)
    two = (high - low > SAME * high.abs()) & (frame["lr"] != group.transform("first")) & ~frame.index.isin(list(twice))
    yield from _rows(frame, "lr", two, "lr {value} is not that of other rows of the same run and step", "keep one")


def _runs(frame: pd.DataFrame, sound: pd.DataFrame) -> tuple[dict[str, Curve], dict[str, float], list[Fault]]:
    """The runs of a table by name, as far as each is one; and the steps of their parents that are given."""
    rated = sound[sound["lr"].notna()].drop_duplicates(["run", "step"]).sort_values("step", kind="stable")
    by_run = {str(n): g for n, g in rated.groupby("run", sort=False)}
    curves, after, faults = dict[str, Curve](), dict[str, float](), list[Fault]()
    for key, rows in frame.groupby("run", sort=False):
        name, at = str(key), int(rows.index[0])
        told = dict[str, Any]()
        for column in ("phase", "parent", "parent_step", "batch"):
            told[column], wrong = _one_value(rows, column, name)
            faults += wrong
        phase: Any = told["phase"] or ("pretrain" if told["parent"] is None else "adapt")
        if phase not in PHASES:
            suggestion = f"phases are {' and '.join(PHASES)}.{nearest(str(phase), PHASES)}"
            faults.append(Fault(at, "phase", str(phase), f"there is no phase {shortened(repr(phase))}", suggestion))
        own = by_run.get(name)
        if own is None or own["step"].iloc[-1] < 1:
            faults.append(Fault(at, "lr", "", f"run {shortened(repr(name))} has no learning rate of a step after 0", "log it"))
            continue
        if own["lr"].max() == 0:
            faults.append(Fault(at, "lr", "0", f"the learning rate of run {shortened(repr(name))} is 0 throughout", "log it"))
        if told["parent_step"] is not None:
            after[name] = float(told["parent_step"])
        steps, rates = own["step"].to_numpy(np.float64), own["lr"].to_numpy(np.float64)
        batch = np.nan if told["batch"] is None else float(told["batch"])
        curves[name] = Curve(name, phase, steps, rates, told["parent"], batch=batch)
    return curves, after, faults


def _one_value(rows: pd.DataFrame, column: str, run: str) -> tuple[Any, list[Fault]]:
    """What a run's rows say in a column, None where nothing; two different things are a fault."""
    values = list(rows[column].dropna().unique()) if column in rows else []
    if len(values) < 2:
        return (values[0] if values else None), []
    shown = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values[:3])
    suggestion = "keep one"
    if column in ("phase", "batch"):
        suggestion = "give the part after the change a run of its own, with its parent"
    second = int(rows.index[rows[column] == values[1]][0])
    problem = f"run {shortened(repr(run))} has {len(values)} values of {column} ({shown})"
    return values[0], [Fault(second, column, str(values[1]), problem, suggestion)]


def _family(frame: pd.DataFrame, curves: Mapping[str, Curve], after: Mapping[str, float]) -> tuple[dict[str, Curve], list[Fault]]:
    """Runs with parents found and before their children, and phases that don't join."""
    first = frame[frame["run"].notna()].drop_duplicates("run")
    rows = {str(n): int(r) for n, r in zip(first["run"], first.index, strict=True)}
    faults, found = list[Fault](), dict[str, Curve]()
    for name, curve in curves.items():
        found[name] = curve
        if curve.parent is None:
            if name in after:
                suggestion = "name the run that it goes on from in column parent"
                faults.append(Fault(rows[name], "parent_step", f"{after[name]:g}", "parent_step without a parent", suggestion))
            continue
        parent = curve.parent if curve.parent in rows else curve.parent.removesuffix(".0")  # how pandas reads 7 beside nothing
        found[name] = replace(curve, parent=parent)
        if parent not in rows:
            problem = f"run {shortened(repr(name))} goes on from {shortened(repr(parent))}, and there is no such run"
            faults.append(Fault(rows[name], "parent", parent, problem, f"give its rows too.{nearest(parent, rows)}"))
        elif parent in curves:
            found[name], wrong = _joined(found[name], curves[parent], after.get(name), rows[name])
            faults += wrong
    return _ordered(found, rows, faults)


def _joined(curve: Curve, parent: Curve, after: float | None, row: int) -> tuple[Curve, list[Fault]]:
    """A run with the step of its parent that it goes on from."""
    faults, name, other = [], shortened(repr(curve.run)), shortened(repr(parent.run))
    if curve.phase == "pretrain" and parent.phase == "adapt":
        problem = f"run {name} is pre-training and goes on from {other}, an adaptation"
        faults.append(Fault(row, "parent", parent.run, problem, "give it phase adapt, or another parent"))
    step = parent.last if after is None else after
    first = int(parent.logged_steps[0])
    problem, suggestion = "", f"give a step of {parent.run}, {max(first, 1)} to {parent.last}"
    if step != round(step):
        problem = f"parent_step {step:g} of run {name} is not a whole number"
    elif step > parent.last:
        problem = f"run {name} goes on from step {step:g} of {other}, which ends at {parent.last}: the phases don't join"
    elif step < 1:
        problem = f"run {name} goes on from step {step:g} of {other}, before its first"
    elif step < first:
        problem = f"run {name} goes on from step {step:g} of {other}, whose first logged rate is of step {first}"
    if problem:
        faults.append(Fault(row, "parent_step", f"{step:g}", problem, suggestion))
    return replace(curve, parent_step=int(step)), faults


def _ordered(curves: Mapping[str, Curve], rows: Mapping[str, int], faults: list[Fault]) -> tuple[dict[str, Curve], list[Fault]]:
    """Parents first; circles of runs that go on from each other are faults."""
    done, circles = dict[str, Curve](), set[frozenset[str]]()
    for name in curves:
        chain, at = list[str](), name
        while at in curves and at not in done and at not in chain:
            chain.append(at)
            at = curves[at].parent or ""
        if at in chain:
            circle = chain[chain.index(at) :]
            if frozenset(circle) not in circles:
                shown = " from ".join(shortened(repr(n), 30) for n in [*circle, at])
                problem = f"runs go on from each other: {shown}"
                faults.append(Fault(rows[at], "parent", curves[at].parent or "", problem, "one of them must be the first"))
            circles.add(frozenset(circle))
        else:
            done |= {n: curves[n] for n in reversed(chain)}
    return done, faults


def _warmed(curves: Mapping[str, Curve], warmup: int | Mapping[str, int], name: str) -> dict[str, Curve]:
    """Runs with the warm-ups that are stated to lie before their logs."""
    given = {} if isinstance(warmup, int) else dict(warmup)
    if unknown := [n for n in given if n not in curves]:
        raise BayeslawError(f"warmup names run {unknown[0]!r}, which {name} has not.{nearest(unknown[0], curves)}")
    if isinstance(warmup, int):
        new = [c for c in curves.values() if c.parent is None and c.phase == "pretrain" and c.logged_steps[0] > 1]
        given = {c.run: warmup for c in new}
        whole_number("warmup", warmup, 0)
    for run, steps in given.items():
        whole_number(f"warmup of {run}", steps, 0)
        if steps > curves[run].logged_steps[0]:
            first = int(curves[run].logged_steps[0])
            raise BayeslawError(f"{run}: a warm-up of {steps} steps reaches past its first logged step, {first}.")
    return {n: replace(c, warmup=given.get(n, 0)) for n, c in curves.items()}


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
        suggestion = "give the curves without it, or rename it"
        raise TableError([Fault(None, c, "", f"column {c} is worked out from lr", suggestion) for c in taken], table.name)
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
