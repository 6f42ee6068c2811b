"""Choice of laws for targets: directions, hold-outs and scores by hand, weights against a search and on noise alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bayeslaw.data.table import read_runs
from bayeslaw.evaluation.choice import (
    KEPT,
    OFFSET,
    PRIOR,
    WIDTH,
    HeldOut,
    TargetDirection,
    crps_terms,
    direction_of_targets,
    floor_note,
    groups_of,
    hold_outs,
    nearness,
    quantiles_of,
    shrunk_weights,
    targets_of,
)
from bayeslaw.evaluation.scores import crps
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.laws.card import load_law
from bayeslaw.laws.outcome import Outcome
from tests import oracles, outcomes
from tests.errors import fails, faults
from tests.fixed import line, stand_in_fit

CHINCHILLA, KAPLAN, PTPP, TRANSFER = map(load_law, ("chinchilla", "kaplan", "ptpp-floor", "transfer-target"))
RUNS: dict[str, list[float]] = {"N": [1e8, 1e8, 1e9, 1e9], "D": [1e10, 1e11, 1e10, 2e10]}
NORMAL = norm.ppf((np.arange(KEPT) + 0.5) / KEPT)

# --- targets ---------------------------------------------------------------------------------------------------------


def asked(targets: Mapping[str, Any], runs: Mapping[str, Any] = RUNS, laws: Any = (CHINCHILLA,)) -> TargetDirection:
    return direction_of_targets(read_runs(pd.DataFrame(runs)), read_runs(pd.DataFrame(targets)), laws)


@pytest.mark.parametrize(
    ("targets", "by", "reach"),
    [
        ({"N": [2e9], "D": [2e11]}, "compute", [np.log(20)]),  # both
        ({"N": [1e9], "D": [1e11]}, "compute", [np.log(5)]),  # neither, but no run was as large in both
        ({"N": [1e8], "D": [4e11]}, "compute", [np.log(2)]),  # though tokens alone are farther beyond
        ({"N": [2e9, 1e8], "D": [5e9, 1e10]}, "N", [np.log(2)]),
        ({"N": [1e8], "D": [1.5e11]}, "D", [np.log(1.5)]),
        ({"N": [3e9, 1e8], "D": [5e9, 1.5e11]}, "N", [np.log(3)]),  # by most e-folds
        ({"N": [1e9, 1e8], "D": [2e10, 3e10]}, "", []),
    ],
)
def test_the_direction_in_which_targets_leave_the_runs(targets: dict[str, list[float]], by: str, reach: list[float]) -> None:
    found = asked(targets, {"N": [*RUNS["N"], 5e8], "D": [*RUNS["D"], 1e10]})
    assert (found.by, found.count) == (by, len(targets["N"]))
    np.testing.assert_allclose(found.reach, reach)
    assert by in found.text
    assert ("interpolation" in found.text) == (not by)


def test_stages_are_a_direction_and_shares_and_values_below_the_runs_are_none() -> None:
    runs = RUNS | {"r": [0.1, 0.2, 0.1, 0.2], "ptpp": [20, 20, 40, 40]}
    inside = {"N": [1e9], "D": [2e10], "r": [0.15], "ptpp": [30]}
    assert asked(inside | {"ptpp": [400]}, runs, (PTPP,)).by == "ptpp"
    assert asked(inside | {"D": [2e13], "ptpp": [80]}, runs, (PTPP,)).by == "compute"
    also = asked(inside | {"D": [2e13], "ptpp": [80]}, runs, (CHINCHILLA, PTPP))
    assert also.elsewhere == ("ptpp by 0.69 e-folds",)
    assert "also in ptpp" in also.text
    share = asked(inside | {"r": [0.5], "N": [5e7]}, runs, (PTPP,))
    assert (share.by, set(share.elsewhere)) == ("", {"r by 0.30", "N by 0.69 e-folds"})
    assert "no backtest goes" in share.text
    assert asked(inside | {"ptpp": [400]}, runs, (CHINCHILLA,)).by == ""  # which does not depend on ptpp


def test_a_direction_of_which_the_runs_have_two_values_is_passed_over() -> None:
    runs = RUNS | {"r": [0.1, 0.2, 0.1, 0.2], "ptpp": [20, 20, 40, 40]}
    target = {"N": [1e9], "D": [4e10], "r": [0.15], "ptpp": [400]}
    found = asked(target, runs, (PTPP,))
    assert (found.by, found.elsewhere) == ("compute", ("ptpp by 2.3 e-folds",))
    np.testing.assert_allclose(found.reach, np.log(2))
    assert asked(target, runs | {"ptpp": [10, 20, 40, 40]}, (PTPP,)).by == "ptpp"


def test_a_base_checkpoint_is_no_value_that_a_backtest_cuts_beyond() -> None:
    """Of ptpp there are three values, of tokens two and those of no adaptation."""
    runs = {"N": [1e8] * 4, "D": [0.0, 1e9, 1e10, 1e10], "r": [0.1] * 4, "ptpp": [10, 20, 40, 40]}
    target = {"N": [1e8], "D": [1e12], "r": [0.1], "ptpp": [80]}
    assert asked(target, runs, (TRANSFER,)).by == "ptpp"
    assert asked(target, runs | {"D": [1e8, 1e9, 1e10, 1e10]}, (TRANSFER,)).by == "compute"


def test_runs_that_begin_at_zero_have_nothing_below_them() -> None:
    runs = RUNS | {"D": [0.0, 1e10, 2e10, 3e10], "r": [0.1, 0.2, 0.1, 0.2], "ptpp": [20, 20, 40, 40]}
    found = asked({"N": [1e8], "D": [1e3], "r": [0.1], "ptpp": [20]}, runs, (TRANSFER,))
    assert (found.by, found.elsewhere) == ("", ())


def test_compute_is_logged_only_where_runs_and_targets_both_have_it() -> None:
    runs = RUNS | {"flops": [7e18, 7e19, 7e19, 1.4e20]}
    target = {"N": [2e9], "D": [2e11]}
    assert np.isclose(asked(target, runs).reach.item(), np.log(20))
    assert np.isclose(asked(target | {"flops": [14e20]}, runs).reach.item(), np.log(10))
    along = asked(target, runs).along(read_runs(pd.DataFrame(runs)))
    assert along.tolist() == [6e18, 6e19, 6e19, 1.2e20]


def test_targets_may_be_later_rows_of_the_runs() -> None:
    runs, later = RUNS | {"run": list("abcd")}, {"N": [1e9], "D": [1e12]}
    assert asked(later | {"run": ["d"]}, runs).known
    assert not asked(later | {"run": ["e"]}, runs).known
    assert not asked(later, runs).known


def test_targets_are_a_table_or_values_for_all_laws() -> None:
    laws = (CHINCHILLA, PTPP)
    table = targets_of({"N": "1e9,2e9", "D": 1e11, "r": "0.1", "ptpp": [20, 30]}, laws).frame
    assert len(table) == 4
    assert set(table) == {"N", "D", "r", "ptpp"}
    assert targets_of(table, laws).frame.equals(table)
    apart = targets_of({"x": "1,2", "N": 1e9, "D": 1e10}, (CHINCHILLA, line())).frame
    assert sorted(apart["x"]) == [1, 2]
    with fails("unknown-covariate", "'y'"):
        targets_of({"N": 1e9, "D": 1e10, "y": 1}, laws)
    with fails("missing-covariate", "ptpp"):
        targets_of({"N": 1e9, "D": 1e10, "r": 0.1}, laws)
    with faults(("infinite-at-base", 1, "D")):
        targets_of(pd.DataFrame({"N": [1e9], "D": [0.0]}), (CHINCHILLA, KAPLAN))
    with faults(("missing-column", None, "D")):
        targets_of(pd.DataFrame({"N": [1e9]}), (CHINCHILLA, KAPLAN))


# --- held-out rows ---------------------------------------------------------------------------------------------------

ROWS = pd.DataFrame(
    {
        "cut": [1.0, 1.0, 1.0, 2.0], "row": [1, 2, 3, 3], "run": list("abcc"), "group": [0, 0, 1, 1],
        "near": [1.0, 0.5, 0.25, 0.5], "loss": [2.0, 2.0, 3.0, 3.0],
    }
)  # fmt: skip


def forecasts(*laws: tuple[float, float]) -> dict[str, np.ndarray]:
    """Normal forecasts of ROWS by laws with these relative errors and spreads."""
    loss = ROWS["loss"].to_numpy()[:, None]
    return {f"law {i}": loss * (1 + error + spread * NORMAL) for i, (error, spread) in enumerate(laws)}


def test_rows_count_by_how_much_their_distance_is_like_that_of_the_targets() -> None:
    reach, asked_for = np.array([0.1, 0.5, 1.0, 3.0]), np.array([0.5, 1.0])
    kernel = [np.mean([np.exp(-(np.log((x + OFFSET) / (t + OFFSET)) ** 2) / 2 / WIDTH**2) for t in asked_for]) for x in reach]
    np.testing.assert_allclose(nearness(reach, asked_for), np.array(kernel) / max(kernel))
    assert nearness(reach, np.array([50.0])).argmax() == 3  # farther than any row: the farthest count most
    assert nearness(reach, np.array([50.0]))[2] > 0.2


def test_cuts_groups_and_runs_count_once() -> None:
    assert hold_outs(ROWS) == 1.5  # cuts 1 + .5, groups 1 + .5, runs 1 + .5 + .5
    assert hold_outs(pd.concat([ROWS] * 5)) == 1.5
    assert hold_outs(ROWS.assign(run="a")) == 1.0
    assert hold_outs(ROWS.assign(cut=[1.0, 2.0, 3.0, 4.0], group=range(4), run=list("abcd"))) == 2.25
    assert groups_of(np.array([1.0, 1.05, 2.0, 1e9])).tolist() == [0, 0, 1, 2]


def test_a_group_counts_as_one_row() -> None:
    held = HeldOut(ROWS, forecasts((0.0, 0.01)))
    expected = np.array([1.0 / 2, 0.5 / 2, 0.25, 0.5])
    np.testing.assert_allclose(held.counts, expected / expected.sum())


def test_laws_are_compared_by_weighted_means_and_errors_between_runs() -> None:
    """By hand: runs a, b and c, of which c has two forecasts, as fractions of the variance of a weighted mean of three."""
    by_law = forecasts((0.03, 0.02), (0.0, 0.01))
    held = HeldOut(
        ROWS.assign(row=range(4)), by_law | {"law 0": by_law["law 0"] * np.array([[1.0], [0.99], [1.01], [1.04]])}
    )  # off by 0 to 7%
    w, apart = held.counts, (held.relative["law 0"] - held.relative["law 1"]).to_numpy()
    mean = (w * apart).sum()
    of_run = [w[0] * (apart[0] - mean), w[1] * (apart[1] - mean), w[2] * (apart[2] - mean) + w[3] * (apart[3] - mean)]
    errors = held.errors
    assert apart.std() > 1e-3
    np.testing.assert_allclose(errors["crps"], w @ held.relative.to_numpy())
    np.testing.assert_allclose(errors["crps_diff"], [mean, 0.0], atol=1e-15)
    np.testing.assert_allclose(errors["dse"], [np.sqrt(3 / 2 * np.square(of_run).sum()), 0.0], atol=1e-15)


def test_the_crps_of_weighted_forecasts_is_that_of_their_draws() -> None:
    held = HeldOut(ROWS, forecasts((0.0, 0.01), (0.03, 0.02), (-0.01, 0.002)))
    loss = ROWS["loss"].to_numpy()
    for name, quantiles in held.quantiles.items():
        np.testing.assert_allclose(held.relative[name], crps(loss, quantiles.T) / loss, rtol=1e-9)
    weights = np.array([0.5, 0.3, 0.2])
    linear, quadratic = crps_terms(loss, list(held.quantiles.values()))
    mixed = weights @ linear - weights @ quadratic @ weights / 2
    stacked = held.stacked(dict(zip(held.quantiles, weights, strict=True)))
    assert stacked.shape == (1000, 4)
    np.testing.assert_allclose(mixed, crps(loss, stacked) / loss, rtol=0.01)


def test_errors_of_outcomes_that_are_not_positive_are_in_their_unit() -> None:
    rows = ROWS.assign(gain=[-1.0, 0.0, 2.0, 2.0])
    drawn = rows["gain"].to_numpy()[:, None] + 0.3 + 0.5 * NORMAL
    held = HeldOut(rows, {"law": drawn}, outcomes.law("real").outcome)
    np.testing.assert_allclose(held.relative["law"], crps(rows["gain"].to_numpy(), drawn.T))


def test_quantiles_are_of_the_reported_spread_and_of_that_without_the_error_of_the_law() -> None:
    fit = stand_in_fit("chinchilla", oracles.table(CHINCHILLA), draws=400)
    frame = pd.DataFrame({"N": [1e12], "D": [1e14], "loss": [1.8]})
    predicted = forecast(fit, frame, force=True)
    table = quantiles_of(predicted, frame)
    assert (table.attrs["spread"], len(table.columns)) == ("extrapolated", 2 * KEPT)
    for name, spread in (("reported", "extrapolated"), ("exact", "run")):
        draws = np.sort(predicted.draws[spread].values.ravel())
        at = (np.arange(KEPT) + 0.5) / KEPT * (draws.size - 1)
        np.testing.assert_allclose(table[name].to_numpy()[0], np.interp(at, np.arange(draws.size), draws))


def test_what_laws_differ_by_is_a_part_of_their_errors() -> None:
    """Forecasts of laws that are a factor apart go that part of the way back to those without the errors of the laws."""
    loss, noise, error = ROWS["loss"].to_numpy()[:, None], 0.003, 0.006
    for apart, left in ((0.008, 1 - 0.75 * 0.25 * 0.008**2 / (error**2 * NORMAL.var())), (0.1, 0.0)):
        exact = {f"law {i}": loss * np.exp(i * apart + noise * NORMAL) for i in (0, 1)}
        wider = {f"law {i}": loss * np.exp(i * apart + np.hypot(noise, error) * NORMAL) for i in (0, 1)}
        held = HeldOut(ROWS, wider, exact=exact)
        stacked = held.stacked({"law 0": 0.75, "law 1": 0.25}, in_part=True)
        for draw, law, place in ((0, "law 0", 0), (749, "law 0", KEPT - 1), (750, "law 1", 0), (875, "law 1", KEPT // 2)):
            part = exact[law][:, place] + np.sqrt(left) * (wider[law][:, place] - exact[law][:, place])
            np.testing.assert_allclose(stacked[draw], part, rtol=1e-9)


def test_outcomes_below_zero_are_stacked_on_their_own_scale() -> None:
    """Scores between -1 and 1 have no logarithm."""
    score = Outcome("score", kind="bounded", bounds=(-1.0, 1.0))
    draws = {f"law {i}": -0.4 + 0.1 * i + 0.05 * np.tanh(np.tile(NORMAL, (len(ROWS), 1))) for i in (0, 1)}
    wider = {name: np.clip(own + 0.02 * NORMAL, -0.99, 0.99) for name, own in draws.items()}
    held = HeldOut(ROWS.assign(score=-0.35), wider, score, exact=draws)
    assert np.isfinite(held.stacked({"law 0": 0.5, "law 1": 0.5}, in_part=True)).all()


# --- weights ---------------------------------------------------------------------------------------------------------


def terms(*laws: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Terms of forecasts of one loss by laws with these errors and spreads."""
    linear, quadratic = crps_terms(np.ones(1), [1 + error + spread * NORMAL[None] for error, spread in laws])
    return linear[:, 0], quadratic[0]


def test_weights_are_those_of_a_search() -> None:
    linear, quadratic = terms((0.01, 0.01), (0.03, 0.01))
    grid = np.linspace(0.001, 0.999, 999)
    pairs = np.stack([grid, 1 - grid])
    error = linear @ pairs - np.einsum("kn,kl,ln->n", pairs, quadratic, pairs) / 2
    for count in (0.5, 3.0, 30.0):
        best = grid[np.argmin(count * np.log(error) - PRIOR * np.log(pairs).mean(axis=0))]
        assert shrunk_weights(linear, quadratic, count)[0] == pytest.approx(best, abs=2e-3)


def test_few_hold_outs_leave_weights_near_equal_ones() -> None:
    better = terms((0.0, 0.01), (0.02, 0.01), (0.02, 0.01))
    by_count = [shrunk_weights(*better, count)[0] for count in (1e-6, 1.0, 3.0, 10.0, 100.0)]
    assert by_count[0] == pytest.approx(1 / 3, abs=1e-3)
    assert (np.diff(by_count) > 0).all()
    assert by_count[-1] > 0.95
    same = terms((0.01, 0.01), (0.01, 0.01))
    np.testing.assert_allclose(shrunk_weights(*same, 5.0), 0.5, atol=1e-3)
    assert shrunk_weights(*terms((0.01, 0.01)), 5.0).tolist() == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("spread", [0.1, 1.0])  # of forecasts, over their errors: far too narrow, and right
def test_noise_alone_gives_no_law_all_of_the_weight(count: int, spread: float) -> None:
    """Three equally good laws, each with one error beyond each cut."""
    rng, largest = np.random.default_rng(0), []
    for _ in range(60):
        errors = 0.01 * rng.standard_normal((3, count))
        linear, quadratic = crps_terms(np.ones(count), [1 + e[:, None] + 0.01 * spread * NORMAL for e in errors])
        largest.append(shrunk_weights(linear.mean(axis=1), quadratic.mean(axis=0), count).max())
    assert max(largest) < 0.95
    assert np.median(largest) < 0.6


def test_a_law_without_a_floor_that_has_most_of_the_weight_is_named() -> None:
    laws, errors = {"chinchilla": CHINCHILLA, "kaplan": KAPLAN}, {"chinchilla": 0.02, "kaplan": 0.01}
    note = floor_note({"chinchilla": 0.2, "kaplan": 0.8}, laws, errors, 1.5)
    for words in (
        "kaplan (1.00%) has 80% of the weight and no floor",
        "chinchilla, the best law with one, has 2.00%",
        "1.5 e-folds",
    ):
        assert words in note
    assert "no law with one could be judged" in floor_note({"kaplan": 1.0}, laws, errors, 1.5)
    assert floor_note({"chinchilla": 0.6, "kaplan": 0.4}, laws, errors, 1.5) == ""
