"""Comparisons of laws whose parameters vary by a column: point fits vary as the posteriors do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.laws.card import load_law
from tests import oracles
from tests.fixed import without_sampling


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


def test_rows_are_held_out_by_the_names_of_the_file() -> None:
    table = oracles.table(load_law("chinchilla"))
    table = table.assign(**{"config.N_M": table["N"] / 1e6}).drop(columns="N")
    runs, last = bayeslaw.read_runs(table, columns={"N": "config.N_M:M"}), f"config.N_M >= {table['config.N_M'].max()}"
    options = {"draws": 100, "chains": 2, "discrepancy": "none"}
    with without_sampling():
        result = bayeslaw.compare(runs, ["chinchilla"], holdout=last, starts=2, seed=1, force=True, progress=False, options=options)
    assert np.isfinite(result.scores["mae_rel"]).all()
