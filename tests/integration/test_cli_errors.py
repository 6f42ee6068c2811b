"""Bad input on the command line: exit status 2, words that name the fault, nothing written and older files left whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands import Command, refused, snapshot

TABLES: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "missing-column": ("chinchilla", lambda t: t.drop(columns="D"), "column D is missing: chinchilla needs loss, N, D; there are "),
    "loss-0": ("chinchilla", lambda t: t.assign(loss=0), "loss 0 is not positive: losses are in nats/token (row 1, column loss)"),
    "loss-negative": ("chinchilla", lambda t: t.assign(loss=-t["loss"]), "is not positive: losses are in nats/token"),
    "loss-nan": ("chinchilla", lambda t: t.assign(loss=t["loss"].where(t.index != 2)), "not a number: remove the row (row 3, "),
    "loss-infinite": ("chinchilla", lambda t: t.assign(loss=np.inf), "loss inf is infinite: the run diverged"),
    "perplexity": ("chinchilla", lambda t: t.assign(loss=np.exp(t["loss"] + 1)), "above 15 nats/token: is it a perplexity?"),
    "N-in-billions": ("chinchilla", lambda t: t.assign(N=t["N"] / 1e9), "N 0.01 is outside [10000, 1e+13]: is it in billions?"),
    "D-in-billions": ("chinchilla", lambda t: t.assign(D=t["D"] / 1e9), "D 0.1 is outside [100, 1e+15]: is it in billions?"),
    "r-in-percent": ("ptpp-floor", lambda t: t.assign(r=100 * t["r"]), "r 10 is outside [0, 1]: is it a percentage? Divide by 100"),
    "one-stage": ("ptpp-floor", lambda t: t.assign(ptpp=15), "ptpp has 1 value(s) (15) and ptpp-floor needs at least 2 different"),
    "text-in-loss": ("chinchilla", lambda t: t.assign(loss=["2.5 nats"] * len(t)), "loss '2.5 nats' is not a number"),
    "two-of-one": ("chinchilla", lambda t: t.assign(val_loss=t["loss"]), "columns 'loss' and 'val_loss' both mean loss: keep one"),
    "no-rows": ("chinchilla", lambda t: t.head(0), "faulty.csv has no rows."),
    "only-base": ("chinchilla", lambda t: t.assign(D=0), "every row is a base checkpoint (D = 0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_faulty_tables(command: Command, folder: Path, name: str) -> None:
    law, spoil, text = TABLES[name]
    spoil(pd.read_csv("runs.csv" if law == "chinchilla" else "ptpp.csv")).to_csv("faulty.csv", index=False)
    before = snapshot(folder)
    done = command("fit", law, "faulty.csv", "-o", "older.nc", "-q")
    refused(done, text)
    assert done.out == ""
    checked = command("check", "faulty.csv", "--law", law)
    refused(checked)
    assert text in checked.out + checked.err
    assert snapshot(folder) == before


HACK = "open('hacked', 'w')"
CARDS = {
    "unknown-name": ("D**beta", "D**bta", "card.toml, line 4: unknown name 'bta' in 'loss'", "Did you mean 'beta'?"),
    "circle": ('[covariates]', '[let]\none = "two"\ntwo = "one"\n[covariates]', "[let] goes in a circle: one -> two -> one."),
    "no-prior": ('prior   = { dist = "LogNormal", mu = 0.3, sigma = 0.5 }', "", "parameter E has no prior; give one such as"),
    "bad-prior": ('dist = "LogNormal", mu = 0.3', 'dist = "LogNorml", mu = 0.3', "the prior of E: ", "LogNormal"),
    "import": ("E + A", "__import__('os').system('touch hacked') + A", "can't be called in a formula; the functions are exp"),
    "open": ("E + A", f"{HACK} + A", "'open' can't be called in a formula"),
    "attribute": ("E + A", "E.real + A", "'E.real' is not allowed in a formula"),
    "subscript": ("E + A", "E[0] + A", "'E[0]' is not allowed in a formula"),
    "lambda": ("E + A", f"(lambda: {HACK})() + A", "can't be called in a formula"),
    "comprehension": ("E + A", f"[{HACK} for _ in E][0] + A", "is not allowed in a formula"),
    "call-off-the-list": ("E + A", "sin(E) + A", "'sin' can't be called in a formula; the functions are exp"),
    "no-formula": ('"E + A/N**alpha + B/D**beta"', '"E +"', "'E +' is not a formula: invalid syntax"),
    "no-toml": ("[covariates]", "[covariates", "card.toml is not a TOML file"),
}  # fmt: skip


@pytest.mark.parametrize("name", CARDS)
def test_faulty_cards(command: Command, folder: Path, name: str) -> None:
    old, new, *texts = CARDS[name]
    card = Path("card.toml").read_text(encoding="utf-8")
    assert old in card
    circle = card.replace('"E + A', '"E + 0*one + A') if name == "circle" else card
    Path("card.toml").write_text(circle.replace(old, new, 1), encoding="utf-8")
    before = snapshot(folder)
    for done in (
        command("laws", "card.toml"),
        command("check", "runs.csv", "--law", "card.toml"),
        command("fit", "card.toml", "runs.csv", "-o", "older.nc", "-q"),
    ):
        refused(done, *texts)
        assert done.out == ""
    assert snapshot(folder) == before


FIT = "fit chinchilla runs.csv -q -o "
AT = " --set N=1e9 --set D=1e10"
REQUESTS = {
    # files
    "no-table": ("fit chinchilla nowhere.csv -o older.nc", "There is no file nowhere.csv."),
    "no-ending": ("fit chinchilla card.toml -o older.nc", "card.toml: a table of runs ends in .csv, .tsv, .parquet"),
    "no-law": ("fit chincila runs.csv -o older.nc", "No law 'chincila'. Known are annealing, ", "Did you mean 'chinchilla'?"),
    "no-card": ("laws nowhere.toml", "The card nowhere.toml can't be read"),
    "no-law-to-show": ("laws ptpp", "No law 'ptpp'. Known are annealing, "),
    "no-fit": (f"forecast nowhere.nc{AT} -o older.csv", "There is no file nowhere.nc."),
    "damaged-fit": (f"forecast damaged.nc{AT} -o older.csv", "damaged.nc can't be read as a fit"),
    "text-as-fit": ("show text.nc", "text.nc can't be read as a fit"),
    "foreign-fit": ("score foreign.nc runs.csv", "foreign.nc is not a bayeslaw fit of format 2"),
    "table-as-fit": ("show runs.csv", "runs.csv can't be read as a fit"),
    "fit-not-nc": (FIT + "older.csv", "A fit is written to a file ending in .nc, not older.csv."),
    "fit-nowhere": (FIT + "nowhere/new.nc", "There is no folder nowhere to write new.nc into."),
    "forecast-not-csv": (f"forecast fit.nc{AT} -o fit.nc", "A forecast is written to a file ending in .csv, not fit.nc."),
    "forecast-nowhere": (f"forecast fit.nc{AT} -o nowhere/new.csv", "There is no folder nowhere to write new.csv into."),
    "picture-of-no-kind": (f"forecast fit.nc{AT} -o older.csv --plot new.gif", "ending in .png or .pdf or .svg, not new.gif."),
    "picture-nowhere": (f"forecast fit.nc{AT} -o older.csv --plot nowhere/a.png", "There is no folder nowhere to write a.png"),
    # options of a fit
    "noise": (FIT + "older.nc --noise gauss", "No noise 'gauss'; choose one of auto, normal, normal-drift, normal-checkpoint, "),
    "prior-without-value": (FIT + "older.nc --prior E", "--prior 'E' is not of the form NAME=LogNormal(0.5,0.2)."),
    "prior-of-nothing": (FIT + "older.nc --prior Z=Normal(0,1)", "Z is not a parameter of chinchilla. Parameters are E, A, "),
    "prior-unknown": (FIT + "older.nc --prior E=Foo(1)", "Foo"),
    "prior-as-code": (FIT + "older.nc --prior E=__import__('os')", "__import__"),
    "prior-twice": (FIT + "older.nc --prior E=Normal(1,1) --prior E=Normal(2,1)", "--prior gives E twice: "),
    "where-no-column": (FIT + "older.nc --where domain=='x'", "No column 'domain'", "there are N, D, run, loss"),
    "where-no-rows": (FIT + "older.nc --where N>1e15", "No row meets 'N>1e15'; the table has 40 rows."),
    "where-no-condition": (FIT + "older.nc --where N+1", "'N + 1' in 'N+1' is not a comparison"),
    "where-as-code": (FIT + "older.nc --where open('hacked','w')>0", "is not allowed in"),
    "draws": (FIT + "older.nc --draws 5", "draws must be a whole number of at least 10, not 5."),
    "tune": (FIT + "older.nc --tune 5", "tune must be a whole number of at least 50, not 5."),
    "chains": (FIT + "older.nc --chains 0", "chains must be a whole number of at least 1, not 0."),
    "seed": (FIT + "older.nc --seed -1", "seed must be a whole number of at least 0, not -1."),
    # options of show, forecast and score
    "ci-of-show": ("show fit.nc --ci 90", "The probability of an interval lies between 0 and 1, 90 does not: write 0.9 for 90%."),
    "ci-of-latex": ("show fit.nc --latex --ci 1", "The probability of an interval lies between 0 and 1, 1 does not."),
    "ci": (f"forecast fit.nc{AT} --ci 90 -o older.csv", "lies between 0 and 1, 90 does not: write 0.9 for 90%."),
    "ci-0": (f"forecast fit.nc{AT} --ci 0", "lies between 0 and 1, 0 does not."),
    "ci-nan": (f"forecast fit.nc{AT} --ci nan", "lies between 0 and 1, nan does not."),
    "forecast-seed": (f"forecast fit.nc{AT} --seed -1", "seed must be a whole number of at least 0, not -1."),
    "no-settings": ("forecast fit.nc -o older.csv", "either by --at GRID.csv or by --set NAME=VALUES"),
    "both-settings": (f"forecast fit.nc --at runs.csv{AT} -o older.csv", "either by --at GRID.csv or by --set NAME=VALUES"),
    "set-without-value": ("forecast fit.nc --set N=", "--set 'N=' is not of the form NAME=VALUES, such as N=8.1e9"),
    "set-without-name": ("forecast fit.nc --set =3", "--set '=3' is not of the form NAME=VALUES"),
    "set-unknown": (f"forecast fit.nc{AT} --set r=0.1", "chinchilla has no covariate 'r'; it has N, D."),
    "set-too-few": ("forecast fit.nc --set N=1e9", "chinchilla needs N, D; give D too."),
    "set-no-number": ("forecast fit.nc --set N=big --set D=1e9", "N='big' is not a number, a list such as"),
    "set-twice": (f"forecast fit.nc{AT} --set N=2e9", "--set gives N twice: '1e9' and '2e9'."),
    "set-outside": ("forecast fit.nc --set N=8.1 --set D=1e10 -o older.csv", "N 8.1 is outside [10000, 1e+13]: is it in billions?"),
    "set-D-0": ("forecast fit.nc --set N=1e9 --set D=0", "D = 0 is the base checkpoint, where chinchilla is infinite: ask"),
    "failed-checks": (f"forecast failed.nc{AT} -o older.csv", "The fit's checks failed (", "force it and have every row marked."),
    "at-lacks-column": ("forecast fit.nc --at at.csv -o older.csv", "column D is missing: chinchilla needs N, D; there are N."),
    "score-no-loss": ("score fit.nc at.csv", "column D is missing", "column loss is missing"),
    "score-failed": ("score failed.nc runs.csv", "The fit's checks failed ("),
    "score-where": ("score fit.nc runs.csv --where N>1e15", "No row meets 'N>1e15'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_that_cannot_be_met(command: Command, folder: Path, name: str) -> None:
    line, *texts = REQUESTS[name]
    pd.DataFrame({"N": [1e9]}).to_csv("at.csv", index=False)
    before = snapshot(folder)
    done = command(*line.split(" "))
    refused(done, *texts)
    assert done.out == ""
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        "fit chinchilla runs.csv -o older.nc --dras 5",
        "laws --all",
        "show",
        "fit chinchilla runs.csv",
        "show fit.nc --ci wide",
        "fti",
    ],
)
def test_unknown_options_and_missing_arguments(command: Command, folder: Path, line: str) -> None:
    before = snapshot(folder)
    done = command(*line.split())
    assert done.status == 2
    assert "Usage: bayeslaw" in done.err
    assert "Traceback" not in done.err
    assert snapshot(folder) == before


def test_an_output_that_is_a_folder(command: Command, folder: Path) -> None:
    Path("taken.nc").mkdir()
    refused(command("fit", "chinchilla", "runs.csv", "-q", "-o", "taken.nc"), "taken.nc is a folder, not a file to write a fit to.")


def test_no_command_shows_the_help(command: Command) -> None:
    done = command()
    assert "Usage: bayeslaw" in done.out + done.err
    assert all(name in done.out + done.err for name in ("laws", "check", "fit", "show", "forecast", "score", "demo"))


def test_errors_that_are_bugs_are_not_hidden(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only errors about the input are put in words; any other keeps its traceback."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("bayeslaw.load_fit", broken)
    with pytest.raises(ZeroDivisionError):
        command("show", "fit.nc")
