"""Parameters that differ by a column: the law with a value for each level, and its density."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import CardError
from bayeslaw.core.text import exact
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check, complete
from bayeslaw.engine.density import Density
from bayeslaw.inference.sample import ridge_candidates
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_in, levels_of, with_by, with_levels
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.draws import LawDraws
from tests import oracles
from tests.commands import Command
from tests.domains import BY, LEVELS, VALUES, two_domains
from tests.errors import fails
from tests.unit.engine.test_density import assert_true_gradient


@pytest.fixture
def pooled() -> Law:
    return with_levels(with_by(load_law("chinchilla"), BY), LEVELS)


def observed(law: Law, frame: pd.DataFrame | None = None) -> Observations:
    return Observations.of(law, oracles.runs(two_domains() if frame is None else frame))


def test_levels_are_escaped_in_latex() -> None:
    levels = ("web", "50% & a_b", "math_a", "中文", "β")
    law = with_levels(with_by(load_law("chinchilla"), {"E": "domain"}), {"domain": levels})
    assert [law.parameters[name].latex for name in law.parameters if name.startswith("E_")][1:] == [
        r"E^{(\mathrm{web})}", r"E^{(\text{50\% \& a\_b})}", r"E^{(\text{math\_a})}",
        r"E^{(\text{[U+4E2D][U+6587]})}", r"E^{(\text{$\beta$})}",
    ]  # fmt: skip


def test_levels_whose_names_are_alike_have_parameters_of_their_own() -> None:
    law = with_levels(with_by(load_law("chinchilla"), {"E": "domain"}), {"domain": ("a b", "a_b", "a_b_2")})
    assert len(set(law.members["E"])) == 3
    assert len({*law.indicators}) == 3


@pytest.mark.parametrize(
    ("value", "rename", "by", "twice"),
    [
        ("spread", {}, {"E": "domain"}, "E_spread"),
        ("web", {"beta": "A_web"}, {"A": "domain"}, "A_web"),
        ("b_web", {"beta": "A_b"}, {"A": "domain", "A_b": "domain"}, "A_b_web"),
        ("web", {"N": "domain_web"}, {"E": "domain"}, "domain_web"),
    ],
)
def test_a_value_that_would_have_the_name_of_something_else_is_refused(
    value: str, rename: dict[str, str], by: dict[str, str], twice: str
) -> None:
    """One of the two took the place of the other, without a word."""
    text = load_law("chinchilla").card.replace("corner_error", "# corner_error")
    for old, new in rename.items():
        text = re.sub(rf"\b{old}\b", new, text)
    law = with_by(parse_card(text), by)
    with fails("name-used-twice", repr(twice), "domain", kind=CardError):
        with_levels(law, {"domain": (value, "web" if value != "web" else "code")})


def test_the_prior_of_a_typical_value_is_that_of_the_values_around_it(pooled: Law) -> None:
    """They kept a logarithm for a typical value of either sign, and a prior of one of them counted for nothing."""
    changed = pooled.with_priors({"E": "Normal(1.7, 0.2)"})
    assert {str(changed.parameters[name].prior) for name in ("E", *changed.members["E"])} == {"Normal(1.7, 0.2)"}
    assert changed.parameters["alpha_web"] == pooled.parameters["alpha_web"]
    assert pooled.with_priors({name: p.prior for name, p in pooled.parameters.items()}) == pooled
    with fails("bounded-and-pooled", "E", "domain", kind=CardError):
        pooled.with_priors({"E": "Uniform(1, 2)"})
    with fails("pooled-value", "E_web", "E_spread", kind=CardError):
        pooled.with_priors({"E_web": "Normal(3, 1)"})
    assert str(pooled.with_priors({"E_spread": "LogNormal(-3, 0.5)"}).parameters["E_spread"].prior) == "LogNormal(-3, 0.5)"
    with fails("prior-of-a-spread", "E_spread", "HalfNormal(0.5), not Normal(0, 1)", kind=CardError):
        pooled.with_priors({"E_spread": "Normal(0, 1)"})


@pytest.mark.parametrize("by", [{"E": "domain"}, {"E": "lab"}, {"beta": "domain"}])
def test_a_law_that_varies_already_is_named(pooled: Law, by: dict[str, str]) -> None:
    """Such as the law of a fit: the advice was to rename a value."""
    with fails("varies-already", "a value for each domain already", kind=CardError):
        with_by(pooled, by)
    assert "beta" in with_levels(with_by(pooled, {"beta": "lab"}), {"lab": ("x", "y")}).members


def test_each_level_has_its_own_parameters(pooled: Law) -> None:
    names = ["E", "E_spread", "E_web", "E_code__py_", "A", "alpha", "alpha_spread", "alpha_web", "alpha_code__py_", "B", "beta"]
    assert list(pooled.parameters) == names
    assert pooled.parameters["E_web"].around == ("E", "E_spread")
    assert pooled.parameters["E_web"].meaning == "irreducible loss: domain web"
    assert pooled.members == {"E": ("E_web", "E_code__py_"), "alpha": ("alpha_web", "alpha_code__py_")}
    assert pooled.column_of == {"E": "domain", "alpha": "domain"}
    assert pooled.floors == ("E_web", "E_code__py_")
    assert pooled.formula == load_law("chinchilla").formula
    assert set(pooled.amplitudes) == {"A", "B"}
    assert pooled.levels == LEVELS
    assert list(pooled.measured) == ["N", "D"]


def test_the_loss_of_a_row_is_that_of_its_level(pooled: Law) -> None:
    frame = two_domains(noise=0.0)
    draws = {"A": 40.0, "B": 90.0, "beta": 0.28, "E": 9.0, "alpha": 9.0, "E_spread": 1.0, "alpha_spread": 1.0}
    draws |= {f"{k}_{s}": VALUES[k][i] for i, s in enumerate(("web", "code__py_")) for k in BY}
    rows = observed(pooled, frame)
    losses = pooled.predict({k: [v] for k, v in draws.items()}, rows.covariates)[0]
    np.testing.assert_allclose(losses, frame["loss"][rows.rows - 1], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["category", "str", object])
def test_texts_that_are_one_number_are_levels_of_their_own(dtype: Any) -> None:
    """As numbers, version 1.10 had the floor of version 1.1."""
    runs = read_runs(
        oracles.table(load_law("chinchilla")).assign(version=lambda t: np.resize(["1.1", "1.2", "1.10"], len(t)), run=None)
    )
    given = read_runs(runs.frame.astype({"version": dtype}))
    assert levels_of(with_by(load_law("chinchilla"), {"E": "version"}), given.frame) == {"version": ("1.1", "1.2", "1.10")}
    law = with_levels(with_by(load_law("chinchilla"), {"E": "version"}), {"version": ("1.1", "1.2", "1.10")})
    rows = Observations.of(law, given, noise_by="version")
    marks = np.stack([rows.covariates[name] for name in law.marks_of("version")])
    np.testing.assert_array_equal(marks.sum(1), given.frame["version"].astype(str).value_counts()[["1.1", "1.2", "1.10"]])
    assert rows.group_names == ("1.1", "1.2", "1.10")
    one = read_runs(pd.DataFrame({"N": [1e8], "D": [1e9], "version": ["1.10"]}))
    assert complete(one.frame, law)["version_1_10"].item() == 1.0
    assert rows.groups_of(one.frame).tolist() == [2]
    as_number = read_runs(pd.DataFrame({"N": [1e8], "D": [1e9], "version": [1.1]}))
    (fault,) = check(as_number, law, purpose="forecast")
    assert (fault.code, fault.problem) == ("unknown-level", "version is the number 1.1, which '1.1' and '1.10' are")
    with fails("unknown-group", "1.1"):
        rows.groups_of(as_number.frame)


@pytest.mark.parametrize(("cells", "known"), [([1.0, 2.0], ("1", "2")), (["1.0", "2"], ("1", "2")), ([True, False], ("1", "0"))])
def test_a_cell_names_the_level_that_is_the_same_number(cells: list[Any], known: tuple[str, ...]) -> None:
    assert levels_in(pd.Series(cells), known).tolist() == list(known)
    others = levels_in(pd.Series([*cells, None, "x"], dtype=object), known)
    assert others.dropna().tolist() == [*known, "x"]


def test_values_that_are_not_pooled_have_the_prior_each() -> None:
    card = load_law("chinchilla").card.replace("[parameters.beta]", "[parameters.beta]\npooled = false")
    law = with_levels(with_by(parse_card(card), {"beta": "domain", "E": "domain"}), LEVELS)
    assert [name for name in law.parameters if name.startswith("beta")] == ["beta_web", "beta_code__py_"]
    assert law.parameters["beta_web"].around is None
    assert law.parameters["beta_web"].prior == load_law("chinchilla").parameters["beta"].prior
    assert law.parameters["E_web"].around == ("E", "E_spread")
    drawn = law.sample_prior(20_000, observed(law).at, np.random.default_rng(1))
    assert abs(np.corrcoef(np.log(drawn["beta_web"]), np.log(drawn["beta_code__py_"]))[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("name", "given", "code"), [("beta", '"no"', "not-a-bool"), ("beta", "0", "not-a-bool"), ("A", "false", "on-and-not-pooled")]
)
def test_what_pooled_can_not_be(name: str, given: str, code: str) -> None:
    card = load_law("chinchilla").card.replace(f"[parameters.{name}]", f"[parameters.{name}]\npooled = {given}")
    with fails(code, name):
        parse_card(card)


def test_let_expressions_have_the_values_of_the_level() -> None:
    card = load_law("ptpp-gate-floor")
    law = with_levels(with_by(card, {"beta": "domain"}), {"domain": ("a", "b")})
    assert law.floors == ("E",)
    rng = np.random.default_rng(0)
    at = {name: rng.uniform(0.1, 0.9, 5) for name in card.covariates}
    values = dict.fromkeys(law.parameters, 0.5) | {"beta_a": 0.2, "beta_b": 0.7}
    for level, beta in {"a": 0.2, "b": 0.7}.items():
        marks = {name: float(name == f"domain_{level}") for name in law.indicators}
        alone = card.evaluate({name: values[name] for name in card.parameters} | {"beta": beta} | at)
        np.testing.assert_allclose(law.evaluate(values | at | marks), alone, rtol=1e-14)


@pytest.mark.slow
def test_parameters_may_differ_by_two_columns() -> None:
    levels = {"domain": ("a", "b"), "set": ("x", "y", "z")}
    law = with_levels(with_by(load_law("chinchilla"), {"E": "domain", "A": "set"}), levels)
    assert set(law.floors) == {"E_a", "E_b"}
    assert set(law.amplitudes) == {"A", "B"}
    assert law.shapes == ("E", "E_spread", "A", "A_spread", "alpha", "beta")
    frame = two_domains().assign(domain="a", set="y")
    frame.loc[40:, ["domain", "set"]] = ["b", "x"]
    frame.loc[0, "set"] = "z"
    density = Density.of(law, observed(law, frame), Noise(False, False))
    assert_true_gradient(density.function(), density.start())


def test_prior_draws_vary_around_the_typical_value(pooled: Law) -> None:
    draws = pooled.sample_prior(20_000, {"N": 1e8, "D": 1e9, "domain_web": 0.5, "domain_code__py_": 0.5}, np.random.default_rng(0))
    z = np.log(draws["E_web"] / draws["E"]) / draws["E_spread"]
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert z.std() == pytest.approx(1.0, rel=0.03)
    assert np.corrcoef(z, np.log(draws["E_code__py_"] / draws["E"]) / draws["E_spread"])[0, 1] == pytest.approx(0, abs=0.04)


def test_levels_that_are_not_pooled_have_the_prior_of_the_parameter(pooled: Law) -> None:
    law = with_levels(with_by(load_law("chinchilla"), BY), LEVELS, pooled=False)
    assert list(law.parameters) == ["E_web", "E_code__py_", "A", "alpha_web", "alpha_code__py_", "B", "beta"]
    assert all(p.around is None for p in law.parameters.values())


@pytest.mark.slow
@pytest.mark.parametrize("by", [BY, {"A": "domain"}, {"A": "domain", "alpha": "domain"}])
def test_the_gradient_of_the_density_is_true(by: dict[str, str], rng: np.random.Generator) -> None:
    law = with_levels(with_by(load_law("chinchilla"), by), LEVELS)
    rows = observed(law)
    density = Density.of(law, rows, Noise.choose("normal", rows))
    for _ in range(3):
        assert_true_gradient(density.function(), density.start() + 0.1 * rng.standard_normal(density.size))


@pytest.mark.parametrize(
    ("code", "by", "change", "value"),
    [
        ("missing-column", {"E": "domian"}, {}, "'domain'"),
        ("number-of-levels", {"E": "domain"}, {"domain": "web"}, "1 value (web)"),
        ("empty-cell", {"E": "domain"}, {"domain": None}, "rows 1–80: fill it in, or remove these rows"),
        ("empty-cell", {"E": "set"}, {"set": lambda rows: np.where(rows.index == 2, " ", "a")}, "row 3"),  # a value of its own
        ("alike-levels", {"E": "set"}, {"set": lambda rows: np.where(rows.index == 2, "Arc", "arc")}, "'Arc'"),
        ("alike-levels", {"E": "set"}, {"set": lambda rows: np.where(rows.index == 2, "arc ", "arc")}, "'arc '"),
        ("alike-levels", {"E": "set"}, {"set": lambda rows: np.where(rows.index == 2, "Gro\u0308", "Gr\xf6")}, r"'Gro\u0308'"),
        ("alike-levels", {"E": "set"}, {"set": lambda rows: np.where(rows.index == 2, "\xb5P", "\u03bcP")}, r"'\xb5P'"),
        ("unknown-parameter", {"Q": "domain"}, {}, "Q"),
    ],
)
def test_columns_by_which_nothing_can_differ_are_refused(code: str, by: dict[str, str], change: dict[str, Any], value: str) -> None:
    frame = two_domains().assign(**change)
    with fails(code, value):
        levels_of(with_by(load_law("chinchilla"), by), oracles.runs(frame).frame)


def test_a_card_names_the_column() -> None:
    card = load_law("chinchilla").card.replace('meaning = "irreducible loss"', 'meaning = "irreducible loss"\nby = "domain"')
    law = parse_card(card)
    assert law.parameters["E"].by == "domain"
    assert not check(oracles.runs(two_domains()), with_levels(law, levels_of(law, two_domains())))
    assert not check(oracles.runs(two_domains()), law)
    with fails("missing-column", "'domain'", "by={'E': 'COLUMN'}"):  # `check` found no fault, and `fit` refused the table
        check(oracles.runs(two_domains().drop(columns="domain")), law)
    with fails("not-a-text", "E", 3, kind=CardError):
        parse_card(card.replace('by = "domain"', "by = 3"))


def test_a_card_that_names_a_column_says_so_when_it_is_shown(command: Command, tmp_path: Path) -> None:
    """`bayeslaw laws` showed a pooled parameter like one that is the same in all rows."""
    card, path = load_law("chinchilla").card, tmp_path / "pooled.toml"
    for name, keys in (("E", 'by = "domain"\nspread = 0.3'), ("alpha", 'by = "domain"\npooled = false')):
        card = card.replace(f"[parameters.{name}]", f"[parameters.{name}]\n{keys}")
    path.write_text(card.replace('"chinchilla"', '"pooled"'), encoding="utf-8")
    shown = command("laws", path).out
    assert "by domain: its logarithms share a normal distribution, with the prior HalfNormal(0.3) of their spread\n" in shown
    assert "by domain: each value has the prior by itself\n" in shown
    assert "share a normal distribution" in load_law(path)._repr_html_()
    assert "pooling" not in load_law("chinchilla")._repr_html_()
    parameters = json.loads(command("laws", path, "--json").out)["results"]["law"]["parameters"]
    assert {name: p["pooled"] for name, p in parameters.items() if p.get("by") == "domain"} == {"E": True, "alpha": False}


@pytest.mark.parametrize("axes", [0, 1])
def test_gathered_values_give_the_losses_of_the_formula_written_out_for_each_level(axes: int, rng: np.random.Generator) -> None:
    """Two columns pool three parameters; the sum over levels of indicator times loss is the oracle."""
    levels = {"domain": [f"d{i}" for i in range(60)], "set": ["x", "y", "z"]}
    law = with_levels(with_by(load_law("chinchilla"), {"E": "domain", "A": "set", "alpha": "domain"}), levels)
    draws = {name: rng.uniform(0.2, 0.9, 7) for name in law.parameters}
    domain, group = rng.integers(60, size=90), rng.integers(3, size=90)
    settings = {"N": rng.uniform(1e3, 1e5, 90), "D": rng.uniform(1e3, 1e5, 90)}
    marks = {f"domain_d{i}": (domain == i).astype(float) for i in range(60)}
    marks |= {f"set_{value}": (group == i).astype(float) for i, value in enumerate("xyz")}
    expected = np.zeros((7, 90))
    for i in range(60):
        for value in "xyz":
            own = draws | {"E": draws[f"E_d{i}"], "A": draws[f"A_{value}"], "alpha": draws[f"alpha_d{i}"]}
            loss = oracles.chinchilla({k: v[:, None] for k, v in own.items()}, settings)
            expected += marks[f"domain_d{i}"] * marks[f"set_{value}"] * loss
    np.testing.assert_allclose(law.predict(draws, settings | marks), expected, rtol=1e-13)
    covariates = {k: v if axes else v[:, None] for k, v in (settings | marks).items()}
    np.testing.assert_allclose(LawDraws(law, draws).outcome(covariates, axes=axes), expected if axes else expected.T, rtol=1e-13)


def test_a_row_of_no_known_level_has_no_loss(pooled: Law) -> None:
    draws = {name: np.array([0.5, 0.6]) for name in pooled.parameters}
    at = {"N": [1e8, 1e8], "D": [1e9, 1e9], "domain_web": [1.0, 0.0], "domain_code__py_": [0.0, 0.0]}
    assert np.isfinite(pooled.predict(draws, at)).tolist() == [[True, False]] * 2


@pytest.mark.slow
def test_the_density_of_many_levels_is_sampled_in_a_graph_that_does_not_grow_with_them(rng: np.random.Generator) -> None:
    sizes = []
    for number in (40, 200):
        frame = pd.concat([two_domains().head(6).assign(domain=f"d{i}") for i in range(number)], ignore_index=True)
        frame["loss"] *= np.exp(0.001 * rng.standard_normal(len(frame)))
        law = with_by(load_law("chinchilla"), {"A": "domain", "alpha": "domain"})
        law = with_levels(law, levels_of(law, frame))
        density = Density.of(law, observed(law, frame), Noise(False, False))
        assert density.size == number * 2 + 8
        assert not len(ridge_candidates(density))
        sizes.append(len(density.program.arrays))
    assert sizes[0] == sizes[1]
    assert_true_gradient(density.function(), density.start() + 0.01 * rng.standard_normal(density.size))
    with fails("number-of-levels", "201 values", "2 to 200"):
        levels_of(with_by(load_law("chinchilla"), {"E": "domain"}), pd.DataFrame({"domain": range(201)}))


def test_values_that_agree_to_six_digits_are_levels_of_their_own() -> None:
    values = [20240101.0, 20240102, np.int64(20240102), 1e7, 10_000_000, 1e7 + 30, 0.1, np.float64(1 / 3), 2**60 + 1, "a", True]
    texts = [exact(value) for value in values]
    assert texts == [
        "20240101", "20240102", "20240102", "1e+07", "1e+07", "10000030", "0.1", "0.33333333333333331", "1152921504606846977",
        "a", "True",
    ]  # fmt: skip
