"""Anchors: which runs, bought for a budget, make what one wants to know most certain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, nearest, whole_number
from bayeslaw.core.flops import Stages
from bayeslaw.core.intervals import check_probability
from bayeslaw.data.table import Runs
from bayeslaw.design.candidates import FLOPS, Candidates, read_candidates
from bayeslaw.design.information import build
from bayeslaw.design.search import ROUNDING, Market, choose
from bayeslaw.design.targets import Aim, aim_of, parameters_of
from bayeslaw.forecasting.discrepancy import relative
from bayeslaw.forecasting.forecast import from_shares
from bayeslaw.forecasting.stack import Posterior, check_pairing
from bayeslaw.posterior.diagnostics import LUCK, marked, spread_order

RANDOM = 100  # random designs beside the chosen one
WORTH = 0.10  # by how much a purchase must narrow the interval for each budget spent at its rate
TELLING = 0.02  # narrowing of a parameter's sd from which on a purchase is said to inform it


@dataclass(frozen=True)
class Anchors:
    """Runs to buy, in order, and what they promise.

    Attributes
    ----------
    market : Market
        Candidates, prices and what each would tell.
    bought : tuple of int
        Codes of the chosen runs in order of purchase.
    rounds : tuple of int
        The round in which each is bought.
    aim : Aim
    ci_prob : float
        Probability of the intervals whose widths are predicted.
    seed : int
    informed : mapping of parameter to array (p,)
        Draws of the parameters, where positive their logarithms and where shares their logits, in the ensemble's basis,
        in units of their sd.
    notes : tuple of str
    """

    market: Market
    bought: tuple[int, ...]
    rounds: tuple[int, ...]
    aim: Aim
    ci_prob: float
    seed: int
    informed: Mapping[str, Array]
    notes: tuple[str, ...]

    @property
    def candidates(self) -> Candidates:
        return self.market.candidates

    @property
    def width_name(self) -> str:
        """Column of the predicted widths: latent_eti90_width."""
        return f"{self.aim.kind}_eti{self.ci_prob * 100:g}_width"

    @property
    def spent(self) -> float:
        """What all picks cost together."""
        return self.market.bill(self.bought)

    def _widths(self, covariance: Array) -> Array:
        """Predicted widths of the targets' intervals (q,)."""
        ensemble = self.market.ensemble
        return self.aim.widths * np.sqrt(ensemble.variances(covariance) / ensemble.variances(np.eye(ensemble.rank)))

    def width(self, bought: Sequence[int]) -> float:
        """Predicted width of the targets' intervals, weighted mean, once some runs are bought."""
        return float(self._widths(self.market.ensemble.covariance(bought)) @ self.aim.weights)

    @cached_property
    def picks(self) -> pd.DataFrame:
        """The purchases in order.

        Returns
        -------
        DataFrame
            round, run, the run's settings (D as `D_last`, and `points`, the number of evaluations), cost, checkpoint_cost (where
            it is paid with this run), spent so far, gain (share of the targets' variance that it takes away), the predicted
            width of the interval after it, `informs` (parameters that it tells, with how much their sd narrows), and `worth`:
            false from where on no number of further purchases narrows the interval enough for their price together, which is
            by `WORTH` or more if the whole budget were spent at that rate. So a run that pays for a checkpoint is judged with
            those that need it. `checks` says 'passed' or 'FAILED (forced)'.
        """
        at, path, states = self.candidates, self._path("chosen", 0, self.bought), self._states(self.bought)
        before, rows = next(states), []
        for i, (run, after) in enumerate(zip(self.bought, states, strict=True)):
            was, now = path.iloc[i], path.iloc[i + 1]
            checkpoint = at.checkpoint[run]
            paid, extra = checkpoint in at.checkpoint[list(self.bought[:i])], float(at.price[checkpoint])
            row = {"round": self.rounds[i], "run": at.names[run], **self._setting(run), "cost": at.cost[run]}
            row |= {"checkpoint_cost": 0.0 if paid else extra, "spent": now["spent"]}
            row |= {"gain": was["variance"] - now["variance"], self.width_name: now[self.width_name]}
            rows.append(row | {"informs": self._informs(before, after), "worth": i < self._worthwhile})
            before = after
        return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="order")).assign(checks=marked(self.aim.forced))

    def _states(self, picks: Sequence[int]) -> Iterator[Array]:
        """Covariances (p, p) in the ensemble's basis: before any purchase, and after each."""
        covariance = np.eye(self.market.ensemble.rank)
        yield covariance
        for run in picks:
            covariance = self.market.ensemble.after(covariance, run)
            yield covariance

    def _setting(self, run: int) -> dict[str, Any]:
        """The settings that all evaluations of a run share, its last D and the number of evaluations."""
        rows, setting = self.candidates.of(run), dict[str, Any]()
        for column in self.candidates.columns:
            values = rows[column].dropna().unique()
            if column == "D":
                setting["D_last"] = float(max(values))
            elif len(values) == 1:
                setting[column] = values[0]
        return setting | {"points": len(rows)}

    def _informs(self, before: Array, after: Array) -> str:
        """The parameters that a purchase tells most, with how much their sd narrows."""
        found = {}
        for name, vector in self.informed.items():
            lost = 1 - vector @ vector  # variance that no candidate bears on
            found[name] = 1 - math.sqrt((vector @ after @ vector + lost) / (vector @ before @ vector + lost))
        best = sorted(found, key=lambda name: -found[name])[:3]
        return ", ".join(f"{name} -{found[name]:.0%}" for name in best if found[name] >= TELLING)

    @cached_property
    def _worthwhile(self) -> int:
        """After how many purchases the interval has narrowed most for what is spent; see `picks`."""
        path, fixed = self._path("chosen", 0, self.bought), int(self.candidates.fixed.sum())
        net = -np.log(path[self.width_name]) + math.log1p(-WORTH) * path["spent"] / self.market.budget
        return fixed + int(np.argmax(net.to_numpy()[fixed:]))

    @property
    def stop(self) -> int | None:
        """After how many purchases what follows is not worth its price, see `picks`; none where all is."""
        return self._worthwhile if self._worthwhile < len(self.bought) else None

    @cached_property
    def targets(self) -> pd.DataFrame:
        """The targets: weight, and the width of their intervals now and predicted after all purchases."""
        end = self._widths(self.market.ensemble.covariance(self.bought))
        now = self.width_name.replace("_width", "_width_now")
        table = pd.DataFrame({"target": self.aim.names, "weight": self.aim.weights, now: self.aim.widths, self.width_name: end})
        return table.assign(checks=marked(self.aim.forced))

    @cached_property
    def curve(self) -> pd.DataFrame:
        """Predicted width against money: of the chosen runs, of runs of the smallest size, and of random ones.

        Returns
        -------
        DataFrame
            design ('chosen', 'smallest size', 'random'), number (of the random design), spent, variance (of the targets, as a
            share of what it is now) and the predicted width, after each purchase; a first row of each with nothing spent.
            'smallest size' is the design of Goffinet et al. 2025: runs of the smallest size only, spread over their settings.
        """
        fixed = list(self.bought[: int(self.candidates.fixed.sum())])
        designs = [("chosen", 0, list(self.bought)), ("smallest size", 0, self._smallest(fixed))]
        designs += [("random", i, picks) for i, picks in enumerate(self.random_designs(RANDOM))]
        return pd.concat([self._path(*design) for design in designs], ignore_index=True)

    @property
    def text(self) -> str:
        """What the choice comes to, in words, a line each."""
        name, curve = self.width_name, self.curve
        ends = {d: path.groupby("number")[name].last().to_numpy() for d, path in curve.groupby("design")}
        low, middle, high = np.quantile(ends["random"], [0.05, 0.5, 0.95])
        unit = f" {self.aim.unit}" if self.aim.unit else ""
        lines = [
            f"{len(self.bought)} runs for {self.spent:.4g} of {self.market.budget:.4g} {self.candidates.unit}",
            f"{name}: {self.width([]):.4g}{unit} now, {self.width(self.bought):.4g} predicted after the last of them",
            f"for the same budget: {ends['smallest size'][0]:.4g} with runs of the smallest size only; "
            f"{middle:.4g} with random runs ({low:.4g} to {high:.4g} in 90% of {RANDOM} designs)",
        ]
        if self.stop is not None:
            after = f"after purchase {self.stop}" if self.stop else "from the first on"
            lines.append(
                f"{after} what follows is not worth its price: at its rate the whole budget would narrow the interval by less than "
                f"{WORTH:.0%}"
            )
        lines += ["checks FAILED (forced): the widths are not to be trusted"] if self.aim.forced else []
        lines += [f"note: {note}" for note in self.notes]
        if self.rounds and self.rounds[-1] > 1:
            first = sum(number == 1 for number in self.rounds)
            lines.append(f"buy the first {first}, then `bayeslaw update` and choose again: what comes back changes what is best")
        return "\n".join(lines)

    def _path(self, design: str, number: int, picks: Sequence[int]) -> pd.DataFrame:
        """Spent, share of the variance and width along purchases; a row before the first."""
        states = list(self._states(picks))
        values = np.array([self.market.value(state) for state in states])
        return pd.DataFrame({
            "design": design, "number": number, "spent": [self.market.bill(picks[:i]) for i in range(len(states))],
            "variance": values / values[0], self.width_name: [float(self._widths(state) @ self.aim.weights) for state in states],
        })  # fmt: skip

    def _smallest(self, fixed: list[int]) -> list[int]:
        """Runs of the smallest size in an order that spreads over their settings, as long as the budget lasts."""
        at = self.candidates
        first = at.rows.iloc[at.starts[:-1]]
        sizes = first["N"].to_numpy(dtype=np.float64) if "N" in first else at.whole
        small = np.flatnonzero(sizes == sizes.min())
        ranks = first.iloc[small][[c for c in at.columns if c != "N" and first[c].dtype.kind == "f"]].rank().fillna(0)
        spread = spread_order([ranks[c].to_numpy(dtype=np.float64) for c in ranks] or [np.zeros(small.size)], small.size)
        return self._afforded(small[[*spread, *np.setdiff1d(np.arange(small.size), spread)]], fixed)

    def random_designs(self, count: int) -> list[list[int]]:
        """Candidates in random orders, each bought where the rest of the budget allows it."""
        rng, fixed = np.random.default_rng([self.seed, 0]), np.flatnonzero(self.candidates.fixed).tolist()
        return [self._afforded(rng.permutation(self.candidates.size), fixed) for _ in range(count)]

    def _afforded(self, order: NDArray[np.int64], start: list[int]) -> list[int]:
        at, picks, left = self.candidates, list(start), self.market.budget * ROUNDING - self.market.bill(start)
        paid = set(at.checkpoint[start].tolist())
        allowed = self.market.replicates - np.bincount(start, minlength=at.size)
        for run in np.tile(order, self.market.replicates).tolist():
            checkpoint = int(at.checkpoint[run])
            price = float(at.cost[run]) + (0.0 if checkpoint in paid else float(at.price[checkpoint]))
            if allowed[run] > 0 and price <= left:
                allowed[run] -= 1
                left -= price
                paid.add(checkpoint)
                picks.append(run)
        return picks

    def rows(self, bought: Sequence[int] | None = None) -> pd.DataFrame:
        """The evaluations of runs, by default of those chosen, as a table of settings; replicates have ids of their own."""
        frames, times = [], dict[int, int]()
        for run in self.bought if bought is None else bought:
            times[run] = times.get(run, 0) + 1
            name = self.candidates.names[run] + (f"#{times[run]}" if times[run] > 1 else "")
            frames.append(self.candidates.of(run).assign(run=name))
        if not frames:
            return self.candidates.rows.iloc[:0]
        return pd.concat(frames, ignore_index=True)

    def explain(self, run: str) -> pd.Series:
        """What is to be said of one candidate.

        Returns
        -------
        Series
            Its settings, cost, checkpoint_cost (of a checkpoint that must be trained), gain if bought alone (share of the targets'
            variance), the predicted width then, its rank among all candidates by gain for its price, whether it is chosen, its
            gain once the other picks are bought, and the parameters that it informs alone.
        """
        at, ensemble, market = self.candidates, self.market.ensemble, self.market
        if run not in at.names:
            raise BayeslawError(f"There is no candidate {run!r}.{nearest(run, at.names)}")
        code = at.names.index(run)
        nothing, whole = np.eye(ensemble.rank), market.value(np.eye(ensemble.rank))
        others = [other for other in self.bought if other != code]
        rate = ensemble.gains(nothing, market.weights) / at.whole
        later = ensemble.gains(ensemble.covariance(others), market.weights, np.array([code]))[code]
        return pd.Series({
            "run": run, **self._setting(code), "cost": at.cost[code], "checkpoint_cost": float(at.price[at.checkpoint[code]]),
            "gain": float(rate[code] * at.whole[code] / whole), self.width_name: self.width([code]),
            "rank": f"{int((rate > rate[code]).sum()) + 1} of {at.size} by gain for its price",
            "chosen": code in self.bought, "gain_after_the_other_picks": float(later / whole),
            "informs": self._informs(nothing, ensemble.after(nothing, code)) or "nothing by 2% or more",
            "checks": marked(self.aim.forced),
        })  # fmt: skip


def anchors(
    fits: Posterior | Sequence[Posterior],
    candidates: Runs | pd.DataFrame | str | Path,
    targets: Runs | pd.DataFrame | str | Path | Mapping[str, ArrayLike],
    *,
    budget: float,
    cost: str = FLOPS,
    checkpoint_cost: str | None = None,
    stages: Stages | None = None,
    rounds: int = 1,
    replicates: int = 1,
    discrepancy: float | str | None = None,
    ci_prob: float = 0.9,
    seed: int = 0,
    force: bool = False,
) -> Anchors:
    """Choose the runs that, bought for a budget, lower the variance at the targets most.

    A set of runs c leaves the targets' log losses T the weighted variance tr W T'(I + sum_c B_c R_c^-1 B_c')^-1 T, by posterior
    draws of their curves B_c and noise R_c (V-optimality without a Jacobian; `design.information`). Runs are bought by gain over
    price^kappa for several kappa, then exchanged (`bayeslaw.design.search`).

    Parameters
    ----------
    fits : Fit or Stack, or several
        With several, every run logs one loss for each, such as source and target domain, and their draws are paired.
    candidates : Runs, DataFrame or path
        Runs that could be bought; see `candidates.read_candidates`, also for `cost`, `checkpoint_cost` and `stages`.
    targets : Runs, DataFrame or path, or mapping of name to array (S,)
        Settings whose loss is wanted, with an optional column `weight`; or draws of quantities, one for each of the fit's
        draws, such as the margins of a plan's constraints. Several count by their variances, so give them in like units.
    budget : float
        In the unit of the costs.
    rounds : int
        Rounds in which the budget is spent, in equal parts, the runs of most gain for their price first; what comes back from one
        changes what is best in the next.
    replicates : int
        How often each candidate may be bought.
    discrepancy : float or text, optional
        Relative sd that you state for the law's error: runs near the target then tell what runs elsewhere can't.
    ci_prob : float
        Probability of the intervals whose widths are predicted.
    seed : int
        Of the random designs shown beside, and of draws of checkpoints' luck.
    force : bool
        Go on in spite of failed checks.

    Returns
    -------
    Anchors

    Raises
    ------
    TableError, FitError, BayeslawError
        If checks of the fit or of the forecasts at the targets failed, the candidates have a fault, there are too few draws, or the
        budget buys nothing.
    """
    members = list(fits) if isinstance(fits, Sequence) else [fits]
    check_probability(ci_prob)
    for name, value, least in (("rounds", rounds, 1), ("replicates", replicates, 1), ("seed", seed, 0)):
        whole_number(name, value, least)
    if not (math.isfinite(budget) and budget > 0):
        raise BayeslawError(f"The budget must be a positive number, not {budget}.")
    sd = None if discrepancy is None else relative(discrepancy)
    sizes = [sum(chosen.size for _, chosen in member.shares) for member in members]
    shown = " and ".join(f"{size} draws of {member.name}" for size, member in zip(sizes, members, strict=True))
    check_pairing(members, sizes, f"{shown} can't be paired.", " Choose with one stack, and a fit for the other loss.")
    aim = aim_of(members, targets, sd, ci_prob, seed, force)
    fitted = [(fit.law, fit.observed) for member in members for fit, _ in member.shares]
    pool = read_candidates(fitted, candidates, cost, checkpoint_cost, stages)
    at = [
        from_shares(member.name, member.shares, pool.runs, sd, seed + i, failed=not member.passed)  # as in `aim_of`
        for i, member in enumerate(members)
    ]
    if at[0].size != len(aim.draws):
        raise BayeslawError(f"{at[0].size} draws of {at[0].law} and {len(aim.draws)} draws of the targets can't be paired.")
    with threadpool_limits(1, "blas"):  # many small products, which threads only slow down
        ensemble, projected = build(at, pool, aim.draws, (seed, 1), parameters_of(members))
        market = Market(pool, ensemble, aim.weights, float(budget), replicates)
        bought, when = _in_rounds(market, rounds)
    notes = (*pool.notes, *(_doubts(members) if sd is None else ()))
    return Anchors(market, tuple(bought), tuple(when), aim, ci_prob, seed, projected, notes)


def _doubts(members: Sequence[Posterior]) -> list[str]:
    """Laws that miss their own runs by more than seeds explain; to a choice that believes them such runs look telling."""
    missed = {
        fit.law.name: float(np.sqrt(np.max(fit.noise.variances(fit.draws)))) for member in members for fit, _ in member.shares
    }
    return [
        f"{name} misses its own runs by {miss:.1%} of the loss, more than seeds explain: state a discrepancy of {miss:.1%}, else "
        "runs that the law can't describe may look telling"
        for name, miss in missed.items()
        if miss > LUCK * ROUNDING
    ]


def _in_rounds(market: Market, rounds: int) -> tuple[list[int], list[int]]:
    """Picks for the whole budget and the rounds they are bought in: those of most gain for their price first."""
    at, fixed = market.candidates, np.flatnonzero(market.candidates.fixed).tolist()
    if (bill := market.bill(fixed)) > market.budget * ROUNDING:
        raise BayeslawError(f"The {len(fixed)} fixed runs cost {bill:.4g}, more than the budget of {market.budget:.4g}.")
    if not fixed and at.whole.min() > market.budget:
        cheapest = int(np.argmin(at.whole))
        with_checkpoint = ", its checkpoint included" if at.price[at.checkpoint[cheapest]] else ""
        raise BayeslawError(
            f"The budget of {market.budget:.4g} buys nothing: the cheapest run, {at.names[cheapest]}, costs "
            f"{at.whole[cheapest]:.4g}{with_checkpoint}."
        )
    picks = choose(market, fixed)
    spent = np.array([market.bill(picks[: i + 1]) for i in range(len(picks))])
    when = np.maximum.accumulate(np.clip(np.ceil(spent / (market.budget * ROUNDING) * rounds), 1, rounds))
    when[: len(fixed)] = 1
    return picks, [int(number) for number in when - (when.min() - 1)]
