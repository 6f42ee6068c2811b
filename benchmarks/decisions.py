"""Whether decisions hold if a law errs as the package assumes: truths with an error drawn from the model of `noise.walk`.

    python benchmarks/decisions.py [--truths 60] > benchmarks/results/decisions.md

Each truth is a pair of ladders, A and B, of 30 runs: parameters of `chinchilla` from a prior that the fits have too, noise from its
prior, the error's size inside the runs from the prior of `discrepancy`, beyond them from `BEYOND`. The error is a function of N and
D, so that the true loss is known everywhere. Fits have the defaults; their forecasts and decisions are compared with the truth.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tables import banner, markdown_table
from truths import placeholder, with_noise

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs
from bayeslaw.noise.noise import PRIORS
from bayeslaw.noise.walk import Walk
from bayeslaw.planning import versus, whole_life
from bayeslaw.posterior.discrepancy import DrawnErrors

Array = NDArray[np.float64]
# Narrower priors than those of the card, so that two ladders are hard to tell apart.
NARROW = {"E": (0.6, 0.03), "A": (-0.9, 0.15), "alpha": (-1.05, 0.15), "B": (-0.9, 0.15), "beta": (-1.0, 0.15)}
CARD = bayeslaw.load_law("chinchilla")
LAW = CARD.with_priors(
    {k: replace(CARD.parameters[k].prior, args=dict(zip(("mu", "sigma"), v, strict=True))) for k, v in NARROW.items()}
)
RUNS = pd.DataFrame([(n, m * n) for n in np.geomspace(5e7, 1e9, 6) for m in (5.0, 10.0, 20.0, 40.0, 80.0)], columns=["N", "D"])
TARGETS = pd.DataFrame({"N": [7e9, 2e10], "D": [1.4e11, 4e11]})
POOL = pd.DataFrame(
    [(f"{n:.2g} at {m:g}", n, m * n) for n in np.geomspace(2e8, 4e9, 7) for m in (10.0, 20.0, 60.0)], columns=["run", "N", "D"]
)
PRICE = 1.2e21  # of bought runs, FLOPs
COMPUTE, RATIO, SERVED = 1e22, 20.0, 1e11

HEAD = """# Decisions if a law errs as the package assumes

{banner}

{truths} pairs of ladders whose law errs as the package assumes: `chinchilla` times a walk in log N and log D, of the sizes that
`discrepancy` has a priori inside the runs and `BEYOND` beyond. 30 runs of 50M to 1B parameters and 5 to 80 tokens per parameter;
settings and compute lie 2 to 3 e-folds of size beyond them. Nothing was chosen on them. {failed} of {fits} fits failed a check and
count too. ± is the Monte Carlo error of as many truths if what is stated is right.
"""

TAIL = """
Plans for a target loss (the median forecast at 7B) count where there is one: farther out the law's error may grow by more than the
loss falls. The loss at 7B has a standard deviation of {sd[0]:.1%} before the purchase, {sd[1]:.1%} after it as predicted, and
{sd[2]:.1%} by the fit with the bought runs (root mean squares; median ratio of the last two {ratio:.2f}). At the law's best N the
true loss is larger than the least by {mean:.2%} in the mean, and by {most:.2%} in one ladder of ten.
"""


@dataclass(frozen=True)
class Ladder:
    """A truth: parameters of the law, its error, and the runs that are fitted."""

    values: Mapping[str, Array]
    error: DrawnErrors
    observed: Observations
    rng: np.random.Generator

    @classmethod
    def of(cls, number: int) -> Ladder:
        rng = np.random.default_rng([2027, number])
        observed = Observations.of(LAW, Runs(RUNS.assign(loss=placeholder(LAW, len(RUNS))), LAW.name))
        values, walk = LAW.sample_prior(1, observed.at, rng), Walk.of(LAW, {c: RUNS[c].to_numpy() for c in ("N", "D")})
        assert walk is not None
        scale = PRIORS["discrepancy"].sample(1, rng)
        learnt = scale[:, None] * rng.standard_normal((1, walk.squares.size))
        return cls(values, DrawnErrors.of_walk(walk, learnt, scale, (2027, number)), observed, rng)

    def law(self, n: Any, d: Any) -> Array:
        return np.asarray(LAW.predict(self.values, {"N": np.atleast_1d(n), "D": np.atleast_1d(d)})[0])

    def loss(self, n: Any, d: Any) -> Array:
        """The expected losses (m,), with the law's error."""
        return np.asarray(self.law(n, d) * np.exp(self.error.at({"N": np.atleast_1d(n), "D": np.atleast_1d(d)})[:, 0]))

    def logged(self, frame: pd.DataFrame, noise: np.random.Generator) -> pd.DataFrame:
        """Runs with losses; the same generator state gives the same noise parameters."""
        return frame.assign(
            loss=with_noise(self.loss(frame["N"], frame["D"]), self.observed, frame, LAW, {"noise": "auto"}, noise)[1]
        )


def sizes(ladder: Ladder) -> tuple[float, float, float]:
    """The best N at `COMPUTE` by the law, by the truth, and the excess of the true log loss at the first."""
    n = np.exp(np.linspace(math.log(1e8), math.log(1e12), 4001))
    by_law, true = (f(n, COMPUTE / 6 / n) for f in (ladder.law, ladder.loss))
    return float(n[by_law.argmin()]), float(n[true.argmin()]), float(np.log(true[by_law.argmin()] / true.min()))


def decided(number: int) -> dict[str, Any]:
    """What fits to a pair of ladders state, and what is true: places of truths among draws (`in …`), stated probabilities with
    whether the stated is so (`p …`), and other numbers."""
    a, b = Ladder.of(2 * number), Ladder.of(2 * number + 1)
    tables = [ladder.logged(RUNS, np.random.default_rng([2028, number, side])) for side, ladder in enumerate((a, b))]
    first, second = (bayeslaw.fit(LAW, table, progress=False, cores=1) for table in tables)
    row: dict[str, Any] = {"failed": 2 - first.passed - second.passed}
    true = np.log(a.loss(TARGETS["N"], TARGETS["D"]))
    draws = np.log(first.forecast(TARGETS, force=True).with_errors.expected(slice(None)))
    row["in forecast of the loss at 7B"] = place(draws[0], true[0])
    row["in its difference from that at 20B"] = place(draws[1] - draws[0], true[1] - true[0])
    allocation, (n_law, n_true, excess) = bayeslaw.allocate(first, COMPUTE, force=True), sizes(a)
    row["in `allocate`: loss at the law's best N"] = place(allocation.loss[:, 0], a.loss(n_law, COMPUTE / 6 / n_law)[0])
    row["in `allocate`: the law's best N"] = place(allocation.N[:, 0], n_law)
    row["in `allocate`: N of the least true loss"] = place(allocation.N[:, 0], n_true)
    row["excess"] = excess
    row |= transferred(a, b, first, second)
    row |= compared(a, b, versus(first, second, compute="1e21:1e23:9", tokens_per_parameter=RATIO, force=True))
    for name, life in (
        (
            "p `allocate --served`, loss within a budget, 90%",
            whole_life(first, compute=COMPUTE, served=SERVED, levels=(), force=True),
        ),
        (
            "p `allocate --max-loss`, 70%",
            whole_life(first, max_loss=math.exp(np.median(draws[0])), served=SERVED, confidence=0.7, levels=(), force=True),
        ),
    ):
        if (plan := life.best[0]) is not None:
            row[name] = (plan.held_out, bool(a.loss(plan.N, plan.D)[0] <= plan.loss))
    return row | bought(number, a, first, draws[0], true[0])


def transferred(a: Ladder, b: Ladder, first: bayeslaw.Fit, second: bayeslaw.Fit) -> dict[str, Any]:
    """Places of the tokens that A needs for B's loss, with the law's error and without, inside the runs and at 7B.

    The fewest tokens count, inf where none are enough; equal draws are at a random place among each other.
    """
    row, tokens = dict[str, Any](), np.geomspace(1.0, 1e30, 100_001)
    for where, n, d in (("500M, inside", 5e8, 1e10), ("7B", *TARGETS.iloc[0])):
        enough = np.flatnonzero(a.loss(np.full(tokens.size, n), tokens) <= b.loss(n, d)[0])
        true = tokens[enough[0]] if enough.size else math.inf
        settings = {"N": n, "D": d}
        erring = bayeslaw.transfer(first, settings, continued=second, force=True)
        exact = bayeslaw.transfer(first, settings, continued=second, discrepancy="none", force=True)
        for law, result in (("", erring), (", the law exact", exact)):
            found = result.scratch[:, 0]
            equal = a.rng.uniform() * (found == true).sum()
            row[f"in `transfer`: tokens from scratch at {where}{law}"] = place(found, true) + equal / found.size
    return row


def compared(a: Ladder, b: Ladder, result: bayeslaw.planning.Versus) -> dict[str, Any]:
    """What a comparison states, and what is true."""
    flops = np.geomspace(1e21, 1e23, 201)
    n = np.sqrt(flops / 6 / RATIO)
    gap = b.loss(n, RATIO * n) - a.loss(n, RATIO * n)
    changes = np.flatnonzero(np.signbit(gap[1:]) != np.signbit(gap[:-1]))
    known = result.crossing[~np.isnan(result.crossing)]
    middle = int(np.argmin(np.abs(np.log(result.compute / COMPUTE))))
    row: dict[str, Any] = {"in `versus`: difference": place(result.difference[:, middle], gap[100])}
    row["p `versus`: B is better"] = (float(result.b_better[middle]), bool(gap[100] < 0))
    row["p `versus`: the two cross"] = (known.size / result.crossing.size, changes.size > 0)
    if changes.size and known.size:
        row["in `versus`: crossing, where they cross"] = place(known, flops[changes[0]])
    return row


def bought(number: int, a: Ladder, fit: bayeslaw.Fit, before: Array, true: float) -> dict[str, Any]:
    """What is left at the first target after a purchase, as predicted and by the fit with the bought runs."""
    choice = bayeslaw.anchors(fit, POOL, TARGETS.iloc[[0]], budget=PRICE, force=True)
    rows = choice.rows()[["N", "D"]].reset_index(drop=True)
    whole = a.logged(pd.concat([RUNS, rows], ignore_index=True), np.random.default_rng([2028, number, 0]))  # with its noise
    updated = bayeslaw.update(
        fit, whole.iloc[len(RUNS) :].assign(run=[f"bought {i}" for i in range(len(rows))]), progress=False, force=True
    )
    after = np.log(updated.fit.forecast(TARGETS.iloc[[0]], force=True).with_errors.expected(slice(None)))[0]
    ensemble = choice.market.ensemble
    predicted = math.sqrt(float(ensemble.variances(ensemble.covariance(choice.bought))[0]))
    within = NormalDist(float(np.median(after)), predicted).cdf(true)
    return {
        "in `update` after `anchors`: loss at 7B": place(after, true),
        "in an interval there as wide as `anchors` predicts": within,
        "sd": (float(before.std()), predicted, float(after.std())),
        "p `update`: no alarm": (0.99, updated.as_predicted),
    }


def place(draws: Array, value: float) -> float:
    """The share of draws below a value."""
    return float(((draws < value).sum() + 0.5) / (draws.size + 1))


def report(rows: list[dict[str, Any]]) -> str:
    """The tables."""
    found = pd.DataFrame(rows)
    intervals, stated = list[dict[str, Any]](), list[dict[str, Any]]()
    for name in (c for c in found if str(c).startswith("in ")):
        places = found[name].dropna().to_numpy(dtype=np.float64)
        errors = [100 * math.sqrt(p * (1 - p) / places.size) for p in (0.5, 0.9)]
        shares = [f"{100 * np.mean(np.abs(places - 0.5) < p / 2):.0f}% ± {e:.0f}" for p, e in zip((0.5, 0.9), errors, strict=True)]
        intervals.append({
            "quantity": str(name).removeprefix("in "), "truths": places.size, "in 50%": shares[0], "in 90%": shares[1],
            "mean place": f"{places.mean():.2f} ± {1 / math.sqrt(12 * places.size):.2f}",
        })  # fmt: skip
    for name in (c for c in found if str(c).startswith("p ")):
        p, so = (np.array(v, dtype=np.float64) for v in zip(*found[name].dropna(), strict=True))
        error = math.sqrt(float((p * (1 - p)).sum())) / p.size
        true = f"{so.mean():.3f} ± {error:.3f}"
        stated.append({"event": str(name).removeprefix("p "), "truths": p.size, "stated": f"{p.mean():.3f}", "true": true})
    head = HEAD.format(banner=banner("decisions"), truths=len(rows), failed=int(found["failed"].sum()), fits=2 * len(rows))
    sd = np.sqrt((np.array(found["sd"].tolist()) ** 2).mean(axis=0))
    ratio, excess = np.median([after / predicted for _, predicted, after in found["sd"]]), found["excess"]
    tail = TAIL.format(sd=sd, ratio=ratio, mean=excess.mean(), most=excess.quantile(0.9))
    return "\n".join([head, "## Intervals\n", markdown_table(intervals), "\n## Probabilities\n", markdown_table(stated), tail])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truths", type=int, default=60)
    began, rows = time.time(), list[dict[str, Any]]()
    for number in range(parser.parse_args().truths):
        rows.append(decided(number))
        print(f"truth {number}: {time.time() - began:.0f} s", file=sys.stderr, flush=True)
    print(report(rows))


if __name__ == "__main__":
    main()
