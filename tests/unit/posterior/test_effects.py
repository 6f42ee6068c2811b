"""Learnt effects of runs and checkpoints, against the conditional normal distribution and by quadrature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeslaw.evaluation.scores import score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.laws.card import load_law
from bayeslaw.noise.walk import Walk
from bayeslaw.posterior.discrepancy import LearntDiscrepancy
from bayeslaw.posterior.effects import LearntEffects, Reading
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import line_fit, stand_in_fit
from tests.oracles import Array
from tests.values import present

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
    for code in (k0, fit.observed.checkpoint_names.index("k1")):
        mean, explained = conditional(fit, covariance, CHECKPOINT**2 * (branch == code))
        check(effects.of_checkpoint(code), mean, CHECKPOINT**2 - explained)
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


def test_a_checkpoint_whose_only_run_is_left_out_is_new() -> None:
    fit = line_fit(noise="normal-checkpoint")
    fit = replace(fit, observed=replace(fit.observed, checkpoint=np.array([0, 1, 1, 1])))
    effects = LearntEffects.of(fit, ROWS, np.zeros(len(ROWS)), np.arange(4000), (1, 2), left_out="r0")
    assert effects.words == ["new run"] * 5
    assert not effects.at(np.arange(5)).any()


def test_effects_are_those_of_the_chosen_draws_of_the_run_and_its_checkpoint() -> None:
    """Draws with even numbers have effects; the chosen are of the second half, in another order."""
    fit = line_fit(noise="normal-checkpoint")
    tree, posterior = fit.tree.copy(), fit.tree["posterior"].to_dataset()
    for name in ("sigma_run", "sigma_checkpoint"):
        shape = posterior[name].shape
        posterior[name] = posterior[name] * (np.arange(4000) % 2 == 0).reshape(shape) + 1e-9
    tree["posterior"] = xr.DataTree(posterior)
    chosen = np.arange(4000)[:1999:-1]
    table = pd.DataFrame({"x": 0.0, "run": ["r0", "r3"], "checkpoint": ["k0", "k1"]})
    drawn = LearntEffects.of(replace(fit, tree=tree), table, np.zeros(2), chosen, (1, 2)).at(np.arange(2))
    assert np.abs(drawn[:, chosen % 2 == 1]).max() < 1e-6
    some = chosen[chosen % 2 == 0]
    z = []
    for i, run in enumerate(("r0", "r3")):
        of, branch = fit.observed.run, fit.observed.checkpoint[fit.observed.run]
        own = of == fit.observed.run_names.index(run)
        same_run, same_checkpoint = (code[:, None] == code for code in (of, branch))
        covariance = POINT**2 * np.eye(of.size) + RUN**2 * same_run + CHECKPOINT**2 * same_checkpoint
        shared = CHECKPOINT**2 * (branch == branch[own][0]) + RUN**2 * own
        gain = np.linalg.solve(covariance, shared)
        variance = CHECKPOINT**2 + RUN**2 - float(shared @ gain)
        effect = drawn[i, chosen % 2 == 0]
        check(effect, fit.residual[some] @ gain, variance)
        z.append((effect - fit.residual[some] @ gain) / np.sqrt(variance))
    assert abs(np.corrcoef(z)[0, 1]) < 4 / np.sqrt(some.size)  # checkpoints have effects of their own


def test_an_ou_effect_is_conditional_at_the_clock_of_each_row() -> None:
    """On one path in each run, in lengths of a typical run, 400 steps."""
    fit = line_fit(noise="normal-drift")
    table = pd.DataFrame({"x": 0.0, "run": ["new", "r3", "r1", "r3", "r1"], "step": [0.0, 600.0, 100.0, 500.0, 900.0]})
    effects = LearntEffects.of(fit, table, np.zeros(5), np.arange(4000), (1, 2))
    drawn, seen, at = effects.at(np.arange(5)), np.array([0.0, 100.0, 400.0]) / 400, table["step"].to_numpy() / 400

    def kernel(s: Array, t: Array) -> Array:
        return np.asarray(RUN**2 * np.exp(-np.abs(s[:, None] - t) / 0.5))

    z, gain = np.empty((5, 4000)), np.linalg.solve(kernel(seen, seen) + POINT**2 * np.eye(3), kernel(seen, at))
    covariance = kernel(at, at) - kernel(at, seen) @ gain
    for row, run in enumerate(table["run"][1:], start=1):
        mean = fit.residual[:, fit.observed.run == fit.observed.run_names.index(run)] @ gain[:, row]
        check(drawn[row], mean, covariance[row, row])
        z[row] = (drawn[row] - mean) / np.sqrt(covariance[row, row])
    together = covariance[1, 3] / np.sqrt(covariance[1, 1] * covariance[3, 3])
    assert 0.5 < together == pytest.approx((z[1] * z[3]).mean(), abs=4 / np.sqrt(2000))
    assert abs((z[1] * z[4]).mean()) < 4 / np.sqrt(4000)
    assert not drawn[0].any()
    assert not effects.of_checkpoint(0).any()


def test_outliers_of_a_learnt_error_count_less_in_the_effect_of_their_run() -> None:
    law = load_law("chinchilla")
    fit = stand_in_fit(law, oracles.table(law), draws=1000, noise="normal")
    walk = present(Walk.of(law, fit.observed.covariates))
    multiple = np.where(np.arange(fit.observed.run.size) % 3 == 1, 25.0, 1.0)
    nothing = LearntDiscrepancy(replace(walk, multiple=multiple), np.zeros((fit.size, walk.squares.size)), np.zeros(fit.size))
    own = fit.observed.run == 2
    table = pd.DataFrame({name: values[own] for name, values in fit.observed.covariates.items()}).assign(
        run=fit.observed.run_names[2]
    )
    effects = LearntEffects.of(replace(fit, discrepancy=nothing), table, np.zeros(own.sum()), np.arange(fit.size), (1, 2))
    weight = 1 / (fit.draws["sigma_point"][:, None] ** 2 * multiple[own])
    variance = 1 / (1 / fit.draws["sigma_run"] ** 2 + weight.sum(axis=1))
    mean = variance * (weight * fit.residual[:, own]).sum(axis=1)
    check((effects.at(np.arange(1))[0] - mean) / np.sqrt(variance), np.zeros(fit.size), 1.0)


def test_a_run_of_one_row_is_known_by_what_its_checkpoint_or_excess_is_known_to_be() -> None:
    for noise in ("normal-checkpoint", "skew"):
        fit = line_fit(noise=noise)
        alone = replace(fit, noise=replace(fit.noise, run_effect=False))
        assert learnt(alone).words[:2] == ["known run", "known run"]


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
    chosen = np.arange(4000)[:1999:-1]
    effects = LearntEffects.of(replace(fit, tree=tree), ROWS, np.zeros(len(ROWS)), chosen, (1, 2))
    r0 = fit.observed.run_names.index("r0")
    np.testing.assert_array_equal(effects.at(np.arange(1))[0], drawn[..., r0].ravel()[chosen])
    assert not effects.of_checkpoint(r0).any()
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
