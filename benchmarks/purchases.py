"""Runs bought on every measured sweep of small models: from two stages to the largest size at a later one, on measured losses.

    python benchmarks/purchases.py    # prints the table kept in benchmarks/results/purchases.md

The recommended laws of each domain (LAWS of benchmarks/cpt.py) are fitted to the two earliest stages of a table. Targets are the
losses of the largest size at each of its last two stages, from 2 tokens per parameter on. The candidates are all other measured
runs of later stages up to that one, priced by the FLOPs of the adaptation; checkpoints exist. B0 is the price of the smallest size
at the target's stage, one run per replay share: the design of Goffinet et al. 2025, which goes on with the smallest size at the
other stages. Random designs are candidates in random order within the budget. Measured losses of bought runs are looked up, the
laws are fitted again, and forecasts are scored as `bayeslaw.forecast` reports them: with the usual error of laws outside the runs,
here at an N x PTPP that no run has had; and with laws taken for exact (the last columns).

- chosen: `bayeslaw.anchors` at its defaults, which counts that error.
- chosen, exact: the same with `discrepancy="none"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from cpt import COLUMNS, LAWS, SETTLED, scores, shown, together, toys
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.forecasting.stack import Posterior

BUDGETS = (1, 5)  # times B0
RANDOM = 3  # designs of a case and budget
LAST = 2  # stages of a table that are targets in turn
NOTHING, CHOSEN, EXACT, SMALLEST, AT_RANDOM = "nothing bought", "chosen", "chosen, exact", "smallest size", "random"
DESIGNS = (NOTHING, CHOSEN, EXACT, SMALLEST, AT_RANDOM)
MEANS = ("error", "50%", "90%", "width", "crps", "score", "exact 90%", "exact width")


class Case(NamedTuple):
    """Fitted rows, candidates and target rows with their losses, of one table, domain and stage."""

    title: str
    domain: str
    seen: pd.DataFrame
    pool: pd.DataFrame
    wanted: pd.DataFrame


def cases() -> Iterator[Case]:
    """Every table and domain, and each of its last stages; of stages with fewer than three sizes none."""
    for _, name, table in toys():
        for domain, rows in table[table["D"] > 0].groupby("domain"):
            stages = np.sort(rows["ptpp"].unique())
            late = rows["ptpp"] > stages[1]
            for stage in stages[2:][-LAST:]:
                sizes = rows.loc[rows["ptpp"] == stage, "N"]
                if sizes.nunique() > 2:
                    goal = (rows["ptpp"] == stage) & (rows["N"] == sizes.max())
                    parts = (~late, late & (rows["ptpp"] <= stage) & ~goal, goal & (rows["D"] >= SETTLED * rows["N"]))
                    yield Case(f"{name} {domain}, {stage:g}", str(domain), *(rows.loc[part, COLUMNS] for part in parts))


def prices(pool: pd.DataFrame) -> dict[str, float]:
    """FLOPs of each run's adaptation."""
    return {str(run): float((6 * rows["N"] * rows["D"]).max()) for run, rows in pool.groupby("run")}


def smallest(pool: pd.DataFrame) -> tuple[list[str], int]:
    """The runs of the smallest size, those of the last stage first, and how many these are."""
    rows = pool[pool["N"] == pool["N"].min()].drop_duplicates("run").sort_values(["ptpp", "r"], ascending=[False, True])
    return [str(run) for run in rows["run"]], int((rows["ptpp"] == rows["ptpp"].max()).sum())


def fitted(domain: str, rows: pd.DataFrame) -> Posterior:
    return together({name: bayeslaw.fit(name, rows, progress=False, cores=1) for name in LAWS[domain][0]})


def designs(case: Case, before: Posterior) -> dict[tuple[int, str], list[list[str]]]:
    """The runs of every design, by budget and name."""
    cost, (small, first) = prices(case.pool), smallest(case.pool)
    candidates, targets = (rows.drop(columns="loss") for rows in (case.pool, case.wanted))
    found: dict[tuple[int, str], list[list[str]]] = {(0, NOTHING): [[]]}
    for times in BUDGETS:
        budget = times * sum(cost[run] for run in small[:first])
        for name, discrepancy in ((CHOSEN, None), (EXACT, "none")):
            options: dict[str, Any] = {"budget": budget, "checkpoint_cost": "0", "discrepancy": discrepancy, "force": True}
            choice = bayeslaw.anchors(before, candidates, targets, **options)
            found[times, name] = [[choice.candidates.names[run] for run in choice.bought]]
        count = int(np.searchsorted(np.cumsum([cost[run] for run in small]), budget * (1 + 1e-9), side="right"))
        found[times, SMALLEST] = [small[:count]]
        found[times, AT_RANDOM] = [[choice.candidates.names[run] for run in picks] for picks in choice.random_designs(RANDOM)]
    return found


def work(case: Case) -> list[dict[str, Any]]:
    """Scores of every design of a case, bought and fitted; the same runs are fitted once."""
    before, cost, (small, first) = fitted(case.domain, case.seen), prices(case.pool), smallest(case.pool)
    unit, known, rows = sum(cost[run] for run in small[:first]), dict[frozenset[str], dict[str, Any]](), list[dict[str, Any]]()
    for (times, name), several in designs(case, before).items():
        for runs in several:
            if frozenset(runs) not in known:
                bought = case.pool[case.pool["run"].isin(runs)]
                posterior = fitted(case.domain, pd.concat([case.seen, bought])) if runs else before
                known[frozenset(runs)] = {"passed": posterior.passed} | forecast_scores(posterior, case.wanted)
            head = {"case": case.title, "domain": case.domain, "times": times, "design": name, "runs": len(runs)}
            rows.append(head | {"spent": sum(cost[run] for run in runs) / unit} | known[frozenset(runs)])
    return rows


def forecast_scores(posterior: Posterior, wanted: pd.DataFrame) -> dict[str, float]:
    """Scores of the forecast of target rows, and the coverage and width of 90% intervals of laws taken for exact."""
    loss, at = wanted["loss"].to_numpy(), wanted.drop(columns="loss")
    exact = scores(loss, posterior.forecast(at, discrepancy="none", force=True).predictive)
    found = scores(loss, posterior.forecast(at, force=True).predictive)
    return found | {"exact 90%": exact["90%"], "exact width": exact["width"]}


def means(rows: pd.DataFrame) -> dict[str, str]:
    """Scores of some designs, means over cases and then over designs of a case; of CRPS and interval scores geometric ones."""
    of_cases = rows.groupby("case")[[*MEANS, "runs", "spent"]].mean()
    logs = np.exp(np.log(of_cases[["crps", "score"]]).mean())
    plain = of_cases.mean()
    return {
        "runs": f"{plain['runs']:.1f}", "spent / B0": f"{plain['spent']:.2f}", "error": f"{plain['error']:.2%}",
        "in 50%": f"{plain['50%']:.0%}", "in 90%": f"{plain['90%']:.0%}", "width": f"{plain['width']:.1%}",
        "CRPS": f"{logs['crps']:.2%}", "interval score": f"{logs['score']:.1%}",
        "in 90%, exact": f"{plain['exact 90%']:.0%}", "width, exact": f"{plain['exact width']:.1%}",
        "checks failed": f"{int((~rows['passed']).sum())} of {len(rows)}",
    }  # fmt: skip


def main() -> None:
    every = list(cases())
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, every) for row in part])
    print("# Runs bought on the sweeps of small models, measured losses\n\n" + banner("purchases") + "\n")
    print((__doc__ or "").split("\n\n", 2)[2])
    body = list[dict[str, Any]]()
    for domain in ("source", "target"):
        for times in (0, *BUDGETS):
            for name in DESIGNS:
                some = rows[(rows["domain"] == domain) & (rows["times"] == times) & (rows["design"] == name)]
                if len(some):
                    body.append({"domain": domain, "budget / B0": times, "design": name} | means(some))
    laws = "; ".join(f"{domain}: {shown(LAWS[domain][0])}" for domain in ("source", "target"))
    print(f"{laws}. Means over {len(every) // 2} cases of a domain; CRPS and interval scores (of 90%) are geometric means, all")
    print("relative to the loss. Laws and the size of errors were chosen on these sweeps (cpt.md); that laws err at an N x PTPP")
    print("which no run has had was decided with these losses in view; designs were chosen by nothing.\n")
    print(markdown_table(body) + "\n\n## By case\n\nError, and losses in 90% intervals, at the larger budget.\n")
    largest = rows[rows["times"].isin([0, BUDGETS[-1]])]
    body = list[dict[str, Any]]()
    for title, some in largest.groupby("case", sort=False):
        each = {name: some[some["design"] == name] for name in DESIGNS}
        body.append({"case": str(title)} | {name: f"{of['error'].mean():.1%}, {of['90%'].mean():.0%}" for name, of in each.items()})
    print(markdown_table(body))


if __name__ == "__main__":
    main()
