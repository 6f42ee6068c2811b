"""The loss of one domain along the tokens and the replay of an adaptation, draw by draw.

A posterior gives draws of a law's parameters; with all covariates but D and r fixed, each draw is a curve of the loss. The noise of
the next run and errors of the law shift the log of that curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.core.text import number
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import check, complete
from bayeslaw.forecasting.stack import Posterior, check_pairing
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.planning.search import behind
from bayeslaw.posterior.diagnostics import distrusted
from bayeslaw.posterior.draws import JoinedDraws, LawDraws, check_values
from bayeslaw.posterior.fit import Fit

PLANNED = 70  # kind of random numbers: effects and noise of the planned run, errors of base losses
NOTED = 0.1  # e-folds outside the runs from which a note is written


@dataclass(frozen=True)
class DomainLoss:
    """Log loss of one domain under the plan, draw by draw.

    `shift` (S,) is added to log losses, `shift_base` to the log of the base loss: effects and noise of the next run, and
    errors of the law, stated or learnt; zeros for the law's expected loss.
    """

    name: str  # 'source', 'target', or as the user calls the domain
    posterior: Posterior | PointFit
    settings: Mapping[str, Any]  # covariates other than D and r, and the values of columns by which parameters are pooled
    member_draws: tuple[LawDraws, ...]  # of each law of the posterior; a stack has several
    shift: Array
    shift_base: Array
    shared: str = ""  # how the effects of the next run and of the base checkpoint are related, as the end of a sentence
    extrapolated: bool = False  # whether `shift` has an error that the law has outside its runs

    @property
    def size(self) -> int:
        """Number of draws."""
        return self.shift.size

    @property
    def unit(self) -> str:
        """The unit of its losses."""
        return self.posterior.unit

    @property
    def finite_at_base(self) -> bool:
        """Whether the law is finite at D = 0."""
        return all("D" in m.law.covariates and m.law.covariates["D"].support[0] == 0 for m in self.member_draws)

    def values(self, draws: Index, x: Array, r: float | Array, axes: int) -> Array:
        """Log losses, as a `bayeslaw.planning.search.Quantity`."""
        return self._log_losses(draws, np.exp(x), r, axes)

    def at_base(self, draws: Index) -> Array:
        """Log losses (s,) of the base checkpoint by a law that is finite at D = 0."""
        logs = self._log_losses(draws, np.zeros(draws.size), 0.5, 0)
        return logs - self.shift[draws] + self.shift_base[draws]

    def starting_at(self, base: Array) -> DomainLoss:
        """The same loss if laws that have the base loss (S,) as a covariate start at it, draw by draw; others don't see it."""
        started = (
            replace(member, drawn={BASE_LOSS: base[here]}) if BASE_LOSS in member.law.covariates else member
            for member, here, _ in JoinedDraws(self.member_draws).parts()
        )
        return replace(self, member_draws=tuple(started))

    def _log_losses(self, draws: Index, tokens: ArrayLike, r: ArrayLike, axes: int) -> Array:
        loss = JoinedDraws(self.member_draws).outcome({"D": tokens, "r": r}, draws, axes)
        advice = "Keep the plan away from there (limits of ATPP and replay)."
        check_values(loss, self.member_draws[0].law, {"D": tokens, "r": r}, advice, name=f"{self.posterior.name} ({self.name})")
        return np.log(loss) + behind(self.shift[draws], axes)


def domain_loss(
    name: str, posterior: Posterior | PointFit, settings: Mapping[str, Any], levels: Mapping[str, str], corners: pd.DataFrame
) -> DomainLoss:
    """The loss of a domain by the law alone, its settings checked at the corners of where the plan may lie.

    Parameters
    ----------
    name, posterior
        As in `DomainLoss`.
    settings, levels : mapping
        Covariates of the plan and values of columns by which parameters are pooled; names that the law does not have are ignored.
    corners : DataFrame
        Columns D and r.
    """
    member_draws, used = [], dict[str, Any]()
    for fit, draws in members(posterior):
        law = fit.law
        used |= {k: settings[k] for k in law.measured if k in settings}
        used |= {c: levels[c] for c in (*law.levels, fit.observed.group_column) if c in levels}
        member_draws.append(at_settings(f"{law.name} ({name})", law, draws, corners.assign(**used), ("D", "r")))
    zero = np.zeros(JoinedDraws(member_draws).size)
    return DomainLoss(name, posterior, used, tuple(member_draws), zero, zero)


def members(posterior: Posterior | PointFit) -> list[tuple[Fit | PointFit, dict[str, Array]]]:
    """The fits of a posterior, each with its draws that a forecast takes."""
    return [(fit, fit.draws_of(chosen)) for fit, chosen in posterior.selections]


def at_settings(name: str, law: Law, draws: Mapping[str, Array], frame: pd.DataFrame, free: tuple[str, ...]) -> LawDraws:
    """A law's draws at the settings of a table, in which only the free covariates differ.

    Parameters
    ----------
    name : str
        Of the law, for errors.
    law, draws
        As in `LawDraws`.
    frame : DataFrame
        Covariates, and columns by which parameters are pooled.
    free : tuple of str
        Covariates that are given with each evaluation.
    """
    if missing := [c for c in (*law.measured, *law.levels) if c not in frame]:
        raise BayeslawError(f"{name} needs {', '.join(missing)} too (--set {missing[0]}=…).", code="missing-setting")
    if infinite := [parameter for parameter in law.parameters if not np.isfinite(draws[parameter]).all()]:
        raise FitError(
            f"The draws of {infinite[0]} in {name} are not all finite, so no decision can be based on them.",
            code="draws-not-finite",
        )
    if faults := check(Runs(frame, "the settings"), law, purpose="forecast"):
        problems = dict.fromkeys(f"{f.problem}: {f.suggestion}" if f.suggestion else f.problem for f in faults)
        raise BayeslawError(f"{name} can't be used at these settings: {'; '.join(problems)}.", code=faults[0].code)
    row = complete(frame.head(1), law)
    return LawDraws(law, draws, {k: float(row[k].iloc[0]) for k in law.covariates if k not in free})


def as_number(value: Any) -> float:
    """A value as a number; nan where it is none."""
    try:
        return number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return math.nan


def setting(name: str, value: Any) -> float:
    """The value of a setting as a finite number."""
    number = as_number(value)
    if not math.isfinite(number):
        raise BayeslawError(f"{name} = {value!r} is not a finite number; give one value of it.", code="setting-not-a-number")
    return number


def check_mapping(settings: object) -> None:
    """Refuse tables where a mapping is asked for, whose values would be crossed."""
    if not isinstance(settings, Mapping):
        given = type(settings).__name__
        problem = f"Settings are a mapping, such as {{'N': 1e9, 'D': '1e9:1e11:3'}}, whose values are crossed, not a {given}."
        raise BayeslawError(problem, code="not-a-mapping")


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


def check_passed(posterior: Posterior | PointFit, force: bool) -> None:
    """Refuse a fit whose sampling failed, unless forced."""
    if not isinstance(posterior, PointFit) and not posterior.passed and not force:
        raise distrusted(f"Sampling of {posterior.name}", posterior.checks)


def check_paired(losses: Sequence[DomainLoss]) -> None:
    """Refuse losses whose draws can't be paired by their numbers."""
    check_paired_sizes({loss.name: loss.size for loss in losses}, "A plan")


def check_paired_sizes(sizes: Mapping[str, int], decision: str = "A mixture") -> None:
    """Refuse different numbers of draws, by the name of the loss."""
    shown = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    check_pairing(
        sizes.values(),
        f"The draws of the fits are unpaired: {shown}. {decision} takes each draw of one with one of the other: fit both with the "
        "same number of draws and chains, or both domains in one fit (--by E=domain).",
    )
