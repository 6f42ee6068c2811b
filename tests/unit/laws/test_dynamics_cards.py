"""Laws of the learning dynamics: identities of eqs. 1, 4 and 8, context covariates, and series of nodes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import CardError, TableError
from bayeslaw.engine.density import Density
from bayeslaw.forecasting.grid import grid
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.formula import Expression, FormulaError
from bayeslaw.laws.law import Law
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules import schedule as schedules
from bayeslaw.schedules.areas import trace
from tests import oracles
from tests.curves import curves
from tests.errors import fails
from tests.fixed import stand_in_fit

BOTH = [n for n in oracles.LAWS if n.startswith("cpt-dynamics") and n != "cpt-dynamics-open"]


def losses(law: Law, table: pd.DataFrame, **changed: float) -> oracles.Array:
    """Losses under typical parameters, some of them changed."""
    draws = {k: [v] for k, v in (oracles.typical(law) | changed).items()}
    loss: oracles.Array = law.predict(draws, {c: table[c] for c in law.covariates})[0]
    return loss


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return curves()


@pytest.fixture(scope="module")
def annealed() -> Fit:
    """Draws of eq. 1 at two peak rates."""
    return stand_in_fit("annealing", oracles.table(load_law("annealing")), draws=200)


@pytest.mark.parametrize("name", BOTH)
def test_there_is_no_shift_before_the_adaptation(name: str, rows: pd.DataFrame) -> None:
    law, before = load_law(name), rows[rows["S1_cpt"] == 0]
    assert len(before)
    np.testing.assert_array_equal(losses(law, before), losses(law, before, B=5.0, C2=3.0, E=1e3))


@pytest.mark.parametrize("name", BOTH)
def test_the_loss_goes_on_over_the_boundary(name: str) -> None:
    """Its last step in pre-training is step 0 of the adaptation, and the first step of that lies a step away."""
    law, first = load_law(name), schedules.wsd(4_000, 3e-4, warmup=100)
    early, end = trace(first, np.array([3_999, 4_000]))
    late, _ = trace(schedules.cosine(1_000, 3e-4, warmup=100), np.array([0, 1]), end, phase="adapt")
    either = pd.concat([early, late]).assign(N=2e8, r=0.3)
    loss = losses(law, either)
    np.testing.assert_allclose(loss[2], loss[1], rtol=1e-14)
    assert abs(loss[3] - loss[2]) < 2e-3


@pytest.mark.parametrize("name", ["cpt-dynamics-replay-source", "cpt-dynamics-replay-target"])
def test_full_replay_leaves_the_curve_of_pre_training(name: str, rows: pd.DataFrame) -> None:
    """With r_cpt = 1 - r = 0 eq. 8 has no shift."""
    law, late = load_law(name), rows[rows["S1_cpt"] > 0].assign(r=1.0)
    np.testing.assert_allclose(losses(law, late), losses(law, late, B=0.0), rtol=1e-15)
    sign = np.sign(losses(law, late.assign(r=0.4)) - losses(law, late.assign(r=0.4), B=0.0))
    assert (sign == (1 if name.endswith("source") else -1)).all()


def test_the_power_laws_are_the_plain_ones_at_one(rows: pd.DataFrame) -> None:
    for plain, power in (("annealing", {"zeta": 1.0}), ("cpt-dynamics", {"zeta1": 1.0, "zeta2": 1.0})):
        np.testing.assert_allclose(losses(load_law(f"{plain}-power"), rows, **power), losses(load_law(plain), rows), rtol=1e-12)


def test_replay_is_empty_in_logs_of_pre_training(rows: pd.DataFrame) -> None:
    law = load_law("cpt-dynamics-replay-source")
    table = rows.assign(loss=losses(law, rows))
    full = oracles.observed(law, table[[*law.covariates, "run", "loss"]])
    table["r"] = table["r"].mask(table["S1_cpt"] == 0)
    seen = oracles.observed(law, table[[*law.covariates, "run", "loss"]])
    assert np.isfinite(seen.covariates["r"]).all()
    np.testing.assert_array_equal(seen.response, full.response)
    table.loc[table["S1_cpt"] > 0, "r"] = np.nan
    with fails("missing-value", "r is missing"):
        oracles.observed(law, table[[*law.covariates, "run", "loss"]])


@pytest.mark.slow
def test_a_term_that_is_zero_in_all_runs_keeps_its_prior() -> None:
    """Constant rates do not identify annealing: its scale is a coordinate of its own, and the density is finite."""
    law = load_law("annealing")
    table = oracles.table(law).assign(S2=0.0)
    observed = oracles.observed(law, table)
    density = Density.of(law, observed, Noise.choose("normal", observed))
    assert density.coordinates.scaled == {"A"}
    value, gradient = density.function()(density.start())
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_forecasts_beyond_the_logged_rates_are_flagged(annealed: Fit) -> None:
    table = oracles.table(load_law("annealing"))
    middle = table[["S1", "S2", "lr_peak"]].median().to_frame().T
    settings = pd.concat([middle, middle.assign(lr_peak=3e-3), middle.assign(lr_peak=0.0), middle.assign(S2=3.0)])
    labels = annealed.forecast(settings, force=True).summary()["extrapolation"].tolist()
    assert labels[0] == labels[2] == "inside"
    assert "lr_peak" in labels[1]
    assert "S2" in labels[3]
    with pytest.raises(TableError, match="lr_peak"):
        annealed.forecast(middle.drop(columns="lr_peak"), force=True)


@pytest.mark.slow
def test_series_cannot_be_gridded_and_need_all_their_columns() -> None:
    law = load_law("multi-power")
    with fails("series-in-grid"):
        grid(law, {"S1": 1.0})
    table = oracles.table(law)
    with fails("missing-column", "fall_1", "fall_24"):
        oracles.observed(law, table[[c for c in table if not str(c).startswith("fall_")]])
    with fails("other-number-of-nodes", "23 columns fall_1", "--nodes 24"):
        oracles.observed(law, table.drop(columns="fall_3"))


CARD = """name = "own"
title = "a law"
source = "here"
loss = "E + total(fall*since**k)"
[covariates]
fall = { unit = "rate", support = [-1, 1], nodes = 3 }
since = { unit = "rate x steps", support = [0, 1e6], nodes = 3 }
rate = { unit = "rate", support = [0, 1], log = true, context = true }
[parameters.E]
meaning = "floor"
prior = { dist = "LogNormal", mu = 0, sigma = 1 }
[parameters.k]
meaning = "exponent"
prior = { dist = "LogNormal", mu = 0, sigma = 1 }
"""

FAULTY = {
    "series-outside-total": ("total(fall*since**k)", "total(fall)*since**k"),
    "total-without-series": ("total(fall*since**k)", "total(k) + total(fall*since)"),
    "nested-total": ("total(fall*since**k)", "total(fall*total(since**k))"),
    "unequal-series": ("1e6], nodes = 3", "1e6], nodes = 4"),
    "not-a-whole-number": ("1e6], nodes = 3", "1e6], nodes = 1.5"),
    "context-in-formula": ("since**k", "since**k*rate"),
    "unused-name": (", context = true", ""),
    "not-a-boolean": ("context = true", "context = 1"),
    "negative-logarithm": ("[0, 1], log", "[-1, 1], log"),
    "name-used-twice": ("since = {", "fall_2 = { unit = '', support = [0, 1], context = true }\nsince = {"),
}


@pytest.mark.parametrize("code", FAULTY)
def test_faults_of_cards_with_series_and_context(code: str) -> None:
    with fails(code, kind=CardError):
        parse_card(CARD.replace(*FAULTY[code]))


def test_a_total_is_the_sum_over_nodes() -> None:
    law = parse_card(CARD)
    assert list(law.covariates) == [*(f"{s}_{k}" for s in ("fall", "since") for k in (1, 2, 3)), "rate"]
    assert law.series == {"fall": ("fall_1", "fall_2", "fall_3"), "since": ("since_1", "since_2", "since_3")}
    assert list(law.axes) == ["rate"]
    columns = {f"fall_{k}": [0.1 * k] for k in (1, 2, 3)} | {f"since_{k}": [float(k)] for k in (1, 2, 3)} | {"rate": [1e-3]}
    assert law.predict({"E": [2.0], "k": [2.0]}, columns)[0, 0] == pytest.approx(2 + 0.1 * (1 + 8 + 27))
    assert law.latex() == r"L = E + \sum_k \mathrm{fall}_{k} \, \mathrm{since}_{k}^{k}"
    with fails("total-without-series", kind=FormulaError):
        Expression.parse("total(a)").evaluate({"a": 1.0})
