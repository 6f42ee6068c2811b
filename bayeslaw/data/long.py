"""Long tables: losses of several domains, a column each, as one column with a row for each domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.data.table import Runs, read_runs

LEAST = 2  # domains


def to_long(
    table: Runs | pd.DataFrame | str | Path, losses: Mapping[str, str] | Sequence[str], *, by: str = "domain"
) -> pd.DataFrame:
    """Return a table with a row for each run and domain, from one with a column of losses for each domain.

    Runs are named anew, run and domain together, because the effect of a run differs by domain: a mixture that helps one hurts
    another. A cell without a loss gives no row.

    Parameters
    ----------
    table : Runs, DataFrame or path
    losses : mapping of domain to column, or sequence of columns
        Of columns such as web_loss or loss_web the domain is web.
    by : str
        The new column with the domain.

    Examples
    --------
    >>> wide = pd.DataFrame({"run": ["a"], "N": [1e8], "web_loss": [3.1], "code_loss": [1.4]})
    >>> bayeslaw.data.to_long(wide, ["web_loss", "code_loss"])[["run", "domain", "loss"]].to_numpy().tolist()
    [['a web', 'web', 3.1], ['a code', 'code', 1.4]]
    """
    runs = table if isinstance(table, Runs) else read_runs(table)
    frame = runs.frame
    pairs = dict(losses) if isinstance(losses, Mapping) else {_domain(column): column for column in losses}
    if len(pairs) < LEAST or len({*pairs.values()}) < len(pairs) or (not isinstance(losses, Mapping) and len(pairs) < len(losses)):
        message = f"A long table is made of losses of two or more domains, a column each; these are {', '.join(pairs.values())}."
        raise BayeslawError(message, code="too-few-domains")
    for column in pairs.values():
        if column not in frame:
            message = f"{runs.name} has no column {column!r} of losses.{nearest(column, map(str, frame))}"
            raise BayeslawError(message, code="missing-column")
    if by == "loss":
        raise BayeslawError("The column of domains can't be 'loss', which holds the losses.", code="name-used-twice")
    for name, way in (("loss", "drop or rename it"), (by, "drop it, or give another name for the column of domains")):
        if name in frame and name not in pairs.values():
            raise BayeslawError(f"{runs.name} has a column {name!r} already: {way}.", code="name-used-twice")
    others = frame.drop(columns=list(pairs.values()))
    parts = [others.assign(loss=frame[column]) for column in pairs.values()]
    for part, domain in zip(parts, pairs, strict=True):
        part.insert(len(part.columns) - 1, by, domain)
    made = pd.concat(parts, keys=range(len(parts))).sort_index(level=1, kind="stable").dropna(subset="loss")
    if "run" in made:
        made["run"] = made["run"].where(made["run"].isna(), made["run"].astype(str) + " " + made[by])
    return made.reset_index(drop=True)


def _domain(column: str) -> str:
    """The domain of a column of losses."""
    return column.removesuffix("_loss").removeprefix("loss_") or column
