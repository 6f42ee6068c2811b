"""Turning lengths and critical points against roots of the formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from bayeslaw.core.errors import BayeslawError
from bayeslaw.dynamics.recipe import Recipe
from bayeslaw.dynamics.turning_points import turning_point
from bayeslaw.schedules.areas import OPEN
from tests.dynamics import SOURCE, TARGET, dynamics_fit

RATE = 2e-4
RECIPE = Recipe(f"constant:steps=2000,peak={RATE}", f"constant:steps=1000,peak={RATE}")  # S1_pt = .4, no annealing anywhere
SHIFT = SOURCE | {"B": 0.5, "A": 0.5}


def test_turning_lengths_are_roots_of_the_formula() -> None:
    fit = dynamics_fit(SHIFT, size=1200)
    made = turning_point(fit, RECIPE, longest=3_000_000)
    d = fit.draws

    def rise(i: int, steps: float) -> float:
        s, new = RATE * 2000, RATE * steps
        gained = d["A"][i] * ((s + new) ** -d["alpha"][i] - s ** -d["alpha"][i])
        return float(gained + d["B"][i] * (1 - (1 + d["E"][i] * new) ** -d["beta"][i]))

    back = np.flatnonzero(np.isfinite(made.length) & (made.length > 0))
    assert back.size > 40
    for i in back[:40].tolist():
        exact = brentq(lambda x, i=i: rise(i, np.exp(x)), np.log(made.length[i]) - 0.5, np.log(made.length[i]) + 0.5)
        assert np.log(made.length[i]) == pytest.approx(exact, abs=0.01)
    never = np.flatnonzero(np.isinf(made.length))
    assert all(rise(i, 3_000_000) > 0 for i in never.tolist())
    assert made.within == pytest.approx(1 - never.size / 1200)


def test_the_limit_and_who_ever_regains() -> None:
    fit = dynamics_fit(SHIFT, size=1200)
    made = turning_point(fit, RECIPE, longest=4000)
    d, far = fit.draws, 1e6  # where S1_cpt ends
    limit = d["L0"] + d["A"] * far ** -d["alpha"] + d["B"] * (1 - (1 + d["E"] * far) ** -d["beta"])
    np.testing.assert_allclose(made.limit, limit, rtol=1e-5)
    base = fit.draws["L0"] + fit.draws["A"] * (RATE * 2000) ** -fit.draws["alpha"]
    np.testing.assert_allclose(made.base, base, rtol=1e-9)
    assert made.ever == pytest.approx((made.limit <= base).mean(), abs=1e-9)
    assert 0 < made.within < made.ever <= 1
    long = turning_point(fit, Recipe(f"constant:steps=400000,peak={RATE}", f"constant:steps=1000,peak={RATE}"))
    assert long.ever < 0.05
    assert np.isinf(np.median(long.length))


def test_critical_points_are_where_the_base_is_the_limit() -> None:
    fit = dynamics_fit(SHIFT, size=1200)
    made = turning_point(fit, RECIPE)
    exact = (fit.draws["A"] / fit.draws["B"]) ** (1 / fit.draws["alpha"]) / RATE
    assert made.critical is not None
    inside = (exact > 10) & (exact < 150_000)
    assert inside.mean() > 0.9
    # The limit is looked at where S1_cpt ends, not at infinity.
    np.testing.assert_allclose(np.log(made.critical[inside]), np.log(exact[inside]), atol=0.12)


def test_a_loss_that_never_rises_turns_at_once() -> None:
    made = turning_point(dynamics_fit(SOURCE, size=1200), RECIPE, target=dynamics_fit(TARGET, size=1200), weight=0.0)
    assert (made.length == 0).all()
    assert made.within == made.ever == 1.0
    assert made.rises == 0.0
    between = turning_point(dynamics_fit(SHIFT, size=1200), RECIPE, target=dynamics_fit(TARGET, size=1200), weight=0.5)
    alone = turning_point(dynamics_fit(SHIFT, size=1200), RECIPE)
    assert between.within >= alone.within


def test_annealed_lengths_have_schedules_of_their_own() -> None:
    cosine = Recipe(RECIPE.start, f"cosine:steps=1000,peak={RATE},final=0")
    fit = dynamics_fit(SHIFT, size=1200)
    made = turning_point(fit, cosine, longest=20_000)
    at = int(np.flatnonzero(made.steps > 5000)[0])
    from bayeslaw.dynamics.recipe import losses

    np.testing.assert_allclose(made.loss[:, at], losses(fit, cosine.varied(steps=float(made.steps[at])).rows())[0])


def test_tables_and_refusals() -> None:
    fit = dynamics_fit(SHIFT, size=1200)
    made = turning_point(fit, RECIPE)
    assert list(made.summary(0.8)) == ["median", "eti80_lo", "eti80_hi", "checks"]
    assert list(made.summary().index) == ["base_loss", "limit_loss", "turning_steps", "critical_steps"]
    assert {"steps", "outside", "latent_median", "latent_eti90_lo", "latent_eti90_hi", "regained", "checks"} == set(made.curve())
    assert "ever with" in made.text
    assert "critical point" in made.text
    forced = turning_point(dynamics_fit(SHIFT, size=1200, passed=False), RECIPE, force=True)
    assert forced.text.splitlines()[0].endswith(" — CHECKS FAILED (forced)")
    assert "FAILED" not in made.text
    assert (set(made.curve()["checks"]), set(forced.summary()["checks"])) == ({"passed"}, {"FAILED (forced)"})
    with pytest.raises(BayeslawError, match="give a fit of its losses"):
        turning_point(fit, RECIPE, weight=0.5)
    with pytest.raises(BayeslawError, match="Warm-up and first steps"):
        turning_point(fit, Recipe(RECIPE.start, "constant:steps=1000,peak=1e-4,warmup=500"), longest=300)
    with pytest.raises(BayeslawError, match=r"needs? .*S1_pt|S1_pt is missing"):
        turning_point(fit, Recipe(OPEN, "constant:steps=100,peak=1e-4"))
