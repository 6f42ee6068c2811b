"""Malformed and hostile tables, cards and fit files: a clear error, or exactly the right result.

Each case is one line that says what is wrong; most go through the command line. `test_spoilt` makes more by chance.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import card_folder, load_law
from bayeslaw.laws.prior import Prior
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, refused, snapshot

Content = str | bytes
TABLE = """\
N,D,loss,run,note
1e8,1e9,3.5,a,first
1e8,2e9,3.4,a,
1e9,2e9,3.0,b,x
1e9,4e9,2.9,b,"y, z"
"""
CARD = (card_folder() / "chinchilla.toml").read_text(encoding="utf-8")
FORMULA = "E + A/N**alpha + B/D**beta"
PRIOR = '{ dist = "LogNormal", mu = 0.3, sigma = 0.5 }'


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def table(old: str, new: str) -> str:
    return changed(TABLE, old, new)


def card(old: str, new: str) -> str:
    return changed(CARD, old, new)


# --- tables with a name ---------------------------------------------------------------------------------------------

ONE_RUN = "run 'a' has rows of 2 model sizes (N = 1e+08, 1e+09): give each run a name of its own"
NUL = "runs.csv can't be read as a .csv table: it holds NUL bytes: save it as UTF-8 text."
LONG_ROWS = "runs.csv can't be read as a .csv table: its rows have more cells than its header has names (commas inside numbers?)."
REFUSED_TABLES: dict[str, tuple[Content, str]] = {
    "thousands separators": (TABLE.replace("1e8", "100,000,000"), LONG_ROWS),
    "quoted thousands separators": (table("1e8", '"100,000,000"'), "N '100,000,000' is not a number"),
    "decimal commas": ("N,D,loss\n1e8,1e9,3,5\n1e8,2e9,3,4\n", LONG_ROWS),
    "semicolons": (TABLE.replace(",", ";"), "column loss is missing: chinchilla needs loss, N, D; there are N;D;loss;run;note."),
    "percent sign": (table("3.5", "350%"), "loss '350%' is not a number: remove the row or mend the cell (row 1, column loss)"),
    "unit in a cell": (table("1e8", "100M"), "N '100M' is not a number"),
    "typographic minus": (table("3.5", "−3.5"), "loss '−3.5' is not a number"),
    "hexadecimal": (table("3.5", "0x3"), "loss '0x3' is not a number"),
    "formula in a cell": (table("3.5", "=1+2.5"), "loss '=1+2.5' is not a number"),
    "true as a loss": (table("3.5", "True"), "loss 'True' is not a number"),
    "a loss too large for a float": (table("3.5", "1e400"), "loss inf is infinite: the run diverged"),
    "a loss too small for a float": (table("3.5", "1e-400"), "loss 0 is not positive"),
    "a cell of a million digits": (table("3.5", "9" * 1_000_000), "loss inf is infinite: the run diverged"),
    "a cell of a million letters": (table("3.5", "x" * 1_000_000), " … xxxxxxx' is not a number"),
    "an invisible space": (table("3.5", "3.5\u200b"), r"loss '3.5\u200b' is not a number"),
    "NUL in a number": (table("3.5", "3\0.5"), NUL),
    "UTF-16": (TABLE.encode("utf-16"), NUL),
    "UTF-16 without its mark": (TABLE.encode("utf-16-le"), NUL),
    "Latin-1": (table("first", "é").encode("latin-1"), "'utf-8' codec can't decode byte 0xe9"),
    "no header": (TABLE.partition("\n")[2], "column loss is missing: chinchilla needs loss, N, D; there are 1e8, 1e9, 3.5, a"),
    "the header twice": (TABLE + TABLE, "loss 'loss' is not a number: remove the row or mend the cell (row 5, column loss)"),
    "a column twice": (TABLE.replace("note", "N"), "columns 'N' and 'N.1' both mean N: keep one"),
    "a column under two names": (TABLE.replace("note", "params"), "columns 'N' and 'params' both mean N: keep one"),
    "loss and N swapped": (table("N,D,loss", "loss,D,N"), "loss 1e+08 is above 15 nats/token: is it a perplexity?"),
    "one run of two sizes": (TABLE.replace(",b,", ",a,"), ONE_RUN),
    "a quote that swallows rows": (table("3.5,a", '3.5,"a').replace("3.4,a", '3.4,a"'), "goes over several lines: rows may have"),
    "a quote that is never closed": (TABLE.replace('"', "").replace("3.5,a", '3.5,"a'), "EOF inside string starting at row 1"),
    "a row cut short": (TABLE.rpartition(",2.9")[0], "loss is missing or not a number: remove the row (row 4, column loss)"),
    "binary": (bytes(range(256)) * 40, NUL),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_TABLES)
def test_tables_that_are_refused(name: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, text = REFUSED_TABLES[name]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", content)
    before = snapshot(tmp_path)
    done = command("check", "runs.csv", "--law", "chinchilla")
    assert done.status == 2
    assert "Traceback" not in done.err
    assert text in done.out + done.err
    assert max(map(len, (done.out + done.err).splitlines())) < 400
    refused(command("fit", "chinchilla", "runs.csv", "-q", "-o", "fit.nc"))
    assert snapshot(tmp_path) == before


SAME_TABLES: dict[str, Content] = {
    "byte-order mark": b"\xef\xbb\xbf" + TABLE.encode(),
    "byte-order mark before a quote": b'\xef\xbb\xbf"N"' + TABLE[1:].encode(),
    "old Macintosh line ends": TABLE.replace("\n", "\r"),
    "line ends of all kinds": TABLE.replace("\n", "\r\n", 2).replace("x\n", "x\r"),
    "blank lines": TABLE.replace("\n", "\n\n"),
    "quoted numbers": TABLE.replace("3.5", '"3.5"'),
    "blanks around cells": TABLE.replace(",", " , ").replace('"y , z"', '"y, z"'),
    "full-width digits": TABLE.replace("3.5", "３.５"),
    "signs and zeros": TABLE.replace("3.5", "+03.500"),
    "capital names": TABLE.replace("D,loss", "d,LOSS"),
}


@pytest.mark.parametrize("name", SAME_TABLES)
def test_tables_that_are_read_as_they_are_meant(name: str, tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", SAME_TABLES[name])
    runs = read_runs(tmp_path / "runs.csv")
    assert check(runs, load_law("chinchilla")) == []
    assert runs.frame[["N", "D", "loss", "run"]].to_numpy().tolist() == [
        [1e8, 1e9, 3.5, "a"], [1e8, 2e9, 3.4, "a"], [1e9, 2e9, 3.0, "b"], [1e9, 4e9, 2.9, "b"],
    ]  # fmt: skip


@pytest.mark.parametrize("nothing", ["NA", "nan", "null", "None", " ", '""'])
def test_what_stands_for_no_run_is_no_run(nothing: str, tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", TABLE.replace(",a,", f",{nothing},"))
    assert read_runs(tmp_path / "runs.csv").frame["run"].tolist() == [None, None, "b", "b"]


JSON_ROWS = {
    "a key twice": ('{"N": 1e8, "D": 1e9, "loss": 3.5, "loss": 35}', "an object gives 'loss' twice"),
    "true": ('{"N": 1e8, "D": 1e9, "loss": true}', "loss 'True' is not a number"),
    "a list": ('{"N": 1e8, "D": [1e9], "loss": 3.5}', "D '[1000000000.0]' is not a number"),
    "5,000 digits": (f'{{"N": 1{"0" * 5000}, "D": 1e9, "loss": 3.5}}', "can't be read as a .jsonl table: Exceeds the limit"),
    "nested too deeply": ('{"N":' * 100_000, "can't be read as a .jsonl table: "),
}


@pytest.mark.parametrize("name", JSON_ROWS)
def test_json_that_is_refused(name: str, tmp_path: Path) -> None:
    content, text = JSON_ROWS[name]
    write(tmp_path / "runs.jsonl", content)
    with pytest.raises(BayeslawError) as caught:
        read_runs(tmp_path / "runs.jsonl")
    assert text in str(caught.value)


# --- cards with a name ----------------------------------------------------------------------------------------------

TOO_LARGE, TOO_DEEP = "a number in it is too large.", "nested too deeply"
# PyMC, once imported, lets Python recurse to 10,000.
CHAIN = "".join(f'a{i} = "a{i + 1}"\n' for i in range(15_000)) + 'a15000 = "N"\n'
REFUSED_CARDS: dict[str, tuple[Content, str]] = {
    "import": (card(FORMULA, f"{FORMULA} + __import__('os').system('touch hacked')"), "can't be called in a formula"),
    "walrus": (card(FORMULA, f"{FORMULA} + (x := 1)"), "is not allowed in a formula"),
    "attributes": (card(FORMULA, f"{FORMULA} + E.__class__.__mro__"), "is not allowed in a formula"),
    "a tower of powers": (card(FORMULA, f"{FORMULA} + 9**9**9**9**9"), "chinchilla has no finite value at N = 1e+08"),
    "no value anywhere": (card(FORMULA, f"{FORMULA} + log(-1)"), "chinchilla has no finite value at N = 1e+08"),
    "a formula of a megabyte": (card(FORMULA, FORMULA + " + 0*E" * 200_000), "longer than the 2000 allowed"),
    "a Cyrillic A": (card("A/N", "А/N"), "unknown name 'А' in 'loss'; known are N, D, E, A, alpha, B, beta."),
    "a long chain of [let]": (card("[covariates]", f"[let]\n{CHAIN}[covariates]").replace("A/N", "A/a0"), TOO_DEEP),
    "a circle of [let]": (card("[covariates]", '[let]\nx = "y"\ny = "x"\n[covariates]').replace("E +", "x + E +"), "x -> y -> x"),
    "deep TOML": (f"x = {'[' * 100_000}", TOO_DEEP),
    "deep tables": (f"x = {"{a=" * 15_000}1{"}" * 15_000}\n{CARD}", TOO_DEEP),
    "5,000 digits": (card("mu = 0.3", f"mu = 1{'0' * 5000}"), TOO_LARGE),
    "5,000 hexadecimal digits": (card("mu = 0.3", f"mu = 0x1{'0' * 5000}"), TOO_LARGE),
    "no covariates": ('name = "x"\n[parameters.E]\n', "a law needs at least one of [covariates], such as N."),
    "no parameters": ('name = "x"\n[covariates]\nN = {unit = "", support = [1, 2]}\n', "at least one of [parameters], such as E."),
    "an infinite support": (card("[1e4, 1e13]", "[1e4, inf]"), "the support of N must be [smallest, largest], not [10000.0, inf]."),
    "nan in a prior": (card("mu = 0.3", "mu = nan"), "line 16: the prior of E: mu = nan of LogNormal is not a finite number."),
    "a negative sigma": (card("sigma = 0.5", "sigma = -0.5"), "the prior of E: sigma = -0.5 of LogNormal is not a positive"),
    "a text as a number": (card("mu = 0.3", 'mu = "0.3"'), "line 16: the prior of E: mu = '0.3' of LogNormal is not a finite"),
    "true as a number": (card("mu = 0.3", "mu = true"), "line 16: the prior of E: mu = True of LogNormal is not a finite number."),
    "a median of exp(800)": (card("mu = 0.3", "mu = 800"), "LogNormal(800, 0.5) leaves the range of numbers"),
    "a sigma of 1e300": (card("sigma = 0.5", "sigma = 1e300"), "sigma = 1e+300 of LogNormal is outside 1e-100 to 1e+100."),
    "a degenerate shape": (card(PRIOR, '{ dist = "Beta", alpha = 1e-300, beta = 1 }'), "alpha = 1e-300 of Beta is outside 0.05 to"),
    "a list as unit": (card('unit    = "nats/token"', "unit = [1, 2]"), "line 14: `unit` must be a text, not [1, 2]."),
    "a number as note": (card('"For training from scratch."', "3"), "line 6: `note` must be a text, not 3."),
    "an infinite huber_delta": (card("1e-3", "inf"), "line 5: `huber_delta` must be a positive number, not inf."),
    "commands to the terminal": (card('"chinchilla"', r'"\u001b[2Jx"'), "line 1: `name` holds characters that can't be shown"),
    "a parameter of a used name": (CARD.replace("alpha", "A_level"), "'A_level' is what the value of A's `on` is called"),
    "a list of tables": (card("[parameters.E]", "[[parameters.E]]"), "parameter E must be a table with meaning and prior."),
    "binary": (bytes(range(256)), "can't be read: 'utf-8' codec can't decode"),
    "empty": ("", "a law needs at least one of [covariates], such as N."),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_CARDS)
def test_cards_that_are_refused(name: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, text = REFUSED_CARDS[name]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", TABLE)
    write(tmp_path / "card.toml", content)
    before = snapshot(tmp_path)
    done = command("fit", "card.toml", "runs.csv", "-q", "-o", "fit.nc")
    refused(done, text)
    assert max(map(len, done.err.splitlines())) < 400
    assert snapshot(tmp_path) == before


SAME_CARDS: dict[str, Content] = {
    "byte-order mark": b"\xef\xbb\xbf" + CARD.encode(),
    "line ends": CARD.replace("\n", "\r\n"),
    "full-width letters": card("E + A/N", "Ｅ + Ａ/Ｎ"),  # one letter to Python's parser, as to NFKC
    "a comment in the formula": card(FORMULA, f"{FORMULA} # ))"),
    "brackets": card(FORMULA, f"(({FORMULA}))"),
}


@pytest.mark.parametrize("name", SAME_CARDS)
def test_cards_that_are_read_as_they_are_meant(name: str, tmp_path: Path) -> None:
    write(tmp_path / "card.toml", SAME_CARDS[name])
    law, wanted = load_law(tmp_path / "card.toml"), load_law("chinchilla")
    draws = {"E": [1.8], "A": [480.0], "alpha": [0.35], "B": [2000.0], "beta": [0.37]}
    settings = {"N": [1e7, 1e10], "D": [1e9, 1e12]}
    np.testing.assert_array_equal(law.predict(draws, settings), wanted.predict(draws, settings))
    assert {n: str(p.prior) for n, p in law.parameters.items()} == {n: str(p.prior) for n, p in wanted.parameters.items()}


PRIORS = {
    "E=LogNormal(800,1)": "leaves the range of numbers",
    "E=Normal(1e308,1e308)": "mu = 1e+308 of Normal is outside ±1e+100.",
    "E=Normal(1,1,mu=2)": "'Normal(1,1,mu=2)' gives mu twice.",
    "E=Normal(True,1)": "'Normal(True,1)' is not a prior",
    "E=Normal('1',1)": "is not a prior",
    "E=" + "LogNormal(" * 3000: " … Normal(' is not a prior",
}


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p[:20])
def test_priors_that_are_refused(prior: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", TABLE)
    before = snapshot(tmp_path)
    refused(command("fit", "chinchilla", "runs.csv", "-q", "-o", "fit.nc", "--prior", prior), PRIORS[prior])
    assert snapshot(tmp_path) == before


# --- fit files with a name ------------------------------------------------------------------------------------------


def attribute(**values: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            file.attrs.update(values)

    return spoil


def recorded(name: str, **values: Any) -> Callable[[Path], None]:
    """Change entries of an attribute that is kept as JSON."""

    def spoil(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            file.attrs[name] = json.dumps(json.loads(file.attrs[name]) | values)

    return spoil


def all_passed(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        checks = json.loads(file.attrs["checks"])
        file.attrs["checks"] = json.dumps([one | {"passed": True} for one in checks])


def without(place: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            del file[place]

    return spoil


def first_value(place: str, value: float) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            values = file[place][...]
            values.flat[0] = value
            file[place][...] = values

    return spoil


def bomb(path: Path) -> None:
    """A few kilobytes that would be 80 GB in memory."""
    with h5py.File(path, "r+") as file:
        file.create_dataset("posterior/bomb", shape=(10_000_000_000,), dtype="f8", chunks=(1_000_000,), compression="gzip")


def bytes_of(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return spoil


def one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[30_000] ^= 8
    path.write_bytes(content)


DAMAGED, CHANGED = "fit.nc can't be read as a fit: it is damaged or no NetCDF file", "changed since it was written"
CONTENTS = f"fit.nc can't be used: its settings, checks or statistics {CHANGED}."
REFUSED_FITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (bytes_of(lambda _: b""), DAMAGED),
    "text": (bytes_of(lambda _: TABLE.encode()), DAMAGED),
    "half of it": (bytes_of(lambda content: content[: len(content) // 2]), DAMAGED),
    "a flipped bit": (one_bit, f"{DAMAGED} (its bytes are not those written)."),
    "another NetCDF": (lambda path: save(xr.Dataset({"x": [1.0]}), path), "fit.nc is not a bayeslaw fit of format 2 (found none)"),
    "another format": (attribute(bayeslaw_format="7"), "fit.nc is not a bayeslaw fit of format 2 (found 7)"),
    "another formula": (attribute(card=card("A/N**alpha", "A/N**(2*alpha)")), f"its law {CHANGED}"),
    "a card that runs code": (attribute(card=card("E + A", "open('hacked', 'w') + A")), "'open' can't be called in a formula"),
    "a card of 5 MB": (attribute(card="x" * 5_000_000), "the card in fit.nc is not a TOML file"),
    "another prior": (recorded("priors", E=Prior.parse("Normal(1, 1)").table), f"its law {CHANGED}"),
    "another noise": (recorded("noise", run_effect=False), CONTENTS),
    "another reference point": (recorded("at", N=1e9), CONTENTS),
    "checks made to pass": (all_passed, CONTENTS),
    "divergences hidden": (first_value("sample_stats/energy", 0.0), CONTENTS),
    "another seed": (attribute(seed="7"), CONTENTS),
    "another table's name": (attribute(data="other.csv"), CONTENTS),
    "a draw that is no number": (first_value("posterior/E", math.nan), f"its draws {CHANGED}"),
    "another loss": (first_value("observed_data/log_loss", 0.5), f"its data {CHANGED}"),
    "another run": (first_value("constant_data/run_code", 1), f"its data {CHANGED}"),
    "no draws": (without("posterior"), "fit.nc is damaged: KeyError"),
    "no statistics": (without("sample_stats"), CONTENTS),
    "no losses": (without("observed_data/log_loss"), "fit.nc "),
    "a bomb": (bomb, "fit.nc is no fit: its arrays would take 80 GB, many times the file's own size."),
    "no attribute": (lambda path: drop(path, "noise"), "fit.nc "),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_FITS)
def test_fits_that_are_refused(
    name: str, command: Command, small_fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, text = REFUSED_FITS[name]
    monkeypatch.chdir(tmp_path)
    small_fit.save(tmp_path / "fit.nc")
    spoil(tmp_path / "fit.nc")
    write(tmp_path / "older.csv", "an older forecast")
    before = snapshot(tmp_path)
    refused(command("show", "fit.nc"), text)
    refused(command("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e10", "-o", "older.csv", "--force"), text)
    assert snapshot(tmp_path) == before


def test_a_forecast_does_not_replace_its_settings(command: Command, folder: Path) -> None:
    shutil.copy("runs.csv", "at.csv")
    before = snapshot(folder)
    refused(
        command("forecast", "fit.nc", "--at", "at.csv", "-o", "./at.csv"),
        "at.csv is an input of this command",
    )
    assert snapshot(folder) == before


def drop(path: Path, name: str) -> None:
    with h5py.File(path, "r+") as file:
        del file.attrs[name]


def save(dataset: xr.Dataset, path: Path) -> None:
    path.unlink()
    dataset.to_netcdf(path, engine="h5netcdf")


def write(path: Path, content: Content) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
