"""The best recipe for two domains, compared with brute force over the same draws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import FitError
from bayeslaw.dynamics.optimise import Balance, Objective, Space, balance, balance_curve
from bayeslaw.dynamics.recipe import Recipe, losses, require_recipe, with_option
from bayeslaw.plots.training import plot_optimum
from bayeslaw.schedules.areas import OPEN
from tests.dynamics import SOURCE, TARGET, dynamics_fit, fits
from tests.errors import fails
from tests.fixed import typical_fit
from tests.values import present

PRETRAIN = "wsd:steps=8000,peak=2e-4,warmup=200,final=0.5"
RECIPE = Recipe(PRETRAIN, "cosine:steps=2000,peak=2e-4,warmup=100")
PEAKS = {"peak": (1e-5, 1e-3)}


def brute(recipe: Recipe, choices: list[dict[str, float]], weight: float) -> np.ndarray:
    """Weighted changes (G, S) of recipes, one by one."""
    both = fits()
    base = [losses(fit, recipe.rows([0])) for fit in both]
    rows = [recipe.varied(**choice).rows() for choice in choices]
    changes = [[(losses(fit, row) - b)[0] for fit, b in zip(both, base, strict=True)] for row in rows]
    return np.array([weight * source + (1 - weight) * target for source, target in changes])


@pytest.mark.slow
def test_losses_are_the_formula() -> None:
    fit = dynamics_fit(SOURCE, size=400)
    row = RECIPE.rows()
    at = {c: float(row[c].iloc[0]) for c in ("S1_pt", "S2_pt", "S1_cpt", "S2_cpt")}
    d = fit.draws
    whole = d["L0"] + d["A"] * (at["S1_pt"] + at["S1_cpt"]) ** -d["alpha"] - d["C1"] * at["S2_pt"] - d["C2"] * at["S2_cpt"]
    whole = whole + d["B"] * (1 - (1 + d["E"] * at["S1_cpt"]) ** -d["beta"])
    np.testing.assert_allclose(losses(fit, row)[0], whole, rtol=1e-12)


def test_a_logged_pretraining_is_read_anew_when_its_file_has_changed(tmp_path: Path) -> None:
    log, areas = tmp_path / "pre.csv", []
    for rates in ([1e-4, 1e-4], [2e-4, 2.0e-4]):
        log.write_text("step,lr\n1,{}\n1000,{}\n".format(*rates))
        areas.append(Recipe(f"logged:{log}", "constant:steps=10,peak=1e-4").rows()["S1_pt"].item())
    assert areas == pytest.approx([0.1, 0.2])


@pytest.fixture(scope="module")
def balances() -> list[Balance]:
    """The best peaks for two weights of the source."""
    return balance_curve(*fits(), RECIPE, PEAKS, weights=[0.5, 0.9])


@pytest.mark.slow
def test_the_best_peak_is_that_of_brute_force(balances: list[Balance]) -> None:
    peaks = np.geomspace(1e-5, 1e-3, 61)
    values = brute(RECIPE, [{"peak": float(p)} for p in peaks], 0.5)
    cvar = balance(*fits(), RECIPE, PEAKS, weight=0.5, tail=0.1)
    for best, worst in ((balances[0], 1200), (cvar, 120)):
        objective = -np.sort(-values, axis=1)[:, :worst].mean(axis=1)
        assert 1e-5 < best.choice["peak"] < 1e-3
        assert best.value <= objective.min() + 2e-6  # the search has 1,000 of the 1,200 draws, so its optimum differs a little
    own = np.exp(np.interp(balances[0].own[:, 0], [0, 1], np.log([1e-5, 1e-3])))
    exact = peaks[values.argmin(axis=0)][balances[0].landscape.draws]
    np.testing.assert_allclose(np.quantile(own, [0.05, 0.5, 0.95]), np.quantile(exact, [0.05, 0.5, 0.95]), rtol=0.08)


@pytest.mark.slow
def test_the_regret_of_several_choices_is_that_of_brute_force() -> None:
    """The best potential of each draw is 1, on an edge of the square."""
    best = balance(*fits(), RECIPE, PEAKS | {"potential": (0.0, 1.0)}, weight=0.4)
    own = best.landscape.changes(np.stack([np.linspace(0, 1, 101), np.ones(101)], axis=1))
    at = best.landscape.changes(best.landscape.space.point(best.choice)[None])
    least, reached = (best.objective.combine(*changes).min(axis=0) for changes in (own, at))
    assert best.choice["potential"] == pytest.approx(1.0, abs=1e-3)
    assert best.regret == pytest.approx((reached - least).mean(), rel=0.02)
    assert np.quantile(best.own[:, 1], 0.1) == 1.0


def test_the_best_recipe_has_less_regret_than_the_plug_in_recipe(balances: list[Balance]) -> None:
    assert 0 <= balances[0].regret <= balances[0].plug_in_regret + 1e-5
    assert repr(balances[0]).startswith("<Balance: best recipe by the mean of ")


def test_more_weight_on_the_source_lowers_the_peak(balances: list[Balance]) -> None:
    """Wang et al. 2025, section 5.1."""
    assert balances[0].choice["peak"] > balances[1].choice["peak"]
    assert plot_optimum(balances, "peak", Figure().subplots()).get_title().endswith("target loss")


@pytest.mark.slow
def test_the_summary_has_choices_and_changes_from_the_checkpoint_of_the_given_recipe() -> None:
    source, target = fits()
    best = balance(source, target, RECIPE, {"potential": (0.0, 1.0)}, weight=0.5)
    end = losses(source, RECIPE.varied(**best.choice).rows())[0] - losses(source, RECIPE.rows([0]))[0]
    np.testing.assert_allclose(best.changes[0], end, rtol=1e-9)
    assert not best.failed
    table = best.summary(0.8)
    assert list(table) == ["value", "plug_in", "eti80_lb", "eti80_ub", "checks"]
    assert set(table["checks"]) == {"passed"}
    assert list(table.index) == ["potential", "source_change", "target_change", "weighted_change"]
    assert best.text.startswith("best recipe by the mean of 0.5 dL_source + 0.5 dL_target: potential = ")


@pytest.mark.parametrize(
    ("change", "code", "value"),
    [
        ({"ranges": {}}, "no-ranges", "peak, steps, potential, r"),
        ({"ranges": {"peak": 1e-4}}, "bad-range", "0.0001"),
        ({"ranges": {"peak": "1e-4:1e-3"}}, "bad-range", "'1e-4:1e-3'"),
        ({"weight": "half"}, "bad-weight", "'half'"),
        ({"tail": "5%"}, "bad-tail", "'5%'"),
        ({"ranges": {"peaks": (1e-4, 1e-3)}}, "unknown-choice", "'peak'"),
        ({"ranges": {"peak": (1e-3, 1e-4)}}, "bad-range", "peak=0.001:0.0001"),
        ({"ranges": {"r": (0.0, 1.0)}}, "no-replay", "cpt-dynamics-replay"),
        ({"recipe": replace(RECIPE, settings={"N": 1e9})}, "unknown-setting", "'N'"),
        ({"weight": 1.2}, "bad-weight", 1.2),
        ({"tail": 0.0}, "bad-tail", 0),
        ({"recipe": Recipe(OPEN, "constant:steps=100,peak=1e-4"), "ranges": {"potential": (0.0, 1.0)}}, "pretraining-done", "wsd:"),
    ],
)
def test_recipes_that_can_not_be_searched_are_refused(change: dict[str, Any], code: str, value: object) -> None:
    options: dict[str, Any] = {"recipe": RECIPE, "ranges": PEAKS, "weight": 0.5} | change
    with fails(code, value):
        balance(*fits(), **options)


@pytest.mark.slow
def test_fits_that_can_not_be_combined_are_refused_and_forced_recipes_outside_the_logged_rates_are_marked() -> None:
    source, target = fits()
    with fails("unpaired-draws", "1,200, 800"):
        balance(source, dynamics_fit(TARGET, size=800), RECIPE, PEAKS, weight=0.5)
    with fails("several-units", "bits/byte", "nats/token"):
        balance(dynamics_fit(SOURCE, size=1200, unit="bits/byte"), target, RECIPE, PEAKS, weight=0.5)
    failed = dynamics_fit(SOURCE, size=1200, passed=False)
    with fails("failed-checks", kind=FitError):
        balance(failed, target, RECIPE, PEAKS, weight=0.5)
    forced = balance(failed, target, RECIPE, {"peak": (2e-3, 2e-2)}, weight=0.0, force=True)
    assert any("lr_peak" in note for note in forced.notes), forced.notes
    assert set(forced.summary()["checks"]) == {"FAILED (forced)"}
    assert forced.text.splitlines()[0].endswith("nats/token) — CHECKS FAILED (forced)")
    assert plot_optimum([forced], "peak", Figure().subplots()).get_title().endswith("\nCHECKS FAILED")


def test_settings_that_the_schedules_determine_or_no_law_has_are_refused() -> None:
    for name in ("S1_cpt", "S1", "S2w_pt", "lr_peak", "fall_1"):
        with fails("computed-setting", name, "schedules"):
            replace(RECIPE, settings={name: 1.0})
    with fails("computed-setting", "S1_cpt"):
        Recipe(OPEN, RECIPE.adapt, {"S1_pt": 1.0, "S1_cpt": 1.0})
    assert Recipe(OPEN, RECIPE.adapt, {"S1_pt": 1.5}).rows()["S1_pt"].item() == 1.5
    replay = typical_fit("cpt-dynamics-replay-source")
    require_recipe(replace(RECIPE, settings={"N": 1e9, "r": 0.1}), [replay, typical_fit("cpt-dynamics-size")])
    with fails("unknown-setting", "'rr'", "'r'"):
        require_recipe(replace(RECIPE, settings={"rr": 0.1}), [replay])


@pytest.mark.slow
def test_weights_may_be_an_array() -> None:
    given = {"peak": (1e-4, 1e-4 * (1 + 1e-9))}
    optima = balance_curve(*fits(), RECIPE, given, weights=np.linspace(0, 1, 2))
    assert [optimum.objective.weight for optimum in optima] == [0.0, 1.0]
    with fails("no-weights"):
        balance_curve(*fits(), RECIPE, PEAKS, weights=np.empty(0))


def test_cvar_is_the_mean_of_the_worst_draws_and_ranges_map_to_the_unit_cube() -> None:
    changes = np.array([[0.0, 1.0, 2.0, 3.0, 4.0]])
    assert Objective(0.5)(changes)[0] == 2.0
    assert Objective(0.5, 0.4)(changes)[0] == 3.5
    space = Space({"peak": (1e-4, 1e-2), "potential": (0.0, 1.0)})
    assert Space({"steps": (1.0, 100.0)}).choices(np.array([0.25])) == {"steps": 3.0}
    assert Space({"steps": (1.0, 100.0)}).choices(np.array([0.375])) == {"steps": 6.0}  # of 5.62
    choice = space.choices(np.array([0.5, 0.25]))
    assert choice == {"peak": pytest.approx(1e-3), "potential": 0.25}
    np.testing.assert_allclose(space.point(choice), [0.5, 0.25])
    points = space.points(0)
    np.testing.assert_array_equal(points, space.points(0))
    assert points.min() >= 0
    assert points.max() <= 1
    assert {(0.0, 0.0), (1.0, 1.0)} <= {tuple(p) for p in points.tolist()}


def test_options_of_schedule_texts_are_replaced_or_added() -> None:
    assert with_option("wsd:steps=10,peak=1e-4", "peak", 0.5) == "wsd:steps=10,peak=0.5"
    assert with_option("wsd:steps=10,peak=1e-4", "final", 0.5) == "wsd:steps=10,peak=1e-4,final=0.5"
    assert with_option("constant:steps=1,peak=1+wsd:steps=10,peak=1,final=0", "final", 0.5).endswith(
        " + wsd:steps=10,peak=1,final=0.5"
    )
    assert with_option("constant:steps=1e+3,peak=1", "peak", 0.5) == "constant:steps=1e+3,peak=0.5"  # the + is of a number
    with fails("several-phases", "constant:steps=1"):
        with_option("constant:steps=1,peak=1+wsd:steps=10,peak=1", "peak", 0.5)


@pytest.mark.parametrize("first", ["", "constant:steps=100,peak=4e-4 + "])
def test_a_loss_potential_is_the_last_rate_over_the_highest_of_the_whole_pre_training(first: str) -> None:
    recipe = Recipe(first + "linear:steps=50,peak=2e-4,warmup=10", "cosine:steps=100,peak=2e-4")
    varied = recipe.varied(potential=np.float64(0.25), peak=np.float64(1e-4))
    end = varied.point
    assert present(end.pretrain).rate / end.peak == pytest.approx(0.25)
    assert varied.schedule.peak == pytest.approx(1e-4, rel=1e-3)


def test_the_curve_from_scratch_goes_on_with_the_weight_of_the_adaptations_steps() -> None:
    recipe = Recipe("constant:steps=1000,peak=2e-4", "constant:steps=500,peak=2e-4", weight=0.5)
    hidden = recipe.from_scratch([0, 500])
    assert hidden["step"].tolist() == [0, 500]
    assert hidden["S1_cpt"].tolist() == pytest.approx([0.2, 0.2 + 0.5 * 0.1])


def test_a_small_tail_is_not_called_none() -> None:
    assert Objective(0.5, 0.004).text.startswith("CVaR of the worst 0.4% of draws")
