"""Columns of logs that are kept as they are, one value for each run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeslaw.data.logs.api import import_runs
from tests import events
from tests.errors import fails
from tests.logs import cells, noted, written
from tests.stores import in_files

HISTORY = """Name,Step,eval/loss,config.N,config.optimizer,tag
a,1000,3.4,1e8,adamw,x
a,2000,3.3,1e8,,y
b,1000,3.2,2e8,muon,
b,2000,3.1,2e8,muon,
c,1000,3.0,4e8,,
"""


def test_a_column_by_which_laws_may_differ_is_kept_as_it_is(tmp_path: Path) -> None:
    """It was left out, and nothing could keep it."""
    path = written(tmp_path, HISTORY)
    assert "config.optimizer" not in import_runs(path).runs.frame
    imported = import_runs(path, keep={"optimizer": "config.optimizer"}, map={"rename": {"b": "large"}})
    assert cells(imported, "run", "step", "optimizer")[:4] == [
        ["a", 1000, "adamw"], ["a", 2000, "adamw"], ["large", 1000, "muon"], ["large", 2000, "muon"],
    ]  # fmt: skip
    assert imported.runs.frame["optimizer"].isna().tolist() == [False] * 4 + [True]
    assert noted(imported, "config.optimizer is kept as optimizer; 1 run without a value (c)")
    assert not noted(imported, "not used", "optimizer")
    assert cells(import_runs(path, keep="config.optimizer"), "config.optimizer")[0] == ["adamw"]
    rows = '{"run": "a", "step": 1, "val_loss": 3.4, "wd": 0.1, "muon": true, "heads": 8.0}\n'
    logged = import_runs(written(tmp_path, rows, "log.jsonl"), keep=["wd", "muon", "heads"])
    assert cells(logged, "wd", "muon", "heads") == [[0.1, "True", 8]]


def test_settings_of_runs_are_kept_from_event_files_and_stores(tmp_path: Path) -> None:
    for run, optimizer in (("big", "adamw"), ("small", "muon")):
        settings = events.event(0, 2.0, events.settings({"n_params": 1e7, "opt": optimizer}))
        losses = [events.event(s, 1.0, events.simple("val/loss", 3.0)) for s in (1, 2)]
        events.write(tmp_path / "logs" / run / "a.tfevents", [settings, *losses])
    imported = import_runs(tmp_path / "logs", keep={"optimizer": "hparams.opt"})
    assert cells(imported, "run", "optimizer")[1:3] == [["big", "adamw"], ["small", "muon"]]
    path = in_files(tmp_path / "store", [("ladder", "big", "active", {"val_loss": [(3.5, 9)]}, {"optimizer": "adamw"})])
    assert cells(import_runs(path, keep="params.optimizer"), "params.optimizer") == [["adamw"]]


def test_what_is_kept_does_not_change_what_kind_of_log_it_is(tmp_path: Path) -> None:
    """Columns whose meaning the user gives make a table of an export, whose steps are the logger's."""
    path = written(tmp_path, "_step,_runtime,eval/loss,config.optimizer\n1,10,3.4,adamw\n2,20,3.3,adamw\n")
    plain, kept = import_runs(path, N=1e8), import_runs(path, keep="config.optimizer", N=1e8)
    assert noted(kept, "logger")
    assert cells(kept, "run", "step", "loss") == cells(plain, "run", "step", "loss")


@pytest.mark.parametrize(
    ("keep", "code", "named"),
    [
        ("tag", "two-values-of-one-run", "--keep"),
        ("config.optimiser", "missing-column", "Did you mean 'config.optimizer'?"),
        ({"lr": "config.optimizer"}, "known-name", "keep={'NAME': 'config.optimizer'}"),
        ("last", "known-name", "--keep NAME=last"),
        ({"a": "tag", "b": "tag"}, "two-meanings", "--keep tag (keep=)"),
        (3, "not-a-text", "config.optimizer"),
        ([3], "not-a-text", "[3]"),
    ],
)
def test_columns_that_can_not_be_kept_are_refused(tmp_path: Path, keep: object, code: str, named: str) -> None:
    with fails(code, named if code != "two-values-of-one-run" else "'x' before"):
        import_runs(written(tmp_path, HISTORY), keep=keep)  # type: ignore[arg-type]
