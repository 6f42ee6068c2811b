"""Plans from fixed draws, against brute force and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.inference.point import PointFit
from bayeslaw.planning.confidence import share_with_error
from bayeslaw.planning.plan import Plan, plan
from bayeslaw.plots.decisions import plot_plan
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import typical_fit
from tests.posteriors import BASE, LIMIT, MODEL, SOURCE, TARGET, best_of, law_named, posterior, scattered
from tests.values import present

SIZE = 2000
FIXED: dict[str, Any] = {"replay": 0.5, "levels": (0.9,)}  # a small problem


def solve(source: Any, target: Any, **changed: Any) -> Plan:
    problem: dict[str, Any] = {"on": "latent", "max_forgetting": "2%", "max_loss": LIMIT, "base_loss": BASE}
    return plan(source, target, MODEL, **(problem | changed))


@pytest.fixture(scope="module")
def whole(source: Fit, target: Fit) -> Plan:
    """Over all replay shares, at all levels."""
    return solve(source, target)


@pytest.fixture(scope="module")
def fixed(source: Fit, target: Fit) -> Plan:
    """At a fixed replay share and one level."""
    return solve(source, target, **FIXED)


def satisfied(result: Plan, draws: np.ndarray, tokens: np.ndarray, r: float) -> np.ndarray:
    """Whether both constraints hold by the oracle's laws, (s, n)."""
    source, target = (loss.member_draws[0].draws for loss in result.problem.losses)
    x = MODEL | {"D": tokens[None, :], "r": r}
    kept = oracles.ptpp_floor({k: source[k][draws, None] for k in SOURCE}, x) <= 1.02 * BASE
    return np.asarray(kept & (oracles.ptpp_gate_floor({k: target[k][draws, None] for k in TARGET}, x) <= LIMIT))


@pytest.mark.slow
def test_the_sweep_equals_brute_force_to_the_grid_step(whole: Plan) -> None:
    """At the plan's replay the first point of a dense grid where enough draws hold is the one just above the plan."""
    step = 1e-3
    for row in whole.frontier.to_dict("records"):
        needed = math.ceil(row["confidence"] * whole.draws.size - 1e-9)
        grid = np.exp(np.log(row["tokens"]) + step * np.arange(-600, 3))
        counts = satisfied(whole, whole.draws, grid, row["r"]).sum(axis=0)
        first = grid[(counts >= needed).argmax()]
        assert abs(math.log(first / row["tokens"])) <= step + 1e-9
        assert row["searched"] >= row["confidence"] - 1e-12


def test_no_replay_share_of_a_dense_grid_does_better(whole: Plan) -> None:
    row = whole.frontier[whole.frontier["confidence"] == 0.9].iloc[0]
    tokens = np.array([row["tokens"] * 0.995])
    counts = [satisfied(whole, whole.draws, tokens, r).sum() for r in np.linspace(0.01, 0.99, 99)]
    assert max(counts) < math.ceil(0.9 * whole.draws.size)


def test_more_confidence_takes_more_tokens(whole: Plan) -> None:
    tokens = whole.frontier["tokens"].to_numpy()
    assert (np.diff(tokens) >= 0).all()
    assert tokens[-1] > 1.5 * tokens[0]
    assert whole.frontier["confidence"].tolist() == [0.5, 0.8, 0.9, 0.95]


def test_held_out_draws_are_others_and_agree(whole: Plan) -> None:
    assert not set(whole.draws) & set(whole.held_out)
    for row in whole.frontier.to_dict("records"):
        share = satisfied(whole, whole.held_out, np.array([row["tokens"]]), row["r"]).mean()
        assert row["held_out"] == pytest.approx(share, abs=1e-12)
        assert row["held_out"] >= row["confidence"] - 0.01 - 3 * row["held_out_se"]


def test_blocks_of_neighbours_are_searched_and_held_out(whole: Plan) -> None:
    assert whole.draws.size == whole.held_out.size == SIZE // 2
    assert set(whole.draws[:50]) == set(range(50))
    assert set(whole.held_out[:50]) == set(range(50, 100))


def test_the_monte_carlo_error_is_larger_for_draws_that_depend_on_each_other() -> None:
    rng, one_fit = np.random.default_rng(0), np.zeros(2000, dtype=np.int64)
    independent = rng.random(2000) < 0.8
    in_blocks = np.repeat(rng.random(40) < 0.8, 50)
    assert share_with_error(independent, one_fit)[1] == pytest.approx(math.sqrt(0.16 / 2000), rel=0.4)
    assert share_with_error(in_blocks, one_fit)[1] > 4 * share_with_error(independent, one_fit)[1]


def test_what_the_laws_of_a_stack_differ_by_is_no_monte_carlo_error() -> None:
    """The numbers of their draws are fixed, so that only the draws of each law scatter."""
    rng, of_law = np.random.default_rng(0), np.repeat([0, 1], 1000)
    sampled = rng.random((300, 2000)) < np.array([0.99, 0.6])[of_law]
    errors = [share_with_error(satisfied, of_law)[1] for satisfied in sampled]
    assert sampled.mean(axis=1).std() < np.median(errors) < 1.5 * sampled.mean(axis=1).std()
    assert share_with_error(sampled[0], np.zeros_like(of_law))[1] > 3 * errors[0]


def test_the_deterministic_plan_has_two_active_constraints_and_seldom_satisfies_both(whole: Plan) -> None:
    plug_in = present(whole.deterministic)
    assert whole.deterministic_by == "median losses"
    for draws, share in ((whole.draws, plug_in.searched), (whole.held_out, plug_in.held_out)):
        assert share == pytest.approx(satisfied(whole, draws, np.array([plug_in.tokens]), plug_in.replay).mean(), abs=1e-12)
    assert plug_in.atpp == pytest.approx(8.9, rel=0.1)
    assert plug_in.replay == pytest.approx(0.34, abs=0.02)
    assert 0.1 < plug_in.held_out < 0.4


@pytest.mark.slow
def test_one_draw_gives_back_the_published_plan() -> None:
    """Without scatter the posterior is a point, and every plan the published one: 8.9 tokens per parameter and 34% replay."""
    fits = [
        posterior(name, {k: np.full(SIZE, v) for k, v in values.items()})
        for name, values in (("ptpp-floor", SOURCE), ("ptpp-gate-floor", TARGET))
    ]
    best = best_of(solve(*fits, levels=(0.9,), force=True))  # draws that never move have no R-hat
    assert best.atpp == pytest.approx(8.9, abs=0.03)
    assert best.replay == pytest.approx(0.34, abs=0.003)
    assert best.held_out == 1.0


@pytest.mark.slow
def test_point_fits_give_the_deterministic_plan_in_place_of_medians(source: Fit, target: Fit) -> None:
    points = [
        PointFit(fit.law, values, 0.0, 1e-3, pd.DataFrame(), fit.observed, np.zeros(len(values)))
        for fit, values in ((source, SOURCE), (target, TARGET))
    ]
    result = solve(source, target, points=tuple(points), replay=0.34, levels=(0.9,))
    assert result.deterministic_by == "point fits"
    assert present(result.deterministic).atpp == pytest.approx(8.9, abs=0.03)
    with fails("point-fits-of-other-domains"):
        solve(source, target, points=(points[0], None), **FIXED)
    with fails("not-a-pair-of-point-fits", "PointFit of"):
        solve(source, target, points=points[1], **FIXED)


def test_posteriors_are_no_point_fits(source: Fit, target: Fit) -> None:
    """The first of their draws was taken for the point fit."""
    with fails("not-a-pair-of-point-fits", "(Fit, Fit)", "bayeslaw.point_fit"):
        solve(source, target, points=(source, target), **FIXED)


def test_the_frontier_may_have_one_more_confidence(source: Fit, target: Fit) -> None:
    one, listed = (solve(source, target, **FIXED | {"levels": levels}) for levels in (0.5, [0.5]))
    pd.testing.assert_frame_equal(one.frontier, listed.frontier)


@pytest.mark.slow
def test_constraints_on_the_next_run_cost_more_tokens(source: Fit, target: Fit, fixed: Plan) -> None:
    run = solve(source, target, on="run", **FIXED)
    assert best_of(run).tokens > 1.02 * best_of(fixed).tokens


@pytest.mark.slow
def test_the_least_target_loss_under_the_budget_of_a_plan_is_its_limit(source: Fit, target: Fit, fixed: Plan) -> None:
    result = solve(source, target, minimise="target-loss", max_loss=None, max_tokens=best_of(fixed).tokens, **FIXED)
    assert best_of(result).value == pytest.approx(LIMIT, rel=1e-3)
    assert best_of(result).tokens == pytest.approx(best_of(fixed).tokens, rel=0.01)
    assert "the plan uses the whole budget" in result.notes


@pytest.mark.slow
def test_the_least_forgetting_under_the_budget_of_a_plan_is_its_limit(source: Fit, target: Fit, fixed: Plan) -> None:
    most = 6 * 8.1e9 * best_of(fixed).tokens
    result = solve(source, target, minimise="source-loss", max_forgetting=None, max_flops=most, **FIXED)
    assert best_of(result).value == pytest.approx(0.02, abs=1e-3)


@pytest.mark.slow
def test_money_for_new_tokens_prefers_replay(source: Fit, target: Fit, whole: Plan) -> None:
    best = best_of(whole)
    shares = [best.replay, best.replay + 0.05]
    prices = {"new-token": 1e-6, "replayed-token": 1e-9}
    cheap = best_of(solve(source, target, minimise="cost", prices=prices, replay=shares, levels=(0.9,)))
    assert cheap.replay == shares[1]
    assert cheap.cost < best.tokens * (1e-6 * (1 - best.replay) + 1e-9 * best.replay)
    assert cheap.cost == pytest.approx(cheap.tokens * (1e-6 * (1 - cheap.replay) + 1e-9 * cheap.replay))


@pytest.mark.slow
def test_where_replayed_tokens_cost_nothing_the_cheapest_plan_costs_nothing(source: Fit, target: Fit) -> None:
    """It has the fewest tokens of those that cost nothing, as with a price of replayed tokens that is almost 0."""
    free, almost = (
        best_of(solve(source, target, minimise="cost", prices={"new-token": 1e-6} | more, levels=(0.9,)))
        for more in ({}, {"replayed-token": 1e-13})
    )
    assert (free.replay, free.cost) == (1.0, 0.0)
    assert (free.tokens, free.held_out) == (almost.tokens, almost.held_out)


@pytest.mark.slow
def test_frozen_parts_make_flops_cheaper(source: Fit, target: Fit, fixed: Plan) -> None:
    """Frozen weights cost 4 FLOPs per parameter and token: the plan is the same, its FLOPs and their price are two thirds."""
    budget = 0.9 * best_of(fixed).flops
    staged = best_of(solve(source, target, stages="3e9:0", prices={"flop": 1e-18}, max_flops=budget, **FIXED))
    assert staged.tokens == best_of(fixed).tokens
    assert staged.flops == pytest.approx(best_of(fixed).flops * 2 / 3)
    assert staged.cost == pytest.approx(staged.flops * 1e-18)


@pytest.mark.slow
def test_listed_tokens_and_replay_shares(source: Fit, target: Fit, fixed: Plan) -> None:
    listed = best_of(solve(source, target, atpp="5,10,20,40", replay="0.25,0.5,0.75", levels=(0.9,)))
    assert listed.atpp == pytest.approx(40) or listed.atpp == pytest.approx(20)
    assert listed.replay == best_of(fixed).replay == 0.5
    assert listed.tokens >= best_of(fixed).tokens


def least_replay(source: Fit, **changed: Any) -> Plan:
    return plan(
        source, None, MODEL, on="latent", max_forgetting="2%", base_loss=BASE, minimise="replay", atpp=20, levels=(0.9,), **changed
    )


@pytest.mark.slow
def test_least_replay_at_given_tokens(source: Fit) -> None:
    result = least_replay(source)
    shares = np.linspace(0.2, 0.6, 4001)
    x = MODEL | {"D": 20 * 8.1e9, "r": shares[None, :]}
    kept = oracles.ptpp_floor({k: source.draws[k][result.draws, None] for k in SOURCE}, x) <= 1.02 * BASE
    first = shares[(kept.mean(axis=0) >= 0.9).argmax()]
    assert best_of(result).replay == pytest.approx(first, abs=1.1e-4)
    row = result.losses.loc["replay that suffices, draw by draw"]
    assert row["eti90_lb"] < row["median"] < best_of(result).replay <= row["eti90_ub"] + 0.02
    listed = best_of(least_replay(source, replay=[0.2, first - 0.01, first + 0.01]))
    assert listed.replay == first + 0.01


@pytest.mark.slow
def test_least_replay_keeps_to_the_budget(source: Fit) -> None:
    """With new tokens at a price, the budget and forgetting each need a least replay share, and the plan takes the larger."""
    price = 20 * 8.1e9 * 1e-6
    ample, short, tiny = (least_replay(source, prices={"new-token": 1e-6}, max_cost=most) for most in (1e6, 5e4, price * 0.001))
    assert best_of(ample).replay < best_of(short).replay
    assert best_of(short).replay == pytest.approx(1 - 5e4 / price, abs=1e-8)
    assert best_of(short).cost <= 5e4 * (1 + 1e-9)
    assert best_of(short).searched >= 0.9
    assert present(short.deterministic).replay == pytest.approx(best_of(short).replay, abs=1e-8)
    assert best_of(tiny).replay == pytest.approx(0.999, abs=1e-8)  # only the end of the grid lies within this budget
    # Of an uncertain price 90% of the draws lie below some amount, and the budget pays for as many new tokens at that.
    uncertain = least_replay(source, prices={"new-token": "1e-7:1e-6:90%"}, max_cost=price * 0.001)
    dear = np.partition(uncertain.problem.prices.new[uncertain.draws], 899)[899]
    assert best_of(uncertain).replay == pytest.approx(1 - 1e-9 / dear, abs=1e-8)


@pytest.mark.slow
def test_an_infeasible_plan_shows_the_highest_attainable_confidence(source: Fit, target: Fit) -> None:
    shares = np.linspace(0, 1, 9)
    result = solve(source, target, max_forgetting="1%", atpp="1:15", replay=shares, levels=(0.9,))
    assert result.best is None
    grid = np.exp(np.linspace(np.log(1), np.log(15), 60)) * 8.1e9
    best = 0.0
    for r in shares:
        x = MODEL | {"D": grid[None, :], "r": r}
        kept = oracles.ptpp_floor({k: source.draws[k][result.draws, None] for k in SOURCE}, x) <= 1.01 * BASE
        aimed = oracles.ptpp_gate_floor({k: target.draws[k][result.draws, None] for k in TARGET}, x) <= LIMIT
        best = max(best, (kept & aimed).mean(axis=0).max())
    assert best - 0.002 <= present(result.attainable).searched <= best + 0.03
    assert result.frontier["plan"].eq("infeasible").any()
    assert any(note.startswith(f"active constraint: {present(result.attainable).active}") for note in result.notes)
    assert set(result.margins) == {"forgetting of source", "target loss"}


def test_margins_are_in_the_order_of_their_own_fit(fixed: Plan, source: Fit, target: Fit) -> None:
    x = MODEL | {"D": best_of(fixed).tokens, "r": best_of(fixed).replay}
    kept = np.log(1.02 * BASE) - np.log(oracles.ptpp_floor(source.draws, x))
    aimed = np.log(LIMIT) - np.log(oracles.ptpp_gate_floor(target.draws, x))
    np.testing.assert_allclose(fixed.margins["forgetting of source"], kept, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fixed.margins["target loss"], aimed, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_anchors_are_chosen_for_the_margins(fixed: Plan) -> None:
    pool = pd.DataFrame(
        [
            {"run": f"{n:g}-{r:g}", "N": n, "r": r, "ptpp": 279.0, "D": a * n}
            for n in (241e6, 1.4e9)
            for r in (0.1, 0.5)
            for a in (2.0, 20.0)
        ]
    )
    anchors = fixed.anchors(pool, budget=3e20, checkpoint_cost="0")
    assert len(anchors.picks) >= 1
    assert (anchors.picks["gain"] > 0).all()


def test_a_plan_that_limits_no_loss_has_no_margins(adapted: Fit) -> None:
    unlimited = plan(None, adapted, {"N": 1e9, "ptpp": 31.0}, on="latent", minimise="target-loss", tokens="1e9:1e10", replay=0.1)
    with fails("no-margins", "limits no loss"):
        unlimited.anchors(pd.DataFrame(), budget=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "changed"), [("30%", {"on": "run"}), (0.8, {"on": "latent", "discrepancy": "2%"})])
def test_margins_against_the_base_loss_of_the_law_are_of_the_laws_alone(
    kept: Fit, adapted: Fit, limit: Any, changed: dict[str, Any]
) -> None:
    """They are without the noise and the stated discrepancy of the loss at the plan and of the base loss."""
    model = {"N": 1e9, "ptpp": 31.0}
    constraints: dict[str, Any] = {"max_forgetting": limit, "max_loss": 2.6, "confidence": 0.5, "levels": (0.5,)}
    result = plan(kept, adapted, model, tokens=5e9, replay=0.3, **constraints, **changed)
    at = model | {"D": 5e9, "r": 0.3}
    base = oracles.transfer_source(kept.draws, at | {"D": 0.0})
    most = 1.3 * base if limit == "30%" else base + limit
    forgetting = np.log(most / oracles.transfer_source(kept.draws, at))
    np.testing.assert_allclose(result.margins["forgetting of source"], forgetting, rtol=1e-9, atol=1e-12)
    aimed = np.log(2.6 / oracles.transfer_target(adapted.draws, at))
    np.testing.assert_allclose(result.margins["target loss"], aimed, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_one_fit_of_both_domains_keeps_its_draws_together() -> None:
    """Both domains have the same E in each draw here, so their losses at the plan are the same in each draw."""
    law = law_named("transfer-target")
    frame = pd.concat([oracles.table(law).assign(domain=d) for d in ("source", "target")])
    values = scattered(oracles.typical(law), SIZE, 5, 0.004)
    common = 0.01 * np.random.default_rng(6).standard_normal(SIZE)
    values |= {"E": values["E"], "E_spread": np.full(SIZE, 0.1), "E_source": 1.5 + common, "E_target": 1.5 + common}
    joint = posterior(law, values, frame=frame, by={"E": "domain"})
    constraints: dict[str, Any] = {"confidence": 0.5, "max_loss": 2.2, "max_forgetting": "-5%", "base_loss": 2.35}
    result = plan(joint, joint, {"N": 1e9, "ptpp": 31.0}, on="latent", **constraints, **FIXED)
    assert [loss.settings["domain"] for loss in result.problem.losses] == ["source", "target"]
    x, r = np.log([present(result.shown).tokens]), np.array([[present(result.shown).replay]])
    source, target = (loss.values(np.arange(SIZE), x, r, 2) for loss in result.problem.losses)
    np.testing.assert_allclose(source, target, rtol=1e-12)


@pytest.mark.slow
def test_several_sources_have_a_constraint_each(source: Fit, target: Fit, fixed: Plan) -> None:
    worse = posterior("ptpp-floor", scattered(SOURCE | {"C": 0.12}, SIZE, 8, 0.006), seed=8)
    limits: dict[str, Any] = {"max_forgetting": {"web": "2%", "code": "3%"}, "base_loss": {"web": BASE, "code": BASE * 1.01}}
    result = solve({"web": source, "code": worse}, target, **limits, **FIXED)
    assert set(best_of(result).by_constraint) == {"forgetting of web", "forgetting of code", "target loss"}
    assert best_of(result).tokens >= best_of(fixed).tokens * 0.99


def test_the_probability_of_a_place_is_the_share_of_draws_that_satisfy_every_constraint(whole: Plan) -> None:
    tokens, shares = np.array([5e10, 2e11]), np.array([0.3, 0.5, 0.7])
    expected = [satisfied(whole, np.arange(SIZE), tokens, r).mean(axis=0) for r in shares]
    np.testing.assert_allclose(whole.probability(tokens, shares), expected, atol=1e-12)


@pytest.mark.slow
def test_the_picture_shows_the_plan_over_a_landscape(whole: Plan) -> None:
    axes = Figure().subplots()
    assert whole.landscapes == ("forgetting", "target-loss")
    assert plot_plan(whole, axes, of="forgetting") is axes
    named = [label for label in axes.get_legend_handles_labels()[1] if label.startswith("probability ")]
    assert named == [f"probability {level:.0%}" for level in (0.5, 0.8, 0.9, 0.95)]
    (star,) = [line for line in axes.get_lines() if line.get_marker() == "*"]
    np.testing.assert_allclose(np.asarray(star.get_xydata()).ravel(), [100 * best_of(whole).replay, best_of(whole).atpp])
    axes.clear()
    plot_plan(whole, axes, levels=[0.35])
    assert "probability 35%" in axes.get_legend_handles_labels()[1]
    with fails("unknown-landscape", "'loss'", "forgetting, target-loss"):
        plot_plan(whole, axes, of="loss")


@pytest.mark.slow
def test_the_ground_outside_the_runs_is_hatched(whole: Plan) -> None:
    axes = Figure().subplots()
    plot_plan(whole, axes)
    runs = [fit.observed.covariates for loss in whole.problem.losses for fit, _ in loss.posterior.selections]
    replay, tokens = ((max(of[name].min() for of in runs), min(of[name].max() for of in runs)) for name in ("r", "D"))
    r, d = np.meshgrid(np.linspace(0.003, 0.997, 40), np.geomspace(*axes.get_ylim(), 42)[1:-1])
    marked = np.zeros(r.shape, dtype=bool)
    for patch in axes.patches:
        (left, bottom), (right, top) = patch.get_extents().transformed(axes.transData.inverted()).get_points()
        marked |= (100 * r >= left) & (100 * r <= right) & (d >= bottom) & (d <= top)
    of_model = d * whole.problem.n
    outside = (r < replay[0]) | (r > replay[1]) | (of_model < tokens[0]) | (of_model > tokens[1])
    assert 0 < outside.sum() < outside.size
    np.testing.assert_array_equal(marked, outside)
    assert {patch.get_hatch() for patch in axes.patches} == {"//"}
    assert "hatched: outside the runs" in present(axes.get_legend()).get_title().get_text()


def in_bytes(fit: Fit) -> Fit:
    return replace(fit, observed=replace(fit.observed, unit="bits/byte"))


def test_the_words_of_a_plan(whole: Plan) -> None:
    head, best, plug_in = whole.lines()
    assert head == (
        "N = 8.1e+09, ptpp = 279: loss of source rises by at most +2% over its base; "
        f"target loss at most {LIMIT:g} nats/token; on the laws' expected losses"
    )
    assert best.startswith("plan: ATPP ")
    assert "confidence 0.9, constraints hold in 0." in best
    assert all("(Monte Carlo standard error 0.0" in line and "±" not in line for line in (best, plug_in))
    assert plug_in.startswith("deterministic (plug-in) plan, by median losses: ATPP ")


@pytest.mark.slow
def test_a_plan_speaks_in_the_unit_of_the_losses(source: Fit, target: Fit) -> None:
    fits = in_bytes(source), in_bytes(target)
    result = solve(*fits, max_forgetting=0.05, base_loss="1.56+-0.01", **FIXED)
    least = solve(*fits, minimise="target-loss", max_tokens=1e11, max_loss=None, max_forgetting="5%", **FIXED)
    lines = [*result.lines(), *result.notes, *least.lines()]
    assert not [line for line in lines if "nats" in line]
    assert [line for line in least.lines() if line.startswith("plan: ") and " bits/byte; " in line]
    with fails("impossible-base-loss", "21.6 bits/byte"):
        solve(*fits, base_loss=25.0)


def test_laws_of_one_mixture_keep_it() -> None:
    fits = {name: typical_fit(name, size=SIZE) for name in ("forgetting", "fine-tuning")}
    limits: dict[str, Any] = {"max_forgetting": "300%", "max_loss": 2.6, "on": "latent", "base_loss": 2.0}
    chosen = plan(fits["forgetting"], fits["fine-tuning"], {}, **limits)
    assert "the plan keeps the mixture of the runs: a replay share is unknown to forgetting and fine-tuning" in " ".join(
        chosen.notes
    )
    with fails("law-without-replay", "forgetting", "--replay"):
        plan(fits["forgetting"], fits["fine-tuning"], {}, replay="0.1:0.5", **limits)
