"""Parameters that differ by a column, such as the floor E by domain, with partial pooling.

A law some of whose parameters have `by` is turned into an ordinary law: each such parameter gets a value for every level of the
column,

    E_web, E_code ~ around E:  log E_web ~ Normal(log E, E_spread),   E_spread ~ HalfNormal,

(the logit for shares, the value itself for real parameters), or has the prior for each value by itself where the card says
`pooled = false`. The formula stays as it is: in each row the name of such a parameter stands for the value of the row's level
(`Law.at_rows`), which indicators mark: covariates that are 1 in a level's rows and 0 elsewhere.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pandas as pd

from bayeslaw.core.errors import BayeslawError, CardError, nearest, row_ranges
from bayeslaw.core.text import counted, exact
from bayeslaw.laws.formula import default_symbol, latex_text
from bayeslaw.laws.law import Covariate, Law, Parameter, require_unbounded
from bayeslaw.laws.prior import Prior

MOST = 200  # levels of a column


def with_by(law: Law, by: Mapping[str, str]) -> Law:
    """Return the same law with other columns by which parameters differ: parameter to column."""
    by = law.of_each_share(by)
    law.check_parameters(by)
    if again := [name for name, column in by.items() if name in law.members or column in law.levels]:
        column = law.column_of.get(again[0], by[again[0]])
        problem = f"{law.name} has parameters with a value for each {column} already, as the law of a fit has"
        advice = f"give its card instead, and by for all of them ({again[0]} by {by[again[0]]} too)"
        raise CardError(f"{problem}: {advice}.", code="varies-already")
    return replace(law, parameters={k: replace(p, by=by.get(k, p.by)) for k, p in law.parameters.items()})


def levels_of(law: Law, frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the levels, in order of appearance, of each column by which parameters differ; too few or too many are refused."""
    levels = {}
    for column in dict.fromkeys(p.by for p in law.parameters.values() if p.by):
        names = [name for name, p in law.parameters.items() if p.by == column]
        subject = f"{', '.join(names)} of {law.name} {'differs' if len(names) == 1 else 'differ'} by"
        if column not in frame:
            known = nearest(column, map(str, frame))
            advice = (
                f"add it, or name another column (--by {names[0]}=COLUMN, of backtest and compare --pool, "
                f"by={{{names[0]!r}: 'COLUMN'}})"
            )
            message = f"{subject} {column!r}, and the table has no such column: {advice}.{known}"
            raise BayeslawError(message, code="missing-column")
        if (empty := blank(frame[column])).any():
            where = f"{column}, which is empty at {row_ranges(frame.index[empty])}"
            problem = f"{subject} {where}: fill it in, or remove these rows."
            raise BayeslawError(problem, code="empty-cell")
        values = tuple(dict.fromkeys(map(exact, frame[column])))
        if not 2 <= len(values) <= MOST:
            given = f"{counted(len(values), 'value')} ({', '.join(values[:3])})"
            message = f"{subject} {column}, which has {given}, not 2 to {MOST}."
            raise BayeslawError(message, code="number-of-levels")
        _refuse_alike(column, values)
        levels[column] = values
    return levels


def _refuse_alike(column: str, values: Sequence[str]) -> None:
    """Refuse names that look alike: each would get parameters of its own, from a part of the rows.

    They differ by case, outer blanks or codes, as accents of file names do from typed ones, and the micro sign from a Greek letter.
    """
    usual: dict[str, str] = {}
    for value in values:
        other = usual.setdefault(unicodedata.normalize("NFKC", value).strip().casefold(), value)
        if other != value:
            by_case = other.strip().lower() == value.strip().lower()
            shown, how = (repr, "case or blanks") if by_case else (ascii, "the codes of their letters")
            problem = f"{column} has {shown(other)} and {shown(value)}, which differ by {how} alone"
            raise BayeslawError(f"{problem}: write both alike, or rename one if they are two.", code="alike-levels")


def blank(cells: pd.Series) -> pd.Series:
    """Mark the cells that are empty, or texts without a character to see."""
    return cells.isna() | cells.astype(str).str.strip().eq("")


def levels_in(cells: pd.Series, known: Sequence[str]) -> pd.Series:
    """Return which of a column's values each cell of a table names; empty cells stay empty.

    It is the value of its text or, failing that, the only one that is the same number; '' for a number that several are, such as
    1.1 of '1.1' and '1.10', and the cell's own text if it names none.

    Parameters
    ----------
    cells : Series
    known : sequence of str
    """
    numbers, named = {name: _float(name) for name in known}, dict[tuple[bool, str], str]()

    def level(cell: object) -> str:
        is_text, text = isinstance(cell, (str, bool)), exact(cell)
        if (is_text, text) not in named:
            same = [name for name in known if numbers[name] == _float(cell)]
            by_number = same[0] if len(same) == 1 else "" if same else text
            named[is_text, text] = text if is_text and text in numbers else by_number
        return named[is_text, text]

    return cells.astype(object).map(level, na_action="ignore")


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def with_levels(law: Law, levels: Mapping[str, Sequence[str]], *, pooled: bool = True) -> Law:
    """Return the law with a value of each parameter that has `by` for every level of its column.

    Parameters
    ----------
    law, levels, pooled : Law, mapping of column to levels, bool
        Pooled values are distributed around a typical value with a spread to be inferred; else each has the parameter's prior.
    """
    for column, values in levels.items():
        law = _by_column(law, column, tuple(values), pooled)
    return law


def _by_column(law: Law, column: str, values: tuple[str, ...], pooled: bool) -> Law:
    suffixes = _suffixes(values)
    parameters = list[Parameter]()
    for name, parameter in law.parameters.items():
        if parameter.by == column:
            parameters += _members(name, parameter, column, dict(zip(values, suffixes, strict=True)), pooled)
        else:
            parameters.append(parameter)
    indicators = {f"{column}_{suffix}": (column, value) for value, suffix in zip(values, suffixes, strict=True)}
    marks = {name: Covariate(name, f"1 where {column} is {value}", (0.0, 1.0)) for name, (_, value) in indicators.items()}
    names = Counter([*law.covariates, *marks, *(p.name for p in parameters), *law.let])
    if twice := sorted(n for n, times in names.items() if times > 1):
        message = (
            f"{law.name} by {column} would give two parameters or covariates the name {twice[0]!r}: rename a value of {column}, or "
            "what the card calls so."
        )
        raise CardError(message, code="name-used-twice")
    new = {p.name: p for p in parameters}
    return replace(law, covariates={**law.covariates, **marks}, parameters=new, indicators={**law.indicators, **indicators})


def _members(name: str, parameter: Parameter, column: str, suffixes: Mapping[str, str], pooled: bool) -> list[Parameter]:
    """Return the typical value, the spread around it, and the value for each level."""
    spread = f"{name}_spread"
    members, pooled = list[Parameter](), pooled and parameter.pooled
    if pooled:
        require_unbounded(name, parameter.prior, column)
        of = {"positive": f"log {name}", "unit": f"logit {name}", "real": name}[parameter.prior.support]
        members.append(replace(parameter, meaning=f"{parameter.meaning}: typical of {column}", by=""))
        latex = rf"\sigma_{{{parameter.latex}}}"
        meaning = f"spread of {of} between values of {column}"
        members.append(Parameter(spread, meaning, "", latex, _prior_of_spread(parameter)))
    for value, suffix in suffixes.items():
        is_name = value.isascii() and value.replace(".", "").isalnum()  # what follows a _ in a name is no index
        symbol = default_symbol(value) if is_name else rf"\text{{{latex_text(value)}}}"
        member = Parameter(
            f"{name}_{suffix}",
            f"{parameter.meaning}: {column} {value}",
            parameter.unit,
            rf"{parameter.latex}^{{({symbol})}}",
            parameter.prior,
            around=(name, spread) if pooled else None,
            within=(column, value),
            of=name,
            over=parameter.over,
        )
        members.append(member)
    return members


def stated_spreads(law: Law, card: Law) -> dict[str, Prior]:
    """Return the priors of spreads of pooled values that were stated in place of those of the law's card."""
    priors = {}
    for name, (_, spread) in law.pools.items():
        prior = law.parameters[spread].prior
        if name in card.parameters and prior.table != _prior_of_spread(card.parameters[name]).table:
            priors[spread] = prior
    return priors


def _prior_of_spread(parameter: Parameter) -> Prior:
    return Prior("HalfNormal", {"sigma": parameter.spread})


def _suffixes(values: Sequence[str]) -> list[str]:
    """Return the levels as suffixes of names: letters, digits and _, all different."""
    plain = [re.sub(r"\W", "_", v, flags=re.ASCII) for v in values]
    suffixes, taken = list[str](), {p for p in plain if plain.count(p) == 1}
    for i, p in enumerate(plain):
        own = p if p in taken and plain.count(p) == 1 else next(n for k in count(i + 1) if (n := f"{p}_{k}") not in taken)
        taken.add(own)
        suffixes.append(own)
    return suffixes
