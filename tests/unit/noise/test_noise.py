"""Noise: densities against SciPy, draws against their moments."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import integrate, stats

from bayeslaw.cli.options import NoiseName
from bayeslaw.data.table import Runs
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import NOISES, load_law
from bayeslaw.laws.formula import Expression
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.density import Rows, data_of, log_density
from bayeslaw.noise.noise import CHOICES, COUNTED, MEANING, PRIORS, Noise, resolved
from tests.errors import fails
from tests.oracles import Array, nested, timed

RUN = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3])
STARTS = np.array([0, 3, 4, 6, 9])
CHECKPOINT, FAMILY, ALONE = np.array([0, 0, 1, 1]), np.array([0, 2, 4]), np.arange(5)
GROUP, NAMES = np.array([0, 0, 1, 1]), ("pile", "code")
SINGLE = np.ones(9), np.zeros(4)  # every row one point
SAME_RUN, SAME_CHECKPOINT = RUN[:, None] == RUN[None, :], CHECKPOINT[RUN][:, None] == CHECKPOINT[RUN][None, :]
SIGMA, TAU, OMEGA, EXCESS, DOF = 0.02, 0.05, 0.03, 0.04, 3.5
SE = 0.01 * np.array([0.0, 1.0, 2.0, 0.5, 1.5, 0.2, 1.0, 3.0, 0.7])
NONE = np.empty(0)


@pytest.fixture
def residual(rng: np.random.Generator) -> Array:
    return 0.05 * rng.standard_normal(RUN.size)


def covariance(v: Array, t: Array, omega: float, se: Array) -> Array:
    """Of all rows, by groups' variances of points and runs."""
    group, known = GROUP[RUN], se**2 if se.size else np.zeros(RUN.size)
    return np.asarray(np.diag(v[group] + known) + t[group][:, None] * SAME_RUN + omega * SAME_CHECKPOINT)


def noise_draws(size: int) -> dict[str, Array]:
    values = {"sigma_point": SIGMA, "sigma_run": TAU, "sigma_checkpoint": OMEGA, "run_excess": EXCESS, "dof": DOF}
    return {name: np.full(size, value) for name, value in values.items()}


@pytest.mark.parametrize("checkpoint_effect", [True, False])
@pytest.mark.parametrize("run_effect", [True, False])
def test_log_likelihood_of_runs_is_that_given_the_others(
    run_effect: bool, checkpoint_effect: bool, rng: np.random.Generator
) -> None:
    draws: dict[str, Any] = {"sigma_point[pile]": [0.01, 0.03], "sigma_point[code]": [0.02, 0.02], "sigma_checkpoint": [0.01, 0.04]}
    draws |= {"sigma_run[pile]": [0.02, 0.005], "sigma_run[code]": [0.01, 0.01]}
    residuals = 0.02 * rng.standard_normal((2, RUN.size))
    noise = Noise(False, run_effect, checkpoint_effect, groups=NAMES)
    values = noise.log_likelihood(residuals, nested(RUN, CHECKPOINT, GROUP, NAMES, SE), draws)
    for s in range(2):
        by = {name: np.array([draws[f"{name}[{g}]"][s] for g in NAMES]) for name in ("sigma_point", "sigma_run")}
        t, omega = by["sigma_run"] ** 2 * run_effect, draws["sigma_checkpoint"][s] ** 2 * checkpoint_effect
        whole = covariance(by["sigma_point"] ** 2, t, omega, SE)
        joint = stats.multivariate_normal(np.zeros(RUN.size), whole).logpdf(residuals[s])
        for j in range(4):
            others = np.flatnonzero(j != RUN)
            rest = stats.multivariate_normal(np.zeros(others.size), whole[np.ix_(others, others)]).logpdf(residuals[s][others])
            assert values[s, j] == pytest.approx(joint - rest, rel=1e-9)
        earlier = noise.log_likelihood(residuals, nested(RUN, CHECKPOINT, GROUP, NAMES, SE), draws, given="earlier")
        assert earlier[s].sum() == pytest.approx(joint, rel=1e-9)


@pytest.mark.parametrize("checkpoint_effect", [True, False])
@pytest.mark.parametrize("run_effect", [True, False])
def test_log_likelihood_of_rows_is_that_given_the_others(
    run_effect: bool, checkpoint_effect: bool, rng: np.random.Generator
) -> None:
    draws = noise_draws(2) | {"sigma_run": np.array([0.05, 0.001])}
    residuals = 0.05 * rng.standard_normal((2, RUN.size))
    noise = Noise(False, run_effect, checkpoint_effect)
    values = noise.row_log_likelihood(residuals, nested(RUN, CHECKPOINT, se=SE), draws)
    for s in range(2):
        t = np.full(2, draws["sigma_run"][s] ** 2 * run_effect)
        whole = covariance(np.full(2, SIGMA**2), t, OMEGA**2 * checkpoint_effect, SE)
        joint = stats.multivariate_normal(np.zeros(RUN.size), whole).logpdf(residuals[s])
        for i in range(RUN.size):
            others = np.arange(RUN.size) != i
            rest = stats.multivariate_normal(np.zeros(RUN.size - 1), whole[np.ix_(others, others)]).logpdf(residuals[s][others])
            assert values[s, i] == pytest.approx(joint - rest, rel=1e-9)


def test_log_likelihood_of_rows_with_student_effects_is_given_the_effects(rng: np.random.Generator) -> None:
    residuals, effects = 0.05 * rng.standard_normal((2, RUN.size)), rng.standard_normal((2, 4))
    given = noise_draws(2) | {"run_effect": effects}
    values = Noise(student=True, run_effect=True).row_log_likelihood(residuals, nested(RUN), given)
    np.testing.assert_allclose(values, stats.t(DOF, TAU * effects[:, RUN], SIGMA).logpdf(residuals))


@pytest.mark.parametrize("noise", [Noise(False, True, skew=True), Noise(False, True, drift=True)])
def test_noises_without_densities_of_rows_say_so(noise: Noise) -> None:
    with fails("densities-of-runs"):
        noise.row_log_likelihood(np.zeros((1, RUN.size)), nested(RUN), noise_draws(1))


def test_log_likelihood_of_runs_with_one_sided_effects_is_that_of_the_graph(residual: Array) -> None:
    noise, seen, draws = Noise(False, True, skew=True), nested(RUN, se=SE), noise_draws(1)
    values = noise.log_likelihood(residual[None], seen, draws)
    rows = Rows(**{k: pt.as_tensor(v) for k, v in data_of(noise, replace(seen, response=residual)).items()})
    scales = {name: pt.as_tensor(float(draws[name][0])) for name in noise.parameters}
    density = log_density(noise, rows, pt.zeros(RUN.size), scales).eval(mode=Mode(linker="py", optimizer="None"))
    assert values.sum() == pytest.approx(float(density), rel=1e-10)


@pytest.mark.parametrize("outlier", [0.0, 0.4, -2.0])
def test_student_log_likelihood_integrates_over_each_runs_effect(outlier: float, rng: np.random.Generator) -> None:
    residuals = 0.02 * rng.standard_normal((2, RUN.size))
    residuals[:, np.searchsorted(RUN, RUN[-1])] += outlier
    values = Noise(student=True, run_effect=True).log_likelihood(residuals, nested(RUN), noise_draws(2))
    u = np.linspace(-0.5, 0.5, 10_001)
    for s in range(2):
        for j in range(4):
            rows = stats.t(DOF, 0, SIGMA).pdf(residuals[s, j == RUN][:, None] - u).prod(axis=0)
            assert values[s, j] == pytest.approx(math.log(integrate.trapezoid(stats.norm(0, TAU).pdf(u) * rows, u)), abs=1e-3)
    without = Noise(student=True, run_effect=False).log_likelihood(residuals, nested(RUN), noise_draws(2))
    rows = stats.t(DOF, 0, SIGMA).logpdf(residuals)
    np.testing.assert_allclose(without, np.stack([rows[:, j == RUN].sum(axis=1) for j in range(4)], axis=1))


@pytest.mark.parametrize("student", [False, True])
@pytest.mark.parametrize("run_effect", [False, True])
@pytest.mark.parametrize("extra", ["", "checkpoint_effect", "skew"])
def test_drawn_noise_has_its_moments(student: bool, run_effect: bool, extra: str) -> None:
    size, dof = 40_000, 30.0
    noise = Noise(student, run_effect, extra == "checkpoint_effect", extra == "skew")
    draws = noise_draws(size) | {"dof": np.full(size, dof)}
    drawn = noise.sample(draws, RUN, np.arange(RUN.size), (1, 2), checkpoint=CHECKPOINT[RUN])
    assert drawn.shape == (RUN.size, size)
    point = SIGMA**2 * (dof / (dof - 2) if student else 1.0)
    expected = point * np.eye(RUN.size) + (TAU**2 if run_effect else 0.0) * SAME_RUN
    expected = expected + (
        OMEGA**2 * SAME_CHECKPOINT if extra == "checkpoint_effect" else EXCESS**2 * SAME_RUN if extra == "skew" else 0.0
    )
    # standard error of a covariance: about the largest variance times sqrt(2 / size); 5 of them, and more for the exponential
    tolerance = (5 if extra != "skew" else 10) * expected.max() * math.sqrt(2 / size)
    np.testing.assert_allclose(np.cov(drawn), expected, atol=tolerance)
    mean = EXCESS if extra == "skew" else 0.0
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=5 * math.sqrt(expected.max() / size))


def test_groups_have_noise_of_their_own() -> None:
    draws = {"sigma_point[pile]": np.full(4000, 1e-9), "sigma_point[code]": np.ones(4000)}
    noise = Noise(False, False, groups=NAMES)
    drawn = noise.sample(draws, np.arange(2), np.arange(2), (0,), group=np.array([0, 1]))
    assert drawn[0].std() < 1e-8
    assert drawn[1].std() == pytest.approx(1.0, rel=0.1)


def test_drawn_noise_follows_each_draw_of_the_parameters() -> None:
    draws = {"sigma_point": np.array([1e-9, 1.0]), "sigma_run": np.array([1e-9, 1e-9])}
    drawn = Noise(student=False, run_effect=True).sample(draws, np.zeros(1000, dtype=np.int64), np.arange(1000), (0,))
    assert drawn[:, 0].std() < 1e-8
    assert drawn[:, 1].std() == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("student", [False, True])
def test_known_errors_widen_the_scale_of_their_points(student: bool) -> None:
    """As the density has it; the noise of the other points stays what it was, to the bit."""
    noise, draws, rows = Noise(student, run_effect=True), noise_draws(50), np.arange(RUN.size)
    drawn, without = noise.sample(draws, RUN, rows, (1, 2), known=SE), noise.sample(draws, RUN, rows, (1, 2))
    for row, known in enumerate(SE):
        wider = draws | {"sigma_point": np.full(50, math.sqrt(SIGMA**2 + known**2))}
        np.testing.assert_allclose(drawn[row], noise.sample(wider, RUN, rows, (1, 2))[row], rtol=1e-12)
    np.testing.assert_array_equal(drawn[SE == 0], without[SE == 0])
    assert (drawn[SE > 0] != without[SE > 0]).all()
    some = np.array([7, 1])
    np.testing.assert_array_equal(noise.sample(draws, RUN[some], some, (1, 2), known=SE[some]), drawn[some])


CHOSEN = {
    "auto": (Noise(False, True), Noise(True, False)),
    "normal": (Noise(False, True), Noise(False, False)),
    "normal-drift": (Noise(False, True, drift=True), Noise(False, True, drift=True)),
    "normal-checkpoint": (Noise(False, True, checkpoint_effect=True), None),
    "skew": (Noise(False, True, skew=True), Noise(False, False, skew=True)),
    "student": (Noise(True, True), Noise(True, False)),
    "normal-no-run": (Noise(False, False), Noise(False, False)),
    "student-no-run": (Noise(True, False), Noise(True, False)),
}


def test_help_and_docstring_name_every_noise() -> None:
    option = get_args(NoiseName)[1]
    named = {*option.help.replace(";", ",").replace(".", ",").replace(" or ", ", ").split(", ")}
    assert {*CHOICES, *COUNTED} <= {name.strip(" ,") for name in named}
    assert f"noise : {{{', '.join(map(repr, CHOICES))}}}" in str(fit.__doc__)
    assert all(repr(name) in str(fit.__doc__) for name in COUNTED)
    assert {*NOISES} <= {*CHOICES}  # that a card may name


@pytest.mark.parametrize("choice", CHOICES)
def test_each_choice_is_resolved_for_the_runs(choice: str) -> None:
    with_runs, without = CHOSEN[choice]
    assert Noise.choose(choice, timed(nested(RUN, CHECKPOINT))) == with_runs
    if without is None:
        with fails("no-shared-checkpoint"):
            Noise.choose(choice, nested(np.arange(5)))
    else:
        assert Noise.choose(choice, timed(nested(np.arange(5)))) == without


def logged(runs: int, moments: int, alone: int = 0) -> Runs:
    """Runs with a base row (D = 0) and rows at so many D, and runs with one row."""
    rows = [(f"run {i}", float(d)) for i in range(runs) for d in range(moments + 1)]
    rows += [(f"alone {i}", 1.0) for i in range(alone)]
    return Runs(pd.DataFrame(rows, columns=["run", "D"]), "a table")


@pytest.mark.parametrize(
    ("runs", "taken"),
    [
        (logged(8, 8), True),
        (logged(8, 8, alone=8), True),
        (logged(8, 8, alone=9), False),
        (logged(7, 20), False),
        (logged(20, 7), False),
        (Runs(logged(8, 8).frame.assign(D=1.0), "rows of one moment"), False),
        (Runs(logged(8, 8).frame.drop(columns="D"), "rows of no moment"), False),
    ],
)
def test_a_card_names_the_noise_of_runs_that_are_logged_often(runs: Runs, taken: bool) -> None:
    law = load_law("from-base-source")
    assert resolved("auto", law, runs) == (law.noise if taken else "auto")
    assert resolved("normal", law, runs) == "normal"
    assert resolved("auto", replace(law, noise=""), runs) == "auto"
    assert resolved("auto", law, runs, bins=0.1) == "auto"  # points in bins have no moments


def test_an_unknown_noise_is_refused() -> None:
    with fails("unknown-noise", "gauss", *CHOICES):
        Noise.choose("gauss", nested(RUN))


def test_parameters_and_the_text_of_a_noise() -> None:
    assert Noise(False, True).parameters == ("sigma_point", "sigma_run")
    assert Noise(True, True).parameters == ("sigma_point", "sigma_run", "dof")
    assert Noise(True, False).parameters == ("sigma_point", "dof")
    assert [n.explicit_effects for n in (Noise(True, True), Noise(True, False), Noise(False, True))] == [True, False, False]
    assert Noise(True, False).text == "Student-t point noise without a run effect"
    assert Noise(False, True).text == "normal point noise with a run effect"
    assert set(MEANING) == set(PRIORS)
    grouped = Noise(False, True, checkpoint_effect=True, groups=NAMES)
    names = ("sigma_point[pile]", "sigma_point[code]", "sigma_run[pile]", "sigma_run[code]", "sigma_checkpoint")
    assert grouped.parameters == names
    assert Noise(False, True, groups=("pile", "code")).prior("sigma_run[code]") == PRIORS["sigma_run"]
    assert grouped.text == (
        "normal point noise with a run effect, one shared by the runs of a checkpoint, for each of 2 groups (pile, code)"
    )


def test_stated_priors_hold_for_every_group_and_survive_a_file() -> None:
    wide, grouped = Prior.parse("HalfNormal(0.02)"), Noise(False, True, groups=NAMES)
    noise = grouped.with_priors({"sigma_run": wide})
    assert [noise.prior(f"sigma_run[{name}]") for name in NAMES] == [wide, wide]
    assert noise.prior("sigma_point[pile]") == PRIORS["sigma_point"]
    assert noise != grouped
    assert Noise.from_table(json.loads(json.dumps(noise.table))) == noise
    assert "priors" not in grouped.table
    assert Noise.from_table(grouped.table) == grouped


def test_a_stated_prior_is_in_the_unit_of_the_outcome() -> None:
    """Those of the package follow the outcome's scale."""
    noise = Noise(False, True, kind="real", scale=50.0)
    assert noise.prior("sigma_run").args["sigma"] == 50 * PRIORS["sigma_run"].args["sigma"]
    assert noise.with_priors({"sigma_run": PRIORS["sigma_run"]}).prior("sigma_run") == PRIORS["sigma_run"]


@pytest.mark.parametrize(("name", "prior", "code", "named"), [
    ("dof", "Gamma(2, 1)", "unknown-parameter", "sigma_point, sigma_run."),
    ("sigma_run[pile]", "HalfNormal(1)", "unknown-parameter", "Did you mean 'sigma_run'?"),
    ("sigma_run", "Normal(0, 1)", "wrong-support", "HalfNormal"),
    ("sigma_run", "Uniform(0, 1)", "wrong-support", "Uniform(0, 1)"),
])  # fmt: skip
def test_a_prior_that_the_noise_can_not_have_is_refused(name: str, prior: str, code: str, named: str) -> None:
    with fails(code, name, named):
        Noise(False, True, groups=NAMES).with_priors({name: Prior.parse(prior)})


def test_a_prior_of_the_noise_on_an_expression_is_refused() -> None:
    """It ended in a NameError."""
    with fails("wrong-support", "HalfNormal", "A/N"):
        Noise(False, True).with_priors({"sigma_run": Prior("HalfNormal", {"sigma": 1.0}, Expression.parse("A/N"))})


def test_priors_of_the_noise_cover_measured_values() -> None:
    """Points wobble by 0.1% to 2%; seeds move whole runs of tinycpt's smallest models by 0.3% to 0.5%, larger ones by less."""
    low, high = PRIORS["sigma_point"].scipy.ppf([0.025, 0.975])
    assert low < 0.0015
    assert 0.02 < high < 0.15
    low, high = PRIORS["sigma_run"].scipy.ppf([0.025, 0.975])
    assert low < 0.0005
    assert 0.005 < high < 0.01
