"""Make the notebooks from their scripts: run every NN_name.py and keep it, with what it printed and drew, as NN_name.ipynb.

    python notebooks/make.py            # all of them
    python notebooks/make.py 03 05      # those whose names begin so

The scripts are what is edited. A notebook runs in an empty folder, and warnings are errors in it.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).resolve().parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LONGEST = 300  # seconds of a cell
# As in the tests: warnings are errors, but for some of the libraries' own; the kernel's come when it ends.
STRICT = """\
import warnings
warnings.simplefilter("error")
for kind in (DeprecationWarning, FutureWarning, PendingDeprecationWarning):
    warnings.filterwarnings("ignore", category=kind, module="(arviz|pytensor|ipykernel).*")
"""


def scripts() -> list[Path]:
    """The notebooks' scripts, in the order of a user's questions."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def read(script: Path) -> Any:
    """A script as a notebook that has not run."""
    notebook = jupytext.read(script)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02d}"
        cell.metadata = nbformat.NotebookNode()
    return notebook


def client_in(folder: Path) -> NotebookClient:
    """What runs notebooks, whose kernel begins in a folder."""
    nothing = nbformat.v4.new_notebook()
    client = NotebookClient(nothing, timeout=LONGEST, record_timing=False, resources={"metadata": {"path": str(folder)}})
    client.extra_arguments = ["--log-level=ERROR"]  # no word of how the kernel is reached
    return client


def execute(notebook: Any, client: NotebookClient, first: str = "", *, last: bool = True) -> Any:
    """Run a notebook; what it printed and drew is kept in it, what changes from run to run is not.

    Parameters
    ----------
    notebook
    client : NotebookClient
        Of `client_in`.
    first : str
        Code that runs before its cells.
    last : bool
        Whether the kernel ends with the notebook.

    Raises
    ------
    CellExecutionError
        If a cell fails or warns.
    RuntimeError
        If a cell writes to standard error.
    """
    strict = nbformat.v4.new_code_cell(STRICT + first)
    notebook.cells.insert(0, strict)
    client.nb = notebook
    client.execute(cleanup_kc=last)
    notebook.cells.remove(strict)
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.NotebookNode()
        if cell.cell_type == "code":
            count += 1
            cell.execution_count, cell.outputs = count, _joined(cell.outputs)
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    output.data["image/png"] = _smaller(output.data["image/png"])
                if output.output_type == "execute_result":
                    output.execution_count = count
                if output.get("name") == "stderr":
                    raise RuntimeError(f"Cell {count} wrote to standard error:\n{output.text}")
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with pieces of one stream put together: where it was cut depends on the clock."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == "stream" and found[-1].get("name") == output.name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _smaller(picture: str) -> str:
    """A picture in base64 with a palette of 256 colours that keeps the rare ones, such as those of marks."""
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        made = io.BytesIO()
        image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def main() -> None:
    """Make those that are asked for."""
    wanted = tuple(sys.argv[1:]) or ("",)
    for script in scripts():
        if script.name.startswith(wanted):
            start = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                made = execute(read(script), client_in(Path(folder)))
            target = script.with_suffix(".ipynb")
            temporary = target.with_suffix(".tmp")
            temporary.write_text(nbformat.writes(made) + "\n", encoding="utf-8")
            temporary.replace(target)
            took, size = time.perf_counter() - start, target.stat().st_size / 1000
            print(f"{target.name}: {took:.0f} s, {size:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
