"""Fixtures of the unit tests, none of which samples: fits with the names of the sampled ones have other draws."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest

from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.conftest import write_files
from tests.fixed import stand_in_fit


@pytest.fixture(autouse=True)
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a unit test samples a posterior."""

    def refuse(*_: object, **__: object) -> NoReturn:
        pytest.fail(
            "unit tests do not sample: use draws of tests/fixed.py, or move the test to tests/integration or tests/statistical"
        )

    monkeypatch.setattr(import_module("bayeslaw.inference.sample"), "sample", refuse)


@pytest.fixture(scope="session")
def small_fit() -> Fit:
    """A fit of chinchilla to 40 rows with too few draws to pass its checks."""
    return stand_in_fit("chinchilla", oracles.table(load_law("chinchilla"), runs=8), draws=150)


@pytest.fixture(scope="session")
def sound_fit() -> Fit:
    """A fit of chinchilla to 40 rows that passes its checks."""
    return stand_in_fit("chinchilla", oracles.table(load_law("chinchilla"), runs=8), draws=1500)


@pytest.fixture(scope="session")
def ptpp_fit() -> Fit:
    """A fit of ptpp-floor to 60 rows that passes its checks."""
    return stand_in_fit("ptpp-floor", oracles.table(load_law("ptpp-floor"), runs=12), draws=2000)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory, sound_fit: Fit, small_fit: Fit) -> Path:
    """Tables, fits that passed and failed their checks, a card, corrupted and foreign files; not to be changed."""
    return write_files(tmp_path_factory.mktemp("unit_files"), sound_fit, small_fit)
