"""Tables in Parquet with damage, names of files that no disk holds, and tables that are too large to look at."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from bayeslaw.design.anchors import anchors
from bayeslaw.laws.card import load_law
from tests import oracles
from tests.commands import Command
from tests.errors import fails
from tests.fixed import line_fit
from tests.hostile.conftest import Refuse

ROWS = 12
X = np.linspace(-1, 1, ROWS)
TABLE = pa.table({"x": X, "loss": np.exp(1 + 0.1 * X), "run": ["a", "b"] * (ROWS // 2)})


def with_runs(run: pa.Array) -> pa.Table:
    return TABLE.set_column(2, "run", run)


def not_text() -> pa.Array:
    """Strings of which each is a byte that UTF-8 does not have."""
    places = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), ROWS, [None, places, pa.py_buffer(b"\xff" * ROWS)])


def with_metadata(text: str) -> pa.Table:
    return TABLE.replace_schema_metadata({b"pandas": text.encode()})


TABLES: dict[str, Callable[[], pa.Table]] = {
    "strings that are no UTF-8": lambda: with_runs(not_text()),
    "bytes that are no UTF-8": lambda: with_runs(pa.array([b"\xff\xfe"] * ROWS)),
    "metadata that are no JSON": lambda: with_metadata("{not json"),
    "metadata that are a list": lambda: with_metadata("[]"),
    "metadata with an index that is not there": lambda: with_metadata('{"index_columns": ["nowhere"], "columns": []}'),
    "metadata with an odd range": lambda: with_metadata('{"index_columns": [{"kind": "range", "stop": "a"}], "columns": []}'),
    "metadata with unknown types": lambda: with_metadata(
        '{"index_columns": [], "columns": [], "column_indexes": [{"name": null, "pandas_type": "bar", "numpy_type": "foo"}]}'
    ),
    "lists in cells": lambda: TABLE.set_column(0, "x", pa.array([[1, 2]] * ROWS)),
    "objects in cells": lambda: TABLE.set_column(0, "x", pa.array([{"a": 1}] * ROWS)),
    "dates": lambda: TABLE.set_column(0, "x", pa.array([0] * ROWS, pa.timestamp("s"))),
    "a column twice": lambda: pa.table([X, X, X], names=["x", "x", "loss"]),
    "no columns": lambda: pa.table({}),
    "no rows": lambda: TABLE.slice(0, 0),
    "no loss": lambda: TABLE.drop_columns("loss"),
}


@pytest.mark.parametrize("name", TABLES)
def test_an_odd_parquet_file_is_refused(name: str, refuse: Refuse, here: Path) -> None:
    pq.write_table(TABLES[name](), here / "runs.parquet")
    refuse("fit", "line.toml", "runs.parquet", "-q", "-o", "older.nc")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.55, 0.6, 0.7, 0.8, 0.9, 0.97])
def test_a_parquet_file_with_a_flipped_byte_is_refused_or_read(share: float, command: Command, here: Path) -> None:
    """Parquet has no checksum of its numbers: a flip among them is read as another number, which nobody can tell."""
    pq.write_table(TABLE, here / "runs.parquet")
    content = bytearray((here / "runs.parquet").read_bytes())
    content[int(share * len(content))] ^= 0xFF
    (here / "runs.parquet").write_bytes(content)
    done = command("check", "runs.parquet", "--law", "line.toml")
    assert done.status in (0, 2)
    assert "Traceback" not in done.err


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(100) + b"PAR1", b"x,loss\n1,2\n"])
def test_what_is_no_parquet_file_is_refused(content: bytes, refuse: Refuse, here: Path) -> None:
    (here / "runs.parquet").write_bytes(content)
    refuse("check", "runs.parquet", "--law", "line.toml", code="unreadable-table")


LONG = "a" * 300
COMMANDS = """\
check {}.csv --law line.toml
check line.csv --law {}
check line.csv --law {}.toml
laws {}
laws {}.toml
show {}.nc
fit line.toml {}.csv -q -o older.nc
fit line.toml line.csv -q -o {}.nc
fit {} line.csv -q -o older.nc
forecast {}.nc --set x=1
forecast fit.nc --at {}.csv
forecast fit.nc --set x=1 -o {}.csv
forecast fit.nc --set x=1 --plot {}.png
score fit.nc {}.csv
update fit.nc {}.csv -o older.nc -q
compare {}.csv --law line.toml
compare line.csv --law line.toml --at {}.csv
backtest {}.csv --law line.toml --by step
backtest steps.csv --law {} --by step
backtest steps.csv --law line.toml --by {}
backtest steps.csv --law line.toml --by step -o {}.csv
backtest steps.csv --law line.toml --by step --plot {}.png
import {}.csv -o older.csv
import line.csv -o {}.csv
import line.csv --map {} -o older.csv
convert {}.csv --to bits/byte -o older.csv
report fit.nc -o {}.html
report fit.nc -o page.html --latex {}
explore {}.nc -o page.html
explore fit.nc -o {}.html
demo --tables -o {}
data fetch chinchilla -o {}
dynamics areas {}.csv -o older.csv
anchors fit.nc --targets {}.csv --budget 1
plan --source {}.nc --target fit.nc
""".splitlines()


@pytest.mark.parametrize("line", COMMANDS)
def test_a_name_that_no_disk_holds_is_refused(line: str, refuse: Refuse) -> None:
    refuse(*line.format(LONG).split())


@pytest.mark.parametrize("line", [line for line in COMMANDS if "plan" not in line])
def test_a_name_with_a_nul_is_refused(line: str, refuse: Refuse) -> None:
    refuse(*line.format("a\0b").split())


@pytest.mark.parametrize("option", ["check line.csv --law line.toml --where", "fit line.toml line.csv -q -o older.nc --where"])
@pytest.mark.parametrize(
    "condition", ["", " ", "#", "()", "loss", "x >", "x > 1 and", "x = 1", "x.real > 0", "x > [1]", "1 < 'a'", "(" * 300]
)
def test_a_condition_that_is_none_is_refused(option: str, condition: str, refuse: Refuse) -> None:
    """An empty one is most often a variable of the shell that is not set; the whole table would be taken."""
    refuse(*option.split(), condition)


@pytest.mark.parametrize("loss", ["5e-324", "1e-300", "1e-9", "-0.0", "-1e-9", "1e308", "nan", "inf"])
def test_a_loss_that_no_model_has_is_refused(loss: str, refuse: Refuse, here: Path) -> None:
    (here / "runs.csv").write_text(f"x,loss\n0,2.5\n1,{loss}\n2,2.7\n3,2.8\n", encoding="utf-8")
    refuse("fit", "line.toml", "runs.csv", "-q", "-o", "older.nc", code=TOO_SMALL if 0 < float(loss) < 1 else "")


TOO_SMALL = "loss-too-small"
NOWHERE = [
    "log(-1 - x*x) + a + b + c",
    "a + b + c + 0/(x - x)",
    "-exp(a + b*x + c*x*x)",
    "exp(exp(exp(9 + a*a + b*b + c*c + x*x)))",
]


@pytest.mark.parametrize("formula", NOWHERE)
@pytest.mark.parametrize("line", ["check line.csv --law own.toml", "fit own.toml line.csv -q -o older.nc"])
def test_a_law_that_is_nowhere_finite_passes_neither_check_nor_fit(formula: str, line: str, refuse: Refuse, here: Path) -> None:
    card = (here / "line.toml").read_text(encoding="utf-8").replace("exp(a + b*x + c*x*x)", formula)
    (here / "own.toml").write_text(card, encoding="utf-8")
    refuse(*line.split(), code="no-finite-value")


def test_thousands_of_columns_and_hundreds_of_thousands_of_rows_are_read_within_seconds(command: Command, here: Path) -> None:
    """Of 20,000 columns they took 59 s, as each was looked up among all others, and set in a table that grew slower with each."""
    names, numbers = ",".join(f"c{i}" for i in range(8000)), ",1" * 8000
    (here / "wide.csv").write_text(f"x,loss,{names}\n" + "".join(f"{i},2.5{numbers}\n" for i in range(3)), encoding="utf-8")
    began = time.process_time()
    assert command("check", "wide.csv", "--law", "line.toml").status == 0
    (here / "long.csv").write_text("x,loss\n" + "".join(f"{i % 7},{2 + i / 1e6:.6f}\n" for i in range(400_000)), encoding="utf-8")
    done = command("check", "long.csv", "--law", "line.toml")
    assert "400000 rows are sound" in done.out.replace(",", "")
    assert time.process_time() - began < 10


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_losses_without_noise_are_refused_before_sampling(noise: float, refuse: Refuse, here: Path) -> None:
    """They took 30 s, and then failed their checks."""
    loss = np.exp(1 + 0.1 * X + noise * np.random.default_rng(0).standard_normal(ROWS))
    (here / "exact.csv").write_text("x,loss\n" + "".join(f"{x!r},{y!r}\n" for x, y in zip(X.tolist(), loss.tolist(), strict=True)))
    refuse("fit", "line.toml", "exact.csv", "-q", "-o", "older.nc", code="losses-without-noise")


def test_a_value_for_each_row_is_refused_before_sampling(refuse: Refuse, here: Path) -> None:
    """It was said that the losses were computed."""
    table = oracles.table(load_law("chinchilla"), runs=6)
    table.assign(name=[f"row {i}" for i in range(len(table))]).to_csv(here / "each.csv", index=False)
    refuse("fit", "chinchilla", "each.csv", "--by", "E=name", "-q", "-o", "older.nc", code="value-for-each-row")


def test_base_checkpoints_alone_are_refused_by_laws_of_an_adaptation(refuse: Refuse, here: Path) -> None:
    oracles.table(load_law("transfer-target"), runs=8).assign(D=0).to_csv(here / "base.csv", index=False)
    refuse("fit", "transfer-target", "base.csv", "-q", "-o", "older.nc", code="only-base-checkpoints")


def test_a_draw_without_a_positive_loss_names_its_parameter(tmp_path: Path) -> None:
    """One draw of thousands stopped `anchors`, and nothing said which."""
    fit = line_fit()
    draws = fit.tree["posterior"].to_dataset().copy(deep=True)
    draws["b"][0, 5] = 1e4
    fit.tree["posterior"] = xr.DataTree(draws)
    buy = pd.DataFrame({"x": [0.0, 1.0], "run": ["a", "b"], "cost": [1.0, 1.0]})
    with fails("no-finite-loss", "row = 2", "b = 1e+04, whose median is 0."):
        anchors(fit, buy, buy, budget=1, cost="cost")
