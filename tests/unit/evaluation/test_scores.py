"""Scores against numbers by hand, oracles and the theory of a normal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslaw
from bayeslaw.core.errors import FitError, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.evaluation.scores import (
    COVERAGE,
    by_run,
    crps,
    draw_scores,
    held_rows,
    huber,
    point_scores,
    sample_note,
    score,
    scored,
    transforms,
)
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Stack
from bayeslaw.inference.point import PointFit, point_fit
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import oracles, outcomes
from tests.errors import fails
from tests.fixed import line_fit, measured, stand_in_fit, typical_fit
from tests.oracles import Array

POINT = ["huber_log", "rmse_log", "mae_rel", "bias_rel", "mape_clip", "intercept", "slope"]
DRAW = ["cover_eti50", "cover_eti80", "cover_eti90", "cover_eti95", "width_eti90", "crps", "log_score", "pit_ks_p"]
HEAD = ["law", "fit", "spread", "rows", "base_rows_left_out", "seen_rows_left_out", "sample"]

# --- one number for each loss ---------------------------------------------------------------------------------------


def test_huber_by_hand() -> None:
    residual = np.array([0.0, 0.01, -0.01, 0.02, 0.05, -0.05])
    np.testing.assert_allclose(huber(residual), [0, 5e-5, 5e-5, 2e-4, 8e-4, 8e-4], rtol=1e-12)


def test_point_scores_by_hand() -> None:
    scores = point_scores(np.array([2.0, 4.0]), np.array([2.2, 3.6]))
    a, b = np.log(1.1), np.log(0.9)  # residuals 0.0953 and -0.1054, both beyond 0.02
    assert scores["huber_log"] == pytest.approx(0.02 * ((a - 0.01) + (-b - 0.01)) / 2)
    assert scores["rmse_log"] == pytest.approx(np.sqrt((a**2 + b**2) / 2))
    assert scores["mae_rel"] == pytest.approx(0.1)
    assert scores["mape_clip"] == pytest.approx(0.1)
    # the line through (log 2.2, log 2) and (log 3.6, log 4)
    slope = np.log(2) / np.log(3.6 / 2.2)
    assert scores["slope"] == pytest.approx(slope)
    assert scores["intercept"] == pytest.approx(np.log(2) - slope * np.log(2.2))


def test_the_clipped_error_divides_by_no_less_than_a_thousandth() -> None:
    scores = point_scores(np.array([5e-4]), np.array([1e-3]))
    assert scores["mae_rel"] == pytest.approx(1.0)
    assert scores["mape_clip"] == pytest.approx(0.5)


def test_point_scores_are_their_oracles(rng: np.random.Generator) -> None:
    loss = rng.uniform(1.5, 4, 60)
    predicted = loss**0.8 * np.exp(0.1 + 0.02 * rng.standard_normal(60))
    scores, residual = point_scores(loss, predicted), np.log(predicted / loss)
    small = [0.5 * e**2 if abs(e) <= 0.02 else 0.02 * abs(e) - 0.0002 for e in residual]
    slope, intercept = np.polyfit(np.log(predicted), np.log(loss), 1)
    expected = {
        "huber_log": np.mean(small),
        "rmse_log": np.linalg.norm(residual) / np.sqrt(60),
        "mae_rel": np.mean([abs(p / y - 1) for p, y in zip(predicted, loss, strict=True)]),
        "bias_rel": np.mean([p / y - 1 for p, y in zip(predicted, loss, strict=True)]),
        "mape_clip": np.mean([abs(p / y - 1) for p, y in zip(predicted, loss, strict=True)]),
        "intercept": intercept,
        "slope": slope,
    }
    assert list(scores) == POINT
    assert scores == pytest.approx(expected, rel=1e-9)


def test_outcomes_that_are_not_positive_are_scored_in_their_unit() -> None:
    scores = point_scores(np.array([-1.0, 2.0]), np.array([0.0, 1.5]), outcomes.law("real").outcome)
    assert scores == pytest.approx({"mae": 0.75, "bias": 0.25, "rmse": np.sqrt(0.625)})


def test_perfect_predictions() -> None:
    loss = np.array([1.7, 2.0, 2.9])
    assert point_scores(loss, loss.copy()) == pytest.approx(dict.fromkeys(POINT, 0.0) | {"slope": 1.0}, abs=1e-12)


def test_predictions_in_one_point_have_no_slope() -> None:
    for loss, predicted in (([2.0], [2.1]), ([2.0, 3.0], [2.5, 2.5])):
        scores = point_scores(np.array(loss), np.array(predicted))
        assert np.isnan([scores["slope"], scores["intercept"]]).all()
        assert np.isfinite([scores[name] for name in POINT[:4]]).all()


# --- draws for each loss --------------------------------------------------------------------------------------------

MU, SIGMA, N, S = 3.0, 0.1, 500, 2000


@pytest.fixture(scope="module")
def normal() -> tuple[Array, Array]:
    """Losses from a normal, and standard normal draws to forecast them by."""
    rng = np.random.default_rng(7)
    return MU + SIGMA * rng.standard_normal(N), rng.standard_normal((S, N))


@pytest.fixture(scope="module")
def honest(normal: tuple[Array, Array]) -> dict[str, float]:
    """Scores of draws from the distribution that the losses are from."""
    return draw_scores(normal[0], MU + SIGMA * normal[1])


def close(value: float, expected: float, sd: float, bias: float = 0.0) -> None:
    """Within five standard errors of a mean over the losses, and a known bias of finitely many draws."""
    assert abs(value - expected) < 5 * sd / np.sqrt(N) + bias, (value, expected)


@pytest.mark.parametrize("prob", COVERAGE)
def test_coverage_of_honest_draws(honest: dict[str, float], prob: float) -> None:
    close(honest[f"cover_eti{prob * 100:g}"], prob, np.sqrt(prob * (1 - prob)), bias=1 / S)


def test_width_of_honest_draws(honest: dict[str, float]) -> None:
    z = stats.norm.ppf(0.95)
    quantile_sd = np.sqrt(0.05 * 0.95 / S) / stats.norm.pdf(z) * SIGMA
    close(honest["width_eti90"], 2 * z * SIGMA, 2 * quantile_sd, bias=quantile_sd**2 / SIGMA)


@pytest.mark.parametrize("size", [1, 2, 57])
def test_crps_is_the_mean_over_all_pairs_of_draws(size: int, rng: np.random.Generator) -> None:
    loss, draws = rng.lognormal(size=7), rng.lognormal(sigma=0.3, size=(size, 7))
    pairs = np.abs(draws[:, None] - draws).mean(axis=(0, 1))
    np.testing.assert_allclose(crps(loss, draws), np.abs(draws - loss).mean(axis=0) - pairs / 2, rtol=1e-12)


def test_crps_of_honest_draws(normal: tuple[Array, Array], honest: dict[str, float]) -> None:
    """Its mean is sigma / sqrt(pi) (Gneiting and Raftery 2007); of the very losses, the closed form."""
    z = (normal[0] - MU) / SIGMA
    closed = SIGMA * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    close(honest["crps"], SIGMA / np.sqrt(np.pi), float(closed.std()), bias=SIGMA / S)
    assert honest["crps"] == pytest.approx(float(closed.mean()), rel=0.01)


@pytest.mark.slow
def test_log_score_of_honest_draws(normal: tuple[Array, Array]) -> None:
    """Draws of log-normal losses: the entropy of the normal, raised a little by the kernel's width."""
    logs = np.log(MU) + SIGMA * (normal[0] - MU) / SIGMA
    scores = draw_scores(np.exp(logs), np.exp(np.log(MU) + SIGMA * normal[1]))
    entropy = 0.5 * np.log(2 * np.pi * np.e * SIGMA**2)
    close(scores["log_score"], float(entropy), np.sqrt(0.5), bias=0.02)


@pytest.mark.slow
def test_probability_integral_transforms(normal: tuple[Array, Array], honest: dict[str, float]) -> None:
    loss, z = normal
    uniform = stats.kstest((MU + SIGMA * z < loss).mean(axis=0), "uniform").pvalue
    assert honest["pit_ks_p"] == pytest.approx(float(uniform))
    assert honest["pit_ks_p"] > 1e-4
    assert draw_scores(loss, MU + 0.5 * SIGMA * z)["pit_ks_p"] < 1e-4
    assert draw_scores(loss, MU + 0.3 * SIGMA + SIGMA * z)["pit_ks_p"] < 1e-4


@pytest.mark.slow
def test_over_confident_draws(normal: tuple[Array, Array], honest: dict[str, float]) -> None:
    """Draws half as wide as the truth cover as theory says, and score worse."""
    scores = draw_scores(normal[0], MU + 0.5 * SIGMA * normal[1])
    for prob in COVERAGE:
        expected = 2 * stats.norm.cdf(0.5 * stats.norm.ppf(0.5 + prob / 2)) - 1
        close(scores[f"cover_eti{prob * 100:g}"], expected, np.sqrt(expected * (1 - expected)), bias=1 / S)
    assert scores["width_eti90"] == pytest.approx(0.5 * honest["width_eti90"])
    assert scores["crps"] > honest["crps"]
    assert scores["log_score"] > honest["log_score"]


def test_a_log_score_is_that_of_a_gaussian_kernel_estimate(rng: np.random.Generator) -> None:
    loss, draws = np.array([1.9, 2.2]), np.exp(0.7 + 0.1 * rng.standard_normal((50, 2)))
    kernels = [stats.gaussian_kde(np.log(draws[:, i])) for i in (0, 1)]
    expected = -np.mean([kernel.logpdf(np.log(y)) for kernel, y in zip(kernels, loss, strict=True)])
    assert draw_scores(loss, draws)["log_score"] == pytest.approx(expected)
    assert draw_scores(np.array([2.1]), np.full((50, 1), 2.0))["log_score"] == 1e3  # draws that are all the same


def test_draws_equal_to_the_outcome_count_half() -> None:
    assert transforms(np.array([2.0, 0.5]), np.array([[1.0, 1.0], [2.0, 0.5], [2.0, 0.5], [3.0, 0.5]])).tolist() == [0.5, 0.375]
    missing = transforms(np.array([np.nan, 2.0, 2.0]), np.array([[1.0, np.nan, 1.0], [3.0, 3.0, 3.0]]))
    assert np.isnan(missing).tolist() == [True, True, False]


def test_a_loss_far_from_every_draw_has_a_finite_log_score() -> None:
    draws = 2 + 0.01 * np.random.default_rng(0).standard_normal((200, 2))
    assert draw_scores(np.array([2.0, 9.0]), draws)["log_score"] == pytest.approx(500, abs=5)


# --- scores of fits -------------------------------------------------------------------------------------------------


@pytest.fixture
def held() -> pd.DataFrame:
    """Losses of the same truth, from other runs."""
    return oracles.table(load_law("chinchilla"), seed=8, runs=4)


@pytest.fixture(scope="module")
def pointed() -> PointFit:
    return point_fit("chinchilla", oracles.table(load_law("chinchilla"), runs=8), starts=10)


@pytest.mark.slow
def test_a_posterior_is_scored_by_its_run_spread(sound_fit: Fit, held: pd.DataFrame) -> None:
    table = score(sound_fit, held, seed=5)
    assert list(table) == [*HEAD, "checks", "model", *POINT, *DRAW]
    assert table["checks"].tolist() == ["passed"]
    assert table[HEAD].values.tolist() == [["chinchilla", "posterior", "run", 20, 0, 0, "held-out"]]
    draws, loss = forecast(sound_fit, held, seed=5).draws["run"].values, held["loss"].to_numpy()
    expected: dict[str, Any] = point_scores(loss, np.median(draws, axis=0)) | draw_scores(loss, draws)
    assert table[[*POINT, *DRAW]].iloc[0].to_dict() == expected
    assert table["mae_rel"].iloc[0] < 0.02
    pd.testing.assert_frame_equal(table, score(sound_fit, held, seed=5))


@pytest.mark.slow
def test_known_errors_of_losses_are_part_of_the_forecast() -> None:
    """Losses of 4% known error under noise of .1%: 90% intervals hold nine in ten, and half of them without the errors."""
    fit = line_fit(point=1e-3, run=1e-3, size=2000)
    table = measured(fit, 0.1, 400)
    (with_errors,), (without,) = (score(fit, t).to_dict("records") for t in (table, table.drop(columns="loss_se")))
    assert abs(with_errors["cover_eti90"] - 0.9) < 5 * np.sqrt(0.09 / 400)
    assert with_errors["pit_ks_p"] > 0.01
    assert without["cover_eti90"] < 0.7
    assert with_errors["log_score"] < without["log_score"] - 3
    assert score(fit, table.assign(loss_se=0.0)).to_dict("records") == [without]


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "student"])
def test_a_known_error_is_worth_as_much_point_noise(noise: str) -> None:
    """For Student-t noise too: its scale is the root of the sum of squares, as in the log likelihood."""
    fit, wider = (line_fit(noise=noise, point=point) for point in (0.01, 0.05))
    table = measured(line_fit(), 0.0, 20).drop(columns="loss_se")
    known = table.assign(loss_se=table["loss"] * np.sqrt(0.05**2 - 0.01**2))
    pd.testing.assert_frame_equal(score(fit, known), score(wider, table), rtol=1e-9)


def test_a_point_fit_is_scored_by_its_prediction(pointed: PointFit, held: pd.DataFrame) -> None:
    table = score(pointed, held)
    assert list(table) == [*HEAD, *POINT]
    assert table["fit"].tolist() == ["point"]
    values = {name: np.array([value]) for name, value in pointed.parameters.items()}
    predicted = oracles.chinchilla(values, {c: held[c].to_numpy() for c in ("N", "D")})
    expected = point_scores(held["loss"].to_numpy(), predicted)
    assert table[POINT].iloc[0].to_dict() == pytest.approx(expected, rel=1e-9)


def test_a_point_fit_with_a_negative_loss_is_refused(pointed: PointFit, held: pd.DataFrame) -> None:
    broken = replace(pointed, parameters={**pointed.parameters, "E": -50.0})
    with fails("no-finite-loss", "The point fit of chinchilla", "row of the table = 1", kind=FitError):
        score(broken, held)


@pytest.mark.slow
def test_base_rows_are_left_out_and_counted(sound_fit: Fit, pointed: PointFit, held: pd.DataFrame) -> None:
    base = held.head(3).assign(D=0.0, loss=4.0, run=["x", "y", "z"])
    for fit in (sound_fit, pointed):
        whole, without = score(fit, pd.concat([held, base])), score(fit, held)
        assert whole["base_rows_left_out"].tolist() == [3]
        assert whole["rows"].tolist() == [20]
        rest = [c for c in whole if c != "base_rows_left_out"]
        pd.testing.assert_frame_equal(whole[rest], without[rest])


@pytest.mark.slow
def test_losses_of_another_tokenizer_are_refused(sound_fit: Fit, held: pd.DataFrame) -> None:
    own = replace(sound_fit, info={**sound_fit.info, "token_length": {"bytes_per_token": 3.1}})
    pd.testing.assert_frame_equal(score(own, held.assign(bytes_per_token=3.1)), score(sound_fit, held))
    table = oracles.table(load_law("chinchilla"), runs=8).assign(bytes_per_token=3.1)
    for fit in (own, point_fit("chinchilla", table, starts=1)):
        with fails("other-tokenizer", "4.6 and 3.1 bytes per token", "convert"):
            score(fit, held.assign(bytes_per_token=4.6))


@pytest.mark.slow
def test_losses_of_another_domain_are_refused(sound_fit: Fit, pointed: PointFit, held: pd.DataFrame) -> None:
    """A fit to losses in English would be scored by losses in German, and nothing would say so."""
    english = replace(sound_fit, info={**sound_fit.info, "domain": "en"})
    scores = score(english, held.assign(domain="en"))
    pd.testing.assert_frame_equal(scores, score(sound_fit, held.assign(domain="de")))  # whose domain is not known
    with fails("other-domain", "are of domain de and the fit's of en", "--where"):
        score(english, held.assign(domain="de"))
    mixed = held.assign(domain=["en", "de"] * (len(held) // 2))
    for fit in (sound_fit, pointed):
        with fails("other-domain", "2 domains (en, de)"):
            score(fit, mixed)
    with fails("other-domain", "domain == 'de'"):
        score(replace(english, info={**english.info, "domain": "de"}), mixed)


@pytest.mark.slow
def test_held_out_rows_come_as_a_table_runs_or_a_file(sound_fit: Fit, held: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "held.csv"
    held.to_csv(path, index=False)
    tables = [score(sound_fit, source) for source in (held, bayeslaw.read_runs(held), str(path), bayeslaw.read_runs(path))]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0], rtol=1e-9)


@pytest.mark.slow
def test_one_stage_and_one_row_can_be_scored(ptpp_fit: Fit) -> None:
    held = oracles.table(load_law("ptpp-floor"), seed=3)
    assert score(ptpp_fit, held[held["ptpp"] == 279])["rows"].tolist() == [int((held["ptpp"] == 279).sum())]
    assert score(ptpp_fit, held.head(1))["rows"].tolist() == [1]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"loss": None}, "missing-column"),
        ({"N": None}, "missing-column"),
        ({"loss": -1.0}, "loss-not-positive"),
        ({"loss": np.nan}, "missing-loss"),
        ({"N": 8.1}, "out-of-support"),
        ({"D": 0.0}, "only-base-checkpoints"),
    ],
)
def test_faulty_held_out_tables(
    sound_fit: Fit, pointed: PointFit, held: pd.DataFrame, change: dict[str, float | None], code: str
) -> None:
    ((column, value),) = change.items()
    table = held.drop(columns=column) if value is None else held.assign(**{column: value})
    for fit in (sound_fit, pointed):
        with fails(code, column, kind=TableError):
            score(fit, table)


def test_a_missing_column_is_named_as_the_fit_has_it(sound_fit: Fit, held: pd.DataFrame) -> None:
    own = {"sources": [{"name": "cpt.csv", "rows": 9, "columns": {"loss": "medical_loss:bits/token"}}]}
    fit = replace(sound_fit, info={**sound_fit.info, **own})
    table = held.rename(columns={"loss": "medical_loss"}).assign(general_loss=held["loss"])
    with fails("missing-column", "the fit has it from medical_loss", "--column loss=medical_loss:bits/token", kind=TableError):
        score(fit, table)
    with fails("missing-column", "--column loss=general_loss", kind=TableError):
        score(fit, table.drop(columns="medical_loss"))


# --- rows that a fit has seen ---------------------------------------------------------------------------------------


@pytest.fixture
def seen() -> pd.DataFrame:
    """The rows of `sound_fit`, under other names of runs and written with seven digits."""
    table = oracles.table(load_law("chinchilla"), runs=8)
    return table.assign(loss=table["loss"].map("{:.7g}".format).astype(float), run=[f"other {run}" for run in table["run"]])


@pytest.mark.slow
def test_a_table_of_fitted_rows_is_not_held_out(sound_fit: Fit, pointed: PointFit, seen: pd.DataFrame) -> None:
    for fit in (sound_fit, pointed, Stack({"one": sound_fit}, {"one": 1.0})):
        with fails("nothing-held-out", "made with all 40 rows.", "--in-sample"):
            score(fit, seen)
        assert score(fit, seen, in_sample=True)[["rows", "sample"]].values.tolist() == [[40, "in-sample (40 of 40 rows)"]]


@pytest.mark.slow
def test_fitted_rows_are_left_out_and_counted(sound_fit: Fit, seen: pd.DataFrame, held: pd.DataFrame) -> None:
    mixed = pd.concat([seen.head(7), held])
    left, alone = score(sound_fit, mixed, seed=5), score(sound_fit, held, seed=5)
    assert left[["rows", "seen_rows_left_out", "sample"]].values.tolist() == [[20, 7, "held-out"]]
    assert sample_note(left, "mixed.csv").startswith("7 rows of mixed.csv are in the fit and not scored")
    assert sample_note(alone, "held.csv") == ""
    assert left["mae_rel"].item() == pytest.approx(alone["mae_rel"].item(), rel=0.05)  # up to the noise of other rows' numbers
    whole = score(sound_fit, mixed, in_sample=True)
    assert whole[["rows", "seen_rows_left_out", "sample"]].values.tolist() == [[27, 0, "in-sample (7 of 27 rows)"]]
    assert sample_note(whole, "mixed.csv").startswith("IN-SAMPLE: ")


@pytest.mark.slow
def test_held_out_rows_that_repeat_others_count_as_asked(sound_fit: Fit, held: pd.DataFrame) -> None:
    twice = pd.concat([held, held.iloc[:2]], ignore_index=True)
    with fails("repeated-rows", "rows 21–22 repeat rows 1–2 exactly", "--duplicates drop"):
        score(sound_fit, twice)
    pd.testing.assert_frame_equal(score(sound_fit, bayeslaw.read_runs(twice, duplicates="drop")), score(sound_fit, held))
    assert score(sound_fit, bayeslaw.read_runs(twice, duplicates="keep"))["rows"].item() == len(twice)


@pytest.mark.slow
def test_a_new_loss_at_fitted_settings_and_a_fitted_loss_elsewhere_are_held_out(sound_fit: Fit, seen: pd.DataFrame) -> None:
    for change in ({"loss": seen["loss"] * 1.00001}, {"D": seen["D"] * 1.00001}):
        assert score(sound_fit, seen.assign(**change))["seen_rows_left_out"].tolist() == [0]


def test_a_rounded_loss_of_a_fitted_run_is_not_held_out() -> None:
    """One of two tables of the same runs may have fewer digits; a run of another name has a loss of its own."""
    law = load_law("chinchilla")
    table = oracles.table(law, runs=8)
    observed = Observations.of(law, bayeslaw.read_runs(table))
    rounded = bayeslaw.read_runs(table.assign(loss=table["loss"].round(3))).frame
    assert observed.has(law, rounded).all()
    assert not observed.has(law, rounded.assign(run=[f"seed 2 of {run}" for run in rounded["run"]])).any()
    assert not observed.has(law, rounded.drop(columns="run")).any()
    assert not observed.has(law, rounded.assign(loss=rounded["loss"] + 0.001)).any()
    digits = Observations.of(law, bayeslaw.read_runs(table.assign(loss=table["loss"].round(4))))
    assert digits.has(law, bayeslaw.read_runs(table).frame).all()


def test_an_idle_replay_share_does_not_hide_a_fitted_base_row() -> None:
    """At D = 0 the replay share does not matter: logs leave it empty, and it is filled with the median of each table."""
    law = load_law("transfer-target")
    table = oracles.table(law, runs=8)
    table.loc[table.index[:2], ["D", "r"]] = [0.0, np.nan]
    observed = Observations.of(law, bayeslaw.read_runs(table))
    other = bayeslaw.read_runs(table.assign(r=table["r"] / 2)).frame
    assert observed.has(law, other).tolist() == [True] * 2 + [False] * (len(table) - 2)


@pytest.mark.slow
def test_base_checkpoints_alone_are_scored_by_a_law_that_describes_them() -> None:
    base = (
        oracles.table(load_law("transfer-target"), runs=8).drop_duplicates("run").assign(D=0.0, run=[f"base {i}" for i in range(8)])
    )
    assert score(typical_fit("transfer-target"), base)["rows"].tolist() == [8]


def test_rows_are_scored_that_every_law_describes_and_no_fit_has_seen() -> None:
    """`ptpp-floor` is infinite at base checkpoints, `transfer-target` is not; each fit has seen a row of its own."""
    table = oracles.table(load_law("transfer-target"), runs=8, checkpoints=4)
    table = pd.concat([table, table.iloc[[0]].assign(D=0.0, run="base", loss=4.0)], ignore_index=True)
    rows = table[table["D"] > 0]
    members = [
        stand_in_fit("ptpp-floor", rows.iloc[:-2], draws=400),
        stand_in_fit("transfer-target", rows.drop(rows.index[[-3, -1]]), draws=400),
    ]
    held = held_rows(members, read_runs(table))
    assert (held.base, held.seen, len(held.runs.frame)) == (1 + (table["D"].iloc[:-1] == 0).sum(), len(rows) - 1, 1)
    assert held_rows(members[1:], read_runs(table)).base == 0
    kept = held_rows(members, read_runs(table), in_sample=True)
    assert len(kept.runs.frame) == len(rows)


def test_rows_have_what_fits_know_of_their_tasks() -> None:
    fit, new = outcomes.outcome_fit("count"), outcomes.table("count").drop(columns=["items", "run"])
    assert held_rows([fit], read_runs(new.assign(accuracy=0.5))).runs.frame["items"].unique().tolist() == [200]


def test_losses_of_the_other_domain_by_their_names_are_noted() -> None:
    """Forecasts of the target miss all losses of the source, and the scores alone would blame the law."""
    fit = typical_fit("transfer-target")
    table = oracles.table(load_law("transfer-target"), seed=5)
    for domain, notes in (("source", 1), ("target", 0)):
        column = f"eval/loss_{domain}"
        held = held_rows([fit, fit], read_runs(table.rename(columns={"loss": column}), columns={"loss": column}))
        assert len(held.notes) == notes
        assert all("are of column eval/loss_source" in note and "Choose the losses of the target" in note for note in held.notes)


@pytest.mark.slow
def test_a_failed_fit_is_scored_only_if_forced(small_fit: Fit, held: pd.DataFrame) -> None:
    with fails("failed-checks", kind=FitError):
        score(small_fit, held)
    assert score(small_fit, held, force=True)["rows"].tolist() == [20]


def test_forecasts_run_by_run() -> None:
    frame = pd.DataFrame({"run": ["a", "b", "a"], "D": [2.0, 1.0, 1.0], "loss": [1.0, 2.0, 3.0]}, index=[1, 2, 3])
    draws = np.linspace(0.9, 1.1, 1001)[:, None] * np.array([1.0, 2.6, 3.3])
    table = by_run(frame, draws)
    assert table["run"].tolist() == ["b", "a"]  # the worst error first
    assert table[["rows", "inside"]].values.tolist() == [[1, 0], [2, 1]]
    np.testing.assert_allclose(table["error"], [0.3, 0.05])
    np.testing.assert_allclose(table[["loss", "predicted", "eti90_lb", "eti90_ub"]], [[2, 2.6, 2.366, 2.834], [1, 1, 0.91, 1.09]])
    assert by_run(frame.drop(columns="run"), draws)["run"].tolist() == ["row 2", "row 3", "row 1"]
    low = by_run(frame.assign(loss=[1.2, 2.6, 3.3]), draws)  # a loss above its interval: the worst error has a sign
    assert low[["run", "inside"]].values.tolist() == [["a", 1], ["b", 1]]


@pytest.mark.parametrize("clock", ["D", "step"])
def test_the_last_loss_of_a_run_is_that_of_its_last_step_in_any_order_of_the_rows(clock: str) -> None:
    frame = pd.DataFrame({"run": "a", clock: [300.0, 100.0, 200.0], "loss": [1.0, 3.0, 2.0]}, index=[1, 2, 3])
    assert by_run(frame, np.ones((10, 3)))["loss"].item() == 1.0
    assert by_run(frame.drop(columns=clock), np.ones((10, 3)))["loss"].item() == 2.0  # the last row


def test_averages_are_numbered_from_one() -> None:
    fit = outcomes.outcome_fit("bounded")
    table = outcomes.table("bounded").drop(columns="run").head(4)
    table = table.assign(N=table["N"].iloc[0], D=[1.5e9, 1.5e9, 3e9, 3e9], task=["a", "b", "a", "b"])
    runs = scored(fit, table, mean="task").runs
    assert sorted(runs["run"]) == ["average 1", "average 2"]
    assert runs.set_index("run")["score"]["average 1"] == pytest.approx(table["score"].head(2).mean())
