"""The memory of annealing areas, from a table of curves through a fit and its file to the commands that ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bayeslaw import load_fit
from bayeslaw.data.curves import read_curves
from bayeslaw.inference.fit import fit
from bayeslaw.inference.refit import rows_of
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, refused
from tests.errors import fails
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
