"""What a notebook and `print` show of each object."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.design.update import Update
from bayeslaw.evaluation.backtest import Backtest
from bayeslaw.evaluation.comparison import Comparison
from bayeslaw.evaluation.loo import leave_one_run_out
from bayeslaw.forecasting.average import average
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.law import Law
from bayeslaw.planning.transfer import Transfer
from bayeslaw.posterior.fit import Fit
from tests.errors import fails
from tests.fixed import apart_fit, line_fit
from tests.fragments import outline

SCRIPT = "<script>alert(1)</script>"
MOST_BYTES = 12_000
SETTINGS = pd.DataFrame({"N": [1e9], "D": [2e10]})


def stack_of(fit: Fit) -> Stack:
    return Stack({"first": fit, f"second {SCRIPT}": fit}, {"first": 0.75, f"second {SCRIPT}": 0.25})


def compared(fit: Fit) -> Comparison:
    stack = stack_of(fit)
    return Comparison(pd.DataFrame(), stack.table, leave_one_run_out(fit).table, (f"a note {SCRIPT}",) * 2, stack, "compute")


def runs_of(fit: Fit) -> bayeslaw.Runs:
    table = pd.DataFrame({"params_b": np.arange(1, 31.0), "D": 1e9, "val_loss": 2.0, "run": SCRIPT, SCRIPT: "<b>x</b>"})
    return replace(bayeslaw.read_runs(table), name=f"{SCRIPT}.csv")


def anchors_of(fit: Fit) -> bayeslaw.design.Anchors:
    candidates = pd.DataFrame({"run": ["a", SCRIPT], "N": [1e8, 1e9], "D": [2e9, 2e10]})
    return bayeslaw.anchors(fit, candidates, pd.DataFrame({"N": [1e11], "D": [2e12]}), budget=1e21)


def plan_of(fit: Fit) -> bayeslaw.planning.Plan:
    return bayeslaw.plan(None, fit, {"N": 1e9, "ptpp": 31}, on="latent", minimise="target-loss", max_tokens=1e10)


MAKE: dict[str, Callable[[Fit], Any]] = {
    "law": lambda fit: fit.law,
    "runs": runs_of,
    "fit": lambda fit: fit,
    "stack": stack_of,
    "forecast": lambda fit: fit.forecast(bayeslaw.grid(fit, {"N": [1e9, 1e11], "D": "1e9:1e13:10"})),
    "comparison": compared,
    "anchors": anchors_of,
    "allocation": lambda fit: bayeslaw.allocate(fit, "1e19:1e22:20"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MAKE, "plan"])
def test_every_object_is_shown_in_short(name: str, sound_fit: Fit, ptpp_fit: Fit) -> None:
    shown = plan_of(ptpp_fit) if name == "plan" else MAKE[name](sound_fit)
    fragment = shown._repr_html_()
    assert len(fragment.encode()) < MOST_BYTES
    assert outline(fragment)
    lines = repr(shown).split("\n")
    assert repr(shown).startswith("<")
    assert repr(shown).endswith(">")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["runs", "stack", "comparison", "anchors"])
def test_names_from_files_of_users_are_escaped(name: str, sound_fit: Fit) -> None:
    fragment = MAKE[name](sound_fit)._repr_html_()
    assert SCRIPT in outline(fragment)
    assert "<script" not in fragment
    assert "<b>" not in fragment


def test_groups_and_sources_of_a_fit_are_escaped() -> None:
    fit = apart_fit(labs=("a", "<script>"))  # no group has a slash in its name
    info = {**fit.info, "sources": [{**fit.info["sources"][0], "name": f"{SCRIPT}.csv"}]}
    fragment = replace(fit, info=info)._repr_html_()
    assert f"{SCRIPT}.csv" in outline(fragment)
    assert "sigma_point[<script>]" in outline(fragment)
    assert "<script" not in fragment


@pytest.mark.slow
def test_settings_of_a_forecast_are_escaped(sound_fit: Fit) -> None:
    fragment = sound_fit.forecast(SETTINGS.assign(**{SCRIPT: "<b>x</b>"}))._repr_html_()
    assert SCRIPT in outline(fragment)
    assert "<script" not in fragment


def test_every_law_has_its_formula_and_its_parameters(law: Law) -> None:
    fragment = law._repr_html_()
    assert len(fragment.encode()) < MOST_BYTES
    assert re.findall(r"<math.*?</math>", fragment, flags=re.DOTALL) == law.mathml
    shown = outline(fragment)
    assert f"Source: {law.source}." in shown
    assert [str(p.prior) in shown for p in law.parameters.values()][:12] == [True] * min(12, len(law.parameters))


@pytest.mark.slow
def test_a_fit_shows_medians_with_intervals_and_both_verdicts(sound_fit: Fit) -> None:
    shown = outline(sound_fit._repr_html_()).split("\n")
    assert "Sampling: ✓ passed; model: no concerns." in shown
    summary = sound_fit.summary()
    at = shown.index("alpha")
    assert float(shown[at + 1]) == pytest.approx(summary["median"]["alpha"], rel=1e-3)
    low, high = (float(text) for text in shown[at + 2].strip("[]").split(", "))
    assert (low, high) == pytest.approx((summary["eti90_lb"]["alpha"], summary["eti90_ub"]["alpha"]), rel=1e-3)


@pytest.mark.slow
def test_a_failed_fit_shows_no_interval(small_fit: Fit) -> None:
    shown = outline(small_fit._repr_html_())
    assert "✗ Sampling FAILED (" in shown
    assert "interrupted" not in shown
    stopped = replace(small_fit, info={**small_fit.info, "interrupted": True})
    assert "✗ Sampling was interrupted" in outline(stopped._repr_html_())
    assert "interval" not in shown
    assert "✗ Sampling FAILED (forced)" in outline(small_fit.forecast(SETTINGS, force=True)._repr_html_())


@pytest.mark.slow
def test_a_forecast_shows_the_interval_to_report(sound_fit: Fit) -> None:
    at = bayeslaw.grid(sound_fit, {"N": [1e9, 1e11], "D": "1e9:1e13:10"})
    result = sound_fit.forecast(at)
    shown, summary = outline(result._repr_html_()).split("\n"), result.summary()
    assert "… 8 more rows" in shown
    heads = [text for text in shown if text in ("run", "extrapolated")]
    assert heads == summary["headline"].tolist()[:12]
    last = len(shown) - 1 - shown[::-1].index("extrapolated")
    assert float(shown[last - 2]) == pytest.approx(summary["extrapolated_median"][11], rel=1e-3)
    assert float(shown[last - 1].strip("[]").split(", ")[1]) == pytest.approx(summary["extrapolated_eti90_ub"][11], rel=1e-3)
    stated = sound_fit.forecast(at, discrepancy="1%")
    shown = outline(stated._repr_html_()).split("\n")
    first = shown.index("discrepancy1%")
    assert float(shown[first - 2]) == pytest.approx(stated.summary()["latent_median"][0], rel=1e-3)


@pytest.mark.slow
def test_only_the_rows_that_are_shown_are_computed(sound_fit: Fit) -> None:
    result = sound_fit.forecast(bayeslaw.grid(sound_fit, {"N": 1e9, "D": "1e9:1e13:200"}))
    assert "… 188 more rows" in outline(result._repr_html_())
    pd.testing.assert_frame_equal(result._summary(0.9, 12), result.summary().head(12))


@pytest.mark.slow
def test_a_plan_shows_its_losses_and_verdicts_or_that_there_is_none(ptpp_fit: Fit) -> None:
    plan = plan_of(ptpp_fit)
    shown = outline(plan._repr_html_())
    assert "target: sampling: ✓ passed; model: no concerns." in shown
    assert "target loss (nats/token)" in shown
    nowhere = replace(plan, best=None, losses=pd.DataFrame().assign(checks="passed"))
    shown = outline(nowhere._repr_html_())
    assert "infeasible at confidence 0.9" in shown
    assert "Losses" not in shown


def test_a_backtest_shows_its_conclusion_and_scores() -> None:
    reach = np.linspace(0.2, 1.8, 8)
    rows = pd.DataFrame({
        "cut": 1e20, "row": np.arange(1, 9), "run": "a", "reach": reach, "as": "", "spread": "run", "loss": 2.0, "median": 2.01,
        "eti50_lb": 1.99, "eti50_ub": 2.02, "eti80_lb": 1.95, "eti80_ub": 2.05, "eti90_lb": 1.9, "eti90_ub": 2.1, "crps": 0.01,
        "pit": 0.4, "checks": "passed", "model": "no concerns",
    })  # fmt: skip
    cuts = pd.DataFrame({"cut": [1e20], "rows": [9], "runs": [3], "beyond": [8], "scored": [8], "checks": "passed"})
    result = Backtest("chinchilla", "compute", rows, cuts, ("a note",))
    shown = outline(result._repr_html_())
    assert result.text in shown
    assert "note: a note" in shown
    assert "0.5 to 1" in shown


def test_runs_show_what_was_read(sound_fit: Fit) -> None:
    shown = outline(runs_of(sound_fit)._repr_html_())
    assert "… 24 more rows" in shown
    assert "note: read: N = params_b x 1e+09" in shown
    assert "losses in nats/token" in shown
    mixed = pd.DataFrame({"N": [1.0, 2.0], "loss": [1.0, 2.0], "unit": ["nats/token", "bits/byte"]})
    with fails("mixed-units"):
        _ = bayeslaw.Runs(mixed).unit
    assert "losses in bits/byte, nats/token" in outline(bayeslaw.Runs(mixed)._repr_html_())


@pytest.mark.parametrize("make", [lambda: line_fit(), lambda: bayeslaw.Runs(pd.DataFrame({"x" * 300: [1.0]}), "y" * 300)])
def test_long_names_are_wrapped(make: Callable[[], Any]) -> None:
    assert max(map(len, repr(make()).split("\n"))) <= 80


def test_results_that_hold_arrays_are_shown_in_a_line(sound_fit: Fit) -> None:
    size = next(iter(sound_fit.draws.values())).size
    allocation = bayeslaw.allocate(sound_fit, "1e19:1e21:3")
    assert repr(allocation) == f"<Allocation of 3 budgets by {sound_fit.name}: {size:,} draws>"
    transfer = Transfer(SETTINGS, np.ones((400, 1)), np.full((400, 1), 1e10))
    assert repr(transfer) == "<Transfer at 1 setting: 400 draws>"
    assert repr(Transfer(SETTINGS, np.ones((1, 1)), np.full((1, 1), 1e10))) == "<Transfer at 1 setting: 1 draw>"  # of a point fit
    updated = Update(sound_fit, pd.DataFrame(), True, "The new runs agree with the predictions.", None)
    assert repr(updated) == f"<Update of {sound_fit.name}: The new runs agree with the predictions.>"
    rows = pd.DataFrame({"N": [1e9, 1e9, 2e9, 2e9], "task": ["a", "b", "a", "b"]})
    assert repr(average(rows, np.ones((400, 4)), "task")) == "<Averages over task at 2 settings: 400 draws>"


@pytest.mark.slow
def test_tables_of_summaries_fit_80_columns(sound_fit: Fit) -> None:
    for table in (sound_fit.summary(), sound_fit.forecast(SETTINGS).summary(), compared(sound_fit).weights):
        with pd.option_context("display.width", 80):
            assert max(map(len, repr(table).split("\n"))) <= 80
