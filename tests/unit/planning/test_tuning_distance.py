"""How far best values of single grids lie from the law's, against grids that are shifted by known numbers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

from bayeslaw.planning.tuning import tuning
from bayeslaw.planning.tuning_distance import FEWEST_GRIDS, LEVEL, SCATTER, SCATTERS, SLOPE, Line, TuningDistance
from bayeslaw.plots.decisions import plot_tuning
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.fixed import fixed_fit
from tests.posteriors import law_named, scattered
from tests.values import present

LAW = law_named("lr-batch")
TRUTH = oracles.typical(LAW)
NOISE = {"sigma_point": 0.002, "dof": 20.0}


def grids(shifts: np.ndarray, white: float = 1e-5, batches: Sequence[float] = (-1, -0.3, 0.3, 1)) -> pd.DataFrame:
    """Losses of grids (g,) of rates and batches, each with its own level and with best values shifted by (g, 2) e-folds."""
    rng, parts = np.random.default_rng(0), list[pd.DataFrame]()
    for i, shift in enumerate(shifts):
        n, d = 1e8 * 1.5**i, 2e9 * 1.3**i
        lr, batch = TRUTH["c"] * d ** TRUTH["xi"] * n ** -TRUTH["eta"], TRUTH["b"] * d ** TRUTH["nu"]
        around = np.array([(x, y) for x in np.linspace(-1, 1, 7) for y in batches])
        table = pd.DataFrame({"N": n, "D": d, "lr": lr * np.exp(around[:, 0]), "batch": batch * np.exp(around[:, 1])})
        moved = {c: table[c].to_numpy()[None] for c in LAW.covariates}
        moved |= {"lr": moved["lr"] * np.exp(-shift[0]), "batch": moved["batch"] * np.exp(-shift[1])}
        loss = oracles.lr_batch({k: np.array([[v]]) for k, v in TRUTH.items()}, moved)[0]
        parts.append(table.assign(loss=loss * np.exp(0.01 * rng.standard_normal() + white * rng.standard_normal(loss.size))))
    return pd.concat(parts, ignore_index=True)


def fitted(table: pd.DataFrame, asked: str = "learned") -> Fit:
    """A fit at the true parameters."""
    draws = scattered(TRUTH, 400, 3, 1e-6) | {k: np.full(400, v) for k, v in NOISE.items()}
    fit = fixed_fit(LAW, table, draws)
    return replace(fit, info={**fit.info, "discrepancy": {"asked": asked}})


@pytest.fixture(scope="module")
def shifts() -> np.ndarray:
    return np.array([0.4, 0.2]) * np.random.default_rng(5).standard_normal((12, 2))


def test_scatter_is_that_of_the_grids_shifts(shifts: np.ndarray) -> None:
    distance = present(TuningDistance.of(fitted(grids(shifts))))
    assert distance.grids == len(shifts)
    for name, true in zip(("lr", "batch"), shifts.T, strict=True):
        # A line through twelve shifts takes up to three of them, and the spread of what is left is known within 24%.
        assert distance.lines[name].scatter == pytest.approx(np.std(true), rel=0.35)


def test_best_values_go_on_along_the_line_of_the_grids() -> None:
    steps = np.arange(8) - 3.5
    distance = present(TuningDistance.of(fitted(grids(np.outer(steps, [0.1, -0.05]) + np.array([0.3, 0.0])))))
    at = distance.middle + 6 * np.log([1.5, 1.3])  # six grids beyond the middle: .6 and -.3 e-folds beyond the level
    for name, expected in (("lr", 0.9), ("batch", -0.3)):
        off = np.log(distance.drawn(name, at[None], 2000, (0,)))
        assert np.median(off) == pytest.approx(expected, abs=0.05)
        assert np.std(off) < 0.15


def test_grids_that_keep_to_the_law_scatter_little() -> None:
    distance = present(TuningDistance.of(fitted(grids(np.zeros((8, 2)), white=0.002))))
    assert max(line.scatter for line in distance.lines.values()) < 0.1


def test_grids_of_one_batch_tell_about_rates_alone(shifts: np.ndarray) -> None:
    rates = shifts * [1, 0]
    distance = present(TuningDistance.of(fitted(grids(rates, batches=(0.0,)))))
    # At one batch a shift of the best batch looks like one of the best rate, and the prior shares it among both.
    assert 0 < distance.lines["lr"].scatter < np.sqrt(np.mean(rates**2)) * 2


def test_line_is_that_of_normal_shifts_with_their_covariance() -> None:
    rng = np.random.default_rng(2)
    design = np.column_stack([np.ones(5), rng.standard_normal((5, 2))])
    found, errors = rng.normal(0, 0.4, 5), rng.uniform(0.05, 0.3, 5)
    line = Line.through(found, errors, design)
    prior = np.diag([LEVEL**2, SLOPE**2, SLOPE**2])
    for i in (0, 40, 90):
        noise = np.diag(SCATTERS[i] ** 2 + errors**2)
        whole = design @ prior @ design.T + noise
        gain = prior @ design.T @ np.linalg.inv(whole)
        assert line.mean[i] == pytest.approx(gain @ found)
        assert line.factor[i] @ line.factor[i].T == pytest.approx(prior - gain @ design @ prior)
    covariances = [design @ prior @ design.T + np.diag(size**2 + errors**2) for size in SCATTERS]
    dense = stats.halfnorm.pdf(SCATTERS, scale=SCATTER) * [stats.multivariate_normal.pdf(found, cov=c) for c in covariances]
    expected = dense * np.gradient(SCATTERS)
    assert line.probability == pytest.approx(expected / expected.sum())


def test_few_grids_tell_nothing(shifts: np.ndarray) -> None:
    few = fitted(grids(shifts[: FEWEST_GRIDS - 1]))
    assert TuningDistance.of(few) is None
    assert any("fewer than 3 fitted grids have 6 rows" in note for note in tuning(few, {"N": 1e9, "D": 2e10}).notes)
    assert not any("fitted grids" in note for note in tuning(few, {"N": 1e9, "D": 2e10}, discrepancy="none").notes)


def test_rows_of_a_grid_may_have_tokens_that_differ_by_a_batch(shifts: np.ndarray) -> None:
    table = grids(shifts)
    logged = table.assign(D=table["D"] * np.random.default_rng(1).uniform(1, 1.005, len(table)))
    of_table, of_logged = (present(TuningDistance.of(fitted(rows))) for rows in (table, logged))
    assert of_logged.grids == of_table.grids == len(shifts)
    # Values of tau lie 5% apart, and half a percent more tokens moves the best rates by less.
    assert of_logged.lines["lr"].scatter == pytest.approx(of_table.lines["lr"].scatter, rel=0.1)


def test_best_values_at_settings_lie_around_the_laws(shifts: np.ndarray) -> None:
    fit, at = fitted(grids(shifts)), {"N": "1e9,2e9", "D": 2e10}
    around, exact = tuning(fit, at), tuning(fit, at, discrepancy="none")
    off = np.log(around.optimum["lr"] / exact.optimum["lr"])
    distance = present(TuningDistance.of(fit))
    expected = np.log(distance.drawn("lr", np.log([[1e9, 2e10], [2e9, 2e10]]), 4000, (7,)))
    assert off.mean(axis=0) == pytest.approx(expected.mean(axis=0), abs=4 * expected.std() / np.sqrt(len(off)))
    assert off.std(axis=0) == pytest.approx(expected.std(axis=0), rel=0.15)
    assert 0.02 < np.corrcoef(off.T)[0, 1] < 0.98  # settings share the line, and each is a grid of its own
    assert any("12 fitted grids, each by itself" in note for note in around.notes)
    assert not any("fitted grids" in note for note in exact.notes)
    assert tuning(fitted(grids(shifts), asked="none"), at).notes != around.notes
    costs = np.asarray(plot_tuning(around, Figure().subplots(), of="batch").lines[0].get_ydata(), dtype=np.float64)
    assert 0 <= costs.min() < costs.max()  # nothing costs less than the best value of a grid
