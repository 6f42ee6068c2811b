"""The JSON that commands print under `--json`, and their exit statuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

from bayeslaw.cli import main as cli
from bayeslaw.cli.answer import json_result
from bayeslaw.laws.card import law_names, load_law
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, rejected


def answer(command: Command, *args: object) -> dict[str, Any]:
    done = command(*args, "--json")
    assert (done.status, done.err) == (0, "")
    assert done.out.count("\n") == 1
    made: dict[str, Any] = json.loads(done.out)
    assert set(made) == {"bayeslaw", "text", "results"}
    return made


def every_command(app: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for registered in app.registered_commands:
        yield (*path, str(registered.name))
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from every_command(group.typer_instance, (*path, str(group.name)))


@pytest.mark.parametrize("path", list(every_command(cli.app)), ids=" ".join)
def test_every_command_has_the_option(path: tuple[str, ...], command: Command) -> None:
    done = command(*path, "--help")
    assert done.status == 0
    assert "--json" in done.out


def test_report_alone_writes_it_to_a_file(command: Command) -> None:
    """As README.md and docs/commands_head.md say."""
    flags = {path: "--json <path>" in " ".join(command(*path, "--help").out.lower().split()) for path in every_command(cli.app)}
    assert [path for path, takes in flags.items() if takes] == [("report",)]


def test_laws_are_listed(command: Command) -> None:
    made = answer(command, "laws")["results"]["laws"]
    assert [one["name"] for one in made] == law_names()
    assert all(one["title"] == load_law(one["name"]).title for one in made)


def test_a_law_has_all_its_parts(command: Command) -> None:
    made, law = answer(command, "laws", "transfer-target")["results"]["law"], load_law("transfer-target")
    assert made["latex"] == law.latex()
    assert {n: p["prior"] for n, p in made["parameters"].items()} == {n: str(p.prior) for n, p in law.parameters.items()}
    assert made["published"] == {k: dict(v) for k, v in law.published.items()}


def test_parameters_come_in_full_precision(command: Command, folder: Path, sound_fit: Fit) -> None:
    made = answer(command, "show", "fit.nc")["results"]
    summary = sound_fit.summary(0.9)
    assert [row[summary.index.name or "name"] for row in made["parameters"]] == list(summary.index)
    for row, (_, expected) in zip(made["parameters"], summary.iterrows(), strict=True):
        assert row["median"] == expected["median"]
    assert (made["sampling"], made["model"]) == ("passed", "no concerns")
    assert [one["text"] for one in made["checks"]] == [one.text for one in sound_fit.checks]


def test_intervals_of_a_failed_fit_are_withheld(command: Command, folder: Path) -> None:
    made = answer(command, "show", "failed.nc")["results"]
    assert (made["sampling"], made["model"]) == ("FAILED", "not assessed")
    assert not any(name.endswith("_lb") for row in made["parameters"] for name in row)
    done = command("forecast", "failed.nc", "--set", "N=1e8", "--set", "D=1e9", "--json")
    assert done.status == 2
    content = json.loads(done.out)
    assert content["error"] == done.err.removeprefix("Error: ").rstrip("\n")
    assert content["code"] == "failed-checks"
    assert content["results"] == {}


def test_a_forecast_is_the_table_of_the_csv(command: Command, folder: Path) -> None:
    given = ("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e10,1e11")
    made = pd.DataFrame(answer(command, *given)["results"]["forecast"])
    command(*given, "-o", "same.csv")
    pd.testing.assert_frame_equal(made, pd.read_csv("same.csv"), check_dtype=False)


def test_scores_are_numbers(command: Command, folder: Path) -> None:
    (row,) = answer(command, "score", "fit.nc", "held.csv")["results"]["scores"]
    assert (row["rows"], row["sample"]) == (20, "held-out")
    assert isinstance(row["crps"], float)


def test_faults_of_a_table_are_listed(command: Command, folder: Path) -> None:
    pd.DataFrame({"N": [1e8, -1, 1e9], "D": [1e9, 1e9, 2e9], "loss": [3.0, np.nan, 2.8]}).to_csv("faulty.csv", index=False)
    done = command("check", "faulty.csv", "--law", "chinchilla", "--json")
    rejected(done, "faulty-table", "faulty.csv", 2)
    faults = json.loads(done.out)["results"]["faults"]
    assert [(one["row"], one["column"]) for one in faults] == [(2, "loss"), (2, "N")]
    assert len(answer(command, "check", "runs.csv", "--law", "chinchilla")["text"]) == 1


def test_missing_and_infinite_numbers_become_null_and_text() -> None:
    table = pd.DataFrame({"a": [np.nan, np.inf, -np.inf], "b": ["x", None, "z"]}, index=pd.Index(["p", "q", "r"]))
    assert json_result(table) == [
        {"name": "p", "a": None, "b": "x"}, {"name": "q", "a": "Infinity", "b": None}, {"name": "r", "a": "-Infinity", "b": "z"},
    ]  # fmt: skip
    assert json_result({"n": np.int64(3), "ok": np.bool_(True), "path": Path("x")}) == {"n": 3, "ok": True, "path": "x"}


def test_bad_input_and_bad_usage_end_with_status_2(command: Command, folder: Path) -> None:
    assert command("laws").status == 0
    assert command("--help").status == 0
    assert command("laws", "chinchila").status == 2  # bad input
    assert command("laws", "--nothing").status == 2  # bad usage
    assert command("nothing").status == 2
