"""What simulated losses of a design leave, against exact answers of a linear law with normal noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag

from bayeslaw.core.errors import BayeslawError, FitError, TableError
from bayeslaw.core.executors import Outcome
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.design import preposterior as lookahead
from bayeslaw.design.preposterior import nested
from bayeslaw.forecasting.stack import Stack
from bayeslaw.inference.batch import Task
from bayeslaw.posterior.fit import Fit
from tests.fixed import line, line_fit
from tests.oracles import Array

TARGETS = pd.DataFrame({"x": [2.0, 3.0, 0.0]})
DESIGN = pd.DataFrame({"x": [2.0, 0.0, 1.5, 3.0, 2.5], "run": ["u", "u", "u", "v", "v"]})
WITHIN = block_diag(np.ones((3, 3)), np.ones((2, 2)))


def curvature(x: Any) -> Array:
    x = np.asarray(x, dtype=float)
    return np.stack([np.ones_like(x), x, x**2])


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


@pytest.mark.parametrize("name", CASES)
def test_the_linear_normal_case_is_exact(name: str) -> None:
    options, design, noise = CASES[name]
    fit, weights = line_fit(**options), [0.5, 0.2, 0.3]
    before, after = exact(fit, design["x"], noise)
    for shuffled in (design, design.sample(frac=1.0, random_state=1)):
        row = nested(fit, shuffled, TARGETS, weights=weights, outer=300).iloc[0]
        assert row["prior_variance"] == pytest.approx(before @ weights, rel=1e-6)
        assert row["note"] == ""
        assert row["expected_variance_mcse"] < 0.05 * row["expected_variance"]
        error = 4 * row["expected_variance_mcse"] + 0.015 * row["expected_variance"]
        assert row["expected_variance"] == pytest.approx(after @ weights, abs=error)
        assert row["ratio"] == pytest.approx(row["expected_variance"] / row["prior_variance"])
        assert 1 <= row["effective_worst"] <= row["effective_median"] <= 4000
        assert (row["rows"], row["checks"]) == (len(design), "passed")


def test_known_errors_of_losses_count() -> None:
    fit = line_fit(point=0.01, run=0.01)
    design = DESIGN.assign(loss_se=0.2)
    loss = np.exp(np.median(np.stack([fit.draws[name] for name in "abc"], axis=1) @ curvature(DESIGN["x"]), axis=0))
    before, after = exact(fit, DESIGN["x"], 1e-4 * (WITHIN + np.eye(5)) + np.diag((0.2 / loss) ** 2))
    row = nested(fit, design, TARGETS, outer=300).iloc[0]
    assert row["prior_variance"] == pytest.approx(before.mean(), rel=1e-6)
    assert row["expected_variance"] == pytest.approx(after.mean(), abs=4 * row["expected_variance_mcse"] + 0.015 * after.mean())
    with pytest.raises(BayeslawError, match="design: loss_se must be given for every row"):
        nested(fit, design.assign(loss_se=[0.1, 0.1, np.nan, 0.1, 0.1]), TARGETS)


def test_groups_of_noise_are_those_of_the_fit() -> None:
    """Two groups that differ in noise; a group that the fit does not know is refused."""
    base, targets = line_fit(), TARGETS.assign(set="calm")
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
    with pytest.raises(BayeslawError, match="Row 1: set 'other' is not among the fit's: calm, wild"):
        nested(fit, DESIGN.assign(set="other"), targets)
    with pytest.raises(BayeslawError, match="The fit's noise differs by set; the settings need that column"):
        nested(fit, DESIGN, targets)


def test_heavy_tailed_points_tell_less_than_normal_ones() -> None:
    """Both at one scale; with 5 degrees of freedom a point tells 3/4 as much of its location."""
    found = {
        n: nested(line_fit(size=2000, point=0.04, noise=n), DESIGN.head(1), TARGETS.head(1)).iloc[0]
        for n in ("normal-no-run", "student-no-run")
    }
    prior, (normal, heavy) = found["normal-no-run"]["prior_variance"], (one["expected_variance"] for one in found.values())
    assert normal < heavy < prior
    gains = (1 / heavy - 1 / prior) / (1 / normal - 1 / prior)
    assert 0.6 < gains < 0.95


def test_designs_are_ranked_with_the_same_truths() -> None:
    """A hundred one-run designs, as the gains of a purchase are checked: in the order of the exact answers."""
    fit = line_fit(size=1000, point=0.05, run=0.03)
    places = np.linspace(-1, 3, 100)
    designs = {f"at {x:.2f}": pd.DataFrame({"x": [x - 0.5, x, x + 0.5], "run": "one"}) for x in places}
    found = nested(fit, designs, TARGETS, outer=60)
    assert found["design"].tolist() == list(designs)
    answers = [exact(fit, d["x"], 9e-4 + 25e-4 * np.eye(3))[1].mean() for d in designs.values()]
    assert found["expected_variance"].corr(pd.Series(answers), method="spearman") > 0.98


def test_a_draw_has_no_part_in_weighing_its_own_losses() -> None:
    """The first draw lies far from all others: its losses leave the nearest of those, not itself."""
    fit = line_fit(size=400, point=0.02, run=0.02)
    tree = fit.tree.copy()
    posterior = tree["posterior"].to_dataset().copy(deep=True)
    posterior["a"][0, 0] = 2.0
    tree["posterior"] = posterior
    far = replace(fit, tree=tree)
    design = lookahead.Design.of(far, read_runs(DESIGN.head(1)), np.array([0]))
    values = far.draws["a"]
    variances, effective = lookahead._weighted(far, design, np.array([0]), values[:, None])
    weight = np.exp(-0.5 * (design.log_loss[0, 0] - design.latent[1:, 0]) ** 2 / 8e-4)
    weight /= weight.sum()
    assert effective[0] == pytest.approx(1 / (weight**2).sum())
    assert variances[0, 0] == pytest.approx(weight @ values[1:] ** 2 - (weight @ values[1:]) ** 2, rel=1e-6)


def test_it_says_when_draws_are_too_few_for_the_design() -> None:
    fit = line_fit(size=800, point=0.0005, run=0.0005)
    row = nested(fit, DESIGN, TARGETS, outer=20).iloc[0]
    assert row["effective_median"] < 10
    assert (
        row["note"]
        == f"too few effective draws ({row['effective_median']:.0f} in the middle, 50 wanted): refit instead, or draw more"
    )


def test_the_same_seed_gives_the_same_numbers() -> None:
    fit = line_fit(size=1000)
    one, two, other = (nested(fit, DESIGN, TARGETS, outer=20, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, two)
    assert one["expected_variance"][0] != other["expected_variance"][0]


def test_what_a_look_ahead_refuses() -> None:
    fit = line_fit(size=1000)
    for call in (nested,):
        with pytest.raises(FitError, match="needs at least 400 posterior draws and the fit has 396: fit with more --draws"):
            call(line_fit(size=396), DESIGN, TARGETS)
        with pytest.raises(FitError, match="takes the fit of one law, not a stack"):
            call(Stack.of({"line": fit}, {"line": 1.0}), DESIGN, TARGETS)  # type: ignore[arg-type]
        with pytest.raises(FitError, match="The fit's checks failed"):
            call(line_fit(passed=False), DESIGN, TARGETS)
        with pytest.raises(BayeslawError, match="outer must be a whole number of at least 2, not 1"):
            call(fit, DESIGN, TARGETS, outer=1)
        with pytest.raises(BayeslawError, match="there are 1000, not 1001"):
            call(fit, DESIGN, TARGETS, outer=1001)
        for weights in ([1.0], [0.0, 0, 0], [1.0, 1, np.nan], [1.0, 1, -1]):
            with pytest.raises(BayeslawError, match="weights must be 3 numbers"):
                call(fit, DESIGN, TARGETS, weights=weights)
        with pytest.raises(TableError, match="x 11 is outside"):
            call(fit, DESIGN.assign(x=11.0), TARGETS)
        for name, value in (("b", np.nan), ("sigma_run", np.inf)):
            tree = fit.tree.copy()
            posterior = tree["posterior"].to_dataset().copy(deep=True)
            posterior[name][0, :7] = value
            tree["posterior"] = posterior
            with pytest.raises(FitError, match=f"finite draws, and 7 of 1000 draws of {name} are not"):
                call(replace(fit, tree=tree), DESIGN, TARGETS)
    forced = nested(line_fit(passed=False), DESIGN, TARGETS, outer=10, force=True)
    assert forced["checks"].tolist() == ["FAILED (forced)"]
