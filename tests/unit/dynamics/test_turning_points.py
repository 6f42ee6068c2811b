"""Turning lengths and critical points, compared with roots of the formula."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

from bayeslaw.core.errors import TableError
from bayeslaw.data.schedule_text import parse_schedule, phases_of
from bayeslaw.dynamics.recipe import Recipe, losses
from bayeslaw.dynamics.turning_points import TurningPoint, turning_point
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import OPEN
from tests.dynamics import SOURCE, TARGET, dynamics_fit
from tests.errors import fails
from tests.values import present

RATE = 2e-4
RECIPE = Recipe(f"constant:steps=2000,peak={RATE}", f"constant:steps=1000,peak={RATE}")  # S1_pt = .4, no annealing anywhere
DONE = Recipe(RECIPE.point, RECIPE.adapt)  # without a critical point, because the length of a finished pre-training is fixed
SHIFT = SOURCE | {"B": 0.5, "A": 0.5}


@pytest.fixture(scope="module")
def fit() -> Fit:
    return dynamics_fit(SHIFT, size=1200)


@pytest.fixture(scope="module")
def turning(fit: Fit) -> TurningPoint:
    return turning_point(fit, RECIPE)


@pytest.mark.slow
def test_texts_of_schedules_are_read_as_they_are_elsewhere(fit: Fit, turning: TurningPoint) -> None:
    """Spaces, and digits grouped by underscores."""
    other = Recipe(f"constant: steps = 2_000, peak = {RATE}", f"constant: steps=1_000 , peak={RATE}")
    assert turning.critical is not None
    np.testing.assert_array_equal(turning_point(fit, other).critical, turning.critical)
    assert len(other.varied(steps=500.0).schedule) == 500


@pytest.mark.slow
def test_turning_lengths_are_roots_of_the_formula(fit: Fit) -> None:
    turning = turning_point(fit, DONE, longest=3_000_000)
    d = fit.draws

    def rise(i: int, steps: float) -> float:
        s, new = RATE * 2000, RATE * steps
        gained = d["A"][i] * ((s + new) ** -d["alpha"][i] - s ** -d["alpha"][i])
        return float(gained + d["B"][i] * (1 - (1 + d["E"][i] * new) ** -d["beta"][i]))

    back = np.flatnonzero(np.isfinite(turning.length) & (turning.length > 0))
    assert back.size > 40
    for i in back[:40].tolist():
        exact = brentq(lambda x, i=i: rise(i, np.exp(x)), np.log(turning.length[i]) - 0.5, np.log(turning.length[i]) + 0.5)
        assert np.log(turning.length[i]) == pytest.approx(exact, abs=0.01)
    never = np.flatnonzero(np.isinf(turning.length))
    assert all(rise(i, 3_000_000) > 0 for i in never.tolist())
    assert turning.within == pytest.approx(1 - never.size / 1200)


@pytest.mark.slow
def test_the_limit_decides_whether_the_base_is_ever_regained(fit: Fit) -> None:
    turning = turning_point(fit, DONE, longest=4000)
    np.testing.assert_allclose(turning.limit, fit.draws["L0"] + fit.draws["B"], rtol=1e-9)
    base = fit.draws["L0"] + fit.draws["A"] * (RATE * 2000) ** -fit.draws["alpha"]
    np.testing.assert_allclose(turning.base, base, rtol=1e-9)
    assert turning.ever == pytest.approx((turning.limit <= base).mean(), abs=1e-9)
    assert 0 < turning.within < turning.ever <= 1
    long = turning_point(fit, Recipe(Recipe(f"constant:steps=400000,peak={RATE}", RECIPE.adapt).point, RECIPE.adapt), longest=4000)
    assert long.ever < 0.05
    assert np.isinf(np.median(long.length))


@pytest.mark.slow
def test_critical_points_are_where_the_base_is_the_limit(fit: Fit, turning: TurningPoint) -> None:
    exact = (fit.draws["A"] / fit.draws["B"]) ** (1 / fit.draws["alpha"]) / RATE
    inside = (exact > 10) & (exact < 150_000)
    assert inside.mean() > 0.9
    np.testing.assert_allclose(np.log(present(turning.critical)[inside]), np.log(exact[inside]), atol=0.02)
    short = turning_point(fit, Recipe(f"constant:steps=50,peak={RATE}", RECIPE.adapt))
    beyond = exact > 5_000  # a hundred times as long as the recipe's
    assert 0.1 < beyond.mean() < 0.9
    np.testing.assert_array_equal(np.isinf(present(short.critical)), beyond)


@pytest.mark.slow
def test_phases_of_a_pre_training_are_longer_together(fit: Fit, turning: TurningPoint, tmp_path: Path) -> None:
    """At one rate without an end it does not matter where one phase goes over into the next; logged rates are not planned."""
    parted = replace(RECIPE, start=f"constant:steps=1.5e+3,peak={RATE} + constant:steps=500,peak={RATE}")
    several = turning_point(fit, parted)
    np.testing.assert_allclose(present(several.critical), present(turning.critical), rtol=0.01)
    np.testing.assert_array_equal(several.length, turning.length)
    longer = parted.with_pretraining(4_000).start
    assert isinstance(longer, str)
    assert [len(parse_schedule(phase)) for phase in phases_of(longer)] == [3_000, 1_000]
    file = tmp_path / "rates+.csv"
    pd.DataFrame({"step": [1, 2000], "lr": RATE}).to_csv(file, index=False)
    logged = turning_point(fit, replace(RECIPE, start=f"logged:{file}"))
    assert logged.critical is None
    np.testing.assert_allclose(logged.length, turning.length, rtol=1e-6)


@pytest.mark.slow
def test_a_loss_that_never_rises_has_a_turning_length_of_0(fit: Fit, turning: TurningPoint) -> None:
    target = dynamics_fit(TARGET, size=1200)
    falling = turning_point(fit, DONE, target=target, weight=0.0, longest=4000)
    assert (falling.length == 0).all()
    assert falling.within == falling.ever == 1.0
    assert falling.rises == 0.0
    assert turning_point(fit, DONE, target=target, weight=0.5, longest=4000).rises <= turning.rises


@pytest.mark.slow
def test_each_length_has_its_own_schedule(fit: Fit) -> None:
    cosine = Recipe(RECIPE.point, f"cosine:steps=1000,peak={RATE},final=0")
    turning = turning_point(fit, cosine, longest=6000)
    decaying = Recipe(RECIPE.point, f"wsd:steps=1000,peak={RATE},warmup=20,decay=0.5")
    assert turning_point(fit, decaying, longest=6000).steps[0] == 50  # of 40 steps, half are the warm-up and half decay
    at = int(np.flatnonzero(turning.steps > 5000)[0])
    np.testing.assert_allclose(turning.loss[:, at], losses(fit, cosine.varied(steps=float(turning.steps[at])).rows())[0])


def test_tables_have_intervals_and_marks_of_forced_checks(turning: TurningPoint) -> None:
    assert list(turning.summary(0.8)) == ["median", "eti80_lb", "eti80_ub", "checks"]
    assert list(turning.summary().index) == ["base_loss", "limit_loss", "turning_steps", "critical_steps"]
    columns = {"steps", "outside", "latent_median", "latent_eti90_lb", "latent_eti90_ub", "regained", "checks"}
    assert set(turning.curve()) == columns
    assert "critical point of the pre-training (median)" in turning.text
    assert repr(turning).startswith("<TurningPoint: the source loss rises above its base ")
    forced = turning_point(dynamics_fit(SHIFT, size=1200, passed=False), DONE, longest=4000, force=True)
    assert forced.text.splitlines()[0].endswith(" — CHECKS FAILED (forced)")
    assert "FAILED" not in turning.text
    assert (set(turning.curve()["checks"]), set(forced.summary()["checks"])) == ({"passed"}, {"FAILED (forced)"})


@pytest.mark.slow
def test_recipes_without_a_turning_point_are_refused(fit: Fit) -> None:
    with fails("no-target", 0.5):
        turning_point(fit, RECIPE, weight=0.5)
    in_bytes = dynamics_fit(TARGET, size=1200, unit="bits/byte")
    assert turning_point(fit, DONE, target=in_bytes, weight=0, longest=1000).unit == "bits/byte"  # the only losses that count
    with fails("several-units", "bits/byte", "nats/token"):
        turning_point(fit, RECIPE, target=in_bytes, weight=0.5)
    with fails("longest-too-short", 510, 300):
        turning_point(fit, Recipe(RECIPE.start, "constant:steps=1000,peak=1e-4,warmup=500"), longest=300)
    with pytest.raises(TableError):  # S1_pt, S2_pt and S1 are unknown
        turning_point(fit, Recipe(OPEN, "constant:steps=100,peak=1e-4"))
