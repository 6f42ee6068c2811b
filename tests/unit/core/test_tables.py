"""Tables as text, and files written whole."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import check_target, write_text, write_whole
from bayeslaw.core.text import plain, significant

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
    table = pd.DataFrame({"N": [1e9, 5e8], "median": [2.34567, np.nan], "checks": ["passed", "FAILED (forced)"]})
    lines = plain(table).splitlines()
    assert [re.split(r"\s{2,}|\s(?=[-\d])", line.strip()) for line in lines[1:]] == [
        ["1.000e+09", "2.346", "passed"],
        ["5.000e+08", "- FAILED (forced)"],
    ]
    assert lines[0].split() == ["N", "median", "checks"]
    named = plain(table.set_index(pd.Index(["one", "two"], name="row")))
    assert named.splitlines()[2].startswith("one")


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


def test_a_wide_table_goes_on_below_itself() -> None:
    table = pd.DataFrame({f"column_{i}_with_a_name": [1.0, 2.0] for i in range(12)})
    lines = plain(table).splitlines()
    assert max(map(len, lines)) <= 120
    assert sum(line.count("column_") for line in lines) == 12
