"""The notebooks run without a warning, and what is kept of them is what their scripts say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from notebooks.make import HERE, execute, read, scripts
from tests.delphi import keep_delphi

MOST_BYTES = 300_000
# Notebooks fit the same tables as one another and as the pages; see tests.kept.
KEEPING = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.kept import keeping
_kept = keeping(Path({folder!r}), workers=True)
_kept.__enter__()
sys.path.remove({root!r})
del sys, Path, keeping
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


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name: str, tmp_path: Path, kept_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with warnings as errors; its cells show what the kept ones show. Nothing is downloaded."""
    if name == "08_delphi":
        monkeypatch.setenv("BAYESLAW_CACHE", str(tmp_path / "cache"))
        keep_delphi(tmp_path / "cache")
    (tmp_path / "notebook").mkdir()
    made = execute(read(HERE / f"{name}.py"), tmp_path / "notebook", KEEPING.format(root=str(HERE.parent), folder=str(kept_folder)))
    assert kinds(made) == kinds(kept(name))
