"""What a report is written with: numbers with their uncertainty, headers, cells, LaTeX of any text."""

from __future__ import annotations

import pytest

from bayeslaw.core.text import compact
from bayeslaw.laws.formula import latex_text
from bayeslaw.reporting.html import header, shown
from bayeslaw.reporting.latex import tabular, uncertain

# --- texts and tables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "0.25"),
        (0.5, "0.5"),
        (8.1e9, "8.1e9"),
        (1e-5, "1e-5"),
        (1.23456, "1.235"),
        (280.0, "280"),
        (2.5e12, "2.5e12"),
        (0.1, "0.1"),
    ],
)
def test_compact(value: float, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((1.69, 1.579, 1.811), r"$1.69^{+0.12}_{-0.11}$"),
        ((146.2, 88.76, 280.2), r"$146^{+134}_{-57}$"),
        ((91234.0, 90134.0, 92468.0), r"$91200^{+1200}_{-1100}$"),
        ((8.1e9, 8.0e9, 8.22e9), r"$(8.10^{+0.12}_{-0.10}) \times 10^{9}$"),
        ((2.0e-5, 1.9e-5, 2.2e-5), r"$(2.00^{+0.20}_{-0.10}) \times 10^{-5}$"),
        ((-0.288, -0.63, -0.142), r"$-0.29^{+0.15}_{-0.34}$"),
        ((2.0, 2.0, 2.0), r"$2.0000^{+0.0000}_{-0.0000}$"),
    ],
)
def test_values_to_two_figures_of_their_uncertainty(numbers: tuple[float, float, float], text: str) -> None:
    assert uncertain(*numbers) == text


def test_headers_name_intervals() -> None:
    assert header("run_eti90_lo") == "run 90% equal-tailed interval"
    assert header("eti99.5_lo") == "99.5% equal-tailed interval"
    assert header("discrepancy0.5%_eti90_lo") == "discrepancy0.5% 90% equal-tailed interval"
    assert header("rank_correlation") == "rank correlation"


def test_cells() -> None:
    assert [shown(v) for v in (None, True, 1.23456, 7, "a")] == ["-", "yes", "1.235", "7", "a"]


def test_latex_of_special_characters() -> None:
    table = {"columns": ["run_name", "x"], "shown": ["run_name", "x"], "rows": [["50%_$#&{}~^\\ <α>≤", None]]}
    text = tabular(table)
    assert (
        r"50\%\_\$\#\&\{\}\textasciitilde{}\textasciicircum{}\textbackslash{} \textless{}$\alpha$\textgreater{}$\leq$ & -" in text
    )
    assert latex_text("日") == "[U+65E5]"
