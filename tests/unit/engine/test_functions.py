"""Special functions against SciPy."""

from __future__ import annotations

import pytest
from scipy import special

from bayeslaw.engine.functions import digamma, erfcx


@pytest.mark.parametrize("x", [1e-3, 0.1, 0.5, 1.0, 2.7, 6.0, 40.0, 1e4])
def test_digamma_is_scipys(x: float) -> None:
    assert digamma(x) == pytest.approx(float(special.digamma(x)), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("x", [0.0, 0.3, 1.0, 3.49, 3.51, 8.0, 400.0])
def test_erfcx_is_scipys(x: float) -> None:
    assert erfcx(x) == pytest.approx(float(special.erfcx(x)), rel=1e-13)
