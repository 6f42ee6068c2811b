"""The commands anchors and update: what they write, and what they refuse without writing anything."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd

import bayeslaw
from bayeslaw.data.table import read_runs
from bayeslaw.design import compare_with_predictions
from bayeslaw.forecasting.stack import Stack
from tests import oracles
from tests.commands import Command, rejected, snapshot, unchanged
from tests.fixed import loaded_fit, without_sampling


def test_anchors_writes_picks_and_a_picture(command: Command, folder: Path) -> None:
    pd.DataFrame({"N": [1e11], "D": [2e12]}).to_csv("targets.csv", index=False)
    words = ("anchors", "fit.nc", "--targets", "targets.csv", "--candidates-grid", "N=1e8,1e9", "atpp=5,20", "--budget")
    done = command(*words, "1e21", "-o", "picks.csv", "--plot", "picks.png", "--rounds", "2", "--nested", "20")
    assert done.status == 0, done.err
    assert "extrapolated_eti90_width" in done.out
    assert "nested_mcse" in done.out
    picks = pd.read_csv("picks.csv")
    assert picks["spent"].max() <= 1e21
    assert Path("picks.png").stat().st_size > 10_000
    run = picks["run"].iloc[0]
    explained = command(*words, "1e21", "--explain", run)
    assert explained.status == 0
    assert "gain_after_the_other_picks" in explained.out
    with unchanged(folder):
        rejected(command(*words, "1e10", "-o", "picks.csv"), "budget-too-small", "N 1e+08", "1.2e+18")
        rejected(command(*words, "1e21", "-o", "targets.csv"), "output-is-input", "targets.csv")
        rejected(command(*words[:4], "--budget", "1e21"), "candidates-not-clear")
        negative = ("--candidates-grid", "N=-1e8,1e9", "D=1e9", "--budget", "1e21")
        rejected(command(*words[:4], *negative), "out-of-support", "the candidates of --candidates-grid: N -1e+08")
        rejected(command(*words, "1e21", "--explain", "nothing"), "unknown-candidate", "nothing")
        rejected(command(*words, "1e21", "--explain", run, "-o", "explained.csv"), "explain-writes-nothing")
        rejected(command(*words, "1e21", "--explain", run, "--nested", "20"), "explain-writes-nothing", "--nested")
        rejected(command(*words, "1e21", "--plot", "picks.gif"), "wrong-ending", "picks.gif")
        rejected(command(*words, "1e21", "--nested", "1"), "not-a-whole-number", "--nested")
        rejected(command("anchors", "fit.nc", *words[1:], "1e21"), "given-twice", "fit.nc")


def later(**columns: Any) -> pd.DataFrame:
    """The first runs of `runs.csv` at later steps."""
    table = oracles.table(bayeslaw.load_law("chinchilla"), runs=2).assign(D=lambda t: 12 * t["D"])
    truth = oracles.typical(bayeslaw.load_law("chinchilla"))
    return table.assign(loss=oracles.chinchilla(truth, {c: table[c] for c in ("N", "D")})).assign(**columns)


def test_update_adds_one_table_after_the_other(command: Command, folder: Path) -> None:
    later().to_csv("later.csv", index=False)
    pd.DataFrame({"N": [1e10], "D": [1e11]}).to_csv("targets.csv", index=False)
    before = snapshot(folder)
    done = command("update", "fit.nc", "later.csv", "-o", "second.nc", "--targets", "targets.csv", "-q")
    assert (done.status, done.err) == (0, "")
    assert "The new runs agree with the predictions" in done.out
    assert "before_extrapolated_eti90" in done.out
    assert done.out.endswith("written to second.nc\n")
    first, second = loaded_fit("fit.nc"), loaded_fit("second.nc")
    assert second.observed.response.size == 50
    assert second.info["settings"] == first.info["settings"]
    assert second.info["data"] == f"{first.info['data']} and later.csv"
    later(D=lambda t: 2 * t["D"], loss=lambda t: 1.3 * t["loss"]).to_csv("third.csv", index=False)
    words = ("second.nc", "third.csv", "-o", "third.nc", "--seed", "4", "--where", "N < 5e7", "-q", "--force", "--csv")
    with without_sampling():
        done = command("update", *words)
    assert done.status == 0
    expected = compare_with_predictions(second, read_runs("third.csv", "N < 5e7"), force=True)
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(done.out)), expected, rtol=1e-12)
    assert "OUTSIDE the predictions: run 'run 0' lies " in done.err
    assert loaded_fit("third.nc").observed.response.size == 55
    assert loaded_fit("third.nc").info["seed"] == 4
    assert {name: digest for name, digest in snapshot(folder).items() if name in before} == before


def test_update_takes_a_stack(command: Command, folder: Path) -> None:
    later().to_csv("later.csv", index=False)
    pd.DataFrame({"N": [1e10], "D": [1e11]}).to_csv("targets.csv", index=False)
    with without_sampling():
        assert command("fit", "chinchilla,kaplan", "runs.csv", "-o", "stack.nc", "-q").status == 0
        before = snapshot(folder)
        words = ("stack.nc", "later.csv", "-o", "second.nc", "--targets", "targets.csv", "-q")
        done, as_json = command("update", *words), command("update", *words, "--json")
    assert (done.status, done.err) == (0, "")
    assert "The stack keeps its weights (chinchilla 0.5, kaplan 0.5); `bayeslaw compare` with all runs learns new ones." in done.out
    assert "chinchilla fitted to 50 rows of 8 runs" in done.out
    assert "kaplan fitted to 50 rows of 8 runs" in done.out
    results = json.loads(as_json.out)["results"]
    assert results["weights"] == {"chinchilla": 0.5, "kaplan": 0.5}
    assert [row["run"] for row in results["predictions"]] == ["run 0", "run 1", "all new runs"]
    assert len(results["widths"]) == 1
    assert isinstance(bayeslaw.load_fit("second.nc"), Stack)
    assert command("forecast", "second.nc", "--set", "N=1e10", "--set", "D=1e11").status == 0
    assert "runs.csv (40 rows) and later.csv (10 rows)" in command("show", "second.nc").out
    assert {name: digest for name, digest in snapshot(folder).items() if name in before} == before


def test_update_refuses_unusable_files_before_it_fits(command: Command, folder: Path) -> None:
    later().to_csv("later.csv", index=False)
    later(loss=-1).to_csv("faulty.csv", index=False)
    with unchanged(folder):
        rejected(command("update", "fit.nc", "later.csv", "-o", "fit.nc"), "output-is-input", "fit.nc")
        rejected(command("update", "fit.nc", "later.csv", "-o", "later.csv"), "wrong-ending", "later.csv")
        rejected(command("update", "fit.nc", "faulty.csv", "-o", "new.nc"), "faulty-table", "loss -1", "row 1")
        rejected(command("update", "fit.nc", "runs.csv", "-o", "new.nc"), "faulty-table", "and 39 like it: rows 2–40")
        for words in (("fit.nc", "absent.csv"), ("fit.nc", "later.csv", "--targets", "absent.csv"), ("failed.nc", "later.csv")):
            assert command("update", *words, "-o", "new.nc").status == 2
        assert command("update", "damaged.nc", "later.csv", "-o", "new.nc").status == 2
