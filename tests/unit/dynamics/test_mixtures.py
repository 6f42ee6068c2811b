"""A third domain as a combination of two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import BayeslawError, FitError, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.dynamics.mixtures import combination_draws, combination_table, combine
from bayeslaw.dynamics.recipe import Recipe, losses
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests.dynamics import SOURCE, TARGET, dynamics_fit, fits
from tests.fixed import fixed_fit

RECIPE = Recipe("wsd:steps=8000,peak=2e-4,warmup=200,final=0.5", "cosine:steps=2000,peak=2e-4,warmup=100")


def three(weights: tuple[float, float] = (0.7, 0.3)) -> pd.DataFrame:
    steps = np.arange(100, 1100, 100)
    web, code = 3 - 0.0001 * steps, 2 - 0.0003 * steps
    both = {"web": web, "code": code, "forum": weights[0] * web + weights[1] * code}
    return pd.concat([pd.DataFrame({"run": "a", "step": steps, "domain": d, "loss": v}) for d, v in both.items()])


def weighed(size: int = 1200, passed: bool = True) -> Fit:
    rng = np.random.default_rng(0)
    table = combine(three(), "forum", "web", "code").frame
    draws = {"k": 1 + 0.01 * rng.standard_normal(size), "q": 0.7 + 0.01 * rng.standard_normal(size)}
    noise = {"sigma_point": np.full(size, 0.001), "sigma_run": np.full(size, 0.001)}
    return fixed_fit(load_law("combination"), table, draws | noise, noise="normal", passed=passed)


def test_losses_of_one_step_stand_beside_each_other() -> None:
    made = combine(three(), "forum", "web", "code")
    assert len(made) == 10
    np.testing.assert_allclose(made.frame["loss"], 0.7 * made.frame["L_source"] + 0.3 * made.frame["L_target"])
    assert not made.conversions
    some = three().reset_index(drop=True).drop(index=[0, 1])
    assert combine(some, "forum", "web", "code").conversions == ("4 losses have no partner at their step and are left out",)


def test_the_unit_and_the_known_errors_stay_with_the_losses() -> None:
    """The errors of the two that describe are covariates' and have no place in a fit, which is said."""
    table = three().assign(unit="bits/byte", loss_se=lambda d: d["domain"].map({"web": 0.1, "code": 0.2, "forum": 0.3}))
    made = combine(table, "forum", "web", "code")
    assert made.unit == "bits/byte"
    assert made.frame["loss_se"].tolist() == [0.3] * 10
    assert made.conversions == ("losses of web and code are taken as exact: their loss_se is left out",)
    assert "unit" not in combine(three(), "forum", "web", "code").frame
    exact = combine(table.assign(loss_se=lambda d: d["loss_se"].where(d["domain"] == "forum", 0.0)), "forum", "web", "code")
    assert not exact.conversions
    other = pd.concat([table, table.assign(domain="books", unit="nats/token")])
    assert combine(other, "forum", "web", "code").unit == "bits/byte"
    for domain in ("forum", "web"):
        mixed = table.assign(unit=table["unit"].mask(table["domain"] == domain, "nats/token"))
        with pytest.raises(TableError, match="bayeslaw convert"):
            combine(mixed, "forum", "web", "code")


def test_losses_in_two_units_are_not_combined() -> None:
    source, target = fits()
    table = combine(three().assign(unit="bits/byte"), "forum", "web", "code").frame
    bits = replace(weighed(), observed=Observations.of(load_law("combination"), read_runs(table)))
    with pytest.raises(BayeslawError, match="in bits/byte, those that it combines are in nats/token"):
        combination_draws(bits, source, target, RECIPE.rows([1000]))


def test_fewer_draws_of_the_weights_take_draws_of_all_laws_and_chains() -> None:
    """A stack has its laws' draws one law after the other: the first of them would be of one law alone."""
    far, target = dynamics_fit(SOURCE | {"L0": 3.5}, size=1200, seed=5), fits()[1]
    stack, rows = Stack({"a": fits()[0], "b": far}, {"a": 0.6, "b": 0.4}), RECIPE.rows([1000])
    whole, few = (combination_draws(weighed(size), stack, target, rows, seed=1)[:, 0] for size in (1200, 600))
    assert few.size == 600
    between = 0.5 * (np.quantile(whole, 0.05) + np.quantile(whole, 0.95))
    assert (whole > between).mean() == pytest.approx(0.4, abs=0.01)
    assert (few > between).mean() == pytest.approx(0.4, abs=0.01)


def test_draws_that_can_not_be_paired_are_refused() -> None:
    source, target = fits()
    rows = RECIPE.rows([1000])
    one, two = (Stack({"a": fit}, {"a": 1.0}) for fit in (source, target))
    with pytest.raises(BayeslawError, match="Two stacks can't be paired"):
        combination_draws(weighed(), one, two, rows)
    with pytest.raises(BayeslawError, match="unpaired: 1,200 and 2,000"):
        combination_draws(weighed(), source, dynamics_fit(TARGET), rows)


def test_the_third_loss_is_the_combination_draw_by_draw() -> None:
    source, target = fits()
    rows = RECIPE.rows([500, 1000, 2000])
    made = combination_draws(weighed(), source, target, rows, seed=1)
    assert made.shape == (1200, 3)
    middle = 0.7 * losses(source, rows).mean(axis=1) + 0.3 * losses(target, rows).mean(axis=1)
    np.testing.assert_allclose(made.mean(axis=0), middle, rtol=2e-3)
    table = combination_table(made, rows, 0.8)
    assert list(table) == ["step", "latent_median", "latent_eti80_lo", "latent_eti80_hi", "checks"]
    assert set(combination_table(made, rows, failed=True)["checks"]) == {"FAILED (forced)"}
    bad = weighed(passed=False)
    with pytest.raises(FitError, match="The checks of combination failed"):
        combination_draws(bad, source, target, rows)
    np.testing.assert_array_equal(combination_draws(bad, source, target, rows, seed=1, force=True), made)
    np.testing.assert_array_equal(made, combination_draws(weighed(), source, target, rows, seed=1))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"of": "forums"}, "no domain 'forums'.*Did you mean 'forum'"),
        ({"source": "forum"}, "three domains"),
        ({"frame": three().drop(columns="domain")}, "no column domain"),
        (
            {"frame": pd.concat([three(), three().query("domain == 'web'")], ignore_index=True)},
            "second loss at run = a, step = 100",
        ),
        ({"frame": three().drop(columns=["run", "step"])}, "neither run nor step"),
        ({"frame": three().assign(run=lambda d: d["domain"])}, "no step of a run has losses"),
    ],
)
def test_tables_that_can_not_be_combined_are_refused(change: dict[str, object], text: str) -> None:
    asked = {"frame": three(), "of": "forum", "source": "web", "target": "code"} | change
    with pytest.raises(BayeslawError, match=text):
        combine(asked["frame"], asked["of"], asked["source"], asked["target"])  # type: ignore[arg-type]


def test_only_weights_are_weights() -> None:
    source, target = fits()
    with pytest.raises(BayeslawError, match="is no combination of two losses"):
        combination_draws(source, source, target, RECIPE.rows())
