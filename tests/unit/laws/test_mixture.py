"""Mixtures in cards: sums over shares written out, shares of one's own, references, and laws of replay as the case of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import BayeslawError, CardError, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs
from bayeslaw.engine.coordinates import star
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import with_by, with_levels
from tests import oracles
from tests.errors import fails

CARD = """
name   = "shares"
title  = "A law of shares"
source = "a test"
loss   = "{loss}"
[mixture]
shares = ["web", "code"]
{mixture}
[covariates]
D = {{ unit = "tokens", support = [1, 1e12] }}
[parameters.a]
meaning = "level"
prior = {{ dist = "LogNormal", mu = 0, sigma = 1 }}
[parameters.t]
over = "{over}"
meaning = "effect"
prior = {{ dist = "Normal", mu = 0, sigma = 1 }}
"""
X = {"web": np.array([0.25, 1.0]), "code": np.array([0.75, 0.0]), "D": np.array([10.0, 20.0])}
P = {"a": 2.0, "t_web": 0.5, "t_code": -1.0}


def card(loss: str = "a + dot(t, shares)/D", mixture: str = "", over: str = "shares") -> Law:
    return parse_card(CARD.format(loss=loss, mixture=mixture, over=over))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("a*D*exp(dot(t, shares))", lambda x: 2 * x["D"] * np.exp(0.5 * x["web"] - x["code"])),
        ("a + D*dot(exp(t), shares)", lambda x: 2 + x["D"] * (np.exp(0.5) * x["web"] + np.exp(-1) * x["code"])),
        ("a + D + total(exp(t)*shares**2)", lambda x: 2 + x["D"] + np.exp(0.5) * x["web"] ** 2 + np.exp(-1) * x["code"] ** 2),
        ("a + D + total(exp(t)*(shares + D)**0.5)", lambda x: 2 + x["D"]
            + np.exp(0.5) * np.sqrt(x["web"] + x["D"]) + np.exp(-1) * np.sqrt(x["code"] + x["D"])),
        ("a + D*dot(shares, shares) + 0*dot(t, shares)", lambda x: 2 + x["D"] * (x["web"] ** 2 + x["code"] ** 2)),
    ],
)  # fmt: skip
def test_sums_over_shares_are_written_out(loss: str, expected: object) -> None:
    law = card(loss)
    assert list(law.parameters) == ["a", "t_web", "t_code"]
    assert law.shares == ("web", "code")
    np.testing.assert_allclose(law.evaluate({**P, **X}), expected(X), rtol=1e-12)  # type: ignore[operator]


def test_parameters_of_shares_have_the_prior_of_the_card_and_a_symbol() -> None:
    law = card()
    assert law.parameters["t_code"].prior == law.parameters["t_web"].prior
    assert law.parameters["t_web"].meaning == "effect: web"
    assert law.parameters["t_web"].latex == r"t_{\mathrm{web}}"
    changed = law.with_priors({"t": bayeslaw.Prior.parse("Normal(0, 3)"), "t_code": bayeslaw.Prior.parse("Normal(1, 1)")})
    assert str(changed.parameters["t_web"].prior) == "Normal(0, 3)"
    assert str(changed.parameters["t_code"].prior) == "Normal(1, 1)"
    pooled = with_levels(with_by(law, {"t": "domain"}), {"domain": ("x", "y")})
    assert {"t_web_x", "t_web_y", "t_code_x", "t_code_y"} <= set(pooled.parameters)


def test_the_value_of_a_reference_is_0() -> None:
    law = card("a + D*dot(exp(t), shares) + dot(t, shares)", 'reference = "code"')
    assert list(law.parameters) == ["a", "t_web"]
    expected = 2 + X["D"] * (np.exp(0.5) * X["web"] + X["code"]) + 0.5 * X["web"]
    np.testing.assert_allclose(law.evaluate({"a": 2.0, "t_web": 0.5, **X}), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["data-mixing", "mixture-power", "bimix", "mixture-scaling"])
def test_shares_of_ones_own_stand_in_the_card(name: str) -> None:
    """All else reads the law from the text of its card."""
    law = load_law(name, shares=["weight_a", "weight_b", "weight_c", "weight_d"], reference="weight_b")
    assert law.shares == ("weight_a", "weight_b", "weight_c", "weight_d")
    again = parse_card(law.card)
    assert again.sha256 == law.sha256
    assert not any(p.endswith("weight_b") for p in law.parameters)
    assert load_law(name, shares="x,y").shares == ("x", "y")
    assert load_law(name).published == again.published


def test_shares_that_follow_another_section_are_replaced_too() -> None:
    text = CARD.format(loss="a + dot(t, shares)/D", mixture='reference = "web"', over="shares")
    section = text[text.index("[mixture]") : text.index("[covariates]")]
    moved = text.replace(section, "") + '\n[published."A paper, 2024"]\na = 1\n' + section
    law = parse_card(moved)
    from bayeslaw.laws.mixture import with_shares

    assert parse_card(with_shares(moved, "x,y", None, "card")).shares == ("x", "y")
    assert law.published


@pytest.mark.parametrize(
    ("changes", "code", "names"),
    [
        ({"loss": "a + t/D"}, "share-outside-total", ("t", "dot")),
        ({"loss": "a + shares*D"}, "share-outside-total", ("shares",)),
        ({"loss": "a + dot(t)/D"}, "wrong-arguments", ("dot",)),
        ({"loss": "a + dot(a, D) + dot(t, shares)"}, "total-without-shares", ("a * D",)),
        ({"loss": "a + D + dot(t, dot(t, shares))"}, "nested-total", ()),
        ({"loss": "a + D +"}, "not-a-formula", ()),
        ({"mixture": 'reference = "books"'}, "unknown-share", ("books", "web")),
        ({"mixture": "share = 1"}, "unknown-key", ("share",)),
        ({"over": "domains"}, "unknown-over", ("domains", "shares")),
    ],
)
def test_faults_of_cards_with_a_mixture(changes: dict[str, str], code: str, names: tuple[str, ...]) -> None:
    with fails(code, *names, kind=CardError):
        card(**changes)


def test_a_parameter_with_the_name_of_the_value_of_another_for_a_share_is_refused() -> None:
    """The prior of one of them was dropped."""
    own = '[parameters.t_web]\nmeaning = "another"\nprior = { dist = "Normal", mu = 5, sigma = 1 }\n'
    with fails("name-used-twice", "'t_web'", kind=CardError):
        parse_card(CARD.format(loss="a + dot(t, shares)/D + t_web", mixture="", over="shares") + own)


def test_let_expressions_of_mixtures_may_have_several_lines() -> None:
    text = CARD.format(loss="a + rest", mixture="", over="shares")
    law = parse_card(text + '[let]\nrest = """dot(t,\n  shares)\n/D"""\n')
    np.testing.assert_allclose(law.evaluate({**P, **X}), 2 + (0.5 * X["web"] - X["code"]) / X["D"])


def test_comments_within_formulas_end_with_their_line() -> None:
    """What followed on later lines was dropped."""
    let = '[let]\nrest = """dot(t, shares) # all\n/D"""\n'
    law = parse_card(CARD.replace('"{loss}"', '"""a # the floor\n+ rest"""').format(mixture="", over="shares") + let)
    np.testing.assert_allclose(law.evaluate({**P, **X}), 2 + (0.5 * X["web"] - X["code"]) / X["D"])


@pytest.mark.parametrize(
    ("shares", "code"),
    [
        (["web"], "number-of-shares"), (["web", "web"], "name-used-twice"), (["web", "my code"], "invalid-name"),
        ([1, 2], "not-names"), (["E", "code"], "name-used-twice"), ([f"s{i}" for i in range(50)], "number-of-shares"),
        (["web", "run"], "invalid-name"), ([], "number-of-shares"),
    ],
)  # fmt: skip
def test_shares_that_can_not_be(shares: list[str], code: str) -> None:
    with pytest.raises(BayeslawError) as error:
        load_law("mixture-scaling", shares=shares)
    assert error.value.code == code


def test_a_law_without_a_mixture_takes_no_shares() -> None:
    with fails("law-without-mixture", "chinchilla", kind=CardError):
        load_law("chinchilla", shares=["web", "code"])


@pytest.mark.parametrize("reference", ["books", 'a"b', "a\\q", 3])
def test_a_reference_that_is_no_share_is_refused(reference: Any) -> None:
    with fails("unknown-share", repr(reference), "web, code"):
        load_law("data-mixing", shares=["web", "code"], reference=reference)
    with fails("no-mixture", "t", kind=CardError):
        parse_card(CARD.format(loss="a*D", mixture="", over="shares").replace('[mixture]\nshares = ["web", "code"]', ""))


@pytest.mark.parametrize(("column", "other"), [("w.web", "w_web"), ("my code", "my_code"), ("2020", "share_2020")])
def test_a_column_that_can_not_be_a_name_gets_one_that_can(column: str, other: str) -> None:
    with fails("invalid-name", f'--column "{other}={column}"', kind=CardError):
        load_law("data-mixing", shares=["web", column])
    assert load_law("data-mixing", shares=["web", other]).shares == ("web", other)


def table(**columns: list[float]) -> pd.DataFrame:
    usual = {"web": [0.2, 0.5, 0.9, 0.4], "code": [0.8, 0.5, 0.1, 0.6], "loss": [2.0, 2.2, 2.4, 2.1], "D": [1e3, 2e3, 3e3, 9e3]}
    return pd.DataFrame(usual | columns)


def faults(frame: pd.DataFrame, purpose: str = "fit") -> list[tuple[str, int | None]]:
    return [(f.code, f.row) for f in bayeslaw.data.check(bayeslaw.read_runs(frame), card(), purpose=purpose)]  # type: ignore[arg-type]


@pytest.mark.parametrize("purpose", ["fit", "forecast"])
def test_rows_whose_shares_do_not_sum_to_one_are_named(purpose: str) -> None:
    assert faults(table(), purpose) == []
    assert faults(table(code=[0.8, 0.5, 0.1005, 0.6]), purpose) == []  # rounded
    assert faults(table(web=[0.717, 0.5, 0.9, 0.4], code=[0.284, 0.501, 0.101, 0.6]), purpose) == []  # by .001
    assert faults(table(code=[0.8, 0.4, 0.1, 0.7]), purpose) == [("shares-sum", 2), ("shares-sum", 4)]


def test_rounded_shares_are_to_be_divided_by_their_sum() -> None:
    rounded, wrong = bayeslaw.data.check(bayeslaw.read_runs(table(code=[0.81, 0.4, 0.1, 0.6])), card())
    assert "divide each by the sum" in rounded.suggestion
    assert "--shares" in wrong.suggestion


@pytest.mark.parametrize("first", [20, 20.3])
def test_percentages_are_one_fault_with_what_to_do(first: float) -> None:
    frame = table(web=[first, 50, 90, 40], code=[80, 50, 10, 60])
    (fault,) = bayeslaw.data.check(bayeslaw.read_runs(frame), card())
    assert fault.code == "shares-in-percent"
    assert "%" in fault.suggestion
    assert ("about" in fault.problem) == (first != 20)
    read = bayeslaw.data.check(bayeslaw.read_runs(frame, columns={"web": "web:%", "code": "code:%"}), card())
    assert [fault.code for fault in read] == ["shares-sum"] * (first != 20)


def test_shares_outside_0_and_1_and_missing_columns() -> None:
    assert ("out-of-support", 1) in faults(table(web=[-0.2, 0.5, 0.9, 0.4], code=[1.2, 0.5, 0.1, 0.6]))
    with pytest.raises(TableError) as error:
        Observations.of(load_law("data-mixing"), bayeslaw.read_runs(table()))
    assert "--shares" in str(error.value)


def test_settings_of_the_coordinates_are_mixtures(rng: np.random.Generator) -> None:
    """Moving one share alone would leave the simplex."""
    law = load_law("mixture-scaling")
    shares = rng.dirichlet([1, 1, 1], 20)
    frame = pd.DataFrame(shares, columns=list(law.shares)).assign(N=np.geomspace(1e8, 1e9, 20), D=1e10, loss=2.5)
    settings = star(law, Observations.of(law, Runs(frame.set_axis(range(1, 21)), "a test")))
    np.testing.assert_allclose(sum(settings[s] for s in law.shares), 1.0, rtol=1e-12)
    for share in law.shares:
        assert settings[share].min() == frame[share].min()
        assert settings[share].max() == frame[share].max()


# --- replay: two shares -----------------------------------------------------------------------------------------------

R = np.array([0.05, 0.25, 0.5, 0.9])


def replay(name: str, **values: float) -> np.ndarray:
    law = load_law(name)
    given = dict.fromkeys(law.parameters, 0.0) | values
    x = {"r": R, "N": np.full(4, 1e9), "D": np.array([1e9, 3e9, 1e10, 1e8]), "ptpp": np.full(4, 31.0)}
    x |= {"S1_pt": np.full(4, 5.0), "S1_cpt": np.full(4, 1.0), "S2_pt": np.full(4, 0.1), "S2_cpt": np.zeros(4)}
    return np.asarray(law.evaluate({**given, **{k: v for k, v in x.items() if k in law.covariates}}))


def mixed(name: str, **values: float) -> np.ndarray:
    law = load_law(name, shares=["old", "new"])
    given = dict.fromkeys(law.parameters, 0.0) | values
    x = {"old": R, "new": 1 - R, "N": np.full(4, 1e9), "D": np.array([1e9, 3e9, 1e10, 1e8])}
    return np.asarray(law.evaluate({**given, **{k: v for k, v in x.items() if k in law.covariates}}))


def test_the_barrier_of_d_cpt_is_that_of_two_shares() -> None:
    """C/(r + eps)^gamma: a replayed token is worth 1 + eps, and a new one eps."""
    eps = 1e-5
    theirs = replay("d-cpt", A=0.0, alpha=0.3, B=0.0, beta=0.28, C=0.06, gamma=0.3)
    ours = {"u_old": float(np.log1p(eps)), "u_new": float(np.log(eps))}
    np.testing.assert_allclose(mixed("bimix", C=0.06, alpha=0.3, beta=0.28, **ours), theirs, rtol=1e-9)


def test_mixture_scaling_has_chinchilla_kaplan_and_bimix_as_special_cases() -> None:
    """p = 1 adds the limits of size and tokens; p = 1/beta without a floor is kaplan; endless size leaves bimix."""
    own = {"A": 60.0, "alpha": 0.3, "B": 90.0, "beta": 0.28}
    worth = {"u_old": 0.7, "u_new": -1.2}
    np.testing.assert_allclose(mixed("mixture-scaling", E=1.5, p=1.0, **own), replay("chinchilla", E=1.5, **own), rtol=1e-9)
    np.testing.assert_allclose(mixed("mixture-scaling", p=1 / 0.28, **own), replay("kaplan", **own), rtol=1e-9)
    endless = mixed("mixture-scaling", E=1.5, p=1.7, gamma=0.2, **(own | {"A": 0.0}), **worth)
    np.testing.assert_allclose(endless, mixed("bimix", C=1.5, B=90.0, beta=0.28, alpha=0.2, **worth), rtol=1e-9)


def test_mixture_power_without_a_floor_is_bimix_at_one_budget() -> None:
    worth = {"u_old": 0.7, "u_new": -1.2, "alpha": 0.3}
    np.testing.assert_allclose(mixed("mixture-power", k=1.5, **worth), mixed("bimix", C=1.5, **worth), rtol=1e-9)


def test_midtraining_on_new_tokens_is_bimix_of_two_shares() -> None:
    """G/new^gamma with new = (1 - r) D: where the power of tokens is that of their share, and old tokens are worth nothing."""
    theirs = replay("midtraining", E=0.0, A=0.0, alpha=0.3, B=0.0, beta=0.3, G=20.0, gamma=0.2)
    np.testing.assert_allclose(mixed("bimix", B=20.0, beta=0.2, alpha=0.2, u_old=-700.0), theirs, rtol=1e-9)


def test_the_shift_of_cpt_dynamics_is_data_mixing_of_two_shares() -> None:
    """At one schedule without annealing, the target's loss is c - k exp(a2 (1 - r)) (Wang et al. 2025, eq. 8)."""
    own = {"L0": 2.6, "A": 0.5, "alpha": 0.5, "C1": 0.5, "C2": 0.4, "B": 0.2, "E": 40.0, "beta": 0.4, "a1": 0.1, "a2": 1.5}
    moved = 1 - (1 + 40.0 * 1.0) ** -0.4
    c = 2.6 + 0.5 * (5.0 + 1.0) ** -0.5 - 0.5 * 0.1 + 0.2 * moved
    ours = mixed("data-mixing", c=c, k=-0.2 * moved, t_new=1.5, t_old=0.0)
    np.testing.assert_allclose(ours, replay("cpt-dynamics-replay-target", **own), rtol=1e-9)


def test_the_oracles_agree_with_the_cards_at_mixtures(rng: np.random.Generator) -> None:
    for name in ("data-mixing", "mixture-power", "bimix", "mixture-scaling"):
        law = load_law(name)
        x = oracles.design(law)
        np.testing.assert_allclose(
            law.evaluate({**oracles.typical(law), **x}), oracles.LAWS[name](oracles.typical(law), x), rtol=1e-10
        )
