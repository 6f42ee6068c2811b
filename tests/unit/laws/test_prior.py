"""Priors: read from cards and texts, drawn, refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayeslaw.core.errors import BayeslawError, CardError
from bayeslaw.laws.card import load_law
from bayeslaw.laws.prior import Prior

GOOD = {
    "LogNormal(0.5, 0.3)": Prior("LogNormal", {"mu": 0.5, "sigma": 0.3}),
    "LogNormal(mu=0.5, sigma=0.3)": Prior("LogNormal", {"mu": 0.5, "sigma": 0.3}),
    "LogNormal(-1, sigma=2)": Prior("LogNormal", {"mu": -1.0, "sigma": 2.0}),
    " HalfNormal( 1e-2 ) ": Prior("HalfNormal", {"sigma": 0.01}),
    "Gamma(2, 0.1)": Prior("Gamma", {"alpha": 2.0, "beta": 0.1}),
    "Normal(-0.5, 1)": Prior("Normal", {"mu": -0.5, "sigma": 1.0}),
    "StudentT(4, 0, 1)": Prior("StudentT", {"nu": 4.0, "mu": 0.0, "sigma": 1.0}),
    "Beta(2, 3)": Prior("Beta", {"alpha": 2.0, "beta": 3.0}),
}
NOT_A_PRIOR = "is not a prior; write it like LogNormal(0.5, 0.3)."
BAD = {
    "": f"'' {NOT_A_PRIOR}",
    "0.5": f"'0.5' {NOT_A_PRIOR}",
    "LogNormal": f"'LogNormal' {NOT_A_PRIOR}",
    "LogNormal(0.5": f"'LogNormal(0.5' {NOT_A_PRIOR}",
    "LogNormal('a', 1)": f"\"LogNormal('a', 1)\" {NOT_A_PRIOR}",
    "LogNormal(x, 1)": f"'LogNormal(x, 1)' {NOT_A_PRIOR}",
    "LogNormal(*[1, 2])": f"'LogNormal(*[1, 2])' {NOT_A_PRIOR}",
    "LogNormal(**{'mu': 1})": f"\"LogNormal(**{{'mu': 1}})\" {NOT_A_PRIOR}",
    "LogNormal(10**400, 1)": f"'LogNormal(10**400, 1)' {NOT_A_PRIOR}",
    f"LogNormal(1{'0' * 400}, 1)": NOT_A_PRIOR,
    "os.system('x')": f"\"os.system('x')\" {NOT_A_PRIOR}",
    "__import__('os')": f"\"__import__('os')\" {NOT_A_PRIOR}",
    "LogNormal(__import__('os'), 1)": NOT_A_PRIOR,
    "\0": NOT_A_PRIOR,
    "Uniform(0, 1)": "No prior distribution 'Uniform'; known are LogNormal, HalfNormal, Gamma, Normal, StudentT, Beta.",
    "lognormal(0, 1)": "known are LogNormal, HalfNormal, Gamma, Normal, StudentT, Beta. Did you mean 'LogNormal'?",
    "LogNormal(0.5)": "LogNormal takes mu, sigma, not mu.",
    "LogNormal()": "LogNormal takes mu, sigma, not nothing.",
    "LogNormal(1, 2, 3)": "LogNormal takes 2 numbers (mu, sigma): 'LogNormal(1, 2, 3)' has 3.",
    "LogNormal(mean=1, sigma=2)": "LogNormal takes mu, sigma, not mean, sigma.",
    "LogNormal(1, mu=2)": "'LogNormal(1, mu=2)' gives mu twice.",
    "LogNormal(0, 0)": "sigma = 0.0 of LogNormal is not a positive number.",
    "LogNormal(0, -1)": "sigma = -1.0 of LogNormal is not a positive number.",
    "LogNormal(1e999, 1)": "mu = inf of LogNormal is not a finite number.",
    "Gamma(1e999, 1)": "alpha = inf of Gamma is not a positive number.",
}


@pytest.mark.parametrize("text", GOOD)
def test_parse(text: str) -> None:
    assert Prior.parse(text) == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(BayeslawError) as caught:
        Prior.parse(text)
    assert BAD[text] in str(caught.value)


@pytest.mark.parametrize("prior", GOOD.values(), ids=str)
def test_text_is_read_back(prior: Prior) -> None:
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
    ],
)
def test_draws_and_quantiles(text: str, frozen: stats.rv_continuous, support: str, rng: np.random.Generator) -> None:
    prior = Prior.parse(text)
    assert prior.support == support
    shares = np.array([0.025, 0.5, 0.975])
    np.testing.assert_allclose(prior.scipy.ppf(shares), frozen.ppf(shares))
    draws = prior.sample(20_000, rng)
    assert stats.kstest(draws, frozen.cdf).pvalue > 0.001


def test_pymc_has_the_same_density() -> None:
    import pymc as pm

    for text in GOOD:
        prior = Prior.parse(text)
        with pm.Model():
            variable = prior.pymc("x")
        x = prior.scipy.ppf([0.1, 0.5, 0.9])
        logp = [float(pm.logp(variable, v).eval(mode="FAST_COMPILE")) for v in x]
        np.testing.assert_allclose(logp, prior.scipy.logpdf(x), atol=1e-6)  # PyMC keeps some constants in single precision


def test_card_tables() -> None:
    prior = Prior.from_card({"dist": "LogNormal", "mu": 0, "sigma": 1, "on": "A/N**alpha"})
    assert prior.on is not None
    assert str(prior) == "LogNormal(0, 1) on A/N**alpha"
    with pytest.raises(BayeslawError, match="a prior needs `dist`"):
        Prior.from_card({"mu": 0, "sigma": 1})
    with pytest.raises(BayeslawError, match="sigma = 'x' of LogNormal is not a positive number"):
        Prior.from_card({"dist": "LogNormal", "mu": 0, "sigma": "x"})
    with pytest.raises(BayeslawError, match="0 of LogNormal is not a finite number"):
        Prior.from_card({"dist": "LogNormal", "mu": 10**400, "sigma": 1})
    with pytest.raises(BayeslawError, match="mu = True of LogNormal is not a finite number"):
        Prior.from_card({"dist": "LogNormal", "mu": True, "sigma": 1})


def test_other_priors_for_a_law() -> None:
    law = load_law("chinchilla").with_priors({"A": Prior.parse("LogNormal(6, 1)")})
    assert law.parameters["A"].prior == Prior("LogNormal", {"mu": 6.0, "sigma": 1.0})
    assert law.parameters["A"].meaning == load_law("chinchilla").parameters["A"].meaning
    draws = law.sample_prior(2000, {"N": 1e9, "D": 1e10}, np.random.default_rng(0))
    assert np.median(np.log(draws["A"])) == pytest.approx(6, abs=0.1)


def test_a_prior_for_an_unknown_parameter() -> None:
    with pytest.raises(CardError) as caught:
        load_law("chinchilla").with_priors({"alfa": Prior.parse("LogNormal(0, 1)")})
    assert str(caught.value) == (
        "alfa is not a parameter of chinchilla. Parameters are E, A, alpha, B, beta. Did you mean 'alpha'?"
    )


def test_draws_on_a_terms_value_are_at_the_reference_point(rng: np.random.Generator) -> None:
    law, at = load_law("chinchilla"), {"N": 1e8, "D": 1e10}
    draws = law.sample_prior(20_000, at, rng)
    level = draws["A"] * at["N"] ** -draws["alpha"]
    assert stats.kstest(level, law.parameters["A"].prior.scipy.cdf).pvalue > 0.001
