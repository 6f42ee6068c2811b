"""What all decisions are given: posteriors, settings, and numbers as lists and ranges; and what is refused of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, nearest
from bayeslaw.core.text import number, percent_hint
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import check, complete
from bayeslaw.forecasting.stack import Posterior, check_pairing
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.posterior.diagnostics import distrusted
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit

CHOICES = {"on": ("latent", "run"), "discrepancy": ("learned", "none")}
MOST = 2_000  # values of an argument, such as compute
UNIT_ASKED = "is it in millions or in billions? Give"
NOTED = 0.1  # e-folds outside the runs from which a note is written

type Spread = Literal["latent", "run"]  # of the laws' expected losses, or of those that the next run logs
type Range = str | float | Sequence[float] | None


def check_passed(posterior: Posterior | PointFit, force: bool) -> None:
    """Refuse a fit whose sampling failed, unless forced."""
    if not isinstance(posterior, PointFit) and not posterior.passed and not force:
        raise distrusted(f"Sampling of {posterior.name}", posterior.checks)


def check_paired(sizes: Mapping[str, int], decision: str) -> None:
    """Refuse different numbers of draws, given by the name of the loss, for a decision such as 'A mixture'."""
    shown = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    check_pairing(
        sizes.values(),
        f"The draws of the fits are unpaired: {shown}. {decision} takes each draw of one with one of the other: fit both with the "
        "same number of draws and chains, or both domains in one fit (--by E=domain, by={'E': 'domain'}).",
    )


def read_once[P: Posterior | PointFit](posteriors: Sequence[P]) -> list[P]:
    """The posteriors, with one object for all copies of a fit or a stack that was read twice: their draws are the same draws."""

    def key(posterior: P) -> object:
        if isinstance(posterior, PointFit):
            return id(posterior)
        return tuple((fit.info["draws_sha256"], fit.info["law_sha256"], draws.tobytes()) for fit, draws in posterior.selections)

    known: dict[object, P] = {}
    return [known.setdefault(key(posterior), posterior) for posterior in posteriors]


def check_choice(name: str, value: object, code: str) -> None:
    """Refuse another value than those in `CHOICES`.

    Parameters
    ----------
    name, value : str, object
        Name and value of the argument.
    code : str
        Code of the error.
    """
    if value not in (known := CHOICES[name]):
        raise BayeslawError(f"{name} is {' or '.join(known)}, not {value!r}.{nearest(str(value), known)}", code=code)


def at_settings(name: str, law: Law, draws: Mapping[str, Array], frame: pd.DataFrame, free: tuple[str, ...]) -> LawDraws:
    """A law's draws at the settings of a table, in which only the free covariates differ.

    Parameters
    ----------
    name : str
        Name of the law, for errors.
    law, draws
        As in `LawDraws`.
    frame : DataFrame
        Covariates, and columns by which parameters are pooled.
    free : tuple of str
        Covariates that are given with each evaluation.
    """
    if missing := [c for c in (*law.measured, *law.levels) if c not in frame]:
        names = ", ".join(missing)
        problem = f"{name} needs {names} too: give {names} among the settings (--set, settings=; of a mixture --at, at=)."
        raise BayeslawError(problem, code="missing-setting")
    if infinite := [parameter for parameter in law.parameters if not np.isfinite(draws[parameter]).all()]:
        raise FitError(
            f"The draws of {infinite[0]} in {name} are not all finite, so no decision can be based on them.",
            code="draws-not-finite",
        )
    if faults := check(Runs(frame, "the settings"), law, purpose="forecast"):
        problems = dict.fromkeys(str(replace(fault, row=None, column="")) for fault in faults)  # a message has no table
        raise BayeslawError(f"{name} can't be used at these settings: {'; '.join(problems)}.", code=faults[0].code)
    row = complete(frame.head(1), law)
    return LawDraws(law, draws, {k: float(row[k].iloc[0]) for k in law.covariates if k not in free})


def setting(name: str, value: Any) -> float:
    """The value of a setting as a finite number."""
    number = as_number(value)
    if not math.isfinite(number):
        problem = f"{name} = {value!r} is not a finite number; give one value of it.{percent_hint(value)}"
        raise BayeslawError(problem, code="setting-not-a-number")
    return number


def as_number(value: Any) -> float:
    """A value as a number; nan where it is none."""
    try:
        return number(value) if isinstance(value, str) else math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan


def require_covariates(names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of settings that are not among the known ones, which are those that the laws have."""
    known = sorted({*known})
    for name in names:
        if name not in known:
            has = f"they have {', '.join(known)}" if known else "they have none that can be set"
            raise BayeslawError(f"No law here has a covariate {name!r}; {has}.{nearest(name, known)}", code="unknown-setting")


def check_sizes(sizes: pd.DataFrame, laws: Iterable[Law]) -> None:
    """Refuse sizes and tokens, in columns N and D, that a law does not describe, as those in billions are."""
    for law, name in ((law, str(column)) for law in laws for column in sizes if column in law.covariates):
        low, high = law.covariates[name].support
        if (off := sizes.loc[(sizes[name] < low) | (sizes[name] > high), name]).size:
            problem = f"{name} = {off.iloc[0]:g} lies outside what {law.name} describes, {low:g} to {high:g}"
            hint = UNIT_ASKED if off.iloc[0] < low else "give"
            raise BayeslawError(f"{problem}: {hint} the number of {law.covariates[name].unit}.", code="out-of-support")


def positive(name: str, value: float | None) -> float:
    """A limit as a positive number; inf where there is none."""
    if value is None:
        return math.inf
    number = as_number(value)
    if not 0 < number < math.inf:
        raise BayeslawError(f"{name} must be positive and finite, not {value}.", code="limit-not-positive")
    return number


def read_values(given: str | float | Sequence[float], name: str = "compute", unit: str = "FLOPs") -> Array:
    """Values (n,) above 0 from a number, a list or a range.

    Parameters
    ----------
    given : number, sequence or text
        '1e19:1e24:30' for 30 values evenly in the logarithm; '1e19,1e20' or '1T,10T' for a list.
    name, unit : str
        What the values are of, for errors.
    """
    try:
        if isinstance(given, str) and ":" in given:
            low, high, count = given.split(":")
            if not 1 <= int(count) <= MOST:
                raise BayeslawError(f"{name} {given!r} asks for {count} values; give 1 to {MOST:,}.", code="too-many-values")
            values = np.geomspace(number(low), number(high), int(count))
        else:
            values = _listed(given)
        if values.ndim > 1:  # a DataFrame
            raise ValueError
    except BayeslawError:
        raise
    except (ValueError, TypeError):
        values = np.empty(0)
    if not values.size or not (np.isfinite(values) & (values > 0)).all():
        raise BayeslawError(
            f"{name} {given!r} is not {unit} above 0, a list of them, or a range such as 1e19:1e24:30.", code=f"unreadable-{name}"
        )
    return values


def read_range(name: str, given: str | float | Sequence[float]) -> tuple[float, float, Array | None]:
    """Read '1:20' or a tuple (1, 20) as low and high; '5,10,20', another sequence or 8 as the only values allowed, too."""
    try:
        values = None
        if isinstance(given, str) and ":" in given:
            low, high = (number(part) for part in given.split(":"))
        elif isinstance(given, tuple) and len(given) == 2:
            low, high = float(given[0]), float(given[1])
        else:
            values = np.sort(_listed(given))
            low, high = float(values[0]), float(values[-1])
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ValueError
    except (ValueError, TypeError, IndexError):
        raise BayeslawError(
            f"{name} {given!r} is not a range such as 1:20, smaller end first, a list such as 5,10 or one number."
            f"{percent_hint(given)}",
            code="unreadable-range",
        ) from None
    return low, high, values


def _listed(given: str | float | Sequence[float]) -> Array:
    """Numbers (n,) from a text such as '1B,3B', a sequence or a number; True is none, such as of `replay`."""
    if isinstance(given, bool):
        raise ValueError
    return np.atleast_1d(np.asarray([number(part) for part in given.split(",")] if isinstance(given, str) else given, np.float64))


def logged(selections: Iterable[tuple[Fit | PointFit, Index]], covariate: str) -> Array:
    """The values (n,) of a covariate in the fitted rows of all fits."""
    return np.concatenate([fit.observed.covariates[covariate] for fit, _ in selections])


def outside_note(what: str, values: ArrayLike, logged: ArrayLike, runs: str = "the runs") -> list[str]:
    """Return a note if values lie outside those of the runs, else nothing.

    Parameters
    ----------
    what, runs : str
        How the note names the values and the runs.
    values, logged : arrays
        Positive ones count, and finite values.
    """
    of_runs, asked = (np.ravel(np.asarray(v, dtype=np.float64)) for v in (logged, values))
    of_runs, asked = of_runs[of_runs > 0], asked[np.isfinite(asked) & (asked > 0)]
    if not of_runs.size or not asked.size:
        return []
    low, high = float(of_runs.min()), float(of_runs.max())
    distance = max(math.log(asked.max() / high), math.log(low / asked.min()))
    return [f"{what} lies up to {distance:.1f} e-folds outside {runs} ({low:.3g} to {high:.3g})"] if distance > NOTED else []
