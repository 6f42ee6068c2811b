"""Draws of several laws, one after the other: against each law by itself."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslaw.posterior.draws import JoinedDraws, LawDraws
from tests import oracles
from tests.posteriors import law_named, scattered

LAWS = ("chinchilla", "overtraining", "chinchilla")
SIZES = (3, 5, 2)
D = np.geomspace(1e9, 1e11, 10)


@pytest.fixture
def joined() -> JoinedDraws:
    laws = [(law_named(name), size) for name, size in zip(LAWS, SIZES, strict=True)]
    return JoinedDraws([LawDraws(law, scattered(oracles.typical(law), size, size)) for law, size in laws])


@pytest.mark.parametrize("chosen", [None, np.array([0, 2, 3, 9]), np.array([9, 4, 0, 4]), np.array([1])])
def test_outcomes_are_those_of_each_law(joined: JoinedDraws, chosen: np.ndarray | None) -> None:
    assert joined.size == 10
    numbers = np.arange(10) if chosen is None else chosen
    laws = np.repeat(np.arange(3), SIZES)[numbers]
    own = (np.arange(10) - np.repeat([0, 3, 8], SIZES))[numbers]
    members = [joined.members[law] for law in laws]
    shared = [m.outcome({"N": 1e9, "D": D}, np.array([i]), axes=1)[0] for m, i in zip(members, own, strict=True)]
    np.testing.assert_allclose(joined.outcome({"N": 1e9, "D": D}, chosen, axes=1), shared, rtol=1e-14)
    of_each = [m.outcome({"N": 1e9, "D": d}, np.array([i]))[0] for m, i, d in zip(members, own, D, strict=False)]
    np.testing.assert_allclose(joined.outcome({"N": 1e9, "D": D[: numbers.size]}, chosen), of_each, rtol=1e-14)


def test_some_draws_of_a_law_keep_their_drawn_covariates(joined: JoinedDraws) -> None:
    law = joined.members[1].law
    whole = LawDraws(law, joined.members[1].draws, {"N": 1e9}, {"D": D[:5]})
    np.testing.assert_array_equal(whole.of(np.array([4, 1])).outcome({}), whole.outcome({}, np.array([4, 1])))
