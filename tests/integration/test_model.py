"""The sampled density equals that of the PyMC model, and the model can be drawn from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pytensor.compile.mode import Mode

from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.engine.coordinates import Arrays, Coordinates, nested_sums
from bayeslaw.engine.density import Density
from bayeslaw.laws.card import law_names, load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.model import pools, pymc_model
from bayeslaw.noise.noise import Noise
from tests import oracles
from tests.domains import BY, LEVELS, two_domains

PUBLISHED = """
name   = "farseer-published"
title  = "Farseer as its source writes it"
source = "a test"
loss   = "exp(a3*N**gamma + b3) + exp(a2*N**(-beta) + b2)/D**exp(a1*N**delta + b1)"
[covariates]
N = { unit = "parameters", support = [1e6, 1e13] }
D = { unit = "training tokens", support = [1e2, 1e15] }
""" + "".join(
    f"""[parameters.{name}]
meaning = "{name}"
prior = {prior}
"""
    for name, prior in {
        **dict.fromkeys(("a1", "a3"), '{ dist = "Normal", mu = 0, sigma = 1 }'),
        "a2": '{ dist = "Normal", mu = 0, sigma = 30 }',
        **dict.fromkeys(("b1", "b2", "b3"), '{ dist = "Normal", mu = 0, sigma = 5 }'),
        **dict.fromkeys(("gamma", "beta", "delta"), '{ dist = "LogNormal", mu = -2.0, sigma = 0.4 }'),
    }.items()
)
PLAIN = Mode(linker="py", optimizer="None")  # a graph is evaluated a few times only, which optimising it would outlast
CASES = [(name, "auto" if load_law(name).outcome.kind == "count" else "normal") for name in law_names()]
CASES += [("task-sigmoid", "beta-binomial"), ("task-sigmoid", "beta-binomial-no-run"), ("task-exp", "student")]
CASES += [("chinchilla", n) for n in ("normal-no-run", "student", "student-no-run", "normal-checkpoint", "skew", "normal-drift")]
SUFFIX = {"positive": "_log__", "unit": "_logodds__", "bounded": "_interval__", "real": ""}


def unconstrained(density: Density, x: oracles.Array) -> dict[str, Any]:
    """The model's unconstrained variables at coordinates x."""
    columns = {name: np.array([[x[i]]]) for i, name in enumerate(density.names)}
    coordinates = density.coordinates
    variables = coordinates.variables(columns, Arrays(coordinates.levels))
    of_law = coordinates.by_parameter(variables, 1)
    values = {name: float(np.squeeze(of_law.get(name, columns[name]))) for name in density.names}
    return values | ({"run_effect": x[len(density.names) :]} if density.noise.explicit_effects else {})


def point(density: Density, x: oracles.Array) -> dict[str, Any]:
    """The same under the names of the model's value variables."""
    named, given = {}, unconstrained(density, x)
    for pool in pools(density.law):
        suffix = SUFFIX[density.law.parameters[pool.typical].prior.support]
        named[pool.free + suffix] = np.array([given.pop(member) for member in pool.members])
    for name, value in given.items():
        if name in density.law.parameters:
            prior = density.law.parameters[name].prior
            name = f"{name}_level{SUFFIX[prior.support]}" if prior.on else name + SUFFIX[prior.support]
        elif name in density.noise.parameters:
            name = {"dof": "dof_above_2"}.get(name, name) + "_log__"
        named[name] = np.asarray(value)
    return named


def log_jacobian(density: Density, x: oracles.Array) -> float:
    """Log determinant of the law's and the noise's unconstrained variables by the coordinates."""
    k = len(density.names)

    def flat(head: oracles.Array) -> oracles.Array:
        values = unconstrained(density, np.concatenate([head, x[k:]]))
        return np.array([values[name] for name in density.names])

    weights = np.array([-1, 9, -45, 45, -9, 1]) / 60  # central differences of the sixth order
    steps = 0.005 * np.array([-3, -2, -1, 1, 2, 3])
    columns = [sum(w * flat(x[:k] + s * unit) for w, s in zip(weights, steps, strict=True)) / 0.005 for unit in np.eye(k)]
    return float(np.linalg.slogdet(np.array(columns))[1])


def assert_density_of_the_model(
    law: Law, observed: Observations, noise: str | Noise, rng: np.random.Generator
) -> oracles.LogDensity:
    """The density is that of the PyMC model, with the Jacobian of the coordinates and up to a constant; it is returned."""
    density = Density.of(law, observed, noise if isinstance(noise, Noise) else Noise.choose(noise, observed))
    model = pymc_model(law, observed, noise)
    model_logp, logp, gaps, sizes = model.compile_logp(mode=PLAIN), density.function(), [], [1.0]
    for _ in range(3):
        x = density.start() + 0.1 * rng.standard_normal(density.size)
        values = point(density, x)
        assert set(values) == {v.name for v in model.value_vars}
        of_model = float(model_logp(values))
        gaps.append(logp(x)[0] - of_model - log_jacobian(density, x))
        sizes.append(abs(of_model))
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-10 * max(sizes))
    gradient, slopes = logp(x)[1], oracles.central(lambda v: logp(v)[0], x, 1e-4)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5 * np.abs(slopes).max())
    return logp


@pytest.mark.parametrize(("name", "noise"), CASES)
def test_the_density_is_that_of_the_model_up_to_a_constant(name: str, noise: str, rng: np.random.Generator) -> None:
    law = load_law(name)
    related = noise in ("normal-checkpoint", "skew", "student", "normal-drift")
    assert_density_of_the_model(law, oracles.timed(oracles.with_groups(law) if related else oracles.observations(law)), noise, rng)


BOUNDED = {"E": "Uniform(0.2, 3)", "alpha": "TruncatedNormal(0.3, 0.2, 0.1, 0.6)", "B": "Uniform(1, 1e4)"}


@pytest.mark.parametrize("changed", [{}, {"E": "Uniform(0.5, 2.5)", "alpha": "TruncatedNormal(0.3, 0.2, 0.05, 0.7)"}])
def test_the_density_of_bounded_priors_is_that_of_the_model(changed: dict[str, str], rng: np.random.Generator) -> None:
    """Other bounds make another graph."""
    law = load_law("chinchilla").with_priors({name: Prior.parse(text) for name, text in (BOUNDED | changed).items()})
    assert_density_of_the_model(law, oracles.observations(law), "normal", rng)


@pytest.mark.parametrize("of_run", ["HalfNormal(0.02)", "HalfNormal(0.002)", "LogNormal(-5, 1)"])
def test_the_density_of_stated_priors_of_the_noise_is_that_of_the_model(of_run: str, rng: np.random.Generator) -> None:
    """Other numbers are data of a compiled graph, and another distribution makes another one."""
    law = load_law("chinchilla")
    observed = oracles.with_groups(law)
    stated = {"sigma_run": Prior.parse(of_run), "dof": Prior.parse("HalfNormal(10)"), "sigma_point": Prior.parse("Gamma(2, 100)")}
    noise = Noise.choose("student", observed).with_priors(stated)
    logp = assert_density_of_the_model(law, observed, noise, rng)
    x = Density.of(law, observed, noise).start()
    assert logp(x)[0] != Density.of(law, observed, Noise.choose("student", observed)).function()(x)[0]


def test_the_density_of_a_card_with_sums_inside_is_that_of_the_model(rng: np.random.Generator) -> None:
    """Farseer as published: levels and slopes of its exponentials are other coordinates, and the density is the same."""
    law = parse_card(PUBLISHED)
    assert [s.level for s in nested_sums(law)] == ["b3", "b2", "b1"]
    frame = oracles.table(load_law("farseer"))
    assert_density_of_the_model(law, Observations.of(law, read_runs(frame)), "normal", rng)


def test_coordinates_are_undone_by_the_parameters(law: Law, rng: np.random.Generator) -> None:
    """The floor's coordinate is the mean loss over the settings and an amplitude's the (log) spread of its term there."""
    observed = oracles.observations(law)
    coordinates = Coordinates.of(law, observed)
    density = Density.of(law, observed, Noise(student=False, run_effect=True, kind=law.outcome.kind))
    x = density.start() + 0.1 * rng.standard_normal((50, density.size))
    draws = density.draws(x)
    values = {k: v[:, None] for k, v in draws.items() if k in law.parameters}
    values |= {k: v[None, :] for k, v in coordinates.settings.items()}
    losses = oracles.LAWS[law.name](values, values)
    scope = law.with_let(values)
    terms = {n: np.broadcast_to(t.evaluate(scope), losses.shape) for n, t in law.amplitudes.items()}
    if law.floors:
        # A term in proportion to no parameter, such as A/N_eff**alpha of repeated epochs, is not part of that mean.
        total = np.sum(list(terms.values()), axis=0)
        if len(terms) == len(law.formula.terms) - 1:
            np.testing.assert_allclose(draws[next(iter(law.floors))][:, None] + total, losses, rtol=1e-10)
        floor = next(iter(law.floors))
        gap = x[:, density.names.index(floor)] - total.mean(axis=1)
        scale = coordinates.softplus_scale
        positive = law.in_formula[floor].prior.support == "positive"
        np.testing.assert_allclose(draws[floor], scale * np.logaddexp(0, gap / scale) if positive else gap, rtol=1e-9)
    for name in sorted(coordinates.by_spread):
        spread, own = terms[name].std(axis=1), x[:, density.names.index(name)]
        real = law.parameters[name].prior.support == "real"
        np.testing.assert_allclose(spread if real else np.log(spread), np.abs(own) if real else own, rtol=1e-8, atol=1e-8)
    for name in density.noise.parameters:
        np.testing.assert_allclose(draws[name], np.exp(x[:, density.names.index(name)]), rtol=1e-12)


@pytest.mark.parametrize("by", [BY, {"A": "domain"}, {"A": "domain", "alpha": "domain"}])
def test_the_density_of_pooled_parameters_is_that_of_the_model(by: dict[str, str], rng: np.random.Generator) -> None:
    law = with_levels(with_by(load_law("chinchilla"), by), LEVELS)
    assert_density_of_the_model(law, Observations.of(law, oracles.runs(two_domains())), "normal", rng)


@pytest.mark.parametrize("by", [{"E": "domain", "A": "set", "alpha": "domain"}, {"A": "domain", "alpha": "set", "beta": "set"}])
def test_the_density_of_parameters_pooled_by_two_columns_is_that_of_the_model(by: dict[str, str], rng: np.random.Generator) -> None:
    frame = two_domains()
    frame["set"] = np.array(["x", "y", "z"])[rng.integers(0, 3, len(frame))]
    law = with_by(load_law("chinchilla"), by)
    law = with_levels(law, levels_of(law, frame))
    assert_density_of_the_model(law, Observations.of(law, oracles.runs(frame)), "normal", rng)


SMALL = """
name = "small"
title = "a share and a real exponent"
source = "here"
loss = "E + A*(1 - lam*r)*r**zeta"
[covariates]
r = { unit = "share", support = [0, 1] }
[parameters.E]
meaning = "floor"
prior = { dist = "LogNormal", mu = 0.5, sigma = 0.3 }
[parameters.A]
meaning = "scale"
prior = { dist = "LogNormal", mu = 0.5, sigma = 0.3 }
[parameters.lam]
meaning = "share"
prior = { dist = "Beta", alpha = 2, beta = 2 }
[parameters.zeta]
meaning = "exponent"
prior = { dist = "Normal", mu = 0, sigma = 1 }
"""


@pytest.mark.parametrize("real", [False, True])
def test_shares_and_real_parameters_may_differ_by_a_column_too(real: bool, rng: np.random.Generator) -> None:
    amplitude = SMALL.replace(
        'meaning = "scale"\nprior = { dist = "LogNormal", mu = 0.5', 'meaning = "scale"\nprior = { dist = "Normal", mu = 0.5'
    )
    by = {"lam": "set", "zeta": "set"} | ({"A": "set"} if real else {})
    law = with_levels(with_by(parse_card(amplitude if real else SMALL), by), {"set": ("p", "q")})
    assert law.parameters["lam_p"].prior.support == "unit"
    assert law.parameters["A"].prior.support == ("real" if real else "positive")
    r = np.linspace(0.1, 0.9, 12)
    rows = Observations.of(law, oracles.runs(pd.DataFrame({"r": r, "set": ["p", "q"] * 6, "loss": 2 + r})))
    assert_density_of_the_model(law, rows, "normal", rng)


def test_the_density_of_values_that_are_not_pooled_is_that_of_the_model(rng: np.random.Generator) -> None:
    """The share has the prior of its card for each value of the column; the exponent is pooled beside it."""
    card = SMALL.replace('meaning = "share"', 'meaning = "share"\npooled = false')
    law = with_levels(with_by(parse_card(card), {"lam": "set", "zeta": "set"}), {"set": ("p", "q")})
    assert [n for n in law.parameters if n.startswith("lam")] == ["lam_p", "lam_q"]
    r = np.linspace(0.1, 0.9, 12)
    rows = Observations.of(law, oracles.runs(pd.DataFrame({"r": r, "set": ["p", "q"] * 6, "loss": 2 + r})))
    assert_density_of_the_model(law, rows, "normal", rng)


@pytest.mark.parametrize("name", ["transfer-target", "multi-power"])
def test_deterministics_are_the_laws_parameters_and_losses(name: str) -> None:
    law = load_law(name)
    observed = oracles.observations(law)
    model = pymc_model(law, observed)
    names = [v.name for v in model.deterministics]
    levels = [n for n, p in law.parameters.items() if p.prior.on]
    assert names == [*levels, "loss"]
    values = {v.name: v for v in (*model.free_RVs, *model.deterministics)}
    wanted = [values[n] for n in (*law.parameters, "loss")]
    drawn = pm.draw(wanted, draws=3, random_seed=1, mode=PLAIN)
    parameters = {n: d[:, None] for n, d in zip(law.parameters, drawn, strict=False)}
    expected = oracles.LAWS[law.name](parameters, {k: v[None, :] for k, v in observed.covariates.items()})
    np.testing.assert_allclose(drawn[-1], expected, rtol=1e-10)


@pytest.mark.parametrize("noise", ["student", "normal-checkpoint", "skew", "normal-drift"])
def test_replicated_losses_have_the_models_spread(noise: str) -> None:
    law = load_law("chinchilla")
    observed = oracles.timed(replace(oracles.with_groups(law, runs=3, checkpoints=4, known=False), group_names=()))
    model = pymc_model(law, observed, noise)
    rest = {"student": {"dof": 50.0}, "normal-checkpoint": {"sigma_checkpoint": 0.015}, "skew": {"run_excess": 0.015}}
    rest |= {"normal-drift": {"drift": 0.5}}
    fixed = {"sigma_point": 0.01, "sigma_run": 0.02} | rest.get(noise, {})
    with pm.do(model, fixed | dict.fromkeys(("alpha", "beta", "E", "A_level", "B_level"), 0.5)) as done:
        draws = pm.draw(done["log_loss"], draws=4000, random_seed=2, mode="FAST_COMPILE")
    same = observed.run[:, None] == observed.run[None, :]
    expected = 0.01**2 * (50 / 48 if noise == "student" else 1) * np.eye(12) + 0.02**2 * same
    if noise == "normal-drift":
        expected = oracles.drifting(replace(observed, group=np.zeros(3, np.int64)), np.array([1e-4]), np.array([4e-4]), 250.0)
    family = observed.checkpoint[observed.run]
    expected = expected + 0.015**2 * {"normal-checkpoint": family[:, None] == family[None, :], "skew": same}.get(noise, 0.0)
    # with 4000 draws a variance of 7e-4 is known to a standard deviation of 7e-4 * sqrt(2/4000) = 1.6e-5
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=8e-5)


def test_the_model_draws_its_prior_predictive() -> None:
    law = load_law("chinchilla")
    observed = oracles.observations(law, runs=3, checkpoints=4)
    with pymc_model(law, observed):
        drawn = pm.sample_prior_predictive(10, random_seed=3, compile_kwargs={"mode": PLAIN})
    assert drawn["prior_predictive"]["log_loss"].shape == (1, 10, 12)


def test_noise_is_chosen_as_in_a_fit() -> None:
    law = load_law("chinchilla")
    columns = oracles.table(law).drop(columns="run")
    model = pymc_model(law, Observations.of(law, oracles.runs(columns)))
    parameters = {"E", "A_level", "alpha", "B_level", "beta"}
    assert {v.name for v in model.free_RVs} == {*parameters, "sigma_point", "dof_above_2"}
    of_two = columns.assign(task=["easy", "hard"] * (len(columns) // 2))
    by_task = pymc_model(law, of_two, "normal-no-run", noise_by="task")
    assert {v.name for v in by_task.free_RVs} == {*parameters, "sigma_point[easy]", "sigma_point[hard]"}
