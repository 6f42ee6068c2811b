"""The command `import`: what it writes, what it says, and what it refuses without writing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeslaw import load_law
from bayeslaw.data import check, read_curves
from bayeslaw.data.table import read_runs
from tests.commands import Command, refused, rejected, snapshot

LOG = """run,Step,eval/web_loss,eval/code_loss,train/learning_rate
a,"1,000",3.0,2.0,3e-4
a,"1,500",,,2e-4
a,"2,000",2.9,1.9,1e-4
b,"1,000",3.1,2.1,3e-4
b,"2,000",3.0,NaN,1e-4
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG, encoding="utf-8")
    Path("map.toml").write_text("[runs.a]\nN = 1e8\n[runs.b]\nN = 2e8\n[constants]\ntokens_per_step = 500_000\n", encoding="utf-8")
    return tmp_path


def test_from_a_log_to_a_sound_table(command: Command, log: Path) -> None:
    done = command("import", "log.csv", "-o", "runs.csv", "--map", "map.toml", "--nan", "drop", "--domain", "web")
    assert (done.status, done.err) == (0, "")
    assert "5 cells of 'Step'" in done.out
    assert "note: D = step x tokens_per_step" in done.out
    assert "4 losses from 2 runs written to runs.csv" in done.out
    runs = read_runs("runs.csv")
    assert runs.frame[["N", "D", "loss"]].values.tolist() == [[1e8, 5e8, 3.0], [1e8, 1e9, 2.9], [2e8, 5e8, 3.1], [2e8, 1e9, 3.0]]
    assert check(runs, load_law("chinchilla")) == []


def test_from_a_log_to_areas(command: Command, log: Path) -> None:
    done = command("import", "log.csv", "-o", "curves.csv", "--nan", "drop", "--curves", "--set", "tokens_per_step=5e5")
    assert done.status == 0
    assert "7 losses of 2 domains and 1 learning rate from 2 runs" in done.out
    curves = read_curves("curves.csv")
    assert curves.domains == ("web", "code")
    assert curves.curve("a").logged_steps.tolist() == [1000, 1500, 2000]
    assert command("dynamics", "areas", "curves.csv", "-o", "areas.csv", "--warmup", "1000").status == 0


def test_what_is_refused_leaves_everything_as_it_was(command: Command, log: Path) -> None:
    before = snapshot(log)
    rejected(command("import", "log.csv", "-o", "runs.csv"), "diverged", "log.csv", "row 5, column loss", "--nan drop")
    refused(command("import", "log.csv", "-o", "log.csv"), "log.csv")
    refused(command("import", "log.csv", "-o", "runs.txt"), ".csv")
    rejected(command("import", "none.csv", "-o", "runs.csv"), "no-such-file", "none.csv")
    rejected(command("import", "log.csv", "-o", "runs.csv", "--from", "excel"), "unknown-option", "'excel'")
    rejected(command("import", "log.csv", "-o", "runs.csv", "--map", "none.toml"), "no-such-file", "none.toml")
    refused(command("import", "log.csv", "-o", "runs.csv", "--loss", "=web"), "'=web'", "COLUMN=DOMAIN")
    rejected(command("import", "log.csv", "-o", "runs.csv", "--set", "N=many"), "not-a-number", "--set", "'many'")
    for name in ("loss_unit=bits/byte", "kind=table", "nan=drop", "curves=1", "sources=x"):
        done = command("import", "log.csv", "-o", "runs.csv", "--set", name)
        rejected(done, "unknown-name", "--set", repr(name.split("=")[0]))
    both = ("--loss", "eval/web_loss", "--loss", "eval/code_loss")
    rejected(command("import", "log.csv", "-o", "runs.csv", *both), "missing-domain")
    rejected(command("import", "log.csv", "-o", "runs.csv", "--from", "trainer"), "not-a-trainer-state", "log.csv")
    rejected(command("import", "log.csv", "-o", "runs.csv", "--from", "tensorboard"), "wrong-checksum", "log.csv", "record 1")
    assert snapshot(log) == before


def test_columns_named_by_hand(command: Command, log: Path) -> None:
    done = command("import", "log.csv", "-o", "runs.csv", "--loss", "eval/web_loss=pages")
    assert done.status == 0
    assert read_runs("runs.csv").frame["domain"].unique().tolist() == ["pages"]


def test_many_faults_are_all_listed(command: Command, log: Path) -> None:
    rows = "".join(f"a,{step},nan\n" for step in range(1, 31))
    Path("nan.csv").write_text(f"run,step,eval_loss\n{rows}", encoding="utf-8")
    done = command("import", "nan.csv", "-o", "runs.csv")
    refused(done, "30 faults")
    assert done.out.count("the run diverged") == 30
