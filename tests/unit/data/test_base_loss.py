"""The measured loss of the base checkpoint, as a column of a run's rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import TableError
from bayeslaw.core.units import convert_table
from bayeslaw.data.base_loss import base_loss_faults, with_base_loss
from bayeslaw.data.observations import Observations
from tests.errors import fails

ROWS = pd.DataFrame(
    {
        "run": ["a", "b", "a-1", "a-1", "b-1", "c-1"],
        "checkpoint": ["a", "b", "a", "a", "b", "c"],
        "N": [1e6, 2e6, 1e6, 1e6, 2e6, 4e6],
        "ptpp": [10.0, 20.0, 10.0, 10.0, 20.0, 20.0],
        "D": [0.0, 0.0, 1e6, 2e6, 3e6, 3e6],
        "r": [np.nan, np.nan, 0.1, 0.1, 0.2, 0.2],
        "loss": [3.0, 2.5, 3.2, 3.3, 2.6, 2.4],
    }
)
"""Two checkpoints with rows at D = 0, and a third without."""


def test_rows_get_the_loss_of_their_checkpoint_before_adaptation() -> None:
    np.testing.assert_array_equal(with_base_loss(ROWS)["base_loss"], [3.0, 2.5, 3.0, 3.0, 2.5, np.nan])


def test_checkpoints_without_names_are_told_apart_by_size_stage_and_seed() -> None:
    table = ROWS.drop(columns="checkpoint").assign(seed=[0, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(with_base_loss(table)["base_loss"], [3.0, 2.5, 3.0, np.nan, 2.5, np.nan])


def test_rows_without_a_seed_are_of_one_checkpoint_and_rows_without_a_checkpoint_of_none() -> None:
    table = ROWS.drop(columns="checkpoint").assign(seed=np.nan)
    np.testing.assert_array_equal(with_base_loss(table)["base_loss"], [3.0, 2.5, 3.0, 3.0, 2.5, np.nan])
    contradicting = table.assign(base_loss=[3.0, 2.5, 3.0, 3.0, 2.6, 2.6])
    assert [row for row, _ in faults_of(contradicting)] == [4]
    unnamed = ROWS.assign(checkpoint=ROWS["checkpoint"].mask(ROWS["checkpoint"] == "b"))
    np.testing.assert_array_equal(with_base_loss(unnamed)["base_loss"], [3.0, np.nan, 3.0, 3.0, np.nan, np.nan])


def test_base_losses_are_of_the_same_domain_and_several_evaluations_are_averaged() -> None:
    table = pd.concat(
        [
            ROWS.assign(domain="source"),
            ROWS.assign(domain="target", loss=ROWS["loss"] + 1),
            ROWS.head(1).assign(domain="source", loss=3.2),
        ]
    )
    found = with_base_loss(table)
    np.testing.assert_allclose(found["base_loss"].iloc[[2, 8]], [3.1, 4.0])


@pytest.mark.parametrize(
    "table",
    [
        ROWS[ROWS["D"] > 0],
        ROWS.assign(base_loss=2.0),
        ROWS.drop(columns="loss"),
        ROWS[["D", "loss"]],
        ROWS.drop(columns=["checkpoint", "ptpp"]),  # N alone is that of checkpoints of several lengths of pre-training
    ],
)
def test_other_tables_stay_as_they_are(table: pd.DataFrame) -> None:
    assert with_base_loss(table) is table


def test_empty_cells_of_the_column_are_filled() -> None:
    found = with_base_loss(ROWS.assign(base_loss=[np.nan, 2.5, 2.9, np.nan, np.nan, np.nan]))
    np.testing.assert_array_equal(found["base_loss"], [3.0, 2.5, 2.9, 3.0, 2.5, np.nan])


def test_a_condition_may_leave_out_the_base_rows() -> None:
    assert bayeslaw.read_runs(ROWS, "D > 0").frame["base_loss"].head(3).tolist() == [3.0, 3.0, 2.5]


def test_base_losses_are_converted_with_the_losses() -> None:
    table = convert_table(with_base_loss(ROWS), "bits/token")
    np.testing.assert_allclose(table["base_loss"] * np.log(2), with_base_loss(ROWS)["base_loss"])


def test_a_fit_says_which_rows_have_no_base_loss_and_what_to_do() -> None:
    law = bayeslaw.load_law("from-base-source")
    with fails(
        "missing-value",
        "base_loss of checkpoint = c, N = 4e+06, ptpp = 20 is missing",
        "log rows of the checkpoints at D = 0",
        kind=TableError,
    ):
        Observations.of(law, bayeslaw.read_runs(ROWS))
    with fails("missing-column", "starts at the measured loss of the base checkpoint", kind=TableError):
        Observations.of(law, bayeslaw.read_runs(ROWS[ROWS["D"] > 0]))


def test_a_base_row_whose_ptpp_was_computed_is_named_beside_runs_whose_ptpp_was_typed() -> None:
    """80.9 million tokens over 4,047,312 parameters are 19.9885 per parameter, and no 20: so the rows are of two checkpoints."""
    runs = pd.DataFrame({"N": 4047312.0, "D": [0.0, 1e8, 2e8], "r": [np.nan, 0.1, 0.1], "loss": [3.0, 2.9, 2.8], "ptpp": 20.0})
    law = bayeslaw.load_law("from-base-source")
    rounded = bayeslaw.data.check(runs.assign(ptpp=[80.9e6 / 4047312, 20, 20]), law)
    texts = [fault.suggestion for fault in rounded if fault.column == "base_loss" and fault.row]
    assert len(texts) == 2
    assert texts[0].startswith("the row at D = 0 has N = 4047312, ptpp = 19.98857513: if that is its checkpoint")
    other = [fault.suggestion for fault in bayeslaw.data.check(runs.assign(ptpp=[30, 20, 20]), law) if fault.row]
    assert all(text.startswith("give it as a column") for text in other)


def test_base_rows_are_kept_beside_a_law_that_starts_at_their_losses() -> None:
    observed = Observations.of(bayeslaw.load_law("from-base-source"), bayeslaw.read_runs(ROWS[ROWS["checkpoint"] != "c"]))
    assert observed.covariates["base_loss"].tolist() == [3.0, 3.0, 2.5]
    assert len(observed.base) == 2


def faults_of(table: pd.DataFrame, of_source: bool = True) -> list[tuple[int | None, str]]:
    numbered = with_base_loss(table).reset_index(drop=True)
    return [(fault.row, fault.problem) for fault in base_loss_faults(numbered, of_source)]


AGREED = ROWS.assign(base_loss=[3.0, 2.5, 3.0, 3.0, 2.5, 2.6])


def test_base_losses_that_agree_are_sound() -> None:
    assert faults_of(ROWS) == faults_of(AGREED) == []
    again = ROWS.head(1).assign(run="again", loss=3.05)  # another seed or evaluation
    assert faults_of(pd.concat([ROWS, again])) == []
    known = ROWS.head(1).assign(run="again", loss=3.2, loss_se=0.1)
    assert faults_of(pd.concat([ROWS.assign(loss_se=0.1), known])) == []
    assert faults_of(AGREED.assign(base_loss=[3.0, 2.5, 3.2, 3.2, 2.5, 2.6], loss_se=0.1)) == []
    assert faults_of(AGREED[2:].assign(base_loss=[3.0, 3.0, 2.5, 2.6], domain=["source", "target", "source", "source"])) == []

    both = AGREED[2:].assign(base_loss=[3.0, 2.2, 2.5, 2.6], domain=["source", "target", "source", "source"])
    assert faults_of(both) == []  # one run, on two domains


OTHER = pd.concat([ROWS, ROWS.head(1).assign(run="other", loss=3.2)])
ROWS_APART = pd.concat([ROWS, ROWS.head(1).assign(run="other", loss=3.09)])
CONTRADICTING = {
    "rows at D = 0": (OTHER, 0, "the loss at D = 0 is 3, and the base loss of its checkpoint 3.1"),
    "the column": (AGREED.assign(base_loss=AGREED["base_loss"] + 0.1), 0, "the loss at D = 0 is 3, and the base loss of its"),
    "two rows at D = 0": (ROWS_APART, len(ROWS), "the loss at D = 0 is 3.09, and that in another row of its checkpoint 3"),
    "another row": (
        AGREED.assign(base_loss=[3.0, 2.5, 3.0, 3.0, 2.6, 2.6]),
        4,
        "base_loss is 2.6, and the loss of its checkpoint at D = 0 2.5",
    ),
    "another row, of a lower one": (
        AGREED.assign(base_loss=[3.0, 2.5, 3.0, 3.0, 2.4, 2.6]),
        4,
        "base_loss is 2.4, and the loss of its checkpoint at D = 0 2.5",
    ),
    "a run with a lower one": (
        AGREED[2:].assign(base_loss=[3.0, 2.9, 2.5, 2.6]),
        1,
        "base_loss 2.9 is another than in the first row",
    ),
    "a run": (AGREED[2:].assign(base_loss=[3.0, 3.1, 2.5, 2.6]), 1, "base_loss 3.1 is another than in the first row of its run, 3"),
}


@pytest.mark.parametrize("name", CONTRADICTING)
def test_base_losses_that_contradict_are_named(name: str) -> None:
    table, where, words = CONTRADICTING[name]
    row, problem = faults_of(table)[0]
    assert row == where
    assert words in problem
    named = [row for row, _ in faults_of(table)]
    assert len(named) == len({*named})  # each row once
    runs = bayeslaw.read_runs(table.dropna(subset=["base_loss"]) if "base_loss" in table else table)
    with fails("contradicting-base-losses", words, kind=TableError):
        Observations.of(bayeslaw.load_law("from-base-source"), runs)


def test_rows_at_no_tokens_that_contradict_are_named_in_any_order_and_may_be_explained_by_their_errors() -> None:
    numbered = with_base_loss(ROWS_APART).reset_index(drop=True)
    assert [fault.row for fault in base_loss_faults(numbered[::-1], True)] == [len(ROWS)]
    assert faults_of(ROWS_APART.assign(loss_se=0.04)) == []


def test_base_losses_that_may_be_perplexities_are_asked_about() -> None:
    table = AGREED[2:].assign(base_loss=13.5)
    with fails("base-loss-in-another-unit", "base_loss 13.5 is 4.2 times", ":perplexity", kind=TableError):
        Observations.of(bayeslaw.load_law("from-base-source"), bayeslaw.read_runs(table))
    assert faults_of(table.assign(base_loss=3.9 * table["loss"].min())) == []
    assert faults_of(table, of_source=False) == []  # a domain that is learnt may start far above


def test_base_losses_have_units_of_losses() -> None:
    raw = AGREED.drop(columns="base_loss").assign(base_ppl=np.exp(AGREED["base_loss"]))
    read = bayeslaw.read_runs(raw, columns={"base_loss": "base_ppl:perplexity"})
    np.testing.assert_allclose(read.frame["base_loss"], AGREED["base_loss"])
    assert "base_loss = base_ppl, in perplexity" in read.conversions
    both = raw.assign(loss=np.exp(raw["loss"]))
    read = bayeslaw.read_runs(both, columns={"base_loss": "base_ppl:perplexity", "loss": "loss:perplexity"})
    np.testing.assert_allclose(read.frame[["loss", "base_loss"]], AGREED[["loss", "base_loss"]])
    read = bayeslaw.read_runs(
        AGREED.assign(loss=np.exp(AGREED["loss"]), base_loss=np.exp(AGREED["base_loss"])), columns={"loss": "loss:ppl"}
    )
    np.testing.assert_allclose(read.frame["base_loss"], AGREED["base_loss"])
    assert any("base_loss likewise" in text for text in read.conversions)
    read = bayeslaw.read_runs(AGREED, columns={"base_loss": "base_loss:bits/token"})
    np.testing.assert_allclose(read.frame["base_loss"], AGREED["base_loss"] * np.log(2))
    own = {"base_loss": "base_loss:nats", "loss": "loss:perplexity"}
    read = bayeslaw.read_runs(AGREED.assign(loss=np.exp(AGREED["loss"])), columns=own)
    np.testing.assert_allclose(read.frame["base_loss"], AGREED["base_loss"])
    assert not any("likewise" in text for text in read.conversions)
    with fails("perplexity-below-1", "base_ppl", "row 2", kind=TableError):
        bayeslaw.read_runs(raw.assign(base_ppl=[20.0, 0.5, 20, 20, 12, 13]), columns={"base_loss": "base_ppl:perplexity"})
    with fails("not-numbers", "bytes_per_token"):
        bayeslaw.read_runs(raw.assign(bytes_per_token="four"), columns={"base_loss": "base_ppl:bits/byte"})
    with fails("unknown-unit", "'M' is no unit of base_loss", "perplexity"):
        bayeslaw.read_runs(raw, columns={"base_loss": "base_ppl:M"})


def test_without_tokens_nothing_is_said_of_base_checkpoints() -> None:
    found = bayeslaw.data.check(
        bayeslaw.read_runs(ROWS.rename(columns={"D": "tokens_seen"})), bayeslaw.load_law("from-base-source")
    )
    assert [(fault.row, fault.column) for fault in found] == [(None, "D")]
    assert "tokens_seen" in found[0].suggestion
