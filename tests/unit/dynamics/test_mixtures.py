"""A third domain as a combination of two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import FitError, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.dynamics.mixtures import combination_draws, combination_table, combine
from bayeslaw.dynamics.recipe import Recipe, losses
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests.dynamics import SOURCE, TARGET, dynamics_fit, fits
from tests.errors import fails
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


def test_losses_are_matched_by_run_and_step() -> None:
    combined = combine(three(), "forum", "web", "code")
    assert len(combined) == 10
    np.testing.assert_allclose(combined.frame["loss"], 0.7 * combined.frame["L_source"] + 0.3 * combined.frame["L_target"])
    assert not combined.conversions
    some = three().reset_index(drop=True).drop(index=[0, 1])
    assert combine(some, "forum", "web", "code").conversions == ("4 losses have no partner at their step and are left out",)
    numbered = three().assign(domain=three()["domain"].map({"web": 1, "code": 2, "forum": 3}))
    assert len(combine(numbered, "3", "1", "2")) == 10
    assert {*combine(numbered.assign(unit="bits/byte"), "3", "1", "2").frame["unit"]} == {"bits/byte"}
    unknown = three().reset_index(drop=True)
    unknown.loc[unknown.index[unknown["domain"] == "web"][0], "loss"] = np.nan
    assert combine(unknown, "forum", "web", "code").frame["L_source"].notna().all()


@pytest.mark.slow
def test_the_unit_and_the_known_errors_stay_with_the_losses() -> None:
    """The known errors of the two other domains are left out, which the conversions report."""
    table = three().assign(unit="bits/byte", loss_se=lambda d: d["domain"].map({"web": 0.1, "code": 0.2, "forum": 0.3}))
    combined = combine(table, "forum", "web", "code")
    assert combined.unit == "bits/byte"
    assert combined.frame["loss_se"].tolist() == [0.3] * 10
    assert combined.conversions == ("losses of web and code are taken as exact: their loss_se is left out",)
    assert "unit" not in combine(three(), "forum", "web", "code").frame
    exact = combine(table.assign(loss_se=lambda d: d["loss_se"].where(d["domain"] == "forum", 0.0)), "forum", "web", "code")
    assert not exact.conversions
    other = pd.concat([table, table.assign(domain="books", unit="nats/token")])
    assert combine(other, "forum", "web", "code").unit == "bits/byte"
    for domain in ("forum", "web"):
        mixed = table.assign(unit=table["unit"].mask(table["domain"] == domain, "nats/token"))
        with pytest.raises(TableError, match="column unit"):
            combine(mixed, "forum", "web", "code")


@pytest.mark.slow
def test_fewer_draws_of_the_weights_are_paired_with_draws_of_all_laws() -> None:
    """The draws of a stack are ordered by law, so the first of them would all come from one law."""
    far, target = dynamics_fit(SOURCE | {"L0": 3.5}, size=1200, seed=5), fits()[1]
    stack, rows = Stack({"a": fits()[0], "b": far}, {"a": 0.6, "b": 0.4}), RECIPE.rows([1000])
    whole, few = (combination_draws(weighed(size), stack, target, rows, seed=1)[:, 0] for size in (1200, 600))
    assert few.size == 600
    between = 0.5 * (np.quantile(whole, 0.05) + np.quantile(whole, 0.95))
    assert (whole > between).mean() == pytest.approx(0.4, abs=0.01)
    assert (few > between).mean() == pytest.approx(0.4, abs=0.01)


@pytest.mark.slow
def test_the_third_loss_is_the_combination_draw_by_draw() -> None:
    source, target = fits()
    rows = RECIPE.rows([500, 1000, 2000])
    draws = combination_draws(weighed(), source, target, rows, seed=1)
    assert draws.shape == (1200, 3)
    middle = 0.7 * losses(source, rows).mean(axis=1) + 0.3 * losses(target, rows).mean(axis=1)
    np.testing.assert_allclose(draws.mean(axis=0), middle, rtol=2e-3)
    table = combination_table(draws, rows, 0.8)
    assert list(table) == ["step", "latent_median", "latent_eti80_lb", "latent_eti80_ub", "checks"]
    assert set(combination_table(draws, rows, failed=True)["checks"]) == {"FAILED (forced)"}
    forced = combination_draws(weighed(passed=False), source, target, rows, seed=1, force=True)
    np.testing.assert_array_equal(forced, draws)
    np.testing.assert_array_equal(draws, combination_draws(weighed(), source, target, rows, seed=1))


@pytest.mark.parametrize(
    ("change", "code", "value"),
    [
        ({"of": "forums"}, "unknown-domain", "'forum'"),
        ({"source": "forum"}, "same-domain", "forum, forum, code"),
        ({"runs": three().drop(columns="domain")}, "missing-columns", "domain"),
        ({"runs": pd.concat([three(), three().query("domain == 'web'")], ignore_index=True)}, "duplicate-loss", "step = 100"),
        ({"runs": three().drop(columns=["run", "step"])}, "missing-columns", "run"),
        ({"runs": three().drop(columns="loss")}, "missing-columns", "loss"),
        ({"runs": three().assign(loss="low")}, "missing-columns", "loss"),
        ({"runs": three().assign(run=lambda d: d["domain"])}, "no-shared-steps", "forum, web, code"),
    ],
)
def test_tables_that_can_not_be_combined_are_refused(change: dict[str, Any], code: str, value: str) -> None:
    with fails(code, value):
        combine(**dict[str, Any](runs=three(), of="forum", source="web", target="code") | change)


@pytest.mark.slow
def test_fits_that_can_not_be_combined_are_refused() -> None:
    source, target = fits()
    rows = RECIPE.rows([1000])
    table = combine(three().assign(unit="bits/byte"), "forum", "web", "code").frame
    bits = replace(weighed(), observed=Observations.of(load_law("combination"), read_runs(table)))
    with fails("several-units", "bits/byte", "nats/token"):
        combination_draws(bits, source, target, rows)
    with fails("not-a-combination", source.law.name):
        combination_draws(source, source, target, rows)
    with fails("unpaired-draws", "1,200", "2,000"):
        combination_draws(weighed(), source, dynamics_fit(TARGET), rows)
    with fails("failed-checks", kind=FitError):
        combination_draws(weighed(passed=False), source, target, rows)


def test_domains_may_be_numbers() -> None:
    losses = pd.DataFrame({"run": "a", "step": [100] * 3, "domain": [1, 2, 3], "loss": [3.0, 2.0, 2.7]})
    assert combine(losses, 3, 1, 2).frame[["loss", "L_source", "L_target"]].to_numpy().tolist() == [[2.7, 3.0, 2.0]]
