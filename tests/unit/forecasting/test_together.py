"""Several laws fitted to the same runs as one stack."""

from __future__ import annotations

from typing import Any

import pytest

from bayeslaw.core.errors import CardError
from bayeslaw.data.table import Runs
from bayeslaw.forecasting import together
from bayeslaw.forecasting.together import fit_stack
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails

TABLE = oracles.table(load_law("chinchilla"))


def test_every_law_is_fitted_to_the_same_runs_with_the_same_options(sound_fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Runs, dict[str, Any]]] = []

    def fit(law: Law, runs: Runs, **options: Any) -> Fit:
        calls.append((law.name, runs, options))
        return sound_fit

    monkeypatch.setattr(together, "fit", fit)
    stack = fit_stack(["chinchilla", load_law("kaplan")], TABLE, weights=[0.75, 0.25], seed=2, draws=100)
    assert dict(stack.weights) == {"chinchilla": 0.75, "kaplan": 0.25}
    assert [(name, options) for name, _, options in calls] == [
        ("chinchilla", {"seed": 2, "draws": 100}),
        ("kaplan", {"seed": 2, "draws": 100}),
    ]
    assert calls[0][1] is calls[1][1]


def test_weights_are_equal_unless_given(sound_fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "fit", lambda *_, **__: sound_fit)
    assert set(fit_stack(["chinchilla", "kaplan", "chinchilla-nd"], TABLE).weights.values()) == {1 / 3}


def test_faults_are_found_before_anything_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "fit", lambda *_, **__: pytest.fail("fitted"))
    with fails("laws-of-a-stack", "chinchilla"):
        fit_stack(["chinchilla"], TABLE)
    with fails("laws-of-a-stack", "chinchilla, chinchilla"):
        fit_stack(["chinchilla", "chinchilla"], TABLE)
    with fails("unknown-law", "nowhere", kind=CardError):
        fit_stack(["chinchilla", "nowhere"], TABLE)
    with fails("laws-of-two-domains", "from-base-source those of the source", "plateau-target those of the target"):
        fit_stack(["from-base-source", "plateau-target"], TABLE)
    with fails("missing-weights", 1, 2):
        fit_stack(["chinchilla", "kaplan"], TABLE, weights=[1])
    with fails("wrong-weights"):
        fit_stack(["chinchilla", "kaplan"], TABLE, weights=[2, -1])
    with fails("wrong-weights", "in the order of the laws"):
        fit_stack(["chinchilla", "kaplan"], TABLE, weights={"chinchilla": 0.5, "kaplan": 0.5})  # type: ignore[arg-type]
