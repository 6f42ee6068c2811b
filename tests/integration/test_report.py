"""The pictures of a report as they are drawn, and the LaTeX files compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from bayeslaw.data.table import Runs
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.latex import is_own
from bayeslaw.reporting.report import Report, report


@pytest.fixture(scope="module")
def made(sound_fit: Fit) -> Report:
    at = Runs(pd.DataFrame({"N": [1e9] * 3, "D": [1e9, 1e10, 1e14]}), "at.csv")
    return report({"sound": sound_fit}, at=at)


def test_pictures_link_to_nothing_outside(made: Report) -> None:
    for name in ("fit1-data", "forecast1"):
        svg = made.pictures[name].bytes("svg").decode()
        links = re.findall(r'(?:xlink:)?href="([^"]*)"', svg)
        assert all(link.startswith(("#", "data:image/png")) for link in links)
        assert "<script" not in svg


def test_the_same_fits_give_the_same_bytes(sound_fit: Fit) -> None:
    one, other = (report({"sound": sound_fit}) for _ in range(2))
    assert one.json == other.json
    for kind in ("svg", "pdf"):
        assert one.pictures["fit1-parameters"].bytes(kind) == other.pictures["fit1-parameters"].bytes(kind)


def test_files_for_a_paper_are_known_again(made: Report) -> None:
    assert [name for name, data in made.latex.items() if not is_own(data)] == []


def test_a_page_with_its_pictures_is_a_small_file(made: Report) -> None:
    assert len(made.html) < 5_000_000


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here")
def test_latex_compiles(made: Report, tmp_path: Path) -> None:
    for name, data in made.latex.items():
        (tmp_path / name).write_bytes(data)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
