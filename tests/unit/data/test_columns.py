"""Names of columns: every alias is resolved to our name and unit, and logs are read more carefully than tables."""

from __future__ import annotations

import pandas as pd
import pytest

from bayeslaw.data import read_runs
from bayeslaw.data.columns import AMBIGUOUS, CURVES, LOGS, RUNS, SETTINGS, key, numeric, resolve


@pytest.mark.parametrize("ours", RUNS)
def test_every_alias_of_runs_is_read(ours: str) -> None:
    for alias, factor in ({ours: 1} | RUNS[ours]).items():
        frame = read_runs(pd.DataFrame({alias.upper(): [2.0], "other": [1.0]})).frame
        assert list(frame) == [ours, "other"]
        assert ours in ("run", "domain") or frame[ours].item() == 2.0 * factor


@pytest.mark.parametrize("ours", CURVES)
def test_every_alias_of_curves_is_resolved_for_curves_only(ours: str) -> None:
    assert all(resolve(alias, "curves") == (ours, factor) for alias, factor in CURVES[ours].items())
    assert ours in SETTINGS or resolve(ours, "runs") is None


def test_learning_rates_are_read_and_no_fault_of_tables_for_other_laws() -> None:
    assert read_runs(pd.DataFrame({"Learning Rate": [1e-3, 2e-3]})).conversions == ("lr = Learning Rate",)
    assert read_runs(pd.DataFrame({"learning_rate": ["cosine", "constant"]})).frame["lr"].tolist() == ["cosine", "constant"]


@pytest.mark.parametrize("ours", [name for name in LOGS if name != "step"])
def test_every_alias_of_logs_is_resolved_for_logs_only(ours: str) -> None:
    assert all(resolve(alias, "logs") == (ours, factor) for alias, factor in LOGS[ours].items())
    assert not any(resolve(alias, "runs") for alias in LOGS[ours])


def test_logs_are_read_more_carefully() -> None:
    assert resolve("config.params_b", "logs") == ("N", 1e9)
    assert resolve("Tokens per step", "logs") == ("batch", 1.0)
    assert [resolve(c, "logs") for c in ("N", "config.D", "r")] == [("N", 1.0), ("D", 1.0), ("r", 1.0)]
    assert not any(resolve(c, "logs") for c in ("epoch", "ETA", "n", "p", "step", "eval_loss", *AMBIGUOUS))


def test_case_and_blanks_of_names_do_not_matter() -> None:
    assert key("  Val  Set ") == "val_set"
    assert resolve(" Params_B ") == ("N", 1e9)
    assert resolve("note") is None


def test_columns_of_names_hold_no_numbers() -> None:
    assert {"N", "D", "loss"} <= numeric("runs")
    assert not {"run", "domain", "phase", "parent"} & numeric("curves")


def test_n_is_a_number_of_parameters_in_tables_of_runs_only() -> None:
    assert resolve("n", "runs") == ("N", 1.0)
    assert resolve("n", "curves") is None
    assert resolve("N ", "curves") == ("N", 1.0)
