"""The chance that a run under way still gains, from draws worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw.errors import BayeslawError
from bayeslaw.watching import Watch


def test_the_chance_of_a_gain() -> None:
    loss = np.array([[3.0, 2.9, 2.8], [3.0, 2.95, 2.95], [3.0, 3.0, 3.1], [3.0, 2.9, 2.7]])
    steps = np.array([100, 200, 300])
    made = Watch("a", 100, steps, loss, np.full(4, 0.01), None, pd.DataFrame(index=range(3)), ())
    assert made.chance_of_gain() == 0.75
    assert made.chance_of_gain(0.1) == 0.5
    assert made.chance_of_gain(0.06, 200) == 0.5
    assert made.chance_of_gain(1.0) == 0.0
    with pytest.raises(BayeslawError, match="not ahead"):
        made.chance_of_gain(0.1, 400)
    with pytest.raises(BayeslawError, match="A gain is a number"):
        made.chance_of_gain(float("nan"))
