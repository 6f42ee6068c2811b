"""Texts of a report: numbers, headers of columns and cells."""

from __future__ import annotations

import pytest

from bayeslaw.core.html import header, shown
from bayeslaw.core.text import compact
from bayeslaw.reporting.html import coded


def test_what_stands_between_backticks_is_code_and_all_is_escaped() -> None:
    assert coded("fit `a<b>` & c ` d") == "fit <code>a&lt;b&gt;</code> &amp; c ` d"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (8.1e9, "8.1e9"), (1e-5, "1e-5"), (1.23456, "1.235"), (280.0, "280"), (2.5e12, "2.5e12"), (0.1, "0.1")],
)
def test_numbers_are_compact(value: float, text: str) -> None:
    assert compact(value) == text


def test_headers_name_intervals() -> None:
    assert header("run_eti90_lb") == "run 90% equal-tailed interval"
    assert header("eti99.5_lb") == "99.5% equal-tailed interval"
    assert header("discrepancy0.5%_eti90_lb") == "discrepancy0.5% 90% equal-tailed interval"
    assert header("rank_correlation") == "rank correlation"


def test_cells_show_missing_values_and_truth_in_words() -> None:
    assert [shown(v) for v in (None, True, 1.23456, 7, "a")] == ["-", "yes", "1.235", "7", "a"]
