"""Backtests with sampled fits: the same on every executor, and what the command prints and writes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.evaluation.backtest import Backtest
from bayeslaw.laws.card import load_law
from tests.commands import Command, refused
from tests.fixed import without_sampling
from tests.twins import TRUTHS, simulate

# Worker processes don't know kept draws: there all fits are sampled again.
pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("kept_draws", "all_blas_threads")]
CUTS: dict[str, Any] = {"cuts": 2, "seed": 3, "options": {"chains": 2}, "progress": False}


def ladder(runs: int = 40) -> pd.DataFrame:
    """Runs of one row each at various sizes and tokens, simulated from chinchilla."""
    rng = np.random.default_rng(5)
    size = np.exp(rng.uniform(np.log(1e8), np.log(3e9), runs))
    tokens = size * np.exp(rng.uniform(np.log(5), np.log(80), runs))
    frame = pd.DataFrame({"N": size, "D": tokens, "run": [f"r{i}" for i in range(runs)]})
    return simulate(load_law("chinchilla"), TRUTHS["chinchilla"], frame, 2)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backtest") / "ladder.csv"
    ladder().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def made(written: Path) -> Backtest:
    return bayeslaw.backtest(written, "chinchilla", **CUTS)


def test_a_backtest_of_a_law_that_is_right(made: Backtest, written: Path) -> None:
    assert made.cuts["checks"].tolist() == ["passed", "passed"]
    assert made.spread == "extrapolated"
    table = pd.read_csv(written)
    compute = 6 * table["N"] * table["D"]
    for cut in made.cuts.to_dict("records"):
        assert (cut["rows"], cut["scored"]) == ((compute <= cut["cut"]).sum(), (compute > cut["cut"]).sum())
    row = made.rows.iloc[-1]
    fit = bayeslaw.fit("chinchilla", table[compute <= row["cut"]], seed=3, chains=2, progress=False)
    # The same fit, which forecasts the same row; the noise of new runs has other random numbers.
    alone = bayeslaw.forecast(fit, table.loc[[row["row"] - 1], ["N", "D", "run"]], seed=3).summary().iloc[0]
    assert row["median"] == pytest.approx(alone["extrapolated_median"], rel=2e-3)
    whole = made.reach.iloc[-1]
    assert whole["forecasts"] == len(made.rows)
    assert whole["mae_rel"] < 0.005
    assert whole["cover_eti90"] > 0.75
    assert "too narrow" not in made.text


def test_every_executor_gives_the_same_numbers(made: Backtest, written: Path) -> None:
    there = bayeslaw.backtest(written, "chinchilla", executor="processes:2", **CUTS)
    pd.testing.assert_frame_equal(there.rows, made.rows, check_exact=True)
    pd.testing.assert_frame_equal(there.cuts, made.cuts)
    assert (there.text, there.notes) == (made.text, made.notes)


@pytest.fixture(scope="module")
def stacked(written: Path) -> Backtest:
    return bayeslaw.backtest(written, ["chinchilla", "overtraining"], **CUTS | {"cuts": 1})


def test_a_backtest_of_a_stack_scores_the_forecasts_of_its_fits_together(stacked: Backtest, written: Path) -> None:
    assert (stacked.law, stacked.spread) == ("stack of chinchilla, overtraining", "extrapolated")
    assert "stack of chinchilla, overtraining" in repr(stacked)
    table, (cut,) = pd.read_csv(written), stacked.cuts.to_dict("records")
    compute = 6 * table["N"] * table["D"]
    assert (cut["rows"], cut["scored"], cut["checks"]) == ((compute <= cut["cut"]).sum(), (compute > cut["cut"]).sum(), "passed")
    below = table[compute <= cut["cut"]]
    stack = bayeslaw.fit_stack(["chinchilla", "overtraining"], below, seed=3, chains=2, progress=False)
    beyond = table.loc[stacked.rows["row"] - 1, ["N", "D", "run"]]
    alone = bayeslaw.forecast(stack, beyond, seed=3).summary()
    assert stacked.rows["median"].to_numpy() == pytest.approx(alone["extrapolated_median"].to_numpy(), rel=2e-3)
    width = stacked.rows["eti90_ub"] - stacked.rows["eti90_lb"]
    expected = alone["extrapolated_eti90_ub"] - alone["extrapolated_eti90_lb"]
    assert width.to_numpy() == pytest.approx(expected.to_numpy(), rel=0.1)


def test_the_command_scores_a_stack(stacked: Backtest, written: Path, command: Command) -> None:
    of = ("--law", "chinchilla, overtraining", "--cuts", 1, "--seed", 3, "--chains", 2, "-q", "--csv")
    result = command("backtest", written, *of)
    assert result.status == 0
    printed = pd.read_csv(io.StringIO(result.out.split("\nAt ")[0]))
    assert printed["crps"].to_numpy() == pytest.approx(stacked.reach["crps"].to_numpy())
    refused(command("backtest", written, "--law", "chinchilla,chinchilla"), "each named once; these are chinchilla, chinchilla")


@pytest.fixture
def here(written: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ladder.csv").write_bytes(written.read_bytes())
    return tmp_path


LINE = ("backtest", "ladder.csv", "--law", "chinchilla", "--cuts", 2, "--seed", 3, "--chains", 2, "-q")


@pytest.mark.usefixtures("here")
def test_the_command_prints_tables_and_a_sentence_and_writes_files(command: Command, made: Backtest) -> None:
    done = command(*LINE, "-o", "rows.csv", "--plot", "backtest.png")
    assert (done.status, done.err) == (0, "")
    assert made.text in done.out
    assert done.out.endswith(f"{len(made.rows)} forecasts written to rows.csv\npicture written to backtest.png\n")
    assert max(map(len, done.out.partition("\ne_folds  ")[0].splitlines())) <= 120
    pd.testing.assert_frame_equal(pd.read_csv("rows.csv"), made.rows, rtol=1e-12)
    assert Path("backtest.png").stat().st_size > 10_000


@pytest.mark.usefixtures("here")
def test_the_tables_as_csv_and_json(command: Command) -> None:
    with without_sampling():
        expected = bayeslaw.backtest("ladder.csv", "chinchilla", **CUTS)
        csv = command(*LINE, "--csv")
        content = json.loads(command(*LINE, "--json").out)
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(csv.out)), expected.reach, rtol=1e-12, check_dtype=False)
    assert expected.text in csv.err
    results = content["results"]
    assert expected.text in content["text"]
    for name, table in (("reach", expected.reach), ("cuts", expected.cuts), ("forecasts", expected.rows)):
        pd.testing.assert_frame_equal(pd.DataFrame(results[name]), table, check_dtype=False)
    assert results["notes"] == list(expected.notes)


@pytest.mark.usefixtures("here")
def test_without_trusted_draws_the_command_says_so(command: Command) -> None:
    few = (*LINE, "--draws", "50", "--plot", "backtest.png", "-o", "rows.csv")
    with without_sampling():
        done, forced = command(*few), command(*few, "--force")
    assert done.status == 0
    assert "Nothing could be scored beyond 2 cuts" in done.out
    assert "sampling FAILED (" in done.out
    assert "no picture, since nothing was scored" in done.out
    assert "FAILED (forced)" in forced.out
    assert set(pd.read_csv("rows.csv")["checks"]) == {"FAILED (forced)"}


@pytest.mark.usefixtures("here")
def test_the_command_passes_on_what_a_fit_takes(command: Command) -> None:
    table = pd.read_csv("ladder.csv")
    both = pd.concat([table.assign(domain="web"), table.assign(domain="code", run="c" + table["run"])])
    pd.concat([both, both.iloc[:1]]).to_csv("ladder.csv", index=False)
    line = (
        *LINE,
        "--by",
        "D",
        "--pool",
        "E=domain",
        "--prior",
        "beta=LogNormal(-1,0.1)",
        "--noise",
        "student-no-run",
    )
    given: dict[str, Any] = {"by": {"E": "domain"}, "priors": {"beta": "LogNormal(-1,0.1)"}, "chains": 2}
    with without_sampling():
        done = command(*line, "--duplicates", "drop", "--as", "new-run", "--discrepancy", "1%", "-o", "rows.csv")
        expected = bayeslaw.backtest(
            bayeslaw.read_runs("ladder.csv", duplicates="drop"), "chinchilla", by="D", noise="student-no-run", as_="new-run",
            discrepancy="1%", **(CUTS | {"options": given}),
        )  # fmt: skip
    assert done.status == 0, done
    assert "note: Left out: row 81, which repeats an earlier row exactly." in done.out
    pd.testing.assert_frame_equal(pd.read_csv("rows.csv"), expected.rows, rtol=1e-12)
    assert expected.spread == "discrepancy1%"
