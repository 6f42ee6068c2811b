"""Comparisons for stated targets: forecasts beyond cuts, refits to all rows, failed sampling, and one with sampled fits."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import FitError
from bayeslaw.core.executors import Result
from bayeslaw.data.table import Runs
from bayeslaw.evaluation import comparison
from bayeslaw.evaluation.backtest import Beyond
from bayeslaw.evaluation.compare import compare
from bayeslaw.evaluation.comparison import Comparison
from bayeslaw.evaluation.scores import crps
from bayeslaw.forecasting.stack import Stack, load_fit
from bayeslaw.inference.batch import Task, fit_many
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, rejected
from tests.errors import fails
from tests.fixed import without_sampling
from tests.twins import TRUTHS, simulate

# Comparisons of the same laws on the same table; worker processes sample again.
pytestmark = pytest.mark.usefixtures("kept_draws")
TABLE = oracles.table(load_law("chinchilla"), runs=12)
LAWS = ("chinchilla", "kaplan")
SHORT: dict[str, Any] = {"draws": 150, "tune": 100, "chains": 2, "discrepancy": "none"}
QUICK: dict[str, Any] = {"options": SHORT, "force": True, "progress": False, "seed": 3}
SOUND = QUICK | {"options": SHORT | {"draws": 1500}, "force": False}  # with as many draws, checks of `stand_in` pass
LARGE = {"N": 2 * TABLE["N"].max(), "D": 2 * TABLE["D"].max()}


@pytest.fixture(autouse=True)
def unsampled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fits have draws of `stand_in`, but where a test is of sampled ones."""
    if "statistical" in request.keywords:
        yield
        return
    with without_sampling():
        yield


@pytest.fixture(scope="module")
def chosen() -> Comparison:
    with without_sampling():
        return compare(TABLE, LAWS, at=LARGE, **QUICK)


def test_forecasts_are_those_of_fits_to_the_rows_up_to_a_cut(chosen: Comparison) -> None:
    compute = 6 * TABLE["N"] * TABLE["D"]
    assert chosen.by == "compute"
    first = chosen.scores[chosen.scores["held_out"] == chosen.scores["held_out"].iloc[0]]
    assert first["fit"].tolist() == ["posterior", "posterior", "stack"]
    rows = int(first["rows"].iloc[0])
    cut = compute.sort_values().iloc[len(TABLE) - rows - 1]
    held = TABLE[compute > cut]
    fit = bayeslaw.fit("kaplan", TABLE[compute <= cut], seed=3, progress=False, **SHORT)
    draws = bayeslaw.forecast(fit, held, as_="new-run", seed=3, force=True).predictive
    own = first[first["law"] == "kaplan"].iloc[0]
    assert own["crps"] == pytest.approx(crps(held["loss"].to_numpy(), draws).mean(), rel=0.02)
    assert own["mae_rel"] == pytest.approx((np.abs(np.median(draws, axis=0) / held["loss"] - 1)).mean(), rel=0.02)
    assert own["held_out"] == f"compute > {cut:.3g}"


def test_the_stack_is_of_fits_to_all_rows(chosen: Comparison) -> None:
    assert chosen.stack.table["rows"].tolist() == [len(TABLE)] * 2
    weights = chosen.weights["weight"]
    assert weights.sum() == pytest.approx(1)
    assert chosen.stack.weights == pytest.approx(weights.to_dict())
    assert weights.index[0] == "chinchilla"
    assert weights["kaplan"] > 0  # shrunk, however bad
    assert 0 < chosen.weights["hold_outs"].iloc[0] <= 5
    assert (chosen.runs.notna() & (chosen.runs > 0)).all(axis=None)
    assert chosen.notes[0].startswith("1 of 1 targets lie beyond the runs, up to ")
    assert sum("independent hold-outs" in note for note in chosen.notes) == 1


def test_a_stack_of_laws_that_learnt_no_error_is_scored_with_the_share_that_its_forecasts_have() -> None:
    laws = ("plateau-target", "transfer-target")
    table = oracles.table(load_law("transfer-target"), runs=12)
    table = table.assign(ptpp=table["run"].factorize()[0] % 4 * 20.0 + 20.0, loss=1.2 * table["loss"])  # off both laws
    options = QUICK | {"options": SHORT | {"discrepancy": "learned"}}
    found = compare(table, laws, at={"N": table["N"].min(), "D": table["D"].min(), "r": 0.1, "ptpp": 160.0}, **options)
    assert found.by == "ptpp"
    scores = found.scores[found.scores["held_out"] == found.scores["held_out"].iloc[-1]].set_index("law")
    assert scores["spread"].to_dict() == dict.fromkeys((*laws, "stack"), "extrapolated")
    below, held = table[table["ptpp"] < 80], table[table["ptpp"] == 80]
    fits = {name: bayeslaw.fit(name, below, seed=3, progress=False, **options["options"]) for name in laws}
    forecast = bayeslaw.forecast(Stack.of(fits, found.stack.weights), held, as_="new-run", seed=3, force=True)
    low, high = np.quantile(forecast.predictive, [0.05, 0.95], axis=0)
    assert scores.loc["stack", "width_eti90"] == pytest.approx((high - low).mean(), rel=0.05)
    assert scores.loc["stack", "crps"] == pytest.approx(crps(held["loss"].to_numpy(), forecast.predictive).mean(), rel=0.05)


def test_targets_inside_the_runs_leave_out_single_runs() -> None:
    inside = compare(TABLE, ["chinchilla"], at=TABLE[["N", "D"]].head(2), **QUICK)
    single = compare(TABLE, ["chinchilla"], loo=True, **QUICK)
    pd.testing.assert_frame_equal(inside.weights, single.weights)
    assert inside.by == ""
    assert "interpolation" in inside.notes[0]


def test_base_checkpoints_are_fitted_by_the_laws_that_describe_them() -> None:
    table = oracles.table(load_law("transfer-target"), runs=12)
    runs = pd.concat([table, table.iloc[[0, 5]].assign(D=0.0, r=np.nan, loss=4.0, run=["x", "y"])], ignore_index=True)
    at = {"N": runs["N"].max(), "D": 3 * runs["D"].max(), "r": 0.1, "ptpp": 31}
    both = compare(runs, ["transfer-target", "chinchilla"], at=at, **QUICK)
    rows = {name: fit.observed.response.size for name, fit in both.stack.members.items()}
    assert rows == {"transfer-target": len(table) + 2, "chinchilla": len(table)}
    assert not both.runs.index.get_level_values("run").isin(["x", "y"]).any()
    assert any(note.startswith("2 base-checkpoint rows (D = 0) are fitted by transfer-target alone") for note in both.notes)


# --- failed sampling -------------------------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, broken: Callable[[Task], bool]) -> list[Task]:
    """Let the sampling of broken tasks fail; return the list that tasks are added to."""
    seen = list[Task]()

    def judged(tasks: Sequence[Task], **options: Any) -> list[Result[Any]]:
        seen.extend(tasks)
        outcomes = []
        for task, outcome in zip(tasks, fit_many(tasks, **options), strict=True):
            value = outcome.value
            if broken(task) and isinstance(value, Beyond):
                value = replace(value, verdict="FAILED (r_hat). Sample longer.", rows=value.rows.iloc[:0])
            elif broken(task) and isinstance(value, Fit):
                value = replace(value, checks=tuple(replace(c, passed=c.name != "r_hat") for c in value.checks))
            outcomes.append(replace(outcome, value=value))
        return outcomes

    monkeypatch.setattr(comparison, "fit_many", judged)
    return seen


def is_kaplan(task: Task) -> bool:
    return isinstance(task.law, Law) and task.law.name == "kaplan"


def test_a_law_whose_sampling_fails_is_named_and_has_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, is_kaplan)
    result = compare(TABLE, LAWS, at=LARGE, **SOUND)
    assert result.stack.weights == {"chinchilla": 1.0}
    assert result.weights.loc["kaplan", "checks"] == "FAILED (not scored)"
    assert np.isnan(result.weights["weight"]["kaplan"])
    assert any(note.startswith("kaplan: sampling FAILED (r_hat)") for note in result.notes)
    with fails("failed-checks", "kaplan", kind=FitError):
        compare(TABLE, ["kaplan"], at=LARGE, **SOUND)


def test_a_cut_beyond_which_a_law_failed_counts_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    def at_first_cut(task: Task) -> bool:
        assert isinstance(task.runs, Runs)
        sizes.append(len(task.runs))
        return is_kaplan(task) and sizes[-1] == min(sizes)

    failing(monkeypatch, at_first_cut)
    result = compare(TABLE, LAWS, at=LARGE, **SOUND)
    assert result.scores["held_out"].nunique() == len({*sizes}) - 2  # one size is the whole table's
    assert set(result.stack.members) == {*LAWS}
    assert sum("not scored. sampling FAILED (r_hat)" in note for note in result.notes) == 1


def test_laws_that_cannot_be_fitted_below_a_cut_are_named() -> None:
    few = TABLE.sample(14, random_state=0)
    with fails("too-few-rows", "chinchilla-nd"):
        compare(few, ["chinchilla-nd"], at=LARGE, **QUICK)
    result = compare(few, ["chinchilla", "chinchilla-nd"], at=LARGE, **QUICK)
    assert list(result.stack.weights) == ["chinchilla"]
    assert any(note.startswith("chinchilla-nd is not judged and has no weight. ") for note in result.notes)


def test_results_do_not_depend_on_the_order_of_laws(chosen: Comparison) -> None:
    other = compare(TABLE, LAWS[::-1], at=LARGE, **QUICK)
    pd.testing.assert_series_equal(other.weights["weight"], chosen.weights["weight"], atol=1e-4)


# --- command ---------------------------------------------------------------------------------------------------------

FAST = ("-q", "--draws", "150", "--tune", "100", "--chains", "2", "--noise", "skew", "--force")


def test_compare_takes_targets(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("runs.csv", index=False)
    line = ("compare", "runs.csv", "--law", "chinchilla", "--law", "kaplan", *FAST)
    done = command(*line, "--at", f"N={LARGE['N']},D={LARGE['D']},1e12", "-o", "stack.nc")
    assert (done.status, done.err) == (0, "")
    assert "relative CRPS of forecasts beyond cuts along compute, and weights\n" in done.out
    assert "note: 2 of 2 targets lie beyond the runs" in done.out
    stack = load_fit("stack.nc")
    assert isinstance(stack, Stack)
    assert set(stack.members) == {*LAWS}
    pd.DataFrame([LARGE]).to_csv("grid.csv", index=False)
    scores = pd.read_csv(io.StringIO(command(*line, "--at", "grid.csv", "--cuts", "2", "--csv").out))
    assert scores["held_out"].str.startswith("compute > ").all()
    assert scores["held_out"].nunique() == 2
    single = command(*line)
    assert "judges laws between the runs: to choose one for forecasts beyond them, give --at." in single.out
    rejected(command(*line, "--at", "grid.csv", "--loo"), "several-holdouts", "at")


# --- sampled ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_the_law_that_made_the_losses_is_chosen() -> None:
    """Losses with a floor of chinchilla, which kaplan does not have: ten times beyond the runs it lies far too low."""
    rng = np.random.default_rng(5)
    size = np.exp(rng.uniform(np.log(1e7), np.log(3e9), 40))
    tokens = size * np.exp(rng.uniform(np.log(5), np.log(80), 40))
    frame = pd.DataFrame({"N": size, "D": tokens, "run": [f"r{i}" for i in range(40)]})
    runs = simulate(load_law("chinchilla"), TRUTHS["chinchilla"], frame, 2)
    options = {"draws": 400, "tune": 300, "chains": 4, "discrepancy": "none"}
    result = compare(runs, LAWS, at={"N": 1e10, "D": 2e11}, options=options, progress=False, seed=1)
    assert (result.weights["checks"] == "passed").all()
    assert result.stack.weights["chinchilla"] > 0.75
    later = simulate(load_law("chinchilla"), TRUTHS["chinchilla"], pd.DataFrame({"N": [1e10], "D": [2e11], "run": ["x"]}), 3)
    loss, members = later["loss"].to_numpy(), result.stack.members
    errors = {name: crps(loss, bayeslaw.forecast(members[name], later).predictive).item() for name in LAWS}
    assert errors["chinchilla"] < errors["kaplan"] / 2
