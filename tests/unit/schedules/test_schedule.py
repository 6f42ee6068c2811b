"""Schedules by hand values, their areas by the papers' double sum, and schedules written as text."""

from __future__ import annotations

import math
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, TableError
from bayeslaw.data import parse_schedule
from bayeslaw.schedules.areas import OPEN, Point, trace
from bayeslaw.schedules.schedule import (
    Schedule,
    State,
    areas,
    constant,
    cosine,
    inverse_sqrt,
    joined,
    linear,
    logged,
    multistep,
    wsd,
)

Array = NDArray[np.float64]
rates = st.lists(st.floats(1e-6, 1e-2), min_size=2, max_size=30)


def double_sum(eta: Array, memory: float, power: float = 0.0) -> Array:
    """S2 after each step as in Tissue et al. 2024: every earlier change of the rate by memory^(i-k). eta[0] came before."""
    total = np.zeros(eta.size - 1)
    for t in range(1, eta.size):
        total[t - 1] = sum(
            (eta[k - 1] - eta[k]) * memory ** (i - k) * eta[i] ** power for i in range(1, t + 1) for k in range(1, i + 1)
        )
    return total


# --- shapes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (constant(3, 0.5), [0.5, 0.5, 0.5]),
        (constant(4, 0.4, warmup=2), [0.2, 0.4, 0.4, 0.4]),
        (constant(4, 0.4, warmup=2, start=0.1), [0.25, 0.4, 0.4, 0.4]),
        (linear(4, 0.4), [0.3, 0.2, 0.1, 0.0]),
        (linear(6, 0.4, warmup=2, final=0.5), [0.2, 0.4, 0.35, 0.3, 0.25, 0.2]),
        (cosine(2, 1.0, final=0.0), [0.5, 0.0]),
        (cosine(4, 1.0, final=0.2), [0.6 + 0.4 * math.sqrt(0.5), 0.6, 0.6 - 0.4 * math.sqrt(0.5), 0.2]),
        (wsd(10, 1.0, decay=0.4, final=0.2), [1, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2]),
        (wsd(4, 1.0, decay=0.5, final=0.0, shape="cosine"), [1, 1, 0.5, 0]),
        (wsd(6, 1.0, decay=4 / 6, final=0.0, shape="sqrt"), [1, 1, 0.5, 1 - math.sqrt(0.5), 1 - math.sqrt(0.75), 0]),
        (wsd(4, 1.0, decay=0.5, final=0.25, shape="exponential"), [1, 1, 0.5, 0.25]),
        (multistep(10, 1.0, at=(0.5, 0.8), factor=0.1), [1] * 5 + [0.1] * 3 + [0.01] * 2),
        (multistep(10, 1.0, at=(0.5,), factor=0.5, warmup=2), [0.5, 1, 1, 1, 1] + [0.5] * 5),
        (inverse_sqrt(9, 1.0, warmup=1), [1, *(math.sqrt(1 / n) for n in range(2, 10))]),
        (joined(constant(2, 0.5), linear(2, 0.4)), [0.5, 0.5, 0.2, 0.0]),
        (logged([2, 4], [0.2, 0.4]), [0.2, 0.2, 0.3, 0.4]),
        (logged([4, 6], [0.4, 0.2], warmup=4), [0.1, 0.2, 0.3, 0.4, 0.3, 0.2]),
        (logged([4, 5], [0.4, 0.2], warmup=2), [0.2, 0.4, 0.4, 0.4, 0.2]),
        (logged([0, 2], [0.0, 0.2]), [0.1, 0.2]),
    ],
)
def test_shapes_by_hand(schedule: Schedule, expected: list[float]) -> None:
    np.testing.assert_allclose(schedule.rates, expected, atol=1e-15)
    assert schedule.peak == max(schedule.rates)
    assert len(schedule) == len(expected)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: constant(0, 1e-3), "steps must be a whole number of at least 1"),
        (lambda: constant(10, 3.0), "peak is 3; a highest learning rate lies in"),
        (lambda: constant(10, -1e-3), "peak is -0.001"),
        (lambda: constant(10, 1e-3, warmup=10), "warm-up of 10 steps does not fit into 10"),
        (lambda: constant(10, 1e-3, start=2e-3), "start is 0.002; a warm-up begins between 0 and the peak"),
        (lambda: linear(10, 1e-3, final=3), "final is 3; it is a share of the peak"),
        (lambda: wsd(10, 1e-3, decay=0), "decay is 0; it is the share of all steps"),
        (lambda: wsd(10, 1e-3, shape="line"), "no decay 'line'; choose linear, cosine"),
        (lambda: wsd(10, 1e-3, final=0, shape="exponential"), "can't end at 0"),
        (lambda: multistep(10, 1e-3, at=(0.9, 0.8)), "give rising shares of all steps"),
        (lambda: multistep(10, 1e-3, factor=2), "factor is 2"),
        (lambda: inverse_sqrt(10, 1e-3, warmup=0), "give a warmup of 1 or more"),
        (lambda: joined(), "at least one schedule"),
        (lambda: Schedule(np.array([1e-3, np.nan])), "learning rate of step 2 is missing"),
        (lambda: Schedule(np.array([1e-3, -1e-3])), "learning rate of step 2 is -0.001, below 0"),
        (lambda: Schedule(np.array([3.0, 2.0])), "is 3. Rates lie far below 1"),
        (lambda: Schedule(np.zeros(3)), "0 throughout"),
        (lambda: Schedule(np.empty(0)), "has no steps"),
        (lambda: logged([1, 3, 3], [1e-3] * 3), "steps must increase, and 3 follows 3. Was the run resumed"),
        (lambda: logged([1.5], [1e-3]), "whole numbers from 0"),
        (lambda: logged([1, 2], [1e-3]), "there are 2 steps and 1 rates"),
        (lambda: logged([5], [1e-3], warmup=6), "warm-up of 6 steps reaches past the first logged step, 5"),
        (lambda: logged([0], [1e-3]), "it ends at step 0"),
        (lambda: areas([1e-3], memory=1.0), "memory is 1; it must lie in"),
        (lambda: areas([1e-3], power=-1.0), "power is -1"),
        (lambda: areas([1e-3], weight=0.0), "weight is 0"),
    ],
)
def test_refusals(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(BayeslawError) as caught:
        make()
    assert words in str(caught.value)


# --- areas ----------------------------------------------------------------------------------------------------------


@given(rates, st.floats(0.0, 0.9999), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_the_filter_is_the_double_sum(eta: list[float], memory: float, power: float) -> None:
    """From a known rate on; and across a cut anywhere, with the state carried over."""
    whole, before = np.array(eta), State(eta[0])
    expected = double_sum(whole, memory, power)
    found = areas(whole[1:], before, memory=memory, power=power)
    np.testing.assert_allclose(found.S2, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.S1, np.cumsum(whole[1:]), rtol=1e-12)
    cut = whole.size // 2
    if cut > 1:
        first = areas(whole[1:cut], before, memory=memory, power=power)
        second = areas(whole[cut:], first.end, memory=memory, power=power)
        np.testing.assert_allclose(np.append(first.S2, second.S2), expected, rtol=1e-12, atol=1e-14)
        assert astuple(second.end) == pytest.approx(astuple(found.end), rel=1e-9, abs=1e-14)


def test_a_warm_up_is_no_annealing() -> None:
    schedule = wsd(150, 1e-3, decay=0.3, warmup=50)
    after = np.append(1e-3, schedule.rates[50:])
    np.testing.assert_allclose(areas(schedule).S2[50:], double_sum(after, 0.999), rtol=1e-12, atol=1e-15)
    assert (areas(schedule).S2[:105] == 0).all()
    counted = areas(schedule, State(0.0)).S2
    np.testing.assert_allclose(counted, double_sum(np.append(0.0, schedule.rates), 0.999), rtol=1e-12, atol=1e-15)
    assert counted[49] < 0


def test_weights_scale_areas() -> None:
    one, two = areas(cosine(100, 1e-3)), areas(cosine(100, 1e-3), weight=2.5)
    np.testing.assert_allclose([two.S1, two.S2], [2.5 * one.S1, 2.5 * one.S2])
    np.testing.assert_array_equal(two.momentum, one.momentum)


def test_a_million_steps_take_one_pass() -> None:
    """The double sum would take 10^12 operations; the last value is known from the closed form of a straight fall."""
    steps, memory = 1_000_000, 0.999
    fall = 1e-3 / steps
    found = areas(linear(steps, 1e-3), State(1e-3), memory=memory)
    felt = fall / (1 - memory) * (1 - memory ** np.arange(1.0, steps + 1))
    np.testing.assert_allclose([found.end.S2, found.end.momentum], [felt.sum(), felt[-1]], rtol=1e-9)


# --- phases ---------------------------------------------------------------------------------------------------------


def test_two_phases_by_the_double_sum() -> None:
    """What the boundary's change of the rate and earlier annealing still do after it counts in S2_cpt."""
    pretraining, adaptation, memory, power = cosine(40, 1e-3, final=0.2), wsd(30, 8e-4, warmup=5), 0.95, 0.3
    _, boundary = trace(pretraining, np.array([40]), memory=memory)
    table, end = trace(adaptation, np.arange(31), boundary, phase="adapt", memory=memory, power=power)
    eta = np.concatenate([[pretraining.rates[0]], pretraining.rates, adaptation.rates])  # the first step is no change
    whole, weighted = double_sum(eta, memory), double_sum(eta, memory, power)
    np.testing.assert_allclose(table["S2_pt"], whole[39], rtol=1e-12)
    np.testing.assert_allclose(table["S2_cpt"][1:], whole[40:] - whole[39], rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(table["S2w_cpt"][1:], weighted[40:] - weighted[39], rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(table["S2"][1:], whole[40:], rtol=1e-12)
    assert (table[["S1_cpt", "S2_cpt", "S2w_cpt"]].iloc[0] == 0).all()
    assert end.adapt is not None
    np.testing.assert_allclose(end.adapt.S1, adaptation.rates.sum())


def test_an_open_model_ends_at_rate_nil() -> None:
    table, _ = trace(constant(10, 1e-3), np.arange(11), OPEN, phase="adapt", memory=0.9)
    assert table[["S1_pt", "S2_pt", "S2w_pt", "S1", "S2"]].isna().all().all()
    eta = np.append(0.0, constant(10, 1e-3).rates)
    np.testing.assert_allclose(table["S2_cpt"][1:], double_sum(eta, 0.9), rtol=1e-12)


def test_phases_that_don_t_follow() -> None:
    schedule, at = constant(10, 1e-3), np.array([10])
    with pytest.raises(BayeslawError, match="An adaptation begins somewhere"):
        trace(schedule, at, phase="adapt")
    with pytest.raises(BayeslawError, match="can't go on after an adaptation"):
        trace(schedule, at, Point(State(1e-3), State(1e-3)))
    with pytest.raises(BayeslawError, match="steps 0 to 10; step 11 is asked for"):
        trace(schedule, np.array([11]))


# --- texts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant:steps=10,peak=1e-3", constant(10, 1e-3)),
        ("constant: steps=1e1, peak=1e-3, warmup=2, start=5e-4", constant(10, 1e-3, warmup=2, start=5e-4)),
        ("linear:steps=10,peak=1e-3,final=.2", linear(10, 1e-3, final=0.2)),
        ("cosine:steps=10,peak=1e-3,final=0", cosine(10, 1e-3, final=0)),
        ("wsd:steps=24,peak=3e-4,decay=0.25,final=0.1,warmup=2", wsd(24, 3e-4, decay=0.25, final=0.1, warmup=2)),
        ("wsd:steps=24,peak=3e-4,shape=sqrt", wsd(24, 3e-4, shape="sqrt")),
        ("multistep:steps=10,peak=1e-3,at=0.5/0.8,factor=.1", multistep(10, 1e-3, at=(0.5, 0.8), factor=0.1)),
        ("inverse_sqrt:steps=10,peak=1e-3,warmup=3", inverse_sqrt(10, 1e-3, warmup=3)),
        ("constant:steps=1e+1,peak=1e-3 + linear:steps=5,peak=1e-3", joined(constant(10, 1e-3), linear(5, 1e-3))),
    ],
)
def test_texts(text: str, expected: Schedule) -> None:
    found = parse_schedule(text)
    np.testing.assert_array_equal(found.rates, expected.rates)
    assert found.name == expected.name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wsb:steps=10,peak=1e-3", "no schedule 'wsb'; there are constant, linear, cosine, wsd, multistep, inverse_sqrt, logged."),
        ("wsb:steps=10,peak=1e-3", "Did you mean 'wsd'?"),
        ("wsd", "says nothing of its steps; write wsd:steps=24000"),
        ("wsd:steps=10,peek=1e-3", "wsd takes no 'peek'; it takes steps, peak, decay, final, shape, warmup, start."),
        ("wsd:steps=10,peek=1e-3", "Did you mean 'peak'?"),
        ("wsd:steps=10", "wsd needs peak"),
        ("inverse_sqrt:steps=10,peak=1e-3", "needs warmup"),
        ("wsd:steps=10,steps=12,peak=1e-3", "gives steps twice: 10 and 12"),
        ("wsd:steps=10,peak", "'peak' of schedule wsd is not of the form KEY=VALUE"),
        ("wsd:steps=ten,peak=1e-3", "steps=ten of schedule wsd is not a number"),
        ("wsd:steps=10,peak=nan", "peak=nan of schedule wsd is not a number"),
        ("wsd:steps=10.5,peak=1e-3", "steps=10.5 of schedule wsd: give a whole number"),
        ("wsd:steps=1e12,peak=1e-3", "at most 100,000,000"),
        ("wsd:steps=10,peak=3", "peak is 3"),
        ("multistep:steps=10,peak=1e-3,at=0.5/x", "at=x of schedule multistep is not numbers such as 0.8/0.9"),
        ("logged:nowhere.csv", "There is no file nowhere.csv"),
        ("constant:steps=10,peak=1e-3+foo:steps=3", "no schedule 'foo'"),
    ],
)  # fmt: skip
def test_texts_that_can_t_be_read(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BayeslawError) as caught:
        parse_schedule(text)
    assert words in str(caught.value)


def test_a_logged_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"run": ["a", "a", "a", "b"], "global_step": [0, 2, 4, 1], "learning_rate": [np.nan, 0.2, 0.1, 0.3]})
    table.to_csv("two.csv", index=False)
    np.testing.assert_allclose(parse_schedule("logged:two.csv,run=a,warmup=2").rates, [0.1, 0.2, 0.15, 0.1])
    np.testing.assert_allclose(parse_schedule("logged:two.csv,run=b + constant:steps=2,peak=0.1").rates, [0.3, 0.1, 0.1])
    with pytest.raises(BayeslawError, match=r"has 2 runs: choose one, such as logged:two.csv,run=a"):
        parse_schedule("logged:two.csv")
    with pytest.raises(BayeslawError, match="has no run 'c'"):
        parse_schedule("logged:two.csv,run=c")
    table.assign(global_step=[0, 2, 2, 1], learning_rate=pd.Series([3, "x", np.nan, 0.3], dtype=object)).to_csv(
        "bad.csv", index=False
    )
    with pytest.raises(TableError) as caught:
        parse_schedule("logged:bad.csv,run=a")
    assert {(f.row, f.column) for f in caught.value.faults} == {(1, "lr"), (2, "lr"), (3, "lr"), (3, "step")}
