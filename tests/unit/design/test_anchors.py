"""Chosen runs: gains against exact linear-normal answers, choices that a naive search gets wrong, and their description."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.intervals import quantiles
from bayeslaw.design.anchors import Anchors, anchors
from bayeslaw.design.candidates import Candidates
from bayeslaw.design.search import Market, choose
from bayeslaw.forecasting.stack import Stack
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import line_fit, stand_in_fit
from tests.oracles import Array
from tests.posteriors import law_named
from tests.purchases import TARGETS, curvature, drawn, logarithmic, pool


@pytest.fixture(scope="module")
def fit() -> Fit:
    return drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)


def variances_left(fit: Fit, runs: list[pd.DataFrame], targets: Array) -> Array:
    """Exact variances of log losses at targets once runs are made, for a normal posterior."""
    centred = np.stack([fit.draws[n] - fit.draws[n].mean() for n in "abc"])
    information = np.linalg.inv(centred @ centred.T / (centred.shape[1] - 1))
    for run in runs:
        h = curvature(run["x"].to_numpy())
        noise = 0.02**2 * np.eye(len(run)) + 0.01**2
        information += h @ np.linalg.solve(noise, h.T)
    t = curvature(targets)
    return np.asarray((t * np.linalg.solve(information, t)).sum(axis=0))


def test_candidates_that_cost_more_than_the_budget_are_counted(fit: Fit) -> None:
    candidates = pool(12)
    prices = candidates.groupby("run")["cost"].first()
    budget = float(prices.sort_values().iloc[3])  # buys the fourth, to the last digit
    (note,) = [
        note for note in anchors(fit, candidates, TARGETS, budget=budget, cost="cost").notes if "more than the budget" in note
    ]
    assert note.startswith("8 of 12 candidates")
    assert f"{prices[prices > budget].min():.4g}" in note
    enough = anchors(fit, candidates, TARGETS, budget=float(prices.max()), cost="cost")
    assert not any("more than the budget" in note for note in enough.notes)


def test_a_budget_that_equals_a_price_but_for_rounding_buys_the_run(fit: Fit) -> None:
    candidates = pool(2).assign(cost=np.repeat([3 * 0.1, 5.0], 3))
    assert anchors(fit, candidates, TARGETS, budget=0.3, cost="cost").picks["run"].tolist() == ["c0"]


def test_random_designs_end_where_the_rest_of_the_budget_buys_nothing(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    choice, looked = anchors(fit, pool(4), TARGETS, budget=10.0, cost="cost", replicates=1000), list[int]()
    unpaid = Candidates.unpaid

    def counted(self: Candidates, picks: Sequence[int]) -> Array:
        looked.append(len(picks))
        return unpaid(self, picks)

    monkeypatch.setattr(Candidates, "unpaid", counted)
    assert all(choice.market.bill(picks) <= 10 * (1 + 1e-9) for picks in choice.random_designs(3))
    assert len(looked) < 300  # of 12,000


def test_tables_of_a_choice_are_the_callers_own(fit: Fit) -> None:
    choice = anchors(fit, pool(4), TARGETS, budget=10.0, cost="cost")
    for name in ("picks", "curve"):
        table = getattr(choice, name)
        table["spent"] = -1.0
        assert (getattr(choice, name)["spent"] >= 0).all()


def test_targets_that_do_not_vary_have_no_width_and_buy_nothing(fit: Fit) -> None:
    same, margin = np.ones(2000), fit.draws["a"]
    choice = anchors(fit, pool(4), {"same": same, "margin": margin}, budget=20.0, cost="cost")
    alone = anchors(fit, pool(4), {"margin": margin}, budget=20.0, cost="cost")
    assert choice.width(choice.bought) == pytest.approx(alone.width(choice.bought) / 2)  # a mean over both
    with fails("nothing-to-learn"):
        anchors(fit, pool(4).assign(fixed=True), {"same": same}, budget=200.0, cost="cost")


# --- gains and budgets ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_gains_and_remaining_variances_are_exact_for_a_linear_law_with_normal_noise(fit: Fit) -> None:
    candidates = pool(12)
    made = anchors(fit, candidates, TARGETS, budget=20.0, cost="cost")
    ensemble, runs = made.market.ensemble, [group for _, group in candidates.groupby("run", sort=False)]
    at = TARGETS["x"].to_numpy()
    before = variances_left(fit, [], at)
    for code, run in enumerate(runs):
        expected = float((before - variances_left(fit, [run], at)).mean())
        assert ensemble.gains(np.eye(ensemble.rank), made.market.weights)[code] == pytest.approx(expected, rel=1e-8)
    bought = variances_left(fit, [runs[code] for code in made.bought], at)
    np.testing.assert_allclose(ensemble.variances(ensemble.covariance(made.bought)), bought, rtol=1e-8)
    step = np.eye(ensemble.rank)
    for code in made.bought:
        step = ensemble.after(step, code)
    np.testing.assert_allclose(ensemble.variances(step), bought, rtol=1e-8)


@pytest.mark.slow
def test_picks_list_gain_width_and_money_spent_after_each(fit: Fit) -> None:
    candidates = pool(12)
    made = anchors(fit, candidates, TARGETS, budget=20.0, cost="cost")
    runs, at = dict(list(candidates.groupby("run"))), TARGETS["x"].to_numpy()
    before, picks = variances_left(fit, [], at), made.picks
    for i in range(1, len(picks) + 1):
        now, was = (variances_left(fit, [runs[name] for name in picks["run"][:k]], at) for k in (i, i - 1))
        assert picks["gain"].iloc[i - 1] == pytest.approx((was - now).sum() / before.sum(), rel=1e-6)
        width = (made.targets.widths * np.sqrt(now / before)).mean()
        assert picks["latent_eti90_width"].iloc[i - 1] == pytest.approx(width, rel=1e-6)
    prices = candidates.drop_duplicates("run").set_index("run")["cost"]
    np.testing.assert_allclose(picks["spent"], prices[picks["run"]].cumsum())
    assert picks["spent"].iloc[-1] <= 20.0


@pytest.mark.slow
def test_variances_of_targets_are_weighted(fit: Fit) -> None:
    candidates, at = pool(12), TARGETS["x"].to_numpy()
    made = anchors(fit, candidates, TARGETS.assign(weight=[3.0, 1.0]), budget=20.0, cost="cost")
    value = made.market.value(np.eye(made.market.ensemble.rank))
    assert value == pytest.approx(float(variances_left(fit, [], at) @ [0.75, 0.25]), rel=1e-8)
    alone = anchors(fit, candidates, TARGETS.assign(weight=[0.0, 2.0]), budget=20.0, cost="cost")
    assert alone.width([]) == pytest.approx(anchors(fit, candidates, TARGETS.tail(1), budget=20.0, cost="cost").width([]))


@pytest.mark.slow
def test_draws_of_any_quantity_can_be_targets(fit: Fit) -> None:
    """The margin of a constraint, such as loss minus a limit: log losses of the same draws give the same picks."""
    candidates = pool(12)
    logs = fit.draws["a"] + 4 * fit.draws["b"] + 16 * fit.draws["c"]
    made = anchors(fit, candidates, {"margin": logs - 3.0}, budget=20.0, cost="cost")
    same = anchors(fit, candidates, TARGETS.head(1), budget=20.0, cost="cost")
    assert made.bought == same.bought
    assert made.width_name == "target_eti90_width"
    assert made.width(()) == pytest.approx(np.diff(np.quantile(logs, [0.05, 0.95]))[0])
    two = anchors(fit, candidates, {"margin": logs, "half": logs / 2}, budget=20.0, cost="cost")
    assert two.width(()) == pytest.approx(0.75 * made.width(()))  # the mean of both
    with fails("nothing-to-learn"):
        anchors(fit, candidates, {"one": np.ones_like(logs)}, budget=20.0, cost="cost")


@pytest.mark.slow
def test_settings_can_be_given_as_for_a_grid(fit: Fit) -> None:
    by_value = anchors(fit, pool(12), {"x": TARGETS["x"].to_numpy()}, budget=20.0, cost="cost")
    by_table = anchors(fit, pool(12), TARGETS[["x"]], budget=20.0, cost="cost")
    assert by_value.bought == by_table.bought
    np.testing.assert_array_equal(by_value.targets.draws, by_table.targets.draws)
    named = anchors(fit, pool(12), {"x": fit.draws["a"]}, budget=20.0, cost="cost")  # as many values as draws are draws
    np.testing.assert_array_equal(named.targets.draws[:, 0], fit.draws["a"])
    with fails("unknown-covariate", "'y'"):
        anchors(fit, pool(12), {"x": 1.0, "y": 2.0}, budget=20.0, cost="cost")


@pytest.mark.slow
def test_two_fits_learn_from_the_losses_that_one_run_logs_for_each(fit: Fit) -> None:
    """By the joint covariance of both fits' draws, as they are paired, with the noise of each fit."""
    other = drawn({"a": 0.2, "b": 0.1, "c": 0.1}, 1, sigma_point=0.05, sigma_run=0.03)
    candidates, h = pool(8), curvature(TARGETS["x"].to_numpy())
    made = anchors([fit, other], candidates, TARGETS, budget=10.0, cost="cost")
    runs = [group for _, group in candidates.groupby("run", sort=False)]
    information = np.linalg.inv(np.cov([one.draws[name] for one in (fit, other) for name in "abc"]))
    for code in made.bought:
        at = curvature(runs[code]["x"].to_numpy())
        for half, (point, run) in zip((slice(0, 3), slice(3, 6)), ((0.02, 0.01), (0.05, 0.03)), strict=True):
            information[half, half] += at @ np.linalg.solve(point**2 * np.eye(3) + run**2, at.T)
    left = np.linalg.inv(information)
    expected = np.concatenate([(h * (left[half, half] @ h)).sum(axis=0) for half in (slice(0, 3), slice(3, 6))])
    np.testing.assert_allclose(made.market.ensemble.variances(made.market.ensemble.covariance(made.bought)), expected, rtol=1e-6)
    assert len(made.targets.names) == 4


@pytest.mark.slow
def test_noise_under_a_stack_is_that_of_its_fits_by_their_shares_of_the_draws(fit: Fit) -> None:
    other = drawn({"a": 0.2, "b": 0.1, "c": 0.1}, 1, sigma_point=0.06, sigma_run=0.03)
    stack, candidates = Stack({"one": fit, "two": other}, {"one": 0.75, "two": 0.25}), pool(6)
    ensemble = anchors(stack, candidates, TARGETS, budget=20.0, cost="cost").market.ensemble
    draws = [np.concatenate([member.draws[name][chosen] for member, chosen in stack.selections]) for name in "abc"]
    before, h = np.cov(draws), curvature(TARGETS["x"].to_numpy())
    point, run = (0.75 * a**2 + 0.25 * b**2 for a, b in ((0.02, 0.06), (0.01, 0.03)))
    expected = []
    for _, rows in candidates.groupby("run", sort=False):
        at = curvature(rows["x"].to_numpy())
        after = np.linalg.inv(np.linalg.inv(before) + at @ np.linalg.solve(point * np.eye(3) + run, at.T))
        expected.append((h * ((before - after) @ h)).sum(axis=0).mean())
    np.testing.assert_allclose(ensemble.gains(np.eye(ensemble.rank), np.full(2, 0.5)), expected, rtol=1e-6)


@pytest.mark.slow
def test_what_few_probes_leave_out_of_the_basis_counts_as_noise_and_in_the_targets(
    fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gains of runs with one row are exact, whatever rows span the basis, since the targets are in it."""
    monkeypatch.setattr("bayeslaw.design.information.PROBES", 1)
    candidates = pool(6, points=1)
    made = anchors(fit, candidates, TARGETS.head(1), budget=20.0, cost="cost")
    ensemble, at = made.market.ensemble, TARGETS["x"].to_numpy()[:1]
    assert ensemble.rank == 2  # of the target and the probe, where the law has three parameters
    before = variances_left(fit, [], at)
    expected = [(before - variances_left(fit, [candidates.iloc[[i]]], at)).mean() for i in range(6)]
    np.testing.assert_allclose(ensemble.gains(np.eye(ensemble.rank), made.market.weights), expected, rtol=1e-8)
    near = pd.DataFrame({"x": [4.0, 4.001]})  # they differ by less than the basis resolves beside the noise of points
    noisy = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=5.0, sigma_run=0.01)
    wide = anchors(noisy, candidates, near, budget=20.0, cost="cost").market.ensemble
    assert (wide.outside > 0).any()
    np.testing.assert_allclose(wide.variances(np.eye(wide.rank)), variances_left(fit, [], near["x"].to_numpy()), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 12])  # by exchanges alone the second one with prices of checkpoints is 14% worse
@pytest.mark.parametrize("priced", [False, True])
def test_choices_among_few_candidates_are_the_best_of_all_designs(fit: Fit, seed: int, priced: bool) -> None:
    candidates = pool(9, seed, points=2)
    if priced:
        rng = np.random.default_rng(seed)
        of = rng.integers(0, 3, 9)
        candidates["checkpoint"] = np.repeat([f"k{i}" for i in of], 2)
        candidates["checkpoint_cost"] = np.repeat(np.array([0.0, 4.0, 8.0])[of], 2)
    made = anchors(fit, candidates, TARGETS, budget=12.0, cost="cost")
    market, best = made.market, np.inf
    for count in range(10):
        for picks in itertools.combinations(range(9), count):
            if market.bill(picks) <= 12.0:
                best = min(best, market.value(market.ensemble.covariance(picks)))
    assert market.bill(made.bought) <= 12.0
    assert market.value(market.ensemble.covariance(made.bought)) == pytest.approx(best, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1.3, 3.3, 17.0])
def test_never_over_budget(fit: Fit, budget: float) -> None:
    made = anchors(fit, pool(20, 3), TARGETS, budget=budget, cost="cost", replicates=2, rounds=2)
    assert 0 < made.spent <= budget
    assert made.spent == pytest.approx(made.picks["cost"].sum())
    assert np.bincount(made.bought).max() <= 2
    assert (np.diff(made.rounds) >= 0).all()
    for picks in made.random_designs(20):
        assert made.market.bill(picks) <= budget * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e12])
def test_the_unit_of_a_target_does_not_matter(fit: Fit, unit: float) -> None:
    """A target in tokens is 10^12 times as wide as the curves."""
    goal = fit.draws["a"] + 4 * fit.draws["b"] + 16 * fit.draws["c"]
    one, other = (anchors(fit, pool(12), {"goal": k * goal}, budget=20.0, cost="cost") for k in (1.0, unit))
    assert other.bought == one.bought
    np.testing.assert_allclose(other.picks["gain"], one.picks["gain"], rtol=1e-6)


# --- choices that a naive search gets wrong --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_checkpoint_paid_for_is_shared() -> None:
    """Twelve equal runs, each from a checkpoint of its own or from a common one, which is paid once: the picks share it."""
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)
    frame = pd.concat([
        pd.DataFrame({"run": f"{place}{i}", "x": [1.0 + 0.1 * i + (0.4 if place == "shared" else 0.5), 2.0 + 0.05 * i], "cost": 1.0,
                      "checkpoint": place if place == "shared" else f"{place}{i}", "checkpoint_cost": 5.0})
        for i in range(6) for place in ("shared", "own")
    ], ignore_index=True)  # fmt: skip
    made = anchors(fit, frame, TARGETS, budget=11.0, cost="cost")
    assert all(name.startswith("shared") for name in made.picks["run"])
    assert len(made.picks) == 6
    assert made.picks["checkpoint_cost"].tolist() == [5.0] + [0.0] * 5
    assert made.spent == pytest.approx(11.0)
    # Without prices of checkpoints the choice is among all of them, by gain alone.
    naive = anchors(fit, frame, TARGETS, budget=11.0, cost="cost", checkpoint_cost="0")
    assert not all(name.startswith("shared") for name in naive.picks["run"])


def equal_runs(x: float, sigma_run: float) -> Anchors:
    """Eight equal runs of one checkpoint that costs ten times as much as all of them."""
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=sigma_run)
    frame = pd.DataFrame({"run": list("abcdefgh"), "x": x, "cost": 1.0, "checkpoint": "one", "checkpoint_cost": 80.0})
    return anchors(fit, frame, TARGETS.head(1), budget=88.0, cost="cost")


@pytest.mark.slow
def test_the_run_that_pays_for_a_checkpoint_is_judged_with_those_that_need_it() -> None:
    """By its own bill the first alone would not be worth its price."""
    made = equal_runs(4.0, 3.0)
    assert 88 / 81 * np.log(made.width([]) / made.width(made.bought[:1])) < -np.log(0.9)
    assert made.picks["worth"].all()
    assert made.stop is None


@pytest.mark.slow
@pytest.mark.parametrize("x", [-1.0, 2.0])
def test_purchases_are_worth_their_price_until_no_number_of_further_ones_is(x: float) -> None:
    """All ends are tried: after the last worthwhile purchase the rate of any number of further ones is too low."""
    made = equal_runs(x, 0.05)
    widths = [np.log(made.width(made.bought[:i])) for i in range(9)]
    spent = [0.0, *made.picks["spent"]]
    enough = np.array(
        [[88 * (widths[i] - widths[j]) / (spent[j] - spent[i] + 1e-300) >= -np.log(0.9) for j in range(9)] for i in range(9)]
    )
    stops = [i for i in range(9) if not enough[i, i + 1 :].any() and (enough[:i, i].all() or i == 0)]
    last = 8 if made.stop is None else made.stop
    assert stops == [last]
    assert made.picks["worth"].tolist() == [i < last for i in range(8)]
    assert ("are not worth their price" in made.text) == (made.stop is not None)


@pytest.mark.slow
def test_an_expensive_checkpoint_is_bought_if_several_runs_together_are_worth_it() -> None:
    """One run is not worth the checkpoint near the target, four are; a greedy choice run by run never buys it."""
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.05, sigma_run=0.001)
    near = [
        pd.DataFrame({"run": f"near{i}", "x": [3.8 + 0.1 * i], "cost": 0.5, "checkpoint": "new", "checkpoint_cost": 6.0})
        for i in range(8)
    ]
    far = [
        pd.DataFrame({"run": f"far{i}", "x": [0.2 + 0.1 * i], "cost": 2.0, "checkpoint": "old", "checkpoint_cost": 0.0})
        for i in range(8)
    ]
    made = anchors(fit, pd.concat(near + far, ignore_index=True), TARGETS.head(1), budget=10.0, cost="cost")
    assert made.picks["run"].str.startswith("near").all()
    assert len(made.picks) == 8


@pytest.mark.slow
def test_with_large_run_effects_many_runs_are_better_than_many_points() -> None:
    """Long curves of many points against short runs of two points, which inform almost as much if run effects are large."""
    long = [pd.DataFrame({"run": f"long{i}", "x": np.linspace(2, 3, 12), "cost": 6.0}) for i in range(3)]
    short = [pd.DataFrame({"run": f"short{i}", "x": [2.0, 3.0], "cost": 1.0}) for i in range(12)]
    frame = pd.concat(long + short, ignore_index=True)
    small, large = (
        anchors(
            drawn({"a": 0.1, "b": 0.02, "c": 0.001}, sigma_point=point, sigma_run=run), frame, TARGETS, budget=12.0, cost="cost"
        )
        for point, run in ((0.03, 1e-4), (0.03, 0.1))
    )
    rows = {name: len(made.rows()) / len(made.bought) for name, made in (("small", small), ("large", large))}
    assert (len(large.bought), rows["large"]) == (12, 2.0)
    # Without run effects all points count the same, and 12 points for 6 are as good as 2 for 1.
    alone = large.market.ensemble.gains(np.eye(large.market.ensemble.rank), large.market.weights)
    price = large.candidates.cost
    assert (alone / price)[:3].max() < 0.5 * (alone / price)[3:].max()
    alone = small.market.ensemble.gains(np.eye(small.market.ensemble.rank), small.market.weights)
    assert (alone)[:3].max() > 1.02 * alone[3:].max()


@pytest.mark.slow
def test_with_a_discrepancy_runs_are_bought_near_the_target() -> None:
    """Runs elsewhere inform the parameters, but not the error of the law at the target."""
    fit = logarithmic(0)
    frame = pd.DataFrame({"run": [f"c{i}" for i in range(20)], "x": np.geomspace(1e3, 1e8, 20), "cost": np.geomspace(1, 8, 20)})
    target = pd.DataFrame({"x": [3e8]})
    sure, doubtful = (anchors(fit, frame, target, budget=16.0, cost="cost", discrepancy=sd) for sd in (None, "2%"))
    nearest = [made.candidates.rows["x"].to_numpy()[list(made.bought)].max() for made in (sure, doubtful)]
    assert doubtful.width_name == "discrepancy2%_eti90_width"
    assert doubtful.picks["x"].max() == nearest[1] == frame["x"].max()
    assert doubtful.picks["gain"].sum() < sure.picks["gain"].sum()
    with fails("not-a-discrepancy", "200%"):
        anchors(fit, frame, target, budget=20.0, cost="cost", discrepancy="200%")


@pytest.mark.slow
def test_widths_with_errors_of_the_law_are_said_to_be_without_noise() -> None:
    """The interval of a forecast that is called so has the noise of a run besides."""
    noisy = drawn({"a": 0.005, "b": 1e-4, "c": 1e-5}, sigma_point=0.02, sigma_run=0.02)
    stated, latent = (anchors(noisy, pool(4), TARGETS, budget=20.0, cost="cost", discrepancy=d) for d in ("1%", "none"))
    _, low, high = quantiles(np.exp(stated.targets.draws), 0.9, axis=0)
    assert stated.width([]) == pytest.approx((high - low).mean())
    predicted = noisy.forecast(TARGETS, discrepancy="1%").summary()
    assert stated.width([]) < 0.6 * (predicted["discrepancy1%_eti90_ub"] - predicted["discrepancy1%_eti90_lb"]).mean()
    assert any("noise of a run" in note for note in stated.notes)
    assert not any("noise of a run" in note for note in latent.notes)


@pytest.mark.slow
def test_beyond_the_runs_the_learnt_error_counts(sound_fit: Fit) -> None:
    """The gains are those of a regression of the target's draws on the candidates', both with errors of the law."""
    frame = pd.DataFrame({"run": ["near", "far"], "N": [2e9, 1e7], "D": [5e10, 2e8], "cost": 1.0})
    target = pd.DataFrame({"N": [1e10, 1e8], "D": [2e11, 1e9]})  # the second lies inside, and has the error too
    learnt, exact = (anchors(sound_fit, frame, target, budget=2.0, cost="cost", discrepancy=d) for d in (None, "none"))
    assert (learnt.width_name, exact.width_name) == ("extrapolated_eti90_width", "latent_eti90_width")
    assert learnt.width([]) > 1.5 * exact.width([])
    forecast = sound_fit.forecast(pd.concat([frame, target])).with_errors
    *candidates, beyond, inside_them = np.log(forecast.expected(slice(None)))
    (member,) = forecast.members
    assert member.errors is not None
    variances = member.fit.noise.variances(member.values)
    noise = sum(float(v.mean()) for v in variances)
    both = (beyond, inside_them)
    explained = [sum(np.cov(x, y)[0, 1] ** 2 for y in both) / (x.var(ddof=1) + noise) for x in candidates]
    shares = np.array(explained) / sum(y.var(ddof=1) for y in both)
    np.testing.assert_allclose([learnt.explain(name)["gain"] for name in frame["run"]], shares, rtol=1e-3)
    assert not any("state a discrepancy" in note for note in learnt.notes)
    inside = anchors(sound_fit, frame, pd.DataFrame({"N": [1e8], "D": [1e9]}), budget=2.0, cost="cost")
    assert inside.width_name == "latent_eti90_width"


@pytest.mark.slow
def test_parameters_that_runs_inform_are_of_the_same_draws_as_the_losses() -> None:
    """Losses and parameters of two posteriors are independent: 14 directions would have some 14 / 1,000 of the variance."""
    fit = stand_in_fit("chinchilla", oracles.table(law_named("chinchilla")))
    rows = [(n, d) for n in (1e7, 1e8, 1e9) for d in np.geomspace(2e8, 1e10, 4)]
    frame = pd.DataFrame({"run": [f"r{i}" for i in range(12)], "cost": 1.0}).join(pd.DataFrame(rows, columns=["N", "D"]))
    made = anchors(fit, frame, pd.DataFrame({"N": [1e10], "D": [2e11]}), budget=2.0, cost="cost", force=True)
    assert made.width_name == "extrapolated_eti90_width"
    assert made.parameters["E"] @ made.parameters["E"] > 0.1


@pytest.mark.slow
def test_a_discrepancy_that_a_run_measures_is_that_of_the_target_under_each_fit() -> None:
    one, other = logarithmic(0), logarithmic(1)
    at = pd.DataFrame({"x": [3e8]})
    made = anchors([one, other], at.assign(run="a", cost=1.0), at, budget=1.0, cost="cost", discrepancy="2%")
    ensemble = made.market.ensemble
    before = ensemble.variances(np.eye(ensemble.rank))
    noise = 0.002**2 + 0.001**2
    np.testing.assert_allclose(ensemble.variances(ensemble.covariance([0])), 1 / (1 / before + 1 / noise), rtol=0.05)
    assert (before > 0.02**2).all()


@pytest.mark.slow
def test_known_errors_of_candidates_and_the_order_of_their_rows_in_time_count() -> None:
    """For one run of one row, and for an OU run effect, whose correlation is exp(-t / length) at a distance t."""
    targets, frame = pd.DataFrame({"x": [3.0]}), pd.DataFrame({"run": "new", "x": [2.0], "cost": 1.0})
    fit = line_fit(point=0.01, run=0.01)
    covariance = np.cov([fit.draws[name] for name in "abc"])
    median = float(np.median(np.exp(curvature(2.0) @ np.array([fit.draws[name] for name in "abc"]))))
    t = curvature(targets["x"].to_numpy())

    def left(h: Array, noise: Array) -> float:
        return float((t.T @ np.linalg.inv(np.linalg.inv(covariance) + h @ np.linalg.solve(noise, h.T)) @ t).item())

    made = anchors(fit, frame.assign(loss_se=0.03 * median), targets, budget=1.0, cost="cost").market.ensemble
    expected = left(curvature([2.0]), np.array([[0.01**2 + 0.01**2 + 0.03**2]]))
    assert made.variances(made.covariance([0])).item() == pytest.approx(expected, rel=1e-6)
    drifting = line_fit(noise="normal-drift", point=0.01, run=0.02)
    x, steps = np.array([1.0, 2.0, 2.5]), np.array([100.0, 200.0, 400.0])
    curve = pd.DataFrame({"run": "new", "x": x, "step": steps, "cost": 1.0})
    made = anchors(drifting, curve, targets, budget=1.0, cost="cost").market.ensemble
    time = steps / drifting.observed.span
    noise = 0.02**2 * np.exp(-np.abs(time[:, None] - time) / 0.5) + 0.01**2 * np.eye(3)
    assert made.variances(made.covariance([0])).item() == pytest.approx(left(curvature(x), noise), rel=1e-6)


@pytest.mark.slow
def test_discrepancies_of_two_laws_are_independent() -> None:
    """Also where both fits had the same seed."""
    one, other = logarithmic(0), logarithmic(1)
    target = pd.DataFrame({"x": [3e8]})
    frame = pd.DataFrame({"run": ["a"], "x": [1e8], "cost": [1.0]})
    both = anchors([one, other], frame, target, budget=1.0, cost="cost", discrepancy="2%").targets.draws
    assert abs(np.asarray(np.corrcoef(both.T))[0, 1]) < 4 / np.sqrt(len(both))


# --- description of a choice ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(fit: Fit) -> Anchors:
    return anchors(fit, pool(12), TARGETS, budget=20.0, cost="cost", rounds=2, seed=3)


@pytest.mark.slow
def test_the_curve_has_all_designs_and_ends_within_the_budget(made: Anchors) -> None:
    curve = made.curve
    assert set(curve["design"]) == {"chosen", "smallest size", "random"}
    assert (curve["spent"] <= 20.0 * (1 + 1e-9)).all()
    assert curve.groupby(["design", "number"])["variance"].first().eq(1.0).all()
    assert (curve.groupby(["design", "number"])["variance"].diff().dropna() <= 1e-12).all()
    ends = curve.groupby(["design", "number"])["variance"].last()
    assert ends["chosen", 0] <= ends.loc["random"].min() * (1 + 1e-9)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(fit: Fit, made: Anchors) -> None:
    again = anchors(fit, pool(12), TARGETS, budget=20.0, cost="cost", rounds=2, seed=3)
    assert made.random_designs(5) == again.random_designs(5)
    pd.testing.assert_frame_equal(made.picks, again.picks)


@pytest.mark.slow
def test_the_text_summarises_a_choice(made: Anchors) -> None:
    lines = made.text.splitlines()
    assert lines[0].startswith(f"{len(made.bought)} runs for ")
    assert lines[1].startswith("latent_eti90_width: ")
    assert made.rounds[-1] == 2
    assert "bayeslaw update" in lines[-1]


@pytest.mark.slow
def test_the_stop_is_after_the_last_purchase_worth_its_price(fit: Fit) -> None:
    costly = pool(8, 6).assign(run=lambda t: "costly " + t["run"], cost=lambda t: 30 * t["cost"])
    made = anchors(fit, pd.concat([pool(10, 5), costly], ignore_index=True), TARGETS, budget=500.0, cost="cost")
    worth = made.picks["worth"].tolist()
    assert made.stop is not None
    assert not any(worth[made.stop :])
    assert worth[made.stop - 1]


@pytest.mark.slow
def test_informs_lists_the_parameters_whose_sd_narrows() -> None:
    fit = drawn({"a": 0.1, "b": 0.3, "c": 1e-6}, sigma_point=0.01, sigma_run=0.001)
    frame = pd.DataFrame({"run": ["slope", "slope", "level"], "x": [-3.0, 3.0, 0.0], "cost": 1.0})
    made = anchors(fit, frame, pd.DataFrame({"x": [5.0]}), budget=1.0, cost="cost")
    assert made.picks["informs"].iloc[0].startswith("b -9")
    assert made.explain("level")["informs"].startswith("a -9")
    known = anchors(
        drawn({"a": 0.1, "b": 0.3, "c": 0.0}, sigma_point=0.01, sigma_run=0.001), frame, TARGETS, budget=1.0, cost="cost"
    )
    assert "c" not in known.parameters


def test_one_candidate_can_be_explained(made: Anchors) -> None:
    first = made.picks["run"].iloc[0]
    explained = made.explain(first)
    assert explained["chosen"]
    assert explained["rank"].endswith("of 12 by gain for its price")
    with fails("unknown-candidate", "'c99'"):
        made.explain("c99")


@pytest.mark.slow
def test_a_candidate_is_explained_by_what_it_gains_alone_and_after_the_others(fit: Fit) -> None:
    candidates = pool(8)
    candidates["checkpoint"] = np.repeat(["old", "new"], 12)
    candidates["checkpoint_cost"] = np.repeat([0.0, 3.0], 12)
    made, at = anchors(fit, candidates, TARGETS, budget=15.0, cost="cost"), TARGETS["x"].to_numpy()
    runs = {str(name): rows for name, rows in candidates.groupby("run")}
    before = variances_left(fit, [], at).sum()
    gains = {name: 1 - variances_left(fit, [rows], at).sum() / before for name, rows in runs.items()}
    rates = {name: gains[name] / (rows["cost"].iloc[0] + rows["checkpoint_cost"].iloc[0]) for name, rows in runs.items()}
    bought = made.picks["run"].tolist()
    for name in runs:
        told = made.explain(name)
        assert told["gain"] == pytest.approx(gains[name], rel=1e-6)
        assert told["rank"] == f"{1 + sum(rate > rates[name] for rate in rates.values())} of 8 by gain for its price"
        assert (told["cost"], told["checkpoint_cost"]) == tuple(runs[name][["cost", "checkpoint_cost"]].iloc[0])
        others = [runs[other] for other in bought if other != name]
        after = (variances_left(fit, others, at).sum() - variances_left(fit, [*others, runs[name]], at).sum()) / before
        assert told["gain_after_the_other_picks"] == pytest.approx(after, rel=1e-6)
        assert told["chosen"] == (name in bought)


@pytest.mark.slow
def test_random_designs_spend_the_budget_and_no_more(fit: Fit) -> None:
    """Fixed runs and checkpoints that must be trained are paid from it, and nothing else could be bought from what is left."""
    candidates = pool(9).assign(fixed=lambda t: t["run"] == "c4")
    candidates["checkpoint"] = np.repeat([f"k{i // 2}" for i in range(9)], 3)
    candidates["checkpoint_cost"] = np.repeat([2.0 * (i // 2) for i in range(9)], 3)
    made = anchors(fit, candidates, TARGETS, budget=14.0, cost="cost")
    price = candidates.drop_duplicates("run").set_index("run")[["cost", "checkpoint", "checkpoint_cost"]]

    def bill(names: list[str]) -> float:
        bought = price.loc[names]
        return float(bought["cost"].sum() + bought.drop_duplicates("checkpoint")["checkpoint_cost"].sum())

    for picks in made.random_designs(20):
        names = [made.candidates.names[run] for run in picks]
        assert names[0] == "c4"
        assert len({*names}) == len(names)
        assert bill(names) <= 14.0
        assert all(bill([*names, other]) > 14.0 for other in price.index if other not in names)


@pytest.mark.slow
def test_fixed_runs_are_bought_first_and_runs_of_the_fit_are_left_out(fit: Fit) -> None:
    frame = pool(12)
    frame["fixed"] = frame["run"] == "c7"
    made = anchors(fit, frame, TARGETS, budget=20.0, cost="cost")
    assert made.picks["run"].iloc[0] == "c7"
    logged = pd.concat([frame, pd.DataFrame({"run": ["p"], "x": [0.0], "cost": [1.0], "fixed": [False]})], ignore_index=True)
    once = anchors(fit, frame.assign(fixed=frame.index == frame.index[frame["run"] == "c7"][0]), TARGETS, budget=20.0, cost="cost")
    assert once.picks["run"].tolist() == made.picks["run"].tolist()  # marked in one of its rows
    again = anchors(fit, logged, TARGETS, budget=20.0, cost="cost")
    assert "p" not in again.candidates.names
    assert again.notes[0].startswith("1 candidate left out")
    assert again.picks["run"].tolist() == made.picks["run"].tolist()
    marked = anchors(fit, frame.assign(fixed=frame["fixed"].map({True: "yes", False: None})), TARGETS, budget=20.0, cost="cost")
    assert marked.picks["run"].tolist() == made.picks["run"].tolist()


@pytest.mark.slow
def test_a_law_that_misses_its_own_runs_is_noted(fit: Fit) -> None:
    assert any(
        note.startswith("line misses its own runs by 2.0%")
        for note in anchors(fit, pool(4), TARGETS, budget=20.0, cost="cost").notes
    )
    stated = anchors(fit, pool(4), TARGETS, budget=20.0, cost="cost", discrepancy="2%").notes
    assert not any("misses" in note for note in stated)
    calm = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.005, sigma_run=0.01)
    assert not anchors(calm, pool(4), TARGETS, budget=20.0, cost="cost").notes


@pytest.mark.slow
def test_replicates_take_no_other_candidates_name(fit: Fit) -> None:
    candidates = pool(2).replace({"run": {"c1": "c0#2"}})
    choice = anchors(fit, candidates, TARGETS, budget=1e9, cost="cost", replicates=2)
    assert choice.rows().groupby("run")["x"].size().to_dict() == {"c0": 3, "c0#2": 3, "c0#3": 3, "c0#2#2": 3}


def test_replicates_have_ids_of_their_own(fit: Fit) -> None:
    made = anchors(fit, pool(2), TARGETS, budget=1000.0, cost="cost", replicates=3)
    assert sorted(made.rows()["run"].unique()) == ["c0", "c0#2", "c0#3", "c1", "c1#2", "c1#3"]


@pytest.mark.slow
def test_no_exchange_of_a_single_pick_is_better(fit: Fit) -> None:
    made = anchors(fit, pool(20, 8, points=2), TARGETS, budget=9.0, cost="cost")
    market, least = made.market, made.market.value(made.market.ensemble.covariance(made.bought))
    for out in range(len(made.bought)):
        rest = [run for i, run in enumerate(made.bought) if i != out]
        for other in set(range(20)) - set(rest):
            if market.bill([*rest, other]) <= 9.0:
                assert market.value(market.ensemble.covariance([*rest, other])) >= least * (1 - 1e-9)
    assert isinstance(market, Market)
    assert choose(replace(market, budget=0.0)) == []


@pytest.mark.slow
def test_variances_of_noise_are_those_of_a_normal_with_the_same_information() -> None:
    point, run = line_fit().noise.variances(line_fit().draws)
    assert (point[0], run[0]) == (pytest.approx(1e-4), pytest.approx(1e-4))
    student = line_fit(noise="student")
    assert student.noise.variances(student.draws)[0][0] == pytest.approx(1e-4 * 8 / 6)
    skew = line_fit(noise="skew")
    assert skew.noise.variances(skew.draws)[1][0] == pytest.approx(2e-4)
