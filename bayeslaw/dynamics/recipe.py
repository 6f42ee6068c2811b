"""Training recipes: a pre-training, an adaptation after it, and the choices that can be optimised."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, one_number
from bayeslaw.core.errors import BayeslawError, as_mapping, nearest, shown, whole_number
from bayeslaw.data.schedule_text import logged_files, parse_schedule, phases_of
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.stack import Posterior, require_losses
from bayeslaw.planning.arguments import require_covariates
from bayeslaw.posterior.draws import LawDraws, check_values
from bayeslaw.schedules.areas import NO_AREA, POWER, Point, trace
from bayeslaw.schedules.changes import nodes
from bayeslaw.schedules.schedule import MEMORY, MOST_STEPS, Schedule

AREAS = ("S1", "S2", "S2w")
# Highest rate and steps of the adaptation, loss potential (last rate of pre-training over its highest), and replay share.
CHOICES = ("peak", "steps", "potential", "r")
# What `trace` and `nodes` compute from the schedules, and of this what is unknown of the pre-training of an open model.
COMPUTED = re.compile(r"step|lr|lr_peak|S(1|2|2w)(_pt|_cpt)?|(fall|rate|since)_\d+")
BEFORE = re.compile(r"S(1|2|2w)(_pt)?")


@dataclass(frozen=True)
class Recipe:
    """A pre-training, finished or planned, and the adaptation after it.

    Attributes
    ----------
    start : Point or str
        Where the adaptation begins: a point of a logged run (`Curves.at`), or the schedule of a planned pre-training as text.
    adapt : str
        The schedule of the adaptation as text.
    settings : mapping
        Other covariates of the laws, such as N and r. Those that the schedules determine, such as S1_cpt, are refused
        ('computed-setting'); of an open model the areas of its pre-training may be given.
    memory, power, weight : float
        As in `schedules.areas`, with the values of the fitted curves. `weight` applies to the steps of the adaptation.

    Examples
    --------
    >>> recipe = bayeslaw.dynamics.Recipe("wsd:steps=40000,peak=2e-4,final=0", "cosine:steps=10000,peak=2e-4,warmup=100")
    >>> recipe.rows([0, 5000, 10000])["S1_cpt"].round(2).tolist()
    [0.0, 0.83, 1.1]
    """

    start: Point | str
    adapt: str
    settings: Mapping[str, float] = field(default_factory=dict)
    memory: float = MEMORY
    power: float = POWER
    weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", as_mapping(self.settings, "{'N': 1e9}"))
        open_model = isinstance(self.start, Point) and self.start.pretrain is None
        computed = [name for name in self.settings if COMPUTED.fullmatch(name) and not (open_model and BEFORE.fullmatch(name))]
        if computed:
            raise BayeslawError(
                f"{computed[0]} follows from the recipe's schedules: leave it out of the settings (--set, settings=), or change "
                "the schedules.",
                code="computed-setting",
            )

    @cached_property
    def point(self) -> Point:
        """The point at which the adaptation begins."""
        if isinstance(self.start, Point):
            return self.start
        stats = [path.stat() for path in logged_files(self.start) if path.exists()]
        return _end_of(self.start, self.memory, self.power, tuple((stat.st_mtime_ns, stat.st_size) for stat in stats))

    @cached_property
    def schedule(self) -> Schedule:
        """The learning rates of the adaptation."""
        return parse_schedule(self.adapt)

    def varied(self, **choices: float) -> Recipe:
        """Return the recipe with another peak, steps, potential or r; the potential of a finished pre-training can't be chosen."""
        recipe = self
        for name, value in choices.items():
            check_choice(name)
            one_number(name, value, "1000" if name == "steps" else "0.1")
            match name:
                case "r":
                    recipe = replace(recipe, settings={**recipe.settings, "r": float(value)})
                case "potential":
                    recipe = replace(recipe, start=_with_potential(recipe._planned("loss potential"), float(value)))
                case "steps":
                    recipe = replace(recipe, adapt=with_option(recipe.adapt, "steps", round(value)))
                case "peak":
                    recipe = replace(recipe, adapt=with_option(recipe.adapt, "peak", float(value)))
        return recipe

    def with_pretraining(self, steps: int) -> Recipe:
        """Return the same recipe after a pre-training of another length, of which several phases have the shares that they had."""
        steps = whole_number("steps", steps, 1, MOST_STEPS)
        phases = phases_of(self._planned("length"))
        lengths = np.array([len(parse_schedule(phase)) for phase in phases])
        shares = np.maximum(np.round(steps * lengths / lengths.sum()).astype(np.int64), 1)
        return replace(self, start=" + ".join(with_option(p, "steps", n) for p, n in zip(phases, shares.tolist(), strict=True)))

    def _planned(self, needed: str) -> str:
        """Return the schedule of a planned pre-training; refuse a finished one, for which `needed` is not known or fixed."""
        if isinstance(self.start, Point):
            raise BayeslawError(
                f"The {needed} of a finished pre-training is fixed: give the pre-training as a schedule, such as "
                "wsd:steps=40000,peak=2e-4,final=0.",
                code="pretraining-done",
            )
        return self.start

    def rows(self, steps: Sequence[int] | NDArray[np.int64] | None = None) -> pd.DataFrame:
        """Return the settings after some steps of the adaptation, by default after its last; 0 is before its first step."""
        at = len(self.schedule) if steps is None else steps
        table, _ = trace(self.schedule, at, self.point, phase="adapt", memory=self.memory, power=self.power, weight=self.weight)
        return self._with_settings(table, "planned")

    def pretraining(self, steps: Sequence[int] | NDArray[np.int64], number: int = 0) -> pd.DataFrame:
        """Return the settings after some steps of the pre-training, with `number` nodes of the changes of its rate."""
        schedule = parse_schedule(self._planned("schedule"))
        table, _ = trace(schedule, steps, memory=self.memory, power=self.power)
        if number:
            table = table.join(nodes(schedule, steps, number=number))
        return self._with_settings(table, "planned pre-training")

    def without_shift(self, steps: Sequence[int] | NDArray[np.int64]) -> pd.DataFrame:
        """Return the hidden pre-training curve: the adaptation's rates on the pre-training data (Wang et al. 2025, section 2.2)."""
        point = self.point
        if point.pretrain is None or point.adapt is not None:
            start = "an open model" if point.pretrain is None else "an adaptation"
            raise BayeslawError(
                f"This recipe starts from {start}: give one that starts from a pre-training.", code="no-pretraining"
            )
        table, _ = trace(self.schedule, steps, point, memory=self.memory, power=self.power, weight=self.weight)
        return self._with_settings(table, "hidden, pre-training data")

    def from_scratch(self, steps: Sequence[int] | NDArray[np.int64]) -> pd.DataFrame:
        """Return the other hidden curve: the rates of both phases, all on the data of the adaptation."""
        self._planned("schedule")
        table, _ = trace(self.schedule, steps, self.point, memory=self.memory, power=self.power, weight=self.weight)
        names = {f"{area}_{phase}": f"{area}_{other}" for area in AREAS for phase, other in (("pt", "cpt"), ("cpt", "pt"))}
        return self._with_settings(table.rename(columns=names).assign(S1_pt=NO_AREA), "hidden, adaptation data")

    def _with_settings(self, table: pd.DataFrame, run: str) -> pd.DataFrame:
        """Return a table with the other covariates, without those that are unknown, such as areas of an open model."""
        return table.assign(run=run, **self.settings).dropna(axis=1, how="all")


def require_recipe(given: object, posteriors: Sequence[Posterior]) -> None:
    """Refuse what is no `Recipe`, such as the text of a schedule, and settings that no law of the fits has."""
    if not isinstance(given, Recipe):
        example = "bayeslaw.dynamics.Recipe('wsd:steps=40000,peak=2e-4', 'cosine:steps=10000,peak=2e-4')"
        raise BayeslawError(f"A recipe is a pre-training and an adaptation, {example}, not {shown(given)}.", code="not-a-recipe")
    fits = [fit for posterior in posteriors for fit, _ in posterior.selections]
    known = {name for fit in fits for name in (*fit.law.measured, *fit.law.levels, fit.observed.group_column) if name}
    taken = {name for name in known if COMPUTED.fullmatch(name)}
    require_covariates([name for name in given.settings if name not in taken], known - taken)


def check_choice(name: str) -> None:
    """Refuse a name that is not in `CHOICES`."""
    if name not in CHOICES:
        raise BayeslawError(f"{name!r} can't be chosen; {', '.join(CHOICES)} can.{nearest(name, CHOICES)}", code="unknown-choice")


def with_option(text: str, name: str, value: float) -> str:
    """Return the text of a schedule with another value of an option.

    Parameters
    ----------
    text : str
        A schedule, such as 'cosine:steps=10000,peak=2e-4'. Of several joined phases only `final`, that of the last, can be changed.
    name, value : str, float
    """
    *before, last = phases_of(text)
    if before and name != "final":
        raise BayeslawError(
            f"{text!r} has several phases, whose {name} can't be chosen together: give a single phase.", code="several-phases"
        )
    changed, count = re.subn(rf"([:,])\s*{name}\s*=[^,]+", rf"\g<1>{name}={value!r}", last)
    if not count:
        changed = f"{last}{',' if ':' in last else ':'}{name}={value!r}"
    return " + ".join([*before, changed])


def _with_potential(text: str, value: float) -> str:
    """Return the text of a schedule whose last rate is this share of its highest, which an earlier phase may have."""
    *before, last = phases_of(text)
    share = parse_schedule(text).peak / parse_schedule(last).peak if before else 1.0
    return with_option(text, "final", value * share)


def losses(posterior: Posterior, table: pd.DataFrame, draws: NDArray[np.int64] | None = None) -> Array:
    """Return draws (n, S) of the expected loss at settings, without the checks that a forecast makes.

    Parameters
    ----------
    posterior, table : Fit or Stack, DataFrame
        Settings in rows, as `Recipe.rows` returns them.
    draws : int array (S,), optional
        Numbers of the draws, by default all.
    """
    require_losses([posterior], "a recipe")
    selections, by_law = list(posterior.selections), []
    if len(selections) == 1 and draws is not None:
        selections, draws = [(selections[0][0], selections[0][1][draws])], None
    for fit, chosen in selections:
        law, frame = fit.law, complete(table, fit.law)
        if missing := [c for c in law.covariates if c not in frame]:
            unknown = " of an unknown pre-training" if {"S1_pt", "S2_pt"} & set(missing) else ""
            raise BayeslawError(
                f"{law.name} needs {', '.join(missing)}{unknown}, which the recipe does not have: add it to its settings.",
                code="missing-covariate",
            )
        by_law.append(LawDraws(law, fit.draws).outcome(law.arrays(frame), chosen, axes=1))
    loss = np.concatenate(by_law)[slice(None) if draws is None else draws].T
    at = {str(c): table[c].to_numpy()[:, None] for c in table.select_dtypes("float")}
    check_values(loss, fit.law, at, name=posterior.name)
    return loss


@lru_cache(maxsize=64)
def _end_of(text: str, memory: float, power: float, files: tuple[tuple[int, int], ...]) -> Point:
    """Return the point at the end of a pre-training with a schedule; `files` are times and sizes of the logs that it names."""
    return trace(parse_schedule(text), np.zeros(0, dtype=np.int64), memory=memory, power=power)[1]
