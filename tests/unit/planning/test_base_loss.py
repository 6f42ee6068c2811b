"""Base losses: measured, by the law, and stated."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest

from bayeslaw.laws.card import parse_card
from bayeslaw.noise.custom import PointNoise
from bayeslaw.planning.base_loss import BaseLoss, base_loss, base_losses, start_of
from bayeslaw.planning.domain_loss import domain_loss
from bayeslaw.planning.plan import plan
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import fixed_fit
from tests.posteriors import BASE, MODEL, SOURCE, START, law_named, posterior, scattered, starting

SIZE = 2000
SMALL = {"N": 1e9, "ptpp": 31.0}  # a model for the laws of transfer


def with_base_rows(*losses: float, **columns: Any) -> Fit:
    """A fit of `ptpp-floor` whose table has rows with D = 0; the noise of a logged loss is .003."""
    base = pd.DataFrame({"run": [f"base {i}" for i in range(len(losses))], "D": 0.0, "loss": losses} | MODEL | columns)
    table = pd.concat([oracles.table(law_named("ptpp-floor"), runs=4), base])
    if "loss_se" in table:
        table["loss_se"] = table["loss_se"].fillna(0.001)
    return posterior("ptpp-floor", scattered(SOURCE, SIZE, 1, 0.006), frame=table, seed=1)


def base_of(fit: Fit, given: str = "measured", levels: dict[str, str] | None = None) -> BaseLoss:
    model = SMALL if fit.law.name.startswith("transfer") else MODEL
    corners = pd.DataFrame([{"D": 1e9, "r": 0.3}, {"D": 1e11, "r": 0.3}])
    return base_loss(domain_loss("source", fit, model, levels or {}, corners), given, 0)


def sd(base: BaseLoss) -> float:
    """Standard deviation of a base loss's error."""
    return float(base.log.std())


def test_a_law_whose_loss_at_the_start_depends_on_replay_has_no_base_loss() -> None:
    card = """
    name = "mixed-start"
    title = "a law for a test"
    source = "none"
    loss = "E*(1 + c*r) + B/(1 + D/1e9)**0.3"
    covariates = { D = { unit = "tokens", support = [0, 1e15] }, r = { unit = "share", support = [0, 1] } }
    parameters.E = { meaning = "floor", prior = { dist = "LogNormal", mu = 0.0, sigma = 0.5 } }
    parameters.c = { meaning = "rise by replay", prior = { dist = "LogNormal", mu = -2.0, sigma = 0.5 } }
    parameters.B = { meaning = "gain", prior = { dist = "LogNormal", mu = 0.0, sigma = 0.5 } }
    """
    law = parse_card(card)
    frame = pd.DataFrame({"D": [1e9, 2e9, 4e9], "r": [0.1, 0.2, 0.3], "loss": [2.0, 1.9, 1.8], "run": ["a", "b", "c"]})
    fit = posterior(law, scattered({"E": 1.0, "c": 0.1, "B": 1.0}, 400, 1), frame=frame)
    corners = pd.DataFrame([{"D": 1e9, "r": 0.3}, {"D": 1e10, "r": 0.3}])
    loss = domain_loss("source", fit, {}, {}, corners)
    for given in ("law", "measured"):
        with fails("infinite-base-loss" if given == "law" else "unknown-base-loss", "mixed-start depends on r at D = 0"):
            base_loss(loss, given, 0)
    assert base_loss(loss, "2.0", 0).kind == "stated"


def test_a_measured_base_loss_has_the_error_of_one_logged_loss() -> None:
    base = base_of(with_base_rows(BASE))
    assert base.kind == "measured"
    assert np.exp(base.log).mean() == pytest.approx(BASE, rel=1e-3)
    assert sd(base) == pytest.approx(0.003, rel=0.1)


def test_a_measured_base_loss_has_the_error_of_a_noise_given_by_a_function() -> None:
    fit = with_base_rows(BASE)

    def gaussian(error: Any, sigma_run: Any = "LogNormal(-5, 1)") -> Any:
        return -0.5 * (error / sigma_run) ** 2 - pt.log(sigma_run)

    table = fit.observed
    base = base_of(replace(fit, noise=PointNoise.of(gaussian, replace(table, se=np.empty(0)))))
    assert sd(base) == pytest.approx(0.002, rel=0.1)  # the draws of sigma_run


def test_a_stated_base_loss_far_from_the_measured_one_is_told() -> None:
    fit = with_base_rows(BASE)
    assert "ALTHOUGH" not in base_of(fit, f"{1.015 * BASE}").text
    assert "ALTHOUGH" not in base_of(fit, f"{1.05 * BASE}+-{0.02 * BASE}").text
    assert f"ALTHOUGH ROWS AT D = 0 OF THIS MODEL HAVE {BASE:.4g} nats/token" in base_of(fit, f"{np.exp(BASE)}").text


def test_the_error_of_a_base_loss_is_called_a_standard_error() -> None:
    fit = with_base_rows(BASE)
    assert "1.5 nats/token with a standard error of 0.1, as stated" in base_of(fit, "1.5+-0.1").text
    assert f"{BASE:.4g} nats/token with a standard error of 0.0" in base_of(fit).text


def test_the_spread_of_several_base_checkpoints_is_their_error() -> None:
    assert sd(base_of(with_base_rows(BASE * 1.01, BASE * 0.99))) == pytest.approx(0.01, rel=0.1)


def test_a_stated_base_loss_has_the_stated_error() -> None:
    stated = base_of(with_base_rows(BASE), f"{BASE}+-0.01")
    assert stated.kind == "stated"
    assert sd(stated) == pytest.approx(0.01 / BASE, rel=0.1)


def test_a_law_that_is_finite_at_no_tokens_gives_the_base_loss() -> None:
    law = law_named("transfer-source")
    fit = posterior(law, scattered(oracles.typical(law), SIZE, 4, 0.004), seed=4)
    base = base_of(fit, "law")
    assert base.kind == "law"
    np.testing.assert_allclose(np.exp(base.log), oracles.transfer_source(fit.draws, SMALL | {"D": 0.0, "r": 0.5}), rtol=1e-9)


@pytest.mark.slow
def test_known_errors_of_a_base_loss_are_added_to_the_noise() -> None:
    """As they are in the fit of a law: an error of 0 is no noise of 0."""
    assert sd(base_of(with_base_rows(BASE, loss_se=0.02))) == pytest.approx(math.hypot(0.003, 0.02 / BASE), rel=0.05)
    mixed = base_of(with_base_rows(BASE, BASE * 1.0001, loss_se=[0.0, 0.02]))
    assert sd(mixed) == pytest.approx(math.sqrt((0.003**2 + (0.02 / BASE) ** 2 / 2) / 2), rel=0.05)


@pytest.mark.slow
def test_copies_of_one_evaluation_count_once() -> None:
    """Every run of a branch logs its checkpoint's loss; other seeds that reach the same loss are other evaluations."""
    copies = base_of(with_base_rows(*[BASE] * 9))
    np.testing.assert_array_equal(copies.log, base_of(with_base_rows(BASE)).log)
    assert sd(base_of(with_base_rows(*[BASE] * 9, seed=range(9)))) == pytest.approx(0.001, rel=0.05)
    assert sd(base_of(with_base_rows(*[BASE] * 4, BASE * 1.0001))) == pytest.approx(0.003 / math.sqrt(2), rel=0.05)


def test_copies_in_a_fit_that_has_its_base_rows_count_once() -> None:
    law = law_named("transfer-source")
    base = pd.DataFrame({"run": [f"base {i}" for i in range(9)], "D": 0.0, "r": 0.5, "loss": 2.5} | SMALL)
    fit = posterior(law, scattered(oracles.typical(law), SIZE, 4, 0.004), frame=pd.concat([oracles.table(law), base]))
    assert sd(base_of(fit)) == pytest.approx(0.003, rel=0.05)


@pytest.mark.slow
def test_the_noise_of_a_base_loss_is_that_of_its_group() -> None:
    """Where the noise differs by a column; if that column is empty, the largest noise."""
    law = law_named("ptpp-floor")
    base = pd.DataFrame({"run": ["bt", "bs"], "D": 0.0, "loss": [2.5, 2.3]} | MODEL)
    logged = oracles.table(law)
    domains = [logged.assign(domain=d, run=d + logged["run"].astype(str)) for d in ("target", "source")]
    values = {k: np.full(SIZE, v) for k, v in oracles.typical(law).items()}
    values |= {"E_target": values["E"], "E_source": values["E"], "E_spread": np.full(SIZE, 0.1)}
    values |= {f"sigma_point[{d}]": np.full(SIZE, s) for d, s in (("target", 0.02), ("source", 0.001))}
    values |= {f"sigma_run[{d}]": np.full(SIZE, 0.002) for d in ("target", "source")}
    table = pd.concat([*domains, base.assign(domain=["target", "source"])], ignore_index=True)
    both = fixed_fit(law, table, values, noise="normal", noise_by="domain", by={"E": "domain"})
    assert sd(base_of(both, levels={"domain": "source"})) == pytest.approx(0.001, rel=0.05)
    assert sd(base_of(both, levels={"domain": "target"})) == pytest.approx(0.02, rel=0.05)
    labs = pd.concat([*(d.assign(lab=d["domain"]).drop(columns="domain") for d in domains), base[1:].assign(lab=None)])
    common = {k: v for k, v in values.items() if not k.startswith("E_")}
    assert sd(base_of(fixed_fit(law, labs, common, noise="normal", noise_by="lab"))) == pytest.approx(0.02, rel=0.05)


# --- laws that start at a measured base loss --------------------------------------------------------------------------


def test_such_laws_start_at_the_mean_of_the_measured_rows_of_the_model() -> None:
    assert start_of("source", starting(2.98, 3.02), START, None) == {"base_loss": pytest.approx(3.0)}
    assert start_of("source", starting(2.9), START, {"another": 2.0}) == {"base_loss": 2.9}


def test_a_stated_base_loss_and_one_among_the_settings_come_first() -> None:
    fit = starting(2.9)
    assert start_of("source", fit, START, "2.7+-0.01") == start_of("source", fit, START, {"source": 2.7}) == {"base_loss": 2.7}
    assert start_of("source", fit, START | {"base_loss": 2.6}, None) == {}
    assert start_of("source", fit, START | {"base_loss": 2.6}, "2.6+-0.01") == {}


def test_a_base_loss_of_zero_is_no_missing_one() -> None:
    fit = starting(2.9)
    with fails("impossible-base-loss", "'0'"):
        start_of("source", fit, START, 0)
    source = domain_loss("source", fit, START | {"base_loss": 2.9}, {}, pd.DataFrame([{"D": 1e8, "r": 0.3}]))
    with fails("impossible-base-loss", "'0'"):
        base_losses([source], {"source": 0}, 0, 2.9)


def test_two_base_losses_of_one_checkpoint_are_refused() -> None:
    with fails("several-base-losses", "2.5 to 3", "base_loss"):
        start_of("source", starting(2.5, 3.0), START, None)
    with fails("two-base-losses", "2.6 among the settings, 2.7 by --base-loss (base_loss=)"):
        start_of("source", starting(2.9), START | {"base_loss": 2.6}, 2.7)


def test_other_laws_need_no_start_and_an_unknown_one_is_asked_for() -> None:
    assert start_of("source", with_base_rows(BASE), MODEL, None) == {}
    with fails("unknown-base-loss", "from-base-source", "--base-loss 2.31"):
        start_of("source", starting(2.9), START | {"ptpp": 31.5}, None)


def test_forgetting_is_counted_from_where_the_law_starts() -> None:
    fit, corners = starting(2.9), pd.DataFrame([{"D": 1e8, "r": 0.3}, {"D": 1e9, "r": 0.3}])
    source = domain_loss("source", fit, START | {"base_loss": 2.6}, {}, corners)
    np.testing.assert_allclose(np.exp(base_losses([source], None, 0, 2.6)["source"].log), 2.6)
    base = base_losses([source], None, 0)["source"]  # measured at D = 0, with the noise of a logged loss
    assert base.kind == "measured"
    assert np.exp(base.log.mean()) == pytest.approx(2.9, rel=1e-3)


def test_several_measured_base_rows_count_for_a_law_that_starts_at_their_mean() -> None:
    corners = pd.DataFrame([{"D": 1e8, "r": 0.3}, {"D": 1e9, "r": 0.3}])
    source = domain_loss("source", starting(2.89, 2.91), START | {"base_loss": 2.9}, {}, corners)
    base = base_loss(source, "measured", 0)
    assert np.exp(base.log.mean()) == pytest.approx(2.9, rel=1e-3)
    assert sd(base) == pytest.approx(0.01 / 2.9, rel=0.1)  # six standard errors of the sd of 2,000 draws


@pytest.mark.slow
def test_the_error_of_a_base_loss_moves_forgetting_and_the_loss_alike() -> None:
    """The law starts at the draws of the base loss from which forgetting is counted."""
    fit = starting(2.9)
    asked: dict[str, Any] = {"on": "latent", "max_forgetting": "20%", "tokens": 1e8, "replay": 0.3, "discrepancy": "none"}
    made = plan(fit, None, START, base_loss="2.9+-0.1", minimise="source-loss", **asked)
    base = np.exp(made.base_losses["source"].log)
    at = {"D": 1e8, "r": 0.3, "base_loss": base} | START
    expected = oracles.from_base_source(fit.draws, {k: np.asarray(v) for k, v in at.items()})
    shown = made.losses.loc["loss of source (nats/token)", ["eti90_lb", "eti90_ub"]].to_numpy(dtype=float)
    # Plans take the nearest draw for a quantile, and those of 2,000 draws lie less than a thousandth apart there.
    np.testing.assert_allclose(shown, np.quantile(expected, [0.05, 0.95]), rtol=1e-3)
    risen = made.losses.loc["forgetting of source (relative)", ["eti90_lb", "eti90_ub"]].to_numpy(dtype=float)
    np.testing.assert_allclose(risen, np.quantile(expected / base - 1, [0.05, 0.95]), rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_a_plan_starts_at_the_stated_base_loss() -> None:
    fit = starting(2.9)
    asked: dict[str, Any] = {"on": "latent", "max_forgetting": "20%", "minimise": "source-loss", "tokens": 1e8}
    stated = plan(fit, None, START, base_loss="2.6", **asked)
    assert stated.losses.equals(plan(fit, None, START | {"base_loss": 2.6}, **asked).losses)
    assert not stated.losses.equals(plan(fit, None, START, **asked).losses)  # measured, 2.9
