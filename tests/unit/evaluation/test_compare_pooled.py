"""Comparisons of laws whose parameters vary by a column: point fits vary as the posteriors do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.evaluation.loo import Loo, leave_one_run_out
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import line, without_sampling


@pytest.mark.slow
@pytest.mark.parametrize("column", ["lab", "domain"])
def test_point_fits_vary_by_the_column_of_the_posteriors(column: str) -> None:
    table = oracles.table(load_law("chinchilla"))
    labs = [table.assign(lab=name, run=table["run"] + name).rename(columns={"lab": column}) for name in "ab"]
    both = [labs[0], labs[1].assign(loss=1.2 * table["loss"])]
    rows = pd.concat(both, ignore_index=True)
    with without_sampling():
        result = bayeslaw.compare(
            rows, ["chinchilla"], holdout=f"N >= {rows['N'].max()}", starts=4, seed=1, force=True, progress=False,
            options={"by": {"E": column}, "draws": 100, "chains": 2, "discrepancy": "none"},
        )  # fmt: skip
    point = result.scores[result.scores["fit"] == "point"]
    assert point["mae_rel"].item() < 0.05  # one E for both would miss each by a tenth


OPTIONS = {"draws": 100, "chains": 2, "discrepancy": "none"}
LABS = {"a": 1.0, "b": 1.1, "c": 1.2}
BY_LAB: tuple[dict[str, Any], ...] = ({"by": {"E": "lab"}}, {"noise_by": "lab"})


def of_labs() -> pd.DataFrame:
    """Runs of chinchilla: six of each of two labs, and one of a third."""
    table = oracles.table(load_law("chinchilla"))
    whole = pd.concat([table.assign(lab=lab, run=table["run"] + lab, loss=more * table["loss"]) for lab, more in LABS.items()])
    return whole[(whole["lab"] != "c") | (whole["run"] == "run 0c")].reset_index(drop=True)


@pytest.mark.parametrize("differ", BY_LAB)
@pytest.mark.parametrize("held_out", [{"by": "lab"}, {"holdout": "lab == 'c'"}])
def test_groups_that_no_fit_would_know_are_refused_before_any_fit(differ: dict[str, Any], held_out: dict[str, str]) -> None:
    """Forecasts of them were refused when all fits had been made."""
    with patch("bayeslaw.evaluation.comparison.fit_many", side_effect=AssertionError), fails("unknown-group", "every row of lab"):
        bayeslaw.compare(of_labs(), "chinchilla", options=OPTIONS | differ, progress=False, **held_out)  # type: ignore[arg-type]


@pytest.mark.parametrize("differ", BY_LAB)
def test_the_only_run_of_a_group_is_left_out_by_weights_however_unreliable(differ: dict[str, Any]) -> None:
    def unreliable(fit: Fit) -> Loo:
        loo = leave_one_run_out(fit)
        return replace(loo, table=loo.table.assign(pareto_k=np.where(loo.table.index == "run 0c", 2.0, 0.1)))

    with without_sampling(), patch("bayeslaw.evaluation.compare.leave_one_run_out", unreliable):
        result = bayeslaw.compare(of_labs(), "chinchilla", loo=True, options=OPTIONS | differ, force=True, progress=False)
    (note,) = (note for note in result.notes if "can't be refitted" in note)
    assert note.startswith("chinchilla can't be refitted without run 0c (Pareto k 2.00)")
    assert note.endswith("No other run is of lab c, and parameters or the noise differ by it.")
    assert result.weights["refits"].item() == 0


def test_the_only_run_is_not_refitted_without_itself() -> None:
    """The note said that every row of the empty table is a base checkpoint."""
    table = pd.DataFrame({"x": np.linspace(-1, 1, 8), "run": "a", "loss": 2.7})
    with without_sampling():
        result = bayeslaw.compare(table, line(), options=OPTIONS, force=True, progress=False)
    (note,) = (note for note in result.notes if "can't be refitted" in note)
    assert note.endswith("so its density is unreliable. There is no other run.")


def test_rows_are_held_out_by_the_names_of_the_file() -> None:
    table = oracles.table(load_law("chinchilla"))
    table = table.assign(**{"config.N_M": table["N"] / 1e6}).drop(columns="N")
    runs, last = bayeslaw.read_runs(table, columns={"N": "config.N_M:M"}), f"config.N_M >= {table['config.N_M'].max()}"
    with without_sampling():
        result = bayeslaw.compare(runs, ["chinchilla"], holdout=last, starts=2, seed=1, force=True, progress=False, options=OPTIONS)
    assert np.isfinite(result.scores["mae_rel"]).all()
