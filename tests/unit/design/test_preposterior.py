"""The look-ahead by simulated losses, against exact answers of a linear law with normal noise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag

from bayeslaw.core.errors import FitError
from bayeslaw.core.streams import Stream
from bayeslaw.data.table import read_runs
from bayeslaw.design.anchors import anchors
from bayeslaw.design.preposterior import Design, nested, validate
from bayeslaw.forecasting.stack import Stack
from bayeslaw.posterior.fit import Fit
from tests import fixed
from tests.errors import fails
from tests.oracles import Array
from tests.purchases import curvature, drawn, pool

line_fit = cache(fixed.line_fit)  # no test changes a fit
TARGETS = pd.DataFrame({"x": [2.0, 3.0, 0.0]})
DESIGN = pd.DataFrame({"x": [2.0, 0.0, 1.5, 3.0, 2.5], "run": ["u", "u", "u", "v", "v"]})
WITHIN = block_diag(np.ones((3, 3)), np.ones((2, 2)))


def exact(fit: Fit, x: Any, noise: Array) -> tuple[Array, Array]:
    """Variances at the targets before and after losses at x whose noise has this covariance, by normal conditioning."""
    values = np.stack([fit.draws[name] for name in "abc"], axis=1)
    prior, design, target = np.cov(values.T), curvature(x), curvature(TARGETS["x"])
    gain = prior @ design @ np.linalg.inv(design.T @ prior @ design + noise)
    after = prior - gain @ design.T @ prior
    return np.diag(target.T @ prior @ target), np.diag(target.T @ after @ target)


CASES: dict[str, tuple[dict[str, Any], pd.DataFrame, Array]] = {
    "runs": ({"point": 0.03, "run": 0.03}, DESIGN, 9e-4 * (WITHIN + np.eye(5))),
    "rows": ({"point": 0.04}, DESIGN.drop(columns="run"), 16e-4 * np.eye(5) + 1e-4 * np.eye(5)),
    "no-run": ({"point": 0.03, "noise": "normal-no-run"}, DESIGN, 9e-4 * np.eye(5)),
    "checkpoint": (
        {"point": 0.03, "run": 0.02, "noise": "normal-checkpoint"},
        DESIGN.assign(checkpoint="k"),
        9e-4 * np.eye(5) + 4e-4 * WITHIN + 4e-4,
    ),
    "two-checkpoints": (
        {"point": 0.03, "run": 0.02, "noise": "normal-checkpoint"},
        DESIGN.assign(checkpoint=["k0", "k0", "k0", "k1", "k1"]),
        9e-4 * np.eye(5) + 8e-4 * WITHIN,
    ),
    "one-row": ({"point": 0.02}, DESIGN.head(1), np.array([[5e-4]])),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_linear_normal_case_is_exact(name: str) -> None:
    options, design, noise = CASES[name]
    fit, weights = line_fit(size=3000, **options), [0.5, 0.2, 0.3]
    before, after = exact(fit, design["x"], noise)
    shuffled = [design.sample(frac=1.0, random_state=1)] * (name == "checkpoint")
    for table in (design, *shuffled):
        row = nested(fit, table, TARGETS, weights=weights, outer=300).iloc[0]
        assert row["prior_variance"] == pytest.approx(before @ weights, rel=1e-6)
        assert row["note"] == ""
        assert row["expected_variance_mcse"] < 0.05 * row["expected_variance"]
        error = 4 * row["expected_variance_mcse"] + 0.015 * row["expected_variance"]
        assert row["expected_variance"] == pytest.approx(after @ weights, abs=error)
        assert row["ratio"] == pytest.approx(row["expected_variance"] / row["prior_variance"])
        assert 1 <= row["effective_worst"] <= row["effective_median"] <= 3000
        assert (row["rows"], row["checks"]) == (len(design), "passed")


@pytest.mark.slow
def test_known_errors_of_losses_count() -> None:
    fit = line_fit(size=3000, point=0.01, run=0.01)
    design = DESIGN.assign(loss_se=0.2)
    loss = np.exp(np.median(np.stack([fit.draws[name] for name in "abc"], axis=1) @ curvature(DESIGN["x"]), axis=0))
    before, after = exact(fit, DESIGN["x"], 1e-4 * (WITHIN + np.eye(5)) + np.diag((0.2 / loss) ** 2))
    row = nested(fit, design, TARGETS, outer=300).iloc[0]
    assert row["prior_variance"] == pytest.approx(before.mean(), rel=1e-6)
    assert row["expected_variance"] == pytest.approx(after.mean(), abs=4 * row["expected_variance_mcse"] + 0.015 * after.mean())
    with fails("bad-loss-se", "design"):
        nested(fit, design.assign(loss_se=[0.1, 0.1, np.nan, 0.1, 0.1]), TARGETS)


@pytest.mark.slow
def test_simulated_losses_have_the_noise_and_known_error_of_their_own_row() -> None:
    fit = line_fit(size=3000, point=0.01, run=0.01)
    mixed = DESIGN.assign(loss_se=[0.02, 0.4, 0.1, 0.3, 0.05]).iloc[[3, 0, 4, 1, 2]]  # rows of the runs in turn
    design = Design.of(fit, read_runs(mixed.reset_index(drop=True)), np.arange(3000))
    frame, losses = design.runs.frame, np.exp(np.median(design.latent, axis=0))
    values = np.stack([fit.draws[name] for name in "abc"], axis=1)
    np.testing.assert_allclose(design.latent, values @ curvature(frame["x"]), rtol=1e-9)
    sd = np.sqrt(2e-4 + (frame["loss_se"].to_numpy() / losses) ** 2)
    noise = design.log_loss - design.latent
    np.testing.assert_allclose(noise.std(axis=0), sd, rtol=5 / np.sqrt(2 * 3000))
    run = frame["run"].to_numpy()
    shared = np.where(run[:, None] == run, 1e-4, 0.0) + np.diag(sd**2 - 1e-4)
    np.testing.assert_allclose(np.cov(noise.T), shared, atol=5 * (sd[:, None] * sd).max() / np.sqrt(3000))
    with fails("bad-loss-se", "the table"):
        Design.of(fit, read_runs(mixed.assign(loss_se=-0.1)), np.arange(3000))


@pytest.mark.slow
def test_noise_groups_are_those_of_the_fit() -> None:
    """Two groups that differ in noise; an unknown group is refused."""
    base, targets = line_fit(size=3000), TARGETS.assign(set="calm")
    group = np.array([0, 0, 1, 1])
    observed = replace(base.observed, group=group, group_names=("calm", "wild"), group_column="set")
    tree, noise = base.tree.copy(), replace(base.noise, groups=("calm", "wild"))
    posterior = tree["posterior"].to_dataset()
    scales = {
        f"{n}[{g}]": posterior["a"] * 0 + v for n in ("sigma_point", "sigma_run") for g, v in (("calm", 0.02), ("wild", 0.06))
    }
    tree["posterior"] = posterior.assign(scales)
    fit = replace(base, tree=tree, observed=observed, noise=noise)
    for name, sigma in (("calm", 0.02), ("wild", 0.06)):
        after = exact(fit, DESIGN["x"], sigma**2 * (WITHIN + np.eye(5)))[1].mean()
        row = nested(fit, DESIGN.assign(set=name), targets, outer=300).iloc[0]
        assert row["expected_variance"] == pytest.approx(after, abs=4 * row["expected_variance_mcse"] + 0.015 * after)
    with fails("unknown-group", "'other'", "calm", "wild"):
        nested(fit, DESIGN.assign(set="other"), targets)
    with fails("missing-column", "set"):
        nested(fit, DESIGN, targets)


@pytest.mark.slow
def test_heavy_tailed_points_inform_less_than_normal_ones() -> None:
    """At the same scale a point with 5 degrees of freedom has 3/4 of the information on its location."""
    rows = {
        n: nested(line_fit(size=2000, point=0.04, noise=n), DESIGN.head(1), TARGETS.head(1), outer=80).iloc[0]
        for n in ("normal-no-run", "student-no-run")
    }
    prior, (normal, heavy) = rows["normal-no-run"]["prior_variance"], (row["expected_variance"] for row in rows.values())
    assert normal < heavy < prior
    gains = (1 / heavy - 1 / prior) / (1 / normal - 1 / prior)
    assert 0.6 < gains < 0.95


@pytest.mark.slow
def test_a_draw_has_no_weight_for_its_own_losses() -> None:
    """All but one draw of the weights of each simulation, against weights by the normal density."""
    fit, outer = line_fit(size=800, point=0.02, run=0.02), 20
    draws = np.random.default_rng((0, Stream.SIMULATED)).choice(800, outer, replace=False)
    design = Design.of(fit, read_runs(DESIGN.head(1)), draws)
    target = np.stack([fit.draws[name] for name in "abc"], axis=1) @ curvature(TARGETS["x"])
    variances, effective = [], []
    for draw, loss in zip(draws, design.log_loss[:, 0], strict=True):
        others = np.arange(800) != draw
        weight = np.exp(-0.5 * (loss - design.latent[others, 0]) ** 2 / 8e-4)
        weight /= weight.sum()
        effective.append(1 / (weight @ weight))
        variances.append((weight @ target[others] ** 2 - (weight @ target[others]) ** 2).mean())
    row = nested(fit, DESIGN.head(1), TARGETS, outer=outer).iloc[0]
    assert row["expected_variance"] == pytest.approx(np.mean(variances), rel=1e-6)
    assert row["effective_median"] == pytest.approx(np.median(effective))


@pytest.mark.slow
def test_too_few_effective_draws_are_noted() -> None:
    fit = line_fit(size=800, point=0.0005, run=0.0005)
    row = nested(fit, DESIGN, TARGETS, outer=20).iloc[0]
    assert row["effective_median"] < 10
    assert row["note"].startswith("too few effective draws")


def heavy_tailed() -> Fit:
    """The line with a common scale of its parameters in each draw, which a twentieth of the draws have ten times as large."""
    fit = line_fit(size=2000, point=0.01, run=0.01)
    tree, rng = fit.tree.copy(), np.random.default_rng(2)
    posterior = tree["posterior"].to_dataset().copy(deep=True)
    scale = np.where(rng.uniform(size=posterior["a"].shape) < 0.05, 10.0, 1.0)
    for name in "abc":
        middle = float(posterior[name].median())
        posterior[name] = middle + 0.2 * scale * (posterior[name] - middle)
    tree["posterior"] = posterior
    return replace(fit, tree=tree)


@pytest.mark.slow
def test_simulations_that_carry_the_variance_need_draws_near_them() -> None:
    """In the middle there are enough, but a few simulations with almost none carry most of the variance."""
    targets = pd.DataFrame({"x": [4.0]})
    pool_ = pd.DataFrame({"run": ["u", "v"], "x": [1.0, 3.0], "cost": 1.0})
    fit = heavy_tailed()
    table = validate(fit, anchors(fit, pool_, targets, budget=2.0, cost="cost"), read_runs(targets), outer=200)
    assert table["effective_median"].iloc[-1] > 50
    assert table["nested"].iloc[-1] < 0.9 * table["predicted"].iloc[-1]
    assert table["note"].iloc[-1].startswith("too small, rely on predicted: simulations that carry")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers() -> None:
    fit = line_fit(size=1000)
    first, same, other = (nested(fit, DESIGN, TARGETS, outer=20, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, same)
    assert first["expected_variance"][0] != other["expected_variance"][0]


@pytest.mark.slow
def test_unusable_fits_and_options_are_refused() -> None:
    fit = line_fit(size=1000)
    with fails("too-few-draws", 396, kind=FitError):
        nested(line_fit(size=396), DESIGN, TARGETS)
    with fails("not-a-single-fit", kind=FitError):
        nested(Stack.of({"line": fit}, {"line": 1.0}), DESIGN, TARGETS)  # type: ignore[arg-type]
    with fails("failed-checks", "R-hat 1.4", kind=FitError):
        nested(line_fit(passed=False), DESIGN, TARGETS)
    with fails("not-a-whole-number", "outer", 2, 1):
        nested(fit, DESIGN, TARGETS, outer=1)
    with fails("too-many-simulations", 1000, 1001):
        nested(fit, DESIGN, TARGETS, outer=1001)
    for weights in ([1.0], [0.0, 0, 0], [1.0, 1, np.nan], [1.0, 1, -1], "equal"):
        with fails("bad-weights", 3):
            nested(fit, DESIGN, TARGETS, weights=weights)  # type: ignore[arg-type]
    with fails("faulty-table", "x 11"):
        nested(fit, DESIGN.assign(x=11.0), TARGETS)
    for name, value in (("b", np.nan), ("sigma_run", np.inf)):
        tree = fit.tree.copy()
        posterior = tree["posterior"].to_dataset().copy(deep=True)
        posterior[name][0, :7] = value
        tree["posterior"] = posterior
        with fails("non-finite-draws", name, "7 of 1000", kind=FitError):
            nested(replace(fit, tree=tree), DESIGN, TARGETS)
    forced = nested(line_fit(passed=False), DESIGN, TARGETS, outer=10, force=True)
    assert forced["checks"].tolist() == ["FAILED (forced)"]


@pytest.mark.slow
def test_predicted_variances_of_a_choice_agree_with_the_look_ahead() -> None:
    fit = drawn({"a": 0.1, "b": 0.2, "c": 0.05}, sigma_point=0.2, sigma_run=0.1)  # so much noise that many draws keep weight
    targets = pd.DataFrame({"x": [4.0, 6.0]})
    choice = anchors(fit, pool(12), targets, budget=4.0, cost="cost")
    table = validate(fit, choice, read_runs(targets), outer=100)
    assert table["run"].tolist() == choice.picks["run"].tolist()
    np.testing.assert_allclose(table["predicted"], 1 - choice.picks["gain"].cumsum(), rtol=1e-6)
    trusted = table[table["note"] == ""]
    assert len(trusted)
    off = (trusted["nested"] - trusted["predicted"]).abs()
    assert (off <= 4 * trusted["nested_mcse"] + 0.03 * trusted["predicted"]).all()
    alone = anchors(fit, pool(12), targets.assign(weight=[0.0, 1.0]), budget=4.0, cost="cost")
    weighed = validate(fit, alone, read_runs(targets), outer=100)
    one = nested(fit, alone.rows(alone.bought[:1]), targets.tail(1), outer=100)
    assert weighed["nested"].iloc[0] == pytest.approx(one["ratio"].item())
    assert weighed["nested_mcse"].iloc[0] == pytest.approx(one["expected_variance_mcse"].item() / one["prior_variance"].item())
    with fails("other-targets"):
        validate(fit, anchors(fit, pool(12), {"margin": fit.draws["a"]}, budget=4.0, cost="cost"), read_runs(targets))


def test_a_choice_is_checked_at_its_own_targets() -> None:
    fit = line_fit()
    choice = anchors(fit, DESIGN.assign(run="new", cost=1.0), TARGETS, budget=1.0, cost="cost")
    with fails("other-targets", "3 targets", "has 1"):
        validate(fit, choice, read_runs(TARGETS.head(1)))
    with fails("not-a-choice", "a DataFrame"):
        validate(fit, TARGETS, read_runs(TARGETS))  # type: ignore[arg-type]
