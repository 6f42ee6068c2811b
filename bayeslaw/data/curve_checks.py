"""Checks of a table of training curves, which list all its faults at once, and the runs that it holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError, by_row, nearest, shortened, whole_number
from bayeslaw.data.columns import did_you_mean
from bayeslaw.data.measured import cell_faults, check_loss
from bayeslaw.data.table import Runs
from bayeslaw.schedules.areas import PHASES, Phase
from bayeslaw.schedules.schedule import HIGHEST, MOST_STEPS, ROUNDING

RATE_TOLERANCE = 1e-6  # relative: rates logged for one step of a run that differ by less are equal


@dataclass(frozen=True, eq=False)
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
    logged_steps: Array
    logged_rates: Array
    parent: str | None = None
    parent_step: int = 0
    batch: float = np.nan
    weight: float = 1.0
    warmup: int = 0

    @property
    def last(self) -> int:
        """The last logged step."""
        return int(self.logged_steps[-1])


def loss_columns(frame: pd.DataFrame, name: str, asked: Collection[str] | None) -> dict[str, str]:
    """Find the columns of losses and their domains, or take those asked for; the one column `loss` has the domain ''.

    Parameters
    ----------
    frame, name : DataFrame, str
        The table, and what errors call it.
    asked : collection of str, optional
        The columns to read.
    """
    given = [str(c) for c in frame]
    wide = [c for c in given if c.endswith("_loss") and c != "train_loss"]
    if asked is not None:
        if isinstance(asked, str) or not isinstance(asked, Iterable) or not asked:
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
            f"{', '.join(given)}. Name another by --column loss=COLUMN (columns={{'loss': 'COLUMN'}})."
        )
        raise BayeslawError(message + (hint if "train_loss" in frame else ""), code="no-loss")
    if not wide:
        return {"loss": ""}
    if "domain" in frame:
        message = f"{name} has a column domain and also losses of several domains in columns {', '.join(wide)}: keep one form."
        raise BayeslawError(message, code="ambiguous-domains")
    return {c: c.removesuffix("_loss") for c in wide}


def checked(
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
        needed = f"every row needs run, step and lr; there are {', '.join(given)}. Name another by"
        how = {
            "lr": f"{needed} --column lr=COLUMN (columns={{'lr': 'COLUMN'}}), or lr=COLUMN:FACTOR where that is not the rate "
            "itself: of percentages of the highest rate a hundredth of that.",
            "step": f"{needed} --column step=COLUMN (columns={{'step': 'COLUMN'}}); from tokens, step=COLUMN:FACTOR "
            "with all digits of 1 / tokens of a step.",
        }
        problem = "column {} is missing"
        raise TableError(
            [Fault(None, c, "", problem.format(c), how[c] + did_you_mean(c, given), "missing-column") for c in missing], name
        )
    if words := [c for c in ("step", "lr", "parent_step", "batch") if c in frame and not holds_numbers(frame[c])]:
        problem, suggestion = "column {} holds no numbers", "numbers are needed there"
        raise TableError([Fault(None, c, "", problem.format(c), suggestion, "column-without-numbers") for c in words], name)
    step = frame["step"]
    sound = frame[frame["run"].notna() & (step >= 0) & (step < np.inf) & (step == step.round())]
    repeated = list(_check_order(sound))
    rows = {f.row for f in repeated}  # such a row has another row's rate only because it has its step
    return sound, [*_check_cells(frame), *repeated, *_check_one_rate(sound, rows)]


def _refuse(faults: Iterable[Fault], unread: Iterable[Fault], name: str) -> None:
    """Raise the faults of a table, if any."""
    if every := by_row(faults, unread):
        raise TableError(every, name)


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
    below = lr < -ROUNDING * lr.max()
    yield from cell_faults(frame, "lr", below, "lr {value} is negative", "give the learning rate of the step", "negative-rate")
    problem = "lr {value} is above 1: is it in units of 1e-4, or in percent of the highest rate?"
    suggestion = (
        "give the rate itself, such as 3e-4, or what it is to be multiplied by: --column lr=COLUMN:1e-4 "
        "(columns={'lr': 'COLUMN:1e-4'})"
    )
    yield from cell_faults(frame, "lr", lr > HIGHEST, problem, suggestion, "rate-too-large")


def _check_losses(frame: pd.DataFrame, columns: Mapping[str, str]) -> Iterable[Fault]:
    """Find impossible losses; some may be missing, but not all."""
    looked_at = False
    for column in columns:
        if not holds_numbers(frame[column]):
            problem = f"column {column} holds no numbers"
            yield Fault(None, column, "", problem, "losses are in nats/token", "column-without-numbers")
            looked_at = True
            continue
        some = frame.loc[frame[column].notna(), [column, *(["unit"] if "unit" in frame else [])]].rename(columns={column: "loss"})
        looked_at |= bool(len(some))
        for fault in check_loss(some, leave_out="empty the cell: some losses of a curve may be missing"):
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
        "keep one row a step (`bayeslaw import TABLE -o NEW.csv --curves --resumed last`, in Python import_runs(…, curves=True, "
        "resumed='last'), keeps the later ones), or give a resumed part a run of its own, with parent and parent_step"
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
        suggestion = "steps count from a run's own start: if these do, add --steps own (steps='own'), else continued"
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
    if not isinstance(warmup, Mapping):
        warmup = whole_number("warmup", warmup, 0)
        new = [c for c in curves.values() if c.parent is None and c.phase == "pretrain" and c.logged_steps[0] > 1]
        warmup = {c.run: warmup for c in new}
    if unknown := [n for n in warmup if n not in curves]:
        message = f"warmup names run {unknown[0]!r}, and {name} has no such run.{nearest(unknown[0], curves)}"
        raise BayeslawError(message, code="unknown-run")
    for run, steps in warmup.items():
        whole_number(f"warmup of {run}", steps, 0)
        first = int(curves[run].logged_steps[0])
        if steps > first:
            message = (
                f"{run}: a warm-up of {steps} steps reaches past its first logged step, {first}. The log has the rest of the rise: "
                f"give the steps of the warm-up before it, at most {first}."
            )
            raise BayeslawError(message, code="warm-up-too-long")
    return {n: replace(c, warmup=warmup.get(n, 0)) for n, c in curves.items()}
