"""What a plan's training and serving cost, in FLOPs, device hours and money, and the budgets of these.

A budget of costs that are the same in all draws bounds the tokens. One of uncertain costs is a constraint beside those of losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, as_mapping, nearest
from bayeslaw.core.flops import Stages, per_token
from bayeslaw.core.text import compact
from bayeslaw.planning.arguments import positive
from bayeslaw.planning.life_costs import RATES, UNITS, Amount, LifeCosts, price_of
from bayeslaw.planning.search import Constraint, behind

TOKEN_PRICES = ("new-token", "replayed-token")
PRICES = (*RATES, *TOKEN_PRICES)
EXAMPLE_PRICE = f"of {', '.join(PRICES)} (--price flop=2e-18, prices={{'flop': 2e-18}})"


@dataclass(frozen=True, eq=False)
class Prices:
    """What training takes for each token, and what serving takes, in FLOPs, device hours and money; means and draws.

    Attributes
    ----------
    life : LifeCosts
        By FLOPs and hours of training and of serving.
    new, replayed : arrays (S,)
        Money for a new and for a replayed token.
    """

    life: LifeCosts
    new: Array
    replayed: Array

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any] | None,
        stages: Stages | None,
        *,
        size: int = 1,
        served: Amount = 0.0,
        device: Mapping[str, Amount] | None = None,
        seed: int = 0,
    ) -> Prices:
        """Read {'flop': 2e-18, 'new-token': 1e-7, 'replayed-token': 0}, and stages as `bayeslaw.core.flops` does.

        Parameters
        ----------
        given, stages, served, device, seed
            As in `plan`.
        size : int
            Number of draws S.
        """
        given = as_mapping(given, "{'flop': 2e-18}", "Prices")
        for name in given:
            if name not in PRICES:
                raise BayeslawError(
                    f"There is no price {name!r}; there are {', '.join(PRICES)}.{nearest(name, PRICES)}", code="unknown-price"
                )
        by_token = [price_of(name, given.get(name, 0.0), size, seed) for name in TOKEN_PRICES]
        rates = {name: value for name, value in given.items() if name not in TOKEN_PRICES}
        life = LifeCosts.of(size, served=served, prices=rates, device=device, per_token=per_token(stages), seed=seed)
        if given and "cost" not in life.rates:
            life = replace(life, rates={**life.rates, "cost": (np.zeros(size), np.zeros(size))})
        return cls(life, *by_token)

    @property
    def given(self) -> bool:
        """Whether anything has a price."""
        rates = self.life.rates
        return "cost" in rates and any(values.any() for values in (*rates["cost"], self.new, self.replayed))

    @property
    def needs_size(self) -> bool:
        """Whether money can't be had without the number of parameters."""
        return self.life.serves or any(values.any() for values in self.life.rates.get("cost", ()))

    def token(self, unit: str, r: float | Array, n: float, draws: Index | slice = slice(None), axes: int = 0) -> Array:
        """What a token of a mixture with replay share r takes to train a model of n parameters on, for draws (s,).

        Parameters
        ----------
        unit, r, n, draws, axes
            One of `UNITS`; the others are as in `bayeslaw.planning.search.Quantity`.
        """
        training = self.life.training(unit, draws)
        taken = behind(n * training if training.any() else training, axes)
        if unit == "cost":
            taken = taken + behind(self.new[draws], axes) * (1 - r) + behind(self.replayed[draws], axes) * r
        return np.asarray(taken)

    def serving(self, unit: str, n: float, draws: Index | slice = slice(None)) -> Array:
        """What serving takes with a model of n parameters, (s,); zeros where nothing is served."""
        serving = self.life.serving(unit, draws)
        return np.asarray(n * serving if serving.any() else serving)

    def mean(self, unit: str, n: float, tokens: float, r: float) -> float:
        """Mean whole-life cost; nan where the unit, or the number of parameters that it needs, is not known."""
        if unit not in self.life.rates or (unit == "cost" and not self.given):
            return math.nan
        return float(np.mean(self.token(unit, r, n)) * tokens + np.mean(self.serving(unit, n)))

    def certain(self, unit: str) -> bool:
        """Whether all draws have the same costs."""
        return self.life.certain(unit) and (unit != "cost" or not (np.ptp(self.new) or np.ptp(self.replayed)))

    def median(self) -> Prices:
        """One draw, in which every amount is at its median."""
        return Prices(self.life.median(), np.median(self.new, keepdims=True), np.median(self.replayed, keepdims=True))

    def log_budget(self, n: float, max_tokens: float | None, limits: Mapping[str, float]) -> Callable[[float], float]:
        """Log of the most tokens that the certain budgets allow in a model of n parameters, as a function of the replay share.

        Parameters
        ----------
        n, max_tokens
            As in `plan`.
        limits : mapping of unit to float
            Budgets of the whole life, as of `read_budgets`.
        """
        tokens, left = positive("max-tokens", max_tokens), dict[str, float]()
        for unit, limit in limits.items():
            if self.certain(unit):
                serving = float(self.serving(unit, n)[0])
                left[unit] = limit - serving
                if serving and left[unit] <= 0:
                    raise BayeslawError(
                        f"Serving alone takes {compact(serving)} {UNITS[unit]} with {compact(n)} parameters, the whole budget of "
                        f"{compact(limit)}. Allow more, serve fewer tokens, or adapt a smaller model.",
                        code="budget-too-small",
                    )

        def budget(r: float) -> float:
            each = {unit: float(self.token(unit, r, n)[0]) for unit in left}
            return math.log(min([tokens, *(left[unit] / price for unit, price in each.items() if price)]))

        return budget

    def uncertain_budgets(self, n: float, limits: Mapping[str, float]) -> tuple[Constraint, ...]:
        """Budgets that are constraints, because what is spent is uncertain."""
        size = self.new.size
        return tuple(
            Constraint(f"budget of {UNITS[unit]}", WholeLifeCost(self, unit, n), np.full(size, math.log(limit)))
            for unit, limit in limits.items()
            if not self.certain(unit)
        )


@dataclass(frozen=True)
class WholeLifeCost:
    """The logarithm of the cost of a whole life, as a `Quantity` of tokens and replay share; -inf where it costs nothing."""

    prices: Prices
    unit: str
    n: float

    def values(self, draws: Index, x: Array, r: float | Array, axes: int) -> Array:
        spent = self.prices.token(self.unit, r, self.n, draws, axes) * np.exp(x)
        with np.errstate(divide="ignore"):
            return np.log(spent + behind(self.prices.serving(self.unit, self.n, draws), axes))


def read_budgets(prices: Prices, n: float, limits: Mapping[str, float | None]) -> dict[str, float]:
    """Budgets by unit, as positive numbers, of those that are given; a missing price, device or number of parameters is refused.

    Parameters
    ----------
    prices, n
        As in `PlanProblem`.
    limits : mapping of unit to float or None
        Limits of the whole life, in `UNITS`.
    """
    budgets = {unit: positive(f"max-{unit}", limit) for unit, limit in limits.items() if limit is not None}
    for unit in budgets:
        if unit == "cost" and not prices.given:
            raise BayeslawError(f"To limit cost, give prices {EXAMPLE_PRICE}.", code="missing-price")
        prices.life.require(unit)
        if unit != "cost" or prices.needs_size:
            check_size(n, UNITS[unit])
    return budgets


def check_size(n: float, quantity: str) -> None:
    """Refuse a plan without N (nan) that asks for a quantity of which N is a part, such as FLOPs."""
    if not math.isfinite(n):
        raise BayeslawError(
            f"{quantity} can't be had without the number of parameters: give N among the settings, such as N=8.1e9.",
            code="missing-parameter-count",
        )
