"""What is minimised over recipes, and where: the weighted change of two losses, and the ranges of what is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.dynamics.recipe import CHOICES

Array = NDArray[np.float64]

LOGARITHMIC = ("peak", "steps")
LIMITS = {"peak": (1e-12, 1.0), "steps": (1.0, 1e9), "potential": (0.0, 1.0), "r": (0.0, 1.0)}
GRID = {1: 65, 2: 256, 3: 512, 4: 1024}  # recipes looked at first, by the number of choices


def check_weight(weight: float) -> None:
    """Refuse a weight of the source that leaves the target none, or more than all."""
    if not 0 <= weight <= 1:
        raise BayeslawError(f"The weight of the source is {weight:g}; it lies between 0 and 1, the target has the rest.")


@dataclass(frozen=True)
class Objective:
    """What is minimised.

    Attributes
    ----------
    weight : float
        w, of the source; the target has 1 - w.
    tail : float or None
        None for the mean; else the share of worst draws whose mean is taken, as CVaR.
    """

    weight: float
    tail: float | None = None

    def __post_init__(self) -> None:
        check_weight(self.weight)
        if self.tail is not None and not 0 < self.tail < 1:
            raise BayeslawError(f"The tail of CVaR is {self.tail:g}; it is the share of worst draws, such as 0.1.")

    def combine(self, source: Array, target: Array) -> Array:
        """Weighted changes, draw by draw."""
        return self.weight * source + (1 - self.weight) * target

    def __call__(self, changes: Array) -> Array:
        """Mean or CVaR over the draws, the last axis."""
        if self.tail is None:
            return np.asarray(changes.mean(axis=-1))
        worst = max(round(self.tail * changes.shape[-1]), 1)
        return np.asarray(np.partition(changes, changes.shape[-1] - worst, axis=-1)[..., -worst:].mean(axis=-1))

    @property
    def text(self) -> str:
        what = "mean" if self.tail is None else f"CVaR of the worst {self.tail:.0%} of draws"
        return f"{what} of {self.weight:g} dL_source + {1 - self.weight:g} dL_target"


@dataclass(frozen=True)
class Space:
    """Ranges of what is chosen.

    Attributes
    ----------
    ranges : mapping of choice to (float, float)
    """

    ranges: Mapping[str, tuple[float, float]]

    def __post_init__(self) -> None:
        if not self.ranges:
            raise BayeslawError(f"Say what is to be chosen, and where: {', '.join(CHOICES)}, such as peak=1e-4:1e-3.")
        for name, (low, high) in self.ranges.items():
            if name not in CHOICES:
                raise BayeslawError(f"{name!r} can't be chosen; {', '.join(CHOICES)} can.{nearest(name, CHOICES)}")
            least, most = LIMITS[name]
            if not (least <= low < high <= most):
                raise BayeslawError(f"{name}={low:g}:{high:g}: give a rising range within {least:g} and {most:g}.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.ranges)

    @property
    def size(self) -> int:
        return len(self.ranges)

    def choices(self, at: Array) -> dict[str, float]:
        """What a point of the unit cube (k,) chooses."""
        made = {}
        for (name, (low, high)), share in zip(self.ranges.items(), at.tolist(), strict=True):
            if name in LOGARITHMIC:
                made[name] = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
            else:
                made[name] = low + share * (high - low)
            if name == "steps":
                made[name] = float(round(made[name]))
        return made

    def points(self, seed: int) -> Array:
        """Points (G, k) that fill the unit cube: even ones along a line, Sobol's else, and the corners."""
        count = GRID[self.size]
        if self.size == 1:
            return np.linspace(0, 1, count)[:, None]
        corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * self.size), axis=-1).reshape(-1, self.size)
        return np.concatenate([corners, qmc.Sobol(self.size, seed=seed).random(count)])


def unit(space: Space, choice: Mapping[str, float]) -> Array:
    """The point (k,) of the unit cube that chooses so."""
    made = []
    for name, (low, high) in space.ranges.items():
        ends = (math.log(low), math.log(high)) if name in LOGARITHMIC else (low, high)
        value = math.log(choice[name]) if name in LOGARITHMIC else choice[name]
        made.append((value - ends[0]) / (ends[1] - ends[0]))
    return np.array(made)
