"""Backtests: cuts by hand, forecasts beyond a cut against those of the fit, scores and the sentence by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import FitError, TableError
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.evaluation import backtest as module
from bayeslaw.evaluation.backtest import (
    UNSCORED,
    Backtest,
    backtest,
    cuts_along,
    forecasts_beyond,
    places,
)
from bayeslaw.evaluation.direction import direction
from bayeslaw.evaluation.reach import scores_of
from bayeslaw.evaluation.scores import crps
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.inference import batch
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import apart_fit, line_fit, without_sampling

CHINCHILLA = load_law("chinchilla")
TABLE = oracles.table(CHINCHILLA, runs=8)
RUNS = read_runs(TABLE)

# --- cuts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "first", "count", "expected"),
    [
        (10, 1, 5, [4, 5, 6, 7, 8]),  # half of the groups is fitted first, all but one last
        (10, 1, 2, [4, 6]),
        (40, 1, 5, [19, 23, 27, 31, 35]),
        (10, 7, 5, [7, 8]),  # enough to fit comes late
        (10, 8, 5, [8]),
        (6, 1, 5, [2, 3, 4]),
        (3, 1, 5, [1]),
    ],
)
def test_cuts_are_spread_from_the_middle_to_the_last_but_one(groups: int, first: int, count: int, expected: list[int]) -> None:
    assert places(groups, first, count) == expected


def ladder(rows: int = 24) -> Runs:
    """Runs of one size or another at doubling numbers of tokens, two at each."""
    tokens = 1e9 * 2.0 ** np.repeat(np.arange(rows // 2), 2)
    return read_runs(pd.DataFrame({"N": np.where(np.arange(rows) % 2, 1e8, 1e9), "D": tokens, "loss": 3.0}))


def test_the_first_fit_has_twice_as_many_rows_as_parameters() -> None:
    runs = ladder()
    assert cuts_along(runs, [CHINCHILLA], "D", direction(runs, "D"), 5) == [1e9 * 2.0**k for k in (5, 6, 7, 8, 9)]
    runs = ladder(14)  # with 10 rows at the fifth of seven values
    assert cuts_along(runs, [CHINCHILLA], "D", direction(runs, "D"), 5) == [16e9, 32e9]
    runs = ladder(10)
    with fails("too-few-rows", "8 rows", "10, twice its parameters", "8e+09"):
        cuts_along(runs, [CHINCHILLA], "D", direction(runs, "D"), 5)


def test_a_law_is_fitted_to_as_many_values_as_it_needs() -> None:
    """Below the last stage lies one stage, and the law asks for two."""
    law = load_law("ptpp-floor")
    table = oracles.table(law, runs=12)
    last = table["ptpp"] > 200
    runs = read_runs(table.assign(ptpp=np.where(last, 279.0, 62.0), step=np.where(last, 300, np.arange(len(table)) % 3 + 1)))
    with fails("too-few-rows", "ptpp has 1 value (62)"):
        cuts_along(runs, [law], "step", direction(runs, "step"), 5)


def test_a_direction_needs_three_values() -> None:
    for values, shown in (([1e8, 1.01e8], "1 value"), ([1e8, 1e9], "2 values")):
        runs = read_runs(pd.DataFrame({"N": np.tile(values, 20), "D": 1e9, "loss": 3.0}))
        with fails("too-few-values", "N", shown, "at least 3"):
            cuts_along(runs, [CHINCHILLA], "N", direction(runs, "N"), 5)
    nothing = read_runs(pd.DataFrame({"step": [0, 0]}))
    with fails("too-few-values", "0 values", "none"):
        cuts_along(nothing, [CHINCHILLA], "step", direction(nothing, "step"), 1)


# --- forecasts beyond a cut ------------------------------------------------------------------------------------------

ASKED: dict[str, Any] = {"discrepancy": None, "as_": "known", "seed": 4}


def beyond_line(fit: Fit) -> Runs:
    """The rows of `line_fit`, and as many at later steps, of the same runs and of a new one."""
    seen = fit.observed
    old = pd.DataFrame(
        {"x": seen.covariates["x"], "loss": seen.outcomes, "run": np.repeat(seen.run_names, 3), "step": [0, 100, 400] * 4}
    )
    new = pd.DataFrame({"x": [0.5, 1.5, 2.0], "loss": [2.9, 3.1, 3.6], "run": ["r0", "r1", "new"], "step": [800, 800, 1600]})
    return read_runs(pd.concat([old, new]))


@pytest.mark.slow
def test_forecasts_are_those_of_the_fit_at_the_rows_beyond() -> None:
    fit = line_fit(checkpoint=None)
    runs = beyond_line(fit)
    made = forecasts_beyond(fit, table=runs, along=direction(runs, "step"), by="step", asked=ASKED, force=False)
    held = replace(runs, frame=runs.frame[runs.frame["step"] > 400])
    predicted = forecast(fit, held, seed=4)
    draws, rows = predicted.predictive, made.rows
    assert (set(rows["spread"]), made.checks, dict(made.left_out)) == ({"run"}, "passed", {})
    assert rows["cut"].tolist() == [400.0] * 3
    assert rows["row"].tolist() == [13, 14, 15]
    assert rows["run"].tolist() == ["r0", "r1", "new"]
    assert rows["step"].tolist() == [800, 800, 1600]
    assert rows["as"].tolist() == ["known run", "known run", "new run"]
    np.testing.assert_allclose(rows["reach"], np.log([2, 2, 4]))
    np.testing.assert_allclose(rows["median"], np.median(draws, axis=0))
    for prob, ends in ((50, [0.25, 0.75]), (80, [0.1, 0.9]), (90, [0.05, 0.95])):
        np.testing.assert_allclose(rows[[f"eti{prob}_lb", f"eti{prob}_ub"]].T, np.quantile(draws, ends, axis=0))
    np.testing.assert_allclose(rows["crps"], crps(held.frame["loss"].to_numpy(), draws))
    np.testing.assert_allclose(rows["pit"], (draws < held.frame["loss"].to_numpy()).mean(axis=0))
    assert set(rows["checks"]) == {"passed"}
    anew = forecasts_beyond(
        fit, table=runs, along=direction(runs, "step"), by="step", asked={**ASKED, "as_": "new-run"}, force=False
    )
    assert set(anew.rows["as"]) == {"new run"}


@pytest.mark.slow
def test_the_spread_is_the_one_to_compare_with_losses() -> None:
    fit = line_fit(checkpoint=None)
    runs = beyond_line(fit)
    asked = {**ASKED, "discrepancy": "2%"}
    made = forecasts_beyond(fit, table=runs, along=direction(runs, "step"), by="step", asked=asked, force=False)
    assert set(made.rows["spread"]) == {"discrepancy2%"}
    held = replace(runs, frame=runs.frame[runs.frame["step"] > 400])
    expected = forecast(fit, held, seed=4, discrepancy=0.02).summary()
    for end in ("eti90_lb", "eti90_ub"):
        np.testing.assert_allclose(made.rows[end], expected[f"discrepancy2%_{end}"])


@pytest.mark.slow
def test_failed_sampling_is_named_and_scored_only_when_forced() -> None:
    fit = line_fit(checkpoint=None, passed=False)
    runs = beyond_line(fit)
    given: dict[str, Any] = {"table": runs, "along": direction(runs, "step"), "by": "step", "asked": ASKED}
    refused = forecasts_beyond(fit, **given, force=False)
    assert (refused.checks, refused.model, len(refused.rows)) == (UNSCORED, "not assessed", 0)
    assert refused.verdict.startswith("FAILED (r_hat)")
    forced = forecasts_beyond(fit, **given, force=True)
    assert (forced.checks, len(forced.rows)) == ("FAILED (forced)", 3)
    assert set(forced.rows["checks"]) == {"FAILED (forced)"}


def test_a_failed_check_of_the_forecast_counts_too() -> None:
    """Draws that have not mixed: the fit's own checks are given as passed, those of its forecast are computed."""
    fit = line_fit(checkpoint=None, size=100)  # effective sizes of at most 100
    runs = beyond_line(fit)
    made = forecasts_beyond(fit, table=runs, along=direction(runs, "step"), by="step", asked=ASKED, force=False)
    assert made.checks == UNSCORED
    assert "forecast_ess_bulk" in made.verdict


@pytest.mark.slow
def test_rows_that_cannot_be_scored_are_counted() -> None:
    fit = apart_fit()
    seen = pd.DataFrame({"x": fit.observed.covariates["x"], "loss": fit.observed.outcomes, "run": "old", "step": 1.0})
    new = pd.DataFrame(
        {
            "x": [2.0, 2.0, 2.0, 2.0, -1.0],
            "domain": ["web", "maths", "web", "web", "web"],
            "lab": ["a", "a", "z", "b_1", "a"],
            "loss": [3.3, 3.0, 3.1, 3.2, np.exp(0.9)],  # the last is that of a fitted row
            "run": list("pqrst"),
            "step": 9.0,
        }
    )
    runs = read_runs(pd.concat([seen, new]))
    made = forecasts_beyond(fit, table=runs, along=direction(runs, "step"), by="step", asked=ASKED, force=False)
    assert made.rows["run"].tolist() == ["p", "s"]
    assert dict(made.left_out) == {
        "have a domain that no fitted row has": 1,
        "have a lab that no fitted row has": 1,
        "have the covariates and the loss of fitted rows": 1,
    }
    strangers = replace(runs, frame=runs.frame.drop(index=[13, 16, 17]))
    with fails("nothing-held-out", "all 2 rows beyond the cut", "domain", "lab"):
        forecasts_beyond(fit, table=strangers, along=direction(strangers, "step"), by="step", asked=ASKED, force=False)


@pytest.mark.slow
def test_of_many_rows_some_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    fit = line_fit(checkpoint=None)
    runs = beyond_line(fit)
    more = pd.DataFrame({"x": np.linspace(1, 2, 9), "loss": 3.0, "step": 900.0 + np.arange(9)})
    runs = read_runs(pd.concat([runs.frame.iloc[:12], more]))
    made = forecasts_beyond(fit, table=runs, along=direction(runs, "step"), by="step", asked=ASKED, force=False)
    assert made.rows["row"].tolist() == [13, 17, 21]
    assert list(made.left_out.values()) == [6]


# --- scores and the sentence -----------------------------------------------------------------------------------------


def forecasts(reach: list[float], loss: list[float], **columns: Any) -> pd.DataFrame:
    """Forecasts with median 2, and intervals of 1.9 to 2.1 (90%), 1.95 to 2.05 (80%) and 1.99 to 2.01 (50%)."""
    ends = {"90": (1.9, 2.1), "80": (1.95, 2.05), "50": (1.99, 2.01)}
    number = np.arange(len(reach))
    table: dict[str, Any] = {"cut": 1e20, "row": number + 1, "run": [f"r{i}" for i in number], "reach": reach, "loss": loss}
    table |= {"as": "new run", "spread": "run", "median": 2.0, "crps": 0.01 * (number + 1), "pit": 0.5, "checks": "passed"}
    for prob, (low, high) in ends.items():
        table |= {f"eti{prob}_lb": low, f"eti{prob}_ub": high}
    return pd.DataFrame(table | columns)


def result(rows: pd.DataFrame, checks: tuple[str, ...] = ("passed",)) -> Backtest:
    cuts = pd.DataFrame({"cut": 1e20 * np.arange(1, len(checks) + 1), "checks": checks})
    return Backtest("chinchilla", "compute", rows, cuts, ())


def test_scores_by_hand() -> None:
    rows = forecasts([0.1] * 4, [2.0, 2.04, 2.08, 1.6], run=["a", "a", "b", "c"], row=[1, 1, 2, 3], cut=[1, 2, 1, 1])
    scores = scores_of(rows)
    assert {name: scores[name] for name in ("forecasts", "rows", "runs", "cuts", "checks")} == {
        "forecasts": 4, "rows": 3, "runs": 3, "cuts": 2, "checks": "passed",
    }  # fmt: skip
    errors = np.array([0, -0.04 / 2.04, -0.08 / 2.08, 0.4 / 1.6])  # of the median, relative to the loss
    assert scores["mae_rel"] == pytest.approx(np.abs(errors).mean())
    assert scores["bias_rel"] == pytest.approx(errors.mean())
    assert [scores[f"cover_eti{p}"] for p in (50, 80, 90)] == [0.25, 0.5, 0.75]
    assert scores["width_rel_eti90"] == pytest.approx(np.mean([0.2 / 2.0, 0.2 / 2.04, 0.2 / 2.08, 0.2 / 1.6]))
    assert scores["crps"] == pytest.approx(0.025)
    assert scores_of(rows.assign(checks=["passed"] * 3 + ["FAILED (forced)"]))["checks"] == "FAILED (forced)"


def test_forecasts_are_scored_by_reach() -> None:
    made = result(forecasts([0.2, 0.5, 0.51, 2.0, 7.0], [2.0, 2.0, 2.2, 2.0, 2.0]))
    assert made.reach["e_folds"].tolist() == ["0 to 0.5", "0.5 to 1", "1 to 2", "over 3", "all"]
    assert made.reach["forecasts"].tolist() == [2, 1, 1, 1, 5]
    assert made.reach["cover_eti90"].tolist() == [1, 0, 1, 1, 0.8]
    assert {name: pit.size for name, pit in made.transforms.items()} == {
        "0 to 0.5 e-folds: 2 runs": 2, "0.5 to 1 e-folds: 1 run": 1, "1 to 2 e-folds: 1 run": 1, "over 3 e-folds: 1 run": 1,
        "all: 5 runs": 5,
    }  # fmt: skip
    assert result(forecasts([0.5, 0.5], [2.0, 2.0], spread=["extrapolated", "run"])).spread == "run or extrapolated"
    assert repr(made) == "<Backtest of chinchilla along compute: 5 forecasts beyond 1 cut>"


SENTENCE = "At about one e-fold of compute beyond these runs, your 90% intervals would have held "


def test_the_sentence_counts_losses_about_one_e_fold_beyond() -> None:
    near = [2.0] * 6 + [2.16] * 4  # 6 of 10 inside, errors of 0 and .16 / 2.16
    rows = forecasts([1.0] * 10 + [0.4, 1.6], [*near, 1.0, 1.0])
    assert result(rows).text == (
        SENTENCE + "6 of 10 losses; errors there were 3.0% on average. Such intervals are too narrow: state a discrepancy of "
        "some 3%, and see by a backtest whether it is enough."
    )
    right = forecasts([1.0] * 10, [2.0] * 9 + [2.2])
    assert result(right).text == SENTENCE + "9 of 10 losses; errors there were 0.91% on average."


def test_the_sentence_says_where_intervals_farther_out_are_too_narrow() -> None:
    rows = forecasts([1.0] * 10 + [2.5] * 6, [2.0] * 10 + [2.0] * 2 + [2.5] * 4)
    farther = " At 2 to 3 e-folds they would have held 2 of 6, where they are too narrow."
    assert result(rows).text == SENTENCE + "10 of 10 losses; errors there were 0% on average." + farther


def test_the_sentence_says_where_losses_were_forecast_more_than_once() -> None:
    rows = forecasts([1.0] * 6, [2.0] * 6, row=[1, 2, 3, 1, 2, 3], run=list("abcabc"), cut=[1, 1, 1, 2, 2, 2])
    assert result(rows, ("passed", "passed")).text == (
        SENTENCE + "the loss in 6 of 6 forecasts (of 3 rows, from 2 cuts); errors there were 0% on average."
    )


def test_misses_of_one_run_are_no_proof_of_narrow_intervals() -> None:
    """Ten rows of one run miss together; of ten runs, one is missing."""
    one = forecasts([1.0] * 10, [2.2] * 10, run="a")
    assert result(one).text.endswith("They are of one run: too few to judge by.")
    among = pd.concat([forecasts([1.0] * 9, [2.0] * 9), one])
    assert "too narrow" not in result(among.assign(row=np.arange(19))).text


def test_without_losses_at_one_e_fold_the_sentence_is_of_others() -> None:
    text = result(forecasts([0.3, 4.0, 4.0], [2.0, 2.0, 2.5])).text
    assert text.startswith("At 0 to 0.5 e-folds of compute beyond these runs, your 90% intervals would have held 1 of 1 loss;")
    assert result(forecasts([4.0] * 3, [2.0, 2.0, 2.5])).text.startswith("At over 3 e-folds of compute beyond these runs, ")


def test_the_sentence_says_what_was_not_scored() -> None:
    rows = forecasts([1.0] * 5, [2.0] * 5)
    assert "2 of 3 cuts could not be scored; the notes say why." in result(rows, ("passed", UNSCORED, "not scored")).text
    assert "Sampling FAILED (forced) at 1 of 2 cuts." in result(rows, ("passed", "FAILED (forced)")).text
    nothing = result(rows[:0], (UNSCORED, UNSCORED))
    assert nothing.text == "Nothing could be scored beyond 2 cuts: the notes say why, and what to do."
    assert len(nothing.reach) == 0
    assert list(nothing.reach)[:3] == ["e_folds", "forecasts", "rows"]


# --- whole backtests, without sampling ------------------------------------------------------------------------------

SHORT: dict[str, Any] = {"draws": 600, "tune": 100, "chains": 2}
QUICK: dict[str, Any] = {"options": SHORT, "progress": False, "seed": 1}


@pytest.mark.slow
def test_cuts_without_the_noise_of_the_card_are_named() -> None:
    table = oracles.table(load_law("from-base-source"), runs=12, checkpoints=12)
    table = table.assign(N=1e7 * 2.0 ** (pd.factorize(table["run"])[0] // 2))
    with without_sampling():
        made = backtest(table, "from-base-source", by="N", cuts=3, **QUICK)
    few = [(table["N"] <= cut).groupby(table["run"]).any().sum() < 8 for cut in made.cuts["cut"]]
    assert {*few} == {True, False}
    (note,) = [note for note in made.notes if "normal-drift" in note]
    assert "fits to them have the usual noise" in note


@pytest.mark.slow
def test_each_cut_is_fitted_to_the_rows_up_to_it() -> None:
    with without_sampling():
        made = backtest(RUNS, CHINCHILLA, by="D", cuts=2, **QUICK)
    assert made.cuts["checks"].tolist() == ["passed"] * 2
    tokens = RUNS.frame["D"]
    for row in made.cuts.to_dict("records"):
        assert row["rows"] == (tokens <= row["cut"]).sum()
        assert row["beyond"] == row["scored"] == (tokens > row["cut"]).sum()
        beyond = made.rows[made.rows["cut"] == row["cut"]]
        assert sorted(beyond["row"]) == sorted(RUNS.frame.index[tokens > row["cut"]])
    assert made.cuts["model"].tolist() == ["concerns", "no concerns"]
    assert "Concerns about the models: extrapolation (1 of 2 cuts)." in made.notes
    known = made.rows["as"] == "known run"
    assert made.notes[-1].startswith(f"{known.sum()} of {len(made.rows)} forecasts are of later rows of fitted runs")


@pytest.mark.slow
def test_fewer_cuts_than_asked_for_are_a_note() -> None:
    with without_sampling():
        made = backtest(TABLE.assign(step=np.arange(len(TABLE)) // 10 + 1), CHINCHILLA, by="step", **QUICK)
    assert made.cuts["cut"].tolist() == [2, 3]
    assert made.notes[0] == "2 cuts instead of 5: step has no more values with enough rows below and some above."


@pytest.mark.slow
def test_compute_that_counts_parameters_which_no_token_uses_is_a_note() -> None:
    law = load_law("sparse-experts")
    table = oracles.table(law, runs=12)
    with without_sampling():
        made = backtest(table, law, cuts=1, **QUICK)
        told = backtest(table.assign(flops=6 * table["N"] * table["active"] * table["D"]), law, cuts=1, **QUICK)
    note = "a token uses the share `active` of them: add a column flops."
    assert [any(note in text for text in of.notes) for of in (made, told)] == [True, False]


@pytest.mark.slow
def test_flops_of_one_token_are_a_note_along_compute_alone() -> None:
    with without_sampling():
        along = {by: backtest(TABLE.assign(flops=6 * TABLE["N"]), CHINCHILLA, by=by, cuts=1, **QUICK) for by in ("compute", "D")}
    noted = {by: [note for note in made.notes if "6 N D" in note] for by, made in along.items()}
    (note,) = noted["compute"]
    assert note.startswith("column flops has ")
    assert note.endswith("Leave the column flops out to count 6 N D.")
    assert noted["D"] == []


@pytest.mark.slow
def test_repeated_rows_and_base_checkpoints_are_left_out_with_a_note() -> None:
    table = pd.concat([TABLE, TABLE.iloc[[0, 39]], TABLE.iloc[[3]].assign(D=0.0, run="base")])
    with fails("repeated-rows", "rows 41–42", kind=TableError):
        backtest(table, CHINCHILLA, **QUICK)
    with without_sampling():
        made = backtest(read_runs(table, duplicates="drop"), CHINCHILLA, cuts=1, **QUICK)
    assert made.notes[:2] == (
        "Left out: rows 41–42, which repeat earlier rows exactly.",
        "Left out: row 43 (D = 0), which chinchilla can't describe.",
    )
    assert not {41, 42, 43} & {*made.rows["row"]}


@pytest.mark.slow
def test_cuts_without_trusted_draws_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Check("r_hat", False, "largest R-hat 1.4", "sampling", pd.DataFrame(), "Sample longer")

    def first_fails(fit: Fit, **options: Any) -> Any:
        failed = replace(fit, checks=(*fit.checks, wrong))
        return forecasts_beyond(failed if fit.observed.response.size < 25 else fit, **options)

    monkeypatch.setattr(module, "forecasts_beyond", first_fails)
    with without_sampling():
        made = backtest(RUNS, CHINCHILLA, by="D", cuts=2, **QUICK)
    assert made.cuts["checks"].tolist() == [UNSCORED, "passed"]
    assert made.cuts["scored"].tolist()[0] == 0
    first = made.cuts["cut"].iloc[0]
    assert f"D {first:.3g}: sampling FAILED (r_hat). Sample longer. What lies beyond this cut is in no table." in made.notes
    assert "1 of 2 cuts could not be scored" in made.text
    assert set(made.rows["cut"]) == {made.cuts["cut"].iloc[1]}


@pytest.mark.slow
def test_nothing_scored_is_said_and_forced_scores_are_marked() -> None:
    few = {**QUICK, "options": {**SHORT, "draws": 50}}  # too few for the checks
    with without_sampling():
        made = backtest(RUNS, CHINCHILLA, by="D", cuts=2, **few)
        forced = backtest(RUNS, CHINCHILLA, by="D", cuts=2, force=True, **few)
    assert (len(made.rows), made.spread) == (0, "")
    assert made.text.startswith("Nothing could be scored")
    assert all("sampling FAILED (" in note and "ess" in note for note in made.notes)
    assert set(forced.rows["checks"]) == set(forced.reach["checks"]) == {"FAILED (forced)"}
    assert "Sampling FAILED (forced) at 2 of 2 cuts." in forced.text
    assert any(note.endswith("What lies beyond this cut is scored (forced).") for note in forced.notes)


@pytest.mark.slow
def test_a_fit_that_cannot_be_made_costs_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fit: Fit, **options: Any) -> Any:
        if fit.observed.response.size < 25:
            raise FitError("The loss is not finite at row 40.")
        return forecasts_beyond(fit, **options)

    monkeypatch.setattr(module, "forecasts_beyond", broken)
    with without_sampling():
        made = backtest(RUNS, CHINCHILLA, by="D", cuts=2, **QUICK)
    assert made.cuts["checks"].tolist() == ["not scored", "passed"]
    assert made.notes[0].endswith("not scored. fit 1: The loss is not finite at row 40.")
    with without_sampling(), fails("items-failed", "fit 1", "(2 of 2 failed.)"):
        backtest(RUNS, CHINCHILLA, by="D", cuts=2, **{**QUICK, "options": {**SHORT, "bins": 0.1}}, noise="student")


@pytest.mark.slow
def test_a_stack_without_one_of_its_fits_is_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(task: Any, **options: Any) -> Any:
        if task.law.name == "overtraining" and len(task.runs) < 25:
            raise FitError("The loss is not finite at row 40.")
        return fitted(task, **options)

    fitted = batch._fitted
    monkeypatch.setattr(batch, "_fitted", broken)
    with without_sampling():
        made = backtest(RUNS, [CHINCHILLA, "overtraining"], by="D", cuts=2, **QUICK)
    assert made.cuts["checks"].tolist() == ["not scored", "passed"]
    assert any(note.endswith("not scored. fit 2: The loss is not finite at row 40.") for note in made.notes)
    assert set(made.rows["cut"]) == {made.cuts["cut"].iloc[1]}


def test_below_each_cut_there_are_rows_enough_for_every_law() -> None:
    runs, farseer = read_runs(TABLE.iloc[::2]), load_law("farseer")
    of = [
        cuts_along(runs, laws, "D", direction(runs, "D"), 9)
        for laws in ([CHINCHILLA], [farseer], [CHINCHILLA, farseer], [farseer, CHINCHILLA])
    ]
    assert len(of[0]) > len(of[1])
    assert of[1] == of[2] == of[3]


DOMAINS = {"web": 1.0, "code": 0.9, "maths": 0.8}


@pytest.mark.slow
def test_parameters_may_vary_by_a_column() -> None:
    of = {name: TABLE.assign(domain=name, run=f"{name} " + TABLE["run"], loss=k * TABLE["loss"]) for name, k in DOMAINS.items()}
    pooled: dict[str, Any] = {**QUICK, "options": {**SHORT, "by": {"E": "domain"}}, "by": "D", "cuts": 1}
    both = pd.concat([of["web"], of["code"]])
    with fails("mixed-domains", "--pool E=domain"):
        backtest(both, CHINCHILLA, **QUICK)
    with without_sampling():
        made = backtest(both, CHINCHILLA, **pooled)
    assert made.cuts["scored"].tolist() == made.cuts["beyond"].tolist()
    late = of["maths"][TABLE["D"] > made.cuts["cut"].item()]  # a fit up to the cut knows nothing of this domain
    with without_sampling():
        made = backtest(pd.concat([both, late]), CHINCHILLA, **pooled)
    assert made.notes[0].endswith(
        f"{len(late)} of {made.cuts['beyond'].item()} rows beyond it have a domain that no fitted row has."
    )
    assert not any(run.startswith("maths") for run in made.rows["run"])


def test_a_cut_leaves_two_values_of_a_column_that_parameters_vary_by() -> None:
    early, late = (TABLE[mask].assign(domain=name) for mask, name in ((TABLE["D"] < 1e10, "web"), (TABLE["D"] >= 1e10, "code")))
    with fails("too-few-rows", "parameters differ by domain"):
        backtest(pd.concat([early, late.iloc[:1]]), CHINCHILLA, by="D", **{**QUICK, "options": {"by": {"E": "domain"}}})


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        ({"by": "size"}, "unknown-direction", "'size'"),
        ({"by": "ptpp"}, "missing-column", "ptpp"),
        ({"cuts": 0}, "not-a-whole-number", "cuts"),
        ({"cuts": 1000}, "too-large-a-number", "cuts"),
        ({"seed": -1}, "not-a-whole-number", "seed"),
        ({"as_": "old-run"}, "unknown-reading", "'old-run'"),
        ({"discrepancy": "200%"}, "not-a-discrepancy", "200%"),
        ({"options": {"drawz": 10}}, "unknown-option", "drawz"),
        ({"options": {"seed": 5}}, "own-argument", "seed="),
        ({"options": {"noise": "normal"}}, "own-argument", "noise="),
        ({"executor": "cloud"}, "unknown-executor", "cloud"),
        ({"law": "chinchila"}, "unknown-law", "chinchila"),
        ({"law": "ptpp-floor"}, "missing-column", "ptpp"),
    ],
)
def test_requests_are_refused_before_anything_is_fitted(given: dict[str, Any], code: str, named: str) -> None:
    with fails(code, named):
        backtest(RUNS, **{"law": CHINCHILLA, **QUICK, **given})
