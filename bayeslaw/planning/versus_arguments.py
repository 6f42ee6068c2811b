"""Which two recipes are compared, and where: fits that can be compared, the settings and names of each, and rows of settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.data.table import read_runs
from bayeslaw.data.tokenizers import differ
from bayeslaw.forecasting.grid import Settings, as_settings, grid
from bayeslaw.forecasting.stack import Posterior, check_pairing, paired, require_losses
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.arguments import as_number, check_passed, read_once


def read_ratio(tokens_per_parameter: float | None, *, alone: bool) -> float | None:
    """Return tokens per parameter as a number; refused beside settings (not `alone`), which have their own."""
    if tokens_per_parameter is None:
        return None
    if not alone:
        problem = "Settings have tokens per parameter of their own (D/N): give tokens_per_parameter with compute alone."
        raise BayeslawError(problem, code="settings-not-clear")
    ratio = as_number(tokens_per_parameter)
    if not (math.isfinite(ratio) and ratio > 0):
        raise BayeslawError(f"Tokens per parameter must be a number above 0, not {tokens_per_parameter!r}.", code="bad-ratio")
    return ratio


def pair(a: Posterior, b: Posterior | None, force: bool) -> tuple[Posterior, Posterior]:
    """Return the two posteriors, which may be one; refuse those that can't be compared.

    Parameters
    ----------
    a, b, force
        As in `versus`.
    """
    given = [a] if b is None else [a, b]
    if point := [fit for fit in given if isinstance(fit, PointFit)]:
        raise BayeslawError(
            f"{point[0].name} is a point fit, which has no probability; fit the posterior (bayeslaw.fit).", code="point-fit"
        )
    require_losses(given, "a comparison of recipes")
    for fit in given:
        check_passed(fit, force)
    if b is None:
        return a, a
    if a.unit != b.unit:
        raise BayeslawError(
            f"A's losses are in {a.unit} and B's in {b.unit}: convert one table with `bayeslaw convert` and fit it again.",
            code="different-units",
        )
    lengths = [fit.token_length for posterior in (a, b) for fit, _ in posterior.selections]
    if other := next((other for length in lengths if (other := differ(lengths[0], length, a.unit))), None):
        words, way = other
        problem = f"The losses of A and B are per token of different tokenizers ({words})"
        raise BayeslawError(f"{problem}: bring both tables to one by {way}, and fit them again.", code="different-tokenizers")
    first, second = paired(read_once([a, b]))
    sizes = [first.size, second.size]
    check_pairing(
        sizes,
        f"The draws of the two fits are unpaired: {sizes[0]:,} and {sizes[1]:,}. Fit both with as many draws and chains.",
    )
    return first, second


def own_settings(
    a: Posterior,
    b: Posterior,
    single: bool,
    levels: Sequence[str] | None,
    both: Mapping[str, Any],
    of_a: Mapping[str, Any],
    of_b: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of each recipe, those in common and its level among them.

    Parameters
    ----------
    a, b, single : Fit or Stack, Fit or Stack, bool
        Of `pair`, and whether they are one fit, whose settings must differ.
    levels, both, of_a, of_b
        As `levels`, `settings`, `settings_a` and `settings_b` in `versus`.
    """
    own = ({**both, **of_a}, {**both, **of_b})
    if levels is not None:
        _check_two(levels, "Levels are two different values of a column", "not-two-levels")
        column = _column_of(a, levels)
        for settings, value in zip(own, levels, strict=True):
            settings[column] = value
    if single and own[0] == own[1]:
        known = f" Its columns are {_levels_in_words(a)}." if a.levels else " Its law has no column by which parameters differ."
        raise BayeslawError(
            "One fit has nothing to compare: give a second fit, two of its levels (--levels web,code, levels=['web', 'code']) or "
            f"different settings (--set-a and --set-b, settings_a= and settings_b=).{known}",
            code="nothing-to-compare",
        )
    for fit, settings in zip((a, b), own, strict=True):
        if taken := [k for k in ("N", "D", "atpp", "loss") if k in settings]:
            raise BayeslawError(
                f"{taken[0]} is not a setting of a recipe here: give it for both (--at or --set, at=), or give compute.",
                code="unknown-setting",
            )
        for column, values in fit.levels.items():
            if column in settings and str(settings[column]) not in values:
                raise BayeslawError(
                    f"{fit.name} has no {column} {settings[column]!r}; it has {', '.join(values)}."
                    f"{nearest(str(settings[column]), values)}",
                    code="unknown-level",
                )
    return own


def _levels_in_words(fit: Posterior) -> str:
    return "; ".join(f"{column}: {', '.join(values)}" for column, values in fit.levels.items())


def _column_of(fit: Posterior, levels: Sequence[str]) -> str:
    """Return the column that has both levels; exactly one must."""
    columns = [column for column, values in fit.levels.items() if {*levels} <= {*values}]
    if len(columns) != 1:
        shown = _levels_in_words(fit) or "none"
        several = f"several columns have both ({', '.join(columns)}): give one in --set-a and --set-b (settings_a=, settings_b=)"
        wanted = several if columns else f"no column of {fit.name} has both (columns by which its parameters differ: {shown})"
        raise BayeslawError(f"Levels {levels[0]!r} and {levels[1]!r}: {wanted}.", code="unknown-level")
    return columns[0]


def _check_two(given: object, are: str, code: str) -> None:
    """Refuse what is no list of two that differ, such as a text of two letters."""
    listed = given if isinstance(given, (list, tuple)) else None
    if listed is None or len(listed) != 2 or listed[0] == listed[1]:
        shown = repr(given) if listed is None else ", ".join(map(str, listed))
        raise BayeslawError(f"{are}, A's and B's; {shown} are not.", code=code)


def names_of(names: Sequence[str] | None, levels: Sequence[str] | None, first: Posterior, second: Posterior) -> tuple[str, str]:
    """Return the names of the two recipes.

    Parameters
    ----------
    names, levels, first, second
        As in `versus` and of `pair`.
    """
    given = names or levels
    if given is None:
        same = first.name == second.name
        return (f"first {first.name}", f"second {second.name}") if same else (first.name, second.name)
    _check_two(given, "Names are two different texts", "not-two-names")
    return (str(given[0]), str(given[1]))


def rows_of(at: Settings, fit: Posterior, own: Mapping[str, Any], others: Mapping[str, Any]) -> pd.DataFrame:
    """Return N, D and other covariates, one row for each setting.

    Parameters
    ----------
    at, fit, own, others
        As in `versus`: settings, the first fit, the settings of its recipe and of the second.
    """
    at = as_settings(at)
    if isinstance(at, Mapping):
        given, filled = {*at}, {k: v for k, v in own.items() if k in (*fit.measured, *fit.levels) and k not in at}
        frame = grid(fit, {**at, **filled})
        frame = frame[[c for c in frame if c in fit.measured and c not in filled]]
    else:
        frame = read_runs(at).frame
        given = {*frame}
        frame = frame[[c for c in frame if c in fit.measured]]
    if twice := [c for c in (*own, *others) if c in given and c in (*fit.measured, *fit.levels)]:
        raise BayeslawError(
            f"{twice[0]} is given twice, among the settings to compare at (--at, at=) and for a recipe (--set, --set-a or --set-b; "
            f"settings=, settings_a= or settings_b=): leave {twice[0]} out of one.",
            code="given-twice",
        )
    if missing := [c for c in ("N", "D") if c not in frame]:
        raise BayeslawError(
            f"The settings have no {missing[0]}; recipes are compared at N and D (--set N=… --set D=…, at={{'N': …, 'D': …}}), or "
            "along compute (--compute, compute=).",
            code="missing-covariate",
        )
    values = pd.DataFrame({c: pd.to_numeric(frame[c], errors="coerce") for c in frame})
    bad = ~(np.isfinite(values) & (values[["N", "D"]] > 0).all(axis=1).to_numpy()[:, None]).all(axis=1)
    if bad.any():
        row = frame.index[bad][0]
        raise BayeslawError(
            f"Row {row} of the settings has {dict(frame.loc[row])}: N and D must be positive numbers, and no cell empty.",
            code="setting-not-positive",
        )
    return values.astype(np.float64)
