"""Observations of a law in a table; every table, however broken, is read or refused with an error of ours."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.observations import Nesting, Observations
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from tests import oracles
from tests.errors import fails, faults

WITHOUT_EPSILON = """
name = "barrier"
title = "a barrier at r = 0"
source = "here"
loss = "E + C/r**gamma"
[covariates]
r = { unit = "share", support = [0, 1] }
[parameters.E]
meaning = "floor"
prior = { dist = "LogNormal", mu = 0, sigma = 1 }
[parameters.C]
meaning = "scale"
prior = { dist = "LogNormal", mu = -2, sigma = 1 }
[parameters.gamma]
meaning = "exponent"
prior = { dist = "LogNormal", mu = -1, sigma = 0.5 }
"""


def test_rows_are_sorted_by_run() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law, runs=3, checkpoints=3)
    shuffled = table.sample(frac=1, random_state=3)
    observed = oracles.observed(law, shuffled)
    names = list(dict.fromkeys(shuffled["run"]))
    assert observed.run_names == tuple(names)
    assert observed.run.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert observed.starts.tolist() == [0, 3, 6, 9]
    assert observed.runs == 3
    again = shuffled.reset_index(drop=True).iloc[observed.rows - 1]
    np.testing.assert_array_equal(observed.outcomes, np.exp(np.log(again["loss"])))
    np.testing.assert_array_equal(observed.covariates["D"], again["D"])
    assert [names[code] for code in observed.run] == again["run"].tolist()
    assert observed.at == pytest.approx(law.reference(table))


def test_a_table_that_changes_later_does_not_change_its_observations() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law)[["N", "D", "loss"]]  # in the order of its rows, so that pandas could share its memory
    runs = read_runs(table)
    frame = runs.frame
    observed = Observations.of(law, runs)
    before = {name: values.copy() for name, values in observed.covariates.items()}
    frame.loc[:, "N"] /= 1e9
    frame.loc[:, "loss"] *= 2.0
    for name, values in before.items():
        np.testing.assert_array_equal(observed.covariates[name], values)
    np.testing.assert_array_equal(observed.response, np.log(table["loss"]))


def test_rows_without_a_run_are_runs_of_their_own() -> None:
    law = load_law("chinchilla")
    frame = pd.DataFrame({"run": ["a", None, "a", None]}, index=[1, 2, 3, 4])
    nesting = Nesting.of(frame, law)
    assert nesting.run.tolist() == nesting.checkpoint.tolist() == [0, 1, 0, 2]
    assert nesting.run_names == nesting.checkpoint_names == ("a", "row 2", "row 4")
    nesting = Nesting.of(frame[[]], law)
    assert nesting.run.tolist() == [0, 1, 2, 3]
    assert nesting.run_names == ("row 1", "row 2", "row 3", "row 4")


def test_checkpoints_are_named_or_those_of_one_size_and_stage() -> None:
    frame = pd.DataFrame({"run": list("abcd"), "N": [1e6, 1e6, 2e6, 1e6], "ptpp": [15, 15, 15, 31]})
    nesting = Nesting.of(frame, load_law("ptpp-gate"))
    assert nesting.checkpoint.tolist() == [0, 0, 1, 2]
    assert nesting.checkpoint_names == ("N 1e+06, ptpp 15", "N 2e+06, ptpp 15", "N 1e+06, ptpp 31")
    assert Nesting.of(frame.assign(seed=[0, 1, 0, 0]), load_law("ptpp-gate")).checkpoint.tolist() == [0, 1, 2, 3]
    assert Nesting.of(frame, load_law("chinchilla")).checkpoint.tolist() == [0, 1, 2, 3]
    named = Nesting.of(frame.assign(checkpoint=["x", np.nan, "x", "y"]), load_law("chinchilla"))
    assert named.checkpoint.tolist() == [0, 1, 0, 2]
    assert named.checkpoint_names == ("x", "run 1", "y")


def test_runs_of_one_checkpoint_and_rows_of_one_run_stand_together() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law, runs=4, checkpoints=3).assign(checkpoint=np.repeat(list("xyxy"), 3))
    table = table.assign(loss_se=0.001, set=lambda t: t["checkpoint"] + "!")
    observed = Observations.of(law, oracles.runs(table), noise_by="set")
    assert observed.run.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert observed.run_names == ("run 0", "run 2", "run 1", "run 3")
    assert observed.checkpoint.tolist() == observed.group.tolist() == [0, 0, 1, 1]
    assert observed.group_names == ("x!", "y!")
    assert observed.branched
    np.testing.assert_allclose(observed.se, 0.001 / observed.outcomes)
    np.testing.assert_allclose(observed.response, np.log(table.loc[observed.rows - 1, "loss"]))


@pytest.mark.parametrize(
    ("column", "values", "code", "named"),
    [
        ("checkpoint", "xxy", "run-of-two", ("run 0", "rows 1 and 3")),
        ("set", "xyx", "run-of-two", ("run 0", "rows 1 and 2")),
        ("set", ["x", None, "x"], "missing-group", ("row 2",)),
        ("set", ["x", "x", ""], "missing-group", ("row 3",)),
        ("set", ["x", "a/b", "x"], "slash-in-group", ("set", "'a/b'")),
        ("sets", "xxx", "missing-column", ("'set'", "'sets'")),
    ],
)
def test_a_run_has_one_checkpoint_and_one_group(column: str, values: Any, code: str, named: tuple[str, ...]) -> None:
    law = load_law("chinchilla")
    table = oracles.table(law, runs=1, checkpoints=3).assign(**{column: list(values)})
    with fails(code, *named):
        Observations.of(law, oracles.runs(table), noise_by=None if column == "checkpoint" else "set")


@pytest.mark.parametrize(
    ("error", "code"),
    [(-0.1, "negative-error"), (np.nan, "missing-value"), (50.0, "error-too-large"), ("x", "not-a-number")],
)
def test_known_errors_are_checked(error: Any, code: str) -> None:
    law = load_law("chinchilla")
    table = oracles.table(law).assign(loss_se=0.01).astype({"loss_se": object})
    table.loc[1, "loss_se"] = error
    with faults((code, 2, "loss_se")):
        Observations.of(law, oracles.runs(table))


def test_a_negative_loss_is_no_fault_of_its_known_error() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law).assign(loss_se=0.01)
    table.loc[1, "loss"] = -3.2
    with faults(("loss-not-positive", 2, "loss")):
        Observations.of(law, oracles.runs(table))


def test_faults_of_known_errors_name_the_unit_of_the_table() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law).assign(unit="bits/byte")
    table = table.assign(loss=table["loss"] / 3, loss_se=-0.1)
    with fails("negative-error", "give a standard error in bits/byte"):
        Observations.of(law, oracles.runs(table))


def test_base_checkpoints_are_kept_and_not_fitted() -> None:
    law = load_law("ptpp-gate")
    table = oracles.table(law)
    base = table.head(2).assign(D=0.0, r=np.nan, loss=4.0)
    observed = oracles.observed(law, pd.concat([base, table], ignore_index=True))
    assert observed.base.index.tolist() == [1, 2]
    assert observed.base["loss"].tolist() == [4.0, 4.0]
    assert sorted(observed.rows) == list(range(3, 33))
    assert observed.at == pytest.approx(law.reference(table))


def test_a_law_that_is_finite_at_d_0_fits_such_rows() -> None:
    law = parse_card(
        WITHOUT_EPSILON.replace("C/r**gamma", "C/(D + 1)**gamma").replace("\nr = {", "\nD = {").replace("[0, 1]", "[0, 1e9]")
    )
    observed = oracles.observed(law, {"D": [0.0, 10.0, 1e3, 1e6], "loss": [4.0, 3.0, 2.0, 1.5]})
    assert observed.base.empty
    assert observed.covariates["D"].tolist() == [0.0, 10.0, 1e3, 1e6]


def test_settings_without_a_finite_loss_are_refused() -> None:
    law = parse_card(WITHOUT_EPSILON)
    table = {"r": [0.1, 0.0, 0.5, 0.0], "loss": [3.0, 3.5, 2.8, 3.6]}
    with faults(("no-finite-value", 2, "loss"), ("no-finite-value", 4, "loss")) as listed:
        oracles.observed(law, table)
    suggestion = "remove the row, or use a law and priors that allow one there"
    assert str(listed[0]) == f"by its priors, barrier has no finite positive value at r = 0: {suggestion} (row 2, column loss)"


def test_replay_share_0_is_allowed_where_the_law_is_finite() -> None:
    law = load_law("d-cpt")
    table = oracles.table(law)
    table.loc[3, "r"] = 0.0
    assert oracles.observed(law, table).covariates["r"].min() == 0.0


def test_a_fit_needs_three_rows() -> None:
    law = load_law("chinchilla")
    with fails("too-few-rows", "chinchilla", 2, 3):
        oracles.observed(law, oracles.table(law).head(2))


CELLS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, 0.0, -1, 1, 2.5, 3.0, 15.1, 31, 279, 1e6, 1e9, 1e10, 1e300, 5e-324, 10**400, True, None, pd.NA, "", "x"]),
    st.sampled_from(["nan", "inf", "-inf", "1e9", " 3 ", "1_0", "0x1", "½", "1,5", b"3", 1j, (1,), pd.Timestamp("2026-01-01")]),
    st.text(max_size=3),
)
GOOD = st.sampled_from([1e6, 1e7, 2e8, 1e9, 0.5, 0.1, 15.0, 31.0, 2.5, 3.0])
COLUMNS = st.sampled_from(
    ["N", "D", "r", "ptpp", "loss", "run", "domain", "atpp", "params_b", "replay_pct", "val_loss", "x", "loss.1"]
)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """A table with a few odd cells in otherwise sensible columns, or one of odd cells throughout."""
    rows = draw(st.integers(0, 8))
    names = draw(st.lists(COLUMNS, max_size=8, unique=draw(st.booleans())))
    if draw(st.booleans()):
        table = oracles.table(load_law("ptpp-gate"), runs=4, checkpoints=2).astype(object)
        for _ in range(draw(st.integers(0, 3))):
            column = draw(st.sampled_from(list(table)))
            cells = table[column].tolist()
            cells[draw(st.integers(0, 7))] = draw(CELLS)
            table[column] = pd.Series(cells, dtype=object)
        return table
    columns: Any = [draw(st.lists(draw(st.sampled_from([CELLS, GOOD])), min_size=rows, max_size=rows)) for _ in names]
    return (
        pd.concat([pd.Series(column, dtype=object) for column in columns], axis=1, keys=names)
        if names
        else pd.DataFrame(index=range(rows))
    )


def test_a_table_that_was_not_read_is_checked_with_cells_that_hold_no_number(tmp_path: Path) -> None:
    table = pd.DataFrame({"params": [1e8, 1e9, 1e9], "D": ["1e9", "many", "2e9"], "loss": [3.0, 2.5, 2.4]})
    table.to_csv(tmp_path / "runs.csv", index=False)
    for source in (table, tmp_path / "runs.csv", read_runs(table, strict=False)):
        assert [(f.row, f.column, f.value) for f in check(source, "chinchilla") if f.row is not None] == [(2, "D", "many")]


@pytest.mark.slow
@settings(max_examples=12)
@given(tables(), st.sampled_from(["chinchilla", "ptpp-gate-floor", "cpt-joint"]))
def test_any_table_is_fitted_or_refused(table: pd.DataFrame, name: str) -> None:
    law: Law = load_law(name)
    with contextlib.suppress(BayeslawError):
        runs = read_runs(table)
        listed, forecast = check(runs, law), check(runs, law, purpose="forecast")
        assert all(fault.code for fault in (*listed, *forecast))
        observed = Observations.of(law, runs)
        assert not listed
        assert np.isfinite(observed.response).all()
        assert all(np.isfinite(column).all() for column in observed.covariates.values())
        assert all(np.isfinite(value) for value in observed.at.values())
        assert len(observed.rows) + len(observed.base) == len(table)


@settings(max_examples=30)
@given(st.binary(max_size=60), st.sampled_from([".csv", ".tsv", ".parquet", ".jsonl", ".json"]))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"odd{ending}"
    path.write_bytes(content)
    with contextlib.suppress(BayeslawError):
        assert len(read_runs(path)) > 0


@settings(max_examples=30)
@given(st.text("N,loss\n\r\t\"'1.5e{}[]: x", max_size=40), st.sampled_from([".csv", ".tsv", ".jsonl", ".json"]))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: str, ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"odd{ending}"
    path.write_text(content, encoding="utf-8")
    with contextlib.suppress(BayeslawError):
        assert len(read_runs(path)) > 0
