"""Choices of runs looked at ahead, and with the luck of runs and checkpoints."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.table import read_runs
from bayeslaw.design.anchors import anchors
from bayeslaw.design.preposterior import validate
from bayeslaw.posterior.fit import Fit
from tests.fixed import line_fit
from tests.purchases import TARGETS, drawn, logarithmic, pool

# --- looks ahead, and luck -------------------------------------------------------------------------------------------------


def test_predictions_agree_with_nested_monte_carlo() -> None:
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.2, sigma_run=0.1)  # so much noise that many draws keep weight
    made = anchors(fit, pool(12), TARGETS, budget=4.0, cost="cost")
    told = validate(fit, made, read_runs(TARGETS), outer=100)
    assert told["run"].tolist() == made.picks["run"].tolist()
    np.testing.assert_allclose(told["predicted"], 1 - made.picks["gain"].cumsum(), rtol=1e-6)
    trusted = told[told["says"] == ""]
    assert len(trusted)
    off = (trusted["nested"] - trusted["predicted"]).abs()
    assert (off <= 4 * trusted["nested_mcse"] + 0.03 * trusted["predicted"]).all()
    aimed = anchors(fit, pool(12), {"margin": fit.draws["a"]}, budget=4.0, cost="cost")
    for look in (validate):
        with pytest.raises(BayeslawError, match="this choice aims at others"):
            look(fit, aimed, read_runs(TARGETS))


def test_two_laws_do_not_err_alike() -> None:
    """A stated discrepancy of source and target is drawn for each, also where the two fits had one seed."""
    one, other = logarithmic(0), logarithmic(1)
    target = pd.DataFrame({"x": [3e8]})
    frame = pd.DataFrame({"run": ["a"], "x": [1e8], "cost": [1.0]})
    both = anchors([one, other], frame, target, budget=1.0, cost="cost", discrepancy="2%").targets.draws
    assert abs(np.asarray(np.corrcoef(both.T))[0, 1]) < 4 / np.sqrt(len(both))


def test_predictions_beside_refits(sound_fit: Fit) -> None:
    frame = pd.DataFrame({"run": ["a", "a", "b"], "N": [1e8, 1e8, 1e9], "D": [1e9, 4e9, 1e10]})
    target = read_runs(pd.DataFrame({"N": [1e11], "D": [2e12]}))
    made = anchors(sound_fit, frame, target, budget=1e21)
    told = by_refits(sound_fit, made, target, outer=2, progress=False, force=True)
    share = made.market.value(made.market.ensemble.covariance(made.bought)) / made.market.value(np.eye(made.market.ensemble.rank))
    assert told["predicted"].iloc[-1] == pytest.approx(share)
    assert told["refits"].iloc[-1] == 2
    assert 0 < told["ratio"].iloc[-1] < 1


def test_the_luck_of_a_checkpoint_is_what_its_runs_say() -> None:
    fit = line_fit(noise="normal-checkpoint")
    seen, draws, noise = fit.observed, fit.draws, fit.noise
    residual = seen.log_loss - np.log(fit.law.predict(draws, seen.covariates))
    luck = noise.sample_checkpoint_effects(residual, seen, draws, ("k0", "unseen"), np.random.default_rng(0))
    rows = seen.checkpoint[seen.run] == seen.checkpoint_names.index("k0")
    of = seen.run[rows]
    covariance = 0.01**2 * np.eye(of.size) + 0.01**2 * (of[:, None] == of)  # point noise and the luck of runs
    gain = 0.02**2 * np.linalg.solve(covariance + 0.02**2, np.ones(of.size))
    mean, variance = residual[:, rows] @ gain, 0.02**2 * (1 - gain.sum())
    z = (luck[0] - mean) / np.sqrt(variance)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)
    assert luck[1].std() == pytest.approx(0.02, rel=0.05)


def test_runs_of_one_checkpoint_share_its_luck_in_a_choice() -> None:
    """Two runs of one new checkpoint tell less than one run of each of two: they err together."""
    fit = line_fit(noise="normal-checkpoint", point=0.002, run=0.002)
    rows = [("one", "new"), ("two", "new"), ("three", "other")]
    frame = pd.DataFrame([{"run": run, "checkpoint": at, "x": 3.0, "cost": 1.0} for run, at in rows])
    made = anchors(fit, frame, pd.DataFrame({"x": [3.0]}), budget=2.0, cost="cost", checkpoint_cost="0")
    assert len(set(made.candidates.checkpoint[list(made.bought)])) == 2
    ensemble = made.market.ensemble
    together, apart = (float(ensemble.variances(ensemble.covariance(picks))[0]) for picks in ([0, 1], [0, 2]))
    variance = float(ensemble.variances(np.eye(ensemble.rank))[0])
    luck, own = 0.02**2, 0.002**2 + 0.002**2
    assert together == pytest.approx(1 / (1 / variance + 1 / (luck + own / 2)), rel=0.1)
    assert apart == pytest.approx(1 / (1 / variance + 2 / (luck + own)), rel=0.1)


def test_what_noise_tells() -> None:
    """Variances of new losses: those of normal noise as they are, Student-t by what a point informs, an excess by its variance."""
    point, run = line_fit().noise.variances(line_fit().draws)
    assert (point[0], run[0]) == (pytest.approx(1e-4), pytest.approx(1e-4))
    student = line_fit(noise="student")
    assert student.noise.variances(student.draws)[0][0] == pytest.approx(1e-4 * 8 / 6)
    skew = line_fit(noise="skew")
    assert skew.noise.variances(skew.draws)[1][0] == pytest.approx(2e-4)
