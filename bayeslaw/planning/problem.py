"""What a person says of a plan: limits, prices, probabilities, read and refused by name and value.

A plan's question, read and checked: whose losses, which promises, where to look, what is to be least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, nearest
from bayeslaw.core.flops import FLOPS, Stages, per_token
from bayeslaw.core.units import NATS
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.base_loss import Base, base_loss
from bayeslaw.planning.domain_loss import Side, describe, members
from bayeslaw.planning.search import Box, Promise, Search
from bayeslaw.posterior.fit import Fit

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


BEYOND = 10.0  # factor by which the box goes beyond logged tokens where no limits are stated
ENDLESS = math.log(1e60)  # log tokens that stand for no end


@dataclass(frozen=True)
class Rise:
    """The largest relative rise of source losses over their bases, as a logarithm."""

    sources: tuple[Side, ...]
    bases: tuple[Array, ...]

    def cube(self, draws: Index, x: Array, r: Array) -> Array:
        pairs = zip(self.sources, self.bases, strict=True)
        return np.asarray(np.max([s.cube(draws, x, r) - b[draws, None, None] for s, b in pairs], axis=0))

    def at(self, draws: Index, x: Array, r: float | Array) -> Array:
        pairs = zip(self.sources, self.bases, strict=True)
        return np.asarray(np.max([s.at(draws, x, r) - b[draws] for s, b in pairs], axis=0))


@dataclass(frozen=True)
class Question:
    """What is asked for.

    Attributes
    ----------
    sources : tuple of Side
    target : Side or None
    bases : mapping of source to Base
    forgettings : mapping of source to Forgetting
    loss : float
        Largest target loss; inf where there is no limit.
    search : Search
    minimise : str
    n : float
        Parameters of the model; nan where no law needs them and none are given.
    prices : Prices
    settings : mapping
    """

    sources: tuple[Side, ...]
    target: Side | None
    bases: Mapping[str, Base]
    forgettings: Mapping[str, Forgetting]
    loss: float
    search: Search
    minimise: str
    n: float
    prices: Prices
    settings: Mapping[str, float]

    @property
    def sides(self) -> tuple[Side, ...]:
        return (*self.sources, *([self.target] if self.target else []))

    @property
    def size(self) -> int:
        """Number of draws."""
        return self.sides[0].size

    @property
    def value(self) -> Side | Rise | None:
        """What is to be least, where that is a loss."""
        if self.minimise == "target-loss":
            return self.target
        if self.minimise == "source-loss":
            return Rise(self.sources, tuple(self.bases[s.name].log for s in self.sources))
        return None

    @property
    def texts(self) -> tuple[str, ...]:
        """The promises in words."""
        said = [f"loss of {s} rises by at most {f} over its base" for s, f in self.forgettings.items()]
        said += [f"target loss at most {self.loss:g} {self.target.unit}"] if self.target and math.isfinite(self.loss) else []
        return tuple(said)


def named(source: Posterior | Mapping[str, Posterior] | None) -> dict[str, Any]:
    """The sources by name."""
    if source is None:
        return {}
    return dict(source) if isinstance(source, Mapping) else {"source": source}


def identical(posteriors: Sequence[Any]) -> list[Any]:
    """The posteriors, one fit read twice taken for one."""
    known: dict[str, Any] = {}
    made = []
    for one in posteriors:
        key = one.info["draws_sha256"] + one.info["law_sha256"] if isinstance(one, Fit) else str(id(one))
        made.append(known.setdefault(key, one))
    return made


def check_posteriors(posteriors: Sequence[Any], force: bool) -> None:
    """Refuse fits whose checks failed, and too few draws."""
    for one in posteriors:
        if isinstance(one, PointFit):
            raise BayeslawError("A plan needs posteriors; point fits go into `points`, for the deterministic plan beside it.")
        if not one.passed and not force:
            raise FitError(
                f"The checks of {one.name} failed ({one.failures}): a plan made of its draws can't be trusted. "
                "Sample longer, or force it and have the plan marked."
            )
        if (size := sum(chosen.size for _, chosen in one.shares)) < LEAST_DRAWS:
            raise BayeslawError(f"A plan takes at least {LEAST_DRAWS:,} draws; {one.name} has {size:,}. Fit with more draws.")


def forgetting_limits(given: Any, sources: Mapping[str, Any]) -> dict[str, Forgetting]:
    """Limits of forgetting by source."""
    if given is None:
        return {}
    limits = dict(given) if isinstance(given, Mapping) else dict.fromkeys(sources, given)
    for name in limits:
        if name not in sources:
            raise BayeslawError(f"max-forgetting names {name!r}; the sources are {', '.join(sources)}.{nearest(name, sources)}")
    if not sources:
        raise BayeslawError("max-forgetting is about a source domain: give its fit (--source).")
    return {name: Forgetting.of(value, sources[name].unit) for name, value in limits.items()}


def check_question(
    minimise: str, sources: Mapping[str, Any], target: Any, limits: Mapping[str, Forgetting], loss: float, prices: Prices, n: float
) -> None:
    """Refuse questions that name what is not there."""
    if math.isfinite(loss) and target is None:
        raise BayeslawError("max-loss is about the target domain: give its fit (--target).")
    if minimise == "target-loss" and target is None:
        raise BayeslawError("To minimise target-loss give the target's fit.")
    if minimise == "source-loss" and not sources:
        raise BayeslawError("To minimise source-loss give the source's fit.")
    if not limits and not math.isfinite(loss) and minimise not in ("target-loss", "source-loss"):
        raise BayeslawError("Nothing is promised: give max-forgetting, max-loss, or both.")
    if minimise == "cost" and not prices.given:
        raise BayeslawError("To minimise cost give prices, of flop, new-token or replayed-token (--price flop=2e-18).")
    if not math.isfinite(n) and (minimise == "flops" or prices.flop):
        raise BayeslawError("FLOPs need the number of parameters: give N among the settings (--set N=8.1e9).")


def budget(
    n: float, prices: Prices, max_tokens: float | None, max_flops: float | None, max_cost: float | None
) -> Callable[[float], float]:
    """Log of the most tokens that the budgets allow, by replay share."""
    tokens, flops, cost = positive("max-tokens", max_tokens), positive("max-flops", max_flops), positive("max-cost", max_cost)
    if math.isfinite(flops) and not math.isfinite(n):
        raise BayeslawError("FLOPs need the number of parameters: give N among the settings (--set N=8.1e9).")
    if math.isfinite(cost) and not prices.given:
        raise BayeslawError("max-cost needs prices, of flop, new-token or replayed-token (--price flop=2e-18).")
    fixed = min(tokens, flops / (prices.compute * n) if math.isfinite(flops) else math.inf)

    def most(r: float) -> float:
        token = prices.token(r, n)
        return math.log(min(fixed, cost / token if token and math.isfinite(cost) else math.inf))

    return most


def logged(posteriors: Sequence[Any]) -> tuple[float, float, bool]:
    """Fewest and most tokens, above 0, that a fit saw: per parameter where all laws know N (the last is True), else tokens."""
    seen, sizes = list[Array](), list[Array]()
    for fit in (fit for p in posteriors for fit, _ in members(p)):
        columns = fit.observed.covariates
        if "D" not in columns:
            raise BayeslawError(f"{fit.law.name} knows no tokens D: there is nothing to plan with it.")
        positive_rows = columns["D"] > 0
        seen.append(columns["D"][positive_rows])
        if "N" in columns:
            sizes.append(columns["N"][positive_rows])
    if len(sizes) == len(seen):
        ratios = [d / s for d, s in zip(seen, sizes, strict=True)]
        return min(float(v.min()) for v in ratios), max(float(v.max()) for v in ratios), True
    return min(float(v.min()) for v in seen), max(float(v.max()) for v in seen), False


def box_of(posteriors: Sequence[Any], n: float, replay: Any, atpp: Any, tokens: Any, most: Callable[[float], float]) -> Box:
    """Where to look."""
    if atpp is not None and tokens is not None:
        raise BayeslawError("Give limits of ATPP or of tokens, not both.")
    if atpp is not None and not math.isfinite(n):
        raise BayeslawError(
            "ATPP needs the number of parameters: give N among the settings (--set N=8.1e9), or limit tokens (--tokens 1e9:1e11)."
        )
    if atpp is None and tokens is None:
        least, largest, per_parameter = logged(posteriors)
        unit = n if per_parameter else 1.0
        wanted = Range(least / BEYOND, largest * BEYOND)
    else:
        name, given = ("ATPP", atpp) if atpp is not None else ("tokens", tokens)
        wanted, unit = Range.of(name, given), n if atpp is not None else 1.0
    if wanted.low <= 0:
        raise BayeslawError(f"A plan's tokens are more than 0, {wanted.low:g} are not; D = 0 is the base checkpoint.")
    shares = check_shares(Range.of("replay", replay)) if replay is not None else Range(0.0, 1.0)
    laws = [fit.law for p in posteriors for fit, _ in members(p)]
    low = max([wanted.low * unit, *([law.covariates["D"].support[0] for law in laws] if not wanted.values else [])])
    high = min([wanted.high * unit, *([law.covariates["D"].support[1] for law in laws] if not wanted.values else [])])
    if not any("r" in law.covariates for law in laws):
        shares = Range(0.0, 0.0)
    tops = [most(r) for r in ((shares.low, shares.high) if not shares.values else shares.values)]
    if max(tops) < math.log(low):
        raise BayeslawError(
            f"The budget allows {math.exp(max(tops)):.3g} tokens, fewer than the {low:.3g} where looking begins; limit them lower."
        )
    x = np.log(np.array(wanted.values) * unit) if wanted.values else None
    return Box(math.log(low), math.log(high), (shares.low, shares.high), x, shares.grid, most)


def sides_of(
    sources: Mapping[str, Any], target: Any, model: Mapping[str, float], box: Box, source_levels: Any, target_levels: Any
) -> list[Side]:
    """The losses of all domains, sources first."""
    at = corners((math.exp(box.low), math.exp(box.high)), box.replay)
    made = []
    for name, posterior in sources.items():
        own = (
            (source_levels or {}).get(name)
            if source_levels and isinstance(next(iter(source_levels.values())), Mapping)
            else source_levels
        )
        made.append(describe(name, posterior, model, _levels(posterior, own, name, "source"), at))
    if target is not None:
        made.append(describe("target", target, model, _levels(target, target_levels, "target", "target"), at))
    return made


def _levels(posterior: Posterior | PointFit, given: Mapping[str, str] | None, name: str, role: str) -> dict[str, str]:
    """Values of the columns by which parameters vary: as told, or the one that is called as the domain is."""
    whose: Any = posterior.law if isinstance(posterior, PointFit) else posterior
    known, chosen = whose.levels, dict(given or {})
    for column, values in known.items():
        for own in (name, role):
            if column not in chosen and own in values:
                chosen[column] = own
        if column not in chosen:
            raise BayeslawError(
                f"{whose.name} has parameters for each {column} ({', '.join(values)}); say which is the {role} "
                f"(--{role}-set {column}={values[0]})."
            )
        if str(chosen[column]) not in values:
            raise BayeslawError(
                f"{column} {chosen[column]!r} is not among those of {whose.name}: {', '.join(values)}."
                f"{nearest(str(chosen[column]), values)}"
            )
    return {k: str(v) for k, v in chosen.items()}


def price_of(minimise: str, prices: Prices, n: float) -> Callable[[float], float]:
    """Log of what a token costs in what is to be least, by replay share; of no effect for tokens and FLOPs."""
    if minimise != "cost":
        return lambda r: 0.0

    def price(r: float) -> float:
        token = prices.token(r, n)
        return math.log(token) if token > 0 else -math.inf

    return price


def promises_of(
    sources: Sequence[Side], target: Side | None, limits: Mapping[str, Forgetting], bases: Mapping[str, Base], loss: float
) -> tuple[Promise, ...]:
    """The promises: each a loss and its limit in each draw."""
    made = [Promise(f"forgetting of {s.name}", s, limits[s.name].limit(bases[s.name].log)) for s in sources if s.name in limits]
    if target is not None and math.isfinite(loss):
        made.append(Promise("target loss", target, np.full(target.size, math.log(loss))))
    return tuple(made)


def check_reachable(question: Question, draws: Index, confidence: float) -> None:
    """Refuse a target loss under every draw's asymptote, or one that the base checkpoint already has."""
    side, loss, box = question.target, question.loss, question.search.box
    if side is None or not math.isfinite(loss):
        return
    shares = np.unique([*box.replays[:: max(1, box.replays.size // 8)], *box.replay])
    least = min(float(_endless(side, draws, float(r)).min()) for r in shares)
    if math.log(loss) < least:
        raise BayeslawError(
            f"max-loss {loss:g} {side.unit} lies below what any draw of {side.posterior_name} allows with however many tokens: "
            f"at least {math.exp(least):.4g}."
        )
    if question.minimise in ("target-loss", "source-loss"):
        return
    base, text = None, ""
    if side.finite_at_base:
        base, text = side.base(draws), f"by {side.posterior_name} at D = 0"
    else:
        try:
            measured = base_loss(side, "measured", 0)
        except BayeslawError:
            return
        base, text = measured.log, "as measured at D = 0"
    share = float((base <= math.log(loss)).mean())
    if share >= confidence:
        raise BayeslawError(
            f"max-loss {loss:g} {side.unit} is already met at ATPP 0, with probability {share:.3f}: the base checkpoint's target "
            f"loss is {math.exp(float(np.median(base))):.4g} {text}. No adaptation is needed for it."
        )


def _endless(side: Side, draws: Index, r: float) -> Array:
    try:
        return side.cube(draws, np.array([ENDLESS]), np.array([r]))[:, 0, 0]
    except FitError:  # the law has no limit there
        return np.array([-math.inf])


def without(question: Question, sides: Sequence[Side], bases: Mapping[str, Base]) -> Question:
    """The same question about other posteriors, such as point fits."""
    sources = tuple(s for s in sides if s.name in {o.name for o in question.sources})
    target = next((s for s in sides if question.target is not None and s.name == question.target.name), None)
    promised = promises_of(sources, target, question.forgettings, bases, question.loss)
    return replace(question, sources=sources, target=target, bases=bases, search=replace(question.search, promises=promised))
