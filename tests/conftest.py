"""Fixtures that several test files use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

from bayeslaw.fitting import Fit, fit
from bayeslaw.laws import Law, law_names, load_law
from tests import oracles

settings.register_profile("same every time", derandomize=True, deadline=None, database=None)
settings.load_profile("same every time")


@pytest.fixture(params=law_names())
def law(request: pytest.FixtureRequest) -> Law:
    """Every law that comes with bayeslaw, one after the other."""
    return load_law(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture(scope="session")
def small_fit() -> Fit:
    """A quick fit of chinchilla to 40 rows: too short to pass its checks."""
    law = load_law("chinchilla")
    return fit(law, oracles.table(law, runs=8), draws=200, tune=200, chains=2, seed=1, progress=False)
