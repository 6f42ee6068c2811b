"""The command report: what it writes and says, and what it refuses before it writes anything."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.table import Runs
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.figures import Picture
from bayeslaw.reporting.html import MOST_ROWS
from bayeslaw.reporting.report import report
from tests.commands import Command, rejected, unchanged
from tests.fixed import loaded_fit
from tests.pages import PICKS


@pytest.fixture
def pictures_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take most of the time of a report; test_report.py draws them."""
    monkeypatch.setattr(Picture, "bytes", lambda _, kind: b"<svg/>" if kind == "svg" else b"%PDF")


@pytest.mark.usefixtures("pictures_are_not_drawn")
def test_the_command_writes_page_numbers_and_files(command: Command, folder: Path) -> None:
    PICKS.to_csv("picks.csv", index=False)
    done = command("report", "fit.nc", "failed.nc", "-o", "r.html", "--json", "r.json", "--anchors", "picks.csv", "--ci", "0.8")
    assert (done.status, done.err) == (0, "")
    numbers, sound, failed, written = done.out.splitlines()
    assert (numbers, written) == ("numbers written to r.json", "report written to r.html")
    assert sound == "chinchilla (fit): sampling passed; model: no concerns"
    assert failed.startswith("chinchilla (failed): sampling FAILED (")
    assert failed.endswith("; model: not assessed, since the draws can't be trusted")
    facts = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert facts["command"] == "bayeslaw report fit.nc failed.nc -o r.html --json r.json --anchors picks.csv --ci 0.8"
    assert "eti80_lb" in facts["fits"][0]["parameters"]["columns"]
    html = Path("r.html").read_text(encoding="utf-8")
    assert "80% equal-tailed interval" in html
    assert command("report", "fit.nc", "-o", "r.html", "--latex", "tex").out.startswith("10 files written to tex\n")
    assert Path("tex/fit1-parameters.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.usefixtures("pictures_are_not_drawn")
def test_files_of_one_name_in_several_folders_are_told_apart(command: Command, folder: Path, sound_fit: Fit) -> None:
    for number, name in enumerate(("c1", "c2"), 1):
        Path(name).mkdir()
        pd.DataFrame({"law": ["chinchilla"], "fit": ["posterior"], "crps": [0.1 * number]}).to_csv(
            f"{name}/scores.csv", index=False
        )
        Stack.of({"chinchilla": sound_fit}, {"chinchilla": 1.0}).save(f"{name}/stack.nc")
        sound_fit.save(f"{name}/fit.nc")
    compared = ("c1/scores.csv", "c2/scores.csv", "runs/../c1/stack.nc", "c2/stack.nc")
    Path("runs").mkdir()
    options = [word for path in compared for word in ("--compare", path)]
    done = command("report", "c1/fit.nc", "c2/fit.nc", *options, "-o", "r.html", "--json", "r.json")
    assert (done.status, done.err) == (0, "")
    facts = json.loads(Path("r.json").read_text(encoding="utf-8"))
    captions = [one["caption"] for one in facts["comparison"]["tables"]]
    assert captions[-4:] == [
        "Weights in runs/../c1/stack.nc",
        "Weights in c2/stack.nc",
        "Scores in c1/scores.csv",
        "Scores in c2/scores.csv",
    ]
    assert [one["file"] for one in facts["fits"]] == ["c1/fit.nc", "c2/fit.nc"]
    assert [one["label"] for one in facts["fits"]] == ["chinchilla (c1/fit)", "chinchilla (c2/fit)"]


@pytest.mark.usefixtures("pictures_are_not_drawn")
def test_fits_of_a_stack_are_in_its_file_and_no_command_fits_one_of_them(command: Command, folder: Path, sound_fit: Fit) -> None:
    part = replace(sound_fit, info={**sound_fit.info, "data": "one.csv without N > 5e8"})
    Stack.of({"one": part, "other": sound_fit}, {"one": 0.6, "other": 0.4}).save("stack.nc")
    assert command("report", "stack.nc", "-o", "r.html", "--json", "r.json").status == 0
    facts = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert [(one["label"], one["file"], one["stack"]) for one in facts["fits"]] == [
        ("one", "stack.nc", "stack"),
        ("other", "stack.nc", "stack"),
    ]
    assert [one["made"]["command"] for one in facts["fits"]] == [None, None]
    html = Path("r.html").read_text(encoding="utf-8")
    assert "bayeslaw fit" not in html
    assert html.count("a member of a stack (stack)") == 2
    assert "<dt>fits</dt><dd>one: stack.nc; other: stack.nc</dd>" in html


@pytest.mark.usefixtures("pictures_are_not_drawn")
def test_a_fit_that_was_given_without_a_file_has_none(sound_fit: Fit) -> None:
    made = report({"mine": sound_fit})
    assert made.facts["fits"][0]["file"] is None
    assert "<dt>fits</dt><dd>mine</dd>" in made.html
    assert "mine.nc" not in made.html + made.json
    assert "-o chinchilla.nc " in made.facts["fits"][0]["made"]["command"]


@pytest.mark.usefixtures("pictures_are_not_drawn")
def test_the_commands_of_a_page_make_the_fits_again(command: Command, folder: Path) -> None:
    """After named columns, a condition, dropped rows, another prior and two updates: the same rows and the same draws."""
    table = pd.read_csv("runs.csv")
    old, new = table[table["run"] != "run 7"], table[table["run"] == "run 7"]
    old = old.assign(D=old["D"] / 1e9).rename(columns={"N": "params", "D": "seen by the end"})
    pd.concat([old, old.head(2)]).to_csv("old.csv", index=False)
    new.assign(run="it's new").to_csv("a new table.csv", index=False)
    new.assign(run="newer", loss=new["loss"] * 1.001).to_csv("newer.csv", index=False)
    short = ("--draws", "400", "--tune", "200", "--chains", "2", "--discrepancy", "none", "-q")
    chosen = (
        "--column",
        "D=seen by the end:B",
        "--where",
        "D > 2e8 and run != 'run 3'",
        "--duplicates",
        "drop",
        "--prior",
        "E=LogNormal(0.5, 0.15)",
        "--prior",
        "sigma_run=LogNormal(-5, 0.5)",
    )
    assert command("fit", "chinchilla", "old.csv", "-o", "one.nc", *chosen, *short, "--seed", "3").status == 0
    assert command("update", "one.nc", "a new table.csv", "-o", "two.nc", "--where", "D > 2e8", "-q", "--force").status == 0
    assert command("update", "two.nc", "newer.csv", "-o", "three.nc", "--seed", "8", "-q", "--force").status == 0
    origin = (
        "old.csv (37 rows, where D > 2e8 and run != 'run 3', without repeated rows) and a new table.csv (5 rows, where D > 2e8)"
    )
    assert f"fitted to {origin} and newer.csv (5 rows), " in command("show", "three.nc").out
    digests = [loaded_fit(name).info for name in ("one.nc", "three.nc")]
    for name, info in zip(("one.nc", "three.nc"), digests, strict=True):
        assert command("report", name, "-o", "r.html", "--json", "r.json").status == 0
        lines = json.loads(Path("r.json").read_text())["fits"][0]["made"]["command"].splitlines()
        assert len(lines) == (1 if name == "one.nc" else 3)
        Path(name).unlink()
        for line in lines:
            words = shlex.split(line)[1:]
            assert command(*words, "-q", *(["--force"] if words[0] == "update" else [])).status == 0
        again = loaded_fit(name).info
        assert [again[f"{part}_sha256"] for part in ("law", "data", "draws")] == [
            info[f"{part}_sha256"] for part in ("law", "data", "draws")
        ]
        assert again["sources"] == info["sources"]


@pytest.mark.usefixtures("pictures_are_not_drawn")
def test_a_page_speaks_of_options_in_its_commands_only(small_fit: Fit) -> None:
    """It is made in Python too, where there are none."""
    at = Runs(pd.DataFrame({"N": 1e9, "D": np.geomspace(1e9, 1e14, MOST_ROWS + 1)}), "at.csv")
    html = report({"short": small_fit}, at=at, force=True).html
    assert "1 more row of the table is not shown" in html
    assert "min-width" not in html.partition("figure img {")[2].partition("}")[0]  # pictures shrink with a narrow page
    text = re.sub(r"<(style|pre)>.*?</\1>", "", html, flags=re.DOTALL)
    assert len(text) < len(html)
    assert not re.findall(r".*--[a-z].*", text)


def test_a_card_of_ones_own_goes_by_its_file(command: Command, folder: Path, sound_fit: Fit) -> None:
    card = Path("card.toml").read_text(encoding="utf-8").replace('"chinchilla"', '"my-law"', 1)
    Path("my-law.toml").write_text(card, encoding="utf-8")
    law = load_law("my-law.toml")
    assert law.name == "my-law"
    own = report(
        {
            "a": replace(
                sound_fit, law=law, info={**sound_fit.info, "card": card, "sources": [{"name": "runs.csv", "rows": 40, "seed": 1}]}
            )
        },
        files={"a": "a.nc"},
    )
    again = own.facts["fits"][0]["made"]["command"]
    assert again.startswith("bayeslaw fit my-law.toml runs.csv -o a.nc ")
    rejected(command(*shlex.split(re.sub(r"--draws \d+", "--draws 5", again))[1:]), "not-a-whole-number", "draws")


@pytest.mark.parametrize(
    ("args", "code", "values"),
    [
        (("none.nc", "-o", "r.html"), "missing-file", ["none.nc"]),
        (("fit.nc", "-o", "r.pdf"), "wrong-ending", [".html", "r.pdf"]),
        (("fit.nc", "-o", "none/r.html"), "no-folder", ["none"]),
        (("fit.nc", "-o", "r.html", "--json", "r.txt"), "wrong-ending", [".json", "r.txt"]),
        (("fit.nc", "-o", "r.html", "--ci", "90"), "not-a-probability", [90]),
        (("fit.nc", "fit.nc", "-o", "r.html"), "given-twice", ["fit.nc"]),
        (("fit.nc", "-o", "r.html", "--compare", "runs.csv", "--compare", "./runs.csv"), "given-twice", ["runs.csv"]),
        (("fit.nc", "-o", "r.html", "--forecast", "none.csv"), "no-such-file", ["none.csv"]),
        (("fit.nc", "-o", "r.html", "--measured", "older.csv"), "no-rows", ["older.csv"]),
        (("fit.nc", "-o", "r.html", "--anchors", "runs.csv"), "missing-columns", ["spent"]),
        (("fit.nc", "-o", "r.html", "--plan", "runs.csv"), "missing-columns", ["confidence", "tokens"]),
        (("fit.nc", "-o", "r.html", "--plan", "none.csv"), "no-such-file", ["none.csv"]),
        (("fit.nc", "-o", "r.html", "--compare", "failed.nc"), "not-a-stack", ["failed.nc"]),
        (("fit.nc", "-o", "r.html", "--compare", "runs.csv"), "missing-column", ["runs.csv", "law"]),
        (("fit.nc", "failed.nc", "-o", "r.html", "--latex", "tex"), "failed-checks", ["failed.nc"]),
        (("fit.nc", "-o", "r.html", "--latex", "none/tex"), "no-folder", ["none/tex"]),
        (("fit.nc", "-o", "r.html", "--latex", "runs.csv"), "no-folder", ["runs.csv"]),
        (("fit.nc", "-o", "r.html", "--discrepancy", "much"), "not-a-discrepancy", ["much"]),
        (("fit.nc", "-o", "r.html", "--forecast", "runs.csv", "--seed", "-1"), "not-a-whole-number", ["seed"]),
    ],
)
def test_unusable_requests_are_refused_and_nothing_is_written(
    command: Command, folder: Path, args: tuple[str, ...], code: str, values: list[object]
) -> None:
    with unchanged(folder):
        rejected(command("report", *args), code, *values)
