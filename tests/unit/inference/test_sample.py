"""Sampling: the same seed gives the same draws, Ctrl-C keeps what there is, and settings that can't be are refused."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeslaw.core.errors import BayeslawError, CardError, FitError, TableError
from bayeslaw.core.intervals import check_probability, interval_names
from bayeslaw.engine.density import Density
from bayeslaw.engine.transport import RidgeMap, find_ridge_map
from bayeslaw.inference import sample as sampling
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import load_law
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit
from tests import oracles

LAW = load_law("chinchilla")
TABLE = oracles.table(LAW, runs=8)


def test_the_same_seed_gives_the_same_draws(small_fit: Fit) -> None:
    again = fit(LAW, TABLE, draws=200, tune=200, chains=2, seed=1, progress=False)
    other = fit("chinchilla", TABLE, draws=200, tune=200, chains=2, seed=2, progress=False)
    for name, values in small_fit.draws.items():
        assert values.tobytes() == again.draws[name].tobytes()
        assert values.tobytes() != other.draws[name].tobytes()
    assert again.info["data_sha256"] == small_fit.info["data_sha256"] == other.info["data_sha256"]


def test_so_it_does_in_the_process_that_compiles_and_in_later_ones(tmp_path: Path) -> None:
    """Where what is called is compiled into its caller it is optimised otherwise, and draws differ in their last digits."""
    TABLE.to_csv(tmp_path / "runs.csv", index=False)
    script = (
        "import hashlib, bayeslaw\n"
        "made = bayeslaw.fit('chinchilla', 'runs.csv', draws=50, tune=60, chains=2, seed=1, progress=False)\n"
        "print(hashlib.sha256(b''.join(made.draws[name].tobytes() for name in made.draws)).hexdigest())\n"
    )
    options: dict[str, Any] = {"cwd": tmp_path, "env": os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}}
    compiled, loaded = (subprocess.run([sys.executable, "-c", script], **options, capture_output=True) for _ in range(2))
    assert compiled.returncode == 0, compiled.stderr
    assert list((tmp_path / "kernels").rglob("*.nbc"))
    assert compiled.stdout == loaded.stdout


@pytest.mark.parametrize(("name", "noise"), [("chinchilla", "normal"), ("ptpp-gate", "normal"), ("d-cpt", "student")])
def test_chains_run_the_density_that_python_knows(name: str, noise: str) -> None:
    """The C function that chains call gives value and gradient of the whitened density, and says where they are not finite."""
    law = load_law(name)
    observed = oracles.observations(law)
    density = Density.of(law, observed, Noise.choose(noise, observed))
    skewed = 0.1 * np.random.default_rng(1).standard_normal((50, density.size)) ** 3
    ridge_map = find_ridge_map(density, range(len(law.shapes))).refined(density, skewed, 4)
    model, expected = sampling.nutpie_model(density, ridge_map, 1), ridge_map.function(density)
    call, k, rng = model.compiled_logp_func.ctypes, density.size, np.random.default_rng(0)

    def pointer(array: oracles.Array) -> Any:
        return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    for _ in range(3):
        z, gradient, value = rng.standard_normal(k), np.empty(k), np.empty(1)
        assert call(k, pointer(z), pointer(gradient), pointer(value), model.user_data.ctypes.data) == 0
        assert value[0] == expected(z)[0]
        np.testing.assert_array_equal(gradient, expected(z)[1])
    assert call(k, pointer(np.full(k, np.nan)), pointer(gradient), pointer(value), model.user_data.ctypes.data) in (3, 4)


def test_the_truth_is_near(small_fit: Fit) -> None:
    """Not a test of the intervals: 400 draws are enough to see that the law was fitted at all."""
    truth = oracles.typical(LAW) | {"sigma_point": 0.005, "sigma_run": 0.004}
    for name, values in small_fit.draws.items():
        assert abs(np.log(values).mean() - np.log(truth[name])) < 5 * np.log(values).std()


def test_summary(small_fit: Fit) -> None:
    table: pd.DataFrame = small_fit.summary(0.8)
    assert list(table.index) == ["E", "A", "alpha", "B", "beta", "sigma_point", "sigma_run"]
    assert list(table.columns) == [
        "median", "mean", "sd", "eti80_lo", "eti80_hi", "r_hat", "ess_bulk", "ess_tail", "prior_overlap", "checks",
    ]  # fmt: skip
    values = small_fit.draws["alpha"]
    row = [table[column]["alpha"] for column in ("eti80_lo", "median", "eti80_hi")]
    assert row == pytest.approx(np.quantile(values, [0.1, 0.5, 0.9]), rel=1e-12)
    assert table["prior_overlap"].isna().tolist() == [False] * 5 + [True] * 2


def test_what_is_kept_with_a_fit(small_fit: Fit) -> None:
    info = small_fit.info
    settings = {"draws": 200, "tune": 200, "chains": 2, "target_accept": 0.985, "bins": None}
    assert info["settings"] == settings
    assert (info["seed"], info["interrupted"], info["data"]) == (1, False, "the table")
    assert {"bayeslaw", "pymc", "nutpie", "numpy", "python"} <= set(info["versions"])
    assert small_fit.tree["posterior"].sizes == {"chain": 2, "draw": 200}
    assert not small_fit.passed  # 400 draws are too few
    assert {c.name for c in small_fit.checks if not c.passed} & {"ess_bulk", "ess_tail"}


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------


def second(interrupted: Any) -> Any:
    """A `wait` that lets the first run, which refines the map, end, and is `interrupted` in the second."""
    waits = iter([sampling.wait_for_chains, interrupted])
    return lambda sampler: next(waits)(sampler)


def wait_for(draws: int, seconds: float = 60.0) -> Any:
    """A `wait` in which Ctrl-C is pressed once a chain has some draws after tuning."""

    def wait(sampler: Any) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.02)
            seen = sampler.inspect()
            if "posterior" in seen and seen["posterior"].sizes.get("draw", 0) >= draws:
                break
        raise KeyboardInterrupt

    return wait


@pytest.mark.filterwarnings("ignore:Found chain dimension to be longer than draw dimension")  # of `inspect` above
@pytest.mark.parametrize("chains", [1, 2, 4])
def test_ctrl_c_keeps_the_draws_made_so_far(chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "wait_for_chains", second(wait_for(50)))
    made = fit(LAW, TABLE, draws=1_000_000, tune=100, chains=chains, progress=False)
    assert made.info["interrupted"] is True
    sizes = made.tree["posterior"].sizes
    assert 1 <= sizes["chain"] <= chains
    assert 10 <= sizes["draw"] < 1_000_000
    assert made.tree["sample_stats"].sizes == sizes
    for values in made.by_chain.values():
        assert np.isfinite(values).all()
        assert np.all(np.abs(np.diff(values, axis=1)).max(axis=1) > 0)
        # no chain ends in one repeated value
        assert np.all(np.abs(np.diff(values[:, -5:], axis=1)).max(axis=1) > 0)


def test_a_signal_while_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = sampling.wait_for_chains

    # A process started in the background by a shell ignores Ctrl-C, and Python then has no handler for it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(sampler: Any) -> Any:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        return wait(sampler)

    monkeypatch.setattr(sampling, "wait_for_chains", second(interrupted))
    try:
        made = fit(LAW, TABLE, draws=10_000_000, tune=50, chains=2, progress=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert made.info["interrupted"] is True
    assert 10 <= made.tree["posterior"].sizes["draw"] < 10_000_000


def test_ctrl_c_before_the_first_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "wait_for_chains", wait)
    with pytest.raises(FitError) as caught:
        fit(LAW, TABLE, draws=1000, tune=1_000_000, chains=2, progress=False)
    assert str(caught.value) == "Sampling was stopped before the first draws after tuning: nothing to keep."


@pytest.fixture(scope="module")
def parts() -> tuple[Density, RidgeMap]:
    density = Density.of(LAW, oracles.observations(LAW), Noise(student=False, run_effect=True))
    return density, find_ridge_map(density, [])


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
def test_of_chains_cut_short_the_most_draws_of_equal_length_are_kept(
    lengths: tuple[int, ...], chains: list[int], draws: int, parts: tuple[Density, RidgeMap], rng: np.random.Generator
) -> None:
    density, ridge_map = parts
    z = rng.standard_normal((4, 100, density.size))
    steps = np.tile(np.arange(4)[:, None], (1, 100))
    for chain, length in enumerate(lengths):
        z[chain, length:] = np.nan
    dims = ("chain", "draw")
    trace = {
        "posterior": xr.Dataset({"z": ((*dims, "k"), z)}),
        "sample_stats": xr.Dataset({"n_steps": (dims, steps), "diverging": (dims, steps > 9)}),
    }
    kept, stats = sampling.complete_draws(trace)
    assert stats["n_steps"].values.tolist() == [[c] * draws for c in chains]
    np.testing.assert_array_equal(kept, z[chains, :draws])
    sample = sampling.to_sample(kept, stats, density, ridge_map, True)
    expected = density.draws(ridge_map.x(np.ascontiguousarray(kept.reshape(-1, density.size))))
    for name, values in expected.items():
        np.testing.assert_array_equal(sample.draws[name], values.reshape(len(chains), draws))
    assert sample.interrupted


@pytest.mark.parametrize("lengths", [(9, 0), (0, 0)])
def test_too_few_draws_are_nothing_to_keep(lengths: tuple[int, ...]) -> None:
    z = np.zeros((2, 100, 3))
    for chain, length in enumerate(lengths):
        z[chain, length:] = np.nan
    with pytest.raises(FitError, match="nothing to keep"):
        sampling.complete_draws({"posterior": xr.Dataset({"z": (("chain", "draw", "k"), z)})})


def test_of_every_second_draw_nothing_between_is_hidden() -> None:
    """Seven draws of which three are kept: gradients are those of both draws, and a divergence of either counts."""
    z = np.arange(2 * 7 * 3, dtype=np.float64).reshape(2, 7, 3)
    steps = np.array([[1, 2, 3, 4, 5, 6, 7], [10, 20, 30, 40, 50, 60, 70]])
    flags = np.zeros((2, 7), bool)
    flags[0, 2] = flags[1, 5] = flags[1, 6] = True
    dims = ("chain", "draw")
    stats = xr.Dataset({"n_steps": (dims, steps), "diverging": (dims, flags), "energy": (dims, 0.5 * steps)})
    stats = stats.assign_coords(chain=np.arange(2), draw=np.arange(7))
    kept, after = sampling.thin(2, z, stats)
    np.testing.assert_array_equal(kept, z[:, [1, 3, 5]])
    assert after["n_steps"].values.tolist() == [[3, 7, 11], [30, 70, 110]]
    assert after["diverging"].values.tolist() == [[False, True, False], [False, False, True]]
    assert after["energy"].values.tolist() == [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]
    assert dict(after.sizes) == {"chain": 2, "draw": 3}
    same, untouched = sampling.thin(1, z, stats)
    assert same is z
    assert untouched is stats


def test_draws_that_creep_are_slow(parts: tuple[Density, RidgeMap], rng: np.random.Generator) -> None:
    """Only parameters of the law count: the noise's mix badly before the map is refined, whatever the law."""
    density, ridge_map = parts
    z = rng.standard_normal((4, 300, density.size))
    assert not sampling.is_slow(density, ridge_map, z)
    creeping = z.copy()
    for i in range(1, 300):
        creeping[:, i] = 0.8 * creeping[:, i - 1] + 0.6 * z[:, i]
    assert sampling.is_slow(density, ridge_map, creeping)


# --- settings -------------------------------------------------------------------------------------------------------

SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "draws": ({"draws": 5}, "draws must be a whole number of at least 10, not 5."),
    "no whole number": ({"draws": 50.5}, "draws must be a whole number of at least 10, not 50.5."),
    "tune": ({"tune": 0}, "tune must be a whole number of at least 50, not 0."),
    "chains": ({"chains": 0}, "chains must be a whole number of at least 1, not 0."),
    "seed": ({"seed": -1}, "seed must be a whole number of at least 0, not -1."),
    "large seed": ({"seed": 2**63}, "seed must be smaller than 2**63, not 9223372036854775808."),
    "acceptance": ({"target_accept": 1.0}, "target_accept must be at least 0.5 and less than 1, not 1.0."),
    "noise": (
        {"noise": "gauss"},
        "No noise 'gauss'; choose one of auto, normal, normal-drift, normal-checkpoint, skew, student, normal-no-run, ",
    ),
    "prior": ({"priors": {"E": "Normal(1"}}, "'Normal(1' is not a prior; write it like LogNormal(0.5, 0.3)."),
    "parameter": ({"priors": {"e": "Normal(1, 1)"}}, "e is not a parameter of chinchilla."),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_cant_be(case: str) -> None:
    options, text = SETTINGS[case]
    with pytest.raises(BayeslawError) as caught:
        fit(LAW, TABLE, progress=False, **options)
    assert str(caught.value).startswith(text)


def test_faulty_laws_and_tables() -> None:
    with pytest.raises(CardError, match="No law 'chinchila'"):
        fit("chinchila", TABLE)
    with pytest.raises(TableError, match="loss -1 is not positive"):
        fit(LAW, TABLE.assign(loss=-1.0))


def test_interval_names_and_probabilities() -> None:
    assert interval_names("eti", 0.9) == ("eti90_lo", "eti90_hi")
    assert interval_names("eti", 0.995) == ("eti99.5_lo", "eti99.5_hi")
    check_probability(0.9)
    with pytest.raises(BayeslawError, match=r"lies between 0 and 1, 90 does not: write 0\.9 for 90%\."):
        check_probability(90)
    with pytest.raises(BayeslawError, match=r"lies between 0 and 1, 0 does not\."):
        check_probability(0)
