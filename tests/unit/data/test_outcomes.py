"""Checks of tables of outcomes other than losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import Fault
from bayeslaw.data.observations import Observations
from bayeslaw.data.starter import guesses
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law, parse_card
from tests.cards import POSITIVE, card
from tests.outcomes import NAMES, law, table


def faults_of(kind: str, cells: Mapping[tuple[int, str], Any]) -> list[Fault]:
    """Check a table of an outcome with some cells (row, column) replaced; rows count from 1."""
    frame = table(kind)
    for (row, column), value in cells.items():
        frame[column] = frame.get(column, pd.Series(0.1, index=frame.index)).astype(object)
        frame.loc[row - 1, column] = value
    return check(read_runs(frame, strict=False), law(kind))


@pytest.mark.parametrize("kind", NAMES)
def test_a_sound_table_has_no_faults(kind: str) -> None:
    assert faults_of(kind, {}) == []


@pytest.mark.parametrize(
    ("kind", "column", "value", "code"),
    [
        ("count", "accuracy", -0.1, "out-of-bounds"),
        ("count", "accuracy", 1.2, "percent"),
        ("count", "accuracy", 85, "percent"),
        ("count", "accuracy", 101, "out-of-bounds"),
        ("count", "accuracy", np.inf, "infinite-value"),
        ("count", "accuracy", None, "missing-value"),
        ("count", "accuracy", "high", "not-a-number"),
        ("count", "items", None, "missing-value"),
        ("count", "items", 0, "out-of-support"),
        ("count", "items", -5, "out-of-support"),
        ("count", "items", 10.5, "not-whole"),
        ("count", "items", "many", "not-a-number"),
        ("bounded", "score", 0, "at-a-bound"),
        ("bounded", "score", 100, "at-a-bound"),
        ("bounded", "score", 100.5, "out-of-bounds"),
        ("bounded", "score", -1, "out-of-bounds"),
        ("bounded", "score_se", -1, "negative-error"),
        ("bounded", "score_se", None, "missing-value"),
        ("real", "gain", np.inf, "infinite-value"),
        ("real", "gain", -np.inf, "infinite-value"),
        ("real", "gain_se", np.inf, "missing-value"),
        ("positive", "memory", 0, "at-a-bound"),
        ("positive", "memory", -1, "out-of-bounds"),
    ],
)
def test_an_impossible_cell_is_a_fault_with_its_row(kind: str, column: str, value: Any, code: str) -> None:
    (fault,) = faults_of(kind, {(3, column): value})
    assert (fault.code, fault.row, fault.column) == (code, 3, column)


def test_shares_of_counts_may_be_0_and_1() -> None:
    assert faults_of("count", {(1, "accuracy"): 0, (2, "accuracy"): 1}) == []


def test_errors_of_counts_are_refused() -> None:
    (fault,) = faults_of("count", {(1, "accuracy_se"): 0.1})
    assert (fault.code, fault.column, fault.row) == ("error-of-a-count", "accuracy_se", None)


@pytest.mark.parametrize("column", ["accuracy", "items"])
def test_a_missing_column_is_named_with_all_that_are_needed(column: str) -> None:
    (fault,) = check(read_runs(table("count").drop(columns=column)), law("count"))
    assert (fault.code, fault.column) == ("missing-column", column)
    assert "needs accuracy, N, D, items;" in fault.suggestion


def test_only_a_column_in_percent_is_read_so() -> None:
    frame = table("count").rename(columns={"accuracy": "acc"}).assign(acc=lambda f: 100 * f["acc"])
    runs = read_runs(frame, columns={"accuracy": "acc"})
    faults = check(runs, law("count"))
    assert {fault.code for fault in faults} == {"percent"}
    assert "--column accuracy=acc:%" in faults[0].suggestion
    assert check(read_runs(frame, columns={"accuracy": "acc:%"}), law("count")) == []
    (single,) = faults_of("count", {(3, "accuracy"): 85})
    assert "--column" not in single.suggestion


def test_numbers_of_right_answers_are_to_be_divided_by_the_items() -> None:
    frame = table("count").assign(items=2000, accuracy=lambda f: np.round(2000 * f["accuracy"]))
    faults = check(read_runs(frame), law("count"))
    assert {(fault.code, fault.suggestion) for fault in faults} == {
        ("counted-answers", "divide by items, if these are numbers of right answers")
    }
    whole = frame.assign(accuracy=lambda f: np.round(f["accuracy"] / 20))
    assert {fault.code for fault in check(read_runs(whole), law("count"))} == {"percent"}


def test_accuracies_without_chance_are_to_be_given_with_it() -> None:
    """Rows below zero were to be removed, and with them those of the models that guess."""
    table = pd.DataFrame({"loss": [3.0, 2.5, 2.0], "chance": 0.25, "items": 1000, "accuracy": [-0.02, 0.1, 0.4]})
    (fault,) = check(read_runs(table), load_law("task-sigmoid"))
    assert fault.code == "out-of-bounds"
    assert "chance + (1 - chance) x accuracy, in every row" in fault.suggestion


def test_tasks_as_columns_are_to_be_rows() -> None:
    wide = pd.DataFrame({"run": ["a", "b"], "loss": [3.0, 2.5], "arc": [25.0, 31.0], "coin": [50.0, 52.0]})
    fault, *_ = check(read_runs(wide), load_law("task-sigmoid"))
    assert "df.melt(['run', 'loss'], var_name='task', value_name='accuracy'). Then add items, chance." in fault.suggestion


@pytest.mark.parametrize(
    ("column", "factor", "guess"),
    [("mmlu/acc", 1, "mmlu/acc"), ("eval_accuracy", 100, "eval_accuracy:%"), ("acc_pct", 1, "acc_pct:%")],
)
def test_columns_of_accuracies_are_guessed(column: str, factor: float, guess: str) -> None:
    frame = table("count").rename(columns={"accuracy": column, "items": "n_questions"})
    frame[column] *= factor
    assert guesses(frame, ["accuracy", "items"]) == {"accuracy": guess, "items": "n_questions"}


def test_observations_have_responses_outcomes_and_errors_on_their_scale() -> None:
    frame = table("bounded").assign(score_se=1.0)
    observed = Observations.of(law("bounded"), read_runs(frame))
    score = frame["score"].to_numpy()[observed.rows - 1]
    np.testing.assert_allclose(observed.response, np.log(score / (100 - score)))
    np.testing.assert_allclose(observed.outcomes, score)
    np.testing.assert_allclose(observed.se, 100 / (score * (100 - score)))
    assert observed.unit == "%"
    counted = Observations.of(law("count"), read_runs(table("count")))
    assert (counted.outcomes == counted.response).all()
    assert (counted.items == 200).all()


def test_a_covariate_that_tables_call_something_else_is_named() -> None:
    """The advice was to name the column, which then was read as D all the same."""
    text = card("E + A/tokens**a", {"tokens": (1.0, 1e15)}, E=POSITIVE, A=POSITIVE, a=POSITIVE)
    frame = pd.DataFrame({"tokens": [1e9, 2e9, 3e9], "loss": [3.0, 2.9, 2.8]})
    (fault,) = check(read_runs(frame), parse_card(text))
    assert (fault.code, fault.column) == ("missing-column", "tokens")
    assert "read as D" in fault.suggestion
