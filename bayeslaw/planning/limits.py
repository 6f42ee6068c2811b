"""What a person says of a plan: limits, prices, probabilities, read and refused by name and value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.flops import FLOPS, Stages, per_token
from bayeslaw.core.units import NATS
from bayeslaw.planning.sweep import Array

OBJECTIVES = ("tokens", "flops", "cost", "replay", "target-loss", "source-loss")
SPREADS = ("latent", "run")
LEAST_DRAWS = 2_000
RESOLVED = 10  # draws that must be left to break the promise, among those searched
PRICES = ("flop", "new-token", "replayed-token")
HALF = 0.5  # of the base loss, by which no one lets it rise: a percentage without its sign


@dataclass(frozen=True)
class Forgetting:
    """By how much a source loss may rise: relative to its base, or in its unit."""

    amount: float
    relative: bool
    unit: str = NATS

    @classmethod
    def of(cls, value: str | float, unit: str = NATS) -> Forgetting:
        """Read '2%' (of the base loss) or 0.05 (in a unit).

        Raises
        ------
        BayeslawError
            If it is no number, or a relative rise of -100% or less, which leaves no loss.
        """
        text = str(value).strip()
        try:
            amount = float(text.removesuffix("%"))
        except ValueError:
            amount = math.nan
        if not math.isfinite(amount):
            raise BayeslawError(
                f"A limit of forgetting is a rise of the source loss, 2% of its base or 0.05 {unit}; {text!r} is not one."
            )
        made = cls(amount / 100 if text.endswith("%") else amount, text.endswith("%"), unit)
        if made.relative and made.amount <= -1:
            raise BayeslawError(f"max-forgetting {text} leaves no positive source loss: it lies above -100%.")
        return made

    def limit(self, base: Array) -> Array:
        """Log of the largest source loss that keeps it, from the log of the base loss."""
        if self.relative:
            return base + math.log1p(self.amount)
        known = float(np.exp(np.median(base)))
        if self.amount > HALF * known:
            raise BayeslawError(
                f"max-forgetting {self.amount:g} {self.unit} is more than half of the base loss, {known:.4g}: is it a percentage? "
                f"Write {self.amount:g}%."
            )
        loss = np.exp(base) + self.amount
        if not (loss > 0).all():
            raise BayeslawError(
                f"max-forgetting {self.amount:g} {self.unit} leaves no positive source loss: its base is {known:.4g}."
            )
        return np.asarray(np.log(loss))

    def __str__(self) -> str:
        return f"{100 * self.amount:+g}%" if self.relative else f"{self.amount:+g} {self.unit}"


@dataclass(frozen=True)
class Prices:
    """Money for a FLOP, for a token of new data and for a replayed one; FLOPs per parameter and token."""

    flop: float = 0.0
    new: float = 0.0
    replayed: float = 0.0
    compute: float = FLOPS

    @classmethod
    def of(cls, given: Mapping[str, Any], stages: Stages | None = None) -> Prices:
        """Read {'flop': 2e-18, 'new-token': 1e-7, 'replayed-token': 0}, and stages as `costs.stages_of` does."""
        for name, value in given.items():
            if name not in PRICES:
                raise BayeslawError(f"There is no price {name!r}; there are {', '.join(PRICES)}.{nearest(name, PRICES)}")
            try:
                good = 0 <= float(value) < math.inf
            except (TypeError, ValueError):
                good = False
            if not good:
                raise BayeslawError(f"The price {name} is a number of 0 or more, not {value!r}.")
        flop, new, replayed = (float(given.get(name, 0.0)) for name in PRICES)
        return cls(flop, new, replayed, per_token(stages))

    @property
    def given(self) -> bool:
        """Whether anything has a price."""
        return bool(self.flop or self.new or self.replayed)

    def token(self, r: float, n: float) -> float:
        """Money for a token of a mixture with replay share r in a model of n parameters."""
        flops = self.flop * self.compute * n if self.flop else 0.0
        return flops + self.new * (1 - r) + self.replayed * r


@dataclass(frozen=True)
class Range:
    """Values that are allowed: all between two, or only those listed."""

    low: float
    high: float
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, name: str, given: str | float | Sequence[float]) -> Range:
        """Read '1:20' (between), '5,10,20' (one of these), or 8 (this one); a pair (1, 20) in a tuple is between too."""
        try:
            if isinstance(given, str) and ":" in given:
                low, high = (float(part) for part in given.split(":"))
                values: tuple[float, ...] = ()
            elif isinstance(given, tuple) and len(given) == 2:
                (low, high), values = (float(given[0]), float(given[1])), ()
            else:
                parts = given.split(",") if isinstance(given, str) else np.atleast_1d(np.asarray(given, dtype=float))
                values = tuple(sorted(float(part) for part in parts))
                low, high = values[0], values[-1]
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ValueError
        except (ValueError, TypeError, IndexError):
            raise BayeslawError(f"{name} {given!r} is not a range such as 1:20, a list such as 5,10,20 or one number.") from None
        return cls(low, high, values)

    @property
    def grid(self) -> Array | None:
        """The listed values."""
        return np.array(self.values) if self.values else None


def check_shares(given: Range) -> Range:
    """Refuse replay shares outside [0, 1]."""
    for value in (given.low, given.high):
        if not 0 <= value <= 1:
            hint = f": is it a percentage? Write {value / 100:g} for {value:g}%" if 1 < value <= 100 else ""
            raise BayeslawError(f"A replay share lies between 0 and 1, {value:g} does not{hint}.")
    return given


def check_confidence(confidence: float, draws: int) -> None:
    """Refuse a confidence outside (0, 1) or beyond what so many searched draws resolve."""
    if not 0 < confidence < 1:
        hint = f": write {confidence / 100:g} for {confidence:g}%" if 1 < confidence < 100 else ""
        raise BayeslawError(f"A confidence lies between 0 and 1, {confidence:g} does not{hint}.")
    if confidence > 1 - RESOLVED / draws:
        raise BayeslawError(
            f"A confidence of {confidence:g} is beyond what {draws:,} searched draws resolve: at most {1 - RESOLVED / draws:g}. "
            "Fit with more draws."
        )


def positive(name: str, value: float | None) -> float:
    """A limit as a positive number, infinite where there is none."""
    if value is None:
        return math.inf
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (number > 0 and math.isfinite(number)):
        raise BayeslawError(f"{name} must be positive and finite, not {value}.")
    return number


def corners(tokens: tuple[float, float], replay: tuple[float, float]) -> pd.DataFrame:
    """The corners of a box of tokens and replay shares."""
    return pd.DataFrame([{"D": d, "r": r} for d in tokens for r in replay])
