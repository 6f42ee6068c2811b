"""Sums inside formulas whose level and slope get coordinates of their own: which are found, and what the coordinates are."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslaw.core.arrays import Array
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.engine.coordinates import Arrays, Coordinates, nested_sums
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from tests import oracles

REAL, POSITIVE = '{ dist = "Normal", mu = 0, sigma = 1 }', '{ dist = "LogNormal", mu = -1, sigma = 0.5 }'


def card(loss: str, let: str = "", **priors: str) -> Law:
    """A law of N and D with these priors."""
    text = f'name = "own"\ntitle = "own"\nsource = "a test"\nloss = "{loss}"\n[let]\n{let}\n[covariates]\n'
    text += 'N = { unit = "parameters", support = [1e4, 1e13] }\nD = { unit = "training tokens", support = [1e2, 1e15] }\n'
    return parse_card(text + "".join(f'[parameters.{k}]\nmeaning = "{k}"\nprior = {v}\n' for k, v in priors.items()))


@pytest.mark.parametrize(
    ("loss", "let", "levels", "factors"),
    [
        ("exp(a*N**g + b) + D**(-g)", "", ["b"], [["a"]]),
        ("exp(b - a*log(N)) + D**(-g)", "", ["b"], [["a"]]),
        ("exp(part) + D**(-g)", 'part = "b + log(N)*a"', ["b"], [["a"]]),
        ("exp(g*N**(-g) + b) + a*a*D**(-g)", "", ["b"], [[""]]),
        ("b + a*N**(-g) + D**(-g)", "", [], []),  # the floor, which has a coordinate already
        ("exp(a*N**g + b) + exp(b)*D**(-g)", "", [], []),  # b stands twice
        ("exp(a + b) + (N*D)**(-g)", "", [], []),  # no covariate
    ],
)
def test_levels_of_sums_are_found(loss: str, let: str, levels: list[str], factors: list[list[str]]) -> None:
    law = card(loss, let, a=REAL, b=REAL, g=POSITIVE)
    found = nested_sums(law)
    assert [s.level for s in found] == levels
    assert [[name for name, _, _ in s.terms] for s in found] == factors


def test_positive_parameters_keep_their_coordinates() -> None:
    assert nested_sums(card("exp(a*N**g + b) + D**(-g)", a=REAL, b=POSITIVE, g=POSITIVE)) == ()


def test_the_coordinates_are_mean_and_spread_of_the_sum() -> None:
    law = card("exp(b - a*log(N)) + D**(-g)", a=REAL, b=REAL, g=POSITIVE)
    observed = Observations.of(law, read_runs(oracles.table(load_law("chinchilla"))))
    coordinates = Coordinates.of(law, observed)
    rng = np.random.default_rng(0)
    x = {name: rng.standard_normal((20, 1)) for name in law.parameters}
    draws = coordinates.draws(x)
    at = np.log(coordinates.settings["N"])[None, :]
    inside = draws["b"][:, None] - draws["a"][:, None] * at
    np.testing.assert_allclose(inside.mean(axis=1), x["b"][:, 0], rtol=1e-9)
    np.testing.assert_allclose(inside.std(axis=1), np.abs(x["a"][:, 0]), rtol=1e-9)
    jacobian = coordinates.variables(x, Arrays(coordinates.levels)).log_jacobian
    np.testing.assert_allclose(np.broadcast_to(jacobian, (20, 1)), -np.log(at.std()), rtol=1e-9)
    step = 1e-6
    columns: list[Array] = []
    for name in x:  # the Jacobian by differences
        moved = coordinates.draws({**x, name: x[name] + step})
        columns.append(np.stack([(moved[n] - draws[n]) / step for n in ("a", "b")], axis=1))
    by_differences = np.linalg.det(np.stack(columns, axis=2)[:, :, :2])
    np.testing.assert_allclose(np.log(np.abs(by_differences)), -np.log(at.std()), rtol=1e-4)
