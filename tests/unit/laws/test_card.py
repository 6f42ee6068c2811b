"""Every card in models/: its formula against the oracle, its LaTeX, its priors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.mathtext import MathTextParser

from bayeslaw.laws.card import card_folder, law_names, load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.prior import Prior
from tests import oracles, twins
from tests.curves import curves
from tests.errors import fails
from tests.unit.posterior.test_identifiability import values as many_values


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
        elif name == "lr":
            columns[name] = 1e-3 * 10 ** rng.uniform(-0.6, 0.6, rows)
        elif name == "batch":
            columns[name] = 10 ** (rng.uniform(4, 7) + rng.uniform(-0.6, 0.6, rows))
        elif name.startswith("bits_"):
            columns[name] = rng.uniform(3.0, 16.0, rows)
        elif name == "loss":
            columns[name] = rng.uniform(2.0, 4.0) + rng.uniform(-1.0, 1.0, rows)
        elif name == "chance":
            columns[name] = np.array([0.0, 0.25, 0.5])[rng.integers(0, 3, rows)]
        elif name in ("S1", "S2", "S3"):
            columns[name] = rng.standard_normal(rows)
        else:
            around = rng.uniform(low, high) + rng.uniform(-1, 1, rows) * (1.0 if name == "ptpp" else 1.5)
            columns[name] = np.power(10.0, np.clip(around, low, high))
    if {"base_loss", "ptpp"} <= columns.keys():  # the law has no floor: adaptations are not far longer than the pre-training
        columns["D"] = np.minimum(columns["D"], 100 * columns["N"] * columns["ptpp"])
    return columns


NEEDS: dict[str, Callable[[Law], object]] = {
    "its loss in NumPy, in LAWS of tests/oracles.py": lambda law: oracles.LAWS[law.name],
    "values of its parameters, in TYPICAL or OWN of tests/oracles.py": oracles.typical,
    "values of its covariates, in `design` of tests/oracles.py": oracles.design,
    "values of its covariates, in MANY_VALUES of tests/unit/posterior/test_identifiability.py": many_values,
    "a truth, in TRUTHS of tests/twins.py": lambda law: twins.TRUTHS[law.name],
    "values of its covariates, in `settings` or `recipe` of tests/twins.py": twins.settings,
}


@pytest.mark.slow
def test_every_card_has_what_the_tests_of_all_laws_need() -> None:
    """Without an entry many tests fail, most of them with a KeyError alone; this one says where to add which."""
    lacking = list[str]()
    for law in map(load_law, law_names()):
        for what, entry in NEEDS.items():
            try:
                entry(law)
            except KeyError as error:
                lacking.append(f"{law.name} lacks {what}: {error}")
        if pooled := [name for name, parameter in law.parameters.items() if parameter.by]:
            lacking.append(f"{law.name} has `by` for {', '.join(pooled)}: in the package users choose it (--by, by=), or none")
    assert not lacking, "\n".join(lacking)
    assert sorted(oracles.LAWS) == sorted(twins.TRUTHS) == law_names() == sorted(p.stem for p in card_folder().iterdir())


def test_the_name_of_a_law_is_that_of_its_file(law: Law) -> None:
    assert load_law(card_folder() / f"{law.name}.toml") == law


def test_predict_agrees_with_the_oracle(law: Law, rng: np.random.Generator) -> None:
    for _ in range(1 if law.series else 2):
        settings = random_settings(law, rng)
        draws = law.sample_prior(50, law.reference(pd.DataFrame(settings)), rng)
        expected = oracles.LAWS[law.name]({k: v[:, None] for k, v in draws.items()}, {k: v[None, :] for k, v in settings.items()})
        np.testing.assert_allclose(law.predict(draws, settings), expected, rtol=1e-10)


def test_settings_that_are_one_number_hold_for_all_others() -> None:
    law = load_law("chinchilla")
    draws = {name: np.full(3, value) for name, value in oracles.typical(law).items()}
    tokens = np.geomspace(1e9, 1e11, 4)
    whole = law.predict(draws, {"N": np.full(4, 1e9), "D": tokens})
    for n in (1e9, [1e9]):
        np.testing.assert_array_equal(law.predict(draws, {"N": n, "D": tokens}), whole)
    assert law.predict(draws, {"N": 1e9, "D": 2e10}).shape == (3, 1)


@pytest.mark.parametrize("name", [n for n in law_names() if "r" in load_law(n).covariates])
def test_predict_is_finite_at_the_ends_of_the_replay_share(name: str, rng: np.random.Generator) -> None:
    law = load_law(name)
    settings = random_settings(law, rng) | {"r": np.tile([0.0, 1.0], 20)}
    draws = law.sample_prior(200, law.reference(pd.DataFrame(settings)), rng)
    expected = oracles.LAWS[name]({k: v[:, None] for k, v in draws.items()}, {k: v[None, :] for k, v in settings.items()})
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(law.predict(draws, settings), expected, rtol=1e-10)


def test_the_source_law_has_no_kink_where_its_plateau_crosses_a_base_loss() -> None:
    law, size = load_law("from-base-source"), 1e9
    plateau = 2.0 * np.linspace(0.8, 1.2, 401)
    fixed = {"eta": 0.2, "J": 0.05, "S": 0.4, "nu": 0.13, "c": 1.0, "h": 1e4, "k": 2.0}
    draws = {name: np.full(len(plateau), value) for name, value in fixed.items()} | {"U": plateau}
    at = {"N": [size], "D": [20 * size], "r": [0.25], "ptpp": [15.0], "base_loss": [2.0]}
    slopes = np.diff(law.predict(draws, {k: np.array(v) for k, v in at.items()})[:, 0]) / np.diff(plateau)
    # A kink would change the slope at one of the 400 steps by most of its range; the curve spreads that over many.
    assert np.abs(np.diff(slopes)).max() < 0.05 * np.ptp(slopes)


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


@pytest.mark.slow
def test_the_latex_of_a_law_can_be_typeset(law: Law) -> None:
    text = law.latex()
    symbols = {"loss": "L", "task_loss": r"\mathrm{task}_{\mathrm{loss}}", "error_rate": r"\mathrm{error}_{\mathrm{rate}}"}
    symbols |= {"normalised_loss": r"\mathrm{normalised}_{\mathrm{loss}}"}
    assert text.startswith(symbols.get(law.outcome.name, rf"\mathrm{{{law.outcome.name}}}") + " = ")
    assert all(f" {law.parameters[floor].latex} + " in text for floor in law.floors)
    assert all(p.latex in text for n, p in law.parameters.items() if n in law.formula.names)
    parser: MathTextParser[Any] = MathTextParser("agg")
    for part in re.split(r",\\quad |\\quad\\text\{where\}\\quad ", text):
        assert parser.parse(f"${part}$") is not None


def test_floors_and_amplitudes_are_recognised(law: Law) -> None:
    floor = {"from-base-source": "J", "data-mixing": "c", "mixture-power": "c"}.get(
        law.name, "L0" if "lr_peak" in law.covariates else "E"
    )
    without = {"kaplan", "combination", "injection", "task-sigmoid", "task-exp", "task-direct", "observational-skill"}
    without |= {"bimix", "farseer", "mixture-scaling"}
    assert law.floors == (() if law.name in without else (floor,))
    scales = {"transfer-target": {"A", "F", "G"}, "transfer-source": {"A", "F", "S", "J"}}
    scales |= {
        "plateau-source": {"U", "S", "J"},
        "plateau-target": {"U"},
        "from-base-source": {"S"},
        "fine-tuning": {"G"},
        "forgetting": {"S", "G"},
        "replay-target": {"F", "G"},
        "replay-source": {"F", "S"},
    }
    shifted = {"A", "B", "C1", "C2"}
    scales |= {n: shifted for n in law_names() if n.startswith("cpt-dynamics")}
    scales |= {"cpt-dynamics-size": shifted | {"F"}, "cpt-dynamics-open": shifted - {"C1"}, "multi-power": {"A", "B"}}
    scales |= {
        "combination": {"k"},
        "kaplan": set(),
        "mixture-scaling": set(),
        "lr-batch": {"A", "B", "U", "W"},
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


# A range at the head of a comment or after a colon, a semicolon or 'From' is that of the prior, in its own unit.
RANGE = re.compile(
    r"(?:^|: |; |From |: a gain of )(-?[\d.]+(?:e\d)?)(?: nats)?(?: \([^)]*\))? to (-?[\d.]*\d(?:e\d)?)"
    r"(?=\.?$|\. | nats| here| times the plateau||: |, as | epochs| \(| with 95%)"
)


def test_ranges_in_comments_of_cards_hold_95_percent_of_the_priors() -> None:
    wrong, count = [], 0
    for law in map(load_law, law_names()):
        parameters = tomllib.loads(law.card)["parameters"]
        for name, text in re.findall(r"^\[parameters\.(\w+)\]$(.*?)^prior", law.card, re.MULTILINE | re.DOTALL):
            comment = " ".join(re.findall(r"^# (.*)$", text, re.MULTILINE))
            own = {key: value for key, value in parameters[name]["prior"].items() if key != "on"}
            ends = Prior.from_card(own).scipy.ppf([0.025, 0.975])
            for stated in RANGE.findall(comment):
                digits = [10.0 ** int(Decimal(end).as_tuple().exponent) for end in stated]
                count += 1
                if any(abs(end - float(given)) > 0.51 * digit for given, end, digit in zip(stated, ends, digits, strict=True)):
                    wrong.append(f"{law.name}: {name} lies in {ends.round(4)}, not {' to '.join(stated)}")
    assert not wrong, "\n".join(wrong)
    assert count > 200


def test_published_numbers_name_parameters_or_scores(law: Law) -> None:
    scores = {"mae", "huber_log", "rmse_log", "mae_rel", "intercept", "slope", "cover_eti90"}
    for numbers in law.published.values():
        assert {re.sub("_(lo|hi)$", "", k) for k in numbers} <= scores | set(law.parameters)


def test_published_optima_of_the_learning_rate_and_the_batch_come_out() -> None:
    """Li et al. 2025 (Step Law): for 1.07e9 parameters and 1e11 tokens their power laws give a rate of 1.6e-3 and 1.1e6 tokens."""
    law = load_law("lr-batch")
    numbers: dict[str, Any] = {k: v for k, v in next(iter(law.published.values())).items() if k in law.parameters}
    at = law.with_let(numbers | {"N": 1.07e9, "D": 1e11, "lr": 1e-3, "batch": 1e6, "kappa": 0.5})
    assert at["lr_opt"] == pytest.approx(1.79 * 1.07e9**-0.713 * 1e11**0.307)
    assert at["batch_opt"] == pytest.approx(0.58 * 1e11**0.571)


def test_the_published_law_of_over_training_has_one_exponent() -> None:
    """Gadre et al. 2024: the reducible loss of RedPajama falls with C^-eta at each M, by the same share for every M."""
    law = load_law("overtraining")
    numbers = law.published["Gadre et al. 2024, RedPajama"]
    n, m = np.array([1e8, 1e9]), np.array([[20.0], [640.0]])
    loss = np.stack([law.predict({k: np.array([v]) for k, v in numbers.items()}, {"N": n, "D": row * n})[0] for row in m])
    left = loss - numbers["E"]
    np.testing.assert_allclose(left[:, 1] / left[:, 0], (1e2) ** -numbers["eta"], rtol=1e-10)


def test_the_published_law_of_precision_keeps_most_parameters_at_eight_bits() -> None:
    """Kumar et al. 2024: with gamma_w = 2.67, weights of 4 bits are worth 78% of the parameters and those of 8 bits 95%."""
    law = load_law("precision")
    numbers: dict[str, Any] = dict(next(iter(law.published.values())))
    scope = law.with_let(numbers | {"N": 1.0, "D": 1e10, "bits_w": np.array([4.0, 8.0]), "bits_a": 64.0, "bits_kv": 64.0})
    np.testing.assert_allclose(scope["N_eff"], [0.776, 0.950], atol=1e-3)


def test_the_published_law_of_sparse_experts_has_a_best_sparsity_that_grows_with_size() -> None:
    """Abnar et al. 2025: with more parameters the loss is least at fewer active ones."""
    law = load_law("sparse-experts")
    draws = {k: np.array([v]) for k, v in next(iter(law.published.values())).items()}
    active = np.geomspace(1e-3, 1, 400)
    best = []
    for n in (1e9, 1e11):
        at = {"N": np.full(400, n), "D": np.full(400, 1e11), "active": active}
        best.append(active[np.argmin(law.predict(draws, at)[0])])
    assert best[1] < best[0] <= 1.0


def test_the_published_law_of_granularity_gains_by_finer_experts_the_less_the_finer() -> None:
    """Krajewski et al. 2024."""
    law = load_law("granular-experts")
    draws = {k: np.array([v]) for k, v in next(iter(law.published.values())).items()}
    g = np.array([1.0, 2.0, 4.0, 8.0])
    loss = law.predict(draws, {"N": np.full(4, 1e9), "D": np.full(4, 2e10), "G": g})[0]
    gained = -np.diff(loss)
    np.testing.assert_allclose(gained[1:] / gained[:-1], 2.0**-0.58, rtol=1e-9)
    assert 2.0 < loss[0] < 4.0


def test_the_published_law_of_vocabulary_prefers_larger_ones_for_larger_models() -> None:
    """Tao et al. 2024, with C = 6 (N + Nv) D fixed: larger models have a larger best vocabulary, by a smaller power."""
    law = load_law("vocabulary")
    draws = {k: np.array([v]) for k, v in next(iter(law.published.values())).items()}
    nv = np.geomspace(1e6, 1e10, 2000)
    best = []
    for n in (1e9, 1e10):
        tokens = 20 * n * n / (n + nv)
        best.append(nv[np.argmin(law.predict(draws, {"N": np.full(2000, n), "Nv": nv, "D": tokens})[0])])
    assert 0 < np.log10(best[1] / best[0]) < 1


def test_farseer_counted_from_elsewhere_is_the_same_law() -> None:
    """Slopes at 1e9 parameters in place of the source's a1, a2, a3 leave exponentials of powers of N."""
    law = load_law("farseer")
    p: dict[str, Any] = dict(oracles.typical(law))
    n = np.array([1e8, 1e9, 8e9])
    scope = law.with_let(p | {"N": n, "D": 1e10})
    assert scope["rate"][1] == pytest.approx(p["alpha"])
    powers = np.log(scope["rate"] / p["alpha"])
    np.testing.assert_allclose(powers, -p["h"] * ((n / 1e9) ** p["delta"] - 1) / p["delta"], rtol=1e-10, atol=1e-14)
    assert (np.diff(scope["rate"]) < 0).all()


def test_a_law_that_was_loaded_is_returned_as_it_is() -> None:
    law = load_law("data-mixing", shares=["wiki", "code"])
    assert load_law(law) is law
    with fails("law-with-shares"):
        load_law(law, shares=["web", "code"])
    with fails("law-with-shares"):
        load_law(law, reference="wiki")


@pytest.mark.slow
def test_the_digest_differs_between_cards_and_priors() -> None:
    laws = [load_law(name) for name in law_names()]
    changed = [law.with_priors({list(law.parameters)[-1]: Prior.parse("Normal(0.3, 0.1)")}) for law in laws]
    assert len({law.sha256 for law in (*laws, *changed)}) == 2 * len(laws)
    assert all(new.parameters["E"] == law.parameters["E"] for new, law in zip(changed, laws, strict=True) if "E" in law.parameters)


def test_counted_items_have_no_noise_of_losses() -> None:
    card = load_law("task-sigmoid").card.replace("[outcome]", 'noise = "normal-drift"\n\n[outcome]', 1)
    with fails("unknown-noise", "counted items"):
        parse_card(card)


@pytest.mark.parametrize("name", ["runs.csv", "runs.JSONL"])
def test_a_table_in_place_of_a_law_is_named_so(name: str) -> None:
    with fails("table-for-a-law", name, "changed places"):
        load_law(name)


def test_a_fit_in_place_of_a_law_is_named_so() -> None:
    with fails("fit-for-a-law", "fit.nc", "load_fit"):
        load_law("fit.nc")
