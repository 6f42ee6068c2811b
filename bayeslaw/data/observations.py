"""What a law is fitted to: covariates and log losses as arrays, sorted by run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest
from bayeslaw.core.units import NATS
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import base_rows, check, complete, mixed_domains
from bayeslaw.laws.law import Law


@dataclass(frozen=True)
class Observations:
    """Rows of a table under a law.

    Attributes
    ----------
    covariates : dict of str to array (n,)
    log_loss : array (n,)
        Log of the loss (nats/token, or in `unit`), rows sorted by run.
    run : int array (n,)
        Run codes 0 … R-1, ascending; rows without a run are runs of their own.
    run_names : tuple of str
    at : dict of str to float
        Reference point of the rows (`Law.reference`): priors with `on` are stated there.
    rows : int array (n,)
        Row numbers in the table.
    base : DataFrame
        Rows with D = 0 that the law can't describe: measured losses of base checkpoints, kept out of the fit.
    se : array (n,)
        Known standard errors of the log losses (`loss_se` over the loss); empty where the table tells none.
    checkpoint : int array (R,)
        Codes of the checkpoints that the runs are branched from, ascending; each run its own where none are known.
    checkpoint_names : tuple of str
    group : int array (R,)
        Codes of the groups of runs that differ in noise; all 0 where they don't.
    group_names : tuple of str
        Empty where there is one noise for all.
    group_column : str
        The column that tells the groups.
    clock : array (n,)
        How far along its run each row was logged, ascending within a run; empty where the noise does not ask for it.
    clock_column : str
        The column that tells it.
    span : float
        A typical run's length on that clock: the median of the runs' from first to last row.
    unit : str
        What the losses are in.
    """

    covariates: dict[str, NDArray[np.float64]]
    log_loss: NDArray[np.float64]
    run: NDArray[np.int64]
    run_names: tuple[str, ...]
    at: dict[str, float]
    rows: NDArray[np.int64]
    base: pd.DataFrame
    se: NDArray[np.float64]
    checkpoint: NDArray[np.int64]
    checkpoint_names: tuple[str, ...]
    group: NDArray[np.int64]
    group_names: tuple[str, ...] = ()
    group_column: str = ""
    clock: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    clock_column: str = ""
    span: float = 1.0
    unit: str = NATS

    @property
    def time(self) -> NDArray[np.float64]:
        """The clock in units of a typical run's length."""
        return self.clock / self.span

    @property
    def runs(self) -> int:
        return len(self.run_names)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each run begins, and the number of rows."""
        return np.searchsorted(self.run, np.arange(self.runs + 1)).astype(np.int64)

    @property
    def branched(self) -> bool:
        """Whether some runs share a checkpoint."""
        return len(self.checkpoint_names) < self.runs

    @property
    def families(self) -> NDArray[np.int64]:
        """With which run each checkpoint begins, and the number of runs."""
        return np.searchsorted(self.checkpoint, np.arange(len(self.checkpoint_names) + 1)).astype(np.int64)

    def groups_of(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """Which of the groups that differ in noise the rows of a table of settings belong to, int array (n,).

        Raises
        ------
        BayeslawError
            If the table lacks their column, or a row is of none of them.
        """
        column, names = self.group_column, self.group_names
        if not names:
            return np.zeros(len(frame), np.int64)
        if column not in frame:
            raise BayeslawError(f"The fit's noise differs by {column}; the settings need that column, with {', '.join(names)}.")
        codes = pd.Index(names).get_indexer(pd.Index(frame[column].astype(str)))
        if (bad := np.flatnonzero(codes < 0)).size:
            value = frame[column].iloc[bad[0]]
            raise BayeslawError(f"Row {frame.index[bad[0]]}: {column} {value!r} is not among the fit's: {', '.join(names)}.")
        return codes.astype(np.int64)

    def time_of(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """The clock of a table of settings, in units of a typical run's length; empty where the noise does not ask for it.

        Rows that share no run need no clock: their noise is the same at any moment.

        Raises
        ------
        BayeslawError
            If rows share a run and the column is missing or empty.
        """
        column = self.clock_column
        if not column:
            return np.empty(0)
        if column not in frame and np.bincount(run_codes(frame)[0]).max() == 1:
            return np.zeros(len(frame))
        return clock_of(frame, column) / self.span

    @property
    def loss(self) -> NDArray[np.float64]:
        return np.exp(self.log_loss)

    @classmethod
    def of(cls, law: Law, runs: Runs, noise_by: str | None = None, clock: str = "") -> Observations:
        """Check a table against a law and take what the law needs.

        Parameters
        ----------
        noise_by : str, optional
            Column whose values are groups of runs with noise of their own.
        clock : str, optional
            Column that tells how far along its run each row was logged, for noise that drifts; see `clock_column`.

        Raises
        ------
        TableError
            With every fault of the table.
        """
        if faults := check(runs, law):
            raise TableError(faults, runs.name)
        if mixed := mixed_domains(runs.frame, law):
            raise BayeslawError(f"{runs.name}: {mixed}.")
        base = base_rows(runs.frame, law)
        frame = complete(runs.frame[~base], law)
        if len(frame) < 3:
            raise BayeslawError(f"{runs.name} has {len(frame)} rows for {law.name}; a fit needs at least 3.")
        nested = Nesting.of(frame, law, noise_by)
        order, run, first = nested.order
        time, span = np.empty(0), 1.0
        if clock:
            order, time = _in_time(clock_of(frame, clock), order, run)
            span = typical_span(time, run, clock)
        frame = frame.iloc[order]
        loss = frame["loss"].to_numpy(dtype=np.float64)
        observed = cls(
            covariates={c: frame[c].to_numpy(dtype=np.float64) for c in law.covariates},
            log_loss=np.log(loss),
            run=run,
            run_names=tuple(nested.run_names[i] for i in nested.run[first]),
            at=law.reference(frame),
            rows=frame.index.to_numpy(dtype=np.int64),
            base=runs.frame[base],
            se=frame["loss_se"].to_numpy(dtype=np.float64) / loss if "loss_se" in frame else np.empty(0),
            checkpoint=nested.checkpoint[first],
            checkpoint_names=nested.checkpoint_names,
            group=nested.group[first],
            group_names=nested.group_names,
            group_column=noise_by or "",
            clock=time,
            clock_column=clock,
            span=span,
            unit=runs.unit,
        )
        _check_finite(law, observed, runs.name)
        return observed


def planned(law: Law, runs: Runs, like: Observations) -> tuple[Observations, NDArray[np.int64]]:
    """Settings of runs that nobody has made as rows under a law, and which row of the table each is, int array (n,).

    Log losses are not numbers; groups of noise are those of `like`. Known errors are left out.
    """
    frame = complete(runs.frame, law)
    nested, group = Nesting.of(frame, law, like.group_column or None), like.groups_of(frame)
    order, run, first = nested.order
    time = np.empty(0)
    if like.clock_column:
        order, time = _in_time(like.time_of(frame) * like.span, order, run)
    observed = Observations(
        covariates={c: frame[c].to_numpy(dtype=np.float64)[order] for c in law.covariates},
        log_loss=np.full(len(frame), np.nan),
        run=run,
        run_names=tuple(nested.run_names[i] for i in nested.run[first]),
        at=like.at,
        rows=frame.index.to_numpy(dtype=np.int64)[order],
        base=frame.iloc[:0],
        se=np.empty(0),
        checkpoint=nested.checkpoint[first],
        checkpoint_names=nested.checkpoint_names,
        group=group[first],
        group_names=like.group_names,
        group_column=like.group_column,
        clock=time,
        clock_column=like.clock_column,
        span=like.span,
        unit=like.unit,
    )
    return observed, order


STEP = "step"


def clock_column(frame: pd.DataFrame) -> str:
    """The column that tells how far along its run each row was logged: `step` where it holds numbers, else D.

    Raises
    ------
    BayeslawError
        If there is neither.
    """
    for column in (STEP, "D"):
        if column in frame and frame[column].dtype.kind in "fiu" and frame[column].notna().any():
            return column
    raise BayeslawError(
        "Noise that drifts goes along a run: the table needs a column `step` (or D) that tells how far along its run each row was "
        f"logged.{nearest(STEP, map(str, frame))}"
    )


def clock_of(frame: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """How far along its run each row was logged, array (n,).

    Raises
    ------
    BayeslawError
        If the column is missing, or a row has no finite value of 0 or more.
    """
    if column not in frame or frame[column].dtype.kind not in "fiu":
        raise BayeslawError(
            f"The noise drifts along {column}: rows that share a run need that column, in numbers that tell how far along the run "
            "they are."
        )
    clock = frame[column].to_numpy(dtype=np.float64)
    if (bad := np.flatnonzero(~(np.isfinite(clock) & (clock >= 0)))).size:
        value, code, names = clock[bad[0]], *run_codes(frame)
        what = "empty" if np.isnan(value) else f"{value:g}, which can't be"
        whole = np.isnan(clock[code == code[bad[0]]]).all() and (code == code[bad[0]]).sum() > 1
        where = f"in all rows of run {names[code[bad[0]]]!r}" if whole else f"at row {frame.index[bad[0]]}"
        raise BayeslawError(f"The noise drifts along {column}, which is {what} {where}: give how far along the run it was logged.")
    return clock


def typical_span(clock: NDArray[np.float64], run: NDArray[np.int64], column: str) -> float:
    """Median length of the runs on a clock that ascends within them, of those logged at two moments or more."""
    starts = np.searchsorted(run, np.arange(int(run.max()) + 2))
    lengths = clock[starts[1:] - 1] - clock[starts[:-1]]
    if not (lengths > 0).any():
        raise BayeslawError(
            f"No run has rows at two values of {column}, so noise normal-drift has nothing to go by. Name the runs in a column "
            "`run`, or choose noise normal."
        )
    return float(np.median(lengths[lengths > 0]))


def _in_time(
    clock: NDArray[np.float64], order: NDArray[np.int64], run: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows that are in the order of runs, each run's in the order of a clock; and their clock."""
    order = order[np.lexsort((clock[order], run))]
    return order, clock[order]


@dataclass(frozen=True)
class Nesting:
    """To which run, checkpoint and group the rows of a table belong, by codes in order of appearance.

    Attributes
    ----------
    run, checkpoint, group : int arrays (n,)
    run_names, checkpoint_names, group_names : tuples of str
    """

    run: NDArray[np.int64]
    run_names: tuple[str, ...]
    checkpoint: NDArray[np.int64]
    checkpoint_names: tuple[str, ...]
    group: NDArray[np.int64]
    group_names: tuple[str, ...]

    @property
    def order(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows sorted by checkpoint and run: which they are (n,), codes of their runs, ascending (n,), a row of each run (R,)."""
        first = np.unique(self.run, return_index=True)[1]
        by_run = np.lexsort((np.arange(first.size), self.checkpoint[first]))
        rank = np.argsort(by_run)
        order = np.argsort(rank[self.run], kind="stable")
        return order.astype(np.int64), rank[self.run][order].astype(np.int64), first[by_run].astype(np.int64)

    @classmethod
    def of(cls, frame: pd.DataFrame, law: Law, noise_by: str | None = None) -> Nesting:
        """Read them off the columns.

        A row without a run is a run of its own. The checkpoint is that of the column `checkpoint`; without one, runs of a law of
        `ptpp` with the same N, ptpp and (where there is one) seed share it; else every run has its own.

        Raises
        ------
        TableError, BayeslawError
            If a run has rows of two checkpoints or groups, or there is no such column.
        """
        run, names = run_codes(frame)
        checkpoint, checkpoints = run, names
        if "checkpoint" in frame:
            checkpoint, checkpoints = _codes(frame, "checkpoint", "run", run)
        elif "ptpp" in law.covariates and {"N", "ptpp"} <= set(frame):
            of = ["N", "ptpp", *(["seed"] if "seed" in frame else [])]
            checkpoint = frame.groupby(of, sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)
            some = frame[of].iloc[np.unique(checkpoint, return_index=True)[1]].to_numpy()
            checkpoints = tuple(", ".join(f"{c} {word(value)}" for c, value in zip(of, row, strict=True)) for row in some)
        group, groups = np.zeros(run.size, np.int64), tuple[str, ...]()
        if noise_by is not None:
            if noise_by not in frame:
                raise BayeslawError(f"There is no column {noise_by!r} for noise to differ by.{nearest(noise_by, map(str, frame))}")
            if frame[noise_by].isna().any():
                row = frame.index[frame[noise_by].isna()][0]
                raise BayeslawError(f"Noise differs by {noise_by}, which is empty at row {row}.")
            group, groups = _codes(frame, noise_by)
        for what, code in (("checkpoints", checkpoint), (f"values of {noise_by}", group)):
            _check_nested(frame, run, names, code, what)
        return cls(run, names, checkpoint, checkpoints, group, groups)


def run_codes(frame: pd.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Run codes in order of appearance and the runs' names; a row without a run is a run of its own."""
    return _codes(frame, "run")


def _codes(
    frame: pd.DataFrame, column: str, else_by: str = "row", other: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes of a column in order of appearance, and its values; an empty cell stands for itself, by row or by another code."""
    own = [f"{else_by} {i}" for i in (frame.index if other is None else other)]
    labels = pd.Series(own, index=frame.index, dtype=object)
    if column in frame:
        labels = frame[column].astype(object).where(frame[column].notna(), labels).astype(str)
    code, names = pd.factorize(labels)
    return code.astype(np.int64), tuple(map(str, names))


def word(value: object) -> str:
    """A value as part of a name."""
    return value if isinstance(value, str) else f"{value:g}"


def _check_nested(frame: pd.DataFrame, run: NDArray[np.int64], names: tuple[str, ...], code: NDArray[np.int64], what: str) -> None:
    """A run has one checkpoint and one group."""
    first = np.unique(run, return_index=True)[1]
    if (bad := np.flatnonzero(code != code[first][run])).size:
        rows = frame.index[[first[run[bad[0]]], bad[0]]]
        raise BayeslawError(
            f"Run {names[run[bad[0]]]!r} has rows of two {what} (rows {rows[0]} and {rows[1]}); a run has one. Give runs that "
            "differ ids that differ."
        )


def _check_finite(law: Law, observed: Observations, name: str) -> None:
    """Refuse settings where the law has no value whatever its parameters, such as r = 0 under r**-gamma."""
    draws = law.sample_prior(64, observed.at, np.random.default_rng(0))
    bad = ~np.isfinite(law.predict(draws, observed.covariates)).any(axis=0)
    if bad.any():
        settings = [", ".join(f"{k} = {v[i]:g}" for k, v in observed.covariates.items()) for i in np.flatnonzero(bad)]
        faults = [
            Fault(
                int(row),
                "loss",
                "",
                f"{law.name} has no finite value at {setting}",
                "remove the row or use a law that is finite there",
            )
            for row, setting in zip(observed.rows[bad], settings, strict=True)
        ]
        raise TableError(faults, name)
