"""Anchors: the runs that, bought for a budget, lower the variance at the targets most."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core import html
from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, nearest, whole_number
from bayeslaw.core.flops import Stages
from bayeslaw.core.intervals import check_probability
from bayeslaw.core.own_table import copied
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import counted, listed, short_lines
from bayeslaw.core.threads import one_blas_thread
from bayeslaw.data.table import Table
from bayeslaw.design.candidates import FLOPS, Candidates, read_candidates
from bayeslaw.design.information import build
from bayeslaw.design.search import ROUNDING, Market, choose
from bayeslaw.design.targets import Targets, parameters_of, targets_of
from bayeslaw.forecasting.discrepancy import read_choice
from bayeslaw.forecasting.forecast import forecast_selections
from bayeslaw.forecasting.grid import Settings
from bayeslaw.forecasting.stack import Posterior, check_pairing, paired, require_losses
from bayeslaw.posterior.diagnostics import SEED_SPREAD, checks_label, spread_order
from bayeslaw.posterior.fit import require_fits

MOST_REPLICATES = 1_000
RANDOM = 100  # random designs for comparison with the chosen one
WORTH = 0.10  # the whole budget, spent at the rate of worthwhile purchases, narrows the interval by at least this share
INFORMED = 0.02  # smallest narrowing of a parameter's sd that `informs` lists


@dataclass(frozen=True, eq=False)
class Anchors:
    """Runs to buy, in order, and the interval widths that are predicted after each.

    Attributes
    ----------
    bought, rounds : tuples of int
        Codes of the chosen runs in order of purchase, and the round in which each is bought.
    ci_prob : float
        Probability of the intervals whose widths are predicted.
    parameters : mapping of name to array (p,)
        Draws of the parameters (logs of positives, logits of shares) in the ensemble's basis, in units of their sd.

    Examples
    --------
    >>> candidates = pd.DataFrame({"run": ["a", "b"], "N": [1e8, 1e9], "D": [2e9, 2e10]})
    >>> choice = bayeslaw.anchors(bayeslaw.load_fit("fit.nc"), candidates, pd.DataFrame({"N": [1e11], "D": [2e12]}), budget=1e21)
    >>> list(choice.picks)[:3]
    ['round', 'run', 'N']
    """

    market: Market
    bought: tuple[int, ...]
    rounds: tuple[int, ...]
    targets: Targets
    ci_prob: float
    seed: int
    parameters: Mapping[str, Array]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return short_lines(f"<Anchors: {'; '.join(self._headlines)}>")

    def _repr_html_(self) -> str:
        """Show the runs to buy, in order, in a notebook."""
        picks = self.picks.drop(columns=["checks", *(["round"] if self.rounds[-1:] == (1,) else [])])
        picks = picks.loc[:, [c for c in picks if c != "checkpoint_cost" or picks[c].any()]]
        forced = html.alarm("Checks FAILED (forced): do not trust the widths.") if self.targets.forced else ""
        return html.fragment(
            "Runs to buy:",
            self._headlines[0],
            html.paragraph(self._headlines[1]),
            forced,
            html.grid(picks.reset_index()),
            html.notes(self.notes),
        )

    @property
    def candidates(self) -> Candidates:
        return self.market.candidates

    @property
    def width_name(self) -> str:
        """Column of the predicted widths: latent_eti90_width."""
        return f"{self.targets.kind}_eti{self.ci_prob * 100:.12g}_width"

    @property
    def spent(self) -> float:
        """Cost of all picks together, their checkpoints once."""
        return self.market.bill(self.bought)

    def _widths(self, covariance: Array) -> Array:
        """Predicted widths of the targets' intervals (q,)."""
        ensemble = self.market.ensemble
        now = ensemble.variances(np.eye(ensemble.rank))
        # A target whose draws are all the same has no width, now and later.
        left = np.divide(ensemble.variances(covariance), now, out=np.ones_like(now), where=now > 0)
        return np.asarray(self.targets.widths * np.sqrt(left))

    def width(self, bought: Sequence[int]) -> float:
        """Weighted mean of the targets' interval widths as predicted once some runs are bought."""
        return float(self._widths(self.market.ensemble.covariance(bought)) @ self.targets.weights)

    @property
    def picks(self) -> pd.DataFrame:
        """The purchases in order, one a row.

        Columns: round, run, the run's settings (D as `D_last`, and `points`, the number of evaluations), cost, checkpoint_cost
        (where it is paid with this run), spent so far, gain (share of the targets' variance that the run removes), the predicted
        width of the interval after it, `informs` (the parameters whose sd it narrows most), `worth`, and `checks` ('passed' or
        'FAILED (forced)'). `worth` is false from the purchase on after which no number of further runs is worth their joint
        price: at their rate the whole budget would narrow the interval by less than 10%. So a run that pays for a checkpoint is
        judged together with the runs that need it.
        """
        return copied(self._picks)

    @cached_property
    def _picks(self) -> pd.DataFrame:
        at, path, states = self.candidates, self._path("chosen", 0, self.bought), self._states(self.bought)
        before, rows = next(states), []
        for i, (run, after) in enumerate(zip(self.bought, states, strict=True)):
            was, now = path.iloc[i], path.iloc[i + 1]
            extra = float(at.unpaid(self.bought[:i])[at.checkpoint[run]])
            row = {"round": self.rounds[i], "run": at.names[run], **self._setting(run), "cost": at.cost[run]}
            row |= {"checkpoint_cost": extra, "spent": now["spent"]}
            row |= {"gain": was["variance"] - now["variance"], self.width_name: now[self.width_name]}
            rows.append(row | {"informs": self._informs(before, after), "worth": i < self._worthwhile})
            before = after
        table = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="order"))
        return table.assign(checks=checks_label(self.targets.forced))

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
        """The parameters whose sd a purchase narrows most, each with the relative change of its sd."""
        narrowing = {}
        for name, vector in self.parameters.items():
            outside = 1 - vector @ vector  # variance outside the basis, which no candidate lowers
            narrowing[name] = 1 - math.sqrt((vector @ after @ vector + outside) / (vector @ before @ vector + outside))
        best = sorted(narrowing, key=lambda name: -narrowing[name])[:3]
        informed = [f"{name} -{narrowing[name]:.0%}" for name in best if narrowing[name] >= INFORMED]
        return ", ".join(informed) or f"nothing by {INFORMED:.0%} or more"

    @cached_property
    def _worthwhile(self) -> int:
        """The number of purchases after which the interval has narrowed most for its price; see `picks`."""
        path, fixed = self._path("chosen", 0, self.bought), int(self.candidates.fixed.sum())
        net = -np.log(path[self.width_name]) + math.log1p(-WORTH) * path["spent"] / self.market.budget
        return fixed + int(np.argmax(net.to_numpy()[fixed:]))

    @property
    def stop(self) -> int | None:
        """The number of purchases after which further ones are not worth their price, see `picks`; None if all are."""
        return self._worthwhile if self._worthwhile < len(self.bought) else None

    @property
    def curve(self) -> pd.DataFrame:
        """Predicted width against money spent: chosen runs, runs of the smallest size, and random runs.

        One row before the first and after each purchase of a design: design ('chosen', 'smallest size', 'random'), number (of the
        random design), spent, variance (of the targets, as a share of the present one) and the predicted width. 'smallest size' is
        the design of Goffinet et al. 2025: runs of the smallest size only, spread over their settings.
        """
        return copied(self._curve)

    @cached_property
    def _curve(self) -> pd.DataFrame:
        fixed = list(self.bought[: int(self.candidates.fixed.sum())])
        designs = [("chosen", 0, list(self.bought)), ("smallest size", 0, self._smallest(fixed))]
        designs += [("random", i, picks) for i, picks in enumerate(self.random_designs(RANDOM))]
        with one_blas_thread():  # threads only slow down many small products
            return pd.concat([self._path(*design) for design in designs], ignore_index=True)

    @property
    def text(self) -> str:
        """A summary of the choice in words, one statement a line."""
        name, curve = self.width_name, self.curve
        ends = {d: path.groupby("number")[name].last().to_numpy() for d, path in curve.groupby("design")}
        low, median, high = np.quantile(ends["random"], [0.05, 0.5, 0.95])
        lines = [
            *self._headlines,
            f"for the same budget: {ends['smallest size'][0]:.4g} with runs of the smallest size only; "
            f"{median:.4g} with random runs ({low:.4g} to {high:.4g} in 90% of {RANDOM} designs)",
        ]
        if self.stop is not None:
            runs = f"runs after purchase {self.stop}" if self.stop else "these runs"
            rate = f"at their rate the whole budget would narrow the interval by less than {WORTH:.0%}"
            lines.append(f"{runs} are not worth their price: {rate}")
        lines += ["checks FAILED (forced): do not trust the widths"] * self.targets.forced
        lines += [f"note: {note}" for note in self.notes]
        if self.rounds and self.rounds[-1] > 1:
            first = sum(number == 1 for number in self.rounds)
            lines.append(f"buy the first {first}, then run `bayeslaw update` and choose again: their losses change the best choice")
        return "\n".join(lines)

    @property
    def _headlines(self) -> tuple[str, str]:
        """The runs with their cost, and what they are predicted to gain, in words."""
        unit = f" {self.targets.unit}" if self.targets.unit else ""
        return (
            f"{counted(len(self.bought), 'run')} for {self.spent:.4g} of {self.market.budget:.4g} {self.candidates.unit}",
            f"{self.width_name}: {self.width([]):.4g}{unit} now, {self.width(self.bought):.4g} predicted after the last of them",
        )

    def _path(self, design: str, number: int, picks: Sequence[int]) -> pd.DataFrame:
        """The rows of `curve` for one design."""
        states = list(self._states(picks))
        values = np.array([self.market.value(state) for state in states])
        widths = [float(self._widths(state) @ self.targets.weights) for state in states]
        return pd.DataFrame({
            "design": design, "number": number, "spent": [self.market.bill(picks[:i]) for i in range(len(states))],
            "variance": values / values[0], self.width_name: widths,
        })  # fmt: skip

    def _smallest(self, fixed: list[int]) -> list[int]:
        """Runs of the smallest size that the budget pays for, in an order that spreads over their settings."""
        at = self.candidates
        first = at.rows.iloc[at.starts[:-1]]
        sizes = first["N"].to_numpy(dtype=np.float64) if "N" in first else at.total_price
        small = np.flatnonzero(sizes == sizes.min())
        ranks = first.iloc[small][[c for c in at.columns if c != "N" and first[c].dtype.kind == "f"]].rank().fillna(0)
        spread = spread_order([ranks[c].to_numpy(dtype=np.float64) for c in ranks] or [np.zeros(small.size)], small.size)
        return self._afforded(small[[*spread, *np.setdiff1d(np.arange(small.size), spread)]], fixed)

    def random_designs(self, count: int) -> list[list[int]]:
        """Designs (lists of run codes) of candidates in random order, each bought if the rest of the budget pays for it."""
        rng, fixed = np.random.default_rng([self.seed, Stream.RANDOM_DESIGN]), np.flatnonzero(self.candidates.fixed).tolist()
        return [self._afforded(rng.permutation(self.candidates.size), fixed) for _ in range(count)]

    def _afforded(self, order: NDArray[np.int64], start: list[int]) -> list[int]:
        at, picks, left = self.candidates, list(start), self.market.budget * ROUNDING - self.market.bill(start)
        allowed, least = self.market.replicates - np.bincount(start, minlength=at.size), float(at.cost.min())
        for run in np.tile(order, self.market.replicates).tolist():
            if left < least:
                break  # nothing is cheaper, and there may be a thousand replicates to look at
            price = float(at.cost[run] + at.unpaid(picks)[at.checkpoint[run]])
            if allowed[run] > 0 and price <= left:
                allowed[run] -= 1
                left -= price
                picks.append(run)
        return picks

    def rows(self, bought: Sequence[int] | None = None) -> pd.DataFrame:
        """Table of settings, one evaluation a row, of some runs (the chosen ones by default); replicates have ids of their own."""
        frames, taken, times = [], {*self.candidates.names}, dict[int, int]()
        for run in self.bought if bought is None else bought:
            name, times[run] = self.candidates.names[run], times.get(run, 0) + 1
            if times[run] > 1:
                name = next(f"{name}#{i}" for i in itertools.count(times[run]) if f"{name}#{i}" not in taken)
                taken.add(name)
            frames.append(self.candidates.of(run).assign(run=name))
        return pd.concat(frames, ignore_index=True) if frames else self.candidates.rows.iloc[:0]

    def explain(self, run: str) -> pd.Series:
        """Describe one candidate; a name that no candidate has is refused.

        The values are its settings, cost, checkpoint_cost (of a checkpoint that must be trained), gain if bought alone (share of
        the targets' variance), the predicted width then, its rank among all candidates by gain for its price, whether it is chosen,
        its gain once the other picks are bought, and the parameters that it informs if bought alone.
        """
        at, ensemble, market = self.candidates, self.market.ensemble, self.market
        if run not in at.names:
            hint = nearest(run, at.names) or f" There are {listed(at.names)}."
            raise BayeslawError(f"There is no candidate {run!r}.{hint}", code="unknown-candidate")
        code = at.names.index(run)
        nothing, whole = np.eye(ensemble.rank), market.value(np.eye(ensemble.rank))
        others = [other for other in self.bought if other != code]
        rate = ensemble.gains(nothing, market.weights) / at.total_price
        later = ensemble.gains(ensemble.covariance(others), market.weights, np.array([code]))[code]
        return pd.Series({
            "run": run, **self._setting(code), "cost": at.cost[code], "checkpoint_cost": float(at.price[at.checkpoint[code]]),
            "gain": float(rate[code] * at.total_price[code] / whole), self.width_name: self.width([code]),
            "rank": f"{int((rate > rate[code]).sum()) + 1} of {at.size} by gain for its price",
            "chosen": code in self.bought, "gain_after_the_other_picks": float(later / whole),
            "informs": self._informs(nothing, ensemble.after(nothing, code)),
            "checks": checks_label(self.targets.forced),
        })  # fmt: skip


FROM_NEW_RUNS = (
    "errors of the laws grow with the distance from the runs at hand; a fit with the bought runs counts it from these, so that its "
    "intervals may come out narrower than predicted"
)
WITHOUT_NOISE = (
    "these widths are of the law's loss with its error; intervals of forecasts and of `bayeslaw update` also have the noise of a "
    "run, which no purchase narrows"
)


def anchors(
    fits: Posterior | Sequence[Posterior],
    candidates: Table,
    targets: Settings,
    *,
    budget: float,
    cost: str = FLOPS,
    checkpoint_cost: str | float | None = None,
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
        With several fits, every run logs one loss for each, such as source and target domain, and their draws are paired.
    candidates : Runs, DataFrame or path
        Runs that could be bought; see `bayeslaw.design.read_candidates`.
    targets : Runs, DataFrame or path, mapping of covariates to values, or mapping of name to array (S,)
        Settings whose loss is wanted, a table with an optional column `weight` or values as for `bayeslaw.grid`; or draws of
        quantities, one for each of the fit's draws, such as the margins of a plan's constraints. Their variances are added, so
        give quantities in comparable units.
    budget : float
        What all runs may cost, in the unit of the costs.
    cost, checkpoint_cost, stages
        Prices of runs and checkpoints; see `bayeslaw.design.read_candidates`.
    rounds : int
        Rounds in which the budget is spent, in equal parts, the runs of most gain for their price first.
    replicates : int
        How often each candidate may be bought.
    discrepancy : float or text, optional
        By default, 'learned': where targets lie outside the runs, draws have the error of the law that the fit has learnt, so that
        runs near the targets inform them beyond the law's parameters. 'none' leaves it out. Or a stated relative sd, such as '1%'.
    ci_prob : float
        Probability of the intervals whose widths are predicted.
    seed : int
        Seed of the random designs, checkpoint effects and discrepancies.
    force : bool
        Go on although checks failed.

    Raises
    ------
    TableError, FitError, BayeslawError
        If checks of the fit or of the forecasts at the targets failed, the candidates have a fault, there are too few draws, or the
        budget buys nothing.

    Examples
    --------
    >>> candidates = pd.DataFrame({"run": ["a", "b"], "N": [1e8, 1e9], "D": [2e9, 2e10]})
    >>> choice = bayeslaw.anchors(bayeslaw.load_fit("fit.nc"), candidates, pd.DataFrame({"N": [1e11], "D": [2e12]}), budget=1e21)
    >>> sorted(choice.picks["run"])
    ['a', 'b']
    """
    members = paired(fits if isinstance(fits, Sequence) and not isinstance(fits, str) else [fits])
    require_fits(*members)
    if not members:
        raise BayeslawError("Give at least one fit, whose law the runs would inform.", code="not-a-fit")
    require_losses(members, "a choice of runs, which lowers the variance of logarithms,", positive=True)
    check_probability(ci_prob)
    rounds = whole_number("rounds", rounds, 1)
    replicates = whole_number("replicates", replicates, 1, MOST_REPLICATES)
    seed = whole_number("seed", seed, 0)
    if not (isinstance(budget, Real) and 0 < budget < math.inf):
        raise BayeslawError(f"The budget must be a positive number, not {budget!r}.", code="bad-budget")
    sd, learned = read_choice(discrepancy)
    sizes = [member.size for member in members]
    shown = " and ".join(f"{size} draws of {member.name}" for size, member in zip(sizes, members, strict=True))
    check_pairing(sizes, f"{shown} can't be paired.")
    goal = targets_of(members, targets, discrepancy, ci_prob, seed, force)
    learned &= goal.kind == "extrapolated"
    fitted = [(fit.law, fit.observed) for member in members for fit, _ in member.selections]
    pool = read_candidates(fitted, candidates, cost, checkpoint_cost, stages)
    forecasts = [  # seeds as in `targets_of`
        forecast_selections(
            member.name, member.selections, pool.runs, sd, seed + i, failed=not member.passed, learned=learned
        ).with_errors
        for i, member in enumerate(members)
    ]
    with one_blas_thread():  # threads only slow down many small products
        ensemble, projected = build(forecasts, pool, goal.draws, (seed, 1), parameters_of(members, learned))
        market = Market(pool, ensemble, goal.weights, float(budget), replicates)
        bought, when = _in_rounds(market, rounds)
    notes = (*pool.notes, *_too_dear(market), *(() if learned or sd is not None else _misfits(members)))
    if learned and any(m.errors is not None for f in forecasts for m in f.members):
        notes = (*notes, FROM_NEW_RUNS)
    if goal.kind not in ("latent", "target"):
        notes = (*notes, WITHOUT_NOISE)
    return Anchors(
        market=market, bought=tuple(bought), rounds=tuple(when), targets=goal, ci_prob=ci_prob, seed=seed, parameters=projected,
        notes=notes,
    )  # fmt: skip


def _too_dear(market: Market) -> list[str]:
    """A note on candidates that no purchase can have, since each costs more than the whole budget."""
    prices, at = market.candidates.total_price, market.candidates
    dear = prices > market.budget * ROUNDING
    if not dear.any():
        return []
    least = f"the cheapest of them takes {prices[dear].min():.4g}"
    return [
        f"{dear.sum():,} of {counted(at.size, 'candidate')} cost more than the budget of {market.budget:.4g} {at.unit}: {least}"
    ]


def _misfits(members: Sequence[Posterior]) -> list[str]:
    """Notes on laws that miss their own runs by more than seeds explain: a choice that trusts them overrates such runs."""
    fits = [fit for member in members for fit, _ in member.selections]
    of = fits[0].law.outcome.name
    misses = {fit.law.name: float(np.sqrt(np.max(fit.noise.variances(fit.draws)))) for fit in fits}
    return [
        f"{name} misses its own runs by {miss:.1%} of the {of}, more than seeds explain: state a discrepancy of {miss:.1%}, else "
        "runs that the law can't describe may look informative"
        for name, miss in misses.items()
        if miss > SEED_SPREAD * ROUNDING
    ]


def _shorter(rows: pd.DataFrame) -> str:
    """Say of a candidate with several D that it is one run, and how to ask for runs that end earlier."""
    if "D" not in rows or rows["D"].min() == rows["D"].max():
        return ""
    return (
        f" It is one run at one price, logged at {len(rows)} D up to {rows['D'].max():.4g}. Shorter runs are candidates of their "
        "own: give a table (--candidates, candidates=) with a name for each in the column `run`."
    )


def _in_rounds(market: Market, rounds: int) -> tuple[list[int], list[int]]:
    """Picks for the whole budget and the rounds in which they are bought, runs of most gain for their price first."""
    at, fixed = market.candidates, np.flatnonzero(market.candidates.fixed).tolist()
    if (bill := market.bill(fixed)) > market.budget * ROUNDING:
        problem = f"The {len(fixed)} fixed runs cost {bill:.4g}, more than the budget of {market.budget:.4g}."
        raise BayeslawError(problem, code="budget-too-small")
    if not fixed and at.total_price.min() > market.budget * ROUNDING:
        cheapest = int(np.argmin(at.total_price))
        with_checkpoint = ", its checkpoint included" if at.price[at.checkpoint[cheapest]] else ""
        price = f"the cheapest run, {at.names[cheapest]}, costs {at.total_price[cheapest]:.4g}{with_checkpoint}."
        problem = f"The budget of {market.budget:.4g} buys nothing: {price}{_shorter(at.of(cheapest))}"
        raise BayeslawError(problem, code="budget-too-small")
    picks = choose(market, fixed) if market.value(np.eye(market.ensemble.rank)) > 0 else []
    if not picks:
        raise BayeslawError("No run tells anything about these targets: do their draws vary?", code="nothing-to-learn")
    spent = np.array([market.bill(picks[: i + 1]) for i in range(len(picks))])
    when = np.maximum.accumulate(np.clip(np.ceil(spent / (market.budget * ROUNDING) * rounds), 1, rounds))
    when[: len(fixed)] = 1
    return picks, [int(number) for number in when - (when.min() - 1)]
