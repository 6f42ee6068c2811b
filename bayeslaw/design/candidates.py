"""Candidates: runs that could be bought, each a curve at one price; their checkpoints may have to be trained first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest, shortened
from bayeslaw.core.flops import Stages, per_token
from bayeslaw.core.text import counted, exact, listed, number
from bayeslaw.data.cells import empty, numbers_in
from bayeslaw.data.columns import resolve
from bayeslaw.data.magnitudes import unit_faults
from bayeslaw.data.measured import check_error
from bayeslaw.data.observations import Nesting, Observations, run_codes
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.validate import base_rows, check
from bayeslaw.forecasting.base_losses import with_known_base_losses
from bayeslaw.forecasting.grid import Setting, grid
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.laws.law import Law, shares_of_parameters

FLOPS = "flops"
PRICE_OF_CHECKPOINTS = "the price of checkpoints"
CONSTANT_IN_RUN = ("N", "ptpp", "r")  # covariates that are constant within a run
TRUE, FALSE = {"true", "yes", "1", "1.0"}, {"false", "no", "0", "0.0", ""}


@dataclass(frozen=True, eq=False)
class Candidates:
    """Runs that could be bought.

    Attributes
    ----------
    runs : Runs
        Their settings, one evaluation a row, rows of a run together.
    run : int array (n,)
        Codes of the rows' runs, ascending.
    names, checkpoints : tuples of str
        Names of the R runs and of the C checkpoints.
    cost : array (R,)
        Price of each run without its checkpoint, in FLOPs or the `unit` of the cost column.
    checkpoint : int array (R,)
        Codes of the checkpoints that the runs branch from.
    price : array (C,)
        Price of training each checkpoint, paid once however many runs branch from it; 0 if it exists.
    trunk : int array (C,)
        Codes of the pre-training runs from which the checkpoints are taken. Of the checkpoints of one, the dearest is paid.
    fixed : bool array (R,)
        Runs that are bought in any case.
    columns : tuple of str
        The columns that losses depend on.
    notes : tuple of str
        Candidates that were left out and assumptions about checkpoints, in words.

    Examples
    --------
    >>> table = pd.DataFrame({"run": ["a", "b"], "N": [1e8, 1e9], "D": [2e9, 2e10]})
    >>> choice = bayeslaw.anchors(bayeslaw.load_fit("fit.nc"), table, pd.DataFrame({"N": [1e11], "D": [2e12]}), budget=1e21)
    >>> choice.candidates.names, choice.candidates.unit
    (('a', 'b'), 'FLOPs')
    """

    runs: Runs
    run: NDArray[np.int64]
    names: tuple[str, ...]
    cost: NDArray[np.float64]
    checkpoint: NDArray[np.int64]
    price: NDArray[np.float64]
    trunk: NDArray[np.int64]
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
        """The settings of all runs, one evaluation a row."""
        return self.runs.frame

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each run's rows begin, and the number of rows."""
        return np.searchsorted(self.run, np.arange(self.size + 1)).astype(np.int64)

    @property
    def total_price(self) -> NDArray[np.float64]:
        """Price of each run with its checkpoint, array (R,)."""
        return np.asarray(self.cost + self.price[self.checkpoint])

    def trained(self, picks: Sequence[int]) -> NDArray[np.float64]:
        """What is paid for each trunk when these runs are bought, array (C,): the price of its dearest checkpoint."""
        paid, codes = np.zeros(self.price.size), self.checkpoint[list(picks)]
        np.maximum.at(paid, self.trunk[codes], self.price[codes])
        return paid

    def unpaid(self, picks: Sequence[int]) -> NDArray[np.float64]:
        """What each checkpoint still costs when these runs are bought, array (C,)."""
        return np.maximum(self.price - self.trained(picks)[self.trunk], 0.0)

    def of(self, run: int) -> pd.DataFrame:
        """The rows of one run."""
        rows: pd.DataFrame = self.rows[self.run == run]
        return rows


def read_candidates(
    fitted: Sequence[tuple[Law, Observations]],
    source: Table,
    cost: str = FLOPS,
    checkpoint_cost: str | float | None = None,
    stages: Stages | None = None,
) -> Candidates:
    """Read and check a table of candidate runs.

    Parameters
    ----------
    fitted : sequence of (Law, Observations)
        The laws that the runs shall inform, and the observations that they are fitted to.
    source : Runs, DataFrame or path
        One evaluation a row, with the laws' covariates and optionally: `run`, the name of the run that an evaluation is bought with
        (without it every row is a run); `checkpoint`; `trunk`, the pre-training run that several checkpoints are taken from;
        `fixed`, runs bought in any case; `D_end`, the tokens at the end of a run if it goes on after its last evaluation; the
        column of costs; `checkpoint_cost`.
    cost : str
        Column with each run's price; 'flops' is 6 N D at the run's end if the table has no such column.
    checkpoint_cost : str or 0, optional
        Column with the price of training each checkpoint; or 'flops', 6 N^2 ptpp; or 0 if all exist. Checkpoints with runs in the
        fit exist. The default is the column `checkpoint_cost` if there is one, else 'flops' if costs are FLOPs. Checkpoints of
        one size are trained separately, as cosine schedules need it, unless the column `trunk` says that one run at a constant rate
        passes through them: then the longest is paid alone.
    stages : text or sequence of Stage, optional
        Stages of every run in which parts of the model are frozen; FLOPs are then counted by them instead of by 6 N D. See
        `bayeslaw.core.flops`.

    Raises
    ------
    TableError, BayeslawError
        With row, column and value: a price that is missing or not positive, one run with two settings or two prices, a run logged
        twice at one setting or ending before its last evaluation, a checkpoint that must be trained and has no price.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> table = pd.DataFrame({"run": ["a", "b"], "N": [1e8, 1e9], "D": [2e9, 2e10]})
    >>> bayeslaw.design.read_candidates([(fit.law, fit.observed)], table).cost.tolist()
    [1.2e+18, 1.2e+20]
    """
    runs = read_runs(source)
    runs = replace(runs, frame=with_known_base_losses(fitted[0][0].name, [observed for _, observed in fitted], runs.frame))
    faults = list(dict.fromkeys(fault for law, _ in fitted for fault in check(runs, law, purpose="forecast")))
    for outcome, unit in {(law.outcome, observed.unit) for law, observed in fitted if law.outcome.error in runs.frame}:
        faults += check_error(runs.frame, outcome, unit)
    if faults:
        raise TableError(faults, runs.name)
    runs, notes = _unlogged(runs, [observed for _, observed in fitted])
    law = fitted[0][0]
    run, run_names = run_codes(runs.frame)
    order = np.argsort(run, kind="stable")
    frame, run = runs.frame.iloc[order], run[order]
    first = np.unique(run, return_index=True)[1]
    if faults := list(_faults(frame, run, first, run_names, law, runs.name)):
        raise TableError(faults, runs.name)
    if stages is not None and (cost != FLOPS or cost in frame):
        problem = f"Stages count FLOPs, but the prices of {runs.name} are in its column {cost!r}: give stages or prices, not both."
        raise BayeslawError(problem, code="stages-and-prices")
    nested = Nesting.of(frame, law)
    if cost == FLOPS and cost not in frame:
        known_to_laws = {name for law, _ in fitted for name in law.covariates}
        if faults := unit_faults(frame, [name for name in ("N", "D") if name in frame and name not in known_to_laws]):
            raise TableError(faults, runs.name)
    prices = _costs(frame, run, first, cost, per_token(stages), runs.name)
    known = {*frame.columns} & {"checkpoint"} or ("ptpp" in law.covariates and "N" in frame)
    checkpoint, names = (nested.checkpoint[first], nested.checkpoint_names) if known else (np.arange(first.size), ())
    of_checkpoints = f"{checkpoint_cost:g}" if isinstance(checkpoint_cost, (int, float)) else checkpoint_cost
    price, assumed = _checkpoints(frame, first, checkpoint, names, [o for _, o in fitted], cost, of_checkpoints, runs.name)
    columns = tuple(dict.fromkeys(name for law, _ in fitted for name in (*law.measured, *law.levels)))
    notes += _on_the_way(frame, run, [observed for _, observed in fitted])
    if cost == FLOPS and cost not in frame:
        assumed += [
            f"runs cost 6 N D with all N parameters, and a token uses the share `{share}` of them: give a column of costs"
            for share in shares_of_parameters(law for law, _ in fitted)
        ]
    return Candidates(
        runs=replace(runs, frame=frame), run=run, names=run_names, cost=prices, checkpoint=checkpoint, price=price,
        trunk=_trunks(frame, run, checkpoint, runs.name), checkpoints=names, fixed=_fixed(frame, run, first, runs.name),
        columns=columns,
        unit="FLOPs" if cost == FLOPS else cost, notes=(*notes, *assumed),
    )  # fmt: skip


def _unlogged(runs: Runs, fitted: Iterable[Observations]) -> tuple[Runs, list[str]]:
    """The candidates without those named like a run of the fit, and a note on them."""
    logged = {name for observed in fitted for name in observed.run_names}
    if "run" not in runs.frame or not (seen := runs.frame["run"].isin(logged)).any():
        return runs, []
    names = list(runs.frame.loc[seen, "run"].unique())
    if seen.all():
        problem = "every candidate is a run of the fit already; a replicate needs a name of its own."
        raise BayeslawError(f"{runs.name}: {problem}", code="no-new-runs")
    note = f"{counted(len(names), 'candidate')} left out because the fit has runs of these names ({listed(names, 3)})"
    return replace(runs, frame=runs.frame[~seen]), [note]


def _on_the_way(frame: pd.DataFrame, run: NDArray[np.int64], fitted: Sequence[Observations]) -> list[str]:
    """A note on candidates that are logged at several D, where each fitted run is logged once, as in a table of last rows."""
    tokens = frame["D"].groupby(run) if "D" in frame else None
    several = 0 if tokens is None else int((tokens.max() > tokens.min()).sum())
    if not several or any(observed.runs < observed.response.size for observed in fitted):
        return []
    return [
        f"{counted(several, 'candidate')} of several D, which are points of one run, and the fit has one row a run. If its rows "
        "are ends of runs, losses on the way are not like them: give a table (--candidates, candidates=) with one row a run"
    ]


def _faults(
    frame: pd.DataFrame, run: NDArray[np.int64], first: NDArray[np.int64], names: tuple[str, ...], law: Law, table: str
) -> Iterable[Fault]:
    """Faults of runs: rows at D = 0, two settings in one run, a setting logged twice, an evaluation after the run's end."""
    for row in frame.index[base_rows(frame, law)]:
        problem = f"D = 0 is the base checkpoint, which {law.name} does not describe"
        yield Fault(int(row), "D", "0", problem, "log the run at D > 0", "base-checkpoint")
    for column in CONSTANT_IN_RUN:
        if column not in frame or column not in law.covariates:
            continue
        values = frame[column].to_numpy(dtype=np.float64)
        # At D = 0 a run has no share of replay yet.
        counts = (frame["D"] > 0).to_numpy() if column == "r" and "D" in frame else np.ones(run.size, dtype=bool)
        codes, places = np.unique(run[counts], return_index=True)
        begins = first.copy()
        begins[codes] = np.flatnonzero(counts)[places]
        for i in np.flatnonzero(counts & (values != values[begins][run]))[:1]:
            was, row = values[begins][run[i]], frame.index[begins[run[i]]]
            problem = f"run {names[run[i]]!r} has {column} {values[i]:g} here and {was:g} at row {row}"
            yield Fault(int(frame.index[i]), "run", names[run[i]], problem, "give each run an id of its own", "two-settings")
    numbers = frame.index.to_numpy()
    settings = frame[[*law.measured, *law.levels]].assign(code=run)
    for i in np.flatnonzero(settings.duplicated().to_numpy()):
        problem = f"run {names[run[i]]!r} is logged twice at one setting"
        suggestion = "keep one row; a replicate is a run with an id of its own"
        yield Fault(int(numbers[i]), "run", names[run[i]], problem, suggestion, "logged-twice")
    if "D_end" in frame and "D" in frame:
        ends, tokens = _column(frame, "D_end", "the tokens at the end of runs", table), frame["D"].to_numpy(dtype=np.float64)
        for i in np.flatnonzero(ends < tokens):
            problem = f"run {names[run[i]]!r} ends at {ends[i]:g} tokens, before its evaluation at {tokens[i]:g}"
            suggestion = "let it run longer or log it earlier"
            yield Fault(int(numbers[i]), "D_end", f"{ends[i]:g}", problem, suggestion, "ends-too-early")


def _column(frame: pd.DataFrame, column: str, what: str, name: str) -> NDArray[np.float64]:
    """Return the numbers of a column, nan where a cell is empty; a text may write one as 20B."""
    if column not in [*frame]:
        raise BayeslawError(f"There is no column {column!r} for {what}.{nearest(column, map(str, frame))}", code="missing-column")
    cells, values = frame[column], numbers_in(frame[column])
    faults = []
    for row in cells.index[values.isna() & ~empty(cells)]:
        try:
            values[row] = number(str(cells[row]))
        except ValueError:
            shown = shortened(repr(cells[row]))
            faults.append(
                Fault(int(row), column, shown, f"{column} {shown} is no number", f"give {what} as numbers", "not-numbers")
            )
    if faults:
        raise TableError(faults, name)
    return values.to_numpy(dtype=np.float64)


def _costs(
    frame: pd.DataFrame, run: NDArray[np.int64], first: NDArray[np.int64], cost: str, flops: float, name: str
) -> NDArray[np.float64]:
    """Price of each run."""
    if cost == FLOPS and cost not in frame:
        if not {"N", "D"} <= set(frame):
            problem = f"{name} has no columns N and D to count FLOPs (6 N D) by; name a column of costs (--cost, cost=)."
            raise BayeslawError(problem, code="missing-column")
        tokens = frame["D"].to_numpy(dtype=np.float64)
        if "D_end" in frame:
            tokens = np.fmax(tokens, _column(frame, "D_end", "the tokens at the end of runs", name))
        values = np.maximum.reduceat((flops * frame["N"] * tokens).to_numpy(dtype=np.float64), first)
    elif cost == FLOPS:  # in a log they grow from row to row
        values = np.fmax.reduceat(_column(frame, cost, "costs", name), first)
    else:  # any other price is that of the whole run, the same in all its rows
        column = _column(frame, cost, "costs", name)
        values = column[first]
        price = values[run]
        if (differs := np.flatnonzero((column != price) & ~(np.isnan(column) & np.isnan(price)))).size:
            row, given, other = int(frame.index[differs[0]]), f"{column[differs[0]]:g}", f"{price[differs[0]]:g}"
            problem = f"a run has one price, here {given} and {other}"
            raise TableError([Fault(row, cost, given, problem, "give all rows of a run its price", "two-prices")], name)
    faults = []
    for i in np.flatnonzero(~(np.isfinite(values) & (values > 0))):
        problem = f"cost {values[i]:g} is missing or not positive"
        faults.append(Fault(int(frame.index[first[i]]), cost, f"{values[i]:g}", problem, "give each run's price", "bad-cost"))
    if faults:
        raise TableError(faults, name)
    return values


def _checkpoints(
    frame: pd.DataFrame, first: NDArray[np.int64], checkpoint: NDArray[np.int64], names: tuple[str, ...],
    fitted: Sequence[Observations], cost: str, checkpoint_cost: str | None, name: str,
) -> tuple[NDArray[np.float64], list[str]]:  # fmt: skip
    """Price of training each checkpoint, and notes on assumptions; `checkpoint` has the code of each run's."""
    count = int(checkpoint.max()) + 1
    if checkpoint_cost not in (None, FLOPS, "0"):
        _column(frame, checkpoint_cost, PRICE_OF_CHECKPOINTS, name)  # refused if it is missing, also where nothing is trained
    if not names or checkpoint_cost == "0":
        return np.zeros(count), (["all checkpoints are assumed to exist"] if names else [])
    heads, named = frame.iloc[first], "checkpoint" in frame
    of_checkpoints = heads.iloc[np.unique(checkpoint, return_index=True)[1]]
    exists = np.array([_known(of_checkpoints.iloc[c], names[c], fitted, named) for c in range(count)])
    if checkpoint_cost is None:
        checkpoint_cost = "checkpoint_cost" if "checkpoint_cost" in frame else FLOPS if cost == FLOPS else None
    if exists.all():
        return np.zeros(count), []
    missing = [names[c] for c in np.flatnonzero(~exists)]
    if checkpoint_cost is None or (checkpoint_cost == FLOPS and not {"N", "ptpp"} <= set(frame)):
        raise BayeslawError(
            f"{name}: the fit has no runs of checkpoint {missing[0]}, and there is no price for training it. Give a column "
            "checkpoint_cost (0 where a checkpoint exists), or price 0 if all exist (--checkpoint-cost 0, checkpoint_cost='0').",
            code="no-checkpoint-price",
        )
    if checkpoint_cost == FLOPS:
        each = (6 * frame["N"] ** 2 * frame["ptpp"]).to_numpy(dtype=np.float64)
    else:
        each = _column(frame, checkpoint_cost, PRICE_OF_CHECKPOINTS, name)
    each = np.fmax.reduceat(each, first)  # a run may state the price in one of its rows
    price = np.zeros(count)
    for row, code, value in zip(heads.index, checkpoint, each, strict=True):
        if exists[code]:
            continue
        if not (np.isfinite(value) and value >= 0):
            problem = f"checkpoint {names[code]} must be trained first and its price {value:g} is missing or negative"
            suggestion = "give its price, 0 if it exists"
            raise TableError([Fault(int(row), checkpoint_cost, f"{value:g}", problem, suggestion, "bad-checkpoint-price")], name)
        price[code] = max(price[code], value)
    trained = [names[c] for c in np.flatnonzero(price > 0)]
    shown = "; ".join(trained[:3]) + ("; …" if len(trained) > 3 else "")
    note = f"{counted(len(trained), 'checkpoint')} must be trained first and paid for once ({shown})"
    return price, [note] if trained else []


def _trunks(frame: pd.DataFrame, run: NDArray[np.int64], checkpoint: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Return the code of each checkpoint's trunk: its own unless the column `trunk` names one, in one row of each run at least."""
    codes = np.arange(int(checkpoint.max()) + 1)
    if "trunk" not in frame:
        return codes
    trunks = dict[int, str]()
    cells = frame["trunk"].where(~empty(frame["trunk"]))
    cells = cells.fillna(cells.groupby(run).transform("first"))
    for row, code, cell in zip(frame.index, checkpoint[run].tolist(), cells, strict=True):
        trunk = f"checkpoint {code}" if pd.isna(cell) else f"trunk {cell}"
        if trunks.setdefault(code, trunk) != trunk:
            problem = "a checkpoint belongs to one trunk, and an earlier row of this one names another"
            raise TableError([Fault(int(row), "trunk", str(cell), problem, "name one trunk in all its rows", "two-trunks")], name)
    return pd.factorize(pd.Series([trunks[code] for code in range(codes.size)]))[0].astype(np.int64)


def _known(row: pd.Series, name: str, fitted: Sequence[Observations], named: bool) -> bool:
    """Whether a fit has runs of a checkpoint: by its name if candidates name theirs, else by N and ptpp."""
    if named:  # an empty cell is a checkpoint of its own, which has an automatic name here
        return pd.notna(row["checkpoint"]) and any(name in observed.checkpoint_names for observed in fitted)
    pairs = [(o.covariates["N"], o.covariates["ptpp"]) for o in fitted if {"N", "ptpp"} <= o.covariates.keys()]
    return any(bool((np.isclose(n, row["N"]) & np.isclose(p, row["ptpp"])).any()) for n, p in pairs)


def _fixed(frame: pd.DataFrame, run: NDArray[np.int64], first: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    """Whether each run is bought in any case: its column `fixed` says true, yes or 1."""
    if "fixed" not in frame:
        return np.zeros(first.size, dtype=bool)
    texts = frame["fixed"].astype(object).where(frame["fixed"].notna(), "").astype(str).str.strip().str.lower()
    if (bad := np.flatnonzero(~texts.isin(TRUE | FALSE))).size:
        row, value = int(frame.index[bad[0]]), str(frame["fixed"].iloc[bad[0]])
        problem = f"fixed {value!r} is neither true nor false"
        raise TableError([Fault(row, "fixed", value, problem, "write true or false", "not-true-or-false")], name)
    return np.asarray(np.bincount(run, texts.isin(TRUE).to_numpy(dtype=np.float64)) > 0)


def grid_of_runs(law: Law | Posterior | str | Path, settings: Mapping[str, Setting]) -> pd.DataFrame:
    """Return all combinations of values as candidates, one run for each, logged at every D or atpp; see `bayeslaw.grid`.

    The values of D, or atpp, are points of one run, which is paid for up to the largest. Runs that end at each of them are
    candidates of their own: give a table with a name for each in the column `run`.

    Parameters
    ----------
    law : Law, Fit or Stack, or name or path of a card
        Whose covariates are given values.
    settings : mapping
        Values of each covariate, such as ``"1e8,1e9"`` or ``"1e8:1e9:5"``, as for `bayeslaw.grid`.

    Returns
    -------
    DataFrame
        A row for each logged point, with the column `run`.

    Examples
    --------
    >>> bayeslaw.design.grid_of_runs(bayeslaw.load_law("chinchilla"), {"N": "1e8,1e9", "D": "1e9,1e10"})["run"].unique().tolist()
    ['N 1e+08', 'N 1e+09']
    """
    frame = grid(law, settings)
    named = {name if name in frame else (resolve(name) or (name,))[0] for name in settings}  # by our names, as the grid's columns
    columns = [name for name in map(str, frame) if name in named - {"D", "atpp"}]
    # Without a name every evaluation would be bought as a run of its own.
    names = [", ".join(f"{name} {exact(row[name])}" for name in columns) or "new run" for _, row in frame.iterrows()]
    return frame.assign(run=names)
