"""Values of a column that no fitted row has, such as a domain nobody has trained on, for parameters that differ by the column.

The value of such a parameter is drawn around its typical value with the spread between the fitted ones, or from its prior if it is
not pooled, as the law says of any value of the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import exact, listed
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import MOST, with_by, with_levels
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit


def with_new_groups(fit: Fit, frame: pd.DataFrame, seed: int) -> Fit:
    """Return a fit that has draws for the groups of a table that it has not seen; the same fit if there are none.

    Parameters
    ----------
    fit : Fit
    frame : DataFrame
        Settings with the columns by which parameters differ.
    seed : int
        The draws of a group depend on it, on the fit's seed and on the group's name.

    Raises
    ------
    BayeslawError
        If there are too many groups, or their names can't be told from those of fitted ones.
    """
    levels = {column: _with_new(fit.law.levels[column], frame, column) for column in fit.law.levels}
    if levels == {**fit.law.levels}:
        return fit
    law = _law_with(fit, levels)
    observed = fit.observed
    none = {name: np.zeros(observed.response.size) for name in law.covariates if name not in observed.covariates}
    observed = replace(observed, covariates={**observed.covariates, **none})
    draws = _drawn(law, fit, seed)
    posterior = fit.tree["posterior"].to_dataset().assign({n: (("chain", "draw"), v.reshape(fit.shape)) for n, v in draws.items()})
    groups: dict[str, Any] = {name: group.to_dataset() for name, group in fit.tree.children.items()}
    return replace(fit, law=law, observed=observed, tree=xr.DataTree.from_dict(groups | {"posterior": posterior}))


def new_groups(fit: Fit) -> list[str]:
    """Return the groups of a fit that none of its rows has, as 'domain = math'."""
    rows = fit.observed.covariates
    return [f"{column} = {value}" for name, (column, value) in fit.law.indicators.items() if not rows[name].any()]


def new_groups_check(fit: Fit) -> Check | None:
    """Return a note on the groups that a fit was not fitted to, if there are any."""
    if not (groups := new_groups(fit)):
        return None
    drawn, of_columns = list[str](), [p for p in fit.law.parameters.values() if p.within is not None]
    for pooled, how in ((True, "around typical values with the spread of the groups"), (False, "from the prior, without pooling")):
        if names := list(dict.fromkeys(p.of for p in of_columns if (p.around is not None) == pooled)):
            drawn.append(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} drawn {how}")
    text = f"{', '.join(groups)}: no fitted row is of it, so {' and '.join(drawn)}"
    return Check("new_groups", False, text, "note", pd.DataFrame({"group": groups}))


def new_pairs_check(fit: Fit, covariates: Mapping[str, Array]) -> Check | None:
    """Return a note on values of two columns that fitted rows have, but not together, if settings have such values.

    A parameter has a value for each value of one column, so that a fit forecasts pairs of which it has seen no row.

    Parameters
    ----------
    fit : Fit
    covariates : mapping of str to array (n,)
        Of the settings, with the law's indicators.
    """
    unseen = []
    for first, second in combinations(fit.law.levels, 2):
        marks = [fit.law.marks_of(first), fit.law.marks_of(second)]
        rows, asked = ([np.stack([of[name] for name in names]) for names in marks] for of in (fit.observed.covariates, covariates))
        fitted = rows[0] @ rows[1].T > 0
        new = (asked[0] @ asked[1].T > 0) & ~fitted & fitted.any(axis=1)[:, None] & fitted.any(axis=0)
        names = fit.law.levels[first], fit.law.levels[second]
        unseen += [f"{first} = {names[0][i]} with {second} = {names[1][j]}" for i, j in np.argwhere(new).tolist()]
    if not unseen:
        return None
    text = (
        f"{listed(unseen)}: fitted rows have each of these values and no row has both, so what a value of one column "
        "changes is taken from rows with other values of the other"
    )
    return Check("new_pairs", False, text, "note", pd.DataFrame({"pair": unseen}))


def _with_new(known: tuple[str, ...], frame: pd.DataFrame, column: str) -> tuple[str, ...]:
    if column not in frame:
        return known
    values = tuple(dict.fromkeys((*known, *map(exact, frame[column].dropna()))))
    if len(values) > MOST:
        message = f"{column} has {len(values)} values with the fitted ones; at most {MOST} are possible."
        raise BayeslawError(message, code="number-of-levels")
    return values


def _law_with(fit: Fit, levels: dict[str, tuple[str, ...]]) -> Law:
    """The fit's law with more values of the columns by which its parameters differ."""
    whole = with_by(parse_card(fit.law.card), fit.law.column_of)
    whole = whole.with_priors({name: fit.law.in_formula[name].prior for name in whole.parameters})
    law = with_levels(whole, levels)
    if not fit.law.parameters.keys() <= law.parameters.keys():  # names that differ in their punctuation alone are numbered
        new = ", ".join(value for column in levels for value in levels[column][len(fit.law.levels[column]) :])
        raise BayeslawError(f"The names of {new} are too similar to those of fitted groups: rename them.", code="similar-groups")
    return law.with_priors({name: parameter.prior for name, parameter in fit.law.parameters.items()})


def _drawn(law: Law, fit: Fit, seed: int) -> dict[str, Array]:
    """Draws (S,) of the parameters that the fit's law does not have."""
    known = fit.draws
    stated = fit.law.stated_at(known, fit.observed.at)
    values = {name: known[name] for name in fit.law.parameters}
    for name, parameter in law.parameters.items():
        if name in values or parameter.within is None:
            continue
        rng = np.random.default_rng([int(fit.info["seed"]), seed, Stream.NEW_GROUP, *name.encode()])
        if parameter.around is None:
            values[name] = parameter.prior.sample(fit.size, rng)
            continue
        typical, spread = parameter.around
        values[name] = parameter.around_typical(stated.get(typical, known[typical]), known[spread] * rng.standard_normal(fit.size))
    units = law.units_at(values, fit.observed.at)
    new = [name for name in law.parameters if name not in fit.law.parameters]
    return {name: values[name] / units[name] if name in units else values[name] for name in new}
