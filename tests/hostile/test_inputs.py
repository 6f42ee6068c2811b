"""Malformed and hostile tables, cards and fit files: a clear error, or exactly the right result.

Each case is one line that names the damage; most go through the command line.
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

from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import card_folder, load_law
from bayeslaw.laws.prior import Prior
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, refused, rejected, unchanged

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

REFUSED_TABLES: dict[str, tuple[Content, str]] = {
    "thousands separators": (TABLE.replace("1e8", "100,000,000"), "unreadable-table"),
    "quoted thousands separators": (table("1e8", '"100,000,000"'), "not-a-number"),
    "decimal commas": ("N,D,loss\n1e8,1e9,3,5\n1e8,2e9,3,4\n", "unreadable-table"),
    "semicolons": (TABLE.replace(",", ";"), "unreadable-table"),
    "percent sign": (table("3.5", "350%"), "not-a-number"),
    "unknown unit in a cell": (table("1e8", "100Q"), "not-a-number"),
    "typographic minus": (table("3.5", "−3.5"), "not-a-number"),
    "hexadecimal": (table("3.5", "0x3"), "not-a-number"),
    "formula in a cell": (table("3.5", "=1+2.5"), "not-a-number"),
    "true as a loss": (table("3.5", "True"), "not-a-number"),
    "a loss too large for a float": (table("3.5", "1e400"), "infinite-loss"),
    "a loss too small for a float": (table("3.5", "1e-400"), "loss-not-positive"),
    "a cell of a million digits": (table("3.5", "9" * 1_000_000), "infinite-loss"),
    "a cell of a million letters": (table("3.5", "x" * 1_000_000), "not-a-number"),
    "an invisible space": (table("3.5", "3.5\u200b"), "not-a-number"),
    "NUL in a number": (table("3.5", "3\0.5"), "unreadable-table"),
    "UTF-16": (TABLE.encode("utf-16"), "unreadable-table"),
    "UTF-16 without its mark": (TABLE.encode("utf-16-le"), "unreadable-table"),
    "Latin-1": (table("first", "é").encode("latin-1"), "unreadable-table"),
    "no header": (TABLE.partition("\n")[2], "missing-column"),
    "the header twice": (TABLE + TABLE, "not-a-number"),
    "a column twice": (TABLE.replace("note", "N"), "two-columns-of-one-meaning"),
    "a column under two names": (TABLE.replace("note", "params"), "two-columns-of-one-meaning"),
    "loss and N swapped": (table("N,D,loss", "loss,D,N"), "loss-too-large"),
    "one run of two sizes": (TABLE.replace(",b,", ",a,"), "run-of-several-sizes"),
    "a quote that swallows rows": (table("3.5,a", '3.5,"a').replace("3.4,a", '3.4,a"'), "name-over-several-lines"),
    "a quote that is never closed": (TABLE.replace('"', "").replace("3.5,a", '3.5,"a'), "unreadable-table"),
    "a row cut short": (TABLE.rpartition(",2.9")[0], "missing-loss"),
    "binary": (bytes(range(256)) * 40, "unreadable-table"),
}


@pytest.mark.parametrize("name", REFUSED_TABLES)
def test_a_malformed_table_is_refused(name: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, code = REFUSED_TABLES[name]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", content)
    with unchanged(tmp_path):
        done = command("check", "runs.csv", "--law", "chinchilla")
        assert done.status == 2
        assert "Traceback" not in done.err
        assert max(map(len, (done.out + done.err).splitlines())) < 400
        rejected(command("fit", "chinchilla", "runs.csv", "-q", "-o", "fit.nc"), code)


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
def test_an_unusual_table_is_read_correctly(name: str, tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", SAME_TABLES[name])
    runs = read_runs(tmp_path / "runs.csv")
    assert check(runs, load_law("chinchilla")) == []
    assert runs.frame[["N", "D", "loss", "run"]].to_numpy().tolist() == [
        [1e8, 1e9, 3.5, "a"], [1e8, 2e9, 3.4, "a"], [1e9, 2e9, 3.0, "b"], [1e9, 4e9, 2.9, "b"],
    ]  # fmt: skip


@pytest.mark.parametrize("cell", ["NA", "nan", "null", "None", " ", '""'])
def test_a_cell_that_stands_for_no_run_is_empty(cell: str, tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", TABLE.replace(",a,", f",{cell},"))
    assert read_runs(tmp_path / "runs.csv").frame["run"].tolist() == [None, None, "b", "b"]


# --- cards with a name ----------------------------------------------------------------------------------------------

# PyMC, once imported, lets Python recurse to 10,000.
CHAIN = "".join(f'a{i} = "a{i + 1}"\n' for i in range(15_000)) + 'a15000 = "N"\n'
REFUSED_CARDS: dict[str, tuple[Content, str]] = {
    "import": (card(FORMULA, f"{FORMULA} + __import__('os').system('touch hacked')"), "unknown-function"),
    "walrus": (card(FORMULA, f"{FORMULA} + (x := 1)"), "not-allowed"),
    "attributes": (card(FORMULA, f"{FORMULA} + E.__class__.__mro__"), "not-allowed"),
    "a tower of powers": (card(FORMULA, f"{FORMULA} + 9**9**9**9**9"), "no-finite-value"),
    "no value anywhere": (card(FORMULA, f"{FORMULA} + log(-1)"), "no-finite-value"),
    "a formula of a megabyte": (card(FORMULA, FORMULA + " + 0*E" * 200_000), "too-long"),
    "a Cyrillic A": (card("A/N", "А/N"), "unknown-name"),
    "a long chain of [let]": (card("[covariates]", f"[let]\n{CHAIN}[covariates]").replace("A/N", "A/a0"), "nested-too-deeply"),
    "a circle of [let]": (card("[covariates]", '[let]\nx = "y"\ny = "x"\n[covariates]').replace("E +", "x + E +"), "cycle"),
    "deep TOML": (f"x = {'[' * 100_000}", "nested-too-deeply"),
    "deep tables": (f"x = {"{a=" * 15_000}1{"}" * 15_000}\n{CARD}", "nested-too-deeply"),
    "5,000 digits": (card("mu = 0.3", f"mu = 1{'0' * 5000}"), "huge-number"),
    "5,000 hexadecimal digits": (card("mu = 0.3", f"mu = 0x1{'0' * 5000}"), "huge-number"),
    "no covariates": ('name = "x"\n[parameters.E]\n', "empty-section"),
    "no parameters": ('name = "x"\n[covariates]\nN = {unit = "", support = [1, 2]}\n', "empty-section"),
    "an infinite support": (card("[1e4, 1e13]", "[1e4, inf]"), "invalid-support"),
    "nan in a prior": (card("mu = 0.3", "mu = nan"), "invalid-prior-number"),
    "a negative sigma": (card("sigma = 0.5", "sigma = -0.5"), "invalid-prior-number"),
    "a text as a number": (card("mu = 0.3", 'mu = "0.3"'), "invalid-prior-number"),
    "true as a number": (card("mu = 0.3", "mu = true"), "invalid-prior-number"),
    "a median of exp(800)": (card("mu = 0.3", "mu = 800"), "prior-out-of-range"),
    "a sigma of 1e300": (card("sigma = 0.5", "sigma = 1e300"), "prior-out-of-range"),
    "a degenerate shape": (card(PRIOR, '{ dist = "Beta", alpha = 1e-300, beta = 1 }'), "prior-out-of-range"),
    "a list as unit": (card('unit    = "nats/token"', "unit = [1, 2]"), "not-a-text"),
    "a number as note": (card('"For training from scratch."', "3"), "not-a-text"),
    "an infinite huber_delta": (card("1e-3", "inf"), "not-positive"),
    "commands to the terminal": (card('"chinchilla"', r'"\u001b[2Jx"'), "control-characters"),
    "a parameter of a used name": (CARD.replace("alpha", "A_level"), "name-used-twice"),
    "a list of tables": (card("[parameters.E]", "[[parameters.E]]"), "not-a-table"),
    "binary": (bytes(range(256)), "unreadable-card"),
    "empty": ("", "empty-section"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_CARDS)
def test_a_hostile_card_is_refused(name: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, code = REFUSED_CARDS[name]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", TABLE)
    write(tmp_path / "card.toml", content)
    with unchanged(tmp_path):
        done = command("fit", "card.toml", "runs.csv", "-q", "-o", "fit.nc")
        rejected(done, code)
        assert max(map(len, done.err.splitlines())) < 400


SAME_CARDS: dict[str, Content] = {
    "byte-order mark": b"\xef\xbb\xbf" + CARD.encode(),
    "line ends": CARD.replace("\n", "\r\n"),
    "full-width letters": card("E + A/N", "Ｅ + Ａ/Ｎ"),  # one letter to Python's parser, as to NFKC
    "a comment in the formula": card(FORMULA, f"{FORMULA} # ))"),
    "brackets": card(FORMULA, f"(({FORMULA}))"),
}


@pytest.mark.parametrize("name", SAME_CARDS)
def test_an_unusual_card_is_read_correctly(name: str, tmp_path: Path) -> None:
    write(tmp_path / "card.toml", SAME_CARDS[name])
    law, wanted = load_law(tmp_path / "card.toml"), load_law("chinchilla")
    draws = {"E": [1.8], "A": [480.0], "alpha": [0.35], "B": [2000.0], "beta": [0.37]}
    settings = {"N": [1e7, 1e10], "D": [1e9, 1e12]}
    np.testing.assert_array_equal(law.predict(draws, settings), wanted.predict(draws, settings))
    assert {n: str(p.prior) for n, p in law.parameters.items()} == {n: str(p.prior) for n, p in wanted.parameters.items()}


PRIORS = [
    "E=LogNormal(800,1)", "E=Normal(1e308,1e308)", "E=Normal(1,1,mu=2)", "E=Normal(True,1)", "E=Normal('1',1)",
    "E=" + "LogNormal(" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p[:20])
def test_a_hostile_prior_is_refused(prior: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", TABLE)
    with unchanged(tmp_path):
        done = command("fit", "chinchilla", "runs.csv", "-q", "-o", "fit.nc", "--prior", prior)
        refused(done)
        assert max(map(len, done.err.splitlines())) < 400


# --- fit files with a name ------------------------------------------------------------------------------------------


def attribute(**values: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            file.attrs.update(values)

    return change


def recorded(name: str, **values: Any) -> Callable[[Path], None]:
    """Change entries of an attribute that is kept as JSON."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            file.attrs[name] = json.dumps(json.loads(file.attrs[name]) | values)

    return change


def all_passed(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        checks = json.loads(file.attrs["checks"])
        file.attrs["checks"] = json.dumps([check | {"passed": True} for check in checks])


def without(place: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            del file[place]

    return change


def first_value(place: str, value: float) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            values = file[place][...]
            values.flat[0] = value
            file[place][...] = values

    return change


def bomb(path: Path) -> None:
    """A few kilobytes that would be 80 GB in memory."""
    with h5py.File(path, "r+") as file:
        file.create_dataset("posterior/bomb", shape=(10_000_000_000,), dtype="f8", chunks=(1_000_000,), compression="gzip")


def bytes_of(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(content(path.read_bytes()))

    return change


def one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[30_000] ^= 8
    path.write_bytes(content)


REFUSED_FITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (bytes_of(lambda _: b""), "unreadable-file"),
    "text": (bytes_of(lambda _: TABLE.encode()), "unreadable-file"),
    "half of it": (bytes_of(lambda content: content[: len(content) // 2]), "unreadable-file"),
    "a flipped bit": (one_bit, "unreadable-file"),
    "another NetCDF": (lambda path: save(xr.Dataset({"x": [1.0]}), path), "other-format"),
    "another format": (attribute(bayeslaw_format="7"), "other-format"),
    "another formula": (attribute(card=card("A/N**alpha", "A/N**(2*alpha)")), "changed-law"),
    "a card that runs code": (attribute(card=card("E + A", "open('hacked', 'w') + A")), "unknown-function"),
    "a card of 1 MB": (attribute(card="x" * 1_000_000), "not-toml"),
    "another prior": (recorded("priors", E=Prior.parse("Normal(1, 1)").table), "changed-law"),
    "another reference point": (recorded("at", N=1e9), "changed-settings"),
    "checks set to passed": (all_passed, "changed-settings"),
    "divergences hidden": (first_value("sample_stats/energy", 0.0), "changed-settings"),
    "another table's name": (attribute(data="other.csv"), "changed-settings"),
    "a draw that is no number": (first_value("posterior/E", math.nan), "changed-draws"),
    "another loss": (first_value("observed_data/log_loss", 0.5), "changed-data"),
    "another run": (first_value("constant_data/run_code", 1), "changed-data"),
    "no draws": (without("posterior"), "damaged-file"),
    "no statistics": (without("sample_stats"), "changed-settings"),
    "no losses": (without("observed_data/log_loss"), "damaged-file"),
    "a bomb": (bomb, "oversized-arrays"),
    "no attribute": (lambda path: drop(path, "noise"), "changed-settings"),
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(small_fit: Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a sound fit."""
    path = tmp_path_factory.mktemp("saved") / "fit.nc"
    small_fit.save(path)
    return path


@pytest.mark.parametrize("name", REFUSED_FITS)
def test_a_changed_or_damaged_fit_is_refused(
    name: str, command: Command, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, code = REFUSED_FITS[name]
    monkeypatch.chdir(tmp_path)
    shutil.copy(saved, "fit.nc")
    damage(tmp_path / "fit.nc")
    write(tmp_path / "older.csv", "an older forecast")
    with unchanged(tmp_path):
        rejected(command("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e10", "-o", "older.csv", "--force"), code)


def test_a_forecast_does_not_replace_its_settings(command: Command, folder: Path) -> None:
    shutil.copy("runs.csv", "at.csv")
    with unchanged(folder):
        refused(command("forecast", "fit.nc", "--at", "at.csv", "-o", "./at.csv"), "at.csv")


def drop(path: Path, name: str) -> None:
    with h5py.File(path, "r+") as file:
        del file.attrs[name]


def save(dataset: xr.Dataset, path: Path) -> None:
    path.unlink()
    dataset.to_netcdf(path, engine="h5netcdf")


def write(path: Path, content: Content) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
