"""Sampling: the same seed gives the same draws, and Ctrl-C keeps the draws made so far."""

from __future__ import annotations

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

from bayeslaw.core.errors import StoppedError
from bayeslaw.forecasting.together import fit_stack
from bayeslaw.inference import sample as sampling
from bayeslaw.inference.discrepancy import STOPPED
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, rejected
from tests.fixed import loaded_fit

pytestmark = pytest.mark.usefixtures("all_blas_threads")
LAW = load_law("chinchilla")
TABLE = oracles.table(LAW, runs=8)
FEW = pd.DataFrame(
    {"N": [1e8, 2e8, 4e8, 1e8, 4e8], "D": [2e9, 8e9, 8e9, 16e9, 32e9], "loss": [3.655, 3.111, 2.924, 3.215, 2.680]}
)  # made up: they fall with N and D


def test_the_same_seed_gives_the_same_draws(small_fit: Fit) -> None:
    again = fit(LAW, TABLE, draws=200, tune=200, chains=2, seed=1, progress=False)
    other = fit("chinchilla", TABLE, draws=200, tune=200, chains=2, seed=2, progress=False)
    for name, values in small_fit.draws.items():
        assert values.tobytes() == again.draws[name].tobytes()
        assert values.tobytes() != other.draws[name].tobytes()
    assert again.info["data_sha256"] == small_fit.info["data_sha256"] == other.info["data_sha256"]


@pytest.mark.parametrize("rows", [4, 5])
def test_as_few_losses_as_a_law_goes_through_have_the_noise_of_the_prior(rows: int) -> None:
    """Five losses, through which chinchilla goes, were refused as computed: the density has its mode at a noise of 1e-7 there."""
    made = fit(LAW, FEW[:rows], seed=1, progress=False, discrepancy="none")
    assert made.passed, made.checks
    middle, high = np.quantile(made.draws["sigma_point"], [0.5, 0.95])
    assert 0.001 < middle < 0.02  # .005 and .06 in the prior; the spike is at 1e-7, and one degree of freedom or none tells more
    assert 0.008 < high < 0.1


def test_draws_are_the_same_in_processes_that_compile_at_once_and_in_later_ones(tmp_path: Path) -> None:
    """On one core and on two. A function compiled into its caller is optimised differently: draws differ in their last digits."""
    TABLE.to_csv(tmp_path / "runs.csv", index=False)
    script = (
        "import hashlib, sys, bayeslaw\n"
        "settings = dict(draws=50, tune=60, chains=2, seed=1, progress=False, cores=int(sys.argv[1]), discrepancy='none')\n"
        "fit = bayeslaw.fit('chinchilla', 'runs.csv', **settings)\n"
        "print(hashlib.sha256(b''.join(fit.draws[name].tobytes() for name in fit.draws)).hexdigest())\n"
    )
    options: dict[str, Any] = {"cwd": tmp_path, "env": os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen([sys.executable, "-c", script, cores], **options, **pipes) for cores in ("1", "2")]
    compiled = [process.communicate() for process in both]
    assert all(process.returncode == 0 for process in both), compiled
    assert list((tmp_path / "cache").rglob("*.nbc"))
    loaded = subprocess.run([sys.executable, "-c", script, "2"], **options, capture_output=True)
    assert compiled[0][0] == compiled[1][0] == loaded.stdout


def test_the_truth_is_near(small_fit: Fit) -> None:
    """400 draws are enough to see that the law was fitted; intervals are tested in tests/statistical."""
    truth = oracles.typical(LAW) | {"sigma_point": 0.005, "sigma_run": 0.004}
    for name, values in small_fit.draws.items():
        assert abs(np.log(values).mean() - np.log(truth[name])) < 5 * np.log(values).std()


def test_the_summary_has_a_row_a_parameter(small_fit: Fit) -> None:
    table: pd.DataFrame = small_fit.summary(0.8)
    assert list(table.index) == ["E", "A", "alpha", "B", "beta", "sigma_point", "sigma_run"]
    assert list(table.columns) == [
        "median", "eti80_lb", "eti80_ub", "mean", "sd", "r_hat", "ess_bulk", "ess_tail", "prior_overlap", "checks", "model",
    ]  # fmt: skip
    values = small_fit.draws["alpha"]
    row = [table[column]["alpha"] for column in ("eti80_lb", "median", "eti80_ub")]
    assert row == pytest.approx(np.quantile(values, [0.1, 0.5, 0.9]), rel=1e-12)
    assert table["prior_overlap"].isna().tolist() == [False] * 5 + [True] * 2


def test_a_fit_stores_its_settings_and_versions(small_fit: Fit) -> None:
    info = small_fit.info
    settings = {"draws": 200, "tune": 200, "chains": 2, "target_accept": None, "bins": None}
    assert info["settings"] == settings
    assert (info["seed"], info["interrupted"], info["data"]) == (1, False, "the table")
    assert {"bayeslaw", "pymc", "nutpie", "numpy", "python"} <= set(info["versions"])
    assert small_fit.tree["posterior"].sizes == {"chain": 2, "draw": 200}
    assert not small_fit.passed  # 400 draws are too few
    assert {c.name for c in small_fit.checks if not c.passed} & {"ess_bulk", "ess_tail"}


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------


def second(interrupted: Any) -> Any:
    """A function that waits for the first run, which refines the map, and is `interrupted` in the second."""
    waits = iter([sampling.wait_for_chains, interrupted])
    return lambda sampler: next(waits)(sampler)


def wait_for(draws: int, seconds: float = 60.0) -> Any:
    """A function in which Ctrl-C is pressed once a chain has some draws after tuning."""

    def wait(sampler: Any) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.02)
            if any(len(z) >= draws for z, _ in sampling.chains_of(sampler.inspect())):
                break
        raise KeyboardInterrupt

    return wait


@pytest.mark.parametrize("chains", [1, 2, 4])
def test_ctrl_c_keeps_the_draws_made_so_far(chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "wait_for_chains", second(wait_for(50)))
    interrupted = fit(LAW, TABLE, draws=1_000_000, tune=100, chains=chains, progress=False)
    assert interrupted.info["interrupted"] is True
    assert "interrupted" in {check.name for check in interrupted.concerns}
    sizes = interrupted.tree["posterior"].sizes
    assert 1 <= sizes["chain"] <= chains
    assert 10 <= sizes["draw"] < 1_000_000
    assert interrupted.tree["sample_stats"].sizes == sizes
    for values in interrupted.by_chain.values():
        assert np.isfinite(values).all()
        assert np.all(np.abs(np.diff(values, axis=1)).max(axis=1) > 0)
        # no chain ends in one repeated value
        assert np.all(np.abs(np.diff(values[:, -5:], axis=1)).max(axis=1) > 0)


def test_ctrl_c_while_the_laws_error_is_learnt_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayeslaw.inference.fit.learn_discrepancy", lambda *_: STOPPED)
    stopped = fit(LAW, TABLE, draws=100, tune=100, chains=2, progress=False)
    assert stopped.info["interrupted"] is True
    told = [check.text for check in stopped.concerns if check.name == "interrupted"]
    assert told == ["Ctrl-C stopped the fit after 100 of 100 draws of each chain, before it learnt the law's error"]
    monkeypatch.setattr("bayeslaw.forecasting.together.fit", lambda *_, **__: stopped)
    with pytest.raises(KeyboardInterrupt):
        fit_stack(["chinchilla", "kaplan"], TABLE)


def test_a_signal_while_sampling_keeps_the_draws_made_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = sampling.wait_for_chains

    # A process started in the background by a shell ignores Ctrl-C, and Python then has no handler for it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(sampler: Any) -> Any:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        return wait(sampler)

    monkeypatch.setattr(sampling, "wait_for_chains", second(interrupted))
    try:
        result = fit(LAW, TABLE, draws=4_000_000, tune=50, chains=2, progress=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.info["interrupted"] is True
    assert 10 <= result.tree["posterior"].sizes["draw"] < 4_000_000


def test_ctrl_c_before_the_first_draw_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "wait_for_chains", wait)
    with pytest.raises(StoppedError, match="nothing to keep"):
        fit(LAW, TABLE, draws=1000, tune=1_000_000, chains=2, progress=False)


# --- noise along a curve --------------------------------------------------------------------------------------------


def test_an_ou_run_effect_is_sampled_stored_and_read(tmp_path: Path, command: Command) -> None:
    """A table with `step`, or else the tokens D, is a clock; a table with neither is refused."""
    table, path = oracles.table(load_law("chinchilla"), runs=3), tmp_path / "fit.nc"
    table.to_csv(tmp_path / "runs.csv", index=False)
    options = ("--noise", "normal-drift", "--draws", 50, "--tune", 50, "--chains", 2)
    done = command("fit", "chinchilla", tmp_path / "runs.csv", "-o", path, *options)
    assert done.status == 0
    assert "a run effect that changes along the run" in done.out
    fit = loaded_fit(path)
    assert {"sigma_point", "sigma_run", "drift"} <= set(fit.draws)
    assert fit.noise.drift
    assert fit.observed.clock_column == "D"
    assert fit.observed.time.max() > 0
    assert np.isfinite(fit.log_likelihood().values).all()
    oracles.table(load_law("parallel-scaling")).to_csv(tmp_path / "timeless.csv", index=False)
    done = command("fit", "parallel-scaling", tmp_path / "timeless.csv", "-o", path, "--noise", "normal-drift")
    rejected(done, "missing-clock", "step")


def test_a_fit_with_series_is_stored_and_forecasts(tmp_path: Path) -> None:
    law = load_law("multi-power")
    table = oracles.table(law)
    sampled = fit(law, table, draws=30, tune=60, chains=2, progress=False)
    sampled.save(tmp_path / "fit.nc")
    stored = loaded_fit(tmp_path / "fit.nc")
    settings = table[[*law.covariates, "run"]]
    forecast = stored.forecast(settings, force=True)
    assert list(forecast.outside) == ["S1", "lr_peak"]
    np.testing.assert_array_equal(forecast.draws["latent"], sampled.forecast(settings, force=True).draws["latent"])
    assert "fall" not in "".join(map(str, stored.sensitivity().index))
