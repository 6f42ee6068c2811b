"""Measured losses of tinycpt: what a fit has learnt of a checkpoint is used where that checkpoint is asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import bayeslaw
from bayeslaw.posterior.fit import Fit

RUNS = Path(__file__).parents[2] / "data" / "tinycpt" / "runs.csv"
SEEN = "domain == '{}' and seed == 0 and D > 0 and ptpp <= 31"
read = partial(bayeslaw.read_runs, RUNS)


def test_an_unseen_replay_share_of_fitted_checkpoints() -> None:
    """Errors of .7%, and 97% inside the 90% intervals; without the learnt effects 2.7 and 70%."""
    rows = SEEN.format("target")
    fit = bayeslaw.fit("transfer-target", read(f"{rows} and r != 0.25"), noise="normal-checkpoint", progress=False)
    held = read(f"{rows} and r == 0.25")
    known, new = (bayeslaw.score(fit, held, as_=reading).iloc[0] for reading in ("known", "new-checkpoint"))
    assert known["mae_rel"] <= 0.01
    assert 0.85 <= known["cover_eti90"] <= 0.99
    assert known["crps"] < 0.5 * new["crps"]


def test_the_rest_of_fitted_runs_under_noise_that_drifts() -> None:
    """1.0% and 93%. An effect that stays the same along a run is trusted too much: 1.1% and 66%; as new runs 1.4% and 90%."""
    runs = read(SEEN.format("target"))
    early = runs.frame["D"] / runs.frame["N"] <= 5
    seen, rest = (replace(runs, frame=runs.frame[rows]) for rows in (early, ~early))
    fit = bayeslaw.fit("transfer-target", seen, noise="normal-drift", progress=False)
    known, new = (bayeslaw.score(fit, rest, as_=reading).iloc[0] for reading in ("known", "new-run"))
    assert 0.85 <= known["cover_eti90"] <= 0.99
    assert known["crps"] < 0.85 * new["crps"]


@pytest.fixture(scope="module")
def fits() -> dict[str, Fit]:
    laws = {"source": "transfer-source", "target": "transfer-target"}
    return {name: bayeslaw.fit(law, read(SEEN.format(name)), progress=False) for name, law in laws.items()}


def test_a_run_plan_keeps_its_promise_where_base_and_run_share_a_checkpoint(fits: dict[str, Fit]) -> None:
    """Effects of the measured size: of runs and bases 1.49%, correlated by .77, so that they differ by 1.02%.

    Truths are the held-out draws of the laws. With effects drawn twice the plan kept 97.7% and cost 2.8 times the tokens.
    """
    plan = bayeslaw.plan(
        fits["source"], fits["target"], {"N": 110592, "ptpp": 62}, on="run", max_forgetting="8%", max_loss=1.72, base_loss="law"
    )
    assert plan.best is not None
    draws, rng, x = plan.held_out, np.random.default_rng(5), np.log(plan.best.tokens)
    source, target = plan.problem.sources[0], plan.problem.target
    assert target is not None
    run, own, other = 0.0149 * rng.standard_normal((3, draws.size))
    base = 0.77 * run + np.sqrt(1 - 0.77**2) * own
    point = {name: np.median(fit.draws["sigma_point"]) for name, fit in fits.items()}
    errors = rng.standard_normal((3, draws.size))
    rise = source.values(draws, x, plan.best.replay, 0) - source.shift[draws] - source.at_base(draws) + source.shift_base[draws]
    rise += run - base + point["source"] * (errors[0] - errors[1])
    loss = target.values(draws, x, plan.best.replay, 0) - target.shift[draws] + other + point["target"] * errors[2]
    kept = ((rise <= np.log(1.08)) & (loss <= np.log(1.72))).mean()
    assert 0.87 <= kept <= 0.93
