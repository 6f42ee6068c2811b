"""Our posteriors against reference posteriors from an independent implementation, `tests/references`.

`benchmarks/references.py` made them in other coordinates by another sampler. The test shows whether a change of coordinates, priors
or the sampler left the posterior the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pytest
from references import DIVERGENT, ESS, LAWS, QUANTILES, R_HAT, data_marks, twin
from scipy.stats import norm

import bayeslaw
from bayeslaw.posterior.diagnostics import diagnostics

FAMILY = 0.001  # chance that any number of one data set differs by so much if the posteriors are the same
FOLDER = Path(__file__).parents[1] / "references"


def reference(name: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return stored


def scaled(fit: bayeslaw.Fit) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Draws (chains, draws) on the scale of the references: logs, logits of shares, and values of either sign as they are."""
    values = {}
    for name, draws in fit.by_chain.items():
        support = fit.law.parameters[name].prior.support if name in fit.law.parameters else "positive"
        if name == "dof":
            name, draws = "dof_above_2", draws - 2
        logs = np.log(draws) if support != "real" else draws
        values[name] = logs - np.log1p(-draws) if support == "unit" else logs
    return values


def off(values: np.ndarray[Any, np.dtype[np.float64]], kept: dict[str, float]) -> list[float]:
    """Differences of mean, sd and quantiles from those of a reference, in Monte Carlo errors of both."""
    pairs = [("mean", values.mean(), az.mcse(values, method="mean")), ("sd", values.std(ddof=1), az.mcse(values, method="sd"))]
    pairs += [(f"q{100 * q:g}", np.quantile(values, q), az.mcse(values, method="quantile", prob=q)) for q in QUANTILES]
    return [float((ours - kept[k]) / np.hypot(error, kept[f"{k}_error"])) for k, ours, error in pairs]


@pytest.mark.parametrize("name", LAWS)
def test_references_passed_their_own_checks_and_are_of_these_data(name: str) -> None:
    kept = reference(name)
    assert kept["divergent"] <= DIVERGENT * kept["draws"]
    for parameter in kept["parameters"].values():
        assert parameter["r_hat"] <= R_HAT
        assert parameter["ess"] >= ESS
    assert data_marks(name) == pytest.approx(kept["data"], abs=2e-10)


@pytest.mark.statistical
@pytest.mark.parametrize("name", LAWS)
def test_posteriors_agree_with_the_references(name: str) -> None:
    law, frame = twin(name)
    fit = bayeslaw.fit(law, frame, seed=1, progress=False, discrepancy="none")
    assert fit.passed
    kept, ours = reference(name), scaled(fit)
    assert set(ours) == set(kept["parameters"])

    z = {k: off(v, kept["parameters"][k]) for k, v in ours.items()}
    numbers = sum(map(len, z.values()))
    bound = norm.isf(FAMILY / 2 / numbers)
    assert {k: v for k, v in z.items() if np.abs(v).max() > bound} == {}
    # The test has power: it notices a parameter off by a fifth of its sd, or a fifth too narrow.
    for k, v in ours.items():
        for wrong in (v + 0.2 * v.std(), v.mean() + 0.8 * (v - v.mean())):
            assert np.abs(off(wrong, kept["parameters"][k])).max() > bound, k

    names = sorted(ours)
    correlations = np.atleast_2d(np.corrcoef(np.stack([ours[k].ravel() for k in names])))
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    # A correlation is a mean of products of standardised draws, whose effective sample size is below that of the draws themselves.
    unit = {k: (v - v.mean()) / v.std() for k, v in ours.items()}
    products = diagnostics({f"{i},{j}": unit[names[i]] * unit[names[j]] for i, j in pairs})["ess_bulk"].to_numpy()
    apart = [np.arctanh(correlations[i, j]) - np.arctanh(kept["correlations"][names[i]][j]) for i, j in pairs]
    assert np.abs(apart * np.sqrt(products - 3)).max() < norm.isf(FAMILY / 2 / len(pairs))  # of Fisher's z
