"""Fragments for notebooks: escaped, self-contained, cut with a count."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core import html
from bayeslaw.core.text import short_lines
from tests.fragments import outline

SCRIPT = "<script>alert(1)</script>"


def test_texts_are_escaped_everywhere() -> None:
    frame = pd.DataFrame({SCRIPT: [f'{SCRIPT}" onclick="x', SCRIPT], "x": [1.0, 2.0]})
    shown = html.fragment(
        SCRIPT, SCRIPT, html.grid(frame, caption=SCRIPT), html.notes([SCRIPT]), html.alarm(SCRIPT), html.paragraph(SCRIPT),
        html.verdicts(f"FAILED ({SCRIPT})", SCRIPT, SCRIPT), html.verdicts("passed", SCRIPT),
        html.formulas(["<math></math>"], SCRIPT),
    )  # fmt: skip
    assert outline(shown).count(SCRIPT) >= 10


def test_a_long_table_is_cut_with_a_count() -> None:
    frame = pd.DataFrame(np.arange(600.0).reshape(30, 20), columns=[f"c_{i}" for i in range(20)])
    shown = outline(html.grid(frame))
    assert f"… {30 - html.ROWS} more rows and {20 - html.COLUMNS} more columns: c 12, c 13" in shown
    assert "c 11" in shown
    assert "239" not in shown.replace("c 11", "")
    assert "more" not in outline(html.grid(frame.iloc[: html.ROWS, : html.COLUMNS]))


def test_the_number_of_rows_may_be_larger_than_what_is_given() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    assert "… 1,998 more rows" in outline(html.grid(frame, 2_000))
    assert "more" not in outline(html.grid(frame, 2))


def test_a_table_without_rows_has_its_heads() -> None:
    assert "a_b".replace("_", " ") in outline(html.grid(pd.DataFrame({"a_b": []})))


def test_both_ends_of_an_interval_are_in_one_cell() -> None:
    frame = pd.DataFrame({"eti90_lb": [1.0], "eti90_ub": [2.0], "flag": [True], "none": [np.nan]})
    assert outline(html.grid(frame)).split("\n") == ["90% equal-tailed interval", "flag", "none", "[1, 2]", "yes", "-"]


def test_rows_that_were_held_out_and_the_probability_of_a_plan_have_other_heads() -> None:
    assert outline(html.grid(pd.DataFrame({"held_out": ["N > 1e9"]}))).startswith("rows held out")
    plans = pd.DataFrame({"searched": [0.9], "held_out": [0.89]})
    assert "probability on held-out draws" in outline(html.grid(plans))


def test_notes_are_shown_once_and_counted() -> None:
    assert outline(html.notes(["a", "b", "a", "concern: c"])).split("\n") == ["note: a", "note: b", "concern: c"]
    assert outline(html.notes(map(str, range(html.NOTES + 3)))).endswith("… and 3 more notes")


def test_long_texts_are_cut() -> None:
    assert outline(html.paragraph("word " * 1000)).endswith("word …")
    assert len(outline(html.grid(pd.DataFrame({"a": ["x" * 5000]})))) < 200


@pytest.mark.parametrize("text", ["<Law x: loss = " + " + ".join("abcdefgh" * 4) + ">", "x" * 300, "a\x1b[2Jb\n\u202ec"])
def test_a_representation_fits_80_columns_and_commands_no_terminal(text: str) -> None:
    lines = short_lines(text).split("\n")
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    assert "".join("".join(lines).split()) == "".join("".join(c if c.isprintable() else " " for c in text).split())
