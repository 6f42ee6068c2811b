"""Tables of training curves: columns, every fault, areas against plain loops, and runs that go on from others."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.core.errors import TableError
from bayeslaw.data import Curves, read_curves
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law
from bayeslaw.schedules.areas import OPEN
from bayeslaw.schedules.schedule import constant, linear, logged, wsd
from tests.errors import fails, faults
from tests.logs import noted

TINYCPT = Path(__file__).parents[3] / "data" / "tinycpt" / "curves.csv"
AREAS = ["S1_pt", "S2_pt", "S2w_pt", "S1_cpt", "S2_cpt", "S2w_cpt", "S1", "S2", "S2w"]


def rows(run: str, rates: Any, *, every: int = 1, **others: Any) -> pd.DataFrame:
    """A run logged from step 0 on."""
    steps = np.arange(0, len(rates) + 1, every)
    lr = np.append(np.nan, np.asarray(rates))[steps]
    return pd.DataFrame({"run": run, "step": steps, "lr": lr, "loss": 4.0 - 0.001 * steps, **others})


def family() -> pd.DataFrame:
    """A trunk, a decay branch, an adaptation of the branch and one of the trunk, an adaptation of an unknown model."""
    return pd.concat(
        [
            rows("trunk", constant(60, 1e-3, warmup=10).rates),
            rows("decay", linear(20, 1e-3).rates, parent="trunk", parent_step=40, phase="pretrain"),
            rows("adapt", wsd(30, 5e-4, warmup=5).rates, parent="decay"),
            rows("early", constant(30, 5e-4).rates, parent="trunk", parent_step=20),
            rows("open", constant(30, 5e-4, warmup=3).rates, phase="adapt"),
        ],
        ignore_index=True,
    )


def found(table: pd.DataFrame) -> list[tuple[str, int | None, str]]:
    """Code, row and column of every fault of a table."""
    with pytest.raises(TableError) as caught:
        read_curves(table)
    return [(f.code, f.row, f.column) for f in caught.value.faults]


# --- tinycpt --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny() -> Curves:
    return read_curves(TINYCPT)


@pytest.mark.slow
def test_areas_of_tinycpt_equal_plain_loops(tiny: Curves) -> None:
    """Areas at the end of every run, its parent's included, by a loop over the steps of the file; 100 of them are warm-up."""
    table = pd.read_csv(TINYCPT)
    ends = tiny.frame[tiny.frame["domain"] == "target"].groupby("run").tail(1).set_index("run")
    assert len(ends) == table["run"].nunique() == 18
    for run, own in table.groupby("run", sort=False):
        parent, step = own["parent"].iloc[0], own["parent_step"].iloc[0]
        before = table[(table["run"] == parent) & (table["step"] <= step)]
        sums = dict.fromkeys(AREAS, 0.0)
        last, momentum = 0.0, 0.0
        for part, phase in ((before, "pt"), (own, "cpt")) if len(before) else ((own, "pt"),):
            for i, rate in enumerate(part["lr"].tolist()[1:], start=1):
                momentum = 0.0 if phase == "pt" and i <= 100 else 0.999 * momentum + (last - rate)
                last = rate
                for area, value in (("S1", rate), ("S2", momentum), ("S2w", momentum * rate**0.1)):
                    sums[f"{area}_{phase}"] += value
                    sums[area] += value
        assert ends.loc[str(run), "lr"] == last
        np.testing.assert_allclose(ends.loc[str(run), AREAS].to_numpy(float), [sums[a] for a in AREAS], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_tinycpt_is_continuous_where_runs_join(tiny: Curves) -> None:
    """Losses and areas of an adaptation's step 0 are those of the parent's step: the parents are the right ones."""
    frame = tiny.frame
    joined = frame[(frame["phase"] == "adapt") & (frame["step"] == 0)]
    assert len(joined) == 30
    for _, row in joined.iterrows():
        same = (frame["run"] == row["parent"]) & (frame["domain"] == row["domain"]) & (frame["step"] == row["parent_step"])
        there = frame[same].iloc[0]
        assert row["loss"] == there["loss"]
        np.testing.assert_allclose(row[AREAS].to_numpy(float), there[AREAS].to_numpy(float), rtol=1e-12)
        assert row[["S1_cpt", "S2_cpt", "S2w_cpt"]].tolist() == [0, 0, 0]
        assert row["lr"] == there["lr"]


def test_curves_become_runs_by_domain_and_phase(tiny: Curves) -> None:
    assert tiny.domains == ("source", "target")
    assert tiny.notes == ()
    target = tiny.runs("target", "adapt")
    assert set(target.frame["domain"]) == {"target"}
    assert set(target.frame["phase"]) == {"adapt"}
    assert {"N", "ptpp", "r", "D", "schedule", *AREAS} <= set(target.frame)
    assert len(tiny.runs()) == 2 * len(tiny.runs("source")) == len(pd.read_csv(TINYCPT)["source_loss"].dropna()) * 2
    with fails("unknown-domain", "'targte'", "source, target", "'target'"):
        tiny.runs("targte")


# --- runs that go on from others ------------------------------------------------------------------------------------


def test_runs_go_on_from_their_parents() -> None:
    curves = read_curves(family())
    assert curves.run_names == ("trunk", "decay", "adapt", "early", "open")
    assert [(phase, len(s)) for phase, s in curves.phases("adapt")] == [("pretrain", 40), ("pretrain", 20), ("adapt", 30)]
    assert (curves.curve("adapt").phase, curves.curve("adapt").parent_step) == ("adapt", 20)
    assert curves.start("trunk") is None
    assert curves.start("open") is OPEN
    assert curves.at("adapt", 0) == curves.at("decay") == curves.start("adapt")
    assert curves.at("adapt").pretrain == curves.at("decay").pretrain
    assert curves.frame.loc[curves.frame["run"] == "open", ["S1_pt", "S2_pt", "S1"]].isna().all().all()
    assert noted(curves, "(open)", "S1_pt")
    with fails("unknown-run", "'trnk'", "'trunk'"):
        curves.schedule("trnk")
    with fails("unknown-step", 60, 61):
        curves.at("trunk", 61)
    with fails("no-state-at-step-0", "trunk"):
        curves.at("trunk", 0)
    with fails("unknown-phase", "'adapted'"):
        curves.runs(phase="adapted")  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=6)
@given(st.integers(10, 60), st.sampled_from([0.0, 0.9, 0.999]), st.sampled_from(["shuffled", "sorted"]))
def test_a_trunk_and_its_branch_have_the_areas_of_one_run(cut: int, memory: float, order: str) -> None:
    """The order of runs in the table does not matter."""
    trunk, decay = constant(60, 1e-3, warmup=10).rates, linear(20, 1e-3).rates
    parts = [rows("trunk", trunk), rows("decay", decay, parent="trunk", parent_step=cut, phase="pretrain")]
    split = read_curves(pd.concat(parts[:: -1 if order == "shuffled" else 1]), memory=memory)
    whole = read_curves(rows("whole", np.append(trunk[:cut], decay)), memory=memory)
    branch = split.frame[split.frame["run"] == "decay"]
    np.testing.assert_allclose(branch[AREAS], whole.frame.iloc[cut:][AREAS], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(branch["lr_peak"], whole.frame.iloc[cut:]["lr_peak"])
    ends = split.at("decay").pretrain, whole.at("whole").pretrain
    assert ends[0] is not None
    assert ends[1] is not None
    assert astuple(ends[0]) == pytest.approx(astuple(ends[1]), abs=1e-15)


@pytest.mark.slow
def test_rates_between_logged_steps_are_interpolated() -> None:
    sparse = pd.DataFrame({"run": "a", "step": [100, 200, 300], "lr": [1e-3, 1e-3, 2e-4], "loss": [4.0, 3.0, 2.5]})
    curves = read_curves(sparse)
    np.testing.assert_array_equal(curves.schedule("a").rates, logged([100, 200, 300], [1e-3, 1e-3, 2e-4]).rates)
    assert curves.frame["lr"].tolist() == [1e-3, 1e-3, 2e-4]
    assert noted(curves, "a:", 100, 0.001, "--warmup, warmup=")
    assert noted(curves, "from 0.001 at step 200 to 0.0002 at step 300")
    warm = read_curves(sparse, warmup=50)
    assert warm.schedule("a").rates[:51].tolist() == pytest.approx([*(1e-3 * np.arange(1, 51) / 50), 1e-3])
    assert noted(warm, "warm-up of 50 steps")
    np.testing.assert_array_equal(read_curves(sparse, warmup={"a": 50}).frame["S1"], warm.frame["S1"])
    branch = pd.DataFrame({"run": "b", "step": [50, 100], "lr": [5e-4, 0.0], "loss": 2.4, "parent": "a", "phase": "pretrain"})
    both = read_curves(pd.concat([sparse, branch]))
    assert both.schedule("b").rates[0] == pytest.approx(2e-4 + 3e-4 / 50)  # a straight line from where its parent stood
    with fails("warm-up-too-long", 101, "at most 100"):
        read_curves(sparse, warmup=101)
    with fails("unknown-run", "'b'"):
        read_curves(sparse, warmup={"b": 5})


def test_a_branch_from_within_a_warm_up_is_noted() -> None:
    curves = read_curves(
        pd.concat([rows("a", constant(20, 1e-3, warmup=10).rates), rows("b", [1e-3] * 5, parent="a", parent_step=5)])
    )
    assert noted(curves, "step 5 of a", "step 10")


@pytest.mark.slow
def test_steps_count_the_same_or_by_their_tokens() -> None:
    table = pd.concat([rows("a", [1e-3] * 10, batch=100.0), rows("b", [1e-3] * 10, parent="a", batch=400.0)])
    by_step = read_curves(table)
    assert by_step.at("b").adapt is not None
    assert noted(by_step, "a has steps of 100 tokens and b of 400")
    by_token = read_curves(table, per="token")
    assert by_token.frame.iloc[-1][["S1_pt", "S1_cpt"]].tolist() == pytest.approx([1e-2, 4e-2])
    assert not by_token.notes
    child_first = read_curves(table.sort_values("run", ascending=False, kind="stable"), per="token").frame
    end = child_first[child_first["run"] == "b"].iloc[-1]
    np.testing.assert_allclose(end[AREAS].astype(float), by_token.frame.iloc[-1][AREAS].astype(float) / 4)
    other = read_curves(table, per="token", tokens_per_step=200)
    np.testing.assert_allclose(other.frame[AREAS], by_token.frame[AREAS] / 2)
    with fails("missing-batch", "a"):
        read_curves(table.drop(columns="batch"), per="token")
    with fails("not-positive", -1):
        read_curves(table, per="token", tokens_per_step=-1)
    with fails("option-without-use", "per='token'"):
        read_curves(table, tokens_per_step=200)
    with fails("unknown-option", "'batch'"):
        read_curves(table, per="batch")
    assert ("batch-not-positive", 11, "batch") in found(table.assign(batch=[100.0] * 10 + [0.0] * 12))


# --- columns --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_long_and_wide_losses_are_equal() -> None:
    wide = rows("a", [1e-3] * 6).rename(columns={"loss": "source_loss"}).assign(target_loss=3.0, train_loss=9.0)
    wide.loc[[1, 3], "target_loss"] = np.nan
    curves = read_curves(wide)
    assert curves.frame.groupby("domain").size().to_dict() == {"source": 7, "target": 5}
    assert (curves.frame["train_loss"] == 9.0).all()
    long = pd.concat(
        [wide[["run", "step", "lr"]].assign(loss=wide[f"{d}_loss"], domain=d) for d in ("source", "target")], ignore_index=True
    )
    again = read_curves(long)
    shared = ["run", "phase", "step", "domain", "loss", "lr", *AREAS]
    pd.testing.assert_frame_equal(again.frame[shared], curves.frame[shared])
    train = read_curves(wide, losses=["train_loss"])
    assert train.domains == ("train",)
    assert len(train.frame) == 7


def test_aliases_and_the_column_of_runs() -> None:
    table = rows("a", [1e-3] * 4).drop(columns="run")
    curves = read_curves(table.rename(columns={"lr": "learning_rate", "step": "global_step", "loss": "val_loss"}))
    assert curves.run_names == ("run",)
    assert noted(curves, "lr = learning_rate")
    assert noted(curves, "step = global_step")
    assert read_curves(table.assign(curve="x"), run="curve").run_names == ("x",)
    with fails("missing-column", "'crve'", "'curve'"):
        read_curves(table.assign(curve="x"), run="crve")
    numbered = pd.concat([rows("7", [1e-3] * 4), rows("8", [1e-3] * 4)], ignore_index=True)
    numbered = numbered.assign(run=numbered["run"].astype(int), parent=[np.nan] * 5 + [7.0] * 5)
    assert read_curves(numbered).curve("8").parent == "7"


def test_a_row_without_a_loss_counts_by_its_rate() -> None:
    table = rows("a", [1e-3, 5e-4, 1e-3, 1e-3])
    sparse = table.assign(loss=table["loss"].where(table["step"].isin([0, 4])))
    curves = read_curves(sparse)
    assert curves.frame["step"].tolist() == [0, 4]
    np.testing.assert_allclose(
        curves.frame.iloc[-1][AREAS].to_numpy(float), read_curves(table).frame.iloc[-1][AREAS].to_numpy(float)
    )


def test_warm_ups_are_whole_numbers_of_any_kind() -> None:
    table = rows("a", [1e-3] * 4).tail(2)
    assert read_curves(table, warmup=cast("int", np.int64(2))).curve("a").warmup == 2
    assert read_curves(table, warmup={"a": cast("int", np.int32(2))}).curve("a").warmup == 2
    with fails("not-a-whole-number", "warmup", 2.5):
        read_curves(table, warmup=cast("int", 2.5))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"source_loss": 3.0}, "ambiguous-losses"),
        ({"loss": None, "domain": "x", "source_loss": 3.0}, "ambiguous-domains"),
        ({"loss": None}, "no-loss"),
        ({"loss": None, "train_loss": 3.0}, "no-loss"),
        ({"step": None}, "missing-column"),
        ({"lr": None}, "missing-column"),
        ({"lr": "high"}, "not-a-number"),
        ({"lr": pd.NaT}, "no-rate"),
        ({"S2": 1.0}, "derived-column"),
        ({"lr_peak": 1.0}, "derived-column"),
        ({"power": 1.0}, "derived-column"),
        ({"loss": np.nan}, "no-loss"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change: dict[str, Any], code: str) -> None:
    table = rows("a", [1e-3] * 4)
    table = table.drop(columns=[c for c, v in change.items() if v is None]).assign(
        **{c: v for c, v in change.items() if v is not None}
    )
    with fails(code, *[c for c in change if c != "domain"]):
        read_curves(table)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"lr": "lr_pct"}, ("lr_pct", "lr=COLUMN:FACTOR")),
        ({"step": "tokens"}, ("--column step=COLUMN", "1 / tokens of a step")),
        ({"loss": "train/loss"}, ("train/loss", "--column loss=COLUMN")),
    ],
)
def test_an_error_of_a_missing_column_says_how_to_name_another(given: dict[str, str], advice: tuple[str, ...]) -> None:
    with fails("no-loss" if "loss" in given else "missing-column", *advice):
        read_curves(rows("a", [1e-3] * 4).rename(columns=given))


def test_tables_of_areas_say_what_a_step_counts() -> None:
    """So that tables of both ways, put into one, have two values and are refused."""
    table = rows("a", [1e-3] * 4).assign(batch=500)
    for asked, tokens in (({}, 0), ({"per": "token"}, 500), ({"per": "token", "tokens_per_step": 1000}, 1000)):
        curves = read_curves(table, **asked)
        assert {*curves.frame["reference_batch"]} == {curves.reference_batch} == {tokens}


def test_shares_of_the_highest_rate_are_noted() -> None:
    assert noted(read_curves(rows("a", [1.0, 0.5, 0.1])), "its highest rate is 1", "--column lr=COLUMN:3e-4")
    assert not noted(read_curves(rows("a", [0.9, 0.5, 0.1])), "highest rate is")


def test_losses_are_read_from_the_columns_asked_for() -> None:
    table = rows("a", [1e-3] * 4)
    with fails("missing-column", "'los'"):
        read_curves(table, losses=["los"])
    with fails("not-a-list", "'loss'"):
        read_curves(table, losses="loss")
    assert len(read_curves(table.assign(source_loss=3.0), losses=["loss"]).frame) == 5


def test_the_last_evaluation_may_lack_its_rate() -> None:
    """llm.c evaluates once more after its last step; later losses need a rate."""
    rates = np.array([1e-3, 8e-4, 4e-4, 1e-4])
    table = rows("a", rates)
    last = pd.DataFrame({"run": "a", "step": [5], "loss": [2.0]})
    curves = read_curves(pd.concat([table, last], ignore_index=True))
    assert noted(curves, "no rate is logged after step 4; that step's, 0.0001, is taken up to step 5")
    assert curves.schedule("a").rates.tolist() == [*rates, 1e-4]
    assert curves.frame["S1"].iloc[-1] == pytest.approx(rates.sum() + 1e-4)
    with fails("missing-rate", 6):
        read_curves(pd.concat([table, last.assign(step=6)], ignore_index=True))
    coarse = pd.concat([table[table["step"] % 2 == 0], last], ignore_index=True)
    assert len(read_curves(coarse).schedule("a")) == 5


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "column", "value", "code"),
    [
        (3, "lr", -1e-3, "negative-rate"),
        (3, "lr", 3.0, "rate-too-large"),
        (3, "step", 1.0, "step-twice"),
        (4, "step", 1.0, "step-goes-back"),
        (3, "step", 1.5, "fractional-step"),
        (1, "step", -1.0, "negative-step"),
        (3, "step", np.nan, "missing-step"),
        (61, "step", 2e13, "step-too-large"),
        (61, "step", np.inf, "step-too-large"),
        (3, "run", None, "missing-run"),
        (3, "loss", -1.0, "loss-not-positive"),
        (3, "loss", 20.0, "loss-too-large"),
        (3, "phase", "pretraining", "unknown-phase"),
        (62, "parent", "trunc", "several-values-in-one-run"),
        (62, "parent_step", 30.0, "several-values-in-one-run"),
    ],
)
def test_an_impossible_cell_is_refused_by_row(row: int, column: str, value: Any, code: str) -> None:
    table = family().astype({"step": float})
    table.loc[row if row == 62 else row - 1, column] = value
    listed = found(table)
    expected = {62: 63, 3: 1}.get(row, row) if column in ("phase", "parent", "parent_step") else row
    assert (code, expected, column) in listed
    assert {c for _, _, c in listed} == {column} or column in ("step", "run")


@pytest.mark.parametrize(
    ("change", "code", "column"),
    [
        ({"parent": "trunc"}, "unknown-parent", "parent"),
        ({"parent_step": 61}, "parent-step-outside-parent", "parent_step"),
        ({"parent_step": 0}, "parent-step-outside-parent", "parent_step"),
        ({"parent_step": -1}, "parent-step-outside-parent", "parent_step"),
        ({"parent_step": 2.5}, "fractional-step", "parent_step"),
        ({"parent": "adapt", "parent_step": 5}, "pre-training-after-adaptation", "parent"),
        ({"parent": "adapt", "parent_step": 5}, "circle-of-parents", "parent"),
        ({"parent": "decay"}, "circle-of-parents", "parent"),
        ({"parent": None}, "parent-step-without-parent", "parent_step"),
        ({"phase": "adpat"}, "unknown-phase", "phase"),
        ({"lr": 0.0}, "zero-rate", "lr"),
    ],
)
def test_runs_that_do_not_join_are_refused(change: dict[str, Any], code: str, column: str) -> None:
    table = family()
    for name, value in change.items():
        table.loc[table["run"] == "decay", name] = value
    assert (code, 62, column) in found(table)


def test_the_message_names_both_runs_and_the_steps_that_join() -> None:
    table = family()
    table.loc[table["run"] == "decay", "parent_step"] = 61
    with pytest.raises(TableError) as caught:
        read_curves(table)
    assert str(caught.value.faults[0]) == (
        "run 'decay' goes on from step 61 of 'trunk', which ends at 60: the phases don't join: give a step of trunk, 1 to 60 "
        "(row 62, column parent_step)"
    )


def test_a_loss_that_is_infinite_is_to_be_emptied_since_curves_are_read_without_a_condition() -> None:
    with faults(("infinite-loss", 3, "loss")) as listed:
        read_curves(rows("a", [1e-3] * 3).assign(loss=[4.0, 3.5, np.inf, 3.0]))
    assert "empty the cell" in listed[0].suggestion
    assert "--where" not in listed[0].suggestion


def test_a_step_before_the_parents_log_is_refused() -> None:
    trunk = pd.DataFrame({"run": "a", "step": [100, 200], "lr": 1e-3, "loss": 3.0})
    with faults(("parent-step-outside-parent", 3, "parent_step")) as listed:
        read_curves(pd.concat([trunk, rows("b", [1e-3] * 3, parent="a", parent_step=50)], ignore_index=True))
    assert "50" in listed[0].problem
    assert "100" in listed[0].problem


def test_two_rates_of_one_step_and_a_missing_domain_are_refused() -> None:
    source = rows("a", [1e-3] * 3, domain="source")
    target = source.assign(domain="target", lr=source["lr"].where(source["step"] != 2, 2e-3))
    assert found(pd.concat([source, target], ignore_index=True)) == [("two-rates-of-one-step", 7, "lr")]
    half = target.assign(lr=source["lr"], domain=target["domain"].where(target["step"] > 0))
    assert found(pd.concat([source, half], ignore_index=True)) == [("missing-domain", 5, "domain")]


def test_every_fault_is_listed_at_once() -> None:
    table = family()
    table.loc[2, "lr"], table.loc[5, "step"], table.loc[7, "loss"] = 3.0, 4, -1.0
    table.loc[table["run"] == "adapt", "parent"] = "nobody"
    assert [f[1:] for f in found(table)] == [(3, "lr"), (6, "step"), (8, "loss"), (83, "parent")]


def test_a_text_in_a_column_of_numbers_is_one_fault() -> None:
    table = family().astype({"lr": object})
    table.loc[4, "lr"] = "1e-3?"
    assert found(table) == [("not-a-number", 5, "lr")]
    assert found(rows("a", [1e-3] * 3, N=["1e8", "100X", "1e8", "1e8"])) == [("not-a-number", 2, "N")]


def test_losses_are_judged_in_their_unit() -> None:
    table = rows("a", [1e-3] * 3)
    assert len(read_curves(table.assign(loss=15.6, unit="bits/token")).frame) == 4
    assert found(table.assign(loss=12.0, unit="perplexity"))[0][0] == "perplexities"


def test_losses_between_logged_rates_need_none() -> None:
    """As in logs with rates and evaluations at steps of their own: rates between are straight lines."""
    whole = rows("a", linear(40, 1e-3).rates)
    gaps = whole.assign(lr=whole["lr"].where((whole["step"] % 8 == 0) | (whole["step"] == 1)))
    pd.testing.assert_frame_equal(read_curves(gaps).frame.drop(columns="lr"), read_curves(whole).frame.drop(columns="lr"))


CONTINUED = {"trunk": 0, "decay": 40, "adapt": 60, "early": 20, "open": 0}  # the step of the whole training before each run


def test_steps_that_go_on_from_those_of_the_parent_are_read_if_asked() -> None:
    table = family()
    table["step"] += table["run"].map(CONTINUED)
    table["parent_step"] += table["parent"].map(CONTINUED)
    expected, read = read_curves(family()), read_curves(table, steps="continued")
    pd.testing.assert_frame_equal(read.frame, expected.frame)
    assert read.notes == expected.notes


def test_steps_that_go_on_cannot_be_those_of_a_table_without_steps() -> None:
    with fails("missing-column", "step"):
        read_curves(family().drop(columns="step"), steps="continued")


def test_steps_that_seem_to_go_on_from_those_of_the_parent_are_refused() -> None:
    """The areas of such a run would count its parent's steps twice."""
    trunk = rows("trunk", constant(1000, 1e-3).rates, every=100)
    branch = rows("branch", constant(1000, 1e-4).rates, every=100, parent="trunk", parent_step=1000).iloc[1:]
    goes_on = branch.assign(step=branch["step"] + 1000)
    for table in (goes_on, goes_on.assign(phase="pretrain")):
        with faults(("steps-of-the-parent", 12, "step")) as listed:
            read_curves(pd.concat([trunk, table], ignore_index=True))
        assert "add --steps own (steps='own'), else continued" in listed[0].suggestion
        assert len(read_curves(pd.concat([trunk, table], ignore_index=True), steps="own").frame) == 21
    own = read_curves(pd.concat([trunk, branch], ignore_index=True))
    same = read_curves(pd.concat([trunk, goes_on], ignore_index=True), steps="continued")
    pd.testing.assert_frame_equal(same.frame, own.frame)
    cut = goes_on.assign(parent_step=[np.nan] * 4 + [1000.0] * (len(goes_on) - 4))  # named in a later row
    pd.testing.assert_frame_equal(read_curves(pd.concat([trunk, cut], ignore_index=True), steps="continued").frame, own.frame)
    with faults(("before-parent", 12, "step")):
        read_curves(pd.concat([trunk, goes_on.assign(step=goes_on["step"] - 500)], ignore_index=True), steps="continued")
    with faults(("parent-step-without-parent", 1, "parent_step")):
        read_curves(pd.concat([trunk.assign(parent_step=5), goes_on], ignore_index=True), steps="continued")
    with fails("unknown-option", "'global'"):
        read_curves(trunk, steps="global")


def test_nodes_of_a_branch_count_the_whole_training() -> None:
    """The falls of all nodes add up to the rate lost since the highest, across the boundary too."""
    curves = read_curves(family())
    frame = curves.runs(nodes=8).frame
    falls = frame.filter(regex="^fall_").sum(axis=1)
    assert frame.filter(regex="^(fall|rate|since)_").shape[1] == 24
    rows = frame["lr"].notna() & (frame["run"] == "adapt")
    np.testing.assert_allclose(falls[rows], -frame.loc[rows, "lr"], rtol=1e-9)
    assert "fall_1" not in curves.runs().frame


@pytest.mark.parametrize("number", [8, 30])
def test_other_numbers_of_nodes_than_the_laws_are_refused(number: int) -> None:
    """The first 24 of 30 nodes are not all changes of the rate, so the law's sum would miss some without a word."""
    law, steps = load_law("multi-power"), np.arange(1, 41)
    curve = pd.DataFrame({"run": "a", "step": steps, "lr": np.linspace(1e-3, 1e-4, 40), "loss": 3 + 1 / steps})
    assert check(read_curves(curve).runs(nodes=24), law) == []
    found = check(read_curves(curve).runs(nodes=number), law)
    assert [(fault.code, fault.column) for fault in found] == [("other-number-of-nodes", c) for c in ("fall", "rate", "since")]
    assert f"{number} columns" in found[0].problem
    assert "--nodes 24" in found[0].suggestion
