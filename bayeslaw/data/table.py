"""Tables of logged losses: read from files or from memory, under our names of columns and in our units."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from bayeslaw.core import html
from bayeslaw.core.arrays import holds_numbers, scaled
from bayeslaw.core.errors import BayeslawError, Fault, TableError, shortened
from bayeslaw.core.files import own_path, readable
from bayeslaw.core.own_table import owns
from bayeslaw.core.text import counted, label_text, short_lines
from bayeslaw.core.units import NATS, PERPLEXITY, convert_table, unit_of
from bayeslaw.data.base_loss import BASE_LOSS, with_base_loss
from bayeslaw.data.cells import EMPTY, as_given, empty, numbers_in, stray_cells
from bayeslaw.data.columns import AMOUNTS, TEXT, Kind, amount, check_columns, named, numeric, of_unknown_meaning, resolve
from bayeslaw.data.files import numbered, read_file
from bayeslaw.data.query import last_rows, where
from bayeslaw.data.run_names import column_of_runs
from bayeslaw.data.starter import option

IN_MEMORY = "the table"  # the name of a table that was not read from a file
MOST_APART = 0.02  # relative difference of what two columns say of one amount, which may be rounded
FIRST = 6  # rows that a notebook shows

Duplicates = Literal["refuse", "drop", "keep"]
type Table = Runs | pd.DataFrame | str | Path  # as users give it


@dataclass(frozen=True)
class Source:
    """A table from which rows of a fit came.

    Attributes
    ----------
    name, rows : str, int
        Its name, and the number of its rows before any were chosen.
    where : str
        The condition that chose among them; empty where all were taken.
    duplicates : {'refuse', 'drop', 'keep'}
        What was done with rows that repeat others exactly; see `read_runs`.
    seed : int or None
        Seed of the first fit that had these rows.
    columns : mapping of str to str
        The columns that the user named; see `read_runs`.
    """

    name: str
    rows: int
    where: str = ""
    duplicates: Duplicates = "refuse"
    seed: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@owns("frame")
@dataclass(frozen=True, eq=False)
class Runs:
    """Logged losses, one row each, under the names and units of bayeslaw.

    Attributes
    ----------
    frame : DataFrame
        Column `loss` (nats/token, or the unit in the column `unit`) and covariates such as N, D (tokens), r (share) and ptpp;
        optionally `run`, `domain`, `loss_se`, `flops`, `step` and any others. `read_runs` adds `base_loss`, the loss at D = 0 of a
        row's checkpoint, where that was measured. The index is the row's number in the file, counted
        from 1 below the header. It is a copy: to change it does not change the runs, whose rows are those of their file.
        `read_runs` of a changed frame makes runs of it.
    conversions : tuple of str
        Columns that were renamed or scaled on reading.
    unread : tuple of Fault
        Cells that should hold a number and do not; `frame` has missing values there.
    duplicates : {'refuse', 'drop', 'keep'}
        What a fit does with rows that repeat others exactly; see `read_runs`.
    sources : tuple of Source
        The tables that its rows came from, with the conditions that chose them.
    originals : mapping of str to Series
        What conditions may name besides the columns of `frame`: columns that were renamed or scaled, under their names and in their
        units of the file, and `last`.

    Examples
    --------
    >>> runs = bayeslaw.read_runs("runs.csv")
    >>> runs.unit
    'nats/token'
    >>> len(runs.where("N > 0")) == len(runs)
    True
    """

    frame: pd.DataFrame
    name: str = "runs"
    conversions: tuple[str, ...] = ()
    unread: tuple[Fault, ...] = ()
    duplicates: Duplicates = "refuse"
    sources: tuple[Source, ...] = ()
    originals: Mapping[str, pd.Series] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.frame, pd.DataFrame):
            problem = f"Runs hold a DataFrame, not the type {type(self.frame).__name__}: bayeslaw.read_runs reads tables."
            raise BayeslawError(problem, code="not-a-table")
        index = self.frame.index
        if index.dtype.kind not in "iu" or not index.is_unique:
            problem = "the index of a table has the rows' numbers, whole and each once"
            raise BayeslawError(f"{self.name}: {problem}. `bayeslaw.read_runs(frame)` numbers the rows anew.", code="bad-index")
        if not self.sources:
            object.__setattr__(self, "sources", (Source(self.name, len(self.frame), duplicates=self.duplicates),))

    def where(self, condition: str | None) -> Runs:
        """Return the rows that meet a condition such as ``ptpp <= 31 and domain == 'target'``.

        It may name columns as bayeslaw does or as the file does, such as ``val/loss < 3``. If no column has that name, ``last`` is
        the last row with a loss of each run, in the table as it was read: conditions one after the other choose the same rows as
        one that joins them by ``and``, which a fit keeps. For the last rows of a part make a table of its own of that,
        ``read_runs(runs.where("D < 5e9").frame).where("last")``.

        Parameters
        ----------
        condition : str or None
            None keeps all rows.

        Returns
        -------
        Runs

        Raises
        ------
        BayeslawError
            If it is no condition, names no column, or holds for no row.
        """
        if condition is None:
            return self
        originals = last_rows(self.frame) | dict(self.originals)
        frame = where(self.frame, condition, originals)
        # A line break inside would end the condition of a command; blanks stay, which may be those of a run's name.
        text = re.sub(r"\s*[\r\n]\s*", " ", condition.strip())
        sources = tuple(replace(s, where=f"({s.where}) and ({text})" if s.where else text) for s in self.sources)
        return replace(self, frame=frame, sources=sources, originals=originals)

    @property
    def unit(self) -> str:
        """The unit of the losses; see `bayeslaw.core.units`."""
        return unit_of(self.frame, self.name)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return short_lines(f"<Runs of {shortened(self.name)}: {len(self):,} rows with {', '.join(map(str, self.frame))}>")

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook, and what was renamed or rescaled."""
        runs = f" of {self.frame['run'].nunique():,} runs" if "run" in self.frame else ""
        units = sorted({str(unit) for unit in self.frame["unit"].dropna()} if "unit" in self.frame else ()) or [NATS]
        read = [f"read: {conversion}" for conversion in self.conversions]
        unread = [f"{len(self.unread)} cells hold no number"] if self.unread else []
        rows, losses = self.frame.head(FIRST), f", losses in {', '.join(units)}" if "loss" in self.frame else ""
        return html.fragment(
            f"Runs of {self.name}:", f"{len(self):,} rows{runs}{losses}",
            html.grid(rows.rename_axis("row").reset_index(), len(self)), html.notes([*read, *unread]),
        )  # fmt: skip


def read_runs(
    source: Table,
    condition: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    strict: bool = True,
    duplicates: Duplicates = "refuse",
) -> Runs:
    """Read a table of logged losses.

    Parameters
    ----------
    source : path, DataFrame or Runs
        A file ending in .csv, .tsv, .parquet, .jsonl or .json (objects, one a line or all in one list), or a table in memory.
        `bayeslaw.data.columns` lists the names of columns that are understood. Others stay as they are given: texts are numbers
        only where that loses nothing, so that versions 1.1 and 1.10, or 007 and 7, remain two. Runs that were read before are
        returned as they are, without the rows that do not meet the condition; they take none of the options below.
    condition : str, optional
        Keep only rows that meet it, as in `Runs.where`.
    columns : mapping, optional
        Our name to the table's column, for columns whose meaning their names do not show, with its unit behind a colon where that
        isn't ours: ``{"N": "model_size_M:M", "loss": "val/perplexity:perplexity"}``. K, M, B, T, % and factors such as 1e6 are
        units; those of losses and base losses are `bayeslaw.core.units.UNITS`, and a base loss without one has that of the losses.
        Perplexities are read as their logarithm, in nats/token.
    strict : bool
        Refuse numeric columns with cells that hold no number; False leaves these to `check`, which lists them with all other
        faults.
    duplicates : {'refuse', 'drop', 'keep'}
        What a fit does with rows that repeat others exactly, in run, loss and all settings: it would take each for a measurement
        of its own, and its intervals would be too narrow. 'drop' uses the first of them.

    Raises
    ------
    TableError, BayeslawError
        If the file can't be read, two columns have the same meaning, a cell of a numeric column holds no number, losses are in
        several units, or options are given for runs that were read before.

    Examples
    --------
    >>> runs = bayeslaw.read_runs("runs.csv")
    >>> sorted(runs.frame)
    ['D', 'N', 'loss', 'run']
    >>> bayeslaw.read_runs(pd.DataFrame({"params_b": [7.0], "val_loss": [2.1]})).conversions
    ('N = params_b x 1e+09', 'loss = val_loss')
    >>> odd = pd.DataFrame({"model_size_M": [124.0], "ppl": [20.1]})
    >>> bayeslaw.read_runs(odd, columns={"N": "model_size_M:M", "loss": "ppl:perplexity"}).conversions
    ('N = model_size_M x 1e+06', 'loss = log(ppl), in nats/token')
    """
    if duplicates not in get_args(Duplicates):
        known = ", ".join(get_args(Duplicates))
        raise BayeslawError(f"duplicates must be one of {known}, not {duplicates!r}.", code="unknown-duplicates")
    if isinstance(source, Runs):
        if columns or not strict or duplicates != "refuse":
            problem = f"{source.name} was read before: give columns, strict and duplicates where the file or the frame is read."
            raise BayeslawError(problem, code="already-read")
        return source.where(condition)
    runs = read_table(source, "runs", strict=strict, columns=columns)
    runs = of_models(runs)  # before the condition, which may leave out rows of one spelling, and rows at D = 0
    read = replace(runs.sources[0], duplicates=duplicates, columns=dict(columns or {}))
    return replace(runs, duplicates=duplicates, sources=(read,)).where(condition)


def of_models(runs: Runs) -> Runs:
    """Return a table of runs that was read with the base loss of each row, and refuse domains whose names differ by case alone."""
    if alike := [*_alike_domains(runs.frame)]:
        raise TableError(alike, runs.name)
    return replace(runs, frame=with_base_loss(runs.frame))


def _alike_domains(frame: pd.DataFrame) -> Iterator[Fault]:
    """Find domains whose names differ by case alone: a condition such as domain == 'source' would leave out some rows."""
    if "domain" not in frame:
        return
    texts = frame["domain"].dropna().astype(str)
    counts, usual = Counter(texts), dict[str, str]()
    for text, _ in counts.most_common():
        usual.setdefault(text.casefold(), text)
    for text, count in counts.items():
        if (other := usual[text.casefold()]) != text:
            problem = f"rows of domain {text!r} ({count}) and of {other!r}"
            row = int(texts.index[texts == text][0])
            yield Fault(row, "domain", text, problem, f"write both alike, {other!r} if they are one", "alike-domains")


def columns_of_each(sources: Sequence[str | Path | pd.DataFrame], columns: Mapping[str, str]) -> list[dict[str, str]]:
    """Return which of the columns that a user names are in each of several tables, such as new runs and targets.

    A table without a named column may have ours under a usual name; a column that no table has is refused.

    Parameters
    ----------
    sources, columns
        As in `read_runs`.
    """
    names = [list(map(str, as_in_file(source)[0])) if columns else [] for source in sources]
    for ours, text in columns.items():
        if not any(_has(ours, text, given) for given in names):
            named(ours, text, list(dict.fromkeys(name for given in names for name in given)))  # which raises the error
    return [{ours: text for ours, text in columns.items() if _has(ours, text, given)} for given in names]


def _has(ours: str, text: str, columns: list[str]) -> bool:
    try:
        named((resolve(ours) or (ours,))[0], text, columns)
    except BayeslawError as error:
        if error.code != "missing-column":
            raise
        return False
    return True


def read_table(
    source: str | Path | pd.DataFrame,
    kind: Kind,
    *,
    strict: bool = False,
    names: Collection[str] = (),
    numbers: Collection[str] = (),
    columns: Mapping[str, str] | None = None,
) -> Runs:
    """Read a table whose columns are those of runs or of training curves.

    Parameters
    ----------
    source, strict, columns
        As in `read_runs`.
    kind : {'runs', 'curves'}
        Which columns are understood; see `bayeslaw.data.columns`.
    names, numbers : collections of str
        Further columns that hold names instead of numbers, and others of numbers.
    """
    raw, name = as_in_file(source)
    frame, renamed = _renamed(raw, name, kind, columns or {})
    conversions = list(renamed.conversions)
    if isinstance(source, pd.DataFrame) and source.index.names == [None] and source.index.inferred_type == "string":
        conversions.append(f"the index ({shortened(repr(source.index[0]))}, …) is left out, since it has no name such as run")
    try:
        frame, unread = _converted(frame, numeric(kind), {*TEXT[kind], *names}, {*numbers}, isinstance(source, pd.DataFrame))
    except UnicodeDecodeError as error:  # of Parquet, whose texts are decoded when they are needed
        raise BayeslawError(f"{name} can't be read: a text in it is not UTF-8 ({error.reason}).", code="unreadable-table") from None
    if unread and strict:
        raise TableError(unread, name)
    originals = _originals(raw, frame, renamed)
    frame, of_losses = _in_units(frame, renamed.columns, renamed.units, name)
    conversions += of_losses
    unit_of(frame, name)
    for ours, text, computed in _computed(frame):
        if ours not in frame:
            frame = frame.assign(**{ours: computed})
            conversions.append(f"{ours} = {text}")
        elif (off := (frame[ours] - computed).abs() > MOST_APART * computed).any():
            at = int(off.to_numpy().argmax())
            values = f"{computed.iloc[at]:g} where {ours} is {frame[ours].iloc[at]:g} (row {frame.index[at]})"
            conversions.append(f"{ours} as given; {text} differs in {counted(int(off.sum()), 'row')}, such as {values}")
    if (column := column_of_runs(frame)) and column not in names:
        labels, broken = _labels(raw[renamed.columns.get(column, column)].rename("run"))
        frame, unread = frame.rename(columns={column: "run"}).assign(run=labels), [*unread, *broken]
        originals[column] = labels
        conversions.append(f"run = {column}")
    return Runs(frame, name, tuple(conversions), tuple(unread), originals=originals)


def _computed(frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.Series]]:
    """Yield what others of a table's columns make of a column: its name, from what it is computed, and its values."""
    known = {c for c in ("D", "N", "atpp", "ptpp", "pretrain_tokens") if c in frame and holds_numbers(frame[c])}
    if {"atpp", "N"} <= known and ("D" not in frame or "D" in known):
        yield "D", "atpp x N", frame["atpp"] * frame["N"]
    if {"pretrain_tokens", "N"} <= known and ("ptpp" not in frame or "ptpp" in known):
        yield "ptpp", "pretrain_tokens / N", frame["pretrain_tokens"] / frame["N"].where(frame["N"] > 0)


def as_in_file(source: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return a table as it stands in its file, with rows counted from 1, and its name."""
    if not isinstance(source, (str, PathLike, pd.DataFrame)):
        kind = type(source).__name__
        if _converter(source):  # polars calls its tables DataFrame too
            kind = f"{type(source).__module__.split('.')[0]}.{kind}"
        problem = f"A table is the path of a file or a pandas DataFrame, not the type {kind}"
        raise BayeslawError(problem + _instead(source), code="not-a-table")
    if isinstance(source, pd.DataFrame):
        frame, name = source.copy(), IN_MEMORY
    else:
        path = own_path(source)
        frame, name = read_file(path), readable(path.name)
    if frame.columns.nlevels > 1:
        problem = f"{name} has names of columns in {frame.columns.nlevels} levels, such as {frame.columns[0]}"
        raise BayeslawError(f"{problem}: choose one, such as frame.droplevel(0, axis=1).", code="levels-of-columns")
    if levels := [n for n in frame.index.names if n not in (None, "row", *frame.columns)]:
        frame = frame.reset_index(level=levels)
    frame = numbered(frame.set_axis([str(c) for c in frame.columns], axis=1))
    if not len(frame):
        raise BayeslawError(f"{name} has no rows.", code="no-rows")
    return frame, name


def _converter(source: object) -> str:
    """Return the method by which a table of another library becomes one of pandas, '' where it has none."""
    return next((name for name in ("to_pandas", "to_dataframe") if callable(getattr(source, name, None))), "")


def _instead(source: object) -> str:
    """Return what to give in place of something that is no table, as the end of a message."""
    if isinstance(getattr(source, "runs", None), Runs):
        return ": give its attribute `runs`."
    if way := _converter(source):
        return f": give what its method {way}() returns."
    rows = isinstance(source, (list, tuple)) and bool(source) and all(isinstance(row, Mapping) for row in source)
    if isinstance(source, Mapping) or rows:
        return f": a {'list of rows' if rows else 'dictionary of columns'} becomes one by pandas.DataFrame(…)."
    if isinstance(source, np.ndarray):
        return ": an array becomes one by pandas.DataFrame(array, columns=['N', 'D', 'loss'])."
    if isinstance(source, (list, tuple)):
        return ": bayeslaw.import_runs reads several logs, and pandas.concat joins several DataFrames."
    if type(source).__name__ in ("Law", "Fit", "Stack", "PointFit"):  # of which nothing is known here
        return ": have two arguments changed places?"
    return "."


class _Renamed(NamedTuple):
    """What was done to the columns of a table.

    `columns` has our names of the columns that were renamed or scaled, with those of the file, `factors` what they were multiplied
    by, and `units` those of losses and base losses where the user gives them.
    """

    conversions: list[str]
    columns: dict[str, str]
    factors: dict[str, float]
    units: dict[str, str]


def _renamed(frame: pd.DataFrame, name: str, kind: Kind, columns: Mapping[str, str]) -> tuple[pd.DataFrame, _Renamed]:
    """Give columns our names and units; two columns of one meaning are refused unless `columns` chooses one."""
    given, in_units = _given(frame, name, kind, columns)
    chosen = {ours for ours, _ in given.values()}
    sources, factors, conversions = dict[str, str](), dict[str, float](), []
    taken: set[str] = set()  # columns among the sources
    left_out = [column for column in frame.columns if column in chosen and column not in given]
    for column in frame.columns:
        plain = re.sub(r"\.\d+$", "", column)  # pandas reads a second column N as N.1
        ours, factor = resolve(plain if plain in taken else column, kind) or (column.strip(), 1.0)
        if column in given:
            ours, factor = given[column]
        elif column in left_out:
            conversions.append(f"column {column} is left out, since another is {ours}")
            continue
        elif ours in chosen:
            ours, factor = column.strip(), 1.0
        if ours in sources:
            problem = f"columns {sources[ours]!r} and {column!r} both mean {ours}"
            choice = sources[ours] if ours != column and ours.lower() == column.lower() else column  # n counts many things
            way = f"keep one, or choose it: {option(ours, choice)} (columns={{{ours!r}: {choice!r}}})"
            if column in taken:  # a name chooses none of two columns that have it
                problem, way = f"two columns are called {column!r}", "rename one, or leave it out"
            fault = Fault(None, column, "", problem, way, "two-columns-of-one-meaning")
            raise TableError([fault], name)
        sources[ours] = column
        taken.add(column)
        if (ours != column or factor != 1) and ours not in in_units:
            conversions.append(f"{ours} = {column}" + (f" x {factor:g}" if factor != 1 else ""))
        if factor != 1:
            factors[ours] = factor
    frame = frame.drop(columns=left_out).set_axis(list(sources), axis=1)
    for ours, factor in factors.items():
        values = numbers_in(frame[ours])
        frame[ours] = pd.Series(scaled(values, factor), frame.index, dtype=object).where(values.notna(), frame[ours])
    renamed = {o: c for o, c in sources.items() if o != c or o in factors or o in in_units}
    return frame, _Renamed(conversions, renamed, factors, in_units)


def _originals(raw: pd.DataFrame, frame: pd.DataFrame, renamed: _Renamed) -> dict[str, pd.Series]:
    """Return the columns that were renamed or scaled under their names and in their units in the file, also cells such as 410M."""
    originals = dict[str, pd.Series]()
    for ours, their in renamed.columns.items():
        converted = frame[ours]
        if holds_numbers(converted):
            originals[their] = numbers_in(raw[their]).fillna(converted / renamed.factors.get(ours, 1.0))
        else:
            originals[their] = converted
    return originals


def _given(
    frame: pd.DataFrame, name: str, kind: Kind, columns: Mapping[str, str]
) -> tuple[dict[str, tuple[str, float]], dict[str, str]]:
    """Return the columns that the user names, with our name and the factor of each, and the units of losses by our name."""
    check_columns(columns)
    given: dict[str, tuple[str, float]] = {}
    in_units: dict[str, str] = {}
    for theirs, text in columns.items():
        ours, scale = resolve(theirs, kind) or (theirs, 1.0)
        column, factor, of = named(ours, text, list(frame.columns))
        if column in given or ours in (other for other, _ in given.values()):
            message = f"{name}: --column (columns=) gives {column!r} or {ours} twice: each column has one meaning."
            raise BayeslawError(message, code="two-meanings")
        given[column] = (ours, factor * scale)
        in_units |= {ours: of} if of else {}
    return given, in_units


def _in_units(
    frame: pd.DataFrame, renamed: Mapping[str, str], in_units: Mapping[str, str], name: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table with losses and base losses in the units that the user gives, and the conversions."""
    conversions = list[str]()
    if of_base := in_units.get(BASE_LOSS):
        frame = _base_in_unit(frame, renamed[BASE_LOSS], of_base, in_units.get("loss") or unit_of(frame, name), name)
        conversions.append(f"base_loss = {renamed[BASE_LOSS]}, in {of_base}")
    if of_loss := in_units.get("loss"):
        frame, conversion = _in_unit(frame, renamed, of_loss, name)
        likewise = of_loss == PERPLEXITY and BASE_LOSS in frame and not of_base
        conversions.append(f"{conversion}, and base_loss likewise" if likewise else conversion)
        if of_loss == PERPLEXITY and "loss_se" in frame:
            errors = renamed.get("loss_se", "loss_se")
            conversions.append(f"loss_se = {errors} / {renamed['loss']}: errors are in the losses' own unit")
    return frame, conversions


def _in_unit(frame: pd.DataFrame, renamed: Mapping[str, str], of: str, name: str) -> tuple[pd.DataFrame, str]:
    """Return the table with losses in the unit that the user gives, perplexities as their logarithm, and the conversion."""
    column = renamed["loss"]
    if "unit" in frame and unit_of(frame, name) != of:
        message = f"{name} has losses in {unit_of(frame, name)} by its column unit, and you give {of}: leave {of} out."
        raise BayeslawError(message, code="two-units")
    if of != PERPLEXITY:
        return frame.assign(unit=of), f"loss = {column}, in {of}"
    _check_perplexities(frame["loss"], column, name)
    if BASE_LOSS in frame:
        _check_perplexities(frame[BASE_LOSS], renamed.get(BASE_LOSS, BASE_LOSS), name)
    return convert_table(frame.assign(unit=of), NATS, name=name), f"loss = log({column}), in {NATS}"


def _base_in_unit(frame: pd.DataFrame, column: str, of: str, to: str, name: str) -> pd.DataFrame:
    """Return the table with base losses, of which the user gives the unit, in the unit of its losses."""
    if of == PERPLEXITY:
        _check_perplexities(frame[BASE_LOSS], column, name)
    alone = frame.drop(columns=[BASE_LOSS, "loss_se"], errors="ignore").assign(loss=frame[BASE_LOSS], unit=of)
    return frame.assign(base_loss=convert_table(alone, to, name=name)["loss"])


def _check_perplexities(values: pd.Series, column: str, name: str) -> None:
    """Refuse perplexities below 1, by row."""
    low = values < 1
    if shown := [(int(row), f"{value:g}") for row, value in zip(values.index[low], values[low].to_numpy(), strict=True)]:
        advice = "a perplexity is 1 or more: are these losses in nats/token?"
        raise TableError([Fault(r, column, v, f"perplexity {v} is below 1", advice, "perplexity-below-1") for r, v in shown], name)


def _converted(
    frame: pd.DataFrame, known: set[str], text: set[str], numbers: set[str], typed: bool
) -> tuple[pd.DataFrame, list[Fault]]:
    """Turn columns of numbers into numbers; a stray text in one is a fault. Columns of unknown meaning keep what they hold.

    Parameters
    ----------
    frame : DataFrame
    known, text, numbers : sets of str
        Columns that must hold numbers, that hold names, and further ones of numbers.
    typed : bool
        Whether the table comes from memory; see `as_given`.
    """
    faults, known = [], known - text
    columns: dict[Any, pd.Series] = {}  # put together once: a frame grows slow with each column that is set
    for column, cells in frame.items():
        columns[column] = cells
        if column in text:
            columns[column], broken = _labels(cells)
            faults += broken
            continue
        if column not in known | numbers and of_unknown_meaning(str(column)):
            columns[column] = as_given(cells, typed=typed)
            continue
        values = numbers_in(cells)
        if column in known and not holds_numbers(cells):  # True is a number to Python, but no loss
            values = values.mask(np.array([isinstance(cell, (bool, np.bool_)) for cell in cells], dtype=bool))
        if column in AMOUNTS and (left := cells[values.isna()]).size:
            digits, factors = zip(*(amount(str(column), cell) for cell in left), strict=True)
            values.loc[left.index] = scaled(numbers_in(pd.Series(digits, left.index, dtype=object)), np.array(factors))
        if not np.isnan(values.to_numpy()).any():
            columns[column] = values
            continue
        strays = stray_cells(cells, values, known=column in known)
        faults += strays
        if strays or empty(cells[values.isna()]).all():
            columns[column] = values
    return pd.DataFrame(columns, index=frame.index), faults


def _labels(cells: pd.Series) -> tuple[pd.Series, list[Fault]]:
    """Return names of runs, domains or checkpoints without the blanks around them, None for cells that stand for no value."""
    given = [cell if type(cell) is str else label_text(cell) for cell in cells]
    column, (codes, texts) = str(cells.name), pd.factorize(np.array(given, dtype=object))
    names = [str(text).strip() for text in texts]
    labels = np.array([*(None if name.lower() in EMPTY else name for name in names), None], dtype=object)[codes]
    labels[cells.isna()] = None
    torn = {name: f"{column} {shortened(repr(name))} goes over several lines" for name in names if "\n" in name or "\r" in name}
    suggestion, code = "rows may have been swallowed by a quote that isn't closed", "name-over-several-lines"
    rows = [(int(row), label) for row, label in zip(cells.index, labels, strict=True) if label in torn] if torn else []
    faults = [Fault(row, column, label, torn[label], suggestion, code) for row, label in rows]
    return pd.Series(labels, index=cells.index, dtype=object), faults


def data_sha256(frame: pd.DataFrame, columns: Sequence[str]) -> str:
    """Return the SHA-256 of the named columns' values and order."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(column.encode())
        values = frame[column]
        if holds_numbers(values):
            digest.update(np.ascontiguousarray(values.to_numpy(dtype=np.float64)).tobytes())
        else:
            digest.update("\x00".join(map(str, values)).encode())
    return digest.hexdigest()
