"""Priors: texts and tables from which they are read, draws, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayeslaw.core.errors import CardError
from bayeslaw.engine.coordinates import constrain
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import with_by, with_levels
from bayeslaw.laws.prior import Prior, read_priors
from tests.errors import fails

GOOD = {
    "LogNormal(0.5, 0.3)": Prior("LogNormal", {"mu": 0.5, "sigma": 0.3}),
    "LogNormal(mu=0.5, sigma=0.3)": Prior("LogNormal", {"mu": 0.5, "sigma": 0.3}),
    "LogNormal(-1, sigma=2)": Prior("LogNormal", {"mu": -1.0, "sigma": 2.0}),
    " HalfNormal( 1e-2 ) ": Prior("HalfNormal", {"sigma": 0.01}),
    "Gamma(2, 0.1)": Prior("Gamma", {"alpha": 2.0, "beta": 0.1}),
    "Normal(-0.5, 1)": Prior("Normal", {"mu": -0.5, "sigma": 1.0}),
    "StudentT(4, 0, 1)": Prior("StudentT", {"nu": 4.0, "mu": 0.0, "sigma": 1.0}),
    "Beta(2, 3)": Prior("Beta", {"alpha": 2.0, "beta": 3.0}),
    "Uniform(-1, 3)": Prior("Uniform", {"lower": -1.0, "upper": 3.0}),
    "TruncatedNormal(1.7, 0.2, 1, 2.5)": Prior("TruncatedNormal", {"mu": 1.7, "sigma": 0.2, "lower": 1.0, "upper": 2.5}),
}
REFUSED = {
    "not-a-prior": [
        "", "0.5", "LogNormal", "LogNormal(0.5", "LogNormal('a', 1)", "LogNormal(x, 1)", "LogNormal(*[1, 2])",
        "LogNormal(10**400, 1)", "LogNormal(**{'mu': 1})", f"LogNormal(1{'0' * 400}, 1)", "os.system('x')", "__import__('os')",
    ],
    "unknown-distribution": ["Uniforms(0, 1)", "lognormal(0, 1)"],
    "wrong-prior-arguments": [
        "LogNormal(0.5)", "LogNormal()", "LogNormal(1, 2, 3)", "LogNormal(mean=1, sigma=2)", "LogNormal(1, mu=2)",
        "LogNormal(1, sigma=2, sigma=3)",
    ],
    "invalid-prior-number": [
        "LogNormal(0, 0)", "LogNormal(0, -1)", "LogNormal(1e999, 1)", "Gamma(1e999, 1)", "Uniform(1, 1)",
        "Uniform(2, 1)", "TruncatedNormal(0, -1, 0, 1)",
    ],
    "prior-out-of-range": [
        "LogNormal(800, 1)", "Beta(0.01, 1)", "Normal(1e120, 1)", "TruncatedNormal(0, 1, 9, 10)",
        "TruncatedNormal(0, 1, -9, -8.5)",
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_texts_are_read_as_priors(text: str) -> None:
    assert Prior.parse(text) == GOOD[text]


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in REFUSED.items() for text in texts], ids=ascii)
def test_texts_that_are_no_prior_are_refused(code: str, text: str) -> None:
    with fails(code):
        Prior.parse(text)


@pytest.mark.parametrize("prior", GOOD.values(), ids=str)
def test_the_text_of_a_prior_is_read_back(prior: Prior) -> None:
    assert Prior.parse(str(prior)) == prior


@pytest.mark.parametrize(
    ("text", "frozen", "support"),
    [
        ("LogNormal(0.5, 0.3)", stats.lognorm(0.3, scale=np.exp(0.5)), "positive"),
        ("HalfNormal(0.4)", stats.halfnorm(scale=0.4), "positive"),
        ("Gamma(2, 0.1)", stats.gamma(2, scale=10), "positive"),
        ("Normal(-1, 2)", stats.norm(-1, 2), "real"),
        ("StudentT(4, -1, 2)", stats.t(4, -1, 2), "real"),
        ("Beta(2, 3)", stats.beta(2, 3), "unit"),
        ("Uniform(-1, 3)", stats.uniform(-1, 4), "bounded"),
        ("TruncatedNormal(1.7, 0.2, 1.6, 2.5)", stats.truncnorm(-0.5, 4, 1.7, 0.2), "bounded"),
    ],
)
def test_draws_and_quantiles_are_those_of_scipy(
    text: str, frozen: stats.rv_continuous, support: str, rng: np.random.Generator
) -> None:
    prior = Prior.parse(text)
    assert prior.support == support
    shares = np.array([0.025, 0.5, 0.975])
    np.testing.assert_allclose(prior.scipy.ppf(shares), frozen.ppf(shares))
    draws = prior.sample(20_000, rng)
    assert stats.kstest(draws, frozen.cdf).pvalue > 0.001


@pytest.mark.slow
def test_pymc_has_the_same_density() -> None:
    import pymc as pm

    for text in GOOD:
        prior = Prior.parse(text)
        with pm.Model():
            variable = prior.pymc("x")
        x = prior.scipy.ppf([0.1, 0.5, 0.9])
        logp = [float(pm.logp(variable, v).eval(mode="FAST_COMPILE")) for v in x]
        np.testing.assert_allclose(logp, prior.scipy.logpdf(x), atol=1e-6)  # PyMC keeps some constants in single precision


@pytest.mark.parametrize("prior", GOOD.values(), ids=str)
def test_the_real_line_and_back(prior: Prior) -> None:
    values = prior.scipy.ppf([0.01, 0.5, 0.99])
    low, high = prior.bounds
    assert ((low < values) & (values < high)).all()
    np.testing.assert_allclose(constrain(prior, prior.unconstrained(values)), values, rtol=1e-10)


def test_a_parameter_with_bounds_is_neither_floor_nor_amplitude_and_is_not_pooled() -> None:
    law = load_law("chinchilla").with_priors({"E": Prior.parse("Uniform(0.5, 3)"), "B": Prior.parse("Uniform(1, 1e4)")})
    assert (set(law.floors), set(law.amplitudes)) == (set(), {"A"})
    assert {"E", "B"} <= set(law.shapes)
    with fails("bounded-and-pooled", "Uniform(0.5, 3)"):
        with_levels(with_by(law, {"E": "domain"}), {"domain": ("code", "web")})


def test_tables_of_cards_are_read_as_priors() -> None:
    prior = Prior.from_card({"dist": "LogNormal", "mu": 0, "sigma": 1, "on": "A/N**alpha"})
    assert prior.on is not None
    assert str(prior) == "LogNormal(0, 1) on A/N**alpha"
    with fails("no-distribution"):
        Prior.from_card({"mu": 0, "sigma": 1})
    for numbers in ({"mu": 0, "sigma": "x"}, {"mu": 10**400, "sigma": 1}, {"mu": True, "sigma": 1}):
        with fails("invalid-prior-number", "LogNormal"):
            Prior.from_card({"dist": "LogNormal", **numbers})


def test_a_law_takes_other_priors() -> None:
    law = load_law("chinchilla").with_priors({"A": Prior.parse("LogNormal(6, 1)")})
    assert law.parameters["A"].prior == Prior("LogNormal", {"mu": 6.0, "sigma": 1.0})
    assert law.parameters["A"].meaning == load_law("chinchilla").parameters["A"].meaning
    draws = law.sample_prior(2000, {"N": 1e9, "D": 1e10}, np.random.default_rng(0))
    assert np.median(np.log(draws["A"])) == pytest.approx(6, abs=0.1)


def test_a_prior_for_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(CardError) as caught:
        load_law("chinchilla").with_priors({"alfa": Prior.parse("LogNormal(0, 1)")})
    assert str(caught.value) == (
        "alfa is not a parameter of chinchilla. Parameters are E, A, alpha, B, beta. Did you mean 'alpha'?"
    )


def test_a_law_takes_priors_as_text_as_a_fit_does() -> None:
    law, text = load_law("chinchilla"), "Normal(0.3, 0.1)"
    assert law.with_priors({"alpha": text}) == law.with_priors({"alpha": Prior.parse(text)})
    with fails("not-a-prior", "3"):
        law.with_priors({"alpha": 3})  # type: ignore[dict-item]
    with fails("not-a-mapping"):
        law.with_priors([text])  # type: ignore[arg-type]


def test_draws_on_a_terms_value_are_at_the_reference_point(rng: np.random.Generator) -> None:
    law, at = load_law("chinchilla"), {"N": 1e8, "D": 1e10}
    draws = law.sample_prior(20_000, at, rng)
    level = draws["A"] * at["N"] ** -draws["alpha"]
    assert stats.kstest(level, law.parameters["A"].prior.scipy.cdf).pvalue > 0.001


def test_numbers_given_by_name_have_one_order() -> None:
    named = Prior.parse("LogNormal(sigma=0.3, mu=0.5)")
    assert str(named) == "LogNormal(0.5, 0.3)"
    assert named.table == {"dist": "LogNormal", "mu": 0.5, "sigma": 0.3}
    assert str(Prior.from_card({"dist": "Uniform", "upper": 2.0, "lower": 1.0})) == "Uniform(1, 2)"


def test_numbers_of_numpy_are_numbers() -> None:
    given: dict[str, Any] = {"mu": np.float32(0.5), "sigma": np.int64(1)}
    made = Prior("LogNormal", given)
    assert made == Prior("LogNormal", {"mu": 0.5, "sigma": 1.0})
    assert [type(value) for value in made.args.values()] == [float, int]


def test_equal_priors_and_laws_are_one_key() -> None:
    first, again = Prior("Normal", {"mu": 2, "sigma": 1}), Prior.parse("Normal(2, 1)")
    assert first == again
    assert {first: "a"}[again] == "a"
    law, changed = load_law("chinchilla"), load_law("chinchilla").with_priors({"E": first})
    assert {law: "a", changed: "b"} == {load_law("chinchilla"): "a", law.with_priors({"E": again}): "b"}
    assert len({parameter.prior for parameter in law.parameters.values()}) == 5


@pytest.mark.parametrize("given", [3, None, ("LogNormal", 0, 1)])
def test_what_is_no_text_is_no_prior(given: Any) -> None:
    with fails("not-a-prior", repr(given)):
        Prior.parse(given)


def test_the_expression_of_a_prior_may_be_given_as_its_text() -> None:
    """It was kept as a text, on which everything that reads it failed."""
    card = load_law("chinchilla").parameters["A"].prior
    assert Prior(card.dist, card.args, "A/N**alpha") == card
    for wrong in (3, "A/", ""):
        with fails("not-a-formula" if wrong == "A/" else "not-a-text"):
            Prior(card.dist, card.args, wrong)  # type: ignore[arg-type]


def test_an_error_in_one_of_several_priors_names_its_parameter() -> None:
    """`fit(priors={'E': 'LogNormal(0.3)', …})` said that sigma is missing, and not of which prior."""
    with fails("wrong-prior-arguments", "prior of alpha", "sigma is missing"):
        read_priors({"E": "LogNormal(0.5, 0.3)", "alpha": "LogNormal(0.3)"})
    with fails("not-a-prior", "prior of alpha"):
        load_law("chinchilla").with_priors({"alpha": "narrow"})
