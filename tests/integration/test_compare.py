"""Comparison of laws: the rows of each fit, scores and weights against those of single fits, refusals."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import FitError, TableError
from bayeslaw.core.executors import InProcess, Result, outcome_of, run_payload
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.evaluation import compare as comparison
from bayeslaw.evaluation.compare import NO_POINTS, compare
from bayeslaw.evaluation.comparison import LEFT_OUT, SCORED_TWICE, Comparison
from bayeslaw.evaluation.loo import held_out_density, leave_one_run_out, split_run
from bayeslaw.evaluation.scores import draw_scores, point_scores, score
from bayeslaw.forecasting.stack import Stack, stacking
from bayeslaw.inference.batch import Task, fit_many
from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import load_law
from tests import oracles
from tests.errors import fails
from tests.fixed import without_sampling

# Comparisons of the same laws on the same table; worker processes sample again.
pytestmark = pytest.mark.usefixtures("kept_draws")
TABLE = oracles.table(load_law("ptpp-floor"), runs=12)
RUNS = read_runs(TABLE)
OUTLYING = read_runs(TABLE.assign(loss=TABLE["loss"] * np.where(TABLE["run"] == "run 3", 1.04, 1.0)))
"""With a run so far off that importance weights can't leave it out."""
LAWS = ("ptpp-floor", "chinchilla")
SHORT: dict[str, Any] = {"draws": 150, "tune": 100, "chains": 2}
QUICK: dict[str, Any] = {"options": SHORT, "starts": 1, "force": True, "progress": False}
HEAD = ["held_out", "law", "noise", "fit", "checks", "model", "spread", "rows"]


class Travelling(InProcess):
    """Items are pickled and unpickled as they would be for another process."""

    def stream[I, T](self, function: Callable[[I], T], items: Sequence[I], *, what: str = "item") -> Generator[Result[T]]:
        for index, item in enumerate(items):
            yield outcome_of(index, what, run_payload(cloudpickle.dumps((function, item))))


@pytest.fixture(autouse=True)
def unsampled() -> Iterator[None]:
    """Fits of this file have draws of `stand_in`."""
    with without_sampling():
        yield


@pytest.fixture(scope="module")
def held_out() -> Comparison:
    with without_sampling():
        return compare(RUNS, LAWS, holdout="ptpp > 31", bootstrap=2, seed=3, **QUICK)


@pytest.fixture(scope="module")
def left_out() -> Comparison:
    with without_sampling():
        return compare(OUTLYING, LAWS, seed=3, **QUICK)  # runs are left out where no rows are


# --- rows held out --------------------------------------------------------------------------------------------------


def test_held_out_rows_are_scored_as_by_single_fits(held_out: Comparison) -> None:
    scores = held_out.scores
    assert list(scores)[: len(HEAD)] == HEAD
    assert scores[["law", "fit", "rows"]].values.tolist() == [
        ["ptpp-floor", "posterior", 20], ["chinchilla", "posterior", 20], ["ptpp-floor", "point", 20], ["chinchilla", "point", 20],
        ["stack", "stack", 20],
    ]  # fmt: skip
    assert (scores["held_out"] == "ptpp > 31").all()
    seen, held = RUNS.where("ptpp <= 31"), RUNS.where("ptpp > 31")
    fit = bayeslaw.fit("chinchilla", seen, seed=3, progress=False, **SHORT)
    point = point_fit("chinchilla", seen, starts=1, seed=3)
    alone = {
        "posterior": score(fit, held, seed=3, force=True),
        "point": score(point, held, bootstrap=point.bootstrap(2, seed=3)),
    }
    for kind, row in alone.items():
        columns = [c for c in row if c not in ("fit", *LEFT_OUT)]
        mine = scores[(scores["fit"] == kind) & (scores["law"] == "chinchilla")]
        pd.testing.assert_frame_equal(mine[columns].reset_index(drop=True), row[columns], check_dtype=False)
    errors = "run or extrapolated"  # by chinchilla, which has no ptpp, some rows lie inside the runs; it has no weight in the stack
    assert scores["spread"].tolist() == ["extrapolated", errors, "bootstrap", "bootstrap", "extrapolated"]
    assert scores.notna().all(axis=None)


def test_weights_are_by_the_density_of_held_out_runs(held_out: Comparison) -> None:
    seen, held = RUNS.where("ptpp <= 31"), RUNS.where("ptpp > 31")
    expected = {}
    for law in LAWS:
        fit = bayeslaw.fit(law, seen, seed=3, progress=False, **SHORT)
        expected[law] = held_out_density(fit, seen, held)
    for law in LAWS:
        np.testing.assert_allclose(held_out.runs[law].to_numpy(), expected[law].to_numpy(), rtol=1e-9)
    assert held_out.runs.index.get_level_values("run").tolist() == list(held.frame["run"].unique())
    found = stacking(pd.DataFrame(expected))
    pd.testing.assert_frame_equal(held_out.weights[list(found)], found, check_names=False)
    assert held_out.weights.index[0] == "ptpp-floor"
    assert held_out.weights["runs"].tolist() == [4, 4]
    assert SCORED_TWICE in held_out.notes


def test_a_stack_of_held_out_rows_says_what_it_has_not_seen(held_out: Comparison) -> None:
    assert [
        n for n in held_out.notes if n.startswith("The stack is of fits that have not seen the 20 rows held out by 'ptpp > 31'")
    ]
    assert held_out.stack.table[["rows", "runs"]].values.tolist() == [[40, 8]]


def test_held_out_rows_that_are_also_fitted_are_not_scored(held_out: Comparison) -> None:
    """Rows that are in the table twice, under another name of the run, and on both sides of the condition."""
    fitted = TABLE[TABLE["ptpp"] <= 31]
    twice = pd.concat([TABLE.assign(held=TABLE["ptpp"] > 31), fitted.head(3).assign(held=True, run="again")])
    result = compare(twice, LAWS, holdout="held == 1", bootstrap=2, seed=3, **QUICK)
    assert (result.scores["rows"] == 20).all()
    np.testing.assert_allclose(result.runs, held_out.runs)
    assert "held == 1: rows 61–63 are not scored, since the rows to fit have the same covariates and loss." in result.notes
    with fails("nothing-held-out", "'held == 1'"):
        compare(pd.concat([TABLE.assign(held=0), TABLE.head(5).assign(held=1, run="again")]), LAWS, holdout="held == 1", **QUICK)


def test_the_stack_is_of_the_fits_to_what_was_not_held_out(held_out: Comparison) -> None:
    stack = held_out.stack
    assert list(stack.members) == ["ptpp-floor"]  # the law that made the losses takes all
    assert set(stack.members["ptpp-floor"].observed.covariates["ptpp"]) == {15.0, 31.0}
    row = held_out.scores[held_out.scores["fit"] == "stack"].reset_index(drop=True)
    alone = score(stack, RUNS.where("ptpp > 31"), seed=3, force=True)
    columns = [c for c in alone if c not in ("law", "fit", *LEFT_OUT)]
    pd.testing.assert_frame_equal(row[columns], alone[columns], check_dtype=False)


def test_results_are_identical_on_every_executor(held_out: Comparison) -> None:
    elsewhere = compare(TABLE, LAWS, holdout="ptpp > 31", bootstrap=2, seed=3, executor=Travelling(), **QUICK)
    pd.testing.assert_frame_equal(elsewhere.scores, held_out.scores)
    pd.testing.assert_frame_equal(elsewhere.weights, held_out.weights)


def test_each_value_of_a_column_is_held_out_in_turn() -> None:
    result = compare(RUNS, ["chinchilla"], by="ptpp", **QUICK)
    assert result.scores["held_out"].unique().tolist() == ["ptpp = 15", "ptpp = 31", "ptpp = 279"]
    assert result.scores.groupby("held_out")["fit"].agg(list).tolist() == [["posterior", "point", "stack"]] * 3
    assert result.weights["runs"].tolist() == [12]
    assert sorted(result.runs.index.get_level_values("run")) == sorted(TABLE["run"].unique())
    assert any(note.startswith("Leaving out one ptpp after the other is a diagnostic") for note in result.notes)
    for fit in result.stack.members.values():
        assert fit.observed.response.size == len(TABLE)
    seen, held = RUNS.where("ptpp != 279"), RUNS.where("ptpp == 279")
    alone = score(bayeslaw.fit("chinchilla", seen, progress=False, **SHORT), held, force=True)
    mine = result.scores[(result.scores["held_out"] == "ptpp = 279") & (result.scores["law"] == "chinchilla")].iloc[0]
    assert mine["crps"] == pytest.approx(alone["crps"].iloc[0], rel=1e-12)


# --- runs left out one by one ---------------------------------------------------------------------------------------


def test_runs_are_left_out_by_weights_or_by_a_refit(left_out: Comparison) -> None:
    whole = bayeslaw.fit("ptpp-floor", OUTLYING, seed=3, progress=False, **SHORT)
    loo = leave_one_run_out(whole)
    refits = loo.unreliable
    assert 0 < len(refits) < 12
    assert left_out.weights.loc["ptpp-floor", "refits"] == len(refits)
    assert left_out.weights.loc["ptpp-floor", "k_max"] == pytest.approx(loo.table["pareto_k"].max())
    for run in loo.table.index:
        if run not in refits:
            assert left_out.runs["ptpp-floor"][run] == pytest.approx(loo.table["elpd"][run])
    others, own = split_run(OUTLYING, refits[0])
    refit = bayeslaw.fit("ptpp-floor", others, seed=3, progress=False, **SHORT)
    expected = held_out_density(refit, others, own)
    assert left_out.runs["ptpp-floor"][refits[0]] == pytest.approx(expected.iloc[0])
    assert left_out.weights.loc["ptpp-floor", "elpd"] == pytest.approx(left_out.runs["ptpp-floor"].sum())
    assert left_out.weights.index.tolist() == ["ptpp-floor", "chinchilla"]


def test_left_out_runs_are_scored_without_them(left_out: Comparison) -> None:
    """By resampled draws or the refit's, each run apart."""
    whole = bayeslaw.fit("ptpp-floor", OUTLYING, seed=3, progress=False, **SHORT)
    loo, losses, draws = leave_one_run_out(whole), [], []
    for run in loo.table.index:
        others, own = split_run(OUTLYING, run)
        fit, chosen = whole, loo.resampled(run)
        if run in loo.unreliable:
            fit = bayeslaw.fit("ptpp-floor", others, seed=3, progress=False, **SHORT)
            chosen = np.arange(300)
        values = {name: v[chosen][:, None] for name, v in fit.draws.items()}
        latent = oracles.ptpp_floor(values, {c: own.frame[c].to_numpy() for c in ("N", "D", "r", "ptpp")})
        losses.append(own.frame["loss"].to_numpy())
        noise = fit.noise.sample({k: v[chosen] for k, v in fit.draws.items()}, np.zeros(5, int), np.arange(5), (3, 3))
        draws.append(latent * np.exp(noise.T))
    loss, all_draws = np.concatenate(losses), np.concatenate(draws, axis=1)
    expected = point_scores(loss, np.median(all_draws, axis=0)) | draw_scores(loss, all_draws)
    mine = left_out.scores[left_out.scores["law"] == "ptpp-floor"].iloc[0]
    assert mine["rows"] == 60
    assert mine[list(expected)].to_dict() == pytest.approx(expected, rel=1e-6)
    assert left_out.scores["fit"].tolist() == ["posterior", "posterior"]
    verdicts = left_out.weights["model"]
    assert left_out.scores["model"].tolist() == verdicts[left_out.scores["law"]].tolist()
    assert NO_POINTS in left_out.notes


def test_rows_that_the_table_drops_are_not_scored() -> None:
    """A row that repeats another would count twice in the scores of its run."""
    few = TABLE.head(25)
    twice = read_runs(pd.concat([few, few.tail(1)]), duplicates="drop")
    for how in ({"loo": True}, {"holdout": "run == 'run 4'"}):
        once, dropped = (compare(runs, ["chinchilla"], **how, **QUICK) for runs in (read_runs(few), twice))
        pd.testing.assert_frame_equal(dropped.scores, once.scores)
        assert dropped.notes[0] == f"Left out: row {len(few) + 1}, which repeats an earlier row exactly."


def test_known_errors_of_losses_widen_the_scores_of_left_out_runs() -> None:
    """Losses with known errors of 10% lie within 90% intervals nine times of ten; without the errors few would."""
    table = oracles.table(load_law("chinchilla"), runs=20)
    loss = table["loss"] * np.exp(0.1 * np.random.default_rng(2).standard_normal(len(table)))
    compared = compare(table.assign(loss=loss, loss_se=0.1 * loss), ["chinchilla"], noise=["normal"], **QUICK)
    scores = compared.scores.query("fit == 'posterior'").iloc[0]
    assert scores["rows"] == len(table)
    assert abs(scores["cover_eti90"] - 0.9) < 4 * np.sqrt(0.09 / len(table))


def test_noises_are_compared_too() -> None:
    """A row for each law and noise."""
    table = TABLE.drop(columns="run").head(30)
    result = compare(table, ["chinchilla"], noise=["normal", "student-no-run"], holdout="N > 5e8", **QUICK)
    assert sorted(result.weights.index) == ["chinchilla normal", "chinchilla student-no-run"]
    assert set(result.weights["noise"]) == {"normal", "student-no-run"}
    assert result.scores["noise"].tolist()[:2] == ["normal", "student-no-run"]


def test_the_noise_of_a_card_is_named_and_kept_where_a_run_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its eight runs the table would have the usual noise."""
    noises = []

    def recorded(tasks: Sequence[Task], **options: Any) -> list[Result[Any]]:
        noises.append({task.options["noise"] for task in tasks})
        return fit_many(tasks, **options)

    monkeypatch.setattr("bayeslaw.evaluation.comparison.fit_many", recorded)
    table = oracles.table(load_law("from-base-source"), runs=8, checkpoints=8)
    outlying = table.assign(loss=table["loss"] * np.where(table["run"] == "run 3", 1.2, 1.0))
    with without_sampling():
        result = compare(outlying, ["from-base-source"], **QUICK)
    assert noises == [{"auto"}, {"normal-drift"}]
    assert (
        "from-base-source is fitted with noise normal-drift, which its card names for runs that are logged often." in result.notes
    )


def test_a_failed_refit_without_a_run_is_noted(monkeypatch: pytest.MonkeyPatch, left_out: Comparison) -> None:
    def first_fails(tasks: Sequence[Task], **options: Any) -> list[Result[Any]]:
        outcomes = fit_many(tasks, **options)
        refits = isinstance(tasks[0].runs, Runs) and len(tasks[0].runs) < len(TABLE)
        return [Result(0, None, "fit 1: no."), *outcomes[1:]] if refits else outcomes

    monkeypatch.setattr("bayeslaw.evaluation.comparison.fit_many", first_fails)
    result = compare(OUTLYING, ["ptpp-floor"], seed=3, **QUICK)
    note = next(note for note in result.notes if "can't be refitted" in note)
    assert note.startswith("ptpp-floor can't be refitted without run ")
    assert note.endswith("fit 1: no.")
    assert result.weights["refits"]["ptpp-floor"] == left_out.weights["refits"]["ptpp-floor"] - 1


# --- checks, rows, refusals -----------------------------------------------------------------------------------------


def test_failed_fits_are_shown_without_scores_and_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two laws passes: the stack is of it alone; forced, both are marked and weighed."""
    monkeypatch.setattr(bayeslaw.Fit, "passed", property(lambda fit: fit.law.name == "chinchilla"))
    settings = {**QUICK, "force": False}
    result = compare(RUNS, LAWS, holdout="ptpp > 31", **settings)
    failed = result.scores[(result.scores["law"] == "ptpp-floor") & (result.scores["fit"] == "posterior")].iloc[0]
    assert failed["checks"] == "FAILED (not scored)"
    assert any("ptpp-floor" in note and "sampling FAILED (r_hat" in note for note in result.notes)  # which check failed
    assert failed[["rows", "crps", "rmse_log", "cover_eti90"]].isna().all()
    assert result.weights.loc["ptpp-floor", "checks"] == "FAILED (not scored)"
    assert np.isnan(result.weights.loc["ptpp-floor", ["elpd", "weight"]].astype(float)).all()
    assert result.weights.loc["chinchilla", "weight"] == 1
    assert list(result.stack.members) == ["chinchilla"]
    assert list(result.runs) == ["chinchilla"]
    forced = compare(RUNS, LAWS, holdout="ptpp > 31", **QUICK)
    assert forced.weights["checks"].to_dict() == {"ptpp-floor": "FAILED (forced)", "chinchilla": "passed"}
    assert forced.scores["checks"].tolist()[:2] == ["FAILED (forced)", "passed"]
    assert forced.scores["checks"].tolist()[-1] == "FAILED (forced)"  # a stack with a failed fit
    with fails("failed-checks", "ptpp-floor", kind=FitError):
        compare(RUNS, ["ptpp-floor"], loo=True, **settings)


def test_all_laws_are_compared_on_the_rows_that_each_describes() -> None:
    """Base checkpoints, which a transfer law describes and chinchilla doesn't, are fitted by the one and scored by neither."""
    table = oracles.table(load_law("transfer-target"), runs=12)
    runs = pd.concat([table, table.iloc[[0, 5]].assign(D=0.0, r=np.nan, loss=4.0, run=["x", "y"])])
    both = compare(runs, ["transfer-target", "chinchilla"], holdout="ptpp > 31", **QUICK)
    assert both.notes[0].startswith("2 base-checkpoint rows (D = 0) are fitted by transfer-target alone, since chinchilla can't")
    seen = read_runs(runs).where("ptpp <= 31")
    expected = {law: bayeslaw.fit(law, seen, progress=False, **SHORT) for law in ("transfer-target", "chinchilla")}
    for law, fit in expected.items():
        own = both.scores.query(f"law == '{law}' and fit == 'posterior'").iloc[0]
        held = read_runs(runs).where("ptpp > 31 and D > 0")
        assert own["rows"] == len(held)
        assert own["crps"] == pytest.approx(score(fit, held, force=True)["crps"].item())
        assert len(fit.observed.base) == (0 if law == "transfer-target" else int((seen.frame["D"] == 0).sum()))
    assert (expected["transfer-target"].observed.covariates["D"] == 0).sum() == (seen.frame["D"] == 0).sum() > 0
    few = pd.concat([table.head(25), runs.tail(2)])
    singly = compare(few, ["transfer-target", "chinchilla"], **QUICK)
    assert sorted(singly.runs.index) == sorted(table["run"].unique()[:5])
    assert singly.runs.notna().all(axis=None)
    assert singly.scores["rows"].tolist() == [25] * 2
    joined = compare(few.assign(run=few["run"].replace({"x": "run 0"})), ["transfer-target", "chinchilla"], **QUICK)
    assert joined.notes[1] == "Left out for every law: row 26 of these, since their runs have rows at other D too."
    with fails("only-base-checkpoints", "D == 0"):
        compare(runs, ["transfer-target", "chinchilla"], holdout="D == 0", **QUICK)
    neither = compare(runs, ["ptpp-floor", "chinchilla"], holdout="ptpp > 31", **QUICK)
    assert (
        neither.notes[0]
        == "2 base-checkpoint rows (D = 0) are left out for every law, since ptpp-floor, chinchilla can't describe them."
    )
    alone = compare(runs, ["transfer-target"], holdout="ptpp > 31", **QUICK)
    assert not any("base-checkpoint" in note for note in alone.notes)


def test_a_failed_score_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point fit without a loss at a held-out row keeps its row, without scores."""

    def broken(fit: Any, *args: Any, **options: Any) -> pd.DataFrame:
        if not isinstance(fit, (bayeslaw.Fit, Stack)):
            raise FitError("The point fit has no loss there.")
        return score(fit, *args, **options)

    monkeypatch.setattr(comparison, "score", broken)
    result = compare(RUNS, ["chinchilla"], holdout="ptpp > 31", **QUICK)
    assert "chinchilla (point), ptpp > 31: not scored. The point fit has no loss there." in result.notes
    row = result.scores[result.scores["fit"] == "point"].iloc[0]
    assert row[["rows", "crps", "rmse_log"]].isna().all()


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        ({"laws": []}, "no-law", "law"),
        ({"laws": ["chinchilla", "chinchilla"]}, "given-twice", "chinchilla"),
        ({"noise": ["normal", "normal"]}, "given-twice", "normal"),
        ({"noise": []}, "no-noise", "noise"),
        ({"noise": ["gauss"]}, "unknown-noise", "gauss"),
        ({"by": "ptpp", "loo": True}, "several-holdouts", "holdout"),
        ({"cuts": 2}, "cuts-without-settings", "at="),
        ({"at": {"N": 1e11, "D": 1e12}, "cuts": 0}, "not-a-whole-number", "cuts"),
        ({"holdout": "ptpp > 0"}, "nothing-to-fit", "ptpp > 0"),
        ({"by": "Ptpp"}, "unknown-column", "Did you mean 'ptpp'?"),
        ({"by": "E=ptpp"}, "unknown-column", "with --pool (options={'by': …})"),
        ({"by": "one"}, "one-value", "(1.0)"),
        ({"by": "some"}, "empty-cell", "row 1"),
        ({"bootstrap": -1}, "not-a-whole-number", "bootstrap"),
        ({"starts": 0}, "not-a-whole-number", "starts"),
        ({"seed": 1.5}, "not-a-whole-number", "seed"),
        ({"seed": "1"}, "not-a-whole-number", "not '1'"),
        ({"noise": "beta-binomial"}, "unknown-noise", "'beta-binomial'"),
        ({"laws": "no-such-law"}, "unknown-law", "'no-such-law'"),
    ],
)
def test_requests_are_refused_before_anything_is_fitted(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], code: str, named: str
) -> None:
    monkeypatch.setattr("bayeslaw.inference.batch.fit", lambda *_, **__: pytest.fail("something was fitted"))
    table = TABLE.assign(one=1.0, some=np.where(np.arange(len(TABLE)) > 0, 1.0, np.nan))
    with fails(code, named):
        compare(table if given.get("by") in ("one", "some") else TABLE, **{"laws": ["chinchilla"], **QUICK, **given})


def test_values_that_agree_to_six_digits_are_folds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    named = list[str]()
    monkeypatch.setattr("bayeslaw.evaluation.compare._held_out", lambda _, folds, *__: named.extend(fold.name for fold in folds))
    dates = np.where(np.arange(len(TABLE)) % 2, 20240101, 20240102)
    compare(TABLE.assign(snapshot=dates.astype(float)), ["chinchilla"], by="snapshot", **QUICK)
    assert named == ["snapshot = 20240101", "snapshot = 20240102"]


def test_tables_that_one_of_the_laws_cannot_be_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayeslaw.inference.batch.fit", lambda *_, **__: pytest.fail("something was fitted"))
    with fails("missing-column", "ptpp", kind=TableError):
        compare(TABLE.drop(columns="ptpp"), LAWS, **QUICK)
    with fails("too-few-values", "the table without ptpp > 15", kind=TableError):
        compare(TABLE, LAWS, holdout="ptpp > 15", **QUICK)


def test_a_failed_fit_is_named() -> None:
    with fails("failed-fits", "chinchilla student to the table", kind=FitError):
        compare(TABLE, ["chinchilla"], noise=["normal", "student"], **{**QUICK, "options": {**SHORT, "bins": 0.1}})
