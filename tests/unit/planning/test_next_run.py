"""Effects of the planned run and of its base checkpoint: correlated as in the fitted runs, learnt where these are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.forecasting.stack import Stack
from bayeslaw.planning.domain_loss import DomainLoss, domain_loss
from bayeslaw.planning.next_run import with_next_run
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.fixed import stand_in_fit
from tests.oracles import Array
from tests.posteriors import law_named, learning, posterior, scattered
from tests.twins import without_noise

SIZE, SIGMA, POINT = 4000, 0.02, 0.002
CHECKPOINTS = 40
# Four standard errors of a correlation: of SIZE pairs of draws; and of one pair of effects from each checkpoint, each known but for
# the noise of a point.
MONTE_CARLO = 4 / np.sqrt(SIZE)
MEASURED = 4 * np.sqrt(2 / CHECKPOINTS) * POINT / SIGMA
CORNERS = pd.DataFrame({"D": [1e9, 1e10], "r": [0.1, 0.5]})
NEW = {"N": 3e9, "ptpp": 100.0}
LAW = law_named("transfer-source")


def runs(correlation: float, *, base: bool = True, joined: bool = False) -> pd.DataFrame:
    """40 checkpoints with two runs each and, if `base`, a row at D = 0, which `joined` makes the first of each run."""
    rng, rows = np.random.default_rng(0), []
    for i in range(CHECKPOINTS):
        n, shared = 10 ** rng.uniform(8, 9.5), rng.standard_normal()
        for r in (0.1, 0.4, 0.0):
            effect = SIGMA * (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.standard_normal())
            tokens = [0.0] if r == 0 else [0.0] * joined + [n, 5 * n, 20 * n]
            rows += [
                {"N": n, "ptpp": 20.0 + i, "r": r, "D": d, "effect": effect, "checkpoint": f"k{i}", "run": f"k{i}-{r}"}
                for d in tokens
            ]
    frame = pd.DataFrame(rows)
    frame = frame[(frame["D"] > 0) | base & (frame["r"].eq(0) ^ joined)].reset_index(drop=True)
    latent = without_noise(LAW, oracles.typical(LAW), frame)
    return frame.assign(loss=latent * np.exp(frame["effect"] + POINT * rng.standard_normal(len(frame))))


def drawn(frame: pd.DataFrame) -> float:
    """The correlation of the effects that `runs` drew for bases and their runs or, without bases, for two runs of a checkpoint."""
    each = frame.groupby("run").agg(effect=("effect", "first"), checkpoint=("checkpoint", "first"), tokens=("D", "min"))
    pairs = each.reset_index().merge(each.reset_index(), on="checkpoint")
    ordered = pairs["tokens_x"] < pairs["tokens_y"] if (each["tokens"] == 0).any() else pairs["run_x"] < pairs["run_y"]
    first, second = (pairs.loc[ordered, f"effect_{side}"] for side in "xy")
    return max(0.0, float((first * second).mean() / np.sqrt((first**2).mean() * (second**2).mean())))


def fitted(frame: pd.DataFrame) -> Fit:
    return posterior(LAW, scattered(oracles.typical(LAW), SIZE, 1, 1e-6), frame=frame.drop(columns="effect"), sigma=(POINT, SIGMA))


def shifted(fit: Fit, settings: dict[str, Any]) -> DomainLoss:
    return with_next_run([domain_loss("source", fit, settings, {}, CORNERS)], 0, None, run=True)[0]


def correlation(fit: Fit, settings: dict[str, Any] = NEW) -> float:
    loss = shifted(fit, settings)
    both: Array = np.stack([loss.shift, loss.shift_base])
    np.testing.assert_allclose(both.std(axis=1), np.hypot(SIGMA, POINT), rtol=0.05)
    return float(np.corrcoef(loss.shift, loss.shift_base)[0, 1])


@pytest.mark.parametrize("truth", [0.0, 0.77])
@pytest.mark.parametrize("base", [True, False])
@pytest.mark.slow
def test_effects_are_correlated_as_in_the_fitted_runs(truth: float, base: bool) -> None:
    """As bases and their runs are or, without bases, two runs of a checkpoint."""
    frame = runs(truth, base=base)
    assert correlation(fitted(frame)) == pytest.approx(drawn(frame), abs=float(np.hypot(MONTE_CARLO, MEASURED)))


def test_a_base_that_is_the_first_row_of_a_run_has_its_effect() -> None:
    """Only the noise of their points differs."""
    expected = 1 / (1 + (POINT / SIGMA) ** 2)
    assert correlation(fitted(runs(0.3, joined=True))) == pytest.approx(expected, abs=MONTE_CARLO * (1 - expected**2))


def test_the_base_loss_says_how_it_is_related() -> None:
    assert "correlated by 0." in shifted(fitted(runs(0.77)), NEW).shared


def test_effects_too_small_to_be_measured_count_as_independent() -> None:
    """Mean errors that vary less than the noise of their points say nothing of the effects, nor of their correlation."""
    frame = runs(0.77).drop(columns="effect")
    small = posterior(LAW, scattered(oracles.typical(LAW), SIZE, 1, 1e-6), frame=frame, sigma=(10 * SIGMA, SIGMA))
    assert "correlated" not in shifted(small, NEW).shared


@pytest.mark.slow
def test_runs_that_share_nothing_are_independent() -> None:
    frame = runs(0.77)
    assert correlation(fitted(frame.assign(checkpoint=frame["run"]))) == pytest.approx(0.0, abs=MONTE_CARLO)


@pytest.mark.slow
def test_the_run_of_a_measured_base_is_drawn_given_it() -> None:
    frame = runs(0.77)
    fit, row = fitted(frame), frame[frame["D"] == 0].nlargest(1, "effect").iloc[0]
    loss = shifted(fit, {"N": row["N"], "ptpp": row["ptpp"]})
    code = fit.observed.run_names.index(row["run"])
    effect = fit.residual[:, fit.observed.run == code].mean()
    shrunk = effect / (1 + (POINT / SIGMA) ** 2)  # known but for the noise of its one point; the next point has noise of its own
    assert loss.shift_base.mean() == pytest.approx(shrunk, abs=MONTE_CARLO * POINT * np.sqrt(2))
    assert loss.shift.mean() == pytest.approx(drawn(frame) * effect, abs=float(np.hypot(MONTE_CARLO * SIGMA, MEASURED * effect)))
    assert loss.shift.std() < 0.8 * SIGMA


def test_parts_of_a_stack_have_noise_of_their_own() -> None:
    """As two laws that were fitted with one seed, or one fit that is taken in several parts."""
    fit = fitted(runs(0.0))
    stack = Stack({"a": fit, "b": fit}, {"a": 0.5, "b": 0.5})
    shift = with_next_run([domain_loss("source", stack, NEW, {}, CORNERS)], 0, None, run=True)[0].shift
    assert abs(np.corrcoef(*shift.reshape(2, -1))[0, 1]) < MONTE_CARLO * np.sqrt(2)


@pytest.mark.slow
def test_losses_outside_the_runs_have_the_error_of_the_forecasts_there() -> None:
    fit = learning(fitted(runs(0.0)))
    away = {"N": 5e10, "ptpp": 300.0}
    loss = domain_loss("source", fit, away, {}, CORNERS)
    (shifted,) = with_next_run([loss], 0, None, run=False, learned=True)
    assert shifted.extrapolated
    np.testing.assert_array_equal(shifted.shift, shifted.shift_base)  # one model has one error, before and after adaptation
    at = pd.DataFrame([away | {"D": 5e10, "r": 0.1}])
    spread = fit.forecast(at, force=True)
    errors = np.log(spread.draws["extrapolated"].values) - np.log(spread.draws["run"].values)
    assert shifted.shift.std() == pytest.approx(errors.std(), rel=0.1)


@pytest.mark.slow
def test_losses_inside_the_runs_and_of_fits_that_learnt_nothing_have_none() -> None:
    fit = fitted(runs(0.0))
    for posterior_, model, learned in ((learning(fit), {"N": 1e9, "ptpp": 40.0}, True), (fit, NEW | {"ptpp": 300.0}, True)):
        (loss,) = with_next_run([domain_loss("source", posterior_, model, {}, CORNERS)], 0, None, run=False, learned=learned)
        assert not loss.extrapolated
        assert not loss.shift.any()


@pytest.mark.slow
def test_an_error_is_added_to_the_law_with_which_it_was_learnt() -> None:
    """Else what the error took from the law counts twice: losses at the plan are those of the forecast with the law's error."""
    d = np.geomspace(1e6, 4e8, 24)
    losses = (1.2 + 0.9 / (1 + (d / 3e7) ** 0.5)) * (1 + 0.02 * np.sin(np.log(d)))
    fit = stand_in_fit("fine-tuning", pd.DataFrame({"run": "a", "D": d, "loss": losses}), draws=1000)
    assert fit.info["discrepancy"]["learned"]
    plain = domain_loss("target", fit, {}, {}, pd.DataFrame({"D": [1e6, 4e8], "r": [0.0, 0.0]}))
    (loss,) = with_next_run([plain], 0, None, run=False, learned=True)
    at = pd.DataFrame({"D": [1e7, 1e8]})
    forecast = np.log(fit.forecast(at, force=True).with_errors.expected(slice(None)))
    # Both have errors drawn anew: 2,000 draws tell their sds within 5%. Added to the other posterior, they are far wider.
    for row, tokens in enumerate(at["D"]):
        values = loss.values(np.arange(loss.size), np.log(tokens), 0.0, 0)
        assert values.std() == pytest.approx(forecast[row].std(), rel=0.2)
        assert values.mean() == pytest.approx(forecast[row].mean(), abs=0.3 * forecast[row].std())
    here = np.arange(loss.size), np.log(1e8), 0.0, 0
    np.testing.assert_array_equal(loss.by_laws_alone().values(*here), plain.values(*here))
