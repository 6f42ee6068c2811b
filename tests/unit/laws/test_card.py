"""Every card in models/: its formula against the oracle, its LaTeX, its priors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.mathtext import MathTextParser

from bayeslaw.laws.card import card_folder, law_names, load_law
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior
from tests import oracles
from tests.curves import curves


def random_settings(law: Law, rng: np.random.Generator, rows: int = 40) -> dict[str, oracles.Array]:
    """Settings around a random point of the covariates' supports."""
    if "lr_peak" in law.covariates:  # areas must belong to one schedule, of any peak and length
        peak, steps = 10 ** rng.uniform(-4.5, -2), int(10 ** rng.uniform(3, 4))
        table = curves(rows // 5, peak=peak, steps=steps, changes=bool(law.series)).sample(
            frac=1.0, random_state=int(rng.integers(100))
        )
        return {k: table[k].to_numpy(dtype=np.float64) for k in law.covariates}
    columns: dict[str, oracles.Array] = dict(zip(law.shares, rng.dirichlet(np.ones(max(1, len(law.shares))), rows).T, strict=False))
    for name, covariate in law.covariates.items():
        if name in law.shares:
            continue
        low, high = np.log10(np.maximum(np.array(covariate.support), 1e-30))
        if name == "r":
            columns[name] = rng.uniform(0.05, 0.95, rows)
        elif name == "cpt":
            columns[name] = (np.arange(rows) % 2).astype(np.float64)
        elif name == "base_loss":
            columns[name] = rng.uniform(1.0, 5.0, rows)
        elif name == "loss":
            columns[name] = rng.uniform(2.0, 4.0) + rng.uniform(-1.0, 1.0, rows)
        elif name == "chance":
            columns[name] = np.array([0.0, 0.25, 0.5])[rng.integers(0, 3, rows)]
        elif name in ("S1", "S2", "S3"):
            columns[name] = rng.standard_normal(rows)
        else:
            around = rng.uniform(low, high) + rng.uniform(-1, 1, rows) * (1.0 if name == "ptpp" else 1.5)
            columns[name] = np.power(10.0, np.clip(around, low, high))
    return columns


def test_every_card_has_an_oracle() -> None:
    assert law_names() == sorted(oracles.LAWS)
    assert law_names() == sorted(p.stem for p in card_folder().iterdir())


def test_the_name_of_a_law_is_that_of_its_file(law: Law) -> None:
    assert load_law(card_folder() / f"{law.name}.toml") == law


def test_predict_agrees_with_the_oracle(law: Law, rng: np.random.Generator) -> None:
    for _ in range(1 if law.series else 2):
        settings = random_settings(law, rng)
        draws = law.sample_prior(50, law.reference(pd.DataFrame(settings)), rng)
        expected = oracles.LAWS[law.name]({k: v[:, None] for k, v in draws.items()}, {k: v[None, :] for k, v in settings.items()})
        np.testing.assert_allclose(law.predict(draws, settings), expected, rtol=1e-10)


@pytest.mark.parametrize("name", [n for n in law_names() if "r" in load_law(n).covariates])
def test_predict_is_finite_at_the_ends_of_the_replay_share(name: str, rng: np.random.Generator) -> None:
    law = load_law(name)
    settings = random_settings(law, rng) | {"r": np.tile([0.0, 1.0], 20)}
    draws = law.sample_prior(200, law.reference(pd.DataFrame(settings)), rng)
    expected = oracles.LAWS[name]({k: v[:, None] for k, v in draws.items()}, {k: v[None, :] for k, v in settings.items()})
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(law.predict(draws, settings), expected, rtol=1e-10)


def test_prior_predictive_outcomes_are_possible(law: Law, rng: np.random.Generator) -> None:
    possible = []
    for _ in range(2 if "lr_peak" in law.covariates else 20):
        settings = random_settings(law, rng)
        draws = law.sample_prior(100, law.reference(pd.DataFrame(settings)), rng)
        losses = law.predict(draws, settings)
        low, high = (LEAST.get(law.name, 0.3), 15) if law.outcome.kind == "positive" else law.outcome.bounds
        possible.append(np.mean((losses >= low) & (losses <= high)))
    assert np.mean(possible) >= 0.95


LEAST = {"task-loss": 0.1}  # correct answers may be nearly certain


def test_the_latex_of_a_law_can_be_typeset(law: Law) -> None:
    text = law.latex()
    symbols = {"loss": "L", "task_loss": r"\mathrm{task}_{\mathrm{loss}}"}
    assert text.startswith(symbols.get(law.outcome.name, rf"\mathrm{{{law.outcome.name}}}") + " = ")
    assert all(f" {law.parameters[floor].latex} + " in text for floor in law.floors)
    assert all(p.latex in text for n, p in law.parameters.items() if n in law.formula.names)
    parser: MathTextParser[Any] = MathTextParser("agg")
    for part in re.split(r",\\quad |\\quad\\text\{where\}\\quad ", text):
        assert parser.parse(f"${part}$") is not None


def test_floors_and_amplitudes_are_recognised(law: Law) -> None:
    floor = {"from-base-source": "J", "data-mixing": "c"}.get(law.name, "L0" if "lr_peak" in law.covariates else "E")
    without = {"kaplan", "combination", "injection", "task-sigmoid", "task-exp", "task-direct", "observational-skill"}
    without |= {"bimix"}
    assert law.floors == (() if law.name in without else (floor,))
    scales = {"transfer-target": {"A", "F", "G"}, "transfer-source": {"A", "F", "S", "J"}}
    scales |= {
        "plateau-source": {"U", "S", "J"},
        "plateau-target": {"U"},
        "from-base-source": {"E", "S"},
        "replay-target": {"G"},
        "replay-source": {"F", "S"},
    }
    shifted = {"A", "B", "C1", "C2"}
    scales |= {n: shifted for n in law_names() if n.startswith("cpt-dynamics")}
    scales |= {"cpt-dynamics-size": shifted | {"F"}, "cpt-dynamics-open": shifted - {"C1"}, "multi-power": {"A", "B"}}
    scales |= {
        "combination": {"k"},
        "kaplan": set(),
        "task-direct": set(),
        "repeated-epochs": {"B"},
    }  # these are not sums of terms proportional to a parameter
    on_terms = {name for name, p in law.parameters.items() if p.prior.on is not None}
    assert set(law.amplitudes) == scales.get(law.name, on_terms)
    assert all(name in term.names for name, term in law.amplitudes.items())


def test_the_reference_point_is_a_geometric_mean_for_logarithmic_covariates(law: Law) -> None:
    settings = pd.DataFrame({name: [1.0, 100.0] if c.logarithmic else [0.2, 0.6] for name, c in law.covariates.items()})
    if "D" in settings:
        of_no_consequence = {name: 10.0 for name, c in law.covariates.items() if c.logarithmic}
        settings.loc[len(settings)] = {**settings.mean(), **of_no_consequence, "D": 0.0}
    expected = {name: 10.0 if c.logarithmic else 0.4 for name, c in law.covariates.items()}
    assert law.reference(settings) == pytest.approx(expected)


def test_published_numbers_name_parameters_or_scores(law: Law) -> None:
    scores = {"mae", "huber_log", "rmse_log", "mae_rel", "intercept", "slope", "cover_eti90"}
    for numbers in law.published.values():
        assert {re.sub("_(lo|hi)$", "", k) for k in numbers} <= scores | set(law.parameters)


def test_the_digest_differs_between_cards_and_priors() -> None:
    laws = [load_law(name) for name in law_names()]
    changed = [law.with_priors({list(law.parameters)[-1]: Prior.parse("Normal(0.3, 0.1)")}) for law in laws]
    assert len({law.sha256 for law in (*laws, *changed)}) == 2 * len(laws)
    assert all(new.parameters["E"] == law.parameters["E"] for new, law in zip(changed, laws, strict=True) if "E" in law.parameters)
