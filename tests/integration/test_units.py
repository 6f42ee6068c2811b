"""Units of losses in fits, forecasts and the command `convert`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw import fit, load_law, point_fit, score
from bayeslaw.core.units import convert, convert_table
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.inference.refit import join_runs, rows_of
from tests import oracles
from tests.commands import Command, rejected
from tests.errors import fails
from tests.fixed import loaded_fit


def test_a_fit_keeps_the_unit_and_refuses_losses_in_another() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law)
    whole = convert_table(table, "bits/byte", bytes_per_token=4.0)
    point = point_fit(law, whole, starts=3)
    assert point.observed.unit == "bits/byte"
    with fails("another-unit", "nats/token", "bits/byte"):
        score(point, read_runs(table))
    assert score(point, read_runs(whole), in_sample=True)["rows"].tolist() == [len(table)]


def test_conversion_commutes_with_a_fit() -> None:
    """A law without a scale of its own has the same relative errors in any unit."""
    law = load_law("chinchilla")
    table = oracles.table(law)
    nats = point_fit(law, table, starts=20)
    bits = point_fit(law, convert_table(table, "bits/byte", bytes_per_token=4.0), starts=20)
    assert bits.parameters["alpha"] == pytest.approx(nats.parameters["alpha"], rel=1e-3)
    assert bits.parameters["E"] == pytest.approx(float(convert(nats.parameters["E"], "bits/byte", bytes_per_token=4.0)), rel=1e-3)


def test_the_command_convert(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"N": [1e8, 2e8], "loss": [2.0, 3.0], "ratio": [4.0, 4.5]}).to_csv("runs.csv", index=False)
    done = command("convert", "runs.csv", "--to", "bits/byte", "--bytes-per-token", "ratio", "-o", "bits.csv")
    assert (done.status, done.err) == (0, "")
    assert "2 losses from nats/token to bits/byte written to bits.csv" in done.out
    made = read_runs("bits.csv")
    assert made.unit == "bits/byte"
    np.testing.assert_allclose(made.frame["loss"], [2 / 4 / np.log(2), 3 / 4.5 / np.log(2)])
    assert command("convert", "bits.csv", "--to", "nats/token", "-o", "back.csv").status == 0
    made.frame.head(1).to_csv("single.csv", index=False)
    assert "1 loss from bits/byte" in command("convert", "single.csv", "--to", "nats/token", "-o", "other.csv").out
    np.testing.assert_allclose(read_runs("back.csv").frame["loss"], [2, 3])
    assert command("convert", "runs.csv", "--from", "perplexity", "--to", "nats/token", "-o", "logs.csv").status == 0
    rejected(command("convert", "bits.csv", "--to", "nats/token", "--from", "bits/token", "-o", "x.csv"), "two-units", "bits/token")
    rejected(command("convert", "runs.csv", "--to", "bits/byte", "-o", "x.csv"), "missing-ratio", "bytes_per_token")
    rejected(command("convert", "runs.csv", "--to", "bits/byte", "-o", "runs.csv"), "output-is-input", "runs.csv")
    pd.DataFrame({"D": 1e10, "loss": [2.0, 3.0], "bytes_per_token": [4.0, 4.5]}).to_csv("two.csv", index=False)
    done = command("convert", "two.csv", "--to", "nats/token", "--reference", "3.8", "-o", "one.csv")
    assert "note: still in tokens of each row's own tokenizer, by which its FLOPs are counted: D\n" in done.out
    assert "bytes_per_token is now that of the reference (3.8); the ratios of the rows are in two.csv" in done.out
    assert read_runs("one.csv").frame["D"].tolist() == [1e10, 1e10]
    assert "note" not in command("convert", "one.csv", "--to", "bits/byte", "-o", "bytes.csv").out  # of one tokenizer
    assert not Path("x.csv").exists()
    pd.DataFrame({"D": 1e10, "loss": [2.0, 3.0], "ratio": [4.0, 4.5]}).to_csv("text.csv", index=False)
    done = command("convert", "text.csv", "--to", "nats/character", "--characters-per-token", "ratio", "-o", "characters.csv")
    np.testing.assert_allclose(read_runs("characters.csv").frame["loss"], [2 / 4, 3 / 4.5])
    assert "note: still in tokens of each row's own tokenizer, by which its FLOPs are counted: D\n" in done.out
    rejected(command("convert", "text.csv", "--to", "bits/character", "-o", "x.csv"), "missing-ratio", "characters_per_token")


def test_a_fit_and_its_forecasts_are_in_the_unit_of_the_runs(tmp_path: Path) -> None:
    law = load_law("chinchilla")
    whole = convert_table(oracles.table(law), "bits/byte", bytes_per_token=4.0)
    made = fit(law, whole, draws=100, tune=100, chains=2, seed=1, progress=False)
    made.save(tmp_path / "fit.nc")
    loaded = loaded_fit(tmp_path / "fit.nc")
    assert (made.observed.unit, loaded.observed.unit) == ("bits/byte", "bits/byte")
    assert rows_of(loaded).unit == "bits/byte"
    at = read_runs(whole.iloc[:2].drop(columns=["loss", "unit"]))
    forecast = loaded.forecast(at, force=True)
    assert forecast.unit == forecast.draws.attrs["units"] == "bits/byte"
    with fails("another-unit", "nats/token", "bits/byte"):
        join_runs(loaded, Runs(oracles.table(law), "new"))
