"""Runs that could be bought: prices, checkpoints, and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError, FitError, TableError
from bayeslaw.design.anchors import anchors
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import parse_card
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, refused
from tests.fixed import LINE, fixed_fit, line, line_fit
from tests.purchases import TARGETS, X, drawn, pool


@pytest.fixture(scope="module")
def fit() -> Fit:
    return drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)


# --- what is refused -------------------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], dict[str, Any], str]] = {
    "no-budget": (lambda t: t, {"budget": 0.0}, "The budget must be a positive number, not 0.0"),
    "budget-nan": (lambda t: t, {"budget": float("nan")}, "The budget must be a positive number, not nan"),
    "budget-too-small": (lambda t: t, {"budget": 0.1}, "The budget of 0.1 buys nothing: the cheapest run, "),
    "cost-zero": (lambda t: t.assign(cost=t["cost"].where(t["run"] != "c1", 0)), {},
                  "cost 0 is missing or not positive: give each run's price (row 4"),
    "cost-negative": (lambda t: t.assign(cost=-t["cost"]), {}, "is missing or not positive"),
    "cost-missing": (lambda t: t.assign(cost=t["cost"].where(t["run"] != "c1")), {}, "cost nan is missing or not positive"),
    "no-cost-column": (lambda t: t.drop(columns="cost"), {}, "There is no column 'cost' for costs."),
    "cost-words": (lambda t: t.assign(cost="cheap"), {}, "Column 'cost', for costs, holds no numbers."),
    "two-prices": (lambda t: t.assign(cost=t["cost"].where(t.index != 1, 99)), {}, "a run has one price, here 99 and "),
    "flops-of-no-law": (lambda t: t.drop(columns="cost"), {"cost": "flops"}, "has no columns N and D to count FLOPs (6 N D) by"),
    "twice": (lambda t: pd.concat([t, t.head(1)]), {}, "run 'c0' is logged twice at one setting: keep one row; a replicate is"),
    "not-fixed": (lambda t: t.assign(fixed="maybe"), {}, "fixed 'maybe' is neither true nor false (row 1, column fixed)"),
    "all-logged": (lambda t: t.assign(run=np.repeat(list("pqrs"), 3)), {},
                   "every candidate is a run of the fit already;"),
    "fixed-too-dear": (lambda t: t.assign(fixed=True), {"budget": 2.0}, "The 4 fixed runs cost "),
    "checkpoint-without-price": (lambda t: t.assign(checkpoint="k"), {}, "the fit has no runs of checkpoint k, and"),
    "checkpoint-price-missing": (lambda t: t.assign(checkpoint="k", checkpoint_cost=np.nan), {},
                                 "checkpoint k must be trained first and its price nan is missing"),
    "two-checkpoints": (lambda t: t.assign(checkpoint=["k", "l"] * 6), {}, "Run 'c0' has rows of two checkpoints"),
    "covariate-missing": (lambda t: t.drop(columns="x"), {}, "column x is missing"),
    "outside-support": (lambda t: t.assign(x=99), {}, "x 99 is outside [-10, 10]"),
    "error-missing": (lambda t: t.assign(loss_se=np.where(t.index == 3, np.nan, 0.01)), {},
                      "loss_se is missing or not finite: 0 where it is nil (row 4, column loss_se)"),
    "rounds": (lambda t: t, {"rounds": 0}, "rounds must be a whole number of at least 1, not 0"),
    "replicates": (lambda t: t, {"replicates": 0}, "replicates must be a whole number of at least 1, not 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_candidates(fit: Fit, name: str) -> None:
    spoil, options, text = FAULTS[name]
    given: dict[str, Any] = {"budget": 20.0, "cost": "cost"} | options
    with pytest.raises(BayeslawError) as caught:
        anchors(fit, spoil(pool(4)), TARGETS, **given)
    assert text in str(caught.value)


TOKENS = """
name = "tokens"
title = "Log loss linear in logarithms"
source = "a test"
loss = "exp(a + b*log(N) + c*log(D))"
[covariates]
N = { unit = "parameters", support = [1e4, 1e13] }
D = { unit = "tokens", support = [1e2, 1e15] }
ptpp = { unit = "pre-training tokens per parameter", support = [0.1, 1e5] }
""" + LINE[LINE.index("[parameters.a]") :]


@pytest.fixture(scope="module")
def tokens() -> Fit:
    """A fit of a law of N, D and ptpp, with checkpoints of two sizes at ptpp 20."""
    rng, law = np.random.default_rng(0), parse_card(TOKENS.replace("c*log(D)", "c*log(D*ptpp)"))
    table = pd.DataFrame(
        {"N": np.repeat([1e8, 1e9], 4), "D": np.tile([1e9, 2e9, 4e9, 8e9], 2), "ptpp": 20.0, "run": np.repeat(["p", "q"], 4)}
    )
    draws = {"a": rng.normal(1, 0.1, 2000), "b": rng.normal(-0.01, 0.002, 2000), "c": rng.normal(-0.01, 0.002, 2000)}
    noise = {"sigma_point": np.full(2000, 0.005), "sigma_run": np.full(2000, 0.003)}
    return fixed_fit(law, table.assign(loss=2.5, ptpp=20.0), draws | noise, noise="normal")


def test_an_empty_checkpoint_is_none_of_the_fit_whatever_its_runs_are_called() -> None:
    """Without checkpoints the fit's are its runs, and a candidate's empty cell is called 'run 1' by its place."""
    fit = line_fit(names=[f"run {i}" for i in range(4)], checkpoint=None)
    own = {"c0": "k", "c1": None, "c2": None, "c3": "k"}
    frame = pool(4).assign(checkpoint=lambda t: t["run"].map(own), checkpoint_cost=50.0)
    made = anchors(fit, frame, TARGETS, budget=400.0, cost="cost")
    assert made.candidates.price.tolist() == [50.0, 50.0, 50.0]


def test_without_checkpoints_each_candidate_has_the_luck_of_its_own() -> None:
    fit = line_fit(noise="normal-checkpoint", run=0.001)
    plain, named = pool(6), pool(6).assign(checkpoint=lambda t: "of " + t["run"], checkpoint_cost=0.0)
    one, other = (anchors(fit, frame, TARGETS, budget=10.0, cost="cost") for frame in (plain, named))
    gains = [made.market.ensemble.gains(np.eye(made.market.ensemble.rank), made.market.weights) for made in (one, other)]
    np.testing.assert_allclose(gains[0], gains[1], rtol=0.1)  # draws of the luck of new checkpoints differ


def test_seeds_may_be_words(tokens: Fit) -> None:
    made = anchors(tokens, RUNS.assign(seed=["x", "x", "y", "y", "x"]), AT, budget=1e22)
    assert made.candidates.checkpoints == ("N 1e+08, ptpp 20, seed x", "N 1e+08, ptpp 100, seed y", "N 1e+09, ptpp 100, seed x")


AT = pd.DataFrame({"N": [1e10], "D": [1e11], "ptpp": [100.0]})
RUNS = pd.DataFrame({
    "run": ["a", "a", "b", "b", "c"], "N": [1e8, 1e8, 1e8, 1e8, 1e9], "D": [1e9, 2e9, 1e9, 3e9, 1e9],
    "ptpp": [20.0, 20.0, 100.0, 100.0, 100.0],
})  # fmt: skip


def test_flops_are_counted_to_the_end_of_a_run_and_checkpoints_once(tokens: Fit) -> None:
    made = anchors(tokens, RUNS, AT, budget=1e22)
    assert dict(zip(made.candidates.names, made.candidates.cost, strict=True)) == {"a": 1.2e18, "b": 1.8e18, "c": 6e18}
    prices = dict(zip(made.candidates.checkpoints, made.candidates.price, strict=True))
    assert prices == {"N 1e+08, ptpp 20": 0.0, "N 1e+08, ptpp 100": 6e18, "N 1e+09, ptpp 100": 6e20}
    assert made.notes == ("2 checkpoints must be trained first and paid for once (N 1e+08, ptpp 100; N 1e+09, ptpp 100)",)
    longer = anchors(tokens, RUNS.assign(D_end=4e9), AT, budget=1e22)
    assert longer.candidates.cost.tolist() == [2.4e18, 2.4e18, 2.4e19]
    free = anchors(tokens, RUNS, AT, budget=1e22, checkpoint_cost="0")
    assert free.candidates.price.max() == 0
    assert free.notes == ("all checkpoints are taken to exist",)
    staged = anchors(tokens, RUNS, AT, budget=1e22, stages="0.5:0,0.5:1")  # (4 + 6)/2 FLOPs per parameter and token
    assert staged.candidates.cost.tolist() == [1e18, 1.5e18, 5e18]
    assert staged.candidates.price.tolist() == made.candidates.price.tolist()
    with pytest.raises(BayeslawError, match="Stages count FLOPs, and the table is to be paid by its column 'flops'"):
        anchors(tokens, RUNS.assign(flops=1), AT, budget=1e22, stages="1:1")
    logged = anchors(tokens, RUNS.assign(flops=[1, 2, 3, 4, 5]), AT, budget=1e22, checkpoint_cost="0")
    assert logged.candidates.cost.tolist() == [2, 4, 5]


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda t: t.assign(D_end=2e9), "run 'b' ends at 2e+09 tokens, before its evaluation at 3e+09: let it run longer"),
        (lambda t: t.assign(run="a"), "run 'a' has N 1e+09 here and 1e+08 at row 1: give each run an id of its own"),
        (lambda t: t.assign(ptpp=[20, 100, 100, 100, 100]), "run 'a' has ptpp 100 here and 20 at row 1"),
        (lambda t: t.assign(N=-1.0), "N -1 is outside"),
        (lambda t: t.assign(D=0.0), "is"),
    ],
)
def test_faulty_runs(tokens: Fit, spoil: Callable[[pd.DataFrame], pd.DataFrame], text: str) -> None:
    with pytest.raises(BayeslawError) as caught:
        anchors(tokens, spoil(RUNS), AT, budget=1e22)
    assert text in str(caught.value)


def test_failed_fits_few_draws_and_faulty_targets_are_refused(fit: Fit) -> None:
    failed = replace(fit, checks=tuple(replace(check, passed=False) for check in fit.checks))
    options: dict[str, Any] = {"budget": 20.0, "cost": "cost"}
    for targets in (TARGETS, {"margin": fit.draws["a"]}):
        with pytest.raises(FitError, match="checks failed"):
            anchors(failed, pool(4), targets, **options)
        made = anchors(failed, pool(4), targets, force=True, **options)
        assert set(made.picks["checks"]) == set(made.target_widths["checks"]) == {made.explain("c0")["checks"]} == {"FAILED (forced)"}
        assert "checks FAILED (forced): the widths are not to be trusted" in made.text
        assert set(anchors(fit, pool(4), targets, **options).picks["checks"]) == {"passed"}
    rng = np.random.default_rng(0)
    draws = {n: rng.normal(1, 0.1, 200) for n in "abc"} | {n: np.full(200, 0.1) for n in ("sigma_point", "sigma_run")}
    few = fixed_fit(line(), pd.DataFrame({"x": X, "loss": 2.0 + X / 10, "run": list("ppqqrr")}), draws, noise="normal")
    with pytest.raises(BayeslawError, match="at least 400 draws; the fit has 200"):
        anchors(few, pool(4), TARGETS, force=True, **options)
    with pytest.raises(BayeslawError, match="2000 draws of line and 100 draws of the targets can't be paired"):
        anchors(fit, pool(4), {"margin": np.zeros(100)}, **options)
    with pytest.raises(BayeslawError, match="2000 draws of line and 200 draws of line can't be paired"):
        anchors([fit, few], pool(4), TARGETS, force=True, **options)
    pair = [Stack({"one": fit, "two": fit}, {"one": 0.5, "two": 0.5}) for _ in range(2)]
    with pytest.raises(BayeslawError, match="Two stacks can't be paired draw by draw"):
        anchors(pair, pool(4), TARGETS, **options)
    with pytest.raises(FitError, match="not finite"):
        anchors(fit, pool(4), {"margin": np.where(fit.draws["a"] > 1, np.nan, 0)}, **options)
    with pytest.raises(BayeslawError, match="There are no targets"):
        anchors(fit, pool(4), {}, **options)
    with pytest.raises(BayeslawError, match="weight is missing or negative"):
        anchors(fit, pool(4), TARGETS.assign(weight=-1), **options)
    with pytest.raises(TableError, match="column x is missing"):
        anchors(fit, pool(4), TARGETS.rename(columns={"x": "y"}), **options)


def test_the_command(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sound_fit: Fit) -> None:
    monkeypatch.chdir(tmp_path)
    sound_fit.save("fit.nc")
    pd.DataFrame({"N": [1e11], "D": [2e12]}).to_csv("targets.csv", index=False)
    words = ("anchors", "fit.nc", "--targets", "targets.csv", "--candidates-grid", "N=1e8,1e9", "atpp=5,20", "--budget")
    done = command(*words, "1e21", "-o", "picks.csv", "--plot", "picks.png", "--rounds", "2")
    assert done.status == 0, done.err
    assert "latent_eti90_width" in done.out
    picks = pd.read_csv("picks.csv")
    assert picks["spent"].max() <= 1e21
    assert Path("picks.png").stat().st_size > 10_000
    run = picks["run"].iloc[0]
    told = command(*words, "1e21", "--explain", run)
    assert told.status == 0
    assert "gain_after_the_other_picks" in told.out
    before = Path("picks.csv").read_bytes()
    refused(command(*words, "1e10", "-o", "picks.csv"), "buys nothing: the cheapest run, N 1e+08, costs 1.2e+18.")
    refused(command(*words, "1e21", "-o", "targets.csv"), "targets.csv is an input of this command")
    refused(command(*words[:4], "--budget", "1e21"), "Give the candidates either by --candidates CANDS.csv or by")
    refused(command(*words, "1e21", "--explain", "nothing"), "There is no candidate 'nothing'.")
    refused(command(*words, "1e21", "--explain", run, "-o", "told.csv"), "tells of one candidate and writes nothing")
    refused(command(*words, "1e21", "--plot", "picks.gif"), "A picture is written to a file ending in")
    assert Path("picks.csv").read_bytes() == before


def test_replay_in_percent_and_r_outside_a_share_are_refused(ptpp_fit: Fit) -> None:
    frame = pd.DataFrame({"run": ["a", "b"], "N": 1e9, "D": 1e10, "ptpp": 31.0, "r": 0.25})
    target = pd.DataFrame({"N": [1e10], "D": [1e11], "ptpp": [100.0], "r": [0.25]})
    for r, text in ((25.0, "is it a percentage? Divide by 100"), (-0.1, "a share lies between 0 and 1")):
        with pytest.raises(TableError) as caught:
            anchors(ptpp_fit, frame.assign(r=r), target, budget=1e21)
        assert text in str(caught.value)
        with pytest.raises(TableError) as caught:
            anchors(ptpp_fit, frame, target.assign(r=r), budget=1e21)
        assert text in str(caught.value)


def test_a_group_of_unknown_noise_is_refused() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": np.tile(X, 2), "loss": 2.7, "run": np.repeat(list("pqrs"), 3), "lab": np.repeat(["ours", "theirs"], 6)}
    )
    draws = {name: rng.normal(1, 0.1, 2000) for name in "abc"}
    draws |= {f"{name}[{lab}]": np.full(2000, 0.01) for name in ("sigma_point", "sigma_run") for lab in ("ours", "theirs")}
    fit = fixed_fit(line(), table, draws, noise="normal", noise_by="lab")
    made = anchors(fit, pool(4).assign(lab="ours"), TARGETS.assign(lab="theirs"), budget=20.0, cost="cost")
    assert len(made.bought)
    with pytest.raises(BayeslawError, match="lab 'nobody' is not among the fit's: ours, theirs"):
        anchors(fit, pool(4).assign(lab="nobody"), TARGETS.assign(lab="ours"), budget=20.0, cost="cost")
    with pytest.raises(BayeslawError, match="noise differs by lab; the settings need that column"):
        anchors(fit, pool(4), TARGETS.assign(lab="ours"), budget=20.0, cost="cost")
