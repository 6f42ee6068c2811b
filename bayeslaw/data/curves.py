"""Tables of training curves: losses at any step of runs, under logged learning rates, in one phase or two.

`read_curves` gives every loss the covariates of the laws of the dynamics (`bayeslaw.schedules.areas.trace`): areas under its run's
schedule up to its step, continued from the run that it goes on from. The first half of this module computes these; the second half
checks a table, and lists all its faults at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened, whole_number
from bayeslaw.core.text import listed
from bayeslaw.data.columns import did_you_mean
from bayeslaw.data.table import Runs, read_table
from bayeslaw.data.validate import cell_faults, check_loss
from bayeslaw.schedules.areas import OPEN, POWER, Phase, Point, trace
from bayeslaw.schedules.changes import nodes as all_changes
from bayeslaw.schedules.schedule import HIGHEST, MEMORY, MOST_STEPS, Schedule, joined, logged

DERIVED = ("lr_peak", *(f"{area}{part}" for area in ("S1", "S2", "S2w") for part in ("_pt", "_cpt", "")))
# Columns that say how areas were computed: the areas that depend on each, the number below which it lies, and the code of the error
# where one table has several values.
ABOUT_AREAS = {
    "memory": ("S2", 1.0, "several-memories"), "power": ("S2w", np.inf, "several-powers"),
    "reference_batch": ("S1", np.inf, "several-batches"),
}  # fmt: skip
PHASES = ("pretrain", "adapt")
RATE_TOLERANCE = 1e-6  # relative: rates logged for one step of a run that differ by less are equal
WIDE_GAP = 0.1  # we report gaps between logged steps in which the rate changes by more than this share of the peak


@dataclass(frozen=True)
class Curves:
    """Losses along training runs, with the covariates of the laws of the dynamics.

    Attributes
    ----------
    frame : DataFrame
        One row a loss: `run`, `phase`, `parent`, `parent_step`, `step`, `loss` (nats/token), `domain` where there are several, the
        table's other columns, and those of `bayeslaw.schedules.areas.trace`: lr, lr_peak, S1_pt, S2_pt, S2w_pt, S1_cpt, S2_cpt,
        S2w_cpt, S1, S2, S2w. Rows at step 0 of a new training have S1 = 0; areas of an unknown pre-training are nan.
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
    notes: tuple[str, ...] = ()
    reference_batch: float = 0.0
    _curves: Mapping[str, Curve] = field(default_factory=dict, repr=False)
    _schedules: Mapping[str, Schedule] = field(default_factory=dict, repr=False)
    _starts: Mapping[str, Point | None] = field(default_factory=dict, repr=False)

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
        if run not in self._curves:
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
        whole_number("step", step, 0)
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
        curve = self.curve(run)
        phases: list[tuple[Phase, Schedule]] = [(curve.phase, self.schedule(run))]
        while curve.parent is not None:
            schedule, step = self._schedules[curve.parent], curve.parent_step
            curve = self._curves[curve.parent]
            phases.append((curve.phase, Schedule(schedule.rates[:step], schedule.name)))
        return phases[::-1]

    def _with_nodes(self, frame: pd.DataFrame, number: int) -> pd.DataFrame:
        parts = []
        for run, rows in frame.groupby("run", sort=False):
            schedules = [schedule for _, schedule in self.phases(str(run))]
            before = joined(*schedules[:-1]) if len(schedules) > 1 else None
            changes = all_changes(schedules[-1], rows["step"].to_numpy(dtype=np.int64), before, number=number)
            parts.append(changes.set_index(rows.index))
        return frame.join(pd.concat(parts))


@dataclass(frozen=True)
class Curve:
    """One run of a table of curves.

    Attributes
    ----------
    logged_steps, logged_rates : arrays
        Steps with a learning rate, and these rates.
    parent, parent_step : str or None, and int
        The run that it goes on from, and the last step of that run that belongs to it.
    batch, weight : float
        Tokens of a step, nan where unknown, and what a step counts in the areas.
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
        """The last logged step."""
        return int(self.logged_steps[-1])


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
        be empty at step 0 and between steps that have one; losses in nats/token as `loss`, with `domain` for several, or as one
        column for each domain, such as source_loss and target_loss, empty where there was no evaluation. Optional: `phase`
        (pretrain or adapt; by default adapt for runs with a parent), `parent`, the run that this one goes on from, and
        `parent_step`, its step (by default its last); `batch`, tokens of a step. A table without `run` is one run.
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
    if steps not in ("own", "continued", None):
        raise BayeslawError(f"steps is {steps!r}; steps of a run are its 'own' or 'continued'.", code="unknown-option")
    table = read_table(source, "curves", names=[run], columns=columns)
    frame, notes = _with_runs(table, run)
    if steps == "continued":
        frame = _with_own_steps(frame, table.name)
    columns = _loss_columns(frame, table.name, losses)
    curves = _checked(frame, columns, table.unread, table.name, warmup, steps)
    reference = 0.0
    if per == "token":
        curves, reference = _weighted(curves, str(frame["run"].dropna().iloc[0]), tokens_per_step, table.name)
    elif tokens_per_step is not None:
        message = "tokens_per_step is the batch whose steps count 1: give it with per='token'."
        raise BayeslawError(message, code="option-without-use")
    else:
        notes += _uneven_batches(curves)
    long = _long(frame, columns)
    schedules, starts, parts = dict[str, Schedule](), dict[str, Point | None](), []
    for name, curve in curves.items():  # parents come first
        start = None if curve.phase == "pretrain" else OPEN
        if curve.parent is not None:
            parent = curves[curve.parent]
            start = _state(parent, schedules[parent.run], curve.parent_step, starts[parent.run], memory, power)
        schedules[name], assumed = _schedule(curve, curves, start)
        starts[name] = start
        rows = long[long["run"] == name]
        at = rows["step"].to_numpy().astype(np.int64)
        areas, _ = trace(schedules[name], at, start, phase=curve.phase, memory=memory, power=power, weight=curve.weight)
        parts.append(areas.drop(columns="step").set_index(rows.index))
        notes += assumed
    if unknown := [c.run for c in curves.values() if c.parent is None and c.phase == "adapt"]:
        shown = listed(unknown, 3)
        notes.append(
            f"adaptations of unknown pre-training ({shown}): S1_pt and S2_pt are empty, and its last rate is assumed to be 0"
        )
    by_order = {str(n): curves[str(n)] for n in frame["run"].dropna().unique()}
    about = {"memory": memory, "power": power, "reference_batch": reference}
    whole = _arranged(long, pd.concat(parts).reindex(long.index), curves).assign(**about)
    return Curves(whole, table.name, memory, power, tuple(notes), reference, by_order, schedules, starts)


def _with_runs(table: Runs, run: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with its column `run`, and notes of the renamed columns."""
    frame, notes = table.frame, [f"read: {c}" for c in table.conversions]
    if derived := [c for c in DERIVED if c in frame]:
        suggestion = "give the curves without it, or rename it"
        faults = [Fault(None, c, "", f"column {c} is computed from lr", suggestion, "derived-column") for c in derived]
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
    if "parent" not in frame or any(c in frame and frame[c].dtype.kind not in "fiu" for c in ("step", "parent_step")):
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


def _long(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return one row for each loss."""
    if list(columns.values()) == [""]:
        return frame[frame["loss"].notna()]
    parts = [frame.drop(columns=list(columns)).assign(domain=domain, loss=frame[c]) for c, domain in columns.items()]
    long = pd.concat(parts).astype({"domain": object})
    return long[long["loss"].notna()].reset_index(drop=True)


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
            f"{curve.run}: rates before its first logged step, {first}, are assumed to equal that step's, {rates[0]:g}; see warmup"
        )
    if rates.max() == 1:
        notes.append(
            f"{curve.run}: its highest rate is 1; if rates are shares of the highest, give that, such as --column lr=COLUMN:3e-4"
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
    return [f"batches differ ({example}) and every step counts the same; per='token' weighs steps by their tokens"]


def _arranged(long: pd.DataFrame, areas: pd.DataFrame, curves: Mapping[str, Curve]) -> pd.DataFrame:
    """Return losses and areas as one table, what says which loss it is first."""
    first = ["run", "phase", "parent", "parent_step", "step", *(["domain"] if "domain" in long else []), "loss"]
    rest = [c for c in long if c not in (*first, *areas)]
    own = pd.DataFrame({c: long["run"].map({n: getattr(k, c) for n, k in curves.items()}) for c in ("phase", "parent")})
    after = long["run"].map({n: k.parent_step for n, k in curves.items() if k.parent is not None}).astype(np.float64)
    whole = pd.concat([long.assign(**own, parent_step=after)[[*first, *rest]], areas], axis=1)
    whole.index = pd.RangeIndex(1, len(whole) + 1, name="row")
    return whole


# --- checks of a table ------------------------------------------------------------------------------------------------------


def _loss_columns(frame: pd.DataFrame, name: str, asked: Collection[str] | None) -> dict[str, str]:
    """Find the columns of losses and their domains, or take those asked for; the one column `loss` has the domain ''."""
    given = [str(c) for c in frame]
    wide = [c for c in given if c.endswith("_loss") and c != "train_loss"]
    if asked is not None:
        if isinstance(asked, str) or not asked:
            raise BayeslawError(f"losses is {asked!r}; give a list of columns, such as ['source_loss'].", code="not-a-list")
        for column in asked:
            if column not in frame:
                raise BayeslawError(f"{name} has no column {column!r}.{nearest(column, given)}", code="missing-column")
        wide = [] if list(asked) == ["loss"] else list(asked)
    elif "loss" in frame and wide:
        message = f"{name} has a column loss and {', '.join(wide)}: name the columns to read in losses, such as losses=['loss']."
        raise BayeslawError(message, code="ambiguous-losses")
    elif "loss" not in frame and not wide:
        hint = " train_loss is the noisy loss of single batches and is read only if losses=['train_loss'] asks for it."
        message = (
            f"{name} has no losses: it needs a column loss, or one for each domain such as source_loss; there are "
            f"{', '.join(given)}. Name another by --column loss=COLUMN."
        )
        raise BayeslawError(message + (hint if "train_loss" in frame else ""), code="no-loss")
    if not wide:
        return {"loss": ""}
    if "domain" in frame:
        message = f"{name} has a column domain and also losses of several domains in columns {', '.join(wide)}: keep one form."
        raise BayeslawError(message, code="ambiguous-domains")
    return {c: c.removesuffix("_loss") for c in wide}


def _checked(
    frame: pd.DataFrame,
    columns: Mapping[str, str],
    unread: Iterable[Fault],
    name: str,
    warmup: int | Mapping[str, int],
    counted: str | None,
) -> dict[str, Curve]:
    """Return the runs of a table, parents before those that go on from them, or refuse it with all its faults.

    Parameters
    ----------
    frame, columns, unread, name, warmup
        The table with the columns of losses, cells that could not be read, its name and its warm-ups.
    counted : str or None
        From where steps count, if the user says so; else this is checked.
    """
    sound, faults = _check_rates(frame, name)
    faults += _check_losses(frame, columns)
    curves, parent_steps, wrong = _runs(frame, sound)
    faults += wrong
    family, wrong = _family(frame, curves, parent_steps, check=counted is None)
    _refuse([*faults, *wrong], unread, name)
    return _with_warmups(family, warmup, name)


def logged_rates(table: Runs) -> pd.DataFrame:
    """Return the rows of a table with `run`, `step` and `lr` that have a learning rate, or refuse it with its faults."""
    sound, faults = _check_rates(table.frame, table.name)
    _refuse(faults, [f for f in table.unread if f.column in ("step", "lr") and f.row in table.frame.index], table.name)
    return sound[sound["lr"].notna()]


def _check_rates(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[Fault]]:
    """Return the rows that have a run and a step, and the faults of runs, steps and rates."""
    given = [str(c) for c in frame]
    if missing := [c for c in ("step", "lr") if c not in frame]:
        needed = f"every row needs run, step and lr; there are {', '.join(given)}. Name another column by --column"
        how = {
            "lr": f"{needed} lr=COLUMN, or lr=COLUMN:FACTOR where that is not the rate itself: of percentages of the highest rate "
            "a hundredth of that.",
            "step": f"{needed} step=COLUMN; from tokens, step=COLUMN:FACTOR with all digits of 1 / tokens of a step.",
        }
        problem = "column {} is missing"
        raise TableError(
            [Fault(None, c, "", problem.format(c), how[c] + did_you_mean(c, given), "missing-column") for c in missing], name
        )
    if words := [c for c in ("step", "lr", "parent_step", "batch") if c in frame and frame[c].dtype.kind not in "fiu"]:
        problem, suggestion = "column {} holds no numbers", "numbers are needed there"
        raise TableError([Fault(None, c, "", problem.format(c), suggestion, "column-without-numbers") for c in words], name)
    sound = frame[frame["run"].notna() & frame["step"].notna() & (frame["step"] >= 0)]
    sound = sound[sound["step"] == sound["step"].round()]
    repeated = list(_check_order(sound))
    rows = {f.row for f in repeated}  # such a row has another row's rate only because it has its step
    return sound, [*_check_cells(frame), *repeated, *_check_one_rate(sound, rows)]


def _refuse(faults: Iterable[Fault], unread: Iterable[Fault], name: str) -> None:
    """Raise the faults of a table, if any; a cell that could not be read has no other fault."""
    by_cell = {(f.row, f.column): f for f in unread}
    every = [*by_cell.values(), *(f for f in faults if (f.row, f.column) not in by_cell)]
    if every:
        raise TableError(sorted(every, key=lambda f: (f.row is not None, f.row or 0)), name)


def _check_cells(frame: pd.DataFrame) -> Iterable[Fault]:
    """Find cells that are impossible by themselves."""
    for row in frame.index[frame["run"].isna()]:
        yield Fault(int(row), "run", "", "run is missing", "name the run, or remove the row", "missing-run")
    step, lr = frame["step"], frame["lr"]
    whole = "steps are whole numbers from 0, before a run's first step"
    yield from cell_faults(frame, "step", step.isna(), "step is missing", whole, "missing-step")
    yield from cell_faults(frame, "step", step < 0, "step {value} is negative", whole, "negative-step")
    fractions = (step >= 0) & (step != step.round())
    yield from cell_faults(frame, "step", fractions, "step {value} is not a whole number", whole, "fractional-step")
    problem, suggestion = "step {value} is more than a training has", "are these tokens, or times?"
    yield from cell_faults(frame, "step", step > MOST_STEPS, problem, suggestion, "step-too-large")
    if "batch" in frame:
        problem, suggestion = "batch {value} is not positive", "give the tokens of a step"
        yield from cell_faults(frame, "batch", frame["batch"] <= 0, problem, suggestion, "batch-not-positive")
    yield from cell_faults(frame, "lr", lr < 0, "lr {value} is negative", "give the learning rate of the step", "negative-rate")
    problem = "lr {value} is above 1: is it in units of 1e-4, or in percent of the highest rate?"
    suggestion = "give the rate itself, such as 3e-4, or what it is to be multiplied by: --column lr=COLUMN:1e-4"
    yield from cell_faults(frame, "lr", lr > HIGHEST, problem, suggestion, "rate-too-large")


def _check_losses(frame: pd.DataFrame, columns: Mapping[str, str]) -> Iterable[Fault]:
    """Find impossible losses; some may be missing, but not all."""
    looked_at = False
    for column in columns:
        if frame[column].dtype.kind not in "fiu":
            problem = f"column {column} holds no numbers"
            yield Fault(None, column, "", problem, "losses are in nats/token", "column-without-numbers")
            looked_at = True
            continue
        some = frame.loc[frame[column].notna(), [column, *(["unit"] if "unit" in frame else [])]].rename(columns={column: "loss"})
        looked_at |= bool(len(some))
        for fault in check_loss(some):
            yield replace(fault, column=column, problem=fault.problem.replace("loss", column, 1))
    if not looked_at:
        names = ", ".join(columns)
        yield Fault(None, names, "", f"no row has a loss ({names})", "some may be missing, but not all", "no-loss")
    if "domain" in frame and frame["domain"].notna().any():
        for row in frame.index[frame["loss"].notna() & frame["domain"].isna()]:
            yield Fault(int(row), "domain", "", "domain is missing", "other losses name theirs", "missing-domain")


def _check_order(frame: pd.DataFrame) -> Iterable[Fault]:
    """Find steps that do not increase along a run, or along one domain of it."""
    keys = [frame["run"], *([frame["domain"].fillna("")] if "domain" in frame else [])]
    before = frame.groupby(keys, sort=False)["step"].shift()
    suggestion = (
        "keep one row a step (`bayeslaw import TABLE -o NEW.csv --curves --resumed last` keeps the later ones), or give a resumed "
        "part a run of its own, with parent and parent_step"
    )
    bad = frame["step"] <= before
    rows = frame[bad].assign(before=before[bad])
    for row, name, step, last in zip(rows.index, rows["run"], rows["step"], rows["before"], strict=True):
        how, code = ("comes twice", "step-twice") if step == last else (f"follows step {last:g}", "step-goes-back")
        problem = f"step {step:g} of run {shortened(repr(name))} {how}: was the run resumed?"
        yield Fault(int(row), "step", f"{step:g}", problem, suggestion, code)


def _check_one_rate(frame: pd.DataFrame, repeated: set[int | None]) -> Iterable[Fault]:
    """Find steps of a run after its last rate, and those that have two rates."""
    group = frame.groupby(["run", "step"], sort=False)["lr"]
    low, high = group.transform("min"), group.transform("max")
    suggestion = "log the learning rate up to the last loss; between logged rates, and at step 0, it may be empty"
    last = frame["step"].where(frame["lr"].notna()).groupby(frame["run"], sort=False).transform("max")
    missing = low.isna() & (frame["step"] > 0) & ~(frame["step"] < last)
    yield from cell_faults(frame, "lr", missing, "lr is missing", suggestion, "missing-rate")
    differ = high - low > RATE_TOLERANCE * high.abs()
    two = differ & (frame["lr"] != group.transform("first")) & ~frame.index.isin(list(repeated))
    problem = "lr {value} is not that of other rows of the same run and step"
    yield from cell_faults(frame, "lr", two, problem, "keep one", "two-rates-of-one-step")


def _runs(frame: pd.DataFrame, sound: pd.DataFrame) -> tuple[dict[str, Curve], dict[str, float], list[Fault]]:
    """Return the runs of a table by name, the given steps of their parents, and the faults of single runs."""
    rated = sound[sound["lr"].notna()].drop_duplicates(["run", "step"]).sort_values("step", kind="stable")
    by_run = {str(n): g for n, g in rated.groupby("run", sort=False)}
    curves, parent_steps, faults = dict[str, Curve](), dict[str, float](), list[Fault]()
    for label, rows in frame.groupby("run", sort=False):
        name, shown, at = str(label), shortened(repr(str(label))), int(rows.index[0])
        given = dict[str, Any]()
        for column in ("phase", "parent", "parent_step", "batch"):
            given[column], wrong = _one_value(rows, column, name)
            faults += wrong
        phase = given["phase"] or ("pretrain" if given["parent"] is None else "adapt")
        if phase not in PHASES:
            suggestion = f"phases are {' and '.join(PHASES)}.{nearest(str(phase), PHASES)}"
            problem = f"there is no phase {shortened(repr(phase))}"
            faults.append(Fault(at, "phase", str(phase), problem, suggestion, "unknown-phase"))
        own = by_run.get(name)
        if own is None or own["step"].iloc[-1] < 1:
            faults.append(Fault(at, "lr", "", f"run {shown} has no learning rate of a step after 0", "log it", "no-rate"))
            continue
        if own["lr"].max() == 0:
            faults.append(Fault(at, "lr", "0", f"the learning rate of run {shown} is 0 throughout", "log it", "zero-rate"))
        if given["parent_step"] is not None:
            parent_steps[name] = float(given["parent_step"])
        steps, rates = own["step"].to_numpy(np.float64), own["lr"].to_numpy(np.float64)
        batch = np.nan if given["batch"] is None else float(given["batch"])
        curves[name] = Curve(name, cast("Phase", phase), steps, rates, given["parent"], batch=batch)
    return curves, parent_steps, faults


def _one_value(rows: pd.DataFrame, column: str, run: str) -> tuple[Any, list[Fault]]:
    """Return the one value of a column in a run's rows, None where they are empty; two different values are a fault."""
    values = list(rows[column].dropna().unique()) if column in rows else []
    if len(values) < 2:
        return (values[0] if values else None), []
    shown = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values[:3])
    own_run = "give the part after the change a run of its own, with its parent"
    suggestion = own_run if column in ("phase", "batch") else "keep one"
    second = int(rows.index[rows[column] == values[1]][0])
    problem = f"run {shortened(repr(run))} has {len(values)} values of {column} ({shown})"
    return values[0], [Fault(second, column, str(values[1]), problem, suggestion, "several-values-in-one-run")]


def _family(
    frame: pd.DataFrame, curves: Mapping[str, Curve], parent_steps: Mapping[str, float], *, check: bool
) -> tuple[dict[str, Curve], list[Fault]]:
    """Return runs with their parents, which come before their children, and the faults of runs that do not join."""
    first = frame[frame["run"].notna()].drop_duplicates("run")
    rows = {str(n): int(r) for n, r in zip(first["run"], first.index, strict=True)}
    faults, family = list[Fault](), dict[str, Curve]()
    for name, curve in curves.items():
        family[name] = curve
        if curve.parent is None:
            if name in parent_steps:
                suggestion, value = "name the run that it goes on from in column parent", f"{parent_steps[name]:g}"
                problem = "there is a parent_step and no parent"
                faults.append(Fault(rows[name], "parent_step", value, problem, suggestion, "parent-step-without-parent"))
            continue
        parent = curve.parent
        if parent not in rows:
            problem = f"run {shortened(repr(name))} goes on from {shortened(repr(parent))}, and there is no such run"
            suggestion = f"give its rows too.{nearest(parent, rows)}"
            faults.append(Fault(rows[name], "parent", parent, problem, suggestion, "unknown-parent"))
        elif parent in curves:
            family[name], wrong = _joined(family[name], curves[parent], parent_steps.get(name), rows[name], check=check)
            faults += wrong
    return _parents_first(family, rows, faults)


def _joined(curve: Curve, parent: Curve, after: float | None, row: int, *, check: bool) -> tuple[Curve, list[Fault]]:
    """Return a run with the step of its parent that it goes on from; with `check`, its steps must seem to be its own."""
    faults, name, other = [], shortened(repr(curve.run)), shortened(repr(parent.run))
    if curve.phase == "pretrain" and parent.phase == "adapt":
        problem = f"run {name} is pre-training and goes on from {other}, an adaptation"
        suggestion = "give it phase adapt, or another parent"
        faults.append(Fault(row, "parent", parent.run, problem, suggestion, "pre-training-after-adaptation"))
    step = parent.last if after is None else after
    first = int(parent.logged_steps[0])
    problem, code = "", "parent-step-outside-parent"
    if step != round(step):
        problem, code = f"parent_step {step:g} of run {name} is not a whole number", "fractional-step"
    elif step > parent.last:
        problem = f"run {name} goes on from step {step:g} of {other}, which ends at {parent.last}: the phases don't join"
    elif step < 1:
        problem = f"run {name} goes on from step {step:g} of {other}, before its first"
    elif step < first:
        problem = f"run {name} goes on from step {step:g} of {other}, whose first logged rate is of step {first}"
    if problem:
        suggestion = f"give a step of {parent.run}, {max(first, 1)} to {parent.last}"
        faults.append(Fault(row, "parent_step", f"{step:g}", problem, suggestion, code))
    begins = int(curve.logged_steps[0])
    spacing = float(np.median(np.diff(curve.logged_steps if curve.logged_steps.size > 1 else np.append(0, parent.logged_steps))))
    if check and not faults and begins >= step and begins > 2 * spacing:  # a log of its own would begin after a spacing
        problem = f"run {name} begins at step {begins:g}, beyond step {step:g} of {other}: do its steps go on from those?"
        suggestion = "steps count from a run's own start: if these do, add --steps own, else --steps continued"
        faults.append(Fault(row, "step", f"{begins:g}", problem, suggestion, "steps-of-the-parent"))
    return replace(curve, parent_step=int(step)), faults


def _parents_first(
    curves: Mapping[str, Curve], rows: Mapping[str, int], faults: list[Fault]
) -> tuple[dict[str, Curve], list[Fault]]:
    """Return runs in an order with parents first; circles of runs that go on from each other are faults."""
    ordered, circles = dict[str, Curve](), set[frozenset[str]]()
    for name in curves:
        chain, at = list[str](), name
        while at in curves and at not in ordered and at not in chain:
            chain.append(at)
            at = curves[at].parent or ""
        if at in chain:
            circle = chain[chain.index(at) :]
            if frozenset(circle) not in circles:
                problem = "runs go on from each other: " + " from ".join(shortened(repr(n), 30) for n in [*circle, at])
                suggestion, parent = "one of them must be the first", curves[at].parent or ""
                faults.append(Fault(rows[at], "parent", parent, problem, suggestion, "circle-of-parents"))
            circles.add(frozenset(circle))
        else:
            ordered |= {n: curves[n] for n in reversed(chain)}
    return ordered, faults


def _with_warmups(curves: Mapping[str, Curve], warmup: int | Mapping[str, int], name: str) -> dict[str, Curve]:
    """Return runs with the warm-ups that precede their logs."""
    given = {} if isinstance(warmup, int) else dict(warmup)
    if unknown := [n for n in given if n not in curves]:
        message = f"warmup names run {unknown[0]!r}, and {name} has no such run.{nearest(unknown[0], curves)}"
        raise BayeslawError(message, code="unknown-run")
    if isinstance(warmup, int):
        new = [c for c in curves.values() if c.parent is None and c.phase == "pretrain" and c.logged_steps[0] > 1]
        given = {c.run: warmup for c in new}
        whole_number("warmup", warmup, 0)
    for run, steps in given.items():
        whole_number(f"warmup of {run}", steps, 0)
        first = int(curves[run].logged_steps[0])
        if steps > first:
            message = (
                f"{run}: a warm-up of {steps} steps reaches past its first logged step, {first}. The log has the rest of the rise: "
                f"give the steps of the warm-up before it, at most {first}."
            )
            raise BayeslawError(message, code="warm-up-too-long")
    return {n: replace(c, warmup=given.get(n, 0)) for n, c in curves.items()}
