"""The search for the size and tokens of a model by whole-life costs, with a stated probability; see `whole_life`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import compact
from bayeslaw.planning.confidence import enough, in_words, share_with_error
from bayeslaw.planning.life_costs import UNITS, LifeCosts
from bayeslaw.planning.optimum import least_along
from bayeslaw.planning.search import ROUNDING, narrowed
from bayeslaw.planning.stages import support
from bayeslaw.posterior.discrepancy import DrawnErrors
from bayeslaw.posterior.draws import JoinedDraws, LawDraws

SIZES, TOKENS = 61, 33  # points of the grids of log N and log D
# Log N is refined in rounds, each with some points around every place that is kept. The cost or loss that a share of draws keeps
# jumps from one N to the next, as other draws decide: with several places the least is known to some 1e-5 of it.
ROUNDS, NEAR, KEPT = 6, 9, 4
LIMITS = 17  # tokens that are tried first at a size: quantiles of what the draws can afford; up to twice as many in a second round
HUGE = 1e6  # the margin below 0 that stands for a loss that is no number: a root finder needs a finite one
BISECTIONS = 32  # of log D, where each draw has its own tokens


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses of a posterior's draws at N and D.

    Attributes
    ----------
    laws : tuple of LawDraws
        Functions of N and D.
    shift : array (S,)
        Added to log losses: the law's error, which is the same at all places that are compared, and noise of the next run.
    errors : tuple of DrawnErrors or None
        Errors of each law, None where it learnt none: errors beyond the runs that the shift has only by `erring_at`.
    """

    laws: tuple[LawDraws, ...]
    shift: Array
    errors: tuple[DrawnErrors | None, ...] = ()

    @property
    def size(self) -> int:
        """Number of draws."""
        return self.shift.size

    @property
    def of_law(self) -> Index:
        """The number of the law that each draw (S,) is of."""
        return np.repeat(np.arange(len(self.laws)), [law.size for law in self.laws])

    @property
    def support(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The ranges of log N and log D that all laws allow, D from one token on."""
        (low_n, high_n), (low_d, high_d) = support(law.law for law in self.laws)
        return (math.log(low_n), math.log(high_n)), (math.log(low_d), math.log(high_d))

    def of(self, draws: Index) -> Losses:
        """The losses by some of the draws alone, whose numbers (s,) ascend; errors of laws that the shift lacks are left out."""
        laws = (law.of(own) for law, _, own in JoinedDraws(self.laws).parts(draws))
        return Losses(tuple(law for law in laws if law.size), self.shift[draws])

    def erring_at(self, n: float, d: float) -> Losses:
        """The losses with the error that each law has at one place, the same wherever they are asked for."""
        added = []
        for law, drawn in zip(self.laws, self.errors, strict=True):
            added.append(np.zeros(law.size) if drawn is None else drawn.at({**law.constants, "N": n, "D": d})[0])
        return Losses(self.laws, self.shift + np.concatenate(added))

    def log(self, n: float | Array, d: Array, axes: int) -> Array:
        """Log losses; with `axes=1` at D (m,) as (S, m), with `axes=0` at places of each draw (S,). Not finite is inf."""
        with np.errstate(all="ignore"):
            out = np.log(JoinedDraws(self.laws).outcome({"N": np.reshape(n, np.shape(n) or 1), "D": d}, axes=axes))
        out += self.shift[:, None] if axes else self.shift
        out[~np.isfinite(out)] = np.inf
        return out


@dataclass(frozen=True)
class LifeChoice:
    """A size and its tokens, with what they cost and the probability with which they keep what was asked.

    Attributes
    ----------
    N, D : float
    loss : float
        The loss that is stayed under: the target, or the least that can be guaranteed within the budget.
    costs : mapping of unit to float
        Mean whole-life costs in every unit that is known.
    serving, unit : float, str
        The share of serving in the mean cost, in the unit that is limited or minimised ('flops', 'hours' or 'cost').
    confidence, searched, held_out, held_out_se : float
        What was searched for, and the shares of searched and held-out draws that keep it, the latter with its Monte Carlo error.
    """

    N: float
    D: float
    loss: float
    costs: Mapping[str, float]
    serving: float
    unit: str
    confidence: float
    searched: float
    held_out: float
    held_out_se: float

    @property
    def probability(self) -> str:
        """The held-out probability, with its error, in words."""
        return in_words(self.held_out, self.held_out_se)

    @property
    def place(self) -> str:
        """Size and tokens in words."""
        return f"N = {compact(self.N)}, {compact(self.D)} tokens ({compact(self.D / self.N)} per parameter)"

    def text(self) -> str:
        """Size, tokens and costs in words."""
        spent = [f"{compact(value)} {UNITS[unit]}" for unit, value in self.costs.items()]
        return f"{self.place}; whole life {', '.join(spent)}; {self.serving:.0%} of the {UNITS[self.unit]} for serving"


type _Place = tuple[float, float, float]  # the log cost or log loss that is minimised, N and D


@dataclass(frozen=True, eq=False)
class LifeSearch:
    """Searches one half of the draws, and scores choices by the other half."""

    losses: Losses
    costs: LifeCosts
    value: float  # the budget, or the target loss
    unit: str
    budgeted: bool
    span: tuple[float, float]  # of log N
    menu: Array | None
    searched: Index
    held_out: Index

    @cached_property
    def _in_search(self) -> Losses:
        return self.losses.of(self.searched)

    def frontier(self, levels: Sequence[float]) -> list[LifeChoice | None]:
        """The choice for each confidence."""
        places = self._search(levels)
        if all(place is None for place in places):
            self._refuse()
        return [self.scored(place, level) for place, level in zip(places, levels, strict=True)]

    def at_sizes(self, sizes: Array, confidence: float) -> list[LifeChoice | None]:
        """The choice at each of some sizes (m,)."""
        tokens, values = self._best_tokens(sizes, [enough(confidence, self.searched.size)])
        places = zip(values[:, 0].tolist(), sizes.tolist(), tokens[:, 0].tolist(), strict=True)
        return [self.scored(place if math.isfinite(place[0]) else None, confidence) for place in places]

    @cached_property
    def deterministic(self) -> LifeChoice | None:
        """The choice by the median loss over draws and by the median of every amount."""
        by_medians = replace(self, costs=self.costs.median())
        return self.scored(by_medians._search([0.5])[0], math.nan)

    def training_only(self, confidence: float) -> LifeChoice | None:
        """The choice for a target loss by the costs of training alone; None where nothing is served, so that it is the same."""
        if not self.costs.serves:
            return None
        unserved = replace(self, costs=replace(self.costs, served=np.zeros_like(self.costs.served)))
        return self.scored(unserved._search([confidence])[0], confidence)

    def erring_at(self, choice: LifeChoice) -> LifeSearch:
        """The search with the law's error at the place of a choice."""
        return replace(self, losses=self.losses.erring_at(choice.N, choice.D))

    def _search(self, levels: Sequence[float]) -> list[_Place | None]:
        """The best place for each confidence; None where there is none."""
        sizes, needed = self._sizes, [enough(level, self.searched.size) for level in levels]
        tokens, values = self._best_tokens(sizes, needed)
        best: list[_Place | None] = []
        for i, k in enumerate(needed):
            kept: list[_Place] = sorted(zip(values[:, i].tolist(), sizes.tolist(), tokens[:, i].tolist(), strict=True))[:KEPT]
            step = (self.span[1] - self.span[0]) / (SIZES - 1)
            for _ in range(ROUNDS if self.menu is None and step and math.isfinite(kept[0][0]) else 0):
                around = step * np.linspace(-1, 1, NEAR)
                near = np.exp(sorted({p for _, n, _ in kept for p in np.clip(math.log(n) + around, *self.span).tolist()}))
                tried = self._best_tokens(near, [k])
                kept = sorted({*kept, *zip(tried[1][:, 0].tolist(), near.tolist(), tried[0][:, 0].tolist(), strict=True)})[:KEPT]
                step *= 2 / (NEAR - 1)
            best.append(kept[0] if math.isfinite(kept[0][0]) else None)
        return best

    @property
    def _sizes(self) -> Array:
        """The menu, or sizes evenly spaced in log N over the range that is searched."""
        return self.menu if self.menu is not None else np.exp(np.linspace(*self.span, SIZES))

    def _best_tokens(self, sizes: Array, needed: Sequence[int]) -> tuple[Array, Array]:
        """The best tokens (m, k) at sizes (m,) for each number of draws needed, and the least log costs or log losses."""
        keys = [(n, *needed) for n in sizes.tolist()]
        if new := [key for key in dict.fromkeys(keys) if key not in self._tried]:
            search = self._tokens_of_least_loss if self.budgeted else self._tokens_of_least_cost
            self._tried.update(zip(new, zip(*search(np.array([n for n, *_ in new]), needed), strict=True), strict=True))
        tokens, values = zip(*(self._tried[key] for key in keys), strict=True)
        return np.array(tokens), np.array(values)

    @cached_property
    def _tried(self) -> dict[tuple[float, ...], tuple[Array, Array]]:
        """The best tokens of sizes that were tried: a quarter of those around a place lie around another one too."""
        return {}

    def _tokens_of_least_cost(self, sizes: Array, needed: Sequence[int]) -> tuple[Array, Array]:
        """The fewest tokens with which enough draws reach the loss at each size, and the log of the mean cost with them."""
        training, serving = self._means
        with np.errstate(over="ignore"):
            tokens = np.exp(self._fewest_tokens(sizes, np.array(needed)))
            return tokens, np.log(sizes)[:, None] + np.log(training * tokens + serving)

    def _fewest_tokens(self, sizes: Array, needed: Index) -> Array:
        """Log of the fewest tokens (m, k) with which so many draws reach the loss at each size; inf where none are enough.

        They are looked for on a grid, and then below the first place where enough draws reach the loss, for all sizes together.
        """
        most, grid = math.log(self.value), np.linspace(*self.losses.support[1], TOKENS)

        def margins(pair: Index, places: Array) -> Array:
            """By how much at least the draws that are needed stay under the loss."""
            logs = self._in_search.log(sizes[of_size[pair]], np.exp(places), 1)
            ranks = needed[of_level[pair]] - 1
            kept = np.partition(logs, np.unique(ranks), axis=0)[ranks, np.arange(pair.size)]
            return np.maximum(most - kept, -HUGE)

        # To count draws takes a tenth of the time of ordering them.
        on_grid = [np.count_nonzero(self._in_search.log(n, np.exp(grid), 1) <= most, axis=0) for n in sizes.tolist()]
        reached = np.array(on_grid)[:, None, :] >= needed[:, None]
        first = reached.argmax(axis=-1)
        fewest = np.where(reached.any(axis=-1), grid[first], np.inf)
        of_size, of_level = np.nonzero(np.isfinite(fewest) & (first > 0))
        inside = first[of_size, of_level]
        fewest[of_size, of_level] = narrowed(margins, grid[inside], grid[inside - 1])
        return fewest

    def _tokens_of_least_loss(self, sizes: Array, needed: Sequence[int]) -> tuple[Array, Array]:
        """The tokens (m, k) for which the loss that enough draws stay under, within the budget, is least; and these log losses."""
        tokens, values = (
            np.array(of_sizes) for of_sizes in zip(*(self._least_loss(n, needed) for n in sizes.tolist()), strict=True)
        )
        return tokens, values

    def _least_loss(self, n: float, needed: Sequence[int]) -> tuple[Array, Array]:
        """The tokens (k,) at a size for which the loss that enough draws stay under is least, and these log losses."""
        low, high = (math.exp(end) for end in self.losses.support[1])
        most = self._affordable(n, self.searched)
        tokens, values = np.full(len(needed), np.nan), np.full(len(needed), np.inf)

        def least(d: Array, k: int) -> tuple[int, float]:
            logs = self._in_search.log(n, d, 1)
            logs[d[None, :] > most[:, None] * (1 + ROUNDING)] = np.inf
            kept = np.partition(logs, k - 1, axis=0)[k - 1]
            return int(kept.argmin()), float(kept.min())

        for i, k in enumerate(needed):
            # The loss that k draws stay under jumps where a draw can't pay any more, and falls towards these limits.
            shares = np.linspace(0, 1, LIMITS if np.ptp(most) else 1) * (1 - k / most.size)
            d = np.unique(np.clip(np.quantile(most, shares, method="lower"), low, high))
            j, value = least(d, k)
            if not math.isfinite(value):
                continue
            tokens[i], values[i] = d[j], value
            if d.size == 1:
                continue
            first, last = d[max(j - 1, 0)], d[min(j + 1, d.size - 1)]
            limits = np.unique(most[(most >= first) & (most <= last)])
            d = np.append(np.linspace(first, last, NEAR), limits[:: -(-limits.size // (2 * LIMITS)) or 1])
            j, value = least(d, k)
            if value < values[i]:
                tokens[i], values[i] = d[j], value
        return tokens, values

    @property
    def _means(self) -> tuple[float, float]:
        """Mean costs of training per parameter and token, and of serving per parameter."""
        return float(self.costs.training(self.unit).mean()), float(self.costs.serving(self.unit).mean())

    def _affordable(self, n: float, draws: Index) -> Array:
        """The most tokens (s,) that the budget leaves for training in each draw; not positive where serving alone takes it."""
        own = draws if self.costs.size > 1 else np.zeros(draws.size, dtype=np.int64)
        return np.asarray((self.value / n - self.costs.serving(self.unit, own)) / self.costs.training(self.unit, own))

    def scored(self, place: _Place | None, confidence: float) -> LifeChoice | None:
        """A place with its mean costs and its probabilities by searched and held-out draws."""
        if place is None:
            return None
        value, n, d = place
        loss = math.exp(value) if self.budgeted else self.value
        searched, held_out = (self._keeps(n, d, loss, draws) for draws in (self.searched, self.held_out))
        share, error = share_with_error(held_out, self.losses.of_law[self.held_out])
        training, serving = self._means
        return LifeChoice(
            N=n, D=d, loss=loss, costs=self.costs.means(n, d), serving=serving / (training * d + serving), unit=self.unit,
            confidence=confidence, searched=float(searched.mean()), held_out=share, held_out_se=error,
        )  # fmt: skip

    def _keeps(self, n: float, d: float, loss: float, draws: Index) -> NDArray[np.bool_]:
        """Which draws stay under the loss, and within the budget."""
        kept = self.losses.of(draws).log(n, np.array([d]), 1)[:, 0] <= math.log(loss) + ROUNDING
        if self.budgeted:
            kept &= d <= self._affordable(n, draws) * (1 + ROUNDING)
        return np.asarray(kept)

    def each_draw(self) -> tuple[Array, Array, Array, Array]:
        """N, D, loss and cost (S,) of the optimum of each draw by itself; inf in draws that reach a target loss at no size."""
        every = np.arange(self.losses.size)
        if self.menu is not None:
            tokens, objectives = self.own(self.menu, 1)
            best = objectives.argmin(axis=1)
            n, d, least = self.menu[best], tokens[every, best], objectives[every, best]
        else:
            objective = partial(self._objective, axes=0), partial(self._objective, axes=1)
            n = np.exp(least_along(*objective, *self.span, SIZES))
            d, least = self.own(n)
        never = np.isinf(least) & (not self.budgeted)
        loss, cost = np.exp(self.losses.log(n, d, 0)), self.costs.total(self.unit, n, d)
        n, d, loss, cost = (np.where(never, np.inf, values) for values in (n, d, loss, cost))
        return n, d, loss, cost

    def own(self, n: Array, axes: int = 0) -> tuple[Array, Array]:
        """Tokens of each draw, and what is minimised: the log loss or log cost; inf where none is.

        Both are (S,) at sizes (S,) of each draw and, with `axes=1`, (S, m) at sizes (m,).
        """
        column, (low, high) = (slice(None), *[None] * axes), self.losses.support[1]
        training, serving = self.costs.training(self.unit)[column], self.costs.serving(self.unit)[column]
        if self.budgeted:
            d = (self.value / n - serving) / training
            payable, d = d >= math.exp(low), np.clip(d, math.exp(low), math.exp(high))
            return d, np.where(payable, self.losses.log(n, d, axes), np.inf)
        a, b = (np.full((self.losses.size, *n.shape[:axes]), end) for end in (low, high))
        most = math.log(self.value)
        reached = self.losses.log(n, np.exp(b), axes) <= most
        for _ in range(BISECTIONS):
            middle = (a + b) / 2
            good = self.losses.log(n, np.exp(middle), axes) <= most
            a, b = np.where(good, a, middle), np.where(good, middle, b)
        d = np.exp(b)
        return d, np.where(reached, np.log(n * (training * d + serving)), np.inf)

    def _objective(self, log_n: Array, axes: int) -> Array:
        """What each draw minimises along log N, as in `own`."""
        return self.own(np.exp(log_n), axes)[1]

    def attainable(self) -> tuple[float, float]:
        """The largest share of the held-out draws that a size can keep what was asked in, and that size."""
        sizes = self._sizes.tolist()
        losses, (low, high) = self.losses.of(self.held_out), self.losses.support[1]
        if self.budgeted:
            shares = [float((self._affordable(n, self.held_out) >= math.exp(low)).mean()) for n in sizes]
        else:
            end = np.array([math.exp(high)])
            shares = [float((losses.log(n, end, 1) <= math.log(self.value)).mean()) for n in sizes]
        best = int(np.argmax(shares))
        return shares[best], sizes[best]

    def _refuse(self) -> None:
        """Say why no size keeps what was asked: a budget that is too small, or a loss that no draw reaches."""
        sizes = self._sizes.tolist()
        least = math.exp(self.losses.support[1][0])
        if self.budgeted:
            totals = [float(np.median(self.costs.total(self.unit, n, least))) for n in sizes]
            cheapest, i = min(totals), int(np.argmin(totals))
            if cheapest > self.value:
                raise BayeslawError(
                    f"The budget of {compact(self.value)} {UNITS[self.unit]} is less than the cheapest size takes before it is "
                    f"trained: {compact(cheapest)} at N = {compact(sizes[i])}. Allow more, or smaller sizes.",
                    code="budget-too-small",
                )
            return
        most = np.array([math.exp(self.losses.support[1][1])])
        lowest = min(float(self._in_search.log(n, most, 1).min()) for n in sizes)
        if lowest > math.log(self.value):
            raise BayeslawError(
                f"max_loss {self.value:g} lies below what any draw reaches with these sizes and however many tokens, "
                f"{math.exp(lowest):.4g}.",
                code="unreachable-loss",
            )
