"""Commands of `bayeslaw dynamics` that ask fits: what they print and write, and what they refuse without writing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, refused, snapshot
from tests.dynamics import fits as both
from tests.unit.dynamics.test_mixtures import three, weighed
from tests.unit.dynamics.test_monitor import setting, table

PRETRAIN = ("--pretrain", "wsd:steps=8000,peak=2e-4,warmup=200,final=0.5")
ADAPT = ("--adapt", "cosine:steps=2000,peak=2e-4,warmup=100")
SIDES = ("--source", "S.nc", "--target", "T.nc")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which fits of these names can be loaded; their files hold nothing."""
    source, target = both()
    made: dict[str, Fit] = {"S.nc": source, "S.csv": source, "T.nc": target, "W.nc": weighed(), "R.nc": setting()[0]}

    def load_fit(path: Any) -> Fit:
        return made[Path(path).name]

    monkeypatch.setattr("bayeslaw.load_fit", load_fit)
    monkeypatch.chdir(tmp_path)
    table().to_csv("curves.csv", index=False)
    three().to_csv("three.csv", index=False)
    return tmp_path


def test_forecasts_along_a_schedule(command: Command, folder: Path) -> None:
    done = command("dynamics", "forecast", "S.nc", *PRETRAIN, *ADAPT, "--steps", "0,1000,2000", "-o", "f.csv", "--plot", "f.png")
    assert done.status == 0, done
    made = pd.read_csv("f.csv")
    assert made["step"].tolist() == [0, 1000, 2000]
    assert {"S1_cpt", "latent_median", "run_eti90_lo", "extrapolation"} <= set(made)
    assert (folder / "f.png").stat().st_size > 10_000
    alone = command("dynamics", "forecast", "S.nc", *PRETRAIN, "--steps", "4000,8000")
    assert alone.status == 0, alone


def test_the_best_recipe(command: Command, folder: Path) -> None:
    options = ("--search", "peak=1e-5:1e-3", "--weight", "0.4", "--weight", "0.6")
    done = command("dynamics", "best", *SIDES, *PRETRAIN, *ADAPT, *options, "-o", "b.csv", "--plot", "b.png")
    assert done.status == 0, done
    assert done.out.count("best by the mean of") == 2
    assert set(pd.read_csv("b.csv")["weight"]) == {0.4, 0.6}
    assert (folder / "b.png").stat().st_size > 10_000


def test_turning(command: Command, folder: Path) -> None:
    done = command("dynamics", "turning", "--source", "S.nc", *PRETRAIN, *ADAPT, "--longest", "20000", "--plot", "t.png")
    assert done.status == 0, done
    assert "rises above its base with probability" in done.out
    assert "critical_steps" in done.out
    assert (folder / "t.png").stat().st_size > 10_000


def test_a_run_under_way(command: Command, folder: Path) -> None:
    watched = ("dynamics", "watch", "R.nc", "--curves", "curves.csv", "--run", "now", "--warmup", "100")
    done = command(*watched, "--schedule", "constant:steps=4000,peak=2e-4,warmup=100", "--target", "3.8", "--plot", "w.png")
    assert done.status == 0, done
    assert "reached by step 4,000 with probability" in done.out
    assert (folder / "w.png").stat().st_size > 10_000
    refused(command(*watched, "--schedule", "constant:steps=1000,peak=2e-4"), "nothing lies ahead")


def test_a_third_domain(command: Command, folder: Path) -> None:
    done = command("dynamics", "combine", "three.csv", "--of", "forum", "--source", "web", "--target", "code", "-o", "c.csv")
    assert done.status == 0, done
    assert {"L_source", "L_target", "loss"} <= set(pd.read_csv("c.csv"))
    done = command("dynamics", "outside", "W.nc", *SIDES, *PRETRAIN, *ADAPT, "--steps", "2000", "-o", "o.csv")
    assert done.status == 0, done
    assert "latent_eti90_hi" in pd.read_csv("o.csv")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("forecast", "S.nc", *ADAPT), "Say once where the adaptation begins"),
        (("forecast", "S.nc", *PRETRAIN, "--open", *ADAPT), "given are --pretrain, --open"),
        (("forecast", "S.nc"), "Without --adapt it is the pre-training that is forecast: give its --pretrain SCHEDULE,"),
        (("forecast", "S.nc", "--open"), "without --curves, --from and --open."),
        (("forecast", "S.nc", "--curves", "curves.csv", "--from", "now"), "Without --adapt it is the pre-training"),
        (("forecast", "S.nc", *PRETRAIN, "--curves", "curves.csv", "--from", "now"), "without --curves, --from and --open."),
        (("forecast", "S.nc", *ADAPT, "--from", "now"), "give them with --curves FILE"),
        (("forecast", "S.nc", *PRETRAIN, "--adapt", "cosin:steps=10,peak=1"), "There is no schedule 'cosin'"),
        (("forecast", "S.nc", *PRETRAIN, "--adapt", "cosine:steps=10,peak=3"), "peak is 3"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--steps", "10,x"), "whole numbers"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--steps", "10,9999"), "step 9999 is asked for"),
        (("forecast", "S.nc", "--open", *ADAPT), "S1_pt"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "-o", "f.txt"), "csv"),
        (("best", *SIDES, *PRETRAIN, *ADAPT, "--search", "peak"), "is not of the form"),
        (("best", *SIDES, *PRETRAIN, *ADAPT, "--search", "peak=1e-4"), "is not a range"),
        (("best", *SIDES, *PRETRAIN, *ADAPT, "--search", "peak=1e-4:x"), "is not a number"),
        (("best", *SIDES, *PRETRAIN, *ADAPT, "--search", "peak=1e-4:1e-3", "--plot", "b.png"), "one choice over several weights"),
        (("turning", "--source", "S.nc", *PRETRAIN, *ADAPT, "--weight", "0.5"), "give a fit of its losses"),
        (("combine", "three.csv", "--of", "forum", "--source", "web", "--target", "cod", "-o", "c.csv"), "Did you mean 'code'"),
        (("combine", "three.csv", "--of", "forum", "--source", "web", "--target", "code", "-o", "three.csv"), "is an input of this command"),
    ],
)
def test_what_can_not_be_asked_leaves_no_file(command: Command, folder: Path, arguments: tuple[str, ...], words: str) -> None:
    before = snapshot(folder)
    refused(command("dynamics", *arguments), words)
    assert snapshot(folder) == before


def test_a_forced_forecast_of_a_third_domain_is_marked(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fits passed their checks; a forecast of one of the two losses did not."""
    asked = ("dynamics", "outside", "W.nc", *SIDES, *PRETRAIN, *ADAPT, "--steps", "1000,2000")
    assert command(*asked, "--force", "-o", "sound.csv").status == 0
    assert set(pd.read_csv("sound.csv")["checks"]) == {"passed"}
    apart = Check("forecast R-hat", False, "chains disagree at a setting", True, pd.DataFrame())
    monkeypatch.setattr("bayeslaw.forecasting.forecast.forecast_checks", lambda *_: [apart])
    refused(command(*asked), "chains disagree at a setting")
    assert command(*asked, "--force", "-o", "forced.csv").status == 0
    assert set(pd.read_csv("forced.csv")["checks"]) == {"FAILED (forced)"}


RATES = "logged:rates.csv"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("forecast", "S.nc", *PRETRAIN, "--adapt", RATES, "-o", "rates.csv"), "rates.csv is an input of this command"),
        (("forecast", "S.nc", "--pretrain", RATES, "-o", "rates.csv"), "rates.csv is an input of this command"),
        (("forecast", "S.csv", *PRETRAIN, *ADAPT, "-o", "S.csv"), "S.csv is an input of this command"),
        (("best", *SIDES, *PRETRAIN, "--adapt", RATES, "--search", "r=0:0.5", "-o", "rates.csv"), "rates.csv is an input of this command"),
        (
            ("turning", "--source", "S.nc", *PRETRAIN, "--adapt", f"{RATES}+{RATES}", "-o", "rates.csv"),
            "rates.csv is an input of this command",
        ),
        (("outside", "W.nc", *SIDES, "--pretrain", RATES, *ADAPT, "-o", "rates.csv"), "rates.csv is an input of this command"),
        (("watch", "R.nc", "--curves", "curves.csv", "--run", "now", "--schedule", RATES, "-o", "rates.csv"), "is an input of this command"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--plot", "p.png", "-o", "older.csv"), "no picture"),
        (("turning", "--source", "S.nc", *PRETRAIN, *ADAPT, "--plot", "p.png", "-o", "older.csv"), "no picture"),
    ],
)
def test_what_was_given_and_older_tables_are_left(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    def no_picture(*_: object, **__: object) -> None:
        raise BayeslawError("no picture can be drawn of it.")

    for name in ("plot_transfer", "plot_turning_point"):
        monkeypatch.setattr(f"bayeslaw.plots.{name}", no_picture)
    pd.DataFrame({"step": [1, 2000], "lr": [2e-4, 2e-5]}).to_csv("rates.csv", index=False)
    for name in ("older.csv", "S.csv"):
        Path(name).write_text("an older result", encoding="utf-8")
    before = snapshot(folder)
    done = command("dynamics", *arguments)
    refused(done, words)
    assert "written" not in done.out
    assert snapshot(folder) == before
