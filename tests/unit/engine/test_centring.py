"""Pooled values and run effects of counts, sampled between themselves and their distance from the typical value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.engine.centring import _apart, centred, needs_centring
from bayeslaw.engine.density import Density
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.noise.noise import Noise

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


def test_other_powers_are_another_view_of_the_same_density() -> None:
    plain = density()
    powers = {name: np.array([0.0, 0.4, 1.0]) for name in plain.coordinates.apart}
    assert set(powers) == {"L0", "k"}
    coordinates = replace(plain.coordinates, apart=powers)
    other = Density.of(plain.law, plain.observed, plain.noise, coordinates=coordinates, run_power=0.3)
    place, rng = {name: i for i, name in enumerate(plain.names)}, np.random.default_rng(4)
    for _ in range(3):
        x = plain.start() + 0.2 * rng.standard_normal(plain.size)
        y, stretch = x.copy(), 0.0
        for name, power in powers.items():
            own = [place[f"{name}_{task}"] for task in TASKS]
            typical, log_spread = x[place[name]], x[place[f"{name}_spread"]]
            y[own] = (1 - power) * typical + np.exp((1 - power) * log_spread) * x[own]
            stretch += ((1 - power) * log_spread).sum()
        y[len(plain.names) :] *= np.exp(0.7 * x[place["sigma_run"]])
        stretch += 0.7 * x[place["sigma_run"]] * plain.observed.runs
        one, two = plain.draws(x[None]), other.draws(y[None])
        for name, values in one.items():
            np.testing.assert_allclose(two[name], values, rtol=1e-10)
        assert other.function()(y)[0] == pytest.approx(plain.function()(x)[0] - stretch, rel=1e-10)


def test_the_map_is_near_the_mode_and_spreads_are_not_driven_to_zero() -> None:
    plain = density()
    assert not needs_centring(plain)  # it is for hundreds of coordinates
    new, ridge_map = centred(plain)
    values = new.draws(ridge_map.x(np.zeros((1, new.size))))
    for task, middle in zip(TASKS, (2.4, 2.9, 3.4), strict=True):
        assert values[f"L0_{task}"].item() == pytest.approx(middle, abs=0.2)
    assert values["L0_spread"].item() == pytest.approx(0.5 * 0.6745, rel=0.01)  # held at the median of its prior


def test_values_are_apart_where_they_scatter_more_than_is_unknown_of_them() -> None:
    assert _apart(np.array([-1.0, 0.0, 1.0]), np.full(3, 0.01))
    assert not _apart(np.array([-0.1, 0.0, 0.1]), np.full(3, 0.5))
