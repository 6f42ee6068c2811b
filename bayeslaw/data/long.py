"""Long tables: losses of several domains, a column each, as one column with a row for each domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.data.cells import spelt_numbers
from bayeslaw.data.columns import our_name
from bayeslaw.data.table import Runs, Table, as_in_file, of_models, read_table
from bayeslaw.laws.outcome import LOSS

LEAST = 2  # domains


def to_long(table: Table, losses: Mapping[str, str] | Sequence[str], *, by: str = "domain") -> pd.DataFrame:
    """Return a table with a row for each run and domain, from one with a column of losses for each domain.

    Runs are named anew, run and domain together, because the effect of a run differs by domain: a mixture that helps one hurts
    another. A cell without a loss gives no row. A base loss and a known error (`loss_se`) stay with the domain whose column stands
    for the loss, as val_loss does; known errors of the others are 0.

    Parameters
    ----------
    table : Runs, DataFrame or path
    losses : mapping of domain to column, or sequence of columns
        The columns of losses. Those of a sequence are named after their domain, such as web_loss or loss_web.
    by : str
        The new column with the domain.

    Examples
    --------
    >>> wide = pd.DataFrame({"run": ["a"], "N": [1e8], "web_loss": [3.1], "code_loss": [1.4]})
    >>> bayeslaw.data.to_long(wide, ["web_loss", "code_loss"])[["run", "domain", "loss"]].to_numpy().tolist()
    [['a web', 'web', 3.1], ['a code', 'code', 1.4]]
    """
    losses = [losses] if isinstance(losses, str) or not isinstance(losses, Iterable) else losses
    columns = losses.values() if isinstance(losses, Mapping) else losses
    if wrong := [column for column in columns if not isinstance(column, str)]:
        message = f"losses names the columns of losses, such as ['web_loss', 'code_loss'], not {wrong[0]!r}."
        raise BayeslawError(message, code="not-a-text")
    named = losses if isinstance(losses, Mapping) else {_domain(column): column for column in losses}
    pairs = {str(domain): column for domain, column in named.items()}
    if len(pairs) < LEAST or len({*pairs.values()}) < len(losses):
        message = f"A long table is made of losses of two or more domains, a column each; these are {', '.join(pairs.values())}."
        raise BayeslawError(message, code="too-few-domains")
    frame, name, given = _read(table, list(pairs.values()))
    if by == "loss":
        raise BayeslawError("The column of domains can't be 'loss', which holds the losses.", code="name-used-twice")
    for taken, way in (("loss", "drop or rename it"), (by, "drop it, or give another name for the column of domains")):
        if taken in frame or taken in given:
            read = next((f"{column!r}, which is read as {taken}," for column in given if our_name(column) == taken != column), "")
            raise BayeslawError(f"{name} has a column {read or repr(taken)} already: {way}.", code="name-used-twice")
    own = [_own(i) for i in range(len(pairs))]
    if words := [column for i, column in zip(own, pairs.values(), strict=True) if not holds_numbers(frame[i])]:
        problem, way = "column {} holds no numbers", "losses are needed there"
        raise TableError([Fault(None, c, "", problem.format(c), way, "column-without-numbers") for c in words], name)
    others = frame.drop(columns=own)
    parts = [others.assign(loss=frame[column]) for column in own]
    for column, other in ((BASE_LOSS, np.nan), (LOSS.error, 0.0)):
        if column in frame:
            parts = _of_its_domain(parts, list(pairs.values()), name, column, other)
    for part, domain in zip(parts, pairs, strict=True):
        part.insert(len(part.columns) - 1, by, domain)
    long_table = pd.concat(parts, keys=range(len(parts))).sort_index(level=1, kind="stable").dropna(subset="loss")
    if "run" in long_table:
        long_table["run"] = long_table["run"].where(long_table["run"].isna(), long_table["run"].astype(str) + " " + long_table[by])
    return long_table.reset_index(drop=True)


def _of_its_domain(parts: list[pd.DataFrame], losses: list[str], name: str, column: str, other: float) -> list[pd.DataFrame]:
    """Return the tables of the domains with a base loss, or a known error, in that of the domain it is of.

    Base losses of the others are empty, since `read_runs` finds them at D = 0, and known errors of the others are 0.
    """
    of_loss = [our_name(of) == "loss" for of in losses]
    if sum(of_loss) != 1:
        message = f"{name} has a column {column}, which is of one domain, and does not say of which of {', '.join(losses)}"
        way, code = "leave it out; rows at D = 0 give the base loss of each", "ambiguous-base-loss"
        if column != BASE_LOSS:
            way, code = "leave it out, and give the long table a column of the errors of each", "ambiguous-error"
        raise BayeslawError(f"{message}: {way}.", code=code)
    return [part if of else part.assign(**{column: other}) for part, of in zip(parts, of_loss, strict=True)]


def _read(table: Table, losses: list[str]) -> tuple[pd.DataFrame, str, set[str]]:
    """Return a table with its columns of losses called `_own`, its name, and the names of its other columns before they were read.

    They are taken out before the others are read, since several of them may have names that stand for a loss.
    """
    given, name = (table.frame, table.name) if isinstance(table, Runs) else as_in_file(table)
    if isinstance(table, Runs):
        renamed = {c: table.originals[c] for c in losses if c not in given and c in table.originals}
        ours = [our_name(c) for c in renamed]
        given = given.drop(columns=ours, errors="ignore").assign(**renamed)
    for column in losses:
        if column not in given:
            message = f"{name} has no column {column!r} of losses.{nearest(column, map(str, given))}"
            raise BayeslawError(message, code="missing-column")
    own = given.rename(columns={column: _own(i) for i, column in enumerate(losses)})
    if isinstance(table, Runs):
        columns = {c: own[c] for c in map(_own, range(len(losses))) if not holds_numbers(own[c])}
        own = own.assign(**{c: numbers for c, cells in columns.items() if (numbers := spelt_numbers(cells)) is not None})
        return own, name, {*map(str, table.originals)} - {*losses}
    try:
        read = of_models(read_table(own, "runs", strict=True, numbers=[_own(i) for i in range(len(losses))]))
        return read.frame, name, {*map(str, given)} - {*losses}
    except TableError as error:
        their = {_own(i): column for i, column in enumerate(losses)}
        raise TableError([_renamed(fault, their.get(fault.column, fault.column)) for fault in error.faults], name) from None


def _renamed(fault: Fault, column: str) -> Fault:
    return replace(fault, column=column, problem=fault.problem.replace(fault.column, column, 1))


def _own(i: int) -> str:
    return f"losses_{i}_of_a_domain"


def _domain(column: str) -> str:
    """The domain of a column of losses."""
    return column.removesuffix("_loss").removeprefix("loss_") or column
