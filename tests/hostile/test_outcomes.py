"""Tables and cards of outcomes other than losses that commands must refuse, and decisions that are not about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import BayeslawError, TableError
from bayeslaw.inference.fit import fit as make_fit
from tests.commands import Command
from tests.errors import fails
from tests.fixed import line_fit
from tests.hostile.conftest import Refuse
from tests.outcomes import card, law, outcome_fit, table

Change = Callable[[pd.DataFrame], pd.DataFrame]
TABLES: dict[str, tuple[str, Change, str]] = {
    "a score at its lower bound": ("bounded", lambda f: f.assign(score=[0.0, *f["score"][1:]]), "at-a-bound"),
    "a score at its upper bound": ("bounded", lambda f: f.assign(score=[100.0, *f["score"][1:]]), "at-a-bound"),
    "an accuracy above 1": ("count", lambda f: f.assign(accuracy=[1.01, *f["accuracy"][1:]]), "percent"),
    "accuracies in percent": ("count", lambda f: f.assign(accuracy=100 * f["accuracy"]), "percent"),
    "a negative accuracy": ("count", lambda f: f.assign(accuracy=[-0.1, *f["accuracy"][1:]]), "out-of-bounds"),
    "an accuracy that is a text": ("count", lambda f: f.assign(accuracy=["good", *f["accuracy"][1:]]), "not-a-number"),
    "accuracies that are texts": ("count", lambda f: f.assign(accuracy="good"), "column-without-numbers"),
    "zero items": ("count", lambda f: f.assign(items=[0, *f["items"][1:]]), "out-of-support"),
    "half an item": ("count", lambda f: f.assign(items=[10.5, *f["items"][1:]]), "not-whole"),
    "a negative number of items": ("count", lambda f: f.assign(items=-f["items"]), "out-of-support"),
    "errors of counts": ("count", lambda f: f.assign(accuracy_se=0.01), "error-of-a-count"),
    "losses in place of accuracies": ("count", lambda f: f.rename(columns={"accuracy": "loss"}), "missing-column"),
    "an infinite gain": ("real", lambda f: f.assign(gain=[float("inf"), *f["gain"][1:]]), "infinite-value"),
    "a memory of 0": ("positive", lambda f: f.assign(memory=[0.0, *f["memory"][1:]]), "at-a-bound"),
}


@pytest.fixture(params=TABLES)
def faulty(request: pytest.FixtureRequest, here: Path) -> tuple[str, str]:
    """Files with a law, a faulty table and a fit to a sound one; the kind of outcome, and the code of the fault."""
    kind, change, code = TABLES[request.param]
    frame = change(table(kind))
    frame.to_csv(here / "faulty.csv", index=False)
    frame.assign(run="new " + frame["run"], D=1.1 * frame["D"]).to_csv(here / "new.csv", index=False)
    (here / "law.toml").write_text(card(kind), encoding="utf-8")
    outcome_fit(kind).save(here / "outcome.nc")
    return kind, code


def test_a_faulty_table_is_refused_by_fit_score_and_update(faulty: tuple[str, str], refuse: Refuse) -> None:
    _, code = faulty
    refuse("fit", "law.toml", "faulty.csv", "-o", "new.nc", code=code)
    refuse("score", "outcome.nc", "faulty.csv", code=code)
    refuse("update", "outcome.nc", "new.csv", "-o", "new.nc", code=code)


@pytest.mark.parametrize("name", TABLES)
def test_a_faulty_table_is_refused_in_python(name: str) -> None:
    kind, change, code = TABLES[name]
    frame = change(table(kind))
    for use in (lambda: make_fit(law(kind), frame, progress=False), lambda: bayeslaw.score(outcome_fit(kind), frame)):
        with fails(code, kind=TableError):
            use()


def test_a_fit_needs_items_and_its_scores_and_forecasts_know_them(here: Path, refuse: Refuse, command: Command) -> None:
    """Where all fitted rows have one number of items, a table without the column has the same."""
    outcome_fit("count").save(here / "outcome.nc")
    (here / "law.toml").write_text(card("count"), encoding="utf-8")
    table("count").drop(columns="items").to_csv(here / "bare.csv", index=False)
    refuse("fit", "law.toml", "bare.csv", "-o", "new.nc", code="missing-column")
    refuse("score", "outcome.nc", "bare.csv", code="nothing-held-out")
    done = command("forecast", "outcome.nc", "--set", "N=1e9", "--set", "D=1e10")
    assert done.status == 0
    assert "200" in done.out


@pytest.mark.usefixtures("faulty")
def test_check_lists_the_faults(command: Command) -> None:
    done = command("check", "faulty.csv", "--law", "law.toml")
    assert done.status == 2
    assert "Traceback" not in done.err + done.out


def test_settings_with_impossible_numbers_of_items_are_refused(here: Path, refuse: Refuse) -> None:
    outcome_fit("count").save(here / "outcome.nc")
    at = ("--set", "N=1e9", "--set", "D=1e10")
    for items in ("0", "-3", "many"):
        refuse("forecast", "outcome.nc", *at, "--set", f"items={items}")


@pytest.mark.parametrize(
    "change",
    [("0.25\n", "25\n"), ('"count"', '"counts"'), ('"items"\n', '"questions"\n'), ('"accuracy"', '"loss"'), ("formula", "loss")],
)
def test_a_faulty_card_is_refused(change: tuple[str, str], here: Path, refuse: Refuse) -> None:
    (here / "law.toml").write_text(card("count").replace(*change, 1), encoding="utf-8")
    table("count").to_csv(here / "table.csv", index=False)
    refuse("fit", "law.toml", "table.csv", "-o", "new.nc")
    refuse("laws", "law.toml")


@pytest.mark.parametrize("kind", ["count", "bounded", "real", "positive"])
def test_decisions_about_losses_refuse_other_outcomes(kind: str) -> None:
    fit, settings = outcome_fit(kind), {"N": 1e9, "items": 100}
    name = fit.law.outcome.plural
    recipe = bayeslaw.dynamics.Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")
    for use in (
        lambda: bayeslaw.allocate(fit, 1e21),
        lambda: bayeslaw.transfer(fit, {**settings, "D": 1e10}),
        lambda: bayeslaw.plan(None, fit, settings, on="latent", max_loss=2.0),
        lambda: bayeslaw.dynamics.turning_point(fit, recipe),
        lambda: bayeslaw.dynamics.balance(fit, fit, recipe, {"peak": (1e-5, 1e-3)}, weight=0.5),
    ):
        with fails("not-a-loss", name, "needs a fit of losses", kind=BayeslawError):
            use()


@pytest.mark.parametrize("kind", ["count", "bounded", "real"])
def test_choices_of_runs_refuse_outcomes_that_are_not_positive(kind: str) -> None:
    runs, at = (
        pd.DataFrame({"run": ["a", "b"], "N": 1e9, "D": [1e10, 1e11], "items": 100}),
        pd.DataFrame({"N": [1e10], "D": [1e12]}),
    )
    with fails("not-a-loss", "kind positive"):
        bayeslaw.anchors(outcome_fit(kind), runs, at.assign(items=100), budget=1e22)
    with fails("not-a-loss", "kind positive"):
        bayeslaw.design.nested(outcome_fit(kind), runs, at.assign(items=100))


def test_runs_are_chosen_for_a_positive_outcome() -> None:
    runs, at = pd.DataFrame({"run": ["a", "b"], "N": 1e9, "D": [1e10, 1e11]}), pd.DataFrame({"N": [1e10], "D": [1e12]})
    assert len(bayeslaw.anchors(outcome_fit("positive"), runs, at, budget=1e22).picks)


def test_commands_refuse_decisions_with_exit_status_2(here: Path, refuse: Refuse) -> None:
    outcome_fit("count").save(here / "outcome.nc")
    table("count").rename(columns={"run": "name"}).head(2).to_csv(here / "at.csv", index=False)
    refuse("allocate", "outcome.nc", "--compute", "1e21", code="not-a-loss")
    refuse("transfer", "outcome.nc", "--set", "N=1e9", "--set", "D=1e10", code="not-a-loss")
    refuse(
        "plan",
        "--target",
        "outcome.nc",
        "--set",
        "N=1e9",
        "--set",
        "items=100",
        "--on",
        "latent",
        "--max-loss",
        "2",
        code="not-a-loss",
    )
    refuse("anchors", "outcome.nc", "--candidates", "at.csv", "--targets", "at.csv", "--budget", "1e22", code="not-a-loss")


def test_laws_of_different_outcomes_are_neither_compared_nor_stacked(here: Path, refuse: Refuse) -> None:
    for kind in ("count", "bounded"):
        (here / f"{kind}.toml").write_text(card(kind), encoding="utf-8")
    (here / "other.toml").write_text(card("bounded").replace('"score"', '"accuracy"'), encoding="utf-8")
    table("count").assign(loss=2.0).to_csv(here / "table.csv", index=False)
    for other in ("bounded.toml", "other.toml", "chinchilla"):
        refuse("compare", "table.csv", "--law", "count.toml", "--law", other, code="different-outcomes")
        refuse("fit", f"count.toml,{other}", "table.csv", "-o", "new.nc", code="different-outcomes")
    with fails("different-outcomes", "count-law predicts accuracy", "line predicts loss"):
        bayeslaw.Stack({"a": outcome_fit("count"), "b": line_fit()}, {"a": 0.5, "b": 0.5})


def test_laws_of_one_outcome_are_stacked_whatever_they_say_of_chance() -> None:
    fit = outcome_fit("count")
    other = replace(fit, law=replace(fit.law, outcome=replace(fit.law.outcome, chance=0.1)))
    assert bayeslaw.Stack({"a": fit, "b": other}, {"a": 0.5, "b": 0.5}).outcome.name == "accuracy"


@pytest.mark.parametrize("accuracy", [0.0, 1.0, 0.5])
def test_accuracies_that_are_all_the_same_are_fitted_and_forecast_within_bounds(accuracy: float) -> None:
    frame = table("count").assign(accuracy=accuracy)
    fit = make_fit(law("count"), frame, draws=100, tune=100, chains=2, progress=False)
    shown = fit.forecast(frame.head(3).drop(columns="accuracy"), force=True).summary().filter(regex="median|eti").to_numpy()
    assert ((shown >= 0) & (shown <= 1)).all()
