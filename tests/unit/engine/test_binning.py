"""Repeated settings in one row leave the density unchanged; bins move it by the reported shift."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw.engine import binning
from bayeslaw.engine.binning import bins_notes, compress
from bayeslaw.engine.density import Density
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import bins_check
from tests import oracles, outcomes
from tests.errors import fails
from tests.fixed import stand_in_fit


def repeated(law: Law, rng: np.random.Generator, times: int = 3) -> pd.DataFrame:
    """Every row of a table several times, with losses of their own, shuffled."""
    table = pd.concat([oracles.table(law)] * times, ignore_index=True).sample(frac=1, random_state=1)
    return table.assign(loss=table["loss"] * np.exp(0.003 * rng.standard_normal(len(table))))


def curve(points: int = 400) -> pd.DataFrame:
    """Two runs of chinchilla with many points each."""
    D = np.geomspace(1e9, 2e10, points)
    parts = [pd.DataFrame({"N": n, "D": D, "run": str(n)}) for n in (1e8, 4e8)]
    return pd.concat(parts, ignore_index=True).assign(loss=lambda t: 1.8 + 400 / t["N"] ** 0.35 + 2000 / t["D"] ** 0.36)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "run_effect"), [("chinchilla", False), ("chinchilla", True), ("multi-power", True)])
def test_repeated_settings_leave_the_density_unchanged(name: str, run_effect: bool, rng: np.random.Generator) -> None:
    law = load_law(name)
    observed = oracles.observed(law, repeated(law, rng))
    noise = Noise(student=False, run_effect=run_effect)
    compressed = compress(law, observed)
    assert compressed.count.sum() == observed.response.size
    assert compressed.count.size <= observed.response.size / 3
    whole, fewer = Density.of(law, observed, noise), Density.of(law, observed, noise, compressed)
    x = whole.start()
    for _ in range(3):
        (value, slope), (expected, other) = whole.function()(x), fewer.function()(x)
        assert value == pytest.approx(expected, rel=1e-11)
        np.testing.assert_allclose(slope, other, rtol=1e-8, atol=1e-8 * np.abs(slope).max())
        x = whole.start() + 0.1 * rng.standard_normal(x.size)


def test_rows_at_distinct_settings_stay() -> None:
    law = load_law("chinchilla")
    observed = oracles.observations(law)
    compressed = compress(law, observed)
    assert compressed.observed is observed
    assert set(compressed.count) == {1.0}
    assert not compressed.scatter.any()


@pytest.mark.parametrize(("columns", "bins", "noted"), [({}, None, 1), ({}, 0.02, 0), ({"loss_se": 0.01}, None, 0)])
def test_bins_are_proposed_for_a_large_table(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, float], bins: float | None, noted: int
) -> None:
    monkeypatch.setattr(binning, "MANY_ROWS", 500)
    texts = [str(c) for c in stand_in_fit("chinchilla", curve().assign(**columns), bins=bins).checks if c.name == "many_rows"]
    assert len(texts) == noted
    for text in texts:
        assert text.startswith(
            "note: a fit of 800 rows takes minutes; bins of 0.02 e-folds, of neighbouring points of a run, leave"
        )
        assert "Give --bins 0.02 (bins=0.02)" in text
    assert bins_notes(load_law("chinchilla"), oracles.observed(load_law("chinchilla"), curve(200))) == []  # few rows


def test_bins_hold_points_of_one_run_and_one_width() -> None:
    law = load_law("chinchilla")
    observed = oracles.observed(law, curve())
    bins = compress(law, observed, 0.1)
    assert bins.count.size == 2 * 31
    assert bins.count.sum() == 800
    D, run = observed.covariates["D"], observed.run
    for i in range(bins.count.size):
        mine = bins.row == i
        assert mine.sum() == bins.count[i]
        assert set(run[mine]) == {bins.observed.run[i]}
        assert np.ptp(np.log(D[mine])) <= 0.1
        assert bins.observed.response[i] == pytest.approx(observed.response[mine].mean(), rel=1e-12)
        assert bins.observed.covariates["D"][i] == pytest.approx(np.exp(np.log(D[mine]).mean()), rel=1e-12)
    for j in range(2):
        around = observed.response - bins.observed.response[bins.row]
        assert bins.scatter[j] == pytest.approx((around[run == j] ** 2).sum(), rel=1e-9)


def test_the_shift_is_that_of_expected_losses() -> None:
    """Second order in the width: about width^2 / 24 times the curvature of log loss over log D."""
    law = load_law("chinchilla")
    observed = oracles.observed(law, curve())
    draws = {"E": [1.8], "A": [400.0], "alpha": [0.35], "B": [2000.0], "beta": [0.36]}
    shifts = [
        compress(law, observed, width).shift(law, {k: np.array(v) for k, v in draws.items()}, observed) for width in (0.4, 0.2, 0.1)
    ]
    assert shifts[0] == pytest.approx(4 * shifts[1], rel=0.3)
    assert shifts[1] == pytest.approx(4 * shifts[2], rel=0.3)
    assert 1e-6 < shifts[2] < 1e-4
    assert compress(law, observed).shift(law, {k: np.array(v) for k, v in draws.items()}, observed) == 0


def test_base_checkpoints_have_a_bin_of_their_own() -> None:
    law = load_law("transfer-target")
    table = oracles.table(law)
    base = table.iloc[[0]].assign(D=0.0)
    observed = oracles.observed(law, pd.concat([table, base, base.assign(loss=base["loss"] * 1.01)]))
    bins = compress(law, observed, 0.5)
    at_base = bins.observed.covariates["D"] == 0
    assert bins.count[at_base].tolist() == [2]


def test_a_check_tells_whether_bins_are_narrow_enough() -> None:
    count, sigma = np.array([100.0, 64.0]), np.full((4, 100), 0.003)
    assert bins_check(count, 0.01, 2e-5, sigma).passed
    wide = bins_check(count, 0.4, 2e-4, sigma)
    assert not wide.passed
    assert wide.required
    assert all(value in wide.text for value in ("164 points", "2 bins", "0.4", "2.0e-04", "25%", "3.0e-04"))


@pytest.mark.slow
def test_unusable_bins_are_refused() -> None:
    for width in (0.0, -1.0, 0.6, float("nan")):
        with fails("bad-bin-width", f"{width:g}"):
            fit("chinchilla", curve(20), bins=width, progress=False)
    with fails("bins-not-normal", "Student-t"):
        fit("chinchilla", curve(20), bins=0.1, noise="student", progress=False)
    with fails("bins-not-normal", "beta-binomial"):
        fit(outcomes.law("count"), outcomes.table("count"), bins=0.1, progress=False)
