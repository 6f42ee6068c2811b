"""Amounts, uncertain or not, and what a model costs over its whole life."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayeslaw.core.flops import device_hours, life_flops
from bayeslaw.planning.life_costs import LifeCosts, draws_of
from tests.errors import fails

SIZE = 4000
DEVICE = {"peak": 1e15, "utilisation": 0.5, "served-peak": 2e15, "served-utilisation": 0.1}


def test_flops_and_hours_of_a_whole_life_by_hand() -> None:
    assert float(life_flops(7e9, 1e12, 2e12)) == pytest.approx(6 * 7e21 + 2 * 14e21)
    assert float(device_hours(3.6e18, 1e15, 0.5)) == pytest.approx(2.0)
    with fails("not-positive", "N"):
        life_flops(0.0, 1e9)
    with fails("not-positive", "N", "'7B'"):
        life_flops("7B", 1e9)
    with fails("not-positive", "'1 PFLOP/s'"):
        device_hours(1e20, "1 PFLOP/s", 0.5)
    with fails("negative-amount", "-1"):
        life_flops(1e9, 1e9, -1.0)
    with fails("not-a-share", "50", "0.5"):
        device_hours(1e20, 1e15, 50)
    with fails("not-positive", "0 FLOP/s"):
        device_hours(1e20, 0.0, 0.5)


@pytest.mark.parametrize("given", [2e12, "2e12", "2T", np.full(SIZE, 2e12)])
def test_a_certain_amount_is_the_same_in_all_draws(given: Any) -> None:
    np.testing.assert_array_equal(draws_of("served", given, SIZE, 0), np.full(SIZE, 2e12))


def test_an_interval_holds_its_probability_with_equal_tails() -> None:
    draws = draws_of("served", "1e12:4e12:80%", SIZE, 0)
    assert np.mean(draws < 1e12) == pytest.approx(0.1, abs=0.02)
    assert np.mean(draws > 4e12) == pytest.approx(0.1, abs=0.02)
    assert np.median(draws) == pytest.approx(2e12, rel=0.05)


def test_a_prior_is_read_as_cards_have_it_and_its_seed_is_stated() -> None:
    draws = draws_of("served", "LogNormal(28, 0.5)", SIZE, 3)
    assert np.median(draws) == pytest.approx(np.exp(28), rel=0.05)
    np.testing.assert_array_equal(draws, draws_of("served", "LogNormal(28, 0.5)", SIZE, 3))
    assert not np.array_equal(draws, draws_of("served", "LogNormal(28, 0.5)", SIZE, 4))
    other = draws_of("price", "LogNormal(28, 0.5)", SIZE, 3)
    assert abs(np.corrcoef(np.log(draws), np.log(other))[0, 1]) < 0.06


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        ("much", "unusable-amount", ["'much'", "1e12:4e12:90%"]),
        ("1e12:4e12", "unusable-amount", ["'1e12:4e12'"]),
        ("4e12:1e12:90%", "unusable-amount", ["'4e12:1e12:90%'"]),
        ("1e12:4e12:900%", "not-a-probability", ["9"]),
        ("Normal(1e12)", "wrong-prior-arguments", ["Normal"]),
        ("Normal(1e12, 1e12)", "unusable-amount", ["of its draws"]),
        (-2.0, "unusable-amount", ["-2"]),
        (float("nan"), "unusable-amount", ["nan"]),
        ([1.0, 2.0], "unpaired-draws", ["2", "4,000"]),
    ],
)
def test_amounts_that_can_not_be_used_are_refused(given: Any, code: str, named: list[str]) -> None:
    with fails(code, *named):
        draws_of("served tokens", given, SIZE, 0)


def test_costs_in_every_unit_by_hand() -> None:
    costs = LifeCosts.of(2, served=[1e12, 3e12], prices={"flop": 1e-18, "hour": 2.0, "served-hour": 1.0}, device=DEVICE)
    n, d = 7e9, 1e12
    train, serve = 6 * n * d, 2 * n * np.array([1e12, 3e12])
    hours = train / (1e15 * 0.5 * 3600), serve / (2e15 * 0.1 * 3600)
    np.testing.assert_allclose(costs.total("flops", n, d), train + serve)
    np.testing.assert_allclose(costs.total("hours", n, d), hours[0] + hours[1])
    np.testing.assert_allclose(costs.total("cost", n, d), 1e-18 * (train + serve) + 2.0 * hours[0] + 1.0 * hours[1])
    assert costs.means(n, d)["flops"] == pytest.approx(train + serve.mean())
    assert not costs.certain("flops")
    assert float(costs.median().served[0]) == 2e12


def test_serving_costs_as_training_does_unless_it_is_stated() -> None:
    costs = LifeCosts.of(1, served=1e12, prices={"hour": 2.0}, device={"peak": 1e15, "utilisation": 0.5})
    assert costs.total("cost", 1e9, 1e12)[0] == pytest.approx(2.0 * 8e21 / (0.5e15 * 3600))
    assert costs.certain("cost")


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"served": -1.0}, "unusable-served", ["-1"]),
        ({"prices": {"gpu": 1.0}}, "unknown-price", ["'gpu'", "hour"]),
        ({"prices": {"flop": -1.0}}, "unusable-price", ["-1"]),
        ({"prices": {"flop": 0.0}}, "missing-price", ["flop=2e-18"]),
        ({"prices": {"served-flop": 1e-18}, "served": 1e10}, "missing-price", ["served-flop"]),
        ({"served": "5e11:5e10:90%"}, "unusable-served", ["smaller end"]),
        ({"prices": {"hour": 1.0}}, "missing-device", ["hour", "peak=312e12"]),
        ({"device": {"peak": 1e15}}, "incomplete-device", ["utilisation"]),
        ({"device": {"peak": 1e15, "utilization": 0.5}}, "unknown-device", ["'utilization'", "'utilisation'"]),
        ({"device": {"peak": 1e15, "utilisation": 1.5}}, "unusable-device", ["utilisation", "1.5"]),
        ({"device": {"peak": 1e15, "utilisation": 50}}, "unusable-device", ["0.5"]),
        ({"device": {"peak": 1e15, "utilisation": "Normal(0.9, 0.1)"}}, "unusable-device", ["of its draws"]),
    ],
)
def test_costs_that_can_not_be_had_are_refused(options: dict[str, Any], code: str, named: list[str]) -> None:
    with fails(code, *named):
        LifeCosts.of(200, **options)


def test_a_unit_needs_what_it_is_counted_by() -> None:
    costs = LifeCosts.of(1)
    costs.require("flops")
    with fails("missing-device", "hours"):
        costs.require("hours")
    with fails("missing-price", "--price"):
        costs.require("cost")
    with fails("unknown-unit", "'days'", "hours"):
        costs.require("days")
