"""Pages in the form in which the losses of Delphi's mid-training are published."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data import datasets

TABLE = Path(os.environ.get("BAYESLAW_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")) / "delphi_midtraining.csv"
(REPORT,) = datasets.dataset("delphi").files
BUDGETS = ["tok1b", "tok2b", "tok4b", "tok8b", "k0p20"]


def figure(bases: Sequence[str], losses: Mapping[str, Sequence[float]]) -> bytes:
    """A page with one figure as Plotly writes it: losses on two validation sets, each series followed by predictions."""
    traces = []
    for axis, shift in (("x", 1.0), ("x2", 0.0)):
        for budget, of_budget in losses.items():
            data = base64.b64encode((np.array(of_budget) + shift).astype("<f8").tobytes()).decode()
            trace = {"legendgroup": budget, "text": list(bases), "y": {"dtype": "f8", "bdata": data}, "xaxis": axis}
            traces += [trace | {"mode": "markers+lines"}, trace | {"mode": "markers", "text": bases[-2:]}]
    text = json.dumps(traces).replace("/", "\\u002f")
    start = '<div id="clean-unified"></div> <script> if (document.getElementById("clean-unified")) { Plotly.newPlot('
    return f'<h2>Report</h2> {start}    "clean-unified",     {text},   {{"height": 820}}, {{}} ) }} </script>'.encode()


def digest(losses: Sequence[float]) -> str:
    """The checksum of losses that `bayeslaw data fetch` compares."""
    return hashlib.sha256(" ".join(f"{loss:.6f}" for loss in losses).encode()).hexdigest()


def delphi_losses() -> pd.DataFrame:
    """The losses on the clean set, from the folder of public losses, in the order of the report; skips where there is none."""
    if not TABLE.exists():
        pytest.skip(f"no {TABLE.name} in the folder of public losses; name it by BAYESLAW_SHARED_DATA")
    table = pd.read_csv(TABLE, dtype={"base": str}).query("val_set == 'clean_seen'")
    return table.assign(order=table["kind"].map(BUDGETS.index)).sort_values(["order", "N"])


def delphi_report(losses: pd.DataFrame) -> bytes:
    """A page with these losses in the place of the authors' report."""
    by_budget = {str(budget): rows["loss"].tolist() for budget, rows in losses.groupby("kind", sort=False)}
    return figure(losses["base"].unique().tolist(), by_budget)


def keep_delphi(cache: Path) -> None:
    """Put the report into the cache of downloads; skips where the folder of public losses lacks the table."""
    folder = cache / "delphi" / datasets.dataset("delphi").commit
    page = delphi_report(delphi_losses())
    folder.mkdir(parents=True)
    (folder / REPORT.replace("/", "__")).write_bytes(page)
