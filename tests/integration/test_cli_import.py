"""The command `import`: what it writes, what it prints, and what it refuses without writing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeslaw import load_law
from bayeslaw.data import check, read_curves
from bayeslaw.data.table import read_runs
from tests.commands import Command, rejected, unchanged

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


def test_a_log_becomes_a_sound_table(command: Command, log: Path) -> None:
    done = command("import", "log.csv", "-o", "runs.csv", "--map", "map.toml", "--nan", "drop", "--domain", "web")
    assert (done.status, done.err) == (0, "")
    assert "5 cells of 'Step'" in done.out
    assert "note: D = step x tokens_per_step" in done.out
    assert "4 losses from 2 runs written to runs.csv" in done.out
    runs = read_runs("runs.csv")
    assert runs.frame[["N", "D", "loss"]].values.tolist() == [[1e8, 5e8, 3.0], [1e8, 1e9, 2.9], [2e8, 5e8, 3.1], [2e8, 1e9, 3.0]]
    assert check(runs, load_law("chinchilla")) == []


def test_a_log_becomes_areas_of_its_learning_rates(command: Command, log: Path) -> None:
    done = command("import", "log.csv", "-o", "curves.csv", "--nan", "drop", "--curves", "--set", "tokens_per_step=5e5")
    assert done.status == 0
    assert "7 losses of 2 domains and 1 learning rate from 2 runs" in done.out
    curves = read_curves("curves.csv")
    assert curves.domains == ("web", "code")
    assert curves.curve("a").logged_steps.tolist() == [1000, 1500, 2000]
    assert command("dynamics", "areas", "curves.csv", "-o", "areas.csv", "--warmup", "1000").status == 0


@pytest.mark.parametrize(
    ("options", "code", "values"),
    [
        ((), "diverged", ["row 5, column loss", "--nan drop"]),
        (("-o", "log.csv"), "output-is-input", ["log.csv"]),
        (("-o", "runs.txt"), "wrong-ending", [".csv"]),
        (("--from", "excel"), None, ["'excel'"]),
        (("--map", "none.toml"), None, ["none.toml"]),
        (("--loss", "=web"), "not-a-pair", ["COLUMN=DOMAIN"]),
        (("--loss", "a", "--loss", "a"), "given-twice", ["'a'"]),
        (("--set", "N=many"), None, ["N", "'many'"]),
        (("--set", "kind=table"), None, ["'kind'", "N, D, U"]),
        (("--from", "trainer"), None, ["trainer_state.json"]),
    ],
)
def test_unusable_imports_are_refused_and_nothing_is_written(
    command: Command, log: Path, options: tuple[str, ...], code: str | None, values: list[object]
) -> None:
    with unchanged(log):
        done = command("import", "log.csv", *(() if "-o" in options else ("-o", "runs.csv")), *options)
        rejected(done, code or max(done.codes), *values)


def test_a_column_of_losses_can_be_named(command: Command, log: Path) -> None:
    done = command("import", "log.csv", "-o", "runs.csv", "--loss", "eval/web_loss=pages")
    assert done.status == 0
    assert read_runs("runs.csv").frame["domain"].unique().tolist() == ["pages"]


def test_many_faults_are_all_listed(command: Command, log: Path) -> None:
    rows = "".join(f"a,{step},nan\n" for step in range(1, 31))
    Path("nan.csv").write_text(f"run,step,eval_loss\n{rows}", encoding="utf-8")
    done = command("import", "nan.csv", "-o", "runs.csv")
    rejected(done, "faulty-table", 30)
    assert "the run diverged" in done.out
    assert ", and 29 like it: rows 2–30" in done.out
