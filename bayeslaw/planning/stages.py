"""Draws of a posterior's laws at settings that are fixed but for N and D: what allocation and transfer start from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, FitError, nearest
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.planning.domain_loss import Drawn, members
from bayeslaw.planning.sweep import Array

SCRATCH = "scratch"


class Stage(Drawn):
    """Draws of one law as a function of N and D."""

    def scope(self, n: Any, d: Any, rows: Any = slice(None)) -> dict[str, Any]:
        """Parameters as columns (S, 1), covariates as given."""
        scope: dict[str, Any] = {k: self.draws[k][rows, None] for k in self.law.parameters}
        return self.law.with_let(scope | dict(self.constants) | {"N": n, "D": d})

    def loss(self, n: Any, d: Any, rows: Any = slice(None)) -> Array:
        """Losses (S, k) at N and D, arrays that fit (S, k)."""
        with np.errstate(all="ignore"):
            loss = np.asarray(self.law.loss.evaluate(self.scope(n, d, rows)), dtype=np.float64)
        return np.broadcast_to(loss, np.broadcast_shapes(loss.shape, np.shape(n), np.shape(d)))


def stage_names(law: Law) -> list[str]:
    """Covariates that tell two stages apart: 0 or 1."""
    return [n for n, c in law.measured.items() if c.support == (0.0, 1.0) and c.at_least == 2 and n != "r"]


def stages(
    posterior: Posterior | PointFit, settings: Mapping[str, Any], stage: str | None = None, *, free: tuple[str, ...] = ("N", "D")
) -> list[Stage]:
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
        made.append(Stage(law, draws, {k: float(row[k].iloc[0]) for k in law.covariates if k not in free}))
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
