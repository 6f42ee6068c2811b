"""What a plan refuses, by name and value; base losses; what it warns of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.planning.base_loss import Base, base_loss
from bayeslaw.planning.domain_loss import describe
from bayeslaw.planning.plan import Plan, plan
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.fixed import fixed_fit
from tests.posteriors import SOURCE, TARGET, posterior, scattered, source_fit, target_fit
from tests.unit.planning.test_plan import BASE, LIMIT, MODEL

SIZE = 2000
QUESTION: dict[str, Any] = {"on": "latent", "max_forgetting": "2%", "max_loss": LIMIT, "base_loss": BASE}


@pytest.fixture(scope="module")
def source() -> Fit:
    return source_fit(SIZE)


@pytest.fixture(scope="module")
def target() -> Fit:
    return target_fit(SIZE)


@pytest.fixture(scope="module")
def adapted() -> Fit:
    """A target law that is finite at D = 0."""
    law = load_law("transfer-target")
    return posterior(law, scattered(oracles.typical(law), SIZE, 3, 0.004), seed=3)


@pytest.fixture(scope="module")
def kept() -> Fit:
    """A source law that is finite at D = 0."""
    law = load_law("transfer-source")
    return posterior(law, scattered(oracles.typical(law), SIZE, 4, 0.004), seed=4)


def says(call: Callable[[], object], *fragments: str, kind: type[Exception] = BayeslawError) -> None:
    with pytest.raises(kind) as refused:
        call()
    for fragment in fragments:
        assert fragment in str(refused.value), str(refused.value)


@pytest.mark.parametrize(
    ("changed", "fragments"),
    [
        ({"confidence": 1.0}, ("between 0 and 1", "1 does not")),
        ({"confidence": 0.0}, ("between 0 and 1", "0 does not")),
        ({"confidence": 90}, ("write 0.9 for 90%",)),
        ({"confidence": 0.995}, ("0.995 is beyond what 1,000 searched draws resolve: at most 0.99",)),
        ({"levels": (0.5, 0.999)}, ("0.999 is beyond",)),
        ({"max_forgetting": "-100%"}, ("max-forgetting -100% leaves no positive source loss",)),
        ({"max_forgetting": "-150%"}, ("-150%",)),
        ({"max_forgetting": -2.0}, ("-2 nats/token leaves no positive source loss", "its base is 1.548")),
        ({"max_forgetting": 2}, ("2 nats/token is more than half of the base loss, 1.548: is it a percentage? Write 2%",)),
        ({"max_forgetting": "two"}, ("'two' is not one",)),
        ({"max_forgetting": {"web": "2%"}}, ("names 'web'; the sources are source",)),
        ({"max_loss": 0.5}, ("max-loss 0.5 nats/token lies below what any draw of ptpp-gate-floor allows", "however many tokens")),
        ({"max_loss": -1.0}, ("max-loss must be positive and finite, not -1",)),
        ({"on": None}, ("Say what is promised", "'latent'", "'run'")),
        ({"on": "next"}, ("latent or run, not 'next'",)),
        ({"minimise": "time"}, ("'time' can't be minimised", "target-loss")),
        ({"replay": "0:34"}, ("34 does not: is it a percentage? Write 0.34 for 34%",)),
        ({"replay": -0.1}, ("-0.1 does not",)),
        ({"replay": "much"}, ("replay 'much' is not a range such as 1:20",)),
        ({"atpp": "20:1"}, ("ATPP '20:1' is not a range",)),
        ({"atpp": "0:20"}, ("more than 0, 0 are not",)),
        ({"atpp": "1:20", "tokens": "1e9:1e10"}, ("ATPP or of tokens, not both",)),
        ({"max_tokens": 0}, ("max-tokens must be positive and finite, not 0",)),
        ({"max_tokens": 1e6}, ("The budget allows 1e+06 tokens, fewer than",)),
        ({"max_cost": 5.0}, ("max-cost needs prices",)),
        ({"minimise": "cost"}, ("To minimise cost give prices",)),
        ({"prices": {"gpu": 1.0}}, ("no price 'gpu'; there are flop, new-token, replayed-token",)),
        ({"minimise": "replay"}, ("fix them (--tokens 1e10 or --atpp 8)",)),
        ({"max_loss": None, "max_forgetting": None}, ("Nothing is promised",)),
        ({"base_loss": None}, ("base loss of source is not known", "ptpp-floor is infinite at D = 0", "State it")),
        ({"base_loss": "law"}, ("ptpp-floor is infinite at D = 0", "state it")),
        ({"base_loss": "measured"}, ("no row with D = 0 is of this model (N = 8.1e+09, ptpp = 279)",)),
        ({"base_loss": "2,3"}, ("'2,3' is none",)),
        ({"base_loss": 25.0}, ("at 15 nats/token at most",)),
        ({"seed": -1}, ("seed must be a whole number of at least 0",)),
    ],
)  # fmt: skip
def test_questions_that_are_refused(source: Fit, target: Fit, changed: dict[str, Any], fragments: tuple[str, ...]) -> None:
    says(lambda: plan(source, target, MODEL, **(QUESTION | changed)), *fragments)


@pytest.mark.parametrize(
    ("model", "fragments"),
    [
        ({"N": 0, "ptpp": 279}, ("N must be positive and finite, not 0",)),
        ({"N": -1e9, "ptpp": 279}, ("N must be positive",)),
        ({"N": 8.1e9, "ptpp": -1}, ("ptpp must be positive and finite, not -1",)),
        ({"N": 8.1, "ptpp": 279}, ("N 8.1 is outside", "is it in billions?")),
        ({"N": 8.1e9}, ("needs ptpp",)),
        ({"N": 8.1e9, "ptpp": 279, "r": 0.3}, ("r is what the plan chooses", "--replay")),
        ({"N": 8.1e9, "ptpp": 279, "D": 1e9}, ("D is what the plan chooses",)),
        ({"N": 8.1e9, "pttp": 279}, ("Did you mean 'ptpp'?",)),
        ({"N": 8.1e9, "ptpp": "15:279"}, ("is not a number; a plan is made for one value",)),
    ],
)
def test_models_that_are_refused(source: Fit, target: Fit, model: dict[str, Any], fragments: tuple[str, ...]) -> None:
    says(lambda: plan(source, target, model, **QUESTION), *fragments)


def test_too_few_draws(target: Fit) -> None:
    few = posterior("ptpp-floor", scattered(SOURCE, 1996, 1), seed=1)
    says(lambda: plan(few, target, MODEL, **QUESTION), "at least 2,000 draws; ptpp-floor has 1,996")


def test_unpaired_draws(target: Fit) -> None:
    more = posterior("ptpp-floor", scattered(SOURCE, 2400, 1), seed=1)
    says(lambda: plan(more, target, MODEL, **QUESTION), "unpaired", "source 2,400", "target 2,000", "both domains in one fit")


def test_two_stacks_can_not_be_paired(source: Fit, target: Fit) -> None:
    one, two = Stack.of({"a": source}, {"a": 1.0}), Stack.of({"b": target}, {"b": 1.0})
    says(lambda: plan(one, two, MODEL, **QUESTION), "Two stacks can't be paired")
    assert plan(one, target, MODEL, **QUESTION).best is not None


def test_draws_that_are_not_finite(target: Fit) -> None:
    draws = scattered(SOURCE, SIZE, 1)
    draws["B"][7] = np.nan
    says(
        lambda: plan(posterior("ptpp-floor", draws), target, MODEL, **QUESTION),
        "draws of B in ptpp-floor (source) are not all finite",
        kind=FitError,
    )


def test_failed_checks(source: Fit, target: Fit) -> None:
    check = Check("r_hat", False, "largest R-hat 1.2", True, pd.DataFrame())
    failed = replace(source, checks=(check,))
    says(lambda: plan(failed, target, MODEL, **QUESTION), "The checks of ptpp-floor failed (largest R-hat 1.2)", kind=FitError)
    forced = plan(failed, target, MODEL, **QUESTION, force=True)
    assert forced.forced
    assert "CHECKS FAILED (forced)" in forced.lines()[0]
    assert set(forced.frontier["checks"]) == set(forced.losses["checks"]) == {"FAILED (forced)"}


def test_failed_diagnostics_of_the_loss_at_the_plan(target: Fit) -> None:
    """Every parameter mixes, their loss at the plan does not: it moves from chain to chain."""
    draws = scattered(SOURCE, SIZE, 1, 0.006)
    draws["E"] = draws["E"] + np.repeat([-0.02, 0.0, 0.0, 0.02], SIZE // 4)
    says(
        lambda: plan(posterior("ptpp-floor", draws), target, MODEL, **QUESTION),
        "The checks of the loss of source at the plan (ATPP", "largest R-hat of the latent loss", kind=FitError,
    )  # fmt: skip


def test_a_plan_forced_in_spite_of_them_is_marked(target: Fit) -> None:
    draws = scattered(SOURCE, SIZE, 1, 0.006)
    draws["E"] = draws["E"] + np.repeat([-0.02, 0.0, 0.0, 0.02], SIZE // 4)
    made = plan(posterior("ptpp-floor", draws), target, MODEL, **QUESTION, force=True)
    assert made.forced
    assert any("loss of source FAILED its checks at the plan" in note for note in made.notes)
    assert "CHECKS FAILED (forced)" in made.lines()[0]


def test_a_barrier_without_eps_is_refused_at_no_replay(target: Fit) -> None:
    law = load_law("ptpp-floor")
    card = law.card.replace("C/(share + eps)**gamma", "C/r**gamma").replace('eps      = "1e-5"\n', "")
    bare = posterior(parse_card(card, "bare"), scattered(SOURCE, SIZE, 1, 0.006))
    says(
        lambda: plan(bare, target, MODEL, **QUESTION),
        "(source) has no finite positive loss",
        "r = 0.",
        "limits of ATPP and replay",
        kind=FitError,
    )
    assert plan(bare, target, MODEL, replay="0.01:1", **QUESTION).best is not None


def test_a_target_loss_that_is_already_met(kept: Fit, adapted: Fit) -> None:
    question = QUESTION | {"max_loss": 4.5, "base_loss": None, "max_forgetting": "40%"}
    says(
        lambda: plan(kept, adapted, {"N": 1e9, "ptpp": 31.0}, **question),
        "max-loss 4.5 nats/token is already met at ATPP 0",
        "by transfer-target at D = 0",
    )


def test_a_target_loss_that_the_measured_base_already_has(source: Fit) -> None:
    table = pd.concat(
        [
            oracles.table(load_law("ptpp-gate-floor")),
            pd.DataFrame({"run": ["base"], "N": 8.1e9, "D": 0.0, "ptpp": 279.0, "loss": 1.75}),
        ]
    )
    seen = posterior("ptpp-gate-floor", scattered(TARGET, SIZE, 2, 0.006), frame=table)
    says(
        lambda: plan(source, seen, MODEL, **(QUESTION | {"max_loss": 1.8})),
        "already met at ATPP 0",
        "as measured at D = 0",
        "loss is 1.75 as measured",
    )


def based(*losses: float, **columns: Any) -> Fit:
    base = pd.DataFrame(
        {"run": [f"base {i}" for i in range(len(losses))], "N": 8.1e9, "D": 0.0, "ptpp": 279.0, "loss": losses} | columns
    )
    table = pd.concat([oracles.table(load_law("ptpp-floor")), base.assign(**columns)])
    if "loss_se" in table:
        table["loss_se"] = table["loss_se"].fillna(0.001)
    return posterior("ptpp-floor", scattered(SOURCE, SIZE, 1, 0.006), frame=table, seed=1)


def test_the_measured_base_loss_is_taken_with_its_error(target: Fit) -> None:
    made = plan(based(BASE), target, MODEL, **(QUESTION | {"base_loss": None}))
    found = made.base["source"]
    assert found.kind == "measured"
    assert f"base loss of source {BASE:.4g}" in made.notes[0]
    assert np.exp(found.log).mean() == pytest.approx(BASE, rel=1e-3)
    assert found.log.std() == pytest.approx(0.003, rel=0.1)  # the noise of one logged loss


def test_base_losses_of_several_seeds_and_stated_errors(target: Fit) -> None:
    several = plan(based(BASE * 1.01, BASE * 0.99), target, MODEL, **(QUESTION | {"base_loss": None})).base["source"]
    assert several.log.std() == pytest.approx(0.01, rel=0.1)
    stated = plan(based(BASE), target, MODEL, **(QUESTION | {"base_loss": f"{BASE}+-0.01"})).base["source"]
    assert stated.kind == "stated"
    assert stated.log.std() == pytest.approx(0.01 / BASE, rel=0.1)
    assert "as stated" in stated.text


def measured(fit: Fit, levels: dict[str, str] | None = None) -> Base:
    """The base loss by the rows that a fit knows of."""
    model = MODEL | {"ptpp": 31.0, "N": 1e9} if fit.law.name.startswith("transfer") else MODEL
    corners = pd.DataFrame([{"D": 1e9, "r": 0.3}, {"D": 1e11, "r": 0.3}])
    return base_loss(describe("source", fit, model, levels or {}, corners), "measured", 0)


def sd(base: Base) -> float:
    """Standard deviation of the errors of a base loss, of draws that are alike."""
    return float(base.log.std())


def test_known_errors_of_a_base_loss_are_added_to_the_noise() -> None:
    """As they are where the law is fitted: an error of 0 is no noise of 0."""
    assert sd(measured(based(BASE, loss_se=0.02))) == pytest.approx(math.hypot(0.003, 0.02 / BASE), rel=0.05)
    assert sd(measured(based(BASE, loss_se=0.0))) == pytest.approx(0.003, rel=0.05)
    mixed = measured(based(BASE, BASE * 1.0001, loss_se=[0.0, 0.02]))
    assert sd(mixed) == pytest.approx(math.sqrt((0.003**2 + (0.02 / BASE) ** 2 / 2) / 2), rel=0.05)


def test_copies_of_one_evaluation_count_once() -> None:
    """Every run of a branch logs its checkpoint's loss; other seeds that reach the same loss are others."""
    one = measured(based(BASE))
    copies = measured(based(*[BASE] * 9))
    np.testing.assert_array_equal(copies.log, one.log)
    assert sd(measured(based(*[BASE] * 9, checkpoint="k"))) == pytest.approx(0.003, rel=0.05)
    assert sd(measured(based(*[BASE] * 9, seed=range(9)))) == pytest.approx(0.001, rel=0.05)
    assert sd(measured(based(*[BASE] * 4, BASE * 1.0001))) == pytest.approx(0.003 / math.sqrt(2), rel=0.05)


def test_copies_in_a_fit_that_has_its_base_rows_count_once() -> None:
    law = load_law("transfer-source")
    base = pd.DataFrame({"run": [f"base {i}" for i in range(9)], "N": 1e9, "D": 0.0, "r": 0.5, "ptpp": 31.0, "loss": 2.5})
    fit = posterior(law, scattered(oracles.typical(law), SIZE, 4, 0.004), frame=pd.concat([oracles.table(law), base]))
    assert sd(measured(fit)) == pytest.approx(0.003, rel=0.05)


def test_the_noise_of_a_base_loss_is_that_of_its_group() -> None:
    """Where noise differs by a column; where the column is empty, the larger noise."""
    law = load_law("ptpp-floor")
    base = pd.DataFrame({"run": ["bt", "bs"], "N": 8.1e9, "D": 0.0, "ptpp": 279.0, "loss": [2.5, 2.3]})
    logged = oracles.table(law)
    parts = [logged.assign(domain=d, run=d + logged["run"].astype(str)) for d in ("target", "source")]
    values = {k: np.full(SIZE, v) for k, v in oracles.typical(law).items()}
    values |= {"E_target": values["E"], "E_source": values["E"], "E_spread": np.full(SIZE, 0.1)}
    values |= {f"sigma_point[{d}]": np.full(SIZE, s) for d, s in (("target", 0.02), ("source", 0.001))}
    values |= {f"sigma_run[{d}]": np.full(SIZE, 0.002) for d in ("target", "source")}
    table = pd.concat([*parts, base.assign(domain=["target", "source"])], ignore_index=True)
    both = fixed_fit(law, table, values, noise="normal", noise_by="domain", by={"E": "domain"})
    assert sd(measured(both, {"domain": "source"})) == pytest.approx(0.001, rel=0.05)
    assert sd(measured(both, {"domain": "target"})) == pytest.approx(0.02, rel=0.05)
    labs = pd.concat([*(p.assign(lab=p["domain"]).drop(columns="domain") for p in parts), base[1:].assign(lab=None)])
    kept = {k: v for k, v in values.items() if not k.startswith("E_")}
    assert sd(measured(fixed_fit(law, labs, kept, noise="normal", noise_by="lab"))) == pytest.approx(0.02, rel=0.05)


def test_a_base_loss_of_another_model_does_not_count(source: Fit, target: Fit) -> None:
    other = based(BASE)
    says(
        lambda: plan(other, target, MODEL | {"N": 4e9}, **(QUESTION | {"base_loss": None})),
        "not known",
        "There are rows with D = 0 at N = 8.1e+09, ptpp = 279",
    )


def test_a_law_finite_at_no_tokens_tells_the_base_loss(kept: Fit, adapted: Fit) -> None:
    question: dict[str, Any] = {"on": "latent", "max_forgetting": "12%", "max_loss": 2.05}
    made: Plan = plan(kept, adapted, {"N": 1e9, "ptpp": 31.0}, **question)
    found = made.base["source"]
    assert found.kind == "law"
    assert "by transfer-source at D = 0, draw by draw" in found.text
    expected = oracles.transfer_source(kept.draws, {"N": 1e9, "D": 0.0, "r": 0.5, "ptpp": 31.0})
    np.testing.assert_allclose(np.exp(found.log), expected, rtol=1e-9)


def test_warnings_of_edges_and_of_tokens_beyond_the_logs(source: Fit, target: Fit) -> None:
    edge = plan(source, target, MODEL, **QUESTION, replay="0.6:0.9")
    assert any("edge of the replay shares" in n for n in edge.notes)
    low = plan(source, target, MODEL, **QUESTION, atpp="60:100")
    assert any("lower edge of the box" in n for n in low.notes)
    short = oracles.table(load_law("ptpp-gate-floor")).assign(D=lambda t: t["N"] * 2)
    brief = posterior("ptpp-gate-floor", scattered(TARGET, SIZE, 2, 0.006), frame=short)
    floor = posterior("ptpp-floor", scattered(SOURCE, SIZE, 1, 0.006), frame=short.drop(columns=[]))
    made = plan(floor, brief, MODEL, **QUESTION)
    assert any("lies beyond the 2 that were logged" in n for n in made.notes)
    assert any("FAR outside: N by" in n for n in made.notes)


def test_an_unknown_domain_of_a_joint_fit() -> None:
    law = load_law("transfer-target")
    frame = pd.concat([oracles.table(law).assign(domain=d) for d in ("web", "code")])
    values = scattered(oracles.typical(law), SIZE, 5, 0.004)
    values |= {"E_spread": np.full(SIZE, 0.1), "E_web": values["E"], "E_code": values["E"]}
    joint = posterior(law, values, frame=frame, by={"E": "domain"})
    question: dict[str, Any] = {"on": "latent", "max_loss": 2.2, "max_forgetting": "5%", "base_loss": 2.35, "confidence": 0.5}
    model = {"N": 1e9, "ptpp": 31.0}
    says(lambda: plan(joint, joint, model, **question), "parameters for each domain (web, code)", "--source-set domain=web")
    says(lambda: plan(joint, joint, model, **question, source_levels={"domain": "cod"}), "Did you mean 'code'?")
    made = plan(joint, joint, model, **question, source_levels={"domain": "web"}, target_levels={"domain": "code"})
    assert [s.settings["domain"] for s in made.question.sides] == ["web", "code"]
