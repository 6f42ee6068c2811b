"""Mapping files and logs of training programs that are not what they seem."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bayeslaw.data.table import read_runs
from tests.commands import Command
from tests.hostile.conftest import Refuse

CONSTANT = "[constants]\nN = "
MAPPINGS: dict[str, str] = {
    "5,000 digits": f"{CONSTANT}1{'0' * 5000}",
    "5,000 hexadecimal digits": f"{CONSTANT}0x1{'0' * 5000}",
    "400 digits": f"{CONSTANT}1{'0' * 400}",
    "50,000 brackets": f"x = {'[' * 50_000}",
    "50,000 braces": "x = " + "{a=" * 50_000,
    "a deep table": f"[{'.'.join('a' * 5_000)}]\nx = 1",
    "NUL": "\0",
    "a table twice": "[columns]\n[columns]",
    "an unknown name": "x = 1",
    "NaN": f"{CONSTANT}nan",
    "infinity": f"{CONSTANT}-inf",
    "true": f"{CONSTANT}true",
    "a date": f"{CONSTANT}1979-05-27",
    "a list": f"{CONSTANT}[1, 2]",
    "a list of constants": "constants = [1]",
    "a number as name": "[rename]\na = 1",
    "a number as column": "[columns]\nN = 3",
    "a list as unit": '[columns]\nN = { column = "a", unit = [1] }',
    "an unknown unit": '[columns]\nN = { column = "a", unit = "MB" }',
    "a list as kind": "from = [1]",
    "a number as losses": "losses = 3",
    "a number as run": "[runs]\na = 3",
    "a mark of two characters": 'thousands = "ab"',
    "no mark": 'decimal = ""',
    "equal marks": 'decimal = ","\nthousands = ","',
    "a line end as delimiter": 'delimiter = "\\n"',
    "a number as unit of losses": "loss_unit = 3",
    "an unknown unit of losses": 'loss_unit = "bananas"',
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_hostile_mapping_is_refused(name: str, refuse: Refuse, here: Path) -> None:
    (here / "map.toml").write_text(MAPPINGS[name], encoding="utf-8")
    refuse("import", "line.csv", "--map", "map.toml", "-o", "older.csv")


LOGS: dict[str, tuple[str, bytes]] = {
    "empty": ("log.csv", b""),
    "a header alone": ("log.csv", b"step,loss\n"),
    "binary": ("log.csv", bytes(range(256)) * 10),
    "NUL": ("log.csv", b"step,loss\n1,\0\n"),
    "a million commas": ("log.csv", b"," * 1_000_000),
    "10,000 quotes": ("log.csv", b'"' * 10_001),
    "lines that are no JSON": ("log.jsonl", b"{\n}\n["),
    "deep JSON": ("log.jsonl", b"[" * 100_000),
    "deep objects": ("log.jsonl", b'{"a":' * 100_000),
    "a key twice": ("log.jsonl", b'{"step": 1, "step": 2, "loss": 3}\n'),
    "a number of 5,000 digits": ("log.jsonl", b'{"step": 1' + b"0" * 5000 + b', "eval_loss": 3}\n'),
    "numbers alone": ("log.jsonl", b"1\n2\n"),
    "losses that are texts": ("log.jsonl", b'{"step": 1, "eval_loss": "low"}\n'),
    "losses that are infinite": ("log.jsonl", b'{"step": 1, "eval_loss": Infinity}\n'),
    "a state that is a list": ("trainer_state.json", b"[1, 2]"),
    "a state without history": ("trainer_state.json", b'{"global_step": 3}'),
    "a history of numbers": ("trainer_state.json", b'{"global_step": 3, "log_history": [1, 2]}'),
    "a state cut short": ("trainer_state.json", b'{"global_step": 3, "log_history": [{"step": 1,'),
    "events that are none": ("events.out.tfevents.1.host", b"not events"),
    "events cut short": ("events.out.tfevents.1.host", b"\x18\0\0\0\0\0\0\0"),
    "an enormous event": ("events.out.tfevents.1.host", b"\xff" * 8 + bytes(20)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_is_none_is_refused(name: str, refuse: Refuse, here: Path) -> None:
    file, content = LOGS[name]
    (here / file).write_bytes(content)
    refuse("import", file, "-o", "older.csv", "--set", "N=1e8", "--set", "tokens_per_step=1000")


@pytest.mark.parametrize(("file", "content"), [("log.csv", "step,loss\n1,2\n".encode("utf-16")), ("log", b"step,loss\n1,2\n")])
def test_an_unusual_log_is_read(file: str, content: bytes, command: Command, here: Path) -> None:
    (here / file).write_bytes(content)
    done = command("import", file, "-o", "new.csv", "--set", "N=1e8", "--set", "tokens_per_step=1000")
    assert (done.status, done.err) == (0, "")
    assert read_runs("new.csv").frame[["N", "D", "loss"]].to_numpy().tolist() == [[1e8, 1000, 2]]


def test_a_log_given_twice_and_a_folder_without_logs_are_refused(refuse: Refuse, here: Path) -> None:
    (here / "none").mkdir()
    refuse("import", "line.csv", "./line.csv", "-o", "older.csv")
    refuse("import", "none", "-o", "older.csv")
    refuse("import", "line.csv", "-o", "line.csv")


def test_thousands_of_columns_end_in_seconds(command: Command, here: Path) -> None:
    """Columns were searched for the step once for each of them, for minutes."""
    columns = ",".join(f"c{i}" for i in range(8000))
    (here / "wide.csv").write_text(f"step,loss,{columns}\n" + "1,2.3" + ",1" * 8000 + "\n")
    before = time.process_time()
    assert command("import", "wide.csv", "-o", "new.csv", "--set", "N=1e9", "--set", "tokens_per_step=1000").status == 0
    assert time.process_time() - before < 8
    assert read_runs("new.csv").frame["loss"].tolist() == [2.3]
