"""Units of losses: round trips, published numbers, tables that mix them, and fits that keep theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeslaw import fit, load_law, point_fit, score
from bayeslaw.core.errors import BayeslawError, TableError
from bayeslaw.core.units import NATS, PERPLEXITY, UNITS, convert, convert_table, unit
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import check
from bayeslaw.inference.refit import join_runs, rows_of
from tests import oracles
from tests.commands import Command, refused
from tests.fixed import loaded_fit


def test_numbers_worked_out_by_hand() -> None:
    """A text of 8 characters, 10 bytes and 4 tokens whose tokens have probability 1/2 each: 4 bits altogether."""
    ratios: dict[str, Any] = {"bytes_per_token": 2.5, "characters_per_token": 2.0}
    loss = np.log(2)
    for to, value in {
        "nats/token": np.log(2), "bits/token": 1, "bits/byte": 0.4, "nats/byte": 0.4 * np.log(2), "bits/character": 0.5,
        "nats/character": 0.5 * np.log(2), "perplexity": 2,
    }.items():  # fmt: skip
        assert convert(loss, to, **ratios) == pytest.approx(value)


@given(st.sampled_from(UNITS), st.sampled_from(UNITS), st.floats(0.01, 12), st.floats(0.5, 8), st.floats(0.5, 8))
def test_there_and_back(frm: str, to: str, loss: float, by: float, ch: float) -> None:
    ratios: dict[str, Any] = {"bytes_per_token": by, "characters_per_token": ch}
    given_ = convert(loss, frm, **ratios)
    np.testing.assert_allclose(convert(convert(given_, to, frm=frm, **ratios), frm, frm=to, **ratios), given_, rtol=1e-10)
    np.testing.assert_allclose(convert(given_, to, frm=frm, **ratios), convert(loss, to, **ratios), rtol=1e-10)


def test_two_tokenizers_of_one_text_agree_per_byte() -> None:
    """RedWhale: a tokenizer that makes .57 as many tokens of a text has 1/.57 of the loss per token for the same bits."""
    bytes_, tokens = 1e6, np.array([3e5, 0.57 * 3e5])
    bits = np.array([9e5, 9e5])
    frame = pd.DataFrame({"loss": bits * np.log(2) / tokens, "bytes_per_token": bytes_ / tokens, "run": ["base", "own"]})
    made = convert_table(frame, "bpb")
    np.testing.assert_allclose(made["loss"], 0.9)
    assert made["unit"].unique().tolist() == ["bits/byte"]
    same = convert_table(frame, NATS, reference=bytes_ / tokens[0])
    np.testing.assert_allclose(same["loss"], frame["loss"].iloc[0])
    assert same["bytes_per_token"].tolist() == [bytes_ / tokens[0]] * 2
    np.testing.assert_allclose(convert_table(same, "bits/byte")["loss"], 0.9)
    characters = 8e5
    whole = convert_table(frame.assign(characters_per_token=characters / tokens), NATS, reference=bytes_ / tokens[0])
    np.testing.assert_allclose(convert_table(whole, "bits/character")["loss"], 9e5 / characters)
    by_name = convert_table(frame, NATS, reference=bytes_ / tokens[0], characters_per_token=1.0)
    np.testing.assert_allclose(by_name["characters_per_token"], tokens / tokens[0])


@pytest.mark.parametrize("to", UNITS)
@pytest.mark.parametrize("frm", UNITS)
def test_errors_follow_their_losses(frm: str, to: str) -> None:
    ratios: dict[str, Any] = {"bytes_per_token": 4.0, "characters_per_token": 3.0}
    loss = convert([2.0, 3.0], frm, **ratios)
    se, unit_ = np.array([1e-6, 2e-6]), frm
    low, high = (convert_table(pd.DataFrame({"loss": loss + k * se, "unit": unit_}), to, **ratios)["loss"] for k in (-1, 1))
    made = convert_table(pd.DataFrame({"loss": loss, "loss_se": se, "unit": unit_}), to, **ratios)
    np.testing.assert_allclose(made["loss_se"], (high - low) / 2, rtol=1e-4)


def test_what_cannot_be_converted() -> None:
    frame = pd.DataFrame({"loss": [2.0, 3.0], "tok": [4.0, 0.0], "run": ["a", "b"]}, index=[1, 2])
    with pytest.raises(BayeslawError, match="give bytes_per_token, those of the validation text"):
        convert_table(frame, "bits/byte")
    with pytest.raises(TableError, match=r"tok 0 is not positive") as refused_:
        convert_table(frame, "bits/byte", bytes_per_token="tok")
    assert [f.row for f in refused_.value.faults] == [2]
    with pytest.raises(BayeslawError, match=r"'tk' is neither. Did you mean 'tok'"):
        convert_table(frame, "bits/byte", bytes_per_token="tk")
    with pytest.raises(BayeslawError, match="column 'run' holds no numbers"):
        convert_table(frame, "bits/byte", bytes_per_token="run")
    with pytest.raises(BayeslawError, match="no column loss"):
        convert_table(frame.drop(columns="loss"), "bits/byte")
    with pytest.raises(BayeslawError, match=r"There is no unit 'bits/byt'.*Did you mean 'bits/byte'"):
        unit("bits/byt")
    with pytest.raises(BayeslawError, match="perplexity is 1 or more"):
        convert(0.5, NATS, frm=PERPLEXITY)
    for reference, to in ((4.0, "bits/byte"), (-1.0, NATS)):
        with pytest.raises(BayeslawError, match="A reference is the bytes per token"):
            convert_table(frame, to, reference=reference)


def test_a_table_keeps_its_unit_and_mixed_ones_are_refused() -> None:
    frame = pd.DataFrame({"N": [1e8] * 3, "loss": [2.0] * 3})
    assert read_runs(frame).unit == NATS
    assert read_runs(frame.assign(unit="BPB")).unit == "bits/byte"
    with pytest.raises(TableError, match="its losses are in nats/token, those before in bits/byte") as refused_:
        read_runs(frame.assign(unit=["bits/byte", "nats/token", "nats/token"]))
    assert [f.row for f in refused_.value.faults] == [2]
    with pytest.raises(TableError, match="unit is missing, and other losses are in bits/byte"):
        read_runs(frame.assign(unit=pd.Series(["bits/byte", None, None], dtype=object)))
    with pytest.raises(BayeslawError, match="There is no unit 'parsecs'"):
        read_runs(frame.assign(unit="parsecs"))


def test_faults_are_told_in_the_units_of_the_table() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law)
    high = table.assign(unit="bits/token", loss=np.r_[20.0, 30.0, table["loss"].to_numpy()[2:]])
    assert [f.problem for f in check(read_runs(high), law) if f.row is not None] == [
        "loss 30 is above 21.6 bits/token: is it a perplexity?"
    ]
    (fault,) = check(read_runs(table.assign(unit=PERPLEXITY, loss=np.exp(table["loss"]))), law)
    assert "laws describe their logarithm" in fault.problem


def test_a_fit_keeps_the_unit_and_refuses_losses_in_another() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law)
    whole = convert_table(table, "bits/byte", bytes_per_token=4.0)
    point = point_fit(law, whole, starts=3)
    assert point.observed.unit == "bits/byte"
    with pytest.raises(BayeslawError, match="losses in nats/token, and the fit is to losses in bits/byte"):
        score(point, read_runs(table))
    assert score(point, read_runs(whole))["rows"].tolist() == [len(table)]


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
    np.testing.assert_allclose(read_runs("back.csv").frame["loss"], [2, 3])
    assert command("convert", "runs.csv", "--from", "perplexity", "--to", "nats/token", "-o", "logs.csv").status == 0
    refused(
        command("convert", "bits.csv", "--to", "nats/token", "--from", "bits/token", "-o", "x.csv"), "says that its losses are in"
    )
    refused(command("convert", "runs.csv", "--to", "bits/byte", "-o", "x.csv"), "give bytes_per_token")
    refused(command("convert", "runs.csv", "--to", "bits/byte", "-o", "runs.csv"), "runs.csv is an input of this command")
    assert not Path("x.csv").exists()


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
    with pytest.raises(BayeslawError, match="losses in nats/token, and the fit is to losses in bits/byte"):
        join_runs(loaded, Runs(oracles.table(law), "new"))
