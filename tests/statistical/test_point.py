"""The bootstrap of point fits: its spread against new tables, and by runs against by rows."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import load_law
from tests import oracles

pytestmark = pytest.mark.statistical


def test_resampling_rows_that_share_runs_is_over_confident() -> None:
    """With all noise shared by runs, resampled runs spread what resampled rows hide, by up to sqrt(5) with 5 rows a run."""
    law = load_law("chinchilla")
    table = oracles.table(law, seed=2, runs=16, sigma_point=0.0005, sigma_run=0.01)
    fit = point_fit(law, table, starts=5, delta=10.0)
    settings = {"N": np.array([3e8]), "D": np.array([3e9])}
    spread = {by: np.log(law.predict(fit.bootstrap(60, by=by), settings)).std() for by in ("run", "row")}
    assert spread["run"] > 1.3 * spread["row"]


def test_the_bootstrap_spreads_as_the_estimates_of_new_tables_do() -> None:
    """The standard deviation of 40 estimates is known to 11%, and that of 3 x 40 resamples to 7%: 40% is three of both."""
    law, settings = load_law("chinchilla"), {"N": np.array([3e8]), "D": np.array([3e9])}
    tables = [oracles.table(law, seed=s, runs=16, sigma_point=0.01, sigma_run=0.0).drop(columns="run") for s in range(40)]
    points = [point_fit(law, table, starts=2, delta=10.0) for table in tables]
    fresh = np.log([point.predict(settings)[0] for point in points]).std()
    resampled = np.mean([np.log(law.predict(point.bootstrap(40), settings)).std() for point in points[:3]])
    assert resampled == pytest.approx(fresh, rel=0.4)
