"""Draws of one fit at settings: noise beside what is known of runs, blocks of rows, and errors of the law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.table import read_runs
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.laws.card import load_law
from bayeslaw.noise.walk import Walk
from bayeslaw.posterior.discrepancy import LearntDiscrepancy
from tests import oracles, outcomes
from tests.fixed import fixed_fit, line_fit, stand_in_fit
from tests.oracles import Array
from tests.values import present

POINT, RUN, CHECKPOINT = 0.01, 0.01, 0.02  # of `line_fit`
ROWS = pd.DataFrame({"x": [0.5, 0.0, -0.5], "run": ["r1", "new", "other"], "checkpoint": ["k0", "k0", "k9"]})


def line_draws() -> MemberDraws:
    """At a row of a fitted run, of a new run of a fitted checkpoint, and of a new run of a new one."""
    return MemberDraws.of(line_fit(noise="normal-checkpoint"), np.arange(4000), read_runs(ROWS), (1, 2))


def test_effects_of_new_runs_are_not_added_to_those_that_are_known() -> None:
    part = line_draws()
    added = part.noise(np.arange(3)) - part.learnt.at(np.arange(3))
    variances = np.array([POINT**2, POINT**2 + RUN**2, POINT**2 + RUN**2 + CHECKPOINT**2])
    np.testing.assert_allclose(added.var(axis=1), variances, rtol=4 * np.sqrt(2 / 4000))
    assert part.learnt.at(np.arange(2)).any(axis=1).all()


def test_rows_of_a_block_are_those_of_the_whole() -> None:
    part = line_draws()
    latent = part.latent(slice(None))
    whole = part.noisy(latent, slice(None))
    np.testing.assert_array_equal(part.noisy(latent[1:], slice(1, 3)), whole[1:])
    np.testing.assert_array_equal(part.noisy(latent[[2, 0]], np.array([2, 0])), whole[[2, 0]])


def test_shares_of_a_block_have_the_noise_of_their_group() -> None:
    """Of a thousand questions; nearly binomial in one group, and far more spread out in the other."""
    size, table = 2000, outcomes.table("count").assign(task=np.tile(["a", "b"], 12))
    values = {"k": 4.0, "c": 4.4, "sigma_point[a]": 1e-3, "sigma_point[b]": 0.3}
    fit = fixed_fit(outcomes.law("count"), table, {k: np.full(size, v) for k, v in values.items()}, noise_by="task")
    rows = pd.DataFrame({"N": 1e9, "D": 1e10, "items": 1000, "task": ["a", "b"]})
    part = MemberDraws.of(fit, np.arange(size), read_runs(rows), (1, 2))
    latent = part.latent(slice(None))
    whole, p = part.noisy(latent, slice(None)), latent[:, 0]
    np.testing.assert_array_equal(part.noisy(latent[1:], slice(1, 2)), whole[1:])
    phi = 1 / np.array([1e-3, 0.3]) ** 2
    variances = p * (1 - p) / 1000 * (1 + 999 / (phi + 1))  # beta-binomial
    np.testing.assert_allclose(whole.var(axis=1), variances, rtol=5 * np.sqrt(2 / size))


def test_a_stated_discrepancy_has_the_stated_size() -> None:
    part = line_draws()
    errors = np.log(part.expected(slice(None), 0.03)) - np.log(part.latent(slice(None)))
    np.testing.assert_allclose(errors.std(axis=1), 0.03, rtol=4 / np.sqrt(2 * 4000))
    latent, run, *wider = np.log(part.losses(slice(None), [0.1, 0.3]))
    for sd, spread in zip((0.1, 0.3), wider, strict=True):
        np.testing.assert_allclose((spread - run).std(axis=1), sd, rtol=4 / np.sqrt(2 * 4000))
    np.testing.assert_allclose(run - latent, part.noise(np.arange(3)), atol=1e-12)


@pytest.fixture(scope="module")
def erring() -> tuple[MemberDraws, Array]:
    """A fit of chinchilla whose law errs, at settings inside and beyond the runs, and coefficients of the error."""
    law = load_law("chinchilla")
    fit = stand_in_fit(law, oracles.table(law), draws=400, noise="normal")
    walk = replace(present(Walk.of(law, fit.observed.covariates)), beyond=(-30.0, 0.0))  # without errors of other ladders
    rng = np.random.default_rng(3)
    own = 0.01 * rng.standard_normal((fit.size, walk.squares.size))
    fit = replace(fit, discrepancy=LearntDiscrepancy(walk, own, np.full(fit.size, 0.01)))
    seen = fit.observed.covariates
    rows = pd.DataFrame({name: [float(np.median(seen[name])), 20 * float(seen[name].max())] for name in ("N", "D")})
    return MemberDraws.of(fit, rng.permutation(fit.size)[:300], read_runs(rows), (1, 2)), own


def test_losses_have_the_drawn_error_of_the_law_and_those_of_all_draws_what_runs_show_of_it(
    erring: tuple[MemberDraws, Array],
) -> None:
    part, own = erring
    fit, errors = part.fit, present(part.errors)
    walk = errors.walk
    law = oracles.chinchilla({k: v[:, None] for k, v in fit.draws.items()}, part.covariates).T
    components = walk.features(part.covariates)[:, walk.inside] @ walk.loadings
    np.testing.assert_allclose(part.latent(slice(None), fit.draws), law * np.exp(components @ own.T), rtol=1e-12)
    chosen = part.learnt.chosen
    np.testing.assert_allclose(present(fit.discrepancy).learnt(part.covariates, chosen), own[chosen] @ components.T)
    drawn = walk.features(part.covariates) @ errors.coefficients
    np.testing.assert_allclose(part.latent(slice(None)), law[:, chosen] * np.exp(drawn), rtol=1e-12)
    np.testing.assert_allclose(walk.loadings.T @ errors.coefficients[walk.inside], own[chosen].T, atol=1e-9)


def test_an_error_at_a_setting_of_each_draw_is_by_that_draw(erring: tuple[MemberDraws, Array]) -> None:
    part, _ = erring
    errors, size = present(part.errors), part.size
    at = {name: np.geomspace(0.1, 10, size) * values[0] for name, values in part.covariates.items()}
    expected = [errors.walk.features({k: v[[i]] for k, v in at.items()})[0] @ errors.coefficients[:, i] for i in range(size)]
    np.testing.assert_allclose(errors.along(at), expected, atol=1e-12)
    other = present(part.fit.discrepancy).drawn(part.learnt.chosen, (3,))
    assert not np.isclose(other.at(part.covariates)[1], errors.at(part.covariates)[1]).any()  # seeds count


def test_where_settings_differ_by_draw_the_law_errs_as_at_their_median(erring: tuple[MemberDraws, Array]) -> None:
    part, _ = erring
    spread = np.exp(np.random.default_rng(1).normal(0.3, 0.2, (2, part.size)))
    sizes = part.covariates["N"][:, None] * spread
    varied = replace(part, covariates={**part.covariates, "N": sizes})
    at = {"N": np.median(sizes, axis=1), "D": part.covariates["D"]}
    law = oracles.chinchilla({k: v[:, None] for k, v in part.values.items()}, {"N": sizes.T, "D": part.covariates["D"]}).T
    np.testing.assert_allclose(varied.latent(slice(None)), law * np.exp(present(part.errors).at(at)), rtol=1e-12)
