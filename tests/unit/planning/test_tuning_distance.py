"""How far best values of single grids lie from the law's, against grids that are shifted by known numbers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.planning.tuning import tuning
from bayeslaw.planning.tuning_distance import FEWEST_GRIDS, TuningDistance
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


def test_spread_is_that_of_the_grids_shifts(shifts: np.ndarray) -> None:
    distance = present(TuningDistance.of(fitted(grids(shifts))))
    assert distance.grids == len(shifts)
    for name, true in zip(("lr", "batch"), shifts.T, strict=True):
        assert distance.spread[name] == pytest.approx(np.sqrt(np.mean(true**2)), rel=0.06)  # the grid of spreads has steps of 5%


def test_grids_that_keep_to_the_law_have_none() -> None:
    distance = present(TuningDistance.of(fitted(grids(np.zeros((8, 2)), white=0.002))))
    assert max(distance.spread.values()) < 0.1


def test_grids_of_one_batch_tell_about_rates_alone(shifts: np.ndarray) -> None:
    rates = shifts * [1, 0]
    distance = present(TuningDistance.of(fitted(grids(rates, batches=(0.0,)))))
    # At one batch a shift of the best batch looks like one of the best rate, and the prior shares it among both.
    assert 0 < distance.spread["lr"] < np.sqrt(np.mean(rates**2)) * 2


def test_few_grids_tell_nothing(shifts: np.ndarray) -> None:
    assert TuningDistance.of(fitted(grids(shifts[: FEWEST_GRIDS - 1]))) is None


def test_best_values_at_settings_lie_around_the_laws(shifts: np.ndarray) -> None:
    fit, at = fitted(grids(shifts)), {"N": "1e9,2e9", "D": 2e10}
    around, exact = tuning(fit, at), tuning(fit, at, discrepancy="none")
    off = np.log(around.optimum["lr"] / exact.optimum["lr"])
    distance = present(TuningDistance.of(fit))
    # The sd of Student-t numbers of 12 degrees of freedom is 1.095; 800 draws know it within 3%.
    assert off.std() == pytest.approx(1.095 * distance.spread["lr"], rel=0.1)
    assert abs(np.corrcoef(off.T)[0, 1]) < 0.15  # settings are grids of their own
    assert any("fitted grids: lr by a factor" in note for note in around.notes)
    assert not any("fitted grids" in note for note in exact.notes)
    assert tuning(fitted(grids(shifts), asked="none"), at).notes != around.notes
    costs = np.asarray(plot_tuning(around, Figure().subplots(), of="batch").lines[0].get_ydata(), dtype=np.float64)
    assert 0 <= costs.min() < costs.max()  # nothing costs less than the best value of a grid
