"""The stated discrepancy: its size and correlation against the kernel, and its place in forecasts and scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.evaluation.scores import draw_scores, point_scores, score
from bayeslaw.forecasting.discrepancy import LENGTH, STATED, StatedDiscrepancy, read_choice, read_discrepancy, spread_name
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.outside import beyond_together
from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.noise.walk import directions
from bayeslaw.plots.forecast import plot_forecast
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import typical_fit
from tests.oracles import Array
from tests.posteriors import learning, posterior, scattered

AT = pd.DataFrame({"N": [1e7, 1e9, 1e11], "D": [1e8, 2e10, 1e12]})
SIZE = 20_000


def log_error(fit: Fit, at: pd.DataFrame, sd: float = 0.01) -> Array:
    """Log of the factor by which a discrepancy changes the next run's loss, draws (S, n)."""
    draws = forecast(fit, at, discrepancy=sd).draws
    return np.asarray(np.log(draws["discrepancy"].values / draws["run"].values))


# --- the process ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_is_normal_with_the_stated_size_everywhere() -> None:
    """Inside the runs and far outside: mean 0 and sd 1 to five standard errors, and normal quantiles."""
    values = StatedDiscrepancy(load_law("chinchilla"), SIZE, (1,)).at(
        {"N": np.geomspace(1e4, 1e13, 9), "D": np.geomspace(1e15, 1e2, 9)}
    )
    assert values.shape == (9, SIZE)
    assert (np.abs(values.mean(axis=1)) < 5 / np.sqrt(SIZE)).all()
    assert (np.abs(values.var(axis=1) - 1) < 5 * np.sqrt(2 / SIZE)).all()
    for share, z in ((0.05, -1.6449), (0.5, 0.0), (0.95, 1.6449)):
        assert (np.abs((values < z).mean(axis=1) - share) < 5 * np.sqrt(share * (1 - share) / SIZE)).all()


@pytest.mark.slow
def test_correlations_are_the_kernels() -> None:
    """Squared exponential in e-folds, up to the error of finitely many waves and five standard errors."""
    steps = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0])  # lengths
    for angle in (0.0, 0.7, np.pi / 2):
        n, d = (1e8 * np.exp(LENGTH * steps * f(angle)) for f in (np.cos, np.sin))
        values = StatedDiscrepancy(load_law("chinchilla"), SIZE, (2,)).at({"N": n, "D": d})
        correlation = values @ values[0] / SIZE
        expected = np.exp(-(steps**2) / 2)
        allowed = np.where(steps <= 3, 0.02, 0.07) + 5 * np.sqrt((1 + expected**2) / SIZE)
        assert (np.abs(correlation - expected) < allowed).all()


def test_a_draw_is_one_smooth_function() -> None:
    """Between neighbouring settings a draw changes as little as the kernel says: a step of 1% of a length by about 1% of its sd."""
    n = 1e8 * np.exp(LENGTH * 0.01 * np.arange(50))
    values = StatedDiscrepancy(load_law("chinchilla"), 500, (3,)).at({"N": n, "D": np.full(50, 1e10)})
    assert np.sqrt((np.diff(values, axis=0) ** 2).mean()) == pytest.approx(0.01, rel=0.2)
    assert np.abs(np.diff(values, axis=0)).max() < 0.06
    assert np.abs(np.diff(values, 2, axis=0)).max() < 0.002


def test_it_varies_with_size_and_budget() -> None:
    assert directions(load_law("ptpp-floor")) == ("N", "ptpp")
    assert directions(load_law("chinchilla")) == ("N", "D")
    assert directions(load_law("d-cpt")) == ("N", "D")


@pytest.mark.slow
def test_a_law_without_scales_has_a_constant_discrepancy() -> None:
    card = load_law("cpt-joint").card
    law = parse_card(card)
    flat = replace(law, covariates={"cpt": law.covariates["cpt"]})
    values = StatedDiscrepancy(flat, SIZE, (4,)).at({"cpt": np.array([0.0, 1.0])})
    np.testing.assert_array_equal(values[0], values[1])
    assert abs(values[0].var() - 1) < 5 * np.sqrt(2 / SIZE)


def test_base_checkpoints_count_as_one_token() -> None:
    law = load_law("transfer-target")
    without = replace(law, covariates={k: c for k, c in law.covariates.items() if k != "ptpp"})
    values = StatedDiscrepancy(without, 10, (5,)).at({"N": np.full(2, 1e8), "D": np.array([0.0, 1.0]), "r": np.zeros(2)})
    np.testing.assert_array_equal(values[0], values[1])


# --- forecasts ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_at_one_size_and_stage_share_it(ptpp_fit: Fit) -> None:
    at = pd.DataFrame({"N": 1e9, "D": [1e9, 1e11, 1e10, 1e10], "r": [0.1, 0.5, 0.1, 0.1], "ptpp": [31.0, 31.0, 31.0, 279.0]})
    error = log_error(ptpp_fit, at)
    np.testing.assert_allclose(error[:, 1], error[:, 0], atol=1e-12)
    np.testing.assert_allclose(error[:, 2], error[:, 0], atol=1e-12)
    expected = np.exp(-((np.log(279 / 31) / LENGTH) ** 2) / 2)
    allowed = 0.02 + 5 * np.sqrt((1 + expected**2) / len(error))
    assert abs((error[:, 3] * error[:, 0]).mean() / 0.01**2 - expected) < allowed


@pytest.mark.slow
def test_its_size_is_the_stated_one(sound_fit: Fit) -> None:
    one, two = log_error(sound_fit, AT), log_error(sound_fit, AT, 0.02)
    np.testing.assert_allclose(two, 2 * one, atol=1e-12)
    assert (np.abs(one.var(axis=0) / 0.01**2 - 1) < 5 * np.sqrt(2 / len(one))).all()
    draws = forecast(sound_fit, AT, discrepancy=0).draws
    np.testing.assert_array_equal(draws["discrepancy"], draws["run"])


@pytest.mark.slow
def test_the_other_spreads_stay_as_they_are(sound_fit: Fit) -> None:
    with_it, without = forecast(sound_fit, AT, discrepancy="1%", seed=3), forecast(sound_fit, AT, seed=3)
    assert (with_it.spread, without.spread) == ("discrepancy1%", "run or extrapolated")
    assert with_it.draws[["latent", "run"]].equals(without.draws[["latent", "run"]])
    assert set(with_it.draws) == {"latent", "run", "discrepancy"}
    assert with_it.draws.attrs["discrepancy"] == 0.01
    assert sound_fit.forecast(AT, discrepancy=0.01, seed=3).draws.identical(with_it.draws)
    other = forecast(sound_fit, AT, discrepancy="1%", seed=4).draws
    ratio, another = (np.log(d["discrepancy"] / d["run"]) for d in (with_it.draws, other))
    assert not np.isclose(ratio, another).any()


@pytest.mark.slow
def test_the_learnt_error_widens_forecasts_outside_the_runs(sound_fit: Fit) -> None:
    at = pd.DataFrame({"N": [1e8, 1e9, 1e10, 1e11], "D": [1e9, 1e11, 1e12, 1e13]})
    result = forecast(sound_fit, at, seed=3)
    assert result.headlines == ["run", "extrapolated", "extrapolated", "extrapolated"]
    table = result.summary()
    run, extrapolated = (np.log(table[f"{s}_eti90_ub"] / table[f"{s}_eti90_lb"]) for s in ("run", "extrapolated"))
    assert (extrapolated[1:] > 2 * run[1:]).all()
    assert (np.diff(extrapolated[1:]) > 0).all()  # farther out, the law may err more
    draws = result.draws
    assert draws["extrapolated"].equals(forecast(sound_fit, at, seed=3).draws["extrapolated"])
    assert not draws["extrapolated"].equals(forecast(sound_fit, at, seed=4).draws["extrapolated"])
    np.testing.assert_array_equal(result.predictive[:, 0], draws["run"][:, 0])
    np.testing.assert_array_equal(result.predictive[:, 1:], draws["extrapolated"][:, 1:])
    np.testing.assert_array_equal(result.expected(slice(0, 1)), draws["latent"].values.T[[0]])
    assert not np.array_equal(result.expected(slice(1, 2)), draws["latent"].values.T[[1]])


@pytest.mark.slow
def test_without_the_learnt_error_forecasts_are_the_laws(sound_fit: Fit) -> None:
    refused, learnt = forecast(sound_fit, AT, discrepancy="none", seed=3), forecast(sound_fit, AT, discrepancy="learned", seed=3)
    assert (refused.spread, refused.spreads, refused.beyond) == ("run", ("latent", "run"), ())
    assert refused.draws.equals(learnt.draws[["latent", "run"]])
    np.testing.assert_array_equal(refused.predictive, refused.draws["run"])
    np.testing.assert_allclose(refused.expected(slice(None)), refused.draws["latent"].values.T)


@pytest.mark.slow
def test_settings_beyond_the_product_of_size_and_tokens_lie_outside(sound_fit: Fit) -> None:
    """No run has both the most tokens (of run 7, 1e8 parameters) and the largest size (1e9)."""
    at = pd.DataFrame({"N": [1e8, 1e9], "D": [1.7e10, 1.7e10]})
    result = forecast(sound_fit, at)
    assert result.headlines == ["run", "extrapolated"]
    assert result.summary()["extrapolation"].tolist() == ["inside", "outside: N x D by 0.13 e-folds"]
    assert forecast(sound_fit, at, discrepancy="none").summary()["extrapolation"].tolist() == [
        "inside",
        "outside: N x D by 0.13 e-folds",
    ]


@pytest.mark.slow
def test_settings_beyond_the_tokens_per_parameter_of_all_runs_lie_outside(sound_fit: Fit) -> None:
    """The smallest size with many tokens, or the largest with few, which runs of larger and smaller sizes have had."""
    seen = sound_fit.observed.covariates
    ratios = seen["D"] / seen["N"]
    sizes = np.array([seen["N"].min(), seen["N"].max()])
    at = {
        "N": np.repeat(sizes, 2),
        "D": np.array([0.99, 1.01, 1.01, 0.99]) * np.repeat([ratios.max(), ratios.min()], 2) * np.repeat(sizes, 2),
    }
    assert beyond_together(sound_fit, at)["D / N"].tolist() == [False, True, False, True]
    many = pd.DataFrame({"N": [seen["N"].min()], "D": [seen["D"].max()]})
    assert ratios.max() < many["D"][0] / many["N"][0]
    result = forecast(sound_fit, many)
    assert result.headlines == ["extrapolated"]
    assert result.summary()["extrapolation"].tolist() == ["outside: D / N by 0.061 e-folds"]


@pytest.mark.parametrize(
    ("runs", "at", "where"),
    [
        ([(1e7, 1e11), (1e8, 1e10), (1e9, 1e9), (1e8, 1e9)], (1e9, 1e11), "N x D"),
        ([(1e7, 1e9), (1e8, 1e10), (1e9, 1e11), (1e8, 3e9)], (1e7, 1e11), "D / N"),
    ],
)
def test_a_law_that_has_learnt_no_error_errs_outside_the_runs_in_size_and_tokens_together(
    runs: list[tuple[float, float]], at: tuple[float, float], where: str
) -> None:
    """What is called extrapolated was the spread of an exact law there."""
    draws = scattered(oracles.typical(load_law("chinchilla")), 2000, 1, 0.003)
    fit = learning(posterior("chinchilla", draws, frame=pd.DataFrame(runs, columns=["N", "D"]).assign(loss=3.0)))
    result = forecast(fit, pd.DataFrame([runs[1], at], columns=["N", "D"]), force=True)
    assert result.summary()["extrapolation"].tolist() == ["inside", f"FAR outside: {where} by 4.6 e-folds"]
    check = result.checks[-1]
    assert not check.passed
    assert check.text.startswith(f"1 of 2 settings lie far outside the runs: {where} up to 4.6 e-folds (the runs span ")
    assert check.text.endswith("is counted there")
    run, extrapolated = (np.log(result.draws[s].values).std(axis=0) for s in ("run", "extrapolated"))
    np.testing.assert_allclose(extrapolated[0], run[0], rtol=1e-12)
    assert extrapolated[1] > 2 * run[1]


@pytest.mark.parametrize(
    ("law", "at", "text"),
    [
        ("chinchilla", {"D": 2e12}, "FAR outside: D by"),  # what lies outside along a covariate is described by that
        ("chinchilla", {"N": 2e8, "D": 1e11}, "outside: N x D by 0.69 e-folds"),  # that is less than half the runs' span
        ("plateau-target", {"N": 1e9, "ptpp": 100.0}, "FAR outside: N x ptpp by 4.6 e-folds"),
    ],
)
def test_corners_are_far_from_half_a_span_on(law: str, at: dict[str, float], text: str) -> None:
    runs = pd.DataFrame(
        {"N": [1e7, 1e8, 1e9, 1e8], "D": [1e11, 1e10, 1e9, 1e9], "ptpp": [100.0, 10.0, 1.0, 1.0], "r": 0.1, "loss": 3.0}
    )
    runs = runs if law == "plateau-target" else runs[["N", "D", "loss"]].assign(D=[1e11, 5e10, 1e10, 1e9])
    fit = learning(posterior(law, scattered(oracles.typical(load_law(law)), 400, 1, 0.003), frame=runs))
    setting = runs.drop(columns="loss").iloc[[1]].assign(**at)
    result = forecast(fit, setting, force=True)
    assert result.extrapolation[0].startswith(text)
    assert result.checks[-1].passed == (not text.startswith("FAR"))


@pytest.mark.parametrize(("law", "third"), [("repeated-epochs", "U"), ("precision", "bits_w"), ("lr-batch", "lr")])
def test_compute_beyond_the_runs_is_that_of_size_and_tokens_alone(law: str, third: str) -> None:
    """A third covariate does not make up for compute that no run had, nor does it exceed the runs' by itself."""
    fit = typical_fit(law)
    seen = fit.observed.covariates
    largest = int(np.argmax(seen["N"] * seen["D"]))
    rows = [{name: values[largest] for name, values in seen.items()} for _ in range(2)]
    rows[0] |= {"N": seen["N"].max(), "D": seen["D"].max(), third: seen[third].min()}
    rows[1] |= {name: values.max() for name, values in seen.items() if name not in ("N", "D")}
    at = {name: np.array([row[name] for row in rows]) for name in seen}
    assert (seen["N"] * seen["D"]).max() < at["N"][0] * at["D"][0]
    assert beyond_together(fit, at)["N x D"].tolist() == [True, False]


@pytest.mark.parametrize(("law", "edge"), [("chinchilla", "N"), ("from-base-source", "base_loss")])
def test_rounding_leaves_a_setting_inside_the_runs(law: str, edge: str) -> None:
    """Such as a base loss typed with five digits."""
    fit = typical_fit(law)
    seen = fit.observed.covariates
    at = pd.DataFrame({name: values[[np.argmax(seen[edge])] * 2] for name, values in seen.items()})
    at[edge] *= np.array([1 + 5e-5, 1 + 5e-4])
    assert forecast(fit, at).summary()["extrapolation"].str.split(":").str[0].tolist() == ["inside", "outside"]


@pytest.mark.parametrize(
    ("value", "choice"), [(None, (None, True)), ("learned", (None, True)), (" none ", (None, False)), ("1%", (0.01, False))]
)
def test_a_choice_is_learned_none_or_a_size(value: str | None, choice: tuple[float | None, bool]) -> None:
    assert read_choice(value) == choice


@pytest.mark.slow
def test_the_discrepancy_of_a_row_does_not_depend_on_other_rows(sound_fit: Fit) -> None:
    rng = np.random.default_rng(0)
    many = pd.DataFrame({"N": 10 ** rng.uniform(6, 12, 70), "D": 10 ** rng.uniform(8, 13, 70)})
    whole, few = (forecast(sound_fit, at, discrepancy=0.01).draws["discrepancy"].values for at in (many, many.head(20)))
    np.testing.assert_allclose(whole[:, :20], few, rtol=1e-12)
    alone = forecast(sound_fit, many.head(1), discrepancy=0.01).draws["discrepancy"].values
    np.testing.assert_allclose(whole[:, :1], alone, rtol=1e-12)


@pytest.mark.slow
def test_summaries_without_a_learnt_error_show_half_a_percent_and_one_unless_one_is_stated(sound_fit: Fit) -> None:
    result = forecast(sound_fit, AT, discrepancy="none")
    table = result.summary(0.8)
    assert [spread_name(sd) for sd in STATED] == ["discrepancy0.5%", "discrepancy1%"]
    for sd in STATED:
        stated = forecast(sound_fit, AT, discrepancy=sd)
        columns = [f"{spread_name(sd)}_eti80_{end}" for end in ("lb", "ub")]
        pd.testing.assert_frame_equal(stated.summary(0.8)[columns], table[columns])
        expected = np.quantile(stated.draws["discrepancy"].values, [0.1, 0.9], axis=0).T
        np.testing.assert_allclose(table[columns], expected)
        assert [c for c in map(str, stated.summary(0.8)) if c.startswith("discrepancy")] == columns
    width = [table[f"{s}_eti80_ub"] - table[f"{s}_eti80_lb"] for s in ("run", "discrepancy0.5%", "discrepancy1%")]
    assert (width[0] < width[1]).all()
    assert (width[1] < width[2]).all()


@pytest.mark.slow
def test_a_picture_shows_the_stated_interval(sound_fit: Fit) -> None:
    result, ax = forecast(sound_fit, AT.assign(N=1e9), discrepancy=0.03), Figure().subplots()
    plot_forecast(result, ax)
    assert ax.get_title().endswith("interval of the next run, discrepancy 3%")
    table, (band,) = result.summary(), ax.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert heights.max() == pytest.approx(table["discrepancy3%_eti90_ub"].max())
    assert heights.min() == pytest.approx(table["discrepancy3%_eti90_lb"].min())


@pytest.mark.slow
def test_a_stated_spread_is_scored(sound_fit: Fit) -> None:
    held = oracles.table(load_law("chinchilla"), seed=8, runs=4)
    table, plain = score(sound_fit, held, discrepancy="2%", seed=5), score(sound_fit, held, seed=5)
    assert table["spread"].tolist() == ["discrepancy2%"]
    draws, loss = forecast(sound_fit, held, discrepancy=0.02, seed=5).draws["discrepancy"].values, held["loss"].to_numpy()
    expected = point_scores(loss, np.median(draws, axis=0)) | draw_scores(loss, draws)
    assert table[list(expected)].iloc[0].to_dict() == expected
    assert table["width_eti90"].iloc[0] > 2 * plain["width_eti90"].iloc[0]
    with fails("point-fit"):
        score(point_fit("chinchilla", held, starts=2), held, discrepancy=0.01)


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "sd"), [(0.01, 0.01), ("0.01", 0.01), ("1%", 0.01), (" .5 % ", 0.005), (0, 0.0), ("0%", 0.0)])
def test_a_size_is_a_share_or_a_percentage(value: str | float, sd: float) -> None:
    assert read_discrepancy(value) == pytest.approx(sd, rel=1e-15)


@pytest.mark.parametrize("value", [1, "1", "60%", -0.01, "-1%", "nan", "inf", float("nan"), "", "%", "1%%", "one", "0.01x"])
def test_impossible_sizes_are_refused(sound_fit: Fit, value: str | float) -> None:
    for use in (lambda: read_discrepancy(value), lambda: forecast(sound_fit, AT, discrepancy=value)):
        with fails("not-a-discrepancy", repr(str(value).strip())):
            use()
