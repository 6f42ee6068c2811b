"""The commands plan, allocate and transfer: what they print and write, and what they refuse without writing anything."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.cli import plan as cli_plan
from bayeslaw.core.errors import BayeslawError
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, refused, snapshot
from tests.posteriors import posterior, scattered, source_fit, target_fit
from tests.unit.planning.test_allocation import ZHENG
from tests.unit.planning.test_plan import BASE, LIMIT

QUESTION = ("--set", "N=8.1e9", "--set", "ptpp=279", "--max-forgetting", "2%", "--max-loss", LIMIT, "--base-loss", BASE)
PLAN = ("plan", "--source", "S.nc", "--target", "T.nc", "--on", "latent", *QUESTION)


@pytest.fixture
def fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Fit]:
    """A folder in which fits of these names can be loaded; their files hold nothing."""
    made = {
        "S.nc": source_fit(2000),
        "T.nc": target_fit(2000),
        "J.nc": posterior("cpt-joint", scattered(ZHENG, 400, 3, 0.01)),
        "C.nc": posterior("chinchilla", scattered({k: ZHENG[k] for k in load_law("chinchilla").parameters}, 400, 3, 0.01)),
    }

    def load_fit(path: Any) -> Fit:
        return made[Path(path).name]

    monkeypatch.setattr("bayeslaw.forecasting.stack.load_fit", load_fit)
    monkeypatch.chdir(tmp_path)
    return made


def test_a_plan_in_words_and_as_a_table(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*PLAN, "-o", "frontier.csv", "--plot", "plan.png")
    assert (done.status, done.err) == (0, "")
    assert "N = 8.1e+09, ptpp = 279: loss of source rises by at most +2% over its base; target loss at most" in done.out
    assert "plan: ATPP " in done.out
    assert "promised 0.9, kept in 0." in done.out
    assert "without uncertainty (by median losses): ATPP" in done.out
    assert "note: base loss of source 1.54772 nats/token, as stated" in done.out
    table = pd.read_csv("frontier.csv")
    assert table["confidence"].tolist() == [0.5, 0.8, 0.9, 0.95]
    assert (np.diff(table["tokens"]) > 0).all()
    assert Path("plan.png").read_bytes().startswith(b"\x89PNG")


def test_the_frontier_is_printed_at_levels_asked_for(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*PLAN, "--level", "0.6", "--level", "0.7", "--confidence", "0.7", "--replay", "0.5", "--price", "new-token=1e-6")
    assert done.status == 0
    rows = [line.split() for line in done.out.splitlines() if line.strip().startswith(("0.6", "0.7"))]
    assert [row[0] for row in rows] == ["0.6", "0.7"] or [row[0][:3] for row in rows] == ["0.6", "0.7"]
    assert "replay 50.0%" in done.out
    assert "cost" in done.out


def test_the_other_way_round(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*(a for a in PLAN if a not in ("--max-loss", LIMIT)), "--max-tokens", "1.5e11", "--minimise", "target-loss")
    assert done.status == 0
    assert "target loss 1.8" in done.out
    assert "the plan uses the whole budget" in done.out


def test_an_infeasible_plan_is_an_answer(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*PLAN, "--atpp", "1:9")
    assert (done.status, done.err) == (0, "")
    assert "infeasible at confidence 0.9" in done.out
    assert "most that can be promised: 0." in done.out
    assert "note: binding: " in done.out


def test_runs_that_would_make_the_promises_surer(command: Command, fits: dict[str, Fit]) -> None:
    pd.DataFrame(POOL).to_csv("pool.csv", index=False)
    done = command(*PLAN, "--candidates", "pool.csv", "--budget", "3e20")
    assert (done.status, done.err) == (0, "")
    assert "runs that would make the promises surer" in done.out
    refused(command(*PLAN, "--candidates", "pool.csv"), "--candidates and --budget go together")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("plan", "--source", "S.nc", "--target", "T.nc", *QUESTION), ("Say what is promised",)),
        ((*PLAN, "--confidence", "1"), ("between 0 and 1",)),
        ((*PLAN, "--set", "N=1e9"), ("--set gives N twice",)),
        ((*PLAN, "--source", "S.nc"), ("--source gives S twice",)),
        ((*PLAN, "-o", "frontier.txt"), ("ending in .csv",)),
        ((*PLAN, "--plot", "plan.gif"), (".png or .pdf or .svg",)),
        ((*PLAN, "--price", "flop=dear"), ("'dear' is not a number",)),
        (("plan", "--on", "latent", *QUESTION), ("needs a fit of the target's losses",)),
        (("allocate", "J.nc", "--compute", "much"), ("not FLOPs above 0",)),
        (("allocate", "J.nc", "--compute", "1e20", "--stage", "ctp"), ("no stage 'ctp'", "Did you mean 'cpt'?")),
        (("transfer", "C.nc", "--set", "N=2e9", "--set", "D=1e9"), ("knows one stage",)),
        (("transfer", "J.nc", "--set", "N=2e9"), ("Give N and D",)),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(
    command: Command, fits: dict[str, Fit], arguments: tuple[Any, ...], fragments: tuple[str, ...]
) -> None:
    before = snapshot(Path.cwd())
    refused(command(*arguments), *fragments)
    assert snapshot(Path.cwd()) == before


POOL = [
    {"run": f"{n:g}-{r:g}", "N": n, "r": r, "ptpp": 279.0, "D": a * n, "checkpoint_cost": 0.0}
    for n in (241e6, 1.4e9)
    for r in (0.1, 0.5)
    for a in (2, 20)
]
BUY = ("anchors", "S.nc", "T.nc", "--targets", "targets.csv", "--candidates", "pool.csv", "--budget", "3e20")


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ((*PLAN, "--candidates", "pool.csv", "--budget", "3e20", "-o", "pool.csv"), "pool.csv is an input of this command"),
        ((*PLAN, "--candidates", "missing.csv", "--budget", "3e20", "-o", "older.csv"), "missing.csv"),
        ((*PLAN, "--replay", "0.25", "--plot", "p.png", "-o", "older.csv"), "nothing to draw"),
        (("plan", "--source", "S.csv", "--target", "T.nc", "--on", "latent", *QUESTION, "-o", "S.csv"), "S.csv is an input of this command"),
        (("plan", "--source", "a=S.csv", "--target", "T.nc", "--on", "latent", *QUESTION, "-o", "S.csv"), "is an input of this command"),
        (("plan", "--source", "S.nc", "--target", "S.csv", "--on", "latent", *QUESTION, "-o", "S.csv"), "is an input of this command"),
        (("allocate", "J.nc", "--compute", "1e20", "--stage", "cpt", "--plot", "p.png", "-o", "older.csv"), "at least two values"),
        (("allocate", "S.csv", "--compute", "1e20", "-o", "S.csv"), "S.csv is an input of this command"),
        (("transfer", "J.nc", "S.csv", "--set", "N=5e8", "--set", "D=1e8", "-o", "S.csv"), "S.csv is an input of this command"),
        (("transfer", "J.nc", "--set", "N=5e8", "--set", "D=1e8:1e10:6", "--plot", "p.png", "-o", "older.csv"), "no picture"),
        ((*BUY, "--plot", "p.png", "-o", "older.csv"), "no picture"),
        ((*BUY[:2], "S.csv", *BUY[3:], "-o", "S.csv"), "S.csv is an input of this command"),
    ],
)
def test_what_ends_with_2_leaves_older_files_and_what_was_given(
    command: Command, fits: dict[str, Fit], monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, ...], fragment: str
) -> None:
    def no_picture(*_: object, **__: object) -> None:
        raise BayeslawError("no picture can be drawn of it.")

    monkeypatch.setattr("bayeslaw.plots.decisions.plot_savings", no_picture)
    monkeypatch.setattr("bayeslaw.plots.design.plot_anchors", no_picture)
    pd.DataFrame(POOL).to_csv("pool.csv", index=False)
    pd.DataFrame({"N": [8.1e9], "D": [1e11], "r": [0.25], "ptpp": [279.0]}).to_csv("targets.csv", index=False)
    fits["S.csv"] = fits["S.nc"]
    for name in ("older.csv", "S.csv"):
        Path(name).write_text("an older result", encoding="utf-8")
    before = snapshot(Path.cwd())
    done = command(*arguments)
    refused(done, fragment)
    assert "written" not in done.out
    assert snapshot(Path.cwd()) == before


def test_sources_are_named_by_the_user_or_the_file(fits: dict[str, Fit]) -> None:
    sources, levels = cli_plan._sources(["web=S.nc"], None, lambda path: fits[path])
    assert list(sources) == ["web"]
    assert levels == {}
    sources, levels = cli_plan._sources(["S.nc"], ["domain=web,code"], lambda path: fits[path])
    assert list(sources) == ["web", "code"]
    assert levels == {"web": {"domain": "web"}, "code": {"domain": "code"}}


def test_allocation_with_bands_powers_and_picture(command: Command, fits: dict[str, Fit]) -> None:
    done = command("allocate", "J.nc", "--compute", "1e19:1e22:5", "--stage", "cpt", "--plot", "frontier.svg", "-o", "split.csv")
    assert (done.status, done.err) == (0, "")
    assert "power laws of compute, closed form" in done.out
    assert "N_exponent" in done.out
    table = pd.read_csv("split.csv")
    assert len(table) == 5
    assert (table["N_eti90_lo"] < table["N_median"]).all()
    assert Path("frontier.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_transfer_with_bands_and_picture(command: Command, fits: dict[str, Fit]) -> None:
    done = command("transfer", "J.nc", "--set", "N=5e8,2e9", "--set", "D=1e8:1e10:6", "--plot", "savings.png", "-o", "saved.csv")
    assert (done.status, done.err) == (0, "")
    table = pd.read_csv("saved.csv")
    assert len(table) == 12
    assert (table["saved_eti90_lo"] < table["saved_median"]).all()
    assert Path("savings.png").exists()


def test_fits_written_to_files_are_planned_with(
    command: Command, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From file to answer, with a fit that was sampled."""
    shutil.copy(files / "fit.nc", tmp_path / "fit.nc")
    monkeypatch.chdir(tmp_path)
    done = command("allocate", "fit.nc", "--compute", "1e19:1e21:3")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0].split()[:4] == ["compute", "N_median", "N_eti90", "D_median"]
