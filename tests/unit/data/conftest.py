"""A law and its table, of which tests of reading and of faults change a cell or two."""

from __future__ import annotations

import pandas as pd
import pytest

from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from tests import oracles


@pytest.fixture
def gate() -> Law:
    return load_law("ptpp-gate")


@pytest.fixture
def table(gate: Law) -> pd.DataFrame:
    return oracles.table(gate)
