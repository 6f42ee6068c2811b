"""Grids of settings: all combinations of values of covariates."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import scaled
from bayeslaw.core.errors import BayeslawError, shortened
from bayeslaw.core.text import SUFFIXES, listed, number, percent_hint
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.data.columns import did_you_mean, resolve
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.forecasting.base_losses import with_known_base_losses
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.outcome import LOSS
from bayeslaw.posterior.fit import require_fits

type Setting = str | float | Sequence[float | str] | NDArray[Any]  # the values of a covariate
type Settings = Table | Mapping[str, Setting]  # as users give them; of a mapping all combinations are meant
COMPUTE = ("c", "compute", "flops")  # what users call compute, which is no covariate beside N and D
MOST_SETTINGS = 100_000  # of a grid: two minutes with 4,000 draws


def as_settings(at: Any) -> Any:
    """Return settings as they are given, but a row of a table, a Series by names, as a mapping."""
    by_name = isinstance(at, pd.Series) and all(isinstance(name, str) for name in at.index)
    return at.to_dict() if by_name else at


def read_settings(several: Sequence[Law | Posterior], at: Settings) -> Runs:
    """Return settings of several laws or fits as a table, of a mapping all combinations of its values (`joint_grid`)."""
    at = as_settings(at)
    return read_runs(joint_grid(several, at) if isinstance(at, Mapping) else at)


def grid(law: Law | Posterior | str | Path, settings: Mapping[str, Setting] | pd.Series) -> pd.DataFrame:
    """Return all combinations of values of the law's covariates, one row each.

    Parameters
    ----------
    law : Law, Fit or Stack, or name or path of a card
    settings : mapping, or a Series by names
        For each covariate a number, a text such as '8.1e9', '8.1B', '0.1,0.25' or '1e9:2e11:20' (20 values from 1e9 to 2e11,
        evenly in the logarithm for covariates that span decades), or a sequence of numbers or such texts; K, M, B and T stand for
        1e3 to 1e12. Other usual names of covariates (params, tokens, params_b, …) are understood with their units, but for values
        such as '7B' that have their own. `atpp` may stand for D = atpp x N. Values of columns by which parameters vary are texts;
        so are those of a column by which the noise of a fit differs, which may be left out, and a `base_loss` that the rows of a
        fit have for these checkpoints.

    Examples
    --------
    >>> bayeslaw.grid("chinchilla", {"N": "1e8,1e9", "D": "1e9:1e11:3"}).shape
    (6, 2)
    """
    law, settings = load_law(law) if isinstance(law, (str, Path)) else law, as_settings(settings)
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
    given = _under_our_names(settings, [*wanted, *groups, "atpp"])
    for column in given:
        if column not in (*wanted, *groups, "atpp"):
            known, hint = ", ".join([*wanted, *groups]), did_you_mean(str(column), [*wanted, *groups])
            if str(column).lower() in COMPUTE and {"N", "D"} <= {*wanted}:
                hint = " `bayeslaw allocate` (fit.allocate) finds the best N and D for compute; C = 6 N D."
            if column in ("N", "D") and LOSS.name in measured:
                hint = " `bayeslaw chain` (bayeslaw.chain) forecasts from N and D, by a fit of the loss before this one."
            raise BayeslawError(f"{name} has no covariate {column!r}; it has {known}.{hint}", code="unknown-covariate")
    if {"D", "atpp"} <= given.keys() and "atpp" not in measured:
        raise BayeslawError("Give either D or atpp: D is atpp x N.", code="d-and-atpp")
    frame = _combinations(given, measured, (*levels, *groups))
    if observed:
        frame = _with_base_losses(name, observed, frame)
    if missing := [column for column in wanted if column not in frame and column not in facts]:
        of_columns = "".join(f" {column} is one of {listed(levels[column])}." for column in missing if column in levels)
        first = missing[0]
        way = f"--set {shlex.quote(f'{first}={levels[first][0]}') if first in levels else f'{first}=VALUE'}"
        message = f"{name} needs {', '.join(wanted)}; give {', '.join(missing)} too, by {way} (in Python among the settings)."
        raise BayeslawError(message + of_columns, code="missing-covariate")
    return frame


def _combinations(given: Mapping[str, _Given], measured: Mapping[str, Covariate], texts: Collection[str]) -> pd.DataFrame:
    """Return all combinations of the given values, with D where tokens per parameter and sizes are given.

    Parameters
    ----------
    given, measured : mapping
    texts : collection of str
        Columns whose values are no numbers.
    """
    values = {
        column: _texts(of.value) if column in texts else _values(of, column == "atpp" or measured[column].logarithmic)
        for column, of in given.items()
    }
    if (count := math.prod(map(len, values.values()))) > MOST_SETTINGS:
        most = f"at most {MOST_SETTINGS:,} are forecast at once"
        raise BayeslawError(f"These are {count:,} settings; {most}.", code="too-many-settings")
    frame = pd.DataFrame(list(itertools.product(*values.values())), columns=list(values))
    if "atpp" in frame and "D" not in frame and "N" in frame:
        frame["D"] = frame["atpp"] * frame["N"]
    return frame


def _with_base_losses(name: str, observed: Sequence[Observations], frame: pd.DataFrame) -> pd.DataFrame:
    """Return settings with the base losses that fits know; one that is given must be of one checkpoint."""
    checkpoints = len(frame[[c for c in ("N", "ptpp") if c in frame]].drop_duplicates())
    if BASE_LOSS in frame and checkpoints > 1:
        raise BayeslawError(
            f"These settings are of {checkpoints} checkpoints (N x ptpp), and each has a loss of its own: give a table of "
            f"settings with a column {BASE_LOSS}, or one N and ptpp.",
            code="several-base-losses",
        )
    way = f"{BASE_LOSS}=2.31 among the settings of one checkpoint, or a table of settings with a column {BASE_LOSS}"
    return with_known_base_losses(name, observed, frame, way)


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


class _Given(NamedTuple):
    """Values of a setting as the user gives them: under a name, in a unit that is `factor` times ours."""

    name: str
    value: Setting
    factor: float


def _under_our_names(settings: Mapping[str, Setting], known: list[str]) -> dict[str, _Given]:
    """Return the settings by our names: params_b=7 is N in units of 1e9."""
    ours: dict[str, _Given] = {}
    for given, value in settings.items():
        name, factor = (given, 1.0) if given in known else resolve(str(given)) or (given, 1.0)
        name, factor = (name, factor) if name in known else (given, 1.0)
        if name in ours:
            raise BayeslawError(f"{given} is {name}, which is given twice.", code="given-twice")
        ours[name] = _Given(given, _several(value), factor)
    return ours


def _several(value: Any) -> Any:
    """Return values that can be gone through once, or have no order, as a list; all else as it is."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, Sequence, np.ndarray, pd.Series, pd.Index)):
        values = list(itertools.islice(value, MOST_SETTINGS + 1))
        return sorted(values, key=lambda v: (isinstance(v, str), v)) if isinstance(value, Set) else values
    return value


def _texts(value: Setting) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return list(np.atleast_1d(np.asarray(value, dtype=object)))


def _values(given: _Given, logarithmic: bool) -> list[float]:
    """Return the values of a covariate in our unit; those of a range are even in its logarithm if it spans decades."""
    try:
        if isinstance(given.value, str) and ":" in given.value:
            return _range(given, given.value, logarithmic)
        parts = given.value.split(",") if isinstance(given.value, str) else _texts(given.value)
        values = [_number(part, given.factor) for part in parts]
        if not values or not np.isfinite(values).all():
            raise ValueError
    except (ValueError, TypeError) as error:
        if isinstance(error, BayeslawError):
            raise
        raise _no_number(given.name, given.value) from None
    return values


def _number(part: Any, factor: float) -> float:
    """Return a number in our unit; a text such as 7B has its own unit, as a cell of a table has."""
    if isinstance(part, bool):
        raise ValueError(f"{part} is no number")
    value = number(part) if isinstance(part, str) else float(part)
    has_unit = isinstance(part, str) and part.strip()[-1].lower() in SUFFIXES
    return value if has_unit else float(scaled([value], factor)[0])


def _no_number(name: str, value: object) -> BayeslawError:
    problem = f"{name}={value!r} is not a number such as 8.1B, a list such as 0.1,0.25 or a range such as 1e9:2e11:20."
    if "+-" in str(value):
        problem += (
            " Settings have no errors here; a plan takes that of a base loss (--base-loss 2.31+-0.02, base_loss='2.31+-0.02')."
        )
    return BayeslawError(problem + percent_hint(value), code="not-a-number")


def _range(given: _Given, text: str, logarithmic: bool) -> list[float]:
    first, last, count = text.split(":")
    low, high, values = _number(first, given.factor), _number(last, given.factor), int(count)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError
    if not 1 <= values <= MOST_SETTINGS:
        raise BayeslawError(f"{given.name}={text!r} asks for {values} values; give 1 to {MOST_SETTINGS:,}.", code="wrong-count")
    if not logarithmic:
        return [float(v) for v in np.linspace(low, high, values)]
    if min(low, high) <= 0:
        raise BayeslawError(f"{given.name}={text!r}: a range of {given.name} begins above 0.", code="range-from-zero")
    return [float(v) for v in np.geomspace(low, high, values)]
