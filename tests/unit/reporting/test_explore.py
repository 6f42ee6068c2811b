"""What the explorer's page is made of; tests/integration/test_explore.py opens it in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.forecasting.stack import Stack
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.explore import explore, numbers, thinned
from bayeslaw.reporting.figures import data_fan
from tests import oracles
from tests.errors import fails
from tests.fixed import fixed_fit, line_fit, typical_fit
from tests.pages import HOSTILE, Page
from tests.posteriors import law_named, posterior, scattered


def test_draws_are_evenly_spaced_and_in_their_order() -> None:
    one, other = line_fit(size=40), line_fit(size=40)
    kept = thinned([(one, np.arange(30)), (other, np.arange(10, 20))], 8)
    assert [(fit is one, chosen.tolist()) for fit, chosen in kept] == [(True, [2, 7, 12, 17, 22, 27]), (False, [12, 17])]
    assert [chosen.size for _, chosen in thinned([(one, np.arange(40))], 40)] == [40]


def test_numbers_keep_every_digit() -> None:
    values = np.array([np.pi, 1e-300, -0.1])
    assert np.array_equal(np.frombuffer(base64.b64decode(numbers(values)), "<f8"), values)


def test_as_many_draws_as_the_smallest_fit_has() -> None:
    made = explore({"a": line_fit(size=80), "b": line_fit(size=400)})
    assert made.data["draws"] == 80
    assert [fit["members"][0]["size"] for fit in made.data["fits"]] == [80, 80]


def test_sliders_begin_at_the_largest_run_and_go_beyond_the_runs_within_supports() -> None:
    fit = typical_fit("transfer-target")
    sliders = {slider["name"]: slider for slider in explore({"a": fit}).data["sliders"]}
    seen = fit.observed.covariates
    assert list(sliders) == ["N", "D", "r", "ptpp"]
    assert sliders["N"]["start"] == seen["N"].max()
    assert (sliders["N"]["low"], sliders["N"]["high"]) == pytest.approx((seen["N"].min() / 3, seen["N"].max() * 100))
    assert (sliders["r"]["low"], sliders["r"]["high"]) == (0, 1)
    for name, slider in sliders.items():
        low, high = fit.law.covariates[name].support
        assert low <= slider["low"] < slider["high"] <= high


def task_fit(first_chance: float = 0.25) -> Fit:
    """Accuracies of two tasks; the last row is of the second, and pages begin with the first."""
    losses = pd.Series([2.2, 2.6, 3.0, 3.4] * 2)
    table = pd.DataFrame({"loss": losses, "items": 500, "task": ["arc"] * 4 + ["coin"] * 4, "chance": [0.25] * 4 + [0.5] * 4})
    table["accuracy"] = (table["chance"] + 0.4 / (1 + np.exp(3 * (losses - 2.8)))).round(3)
    table.loc[0, "chance"] = first_chance
    values = {"L0": 2.8, "L0_spread": 0.1, "L0_arc": 2.8, "L0_coin": 2.9, "k": 3.0, "top": 0.85}
    values |= {"sigma_point": 0.1, "sigma_run": 0.1}
    draws = {name: np.full(400, value) for name, value in values.items()}
    return fixed_fit(law_named("task-sigmoid"), table, draws, by={"L0": "task"})


def test_a_task_has_its_own_chance() -> None:
    data = explore({"a": task_fit()}).data
    starts = {slider["name"]: slider["start"] for slider in data["sliders"]}
    assert starts == {"loss": 2.2, "chance": 0.25}  # the largest model is that of the least loss
    (column,) = data["columns"]
    assert {task: facts["chance"] for task, facts in column["facts"].items()} == {"arc": 0.25, "coin": 0.5}
    (column,) = explore({"a": task_fit(first_chance=0.2)}).data["columns"]
    assert column["facts"] == {"arc": {"items": 500.0}, "coin": {"items": 500.0, "chance": 0.5}}


def test_a_report_draws_a_curve_for_each_task() -> None:
    fan = data_fan(task_fit(), force=True)
    assert not isinstance(fan, str), fan
    assert fan[0].settings.groupby("task")["chance"].first().to_dict() == {"arc": 0.25, "coin": 0.5}


def test_covariates_of_several_fits_are_one_slider_within_both_supports() -> None:
    fits = {"a": typical_fit("transfer-target"), "b": typical_fit("chinchilla"), "c": typical_fit("transfer-source")}
    both = explore(fits).data["sliders"]
    assert [slider["name"] for slider in both] == ["N", "D", "r", "ptpp"]
    (n, d) = both[:2]
    assert d["support"][0] == 1e2
    assert (n["unit"], d["unit"]) == ("parameters", "adaptation tokens; training tokens")


def test_what_the_loss_does_not_depend_on_is_named_so() -> None:
    sliders = {slider["name"]: slider for slider in explore({"a": typical_fit("cpt-dynamics")}).data["sliders"]}
    assert sliders["lr_peak"]["idle"]
    assert not sliders["S1_pt"]["idle"]


def test_the_page_says_that_compute_counts_all_parameters_of_a_mixture_of_experts() -> None:
    for name, said in (("sparse-experts", True), ("chinchilla", False)):
        fit = posterior(law_named(name), scattered(oracles.typical(law_named(name)), 80, 1))
        assert ("6 N D with all N parameters" in explore(fit).html) == said


def test_the_page_is_whole_and_its_policy_has_the_hashes_of_what_is_in_it() -> None:
    fit = line_fit(names=(HOSTILE, "r1", "r2", "r3"))
    page = explore({HOSTILE: replace(fit, law=replace(fit.law, note="</style>" + HOSTILE))}, command=f"explore {HOSTILE}").html
    parsed = Page.of(re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL))
    assert HOSTILE in "".join(parsed.text)
    policy = next(meta["content"] for meta in parsed.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


@pytest.mark.slow
def test_the_same_fit_makes_the_same_page() -> None:
    assert explore({"a": line_fit()}).html == explore({"a": line_fit()}).html
    assert explore({"a": line_fit()}, seed=1).html != explore({"a": line_fit()}).html


def test_every_label_of_a_control_leads_to_one() -> None:
    page = Page.of(re.sub(r"<(script|style)\b.*?</\1>", "", explore({"a": typical_fit("chinchilla")}).html, flags=re.DOTALL))
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    assert {label["for"] for label in page.all("label")} <= ids
    assert {attrs["aria-labelledby"] for _, attrs in page.elements if "aria-labelledby" in attrs} <= ids


def test_a_stack_has_a_member_for_each_law() -> None:
    fits = {name: typical_fit(name) for name in ("chinchilla", "kaplan")}
    made = explore({"both": Stack(fits, {"chinchilla": 0.5, "kaplan": 0.5})}, draws=100)
    assert [member["size"] for member in made.data["fits"][0]["members"]] == [50, 50]
    assert len(made.laws) == 2


def refusals(fit: Fit) -> list[tuple[dict[str, Any], dict[str, Any], str]]:
    return [
        ({}, {}, "number-of-fits"),
        ({str(i): fit for i in range(4)}, {}, "number-of-fits"),
        ({"a": fit}, {"draws": 3000}, "too-many-draws"),
    ]


@pytest.mark.slow
def test_bad_arguments_are_refused() -> None:
    for fits, options, code in refusals(line_fit()):
        with pytest.raises(BayeslawError) as caught:
            explore(fits, **options)
        assert caught.value.code == code
    for options in ({"draws": 10}, {"draws": 100.5}, {"seed": -1}):
        with pytest.raises(BayeslawError):
            explore({"a": line_fit()}, **options)


def test_a_page_is_written_to_a_file(tmp_path: Path) -> None:
    page = explore({"a": line_fit()}, draws=100)
    for path, code in ((None, "not-a-path"), (tmp_path, "is-a-folder"), (tmp_path / "none" / "page.html", "no-folder")):
        with fails(code):
            page.save(path)  # type: ignore[arg-type]


def test_a_notebook_shows_the_page_in_a_line() -> None:
    """And not its draws."""
    assert repr(explore({"mine": line_fit()}, draws=100)) == "<Explorer of mine: 100 draws of each fit; `save` writes the page>"


def test_a_failed_fit_is_refused_unless_forced() -> None:
    failed = line_fit(passed=False)
    with pytest.raises(FitError) as caught:
        bayeslaw.explore({"mine": failed})
    assert "mine" in str(caught.value)
    assert "sampling FAILED" in bayeslaw.explore({"mine": failed}, force=True).html
