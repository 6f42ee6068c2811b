"""Notes on tables without faults, whose numbers may mean something else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.notes import (
    counted_on_note,
    few_tokens_note,
    other_domain_note,
    repeated_base_note,
    shared_names_note,
    small_replay_note,
    table_notes,
    tokenizers_note,
    two_units_note,
)
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law
from tests import oracles

LAW = load_law("transfer-target")
TABLE = pd.DataFrame(
    {"run": run, "N": n, "ptpp": ptpp, "r": r, "D": d, "loss": 3.0123 - 0.001 * i - 0.1 * (d > 0)}
    for i, (n, ptpp) in enumerate([(1e8, 20.0), (1e8, 60.0), (4e8, 20.0), (4e8, 60.0)])
    for run, r in ((f"{n:g}-{ptpp:g}-{r}", r) for r in (0.0, 0.3))
    for d in (0.0, n, 8 * n)
)


def test_tokens_that_count_those_of_the_pre_training_are_noted() -> None:
    """The law fits such a table well, and would forecast adaptations of another length than is asked for."""
    counted_on = TABLE.assign(D=TABLE["D"] + TABLE["N"] * TABLE["ptpp"])
    assert counted_on_note(counted_on, LAW) == "in every row D is 1 to 1.4 times the tokens of the pre-training, N x ptpp"
    assert counted_on_note(TABLE, LAW) == counted_on_note(counted_on.drop(columns="ptpp"), LAW) == ""
    names = [(note.name, note.subject) for note in table_notes(read_runs(counted_on), LAW)]
    assert names == [("tokens", "model")]


@pytest.mark.parametrize(("unit", "name"), [(1e6, "millions"), (1e9, "billions")])
def test_tokens_of_some_rows_in_another_unit_are_noted(unit: float, name: str) -> None:
    mixed = read_runs(TABLE.assign(D=TABLE["D"].where(TABLE["N"] < 2e8, TABLE["D"] / unit))).frame
    mixed = mixed[~mixed.index.isin([14, 15])]
    note = few_tokens_note(mixed, LAW)
    assert note.startswith(f"D is {4e8 / unit:g} at row 17, {1 / unit:.2g} tokens per parameter where the median of all rows is")
    assert note.endswith(f"as if it were in {name}; rows 18, 20–21, 23–24 are like it")
    assert few_tokens_note(TABLE, LAW) == few_tokens_note(TABLE.drop(columns="N"), LAW) == ""


def test_tokens_of_adaptations_in_millions_are_refused() -> None:
    (fault,) = check(TABLE.assign(D=TABLE["D"] / 1e6).iloc[[*range(12, 24)]], LAW)
    assert (fault.code, fault.row, fault.column) == ("tokens-too-few", None, "D")
    assert "in millions" in fault.problem
    assert check(TABLE.assign(D=TABLE["D"] / 1e3), LAW) == []  # adaptations may be short
    assert check(TABLE.assign(D=TABLE["D"] / 1e6), LAW, purpose="forecast") == []


def test_a_loss_before_adaptation_that_several_runs_log_is_noted_with_a_condition_that_leaves_one() -> None:
    text, advice = repeated_base_note(read_runs(TABLE).frame, LAW)
    assert text.startswith("rows 4, 10, 16, 22 repeat the loss of a checkpoint before adaptation")
    assert '--where "D > 0 or r == 0"' in advice
    kept = read_runs(TABLE, "D > 0 or r == 0")
    assert len(kept) == len(TABLE) - 4
    assert repeated_base_note(kept.frame, LAW) == ("", "")
    other_seed = TABLE.assign(loss=TABLE["loss"] + 0.01 * (TABLE["r"] > 0))
    assert repeated_base_note(other_seed, LAW) == ("", "")
    assert repeated_base_note(TABLE, load_law("d-cpt")) == ("", "")  # infinite at D = 0
    empty = TABLE.assign(r=TABLE["r"].where(TABLE["D"] > 0))  # then no share leaves one row of each
    assert repeated_base_note(empty, LAW)[1] == "Keep one such row of each checkpoint"


@pytest.mark.parametrize(
    ("columns", "where", "law", "noted"),
    [
        ({"loss": "eval/loss_target"}, None, "transfer-source", "column eval/loss_target"),
        ({"loss": "eval/loss_target"}, None, "transfer-target", ""),
        ({"loss": "eval/loss_source"}, None, "from-base-source", ""),
        ({"loss": "eval/loss_target"}, None, "d-cpt", ""),
        ({}, "domain == 'source'", "transfer-target", "domain source"),
        ({}, None, "transfer-target", ""),
    ],
)
def test_losses_of_the_other_domain_by_their_names_are_noted(
    columns: dict[str, str], where: str | None, law: str, noted: str
) -> None:
    table = TABLE if columns else TABLE.assign(domain=["source", "target"] * 12)
    table = table.rename(columns={"loss": columns.get("loss", "loss")})
    note = other_domain_note(read_runs(table, where, columns=columns), load_law(law))
    assert note.startswith(f"the losses are of {noted}, and {law} describes") if noted else not note


def test_runs_that_are_named_after_their_model_are_noted() -> None:
    note = shared_names_note(TABLE.assign(run=TABLE["run"].str.rpartition("-")[0]), LAW)
    assert note == "run 1e+08-20 has rows of 2 replay shares (r = 0, 0.3), and 3 other runs too: they share one run effect"
    of_base = TABLE.assign(r=TABLE["r"].where(TABLE["D"] > 0, 0.0))
    assert (
        shared_names_note(TABLE, LAW) == shared_names_note(of_base, LAW) == shared_names_note(TABLE.drop(columns="run"), LAW) == ""
    )


def test_shares_of_a_column_in_percent_are_noted() -> None:
    read = read_runs(TABLE.rename(columns={"r": "replay_pct"}))
    assert small_replay_note(read, LAW) == "replay shares r are at most 0.003, read as r = replay_pct x 0.01"
    assert small_replay_note(read_runs(TABLE), LAW) == small_replay_note(read_runs(TABLE.assign(r=0.0)), LAW) == ""


def test_losses_of_tokenizers_that_a_column_names_are_noted() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law, runs=6).assign(tokenizer=["gpt2", "llama"] * 15)
    assert tokenizers_note(table, law).startswith("column tokenizer has 2 values (gpt2, llama), and losses per token")
    for other in ({"tokenizer": "gpt2"}, {"tokenizer": [1.0, 2.0] * 15}, {"unit": "bits/byte"}):
        assert tokenizers_note(table.assign(**other), law) == ""


@pytest.mark.parametrize("name", ["chinchilla", "d-cpt"])
def test_losses_in_bits_among_those_in_nats_are_noted(name: str, rng: np.random.Generator) -> None:
    law = load_law(name)
    table = oracles.table(law, runs=40, checkpoints=4)
    by_row, by_run = rng.random(len(table)) < 0.5, table["run"].isin(rng.permutation(table["run"].unique())[:15])
    for bits in (by_row, by_run):
        mixed = read_runs(table.assign(loss=table["loss"] / np.where(bits, np.log(2), 1.0)))
        note = two_units_note(mixed.frame, law)
        assert note.startswith(f"{bits.sum()} of 160 rows, such as row {np.flatnonzero(bits)[0] + 1}, have losses 1.4")
        assert "units" in [note.name for note in table_notes(mixed, law)]
    for pure in (table, table.assign(loss=table["loss"] / np.log(2)), table.head(8)):
        assert two_units_note(pure, law) == ""
    for other in (1.2, 2.0):  # of two tokenizers, or two domains
        assert two_units_note(table.assign(loss=table["loss"] * np.where(by_row, other, 1.0)), law) == ""
