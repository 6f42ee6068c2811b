"""The command tuning, and what `laws --prior` shows: texts, tables and pictures, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, load_from, rejected, unchanged
from tests.posteriors import law_named, posterior, scattered

LAW = law_named("lr-batch")


@pytest.fixture
def fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Fit]:
    """A folder with a table of runs, in which fits of these names can be loaded."""
    chinchilla = {k: np.full(8, v) for k, v in oracles.typical(law_named("chinchilla")).items()}
    known = {"lr.nc": posterior(LAW, scattered(oracles.typical(LAW), 400, 3, 0.01)), "C.nc": posterior("chinchilla", chinchilla)}

    load_from(known, tmp_path, monkeypatch)
    oracles.table(LAW).to_csv("runs.csv", index=False)
    return known


AT = ("--set", "N=1e9", "--set", "D=1e10:1e11:3")


def test_best_values_with_intervals_and_a_picture(command: Command, fits: dict[str, Fit]) -> None:
    done = command("tuning", "lr.nc", *AT, "-o", "best.csv", "--plot", "tuning.svg")
    assert (done.status, done.err) == (0, "")
    assert "the picture is of the first of 3 settings" in done.out
    table = pd.read_csv("best.csv")
    assert table["D"].tolist() == pytest.approx([1e10, 10**10.5, 1e11])
    assert (table["lr_eti90_lb"] < table["lr_median"]).all()
    assert (np.diff(table["batch_median"]) > 0).all()
    picture = Path("tuning.svg").read_text(encoding="utf-8")
    assert "peak learning rate" in picture
    assert "tokens or sequences" in picture


def test_undertuned_runs_and_their_correction(command: Command, fits: dict[str, Fit]) -> None:
    done = command("tuning", "lr.nc", "--runs", "runs.csv", "--where", "lr > 0.0003", "--corrected", "corrected.csv")
    assert (done.status, done.err) == (0, "")
    assert "undertuned by, of 24 rows those that lose most" in done.out
    table = pd.read_csv("corrected.csv")
    assert len(table) == 24
    assert (table["loss"] <= table["loss_as_run"]).all()
    assert (table["loss_se"] > 0).all()
    told = json.loads(command("tuning", "lr.nc", "--runs", "runs.csv", "--json").out)["results"]["undertuned"]
    assert len(told) == 10
    assert told[0]["undertuned_median"] >= told[-1]["undertuned_median"]
    assert pd.read_csv("runs.csv")["lr"][told[0]["row"] - 1] == told[0]["lr"]  # rows are counted from 1 below the header


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("tuning", "lr.nc"), "nothing-asked", "--runs"),
        (("tuning", "lr.nc", *AT, "--where", "N > 0"), "no-runs", "--runs"),
        (("tuning", "C.nc", *AT), "law-without-tuning", "chinchilla"),
        (("tuning", "lr.nc", *AT, "--set", "lr=1e-3"), "tuned-setting", "lr"),
        (("tuning", "lr.nc", *AT, "--corrected", "c.csv"), "no-runs", "--runs"),
        (("tuning", "lr.nc", "--runs", "runs.csv", "--plot", "p.png"), "nothing-to-draw", "--set"),
        (("tuning", "lr.nc", "--runs", "runs.csv", "--corrected", "runs.csv"), "output-is-input", "runs.csv"),
        (("tuning", "lr.nc", *AT, "--runs", "runs.csv", "--corrected", "c.csv", "-o", "c.csv"), "given-twice", "c.csv"),
        (("tuning", "lr.nc", "--runs", "runs.csv", "-o", "best.csv"), "option-without-use", "--output"),
        (("laws", "--prior"), "no-law", "CARD"),
        (("laws", "--shares", "web,code"), "option-without-use", "--shares"),
        (("laws", "lr-batch", "--where", "N > 0"), "without-prior", "--where"),
        (("laws", "lr-batch", "--column", "N=size"), "without-prior", "--column"),
        (
            ("laws", "chinchilla", "--prior", "--set", "N=1e9", "--set", "D=1e9", "--where", "N > 0"),
            "option-without-use",
            "--where",
        ),
        (
            ("laws", "chinchilla", "--prior", "--set", "N=1e9", "--set", "D=1e9", "--column", "N=size"),
            "option-without-use",
            "--column",
        ),
        (("laws", "lr-batch", "--prior", "--runs", "runs.csv", "--x", "lr"), "option-without-use", "--x"),
        (("laws", "chinchilla", "--plot", "p.png"), "without-prior", "--prior"),
        (("laws", "chinchilla", "--prior"), "nothing-asked", "--set"),
        (("laws", "chinchilla", "--prior", "--set", "N=1e9", "--set", "D=1e9:1e10:5", "--plot", "p.txt"), "wrong-ending", "p.txt"),
        (("laws", "lr-batch", "--prior", "--runs", "runs.csv", "--x", "M", "--plot", "p.png"), "unknown-covariate", "'M'"),
    ],
)
def test_what_is_refused_writes_nothing(
    command: Command, fits: dict[str, Fit], arguments: tuple[str, ...], code: str, named: str
) -> None:
    with unchanged(Path.cwd()):
        rejected(command(*arguments), code, named)


def test_what_priors_allow_at_runs_and_on_a_grid(command: Command, fits: dict[str, Fit]) -> None:
    done = command("laws", "lr-batch", "--prior", "--runs", "runs.csv", "--plot", "prior.svg", "--x", "lr")
    assert (done.status, done.err) == (0, "")
    assert "losses that the priors of lr-batch allow at 30 settings" in done.out
    assert "0% of the measured ones lie outside" in done.out
    assert "measured" in Path("prior.svg").read_text(encoding="utf-8")
    told = json.loads(command("laws", "chinchilla", "--prior", "--set", "N=1e9", "--set", "D=1e9:1e12:9", "--json").out)
    prior = told["results"]["prior"]
    assert prior["eti90_lb"] < prior["median"] < prior["eti90_ub"]
    assert prior["impossible"] == 0
