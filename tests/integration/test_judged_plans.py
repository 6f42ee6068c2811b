"""benchmarks/judged_plans.py: limits that know nothing of held-out losses, plans judged by measured ones, and bands."""

from __future__ import annotations

import judged_plans as harness
import numpy as np
import pandas as pd
import pytest

import bayeslaw
from tests.fixed import fixed_fit
from tests.twins import TRUTHS, settings, simulate

N, PTPP, BASE = 8e8, 124.0, 2.5


def known(name: str) -> bayeslaw.Fit:
    """A fit of simulated losses whose draws lie around the truth."""
    law, rng = bayeslaw.load_law(name), np.random.default_rng(0)
    table = settings(law)
    draws = {k: v * np.exp(0.01 * rng.standard_normal(4000)) for k, v in TRUTHS[name].items()}
    draws |= {"sigma_point": np.full(4000, 0.003), "sigma_run": np.full(4000, 0.002)}
    return fixed_fit(law, simulate(law, TRUTHS[name], table[table["D"] > 0], 0), draws, noise="normal")


def split(times: float = 1.0) -> harness.Split:
    """One held-out checkpoint; its losses are linear in log tokens and replay, times a factor."""
    rows = [
        {"checkpoint": "c", "N": N, "ptpp": PTPP, "D": atpp * N, "r": r, "domain": domain, "loss": times * loss}
        for atpp in (0.5, 2.0, 20.0)
        for r in (0.1, 0.4)
        for domain, loss in {"source": 2.6 + 0.1 * np.log(atpp) - r, "target": 3 - 0.3 * np.log(atpp) + r}.items()
    ]
    bases = pd.DataFrame({"N": [N], "ptpp": [PTPP], "loss": [BASE]})
    return harness.Split("sweep", "table", "stages", pd.DataFrame(), pd.DataFrame(rows), bases)


def test_limits_are_forecasts_and_ignore_the_held_out_losses() -> None:
    source, target = known("transfer-source"), known("transfer-target")
    asked, other = (list(harness.questions(split(times), source, target)) for times in (1.0, 1.2))
    assert [(q.rise, q.limit) for q in asked] == [(q.rise, q.limit) for q in other]
    assert [q.replay for q in asked] == [(0.1, 0.4)] * len(harness.PLACES)
    for question, (atpp, r) in zip(asked, harness.PLACES, strict=True):
        at = pd.DataFrame([{"N": N, "ptpp": PTPP, "D": atpp * N, "r": r}])
        for fit, limit in ((source, (1 + question.rise) * BASE), (target, question.limit)):
            below = fit.forecast(at, force=True).predictive < limit
            assert below.mean() == pytest.approx(harness.QUANTILE, abs=0.02)  # three standard errors of two samples of 4,000


def test_plans_are_kept_if_both_interpolated_losses_stay_under_their_limits() -> None:
    measured = {str(domain): frame for domain, frame in split().held.groupby("domain")}
    source, target = 2.6 + 0.1 * np.log(5) - 0.2, 3 - 0.3 * np.log(5) + 0.2  # at 5 tokens per parameter and r = .2
    for over_source, over_target in ((1e-6, 1e-6), (-1e-6, 1e-6), (1e-6, -1e-6)):
        rise, limit = (source + over_source) / BASE - 1, target + over_target
        question = harness.Question("c", {"N": N, "ptpp": PTPP}, BASE, rise, limit, (0.1, 0.4), measured)
        expected = {"source": over_source > 0, "target": over_target > 0}
        assert question.kept(5 * N, 0.2) == expected | {"kept": all(expected.values())}


def test_bands_count_feasible_plans_alone() -> None:
    asked = pd.DataFrame({"feasible": [True] * 20 + [False] * 4, "kept": [True] * 14 + [False] * 10})
    asked = asked.assign(source=asked["kept"], target=asked["feasible"], held_out=0.9, atpp=3.0, checkpoint=list("abcd") * 6)
    assert harness.band(20, 0.5) == (6, 14)  # P(X <= 5) = .0207 and P(X <= 14) = .9793
    found = {level: harness.verdict(asked, level) for level in harness.LEVELS}
    assert {(row["feasible"], row["kept"], row["source kept"], row["target kept"]) for row in found.values()} == {
        ("20 of 24", "14", "14", "20")
    }
    assert [(row["band"], row["inside"]) for row in found.values()] == [("6 to 14", "yes"), ("12 to 19", "yes"), ("15 to 20", "NO")]
    # One plan for each of four checkpoints: P(X <= 0) = .0016 and P(X <= 1) = .0272 at .8, P(X <= 1) = .0037 and
    # P(X <= 2) = .0523 at .9.
    assert [row["band of the share by checkpoints"] for row in found.values()] == ["0% to 100%", "25% to 100%", "50% to 100%"]
