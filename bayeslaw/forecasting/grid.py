"""Grids of settings: all combinations of values of covariates."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, shortened
from bayeslaw.core.text import listed, number, percent_hint
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.data.columns import did_you_mean, resolve
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Table
from bayeslaw.forecasting.base_losses import with_known_base_losses
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.posterior.fit import require_fits

type Setting = str | float | Sequence[float] | NDArray[Any]  # the values of a covariate
type Settings = Table | Mapping[str, Setting]  # as users give them; of a mapping all combinations are meant
MOST_SETTINGS = 100_000  # of a grid: two minutes with 4,000 draws


def grid(law: Law | Posterior | str | Path, settings: Mapping[str, Setting]) -> pd.DataFrame:
    """Return all combinations of values of the law's covariates, one row each.

    Parameters
    ----------
    law : Law, Fit or Stack, or name or path of a card
    settings : mapping
        For each covariate a number, a sequence, or a text: '8.1e9', '8.1B', '0.1,0.25' or '1e9:2e11:20' (20 values from 1e9 to
        2e11, evenly in the logarithm for covariates that span decades); K, M, B and T stand for 1e3 to 1e12. Other usual names of
        covariates (params, tokens, params_b, …) are understood with their units. `atpp` may stand for D = atpp x N. Values of
        columns by which parameters vary are texts; so are those of a column by which the noise of a fit differs, which may be
        left out, and a `base_loss` that the rows of a fit have for these checkpoints.

    Examples
    --------
    >>> bayeslaw.grid("chinchilla", {"N": "1e8,1e9", "D": "1e9:1e11:3"}).shape
    (6, 2)
    """
    law = load_law(law) if isinstance(law, (str, Path)) else law
    if not isinstance(settings, Mapping):
        problem = f"Settings of a grid are a mapping, such as {{'N': '1e9,2e9', 'D': 2e10}}, not {shortened(repr(settings))}."
        raise BayeslawError(problem, code="not-a-mapping")
    if not isinstance(law, Law):
        require_fits(law)
    return joint_grid([law], settings)


def grid_of(
    name: str,
    measured: Mapping[str, Covariate],
    levels: Mapping[str, Sequence[str]],
    settings: Mapping[str, Setting],
    observed: Sequence[Observations] = (),
    facts: Sequence[str] = (),
) -> pd.DataFrame:
    """Return all combinations of values of covariates, as `grid` does.

    Parameters
    ----------
    name : str
        Name of the law, for errors.
    measured, levels, settings : mapping
        Covariates; columns by which parameters vary, with their values; and as in `grid`.
    observed : sequence of Observations
        Rows of fits, by whose groups noise differs and whose base losses are known.
    facts : sequence of str
        Covariates that may be left out: fits know what was asked of their tasks (`facts.with_facts`).
    """
    if any(c.series for c in measured.values()):
        raise BayeslawError(
            f"{name} sums over all changes of the learning rate, which a grid can't hold. Make its settings from schedules "
            "(bayeslaw.schedules.changes.nodes).",
            code="series-in-grid",
        )
    wanted = (*measured, *levels)
    # Expected losses do not depend on the group; a forecast of a new run without one is refused with the names of the groups.
    groups = list(dict.fromkeys(of.group_column for of in observed if of.group_names and of.group_column not in wanted))
    settings = _under_our_names(settings, [*wanted, *groups, "atpp"])
    for given in settings:
        if given not in (*wanted, *groups, "atpp"):
            known, hint = ", ".join([*wanted, *groups]), did_you_mean(str(given), [*wanted, *groups])
            raise BayeslawError(f"{name} has no covariate {given!r}; it has {known}.{hint}", code="unknown-covariate")
    if {"D", "atpp"} <= settings.keys() and "atpp" not in measured:
        raise BayeslawError("Give either D or atpp: D is atpp x N.", code="d-and-atpp")
    values = {
        column: _texts(value) if column in (*levels, *groups) else _values(measured, column, value)
        for column, value in settings.items()
    }
    if (count := math.prod(map(len, values.values()))) > MOST_SETTINGS:
        most = f"at most {MOST_SETTINGS:,} are forecast at once"
        raise BayeslawError(f"These are {count:,} settings; {most}.", code="too-many-settings")
    frame = pd.DataFrame(list(itertools.product(*values.values())), columns=list(values))
    if "atpp" in frame and "D" not in frame and "N" in frame:
        frame["D"] = frame["atpp"] * frame["N"]
    if observed:
        checkpoints = len(frame[[c for c in ("N", "ptpp") if c in frame]].drop_duplicates())
        if BASE_LOSS in frame and checkpoints > 1:
            raise BayeslawError(
                f"These settings are of {checkpoints} checkpoints (N x ptpp), and each has a loss of its own: give a table of "
                f"settings with a column {BASE_LOSS}, or one N and ptpp.",
                code="several-base-losses",
            )
        way = f"{BASE_LOSS}=2.31 among the settings of one checkpoint, or a table of settings with a column {BASE_LOSS}"
        frame = with_known_base_losses(name, observed, frame, way)
    if missing := [column for column in wanted if column not in frame and column not in facts]:
        of_columns = "".join(f" {column} is one of {listed(levels[column])}." for column in missing if column in levels)
        first = missing[0]
        way = f"--set {first}={levels[first][0] if first in levels else 'VALUE'}"
        message = f"{name} needs {', '.join(wanted)}; give {', '.join(missing)} too, by {way} (in Python among the settings)."
        raise BayeslawError(message + of_columns, code="missing-covariate")
    return frame


def joint_grid(several: Sequence[Law | Posterior], settings: Mapping[str, Setting]) -> pd.DataFrame:
    """Return all combinations of values of the covariates of several laws or fits; each takes those that it has."""
    posteriors = [of for of in several if not isinstance(of, Law)]
    return grid_of(
        " with ".join(dict.fromkeys(of.name for of in several)),
        {name: covariate for of in several for name, covariate in of.measured.items()},
        {column: values for of in several for column, values in of.levels.items()},
        settings,
        [fit.observed for posterior in posteriors for fit, _ in posterior.selections],
        [name for posterior in posteriors for name in posterior.outcome.facts],
    )


def _under_our_names(settings: Mapping[str, Setting], known: list[str]) -> dict[str, Setting]:
    """Return the settings under our names and in our units: params_b=7 is N=7e9."""
    ours: dict[str, Setting] = {}
    for given, value in settings.items():
        name, factor = (given, 1.0) if given in known else resolve(str(given)) or (given, 1.0)
        name, factor = (name, factor) if name in known else (given, 1.0)
        if name in ours:
            raise BayeslawError(f"{given} is {name}, which is given twice.", code="given-twice")
        ours[name] = value if factor == 1 else _scaled(given, value, factor)
    return ours


def _scaled(name: str, value: Setting, factor: float) -> Setting:
    """Return a setting in our unit; the number of values of a range stays."""
    if not isinstance(value, str):
        return [float(v) * factor for v in np.atleast_1d(np.asarray(value, dtype=float))]
    parts = re.split("([,:])", value)
    last = len(parts) if value.count(":") < 2 else len(parts) - 1
    try:
        return "".join(f"{number(part) * factor:.15g}" if i < last and i % 2 == 0 else part for i, part in enumerate(parts))
    except ValueError:
        raise _no_number(name, value) from None


def _texts(value: Setting) -> list[Any]:
    return value.split(",") if isinstance(value, str) else list(np.atleast_1d(np.asarray(value, dtype=object)))


def _values(measured: Mapping[str, Covariate], name: str, value: Setting) -> list[float]:
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, str) and ":" in value:
            return _range(measured, name, value)
        parts = value.split(",") if isinstance(value, str) else np.atleast_1d(np.asarray(value, dtype=float))
        values = [number(part) if isinstance(part, str) else float(part) for part in parts]
        if not values or not np.isfinite(values).all():
            raise ValueError
    except (ValueError, TypeError) as error:
        if isinstance(error, BayeslawError):
            raise
        raise _no_number(name, value) from None
    return values


def _no_number(name: str, value: object) -> BayeslawError:
    problem = f"{name}={value!r} is not a number such as 8.1B, a list such as 0.1,0.25 or a range such as 1e9:2e11:20."
    if "+-" in str(value):
        problem += (
            " Settings have no errors here; a plan takes that of a base loss (--base-loss 2.31+-0.02, base_loss='2.31+-0.02')."
        )
    return BayeslawError(problem + percent_hint(value), code="not-a-number")


def _range(measured: Mapping[str, Covariate], name: str, text: str) -> list[float]:
    first, last, count = text.split(":")
    low, high, values = number(first), number(last), int(count)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError
    if not 1 <= values <= MOST_SETTINGS:
        raise BayeslawError(f"{name}={text!r} asks for {values} values; give 1 to {MOST_SETTINGS:,}.", code="wrong-count")
    if name != "atpp" and not measured[name].logarithmic:
        return [float(v) for v in np.linspace(low, high, values)]
    if min(low, high) <= 0:
        raise BayeslawError(f"{name}={text!r}: a range of {name} begins above 0.", code="range-from-zero")
    return [float(v) for v in np.geomspace(low, high, values)]
