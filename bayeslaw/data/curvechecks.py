"""What is wrong with a table of training curves, every fault at once; and the runs that it holds, parents first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened, whole_number
from bayeslaw.data.validate import check_loss
from bayeslaw.schedules.areas import Phase
from bayeslaw.schedules.schedule import HIGHEST, MOST_STEPS

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
        mend = f"every row needs run, step and lr; there are {', '.join(given)}"
        raise TableError([Fault(None, c, "", f"column {c} is missing", f"{mend}.{nearest(c, given)}") for c in missing], name)
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


def _rows(frame: pd.DataFrame, column: str, bad: pd.Series, problem: str, mend: str) -> Iterable[Fault]:
    for row, number in zip(frame.index[bad], frame.loc[bad, column].to_numpy(np.float64), strict=True):
        value = "" if np.isnan(number) else f"{number:g}"
        yield Fault(int(row), column, value, problem.format(value=value), mend)


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
    mend = "give it as it is, such as 3e-4"
    yield from _rows(frame, "lr", lr > HIGHEST, "lr {value} is above 1: is it in units of 1e-4, or in percent?", mend)


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
    mend = "keep one row a step; of a resumed run keep one try, or give the resumed part a name, parent and parent_step"
    bad = frame["step"] <= before
    rows = frame[bad].assign(before=before[bad])
    for row, name, step, last in zip(rows.index, rows["run"], rows["step"], rows["before"], strict=True):
        how = "comes twice" if step == last else f"follows step {last:g}"
        problem = f"step {step:g} of run {shortened(repr(name))} {how}: was the run resumed?"
        yield Fault(int(row), "step", f"{step:g}", problem, mend)


def _rates(frame: pd.DataFrame, twice: set[int | None]) -> Iterable[Fault]:
    """Steps of a run without a rate, or with two."""
    group = frame.groupby(["run", "step"], sort=False)["lr"]
    low, high = group.transform("min"), group.transform("max")
    mend = "give the learning rate of every logged step (it may be empty at step 0 only)"
    yield from _rows(frame, "lr", low.isna() & (frame["step"] > 0), "lr is missing", mend)
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
            mend = f"phases are {' and '.join(PHASES)}.{nearest(str(phase), PHASES)}"
            faults.append(Fault(at, "phase", str(phase), f"there is no phase {shortened(repr(phase))}", mend))
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
    mend = "keep one"
    if column in ("phase", "batch"):
        mend = "give the part after the change a run of its own, with its parent"
    second = int(rows.index[rows[column] == values[1]][0])
    problem = f"run {shortened(repr(run))} has {len(values)} values of {column} ({shown})"
    return values[0], [Fault(second, column, str(values[1]), problem, mend)]


def _family(frame: pd.DataFrame, curves: Mapping[str, Curve], after: Mapping[str, float]) -> tuple[dict[str, Curve], list[Fault]]:
    """Runs with parents found and before their children, and phases that don't join."""
    first = frame[frame["run"].notna()].drop_duplicates("run")
    rows = {str(n): int(r) for n, r in zip(first["run"], first.index, strict=True)}
    faults, found = list[Fault](), dict[str, Curve]()
    for name, curve in curves.items():
        found[name] = curve
        if curve.parent is None:
            if name in after:
                mend = "name the run that it goes on from in column parent"
                faults.append(Fault(rows[name], "parent_step", f"{after[name]:g}", "parent_step without a parent", mend))
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
    problem, mend = "", f"give a step of {parent.run}, {max(first, 1)} to {parent.last}"
    if step != round(step):
        problem = f"parent_step {step:g} of run {name} is not a whole number"
    elif step > parent.last:
        problem = f"run {name} goes on from step {step:g} of {other}, which ends at {parent.last}: the phases don't join"
    elif step < 1:
        problem = f"run {name} goes on from step {step:g} of {other}, before its first"
    elif step < first:
        problem = f"run {name} goes on from step {step:g} of {other}, whose first logged rate is of step {first}"
    if problem:
        faults.append(Fault(row, "parent_step", f"{step:g}", problem, mend))
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
