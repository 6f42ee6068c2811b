"""FLOPs of stages with frozen parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeslaw.core.flops import FLOPS, Stage, device_hours, life_flops, per_token, stage_flops, stages_of
from tests.errors import fails

# RedWhale (Vo et al. 2024, table 4): embeddings and head, odd layers, even layers, all by LoRA, of 10.8B parameters.
REDWHALE = "3.9e9:0.0341,2.0e9:0.5,1.2e9:0.5,2.6e9:0.046"


def test_flops_of_a_stage_depend_on_its_shares() -> None:
    assert stage_flops(1e9, 1e10) == pytest.approx(6e19)
    assert stage_flops(1e9, 1e10, trainable=0.5) == pytest.approx(5e19)
    assert stage_flops(1e9, 1e10, trainable=0.25, backward=0.25) == pytest.approx(3e19)
    assert stage_flops(1e9, 1e10, trainable=0, backward=0) == pytest.approx(2e19)


def test_flops_of_a_published_adaptation_in_stages() -> None:
    """By hand, 10.8e9 x (3.9e9 x 4.0682 + 3.2e9 x 5 + 2.6e9 x 4.092) = 4.591e20, where training everything takes 6.286e20."""
    by_stage = sum(stage_flops(10.8e9, s.tokens, s.trainable) for s in stages_of(REDWHALE))
    assert by_stage == pytest.approx(4.591e20, rel=1e-3)
    assert per_token(REDWHALE) * 10.8e9 * 9.7e9 == pytest.approx(by_stage)
    assert pytest.approx(6.286e20, rel=1e-3) == FLOPS * 10.8e9 * 9.7e9


def test_the_first_number_that_is_wrong_is_named() -> None:
    with fails("not-positive", "N must", "inf"):
        life_flops([1e9, np.inf], 1e10)
    with fails("not-positive", "-3 FLOP/s"):
        device_hours(1e20, [1e15, -3.0], 0.5)
    with fails("not-positive", "D must", "'1e10'"):
        stage_flops(1e9, "1e10")  # type: ignore[arg-type]


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(1e-3, 1e12), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5), st.floats(1e-3, 1e3))
def test_only_proportions_of_tokens_count(parts: list[tuple[float, float, float]], scale: float) -> None:
    stages = [Stage(*part) for part in parts]
    value = per_token(stages)
    assert 2 - 1e-9 <= value <= 6 + 1e-9
    assert per_token([Stage(t * scale, *rest) for t, *rest in parts]) == pytest.approx(value)
    assert per_token(",".join(":".join(repr(x) for x in part) for part in parts)) == pytest.approx(value)
    assert per_token(None) == FLOPS


@pytest.mark.parametrize(
    ("code", "text", "value"),
    [
        ("unreadable-stages", "", ""),
        ("unreadable-stages", "3e9", "3e9"),
        ("unreadable-stages", "3e9:a", "3e9:a"),
        ("unreadable-stages", "1:1:1:1", "1:1:1:1"),
        ("not-a-share", "3e9:3.41", "0.0341"),
        ("not-a-share", "3e9:0.5:-1", "-1"),
        ("not-positive", "0:0.5", "0"),
    ],
)
def test_stages_that_are_refused(code: str, text: str, value: str) -> None:
    with fails(code, value):
        stages_of(text)


def test_other_faults_of_stages_are_refused() -> None:
    with fails("no-stages"):
        per_token([])
    with fails("not-positive", "N"):
        stage_flops(0, 1e9)


def test_amounts_that_are_no_numbers_or_negative_are_refused() -> None:
    for amounts in (("1", 1.0), (1.0, None)):
        with fails("not-a-number", "stage"):
            Stage(*amounts)
    with fails("not-numbers", "served"):
        life_flops(1e9, 1e9, "many")
    with fails("negative-amount", -1):
        device_hours([1.0, -1.0], 1e15, 0.5)
