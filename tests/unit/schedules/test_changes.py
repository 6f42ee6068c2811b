"""Nodes of the changes of a learning rate against the sums over all of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from bayeslaw.schedules import schedule as schedules
from bayeslaw.schedules.changes import LEAST, NODES, nodes
from bayeslaw.schedules.schedule import Schedule
from tests.errors import fails
from tests.oracles import Array

FITTED = {"B": 438.0, "C": 2.13, "beta": 0.598, "gamma": 0.655}  # to losses of a 100M model


def gained(fall: Array, rate: Array, since: Array) -> Array:
    p = FITTED
    return np.sum(p["B"] * fall * (1 - (1 + p["C"] * rate ** -p["gamma"] * since) ** -p["beta"]), axis=-1)


def by_nodes(table: pd.DataFrame, number: int = NODES) -> Array:
    columns = (table[[f"{name}_{k + 1}" for k in range(number)]].to_numpy() for name in ("fall", "rate", "since"))
    return gained(*columns)


def exactly(rates: Array, steps: NDArray[np.int64]) -> Array:
    """Over every change up to each step, one by one."""
    falls: Array = -np.diff(rates, prepend=0.0)
    least = np.maximum(rates, LEAST * rates.max())
    return np.array([gained(falls[:t], least[:t], np.cumsum(rates[:t][::-1])[::-1]) for t in steps.tolist()])


SCHEDULES = {
    "cosine": schedules.cosine(24_000, 3e-4, warmup=2_000),
    "cosine to 0": schedules.cosine(24_000, 3e-4, warmup=2_000, final=0.0),
    "long cosine": schedules.cosine(100_000, 3e-4, warmup=2_000),
    "linear": schedules.linear(24_000, 3e-4, warmup=2_000),
    "wsd": schedules.wsd(24_000, 3e-4, warmup=2_000),
    "multistep": schedules.multistep(24_000, 3e-4, warmup=2_000),
    "constant": schedules.constant(24_000, 3e-4, warmup=2_000),
    "stepped": schedules.logged([2_000, 10_000, 10_128, 16_000], [3e-4, 3e-4, 3e-5, 3e-5], warmup=2_000),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_sums_are_as_exact_as_the_docstring_says(name: str) -> None:
    schedule = SCHEDULES[name]
    steps = np.append(2_050, np.linspace(2_500, len(schedule), 12).round().astype(np.int64))
    error = np.abs(by_nodes(nodes(schedule, steps)) - exactly(schedule.rates, steps))
    assert error[1:].max() <= 9e-5
    assert error[0] <= 2.1e-4


def test_sums_are_exact_after_a_rate_is_raised_again() -> None:
    first, second = SCHEDULES["cosine"], schedules.cosine(12_000, 2e-4, warmup=500)
    steps = np.unique(np.linspace(1, len(second), 12).round().astype(np.int64))
    rates = np.concatenate([first.rates, second.rates])
    error = np.abs(by_nodes(nodes(second, steps, first)) - exactly(rates, steps + len(first)))
    assert error.max() <= 1.5e-4


def test_few_changes_have_a_node_each() -> None:
    schedule = schedules.multistep(3_000, 3e-4, at=(0.3, 0.5, 0.9))
    steps = np.array([0, 150, 900, 901, 2_000, 3_000])
    table = nodes(schedule, steps)
    np.testing.assert_allclose(by_nodes(table), exactly(schedule.rates, steps), rtol=1e-12, atol=1e-15)
    assert ((table.filter(like="fall_") != 0).sum(axis=1) == [0, 1, 1, 2, 3, 4]).all()


@pytest.mark.parametrize("number", [4, 10, 24])
def test_falls_add_up_to_the_last_rate(number: int) -> None:
    first, second = SCHEDULES["wsd"], schedules.cosine(5_000, 2e-4, warmup=500)
    steps = np.array([0, 1, 7, 499, 500, 501, 3_000, 5_000])
    falls = nodes(second, steps, first, number=number).filter(like="fall_").sum(axis=1)
    np.testing.assert_allclose(falls, -np.append(first.rates[-1], second.rates)[steps], rtol=1e-9)


def test_a_rate_of_zero_gives_finite_nodes() -> None:
    schedule = Schedule(np.array([0.0, 1e-3, 1e-3, 0.0, 0.0, 5e-4]))
    table = nodes(schedule, np.arange(7))
    assert np.isfinite(table.to_numpy()).all()
    assert (table.filter(like="rate_") >= LEAST * 1e-3).all(axis=None)
    assert np.isfinite(by_nodes(table)).all()


def test_steps_and_numbers_of_nodes_outside_their_range_are_refused() -> None:
    with fails("no-such-step", 24001):
        nodes(SCHEDULES["cosine"], np.array([24_001]))
    with fails("not-a-whole-number", "number"):
        nodes(SCHEDULES["cosine"], np.array([1]), number=2)
