"""Runs to buy: gains against exact linear-normal answers, designs that a naive one gets wrong, and every refusal."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.design.anchors import Anchors, anchors
from bayeslaw.design.search import Market, choose
from bayeslaw.posterior.fit import Fit
from tests.oracles import Array
from tests.purchases import TARGETS, drawn, logarithmic, pool


@pytest.fixture(scope="module")
def fit() -> Fit:
    return drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=0.01)


def shapes(x: Array) -> Array:
    return np.stack([np.ones_like(x), x, x * x])


def left(fit: Fit, runs: list[pd.DataFrame], targets: Array) -> Array:
    """Variances of log losses at targets that are left once runs are made: the exact answer for a normal posterior."""
    centred = np.stack([fit.draws[n] - fit.draws[n].mean() for n in "abc"])
    information = np.linalg.inv(centred @ centred.T / (centred.shape[1] - 1))
    for run in runs:
        h = shapes(run["x"].to_numpy())
        noise = 0.02**2 * np.eye(len(run)) + 0.01**2
        information += h @ np.linalg.solve(noise, h.T)
    t = shapes(targets)
    variances: Array = (t * np.linalg.solve(information, t)).sum(axis=0)
    return variances


# --- what a run tells --------------------------------------------------------------------------------------------------


def test_gains_and_what_is_left_are_exact_for_a_linear_law_with_normal_noise(fit: Fit) -> None:
    candidates = pool(12)
    made = anchors(fit, candidates, TARGETS, budget=20.0, cost="cost")
    ensemble, runs = made.market.ensemble, [group for _, group in candidates.groupby("run", sort=False)]
    at = TARGETS["x"].to_numpy()
    before = left(fit, [], at)
    for code, run in enumerate(runs):
        expected = float((before - left(fit, [run], at)).mean())
        assert ensemble.gains(np.eye(ensemble.rank), made.market.weights)[code] == pytest.approx(expected, rel=1e-8)
    bought = left(fit, [runs[code] for code in made.bought], at)
    np.testing.assert_allclose(ensemble.variances(ensemble.covariance(made.bought)), bought, rtol=1e-8)
    step = np.eye(ensemble.rank)
    for code in made.bought:
        step = ensemble.after(step, code)
    np.testing.assert_allclose(ensemble.variances(step), bought, rtol=1e-8)


def test_picks_say_what_is_left_after_each(fit: Fit) -> None:
    candidates = pool(12)
    made = anchors(fit, candidates, TARGETS, budget=20.0, cost="cost")
    runs, at = dict(list(candidates.groupby("run"))), TARGETS["x"].to_numpy()
    before, picks = left(fit, [], at), made.picks
    for i in range(1, len(picks) + 1):
        now, was = (left(fit, [runs[name] for name in picks["run"][:k]], at) for k in (i, i - 1))
        assert picks["gain"].iloc[i - 1] == pytest.approx((was - now).sum() / before.sum(), rel=1e-6)
        width = (made.targets.widths * np.sqrt(now / before)).mean()
        assert picks["latent_eti90_width"].iloc[i - 1] == pytest.approx(width, rel=1e-6)
    prices = candidates.drop_duplicates("run").set_index("run")["cost"]
    np.testing.assert_allclose(picks["spent"], prices[picks["run"]].cumsum())
    assert picks["spent"].iloc[-1] <= 20.0


def test_weights_of_targets_count(fit: Fit) -> None:
    candidates, at = pool(12), TARGETS["x"].to_numpy()
    made = anchors(fit, candidates, TARGETS.assign(weight=[3.0, 1.0]), budget=20.0, cost="cost")
    value = made.market.value(np.eye(made.market.ensemble.rank))
    assert value == pytest.approx(float(left(fit, [], at) @ [0.75, 0.25]), rel=1e-8)


def test_draws_of_anything_can_be_targets(fit: Fit) -> None:
    """The margin of a promise, such as loss minus a limit: log losses of the same draws give the same picks."""
    candidates = pool(12)
    logs = fit.draws["a"] + 4 * fit.draws["b"] + 16 * fit.draws["c"]
    made = anchors(fit, candidates, {"margin": logs - 3.0}, budget=20.0, cost="cost")
    same = anchors(fit, candidates, TARGETS.head(1), budget=20.0, cost="cost")
    assert made.bought == same.bought
    assert made.width_name == "target_eti90_width"
    assert made.width(()) == pytest.approx(np.diff(np.quantile(logs, [0.05, 0.95]))[0])


def test_two_fits_learn_from_the_losses_that_one_run_logs_for_each(fit: Fit) -> None:
    other = drawn({"a": 0.2, "b": 0.1, "c": 0.1}, 1, sigma_point=0.02, sigma_run=0.01)
    candidates, at = pool(8), TARGETS["x"].to_numpy()
    made = anchors([fit, other], candidates, TARGETS, budget=10.0, cost="cost")
    runs = [group for _, group in candidates.groupby("run", sort=False)]
    bought = [runs[code] for code in made.bought]
    expected = np.concatenate([left(one, bought, at) for one in (fit, other)])
    # draws of the two are paired, and 2,000 draws of independent posteriors are not exactly uncorrelated
    np.testing.assert_allclose(made.market.ensemble.variances(made.market.ensemble.covariance(made.bought)), expected, rtol=0.05)
    assert len(made.target_widths) == 4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("priced", [False, True])
def test_choices_are_within_5_percent_of_the_best_of_all_designs(fit: Fit, seed: int, priced: bool) -> None:
    candidates = pool(11, seed, points=2)
    if priced:
        rng = np.random.default_rng(seed)
        of = rng.integers(0, 3, 11)
        candidates["checkpoint"] = np.repeat([f"k{i}" for i in of], 2)
        candidates["checkpoint_cost"] = np.repeat(np.array([0.0, 4.0, 8.0])[of], 2)
    made = anchors(fit, candidates, TARGETS, budget=12.0, cost="cost")
    market, best = made.market, np.inf
    for count in range(12):
        for picks in itertools.combinations(range(11), count):
            if market.bill(picks) <= 12.0:
                best = min(best, market.value(market.ensemble.covariance(picks)))
    assert market.bill(made.bought) <= 12.0
    assert market.value(market.ensemble.covariance(made.bought)) <= 1.05 * best


@pytest.mark.parametrize("budget", [1.1, 3.3, 17.0, 60.0])
def test_never_over_budget(fit: Fit, budget: float) -> None:
    made = anchors(fit, pool(30, 3), TARGETS, budget=budget, cost="cost", replicates=2, rounds=2)
    assert 0 < made.spent <= budget
    assert made.spent == pytest.approx(made.picks["cost"].sum())
    assert np.bincount(made.bought).max() <= 2
    assert (np.diff(made.rounds) >= 0).all()
    for picks in made.random_designs(20):
        assert made.market.bill(picks) <= budget * (1 + 1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1e12])
def test_the_unit_of_a_target_does_not_matter(fit: Fit, unit: float) -> None:
    """A target in tokens is 10^12 times as wide as the curves."""
    goal = fit.draws["a"] + 4 * fit.draws["b"] + 16 * fit.draws["c"]
    one, other = (anchors(fit, pool(12), {"goal": k * goal}, budget=20.0, cost="cost") for k in (1.0, unit))
    assert other.bought == one.bought
    np.testing.assert_allclose(other.picks["gain"], one.picks["gain"], rtol=1e-6)


# --- what a naive design gets wrong --------------------------------------------------------------------------------------


def test_a_checkpoint_paid_for_is_shared() -> None:
    """Twelve runs alike, each from a checkpoint of its own or from one: a fixed price is paid once, so the picks share it."""
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
    # Prices that leave the checkpoint out would have chosen among all of them, by gain alone.
    naive = anchors(fit, frame, TARGETS, budget=11.0, cost="cost", checkpoint_cost="0")
    assert not all(name.startswith("shared") for name in naive.picks["run"])


def alike(x: float, sigma_run: float) -> Anchors:
    """Eight runs alike of one checkpoint that costs ten times as much as all of them."""
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.02, sigma_run=sigma_run)
    frame = pd.DataFrame({"run": list("abcdefgh"), "x": x, "cost": 1.0, "checkpoint": "one", "checkpoint_cost": 80.0})
    return anchors(fit, frame, TARGETS.head(1), budget=88.0, cost="cost")


def test_the_run_that_happens_to_pay_for_a_checkpoint_is_judged_with_those_that_need_it() -> None:
    """By its own bill the first alone would not be worth its price."""
    made = alike(4.0, 3.0)
    assert 88 / 81 * np.log(made.width([]) / made.width(made.bought[:1])) < -np.log(0.9)
    assert made.picks["worth"].all()
    assert made.stop is None


@pytest.mark.parametrize("x", [-1.0, 1.0, 2.0])
def test_purchases_are_worth_it_up_to_where_no_number_of_further_ones_is(x: float) -> None:
    """By trying all ends: from the last worthwhile one on, the rate of any number of further purchases is too low."""
    made = alike(x, 0.05)
    widths = [np.log(made.width(made.bought[:i])) for i in range(9)]
    spent = [0.0, *made.picks["spent"]]
    enough = np.array(
        [[88 * (widths[i] - widths[j]) / (spent[j] - spent[i] + 1e-300) >= -np.log(0.9) for j in range(9)] for i in range(9)]
    )
    stops = [i for i in range(9) if not enough[i, i + 1 :].any() and (enough[:i, i].all() or i == 0)]
    last = 8 if made.stop is None else made.stop
    assert stops == [last]
    assert made.picks["worth"].tolist() == [i < last for i in range(8)]


def test_a_dear_checkpoint_is_bought_when_several_runs_together_are_worth_it() -> None:
    """One run does not pay for the checkpoint near the target, four do; a greedy purchase run by run never buys it."""
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


def test_with_strong_luck_picks_spread_over_runs_instead_of_points() -> None:
    """Long curves of many points against short runs of two: with luck of runs the many points tell little more than two."""
    long = [pd.DataFrame({"run": f"long{i}", "x": np.linspace(2, 3, 12), "cost": 6.0}) for i in range(3)]
    short = [pd.DataFrame({"run": f"short{i}", "x": [2.0, 3.0], "cost": 1.0}) for i in range(12)]
    frame = pd.concat(long + short, ignore_index=True)
    calm, lucky = (
        anchors(
            drawn({"a": 0.1, "b": 0.02, "c": 0.001}, sigma_point=point, sigma_run=run), frame, TARGETS, budget=12.0, cost="cost"
        )
        for point, run in ((0.03, 1e-4), (0.03, 0.1))
    )
    rows = {name: len(made.rows()) / len(made.bought) for name, made in (("calm", calm), ("lucky", lucky))}
    assert (len(lucky.bought), rows["lucky"]) == (12, 2.0)
    # Without the effect of runs all points count alike, and 12 points for 6 are as good as 2 for 1.
    alone = lucky.market.ensemble.gains(np.eye(lucky.market.ensemble.rank), lucky.market.weights)
    price = lucky.candidates.cost
    assert (alone / price)[:3].max() < 0.5 * (alone / price)[3:].max()
    alone = calm.market.ensemble.gains(np.eye(calm.market.ensemble.rank), calm.market.weights)
    assert (alone)[:3].max() > 1.02 * alone[3:].max()


def test_a_discrepancy_sends_runs_to_the_target() -> None:
    """A law that may be wrong out there is not told by runs elsewhere, however well they tell its parameters."""
    fit = logarithmic(0)
    frame = pd.DataFrame({"run": [f"c{i}" for i in range(20)], "x": np.geomspace(1e3, 1e8, 20), "cost": np.geomspace(1, 8, 20)})
    target = pd.DataFrame({"x": [3e8]})
    sure, doubtful = (anchors(fit, frame, target, budget=16.0, cost="cost", discrepancy=sd) for sd in (None, "2%"))
    nearest = [made.candidates.rows["x"].to_numpy()[list(made.bought)].max() for made in (sure, doubtful)]
    assert doubtful.width_name == "discrepancy2%_eti90_width"
    assert doubtful.picks["x"].max() == nearest[1] == frame["x"].max()
    assert doubtful.picks["gain"].sum() < sure.picks["gain"].sum()
    with pytest.raises(BayeslawError, match=r"between 0 and 0\.5"):
        anchors(fit, frame, target, budget=20.0, cost="cost", discrepancy="200%")


# --- what is told of it ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(fit: Fit) -> Anchors:
    return anchors(fit, pool(12), TARGETS, budget=20.0, cost="cost", rounds=2, seed=3)


def test_the_curve_has_all_designs_and_ends_within_the_budget(made: Anchors) -> None:
    curve = made.curve
    assert set(curve["design"]) == {"chosen", "smallest size", "random"}
    assert (curve["spent"] <= 20.0 * (1 + 1e-9)).all()
    assert curve.groupby(["design", "number"])["variance"].first().eq(1.0).all()
    assert (curve.groupby(["design", "number"])["variance"].diff().dropna() <= 1e-12).all()
    ends = curve.groupby(["design", "number"])["variance"].last()
    assert ends["chosen", 0] <= ends.loc["random"].min() * (1 + 1e-9)


def test_the_same_seed_gives_the_same_numbers(fit: Fit, made: Anchors) -> None:
    again = anchors(fit, pool(12), TARGETS, budget=20.0, cost="cost", rounds=2, seed=3)
    pd.testing.assert_frame_equal(made.curve, again.curve)
    pd.testing.assert_frame_equal(made.picks, again.picks)


def test_words_of_a_choice(made: Anchors) -> None:
    assert f"{len(made.bought)} runs for" in made.text
    assert "latent_eti90_width" in made.text
    assert "random runs" in made.text
    assert made.rounds[-1] == 2
    assert "bayeslaw update" in made.text


def test_the_stop_is_where_nothing_later_is_worth_its_price(fit: Fit) -> None:
    dear = pool(8, 6).assign(run=lambda t: "dear " + t["run"], cost=lambda t: 30 * t["cost"])
    made = anchors(fit, pd.concat([pool(10, 5), dear], ignore_index=True), TARGETS, budget=500.0, cost="cost")
    worth = made.picks["worth"].tolist()
    assert made.stop is not None
    assert not any(worth[made.stop :])
    assert worth[made.stop - 1]
    assert f"after purchase {made.stop} what follows is not worth its price" in made.text


def test_a_pick_is_said_to_inform_what_it_informs() -> None:
    fit = drawn({"a": 0.1, "b": 0.3, "c": 1e-6}, sigma_point=0.01, sigma_run=0.001)
    frame = pd.DataFrame({"run": ["slope", "slope", "level"], "x": [-3.0, 3.0, 0.0], "cost": 1.0})
    made = anchors(fit, frame, pd.DataFrame({"x": [5.0]}), budget=1.0, cost="cost")
    assert made.picks["informs"].iloc[0].startswith("b -9")
    assert made.explain("level")["informs"].startswith("a -9")


def test_explaining_one_candidate(made: Anchors) -> None:
    first = made.picks["run"].iloc[0]
    told = made.explain(first)
    assert told["chosen"]
    assert told["rank"].endswith("of 12 by gain for its price")
    with pytest.raises(BayeslawError, match="no candidate 'c99'"):
        made.explain("c99")


def test_fixed_runs_are_bought_first_and_logged_ones_left_out(fit: Fit) -> None:
    frame = pool(12)
    frame["fixed"] = frame["run"] == "c7"
    made = anchors(fit, frame, TARGETS, budget=20.0, cost="cost")
    assert made.picks["run"].iloc[0] == "c7"
    logged = pd.concat([frame, pd.DataFrame({"run": ["p"], "x": [0.0], "cost": [1.0], "fixed": [False]})], ignore_index=True)
    again = anchors(fit, logged, TARGETS, budget=20.0, cost="cost")
    assert "p" not in again.candidates.names
    assert again.notes[0] == "1 candidate left out, for the fit has runs of these names (p)"
    assert again.picks["run"].tolist() == made.picks["run"].tolist()


def test_a_law_that_misses_its_own_runs_is_told(fit: Fit) -> None:
    text = "line misses its own runs by 2.0% of the loss, more than seeds explain: state a discrepancy of 2.0%"
    assert any(note.startswith(text) for note in anchors(fit, pool(4), TARGETS, budget=20.0, cost="cost").notes)
    assert not anchors(fit, pool(4), TARGETS, budget=20.0, cost="cost", discrepancy="2%").notes
    calm = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.005, sigma_run=0.01)
    assert not anchors(calm, pool(4), TARGETS, budget=20.0, cost="cost").notes


def test_replicates_are_runs_with_ids_of_their_own(fit: Fit) -> None:
    made = anchors(fit, pool(2), TARGETS, budget=1000.0, cost="cost", replicates=3)
    assert sorted(made.rows()["run"].unique()) == ["c0", "c0#2", "c0#3", "c1", "c1#2", "c1#3"]


def test_swaps_mend_a_greedy_choice(fit: Fit) -> None:
    """Whatever was chosen, no single pick can be exchanged for a better one that the budget allows."""
    made = anchors(fit, pool(20, 8, points=2), TARGETS, budget=9.0, cost="cost")
    market, least = made.market, made.market.value(made.market.ensemble.covariance(made.bought))
    for out in range(len(made.bought)):
        rest = [run for i, run in enumerate(made.bought) if i != out]
        for other in set(range(20)) - set(rest):
            if market.bill([*rest, other]) <= 9.0:
                assert market.value(market.ensemble.covariance([*rest, other])) >= least * (1 - 1e-9)
    assert isinstance(market, Market)
    assert choose(replace(market, budget=0.0)) == []
