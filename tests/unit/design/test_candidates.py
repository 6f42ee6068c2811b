"""Candidates: prices, checkpoints, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.design.anchors import anchors
from bayeslaw.design.candidates import read_candidates
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import parse_card
from bayeslaw.posterior.fit import Fit
from tests.errors import fails
from tests.fixed import LINE, fixed_fit, line, line_fit, typical_fit
from tests.purchases import TARGETS, X, drawn, pool


@pytest.fixture(scope="module")
def fit() -> Fit:
    return drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)


# A change of a sound table, options, the code of the refusal and values that its message names
FAULTS: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], dict[str, Any], str, tuple[object, ...]]] = {
    "no-budget": (lambda t: t, {"budget": 0.0}, "bad-budget", (0.0,)),
    "budget-none": (lambda t: t, {"budget": None}, "bad-budget", (None,)),
    "budget-nan": (lambda t: t, {"budget": float("nan")}, "bad-budget", ("nan",)),
    "budget-too-small": (lambda t: t, {"budget": 0.1}, "budget-too-small", (0.1,)),
    "cost-zero": (lambda t: t.assign(cost=t["cost"].where(t["run"] != "c1", 0)), {}, "bad-cost", ("cost 0", "row 4")),
    "cost-negative": (lambda t: t.assign(cost=-t["cost"]), {}, "bad-cost", ()),
    "cost-missing": (lambda t: t.assign(cost=t["cost"].where(t["run"] != "c1")), {}, "bad-cost", ("cost nan",)),
    "no-checkpoint-cost-column": (lambda t: t, {"checkpoint_cost": "price"}, "missing-column", ("'price'",)),
    "no-cost-column": (lambda t: t.drop(columns="cost"), {}, "missing-column", ("'cost'",)),
    "cost-words": (lambda t: t.assign(cost="cheap"), {}, "not-numbers", ("column cost",)),
    "two-prices": (lambda t: t.assign(cost=t["cost"].where(t.index != 1, 99)), {}, "two-prices", (99,)),
    "flops-of-no-law": (lambda t: t.drop(columns="cost"), {"cost": "flops"}, "missing-column", ("N and D",)),
    "twice": (lambda t: pd.concat([t, t.head(1)]), {}, "logged-twice", ("'c0'",)),
    "not-fixed": (lambda t: t.assign(fixed="maybe"), {}, "not-true-or-false", ("'maybe'", "row 1")),
    "all-in-the-fit": (lambda t: t.assign(run=np.repeat(list("pqrs"), 3)), {}, "no-new-runs", ()),
    "fixed-too-dear": (lambda t: t.assign(fixed=True), {"budget": 2.0}, "budget-too-small", (4, 2)),
    "checkpoint-without-price": (lambda t: t.assign(checkpoint="k"), {}, "no-checkpoint-price", ("checkpoint k",)),
    "checkpoint-price-missing": (lambda t: t.assign(checkpoint="k", checkpoint_cost=np.nan), {}, "bad-checkpoint-price",
                                 ("checkpoint k", "nan")),
    "two-checkpoints": (lambda t: t.assign(checkpoint=["k", "l"] * 6), {}, "run-of-two", ("'c0'",)),
    "covariate-missing": (lambda t: t.drop(columns="x"), {}, "faulty-table", ("column x",)),
    "outside-support": (lambda t: t.assign(x=99), {}, "faulty-table", ("x 99",)),
    "error-missing": (lambda t: t.assign(loss_se=np.where(t.index == 3, np.nan, 0.01)), {}, "faulty-table", ("row 4", "loss_se")),
    "rounds": (lambda t: t, {"rounds": 0}, "not-a-whole-number", ("rounds", 0)),
    "replicates": (lambda t: t, {"replicates": 0}, "not-a-whole-number", ("replicates", 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_candidates_are_refused(fit: Fit, name: str) -> None:
    change, options, code, named = FAULTS[name]
    given: dict[str, Any] = {"budget": 20.0, "cost": "cost"} | options
    with fails(code, *named):
        anchors(fit, change(pool(4)), TARGETS, **given)


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


@pytest.mark.slow
def test_a_candidate_without_checkpoint_has_a_checkpoint_of_its_own() -> None:
    """Also where its automatic name, such as 'run 1', is the name of a run and checkpoint of the fit."""
    fit = line_fit(names=[f"run {i}" for i in range(4)], checkpoint=None)
    own = {"c0": "k", "c1": None, "c2": None, "c3": "k"}
    frame = pool(4).assign(checkpoint=lambda t: t["run"].map(own), checkpoint_cost=50.0)
    choice = anchors(fit, frame, TARGETS, budget=400.0, cost="cost")
    assert choice.candidates.price.tolist() == [50.0, 50.0, 50.0]


@pytest.mark.slow
def test_without_checkpoints_each_candidate_has_a_checkpoint_effect_of_its_own() -> None:
    fit = line_fit(noise="normal-checkpoint", run=0.001)
    plain, named = pool(6), pool(6).assign(checkpoint=lambda t: "of " + t["run"], checkpoint_cost=0.0)
    one, other = (anchors(fit, frame, TARGETS, budget=10.0, cost="cost") for frame in (plain, named))
    gains = [choice.market.ensemble.gains(np.eye(choice.market.ensemble.rank), choice.market.weights) for choice in (one, other)]
    np.testing.assert_allclose(gains[0], gains[1], rtol=0.1)  # draws of the effects of new checkpoints differ


@pytest.mark.slow
def test_seeds_may_be_text(tokens: Fit) -> None:
    choice = anchors(tokens, RUNS.assign(seed=["x", "x", "y", "y", "x"]), AT, budget=1e22)
    assert choice.candidates.checkpoints == ("N 1e+08, ptpp 20, seed x", "N 1e+08, ptpp 100, seed y", "N 1e+09, ptpp 100, seed x")


AT = pd.DataFrame({"N": [1e10], "D": [1e11], "ptpp": [100.0]})
RUNS = pd.DataFrame({
    "run": ["a", "a", "b", "b", "c"], "N": [1e8, 1e8, 1e8, 1e8, 1e9], "D": [1e9, 2e9, 1e9, 3e9, 1e9],
    "ptpp": [20.0, 20.0, 100.0, 100.0, 100.0],
})  # fmt: skip


@pytest.mark.slow
def test_the_longest_checkpoint_of_a_trunk_is_paid_alone(tokens: Fit) -> None:
    """Checkpoints of one size at two stages are charged separately, unless a trunk at a constant rate passes through both."""
    runs = pd.DataFrame({"run": ["short", "long", "again"], "N": 1e8, "D": 1e9, "ptpp": [62.0, 279.0, 279.0], "r": [0, 0, 0.5]})
    apart, one, same, unknown = (
        anchors(tokens, runs.assign(**trunk), AT, budget=1e22)
        for trunk in ({}, {"trunk": "w100"}, {"trunk": ["a", "b", "b"]}, {"trunk": None})
    )
    short, long, run = 6e16 * 62, 6e16 * 279, 6e17
    assert apart.market.bill([0, 1, 2]) == same.market.bill([0, 1, 2]) == unknown.market.bill([0, 1, 2]) == short + long + 3 * run
    assert one.market.bill([0, 1, 2]) == long + 3 * run
    assert one.market.bill([0]) == short + run
    assert one.market.prices([0]).tolist()[1:] == [long - short + run] * 2
    assert one.market.prices([2]).tolist()[:2] == [run, run]
    assert one.picks["checkpoint_cost"].sum() == long
    assert one.picks["spent"].iloc[-1] == one.market.bill(one.bought)
    with fails("two-trunks", "pool.csv", "row 3"):
        anchors(tokens, replace(read_runs(runs.assign(trunk=["a", "b", "c"])), name="pool.csv"), AT, budget=1e22)


def test_the_price_and_the_trunk_of_a_checkpoint_may_stand_in_any_row_of_a_run(tokens: Fit) -> None:
    table = pd.DataFrame(
        {"run": ["a", "a", "b"], "N": [1e8, 1e8, 1e9], "D": [1e9, 1e10, 2e10], "ptpp": 20, "checkpoint": ["k", "k", "m"]}
    )
    read = read_candidates(
        [(tokens.law, tokens.observed)],
        table.assign(checkpoint_cost=[np.nan, 5e18, 1e18], trunk=["", "t", "t"], D_end=["2e10", "20B", ""]),
    )
    assert read.price.tolist() == [5e18, 1e18]
    assert read.trunk.tolist() == [0, 0]
    assert read.cost.tolist() == pytest.approx([6 * 1e8 * 2e10, 6 * 1e9 * 2e10])
    exist = read_candidates([(tokens.law, tokens.observed)], table, checkpoint_cost=0)
    assert exist.price.tolist() == [0, 0]
    alone = read_candidates([(tokens.law, tokens.observed)], table.assign(checkpoint_cost=1e18, trunk=""))
    assert alone.trunk.tolist() == [0, 1]  # an empty text names none
    two = table.assign(checkpoint_cost=1e18, trunk=["t", "u", "t"])
    with fails("two-trunks", "row 2"):
        read_candidates([(tokens.law, tokens.observed)], two)
    with fails("not-numbers", "'two'", "row 3"):
        read_candidates([(tokens.law, tokens.observed)], table.assign(price=["1", "1", "two"]), cost="price", checkpoint_cost="0")


def test_sizes_in_another_unit_are_asked_for_where_the_law_does_not_know_them(fit: Fit) -> None:
    table = pool(3).drop(columns="cost").assign(N=410.0, D=8.2)
    with fails("unit-of-size", "N is at most 410 in all rows: is it in millions", "--column N=COLUMN:M", "D is at most 8.2"):
        anchors(fit, table, TARGETS, budget=1e30)
    sound = anchors(fit, table.assign(N=4.1e8, D=8.2e9), TARGETS, budget=1e30)
    assert sound.candidates.cost.tolist() == pytest.approx([6 * 4.1e8 * 8.2e9] * 3)


def test_a_budget_for_no_whole_run_of_several_tokens_says_how_to_ask_for_shorter_ones(tokens: Fit) -> None:
    runs = RUNS.iloc[:4].assign(ptpp=20.0)
    with fails("budget-too-small", "the cheapest run, a, costs 1.2e+18.", "2 D", "2e+09", "--candidates"):
        anchors(tokens, runs, AT, budget=1e18)
    with pytest.raises(BayeslawError) as refused:
        anchors(tokens, runs.assign(run=["a", "b", "c", "d"]), AT, budget=1e17)
    assert str(refused.value).endswith("the cheapest run, a, costs 6e+17.")


def test_candidates_with_points_on_their_way_are_noted_where_each_fitted_run_is_one_row(tokens: Fit) -> None:
    law = tokens.law
    ends = pd.DataFrame({"N": [1e8, 1e8, 1e9, 1e9], "D": [1e9, 8e9, 1e9, 8e9], "ptpp": 20.0, "loss": 2.5, "run": list("pqrs")})
    of_ends = Observations.of(law, Runs(ends))
    notes = [read_candidates([(law, of)], RUNS, checkpoint_cost="0").notes for of in (of_ends, tokens.observed)]
    notes.append(read_candidates([(law, of_ends)], RUNS.assign(run=None), checkpoint_cost="0").notes)
    assert [sum("losses on the way" in note for note in some) for some in notes] == [1, 0, 0]
    assert notes[0][-2].startswith("2 candidates of several D")


@pytest.mark.slow
def test_flops_are_counted_to_the_end_of_a_run_and_checkpoints_once(tokens: Fit) -> None:
    choice = anchors(tokens, RUNS, AT, budget=1e22)
    assert dict(zip(choice.candidates.names, choice.candidates.cost, strict=True)) == {"a": 1.2e18, "b": 1.8e18, "c": 6e18}
    prices = dict(zip(choice.candidates.checkpoints, choice.candidates.price, strict=True))
    assert prices == {"N 1e+08, ptpp 20": 0.0, "N 1e+08, ptpp 100": 6e18, "N 1e+09, ptpp 100": 6e20}
    assert choice.notes == ("2 checkpoints must be trained first and paid for once (N 1e+08, ptpp 100; N 1e+09, ptpp 100)",)
    longer = anchors(tokens, RUNS.assign(D_end=4e9), AT, budget=1e22)
    assert longer.candidates.cost.tolist() == [2.4e18, 2.4e18, 2.4e19]
    some = anchors(
        tokens, RUNS.assign(D_end=[np.nan, 4e9, np.nan, np.nan, np.nan]), AT, budget=1e22
    )  # empty: at the last evaluation
    assert some.candidates.cost.tolist() == [2.4e18, 1.8e18, 6e18]
    dearest = RUNS.assign(checkpoint=["k", "k", "k", "k", "l"], checkpoint_cost=[5.0, 5.0, 3.0, 3.0, 1.0], ptpp=100.0)
    assert read_candidates([(tokens.law, tokens.observed)], dearest).price.tolist() == [5.0, 1.0]
    known = replace(tokens.observed, checkpoint_names=("k", *tokens.observed.checkpoint_names[1:]))
    of_two = [(tokens.law, tokens.observed), (tokens.law, known)]
    assert read_candidates(of_two, dearest).price.tolist() == [0.0, 1.0]  # one of the fits has runs of it
    free = anchors(tokens, RUNS, AT, budget=1e22, checkpoint_cost="0")
    assert free.candidates.price.max() == 0
    assert free.notes == ("all checkpoints are assumed to exist",)
    staged = anchors(tokens, RUNS, AT, budget=1e22, stages="0.5:0,0.5:1")  # (4 + 6)/2 FLOPs per parameter and token
    assert staged.candidates.cost.tolist() == [1e18, 1.5e18, 5e18]
    assert staged.candidates.price.tolist() == choice.candidates.price.tolist()
    with fails("stages-and-prices", "'flops'"):
        anchors(tokens, RUNS.assign(flops=1), AT, budget=1e22, stages="1:1")
    logged = anchors(tokens, RUNS.assign(flops=[1, 2, 3, np.nan, 5]), AT, budget=1e22, checkpoint_cost="0")
    assert logged.candidates.cost.tolist() == [2, 3, 5]
    for wrong in (np.inf, np.nan):
        with fails("bad-cost", f"cost {wrong}", "row 5"):
            anchors(tokens, RUNS.assign(flops=[1, 2, 3, 4, wrong]), AT, budget=1e22, checkpoint_cost="0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        (lambda t: t.assign(D_end=2e9), "ends-too-early", ("'b'", "2e+09", "3e+09")),
        (lambda t: t.assign(D_end="later"), "not-numbers", ("column D_end",)),
        (lambda t: t.assign(run="a"), "two-settings", ("'a'", "1e+09", "1e+08", "row 1")),
        (lambda t: t.assign(ptpp=[20, 100, 100, 100, 100]), "two-settings", ("'a'", "ptpp 100")),
        (lambda t: t.assign(N=-1.0), "faulty-table", ("N -1",)),
        (lambda t: t.assign(D=0.0), "faulty-table", ("column D",)),
    ],
)
def test_faulty_runs_are_refused(
    tokens: Fit, change: Callable[[pd.DataFrame], pd.DataFrame], code: str, named: tuple[str, ...]
) -> None:
    with fails(code, *named):
        anchors(tokens, change(RUNS), AT, budget=1e22)


@pytest.mark.slow
def test_a_fit_whose_checks_failed_is_refused_unless_forced(fit: Fit) -> None:
    failed = replace(fit, checks=tuple(replace(check, passed=False) for check in fit.checks))
    for targets in (TARGETS, {"margin": fit.draws["a"]}):
        with fails("failed-checks", kind=FitError):
            anchors(failed, pool(4), targets, budget=20.0, cost="cost")
        choice = anchors(failed, pool(4), targets, budget=20.0, cost="cost", force=True)
        checks = {*choice.picks["checks"], choice.explain("c0")["checks"]}
        assert checks == {"FAILED (forced)"}
        assert set(anchors(fit, pool(4), targets, budget=20.0, cost="cost").picks["checks"]) == {"passed"}
    assert "checks FAILED (forced)" in choice.text
    both = {"level": fit.draws["a"]}
    with fails("failed-checks", kind=FitError):
        anchors([fit, failed], pool(4), both, budget=20.0, cost="cost")
    for goal in (both, TARGETS):
        assert "checks FAILED (forced)" in anchors([fit, failed], pool(4), goal, budget=20.0, cost="cost", force=True).text


@pytest.mark.slow
def test_few_draws_and_faulty_targets_are_refused(fit: Fit) -> None:
    options: dict[str, Any] = {"budget": 20.0, "cost": "cost"}
    rng = np.random.default_rng(0)
    draws = {n: rng.normal(1, 0.1, 200) for n in "abc"} | {n: np.full(200, 0.1) for n in ("sigma_point", "sigma_run")}
    few = fixed_fit(line(), pd.DataFrame({"x": X, "loss": 2.0 + X / 10, "run": list("ppqqrr")}), draws, noise="normal")
    with fails("too-few-draws", 400, 200):
        anchors(few, pool(4), TARGETS, force=True, **options)
    with fails("unpaired-draws", 2000, 100):
        anchors(fit, pool(4), {"margin": np.zeros(100)}, **options)
    with fails("unpaired-draws", "'other'", 2000, 100):
        anchors(fit, pool(4), {"margin": fit.draws["a"], "other": np.zeros(100)}, **options)
    with fails("not-numbers", "'margin'", "'1e-3 at most'"):
        anchors(fit, pool(4), {"margin": "1e-3 at most"}, **options)
    with fails("unpaired-draws", 2000, 200):
        anchors([fit, few], pool(4), TARGETS, force=True, **options)
    pair = [Stack({"one": fit, "two": fit}, {"one": 0.5, "two": 0.5}) for _ in range(2)]
    assert len(anchors(pair, pool(4), TARGETS, **options).picks)
    with fails("non-finite-draws", kind=FitError):
        anchors(fit, pool(4), {"margin": np.where(fit.draws["a"] > 1, np.nan, 0)}, **options)
    with fails("no-targets"):
        anchors(fit, pool(4), {}, **options)
    with fails("bad-weight", -1, "row 1"):
        anchors(fit, pool(4), TARGETS.assign(weight=-1), **options)
    with fails("no-weights"):
        anchors(fit, pool(4), TARGETS.assign(weight=0), **options)
    with fails("faulty-table", "column x"):
        anchors(fit, pool(4), TARGETS.rename(columns={"x": "y"}), **options)


@pytest.mark.slow
def test_replay_in_percent_and_shares_outside_0_to_1_are_refused() -> None:
    fit = typical_fit("ptpp-floor")
    frame = pd.DataFrame({"run": ["a", "b"], "N": 1e9, "D": 1e10, "ptpp": 31.0, "r": 0.25})
    target = pd.DataFrame({"N": [1e10], "D": [1e11], "ptpp": [100.0], "r": [0.25]})
    for r in (25.0, -0.1):
        with fails("faulty-table", f"{r:g}", "column r"):
            anchors(fit, frame.assign(r=r), target, budget=1e21)
        with fails("faulty-table", f"{r:g}", "column r"):
            anchors(fit, frame, target.assign(r=r), budget=1e21)


def test_at_the_base_checkpoint_a_run_may_have_no_or_another_share_of_replay() -> None:
    fit = typical_fit("transfer-source")
    frame = pd.DataFrame({"run": "a", "N": 1e8, "ptpp": 31.0, "D": [0.0, 1e9, 2e9], "r": [np.nan, 0.25, 0.25]})
    for order in ([0, 1, 2], [1, 0, 2]):
        for base in (np.nan, 0.0):
            rows = frame.assign(r=frame["r"].fillna(base)).iloc[order]
            assert read_candidates([(fit.law, fit.observed)], rows).size == 1
    for other in ({"r": [np.nan, 0.25, 0.5]}, {"N": [1e8, 2e8, 2e8]}, {"ptpp": [31.0, 62.0, 62.0]}):
        with fails("two-settings", "'a'", next(iter(other))):
            read_candidates([(fit.law, fit.observed)], frame.assign(**other))


@pytest.mark.slow
def test_an_unknown_noise_group_is_refused() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": np.tile(X, 2), "loss": 2.7, "run": np.repeat(list("pqrs"), 3), "lab": np.repeat(["ours", "theirs"], 6)}
    )
    draws = {name: rng.normal(1, 0.1, 2000) for name in "abc"}
    draws |= {f"{name}[{lab}]": np.full(2000, 0.01) for name in ("sigma_point", "sigma_run") for lab in ("ours", "theirs")}
    fit = fixed_fit(line(), table, draws, noise="normal", noise_by="lab")
    choice = anchors(fit, pool(4).assign(lab="ours"), TARGETS.assign(lab="theirs"), budget=20.0, cost="cost")
    assert len(choice.bought)
    with fails("unknown-group", "'nobody'", "ours", "theirs"):
        anchors(fit, pool(4).assign(lab="nobody"), TARGETS.assign(lab="ours"), budget=20.0, cost="cost")
    with fails("missing-column", "lab"):
        anchors(fit, pool(4), TARGETS.assign(lab="ours"), budget=20.0, cost="cost")
