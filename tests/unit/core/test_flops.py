"""FLOPs of stages with frozen parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.flops import FLOPS, Stage, per_token, stage_flops, stages_of

# RedWhale (Vo et al. 2024, table 4): embeddings and head, odd layers, even layers, all by LoRA, of 10.8B parameters.
REDWHALE = "3.9e9:0.0341,2.0e9:0.5,1.2e9:0.5,2.6e9:0.046"


def test_flops_of_a_stage() -> None:
    assert stage_flops(1e9, 1e10) == pytest.approx(6e19)
    assert stage_flops(1e9, 1e10, trainable=0.5) == pytest.approx(5e19)
    assert stage_flops(1e9, 1e10, trainable=0.25, backward=0.25) == pytest.approx(3e19)
    assert stage_flops(1e9, 1e10, trainable=0, backward=0) == pytest.approx(2e19)


def test_a_published_adaptation_in_stages() -> None:
    """By hand: 10.8e9 x (3.9e9 x 4.0682 + 3.2e9 x 5 + 2.6e9 x 4.092) = 4.591e20, where training everything takes 6.286e20."""
    by_stage = sum(stage_flops(10.8e9, s.tokens, s.trainable) for s in stages_of(REDWHALE))
    assert by_stage == pytest.approx(4.591e20, rel=1e-3)
    assert per_token(REDWHALE) * 10.8e9 * 9.7e9 == pytest.approx(by_stage)
    assert pytest.approx(6.286e20, rel=1e-3) == FLOPS * 10.8e9 * 9.7e9


@given(st.lists(st.tuples(st.floats(1e-3, 1e12), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5), st.floats(1e-3, 1e3))
def test_only_proportions_of_tokens_count(parts: list[tuple[float, float, float]], scale: float) -> None:
    stages = [Stage(*part) for part in parts]
    value = per_token(stages)
    assert 2 - 1e-9 <= value <= 6 + 1e-9
    assert per_token([Stage(t * scale, *rest) for t, *rest in parts]) == pytest.approx(value)
    assert per_token(",".join(":".join(repr(x) for x in part) for part in parts)) == pytest.approx(value)
    assert per_token(None) == FLOPS


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "not of the form TOKENS:TRAINABLE"),
        ("3e9", "not of the form TOKENS:TRAINABLE"),
        ("3e9:a", "not of the form TOKENS:TRAINABLE"),
        ("1:1:1:1", "not of the form TOKENS:TRAINABLE"),
        ("3e9:3.41", "trainable share lies between 0 and 1, 3.41 does not: is it a percentage. Write 0.0341"),
        ("3e9:0.5:-1", "backward share lies between 0 and 1"),
        ("0:0.5", "positive number of tokens"),
    ],
)
def test_stages_that_are_refused(text: str, fragment: str) -> None:
    with pytest.raises(BayeslawError, match=fragment):
        stages_of(text)


def test_other_faults() -> None:
    with pytest.raises(BayeslawError, match="at least one stage"):
        per_token([])
    with pytest.raises(BayeslawError, match="N must be positive"):
        stage_flops(0, 1e9)
