"""Arguments of a fit that are refused before anything is read."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import bayeslaw
from tests.errors import fails


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        ({"by": "E=domain"}, "not-a-mapping", "{'E': 'domain'}, not 'E=domain'"),
        ({"by": ["E"]}, "not-a-mapping", "not ['E']"),
        ({"priors": "E=LogNormal(0, 1)"}, "not-a-mapping", "{'E': 'LogNormal(0.5, 0.2)'}"),
        ({"priors": {"E": 3}}, "not-a-prior", "3 is not a prior"),
        ({"target_accept": "0.9"}, "bad-target-accept", "'0.9'"),
        ({"draws": "300"}, "not-a-whole-number", "not '300'"),
    ],
)
def test_arguments_as_the_command_line_has_them_are_refused_in_words(given: dict[str, Any], code: str, named: str) -> None:
    with fails(code, named):
        bayeslaw.fit("chinchilla", pd.DataFrame({"N": [1e8], "D": [1e9], "loss": [3.0]}), **given)
