"""Bad input on the command line: exit status 2, an error that names the fault, nothing written and older files left whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from tests.commands import Command, rejected, unchanged
from tests.errors import fails

TABLES: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str, object]] = {
    "missing-column": ("chinchilla", lambda t: t.drop(columns="D"), "missing-column", "column D"),
    "loss-0": ("chinchilla", lambda t: t.assign(loss=0), "loss-not-positive", "row 1, column loss"),
    "loss-nan": ("chinchilla", lambda t: t.assign(loss=t["loss"].where(t.index != 2)), "missing-loss", "row 3, column loss"),
    "loss-infinite": ("chinchilla", lambda t: t.assign(loss=np.inf), "infinite-loss", "row 1"),
    "perplexity": ("chinchilla", lambda t: t.assign(loss=np.exp(t["loss"] + 1)), "loss-too-large", "perplexity"),
    "N-in-billions": ("chinchilla", lambda t: t.assign(N=t["N"] / 1e9), "out-of-support", "N 0.01"),
    "r-in-percent": ("ptpp-floor", lambda t: t.assign(r=100 * t["r"]), "out-of-support", "r 10"),
    "one-stage": ("ptpp-floor", lambda t: t.assign(ptpp=15), "too-few-values", "ptpp"),
    "text-in-loss": ("chinchilla", lambda t: t.assign(loss=["2.5 nats"] * len(t)), "not-a-number", "2.5 nats"),
    "two-of-one": ("chinchilla", lambda t: t.assign(val_loss=t["loss"]), "two-columns-of-one-meaning", "val_loss"),
    "no-rows": ("chinchilla", lambda t: t.head(0), "no-rows", "faulty.csv"),
    "only-base": ("chinchilla", lambda t: t.assign(D=0), "only-base-checkpoints", "D = 0"),
}


@pytest.mark.parametrize("name", TABLES)
def test_faulty_tables_are_not_fitted(command: Command, folder: Path, name: str) -> None:
    law, change, code, value = TABLES[name]
    change(pd.read_csv("runs.csv" if law == "chinchilla" else "ptpp.csv")).to_csv("faulty.csv", index=False)
    with unchanged(folder):
        done = command("fit", law, "faulty.csv", "-o", "older.nc", "-q")
        rejected(done, code, value)
        assert done.out == ""
        checked = command("check", "faulty.csv", "--law", law)
        assert checked.status == 2
        assert str(value) in checked.out + checked.err


CARDS = {
    "unknown-name": ("D**beta", "D**bta", "unknown-name", "line 5", "'bta'", "'beta'"),
    "no-prior": ('prior   = { dist = "LogNormal", mu = 0.3, sigma = 0.5 }', "", "missing-prior", "parameter E"),
    "bad-prior": ('dist = "LogNormal", mu = 0.3', 'dist = "LogNorml", mu = 0.3', "unknown-distribution", "'LogNorml'"),
    "code": ("E + A", "__import__('os').system('touch hacked') + A", "unknown-function", "__import__"),
    "attribute": ("E + A", "E.real + A", "not-allowed", "'E.real'"),
    "no-formula": ('"E + A/N**alpha + B/D**beta"', '"E +"', "not-a-formula", "'E +'"),
    "no-toml": ("[covariates]", "[covariates", "not-toml", "card.toml"),
}


@pytest.mark.parametrize("name", CARDS)
def test_faulty_cards_are_refused(command: Command, folder: Path, name: str) -> None:
    old, new, code, *values = CARDS[name]
    card = Path("card.toml").read_text(encoding="utf-8")
    assert old in card
    Path("card.toml").write_text(card.replace(old, new, 1), encoding="utf-8")
    with unchanged(folder):
        for words in (("laws", "card.toml"), ("fit", "card.toml", "runs.csv", "-o", "older.nc", "-q")):
            done = command(*words)
            rejected(done, code, *values)
            assert done.out == ""


FIT = "fit chinchilla runs.csv -q -o "
AT = " --set N=1e9 --set D=1e10"
REQUESTS: dict[str, tuple[str, ...]] = {
    # files
    "no-table": ("fit chinchilla nowhere.csv -o older.nc", "no-such-file", "nowhere.csv"),
    "no-ending": ("fit chinchilla card.toml -o older.nc", "unknown-ending", "card.toml", ".csv"),
    "no-law": ("fit chincila runs.csv -o older.nc", "unknown-law", "'chincila'", "'chinchilla'"),
    "no-card": ("laws nowhere.toml", "unreadable-card", "nowhere.toml"),
    "no-fit": (f"forecast nowhere.nc{AT} -o older.csv", "missing-file", "nowhere.nc"),
    "damaged-fit": (f"forecast damaged.nc{AT} -o older.csv", "unreadable-file", "damaged.nc"),
    "foreign-fit": ("score foreign.nc runs.csv", "other-format", "foreign.nc"),
    "fit-not-nc": (FIT + "older.csv", "wrong-ending", ".nc", "older.csv"),
    "fit-nowhere": (FIT + "nowhere/new.nc", "no-folder", "nowhere"),
    "forecast-not-csv": (f"forecast fit.nc{AT} -o fit.nc", "wrong-ending", ".csv", "fit.nc"),
    "picture-of-no-kind": (f"forecast fit.nc{AT} -o older.csv --plot new.gif", "wrong-ending", ".png", "new.gif"),
    # options of a fit
    "noise": (FIT + "older.nc --noise gauss", "unknown-noise", "'gauss'", "normal-drift"),
    "prior-without-value": (FIT + "older.nc --prior E", "not-a-pair", "--prior 'E'"),
    "prior-of-nothing": (FIT + "older.nc --prior Z=Normal(0,1)", "unknown-parameter", "Z", "alpha"),
    "prior-as-code": (FIT + "older.nc --prior E=__import__('os')", "not-a-prior", "__import__"),
    "prior-twice": (FIT + "older.nc --prior E=Normal(1,1) --prior E=Normal(2,1)", "given-twice", "--prior", "E"),
    "where-no-column": (FIT + "older.nc --where domain=='x'", "unknown-column", "'domain'", "N, D, run, loss"),
    "where-no-rows": (FIT + "older.nc --where N>1e15", "no-row-meets", "N>1e15"),
    "where-as-code": (FIT + "older.nc --where open('hacked','w')>0", "not-allowed", "open('hacked'"),
    "draws": (FIT + "older.nc --draws 5", "not-a-whole-number", "draws", "5"),
    "seed": (FIT + "older.nc --seed -1", "not-a-whole-number", "seed", "-1"),
    # options of show, forecast and score
    "ci-of-show": ("show fit.nc --ci 90", "not-a-probability", "90", "0.9"),
    "two-tables": ("show fit.nc --latex --csv", "two-tables", "one of them"),
    "ci-of-latex": ("show fit.nc --latex --ci 1", "not-a-probability"),
    "ci": (f"forecast fit.nc{AT} --ci 90 -o older.csv", "not-a-probability", "90"),
    "ci-nan": (f"forecast fit.nc{AT} --ci nan", "not-a-probability", "nan"),
    "forecast-seed": (f"forecast fit.nc{AT} --seed -1", "not-a-whole-number", "seed"),
    "no-settings": ("forecast fit.nc -o older.csv", "settings-not-clear", "--at", "--set"),
    "both-settings": (f"forecast fit.nc --at runs.csv{AT} -o older.csv", "settings-not-clear"),
    "values-for-a-table": ("forecast fit.nc --at N=7e9,D=2e12", "values-for-a-table", "--set N=7e9 --set D=2e12"),
    "set-without-value": ("forecast fit.nc --set N=", "not-a-pair", "--set 'N='"),
    "set-unknown": (f"forecast fit.nc{AT} --set r=0.1", "unknown-covariate", "'r'", "N, D"),
    "set-too-few": ("forecast fit.nc --set N=1e9", "missing-covariate", "D"),
    "set-no-number": ("forecast fit.nc --set N=big --set D=1e9", "not-a-number", "'big'"),
    "set-outside": ("forecast fit.nc --set N=8.1 --set D=1e10 -o older.csv", "out-of-support", "N 8.1"),
    "set-D-0": ("forecast fit.nc --set N=1e9 --set D=0", "infinite-at-base", "chinchilla"),
    "failed-checks": (f"forecast failed.nc{AT} -o older.csv", "failed-checks"),
    "at-lacks-column": ("forecast fit.nc --at at.csv -o older.csv", "missing-column", "column D"),
    "score-no-loss": ("score fit.nc at.csv", "missing-column", "columns loss, D are missing"),
    "score-failed": ("score failed.nc held.csv", "failed-checks"),
    "stack-options": ("compare runs.csv --law chinchilla -o older.csv", "wrong-ending", ".nc"),
    "two-formats": ("score fit.nc runs.csv --csv --json", "two-output-formats"),
    "explain-writes": ("anchors fit.nc --targets at.csv --budget 1 --explain a -o p.csv", "explain-writes-nothing", "--output"),
    "no-candidates": ("anchors fit.nc --targets at.csv --budget 1", "candidates-not-clear"),
    "two-units": ("convert unit.csv --to bits/byte --from perplexity -o older.csv", "two-units", "bits/byte", "perplexity"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_that_cannot_be_met_are_refused(command: Command, folder: Path, name: str) -> None:
    line, code, *values = REQUESTS[name]
    pd.DataFrame({"N": [1e9]}).to_csv("at.csv", index=False)
    pd.read_csv("runs.csv").assign(unit="bits/byte").to_csv("unit.csv", index=False)
    with unchanged(folder):
        done = command(*line.split(" "))
        rejected(done, code, *values)
        assert done.out == ""


@pytest.mark.parametrize("line", ["fit chinchilla runs.csv -o older.nc --dras 5", "show", "show fit.nc --ci wide", "fti"])
def test_unknown_options_and_missing_arguments_show_the_usage(command: Command, folder: Path, line: str) -> None:
    with unchanged(folder):
        done = command(*line.split())
        assert done.status == 2
        assert "Usage: bayeslaw" in done.err
        assert "Traceback" not in done.err


def test_an_output_that_is_a_folder_is_refused(command: Command, folder: Path) -> None:
    Path("taken.nc").mkdir()
    rejected(command("fit", "chinchilla", "runs.csv", "-q", "-o", "taken.nc"), "is-a-folder", "taken.nc")


def test_no_command_shows_the_help(command: Command) -> None:
    done = command()
    assert "Usage: bayeslaw" in done.out + done.err
    assert all(name in done.out + done.err for name in ("laws", "check", "fit", "show", "forecast", "score", "demo"))


def test_errors_that_are_bugs_keep_their_traceback(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("bayeslaw.load_fit", broken)
    with pytest.raises(ZeroDivisionError):
        command("show", "fit.nc")


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version").out == f"bayeslaw {bayeslaw.__version__}\n"


@pytest.mark.parametrize(("line", "name"), [("fit --law chinchilla runs.csv", "law"), ("forecast --fit fit.nc --set N=1e9", "fit")])
def test_arguments_given_as_options_are_told_to_stand_alone(command: Command, folder: Path, line: str, name: str) -> None:
    with unchanged(folder):
        done = command(*line.split())
    assert done.status == 2
    assert f"{name} is given by its position" in done.err


def test_settings_without_set_are_told_that_each_needs_it(command: Command) -> None:
    done = command("forecast", "fit.nc", "--set", "N=1e9", "D=1e10,2e10")
    assert done.status == 2
    assert "write --set before each setting, as in --set D=1e10,2e10" in done.err


@pytest.mark.parametrize("given", [("--ci", "90%"), ("--ci=90%",)])
def test_a_percentage_in_the_place_of_a_number_is_answered_with_the_number(command: Command, given: tuple[str, ...]) -> None:
    done = command("forecast", "fit.nc", "--set", "N=1e9", *given)
    assert (done.status, "Write 0.9 for 90%." in done.err) == (2, True)
    assert "--set" not in command("score", "fit.nc", "held.csv", "ptpp=31").err


def test_an_option_of_one_value_is_given_once(command: Command) -> None:
    """The last took the place of the others, so that the first condition counted for nothing."""
    done = command("score", "fit.nc", "held.csv", "--where", "N > 1e9", "--where=D > 1e9")
    assert (done.status, done.out) == (2, "")
    assert "'--where': it is given 2 times, of which only the last would count: give it once" in done.err
    assert "give it once" not in command("score", "fit.nc", "held.csv", "--force", "--force").err
    twice = ("--by", "E=domain", "--by", "A=domain")
    assert "by --pool (options={'by': …})" in command("backtest", "runs.csv", "--law", "chinchilla", *twice).err


@pytest.mark.usefixtures("folder")
def test_small_mistakes_get_a_hint(command: Command) -> None:
    rejected(command("forecast", "fit.nc", "--set", "parms=1e9", "--set", "D=1e10"), "unknown-covariate", "'parms'")
    rejected(command("forecast", "fit.nc", "--set", "N=1X", "--set", "D=1e10"), "not-a-number", "'1X'", "8.1B")
    ours = command("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e10", "--json").out
    assert command("forecast", "fit.nc", "--set", "params=1B", "--set", "tokens_b=10", "--json").out == ours
    line = ("fit", "chinchilla", "runs.csv", "-o", "new.nc", "--prior")
    rejected(command(*line, "E=LogNormal(0.5)"), "wrong-prior-arguments", "takes mu and sigma; sigma is missing")
    rejected(command(*line, "E=LogNormal(mu=0.5, sd=1)"), "wrong-prior-arguments", "sigma is missing and sd is none of them")
    for given in ({"N": [1e9]}, 3, None):
        with fails("not-a-table", type(given).__name__):
            bayeslaw.read_runs(given)  # type: ignore[arg-type]
    with fails("not-a-table", "list", "import_runs", "pandas.concat"):
        bayeslaw.read_runs(["a.csv", "b.csv"])  # type: ignore[arg-type]
    with fails("not-a-table", "Imported", "`runs`"):
        bayeslaw.read_runs(bayeslaw.import_runs("runs.csv", kind="table"))  # type: ignore[arg-type]
    with fails("unknown-ending", "logs", "import_runs"):
        bayeslaw.read_runs("logs")


def test_import_can_leave_its_notes_out(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("run,step,eval_loss\na,1,3.0\na,2,2.9\n", encoding="utf-8")
    assert "note: " in command("import", "log.csv", "-o", "runs.csv").out
    assert command("import", "log.csv", "-o", "quiet.csv", "-q").out.startswith("2 losses from 1 run written")
