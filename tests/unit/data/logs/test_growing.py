"""Logs that are being written: missing, half a line, replaced, not finite, out of order."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.logs.growing import GrowingLog, whole_lines
from tests import events
from tests.errors import fails
from tests.logs import cells, lines, noted, state, written
from tests.values import present


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def old(path: Path) -> None:
    """Make a file look as if nobody had written to it for a minute."""
    os.utime(path, (time.time() - 60, time.time() - 60))


def a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("bayeslaw.data.logs.growing.time.time", lambda: now + 60)


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_half_a_line_is_known_by_our_clock_where_a_server_has_another(
    ahead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind ours, each change looked an hour old, and 3.1 of 3.125 was a loss; ahead, nothing was whole for an hour."""
    path = written(tmp_path, "step,val_loss\n100,3.25\n")
    log = GrowingLog(path)
    log.read()
    append(path, "200,3.1")
    os.utime(path, (time.time() + ahead, time.time() + ahead))
    assert cells(present(log.read()), "step", "loss") == [[100, 3.25]]
    a_minute_later(monkeypatch)
    assert cells(present(log.read()), "step", "loss") == [[100, 3.25], [200, 3.1]]


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log.csv")
    assert log.read() is None
    assert "not there yet" in log.problem
    with fails("no-such-file", "log.csv"):
        log.read(settled=True)
    written(tmp_path, "step,val_loss\n100,3.25\n")
    imported = present(log.read())
    assert cells(imported, "step", "loss") == [[100, 3.25]]
    assert log.problem == ""
    assert log.read() is None  # nothing has changed


@pytest.mark.slow
def test_half_a_last_line_is_not_read_until_it_has_an_end_or_the_file_has_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "step,val_loss\n100,3.25\n200,3.1")
    log = GrowingLog(path)
    imported = present(log.read())
    assert cells(imported, "step", "loss") == [[100, 3.25]]
    append(path, "25\n300,3.0")
    imported = present(log.read())
    assert cells(imported, "step", "loss") == [[100, 3.25], [200, 3.125]]
    a_minute_later(monkeypatch)
    imported = present(log.read())
    assert cells(imported, "step", "loss")[-1] == [300, 3.0]
    assert log.read() is None


@pytest.mark.slow
def test_half_a_line_of_json_and_half_a_state_of_the_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, '{"step": 100, "val_loss": 3.25}\n{"step": 200, "val_lo', "log.jsonl")
    for settled in (False, True):
        imported = present(GrowingLog(path).read(settled=settled))
        assert cells(imported, "step", "loss") == [[100, 3.25]]
    append(path, 'ss": 3.125}')  # whole, although its line has no end
    imported = present(GrowingLog(path).read())
    assert len(imported.runs) == 2
    whole = state(tmp_path / "run" / "checkpoint-2", range(1, 3))
    text = whole.read_text(encoding="utf-8")
    log = GrowingLog(tmp_path / "run", domains=["web"])
    assert log.read() is not None
    whole.write_text(text[: len(text) // 2], encoding="utf-8")
    assert log.read() is None
    assert "can't be read yet" in log.problem
    whole.write_text(text, encoding="utf-8")
    assert log.read() is not None
    whole.write_text(text[: len(text) // 2], encoding="utf-8")
    a_minute_later(monkeypatch)
    with pytest.raises(BayeslawError):
        log.read()


@pytest.mark.parametrize(
    ("name", "first", "then"),
    [
        ("log.jsonl", '{"step": 1, "train_loss": 3.5}\n', '{"step": 2, "val_loss": 3.25}\n'),
        ("log.csv", "epoch,step,train_loss,val_loss\n", "0,2,3.5,3.25\n"),
        ("run.out", "[2026-01-31 10:00:00] compiling\n", "[2026-01-31 10:05:00] step 2: train loss 3.5, val loss 3.25\n"),
    ],
)
def test_the_first_loss_is_waited_for(tmp_path: Path, name: str, first: str, then: str) -> None:
    path = written(tmp_path, first, name)
    old(path)
    log = GrowingLog(path)
    assert log.read() is None
    assert "can't be read yet" in log.problem
    with pytest.raises(BayeslawError):
        log.read(settled=True)
    append(path, then)
    assert cells(present(log.read()), "step", "loss") == [[2, 3.25]]


def test_an_event_file_with_half_a_record(tmp_path: Path) -> None:
    entries = [events.event(step, float(step), events.simple("eval/loss", loss)) for step, loss in ((100, 3.25), (200, 3.125))]
    path = events.write(tmp_path / "run" / "events.out.tfevents.1", entries, cut=5)
    for source in (path, tmp_path / "run"):
        imported = present(GrowingLog(source).read())
        assert cells(imported, "step", "loss") == [[100, 3.25]]


def test_a_log_that_is_truncated_is_read_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, "step,val_loss\n100,3.25\n200,3.125\n")
    log = GrowingLog(path)
    assert log.read() is not None
    written(tmp_path, "step,val_loss\n50,3.5\n")
    imported = present(log.read())
    assert cells(imported, "step", "loss") == [[50, 3.5]]
    path.unlink()
    assert log.read() is None
    assert "not there yet" in log.problem


def test_steps_that_go_back_are_those_of_a_resumed_run(tmp_path: Path) -> None:
    log = [{"step": s, "val_loss": v} for s, v in ((100, 3.3), (200, 3.2), (300, 3.1), (200, 3.25))]
    imported = present(GrowingLog(lines(tmp_path, *log)).read())
    assert cells(imported, "step", "loss") == [[100, 3.3], [200, 3.25]]
    assert noted(imported, "was resumed at step 200")


@pytest.mark.slow
def test_losses_that_are_not_finite_are_left_out_and_a_diverged_run_is_marked(tmp_path: Path) -> None:
    path = written(tmp_path, '{"step": 100, "val_loss": 3.3}\n{"step": 200, "val_loss": NaN}\n', "log.jsonl")
    log = GrowingLog(path)
    imported = present(log.read())
    assert log.diverged
    assert cells(imported, "step", "loss") == [[100, 3.3]]
    append(path, json.dumps({"step": 300, "val_loss": 3.1}) + "\n")
    assert log.read() is not None
    assert not log.diverged


def test_only_a_last_line_without_an_end_is_left_out() -> None:
    assert whole_lines(b"a\nb\n") == b"a\nb\n"
    assert whole_lines(b"a\nb") == b"a\n"
    assert whole_lines(b"a") == b""
    assert whole_lines(b'{"a": 1}\n{"b": 2}') == b'{"a": 1}\n{"b": 2}'
    assert whole_lines(b'{"a": [\n 1\n]}') == b'{"a": [\n 1\n]}'


@pytest.mark.parametrize("begun", ['{"step": 100, "val_lo', '{"log_history": [{"step": 100, "eval_loss": 3.3},\n {"step": 200,'])
def test_a_record_that_is_not_whole_is_waited_for_however_old_it_is(begun: str, tmp_path: Path) -> None:
    """Its end may be in a buffer; the whole document of Hugging Face's trainer is one record."""
    path = written(tmp_path, begun, "trainer_state.json" if "history" in begun else "log.jsonl")
    old(path)
    log = GrowingLog(path)
    assert log.read() is None
    assert log.problem == f"{path} can't be read yet: it ends within a record"
    with pytest.raises(BayeslawError):
        log.read(settled=True)
    append(path, 'ss": 3.3}\n' if path.suffix == ".jsonl" else ' "eval_loss": 3.2}]}')
    imported = present(log.read())
    assert cells(imported, "loss")[0] == [3.3]


def test_a_folder_without_files_is_there(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path)
    assert log.read() is None
    assert log.problem == f"{tmp_path} has no files yet"
    with fails("no-such-file", "has no files."):
        log.read(settled=True)
