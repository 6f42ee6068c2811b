"""Parameters that vary by a column: the law they make, its density, and a fit of two domains at once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError, CardError, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.validate import check
from bayeslaw.engine.density import Density
from bayeslaw.forecasting.grid import grid
from bayeslaw.inference.fit import fit
from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.noise.noise import Noise
from tests import oracles
from tests.commands import Command, refused
from tests.fixed import loaded_fit
from tests.unit.engine.test_density import assert_true_gradient
from tests.unit.inference.test_model import assert_models_density

BY = {"E": "domain", "alpha": "domain"}
LEVELS = {"domain": ("web", "code (py)")}
VALUES = {"E": (1.6, 0.8), "A": (40.0, 40.0), "alpha": (0.3, 0.28), "B": (90.0, 90.0), "beta": (0.28, 0.28)}


def two_domains(seed: int = 0, noise: float = 0.003) -> pd.DataFrame:
    """Chinchilla's law with a floor and an exponent for each domain, 5 N x 8 D each, noise on single points."""
    parts = []
    for i, domain in enumerate(LEVELS["domain"]):
        frame = pd.DataFrame([{"N": n, "D": d} for n in np.geomspace(1e7, 1e9, 5) for d in np.geomspace(1e8, 1e10, 8)])
        loss = oracles.chinchilla({k: v[i] for k, v in VALUES.items()}, dict(frame))
        parts.append(frame.assign(domain=domain, loss=loss * np.exp(noise * np.random.default_rng([seed, i]).standard_normal(40))))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def made() -> Law:
    return with_levels(with_by(load_law("chinchilla"), BY), LEVELS)


def observed(law: Law, frame: pd.DataFrame | None = None) -> Observations:
    return Observations.of(law, oracles.runs(two_domains() if frame is None else frame))


def test_values_are_texts_in_latex() -> None:
    law = with_levels(with_by(load_law("chinchilla"), {"E": "domain"}), {"domain": ("web", "50% & a_b")})
    assert [law.parameters[name].latex for name in law.parameters if name.startswith("E_")][1:] == [
        r"E^{(\mathrm{web})}", r"E^{(\text{50\% \& a\_b})}",
    ]  # fmt: skip


def test_each_value_has_parameters_of_its_own(made: Law) -> None:
    names = ["E", "E_spread", "E_web", "E_code__py_", "A", "alpha", "alpha_spread", "alpha_web", "alpha_code__py_", "B", "beta"]
    assert list(made.parameters) == names
    assert made.parameters["E_web"].around == ("E", "E_spread")
    assert made.parameters["E_web"].meaning == "irreducible loss: domain web"
    assert made.floors == {"E_web": "domain_web", "E_code__py_": "domain_code__py_"}
    assert set(made.amplitudes) == {"A", "B"}
    assert made.levels == LEVELS
    assert list(made.measured) == ["N", "D"]


def test_the_loss_of_a_row_is_that_of_its_value(made: Law) -> None:
    frame = two_domains(noise=0.0)
    draws = {"A": 40.0, "B": 90.0, "beta": 0.28, "E": 9.0, "alpha": 9.0, "E_spread": 1.0, "alpha_spread": 1.0}
    draws |= {f"{k}_{s}": VALUES[k][i] for i, s in enumerate(("web", "code__py_")) for k in BY}
    rows = observed(made, frame)
    losses = made.predict({k: [v] for k, v in draws.items()}, rows.covariates)[0]
    np.testing.assert_allclose(losses, frame["loss"][rows.rows - 1], rtol=1e-12)


def test_lets_are_copied_with_what_they_use() -> None:
    card = load_law("ptpp-gate-floor").card
    law = with_levels(with_by(parse_card(card), {"beta": "domain"}), {"domain": ("a", "b")})
    assert {"beta_eff_a", "beta_eff_b", "eps"} <= set(law.let)
    assert "beta_b" in law.let["beta_eff_b"].names
    assert law.floors == {"E": None}


def test_two_columns() -> None:
    levels = {"domain": ("a", "b"), "set": ("x", "y", "z")}
    law = with_levels(with_by(load_law("chinchilla"), {"E": "domain", "A": "set"}), levels)
    assert set(law.floors) == {"E_a", "E_b"}
    assert set(law.amplitudes) == {"A_x", "A_y", "A_z", "B"}
    assert law.parameters["A_y"].prior.on is not None
    assert law.parameters["A_y"].prior.on.names == {"A_y", "N", "alpha"}
    frame = two_domains().assign(domain="a", set="y")
    frame.loc[40:, ["domain", "set"]] = ["b", "x"]
    frame.loc[0, "set"] = "z"
    density = Density.of(law, observed(law, frame), Noise(False, False))
    assert_true_gradient(density.function(), density.start())


def test_prior_draws_vary_around_the_typical_value(made: Law) -> None:
    draws = made.sample_prior(20_000, {"N": 1e8, "D": 1e9, "domain_web": 0.5, "domain_code__py_": 0.5}, np.random.default_rng(0))
    z = np.log(draws["E_web"] / draws["E"]) / draws["E_spread"]
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert z.std() == pytest.approx(1.0, rel=0.03)
    assert np.corrcoef(z, np.log(draws["E_code__py_"] / draws["E"]) / draws["E_spread"])[0, 1] == pytest.approx(0, abs=0.04)


def test_a_value_without_a_spread_of_its_own(made: Law) -> None:
    """Unpooled, each value has the parameter's prior and there is nothing typical."""
    law = with_levels(with_by(load_law("chinchilla"), BY), LEVELS, pooled=False)
    assert list(law.parameters) == ["E_web", "E_code__py_", "A", "alpha_web", "alpha_code__py_", "B", "beta"]
    assert all(p.around is None for p in law.parameters.values())


@pytest.mark.parametrize("by", [BY, {"A": "domain"}, {"A": "domain", "alpha": "domain"}])
def test_density_is_the_models_up_to_a_constant(by: dict[str, str], rng: np.random.Generator) -> None:
    law = with_levels(with_by(load_law("chinchilla"), by), LEVELS)
    rows = observed(law)
    logp = assert_models_density(law, rows, "normal", rng)
    start = Density.of(law, rows, Noise.choose("normal", rows)).start()
    for _ in range(3):
        assert_true_gradient(logp, start + 0.1 * rng.standard_normal(start.size))


SMALL = """
name = "small"
title = "a share and a real exponent"
source = "here"
loss = "E + A*(1 - lam*r)*r**zeta"
[covariates]
r = { unit = "share", support = [0, 1] }
[parameters.E]
meaning = "floor"
prior = { dist = "LogNormal", mu = 0.5, sigma = 0.3 }
[parameters.A]
meaning = "scale"
prior = { dist = "LogNormal", mu = 0.5, sigma = 0.3 }
[parameters.lam]
meaning = "share"
prior = { dist = "Beta", alpha = 2, beta = 2 }
[parameters.zeta]
meaning = "exponent"
prior = { dist = "Normal", mu = 0, sigma = 1 }
"""


def test_shares_and_real_parameters_vary_too(rng: np.random.Generator) -> None:
    law = with_levels(with_by(parse_card(SMALL), {"lam": "set", "zeta": "set"}), {"set": ("p", "q")})
    assert law.parameters["lam_p"].prior.support == "unit"
    r = np.linspace(0.1, 0.9, 12)
    frame = pd.DataFrame({"r": r, "set": ["p", "q"] * 6, "run": list("aabbccddeeff"), "loss": 2 + r}).drop(columns="run")
    rows = observed(law, frame)
    assert_models_density(law, rows, "normal", rng)


def test_a_fit_of_two_domains(tmp_path: Any) -> None:
    """Each domain's floor within 4 sd of its truth, forecasts by domain, and the file read back."""
    made = fit("chinchilla", two_domains(), by=BY, noise="normal", progress=False)
    assert made.passed, made.checks
    table = made.summary()
    for name, truth in {"E_web": 1.6, "E_code__py_": 0.8, "alpha_web": 0.3, "alpha_code__py_": 0.28}.items():
        assert abs(table["mean"][name] - truth) < 4 * table["sd"][name]
    settings = grid(made.law, {"N": 3e9, "D": 3e10, "domain": "web,code (py)"})
    forecast = made.forecast(settings).summary()
    losses = [float(oracles.chinchilla({k: v[i] for k, v in VALUES.items()}, {"N": 3e9, "D": 3e10})) for i in range(2)]
    np.testing.assert_allclose(forecast["latent_median"], losses, rtol=0.02)
    made.save(tmp_path / "fit.nc")
    loaded = loaded_fit(tmp_path / "fit.nc")
    assert loaded.law.parameters == made.law.parameters
    pd.testing.assert_frame_equal(loaded.forecast(settings).summary(), forecast)
    with pytest.raises(TableError, match=re.escape("domain 'books' is not among web, code (py)")):
        made.forecast(settings.assign(domain="books"))
    with pytest.raises(TableError, match="column domain is missing"):
        made.forecast(settings.drop(columns="domain"))


def test_a_point_fit_is_not_pooled() -> None:
    made = point_fit(with_by(load_law("chinchilla"), BY), two_domains(noise=0.0), starts=20)
    assert made.parameters["E_web"] == pytest.approx(1.6, rel=0.01)
    assert made.parameters["E_code__py_"] == pytest.approx(0.8, rel=0.01)


@pytest.mark.parametrize(
    ("by", "change", "text"),
    [
        ({"E": "domian"}, {}, "E of chinchilla varies by 'domian', and the table has no such column. Did you mean 'domain'?"),
        ({"E": "domain"}, {"domain": "web"}, "E of chinchilla varies by domain, which has 1 value (web), not 2 to 40."),
        ({"E": "domain"}, {"domain": None}, "E of chinchilla varies by domain, which is empty at row 1."),
        ({"Q": "domain"}, {}, "Q is not a parameter of chinchilla."),
    ],
)
def test_what_cannot_vary(by: dict[str, str], change: dict[str, Any], text: str) -> None:
    frame = two_domains().assign(**change)
    with pytest.raises(BayeslawError, match=re.escape(text)):
        levels_of(with_by(load_law("chinchilla"), by), oracles.runs(frame).frame)


def test_a_card_says_what_varies() -> None:
    card = load_law("chinchilla").card.replace('meaning = "irreducible loss"', 'meaning = "irreducible loss"\nby = "domain"')
    law = parse_card(card)
    assert law.parameters["E"].by == "domain"
    assert not check(oracles.runs(two_domains()), with_levels(law, levels_of(law, two_domains())))
    with pytest.raises(CardError, match="`by` of E must name a column, not 3"):
        parse_card(card.replace('by = "domain"', "by = 3"))


def test_on_the_command_line(command: Command, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit with a floor and a noise for each domain, its forecast, and what is refused."""
    monkeypatch.chdir(tmp_path)
    two_domains().to_csv("two.csv", index=False)
    law = ("fit", "chinchilla", "two.csv", "-o", "two.nc", "-q", "--noise", "normal", "--draws", "300", "--tune", "200")
    done = command(*law, "--by", "E=domain", "--noise-by", "domain")
    assert done.status == 0, done.err
    assert "for each of 2 groups (web, code (py))" in done.out
    shown = command("show", "two.nc", "--force").out
    assert "E_code__py_" in shown
    assert "sigma_point[web]" in shown
    at = ("--set", "N=1e9", "--set", "D=1e10")
    made = command("forecast", "two.nc", *at, "--set", "domain=web,code (py)", "--force", "-o", "two-forecast.csv")
    assert made.status == 0, made.err
    assert pd.read_csv("two-forecast.csv")["domain"].tolist() == ["web", "code (py)"]
    refused(command("forecast", "two.nc", *at), "chinchilla needs N, D, domain; give domain too.")
    refused(command("forecast", "two.nc", *at, "--set", "domain=books", "--force"), "domain 'books' is not among web, code (py)")
    refused(command(*law, "--by", "E:domain"), "--by 'E:domain' is not of the form PARAMETER=COLUMN, such as E=domain.")
    refused(command(*law, "--by", "E=domain", "--noise-by", "size"), "There is no column 'size' for noise to differ by.")
