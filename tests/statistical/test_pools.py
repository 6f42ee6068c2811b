"""benchmarks/pools.py: purchases, linearised designs against brute force, R2; and the pools of public runs."""

from __future__ import annotations

from typing import Any

import designs
import numpy as np
import pandas as pd
import pools as harness
import pytest
from tables import SHARED

import bayeslaw
from bayeslaw.data.table import Runs

needs_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"no folder {SHARED.name} of public losses; name it by BAYESLAW_SHARED_DATA"
)


def part(rows: int = 30) -> harness.Part:
    """Chinchilla runs of random sizes, and two targets beyond them."""
    law, rng = bayeslaw.load_law("chinchilla"), np.random.default_rng(1)
    table = pd.DataFrame({"N": np.exp(rng.uniform(17, 21, rows + 2)), "D": np.exp(rng.uniform(20, 24, rows + 2))})
    table.loc[rows:, "N"] = 1e10
    truth = {name: np.array([value]) for name, value in law.published["Hoffmann et al. 2022"].items()}
    loss = law.predict(truth, designs.covariates(law, table))[0] * np.exp(0.003 * rng.standard_normal(rows + 2))
    table = table.assign(run=[f"run {i}" for i in range(rows + 2)], loss=loss, cost=6 * table["N"] * table["D"])
    return harness.Part(law, table.iloc[:rows], table.iloc[rows:].reset_index(drop=True))


def test_first_runs_are_at_least_three_of_the_cheapest_within_two_percent() -> None:
    made = part(300)
    first, prices = made.first(), made.candidates["cost"]
    assert prices.iloc[first].max() <= prices.drop(index=first).min()
    assert len(first) == 12  # 2.5 for each of five parameters, rounded down
    made = part()
    paid = made.candidates["cost"].sort_values().cumsum() / made.price
    assert len(made.first()) == (paid <= 0.02).sum() < 12
    costly = harness.Part(made.law, made.candidates.assign(cost=1.0), made.targets)
    assert len(costly.first()) == 3
    assert costly.price == 30.0


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_purchases_keep_to_the_budgets_and_each_continues_the_last(rounds: int) -> None:
    made, asked = part(300), list[int]()

    def cheapest(bought: list[int], candidates: pd.DataFrame, budget: float) -> list[int]:
        asked.append(len(bought))
        assert not set(bought) & set(candidates.index)
        assert (candidates["cost"] <= budget).all()
        return [int(np.argmin(candidates["cost"]))]

    found = harness.purchases(made, cheapest, rounds=rounds)
    prices, before = made.candidates["cost"], made.first()
    for share, bought in found.items():
        assert prices.iloc[bought].sum() <= share * made.price
        assert bought[: len(before)] == before
        assert len(bought) == len(set(bought))
        before = bought
    assert asked == [len(made.first()) + i for i in range(3 * rounds)]


def test_nothing_is_fitted_if_the_first_runs_exceed_the_budget() -> None:
    dear = part()
    dear = harness.Part(dear.law, dear.candidates.assign(cost=1.0), dear.targets)  # three of thirty are 10%
    found = harness.purchases(dear, lambda *_: pytest.fail("there is no money left"))
    assert found == {0.01: [], 0.05: [], 0.1: [0, 1, 2]}
    nothing = harness.predicted(dear, [], "posterior", 0)
    assert nothing["forecast"].isna().all()
    assert harness.r2(nothing.assign(loss=[2.0, 3.0], part=0)) == -1


def test_falling_fits_leave_out_runs_above_a_shorter_one_of_the_same_setting() -> None:
    law = bayeslaw.load_law("repeated-epochs")
    table = pd.DataFrame({"N": [1e8] * 5 + [2e8], "U": [1e8] * 4 + [2e8] * 2, "D": [1e9, 4e9, 2e9, 8e9, 9e9, 9e9]})
    table = table.assign(loss=[4.0, 3.9, 3.8, 3.7, 5.0, 6.0], run=list("abcdef"), cost=1.0)
    made = harness.Part(law, table, table, falling=True)
    assert made.fitted_to([5, 1, 4, 0, 2]).frame["run"].tolist() == ["f", "e", "a", "c"]
    assert made.fitted_to([1, 3]).frame["run"].tolist() == ["b", "d"]
    assert len(harness.Part(law, table, table).fitted_to(range(6))) == 6


def test_random_orders_spend_what_they_can(rng: np.random.Generator) -> None:
    candidates = pd.DataFrame({"cost": [5.0, 1.0, 3.0, 9.0, 2.0]})
    orders = [designs.shuffled(candidates, 6.0, rng) for _ in range(200)]
    for picks in orders:
        left = 6.0 - candidates["cost"].iloc[picks].sum()
        assert left >= 0
        assert (candidates["cost"].drop(index=picks) > left).all()
    assert {picks[0] for picks in orders} == {0, 1, 2, 4}


@pytest.fixture(scope="module")
def linear() -> designs.Linear:
    made = part()
    return designs.Linear.of(bayeslaw.point_fit(made.law, Runs(made.candidates.iloc[:12]), starts=5), seed=0)


def slopes(linear: designs.Linear, table: pd.DataFrame) -> designs.Array:
    return designs.derivatives(linear.law, linear.at, designs.covariates(linear.law, table))


def test_derivatives_are_those_of_the_formula(linear: designs.Linear) -> None:
    """dlog L / dlog E = E/L, dlog L / dlog A = A N^-alpha / L, dlog L / dlog alpha = -alpha log N A N^-alpha / L."""
    table = part().candidates
    value = dict(zip(linear.law.parameters, np.exp(linear.at), strict=True))
    term = value["A"] * table["N"] ** -value["alpha"]
    loss = value["E"] + term + value["B"] * table["D"] ** -value["beta"]
    found = pd.DataFrame(slopes(linear, table), columns=list(linear.law.parameters))
    np.testing.assert_allclose(found["E"], value["E"] / loss, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found["A"], term / loss, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found["alpha"], -value["alpha"] * np.log(table["N"]) * term / loss, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("criterion", ["D", "V"])
def test_a_linearised_pick_is_the_best_by_brute_force(linear: designs.Linear, criterion: designs.Criterion) -> None:
    made = part()
    one = made.candidates.iloc[12:].assign(cost=1.0)
    asked, before = slopes(linear, made.targets), np.linalg.inv(linear.covariance)
    left = []
    for row in slopes(linear, one):
        after = np.linalg.inv(before + np.outer(row, row) / linear.variance)
        left.append(np.linalg.slogdet(after)[1] if criterion == "D" else np.trace(asked @ after @ asked.T))
    assert linear.choose(one, made.targets, 1.0, criterion) == [int(np.argmin(left))]


def test_linearised_designs_never_overspend_and_prefer_runs_of_more_gain_for_their_price(linear: designs.Linear) -> None:
    made = part()
    candidates = made.candidates.iloc[12:]
    budget = float(candidates["cost"].sum()) / 3
    for criterion in ("D", "V"):
        picks = linear.choose(candidates, made.targets, budget, criterion)
        assert len(picks) == len(set(picks)) > 1
        assert candidates["cost"].iloc[picks].sum() <= budget
    equal = pd.concat([candidates.iloc[:1]] * 3).assign(cost=[3.0, 1.0, 1.0])
    assert linear.choose(equal, made.targets, 3.0, "V") == [1, 2]


def test_r2_is_that_of_the_source() -> None:
    rows = pd.DataFrame({"loss": [1.0, 1.2, 2.0, 2.4], "forecast": [1.1, 1.2, 2.0, 2.0], "part": [0, 0, 1, 1]})
    assert harness.r2(rows) == pytest.approx(1 - 0.17 / (0.65**2 + 0.45**2 + 0.35**2 + 0.75**2))
    near = rows.assign(forecast=[1.1, 1.2, 2.0, 2.4])
    assert harness.r2(near, within=True) == pytest.approx(1 - 0.01 / (2 * 0.1**2 + 2 * 0.2**2))
    assert harness.r2(rows.assign(forecast=100.0)) == -1


@needs_data
def test_the_pools_have_the_sizes_and_prices_of_the_source() -> None:
    made = harness.pools()
    (one,) = made["data-constrained"]
    assert (len(one.candidates), len(one.targets)) == (161, 21)
    np.testing.assert_allclose(one.candidates["cost"], 6 * one.candidates["N"] * one.candidates["D"])
    assert (one.candidates["U"] <= one.candidates["D"]).all()
    assert len(one.first()) == 17
    assert [(len(p.candidates), len(p.targets), len(p.first())) for p in made["parallel"]] == [(18, 6, 3)] * 2
    for p in made["parallel"]:
        assert set(p.candidates["P"]) == {1, 2, 4}
        assert set(p.targets["P"]) == {8}


@needs_data
@pytest.mark.parametrize(("number", "source"), [(0, "Pile"), (1, "Stack-V2 Python")])
def test_the_published_fits_of_parallel_scaling_are_reproduced(number: int, source: str) -> None:
    """R2 over the 24 runs as Chen et al. print it: .9987 and .9978; the same parameters by the point fit."""
    part = harness.pools()["parallel"][number]
    law, runs = part.law, pd.concat([part.candidates, part.targets], ignore_index=True)
    published = law.published[f"Chen et al. 2025, {source}, their recipe on their 24 runs"]
    predicted = law.predict({k: np.array([v]) for k, v in published.items()}, designs.covariates(law, runs))[0]
    about = 1 - ((runs["loss"] - predicted) ** 2).sum() / ((runs["loss"] - runs["loss"].mean()) ** 2).sum()
    assert about == pytest.approx({"Pile": 0.9987, "Stack-V2 Python": 0.9978}[source], abs=1e-4)
    point = bayeslaw.point_fit(law, Runs(runs), starts=30)
    assert point.parameters == pytest.approx(published, rel=0.01)


def test_every_random_order_and_every_design_is_in_exactly_one_job() -> None:
    for falling in (False, True):
        made = [item for seed in range(harness.SEEDS) for item in harness.designs_of(harness.Job("any", falling, seed))]
        assert sorted(n for picks, n, _ in made if picks == "random") == list(range(harness.ORDERS))
        assert sum("posterior" in fits for picks, _, fits in made if picks == "random") == harness.ORDERS_SAMPLED
        assert sum(picks == "random from nothing" for picks, *_ in made) == (0 if falling else harness.ORDERS)
        for picks in ("posterior", "posterior, law in doubt", "V-optimal", "D-optimal"):
            assert [n for kind, n, _ in made if kind == picks] == list(range(harness.SEEDS))


def test_the_tables_count_coverage_and_failed_checks() -> None:
    head: dict[str, Any] = {
        "pool": "parallel",
        "rows": "all bought",
        "picks": "posterior",
        "fit": "posterior",
        "share": 0.1,
        "runs": 4,
        "spent": 0.09,
    }
    rows = pd.DataFrame({"seed": [0, 0, 1, 1], "part": 0, "loss": [1.0, 2.0, 1.0, 2.0], "forecast": [1.0, 2.0, 1.1, 1.8]})
    rows = rows.assign(low=[0.9, 1.9, 1.05, 1.7], high=[1.1, 2.1, 1.15, 1.9], doubtful_lb=0.0, doubtful_ub=3.0)
    rows = rows.assign(checks=["", "", "r_hat", "r_hat"], **head)
    (line,) = harness.intervals(rows)
    assert (line["in 90%"], line["90% width, nats"], line["error"]) == ("50%", "0.175", "5.00%")
    assert (line["in 90%, law in doubt"], line["width"], line["fits whose checks failed"]) == ("100%", "3.000", "1 of 2")
    line = harness.accuracy(rows, "parallel")[0]
    assert (line["R2 at 1%"], line["R2 at 10%"], line["repeats"]) == ("", "0.95 ± 0.05", "2")


@pytest.mark.statistical
@pytest.mark.parametrize("picks", ["posterior", "posterior, law in doubt"])
def test_the_posterior_buys_within_the_budget(picks: harness.Picks) -> None:
    made = part(300)
    found = harness.purchases(made, harness.chooser(made, picks, 0), rounds=1)
    prices, before = made.candidates["cost"], made.first()
    for share, bought in found.items():
        assert bought[: len(before)] == before
        assert len(set(bought)) == len(bought) > len(before)
        assert 0.9 * share < prices.iloc[bought].sum() / made.price <= share
        before = bought
