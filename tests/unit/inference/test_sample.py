"""Around sampling: the compiled density, chains that were cut short, thinning, and settings that are refused."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from bayeslaw.core.errors import BayeslawError, CardError, StoppedError, TableError
from bayeslaw.engine.density import Density
from bayeslaw.engine.transport import find_ridge_map
from bayeslaw.inference import sample as sampling
from bayeslaw.inference.fit import fit
from bayeslaw.inference.sample import Acceptance, SamplerRun, SamplerSettings
from bayeslaw.inference.sample import sample as sample_with_given_chains
from bayeslaw.laws.card import load_law
from bayeslaw.noise.noise import Noise
from bayeslaw.noise.walk import Walk
from tests import oracles
from tests.errors import fails

LAW = load_law("chinchilla")
TABLE = oracles.table(LAW, runs=8)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "noise"), [("ptpp-gate", "normal"), ("d-cpt", "student")])
def test_chains_run_the_density_that_python_knows(name: str, noise: str) -> None:
    """The C function that chains call returns value and gradient of the mapped density, and a code where they are not finite."""
    law = load_law(name)
    observed = oracles.observations(law)
    density = Density.of(law, observed, Noise.choose(noise, observed))
    skewed = 0.1 * np.random.default_rng(1).standard_normal((50, density.size)) ** 3
    ridge_map = find_ridge_map(density, range(len(law.shapes))).refined(skewed, 4)
    model, expected = sampling.nutpie_model(density, ridge_map, 1), density.function(ridge_map.arrays)
    call, k, rng = model.compiled_logp_func.ctypes, density.size, np.random.default_rng(0)

    def pointer(array: oracles.Array) -> Any:
        return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    for _ in range(3):
        z, gradient, value = rng.standard_normal(k), np.empty(k), np.empty(1)
        assert call(k, pointer(z), pointer(gradient), pointer(value), model.user_data.ctypes.data) == 0
        assert value[0] == expected(z)[0]
        np.testing.assert_array_equal(gradient, expected(z)[1])
    assert call(k, pointer(np.full(k, np.nan)), pointer(gradient), pointer(value), model.user_data.ctypes.data) in (3, 4)


@pytest.mark.parametrize(
    ("lengths", "chains", "draws"),
    [
        ((100, 100, 100, 100), [0, 1, 2, 3], 100),
        ((100, 0, 95, 0), [0, 2], 95),
        ((100, 100, 12, 9), [0, 1], 100),
        ((40, 60, 50, 100), [0, 1, 2, 3], 40),
        ((3, 100, 0, 0), [1], 100),
    ],
)
def test_the_most_draws_of_equal_length_are_kept_of_chains_cut_short(
    lengths: tuple[int, ...], chains: list[int], draws: int, rng: np.random.Generator
) -> None:
    chains_cut = [
        (rng.standard_normal((length, 3)), {"n_steps": np.full(length, chain), "diverging": np.zeros(length, bool)})
        for chain, length in enumerate(lengths)
    ]
    kept, stats = sampling.complete_draws(chains_cut, 100)
    assert stats["n_steps"].values.tolist() == [[c] * draws for c in chains]
    assert kept.shape == (len(chains), draws, 3)
    for values, chain in zip(kept, chains, strict=True):
        np.testing.assert_array_equal(values, chains_cut[chain][0][:draws])


@pytest.mark.parametrize("lengths", [(9, 0), (0, 0), ()])
def test_too_few_draws_are_not_kept(lengths: tuple[int, ...]) -> None:
    with pytest.raises(StoppedError):
        sampling.complete_draws([(np.zeros((length, 3)), {}) for length in lengths], 100)


@pytest.mark.slow
def test_a_posterior_with_a_learnt_error_is_mapped_along_its_scale() -> None:
    """The path widens with the scale of the error; without a path, widths would be the same everywhere."""
    observed = oracles.observed(LAW, TABLE)
    walk = Walk.of(LAW, observed.covariates)
    density = Density.of(LAW, observed, replace(Noise.choose("normal", observed), walk=walk))
    candidates = sampling.ridge_candidates(density)
    assert [density.names[i] for i in candidates] == [*LAW.shapes, "discrepancy"]
    ridge_map = find_ridge_map(density, candidates)
    assert ridge_map.ridge == candidates[-1]
    z = np.zeros((2, density.size))
    z[:, 0] = [-1.5, 1.5]  # along the path, where the error is small and large
    widths = np.ptp([ridge_map.x(z + offset * np.eye(density.size)[-1]) for offset in (-1, 1)], axis=0)[:, ridge_map.order[-1]]
    assert widths[1] > 1.2 * widths[0]  # 1 without a path, to rounding


def test_thinned_draws_count_the_gradients_and_divergences_between() -> None:
    """Three of seven draws are kept: gradients are those of both draws, and a divergence of either counts."""
    z = np.arange(2 * 7 * 3, dtype=np.float64).reshape(2, 7, 3)
    steps = np.array([[1, 2, 3, 4, 5, 6, 7], [10, 20, 30, 40, 50, 60, 70]])
    flags = np.zeros((2, 7), bool)
    flags[0, 2] = flags[1, 5] = flags[1, 6] = True
    dims = ("chain", "draw")
    stats = xr.Dataset({"n_steps": (dims, steps), "diverging": (dims, flags), "energy": (dims, 0.5 * steps)})
    stats = stats.assign_coords(chain=np.arange(2), draw=np.arange(7))
    kept, after = sampling.thinned(z, stats, 2)
    np.testing.assert_array_equal(kept, z[:, [1, 3, 5]])
    assert after["n_steps"].values.tolist() == [[3, 7, 11], [30, 70, 110]]
    assert after["diverging"].values.tolist() == [[False, True, False], [False, False, True]]
    assert after["energy"].values.tolist() == [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]
    assert dict(after.sizes) == {"chain": 2, "draw": 3}


@pytest.mark.slow
def test_energies_of_all_draws_are_kept_where_draws_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second draw of a slow fit is kept; E-BFMI needs the energies of all."""
    monkeypatch.setattr(sampling, "is_slow", lambda _: True)
    made, runs = sampled_by_hand(monkeypatch, divergent=False, acceptance=Acceptance())
    assert made.draws["E"].shape == made.stats["energy"].shape == (2, 40)
    assert runs[1][0].draws == 80
    np.testing.assert_array_equal(made.energy, runs[1][1])


@pytest.mark.parametrize(
    ("asked", "divergent", "steps", "rate"),
    [(None, False, 7, 0.95), (None, True, 7, 0.9875), (None, False, 15, 0.9875), (0.97, False, 7, 0.97), (0.97, True, 7, 0.97)],
)
def test_steps_are_smaller_where_some_of_the_first_run_diverged_or_paths_were_long(
    asked: float | None, divergent: bool, steps: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, runs = sampled_by_hand(monkeypatch, divergent=divergent, steps=steps, acceptance=Acceptance.of(asked))
    assert [settings.target_accept for settings, _ in runs] == [sampling.PILOT_ACCEPT, rate]


def sampled_by_hand(
    monkeypatch: pytest.MonkeyPatch, *, divergent: bool, acceptance: Acceptance, steps: int = 7
) -> tuple[sampling.Sample, list[tuple[SamplerRun, oracles.Array]]]:
    """A sample whose chains are random numbers, one of them divergent or none, and the settings and energies of its two runs."""
    runs: list[tuple[SamplerRun, oracles.Array]] = []

    def run_chains(density: Density, _: object, settings: SamplerRun, __: object) -> tuple[oracles.Array, xr.Dataset, bool]:
        rng, dims, shape = np.random.default_rng(len(runs)), ("chain", "draw"), (settings.chains, settings.draws)
        flags = np.zeros(shape, dtype=bool)
        flags[-1, -1] = divergent
        runs.append((settings, rng.standard_normal(shape)))
        stats = {"energy": (dims, runs[-1][1]), "n_steps": (dims, np.full(shape, steps)), "diverging": (dims, flags)}
        coords = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
        return 0.1 * rng.standard_normal((*shape, density.size)), xr.Dataset(stats, coords=coords), False

    monkeypatch.setattr(sampling, "run_chains", run_chains)
    observed = oracles.observed(LAW, TABLE)
    density = Density.of(LAW, observed, Noise.choose("normal", observed))
    made = sample_with_given_chains(density, SamplerSettings(draws=40, tune=100, chains=2, seed=1, acceptance=acceptance, cores=1))
    return made, runs


@pytest.mark.parametrize("fault", ["divergences", "slow"])
def test_sampling_that_failed_is_repeated_once_with_more_tuning(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """The second sample counts; draws are thinned only where the first mixed too slowly."""
    asked: list[SamplerSettings] = []

    def fake(density: object, settings: SamplerSettings) -> sampling.Sample:
        asked.append(settings)
        rng, dims, shape = np.random.default_rng(len(asked)), ("chain", "draw"), (settings.chains, settings.draws)
        z, bad = rng.standard_normal(shape), len(asked) == 1
        flags, steps = np.full(shape, bad and fault == "divergences"), np.full(shape, settings.tune // 10)
        stats = {"diverging": (dims, flags), "energy": (dims, z**2), "n_steps": (dims, steps)}
        z += 3 * np.arange(shape[0])[:, None] * (bad and fault == "slow")
        return sampling.Sample({"E": z}, xr.Dataset(stats), z**2, None, False, settings.acceptance.rough)

    monkeypatch.setattr(sampling, "sample", fake)
    settings = SamplerSettings(draws=1000, tune=500, chains=4, seed=3, acceptance=Acceptance(0.9, 0.98))
    density: Any = SimpleNamespace(observed=SimpleNamespace(response=np.zeros(50)))
    made, checks = sampling.sample_soundly(density, settings)
    assert [call.tune for call in asked] == [500, 2000]
    assert asked[1].acceptance == pytest.approx((0.975, 0.995) if fault == "divergences" else (0.9, 0.98))
    assert asked[1].thin == (1 if fault == "divergences" else sampling.LONGER)
    assert [check.name for check in checks if not check.passed] == ["repeated"]
    assert abs(made.draws["E"].mean()) < 0.1
    assert ("divergences" if fault == "divergences" else "r_hat") in checks[-1].text
    (how,) = checks[-1].table.to_dict("records")  # of which methods paragraphs speak
    assert (how["sample"], how["tune"], how["thin"]) == ("second", 2000, asked[1].thin)
    assert how["target_accept_before"] == 0.98
    assert how["target_accept"] == pytest.approx(asked[1].acceptance.rough)
    assert how["failed"] in checks[-1].text
    for changed in (
        replace(settings, draws=100),
        replace(settings, tune=10 * sampling.LONG // 50 + 10),
    ):  # a trial, and one that took long already
        asked.clear()
        _, checks = sampling.sample_soundly(density, changed)
        assert len(asked) == 1
        assert any(not check.passed for check in checks)
        assert (changed.tune > settings.tune) == (checks[-1].name == "not_repeated")


@pytest.mark.parametrize(("faults", "times"), [(("slow", "divergences"), 3), (("divergences", "slow"), 2), (("slow", "slow"), 2)])
def test_a_third_sample_is_drawn_where_nothing_but_divergences_is_left(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[str, ...], times: int
) -> None:
    """Its steps are smaller than those of the second, and chains as long."""
    asked: list[SamplerSettings] = []

    def fake(density: object, settings: SamplerSettings) -> sampling.Sample:
        fault = (*faults, "")[len(asked)]
        asked.append(settings)
        z, dims = np.random.default_rng(1).standard_normal((4, 1000)), ("chain", "draw")
        z += 3 * np.arange(4)[:, None] * (fault == "slow")
        flags = np.full(z.shape, fault == "divergences")
        stats = {"diverging": (dims, flags), "energy": (dims, z**2), "n_steps": (dims, np.full(z.shape, 50))}
        return sampling.Sample({"E": z}, xr.Dataset(stats), z**2, None, interrupted=False)

    monkeypatch.setattr(sampling, "sample", fake)
    density: Any = SimpleNamespace(observed=SimpleNamespace(response=np.zeros(50)))
    settings = SamplerSettings(draws=1000, tune=500, chains=4, seed=3, acceptance=Acceptance(0.9, 0.98))
    _, checks = sampling.sample_soundly(density, settings)
    assert len(asked) == times
    text = checks[-1].text
    if times == 3:
        assert asked[2].acceptance == pytest.approx((0.975, 0.995))
        assert asked[0].seed == asked[1].seed == 3 != asked[2].seed
        assert [call.thin for call in asked] == [1, sampling.LONGER, sampling.LONGER]
        assert [check.name for check in checks if not check.passed] == ["repeated"]
        assert text.startswith("sampled a third time")
        assert text.endswith("failed divergences")
    else:
        assert text.startswith("sampled a second time")
        assert "r_hat" in {check.name for check in checks if not check.passed}


def test_divergences_that_are_tolerated_are_no_reason_to_sample_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SamplerSettings] = []

    def fake(density: object, settings: SamplerSettings) -> sampling.Sample:
        asked.append(settings)
        z, dims = np.random.default_rng(1).standard_normal((4, 1000)), ("chain", "draw")
        flags = np.zeros(z.shape, dtype=bool)
        flags[0, :20] = True  # half a percent
        stats = {"diverging": (dims, flags), "energy": (dims, z**2), "n_steps": (dims, np.full(z.shape, 50))}
        return sampling.Sample({"E": z}, xr.Dataset(stats), z**2, None, interrupted=False)

    monkeypatch.setattr(sampling, "sample", fake)
    density: Any = SimpleNamespace(observed=SimpleNamespace(response=np.zeros(50)))
    for divergent, times in ((0.0, 3), (0.004, 3), (0.01, 1)):
        asked.clear()
        settings = SamplerSettings(draws=1000, tune=500, chains=4, seed=3, acceptance=Acceptance())
        _, checks = sampling.sample_soundly(density, settings, divergent=divergent)
        assert len(asked) == times
        assert "divergences" in {check.name for check in checks if not check.passed}


def test_correlated_draws_are_slow(rng: np.random.Generator) -> None:
    z = rng.standard_normal((4, 2000))
    assert not sampling.is_slow({"E": z})
    correlated = z.copy()
    for i in range(1, 2000):
        correlated[:, i] = 0.8 * correlated[:, i - 1] + 0.6 * z[:, i]
    assert sampling.is_slow({"E": z, "A": correlated})


# --- settings -------------------------------------------------------------------------------------------------------

SETTINGS: dict[str, tuple[dict[str, Any], str, str]] = {
    "draws": ({"draws": 5}, "not-a-whole-number", "at least 10, not 5"),
    "fraction": ({"draws": 50.5}, "not-a-whole-number", "50.5"),
    "tune": ({"tune": 0}, "not-a-whole-number", "at least 50, not 0"),
    "chains": ({"chains": 0}, "not-a-whole-number", "chains"),
    "cores": ({"cores": 0}, "not-a-whole-number", "cores"),
    "seed": ({"seed": -1}, "not-a-whole-number", "-1"),
    "large-seed": ({"seed": 2**63}, "too-large-a-number", "9223372036854775808"),
    "acceptance": ({"target_accept": 1.0}, "bad-target-accept", "1.0"),
    "noise": ({"noise": "gauss"}, "unknown-noise", "gauss"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_out_of_range_are_refused(case: str) -> None:
    options, code, named = SETTINGS[case]
    with fails(code, named):
        fit(LAW, TABLE, progress=False, **options)


def test_unusable_priors_are_refused() -> None:
    for prior, named in ({"E": "Normal(1"}, "Normal(1"), ({"e": "Normal(1, 1)"}, "Did you mean 'E'?"):
        with pytest.raises(BayeslawError, match=re.escape(named)):
            fit(LAW, TABLE, priors=prior, progress=False)


def test_faulty_laws_and_tables_are_refused() -> None:
    with pytest.raises(CardError, match="chinchila"):
        fit("chinchila", TABLE)
    with pytest.raises(TableError, match="loss -1"):
        fit(LAW, TABLE.assign(loss=-1.0))
