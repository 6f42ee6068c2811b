"""The memory of annealing areas, from a table of curves through a fit and its file to the commands that ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from bayeslaw import load_fit
from bayeslaw.data import parse_schedule
from bayeslaw.data.curves import read_curves
from bayeslaw.dynamics.monitor import watch
from bayeslaw.inference.fit import fit
from bayeslaw.inference.refit import rows_of
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, refused
from tests.errors import fails
from tests.unit.dynamics.test_memory import FORMS
from tests.unit.dynamics.test_memory import table as curves_of_memory


def test_a_fit_knows_the_memory_of_its_areas_and_a_file_too(tmp_path: Path) -> None:
    law, areas_of = load_law("annealing"), read_curves(curves_of_memory(), memory=0.98, warmup=20).runs()
    quick: dict[str, Any] = {"draws": 50, "tune": 50, "chains": 2, "noise": "normal", "discrepancy": "none", "progress": False}
    made = fit(law, areas_of, **quick)
    made.save(tmp_path / "fit.nc")
    kept = load_fit(tmp_path / "fit.nc")
    assert isinstance(kept, Fit)
    assert kept.info["memory"] == 0.98
    assert set(rows_of(made).frame["memory"]) == {0.98}
    mixed = areas_of.frame.assign(memory=np.where(areas_of.frame["run"] == "wsd", 0.98, 0.999))
    with fails("several-memories", "0.999", "0.98"):
        fit(law, mixed, **quick)


def test_commands_take_the_memory_from_the_fit(folder: Path, command: Command) -> None:
    curves = curves_of_memory()
    curves.query("run != 'wsd'").to_csv("earlier.csv", index=False)
    curves.query("run == 'wsd' and step <= 600").to_csv("now.csv", index=False)
    assert command("dynamics", "areas", "earlier.csv", "--warmup", 20, "--memory", 0.98, "-o", "areas.csv").status == 0
    sampler = ("--draws", 200, "--tune", 200, "--chains", 2, "--discrepancy", "none", "-q")
    command("fit", "annealing", "areas.csv", "--noise", "normal-drift", "-o", "earlier.nc", *sampler)
    schedule = "wsd:steps=900,peak=1e-3,decay=0.2,final=0.1,warmup=20"
    ask = ("watch", "now.csv", "--fit", "earlier.nc", "--once", "--force", "--schedule", schedule)
    told = command(*ask, "-o", "ends.csv")
    assert told.status == 0, told.err
    assert command(*ask, "--memory", 0.98).out.splitlines()[0] == told.out.splitlines()[0]
    refused(command(*ask, "--memory", 0.999), "memory 0.98", "0.999")
    recipe = ("--pretrain", "cosine:steps=900,peak=1e-3", "--steps", "300,900", "--force")
    assert command("dynamics", "forecast", "earlier.nc", *recipe).status == 0
    refused(command("dynamics", "forecast", "earlier.nc", *recipe, "--memory", 0.9), "memory 0.98", "0.9")


def test_forecasts_compute_their_areas_as_those_that_a_fit_saw(folder: Path, command: Command) -> None:
    """The power of weighted areas, tokens of a batch and warm-ups change areas, so a forecast in another way would be wrong."""
    curves_of_memory().assign(batch=lambda t: np.where(t["run"] == "wsd", 2000, 1000)).to_csv("curves.csv", index=False)
    areas_of = ("dynamics", "areas", "curves.csv", "--warmup", 20, "--power", 0.3, "--per", "token", "-o", "areas.csv")
    assert command(*areas_of).status == 0
    sampler = ("--noise", "normal-drift", "--draws", 100, "--tune", 100, "--chains", 2, "--discrepancy", "none", "-q")
    command("fit", "annealing-lr-weighted", "areas.csv", "-o", "fit.nc", *sampler)
    fitted = pd.read_csv("areas.csv").set_index("run")
    ask = ("dynamics", "forecast", "fit.nc", "--force", "-o", "forecast.csv")

    schedule = "cosine:steps=900,peak=1e-3,final=0.1,warmup=20"
    told = command(*ask, "--pretrain", schedule, "--steps", 900)
    assert told.status == 0, told.err
    assert "1,000" in told.out
    forecast, seen = pd.read_csv("forecast.csv").iloc[0], fitted.loc["cosine"].iloc[-1]
    # The log has every twentieth rate, and a warm-up that ends at its first.
    assert forecast["S2w"] == pytest.approx(seen["S2w"], rel=0.02)

    told = command(*ask, "--curves", "curves.csv", "--from", "wsd", "--warmup", 20, "--adapt", "constant:steps=9,peak=1e-4")
    assert told.status == 0, told.err
    assert "wsd: a warm-up of 20 steps" in told.out
    assert pd.read_csv("forecast.csv")["S1_pt"].iloc[0] == pytest.approx(fitted.loc["wsd"]["S1"].iloc[-1], rel=1e-9)
    refused(command(*ask, "--pretrain", schedule, "--warmup", 20), "--warmup", "--curves")

    curves_of_memory().query("run == 'wsd' and step <= 600").to_csv("now.csv", index=False)
    refused(command("watch", "now.csv", "--fit", "fit.nc", "--once", "--schedule", schedule), "1,000 tokens", "every step counts")


def test_a_log_that_is_followed_has_areas_of_the_fits_power(folder: Path, command: Command) -> None:
    curves_of_memory().to_csv("curves.csv", index=False)
    sampler = ("--noise", "normal-drift", "--draws", 100, "--tune", 100, "--chains", 2, "--discrepancy", "none", "-q")
    command("dynamics", "areas", "curves.csv", "--warmup", 20, "--power", 0.3, "-o", "areas.csv")
    command("fit", "annealing-lr-weighted", "areas.csv", "-o", "fit.nc", *sampler)
    curves_of_memory().query("run == 'wsd' and step <= 600").to_csv("now.csv", index=False)
    ask = ("watch", "now.csv", "--fit", "fit.nc", "--once", "--force", "--schedule", FORMS[1])
    told = command(*ask)
    assert told.status == 0, told.err
    running = read_curves("now.csv", warmup=20)
    with fails("other-power", "0.3", "0.1"):
        watch(cast("Fit", load_fit("fit.nc")), running, "wsd", parse_schedule(FORMS[1]), force=True)
