"""Fits with given draws that several files of tests plan with."""

from __future__ import annotations

import pytest

from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.posteriors import ZHENG, law_named, posterior, repeated, scattered, source_fit, target_fit

SIZE = 2000


@pytest.fixture(scope="session")
def source() -> Fit:
    return source_fit(SIZE)


@pytest.fixture(scope="session")
def target() -> Fit:
    return target_fit(SIZE)


@pytest.fixture(scope="session")
def zheng() -> Fit:
    """`cpt-joint` with the published values."""
    return repeated("cpt-joint", ZHENG)


def transfer_fit(domain: str, seed: int) -> Fit:
    """A fit of a law that is finite at D = 0."""
    law = law_named(f"transfer-{domain}")
    return posterior(law, scattered(oracles.typical(law), SIZE, seed, 0.004), seed=seed)


@pytest.fixture(scope="session")
def adapted() -> Fit:
    return transfer_fit("target", 3)


@pytest.fixture(scope="session")
def kept() -> Fit:
    return transfer_fit("source", 4)
