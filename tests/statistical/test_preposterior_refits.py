"""Refits to simulated losses of benchmarks/preposterior_refits.py: their tables, and their agreement with weighted draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import preposterior_refits
import pytest
from preposterior_refits import refits

from bayeslaw.core.executors import Result
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs
from bayeslaw.design import nested
from bayeslaw.inference.batch import Task
from bayeslaw.posterior.fit import Fit
from tests.fixed import line, line_fit
from tests.purchases import curvature

DESIGN = pd.DataFrame({"x": [2.0, 0.0, 1.5, 3.0, 2.5], "run": ["r0", "r0", "r0", "v", "v"], "checkpoint": "k0"})
TARGETS = pd.DataFrame({"x": [2.0, 3.0, 0.0]})


def test_refits_get_the_rows_of_the_fit_and_simulated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four refits one fails its checks and one is not made; both are reported."""
    fit = line_fit(noise="normal-checkpoint", point=0.005, run=0.02)
    tasks: list[Task] = []

    def fits(given: Iterable[Task], *, executor: str, then: Any, progress: bool) -> list[Result[Any]]:
        assert (executor, progress) == ("processes:2", False)
        tasks.extend(given)
        values = [then(line_fit(passed=i != 1)) for i in range(3)]
        return [*(Result(i, value) for i, value in enumerate(values)), Result.failed(3, "fit", "the density is not finite")]

    monkeypatch.setattr(preposterior_refits, "fit_many", fits)
    table = refits(fit, DESIGN, TARGETS, weights=[1, 0, 0], outer=4, executor="processes:2", progress=False)
    variance = np.var(np.stack([fit.draws[n] for n in "abc"], axis=1) @ curvature(2.0), ddof=1)
    np.testing.assert_allclose(table["variance"], [variance] * 3 + [np.nan], rtol=1e-9)
    assert table["checks"].str.split(":").str[0].tolist() == ["passed", "FAILED", "passed", "not made"]
    residuals = []
    for task, draw in zip(tasks, table["draw"], strict=True):
        assert isinstance(task.runs, Runs)
        assert task.options["noise"] == "normal-checkpoint"
        observed = Observations.of(line(), task.runs)
        assert observed.response.size == 17
        assert set(observed.run_names) == {"r0", "r1", "r2", "r3", "r0 (simulated)", "v (simulated)"}
        assert observed.checkpoint_names == ("k0", "k1", "k0 (simulated)")
        simulated = task.runs.frame.iloc[12:]
        np.testing.assert_array_equal(simulated["x"], DESIGN["x"])
        latent = np.array([fit.draws[name][draw] for name in "abc"]) @ curvature(simulated["x"])
        residuals.append(np.log(simulated["loss"].to_numpy()) - latent)
    errors = np.array(residuals)
    assert 0.005 < errors.std() < 0.1
    assert np.concatenate([errors[:, :3] - errors[:, :3].mean(axis=1, keepdims=True), np.diff(errors[:, 3:])], axis=1).std() < 0.02


def test_refits_agree_with_the_weighted_look_ahead(sound_fit: Fit) -> None:
    design = pd.DataFrame({"N": 1e10, "D": np.geomspace(1e9, 1e11, 4), "run": "one"})
    targets = pd.DataFrame({"N": [1e10], "D": [2e11]})
    table, weighted = (
        refits(sound_fit, design, targets, outer=2, progress=False),
        nested(sound_fit, design, targets, outer=100).iloc[0],
    )
    assert table["prior_variance"][0] == pytest.approx(weighted["prior_variance"])
    assert weighted["ratio"] < 0.6
    assert table["variance"].mean() == pytest.approx(weighted["expected_variance"], rel=0.35)
