"""Tables and requests that no backtest can be made of: one message, before anything is fitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.evaluation.direction import group_ends
from tests.hostile.conftest import Refuse

Change = Callable[[pd.DataFrame], pd.DataFrame]
TABLES: dict[str, tuple[str, Change, str]] = {
    "a column that is not there": ("ptpp", lambda t: t, "missing-column"),
    "no compute": ("compute", lambda t: t.assign(N=1e8), "missing-column"),
    "a negative value": ("step", lambda t: t.assign(step=t["step"] - 2), "not-positive"),
    "an empty cell": ("step", lambda t: t.assign(step=t["step"].where(t.index > 0)), "missing-value"),
    "an infinite value": ("compute", lambda t: t.assign(flops=["1e400", *t["step"][1:]]), "missing-value"),
    "a model of size 0": ("N", lambda t: t.assign(N=[0, *t["step"][1:]]), "not-positive"),
    "texts": ("step", lambda t: t.assign(step=["one", "two"] * (len(t) // 2)), "column-without-numbers"),
    "one value": ("step", lambda t: t.assign(step=1000), "too-few-values"),
    "values that hardly differ": ("step", lambda t: t.assign(step=1e15 + np.arange(len(t))), "too-few-values"),
    "zeros alone": ("step", lambda t: t.assign(step=0), "too-few-values"),
    "two values": ("step", lambda t: t.assign(step=1 + t["step"] // 32), "too-few-values"),
    "five rows to fit": ("step", lambda t: t.assign(step=[1, 1, 2, 2, 3, *[9] * (len(t) - 5)]), "too-few-rows"),
    "three rows": ("step", lambda t: t.iloc[[0, 4, 8]], "too-few-rows"),
    "a direction of no table": ("loss", lambda t: t, "unknown-direction"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_cuts_is_refused(name: str, refuse: Refuse, here: Path) -> None:
    by, change, code = TABLES[name]
    change(pd.read_csv(here / "steps.csv")).to_csv(here / "faulty.csv", index=False)
    refuse("backtest", "faulty.csv", "--law", "line.toml", "--by", by, "-q", code=code)


REQUESTS = {
    "--pool b=domain": "missing-column",
    "--pool b": "not-a-pair",
    "--prior z=Normal(0,1)": "items-failed",
    "--noise gauss": "items-failed",
    "--noise-by lab": "missing-column",
    "--draws 5": "items-failed",
    "--discrepancy 200%": "not-a-discrepancy",
    "--output rows.nc": "wrong-ending",
    "--output steps.csv": "output-is-input",
    "--plot rows.gif": "wrong-ending",
    "--executor cloud": "unknown-executor",
    "--where x>9": "no-row-meets",
}


@pytest.mark.parametrize("options", REQUESTS)
def test_a_request_that_cannot_be_met_is_refused(options: str, refuse: Refuse) -> None:
    refuse("backtest", "steps.csv", "--law", "line.toml", "--by", "step", "-q", *options.split(), code=REQUESTS[options])


@pytest.mark.parametrize("steps", [[5e-324, 1.0, 1e308], [1.0, 2.0, 1.7e308], [1e-300, 1e-200, 1e-100]])
def test_values_at_the_ends_of_what_floats_hold_have_a_distance(steps: list[float]) -> None:
    assert group_ends(np.array(steps)) == steps
