"""The commands plan, allocate and transfer: what they print and write, and that a refused command writes nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError
from bayeslaw.laws.card import load_law
from bayeslaw.planning.plan import Plan
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, load_from, rejected, unchanged
from tests.posteriors import BASE, LIMIT, ZHENG, posterior, scattered, source_fit, target_fit

MODEL = ("--set", "N=8.1e9", "--set", "ptpp=279")
PROBLEM = (*MODEL, "--max-forgetting", "2%", "--max-loss", LIMIT, "--base-loss", BASE)
PLAN = ("plan", "--source", "S.nc", "--target", "T.nc", "--on", "latent", *PROBLEM)
OF_TARGET = ("plan", "--target", "T.nc", "--on", "latent", *MODEL, "--max-loss", LIMIT)
OF_SOURCE = ("plan", "--source", "S.nc", "--on", "latent", *MODEL, "--max-forgetting", "2%")
FAST = ("--replay", "0.5", "--level", "0.9")


def joint_fit() -> Fit:
    """A fit of the domains web and code."""
    law = load_law("transfer-target")
    frame = pd.concat([oracles.table(law).assign(domain=d) for d in ("web", "code")])
    values = scattered(oracles.typical(law), 2000, 5, 0.004)
    values |= {"E_spread": np.full(2000, 0.1), "E_web": values["E"], "E_code": values["E"]}
    return posterior(law, values, frame=frame, by={"E": "domain"})


@pytest.fixture(scope="module")
def all_fits() -> dict[str, Fit]:
    return {
        "S.nc": source_fit(2000),
        "T.nc": target_fit(2000),
        "B.nc": joint_fit(),
        "J.nc": posterior("cpt-joint", scattered(ZHENG, 400, 3, 0.01)),
        "C.nc": posterior("chinchilla", scattered({k: ZHENG[k] for k in load_law("chinchilla").parameters}, 400, 3, 0.01)),
    }


@pytest.fixture
def fits(all_fits: dict[str, Fit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Fit]:
    """A folder in which fits of these names can be loaded; their files hold nothing."""
    known = dict(all_fits)

    load_from(known, tmp_path, monkeypatch)
    return known


def test_a_plan_in_words_and_as_a_table(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*PLAN, "-o", "frontier.csv", "--plot", "plan.png")
    assert (done.status, done.err) == (0, "")
    assert "N = 8.1e+09, ptpp = 279: loss of source rises by at most +2% over its base; target loss at most" in done.out
    assert "note: base loss of source 1.54772 nats/token, as stated" in done.out
    table = pd.read_csv("frontier.csv")
    assert table["confidence"].tolist() == [0.5, 0.8, 0.9, 0.95]
    assert table["active"].isin(["forgetting of source", "target loss"]).all()
    assert (np.diff(table["tokens"]) > 0).all()
    assert Path("plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("of", "given"),
    [
        ("S.nc", PLAN),
        ("C.nc", ("allocate", "C.nc", "--compute", "1e20")),
        ("J.nc", ("transfer", "J.nc", "--set", "N=5e8", "--set", "D=1e9")),
    ],
)
def test_a_decision_names_the_concerns_about_its_fits(
    command: Command, fits: dict[str, Fit], of: str, given: tuple[str, ...]
) -> None:
    """They were told by the fit alone, and a plan that holds in 90% of the draws of a wrong law looked sound."""
    fits[of] = replace(fits[of], checks=(Check("misfit", False, "", "model", pd.DataFrame()),))
    done = command(*given)
    assert f"Model of {of}: concerns (misfit). `bayeslaw show {of}`" in done.out
    assert done.out.count("Model of") == 1


def test_a_command_in_an_answer_can_be_run_with_any_name_of_a_file(fits: dict[str, Fit]) -> None:
    answer, concern = Answer(), Check("misfit", False, "", "model", pd.DataFrame())
    answer.warn_of({Path("my fits/C.nc"): replace(fits["C.nc"], checks=(concern,))})
    assert "`bayeslaw show 'my fits/C.nc'`" in answer.parts[0][0]


def test_the_frontier_is_printed_at_the_given_levels(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*PLAN, "--level", "0.6", "--level", "0.7", "--confidence", "0.7", "--replay", "0.5", "--price", "new-token=1e-6")
    assert done.status == 0
    rows = [line.split()[0][:3] for line in done.out.splitlines() if line.strip().startswith(("0.6", "0.7"))]
    assert rows == ["0.6", "0.7"]
    assert "replay 50.0%" in done.out
    assert "cost" in done.out


def test_the_least_target_loss_under_a_budget(command: Command, fits: dict[str, Fit]) -> None:
    limits = [a for a in PLAN if a not in ("--max-loss", LIMIT)]
    done = command(*limits, *FAST, "--max-tokens", "1.5e11", "--minimise", "target-loss")
    assert done.status == 0
    assert "note: the plan uses the whole budget" in done.out


def test_an_infeasible_plan_is_an_answer(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*PLAN, *FAST, "--atpp", "1:18")
    assert (done.status, done.err) == (0, "")
    assert "infeasible at confidence 0.9" in done.out
    assert "highest attainable confidence: 0." in done.out
    assert "note: active constraint: " in done.out


def test_candidates_that_would_make_the_constraints_surer(
    command: Command, fits: dict[str, Fit], monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.DataFrame(POOL).to_csv("pool.csv", index=False)
    done = command(*PLAN, *FAST, "--candidates", "pool.csv", "--budget", "3e20")
    assert (done.status, done.err) == (0, "")
    assert any(run["run"] in done.out for run in POOL)
    rejected(command(*PLAN, "--candidates", "pool.csv"), "candidates-without-budget", "--candidates", "--budget")
    seeds = list[int]()

    def seeded(self: Plan, *_: object, seed: int = 0, **options: object) -> None:
        seeds.append(seed)
        raise BayeslawError("enough", code="enough")

    monkeypatch.setattr(Plan, "anchors", seeded)
    rejected(command(*PLAN, *FAST, "--candidates", "pool.csv", "--budget", "3e20", "--seed", "7"), "enough")
    assert seeds == [7]


def test_sources_are_named_by_the_user_or_by_the_domains_of_a_fit(command: Command, fits: dict[str, Fit]) -> None:
    limits = ("--max-forgetting", "5%", "--base-loss", 2.35, "--confidence", 0.5, "--on", "latent", *FAST)
    small = ("--set", "N=1e9", "--set", "ptpp=31")
    named = command("plan", "--source", "web=B.nc", "--source-set", "domain=web", *small, *limits)
    assert named.status == 0, named
    assert "loss of web rises by at most +5%" in named.out
    both = command("plan", "--source", "B.nc", "--source-set", "domain=web,code", *small, *limits)
    assert both.status == 0, both
    assert "loss of web rises by at most +5%" in both.out
    assert "loss of code rises by at most +5%" in both.out


def test_one_fit_of_both_domains_is_source_and_target_and_tokens_are_limited(command: Command, fits: dict[str, Fit]) -> None:
    of_both = ("plan", "--source", "B.nc", "--target", "B.nc", "--source-set", "domain=web", "--set", "N=1e9", "--set", "ptpp=31")
    limits = ("--max-loss", 2.2, "--base-loss", 2.35, "--confidence", 0.5, "--on", "latent", *FAST)
    rejected(command(*of_both, *limits), "missing-level", "--target-set domain=web")
    done = command(*of_both, "--target-set", "domain=code", *limits, "--tokens", "20B,40B", "-o", "frontier.csv")
    assert (done.status, done.err) == (0, "")
    assert {*pd.read_csv("frontier.csv")["tokens"].dropna().round()} <= {2e10, 4e10}
    assert "target loss at most 2.2 nats/token" in done.out
    two = command(*of_both, "--target-set", "domain=code", *limits, "--tokens", "2e10", "--atpp", 20)
    rejected(two, "atpp-and-tokens", "not both")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("plan", "--source", "S.nc", "--target", "T.nc", *PROBLEM), "unknown-spread", ()),
        ((*PLAN, "--confidence", "1"), "no-probability", ("1",)),
        ((*PLAN, "--set", "N=1e9"), "given-twice", ("--set", "N")),
        ((*PLAN, "--source", "S.nc"), "given-twice", ("--source", "S")),
        ((*PLAN, "-o", "frontier.txt"), "wrong-ending", ("frontier.txt",)),
        ((*PLAN, "--plot", "plan.gif"), "wrong-ending", ("plan.gif",)),
        ((*PLAN, "--price", "flop=dear"), "unusable-price", ("'dear'",)),
        ((*OF_TARGET, "--source-set", "domain=web"), "option-without-use", ("--source-set",)),
        ((*OF_TARGET, "--base-loss", BASE), "option-without-use", ("--base-loss",)),
        ((*OF_SOURCE, "--target-set", "domain=web"), "option-without-use", ("--target-set",)),
        (("plan", "--on", "latent", *PROBLEM), "no-posterior", ()),
        (("allocate", "J.nc", "--compute", "much"), "unreadable-compute", ("'much'",)),
        (("allocate", "J.nc", "--compute", "1e20", "--stage", "ctp"), "unknown-stage", ("'ctp'", "'cpt'")),
        (("transfer", "C.nc", "--set", "N=2e9", "--set", "D=1e9"), "one-stage-only", ()),
        (("transfer", "J.nc", "--set", "N=2e9"), "missing-setting", ("N", "D")),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(
    command: Command, fits: dict[str, Fit], arguments: tuple[Any, ...], code: str, named: tuple[str, ...]
) -> None:
    with unchanged(Path.cwd()):
        rejected(command(*arguments), code, *named)


POOL: list[dict[str, Any]] = [
    {"run": f"{n:g}-{r:g}", "N": n, "r": r, "ptpp": 279.0, "D": a * n, "checkpoint_cost": 0.0}
    for n in (241e6, 1.4e9)
    for r in (0.1, 0.5)
    for a in (2, 20)
]
BUY = ("anchors", "S.nc", "T.nc", "--targets", "targets.csv", "--candidates", "pool.csv", "--budget", "3e20")
OVER = ("--on", "latent", *PROBLEM, "-o", "S.csv")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ((*PLAN, "--candidates", "pool.csv", "--budget", "3e20", "-o", "pool.csv"), "output-is-input", "pool.csv"),
        ((*PLAN, *FAST, "--candidates", "missing.csv", "--budget", "3e20", "-o", "older.csv"), "", "missing.csv"),
        ((*PLAN, *FAST, "--plot", "p.png", "-o", "older.csv"), "nothing-to-draw", ""),
        (("plan", "--source", "a=S.csv", "--target", "T.nc", *OVER), "output-is-input", "S.csv"),
        (("plan", "--source", "S.nc", "--target", "S.csv", *OVER), "output-is-input", "S.csv"),
        (("allocate", "J.nc", "--compute", "1e20", "--stage", "cpt", "--plot", "p.png", "-o", "older.csv"), "no-picture", ""),
        (("allocate", "S.csv", "--compute", "1e20", "-o", "S.csv"), "output-is-input", "S.csv"),
        (("transfer", "J.nc", "S.csv", "--set", "N=5e8", "--set", "D=1e8", "-o", "S.csv"), "output-is-input", "S.csv"),
        (("transfer", "J.nc", "--set", "N=5e8", "--set", "D=1e8:1e10:6", "--plot", "p.png", "-o", "older.csv"), "no-picture", ""),
        ((*BUY, "--plot", "p.png", "-o", "older.csv"), "no-picture", ""),
        ((*BUY[:2], "S.csv", *BUY[3:], "-o", "S.csv"), "output-is-input", "S.csv"),
    ],
)
def test_a_refused_command_leaves_older_files_and_its_inputs_as_they_are(
    command: Command, fits: dict[str, Fit], monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, ...], code: str, named: str
) -> None:
    def no_picture(*_: object, **__: object) -> None:
        raise BayeslawError("no picture can be drawn of it.", code="no-picture")

    monkeypatch.setattr("bayeslaw.plots.plot_savings", no_picture)
    monkeypatch.setattr("bayeslaw.plots.plot_anchors", no_picture)
    monkeypatch.setattr("bayeslaw.plots.plot_isoflops", no_picture)
    pd.DataFrame(POOL).to_csv("pool.csv", index=False)
    pd.DataFrame({"N": [8.1e9], "D": [1e11], "r": [0.25], "ptpp": [279.0]}).to_csv("targets.csv", index=False)
    fits["S.csv"] = fits["S.nc"]
    for name in ("older.csv", "S.csv"):
        Path(name).write_text("an older result", encoding="utf-8")
    with unchanged(Path.cwd()):
        done = command(*arguments)
        rejected(done, code or next(iter(done.codes)), named)
        assert "written" not in done.out


def test_an_allocation_with_intervals_powers_and_picture(command: Command, fits: dict[str, Fit]) -> None:
    done = command("allocate", "J.nc", "--compute", "1e19:1e22:5", "--stage", "cpt", "--plot", "frontier.svg", "-o", "split.csv")
    assert (done.status, done.err) == (0, "")
    assert "power laws of compute, closed form" in done.out
    assert "N_exponent" in done.out
    table = pd.read_csv("split.csv")
    assert len(table) == 5
    assert (table["N_eti90_lb"] < table["N_median"]).all()
    picture = Path("frontier.svg").read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    assert "frontier" in picture
    assert "equal compute" in picture
    assert command("allocate", "J.nc", "--compute", "1e20", "--stage", "cpt", "--plot", "one.svg").status == 0
    assert "frontier" not in Path("one.svg").read_text(encoding="utf-8")


LIFE = ("allocate", "C.nc", "--served", "1e10:1e11:90%")
GPU = ("--device", "peak=312e12", "--device", "utilisation=0.5", "--price", "hour=1:2:90%")


def test_a_target_loss_at_least_whole_life_cost(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*LIFE, "--max-loss", "2.6", *GPU, "--device", "served-utilisation=Beta(2,40)", "--plot", "life.png")
    assert (done.status, done.err) == (0, "")
    assert "least money for a loss of at most 2.6 nats/token" in done.out
    assert "deterministic (plug-in) plan, by median losses and amounts" in done.out
    assert "by the costs of training alone" in done.out
    assert "device hours" in done.out
    assert Path("life.png").exists()


def test_the_picture_of_a_whole_life_has_intervals_of_the_probability_asked_for(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*LIFE, "--max-loss", "2.6", "--sizes", "3e8,1e9", "--ci", "0.5", "--plot", "life.svg")
    assert (done.status, done.err) == (0, "")
    picture = Path("life.svg").read_text(encoding="utf-8")
    assert "bars: 50% equal-tailed" in picture
    assert "bars: 90% equal-tailed" not in picture


def test_sizes_of_a_menu_as_json(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*LIFE, "--compute", "1e20", "--sizes", "100M,3e8,1e9", "--level", "0.5", "--json")
    assert (done.status, done.err) == (0, "")
    results = json.loads(done.out)["results"]
    assert [row["N"] for row in results["menu"]] == [1e8, 3e8, 1e9]
    assert sum(row["probability_best"] for row in results["menu"]) == pytest.approx(1)
    assert [row["confidence"] for row in results["frontier"]] == [0.5, 0.9]
    assert results["best"][0]["N"] in (1e8, 3e8, 1e9)
    assert results["best"][0]["costs"]["flops"] <= 1e20 * (1 + 1e-9)
    assert results["training_only"] == [None]


def test_a_checkpoint_of_a_menu_is_chosen_by_whole_life_cost(command: Command, fits: dict[str, Fit]) -> None:
    options = ("--max-forgetting", "2%", "--base-loss", "1.57,1.55", "--max-loss", "1.9", "--on", "latent", *FAST)
    menu = ("plan", "--source", "S.nc", "--target", "T.nc", "--sizes", "3e9,8.1e9", "--set", "ptpp=279", *options)
    done = command(*menu, "--served", "1e11:1e12:90%", *GPU, "-o", "menu.csv", "--plot", "menu.png")
    assert (done.status, done.err) == (0, "")
    assert "2 checkpoints, least mean money of the whole life" in done.out
    assert "adapt N = 3e9: ATPP " in done.out
    table = pd.read_csv("menu.csv")
    assert table["N"].tolist() == [3e9, 8.1e9]
    assert {"flops", "served_flops", "hours", "cost", "probability_best"} <= set(table)
    assert Path("menu.png").exists()
    named = command(*menu[: -len(options)], *options[:2], "--base-loss", "source=1.57,1.55", *options[4:], "--json")
    assert json.loads(named.out)["results"]["menu"][0]["plan"] == "feasible"


def test_a_plan_with_served_tokens_and_hours(command: Command, fits: dict[str, Fit]) -> None:
    done = command(*PLAN, *FAST, "--served", "1e12", *GPU, "--max-hours", "1e7", "--minimise", "hours")
    assert (done.status, done.err) == (0, "")
    assert "for serving)" in done.out
    assert "device hours" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("allocate", "C.nc"), "one-limit-needed", ("--compute",)),
        (("allocate", "C.nc", "--compute", "1e21", "--confidence", "1"), "no-probability", ("1",)),
        (("allocate", "C.nc", "--on", "run"), "one-limit-needed", ()),
        (("allocate", "C.nc", "--served", "many", "--compute", "1e21"), "unusable-served", ("'many'",)),
        (("allocate", "C.nc", "--served", "-1", "--compute", "1e21"), "unusable-served", ("'-1'",)),
        (("allocate", "C.nc", "--served", "1e11", "--max-loss", "2.6", "--minimise", "days"), "unknown-objective", ("'days'",)),
        (("allocate", "C.nc", "--hours", "1e6"), "missing-device", ("peak=312e12",)),
        (("allocate", "C.nc", "--sizes", "3,7", "--compute", "1e21"), "size-out-of-range", ("3B",)),
        (("allocate", "C.nc", "--device", "peak", "--compute", "1e21"), "not-a-pair", ("--device",)),
        (("allocate", "C.nc", "--compute", "1e18", "--served", "1e15", "--sizes", "1e9,3e9"), "budget-too-small", ("2e24", "1e9")),
        ((*PLAN, "--sizes", "3e9,8e9"), "sizes-and-size", ("--set N",)),
        ((*PLAN, "--max-hours", "1e6"), "missing-device", ("peak=312e12",)),
        ((*PLAN, "--device", "peak=1e15", "--device", "utilisation=50"), "unusable-device", ("0.5",)),
    ],
)
def test_whole_life_options_that_can_not_be_used_are_refused(
    command: Command, fits: dict[str, Fit], arguments: tuple[Any, ...], code: str, named: Any
) -> None:
    with unchanged(Path.cwd()):
        done = command(*arguments)
        for name in (named,) if isinstance(named, str) else named:
            rejected(done, code, name)


def test_a_transfer_with_intervals_and_picture(command: Command, fits: dict[str, Fit]) -> None:
    done = command("transfer", "J.nc", "--set", "N=5e8,2e9", "--set", "D=1e8:1e10:6", "--plot", "savings.png", "-o", "saved.csv")
    assert (done.status, done.err) == (0, "")
    table = pd.read_csv("saved.csv")
    assert len(table) == 12
    assert (table["saved_eti90_lb"] < table["saved_median"]).all()
    assert Path("savings.png").exists()


def test_compute_is_allocated_by_a_fit_that_was_sampled_and_saved(
    command: Command, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(files / "fit.nc", tmp_path / "fit.nc")
    monkeypatch.chdir(tmp_path)
    done = command("allocate", "fit.nc", "--compute", "1e19:1e21:3")
    assert (done.status, done.err) == (0, "")
    # Three rows that are too wide are printed vertically, side by side.
    assert [line.split()[0] for line in done.out.splitlines()[:4]] == ["compute", "N_median", "N_eti90", "D_median"]
    assert done.out.splitlines()[0].split()[1:] == ["1e19", "1e20", "1e21"]
