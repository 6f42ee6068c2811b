"""The command `dynamics areas`: its output, and the options that it refuses without writing a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data import read_curves
from bayeslaw.data.table import read_runs
from tests.commands import Command, rejected, unchanged
from tests.unit.data.test_curves import AREAS, TINYCPT, family


def test_the_command_areas(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    family().to_csv("curves.csv", index=False)
    done = command("dynamics", "areas", "curves.csv", "-o", "runs.csv", "--where", "S1 > 0", "--plot", "areas.png")
    assert done.status == 0
    assert "note: adaptations of unknown pre-training (open)" in done.out
    written = read_runs("runs.csv").frame
    made = read_curves("curves.csv").runs().where("S1 > 0").frame
    assert f"{len(made)} losses from 4 runs written to runs.csv" in done.out
    np.testing.assert_allclose(written[["loss", *AREAS]], made[["loss", *AREAS]])
    assert Path("areas.png").read_bytes().startswith(b"\x89PNG")
    table = pd.read_csv("curves.csv")
    table[table["run"] == "trunk"].iloc[21:].drop(columns=["phase", "parent", "parent_step"]).to_csv("late.csv", index=False)
    done = command(
        "dynamics", "areas", "late.csv", "-o", "late-runs.csv", "--warmup", "trunk=10", "--memory", "0.9", "--power", "0.2"
    )
    assert done.status == 0
    assert "a warm-up of 10 steps from 0 is assumed before its first logged step, 21" in done.out
    both = pd.read_csv("late-runs.csv").set_index("step"), made[made["run"] == "trunk"].set_index("step")
    np.testing.assert_allclose(both[0]["S1"], both[1].loc[21:, "S1"])


def test_the_picture_of_areas_counts_tokens_where_its_table_does(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    family().assign(batch=1000.0).to_csv("curves.csv", index=False)
    given: dict[str, object] = {}
    monkeypatch.setattr("bayeslaw.plots.plot_schedules", lambda *_, **options: given.update(options))
    words = ("dynamics", "areas", "curves.csv", "-o", "runs.csv", "--per", "token", "--tokens-per-step", "500")
    assert command(*words, "--plot", "areas.png").status == 0
    assert given["weights"] == {"trunk": [2.0], "decay": [2.0, 2.0], "adapt": [2.0] * 3, "early": [2.0] * 2, "open": [2.0]}


def test_the_command_areas_of_one_domain(command: Command, tmp_path: Path) -> None:
    done = command("dynamics", "areas", TINYCPT, "-o", tmp_path / "runs.csv", "--domain", "target", "--where", "phase == 'adapt'")
    assert (done.status, done.err) == (0, "")
    assert "375 losses from 15 runs written" in done.out
    assert set(pd.read_csv(tmp_path / "runs.csv")["domain"]) == {"target"}


def test_areas_that_can_not_be_drawn_are_not_written(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BayeslawError("no picture can be drawn of it.", code="nothing-to-draw")

    monkeypatch.setattr("bayeslaw.plots.plot_schedules", refuse)
    monkeypatch.chdir(tmp_path)
    family().to_csv("curves.csv", index=False)
    with unchanged(tmp_path):
        rejected(command("dynamics", "areas", "curves.csv", "-o", "runs.csv", "--plot", "areas.png"), "nothing-to-draw")


@pytest.mark.parametrize(
    ("args", "code", "value"),
    [
        (("bad.csv", "-o", "older.csv"), "rate-too-large", "lr 3"),
        (("curves.csv", "-o", "curves.csv"), "output-is-input", "curves.csv"),
        (("curves.csv", "-o", "older.txt"), "wrong-ending", ".csv"),
        (("curves.csv", "-o", "older.csv", "--plot", "p.gif"), "wrong-ending", ".png or .pdf or .svg"),
        (("nowhere.csv", "-o", "older.csv"), "no-such-file", "nowhere.csv"),
        (("curves.csv", "-o", "older.csv", "--warmup", "ten"), "not-a-number", "'ten'"),
        (("curves.csv", "-o", "older.csv", "--warmup", "nobody=3"), "unknown-run", "'nobody'"),
        (("curves.csv", "-o", "older.csv", "--per", "token"), "missing-batch", "trunk"),
        (("curves.csv", "-o", "older.csv", "--memory", "1"), "out-of-range", "memory is 1"),
        (("curves.csv", "-o", "older.csv", "--power", "nan"), "out-of-range", "power is nan"),
        (("curves.csv", "-o", "older.csv", "--domain", "target"), "unknown-domain", "'target'"),
        (("curves.csv", "-o", "older.csv", "--where", "S3 > 0"), "unknown-column", "'S3'"),
        (("curves.csv", "-o", "older.csv", "--where", "S1 > 1e9"), "no-row-meets", 175),
        (("curves.csv", "-o", "older.csv", "--losses", "los"), "missing-column", "'los'"),
        (("curves.csv", "-o", "older.csv", "--nodes", "3"), "not-a-whole-number", "nodes"),
        (("wrong.csv", "-o", "older.csv"), "faulty-table", 60),
    ],
)
def test_options_that_can_not_be_used_are_refused_and_leave_older_files(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], code: str, value: object
) -> None:
    monkeypatch.chdir(tmp_path)
    table = family()
    table.to_csv("curves.csv", index=False)
    table.assign(lr=table["lr"].where(table.index != 4, 3.0)).to_csv("bad.csv", index=False)
    table.assign(lr=table["lr"].where(table["run"] != "trunk", table["lr"] * 1e4 + 2)).to_csv("wrong.csv", index=False)
    Path("older.csv").write_text("an older result", encoding="utf-8")
    with unchanged(tmp_path):
        done = command("dynamics", "areas", *args)
        rejected(done, code, value)
    if args[0] == "wrong.csv":
        assert "is above 1: is it in units of 1e-4" in done.out
        assert "and 59 like it" in done.out
