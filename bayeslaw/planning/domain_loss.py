"""One domain's loss under an adaptation: what a posterior says of it along tokens and replay.

Draws of a posterior's laws at settings that are fixed but for N and D: what allocation and transfer start from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, nearest
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import check, complete
from bayeslaw.forecasting.discrepancy import Discrepancy, directions
from bayeslaw.forecasting.stack import Posterior, check_pairing
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.posterior.draws import LawDraws, check_losses
from bayeslaw.posterior.fit import Fit

PLANNED = 70  # kind of random numbers: luck and noise of the planned run, errors of base losses
CHOSEN = ("D", "r", "atpp")  # what a plan chooses


@dataclass(frozen=True)
class Side:
    """Log loss of one domain under the plan, draw by draw.

    Attributes
    ----------
    name : str
        Of the domain: 'source', 'target', or as the user calls it.
    posterior : Fit, Stack or PointFit
    settings : mapping
        Covariates other than D and r, and the values of columns by which parameters vary.
    parts : tuple of LawDraws
    shift : array (S,)
        Added to log losses: luck and noise of the next run, a stated discrepancy; zeros where the promise is on the law's loss.
    shift_base : array (S,)
        The same of the base checkpoint's loss.
    """

    name: str
    posterior: Posterior | PointFit
    settings: Mapping[str, Any]
    parts: tuple[LawDraws, ...]
    shift: Array
    shift_base: Array

    @property
    def size(self) -> int:
        return self.shift.size

    @property
    def unit(self) -> str:
        """What its losses are in."""
        return self.posterior.unit

    def cube(self, draws: Index, x: Array, r: Array) -> Array:
        return self._logs(draws, np.exp(x), r[:, None], (r.size, x.size))

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        return self._logs(draws, np.exp(x), r, ())

    def base(self, draws: Index) -> Array:
        """Log loss of the base checkpoint by a law that is finite at D = 0, (s,)."""
        logs = self._logs(draws, np.zeros(draws.size), 0.5, ())
        return logs - self.shift[draws] + self.shift_base[draws]

    def _logs(self, draws: Index, tokens: Any, r: Any, behind: tuple[int, ...]) -> Array:
        """Log losses (s, *behind): of every draw at all tokens and replay shares, or of each at its own."""
        axes, shape = len(behind), (draws.size, *behind)
        if len(self.parts) == 1:
            loss = np.broadcast_to(self.parts[0].loss({"D": tokens, "r": r}, draws, axes), shape)
        else:
            loss, ends = np.empty(shape), np.cumsum([p.size for p in self.parts])
            for part, end in zip(self.parts, ends, strict=True):
                here = np.flatnonzero((draws < end) & (draws >= end - part.size))
                some, shares = (v if axes or not np.ndim(v) else v[here] for v in (tokens, r))
                loss[here] = part.loss({"D": some, "r": shares}, draws[here] - (end - part.size), axes)
        advice = "Keep the plan away from there (limits of ATPP and replay)."
        check_losses(loss, f"{self.posterior_name} ({self.name})", {"D": tokens, "r": r}, advice)
        return np.log(loss) + self.shift[draws][(slice(None), *[None] * axes)]

    @property
    def posterior_name(self) -> str:
        return self.posterior.law.name if isinstance(self.posterior, PointFit) else self.posterior.name

    @property
    def finite_at_base(self) -> bool:
        """Whether the law is finite at D = 0."""
        return all("D" in p.law.covariates and p.law.covariates["D"].support[0] == 0 for p in self.parts)


def members(posterior: Posterior | PointFit) -> list[tuple[Fit | PointFit, dict[str, Array]]]:
    """The fits of a posterior and those of their draws that count."""
    if isinstance(posterior, PointFit):
        return [(posterior, posterior.draws)]
    return [(fit, {k: v[chosen] for k, v in fit.draws.items()}) for fit, chosen in posterior.shares]


def describe(
    name: str, posterior: Posterior | PointFit, settings: Mapping[str, Any], levels: Mapping[str, str], corners: pd.DataFrame
) -> Side:
    """The loss of a domain by the law itself, its settings checked at the corners of where the plan may lie.

    Parameters
    ----------
    settings : mapping
        Covariates of the plan; those that the law does not know are left aside.
    levels : mapping of column to value
        Values of columns by which parameters vary.
    corners : DataFrame
        Columns D and r.
    """
    parts, used = [], dict[str, Any]()
    for fit, draws in members(posterior):
        law = fit.law
        used |= {k: settings[k] for k in law.measured if k in settings} | {
            c: levels[c] for c in (*law.levels, fit.observed.group_column) if c in levels
        }
        if missing := [c for c in (*law.measured, *law.levels) if c not in used and c not in ("D", "r")]:
            raise BayeslawError(f"{law.name} ({name}) needs {', '.join(missing)}; give them (--set {missing[0]}=…).")
        if "D" not in law.covariates:
            raise BayeslawError(f"{law.name} ({name}) knows no tokens D: there is nothing to plan with it.")
        for parameter in law.parameters:
            if not np.isfinite(draws[parameter]).all():
                raise FitError(f"The draws of {parameter} in {law.name} ({name}) are not all finite: no plan can be made of them.")
        frame = corners.assign(**used)
        if faults := check(Runs(frame, "the plan"), law, to_fit=False):
            said = dict.fromkeys(
                f"{f.problem}{': ' + f.suggestion if f.suggestion and not f.problem.endswith('?') else ''}" for f in faults
            )
            raise BayeslawError(f"{law.name} ({name}) can't be planned with: {'; '.join(said)}.")
        row = complete(frame.head(1), law)
        constants = {k: float(row[k].iloc[0]) for k in law.covariates if k not in ("D", "r")}
        parts.append(LawDraws(law, draws, constants))
    size = sum(p.size for p in parts)
    return Side(name, posterior, used, tuple(parts), np.zeros(size), np.zeros(size))


def with_next_run(sides: Sequence[Side], seed: int, discrepancy: float | None, *, run: bool) -> list[Side]:
    """The sides with luck and noise of the next run (unless `run` is False) and with a stated discrepancy.

    Sides of one posterior share the luck of the run, as they are losses of one model; those of different posteriors don't.
    """
    known: list[Any] = []
    made = []
    for number, side in enumerate(sides):
        which = next((i for i, p in enumerate(known) if p is side.posterior), len(known))
        if which == len(known):
            known.append(side.posterior)
        shifts = [
            _shift(fit, draws, part, side.settings, (seed, PLANNED, which), number, discrepancy, run=run)
            for (fit, draws), part in zip(members(side.posterior), side.parts, strict=True)
        ]
        shift, base = (np.concatenate([s[i] for s in shifts]) for i in (0, 1))
        made.append(replace(side, shift=shift, shift_base=base))
    return made


def _shift(
    fit: Fit | PointFit,
    draws: Mapping[str, Array],
    part: LawDraws,
    settings: Mapping[str, Any],
    entropy: tuple[int, ...],
    number: int,
    sd: float | None,
    *,
    run: bool,
) -> tuple[Array, Array]:
    """What is added to the log losses of the planned run and of its base checkpoint."""
    zero = np.zeros(part.size)
    if isinstance(fit, PointFit):
        return zero, zero
    entropy = (int(fit.info["seed"]), *entropy)
    added = np.stack([zero, zero])
    if run:
        code = np.array([0, 1])
        rows = pd.DataFrame(dict(settings), index=[0])
        group = np.repeat(fit.observed.groups_of(rows), 2)
        added = fit.noise.sample(draws, code, np.array([2, 3]) + 2 * number, entropy, checkpoint=np.zeros(2, np.int64), group=group)
    if sd:
        if "D" in directions(part.law):
            raise BayeslawError(
                f"A discrepancy of {part.law.name} would change with the tokens planned; a plan knows only one that is the same "
                "along the adaptation, as that of laws with ptpp is."
            )
        error = Discrepancy(part.law, part.size, (*entropy, number)).at(
            {k: np.array([v]) for k, v in part.constants.items()} | {"D": np.ones(1)}
        )
        added = added + sd * error
    return added[0], added[1]


def check_sides(sides: Sequence[Side]) -> None:
    """Refuse sides whose draws can't be paired by their numbers."""
    shown = ", ".join(f"{name} {size:,}" for name, size in {s.name: s.size for s in sides}.items())
    check_pairing(
        (s.posterior for s in sides),
        (s.size for s in sides),
        f"The draws of the fits are unpaired: {shown}. A plan takes each draw of one with one of the other: fit both with the "
        "same number of draws and chains, or both domains in one fit (--by E=domain).",
        " Plan with a stack and a fit, or with one stack of both domains.",
    )


def known_names(sides: Sequence[Posterior | PointFit]) -> set[str]:
    """Covariates of all the laws, and columns by which their parameters vary."""
    return {n for p in sides for fit, _ in members(p) for n in (*fit.law.measured, *fit.law.levels)}


def check_settings(settings: Mapping[str, Any], posteriors: Sequence[Posterior | PointFit]) -> dict[str, float]:
    """Settings of the plan as numbers.

    Raises
    ------
    BayeslawError
        If a name is unknown or chosen by the plan itself, or a value is no finite number.
    """
    known, made = known_names(posteriors), {}
    for name, value in settings.items():
        if name in CHOSEN:
            raise BayeslawError(
                f"{name} is what the plan chooses; limit it instead (--atpp 1:20, --replay 0.1:0.6 or --replay 0.25)."
            )
        if name not in known | {"N"}:
            raise BayeslawError(
                f"No law here has a covariate {name!r}; they have {', '.join(sorted(known))}.{nearest(name, known)}"
            )
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise BayeslawError(f"{name} = {value!r} is not a number; a plan is made for one value of it.") from None
        if not math.isfinite(number) or (name in ("N", "ptpp") and number <= 0):
            raise BayeslawError(f"{name} must be positive and finite, not {value}.")
        made[name] = number
    return made


SCRATCH = "scratch"


def stage_names(law: Law) -> list[str]:
    """Covariates that tell two stages apart: 0 or 1."""
    return [n for n, c in law.measured.items() if c.support == (0.0, 1.0) and c.at_least == 2 and n != "r"]


def stages(
    posterior: Posterior | PointFit, settings: Mapping[str, Any], stage: str | None = None, *, free: tuple[str, ...] = ("N", "D")
) -> list[LawDraws]:
    """The laws of a posterior at settings.

    Parameters
    ----------
    settings : mapping
        Covariates other than N and D, and values of columns by which parameters vary.
    stage : str, optional
        The name of a 0/1 covariate, which is then 1; 'scratch' or None for 0.

    Raises
    ------
    BayeslawError
        If a covariate is missing or unknown, a value lies outside its support, or there is no such stage.
    """
    made = []
    for fit, draws in members(posterior):
        law = fit.law
        if missing := [c for c in free if c not in law.covariates]:
            raise BayeslawError(f"{law.name} knows no {missing[0]}: it can't be asked this.")
        known, levels = {c for c in law.measured if c not in free}, law.levels
        given: dict[str, Any] = dict.fromkeys(stage_names(law), 0.0)
        if stage not in (None, SCRATCH):
            if stage not in given:
                names = ", ".join([*given, SCRATCH]) if given else "one only"
                raise BayeslawError(
                    f"{law.name} has no stage {stage!r}; its stages: {names}.{nearest(str(stage), [*given, SCRATCH])}"
                )
            given[str(stage)] = 1.0
        for name, value in settings.items():
            if name not in known | set(levels):
                raise BayeslawError(
                    f"{law.name} takes no {name!r} here; it takes {', '.join(sorted(known | set(levels))) or 'nothing'}."
                    f"{nearest(name, known)}"
                )
            given[name] = value if name in levels else _number(name, value)
        if missing := sorted((known | set(levels)) - given.keys()):
            raise BayeslawError(f"{law.name} needs {', '.join(missing)} too (--set {missing[0]}=…).")
        for column, values in levels.items():
            if str(given[column]) not in values:
                raise BayeslawError(
                    f"{column} {given[column]!r} is not among {', '.join(values)}.{nearest(str(given[column]), values)}"
                )
        for name in known:
            low, high = law.covariates[name].support
            if not low <= given[name] <= high:
                hint = ": is it a percentage? Divide by 100" if name == "r" and 1 < given[name] <= 100 else ""
                raise BayeslawError(f"{name} {given[name]:g} is outside [{low:g}, {high:g}]{hint}.")
        for parameter in law.parameters:
            if not np.isfinite(draws[parameter]).all():
                raise FitError(f"The draws of {parameter} in {law.name} are not all finite.")
        row = complete(pd.DataFrame([given | {"N": 1e9, "D": 1e9}]), law)
        made.append(LawDraws(law, draws, {k: float(row[k].iloc[0]) for k in law.covariates if k not in free}))
    return made


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BayeslawError(f"{name} = {value!r} is not a number.")
    return number


def check_passed(posterior: Posterior | PointFit, force: bool) -> None:
    """Refuse a fit whose checks failed, unless forced."""
    if not isinstance(posterior, PointFit) and not posterior.passed and not force:
        raise FitError(
            f"The fit's checks failed ({posterior.failures}): its intervals can't be trusted. "
            "Sample longer, or force it and have every row marked."
        )
