"""Parts of benchmarks/ that decide what their tables say: what is fitted, what counts, and what intervals are called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anchors
import best_sizes
import discrepancy
import ladders
import numpy as np
import pandas as pd
import plan_cases
import plans
import pytest
import sensitivity

import bayeslaw
from bayeslaw.forecasting.discrepancy import read_choice


def test_the_law_of_both_domains_has_the_priors_that_it_states() -> None:
    law, card = sensitivity.one_law(), bayeslaw.load_law("transfer-target")
    assert law.formula.text == sensitivity.ONE_LAW
    priors, own = ({name: str(p.prior) for name, p in of.parameters.items()} for of in (law, card))
    others = {name: prior for name, prior in priors.items() if own.get(name) != prior}
    assert others == {"G": "Normal(0, 1.5)", "s": "Beta(1, 1)", "J": "LogNormal(-3, 1)"}


def test_rows_that_never_settle_have_no_best_size() -> None:
    """The parabola's residuals would be those of other rows, which ended in a ValueError."""
    rng = np.random.default_rng(5)
    log_n = np.sort(rng.uniform(16, 24, rng.integers(6, 14)))
    loss = np.exp(0.02 * (log_n - 20) ** 2 + rng.normal(0, 0.03, log_n.size))
    rows = pd.DataFrame({"N": np.exp(log_n), "D": 1e20 / 6 / np.exp(log_n), "loss": loss})
    assert best_sizes.minimum(rows, 1e20) is None


def test_every_comparison_of_best_sizes_has_one_reach() -> None:
    shares = {f"in {p:.0%}": 1.0 for p in best_sizes.PROBABILITIES} | {"error": 0.1, "width": 2.0, "cost": 0.0}
    rows = pd.DataFrame([
        {"source": source, "spread": spread, "reach": reach, **shares}
        for spread in (best_sizes.EXACT, best_sizes.STATED)
        for source, reach in (("a", 0.01), ("a", 0.5), ("a", 1.0), ("b", 1.5), ("b", 2.0), ("b", 4.6), ("b", 4.9), ("c", 6.0))
    ])  # fmt: skip
    table = [line.split(" | ") for line in best_sizes.by_reach(rows).splitlines()[2:]]
    assert [int(cells[3]) for cells in table if cells[1] == best_sizes.STATED] == [1, 2, 2, 3]


def test_a_kept_fit_is_of_its_rows_and_random_numbers_are_of_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame({"run": ["a", "b"], "N": [1e8, 1e9], "D": [1e9, 1e10], "loss": [3.0, 2.5]})
    one = ladders.Ladder("source", "set", "third", rows, rows)
    other = ladders.Ladder("source", "set", "third", rows.assign(loss=[3.0, 2.6]), rows)
    key, seed = one.key, one.seed
    assert key != other.key
    assert seed == other.seed != ladders.Ladder("source", "set", "tenfold", rows, rows).seed
    monkeypatch.setattr(ladders, "code", lambda: "another")
    assert one.key != key
    assert one.seed == seed


def test_a_refused_truth_counts_as_without_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrepancy, "with_error", lambda *_: None)
    (record,) = discrepancy.work(discrepancy.Job("chinchilla", 0, True))
    assert "15 nats" in record["failed"]


def test_truths_without_a_plan_are_counted() -> None:
    assert plans.without({0, 2, 3}, 4).endswith("1 of 4 truths have no fits or no plans, and count nowhere above.")
    assert plans.without({0, 1, 2, 3, 9}, 4) == ""


def test_the_bootstrap_interval_has_the_probability_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios of a normal log: the mean's 10 and 90% quantiles lie 1.28 standard errors from it."""
    monkeypatch.setattr(anchors, "RESAMPLES", 4000)
    rng, count, sd = np.random.default_rng(0), 100, 0.5
    logs = sd * rng.standard_normal(count)
    of_others: dict[str, Any] = {f"random {i}": {"variance": 1.0} for i in range(anchors.RANDOM)}
    of_others |= {"paper": {"variance": 1.0}, "default": {"variance": 1.0}, "predicted": 1.0}
    records = [{"1": of_others | {"chosen": {"variance": float(np.exp(v))}}, "pilot": {"variance": 1.0}} for v in logs]
    row = anchors.ratios(records, 1)[0]
    low, high = (float(v) for v in row["80% bootstrap interval"].split(" to "))
    error = logs.std() / np.sqrt(count)
    np.testing.assert_allclose(np.log([low, high]), logs.mean() + 1.2816 * error * np.array([-1, 1]), atol=0.1 * error)


def test_plans_without_a_stated_discrepancy_are_called_by_their_default(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[Any]()

    def plan(*_: Any, **options: Any) -> Any:
        given.append(options["discrepancy"])
        return SimpleNamespace(frontier=pd.DataFrame({"plan": list[str]()}), deterministic=None)

    monkeypatch.setattr(plan_cases, "plan", plan)
    for sd, words in ((None, "learned"), (0.01, "1%")):
        table = plan_cases.judged({"source": None, "target": None}, {}, 1.0, "law", "title", sd)  # type: ignore[dict-item]
        assert {row["discrepancy"] for row in table} == {words}
        assert read_choice(given[-1]) == (sd, sd is None)
