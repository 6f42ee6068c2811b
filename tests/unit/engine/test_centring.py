"""Pooled values and run effects of counts, sampled between themselves and their distance from the typical value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, ortho_group

from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.engine.centring import centred, likely_spread, needs_centring, needs_matching
from bayeslaw.engine.density import Density, RunEffects
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.noise import Noise
from tests.unit.engine.test_density import assert_true_gradient
from tests.values import present

TASKS = ("a", "b", "c")


def density() -> Density:
    rng, rows = np.random.default_rng(2), []
    for i, loss in enumerate(np.linspace(2.0, 4.0, 10)):
        for task, middle in zip(TASKS, (2.4, 2.9, 3.4), strict=True):
            share = rng.binomial(500, 0.25 + 0.6 / (1 + np.exp(3 * (loss - middle)))) / 500
            rows.append({"run": f"m{i}", "task": task, "loss": loss, "chance": 0.25, "items": 500, "accuracy": share})
    runs = read_runs(pd.DataFrame(rows))
    law = with_by(load_law("task-sigmoid"), {"L0": "task", "k": "task"})
    law = with_levels(law, levels_of(law, runs.frame))
    observed = Observations.of(law, runs)
    return Density.of(law, observed, Noise.choose("auto", observed))


@pytest.mark.slow
def test_other_powers_are_another_view_of_the_same_density() -> None:
    plain = density()
    powers = {name: np.array([0.0, 0.4, 1.0]) for name in plain.coordinates.powers}
    assert set(powers) == {"L0", "k"}
    coordinates = replace(plain.coordinates, powers=powers)
    runs = plain.observed.runs
    effects = RunEffects(ortho_group.rvs(runs, random_state=1), np.linspace(0, 1, runs))
    other = Density.of(plain.law, plain.observed, plain.noise, coordinates=coordinates, run_effects=effects)
    place, rng = {name: i for i, name in enumerate(plain.names)}, np.random.default_rng(4)
    for _ in range(3):
        x = plain.start() + 0.2 * rng.standard_normal(plain.size)
        y, stretch = x.copy(), 0.0
        for name, power in powers.items():
            own = [place[f"{name}_{task}"] for task in TASKS]
            mu, sigma = plain.law.parameters[name].prior.args.values()
            typical, log_spread = mu + sigma * x[place[name]], x[place[f"{name}_spread"]]
            y[own] = (1 - power) * typical + np.exp((1 - power) * log_spread) * x[own]
            # A normal typical value with this prior, of which each y is a measurement of (1 - m) typical.
            precision = 1 / sigma**2 + ((1 - power) ** 2 / np.exp(2 * (1 - power) * log_spread)).sum()
            mean = (mu / sigma**2 + ((1 - power) * y[own] / np.exp(2 * (1 - power) * log_spread)).sum()) / precision
            y[place[name]] = (typical - mean) * np.sqrt(precision)
            stretch += ((1 - power) * log_spread).sum() + np.log(sigma * np.sqrt(precision))
        rest = (1 - effects.power) * x[place["sigma_run"]]
        y[len(plain.names) :] = np.exp(rest) * (present(effects.directions).T @ x[len(plain.names) :])
        stretch += rest.sum()
        one, two = plain.draws(x[None]), other.draws(y[None])
        for name, values in one.items():
            np.testing.assert_allclose(two[name], values, rtol=1e-10)
        assert other.function()(y)[0] == pytest.approx(plain.function()(x)[0] - stretch, rel=1e-10)
        assert_true_gradient(other.function(), y)


@pytest.mark.slow
def test_the_map_is_near_the_mode_and_spreads_are_not_driven_to_zero() -> None:
    plain = density()
    assert needs_centring(plain)
    assert not needs_matching(plain)  # it is for hundreds of coordinates
    new, ridge_map = centred(plain)
    powers = new.coordinates.powers
    assert np.all(powers["L0"] < 0.1)  # each is known to a small part of their spread
    assert np.all(powers["k"] > 0.9)  # they may all be one
    values = new.draws(ridge_map.x(np.zeros((1, new.size))))
    for task, middle in zip(TASKS, (2.4, 2.9, 3.4), strict=True):
        assert values[f"L0_{task}"].item() == pytest.approx(middle, abs=0.2)
    # The median of the spread of three known values, around a typical one of which nothing is known.
    spread = np.linspace(0.02, 3, 3_000)
    density_of = norm.pdf(spread, scale=0.5) / spread**2 * np.exp(-np.log([2.4, 2.9, 3.4]).var() * 3 / (2 * spread**2))
    below = np.cumsum(density_of) / density_of.sum()
    assert values["L0_spread"].item() == pytest.approx(np.interp(0.5, below, spread), rel=0.1)


def test_powers_are_the_share_of_the_likely_spread_that_data_leave() -> None:
    prior = Prior("HalfNormal", {"sigma": 0.5})
    # 40 values a spread of 0.5 apart, all known to 0.01: the spread is known to a tenth, and values are sampled as themselves
    error, held = 0.01, 0.3
    share = np.full(40, error**2 / (error**2 + held**2))
    apart = 0.5 * norm.ppf((np.arange(40) + 0.5) / 40)
    spread, powers = likely_spread(apart * (1 - share) / held, share, held, prior)
    assert spread == pytest.approx(0.5, rel=0.1)
    assert np.all(powers < (error / 0.3) ** 2)
    # values that may all be one: their spread may be near 0, and they are counted in spreads
    share = np.full(4, 0.9)
    _, powers = likely_spread(np.array([-0.01, 0.0, 0.0, 0.01]), share, held, prior)
    assert np.all(powers > 0.99)


@pytest.mark.parametrize("typical", [None, 0.0])
def test_values_of_which_the_data_tell_nothing_leave_the_spread_to_its_prior(typical: float | None) -> None:
    prior = Prior("HalfNormal", {"sigma": 0.5})
    spread, powers = likely_spread(np.array([3.0, -2.0]), np.array([0.99, 1.3]), 0.3, prior, typical)
    assert spread == pytest.approx(prior.scipy.median(), rel=0.06)  # it is sought in steps of 0.06 e-folds
    assert np.all(powers > 0.99)


def test_powers_of_one_pool_differ_where_the_data_tell_some_values_only() -> None:
    known, unknown, held = 0.01, 3.0, 0.3
    error = np.array([known] * 10 + [unknown] * 10)
    share = error**2 / (error**2 + held**2)
    values = np.concatenate([np.linspace(-0.8, 0.8, 10), np.zeros(10)])
    _, powers = likely_spread(values * (1 - share) / held, share, held, Prior("HalfNormal", {"sigma": 0.5}))
    assert np.all(powers[:10] < 0.01)
    assert np.all(powers[10:] > 0.9)
