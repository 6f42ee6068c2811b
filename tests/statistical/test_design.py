"""Decisions on runs over many simulations: false alarms of updates, and the order in which a look-ahead ranks designs."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from bayeslaw.data.table import read_runs
from bayeslaw.design import compare_with_predictions, nested
from tests.fixed import line_fit
from tests.oracles import Array

X = np.array([0.5, 1.0, 1.5, 2.0, 0.0, 1.0])
RUN = np.array([0, 0, 0, 0, 1, 1])
TARGETS = pd.DataFrame({"x": [2.0, 3.0, 0.0]})


def curvature(x: Array) -> Array:
    return np.stack([np.ones_like(x), x, x**2])


def test_the_smallest_adjusted_probability_of_several_runs_is_uniform() -> None:
    """Six statistics of runs that a fit draws itself raise no more alarms than one."""
    fit, rng = line_fit(size=1000), np.random.default_rng(2)
    latent = np.stack([fit.draws[name] for name in "abc"], axis=1) @ curvature(X)
    smallest = []
    for draw in rng.integers(0, 1000, 60):
        noise = 0.01 * rng.standard_normal(6) + 0.01 * rng.standard_normal(2)[RUN]
        new = pd.DataFrame({"x": X, "loss": np.exp(latent[draw] + noise), "run": np.array(["u", "v"])[RUN]})
        smallest.append(compare_with_predictions(fit, read_runs(new))["p_adjusted"].min())
    assert stats.kstest(smallest, "uniform").pvalue > 0.01


def test_a_look_ahead_ranks_designs_as_the_exact_variances_do() -> None:
    """Forty designs of one run, evaluated with the same draws and the same noise."""
    fit = line_fit(size=1000, point=0.05, run=0.03)
    places = np.linspace(-1, 3, 40)
    designs = {f"at {x:.2f}": pd.DataFrame({"x": [x - 0.5, x, x + 0.5], "run": "one"}) for x in places}
    table = nested(fit, designs, TARGETS, outer=60)
    assert table["design"].tolist() == list(designs)
    prior, at = np.cov([fit.draws[name] for name in "abc"]), curvature(TARGETS["x"].to_numpy())
    exact = []
    for design in designs.values():
        rows = curvature(design["x"].to_numpy())
        gain = prior @ rows @ np.linalg.inv(rows.T @ prior @ rows + 9e-4 + 25e-4 * np.eye(3))
        exact.append(np.diag(at.T @ (prior - gain @ rows.T @ prior) @ at).mean())
    assert table["expected_variance"].corr(pd.Series(exact), method="spearman") > 0.98
