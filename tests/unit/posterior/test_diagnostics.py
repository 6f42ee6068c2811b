"""Checks of simulated draws that mix well, are stuck, differ by chain, or stay at their priors."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import arviz_stats as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.signal import lfilter

from bayeslaw.cli.forecasts import conditions
from bayeslaw.laws.law import Covariate
from bayeslaw.laws.outcome import Outcome
from bayeslaw.posterior.diagnostics import (
    Check,
    Reach,
    _mixing_checks,
    diagnostics,
    extrapolation,
    forecast_checks,
    information_check,
    learnt_error_check,
    overlap,
    run_effect_check,
    sampler_checks,
    spread_rows,
    table_of,
)
from tests import outcomes
from tests.oracles import Array


@pytest.fixture
def draws(rng: np.random.Generator) -> dict[str, Array]:
    return {"a": rng.standard_normal((4, 1000)), "b": rng.standard_normal((4, 1000))}


def stats(
    rng: np.random.Generator, chains: int = 4, count: int = 1000, diverging: int = 0, energy: Array | None = None
) -> tuple[xr.Dataset, Array]:
    """Statistics of the sampler, and the energies of all draws."""
    flags = np.zeros((chains, count), dtype=bool)
    flags[0, :diverging] = True
    return xr.Dataset({"diverging": (("chain", "draw"), flags)}), rng.standard_normal((chains, count)) if energy is None else energy


def verdicts(checks: list[Check]) -> dict[str, bool]:
    return {check.name: check.passed for check in checks}


def test_good_draws_pass(draws: dict[str, Array], rng: np.random.Generator) -> None:
    checks = sampler_checks(draws, *stats(rng))
    assert verdicts(checks) == dict.fromkeys(["r_hat", "ess_bulk", "ess_tail", "divergences", "e_bfmi"], True)
    assert all(check.required and str(check).startswith("passed: ") for check in checks)
    assert checks[3].text == "0 divergent transitions of 4000, at most 0.1% wanted"


def test_one_is_not_many(draws: dict[str, Array], rng: np.random.Generator) -> None:
    assert sampler_checks(draws, *stats(rng, diverging=1))[3].text.startswith("1 divergent transition of 4000,")
    row: dict[Hashable, Any] = {"base_rows_left_out": 1, "spread": "run", "checks": "passed", "model": "no concerns"}
    assert conditions(row).endswith("; 1 row at D = 0 left out")
    assert conditions(row | {"base_rows_left_out": 2}).endswith("; 2 rows at D = 0 left out")


def test_chains_apart_fail(draws: dict[str, Array], rng: np.random.Generator) -> None:
    draws["b"][0] += 5
    checks = sampler_checks(draws, *stats(rng))
    assert verdicts(checks) == {"r_hat": False, "ess_bulk": False, "ess_tail": False, "divergences": True, "e_bfmi": True}
    assert "(b), at most 1.01 wanted" in checks[0].text
    assert str(checks[0]).startswith("FAILED: largest R-hat 1.")
    assert checks[0].table["r_hat"]["a"] < 1.01 < checks[0].table["r_hat"]["b"]


def test_slow_chains_fail(draws: dict[str, Array], rng: np.random.Generator) -> None:
    steps = rng.standard_normal((4, 1000))
    for i in range(1, 1000):
        steps[:, i] += 0.97 * steps[:, i - 1]
    checks = sampler_checks(draws | {"b": steps}, *stats(rng))
    assert not verdicts(checks)["ess_bulk"]
    assert "of 4000 draws (b), at least 400 wanted" in checks[1].text


@pytest.mark.parametrize(("diverging", "passed"), [(4, True), (5, False)])
def test_divergences(diverging: int, passed: bool, draws: dict[str, Array], rng: np.random.Generator) -> None:
    checks = sampler_checks(draws, *stats(rng, diverging=diverging))
    assert verdicts(checks)["divergences"] is passed


def test_energy_that_drifts_fails(draws: dict[str, Array], rng: np.random.Generator) -> None:
    energy = rng.standard_normal((4, 1000))
    energy[2] = np.cumsum(rng.standard_normal(1000))
    checks = sampler_checks(draws, *stats(rng, energy=energy))
    assert not verdicts(checks)["e_bfmi"]
    assert checks[-1].table["e_bfmi"].idxmin() == 2


@pytest.mark.slow
def test_energy_is_judged_before_draws_are_thinned(draws: dict[str, Array], rng: np.random.Generator) -> None:
    """An energy with an E-BFMI of .25: that of every second draw is .47, which would pass."""
    energy = rng.standard_normal((4, 20_000))
    for i in range(1, energy.shape[1]):
        energy[:, i] = 0.875 * energy[:, i - 1] + np.sqrt(1 - 0.875**2) * energy[:, i]
    passed = {}
    for every in (1, 2):
        check = sampler_checks(draws, *stats(rng, energy=energy[:, ::every]))[-1]
        passed[every] = (round(float(check.table["e_bfmi"].mean()), 2), check.passed)
    assert passed == {1: (0.25, False), 2: (0.47, True)}


def test_one_chain_fails(rng: np.random.Generator) -> None:
    checks = sampler_checks({"a": rng.standard_normal((1, 2000))}, *stats(rng, 1, 2000))
    assert verdicts(checks) == {"r_hat": False, "ess_bulk": True, "ess_tail": True, "divergences": True, "e_bfmi": True}
    assert checks[0].text == "one chain only: R-hat needs two"


def test_draws_that_never_moved_fail(draws: dict[str, Array], rng: np.random.Generator) -> None:
    """Constant draws have no R-hat, in one parameter or in all of them."""
    still = {"b": np.ones((4, 1000))}
    frozen = stats(rng, energy=np.ones((4, 1000)))
    for checks in (sampler_checks(draws | still, *frozen), sampler_checks(still, *frozen)):
        assert not any(check.passed for check in checks if check.name in ("r_hat", "e_bfmi"))
        assert "R-hat nan (b)" in checks[0].text


def test_diagnostics_name_every_parameter(draws: dict[str, Array]) -> None:
    table = diagnostics(draws)
    assert list(table.index) == ["a", "b"]
    assert list(table.columns) == ["r_hat", "ess_bulk", "ess_tail"]
    assert (table["ess_bulk"] > 3000).all()


@pytest.mark.parametrize(("chains", "count"), [(4, 300), (2, 201), (1, 300), (4, 9), (4, 7), (2, 3)])
def test_diagnostics_are_arvizs_to_the_last_digit(chains: int, count: int, rng: np.random.Generator) -> None:
    """Also of slow chains, heavy tails, chains that differ, equal draws, draws that never moved, and one that is not a number."""
    plain = rng.standard_normal((chains, count))
    draws = {
        "plain": plain,
        "slow": np.cumsum(plain, axis=1),
        "heavy": np.exp(3 * plain),
        "apart": plain + np.arange(chains)[:, None],
        "rounded": np.round(plain, 1),
        "two values": np.where(plain > 0, 1.0, 0.0),
        "still": np.ones((chains, count)),
    }
    for extra in ({}, {"nan": np.where(np.arange(count) == 1, np.nan, plain)}):
        given = draws | extra
        data = xr.Dataset({name: (("chain", "draw"), values) for name, values in given.items()})
        with np.errstate(all="ignore"):
            parts = [az.rhat(data), az.ess(data), az.ess(data, method="tail", prob=(0.05, 0.95))]
        expected = {k: [float(v[name]) for name in given] for k, v in zip(("r_hat", "ess_bulk", "ess_tail"), parts, strict=True)}
        pd.testing.assert_frame_equal(diagnostics(given), pd.DataFrame(expected, index=list(given)), check_exact=True)


def test_overlap(rng: np.random.Generator) -> None:
    same = overlap(rng.standard_normal(20_000), rng.standard_normal(20_000))
    assert same > 0.97
    assert overlap(rng.standard_normal(5000), 20 + rng.standard_normal(5000)) < 0.05
    # two unit normals a distance d apart have a common area of 2 Phi(-d/2): 0.617 for d = 1
    assert overlap(rng.standard_normal(50_000), 1 + rng.standard_normal(50_000)) == pytest.approx(0.617, abs=0.02)
    assert overlap(rng.standard_normal(50_000), np.ones(50)) < 0.1


def test_parameters_that_stay_at_their_priors_are_named(rng: np.random.Generator) -> None:
    prior = {"a": rng.standard_normal(4000), "b": rng.standard_normal(4000)}
    posterior = {"a": 0.1 * rng.standard_normal((4, 1000)), "b": rng.standard_normal((4, 1000))}
    check = information_check(prior, posterior)
    assert (check.passed, check.required) == (False, False)
    assert str(check).startswith("note: b: not informed by these data. ")
    assert check.table["prior_overlap"]["b"] > 0.9 > 0.3 > check.table["prior_overlap"]["a"]
    assert information_check({"a": prior["a"]}, posterior).text == "the data inform every parameter"


def test_a_learnt_error_far_out_in_its_prior_is_a_concern() -> None:
    assert learnt_error_check(np.full(10, 0.01), 0.036) is None
    large = learnt_error_check(np.full(10, 0.073), 0.036)
    assert large is not None
    assert "7.3% an e-fold away, above the 95% point of its prior, 3.6%" in large.text


def test_large_run_effects_are_noted() -> None:
    assert run_effect_check(np.full((2, 10), 0.004)).passed
    check = run_effect_check(np.full((2, 10), 0.2))
    assert (check.passed, check.required) == (False, False)
    assert check.text.startswith("runs lie 20.0% around the law beyond point noise")


@pytest.mark.parametrize(
    ("outcome", "shifted", "least", "shown"),
    [
        (
            outcomes.law("bounded").outcome,
            None,
            0.1,
            "runs lie 0.2 logits around the law beyond point noise; seeds explain at most 0.1",
        ),
        (
            outcomes.law("real").outcome,
            None,
            0.1,
            "runs lie 0.2 in gain around the law beyond point noise; seeds explain at most 0.1",
        ),
        (
            Outcome("accuracy", "", "count", (0.0, 1.0), items="items", run_shifts="loss"),
            np.array([2.0, 2.5, 4.0]),
            0.025,
            "runs lie 0.05 in loss around the law beyond point noise; seeds explain at most 0.025",
        ),
    ],
    ids=["logits", "the unit of a real outcome", "the covariate that they shift"],
)
def test_run_effects_are_judged_in_the_unit_that_they_have(
    outcome: Outcome, shifted: Array | None, least: float, shown: str
) -> None:
    assert run_effect_check(np.full((2, 10), 0.9 * least), outcome, shifted).passed
    check = run_effect_check(np.full((2, 10), 2 * least), outcome, shifted)
    assert not check.passed
    assert check.text.startswith(shown)


def test_records_for_storage() -> None:
    check = Check("name", True, "text", "model", pd.DataFrame({"x": [1.0]}, index=["a"]))
    assert table_of((check,)) == [
        {"name": "name", "passed": True, "text": "text", "subject": "model", "table": {"x": {"a": 1.0}}, "advice": ""}
    ]


# --- forecasts ------------------------------------------------------------------------------------------------------


def test_latent_losses_are_checked_like_parameters(rng: np.random.Generator) -> None:
    latent = rng.standard_normal((4, 1000, 3))
    checks = forecast_checks(latent, [1, 5, 9], 3)
    assert verdicts(checks) == dict.fromkeys(["forecast_r_hat", "forecast_ess_bulk", "forecast_ess_tail"], True)
    latent[0, :, 1] += 3
    checks = forecast_checks(latent, [1, 5, 9], 4000)
    assert verdicts(checks) == dict.fromkeys(["forecast_r_hat", "forecast_ess_bulk", "forecast_ess_tail"], False)
    assert checks[0].text.startswith("largest R-hat of the latent loss at 3 of 4,000 settings that bracket all: 1.")
    assert "(row 5), at most 1.01 wanted" in checks[0].text
    expected = diagnostics({5: latent[..., 1]})
    pd.testing.assert_frame_equal(pd.concat([c.table for c in checks], axis=1).loc[[5]], expected)


def test_settings_at_which_all_draws_agree_are_not_checked(rng: np.random.Generator) -> None:
    latent = rng.standard_normal((4, 1000, 2))
    latent[..., 1] = 0.25  # the accuracy of guessing, far below any signal
    checks = forecast_checks(latent, [1, 5], 2)
    assert all(check.passed and check.table.index.tolist() == [1] for check in checks)
    assert forecast_checks(latent[..., 1:], [5], 1) == []


def test_few_rows_are_all_chosen() -> None:
    assert spread_rows([np.array([3.0, 1.0, 3.0])]).tolist() == [0, 1, 2]


def test_chosen_rows_bracket_the_others(rng: np.random.Generator) -> None:
    """Every extreme is among them, and no row is farther from a chosen one than the chosen are from each other."""
    columns = [rng.uniform(size=2000), np.exp(rng.standard_normal(2000)), np.full(2000, 7.0)]
    chosen = spread_rows(columns, 20)
    assert chosen.size == np.unique(chosen).size == 20
    assert {int(end(c)) for c in columns[:2] for end in (np.argmin, np.argmax)} <= set(chosen.tolist())
    points = np.stack([columns[0] / np.ptp(columns[0]), columns[1] / np.ptp(columns[1])], axis=1)
    gaps = np.linalg.norm(points[:, None] - points[chosen], axis=2)
    between = np.linalg.norm(points[chosen][:, None] - points[chosen], axis=2) + 9 * np.eye(20)
    assert gaps.min(axis=1).max() <= np.sort(between.min(axis=1))[6]  # the first few are the extremes, wherever those lie


def test_equal_rows_are_chosen_once() -> None:
    assert spread_rows([np.repeat([1.0, 2.0, 5.0], 100)], 20).tolist() == [0, 100, 200]


@pytest.mark.parametrize(("distance", "text", "passed"), [
    (0.0, "inside", True), (1.9, "outside: N by 1.9 e-folds", True), (2.1, "FAR outside: N by 2.1 e-folds", False),
])  # fmt: skip
def test_half_the_span_outside_is_far(distance: float, text: str, passed: bool) -> None:
    reach = {"N": Reach.of(Covariate("N", "", (1e4, 1e13)), np.array([1e8, 1e8 * np.e**4, 1e9]))}
    assert reach["N"].span == pytest.approx(4)
    assert reach["N"].far == pytest.approx(2)
    texts, check = extrapolation(pd.DataFrame({"N": [0.0, distance]}), reach)
    assert texts == ["inside", text]
    assert check.passed is passed


def test_the_law_s_error_is_said_to_count_only_where_it_does() -> None:
    sizes, tokens = np.array([1e8, 1e9]), np.array([1e9, 1e10])
    reach = {name: Reach.of(Covariate(name, "", (1e4, 1e15)), v) for name, v in (("N", sizes), ("D", tokens))}
    far = pd.DataFrame({"N": [0.0, 3.0], "D": [4.0, 0.0]})
    assert extrapolation(far, reach, "the error", ("N", "D"))[1].text.endswith("The error is counted there")
    assert (
        "The error is counted along N, and none along D. Runs can't show" in extrapolation(far, reach, "the error", ("N",))[1].text
    )
    assert extrapolation(far.assign(D=0.0), reach, "the error", ("N",))[1].text.endswith("The error is counted there")


def test_an_unseen_stage_is_far_from_two_seen_ones() -> None:
    """PTPP 15 and 31, forecast at 62, 124 and 279: the extrapolation that misled every published form."""
    seen = np.array([15.0, 31.0])
    reach = {"ptpp": Reach.of(Covariate("ptpp", "", (0.1, 1e5)), seen)}
    texts, check = extrapolation(pd.DataFrame({"ptpp": np.log(np.array([35.0, 62.0, 124.0, 279.0]) / 31)}), reach)
    assert texts == [
        "outside: ptpp by 0.12 e-folds", "FAR outside: ptpp by 0.69 e-folds", "FAR outside: ptpp by 1.4 e-folds",
        "FAR outside: ptpp by 2.2 e-folds",
    ]  # fmt: skip
    assert check.text == (
        "3 of 4 settings lie far outside the runs: ptpp up to 2.2 e-folds (the runs span 0.73 e-folds). "
        "Runs can't show how wrong the law may be there: state a discrepancy, such as 1%"
    )


def test_with_one_value_nearly_everything_is_far() -> None:
    """10% from the only size is near; beyond that only priors inform the effect of size."""
    reach = {"N": Reach.of(Covariate("N", "", (1e4, 1e13)), np.array([1e9, 1e9]))}
    texts, check = extrapolation(pd.DataFrame({"N": [0.09, 0.11]}), reach)
    assert texts == ["outside: N by 0.09 e-folds", "FAR outside: N by 0.11 e-folds"]
    assert check.table.loc["N"].to_dict() == {"span": 0.0, "far": 0.1, "outside": 0.11, "rows_far": 1.0}


def test_no_tokens_are_outside_runs_with_tokens_by_no_number_of_e_folds() -> None:
    reach = {"D": Reach.of(Covariate("D", "", (0, 1e15)), np.array([1e8, 1e9]))}
    texts, check = extrapolation(pd.DataFrame({"D": [0.0, np.log(1e8) - np.log(1e-300)]}), reach)
    assert texts == ["inside", "FAR outside: D = 0"]
    assert "outside the runs: D = 0 (the runs span 2.3 e-folds)" in check.text


def test_reach_of_runs_that_begin_at_no_tokens_and_of_shares() -> None:
    tokens = Covariate("D", "", (0, 1e15))
    assert Reach.of(tokens, np.array([0.0, 1.0, np.e])).span == pytest.approx(1)
    share = Reach.of(Covariate("r", "", (0, 1)), np.array([0.1, 0.5]))
    assert share.span == pytest.approx(0.4)
    assert share.far == pytest.approx(0.2)
    assert share(0.3) == "0.3"


@pytest.mark.parametrize(("largest", "text"), [(1.0104, "1.0104 "), (1.012, "1.012 "), (1.0099, "1.010 "), (1.003, "1.003 ")])
def test_a_failed_r_hat_does_not_look_like_a_passed_one(largest: float, text: str) -> None:
    table = pd.DataFrame({"r_hat": [largest], "ess_bulk": [900.0], "ess_tail": [900.0]}, index=["a"])
    check = _mixing_checks(table, 4, 4000, "", "")[0]
    assert check.passed == (largest <= 1.01)
    assert f"largest R-hat {text}".strip() in check.text


@pytest.mark.parametrize(("size", "text"), [(399.7, "399.7 "), (399.4, "399 "), (400.2, "400 "), (2000.6, "2001 ")])
def test_a_failed_effective_sample_size_does_not_look_like_a_passed_one(size: float, text: str) -> None:
    table = pd.DataFrame({"r_hat": [1.0], "ess_bulk": [size], "ess_tail": [900.0]}, index=["a"])
    check = _mixing_checks(table, 4, 4000, "", "")[1]
    assert check.passed == (size >= 400)
    assert f"size {text}of 16000 draws" in check.text


@pytest.mark.parametrize(("size", "text"), [(0.01003, "1.003%"), (0.0102, "1.02%"), (0.0099, "1.0%"), (0.02, "2.0%")])
def test_run_effects_that_are_too_large_do_not_look_small_enough(size: float, text: str) -> None:
    check = run_effect_check(np.full((1, 4), size))
    assert check.passed == (size <= 0.01)
    assert check.text.startswith(f"runs lie {text} around the law")


def test_a_failed_energy_does_not_look_like_a_passed_one(draws: dict[str, Array], rng: np.random.Generator) -> None:
    slow = lfilter([1.0], [1.0, -0.85138569], np.random.default_rng(0).standard_normal((1, 2000)))
    (check,) = (check for check in sampler_checks(draws, *stats(rng, energy=slow)) if check.name == "e_bfmi")
    assert not check.passed
    assert "E-BFMI 0.30" not in check.text, check.text
