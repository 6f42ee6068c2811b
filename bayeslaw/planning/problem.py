"""The problem that a plan solves: whose losses, under which limits, at which tokens and replay shares, and what is minimised."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, FitError, as_mapping, nearest
from bayeslaw.core.text import compact
from bayeslaw.data.magnitudes import LEAST_USUAL
from bayeslaw.data.validate import from_scratch
from bayeslaw.forecasting.stack import Posterior, Stack, laws_of, paired, require_losses
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law
from bayeslaw.planning.arguments import (
    UNIT_ASKED,
    Range,
    as_number,
    check_passed,
    read_once,
    read_range,
    require_covariates,
    setting,
)
from bayeslaw.planning.base_loss import BaseLoss, base_loss
from bayeslaw.planning.domain_loss import DomainLoss, domain_loss
from bayeslaw.planning.prices import EXAMPLE_PRICE, Prices, check_size
from bayeslaw.planning.search import Box, Constraint, Search, behind, values_at
from bayeslaw.posterior.fit import Fit, require_fits

OBJECTIVES = ("tokens", "flops", "hours", "cost", "replay", "target-loss", "source-loss")
CHOSEN = {  # by a plan, and how each is limited
    "D": "--tokens 1e9:1e11, tokens='1e9:1e11'", "r": "--replay 0.25, replay=0.25", "atpp": "--atpp 1:20, atpp='1:20'",
}  # fmt: skip
EXAMPLE_LEVELS = "{'domain': 'web'}"  # of columns by which parameters vary
LEAST_DRAWS = 2_000
HALF = 0.5  # of the base loss: a larger rise in its unit is taken for a percentage without its sign
BEYOND = 10.0  # factor by which the box exceeds the logged tokens where no limits are stated
FREE = 1e-300  # money for a token that costs nothing: of places that cost nothing the one with the fewest tokens is chosen
ENDLESS = math.log(1e60)  # log tokens that stand for no end


@dataclass(frozen=True, eq=False)
class PlanProblem:
    """What a plan minimises, and under which constraints."""

    sources: tuple[DomainLoss, ...]
    target: DomainLoss | None
    base_losses: Mapping[str, BaseLoss]  # by source, as are limits of forgetting
    forgetting: Mapping[str, ForgettingLimit]
    max_loss: float  # inf where there is no limit
    box: Box
    minimise: str  # one of `OBJECTIVES`
    prices: Prices
    settings: Mapping[str, float]  # the model: N and whatever else the laws need
    budgets: tuple[Constraint, ...]  # of what is uncertain; certain ones are in the box

    @property
    def losses(self) -> tuple[DomainLoss, ...]:
        """The losses of all domains, sources first."""
        return (*self.sources, *([self.target] if self.target else []))

    @property
    def size(self) -> int:
        """Number of draws."""
        return self.losses[0].size

    @cached_property
    def of_fit(self) -> Index:
        """From which fits the losses of each draw (S,) are, as codes: posteriors that are stacks have several."""
        selections = [loss.posterior.selections for loss in self.losses]
        codes = [np.repeat([id(fit) for fit, _ in of], [chosen.size for _, chosen in of]) for of in selections]
        return np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()

    @property
    def n(self) -> float:
        """Parameters of the model; nan where none are given."""
        return self.settings.get("N", math.nan)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The losses, and uncertain costs, with their limits in each draw."""
        return (*self.loss_constraints, *self.budgets)

    @cached_property
    def loss_constraints(self) -> tuple[Constraint, ...]:
        """The losses with their limits in each draw."""
        rows = []
        for source in self.sources:
            if source.name in self.forgetting:
                limit = self.forgetting[source.name].log_limit(self.base_losses[source.name].log)
                rows.append(Constraint(f"forgetting of {source.name}", source, limit))
        if self.target is not None and math.isfinite(self.max_loss):
            rows.append(Constraint("target loss", self.target, np.full(self.target.size, math.log(self.max_loss))))
        return tuple(rows)

    @property
    def texts(self) -> tuple[str, ...]:
        """The constraints in words."""
        limits = {name: limit.text(self.base_losses[name].log) for name, limit in self.forgetting.items()}
        texts = [f"loss of {name} rises by at most {limit} over its base" for name, limit in limits.items()]
        if self.target is not None and math.isfinite(self.max_loss):
            texts.append(f"target loss at most {self.max_loss:g} {self.target.unit}")
        texts += [f"{budget.name} at most {compact(math.exp(float(budget.limit[0])))}" for budget in self.budgets]
        return tuple(texts)

    @property
    def objective(self) -> DomainLoss | LargestRise | None:
        """The loss that is minimised; None where tokens, FLOPs, cost or replay are."""
        if self.minimise == "target-loss":
            return self.target
        if self.minimise == "source-loss":
            return LargestRise(self.sources, tuple(self.base_losses[s.name].log for s in self.sources))
        return None

    @property
    def search(self) -> Search:
        return Search(self.constraints, self.box, self.log_price)

    def log_price(self, r: float) -> float:
        """Log of the cost of a token at a replay share; 0 where another thing than the cost is minimised."""
        if self.minimise != "cost":
            return 0.0
        return math.log(max(float(np.mean(self.prices.token("cost", r, self.n))), FREE))

    def with_losses(self, losses: Sequence[DomainLoss], base_losses: Mapping[str, BaseLoss]) -> PlanProblem:
        """The same problem with other losses of the same domains, in the same order."""
        count = len(self.sources)
        target = losses[count] if self.target is not None else None
        return replace(self, sources=tuple(losses[:count]), target=target, base_losses=base_losses)

    def check_reachable(self, draws: Index, confidence: float) -> None:
        """Refuse a largest target loss below the asymptote of all draws (s,), or one that the base checkpoint already has."""
        target, limit, box = self.target, self.max_loss, self.box
        if target is None or not math.isfinite(limit):
            return
        shares = np.unique([*box.replays[:: max(1, box.replays.size // 8)], *box.replay])
        least = min(_asymptote(target, draws, float(r)) for r in shares)
        if math.log(limit) < least:
            raise BayeslawError(
                f"max-loss {limit:g} {target.unit} lies below what any draw of {target.posterior.name} reaches with however many "
                f"tokens, {math.exp(least):.4g}.",
                code="unreachable-loss",
            )
        if self.minimise in ("target-loss", "source-loss"):
            return
        if not target.why_no_base:
            base, origin = target.at_base(draws), f"by {target.posterior.name} at D = 0"
        else:
            try:
                base, origin = base_loss(target, "measured", 0).log, "as measured at D = 0"
            except BayeslawError:  # no base checkpoint of this model was measured
                return
        share = float((base <= math.log(limit)).mean())
        if share >= confidence:
            raise BayeslawError(
                f"max-loss {limit:g} {target.unit} is already met at ATPP 0, with probability {share:.3f}: the base checkpoint's "
                f"target loss is {math.exp(float(np.median(base))):.4g} {origin}. It needs no adaptation.",
                code="loss-already-met",
            )


@dataclass(frozen=True, eq=False)
class LargestRise:
    """The largest relative rise of the source losses over their base losses, as a logarithm."""

    sources: tuple[DomainLoss, ...]
    log_bases: tuple[Array, ...]

    def values(self, draws: Index, x: Array, r: float | Array, axes: int) -> Array:
        pairs = zip(self.sources, self.log_bases, strict=True)
        return np.asarray(np.max([s.values(draws, x, r, axes) - behind(base[draws], axes) for s, base in pairs], axis=0))


@dataclass(frozen=True)
class ForgettingLimit:
    """The largest rise of a source loss: relative to its base loss, or in its unit."""

    amount: float
    relative: bool
    unit: str

    @classmethod
    def of(cls, value: str | float, unit: str) -> ForgettingLimit:
        """Read '2%' (of the base loss) or 0.05 (in a unit)."""
        text = str(value).strip()
        amount = as_number(text.removesuffix("%"))
        if not math.isfinite(amount):
            raise BayeslawError(
                f"max-forgetting is a rise of the source loss, such as 2% of its base loss or 0.05 {unit}, not {text!r}.",
                code="unreadable-forgetting",
            )
        relative = text.endswith("%")
        if relative and amount <= -100:
            raise BayeslawError(
                f"max-forgetting {text} leaves no positive source loss: it must lie above -100%.", code="impossible-forgetting"
            )
        return cls(amount / 100 if relative else amount, relative, unit)

    def log_limit(self, base: Array) -> Array:
        """Log of the largest source loss (S,), from the log of the base loss (S,)."""
        if self.relative:
            return base + math.log1p(self.amount)
        median = float(np.exp(np.median(base)))
        if self.amount > HALF * median:
            raise BayeslawError(
                f"max-forgetting {self.amount:g} {self.unit} is more than half of the base loss, {median:.4g}: is it a percentage? "
                f"Write {self.amount:g}%.",
                code="forgetting-not-percent",
            )
        loss = np.exp(base) + self.amount
        if not (loss > 0).all():
            raise BayeslawError(
                f"max-forgetting {self.amount:g} {self.unit} leaves no positive source loss: its base loss is {median:.4g}.",
                code="impossible-forgetting",
            )
        return np.asarray(np.log(loss))

    def text(self, base: Array) -> str:
        """The limit in words; one in a unit also in percent of the base loss, whose log (S,) is given, since 0.02 is not 2%."""
        if self.relative:
            return f"{100 * self.amount:+g}%"
        return f"{self.amount:+g} {self.unit} ({100 * self.amount / float(np.exp(np.median(base))):+.2g}%)"


def by_name[P: Fit | Stack | PointFit](source: P | Mapping[str, P] | None) -> dict[str, P]:
    """The sources by name; one that has none is called 'source'."""
    if isinstance(source, Mapping):
        return dict(source)
    return {} if source is None else {"source": source}


def checked_posteriors(posteriors: Sequence[Posterior], force: bool) -> list[Posterior]:
    """The posteriors with draws that may be paired, and one object for all copies of a fit that was read twice.

    Point fits, fits whose checks failed (unless forced), laws without tokens, and too few draws are refused.
    """
    if not posteriors:
        raise BayeslawError("A plan needs a fit of the target's losses, of the source's, or of both.", code="no-posterior")
    require_fits(*posteriors, points=True)
    for posterior in posteriors:
        if isinstance(posterior, PointFit):
            raise BayeslawError(
                "A plan needs posteriors; give point fits as `points`, for the deterministic plan beside it.",
                code="not-a-posterior",
            )
        require_losses([posterior], "a plan")
        check_passed(posterior, force)
        if without := [law.name for law in laws_of([posterior]) if "D" not in law.covariates]:
            raise BayeslawError(f"{without[0]} has no tokens D, so there is nothing to plan with it.", code="law-without-tokens")
        if posterior.size < LEAST_DRAWS:
            raise BayeslawError(
                f"A plan needs at least {LEAST_DRAWS:,} draws; {posterior.name} has {posterior.size:,}. Fit with more draws.",
                code="too-few-draws",
            )
    return paired(read_once(posteriors))


def check_domains(source: bool, target: bool, base_loss: Any, source_levels: Any, target_levels: Any) -> None:
    """Refuse base losses and levels that are given for a domain without a fit, where they would do nothing.

    Parameters
    ----------
    source, target : bool
        Whether there are source fits and a target fit.
    base_loss, source_levels, target_levels
        As in `plan`.
    """
    given = [
        ("base_loss", base_loss, "source", source),
        ("source_levels", source_levels, "source", source),
        ("target_levels", target_levels, "target", target),
    ]
    for name, value, role, has_fit in given:
        if value not in (None, "", {}) and not has_fit:
            raise BayeslawError(f"{name} is about the {role} domain: give its fit (--{role}, {role}=).", code="missing-fit")


def check_settings(settings: Mapping[str, Any], posteriors: Sequence[Posterior]) -> dict[str, float]:
    """Settings of the plan as numbers; those that are unknown, or chosen by the plan itself, are refused."""
    settings = as_mapping(settings, "{'N': 1e9}")
    known = {name for law in laws_of(posteriors) for name in (*law.measured, *law.levels)}
    model = dict[str, float]()
    for name, value in settings.items():
        if name in CHOSEN:
            raise BayeslawError(f"{name} is chosen by the plan; limit it instead ({CHOSEN[name]}).", code="setting-chosen-by-plan")
        require_covariates({name} - {"N"}, known)
        model[name] = setting(name, value)
        if name in ("N", "ptpp") and model[name] <= 0:
            raise BayeslawError(f"{name} must be positive, not {value}.", code="setting-not-positive")
        if name == "N" and name not in known and model[name] < LEAST_USUAL:  # else the laws say whether they describe it
            raise BayeslawError(f"N = {value} is small: {UNIT_ASKED} the number of parameters.", code="out-of-support")
    return model


def forgetting_limits(given: Any, sources: Mapping[str, Posterior]) -> dict[str, ForgettingLimit]:
    """Limits of forgetting by source, from one for all or one for each."""
    if given is None:
        return {}
    if not sources:
        raise BayeslawError("max-forgetting is about a source domain: give its fit (--source, source=).", code="missing-fit")
    limits = dict(given) if isinstance(given, Mapping) else dict.fromkeys(sources, given)
    for name in limits:
        if name not in sources:
            raise BayeslawError(
                f"max-forgetting names {name!r}; the sources are {', '.join(sources)}.{nearest(name, sources)}",
                code="unknown-source",
            )
    return {name: ForgettingLimit.of(value, sources[name].unit) for name, value in limits.items()}


def check_objective(minimise: str, sources: bool, target: bool, forgetting: bool, limited: bool, prices: Prices, n: float) -> None:
    """Refuse an objective or a limit whose fit, price or number of parameters is missing.

    Parameters
    ----------
    minimise, prices, n
        As in `PlanProblem`; n is nan where no N is given.
    sources, target, forgetting, limited : bool
        Whether there are source fits, a target fit, limits of forgetting and a largest target loss.
    """
    if minimise not in OBJECTIVES:
        raise BayeslawError(f"{minimise!r} can't be minimised; choose one of {', '.join(OBJECTIVES)}.", code="unknown-objective")
    unlimited = not forgetting and not limited and minimise not in ("target-loss", "source-loss")
    obstacles = [
        (limited and not target, "max-loss is about the target domain: give its fit (--target, target=).", "missing-fit"),
        (minimise == "target-loss" and not target, "To minimise target-loss, give the target's fit.", "missing-fit"),
        (minimise == "source-loss" and not sources, "To minimise source-loss, give the source's fit.", "missing-fit"),
        (unlimited, "There is no constraint: give max-forgetting, max-loss, or both.", "no-constraint"),
        (minimise == "cost" and not prices.given, f"To minimise cost, give prices {EXAMPLE_PRICE}.", "missing-price"),
    ]
    for met, message, code in obstacles:
        if met:
            raise BayeslawError(message, code=code)
    if minimise == "hours":
        prices.life.require("hours")
    if minimise in ("flops", "hours") or prices.needs_size:
        check_size(n, "FLOPs")


def logged_tokens(posteriors: Sequence[Posterior | PointFit]) -> tuple[float, float, bool]:
    """Fewest and most tokens above 0 in the fits' runs; per parameter, and True, where all laws have N."""
    tables = [fit.observed.covariates for p in posteriors for fit, _ in p.selections]
    per_parameter = all("N" in table for table in tables)
    values = [(table["D"] / table["N"] if per_parameter else table["D"])[table["D"] > 0] for table in tables]
    return min(float(v.min()) for v in values), max(float(v.max()) for v in values), per_parameter


def box_of(
    posteriors: Sequence[Posterior], n: float, *, replay: Range, atpp: Range, tokens: Range, budget: Callable[[float], float]
) -> Box:
    """The tokens and replay shares that the plan may have.

    Parameters
    ----------
    posteriors : sequence of Fit or Stack
    n : float
        Parameters of the model; nan where none are given.
    replay, atpp, tokens, budget
        As in `plan` and in `Box`.
    """
    laws = laws_of(posteriors)
    low, high, listed_tokens = _tokens_allowed(posteriors, n, atpp, tokens)
    replays, listed_replays = _replays_allowed(laws, replay)
    if listed_tokens is None:
        supports = [law.covariates["D"].support for law in laws]
        low, high = max([low, *(least for least, _ in supports)]), min([high, *(most for _, most in supports)])
    most_allowed = max(budget(float(r)) for r in (replays if listed_replays is None else listed_replays))
    if most_allowed < math.log(low):
        raise BayeslawError(
            f"The budget allows {math.exp(most_allowed):.3g} tokens, fewer than the least considered, {low:.3g}; lower that limit "
            "(--atpp or --tokens, atpp= or tokens=).",
            code="budget-too-small",
        )
    x = None if listed_tokens is None else np.log(listed_tokens)
    return Box(math.log(low), math.log(high), replays, x, listed_replays, budget)


def _tokens_allowed(posteriors: Sequence[Posterior], n: float, atpp: Range, tokens: Range) -> tuple[float, float, Array | None]:
    """The fewest and the most tokens that a plan may have, and the only ones where they are listed."""
    if atpp is not None and tokens is not None:
        raise BayeslawError("Give limits of ATPP or of tokens, not both.", code="atpp-and-tokens")
    if atpp is not None:
        check_size(n, "ATPP")
        (low, high, listed), unit = read_range("ATPP", atpp), n
    elif tokens is not None:
        (low, high, listed), unit = read_range("tokens", tokens), 1.0
    else:
        least, most, per_parameter = logged_tokens(posteriors)
        low, high, listed, unit = least / BEYOND, most * BEYOND, None, n if per_parameter else 1.0
    if low <= 0:
        raise BayeslawError(f"A plan's tokens must be more than 0, not {low:g}; D = 0 is the base checkpoint.", code="no-tokens")
    return low * unit, high * unit, None if listed is None else listed * unit


def _replays_allowed(laws: Sequence[Law], replay: Range) -> tuple[tuple[float, float], Array | None]:
    """The smallest and the largest replay share that a plan may have, and the only ones where they are listed."""
    first, last, listed = read_range("replay", replay) if replay is not None else (0.0, 1.0, None)
    for value in (first, last):
        if not 0 <= value <= 1:
            hint = f": is it a percentage? Write {value / 100:g} for {value:g}%" if 1 < value <= 100 else ""
            raise BayeslawError(f"A replay share must lie between 0 and 1, not at {value:g}{hint}.", code="replay-not-a-share")
    if any("r" in law.covariates for law in laws):
        return (first, last), listed
    if last > 0 and replay is not None:
        raise BayeslawError(
            f"{laws[0].name} has no replay share r, so limits of it would do nothing: leave them out (--replay, replay=).",
            code="law-without-replay",
        )
    return (0.0, 0.0), None


def domain_losses(
    sources: Mapping[str, Posterior | PointFit],
    target: Posterior | PointFit | None,
    settings: Mapping[str, float],
    box: Box,
    source_levels: Mapping[str, Any] | None,
    target_levels: Mapping[str, str] | None,
    starts: Mapping[str, Mapping[str, float]],
) -> list[DomainLoss]:
    """The losses of all domains by the laws alone, sources first.

    Parameters
    ----------
    sources, target, settings, source_levels, target_levels
        As in `plan`.
    box : Box
        Settings are checked at its corners.
    starts : mapping of source to mapping
        Further settings of sources, as of `bayeslaw.planning.base_loss.start_of`.
    """
    corners = pd.DataFrame([{"D": d, "r": r} for d in (math.exp(box.low), math.exp(box.high)) for r in box.replay])
    levels = as_mapping(source_levels, EXAMPLE_LEVELS, "Levels of sources")
    by_source = any(isinstance(value, Mapping) for value in levels.values())
    domains: list[Any] = [(name, p, levels.get(name) if by_source else levels, "source") for name, p in sources.items()]
    domains += [("target", target, target_levels, "target")] if target is not None else []
    for name, posterior, _, role in domains:
        _check_domain(name, posterior, role)
    return [
        domain_loss(name, p, {**settings, **starts.get(name, {})}, _levels(p, given, name, role), corners)
        for name, p, given, role in domains
    ]


def _check_domain(name: str, posterior: Posterior | PointFit, role: str) -> None:
    """Refuse a law of source losses for the target, one of target losses for a source, and a law without an adaptation for one."""
    for fit, _ in posterior.selections:
        if role == "source" and from_scratch(fit.law):
            message = (
                f"{fit.law.name} is a law of training from scratch, and is given as {name}, a source: it does not say what an "
                "adaptation forgets. Fit a law of adaptations, such as from-base-source, to the losses of the source."
            )
            raise BayeslawError(message, code="law-without-adaptation")
        if fit.law.one_domain not in ("", role):
            given = "as the target" if role == "target" else f"as {name}, a source"
            message = f"{fit.law.name} describes losses of the {fit.law.domain}, and is given {given}: exchange source and target."
            raise BayeslawError(message, code="law-of-another-domain")


def _levels(posterior: Posterior | PointFit, given: Mapping[str, str] | None, name: str, role: str) -> dict[str, str]:
    """The value of each column by which parameters are pooled: as given, or else that with the name or role of the domain."""
    chosen = as_mapping(given, EXAMPLE_LEVELS, f"Levels of the {role}")
    known = [*posterior.levels, *{fit.observed.group_column for fit, _ in posterior.selections if fit.observed.group_column}]
    if strange := [column for column in chosen if column not in known]:
        differ = f"they differ by {', '.join(known)}" if known else "they differ by no column"
        problem = (
            f"Parameters of {posterior.name} don't differ by {strange[0]!r}, of which a value is given for the {role}; {differ}."
        )
        raise BayeslawError(f"{problem}{nearest(strange[0], known)}", code="unknown-column")
    for column, values in posterior.levels.items():
        if own := [value for value in (name, role) if value in values]:
            chosen.setdefault(column, own[0])
        if column not in chosen:
            raise BayeslawError(
                f"{posterior.name} has parameters for each {column} ({', '.join(values)}); say which of them is the {role} "
                f"(--{role}-set {column}={values[0]}, {role}_levels={{{column!r}: {values[0]!r}}}).",
                code="missing-level",
            )
    return {k: str(v) for k, v in chosen.items()}


def _asymptote(loss: DomainLoss, draws: Index, r: float) -> float:
    """The least log loss of the draws (s,) with tokens without end; -inf where the law has no finite loss there."""
    try:
        return float(values_at(loss, draws, ENDLESS, r).min())
    except FitError:
        return -math.inf
