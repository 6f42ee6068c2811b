"""Every fault of a table for a law, and what its message advises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import TableError, grouped
from bayeslaw.data.logs.api import import_runs
from bayeslaw.data.notes import repeats_note
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import Purpose, check, complete
from bayeslaw.laws.card import card_folder, load_law
from bayeslaw.laws.law import Law
from tests import oracles
from tests.errors import fails, faults

Key = tuple[str, int | None, str]


def found(table: pd.DataFrame, law: Law, purpose: Purpose = "fit") -> list[Key]:
    """Code, row and column of every fault of a table."""
    return [(f.code, f.row, f.column) for f in check(read_runs(table), law, purpose=purpose)]


def put(table: pd.DataFrame, row: int, column: str, value: float) -> pd.DataFrame:
    """The table with one cell changed; rows are counted from 1."""
    changed = table.copy()
    changed.loc[row - 1, column] = value
    return changed


def test_a_sound_table_has_no_fault(law: Law) -> None:
    assert found(oracles.table(law), law) == []


CELLS = {
    "loss 0": ("loss", 0.0, "loss-not-positive", ""),
    "loss below 0": ("loss", -2.0, "loss-not-positive", "nats/token"),
    "loss nan": ("loss", np.nan, "missing-loss", ""),
    "loss inf": ("loss", np.inf, "infinite-loss", ""),
    "perplexity": ("loss", 34.5, "loss-too-large", "perplexity?"),
    "N in billions": ("N", 1.3, "out-of-support", "billions?"),
    "N too large": ("N", 1e15, "out-of-support", "1e+13"),
    "N 0": ("N", 0.0, "out-of-support", "positive"),
    "N nan": ("N", np.nan, "missing-value", ""),
    "N inf": ("N", np.inf, "out-of-support", ""),
    "D in billions": ("D", 2.5, "out-of-support", "billions?"),
    "D below 0": ("D", -1.0, "out-of-support", "positive"),
    "percent": ("r", 34.0, "out-of-support", "percentage?"),
    "r below 0": ("r", -0.1, "out-of-support", "share"),
    "ptpp": ("ptpp", 0.01, "out-of-support", "pre-training tokens per parameter"),
}


@pytest.mark.parametrize("case", CELLS)
def test_an_impossible_cell_is_refused_by_row(case: str, table: pd.DataFrame, gate: Law) -> None:
    column, value, code, hint = CELLS[case]
    with faults((code, 4, column)) as listed:
        Observations.of(gate, read_runs(put(table, 4, column, value)))
    assert np.isnan(value) or f"{value:g}" in listed[0].problem
    assert hint in str(listed[0])


def test_a_law_is_given_by_its_name_too(table: pd.DataFrame, gate: Law) -> None:
    runs = read_runs(table.drop(columns="D"))
    assert check(runs, "ptpp-gate") == check(runs, gate) != []


def test_the_message_of_a_missing_column_suggests_the_nearest_one(table: pd.DataFrame, gate: Law) -> None:
    assert grouped(check(read_runs(table.rename(columns={"ptpp": "pttp"})), gate)) == [
        "column ptpp is missing: ptpp-gate needs loss, N, D, r, ptpp; there are N, D, r, pttp, run, loss. "
        "If a column has another name, add --column ptpp=COLUMN (in Python read_runs(…, columns={'ptpp': 'COLUMN'})). "
        "Did you mean 'pttp'?"
    ]


def test_settings_to_forecast_need_no_loss(table: pd.DataFrame, gate: Law) -> None:
    settings = table[["N", "D", "r", "ptpp"]].head(2)
    assert found(settings, gate, purpose="forecast") == []
    assert found(put(settings, 1, "r", 2.0), gate, purpose="forecast") == [("out-of-support", 1, "r")]


def test_a_law_of_several_pretraining_stages_needs_two(table: pd.DataFrame, gate: Law) -> None:
    assert found(table.assign(ptpp=31.0), gate) == [("too-few-values", None, "ptpp")]


def test_a_column_without_numbers_is_one_fault(table: pd.DataFrame, gate: Law) -> None:
    runs = Runs(read_runs(table).frame.assign(r="a lot"))
    assert [(f.code, f.column) for f in check(runs, gate)] == [("column-without-numbers", "r")]
    (fault,) = check(Runs(read_runs(table).frame.assign(r="26.2%")), gate)
    assert "'26.2%'" in fault.problem
    assert "without %" in fault.suggestion


def test_faults_of_the_table_come_before_those_of_rows(table: pd.DataFrame, gate: Law) -> None:
    broken = put(put(table.drop(columns="D"), 3, "loss", -1.0), 2, "N", np.nan)
    assert [row for _, row, _ in found(broken, gate)] == [None, 2, 3]


def test_rows_are_those_of_the_file_after_a_filter(table: pd.DataFrame, gate: Law, tmp_path: Path) -> None:
    put(table, 7, "loss", np.nan).to_csv(tmp_path / "runs.csv", index=False)
    (fault,) = check(read_runs(tmp_path / "runs.csv", "ptpp >= 31"), gate)
    assert (fault.row, fault.column, fault.code) == (7, "loss", "missing-loss")
    assert "--where 'loss < 15'" in fault.suggestion


def test_faults_of_one_cause_are_one_line(gate: Law) -> None:
    table = oracles.table(gate).assign(loss=-1.0)
    with pytest.raises(TableError) as caught:
        Observations.of(gate, read_runs(put(table, 30, "N", 7.0)))
    lines = str(caught.value).splitlines()
    assert "31" in lines[0]
    assert lines[1].endswith("(row 1, column loss), and 29 like it: rows 2–30")
    assert "row 30, column N" in lines[2]
    assert len(lines) == 3


def test_base_checkpoints_alone_are_refused(table: pd.DataFrame, gate: Law) -> None:
    assert found(table.assign(D=0.0), gate) == [("only-base-checkpoints", None, "D")]


def test_a_law_of_training_from_scratch_is_not_advised_rows_of_an_adaptation() -> None:
    law = load_law("chinchilla")
    (fault,) = check(oracles.table(law).assign(D=0.0), law)
    assert fault.code == "only-base-checkpoints"
    assert "adaptation" not in str(fault)
    assert "base checkpoint" not in str(fault)
    assert "tokens on which the model was trained" in str(fault)


def test_fewer_rows_than_a_fit_takes_are_a_fault_of_a_fit_alone() -> None:
    law, few = load_law("chinchilla"), pd.DataFrame({"N": [1e8, 2e8, 3e8], "D": [1e9, 2e9, 4e9], "loss": [3.0, 2.9, 2.8]})
    assert check(few, law) == []
    assert found(few.head(2), law) == [("too-few-rows", None, "")]
    assert found(few.assign(D=[0.0, 2e9, 4e9]), law) == [("too-few-rows", None, "")]  # the first is kept out of the fit
    assert found(few.head(2), law, "score") == found(few.head(2), law, "forecast") == []
    again = pd.concat([few.head(2)] * 2, ignore_index=True)
    assert [f.code for f in check(read_runs(again, duplicates="drop"), law)] == ["too-few-rows"]


def test_check_lists_cells_without_numbers_with_all_other_faults(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("N,D,loss\n1e8,1e9,oops\n0.1,1e9,2.9\n1e8,1e9,40\n")
    listed = check(read_runs(path, strict=False), load_law("chinchilla"))
    assert [(f.code, f.row) for f in listed] == [("not-a-number", 1), ("out-of-support", 2), ("loss-too-large", 3)]


@pytest.mark.parametrize("name", ["transfer-source", "transfer-target"])
def test_an_empty_r_at_a_base_checkpoint_is_no_fault(name: str) -> None:
    """Nothing is replayed at D = 0; the law does not depend on r there, and the cell gets the other rows' median."""
    law = load_law(name)
    table = oracles.table(law)
    base = table.iloc[[0]].assign(D=0.0, r=np.nan, run="base")
    runs = oracles.runs(pd.concat([table, base], ignore_index=True))
    assert check(runs, law) == []
    assert complete(runs.frame, law)["r"].iloc[-1] == table["r"].median()
    assert runs.frame["r"].isna().iloc[-1]  # the table itself keeps its empty cell
    elsewhere = runs.frame.assign(D=runs.frame["D"].where(runs.frame["D"] > 0, 1e9))
    assert [f.column for f in check(oracles.runs(elsewhere), law)] == ["r"]


def test_a_law_that_depends_on_r_at_d_0_needs_it(tmp_path: Path) -> None:
    text = (card_folder() / "transfer-source.toml").read_text().replace("minimum(D, 1)", "minimum(D + r, 1)")
    card = tmp_path / "nosy.toml"
    card.write_text(text.replace('name   = "transfer-source"', 'name   = "nosy"'))
    law = load_law(card)
    assert law.idle_at_base == frozenset()
    assert load_law("transfer-source").idle_at_base == {"r"}
    assert load_law("d-cpt").idle_at_base == frozenset()
    table = oracles.table(load_law("transfer-source"))
    base = table.iloc[[0]].assign(D=0.0, r=np.nan, run="base")
    listed = check(oracles.runs(pd.concat([table, base], ignore_index=True)), law)
    assert [(f.code, f.column) for f in listed] == [("missing-value", "r")]


def test_a_size_beside_others_in_millions_is_in_millions() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law).assign(run=lambda t: t["run"] + t["N"].astype(str))
    for value, usual, unit in ((31.0, 31e6, "millions"), (7.0, 7e9, "billions"), (1.3, 4e8, "billions")):
        sizes = put(table.assign(N=usual * np.linspace(1, 2, len(table)), run=None), 1, "N", value)
        (fault,) = check(read_runs(sizes), law)
        assert f"is it in {unit}?" in str(fault)


# --- rows that repeat others --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_that_repeat_others_exactly_are_refused_dropped_or_kept() -> None:
    """Five copies of a table narrowed its intervals by a fifth, without a word."""
    law = load_law("chinchilla")
    table = oracles.table(law)  # six runs of five rows
    named = pd.concat([table, table.tail(3).assign(note="logged again")])
    unnamed = pd.concat([table, table]).drop(columns="run")
    for repeated, rows, count in ((named, "rows 31–33 repeat rows 28–30", 3), (unnamed, "rows 31–60 repeat rows 1–30", 30)):
        (fault,) = check(read_runs(repeated), law)
        assert (fault.code, fault.row) == ("repeated-rows", None)
        assert f"{rows} exactly ({count} rows in all)" in str(fault)
        with fails("repeated-rows", rows, "--duplicates"):
            Observations.of(law, read_runs(repeated))
        dropped, kept = (read_runs(repeated, duplicates=policy) for policy in ("drop", "keep"))
        assert check(dropped, law) == check(kept, law) == []
        assert [Observations.of(law, runs).response.size for runs in (dropped, kept)] == [30, 30 + count]
        assert repeats_note(dropped, law)[0].endswith("which repeat earlier rows exactly, are left out")
        assert "are kept: each narrows the intervals" in repeats_note(kept, law)[0]
    one = read_runs(pd.concat([table, table.tail(1)]), duplicates="drop")
    assert repeats_note(one, law)[0] == "row 31, which repeats an earlier row exactly, is left out"
    with fails("unknown-duplicates", "merge"):
        read_runs(table, duplicates="merge")  # type: ignore[arg-type]


@pytest.mark.slow
def test_rows_that_differ_in_a_column_with_a_meaning_are_no_repeats() -> None:
    law = load_law("chinchilla")
    twice = pd.concat([oracles.table(law)] * 2, ignore_index=True)
    half = np.arange(len(twice)) // 30
    for column in ("run", "step", "lr", "seed"):
        assert check(read_runs(twice.assign(**{column: half if column != "run" else half.astype(str) + twice["run"]})), law) == []
    assert check(read_runs(twice.drop(columns="run").assign(batch_size=half)), law) == []  # without runs, any column will do
    base = twice[["N", "run"]].head(2).assign(D=0.0, loss=3.0, run="run 0", N=twice["N"].iloc[0])
    assert check(read_runs(pd.concat([oracles.table(law), base])), law) == []  # kept out of the fit


def test_losses_of_two_domains_are_not_fitted_as_one(gate: Law, table: pd.DataFrame) -> None:
    both = pd.concat([table.assign(domain="source"), table.assign(domain="target")])
    (fault,) = check(oracles.runs(both), gate)
    assert (fault.code, fault.row, fault.column) == ("mixed-domains", None, "")
    with fails("mixed-domains", fault, "source, target", "ptpp-gate"):
        oracles.observed(gate, both)
    for purpose in ("score", "forecast"):
        assert found(both, gate, purpose) == []
    assert check(oracles.runs(both), gate, by={"E": "domain"}) == []
    assert oracles.observed(gate, both[both["domain"] == "source"]).runs > 0


def test_small_tokens_beside_tokens_in_billions_are_in_billions_too() -> None:
    """120 is a number of tokens, if an odd one, and says nothing about 0.35 beside it."""
    table = pd.DataFrame({"run": ["a", "b", "c"], "N": 1e9, "D": [0.35, 20.0, 120.0], "loss": [3.0, 2.5, 2.4]})
    found = check(read_runs(table), load_law("chinchilla"))
    problems = [fault.problem for fault in found if fault.column == "D"]
    assert len(problems) == 2
    assert all(problem.endswith("is it in billions?") for problem in problems)


def test_logarithms_are_asked_for_where_all_numbers_may_be_some() -> None:
    table = pd.DataFrame({"run": ["a", "b", "c"], "N": [1e8, 3e8, 1e9], "D": [2e9, 6e9, 2e10], "loss": [3.0, 2.5, 2.4]})
    for log in (np.log, np.log10):
        found = check(read_runs(table.assign(N=log(table["N"]), D=log(table["D"]))), load_law("chinchilla"))
        assert {fault.column for fault in found if fault.problem.endswith("is it a logarithm?")} == {"N", "D"}
    in_billions = check(read_runs(table.assign(N=table["N"] / 1e9)), load_law("chinchilla"))
    assert not any("logarithm" in fault.problem for fault in in_billions)


def test_tokens_in_billions_are_found_where_a_law_describes_few_tokens() -> None:
    """Adaptations begin at D = 0, so that no row by itself is outside what the law describes."""
    law = load_law("transfer-target")
    table = oracles.table(law, runs=4)
    assert not check(read_runs(table), law)
    (fault,) = check(read_runs(table.assign(D=table["D"] / 1e9)), law)
    assert fault.problem.endswith("is it in millions or in billions?")
    assert "--column D=COLUMN:M or :B (columns={'D': 'COLUMN:M'})" in fault.suggestion


def test_few_examples_are_no_tokens_in_another_unit() -> None:
    """Of a law that may count examples, as fine-tuning may: 320 are many."""
    law, table = load_law("fine-tuning"), pd.DataFrame({"count": [20, 80, 320], "loss": [2.1, 1.9, 1.8]})
    (fault,) = check(read_runs(table.rename(columns={"count": "D"})), law)
    assert fault.code == "tokens-too-few"
    assert "a column of examples keeps its name, such as --column D=n_examples (columns={'D': 'n_examples'})" in fault.suggestion
    assert check(read_runs(table.rename(columns={"count": "n_examples"}), columns={"D": "n_examples"}), law) == []
    (fault,) = check(read_runs(pd.DataFrame({"D": [20]})), law, purpose="forecast")
    assert "--set D=7B" in fault.suggestion


@pytest.mark.parametrize(("most", "units"), [(5.6e10, "millions or in billions"), (5.6e11, "millions")])
def test_tokens_too_few_for_every_model_are_in_another_unit(most: float, units: str) -> None:
    law = load_law("chinchilla")
    table = pd.DataFrame({"N": [1.5e7, 1.1e8, 1.3e9], "D": [3e8, 2.2e9, most], "loss": [3.0, 2.5, 2.4]})
    (fault,) = check(read_runs(table.assign(D=table["D"] / 1e6)), law)
    assert (fault.code, fault.column, fault.row) == ("tokens-too-few", "D", None)
    assert fault.problem.endswith(f"tokens per parameter in all rows: is it in {units}, or does it count steps?")
    assert "--column D=COLUMN:524288" in fault.suggestion
    (fault,) = check(read_runs(table.assign(D=table["D"] / 1e6 + 0.5)), law)
    assert fault.problem.endswith(f"tokens per parameter in all rows: is it in {units}?")
    settings = pd.DataFrame({"N": [1e12], "D": [1e7]})
    assert not check(read_runs(settings), law, purpose="forecast")
    (fault,) = check(read_runs(settings.assign(D=140)), law, purpose="forecast")
    assert fault.code == "tokens-too-few"
    assert "--set D=7B" in fault.suggestion
    (fault,) = check(read_runs(settings.assign(N=7)), law, purpose="forecast")
    assert "--set N=7B" in fault.suggestion


def test_tokens_in_billions_of_all_rows_have_the_option_with_the_unit() -> None:
    """Some of them lie in the support: a run may have had 168 tokens, but 0.35 beside it are billions as well."""
    table = pd.DataFrame({"N": [1e8, 2e8, 7e9], "tokens": [0.35, 2.0, 168.0], "loss": [3.4, 3.2, 2.5]})
    (fault, *_) = check(read_runs(table), load_law("chinchilla"))
    assert (fault.row, fault.column) == (1, "D")
    assert "--column D=COLUMN:M or :B (columns={'D': 'COLUMN:M'})" in fault.suggestion
    (fault, *_) = check(read_runs(table.assign(tokens=[0.35, 2e9, 168e9])), load_law("chinchilla"))
    assert "--column" not in fault.suggestion


def test_units_that_may_be_either_are_both_named() -> None:
    table = pd.DataFrame({"N": [15.0, 110.0, 1300.0], "D": [3e8, 2e9, 5e10], "loss": [3.0, 2.5, 2.4]})
    found = check(read_runs(table), load_law("chinchilla"))
    assert {fault.problem.rpartition(": ")[2] for fault in found} == {"is it in millions or in billions?"}
    tokens = [2.0, 10.0, 50.0]  # millions of 2M models; of models of 1B only billions are likely
    for sizes, units in (([1.8, 5.5, 21.0], "millions or in billions"), (1e9, "billions")):
        found = check(read_runs(pd.DataFrame({"N": sizes, "D": tokens, "loss": [3.0, 2.5, 2.4]})), load_law("chinchilla"))
        assert {f.problem.rpartition(": ")[2] for f in found if f.column == "D" and f.row} == {f"is it in {units}?"}


def test_models_that_are_too_small_for_a_law_are_no_millions() -> None:
    table = oracles.table(load_law("chinchilla")).assign(run=None)
    small = put(table.assign(N=1e7 * np.linspace(1, 2, len(table))), 1, "N", 152512.0)
    (fault,) = check(read_runs(small), load_law("farseer"))
    assert "no smaller models" in fault.problem
    assert "--where 'N >= 1e+06'" in fault.suggestion
    (fault,) = check(read_runs(put(small, 1, "N", 15.0)), load_law("farseer"))
    assert fault.problem.endswith("is it in millions?")


def test_parameters_and_tokens_may_be_written_with_the_unit_in_the_cell(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("params_m,tokens,loss\n15M,300M,3\n1.3B,52 B,2.4\n110,2.2e9,2.5\n")
    runs = read_runs(tmp_path / "runs.csv")
    assert runs.frame["N"].tolist() == [15e6, 1.3e9, 110e6]
    assert runs.frame["D"].tolist() == [300e6, 52e9, 2.2e9]
    with fails("not-a-number", "loss '3M' is not a number"):
        read_runs(pd.DataFrame({"N": ["15M", "1M"], "D": [1e9, 2e9], "loss": ["3M", "2.5"]})).where("N > 0")


@pytest.mark.parametrize(
    ("condition", "rows"), [("params_m < 1000", [1, 3]), ("params_m >= 1300 and tokens > 4e8", [2]), ("tokens <= 3e8", [1])]
)
def test_conditions_by_the_names_of_the_file_take_cells_with_their_unit(condition: str, rows: list[int]) -> None:
    runs = read_runs(pd.DataFrame({"params_m": ["15M", "1.3B", "110"], "tokens": ["300M", "52 B", "2.2e9"], "loss": [3, 2.4, 2.5]}))
    assert runs.where(condition).frame.index.tolist() == rows


def test_the_same_amount_is_the_same_number_in_every_unit(tmp_path: Path) -> None:
    """8.2 x 1e6 is 8199999.999999999 to a computer, and 57 x .01 is .5700000000000001."""
    table = pd.DataFrame({"N": ["8.2M", "8.2e6", "0.0082B"], "replay_pct": [57, "57.0", 57], "tokens_m": [2.03, "2.03", "2.03M"]})
    frame = read_runs(table).frame
    assert {name: frame[name].unique().tolist() for name in ("N", "r", "D")} == {"N": [8.2e6], "r": [0.57], "D": [2.03e6]}
    assert len(read_runs(table, "N >= 8.2e6 and r == 0.57 and replay_percent == 57 and params_m == 8.2")) == 3
    table.assign(run=["a", "b", "c"], val_loss=3.0).to_csv(tmp_path / "log.csv", index=False)
    imported = import_runs(tmp_path / "log.csv").runs.frame
    assert imported[["N", "D", "r"]].drop_duplicates().to_numpy().tolist() == [[8.2e6, 2.03e6, 0.57]]


def test_columns_whose_largest_would_be_too_large_in_billions_are_in_millions() -> None:
    table = pd.DataFrame({"run": ["a", "b", "c"], "N": [10.6, 154.0, 6889.0], "D": [2e4, 1e5, 3e5], "loss": [3.0, 2.5, 2.4]})
    found = check(read_runs(table), load_law("chinchilla"))
    assert {fault.problem.rpartition(": ")[2] for fault in found if fault.column == "N"} == {"is it in millions?"}


def test_perplexities_and_percentages_are_read_as_the_fault_says() -> None:
    table = oracles.table(load_law("replay-target"))
    odd = table.assign(r=100 * table["r"], loss=np.exp(20 * table["loss"])).rename(columns={"loss": "val_loss", "r": "replay"})
    shown = str(check(read_runs(odd), "replay-target")[0]) + str(check(read_runs(odd), "replay-target")[-1])
    named = {"loss": "val_loss:perplexity", "r": "replay:%"}
    for ours, text in named.items():
        assert f"--column {ours}={text} (columns={{{ours!r}: {text!r}}})" in shown
    read = read_runs(odd, columns=named)
    np.testing.assert_allclose(read.frame["loss"], 20 * table["loss"])
    np.testing.assert_allclose(read.frame["r"], table["r"])
    again = " ".join(map(str, check(read_runs(odd.assign(replay=100 * odd["replay"]), columns=named), "replay-target")))
    assert "divide by 100" in again.lower()
    assert ":%" not in again  # read so already


def test_losses_that_are_all_negative_may_be_log_likelihoods() -> None:
    table = oracles.table(load_law("chinchilla")).rename(columns={"loss": "val_loss"})
    fault = check(read_runs(table.assign(val_loss=-table["val_loss"])), "chinchilla")[0]
    assert "log likelihoods, change the sign of all, in pandas df['val_loss'] = -df['val_loss']" in fault.suggestion
    table.loc[0, "val_loss"] = -1.0
    assert "add back what was subtracted" in check(read_runs(table), "chinchilla")[0].suggestion


def test_tokens_are_no_tokens_per_parameter() -> None:
    law = load_law("transfer-target")
    table = oracles.table(law).assign(ptpp=lambda t: t["ptpp"] * t["N"])
    found = check(read_runs(table), law)
    assert any(fault.column == "ptpp" and "number of tokens" in fault.problem for fault in found)
    found = check(read_runs(oracles.table(law).assign(ptpp=2e5)), law)  # too few to be tokens of such models
    assert not any("number of tokens" in fault.problem for fault in found)


def test_domains_that_differ_by_case_are_refused_before_a_condition_leaves_some_out() -> None:
    rows = pd.DataFrame({"loss": [3.0, 2.9, 2.8], "domain": ["web", "Web", "web"]})
    with faults(("alike-domains", 2, "domain")):
        read_runs(rows, "domain == 'web'")
    assert len(read_runs(rows.assign(domain=["web", "code", "web"]), "domain == 'web'")) == 2


def test_rows_before_an_adaptation_alone_are_refused() -> None:
    law = load_law("cpt-dynamics")
    begun = oracles.table(law)
    assert not check(read_runs(begun), law)
    only = check(read_runs(begun.assign(S1_cpt=0.0, S2_cpt=0.0)), law)
    assert [(fault.code, fault.column) for fault in only] == [("only-base-checkpoints", "S1_cpt and S2_cpt")]


def test_amounts_that_contradict_each_other_are_noted() -> None:
    table = pd.DataFrame(
        {"N": 1e7, "D": [1e8, 2e8], "atpp": [10.0, 21.0], "ptpp": 20.0, "pretrain_tokens": [2.01e8, 1.4e9], "loss": 3.0}
    )
    assert read_runs(table).conversions == (
        "D as given; atpp x N differs in 1 row, such as 2.1e+08 where D is 2e+08 (row 2)",
        "ptpp as given; pretrain_tokens / N differs in 1 row, such as 140 where ptpp is 20 (row 2)",
    )
    assert read_runs(table.assign(atpp=table["D"] / table["N"]).drop(columns="ptpp")).conversions == ("ptpp = pretrain_tokens / N",)
