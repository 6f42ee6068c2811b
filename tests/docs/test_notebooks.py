"""The notebooks run without a warning, and what is kept of them is what their scripts say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from notebooks.make import HERE, client_in, execute, read, scripts
from tests.delphi import keep_delphi

MOST_BYTES = 300_000
# Before each notebook: an empty folder, no names of the one before, and draws that notebooks and pages share (see tests.kept).
FIRST = """
%reset -f
import os, sys
from pathlib import Path
os.chdir({folder!r})
os.environ["BAYESLAW_CACHE"] = {cache!r}
sys.path.insert(0, {root!r})
import tests.kept
if not hasattr(tests.kept, "entered"):
    tests.kept.entered = tests.kept.keeping(Path({kept!r}), workers=True)
    tests.kept.entered.__enter__()
sys.path.remove({root!r})
del os, sys, Path, tests
"""
NAMES = [script.stem for script in scripts()]


def kept(name: str) -> Any:
    """A notebook as it is kept, with its outputs."""
    return nbformat.read(HERE / f"{name}.ipynb", as_version=4)


def kinds(notebook: Any) -> list[list[str]]:
    """For each code cell what kinds of output it has: text, table or picture."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[output.get("name") or " ".join(sorted(output.data)) for output in cell.outputs] for cell in cells]


def test_they_come_in_the_order_of_a_users_questions() -> None:
    assert [name[:2] for name in NAMES] == [f"{i:02d}" for i in range(1, 9)]
    assert sorted(p.stem for p in HERE.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_notebook_is_that_of_its_script(name: str) -> None:
    """`make notebooks` after every change of a script."""
    script, made = read(HERE / f"{name}.py"), kept(name)
    assert [(c.cell_type, c.source) for c in made.cells] == [(c.cell_type, c.source) for c in script.cells]
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any("image/png" in kind for cell in kinds(made) for kind in cell)


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_notebook_is_small_and_says_nothing_of_the_machine(name: str) -> None:
    path = HERE / f"{name}.ipynb"
    assert path.stat().st_size < MOST_BYTES
    texts = json.dumps([[o for o in c.get("outputs", []) if "image/png" not in o.get("data", {})] for c in kept(name).cells])
    assert not [word for word in ("/tmp", "/home", "/root", "/Users", "C:\\\\", "0x", "<Axes") if word in texts]


@pytest.mark.parametrize("name", NAMES)
def test_its_links_lead_somewhere(name: str) -> None:
    text = "\n".join(cell.source for cell in kept(name).cells if cell.cell_type == "markdown")
    links = [part.partition(")")[0] for part in text.split("](")[1:]]
    assert links
    assert [link for link in links if not (HERE / link).exists()] == []


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookClient]:
    """One kernel for all notebooks: to start it and to import everything takes as long as the cells of some."""
    client = client_in(tmp_path_factory.mktemp("kernel"))
    yield client
    execute(nbformat.v4.new_notebook(), client)


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name: str, client: NotebookClient, tmp_path: Path, kept_folder: Path) -> None:
    """In an empty folder, with warnings as errors; its cells show what the kept ones show. Nothing is downloaded."""
    folder, cache = tmp_path / "notebook", tmp_path / "cache"
    folder.mkdir()
    if name == "08_delphi":
        keep_delphi(cache)
    first = FIRST.format(folder=str(folder), cache=str(cache), root=str(HERE.parent), kept=str(kept_folder))
    made = execute(read(HERE / f"{name}.py"), client, first, last=False)
    assert kinds(made) == kinds(kept(name))
