"""Best values of tuned covariates and what undertuned runs lose, against the oracle and closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import bayeslaw
from bayeslaw.core.errors import TableError
from bayeslaw.forecasting.stack import Stack
from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import parse_card
from bayeslaw.planning.tuning import Tuning, tuning
from bayeslaw.plots.decisions import plot_tuning
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import fixed_fit
from tests.posteriors import law_named, posterior, scattered

LAW = law_named("lr-batch")
TRUTH = oracles.typical(LAW)
SIZE = 500
AT = {"N": "1e8,1e9", "D": 2e10}


@pytest.fixture(scope="module")
def fit() -> Fit:
    return posterior(LAW, scattered(TRUTH, SIZE, 3, 0.01), seed=3)


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return oracles.table(LAW, seed=4)


@pytest.fixture(scope="module")
def tuned(fit: Fit, runs: pd.DataFrame) -> Tuning:
    return tuning(fit, AT, runs)


def test_two_sizes_hardly_tell_how_best_values_change() -> None:
    runs = oracles.table(LAW, seed=4)
    two = runs.assign(N=np.where(runs["N"] > runs["N"].median(), 2e8, 1e8))
    draws = scattered(TRUTH, 40, 3, 0.01) | {"sigma_point": np.full(40, 0.01), "sigma_run": np.full(40, 0.01)}
    fit, note = fixed_fit(LAW, two, draws), "the fitted runs have 2 values of N"
    assert any(note in text for text in tuning(fit, {"N": 1e9, "D": 2e9}).notes)
    assert not any(note in text for text in tuning(fit, {"N": 1.5e8, "D": 2e9}).notes)


def test_best_values_are_the_laws_and_least(fit: Fit, tuned: Tuning) -> None:
    draws = {k: v[:, None] for k, v in fit.draws.items()}
    n, d = np.array([[1e8, 1e9]]), 2e10
    np.testing.assert_allclose(tuned.optimum["lr"], draws["c"] * d ** draws["xi"] * n ** -draws["eta"], rtol=1e-10)
    np.testing.assert_allclose(tuned.optimum["batch"], draws["b"] * d ** draws["nu"] + 0 * n, rtol=1e-10)
    np.testing.assert_allclose(tuned.loss, oracles.chinchilla(draws, {"N": n, "D": d}), rtol=1e-10)
    for name, factor in (("lr", 1.2), ("lr", 0.8), ("batch", 1.3), ("batch", 0.7)):
        moved = {**tuned.optimum, name: factor * tuned.optimum[name]}
        assert (oracles.lr_batch(draws, {"N": n, "D": d, **moved}) > tuned.loss).all()


def test_a_run_is_undertuned_by_what_the_oracle_says(fit: Fit, tuned: Tuning, runs: pd.DataFrame) -> None:
    draws = {k: v[:, None] for k, v in fit.draws.items()}
    at = {c: runs[c].to_numpy()[None, :] for c in LAW.covariates}
    expected = oracles.lr_batch(draws, at) / oracles.chinchilla(draws, at) - 1
    np.testing.assert_allclose(tuned.excess, expected, rtol=1e-6, atol=1e-12)
    table = tuned.undertuned()
    np.testing.assert_allclose(table["undertuned_median"], np.median(expected, axis=0), rtol=1e-6)
    times = runs["lr"].to_numpy() / (draws["c"] * at["D"] ** draws["xi"] * at["N"] ** -draws["eta"])
    np.testing.assert_allclose(table["lr_times_best_eti90_ub"], np.quantile(times, 0.95, axis=0), rtol=1e-9)
    assert (tuned.excess >= 0).all()


def test_losses_that_no_tuning_explains_are_named_by_their_rows(fit: Fit, tuned: Tuning, runs: pd.DataFrame) -> None:
    """A diverged run was corrected by the few percent that its rate costs."""
    assert not any("no lack of tuning" in note for note in tuned.notes)
    assert tuned.undertuned().index.tolist() == list(range(1, len(runs) + 1))
    loss = runs["loss"].where(np.arange(len(runs)) != 4, 9.0)
    (note,) = (note for note in tuning(fit, runs=runs.assign(loss=loss)).notes if "no lack of tuning" in note)
    assert note.startswith("row 5 of ")


def test_corrected_runs_have_the_losses_of_the_optimum_and_their_errors(tuned: Tuning, runs: pd.DataFrame) -> None:
    table, ratio = tuned.corrected(), 1 / (1 + tuned.excess)
    np.testing.assert_allclose(table["loss"], runs["loss"] * ratio.mean(axis=0))
    np.testing.assert_allclose(table["loss_se"], runs["loss"] * ratio.std(axis=0))
    assert table["loss_as_run"].tolist() == runs["loss"].tolist()
    known = tuning(posterior(LAW, scattered(TRUTH, SIZE, 3, 0.01), seed=3), runs=runs.assign(loss_se=0.01)).corrected()
    np.testing.assert_allclose(known["loss_se"], np.hypot(table["loss_se"], 0.01 * ratio.mean(axis=0)))


def test_a_ladder_without_tuning_is_corrected_to_the_law_it_would_have_followed() -> None:
    """With the true law, losses of badly tuned runs become those of Chinchilla, which a fit of it then takes."""
    exact = posterior(LAW, {k: np.full(SIZE, v) for k, v in TRUTH.items()})
    runs = oracles.table(LAW, sigma_point=0.0, sigma_run=0.0)
    best = oracles.chinchilla(TRUTH, {c: runs[c].to_numpy() for c in ("N", "D")})
    assert (runs["loss"] / best > 1.001).any()
    table = tuning(exact, runs=runs).corrected()
    np.testing.assert_allclose(table["loss"], best, rtol=1e-9)
    assert bayeslaw.data.check(bayeslaw.read_runs(table), law_named("chinchilla")) == []


def test_settings_and_runs_may_be_asked_for_alone(fit: Fit, tuned: Tuning, runs: pd.DataFrame, tmp_path: Path) -> None:
    alone = fit.tuning(AT)
    assert alone.summary().equals(tuned.summary())
    with fails("no-runs"):
        alone.corrected()
    runs.to_csv(tmp_path / "runs.csv", index=False)
    only = tuning(fit, runs=tmp_path / "runs.csv")
    assert only.summary().empty
    np.testing.assert_allclose(only.excess, tuned.excess)


def test_a_stack_has_the_draws_of_its_members(fit: Fit, runs: pd.DataFrame) -> None:
    other = posterior(LAW, scattered(TRUTH | {"c": 2 * TRUTH["c"]}, SIZE, 5, 0.01), seed=5)
    both = tuning(Stack({"one": fit, "two": other}, {"one": 0.5, "two": 0.5}), {"N": 1e9, "D": 2e10}, runs)
    assert both.optimum["lr"].shape == (SIZE, 1)
    low, high = np.quantile(both.optimum["lr"], [0.2, 0.8])
    assert high / low > 1.7
    assert both.excess.shape == (SIZE, len(runs))


@pytest.mark.slow
def test_a_point_fit_adds_no_errors(runs: pd.DataFrame) -> None:
    table = tuning(point_fit(LAW, runs, starts=4), runs=runs).corrected()
    assert "loss_se" not in table


def test_notes_say_where_it_is_an_extrapolation(fit: Fit, runs: pd.DataFrame) -> None:
    assert not tuning(fit, {"N": 1e8, "D": 1e9}).notes
    far = tuning(fit, {"N": 1e12, "D": 1e13}, runs.assign(lr=runs["lr"] * 1e3))
    assert any(note.startswith("N lies up to") for note in far.notes)
    assert any(note.startswith("the best lr lies up to") for note in far.notes)
    assert any(note.startswith("the most undertuned row loses") for note in far.notes)
    assert any(note.startswith("lr of ") and "e-folds outside the fitted runs" in note for note in far.notes)


def test_what_cannot_be_answered_is_refused(fit: Fit, runs: pd.DataFrame) -> None:
    with fails("nothing-asked"):
        tuning(fit)
    with fails("tuned-setting", "lr"):
        tuning(fit, {"N": 1e9, "D": 1e10, "lr": 1e-3})
    with fails("law-without-tuning", "chinchilla", "[tuning]"):
        tuning(posterior("chinchilla", {k: np.ones(4) for k in law_named("chinchilla").parameters}), {"N": 1e9, "D": 1e10})
    with fails("missing-column", "batch", kind=TableError):
        tuning(fit, runs=runs.drop(columns="batch"))
    with fails("missing-covariate", "D"):
        tuning(fit, {"N": 1e9})
    with fails("corrected-twice", "loss_as_run"):
        tuning(fit, runs=tuning(fit, runs=runs).corrected()).corrected()


def test_a_ladder_at_one_rate_and_batch_is_corrected(fit: Fit, runs: pd.DataFrame) -> None:
    """No law with rates can be fitted to it, and that is what the correction is for."""
    same = runs.assign(lr=1e-3, batch=1e6).drop_duplicates(["N", "D"])
    given = same.assign(run=[f"r{i}" for i in range(len(same))])
    tuned = tuning(fit, runs=given)
    np.testing.assert_allclose(tuned.corrected()["loss"], given["loss"] * (1 / (1 + tuned.excess)).mean(axis=0))
    assert (tuned.excess > 0).all()


def test_laws_of_a_stack_may_have_other_covariates_beside_the_tuned_ones() -> None:
    lr, rng = np.tile([1e-4, 1e-3, 1e-2], 4), np.random.default_rng(0)
    table = pd.DataFrame({"N": np.repeat([1e8, 1e9], 6), "D": np.repeat([1e9, 1e10, 1e9, 1e10], 3), "lr": lr})
    table = table.assign(loss=3 + 0.1 * np.log(lr / 1e-3) ** 2, run=[f"r{i}" for i in range(12)])
    draws = {k: v * np.exp(0.01 * rng.standard_normal(400)) for k, v in {"a": 3.0, "b": 1e-3, "sigma_point": 0.01}.items()}
    with_tokens, without = (
        fixed_fit(
            parse_card(RATES.format(name=name, term=term, more=more)),
            table,
            draws | {"sigma_run": draws["sigma_point"]},
            noise="normal",
        )
        for name, term, more in (("tokens", "1/D + ", 'D = { unit = "training tokens", support = [1e2, 1e15] }'), ("none", "", ""))
    )
    assert "D" not in without.law.covariates
    tuned = tuning(Stack({"tokens": with_tokens, "none": without}, {"tokens": 0.5, "none": 0.5}), runs=table)
    np.testing.assert_allclose(np.median(tuned.excess, axis=0), (0.1 * np.log(lr / 1e-3) ** 2) / 3, rtol=0.05, atol=1e-3)


def test_runs_of_another_positive_outcome_are_corrected_too() -> None:
    lr, size = np.array([1e-4, 1e-3, 1e-2, 1e-3]), 400
    table = pd.DataFrame({"N": [1e8, 1e8, 1e9, 1e9], "lr": lr, "regret": 3 + 0.1 * np.log(lr / 1e-3) ** 2, "run": list("abcd")})
    card = RATES.format(name="regrets", term="", more="").replace("loss   =", "formula =")
    law = parse_card(card.replace("[let]", '[outcome]\nname = "regret"\nunit = "%"\nkind = "positive"\n[let]'))
    draws = {"a": 3.0, "b": 1e-3, "sigma_point": 0.01, "sigma_run": 0.01}
    fit = fixed_fit(law, table, {name: np.full(size, value) for name, value in draws.items()}, noise="normal")
    tuned = tuning(fit, runs=table)
    assert tuned.undertuned()["regret"].tolist() == table["regret"].tolist()
    corrected = tuned.corrected()
    np.testing.assert_allclose(corrected["regret"], 3.0, rtol=1e-6)
    assert corrected["regret_as_run"].tolist() == table["regret"].tolist()
    with fails("corrected-twice", "regret_as_run"):
        tuning(fit, runs=corrected).corrected()


RATES = """
name   = "{name}"
title  = "Log loss with a best learning rate"
source = "a test"
loss   = "a + 1/N + {term}0.1*log(lr/lr_opt)**2"
[let]
lr_opt = "b"
[covariates]
N  = {{ unit = "parameters", support = [1e4, 1e13] }}
lr = {{ unit = "peak learning rate", support = [1e-7, 10], log = true, at_least = 3 }}
{more}
[parameters.a]
meaning = "level"
prior = {{ dist = "Normal", mu = 3.0, sigma = 1.0 }}
[parameters.b]
meaning = "best rate"
prior = {{ dist = "LogNormal", mu = -7.0, sigma = 1.0 }}
[tuning]
lr = "lr_opt"
"""


def test_settings_that_the_law_does_not_describe_are_refused(fit: Fit) -> None:
    """As forecasts refuse them: a size of 7 is 7 billion."""
    with fails("out-of-support", "N 7", "row 1", kind=TableError):
        tuning(fit, {"N": 7, "D": 2e10})


def test_the_cost_around_the_best_value_is_drawn(fit: Fit, tuned: Tuning) -> None:
    for name in ("lr", "batch"):
        ax = plot_tuning(tuned, Figure().subplots(), of=name, row=1)
        median = next(line for line in ax.lines if line.get_label() == "median")
        x, y = np.asarray(median.get_xdata()), np.asarray(median.get_ydata())
        best = np.median(tuned.optimum[name][:, 1])
        assert x[np.argmin(y)] == pytest.approx(best, rel=0.15)
        others = {k: v[:, [1]] for k, v in tuned.optimum.items()}
        draws = {k: v[:, None] for k, v in fit.draws.items()}
        cost = oracles.lr_batch(draws, {"N": 1e9, "D": 2e10, **others, name: x[None, :]}) / tuned.loss[:, [1]] - 1
        np.testing.assert_allclose(y, 100 * np.median(cost, axis=0), rtol=1e-6, atol=1e-9)
        assert ax.get_title() == "N = 1B, D = 20B"
    with fails("unknown-covariate", "N"):
        plot_tuning(tuned, Figure().subplots(), of="N")
    with fails("nothing-to-draw"):
        plot_tuning(tuned, Figure().subplots(), row=2)


def test_a_notebook_shows_best_values_and_the_runs_that_lose_most(tuned: Tuning) -> None:
    shown = tuned._repr_html_()
    assert "Best values" in shown
    assert "Runs that lose most by their tuning" in shown
    assert repr(tuned) == f"<Tuning of lr, batch by lr-batch: 2 settings and {len(tuned.runs or [])} rows of runs>"
