"""Kinds of random numbers."""

from __future__ import annotations

from bayeslaw.core.streams import NoiseLevel, Stream


def test_every_kind_has_a_number_of_its_own_but_three_pairs() -> None:
    shared = {name: kind.name for name, kind in Stream.__members__.items() if name != kind.name}
    assert shared == {"SECOND_POSTERIOR": "SIMULATED", "PAIRED": "AHEAD", "AMOUNT": "NEW_RUN"}


def test_levels_of_a_noise_and_kinds_stay_apart_but_for_random_designs() -> None:
    assert min({*Stream} - {Stream.RANDOM_DESIGN}) > max(NoiseLevel)
