"""Plans from draws that are given: against brute force, against closed forms, and what is said of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import BayeslawError
from bayeslaw.laws.card import load_law
from bayeslaw.planning.plan import Plan, held_out, plan, split
from bayeslaw.plots.decisions import plot_plan
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.posteriors import SOURCE, TARGET, posterior, scattered, source_fit, target_fit

MODEL = {"N": 8.1e9, "ptpp": 279.0}
PLACE = {"N": [8.1e9], "D": [8.9 * 8.1e9], "r": [0.34], "ptpp": [279.0]}
BASE = float(load_law("ptpp-floor").predict({k: [v] for k, v in SOURCE.items()}, PLACE)[0, 0]) / 1.02
LIMIT = float(load_law("ptpp-gate-floor").predict({k: [v] for k, v in TARGET.items()}, PLACE)[0, 0])
SIZE = 4000


@pytest.fixture(scope="module")
def source() -> Fit:
    return source_fit(SIZE)


@pytest.fixture(scope="module")
def target() -> Fit:
    return target_fit(SIZE)


def ask(source: Any, target: Any, **changed: Any) -> Plan:
    question: dict[str, Any] = {"on": "latent", "max_forgetting": "2%", "max_loss": LIMIT, "base_loss": BASE}
    return plan(source, target, MODEL, **(question | changed))


@pytest.fixture(scope="module")
def made(source: Fit, target: Fit) -> Plan:
    return ask(source, target)


def margins(made: Plan, draws: np.ndarray, tokens: np.ndarray, r: float) -> np.ndarray:
    """By the oracle's laws: whether both promises hold, (s, n)."""
    source, target = ({k: p.draws[k] for k in p.law.parameters} for p in (s.parts[0] for s in made.question.sides))
    x = {"N": 8.1e9, "D": tokens[None, :], "r": r, "ptpp": 279.0}
    lost = oracles.ptpp_floor({k: source[k][draws, None] for k in SOURCE}, x)
    aimed = oracles.ptpp_gate_floor({k: target[k][draws, None] for k in TARGET}, x)
    return np.asarray((lost <= 1.02 * BASE) & (aimed <= LIMIT))


def test_the_sweep_equals_brute_force_to_the_grid_step(made: Plan) -> None:
    """At the plan's replay the first point of a dense grid where enough draws hold is the one just above the plan."""
    step = 1e-3
    for row in made.frontier.to_dict("records"):
        needed = math.ceil(row["confidence"] * made.draws.size - 1e-9)
        grid = np.exp(np.log(row["tokens"]) + step * np.arange(-3000, 3))
        counts = margins(made, made.draws, grid, row["r"]).sum(axis=0)
        first = grid[(counts >= needed).argmax()]
        assert abs(math.log(first / row["tokens"])) <= step + 1e-9
        assert row["searched"] >= row["confidence"] - 1e-12


def test_no_replay_share_of_a_dense_grid_does_better(made: Plan) -> None:
    row = made.frontier[made.frontier["confidence"] == 0.9].iloc[0]
    needed = math.ceil(0.9 * made.draws.size)
    tokens = np.array([row["tokens"] * 0.995])
    counts = [margins(made, made.draws, tokens, r).sum() for r in np.linspace(0.01, 0.99, 197)]
    assert max(counts) < needed


def test_more_confidence_takes_no_fewer_tokens_and_95_differs_from_50(made: Plan) -> None:
    tokens = made.frontier["tokens"].to_numpy()
    assert (np.diff(tokens) >= 0).all()
    assert tokens[-1] > 1.5 * tokens[0]
    assert made.frontier["confidence"].tolist() == [0.5, 0.8, 0.9, 0.95]


def test_held_out_draws_are_others_and_agree(made: Plan) -> None:
    assert not set(made.draws) & set(made.held)
    for row in made.frontier.to_dict("records"):
        share = margins(made, made.held, np.array([row["tokens"]]), row["r"]).mean()
        assert row["held_out"] == pytest.approx(share, abs=1e-12)
        assert row["held_out"] >= row["confidence"] - 0.01 - 3 * row["held_out_se"]


def test_the_plan_without_uncertainty_has_both_promises_bind_and_keeps_them_seldom(made: Plan) -> None:
    assert made.deterministic is not None
    assert made.deterministic_by == "median losses"
    assert made.deterministic.atpp == pytest.approx(8.9, rel=0.1)
    assert made.deterministic.replay == pytest.approx(0.34, abs=0.02)
    assert 0.1 < made.deterministic.held_out < 0.4


def test_one_draw_gives_back_the_published_plan(source: Fit, target: Fit) -> None:
    """Scattered by nothing the posterior is a point, and every plan the deterministic one: 8.9 ATPP and 34%, as published."""
    point = [
        posterior(f.law, {k: np.full(SIZE, v) for k, v in values.items()}) for f, values in ((source, SOURCE), (target, TARGET))
    ]
    one = ask(*point, confidence=0.95, force=True)  # draws that never move have no R-hat
    assert one.best is not None
    assert one.best.atpp == pytest.approx(8.9, abs=0.03)
    assert one.best.replay == pytest.approx(0.34, abs=0.003)
    assert one.best.held_out == 1.0


def test_promises_on_the_next_run_cost_more(source: Fit, target: Fit, made: Plan) -> None:
    run = ask(source, target, on="run")
    assert run.best is not None
    assert made.best is not None
    assert run.best.tokens > 1.02 * made.best.tokens


def test_least_target_loss_under_a_budget(source: Fit, target: Fit, made: Plan) -> None:
    assert made.best is not None
    one = ask(source, target, minimise="target-loss", max_loss=None, max_tokens=made.best.tokens)
    assert one.best is not None
    # the other way round: under the plan's own budget the plan's own limit is the best that can be promised
    assert one.best.value == pytest.approx(LIMIT, rel=1e-3)
    assert one.best.tokens == pytest.approx(made.best.tokens, rel=0.01)
    assert "the plan uses the whole budget" in one.notes


def test_least_forgetting_at_a_limit_and_a_budget(source: Fit, target: Fit, made: Plan) -> None:
    assert made.best is not None
    one = ask(source, target, minimise="source-loss", max_forgetting=None, max_flops=6 * 8.1e9 * made.best.tokens)
    assert one.best is not None
    assert one.best.value == pytest.approx(0.02, abs=1e-3)


def test_money_for_new_tokens_prefers_replay(source: Fit, target: Fit, made: Plan) -> None:
    cheap = ask(source, target, minimise="cost", prices={"new-token": 1e-6, "replayed-token": 1e-9})
    assert cheap.best is not None
    assert made.best is not None
    assert cheap.best.replay > made.best.replay + 0.02
    assert cheap.best.cost < made.best.tokens * (1e-6 * (1 - made.best.replay) + 1e-9 * made.best.replay)
    assert cheap.best.cost == pytest.approx(cheap.best.tokens * (1e-6 * (1 - cheap.best.replay) + 1e-9 * cheap.best.replay))


def test_stages_with_frozen_parts_make_flops_cheaper(source: Fit, target: Fit, made: Plan) -> None:
    """Frozen weights cost 4 FLOPs per parameter and token: the plan is the same, its FLOPs and their price are two thirds."""
    staged = ask(source, target, stages="3e9:0", prices={"flop": 1e-18})
    assert staged.best is not None
    assert made.best is not None
    assert (staged.best.tokens, staged.best.replay) == (made.best.tokens, made.best.replay)
    assert staged.best.flops == pytest.approx(made.best.flops * 2 / 3)
    assert staged.best.cost == pytest.approx(staged.best.flops * 1e-18)
    whole = ask(source, target, max_flops=0.9 * made.best.flops)
    assert whole.best is None  # the budget of FLOPs is too small where all is trained
    assert ask(source, target, max_flops=0.9 * made.best.flops, stages="1:0").best is not None


def test_listed_tokens_and_replay_shares(source: Fit, target: Fit, made: Plan) -> None:
    assert made.best is not None
    one = ask(source, target, atpp="5,10,20,40", replay="0.25,0.5,0.75")
    assert one.best is not None
    assert one.best.atpp == pytest.approx(40) or one.best.atpp == pytest.approx(20)
    assert one.best.replay == 0.5
    assert one.best.tokens >= made.best.tokens
    fixed = ask(source, target, replay=0.5)
    assert fixed.best is not None
    assert fixed.best.replay == 0.5
    assert made.best.tokens <= fixed.best.tokens <= one.best.tokens


def test_least_replay_at_given_tokens(source: Fit, made: Plan) -> None:
    one = plan(source, None, MODEL, on="latent", max_forgetting="2%", base_loss=BASE, minimise="replay", atpp=20)
    assert one.best is not None
    tokens = np.array([20 * 8.1e9])
    shares = np.linspace(0.2, 0.6, 4001)
    x = {"N": 8.1e9, "D": tokens[None, :], "r": shares[None, :], "ptpp": 279.0}
    lost = oracles.ptpp_floor({k: source.draws[k][one.draws, None] for k in SOURCE}, x) <= 1.02 * BASE
    first = shares[(lost.mean(axis=0) >= 0.9).argmax()]
    assert one.best.replay == pytest.approx(first, abs=1.1e-4)
    row = one.losses.loc["replay that suffices, draw by draw"]
    assert row["eti90_lo"] < row["median"] < one.best.replay <= row["eti90_hi"] + 0.02


def test_least_replay_keeps_to_the_budget(source: Fit) -> None:
    """New tokens cost, replayed ones do not: money is a least replay share, promises another, and the plan takes the larger."""
    question: dict[str, Any] = {"on": "latent", "max_forgetting": "2%", "base_loss": BASE, "minimise": "replay", "atpp": 20}

    def least(most: float | None) -> Plan:
        return plan(source, None, MODEL, prices={"new-token": 1e-6}, max_cost=most, **question)

    free, ample, short = least(None).best, least(1e6).best, least(5e4)
    assert free is not None
    assert ample is not None
    assert short.best is not None
    assert ample.replay == pytest.approx(free.replay, abs=1e-8)
    assert short.best.replay == pytest.approx(1 - 5e4 / (20 * 8.1e9 * 1e-6), abs=1e-8)
    assert short.best.cost <= 5e4 * (1 + 1e-9)
    assert short.best.searched >= 0.9
    assert short.deterministic is not None
    assert short.deterministic.replay == pytest.approx(short.best.replay, abs=1e-8)
    none = least(20 * 8.1e9 * 1e-6 * 0.001)  # of a share so high that only its end is on the grid
    assert none.best is not None
    assert none.best.replay == pytest.approx(0.999, abs=1e-8)


def test_infeasible_is_an_answer(source: Fit, target: Fit) -> None:
    one = ask(source, target, max_forgetting="1%", atpp="1:15", confidence=0.9)
    assert one.best is None
    assert one.attainable is not None
    grid = np.exp(np.linspace(np.log(1), np.log(15), 60)) * 8.1e9
    limit = 1.01 * BASE
    best = 0.0
    source_draws, target_draws = source.draws, target.draws
    for r in np.linspace(0, 1, 51):
        x = {"N": 8.1e9, "D": grid[None, :], "r": r, "ptpp": 279.0}
        lost = oracles.ptpp_floor({k: source_draws[k][one.draws, None] for k in SOURCE}, x) <= limit
        aimed = oracles.ptpp_gate_floor({k: target_draws[k][one.draws, None] for k in TARGET}, x) <= LIMIT
        best = max(best, (lost & aimed).mean(axis=0).max())
    assert best - 0.002 <= one.attainable.searched <= best + 0.03
    assert one.frontier["plan"].eq("infeasible").any()
    assert any("no plan in the box" in n for n in one.notes)
    assert any(n.startswith("binding: ") for n in one.notes)
    assert set(one.margins) == {"forgetting of source", "target loss"}


def test_margins_are_in_the_order_of_their_own_fit(made: Plan, source: Fit, target: Fit) -> None:
    assert made.best is not None
    x = {"N": 8.1e9, "D": made.best.tokens, "r": made.best.replay, "ptpp": 279.0}
    lost = np.log(1.02 * BASE) - np.log(oracles.ptpp_floor(source.draws, x))
    aimed = np.log(LIMIT) - np.log(oracles.ptpp_gate_floor(target.draws, x))
    np.testing.assert_allclose(made.margins["forgetting of source"], lost, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made.margins["target loss"], aimed, rtol=1e-9, atol=1e-12)


def test_runs_that_would_make_the_promises_surer(source: Fit, target: Fit, made: Plan) -> None:
    """Margins leave out the next run's noise, of which no run tells; bought runs lower their variance."""
    noisy = ask(source, target, on="run", replay=made.best.replay if made.best else 0.5)
    names = list(noisy.margins)
    assert noisy.shown is not None
    x = {"N": 8.1e9, "D": noisy.shown.tokens, "r": noisy.shown.replay, "ptpp": 279.0}
    np.testing.assert_allclose(noisy.margins["target loss"], np.log(LIMIT / oracles.ptpp_gate_floor(target.draws, x)), atol=1e-12)
    sizes, shares = (241e6, 1.4e9), (0.1, 0.5)
    pool = pd.DataFrame(
        [{"run": f"{n:g}-{r:g}", "N": n, "r": r, "ptpp": 279.0, "D": a * n} for n in sizes for r in shares for a in (2.0, 20.0)]
    )
    bought = made.anchors(pool, budget=3e20, checkpoint_cost="0")
    assert bought.targets.names == tuple(names)
    assert len(bought.picks) >= 1
    assert (bought.picks["gain"] > 0).all()


@pytest.mark.parametrize("limit", ["30%", 0.8])
@pytest.mark.parametrize("changed", [{"on": "run"}, {"on": "latent", "discrepancy": 0.02}])
def test_margins_against_a_law_own_base_are_of_the_laws_alone(limit: Any, changed: dict[str, Any]) -> None:
    """Noise and a stated discrepancy are in the loss at the plan and, where the base is the law's, in the limit."""
    kept, adapted = (
        posterior(name, scattered(oracles.typical(load_law(name)), 2000, seed, 0.004), seed=seed)
        for name, seed in (("transfer-source", 1), ("transfer-target", 2))
    )
    model = {"N": 1e9, "ptpp": 31.0}
    question: dict[str, Any] = {"max_forgetting": limit, "max_loss": 2.6, "confidence": 0.5, "levels": (0.5,)}
    one = plan(kept, adapted, model, tokens=5e9, replay=0.3, **question, **changed)
    at = model | {"D": 5e9, "r": 0.3}
    base = oracles.transfer_source(kept.draws, at | {"D": 0.0})
    most = 1.3 * base if limit == "30%" else base + limit
    lost = np.log(most / oracles.transfer_source(kept.draws, at))
    np.testing.assert_allclose(one.margins["forgetting of source"], lost, rtol=1e-9, atol=1e-12)
    aimed = np.log(2.6 / oracles.transfer_target(adapted.draws, at))
    np.testing.assert_allclose(one.margins["target loss"], aimed, rtol=1e-9, atol=1e-12)


def test_one_fit_of_both_domains_keeps_its_draws_together() -> None:
    """Losses of one fit depend on each other: with E of both domains in step the promises hold together more often."""
    law = load_law("transfer-target")
    frame = pd.concat([oracles.table(law).assign(domain=d) for d in ("source", "target")])
    values = scattered(oracles.typical(law), 2000, 5, 0.004)
    common = 0.01 * np.random.default_rng(6).standard_normal(2000)
    values |= {"E": values["E"], "E_spread": np.full(2000, 0.1), "E_source": 1.5 + common, "E_target": 1.5 + common}
    joint = posterior(law, values, frame=frame, by={"E": "domain"})
    question: dict[str, Any] = {"on": "latent", "confidence": 0.5, "max_loss": 2.2, "max_forgetting": "-5%", "base_loss": 2.35}
    one = plan(joint, joint, {"N": 1e9, "ptpp": 31.0}, **question)
    assert [s.settings["domain"] for s in one.question.sides] == ["source", "target"]
    shown = one.shown
    assert shown is not None
    source, target = (
        np.exp(s.cube(np.arange(2000), np.log([shown.tokens]), np.array([shown.replay]))[:, 0, 0]) for s in one.question.sides
    )
    np.testing.assert_allclose(source, target, rtol=1e-12)


def test_several_sources_are_all_promised(source: Fit, target: Fit, made: Plan) -> None:
    worse = posterior("ptpp-floor", scattered(SOURCE | {"C": 0.12}, SIZE, 8, 0.006), seed=8)
    one = ask(
        {"web": source, "code": worse},
        target,
        max_forgetting={"web": "2%", "code": "3%"},
        base_loss={"web": BASE, "code": BASE * 1.01},
    )
    assert one.best is not None
    assert made.best is not None
    assert set(one.best.alone) == {"forgetting of web", "forgetting of code", "target loss"}
    assert one.best.tokens >= made.best.tokens * 0.99


def test_the_picture_shows_plan_landscape_and_probabilities(made: Plan) -> None:
    figure = Figure()
    for ax, of in zip(figure.subplots(1, 3), ("", *made.landscapes), strict=True):
        assert plot_plan(made, ax, of=of) is ax
        assert made.best is not None
        star = ax.get_lines()[0]
        assert star.get_marker() == "*"
        place = np.asarray(star.get_xydata()).ravel()
        np.testing.assert_allclose(place, [100 * made.best.replay, made.best.atpp])
        assert "probability that all constraints hold (latent)" in ax.get_title()
    with pytest.raises(BayeslawError, match="no landscape 'loss'"):
        plot_plan(made, figure.subplots(), of="loss")


def test_the_landscape_has_the_unit_of_the_losses(made: Plan) -> None:
    target = made.question.target
    assert target is not None
    assert isinstance(target.posterior, Fit)
    bytes_ = replace(target.posterior, observed=replace(target.posterior.observed, unit="bits/byte"))
    other = replace(made, question=replace(made.question, target=replace(target, posterior=bytes_)))
    for one, label in ((made, "target loss (nats/token), median"), (other, "target loss (bits/byte), median")):
        figure = Figure()
        plot_plan(one, figure.subplots(), of="target-loss")
        assert figure.axes[1].get_ylabel() == label


def in_bytes(fit: Fit) -> Fit:
    return replace(fit, observed=replace(fit.observed, unit="bits/byte"))


def test_a_plan_speaks_in_the_unit_of_the_losses(source: Fit, target: Fit) -> None:
    made = ask(in_bytes(source), in_bytes(target), max_forgetting=0.05, base_loss="1.56+-0.01")
    least = ask(in_bytes(source), in_bytes(target), minimise="target-loss", max_tokens=1e11, max_loss=None, max_forgetting="5%")
    told = [*made.lines(), *made.notes, *least.lines()]
    assert not [line for line in told if "nats" in line]
    for words in ("+0.05 bits/byte over its base", "target loss at most", "base loss of source 1.56 ± 0.01 bits/byte, as stated"):
        assert [line for line in told if words in line], words
    assert [line for line in least.lines() if line.startswith("plan: ") and " bits/byte; promised" in line]
    with pytest.raises(BayeslawError, match=r"above 0 and at 21\.6 bits/byte at most"):
        ask(in_bytes(source), in_bytes(target), base_loss=25.0)


def test_the_probability_of_a_place_is_the_share_of_draws_that_keep_all(made: Plan) -> None:
    tokens, shares = np.array([5e10, 2e11]), np.array([0.3, 0.5, 0.7])
    every = np.arange(SIZE)
    expected = [margins(made, every, tokens, r).mean(axis=0) for r in shares]
    np.testing.assert_allclose(made.probability(tokens, shares), expected, atol=1e-12)


def test_blocks_of_neighbours_are_searched_and_held_out() -> None:
    draws, held = split(4000)
    assert draws.size == held.size == 2000
    assert set(draws[:50]) == set(range(50))
    assert set(held[:50]) == set(range(50, 100))


def test_the_monte_carlo_error_knows_draws_that_go_together() -> None:
    rng = np.random.default_rng(0)
    alone = rng.random(2000) < 0.8
    together = np.repeat(rng.random(40) < 0.8, 50)
    assert held_out(alone)[1] == pytest.approx(math.sqrt(0.16 / 2000), rel=0.4)
    assert held_out(together)[1] > 4 * held_out(alone)[1]
