"""Notes on tables without faults, whose numbers may mean something else."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.units import convert_table
from bayeslaw.data.notes import (
    _pairs,
    below_chance_note,
    counted_on_note,
    direction_note,
    falling_rates_note,
    few_tokens_note,
    flops_note,
    no_tokens_note,
    other_domain_note,
    out_by_note,
    repeated_base_note,
    repeats_note,
    shared_names_note,
    small_replay_note,
    swapped_note,
    table_notes,
    tokenizers_note,
    two_units_note,
    unknown_covariates_note,
)
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import with_by, with_levels
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


def test_the_first_batch_of_a_curve_is_no_number_of_millions() -> None:
    """A log from step 0 on counts one batch there."""
    steps = np.append(0, np.arange(100, 100_001, 100))
    curve = pd.DataFrame({"run": "a", "N": 8.35e7, "D": 8192.0 * (steps + 1), "loss": 4.0}, index=np.arange(1, len(steps) + 1))
    law = load_law("chinchilla")
    assert few_tokens_note(curve, law) == ""
    curve.loc[[1, 2], "D"] = [100.0, 200.0]
    assert few_tokens_note(curve.iloc[[0, 1, *range(500, 900)]], law).startswith("D is 100 at row 1")


def test_the_first_batch_of_a_curve_is_none_of_millions_where_the_last_row_comes_first_either() -> None:
    steps = np.append(0, np.arange(1000, 400_001, 1000))
    curve = pd.DataFrame({"run": "a", "N": 8.35e7, "D": 8192.0 * (steps + 1), "loss": 4.0}, index=np.arange(1, len(steps) + 1))
    assert few_tokens_note(curve, LAW) == few_tokens_note(curve.iloc[::-1], LAW) == ""
    curve.loc[len(curve), "D"] = 3276.8  # of the last row, in millions
    assert few_tokens_note(curve, LAW) == few_tokens_note(curve.iloc[::-1], LAW) != ""


@pytest.mark.parametrize(
    ("column", "factor", "value", "others", "off"),
    [
        ("D", 1e-3, "4e+06", "1e+09 to 1.6e+10", "1,000 times too small"),
        ("N", 1e-6, "200", "5e+07 to 8e+08", "1,000,000 times too small"),
        ("N", 1e3, "2e+11", "5e+07 to 8e+08", "1,000 times too large"),
    ],
)
def test_one_run_of_a_ladder_in_another_unit_is_noted(column: str, factor: float, value: str, others: str, off: str) -> None:
    """Tokens of one run in thousands passed all checks."""
    law, n = load_law("chinchilla"), np.repeat(5e7 * 2.0 ** np.arange(5), 2)
    ladder = pd.DataFrame({"N": n, "D": n * 20, "loss": 1.7 + 400 / n**0.34 + 400 / (20 * n) ** 0.28}, index=range(1, 11))
    assert out_by_note(ladder, law) == ""
    wrong = ladder.assign(**{column: ladder[column].where(ladder.index != 5, factor * ladder[column])})
    ends = f"{column} is {value} at row 5 and {others} at the ends of other runs"
    assert out_by_note(wrong, law) == f"{ends}, and the loss is like theirs, as if {column} were {off}"
    assert ("tokens", "model") in [(note.name, note.subject) for note in table_notes(read_runs(wrong), law)]
    short = ladder.assign(D=ladder["D"].where(ladder.index != 5, 1e6), loss=ladder["loss"].where(ladder.index != 5, 9.0))
    assert out_by_note(short, law) == ""  # its loss is that of a run with so few tokens


def test_what_varies_and_is_unknown_to_a_law_is_a_concern() -> None:
    """A ladder of sizes by a law of one checkpoint may leave no trend of residuals, where sizes and tokens grow together."""
    one = load_law("fine-tuning")
    assert unknown_covariates_note(TABLE, one) == (
        "the rows have 2 values of N (1e+08 to 4e+08) and 2 values of r (0 to 0.3) and 2 values of ptpp (20 to 60), which "
        "fine-tuning does not know: one curve stands for all"
    )
    of_one = TABLE[(TABLE["N"] == 1e8) & (TABLE["ptpp"] == 20) & ((TABLE["r"] == 0) | (TABLE["D"] == 0))]
    assert unknown_covariates_note(of_one, one) == unknown_covariates_note(of_one.assign(r="none"), one) == ""
    assert unknown_covariates_note(TABLE, LAW) == unknown_covariates_note(TABLE, load_law("task-sigmoid")) == ""
    assert unknown_covariates_note(TABLE, load_law("injection")) == ""  # it knows the base loss
    by_size = with_levels(with_by(one, {"E": "N"}), {"N": ("1e8", "4e8")})
    assert unknown_covariates_note(TABLE, by_size).startswith("the rows have 2 values of r")
    names = [(note.name, note.subject) for note in table_notes(read_runs(TABLE[TABLE["D"] > 0]), one)]
    assert ("unknown_covariates", "model") in names


def test_rates_that_fall_along_runs_are_a_concern_of_laws_that_know_none() -> None:
    """A loss in the middle of a cosine is not that of a run that ends there."""
    law = load_law("chinchilla")
    curves = pd.DataFrame(
        {"run": f"{n:g}", "N": n, "D": n * share, "lr": lr, "loss": 3.0 - 0.01 * share}
        for n in (1e8, 2e8, 4e8)
        for share, lr in ((5, 1e-3), (10, 6e-4), (20, 1e-4))
    )
    assert falling_rates_note(curves, law) == (
        "the learning rate falls along 3 runs, which chinchilla does not know: losses before its fall are higher than those of "
        "runs that end there"
    )
    tuned = load_law("lr-batch")  # the rate of a moment is not what each run was given
    assert falling_rates_note(curves, tuned).endswith("lr-batch takes lr for the peak learning rate that each run was given")
    assert falling_rates_note(curves.assign(lr=1e-3, **{"train/lr": curves["lr"]}), tuned) == ""
    assert falling_rates_note(curves.rename(columns={"lr": "train/lr"}), law) == falling_rates_note(curves, law)
    assert falling_rates_note(curves.assign(lr=1e-3), law) == falling_rates_note(curves.assign(lr="cosine"), law) == ""
    (note,) = (note for note in table_notes(read_runs(curves), law) if note.name == "rates")
    assert note.subject == "model"
    ends = read_runs(curves).where("last")
    assert not [note for note in table_notes(ends, law) if note.name == "rates"]


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
    ratios = table.assign(bytes_per_token=[3.8, 4.2] * 15)
    converted = convert_table(ratios, "nats/token", reference=3.8)
    assert tokenizers_note(converted, law) == ""
    for ours in ([3.8, 4.2] * 15, [3.8, np.nan] * 15):
        assert tokenizers_note(table.assign(bytes_per_token=ours), law)


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
    for few, in_bits in ((10, 0), (16, 3)):  # a plane in place of a quadratic
        ends = table.groupby("run").tail(1).head(few).reset_index(drop=True)
        losses = ends["loss"].where(ends.index >= in_bits, ends["loss"] / np.log(2))
        assert bool(two_units_note(ends.assign(loss=losses), law)) == bool(in_bits)
    for other in (1.2, 2.0):  # of two tokenizers, or two domains
        assert two_units_note(table.assign(loss=table["loss"] * np.where(by_row, other, 1.0)), law) == ""


def test_a_run_with_two_losses_at_one_setting_is_noted() -> None:
    """As a run has that was resumed: `bayeslaw import` asks which loss counts, and a table of one's own may have both."""
    law = load_law("chinchilla")
    table = oracles.table(law, runs=6)
    again = table.tail(1).assign(loss=table["loss"].iloc[-1] + 0.03)
    note = repeats_note(read_runs(pd.concat([table, again])), law)[0]
    assert note.startswith("row 31 has the run and the settings of an earlier row and another loss")
    (whole,) = (note for note in table_notes(read_runs(pd.concat([table, again])), law) if note.name == "repeats")
    condition = re.search(r"--where '([^']+)'` \(runs.where\) leaves out that of row 31", whole.advice)
    assert condition is not None
    left = read_runs(pd.concat([table, again])).where(condition[1])
    assert left.frame.index.tolist() == list(range(1, 31))
    for other in ({"run": "another seed"}, {"run": np.nan}, {"D": 2 * again["D"]}):
        assert repeats_note(read_runs(pd.concat([table, again.assign(**other)])), law)[0] == ""
    assert repeats_note(read_runs(pd.concat([table, again]).assign(seed=range(31))), law)[0] == ""


def test_a_column_whose_names_tell_losses_of_one_run_apart_is_named() -> None:
    """A table of several validation sets was told to leave out single losses: `--where 'loss != 2.871'`."""
    law, table = load_law("chinchilla"), oracles.table(load_law("chinchilla"), runs=6)
    sets = [table.assign(corpus=name, loss=table["loss"] + i) for i, name in enumerate(("C4 & more", "web's"))]
    both = pd.concat(sets, ignore_index=True)
    both.insert(0, "written", [f"at {row}" for row in both.index])
    (note,) = (note for note in table_notes(read_runs(both), law) if note.name == "repeats")
    assert note.text == "rows 31–60 have the run and the settings of an earlier row and another loss, and differ in corpus"
    condition = re.search(r"--where \"(.+?)\", runs.where", note.advice)
    assert condition is not None
    assert read_runs(both).where(condition[1]).frame.index.tolist() == list(range(31, 61))
    assert "(--by E=corpus, by={'E': 'corpus'})" in note.advice
    assert "loss !=" not in note.advice


def test_a_table_in_which_parameters_and_tokens_are_swapped_is_noted() -> None:
    """Chinchilla's law fits such a table as well, and would forecast other settings than those asked for."""
    law, table = load_law("chinchilla"), oracles.table(load_law("chinchilla"), runs=6).assign(D=lambda t: 20 * t["N"])
    assert swapped_note(table, law) == ""
    swapped = table.rename(columns={"N": "D", "D": "N"})
    assert swapped_note(swapped, law) == "every run has more parameters than training tokens (D / N is at most 0.05)"
    assert swapped_note(pd.concat([swapped, table.head(1)]), law) == ""
    assert swapped_note(swapped.assign(r=0.1), load_law("replay-target")) == ""  # adaptations may be short


@pytest.mark.parametrize(
    ("factor", "noted"), [(1, False), (1 / 200, False), (250, False), (1 / 400, True), (1e-9, True), (1e9, True)]
)
def test_flops_far_from_those_of_the_run_are_noted(factor: float, noted: bool) -> None:
    law = load_law("chinchilla")
    table = pd.DataFrame({"N": [1e8, 2e8, 4e8], "D": [1e9, 4e9, 9e9]})
    assert bool(flops_note(table.assign(flops=6 * factor * table["N"] * table["D"]), law)) == noted


def test_rows_without_tokens_are_no_base_checkpoints_of_training_from_scratch() -> None:
    law = load_law("chinchilla")
    table = read_runs(oracles.table(law, runs=6).assign(D=lambda t: t["D"].where(t.index != 4, 0.0))).frame
    why = "chinchilla is a law of training from scratch, and a run without tokens can't be fitted"
    assert no_tokens_note(table, law) == f"row 5 has D = 0 and is kept out: {why}"
    assert no_tokens_note(pd.concat([table, table.assign(D=0.0).iloc[:2].set_axis([90, 91])]), law).startswith("rows 5, 90–91 have")
    assert no_tokens_note(table, load_law("d-cpt")) == no_tokens_note(table[table["D"] > 0], law) == ""


@pytest.mark.parametrize(
    ("name", "column", "text"),
    [
        ("task-sigmoid", "accuracy", "accuracy falls where the loss falls, nearly throughout (rank correlation 0.96)"),
        ("task-exp", "error_rate", "error_rate rises where the loss falls"),
        ("task-direct", "accuracy", "accuracy falls with N x D"),
        ("chinchilla", "loss", "loss rises with N x D"),
    ],
)
def test_an_outcome_that_goes_the_other_way_is_noted(name: str, column: str, text: str) -> None:
    """Error rates were called sound accuracies."""
    law = load_law(name)
    table = oracles.table(law, runs=8)
    table = table[table["chance"] == 0.25] if name == "task-direct" else table
    assert direction_note(table, law) == ""
    assert text in direction_note(table.assign(**{column: table[column].max() + table[column].min() - table[column]}), law)


def test_accuracies_far_below_chance_are_a_concern() -> None:
    """The noise made up for them, without a word."""
    law = load_law("task-sigmoid")
    tasks = pd.DataFrame({"loss": np.tile(np.linspace(2, 3.5, 8), 2), "task": np.repeat(["arc", "coin"], 8), "items": 1000})
    tasks["chance"] = tasks["task"].map({"arc": 0.25, "coin": 0.5})
    tasks["accuracy"] = tasks["chance"] + np.tile([0.4, 0.3, 0.2, 0.1, 0.02, 0.01, -0.01, -0.02], 2)
    assert below_chance_note(tasks, law) == ""  # as far as guessing scatters
    tasks.loc[[13, 14, 15], "accuracy"] = 0.42
    assert below_chance_note(tasks, law).endswith("over 4 sd of guessing (3 of 8 of chance 0.5)")
    by_task = with_levels(with_by(law, {"k": "task"}), {"task": ("arc", "coin")})
    assert below_chance_note(tasks, by_task).endswith("over 4 sd of guessing (3 of 8 of coin)")


def test_tasks_are_ranked_apart_where_an_outcome_may_go_the_other_way() -> None:
    """The easier a task, the higher are the losses at which it was evaluated."""
    tasks = pd.DataFrame({"loss": np.linspace(2, 3.1, 12), "task": np.repeat(list("abcd"), 3)})
    tasks["accuracy"] = 0.3 - 0.1 * (tasks["loss"] - 2) + tasks["task"].map({"a": 0.0, "b": 0.1, "c": 0.2, "d": 0.3})
    law = load_law("task-sigmoid")
    assert "falls where the loss falls" in direction_note(tasks, law)
    assert direction_note(tasks, with_levels(with_by(law, {"k": "task"}), {"task": ("a", "b", "c", "d")})) == ""


def test_flops_of_one_token_are_named_with_both_numbers() -> None:
    law = load_law("chinchilla")
    table = read_runs(pd.DataFrame({"N": [1e8, 2e8, 4e8], "D": [1e9, 4e9, 9e9], "flops": [6e8, 1.2e9, 2.4e9]})).frame
    assert flops_note(table, law) == "column flops has 1.2e+09 at row 2, where 6 N D is 4.8e+18, and most rows are so"
    assert flops_note(table, load_law("ptpp-gate")) == ""  # which may count the pre-training
    for other in ({"flops": np.nan}, {"flops": "many"}, {"flops": 0.0}, {"N": 0.0}):
        assert flops_note(table.assign(**other), law) == ""
    assert flops_note(table.drop(columns="D"), law) == ""


@pytest.mark.slow
def test_one_measurement_under_two_runs_is_noted() -> None:
    """As that of a base checkpoint in the log of each of its adaptations: legitimate, but no new information."""
    law = load_law("transfer-target")
    table = oracles.table(law, runs=8)
    base = table.head(3).assign(N=1e8, ptpp=15.0, D=0.0, r=np.nan, loss=2.987654, run=["a", "b", "c"])
    runs = read_runs(pd.concat([table, base]))
    assert check(runs, law) == []
    assert repeats_note(runs, law)[0].startswith(
        f"rows {len(table) + 1}–{len(table) + 3} (runs a, b, c) have the same settings and, to the last digit,"
    )
    assert repeats_note(read_runs(pd.concat([table, base.assign(loss=2.987)])), law)[0] == ""  # may agree by chance
    assert repeats_note(read_runs(table), law)[0] == ""


@pytest.mark.slow
def test_losses_that_curves_share_here_and_there_are_no_repeats() -> None:
    """Of two curves under one schedule, noisy and logged to four decimals, some losses agree by chance; copied curves all do."""
    law, steps = load_law("annealing"), np.arange(100, 5001, 50)
    rng, area = np.random.default_rng(0), 1e-3 * steps
    at, loss = {"step": steps, "S1": area, "S2": 0.0, "lr_peak": 1e-3}, 2.5 + 0.5 * area**-0.5
    curves = {run: (loss * np.exp(0.0005 * rng.standard_normal(steps.size))).round(4) for run in ("a", "b", "c")}
    assert sum((curves[x] == curves[y]).any() for x, y in ("ab", "bc", "ac")) > 0
    tables = [pd.DataFrame({"run": run, **at, "loss": values}) for run, values in curves.items()]
    assert repeats_note(read_runs(pd.concat(tables)), law)[0] == ""
    copied = tables[0].assign(run="d", loss=np.where(steps < 3000, curves["a"], curves["b"]))
    assert "(runs a, d" in repeats_note(read_runs(pd.concat([*tables, copied])), law)[0]
    branch = tables[0].assign(run="e", loss=np.where(steps <= 1000, curves["a"], curves["b"]))  # with the log of its trunk
    assert "(runs a, e" in repeats_note(read_runs(pd.concat([tables[0], branch])), law)[0]


def test_many_runs_that_share_a_loss_are_noted_at_once() -> None:
    """As those that begin with one initialisation do: there are a million pairs of them."""
    one = {"step": 100, "S1": 0.1, "S2": 0.0, "lr_peak": 1e-3, "loss": 2.12345}
    table = read_runs(pd.DataFrame([{"run": f"r{i}", **one} for i in range(1500)]))
    assert len(_pairs([f"r{i}" for i in range(1500)])) == 1499
    assert "have the same settings" in repeats_note(table, load_law("annealing"))[0]
