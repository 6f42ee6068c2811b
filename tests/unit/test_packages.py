"""Which package may import which: only those above it in this list, lazy imports and imports for types included."""

from __future__ import annotations

import ast
from pathlib import Path

import bayeslaw

ROOT = Path(bayeslaw.__file__).parent
ROWS = [
    {"core"}, {"laws"}, {"schedules"}, {"data"}, {"noise"}, {"engine", "posterior"}, {"inference"}, {"forecasting"}, {"evaluation"},
    {"design"}, {"planning"}, {"dynamics"}, {"plots"}, {"reporting"}, {"cli"},
]  # fmt: skip
ROW = {package: number for number, row in enumerate(ROWS) for package in row}


def imported(file: Path) -> set[str]:
    """Packages of bayeslaw that a file imports anywhere in it, its own left out."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("bayeslaw.") and name.split(".")[1] in ROW}
    return found - {file.relative_to(ROOT).parts[0]}


def test_every_package_has_a_row_and_no_module_lies_flat() -> None:
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    assert packages == set(ROW)
    assert {path.stem for path in ROOT.glob("*.py")} == {"__init__", "__main__"}


def test_packages_import_only_from_rows_above_their_own() -> None:
    wrong = [
        f"{file.relative_to(ROOT)} imports {other}"
        for package in ROW
        for file in sorted((ROOT / package).rglob("*.py"))
        for other in sorted(imported(file))
        if ROW[other] >= ROW[package]
    ]
    assert wrong == []


def test_only_commands_import_the_public_names() -> None:
    """`from bayeslaw import fit` within a package would import a lower row when it is used, and the test above would not see it."""
    wrong = [
        f"{file.relative_to(ROOT)}, line {node.lineno}: import from the module that defines the name"
        for package in sorted(ROW.keys() - {"cli"})
        for file in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and any(alias.name == "bayeslaw" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "bayeslaw")
    ]
    assert wrong == []
