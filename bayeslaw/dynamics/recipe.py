"""How a model would be trained: a pre-training, an adaptation, and what of them may be chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.data.schedule_text import parse_schedule
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.posterior.draws import LawDraws, check_losses
from bayeslaw.schedules.areas import POWER, Point, trace
from bayeslaw.schedules.changes import nodes
from bayeslaw.schedules.schedule import MEMORY, Schedule

NOTHING = 1e-9  # forward area of a pre-training that never was, where laws take logarithms
AREAS = ("S1", "S2", "S2w")
CHOICES = ("peak", "steps", "potential", "r")
"""What may be chosen: highest rate and steps of the adaptation, last rate of pre-training over its highest (Wang et al., 3.3), and
replay share."""


@dataclass(frozen=True)
class Recipe:
    """A pre-training that is done or planned, and the adaptation after it.

    Attributes
    ----------
    start : Point or str
        Where the adaptation begins: a point of a logged run (`Curves.at`), or the schedule of a pre-training as text, such as
        'wsd:steps=40000,peak=2e-4,final=0'.
    adapt : str
        The adaptation's schedule as text, such as 'cosine:steps=10000,peak=2e-4,warmup=100'.
    settings : mapping
        Other covariates of the laws, such as N and r.
    memory, power, weight : float
        As in `schedules.areas`; they must be those of the curves that were fitted. `weight` is of the adaptation's steps.
    """

    start: Point | str
    adapt: str
    settings: Mapping[str, float] = field(default_factory=dict)
    memory: float = MEMORY
    power: float = POWER
    weight: float = 1.0

    @cached_property
    def point(self) -> Point:
        """Where the adaptation begins."""
        if isinstance(self.start, Point):
            return self.start
        return _after(self.start, self.memory, self.power)

    @cached_property
    def schedule(self) -> Schedule:
        """The adaptation's rates."""
        return parse_schedule(self.adapt)

    def varied(self, **choices: float) -> Recipe:
        """The same recipe with other choices, each one of `CHOICES`.

        Raises
        ------
        BayeslawError
            If a choice is unknown, or the potential of a pre-training that is done is to be chosen.
        """
        made = self
        for name, value in choices.items():
            if name not in CHOICES:
                raise BayeslawError(f"{name!r} can't be chosen; {', '.join(CHOICES)} can.{nearest(name, CHOICES)}")
            match name:
                case "r":
                    made = replace(made, settings={**made.settings, "r": float(value)})
                case "potential":
                    if isinstance(made.start, Point):
                        raise BayeslawError(
                            "The potential of a pre-training that is done can't be chosen: give the pre-training as a schedule, "
                            "such as wsd:steps=40000,peak=2e-4,final=0."
                        )
                    made = replace(made, start=with_option(made.start, "final", value))
                case "steps":
                    made = replace(made, adapt=with_option(made.adapt, "steps", round(value)))
                case "peak":
                    made = replace(made, adapt=with_option(made.adapt, "peak", value))
        return made

    def with_pretraining(self, steps: int) -> Recipe:
        """The same recipe after a pre-training of another length."""
        if isinstance(self.start, Point):
            raise BayeslawError("The length of a pre-training that is done can't be chosen: give the pre-training as a schedule.")
        return replace(self, start=with_option(self.start, "steps", steps))

    def rows(self, steps: Sequence[int] | NDArray[np.int64] | None = None) -> pd.DataFrame:
        """Settings after some steps of the adaptation, 0 being before its first; only its last step unless told."""
        at = np.asarray([len(self.schedule)] if steps is None else steps, dtype=np.int64)
        table, _ = trace(self.schedule, at, self.point, phase="adapt", memory=self.memory, power=self.power, weight=self.weight)
        return known(table.assign(run="planned", **self.settings))

    def pretraining(self, steps: Sequence[int] | NDArray[np.int64], number: int = 0) -> pd.DataFrame:
        """Settings after some steps of the pre-training, with so many nodes of the changes of its rate."""
        if isinstance(self.start, Point):
            raise BayeslawError("This pre-training is done; its rows are those of its curve.")
        at = np.asarray(steps, dtype=np.int64)
        schedule = parse_schedule(self.start)
        table, _ = trace(schedule, at, memory=self.memory, power=self.power)
        if number:
            table = table.join(nodes(schedule, at, number=number))
        return known(table.assign(run="planned pre-training", **self.settings))

    def without_shift(self, steps: Sequence[int] | NDArray[np.int64]) -> pd.DataFrame:
        """The hidden pre-training curve: the adaptation's rates, on the data of pre-training (Wang et al. 2025, section 2.2)."""
        point = self.point
        if point.pretrain is None:
            raise BayeslawError("The pre-training of an open model is unknown, and so is how it would have gone on.")
        if point.adapt is not None:
            raise BayeslawError("The hidden pre-training curve goes on from a pre-training, not from an adaptation.")
        at = np.asarray(steps, dtype=np.int64)
        table, _ = trace(self.schedule, at, point, memory=self.memory, power=self.power, weight=self.weight)
        return known(table.assign(run="hidden, pre-training data", **self.settings))

    def from_scratch(self, steps: Sequence[int] | NDArray[np.int64]) -> pd.DataFrame:
        """The other hidden curve: both phases' rates, all of it on the data of the adaptation."""
        if isinstance(self.start, Point):
            raise BayeslawError("The curve of a model trained on the adaptation's data alone needs the pre-training's schedule.")
        first = parse_schedule(self.start)
        at = np.asarray(steps, dtype=np.int64)
        whole = Schedule(np.concatenate([first.rates, self.schedule.rates]), "from scratch")
        table, _ = trace(whole, at + len(first), memory=self.memory, power=self.power)
        names = {f"{area}_{one}": f"{area}_{other}" for area in AREAS for one, other in (("pt", "cpt"), ("cpt", "pt"))}
        swapped = table.rename(columns=names).assign(step=at, S1_pt=NOTHING, run="hidden, adaptation data", **self.settings)
        return known(swapped)


def with_option(text: str, name: str, value: float) -> str:
    """A schedule's text with another value of an option; of several joined phases only the end of the last can be changed."""
    before, plus, last = text.rpartition("+")
    if plus and name != "final":
        raise BayeslawError(f"{text!r} has several phases: their {name} can't be chosen together. Give one phase.")
    found, count = re.subn(rf"(?<=[:,]){name}=[^,]+", f"{name}={value!r}", last)
    if not count:
        found = f"{last}{',' if ':' in last else ':'}{name}={value!r}"
    return before + plus + found


def known(table: pd.DataFrame) -> pd.DataFrame:
    """Rows without columns that nothing is known of: areas of an unknown pre-training."""
    return table.drop(columns=[c for c in table if table[c].dtype.kind == "f" and table[c].isna().all()])


def losses(posterior: Posterior, table: pd.DataFrame, draws: NDArray[np.int64] | None = None) -> Array:
    """Draws (n, S) of a posterior's loss at settings, or some of its draws: for searches, whose result is checked afterwards."""
    parts = []
    for fit, chosen in posterior.shares:
        law, frame = fit.law, complete(table, fit.law)
        if missing := [c for c in law.covariates if c not in frame]:
            unknown = " (of an unknown pre-training)" if {"S1_pt", "S2_pt"} & set(missing) else ""
            raise BayeslawError(f"{law.name} needs {', '.join(missing)}{unknown}: the recipe does not tell it.")
        at = {c: frame[c].to_numpy(dtype=np.float64) for c in law.covariates}
        parts.append((fit, chosen, at))
    if len(parts) == 1 and draws is not None:
        fit, chosen, at = parts[0]
        parts, draws = [(fit, chosen[draws], at)], None
    made = [LawDraws(fit.law, fit.draws).loss(at, chosen, axes=1) for fit, chosen, at in parts]
    loss = np.concatenate(made).T if draws is None else np.concatenate(made)[draws].T
    check_losses(loss, posterior.name, {str(c): table[c].to_numpy()[:, None] for c in table.select_dtypes("float")})
    return loss


@lru_cache(maxsize=64)
def _after(text: str, memory: float, power: float) -> Point:
    """Where a pre-training with a schedule leaves a model."""
    return trace(parse_schedule(text), np.zeros(0, dtype=np.int64), memory=memory, power=power)[1]
