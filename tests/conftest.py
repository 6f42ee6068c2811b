"""Fixtures that several test files use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

from bayeslaw.laws import Law, law_names, load_law

settings.register_profile("same every time", derandomize=True, deadline=None, database=None)
settings.load_profile("same every time")


@pytest.fixture(params=law_names())
def law(request: pytest.FixtureRequest) -> Law:
    """Every law that comes with bayeslaw, one after the other."""
    return load_law(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)
