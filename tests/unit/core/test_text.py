"""Numbers and nouns as text."""

from __future__ import annotations

import pytest

from bayeslaw.core.text import counted, plural


@pytest.mark.parametrize(
    ("noun", "several"),
    [
        ("row", "rows"), ("loss", "losses"), ("accuracy", "accuracies"), ("base-checkpoint row", "base-checkpoint rows"),
        ("delay", "delays"), ("mismatch", "mismatches"), ("box", "boxes"),
    ],
)  # fmt: skip
def test_plurals_follow_the_endings_of_nouns(noun: str, several: str) -> None:
    """An outcome's name is the user's, such as delay."""
    assert plural(noun) == several
    assert (counted(1, noun), counted(1200, noun)) == (f"1 {noun}", f"1,200 {several}")
