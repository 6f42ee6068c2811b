"""The data of a fit: covariates and log losses as arrays, with rows sorted by run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import KDTree

from bayeslaw.core.arrays import Array, Index, holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError
from bayeslaw.core.text import exact
from bayeslaw.core.units import NATS
from bayeslaw.data.columns import columns_there, did_you_mean
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import base_rows, check, complete, repeats
from bayeslaw.laws.law import Law
from bayeslaw.laws.outcome import LOSS, Outcome
from bayeslaw.laws.pooling import blank, levels_in

ROW_TOLERANCE = 1e-6  # relative difference below which a number of a table is that of a fitted row
LEAST_DECIMALS = 3  # of rounded outcomes by which rows of a run are recognised


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows of a table as arrays, for one law; n rows, sorted by run, of R runs.

    Attributes
    ----------
    covariates, response : arrays (n,)
        The responses are the outcomes on the scale on which noise is added: the logarithms of losses in `unit`.
    run : int array (n,)
        Run codes 0 … R-1, ascending; rows without a run are runs of their own.
    at : dict of str to float
        Reference point of the rows (`Law.reference`), where priors with `on` apply.
    rows : int array (n,)
        Row numbers in the table.
    base : DataFrame
        Rows with D = 0 that the law can't describe: measured losses of base checkpoints, kept out of the fit.
    se : array (n,)
        Known standard errors of the responses (`loss_se` over the loss); empty where the table gives none.
    checkpoint, group : int arrays (R,)
        Codes of the checkpoints from which the runs branch, ascending, of their own where none are known; and codes of the groups
        of runs that differ in noise by `group_column`, all 0 and without names where there is one noise for all.
    row_group : int array (n,)
        Codes of the groups of the rows of shares of counted items, which may differ within a run; empty otherwise.
    clock : array (n,)
        The step (or D) at which each row was logged, ascending within a run; empty unless the noise has an OU run effect.
    span : float
        The median length of the runs on that clock, from first to last row.
    """

    covariates: dict[str, Array]
    response: Array
    run: Index
    run_names: tuple[str, ...]
    at: dict[str, float]
    rows: Index
    base: pd.DataFrame
    se: Array
    checkpoint: Index
    checkpoint_names: tuple[str, ...]
    group: Index
    group_names: tuple[str, ...] = ()
    group_column: str = ""
    clock: Array = field(default_factory=lambda: np.empty(0))
    clock_column: str = ""
    span: float = 1.0
    unit: str = NATS
    outcome: Outcome = LOSS
    row_group: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def time(self) -> Array:
        """The clock in units of `span`."""
        return self.clock / self.span

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.run_names)

    @property
    def known(self) -> Array:
        """Known variances of the responses, (n,); 0 where the table gives no standard errors."""
        return self.se**2 if self.se.size else np.zeros(self.response.size)

    @property
    def items(self) -> Array:
        """Of how many items each outcome is a share, (n,); for outcomes that are."""
        return self.covariates[self.outcome.items]

    @property
    def group_of_row(self) -> Index:
        """Codes of the rows' groups of noise, (n,)."""
        return self.row_group if self.row_group.size else self.group[self.run]

    @property
    def starts(self) -> Index:
        """The first row of each run, and the number of rows, (R + 1,)."""
        return np.searchsorted(self.run, np.arange(self.runs + 1)).astype(np.int64)

    @property
    def slices(self) -> list[slice]:
        """The rows of each run."""
        return [slice(a, b) for a, b in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)]

    @property
    def branched(self) -> bool:
        """Whether some runs share a checkpoint."""
        return len(self.checkpoint_names) < self.runs

    def groups_of(self, frame: pd.DataFrame) -> Index:
        """Return the codes of the groups of noise to which the rows of a table of settings belong, int array (n,)."""
        column, names = self.group_column, self.group_names
        if not names:
            return np.zeros(len(frame), np.int64)
        if column not in frame:
            message = f"The fit's noise differs by {column}; the settings need that column, with {', '.join(names)}."
            raise BayeslawError(message, code="missing-column")
        # A table of numbers calls a group '15.0' that a setting calls '15'.
        codes = pd.Index(names).get_indexer(pd.Index(levels_in(frame[column], names)))
        if (bad := np.flatnonzero(codes < 0)).size:
            value = frame[column].iloc[bad[0]]
            known = f"is not among {', '.join(names)}, and the fit's noise differs by {column} and is known for those only"
            message = (
                f"Row {frame.index[bad[0]]}: {column} {value!r} {known}. Name one of them, or fit without a noise by {column}."
            )
            raise BayeslawError(message, code="unknown-group")
        return codes.astype(np.int64)

    def time_of(self, frame: pd.DataFrame) -> Array:
        """Return the clock of a table of settings in units of `span`; empty unless the noise has an OU run effect.

        Rows that share no run need no clock: their noise has the same distribution at any step.
        """
        column = self.clock_column
        if not column:
            return np.empty(0)
        if column not in frame and np.bincount(run_codes(frame)[0]).max() == 1:
            return np.zeros(len(frame))
        return clock_of(frame, column) / self.span

    def select(self, runs: Index) -> Observations:
        """Return the rows of some runs, with codes of their own; `runs` (k,) are ascending codes."""
        rows = np.isin(self.run, runs)
        names, checkpoint = np.unique(self.checkpoint[runs], return_inverse=True)
        return replace(
            self,
            covariates={name: values[rows] for name, values in self.covariates.items()},
            response=self.response[rows],
            run=np.searchsorted(runs, self.run[rows]),
            run_names=tuple(self.run_names[code] for code in runs),
            rows=self.rows[rows],
            se=self.se[rows] if self.se.size else self.se,
            checkpoint=checkpoint,
            checkpoint_names=tuple(self.checkpoint_names[code] for code in names),
            group=self.group[runs],
            row_group=self.row_group[rows] if self.row_group.size else self.row_group,
            clock=self.clock[rows] if self.clock.size else self.clock,
        )

    def find(self, frame: pd.DataFrame, law: Law) -> tuple[Index, Index]:
        """Find the runs and checkpoints that a table names among these, int arrays (n,) of codes; -1 where there is none.

        A row belongs to a run of the same name and N. Where a table has neither a column `checkpoint` nor `seed`, a row belongs to
        the one checkpoint with its N and ptpp, if there is exactly one.
        """
        run = _find(frame, "run", self.run_names)
        first = self.starts[:-1]
        if "N" in self.covariates and "N" in frame:
            size = frame["N"].to_numpy(dtype=np.float64)
            run[(run >= 0) & ~np.isclose(size, self.covariates["N"][first][run], rtol=1e-6, atol=0.0)] = -1
        if "checkpoint" in frame:
            checkpoint = _find(frame, "checkpoint", self.checkpoint_names)
        elif {"N", "ptpp"} <= self.covariates.keys() & set(frame):
            nested = Nesting.of(frame, law)
            checkpoint = pd.Index(self.checkpoint_names).get_indexer(pd.Index(nested.checkpoint_names))[nested.checkpoint]
            if "seed" not in frame:
                key = pd.DataFrame({name: self.covariates[name][first] for name in ("N", "ptpp")}).assign(code=self.checkpoint)
                alone = key.drop_duplicates().drop_duplicates(["N", "ptpp"], keep=False)
                codes = frame[["N", "ptpp"]].astype(float).merge(alone, "left", on=["N", "ptpp"])["code"].fillna(-1)
                checkpoint = np.where(checkpoint < 0, codes.to_numpy(), checkpoint)
        else:
            checkpoint = np.full(len(frame), -1)
        return run, np.where(run >= 0, self.checkpoint[run], checkpoint).astype(np.int64)

    @property
    def outcomes(self) -> Array:
        """The losses, or the outcomes that they are in place of, (n,)."""
        return np.asarray(self.outcome.from_response(self.response))

    def has(self, law: Law, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Mark the rows of a table that are among these, by their covariates and outcome, whatever their runs are called.

        Parameters
        ----------
        law, frame : Law and DataFrame
            The law of the covariates, and checked rows with losses in `unit`.

        Returns
        -------
        bool array (n,)
            Numbers that differ by less than `ROW_TOLERANCE`, relatively, are the same: tables are written with few digits. In runs
            of the same name an outcome is also the same if it is the other one, rounded to the decimals of its table.
        """
        mine, theirs = self._places(law, frame, law.outcome.name)
        distance, _ = KDTree(mine).query(theirs, p=np.inf, distance_upper_bound=ROW_TOLERANCE)
        seen, run = np.isfinite(distance), _find(frame, "run", self.run_names)
        named = np.flatnonzero(~seen & (run >= 0))
        if named.size:
            asked = np.column_stack([theirs[named, :-1], run[named]])  # the outcome is the last
            near = KDTree(np.column_stack([mine[:, :-1], self.run])).query_ball_point(asked, ROW_TOLERANCE, p=np.inf)
            own, values = self.outcomes, frame[law.outcome.name].to_numpy(dtype=np.float64)
            most = rounding(own, values)
            seen[named] = [bool((np.abs(own[of] - value) <= most).any()) for value, of in zip(values[named], near, strict=True)]
        return np.asarray(seen)

    def outcomes_at(self, law: Law, frame: pd.DataFrame) -> list[list[float]]:
        """Return the outcomes of these rows at each row's settings of a table (n rows), by the rule of `has`; often none.

        Parameters
        ----------
        law, frame : Law and DataFrame
            The law of the covariates, and checked settings.
        """
        mine, theirs = self._places(law, frame)
        near = KDTree(mine).query_ball_point(theirs, ROW_TOLERANCE, p=np.inf)
        return [self.outcomes[sorted(rows)].tolist() for rows in near]

    def _places(self, law: Law, frame: pd.DataFrame, *names: str) -> list[Array]:
        """Return these rows' covariates and named columns, and those of a table, as places that are near where these agree."""
        frame = complete(frame, law)
        ours = self.covariates | dict.fromkeys(names, self.outcomes)
        tables = []
        for columns in (ours, {c: frame[c].to_numpy(dtype=np.float64) for c in (*law.covariates, *names)}):
            base = np.all([columns[name] == 0 for name in law.onset], axis=0) & bool(law.onset)
            idle = {name: np.where(base, 0.0, columns[name]) for name in law.idle_at_base}  # they differ by table and don't matter
            tables.append(same_scale(np.column_stack([*(columns | idle).values()])))
        return tables

    @classmethod
    def of(cls, law: Law, runs: Runs, noise_by: str | None = None, clock: str = "") -> Observations:
        """Check a table and return its rows as arrays; a TableError lists every fault.

        Parameters
        ----------
        law, runs : Law and Runs
        noise_by, clock : str, optional
            Columns whose values are groups of runs with noise of their own, and of the clock of an OU run effect (`clock_column`).
        """
        if faults := check(runs, law):
            raise TableError(faults, runs.name)
        rows = runs.frame.drop(index=repeats(runs.frame, law).index) if runs.duplicates == "drop" else runs.frame
        base = base_rows(rows, law)
        frame = complete(rows[~base], law)
        nested = Nesting.of(frame, law, noise_by)
        (order, run, _), time, span = nested.order, np.empty(0), 1.0
        if clock:
            logged = clock_of(frame, clock)
            order = order[np.lexsort((logged[order], run))]
            time, span = logged[order], _typical_span(logged[order], run, clock)
        frame = frame.iloc[order]
        outcome = law.outcome
        values = frame[outcome.name].to_numpy(dtype=np.float64)
        observed = cls(
            **_arrays(frame, law, nested),
            response=np.asarray(outcome.response(values), dtype=np.float64),
            at=law.reference(frame),
            base=rows[base],
            se=frame[outcome.error].to_numpy(dtype=np.float64) * outcome.slope(values) if outcome.error in frame else np.empty(0),
            group_names=nested.group_names,
            group_column=noise_by or "",
            clock=time,
            clock_column=clock,
            span=span,
            unit=runs.unit if outcome.is_loss else outcome.unit,
            outcome=outcome,
        )
        _check_finite(law, observed, runs.name)
        return observed


def planned(law: Law, runs: Runs, like: Observations) -> tuple[Observations, Index]:
    """Return settings of planned runs as rows under a law, and the row of the table that each is, int array (n,).

    Parameters
    ----------
    law, runs : Law and Runs
        Known standard errors are left out, and log losses are nan.
    like : Observations
        Those of the fit, with the groups of noise, the clock and the reference point.
    """
    frame = complete(runs.frame, law)
    nested = replace(Nesting.of(frame, law, like.group_column or None), group=like.groups_of(frame))
    (order, run, _), time = nested.order, np.empty(0)
    if like.clock_column:
        clock = like.time_of(frame) * like.span
        order = order[np.lexsort((clock[order], run))]
        time = clock[order]
    arrays = _arrays(frame.iloc[order], law, nested)
    empty = np.full(len(frame), np.nan)
    return replace(like, **arrays, response=empty, base=frame.iloc[:0], se=np.empty(0), clock=time), order


def _arrays(frame: pd.DataFrame, law: Law, nested: Nesting) -> dict[str, Any]:
    """Return what a sorted table and its nesting say of an `Observations`."""
    order, run, first = nested.order
    by_row = law.outcome.kind == "count"
    return {
        "covariates": {name: values.copy() for name, values in law.arrays(frame).items()},  # the table is its user's
        "rows": frame.index.to_numpy(dtype=np.int64),
        "run": run,
        "run_names": tuple(nested.run_names[i] for i in nested.run[first]),
        "checkpoint": nested.checkpoint[first],
        "checkpoint_names": nested.checkpoint_names,
        "group": np.zeros(first.size, dtype=np.int64) if by_row else nested.group[first],
        "row_group": nested.group[order] if by_row and nested.group_names else np.empty(0, dtype=np.int64),
    }


STEP = "step"


def clock_column(frame: pd.DataFrame, law: Law) -> str:
    """Return the column of the clock along which a run is logged: D in a law of D, else `step` where it holds numbers, else D.

    Settings of forecasts always have the covariates of the law.
    """
    for column in _clocks(law):
        if column in frame and holds_numbers(frame[column]) and frame[column].notna().any():
            return column
    raise BayeslawError(
        "Noise with an OU run effect is correlated along a run: the table needs a column `step` (or D) that says when each row was "
        f"logged.{did_you_mean('step', map(str, frame))}",
        code="missing-clock",
    )


def _clocks(law: Law) -> tuple[str, str]:
    """Return the columns that may be the clock of a run, the better one first."""
    return ("D", STEP) if "D" in law.covariates else (STEP, "D")


def moments_of_runs(frame: pd.DataFrame, law: Law) -> Index:
    """Return at how many moments of the clock each run of a table is logged, int array (R,); empty if no column says when."""
    logged = frame[~base_rows(frame, law)]
    column = next((c for c in _clocks(law) if c in logged), None)
    if column is None:
        return np.empty(0, dtype=np.int64)
    of_runs = logged.groupby(run_codes(logged)[0])[column]
    return np.asarray(of_runs.nunique(), dtype=np.int64)


def clock_of(frame: pd.DataFrame, column: str) -> Array:
    """Return the step (or D) at which each row was logged, array (n,)."""
    if column not in frame or not holds_numbers(frame[column]):
        message = f"The noise is correlated along {column}: rows that share a run need that column, in numbers."
        raise BayeslawError(message, code="missing-clock")
    clock = frame[column].to_numpy(dtype=np.float64)
    if (bad := np.flatnonzero(~(np.isfinite(clock) & (clock >= 0)))).size:
        value, code, names = clock[bad[0]], *run_codes(frame)
        shown = "empty" if np.isnan(value) else f"{value:g}"
        whole = np.isnan(clock[code == code[bad[0]]]).all() and (code == code[bad[0]]).sum() > 1
        where = f"in all rows of run {names[code[bad[0]]]!r}" if whole else f"at row {frame.index[bad[0]]}"
        message = f"The noise is correlated along {column}, which is {shown} {where}: give finite values from 0."
        raise BayeslawError(message, code="bad-clock")
    return clock


def _typical_span(clock: Array, run: Index, column: str) -> float:
    """Return the median length of the runs logged at two or more values of a clock that ascends within runs."""
    starts = np.searchsorted(run, np.arange(int(run.max()) + 2))
    lengths = clock[starts[1:] - 1] - clock[starts[:-1]]
    if not (lengths > 0).any():
        raise BayeslawError(
            f"No run has rows at two values of {column}, so noise normal-drift can't be estimated. Name the runs in a column "
            "`run`, or choose noise normal.",
            code="no-repeated-runs",
        )
    return float(np.median(lengths[lengths > 0]))


@dataclass(frozen=True, eq=False)
class Nesting:
    """The run, checkpoint and group of each row of a table, by codes in order of appearance, int arrays (n,)."""

    run: Index
    run_names: tuple[str, ...]
    checkpoint: Index
    checkpoint_names: tuple[str, ...]
    group: Index
    group_names: tuple[str, ...]

    @property
    def order(self) -> tuple[Index, Index, Index]:
        """Rows sorted by checkpoint and run (n,), the ascending codes of their runs (n,), and the first row of each run (R,)."""
        first = np.unique(self.run, return_index=True)[1]
        by_run = np.lexsort((np.arange(first.size), self.checkpoint[first]))
        rank = np.argsort(by_run)
        order = np.argsort(rank[self.run], kind="stable")
        return order.astype(np.int64), rank[self.run][order].astype(np.int64), first[by_run].astype(np.int64)

    @classmethod
    def of(cls, frame: pd.DataFrame, law: Law, noise_by: str | None = None) -> Nesting:
        """Find them from the columns of a table, and refuse a run with rows of two checkpoints or groups.

        A row without a run is a run of its own. The checkpoint is that of the column `checkpoint`; without one, runs of a law of
        `ptpp` with the same N, ptpp and (where there is one) seed share it; otherwise every run has its own.
        The groups are those of the column `noise_by`.
        """
        run, names = run_codes(frame)
        checkpoint, checkpoints = run, names
        if "checkpoint" in frame:
            checkpoint, checkpoints = _codes(frame, "checkpoint", "run", run)
        elif "ptpp" in law.covariates and {"N", "ptpp"} <= set(frame):
            of = ["N", "ptpp", *(["seed"] if "seed" in frame else [])]
            checkpoint = frame.groupby(of, sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)
            some = frame[of].iloc[np.unique(checkpoint, return_index=True)[1]].to_numpy()
            checkpoints = tuple(", ".join(f"{c} {exact(value)}" for c, value in zip(of, row, strict=True)) for row in some)
        group, groups = np.zeros(run.size, np.int64), tuple[str, ...]()
        if noise_by is not None:
            if not isinstance(noise_by, str):
                raise BayeslawError(f"noise_by is the name of a column, not {noise_by!r}.", code="not-a-text")
            if noise_by not in frame:
                there = f"the table has {columns_there(frame)}.{did_you_mean(noise_by, map(str, frame))}"
                raise BayeslawError(f"There is no column {noise_by!r} for noise to differ by; {there}", code="missing-column")
            if (empty := blank(frame[noise_by])).any():
                row = frame.index[empty][0]
                raise BayeslawError(f"Noise differs by {noise_by}, which is empty at row {row}.", code="missing-group")
            group, groups = _codes(frame, noise_by)
            if slashed := [name for name in groups if "/" in name]:
                problem = f"Draws are stored under the names of {noise_by}, which can't have a '/' as {slashed[0]!r} has"
                raise BayeslawError(f"{problem}: write another sign, such as '_'.", code="slash-in-group")
        nested = [("checkpoints", checkpoint), *([] if law.outcome.kind == "count" else [(f"values of {noise_by}", group)])]
        for what, code in nested:
            _check_nested(frame, run, names, code, what)
        return cls(run, names, checkpoint, checkpoints, group, groups)


def same_scale(values: Any) -> Array:
    """Return a logarithm that has a value at 0 and below: numbers less than `ROW_TOLERANCE` apart on it are the same."""
    return np.asarray(np.arcsinh(1e150 * np.asarray(values, dtype=np.float64)))


def rounding(outcomes: Array, others: Array) -> float:
    """Return by how much an outcome in one of two tables may differ from the same one in the other, by its rounding.

    It is 0 where a table has fewer than `LEAST_DECIMALS` decimals.
    """
    decimals = min(_decimals(outcomes), _decimals(others))
    return 0.5000001 * 10.0**-decimals if decimals >= LEAST_DECIMALS else 0.0


def _decimals(values: Array) -> int:
    """Return with how many decimals numbers are written, at most 12."""
    return next((count for count in range(12) if np.allclose(values, values.round(count), rtol=0.0, atol=1e-13)), 12)


def run_codes(frame: pd.DataFrame) -> tuple[Index, tuple[str, ...]]:
    """Return run codes in order of appearance and the runs' names; a row without a run is a run of its own."""
    return _codes(frame, "run")


def _codes(frame: pd.DataFrame, column: str, else_by: str = "row", other: Index | None = None) -> tuple[Index, tuple[str, ...]]:
    """Return codes of a column in order of appearance, and its values; each empty cell, or code in `other`, is its own value."""
    own = [f"{else_by} {i}" for i in (frame.index if other is None else other)]
    labels = pd.Series(own, index=frame.index, dtype=object)
    if column in frame:
        labels = frame[column].astype(object).where(frame[column].notna(), labels).astype(str)
    code, names = pd.factorize(labels)
    return code.astype(np.int64), tuple(map(str, names))


def _find(frame: pd.DataFrame, column: str, names: tuple[str, ...]) -> Index:
    """Return the places among `names` of the values of a column, int array (n,); -1 for other values and empty cells."""
    if column not in frame:
        return np.full(len(frame), -1)
    return np.where(frame[column].notna(), pd.Index(names).get_indexer(pd.Index(frame[column].astype(str))), -1).astype(np.int64)


def _check_nested(frame: pd.DataFrame, run: Index, names: tuple[str, ...], code: Index, what: str) -> None:
    """Refuse runs of two checkpoints or groups."""
    first = np.unique(run, return_index=True)[1]
    if (bad := np.flatnonzero(code != code[first][run])).size:
        rows = frame.index[[first[run[bad[0]]], bad[0]]]
        raise BayeslawError(
            f"Run {names[run[bad[0]]]!r} has rows of two {what} (rows {rows[0]} and {rows[1]}); a run has one. Give different "
            "runs different names.",
            code="run-of-two",
        )


def _check_finite(law: Law, observed: Observations, name: str) -> None:
    """Refuse settings where the law has no possible value by any draw of its priors, such as r = 0 under r**-gamma."""
    draws = law.sample_prior(64, observed.at, np.random.default_rng(0))
    suggestion = "remove the row, or use a law and priors that allow one there"
    faults = []
    without = np.arange(observed.response.size)
    for few in ({name: column[:2] for name, column in draws.items()}, draws):  # almost all rows have a value by one of two
        values = law.predict(few, {name: column[without] for name, column in observed.covariates.items()})
        without = without[~law.outcome.possible(values).any(axis=0)]
    for i in without:
        at = ", ".join(f"{k} = {v[i]:g}" for k, v in observed.covariates.items())
        problem = f"by its priors, {law.name} has no {law.outcome.words} value at {at}"
        faults.append(Fault(int(observed.rows[i]), law.outcome.name, "", problem, suggestion, "no-finite-value"))
    if faults:
        raise TableError(faults, name)
