"""Entries of logs merged into one row for each run, step and domain, with resumed runs and repeated entries resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.core.text import counted, label_text, listed

RESUMED = ("last", "first")
LOSS = "loss:"  # before the domain, in the name of a column of losses; nothing follows if the losses have no named domain
OF_RUNS = ("N", "U", "P", "ptpp", "pretrain_tokens", "batch")  # a program may log these once, such as with its configuration
MOST_TURNS = 1 / 3  # if steps go back at a larger share of a run's entries, their order carries no information
_WHERE = ("_row", "_name")


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of all logs in the order in which they were logged, under our names.

    Attributes
    ----------
    frame : DataFrame
        `run`; `step` or D where a log has them; numbers, nan where missing and infinite where not finite; losses in columns `loss:`
        and the domain; `_name` and `_row`, the file and the entry's number there.
    batches : mapping
        The first two values of runs that log several of `batch`, at any entries.
    kept : mapping
        Before entries are merged: the value of each run, by the name of each kept column.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    batches: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    kept: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def axis(self) -> str | None:
        """The column by which a run's entries are ordered."""
        return next((c for c in ("step", "D") if c in self.frame), None)


def merged(entries: Entries, resumed: str | None) -> Entries:
    """Return one row for each run, step and domain; runs that log tokens and no steps are ordered by their tokens beside others.

    Other entries without a step are refused. Of values that a run logged twice for a step, the later log's counts if `resumed` is
    'last', from the step at which the run was resumed, the earlier log's if it is 'first', and neither if it is None: such runs are
    refused.
    """
    frame, axis, notes = entries.frame, entries.axis, list(entries.notes)
    if (stepless := _by_tokens(frame)).any():
        others = merged(replace(entries, frame=frame[~stepless]), resumed)
        return _beside(others, merged(Entries(frame[stepless].drop(columns="step")), resumed))
    of_run = frame.dropna(subset="batch").groupby("run", sort=False)["batch"].unique().items() if "batch" in frame else ()
    batches = {str(run): (float(sizes[0]), float(sizes[1])) for run, sizes in of_run if len(sizes) > 1}
    frame = _with_values_of_runs(frame, notes)
    kept = _with_values(frame, axis)
    if left := len(frame) - len(kept):
        notes.append(f"{counted(left, 'entry')} without a loss or learning rate left out{lost_runs(frame, kept)}")
    frame = _of_each_domain(kept, axis)
    if axis is None:
        return Entries(_without_repeats(frame, notes), tuple(notes), batches)
    missing = np.flatnonzero(frame[axis].isna()).tolist()
    refuse(frame, (fault(frame, i, axis, "", f"{axis} is missing", "give it, or remove the row", "missing-step") for i in missing))
    keys = ["run", axis, *(["domain"] if "domain" in frame else [])]
    if resumed is None:
        frame = _finite_before_others(_without_repeats(frame, notes), keys, notes)
        refuse(frame, _conflicts(frame, keys))
        refuse(frame, _turns(frame, keys))
        logged = frame.groupby(["_name", *(k for k in keys if k != axis)], sort=False, dropna=False)
        if turns := int((logged[axis].diff() < 0).sum()):
            notes.append(f"steps go back {counted(turns, 'time')} and no step has two values: rows were sorted by step")
    else:
        # an evaluation logged again with the same value may be the first of a resumed run, so repeats are left out afterwards
        frame = _without_repeats(_resumed(frame, keys, resumed, notes), notes)
        frame = _finite_before_others(frame, keys, notes)
    return Entries(_one_row_each(frame, keys, resumed, notes), tuple(notes), batches)


def _by_tokens(frame: pd.DataFrame) -> pd.Series:
    """Mark the entries of runs that log tokens and no step, in a table in which others log steps."""
    if not {"step", "D"} <= set(frame):
        return pd.Series(False, index=frame.index)
    logged = frame[["step", "D"]].notna().groupby(frame["run"]).transform("any")
    return ~logged["step"] & logged["D"] if logged["step"].any() else logged["step"]


def _beside(first: Entries, second: Entries) -> Entries:
    """Return the entries of two lots of runs in one table."""
    notes = tuple(dict.fromkeys((*first.notes, *second.notes)))
    return Entries(pd.concat([first.frame, second.frame], ignore_index=True), notes, {**first.batches, **second.batches})


def lost_runs(frame: pd.DataFrame, kept: pd.DataFrame) -> str:
    """Return '; nothing is left of 2 runs: a, b' for the runs of a table of which no row is kept, '' where each has some."""
    names = list(dict.fromkeys(map(label_text, frame["run"][~frame["run"].isin(kept["run"])])))
    return f"; nothing is left of {counted(len(names), 'run')}: {listed(names)}" if names else ""


def loss_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns of losses, one for each domain."""
    return [c for c in map(str, frame) if c.startswith(LOSS)]


def has_loss(frame: pd.DataFrame) -> pd.Series:
    """Mark the entries that log a loss, of any domain."""
    return frame[loss_columns(frame)].notna().any(axis=1)


def has_rate(frame: pd.DataFrame) -> pd.Series:
    """Mark the entries that log a learning rate."""
    return frame["lr"].notna() if "lr" in frame else pd.Series(False, index=frame.index)


def _losses_and_rate(frame: pd.DataFrame) -> list[str]:
    return [c for c in map(str, frame) if c.startswith(LOSS) or c == "lr"]


def _values(frame: pd.DataFrame, axis: str | None) -> list[str]:
    """Return the columns that hold values logged at a step."""
    return [c for c in map(str, frame) if c not in (*_WHERE, "run", "step", "domain", axis)]


def several(frame: pd.DataFrame) -> bool:
    """Whether entries are of several files, by the categories of their names."""
    return len(frame["_name"].cat.categories) > 1


def fault(frame: pd.DataFrame, at: int, column: str, value: str, problem: str, suggestion: str, code: str) -> Fault:
    """Return a fault of the entry at a position, with its file where there are several.

    Parameters
    ----------
    frame, at, column, value, problem, suggestion, code
        Entries with `_name` and `_row`, a position, and as in `bayeslaw.core.errors.Fault`.
    """
    where = f"{frame['_name'].iloc[at]}: " if several(frame) else ""
    return Fault(int(frame["_row"].iloc[at]), column, value, where + problem, suggestion, code)


def refuse(frame: pd.DataFrame, faults: Iterable[Fault]) -> None:
    """Raise the faults of entries, if there are any."""
    if every := list(faults):
        names = frame["_name"].unique()
        raise TableError(every, str(names[0]) if len(names) == 1 else f"the import of {len(names)} logs")


def _with_values_of_runs(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Give all entries of a run the number of parameters and other values of the run that it logs once, or always alike."""
    losses = has_loss(frame)
    for column in (c for c in OF_RUNS if c in frame):
        of_run = frame.groupby("run", sort=False)[column]
        fill = frame[column].isna() & (of_run.transform("nunique") == 1)
        if (fill & losses).any():
            runs = frame.loc[fill & losses, "run"].nunique()
            notes.append(f"{column} is logged at some entries of {counted(runs, 'run')}, and holds for all of them")
        frame = frame.assign(**{column: frame[column].where(~fill, of_run.transform("first"))})
    return frame


def _with_values(frame: pd.DataFrame, axis: str | None) -> pd.DataFrame:
    """Keep entries with a loss or a learning rate, and those with another value at a step at which the run logs a loss.

    Many programs log the tokens so far in an entry of their own. At steps without a loss these entries add nothing to a curve.
    """
    losses = has_loss(frame)
    some = losses | has_rate(frame)
    if axis is not None:
        at = pd.MultiIndex.from_frame(frame[["run", axis]])
        beside = frame[_values(frame, axis)].notna().any(axis=1)
        some |= beside & frame[axis].notna() & at.isin(at[losses & frame[axis].notna()])
    return frame[some].reset_index(drop=True)


def _of_each_domain(frame: pd.DataFrame, axis: str | None) -> pd.DataFrame:
    """Copy entries of no domain, but for their learning rate, to each domain that has a loss at their step."""
    if axis is None or "domain" not in frame:
        return frame
    losses = has_loss(frame)
    domains = frame.loc[losses & frame["domain"].notna(), ["run", axis, "domain"]].drop_duplicates()
    general = frame[~losses & frame["domain"].isna()].drop(columns=["domain", *(["lr"] if "lr" in frame else [])])
    copies = general.reset_index(names="_at").merge(domains, on=["run", axis]).set_index("_at")
    if not len(copies):
        return frame
    others = frame[has_rate(frame) | ~frame.index.isin(copies.index)]
    return pd.concat([others, copies]).sort_index(kind="stable").reset_index(drop=True)[list(frame)]


def _without_repeats(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out entries that repeat another in every value, such as in the histories of several checkpoints."""
    again = frame.duplicated(subset=[c for c in frame if c not in _WHERE])
    if again.any():
        count = int(again.sum())
        notes.append(f"{counted(count, 'entry')} that repeat{'s' * (count == 1)} another in every value left out")
    return frame[~again].reset_index(drop=True)


def _finite_before_others(frame: pd.DataFrame, keys: list[str], notes: list[str]) -> pd.DataFrame:
    """Leave out losses that are not finite where the same step logs a finite one: tables dumped as JSON have NaN in gaps."""
    frame, count = frame.copy(), 0
    for column in loss_columns(frame):
        finite = pd.Series(np.isfinite(frame[column].to_numpy(np.float64)), index=frame.index)
        beside = finite.groupby([frame[k] for k in keys], dropna=False).transform("any")
        gaps = beside & ~finite & frame[column].notna()
        frame.loc[gaps, column] = np.nan
        count += int(gaps.sum())
    if count:
        notes.append(f"{counted(count, 'loss')} not finite left out where the same step logs a finite one")
    return frame


def _conflicts(frame: pd.DataFrame, keys: list[str]) -> Iterable[Fault]:
    """Find values that a run logs for a step after another value for it."""
    suggestion = (
        "was it resumed? Choose --resumed last (resumed='last', the later log counts) or first; two runs of one name need two names"
    )
    for column in _values(frame, keys[1]):
        cells, at = frame[column], pd.Series(np.arange(len(frame)), index=frame.index, dtype=np.float64)
        first = frame.assign(_at=at.where(cells.notna())).groupby(keys, sort=False, dropna=False)["_at"].transform("first")
        logged = np.flatnonzero(cells.notna().to_numpy())
        before = first.to_numpy()[logged].astype(np.int64)
        known = cells.to_numpy()
        for i, was in zip(logged.tolist(), before.tolist(), strict=True):
            if known[i] == known[was]:
                continue
            name, run = column.removeprefix(LOSS) or "loss", shortened(repr(str(frame["run"].iloc[i])))
            earlier = f"row {frame['_row'].iloc[was]}" + (f" of {frame['_name'].iloc[was]}" if several(frame) else "")
            what = f"{_quantity(column)} {_shown(known[i])} at {keys[1]} {frame[keys[1]].iloc[i]:g}"
            problem = f"run {run} logs {what} and {_shown(known[was])} in {earlier}"
            yield fault(frame, i, name, _shown(known[i]), problem, suggestion, "two-values-of-one-step")


def _turns(frame: pd.DataFrame, keys: list[str]) -> Iterable[Fault]:
    """Find where the steps of a loss or learning rate go back and on among those logged before, as those of a resumed run do.

    Rows in another order don't: blocks of steps that lie apart, single entries that come late, and values that are logged again.
    """
    axis, known = keys[1], set[int]()
    suggestion = (
        "put its rows into the order of steps; if it was resumed, choose --resumed last (resumed='last', the later log counts) "
        "or first"
    )
    for column in _losses_and_rate(frame):
        some = frame[frame[column].notna()]
        for _, part in some.groupby(["_name", *(k for k in keys if k != axis)], sort=False, dropna=False):
            part = part[~part.duplicated(axis)]
            steps = part[axis].to_numpy(np.float64)
            turns = 1 + np.flatnonzero(steps[1:] < steps[:-1])
            if turns.size > max(1, MOST_TURNS * steps.size):
                continue
            for turn, block in zip(turns.tolist(), np.split(steps, turns)[1:], strict=True):
                before = steps[:turn]
                after = block[block < before.max()]
                at = int(part.index[turn])
                if after.size > 1 and ((before > after.min()) & (before < after.max())).any() and at not in known:
                    known.add(at)
                    run, step = shortened(repr(str(part["run"].iloc[turn]))), f"{steps[turn]:g}"
                    problem = f"{axis} {step} of run {run} follows {steps[turn - 1]:g}, and later steps lie among those before"
                    yield fault(frame, at, axis, step, problem, suggestion, "step-goes-back")


def _quantity(column: str) -> str:
    return f"loss of {column.removeprefix(LOSS)}" if column.startswith(LOSS) and column != LOSS else column.removesuffix(":")


def _shown(value: object) -> str:
    if not isinstance(value, (int, float, np.number)):
        return str(value)
    return f"{float(value):g}" if np.isfinite(float(value)) else "that is not finite"


def _resumed(frame: pd.DataFrame, keys: list[str], resumed: str, notes: list[str]) -> pd.DataFrame:
    """Leave out the values that a resumed run abandoned ('last'), or those that it logged again ('first').

    Where the steps of a loss or of the learning rate go back, the run was resumed at an earlier step: what it had logged from there
    on belongs to an abandoned training. Each quantity is treated by itself, since they may come from different files. Values that
    were logged again unchanged, such as in the histories of several checkpoints, are not abandoned.
    """
    axis, frame = keys[1], frame.copy()
    by, unchanged = [k for k in keys if k != axis], 0
    for column in _losses_and_rate(frame):
        for _, part in frame[frame[column].notna()].groupby(by, sort=False, dropna=False):
            steps, run = part[axis].to_numpy(np.float64), str(part["run"].iloc[0])
            gone, turns = _superseded(steps, part.duplicated([axis, column]).to_numpy(), resumed, run)
            frame.loc[part.index[gone], column] = np.nan
            held = pd.MultiIndex.from_frame(part.loc[~gone, [axis, column]])
            differ = ~pd.MultiIndex.from_frame(part[[axis, column]]).isin(held)
            unchanged += int((gone & ~differ).sum())
            if (gone & differ).any():
                values = counted(int((gone & differ).sum()), "abandoned value" if resumed == "last" else "repeated value")
                at = ", ".join(f"{steps[t]:g}" for t in turns[:3])
                name = f"{shortened(repr(run))} was resumed at {axis} {at}"
                notes.append(f"run {name}: {values} of {_quantity(column)} left out")
    if unchanged:
        notes.append(f"{counted(unchanged, 'value')} logged again unchanged by resumed runs or in several files read once")
    return _with_values(frame, axis)


def _superseded(steps: Array, again: NDArray[np.bool_], resumed: str, run: str) -> tuple[NDArray[np.bool_], Index]:
    """Mark the values, in the order logged, that do not count, and return where steps go back; `again` marks unchanged repeats."""
    turns = np.flatnonzero(np.diff(steps, prepend=steps[0]) < 0)
    if (back := int((~again[turns]).sum())) > max(1, MOST_TURNS * steps.size):
        raise BayeslawError(
            f"run {shortened(repr(run))}: steps go back {back} times in {steps.size} entries, which is no resumed run. "
            "Put its rows into the order in which they were logged.",
            code="steps-in-no-order",
        )
    gone, order = np.zeros(steps.size, dtype=bool), np.arange(steps.size)
    for turn in turns:
        if resumed == "last":
            gone |= (order < turn) & (steps >= steps[turn])
        else:
            gone |= (order >= turn) & (steps <= steps[:turn].max())
    return gone, turns


def _one_row_each(frame: pd.DataFrame, keys: list[str], resumed: str | None, notes: list[str]) -> pd.DataFrame:
    """Return entries of one step in one row; `resumed` chooses between two values."""
    values, order = _values(frame, keys[1]), {run: i for i, run in enumerate(frame["run"].unique())}
    losses = has_loss(frame)
    sources = {f"{c}_loss": frame[c].where(losses) for c in _WHERE}  # faults name the entry that has the row's loss
    groups = frame.assign(**sources).groupby(keys, sort=False, dropna=False)
    columns = [*values, *_WHERE, *sources]
    picked = groups[columns].first() if resumed == "first" else groups[columns].last()
    picked = picked.assign(**{c: picked[f"{c}_loss"].fillna(picked[c]) for c in _WHERE}).drop(columns=list(sources))
    counts = groups[values].nunique()
    if twice := int((counts > 1).to_numpy().sum()):
        which = "earlier" if resumed == "first" else "later"
        notes.append(f"{counted(twice, 'value')} logged twice at one step: the {which} one is used")
    rows = picked.reset_index()
    if (fewer := len(frame) - len(rows)) > 0:
        notes.append(f"{counted(fewer, 'entry')} combined with others of the same run and step")
    rows["_run"] = rows["run"].map(order)
    return rows.sort_values(["_run", keys[1]], kind="stable").drop(columns="_run").reset_index(drop=True)
