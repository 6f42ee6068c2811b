"""The command `dynamics areas` and its picture: what they write, and what they refuse without writing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data import read_curves
from bayeslaw.data.table import read_runs
from bayeslaw.plots import plot_schedules
from bayeslaw.schedules.schedule import constant
from tests.commands import Command, refused, snapshot
from tests.unit.data.test_curves import AREAS, TINYCPT, family


def test_a_picture_of_schedules_areas_and_losses() -> None:
    made = read_curves(family())
    axes = list(Figure().subplots(4, 1, sharex=True))
    predicted = pd.DataFrame({"run": "adapt", "step": [60, 90], "latent_median": [3.0, 2.5]})
    predicted = predicted.assign(run_eti90_lo=[2.9, 2.4], run_eti90_hi=[3.1, 2.6])
    measured = pd.DataFrame({"run": "adapt", "step": [75], "loss": [2.7]})
    whole: dict[str, Any] = {"adapt": made.phases("adapt"), "open": made.phases("open"), "own": made.schedule("early")}
    plot_schedules(axes, whole, predicted=predicted, measured=measured)
    end = made.at("adapt")
    assert end.pretrain is not None
    assert end.adapt is not None
    assert axes[2].lines[0].get_ydata()[-1] == pytest.approx(end.pretrain.S2 + end.adapt.S2)
    assert axes[1].lines[0].get_ydata()[-1] == pytest.approx(end.pretrain.S1 + end.adapt.S1)
    drawn = [line for line in axes[0].lines if len(np.asarray(line.get_xdata())) > 2]
    assert len({(line.get_linestyle(), line.get_color()) for line in drawn}) == 3
    assert [ax.get_ylabel().split("\n")[0] for ax in axes] == [
        "learning rate",
        "forward area S1",
        "annealing area S2",
        "loss (nats/token)",
    ]
    assert axes[3].get_title() == "latent median, 90% equal-tailed interval (run)"
    assert len(plot_schedules(Figure().subplots(), {"one": constant(10, 1e-3)})) == 1
    with pytest.raises(BayeslawError, match="drawn on the last of 4 axes"):
        plot_schedules(Figure().subplots(), {"one": constant(10, 1e-3)}, measured=measured)
    with pytest.raises(BayeslawError, match="at least one schedule"):
        plot_schedules(Figure().subplots(), {})
    many = plot_schedules(Figure().subplots(), {str(i): constant(10, 1e-3) for i in range(9)})
    assert many[0].get_legend().get_texts()[-1].get_text() == "… and 2 more not shown"  # type: ignore[union-attr]


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


def test_the_command_areas_of_one_domain(command: Command, tmp_path: Path) -> None:
    done = command("dynamics", "areas", TINYCPT, "-o", tmp_path / "runs.csv", "--domain", "target", "--where", "phase == 'adapt'")
    assert (done.status, done.err) == (0, "")
    assert "375 losses from 15 runs written" in done.out
    assert set(pd.read_csv(tmp_path / "runs.csv")["domain"]) == {"target"}


def test_areas_that_can_not_be_drawn_are_not_written(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_picture(*_: object, **__: object) -> None:
        raise BayeslawError("no picture can be drawn of it.")

    monkeypatch.setattr("bayeslaw.plots.plot_schedules", no_picture)
    monkeypatch.chdir(tmp_path)
    family().to_csv("curves.csv", index=False)
    before = snapshot(tmp_path)
    refused(command("dynamics", "areas", "curves.csv", "-o", "runs.csv", "--plot", "areas.png"), "no picture")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("bad.csv", "-o", "older.csv"), "lr 3 is above 1"),
        (("curves.csv", "-o", "curves.csv"), "is an input of this command"),
        (("curves.csv", "-o", "older.txt"), "ending in .csv"),
        (("curves.csv", "-o", "older.csv", "--plot", "p.gif"), ".png or .pdf or .svg"),
        (("nowhere.csv", "-o", "older.csv"), "There is no file nowhere.csv"),
        (("curves.csv", "-o", "older.csv", "--warmup", "ten"), "--warmup 'ten' is not a number of steps"),
        (("curves.csv", "-o", "older.csv", "--warmup", "nobody=3"), "warmup names run 'nobody'"),
        (("curves.csv", "-o", "older.csv", "--per", "token"), "need a column batch"),
        (("curves.csv", "-o", "older.csv", "--memory", "1"), "memory is 1; it must lie in [0, 1)"),
        (("curves.csv", "-o", "older.csv", "--power", "nan"), "power is nan"),
        (("curves.csv", "-o", "older.csv", "--domain", "target"), "it names no domains"),
        (("curves.csv", "-o", "older.csv", "--where", "S3 > 0"), "No column 'S3'"),
        (("curves.csv", "-o", "older.csv", "--where", "S1 > 1e9"), "No row meets"),
        (("curves.csv", "-o", "older.csv", "--losses", "los"), "no column 'los'"),
        (("wrong.csv", "-o", "older.csv"), "wrong.csv has 60 faults (rows are counted from 1 below the header)"),
    ],
)
def test_the_command_refuses_and_leaves_older_files(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table = family()
    table.to_csv("curves.csv", index=False)
    table.assign(lr=table["lr"].where(table.index != 4, 3.0)).to_csv("bad.csv", index=False)
    table.assign(lr=table["lr"].where(table["run"] != "trunk", table["lr"] * 1e4 + 2)).to_csv("wrong.csv", index=False)
    Path("older.csv").write_text("an older result", encoding="utf-8")
    before = snapshot(tmp_path)
    done = command("dynamics", "areas", *args)
    refused(done, words)
    assert snapshot(tmp_path) == before
    if args[0] == "wrong.csv":
        assert done.out.count("is above 1: is it in units of 1e-4") == 60
