"""Numbers and nouns as text."""

from __future__ import annotations

import pandas as pd
import pytest

from bayeslaw.core.text import counted, percent_hint, plural, settings_text, with_intervals


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


def test_intervals_with_both_ends_are_in_one_column() -> None:
    table = pd.DataFrame({"batch_lb": [5], "low_ub": [2], "loss_lb": [2.0], "loss_ub": [2.5], "unit": ["nats"], "ub": [1]})
    assert [*with_intervals(table)] == ["batch_lb", "low_ub", "loss", "unit", "ub"]
    assert with_intervals(table)["loss"].tolist() == ["[2, 2.500]"]


@pytest.mark.parametrize(
    ("given", "hint"),
    [("25%", " Write 0.25 for 25%."), ("2.5 %, 10%", " Write 0.025 for 2.5%."), ("a%", ""), ("1.2.3%", ""), ("25", ""), (25, "")],
)
def test_shares_in_percent_are_told_how_to_be_written(given: object, hint: str) -> None:
    assert percent_hint(given) == hint


def test_settings_are_written_with_short_numbers() -> None:
    settings = {"N": 1_234_567_890, "r": 0.25, "domain": "web"}
    assert settings_text(settings) == "N = 1.23457e+09, r = 0.25, domain = web"
    assert settings_text(settings, 3) == "N = 1.23e+09, r = 0.25, domain = web"


def test_ends_of_an_interval_stay_apart_beside_a_column_of_its_name() -> None:
    table = pd.DataFrame({"x_lb": [1.0], "x_ub": [2.0], "x": [3.0], "y_lb": [4.0], "y_ub": [5.0]})
    assert list(with_intervals(table)) == ["x_lb", "x_ub", "x", "y"]
