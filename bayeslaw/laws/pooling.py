"""Parameters that differ by a column, such as the floor E by domain, with partial pooling.

A law some of whose parameters have `by` is turned into an ordinary law: each such parameter gets a value for every level of the
column,

    E_web, E_code ~ around E:  log E_web ~ Normal(log E, E_spread),   E_spread ~ HalfNormal,

(the logit for shares, the value itself for real parameters), and each term of the formula that depends on them is written once for
every level, times an indicator that is 1 in its rows and 0 elsewhere.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from bayeslaw.core.errors import BayeslawError, CardError, nearest
from bayeslaw.laws.formula import Expression, default_symbol, latex_text
from bayeslaw.laws.law import Covariate, Law, Parameter
from bayeslaw.laws.prior import Prior

MOST = 40  # levels of a column
# Sd of the half-normal prior of a spread. Floors and exponents of text and code differ by a factor of 1.2 to 3.
SPREAD = 0.5


def with_by(law: Law, by: Mapping[str, str]) -> Law:
    """Return the same law with other columns by which parameters differ: parameter to column."""
    law.check_parameters(by)
    return replace(law, parameters={k: replace(p, by=by.get(k, p.by)) for k, p in law.parameters.items()})


def levels_of(law: Law, frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the levels, in order of appearance, of each column by which parameters differ; too few or too many are refused."""
    levels = {}
    for column in dict.fromkeys(p.by for p in law.parameters.values() if p.by):
        names = ", ".join(name for name, p in law.parameters.items() if p.by == column)
        if column not in frame:
            known = nearest(column, map(str, frame))
            message = f"{names} of {law.name} differs by {column!r}, and the table has no such column.{known}"
            raise BayeslawError(message, code="missing-column")
        if frame[column].isna().any():
            row = frame.index[frame[column].isna()][0]
            raise BayeslawError(f"{names} of {law.name} differs by {column}, which is empty at row {row}.", code="empty-cell")
        values = tuple(dict.fromkeys(map(level, frame[column])))
        if not 2 <= len(values) <= MOST:
            count = f"{len(values)} value{'s' * (len(values) != 1)} ({', '.join(values[:3])})"
            message = f"{names} of {law.name} differs by {column}, which has {count}, not 2 to {MOST}."
            raise BayeslawError(message, code="number-of-levels")
        levels[column] = values
    return levels


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
    differing = [name for name, p in law.parameters.items() if p.by == column]
    suffixes = _suffixes(values)
    lets: set[str] = set()
    for name, expression in law.let.items():  # in an order in which each uses only earlier ones
        if expression.names & {*differing, *lets}:
            lets.add(name)
    renames = {v: {n: f"{n}_{suffix}" for n in (*differing, *lets)} for v, suffix in zip(values, suffixes, strict=True)}
    indicators = {v: f"{column}_{suffix}" for v, suffix in zip(values, suffixes, strict=True)}
    parameters: dict[str, Parameter] = {}
    for name, parameter in law.parameters.items():
        if name in differing:
            parameters |= _members(name, parameter, column, renames, pooled)
        elif pooled or parameter.prior.on is None:
            parameters[name] = parameter
        else:  # there is no typical value for its prior to be stated at
            first = _expression(_renamed(parameter.prior.on.tree, renames[values[0]]))
            parameters[name] = replace(parameter, prior=replace(parameter.prior, on=first))
    tree: ast.expr | None = None
    for sign, term in law.formula.terms:
        copies = [term.tree]
        if term.names & {*differing, *lets}:
            copies = [ast.BinOp(ast.Name(indicators[v], ast.Load()), ast.Mult(), _renamed(term.tree, renames[v])) for v in values]
        for copied in copies:
            tree = _added(tree, sign, copied)
    assert tree is not None
    needed = {n for p in parameters.values() if p.prior.on for n in p.prior.on.names}
    for name in reversed(list(law.let)):
        needed |= law.let[name].names if name in needed else set()
    let: dict[str, Expression] = {}
    for name, expression in law.let.items():
        if name not in lets or name in needed:
            let[name] = expression
        if name in lets:
            let |= {renames[v][name]: _expression(_renamed(expression.tree, renames[v])) for v in values}
    covariates = dict(law.covariates)
    covariates |= {i: Covariate(i, f"1 where {column} is {v}", (0.0, 1.0)) for v, i in indicators.items()}
    names = [*covariates, *parameters, *let]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        message = f"{law.name} already has a {twice[0]!r}, which a value by {column} needs; rename it in the card."
        raise CardError(message, code="name-used-twice")
    known = dict(law.indicators) | {i: (column, v) for v, i in indicators.items()}
    return replace(law, formula=_expression(tree), let=let, covariates=covariates, parameters=parameters, indicators=known)


def _members(
    name: str, parameter: Parameter, column: str, renames: Mapping[str, Mapping[str, str]], pooled: bool
) -> dict[str, Parameter]:
    """Return the typical value, the spread around it, and the value for each level."""
    spread = f"{name}_spread"
    members = {}
    if pooled and parameter.prior.support == "bounded":
        message = f"{name} with the prior {parameter.prior} can't be pooled by {column}: give it one without bounds."
        raise CardError(message, code="bounded-and-pooled")
    if pooled:
        of = {"positive": f"log {name}", "unit": f"logit {name}", "real": name}[parameter.prior.support]
        members[name] = replace(parameter, meaning=f"{parameter.meaning}: typical of {column}", by="")
        latex = rf"\sigma_{{{parameter.latex}}}"
        meaning = f"spread of {of} between values of {column}"
        members[spread] = Parameter(spread, meaning, "", latex, Prior("HalfNormal", {"sigma": SPREAD}))
    for value, rename in renames.items():
        on = parameter.prior.on
        prior = replace(parameter.prior, on=_expression(_renamed(on.tree, rename)) if on else None)
        is_name = value.replace("_", "").replace(".", "").isalnum()
        symbol = default_symbol(value) if is_name else rf"\text{{{latex_text(value)}}}"
        meaning, latex = f"{parameter.meaning}: {column} {value}", rf"{parameter.latex}^{{({symbol})}}"
        around = (name, spread) if pooled else None
        members[rename[name]] = Parameter(
            rename[name], meaning, parameter.unit, latex, prior, around=around, within=(column, value)
        )
    return members


def _suffixes(values: Sequence[str]) -> list[str]:
    """Return the levels as suffixes of names: letters, digits and _, all different."""
    plain = [re.sub(r"\W", "_", v, flags=re.ASCII) for v in values]
    return [p if plain.count(p) == 1 else f"{p}_{i + 1}" for i, p in enumerate(plain)]


def _renamed(tree: ast.expr, names: Mapping[str, str]) -> ast.expr:
    renamed = copy.deepcopy(tree)
    for node in ast.walk(renamed):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return renamed


def _added(tree: ast.expr | None, sign: int, term: ast.expr) -> ast.expr:
    if tree is None:
        return term if sign > 0 else ast.UnaryOp(ast.USub(), term)
    return ast.BinOp(tree, ast.Add() if sign > 0 else ast.Sub(), term)


def _expression(tree: ast.expr) -> Expression:
    return Expression(ast.unparse(tree), tree)


def level(value: object) -> str:
    """Return the text of a value of a column by which parameters differ."""
    return f"{value:g}" if isinstance(value, float) else str(value)
