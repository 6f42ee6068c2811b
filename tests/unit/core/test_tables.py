"""Tables as text, and files written whole."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import check_target, write_text, write_whole
from bayeslaw.core.text import once, plain, significant, terminal_width, wrapped

# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (3.0, "3"), (-7.0, "-7"), (123456.0, "123456"), (1234.5678, "1235"), (12.345678, "12.35"),
        (0.123456, "0.1235"), (-0.00123456, "-0.001235"), (0.0001, "0.0001000"), (0.99996, "1.000"), (999.96, "1000"),
        (9.99996e-5, "1.000e-04"), (1e7, "1.000e+07"), (8.1e9, "8.100e+09"), (-1.23456e-5, "-1.235e-05"), (math.nan, "-"),
        (math.inf, "inf"), (-math.inf, "-inf"),
    ],
)  # fmt: skip
def test_significant(value: float, text: str) -> None:
    assert significant(value) == text


def test_significant_figures_can_be_chosen() -> None:
    assert [significant(math.pi, digits) for digits in (1, 2, 6)] == ["3", "3.1", "3.14159"]
    assert significant(8.123e9, 2) == "8.1e+09"


def test_four_figures_are_kept(rng: np.random.Generator) -> None:
    for value in np.exp(rng.uniform(-30, 30, 500)) * rng.choice([-1, 1], 500):
        assert float(significant(float(value))) == pytest.approx(value, rel=5.001e-4)


def test_plain_tables() -> None:
    table = pd.DataFrame(
        {"N": [1e9, 5e8], "median": [2.34567, np.nan], "checks": ["passed", "FAILED (forced)"], "best": [True, False]}
    )
    assert plain(table).splitlines() == [
        "  N  median  checks           best",
        "1e9   2.346  passed            yes",
        "5e8       -  FAILED (forced)    no",
    ]
    named = plain(table.set_index(pd.Index(["one", "two"], name="row")))
    assert named.splitlines()[1].startswith("one  1e9")


def test_numbers_keep_their_zeros_where_figures_are_lost() -> None:
    table = pd.DataFrame({"exact": [0.1, 0.25, math.nan], "rounded": [0.1, 0.123456, math.inf]})
    assert [line.split() for line in plain(table).splitlines()[1:]] == [["0.1", "0.1000"], ["0.25", "0.1235"], ["-", "inf"]]


WIDE = pd.DataFrame({f"a_long_name_{i}": [float(i + row / 8) for row in range(6)] for i in range(12)}).assign(same="passed")


@pytest.mark.parametrize("width", [50, 80, 120])
def test_many_wide_rows_are_folded_below_with_what_tells_them_apart(width: int) -> None:
    lines = plain(WIDE, width).splitlines()
    assert max(map(len, lines)) <= width
    assert "in all rows: same passed" in lines
    heads = [line.split() for line in lines if "a_long_name" in line]
    assert sorted({name for head in heads for name in head}) == sorted({*map(str, WIDE)} - {"same"})
    assert {head[0] for head in heads} == {"a_long_name_0"}
    assert sum(line.split()[:1] == ["0.375"] for line in lines) == len(heads)


def test_rows_that_no_columns_tell_apart_are_numbered() -> None:
    table = pd.DataFrame({"text": ["alike", "alike", "other"] * 2, "note": ["a sentence of several words"] * 5 + ["another"]})
    lines = plain(table, 32).splitlines()
    assert lines[0].split() == ["row", "text"]
    assert lines[-1].split() == ["6", "another"]


@pytest.mark.parametrize(("width", "blocks"), [(120, 1), (40, 2)])
def test_few_wide_rows_are_printed_vertically(width: int, blocks: int) -> None:
    table = WIDE.head(2).assign(why=["because of this", "a reason that is told in a sentence of so many words"])
    text = plain(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.split("\n\n")) == blocks
    line = next(line for line in text.splitlines() if line.startswith("a_long_name_3"))
    assert line.split() == ["a_long_name_3", "3", "3.125"][: 4 - blocks]
    assert " ".join(text.split()).count("because of this") == 1


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_width() is None
    assert max(map(len, plain(WIDE).splitlines())) in range(81, 121)
    for columns, width in (("80", 80), ("200", 200), ("7", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        assert terminal_width() == width
        assert max(map(len, plain(WIDE).splitlines())) <= width


def test_sentences_are_broken_between_words() -> None:
    assert wrapped("short\n\n", 40) == "short\n\n"
    text = "  concern: runs lie 1.7% around the law beyond point noise"
    assert wrapped(text, 31) == "  concern: runs lie 1.7% around\n    the law beyond point noise"
    assert (
        wrapped("mae_rel   mean relative error, lower is better", 30) == "mae_rel   mean relative error,\n          lower is better"
    )


def test_notes_that_repeat_are_said_once() -> None:
    assert once(["a: few", "b: few", "c: many", "again", "again"]) == ["a, b: few", "c: many", "again"]


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("midway"), OSError("disk full")])
def test_an_older_file_stays_whole_where_the_writer_fails(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "out.csv"
    path.write_text("older", encoding="utf-8")

    def write(temporary: Path) -> None:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".csv"
        temporary.write_text("half of the n", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "older"
        raise failure

    expected = BayeslawError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected) as caught:
        write_whole(path, write)
    if isinstance(failure, OSError):
        assert str(caught.value) == f"{path} can't be written: disk full."
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_text(encoding="utf-8") == "older"


def test_a_written_file_replaces_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    for text in ("older", "newer: 0.9 ± 0.1\n"):
        write_text(path, text)
        assert path.read_bytes() == text.encode()
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_the_older_file_is_renamed_over_and_never_written_into(tmp_path: Path) -> None:
    """Who has it open goes on reading the older text."""
    path = tmp_path / "out.csv"
    write_text(path, "older")
    with path.open(encoding="utf-8") as older:
        write_text(path, "newer")
        assert older.read() == "older"


def test_a_file_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(BayeslawError) as caught:
        write_text(tmp_path / "none" / "out.csv", "text")
    assert str(caught.value) == f"There is no folder {tmp_path / 'none'} to write out.csv into."


def test_targets_are_checked_beforehand(tmp_path: Path) -> None:
    (tmp_path / "taken.csv").mkdir()
    check_target(tmp_path / "new.CSV", "A forecast", ".csv")
    for name, text in (
        ("new.nc", "A forecast is written to a file ending in .csv, not new.nc."),
        ("new", "A forecast is written to a file ending in .csv, not new."),
        ("none/new.csv", f"There is no folder {tmp_path / 'none'} to write new.csv into."),
        ("taken.csv", f"{tmp_path / 'taken.csv'} is a folder, not a file to write a forecast to."),
    ):
        with pytest.raises(BayeslawError) as caught:
            check_target(tmp_path / name, "A forecast", ".csv")
        assert str(caught.value) == text
