"""Runs that could be bought: curves at one price each, branched from checkpoints that may have to be trained first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest
from bayeslaw.core.flops import Stages, per_token
from bayeslaw.data.observations import Nesting, Observations, run_codes, word
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import base_rows, check, check_error
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.laws.law import Law

FLOPS = "flops"
SAME = ("N", "ptpp", "r")  # what one run has one value of
TRUE, FALSE = {"true", "yes", "1", "1.0"}, {"false", "no", "0", "0.0", "", "nan", "none"}


@dataclass(frozen=True)
class Candidates:
    """Runs that could be bought.

    Attributes
    ----------
    runs : Runs
        What each would log: settings, one evaluation a row, rows of a run together.
    run : int array (n,)
        Codes of the rows' runs, ascending.
    names : tuple of str
        Of the runs (R).
    cost : array (R,)
        Price of each run by itself, in FLOPs or whatever the cost column counts.
    checkpoint : int array (R,)
        Codes of the checkpoints that the runs branch from.
    price : array (C,)
        Of training each checkpoint, paid once however many runs branch from it; 0 where it exists.
    checkpoints : tuple of str
    fixed : bool array (R,)
        Runs that are bought in any case.
    columns : tuple of str
        The columns that losses depend on.
    unit : str
        What costs are counted in.
    notes : tuple of str
        What was left out or worked out, in words.
    """

    runs: Runs
    run: NDArray[np.int64]
    names: tuple[str, ...]
    cost: NDArray[np.float64]
    checkpoint: NDArray[np.int64]
    price: NDArray[np.float64]
    checkpoints: tuple[str, ...]
    fixed: NDArray[np.bool_]
    columns: tuple[str, ...]
    unit: str
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def rows(self) -> pd.DataFrame:
        """What the runs would log, one evaluation a row."""
        return self.runs.frame

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each run's rows begin, and the number of rows."""
        return np.searchsorted(self.run, np.arange(self.size + 1)).astype(np.int64)

    @property
    def whole(self) -> NDArray[np.float64]:
        """Price of each run if it were the only one of its checkpoint, array (R,)."""
        whole: NDArray[np.float64] = self.cost + self.price[self.checkpoint]
        return whole

    def of(self, run: int) -> pd.DataFrame:
        """The rows of one run."""
        rows: pd.DataFrame = self.rows[self.run == run]
        return rows


def read_candidates(
    fitted: Sequence[tuple[Law, Observations]],
    source: Runs | pd.DataFrame | str | Path,
    cost: str = FLOPS,
    checkpoint_cost: str | None = None,
    stages: Stages | None = None,
) -> Candidates:
    """Read a table of candidate runs.

    Parameters
    ----------
    fitted : sequence of (Law, Observations)
        The laws that the runs are to inform and what they are fitted to.
    source : Runs, DataFrame or path
        One evaluation a row, with the laws' covariates and optionally: `run`, which evaluations are bought together (every row
        is a run by itself without it); `checkpoint`; `fixed`, runs bought in any case; `D_end`, tokens after which a run ends if
        that is later than its last evaluation; the column of costs; `checkpoint_cost`.
    cost : str
        Column with each run's price; 'flops' is 6 N D of the run's end where the table has no such column.
    checkpoint_cost : str, optional
        Column with the price of training each checkpoint; or 'flops', 6 N^2 ptpp; or '0', all exist. Checkpoints that the fit has
        runs of exist. Unless given, the column `checkpoint_cost` where there is one, else 'flops' where costs are FLOPs.
    stages : text or sequence of Stage, optional
        Stages of every run in which parts of the model are frozen: its 'flops' are counted by them instead of by 6 N D; see
        `bayeslaw.core.flops`.

    Raises
    ------
    TableError, BayeslawError
        With row, column and value: a price that is missing or not positive, one run with two settings or two prices, a run logged
        twice at one setting or ending before its first evaluation, a checkpoint that must be trained and has no price.
    """
    runs = source if isinstance(source, Runs) else read_runs(source)
    faults = list(dict.fromkeys(fault for law, _ in fitted for fault in check(runs, law, to_fit=False)))
    if "loss_se" in runs.frame:
        faults += check_error(runs.frame)
    if faults:
        raise TableError(faults, runs.name)
    runs, notes = _unlogged(runs, [observed for _, observed in fitted])
    law = fitted[0][0]
    run, run_names = run_codes(runs.frame)
    order = np.argsort(run, kind="stable")
    frame, run = runs.frame.iloc[order], run[order]
    first = np.unique(run, return_index=True)[1]
    if faults := list(_faults(frame, run, first, run_names, law)):
        raise TableError(faults, runs.name)
    if stages is not None and (cost != FLOPS or cost in frame):
        raise BayeslawError(f"Stages count FLOPs, and {runs.name} is to be paid by its column {cost!r}: give one of both.")
    nested = Nesting.of(frame, law)
    prices = _costs(frame, run, first, cost, per_token(stages), runs.name)
    known = {*frame.columns} & {"checkpoint"} or ("ptpp" in law.covariates and "N" in frame)
    checkpoint, names = (nested.checkpoint[first], nested.checkpoint_names) if known else (np.arange(first.size), ())
    price, told = _checkpoints(frame.iloc[first], checkpoint, names, [o for _, o in fitted], cost, checkpoint_cost, runs.name)
    columns = tuple(dict.fromkeys(name for law, _ in fitted for name in (*law.measured, *law.levels)))
    return Candidates(
        replace(runs, frame=frame), run, run_names, prices, checkpoint, price, names, _fixed(frame, run, first, runs.name),
        columns, "FLOPs" if cost == FLOPS else cost, (*notes, *told),
    )  # fmt: skip


def _unlogged(runs: Runs, fitted: Iterable[Observations]) -> tuple[Runs, list[str]]:
    """The candidates that the fit has no run of the same name of."""
    logged = {name for observed in fitted for name in observed.run_names}
    if "run" not in runs.frame:
        return runs, []
    seen = runs.frame["run"].isin(logged)
    if not seen.any():
        return runs, []
    names = list(runs.frame.loc[seen, "run"].unique())
    if seen.all():
        raise BayeslawError(f"{runs.name}: every candidate is a run of the fit already; a replicate needs a name of its own.")
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    note = f"{len(names)} candidate{'s' * (len(names) != 1)} left out, for the fit has runs of these names ({shown})"
    return replace(runs, frame=runs.frame[~seen]), [note]


def _faults(
    frame: pd.DataFrame, run: NDArray[np.int64], first: NDArray[np.int64], names: tuple[str, ...], law: Law
) -> Iterable[Fault]:
    """One run under two settings, logged twice at one, or ending before it is logged."""
    for row in frame.index[base_rows(frame, law)]:
        yield Fault(int(row), "D", "0", f"D = 0 is the base checkpoint, where {law.name} is infinite", "log the run at D > 0")
    for column in SAME:
        if column not in frame or column not in law.covariates:
            continue
        values = frame[column].to_numpy(dtype=np.float64)
        other = values != values[first][run]
        if "D" in frame:
            other &= ~(np.isnan(values) | (frame["D"] == 0).to_numpy() | (frame["D"].to_numpy()[first][run] == 0))
        for i in np.flatnonzero(other)[:1]:
            was, row = values[first][run[i]], frame.index[first[run[i]]]
            problem = f"run {names[run[i]]!r} has {column} {values[i]:g} here and {was:g} at row {row}"
            yield Fault(int(frame.index[i]), "run", names[run[i]], problem, "give each run an id of its own")
    numbers = frame.index.to_numpy()
    settings = frame[[*law.measured, *law.levels]].assign(code=run)
    for i in np.flatnonzero(settings.duplicated().to_numpy()):
        problem = f"run {names[run[i]]!r} is logged twice at one setting"
        yield Fault(int(numbers[i]), "run", names[run[i]], problem, "keep one row; a replicate is a run with an id of its own")
    if "D_end" in frame and "D" in frame:
        late = frame["D_end"].to_numpy(dtype=np.float64) < frame["D"].to_numpy(dtype=np.float64)
        for i in np.flatnonzero(late):
            problem = (
                f"run {names[run[i]]!r} ends at {frame['D_end'].iloc[i]:g} tokens, before its evaluation at {frame['D'].iloc[i]:g}"
            )
            yield Fault(int(numbers[i]), "D_end", f"{frame['D_end'].iloc[i]:g}", problem, "let it run longer or log it earlier")


def _column(frame: pd.DataFrame, column: str, what: str) -> NDArray[np.float64]:
    if column not in frame:
        raise BayeslawError(f"There is no column {column!r} for {what}.{nearest(column, map(str, frame))}")
    if frame[column].dtype.kind not in "fiu":
        raise BayeslawError(f"Column {column!r}, for {what}, holds no numbers.")
    return frame[column].to_numpy(dtype=np.float64)


def _costs(
    frame: pd.DataFrame, run: NDArray[np.int64], first: NDArray[np.int64], cost: str, flops: float, name: str
) -> NDArray[np.float64]:
    """Price of each run."""
    if cost == FLOPS and cost not in frame:
        if not {"N", "D"} <= set(frame):
            raise BayeslawError(f"{name} has no columns N and D to count FLOPs (6 N D) by; name a column of costs (--cost).")
        tokens = np.fmax(frame["D"], frame["D_end"]) if "D_end" in frame else frame["D"]
        values = np.maximum.reduceat((flops * frame["N"] * tokens).to_numpy(dtype=np.float64), first)
    else:
        column = _column(frame, cost, "costs")
        # FLOPs of a log are counted up row by row; any other price is the whole run's and the same in all its rows.
        values = np.maximum.reduceat(np.nan_to_num(column, nan=-np.inf), first) if cost == FLOPS else column[first]
        differs = (
            np.zeros(run.size, bool) if cost == FLOPS else (column != values[run]) & ~(np.isnan(column) & np.isnan(values[run]))
        )
        if (bad := np.flatnonzero(differs)).size:
            row, was = frame.index[bad[0]], f"{values[run[bad[0]]]:g}"
            raise TableError(
                [Fault(int(row), cost, f"{column[bad[0]]:g}", f"a run has one price, here {column[bad[0]]:g} and {was}")], name
            )
    wrong = ~(np.isfinite(values) & (values > 0))
    faults = [
        Fault(
            int(frame.index[first[i]]),
            cost,
            f"{values[i]:g}",
            f"cost {values[i]:g} is missing or not positive",
            "give each run's price",
        )
        for i in np.flatnonzero(wrong)
    ]
    if faults:
        raise TableError(faults, name)
    return values


def _checkpoints(
    frame: pd.DataFrame,
    checkpoint: NDArray[np.int64],
    names: tuple[str, ...],
    fitted: Sequence[Observations],
    cost: str,
    checkpoint_cost: str | None,
    name: str,
) -> tuple[NDArray[np.float64], list[str]]:
    """Price of training each checkpoint (a row of `frame` for each run), and what was assumed."""
    count = int(checkpoint.max()) + 1
    if not names or checkpoint_cost == "0":
        return np.zeros(count), (["all checkpoints are taken to exist"] if names else [])
    exists = np.array(
        [_known(frame.iloc[checkpoint.tolist().index(c)], names[c], fitted, "checkpoint" in frame) for c in range(count)]
    )
    if checkpoint_cost is None and "checkpoint_cost" in frame:
        checkpoint_cost = "checkpoint_cost"
    if checkpoint_cost is None and cost == FLOPS:
        checkpoint_cost = FLOPS
    if exists.all():
        return np.zeros(count), []
    missing = [names[c] for c in np.flatnonzero(~exists)]
    if checkpoint_cost is None or (checkpoint_cost == FLOPS and not {"N", "ptpp"} <= set(frame)):
        raise BayeslawError(
            f"{name}: the fit has no runs of checkpoint {missing[0]}, and there is no price for training it. Give a column "
            "checkpoint_cost (0 where a checkpoint exists), or a price of 0 if all exist (--checkpoint-cost 0)."
        )
    if checkpoint_cost == FLOPS:
        each = (6 * frame["N"] ** 2 * frame["ptpp"]).to_numpy(dtype=np.float64)
    else:
        each = _column(frame, checkpoint_cost, "the price of checkpoints")
    price = np.zeros(count)
    for row, code, value in zip(frame.index, checkpoint, each, strict=True):
        if exists[code]:
            continue
        if not (np.isfinite(value) and value >= 0):
            problem = f"checkpoint {names[code]} must be trained first and its price {value:g} is missing or negative"
            raise TableError([Fault(int(row), checkpoint_cost, f"{value:g}", problem, "give its price, 0 if it exists")], name)
        price[code] = max(price[code], value)
    trained = [names[c] for c in np.flatnonzero(price > 0)]
    shown = "; ".join(trained[:3]) + ("; …" if len(trained) > 3 else "")
    note = f"{len(trained)} checkpoint{'s' * (len(trained) != 1)} must be trained first and paid for once ({shown})"
    return price, [note] if trained else []


def _known(row: pd.Series, name: str, fitted: Sequence[Observations], named: bool) -> bool:
    """Whether a fit has runs of a checkpoint: by its name where candidates name theirs, else by N and ptpp."""
    if named:  # an empty cell is a checkpoint of its own, whatever it is called here
        return pd.notna(row["checkpoint"]) and any(name in observed.checkpoint_names for observed in fitted)
    pairs = [(o.covariates["N"], o.covariates["ptpp"]) for o in fitted if {"N", "ptpp"} <= o.covariates.keys()]
    return any(bool((np.isclose(n, row["N"]) & np.isclose(p, row["ptpp"])).any()) for n, p in pairs)


def _fixed(frame: pd.DataFrame, run: NDArray[np.int64], first: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    """Which runs are bought in any case: those with true, yes or 1 in the column `fixed`."""
    if "fixed" not in frame:
        return np.zeros(first.size, dtype=bool)
    texts = frame["fixed"].astype(str).str.strip().str.lower()
    if (bad := np.flatnonzero(~texts.isin(TRUE | FALSE))).size:
        value = str(frame["fixed"].iloc[bad[0]])
        raise TableError([Fault(int(frame.index[bad[0]]), "fixed", value, f"fixed {value!r} is neither true nor false")], name)
    return np.asarray(np.bincount(run, texts.isin(TRUE).to_numpy(dtype=np.float64)) > 0)


def grid_of_runs(law: Law | Posterior, settings: Mapping[str, str]) -> pd.DataFrame:
    """All combinations of values as candidates: one run for each, logged at every D or atpp; see `bayeslaw.grid`."""
    frame = grid(law, settings)
    apart = [name for name in settings if name not in ("D", "atpp")]
    return frame.assign(run=[", ".join(f"{name} {word(row[name])}" for name in apart) for _, row in frame.iterrows()])
