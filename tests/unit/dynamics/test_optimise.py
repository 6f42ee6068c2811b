"""The best recipe for two domains, against brute force over the same draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.dynamics.optimise import Objective, Space, balance, balance_curve, unit
from bayeslaw.dynamics.recipe import Recipe, losses, with_option
from bayeslaw.schedules.areas import OPEN
from tests.dynamics import SOURCE, TARGET, dynamics_fit, fits

PRETRAIN = "wsd:steps=8000,peak=2e-4,warmup=200,final=0.5"
RECIPE = Recipe(PRETRAIN, "cosine:steps=2000,peak=2e-4,warmup=100")
PEAKS = {"peak": (1e-5, 1e-3)}


def brute(recipe: Recipe, choices: list[dict[str, float]], weight: float) -> np.ndarray:
    """Weighted changes (G, S) of recipes, one by one."""
    both = fits()
    base = [losses(fit, recipe.rows([0])) for fit in both]
    rows = [recipe.varied(**choice).rows() for choice in choices]
    changes = [[(losses(fit, row) - b)[0] for fit, b in zip(both, base, strict=True)] for row in rows]
    return np.array([weight * one + (1 - weight) * other for one, other in changes])


def test_losses_are_the_formula() -> None:
    fit = dynamics_fit(SOURCE, size=400)
    row = RECIPE.rows()
    at = {c: float(row[c].iloc[0]) for c in ("S1_pt", "S2_pt", "S1_cpt", "S2_cpt")}
    d = fit.draws
    whole = d["L0"] + d["A"] * (at["S1_pt"] + at["S1_cpt"]) ** -d["alpha"] - d["C1"] * at["S2_pt"] - d["C2"] * at["S2_cpt"]
    whole = whole + d["B"] * (1 - (1 + d["E"] * at["S1_cpt"]) ** -d["beta"])
    np.testing.assert_allclose(losses(fit, row)[0], whole, rtol=1e-12)


@pytest.mark.parametrize("tail", [None, 0.1])
def test_the_best_peak_is_that_of_brute_force(tail: float | None) -> None:
    source, target = fits()
    made = balance(source, target, RECIPE, PEAKS, weight=0.5, tail=tail)
    peaks = np.geomspace(1e-5, 1e-3, 201)
    values = brute(RECIPE, [{"peak": float(p)} for p in peaks], 0.5)
    worst = -np.sort(-values, axis=1)[:, : 120 if tail else None].mean(axis=1)
    assert 1e-5 < made.choice["peak"] < 1e-3
    assert not any("end of its range" in r for r in made.notes)
    assert made.value <= worst.min() + 2e-6  # 1,000 of the 1,200 draws search: their optimum is nearly that of all
    own = np.exp(np.interp(made.own[:, 0], [0, 1], np.log([1e-5, 1e-3])))
    exact = peaks[values.argmin(axis=0)][made.landscape.draws]
    np.testing.assert_allclose(np.quantile(own, [0.05, 0.5, 0.95]), np.quantile(exact, [0.05, 0.5, 0.95]), rtol=0.05)


def test_regret_is_of_the_choice_and_less_than_that_of_one_draw() -> None:
    made = balance(*fits(scale=2.0), RECIPE, PEAKS, weight=0.5)
    assert 0 <= made.regret <= made.plug_in_regret + 1e-5
    sure = balance(*fits(scale=1e-6), RECIPE, PEAKS, weight=0.5)
    assert sure.regret < 1e-5
    assert sure.plug_in["peak"] == pytest.approx(sure.choice["peak"], rel=0.02)


def test_more_weight_on_the_source_lowers_the_peak_and_the_potential() -> None:
    """Wang et al. 2025, section 5.1."""
    found = balance_curve(*fits(), RECIPE, PEAKS, weights=[0.2, 0.4, 0.6, 0.9])
    peaks = [one.choice["peak"] for one in found]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > peaks[-1]
    both = {"potential": (0.0, 1.0), "peak": (1e-5, 1e-3)}
    ends = balance_curve(*fits(), RECIPE, both, weights=[0.1, 0.95])
    assert set(ends[0].choice) == {"potential", "peak"}
    assert ends[0].choice["peak"] > ends[1].choice["peak"]


def test_changes_are_from_the_checkpoint_of_the_recipe_given() -> None:
    source, target = fits()
    made = balance(source, target, RECIPE, {"potential": (0.0, 1.0)}, weight=0.5)
    end = losses(source, RECIPE.varied(**made.choice).rows())[0] - losses(source, RECIPE.rows([0]))[0]
    np.testing.assert_allclose(made.changes[0], end, rtol=1e-9)


def test_the_same_seed_gives_the_same_recipe_and_tables_name_their_intervals() -> None:
    choices = {"peak": (1e-5, 1e-3), "steps": (500.0, 4000.0)}
    one, other = (balance(*fits(), RECIPE, choices, weight=0.5, seed=3) for _ in range(2))
    assert one.choice == other.choice
    assert one.choice["steps"] == round(one.choice["steps"])
    table = one.summary(0.8)
    assert list(table) == ["value", "plug_in", "eti80_lo", "eti80_hi", "checks"]
    assert not one.failed
    assert set(table["checks"]) == {"passed"}
    assert list(table.index) == ["peak", "steps", "source_change", "target_change", "weighted_change"]
    assert "mean of 0.5 dL_source + 0.5 dL_target" in one.text


def test_rates_never_logged_are_said() -> None:
    made = balance(*fits(), RECIPE, {"peak": (2e-3, 2e-2)}, weight=0.0)
    assert any("outside: " in said and "lr_peak by" in said for said in made.notes), made.notes


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"ranges": {}}, "Say what is to be chosen"),
        ({"ranges": {"peaks": (1e-4, 1e-3)}}, "can't be chosen.*Did you mean 'peak'"),
        ({"ranges": {"peak": (1e-3, 1e-4)}}, "rising range"),
        ({"ranges": {"r": (0.0, 1.0)}}, "No law here has a replay share"),
        ({"weight": 1.2}, "between 0 and 1"),
        ({"tail": 0.0}, "share of worst draws"),
        ({"recipe": Recipe(OPEN, "constant:steps=100,peak=1e-4"), "ranges": {"potential": (0.0, 1.0)}}, "done can't be chosen"),
    ],
)
def test_what_can_not_be_asked_is_refused(change: dict[str, Any], text: str) -> None:
    asked: dict[str, Any] = {"recipe": RECIPE, "ranges": PEAKS, "weight": 0.5, "tail": None} | change
    with pytest.raises(BayeslawError, match=text):
        balance(
            dynamics_fit(SOURCE, size=400), dynamics_fit(TARGET, size=400), asked["recipe"], asked["ranges"],
            weight=asked["weight"], tail=asked["tail"],
        )  # fmt: skip


def test_unpaired_draws_and_failed_checks_are_refused() -> None:
    with pytest.raises(BayeslawError, match="400, 800"):
        balance(dynamics_fit(SOURCE, size=400), dynamics_fit(TARGET, size=800), RECIPE, PEAKS, weight=0.5)
    with pytest.raises(FitError, match="nothing is said by it"):
        balance(dynamics_fit(SOURCE, passed=False), dynamics_fit(TARGET), RECIPE, PEAKS, weight=0.5)
    forced = balance(dynamics_fit(SOURCE, passed=False), dynamics_fit(TARGET), RECIPE, PEAKS, weight=0.5, force=True)
    assert set(forced.summary()["checks"]) == {"FAILED (forced)"}
    assert forced.text.splitlines()[0].endswith("nats/token) — CHECKS FAILED (forced)")


def test_losses_of_two_units_are_not_added() -> None:
    source, target = (dynamics_fit(values, unit="bits/byte") for values in (SOURCE, TARGET))
    assert balance(source, target, RECIPE, PEAKS, weight=0.5).text.splitlines()[0].endswith("bits/byte)")
    with pytest.raises(BayeslawError, match="Losses in bits/byte, nats/token can't be added"):
        balance(source, dynamics_fit(TARGET), RECIPE, PEAKS, weight=0.5)


def test_objectives_and_spaces() -> None:
    changes = np.array([[0.0, 1.0, 2.0, 3.0, 4.0]])
    assert Objective(0.5)(changes)[0] == 2.0
    assert Objective(0.5, 0.4)(changes)[0] == 3.5
    space = Space({"peak": (1e-4, 1e-2), "potential": (0.0, 1.0)})
    choice = space.choices(np.array([0.5, 0.25]))
    assert choice == {"peak": pytest.approx(1e-3), "potential": 0.25}
    np.testing.assert_allclose(unit(space, choice), [0.5, 0.25])
    points = space.points(0)
    assert points.min() >= 0
    assert points.max() <= 1
    assert {(0.0, 0.0), (1.0, 1.0)} <= {tuple(p) for p in points.tolist()}


def test_options_of_texts_are_replaced_or_added() -> None:
    assert with_option("wsd:steps=10,peak=1e-4", "peak", 0.5) == "wsd:steps=10,peak=0.5"
    assert with_option("wsd:steps=10,peak=1e-4", "final", 0.5) == "wsd:steps=10,peak=1e-4,final=0.5"
    assert with_option("constant:steps=1,peak=1+wsd:steps=10,peak=1,final=0", "final", 0.5).endswith(
        "+wsd:steps=10,peak=1,final=0.5"
    )
    with pytest.raises(BayeslawError, match="several phases"):
        with_option("constant:steps=1,peak=1+wsd:steps=10,peak=1", "peak", 0.5)
