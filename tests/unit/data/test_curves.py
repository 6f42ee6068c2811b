"""Tables of training curves: what is read, every fault, areas by plain loops, and runs that go on from others."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.core.errors import BayeslawError, TableError
from bayeslaw.data import Curves, read_curves
from bayeslaw.schedules.areas import OPEN
from bayeslaw.schedules.schedule import constant, linear, logged, wsd

TINYCPT = Path(__file__).parents[3] / "data" / "tinycpt" / "curves.csv"
AREAS = ["S1_pt", "S2_pt", "S2w_pt", "S1_cpt", "S2_cpt", "S2w_cpt", "S1", "S2", "S2w"]


def rows(run: str, rates: Any, *, every: int = 1, **others: Any) -> pd.DataFrame:
    """A run logged from step 0 on."""
    steps = np.arange(0, len(rates) + 1, every)
    lr = np.append(np.nan, np.asarray(rates))[steps]
    return pd.DataFrame({"run": run, "step": steps, "lr": lr, "loss": 4.0 - 0.001 * steps, **others})


def family() -> pd.DataFrame:
    """A trunk, a decay branch, an adaptation of the branch and one on the trunk's way, an open model."""
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


def faults(table: pd.DataFrame, **options: Any) -> list[tuple[int | None, str, str]]:
    with pytest.raises(TableError) as caught:
        read_curves(table, **options)
    return [(f.row, f.column, f.problem) for f in caught.value.faults]


# --- tinycpt --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny() -> Curves:
    return read_curves(TINYCPT)


def test_tinycpt_by_plain_loops(tiny: Curves) -> None:
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


def test_tinycpt_as_runs(tiny: Curves) -> None:
    assert tiny.domains == ("source", "target")
    assert tiny.remarks == ()
    target = tiny.runs("target", "adapt")
    assert set(target.frame["domain"]) == {"target"}
    assert set(target.frame["phase"]) == {"adapt"}
    assert {"N", "ptpp", "r", "D", "schedule", *AREAS} <= set(target.frame)
    assert len(tiny.runs()) == 2 * len(tiny.runs("source")) == len(pd.read_csv(TINYCPT)["source_loss"].dropna()) * 2
    with pytest.raises(BayeslawError, match=r"no domain 'targte'; it has source, target\. Did you mean 'target'"):
        tiny.runs("targte")


# --- runs that go on from others ------------------------------------------------------------------------------------


def test_a_family_of_runs() -> None:
    made = read_curves(family())
    assert made.runs_names == ("trunk", "decay", "adapt", "early", "open")
    assert [(phase, len(s)) for phase, s in made.whole("adapt")] == [("pretrain", 40), ("pretrain", 20), ("adapt", 30)]
    assert (made.curve("adapt").phase, made.curve("adapt").parent_step) == ("adapt", 20)
    assert made.start("trunk") is None
    assert made.start("open") is OPEN
    assert made.at("adapt", 0) == made.at("decay") == made.start("adapt")
    assert made.at("adapt").pretrain == made.at("decay").pretrain
    assert made.frame.loc[made.frame["run"] == "open", ["S1_pt", "S2_pt", "S1"]].isna().all().all()
    assert any("adaptations of unknown pre-training (open)" in text for text in made.remarks)
    with pytest.raises(BayeslawError, match=r"no run 'trnk'\. Did you mean 'trunk'"):
        made.schedule("trnk")
    with pytest.raises(BayeslawError, match="has 60 steps; there is no step 61"):
        made.at("trunk", 61)
    with pytest.raises(BayeslawError, match="new training"):
        made.at("trunk", 0)
    with pytest.raises(BayeslawError, match="no losses of phase 'adapted'"):
        made.runs(phase="adapted")  # type: ignore[arg-type]


@settings(max_examples=30)
@given(st.integers(10, 60), st.sampled_from([0.0, 0.9, 0.999]), st.sampled_from(["shuffled", "sorted"]))
def test_a_branch_is_the_whole(cut: int, memory: float, order: str) -> None:
    """A trunk and its decay branch have the areas of the same training logged as one run, in whatever order runs stand."""
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


def test_rates_between_logged_steps() -> None:
    sparse = pd.DataFrame({"run": "a", "step": [100, 200, 300], "lr": [1e-3, 1e-3, 2e-4], "loss": [4.0, 3.0, 2.5]})
    made = read_curves(sparse)
    np.testing.assert_array_equal(made.schedule("a").rates, logged([100, 200, 300], [1e-3, 1e-3, 2e-4]).rates)
    assert made.frame["lr"].tolist() == [1e-3, 1e-3, 2e-4]
    assert [text.split(",")[0] for text in made.remarks] == [
        "a: rates before its first logged step",
        "a: rates between logged steps are straight lines",
    ]
    assert "from 0.001 at step 200 to 0.0002 at step 300" in made.remarks[1]
    warm = read_curves(sparse, warmup=50)
    assert warm.schedule("a").rates[:51].tolist() == pytest.approx([*(1e-3 * np.arange(1, 51) / 50), 1e-3])
    assert "a warm-up of 50 steps from 0 is assumed" in warm.remarks[0]
    np.testing.assert_array_equal(read_curves(sparse, warmup={"a": 50}).frame["S1"], warm.frame["S1"])
    branch = pd.DataFrame({"run": "b", "step": [50, 100], "lr": [5e-4, 0.0], "loss": 2.4, "parent": "a", "phase": "pretrain"})
    both = read_curves(pd.concat([sparse, branch]))
    assert both.schedule("b").rates[0] == pytest.approx(2e-4 + 3e-4 / 50)  # a straight line from where its parent stood
    with pytest.raises(BayeslawError, match="warm-up of 101 steps reaches past its first logged step, 100"):
        read_curves(sparse, warmup=101)
    with pytest.raises(BayeslawError, match="warmup names run 'b', which the table has not"):
        read_curves(sparse, warmup={"b": 5})


def test_a_branch_out_of_a_warm_up_is_told() -> None:
    made = read_curves(
        pd.concat([rows("a", constant(20, 1e-3, warmup=10).rates), rows("b", [1e-3] * 5, parent="a", parent_step=5)])
    )
    assert any("goes on from step 5 of a, whose highest rate comes at step 10" in text for text in made.remarks)


def test_batches() -> None:
    table = pd.concat([rows("a", [1e-3] * 10, batch=100.0), rows("b", [1e-3] * 10, parent="a", batch=400.0)])
    by_step = read_curves(table)
    assert by_step.at("b").adapt is not None
    assert any("b has steps of 400 tokens and goes on from a with 100" in text for text in by_step.remarks)
    by_token = read_curves(table, per="token")
    assert by_token.frame.iloc[-1][["S1_pt", "S1_cpt"]].tolist() == pytest.approx([1e-2, 4e-2])
    assert not by_token.remarks
    child_first = read_curves(table.sort_values("run", ascending=False, kind="stable"), per="token").frame
    end = child_first[child_first["run"] == "b"].iloc[-1]
    np.testing.assert_allclose(end[AREAS].astype(float), by_token.frame.iloc[-1][AREAS].astype(float) / 4)
    other = read_curves(table, per="token", tokens_per_step=200)
    np.testing.assert_allclose(other.frame[AREAS], by_token.frame[AREAS] / 2)
    with pytest.raises(BayeslawError, match="need a column batch"):
        read_curves(table.drop(columns="batch"), per="token")
    with pytest.raises(BayeslawError, match="tokens_per_step is -1"):
        read_curves(table, per="token", tokens_per_step=-1)
    with pytest.raises(BayeslawError, match="for per='token'"):
        read_curves(table, tokens_per_step=200)
    with pytest.raises(BayeslawError, match="per is 'batch'"):
        read_curves(table, per="batch")
    assert faults(table.assign(batch=[100.0] * 10 + [0.0] * 12))[0][:2] == (11, "batch")


# --- columns --------------------------------------------------------------------------------------------------------


def test_long_and_wide_losses_are_one() -> None:
    wide = rows("a", [1e-3] * 6).rename(columns={"loss": "source_loss"}).assign(target_loss=3.0, train_loss=9.0)
    wide.loc[[1, 3], "target_loss"] = np.nan
    made = read_curves(wide)
    assert made.frame.groupby("domain").size().to_dict() == {"source": 7, "target": 5}
    assert (made.frame["train_loss"] == 9.0).all()
    long = pd.concat(
        [wide[["run", "step", "lr"]].assign(loss=wide[f"{d}_loss"], domain=d) for d in ("source", "target")], ignore_index=True
    )
    again = read_curves(long)
    shared = ["run", "phase", "step", "domain", "loss", "lr", *AREAS]
    pd.testing.assert_frame_equal(again.frame[shared], made.frame[shared])
    train = read_curves(wide, losses=["train_loss"])
    assert train.domains == ("train",)
    assert len(train.frame) == 7


def test_other_names_and_a_table_of_one_run() -> None:
    table = rows("a", [1e-3] * 4).drop(columns="run")
    made = read_curves(table.rename(columns={"lr": "learning_rate", "step": "global_step", "loss": "val_loss"}))
    assert made.runs_names == ("run",)
    assert {"read: lr = learning_rate", "read: step = global_step", "the table names no runs and is taken for one"} <= set(
        made.remarks
    )
    assert read_curves(table.assign(curve="x"), run="curve").runs_names == ("x",)
    with pytest.raises(BayeslawError, match=r"no column 'crve' to name its runs\. Did you mean 'curve'"):
        read_curves(table.assign(curve="x"), run="crve")
    numbered = pd.concat([rows("7", [1e-3] * 4), rows("8", [1e-3] * 4)], ignore_index=True)
    numbered = numbered.assign(run=numbered["run"].astype(int), parent=[np.nan] * 5 + [7.0] * 5)
    assert read_curves(numbered).curve("8").parent == "7"


def test_a_row_without_a_loss_counts_by_its_rate() -> None:
    table = rows("a", [1e-3, 5e-4, 1e-3, 1e-3])
    sparse = table.assign(loss=table["loss"].where(table["step"].isin([0, 4])))
    made = read_curves(sparse)
    assert made.frame["step"].tolist() == [0, 4]
    np.testing.assert_allclose(made.frame.iloc[-1][AREAS].to_numpy(float), read_curves(table).frame.iloc[-1][AREAS].to_numpy(float))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source_loss": 3.0}, "has a column loss and source_loss: say by losses which to take"),
        ({"loss": None, "domain": "x", "source_loss": 3.0}, "a column domain and losses of several"),
        ({"loss": None}, "has no losses: it needs a column loss, or one for each domain"),
        ({"loss": None, "train_loss": 3.0}, "counts only if asked for by losses"),
        ({"step": None}, "column step is missing"),
        ({"lr": None}, "column lr is missing: every row needs run, step and lr"),
        ({"lr": "high"}, "'high' is not a number"),
        ({"lr": pd.NaT}, "no learning rate of a step after 0"),
        ({"S2": 1.0}, "column S2 is worked out from lr"),
        ({"lr_peak": 1.0}, "column lr_peak is worked out from lr"),
        ({"loss": np.nan}, "no row has a loss"),
    ],
)
def test_columns_that_don_t_do(change: dict[str, Any], words: str) -> None:
    table = rows("a", [1e-3] * 4)
    table = table.drop(columns=[c for c, v in change.items() if v is None]).assign(
        **{c: v for c, v in change.items() if v is not None}
    )
    with pytest.raises(BayeslawError) as caught:
        read_curves(table)
    assert words in str(caught.value)


def test_losses_asked_for() -> None:
    table = rows("a", [1e-3] * 4)
    with pytest.raises(BayeslawError, match="no column 'los'"):
        read_curves(table, losses=["los"])
    with pytest.raises(BayeslawError, match="give a list of columns"):
        read_curves(table, losses="loss")
    assert len(read_curves(table.assign(source_loss=3.0), losses=["loss"]).frame) == 5


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        (3, "lr", np.nan, "lr is missing"),
        (3, "lr", -1e-3, "lr -0.001 is negative"),
        (3, "lr", 3.0, "lr 3 is above 1: is it in units of 1e-4, or in percent?"),
        (3, "step", 1.0, "step 1 of run 'trunk' comes twice: was the run resumed?"),
        (4, "step", 1.0, "step 1 of run 'trunk' follows step 2: was the run resumed?"),
        (3, "step", 1.5, "step 1.5 is not a whole number"),
        (1, "step", -1.0, "step -1 is negative"),
        (3, "step", np.nan, "step is missing"),
        (61, "step", 2e13, "step 2e+13 is more than a training has"),
        (3, "run", None, "run is missing"),
        (3, "loss", -1.0, "loss -1 is not positive"),
        (3, "loss", 20.0, "loss 20 is above 15 nats/token: is it a perplexity?"),
        (3, "phase", "pretraining", "there is no phase 'pretraining'"),
        (83, "parent", "trunc", "run 'decay' has 2 values of parent"),
        (83, "parent_step", 30.0, "run 'decay' has 2 values of parent_step (40, 30)"),
    ],
)
def test_cells(row: int, column: str, value: Any, words: str) -> None:
    table = family().astype({"step": float})
    table.loc[row - 1 if row < 80 else 62, column] = value
    found = faults(table)
    assert any(words in problem for _, _, problem in found), found
    assert {c for _, c, _ in found} == {column} or column in ("step", "run")
    if row < 80 and column != "phase":
        assert (row, column) in [f[:2] for f in found]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"parent": "trunc"}, "run 'decay' goes on from 'trunc', and there is no such run"),
        ({"parent_step": 61}, "run 'decay' goes on from step 61 of 'trunk', which ends at 60: the phases don't join"),
        ({"parent_step": 0}, "run 'decay' goes on from step 0 of 'trunk', before its first"),
        ({"parent_step": -1}, "run 'decay' goes on from step -1 of 'trunk', before its first"),
        ({"parent_step": 2.5}, "parent_step 2.5 of run 'decay' is not a whole number"),
        ({"parent": "adapt", "parent_step": 5}, "run 'decay' is pre-training and goes on from 'adapt', an adaptation"),
        ({"parent": "adapt", "parent_step": 5}, "runs go on from each other: 'decay' from 'adapt' from 'decay'"),
        ({"parent": "decay"}, "runs go on from each other: 'decay' from 'decay'"),
        ({"parent": None}, "parent_step without a parent"),
        ({"phase": "adpat"}, "there is no phase 'adpat'"),
        ({"lr": 0.0}, "the learning rate of run 'decay' is 0 throughout"),
    ],
)
def test_runs_that_don_t_join(change: dict[str, Any], expected: str) -> None:
    table = family()
    for column, value in change.items():
        table.loc[table["run"] == "decay", column] = value
    found = faults(table)
    assert expected in [problem for _, _, problem in found]
    named = {"lr": "lr", "phase": "phase"}.get(next(iter(change)), "parent")
    assert any(row == 62 and column.startswith(named) for row, column, _ in found)


def test_a_step_before_the_parents_log() -> None:
    table = pd.concat(
        [
            pd.DataFrame({"run": "a", "step": [100, 200], "lr": 1e-3, "loss": 3.0}),
            rows("b", [1e-3] * 3, parent="a", parent_step=50),
        ],
        ignore_index=True,
    )
    problem = "run 'b' goes on from step 50 of 'a', whose first logged rate is of step 100"
    assert faults(table) == [(3, "parent_step", problem)]


def test_two_rates_of_one_step_and_domains_that_aren_t_named() -> None:
    one = rows("a", [1e-3] * 3, domain="source")
    other = one.assign(domain="target", lr=one["lr"].where(one["step"] != 2, 2e-3))
    found = faults(pd.concat([one, other], ignore_index=True))
    assert found == [(7, "lr", "lr 0.002 is not that of other rows of the same run and step")]
    half = other.assign(lr=one["lr"], domain=other["domain"].where(other["step"] > 0))
    assert faults(pd.concat([one, half], ignore_index=True)) == [(5, "domain", "domain is missing")]


def test_every_fault_at_once() -> None:
    table = family()
    table.loc[2, "lr"], table.loc[5, "step"], table.loc[7, "loss"] = 3.0, 4, -1.0
    table.loc[table["run"] == "adapt", "parent"] = "nobody"
    found = faults(table)
    assert [f[:2] for f in found] == [(3, "lr"), (6, "step"), (8, "loss"), (83, "parent")]


def test_a_text_among_rates_is_one_fault() -> None:
    table = family().astype({"lr": object})
    table.loc[4, "lr"] = "1e-3?"
    assert faults(table) == [(5, "lr", "lr '1e-3?' is not a number")]


def test_a_text_in_any_column_is_one_fault() -> None:
    table = rows("a", [1e-3] * 3, N=["1e8", "100M", "1e8", "1e8"])
    assert faults(table) == [(2, "N", "N '100M' is not a number")]


def test_losses_are_judged_in_their_unit() -> None:
    table = rows("a", [1e-3] * 3)
    assert len(read_curves(table.assign(loss=15.6, unit="bits/token")).frame) == 4
    assert "losses are perplexities" in faults(table.assign(loss=12.0, unit="perplexity"))[0][2]


def test_nodes_of_a_branch_count_the_whole_training() -> None:
    """The falls of all nodes add up to the rate lost since the highest, across the boundary too."""
    made = read_curves(family())
    frame = made.runs(nodes=8).frame
    falls = frame.filter(regex="^fall_").sum(axis=1)
    assert frame.filter(regex="^(fall|rate|since)_").shape[1] == 24
    rows = frame["lr"].notna() & (frame["run"] == "adapt")
    np.testing.assert_allclose(falls[rows], -frame.loc[rows, "lr"], rtol=1e-9)
    assert "fall_1" not in made.runs().frame
