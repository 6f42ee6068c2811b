"""Commands of `bayeslaw dynamics` that use fits: their output, and the options that they refuse without writing a file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, load_from, refused, rejected, unchanged
from tests.dynamics import fits as both
from tests.fixed import typical_fit
from tests.unit.dynamics.test_mixtures import three, weighed
from tests.unit.dynamics.test_monitor import table

PRETRAIN = ("--pretrain", "wsd:steps=8000,peak=2e-4,warmup=200,final=0.5")
ADAPT = ("--adapt", "cosine:steps=2000,peak=2e-4,warmup=100")
FITS = ("--source", "S.nc", "--target", "T.nc")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which fits with these names can be loaded, although it has no files of them."""
    source, target = both()
    stored: dict[str, Fit] = {"S.nc": source, "S.csv": source, "T.nc": target, "W.nc": weighed()}
    stored["M.nc"] = typical_fit("multi-power")

    load_from(stored, tmp_path, monkeypatch)
    table().to_csv("curves.csv", index=False)
    three().to_csv("three.csv", index=False)
    return tmp_path


def test_forecasts_along_a_schedule(command: Command, folder: Path) -> None:
    done = command("dynamics", "forecast", "S.nc", *PRETRAIN, *ADAPT, "--steps", "0,1000,2000", "-o", "f.csv", "--plot", "f.png")
    assert done.status == 0, done
    table = pd.read_csv("f.csv")
    assert table["step"].tolist() == [0, 1000, 2000]
    assert {"S1_cpt", "latent_median", "run_eti90_lb", "extrapolation"} <= set(table)
    assert (folder / "f.png").stat().st_size > 10_000
    alone = command("dynamics", "forecast", "S.nc", *PRETRAIN, "--steps", "4000,8000", "--plot", "alone.png")
    assert alone.status == 0, alone
    assert (folder / "alone.png").stat().st_size > 10_000
    before = command("dynamics", "forecast", "S.nc", *PRETRAIN, "--steps", "0,4000")
    rejected(before, "out-of-range", "--steps 0,4000", "from 1 to 8,000")
    short = command("dynamics", "forecast", "S.nc", "--pretrain", "constant:steps=3,peak=1e-3", "--steps", 3, "--plot", "short.png")
    assert short.status == 0, short.err  # a picture of few steps has them all


def test_areas_of_an_unknown_pre_training_can_be_set(command: Command, folder: Path) -> None:
    given = ("--set", "S1_pt=1.5", "--set", "S2_pt=0.02")
    done = command("dynamics", "forecast", "S.nc", "--open", *ADAPT, *given, "--steps", "2000", "-o", "f.csv")
    assert done.status == 0, done
    assert pd.read_csv("f.csv")["S1_pt"].tolist() == [1.5]


def test_concerns_about_a_recipe_far_outside_the_runs_are_named(command: Command, folder: Path) -> None:
    far = command("dynamics", "forecast", "S.nc", "--pretrain", "constant:steps=800000,peak=2e-3", "--steps", "800000")
    assert far.status == 0, far
    assert "1 of 1 settings lie far outside the runs: S1" in far.out


def test_curves_may_have_other_names(command: Command, folder: Path) -> None:
    curves = pd.read_csv("curves.csv")
    curves.rename(columns={"lr": "opt.rate"}).assign(**{"opt.rate": 1e6 * curves["lr"]}).to_csv("odd.csv", index=False)
    run = str(curves["run"].iloc[0])
    line = ("dynamics", "forecast", "S.nc", *ADAPT, "--from", run, "--steps", "0,1000", "--curves")
    plain, odd = command(*line, "curves.csv"), command(*line, "odd.csv", "--column", "lr=opt.rate:1e-6")
    assert (plain.status, odd.status) == (0, 0), (plain, odd)
    assert odd.out == plain.out


def test_the_best_recipe_for_two_weights(command: Command, folder: Path) -> None:
    options = ("--search", "peak=1e-5:1e-3", "--weight", "0.4", "--weight", "0.6")
    done = command("dynamics", "best", *FITS, *PRETRAIN, *ADAPT, *options, "-o", "b.csv", "--plot", "b.png")
    assert done.status == 0, done
    assert done.out.count("best recipe by the mean of") == 2
    assert set(pd.read_csv("b.csv")["weight"]) == {0.4, 0.6}
    assert (folder / "b.png").stat().st_size > 10_000


def test_the_turning_point(command: Command, folder: Path) -> None:
    done = command("dynamics", "turning", "--source", "S.nc", *PRETRAIN, *ADAPT, "--longest", "4000", "--plot", "t.png")
    assert done.status == 0, done
    assert "rises above its base with probability" in done.out
    assert "critical_steps" in done.out
    assert (folder / "t.png").stat().st_size > 10_000


def test_the_loss_of_a_third_domain(command: Command, folder: Path) -> None:
    done = command("dynamics", "combine", "three.csv", "--of", "forum", "--source", "web", "--target", "code", "-o", "c.csv")
    assert done.status == 0, done
    assert {"L_source", "L_target", "loss"} <= set(pd.read_csv("c.csv"))
    done = command("dynamics", "outside", "W.nc", *FITS, *PRETRAIN, *ADAPT, "--steps", "2000", "-o", "o.csv")
    assert done.status == 0, done
    assert "latent_eti90_ub" in pd.read_csv("o.csv")


@pytest.mark.parametrize(
    ("arguments", "code", "value"),
    [
        (("forecast", "S.nc", *ADAPT), "pre-training-not-clear", "none"),
        (("forecast", "S.nc", *PRETRAIN, "--open", *ADAPT), "pre-training-not-clear", "--pretrain, --open"),
        (("forecast", "S.nc"), "pre-training-not-clear", "--pretrain SCHEDULE"),
        (("forecast", "S.nc", *PRETRAIN, "--curves", "curves.csv", "--from", "now"), "pre-training-not-clear", "--curves, --from"),
        (("forecast", "S.nc", *ADAPT, "--from", "now"), "no-curves", "--curves FILE"),
        (("forecast", "S.nc", *PRETRAIN, "--adapt", "cosin:steps=10,peak=1"), "unknown-schedule", "'cosine'"),
        (("forecast", "S.nc", *PRETRAIN, "--adapt", "cosine:steps=10,peak=3"), "out-of-range", 3),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--steps", "10,x"), "not-a-number", "10,x"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--steps", "10,9999"), "no-such-step", 9999),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--curves", "curves.csv"), "option-without-use", "--curves"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--column", "loss=val"), "option-without-use", "--column"),
        (("forecast", "S.nc", *PRETRAIN, "--column", "loss=val"), "option-without-use", "--column"),
        (("forecast", "S.nc", "--open", *ADAPT), "missing-column", "S1_pt"),
        (("forecast", "S.nc", *PRETRAIN, "--set", "r=0.5"), "unknown-setting", "'r'; they have none that can be set"),
        (("outside", "W.nc", *FITS, *PRETRAIN, *ADAPT, "--set", "foo=3"), "unknown-setting", "'foo'"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "--set", "S1_cpt=5"), "computed-setting", "S1_cpt"),
        (("forecast", "M.nc", *PRETRAIN, *ADAPT), "no-adaptation-area", "--pretrain without --adapt"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "-o", "f.txt"), "wrong-ending", ".csv"),
        (("forecast", "S.nc", *PRETRAIN, *ADAPT, "-o", "curves.csv"), "output-holds-runs", "curves.csv"),
        (("outside", "W.nc", *FITS, *PRETRAIN, *ADAPT, "-o", "curves.csv"), "output-holds-runs", "curves.csv"),
        (("turning", "--source", "S.nc", *PRETRAIN, *ADAPT, "-o", "curves.csv"), "output-holds-runs", "curves.csv"),
        (("best", *FITS, *PRETRAIN, *ADAPT, "--search", "peak"), "not-a-pair", "'peak'"),
        (("best", *FITS, *PRETRAIN, *ADAPT, "--search", "peak=1e-4"), "not-a-range", "1e-4"),
        (("best", *FITS, *PRETRAIN, *ADAPT, "--search", "peak=1e-4:x"), "not-a-number", "'x'"),
        (("best", *FITS, *PRETRAIN, *ADAPT, "--search", "peak=1e-4:1e-3", "--plot", "b.png"), "nothing-to-draw", "--weight"),
        (("turning", "--source", "S.nc", *PRETRAIN, *ADAPT, "--weight", "0.5"), "no-target", 0.5),
        (("combine", "three.csv", "--of", "forum", "--source", "web", "--target", "cod", "-o", "c.csv"), "unknown-domain", "cod"),
        (("combine", "three.csv", "--of", "forum", "--source", "web", "--target", "code", "-o", "three.csv"),
         "output-is-input", "three.csv"),
    ],
)  # fmt: skip
def test_options_that_can_not_be_used_are_refused_and_leave_no_file(
    command: Command, folder: Path, arguments: tuple[str, ...], code: str, value: object
) -> None:
    with unchanged(folder):
        rejected(command("dynamics", *arguments), code, value)


def test_a_forced_forecast_of_a_third_domain_is_marked(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fits passed their checks; a forecast of one of the two losses did not."""
    asked = ("dynamics", "outside", "W.nc", *FITS, *PRETRAIN, *ADAPT, "--steps", "1000,2000")
    assert command(*asked, "--force", "-o", "sound.csv").status == 0
    assert set(pd.read_csv("sound.csv")["checks"]) == {"passed"}
    apart = Check("forecast R-hat", False, "chains disagree at a setting", "sampling", pd.DataFrame())
    monkeypatch.setattr("bayeslaw.forecasting.member_draws.forecast_checks", lambda *_: [apart])
    refused(command(*asked), "chains disagree at a setting")
    assert command(*asked, "--force", "-o", "forced.csv").status == 0
    assert set(pd.read_csv("forced.csv")["checks"]) == {"FAILED (forced)"}


RATES = "logged:rates.csv"


@pytest.mark.parametrize(
    "arguments",
    [
        ("forecast", "S.nc", *PRETRAIN, "--adapt", RATES),
        ("forecast", "S.nc", "--pretrain", RATES),
        ("best", *FITS, *PRETRAIN, "--adapt", RATES, "--search", "r=0:0.5"),
        ("turning", "--source", "S.nc", *PRETRAIN, "--adapt", f"{RATES}+{RATES}"),
        ("outside", "W.nc", *FITS, "--pretrain", RATES, *ADAPT),
    ],
)
def test_a_file_of_rates_is_not_overwritten(command: Command, folder: Path, arguments: tuple[str, ...]) -> None:
    pd.DataFrame({"step": [1, 2000], "lr": [2e-4, 2e-5]}).to_csv("rates.csv", index=False)
    with unchanged(folder):
        rejected(command("dynamics", *arguments, "-o", "rates.csv"), "output-is-input", "rates.csv")


@pytest.mark.parametrize("arguments", [("forecast", "S.nc"), ("turning", "--source", "S.nc", "--longest", "4000")])
def test_a_table_is_not_written_without_its_picture(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BayeslawError("no picture can be drawn of it.", code="nothing-to-draw")

    for name in ("plot_transfer", "plot_turning_point"):
        monkeypatch.setattr(f"bayeslaw.plots.{name}", refuse)
    Path("older.csv").write_text("an older result", encoding="utf-8")
    with unchanged(folder):
        done = command("dynamics", *arguments, *PRETRAIN, *ADAPT, "--plot", "p.png", "-o", "older.csv")
        rejected(done, "nothing-to-draw")
        assert "written" not in done.out
