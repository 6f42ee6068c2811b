"""Problems that a plan refuses, and warnings of a plan."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import FitError
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import parse_card
from bayeslaw.planning.domain_loss import domain_loss
from bayeslaw.planning.plan import plan
from bayeslaw.planning.prices import Prices
from bayeslaw.planning.problem import ForgettingLimit, box_of
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.posteriors import BASE, LIMIT, MODEL, SOURCE, TARGET, best_of, law_named, learning, posterior, scattered

SIZE = 2000
PROBLEM: dict[str, Any] = {
    "on": "latent", "max_forgetting": "2%", "max_loss": LIMIT, "base_loss": BASE, "levels": (0.9,), "replay": 0.5,
}  # fmt: skip
SMALL = {"N": 1e9, "ptpp": 31.0}  # a model for the laws of transfer


@pytest.mark.parametrize(
    ("changed", "code", "named"),
    [
        ({"confidence": 90}, "no-probability", ["0.9 for 90%"]),
        ({"confidence": "90%"}, "not-a-number", ["'90%'"]),
        ({"confidence": None}, "not-a-number", ["None"]),
        ({"levels": "0.5"}, "not-numbers", ["levels", "'0.5'"]),
        ({"levels": None}, "not-numbers", ["levels", "None"]),
        ({"levels": 90}, "no-probability", ["0.9 for 90%"]),
        ({"points": 3}, "not-a-pair-of-point-fits", ["(source, target)", "not 3"]),
        ({"points": (None,)}, "not-a-pair-of-point-fits", ["(None,)"]),
        ({"points": (3, None)}, "not-a-pair-of-point-fits", ["(int, NoneType)"]),
        ({"levels": (0.5, 0.999)}, "confidence-not-resolved", ["0.999", "1,000", "0.99"]),
        ({"max_forgetting": "-100%"}, "impossible-forgetting", ["-100%"]),
        ({"max_forgetting": -2.0}, "impossible-forgetting", ["-2 nats/token", "1.548"]),
        ({"max_forgetting": 2}, "forgetting-not-percent", ["2 nats/token", "1.548", "Write 2%"]),
        ({"max_forgetting": "two"}, "unreadable-forgetting", ["'two'"]),
        ({"max_forgetting": {"web": "2%"}}, "unknown-source", ["'web'", "source"]),
        ({"max_loss": 0.5}, "unreachable-loss", ["0.5 nats/token", "ptpp-gate-floor"]),
        ({"on": "next"}, "unknown-spread", ["'next'"]),
        ({"minimise": "time"}, "unknown-objective", ["'time'", "target-loss"]),
        ({"replay": "0:34"}, "replay-not-a-share", ["0.34 for 34%"]),
        ({"atpp": "20:1"}, "unreadable-range", ["ATPP '20:1'"]),
        ({"replay": "25%"}, "unreadable-range", ["replay '25%'", "Write 0.25 for 25%."]),
        ({"atpp": "0:20"}, "no-tokens", ["0"]),
        ({"atpp": "1:20", "tokens": "1e9:1e10"}, "atpp-and-tokens", []),
        ({"max_tokens": 0}, "limit-not-positive", ["max-tokens", "0"]),
        ({"max_tokens": 1e6}, "budget-too-small", ["1e+06"]),
        ({"max_cost": 5.0}, "missing-price", []),
        ({"minimise": "cost"}, "missing-price", []),
        ({"prices": {"gpu": 1.0}}, "unknown-price", ["'gpu'", "flop, served-flop, hour, served-hour, new-token, replayed-token"]),
        ({"prices": {"flop": -1.0}}, "unusable-price", ["flop", "-1.0"]),
        ({"minimise": "replay"}, "tokens-not-fixed", []),
        ({"max_loss": None, "max_forgetting": None}, "no-constraint", []),
        ({"base_loss": None}, "unknown-base-loss", ["source", "ptpp-floor", "N = 8.1e+09, ptpp = 279"]),
        ({"base_loss": "law"}, "infinite-base-loss", ["ptpp-floor", "source"]),
        ({"base_loss": "2,3"}, "unreadable-base-loss", ["'2,3'"]),
        ({"base_loss": 25.0}, "impossible-base-loss", ["15 nats/token", "25.0"]),
        ({"seed": -1}, "not-a-whole-number", ["seed", "-1"]),
    ],
)  # fmt: skip
def test_a_problem_that_can_not_be_used_is_refused(
    source: Fit, target: Fit, changed: dict[str, Any], code: str, named: list[str]
) -> None:
    with fails(code, *named):
        plan(source, target, MODEL, **(PROBLEM | changed))


@pytest.mark.parametrize(
    ("model", "code", "named"),
    [
        ({"N": 0, "ptpp": 279}, "setting-not-positive", ["N", "0"]),
        ({"N": 8.1, "ptpp": 279}, "out-of-support", ["N 8.1", "ptpp-floor (source)"]),
        ({"N": 8.1e9}, "missing-setting", ["ptpp"]),
        ({"N": 8.1e9, "ptpp": 279, "D": 1e9}, "setting-chosen-by-plan", ["D", "--tokens 1e9:1e11", "tokens='1e9:1e11'"]),
        ({"N": 8.1e9, "ptpp": 279, "r": 0.1}, "setting-chosen-by-plan", ["r", "--replay 0.25", "replay=0.25"]),
        ({"N": 8.1e9, "pttp": 279}, "unknown-setting", ["'pttp'", "'ptpp'"]),
        ({"N": 8.1e9, "ptpp": "15:279"}, "setting-not-a-number", ["'15:279'"]),
        ({"N": 8.1, "ptpp": 279}, "out-of-support", ["in billions? Give the number"]),
        ({"N": 8.1e9, "ptpp": "10%"}, "setting-not-a-number", ["Write 0.1 for 10%."]),
    ],
)
def test_a_model_that_can_not_be_planned_for_is_refused(
    source: Fit, target: Fit, model: dict[str, Any], code: str, named: list[str]
) -> None:
    with fails(code, *named):
        plan(source, target, model, **PROBLEM)


@pytest.mark.parametrize(
    ("minimise", "limits", "code"),
    [
        ("tokens", {"max_loss": 1.8}, "missing-fit"),
        ("target-loss", {"max_forgetting": "2%"}, "missing-fit"),
        ("flops", {"max_forgetting": "2%"}, "missing-parameter-count"),
    ],
)
def test_an_objective_needs_its_fit_and_the_number_of_parameters(
    source: Fit, minimise: str, limits: dict[str, Any], code: str
) -> None:
    with fails(code):
        plan(source, None, {"ptpp": 279}, on="latent", minimise=minimise, base_loss=BASE, tokens=1e10, **limits)


@pytest.mark.parametrize(
    ("there", "given"),
    [
        ("target", {"base_loss": BASE}),
        ("target", {"max_forgetting": {"web": "2%"}}),
        ("target", {"source_levels": {"domain": "web"}}),
        ("source", {"target_levels": {"domain": "web"}}),
    ],
)
def test_what_is_said_of_a_domain_needs_its_fit(source: Fit, target: Fit, there: str, given: dict[str, Any]) -> None:
    limits: dict[str, Any] = {"max_loss": LIMIT} if there == "target" else {"max_forgetting": "2%", "base_loss": BASE}
    with fails("missing-fit", *(name.replace("max_", "max-") for name in given)):
        plan(source if there == "source" else None, target if there == "target" else None, MODEL, on="latent", **limits, **given)


def test_limits_of_forgetting_are_of_the_loss_in_every_draw() -> None:
    base = np.log([2.0, 2.5, 4.0])
    np.testing.assert_allclose(np.exp(ForgettingLimit.of("2%", "nats").log_limit(base)), [2.04, 2.55, 4.08])
    assert ForgettingLimit.of("2%", "nats").text(base) == "+2%"
    assert ForgettingLimit.of(0.02, "nats").text(base) == "+0.02 nats (+0.8%)"  # of the median base, 2.5
    np.testing.assert_allclose(np.exp(ForgettingLimit.of(0.05, "nats").log_limit(base)), [2.05, 2.55, 4.05])
    np.testing.assert_allclose(np.exp(ForgettingLimit.of(1.25, "nats").log_limit(base)), [3.25, 3.75, 5.25])  # half the median base
    with fails("forgetting-not-percent", "1.26"):
        ForgettingLimit.of(1.26, "nats").log_limit(base)
    with fails("impossible-forgetting", "-2.2"):
        ForgettingLimit.of(-2.2, "nats").log_limit(base)


def test_tokens_without_limits_are_ten_times_fewer_to_ten_times_more_per_parameter_than_logged(source: Fit) -> None:
    logged = source.observed.covariates
    ratio, size = logged["D"] / logged["N"], 2e8
    box = box_of([source], size, replay=None, atpp=None, tokens=None, budget=lambda r: math.inf)
    assert np.exp([box.low, box.high]) == pytest.approx([ratio.min() / 10 * size, 10 * ratio.max() * size])
    assert box.replay == (0.0, 1.0)
    huge = box_of([source], 1e13, replay=None, atpp=None, tokens=None, budget=lambda r: math.inf)
    assert np.exp(huge.high) == pytest.approx(1e15)  # where the law ends


def test_too_few_or_unpaired_draws_are_refused(target: Fit) -> None:
    few, more = (posterior("ptpp-floor", scattered(SOURCE, size, 1), seed=1) for size in (1996, 2400))
    with fails("too-few-draws", "2,000", "ptpp-floor", "1,996"):
        plan(few, target, MODEL, **PROBLEM)
    with fails("unpaired-draws", "source 2,400", "target 2,000"):
        plan(more, target, MODEL, **PROBLEM)


@pytest.mark.slow
def test_draws_of_every_law_of_a_stack_meet_those_of_every_law_of_another(source: Fit, target: Fit) -> None:
    sources = Stack.of({"a": source, "b": source}, {"a": 0.5, "b": 0.5})
    targets = Stack.of({"c": target, "d": target}, {"c": 0.5, "d": 0.5})
    result = plan(sources, targets, MODEL, **PROBLEM)
    counts = [[chosen.size for _, chosen in loss.posterior.selections] for loss in result.problem.losses]
    assert counts[0] == [SIZE // 2] * 2
    laws = [np.repeat(np.arange(len(sizes)) % 2, sizes) for sizes in counts]
    together = np.bincount(2 * laws[0] + laws[1], minlength=4)
    np.testing.assert_allclose(together, SIZE / 4, atol=2)
    alone = plan(source, target, MODEL, **PROBLEM)
    assert best_of(result).tokens == pytest.approx(best_of(alone).tokens, rel=0.05)  # the same posteriors, paired otherwise


@pytest.mark.slow
def test_a_stack_of_two_laws_takes_draws_of_each(source: Fit, target: Fit) -> None:
    worse = posterior("ptpp-floor", scattered(SOURCE | {"C": 0.12}, SIZE, 8, 0.006), seed=8)
    result = plan(Stack.of({"a": source, "b": worse}, {"a": 0.5, "b": 0.5}), target, MODEL, **PROBLEM)
    loss, x = result.problem.losses[0], np.log(1e11)
    place = {"N": 8.1e9, "D": 1e11, "r": 0.5, "ptpp": 279.0}
    chosen = [fit.draws for fit in (source, worse)]
    expected = [oracles.ptpp_floor({k: d[k][1::2] for k in SOURCE}, place) for d in chosen]
    draws = np.arange(SIZE)
    np.testing.assert_allclose(np.exp(loss.values(draws, np.full(SIZE, x), 0.5, 0)), np.concatenate(expected), rtol=1e-12)
    np.testing.assert_allclose(np.exp(loss.values(draws, np.array([x]), np.array([[0.5]]), 2))[:, 0, 0], np.concatenate(expected))


def test_draws_that_are_not_finite_are_refused(target: Fit) -> None:
    draws = scattered(SOURCE, SIZE, 1)
    draws["B"][7] = np.nan
    with fails("draws-not-finite", "draws of B in ptpp-floor (source)", kind=FitError):
        plan(posterior("ptpp-floor", draws), target, MODEL, **PROBLEM)


@pytest.mark.slow
def test_a_fit_whose_checks_failed_is_refused_or_its_plan_marked(source: Fit, target: Fit) -> None:
    failed = replace(source, checks=(Check("r_hat", False, "largest R-hat 1.2", "sampling", pd.DataFrame()),))
    with fails("failed-checks", "ptpp-floor", "largest R-hat 1.2", kind=FitError):
        plan(failed, target, MODEL, **PROBLEM)
    forced = plan(failed, target, MODEL, **PROBLEM, force=True)
    assert forced.forced
    assert "FAILED (forced)" in forced.lines()[0]
    assert set(forced.frontier["checks"]) == set(forced.losses["checks"]) == {"FAILED (forced)"}


@pytest.mark.slow
def test_a_loss_that_does_not_mix_at_the_plan_is_refused_or_the_plan_marked(target: Fit) -> None:
    draws = scattered(SOURCE, SIZE, 1, 0.006)
    draws["E"] = draws["E"] + np.repeat([-0.02, 0.0, 0.0, 0.02], SIZE // 4)
    unmixed = posterior("ptpp-floor", draws)
    with fails("failed-checks", "loss of source", "R-hat", kind=FitError):
        plan(unmixed, target, MODEL, **PROBLEM)
    forced = plan(unmixed, target, MODEL, **PROBLEM, force=True)
    assert forced.forced
    assert any(note.startswith("loss of source FAILED") for note in forced.notes)


@pytest.mark.slow
def test_a_barrier_without_eps_is_refused_at_no_replay(target: Fit) -> None:
    law = law_named("ptpp-floor")
    card = law.card.replace("C/(share + eps)**gamma", "C/r**gamma").replace('eps      = "1e-5"\n', "")
    bare = posterior(parse_card(card, "bare"), scattered(SOURCE, SIZE, 1, 0.006))
    with fails("no-finite-loss", "ptpp-floor (source)", "r = 0", kind=FitError):
        plan(bare, target, MODEL, **(PROBLEM | {"replay": "0:1"}))
    assert plan(bare, target, MODEL, **PROBLEM).best is not None


def test_a_discrepancy_that_changes_with_the_tokens_is_refused() -> None:
    law = law_named("chinchilla")
    fit = posterior(law, scattered(oracles.typical(law), SIZE, 1, 0.004))
    with fails("discrepancy-along-tokens", "chinchilla"):
        plan(None, fit, {"N": 1e9}, on="latent", max_loss=3.0, discrepancy=0.01)


def test_a_target_loss_that_the_law_has_at_no_tokens_is_refused(kept: Fit, adapted: Fit) -> None:
    problem = PROBLEM | {"max_loss": 4.5, "base_loss": None, "max_forgetting": "40%"}
    with fails("loss-already-met", "4.5 nats/token", "transfer-target"):
        plan(kept, adapted, SMALL, **problem)


def test_a_target_loss_that_the_measured_base_checkpoint_has_is_refused(source: Fit) -> None:
    base = pd.DataFrame({"run": ["base"], "N": 8.1e9, "D": 0.0, "ptpp": 279.0, "loss": 1.75})
    table = pd.concat([oracles.table(law_named("ptpp-gate-floor")), base])
    measured_target = posterior("ptpp-gate-floor", scattered(TARGET, SIZE, 2, 0.006), frame=table)
    with fails("loss-already-met", "1.8 nats/token", "1.75"):
        plan(source, measured_target, MODEL, **(PROBLEM | {"max_loss": 1.8}))


@pytest.mark.slow
def test_the_base_loss_is_measured_at_this_model_or_else_unknown(source: Fit, target: Fit) -> None:
    base = pd.DataFrame({"run": ["base"], "N": 8.1e9, "D": 0.0, "ptpp": 279.0, "loss": BASE})
    table = pd.concat([oracles.table(law_named("ptpp-floor")), base])
    logged = posterior("ptpp-floor", scattered(SOURCE, SIZE, 1, 0.006), frame=table, seed=1)
    result = plan(logged, target, MODEL, **(PROBLEM | {"base_loss": None}))
    assert result.base_losses["source"].kind == "measured"
    assert f"base loss of source {BASE:.4g}" in result.notes[0]
    with fails("unknown-base-loss", "N = 4e+09", "N = 8.1e+09"):
        plan(logged, target, MODEL | {"N": 4e9}, **(PROBLEM | {"base_loss": None}))


@pytest.mark.slow
def test_a_plan_warns_of_edges_and_of_tokens_beyond_the_logs(source: Fit, target: Fit) -> None:
    def notes(fits: tuple[Fit, Fit], **changed: Any) -> str:
        return "\n".join(plan(*fits, MODEL, **(PROBLEM | changed)).notes)

    ample = notes((source, target), atpp="60:100", replay="0.6:0.9")
    assert "edge of the replay shares" in ample
    assert "lower edge of the box" in ample
    assert "allow fewer (--tokens or --atpp, tokens= or atpp=)" in ample
    short = oracles.table(law_named("ptpp-gate-floor")).assign(D=lambda t: t["N"] * 2)
    brief = posterior("ptpp-gate-floor", scattered(TARGET, SIZE, 2, 0.006), frame=short)
    floor = posterior("ptpp-floor", scattered(SOURCE, SIZE, 1, 0.006), frame=short)
    beyond = notes((floor, brief), atpp="10:20")
    assert "upper edge of the box" in beyond
    assert "allow more (--tokens or --atpp, tokens= or atpp=)" in beyond
    assert "beyond the 2 that were logged" in beyond
    assert "FAR outside: N by" in beyond
    aimless = notes((source, target), max_loss=None, replay=0.9, atpp="1:20")
    assert "no constraint needs more: give a largest target loss" in aimless


def one_checkpoint() -> list[Fit]:
    laws = ("replay-source", "replay-target")
    return [learning(posterior(law, scattered(oracles.typical(law_named(law)), SIZE, 5, 0.004))) for law in laws]


def of_one_mixture() -> Fit:
    return learning(posterior("fine-tuning", scattered(oracles.typical(law_named("fine-tuning")), SIZE, 5, 0.02)))


def test_limits_of_replay_are_refused_for_laws_without_it() -> None:
    fit = of_one_mixture()
    with fails("law-without-replay", "fine-tuning", "--replay", "replay="):
        plan(None, fit, {}, on="latent", max_loss=2.0, replay=0.25)


def test_sizes_in_billions_are_asked_about_where_they_count_tokens_alone() -> None:
    with fails("out-of-support", "N = 1.4", "in billions?"):
        plan(None, one_checkpoint()[1], {"N": 1.4}, on="latent", max_loss=2.0)


def test_a_frontier_without_a_plan_at_some_confidence_states_the_tokens_that_were_searched() -> None:
    fit = of_one_mixture()
    tokens = fit.observed.covariates["D"].min(), fit.observed.covariates["D"].max()
    losses = np.sort(forecast(fit, {"D": tokens[1]}).draws["latent"].to_numpy().ravel())
    asked: dict[str, Any] = {"on": "latent", "max_loss": float(np.quantile(losses, 0.7)), "tokens": tokens, "levels": (0.5, 0.9)}
    kept = plan(None, fit, {}, confidence=0.5, **asked)
    assert best_of(kept).tokens <= tokens[1] * (1 + 1e-9)
    (note,) = [note for note in kept.notes if note.startswith("there is no plan of ")]
    assert f"{tokens[0]:.3g} to {tokens[1]:.3g} tokens at confidence 0.9: limits (--tokens or --atpp, " in note
    none = plan(None, fit, {}, confidence=0.9, **asked)
    assert f"no plan of {tokens[0]:.3g} to {tokens[1]:.3g} tokens satisfies every constraint" in "\n".join(none.notes)


def test_a_plan_that_no_draw_allows_names_the_constraint_out_of_reach_and_what_is_nearest(source: Fit, target: Fit) -> None:
    def last_notes(**changed: Any) -> tuple[str, ...]:
        result = plan(source, target, MODEL, **(PROBLEM | changed))
        assert result.shown is None
        return result.notes[-2:]

    few = MODEL | {"D": 2 * MODEL["N"], "r": 0.5}
    lowest = float(np.median(oracles.ptpp_gate_floor({k: target.draws[k][: SIZE // 2] for k in TARGET}, few)))
    none, active = last_notes(max_forgetting="20%", max_loss=0.95 * lowest, atpp="1:2")
    assert none.startswith("no draw satisfies every constraint with 8.1e+09 to 1.62e+10 tokens")
    assert f"target loss, which is out of reach by itself: the limit is {0.95 * lowest:.4g} nats/token" in active
    stated = re.search(r"searched settings is ([\d.]+), at 1.62e\+10 tokens, r = 0.5, and no more", active)
    assert stated is not None
    assert float(stated[1]) == pytest.approx(lowest, rel=2e-3)
    assert "--atpp 1:200" not in active
    assert (
        "and the budget allows no more tokens"
        in last_notes(max_forgetting="20%", max_loss=0.95 * lowest, max_tokens=2 * MODEL["N"])[1]
    )
    apart = last_notes(replay=[0.01, 0.95], atpp="1:20")[1]
    assert apart.startswith("each constraint is satisfied somewhere, but not all in one place"), apart


def test_a_plan_beyond_the_logged_tokens_has_the_error_of_a_law_along_them() -> None:
    old, new = one_checkpoint()
    most = new.observed.covariates["D"].max()
    asked: dict[str, Any] = {"max_forgetting": "90%", "minimise": "target-loss", "max_tokens": 100 * most}
    asked |= {"on": "run", "tokens": f"{most}:{100 * most}"}
    result, exact = (plan(old, new, {}, **asked, discrepancy=choice) for choice in (None, "none"))
    (note,) = [note for note in result.notes if note.startswith("target: the plan lies FAR outside: D by")]
    assert "counts as exact" not in note
    (note,) = [note for note in exact.notes if note.startswith("target: the plan lies FAR outside: D by")]
    assert "counts as exact along D" in note
    assert any("(extrapolated)" in line for line in result.lines())
    best = best_of(result)
    stated = forecast(new, {"D": best.tokens, "r": best.replay}).summary()
    widths = [np.diff(p.losses.loc["target loss (nats/token)", ["eti90_lb", "eti90_ub"]]).item() for p in (result, exact)]
    reported = np.diff(stated[["extrapolated_eti90_lb", "extrapolated_eti90_ub"]]).item()
    # Ends of 2,000 draws with other random numbers: each width has a Monte Carlo error of some 4%, more in the error's tails.
    assert widths[0] == pytest.approx(reported, rel=0.15)
    assert widths[0] > 1.5 * widths[1]
    assert "nats/token, by replay-source at D = 0, draw by draw" in result.notes[0]
    assert "()" not in result.notes[0]


def test_the_error_along_the_tokens_is_that_of_the_walk_and_none_within_the_logs() -> None:
    fit = one_checkpoint()[1]
    away, most = fit.extrapolation, fit.observed.covariates["D"].max()
    assert away is not None
    assert away.discrepancy is not None
    chosen = np.arange(fit.size)[::7]
    drawn = away.discrepancy.drawn(chosen, (3,))
    loss = domain_loss("target", fit, {}, {}, pd.DataFrame({"D": [most], "r": [0.1]}))
    erring = replace(loss, errors=(drawn.over("D", {}),))
    draws, x = np.arange(chosen.size), np.log(most * np.array([0.01, 1.0, 1.3, 7.0, 60.0]))
    member = replace(loss.member_draws[0], draws={k: v[chosen] for k, v in loss.member_draws[0].draws.items()})
    loss, erring = (replace(of, member_draws=(member,), shift=np.zeros(chosen.size)) for of in (loss, erring))
    added = erring.values(draws, x, np.array([[0.1], [0.4]]), 2) - loss.values(draws, x, np.array([[0.1], [0.4]]), 2)
    expected = drawn.at({"D": np.exp(x)}).T
    np.testing.assert_allclose(added, np.repeat(expected[:, None], 2, axis=1), atol=1e-12)
    assert (expected[:, :2] == 0).all()
    assert (np.abs(expected[:, 2:]) > 0).all()
    own = np.log(most * np.linspace(0.5, 50, chosen.size))
    added = erring.values(draws, own, 0.2, 0) - loss.values(draws, own, 0.2, 0)
    np.testing.assert_allclose(added, drawn.along({"D": np.exp(own)}), atol=1e-12)
    np.testing.assert_array_equal(erring.at_base(draws), loss.at_base(draws))


def test_a_law_of_one_domain_is_not_taken_for_the_other() -> None:
    fits = {
        domain: posterior(law, scattered(oracles.typical(law), SIZE, 5, 0.004))
        for domain, law in ((d, law_named(f"transfer-{d}")) for d in ("source", "target"))
    }
    problem: dict[str, Any] = PROBLEM | {"max_loss": 2.2, "base_loss": 2.35}
    with fails("law-of-another-domain", "transfer-target", "as source, a source", "exchange"):
        plan(fits["target"], fits["source"], SMALL, **problem)
    with fails("law-of-another-domain", "transfer-source", "as the target"):
        plan(fits["source"], fits["source"], SMALL, **problem)


@pytest.mark.slow
def test_a_law_of_training_from_scratch_is_no_source(target: Fit) -> None:
    law = law_named("chinchilla")
    scratch = posterior(law, scattered(oracles.typical(law), SIZE, 5, 0.004))
    with fails("law-without-adaptation", "chinchilla", "as source, a source"):
        plan(scratch, target, SMALL, on="latent", max_loss=3.0)


def test_the_domains_of_a_joint_fit_are_named_by_levels() -> None:
    law = law_named("transfer-target")
    frame = pd.concat([oracles.table(law).assign(domain=d) for d in ("web", "code")])
    values = scattered(oracles.typical(law), SIZE, 5, 0.004)
    values |= {"E_spread": np.full(SIZE, 0.1), "E_web": values["E"], "E_code": values["E"]}
    joint = posterior(law, values, frame=frame, by={"E": "domain"})
    problem: dict[str, Any] = PROBLEM | {"max_loss": 2.2, "max_forgetting": "5%", "base_loss": 2.35, "confidence": 0.5}
    with fails("missing-level", "web, code", "--source-set domain=web, source_levels={'domain': 'web'}"):
        plan(joint, joint, SMALL, **problem)
    with fails("unknown-column", "'domains'", "for the target", "Did you mean 'domain'?"):
        plan(joint, joint, SMALL, **problem, source_levels={"domain": "web"}, target_levels={"domain": "code", "domains": "code"})
    with fails("unknown-level", "'cod'", "web, code"):
        plan(joint, joint, SMALL, **problem, source_levels={"domain": "cod"})
    result = plan(joint, joint, SMALL, **problem, source_levels={"domain": "web"}, target_levels={"domain": "code"})
    assert [loss.settings["domain"] for loss in result.problem.losses] == ["web", "code"]


def test_prices_of_tokens_and_of_serving_by_hand() -> None:
    """6 N D FLOPs of training and 2 N S of serving, and money for each new and replayed token."""
    rates = {"flop": 2e-18, "served-flop": 3e-18, "new-token": 1e-7, "replayed-token": 4e-8}
    prices = Prices.of(rates, None, served=1e12)
    token, serving = 6e9 * 2e-18 + 0.75 * 1e-7 + 0.25 * 4e-8, 2e9 * 1e12 * 3e-18
    assert prices.token("cost", 0.25, 1e9).item() == pytest.approx(token)
    assert prices.mean("cost", 1e9, 1e10, 0.25) == pytest.approx(1e10 * token + serving)
    assert prices.mean("flops", 1e9, 1e10, 0.25) == pytest.approx(6e19 + 2e21)
    assert prices.log_budget(1e9, None, {"cost": 1e4})(0.25) == pytest.approx(math.log((1e4 - serving) / token))
    assert prices.log_budget(1e9, 1e9, {"cost": 1e4})(0.25) == pytest.approx(math.log(1e9))
    assert prices.log_budget(1e9, None, {"cost": 1e4, "flops": 2.06e21})(1.0) == pytest.approx(math.log(1e10))
    with fails("budget-too-small", "Serving alone"):
        prices.log_budget(1e9, None, {"cost": 5_000.0})
    size, draws = 3, np.array([4e-8, 5e-8, 9e-8])
    uncertain = Prices.of(rates | {"replayed-token": draws}, None, size=size, served=1e12)
    assert not uncertain.certain("cost")
    assert uncertain.certain("flops")
    assert uncertain.median().replayed.tolist() == [5e-8]
    (budget,) = uncertain.uncertain_budgets(1e9, {"cost": 1e4, "flops": 1e22})
    spent = 1e10 * (6e9 * 2e-18 + 0.75 * 1e-7 + 0.25 * draws) + serving
    margins = budget.values(np.arange(size), np.full(size, math.log(1e10)), 0.25, 0)
    np.testing.assert_allclose(margins, math.log(1e4) - np.log(spent), rtol=1e-9)
