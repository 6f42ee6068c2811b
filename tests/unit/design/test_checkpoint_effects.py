"""Chosen runs where runs of one checkpoint err together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.table import read_runs
from bayeslaw.design.anchors import anchors
from bayeslaw.design.preposterior import Design
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.fixed import line_fit
from tests.posteriors import law_named, posterior, scattered
from tests.twins import without_noise


@pytest.mark.slow
@pytest.mark.parametrize("probes", [150, 1])
def test_runs_of_one_checkpoint_share_its_effect(probes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one new checkpoint inform less than one run of each of two, because they err together."""
    monkeypatch.setattr("bayeslaw.design.information.PROBES", probes)
    fit = line_fit(noise="normal-checkpoint", point=0.002, run=0.002)
    rows = [("one", "new"), ("two", "new"), ("three", "other")]
    frame = pd.DataFrame([{"run": run, "checkpoint": at, "x": x, "cost": 1.0} for run, at in rows for x in (3.0, 3.0001)])
    made = anchors(fit, frame, pd.DataFrame({"x": [3.0]}), budget=2.0, cost="cost", checkpoint_cost="0")
    assert len(set(made.candidates.checkpoint[list(made.bought)])) == 2
    ensemble = made.market.ensemble
    together, apart = (float(ensemble.variances(ensemble.covariance(picks))[0]) for picks in ([0, 1], [0, 2]))
    variance = float(ensemble.variances(np.eye(ensemble.rank))[0])
    shared, own = 0.02**2, 0.002**2 + 0.002**2 / 2
    assert together == pytest.approx(1 / (1 / variance + 1 / (shared + own / 2)), rel=0.1)
    assert apart == pytest.approx(1 / (1 / variance + 2 / (shared + own)), rel=0.1)


@pytest.mark.slow
def test_a_run_named_like_a_checkpoint_is_none_of_it() -> None:
    fit = line_fit(noise="normal-checkpoint", point=0.002, run=0.002)
    frame, at = pd.DataFrame({"run": ["k0", "new"], "x": 0.5, "cost": 1.0}), pd.DataFrame({"x": [3.0]})
    ensemble = anchors(fit, frame, at, budget=2.0, cost="cost").market.ensemble
    named, other = ensemble.gains(np.eye(ensemble.rank), np.ones(1))
    assert named == pytest.approx(other, rel=0.15)  # their effects are other draws of the same size


def of_checkpoints() -> tuple[Fit, pd.DataFrame]:
    """A fit to two runs of each of twelve checkpoints, whose effects are large, and a candidate at the first of them."""
    law, rng, rows = law_named("transfer-source"), np.random.default_rng(0), []
    for i, size in enumerate(10 ** rng.uniform(8, 9.5, 12)):
        effect = 0.02 * rng.standard_normal()
        rows += [
            {"N": size, "ptpp": 20.0 + i, "r": r, "D": d * size, "checkpoint": f"k{i}", "run": f"k{i}, {r}", "effect": effect}
            for r in (0.1, 0.4)
            for d in (1, 5, 20)
        ]
    frame = pd.DataFrame(rows)
    loss = without_noise(law, oracles.typical(law), frame)
    frame["loss"] = loss * np.exp(frame.pop("effect") + 0.003 * rng.standard_normal(len(frame)))
    draws = scattered(oracles.typical(law), 4000, 1, 0.002)
    made = posterior(law, draws, frame=frame, sigma=(0.002, 0.003), sigma_checkpoint=0.02, seed=1)
    return made, frame.iloc[[0]].assign(run="new", r=0.25, D=10 * frame["N"].iloc[0]).drop(columns="loss")


@pytest.mark.slow
def test_a_fitted_checkpoint_is_known_by_its_name_or_by_size_and_stage() -> None:
    """What a candidate tells, too, is counted with the effect that the fit has learnt, as its price and forecast do."""
    fit, candidate = of_checkpoints()
    targets = candidate.assign(ptpp=200.0, D=3 * candidate["D"]).drop(columns=["run", "checkpoint"])
    named, unnamed = (
        anchors(fit, each, targets, budget=1e30, discrepancy="none", force=True).picks["gain"].item()
        for each in (candidate, candidate.drop(columns="checkpoint"))
    )
    fresh = anchors(
        fit,
        candidate.assign(checkpoint="fresh", price=0.0),
        targets,
        budget=1e30,
        checkpoint_cost="price",
        discrepancy="none",
        force=True,
    )
    assert unnamed == pytest.approx(named, rel=1e-6)
    others = pd.concat([candidate.assign(run="other", checkpoint="other", D=k * candidate["D"]) for k in (0.5, 0.7, 0.9)])
    among = pd.concat([others.assign(price=0.0), candidate.assign(price=0.0)], ignore_index=True)
    options: dict[str, Any] = {"budget": 1e30, "checkpoint_cost": "price", "discrepancy": "none", "force": True}
    assert anchors(fit, among, targets, **options).explain("new")["gain"] == pytest.approx(named, rel=1e-6)
    assert fresh.picks["gain"].item() > 5 * named


@pytest.mark.slow
def test_runs_of_a_design_have_effects_of_their_own() -> None:
    """Even where they are named like runs and checkpoints of the fit, for which the likelihood takes them too."""
    fit, candidate = of_checkpoints()
    for run in ("new", "k0, 0.1"):
        design = Design.of(fit, read_runs(candidate.assign(run=run, r=0.1)), np.arange(2000))
        scatter = (design.log_loss - design.latent[:2000]).std()
        assert scatter == pytest.approx(np.sqrt(0.02**2 + 0.003**2 + 0.002**2), rel=5 / np.sqrt(2 * 2000))
