"""The command versus: texts, tables and pictures, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command, load_from, rejected, unchanged
from tests.posteriors import law_named, posterior, scattered

LAW = law_named("chinchilla")
TYPICAL = oracles.typical(LAW)


@pytest.fixture
def fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Fit]:
    """A folder in which fits of these names can be loaded."""
    other = TYPICAL | {"A": 1.3 * TYPICAL["A"], "E": 0.97 * TYPICAL["E"]}
    known = {
        "web.nc": posterior(LAW, scattered(TYPICAL, 800, 1, 0.004), seed=1),
        "code.nc": posterior(LAW, scattered(other, 800, 2, 0.004), seed=2, frame=oracles.table(LAW, runs=6)),
        "copy.nc": posterior(LAW, scattered(TYPICAL, 800, 1, 0.004), seed=1),
        "few.nc": posterior(LAW, scattered(other, 80, 2, 0.004), seed=2),
    }

    load_from(known, tmp_path, monkeypatch)
    pd.DataFrame({"N": [1e9, 7e9], "D": [2e10, 1.4e11]}).to_csv("at.csv", index=False)
    pd.DataFrame({"run": ["s", "l"], "N": [1e8, 3e9], "D": [2e9, 6e10]}).to_csv("candidates.csv", index=False)
    return known


ALONG = ("--compute", "1e17:1e24:8")


def test_a_comparison_along_compute_with_a_table_and_a_picture(command: Command, fits: dict[str, Fit]) -> None:
    done = command("versus", "web.nc", "code.nc", *ALONG, "-o", "versus.csv", "--plot", "versus.svg")
    assert (done.status, done.err) == (0, "")
    assert "A is web and B is code" in done.out
    assert "They cross between 1e17 and 1e24 FLOPs" in done.out
    table = pd.read_csv("versus.csv")
    assert table["compute"].tolist() == pytest.approx(np.geomspace(1e17, 1e24, 8))
    assert (table["multiplier_ci90_lb"] < table["multiplier_median"]).all()
    picture = Path("versus.svg").read_text(encoding="utf-8")
    assert "P(code has the lower loss)" in picture
    assert "compute that code (B) needs" in picture


def test_concerns_about_either_fit_are_named(command: Command, fits: dict[str, Fit]) -> None:
    fits["code.nc"] = replace(fits["code.nc"], checks=(Check("misfit", False, "", "model", pd.DataFrame()),))
    done = command("versus", "web.nc", "code.nc", "--set", "N=7e9", "--set", "D=1e11")
    assert done.out.splitlines()[-1].startswith("Model of code.nc: concerns (misfit).")
    assert done.out.count("Model of") == 1


def test_json_has_the_table_in_full_and_the_crossing(command: Command, fits: dict[str, Fit]) -> None:
    results = json.loads(command("versus", "web.nc", "code.nc", *ALONG, "--json").out)["results"]
    assert results["names"] == {"A": "web", "B": "code"}
    assert len(results["comparison"]) == 8
    assert 0 < results["crossing"][0]["crosses"] <= 1
    assert results["notes"]


def test_a_comparison_at_settings_of_a_table_is_that_of_the_same_grid(command: Command, fits: dict[str, Fit]) -> None:
    by_table = json.loads(command("versus", "web.nc", "code.nc", "--at", "at.csv", "--on", "run", "--json").out)["results"]
    by_set = json.loads(command("versus", "web.nc", "code.nc", "--set", "N=1e9", "--set", "D=20B", "--on", "run", "--json").out)
    alone, first = by_set["results"]["comparison"][0], by_table["comparison"][0]
    numbers = [k for k, v in alone.items() if not isinstance(v, str)]
    assert len(numbers) > 10
    np.testing.assert_allclose([alone[k] for k in numbers], [first[k] for k in numbers], rtol=1e-3)  # points of paths lie elsewhere
    assert by_table["comparison"][1]["N"] == 7e9


def test_runs_that_would_decide_it_are_shown(command: Command, fits: dict[str, Fit]) -> None:
    done = command("versus", "web.nc", "code.nc", "--compute", "1e24", "--candidates", "candidates.csv", "--budget", "2e21")
    assert (done.status, done.err) == (0, "")
    assert "runs of web that would make the difference" in done.out
    assert "runs of code that would make the difference" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("web.nc",), "nothing-asked", "--compute"),
        (("web.nc", *ALONG), "nothing-to-compare", "--levels"),
        (("web.nc", "code.nc", "few.nc", *ALONG), "number-of-fits", "3"),
        (("web.nc", "few.nc", *ALONG), "unpaired-draws", "80"),
        (("web.nc", "web.nc", *ALONG), "given-twice", "web.nc"),
        (("web.nc", "./web.nc", *ALONG), "given-twice", "web.nc"),
        (("web.nc", "copy.nc", *ALONG), "given-twice", "web.nc and copy.nc"),
        (("web.nc", "code.nc", *ALONG, "--at", "at.csv"), "nothing-asked", "--at"),
        (("web.nc", *ALONG, "--levels", "a"), "not-two-names", "'a'"),
        (("web.nc", *ALONG, "--levels", "a,b"), "unknown-level", "'a'"),
        (("web.nc", "code.nc", *ALONG, "--shared-error", "2"), "bad-shared-error", "2"),
        (("web.nc", "code.nc", *ALONG, "--set-a", "r"), "not-a-pair", "'r'"),
        (("web.nc", "code.nc", *ALONG, "--budget", "1e20"), "candidates-without-budget", "--candidates"),
        (("web.nc", "code.nc", "--set", "N=1e9"), "missing-covariate", "D"),
        (("web.nc", "code.nc", *ALONG, "--plot", "p.txt"), "wrong-ending", "p.txt"),
        (("web.nc", "code.nc", *ALONG, "--width", "3.3"), "width-without-plot", "--width"),
        (("web.nc", "code.nc", *ALONG, "--column", "N=size"), "column-without-table", "--column"),
        (("web.nc", "code.nc", "--at", "at.csv", "-o", "at.csv"), "output-is-input", "at.csv"),
    ],
)
def test_what_is_refused_writes_nothing(
    command: Command, fits: dict[str, Fit], arguments: tuple[str, ...], code: str, named: str
) -> None:
    with unchanged(Path()):
        rejected(command("versus", *arguments), code, named)
