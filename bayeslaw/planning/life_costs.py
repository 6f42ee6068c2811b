"""What a model costs over its whole life, draw by draw: training it, and serving tokens with it (Sardana et al. 2024, eqs. 3, 5).

    FLOPs = 6 N D + 2 N S,   hours = FLOPs / (peak x utilisation),   money = FLOPs x price + hours x price of an hour

S are the tokens of all requests and answers. Training and serving may run on different devices, with other utilisations and prices.
Served tokens, prices, peaks and utilisations may be uncertain: each draw of a posterior then has an amount of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, as_mapping, nearest, shortened
from bayeslaw.core.flops import FLOPS, SERVED, device_hours
from bayeslaw.core.intervals import check_probability
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import number
from bayeslaw.laws.prior import Prior

UNITS = {"flops": "FLOPs", "hours": "device hours", "cost": "money"}  # by the name of what is limited or minimised
RATES = ("flop", "served-flop", "hour", "served-hour")  # prices; those of serving are those of training unless given
DEVICE = ("peak", "utilisation", "served-peak", "served-utilisation")
EXAMPLE_DEVICE = (
    "a peak in FLOP/s and a utilisation (--device peak=312e12 --device utilisation=0.5, "
    "device={'peak': 312e12, 'utilisation': 0.5})"
)
EXAMPLE_RATE = "such as --price flop=2e-18 (prices={'flop': 2e-18}) or hour=1.5"
FORM = "a number such as 2e12, a prior such as LogNormal(28, 0.5), or an interval such as 1e12:4e12:90%"

type Amount = str | float | Sequence[float] | Array


def draws_of(name: str, given: Amount, size: int, seed: int, *, share: bool = False, code: str = "unusable-amount") -> Array:
    """The amounts (S,) of something in each draw, all equal where it is certain.

    Parameters
    ----------
    name : str
        What the amount is of, for errors. Uncertain amounts of different names are independent.
    given : number, text or array (S,)
        A number; draws; a prior as cards have them; or LOW:HIGH:90%, the log-normal distribution that lies between the two with
        this probability, and below and above with equal probabilities.
    size, seed : int
        The number of draws S, and the seed of an uncertain amount.
    share, code : bool, str
        Whether the amount must lie above 0 and be at most 1; the code of the error where it can't be used.

    Raises
    ------
    BayeslawError
        If it can't be read, has another number of draws, or some draws lie outside what it may be.

    Examples
    --------
    >>> from bayeslaw.planning.life_costs import draws_of
    >>> draws = draws_of("served", "1e12:4e12:90%", 4000, seed=0)
    >>> bool(0.88 < np.mean((draws > 1e12) & (draws < 4e12)) < 0.92)
    True
    """
    values = _read(name, given, size, seed, code)
    if values.size not in (1, size):
        raise BayeslawError(
            f"{values.size:,} values are given for {name}, and the posterior has {size:,} draws: give one number, or one for each.",
            code="unpaired-draws",
        )
    good = np.isfinite(values) & (values >= 0)
    if share:
        good &= (values > 0) & (values <= 1)
    if not good.all():
        first = float(values[~good][0])
        hint = f": is it a percentage? Write {first / 100:g}" if share and values.size == 1 and 1 < first <= 100 else ""
        bound = "lie above 0 and be at most 1" if share else "be finite and 0 or more"
        what = shortened(repr(given)) if values.size == 1 else f"{first:g}, as in {(~good).mean():.1%} of its draws"
        raise BayeslawError(f"{name[0].upper()}{name[1:]} must {bound}, not {what}{hint}.", code=code)
    return np.broadcast_to(values, (size,))


def price_of(name: str, given: Amount, size: int, seed: int) -> Array:
    """The draws (S,) of a price.

    Parameters
    ----------
    name, given, size, seed
        As in `draws_of`; the name is that among the prices.
    """
    return draws_of(f"the price {name}", given, size, seed, code="unusable-price")


def _read(name: str, given: Amount, size: int, seed: int, code: str) -> Array:
    """The value (1,) or the draws (S,) that an amount stands for."""
    unreadable = BayeslawError(f"{name[0].upper()}{name[1:]} must be {FORM}, not {shortened(repr(given))}.", code=code)
    if not isinstance(given, str):
        try:
            return np.atleast_1d(np.asarray(given, dtype=np.float64)).ravel()
        except (TypeError, ValueError):
            raise unreadable from None
    text = given.strip()
    if "(" not in text and ":" not in text:
        try:
            return np.array([number(text)])
        except ValueError:
            raise unreadable from None
    prior = Prior.parse(text) if "(" in text else _between(text, unreadable)
    return prior.sample(size, np.random.default_rng([seed, Stream.AMOUNT, *name.encode()]))


def _between(text: str, unreadable: BayeslawError) -> Prior:
    """The log-normal distribution that LOW:HIGH:90% stands for."""
    parts = text.split(":")
    if len(parts) != 3 or not parts[2].strip().endswith("%"):
        raise unreadable
    try:
        low, high, prob = number(parts[0]), number(parts[1]), number(parts[2].strip().removesuffix("%")) / 100
    except ValueError:
        raise unreadable from None
    if not 0 < low < high < math.inf:
        raise BayeslawError(f"{unreadable} The smaller end comes first, and both lie above 0.", code=unreadable.code)
    check_probability(prob)
    sigma = math.log(high / low) / (2 * NormalDist().inv_cdf(0.5 + prob / 2))
    return Prior("LogNormal", {"mu": math.log(low * high) / 2, "sigma": sigma})


@dataclass(frozen=True, eq=False)
class LifeCosts:
    """FLOPs, device hours and money of a model's whole life, in each draw.

    Attributes
    ----------
    served : array (S,)
        Tokens that the model serves.
    rates : mapping of unit to pair of arrays (S,)
        What a FLOP of training and one of serving take, in each of `UNITS` that is known: 'flops' always is (1 each), 'hours' where
        there is a device, 'cost' where there are prices.
    per_token : float
        FLOPs of training per parameter and token: 6, or fewer where parts of the model are frozen.
    """

    served: Array
    rates: Mapping[str, tuple[Array, Array]]
    per_token: float

    @classmethod
    def of(
        cls,
        size: int,
        *,
        served: Amount = 0.0,
        prices: Mapping[str, Amount] | None = None,
        device: Mapping[str, Amount] | None = None,
        per_token: float = FLOPS,
        seed: int = 0,
    ) -> LifeCosts:
        """Read served tokens, prices (`RATES`) and a device (`DEVICE`), each an amount as `draws_of` reads it.

        Parameters
        ----------
        size, seed : int
            The number of draws S; the seed of uncertain amounts.
        served, prices, device, per_token
            As in `bayeslaw.planning.whole_life` and in the attributes.
        """
        money = as_mapping(prices, "{'flop': 2e-18}", "Prices")
        machine = as_mapping(device, "{'peak': 312e12, 'utilisation': 0.5}", "Figures of a device")
        _check_names("price", money, RATES)
        _check_names("device", machine, DEVICE)
        ones = np.ones(size)
        rates = {"flops": (ones, ones)}
        if machine:
            rates["hours"] = _hours_of_a_flop(machine, size, seed)
        if money:
            by_name = {name: price_of(name, value, size, seed) for name, value in money.items()}
            rates["cost"] = _money_of_a_flop(by_name, rates.get("hours"), size)
        return cls(draws_of("served tokens", served, size, seed, code="unusable-served"), rates, per_token)

    @property
    def size(self) -> int:
        """Number of draws."""
        return self.served.size

    @property
    def serves(self) -> bool:
        """Whether any tokens are served."""
        return bool(self.served.any())

    def require(self, unit: str) -> None:
        """Refuse a unit that needs a device or prices that were not given."""
        if unit not in UNITS:
            raise BayeslawError(
                f"{unit!r} is no unit of costs; they are {', '.join(UNITS)}.{nearest(unit, UNITS)}", code="unknown-unit"
            )
        if unit not in self.rates:
            needed = f"a device has {EXAMPLE_DEVICE}" if unit == "hours" else f"give prices, {EXAMPLE_RATE}"
            raise BayeslawError(
                f"Whole-life {UNITS[unit]} can't be had without {'a device' if unit == 'hours' else 'prices'}: {needed}.",
                code="missing-device" if unit == "hours" else "missing-price",
            )

    def training(self, unit: str, draws: Index | slice = slice(None)) -> Array:
        """What training takes per parameter and token, (s,)."""
        return np.asarray(self.per_token * self.rates[unit][0][draws])

    def serving(self, unit: str, draws: Index | slice = slice(None)) -> Array:
        """What serving all tokens takes per parameter, (s,)."""
        return np.asarray(SERVED * self.rates[unit][1][draws] * self.served[draws])

    def total(self, unit: str, n: ArrayLike, d: ArrayLike) -> Array:
        """What the whole life of a model of N parameters and D training tokens takes, (S,)."""
        return np.asarray(n * (self.training(unit) * d + self.serving(unit)))  # type: ignore[operator]

    def certain(self, unit: str) -> bool:
        """Whether all draws have the same costs."""
        return all(float(np.ptp(values)) <= 1e-12 * float(values.max()) for values in (self.training(unit), self.serving(unit)))

    def median(self) -> LifeCosts:
        """One draw, in which every amount is at its median: the deterministic plan goes by it."""

        def middle(values: Array) -> Array:
            return np.array([np.median(values)])

        rates = {unit: (middle(training), middle(serving)) for unit, (training, serving) in self.rates.items()}
        return LifeCosts(middle(self.served), rates, self.per_token)

    def means(self, n: float, d: float) -> dict[str, float]:
        """Mean whole-life costs in every unit that is known."""
        return {unit: float(self.total(unit, n, d).mean()) for unit in self.rates}


def _hours_of_a_flop(device: Mapping[str, Amount], size: int, seed: int) -> tuple[Array, Array]:
    """The hours (S,) that a FLOP of training takes, and one of serving."""
    if missing := [name for name in DEVICE[:2] if name not in device]:
        raise BayeslawError(f"A device has {EXAMPLE_DEVICE}; {missing[0]} is missing.", code="incomplete-device")
    part = {
        name: draws_of(f"the device's {name}", value, size, seed, share=name.endswith("utilisation"), code="unusable-device")
        for name, value in device.items()
    }
    peak, share, ones = part["peak"], part["utilisation"], np.ones(size)
    serving = device_hours(ones, part.get("served-peak", peak), part.get("served-utilisation", share))
    return device_hours(ones, peak, share), serving


def _money_of_a_flop(prices: Mapping[str, Array], hours: tuple[Array, Array] | None, size: int) -> tuple[Array, Array]:
    """The money (S,) that a FLOP of training takes, and one of serving, by prices and by the hours that a FLOP takes, if known."""
    if (hourly := [name for name in prices if name.endswith("hour")]) and hours is None:
        raise BayeslawError(
            f"The price {hourly[0]} needs a device, by which FLOPs become hours: {EXAMPLE_DEVICE}.", code="missing-device"
        )
    zero = np.zeros(size)
    flop, hour = prices.get("flop", zero), prices.get("hour", zero)
    if not (flop.any() or hour.any()):
        raise BayeslawError(
            f"Training has no price above 0: give one, {EXAMPLE_RATE} (served-flop and served-hour are of serving alone).",
            code="missing-price",
        )
    training, serving = hours or (zero, zero)
    return flop + hour * training, prices.get("served-flop", flop) + prices.get("served-hour", hour) * serving


def _check_names(kind: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            shown = f"{', '.join(known)}.{nearest(name, known)}"
            raise BayeslawError(f"There is no {kind} {name!r}; there are {shown}", code=f"unknown-{kind}")
