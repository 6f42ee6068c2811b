"""Learnt effects of runs and checkpoints, against the conditional normal distribution and by quadrature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeslaw.evaluation.scores import score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.posterior.effects import LearntEffects, Reading
from bayeslaw.posterior.fit import Fit
from tests.errors import fails
from tests.fixed import line_fit
from tests.oracles import Array

NEW: Reading = "new-checkpoint"
POINT, RUN, CHECKPOINT, EXCESS = 0.01, 0.01, 0.02, 0.01  # of `line_fit`
ROWS = pd.DataFrame(
    {"x": [0.0, 0.1, 0.0, 0.0, 0.0], "run": ["r0", "r0", "new", "new", None], "checkpoint": ["k0", "k0", "k0", "k0", "k9"]}
).assign(step=[900.0, 1200.0, 0.0, 100.0, 0.0])


def learnt(fit: Fit, reading: Reading = "known") -> LearntEffects:
    size = fit.draws["a"].size
    return LearntEffects.of(fit, ROWS, np.zeros(len(ROWS)), np.arange(size), (1, 2), reading)


def conditional(fit: Fit, covariance: Array, shared: Array) -> tuple[Array, float]:
    """Mean (S,) and variance of an effect with covariances `shared` (n,) with the rows, whose covariance is given."""
    gain = np.linalg.solve(covariance, shared)
    return fit.residual @ gain, float(shared @ gain)


def check(drawn: Array, mean: Array, variance: float) -> None:
    z = (drawn - mean) / np.sqrt(variance)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)


def test_outliers_count_less_in_effects() -> None:
    fit = line_fit(noise="normal-checkpoint")
    of, branch = fit.observed.run, fit.observed.checkpoint[fit.observed.run]
    multiple = np.where(np.arange(of.size) % 4 == 1, 50.0, 1.0)
    same_run, same_checkpoint = (code[:, None] == code for code in (of, branch))
    covariance = POINT**2 * np.diag(multiple) + RUN**2 * same_run + CHECKPOINT**2 * same_checkpoint
    drawn = fit.noise.sample_effects(fit.residual, fit.observed, fit.draws, np.random.default_rng(1), multiple=multiple)
    for effects, scale, own in zip(drawn, (0.0, RUN), (branch == 0, of == 0), strict=True):
        mean, explained = conditional(fit, covariance, CHECKPOINT**2 * (branch == branch[own][0]) + scale**2 * own)
        check(effects[0], mean, CHECKPOINT**2 + scale**2 - explained)


def test_effects_are_conditional_on_the_fitted_losses() -> None:
    fit = line_fit(noise="normal-checkpoint")
    of, branch = fit.observed.run, fit.observed.checkpoint[fit.observed.run]
    same_run, same_checkpoint = (code[:, None] == code for code in (of, branch))
    covariance = POINT**2 * np.eye(of.size) + RUN**2 * same_run + CHECKPOINT**2 * same_checkpoint
    k0, r0 = fit.observed.checkpoint_names.index("k0"), fit.observed.run_names.index("r0")
    in_k0, in_r0 = (branch == k0).astype(float), (of == r0).astype(float)
    effects = learnt(fit)
    mean, explained = conditional(fit, covariance, CHECKPOINT**2 * in_k0)
    check(effects.of_checkpoint(k0), mean, CHECKPOINT**2 - explained)
    mean, explained = conditional(fit, covariance, CHECKPOINT**2 * in_k0 + RUN**2 * in_r0)
    check(effects.of_run(r0), mean, CHECKPOINT**2 + RUN**2 - explained)
    drawn = effects.at(np.arange(5))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[[2, 3]], np.broadcast_to(effects.of_checkpoint(k0), (2, drawn.shape[1])))
    assert not drawn[4].any()


def test_a_run_that_is_left_out_is_a_new_run_of_a_checkpoint_known_from_others() -> None:
    """As in the density of a left-out run, which is given the other runs."""
    fit = line_fit(noise="normal-checkpoint")
    size, of, branch = fit.draws["a"].size, fit.observed.run, fit.observed.checkpoint[fit.observed.run]
    effects = LearntEffects.of(fit, ROWS, np.zeros(len(ROWS)), np.arange(size), (1, 2), left_out="r0")
    assert effects.words == ["known checkpoint"] * 4 + ["new run"]
    k0, other = fit.observed.checkpoint_names.index("k0"), of != fit.observed.run_names.index("r0")
    rows = (branch == k0) & other
    same_run = of[rows][:, None] == of[rows]
    gain = CHECKPOINT**2 * np.linalg.solve(POINT**2 * np.eye(rows.sum()) + RUN**2 * same_run + CHECKPOINT**2, np.ones(rows.sum()))
    check(effects.at(np.arange(1))[0], fit.residual[:, rows] @ gain, CHECKPOINT**2 * (1 - gain.sum()))


@pytest.mark.slow
def test_a_one_sided_effect_is_conditional_too() -> None:
    """By quadrature over the excess, draw by draw; the mean of all draws is compared."""
    fit = line_fit(noise="skew")
    r0 = fit.observed.run_names.index("r0")
    own = fit.residual[:, fit.observed.run == r0]
    excess = np.linspace(0, 0.2, 4001)[:, None, None]
    covariance = POINT**2 * np.eye(3) + RUN**2
    error = own - excess
    weight = np.exp(-0.5 * np.einsum("gsi,ij,gsj->gs", error, np.linalg.inv(covariance), error) - excess[..., 0] / EXCESS)
    weight /= weight.sum(axis=0)
    run = error.sum(axis=2) * RUN**2 / (POINT**2 + 3 * RUN**2)
    expected = ((excess[..., 0] + run) * weight).sum(axis=0)
    drawn = learnt(fit).of_run(r0)
    difference = drawn - expected
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(difference.size)
    assert 0.2 * RUN < difference.std() < RUN


def test_explicit_effects_are_those_of_the_fit() -> None:
    fit = line_fit(noise="student")
    tree, drawn = fit.tree.copy(), np.random.default_rng(0).standard_normal((4, 1000, 4))
    tree["posterior"] = fit.tree["posterior"].to_dataset().assign(run_effect=(("chain", "draw", "run"), drawn))
    effects = learnt(replace(fit, tree=tree))
    r0 = fit.observed.run_names.index("r0")
    np.testing.assert_array_equal(effects.at(np.arange(1))[0], drawn[..., r0].ravel())
    assert learnt(line_fit(noise="student-no-run")).words == ["new run"] * 5  # nothing is learnt of a run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "reading", "words"),
    [
        ("normal-checkpoint", "known", ["known run", "known run", "known checkpoint", "known checkpoint", "new run"]),
        ("normal-checkpoint", "new-run", ["known checkpoint"] * 4 + ["new run"]),
        ("normal-checkpoint", "new-checkpoint", ["new run"] * 5),
        ("normal", "known", ["known run", "known run", "new run", "new run", "new run"]),
        ("normal-drift", "known", ["known run", "known run", "new run", "new run", "new run"]),
    ],
)
def test_a_forecast_says_as_what_each_row_is_forecast(noise: str, reading: Reading, words: list[str]) -> None:
    fit = line_fit(noise=noise)
    result = forecast(fit, ROWS, as_=reading)
    assert result.summary()["as"].tolist() == words
    own, new = (np.log(forecast(fit, ROWS, as_=r).draws["run"].values).std(axis=0) for r in (reading, NEW))
    known = np.array([word != "new run" for word in words])
    np.testing.assert_allclose(own[~known], new[~known], rtol=0.06)
    assert (own[known] < 0.9 * new[known]).all() or noise == "normal-drift"  # there an effect is forgotten with time


@pytest.mark.slow
def test_a_score_conditions_as_a_forecast_does() -> None:
    fit = line_fit(noise="normal-checkpoint")
    table = ROWS.assign(loss=np.exp(1 + 0.1 * ROWS["x"]))
    known, new = (score(fit, table, as_=reading)["width_eti90"].item() for reading in ("known", "new-checkpoint"))
    assert known < 0.9 * new


def test_a_run_needs_its_name_and_size() -> None:
    fit = line_fit()
    assert fit.observed.find(pd.DataFrame({"x": [0.0], "run": ["r1"]}), fit.law)[0].tolist() == [1]
    assert fit.observed.find(pd.DataFrame({"x": [0.0], "run": ["r7"]}), fit.law)[0].tolist() == [-1]
    assert fit.observed.find(pd.DataFrame({"x": [0.0]}), fit.law)[0].tolist() == [-1]


def test_an_unknown_reading_is_refused() -> None:
    with fails("unknown-reading", "known, new-run, new-checkpoint", "'old'"):
        forecast(line_fit(), ROWS, as_="old")  # type: ignore[arg-type]
