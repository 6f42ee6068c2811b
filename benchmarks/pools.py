"""Which runs to buy from two pools of public runs, so that the expensive target region is predicted.

    python benchmarks/pools.py        # prints the tables kept in benchmarks/results/pools.md

The pools are those of Li et al. 2026 (Spend Less, Fit Better; PlanarG/active-sl at e0a58ff), read from the folder named by
BAYESLAW_SHARED_DATA (by default ../shared/data): candidates with prices, and target rows that no design may buy.

Protocol. A budget is 1, 5 or 10% of the price of all candidates together. A pool's validation sets are separate purchases with
separate budgets, as in the source. Every design begins with the same first runs, paid from the budget: the cheapest, 2.5 for each
parameter of the law as long as they cost at most 2% of the pool (the source's rule), and at least the 3 that a fit needs. It then
spends each budget in two rounds, half of the rest and then all; after each round the losses are looked up and the law is fitted
again. A purchase for 5% continues one for 1%. Random orders have no rounds.

Picks: `posterior`, by `bayeslaw.anchors` from the posterior of `bayeslaw.fit` with the law taken for exact; `law in doubt`, the
same with a stated discrepancy as large as the fit's residuals (seeds explain at most .5% of a loss; the rest is the law's misfit of
the bought runs); `default`, by fits whose law has an error learnt from the runs, as it has unless one leaves it out, which designs
and forecasts count; D-optimal and V-optimal designs of the law linearised at a point fit (benchmarks/designs.py); random orders,
which skip runs that the budget does not pay for; and the same without first runs. Fits to the bought runs: the posterior (median of
the latent loss), that with the learnt error (median of `extrapolated`), or the least Huber loss from 40 starts. The card of
repeated epochs says that its law never rises with D and that overfitted runs should be left out: `falling` fits, in every round and
at the end, leave out bought runs whose loss is above that of a shorter bought run of the same N and U.

R2 is the source's: 1 - sum (loss - forecast)^2 / sum (loss - mean loss)^2 over the target rows of all validation sets together,
clipped to [-1, 1], and -1 if there is nothing to fit. `R2 within` takes the mean of each validation set instead of the common one:
two validation sets that differ by .8 nats make an R2 of .99 easy. The source's own numbers are means over ten formulas, of which
the law here is one, and ten repeats of each, by least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from designs import Linear, covariates, shuffled
from tables import SHARED, banner, markdown_table
from truths import failing, fitted

import bayeslaw
from bayeslaw.data.table import Runs
from bayeslaw.design.anchors import anchors
from bayeslaw.forecasting.discrepancy import spread_name
from bayeslaw.posterior.fit import Fit

SHARES = (0.01, 0.05, 0.1)
FIRST, FIRST_SHARE, LEAST = (
    2.5,
    0.02,
    3,
)  # first runs per parameter, their largest share of the pool's price, and the least number for a fit
STARTS = 40
ROUNDS = 2  # to each budget
SEEDS, ORDERS, ORDERS_SAMPLED = 3, 50, 9  # of designs; random orders, and how many of them get a posterior
FITTED = ("all bought", "falling")
Picks = Literal["posterior", "posterior, law in doubt", "default", "V-optimal", "D-optimal", "random", "random from nothing", "all"]
Choose = Callable[[list[int], pd.DataFrame, float], list[int]]  # positions bought, candidates, budget -> positions among these

# Li et al. 2026, table 2: means over ten formulas, of which the law here is one, and ten repeats of each; at 1, 5 and 10%.
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "data-constrained": {
        "random": (-0.74, -0.36, 0.12),
        "D-optimal": (0.71, 0.80, 0.77),
        "V-optimal": (0.58, 0.83, 0.85),
        "published best": (0.73, 0.85, 0.86),
        "all": (0.79,),
    },
    "parallel": {
        "random": (-1.0, 0.27, 0.19),
        "D-optimal": (-1.0, 0.70, 0.99),
        "V-optimal": (-1.0, 0.69, 0.99),
        "published best": (-1.0, 0.77, 0.99),
        "all": (0.99,),
    },
}


@dataclass(frozen=True, eq=False)
class Part:
    """One validation set of a pool: runs that can be bought, one row each with its price, and the target rows.

    With `falling`, fits leave out bought runs whose loss is above that of a shorter bought run with the same other settings.
    """

    law: bayeslaw.Law
    candidates: pd.DataFrame
    targets: pd.DataFrame
    falling: bool = False

    @property
    def price(self) -> float:
        """Price of all candidates together."""
        return float(self.candidates["cost"].sum())

    def first(self) -> list[int]:
        """Positions of the runs that every design begins with, cheapest first."""
        order = np.argsort(self.candidates["cost"].to_numpy(), kind="stable")
        paid = np.cumsum(self.candidates["cost"].to_numpy()[order])
        wanted = int(FIRST * len(self.law.parameters))
        return [int(i) for i in order[: max(LEAST, min(wanted, int((paid <= FIRST_SHARE * self.price).sum())))]]

    def fitted_to(self, bought: Sequence[int]) -> Runs:
        """The bought runs that a law is fitted to."""
        rows = self.candidates.iloc[list(bought)].drop(columns="cost")
        if self.falling:
            others = [c for c in self.law.covariates if c != "D"]
            best = rows.sort_values("D").groupby(others)["loss"].cummin().reindex(rows.index)
            rows = rows[rows["loss"] <= best]
        return Runs(rows)


@cache
def pools(falling: bool = False) -> dict[str, list[Part]]:
    """The two pools, each by its validation sets."""
    cards = {"data-constrained": "repeated-epochs", "parallel": "parallel-scaling"}
    parts: dict[str, list[Part]] = {}
    for name, card in cards.items():
        law = bayeslaw.load_law(card)
        table = bayeslaw.read_runs(SHARED / f"anchor_pool_{name.replace('-', '_')}.csv").frame
        table["cost"] = 6 * table["N"] * table["D"] if "D" in table else table["N"]
        table["run"] = [f"run {i}" for i in range(len(table))]
        kept = ["run", *law.covariates, "loss", "cost"]
        for _, group in table.groupby("group"):
            train, test = (group.loc[group["split"] == split, kept].reset_index(drop=True) for split in ("train", "test"))
            parts.setdefault(name, []).append(Part(law, train, test, falling))
    return parts


def purchases(part: Part, choose: Choose, *, first: bool = True, rounds: int = ROUNDS) -> dict[float, list[int]]:
    """Positions of the candidates bought for each budget, in order; none if the first runs alone cost more."""
    prices, bought = part.candidates["cost"].to_numpy(dtype=np.float64), part.first() if first else []
    by_budget = {}
    for share in SHARES:
        for number in range(rounds):
            rest = share * part.price - prices[bought].sum()
            left = np.setdiff1d(np.arange(prices.size), bought)
            if not (prices[left] <= rest).any():
                break
            budget = max(rest / (rounds - number), float(prices[left].min()))
            candidates = part.candidates.iloc[left[prices[left] <= budget]]
            picks = choose(bought, candidates, budget)
            bought = bought + [int(candidates.index[i]) for i in picks]
        by_budget[share] = list(bought) if prices[bought].sum() <= share * part.price else []
    return by_budget


def chooser(part: Part, picks: Picks, seed: int) -> Choose:
    """The function that chooses runs for a kind of design."""
    settings = part.targets[list(part.law.covariates)]

    def by_posterior(bought: list[int], candidates: pd.DataFrame, budget: float) -> list[int]:
        fit = posterior(part, tuple(sorted(bought)), seed, learned=picks == "default")
        sd = doubt(fit) if "doubt" in picks else None
        pool = candidates.drop(columns="loss")
        choice = anchors(fit, pool, settings, budget=budget, cost="cost", discrepancy=sd, seed=seed, force=True)
        return [candidates["run"].tolist().index(run) for run in choice.picks["run"]]

    def linearised(bought: list[int], candidates: pd.DataFrame, budget: float) -> list[int]:
        point = bayeslaw.point_fit(part.law, part.fitted_to(bought), starts=STARTS, seed=seed)
        return Linear.of(point, seed).choose(candidates, settings, budget, "D" if picks == "D-optimal" else "V")

    rng = np.random.default_rng(seed)
    if picks.startswith("random"):
        return lambda _, candidates, budget: shuffled(candidates, budget, rng)
    return linearised if picks.endswith("optimal") else by_posterior


class Job(NamedTuple):
    """The designs of one seed and every third random order, which begin with the same fit."""

    pool: str
    falling: bool
    seed: int


def jobs() -> Iterator[Job]:
    for pool, parts in pools().items():
        yield from (Job(pool, False, seed) for seed in range(SEEDS))
        if "D" in parts[0].law.covariates:
            yield from (Job(pool, True, seed) for seed in range(SEEDS))


def designs_of(job: Job) -> Iterator[tuple[Picks, int, tuple[str, ...]]]:
    """Kind of design, its number among those of its kind, and the kinds of fit to its runs."""
    both = ("posterior", "point")
    for picks in ("posterior", "posterior, law in doubt", "V-optimal", "D-optimal"):
        yield picks, job.seed, both
    yield "default", job.seed, ("default",)
    for order in range(job.seed, ORDERS, SEEDS):
        yield "random", order, (*both, "default") if order < ORDERS_SAMPLED else ("point",)
        if not job.falling:
            yield "random from nothing", order, ("point",)
    if job.seed == 0:
        yield "all", 0, (*both, "default")


def work(job: Job) -> list[dict[str, Any]]:
    """A record for each target row, budget and fit of a job's designs."""
    records = []
    for (picks, number, fits), (code, part) in product(designs_of(job), enumerate(pools(job.falling)[job.pool])):
        if picks == "all":
            by_budget = {1.0: list(range(len(part.candidates)))}
        else:
            rounds = 1 if picks.startswith("random") else ROUNDS
            by_budget = purchases(part, chooser(part, picks, number), first=picks != "random from nothing", rounds=rounds)
        for (share, bought), kind in product(by_budget.items(), fits):
            head = {"pool": job.pool, "rows": FITTED[job.falling], "picks": picks, "seed": number, "fit": kind, "share": share}
            head |= {"part": code, "runs": len(bought), "spent": part.candidates["cost"].iloc[bought].sum() / part.price}
            forecasts = predicted(part, bought, kind, job.seed).assign(loss=part.targets["loss"])
            records += [head | {str(k): v for k, v in row.items()} for row in forecasts.to_dict("records")]
    return records


@lru_cache(maxsize=64)
def posterior(part: Part, bought: tuple[int, ...], seed: int, *, learned: bool = False) -> Fit:
    """The fit to bought runs, made again with more draws if its checks fail."""
    return fitted(part.law, part.fitted_to(bought), {"discrepancy": "learned"} if learned else {}, seed)[0]


def doubt(fit: Fit) -> float:
    """The stated discrepancy of a law: the sd of the residuals."""
    return float(np.median(fit.draws["sigma_point"]))


def predicted(part: Part, bought: list[int], kind: str, seed: int) -> pd.DataFrame:
    """Predictions of the target rows; of a posterior also the ends of 90% intervals and the failed checks.

    The interval is that of `run`, or of `extrapolated` where an error of the law is learnt.
    """
    if len(bought) < LEAST:
        return pd.DataFrame({"forecast": np.full(len(part.targets), np.nan)})
    if kind == "point":
        point = bayeslaw.point_fit(part.law, part.fitted_to(bought), starts=STARTS, seed=seed)
        return pd.DataFrame({"forecast": point.predict(covariates(part.law, part.targets))})
    learned = kind == "default"
    fit = posterior(part, tuple(sorted(bought)), seed, learned=learned)
    sd, own = (None, "extrapolated") if learned else (doubt(fit), "run")
    summary: pd.DataFrame = fit.forecast(part.targets.drop(columns=["loss", "cost"]), discrepancy=sd, force=True).summary()
    own = own if f"{own}_median" in summary else "run"  # no error is learnt from so few runs
    names = {"latent_median" if own == "run" else f"{own}_median": "forecast", f"{own}_eti90_lb": "low", f"{own}_eti90_ub": "high"}
    for end in ("lb", "ub"):
        summary[f"doubtful_{end}"] = summary[f"{spread_name(sd) if sd is not None else own}_eti90_{end}"]
        names[f"doubtful_{end}"] = f"doubtful_{end}"
    return summary[list(names)].rename(columns=names).assign(checks=", ".join(failing(fit)))


def r2(rows: pd.DataFrame, *, within: bool = False) -> float:
    """The source's R2 of a purchase's target rows, or the same about the mean of each validation set."""
    if rows["forecast"].isna().any():
        return -1.0
    mean = rows.groupby("part")["loss"].transform("mean") if within else rows["loss"].mean()
    return float(np.clip(1 - ((rows["loss"] - rows["forecast"]) ** 2).sum() / ((rows["loss"] - mean) ** 2).sum(), -1, 1))


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"


def accuracy(records: pd.DataFrame, pool: str) -> list[dict[str, str]]:
    """R2 of every design and fit at every budget, the published numbers last."""
    table = []
    for (fitted_to, picks, fit), rows in records.groupby(["rows", "picks", "fit"], sort=False):
        whole = [g for _, g in rows[rows["share"] == 1].groupby("seed")]
        row = {
            "picks": "all, for 100%" if picks == "all" else str(picks),
            "fit": str(fit),
            "fitted to": str(fitted_to),
            "repeats": str(rows["seed"].nunique()),
        }
        for share in SHARES:
            groups = [g for _, g in rows[rows["share"] == share].groupby("seed")] or (whole if share == SHARES[-1] else [])
            empty = bool(groups) and all(g["forecast"].isna().all() for g in groups)
            row[f"R2 at {share:.0%}"] = "nothing to fit" if empty else spread([r2(g) for g in groups]) if groups else ""
        last = [g for _, g in rows[rows["share"] == SHARES[-1]].groupby("seed")] or whole
        row[f"R2 within, {SHARES[-1]:.0%}"] = spread([r2(g, within=True) for g in last])
        error = float(np.mean([(g["forecast"] / g["loss"] - 1).abs().mean(skipna=False) for g in last]))
        row[f"error, {SHARES[-1]:.0%}"] = "some not fitted" if np.isnan(error) else f"{error:.2%}"
        table.append(row)
    for name, values in PUBLISHED[pool].items():
        row = dict.fromkeys(table[0], "") | {"picks": f"published: {name}", "fit": "least squares", "repeats": "10 of 10 laws"}
        columns = [f"R2 at {share:.0%}" for share in SHARES][-len(values) :]
        table.append(row | {c: f"{v:.2f}" for c, v in zip(columns, values, strict=True)})
    return table


def intervals(records: pd.DataFrame) -> list[dict[str, str]]:
    """Coverage and width of the posterior's 90% intervals of the target rows."""
    table = []
    sampled = records[records["fit"].isin(["posterior", "default"]) & records["forecast"].notna()]
    for (share, fitted_to, picks, fit), rows in sampled.groupby(["share", "rows", "picks", "fit"], sort=False):
        bought, inside = rows.groupby(["seed", "part"]), rows["loss"].between(rows["low"], rows["high"])
        doubtful = rows["loss"].between(rows["doubtful_lb"], rows["doubtful_ub"])
        failed = bought["checks"].first()
        table.append(
            {
                "budget": f"{share:.0%}",
                "picks": str(picks),
                "fit": str(fit),
                "fitted to": str(fitted_to),
                "spent": f"{bought['spent'].first().mean():.1%}",
                "runs": f"{bought['runs'].first().mean():.1f}",
                "error": f"{(rows['forecast'] / rows['loss'] - 1).abs().mean():.2%}",
                "in 90%": f"{inside.mean():.0%}",
                "90% width, nats": f"{(rows['high'] - rows['low']).mean():.3f}",
                "in 90%, law in doubt": f"{doubtful.mean():.0%}",
                "width": f"{(rows['doubtful_ub'] - rows['doubtful_lb']).mean():.3f}",
                "fits whose checks failed": f"{(failed != '').sum()} of {len(failed)}",
            }
        )
    return sorted(table, key=lambda row: float(row["budget"].rstrip("%")))


def main() -> None:
    print("# Buying runs from two real pools\n\n" + banner("pools") + "\n")
    print((__doc__ or "").split("\n\n", 2)[2])
    with ProcessPoolExecutor() as processes:
        records = pd.DataFrame([record for rows in processes.map(work, list(jobs())) for record in rows])
    for pool, parts in pools().items():
        mine = records[records["pool"] == pool]
        first = parts[0].candidates["cost"].iloc[parts[0].first()].sum() / parts[0].price
        rows, targets = (sum(len(getattr(p, what)) for p in parts) for what in ("candidates", "targets"))
        print(f"## {pool}: `{parts[0].law.name}`, {len(parts)} validation set(s), {rows} candidates, {targets} target rows\n")
        print(f"First runs: {len(parts[0].first())} a validation set, {first:.2%} of its cost.\n")
        print(markdown_table(accuracy(mine, pool)) + "\n")
        print("Intervals of the posterior on the target rows:\n")
        print(markdown_table(intervals(mine)) + "\n", flush=True)


if __name__ == "__main__":
    main()
