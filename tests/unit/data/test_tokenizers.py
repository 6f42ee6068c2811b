"""Losses per token of several tokenizers in one table, or in two that are compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslaw import load_law
from bayeslaw.core.units import convert_table
from bayeslaw.data.table import read_runs
from bayeslaw.data.tokenizers import check_loss_unit, check_tokenizer, differ, loss_unit, token_length, tokenizer_faults
from bayeslaw.data.validate import check
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from tests import oracles
from tests.errors import fails, faults

OTHER = 4.6


@pytest.fixture
def law() -> Law:
    return load_law("chinchilla")


@pytest.fixture
def table(law: Law) -> pd.DataFrame:
    """Losses of two tokenizers, those of the second in the last half of the rows."""
    runs = oracles.table(law)
    late = np.arange(len(runs)) >= len(runs) // 2
    return runs.assign(tokenizer=np.where(late, "new", "old"), bytes_per_token=np.where(late, OTHER, 3.1))


def test_losses_per_token_of_two_tokenizers_are_a_fault(law: Law, table: pd.DataFrame) -> None:
    first = len(table) // 2 + 1
    with faults(("several-tokenizers", first, "bytes_per_token")) as found:
        oracles.observed(law, table)
    assert f"rows {first}–{len(table)} have 4.6 bytes per token and row 1 has 3.1" in found[0].problem
    assert "convert" in found[0].suggestion
    assert [fault.code for fault in check(read_runs(table.drop(columns="loss")), law, purpose="forecast")] == []
    perplexities = table.assign(bytes_per_token=np.nan, characters_per_token=table["bytes_per_token"])
    (by_character,) = check(read_runs(perplexities), law)
    assert by_character.column == "characters_per_token"
    assert "--to nats/character`" in by_character.suggestion  # a reference is one of bytes


def test_only_rows_with_the_length_that_is_shown_are_named(law: Law, table: pd.DataFrame) -> None:
    """Of three lengths the first two, and one row has."""
    lengths = np.full(len(table), 3.1)
    lengths[[4, 6]] = OTHER, 5.2
    with faults(("several-tokenizers", 5, "bytes_per_token")) as found:
        oracles.observed(law, table.assign(bytes_per_token=lengths))
    assert "row 5 has 4.6 bytes per token and row 1 has 3.1" in found[0].problem
    assert "--by E=tokenizer" in found[0].suggestion


def test_lengths_within_a_hundredth_are_one_that_was_measured_twice(law: Law, table: pd.DataFrame) -> None:
    for length, codes in ((3.1 * 1.008, set()), (3.1 * 1.012, {"several-tokenizers"}), (3.1 / 1.012, {"several-tokenizers"})):
        lengths = table.assign(bytes_per_token=np.where(table["tokenizer"] == "old", 3.1, length))
        assert {fault.code for fault in check(read_runs(lengths), law)} == codes
        one, other = {"bytes_per_token": 3.1}, {"bytes_per_token": length}
        assert (differ(one, other, "nats/token") is None) == (not codes)
        assert token_length(lengths, law) == ({} if codes else one)


def test_losses_on_which_an_accuracy_depends_have_the_unit_of_the_table_or_else_of_the_law() -> None:
    law = load_law("task-sigmoid")
    frame = pd.DataFrame({"loss": [2.0]})
    assert loss_unit(frame, law) == law.measured["loss"].unit
    assert loss_unit(frame.assign(unit="bits/byte"), law) == "bits/byte"
    assert token_length(frame.assign(bytes_per_token=4.2), law) == {"bytes_per_token": 4.2}
    check_loss_unit("bits/byte", frame, law, "new.csv")  # a table that says nothing
    with fails("another-unit", "bits/byte"):
        check_loss_unit("bits/byte", frame.assign(unit="nats/token"), law, "new.csv")


def test_losses_that_were_brought_to_one_unit_are_sound(law: Law, table: pd.DataFrame) -> None:
    for sound in (
        convert_table(table, "bits/byte"),
        convert_table(table, "nats/token", reference=3.8),
        table.assign(bytes_per_token=np.where(table["tokenizer"] == "old", 3.1, 3.1002)),  # measured twice
        table.assign(bytes_per_token=np.where(table["tokenizer"] == "old", 3.1, np.nan)),
    ):
        assert check(read_runs(sound), law) == []


def test_parameters_that_vary_by_the_tokenizer_or_domain_describe_the_difference(law: Law, table: pd.DataFrame) -> None:
    by = with_by(law, {"E": "tokenizer"})
    assert tokenizer_faults(table, by) == []  # before its values are known, too
    assert check(read_runs(table), with_levels(by, levels_of(by, table))) == []
    domains = read_runs(table.rename(columns={"tokenizer": "domain"}))
    assert "several-tokenizers" not in {fault.code for fault in check(domains, law)}  # that domains are mixed is another error


def test_a_law_of_another_outcome_takes_any_tokenizers() -> None:
    vocabulary = load_law("vocabulary")
    table = oracles.table(vocabulary)
    assert check(read_runs(table.assign(bytes_per_token=np.linspace(3, 5, len(table)))), vocabulary) == []


def test_a_table_of_another_tokenizer_is_refused(law: Law, table: pd.DataFrame) -> None:
    old, new = (table[table["tokenizer"] == name] for name in ("old", "new"))
    fitted = token_length(old, law)
    assert fitted == {"bytes_per_token": 3.1}
    assert token_length(table, law) == token_length(convert_table(old, "bits/byte"), law) == {}
    with fails("other-tokenizer", "new.csv", "4.6 and 3.1 bytes per token", "--to nats/token --reference 3.1`"):
        check_tokenizer(fitted, new, law, "new.csv")
    with fails("other-tokenizer", "--to bits/token --reference 3.1`"):
        check_tokenizer(fitted, new.assign(unit="bits/token"), law, "new.csv")
    with fails("other-tokenizer", "both tables", "--to nats/character`", "fit again"):
        lengths = new.rename(columns={"bytes_per_token": "characters_per_token"})
        check_tokenizer({"characters_per_token": 3.1}, lengths, law, "new.csv")
    for same in (old, new.drop(columns="bytes_per_token"), convert_table(new, "nats/token", reference=3.1)):
        check_tokenizer(fitted, same, law, "same.csv")
    assert differ({"bytes_per_token": 4.0}, {"characters_per_token": 3.0}, "nats/token") is differ({}, fitted, "nats/token") is None
