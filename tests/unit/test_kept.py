"""Draws that tests keep are those of the same density and settings, and of no other."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.engine.density import Density
from bayeslaw.inference.sample import Sample, SamplerSettings
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.fixed import stand_in
from tests.kept import keeping

TABLE = oracles.table(bayeslaw.load_law("chinchilla"), runs=4)
PLAIN: dict[str, Any] = {"draws": 50, "chains": 2, "seed": 1, "discrepancy": "none", "progress": False}


@pytest.fixture
def sampled(tmp_path: Path) -> Any:
    """Fit with kept draws of `stand_in`: a function that returns the fit and how often it sampled."""
    calls: list[int] = []

    def sample(density: Density, settings: SamplerSettings) -> Sample:
        calls.append(settings.seed)
        return stand_in(density, settings)

    def fitted(law: str = "chinchilla", table: pd.DataFrame = TABLE, **options: Any) -> tuple[Fit, int]:
        before = len(calls)
        with patch.object(import_module("bayeslaw.inference.sample"), "sample", sample), keeping(tmp_path):
            return bayeslaw.fit(law, table, **(PLAIN | options)), len(calls) - before

    return fitted


@pytest.mark.slow
def test_a_fit_of_kept_draws_is_that_of_sampled_ones(sampled: Any) -> None:
    for options in ({}, {"noise": "student"}):  # the second has run effects as parameters
        (first, once), (second, again) = sampled(**options), sampled(**options)
        assert (once, again) == (1, 0)
        assert first.info["contents_sha256"] == second.info["contents_sha256"]
        assert first.tree.identical(second.tree)
    assert sampled(progress=True)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2}, {"draws": 60}, {"tune": 300}, {"chains": 3}, {"target_accept": 0.9}, {"noise": "normal-no-run"},
        {"priors": {"E": "LogNormal(0.5, 0.2)"}}, {"law": "kaplan"}, {"table": TABLE.assign(loss=np.nextafter(TABLE["loss"], 0))},
        {"table": TABLE.assign(N=2 * TABLE["N"])}, {"table": TABLE.assign(loss_se=0.01)}, {"discrepancy": "learned"},
        {"table": TABLE.assign(run=[f"{run}, {i % 5 // 3}" for i, run in enumerate(TABLE["run"])])},
    ],
)  # fmt: skip
def test_another_density_or_setting_is_sampled(sampled: Any, changed: dict[str, Any]) -> None:
    sampled()
    assert sampled(**changed)[1] == 1


@pytest.mark.slow
def test_worker_processes_take_kept_draws_if_asked(sampled: Any, tmp_path: Path) -> None:
    options = {name: value for name, value in PLAIN.items() if name != "progress"}
    task, (kept, _) = bayeslaw.inference.Task("chinchilla", TABLE, options), sampled()
    with keeping(tmp_path, workers=True):
        fits = bayeslaw.fit_many([task], executor="processes:1", progress=False)
    assert fits[0].value is not None, fits[0].error
    assert fits[0].value.info["draws_sha256"] == kept.info["draws_sha256"]  # those of a stand-in, which no sampler would make
