"""Schedules by values worked out by hand, and their areas by the double sum of the papers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayeslaw.schedules.areas import OPEN, Phase, Point, trace
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
from tests.errors import fails
from tests.values import present

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
        (wsd(5, 1.0, decay=0.4, final=0.5, warmup=2, start=0.2), [0.6, 1, 1, 0.75, 0.5]),
        (multistep(10, 1.0, at=(0.5, 0.8), factor=0.1), [1] * 5 + [0.1] * 3 + [0.01] * 2),
        (multistep(10, 1.0, at=(0.5,), factor=0.5, warmup=2), [0.5, 1, 1, 1, 1] + [0.5] * 5),
        (multistep(4, 1.0, at=0.5, factor=0.5), [1, 1, 0.5, 0.5]),
        (multistep(90, 1.0, at=(0.7,), factor=0.5), [1.0] * 63 + [0.5] * 27),
        (inverse_sqrt(9, 1.0, warmup=1), [1, *(math.sqrt(1 / n) for n in range(2, 10))]),
        (joined(constant(2, 0.5), linear(2, 0.4)), [0.5, 0.5, 0.2, 0.0]),
        (logged([2, 4], [0.2, 0.4]), [0.2, 0.2, 0.3, 0.4]),
        (logged([4, 6], [0.4, 0.2], warmup=4), [0.1, 0.2, 0.3, 0.4, 0.3, 0.2]),
        (logged([4, 5], [0.4, 0.2], warmup=2), [0.2, 0.4, 0.4, 0.4, 0.2]),
        (logged([0, 2], [0.0, 0.2]), [0.1, 0.2]),
        (Schedule(cast("Any", [0.2, 0.4])), [0.2, 0.4]),
    ],
)
def test_rates_are_those_worked_out_by_hand(schedule: Schedule, expected: list[float]) -> None:
    np.testing.assert_allclose(schedule.rates, expected, atol=1e-15)
    assert schedule.peak == max(schedule.rates)
    assert len(schedule) == len(expected)


def test_a_rate_that_is_below_0_by_rounding_is_0() -> None:
    assert Schedule(np.array([1e-3, 5e-4, -9e-12])).rates[-1] == 0
    assert logged([1, 3], [1e-3, -9e-12]).rates.min() == 0


@pytest.mark.parametrize(
    ("code", "make", "values"),
    [
        ("not-a-whole-number", lambda: constant(0, 1e-3), ["steps", 0]),
        ("out-of-range", lambda: constant(10, 3.0), ["peak", 3]),
        ("out-of-range", lambda: constant(10, -1e-3), ["peak", -0.001]),
        ("long-warmup", lambda: constant(10, 1e-3, warmup=10), [10]),
        ("out-of-range", lambda: constant(10, 1e-3, start=2e-3), ["start", 0.002]),
        ("out-of-range", lambda: linear(10, 1e-3, final=3), ["final", 3]),
        ("out-of-range", lambda: wsd(10, 1e-3, decay=0), ["decay", 0]),
        ("out-of-range", lambda: wsd(6000, 1e-3, decay=500), ["500 of 6,000 steps give 0.0833"]),
        ("out-of-range", lambda: wsd(60, 1e-3, decay=0.9, warmup=12), ["12 of 60 steps are warm-up", "at most 0.8"]),
        ("unknown-decay", lambda: wsd(10, 1e-3, shape="line"), ["'line'", "linear, cosine"]),
        ("out-of-range", lambda: wsd(10, 1e-3, final=0, shape="exponential"), ["0"]),
        ("out-of-range", lambda: multistep(10, 1e-3, at=(0.9, 0.8)), ["at", [0.9, 0.8]]),
        ("out-of-range", lambda: multistep(10, 1e-3, factor=2), ["factor", 2]),
        ("no-warmup", lambda: inverse_sqrt(10, 1e-3, warmup=0), ["warmup"]),
        ("no-schedule", lambda: joined(), []),
        ("no-rate", lambda: Schedule(np.array([1e-3, np.nan])), ["step 2"]),
        ("negative-rate", lambda: Schedule(np.array([1e-3, -1e-3])), ["step 2", -0.001]),
        ("high-rate", lambda: Schedule(np.array([3.0, 2.0])), ["step 1", 3]),
        ("zero-rate", lambda: Schedule(np.zeros(3)), []),
        ("no-steps", lambda: Schedule(np.empty(0)), []),
        ("decreasing-steps", lambda: logged([1, 3, 3], [1e-3] * 3), [3]),
        ("not-a-whole-number", lambda: logged([1.5], [1e-3]), []),
        ("too-many-steps", lambda: logged([1e12], [1e-3]), [1e12]),
        ("unequal-lengths", lambda: logged([1, 2], [1e-3]), [2, 1]),
        ("long-warmup", lambda: logged([5], [1e-3], warmup=6), [6, 5]),
        ("no-steps", lambda: logged([0], [1e-3]), []),
        ("out-of-range", lambda: areas([1e-3], memory=1.0), ["memory", 1]),
        ("out-of-range", lambda: areas([1e-3], power=-1.0), ["power", -1]),
        ("out-of-range", lambda: areas([1e-3], weight=0.0), ["weight", 0]),
        ("not-numbers", lambda: multistep(10, 1e-3, at=cast("Any", "0.8")), ["at", "'0.8'"]),
        ("not-numbers", lambda: multistep(10, 1e-3, at=cast("Any", None)), ["at", "None"]),
        ("not-numbers", lambda: Schedule(cast("Any", ["1e-3"])), ["rate", "'1e-3'"]),
        ("not-numbers", lambda: Schedule(cast("Any", [[1e-3], [1e-3, 1e-3]])), ["rate"]),
        ("not-numbers", lambda: logged(["a"], [1e-3]), ["step", "'a'"]),
        ("several-axes", lambda: Schedule(np.ones((2, 2))), [2]),
        ("several-axes", lambda: trace(constant(2, 1e-3), [[1, 2]]), ["at", 2]),
        ("several-axes", lambda: multistep(10, 1e-3, at=cast("Any", [[0.8, 0.9]])), ["at", 2]),
        ("not-a-number", lambda: constant(10, cast("Any", "1e-3")), ["peak", "'1e-3'"]),
        ("not-a-number", lambda: linear(10, 1e-3, final=cast("Any", None)), ["final", None]),
        ("not-a-number", lambda: wsd(10, 1e-3, decay=cast("Any", "0.2")), ["decay", "'0.2'"]),
        ("not-a-number", lambda: areas([1e-3], memory=cast("Any", "0.9")), ["memory", "'0.9'"]),
        ("not-a-schedule", lambda: joined(cast("Any", [constant(2, 1e-3)])), ["joined(first, second)"]),
        ("not-a-schedule", lambda: joined(cast("Any", "linear:steps=2,peak=1e-3")), ["linear:steps=2", "parse_schedule"]),
        ("not-a-schedule", lambda: trace(cast("Any", [1e-3]), [1]), ["parse_schedule"]),
        ("no-such-step", lambda: trace(constant(2, 1e-3), [0.5]), [0.5]),
    ],
)
def test_schedules_that_cannot_be_are_refused(code: str, make: Callable[[], object], values: list[object]) -> None:
    with fails(code, *(f"{v:g}" if isinstance(v, float) else v for v in values)):
        make()


# --- areas ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(rates, st.floats(0.0, 0.9999), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_areas_are_the_double_sum_of_the_papers(eta: list[float], memory: float, power: float) -> None:
    """From a known rate on; and across a cut anywhere, with the state carried over."""
    whole, before = np.array(eta), State(eta[0])
    expected = double_sum(whole, memory, power)
    whole_areas = areas(whole[1:], before, memory=memory, power=power)
    np.testing.assert_allclose(whole_areas.S2, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(whole_areas.S1, np.cumsum(whole[1:]), rtol=1e-12)
    cut = whole.size // 2
    if cut > 1:
        first = areas(whole[1:cut], before, memory=memory, power=power)
        second = areas(whole[cut:], first.end, memory=memory, power=power)
        np.testing.assert_allclose(np.append(first.S2, second.S2), expected, rtol=1e-12, atol=1e-14)
        assert astuple(second.end) == pytest.approx(astuple(whole_areas.end), rel=1e-9, abs=1e-14)


@pytest.mark.slow
def test_a_first_warm_up_is_no_annealing() -> None:
    schedule = wsd(150, 1e-3, decay=0.3, warmup=50)
    after = np.append(1e-3, schedule.rates[50:])
    np.testing.assert_allclose(areas(schedule).S2[50:], double_sum(after, 0.999), rtol=1e-12, atol=1e-15)
    assert (areas(schedule).S2[:105] == 0).all()
    counted = areas(schedule, State(0.0)).S2
    np.testing.assert_allclose(counted, double_sum(np.append(0.0, schedule.rates), 0.999), rtol=1e-12, atol=1e-15)
    assert counted[49] < 0


def test_weights_scale_areas() -> None:
    plain, weighted = areas(cosine(100, 1e-3)), areas(cosine(100, 1e-3), weight=2.5)
    np.testing.assert_allclose([weighted.S1, weighted.S2], [2.5 * plain.S1, 2.5 * plain.S2])
    np.testing.assert_array_equal(weighted.momentum, plain.momentum)


def test_areas_of_a_million_steps_have_their_closed_form() -> None:
    """The double sum would take 10^12 operations; the last value is known from the closed form of a straight fall."""
    steps, memory = 1_000_000, 0.999
    fall = 1e-3 / steps
    straight = areas(linear(steps, 1e-3), State(1e-3), memory=memory)
    annealing = fall / (1 - memory) * (1 - memory ** np.arange(1.0, steps + 1))
    np.testing.assert_allclose([straight.end.S2, straight.end.momentum], [annealing.sum(), annealing[-1]], rtol=1e-9)


# --- phases ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_earlier_annealing_and_the_change_at_the_boundary_count_in_the_second_phase() -> None:
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
    np.testing.assert_allclose(present(end.adapt).S1, adaptation.rates.sum())


def test_a_phase_may_be_traced_in_parts() -> None:
    """As a run that goes on does: areas, peaks and the momentum of the annealing are those of the whole phase."""
    settings: dict[str, Any] = {"memory": 0.95, "power": 0.3, "weight": 0.5}
    pretraining, adaptation = (cosine(20, 1e-3, final=0.2), wsd(15, 6e-4)), (wsd(12, 8e-4, warmup=3), constant(9, 5e-4))
    whole: Point | None = None
    parts: Point | None = None
    phases: list[tuple[Phase, tuple[Schedule, Schedule]]] = [("pretrain", pretraining), ("adapt", adaptation)]
    for phase, (first, second) in phases:
        both = joined(first, second)
        table, whole = trace(both, np.arange(len(first), len(both) + 1), whole, phase=phase, **settings)
        _, parts = trace(first, np.array([0]), parts, phase=phase, **settings)
        late, parts = trace(second, np.arange(len(second) + 1), parts, phase=phase, **settings)
        pd.testing.assert_frame_equal(late.drop(columns="step"), table.drop(columns="step"), rtol=1e-12)
        assert table["lr_peak"].iloc[-1] == both.rates.max()
        assert table[f"S2w_{'pt' if phase == 'pretrain' else 'cpt'}"].iloc[-1] != 0
    assert present(whole).peak == 8e-4
    assert present(whole).weighted == pytest.approx(present(parts).weighted)
    with fails("pretraining-after-adaptation"):
        trace(pretraining[0], np.array([1]), OPEN)


def test_an_open_model_is_taken_to_end_at_a_rate_of_0() -> None:
    table, _ = trace(constant(10, 1e-3), np.arange(11), OPEN, phase="adapt", memory=0.9)
    assert table[["S1_pt", "S2_pt", "S2w_pt", "S1", "S2"]].isna().all().all()
    eta = np.append(0.0, constant(10, 1e-3).rates)
    np.testing.assert_allclose(table["S2_cpt"][1:], double_sum(eta, 0.9), rtol=1e-12)


def test_phases_in_the_wrong_order_are_refused() -> None:
    schedule, at = constant(10, 1e-3), np.array([10])
    with fails("missing-pretraining"):
        trace(schedule, at, phase="adapt")
    with fails("pretraining-after-adaptation"):
        trace(schedule, at, Point(State(1e-3), State(1e-3)))
    with fails("unknown-phase", "'adaptation'", "pretrain or adapt"):
        trace(schedule, at, phase=cast("Phase", "adaptation"))
    with fails("no-such-step", 10, 11):
        trace(schedule, np.array([11]))
