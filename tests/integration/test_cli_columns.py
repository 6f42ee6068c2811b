"""`--column` on the command line: a table under other names and in other units gives the same as under ours."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.notes import table_notes
from bayeslaw.data.table import read_runs
from bayeslaw.inference.fit import _checks_of
from bayeslaw.laws.card import load_law
from tests.commands import Command, rejected

COLUMNS = ("--column", "N=model.n_params_M:M", "--column", "D=train_tokens_B:B", "--column", "loss=val/perplexity:ppl")
GRID = ("--candidates-grid", "N=1e8,1e9", "--candidates-grid", "D=1e9,1e10")


@pytest.fixture
def odd(folder: Path) -> pd.DataFrame:
    """Held-out losses as a training program might export them, beside the tables of the folder."""
    table = pd.read_csv("held.csv")
    odd = table.assign(N=table["N"] / 1e6, D=table["D"] / 1e9, loss=np.exp(table["loss"]))
    odd = odd.rename(columns={"N": "model.n_params_M", "D": "train_tokens_B", "loss": "val/perplexity"})
    odd.to_csv("odd.csv", index=False)
    odd.head(2).drop(columns="val/perplexity").to_csv("odd_at.csv", index=False)
    table.head(2).drop(columns="loss").to_csv("plain_at.csv", index=False)
    return odd


@pytest.mark.usefixtures("odd", "pictures_are_not_drawn")
@pytest.mark.parametrize(
    ("line", "columns"),
    [
        ("score fit.nc {held} --csv", COLUMNS),
        ("forecast fit.nc --at {at}", COLUMNS[:4]),
        ("anchors fit.nc --targets {at} --budget 1e22", COLUMNS[:4]),
        ("report fit.nc -o new.html --forecast {at} --measured {held} --json new.json", COLUMNS),
    ],
)
def test_odd_tables_give_the_same_as_plain_ones(command: Command, line: str, columns: tuple[str, ...]) -> None:
    more = GRID if line.startswith("anchors") else ()
    answers = []
    for held, at, how in (("odd.csv", "odd_at.csv", columns), ("held.csv", "plain_at.csv", ())):
        done = command(*line.format(held=held, at=at).split(), *more, *how)
        assert done.status == 0, done.err
        answers.append("\n".join(line for line in done.out.splitlines() if not line.startswith("read: ")))
        if "--json" in line:
            answers[-1] += "\n".join(map(repr, _numbers_of(json.loads(Path("new.json").read_text()))))
    close = [
        [float(word) for text in answer.replace(",", " ").split() if (word := text.strip("[]()%;:")) and _is_number(word)]
        for answer in answers
    ]
    assert len(close[0]) > (100 if "--json" in line else 2)
    np.testing.assert_allclose(close[0], close[1], rtol=1e-3)


def _numbers_of(value: Any) -> list[float]:
    """All numbers in the content of a JSON file, in its order."""
    if isinstance(value, dict | list):
        return [number for part in (value.values() if isinstance(value, dict) else value) for number in _numbers_of(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def test_check_proposes_columns_and_tries_them(command: Command, odd: pd.DataFrame) -> None:
    done = command("check", "odd.csv", "--law", "chinchilla")
    rejected(done, "faulty-table", "odd.csv")
    (line,) = [line for line in done.out.splitlines() if line.startswith("  --column")]
    options = shlex.split(line)
    assert {"N=model.n_params_M:M", "D=train_tokens_B:B", "loss=val/perplexity:perplexity"} <= {*options}
    again = command("check", "odd.csv", "--law", "chinchilla", *options)
    assert ("With them it is sound." in done.out) == (again.status == 0)
    odd.assign(**{"val/perplexity": [np.nan, *odd["val/perplexity"][1:]]}).to_csv("worse.csv", index=False)
    worse = command("check", "worse.csv", "--law", "chinchilla")
    odd.assign(web_ppl=3.0, **{"val/perplexity": 4.0}).rename(columns={"val/perplexity": "ppl"}).to_csv("two.csv", index=False)
    two = command("check", "two.csv", "--law", "chinchilla")
    assert "ppl:perplexity, web_ppl:perplexity may each be the loss" in two.out
    assert "it is sound" not in two.out
    assert "\n  loss is missing or not a number" in worse.out.partition("With them it has these faults:")[2]


@pytest.mark.usefixtures("odd")
def test_a_column_that_no_table_has_is_refused(command: Command) -> None:
    rejected(command("score", "fit.nc", "odd.csv", "--column", "N=model.n_param:M"), "missing-column", "'model.n_params_M'")
    rejected(command("score", "fit.nc", "odd.csv", "--column", "N"), "not-a-pair", "--column")
    line = ("report", "fit.nc", "-o", "new.html", "--forecast", "odd_at.csv", "--measured", "odd.csv")
    rejected(command(*line, "--column", "N=size:M"), "missing-column", "'size'")


@pytest.mark.usefixtures("odd")
def test_an_unknown_table_is_one_short_error(command: Command) -> None:
    done = command("fit", "chinchilla", "odd.csv", "-o", "new.nc", "-q")
    rejected(done, "missing-column", "columns loss, N, D are missing", "--column N=model.n_params_M:M")
    assert len(done.err.splitlines()) <= 5


def test_check_and_fit_say_that_a_column_may_name_runs(command: Command, tmp_path: Path) -> None:
    n = np.repeat([7e7, 1.6e8, 4.1e8], 4)
    d = n * np.tile([2, 5, 10, 20], 3)
    table = pd.DataFrame({"model": np.repeat([*"abc"], 4), "N": n, "D": d, "loss": 1.7 + 400 / n**0.34 + 1000 / d**0.35})
    table.to_csv(tmp_path / "runs.csv", index=False)
    done = command("check", str(tmp_path / "runs.csv"), "--law", "chinchilla")
    assert "note: no column names runs, so each of 12 rows counts as a run of its own; column model may name them" in done.out
    (note,) = [check for check in _checks_of(table_notes(read_runs(table), load_law("chinchilla"))) if check.name == "unnamed_runs"]
    assert note.verdict == "note"
    assert "--column run=model (in Python columns={'run': 'model'})" in note.text
    assert not _checks_of(table_notes(read_runs(table, columns={"run": "model"}), load_law("chinchilla")))


def test_check_and_fit_say_that_flops_are_of_something_else(command: Command, tmp_path: Path) -> None:
    n, d = np.geomspace(1e8, 1e9, 6), np.geomspace(1e9, 2e10, 6)
    table = pd.DataFrame({"N": n, "D": d, "loss": 1.7 + 400 / n**0.34 + 1000 / d**0.35, "flops": 6 * n})
    table.to_csv(tmp_path / "runs.csv", index=False)
    done = command("check", str(tmp_path / "runs.csv"), "--law", "chinchilla")
    (note,) = [line for line in done.out.splitlines() if line.startswith("note: ")]
    assert "column flops has " in note
    assert [str(check) for check in _checks_of(table_notes(read_runs(table), load_law("chinchilla")))] == [note]
