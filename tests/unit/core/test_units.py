"""Units of losses: round trips, numbers worked out by hand, and tables that mix units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeslaw import load_law
from bayeslaw.core.units import NATS, PERPLEXITY, UNITS, convert, convert_table, unit
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from tests import oracles
from tests.errors import fails, faults


def test_conversions_worked_out_by_hand() -> None:
    """A text of 8 characters, 10 bytes and 4 tokens whose tokens have probability 1/2 each: 4 bits altogether."""
    ratios: dict[str, Any] = {"bytes_per_token": 2.5, "characters_per_token": 2.0}
    loss = np.log(2)
    for to, value in {
        "nats/token": np.log(2), "bits/token": 1, "bits/byte": 0.4, "nats/byte": 0.4 * np.log(2), "bits/character": 0.5,
        "nats/character": 0.5 * np.log(2), "perplexity": 2,
    }.items():  # fmt: skip
        assert convert(loss, to, **ratios) == pytest.approx(value)


@pytest.mark.slow
@given(st.sampled_from(UNITS), st.sampled_from(UNITS), st.floats(0.01, 12), st.floats(0.5, 8), st.floats(0.5, 8))
def test_a_conversion_and_its_inverse_give_the_loss_back(frm: str, to: str, loss: float, by: float, ch: float) -> None:
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
def test_standard_errors_are_converted_with_their_losses(frm: str, to: str) -> None:
    ratios: dict[str, Any] = {"bytes_per_token": 4.0, "characters_per_token": 3.0}
    loss = convert([2.0, 3.0], frm, **ratios)
    se, unit_ = np.array([1e-6, 2e-6]), frm
    low, high = (convert_table(pd.DataFrame({"loss": loss + k * se, "unit": unit_}), to, **ratios)["loss"] for k in (-1, 1))
    made = convert_table(pd.DataFrame({"loss": loss, "loss_se": se, "unit": unit_}), to, **ratios)
    np.testing.assert_allclose(made["loss_se"], (high - low) / 2, rtol=1e-4)


def test_losses_that_cannot_be_converted_are_refused() -> None:
    frame = pd.DataFrame({"loss": [2.0, 3.0], "tok": [4.0, 0.0], "run": ["a", "b"]}, index=[1, 2])
    with fails("missing-ratio", "bytes_per_token"):
        convert_table(frame, "bits/byte")
    with faults(("not-positive", 2, "tok")):
        convert_table(frame, "bits/byte", bytes_per_token="tok")
    with fails("unknown-column", "'tk'", "'tok'"):
        convert_table(frame, "bits/byte", bytes_per_token="tk")
    with fails("not-numbers", "'run'"):
        convert_table(frame, "bits/byte", bytes_per_token="run")
    with fails("another-ratio", "bytes_per_token", 5.0):
        convert_table(frame.assign(bytes_per_token=4.2), "bits/byte", bytes_per_token=5.0)
    with fails("no-loss"):
        convert_table(frame.drop(columns="loss"), "bits/byte")
    with fails("unknown-unit", "'bits/byt'", "'bits/byte'"):
        unit("bits/byt")
    with fails("perplexity-below-1"):
        convert(0.5, NATS, frm=PERPLEXITY)
    for reference, to in ((4.0, "bits/byte"), (-1.0, NATS)):
        with fails("wrong-reference", f"{reference:g}", to):
            convert_table(frame, to, reference=reference)


def test_a_table_keeps_its_unit_and_mixed_units_are_refused() -> None:
    frame = pd.DataFrame({"N": [1e8] * 3, "loss": [2.0] * 3})
    assert read_runs(frame).unit == NATS
    assert read_runs(frame.assign(unit="BPB")).unit == "bits/byte"
    with faults(("mixed-units", 2, "unit")):
        read_runs(frame.assign(unit=["bits/byte", "nats/token", "nats/token"]))
    for units in (["nats/token", "ppl", "ppl"], ["ppl", "nats/token", "ppl"]):
        with fails("mixed-units", "df.loc[df['unit'] == 'ppl', 'loss'] = np.log(df['loss'])"):
            read_runs(frame.assign(unit=units))
    with faults(("missing-unit", 2, "unit")):
        read_runs(frame.assign(unit=pd.Series(["bits/byte", None, None], dtype=object)))
    with fails("unknown-unit", "'parsecs'"):
        read_runs(frame.assign(unit="parsecs"))


def test_only_rows_with_a_loss_need_a_unit() -> None:
    frame = pd.DataFrame({"N": [1e8] * 3, "loss": [np.nan, 2.0, 2.1]})
    assert read_runs(frame.assign(unit=pd.Series([None, "bits/byte", "bits/byte"], dtype=object))).unit == "bits/byte"
    empty = read_runs(frame.assign(unit=pd.Series([None, " ", None], dtype=object)))
    assert empty.unit == NATS
    assert "losses in nats/token" in empty._repr_html_()
    with faults(("mixed-units", 2, "unit")):
        read_runs(frame.assign(unit=["bits/byte", "nats/token", "bits/byte"]))


def test_faults_are_in_the_unit_of_the_table() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law)
    high = table.assign(unit="bits/token", loss=np.r_[20.0, 30.0, table["loss"].to_numpy()[2:]])
    assert [f.problem for f in check(read_runs(high), law) if f.row is not None] == [
        "loss 30 is above 21.6 bits/token: is it a perplexity?"
    ]
    (fault,) = check(read_runs(table.assign(unit=PERPLEXITY, loss=np.exp(table["loss"]))), law)
    assert "laws describe their logarithm" in fault.problem


def test_characters_per_token_follow_a_reference_or_are_refused() -> None:
    """Without bytes per token they stayed those of another tokenizer than the losses."""
    frame = pd.DataFrame({"loss": [1.0], "unit": "bits/byte", "characters_per_token": 4.0})
    with fails("missing-ratio", "characters_per_token", "bytes_per_token"):
        convert_table(frame, "nats/token", reference=3.8)
    there = convert_table(frame.assign(bytes_per_token=4.4), "nats/token", reference=3.8)
    back = convert_table(there, "nats/character")
    assert back["loss"][0] == pytest.approx(np.log(2) * 4.4 / 4.0)
    assert convert_table(frame.drop(columns="characters_per_token"), "nats/token", reference=3.8)["loss"][0] == np.log(2) * 3.8


def test_rows_of_a_table_from_memory_are_counted_from_1_whatever_its_index() -> None:
    table = pd.DataFrame({"loss": [1.0, 2.0, 3.0], "unit": ["nats", "bits", "nats"]})
    for index in ([0, 1, 2], list("abc"), [7, 7, 7]):
        with faults(("mixed-units", 2, "unit")):
            convert_table(table.set_axis(index), "bits/token")
    ratios = pd.DataFrame({"loss": [1.0, 2.0], "bytes_per_token": [4.0, -1.0]}, index=[0, 0])
    with faults(("not-positive", 2, "bytes_per_token")):
        convert_table(ratios, "bits/byte")
    sound = convert_table(ratios.assign(bytes_per_token=4.0), "bits/byte")
    assert sound.index.tolist() == [0, 0]
    for column in ("loss", "loss_se"):
        with fails("not-numbers", repr(column)):
            convert_table(pd.DataFrame({"loss": [1.0, 2.0]}).assign(**{column: ["1.0", "x"]}), "bits/token")
