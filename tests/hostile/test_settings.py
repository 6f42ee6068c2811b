"""Numbers on the command line that nobody means: each ends with one line, before any work."""

from __future__ import annotations

import pytest

from tests.commands import Command
from tests.hostile.conftest import Refuse

FIT = "fit line.toml line.csv -q -o older.nc"
COMPARE = "compare line.csv --law line.toml -q"
BACKTEST = "backtest steps.csv --law line.toml --by step -q"
BUY = "anchors fit.nc --targets buy.csv --candidates buy.csv --cost cost"
AT = "forecast fit.nc --set x=1"
HUGE = ("4294967296", "9223372036854775807", "18446744073709551616", f"1{'0' * 30}", f"1{'0' * 5000}")
NO_COUNT = ("-1", "1.5", "nan", "1e3", "ten", "")
NO_AMOUNT = ("nan", "inf", "-1", "0", "many")

COUNTS = {
    "--draws": (FIT, (*HUGE, "99999999", *NO_COUNT, "0")),
    "--tune": (FIT, (*HUGE, "99999999", *NO_COUNT, "0")),
    "--chains": (FIT, (*HUGE, "99999", *NO_COUNT, "0")),
    "--seed": (FIT, (*HUGE[2:], *NO_COUNT)),
    "--bins": (f"{FIT} --noise normal", NO_AMOUNT),
    "--bootstrap": (COMPARE, HUGE),
    "--starts": (COMPARE, (*HUGE, "0")),
    "--cuts": (BACKTEST, (*HUGE, "0", "101", *NO_COUNT)),
    "--executor": (COMPARE, ("processes:0", "processes:99999999999", "processes:1e9", "dask://x", "tcp://", "", "\0", "http://x")),
    "--replicates": (f"{BUY} --budget 1", (*HUGE, "0")),
    "--rounds": (f"{BUY} --budget 1", (*HUGE[2:], "0")),
    "--nested": (f"{BUY} --budget 1", (*HUGE, "1")),
    "--budget": (BUY, NO_AMOUNT),
    "--ci": (AT, ("0.9999999999999999", "1e-320", "0", "1", "90", "nan", "inf", "wide")),
    "--discrepancy": (AT, ("nan", "inf", "-1%", "100%", "%", "1%%", "1e308", "9" * 5000)),
}
CASES = [(option, value) for option, (_, values) in COUNTS.items() for value in values]


@pytest.mark.parametrize(("option", "value"), CASES, ids=[f"{option} {value[:24]!r}" for option, value in CASES])
def test_an_absurd_number_is_refused_before_any_work(option: str, value: str, refuse: Refuse) -> None:
    refuse(*COUNTS[option][0].split(), option, value)


def test_many_draws_of_many_chains_are_counted_together(refuse: Refuse) -> None:
    refuse(*FIT.split(), "--draws", "1000000", "--chains", "11", code="too-many-draws")


SETTINGS = [
    "x=0:1:1000000", "x=0:1:1" + "0" * 5000, "x=1:2:-1", "x=1:2", "x=::", "x=0:1:3:4", "x=0:inf:3", "x=nan", "x=1e400", "x=1,,2",
    "x=" + "0," * 100_000 + "0", "x", "=1", "x=1 y=2", "x=" + "9" * 5000, "y=1", "x=0x10", "x=1;2",
]  # fmt: skip


@pytest.mark.parametrize("text", SETTINGS, ids=[text[:24] for text in SETTINGS])
def test_absurd_settings_are_refused(text: str, refuse: Refuse) -> None:
    refuse("forecast", "fit.nc", "--set", text)


TARGETS = {
    "": "", "x": "", "nowhere.csv": "", "=1": "not-a-pair", "x=": "not-a-pair", "x=nan": "not-a-number",
    "x=1 y=2": "not-a-number", "y=1": "unknown-covariate", "x=1,x=2": "given-twice", "x=1,y=2": "unknown-covariate",
    "x=11": "out-of-support", "x=0:1:1000000": "wrong-count", "buy.csv,x=1": "", "fit.nc": "", "x=" + "9" * 5000: "not-a-number",
}  # fmt: skip


@pytest.mark.parametrize("text", TARGETS, ids=[text[:24] for text in TARGETS])
def test_absurd_targets_are_refused(text: str, refuse: Refuse) -> None:
    refuse(*COMPARE.split(), "--at", text, code=TARGETS[text])


@pytest.mark.parametrize("other", ["--loo", "--by x", "--holdout x>0"])
def test_targets_and_another_hold_out_are_refused(other: str, refuse: Refuse) -> None:
    refuse(*COMPARE.split(), "--at", "x=1", *other.split(), code="several-holdouts")


@pytest.mark.parametrize(("prob", "name"), [("0.9", "eti90_lb"), ("0.999999", "eti99.9999_lb"), ("0.12345678", "eti12.345678_lb")])
def test_columns_are_named_by_the_exact_probability(prob: str, name: str, command: Command, here: object) -> None:
    done = command("show", "fit.nc", "--ci", prob, "--csv")
    assert done.status == 0
    assert name in done.out.splitlines()[0].split(",")
